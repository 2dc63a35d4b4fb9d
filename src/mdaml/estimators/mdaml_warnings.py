"""What a fit of MDaML warns of: a learned distance should never be worse than none in silence."""

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mdaml._typing import FloatArray, IntArray
from mdaml._validation import has_unit_rows, warn
from mdaml.constraints.value import Constraints
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.solver.conjugate_gradient import Status
from mdaml.solver.fit import Fit
from mdaml.solver.spec import Spec

_UNLIKE_SCALES = 10.0  # times as wide is one feature as another
_N_ROWS, _N_CHECKED = 2_000, 20_000  # rows and comparisons that are looked at
_HARDLY = 0.005  # of the comparisons


def warn_if_needed(model: Any, spec: Spec, fit: Fit) -> None:
    """Warn of a fit that was cut short, of a weight too low, of comparisons that cannot be met."""
    few_by_design = spec.neighbors and isinstance(model.max_iter, str)
    unfinished = fit.status is Status.MAX_ITER and not few_by_design
    if unfinished and fit.history[-1] < 0.5 * fit.history[-4]:
        warn(
            f"{fit.status.value} The last of {fit.n_last} rounds still halved the objective: "
            "increase max_iter.",
            ConvergenceWarning,
        )
    if fit.spec.triplet_weight < fit.critical_weight:
        advice = "Increase triplet_weight."
        if np.isinf(fit.critical_weight):
            advice = "Along no direction are dissimilar samples farther apart than similar ones."
        warn(
            f"triplet_weight={fit.spec.triplet_weight:g} is below lambda1_critical_="
            f"{fit.critical_weight:.3g}: the best metric is zero, and what was learned "
            f"depends on where the iteration stopped. {advice}",
        )
        return
    if spec.anchor == 0.0 and fit.mean_loss > 0.49:
        warn(
            "The weighted mean loss of the triplets is no lower than that of a zero metric: "
            "the comparisons could not be met. Are they consistent, and are the features "
            "informative and scaled? If so, increase triplet_weight.",
        )


def warn_of_scales(X: FloatArray) -> None:
    """Warn of features that differ much in scale, for their units decide about distances.

    Not where they were made to: rows of unit length, and uncorrelated columns, are embeddings and
    principal components.
    """
    some = X[:: max(1, len(X) // _N_ROWS)].astype(np.float64)
    some -= some.mean(axis=0)
    widths = some.std(axis=0)
    widths = widths[widths > 0.0]
    if len(widths) < 2 or has_unit_rows(X):
        return
    narrow = float(np.quantile(widths, 0.25))  # single columns that hardly vary do no harm
    if widths.max() <= _UNLIKE_SCALES * narrow:
        return
    spread = np.sqrt(np.square(some).sum(axis=0))
    some /= np.where(spread > 0.0, spread, 1.0)
    alike = np.abs(some.T @ some) - np.eye(some.shape[1])
    if alike.max() < 4.0 / np.sqrt(len(some)):
        return
    warn(
        f"The features differ much in scale: a quarter of them have standard deviations up to "
        f"{narrow:.2g}, the widest has {widths.max():.2g} and decides about distances. Scale them "
        "first, for example in make_pipeline(StandardScaler(), MDaML())."
    )


def warn_if_hardly_learned(
    X: FloatArray, comparisons: Constraints, start: FloatArray | str | None, L: FloatArray
) -> None:
    """Warn of a metric that agrees with its own comparisons hardly better than the start does.

    ``start`` is a positive definite matrix, or None for the Euclidean distance. A whitened start
    has learned from X already.
    """
    if isinstance(start, str):
        return
    some = slice(None, None, max(1, comparisons.n_constraints // _N_CHECKED))
    of_triplets = len(comparisons.triplets) > 0  # all of them, or quadruplets
    given = (comparisons.triplets if of_triplets else comparisons.quadruplets)[some]
    weights = comparisons.weights[some]
    rows, places = X, given
    if len(X) > given.size:  # map only those that are named
        named, places = np.unique(given, return_inverse=True)
        rows, places = X[named], places.reshape(given.shape)
    near, far = places[:, :2], places[:, ::2] if of_triplets else places[:, 2:]
    pairs = [np.array(near, order="C"), np.array(far, order="C")]
    before = _agreement(rows if start is None else rows @ np.linalg.cholesky(start), pairs, weights)
    after = _agreement(rows @ L.T.astype(X.dtype), pairs, weights)
    if after < min(before + _HARDLY, 1.0 - _HARDLY):
        warn(
            f"The learned distance agrees with {after:.1%} of the comparisons, that before "
            f"learning with {before:.1%}: there was hardly anything to learn from them. Use the "
            "distance before learning, or check that the comparisons are right and that the "
            "features can tell what they say."
        )


def _agreement(Y: FloatArray, pairs: list[IntArray], weights: FloatArray) -> float:
    """Return the weight of the comparisons whose near pair, the first, is nearer than the far."""
    near, far = (pair_sq_dists(Y, each) for each in pairs)
    return float(np.average(near < far, weights=weights))

"""Warnings of a fit of MDaML: no learned distance may be worse than none without a warning."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from mdaml._typing import FloatArray, IntArray
from mdaml._validation import has_unit_rows, warn
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.matching import split_weights
from mdaml.constraints.value import Constraints
from mdaml.estimators.posing import Posed
from mdaml.holdout.comparisons import are_right
from mdaml.holdout.rule import SWAPPED, Gain, are_unexplained, warn_of_unexplained
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.solver.conjugate_gradient import Status
from mdaml.solver.fit import Fit, comparisons_of
from mdaml.solver.spec import Spec

_UNLIKE_SCALES = 10.0  # one feature is so many times as wide as another
_N_ROWS, _N_CHECKED = 2_000, 20_000  # rows and comparisons that are looked at
_HARDLY = 0.005  # of the comparisons
_FEWER_THAN_HALF, _ERRORS = 0.45, 6.0  # a share, and standard errors below a half


def warn_if_needed(model: BaseEstimator, spec: Spec, fit: Fit) -> None:
    """Warn of a fit that was cut short, of a weight too low, of comparisons that cannot be met."""
    few_by_design = spec.neighbors and isinstance(model.max_iter, str)
    unfinished = fit.status is Status.MAX_ITER and not few_by_design and not spec.keep_start
    if unfinished and fit.history[-1] < 0.5 * fit.history[-4]:
        warn(
            f"{fit.status.value} The last of {fit.n_last} rounds still halved the objective: "
            "increase max_iter.",
            ConvergenceWarning,
        )
    if fit.spec.triplet_weight < fit.critical_weight and not spec.keep_start:
        advice = "Increase triplet_weight."
        if np.isinf(fit.critical_weight):
            advice = "Along no direction are dissimilar samples farther apart than similar ones."
        warn(
            f"triplet_weight={fit.spec.triplet_weight:g} is below lambda1_critical_="
            f"{fit.critical_weight:.3g}: the best metric is zero, and what was learned "
            f"depends on where the iteration stopped. {advice}"
        )
        return
    if spec.anchor == 0.0 and fit.mean_loss > 0.49 and not spec.keep_start:
        warn(
            "The weighted mean loss of the triplets is no lower than that of a zero metric: "
            "the comparisons could not be met. Are they consistent, and are the features "
            "informative and scaled? If so, increase triplet_weight."
        )


def warn_of_input(
    model: BaseEstimator, samples: FloatArray, given: Supervision, posed: Posed
) -> None:
    """Warn of samples and comparisons from which a metric cannot be learned well."""
    start = posed.spec.metric
    if start is None:
        warn_of_scales(samples)
    if isinstance(given, Constraints):
        warn_of_swapped(samples, given, start)
    # A metric of low rank also leaves out directions that no comparison is about.
    learned = posed.spec.rank is None and not posed.spec.keep_start
    if isinstance(posed.supervision, Constraints) and learned:
        comparisons = comparisons_of(model, len(samples))
        warn_if_hardly_learned(samples, comparisons, start, model.components_)


def warn_of_scales(X: FloatArray) -> None:
    """Warn of features that differ much in scale, for their units decide about distances.

    Not of embeddings and principal components, whose scales differ on purpose: these are rows of
    unit length, and uncorrelated columns.
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


def warn_of_gain(spec: Spec, gain: Gain | None, supervision: Supervision) -> None:
    """Warn if the start was kept, or if learning makes held-out comparisons or samples worse."""
    if not spec.is_measured:
        return
    if spec.keep_start and gain is None:
        few, how = "too few rows of each class", "rows, or set shrinkage"
        if isinstance(supervision, Constraints):
            few = f"{supervision.n_constraints} comparisons are not enough"
            how = "comparisons, or set anchor"
        warn(
            f"Too little to learn from: {few} to hold some out and see whether learning helps. The "
            f"distance before learning is returned. Add {how} to a number to learn in any case."
        )
    elif spec.keep_start and gain is not None:
        if gain.before == 1.0:
            warn(
                "Nothing was learned, because nothing had to be: the distance before learning gets "
                f"all {gain.n_units} held-out units right. It is returned."
            )
            return
        if are_unexplained(gain):
            warn_of_unexplained(gain)
            return
        what, how = "comparisons", "anchor"
        if gain.score == "votes":
            what, how = "labels", "shrinkage"
        warn(
            f"Nothing was learned: no metric led the distance before learning by more than chance. "
            f"{gain.describe()} The distance before learning is returned. More {what} may help, or "
            f"other features; check that the {what} are right. Set {how} to a number to learn in "
            "any case."
        )
    elif gain is not None and gain.high < 0.0:
        warn(
            f"Learning made it worse. {gain.describe()} Use the distance before learning, or leave "
            "the parameters to be chosen; check that what was passed is right."
        )


def warn_of_swapped(
    X: FloatArray, supervision: Constraints, start: FloatArray | str | None
) -> None:
    """Warn if far fewer than half of the comparisons hold before learning.

    ``start`` is a positive definite matrix, or anything else for the Euclidean distance.
    """
    if supervision.n_constraints == len(supervision.pairs):
        return
    rows, near, far, weights = _some(X, supervision)
    F = np.linalg.cholesky(start) if isinstance(start, np.ndarray) else None
    share = _agreement(rows if F is None else rows @ F, [near, far], weights)
    error = 0.5 / np.sqrt(len(weights))
    if share < min(SWAPPED, 0.5 - 3.0 * error) or share < min(
        _FEWER_THAN_HALF, 0.5 - _ERRORS * error
    ):
        warn(
            f"Only {share:.1%} of the comparisons hold before learning, far fewer than half. Are "
            "near and far swapped? A triplet is (reference, nearer one, farther one), a quadruplet "
            "(nearer pair, farther pair)."
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
    rows, near, far, weights = _some(X, comparisons)
    pairs = [near, far]
    before = _agreement(rows if start is None else rows @ np.linalg.cholesky(start), pairs, weights)
    after = _agreement(rows @ L.T.astype(X.dtype), pairs, weights)
    if after < min(before + _HARDLY, 1.0 - _HARDLY):
        warn(
            f"The learned distance agrees with {after:.1%} of the comparisons, that before "
            f"learning with {before:.1%}: there was hardly anything to learn from them. Use the "
            "distance before learning, or check that the comparisons are right and that the "
            "features can tell what they say."
        )


def _some(
    X: FloatArray, supervision: Constraints
) -> tuple[FloatArray, IntArray, IntArray, FloatArray]:
    """Return rows, near and far pairs of them, and weights, of at most 20 000 comparisons."""
    step = max(1, supervision.n_constraints // _N_CHECKED)
    if step > 1:
        supervision = supervision.select(np.arange(0, supervision.n_constraints, step))
    compared = supervision.comparisons()
    weights = np.concatenate(split_weights(supervision)[::2])  # pairs are no comparisons
    if len(X) <= compared.size:
        return X, compared[:, :2].copy(), compared[:, 2:].copy(), weights
    named, places = np.unique(compared, return_inverse=True)  # map only those that are named
    places = places.reshape(compared.shape)
    return X[named], places[:, :2].copy(), places[:, 2:].copy(), weights


def _agreement(Y: FloatArray, pairs: list[IntArray], weights: FloatArray) -> float:
    """Return the weight of the comparisons whose near pair, the first, is nearer; ties half."""
    near, far = (pair_sq_dists(Y, each) for each in pairs)
    return float(np.average(are_right(far - near), weights=weights))

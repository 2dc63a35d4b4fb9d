"""Where metric and modes start."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mdaml._typing import FloatArray, Rng
from mdaml.solver.alternation import Alternation, Outcome, State
from mdaml.solver.modes import Modes
from mdaml.solver.objective import NO_ANCHOR, Anchor, Space
from mdaml.solver.spaces import FullRank, GeodesicPath, LowRank
from mdaml.solver.spec import Spec
from mdaml.solver.store import Store

N_AXES = 32  # at least so many principal axes steer the solver; more if the rank is higher
# A start of low rank with the distances of the samples would be thousands of margins wide where
# features are many. Shrinking it all but erases directions that are needed: after 20 steps the
# objective was more than 100 times that of a start at ten margins.
START_SQ_DIST = 10.0
# When a start of full rank is scaled; see docs/solver.md.
BETTER, FAR_BETTER = 4.0, 10.0  # so many times lower is the objective
MUCH_WIDER = 10.0  # so many times longer are squared distances
NARROWEST = 3.0  # margins, the mean squared distance
_FEW_SAMPLES = 50_000  # of which both first rounds are kept
ANCHOR_SQ_DIST = 3.0  # margins, the mean squared distance at the anchor; see docs/accuracy.md
# A fit starts at so many times its anchor: steps shrink a direction sooner than they widen it.
WIDER = 10.0


@dataclass(frozen=True)
class Start:
    """The space of the metrics, the factor of the first one, and the anchor."""

    space: Space
    F: FloatArray
    anchor: Anchor = NO_ANCHOR


def start_metric(spec: Spec, store: Store, rng: Rng) -> Start:
    """Return the space of the metrics, their start and their anchor."""
    if spec.rank is not None:
        return _start_of_low_rank(spec, spec.rank, store, rng)
    M = spec.metric if isinstance(spec.metric, np.ndarray) else None
    F: FloatArray = np.eye(store.shape[1])
    if M is not None:
        F = np.linalg.cholesky(M)
    elif spec.metric is not None:
        F = whitening_factor(store.covariance())
    if not spec.anchor:
        return Start(FullRank(), F)
    inverse: FloatArray = np.ones((1, 1))
    if spec.metric is not None:
        half = np.linalg.inv(F)
        inverse = half.T @ half
    covariance = store.covariance()
    anchor = _anchor(spec, len(F), inverse, 2.0 * float(np.vdot(covariance @ F, F)))
    # At a multiple of the anchor. A start that is kept comes back bit for bit.
    if M is None and not spec.keep_start:
        F = F * float(np.sqrt(WIDER * inverse[0, 0] / anchor.precision[0, 0]))
    return Start(FullRank(), F, anchor)


def _start_of_low_rank(spec: Spec, rank: int, store: Store, rng: Rng) -> Start:
    axes, variances, level = store.leading_axes(max(rank, N_AXES), rng)
    space = LowRank.among(store, axes, variances, level)
    inverse: FloatArray = np.ones((1, 1))
    if isinstance(spec.metric, np.ndarray):
        F = low_rank_part(spec.metric, store, rank, rng)
        inverse = np.linalg.inv(spec.metric) if spec.anchor else inverse
        level *= float(np.mean(spec.metric.diagonal()))  # roughly, as of independent features
    else:
        lengths = np.ones(len(variances))
        if spec.metric is not None and level > 0.0:
            lengths = 1.0 / np.sqrt(variances + 0.1 * level)
        F = leading_factor(axes, variances, lengths, rank, START_SQ_DIST)
    if not spec.anchor:
        return Start(space, F)
    anchor = _anchor(spec, len(F), inverse, 2.0 * level * len(F))
    return Start(space, _of_full_column_rank(F, rng), anchor)


def _anchor(spec: Spec, d: int, inverse: FloatArray, mean_sq_dist: float) -> Anchor:
    """Return the anchor at a multiple of a metric, given its inverse and mean squared distance.

    The divergence is one for each feature, in units of the mean loss. The multiple is such that
    samples are ``ANCHOR_SQ_DIST`` margins apart in the mean.
    """
    strength = spec.anchor * spec.triplet_weight / (spec.n_modes * d)
    multiple = ANCHOR_SQ_DIST / mean_sq_dist if mean_sq_dist > 0.0 else 1.0
    return Anchor(strength, inverse / multiple, spec.barrier)


def _of_full_column_rank(F: FloatArray, rng: Rng) -> FloatArray:
    """Return F with columns that are zero replaced by short ones across the others."""
    empty = np.flatnonzero(np.abs(F).max(axis=0) == 0.0)
    if len(empty) == 0:
        return F
    others = np.linalg.qr(np.delete(F, empty, axis=1))[0]
    new = rng.normal(size=(len(F), len(empty)))
    new = np.linalg.qr(new - others @ (others.T @ new))[0]
    F = F.copy()
    F[:, empty] = new * max(1e-3 * float(np.linalg.norm(F)), 1e-3)
    return F


def leading_factor(
    axes: FloatArray, variances: FloatArray, lengths: FloatArray, rank: int, mean_sq_dist: float
) -> FloatArray:
    """Return a factor of the leading axes under which samples have a mean squared distance.

    Its columns have the given lengths, up to a common factor. Where there are fewer axes than
    columns, the others are zero.
    """
    variances, lengths = variances[:rank], lengths[:rank]
    spread = 2.0 * float(np.sum(variances * lengths**2))
    if spread > 0.0:
        lengths = lengths * np.sqrt(mean_sq_dist / spread)
    F = np.zeros((len(axes), rank))
    F[:, : len(lengths)] = axes[:, :rank] * lengths
    return F


def low_rank_part(M: FloatArray, store: Store, rank: int, rng: Rng) -> FloatArray:
    """Return a factor of the metric of a rank that keeps most of what M sees in the samples.

    The samples mapped by a factor of M are reduced to their principal axes; of the identity this
    leaves the principal axes of X. The mean squared distance stays that of M.
    """
    G = np.linalg.cholesky(M)
    axes, variances, level = store.mapped(G).leading_axes(max(rank, N_AXES), rng)
    mean_sq_dist = 2.0 * level * len(axes)
    return G @ leading_factor(axes, variances, np.ones(len(variances)), rank, mean_sq_dist)


def whitening_factor(covariance: FloatArray, ridge: float = 0.1) -> FloatArray:
    """Return F with ``F F^T`` the inverse of a covariance, ridged, and rescaled.

    A fraction of the mean eigenvalue is added to the diagonal; then the mean squared distance
    between samples is made that of X itself. Constant samples leave the identity.
    """
    level = np.trace(covariance) / len(covariance)
    if not level > 0:
        return np.eye(len(covariance))
    R = scipy.linalg.cholesky(covariance + ridge * level * np.eye(len(covariance)))
    F = scipy.linalg.solve_triangular(R, np.eye(len(R)))
    return F * np.sqrt(np.trace(covariance) / np.vdot(covariance @ F, F))


def start_modes(spec: Spec, store: Store, rng: Rng) -> Modes:
    """Return the first modes: weights, and the weighted means of the samples."""
    if isinstance(spec.weights, np.ndarray):
        weights = store.given_weights(spec.weights, spec.eta)
    elif spec.n_modes == 1:
        weights = store.given_weights(np.ones((store.shape[0], 1)), spec.eta)
    elif spec.weights == "gmm":
        weights = store.mixture_weights(spec.n_modes, spec.eta, rng)
    else:
        weights = store.kmeans_weights(spec.n_modes, spec.eta, rng)
    sums, masses = store.weighted_means(weights)
    return Modes((sums / masses[:, None]).astype(store.dtype), weights)


def better_start(alternation: Alternation, state: State) -> State | Outcome:
    """Return a start or, where that is far better, the one at the best multiple of its metric.

    Or the first round from there, where that had to be made to decide.

    Squared distances grow with the number of features, the margin of a triplet does not. From a
    start hundreds of margins wide the first steps shrink a few directions much too far; the best
    multiple is then far better. Where it is somewhat better both are tried, and it is taken if it
    is better still after a round: a wide start that one round makes good leaves more directions to
    choose from. A start too narrow for any margin has nothing to recommend it.
    """
    # Deviates from the paper (11): it starts at the identity in any case.
    multiple, other = rescaled(alternation, state)
    if multiple > MUCH_WIDER or state.value > FAR_BETTER * other.value:
        return other
    if state.value <= BETTER * other.value:
        return state
    here, from_here = _first_round(alternation, state)
    there, from_there = _first_round(alternation, other)
    return from_there if here > BETTER * there else from_here


def _first_round(alternation: Alternation, start: State) -> tuple[float, State | Outcome]:
    """Return the objective after a round, and that round or, of many samples, the start again.

    Two rounds beside each other would be the most memory that a fit takes.
    """
    made = alternation.run(start, max_iter=1, tol=0.0)
    return made.state.value, made if alternation.store.shape[0] <= _FEW_SAMPLES else start


def rescaled(alternation: Alternation, state: State) -> tuple[float, State]:
    """Return the best multiple of the metric, and the state there."""
    multiple, F = _best_multiple(alternation, state)  # whose projected samples are gone by now
    return multiple, alternation.at_metric(F, state)


def _best_multiple(alternation: Alternation, state: State) -> tuple[float, FloatArray]:
    store, space = alternation.store, FullRank()
    path = space.multiples(alternation.objective(state), store.small(state.F))
    mean_sq_dist = 2.0 * store.spread(path.origin.projected) / store.shape[0]
    # Comparisons that the features hardly explain are met best by no distance at all: not a start.
    least = min(1.0, NARROWEST / mean_sq_dist) if mean_sq_dist > 0.0 else 1.0
    multiple = best_step(path, float(np.log(least)))
    return float(np.exp(multiple)), store.host(path.line.frame(multiple))


def best_step(path: GeodesicPath, low: float) -> float:
    """Return by which power of e to multiply a metric for the lowest objective.

    It is convex in the multiple, so that four values at a time close in on it: to within a factor
    of 1.6, from ``exp(low)`` to 1e9.
    """
    center, width = 0.0, np.log(10.0)
    while width > 0.6 and center < np.log(1e9):
        steps = np.maximum(center + width * np.array([-1.5, -0.5, 0.5, 1.5]), low)
        lowest = int(np.argmin(path.values(steps)))
        center = float(steps[lowest])
        width = width / 2.5 if lowest in (1, 2) or center == low else width
    return center

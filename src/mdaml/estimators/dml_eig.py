"""Metric learning by eigenvalue optimisation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from mdaml._progress import report
from mdaml._typing import FloatArray, Params
from mdaml._validation import check_callback, check_integer, check_number, check_random_state, warn
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.comparisons import PairSet
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import check_both_kinds, to_pair_sets
from mdaml.estimators.base import principal_components
from mdaml.estimators.learners import PairLearner
from mdaml.estimators.scatter import cholesky, pair_scatter, ridged, weighted_scatter, whitened
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.kernels.products import rows_times

Callback = Callable[[int, float], bool | None]


class DMLeig(PairLearner):
    r"""DML-eig: push the closest dissimilar pair apart, from pairs.

    **Objective**: over positive semi-definite M,

    .. math:: \max_M \; \min_{(i, j) \in D} d_M^2(x_i, x_j)
        \quad\text{with}\quad \operatorname{mean}_{(i, j) \in S} d_M^2(x_i, x_j) \le 1

    for similar pairs S, dissimilar pairs D. The minimum is smoothed to the concave
    :math:`f(M) = -\mu \ln \operatorname{mean}_D \exp(-d_M^2 / \mu)`, between minimum and mean.

    **Supervision**: pairs, triplets (broken into pairs) or labels (pairs are drawn at random).

    **Prefer it** if few, reliable pairs are known, or for a metric of low rank. The closest
    dissimilar pairs decide, so a wrong one among them matters a lot unless ``mu`` is large.

    Parameters
    ----------
    mu : float, default=0.1
        Smoothing, on the scale of squared distances whose mean over similar pairs is 1. Small
        values approach the minimum and take more iterations; large ones approach the mean, whose
        best metric has rank one. Worth a search from 0.01 to 10.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-3
        Stop when f is certain to be this close to its maximum, relative to ``max(1, f)``.
    reg : float, default=1e-6
        This fraction of the mean eigenvalue is added to the diagonal of the scatter of similar
        pairs. With 0 the method is the original one, and a singular scatter is an error.
    n_similar, n_dissimilar : int, default=10
        Similar and dissimilar partners of each sample when pairs are drawn from labels; of the
        fewer ones, some count twice.
    verbose : int, default=0
        1 shows a progress bar in a terminal or a notebook.
    callback : callable or None, default=None
        Called as ``callback(iteration, objective)`` after each iteration; True stops early.
    random_state : int, Generator, RandomState or None, default=None
        For the pairs drawn from labels.

    Attributes
    ----------
    components_ : array of shape (rank, n_features)
        The linear map ``L``, without directions in which the metric ``L.T @ L`` vanishes.
    history_ : array of shape (n_iter_ + 1,)
        The smallest ``d_M²`` of a dissimilar pair, at the start and after every iteration.
    gap_ : float
        The maximum of the smoothed objective is at most this much above what was reached.
    n_iter_ : int
        Number of iterations.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    KISSME : A closed form from pairs, faster.

    Notes
    -----
    **Cost**: time :math:`O(p d + n d^2 + d^3)` for each of some tens of iterations, with p pairs of
    n samples with d features; memory beyond X and the pairs :math:`O(p + n d + d^2)`.

    In coordinates in which the (ridged) mean scatter of similar pairs is the identity, the feasible
    metrics are the matrices Z with ``Z ⪰ 0`` and ``tr Z = 1``. Each iteration moves along a line,
    to its best point, towards the V among them that maximises
    ``<G, V> - |V - Z|² / (2 t)``, where G is the gradient and t a Barzilai-Borwein step. Without
    the second term this is the method of Frank and Wolfe, which the paper uses and which makes the
    first iteration here. Its gap, ``max_V <G, V - Z>``, remains the certificate. On letter, vehicle
    and segment 7 to 38 iterations are enough; without the term 200 leave gaps of 0.005 to 0.02.

    Dissimilar pairs of identical samples are left out with a warning: no metric separates them.
    Where similar pairs do not differ at all only the ridge bounds the metric, with a warning.

    References
    ----------
    .. [1] Y. Ying, P. Li, "Distance Metric Learning with Eigenvalue Optimization", Journal of
       Machine Learning Research 13, 2012.

    Examples
    --------
    >>> from mdaml import DMLeig
    >>> X = [[0.0, 0.0], [0.4, 3.0], [2.0, 0.2], [1.8, 3.1]]
    >>> model = DMLeig().fit(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], pair_labels=[1, 1, -1, -1])
    >>> M = model.get_mahalanobis_matrix()
    >>> bool(M[0, 0] > M[1, 1])  # similar samples differ in the second feature mostly
    True
    """

    default_grid: ClassVar = [{"mu": [1e-3, 1e-2, 0.1, 1.0]}]

    def __init__(
        self,
        mu: float = 0.1,
        *,
        max_iter: int = 200,
        tol: float = 1e-3,
        reg: float = 1e-6,
        n_similar: int = 10,
        n_dissimilar: int = 10,
        verbose: int = 0,
        callback: Callback | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.mu = mu
        self.max_iter = max_iter
        self.tol = tol
        self.reg = reg
        self.n_similar = n_similar
        self.n_dissimilar = n_dissimilar
        self.verbose = verbose
        self.callback = callback
        self.random_state = random_state

    def _check_parameters(self, n_features: int) -> None:  # noqa: ARG002
        check_number(self, "mu", self.mu, 0.0, strict=True)
        check_integer(self, "max_iter", self.max_iter, 1)
        check_number(self, "tol", self.tol, 0.0)
        check_number(self, "reg", self.reg, 0.0)
        check_integer(self, "n_similar", self.n_similar, 1)
        check_integer(self, "n_dissimilar", self.n_dissimilar, 1)
        check_callback(self, self.callback)

    def _learn(self, X: FloatArray, supervision: Supervision) -> tuple[FloatArray, Params]:
        similar, dissimilar = self._pairs(X, supervision)
        scatter = pair_scatter(X, similar).mean
        R = cholesky(ridged(scatter, self.reg, "similar pairs"), "similar pairs")
        point, status, history = maximise(
            SmoothedMinimum(whitened(X, R), dissimilar, float(self.mu)),
            max_iter=self.max_iter,
            tol=self.tol,
            callback=self.callback,
        )
        F = scipy.linalg.solve_triangular(R, square_root(point.Z), check_finite=False)
        components = principal_components(F)
        if status in _ADVICE:
            warn(
                f"After {len(history) - 1} iterations the smoothed objective, "
                f"{point.level[0]:.3g}, may still be {point.gap:.2g} below its maximum. "
                f"{_ADVICE[status]}",
                ConvergenceWarning,
            )
        self._warn_if_needed(relative_spread(scatter, components))
        n_iter = len(history) - 1
        return components, {"history_": np.array(history), "gap_": point.gap, "n_iter_": n_iter}

    def _pairs(self, X: FloatArray, supervision: Supervision) -> tuple[PairSet, PairSet]:
        if isinstance(supervision, Classes):
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            draws = np.random.default_rng(seed)
            triplets = supervision.random_triplets(self.n_similar, self.n_dissimilar, "zip", draws)
            similar, dissimilar = (
                PairSet.from_pairs(triplets[:, [0, other]], len(X)) for other in (1, 2)
            )
        else:
            similar, dissimilar = to_pair_sets(supervision)
        check_both_kinds(
            "DMLeig", similar.total, dissimilar.total, "Add some, or learn from labels."
        )
        for pairs, what in ((similar, "similar"), (dissimilar, "dissimilar")):
            if not np.any(pair_sq_dists(X, pairs.pairs)):
                raise ValueError(
                    f"DMLeig needs a {what} pair of samples that differ: all {what} pairs name "
                    "identical samples. Are the row numbers right, and the features informative?"
                )
        return similar, self._apart(X, dissimilar)

    def _apart(self, X: FloatArray, dissimilar: PairSet) -> PairSet:
        """Leave out pairs of identical samples, for which the objective is zero whatever M is."""
        apart = pair_sq_dists(X, dissimilar.pairs) > 0
        if apart.all():
            return dissimilar
        row, other = dissimilar.pairs[np.argmin(apart)]
        warn(
            f"{np.count_nonzero(~apart)} of {len(apart)} dissimilar pairs name identical samples, "
            f"such as rows {row} and {other}. No metric separates them: they are left out."
        )
        return PairSet.from_pairs(dissimilar.pairs[apart], len(X), dissimilar.counts[apart])

    def _warn_if_needed(self, spread: float) -> None:
        if spread < min(self.reg, NO_SPREAD):
            warn(
                "The learned metric concentrates in directions in which similar pairs hardly "
                f"differ, {spread:.1g} of their average in squares: only the ridge bounds it. Give "
                "more similar pairs than features, raise reg, or reduce the features by PCA first."
            )


# What to do when the iteration stopped before the gap fell below the tolerance.
_ADVICE = {
    "stalled": "Rounding prevents further progress: accept it by a larger tol.",
    "max_iter": "Increase max_iter or mu, or accept it by a larger tol.",
}
# The smoothed minimum of some numbers, and their weights in its derivative: (P,), of sum 1.
Level = tuple[float, FloatArray]


@dataclass(frozen=True)
class Feasible:
    """A feasible Z, and what the smoothed minimum is there."""

    Z: FloatArray  # (d, d) positive semi-definite, of trace 1
    sq_dists: FloatArray  # (P,) of the distinct pairs under Z
    level: Level
    gradient: FloatArray  # (d, d)
    steepest: float  # the largest eigenvalue of the gradient

    @property
    def gap(self) -> float:
        """The most by which the smoothed minimum of any feasible matrix can be higher."""
        return max(self.steepest - float(self.level[1] @ self.sq_dists), 0.0)


@dataclass(frozen=True)
class SmoothedMinimum:
    """``-mu ln mean_p exp(-a_p / mu)`` of squared distances of pairs, repetitions included."""

    X: FloatArray  # (n, d) whitened
    given: PairSet
    mu: float

    def level(self, a: FloatArray) -> Level:
        """Return value and weights for the squared distances a of the distinct pairs."""
        lowest = a.min()
        terms = self.given.counts * np.exp((lowest - a) / self.mu)
        total = terms.sum()
        value = lowest - self.mu * np.log(total / self.given.total)
        return float(value), terms / total

    def sq_dists(self, V: FloatArray) -> FloatArray:
        """Return the squared distances of the pairs under ``V V^T``."""
        return pair_sq_dists(rows_times(self.X, V), self.given.pairs)

    def point(self, Z: FloatArray, a: FloatArray, level: Level) -> Feasible:
        """Return Z with the gradient there; a are the squared distances under it."""
        G = weighted_scatter(self.X, self.given.pairs, self.given.groups, level[1])
        return Feasible(Z, a, level, G, largest_eigenvalue(G))

    def start(self) -> Feasible:
        """Return the point ``I / d``."""
        d = self.X.shape[1]
        a = self.sq_dists(np.eye(d)) / d
        return self.point(np.eye(d) / d, a, self.level(a))

    def towards(self, point: Feasible, V: FloatArray) -> Feasible | None:
        """Return the highest point on the way to ``V V^T``; None if none is higher.

        Squared distances are affine on the way, so that the search needs no samples.
        """
        change = self.sq_dists(V) - point.sq_dists
        found = search(self, point.sq_dists, change, point.level)
        if found is None:
            return None
        share, level = found
        Z = point.Z + share * (V @ V.T - point.Z)
        return self.point(Z, point.sq_dists + share * change, level)


# Beyond this multiple of its inverse norm the gradient alone decides: a Frank-Wolfe step.
LONGEST_STEP = 1e8


def maximise(
    problem: SmoothedMinimum, *, max_iter: int, tol: float, callback: Callback | None = None
) -> tuple[Feasible, str, list[float]]:
    """Maximise the smoothed minimum over Z, positive semi-definite of trace 1, from ``I / d``.

    Spectral projected gradients, by the long and the short step of Barzilai and Borwein in turn.
    The value rises at every iteration. Returns where it ended and why, "converged", "stalled",
    "stopped" or "max_iter", and the smallest squared distance after every iteration.
    """
    report("start")
    point, step = problem.start(), np.inf
    history = [float(point.sq_dists.min())]
    while point.gap > tol * max(1.0, point.level[0]):
        report("rounds", len(history) - 1, max_iter)
        if len(history) > max_iter:
            return point, "max_iter", history
        step = min(step, LONGEST_STEP / point.steepest)
        higher = problem.towards(point, projected_root(point.Z + step * point.gradient))
        if higher is None:
            return point, "stalled", history
        moved, change = higher.Z - point.Z, higher.gradient - point.gradient
        step, point = barzilai_borwein(moved, change, long=len(history) % 2 == 0), higher
        history.append(float(point.sq_dists.min()))
        if callback is not None and callback(len(history) - 1, history[-1]):
            return point, "stopped", history
    return point, "converged", history


def barzilai_borwein(moved: FloatArray, change: FloatArray, *, long: bool) -> float:
    """Return the inverse curvature of a concave function, from a move and the gradient's change."""
    bend = -float(np.vdot(moved, change))
    if not bend > 0.0:
        return float(np.inf)
    if long:
        return float(np.vdot(moved, moved)) / bend
    return bend / float(np.vdot(change, change))


FLAT = 0.1  # a tenth of the first slope; less takes no fewer iterations
MAX_TRIALS = 30


def search(
    problem: SmoothedMinimum, a: FloatArray, change: FloatArray, start: Level
) -> tuple[float, Level] | None:
    """Return a step in (0, 1] near the best one and the level there, or None if none is higher.

    The slope falls along the segment. Newton's method for its zero, from the far end, where most
    searches end; a bracket keeps it from leaving the segment.
    """
    first_slope = float(start[1] @ change)
    if not first_slope > 0.0:
        return None
    low, high, step, best = 0.0, 1.0, 1.0, None
    for _ in range(MAX_TRIALS):
        level = problem.level(a + step * change)
        value, weights = level
        slope = float(weights @ change)
        if value > start[0] and (best is None or value > best[1][0]):
            best = step, level
        if slope >= 0.0 and step == 1.0:
            break
        if abs(slope) <= FLAT * first_slope and value > start[0]:
            break
        low, high = (step, high) if slope > 0.0 else (low, step)
        bend = (float(weights @ np.square(change)) - slope * slope) / problem.mu
        step = step + slope / bend if bend > 0.0 else high
        if not low < step < high:
            step = 0.5 * (low + high)
    return best


def projected_root(A: FloatArray) -> FloatArray:
    """Return V, (d, r), with ``V V^T`` the matrix nearest to A that is feasible: psd, trace 1."""
    w, U = scipy.linalg.eigh(A, driver="evd", check_finite=False)
    kept = project_on_simplex(w)
    return U[:, kept > 0] * np.sqrt(kept[kept > 0])


def project_on_simplex(w: FloatArray) -> FloatArray:
    """Return the nearest numbers that are not negative and have sum 1; w is in rising order."""
    falling = w[::-1] - w[-1]  # first to zero, so that the sum is 1 however large w is
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(w) + 1)
    return np.maximum(falling - excess[falling > excess][-1], 0.0)[::-1]


def largest_eigenvalue(A: FloatArray) -> float:
    """Return the largest eigenvalue of a symmetric matrix.

    Not by Lanczos iteration: the value is part of a certificate, and beside the projection of the
    same iteration it costs little at any size.
    """
    last = len(A) - 1
    found = scipy.linalg.eigh(
        A, eigvals_only=True, subset_by_index=[last, last], check_finite=False
    )
    return float(found[0])


def square_root(Z: FloatArray) -> FloatArray:
    """Return V with ``Z = V V^T``, without the directions in which Z vanishes."""
    w, U = scipy.linalg.eigh(Z, check_finite=False)
    positive = w > len(w) * np.finfo(w.dtype).eps * w[-1]
    return U[:, positive] * np.sqrt(w[positive])


# Below reg the ridge takes more than half of the bound; with a large reg that is no surprise.
NO_SPREAD = 1e-3


def relative_spread(scatter: FloatArray, L: FloatArray) -> float:
    """Return the mean of a scatter along the metric ``L^T L``, relative to that along all axes."""
    along = np.vdot(L @ scatter, L) / np.vdot(L, L)
    return float(along / (np.trace(scatter) / len(scatter)))

"""Large margin nearest neighbour."""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import scipy.linalg
from scipy.optimize import OptimizeResult, minimize
from sklearn.exceptions import ConvergenceWarning

from mdaml._progress import report
from mdaml._typing import FloatArray, IntArray, Params
from mdaml._validation import check_callback, check_integer, check_number, warn
from mdaml.constraints.comparisons import Comparisons
from mdaml.constraints.labels import Classes
from mdaml.estimators.base import principal_components
from mdaml.estimators.learners import LabelLearner
from mdaml.estimators.scatter import whitened
from mdaml.kernels.neighbors import within
from mdaml.kernels.pairs import laplacian_product, pair_sq_dists
from mdaml.kernels.products import rows_times, transposed_times
from mdaml.kernels.triplets import triplet_slopes

# The hinge is rounded over these widths of its argument, one after another; margins are 1 wide.
_WIDTHS = (1.0, 0.1, 0.01, 0.001)
_HINGE = 2.0**-40  # rounded so little that it is the hinge itself, but for rounding
_WHITENING_RIDGE = 1e-8
_COINCIDENT = 1e-12  # target neighbours closer than this, squared, relative to all samples
_UNIT = 2.0**20  # the solver's tolerance is relative for values above 1 only
# Impostors are listed in a ball this much wider than need be. A list then serves for one to many
# evaluations; lists that last longer cost more than searching anew (in 60 dimensions a ball twice
# as wide holds a hundred times as many).
_SLACK = 0.05
_MOST_PAIRS = 2**24  # pairs with impostors kept at a time, about 40 bytes each


class LMNN(LabelLearner):
    r"""Large margin nearest neighbour: keep the k nearest of a class closer than other classes.

    **Objective**: with fixed target neighbours :math:`j \sim i`, the k nearest samples of i's
    class,

    .. math:: \min_M \; (1 - \mu) \sum_{j \sim i} d^2(i, j)
        + \mu \sum_{j \sim i} \sum_{l:\, y_l \ne y_i} [1 + d^2(i, j) - d^2(i, l)]_+

    where d is the learned distance and :math:`[\cdot]_+` the positive part; convex in the metric.

    **Supervision**: labels.

    **Prefer it** for k-NN classification when local structure matters more than class shapes and
    there are enough labels per class.

    Parameters
    ----------
    n_neighbors : int, default=3
        Target neighbours of each sample, k. A class with fewer other members uses those.
    push_weight : float, default=0.5
        Weight μ of the margin term, strictly between 0 and 1. Some implementations weigh the other
        term instead.
    n_components : int or None, default=None
        Rows of the linear map. With None or the number of features the problem is convex; fewer
        rows start from principal components and end in a local minimum.
    max_iter : int, default=500
        Maximum number of steps of the solver.
    tol : float, default=1e-5
        Stop when a step lowers the objective by less than this fraction.
    verbose : int, default=0
        1 shows a progress bar in a terminal or a notebook.
    callback : callable or None, default=None
        Called as ``callback(iteration, objective)`` after each step; stops early if it returns
        True.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The linear map ``L``; the metric is ``L.T @ L``.
    history_ : array of shape (1 + n_iter_,)
        The objective above, with the hinge as it is, at the start and after every step. The metric
        kept is the best one. The solver works on rounded hinges, so a step may raise it slightly.
    n_iter_ : int
        Number of steps.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    MDaML : Learns neighbours from labels too, and from comparisons.
    LFDA : A closed form from labels that keeps several modes of a class apart.

    Notes
    -----
    **Cost**: a step takes :math:`O(m d + n d^2)` for m impostors, samples of other classes that
    come too close; they are searched again, in :math:`O(n^2 d)`, when samples have moved enough.
    Memory is bounded: if there are too many impostors to list, they are processed in blocks.

    The original solver takes small gradient steps and stops early; the optimum is the same, since
    the problem is convex. Here quasi-Newton steps (L-BFGS) are taken in coordinates in which the
    first term is a multiple of the identity. The hinge is rounded over a width of 1, 0.1, 0.01 and
    0.001 in turn. The value is exact at every step: the list of impostors is used as long as no
    sample has moved far enough for a new one to appear, and renewed otherwise.

    A sample alone in its class has no target neighbour and serves only as an impostor.

    References
    ----------
    .. [1] K. Q. Weinberger, L. K. Saul, "Distance Metric Learning for Large Margin Nearest Neighbor
       Classification", JMLR 10, 2009.

    Examples
    --------
    >>> from mdaml import LMNN
    >>> from mdaml.datasets import load_dataset
    >>> X, y = load_dataset("balance", return_X_y=True)
    >>> model = LMNN(n_neighbors=3).fit(X, y)
    >>> bool(model.history_[-1] < model.history_[0])
    True
    """

    default_grid: ClassVar = [{"n_neighbors": [1, 3, 5, 10]}]

    def __init__(
        self,
        n_neighbors: int = 3,
        *,
        push_weight: float = 0.5,
        n_components: int | None = None,
        max_iter: int = 500,
        tol: float = 1e-5,
        verbose: int = 0,
        callback: Callable[[int, float], bool | None] | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.push_weight = push_weight
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.callback = callback

    def _check_parameters(self, n_features: int) -> None:
        check_integer(self, "n_neighbors", self.n_neighbors, 1)
        check_number(self, "push_weight", self.push_weight, 0.0, 1.0, strict=True)
        if self.n_components is not None:
            columns = ", the number of features of X"
            if isinstance(self.n_components, str):
                columns += " (solutions of different rank are not nested, so none is chosen here)"
            check_integer(self, "n_components", self.n_components, 1, n_features, what=columns)
        check_integer(self, "max_iter", self.max_iter, 1)
        check_number(self, "tol", self.tol, 0.0)
        check_callback(self, self.callback)

    def _learn(self, X: FloatArray, classes: Classes) -> tuple[FloatArray, Params]:
        report("neighbours")
        targets, _ = classes.nearest(X, self.n_neighbors, same=True)
        if np.any(targets[:, -1] < 0):
            n_small = int(np.sum(classes.size <= self.n_neighbors))
            warn(
                f"{n_small} class(es) have at most n_neighbors={self.n_neighbors} members: their "
                "samples have fewer target neighbours, or none."
            )
        report("start")
        start = np.eye(X.shape[1])
        if self.n_components is not None and self.n_components < X.shape[1]:
            axes = np.linalg.eigh(transposed_times(X, X))[1].T[::-1]
            start = axes[: self.n_components]
        R = _whitening(X, targets)
        objective = LargeMargin(whitened(X, R), classes, targets, self.push_weight)
        L, history, converged = lower(
            objective, start @ R.T, self.max_iter, self.tol, self.callback
        )
        if not converged:
            warn(
                f"LMNN stopped after max_iter={self.max_iter} steps, before a step lowered the "
                f"objective by less than {self.tol:g} of it. Increase max_iter or tol.",
                ConvergenceWarning,
            )
        F = scipy.linalg.solve_triangular(R, L.T, check_finite=False)
        return principal_components(F), {"history_": np.array(history), "n_iter_": len(history) - 1}


def _target_pairs(targets: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return (reference, target) pairs, their groups by reference, and references that have any."""
    n_targets = np.sum(targets >= 0, axis=1)
    pairs = np.column_stack([np.repeat(np.arange(len(targets)), n_targets), targets[targets >= 0]])
    references = np.flatnonzero(n_targets)
    return pairs, np.append(0, np.cumsum(n_targets[references])), references


def _target_scatter(X: FloatArray, targets: IntArray) -> FloatArray:
    """Return the sum of ``(x_i - x_j)(x_i - x_j)^T`` over target neighbours.

    By differences: a Laplacian would cancel where they are close, and a scatter that is negative by
    rounding is one that the solver can lower forever.
    """
    total = np.zeros((X.shape[1], X.shape[1]))
    for others in targets.T:
        given = others >= 0
        diffs = X[given] - X[others[given]]
        total += transposed_times(diffs, diffs)
    return 0.5 * (total + total.T)


def _whitening(X: FloatArray, targets: IntArray) -> FloatArray:
    """Return R, upper triangular: ``X R^{-1}`` has target neighbours 1 apart in every direction.

    It changes the path of the solver, not the problem, and halves the number of steps at least. A
    ridge stands for directions in which target neighbours do not differ.
    """
    mean = _target_scatter(X, targets) / np.count_nonzero(targets >= 0)
    level, spread = np.trace(mean) / len(mean), float(np.vdot(X, X)) / X.size
    if level <= _COINCIDENT * spread:  # target neighbours coincide
        return np.sqrt(spread or 1.0) * np.eye(len(mean))
    ridge = _WHITENING_RIDGE * level + _COINCIDENT * spread
    R: FloatArray = scipy.linalg.cholesky(mean + ridge * np.eye(len(mean)))
    return R


class LargeMargin:
    """The objective of LMNN and its gradient, exact at every ``L``.

    All impostors within a radius are listed; distances change by no more than the two samples have
    moved since, so until some sample has moved too far no other sample can be an impostor.
    """

    def __init__(
        self, X: FloatArray, classes: Classes, targets: IntArray, push_weight: float
    ) -> None:
        self.pairs, self.groups, self.references = _target_pairs(targets)
        self.X, self.bounds = X, classes.bounds
        self.targets, self.push_weight = targets, push_weight
        self.scatter = _target_scatter(X, targets)
        self._listed: tuple[Comparisons, FloatArray, FloatArray] | None = None  # with Y and radii
        self._projected: tuple[FloatArray, FloatArray] | None = None  # L and Y

    def value_and_gradient(self, L: FloatArray, width: float) -> tuple[float, FloatArray]:
        """Return the objective with the hinge rounded over a width, and its derivative in L."""
        Y = self._project(L)
        loss, product = 0.0, np.zeros_like(self.X)
        scales, margin = np.full(Y.shape[1], 1.0 / width), 1.0 / width
        for triplets in self._working_sets(Y):
            part, slopes = triplet_slopes(Y, scales, triplets.lists, np.ones(1), margin)
            loss += width * part
            product += laplacian_product(self.X, triplets.pairs, triplets.groups, slopes)
        half = transposed_times(self.X, product)
        pull = (1.0 - self.push_weight) * L @ self.scatter
        push = self.push_weight * L @ (half + half.T)
        return float(np.vdot(pull, L)) + self.push_weight * loss, 2.0 * (pull + push)

    def value(self, L: FloatArray) -> float:
        """Return the objective with the hinge as it is."""
        Y = self._project(L)
        loss, scales = 0.0, np.full(Y.shape[1], 1.0 / _HINGE)
        for triplets in self._working_sets(Y):
            loss += _HINGE * triplet_slopes(Y, scales, triplets.lists, np.ones(1), 1.0 / _HINGE)[0]
        pull = float(np.vdot(L @ self.scatter, L))
        return (1.0 - self.push_weight) * pull + self.push_weight * loss

    def _project(self, L: FloatArray) -> FloatArray:
        if self._projected is None or not np.array_equal(self._projected[0], L):
            Y = rows_times(self.X, np.ascontiguousarray(L.T))
            self._projected = L.copy(), Y
        return self._projected[1]

    def _working_sets(self, Y: FloatArray) -> Iterator[Comparisons]:
        """Yield targets and impostors; all at once if they are few enough to be kept."""
        farthest = np.maximum.reduceat(pair_sq_dists(Y, self.pairs), self.groups[:-1])
        reach = np.sqrt(1.0 + farthest)  # whoever is nearer is an impostor
        if self._listed is not None:
            triplets, listed_at, radii = self._listed
            moved = np.linalg.norm(Y - listed_at, axis=1)
            if np.all(radii - moved[self.references] - moved.max() >= reach):
                if len(triplets.pairs) > 0:
                    yield triplets
                return
        radii = (1.0 + _SLACK) * reach
        sq_radii = np.zeros(len(Y))
        sq_radii[self.references] = radii**2
        self._listed = None
        for triplets, complete in self._scan(Y, sq_radii):
            if complete:
                self._listed = (triplets, Y, radii)
            if len(triplets.pairs) > 0:
                yield triplets

    def _scan(self, Y: FloatArray, sq_radii: FloatArray) -> Iterator[tuple[Comparisons, bool]]:
        """Yield sets of about ``_MOST_PAIRS`` pairs, and whether one holds them all."""
        step = max(_MOST_PAIRS // len(Y), 128)
        begin = 0
        counts: list[IntArray] = [np.zeros(1, np.int64)]
        found: list[IntArray] = [np.empty(0, np.int32)]
        n_found, complete = 0, True
        for first in range(0, len(Y), step):
            end = min(first + step, len(Y))
            indptr, places = within(Y, self.bounds, sq_radii, first, end)
            if n_found + len(places) > _MOST_PAIRS and n_found > 0:
                yield self._triplets(begin, counts, found), False
                begin, counts, found = first, [np.zeros(1, np.int64)], []
                n_found, complete = 0, False
            counts.append(n_found + indptr[1:])
            found.append(places)
            n_found += len(places)
        yield self._triplets(begin, counts, found), complete

    def _triplets(
        self, begin: int, counts: Sequence[IntArray], found: Sequence[IntArray]
    ) -> Comparisons:
        return Comparisons.from_lists(
            self.targets, begin, np.concatenate(counts), np.concatenate(found)
        )


def lower(
    objective: LargeMargin,
    L: FloatArray,
    max_iter: int,
    tol: float,
    callback: Callable[[int, float], bool | None] | None,
) -> tuple[FloatArray, list[float], bool]:
    """Minimise by L-BFGS on ever less rounded hinges.

    Returns the best map met, the objective at every step, and whether the solver was done.
    """
    best, history, stopped = L, [objective.value(L)], False

    def after_step(intermediate_result: OptimizeResult) -> None:
        nonlocal best, stopped
        current = intermediate_result.x.reshape(L.shape)
        value = objective.value(current)
        if value < min(history):
            best = current.copy()
        history.append(value)
        report("rounds", len(history) - 1, max_iter)
        if callback is not None and callback(len(history) - 1, value):
            stopped = True
            raise StopIteration

    current, converged = L, False
    for width in _WIDTHS:
        left = max_iter + 1 - len(history)
        if left == 0 or stopped:
            break

        def rounded(x: FloatArray, width: float = width) -> tuple[float, FloatArray]:
            value, gradient = objective.value_and_gradient(x.reshape(L.shape), width)
            return _UNIT * value, _UNIT * gradient.ravel()

        result = minimize(
            rounded,
            current.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=after_step,
            options={"maxiter": left, "maxfun": 20 * left, "maxcor": 20, "ftol": tol, "gtol": 0.0},
        )
        current = result.x.reshape(L.shape)
        converged = width == _WIDTHS[-1] and result.status != 1  # 1: out of steps
    return best, history, converged or stopped

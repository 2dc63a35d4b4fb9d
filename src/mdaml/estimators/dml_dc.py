"""Distance metric learning by difference of convex functions programming."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from mdaml._progress import report
from mdaml._typing import FloatArray, IntArray, Params
from mdaml._validation import check_callback, check_integer, check_number, warn
from mdaml.constraints.labels import Classes
from mdaml.estimators.base import principal_components
from mdaml.estimators.learners import LabelLearner
from mdaml.estimators.scatter import weighted_scatter
from mdaml.kernels.neighbors import closest
from mdaml.kernels.products import rows_times

_SMALLEST_DISTANCE = 1e-6  # the root has no finite slope at zero: closer pairs do not pull
_LARGEST = 1e60  # entry of a factor: without a ridge a metric may grow without bound
_LEAST_CHANGE = 1e-6  # of the metric in an outer step, relative, in the Frobenius norm
_REFRESH = 100  # inner steps after which candidates are searched anew
_FEWEST_STEPS = 50  # of an inner problem: the first may all be too long
# The first step of an inner problem, relative to the metric. Where none of its steps leads down, it
# is repeated with shorter ones.
_FIRST_STEPS = (0.1, 0.03, 0.01)


class DMLdc(LabelLearner):
    r"""DML-dc: hits closer than misses by a margin, with a loss that limits outliers.

    **Objective**: let :math:`p_i` be the (not squared) learned distance of sample i to the nearest
    sample of its class, its hit, and :math:`q_i` to the nearest of another class, its miss:

    .. math:: \min_M \; \lambda \operatorname{tr} M
        + \frac1n \sum_i \min\bigl(1 - s,\; \max(0, 1 + p_i - q_i)\bigr)

    Hits and misses change with the metric. The loss is cut off at ``1 - s``, so outliers do not
    bend the metric; it is not convex, but the difference of two convex functions.

    **Supervision**: labels.

    **Prefer it** for nearest-neighbour classification with mislabelled samples or overlapping
    classes, if fit time matters less.

    Parameters
    ----------
    ridge : float, default=1e-3
        Weight λ of the trace of the metric.
    ramp : float, default=-1.0
        Where the loss is cut off, s, below 1: no sample loses more than ``1 - ramp``.
    n_candidates : int, default=10
        Hits and misses are looked for among this many nearest samples of either kind, which are
        searched again at every outer and at every 100th inner step.
    max_iter : int, default=20
        Maximum number of outer steps: the subtracted function is replaced by a tangent.
    max_inner_iter : int, default=300
        Maximum number of projected subgradient steps for each of the resulting convex problems.
    tol : float, default=1e-4
        Stop an inner problem when ten steps lower its value by less than this fraction. Smaller
        values cost time and rarely lower the final objective.
    verbose : int, default=0
        1 shows a progress bar in a terminal or a notebook.
    callback : callable or None, default=None
        Called as ``callback(iteration, objective)`` after each outer step; stops early if it
        returns True.

    Attributes
    ----------
    components_ : array of shape (rank, n_features)
        The linear map ``L``; the metric is ``L.T @ L``.
    history_ : array of shape (1 + n_iter_,)
        The objective above, over all samples and not only candidates, at the start and after every
        outer step; it never rises.
    n_iter_ : int
        Number of outer steps.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    LMNN : Neighbours by a large margin, convex and faster.
    audit_labels : Lists the labels that are probably wrong.

    Notes
    -----
    **Cost**: an inner step takes :math:`O(n (c d + d^2) + d^3)` with c candidates; every outer step
    searches neighbours, :math:`O(n^2 d)` in blocks. Memory beyond X :math:`O(n (c + d) + d^2)`.

    The steps of the released code are so short that it stops early; here the first step is a tenth
    of the metric's size, regardless of the scale of the data.

    A sample alone in its class has no hit: it counts only as a miss of others.

    References
    ----------
    .. [1] B. Nguyen, B. De Baets, "An approach to supervised distance metric learning based on
       difference of convex functions programming", Pattern Recognition 81, 2018.

    Examples
    --------
    >>> from mdaml import DMLdc
    >>> from mdaml.datasets import load_dataset
    >>> X, y = load_dataset("balance", return_X_y=True)
    >>> model = DMLdc(max_iter=5).fit(X, y)
    >>> bool(model.history_[-1] < model.history_[0])
    True
    """

    default_grid: ClassVar = [{"ridge": [1e-4, 1e-3, 1e-2, 0.1]}]

    def __init__(
        self,
        ridge: float = 1e-3,
        *,
        ramp: float = -1.0,
        n_candidates: int = 10,
        max_iter: int = 20,
        max_inner_iter: int = 300,
        tol: float = 1e-4,
        verbose: int = 0,
        callback: Callable[[int, float], bool | None] | None = None,
    ) -> None:
        self.ridge = ridge
        self.ramp = ramp
        self.n_candidates = n_candidates
        self.max_iter = max_iter
        self.max_inner_iter = max_inner_iter
        self.tol = tol
        self.verbose = verbose
        self.callback = callback

    def _check_parameters(self, n_features: int) -> None:  # noqa: ARG002
        check_number(self, "ridge", self.ridge, 0.0)
        why = " It is where the loss is cut off; the margin is 1."
        check_number(self, "ramp", self.ramp, -np.inf, 1.0, strict=True, why=why)
        check_integer(self, "n_candidates", self.n_candidates, 1)
        check_integer(self, "max_iter", self.max_iter, 1)
        check_integer(self, "max_inner_iter", self.max_inner_iter, 1)
        check_number(self, "tol", self.tol, 0.0)
        check_callback(self, self.callback)

    def _learn(self, X: FloatArray, classes: Classes) -> tuple[FloatArray, Params]:
        problem = RampProblem(X, classes, self.ridge, self.ramp, self.n_candidates)
        F, history, status = minimise_difference(
            problem, self.max_iter, self.max_inner_iter, self.tol, self.callback
        )
        if status == "max_iter" and history[-1] < 0.95 * history[-2]:
            warn(
                f"DMLdc stopped after max_iter={self.max_iter} outer steps, while the last one "
                f"still lowered the objective by {1 - history[-1] / history[-2]:.0%}. Increase "
                "max_iter.",
                ConvergenceWarning,
            )
        fitted = {"history_": np.array(history), "n_iter_": len(history) - 1}
        return principal_components(F), fitted


@dataclass(frozen=True)
class Closest:
    """The hit and the miss of every sample, among candidates, and their distances."""

    hits: IntArray  # (n,) -1 for a sample alone in its class
    hit_dists: FloatArray
    misses: IntArray
    miss_dists: FloatArray


@dataclass(frozen=True)
class RampProblem:
    """The objective and its two convex parts, for a factor ``M = F F^T``."""

    X: FloatArray  # (n, d) sorted by class
    classes: Classes
    trace_weight: float
    ramp: float
    n_candidates: int

    def candidates(self, F: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the nearest samples of the own and of other classes, (n, n_candidates) each."""
        Y = rows_times(self.X, F)
        hits, _ = self.classes.nearest(Y, self.n_candidates, same=True)
        misses, _ = self.classes.nearest(Y, self.n_candidates, same=False)
        return hits, misses

    def closest(self, F: FloatArray, candidates: tuple[IntArray, IntArray]) -> Closest:
        """Return hits and misses; the true ones if the candidates were searched at the same F."""
        Y = rows_times(self.X, F)
        return Closest(*closest(Y, candidates[0]), *closest(Y, candidates[1]))

    def value(self, F: FloatArray, near: Closest) -> float:
        """Return the objective: trace and ramp loss."""
        references = near.hits >= 0
        margins = 1.0 + near.hit_dists[references] - near.miss_dists[references]
        loss = np.sum(np.clip(margins, 0.0, 1.0 - self.ramp)) / len(self.X)
        return float(self.trace_weight * np.vdot(F, F) + loss)

    def larger(self, near: Closest, shift: float) -> tuple[float, FloatArray]:
        """Return the mean of ``max(-p_i, shift - q_i)``, convex in M, and a subgradient.

        Distances are concave in M, so minus a distance is convex, with the gradient
        ``-(x_i - x_j)(x_i - x_j)^T / (2 d_ij)``. Trace and this with shift 1, less this with shift
        ``ramp``, is the objective.
        """
        references, n = near.hits >= 0, len(self.X)
        by_hit = -near.hit_dists >= shift - near.miss_dists
        dists = np.where(by_hit, near.hit_dists, near.miss_dists)
        value = np.sum(np.where(by_hit, -dists, shift - dists)[references]) / n
        pulls = references & (dists > _SMALLEST_DISTANCE)
        weights = np.zeros(n)
        weights[pulls] = -0.5 / (n * dists[pulls])
        partners = np.where(references, np.where(by_hit, near.hits, near.misses), 0)
        pairs = np.column_stack([np.arange(n), partners])
        return float(value), weighted_scatter(self.X, pairs, np.arange(n + 1), weights)


def minimise_difference(
    problem: RampProblem,
    max_iter: int,
    max_inner_iter: int,
    tol: float,
    callback: Callable[[int, float], bool | None] | None,
) -> tuple[FloatArray, list[float], str]:
    """Return a factor, the objective after every outer step, and why it stopped.

    Each step replaces the subtracted convex function by its tangent and minimises what is left.
    """
    F: FloatArray = np.eye(problem.X.shape[1])
    report("neighbours")
    candidates = problem.candidates(F)
    near = problem.closest(F, candidates)
    history = [problem.value(F, near)]
    while len(history) <= max_iter:
        report("rounds", len(history) - 1, max_iter)
        _, tangent = problem.larger(near, problem.ramp)
        for first_step in _FIRST_STEPS:
            found = minimise_convex(
                problem, F, tangent, candidates, first_step, max_inner_iter, tol
            )
            found_candidates = problem.candidates(found)
            found_near = problem.closest(found, found_candidates)
            value = problem.value(found, found_near)
            if value < history[-1]:
                break
        else:
            return F, history, "no_descent"
        if np.abs(found).max() > _LARGEST:
            return F, history, "unbounded"
        M = F @ F.T
        change = np.linalg.norm(found @ found.T - M) / np.linalg.norm(M)
        F, candidates, near = found, found_candidates, found_near
        history.append(value)
        if callback is not None and callback(len(history) - 1, value):
            return F, history, "callback"
        if change < _LEAST_CHANGE:
            return F, history, "converged"
    return F, history, "max_iter"


def minimise_convex(
    problem: RampProblem,
    F: FloatArray,
    tangent: FloatArray,
    candidates: tuple[IntArray, IntArray],
    first_step: float,
    max_iter: int,
    tol: float,
) -> FloatArray:
    """Return the best factor that projected subgradient steps meet.

    They minimise the convex part less the inner product with ``tangent``. The projection onto
    positive semi-definite matrices is an eigendecomposition, which gives the factor as well.
    """

    def at(F: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = problem.larger(problem.closest(F, candidates), 1.0)
        linear = problem.trace_weight * np.eye(len(F)) - tangent
        return value + float(np.vdot(linear @ F, F)), gradient + linear

    M = F @ F.T
    value, gradient = at(F)
    step = first_step * np.linalg.norm(M) / max(float(np.linalg.norm(gradient)), 1e-300)
    best, best_F, ten_ago = value, F, value
    for n_steps in range(1, max_iter + 1):
        w, V = scipy.linalg.eigh(M - step * gradient, check_finite=False)
        if w[-1] <= 0:
            break  # the zero metric
        F = np.ascontiguousarray(V[:, w > 0] * np.sqrt(w[w > 0]))
        M = F @ F.T
        if n_steps % _REFRESH == 0:
            candidates = problem.candidates(F)
        before = value
        value, gradient = at(F)
        # Subgradients need not lead down: a failed step is kept, but makes the next ones shorter.
        step *= 1.05 if value < before else 0.5
        if value < best:
            best, best_F = value, F
        if n_steps % 10 == 0:
            if n_steps >= _FEWEST_STEPS and ten_ago - best < tol * max(1.0, abs(best)):
                break
            ten_ago = best
    return best_F

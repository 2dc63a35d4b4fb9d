"""Metrics of low rank: a factor ``F`` of shape (d, r), for features by the thousand.

At fixed modes Eq. (7) is a function of the mapped samples ``X F``, of the mapped centres and, in
its ridge, of ``F^T F``. Value and gradient therefore take two products with X of O(N d r), and no
array has the shape (d, d). During a step of the metric all arrays are where X is, on a device too;
between the steps factors and centres are NumPy arrays.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
from sklearn import config_context
from sklearn.utils.extmath import randomized_svd

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml.alternation import LocalProblem, State
from mdaml.constraints import Comparisons
from mdaml.device import DeviceComparisons
from mdaml.modes import MAX_ROWS_FOR_START, Modes
from mdaml.optimize import Result, Status, Trial, lower_point

N_AXES = 32  # at least so many principal axes steer the solver; more if the rank is higher
DAMPING = 0.3  # mean variances added to the covariance that preconditions; see docs/solver.md
# A start with the distances of the samples would be thousands of margins wide where features are
# many. Shrinking it all but erases directions that are needed: after 20 steps the objective was
# more than 100 times that of a start at ten margins.
START_SQ_DIST = 10.0
FIRST_STEP = 0.1  # of the length of F


@dataclass(frozen=True)
class LeadingAxes:
    """Principal axes of centred samples, the longest first: a start and a preconditioner."""

    axes: FloatArray  # (d, m) orthonormal columns, where the samples are
    variances: FloatArray  # (m,)
    level: float  # mean variance of all d directions

    @classmethod
    def of(cls, X: FloatArray, n_axes: int, rng: np.random.RandomState) -> "LeadingAxes":
        """Find the axes by a randomised decomposition; of many samples, from some of them."""
        rows = X
        if len(X) > MAX_ROWS_FOR_START:
            rows = X[np.sort(rng.choice(len(X), MAX_ROWS_FOR_START, replace=False))]
        n_axes = min(n_axes, *rows.shape)
        if kernels.on_host(rows):
            with config_context(array_api_dispatch=False):
                _, lengths, axes = randomized_svd(rows, n_axes, n_iter=4, random_state=rng)
            axes = axes.T
        else:
            lengths, axes = kernels.principal_axes(rows, n_axes, rng)
        variances = np.square(lengths.astype(np.float64)) / len(rows)
        level = kernels.sum_of_squares(rows) / prod(rows.shape)
        return cls(kernels.in_double(rows, axes), variances, level)

    @property
    def mean_sq_dist(self) -> float:
        """The mean squared distance of two samples."""
        return 2.0 * self.level * len(self.axes)

    def start(
        self, rank: int, *, whitened: bool = False, mean_sq_dist: float = START_SQ_DIST
    ) -> FloatArray:
        """Return a factor of the leading axes under which samples have a mean squared distance.

        Its columns have one length, or if whitened those that make the variances alike, a tenth of
        the mean one added. Where there are fewer axes than columns, the others are zero. On the
        host, wherever the axes are.
        """
        variances = self.variances[:rank]
        lengths = np.ones(len(variances))
        if whitened and self.level > 0.0:
            lengths = 1.0 / np.sqrt(variances + 0.1 * self.level)
        spread = 2.0 * float(np.sum(variances * lengths**2))
        if spread > 0.0:
            lengths = lengths * np.sqrt(mean_sq_dist / spread)
        F = np.zeros((len(self.axes), rank))
        F[:, : len(lengths)] = kernels.to_host(self.axes[:, :rank]) * lengths
        return F

    def precondition(self, gradient: FloatArray) -> FloatArray:
        """Divide by the covariance plus ``DAMPING`` mean variances, up to a common factor.

        All directions other than the axes count as if they had the variance of the last axis.
        """
        if not DAMPING * self.level > 0.0:
            return gradient
        return gradient - self.axes @ (self._excess * (self.axes.T @ gradient))

    @cached_property
    def _excess(self) -> FloatArray:
        """What is taken off along each axis, (m, 1)."""
        damped = self.variances + DAMPING * self.level
        return kernels.in_double(self.axes, 1.0 - damped[-1] / damped)[:, None]


def low_rank_part(
    M: FloatArray, X: FloatArray, rank: int, rng: np.random.RandomState
) -> FloatArray:
    """Return a factor of the metric of a rank that keeps most of what M sees in the samples.

    The samples mapped by a factor of M are reduced to their principal axes; of the identity this
    leaves the principal axes of X. The mean squared distance stays that of M.
    """
    G = np.linalg.cholesky(M)
    seen = LeadingAxes.of(kernels.rows_times(X, G), max(rank, N_AXES), rng)
    return G @ seen.start(rank, mean_sq_dist=seen.mean_sq_dist)


class Graph(Protocol):
    """The pairs of comparisons, as far as an objective needs them."""

    def laplacian_times(self, Y: FloatArray, weights: FloatArray) -> FloatArray:
        """Return ``sum_p weights[p] (e_i - e_j)(e_i - e_j)^T Y``."""


@dataclass(frozen=True)
class PairGraph:
    """The pairs of comparisons, each in both directions, grouped by its first sample."""

    pairs: IntArray  # (2P, 2)
    groups: IntArray  # (G + 1,) pairs groups[g]:groups[g + 1] share their first sample
    rows: IntArray  # (2P,) which of the P pairs

    @classmethod
    def from_pairs(cls, pairs: IntArray, n_samples: int) -> "PairGraph":
        """List an (P, 2) array of pairs by sample."""
        every = np.ones(len(pairs), np.int32)
        indptr, others, rows = kernels.near_graph(pairs, 0 * every, every, n_samples)
        counts = np.diff(indptr)
        samples = np.repeat(np.arange(n_samples, dtype=np.int32), counts)
        groups = np.append(0, np.cumsum(counts[counts > 0]))
        return cls(np.column_stack([samples, others]), groups, rows)

    def laplacian_times(self, Y: FloatArray, weights: FloatArray) -> FloatArray:
        """Return ``sum_p weights[p] (e_i - e_j)(e_i - e_j)^T Y``.

        The kernel gives half of it, from one side; of both directions it gives the whole.
        """
        return kernels.laplacian_product(Y, self.pairs, self.groups, weights[self.rows])


@dataclass(frozen=True)
class FactorPoint:
    """A factor, the objective there, and its derivatives in all that depends on the factor."""

    F: FloatArray  # (d, r)
    projected: FloatArray  # (N, r) X F
    centers: FloatArray  # (K, r) of the modes, times F
    value: float
    by_samples: FloatArray  # (N, r) derivative in X F
    by_centers: FloatArray  # (K, r) derivative in the mapped centres
    by_ridge: FloatArray  # (d, r) derivative of the ridge


@dataclass(frozen=True)
class FactorObjective:
    """The full objective at fixed modes as a function of a factor of the metric."""

    X: FloatArray  # (N, d) centred
    triplets: Comparisons
    graph: Graph
    importance: FloatArray  # (P,) self-weight of the triplets of each near pair
    loss_factor: float  # of all losses
    modes: Modes
    ridge: float

    def at(self, F: FloatArray) -> FactorPoint:
        """Return the point ``M = F F^T``: one product with X."""
        return self._point(F, *self._map(F))

    def gradient(self, point: FactorPoint) -> FloatArray:
        """Return the derivative in F, (d, r), by the chain rule: one product with X."""
        gradient: FloatArray = kernels.cross_product(point.F, self.X, point.by_samples)
        gradient += self._centers.T @ point.by_centers
        gradient += point.by_ridge
        return gradient

    def along(self, point: FactorPoint, direction: FloatArray) -> "FactorPath":
        """Return the objective along a line that starts at a point: one product with X."""
        return FactorPath(self, point, direction, *self._map(direction))

    def _map(self, F: FloatArray) -> tuple[FloatArray, FloatArray]:
        F = kernels.beside(self.X, F)
        return kernels.rows_times(self.X, F), kernels.beside(self.X, self._centers) @ F

    @cached_property
    def _centers(self) -> FloatArray:
        return kernels.in_double(self.X, self.modes.centers)

    @cached_property
    def _shares(self) -> FloatArray:
        return self.modes.powers.sum(axis=1, keepdims=True)

    @cached_property
    def _masses(self) -> FloatArray:
        masses = kernels.column_sums(self.modes.powers, np.float64)
        return kernels.in_double(self.X, masses)[:, None]

    def _point(self, F: FloatArray, Y: FloatArray, centers: FloatArray) -> FactorPoint:
        """Evaluate at F from ``Y = X F`` and the mapped centres, without a product with X.

        The derivatives together are Eq. (15) times 2 F. The value of the clustering term is taken
        from differences, which rounding cannot make negative.
        """
        powers = self.modes.powers
        loss, slopes = self.triplets.slopes(Y, self.importance)
        by_samples = self.graph.laplacian_times(Y, (2.0 * self.loss_factor) * slopes)
        pull = 2.0 / prod(powers.shape)
        by_samples += pull * (self._shares * Y - powers @ centers)
        by_centers = pull * (self._masses * centers - kernels.cross_product(F, powers, Y))
        gram = F.T @ F
        sq_dists = kernels.center_sq_dists(Y, centers)
        value = (
            kernels.inner_product(powers, sq_dists) / prod(powers.shape)
            + self.loss_factor * loss
            + 0.5 * self.ridge * kernels.dot(gram, gram)
        )
        by_ridge = (2.0 * self.ridge) * (F @ gram)
        return FactorPoint(F, Y, centers, float(value), by_samples, by_centers, by_ridge)


@dataclass(frozen=True)
class FactorPath:
    """A :class:`FactorObjective` along ``F + t D``: samples and centres move along lines too."""

    objective: FactorObjective
    origin: FactorPoint
    direction: FloatArray  # (d, r) D
    projected: FloatArray  # (N, r) X D
    centers: FloatArray  # (K, r) of the modes, times D

    def at(self, step: float) -> FactorPoint:
        """Return the point reached by a step, without a product with X."""
        return self.objective._point(
            self.origin.F + step * self.direction,
            self.origin.projected + step * self.projected,
            self.origin.centers + step * self.centers,
        )

    def slope(self, point: FactorPoint) -> float:
        """Return the derivative along the line at one of its points."""
        return (
            kernels.dot(point.by_samples, self.projected)
            + kernels.dot(point.by_centers, self.centers)
            + kernels.dot(point.by_ridge, self.direction)
        )


def factor_conjugate_gradient(
    objective: FactorObjective,
    F: FloatArray,
    leading: LeadingAxes,
    *,
    max_iter: int = 50,
    gtol: float = 1e-9,
    ftol: float = 1e-6,
) -> Result:
    """Minimise an objective over factors; its value falls at every step.

    Preconditioned conjugate gradients with the Hestenes-Stiefel rule and a restart wherever the
    direction does not descend. Stops at a gradient below ``gtol``, times the length of F, or a
    decrease over five steps below ``ftol``, both relative to the value.
    """
    point = objective.at(F)
    gradient = objective.gradient(point)
    steepest = -leading.precondition(gradient)
    direction, guess, restarted = steepest, None, True
    history, status = [point.value], Status.MAX_ITER
    while len(history) <= max_iter:
        if _relative_norm(gradient, point) <= gtol:
            status = Status.CONVERGED
            break
        if len(history) > 5 and history[-6] - history[-1] <= ftol * abs(history[-1]):
            status = Status.STALLED
            break
        slope = kernels.dot(gradient, direction)
        if not slope < 0.0:
            direction, guess, restarted = steepest, None, True
            slope = kernels.dot(gradient, direction)
        path = objective.along(point, direction)
        if guess is None:
            guess = FIRST_STEP * float(_length(point.F) / _length(direction))
        start = Trial(0.0, point.value, slope)
        found = lower_point(path.at, path.slope, start, guess, np.inf)
        if found is None:
            if restarted:
                status = Status.NO_DESCENT
                break
            direction, guess, restarted = steepest, None, True
            continue
        point, step = found
        del found, path  # they would keep old projections alive
        history.append(point.value)
        previous, gradient = gradient, objective.gradient(point)
        steepest = -leading.precondition(gradient)
        change = gradient - previous
        curvature = kernels.dot(direction, change)
        beta = max(0.0, -kernels.dot(steepest, change) / curvature) if curvature > 0.0 else 0.0
        direction, restarted = beta * direction + steepest, beta == 0.0
        new_slope = kernels.dot(gradient, direction)
        guess = step * slope / new_slope if new_slope < 0.0 else None  # equal first-order decrease
    norm = _relative_norm(gradient, point)
    return Result(point.F, point.value, norm, len(history) - 1, status, history)


def _relative_norm(gradient: FloatArray, point: FactorPoint) -> float:
    """Return how much F changed by its own length along the gradient would gain, by the value."""
    gain = float(_length(gradient) * _length(point.F))
    return gain / max(abs(point.value), np.finfo(float).tiny)


def _length(A: FloatArray) -> np.float64:
    return np.sqrt(np.float64(kernels.dot(A, A)))


@dataclass(frozen=True)
class LowRankProblem(LocalProblem):
    """A :class:`LocalProblem` whose metrics have factors of (d, r), as the first one has."""

    X: FloatArray
    leading: LeadingAxes

    @cached_property
    def graph(self) -> Graph:
        """All pairs of the comparisons; on a device these list them in both directions."""
        if isinstance(self.triplets, DeviceComparisons):
            return self.triplets
        return PairGraph.from_pairs(self.triplets.pairs, len(self.X))

    def factor_objective(self, state: State) -> FactorObjective:
        """Return Eq. (7) as a function of a factor of the metric, at the modes of a state."""
        return FactorObjective(
            self.X,
            self.triplets,
            self.graph,
            state.importance,
            self._loss_factor(state.modes),
            state.modes,
            self.ridge,
        )

    def move_metric(self, state: State) -> State:
        """Return the state with a better metric."""
        objective = self.factor_objective(state)
        F = kernels.in_double(self.X, state.F)
        result = factor_conjugate_gradient(objective, F, self.leading, max_iter=self.max_inner_iter)
        return self._at_metric(kernels.to_host(result.F), state.modes, state.importance)

    def critical_triplet_weight(self, state: State) -> float:
        """Return the triplet weight up to which zero is the best metric in the span of F.

        That of the samples mapped by an orthonormal basis of this span: no less than the critical
        weight among all directions, and the same as soon as the span holds the best of them.
        """
        basis = np.linalg.qr(state.F)[0].astype(kernels.precision(self.X))
        X, centers = kernels.rows_times(self.X, basis), state.modes.centers @ basis
        full = LocalProblem(
            X,
            self.triplets,
            self.neighbors,
            self.eta,
            self.triplet_weight,
            self.ridge,
            self.max_inner_iter,
        )
        return full.critical_triplet_weight(
            replace(state, modes=replace(state.modes, centers=centers))
        )

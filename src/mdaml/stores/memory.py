"""Samples and comparisons in the memory of this machine, computed with NumPy and Numba."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn import config_context
from sklearn.utils.extmath import randomized_svd

from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_magnitude
from mdaml.constraints.comparisons import Comparisons
from mdaml.constraints.labels import Classes, nearest_places
from mdaml.constraints.value import Constraints
from mdaml.kernels.comparisons import (
    comparison_losses,
    comparison_losses_along,
    comparison_slopes,
)
from mdaml.kernels.grouping import greedy_colors, near_graph
from mdaml.kernels.modes import center_sq_dists, sequential_weights
from mdaml.kernels.pairs import laplacian_product, pair_products
from mdaml.kernels.products import (
    inner_product,
    one_blas_thread,
    rows_times,
    sum_of_squares,
    transposed_times,
    weighted_gram,
)
from mdaml.kernels.triplets import (
    triplet_gradient,
    triplet_losses,
    triplet_losses_along,
    triplet_slopes,
)
from mdaml.stores.mixture import (
    MAX_ROWS_FOR_START,
    estimate_kmeans,
    estimate_mixture,
    positive_shares,
    rows_for_start,
    scale_rows,
    shares_at,
    weights_from,
)

_ROWS_PER_BLOCK = 4096
Graph = tuple[Any, Any, Any]


class SampleWeights(NamedTuple):
    """Weights of samples in the modes, and their powers ``weights**eta``."""

    weights: Any  # (N, K) rows sum to one
    powers: Any  # (N, K)


class Measures(NamedTuple):
    """Distances and losses under one metric."""

    sq_dists: Any  # (N, K) to the centres
    losses: Any  # (P,) summed over the comparisons of each near pair


@dataclass(frozen=True)
class Turns:
    """An order of updates that threads can share, and the samples joined by near pairs.

    Samples of one colour share no pair, so updating them at once is the same as one by one.
    """

    order: IntArray  # (N,) samples by colour
    colors: IntArray  # (n_colors + 1,) where each colour begins in order
    graph: Any  # None: made again for every update

    @classmethod
    def from_graph(cls, graph: Graph) -> "Turns":
        """Colour the graph of near pairs greedily."""
        color = greedy_colors(*graph[:2])
        starts = np.concatenate([[0], np.cumsum(np.bincount(color))])
        return cls(np.argsort(color, kind="stable"), starts, graph)


@dataclass(frozen=True)
class MemoryStore:
    """Centred samples in an array, with copies of them wherever that is faster."""

    rows: Any  # (N, d) centred
    mean: FloatArray  # (d,)
    comparisons: Comparisons = field(repr=False, default=None)  # type: ignore[assignment]
    turns: Turns = field(repr=False, default=None)  # type: ignore[assignment]
    # One of several stores that together hold all samples: those of the first rows are its own, the
    # others are partners in comparisons. None: all are its own.
    n_own: int | None = None
    n_total: int | None = None

    @classmethod
    def of(cls, X: FloatArray) -> Self:
        """Centre samples: metrics see no translations, rounding does."""
        mean = X.mean(axis=0)
        rows = X - mean
        check_magnitude(rows)
        return cls(rows, mean)

    @property
    def shape(self) -> tuple[int, int]:
        """See :class:`~mdaml.solver.store.Store`, here and below."""
        n, d = self.rows.shape
        return self.n_total or n, d

    @property
    def own(self) -> Any:
        """The samples that are its own."""
        return self.rows if self.n_own is None else self.rows[: self.n_own]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows.dtype

    @property
    def pair_dtype(self) -> np.dtype[Any]:
        """The precision of what is kept for each pair."""
        return np.dtype(np.float64)

    @property
    def total(self) -> float:
        return self.comparisons.total

    def threads(self) -> AbstractContextManager[object]:
        return one_blas_thread()

    def small(self, A: FloatArray) -> FloatArray:
        return A

    def host(self, A: FloatArray) -> FloatArray:
        return A

    def put(self, A: FloatArray) -> FloatArray:
        """Return an array where the samples are."""
        return A

    def compare(self, said: Constraints) -> Self:
        grouped = group(scale_weights(said), len(self.rows))
        return replace(self, comparisons=grouped, turns=Turns.from_graph(grouped.near_graph()))

    def mapped(self, basis: FloatArray) -> "MemoryStore":
        parts = (self.comparisons, self.turns, self.n_own, self.n_total)
        return MemoryStore(self.project(basis), np.zeros(0), *parts)

    # The metric.

    def project(self, F: FloatArray) -> FloatArray:
        return rows_times(self.rows, F)

    def turn(self, Y: FloatArray, A: FloatArray) -> FloatArray:
        return rows_times(Y, A)

    def shift(self, Y: FloatArray, step: float, Z: FloatArray) -> FloatArray:
        return Y + step * Z

    def map_centers(self, centers: FloatArray, F: FloatArray) -> FloatArray:
        return centers.astype(self.dtype) @ F.astype(self.dtype)

    def spread(self, Y: FloatArray) -> float:
        return sum_of_squares(Y[: self.n_own])

    def loss_and_half(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        scales = scales.astype(Y.dtype, copy=False)
        if self.comparisons.weights is None:
            loss, product = triplet_gradient(Y, scales, self.comparisons.lists, importance)
        else:
            loss, slopes = self._slopes(Y, scales, importance)
            product = laplacian_product(Y, self.comparisons.pairs, self.comparisons.groups, slopes)
        return loss, transposed_times(Y, product)

    def losses_along(self, Y: FloatArray, scales: FloatArray, importance: FloatArray) -> FloatArray:
        given, scales = self.comparisons, scales.astype(Y.dtype, copy=False)
        if given.weights is None:
            return triplet_losses_along(Y, scales, given.lists, importance)
        return comparison_losses_along(Y, scales, given.pairs, given.by_near, importance)

    def pull(
        self,
        Y: FloatArray,
        centers: FloatArray,
        weights: SampleWeights,
        importance: FloatArray,
        loss_factor: float,
    ) -> tuple[float, float, FloatArray, FloatArray]:
        powers, own = weights.powers[: self.n_own], Y[: self.n_own]
        loss, slopes = self._slopes(Y, np.ones(Y.shape[1], Y.dtype), importance)
        by_samples = self._laplacian_times(Y, (2.0 * loss_factor) * slopes)
        factor = 2.0 / (self.shape[0] * powers.shape[1])
        shares = powers.sum(axis=1, keepdims=True)
        by_samples[: self.n_own] += factor * (shares * own - powers @ centers)
        masses = powers.sum(axis=0, dtype=np.float64)[:, None]
        by_centers = factor * (masses * centers - transposed_times(powers, own))
        clustering = inner_product(powers, center_sq_dists(own, centers))
        return clustering, loss, by_samples, by_centers

    def cross(self, by_samples: FloatArray) -> FloatArray:
        return transposed_times(self.rows, by_samples)

    def inner(self, by_samples: FloatArray, Z: FloatArray) -> float:
        return float(np.vdot(by_samples, Z))

    def push(self, importance: FloatArray) -> FloatArray:
        scales = np.zeros(self.shape[1])
        return self.loss_and_half(self.rows[:], scales, importance)[1]

    def _slopes(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return the loss for distances in Y, and its derivative in each squared distance."""
        given = self.comparisons
        if given.weights is None:
            return triplet_slopes(Y, scales, given.lists, importance, 1.0)
        return comparison_slopes(Y, scales, given.pairs, given.by_near, given.by_far, importance)

    def _laplacian_times(self, Y: FloatArray, weights: FloatArray) -> FloatArray:
        """Return ``sum_p weights[p] (e_i - e_j)(e_i - e_j)^T Y``.

        The kernel gives half of it, from one side; of both directions it gives the whole.
        """
        pairs, groups, places = self._both_ways
        return laplacian_product(Y, pairs, groups, weights[places])

    @cached_property
    def _both_ways(self) -> tuple[IntArray, IntArray, IntArray]:
        """All pairs in both directions, their groups by first row, and which pairs they are."""
        pairs = self.comparisons.pairs
        every = np.ones(len(pairs), np.int32)
        indptr, others, places = near_graph(pairs, 0 * every, every, len(self.rows))
        counts = np.diff(indptr)
        samples = np.repeat(np.arange(len(self.rows), dtype=np.int32), counts)
        groups = np.append(0, np.cumsum(counts[counts > 0]))
        return np.column_stack([samples, others]), groups, places

    # The modes.

    def measure(self, F: FloatArray, centers: FloatArray) -> Measures:
        projected, given = self.project(F), self.comparisons
        placed = centers @ F.astype(centers.dtype)
        sq_dists = center_sq_dists(projected[: self.n_own], placed)
        if given.weights is None:
            losses = triplet_losses(projected, given.lists, self.pair_dtype)
        else:
            losses = comparison_losses(projected, given.pairs, given.by_near, self.pair_dtype)
        return Measures(sq_dists, losses)

    def recenter(self, measured: Measures, F: FloatArray, centers: FloatArray) -> Measures:
        placed = centers @ F.astype(centers.dtype)
        return measured._replace(sq_dists=center_sq_dists(rows_times(self.own, F), placed))

    def terms(
        self, weights: SampleWeights, measured: Measures, importance: FloatArray
    ) -> tuple[float, float]:
        clustering = inner_product(weights.powers[: self.n_own], measured.sq_dists)
        return clustering, inner_product(importance, measured.losses)

    def lost(self, measured: Measures, importance: FloatArray) -> tuple[float, float]:
        losses = inner_product(importance, measured.losses)
        totals = self.comparisons.near_totals().astype(np.float64, copy=False)
        return losses, inner_product(importance, totals)

    def importances(self, weights: SampleWeights) -> FloatArray:
        given = self.comparisons
        return pair_products(weights.powers, given.pairs, given.first, given.last, self.pair_dtype)

    def center_sums(self, weights: SampleWeights) -> tuple[FloatArray, FloatArray]:
        powers = weights.powers[: self.n_own]
        return transposed_times(powers, self.own), powers.sum(axis=0, dtype=np.float64)

    def moments(self, weights: SampleWeights) -> tuple[FloatArray, FloatArray, FloatArray]:
        own = weighted_gram(self.own, weights.powers[: self.n_own].sum(axis=1))
        return own, *self.center_sums(weights)

    def update_weights(
        self, weights: SampleWeights, measured: Measures, loss_factor: float, eta: float
    ) -> SampleWeights:
        graph = self.turns.graph or self.comparisons.near_graph()
        losses = measured.losses * loss_factor
        return self.sweep(weights, measured, losses, replace(self.turns, graph=graph), eta)

    def sweep(
        self,
        weights: SampleWeights,
        measured: Measures,
        losses: FloatArray,
        turns: Turns,
        eta: float,
    ) -> SampleWeights:
        """Update samples in turn, given what each near pair of the graph costs."""
        new, powers = weights.weights.copy(), weights.powers.copy()
        costs = measured.sq_dists / self.shape[0]
        sequential_weights(new, powers, costs, turns.graph, losses, turns.order, turns.colors, eta)
        return SampleWeights(new, powers)

    def adopt(self, weights: SampleWeights) -> SampleWeights:
        return weights

    # The start.

    def covariance(self) -> FloatArray:
        return transposed_times(self.own, self.own) / self.shape[0]

    def leading_axes(
        self, n_axes: int, rng: np.random.RandomState
    ) -> tuple[FloatArray, FloatArray, float]:
        some = rows_for_start(self.shape[0], 0, rng)
        return leading_axes(self.rows[:] if some is None else self.rows[some], n_axes, rng)

    def given_weights(self, weights: FloatArray, eta: float) -> SampleWeights:
        shares = positive_shares(weights, self.dtype)
        return SampleWeights(shares, shares**eta)

    def weighted_means(self, weights: SampleWeights) -> tuple[FloatArray, FloatArray]:
        shares = weights.weights
        return transposed_times(shares, self.own), shares.sum(axis=0, dtype=np.float64)

    def mixture_weights(
        self, n_modes: int, eta: float, rng: np.random.RandomState
    ) -> SampleWeights:
        mean, spread = self._mean_and_spread()
        some = scale_rows(self._some_rows(n_modes, rng), mean, spread)
        mixture = estimate_mixture(some, n_modes, rng)
        return self.given_weights(self._weights_from(mixture, n_modes, mean, spread), eta)

    def kmeans_weights(self, n_modes: int, eta: float, rng: np.random.RandomState) -> SampleWeights:
        kmeans = estimate_kmeans(self._some_rows(n_modes, rng), n_modes, rng)
        return self.given_weights(self._weights_from(kmeans, n_modes), eta)

    def weights_at(self, F: FloatArray, centers: FloatArray, eta: float) -> SampleWeights:
        factor = F.astype(self.dtype)
        sq_dists = center_sq_dists(
            rows_times(self.own, factor), centers.astype(self.dtype) @ factor
        )
        shares = shares_at(sq_dists, eta)
        return SampleWeights(shares, shares**eta)

    def fetch_weights(self, weights: SampleWeights) -> FloatArray:
        return weights.weights

    def nearest(
        self, F: FloatArray, classes: Classes, n_similar: int, n_dissimilar: int
    ) -> tuple[IntArray, IntArray]:
        rows = classes.rows
        Y = self.rows[rows] if is_identity(F) else self.project(F)[rows]
        return nearest_places(Y, classes, n_similar, n_dissimilar)

    def _mean_and_spread(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of each feature."""
        return self.rows.mean(axis=0), self.rows.std(axis=0)

    def _some_rows(self, n_modes: int, rng: np.random.RandomState) -> FloatArray:
        some = rows_for_start(self.shape[0], n_modes, rng)
        return self.rows[:] if some is None else self.rows[some]

    def _weights_from(self, estimate: Any, n_modes: int, *scaling: FloatArray) -> FloatArray:
        """Return the weights of all rows, of many rows in blocks: bounds the memory."""

        def weigh(rows: FloatArray) -> FloatArray:
            return weights_from(estimate, scale_rows(rows, *scaling) if scaling else rows)

        if self.shape[0] <= MAX_ROWS_FOR_START:
            return weigh(self.rows[:])
        out = np.empty((self.shape[0], n_modes), self.dtype)
        for begin in range(0, len(out), _ROWS_PER_BLOCK):
            block = slice(begin, begin + _ROWS_PER_BLOCK)
            out[block] = weigh(self.rows[block])
        return out


def leading_axes(
    rows: FloatArray, n_axes: int, rng: np.random.RandomState
) -> tuple[FloatArray, FloatArray, float]:
    """Return principal axes of rows by a randomised decomposition, and variances."""
    with config_context(array_api_dispatch=False):
        _, lengths, axes = randomized_svd(
            rows, min(n_axes, *rows.shape), n_iter=4, random_state=rng
        )
    variances = np.square(lengths.astype(np.float64)) / len(rows)
    return axes.T.astype(np.float64, copy=False), variances, sum_of_squares(rows) / rows.size


def scale_weights(said: Constraints) -> Constraints:
    """Return comparisons whose weights are one on average; triplets have none."""
    if len(said.quadruplets) == 0:
        return said
    scaled = said.weights * (len(said.weights) / float(said.weights.sum()))
    return Constraints.of_quadruplets(said.quadruplets, scaled, said.n_points)


def group(said: Constraints, n_samples: int) -> Comparisons:
    """Return triplets of equal weight, or weighted quadruplets, as the kernels take them."""
    if len(said.quadruplets):
        return Comparisons.from_quadruplets(said.quadruplets, said.weights, n_samples)
    return Comparisons.from_triplets(said.triplets, n_samples)


def is_identity(F: FloatArray) -> bool:
    """Return whether a factor changes nothing."""
    return F.shape[0] == F.shape[1] and np.array_equal(F, np.eye(len(F)))

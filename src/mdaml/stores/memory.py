"""Samples and comparisons in the memory of this machine, computed with NumPy and Numba."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from sklearn import config_context
from sklearn.cluster import KMeans
from sklearn.utils.extmath import randomized_svd

from mdaml._typing import Dtype, FloatArray, IntArray, Matrix, Rng
from mdaml._validation import check_magnitude
from mdaml.constraints.comparisons import Comparisons
from mdaml.constraints.labels import Classes
from mdaml.constraints.value import Constraints
from mdaml.kernels import comparisons, products, triplets
from mdaml.kernels.grouping import near_graph
from mdaml.kernels.modes import center_sq_dists, sequential_weights
from mdaml.kernels.pairs import laplacian_product, pair_products
from mdaml.kernels.prefetch import empty_lines
from mdaml.neighbors.search import nearest_places
from mdaml.stores import mixture
from mdaml.stores.arrays import ArrayStore, SampleWeights, Turns, is_identity, raised, scale_weights

_ROWS_PER_BLOCK = 4096


@dataclass(frozen=True)
class MemoryStore(ArrayStore):
    """Centred samples in an array, with copies of them wherever that is faster."""

    @classmethod
    def of(cls, X: FloatArray) -> Self:
        """Centre samples: metrics see no translations, rounding does."""
        mean = X.mean(axis=0)
        rows = np.subtract(X, mean, out=empty_lines(X.shape, mean.dtype))
        check_magnitude(rows)
        return cls(rows, mean)

    @property
    def dtype(self) -> Dtype:
        return self.rows.dtype

    @property
    def pair_dtype(self) -> Dtype:
        """The precision of what is kept for each pair."""
        return np.dtype(np.float64)

    def threads(self) -> AbstractContextManager[object]:
        return products.one_blas_thread()

    def compare(self, supervision: Constraints) -> Self:
        return replace(self, comparisons=group(scale_weights(supervision), len(self.rows)))

    @cached_property
    def turns(self) -> Turns:
        return Turns.from_graph(self.comparisons.near_graph())

    def part(self, rows: IntArray) -> "MemoryStore":
        return MemoryStore(self.rows[rows], self.mean)

    def mapped(self, basis: FloatArray) -> "MemoryStore":
        parts = (self.comparisons, self.n_own, self.n_total)
        return MemoryStore(self.project(basis), np.zeros(0), *parts)

    def times(self, Y: Matrix, A: FloatArray) -> FloatArray:
        return products.rows_times(Y, A)

    def cross_sums(self, Y: Matrix, V: Matrix, weights: FloatArray | None = None) -> FloatArray:
        if weights is None:
            return products.transposed_times(Y, V)
        return products.weighted_gram(Y, weights)

    def column_sums(self, A: FloatArray) -> FloatArray:
        return A.sum(axis=0, dtype=np.float64)

    def inner_sum(self, a: FloatArray, b: FloatArray) -> float:
        return products.inner_product(a, b)

    # Pairs: triplets go reference by reference, comparisons of any two pairs in their own passes.

    def loss_and_half(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        given, scales = self.comparisons, scales.astype(Y.dtype, copy=False)
        if given.weights is None:
            loss, product = triplets.triplet_gradient(Y, scales, given.lists, importance)
        else:
            loss, slopes = self.slopes(Y, scales, importance)
            product = laplacian_product(Y, given.pairs, given.groups, slopes)
        return loss, products.transposed_times(Y, product)

    def losses_along(self, Y: FloatArray, scales: FloatArray, importance: FloatArray) -> FloatArray:
        given, scales = self.comparisons, scales.astype(Y.dtype, copy=False)
        if given.weights is None:
            return triplets.triplet_losses_along(Y, scales, given.lists, importance)
        return comparisons.comparison_losses_along(
            Y, scales, given.pairs, given.by_near, importance
        )

    def slopes(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        given, scales = self.comparisons, scales.astype(Y.dtype, copy=False)
        if given.weights is None:
            return triplets.triplet_slopes(Y, scales, given.lists, importance, 1.0)
        return comparisons.comparison_slopes(
            Y, scales, given.pairs, given.by_near, given.by_far, importance
        )

    def pair_losses(self, Y: FloatArray) -> FloatArray:
        given = self.comparisons
        if given.weights is None:
            return triplets.triplet_losses(Y, given.lists, self.pair_dtype)
        return comparisons.comparison_losses(Y, given.pairs, given.by_near, self.pair_dtype)

    def pair_totals(self) -> FloatArray:
        return self.comparisons.near_totals()

    def importances(self, weights: SampleWeights, floor: float = 0.0) -> FloatArray:
        given = self.comparisons
        if weights.powers.shape[1] == 1:  # all ones
            return raised(np.ones(1, self.pair_dtype), floor)
        return raised(
            pair_products(weights.powers, given.pairs, given.starts, self.pair_dtype), floor
        )

    def laplacian_times(self, Y: FloatArray, weights: FloatArray) -> FloatArray:
        # The kernel gives half of it, from one side; of both directions it gives the whole.
        pairs, groups, places = self._both_ways
        return laplacian_product(Y, pairs, groups, weights[places])

    @cached_property
    def _both_ways(self) -> tuple[IntArray, IntArray, IntArray]:
        """All pairs in both directions, their groups by first row, and which pairs they are."""
        pairs = self.comparisons.pairs
        indptr, others, places = near_graph(pairs, np.ones(len(pairs), bool), len(self.rows))
        counts = np.diff(indptr)
        samples = np.repeat(np.arange(len(self.rows), dtype=np.int32), counts)
        groups = np.append(0, np.cumsum(counts[counts > 0]))
        return np.column_stack([samples, others]), groups, places

    # Samples.

    def map_centers(self, centers: FloatArray, F: FloatArray) -> FloatArray:
        return centers.astype(self.dtype) @ F.astype(self.dtype)

    def spread(self, Y: FloatArray) -> float:
        return products.sum_of_squares(Y[: self.n_own])

    def inner(self, by_samples: FloatArray, Z: FloatArray) -> float:
        return float(np.vdot(by_samples, Z))

    def center_sq_dists(self, Y: FloatArray, centers: FloatArray) -> FloatArray:
        return center_sq_dists(Y, centers)

    def update_in_turn(
        self,
        weights: SampleWeights,
        costs: FloatArray,
        losses: FloatArray,
        turns: Turns,
        eta: float,
    ) -> SampleWeights:
        graph = turns.graph or self.comparisons.near_graph()
        new, powers = weights.weights.copy(), weights.powers.copy()
        sequential_weights(new, powers, costs, graph, losses, turns.order, turns.colors, eta)
        return SampleWeights(new, powers)

    # The start.

    def leading_axes(self, n_axes: int, rng: Rng) -> tuple[FloatArray, FloatArray, float]:
        return leading_axes(self.some_rows(mixture.n_rows_for_start(), rng), n_axes, rng)

    def given_weights(self, weights: FloatArray, eta: float) -> SampleWeights:
        shares = mixture.positive_shares(weights, self.dtype)
        return SampleWeights(shares, shares if shares.shape[1] == 1 else shares**eta)  # all ones

    def mixture_weights(self, n_modes: int, eta: float, rng: Rng) -> SampleWeights:
        mean, spread = self._mean_and_spread()
        some = self.some_rows(mixture.n_rows_for_start(n_modes), rng)
        estimate = mixture.estimate_mixture(mixture.scale_rows(some, mean, spread), n_modes, rng)
        return self.given_weights(self._weights_from(estimate, n_modes, mean, spread), eta)

    def kmeans_weights(self, n_modes: int, eta: float, rng: Rng) -> SampleWeights:
        some = self.some_rows(mixture.n_rows_for_start(n_modes), rng)
        kmeans = mixture.estimate_kmeans(some, n_modes, rng)
        return self.given_weights(self._weights_from(kmeans, n_modes), eta)

    def nearest(
        self, F: FloatArray, classes: Classes, n_similar: int, n_dissimilar: int
    ) -> tuple[IntArray, IntArray]:
        rows = classes.rows
        Y = self.rows[rows] if is_identity(F) else self.project(F)[rows]
        return nearest_places(Y, classes.bounds, rows, (n_similar, n_dissimilar))

    def _mean_and_spread(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of each feature."""
        return self.rows.mean(axis=0), self.rows.std(axis=0)

    def _weights_from(
        self, estimate: mixture.Mixture | KMeans, n_modes: int, *scaling: FloatArray
    ) -> FloatArray:
        """Return the weights of all rows, of many rows in blocks: bounds the memory."""

        def weigh(rows: FloatArray) -> FloatArray:
            scaled = mixture.scale_rows(rows, *scaling) if scaling else rows
            return mixture.weights_from(estimate, scaled)

        if self.shape[0] <= mixture.MAX_ROWS_FOR_START:
            return weigh(self.rows[:])
        out = np.empty((self.shape[0], n_modes), self.dtype)
        for begin in range(0, len(out), _ROWS_PER_BLOCK):
            block = slice(begin, begin + _ROWS_PER_BLOCK)
            out[block] = weigh(self.rows[block])
        return out


def leading_axes(rows: FloatArray, n_axes: int, rng: Rng) -> tuple[FloatArray, FloatArray, float]:
    """Return principal axes of rows by a randomised decomposition, and variances."""
    with config_context(array_api_dispatch=False):
        _, lengths, axes = randomized_svd(
            rows, min(n_axes, *rows.shape), n_iter=4, random_state=rng
        )
    variances = np.square(lengths.astype(np.float64)) / len(rows)
    level = products.sum_of_squares(rows) / rows.size
    return axes.T.astype(np.float64, copy=False), variances, level


def group(supervision: Constraints, n_samples: int) -> Comparisons:
    """Return triplets of equal weight, or weighted quadruplets, as the kernels take them."""
    if len(supervision.quadruplets):
        return Comparisons.from_quadruplets(supervision.quadruplets, supervision.weights, n_samples)
    return Comparisons.from_triplets(supervision.triplets, n_samples)

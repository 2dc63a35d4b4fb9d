"""What stores of arrays and of tensors have in common, in one text for both libraries."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from mdaml._typing import FloatArray, IntArray, Matrix, Rng
from mdaml.constraints.comparisons import Comparisons
from mdaml.constraints.value import Constraints
from mdaml.kernels.grouping import greedy_colors
from mdaml.stores import mixture

if TYPE_CHECKING:
    import torch

    Array: TypeAlias = FloatArray | torch.Tensor
else:
    Array = FloatArray  # torch is loaded only if a device is asked for

# The near pairs of each sample: where its list begins, the other samples, the pairs; or tensors.
Graph: TypeAlias = tuple[IntArray, IntArray, IntArray]


class SampleWeights(NamedTuple):
    """Weights of samples in the modes, and their powers ``weights**eta``."""

    weights: Array  # (N, K) rows sum to one
    powers: Array  # (N, K)


class Measures(NamedTuple):
    """Distances and losses under one metric."""

    sq_dists: Array  # (N, K) to the centres
    losses: Array  # (P,) summed over the comparisons of each near pair


@dataclass(frozen=True)
class Turns:
    """An order of updates that threads can share, and the samples joined by near pairs.

    Samples of one colour share no pair, so updating them at once is the same as one by one.
    """

    order: IntArray  # (N,) samples by colour
    colors: IntArray  # (n_colors + 1,) where each colour begins in order
    graph: Graph | None  # None: made again for every update

    @classmethod
    def from_graph(cls, graph: Graph) -> "Turns":
        """Colour the graph of near pairs greedily."""
        color = greedy_colors(*graph[:2])
        starts = np.concatenate([[0], np.cumsum(np.bincount(color))])
        return cls(np.argsort(color, kind="stable"), starts, graph)


@dataclass(frozen=True)
class ArrayStore(ABC):
    """Centred samples, and comparisons of them, in arrays of one library."""

    rows: Matrix  # (N, d) centred, or a tensor
    mean: FloatArray  # (d,) in the precision of X
    comparisons: Comparisons = field(repr=False, default=None)  # type: ignore[assignment]
    # One of several stores that together hold all samples: those of the first rows are its own, the
    # others are partners in comparisons. None: all are its own.
    n_own: int | None = None
    n_total: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """See :class:`~mdaml.solver.store.Store`, here and below."""
        n, d = self.rows.shape
        return self.n_total or n, d

    @property
    def own(self) -> Array:
        """The samples that are its own."""
        return self.rows if self.n_own is None else self.rows[: self.n_own]

    @property
    def total(self) -> float:
        return self.comparisons.total

    @property
    @abstractmethod
    def turns(self) -> Turns:
        """The order of updates of weights, found at the first one: a single mode needs none."""

    # Arrays of NumPy are where they should be; others are moved.

    def small(self, A: Array) -> Array:
        return A

    def host(self, A: Array) -> FloatArray:
        return A

    def put(self, A: FloatArray | IntArray) -> Any:
        """Return an array where the samples are."""
        return A

    def beside(self, A: Array) -> Array:
        """Return an array where the samples are, in their precision."""
        return A

    # What the libraries do in their own ways.

    @abstractmethod
    def times(self, Y: Array, A: Array) -> Array:
        """Return Y A for a tall Y, in its precision."""

    @abstractmethod
    def cross_sums(self, Y: Array, V: Array, weights: Array | None = None) -> Array:
        """Return ``Y^T diag(weights) V`` for tall Y and V, in double precision, as small."""

    @abstractmethod
    def column_sums(self, A: Array) -> FloatArray:
        """Return the sums of the columns, in double precision, on the host."""

    @abstractmethod
    def inner_sum(self, a: Array, b: Array) -> float:
        """Return the sum of the products of corresponding entries, in double precision."""

    @abstractmethod
    def loss_and_half(self, Y: Array, scales: Array, importance: Array) -> tuple[float, Array]: ...

    @abstractmethod
    def slopes(self, Y: Array, scales: Array, importance: Array) -> tuple[float, Array]:
        """Return the loss for distances in Y, and its derivative in each squared distance."""

    @abstractmethod
    def laplacian_times(self, Y: Array, weights: Array) -> Array:
        """Return ``sum_p weights[p] (e_i - e_j)(e_i - e_j)^T Y``."""

    @abstractmethod
    def pair_losses(self, Y: Array) -> Array:
        """Return the losses of the comparisons of each near pair, for distances in Y."""

    @abstractmethod
    def pair_totals(self) -> Array:
        """Return the weight of the comparisons of each near pair."""

    @abstractmethod
    def center_sq_dists(self, Y: Array, centers: Array) -> Array:
        """Return squared distances of the rows of Y to centres."""

    @abstractmethod
    def update_in_turn(
        self, weights: SampleWeights, costs: Array, losses: Array, turns: Turns, eta: float
    ) -> SampleWeights:
        """Return new weights, given what modes cost each sample by itself and by near pairs."""

    # The metric.

    def project(self, F: Array) -> Array:
        return self.times(self.rows, F)

    def turn(self, Y: Array, A: Array) -> Array:
        return self.times(Y, A)

    def shift(self, Y: Array, step: float, Z: Array) -> Array:
        return Y + step * Z

    def pull(
        self,
        Y: Array,
        centers: Array,
        weights: SampleWeights,
        importance: Array,
        loss_factor: float,
    ) -> tuple[float, float, Array, Array]:
        powers, own, placed = weights.powers[: self.n_own], Y[: self.n_own], self.beside(centers)
        loss, slopes = self.slopes(Y, np.ones(Y.shape[1]), importance)
        by_samples = self.laplacian_times(Y, (2.0 * loss_factor) * slopes)
        factor = 2.0 / (self.shape[0] * powers.shape[1])
        shares = powers.sum(axis=1)[:, None]
        by_samples[: self.n_own] += factor * (shares * own - powers @ placed)
        masses = self.small(self.column_sums(powers)[:, None])
        by_centers = factor * (masses * centers - self.cross_sums(powers, own))
        clustering = self.inner_sum(powers, self.center_sq_dists(own, placed))
        return clustering, loss, by_samples, by_centers

    def cross(self, by_samples: Array) -> Array:
        return self.cross_sums(self.rows, by_samples)

    def push(self, importance: Array) -> FloatArray:
        nowhere = np.zeros(self.shape[1])
        return self.host(self.loss_and_half(self.rows[:], nowhere, importance)[1])

    # The modes.

    def measure(self, F: FloatArray, centers: FloatArray) -> Measures:
        Y = self.project(F)
        return Measures(self._sq_dists(Y[: self.n_own], F, centers), self.pair_losses(Y))

    def recenter(self, measured: Measures, F: FloatArray, centers: FloatArray) -> Measures:
        return measured._replace(sq_dists=self._sq_dists(self.times(self.own, F), F, centers))

    def _sq_dists(self, Y: Array, F: FloatArray, centers: FloatArray) -> Array:
        return self.center_sq_dists(Y, self.beside(centers @ F.astype(centers.dtype)))

    def terms(
        self, weights: SampleWeights, measured: Measures, importance: Array
    ) -> tuple[float, float]:
        clustering = self.inner_sum(weights.powers[: self.n_own], measured.sq_dists)
        return clustering, self.inner_sum(importance, measured.losses)

    def weight(self, importance: Array) -> float:
        return self.inner_sum(importance, self.pair_totals())

    def center_sums(self, weights: SampleWeights) -> tuple[FloatArray, FloatArray]:
        powers = weights.powers[: self.n_own]
        return self.host(self.cross_sums(powers, self.own)), self.column_sums(powers)

    def moments(self, weights: SampleWeights) -> tuple[FloatArray, FloatArray, FloatArray]:
        shares = weights.powers[: self.n_own].sum(axis=1)
        own = self.host(self.cross_sums(self.own, self.own, shares))
        return own, *self.center_sums(weights)

    def update_weights(
        self, weights: SampleWeights, measured: Measures, loss_factor: float, eta: float
    ) -> SampleWeights:
        return self.sweep(weights, measured, measured.losses * loss_factor, self.turns, eta)

    def sweep(
        self, weights: SampleWeights, measured: Measures, losses: Array, turns: Turns, eta: float
    ) -> SampleWeights:
        """Update samples in turn, given what each near pair of the graph costs."""
        return self.update_in_turn(weights, measured.sq_dists / self.shape[0], losses, turns, eta)

    def adopt(self, weights: SampleWeights) -> SampleWeights:
        return weights

    # The start.

    def some_rows(self, most: int, rng: Rng) -> Array:
        """Return at most so many samples, drawn at random."""
        some = mixture.some_of(self.shape[0], most, rng)
        return self.rows[:] if some is None else self.rows[self.put(some)]

    def count_modes(self, most: int, rng: Rng) -> int:
        some = self.some_rows(mixture.MAX_ROWS_TO_COUNT, rng)
        return mixture.count_modes(self.host(some), most, rng)

    def covariance(self) -> FloatArray:
        return self.host(self.cross_sums(self.own, self.own)) / self.shape[0]

    def weighted_means(self, weights: SampleWeights) -> tuple[FloatArray, FloatArray]:
        shares = weights.weights
        return self.host(self.cross_sums(shares, self.own)), self.column_sums(shares)

    def weights_at(self, F: FloatArray, centers: FloatArray, eta: float) -> SampleWeights:
        sq_dists = self._sq_dists(self.times(self.own, F), F, centers)
        shares = self.beside(mixture.shares_at(self.host(sq_dists), eta))
        return SampleWeights(shares, shares**eta)

    def fetch_weights(self, weights: SampleWeights) -> FloatArray:
        return self.host(weights.weights)

    def fetch_mapped(self, F: FloatArray) -> FloatArray:
        return self.host(self.times(self.own, F))


def scale_weights(supervision: Constraints) -> Constraints:
    """Return comparisons whose weights are one on average; triplets have none."""
    if len(supervision.quadruplets) == 0:
        return supervision
    scaled = supervision.weights * (len(supervision.weights) / float(supervision.weights.sum()))
    return Constraints.of_quadruplets(supervision.quadruplets, scaled, supervision.n_points)


def raised(importance: Array, floor: float) -> Array:
    """Return self-weights above a floor; where no near pair is, they count for nothing."""
    return importance if floor == 0.0 else floor + (1.0 - floor) * importance


def is_identity(F: FloatArray) -> bool:
    """Return whether a factor changes nothing."""
    return F.shape[0] == F.shape[1] and np.array_equal(F, np.eye(len(F)))

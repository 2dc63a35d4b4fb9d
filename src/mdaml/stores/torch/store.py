"""The store on a device: whatever has an entry for each sample, pair or comparison stays there."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch

from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_magnitude
from mdaml.constraints.comparisons import Comparisons
from mdaml.constraints.labels import Classes, nearest_places
from mdaml.constraints.value import Constraints
from mdaml.kernels.products import one_blas_thread
from mdaml.stores.memory import Measures, SampleWeights, Turns, is_identity, scale_weights
from mdaml.stores.mixture import estimate_kmeans, rows_for_start, shares_at
from mdaml.stores.torch import pairs
from mdaml.stores.torch.modes import center_sq_dists, nearest_center, sequential_weights
from mdaml.stores.torch.start import mixture_posteriors, principal_axes

# Rows whose products are summed in single precision, before double precision takes over. Many
# blocks also keep all processors of a device busy where the result is a small matrix.
_ROWS_PER_BLOCK = 4096
_MAX_PARTIAL = 2**27  # entries of all partial sums together
# From so many features on small matrices pay for their algebra on a GPU, and BLAS for threads.
LARGE = 256


@dataclass(frozen=True)
class TorchStore:
    """Centred samples on a device; small matrices are tensors there if they are large enough."""

    rows: torch.Tensor  # (N, d) centred, single precision
    mean: FloatArray  # (d,) in the precision of X
    comparisons: Comparisons = field(repr=False, default=None)  # type: ignore[assignment]
    by_far: Any = field(repr=False, default=None)
    by_second: Any = field(repr=False, default=None)
    turns: Turns = field(repr=False, default=None)  # type: ignore[assignment]
    n_own: int | None = None  # as in MemoryStore
    n_total: int | None = None

    @classmethod
    def on(cls, X: FloatArray, device: str) -> Self:
        """Copy samples to a device and centre them; read-only arrays need no copy before."""
        samples = torch.tensor(X, device=device)
        mean = samples.mean(dim=0, dtype=torch.float64).to(samples)
        rows = (samples - mean).float()
        check_magnitude(rows)
        return cls(rows, mean.cpu().numpy())

    @property
    def shape(self) -> tuple[int, int]:
        """See :class:`~mdaml.solver.store.Store`, here and below."""
        n, d = self.rows.shape
        return self.n_total or n, d

    @property
    def own(self) -> torch.Tensor:
        """The samples that are its own."""
        return self.rows[: self.n_own]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    @property
    def total(self) -> float:
        return self.comparisons.total

    def threads(self) -> AbstractContextManager[object]:
        """Limit the threads of BLAS unless large matrices need them: here are none of ours."""
        return one_blas_thread() if self.shape[1] < LARGE else nullcontext()

    def small(self, A: Any) -> Any:
        if self.shape[1] < LARGE or self.rows.device.type == "cpu" or isinstance(A, torch.Tensor):
            return A
        return torch.tensor(A, device=self.rows.device)

    def host(self, A: Any) -> FloatArray:
        return A.cpu().numpy() if isinstance(A, torch.Tensor) else A

    def _beside(self, A: Any) -> torch.Tensor:
        """Return an array in the precision and on the device of the samples."""
        return (A if isinstance(A, torch.Tensor) else torch.tensor(A)).to(self.rows)

    def put(self, A: FloatArray) -> torch.Tensor:
        """Return an array where the samples are."""
        return torch.tensor(A, device=self.rows.device)

    def compare(self, said: Constraints) -> Self:
        return self.group(scale_weights(said))

    def group(self, said: Constraints) -> Self:
        """Return the samples with comparisons whose weights are used as they are."""
        given, weights = said.triplets, None
        if len(said.quadruplets):
            given, weights = said.quadruplets, said.weights
        n, device = len(self.rows), self.rows.device
        comparisons, by_far, by_second = pairs.group(given, weights, n, device)
        graph = pairs.near_graph(comparisons.pairs, comparisons.first, comparisons.last, n)
        # One sample after another, so no work for a GPU; and with the same colours the weights are
        # updated in the same order as without a device.
        turns = Turns.from_graph((self.host(graph[0].long()), self.host(graph[1]), graph[2]))
        turns = replace(turns, graph=graph)
        return replace(
            self, comparisons=comparisons, by_far=by_far, by_second=by_second, turns=turns
        )

    def mapped(self, basis: FloatArray) -> Self:
        return replace(self, rows=self.project(basis), mean=np.zeros(0))

    # The metric.

    def project(self, F: Any) -> torch.Tensor:
        return self.rows @ self._beside(F)

    def turn(self, Y: torch.Tensor, A: Any) -> torch.Tensor:
        return Y @ self._beside(A)

    def shift(self, Y: torch.Tensor, step: float, Z: torch.Tensor) -> torch.Tensor:
        return Y + step * Z

    def map_centers(self, centers: FloatArray, F: Any) -> Any:
        if isinstance(F, torch.Tensor):
            return self._beside(centers) @ self._beside(F)
        return centers.astype(self.dtype) @ F.astype(self.dtype)

    def spread(self, Y: torch.Tensor) -> float:
        return float(torch.linalg.vector_norm(Y[: self.n_own], dtype=torch.float64)) ** 2

    def loss_and_half(
        self, Y: torch.Tensor, scales: Any, importance: torch.Tensor
    ) -> tuple[float, Any]:
        loss, slopes = self._slopes(Y, scales, importance)
        product = pairs.laplacian_product(Y, self.comparisons, self.by_second, slopes)
        half = _transposed_times(Y, product)
        return loss, half if isinstance(scales, torch.Tensor) else self.host(half)

    def losses_along(self, Y: torch.Tensor, scales: Any, importance: torch.Tensor) -> FloatArray:
        sq_dists = pairs.pair_sq_dists(Y, self.comparisons.pairs, self._beside(scales))
        losses = [
            torch.dot(pairs.near_losses(row, self.comparisons), importance) for row in sq_dists
        ]
        return self.host(torch.stack(losses))

    def pull(
        self,
        Y: torch.Tensor,
        centers: Any,
        weights: SampleWeights,
        importance: torch.Tensor,
        loss_factor: float,
    ) -> tuple[float, float, torch.Tensor, Any]:
        powers, placed = weights.powers[: self.n_own], self._beside(centers)
        own = Y[: self.n_own]
        loss, slopes = self._slopes(Y, np.ones(Y.shape[1]), importance)
        by_samples = pairs.laplacian_times(
            Y, self.comparisons, self.by_second, (2.0 * loss_factor) * slopes
        )
        factor = 2.0 / (self.shape[0] * powers.shape[1])
        shares = powers.sum(dim=1, keepdim=True)
        by_samples[: self.n_own] += factor * (shares * own - powers @ placed)
        masses = powers.sum(dim=0, dtype=torch.float64)[:, None]
        by_centers = factor * (masses * placed - _transposed_times(powers, own))
        clustering = _inner(powers, center_sq_dists(own, placed))
        same = by_centers if isinstance(centers, torch.Tensor) else self.host(by_centers)
        return clustering, loss, by_samples, same

    def cross(self, by_samples: torch.Tensor) -> Any:
        gradient = _transposed_times(self.rows, by_samples)
        return (
            gradient if isinstance(self.small(np.zeros(0)), torch.Tensor) else self.host(gradient)
        )

    def inner(self, by_samples: torch.Tensor, Z: torch.Tensor) -> float:
        return _inner(by_samples, Z)

    def push(self, importance: torch.Tensor) -> FloatArray:
        return self.loss_and_half(self.rows, np.zeros(self.shape[1]), importance)[1]

    def _slopes(
        self, Y: torch.Tensor, scales: Any, importance: torch.Tensor
    ) -> tuple[float, torch.Tensor]:
        """Return the loss for distances in Y, and its derivative in each squared distance."""
        sq_dists = pairs.pair_sq_dists(Y, self.comparisons.pairs, self._beside(scales)[None])[0]
        losses, slopes = pairs.losses_and_slopes(
            sq_dists, self.comparisons, self.by_far, importance
        )
        return float(torch.dot(losses, importance)), slopes

    # The modes.

    def measure(self, F: FloatArray, centers: FloatArray) -> Measures:
        projected = self.project(F)
        ones = projected.new_ones((1, projected.shape[1]))
        sq_dists = pairs.pair_sq_dists(projected, self.comparisons.pairs, ones)[0]
        losses = pairs.near_losses(sq_dists, self.comparisons)
        return Measures(self._center_sq_dists(projected[: self.n_own], F, centers), losses)

    def recenter(self, measured: Measures, F: FloatArray, centers: FloatArray) -> Measures:
        own = self.own @ self._beside(F)
        return measured._replace(sq_dists=self._center_sq_dists(own, F, centers))

    def _center_sq_dists(self, Y: torch.Tensor, F: FloatArray, centers: FloatArray) -> torch.Tensor:
        return center_sq_dists(Y, self._beside(centers @ F.astype(centers.dtype)))

    def terms(
        self, weights: SampleWeights, measured: Measures, importance: torch.Tensor
    ) -> tuple[float, float]:
        clustering = _inner(weights.powers[: self.n_own], measured.sq_dists)
        return clustering, _inner(importance, measured.losses)

    def lost(self, measured: Measures, importance: torch.Tensor) -> tuple[float, float]:
        weight = _inner(importance, pairs.near_totals(self.comparisons))
        return _inner(importance, measured.losses), weight

    def importances(self, weights: SampleWeights) -> torch.Tensor:
        return pairs.pair_products(weights.powers, self.comparisons)

    def center_sums(self, weights: SampleWeights) -> tuple[FloatArray, FloatArray]:
        return self._sums(weights.powers[: self.n_own])

    def moments(self, weights: SampleWeights) -> tuple[FloatArray, FloatArray, FloatArray]:
        weighted = self.own * weights.powers[: self.n_own].sum(dim=1)[:, None]
        own = self.host(_transposed_times(self.own, weighted))
        return own, *self.center_sums(weights)

    def _sums(self, shares: torch.Tensor) -> tuple[FloatArray, FloatArray]:
        sums = self.host(_transposed_times(shares, self.own))
        return sums, self.host(shares.sum(dim=0, dtype=torch.float64))

    def update_weights(
        self, weights: SampleWeights, measured: Measures, loss_factor: float, eta: float
    ) -> SampleWeights:
        return self.sweep(weights, measured, measured.losses * loss_factor, self.turns, eta)

    def sweep(
        self,
        weights: SampleWeights,
        measured: Measures,
        losses: torch.Tensor,
        turns: Turns,
        eta: float,
    ) -> SampleWeights:
        """Update samples in turn, given what each near pair of the graph costs."""
        new, powers = weights.weights.clone(), weights.powers.clone()
        costs = measured.sq_dists / self.shape[0]
        sequential_weights(new, powers, costs, turns.graph, losses, turns.order, turns.colors, eta)
        return SampleWeights(new, powers)

    def adopt(self, weights: SampleWeights) -> SampleWeights:
        return weights

    # The start.

    def covariance(self) -> FloatArray:
        return self.host(_transposed_times(self.own, self.own)) / self.shape[0]

    def leading_axes(
        self, n_axes: int, rng: np.random.RandomState
    ) -> tuple[FloatArray, FloatArray, float]:
        some = rows_for_start(len(self.rows), 0, rng)
        rows = self.rows if some is None else self.rows[torch.tensor(some)]
        lengths, axes = principal_axes(rows, min(n_axes, *rows.shape), rng)
        variances = np.square(lengths.astype(np.float64)) / len(rows)
        level = float(torch.linalg.vector_norm(rows, dtype=torch.float64)) ** 2 / rows.numel()
        return axes.astype(np.float64), variances, level

    def given_weights(self, weights: Any, eta: float) -> SampleWeights:
        if not isinstance(weights, torch.Tensor):
            weights = torch.tensor(weights, device=self.rows.device)
        shares = (weights / weights.sum(dim=1, keepdim=True)).clamp(min=1e-12).to(self.rows)
        shares = shares / shares.sum(dim=1, keepdim=True)
        return SampleWeights(shares, shares**eta)

    def weighted_means(self, weights: SampleWeights) -> tuple[FloatArray, FloatArray]:
        return self._sums(weights.weights)

    def mixture_weights(
        self, n_modes: int, eta: float, rng: np.random.RandomState
    ) -> SampleWeights:
        some = rows_for_start(self.shape[0], n_modes, rng)
        return self.given_weights(mixture_posteriors(self.rows, n_modes, some, rng), eta)

    def kmeans_weights(self, n_modes: int, eta: float, rng: np.random.RandomState) -> SampleWeights:
        some = rows_for_start(self.shape[0], n_modes, rng)
        rows = self.rows if some is None else self.rows[torch.tensor(some)]
        kmeans = estimate_kmeans(self.host(rows), n_modes, rng)
        centers = self._beside(kmeans.cluster_centers_)
        return self.given_weights(nearest_center(self.rows, centers), eta)

    def weights_at(self, F: FloatArray, centers: FloatArray, eta: float) -> SampleWeights:
        sq_dists = self._center_sq_dists(self.own @ self._beside(F), F, centers)
        shares = self._beside(shares_at(self.host(sq_dists), eta))
        return SampleWeights(shares, shares**eta)

    def fetch_weights(self, weights: SampleWeights) -> FloatArray:
        return self.host(weights.weights)

    def nearest(
        self, F: FloatArray, classes: Classes, n_similar: int, n_dissimilar: int
    ) -> tuple[IntArray, IntArray]:
        Y = self.host(self.rows if is_identity(F) else self.project(F))
        with one_blas_thread():  # the search has threads of its own
            return nearest_places(Y[classes.rows], classes, n_similar, n_dissimilar)


def _inner(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the sum of the products of corresponding entries, in double precision."""
    return float((a * b).sum(dtype=torch.float64))


def _transposed_times(Y: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Return ``Y.T @ V`` for tall Y and V, in double precision."""
    n_blocks = len(Y) // _ROWS_PER_BLOCK
    n_blocks = min(n_blocks, max(_MAX_PARTIAL // (Y.shape[1] * V.shape[1]), 1))
    n_rows = len(Y) // n_blocks if n_blocks else 0
    total = (Y[n_blocks * n_rows :].T @ V[n_blocks * n_rows :]).double()
    if n_blocks:
        blocks = [A[: n_blocks * n_rows].reshape(n_blocks, n_rows, A.shape[1]) for A in (Y, V)]
        partial = torch.bmm(blocks[0].transpose(1, 2), blocks[1])
        total += partial.sum(dim=0, dtype=torch.float64)
    return total

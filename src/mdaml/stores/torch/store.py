"""The store on a device: whatever has an entry for each sample, pair or comparison stays there."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch

from mdaml._typing import Dtype, FloatArray, IntArray, Rng
from mdaml._validation import check_magnitude
from mdaml.constraints.labels import Classes
from mdaml.constraints.value import Constraints
from mdaml.kernels.products import one_blas_thread
from mdaml.neighbors.device import nearest_places, pair_sq_dists
from mdaml.stores import mixture
from mdaml.stores.arrays import (
    Array,
    ArrayStore,
    SampleWeights,
    Turns,
    is_identity,
    raised,
    scale_weights,
)
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
class TorchStore(ArrayStore):
    """Centred samples on a device; small matrices are tensors there if they are large enough."""

    by_far: tuple[torch.Tensor, ...] = field(repr=False, default=())
    by_second: tuple[torch.Tensor, ...] = field(repr=False, default=())

    @classmethod
    def on(cls, X: FloatArray, device: str) -> Self:
        """Copy samples to a device and centre them; read-only arrays need no copy before."""
        samples = torch.tensor(X, device=device)
        mean = samples.mean(dim=0, dtype=torch.float64).to(samples)
        rows = (samples - mean).float()
        check_magnitude(rows)
        return cls(rows, mean.cpu().numpy())

    @property
    def dtype(self) -> Dtype:
        return np.dtype(np.float32)

    @property
    def _small_on_device(self) -> bool:
        return self.shape[1] >= LARGE and self.rows.device.type != "cpu"

    def threads(self) -> AbstractContextManager[object]:
        """Limit the threads of BLAS unless matrices are large; this store has no own threads."""
        return one_blas_thread() if self.shape[1] < LARGE else nullcontext()

    def small(self, A: Array) -> Array:
        if isinstance(A, torch.Tensor):
            return A if self._small_on_device else self.host(A)
        return torch.tensor(A, device=self.rows.device) if self._small_on_device else A

    def host(self, A: Array) -> FloatArray:
        return A.cpu().numpy() if isinstance(A, torch.Tensor) else A

    def put(self, A: FloatArray | IntArray) -> torch.Tensor:
        return torch.tensor(A, device=self.rows.device)

    def beside(self, A: Array) -> torch.Tensor:
        return (A if isinstance(A, torch.Tensor) else torch.tensor(A)).to(self.rows)

    def compare(self, supervision: Constraints) -> Self:
        return self.group(scale_weights(supervision))

    def group(self, supervision: Constraints) -> Self:
        """Return the samples with comparisons whose weights are used as they are."""
        given, weights = supervision.triplets, None
        if len(supervision.quadruplets):
            given, weights = supervision.quadruplets, supervision.weights
        n, device = len(self.rows), self.rows.device
        comparisons, by_far, by_second = pairs.group(given, weights, n, device)
        return replace(self, comparisons=comparisons, by_far=by_far, by_second=by_second)

    @cached_property
    def turns(self) -> Turns:
        given = self.comparisons
        graph = pairs.near_graph(given.pairs, given.first, given.last, len(self.rows))
        # One sample after another, so no work for a GPU; and with the same colours the weights are
        # updated in the same order as without a device.
        turns = Turns.from_graph((graph[0].long().cpu().numpy(), graph[1].cpu().numpy(), graph[2]))
        return replace(turns, graph=graph)

    def part(self, rows: IntArray) -> "TorchStore":
        return TorchStore(self.rows[torch.tensor(rows, device=self.rows.device)], self.mean)

    def mapped(self, basis: FloatArray) -> Self:
        return replace(self, rows=self.project(basis), mean=np.zeros(0))

    def times(self, Y: torch.Tensor, A: Array) -> torch.Tensor:
        return Y @ self.beside(A)

    def cross_sums(self, Y: torch.Tensor, V: torch.Tensor, weights: Array | None = None) -> Array:
        return self.small(_transposed_times(Y, V if weights is None else V * weights[:, None]))

    def column_sums(self, A: torch.Tensor) -> FloatArray:
        return self.host(A.sum(dim=0, dtype=torch.float64))

    def inner_sum(self, a: torch.Tensor, b: torch.Tensor) -> float:
        return float((a * b).sum(dtype=torch.float64))

    # Pairs.

    def loss_and_half(
        self, Y: torch.Tensor, scales: Array, importance: torch.Tensor
    ) -> tuple[float, Array]:
        loss, slopes = self.slopes(Y, scales, importance)
        product = pairs.laplacian_product(Y, self.comparisons, self.by_second, slopes)
        return loss, self.cross_sums(Y, product)

    def losses_along(self, Y: torch.Tensor, scales: Array, importance: torch.Tensor) -> FloatArray:
        sq_dists = pair_sq_dists(Y, self.comparisons.pairs, self.beside(scales))
        losses = [
            torch.dot(pairs.near_losses(row, self.comparisons), importance) for row in sq_dists
        ]
        return self.host(torch.stack(losses))

    def slopes(
        self, Y: torch.Tensor, scales: Array, importance: torch.Tensor
    ) -> tuple[float, torch.Tensor]:
        sq_dists = pair_sq_dists(Y, self.comparisons.pairs, self.beside(scales)[None])[0]
        losses, slopes = pairs.losses_and_slopes(
            sq_dists, self.comparisons, self.by_far, importance
        )
        return float(torch.dot(losses, importance)), slopes

    def pair_losses(self, Y: torch.Tensor) -> torch.Tensor:
        ones = torch.ones((1, Y.shape[1]), dtype=Y.dtype, device=Y.device)
        sq_dists = pair_sq_dists(Y, self.comparisons.pairs, ones)[0]
        return pairs.near_losses(sq_dists, self.comparisons)

    def pair_totals(self) -> torch.Tensor:
        return pairs.near_totals(self.comparisons)

    def importances(self, weights: SampleWeights, floor: float = 0.0) -> torch.Tensor:
        return raised(pairs.pair_products(weights.powers, self.comparisons), floor)

    def laplacian_times(self, Y: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return pairs.laplacian_times(Y, self.comparisons, self.by_second, weights)

    # Samples.

    def map_centers(self, centers: FloatArray, F: Array) -> Array:
        return self.small(self.beside(centers) @ self.beside(F))

    def spread(self, Y: torch.Tensor) -> float:
        return float(torch.linalg.vector_norm(Y[: self.n_own], dtype=torch.float64)) ** 2

    def inner(self, by_samples: torch.Tensor, Z: torch.Tensor) -> float:
        return self.inner_sum(by_samples, Z)

    def center_sq_dists(self, Y: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
        return center_sq_dists(Y, centers)

    def update_in_turn(
        self,
        weights: SampleWeights,
        costs: torch.Tensor,
        losses: torch.Tensor,
        turns: Turns,
        eta: float,
    ) -> SampleWeights:
        new, powers = torch.clone(weights.weights), torch.clone(weights.powers)
        sequential_weights(new, powers, costs, turns.graph, losses, turns.order, turns.colors, eta)
        return SampleWeights(new, powers)

    # The start.

    def leading_axes(self, n_axes: int, rng: Rng) -> tuple[FloatArray, FloatArray, float]:
        rows = self.some_rows(mixture.n_rows_for_start(), rng)
        lengths, axes = principal_axes(rows, min(n_axes, *rows.shape), rng)
        variances = np.square(lengths.astype(np.float64)) / len(rows)
        level = float(torch.linalg.vector_norm(rows, dtype=torch.float64)) ** 2 / (
            len(rows) * rows.shape[1]
        )
        return axes.astype(np.float64), variances, level

    def given_weights(self, weights: Array, eta: float) -> SampleWeights:
        if not isinstance(weights, torch.Tensor):
            weights = torch.tensor(weights, device=self.rows.device)
        shares = (weights / weights.sum(dim=1, keepdim=True)).clamp(min=1e-12).to(self.rows)
        shares = shares / shares.sum(dim=1, keepdim=True)
        return SampleWeights(shares, shares**eta)

    def mixture_weights(self, n_modes: int, eta: float, rng: Rng) -> SampleWeights:
        some = mixture.some_of(self.shape[0], mixture.n_rows_for_start(n_modes), rng)
        return self.given_weights(mixture_posteriors(self.rows, n_modes, some, rng), eta)

    def kmeans_weights(self, n_modes: int, eta: float, rng: Rng) -> SampleWeights:
        some = self.some_rows(mixture.n_rows_for_start(n_modes), rng)
        kmeans = mixture.estimate_kmeans(self.host(some), n_modes, rng)
        centers = self.beside(kmeans.cluster_centers_)
        return self.given_weights(nearest_center(self.rows, centers), eta)

    def nearest(
        self, F: FloatArray, classes: Classes, n_similar: int, n_dissimilar: int
    ) -> tuple[IntArray, IntArray]:
        Y = self.rows if is_identity(F) else self.project(F)
        places = torch.tensor(classes.rows, device=Y.device)
        return nearest_places(Y[places], classes.bounds, (n_similar, n_dissimilar))


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

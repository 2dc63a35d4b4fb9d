"""What learning chunk by chunk keeps of the past: the model, and a bounded sample of comparisons.

A call learns from its chunk and from the sample, which is uniform over all comparisons of earlier
chunks. The metric then moves along the geodesic from the old to the new one, by the share of the
comparisons learned from in all that were seen: as long as the sample holds everything, all the way,
and later like a running mean, which averages the chance of each chunk out. Replaying the sample
with the weight of all that it stands for, without a mean, was worse: its few members were learned
by heart (held-out comparisons of the synthetic data in docs/scaling.md: 0.93 instead of 0.97).
"""

from dataclasses import dataclass

import numpy as np

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml.kernels import Samples
from mdaml.modes import Modes

# Comparisons that are kept, and bytes of the rows they name, whatever comes sooner.
MAX_COMPARISONS = 20_000
MAX_BYTES = 2**26


@dataclass(frozen=True)
class Reservoir:
    """A uniform sample of comparisons with the rows they name; never changed."""

    rows: FloatArray  # (n, d)
    comparisons: IntArray  # (r, 4) near pair, far pair: places in rows
    weights: FloatArray  # (r,) one on average over the chunk they came with
    keys: FloatArray  # (r,) the lowest of one random number for each comparison seen

    @classmethod
    def empty(cls, n_features: int, dtype: np.dtype) -> "Reservoir":
        """Return a sample of nothing."""
        nothing = np.empty(0)
        return cls(np.empty((0, n_features), dtype), np.empty((0, 4), np.int64), nothing, nothing)

    def joined(self, X: FloatArray, comparisons: IntArray) -> tuple[FloatArray, IntArray]:
        """Return rows and comparisons of a chunk, and behind them those of the sample."""
        rows = np.concatenate([X, self.rows.astype(X.dtype, copy=False)])
        return rows, np.concatenate([comparisons, self.comparisons + len(X)])

    def updated(
        self,
        X: FloatArray,
        comparisons: IntArray,
        weights: FloatArray,
        rng: np.random.Generator,
    ) -> "Reservoir":
        """Return a uniform sample of the comparisons seen before and of those of a chunk."""
        rows, every = self.joined(X, comparisons)
        keys = np.concatenate([rng.random(len(comparisons)), self.keys])
        limit = min(MAX_COMPARISONS, max(1, MAX_BYTES // (4 * X.shape[1] * X.itemsize)))
        kept = np.arange(len(keys))
        if len(keys) > limit:
            kept = np.sort(np.argpartition(keys, limit)[:limit])
        named, places = np.unique(every[kept], return_inverse=True)
        return Reservoir(
            rows[named],
            places.reshape(-1, 4),
            np.concatenate([weights, self.weights])[kept],
            keys[kept],
        )


@dataclass(frozen=True)
class Past:
    """What is known when a chunk comes."""

    F: FloatArray  # (d, d) factor of the metric
    centers: FloatArray  # (K, d), not centred
    n_comparisons: int  # seen, all chunks
    reservoir: Reservoir

    def share(self, n_new: int) -> float:
        """Return how far to go from the old metric to one learned from a chunk and the sample."""
        return (n_new + len(self.reservoir.keys)) / (n_new + self.n_comparisons)


def weights_at(X: Samples, F: FloatArray, centers: FloatArray, eta: float) -> Modes:
    """Return modes with given centres and the weights that are best without any comparison.

    ``w_ik ~ d2(x_i, c_k)**(-1/(eta-1))``, kept off zero as at the start of a fit.
    """
    factor = F.astype(X.dtype)
    placed = centers.astype(X.dtype)
    sq_dists = kernels.center_sq_dists(kernels.rows_times(X, factor), placed @ factor)
    sq_dists = np.maximum(sq_dists, np.finfo(X.dtype).tiny).astype(np.float64)
    logs = np.log(sq_dists.min(axis=1, keepdims=True) / sq_dists) / (eta - 1.0)
    weights = np.exp(logs)
    weights = np.maximum(weights / weights.sum(axis=1, keepdims=True), 1e-12).astype(X.dtype)
    weights /= weights.sum(axis=1, keepdims=True)
    return Modes(placed, weights, weights**eta)


def between(F: FloatArray, G: FloatArray, share: float) -> FloatArray:
    """Return a factor of the metric on the geodesic from ``F F^T`` to ``G G^T``.

    ``M(s) = F (F^-1 G G^T F^-T)^s F^T``, the way of equal relative changes; s = 1 is the end.
    """
    if share >= 1.0:
        return G
    axes, lengths, _ = np.linalg.svd(np.linalg.solve(F, G))
    return F @ (axes * lengths**share)

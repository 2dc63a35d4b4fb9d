"""What learning chunk by chunk keeps of the past: the model, and a bounded sample of comparisons.

A call learns from its chunk and from the sample, which is uniform over all comparisons of earlier
chunks. The metric then moves along the geodesic from the old to the new one, by the share of the
comparisons learned from in all that were seen: as long as the sample holds everything, all the way,
and later like a running mean, which averages the chance of each chunk out. Replaying the sample
with the weight of all that it stands for, without a mean, was worse: its few members were learned
by heart (held-out comparisons of the synthetic data in docs/scaling.md: 0.93 instead of 0.97).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.value import Constraints
from mdaml.solver.fit import Warm
from mdaml.solver.store import Store

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

    def joined(self, X: FloatArray, said: Constraints) -> tuple[FloatArray, Constraints]:
        """Return rows and comparisons of a chunk, and behind them those of the sample."""
        rows, every, weights = self._joined(X, said)
        if np.array_equal(every[:, 0], every[:, 2]) and np.all(weights == weights[0]):
            # Triplets of equal weight are faster.
            return rows, Constraints.of_triplets(every[:, [0, 1, 3]], len(rows))
        return rows, Constraints.of_quadruplets(every, weights, len(rows))

    def updated(self, X: FloatArray, said: Constraints, rng: np.random.Generator) -> "Reservoir":
        """Return a uniform sample of the comparisons seen before and of those of a chunk."""
        rows, every, weights = self._joined(X, said)
        keys = np.concatenate([rng.random(said.n_constraints), self.keys])
        limit = min(MAX_COMPARISONS, max(1, MAX_BYTES // (4 * X.shape[1] * X.itemsize)))
        kept = np.arange(len(keys))
        if len(keys) > limit:
            kept = np.sort(np.argpartition(keys, limit)[:limit])
        named, places = np.unique(every[kept], return_inverse=True)
        return Reservoir(rows[named], places.reshape(-1, 4), weights[kept], keys[kept])

    def _joined(self, X: FloatArray, said: Constraints) -> tuple[FloatArray, IntArray, FloatArray]:
        """Return rows, comparisons as near pair and far pair, and weights, one on average."""
        comparisons, weights = said.quadruplets, said.weights
        if len(said.triplets):
            comparisons = said.triplets[:, [0, 1, 0, 2]]
        rows = np.concatenate([X, self.rows.astype(X.dtype, copy=False)])
        every = np.concatenate([comparisons, self.comparisons + len(X)])
        return rows, every, np.concatenate([weights / weights.mean(), self.weights])


@dataclass(frozen=True)
class Past:
    """What is known when a chunk comes."""

    F: FloatArray  # (d, r) factor of the metric
    centers: FloatArray  # (K, d), not centred
    n_comparisons: int  # seen, all chunks
    reservoir: Reservoir

    def share(self, n_new: int) -> float:
        """Return how far to go from the old metric to one learned from a chunk and the sample."""
        return (n_new + len(self.reservoir.keys)) / (n_new + self.n_comparisons)

    def warm(self, store: Store) -> Warm:
        """Return metric and centres to go on from, for the samples of a store."""
        return Warm(self.F, (self.centers - store.mean).astype(store.dtype))

    def check_modes(self, n_modes: int) -> None:
        """Refuse another number of modes than the model has."""
        if len(self.centers) != n_modes:
            raise ValueError(
                f"MDaML(n_modes={n_modes}) goes on with a model of {len(self.centers)} modes. "
                "Keep n_modes, or start anew with fit."
            )

    def check_rank(self, rank: int | None) -> None:
        """Refuse another rank than the model has; None is full rank."""
        d, own = self.F.shape
        if own != (d if rank is None else rank):
            raise ValueError(
                f"MDaML(n_components={rank}) goes on with a model of rank {own}. Keep "
                "n_components, or start anew with fit."
            )


def past_of(model: Any) -> Past:
    """Return what a fitted model knows; of one that was loaded, what its file held."""
    for name in ("n_samples_seen_", "n_comparisons_seen_"):
        if not hasattr(model, name):
            raise ValueError(
                f"partial_fit cannot go on with this {type(model).__name__}: it has no {name}, so "
                "that nobody knows what a new chunk is worth beside the old ones. Fit it anew."
            )
    d = model.n_features_in_
    kept = getattr(model, "_stream", None)
    if kept is None:
        F = model.components_.T.astype(np.float64)
        if len(model.components_) < d and model.n_components in (None, d):
            M = F @ F.T  # directions that were cut off can come back
            F = np.linalg.cholesky(M + 1e-6 * np.trace(M) / d * np.eye(d))
        kept = F, Reservoir.empty(d, model.components_.dtype)
    return Past(kept[0], model.centers_, model.n_comparisons_seen_, kept[1])

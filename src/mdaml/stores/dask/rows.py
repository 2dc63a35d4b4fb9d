"""X in blocks of rows on the workers, whatever it was passed as."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdaml._typing import Dtype, FloatArray, IntArray, Matrix
from mdaml.basis import Basis
from mdaml.stores.dask import shard
from mdaml.stores.dask.cluster import Cluster, Remote
from mdaml.stores.dask.plan import places_by


@dataclass(frozen=True)
class Rows:
    """Blocks of X, checked, and what they have in common."""

    blocks: list[Remote]
    begins: IntArray  # (n_blocks + 1,) first row of each, and the number of rows
    mean: FloatArray  # (d,)
    unit_length: bool  # of all rows

    @property
    def n_samples(self) -> int:
        """The rows of all blocks."""
        return int(self.begins[-1])

    @property
    def n_features(self) -> int:
        """The columns of all blocks."""
        return len(self.mean)

    @property
    def dtype(self) -> Dtype:
        """The precision, that of all blocks together."""
        return self.mean.dtype

    @classmethod
    def from_any(cls, X: Matrix, cluster: Cluster) -> "Rows":
        """Check X on the workers: a Dask array, a list of futures, or an array of this process."""
        parts = _parts(X, cluster)
        places = [i * cluster.n_shards // len(parts) for i in range(len(parts))]
        blocks = [
            cluster.task(i, shard.check_block, part) for i, part in zip(places, parts, strict=True)
        ]
        return cls._of(blocks, places, cluster)

    @classmethod
    def _of(cls, blocks: list[Remote], places: list[int], cluster: Cluster) -> "Rows":
        """Find out what blocks have in common; ``places`` are the shards that they are beside."""
        profiles = cluster.fetch(
            [cluster.task(i, shard.profile, b) for i, b in zip(places, blocks, strict=True)]
        )
        sizes, widths, dtypes, sums, units = zip(*profiles, strict=True)
        if len(set(widths)) > 1:
            raise ValueError(
                f"All blocks of X must have the same number of columns, got {sorted(set(widths))}."
            )
        begins = np.concatenate([[0], np.cumsum(sizes)])
        if begins[-1] < 2:
            raise ValueError("X must have at least two rows, got 1.")
        mean = np.sum(sums, axis=0) / begins[-1]
        return cls(blocks, begins, mean.astype(np.result_type(*dtypes)), all(units))

    def on_basis(self, cluster: Cluster, basis: Basis, T: FloatArray) -> "Rows":
        """Return the columns of the rows on a basis, times ``T^T``, made on the workers."""
        by = cluster.share((basis, T))
        places = [i * cluster.n_shards // len(self.blocks) for i in range(len(self.blocks))]
        made = [
            cluster.task(i, shard.make_columns, block, by)
            for i, block in zip(places, self.blocks, strict=True)
        ]
        return Rows._of(made, places, cluster)

    def fetch(self, cluster: Cluster, rows: IntArray) -> FloatArray:
        """Return some rows in this process."""
        where, pieces = gather_rows(cluster, 0, rows, self.blocks, self.begins)
        fetched = [piece.astype(self.dtype, copy=False) for piece in cluster.fetch(pieces)]
        return shard.join(where, fetched)


def gather_rows(
    cluster: Cluster, index: int, rows: IntArray, blocks: Sequence[Remote], begins: IntArray
) -> tuple[list[IntArray], list[Remote]]:
    """Send some rows of X to a shard; return their places in the list, and pieces of them."""
    places = places_by(np.searchsorted(begins, rows, side="right") - 1)
    sent = [
        cluster.task(index, shard.take, blocks[b], rows[where] - begins[b])
        for b, where in places.items()
    ]
    return list(places.values()), sent


def _parts(X: Matrix, cluster: Cluster) -> Sequence[FloatArray | Remote]:
    """Return blocks of rows, as they are."""
    if hasattr(X, "to_delayed") and hasattr(X, "rechunk"):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and features, got shape {X.shape}.")
        return cluster.load(X.rechunk({1: -1}).to_delayed().ravel().tolist())
    if isinstance(X, list | tuple) and X and all(hasattr(part, "key") for part in X):
        return [Remote(future.key, future) for future in X]
    if hasattr(X, "dask") or hasattr(X, "key"):
        raise TypeError(
            f"X must be a Dask array, a list of futures, or an array, got {type(X).__name__}. A "
            "Dask data frame becomes an array by X.to_dask_array()."
        )
    return np.array_split(shard.check_block(X), cluster.n_shards)

"""Comparisons grouped for the solver: distinct pairs, and which pair is to be nearer than which."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray


@dataclass(frozen=True)
class TripletSet:
    """Triplets grouped by anchor; indices only, built once, never changed.

    Distances belong to distinct pairs (anchor, other): ten similar and ten dissimilar partners make
    100 triplets of a sample, but only 20 pairs. All pairs of an anchor are neighbours, and the
    triplets are listed by their near pair.
    """

    pairs: IntArray  # (P, 2) anchor, other; sorted
    first: IntArray  # (P,) the triplets with near pair p have the far pairs
    last: IntArray  # (P,)      far[first[p]:last[p]]
    far: IntArray  # rows of pairs; near pairs side by side with equal lists share one
    groups: IntArray  # (G + 1,) pairs groups[g]:groups[g + 1] share their anchor
    n_samples: int

    @cached_property
    def arrays(self) -> tuple[IntArray, ...]:
        """The arrays in the order in which the kernels take them.

        Last, how much a kernel must hold at a time: pairs of an anchor, triplets of a near pair.
        """
        widths = np.array([np.diff(self.groups).max(), (self.last - self.first).max()])
        return self.pairs, self.first, self.last, self.far, self.groups, widths

    @classmethod
    def from_triplets(cls, triplets: IntArray, n_samples: int) -> "TripletSet":
        """Group an (n, 3) array of row indices ``(anchor, similar, dissimilar)``."""
        pairs, first, last, far, groups = kernels.group_triplets(triplets, n_samples)
        return cls(pairs, first, last, far, groups, n_samples)

    @classmethod
    def from_lists(
        cls, near: IntArray, begin: int, indptr: IntArray, others: IntArray
    ) -> "TripletSet":
        """Join every near partner of an anchor with every far one, for anchors from ``begin`` on.

        ``near`` is (n_samples, k), negative where there are fewer; the far partners of anchor
        ``begin + a`` are ``others[indptr[a]:indptr[a + 1]]``.
        """
        pairs, first, last, far, groups = kernels.group_lists(
            near, begin, indptr, others, len(others)
        )
        return cls(pairs, first, last, far, groups, len(near))

    @cached_property
    def n_triplets(self) -> int:
        """The number of triplets."""
        return int(np.sum(self.last - self.first))

    def near_graph(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return for each sample those it forms a near pair with, in either role, and that pair.

        ``samples[indptr[i]:indptr[i + 1]]`` and the rows of ``pairs`` at the same places.
        """
        return kernels.near_graph(self.pairs, self.first, self.last, self.n_samples)


@dataclass(frozen=True)
class PairSet:
    """Distinct unordered pairs of rows, and how often each was given; never changed."""

    pairs: IntArray  # (P, 2) the lower row first, sorted
    counts: FloatArray  # (P,)
    groups: IntArray  # (G + 1,) pairs groups[g]:groups[g + 1] share their first row

    @classmethod
    def from_pairs(cls, pairs: IntArray, n_samples: int) -> "PairSet":
        """Sort an (n, 2) array of row indices and count repetitions in either order."""
        keys = pairs.min(axis=1).astype(np.int64) * n_samples + pairs.max(axis=1)
        keys, counts = np.unique(keys, return_counts=True)
        distinct = np.column_stack(np.divmod(keys, n_samples))
        groups = np.append(np.flatnonzero(np.diff(distinct[:, 0], prepend=-1)), len(distinct))
        return cls(distinct, counts.astype(np.float64), groups)

    @property
    def total(self) -> float:
        """The number of pairs as given, with repetitions."""
        return float(self.counts.sum())


def pairs_of_triplets(triplets: IntArray, n_samples: int) -> tuple[PairSet, PairSet]:
    """Break triplets into similar pairs (anchor, similar) and dissimilar pairs (anchor, other)."""
    return (
        PairSet.from_pairs(triplets[:, [0, 1]], n_samples),
        PairSet.from_pairs(triplets[:, [0, 2]], n_samples),
    )

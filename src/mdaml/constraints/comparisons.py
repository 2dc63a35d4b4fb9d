"""Comparisons grouped for the solver: distinct pairs, and which pair is to be nearer than which."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels import grouping


@dataclass(frozen=True)
class Comparisons:
    """Comparisons of a near pair and a far pair; indices only, built once, never changed.

    Distances belong to distinct pairs: ten similar and ten dissimilar partners make 100 triplets of
    a sample, but only 20 pairs. Comparisons without weights are triplets: both pairs begin with the
    reference, and the pairs of a reference are neighbours. Others have unordered pairs, the lower
    row first, and comparisons of the same two pairs are one, their weights added.

    The arrays may also be tensors on a device.
    """

    pairs: IntArray  # (P, 2) sorted
    groups: IntArray  # (G + 1,) pairs groups[g]:groups[g + 1] share their first row
    starts: IntArray  # (P + 1,) near pair p has the far pairs far[starts[p]:starts[p + 1]]
    far: IntArray  # (C,) rows of pairs; -n: the list, n long, of the near pair before it
    weights: FloatArray | None  # (C,)
    n_samples: int

    @classmethod
    def from_triplets(cls, triplets: IntArray, n_samples: int) -> "Comparisons":
        """Group an (n, 3) array of rows ``(reference, similar, dissimilar)``, perhaps none."""
        if len(triplets) == 0:
            none = np.empty(0, np.int32)
            zero = np.zeros(1, np.int64)
            return cls(none.reshape(0, 2), zero, zero.astype(np.int32), none, None, n_samples)
        pairs, starts, far, groups = grouping.group_triplets(triplets, n_samples)
        return cls(pairs, groups, starts, far, None, n_samples)

    @classmethod
    def from_lists(
        cls, near: IntArray, begin: int, indptr: IntArray, others: IntArray
    ) -> "Comparisons":
        """Join every near partner of a reference with every far one, from reference ``begin`` on.

        ``near`` is (n_samples, k), negative where there are fewer; the far partners of reference
        ``begin + a`` are ``others[indptr[a]:indptr[a + 1]]``.
        """
        pairs, starts, far, groups = grouping.group_lists(near, begin, indptr, others)
        return cls(pairs, groups, starts, far, None, len(near))

    @classmethod
    def from_quadruplets(
        cls, quadruplets: IntArray, weights: FloatArray, n_samples: int
    ) -> "Comparisons":
        """Group an (n, 4) array of row indices, near pair and far pair, with weights."""
        pairs, rows = grouping.group_pairs(quadruplets.reshape(-1, 2), n_samples)
        near, far = rows.reshape(-1, 2).T
        starts, far, weights = grouping.merge_comparisons(near, far, weights, len(pairs))
        return cls(pairs, _groups(pairs), starts, far, weights, n_samples)

    @property
    def first(self) -> IntArray:
        """Where the list of each pair begins, (P,)."""
        return self.starts[:-1]

    @property
    def last(self) -> IntArray:
        """Where the list of each pair ends, (P,): where it begins if it is no near pair."""
        return self.starts[1:]

    @cached_property
    def lists(self) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """The arrays of triplets in the order in which the kernels take them."""
        most = np.diff(self.groups).max(initial=0), np.diff(self.starts).max(initial=0)
        return self.pairs, self.starts, self.far, self.groups, np.array([*most, int(self.total)])

    @property
    def by_near(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Weighted comparisons by near pair, in the order in which the kernels take them."""
        assert self.weights is not None
        return self.starts, self.far, self.weights

    @cached_property
    def by_far(self) -> tuple[IntArray, IntArray]:
        """Weighted comparisons by far pair: those of p are ``members[bounds[p]:bounds[p + 1]]``."""
        members, bounds = grouping.counting_sort(self.far, len(self.pairs))
        return bounds, members

    @cached_property
    def total(self) -> float:
        """The weight of all comparisons: as many as were given, repetitions included."""
        if self.weights is not None:
            return float(self.weights.sum())
        shared = self.far[self.far < 0]
        return float(len(self.far) - len(shared) - shared.sum())

    def near_totals(self) -> FloatArray:
        """Return the weight of the comparisons of each near pair, (P,); 0 for other pairs."""
        if self.weights is None:
            totals = np.diff(self.starts).astype(np.float64)
            shared = np.flatnonzero(self.far < 0).astype(self.starts.dtype)
            totals[np.searchsorted(self.starts, shared, side="right") - 1] = -self.far[shared]
            return totals
        near = np.repeat(np.arange(len(self.pairs)), self.last - self.first)
        return np.bincount(near, self.weights, len(self.pairs)).astype(np.float64)

    def near_graph(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return for each sample those it forms a near pair with, in either role, and that pair.

        ``samples[indptr[i]:indptr[i + 1]]`` and the rows of ``pairs`` at the same places.
        """
        graph: tuple[IntArray, IntArray, IntArray] = grouping.near_graph(
            self.pairs, self.first < self.last, self.n_samples
        )
        return graph


@dataclass(frozen=True)
class PairSet:
    """Distinct unordered pairs of rows, and how often each was given; never changed."""

    pairs: IntArray  # (P, 2) the lower row first, sorted
    counts: FloatArray  # (P,) or the sum of their weights
    groups: IntArray  # (G + 1,) pairs groups[g]:groups[g + 1] share their first row

    @classmethod
    def from_pairs(
        cls, pairs: IntArray, n_samples: int, weights: FloatArray | None = None
    ) -> "PairSet":
        """Sort an (n, 2) array of row indices and count repetitions in either order."""
        distinct, rows = grouping.group_pairs(pairs, n_samples)
        return cls(distinct, np.bincount(rows, weights).astype(np.float64), _groups(distinct))

    @property
    def total(self) -> float:
        """The number of pairs as given, with repetitions, or the sum of their weights."""
        return float(self.counts.sum())


def _groups(pairs: IntArray) -> IntArray:
    """Return where the first member changes in sorted pairs, and their number."""
    return np.append(np.flatnonzero(np.diff(pairs[:, 0], prepend=-1)), len(pairs))

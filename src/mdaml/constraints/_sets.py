"""Comparisons grouped for the solver: distinct pairs, and which pair is to be nearer than which."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray


class Comparisons(Protocol):
    """What the solver asks of a set of comparisons, each of a near pair and a far pair.

    P distinct pairs; the *importance* of a near pair multiplies the losses of its comparisons.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.constraints import Comparisons, TripletSet
    >>> grouped: Comparisons = TripletSet.from_triplets(np.array([[0, 1, 2]]), 3)
    >>> grouped.losses(np.array([[0.0], [1.0], [5.0]]))  # 0 and 1 are nearer than 0 and 2
    array([0., 0.])
    """

    @property
    def pairs(self) -> IntArray:
        """The distinct pairs, (P, 2)."""

    @property
    def total(self) -> float:
        """The weight of all comparisons together: without weights of their own, their number."""

    @property
    def near_totals(self) -> FloatArray | IntArray:
        """The weight of the comparisons of each near pair, (P,); 0 for other pairs."""

    def near_graph(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return for each sample those it forms a near pair with, in either role, and that pair.

        ``samples[indptr[i]:indptr[i + 1]]`` and the rows of ``pairs`` at the same places.
        """

    def importances(self, powers: FloatArray) -> FloatArray:
        """Return the inner product of the two rows of each near pair; 0 for other pairs."""

    def losses(self, Y: FloatArray) -> FloatArray:
        """Return the losses of the comparisons of each near pair, summed, for distances in Y."""

    def gradient(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return the loss for distances in Y, columns scaled, and half its Laplacian times Y."""

    def half_scatter(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return the loss, and Y transposed times half its Laplacian times Y, in little memory."""

    def losses_along(self, Y: FloatArray, scales: FloatArray, importance: FloatArray) -> FloatArray:
        """Return the loss for each of four scalings of the columns of Y."""

    def slopes(self, Y: FloatArray, importance: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss for distances in Y, and its derivative in each squared distance, (P,)."""


@dataclass(frozen=True)
class TripletSet:
    """Triplets grouped by anchor; indices only, built once, never changed.

    Distances belong to distinct pairs (anchor, other): ten similar and ten dissimilar partners make
    100 triplets of a sample, but only 20 pairs. All pairs of an anchor are neighbours, and the
    triplets are listed by their near pair.

    Parameters
    ----------
    pairs : array of shape (P, 2)
        Anchor and other, sorted.
    first, last : array of shape (P,)
        The triplets with near pair p have the far pairs ``far[first[p]:last[p]]``.
    far : array
        Rows of ``pairs``; near pairs side by side with equal lists share one.
    groups : array of shape (G + 1,)
        The pairs ``groups[g]`` to ``groups[g + 1]`` share their anchor.
    n_samples : int
        Rows of the samples.
    dtype : dtype, default=float64
        Of importances and losses; sums of them are double.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.constraints import TripletSet
    >>> grouped = TripletSet.from_triplets(np.array([[0, 1, 2], [0, 3, 2]]), 4)
    >>> grouped.n_triplets, len(grouped.pairs)
    (2, 3)
    """

    pairs: IntArray  # (P, 2) anchor, other; sorted
    first: IntArray  # (P,) the triplets with near pair p have the far pairs
    last: IntArray  # (P,)      far[first[p]:last[p]]
    far: IntArray  # rows of pairs; near pairs side by side with equal lists share one
    groups: IntArray  # (G + 1,) pairs groups[g]:groups[g + 1] share their anchor
    n_samples: int
    dtype: npt.DTypeLike = np.float64  # of importances and losses; sums of them are double

    @cached_property
    def arrays(self) -> tuple[IntArray, ...]:
        """The arrays in the order in which the kernels take them.

        Last, how much a kernel must hold at a time: pairs of an anchor, triplets of a near pair.
        """
        widths = np.array([np.diff(self.groups).max(), (self.last - self.first).max()])
        return self.pairs, self.first, self.last, self.far, self.groups, widths

    @classmethod
    def from_triplets(
        cls, triplets: IntArray, n_samples: int, dtype: npt.DTypeLike = np.float64
    ) -> "TripletSet":
        """Group an (n, 3) array of row indices ``(anchor, similar, dissimilar)``."""
        pairs, first, last, far, groups = kernels.group_triplets(triplets, n_samples)
        return cls(pairs, first, last, far, groups, n_samples, dtype)

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

    @property
    def total(self) -> float:
        """The number of triplets: all weigh the same."""
        return float(self.n_triplets)

    @property
    def near_totals(self) -> IntArray:
        """The number of triplets of each near pair."""
        return self.last - self.first

    def near_graph(self) -> tuple[IntArray, IntArray, IntArray]:
        """See :class:`Comparisons`."""
        return kernels.near_graph(self.pairs, self.first, self.last, self.n_samples)

    def importances(self, powers: FloatArray) -> FloatArray:
        """See :class:`Comparisons`."""
        return kernels.pair_products(powers, self, self.dtype)

    def losses(self, Y: FloatArray) -> FloatArray:
        """See :class:`Comparisons`."""
        return kernels.triplet_losses(Y, self, self.dtype)

    def gradient(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        """See :class:`Comparisons`: one fused pass, anchor by anchor."""
        return kernels.triplet_gradient(Y, _cast(scales, Y), self, importance)

    def half_scatter(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        """See :class:`Comparisons`."""
        return kernels.triplet_half_scatter(Y, _cast(scales, Y), self, importance)

    def losses_along(self, Y: FloatArray, scales: FloatArray, importance: FloatArray) -> FloatArray:
        """See :class:`Comparisons`."""
        return kernels.triplet_losses_along(Y, _cast(scales, Y), self, importance)

    def slopes(self, Y: FloatArray, importance: FloatArray) -> tuple[float, FloatArray]:
        """See :class:`Comparisons`."""
        return kernels.triplet_slopes(Y, np.ones(Y.shape[1], Y.dtype), self, importance, 1.0)


@dataclass(frozen=True)
class ComparisonSet:
    """Comparisons of any two pairs, each with a weight; built once, never changed.

    Pairs are unordered and distinct. Comparisons of the same two pairs are one, their weights
    added. Weights are scaled so that the comparisons as given weigh one on average.

    Parameters
    ----------
    pairs : array of shape (P, 2)
        The lower row first, sorted.
    groups : array of shape (G + 1,)
        The pairs ``groups[g]`` to ``groups[g + 1]`` share their first row.
    first, last : array of shape (P,)
        The comparisons with near pair p have the far pairs ``far[first[p]:last[p]]``.
    far : array of shape (C,)
        Rows of ``pairs``.
    weights : array of shape (C,)
        Of the comparisons.
    n_samples : int
        Rows of the samples.
    dtype : dtype, default=float64
        Of importances and losses; sums of them are double.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.constraints import ComparisonSet
    >>> said = np.array([[0, 1, 2, 3], [1, 0, 2, 3], [0, 2, 1, 3]])  # the first two are the same
    >>> ComparisonSet.from_comparisons(said, None, 4).weights
    array([2., 1.])
    """

    pairs: IntArray  # (P, 2) the lower row first, sorted
    groups: IntArray  # (G + 1,) pairs groups[g]:groups[g + 1] share their first row
    first: IntArray  # (P,) the comparisons with near pair p have the far pairs
    last: IntArray  # (P,)      far[first[p]:last[p]]
    far: IntArray  # (C,) rows of pairs
    weights: FloatArray  # (C,)
    n_samples: int
    dtype: npt.DTypeLike = np.float64  # of importances and losses; sums of them are double

    @classmethod
    def from_comparisons(
        cls,
        comparisons: IntArray,
        weights: FloatArray | None,
        n_samples: int,
        dtype: npt.DTypeLike = np.float64,
    ) -> "ComparisonSet":
        """Group an (n, 4) array of row indices, near pair and far pair; no weights: all alike."""
        n = len(comparisons)
        v = np.ones(n) if weights is None else weights * (n / float(weights.sum()))
        pairs, rows = kernels.group_pairs(comparisons.reshape(-1, 2), n_samples)
        near, far = rows.reshape(-1, 2).T
        bounds, far, v = kernels.merge_comparisons(near, far, v, len(pairs))
        return cls(pairs, _groups(pairs), bounds[:-1], bounds[1:], far, v, n_samples, dtype)

    @property
    def by_near(self) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """The comparisons by near pair, in the order in which the kernels take them."""
        return self.first, self.last, self.far, self.weights

    @cached_property
    def by_far(self) -> tuple[IntArray, IntArray]:
        """The comparisons by far pair: ``members[bounds[p]:bounds[p + 1]]`` have far pair p."""
        members, bounds = kernels.counting_sort(self.far, len(self.pairs))
        return bounds, members

    @cached_property
    def total(self) -> float:
        """The weight of all comparisons: as many as were given, repetitions included."""
        return float(self.weights.sum())

    @property
    def near_totals(self) -> FloatArray:
        """The weight of the comparisons of each near pair."""
        near = np.repeat(np.arange(len(self.pairs)), self.last - self.first)
        return np.bincount(near, self.weights, len(self.pairs)).astype(np.float64)

    def near_graph(self) -> tuple[IntArray, IntArray, IntArray]:
        """See :class:`Comparisons`."""
        return kernels.near_graph(self.pairs, self.first, self.last, self.n_samples)

    def importances(self, powers: FloatArray) -> FloatArray:
        """See :class:`Comparisons`."""
        return kernels.pair_products(powers, self, self.dtype)

    def losses(self, Y: FloatArray) -> FloatArray:
        """See :class:`Comparisons`; each loss by its weight."""
        return kernels.comparison_losses(Y, self, self.dtype)

    def gradient(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        """See :class:`Comparisons`: distances, losses and Laplacian in passes of their own."""
        return kernels.comparison_gradient(Y, _cast(scales, Y), self, importance)

    def half_scatter(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        """See :class:`Comparisons`."""
        return kernels.comparison_half_scatter(Y, _cast(scales, Y), self, importance)

    def losses_along(self, Y: FloatArray, scales: FloatArray, importance: FloatArray) -> FloatArray:
        """See :class:`Comparisons`."""
        return kernels.comparison_losses_along(Y, _cast(scales, Y), self, importance)

    def slopes(self, Y: FloatArray, importance: FloatArray) -> tuple[float, FloatArray]:
        """See :class:`Comparisons`."""
        return kernels.comparison_slopes(Y, np.ones(Y.shape[1], Y.dtype), self, importance)


@dataclass(frozen=True)
class PairSet:
    """Distinct unordered pairs of rows, and how often each was given; never changed.

    Parameters
    ----------
    pairs : array of shape (P, 2)
        The lower row first, sorted.
    counts : array of shape (P,)
        How often each was given, or the sum of its weights.
    groups : array of shape (G + 1,)
        The pairs ``groups[g]`` to ``groups[g + 1]`` share their first row.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.constraints import PairSet
    >>> PairSet.from_pairs(np.array([[0, 1], [2, 1], [1, 0]]), 3).counts
    array([2., 1.])
    """

    pairs: IntArray  # (P, 2) the lower row first, sorted
    counts: FloatArray  # (P,) or the sum of their weights
    groups: IntArray  # (G + 1,) pairs groups[g]:groups[g + 1] share their first row

    @classmethod
    def from_pairs(
        cls, pairs: IntArray, n_samples: int, weights: FloatArray | None = None
    ) -> "PairSet":
        """Sort an (n, 2) array of row indices and count repetitions in either order."""
        distinct, rows = kernels.group_pairs(pairs, n_samples)
        return cls(distinct, np.bincount(rows, weights).astype(np.float64), _groups(distinct))

    @property
    def total(self) -> float:
        """The number of pairs as given, with repetitions, or the sum of their weights."""
        return float(self.counts.sum())


def _cast(scales: FloatArray, Y: FloatArray) -> FloatArray:
    return scales.astype(Y.dtype, copy=False)


def _groups(pairs: IntArray) -> IntArray:
    """Return where the first member changes in sorted pairs, and their number."""
    return np.append(np.flatnonzero(np.diff(pairs[:, 0], prepend=-1)), len(pairs))


def pairs_of_triplets(triplets: IntArray, n_samples: int) -> tuple[PairSet, PairSet]:
    """Break triplets into similar pairs (anchor, similar) and dissimilar pairs (anchor, other).

    Parameters
    ----------
    triplets : array of shape (n_triplets, 3)
        Row indices ``(anchor, similar, dissimilar)``.
    n_samples : int
        Rows of the samples.

    Returns
    -------
    similar, dissimilar : PairSet
        Distinct pairs, counted.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.constraints import pairs_of_triplets
    >>> similar, dissimilar = pairs_of_triplets(np.array([[0, 1, 2], [0, 1, 3]]), 4)
    >>> similar.pairs.tolist(), dissimilar.pairs.tolist()
    ([[0, 1]], [[0, 2], [0, 3]])
    """
    return (
        PairSet.from_pairs(triplets[:, [0, 1]], n_samples),
        PairSet.from_pairs(triplets[:, [0, 2]], n_samples),
    )

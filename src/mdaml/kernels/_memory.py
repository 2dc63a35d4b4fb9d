"""Samples that are centred block by block, so that no second copy of them is needed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from mdaml._typing import FloatArray

# A block of rows of about this size stays in the cache of a core.
BLOCK_BYTES = 2**20


def rows_per_block(n_columns: int, itemsize: int) -> int:
    """How many rows make a block."""
    return max(16, BLOCK_BYTES // (n_columns * itemsize))


def blocks(begin: int, end: int, n_rows: int) -> Iterator[tuple[int, int]]:
    """Cut a range into consecutive blocks of at most so many."""
    for first in range(begin, end, n_rows):
        yield first, min(first + n_rows, end)


@dataclass(frozen=True)
class CentredRows:
    """Samples less their mean; a block of them is made when it is asked for.

    Stands for an array in :func:`rows_times`, :func:`transposed_times` and :func:`weighted_gram`.
    The samples may be a memory map.
    """

    samples: FloatArray  # (N, d)
    mean: FloatArray = field(repr=False)  # (d,)

    @classmethod
    def of(cls, samples: FloatArray) -> "CentredRows":
        """Centre samples, in their precision, at a mean taken in double precision."""
        mean = samples.mean(axis=0, dtype=np.float64)
        return cls(samples, mean.astype(samples.dtype))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, rows: Any) -> FloatArray:
        """Return some rows as an array."""
        return self.samples[rows] - self.mean

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return self.samples.shape

    @property
    def dtype(self) -> Any:
        """As of an array."""
        return self.samples.dtype

    @property
    def size(self) -> int:
        """As of an array."""
        return self.samples.size

    def spread(self) -> FloatArray:
        """Return the standard deviation of each column, from sums in double precision."""
        total = np.zeros(self.shape[1])
        for first, last in blocks(0, len(self), rows_per_block(self.shape[1], self.dtype.itemsize)):
            rows = self[first:last]
            total += np.einsum("ij,ij->j", rows, rows, dtype=np.float64)
        return np.sqrt(total / len(self)).astype(self.dtype)

    def max(self) -> float:
        """Return the largest value of all."""
        return float((self.samples.max(axis=0) - self.mean).max())

    def min(self) -> float:
        """Return the smallest value of all."""
        return float((self.samples.min(axis=0) - self.mean).min())


Samples: TypeAlias = FloatArray | CentredRows


# Samples up to this size are copied as convenient; larger ones are worked on in blocks.
SMALL_BYTES = 2**25
_FIXED_BYTES = 2**26  # blocks and buffers of every thread
_ROWS_OF_START = 20_000  # that modes are estimated from at first


@dataclass(frozen=True)
class FitSize:
    """All that the memory of a fit depends on."""

    n_samples: int
    n_features: int
    n_modes: int
    itemsize: int  # bytes of a number of X
    n_pairs: int  # distinct
    n_comparisons: int
    n_drawn: int = 0  # of the comparisons, those that the fit itself draws
    with_anchor: bool = True  # triplets of equal weight

    def needed(self, *, in_blocks: bool) -> int:
        """Bytes that a fit takes at most beyond X and the comparisons passed; docs/scaling.md."""
        b = self.itemsize if in_blocks else 8
        samples = self.n_samples * self.n_features * self.itemsize
        modes = self.n_samples * self.n_modes * self.itemsize
        rows = 40 * self.n_samples
        structure = 16 * self.n_pairs + 4 * self.n_comparisons
        graph = 16 * min(self.n_comparisons, self.n_pairs)
        # Two starts and the modes that both have, kept beside what a round makes of one of them.
        second_start = 3 * b * self.n_pairs + 4 * modes
        metric = (1 if in_blocks else 4) * samples + 3 * b * self.n_pairs + 5 * modes
        if not self.with_anchor:  # weights, the comparisons by far pair, and what is kept of each
            structure += 4 * self.n_pairs + 12 * self.n_comparisons
            metric += 4 * b * self.n_pairs + b * self.n_comparisons
        if not in_blocks:
            metric += graph
        weights = (0 if in_blocks else samples) + graph + 4 * b * self.n_pairs + 7 * modes
        grouping = (16 if self.with_anchor else 64) * self.n_comparisons
        start = 5 * self.itemsize * min(self.n_samples, _ROWS_OF_START) * self.n_features
        start += 5 * modes
        start += 0 if in_blocks else 2 * samples
        largest = max(metric + second_start, weights + second_start, grouping, start)
        fixed = _FIXED_BYTES + 480 * self.n_features**2
        return structure + largest + rows + fixed + 24 * self.n_drawn

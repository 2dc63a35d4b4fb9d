"""Samples that are processed in blocks: they are not copied, and only X F is as large."""

import ctypes
import sys
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from mdaml._typing import Dtype, FloatArray, IntArray, Matrix
from mdaml._validation import check_magnitude
from mdaml.constraints.value import Constraints
from mdaml.kernels.pairs import laplacian_half_scatter
from mdaml.kernels.products import Product, rows_times, spread
from mdaml.kernels.triplets import triplet_half_scatter
from mdaml.stores.arrays import Turns
from mdaml.stores.memory import MemoryStore


@dataclass(frozen=True)
class CentredRows:
    """Samples less their mean; a block of them is made when it is asked for.

    Stands for an array in :mod:`mdaml.kernels.products`. The samples may be a memory map, or the
    columns of a basis, which are made in blocks too.
    """

    samples: Matrix  # (N, d)
    mean: FloatArray = field(repr=False)  # (d,)

    @classmethod
    def of(cls, samples: Matrix) -> "CentredRows":
        """Centre samples, in their precision, at a mean taken in double precision."""
        mean = samples.mean(axis=0, dtype=np.float64)
        return cls(samples, mean.astype(samples.dtype))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        """Return some rows as an array."""
        centred: FloatArray = self.samples[rows] - self.mean
        return centred

    @property
    def shape(self) -> tuple[int, int]:
        """As of an array."""
        n, d = self.samples.shape
        return n, d

    @property
    def dtype(self) -> Dtype:
        """As of an array."""
        return np.dtype(self.samples.dtype)

    @property
    def size(self) -> int:
        """As of an array."""
        return int(self.samples.size)

    def max(self) -> float:
        """Return the largest value of all."""
        return float((self.samples.max(axis=0) - self.mean).max())

    def min(self) -> float:
        """Return the smallest value of all."""
        return float((self.samples.min(axis=0) - self.mean).min())


@dataclass(frozen=True)
class BlockStore(MemoryStore):
    """Samples that are centred block by block where they are multiplied; see docs/scaling.md."""

    @classmethod
    def of(cls, X: Matrix) -> Self:
        """Centre samples without a copy."""
        if isinstance(X, Product):
            tall = CentredRows.of(X.tall)
            mean = tall.mean.astype(np.float64) @ X.small
            return cls(Product(tall, X.small), mean.astype(X.dtype))
        rows = CentredRows.of(X)
        check_magnitude(rows)
        return cls(rows, rows.mean)

    @property
    def pair_dtype(self) -> Dtype:
        """The precision of what is kept for each pair: that of the samples."""
        return self.dtype

    def compare(self, supervision: Constraints) -> Self:
        """Group comparisons, and leave the memory of all that came before to what comes now."""
        compared = super().compare(supervision)
        return_freed_memory()
        return compared

    @cached_property
    def turns(self) -> Turns:
        """Keep the order of updates, but make the graph of near pairs again for every update."""
        return replace(Turns.from_graph(self.comparisons.near_graph()), graph=None)

    def turn(self, Y: FloatArray, A: FloatArray) -> FloatArray:
        """Turn in place: Y is not used again."""
        return rows_times(Y, A, out=Y)

    def loss_and_half(
        self, Y: FloatArray, scales: FloatArray, importance: FloatArray
    ) -> tuple[float, FloatArray]:
        """Multiply the rows of the product of Laplacian and Y while they are in the cache."""
        given, scales = self.comparisons, scales.astype(Y.dtype, copy=False)
        if given.weights is None:
            return triplet_half_scatter(Y, scales, given.lists, importance)
        loss, slopes = self.slopes(Y, scales, importance)
        return loss, laplacian_half_scatter(Y, given.pairs, given.groups, slopes)

    def _mean_and_spread(self) -> tuple[FloatArray, FloatArray]:
        return np.zeros(self.shape[1], self.dtype), spread(self.rows)


def return_freed_memory() -> None:
    """Let the C library of Linux return what it keeps of freed arrays below 32 MiB."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # not every C library has it
        if trim is not None:
            trim(0)

"""Products with a tall matrix, shared among our own threads.

BLAS brings threads of its own, which spin while they wait; beside other busy processes they made a
fit ten times slower and more. So a fit keeps BLAS to one thread (:func:`one_blas_thread`) and cuts
its two large products into blocks of rows here.

A tall matrix may be an array, or anything else with ``shape``, ``dtype`` and ``size`` that makes a
block of its rows when it is asked for ``Y[begin:end]``; or the :class:`Product` of such a matrix
and a small one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from threading import Lock
from types import SimpleNamespace

import numpy as np
from threadpoolctl import ThreadpoolController

from mdaml._typing import Dtype, FloatArray, IntArray, Matrix
from mdaml.kernels.prefetch import empty_lines
from mdaml.kernels.threads import share

# Blocks of a sum depend on the number of rows alone, so that the sum does not depend on the number
# of threads.
_ROWS_PER_BLOCK, _MAX_BLOCKS = 2048, 16
_ROWS_AT_ONCE = 256  # at least
# A block of rows of about this size stays in the cache of a core.
BLOCK_BYTES = 2**20


def rows_per_block(n_columns: int, itemsize: int) -> int:
    """How many rows make a block."""
    return max(16, BLOCK_BYTES // (n_columns * itemsize))


def blocks(begin: int, end: int, n_rows: int) -> Iterator[tuple[int, int]]:
    """Cut a range into consecutive blocks of at most so many."""
    for first in range(begin, end, n_rows):
        yield first, min(first + n_rows, end)


def _no_fits() -> SimpleNamespace:
    """Return the limit of BLAS, which holds for the process: the last of several fits lifts it."""
    return SimpleNamespace(lock=Lock(), n_fits=0, limit=None)


_blas = _no_fits()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread for a while, in the whole process."""
    blas = _blas  # a child that is forked meanwhile has another
    with blas.lock:
        if blas.n_fits == 0:
            blas.limit = _controller().limit(limits=1, user_api="blas")
        blas.n_fits += 1
    try:
        yield
    finally:
        with blas.lock:
            blas.n_fits -= 1
            if blas.n_fits == 0:
                blas.limit.restore_original_limits()


def _after_fork() -> None:
    """Forget the fits of threads that do not live on in a child."""
    global _blas
    _blas = _no_fits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@dataclass(frozen=True, eq=False)
class Product:
    """A tall matrix times a small one, ``tall @ small``, which is not made as a whole."""

    tall: Matrix  # (N, k)
    small: FloatArray  # (k, m)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.tall)

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        """Return some rows as an array."""
        product: FloatArray = self.tall[rows] @ self.small.astype(self.dtype, copy=False)
        return product

    @property
    def shape(self) -> tuple[int, int]:
        """As of an array."""
        return len(self.tall), self.small.shape[1]

    @property
    def dtype(self) -> Dtype:
        """As of an array."""
        return np.dtype(self.tall.dtype)

    @property
    def itemsize(self) -> int:
        """As of an array."""
        return self.dtype.itemsize

    def mean(self, axis: int, dtype: type) -> FloatArray:
        """As of an array."""
        mean: FloatArray = self.tall.mean(axis=axis, dtype=dtype) @ self.small
        return mean


def rows_times(Y: Matrix, A: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """``Y @ A`` for a tall Y, in its precision; ``out`` may be Y itself if A is square."""
    if isinstance(Y, Product):
        return rows_times(Y.tall, Y.small @ A, out)
    A = A.astype(Y.dtype, copy=False)
    out = empty_lines((len(Y), A.shape[1]), Y.dtype) if out is None else out
    cost = Y.size * A.shape[1] // 8
    if isinstance(Y, np.ndarray) and out is not Y:
        share(_rows_times, len(Y), cost, Y, A, out)
    else:
        # Whole blocks for each thread, so that no block, and no rounding, depends on their number.
        n_rows = rows_per_block(Y.shape[1], Y.dtype.itemsize)
        share(_blocks_times, -(-len(Y) // n_rows), cost, Y, A, out, n_rows)
    return out


def _rows_times(begin, end, Y, A, out):
    np.matmul(Y[begin:end], A, out=out[begin:end])


def _blocks_times(begin, end, Y, A, out, n_rows):
    for first, last in blocks(begin * n_rows, min(end * n_rows, len(Y)), n_rows):
        if out is Y:  # a product may not overwrite what it reads
            out[first:last] = np.matmul(Y[first:last], A)
        else:
            np.matmul(Y[first:last], A, out=out[first:last])


def transposed_times(Y: Matrix, V: Matrix) -> FloatArray:
    """``Y.T @ V`` for tall Y and V, in double precision."""
    if isinstance(Y, Product):
        return Y.small.T @ transposed_times(Y.tall, V)
    if isinstance(V, Product):
        return transposed_times(Y, V.tall) @ V.small
    return _blockwise(Y, V, None)


def weighted_gram(Y: Matrix, weights: FloatArray) -> FloatArray:
    """``Y.T @ diag(weights) @ Y`` for a tall Y, in double precision."""
    if isinstance(Y, Product):
        return Y.small.T @ weighted_gram(Y.tall, weights) @ Y.small
    return _blockwise(Y, Y, weights)


def _blockwise(Y, V, weights):
    """Sum over blocks of rows; arrays that are large or made in blocks are cut further."""
    n_blocks = min(max(len(Y) // _ROWS_PER_BLOCK, 1), _MAX_BLOCKS)
    n_rows = max(_ROWS_AT_ONCE, rows_per_block(max(Y.shape[1], V.shape[1]), Y.dtype.itemsize))
    if n_blocks == 1 and len(Y) <= n_rows and isinstance(Y, np.ndarray):
        # As below, without its overhead.
        right = V[:] if weights is None else V[:] * weights[:, None].astype(Y.dtype)
        return (Y.T @ right).astype(np.float64, copy=False) + 0.0
    partial = np.zeros((n_blocks, Y.shape[1], V.shape[1]))
    cost = Y.size * V.shape[1] // 8
    share(_transposed_times, len(partial), cost, Y, V, weights, n_rows, partial)
    return partial.sum(axis=0)


def _transposed_times(begin, end, Y, V, weights, n_rows, partial):
    cuts = [len(Y) * block // len(partial) for block in range(begin, end + 1)]
    for block, (start, stop) in zip(range(begin, end), pairwise(cuts), strict=True):
        for first, last in blocks(start, stop, n_rows):
            left = Y[first:last]
            right = left if V is Y else V[first:last]
            if weights is not None:
                right = right * weights[first:last, None].astype(Y.dtype)
            partial[block] += left.T @ right


def spread(Y: Matrix) -> FloatArray:
    """Return the standard deviation of each column of a centred tall matrix, without a copy."""
    total = np.zeros(Y.shape[1])
    for first, last in blocks(0, len(Y), rows_per_block(Y.shape[1], Y.dtype.itemsize)):
        rows = Y[first:last]
        total += np.einsum("ij,ij->j", rows, rows, dtype=np.float64)
    widths: FloatArray = np.sqrt(total / len(Y)).astype(Y.dtype)
    return widths


def inner_product(a: FloatArray, b: FloatArray) -> float:
    """Sum of the products of corresponding entries, in double precision.

    One number alone in ``a`` goes with every entry; it is repeated, so that the order of the sum is
    that of other numbers.
    """
    if a.ndim > 1:
        return float(np.sum(a * b, dtype=np.float64))
    if len(a) != len(b):
        a = np.full(len(b), a[0])
    return float(
        np.dot(a, b) if a.dtype == np.float64 else np.einsum("i,i", a, b, dtype=np.float64)
    )


def sum_of_squares(A: FloatArray) -> float:
    """Sum of all squared entries, in double precision and without a copy."""
    return float(np.einsum("ij,ij->", A, A, dtype=np.float64))

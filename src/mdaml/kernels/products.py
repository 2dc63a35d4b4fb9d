"""Products with a tall matrix, shared among our own threads.

BLAS brings threads of its own, which spin while they wait; beside other busy processes they made a
fit ten times slower and more. So a fit keeps BLAS to one thread (:func:`one_blas_thread`) and cuts
its two large products into blocks of rows here.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import current_thread, main_thread

import numpy as np
from threadpoolctl import ThreadpoolController

from mdaml.kernels._threads import share

# Blocks of a sum depend on the number of rows alone, so that the sum does not depend on the number
# of threads.
_ROWS_PER_BLOCK, _MAX_BLOCKS = 2048, 16


def one_blas_thread() -> AbstractContextManager[object]:
    """Keep BLAS to one thread for a while, if called in the main thread.

    The limit holds for the whole process. Set and lifted by several threads whose fits overlap, it
    would be lifted too early or never; so only the main thread sets it.
    """
    if current_thread() is not main_thread():
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def rows_times(Y, A):
    """``Y @ A`` for a tall Y, in its precision."""
    A = A.astype(Y.dtype, copy=False)
    out = np.empty((len(Y), A.shape[1]), Y.dtype)
    share(_rows_times, len(Y), Y.size * A.shape[1] // 8, Y, A, out)
    return out


def _rows_times(begin, end, Y, A, out):
    np.matmul(Y[begin:end], A, out=out[begin:end])


def transposed_times(Y, V):
    """``Y.T @ V`` for tall Y and V, in double precision."""
    n_blocks = min(max(len(Y) // _ROWS_PER_BLOCK, 1), _MAX_BLOCKS)
    partial = np.empty((n_blocks, Y.shape[1], V.shape[1]), Y.dtype)
    share(_transposed_times, len(partial), Y.size * V.shape[1] // 8, Y, V, partial)
    return partial.sum(axis=0, dtype=np.float64)


def _transposed_times(begin, end, Y, V, partial):
    cuts = [len(Y) * block // len(partial) for block in range(begin, end + 1)]
    for block in range(begin, end):
        rows = slice(cuts[block - begin], cuts[block - begin + 1])
        np.matmul(Y[rows].T, V[rows], out=partial[block])

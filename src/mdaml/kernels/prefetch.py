"""Rows of pairs from memory: hints which ones will be needed soon, and arrays that suit the cache.

The partners of an anchor lie anywhere in the data. Beyond the size of the caches each of them is a
wait for memory; asked for some pairs ahead, these waits overlap. Rows are asked into the second
cache: a core waits for about twice as many lines there as for the first one. That halved the time
of a pass over the pairs of 320 000 samples; where samples fit into the second cache it is a loss.

NumPy begins an array 16 bytes into a cache line, so that a row of 128 bytes would take three of
them.
"""

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray
from mdaml.kernels.compiling import exact_loop, intrinsic

_LINE = 64  # bytes


def pairs_ahead(Y: FloatArray, cached: int = 2**19) -> int:
    """How many pairs ahead to ask for rows of Y; 0 if they are soon at hand without.

    So it is with at most ``cached`` bytes of them.
    """
    long_row = 4096  # bytes: while it is read the processor itself asks for what follows
    return 32 if Y.nbytes > cached and Y.shape[1] * Y.itemsize < long_row else 0


def empty_lines(shape: tuple[int, ...], dtype: npt.DTypeLike) -> FloatArray:
    """Return an array of any content that begins with a cache line."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(n_bytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + n_bytes].view(dtype).reshape(shape)


@intrinsic
def _prefetch(_typing_context, address):
    """Ask for the cache line at an address."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, _signature, arguments):
        word, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        name = "llvm.prefetch.p0"
        hint = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        pointer = builder.inttoptr(arguments[0], byte)
        builder.call(
            hint, [pointer, word(0), word(2), word(1)]
        )  # to read, keep in the second cache, data
        return context.get_dummy_value()

    return types.none(address), codegen


@exact_loop
def prefetch_row(Y, row):
    """Ask for a row of Y, each cache line that holds a part of it."""
    start = Y.ctypes.data + row * Y.strides[0]
    for line in range(start - start % 64, start + Y.shape[1] * Y.itemsize, 64):
        _prefetch(line)


@exact_loop
def prefetch_entry(values, place):
    """Ask for an entry of a vector."""
    _prefetch(values.ctypes.data + place * values.itemsize)

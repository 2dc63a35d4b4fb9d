"""Rows of pairs from memory: hints which ones will be needed soon, and arrays that suit the cache.

The partners of a reference lie anywhere in the data. Beyond the size of the caches each of them is
a wait for memory; asked for some pairs ahead, these waits overlap. Rows are asked into the second
cache: a core waits for about twice as many lines there as for the first one. That halved the time
of a pass over the pairs of 320 000 samples; where samples fit into the second cache it is a loss.

NumPy begins an array 16 bytes into a cache line, so that a row of 128 bytes would take three of
them.
"""

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray
from mdaml.kernels.compiling import intrinsic

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
def prefetch(_typing_context, array, place):
    """Ask for an entry of a vector or a row of a matrix, each cache line that holds a part of it.

    By a function of its own in the compiled code: a copy of its loop at every place would take a
    fourth of the time to compile what calls it.
    """
    from numba import types

    def codegen(context, builder, signature, arguments):
        view = context.make_array(array)(context, builder, arguments[0])
        row = context.cast(builder, arguments[1], signature.args[1], types.intp)
        start = builder.ptrtoint(view.data, row.type)
        start = builder.add(start, builder.mul(row, builder.extract_value(view.strides, 0)))
        n_bytes = view.itemsize
        for axis in range(1, array.ndim):
            n_bytes = builder.mul(n_bytes, builder.extract_value(view.shape, axis))
        builder.call(_line_reader(builder.module), [start, builder.add(start, n_bytes)])
        return context.get_dummy_value()

    return types.none(array, place), codegen


def _line_reader(module):
    """Return the function of a module that asks for the cache lines between two addresses."""
    from llvmlite import ir

    name, nothing, word, long = "mdaml.prefetch", ir.VoidType(), ir.IntType(32), ir.IntType(64)
    if name in module.globals:
        return module.globals[name]
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(nothing, [byte, word, word, word])
    hint = ir.Function(module, kind, "llvm.prefetch.p0")
    reader = ir.Function(module, ir.FunctionType(nothing, [long, long]), name)
    reader.linkage = "internal"
    reader.attributes.add("noinline")
    start, stop = reader.args
    before, loop, after = map(reader.append_basic_block, ("before", "loop", "after"))
    builder = ir.IRBuilder(before)
    first = builder.and_(start, long(-_LINE))
    builder.branch(loop)
    builder.position_at_end(loop)
    line = builder.phi(long)
    line.add_incoming(first, before)
    arguments = word(0), word(2), word(1)  # to read, keep in the second cache, data
    builder.call(hint, [builder.inttoptr(line, byte), *arguments])
    following = builder.add(line, long(_LINE))
    line.add_incoming(following, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, stop), loop, after)
    ir.IRBuilder(after).ret_void()
    return reader

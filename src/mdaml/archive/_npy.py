"""Arrays as bytes: the format of NumPy, of which nothing needs to be parsed.

The JSON document says what an array is; its file must begin with exactly the header that follows.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Numbers and truth values of fixed size; objects, strings, dates and long doubles are left out.
DTYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")
_CHUNK = 1 << 20  # bytes read or written at a time
_MOST_AXES = 8


@dataclass(frozen=True)
class Layout:
    """What the bytes of an array mean."""

    dtype: str
    shape: tuple[int, ...]
    order: str  # "C" or "F": products depend on it in their last bits

    @classmethod
    def of(cls, array: Array) -> "Layout":
        """Return the layout in which an array is written."""
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        return cls(portable(array.dtype).str, array.shape, "F" if fortran else "C")

    @classmethod
    def parse(cls, dtype: Any, shape: Any, order: Any) -> "Layout":
        """Return a layout from untrusted values."""
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise ValueError(f"an array has dtype {dtype!r}; only numbers can be read")
        is_shape = isinstance(shape, list) and len(shape) <= _MOST_AXES
        if not is_shape or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
            raise ValueError("an array has a shape that is not a list of sizes")
        if order not in ("C", "F"):
            raise ValueError(f"an array has the order {order!r}, which is neither 'C' nor 'F'")
        return cls(dtype, tuple(shape), order)

    @property
    def header(self) -> bytes:
        """The first bytes of the file, version 1.0 of NumPy's format."""
        shape = "".join(f"{n}, " for n in self.shape).rstrip()
        shape = shape if len(self.shape) == 1 else shape.rstrip(",")
        text = (
            f"{{'descr': '{self.dtype}', 'fortran_order': {self.order == 'F'}, "
            f"'shape': ({shape}), }}"
        )
        text += " " * (-(10 + len(text) + 1) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")

    @property
    def n_bytes(self) -> int:
        """Length of the file."""
        return len(self.header) + math.prod(self.shape) * np.dtype(self.dtype).itemsize


def portable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype with its bytes in the order that files have."""
    return dtype.newbyteorder("<")


def to_chunks(array: Array, layout: Layout) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file."""
    yield layout.header
    flat = array.astype(layout.dtype, copy=False).reshape(-1, order=layout.order)  # type: ignore[call-overload]
    data = _bytes_of(flat)
    for start in range(0, len(data), _CHUNK):
        yield data[start : start + _CHUNK]


def from_file(file: BinaryIO, layout: Layout, digest: Any) -> Array:
    """Read an array whose size was checked; all bytes go through ``digest`` too."""
    header = file.read(len(layout.header))
    if header != layout.header:
        raise ValueError("the header of an array is not the one that model.json describes")
    digest.update(header)
    flat: Array = np.empty(math.prod(layout.shape), layout.dtype)
    data = _bytes_of(flat)
    for start in range(0, len(data), _CHUNK):
        chunk = file.read(min(_CHUNK, len(data) - start))
        if len(chunk) != min(_CHUNK, len(data) - start):
            raise ValueError("an array ends too early")
        data[start : start + len(chunk)] = chunk
        digest.update(chunk)
    if file.read(1):  # the end, at which the zip checks its own sum
        raise ValueError("an array is followed by further bytes")
    if layout.dtype == "|b1" and flat.size and flat.view(np.uint8).max() > 1:
        raise ValueError("an array of truth values holds other bytes than 0 and 1")
    native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    return native.reshape(layout.shape, order=layout.order)  # type: ignore[call-overload]


def _bytes_of(flat: Any) -> memoryview:
    contiguous: Any = np.ascontiguousarray(flat)
    return memoryview(contiguous.view(np.uint8))

"""Row numbers of comparisons in a few bytes, for pickles."""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdaml._typing import IntArray


@dataclass(frozen=True)
class PackedRows:
    """An array of integers, compressed without loss.

    Comparisons are sorted by their first member: differences of consecutive ones are mostly zero.
    """

    data: bytes
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, rows: Any) -> "PackedRows":
        """Pack an array of integers of shape (n, k)."""
        steps = np.diff(rows.T.astype(np.int64), prepend=0)  # (k, n), each column by itself
        small: IntArray = steps.astype(np.int32) if np.abs(steps).max(initial=0) < 2**31 else steps
        size = small.dtype.itemsize
        # Bytes of the same place together: those of small numbers are all zero or all 255.
        planes = np.ascontiguousarray(small).view(np.uint8).reshape(-1, size).T
        data = size.to_bytes(1, "little") + zlib.compress(planes.tobytes(), 1)
        return cls(data, rows.dtype.str, rows.shape)

    def unpack(self) -> IntArray:
        """Return the array."""
        size, planes = self.data[0], np.frombuffer(zlib.decompress(self.data[1:]), np.uint8)
        by_number = np.ascontiguousarray(planes.reshape(size, -1).T)
        steps = by_number.view(f"<i{size}").reshape(self.shape[::-1])
        return np.ascontiguousarray(np.cumsum(steps, axis=1, dtype=np.int64).T).astype(self.dtype)

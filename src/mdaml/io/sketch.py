"""Which rows and comparisons a model was fitted to, by a few numbers that tell nothing else.

A sketch holds the smallest hashes of all there were: the same rows have the same hashes, so that
the share of other rows that were among them can be told, exactly if all hashes were kept.
"""

from collections.abc import Mapping
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from mdaml._typing import ArrayLike, FloatArray, IntArray

Hashes = npt.NDArray[np.uint64]
_KEPT = 10_000
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


class Sketch(TypedDict):
    """The smallest hashes, and whether there were no others."""

    hashes: Hashes
    is_whole: bool


def _mix(columns: npt.NDArray[np.uint64]) -> Hashes:
    """Return a hash of each row of integers, (n, k)."""
    found = np.full(len(columns), columns.shape[1], np.uint64)
    for column in columns.T:
        found = (found ^ column) * _FACTOR
        found ^= found >> _SHIFT
    return found


def hash_rows(X: FloatArray) -> Hashes:
    """Return a hash of each row of numbers; zeros of both signs are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.io.sketch import hash_rows
    >>> one, other, same = hash_rows(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]))
    >>> bool(one == same), bool(one == other)
    (True, False)
    """
    return _mix((np.ascontiguousarray(X, np.float64) + 0.0).view(np.uint64))


def hash_comparisons(rows: Hashes, members: Mapping[str, IntArray]) -> Hashes:
    """Return a hash of each comparison, given hashes of the rows and the members by kind."""
    return np.concatenate([_mix(rows[each]) for each in members.values() if len(each)])


def make_sketch(hashes: ArrayLike) -> Sketch:
    """Return the smallest hashes, and whether these are all."""
    distinct = np.unique(np.asarray(hashes))
    return {"hashes": distinct[:_KEPT], "is_whole": len(distinct) <= _KEPT}


def find_share(sketch: Sketch, hashes: Hashes) -> float | None:
    """Return the share of hashes that were among those of a sketch; None if it cannot tell.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.io.sketch import find_share, hash_rows, make_sketch
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> find_share(make_sketch(hash_rows(X[:4])), hash_rows(X[2:]))
    0.5
    """
    kept = sketch["hashes"]
    if not sketch["is_whole"]:
        hashes = hashes[hashes <= kept[-1]]
    return float(np.isin(hashes, kept).mean()) if len(hashes) else None


def check_sketches(plain: object) -> None:
    """Refuse what is no mapping of sketches; a file may hold anything.

    Examples
    --------
    >>> from mdaml.io.sketch import check_sketches
    >>> check_sketches({"rows": 3})
    Traceback (most recent call last):
    ValueError: its fitted_to_ is not one that mdaml fit writes
    """
    sketches = list(plain.values()) if isinstance(plain, dict) else [None]
    for sketch in sketches:
        if isinstance(sketch, dict) and set(sketch) == {"hashes", "is_whole"}:
            hashes = sketch["hashes"]
            is_list = isinstance(hashes, np.ndarray) and hashes.dtype == np.uint64
            if is_list and hashes.ndim == 1 and len(hashes) and type(sketch["is_whole"]) is bool:
                continue
        raise ValueError("its fitted_to_ is not one that mdaml fit writes")

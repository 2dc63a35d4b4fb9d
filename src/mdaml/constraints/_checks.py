"""Checks of the parts of a :class:`Constraints`: each returns a read-only array of its own."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_integer

# Beyond this many rows the number of a pair, row * n_points + row, would not fit into 64 bits.
MOST_POINTS = 2**31


def frozen(values: npt.ArrayLike, dtype: Any, width: int | None = None) -> npt.NDArray[Any]:
    """Return a read-only copy of an array; where there is nothing, an empty one of that width."""
    copy = np.array(values, dtype=dtype)
    if width is not None:
        copy = copy.reshape(-1, width)
    copy.setflags(write=False)
    return copy


def is_empty(given: Any) -> bool:
    """Say whether an argument was left out, or holds nothing."""
    return given is None or (hasattr(given, "__len__") and len(given) == 0)


def compares_nothing(quadruplets: IntArray) -> npt.NDArray[np.bool_]:
    """Say of (n, 4) quadruplets whether a pair is one point twice, or both pairs are the same."""
    a, b, c, d = quadruplets.T
    same: npt.NDArray[np.bool_] = ((a == c) & (b == d)) | ((a == d) & (b == c))
    return same | (a == b) | (c == d)


def check_weights(weights: npt.ArrayLike | None, n_constraints: int) -> FloatArray:
    """Return one positive weight for each constraint; ones where None was given."""
    if weights is None:
        return frozen(np.ones(n_constraints), np.float64)
    wanted = (
        "weights must hold one positive finite number for each constraint, in the order triplets, "
        "pairs, quadruplets"
    )
    given = np.asarray(weights)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{wanted}; got dtype {given.dtype}.")
    if given.shape != (n_constraints,):
        raise ValueError(f"{wanted}; got shape {given.shape} for {n_constraints} constraints.")
    bad = ~(np.isfinite(given) & (given > 0))
    if bad.any():
        raise ValueError(
            f"{wanted}; weight {int(np.argmax(bad))} is {given[bad][0]}. Leave out constraints "
            "that are to have no weight."
        )
    return frozen(given, np.float64)


def check_ids(ids: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return the ids of the points, distinct strings or distinct integers, as a read-only array."""
    wanted = "ids must be a sequence of distinct strings or distinct integers, one for each point"
    given = np.asarray(ids, dtype=object)  # NumPy alone would turn 1 among strings into "1"
    if given.ndim != 1 or len(given) == 0:
        raise ValueError(f"{wanted}; got shape {given.shape}.")
    kinds = {type(value) for value in given.tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        if any(not text or "\0" in text for text in given.tolist()):
            raise ValueError(f"{wanted}; got an empty one, or one with a null character.")
        values = frozen(given, np.str_)
    elif bool not in kinds and all(issubclass(kind, int | np.integer) for kind in kinds):
        values = frozen(given, np.int64)
    else:
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"{wanted}; got values of type {names}.")
    distinct, count = np.unique(values, return_counts=True)
    if len(distinct) < len(values):
        again = int(np.argmax(count > 1))
        raise ValueError(f"{wanted}; {distinct[again].item()!r} occurs {count[again]} times.")
    return values


def check_points(
    owner: object, n_points: Any, ids: Any
) -> tuple[npt.NDArray[Any] | None, int | None]:
    """Return the ids as an array, and the number of points if it is known."""
    if n_points is not None:
        n_points = check_integer(owner, "n_points", n_points, 1, MOST_POINTS)
    if ids is None:
        return None, n_points
    names = check_ids(ids)
    if n_points not in (None, len(names)):
        raise ValueError(f"There are {len(names)} ids, but n_points is {n_points}.")
    return names, len(names)


def check_selection(name: str, which: npt.ArrayLike, size: int, *, distinct: bool) -> IntArray:
    """Return a mask or indices of a range of that size as indices."""
    wanted = f"{name} must be a mask of {size} booleans, or integers from 0 to {size - 1}"
    given = np.asarray(which)
    if given.ndim != 1:
        raise ValueError(f"{wanted}; got shape {given.shape}.")
    if given.dtype == bool:
        if len(given) != size:
            raise ValueError(f"{wanted}; got {len(given)} booleans.")
        return np.flatnonzero(given)
    if len(given) == 0:
        return np.empty(0, np.int64)
    if given.dtype.kind not in "iu":
        raise TypeError(f"{wanted}; got dtype {given.dtype}.")
    if given.min() < 0 or given.max() >= size:
        bad = given[(given < 0) | (given >= size)][0]
        raise ValueError(f"{wanted}; got {bad}.")
    if distinct and len(np.unique(given)) < len(given):
        raise ValueError(f"{wanted}, each at most once; got one twice.")
    return given.astype(np.int64)

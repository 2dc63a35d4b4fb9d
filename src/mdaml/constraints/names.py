"""Points by their names: which rows of X texts stand for, and suggestions for unknown names."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from mdaml._typing import Array, ArrayLike

NOBODY = -1  # in place of a row where a cell is empty
# Beyond this many rows the number of a pair, row * n_points + row, would not fit into 64 bits.
MOST_POINTS = 2**31
Names: TypeAlias = Array | None


def frozen(values: ArrayLike, dtype: DTypeLike | None) -> Array:
    """Return a read-only copy of an array."""
    copy = np.array(values, dtype=dtype)
    copy.setflags(write=False)
    return copy


def to_array(values: object) -> Array:
    """Return an array of values that keeps 1 and "1", or 1 and True, apart in a plain list."""
    array = np.asarray(values)
    if not isinstance(values, list | tuple) or array.ndim != 1 or array.dtype.kind not in "Uiuf":
        return array
    kinds = {str if isinstance(v, str) else bool if isinstance(v, bool) else None for v in values}
    return array if len(kinds) <= 1 else np.array(list(values), dtype=object)


def check_ids(ids: ArrayLike) -> Array:
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


def is_missing(value: object) -> bool:
    """Say whether a value of a table stands for nothing: None, NaN or NA."""
    return value is None or str(value) in ("nan", "NaT", "<NA>")


def get_index(X: object) -> Array | None:
    """Return the names of the rows of a data frame, or None if they are only numbers."""
    index = getattr(X, "index", None)
    if index is None or not hasattr(X, "iloc"):
        return None
    values = np.asarray(index, dtype=object)
    return values if len(values) and isinstance(values[0], str) else None


def are_names(given: object) -> bool:
    """Say whether an argument holds texts, rather than row numbers."""
    values = np.asarray(given)
    return values.dtype.kind in "UT" or (
        values.dtype == object and any(isinstance(cell, str) for cell in values.ravel().tolist())
    )


def to_rows(what: str, given: ArrayLike, ids: ArrayLike | None, *, may_miss: bool = False) -> Array:
    """Return row numbers for names, in the same shape; row numbers come back as they are.

    Parameters
    ----------
    what : str
        Name of the argument, for messages.
    given : array-like or DataFrame
        Names, as texts, or row numbers.
    ids : sequence of str or int, or None
        Names of the rows of X, in their order.
    may_miss : bool, default=False
        Whether cells may be empty (an empty text, None, NaN or -1), which gives -1.
    """
    try:
        values = np.asarray(given)
    except ValueError:
        message = f"{what} must be an array, each row of one length; got rows of different lengths."
        raise ValueError(message) from None
    if not are_names(values):
        return _to_integers(values) if may_miss else values
    if ids is None:
        raise ValueError(
            f"{what} holds names, but nothing says which rows of X they are: pass ids=, the names "
            "of the rows in their order, or an X whose index they are."
        )
    names = list(map(str, check_ids(ids).tolist()))
    known: dict[str, int] = dict(zip(names, range(len(names)), strict=True))
    cells = [cell if isinstance(cell, str) else _to_name(cell) for cell in values.ravel().tolist()]
    if may_miss:
        known[""] = NOBODY
    rows = np.fromiter((known.get(cell, -2) for cell in cells), np.int64, len(cells))
    unknown = list(dict.fromkeys(cells[place] for place in np.flatnonzero(rows == -2)))
    if unknown:
        raise ValueError(
            f"{what} has {_count(len(unknown))} that no row of X has: "
            f"{', '.join(describe_unknown(name, names) for name in unknown[:5])}"
            f"{', ...' if len(unknown) > 5 else ''}."
        )
    return rows.reshape(values.shape)


def _count(n: int) -> str:
    return "a name" if n == 1 else f"{n} names"


def _to_name(cell: object) -> str:
    return "" if is_missing(cell) else str(cell)


def _to_integers(values: Array) -> Array:
    """Return whole numbers with gaps, as data frames hold them, as integers; gaps become -1."""
    if values.dtype == object and values.size:
        values = np.array(
            [np.nan if is_missing(cell) else cell for cell in values.ravel()]
        ).reshape(values.shape)
    if values.dtype.kind == "f":
        filled = np.where(np.isnan(values), NOBODY, values)
        return filled.astype(np.int64) if np.all(filled == np.round(filled)) else values
    return values


def describe_unknown(name: str, names: Sequence[str]) -> str:
    """Return an unknown name, with the known one that was probably meant."""
    from mdaml.io.messages import find_meant

    meant = find_meant(name, names)
    return f"{name!r}" + (f" (did you mean {meant!r}?)" if meant else "")

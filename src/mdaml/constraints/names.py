"""Points by their names: rows of X that texts stand for, and what was meant by one that is none."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import ArrayLike, IntArray
from mdaml.constraints.checks import check_ids, is_missing

_MOST_NAMES = 20_000  # compared with a name that is none of them
NOBODY = -1  # in place of a row where a cell is empty


def get_index(X: Any) -> npt.NDArray[Any] | None:
    """Return the names of the rows of a data frame, or None if they are only numbers."""
    index = getattr(X, "index", None)
    if index is None or not hasattr(X, "iloc"):
        return None
    values = np.asarray(index, dtype=object)
    return values if len(values) and isinstance(values[0], str) else None


def are_names(given: Any) -> bool:
    """Say whether an argument holds texts, rather than row numbers."""
    values = np.asarray(given)
    return values.dtype.kind in "UT" or (
        values.dtype == object and any(isinstance(cell, str) for cell in values.ravel().tolist())
    )


def to_rows(
    what: str, given: ArrayLike, ids: ArrayLike | None, *, may_miss: bool = False
) -> npt.NDArray[Any]:
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
        raise ValueError(f"{what} must have rows of one length; got different lengths.") from None
    if not are_names(values):
        return _to_integers(values) if may_miss else values
    if ids is None:
        raise ValueError(
            f"{what} holds names, but nothing says which rows of X they are: pass ids=, the names "
            "of the rows in their order, or an X whose index they are."
        )
    names = list(map(str, check_ids(ids).tolist()))
    known: dict[Any, int] = dict(zip(names, range(len(names)), strict=True))
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


def _to_name(cell: Any) -> str:
    return "" if is_missing(cell) else str(cell)


def _to_integers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
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
    """Return a name that is none of the others, with the one that was probably meant."""
    meant = find_meant(name, names)
    return f"{name!r}" + (f" (did you mean {meant!r}?)" if meant else "")


def find_meant(name: str, names: Sequence[str]) -> str | None:
    """Return the name that was probably meant: without spaces and capitals, or nearly the same."""
    plain = name.strip().casefold()
    for other in names:
        if other.strip().casefold() == plain:
            return other
    close = difflib.get_close_matches(name, names[:_MOST_NAMES], 1, 0.75)
    return close[0] if close else None


def align(
    rows: Iterable[IntArray], ids: npt.NDArray[Any], index: npt.NDArray[Any]
) -> list[IntArray]:
    """Return rows of one list of names as rows of another list, which holds them too."""
    place = to_rows("constraints", ids.astype(str), index)
    return [place[part] for part in rows]

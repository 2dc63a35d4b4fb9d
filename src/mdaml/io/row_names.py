"""Columns that probably name the rows of a table, and would be learned from by mistake."""

import re

import numpy as np

from mdaml._typing import FloatArray
from mdaml._validation import warn
from mdaml.io.columns import Table
from mdaml.io.messages import join_names

NEARLY = 0.9  # share of different values from which on a column may name the rows
FEW = 20  # values that say nothing about it
_WORD = re.compile(r"[A-Z]?[a-zäöü]+|[A-Z]+")
_ID_WORDS = frozenset(("id", "ids", "idx", "index", "key", "no", "nr", "num", "number", "nummer"))


def find_counter(table: Table, X: FloatArray) -> str | None:
    """Return the first column of whole numbers that probably names the rows, if no other does."""
    if table.id_column is not None or not table.is_named:
        return None
    named = zip(table.features, X.T, strict=True)
    return next((name for name, numbers in named if _names_rows(name, numbers)), None)


def warn_of_counter(table: Table, X: FloatArray) -> None:
    """Warn if a column is learned from that probably names the rows."""
    name = find_counter(table, X)
    if name is not None:
        ask, drop = table.naming("id_column", name), table.naming("drop", join_names([name]))
        warn(
            f"Column {name!r} holds whole numbers that nearly all differ, and is learned from. "
            f"Pass {ask} if it names the rows, or {drop} if it means nothing."
        )


def _names_rows(name: str, numbers: FloatArray) -> bool:
    """Say whether whole numbers nearly all differ, and count without gaps or are called an id."""
    numbers = numbers[~np.isnan(numbers)]
    if len(numbers) <= FEW or not np.isfinite(numbers).all() or np.any(numbers != np.rint(numbers)):
        return False
    different = np.unique(numbers)
    words = [word.lower() for word in _WORD.findall(name)]
    is_called = bool(words) and words[-1] in _ID_WORDS
    is_dense = len(different) > NEARLY * (different[-1] - different[0] + 1)
    return len(different) > NEARLY * len(numbers) and (is_called or is_dense)

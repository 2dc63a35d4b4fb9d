"""Logs of a search: what was shown for which query, where, and whether it was clicked."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from mdaml._typing import Array, ArrayLike, BoolArray, FloatArray, IntArray
from mdaml._validation import warn
from mdaml.io.beir import (
    CLICK_COLUMNS,
    find_click_columns,
    join_click_columns,
    read_click_columns,
)
from mdaml.io.preparation import to_text
from mdaml.retrieval._relevance import Ids, Relevance, find_rows, split_columns

_Log: TypeAlias = ArrayLike | str | os.PathLike[str]  # rows, a data frame or a file
Clicks: TypeAlias = _Log | list[_Log] | tuple[_Log, ...]

_WANTED = (
    "clicks must have a row (query, document, position, clicked) for each document shown, with the "
    "impression or visit as a fifth if it is known"
)
_YES, _NO = ("1", "1.0", "true", "yes", "t", "y"), ("0", "0.0", "false", "no", "f", "n", "", "nan")
_MANY_ROWS = 100  # of which more than half are clicked only if something is wrong
_ONE_CLICK = 1.0  # how much the mean counts beside what was seen of a pair


@dataclass(frozen=True)
class ClickLog:
    """Documents shown, sorted by impression and position."""

    queries: IntArray  # (n,)
    documents: IntArray  # (n,)
    positions: IntArray  # (n,) from 0
    clicked: BoolArray  # (n,)
    impressions: IntArray  # (n,) 0, 1, ...; one list that was shown once
    n_queries: int
    n_documents: int

    def join(self, first: IntArray) -> "ClickLog":
        """Return the log with other rows for queries."""
        return replace(self, queries=first[self.queries])

    def of(self, rows: IntArray) -> "ClickLog":
        """Return what was shown for some queries, which are numbered by their place in ``rows``."""
        places = np.full(self.n_queries, -1)
        places[rows] = np.arange(len(rows))
        kept = places[self.queries] >= 0
        impressions = np.unique(self.impressions[kept], return_inverse=True)[1]
        return ClickLog(
            places[self.queries[kept]],
            self.documents[kept],
            self.positions[kept],
            self.clicked[kept],
            impressions,
            len(rows),
            self.n_documents,
        )

    def find_telling(self) -> IntArray:
        """Return the queries of which something was clicked and something beside it was not."""
        n = np.bincount(self.impressions)
        n_clicks = np.bincount(self.impressions, self.clicked)
        tells = (n_clicks > 0) & (n_clicks < n)
        return np.unique(self.queries[tells[self.impressions]])

    def to_relevance(self, propensities: FloatArray) -> Relevance:
        """Return pairs that were clicked more often than the mean of what was shown.

        The grade of a pair is its number of clicks over the sum of the propensities at which it was
        shown, where one click's worth of the mean is added to both. Refuses a log without such a
        pair.
        """
        keys = self.queries * self.n_documents + self.documents
        distinct, places = np.unique(keys, return_inverse=True)
        n_clicks = np.bincount(places, self.clicked, len(distinct))
        seen = np.bincount(places, propensities[self.positions], len(distinct))
        mean = n_clicks.sum() / seen.sum()
        grades = (n_clicks + _ONE_CLICK * mean) / (seen + _ONE_CLICK)
        kept = (n_clicks > 0) & (grades > mean)
        if not kept.any():
            raise ValueError(
                "clicks: corrected for positions, no document was clicked more often than the mean "
                "of all that were shown. There is nothing to learn. Collect more clicks."
            )
        queries, documents = np.divmod(distinct[kept], self.n_documents)
        return Relevance(queries, documents, grades[kept], self.n_queries, self.n_documents)


def read_clicks(clicks: Clicks, ids: Ids | None, n_queries: int, n_documents: int) -> ClickLog:
    """Return the log of a user, or raise an error that says what is wrong with it."""
    columns = _to_columns(clicks)
    if not len(columns["clicked"]):
        raise ValueError(f"{_WANTED}; got no rows.")
    sizes = (n_queries, n_documents)
    query, document = find_rows("clicks", [columns["query"], columns["document"]], ids, sizes)
    positions = _to_positions(columns["position"])
    clicked = _to_clicked(columns["clicked"])
    if not clicked.any() or clicked.all():
        raise ValueError(
            f"clicks must hold clicked documents and others that were shown but not clicked, got "
            f"{int(clicked.sum())} clicks in {len(clicked)} rows. Export every document that was "
            "shown. If all pairs are relevant, pass them as relevant=."
        )
    _warn_of_many(clicked)
    visit = np.zeros(len(query), np.int64)
    if "impression" in columns:
        visit = np.unique(columns["impression"].astype(str), return_inverse=True)[1]
    impressions = _find_impressions(query, visit, positions)
    order = np.lexsort([positions, impressions])
    return ClickLog(
        query[order],
        document[order],
        positions[order],
        clicked[order],
        impressions[order],
        n_queries,
        n_documents,
    )


def _to_columns(clicks: Clicks) -> Mapping[str, Array]:
    """Return the columns of a log, or of several, by their usual names."""
    if isinstance(clicks, list | tuple) and clicks and all(map(_is_log, clicks)):
        logs = [
            {
                name: list(map(_to_text, column.tolist()))
                for name, column in _to_columns(log).items()
            }
            for log in clicks
        ]
        return {name: np.array(cells, object) for name, cells in join_click_columns(logs).items()}
    if isinstance(clicks, str | os.PathLike):
        cells = read_click_columns(Path(clicks))
        return {name: np.array(texts, object) for name, texts in cells.items()}
    fields = _split_fields(clicks) if isinstance(clicks, list) else None
    names, columns = split_columns(clicks, _WANTED) if fields is None else fields
    if names:
        return {name: columns[place] for name, place in find_click_columns(names).items()}
    if len(columns) not in (4, 5):
        shape = getattr(clicks, "shape", f"{len(columns)} columns")
        raise ValueError(f"{_WANTED}; got {shape}.")
    return dict(zip(CLICK_COLUMNS, columns, strict=False))


def _is_log(given: object) -> bool:
    """Say whether something is a whole log, not a row of one."""
    is_matrix = isinstance(given, np.ndarray) and given.ndim == 2
    return is_matrix or isinstance(given, str | os.PathLike) or hasattr(given, "columns")


def _to_text(cell: object) -> str:
    """Return what a file would hold: logs of several kinds have texts in common."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return "" if cell is None else str(cell)


def _split_fields(rows: Sequence[object]) -> tuple[list[str], list[Array]] | None:
    """Return names and columns of dictionaries, as of JSON lines, or None of other rows."""
    items = [row for row in rows if isinstance(row, Mapping)]
    if not items:
        return None
    names = list(items[0])
    if len(items) < len(rows) or any(set(item) != set(names) for item in items):
        raise ValueError(f"{_WANTED}; the fields of all rows must be the same.")
    return names, [np.array([item[name] for item in items]) for name in names]


def _to_positions(column: Array) -> IntArray:
    """Return positions from 0; where none is 0 they are counted from 1."""
    try:
        numbers = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if (
        not np.all(np.isfinite(numbers))
        or np.any(numbers != np.floor(numbers))
        or numbers.min() < 0
    ):
        empty = [row for row, cell in enumerate(np.asarray(column).tolist()) if not to_text(cell)]
        missing = f" {len(empty)} of {len(column)} are missing, the first in row "
        missing += f"{empty[0]} (from 0): leave such rows out." if empty else ""
        raise ValueError(
            "clicks: positions must be whole numbers, 1 for the document shown first, or 0 if they "
            f"are counted from 0.{missing if empty else ''}"
        )
    return numbers.astype(np.int64) - int(numbers.min() > 0)


def _to_clicked(column: Array) -> BoolArray:
    if column.dtype.kind in "bif":
        numbers = np.nan_to_num(column.astype(np.float64))
        if np.all(np.isin(numbers, (0.0, 1.0))):
            return numbers == 1.0
        wrong = str(column[~np.isin(numbers, (0.0, 1.0))][0])
    else:
        texts = ["" if cell is None else str(cell).strip().lower() for cell in column.tolist()]
        unknown = [text for text in texts if text not in _YES and text not in _NO]
        if not unknown:
            return np.isin(texts, _YES)
        wrong = unknown[0]
    advice = ""
    if wrong.replace(".", "").isdecimal():
        advice = (
            " Is this the column of positions? If it is a number of clicks, write a row for each "
            "time that a document was shown."
        )
    raise ValueError(f"clicks: clicked must be 1 or 0, true or false, got {wrong!r}.{advice}")


def _warn_of_many(clicked: BoolArray) -> None:
    """Warn of a log that nobody makes who looks at a list and clicks some of it."""
    share = float(clicked.mean())
    if len(clicked) >= _MANY_ROWS and share > 0.5:
        warn(
            f"clicks: {share:.0%} of the documents shown were clicked. If the column marks those "
            "that were skipped, exchange 1 and 0. If documents that were shown but not clicked are "
            "missing, export them too."
        )


def _find_impressions(query: IntArray, visit: IntArray, positions: IntArray) -> IntArray:
    """Return numbers of lists: the n-th time a position occurs in a visit, its list is the n-th."""
    codes = np.unique(np.column_stack([query, visit]), axis=0, return_inverse=True)[1].reshape(-1)
    order = np.lexsort([positions, codes])  # stable: in the order of the log
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(codes[order]) != 0) | (np.diff(positions[order]) != 0)
    begins = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
    times = np.empty(len(order), np.int64)
    times[order] = np.arange(len(order)) - begins
    pairs = np.column_stack([codes, times])
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)

"""Which documents answer which query: read from arrays or names, checked once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeAlias

import numpy as np

from mdaml._typing import Array, ArrayLike, BoolArray, FloatArray, IntArray
from mdaml.io.preparation import to_text

Ids: TypeAlias = Sequence[ArrayLike]  # names of the queries, names of the documents
SIDES = ("queries", "documents")


@dataclass(frozen=True)
class Relevance:
    """Distinct relevant pairs, sorted by query and then by document, with positive grades."""

    queries: IntArray  # (n_pairs,)
    documents: IntArray  # (n_pairs,)
    grades: FloatArray  # (n_pairs,)
    n_queries: int
    n_documents: int

    @cached_property
    def starts(self) -> IntArray:
        """Where the pairs of each query begin, and the end: of shape (n_queries + 1,)."""
        return np.searchsorted(self.queries, np.arange(self.n_queries + 1))

    def places(self, rows: IntArray) -> IntArray:
        """Return the places of the pairs of some queries, query by query."""
        counts = self.starts[rows + 1] - self.starts[rows]
        ends = np.cumsum(counts)
        return np.arange(counts.sum()) + np.repeat(self.starts[rows] - (ends - counts), counts)

    def of(self, rows: IntArray) -> "Relevance":
        """Return the pairs of some queries, which are numbered by their place in ``rows``."""
        counts = self.starts[rows + 1] - self.starts[rows]
        places = self.places(rows)
        return Relevance(
            np.repeat(np.arange(len(rows)), counts),
            self.documents[places],
            self.grades[places],
            len(rows),
            self.n_documents,
        )

    def join(self, first: IntArray) -> "Relevance":
        """Return the pairs with other rows for queries; grades of equal pairs add up."""
        keys = first[self.queries] * self.n_documents + self.documents
        distinct, places = np.unique(keys, return_inverse=True)
        queries, documents = np.divmod(distinct, self.n_documents)
        grades = np.bincount(places, self.grades, len(distinct)).astype(np.float64)
        return Relevance(queries, documents, grades, self.n_queries, self.n_documents)


def read_relevance(
    relevant: ArrayLike, ids: Ids | None, n_queries: int, n_documents: int
) -> Relevance:
    """Return the pairs of a user, or raise an error that says what is wrong with them.

    ``relevant`` has columns query, document and perhaps grade: row numbers, or names that ``ids``,
    a pair of the names of queries and of documents, explains. Grades of 0 and below say that a
    document was judged not relevant; such pairs are left out. Of a repeated pair the highest grade
    counts.
    """
    columns = _split(relevant)
    grades = np.ones(len(columns[0])) if len(columns) == 2 else _check_grades(columns[2])
    query, document = find_rows("relevant", columns[:2], ids, (n_queries, n_documents))
    kept = grades > 0
    if not kept.any():
        raise ValueError(
            "relevant must hold at least one pair with a grade above 0, got none. Pass grades "
            "above 0 for relevant documents."
        )
    query, document, grades = query[kept], document[kept], grades[kept]
    order = np.lexsort([-grades, document, query])
    query, document, grades = query[order], document[order], grades[order]
    first = np.ones(len(query), bool)
    first[1:] = (np.diff(query) != 0) | (np.diff(document) != 0)
    return Relevance(query[first], document[first], grades[first], n_queries, n_documents)


def find_rows(
    source: str, columns: Sequence[Array], ids: Ids | None, sizes: tuple[int, int]
) -> list[IntArray]:
    """Return rows of queries and of documents, from row numbers or from names of ``ids``.

    ``source`` is the argument that names them, for messages.
    """
    if ids is not None:
        names = _check_ids(ids, *sizes)
        found = [_find(side, column) for side, column in zip(names, columns, strict=True)]
        for place, rows in enumerate(found):
            if np.any(rows < 0):
                _refuse_unknown(source, names, columns, place, rows < 0)
        return found
    found = [_check_rows(source, c, what) for c, what in zip(columns, SIDES, strict=True)]
    for rows, n, what in zip(found, sizes, SIDES, strict=True):
        if len(rows) and (rows.min() < 0 or rows.max() >= n):
            wrong = rows[(rows < 0) | (rows >= n)][0]
            raise ValueError(
                f"{source} names row {wrong} of the {what}, but there are {n}. Rows are counted "
                "from 0; for names pass ids=(query_ids, document_ids)."
            )
    return found


def split_columns(rows: object, wanted: str) -> tuple[list[str], list[Array]]:
    """Return the names of the columns of a data frame, none of other rows, and the columns."""
    given: Any = rows  # a data frame of any library, or rows
    if hasattr(rows, "columns"):
        return [str(name) for name in given.columns], [np.asarray(given[c]) for c in given.columns]
    if isinstance(rows, np.ndarray):
        return [], list(rows.T) if rows.ndim == 2 else []
    listed = [tuple(row) for row in given]
    widths = sorted({len(row) for row in listed})
    if len(widths) != 1:
        got = f"rows of {widths[0]} and {widths[1]} entries" if widths else "no rows"
        raise ValueError(f"{wanted}; got {got}.")
    return [], [np.array(column) for column in zip(*listed, strict=True)]


def _split(relevant: ArrayLike) -> list[Array]:
    """Return two or three columns of one length."""
    wanted = "relevant must have a row (query, document) or (query, document, grade) for each pair"
    _, columns = split_columns(relevant, wanted)
    if len(columns) not in (2, 3):
        shape = getattr(relevant, "shape", f"{len(columns)} columns")
        raise ValueError(f"{wanted}; got {shape}.")
    return columns


def _check_ids(ids: Ids, n_queries: int, n_documents: int) -> list[list[object]]:
    if not isinstance(ids, Sequence) or isinstance(ids, str) or len(ids) != 2:
        raise ValueError(
            "ids must be a pair: the names of the queries, the names of the documents."
        )
    names = [np.asarray(side).tolist() for side in ids]
    for side, n, what in zip(
        names, (n_queries, n_documents), ("queries", "documents"), strict=True
    ):
        if len(side) != n:
            raise ValueError(f"ids must name each of the {n} {what} once, got {len(side)} names.")
        if len(set(side)) != n:
            raise ValueError(f"ids of {what} must differ; {n - len(set(side))} are repeated.")
    return names


def _find(names: list[object], column: Array) -> IntArray:
    """Return the rows of names, -1 of those that are not known."""
    wanted = np.asarray(column).tolist()
    if wanted and isinstance(wanted[0], str):  # a file has texts, and ids may be numbers
        names = [str(name) for name in names]
    places = {name: place for place, name in enumerate(names)}
    return np.array([places.get(name, -1) for name in wanted], np.int64)


def _refuse_unknown(
    source: str,
    names: list[list[object]],
    columns: Sequence[Array],
    place: int,
    is_unknown: BoolArray,
) -> NoReturn:
    """Say which names are not known, and whether the columns were exchanged."""
    if all((_find(*side) >= 0).all() for side in zip(names, columns[::-1], strict=True)):
        raise ValueError(
            f"{source}: the column of queries names documents, and that of documents names "
            "queries. Exchange these columns."
        )
    row = int(is_unknown.argmax())
    wrong, what = np.asarray(columns[place])[row], SIDES[place]
    such = f"({is_unknown.sum()} such pairs)"
    if not to_text(wrong).strip():
        raise ValueError(
            f"{source}: row {row} (from 0) names none of the {what} {such}. Leave such rows out."
        )
    raise ValueError(
        f"{source} names {str(wrong)!r}, which is not one of the ids of the {what}, such as "
        f"{names[place][0]!r} {such}."
    )


def _check_rows(source: str, column: Array, what: str) -> IntArray:
    rows = np.asarray(column)
    if rows.dtype.kind == "O" and all(isinstance(cell, str) and cell.isdigit() for cell in rows):
        rows = rows.astype(np.int64)  # of a file
    if rows.dtype.kind == "f" and np.all(rows == np.floor(rows)):
        rows = rows.astype(np.int64)  # an array with grades that are no integers
    if rows.dtype.kind not in "iu":
        raise TypeError(
            f"{source} must name each of the {what} by its row, an integer, got {rows.dtype}. For "
            "names pass ids=(query_ids, document_ids)."
        )
    return rows.astype(np.int64)


def _check_grades(column: Array) -> FloatArray:
    try:
        grades = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        raise TypeError("relevant: grades must be numbers, the higher the more relevant.") from None
    if not np.all(np.isfinite(grades)):
        raise ValueError("relevant: grades must be finite numbers.")
    return grades

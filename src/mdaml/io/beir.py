"""Queries, documents and relevant pairs in files: JSON lines as BEIR has them, TSV and tables."""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from mdaml.io.columns import Table
from mdaml.io.messages import Naming, check_readable, name_argument, suggest_name
from mdaml.io.tables import SUFFIXES, read_table
from mdaml.io.texts import check_suffix, read_texts

JsonLine: TypeAlias = dict[str, Any]  # anything, until it is checked
VECTOR_SUFFIXES = (*SUFFIXES, ".jsonl")
PAIR_SUFFIXES = (".tsv", ".csv", ".parquet", ".npy")
_ID_FIELDS = ("_id", "id")
_VECTOR_FIELDS = ("embedding", "vector")
# Names of columns, so that a first line with one of them is a header.
_QUERY_NAMES = ("query-id", "query_id", "query", "qid")
CLICK_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".jsonl")
# The columns of a log of clicks; the last may be missing. Spaces and hyphens count as "_".
CLICK_COLUMNS = ("query", "document", "position", "clicked", "impression")
_CLICK_NAMES = {
    "query": ("query", "query_id", "qid", "query_text", "search_query", "search_term"),
    "document": (
        *("document", "document_id", "doc", "doc_id", "docid", "corpus_id", "item", "item_id"),
        *("article", "article_id", "product", "product_id", "result", "result_id", "url"),
    ),
    "position": ("position", "pos", "rank", "result_position"),
    "clicked": ("clicked", "click", "is_clicked", "is_click", "was_clicked"),
    "impression": (
        *("impression", "impression_id", "visit", "visit_id", "session", "session_id"),
        *("search_id", "request_id"),
    ),
}


def read_vectors(path: Path, vectors: Path | None = None, setting: str = "vectors=") -> Table:
    """Read vectors with ids from a table, or from JSON lines.

    Parameters
    ----------
    path : Path
        A table of :func:`~mdaml.io.tables.read_table`; or JSON lines, each an object with ``_id``
        and ``embedding``, as BEIR's ``corpus.jsonl`` and ``queries.jsonl`` with vectors added.
    vectors : Path or None
        A table whose rows are the vectors of the lines of ``path``, in their order.
    setting : str
        How whoever calls gives that table, for messages.

    Returns
    -------
    table : Table
    """
    if check_suffix(path, VECTOR_SUFFIXES) != ".jsonl":
        if vectors is not None:
            raise ValueError(f"{path} holds vectors itself: {vectors} is for files of JSON lines.")
        return read_table(path)
    ids: list[str] = []
    rows: list[list[float]] = []
    for line, item in _read_lines(path):
        name = next((item[field] for field in _ID_FIELDS if field in item), None)
        if not isinstance(name, str | int) or name == "":
            raise ValueError(f"{path}:{line}: there is no id; the field _id is wanted.")
        ids.append(str(name))
        if vectors is None:
            rows.append(_get_vector(path, line, item, rows, setting))
    if not ids:
        raise ValueError(f"{path}: the file is empty. Write at least one line into it.")
    if len(set(ids)) < len(ids):
        repeated = next(name for place, name in enumerate(ids) if name in ids[:place])
        raise ValueError(f"{path}: the id {repeated!r} is there twice. Ids must differ.")
    if vectors is None:
        X = np.array(rows, np.float32)
    else:
        X = read_table(vectors).X
        if len(X) != len(ids):
            raise ValueError(f"{vectors} has {len(X)} rows, but {path} has {len(ids)} lines.")
    features = tuple(f"x{n}" for n in range(X.shape[1]))
    return Table(path, X, features, "_id", is_named=False, ids=np.array(ids, dtype=object))


def _read_lines(path: Path) -> Iterator[tuple[int, JsonLine]]:
    check_readable(path)
    with path.open("rb") as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                item = json.loads(text)
            except ValueError as error:  # of the decoder of UTF-8 too
                raise ValueError(f"{path}:{line}: this is not a line of JSON: {error}.") from None
            if not isinstance(item, dict):
                raise ValueError(f"{path}:{line}: an object is wanted, such as {{'_id': …}}.")
            yield line, item


def _get_vector(
    path: Path, line: int, item: JsonLine, before: Sequence[list[float]], setting: str
) -> list[float]:
    vector = next((item[field] for field in _VECTOR_FIELDS if field in item), None)
    if vector is None:
        raise ValueError(
            f"{path}:{line}: there is no vector. Add the field embedding to every line, or pass "
            f"the vectors of all lines in a file of their own: {setting}."
        )
    is_list = isinstance(vector, list) and len(vector) > 0
    if not is_list or not all(_is_finite(value) for value in vector):
        raise ValueError(f"{path}:{line}: the vector must be a list of finite numbers.")
    if before and len(vector) != len(before[0]):
        raise ValueError(
            f"{path}:{line}: {len(vector)} numbers, but {len(before[0])} in the lines above."
        )
    return vector


def _is_finite(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value)


def read_pairs(path: Path, naming: Naming = name_argument) -> list[tuple[str, str, float]]:
    """Read relevant pairs: the query, the document and a grade, 1 where there is none.

    Parameters
    ----------
    path : Path
        TSV, as BEIR's ``qrels.tsv``, with a header or without, or with the four columns of TREC;
        CSV or Parquet with the columns query, document and perhaps grade; NPY with row numbers.
    naming : callable
        How whoever calls names its settings, for messages.

    Returns
    -------
    pairs : list of tuple (str, str, float)
        Ids, or row numbers as text.
    """
    suffix = check_suffix(path, PAIR_SUFFIXES)
    if suffix == ".npy":
        lines = _read_npy(path)
    elif suffix == ".tsv":
        lines = _read_tsv(path)
    else:
        lines = _read_cells(path)
    pairs: list[tuple[str, str, float]] = []
    for line, cells in lines:
        if not pairs and cells[0].lower() in _QUERY_NAMES:
            continue
        if len(cells) == 4:  # TREC: query, iteration, document, grade
            cells = [cells[0], *cells[2:]]
        if len(cells) not in (2, 3) or not cells[0] or not cells[1]:
            advice = f" Is it a log of clicks? Pass it as {naming('clicks', '')}."
            raise ValueError(
                f"{path}:{line}: a query, a document and perhaps a grade are wanted, got "
                f"{len(cells)} cells.{advice if len(cells) > 3 else ''}"
            )
        pairs.append((cells[0], cells[1], _to_grade(path, line, cells[2]) if cells[2:] else 1.0))
    if not pairs:
        raise ValueError(f"{path}: there is no pair in it.")
    return pairs


def _read_tsv(path: Path) -> Iterator[tuple[int, list[str]]]:
    check_readable(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for line, row in enumerate(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
                cells = row[0].split() if len(row) == 1 else [cell.strip() for cell in row]
                if cells:
                    yield line, cells
    except UnicodeDecodeError:
        raise ValueError(f"{path}: this is not UTF-8 text. Save it as UTF-8.") from None


def _read_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    for lines, columns in read_texts(path):
        rows = zip(*columns, strict=True)
        for line, row in zip(lines, rows, strict=True):
            yield line, [cell.strip() for cell in row]


def _read_npy(path: Path) -> Iterator[tuple[int, list[str]]]:
    rows = read_table(path).X
    for line, row in enumerate(rows.tolist()):
        numbers = [str(int(v)) if v == int(v) else str(v) for v in row[:2]]
        yield line, [*numbers, *map(str, row[2:])]


def _to_grade(path: Path, line: int, cell: str) -> float:
    try:
        grade = float(cell)
    except ValueError:
        grade = math.nan
    if not math.isfinite(grade):
        raise ValueError(f"{path}:{line}: the grade must be a number, got {cell!r}.")
    return grade


def find_click_columns(
    names: Sequence[str], own: Sequence[str] = (), naming: Naming = name_argument
) -> dict[str, int]:
    """Return the place of each of :data:`CLICK_COLUMNS` among the names of a table.

    Parameters
    ----------
    names : sequence of str
        Names of columns, in any case and with usual endings, such as ``Query ID`` or ``rank``.
    own : sequence of str
        What a user calls the first four or all of :data:`CLICK_COLUMNS`, in this order.
    naming : callable
        How whoever calls names its settings, for messages.

    Returns
    -------
    places : dict of str to int
        Without ``impression`` if there is none.
    """
    if own:
        return _find_own_columns(names, own, naming)
    plain = [name.strip().lower().replace(" ", "_").replace("-", "_") for name in names]
    places = {
        column: next((plain.index(name) for name in known if name in plain), -1)
        for column, known in _CLICK_NAMES.items()
    }
    missing = [column for column in CLICK_COLUMNS[:4] if places[column] < 0]
    if missing:
        raise ValueError(
            f"A log of clicks must have the columns {', '.join(CLICK_COLUMNS[:4])}; there is no "
            f"{' and no '.join(missing)} among {', '.join(names)}."
            f"{_advise(missing, {c: names[at] for c, at in places.items() if at >= 0}, naming)}"
        )
    return {column: place for column, place in places.items() if place >= 0}


def _advise(missing: Sequence[str], found: dict[str, str], naming: Naming) -> str:
    """Return what to do about columns that a log does not have; others have these names."""
    in_python = naming is name_argument
    if missing == ["position", "clicked"]:
        other = "relevant=" if in_python else "RELEVANT, the third file"
        return f" If these are relevant pairs, pass them as {other}."
    if missing == ["position"]:
        return " It is where the document was shown, 1 for the first: export it too."
    if in_python:
        return " If yours have other names, rename them."
    wanted = [found.get(column, column.upper()) for column in CLICK_COLUMNS[:4]]
    own = naming("columns", ",".join([*wanted, *filter(None, [found.get("impression")])]))
    return f" If it has other names, pass {own}, with that name in place of each word in capitals."


def _find_own_columns(names: Sequence[str], own: Sequence[str], naming: Naming) -> dict[str, int]:
    """Return the places of columns that a user named."""
    if len(own) not in (4, 5) or len(set(own)) < len(own):
        raise ValueError(
            f"{naming('columns', '')} must name the query, the document, the position, the click "
            f"and perhaps the visit, in this order; got {', '.join(own)}."
        )
    missing = [name for name in own if name not in names]
    if missing:
        raise ValueError(
            f"There is no column {missing[0]!r} among {', '.join(names)}."
            f"{suggest_name(missing[0], names)}"
        )
    return dict(zip(CLICK_COLUMNS, map(names.index, own), strict=False))


def join_click_columns(logs: Sequence[dict[str, list[str]]]) -> dict[str, list[str]]:
    """Return the columns of several logs, one below the other.

    Where only some of them have impressions, those of the others are empty.

    Examples
    --------
    >>> from mdaml.io.beir import join_click_columns
    >>> join_click_columns([{"query": ["a"]}, {"query": ["b"], "impression": ["7"]}])
    {'query': ['a', 'b'], 'impression': ['', '7']}
    """
    names = dict.fromkeys(name for log in logs for name in log)
    return {
        name: [cell for log in logs for cell in log.get(name, [""] * len(log["query"]))]
        for name in names
    }


def read_click_columns(
    path: Path, own: Sequence[str] = (), naming: Naming = name_argument
) -> dict[str, list[str]]:
    """Read the columns of a log of clicks, as texts.

    Parameters
    ----------
    path : Path
        CSV, TSV or Parquet with a header, or JSON lines with these fields.
    own : sequence of str
        As for :func:`find_click_columns`.
    naming : callable
        How whoever calls names its settings, for messages.

    Returns
    -------
    columns : dict of str to list of str
        By the names of :data:`CLICK_COLUMNS`.
    """
    if check_suffix(path, CLICK_SUFFIXES) == ".jsonl":
        return _read_click_lines(path, own, naming)
    places: dict[str, int] = {}
    columns: dict[str, list[str]] = {}
    width = 0
    for lines, cells in read_texts(path):
        if not places:
            try:
                places = find_click_columns([column[0] for column in cells], own, naming)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
            columns, width = {name: [] for name in places}, len(cells)
            continue
        if len(cells) != width:
            raise ValueError(f"{path}:{lines[0]}: {width} cells are wanted, got {len(cells)}.")
        for name, place in places.items():
            columns[name] += [cell.strip() for cell in cells[place]]
    if not columns.get("query"):
        raise ValueError(f"{path}: there is no row in it.")
    return columns


def _read_click_lines(path: Path, own: Sequence[str], naming: Naming) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for line, item in _read_lines(path):
        names = list(item)
        try:
            places = find_click_columns(names, own, naming)
        except ValueError as error:
            raise ValueError(f"{path}:{line}: {error}") from None
        if not columns:
            columns = {name: [] for name in places}
        if set(places) != set(columns):
            raise ValueError(f"{path}:{line}: the fields are not those of the first line.")
        for name, place in places.items():
            value = item[names[place]]
            columns[name].append("" if value is None else str(value))
    if not columns:
        raise ValueError(f"{path}: there is no row in it.")
    return columns

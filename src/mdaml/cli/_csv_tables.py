"""Tables in CSV files: read fast, and once more line by line if something is wrong."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mdaml.cli._arrow import load_arrow
from mdaml.cli._columns import Block, Columns, Wanted, choose_columns
from mdaml.cli._output import CommandError

_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True)
class _Head:
    """The columns of a file, and how many of its lines come before the first row."""

    names: tuple[str, ...]
    n_lines: int
    is_header: bool


class CsvTable:
    """A CSV file: UTF-8, commas, a header unless all its cells are numbers."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.path = path
        self._head = _read_head(path)
        self.columns = choose_columns(path, self._head.names, wanted, self._head.is_header)

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order, or refuse the file naming the line of what is wrong."""
        arrow, columns, head = load_arrow(), self.columns, self._head
        texts = [name for name in (columns.id, columns.labels) if name is not None]
        types = dict.fromkeys(columns.features, "float64") | dict.fromkeys(texts, "string")
        n_rows = 0
        try:
            reader = arrow.csv.open_csv(
                self.path,
                arrow.csv.ReadOptions(
                    column_names=head.names, skip_rows=head.n_lines, block_size=_BLOCK_BYTES
                ),
                convert_options=arrow.csv.ConvertOptions(
                    column_types=types, include_columns=list(types)
                ),
            )
            for batch in reader:
                if batch.num_rows:
                    n_rows += batch.num_rows
                    yield self._block(batch)
        except arrow.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):
                raise self._refusal(str(error)) from None
        if n_rows == 0:
            raise CommandError(f"{self.path}: there is a header, but no row under it.")

    def _block(self, batch: Any) -> Block:
        columns = self.columns
        X = np.empty((batch.num_rows, len(columns.features)))
        for place, name in enumerate(columns.features):
            X[:, place] = batch.column(name).to_numpy(zero_copy_only=False)  # null becomes NaN
        if not np.isfinite(X).all():
            raise self._refusal("there are values missing, or not finite.")
        ids, labels = (_texts(batch, name) for name in (columns.id, columns.labels))
        if ids is not None and not all(ids):
            raise self._refusal("there are rows without an id.")
        return Block(X, ids, labels)

    def place(self, row: int) -> str:
        """Return file and line of a row."""
        with _opened(self.path) as file:
            for number, (line, _) in enumerate(_rows(self.path, file, self._head)):
                if number == row:
                    return f"{self.path}:{line}"
        return str(self.path)

    def _refusal(self, reason: str) -> CommandError:
        """Find the first line that is wrong; if none is, give the reason of the fast reader."""
        fault = find_fault(self.path, self._head, self.columns)
        return CommandError(fault or f"{self.path}: it cannot be read: {reason}")


def find_fault(path: Path, head: _Head, columns: Columns) -> str | None:
    """Return what is wrong with the first line that is wrong, and where."""
    places = {name: head.names.index(name) for name in columns.features}
    id_place = None if columns.id is None else head.names.index(columns.id)
    width, first = len(head.names), None
    with _opened(path) as file:
        for line, row in _rows(path, file, head):
            if len(row) != width:
                return f"{path}:{line}: {_count(len(row))}, but {_count(width)} are wanted."
            first = first or row
            for name, place in places.items():
                if not _is_finite(row[place]):
                    hint = _hint(head, columns, name, first[place])
                    return f"{path}:{line}: column {name!r} {_said(row[place])}.{hint}"
            if id_place is not None and not row[id_place].strip():
                return f"{path}:{line}: the id, column {columns.id!r}, is empty."
    return None


def _hint(head: _Head, columns: Columns, name: str, first: str) -> str:
    """Say what to do with a column that holds no numbers, rather than one wrong number."""
    if columns.by_model or _is_finite(first) or not first.strip():
        return ""
    hint = f" If it names the rows, say --id {name}; if it is their class, --labels {name}; "
    hint += f"--drop {name} leaves it out."
    if any(map(_is_finite, head.names)):
        hint += " Line 1 is taken for the header; if it is none, add one."
    return hint


def _said(cell: str) -> str:
    if not cell.strip():
        return "is empty"
    if cell.strip().lower() in {"na", "n/a", "nan", "null", "none"}:
        return f"is {cell.strip()!r}: fill in what is missing, or leave the row out"
    return f"holds {cell.strip()!r}, not a finite number"


def _count(n_cells: int) -> str:
    return "1 cell" if n_cells == 1 else f"{n_cells} cells"


def _is_finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def _texts(batch: Any, name: str | None) -> Any:
    if name is None:
        return None
    return (
        load_arrow().compute.utf8_trim_whitespace(batch.column(name)).to_numpy(zero_copy_only=False)
    )


def _read_head(path: Path) -> _Head:
    with _opened(path) as file:
        try:
            for n_before, line in enumerate(file):
                if line.strip() and not line.startswith("#"):
                    cells = [cell.strip() for cell in next(csv.reader([line]))]
                    return _head_of(path, cells, n_before)
        except UnicodeDecodeError:
            raise _encoding_error(path) from None
    raise CommandError(f"{path}: the file is empty.")


def _head_of(path: Path, cells: list[str], n_before: int) -> _Head:
    if len(cells) == 1 and any(mark in cells[0] for mark in ";\t"):
        mark = "semicolons" if ";" in cells[0] else "tabs"
        raise CommandError(f"{path}:{n_before + 1}: cells are separated by {mark}; use commas.")
    # Data frames without names write 0,1,2,... for a header.
    numbered = cells == [str(n) for n in range(len(cells))]
    if all(map(_is_finite, cells)) and not (numbered and len(cells) > 1):
        return _Head(tuple(f"x{n}" for n in range(len(cells))), n_before, False)
    unnamed = [place for place, cell in enumerate(cells) if not cell and place]
    if unnamed:
        raise CommandError(
            f"{path}:{n_before + 1}: column {unnamed[0] + 1} of the header has no name. Name it."
        )
    return _Head(tuple(cells), n_before + 1, True)


def _opened(path: Path) -> TextIO:
    return path.open(encoding="utf-8-sig", newline="")


def _rows(path: Path, file: TextIO, head: _Head) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line on which each row begins, and its cells."""
    for _ in range(head.n_lines):
        next(file)
    rows = csv.reader((line.replace("\0", "?") for line in file), strict=True)
    line = head.n_lines + 1
    try:
        for row in rows:
            if row:
                yield line, row
            line = head.n_lines + rows.line_num + 1
    except csv.Error as error:
        raise CommandError(f"{path}:{line}: {error}. Is a quotation mark not closed?") from None
    except UnicodeDecodeError:
        raise _encoding_error(path) from None


def _encoding_error(path: Path) -> CommandError:
    """Find the line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return CommandError(f"{path}:{number}: this is not UTF-8 text. Save it as UTF-8.")
    return CommandError(f"{path}: it is not UTF-8 text. Save it as UTF-8.")

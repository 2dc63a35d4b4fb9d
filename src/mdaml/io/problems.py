"""What is wrong with a table: every column in one report, with places and remedies."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mdaml._typing import FloatArray
from mdaml.io.columns import CONTINUOUS, Table, Wanted
from mdaml.io.formats import get_suffix, is_date, is_fraction, is_number
from mdaml.io.messages import join_names, shorten
from mdaml.io.row_names import FEW, NEARLY, find_counter
from mdaml.io.texts import COLUMN_SUFFIXES, read_texts

_MAX_SHOWN = 12  # columns
_MAX_ROWS = 1_000_000  # looked at after the first problem
_FEW_MARKS = 3  # different texts in a column of numbers that may all mean an empty cell
_MARK = re.compile(r"(?![+-]?inf)\D{1,20}", re.I)
_WORDS = {
    "text": "Text",
    "dates": "Dates",
    "empty": "Empty cells",
    "again": "Repeated ids",
    "fraction": "Labels",
    "mark": "Text among numbers",
}


@dataclass
class _WrongCells:
    """Cells of one column that are wrong in one way."""

    name: str
    kind: str
    line: int  # of the first
    cell: str
    n: int = 0
    values: set[str] = field(default_factory=set)
    before: int = 0  # the line of the same id

    def add(self, cell: str) -> None:
        """Count one more such cell."""
        self.n += 1
        if len(self.values) <= FEW or self.kind == "text":
            self.values.add(cell)


def report_problems(
    table: Table, names: Sequence[str], wanted: Wanted, n_skipped: int = 0, decimal: str = "."
) -> str | None:
    """Return all that is wrong with a table, one problem a line, with remedies in the end.

    Parameters
    ----------
    table : Table
        Its columns and how they are prepared; no rows.
    names : sequence of str
        All columns of the file.
    wanted : Wanted
        What was to be read.
    n_skipped : int
        Lines before the first row.
    decimal : str
        The decimal mark.
    """
    lines, found, n_rows = _scan(table, names, wanted, n_skipped, decimal)
    found.sort(key=lambda each: (each.line, names.index(each.name)))
    of_cells = [_describe(each, table, n_rows) for each in found[:_MAX_SHOWN]]
    n_of_cells, lines = len(of_cells), lines + of_cells
    n_problems = len(lines) + max(0, len(found) - _MAX_SHOWN)
    if n_problems > len(lines):
        lines.append(f"… and {n_problems - len(lines)} more problems")
    if not lines:
        return None
    is_fitted = wanted.known is not None
    remedies = list(_list_remedies(found, table, names, is_fitted))
    counter = None if is_fitted else _find_counter(table, names, wanted, n_skipped)
    if counter is not None:
        ask = table.naming("id_column", counter.name)
        about = f"column {counter.name!r} holds whole numbers that nearly all differ"
        remedies.append(f"Names of rows: {about}; pass {ask} if it names the rows.")
    if len(lines) == 1 and len(remedies) <= 1:
        advice = "".join(remedies).partition(": ")[2]
        return f"{lines[0]}. {advice[:1].upper()}{advice[1:]}".rstrip()
    n_other = len(lines) - n_of_cells
    proposal = "" if is_fitted else _propose(found, table, n_rows, n_other, counter)
    return "\n".join([*lines, *remedies, f"{table.path}: {n_problems} problems.{proposal}"])


def locate(path: Path, line: int) -> str:
    """Return a place: the line of a text file, the row of a sheet, or the row of an array."""
    if get_suffix(path, COLUMN_SUFFIXES):
        return f"{path}: row {line - 1} (from 0)"
    if get_suffix(path, (".xlsx",)):
        return f"{path}: row {line} of the sheet"
    return f"{path}:{line}"


def _scan(
    table: Table, names: Sequence[str], wanted: Wanted, n_skipped: int, decimal: str
) -> tuple[list[str], list[_WrongCells], int]:
    """Return problems of lines and ids, those of columns, and the number of rows."""
    found: dict[tuple[str, str], _WrongCells] = {}
    widths, first_ids, n_rows = list[tuple[int, int]](), dict[str, int](), 0
    problems = dict[str, str]()
    for lines, columns in read_texts(table.path, wanted.text_encoding, wanted.naming):
        if lines[0] <= n_skipped:
            continue
        if len(columns) != len(names):
            widths.append((lines[0], len(columns)))
            continue
        n_rows += len(lines)
        cells = dict(zip(names, columns, strict=True))
        if table.id_column is not None:
            ids = [cell.strip() for cell in cells[table.id_column]]
            _check_ids(table, lines, ids, problems)
            if wanted.distinct_ids and wanted.duplicates == "error":
                _find_repeats(table.id_column, lines, ids, first_ids, found)
        for name, kind, line, cell in _find_wrong_cells(table, lines, cells, decimal):
            found.setdefault((name, kind), _WrongCells(name, kind, line, cell)).add(cell)
        if n_rows > _MAX_ROWS:
            break
    of_lines = []
    if widths:
        line, width = widths[0]
        cells_there = "1 cell" if width == 1 else f"{width} cells"
        more = f" ({len(widths)} such lines)" if len(widths) > 1 else ""
        what = f"the line has {cells_there}, but {len(names)} are wanted{more}"
        of_lines.append(f"{locate(table.path, line)}: {what}")
    for wrong in found.values():
        if wrong.kind == "text" and wrong.n <= n_rows / 2:
            # A column of numbers, with some other cells: perhaps a word for nothing.
            few = len(wrong.values) <= _FEW_MARKS
            is_mark = few and all(map(_MARK.fullmatch, wrong.values))
            wrong.kind = "mark" if is_mark else "wrong"
    return [*of_lines, *problems.values()], list(found.values()), n_rows


def _check_ids(
    table: Table, lines: Sequence[int], ids: Sequence[str], problems: dict[str, str]
) -> None:
    """Note the first id that is empty."""
    for line, name in zip(lines, ids, strict=True):
        if not name:
            where = locate(table.path, line)
            problems.setdefault("empty", f"{where}: the id, column {table.id_column!r}, is empty")


def _find_repeats(
    column: str,
    lines: Sequence[int],
    ids: Sequence[str],
    first: dict[str, int],
    found: dict[tuple[str, str], _WrongCells],
) -> None:
    """Note all ids that were there before."""
    for line, name in zip(lines, ids, strict=True):
        if name and (before := first.setdefault(name, line)) != line:
            new = _WrongCells(column, "again", line, name, before=before)
            found.setdefault((column, "again"), new).add(name)


def _find_wrong_cells(
    table: Table, lines: Sequence[int], cells: dict[str, list[str]], decimal: str
) -> Iterator[tuple[str, str, int, str]]:
    """Yield column, kind of problem, line and cell for each cell that cannot be used."""
    assert table.preparation is not None
    rule, fills, na = (getattr(table.preparation, name) for name in ("missing", "fills", "na"))
    words = ("true", "false") if get_suffix(table.path, COLUMN_SUFFIXES) else ()
    for name in (*table.features, *table.preparation.categories):
        by_text = name in table.preparation.categories
        if not by_text and _are_numbers(cells[name], decimal):
            continue
        for line, raw in zip(lines, cells[name], strict=True):
            cell = raw.strip()
            if cell in na:
                if rule == "error" or (rule == "fill" and name not in fills):
                    yield name, "empty", line, cell
            elif not by_text and not is_number(cell, decimal) and cell not in words:
                yield name, "dates" if is_date(cell) else "text", line, cell
    if table.label_column is not None:
        labels = cells[table.label_column]
        if all(is_number(cell, decimal) or cell.strip() in na for cell in labels):
            for line, cell in zip(lines, labels, strict=True):
                if is_fraction(cell):
                    yield table.label_column, "fraction", line, cell


def _are_numbers(cells: Sequence[str], decimal: str) -> bool:
    """Return whether all cells hold finite numbers, faster than one by one."""
    try:
        numbers = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return False
    text = "".join(cells)
    is_plain = decimal == "." and "_" not in text and text.isascii()
    return is_plain and bool(np.isfinite(numbers).all())


def _quote(cell: str) -> str:
    """Return a cell for a message, at most so long that people read it."""
    return repr(shorten(cell, 60))


def _describe(wrong: _WrongCells, table: Table, n_rows: int) -> str:
    where = f"{locate(table.path, wrong.line)}: column {wrong.name!r}"
    count = f" ({wrong.n} of {n_rows} rows)" if wrong.n > 1 else ""
    if wrong.kind == "empty":
        what = f": {wrong.cell!r} counts as an empty cell" if wrong.cell else ": empty cell"
        return f"{where}{what}{count}"
    if wrong.kind == "again":
        again = (
            f"the id {_quote(wrong.cell)} was there before, at {locate(table.path, wrong.before)}"
        )
        few = ", ".join(map(_quote, sorted(wrong.values)[:5]))
        more = f" ({wrong.n} rows repeat an id: {few}{' …' * (len(wrong.values) > 5)})"
        return f"{locate(table.path, wrong.line)}: {again}. Ids must differ{more * (wrong.n > 1)}"
    if wrong.kind == "fraction":
        return f"{where} (the labels) holds continuous values, such as {wrong.cell}{count}"
    if wrong.kind in ("dates", "text"):
        return f"{where} holds {wrong.kind}, such as {_quote(wrong.cell)}{count}"
    advice = ""
    if re.fullmatch(r"[+-]?[\d.]*,\d+|[+-]?\d{1,3}(,\d{3})+\.?\d*", wrong.cell):
        advice = ": write numbers with a decimal point, and without marks between thousands"
    return f"{where} holds {_quote(wrong.cell)}, not a finite number{count}{advice}"


def _list_remedies(
    found: Sequence[_WrongCells], table: Table, names: Sequence[str], is_fitted: bool
) -> Iterator[str]:
    """Yield what can be done, once for each kind of problem."""
    for kind, word in _WORDS.items():
        columns = [each.name for each in found if each.kind == kind]
        if columns and kind == "mark":
            texts = _join_marks(found)
            option = table.naming("na", texts)
            yield f"{word}: if {texts} means an empty cell, pass {option}; else correct it."
        elif columns:
            name = columns[0] if len(columns) == 1 else "COLUMN"
            yield f"{word}: {_find_remedy(kind, name, table, names, is_fitted)}"


def _join_marks(found: Sequence[_WrongCells]) -> str:
    """Return the texts that may mean an empty cell, separated by commas."""
    marks = (each.values for each in found if each.kind == "mark")
    return join_names(sorted(set[str]().union(*marks)))


def _find_remedy(kind: str, name: str, table: Table, names: Sequence[str], is_fitted: bool) -> str:
    ask, listed = table.naming, join_names([name])
    if kind == "fraction":
        return CONTINUOUS
    if kind == "again":
        keep = ask("duplicates", "drop")
        return f"correct them, or pass {keep} to keep only the first row of each id."
    if kind == "empty" and is_fitted:
        again = ask("missing", "")
        return f"the model was fitted without any; fill them in, or fit it again with {again}."
    if kind == "empty":
        return (
            f"fill them in, or pass {ask('missing', 'median')} to fill in the median of the "
            f"column, or {ask('missing', 'drop')} to leave such rows out."
        )
    if is_fitted:
        return "the model was fitted to numbers there."
    if kind == "dates":
        return (
            "dates are not numbers. Add a column such as days since the first date, and pass "
            f"{ask('drop', listed)}."
        )
    header = ""
    if any(is_number(each) for each in names):
        header = " Line 1 is taken for the header; if it is none, add one."
    return (
        f"if it names the rows, pass {ask('id_column', name)}; if it is their class, "
        f"{ask('label_column', name)}; if it holds categories, {ask('categorical', listed)}; "
        f"{ask('drop', listed)} leaves it out.{header}"
    )


def _find_counter(
    table: Table, names: Sequence[str], wanted: Wanted, n_skipped: int
) -> _WrongCells | None:
    """Return the column of whole numbers that probably names the rows, by the first rows."""
    assert table.preparation is not None
    blocks = read_texts(table.path, wanted.text_encoding, wanted.naming)
    for lines, columns in blocks:
        if lines[0] <= n_skipped or len(columns) != len(names):
            continue
        cells = dict(zip(names, columns, strict=True))
        columns_of_numbers = [
            _to_numbers(cells[name], table.preparation.na) for name in table.features
        ]
        name = find_counter(table, np.array(columns_of_numbers).T)
        if name is not None:
            ids = [cell.strip() for cell in cells[name]]
            return _WrongCells(name, "counter", lines[0], ids[0], len(ids), set(ids))
        break
    return None


def _to_numbers(cells: Sequence[str], na: Sequence[str]) -> FloatArray:
    """Return numbers, NaN where nothing is; NaN alone if there are others than whole ones."""
    try:
        return np.array([np.nan if cell.strip() in na else float(cell) for cell in cells])
    except ValueError:  # such as a decimal comma
        return np.full(len(cells), np.nan)


def _propose(
    found: Sequence[_WrongCells],
    table: Table,
    n_rows: int,
    n_other: int,
    counter: _WrongCells | None,
) -> str:
    """Return settings with which the table can be read, or with which the rest of it can."""
    n_gaps = {each.name: each.n for each in found if each.kind == "empty"}
    texts = [each for each in found if each.kind == "text"]
    categories = [
        each.name
        for each in texts
        # At least two, few, and no numbers among them, of which there may be many more.
        if 1 < len(each.values) <= FEW and each.n + n_gaps.get(each.name, 0) == n_rows
    ]
    named = None if table.id_column else _find_names(texts, n_rows)
    dropped = [each.name for each in found if each.kind == "dates"]
    if named is None or any(" " in value for value in named.values):  # of sentences, not of ids
        named = counter or named
    elif counter is not None:
        dropped.append(counter.name)
    dropped += [each.name for each in texts if each.name not in categories and each is not named]
    dropped += [name for name, n in n_gaps.items() if n == n_rows]
    settings = [] if named is None else [table.naming("id_column", named.name)]
    settings += [
        table.naming(setting, join_names(dict.fromkeys(names)))
        for setting, names in (("categorical", categories), ("drop", dropped))
        if names
    ]
    preparation, marks = table.preparation, _join_marks(found)
    if marks:
        settings.append(table.naming("na", marks))
    is_refused = preparation is not None and preparation.missing == "error"
    if (marks and is_refused) or set(n_gaps) - set(dropped):
        settings.append(table.naming("missing", "median"))
    repeats = named is not None and len(named.values) < named.n
    if repeats or any(each.kind == "again" for each in found):
        settings.append(table.naming("duplicates", "drop"))
    used = {*dropped} if named is None else {*dropped, named.name}
    if not settings or (preparation is not None and set(preparation.columns) <= used):
        return ""
    is_whole = not n_other and not any(each.kind in ("wrong", "fraction") for each in found)
    when = (
        "With these options it" if is_whole else "Correct the others; with these options the rest"
    )
    return f" {when} can be read: {' '.join(settings)}"


def _find_names(texts: Sequence[_WrongCells], n_rows: int) -> _WrongCells | None:
    """Return the column of text that names the rows: the one with the most different values."""
    most = max(texts, key=lambda each: len(each.values), default=None)
    if most is None or most.n < n_rows or len(most.values) <= max(FEW, NEARLY * n_rows):
        return None
    return most

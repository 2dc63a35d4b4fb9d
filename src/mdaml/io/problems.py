"""What is wrong with a table: every column in one report, with places and remedies.

Messages name the options of the command line, by which people choose the columns.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from mdaml.io.formats import get_suffix
from mdaml.io.messages import shorten
from mdaml.io.preparation import MISSING
from mdaml.io.texts import COLUMN_SUFFIXES, read_texts

_DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([ T].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}([ T].*)?")
_MAX_SHOWN = 12  # columns
_MAX_ROWS = 1_000_000  # looked at after the first problem
_FEW = 20  # values that a column of categories may have to be proposed as one
CONTINUOUS = (
    "labels are classes. Cut the values into classes, or learn from comparisons: --triplets."
)
_WORDS = {"text": "Text", "dates": "Dates", "empty": "Empty cells", "fraction": "Labels"}


@dataclass(frozen=True)
class Reading:
    """How the cells of a table are to be read, as far as problems depend on it.

    Attributes
    ----------
    path : Path
        The file.
    names : sequence of str
        Its columns.
    numeric, categorical : sequence of str
        Columns that must hold numbers, and categories.
    id_column, label_column : str or None
        Columns of ids and labels.
    n_skipped : int
        Lines before the first row.
    decimal : str
        The decimal mark.
    may_be_empty : bool
        Whether cells may be empty.
    is_fitted : bool
        Whether a model has chosen the columns already.
    distinct_ids : bool
        Whether ids must differ.
    """

    path: Path
    names: Sequence[str]
    numeric: Sequence[str]
    categorical: Sequence[str] = ()
    id_column: str | None = None
    label_column: str | None = None
    n_skipped: int = 0
    decimal: str = "."
    may_be_empty: bool = False
    is_fitted: bool = False
    distinct_ids: bool = False


@dataclass
class _Trouble:
    """Cells of one column that are wrong in one way."""

    name: str
    kind: str
    line: int
    cell: str
    n: int = 0
    values: set[str] = field(default_factory=set)


def report_problems(reading: Reading) -> str | None:
    """Return all that is wrong with a table, one problem a line, with remedies in the end."""
    lines, troubles, n_rows = _scan(reading)
    troubles = sorted(troubles, key=lambda each: (each.line, reading.names.index(each.name)))
    shown = troubles[:_MAX_SHOWN]
    lines += [_describe(each, reading, n_rows) for each in shown]
    if len(troubles) > len(shown):
        lines.append(f"… and {len(troubles) - len(shown)} more problems")
    if not lines:
        return None
    remedies = list(_list_remedies(troubles, reading))
    if len(lines) == 1 and len(remedies) <= 1:
        advice = "".join(remedies).partition(": ")[2]
        return f"{lines[0]}. {advice[:1].upper()}{advice[1:]}".rstrip()
    n = len(lines) - (len(troubles) > len(shown)) + len(troubles) - len(shown)
    proposal = "" if reading.is_fitted else _propose(troubles)
    return "\n".join([*lines, *remedies, f"{reading.path}: {n} problems.{proposal}"])


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a question for what was meant, to be added to a message, or nothing."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


def _quote(cell: str) -> str:
    """Return a cell for a message, at most so long that people read it."""
    return repr(shorten(cell, 60))


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell holds a finite number."""
    if decimal == ",":
        cell = cell.replace(".", "_").replace(",", ".")
    try:
        # Python knows the digits of all scripts, the readers of tables those of ASCII.
        return math.isfinite(float(cell)) and "_" not in cell and cell.isascii()
    except ValueError:
        return False


def is_date(cell: str) -> bool:
    """Return whether a cell looks like a date."""
    return _DATE.fullmatch(cell) is not None


def locate(path: Path, line: int) -> str:
    """Return a place: the line of a text file, the row of a sheet, or the row of an array."""
    if get_suffix(path, COLUMN_SUFFIXES):
        return f"{path}: row {line - 1} (from 0)"
    if get_suffix(path, (".xlsx",)):
        return f"{path}: row {line} of the sheet"
    return f"{path}:{line}"


def _scan(reading: Reading) -> tuple[list[str], list[_Trouble], int]:
    """Return problems of lines and ids, those of columns, and the number of rows."""
    places = {name: place for place, name in enumerate(reading.names)}
    found: dict[tuple[str, str], _Trouble] = {}
    widths, ids, n_rows = list[tuple[int, int]](), _Ids(reading), 0
    for lines, columns in read_texts(reading.path):
        if lines[0] <= reading.n_skipped:
            continue
        if len(columns) != len(places):
            widths.append((lines[0], len(columns)))
            continue
        n_rows += len(lines)
        ids.check(lines, columns, places)
        for name in (*reading.numeric, *reading.categorical):
            _check_cells(reading, name, lines, columns[places[name]], found)
        if reading.label_column is not None:
            _check_labels(reading, lines, columns[places[reading.label_column]], found)
        if n_rows > _MAX_ROWS:
            break
    problems = []
    if widths:
        line, width = widths[0]
        cells = "1 cell" if width == 1 else f"{width} cells"
        more = f" ({len(widths)} such lines)" if len(widths) > 1 else ""
        where = locate(reading.path, line)
        problems.append(f"{where}: the line has {cells}, but {len(places)} are wanted{more}")
    troubles = list(found.values())
    for trouble in troubles:
        if trouble.kind == "text" and trouble.n <= n_rows / 2:
            trouble.kind = "wrong"  # a column of numbers, with some other cells
    return problems + ids.problems, troubles, n_rows


def _check_cells(
    reading: Reading,
    name: str,
    lines: Sequence[int],
    cells: Sequence[str],
    found: dict[tuple[str, str], _Trouble],
) -> None:
    by_text = name in reading.categorical
    if not by_text and _are_numbers(cells, reading.decimal):
        return
    words = ("true", "false") if get_suffix(reading.path, COLUMN_SUFFIXES) else ()
    for line, raw in zip(lines, cells, strict=True):
        cell = raw.strip()
        if (not by_text and is_number(cell, reading.decimal)) or cell in words:
            continue
        if cell in MISSING:
            kind = "empty"
            if reading.may_be_empty:
                continue
        elif by_text:
            continue
        else:
            kind = "dates" if is_date(cell) else "text"
        trouble = found.setdefault((name, kind), _Trouble(name, kind, line, cell))
        trouble.n += 1
        if len(trouble.values) <= _FEW:
            trouble.values.add(cell)


def _are_numbers(cells: Sequence[str], decimal: str) -> bool:
    """Return whether all cells hold finite numbers, faster than one by one."""
    try:
        numbers = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return False
    text = "".join(cells)
    is_plain = decimal == "." and "_" not in text and text.isascii()
    return is_plain and bool(np.isfinite(numbers).all())


def _check_labels(
    reading: Reading,
    lines: Sequence[int],
    cells: Sequence[str],
    found: dict[tuple[str, str], _Trouble],
) -> None:
    name = str(reading.label_column)
    if all(is_number(cell, reading.decimal) or cell.strip() in MISSING for cell in cells):
        for line, cell in zip(lines, cells, strict=True):
            if is_fraction(cell):
                found.setdefault((name, "fraction"), _Trouble(name, "fraction", line, cell)).n += 1


def is_fraction(cell: str) -> bool:
    """Return whether a label is a number, but not a whole one."""
    try:
        return not float(cell.replace(",", ".")).is_integer()
    except (ValueError, OverflowError):
        return False


class _Ids:
    """Finds the first id that is empty, and the first that was there before."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._first: dict[str, int] = {}
        self._found: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        return list(self._found.values())

    def check(self, lines: Sequence[int], columns: list[list[str]], places: dict[str, int]) -> None:
        name = self._reading.id_column
        if name is None:
            return
        path = self._reading.path
        for line, raw in zip(lines, columns[places[name]], strict=True):
            cell = raw.strip()
            if not cell:
                text = f"{locate(path, line)}: the id, column {name!r}, is empty"
                self._found.setdefault("empty", text)
            elif (
                self._reading.distinct_ids and (first := self._first.setdefault(cell, line)) != line
            ):
                text = (
                    f"{locate(path, line)}: the id {_quote(cell)} was there before, at "
                    f"{locate(path, first)}. Ids must differ"
                )
                self._found.setdefault("again", text)


def _describe(trouble: _Trouble, reading: Reading, n_rows: int) -> str:
    where = f"{locate(reading.path, trouble.line)}: column {trouble.name!r}"
    count = f" ({trouble.n} of {n_rows} rows)" if trouble.n > 1 else ""
    if trouble.kind == "empty":
        what = f": {trouble.cell!r} counts as an empty cell" if trouble.cell else ": empty cell"
        return f"{where}{what}{count}"
    if trouble.kind == "fraction":
        return f"{where} (--labels) holds continuous values, such as {trouble.cell}{count}"
    if trouble.kind == "dates":
        return f"{where} holds dates, such as {_quote(trouble.cell)}{count}"
    if trouble.kind == "text":
        return f"{where} holds text, such as {_quote(trouble.cell)}{count}"
    advice = ""
    if re.fullmatch(r"[+-]?[\d.]*,\d+|[+-]?\d{1,3}(,\d{3})+\.?\d*", trouble.cell):
        advice = ": write numbers with a decimal point, and without marks between thousands"
    return f"{where} holds {_quote(trouble.cell)}, not a finite number{count}{advice}"


def _list_remedies(troubles: Sequence[_Trouble], reading: Reading) -> Iterator[str]:
    """Yield what can be done, once for each kind of problem."""
    by_kind = {kind: [t for t in troubles if t.kind == kind] for kind in _WORDS}
    for kind, those in by_kind.items():
        if not those:
            continue
        name = those[0].name if len(those) == 1 else "COLUMN"
        if kind == "empty" and reading.is_fitted:
            advice = (
                "the model was fitted without any; fill them in, or fit it again with --missing."
            )
        elif kind == "empty":
            advice = "fill them in, or pass --missing median to fill in the median of the column, "
            advice += "or --missing drop to leave such rows out."
        elif kind == "fraction":
            advice = CONTINUOUS
        elif reading.is_fitted:
            advice = "the model was fitted to numbers there."
        elif kind == "dates":
            advice = (
                "dates are not numbers. Add a column such as days since the first date, and pass "
            )
            advice += f"--drop {name}."
        else:
            advice = (
                f"if it names the rows, pass --id {name}; if it is their class, --labels {name}; "
            )
            advice += f"if it holds categories, --categorical {name}; --drop {name} leaves it out."
            if any(is_number(each) for each in reading.names):
                advice += " Line 1 is taken for the header; if it is none, add one."
        yield f"{_WORDS[kind]}: {advice}"


def _propose(troubles: Sequence[_Trouble]) -> str:
    """Return options with which the table can be read."""
    categories = [t.name for t in troubles if t.kind == "text" and len(t.values) <= _FEW]
    dropped = [t.name for t in troubles if t.kind == "dates"]
    dropped += [t.name for t in troubles if t.kind == "text" and len(t.values) > _FEW]
    options = [
        f"--{option} {','.join(dict.fromkeys(names))}"
        for option, names in (("categorical", categories), ("drop", dropped))
        if names
    ]
    if any(t.kind == "empty" for t in troubles):
        options.append("--missing median")
    return f" With these options it can be read: {' '.join(options)}" if options else ""

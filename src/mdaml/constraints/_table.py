"""Lines of a file of constraints: its columns, and the meaning of each line."""

import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import IntArray
from mdaml.constraints.checks import COLUMNS, MOST_POINTS, compares_nothing

KINDS = ("triplet", "pair", "quadruplet")
MEMBERS = ("a", "b", "c", "d")
_TRIPLET, _PAIR, _QUADRUPLET = range(3)
_WIDTH = np.array([3, 2, 4])
_LAYOUTS = {("a", "b", "c"): _TRIPLET, ("a", "b", "label"): _PAIR, MEMBERS: _QUADRUPLET}
_ADVICE = (
    "Columns are a,b,c (triplets), a,b,label (pairs) or a,b,c,d (quadruplets), or "
    "kind,a,b,c,d,label for a mixture; a column weight may be added to each, and columns of your "
    "own, such as who."
)

_ROW_NUMBERS = re.compile("[0-9 ,]*")  # integers that are parsed faster than looked up
_BAD, _EMPTY = -1, -2  # in place of a row number; of a label, 0 and _EMPTY
_LABELS = {"1": 1, "-1": -1, "0": -1, "similar": 1, "dissimilar": -1, "same": 1, "different": -1}


@dataclass(frozen=True)
class Problem:
    """A line of a file that is no constraint.

    Attributes
    ----------
    line : int
        Its number, from 1: the line of a CSV file, the row of a Parquet file, the place in an NPZ
        file in the order triplets, pairs, quadruplets.
    text : str
        Its cells, separated by commas.
    reason : str
        What is wrong with it.

    Examples
    --------
    >>> from mdaml.constraints import Problem
    >>> print(Problem(7, "3,3,5", "a and b are the same point, '3'"))
    line 7: a and b are the same point, '3' (3,3,5)
    """

    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        """Return line number, reason and text."""
        return f"line {self.line}: {self.reason} ({self.text})"


class _Lookup(dict[str, Any]):
    """The meaning of each text, found once: points occur in many lines."""

    def __init__(self, known: Iterable[tuple[str, Any]], parse: Callable[[str], Any]) -> None:
        super().__init__(known)
        self._parse = parse

    def __missing__(self, text: str) -> Any:
        self[text] = self._parse(text)
        return self[text]

    def get_all(self, cells: Sequence[str], dtype: Any = np.int64) -> npt.NDArray[Any]:
        return np.fromiter(map(self.__getitem__, cells), dtype, len(cells))


class LineReader:
    """Turns lines of cells into arrays, block by block, and collects the lines that are wrong."""

    def __init__(self, path: Path, ids: npt.NDArray[Any] | None, n_points: int | None) -> None:
        self.problems: list[Problem] = []
        self.n_lines = 0
        self._path, self._n_points, self._has_ids = path, n_points, ids is not None
        self._columns: Sequence[str] = ()
        self._texts: dict[str, str] = {}  # one string for all cells that say the same
        names = [] if ids is None else map(str, ids.tolist())
        rows = chain(zip(names, range(MOST_POINTS), strict=False), [("", _EMPTY)])
        self._points = _Lookup(rows, self._parse_point)
        self._kinds = _Lookup([], _parse_kind)
        self._labels = _Lookup([("", _EMPTY)], lambda text: _LABELS.get(_strip(text).lower(), 0))
        self._weights = _Lookup([("", 1.0)], _parse_weight)

    def read(self, blocks: Iterator[tuple[Sequence[int], list[list[str]]]]) -> dict[str, Any]:
        """Return the parts of a :class:`Constraints` that lines hold; refuse a file with none.

        Blocks are those of :func:`mdaml.io.texts.read_texts`.
        """
        lines, first = next(blocks)
        columns = self._find_columns([cell for (cell,) in first])
        if columns is None:
            columns = self._find_columns_without_header([cell for (cell,) in first], lines[0])
            blocks = chain([(lines, first)], blocks)
        self._columns = columns
        parsed = starmap(self._parse_block, blocks)  # frees a block before the next is read
        found = [block for block in parsed if block is not None]
        self.problems.sort(key=lambda problem: problem.line)
        if not self.n_lines:
            raise ValueError(f"{self._path}: there is no constraint in this file.")
        if self.n_lines == len(self.problems):
            raise ValueError(
                f"{self._path}: none of {self.n_lines} lines is a constraint; {self.problems[0]}."
            )
        if {_strip(text) for text in self._labels} >= {"0", "-1"}:
            raise ValueError(
                f"{self._path}: the labels 0 and -1 both occur: does 0 mean dissimilar, or not "
                "known? Use 1 and -1, or 1 and 0, and leave out pairs that are not known."
            )
        kind, members, label, weight, *others = map(np.concatenate, zip(*found, strict=True))
        parts: dict[str, Any] = {
            f"{name}s": members[kind == k, : _WIDTH[k]] for k, name in enumerate(KINDS)
        }
        order = np.argsort(kind, kind="stable")
        own = dict(zip(self._own_columns(), (column[order] for column in others), strict=True))
        return parts | {
            "pair_labels": label[kind == _PAIR],
            "weights": weight[order],
            "columns": own,
        }

    def _own_columns(self) -> list[str]:
        """Return the columns that say something else than the constraints."""
        return [name for name in self._columns if name not in COLUMNS]

    def _find_columns(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Return the columns that a header names; None if it is no header."""
        columns = tuple(_name_column(name, place) for place, name in enumerate(names, 1))
        if not {"a", "b"} <= set(columns):
            return None
        if len(set(columns)) < len(columns):
            raise ValueError(f"{self._path}: the header has a column twice. {_ADVICE}")
        for name in set(columns) - set(COLUMNS):
            meant = difflib.get_close_matches(name.lower(), ("kind", "label", "weight"), 1, 0.75)
            if meant:
                raise ValueError(
                    f"{self._path}: the header has the unknown column {name!r}. Did you mean "
                    f"{meant[0]!r}? If not, give it a name that is less like it."
                )
        if "kind" not in columns and _kind_of(columns) is None:
            what = f"the header {','.join(columns)} fits no kind of constraint"
            raise ValueError(f"{self._path}: {what}. {_ADVICE}")
        return columns

    def _find_columns_without_header(self, row: Sequence[str], line: int) -> tuple[str, ...]:
        if line == 0:  # names of columns, which no file without a header has
            raise ValueError(f"{self._path}: there are no columns a and b, but {', '.join(row)}.")
        wrong = [cell for cell in row if self._points[cell] < 0]
        if wrong:
            raise ValueError(
                f"{self._path}: the first line, {','.join(row)}, is no header (a,b,c or a,b,label "
                f"or a,b,c,d) and holds no constraint: {self._describe_point(wrong[0])}."
            )
        if len(row) not in (3, 4):
            advice = " Pairs need a header: a,b,label." if len(row) == 2 else ""
            raise ValueError(
                f"{self._path}: without a header, lines hold three points (a triplet) or four (a "
                f"quadruplet), got {len(row)}.{advice}"
            )
        return MEMBERS[: len(row)]

    def _parse_block(
        self, lines: Sequence[int], columns: Sequence[Sequence[str]]
    ) -> tuple[npt.NDArray[Any], ...] | None:
        """Return kind, members, label, weight and own columns of lines that are constraints."""
        if len(columns) != len(self._columns):
            self._refuse(lines[0], [cell for (cell,) in columns])
            return None
        cells, n = dict(zip(self._columns, columns, strict=True)), len(lines)
        kind, label = np.full(n, _kind_of(self._columns) or 0), np.full(n, _EMPTY)
        members, weight = np.full((n, 4), _EMPTY), np.ones(n)
        for place, name in enumerate(MEMBERS):
            if name in cells:
                members[:, place] = self._find_points(cells[name])
        if "kind" in cells:
            kind = self._kinds.get_all(cells["kind"])
        if "label" in cells:
            label = self._labels.get_all(cells["label"])
        if "weight" in cells:
            weight = self._weights.get_all(cells["weight"], np.float64)
        valid = _are_valid(kind, members, label, weight)
        own = (self._share(cells[name]) for name in self._own_columns())
        block = (kind, members, label, weight, *own)
        self.n_lines += int(valid.sum())
        for place in np.flatnonzero(~valid).tolist():
            self._refuse(lines[place], [column[place] for column in columns])
        return block if valid.all() else tuple(part[valid] for part in block)

    def _share(self, cells: Sequence[str]) -> npt.NDArray[Any]:
        """Return texts as an array in which equal ones are one string."""
        shared = np.empty(len(cells), object)
        shared[:] = [self._texts.setdefault(cell, cell) for cell in cells]
        return shared

    def _refuse(self, line: int, row: Sequence[str]) -> None:
        """Note a line that is no constraint, unless it is blank."""
        text = ",".join(row)
        if text.strip(", \t"):  # spreadsheets end in lines of commas
            self.n_lines += 1
            self.problems.append(Problem(line, text, self._find_reason(row)))

    def _find_reason(self, row: Sequence[str]) -> str:
        """Return the first thing that is wrong with a line."""
        if len(row) != len(self._columns):
            wanted = ",".join(self._columns)
            return f"{len(row)} cells where {len(self._columns)} are wanted, {wanted}"
        cells = dict.fromkeys(COLUMNS, "") | dict(zip(self._columns, row, strict=True))
        by_column = "kind" in self._columns
        kind: Any = self._kinds[cells["kind"]] if by_column else _kind_of(self._columns)
        if kind == _BAD:
            return f"kind is {cells['kind']!r}, not triplet, pair or quadruplet"
        width = int(_WIDTH[kind])
        for name in MEMBERS[:width]:
            if self._points[cells[name]] < 0:
                return f"{name} is {self._describe_point(cells[name])}"
        for name in (*MEMBERS[width:], *(["label"] if kind != _PAIR else [])):
            if cells[name]:
                return f"{name} is {cells[name]!r}, which a {KINDS[kind]} does not have"
        if kind == _PAIR and abs(self._labels[cells["label"]]) != 1:
            return f"label is {cells['label']!r}, not 1 (similar) or -1 (dissimilar)"
        if not self._weights[cells["weight"]] > 0:
            return f"weight is {cells['weight']!r}, not a number from 1e-100 to 1e100"
        rows = [self._points[cells[name]] for name in MEMBERS[:width]]
        for i, j in [(0, 1), (2, 3)] if kind == _QUADRUPLET else [(0, 1), (0, 2), (1, 2)]:
            if j < width and rows[i] == rows[j]:
                same = f"{MEMBERS[i]} and {MEMBERS[j]}"
                return f"{same} are the same point, {cells[MEMBERS[i]]!r}"
        return "a,b and c,d are the same pair"

    def _find_points(self, cells: Sequence[str]) -> IntArray:
        """Return the row that each cell names; negative where it names none."""
        if not self._has_ids and _ROW_NUMBERS.fullmatch(",".join(cells)):
            with contextlib.suppress(ValueError, OverflowError):  # an empty cell, a huge number
                rows = np.fromiter(map(int, cells), np.int64, len(cells))
                return np.where(rows < (self._n_points or MOST_POINTS), rows, _BAD)
        return self._points.get_all(cells)

    def _parse_point(self, text: str) -> int:
        """Return the row that a cell names which is no id; negative if it names none."""
        digits = _strip(text)
        if self._has_ids or not (digits.isascii() and digits.isdigit() and len(digits) < 12):
            return _BAD
        return int(digits) if int(digits) < (self._n_points or MOST_POINTS) else _BAD

    def _describe_point(self, text: str) -> str:
        """Return what is wrong with a cell that names no row."""
        if not text:
            return "missing"
        if self._has_ids:
            return f"{text!r}, which is none of the ids"
        digits = _strip(text)
        if digits.isascii() and digits.isdigit():
            return f"row {digits}, but X has {self._n_points or f'at most {MOST_POINTS}'} rows"
        if digits.startswith("-") and digits[1:].isascii() and digits[1:].isdigit():
            return f"{digits}, but rows are counted from 0"
        return f"{text!r}, not an integer; if points have names, pass ids="


def _are_valid(
    kind: IntArray, members: IntArray, label: IntArray, weight: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Return for each line whether it is a constraint of its kind."""
    used = np.arange(4) < _WIDTH[kind][:, None]
    valid = (kind >= 0) & np.all(np.where(used, members >= 0, members == _EMPTY), axis=1)
    valid &= np.where(kind == _PAIR, np.abs(label) == 1, label == _EMPTY) & (weight > 0)
    a, b, c, _ = members.T
    same = (a == b) | ((kind == _TRIPLET) & ((a == c) | (b == c)))
    return valid & ~np.where(kind == _QUADRUPLET, compares_nothing(members), same)


def _kind_of(columns: Iterable[str]) -> int | None:
    return _LAYOUTS.get(tuple(sorted(set(columns) & set(COLUMNS) - {"weight"})))


def _name_column(name: str, place: int) -> str:
    """Return the name of a column: in lower case if we know it, its place if it has none."""
    name = name.strip()
    return name.lower() if name.lower() in COLUMNS else name or f"column {place}"


def _parse_kind(text: str) -> int:
    name = text.strip().lower()
    return KINDS.index(name) if name in KINDS else _BAD


def _parse_weight(text: str) -> float:
    try:
        weight = float(text.replace("_", "?"))
    except ValueError:
        return -1.0
    return weight if 1e-100 <= weight <= 1e100 else -1.0  # as in check_weights


def _strip(text: str) -> str:
    # A table with missing cells is often written with whole numbers as 3.0.
    return text.strip().removesuffix(".0")

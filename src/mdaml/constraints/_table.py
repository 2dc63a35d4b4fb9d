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
from mdaml.constraints.names import find_meant
from mdaml.io.messages import shorten

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
_MOST_HINTS = 50  # to find what was meant takes time
BAD, EMPTY = -1, -2  # in place of a row number; of a label, 0 and EMPTY
_LABELS = {"1": 1, "-1": -1, "0": -1, "similar": 1, "dissimilar": -1, "same": 1, "different": -1}


# What to do, by what a reason says; the first that fits.
_REMEDIES = (
    ("missing", "fill in the cell, or remove the line"),
    ("not one of the ids", "correct the name, or add the point to X"),
    ("not an integer", "pass ids=, the names of the rows of X"),
    ("rows", "name rows from 0 on, below the number of rows of X"),
    ("same p", "compare different points, or remove the line"),
    ("there twice", "name different points, or remove the line"),
    ("cells where", "put cells that hold a comma into quotation marks"),
    ("label is", "use 1 and -1, 1 and 0, or similar and dissimilar"),
    ("weight", "use a positive number, or leave the cell empty"),
    ("kind is", "use triplet, pair or quadruplet"),
    ("does not have", "empty the cell, or correct the kind"),
    ("answer", "write one of the options, or neither"),
    ("", "correct or remove the line"),
)


@dataclass(frozen=True)
class Problem:
    """A line of a file that is not a constraint.

    Attributes
    ----------
    line : int
        Its number, from 1: the line of a CSV file, the row of a Parquet file, the place in an NPZ
        file in the order triplets, pairs, quadruplets.
    text : str
        Its cells, separated by commas.
    reason : str
        What is wrong with it, and what was probably meant.

    Examples
    --------
    >>> from mdaml.constraints import Problem
    >>> problem = Problem(7, "3,3,5", "a and b are the same point, '3'")
    >>> print(problem)
    line 7: a and b are the same point, '3' (3,3,5)
    >>> problem.remedy
    'compare different points, or remove the line'
    """

    line: int
    text: str
    reason: str

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return next(remedy for mark, remedy in _REMEDIES if mark in self.reason)

    def __str__(self) -> str:
        """Return line number, reason and text."""
        return f"line {self.line}: {self.reason} ({self.text})"


class Lookup(dict[str, Any]):
    """The meaning of each text, found once: points occur in many lines."""

    def __init__(self, known: Iterable[tuple[str, Any]], parse: Callable[[str], Any]) -> None:
        super().__init__(known)
        self._parse = parse

    def __missing__(self, text: str) -> Any:
        self[text] = self._parse(text)
        return self[text]

    def get_all(self, cells: Sequence[str], dtype: Any = np.int64) -> npt.NDArray[Any]:
        """Return an array of the meanings of all cells."""
        return np.fromiter(map(self.__getitem__, cells), dtype, len(cells))


class LineReader:
    """Turns lines of cells into arrays, block by block, and collects the lines that are wrong."""

    def __init__(
        self,
        path: Path,
        ids: npt.NDArray[Any] | None,
        n_points: int | None,
        find_roles: Callable[[Sequence[str]], dict[int, str]] | None = None,
        suggest: Callable[[Sequence[str]], str] = lambda _: "",
    ) -> None:
        self.problems: list[Problem] = []
        self.n_lines = 0
        self.ids, self.n_points = ids, n_points
        self._path, self._has_ids = path, ids is not None
        self._suggest = suggest  # what to pass for a header that is none of ours
        self._find_roles = find_roles  # which columns of a header are a, b and so on
        self._columns: Sequence[str] = ()
        self._texts: dict[str, str] = {}  # one string for all cells that say the same
        self._ids = [] if ids is None else list(map(str, ids.tolist()))
        self._hints: dict[str, str] = {}
        rows = chain(zip(self._ids, range(MOST_POINTS), strict=False), [("", EMPTY)])
        self._points = Lookup(rows, self._parse_point)
        self._kinds = Lookup([], _parse_kind)
        self._labels = Lookup([("", EMPTY)], lambda text: _LABELS.get(_strip(text).lower(), 0))
        self._weights = Lookup([("", 1.0)], parse_weight)

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
        if self._find_roles is None:
            columns = tuple(_name_column(name, place) for place, name in enumerate(names, 1))
        else:
            columns = _rename(names, self._find_roles(names))
        if not {"a", "b"} <= set(columns):
            return None
        if len(set(columns)) < len(columns):
            raise ValueError(f"{self._path}: the header has a column twice. {_ADVICE}")
        for name in set(columns) - set(COLUMNS):
            meant = difflib.get_close_matches(name.lower(), ("kind", "label", "weight"), 1, 0.75)
            if meant:
                raise ValueError(
                    f"{self._path}: the header has the unknown column {shorten(name)!r}. Did "
                    f"you mean {meant[0]!r}? If not, give it a name that is less like it."
                )
        if "kind" not in columns and _kind_of(columns) is None:
            what = f"the header {shorten(','.join(columns))} fits no kind of constraint"
            raise ValueError(f"{self._path}: {what}. {_ADVICE}")
        return columns

    def _find_columns_without_header(self, row: Sequence[str], line: int) -> tuple[str, ...]:
        if line == 0:  # names of columns, which no file without a header has
            known = shorten(", ".join(row))
            raise ValueError(
                f"{self._path}: there are no columns a and b, but {known}.{self._suggest(row)}"
            )
        wrong = [cell for cell in row if self._points[cell] < 0]
        if wrong:
            raise ValueError(
                f"{self._path}: the first line, {shorten(','.join(row))}, is not a header (a,b,c "
                "or a,b,label or a,b,c,d) and holds no constraint: "
                f"{self.describe_point(wrong[0])}.{self._suggest(row)}"
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
        kind, label = np.full(n, _kind_of(self._columns) or 0), np.full(n, EMPTY)
        members, weight = np.full((n, 4), EMPTY), np.ones(n)
        for place, name in enumerate(MEMBERS):
            if name in cells:
                members[:, place] = self.find_points(cells[name])
        if "kind" in cells:
            kind = self._kinds.get_all(cells["kind"])
        if "label" in cells:
            label = self._labels.get_all(cells["label"])
        if "weight" in cells:
            weight = self._weights.get_all(cells["weight"], np.float64)
        valid = _are_valid(kind, members, label, weight)
        own = (self.share_texts(cells[name]) for name in self._own_columns())
        block = (kind, members, label, weight, *own)
        self.n_lines += int(valid.sum())
        for place in np.flatnonzero(~valid).tolist():
            self._refuse(lines[place], [column[place] for column in columns])
        return block if valid.all() else tuple(part[valid] for part in block)

    def share_texts(self, cells: Sequence[str]) -> npt.NDArray[Any]:
        """Return texts as an array in which equal ones are one string."""
        shared = np.empty(len(cells), object)
        shared[:] = [self._texts.setdefault(cell, cell) for cell in cells]
        return shared

    def _refuse(self, line: int, row: Sequence[str]) -> None:
        """Note a line that is no constraint, unless it is blank."""
        text = ",".join(row)
        if text.strip(", \t"):  # spreadsheets end in lines of commas
            self.n_lines += 1
            reason = shorten(self._find_reason(row))
            self.problems.append(Problem(line, shorten(text), reason))

    def _find_reason(self, row: Sequence[str]) -> str:
        """Return the first thing that is wrong with a line."""
        if len(row) != len(self._columns):
            wanted = ",".join(self._columns)
            return f"{len(row)} cells where {len(self._columns)} are wanted, {wanted}"
        cells = dict.fromkeys(COLUMNS, "") | dict(zip(self._columns, row, strict=True))
        by_column = "kind" in self._columns
        kind: Any = self._kinds[cells["kind"]] if by_column else _kind_of(self._columns)
        if kind == BAD:
            return f"kind is {cells['kind']!r}, not triplet, pair or quadruplet"
        width = int(_WIDTH[kind])
        for name in MEMBERS[:width]:
            if self._points[cells[name]] < 0:
                return f"{name} is {self.describe_point(cells[name])}"
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

    def find_points(self, cells: Sequence[str]) -> IntArray:
        """Return the row that each cell names; negative where it names none."""
        if not self._has_ids and _ROW_NUMBERS.fullmatch(",".join(cells)):
            with contextlib.suppress(ValueError, OverflowError):  # an empty cell, a huge number
                rows = np.fromiter(map(int, cells), np.int64, len(cells))
                return np.where(rows < (self.n_points or MOST_POINTS), rows, BAD)
        return self._points.get_all(cells)

    def _parse_point(self, text: str) -> int:
        """Return the row that a cell names which is no id; negative if it names none."""
        digits = _strip(text)
        if self._has_ids or not (digits.isascii() and digits.isdigit() and len(digits) < 12):
            return BAD
        return int(digits) if int(digits) < (self.n_points or MOST_POINTS) else BAD

    def describe_point(self, text: str) -> str:
        """Return what is wrong with a cell that names no row."""
        if not text:
            return "missing"
        if self._has_ids:
            return f"{text!r}, which is not one of the ids{self._hint(text)}"
        digits = _strip(text)
        if digits.isascii() and digits.isdigit():
            return f"row {digits}, but X has {self.n_points or f'at most {MOST_POINTS}'} rows"
        if digits.startswith("-") and digits[1:].isascii() and digits[1:].isdigit():
            return f"{digits}, but rows are counted from 0"
        return f"{text!r}, not an integer; if points have names, pass ids="

    def _hint(self, name: str) -> str:
        """Return the id that was probably meant; of many wrong names only for the first."""
        if name not in self._hints and len(self._hints) < _MOST_HINTS:
            meant = find_meant(name, self._ids)
            self._hints[name] = f" (did you mean {meant!r}?)" if meant else ""
        return self._hints.get(name, "")


def _are_valid(
    kind: IntArray, members: IntArray, label: IntArray, weight: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Return for each line whether it is a constraint of its kind."""
    used = np.arange(4) < _WIDTH[kind][:, None]
    valid = (kind >= 0) & np.all(np.where(used, members >= 0, members == EMPTY), axis=1)
    valid &= np.where(kind == _PAIR, np.abs(label) == 1, label == EMPTY) & (weight > 0)
    a, b, c, _ = members.T
    same = (a == b) | ((kind == _TRIPLET) & ((a == c) | (b == c)))
    return valid & ~np.where(kind == _QUADRUPLET, compares_nothing(members), same)


def _kind_of(columns: Iterable[str]) -> int | None:
    return _LAYOUTS.get(tuple(sorted(set(columns) & set(COLUMNS) - {"weight"})))


def _rename(names: Sequence[str], roles: dict[int, str]) -> tuple[str, ...]:
    """Return the columns of a header by their roles; others keep no name that is one of ours."""
    named = [_name_column(name, place) for place, name in enumerate(names, 1)]
    free = {name: f"{name} (file)" for name in COLUMNS if name != "weight"}
    return tuple(roles.get(place, free.get(name, name)) for place, name in enumerate(named))


def _name_column(name: str, place: int) -> str:
    """Return the name of a column: in lower case if we know it, its place if it has none."""
    name = name.strip()
    return name.lower() if name.lower() in COLUMNS else name or f"column {place}"


def _parse_kind(text: str) -> int:
    name = text.strip().lower()
    return KINDS.index(name) if name in KINDS else BAD


def parse_weight(text: str) -> float:
    """Return a weight, negative if the text is none."""
    weight = parse_number(text)
    return weight if 1e-100 <= weight <= 1e100 else -1.0  # as in check_weights


def parse_number(text: str) -> float:
    """Return a cell as a number, NaN if it is none; a decimal comma is one."""
    plain = text.replace("_", "?")
    plain = plain.replace(",", ".") if plain.count(",") == 1 and "." not in plain else plain
    try:
        return float(plain)
    except ValueError:
        return np.nan


def _strip(text: str) -> str:
    # A table with missing cells is often written with whole numbers as 3.0.
    return text.strip().removesuffix(".0")

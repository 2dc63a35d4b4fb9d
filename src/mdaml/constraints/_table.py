"""Constraints as a table of text cells: which columns there are, and what each line says."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import IntArray
from mdaml.constraints.checks import MOST_POINTS, compares_nothing

KINDS = ("triplet", "pair", "quadruplet")
MEMBERS = ("a", "b", "c", "d")
COLUMNS = ("kind", *MEMBERS, "label", "weight")
_TRIPLET, _PAIR, _QUADRUPLET = range(3)
_WIDTH = np.array([3, 2, 4])
_LAYOUTS = {("a", "b", "c"): _TRIPLET, ("a", "b", "label"): _PAIR, MEMBERS: _QUADRUPLET}

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


def find_layout(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns a header names, None if it is no header; refuse those that fit no kind."""
    columns = tuple(name.strip().lower() for name in names)
    if not {"a", "b"} <= set(columns):
        return None
    unknown = [name for name in columns if name not in COLUMNS]
    advice = (
        "Columns are a,b,c (triplets), a,b,label (pairs) or a,b,c,d (quadruplets), or "
        "kind,a,b,c,d,label for a mixture; a column weight may be added to each."
    )
    if unknown or len(set(columns)) < len(columns):
        what = f"unknown column {unknown[0]!r}" if unknown else "a column twice"
        raise ValueError(f"the header has {what}. {advice}")
    if "kind" not in columns and _kind_of(columns) is None:
        raise ValueError(f"the header {','.join(columns)} fits no kind of constraint. {advice}")
    return columns


def _kind_of(columns: Iterable[str]) -> int | None:
    return _LAYOUTS.get(tuple(sorted(set(columns) - {"weight"})))


class TableReader:
    """Turns lines of cells into arrays, block by block, and collects the lines that are wrong.

    A cell is looked up in a dictionary that parses each text once: points occur in many lines.
    """

    def __init__(
        self, columns: Sequence[str], ids: npt.NDArray[Any] | None, n_points: int | None
    ) -> None:
        self.columns = columns
        self.points = Points(ids, n_points)
        self.problems: list[Problem] = []
        self.n_lines = 0
        self._labels = _Labels()
        self._weights = _Weights()
        self._blocks: list[tuple[npt.NDArray[Any], ...]] = []

    def add(self, lines: Sequence[int], columns: Sequence[Sequence[str]]) -> None:
        """Take some lines, given by their numbers and their columns."""
        block = self._parse(dict(zip(self.columns, columns, strict=True)), len(lines))
        valid = _are_valid(*block)
        self.n_lines += int(valid.sum())
        if not valid.all():
            block = tuple(part[valid] for part in block)
            for n in np.flatnonzero(~valid).tolist():
                self.refuse(lines[n], [column[n] for column in columns])
        self._blocks.append(block)

    def refuse(self, line: int, row: Sequence[str]) -> None:
        """Note a line that is no constraint, unless it is blank."""
        text = ",".join(row)
        if text.strip(", \t"):  # spreadsheets end in lines of commas
            self.n_lines += 1
            self.problems.append(Problem(line, text, self._reason(row)))

    def finish(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arguments for :class:`Constraints`; sort the problems by line."""
        self.problems.sort(key=lambda problem: problem.line)
        if self._labels.keys() >= {"0", "-1"}:
            raise ValueError(
                "the labels 0 and -1 both occur: does 0 mean dissimilar, or not known? Use 1 and "
                "-1, or 1 and 0, and leave out pairs that are not known."
            )
        kind, members, label, weight = map(np.concatenate, zip(*self._blocks, strict=True))
        order = np.argsort(kind, kind="stable")
        of_kind = [members[kind == k, :width] for k, width in enumerate(_WIDTH)]
        return {
            "triplets": of_kind[_TRIPLET],
            "pairs": of_kind[_PAIR],
            "pair_labels": label[kind == _PAIR],
            "quadruplets": of_kind[_QUADRUPLET],
            "weights": weight[order],
        }

    def _parse(self, cells: Mapping[str, Sequence[str]], n: int) -> tuple[npt.NDArray[Any], ...]:
        kinds = {name: k for k, name in enumerate(KINDS)}
        members = np.full((n, 4), _EMPTY)
        for place, name in enumerate(MEMBERS):
            if name in cells:
                members[:, place] = _looked_up(self.points, cells[name])
        kind = np.full(n, _kind_of(self.columns) or 0)
        if "kind" in cells:
            texts = (text.strip().lower() for text in cells["kind"])
            kind = np.fromiter((kinds.get(text, _BAD) for text in texts), np.int64, n)
        label, weight = np.full(n, _EMPTY), np.ones(n)
        if "label" in cells:
            label = _looked_up(self._labels, cells["label"])
        if "weight" in cells:
            weight = _looked_up(self._weights, cells["weight"])
        return kind, members, label, weight

    def _reason(self, row: Sequence[str]) -> str:
        """Return the first thing that is wrong with a line."""
        if len(row) != len(self.columns):
            wanted = ",".join(self.columns)
            return f"{len(row)} cells where {len(self.columns)} are wanted, {wanted}"
        cells = dict.fromkeys(COLUMNS, "") | dict(zip(self.columns, row, strict=True))
        kind = _kind_of(self.columns)
        if "kind" in self.columns:
            name = cells["kind"].strip().lower()
            if name not in KINDS:
                return f"kind is {cells['kind']!r}, not triplet, pair or quadruplet"
            kind = KINDS.index(name)
        assert kind is not None
        width = int(_WIDTH[kind])
        for name in MEMBERS[:width]:
            if self.points[cells[name]] < 0:
                return f"{name} is {self.points.fault(cells[name])}"
        for name in (*MEMBERS[width:], *(["label"] if kind != _PAIR else [])):
            if cells[name]:
                return f"{name} is {cells[name]!r}, which a {KINDS[kind]} has not got"
        if (kind == _PAIR) and abs(self._labels[cells["label"]]) != 1:
            return f"label is {cells['label']!r}, not 1 (similar) or -1 (dissimilar)"
        if not self._weights[cells["weight"]] > 0:
            return f"weight is {cells['weight']!r}, not a positive finite number"
        return self._repetition([cells[name] for name in MEMBERS[:width]])

    def _repetition(self, cells: Sequence[str]) -> str:
        """Name the members of a line that are the same point, or the pairs that are the same."""
        rows = [self.points[cell] for cell in cells]
        couples = [(0, 1), (2, 3)] if len(cells) == 4 else [(0, 1), (0, 2), (1, 2)]
        for i, j in couples:
            if j < len(cells) and rows[i] == rows[j]:
                return f"{MEMBERS[i]} and {MEMBERS[j]} are the same point, {cells[i]!r}"
        return "a,b and c,d are the same pair"


def _are_valid(
    kind: IntArray, members: IntArray, label: IntArray, weight: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Say of each line whether it is a constraint of its kind."""
    used = np.arange(4) < _WIDTH[kind][:, None]
    valid = (kind >= 0) & np.all(np.where(used, members >= 0, members == _EMPTY), axis=1)
    valid &= np.where(kind == _PAIR, np.abs(label) == 1, label == _EMPTY) & (weight > 0)
    a, b, c, _ = members.T
    same = (a == b) | ((kind == _TRIPLET) & ((a == c) | (b == c)))
    return valid & ~np.where(kind == _QUADRUPLET, compares_nothing(members), same)


def _looked_up(table: dict[str, Any], cells: Sequence[str]) -> npt.NDArray[Any]:
    dtype = np.float64 if isinstance(table, _Weights) else np.int64
    return np.fromiter(map(table.__getitem__, cells), dtype, len(cells))


class Points(dict[str, int]):
    """The row of each point, by the text of a cell; negative where it names none."""

    def __init__(self, ids: npt.NDArray[Any] | None, n_points: int | None) -> None:
        names = [] if ids is None else map(str, ids.tolist())
        super().__init__(zip(names, range(MOST_POINTS), strict=False))
        self._by_id = ids is not None
        self._n_points = n_points
        self[""] = _EMPTY

    def __missing__(self, text: str) -> int:
        row = _BAD
        if not self._by_id:
            digits = _digits(text)
            if digits.isascii() and digits.isdigit() and len(digits) < 12:
                row = int(digits) if int(digits) < (self._n_points or MOST_POINTS) else _BAD
        self[text] = row
        return row

    def fault(self, text: str) -> str:
        """Say what is wrong with a cell that names no row."""
        if not text:
            return "missing"
        if self._by_id:
            return f"{text!r}, which is none of the ids"
        digits = _digits(text)
        if digits.isascii() and digits.isdigit():
            return f"row {digits}, but X has {self._n_points or f'at most {MOST_POINTS}'} rows"
        if digits.startswith("-") and digits[1:].isascii() and digits[1:].isdigit():
            return f"{digits}, but rows are counted from 0"
        return f"{text!r}, not an integer; if points have names, pass ids="


def _digits(text: str) -> str:
    # A table with missing cells is often written with whole numbers as 3.0.
    return text.strip().removesuffix(".0")


class _Labels(dict[str, int]):
    """The meaning of a label; 0 for a text that has none."""

    def __init__(self) -> None:
        super().__init__({"": _EMPTY})

    def __missing__(self, text: str) -> int:
        text = _digits(text).lower()
        return self.setdefault(text, _LABELS.get(text, 0))


class _Weights(dict[str, float]):
    """The value of a weight, 1 where it is missing; -1 for a text that is none."""

    def __init__(self) -> None:
        super().__init__({"": 1.0})

    def __missing__(self, text: str) -> float:
        try:
            weight = float(text.replace("_", "?"))
        except ValueError:
            weight = -1.0
        self[text] = weight if math.isfinite(weight) else -1.0
        return self[text]

"""Lines of a file of answers: what their cells mean, and which lines are wrong."""

import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from mdaml._typing import Array, BoolArray, FloatArray, IntArray
from mdaml.constraints.cells import (
    NO_ANSWER,
    NO_OPTION,
    find_place,
    parse_number,
    parse_weight,
    split_points,
)
from mdaml.constraints.forms.answers import ANSWER, COLUMNS, Fault
from mdaml.constraints.forms.layout import COMPARISONS, FORMS, Layout, find_columns, suggest_layout
from mdaml.constraints.names import MOST_POINTS, NOBODY
from mdaml.constraints.problems import InvalidLine
from mdaml.io.messages import Naming, find_meant, is_no_answer, name_argument, shorten

Blocks: TypeAlias = Iterator[tuple[Sequence[int], list[list[str]]]]

_MEMBERS = ("a", "b", "c", "d")
_ADVICE = (
    "Columns are a,b,c (triplets), a,b,label (pairs) or a,b,c,d (quadruplets), or "
    "kind,a,b,c,d,label for a mixture; a column weight may be added to each, and columns of your "
    "own, such as who."
)
_ROW_NUMBERS = re.compile("[0-9 ,]*")  # integers that are parsed faster than looked up
_MOST_HINTS = 50  # to find what was meant takes time
_BAD, _EMPTY = -1, -2  # in place of a row number


class LineReader:
    """Turns lines of cells into arrays, block by block, and collects the lines that are wrong.

    After :meth:`read`, `form` is what the lines hold, `problems` are those that are wrong, and
    `n_lines` is the number of all that are not blank.
    """

    def __init__(
        self,
        path: Path,
        ids: Array | None,
        n_points: int | None,
        layout: Layout,
        naming: Naming = name_argument,
    ) -> None:
        self.path, self.form = path, layout.form or ""
        self.names: list[str] = []  # of the columns of the form
        self.problems: list[InvalidLine] = []
        self.n_lines = 0
        self._layout, self._naming = layout, naming
        self._header: list[str] = []
        self._places: list[int | None] = []  # in the header, of the columns of the form
        self._has_ids, self._n_points = ids is not None, n_points or MOST_POINTS
        self._ids = [] if ids is None else list(map(str, ids.tolist()))
        rows = dict(zip(self._ids, range(len(self._ids)), strict=True)) | {"": _EMPTY}
        # The meaning of each text, found once: points occur in many lines.
        self._known: dict[object, dict[str, float]] = {self._parse_point: {**rows}}
        self._texts: dict[str, str] = {}  # one string for all cells that say the same
        self._hints: dict[str, str] = {}

    def read(self, blocks: Blocks) -> tuple[list[Array], dict[str, Array], FloatArray]:
        """Return the arrays of the form, the other columns, and the weights of all right lines.

        Blocks are those of :func:`mdaml.io.texts.read_texts`. Refuses a file without a right line.
        """
        lines, first = next(blocks)
        if not self._find_columns([cell.strip() for (cell,) in first], lines[0]):
            blocks = chain([(lines, first)], blocks)
        parsed = (self._parse_block(*block) for block in blocks)  # frees a block before the next
        found = [block for block in parsed if block is not None]
        self.problems.sort(key=lambda problem: problem.line)
        what = "constraint" if self.form in COMPARISONS else "answer"
        if not self.n_lines:
            raise ValueError(f"{self.path}: there is no {what} in this file.")
        if self.n_lines == len(self.problems):
            raise ValueError(
                f"{self.path}: none of {self.n_lines} lines is a{'n' * (what == 'answer')} {what}; "
                f"{self.problems[0]}."
            )
        weight, *parts = (_join(column) for column in zip(*found, strict=True))
        own = self._own_columns()
        arrays = parts[: len(parts) - len(own)]
        return arrays, dict(zip(own.values(), parts[len(arrays) :], strict=True)), weight

    # The header

    def _find_columns(self, header: list[str], line: int) -> bool:
        """Find the columns of the form; return whether the first line is a header."""
        self._header, is_header = header, True
        if self._layout.form is None:
            known = [name.lower() if name.lower() in COLUMNS else name for name in header]
            is_header = {"a", "b"} <= set(known)
            if is_header:
                self._check_header(known)
                self.form = self._tell_form(known)
                self._header = known
            else:
                self._check_first_line(header, line)
                self.form = "triplets" if len(header) == 3 else "quadruplets"
                self._header = known = list(_MEMBERS[: len(header)])
            roles = COMPARISONS[self.form].COLUMNS
            self._places = [known.index(role) if role in known else None for role in roles]
        else:
            self._places = [*find_columns(self.path, header, self._layout, self._naming)]
            if self.form in COMPARISONS:
                own = self._own_columns().values()
                self._check_header([*COMPARISONS[self.form].COLUMNS, *own])
        self.names = ["" if place is None else self._header[place] for place in self._places]
        return is_header

    def _check_header(self, names: Sequence[str]) -> None:
        """Refuse a column that occurs twice or whose name is nearly one that has a meaning."""
        if len(set(filter(None, names))) < len([*filter(None, names)]):
            raise ValueError(f"{self.path}: the header has a column twice. {_ADVICE}")
        for name in set(names) - set(COLUMNS):
            meant = difflib.get_close_matches(name.lower(), ("kind", "label", "weight"), 1, 0.75)
            if meant:
                raise ValueError(
                    f"{self.path}: the header has the unknown column {shorten(name)!r}. Did "
                    f"you mean {meant[0]!r}? If not, give it a name that is less like it."
                )

    def _tell_form(self, names: Sequence[str]) -> str:
        """Return the form of the lines under a known header."""
        ours = {name for name in names if name in COLUMNS and name != "weight"}
        for form, module in COMPARISONS.items():
            if ours == set(module.COLUMNS) or (form == "mixture" and "kind" in ours):
                return form
        what = f"the header {shorten(','.join(names))} fits no kind of constraint"
        raise ValueError(f"{self.path}: {what}. {_ADVICE}")

    def _check_first_line(self, row: Sequence[str], line: int) -> None:
        """Refuse a first line that is neither a known header nor a triplet or quadruplet."""
        advice = suggest_layout(row, self._naming)
        if line == 0:  # names of columns, which no file without a header has
            known = shorten(", ".join(row))
            raise ValueError(f"{self.path}: there are no columns a and b, but {known}.{advice}")
        wrong = [cell for cell, row in zip(row, self._look_up_points(row), strict=True) if row < 0]
        if wrong:
            raise ValueError(
                f"{self.path}: the first line, {shorten(','.join(row))}, is not a header (a,b,c or "
                "a,b,label or a,b,c,d) and holds no constraint: "
                f"{self._describe_point(wrong[0])}.{advice}"
            )
        if len(row) not in (3, 4):
            hint = " Pairs need a header: a,b,label." if len(row) == 2 else ""
            raise ValueError(
                f"{self.path}: without a header, lines hold three points (a triplet) or four (a "
                f"quadruplet), got {len(row)}.{hint}"
            )

    def _own_columns(self) -> dict[int, str]:
        """Return the names of all other columns by their place; none that has a meaning here."""
        is_answer = self.form not in COMPARISONS
        names = {}
        for place, name in enumerate(self._header):
            if place not in self._places and name.lower() != "weight":
                taken = name.lower() in COLUMNS or (is_answer and name == ANSWER)
                names[place] = f"{name} (file)" if taken else name or f"column {place + 1}"
        return names

    # Blocks

    def _parse_block(self, lines: Sequence[int], columns: list[list[str]]) -> list[Array] | None:
        """Return weights, arrays of the form and other columns of lines that are right."""
        if len(columns) != len(self._header):
            row = [cell for (cell,) in columns]
            wanted = f"{len(row)} cells where {len(self._header)} are wanted"
            self._refuse(lines[0], row, f"{wanted}, {','.join(self._header)}")
            return None
        n = len(lines)
        cells = [[""] * n if place is None else columns[place] for place in self._places]
        form = COMPARISONS.get(self.form) or FORMS[self.form]
        arrays, faults = form.parse(self, cells)
        weight = self._find_weights(columns, n, faults)
        bad = np.any([mask for mask, _ in faults], axis=0)
        kept = ~bad
        if self._layout.other_lines:  # other trials of an experiment, which name no point
            is_other = np.array([not any(row) for row in zip(*cells[:-1], strict=True)])
            bad, kept = bad & ~is_other, kept & ~is_other
        for place in np.flatnonzero(bad).tolist():
            reason = next(reason for mask, reason in faults if mask[place])
            text = reason(place) if callable(reason) else reason
            answer = next((cell[place] for cell in cells if is_no_answer(cell[place])), None)
            text = text if answer is None else f"{answer!r} is no answer"
            self._refuse(lines[place], [column[place] for column in columns], text)
        self.n_lines += int(kept.sum())
        own = [self._share_texts(columns[place]) for place in self._own_columns()]
        block = [weight, *arrays, *own]
        if kept.all():
            return block
        return [part[kept] for part in block] if kept.any() else None

    def _find_weights(self, columns: list[list[str]], n: int, faults: list[Fault]) -> FloatArray:
        names = [name.lower() for name in self._header]
        if "weight" not in names:
            return np.ones(n)
        cells = columns[names.index("weight")]
        weight = self.look_up(cells, parse_weight, np.float64)
        text = "weight is {!r}, not a number from 1e-100 to 1e100"
        faults.append((~(weight > 0), lambda place: text.format(cells[place])))
        return weight

    def _share_texts(self, cells: Sequence[str]) -> Array:
        """Return texts as an array in which equal ones are one string."""
        shared = np.empty(len(cells), object)
        shared[:] = [self._texts.setdefault(cell, cell) for cell in cells]
        return shared

    def _refuse(self, line: int, row: Sequence[str], reason: str) -> None:
        """Note a line that is wrong, unless it is blank."""
        text = ",".join(row)
        if text.strip(", \t"):  # spreadsheets end in lines of commas
            self.n_lines += 1
            self.problems.append(InvalidLine(line, shorten(text), shorten(reason)))

    # Cells, for the forms

    def look_up(
        self, cells: Sequence[str], parse: Callable[[str], float], dtype: DTypeLike = np.int64
    ) -> Array:
        """Return the meaning of all cells, each different text parsed once."""
        known = self._known.setdefault(parse, {})
        try:
            return np.fromiter(map(known.__getitem__, cells), dtype, len(cells))
        except KeyError:
            known |= {text: parse(text) for text in set(cells).difference(known)}
            return self.look_up(cells, parse, dtype)

    def texts_of(self, parse: Callable[[str], float]) -> Iterable[str]:
        """Return all different texts that were parsed so."""
        return self._known[parse]

    def find_numbers(self, cells: Sequence[str]) -> FloatArray:
        """Return numbers, NaN where a cell holds none."""
        return self.look_up(cells, parse_number, np.float64)

    def find_points(
        self, cells: list[list[str]], names: Sequence[str] | None = None, *, may_miss: bool = False
    ) -> tuple[IntArray, list[Fault]]:
        """Return rows of X, (n, k), -1 for empty cells, and the lines that name none.

        Names are those of the columns in messages, by default those of the file.
        """
        rows = np.stack([self._look_up_points(column) for column in cells], axis=1)
        wrong: BoolArray = rows == _BAD if may_miss else rows < 0

        def describe(place: int) -> str:
            which = int(np.argmax(wrong[place]))
            text = self._describe_point(cells[which][place])
            return f"{(names or self.names)[which]} is {text}"

        return np.where(rows == _EMPTY, NOBODY, rows), [(np.any(wrong, axis=1), describe)]

    def find_repeats(
        self, members: IntArray, cells: list[list[str]], places: Sequence[tuple[int, int]]
    ) -> list[Fault]:
        """Return the lines in which two members, given by their places, are the same point."""

        def describe(one: int, other: int) -> Callable[[int], str]:
            same = f"{_MEMBERS[one]} and {_MEMBERS[other]} are the same point"
            return lambda place: f"{same}, {cells[one][place]!r}"

        same = (np.equal(members[:, i], members[:, j]) for i, j in places)
        return [(mask, describe(*pair)) for mask, pair in zip(same, places, strict=True)]

    def find_lists(self, cells: list[str]) -> tuple[IntArray, list[Fault]]:
        """Return rows of X of cells that hold several points, (n, longest), -1 behind the last."""
        joined = "|".join(cells)
        if any(mark in joined for mark in "[; "):
            cells = ["|".join(split_points(cell)) for cell in cells]
            joined = "|".join(cells)
        # One list of all points, and where each line begins: a list for each line costs more.
        points = joined.split("|")
        lengths = np.fromiter((cell.count("|") for cell in cells), np.int64, len(cells)) + 1
        ends = np.cumsum(lengths)
        rows = np.full((len(cells), int(lengths.max())), _EMPTY)
        places = np.arange(len(points)) - np.repeat(ends - lengths, lengths)
        rows[np.repeat(np.arange(len(cells)), lengths), places] = self._look_up_points(points)

        def describe(place: int) -> str:
            which = int(ends[place] - lengths[place] + np.argmax(rows[place] == _BAD))
            return f"a list names {self._describe_point(points[which])}"

        return np.where(rows == _EMPTY, NOBODY, rows), [(np.any(rows == _BAD, axis=1), describe)]

    def find_places(
        self, cells: list[str], options: list[list[str]]
    ) -> tuple[IntArray, list[Fault]]:
        """Return which of the options was the answer, by name or place; -1 for neither."""
        first, n_options = self._layout.first_place, len(options)
        place = np.array([find_place(cell, n_options, first) for cell in cells])
        if first is None:
            for number, option in enumerate(options):
                place[np.array(cells, object) == np.array(option, object)] = number

        def describe(line: int) -> str:
            shown = ", ".join(option[line] for option in options)
            advice = ""
            if first is None and cells[line].strip() in map(str, range(1, n_options + 1)):
                setting = self._naming("form", "things")
                advice = f"; if it is a place, counted from 1, pass {setting}"
            return f"the answer {cells[line]!r} is none of {shown}{advice}"

        missing, unknown = (np.equal(place, code) for code in (NO_ANSWER, NO_OPTION))
        return place, [(missing, "there is no answer"), (unknown, describe)]

    def _look_up_points(self, cells: Sequence[str]) -> IntArray:
        """Return the row that each cell names; negative where it names none."""
        if not self._has_ids and _ROW_NUMBERS.fullmatch(",".join(cells)):
            with contextlib.suppress(ValueError, OverflowError):  # an empty cell, a huge number
                rows = np.fromiter(map(int, cells), np.int64, len(cells))
                return np.where(rows < self._n_points, rows, _BAD)
        return self.look_up(cells, self._parse_point)

    def _parse_point(self, text: str) -> int:
        """Return the row number that a cell holds; negative if it holds none."""
        plain = text.strip()
        if self._has_ids:  # spaces round a name do not count, as in tables
            return int(self.look_up([plain], self._parse_point)[0]) if plain != text else _BAD
        digits = plain.removesuffix(".0")  # tables with missing cells hold 3.0 for 3
        if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
            return _BAD
        return int(digits) if int(digits) < self._n_points else _BAD

    def _describe_point(self, text: str) -> str:
        """Return what is wrong with a cell that names no row."""
        if not text:
            return "missing"
        if self._has_ids:
            return f"{text!r}, which is not one of the ids{self._hint(text)}"
        digits = text.strip().removesuffix(".0")
        if digits.isascii() and digits.isdigit():
            most = f"{'at most ' * (self._n_points == MOST_POINTS)}{self._n_points}"
            return f"row {digits}, but X has {most} rows"
        if digits.startswith("-") and digits[1:].isascii() and digits[1:].isdigit():
            return f"{digits}, but rows are counted from 0"
        return f"{text!r}, not an integer; if points have names, pass {self._naming('ids', '')}"

    def _hint(self, name: str) -> str:
        """Return the id that was probably meant; of many wrong names only for the first."""
        if name not in self._hints and len(self._hints) < _MOST_HINTS:
            meant = find_meant(name, self._ids)
            self._hints[name] = f" (did you mean {meant!r}?)" if meant else ""
        return self._hints.get(name, "")


def _join(parts: Sequence[Array]) -> Array:
    """Return blocks in one array; lists are made as long as the longest."""
    width = max((part.shape[1] for part in parts if part.ndim == 2), default=0)
    if parts[0].ndim == 2 and any(part.shape[1] < width for part in parts):
        parts = [
            np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=NOBODY)
            for part in parts
        ]
    return np.concatenate(parts)

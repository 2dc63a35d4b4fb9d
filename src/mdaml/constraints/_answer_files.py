"""Files of answers that are no comparisons yet: odd ones out, picks, rankings, votes and so on.

A layout says which columns of a file have which role; presets are layouts of known programs.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.constraints import answer_checks
from mdaml.constraints._table import (
    BAD,
    EMPTY,
    LineReader,
    Lookup,
    Problem,
    parse_number,
    parse_weight,
)
from mdaml.constraints.answers import ANSWER
from mdaml.constraints.checks import COLUMNS
from mdaml.constraints.names import NOBODY, find_meant
from mdaml.io.messages import shorten

Blocks = Iterator[tuple[Sequence[int], list[list[str]]]]


class Layout(NamedTuple):
    """What a file holds, and in which columns."""

    form: str | None = None
    columns: tuple[str, ...] | None = None  # of the file, in the order of the roles
    first_place: int | None = None  # answers are places among the options, counted from this
    other_lines: bool = False  # whether lines that name no point are something else


# Columns of each form where nothing else is said; a number stands for any digits.
ROLES = {
    "triplets": ("a", "b", "c"),
    "pairs": ("a", "b", "label"),
    "quadruplets": ("a", "b", "c", "d"),
    "choices": ("a", "b", "c", "answer"),
    "odd_one_out": ("item1", "odd"),
    "picks": ("anchor", "shown", "picked"),
    "rankings": ("anchor", "rank1"),
    "votes": ("a", "b", "c", "votes_b", "votes_c"),
    "grades": ("a", "b", "grade"),
    "positives": ("a", "b"),
}
PRESETS = {
    "salmon": Layout("triplets", ("head", "winner", "loser")),
    "things": Layout("odd_one_out", ("image1", "image2", "image3", "choice"), first_place=1),
    "jspsych": Layout("choices", ("anchor", "left", "right", "response"), 0, other_lines=True),
    "splink": Layout("pairs", ("unique_id_l", "unique_id_r", "clerical_match_score")),
}
_COMPARISONS = ("triplets", "pairs", "quadruplets")
_UNDECIDED = {"neither", "none", "tie", "equal", "both"}
_SIDES = {"b": 0, "c": 1, "left": 0, "right": 1, "1": 0, "2": 1}


def choose_layout(form: Any, columns: Any) -> Layout:
    """Return what a file holds, from the arguments of a user: a form or preset, and columns."""
    known = [*ROLES, *PRESETS]
    name = form if form is None else str(form).lower().replace("-", "_")
    if name is not None and name not in known:
        meant = find_meant(name, known)
        hint = f" Did you mean {meant!r}?" if meant else ""
        raise ValueError(f"form must be one of {', '.join(known)}; got {form!r}.{hint}")
    layout = PRESETS.get(name or "", Layout(name))
    if columns is None:
        return layout
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise TypeError(f"columns must be a list of names of columns, got {columns!r}.")
    names = tuple(column.strip() for column in columns)
    if layout.form is None:
        by_count = {3: "triplets", 4: "quadruplets"}
        if len(names) not in by_count:
            raise ValueError(
                f"columns must name three columns for triplets, or four for quadruplets, got "
                f"{len(names)}. For others pass form= too: one of {', '.join(known)}."
            )
        layout = Layout(by_count[len(names)])
    check_count(layout.form or "", names)
    return layout._replace(columns=names)


def check_count(form: str, columns: Sequence[str]) -> None:
    """Refuse another number of columns than a form has, and columns that are there twice."""
    wanted = ", ".join(ROLES[form])
    least, most = len(ROLES[form]), len(ROLES[form])
    if form == "votes":
        wanted, most = f"{wanted} and perhaps neither", 6
    elif form == "rankings":
        wanted, least, most = f"{wanted}, rank2 and so on, or one column of lists", 2, 1000
    elif form == "odd_one_out":
        wanted, least, most = "item1, item2, item3 and so on, odd", 4, 1000
    if not least <= len(columns) <= most or len(set(columns)) < len(columns):
        raise ValueError(
            f"columns of {form} are, in this order, {wanted}; got {', '.join(columns)}."
        )


def find_columns(path: Path, header: Sequence[str], layout: Layout) -> list[int]:
    """Return the place in the header of each column of a layout."""
    names = [name.strip() for name in header]
    folded = [name.casefold() for name in names]
    wanted = list(layout.columns or _default_columns(layout.form or "", folded))
    places = []
    for name in wanted:
        if name not in names and name.casefold() not in folded:
            meant = find_meant(name, names)
            hint = f" Did you mean {meant!r}?" if meant else ""
            raise ValueError(
                f"{path}: there is no column {name!r}, which {layout.form} need. Its columns are "
                f"{shorten(', '.join(names))}.{hint} Pass columns= to say which ones are "
                f"{', '.join(ROLES[layout.form or ''])}."
            )
        exact = name in names
        places.append(names.index(name) if exact else folded.index(name.casefold()))
    return places


def suggest_preset(header: Sequence[str]) -> str:
    """Return a sentence if a header is that of a program we know."""
    names = {name.strip().casefold() for name in header}
    for name, layout in PRESETS.items():
        if names >= set(layout.columns or ()):
            return f" It looks like a file of {name}: pass form={name!r}."
    for name, roles in ROLES.items():
        if name not in _COMPARISONS and names >= set(roles):
            return f" It looks like {name}: pass form={name!r}."
    return " Pass columns= to say which columns are a, b and c, or form= for another form."


def _default_columns(form: str, folded: Sequence[str]) -> list[str]:
    """Return the columns of a form; as many as there are where a form has any number of them."""
    columns = []
    for role in ROLES[form]:
        if role[-1].isdigit():
            numbered = [name for name in folded if re.fullmatch(rf"{role[:-1]}\d+", name)]
            columns += sorted(numbered, key=lambda name: int(re.sub(r"\D", "", name))) or [role]
        else:
            columns.append(role)
    return [*columns, "neither"] if form == "votes" and "neither" in folded else columns


class AnswerReader:
    """Turns lines of cells into arrays of answers, and collects the lines that are wrong."""

    def __init__(self, path: Path, points: LineReader, layout: Layout) -> None:
        self.problems: list[Problem] = []
        self.n_lines = 0
        self._path, self._points, self._layout = path, points, layout
        self._roles: list[int] = []
        self._header: list[str] = []

    def read(self, blocks: Blocks) -> tuple[list[npt.NDArray[Any]], dict[str, Any], FloatArray]:
        """Return the arrays of the answers, their other columns, and their weights."""
        _, first = next(blocks)
        self._header = [cell.strip() for (cell,) in first]
        self._roles = find_columns(self._path, self._header, self._layout)
        found = [block for lines, cells in blocks if (block := self._parse_block(lines, cells))]
        self.problems.sort(key=lambda problem: problem.line)
        if self.n_lines == len(self.problems):
            first_one = f"; {self.problems[0]}" if self.problems else ""
            raise ValueError(f"{self._path}: none of {self.n_lines} lines is an answer{first_one}.")
        parts = [_join(column) for column in zip(*found, strict=True)]
        n_own = len(self._own_columns())
        answers, weight, own = parts[: -n_own - 1], parts[-n_own - 1], parts[len(parts) - n_own :]
        return answers, dict(zip(self._own_columns().values(), own, strict=True)), weight

    def _own_columns(self) -> dict[int, str]:
        """Return the names of the columns that have no role, by place; none that has a meaning."""
        names = {}
        for place, name in enumerate(self._header):
            if place not in self._roles and name.lower() != "weight":
                taken = name.lower() in COLUMNS or name == ANSWER
                names[place] = f"{name} (file)" if taken else name or f"column {place + 1}"
        return names

    def _parse_block(self, lines: Sequence[int], columns: list[list[str]]) -> list[Any] | None:
        if len(columns) != len(self._header):
            row = [cell for (cell,) in columns]
            wanted = f"{len(row)} cells where {len(self._header)} are wanted"
            self._refuse(lines[0], row, wanted)
            return None
        cells = [columns[place] for place in self._roles]
        answers, faults = _PARSERS[self._layout.form or ""](self, cells)
        weight = self._weights(columns)
        faults.append((~(weight > 0), "the weight is not a number from 1e-100 to 1e100"))
        bad = np.any([mask for mask, _ in faults], axis=0)
        other = self._is_other(cells) if self._layout.other_lines else np.zeros(len(lines), bool)
        for place in np.flatnonzero(bad & ~other).tolist():
            reasons = (reason for mask, reason in faults if mask[place])
            self._refuse(lines[place], [column[place] for column in columns], next(reasons), place)
        kept = ~bad & ~other
        self.n_lines += int(kept.sum())
        own = [self._points.share_texts(columns[place]) for place in self._own_columns()]
        return [part[kept] for part in (*answers, weight, *own)] if kept.any() else None

    def _weights(self, columns: list[list[str]]) -> FloatArray:
        for name, column in zip(self._header, columns, strict=True):
            if name.lower() == "weight":
                return np.array([1.0 if not cell else parse_weight(cell) for cell in column])
        return np.ones(len(columns[0]))

    def _is_other(self, cells: Sequence[Sequence[str]]) -> BoolArray:
        """Say which lines name no point at all: other trials of an experiment."""
        return np.array([not any(row) for row in zip(*cells[:-1], strict=True)])

    def _refuse(self, line: int, row: list[str], reason: Any, place: int = 0) -> None:
        text = ",".join(row)
        if text.strip(", \t"):  # spreadsheets end in lines of commas
            self.n_lines += 1
            why = reason(place) if callable(reason) else reason
            self.problems.append(Problem(line, shorten(text), shorten(why)))

    # Cells of a block

    def points(
        self, cells: list[list[str]], *, may_miss: bool = False
    ) -> tuple[IntArray, list[Any]]:
        """Return rows of X, (n, k), -1 for empty cells, and what is wrong with cells."""
        rows = np.stack([self._points.find_points(column) for column in cells], axis=1)
        wrong = (rows == BAD) if may_miss else (rows < 0)

        def describe(place: int) -> str:
            which = int(np.argmax(wrong[place]))
            name = self._header[self._roles[which]]
            return f"{name} is {self._points.describe_point(cells[which][place])}"

        return np.where(rows == EMPTY, NOBODY, rows), [(wrong.any(axis=1), describe)]

    def lists(self, cells: list[str]) -> tuple[IntArray, list[Any]]:
        """Return rows of X of cells that hold several points, (n, longest), -1 behind the last."""
        joined = "|".join(cells)
        if any(mark in joined for mark in "[; "):
            cells = ["|".join(_split(cell)) for cell in cells]
            joined = "|".join(cells)
        # One list of all points, and where each line begins: a list for each line costs more.
        points = joined.split("|")
        lengths = np.fromiter((cell.count("|") for cell in cells), np.int64, len(cells)) + 1
        ends = np.cumsum(lengths)
        rows = np.full((len(cells), int(lengths.max())), EMPTY)
        places = np.arange(len(points)) - np.repeat(ends - lengths, lengths)
        rows[np.repeat(np.arange(len(cells)), lengths), places] = self._points.find_points(points)

        def describe(place: int) -> str:
            which = int(ends[place] - lengths[place] + np.argmax(rows[place] == BAD))
            return f"a list names {self._points.describe_point(points[which])}"

        return np.where(rows == EMPTY, NOBODY, rows), [(np.any(rows == BAD, axis=1), describe)]

    def places(self, cells: list[str], options: list[list[str]]) -> tuple[IntArray, list[Any]]:
        """Return which of the options was the answer, by name or place; -1 for neither."""
        place = Lookup([], partial(_find_place, len(options), self._layout.first_place)).get_all(
            cells
        )
        if self._layout.first_place is None:
            for number, option in enumerate(options):
                place[np.array(cells, object) == np.array(option, object)] = number

        def describe(line: int) -> str:
            shown = ", ".join(option[line] for option in options)
            return f"the answer {cells[line]!r} is none of {shown}"

        return place, [(place == -2, "there is no answer"), (place == -3, describe)]


def _join(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return blocks in one array; lists are made as long as the longest."""
    width = max((part.shape[1] for part in parts if part.ndim == 2), default=0)
    if parts[0].ndim == 2 and any(part.shape[1] < width for part in parts):
        parts = [
            np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=NOBODY)
            for part in parts
        ]
    return np.concatenate(parts)


def _split(cell: str) -> list[str]:
    """Return the points that one cell names: a JSON list, or texts with | or ; between."""
    text = cell.strip()
    if text.startswith("["):
        try:
            return [str(item) for item in json.loads(text)]
        except ValueError:
            return [text]
    mark = "|" if "|" in text else ";"
    return [part.strip() for part in text.split(mark) if part.strip()]


def _find_place(n_options: int, first: int | None, cell: str) -> int:
    """Return the option that a text means; -1 for neither, -2 for no answer, -3 for nonsense."""
    text = cell.strip().lower().removesuffix(".0")
    if first is not None and text.isdigit():
        place = int(text) - first
        neither = NOBODY if place == n_options == 2 else -3
        return place if 0 <= place < n_options else neither
    if text in _UNDECIDED:
        return NOBODY
    if n_options == 2 and text in _SIDES:
        return _SIDES[text]
    return -2 if text in ("", "null") else -3


def _numbers(cells: Sequence[str]) -> FloatArray:
    return Lookup([], parse_number).get_all(cells, np.float64)


Parsed = tuple[tuple[npt.NDArray[Any], ...], list[Any]]


def _parse_odd_one_out(reader: AnswerReader, cells: list[list[str]]) -> Parsed:
    items, faults = reader.points(cells[:-1])
    place, more = reader.places(cells[-1], cells[:-1])
    odd = np.where(place >= 0, items[np.arange(len(items)), np.maximum(place, 0)], place)
    return (items, odd), [*faults, *more, *answer_checks.faults_odd_one_out(items, place)]


def _parse_choices(reader: AnswerReader, cells: list[list[str]]) -> Parsed:
    questions, faults = reader.points(cells[:3])
    place, more = reader.places(cells[3], cells[1:3])
    votes = np.eye(3)[np.where(place >= 0, place, 2)]
    return (questions, votes), [*faults, *more, *answer_checks.faults_votes(questions, votes)]


def _parse_votes(reader: AnswerReader, cells: list[list[str]]) -> Parsed:
    questions, faults = reader.points(cells[:3])
    votes = np.stack([_numbers(column) for column in cells[3:]], axis=1)
    return (questions, votes), [*faults, *answer_checks.faults_votes(questions, votes)]


def _parse_rankings(reader: AnswerReader, cells: list[list[str]]) -> Parsed:
    anchor, faults = reader.points(cells[:1])
    if len(cells) == 2:
        ranked, more = reader.lists(cells[1])
    else:
        ranked, more = reader.points(cells[1:], may_miss=True)
    own = answer_checks.faults_rankings(anchor[:, 0], ranked)
    return (anchor[:, 0], ranked), [*faults, *more, *own]


def _parse_picks(reader: AnswerReader, cells: list[list[str]]) -> Parsed:
    anchor, faults = reader.points(cells[:1])
    (shown, of_shown), (picked, of_picked) = map(reader.lists, cells[1:])
    strangers = (picked >= 0) & ~np.any(picked[:, :, None] == shown[:, None, :], axis=2)
    own = answer_checks.faults_picks(anchor[:, 0], shown, strangers.any(axis=1))
    return (anchor[:, 0], shown, picked), [*faults, *of_shown, *of_picked, *own]


def _parse_grades(reader: AnswerReader, cells: list[list[str]]) -> Parsed:
    pairs, faults = reader.points(cells[:2])
    grades = _numbers(cells[2])
    return (pairs, grades), [*faults, *answer_checks.faults_grades(pairs, grades)]


def _parse_positives(reader: AnswerReader, cells: list[list[str]]) -> Parsed:
    pairs, faults = reader.points(cells)
    return (pairs,), [*faults, *answer_checks.faults_positives(pairs)]


_PARSERS: dict[str, Callable[[AnswerReader, list[list[str]]], Parsed]] = {
    "odd_one_out": _parse_odd_one_out,
    "choices": _parse_choices,
    "votes": _parse_votes,
    "rankings": _parse_rankings,
    "picks": _parse_picks,
    "grades": _parse_grades,
    "positives": _parse_positives,
}

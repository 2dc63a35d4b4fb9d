"""Data and comparisons in files: read, checked against each other, counted and described."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from mdaml._typing import Params
from mdaml.cli._screen import CommandError, Screen, convert_errors
from mdaml.io.columns import Table
from mdaml.io.messages import check_readable, join_names, split_names
from mdaml.io.preparation import Preparation
from mdaml.io.tables import read_table
from mdaml.io.texts import read_texts

if TYPE_CHECKING:
    from mdaml.constraints import Constraints
    from mdaml.constraints.forms.layout import Layout

Settings: TypeAlias = Params  # of read_table
KINDS = ("triplets", "pairs", "quadruplets")
_MAX_PROBLEMS = 10  # shown
# Settings of the library, and the options that give them.
_OPTIONS = {
    "ids": "--id COLUMN",
    "clicks": "--clicks of mdaml adapt",
    "columns": "--columns",
    "form": "--form",
    "id_column": "--id",
    "label_column": "--labels",
    "drop": "--drop",
    "categorical": "--categorical",
    "missing": "--missing",
    "duplicates": "--duplicates",
    "encoding": "--encoding",
    "na": "--na",
}


_NUMBER_FOR_ID = re.compile(r"'\d+', which is not one of the ids")


def name_option(name: str, value: str) -> str:
    """Return an option with its value, for messages of the library that say what to pass."""
    return " ".join(filter(None, [_OPTIONS[name], value and shlex.quote(value)]))


def check_file(path: Path) -> None:
    """Refuse a path that is no file which can be read."""
    try:
        check_readable(path)
    except (OSError, ValueError) as error:
        is_missing = isinstance(error, FileNotFoundError) and not path.is_symlink()
        raise CommandError(f"There is no file {path}." if is_missing else str(error)) from None


def choose_columns(
    id_column: str | None,
    drop: Sequence[str] | None,
    labels: str | None = None,
    known: Preparation | None = None,
    encoding: str | None = None,
    **preparation: object,
) -> Settings:
    """Return the options of :func:`read_table`; names may be separated by commas."""
    given = {name: _split(value) for name, value in (("drop", drop), *preparation.items())}
    given |= {"id_column": id_column, "label_column": labels, "known": known, "encoding": encoding}
    return given | {"naming": name_option}


def _split(names: object) -> object:
    """Return names that are separated by commas one by one; other values as they are."""
    if names is None or isinstance(names, list):
        return [name for part in names or () for name in split_names(part)]
    return names


class AnswerFile(NamedTuple):
    """A file of answers, and what it should hold."""

    kind: str  # of KINDS, or "constraints"
    path: Path
    layout: "Layout"


def list_files(
    by_kind: Sequence[Sequence[Path] | None], columns: str | None = None, form: str | None = None
) -> list[AnswerFile]:
    """Return files of answers with what each should hold; names of columns are parted by commas."""
    from mdaml.constraints.forms.layout import choose_layout

    kinds = zip((*KINDS, "constraints"), by_kind, strict=True)
    files = [(kind, path) for kind, paths in kinds for path in paths or ()]
    if not files and (columns or form):
        option = "--columns" if columns else "--form"
        raise CommandError(f"{option} is about files of answers: give --triplets, or others, too.")
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    listed = []
    for kind, path in files:
        own = kind if form is None and names and kind != "constraints" else form
        with convert_errors():
            listed.append(AnswerFile(kind, path, choose_layout(own, names, name_option)))
    return listed


def check_scored(files: Sequence[AnswerFile], labels: str | None) -> None:
    """Refuse a score by neither comparisons nor labels."""
    if not files and labels is None:
        raise CommandError("There is nothing to score by: give --triplets, --pairs or --labels.")


def read_inputs(
    data: Path, columns: Settings, files: Sequence[AnswerFile], screen: Screen, skip_invalid: bool
) -> "tuple[Table, Constraints | None]":
    """Read the table and the comparisons of its rows, if there are any, and describe them."""
    from mdaml.constraints.checks import warn_of_odd_labels

    constraints = None
    with screen.show_progress(f"reading {data}"), screen.collect_warnings():
        try:
            table = read_data(data, columns)
        except CommandError:
            _refuse_answers(data, files)
            raise
        if files:
            constraints, problems = _read_comparisons(files, table, skip_invalid)
    screen.add_fact("data", _describe_table(table), describe_data(table))
    if constraints is not None:
        _describe_comparisons(constraints, [str(file.path) for file in files], problems, screen)
    if table.changes:
        screen.add_fact("prepared", describe_changes(table.changes), dict(table.changes))
    if table.labels is not None:
        with convert_errors(), screen.collect_warnings():
            codes = table.encode_labels()
            where = f"Column {table.label_column!r}" if table.is_named else table.label_column
            warn_of_odd_labels(table.labels[codes != -1], str(where), _name_remedy)
        n_classes, n_without = len(np.unique(codes[codes != -1])), int(np.sum(codes == -1))
        text = f"{n_classes} classes; {count(n_without, 'row')} without a label"
        screen.add_fact("labels", text, {"classes": n_classes, "rows_without": n_without})
    return table, constraints


def _name_remedy(label: str) -> str:
    """Return what to do about a label that probably means that there is none."""
    return f"Leave these cells empty, or pass {name_option('na', join_names([label]))}."


def _refuse_answers(data: Path, files: Sequence[AnswerFile]) -> None:
    """Refuse a table that cannot be read if it has the columns that a file of answers should."""
    from mdaml.constraints.forms.layout import COMPARISONS, find_columns

    layouts = [layout for _, _, layout in files]
    named = [each.columns or each.form not in (None, *COMPARISONS) for each in layouts]
    if not (named and all(named)):
        return  # items may have features of the names a, b and c
    try:
        header = [column[0].strip() for column in next(read_texts(data), ([], []))[1]]
        for layout in layouts:
            find_columns(data, header, layout, name_option)
    except (OSError, ValueError):  # no such columns, or no text: the first error says what is wrong
        return
    raise CommandError(
        f"{data} has the columns of answers, not of items. The table of items comes first, and "
        f"answers follow an option, such as --constraints {data}."
    )


def read_data(path: Path, columns: Settings) -> Table:
    """Read a table; report what is wrong with it as bad input."""
    check_file(path)
    with name_problems():
        return read_table(path, **columns)


def read_labelled(path: Path, columns: Settings, screen: Screen) -> Table:
    """Read a table whose rows with a label are neighbours of others."""
    with screen.show_progress(f"reading {path}"), screen.collect_warnings():
        table = read_data(path, columns)
    if table.labels is None:
        raise CommandError(f"{path}: which column has the labels? Pass --labels COLUMN.")
    with convert_errors():
        table.encode_labels()  # or refuse continuous values
    return table


@contextmanager
def name_problems() -> Iterator[None]:
    """Report what is wrong with a table as bad input; problems are lines above the message."""
    try:
        yield
    except ValueError as error:
        *details, message = str(error).split("\n")
        raise CommandError(message, details=details) from error


def describe_data(table: Table) -> dict[str, object]:
    """Return what the JSON document says of a table."""
    return {
        "file": str(table.path),
        "rows": len(table.X),
        "features": list(table.features),
        "id": table.id_column,
        "labels": table.label_column,
    }


def describe_changes(changes: Mapping[str, int]) -> str:
    """Return what was done about empty cells and unknown categories."""
    parts = (what.partition(" ") for what in changes)
    return ", ".join(
        f"{count(n, noun[:-1])} {rest}"
        for n, (noun, _, rest) in zip(changes.values(), parts, strict=True)
    )


def _describe_table(table: Table) -> str:
    where = table.id_column or "the first column, which has no name"
    if table.is_named and table.id_column:
        where = f"column {table.id_column!r}"
    n, d = table.X.shape
    ids = "row numbers" if table.id_column is None else f"ids in {where}"
    columns = () if table.preparation is None else table.preparation.columns
    of = f" from {len(columns)} columns" if len(columns) not in (0, d) else ""
    return f"{table.path}: {n} rows, {d} features{of}, {ids}"


def _describe_comparisons(
    constraints: "Constraints", files: list[str], problems: list[str], screen: Screen
) -> None:
    counts = constraints.counts()
    parts = [count(n, kind[:-1]) for kind in KINDS if (n := len(getattr(constraints, kind)))]
    odd = [
        count(len(problems), "line skipped", "lines skipped"),
        count(counts.duplicates, "duplicate"),
        count(counts.contradictions, "contradiction"),
        *([count(counts.ties, "undecided answer")] if counts.ties else []),
    ]
    text = f"{', '.join(files)}: {', '.join(parts)} of {counts.points} points; {', '.join(odd)}"
    skipped = {"skipped": len(problems), "problems": problems[:_MAX_PROBLEMS]}
    screen.add_fact("comparisons", text, {"files": files, **asdict(counts), **skipped})


def count(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def _read_comparisons(
    files: Sequence[AnswerFile], table: Table, skip_invalid: bool
) -> "tuple[Constraints, list[str]]":
    """Return the comparisons of all files, and their wrong lines, if these may be skipped."""
    from mdaml.constraints import Constraints

    parts, problems, n_lines = list[Constraints](), list[str](), 0
    for kind, path, layout in files:
        value, wrong, n_read = _read_file(path, table, layout)
        others = [name for name in KINDS if name != kind and len(getattr(value, name))]
        if others and kind != "constraints":
            raise CommandError(
                f"--{kind}: {path} holds {others[0]}. Pass --{others[0]} {path}, or --constraints "
                "for a mixture."
            )
        n_lines += n_read
        problems += wrong
        parts.append(value)
    if problems and not skip_invalid:
        more = len(problems) - _MAX_PROBLEMS
        details = problems[:_MAX_PROBLEMS] + ([f"… and {more} more"] if more > 0 else [])
        message = f"{len(problems)} of {count(n_lines, 'line')} cannot be used. "
        raise CommandError(f"{message}Fix them, or pass --skip-invalid.", details=details)
    return Constraints.concat(parts), problems


def _read_file(path: Path, table: Table, layout: "Layout") -> "tuple[Constraints, list[str], int]":
    from mdaml.constraints import Constraints
    from mdaml.constraints.files import read_lines

    check_file(path)
    encoding = None if table.preparation is None else table.preparation.encoding
    try:
        value, wrong, n_lines = read_lines(
            Constraints, path, table.ids, len(table.X), layout, encoding, name_option
        )
    except ValueError as error:
        message = str(error)
        if "not one of the ids" in message or "not an integer" in message:
            message += f" {table.describe_names()}"
            if _NUMBER_FOR_ID.search(message):
                message += f" For row numbers pass --drop {shlex.quote(table.id_column or '')}."
        raise CommandError(message) from None
    problems = [f"{path}:{p.line}: {p.reason} ({p.text})" for p in wrong]
    return value, problems, n_lines

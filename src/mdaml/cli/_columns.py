"""Which columns of a table are features, and which name or label its rows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from mdaml._typing import FloatArray
from mdaml.cli._output import CommandError

# Data frames write their index like this; it is never a feature.
_INDEX = re.compile(r"|__index_level_\d+__")


@dataclass(frozen=True)
class Wanted:
    """What a user says of the columns."""

    id: str | None = None
    labels: str | None = None
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None  # those of a model; None: all that are left


@dataclass(frozen=True)
class Columns:
    """The part of each column of a table; names are None where the file has none."""

    features: tuple[str, ...]
    id: str | None = None
    labels: str | None = None
    named: bool = True  # whether the names are the file's own
    by_model: bool = False  # whether the features were chosen by a model


@dataclass(frozen=True)
class Block:
    """Some rows: all numbers finite, ids and labels as text."""

    X: FloatArray  # (n, d)
    ids: npt.NDArray[Any] | None
    labels: npt.NDArray[Any] | None


class Source(Protocol):
    """A table in a file that can be read block by block."""

    path: Path
    columns: Columns

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order, or refuse the file naming the place of what is wrong."""
        ...

    def place(self, row: int) -> str:
        """Return file and line of a row."""
        ...


def choose_columns(path: Path, names: Sequence[str], wanted: Wanted, named: bool = True) -> Columns:
    """Give each column its part, or refuse what does not fit."""
    again = [name for place, name in enumerate(names) if name in names[:place]]
    if again:
        raise CommandError(f"{path}: the column {again[0]!r} is there twice. Rename one.")
    for option, given in (("--id", wanted.id), ("--labels", wanted.labels)):
        if given is not None and given not in names:
            raise CommandError(_absent(path, names, given, f"{option} {given}"))
    for given in wanted.drop:
        if given not in names:
            raise CommandError(_absent(path, names, given, f"--drop {given}"))
    by_name = wanted.features is not None and named
    own = wanted.features or ()
    id_name = wanted.id
    if id_name is None:
        taken = {wanted.labels, *wanted.drop, *(own if by_name else ())}
        id_name = _default_id([name for name in names if name not in taken])
    if by_name:
        missing = [name for name in own if name not in names]
        if missing:
            raise CommandError(_absent(path, names, missing[0], "a feature of the model"))
        return Columns(own, id_name, wanted.labels, by_model=True)
    others = {id_name, wanted.labels, *wanted.drop}
    features = tuple(n for n in names if n not in others and not _INDEX.fullmatch(n))
    if not features:
        raise CommandError(f"{path}: there is no column left that could be a feature.")
    return Columns(features, id_name, wanted.labels, named)


def _default_id(names: Sequence[str]) -> str | None:
    """Return the column that is called id in some spelling, or the index of a data frame."""
    called_id = [name for name in names if name.lower() == "id"]
    index = [name for name in names if _INDEX.fullmatch(name)]
    return next(iter(called_id + index), None)


def _absent(path: Path, names: Sequence[str], name: str, what: str) -> str:
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return f"{path}: there is no column {name!r} ({what}). Its columns are {shown}."


def describe_id(column: str) -> str:
    """Return the name of an id column for people."""
    return f"column {column!r}" if column else "the first column, which has no name"

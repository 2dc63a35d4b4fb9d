"""A table, and which of its columns are ids, labels, numbers and categories."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mdaml._typing import BoolArray, FloatArray
from mdaml.io.formats import is_fraction
from mdaml.io.messages import Naming, join_names, name_argument, shorten, suggest_name
from mdaml.io.preparation import MISSING, Preparation
from mdaml.io.texts import Texts

CONTINUOUS = "labels are classes. Cut the values into classes, or learn from comparisons."
# Data frames write their index like this; it is never a feature.
_INDEX = re.compile(r"|__index_level_\d+__")


@dataclass(frozen=True)
class Table:
    """Rows of a file: finite numbers, with ids and labels as text where there are any.

    Attributes
    ----------
    path : Path
        The file.
    X : array of shape (n_rows, n_features)
        Of a whole NPY file of floats a memory map.
    features : tuple of str
        Names of the columns of X.
    id_column, label_column : str or None
        Where ids and labels come from: a column, or with NPY another file.
    is_named : bool
        Whether the names of the features are the file's own.
    ids : array of str of shape (n_rows,) or None
        Distinct in a whole table.
    labels : array of str of shape (n_rows,) or None
        Empty where a row has no label.
    texts : mapping of str to array of str of shape (n_rows,)
        Columns of categories, before they become features of X.
    preparation : Preparation or None
        How columns became features.
    changes : mapping of str to int
        How many rows were left out, cells filled in, cells of unknown categories found.
    naming : callable
        How whoever reads the table gives a setting a value, for messages.
    """

    path: Path
    X: FloatArray
    features: tuple[str, ...]
    id_column: str | None = None
    label_column: str | None = None
    is_named: bool = True
    ids: Texts | None = None
    labels: Texts | None = None
    texts: Mapping[str, Texts] = field(default_factory=dict)
    preparation: Preparation | None = None
    changes: Mapping[str, int] = field(default_factory=dict)
    naming: Naming = name_argument

    def select(self, keep: BoolArray, what: str) -> "Table":
        """Return some of the rows; the number of others is added to the changes."""
        ids, labels = (None if part is None else part[keep] for part in (self.ids, self.labels))
        texts = {name: cells[keep] for name, cells in self.texts.items()}
        X, changes = np.asarray(self.X)[keep], {**self.changes, what: int(np.sum(~keep))}
        return replace(self, X=X, ids=ids, labels=labels, texts=texts, changes=changes)

    def get_name(self, row: int) -> str:
        """Return the id of a row, or its number."""
        return str(row if self.ids is None else self.ids[row])

    def describe_names(self) -> str:
        """Return a sentence on how rows are named."""
        if self.ids is None:
            setting = self.naming("id_column", "")
            numbers = f"The rows of {self.path} are numbered 0 to {len(self.X) - 1}"
            return f"{numbers}; {setting} names a column of ids."
        shown = ", ".join(map(repr, self.ids[:3].tolist()))
        return f"Ids of {self.path} look like {shown}."

    def find_rows(self, names: Sequence[str]) -> list[int]:
        """Return the rows with these ids, or with these numbers where there are no ids."""
        known = map(str, range(len(self.X))) if self.ids is None else self.ids.tolist()
        wanted = set(names)
        rows = {name: row for row, name in enumerate(known) if name in wanted}
        unknown = [name for name in names if name not in rows]
        if unknown:
            kind = "row" if self.ids is None else "id"
            raise ValueError(f"There is no {kind} {shorten(unknown[0])!r}. {self.describe_names()}")
        return [rows[name] for name in names]

    def name_labels(self) -> Texts:
        """Return the labels as texts, -1 for rows without a label."""
        assert self.labels is not None
        return np.where(self.encode_labels() == -1, -1, self.labels)

    def encode_labels(self) -> npt.NDArray[np.int64]:
        """Return the labels as integers, -1 for rows without a label.

        Labels that are whole numbers keep their value; others are numbered in alphabetical order.
        """
        assert self.labels is not None
        na = MISSING if self.preparation is None else self.preparation.na
        known = ~np.isin(self.labels.astype(str), (*na, "-1"))
        values = self.labels[known].tolist()
        codes = np.full(len(self.labels), -1)
        try:
            numbers = np.array([float(value.replace(",", ".")) for value in values])
        except ValueError:
            codes[known] = np.unique(np.array(values, str), return_inverse=True)[1]
            return codes
        fractions = list(filter(is_fraction, values))
        if fractions:
            setting = self.naming("label_column", self.label_column or "")
            raise ValueError(
                f"{setting}: {self.path} holds continuous values there, such as {fractions[0]}; "
                f"{CONTINUOUS}"
            )
        codes[known] = np.unique(numbers, return_inverse=True)[1]
        if np.abs(numbers).max(initial=0) < 2**53:
            codes[known] = numbers
        return codes


@dataclass(frozen=True)
class Wanted:
    """What to read of a table; see :func:`read_blocks`."""

    id_column: str | None = None
    label_column: str | None = None
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    missing: str = "error"
    known: Preparation | None = None
    distinct_ids: bool = False
    duplicates: str = "error"
    encoding: str | None = None
    na: Sequence[str] = ()
    naming: Naming = name_argument

    @property
    def text_encoding(self) -> str | None:
        """That of text files which are neither UTF-8 nor UTF-16, if it is known."""
        return self.encoding or (self.known.encoding if self.known else None)


def choose_columns(
    path: Path, names: Sequence[str], wanted: Wanted, texts: Sequence[str] = (), *, named: bool
) -> Table:
    """Return a table without rows, or refuse columns that do not fit; texts are its text columns.

    The columns of a model are found by name if both have names, otherwise by their place.
    """
    known = wanted.known
    by_name = known is not None and known.is_named and named
    _check_names(path, names, wanted, known.columns if known is not None and by_name else ())
    used = {wanted.label_column, *wanted.drop, *(known.columns if known and by_name else ())}
    id_column, label_column = wanted.id_column, wanted.label_column
    if id_column is None:
        free = [name for name in names if name not in used]
        called_id = [name for name in free if name.lower() == "id"]
        remembered = [name for name in free if by_name and known and name == known.id_column]
        index = filter(_INDEX.fullmatch, free)
        id_column = next(chain(remembered, called_id, index), None)
    others = {id_column, label_column, *wanted.drop}
    columns = [n for n in names if n not in others and not _INDEX.fullmatch(n)]
    if known is not None and by_name:
        preparation = known
    elif known is not None and not known.categories and len(known.columns) == len(columns):
        fills = {
            new: known.fills[old]
            for old, new in zip(known.columns, columns, strict=True)
            if old in known.fills
        }
        preparation = replace(known, columns=tuple(columns), fills=fills)
    else:
        chosen = [n for n in columns if n in texts] if wanted.categorical == ["auto"] else None
        categories = dict.fromkeys(wanted.categorical if chosen is None else chosen, ())
        missing = wanted.missing if known is None else "error"
        preparation = Preparation(
            tuple(columns), named, id_column, label_column, missing, {}, categories
        )
    if not preparation.columns:
        raise ValueError(f"{path}: there is no column left that could be a feature.")
    na = tuple(dict.fromkeys((*preparation.na, *(text.strip() for text in wanted.na))))
    preparation = replace(preparation, encoding=wanted.text_encoding, na=na)
    X = np.empty((0, len(preparation.numeric)))
    table = Table(path, X, preparation.numeric, id_column, label_column, named)
    return replace(table, preparation=preparation, naming=wanted.naming)


def _check_names(path: Path, names: Sequence[str], wanted: Wanted, features: Sequence[str]) -> None:
    """Refuse columns that are there twice, and all columns that are wanted and not there."""
    known = Counter(names)
    problems = [
        f"{path}: the column {name!r} is there twice. Rename one."
        for name, n_times in known.items()
        if n_times > 1
    ]
    settings = [("id_column", wanted.id_column), ("label_column", wanted.label_column)]
    settings += [("drop", name) for name in wanted.drop]
    if wanted.categorical != ["auto"]:
        settings += [("categorical", name) for name in wanted.categorical]
    asked = [
        (name, wanted.naming(what, join_names([name]) if what in ("drop", "categorical") else name))
        for what, name in settings
        if name is not None
    ]
    asked += [(name, "a feature of the model") for name in features]
    unknown = [(name, what) for name, what in asked if name not in known]
    for name, what in unknown[:10]:
        meant = suggest_name(name, names)
        problems.append(f"{path}: there is no column {name!r} ({what}).{meant}")
    if unknown:
        shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        problems[-1] += f" Its columns are {shown}."
    chosen = [name for _, name in settings if name is not None]
    twice = [name for name, n_times in Counter(chosen).items() if n_times > 1]
    if twice and not problems:
        problems.append(f"{path}: two options name the column {twice[0]!r}. Keep one of them.")
    if problems:
        raise ValueError("\n".join(problems))

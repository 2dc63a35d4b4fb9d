"""How columns of a table become features: empty cells, categories, and what a model remembers.

A table is first a matrix of one number for each cell: numbers as they are, categories by their
place in the list of the known ones, -1 where they are not known, and NaN where a cell is empty.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeAlias

import numpy as np

from mdaml._typing import Array, BoolArray, FloatArray, Matrix, Params
from mdaml._validation import warn
from mdaml.io.formats import is_number
from mdaml.io.messages import Naming, describe_twins, find_meant, join_names, shorten, suggest_name

Texts: TypeAlias = Array  # Python strings
Unknown: TypeAlias = Counter[tuple[str, str]]  # cells by column and category

# Cells of features and labels that hold nothing, as spreadsheets and statistics programs write it.
MISSING = (
    *("", "NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN"),
    *("NULL", "Null", "null", "None", "none", "?"),
)
RULES = ("error", "drop", "median")
_MAX_CATEGORIES = 100
_UNKNOWN = -1.0  # in place of a category


@dataclass(frozen=True)
class Preparation:
    """What was learned from the table of a fit about preparing others like it.

    Attributes
    ----------
    columns : tuple of str
        Columns of the table that are learned from, in their order.
    is_named : bool
        Whether these names are the table's own.
    id_column, label_column : str or None
        Columns of a table with names that hold ids and labels.
    missing : {"error", "drop", "median", "fill"}
        What happens to empty cells: the table is refused, the row is left out, or the cell gets the
        median of its column in the table of the fit, a category the most frequent one; or what
        `fills` has for its column, and is refused where that has nothing.
    fills : mapping of str to float or str
        What empty cells are filled with, by column.
    categories : mapping of str to sequence of str
        The known categories of columns that hold categories. Each becomes a feature of zeros and
        ones; of two, only the second. Others are none of them: all zeros.
    both : bool
        Whether two categories become two features.
    unknown : {"ignore", "error"}
        Whether a category that is not known is refused.
    na : tuple of str
        Cells that hold nothing, without the spaces around them.
    encoding : str or None
        Of text files that are neither UTF-8 nor UTF-16.
    """

    columns: tuple[str, ...]
    is_named: bool = True
    id_column: str | None = None
    label_column: str | None = None
    missing: str = "error"
    fills: Mapping[str, float | str] = field(default_factory=dict)
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    both: bool = False
    unknown: str = "ignore"
    na: tuple[str, ...] = MISSING
    encoding: str | None = None

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return tuple(name for name in self.columns if name not in self.categories)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, such as ``mass`` and ``island=Dream``."""
        return tuple(
            feature
            for name in self.columns
            for feature in (
                [f"{name}={value}" for value in self._indicated(name)]
                if name in self.categories
                else [name]
            )
        )

    def find_places(self, name: str) -> range:
        """Return the places of the categories of a column that become features."""
        return range(
            len(self.categories[name]) - len(self._indicated(name)), len(self.categories[name])
        )

    def order_of_features(self) -> list[int]:
        """Return where each feature is if all numbers come first, and the categories behind."""
        is_number = [name not in self.categories for name in self.columns]
        widths = [1 if n in self.numeric else len(self.find_places(n)) for n in self.columns]
        behind = np.repeat(~np.array(is_number), widths)
        return np.argsort(np.argsort(behind, kind="stable")).tolist()

    def learn(self, X: FloatArray, texts: Mapping[str, Texts], naming: Naming) -> "Preparation":
        """Return a preparation with the categories of a table and what its gaps are filled with."""
        categories = {name: _list_categories(name, cells, naming) for name, cells in texts.items()}
        fills: dict[str, float | str] = {}
        if self.missing == "median":
            for name, cells in zip(self.numeric, X.T, strict=True):
                if np.isnan(cells).all():
                    drop = naming("drop", join_names([name]))
                    raise ValueError(f"column {name!r} has no value at all. Pass {drop}.")
                fills[name] = float(np.nanmedian(cells))
            for name, cells in texts.items():
                values, counts = np.unique(cells[cells != ""].astype(str), return_counts=True)
                fills[name] = str(values[counts.argmax()])
        return replace(self, categories=categories, fills=fills)

    def find_gaps(self, X: FloatArray, texts: Mapping[str, Texts]) -> BoolArray:
        """Return the rows that have an empty cell which is not filled."""
        kept = [name not in self.fills for name in self.numeric]
        unfilled = [cells == "" for name, cells in texts.items() if name not in self.fills]
        return np.any([np.isnan(X[:, kept]).any(axis=1), *unfilled], axis=0)

    def join(self, X: FloatArray, texts: Mapping[str, Texts], unknown: Unknown) -> FloatArray:
        """Return one number for each cell, given columns of numbers and of texts.

        Categories that are not known are counted in `unknown`; see `warn_of_unknown`.
        """
        if not self.categories:
            return X
        numbers = iter(X.T)
        return np.column_stack(
            [
                self._to_places(name, texts[name], unknown)
                if name in self.categories
                else next(numbers)
                for name in self.columns
            ]
        )

    def read(self, X: Matrix) -> FloatArray:
        """Return one number for each cell of a data frame, or of an array of these columns.

        Columns of a frame are found by their names if the preparation knows them.
        """
        if isinstance(X, np.ndarray) and X.dtype.kind in "fiub" and not self.categories:
            self._check_shape(X)
            return X.astype(X.dtype if X.dtype == np.float32 else np.float64, copy=False)
        cells, unknown = zip(self.columns, self._take_columns(X), strict=True), Unknown()
        numbers = np.column_stack(
            [
                self._to_places(name, map(to_text, column.tolist()), unknown)
                if name in self.categories
                else _to_numbers(name, column, self.na)
                for name, column in cells
            ]
        )
        self.warn_of_unknown(unknown)
        return numbers

    def apply(self, X: Matrix) -> FloatArray:
        """Return the features of a data frame, or of an array of these columns; see `read`."""
        cells = self.read(X)
        gaps = np.isnan(cells) & np.array([name not in self.fills for name in self.columns])
        if gaps.any():
            row, place = np.argwhere(gaps)[0].tolist()
            raise ValueError(
                f"Row {row} (from 0) has an empty cell in column {self.columns[place]!r}; "
                f"the model does not fill in such cells ({gaps.sum()}). Fill them in, leave these "
                "rows out, or fit the model again to a table with empty cells that are filled in."
            )
        return self.encode(self.fill(cells)[0])[0]

    def fill(self, cells: FloatArray) -> tuple[FloatArray, int]:
        """Return cells whose gaps are filled in, where that is known, and how many there were."""
        gaps = np.isnan(cells)
        if not gaps.any():
            return cells, 0
        filled = np.where(gaps, self.fill_values(), cells).astype(cells.dtype, copy=False)
        return filled, int(gaps.sum())

    def fill_values(self) -> FloatArray:
        """Return what each column is filled with, as a number; NaN where there is nothing."""
        values: dict[str, object] = {
            name: self.categories[name].index(str(value)) if name in self.categories else value
            for name, value in self.fills.items()
        }
        return np.array([values.get(name, np.nan) for name in self.columns], np.float64)

    def encode(self, cells: FloatArray) -> tuple[FloatArray, int]:
        """Return the features, and the number of cells whose category is not known."""
        if not self.categories:
            return cells, 0
        features, n_unknown = list[Array](), 0
        for name, column in zip(self.columns, cells.T, strict=True):
            if name not in self.categories:
                features.append(column)
                continue
            known = self.categories[name]
            unknown = column == _UNKNOWN
            if self.unknown == "error" and unknown.any():
                raise ValueError(
                    f"Row {int(unknown.argmax())} (from 0): column {name!r} holds a category that "
                    f"the model does not know; it knows {shorten(', '.join(known))}."
                )
            n_unknown += int(unknown.sum())
            features += [column == place for place in self.find_places(name)]
        return np.column_stack(features).astype(cells.dtype, copy=False), n_unknown

    def warn_of_unknown(self, unknown: Unknown) -> None:
        """Name the categories that are not known, unless these are refused."""
        found: dict[str, list[str]] = {}
        for (name, text), n in unknown.most_common():
            meant = find_meant(text, self.categories[name]) if len(found.get(name, ())) < 5 else ""
            asked = f", perhaps {meant!r}" if meant else ""
            found.setdefault(name, []).append(f"{shorten(text, 60)!r} ({n}{asked})")
        for name, texts in found.items() if self.unknown == "ignore" else ():
            more = f" and {len(texts) - 5} more" if len(texts) > 5 else ""
            known = shorten(", ".join(self.categories[name]))
            warn(
                f"Found unknown categories in column {name!r}: {', '.join(texts[:5])}{more}. The "
                f"model treats them as none of the known ones ({known}). Correct misspelt ones."
            )

    def _to_places(self, name: str, texts: Iterable[str], unknown: Unknown) -> FloatArray:
        """Return the place of each category among the known, -1 for others, NaN for none."""
        places: dict[str, float] = {text: n for n, text in enumerate(self.categories[name])}

        def find(text: str) -> float:
            if text not in places:  # found once: the same categories occur in many rows
                plain = text.strip()
                empty = places.get("", np.nan)
                places[text] = empty if plain in self.na else places.get(plain, _UNKNOWN)
            if places[text] == _UNKNOWN:
                unknown[name, text.strip()] += 1
            return places[text]

        return np.array([find(text) for text in texts], np.float64)

    def _take_columns(self, X: Matrix) -> list[Array]:
        """Return the columns of a frame or array, in our order."""
        names = _list_names(X)
        if names is None or not self.is_named:
            self._check_shape(X)
            return [_take(X, place) for place in range(len(self.columns))]
        places = {name: place for place, name in enumerate(names)}
        lacking = [name for name in self.columns if name not in places]
        if lacking:
            more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
            columns = f"column{'s' * (len(lacking) > 1)} {', '.join(map(repr, lacking[:5]))}{more}"
            meant = suggest_name(lacking[0], names)
            raise ValueError(f"X has no {columns}, which the model needs.{meant}")
        return [_take(X, places[name]) for name in self.columns]

    def _check_shape(self, X: Matrix) -> None:
        shape = np.shape(X)
        if len(shape) != 2 or shape[1] != len(self.columns):
            wanted = shorten(", ".join(self.columns))
            raise ValueError(
                f"X must have the {len(self.columns)} columns of the fit ({wanted}), got shape "
                f"{shape}."
            )

    def _indicated(self, name: str) -> Sequence[str]:
        known = self.categories[name]
        return known[1:] if len(known) == 2 and not self.both else known

    def to_dict(self) -> dict[str, object]:
        """Return plain values that a model file can hold."""
        plain = asdict(self)
        plain["categories"] = {name: list(known) for name, known in self.categories.items()}
        return plain | {"columns": list(self.columns), "na": list(self.na)}

    @classmethod
    def from_dict(cls, plain: Params) -> "Preparation":
        """Return the preparation of a model file, which may hold anything."""
        try:
            na = tuple(plain.get("na", MISSING))  # files of the first candidate lack it
            known = cls(**plain | {"columns": tuple(plain["columns"]), "na": na})
            is_known = _is_consistent(known)
        except (AttributeError, KeyError, TypeError):
            is_known = False
        if not is_known:
            raise ValueError("its preparation_ is not one that mdaml fit writes")
        return known


def _is_consistent(known: Preparation) -> bool:
    """Return whether values of a file have the right types, and fit together."""
    kinds = {name: str if name in known.categories else float for name in known.columns}
    texts = [known.columns, known.na, *known.categories.values()]
    text_fills = set(known.fills) & set(known.categories)
    return (
        all(isinstance(text, str) for group in texts for text in group)
        and not any(isinstance(group, str) for group in texts)
        and all(
            name is None or isinstance(name, str)
            for name in (known.id_column, known.label_column, known.encoding)
        )
        and isinstance(known.is_named, bool)
        and isinstance(known.both, bool)
        and known.unknown in ("ignore", "error")
        and known.missing in (*RULES, "fill")
        and set(known.categories) <= set(known.columns)
        and set(known.fills) <= set(known.columns)
        and (known.missing in ("median", "fill") or not known.fills)
        and (known.missing != "median" or set(known.fills) == set(known.columns))
        and all(type(value) is kinds[name] for name, value in known.fills.items())
        and all(known.fills[name] in known.categories[name] for name in text_fills)
    )


def _list_categories(name: str, cells: Texts, naming: Naming) -> tuple[str, ...]:
    known = tuple(np.unique(cells[cells != ""].astype(str)).tolist())
    setting, drop = (naming(each, join_names([name])) for each in ("categorical", "drop"))
    twins = describe_twins(known)
    if twins:
        warn(f"Column {name!r} holds categories that differ in capitals or spaces only: {twins}")
    if len(known) > _MAX_CATEGORIES:
        raise ValueError(
            f"{setting}: there are {len(known)} different values, such as {known[0]!r}; at most "
            f"{_MAX_CATEGORIES} can be learned from. Group them, or pass {drop}."
        )
    if len(known) < 2:
        raise ValueError(f"{setting}: all rows have the same value. Pass {drop} instead.")
    return known


def _list_names(X: Matrix) -> list[str] | None:
    """Return the names of the columns of a data frame of any library, None for an array."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else [str(name) for name in names]


def _take(X: Matrix, place: int) -> Array:
    """Return a column of a data frame of any library, or of an array."""
    if hasattr(X, "iloc"):
        return np.asarray(X.iloc[:, place])
    if hasattr(X, "column_names"):  # PyArrow
        return np.asarray(X.column(place))
    return np.asarray(X[:, place] if hasattr(X, "shape") else [row[place] for row in X])


def to_text(value: object) -> str:
    """Return a category as text; whole numbers alike in every type, nothing where there is none."""
    if isinstance(value, str):
        return value
    if value is None or str(value) in ("nan", "<NA>", "NaT"):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _to_numbers(name: str, column: Array, na: Sequence[str]) -> FloatArray:
    """Return a column of numbers, NaN where there is none."""
    if column.dtype.kind in "mM":
        raise ValueError(f"Column {name!r} holds dates, but the model was fitted to numbers there.")
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        pass
    numbers = np.empty(len(column))
    for row, value in enumerate(column.tolist()):
        text = to_text(value).strip()
        try:
            numbers[row] = np.nan if text in na else float(text)
        except ValueError:
            raise ValueError(
                f"Column {name!r} must hold numbers, as in the fit; got {shorten(text)!r} in row "
                f"{row} (from 0).{_explain_comma(text, column)}"
            ) from None
    return numbers


def _explain_comma(text: str, column: Array) -> str:
    """Return why a number with a decimal comma is a text, and what to do about it."""
    if "," not in text or not is_number(text, ","):
        return ""
    texts = ((row, value) for row, value in enumerate(column.tolist()) if isinstance(value, str))
    for row, other in texts:
        if not is_number(other, ","):
            cell = shorten(other, 60)
            return (
                f" Read the file with decimal=','. If you did, {cell!r} in row {row} made the "
                f"column text: pass na_values=[{cell!r}], or correct it."
            )
    return " Read the file with decimal=','."

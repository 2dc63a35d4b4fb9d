"""How columns of a table become features: empty cells, categories, and what a model remembers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from mdaml._typing import Array, BoolArray, FloatArray
from mdaml.io.messages import Naming

Texts: TypeAlias = Array  # Python strings

# Cells of features and labels that hold nothing, as spreadsheets and statistics programs write it.
MISSING = (
    *("", "NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN"),
    *("NULL", "Null", "null", "None", "none", "?"),
)
RULES = ("error", "drop", "median")
_MAX_CATEGORIES = 100


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
    missing : {"error", "drop", "median"}
        What happens to empty cells: the table is refused, the row is left out, or the cell gets the
        median of its column in the table of the fit, a category the most frequent one.
    fills : mapping of str to float or str
        Medians and most frequent categories by column.
    categories : mapping of str to sequence of str
        The known categories of columns that hold categories, in alphabetical order. Each becomes a
        feature of zeros and ones; of two, only the second. Others are none of them: all zeros.
    """

    columns: tuple[str, ...]
    is_named: bool = True
    id_column: str | None = None
    label_column: str | None = None
    missing: str = "error"
    fills: Mapping[str, float | str] = field(default_factory=dict)
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)

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

    def learn(self, X: FloatArray, texts: Mapping[str, Texts], naming: Naming) -> "Preparation":
        """Return a preparation with the categories of a table and what its gaps are filled with."""
        categories = {name: _list_categories(name, cells, naming) for name, cells in texts.items()}
        fills: dict[str, float | str] = {}
        if self.missing == "median":
            for name, cells in zip(self.numeric, X.T, strict=True):
                if np.isnan(cells).all():
                    drop = naming("drop", name)
                    raise ValueError(f"column {name!r} has no value at all. Pass {drop}.")
                fills[name] = float(np.nanmedian(cells))
            for name, cells in texts.items():
                values, counts = np.unique(cells[cells != ""].astype(str), return_counts=True)
                fills[name] = str(values[counts.argmax()])
        return replace(self, categories=categories, fills=fills)

    def find_gaps(self, X: FloatArray, texts: Mapping[str, Texts]) -> BoolArray:
        """Return the rows that have an empty cell."""
        return np.any([np.isnan(X).any(axis=1), *(cells == "" for cells in texts.values())], axis=0)

    def fill(
        self, X: FloatArray, texts: Mapping[str, Texts]
    ) -> tuple[FloatArray, dict[str, Texts], int]:
        """Return numbers and texts without gaps, and how many there were."""
        gaps = np.isnan(X)
        n_filled = int(gaps.sum())
        if n_filled:
            medians = np.array([self.fills[name] for name in self.numeric])
            X = np.where(gaps, medians, X)
        filled = {}
        for name, cells in texts.items():
            n_filled += int(np.sum(cells == ""))
            filled[name] = np.where(cells == "", self.fills[name], cells)
        return X, filled, n_filled

    def encode(self, X: FloatArray, texts: Mapping[str, Texts]) -> tuple[FloatArray, int]:
        """Return the features, and the number of cells whose category is not known."""
        if not self.categories:
            return X, 0
        numbers = dict(zip(self.numeric, X.T, strict=True))
        features, n_unknown = list[Array](), 0
        for name in self.columns:
            if name in self.categories:
                cells = texts[name]
                features += [cells == value for value in self._indicated(name)]
                n_unknown += int(np.sum(~np.isin(cells.astype(str), self.categories[name])))
            else:
                features.append(numbers[name])
        return np.column_stack(features).astype(np.float64), n_unknown

    def _indicated(self, name: str) -> Sequence[str]:
        known = self.categories[name]
        return known[1:] if len(known) == 2 else known

    def to_dict(self) -> dict[str, object]:
        """Return plain values that a model file can hold."""
        plain = asdict(self)
        plain["categories"] = {name: list(known) for name, known in self.categories.items()}
        return plain | {"columns": list(self.columns)}

    @classmethod
    def from_dict(cls, plain: Any) -> "Preparation":
        """Return the preparation of a model file, which may hold anything."""
        try:
            known = cls(**plain | {"columns": tuple(plain["columns"])})
            is_known = _is_consistent(known)
        except (AttributeError, KeyError, TypeError):
            is_known = False
        if not is_known:
            raise ValueError("its preparation_ is not one that mdaml fit writes")
        return known


def _is_consistent(known: Preparation) -> bool:
    """Return whether values of a file have the right types, and fit together."""
    kinds = {name: str if name in known.categories else float for name in known.columns}
    texts = [known.columns, *known.categories.values()]
    return (
        all(isinstance(text, str) for group in texts for text in group)
        and not any(isinstance(group, str) for group in texts)
        and all(
            name is None or isinstance(name, str) for name in (known.id_column, known.label_column)
        )
        and isinstance(known.is_named, bool)
        and known.missing in RULES
        and set(known.categories) <= set(known.columns)
        and set(known.fills) == (set(known.columns) if known.missing == "median" else set())
        and all(type(value) is kinds[name] for name, value in known.fills.items())
    )


def _list_categories(name: str, cells: Texts, naming: Naming) -> tuple[str, ...]:
    known = tuple(np.unique(cells[cells != ""].astype(str)).tolist())
    setting, drop = naming("categorical", name), naming("drop", name)
    if len(known) > _MAX_CATEGORIES:
        raise ValueError(
            f"{setting}: there are {len(known)} different values, such as {known[0]!r}; at most "
            f"{_MAX_CATEGORIES} can be learned from. Group them, or pass {drop}."
        )
    if len(known) < 2:
        raise ValueError(f"{setting}: all rows have the same value. Pass {drop} instead.")
    return known

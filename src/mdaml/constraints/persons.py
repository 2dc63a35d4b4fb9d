"""Who gave each answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mdaml._typing import Array, ArrayLike, BoolArray, FloatArray, IntArray
from mdaml.constraints.names import to_array

if TYPE_CHECKING:
    from mdaml.constraints.value import Constraints


@dataclass(frozen=True)
class Persons:
    """Sorted names of persons, and for each answer the place of its person among them."""

    names: Array  # (P,) strings or integers
    codes: IntArray  # (n,)

    @classmethod
    def from_who(cls, who: ArrayLike, n_answers: int) -> "Persons":
        """Check one name for each answer."""
        wanted = f"who must hold one string or integer for each of the {n_answers} comparisons"
        given = to_array(who)
        if given.shape != (n_answers,):
            raise ValueError(f"{wanted}; got shape {given.shape}.")
        if given.dtype.kind not in "iuU":
            given = _of_one_kind(given, wanted)
        names, codes = np.unique(given, return_inverse=True)
        return cls(names, codes.ravel())

    def __len__(self) -> int:
        """Return how many persons there are."""
        return len(self.names)

    def restrict(self, answers: IntArray | BoolArray) -> "Persons":
        """Return the persons of some of the answers."""
        known, codes = np.unique(self.codes[answers], return_inverse=True)
        return Persons(self.names[known], codes)

    def sums(self, values: FloatArray | BoolArray | None = None) -> FloatArray:
        """Return the sum of values of the answers of each person, by default their number, (P,)."""
        return np.bincount(self.codes, values, len(self.names)).astype(np.float64)


Values = TypeVar("Values", bound="ArrayLike | None")


def column_of(supervision: "Constraints", values: Values) -> Values | Array:
    """Return values as they were passed, or the column of the constraints that a string names."""
    if not isinstance(values, str):
        return values
    columns = supervision.columns
    if values not in columns:
        from mdaml.constraints.forms.answers import ANSWER  # a fit needs neither of these
        from mdaml.io.messages import suggest_name

        known = [name for name in columns if name != ANSWER]
        raise ValueError(
            f"The comparisons have no column {values!r}. Their columns, beside those of items and "
            f"answers, are {', '.join(known) or 'none'}.{suggest_name(values, known)}"
        )
    return columns[values]


def _of_one_kind(given: Array, wanted: str) -> Array:
    values = given.tolist()
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=np.str_)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return np.array(values)
    odd = [v for v in values if not isinstance(v, str | int) or isinstance(v, bool)]
    if odd:
        raise TypeError(
            f"{wanted}, all of one kind; got {odd[0]!r} among them. Name those who are not known, "
            "or leave their answers out."
        )
    number, text = (next(v for v in values if isinstance(v, kind)) for kind in (int, str))
    raise TypeError(
        f"{wanted}, all of one kind; got the number {number} and the text {text!r}. Make all of "
        "them texts, or all integers."
    )

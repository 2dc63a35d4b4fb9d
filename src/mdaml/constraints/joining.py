"""The one way to join constraints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdaml._typing import Array
from mdaml.constraints.checks import to_column
from mdaml.constraints.forms.answers import ANSWER
from mdaml.constraints.names import Names

if TYPE_CHECKING:  # the class takes its method from here
    from mdaml.constraints.value import Constraints

_ARRAYS = ("triplets", "pairs", "pair_labels", "quadruplets")


def concat(cls: type["Constraints"], parts: Sequence["Constraints"]) -> "Constraints":
    """Join constraints of the same points.

    Parameters
    ----------
    parts : sequence of Constraints
        One or more, all of the same number of points and with the same ids, or without.

    Returns
    -------
    Constraints
        Of each kind those of the first part, then those of the second, and so on. Columns that a
        part does not have are empty for it. Answers that became several constraints are numbered
        anew in ``answer_number``, so that those of different parts are not taken for one.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> asked = Constraints(triplets=[[0, 1, 2]], n_points=4)
    >>> Constraints.concat([asked, Constraints(triplets=[[3, 2, 0]])]).triplets.tolist()
    [[0, 1, 2], [3, 2, 0]]
    """
    wrong = [part for part in parts if not isinstance(part, cls)]
    if not parts or wrong:
        got = type(wrong[0]).__name__ if wrong else "an empty list"
        raise TypeError(f"Constraints.concat joins a list of Constraints, got {got}.")
    if len(parts) == 1:
        return parts[0]
    n_points, ids = parts[0].n_points, parts[0].ids
    for part in parts[1:]:
        if part.n_points != n_points or not _have_same_ids(part.ids, ids):
            raise ValueError(
                f"Constraints.concat joins constraints of the same points; got {n_points} and "
                f"{part.n_points} points, or different ids. Pass n_points= and ids= when you make "
                "them, or restrict them to the points that they share."
            )
    names = dict.fromkeys(name for part in parts for name in part.columns)
    columns = {name: [_get_column(part, name) for part in parts] for name in names}
    if ANSWER in columns:
        columns[ANSWER] = _number_answers(parts)
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
    return parts[0]._replaced(
        **joined,
        weights=_by_kind(parts, [part.weights for part in parts]),
        columns={name: to_column(_by_kind(parts, each)) for name, each in columns.items()},
    )


def _have_same_ids(one: Names, other: Names) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _get_column(part: "Constraints", name: str) -> Array:
    return part.columns.get(name, np.full(part.n_constraints, "", object))


def _number_answers(parts: Sequence["Constraints"]) -> list[Array]:
    """Return for each part the numbers of its answers, none of which another part has."""
    numbers, n_before = [], 0
    for part in parts:
        own = np.arange(part.n_constraints)
        if ANSWER in part.columns:
            given = part.columns[ANSWER]
            texts = given.astype(str) if given.dtype == object else given
            own = np.unique(texts, return_inverse=True)[1]
        numbers.append(own + n_before)
        n_before += int(own.max(initial=-1)) + 1
    return numbers


def _by_kind(parts: Sequence["Constraints"], values: Sequence[Array]) -> Array:
    """Return values of the constraints of all parts in the order triplets, pairs, quadruplets."""
    ends = [np.cumsum([len(part.triplets), len(part.pairs)]) for part in parts]
    by_part = [np.split(each, end) for each, end in zip(values, ends, strict=True)]
    return np.concatenate([each for of_kind in zip(*by_part, strict=True) for each in of_kind])

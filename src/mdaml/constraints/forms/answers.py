"""What the forms share: checks of the rows they name, and the way to comparisons and scores."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from mdaml._typing import Array, ArrayLike, BoolArray, FloatArray, IntArray
from mdaml.constraints.names import MOST_POINTS, Names, to_array, to_rows
from mdaml.kernels.pairs import pair_sq_dists

if TYPE_CHECKING:  # for the signatures of all forms: the class takes its methods from them
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import TransformerMixin

    from mdaml.constraints.lines import LineReader as LineReader
    from mdaml.constraints.value import Constraints as Constraints

    Metric: TypeAlias = TransformerMixin

# Which answers are wrong, and why; or a function from the place of one to the reason.
Fault: TypeAlias = tuple[BoolArray, str | Callable[[int], str]]
Faults: TypeAlias = Iterator[tuple[BoolArray, str]]
Parsed: TypeAlias = tuple[tuple[Array, ...], list[Fault]]
Columns: TypeAlias = Mapping[str, ArrayLike]
Ids: TypeAlias = ArrayLike | None

# Names that columns of a file have for the constraints themselves.
COLUMNS = ("kind", "a", "b", "c", "d", "label", "weight")
ANSWER = "answer_number"  # the column that holds which answer a constraint came from
# Which members of a comparison must be different points, by their number.
_DISTINCT = {
    2: ("two members of a pair", [(0, 1)]),
    3: ("three members of a triplet", [(0, 1), (0, 2), (1, 2)]),
    4: ("two members of either pair of a quadruplet", [(0, 1), (2, 3)]),
}


class Turned(NamedTuple):
    """Comparisons that answers became."""

    members: IntArray  # (n, 3) triplets or (n, 4) quadruplets
    weights: FloatArray  # (n,)
    answer: IntArray  # (n,) the answer that each came from

    def in_order(self) -> "Turned":
        """Return the comparisons in the order of their answers."""
        if np.all(self.answer[:-1] <= self.answer[1:]):
            return self
        order = np.argsort(self.answer, kind="stable")
        return Turned(self.members[order], self.weights[order], self.answer[order])


def check_members(
    name: str, given: ArrayLike, width: int, n_samples: int, what: str, names: Names
) -> IntArray:
    """Return comparisons as an (n, width) integer array of row indices below ``n_samples``."""
    wanted = f"{name} must be integers of shape (n_{name}, {width}), each row {what}"
    rows = np.asarray(to_rows(name, given, names))
    if rows.size == 0:
        raise ValueError(f"{name} is empty: at least one comparison is needed.")
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"{wanted}; got shape {rows.shape}.")
    if rows.dtype.kind not in "iu":
        raise TypeError(f"{wanted}; got dtype {rows.dtype}.")
    highest, lowest = int(rows.max()), int(rows.min())
    if highest >= n_samples:
        raise ValueError(
            f"{name} name row {highest}, but X has {n_samples} rows. {name.capitalize()} index the "
            "X passed to the same call; under cross-validation pass labels, from which each fit "
            "draws its own."
        )
    if lowest < 0:
        raise ValueError(
            f"{name} name row {lowest}, but rows are counted from 0: negative indices, which "
            "would count from the end, are refused."
        )
    # Narrow integers are widened; int32 and int64 in rows are used as they are, without a copy.
    kept = rows.dtype if rows.dtype in (np.int32, np.int64) else np.int64
    rows = np.ascontiguousarray(rows, dtype=kept)
    of, places = _DISTINCT[width]
    repeated = np.zeros(len(rows), bool)
    for one, other in places:
        repeated |= rows[:, one] == rows[:, other]
    refuse_comparisons(f"The {of} must differ", name[:-1], rows, repeated)
    return rows


def refuse_comparisons(why: str, one: str, rows: IntArray, bad: BoolArray) -> None:
    """Refuse comparisons some of which are bad; name the first and count them."""
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"{why}, but {one} {first} is {tuple(rows[first].tolist())}, the first of "
            f"{int(bad.sum())}. Remove them."
        )


def check_rows(
    what: str,
    given: ArrayLike,
    ids: Ids,
    shape: tuple[int | None, ...],
    *,
    most: int = MOST_POINTS,
    may_miss: bool = False,
) -> IntArray:
    """Return rows that answers name, in a shape in which None stands for any size.

    With `may_miss` cells may be empty, which gives -1.
    """
    rows = to_rows(what, given, ids, may_miss=may_miss)
    wanted = "(" + ", ".join("n" if size is None else str(size) for size in shape) + ")"
    fits = rows.ndim == len(shape) and all(
        size in (None, length) for size, length in zip(shape, rows.shape, strict=True)
    )
    if not fits or rows.size == 0:
        raise ValueError(f"{what} must be of shape {wanted}, got shape {rows.shape}.")
    if rows.dtype.kind not in "iu":
        raise TypeError(f"{what} must hold row numbers or names, got dtype {rows.dtype}.")
    if rows.min() < (-1 if may_miss else 0):
        raise ValueError(f"{what} names row {rows.min()}, but rows are counted from 0.")
    if rows.max() >= most:
        raise ValueError(
            f"{what} names row {rows.max()}, but X has {most} rows. Integers are row numbers; pass "
            "names as texts."
        )
    return rows.astype(np.int64)


def check_numbers(what: str, given: ArrayLike, ndim: int) -> FloatArray:
    """Return numbers that belong to answers, such as votes and grades."""
    numbers: Array = np.asarray(given)
    if numbers.dtype.kind not in "iuf" or numbers.ndim != ndim:
        raise TypeError(
            f"{what} must be numbers in {ndim} dimension{'s' if ndim > 1 else ''}, got "
            f"{numbers.dtype} of shape {numbers.shape}."
        )
    return numbers.astype(np.float64)


def find_repeats(rows: IntArray) -> BoolArray:
    """Say for each answer whether two of its points are the same; missing ones do not count."""
    ordered = np.sort(rows, axis=1)
    return np.any((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0), axis=1)


def refuse_faults(caller: str, faults: Iterable[tuple[BoolArray, str]], answers: ArrayLike) -> None:
    """Refuse answers with faults: name the first of each kind, and count them all."""
    found = [(np.flatnonzero(bad), reason) for bad, reason in faults if bad.any()]
    if found:
        shown = np.asarray(answers)
        each = "; ".join(
            f"{reason} ({len(bad)} of {len(shown)}, the first is answer {bad[0]}, "
            f"{shown[bad[0]].tolist()})"
            for bad, reason in found
        )
        raise ValueError(f"{caller}: {each}. Correct or remove these answers.")


def number_groups(who: ArrayLike | None, n: int) -> IntArray:
    """Return the number of the person who gave each answer; None is one person."""
    if who is None:
        return np.zeros(n, np.int64)
    values = to_array(who)
    if values.shape != (n,):
        raise ValueError(f"who must hold one value for each of {n} answers, got {values.shape}.")
    if values.dtype == object:  # 1 and "1" are two persons
        values = np.array([repr(v) if isinstance(v, str) else str(v) for v in values.tolist()])
    return np.unique(values, return_inverse=True)[1]


def make_constraints(
    cls: type["Constraints"],
    turned: Turned,
    ids: ArrayLike | None,
    n_points: int | None,
    columns: Columns | None,
    n_answers: int,
) -> "Constraints":
    """Return the comparisons of answers, each with the columns of its answer."""
    own: dict[str, ArrayLike] = {}
    for name, values in ({} if columns is None else columns).items():
        column = np.asarray(values)
        if column.shape != (n_answers,):
            raise ValueError(
                f"columns must hold one value for each of the {n_answers} answers; column "
                f"{name!r} has shape {column.shape}."
            )
        if name == ANSWER or name.lower() in COLUMNS:
            raise ValueError(f"The column {name!r} has a meaning of its own here: rename it.")
        own[name] = column[turned.answer]
    is_triplet = turned.members.shape[1] == 3
    return cls(
        triplets=turned.members if is_triplet else None,
        quadruplets=None if is_triplet else turned.members,
        weights=turned.weights,
        n_points=n_points,
        ids=None if ids is None else np.asarray(ids),
        columns=own | {ANSWER: turned.answer},
    )


def split_groups(values: IntArray, group: IntArray) -> list[IntArray]:
    """Return the values of each group, numbered from 0 without gaps."""
    order = np.argsort(group, kind="stable")
    return np.split(values[order], np.cumsum(np.bincount(group))[:-1])


def sq_dists_to_anchor(Y: FloatArray, anchor: IntArray, rows: IntArray) -> FloatArray:
    """Return the squared distance of each item to the anchor of its answer; of -1, any number."""
    columns = [
        pair_sq_dists(Y, np.column_stack([anchor, np.maximum(items, 0)])) for items in rows.T
    ]
    return np.column_stack(columns)


def mean_score(name: str, right: FloatArray | BoolArray) -> float:
    """Return the mean of what answers score; refuse answers none of which is decided."""
    if len(right) == 0:
        raise ValueError(f"{name}: none of these answers says anything; all are undecided.")
    return float(np.mean(right))

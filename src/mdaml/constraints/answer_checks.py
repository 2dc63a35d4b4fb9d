"""Checks of answers of each form: shapes of arrays first, then which answers are wrong, and why."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.constraints.checks import MOST_POINTS
from mdaml.constraints.names import to_array, to_rows

Faults = Iterator[tuple[BoolArray, str]]


def check_odd_one_out(
    items: Any, odd: Any, ids: Any, most: int = MOST_POINTS
) -> tuple[IntArray, IntArray]:
    """Return rows of the items, (n, k), and of the odd ones, -1 for none."""
    rows = _check_rows("items", items, ids, most, (None, None))
    if rows.shape[1] < 3:
        raise ValueError(f"items must hold at least three of each answer, got {rows.shape[1]}.")
    return rows, _check_rows("odd", odd, ids, most, (len(rows),), may_miss=True)


def find_places(items: IntArray, odd: IntArray) -> IntArray:
    """Return the place of the odd one among its items; -1 for none, -2 if it is none of them."""
    same = items == odd[:, None]
    return np.where(odd < 0, -1, np.where(same.any(axis=1), same.argmax(axis=1), -2))


def check_picks(
    anchors: Any, shown: Any, picked: Any, ids: Any, most: int = MOST_POINTS
) -> tuple[IntArray, IntArray, BoolArray, BoolArray]:
    """Return anchors, items (n, m), which were picked, and whether others were picked."""
    anchor = _check_rows("anchors", anchors, ids, most, (None,))
    shown_rows = _check_rows("shown", shown, ids, most, (len(anchor), None), may_miss=True)
    picked_rows = _check_rows("picked", picked, ids, most, (len(anchor), None), may_miss=True)
    chosen = np.zeros(shown_rows.shape, bool)
    strangers = np.zeros(len(anchor), bool)
    for column in picked_rows.T:
        same = (shown_rows == column[:, None]) & (column >= 0)[:, None]
        chosen |= same
        strangers |= (column >= 0) & ~same.any(axis=1)
    return anchor, shown_rows, chosen, strangers


def check_rankings(
    anchors: Any, rankings: Any, ids: Any, most: int = MOST_POINTS
) -> tuple[IntArray, IntArray]:
    """Return rows of the anchors, and of the items in order, -1 behind the last."""
    anchor = _check_rows("anchors", anchors, ids, most, (None,))
    return anchor, _check_rows("rankings", rankings, ids, most, (len(anchor), None), may_miss=True)


def check_votes(
    questions: Any, votes: Any, ids: Any, most: int = MOST_POINTS
) -> tuple[IntArray, FloatArray]:
    """Return rows of the questions, (n, 3), and numbers of votes, (n, 2) or (n, 3)."""
    rows = _check_rows("questions", questions, ids, most, (None, 3))
    counted = _check_numbers("votes", votes, 2)
    if counted.shape not in ((len(rows), 2), (len(rows), 3)):
        raise ValueError(
            f"votes must hold, for each of the {len(rows)} questions, votes for b, for c and "
            f"perhaps for neither; got shape {counted.shape}."
        )
    return rows, counted


def check_grades(
    pairs: Any, grades: Any, ids: Any, most: int = MOST_POINTS
) -> tuple[IntArray, FloatArray]:
    """Return rows of the pairs, (n, 2), and their grades."""
    rows = check_pairs_of_points(pairs, ids, most)
    graded = _check_numbers("grades", grades, 1)
    if graded.shape != (len(rows),):
        raise ValueError(
            f"grades must hold one number for each of the {len(rows)} pairs, got shape "
            f"{graded.shape}."
        )
    return rows, graded


def check_pairs_of_points(pairs: Any, ids: Any, most: int = MOST_POINTS) -> IntArray:
    """Return rows of pairs, (n, 2)."""
    return _check_rows("pairs", pairs, ids, most, (None, 2))


def _check_rows(
    what: str,
    given: Any,
    ids: Any,
    most: int,
    shape: tuple[int | None, ...],
    *,
    may_miss: bool = False,
) -> IntArray:
    rows = to_rows(what, given, ids, may_miss=may_miss)
    wanted = "(" + ", ".join("n" if size is None else str(size) for size in shape) + ")"
    fits = rows.ndim == len(shape) and all(
        size in (None, length) for size, length in zip(shape, rows.shape, strict=True)
    )
    if not fits or rows.size == 0:
        raise ValueError(f"{what} must be of shape {wanted}, got shape {rows.shape}.")
    if rows.dtype.kind not in "iu":
        raise TypeError(f"{what} must hold row numbers or names, got dtype {rows.dtype}.")
    low = -1 if may_miss else 0
    if rows.min() < low:
        raise ValueError(f"{what} names row {rows.min()}, but rows are counted from 0.")
    if rows.max() >= most:
        raise ValueError(
            f"{what} names row {rows.max()}, but X has {most} rows. Integers are row numbers; pass "
            "names as texts."
        )
    return rows.astype(np.int64)


def _check_numbers(what: str, given: Any, ndim: int) -> FloatArray:
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "iuf" or numbers.ndim != ndim:
        raise TypeError(
            f"{what} must be numbers in {ndim} dimension{'s' if ndim > 1 else ''}, got "
            f"{numbers.dtype} of shape {numbers.shape}."
        )
    return numbers.astype(np.float64)


def number_groups(who: Any, n: int) -> IntArray:
    """Return the number of the person of each answer; None is one person."""
    if who is None:
        return np.zeros(n, np.int64)
    values = to_array(who)
    if values.shape != (n,):
        raise ValueError(f"who must hold one value for each of {n} answers, got {values.shape}.")
    if values.dtype == object:  # 1 and "1" are two persons
        values = np.array([repr(v) if isinstance(v, str) else str(v) for v in values.tolist()])
    return np.unique(values, return_inverse=True)[1]


# Faults of single answers


def faults_odd_one_out(items: IntArray, place: IntArray) -> Faults:
    """Yield faults of (n, k) items and the place of the odd one, -1 for none, -2 for no item."""
    yield np.any(items < 0, axis=1), "an item is missing"
    yield _repeats(items), "an item is there twice"
    yield (place < -1) | (place >= items.shape[1]), "the odd one is none of the items"


def faults_rankings(anchors: IntArray, rankings: IntArray) -> Faults:
    """Yield faults of anchors and (n, k) items in order, -1 behind the last."""
    there = rankings >= 0
    yield anchors < 0, "the anchor is missing"
    yield there.sum(axis=1) < 2, "fewer than two items are ranked"
    yield np.any(there[:, 1:] & ~there[:, :-1], axis=1), "there is a gap in the ranking"
    yield _repeats(rankings), "an item is there twice"
    yield np.any(rankings == anchors[:, None], axis=1), "the anchor is among the items"


def faults_picks(anchors: IntArray, shown: IntArray, strangers: BoolArray) -> Faults:
    """Yield faults of anchors, (n, m) items and whether something was picked that is none."""
    yield anchors < 0, "the anchor is missing"
    yield np.sum(shown >= 0, axis=1) < 2, "fewer than two items were shown"
    yield _repeats(shown), "an item is there twice"
    yield np.any(shown == anchors[:, None], axis=1), "the anchor is among the items"
    yield strangers, "something was picked that was not shown"


def faults_votes(questions: IntArray, votes: FloatArray) -> Faults:
    """Yield faults of (n, 3) questions and votes for b, for c and perhaps for neither."""
    yield np.any(questions < 0, axis=1), "a point is missing"
    yield _repeats(questions), "a point is there twice"
    countable = np.all((votes >= 0) & (votes <= 1e15), axis=1)  # false where one is no number
    yield ~countable, "votes must be counts, 0 or more"
    yield countable & (votes.sum(axis=1) == 0), "there is no vote"


def faults_grades(pairs: IntArray, grades: FloatArray) -> Faults:
    """Yield faults of (n, 2) pairs and their grades."""
    yield from faults_positives(pairs)
    yield ~(np.abs(grades) <= 1e100), "the grade is not a number"


def faults_positives(pairs: IntArray) -> Faults:
    """Yield faults of (n, 2) pairs."""
    yield np.any(pairs < 0, axis=1), "a point is missing"
    yield _repeats(pairs), "both are the same point"


def refuse_faults(form: str, faults: Iterable[tuple[BoolArray, str]], answers: Any) -> None:
    """Refuse answers with faults: name the first of each kind, and count them all."""
    found = [(np.flatnonzero(bad), reason) for bad, reason in faults if bad.any()]
    if found:
        each = "; ".join(
            f"{reason} ({len(bad)} of {len(answers)}, the first is answer {bad[0]}, "
            f"{np.asarray(answers)[bad[0]].tolist()})"
            for bad, reason in found
        )
        raise ValueError(f"{form}: {each}. Correct or remove these answers.")


def _repeats(rows: IntArray) -> BoolArray:
    """Say for each answer whether two of its points are the same; missing ones do not count."""
    ordered = np.sort(rows, axis=1)
    return np.any((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0), axis=1)

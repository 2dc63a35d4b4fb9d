"""Odd one out: which of three or more items is least like the others."""

from itertools import permutations

import numpy as np

from mdaml._typing import ArrayLike, IntArray
from mdaml.constraints.forms import answers
from mdaml.constraints.names import MOST_POINTS, get_index
from mdaml.kernels.pairs import pair_sq_dists

COLUMNS = ("item1", "item2", "item3…", "odd")


def _check(
    caller: str, items: ArrayLike, odd: ArrayLike, ids: answers.Ids, most: int = MOST_POINTS
) -> tuple[IntArray, IntArray]:
    """Return rows of the items, (n, k), and the place of the odd one among them, -1 for none."""
    rows = answers.check_rows("items", items, ids, (None, None), most=most)
    if rows.shape[1] < 3:
        raise ValueError(f"items must hold at least three of each answer, got {rows.shape[1]}.")
    out = answers.check_rows("odd", odd, ids, (len(rows),), most=most, may_miss=True)
    same = rows == out[:, None]
    place = np.where(out < 0, -1, np.where(same.any(axis=1), same.argmax(axis=1), -2))
    answers.refuse_faults(caller, _find_faults(rows, place), items)
    return rows, place


def _find_faults(items: IntArray, place: IntArray) -> answers.Faults:
    """Yield faults of (n, k) items and the place of the odd one, -1 for none, -2 for no item."""
    yield np.any(items < 0, axis=1), "an item is missing"
    yield answers.find_repeats(items), "an item is there twice"
    yield (place < -1) | (place >= items.shape[1]), "the odd one is none of the items"


def turn_odd_one_out(items: IntArray, odd: IntArray) -> answers.Turned:
    """Return comparisons of "which of k items is the odd one"; ``odd`` is its place, -1 for none.

    The utility of an option is the sum of its squared distances to the others, divided by k - 2;
    for three items that is, but for a term that all share, minus the squared distance of the other
    two. Any two others i, j are nearer to each other than i is to the odd one: (k-1)(k-2) triplets
    (i, j, odd), each of weight ``2 / (k (k-2))``, have the gradient of the choice.
    """
    k = items.shape[1]
    places = np.array(
        [[(i, j, o) for i, j in permutations(range(k), 2) if o not in (i, j)] for o in range(k)]
    )  # (k, (k-1)(k-2), 3): by the place of the odd one
    weight = 2.0 / (k * (k - 2))
    decided, undecided = np.flatnonzero(odd >= 0), np.flatnonzero(odd < 0)
    clear = items[decided[:, None, None], places[odd[decided]]].reshape(-1, 3)
    none = items[undecided][:, places.reshape(-1, 3)].reshape(-1, 3)
    answer = np.concatenate(
        [np.repeat(decided, places.shape[1]), np.repeat(undecided, k * places.shape[1])]
    )
    weights = np.repeat([weight, weight / k], [len(clear), len(none)])
    return answers.Turned(np.concatenate([clear, none]), weights, answer).in_order()


def from_odd_one_out(
    cls: "type[answers.Constraints]",
    items: ArrayLike,
    odd: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: answers.Columns | None = None,
) -> "answers.Constraints":
    """Turn answers to "which of these is the odd one out" into triplets.

    Parameters
    ----------
    items : array-like of shape (n_answers, k)
        What was shown, three or more: rows of X, or names.
    odd : array-like of shape (n_answers,)
        The odd one of each; -1, None or an empty text where people said that there is none.
    ids : sequence of str or int, default=None
        Names of the rows of X, in their order. Needed if items are names.
    n_points : int, default=None
        Rows of X. None is the number of `ids`, or the highest row that is named, plus one.
    columns : mapping of str to array-like of shape (n_answers,), default=None
        Other facts about each answer, such as who gave it.

    Returns
    -------
    Constraints
        Any two others are nearer to each other than to the odd one, (k-1)(k-2) triplets of weight
        2 / (k (k-2)): for three items two triplets, each of weight 2/3. "None" is the mean over all
        odd ones. The column ``answer_number`` tells which answer a triplet came from.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> answers = Constraints.from_odd_one_out(
    ...     [["cat", "car", "dog"]], ["car"], ids=["car", "cat", "dog"]
    ... )
    >>> answers.triplets.tolist(), answers.weights.round(2).tolist()
    ([[1, 2, 0], [2, 1, 0]], [0.67, 0.67])
    """
    rows, place = _check("from_odd_one_out", items, odd, ids)
    return answers.make_constraints(
        cls, turn_odd_one_out(rows, place), ids, n_points, columns, len(rows)
    )


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return items and odd ones of lines, and their faults."""
    items, faults = reader.find_points(cells[:-1])
    place, more = reader.find_places(cells[-1], cells[:-1])
    odd = np.where(place >= 0, items[np.arange(len(items)), np.maximum(place, 0)], place)
    return (items, odd), [*faults, *more, *_find_faults(items, place)]


def score_odd_one_out(
    self: "answers.Metric", X: ArrayLike, items: ArrayLike, odd: ArrayLike
) -> float:
    """Return the share of answers in which the odd one is the farthest from the others.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that the items index; they need not be those of ``fit``.
    items : array-like of shape (n_answers, k)
        Rows of X, or names if X is a data frame with these in its index.
    odd : array-like of shape (n_answers,)
        The odd one of each; -1 or None for none, which does not count.

    Returns
    -------
    score : float
        Between 0 and 1; chance is 1/k. Farthest by the sum of squared distances, which for
        three items means that the other two are the nearest pair. A tie does not hold.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> X = [[0.0], [1.0], [3.0], [6.0]]
    >>> Euclidean().fit(X).score_odd_one_out(X, [[0, 1, 2], [1, 2, 3]], [2, 1])
    0.5
    """
    Y = self.transform(X)
    rows, place = _check("score_odd_one_out", items, odd, get_index(X), len(Y))
    far = np.zeros(rows.shape)
    for i in range(rows.shape[1]):
        for j in range(rows.shape[1]):
            far[:, i] += pair_sq_dists(Y, rows[:, [i, j]])
    own = np.take_along_axis(far, np.maximum(place, 0)[:, None], axis=1)
    right = np.sum(far >= own, axis=1) == 1
    return answers.mean_score("score_odd_one_out", right[place >= 0])

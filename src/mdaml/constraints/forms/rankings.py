"""Rankings: items in the order of their likeness to a reference."""

import numpy as np

from mdaml._typing import ArrayLike, IntArray
from mdaml.constraints.forms import answers
from mdaml.constraints.names import MOST_POINTS, get_index

COLUMNS = ("anchor", "rank1…")


def _check(
    caller: str, anchors: ArrayLike, rankings: ArrayLike, ids: answers.Ids, most: int = MOST_POINTS
) -> tuple[IntArray, IntArray]:
    """Return rows of the references, and of the items in order, -1 behind the last."""
    anchor = answers.check_rows("anchors", anchors, ids, (None,), most=most)
    shape = (len(anchor), None)
    ranked = answers.check_rows("rankings", rankings, ids, shape, most=most, may_miss=True)
    answers.refuse_faults(caller, _find_faults(anchor, ranked), rankings)
    return anchor, ranked


def _find_faults(anchors: IntArray, rankings: IntArray) -> answers.Faults:
    """Yield faults of references and (n, k) items in order, -1 behind the last."""
    there = rankings >= 0
    yield anchors < 0, "the reference is missing"
    yield there.sum(axis=1) < 2, "fewer than two items are ranked"
    yield np.any(there[:, 1:] & ~there[:, :-1], axis=1), "there is a gap in the ranking"
    yield answers.find_repeats(rankings), "an item is there twice"
    yield np.any(rankings == anchors[:, None], axis=1), "the reference is among the items"


def turn_rankings(anchors: IntArray, rankings: IntArray) -> answers.Turned:
    """Return comparisons of items ranked by likeness to a reference; -1 behind the last one.

    A ranking of n is a choice of one of n, then of one of the other n - 1, and so on
    (Plackett-Luce): the item at place p, from 0, is nearer than each later one, with weight
    ``2 / (n - p)``. All together weigh ``2 (n - 1 - 1/2 - ... - 1/n)``, not n (n-1) / 2.
    """
    length = np.sum(rankings >= 0, axis=1)
    parts = []
    for n in np.unique(length).tolist():
        rows = np.flatnonzero(length == n)
        near, far = np.triu_indices(n, 1)
        anchor = np.repeat(anchors[rows], len(near))
        members = (anchor, rankings[rows][:, near].ravel(), rankings[rows][:, far].ravel())
        weights = np.tile(2.0 / (n - near), len(rows))
        parts.append((np.stack(members, axis=1), weights, np.repeat(rows, len(near))))
    return answers.Turned(*map(np.concatenate, zip(*parts, strict=True))).in_order()


def from_rankings(
    cls: "type[answers.Constraints]",
    anchors: ArrayLike,
    rankings: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: answers.Columns | None = None,
) -> "answers.Constraints":
    """Turn items ranked by their likeness to a reference into triplets.

    Parameters
    ----------
    anchors : array-like of shape (n_answers,)
        The reference of each answer, with which items are compared: rows of X, or names.
    rankings : array-like of shape (n_answers, n)
        Items, the most like the reference first; -1, None or an empty text behind the last one.
    ids : sequence of str or int, default=None
        Names of the rows of X, in their order. Needed if points are names.
    n_points : int, default=None
        Rows of X. None is the number of `ids`, or the highest row that is named, plus one.
    columns : mapping of str to array-like of shape (n_answers,), default=None
        Other facts about each answer, such as who gave it.

    Returns
    -------
    Constraints
        Every item is nearer than each later one, with weight ``2 / (n - place)``, the first place
        being 0. A ranking of n weighs ``2 (n - 1 - 1/2 - ... - 1/n)`` in all.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> answers = Constraints.from_rankings([0], [[3, 1, 2]])
    >>> answers.triplets.tolist(), answers.weights.round(2).tolist()
    ([[0, 3, 1], [0, 3, 2], [0, 1, 2]], [0.67, 0.67, 1.0])
    """
    anchor, ranked = _check("from_rankings", anchors, rankings, ids)
    return answers.make_constraints(
        cls, turn_rankings(anchor, ranked), ids, n_points, columns, len(anchor)
    )


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return references and rankings of lines, and their faults."""
    anchor, faults = reader.find_points(cells[:1])
    if len(cells) == 2:
        ranked, more = reader.find_lists(cells[1])
    else:
        ranked, more = reader.find_points(cells[1:], reader.names[1:], may_miss=True)
    return (anchor[:, 0], ranked), [*faults, *more, *_find_faults(anchor[:, 0], ranked)]


def score_rankings(
    self: "answers.Metric", X: ArrayLike, anchors: ArrayLike, rankings: ArrayLike
) -> float:
    """Return the share of pairs of ranked items that are in the right order.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that the items index; they need not be those of ``fit``.
    anchors, rankings : array-like
        As for :meth:`mdaml.Constraints.from_rankings`.

    Returns
    -------
    score : float
        The mean over the rankings, between 0 and 1; chance is 0.5, and a tie does not hold.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> X = [[0.0], [1.0], [3.0], [6.0]]
    >>> round(Euclidean().fit(X).score_rankings(X, [0], [[1, 3, 2]]), 3)
    0.667
    """
    Y = self.transform(X)
    anchor, rows = _check("score_rankings", anchors, rankings, get_index(X), len(Y))
    sq_dists = answers.sq_dists_to_anchor(Y, anchor, rows)
    right, total = np.zeros(len(rows)), np.zeros(len(rows))
    for i in range(rows.shape[1]):
        there = rows[:, i + 1 :] >= 0
        right += np.sum((sq_dists[:, i : i + 1] < sq_dists[:, i + 1 :]) & there, axis=1)
        total += there.sum(axis=1)
    return float(np.mean(right / total))

"""Picks: which k of n items are most like a reference."""

import numpy as np

from mdaml._typing import Array, ArrayLike, BoolArray, FloatArray, IntArray
from mdaml.constraints.forms import answers
from mdaml.constraints.names import MOST_POINTS, get_index

COLUMNS = ("anchor", "shown", "picked")
_BLOCK = 1 << 16  # answers turned at a time: bounds the memory


def _check(
    caller: str,
    anchors: ArrayLike,
    shown: ArrayLike,
    picked: ArrayLike,
    ids: answers.Ids,
    most: int = MOST_POINTS,
) -> tuple[IntArray, IntArray, BoolArray]:
    """Return references, items (n, m), and which of them were picked."""
    anchor = answers.check_rows("anchors", anchors, ids, (None,), most=most)
    items, taken = (
        answers.check_rows(name, given, ids, (len(anchor), None), most=most, may_miss=True)
        for name, given in (("shown", shown), ("picked", picked))
    )
    chosen, strangers = _find_chosen(items, taken)
    answers.refuse_faults(caller, _find_faults(anchor, items, strangers), shown)
    return anchor, items, chosen


def _find_chosen(items: IntArray, picked: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return which items were picked, and whether something else was picked."""
    chosen, strangers = np.zeros(items.shape, bool), np.zeros(len(items), bool)
    for column in picked.T:
        same = (items == column[:, None]) & (column >= 0)[:, None]
        chosen |= same
        strangers |= (column >= 0) & ~same.any(axis=1)
    return chosen, strangers


def _find_faults(anchors: IntArray, shown: IntArray, strangers: BoolArray) -> answers.Faults:
    """Yield faults of references, (n, m) items, and whether something else was picked."""
    yield anchors < 0, "the reference is missing"
    yield np.sum(shown >= 0, axis=1) < 2, "fewer than two items were shown"
    yield answers.find_repeats(shown), "an item is there twice"
    yield np.any(shown == anchors[:, None], axis=1), "the reference is among the items"
    yield strangers, "something was picked that was not shown"


def turn_picks(anchors: IntArray, shown: IntArray, picked: BoolArray) -> answers.Turned:
    """Return comparisons of k picked out of n shown items; -1 where fewer were shown.

    The k are chosen one after the other, in an order that is not known: the mean over the orders.
    Each picked item is nearer than each other one, with weight ``(2/k) (1/n + ... + 1/(n-k+1))``;
    what this says about picked ones among themselves cancels. If none or all were picked, it is not
    known which one comes first: the mean over all single picks.
    """
    parts: list[tuple[Array, ...]] = []
    there = shown >= 0
    n, k = there.sum(axis=1), (picked & there).sum(axis=1)
    weight = _pick_weights(shown.shape[1])
    for begin in range(0, len(shown), _BLOCK):
        some = slice(begin, begin + _BLOCK)
        here, chosen = there[some], picked[some] & there[some]
        open_ = (k[some] == 0) | (k[some] == n[some])
        near = np.where(open_[:, None], here, chosen)
        far = np.where(open_[:, None], here, here & ~chosen)
        both = near[:, :, None] & far[:, None, :] & ~np.eye(shown.shape[1], dtype=bool)
        row, first, second = np.nonzero(both)
        row += begin
        members = np.stack([anchors[row], shown[row, first], shown[row, second]], axis=1)
        weights = np.where(open_[row - begin], weight[n[row], 1] / n[row], weight[n[row], k[row]])
        parts.append((members, weights, row))
    return answers.Turned(*map(np.concatenate, zip(*parts, strict=True)))


def _pick_weights(most: int) -> FloatArray:
    """Return the weight of k picks of n for each n and k up to a number, (n, k); 0 for no picks."""
    weights = np.zeros((most + 1, most + 1))
    for n in range(1, most + 1):
        harmonic = np.cumsum(1.0 / np.arange(n, 0, -1))
        weights[n, 1 : n + 1] = 2.0 * harmonic / np.arange(1, n + 1)
    return weights


def from_picks(
    cls: "type[answers.Constraints]",
    anchors: ArrayLike,
    shown: ArrayLike,
    picked: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: answers.Columns | None = None,
) -> "answers.Constraints":
    """Turn answers to "which k of these n are most like the reference" into triplets.

    Parameters
    ----------
    anchors : array-like of shape (n_answers,)
        The reference of each answer, with which items are compared: rows of X, or names.
    shown : array-like of shape (n_answers, n)
        What could be picked; -1, None or an empty text where fewer were shown.
    picked : array-like of shape (n_answers, k)
        What was picked, in any order; -1, None or an empty text where fewer were.
    ids : sequence of str or int, default=None
        Names of the rows of X, in their order. Needed if points are names.
    n_points : int, default=None
        Rows of X. None is the number of `ids`, or the highest row that is named, plus one.
    columns : mapping of str to array-like of shape (n_answers,), default=None
        Other facts about each answer, such as who gave it.

    Returns
    -------
    Constraints
        Each picked item is nearer to the reference than each of the others, with weight
        ``(2/k) (1/n + 1/(n-1) + ... + 1/(n-k+1))``. If none or all were picked, both directions of
        every two, together as heavy as one pick.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> Constraints.from_picks([0], [[1, 2, 3]], [[2]]).triplets.tolist()
    [[0, 2, 1], [0, 2, 3]]
    """
    anchor, items, chosen = _check("from_picks", anchors, shown, picked, ids)
    turned = turn_picks(anchor, items, chosen)
    return answers.make_constraints(cls, turned, ids, n_points, columns, len(anchor))


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return references, items and picks of lines, and their faults."""
    anchor, faults = reader.find_points(cells[:1])
    (shown, of_shown), (picked, of_picked) = map(reader.find_lists, cells[1:])
    own = _find_faults(anchor[:, 0], shown, _find_chosen(shown, picked)[1])
    return (anchor[:, 0], shown, picked), [*faults, *of_shown, *of_picked, *own]


def score_picks(
    self: "answers.Metric", X: ArrayLike, anchors: ArrayLike, shown: ArrayLike, picked: ArrayLike
) -> float:
    """Return the share of the n picked items that are among the n nearest items.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that the items index; they need not be those of ``fit``.
    anchors, shown, picked : array-like
        As for :meth:`mdaml.Constraints.from_picks`. Answers with none or all picked do not
        count.

    Returns
    -------
    score : float
        The mean over the answers, between 0 and 1.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> X = [[0.0], [1.0], [3.0], [6.0]]
    >>> Euclidean().fit(X).score_picks(X, [0], [[1, 2, 3]], [[1, 3]])
    0.5
    """
    Y = self.transform(X)
    anchor, rows, chosen = _check("score_picks", anchors, shown, picked, get_index(X), len(Y))
    sq_dists = np.where(rows >= 0, answers.sq_dists_to_anchor(Y, anchor, rows), np.inf)
    k = chosen.sum(axis=1)
    counts = (k > 0) & (k < np.sum(rows >= 0, axis=1))
    rank = np.argsort(np.argsort(sq_dists, axis=1, kind="stable"), axis=1)
    found = np.sum(chosen & (rank < k[:, None]), axis=1)
    return answers.mean_score("score_picks", found[counts] / k[counts])

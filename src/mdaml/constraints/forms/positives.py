"""Positives: pairs that belong together, such as clicks or duplicates."""

import numpy as np

from mdaml._typing import ArrayLike, IntArray
from mdaml._validation import check_number
from mdaml.constraints.checks import Seed, check_count, check_points
from mdaml.constraints.forms import answers
from mdaml.constraints.names import MOST_POINTS, get_index

COLUMNS = ("a", "b")


def check_rows_of_pairs(pairs: ArrayLike, ids: answers.Ids, most: int = MOST_POINTS) -> IntArray:
    """Return rows of pairs, (n, 2)."""
    return answers.check_rows("pairs", pairs, ids, (None, 2), most=most)


def find_faults(pairs: IntArray) -> answers.Faults:
    """Yield faults of (n, 2) pairs."""
    yield np.any(pairs < 0, axis=1), "a point is missing"
    yield answers.find_repeats(pairs), "both are the same point"


def turn_positives(pairs: IntArray, negatives: IntArray) -> answers.Turned:
    """Return comparisons of each pair (a, b) with drawn negatives of a, (n, q); -1 for none.

    A choice of b out of itself and q others: each comparison weighs ``2 / (q + 1)``.
    """
    there = negatives >= 0
    row, place = np.nonzero(there)
    members = np.column_stack([pairs[row], negatives[row, place]])
    return answers.Turned(members, 2.0 / (there.sum(axis=1)[row] + 1), row)


def from_positives(
    cls: "type[answers.Constraints]",
    pairs: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: answers.Columns | None = None,
    n_negatives: int = 5,
    X: ArrayLike | None = None,
    model: "answers.BaseEstimator | None" = None,
    hard: float = 0.5,
    random_state: Seed = 0,
) -> "answers.Constraints":
    """Turn pairs that belong together, such as clicks or duplicates, into triplets.

    Nothing is known to be different: what each pair is compared with is drawn.

    Parameters
    ----------
    pairs : array-like of shape (n_answers, 2)
        Rows of X, or names: what was looked for, and what was found.
    ids : sequence of str or int, default=None
        Names of the rows of X, in their order. Needed if points are names.
    n_points : int, default=None
        Rows of X. None is the number of `ids`, or the highest row that is named, plus one.
    columns : mapping of str to array-like of shape (n_answers,), default=None
        Other facts about each answer, such as who gave it.
    n_negatives : int, default=5
        Points to compare each pair with. None of them is in a pair with the first one, in either
        order, and none is drawn twice for a pair.
    X : array-like of shape (n_points, n_features), default=None
        The points, to find hard negatives: those nearest to the first one. None: all are random.
    model : fitted metric, default=None
        The current metric; hard negatives are near under it. None is Euclidean distance.
    hard : float, default=0.5
        Share of the negatives that are hard, if there is an X; the others are random.
    random_state : int, Generator or None, default=0
        Which ones.

    Returns
    -------
    Constraints
        Triplets (a, b, negative), each of weight ``2 / (n_negatives + 1)``.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> answers = Constraints.from_positives([[0, 1], [2, 3]], n_negatives=2, n_points=4)
    >>> sorted(answers.triplets.tolist())
    [[0, 1, 2], [0, 1, 3], [2, 3, 0], [2, 3, 1]]
    """
    from mdaml.constraints.negatives import draw_negatives

    rows = check_rows_of_pairs(pairs, ids)
    answers.refuse_faults("from_positives", find_faults(rows), pairs)
    count = check_count("n_negatives", n_negatives)
    share = check_number(cls.__new__(cls), "hard", hard, 0.0, 1.0)
    if X is not None and n_points is None and ids is None:
        n_points = len(np.asarray(X))
    _, limit = check_points(cls.__new__(cls), n_points, ids)
    limit = int(rows.max()) + 1 if limit is None else limit
    Z = None if X is None else np.asarray(X if model is None else model.transform(X), float)
    rng = np.random.default_rng(random_state)
    negatives = draw_negatives(rows, limit, count, Z, round(share * count), rng)
    turned = turn_positives(rows, negatives)
    return answers.make_constraints(cls, turned, ids, limit, columns, len(rows))


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return pairs of lines, and their faults."""
    pairs, faults = reader.find_points(cells)
    return (pairs,), [*faults, *find_faults(pairs)]


def score_positives(self: "answers.Metric", X: ArrayLike, pairs: ArrayLike) -> float:
    """Return how often the second of a pair is nearer to the first than a random other point.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that the pairs index; they need not be those of ``fit``.
    pairs : array-like of shape (n_answers, 2)
        As for :meth:`mdaml.Constraints.from_positives`. Points that are in a pair with the
        first one do not count as others.

    Returns
    -------
    score : float
        The mean over the pairs, between 0 and 1; chance is 0.5, and ties count half.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> X = [[0.0], [1.0], [3.0], [6.0]]
    >>> Euclidean().fit(X).score_positives(X, [[0, 2]])
    0.5
    """
    Y = self.transform(X)
    rows = check_rows_of_pairs(pairs, get_index(X), len(Y))
    answers.refuse_faults("score_positives", find_faults(rows), pairs)
    anchors, which = np.unique(rows[:, 0], return_inverse=True)
    both = np.concatenate([rows, rows[:, ::-1]])
    both = both[np.isin(both[:, 0], anchors)]
    known = answers.split_groups(both[:, 1], np.searchsorted(anchors, both[:, 0]))
    shares: list[float] = []
    for a, own, mine in zip(anchors, answers.split_groups(rows[:, 1], which), known, strict=True):
        sq_dists = np.sum((Y - Y[a]) ** 2, axis=1)
        is_other = np.ones(len(Y), bool)
        is_other[mine] = is_other[a] = False
        others = np.sort(sq_dists[is_other])
        near = sq_dists[own]
        below = np.searchsorted(others, near, "left") + np.searchsorted(others, near, "right")
        if len(others):
            shares += (1 - below / (2 * len(others))).tolist()
    return answers.mean_score("score_positives", np.array(shares))

"""Grades: how similar two points are, as a number."""

import numpy as np
from scipy.stats import spearmanr

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml.constraints.checks import Seed, check_count
from mdaml.constraints.forms import answers, positives
from mdaml.constraints.names import MOST_POINTS, get_index
from mdaml.kernels.pairs import pair_sq_dists

COLUMNS = ("a", "b", "grade")


def _check(
    caller: str, pairs: ArrayLike, grades: ArrayLike, ids: answers.Ids, most: int = MOST_POINTS
) -> tuple[IntArray, FloatArray]:
    """Return rows of the pairs, (n, 2), and their grades."""
    rows = positives.check_rows_of_pairs(pairs, ids, most)
    graded = answers.check_numbers("grades", grades, 1)
    if graded.shape != (len(rows),):
        raise ValueError(
            f"grades must hold one number for each of the {len(rows)} pairs, got shape "
            f"{graded.shape}."
        )
    answers.refuse_faults(caller, _find_faults(rows, graded), pairs)
    return rows, graded


def _find_faults(pairs: IntArray, grades: FloatArray) -> answers.Faults:
    """Yield faults of (n, 2) pairs and their grades."""
    yield from positives.find_faults(pairs)
    yield ~(np.abs(grades) <= 1e100), "the grade is not a number"


def turn_grades(
    pairs: IntArray, grades: FloatArray, group: IntArray, n_others: int, rng: np.random.Generator
) -> answers.Turned:
    """Return comparisons of graded pairs: the one with the higher grade is nearer.

    Only grades of one group, a person, are compared. Each pair meets about `n_others` others at
    random, or all if there are fewer. The weight of a comparison is proportional to the difference
    of the grades: where all distances are alike, least squares of grades on distances has the
    gradient ``sum of (g - g') (x - x')`` over pairs of pairs. The comparisons of a group of n
    grades weigh n - 1 together, as many as there are independent differences. Equal grades compare
    nothing. The answer of a comparison is the nearer pair.
    """
    order = np.lexsort((rng.random(len(group)), group))
    size = np.bincount(group)
    begin, n = (np.cumsum(size) - size)[group[order]], size[group[order]]
    place = np.arange(len(order)) - begin  # within the group, in random order
    steps = range(1, (n_others + 1) // 2 + 1)  # round the group: each meets those before it too
    here = np.concatenate([order[n > step] for step in steps])
    there = np.concatenate([order[begin + (place + step) % n][n > step] for step in steps])
    low, high = np.sort(pairs, axis=1).T
    kept = (grades[here] != grades[there]) & (
        (low[here] != low[there]) | (high[here] != high[there])
    )
    here, there = here[kept], there[kept]
    if size.min(where=size > 0, initial=len(order)) <= 2 * len(steps):
        # In a small group two steps may lead to the same couple.
        met = np.minimum(here, there) * len(order) + np.maximum(here, there)
        once = np.unique(met, return_index=True)[1]
        here, there = here[once], there[once]
    higher = grades[here] > grades[there]
    near, far = np.where(higher, here, there), np.where(higher, there, here)
    weights = grades[near] - grades[far]
    total = np.bincount(group[near], weights, len(size))[group[near]]
    weights = weights * ((size[group[near]] - 1) / total)
    return answers.Turned(np.hstack([pairs[near], pairs[far]]), weights, near)


def from_grades(
    cls: "type[answers.Constraints]",
    pairs: ArrayLike,
    grades: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: answers.Columns | None = None,
    who: ArrayLike | None = None,
    n_others: int = 6,
    random_state: Seed = 0,
) -> "answers.Constraints":
    """Turn grades of similarity, such as 1 to 7, into quadruplets.

    Parameters
    ----------
    pairs : array-like of shape (n_answers, 2)
        Rows of X, or names.
    grades : array-like of shape (n_answers,)
        Numbers, the higher the more alike.
    ids : sequence of str or int, default=None
        Names of the rows of X, in their order. Needed if points are names.
    n_points : int, default=None
        Rows of X. None is the number of `ids`, or the highest row that is named, plus one.
    columns : mapping of str to array-like of shape (n_answers,), default=None
        Other facts about each answer, such as who gave it.
    who : array-like of shape (n_answers,), default=None
        Who gave the grade: only grades of one person are compared, since scales differ. None is the
        column ``who``, if there is one; otherwise all grades are on one scale.
    n_others : int, default=6
        With how many others each pair is compared, about, if there are more.
    random_state : int, Generator or None, default=0
        With which ones.

    Returns
    -------
    Constraints
        The pair with the higher grade is nearer, with a weight proportional to the difference. The
        n grades of a person weigh n - 1 in all. Equal grades compare nothing.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> Constraints.from_grades([[0, 1], [0, 2], [1, 2]], [7, 1, 4]).quadruplets.tolist()
    [[0, 1, 0, 2], [0, 1, 1, 2], [1, 2, 0, 2]]
    """
    rows, graded = _check("from_grades", pairs, grades, ids)
    if who is not None and columns is not None and "who" in columns:
        raise ValueError("Pass either who= or the column 'who', not both.")
    columns = dict(columns or {}) | ({} if who is None else {"who": who})
    group = answers.number_groups(columns.get("who"), len(rows))
    rng = np.random.default_rng(random_state)
    turned = turn_grades(rows, graded, group, check_count("n_others", n_others), rng)
    if len(turned.weights) == 0:
        raise ValueError(
            f"from_grades: the {len(rows)} grades compare nothing: no person gave different grades "
            "to two pairs."
        )
    return answers.make_constraints(cls, turned, ids, n_points, columns, len(rows))


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return pairs and grades of lines, and their faults."""
    pairs, faults = reader.find_points(cells[:2])
    grades = reader.find_numbers(cells[2])
    return (pairs, grades), [*faults, *_find_faults(pairs, grades)]


def score_grades(
    self: "answers.Metric",
    X: ArrayLike,
    pairs: ArrayLike,
    grades: ArrayLike,
    *,
    who: ArrayLike | None = None,
) -> float:
    """Return the rank correlation of grades of similarity with nearness.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that the pairs index; they need not be those of ``fit``.
    pairs, grades, who : array-like
        As for :meth:`mdaml.Constraints.from_grades`.

    Returns
    -------
    score : float
        Spearman's correlation, between -1 and 1; with `who`, its mean over the persons, each
        counted by the number of grades. Persons who gave only one grade do not count.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> X = [[0.0], [1.0], [3.0], [6.0]]
    >>> round(float(Euclidean().fit(X).score_grades(X, [[0, 1], [0, 2], [0, 3]], [7, 4, 2])), 3)
    1.0
    """
    Y = self.transform(X)
    rows, graded = _check("score_grades", pairs, grades, get_index(X), len(Y))
    near = -pair_sq_dists(Y, rows)
    group = answers.number_groups(who, len(rows))
    scores, sizes = [], []
    for own in answers.split_groups(np.arange(len(group)), group):
        if np.ptp(graded[own]) > 0 and np.ptp(near[own]) > 0:
            scores.append(spearmanr(graded[own], near[own]).statistic)
            sizes.append(len(own))
    if not scores:
        raise ValueError("score_grades needs different grades by one person; there are none.")
    return float(np.average(scores, weights=sizes))

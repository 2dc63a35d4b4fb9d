"""Constraints of answers as people give them: the class methods for odd one out, picks and so on.

The rules, and why they are so, are in :mod:`mdaml.constraints.forms`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mdaml._typing import ArrayLike, IntArray
from mdaml._validation import check_number
from mdaml.constraints import answer_checks, forms
from mdaml.constraints.checks import COLUMNS, check_points
from mdaml.constraints.generators import Seed, _check_count
from mdaml.constraints.negatives import draw_negatives

if TYPE_CHECKING:  # the class takes its methods from here
    from mdaml.constraints.value import Constraints

Columns = Mapping[str, ArrayLike]
ANSWER = "answer_number"  # the column that holds which answer a constraint came from


def from_odd_one_out(
    cls: type["Constraints"],
    items: ArrayLike,
    odd: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: Columns | None = None,
) -> "Constraints":
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
        What else is known of each answer, such as who gave it.

    Returns
    -------
    Constraints
        Any two others are nearer to each other than to the odd one, (k-1)(k-2) triplets of weight
        2 / (k (k-2)): for three items two triplets, each of weight 2/3. "None" is the mean over all
        odd ones. The column ``answer_number`` tells which answer a triplet came from.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> said = Constraints.from_odd_one_out(
    ...     [["cat", "car", "dog"]], ["car"], ids=["car", "cat", "dog"]
    ... )
    >>> said.triplets.tolist(), said.weights.round(2).tolist()
    ([[1, 2, 0], [2, 1, 0]], [0.67, 0.67])
    """
    rows, odd_rows = answer_checks.check_odd_one_out(items, odd, ids)
    place = answer_checks.find_places(rows, odd_rows)
    answer_checks.refuse_faults(
        "from_odd_one_out", answer_checks.faults_odd_one_out(rows, place), items
    )
    return _make(cls, forms.turn_odd_one_out(rows, place), ids, n_points, columns, len(rows))


def from_picks(
    cls: type["Constraints"],
    anchors: ArrayLike,
    shown: ArrayLike,
    picked: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: Columns | None = None,
) -> "Constraints":
    """Turn answers to "which k of these n are most like the anchor" into triplets.

    Parameters
    ----------
    anchors : array-like of shape (n_answers,)
        Rows of X, or names.
    shown : array-like of shape (n_answers, n)
        What could be picked; -1, None or an empty text where fewer were shown.
    picked : array-like of shape (n_answers, k)
        What was picked, in any order; -1, None or an empty text where fewer were.
    ids, n_points, columns
        As for :meth:`from_odd_one_out`.

    Returns
    -------
    Constraints
        Each picked item is nearer to the anchor than each of the others, with weight
        ``(2/k) (1/n + 1/(n-1) + ... + 1/(n-k+1))``. If none or all were picked, both directions of
        every two, together as heavy as one pick.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> Constraints.from_picks([0], [[1, 2, 3]], [[2]]).triplets.tolist()
    [[0, 2, 1], [0, 2, 3]]
    """
    anchor, shown_rows, chosen, strangers = answer_checks.check_picks(anchors, shown, picked, ids)
    found = answer_checks.faults_picks(anchor, shown_rows, strangers)
    answer_checks.refuse_faults("from_picks", found, shown)
    turned = forms.turn_picks(anchor, shown_rows, chosen)
    return _make(cls, turned, ids, n_points, columns, len(anchor))


def from_rankings(
    cls: type["Constraints"],
    anchors: ArrayLike,
    rankings: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: Columns | None = None,
) -> "Constraints":
    """Turn items ranked by their likeness to an anchor into triplets.

    Parameters
    ----------
    anchors : array-like of shape (n_answers,)
        Rows of X, or names.
    rankings : array-like of shape (n_answers, n)
        Items, the most like the anchor first; -1, None or an empty text behind the last one.
    ids, n_points, columns
        As for :meth:`from_odd_one_out`.

    Returns
    -------
    Constraints
        Every item is nearer than each later one, with weight ``2 / (n - place)``, the first place
        being 0. A ranking of n weighs ``2 (n - 1 - 1/2 - ... - 1/n)`` in all.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> said = Constraints.from_rankings([0], [[3, 1, 2]])
    >>> said.triplets.tolist(), said.weights.round(2).tolist()
    ([[0, 3, 1], [0, 3, 2], [0, 1, 2]], [0.67, 0.67, 1.0])
    """
    anchor, ranked = answer_checks.check_rankings(anchors, rankings, ids)
    answer_checks.refuse_faults(
        "from_rankings", answer_checks.faults_rankings(anchor, ranked), rankings
    )
    return _make(cls, forms.turn_rankings(anchor, ranked), ids, n_points, columns, len(anchor))


def from_votes(
    cls: type["Constraints"],
    questions: ArrayLike,
    votes: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: Columns | None = None,
) -> "Constraints":
    """Turn votes on "is a more like b or like c" into one weighted triplet for each question.

    Parameters
    ----------
    questions : array-like of shape (n_questions, 3)
        Points a, b and c: rows of X, or names.
    votes : array-like of shape (n_questions, 2) or (n_questions, 3)
        How many said b, how many c and, if there is a third column, how many neither.
    ids, n_points, columns
        As for :meth:`from_odd_one_out`.

    Returns
    -------
    Constraints
        With v votes for the winner and u for the other, the weight is ``log2((v+1) / (u+1))``: 1
        for a single vote, 2 for 3 : 0, 0.58 for 2 : 1. A vote for neither is half a vote for each.
        Equal votes are kept as an undecided answer: both directions, each of weight 1/2.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> said = Constraints.from_votes([[0, 1, 2], [0, 1, 3]], [[0, 3], [1, 1]])
    >>> said.triplets.tolist(), said.weights.tolist()
    ([[0, 2, 1], [0, 1, 3], [0, 3, 1]], [2.0, 0.5, 0.5])
    >>> said.counts().ties, said.counts().contradictions
    (1, 0)
    """
    rows, counted = answer_checks.check_votes(questions, votes, ids)
    answer_checks.refuse_faults("from_votes", answer_checks.faults_votes(rows, counted), questions)
    return _make(cls, forms.turn_votes(rows, counted), ids, n_points, columns, len(rows))


def from_grades(
    cls: type["Constraints"],
    pairs: ArrayLike,
    grades: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    who: ArrayLike | None = None,
    n_others: int = 6,
    n_points: int | None = None,
    columns: Columns | None = None,
    random_state: Seed = 0,
) -> "Constraints":
    """Turn grades of similarity, such as 1 to 7, into quadruplets.

    Parameters
    ----------
    pairs : array-like of shape (n_answers, 2)
        Rows of X, or names.
    grades : array-like of shape (n_answers,)
        Numbers, the higher the more alike.
    ids, n_points, columns
        As for :meth:`from_odd_one_out`.
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
    rows, graded = answer_checks.check_grades(pairs, grades, ids)
    answer_checks.refuse_faults("from_grades", answer_checks.faults_grades(rows, graded), pairs)
    group, columns = _group_by(who, columns, len(rows))
    n_others = _check_count("n_others", n_others)
    rng = np.random.default_rng(random_state)
    turned = forms.turn_grades(rows, graded, group, n_others, rng)
    if len(turned.weights) == 0:
        raise ValueError(
            f"from_grades: the {len(rows)} grades compare nothing: no person gave different grades "
            "to two pairs."
        )
    return _make(cls, turned, ids, n_points, columns, len(rows))


def from_positives(
    cls: type["Constraints"],
    pairs: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_negatives: int = 5,
    X: Any = None,
    model: Any = None,
    hard: float = 0.5,
    n_points: int | None = None,
    columns: Columns | None = None,
    random_state: Seed = 0,
) -> "Constraints":
    """Turn pairs that belong together, such as clicks or duplicates, into triplets.

    Nothing is known to be different: what each pair is compared with is drawn.

    Parameters
    ----------
    pairs : array-like of shape (n_answers, 2)
        Rows of X, or names: what was looked for, and what was found.
    ids, n_points, columns
        As for :meth:`from_odd_one_out`.
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
    >>> said = Constraints.from_positives([[0, 1], [2, 3]], n_negatives=2, n_points=4)
    >>> sorted(said.triplets.tolist())
    [[0, 1, 2], [0, 1, 3], [2, 3, 0], [2, 3, 1]]
    """
    rows = answer_checks.check_pairs_of_points(pairs, ids)
    answer_checks.refuse_faults("from_positives", answer_checks.faults_positives(rows), pairs)
    count = _check_count("n_negatives", n_negatives)
    share = check_number(cls.__new__(cls), "hard", hard, 0.0, 1.0)
    if X is not None and n_points is None and ids is None:
        n_points = len(X)
    _, limit = check_points(cls.__new__(cls), n_points, ids)
    limit = int(rows.max()) + 1 if limit is None else limit
    Z = None if X is None else np.asarray(X if model is None else model.transform(X), float)
    rng = np.random.default_rng(random_state)
    negatives = draw_negatives(rows, limit, count, Z, round(share * count), rng)
    return _make(cls, forms.turn_positives(rows, negatives), ids, limit, columns, len(rows))


def _group_by(
    who: ArrayLike | None, columns: Columns | None, n: int
) -> tuple[IntArray, Columns | None]:
    """Return the number of the person of each answer, and columns with who."""
    if who is None:
        who = None if columns is None else columns.get("who")
    elif columns is not None and "who" in columns:
        raise ValueError("Pass either who= or the column 'who', not both.")
    else:
        columns = {**(columns or {}), "who": who}
    return answer_checks.number_groups(who, n), columns


def _make(
    cls: type["Constraints"],
    turned: forms.Turned,
    ids: Any,
    n_points: int | None,
    columns: Columns | None,
    n_answers: int,
) -> "Constraints":
    """Return the comparisons of answers, each with the columns of its answer."""
    own: dict[str, Any] = {}
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
    kind = "triplets" if turned.members.shape[1] == 3 else "quadruplets"
    return cls(
        **{kind: turned.members},
        weights=turned.weights,
        n_points=n_points,
        ids=None if ids is None else np.asarray(ids),
        columns=own | {ANSWER: turned.answer},
    )

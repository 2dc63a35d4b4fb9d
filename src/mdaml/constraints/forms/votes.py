"""Votes: how many people called a more like b, and how many more like c."""

import numpy as np

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml.constraints.forms import answers
from mdaml.constraints.names import MOST_POINTS, get_index
from mdaml.kernels.pairs import pair_sq_dists

COLUMNS = ("a", "b", "c", "votes_b", "votes_c", "neither?")


def _check(
    caller: str, questions: ArrayLike, votes: ArrayLike, ids: answers.Ids, most: int = MOST_POINTS
) -> tuple[IntArray, FloatArray]:
    """Return rows of the questions, (n, 3), and numbers of votes, (n, 2) or (n, 3)."""
    rows = answers.check_rows("questions", questions, ids, (None, 3), most=most)
    counted = answers.check_numbers("votes", votes, 2)
    if counted.shape not in ((len(rows), 2), (len(rows), 3)):
        raise ValueError(
            f"votes must hold, for each of the {len(rows)} questions, votes for b, for c and "
            f"perhaps for neither; got shape {counted.shape}."
        )
    answers.refuse_faults(caller, find_faults(rows, counted), questions)
    return rows, counted


def find_faults(questions: IntArray, votes: FloatArray) -> answers.Faults:
    """Yield faults of (n, 3) questions and votes for b, for c and perhaps for neither."""
    yield np.any(questions < 0, axis=1), "a point is missing"
    yield answers.find_repeats(questions), "a point is there twice"
    countable = np.all((votes >= 0) & (votes <= 1e15), axis=1)  # false where one is no number
    yield ~countable, "votes must be counts, 0 or more"
    yield countable & (votes.sum(axis=1) == 0), "there is no vote"


def turn_votes(questions: IntArray, votes: FloatArray) -> answers.Turned:
    """Return one comparison for each question (a, b, c) with votes for b, for c, and for neither.

    An answer that is right with probability p counts best with weight ``log(p / (1-p))`` [1]_. With
    a uniform prior and v against u votes the mean of p is ``(v+1) / (v+u+2)``, which gives
    ``log((v+1) / (u+1))``; divided by ``log 2``, a single vote weighs 1. A vote for neither is half
    a vote for each. Equal votes are one undecided answer of weight 1.

    References
    ----------
    .. [1] Nitzan, Paroush, Optimal decision rules in uncertain dichotomous choice situations,
       International Economic Review 23, 1982.
    """
    half = votes[:, 2] / 2 if votes.shape[1] > 2 else 0.0
    for_b, for_c = votes[:, 0] + half, votes[:, 1] + half
    weight = np.log2((np.maximum(for_b, for_c) + 1) / (np.minimum(for_b, for_c) + 1))
    equal = for_b == for_c
    clear = np.where((for_b > for_c)[:, None], questions, questions[:, [0, 2, 1]])[~equal]
    open_ = questions[equal][:, [[0, 1, 2], [0, 2, 1]]].reshape(-1, 3)
    weights = np.concatenate([weight[~equal], np.full(len(open_), 0.5)])
    answer = np.concatenate([np.flatnonzero(~equal), np.repeat(np.flatnonzero(equal), 2)])
    return answers.Turned(np.concatenate([clear, open_]), weights, answer).in_order()


def from_votes(
    cls: "type[answers.Constraints]",
    questions: ArrayLike,
    votes: ArrayLike,
    ids: ArrayLike | None = None,
    *,
    n_points: int | None = None,
    columns: answers.Columns | None = None,
) -> "answers.Constraints":
    """Turn votes on "is a more like b or like c" into one weighted triplet for each question.

    Parameters
    ----------
    questions : array-like of shape (n_questions, 3)
        Points a, b and c: rows of X, or names.
    votes : array-like of shape (n_questions, 2) or (n_questions, 3)
        How many said b, how many c and, if there is a third column, how many neither.
    ids : sequence of str or int, default=None
        Names of the rows of X, in their order. Needed if points are names.
    n_points : int, default=None
        Rows of X. None is the number of `ids`, or the highest row that is named, plus one.
    columns : mapping of str to array-like of shape (n_answers,), default=None
        Other facts about each answer, such as who gave it.

    Returns
    -------
    Constraints
        With v votes for the winner and u for the other, the weight is ``log2((v+1) / (u+1))``: 1
        for a single vote, 2 for 3 : 0, 0.58 for 2 : 1. A vote for neither is half a vote for each.
        Equal votes are kept as an undecided answer: both directions, each of weight 1/2.

    Examples
    --------
    >>> from mdaml import Constraints
    >>> answers = Constraints.from_votes([[0, 1, 2], [0, 1, 3]], [[0, 3], [1, 1]])
    >>> answers.triplets.tolist(), answers.weights.tolist()
    ([[0, 2, 1], [0, 1, 3], [0, 3, 1]], [2.0, 0.5, 0.5])
    >>> answers.counts().ties, answers.counts().contradictions
    (1, 0)
    """
    rows, counted = _check("from_votes", questions, votes, ids)
    return answers.make_constraints(
        cls, turn_votes(rows, counted), ids, n_points, columns, len(rows)
    )


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return questions and votes of lines, and their faults."""
    questions, faults = reader.find_points(cells[:3])
    votes = np.stack([reader.find_numbers(column) for column in cells[3:]], axis=1)
    return (questions, votes), [*faults, *find_faults(questions, votes)]


def score_votes(
    self: "answers.Metric", X: ArrayLike, questions: ArrayLike, votes: ArrayLike
) -> float:
    """Return the share of votes for the point that is nearer under the learned distance.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that the questions index; they need not be those of ``fit``.
    questions, votes : array-like
        As for :meth:`mdaml.Constraints.from_votes`. Votes for neither do not count.

    Returns
    -------
    score : float
        Between 0 and 1. No metric can reach more than the share of votes for the majority.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> X = [[0.0], [1.0], [3.0], [6.0]]
    >>> Euclidean().fit(X).score_votes(X, [[0, 1, 2], [0, 3, 1]], [[3, 1], [1, 3]])
    0.75
    """
    Y = self.transform(X)
    rows, counted = _check("score_votes", questions, votes, get_index(X), len(Y))
    of_b, of_c = (pair_sq_dists(Y, rows[:, [0, other]]) for other in (1, 2))
    right = np.sum(counted[:, 0] * (of_b < of_c) + counted[:, 1] * (of_c < of_b))
    total = counted[:, :2].sum()
    if total == 0:
        raise ValueError("score_votes needs votes for b or for c; all are for neither.")
    return float(right / total)

"""How many constraints of each kind there are, how many repeat and how many contradict another."""

from dataclasses import dataclass

import numpy as np

from mdaml._typing import Array, BoolArray, IntArray
from mdaml.constraints.forms.answers import ANSWER
from mdaml.constraints.value import Constraints


@dataclass(frozen=True)
class ConstraintCounts:
    """What :meth:`Constraints.counts` found.

    Attributes
    ----------
    triplets, similar_pairs, dissimilar_pairs, quadruplets : int
        Constraints of each kind, repetitions included.
    points : int
        Points that at least one constraint names.
    duplicates : int
        Constraints that repeat an earlier one. Pairs have no order, and a triplet
        ``(a, b, c)`` is the quadruplet ``(a, b, a, c)``.
    contradictions : int
        Couples of opposite statements: a comparison and its reverse, a pair that is called both
        similar and dissimilar. However often each was made, the couple counts once. The two
        directions of one undecided answer are not a contradiction.
    ties : int
        Answers that are undecided: both directions of a comparison come from one answer. Neither
        counts as a duplicate or contradiction.

    Examples
    --------
    >>> from mdaml.constraints import Constraints
    >>> Constraints(triplets=[[0, 1, 2], [0, 2, 1], [0, 1, 2]]).counts().contradictions
    1
    """

    triplets: int
    similar_pairs: int
    dissimilar_pairs: int
    quadruplets: int
    points: int
    duplicates: int
    contradictions: int
    ties: int = 0


def count(supervision: Constraints) -> ConstraintCounts:
    """Count constraints by kind, points, repetitions and contradictions."""
    named = np.zeros(supervision.n_points, bool)
    for part in (supervision.triplets, supervision.pairs, supervision.quadruplets):
        named[part] = True
    compared, n_ties = supervision.comparisons(), 0
    if ANSWER in supervision.columns:
        of_pairs = slice(len(supervision.triplets), -len(supervision.quadruplets) or None)
        answer = np.delete(supervision.columns[ANSWER], of_pairs)
        is_tie, n_ties = find_ties(compared, answer, supervision.n_points)
        compared = compared[~is_tie]
    again, opposite = count_repeated_comparisons(compared, supervision.n_points)
    pairs_again, both = count_repeated_pairs(
        supervision.pairs, supervision.pair_labels, supervision.n_points
    )
    return ConstraintCounts(
        triplets=len(supervision.triplets),
        similar_pairs=int(np.sum(supervision.pair_labels > 0)),
        dissimilar_pairs=int(np.sum(supervision.pair_labels < 0)),
        quadruplets=len(supervision.quadruplets),
        points=int(named.sum()),
        duplicates=again + pairs_again,
        contradictions=opposite + both,
        ties=n_ties,
    )


def find_ties(comparisons: IntArray, answer: Array, n_points: int) -> tuple[BoolArray, int]:
    """Say which of (n, 4) comparisons have their reverse in the same answer; count the answers."""
    pairs = pair_keys(comparisons.reshape(-1, 2), n_points).reshape(-1, 2)
    number = np.unique(
        answer.astype(str) if answer.dtype == object else answer, return_inverse=True
    )[1]
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    order = np.lexsort((high, low, number))
    keys = np.stack([number, low, high])[:, order]
    question = np.cumsum(np.append(0, np.any(keys[:, 1:] != keys[:, :-1], axis=0)))
    n = question[-1] + 1 if len(question) else 0
    forward = np.bincount(question, (pairs[:, 0] == low)[order], n)
    both = ((forward > 0) & (forward < np.bincount(question, minlength=n)))[question]
    is_tie = np.zeros(len(order), bool)
    is_tie[order] = both
    return is_tie, len(np.unique(number[is_tie]))


def count_repeated_comparisons(comparisons: IntArray, n_points: int) -> tuple[int, int]:
    """Return how many of (n, 4) comparisons are duplicates, and how many couples are opposite."""
    pairs = pair_keys(comparisons.reshape(-1, 2), n_points)
    # The keys of two pairs together would overflow beyond 55 000 points; their ranks do not.
    distinct, ranks = np.unique(pairs, return_inverse=True)
    near, far = ranks.reshape(-1, 2).T
    keys = np.unique(near * len(distinct) + far)
    near, far = np.divmod(keys, max(len(distinct), 1))
    opposite = np.isin(far * len(distinct) + near, keys, assume_unique=True)
    return len(comparisons) - len(keys), int(opposite.sum()) // 2


def count_repeated_pairs(pairs: IntArray, labels: IntArray, n_points: int) -> tuple[int, int]:
    """Return how many of (n, 2) labelled pairs are duplicates, and how many have both labels."""
    keys = pair_keys(pairs, n_points)
    similar, dissimilar = np.unique(keys[labels > 0]), np.unique(keys[labels < 0])
    both = np.intersect1d(similar, dissimilar, assume_unique=True)
    return len(pairs) - len(similar) - len(dissimilar), len(both)


def pair_keys(pairs: IntArray, n_points: int) -> IntArray:
    """Return one number for each pair, the same for both orders."""
    return pairs.min(axis=1) * n_points + pairs.max(axis=1)

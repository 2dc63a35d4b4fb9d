r"""Answers as people give them, turned into weighted comparisons: one function for each form.

**The rule.** By Luce's choice model the probability to choose one of m options is ``exp(u)`` over
the sum of ``exp(u)`` of all, where the utility u of an option is minus a squared distance. Such a
choice becomes m - 1 comparisons, of the chosen option with each other one, **each of weight
2 / m**. Where all options are alike, these comparisons (each with the logistic loss) then have the
gradient of the choice and, on average over the options, its Hessian. So a choice between two weighs
1, one of many at most 2: comparisons that come from one answer are not independent answers.

An answer that leaves open which of several was meant ("neither", "no odd one") is the mean of the
answers that it leaves open: both directions, each with half of the weight.
"""

from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray

_BLOCK = 1 << 16  # answers turned at a time: bounds the memory


class Turned(NamedTuple):
    """Comparisons that answers became."""

    members: IntArray  # (n, 3) triplets or (n, 4) quadruplets
    weights: FloatArray  # (n,)
    answer: IntArray  # (n,) the answer that each came from


def turn_odd_one_out(items: IntArray, odd: IntArray) -> Turned:
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
    return _in_order(np.concatenate([clear, none]), weights, answer)


def turn_rankings(anchors: IntArray, rankings: IntArray) -> Turned:
    """Return comparisons of items ranked by likeness to an anchor; -1 behind the last one.

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
    return _in_order(*map(np.concatenate, zip(*parts, strict=True)))


def turn_picks(anchors: IntArray, shown: IntArray, picked: BoolArray) -> Turned:
    """Return comparisons of k picked out of n shown items; -1 where fewer were shown.

    The k are chosen one after the other, in an order that is not known: the mean over the orders.
    Each picked item is nearer than each other one, with weight ``(2/k) (1/n + ... + 1/(n-k+1))``;
    what this says about picked ones among themselves cancels. If none or all were picked, it is not
    known which one comes first: the mean over all single picks.
    """
    parts: list[tuple[Any, ...]] = []
    there = shown >= 0
    n, k = there.sum(axis=1), (picked & there).sum(axis=1)
    weight = pick_weights(shown.shape[1])
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
    return Turned(*map(np.concatenate, zip(*parts, strict=True)))


def pick_weights(most: int) -> FloatArray:
    """Return the weight of k picks of n for each n and k up to a number, (n, k); 0 for no picks."""
    weights = np.zeros((most + 1, most + 1))
    for n in range(1, most + 1):
        harmonic = np.cumsum(1.0 / np.arange(n, 0, -1))
        weights[n, 1 : n + 1] = 2.0 * harmonic / np.arange(1, n + 1)
    return weights


def turn_votes(questions: IntArray, votes: FloatArray) -> Turned:
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
    return _in_order(np.concatenate([clear, open_]), weights, answer)


def turn_grades(
    pairs: IntArray, grades: FloatArray, group: IntArray, n_others: int, rng: np.random.Generator
) -> Turned:
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
    return Turned(np.hstack([pairs[near], pairs[far]]), weights, near)


def turn_positives(pairs: IntArray, negatives: IntArray) -> Turned:
    """Return comparisons of each pair (a, b) with drawn negatives of a, (n, q); -1 for none.

    A choice of b out of itself and q others: each comparison weighs ``2 / (q + 1)``.
    """
    there = negatives >= 0
    row, place = np.nonzero(there)
    members = np.column_stack([pairs[row], negatives[row, place]])
    return Turned(members, 2.0 / (there.sum(axis=1)[row] + 1), row)


def _in_order(members: IntArray, weights: FloatArray, answer: IntArray) -> Turned:
    if np.all(answer[:-1] <= answer[1:]):
        return Turned(members, weights, answer)
    order = np.argsort(answer, kind="stable")
    return Turned(members[order], weights[order], answer[order])

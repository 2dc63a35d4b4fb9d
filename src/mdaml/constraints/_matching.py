"""Pairs as comparisons: which similar pair is to be nearer than which dissimilar pair."""

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints._sets import PairSet

# Dissimilar pairs that each similar pair is compared with, if there are so many.
N_MATCHES = 10
# Pairs matched at a time: bounds the memory.
_BLOCK = 65536


def match_pairs(
    similar: PairSet, dissimilar: PairSet, n_samples: int, rng: np.random.RandomState
) -> tuple[IntArray, FloatArray]:
    """Return comparisons of similar with dissimilar pairs, (n, 4), and their weights.

    Every similar pair meets ten dissimilar pairs, or all if there are fewer: first those that share
    a sample with it, more than ten of them at random, then others at random. A dissimilar pair that
    none has met meets one similar pair, which shares a sample with it if any does. A pair that is
    both similar and dissimilar does not meet itself.

    The weight of a comparison is proportional to the product of the weights of its pairs. All
    together weigh as much as all pairs do: as comparisons made from n pairs of weight one they
    count like n triplets.

    Parameters
    ----------
    similar, dissimilar : PairSet
        Pairs of either kind.
    n_samples : int
        Rows of the samples.
    rng : RandomState
        Of the draws.

    Returns
    -------
    comparisons : array of shape (n, 4)
        Similar pair and dissimilar pair.
    weights : array of shape (n,)
        Of the comparisons.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.constraints import PairSet, match_pairs
    >>> similar = PairSet.from_pairs(np.array([[0, 1]]), 4)
    >>> dissimilar = PairSet.from_pairs(np.array([[0, 2], [1, 3]]), 4)
    >>> comparisons, weights = match_pairs(similar, dissimilar, 4, np.random.RandomState(0))
    >>> sorted(comparisons.tolist()), weights.tolist()
    ([[0, 1, 0, 2], [0, 1, 1, 3]], [1.5, 1.5])
    """
    near, far = _match(similar.pairs, dissimilar.pairs, N_MATCHES, n_samples, rng)
    missed = np.setdiff1d(np.arange(len(dissimilar.pairs)), far)
    met, others = _match(dissimilar.pairs[missed], similar.pairs, 1, n_samples, rng)
    near, far = np.concatenate([near, others]), np.concatenate([far, missed[met]])
    weights = similar.counts[near] * dissimilar.counts[far]
    if len(weights):
        weights *= (similar.total + dissimilar.total) / weights.sum()
    return np.hstack([similar.pairs[near], dissimilar.pairs[far]]), weights


def _match(
    queries: IntArray, targets: IntArray, k: int, n_samples: int, rng: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Return which query meets which target, up to k for each query, those that touch it first."""
    touching, shuffled = _touching(targets, n_samples, rng), rng.permutation(len(targets))
    met = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for begin in range(0, len(queries), _BLOCK):
        some = queries[begin : begin + _BLOCK]
        sharing, shares = _sharing(some, targets, k, touching, rng)
        sizes = np.full((len(some), 1), len(targets))
        # Where fewer than k share a sample, one more than k of all must hold k others: those that
        # share one, at most k - 1, are here already, and the query itself is no partner.
        other = shuffled[_round(sizes, min(k + 1, len(targets)), rng)]
        touches = targets[other][..., None] == some[:, None, None, :]
        wanted = np.hstack([shares, ~touches.any(axis=(2, 3))])
        wanted &= np.cumsum(wanted, axis=1) <= k
        met.append((begin + np.nonzero(wanted)[0], np.hstack([sharing, other])[wanted]))
    met_queries, met_targets = (np.concatenate(parts) for parts in zip(*met, strict=True))
    return met_queries, met_targets


def _sharing(
    queries: IntArray,
    targets: IntArray,
    k: int,
    touching: tuple[IntArray, IntArray],
    rng: np.random.RandomState,
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return for each query some targets that share a sample with it, and which of them count.

    All of them, or at least k that count: two more than k are looked at, because a target that is
    the query itself is listed for both its samples, and does not count.
    """
    indptr, members = touching
    begin, count = indptr[queries], np.diff(indptr)[queries]  # (Q, 2): of either sample
    total = count.sum(axis=1, keepdims=True)
    place = _round(total, min(k + 2, max(int(total.max()), 1)), rng)
    of_first = place < count[:, :1]
    listed = np.where(of_first, begin[:, :1] + place, begin[:, 1:] + place - count[:, :1])
    exists = np.arange(place.shape[1]) < total
    sharing = members[np.where(exists, listed, 0)]
    return sharing, exists & np.any(targets[sharing] != queries[:, None], axis=2)


def _touching(
    pairs: IntArray, n_samples: int, rng: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Return the rows of the pairs that each sample is in, in random order."""
    ends, rows = pairs.ravel(), np.repeat(np.arange(len(pairs)), 2)
    mixed = rng.permutation(len(ends))
    order = mixed[np.argsort(ends[mixed], kind="stable")]
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_samples))]), rows[order]


def _round(sizes: IntArray, width: int, rng: np.random.RandomState) -> IntArray:
    """Return consecutive places in lists of the given sizes, (Q, 1), round from a random one.

    Of shuffled lists these are distinct random members, without a loop.
    """
    start = (rng.random_sample(sizes.shape) * sizes).astype(np.int64)
    return (start + np.arange(width)) % np.maximum(sizes, 1)

"""Constraints of every form as comparisons of two pairs, as pairs, or as near and far partners."""

from collections.abc import Iterator

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray, Rng
from mdaml._validation import warn
from mdaml.constraints.comparisons import PairSet
from mdaml.constraints.forms.pairs import check_both_kinds as check_both_kinds
from mdaml.constraints.value import Constraints
from mdaml.kernels.pairs import pair_sq_dists

# Dissimilar pairs that each similar pair is compared with, if there are so many.
N_MATCHES = 10
# Pairs matched at a time: bounds the memory.
_BLOCK = 65536


def to_comparisons(name: str, supervision: Constraints, rng: Rng) -> Constraints:
    """Return triplets of equal weight as they are, and all else as weighted quadruplets.

    A triplet ``(a, b, c)`` is the quadruplet ``(a, b, a, c)``; pairs are matched with each other.
    """
    if has_triplets_only(supervision):
        return supervision
    of_triplets, of_pairs, of_quadruplets = split_weights(supervision)
    matched, of_matched = _match_kinds(name, supervision, of_pairs, rng)
    parts = [supervision.triplets[:, [0, 1, 0, 2]], matched, supervision.quadruplets]
    weights = np.concatenate([of_triplets, of_matched, of_quadruplets])
    return Constraints.of_quadruplets(np.concatenate(parts), weights, supervision.n_points)


def has_triplets_only(supervision: Constraints) -> bool:
    """Return whether these are triplets of equal weight and nothing else."""
    alike = bool(np.all(supervision.weights == supervision.weights[0]))
    return alike and supervision.n_constraints == len(supervision.triplets)


def split_weights(supervision: Constraints) -> list[FloatArray]:
    """Return the weights of triplets, of pairs and of quadruplets."""
    return np.split(
        supervision.weights, np.cumsum([len(supervision.triplets), len(supervision.pairs)])
    )


def to_pair_sets(supervision: Constraints) -> tuple[PairSet, PairSet]:
    """Return similar and dissimilar pairs, those of triplets and quadruplets among them.

    Weights are scaled to one on average, those of either kind by themselves.
    """
    of_triplets, of_pairs, of_quadruplets = split_weights(supervision)
    sets = []
    for kind, *rows in _split_sides(supervision):
        weights = np.concatenate([of_triplets, of_pairs[kind], of_quadruplets])
        weights = weights * (len(weights) / max(weights.sum(), 1e-100))
        sets.append(PairSet.from_pairs(np.concatenate(rows), supervision.n_points, weights))
    return sets[0], sets[1]


def _split_sides(
    supervision: Constraints,
) -> Iterator[tuple[BoolArray, IntArray, IntArray, IntArray]]:
    """Yield which pairs are near, and near pairs of triplets, pairs and quadruplets; then far."""
    for last, sign, members in ((1, 1, [0, 1]), (2, -1, [2, 3])):
        kind = supervision.pair_labels == sign
        of_triplets = supervision.triplets[:, [0, last]]
        yield kind, of_triplets, supervision.pairs[kind], supervision.quadruplets[:, members]


def compared_rows(supervision: Constraints) -> IntArray:
    """Return the rows that constraints name, each once, in increasing order."""
    given = (supervision.triplets, supervision.pairs, supervision.quadruplets)
    rows: IntArray = np.unique(np.concatenate([part.ravel() for part in given]))
    return rows


def kinds_of(supervision: Constraints) -> IntArray:
    """Return the kind of each constraint: triplet, similar pair, dissimilar pair, quadruplet."""
    of_pairs = np.where(supervision.pair_labels > 0, 1, 2)
    numbers = len(supervision.triplets), len(supervision.quadruplets)
    return np.concatenate([np.full(numbers[0], 0), of_pairs, np.full(numbers[1], 3)])


def _match_kinds(
    name: str, supervision: Constraints, weights: FloatArray, rng: Rng
) -> tuple[IntArray, FloatArray]:
    """Return the pairs as comparisons of similar with dissimilar ones, and their weights."""
    kinds = [supervision.pair_labels > 0, supervision.pair_labels < 0]
    n_similar, n_dissimilar = (int(kind.sum()) for kind in kinds)
    n_others = len(supervision.triplets) + len(supervision.quadruplets)
    if n_similar and n_dissimilar:
        similar, dissimilar = (
            PairSet.from_pairs(supervision.pairs[kind], supervision.n_points, weights[kind])
            for kind in kinds
        )
        comparisons, of_matched = match_pairs(similar, dissimilar, supervision.n_points, rng)
        if len(comparisons) or n_others:
            return comparisons, of_matched
        raise ValueError(
            "The only similar pair and the only dissimilar pair are the same: nothing can be "
            "compared. Add pairs, or remove the wrong one."
        )
    if n_others == 0:
        advice = "Add some, or pass triplets or quadruplets as well."
        check_both_kinds(name, n_similar, n_dissimilar, advice)
    if len(supervision.pairs):
        kind, other = ("similar", "dissimilar") if n_similar else ("dissimilar", "similar")
        warn(
            f"All {len(supervision.pairs)} pairs are {kind}: without {other} ones to compare them "
            "with they are left out."
        )
    return np.empty((0, 4), np.int64), np.empty(0)


def match_pairs(
    similar: PairSet, dissimilar: PairSet, n_samples: int, rng: Rng
) -> tuple[IntArray, FloatArray]:
    """Return comparisons of similar with dissimilar pairs, (n, 4), and their weights.

    Every similar pair is compared with ten dissimilar pairs, or with all if there are fewer: first
    those that share a sample with it (ten of them at random, if there are more), then others at
    random. A dissimilar pair that is in no comparison yet is compared with one similar pair, which
    shares a sample with it if any does. No pair is compared with itself.

    The weight of a comparison is proportional to the product of the weights of its pairs. All
    together weigh as much as all pairs do: as comparisons made from n pairs of weight one they
    count like n triplets.
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
    queries: IntArray, targets: IntArray, k: int, n_samples: int, rng: Rng
) -> tuple[IntArray, IntArray]:
    """Return which query meets which target, up to k for each query, those that touch it first."""
    touching, shuffled = _touching(targets, n_samples, rng), rng.permutation(len(targets))
    met = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for begin in range(0, len(queries), _BLOCK):
        some = queries[begin : begin + _BLOCK]
        sharing, shares = _sharing(some, targets, k, touching, rng)
        sizes = np.full((len(some), 1), len(targets))
        # If fewer than k targets share a sample, k + 1 of all are enough: at most k - 1 of these
        # share a sample and are listed already, and one may be the query itself.
        other = shuffled[_round(sizes, min(k + 1, len(targets)), rng)]
        touches = targets[other][..., None] == some[:, None, None, :]
        wanted = np.hstack([shares, ~touches.any(axis=(2, 3))])
        wanted &= np.cumsum(wanted, axis=1) <= k
        met.append((begin + np.nonzero(wanted)[0], np.hstack([sharing, other])[wanted]))
    met_queries, met_targets = (np.concatenate(parts) for parts in zip(*met, strict=True))
    return met_queries, met_targets


def _sharing(
    queries: IntArray, targets: IntArray, k: int, touching: tuple[IntArray, IntArray], rng: Rng
) -> tuple[IntArray, BoolArray]:
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


def _touching(pairs: IntArray, n_samples: int, rng: Rng) -> tuple[IntArray, IntArray]:
    """Return the rows of the pairs that each sample is in, in random order."""
    ends, rows = pairs.ravel(), np.repeat(np.arange(len(pairs)), 2)
    mixed = rng.permutation(len(ends))
    order = mixed[np.argsort(ends[mixed], kind="stable")]
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_samples))]), rows[order]


def _round(sizes: IntArray, width: int, rng: Rng) -> IntArray:
    """Return consecutive places in lists of the given sizes, (Q, 1), round from a random one.

    Of shuffled lists these are distinct random members, without a loop.
    """
    start = (rng.random_sample(sizes.shape) * sizes).astype(np.int64)
    return (start + np.arange(width)) % np.maximum(sizes, 1)


def nearest_was_near(Y: FloatArray, supervision: Constraints) -> tuple[IntArray, FloatArray]:
    """Return points that were compared, and whether the nearest of their partners is a near one.

    One if it is, one half for a tie, otherwise zero.

    The partners of a point are those in its triplets (as the reference), pairs and quadruplets; it
    counts if it has near and far ones. ``Y`` holds the samples where Euclidean distance counts.
    """
    near, far = (_closest(Y, partners) for partners in _partners(supervision))
    counts = np.isfinite(near) & np.isfinite(far)
    near, far = near[counts], far[counts]
    return np.flatnonzero(counts), 0.5 * (near <= far) + 0.5 * (near < far)


def _closest(Y: FloatArray, partners: IntArray) -> FloatArray:
    """Return the squared distance of each row to the nearest of its partners; infinite for none."""
    closest = np.full(len(Y), np.inf)
    np.minimum.at(closest, partners[:, 0], pair_sq_dists(Y, partners))
    return closest


def _partners(supervision: Constraints) -> tuple[IntArray, IntArray]:
    """Return (point, partner) in near pairs, and in far pairs."""
    both = []
    for _, of_triplets, *others in _split_sides(supervision):
        mutual = np.concatenate(others)
        both.append(np.concatenate([of_triplets, mutual, mutual[:, ::-1]]))
    return both[0], both[1]

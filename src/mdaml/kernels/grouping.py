"""Loops that prepare the supervision, run once per fit: grouping and colouring."""

from typing import Any

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import exact_loop
from mdaml.kernels.threads import share


@exact_loop
def near_graph(pairs, first, last, n_samples):
    """Rows of near pairs by sample, in either role: indptr, the other samples, the pairs."""
    indptr = np.zeros(n_samples + 1, np.int64)
    for p in range(len(pairs)):
        if first[p] < last[p]:
            indptr[pairs[p, 0] + 1] += 1
            indptr[pairs[p, 1] + 1] += 1
    indptr = np.cumsum(indptr)
    place = indptr.copy()
    samples, rows = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int32)
    for p in range(len(pairs)):
        if first[p] < last[p]:
            for i, j in ((pairs[p, 0], pairs[p, 1]), (pairs[p, 1], pairs[p, 0])):
                samples[place[i]], rows[place[i]] = j, p
                place[i] += 1
    return indptr, samples, rows


@exact_loop
def greedy_colors(indptr, samples):
    """First-fit colour of every sample, in index order: samples that share a pair differ."""
    color = np.full(len(indptr) - 1, -1, np.int32)
    taken = np.full(len(indptr), -1, np.int64)  # taken[c] == i: a neighbour of i has colour c
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            if color[samples[e]] >= 0:
                taken[color[samples[e]]] = i
        c = 0
        while taken[c] == i:
            c += 1
        color[i] = c
    return color


def count_pairs(triplets: IntArray, n_samples: int) -> int:
    """How many distinct pairs (anchor, other) triplets have."""
    order, bounds = _by_anchor(triplets, n_samples)
    partners = np.empty(2 * len(order), np.int32)
    n_pairs = np.zeros(len(bounds) - 1, np.int64)
    args = (triplets, order, bounds, partners, n_samples, n_pairs)
    share(_distinct_partners, len(n_pairs), 20 * len(order), *args)
    return int(n_pairs.sum())


def group_triplets(triplets: IntArray, n_samples: int) -> tuple[IntArray, ...]:
    """Arrays of :class:`mdaml.constraints.Comparisons`: pairs, first, last, far, groups."""
    order, bounds = _by_anchor(triplets, n_samples)
    partners = np.empty(2 * len(order), np.int32)
    n_pairs = np.zeros(len(bounds) - 1, np.int64)
    cost = 20 * len(order)
    args = (triplets, order, bounds, partners, n_samples)
    share(_distinct_partners, len(n_pairs), cost, *args, n_pairs)
    groups = np.concatenate([[0], np.cumsum(n_pairs)])
    pairs = np.empty((groups[-1], 2), np.int32)
    place = index_type(len(order))
    first, last = np.empty(groups[-1], place), np.empty(groups[-1], place)
    n_far = np.empty(len(n_pairs), np.int64)
    far = np.empty(len(order), np.int32)
    share(_group_triplets, len(n_pairs), cost, *args, groups, pairs, first, last, far, n_far)
    far = _compact(bounds, groups, first, last, far, n_far)
    return pairs, first, last, far, groups


def _by_anchor(triplets, n_samples):
    """Stable counting sort: triplets ``order[bounds[g]:bounds[g + 1]]`` share their anchor."""
    order, bounds = counting_sort(triplets[:, 0], n_samples)
    return order, bounds[np.append(True, np.diff(bounds) > 0)]


def counting_sort(keys: IntArray, n_keys: int) -> tuple[IntArray, IntArray]:
    """Sort integers below ``n_keys``: a stable order, and where each of them begins in it."""
    kind = index_type(len(keys))
    order = np.empty(len(keys), kind)
    return order, _sort_by_count(keys, n_keys, order).astype(kind)


@exact_loop
def _sort_by_count(keys, n_keys, order):
    place = np.zeros(n_keys + 1, np.int64)
    for key in keys:
        place[key + 1] += 1
    bounds = np.cumsum(place)
    place[:] = bounds
    for t in range(len(keys)):
        order[place[keys[t]]] = t
        place[keys[t]] += 1
    return bounds


def index_type(n: int) -> Any:
    """Return the narrowest type for places below n that the kernels take."""
    return np.int32 if n < 2**31 else np.int64


def group_pairs(pairs: IntArray, n_samples: int) -> tuple[IntArray, IntArray]:
    """Distinct unordered pairs, sorted, the lower row first; and the place of each one given.

    Two counting sorts, by the higher and by the lower row.
    """
    kind = index_type(n_samples)
    low, high = pairs.min(axis=1).astype(kind), pairs.max(axis=1).astype(kind)
    order = _lexicographic(low, high, n_samples, n_samples)
    places = np.empty(len(pairs), index_type(len(pairs)))
    n_distinct = _number(low, high, order, places)
    distinct = np.empty((n_distinct, 2), kind)
    distinct[places, 0], distinct[places, 1] = low, high
    return distinct, places


def merge_comparisons(
    near: IntArray, far: IntArray, weights: FloatArray, n_pairs: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Distinct comparisons by near pair: bounds of each, far pairs, and sums of their weights."""
    order = _lexicographic(near, far, n_pairs, n_pairs)
    places = np.empty(len(near), index_type(len(near)))
    n_distinct = _number(near, far, order, places)
    sums = np.bincount(places, weights, n_distinct).astype(np.float64)
    firsts, seconds = np.empty(n_distinct, near.dtype), np.empty(n_distinct, near.dtype)
    firsts[places], seconds[places] = near, far
    bounds = np.zeros(n_pairs + 1, index_type(n_distinct))
    bounds[1:] = np.cumsum(np.bincount(firsts, minlength=n_pairs))
    return bounds, seconds, sums


def _lexicographic(major, minor, n_major, n_minor):
    """Order by one key and, where it is equal, by another."""
    order = _order(minor, n_minor)
    return order[_order(major[order], n_major)]


def _order(keys, n_keys):
    """Return a stable order; of few among many keys without counting them all."""
    if n_keys > 8 * len(keys):
        return np.argsort(keys, kind="stable").astype(index_type(len(keys)))
    return counting_sort(keys, n_keys)[0]


@exact_loop
def _number(major, minor, order, places):
    """Give numbers to the distinct keys in their order; return how many there are."""
    number = -1
    for n in range(len(order)):
        t, before = order[n], order[n - 1]
        if n == 0 or major[t] != major[before] or minor[t] != minor[before]:
            number += 1
        places[t] = number
    return number + 1


@exact_loop
def _distinct_partners(begin, end, triplets, order, bounds, partners, n_samples, counts):
    """Sort the distinct partners of each anchor into its own part of ``partners``."""
    seen_by = np.full(n_samples, -1, np.int64)
    for g in range(begin, end):
        own = partners[2 * bounds[g] : 2 * bounds[g + 1]]
        for t in order[bounds[g] : bounds[g + 1]]:
            for member in (triplets[t, 1], triplets[t, 2]):
                if seen_by[member] != g:
                    seen_by[member] = g
                    own[counts[g]] = member
                    counts[g] += 1
        own[: counts[g]].sort()


@exact_loop
def _group_triplets(
    begin, end, triplets, order, bounds, partners, n_samples, groups, pairs, first, last, far, n_far
):
    """List the far pairs of each near pair, sorted; equal lists within an anchor are kept once."""
    row_of = np.empty(n_samples, np.int64)  # row in pairs of each partner of the current anchor
    by_far = np.empty(np.diff(bounds).max(), np.int64)
    for g in range(begin, end):
        rows, members = range(groups[g], groups[g + 1]), order[bounds[g] : bounds[g + 1]]
        for row in rows:
            pairs[row, 0] = triplets[members[0], 0]
            pairs[row, 1] = partners[2 * bounds[g] + row - groups[g]]
            row_of[pairs[row, 1]] = row
        # Two stable counting sorts, by far and then by near pair, leave each list sorted.
        _count(triplets, members, 2, row_of, rows, last)
        place = 0
        for row in rows:
            place, last[row] = place + last[row], place
        for t in members:
            row = row_of[triplets[t, 2]]
            by_far[last[row]] = t
            last[row] += 1
        _count(triplets, members, 1, row_of, rows, last)
        place = bounds[g]
        for row in rows:
            first[row] = place
            place, last[row] = place + last[row], place
        for t in by_far[: len(members)]:
            row = row_of[triplets[t, 1]]
            far[last[row]] = row_of[triplets[t, 2]]
            last[row] += 1
        n_far[g] = _keep_distinct(rows, first, last, far, bounds[g])


@exact_loop
def _count(triplets, members, role, row_of, rows, counts):
    """Count how many of the triplets have each pair in a role: 1 near, 2 far."""
    for row in rows:
        counts[row] = 0
    for t in members:
        counts[row_of[triplets[t, role]]] += 1


@exact_loop
def _keep_distinct(rows, first, last, far, start):
    """Move the lists of one anchor together, each list that equals the one before only once."""
    kept_first = kept_last = start
    for row in rows:
        n = last[row] - first[row]
        if n == 0:
            continue
        same = n == kept_last - kept_first
        for e in range(n if same else 0):
            same = same and far[first[row] + e] == far[kept_first + e]
        if not same:
            kept_first, kept_last = kept_last, kept_last + n
            for e in range(n):
                far[kept_first + e] = far[first[row] + e]
        first[row], last[row] = kept_first, kept_last
    return kept_last - start


@exact_loop
def _compact(bounds, groups, first, last, far, n_far):
    """Close the gaps between the lists of the groups."""
    out = np.empty(n_far.sum(), far.dtype)
    place = 0
    for g in range(len(n_far)):
        out[place : place + n_far[g]] = far[bounds[g] : bounds[g] + n_far[g]]
        for row in range(groups[g], groups[g + 1]):
            first[row] += place - bounds[g]
            last[row] += place - bounds[g]
        place += n_far[g]
    return out


@exact_loop
def group_lists(near, begin, indptr, others, n_others):
    """Arrays of ``Comparisons`` that join every near partner of an anchor with every other.

    Anchor ``begin + a`` has the near partners ``near[begin + a]`` (negative: none) and the far ones
    ``others[indptr[a]:indptr[a + 1]]``. ``n_others`` is the number of far pairs in all.
    """
    n_groups = n_pairs = 0
    for a in range(len(indptr) - 1):
        n_near, n_far = np.sum(near[begin + a] >= 0), indptr[a + 1] - indptr[a]
        if n_near > 0 and n_far > 0:
            n_groups, n_pairs = n_groups + 1, n_pairs + n_near + n_far
    pairs, far = np.empty((n_pairs, 2), np.int32), np.empty(n_others, np.int32)
    first, last = np.zeros(n_pairs, np.int32), np.zeros(n_pairs, np.int32)
    groups = np.zeros(n_groups + 1, np.int64)
    g = p = f = 0
    for a in range(len(indptr) - 1):
        partners = others[indptr[a] : indptr[a + 1]]
        if len(partners) == 0 or np.sum(near[begin + a] >= 0) == 0:
            continue
        for j in near[begin + a]:
            if j >= 0:
                pairs[p, 0], pairs[p, 1] = begin + a, j
                first[p], last[p] = f, f + len(partners)
                p += 1
        for r in partners:
            pairs[p, 0], pairs[p, 1] = begin + a, r
            far[f] = p
            p, f = p + 1, f + 1
        g += 1
        groups[g] = p
    return pairs, first, last, far[:f], groups

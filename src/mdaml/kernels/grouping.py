"""Loops that prepare the supervision, run once per fit: grouping and colouring.

Plain loops over integers, into arrays that are made before: functions of NumPy on whole arrays,
slices and sorts would take more time to compile than all loops of a fit together.
"""

from typing import Any

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import exact_loop
from mdaml.kernels.threads import share


def near_graph(
    pairs: IntArray, first: IntArray, last: IntArray, n_samples: int
) -> tuple[Any, Any, Any]:
    """Rows of near pairs by sample, in either role: indptr, the other samples, the pairs."""
    n_ends = 2 * int(np.count_nonzero(first < last))
    place = np.zeros(n_samples + 2, np.int64)
    samples, rows = np.empty(n_ends, np.int32), np.empty(n_ends, np.int32)
    _list_ends(pairs, first, last, place, samples, rows)
    return place[:-1], samples, rows


@exact_loop
def _list_ends(pairs, first, last, place, samples, rows):
    """Sort by counting; ``place[i + 1]`` moves from where sample i begins to where it ends."""
    for p in range(len(pairs)):
        if first[p] < last[p]:
            place[pairs[p, 0] + 2] += 1
            place[pairs[p, 1] + 2] += 1
    for i in range(2, len(place)):
        place[i] += place[i - 1]
    for p in range(len(pairs)):
        if first[p] < last[p]:
            for end in range(2):
                i = pairs[p, end] + 1
                samples[place[i]], rows[place[i]] = pairs[p, 1 - end], p
                place[i] += 1


def greedy_colors(indptr: IntArray, samples: IntArray) -> IntArray:
    """First-fit colour of every sample, in index order: samples that share a pair differ."""
    color = np.full(len(indptr) - 1, -1, np.int32)
    _color(indptr, samples, color, np.full(len(indptr), -1, np.int64))
    return color


@exact_loop
def _color(indptr, samples, color, taken):
    """Colour the samples; ``taken[c] == i``: a neighbour of i has colour c."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            if color[samples[e]] >= 0:
                taken[color[samples[e]]] = i
        c = 0
        while taken[c] == i:
            c += 1
        color[i] = c


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
    widest = int(np.diff(bounds).max(initial=0))
    pairs = np.empty((groups[-1], 2), np.int32)
    place = index_type(len(order))
    first, last = np.empty(groups[-1], place), np.empty(groups[-1], place)
    n_far = np.empty(len(n_pairs), np.int64)
    far = np.empty(len(order), np.int32)
    lists = (widest, groups, pairs, first, last, far, n_far)
    share(_group_triplets, len(n_pairs), cost, *args, *lists)
    kept = np.empty(n_far.sum(), far.dtype)
    _compact(bounds, groups, first, last, far, n_far, kept)
    return pairs, first, last, kept, groups


def _by_anchor(triplets, n_samples):
    """Stable counting sort: triplets ``order[bounds[g]:bounds[g + 1]]`` share their anchor."""
    order, bounds = counting_sort(triplets[:, 0], n_samples)
    return order, bounds[np.append(True, np.diff(bounds) > 0)]


def counting_sort(keys: IntArray, n_keys: int) -> tuple[IntArray, IntArray]:
    """Sort integers below ``n_keys``: a stable order, and where each of them begins in it."""
    kind = index_type(len(keys))
    order, place = np.empty(len(keys), kind), np.zeros(n_keys + 2, kind)
    _sort_by_count(keys, order, place)
    return order, place[:-1]


@exact_loop
def _sort_by_count(keys, order, place):
    """Write a stable order; ``place[k + 1]`` moves from where key k begins to where it ends."""
    for t in range(len(keys)):
        place[keys[t] + 2] += 1
    for k in range(2, len(place)):
        place[k] += place[k - 1]
    for t in range(len(keys)):
        k = keys[t] + 1
        order[place[k]] = t
        place[k] += 1


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
    seen_by = np.empty(n_samples, np.int64)
    for i in range(n_samples):
        seen_by[i] = -1
    for g in range(begin, end):
        start, n = 2 * bounds[g], 0
        for place in range(bounds[g], bounds[g + 1]):
            for role in range(1, 3):
                member = triplets[order[place], role]
                if seen_by[member] != g:
                    seen_by[member] = g
                    partners[start + n] = member
                    n += 1
        counts[g] = n
        _sort(partners, start, n)


@exact_loop
def _sort(values, start, n):
    """Sort n integers in place: Shell's sort, few of them or nearly sorted are the rule."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(start + gap, start + n):
            value, hole = values[place], place
            while hole >= start + gap and values[hole - gap] > value:
                values[hole] = values[hole - gap]
                hole -= gap
            values[hole] = value
        gap //= 3


@exact_loop
def _group_triplets(
    begin, end, triplets, order, bounds, partners, n_samples, widest, groups, pairs, first, last,
    far, n_far,
):  # fmt: skip
    """List the far pairs of each near pair, sorted; equal lists within an anchor are kept once."""
    row_of = np.empty(n_samples, np.int64)  # row in pairs of each partner of the current anchor
    members, by_far = np.empty(widest, np.int64), np.empty(widest, np.int64)
    for g in range(begin, end):
        start, n = bounds[g], bounds[g + 1] - bounds[g]
        for m in range(n):
            members[m] = order[start + m]
        for row in range(groups[g], groups[g + 1]):
            pairs[row, 0] = triplets[members[0], 0]
            pairs[row, 1] = partners[2 * start + row - groups[g]]
            row_of[pairs[row, 1]] = row
        # Two stable counting sorts, by far and then by near pair, leave each list sorted.
        for role in range(2, 0, -1):
            for row in range(groups[g], groups[g + 1]):
                last[row] = 0
            for m in range(n):
                last[row_of[triplets[members[m], role]]] += 1
            place = 0 if role == 2 else start
            for row in range(groups[g], groups[g + 1]):
                first[row] = place
                place, last[row] = place + last[row], place
            if role == 2:
                for m in range(n):
                    row = row_of[triplets[members[m], 2]]
                    by_far[last[row]] = members[m]
                    last[row] += 1
            else:
                for m in range(n):
                    row = row_of[triplets[by_far[m], 1]]
                    far[last[row]] = row_of[triplets[by_far[m], 2]]
                    last[row] += 1
        n_far[g] = _keep_distinct(groups[g], groups[g + 1], first, last, far, start)


@exact_loop
def _keep_distinct(begin, end, first, last, far, start):
    """Move the lists of one anchor together, each list that equals the one before only once."""
    kept_first = kept_last = start
    for row in range(begin, end):
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
def _compact(bounds, groups, first, last, far, n_far, kept):
    """Close the gaps between the lists of the groups."""
    place = 0
    for g in range(len(n_far)):
        for n in range(n_far[g]):
            kept[place + n] = far[bounds[g] + n]
        for row in range(groups[g], groups[g + 1]):
            first[row] += place - bounds[g]
            last[row] += place - bounds[g]
        place += n_far[g]


@exact_loop
def group_lists(near, begin, indptr, others, n_others):
    """Arrays of ``Comparisons`` that join every near partner of an anchor with every other.

    Anchor ``begin + a`` has the near partners ``near[begin + a]`` (negative: none) and the far ones
    ``others[indptr[a]:indptr[a + 1]]``. ``n_others`` is the number of far pairs in all.
    """
    n_groups = n_pairs = 0
    for a in range(len(indptr) - 1):
        n_near, n_far = _count_near(near, begin + a), indptr[a + 1] - indptr[a]
        if n_near > 0 and n_far > 0:
            n_groups, n_pairs = n_groups + 1, n_pairs + n_near + n_far
    pairs, far = np.empty((n_pairs, 2), np.int32), np.empty(n_others, np.int32)
    first, last = np.zeros(n_pairs, np.int32), np.zeros(n_pairs, np.int32)
    groups = np.zeros(n_groups + 1, np.int64)
    g = p = f = 0
    for a in range(len(indptr) - 1):
        n_far = indptr[a + 1] - indptr[a]
        if n_far == 0 or _count_near(near, begin + a) == 0:
            continue
        for n in range(near.shape[1]):
            if near[begin + a, n] >= 0:
                pairs[p, 0], pairs[p, 1] = begin + a, near[begin + a, n]
                first[p], last[p] = f, f + n_far
                p += 1
        for place in range(indptr[a], indptr[a + 1]):
            pairs[p, 0], pairs[p, 1] = begin + a, others[place]
            far[f] = p
            p, f = p + 1, f + 1
        g += 1
        groups[g] = p
    return pairs, first, last, far[:f], groups


@exact_loop
def _count_near(near, anchor):
    n_near = 0
    for n in range(near.shape[1]):
        n_near += near[anchor, n] >= 0
    return n_near

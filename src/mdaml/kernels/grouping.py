"""Loops that prepare the supervision, run once per fit: grouping and colouring.

Plain loops over integers, into arrays that are made before: functions of NumPy on whole arrays,
slices and sorts would take more time to compile than all loops of a fit together. Little data are
grouped by sorts of NumPy, with the same result, so that a first fit need not wait for these loops.
"""

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.kernels.compiling import can_wait, fast_loop, inner_step, integer_loop, suited_to
from mdaml.kernels.threads import share

# Sorting takes up to 150 bytes for a triplet, and as long as two elementary operations of Python.
_MOST_SORTED, _SORTED = 100_000, 2


def near_graph(
    pairs: IntArray, is_near: BoolArray, n_samples: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Rows of near pairs by sample, in either role: indptr, the other samples, the pairs."""
    near = np.flatnonzero(is_near).astype(np.int32)
    ends = np.asarray(pairs[near], np.int32).ravel()  # those of a pair are neighbours
    order, indptr = counting_sort(ends, n_samples)
    return indptr.astype(np.int64), ends[order ^ 1], near[order >> 1]


def greedy_colors(indptr: IntArray, samples: IntArray) -> IntArray:
    """First-fit colour of every sample, in index order: samples that share a pair differ."""
    color = np.full(len(indptr) - 1, -1, np.int32)
    taken = np.full(len(indptr), -1, np.int64)
    suited_to(_color, 5 * (len(indptr) + len(samples)))(indptr, samples, color, taken)
    return color


@integer_loop
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
    """How many distinct pairs (reference, other) triplets have."""
    if _are_few(triplets):
        return len(np.unique(_pair_keys(triplets, n_samples)))
    return int(_pair_counts(triplets, n_samples)[-1].sum())


def group_triplets(triplets: IntArray, n_samples: int) -> tuple[IntArray, ...]:
    """Arrays of :class:`mdaml.constraints.Comparisons`: pairs, starts, far, groups."""
    if _are_few(triplets):
        return _group_by_sorts(triplets, n_samples)
    triplets, order, bounds, partners, n_pairs = _pair_counts(triplets, n_samples)
    groups = np.concatenate([[0], np.cumsum(n_pairs)])
    pairs = np.empty((groups[-1], 2), np.int32)
    place = index_type(len(order))
    starts = np.zeros(groups[-1] + 1, place)
    n_far = np.empty(len(n_pairs), np.int64)
    far = np.empty(len(order), np.int32)
    args = (triplets, order, bounds, partners, n_samples, groups, pairs, starts, far, n_far)
    share(_group_triplets, len(n_pairs), 20 * len(order) + n_samples, *args)
    del args, order, partners
    # Close the gaps between the lists of the groups.
    gaps = np.diff(bounds) - n_far
    starts[:-1] -= np.repeat((np.cumsum(gaps) - gaps).astype(place), n_pairs)
    starts[-1] = n_far.sum()
    of_list = np.resize([True, False], 2 * len(gaps))
    return pairs, starts, far[np.repeat(of_list, np.stack([n_far, gaps], 1).ravel())], groups


def _are_few(triplets):
    n = len(triplets)
    return n <= _MOST_SORTED and can_wait(_group_triplets, _SORTED * n)


def _group_by_sorts(triplets, n_samples):
    """Make the same arrays with NumPy."""
    keys, rows = np.unique(_pair_keys(triplets, n_samples), return_inverse=True)
    near, far = rows.reshape(-1, 2).T
    order = np.argsort(near * len(keys) + far)
    far, counts = far[order], np.bincount(near, minlength=len(keys))
    first = np.cumsum(counts) - counts
    references = keys // n_samples
    groups = np.append(np.flatnonzero(np.diff(references, prepend=-1)), len(keys))
    # One entry stands for a list that equals the one before it, which has the same reference.
    lists = np.flatnonzero(counts)
    alike = np.diff(references[lists], prepend=-1) + np.abs(np.diff(counts[lists], prepend=-1)) == 0
    lengths = np.repeat(counts[lists], counts[lists])
    differs = far != far[np.arange(len(far)) - lengths]
    same = alike & ~np.logical_or.reduceat(differs, first[lists]) & (counts[lists] > 1)
    far[first[lists[same]]] = -counts[lists[same]]
    stays = ~np.repeat(same, counts[lists]) | (far < 0)
    starts = np.append(0, np.cumsum(stays))[np.append(first, len(far))]
    pairs = np.stack([references, keys % n_samples], axis=1).astype(np.int32)
    return pairs, starts.astype(index_type(len(order))), far[stays].astype(np.int32), groups


def _pair_keys(triplets, n_samples):
    """One number for each pair (reference, other), in order of references: near and far of each."""
    return triplets[:, :1].astype(np.int64) * n_samples + triplets[:, 1:]


def _pair_counts(triplets, n_samples):
    """Triplets by reference: themselves, order, bounds, distinct partners, and how many of these.

    The triplets ``order[bounds[g]:bounds[g + 1]]`` share their reference.
    """
    triplets = triplets.view()
    triplets.flags.writeable = False  # one type of array: compiled once
    order, bounds = counting_sort(triplets[:, 0], n_samples)
    bounds = bounds[np.append(True, np.diff(bounds) > 0)]
    partners = np.empty(2 * len(order), np.int32)
    n_pairs = np.zeros(len(bounds) - 1, np.int64)
    args = (triplets, order, bounds, partners, n_samples, n_pairs)
    share(_distinct_partners, len(n_pairs), 20 * len(order) + n_samples, *args)
    return triplets, order, bounds, partners, n_pairs


def counting_sort(keys: IntArray, n_keys: int) -> tuple[IntArray, IntArray]:
    """Sort integers below ``n_keys``: a stable order, and where each of them begins in it."""
    keys = np.ascontiguousarray(keys, index_type(n_keys))  # one type of array: compiled once
    kind = index_type(len(keys))
    if can_wait(_sort_by_count, len(keys) + n_keys // 10):
        bounds = np.zeros(n_keys + 1, kind)
        bounds[1:] = np.cumsum(np.bincount(keys, minlength=n_keys))
        return np.argsort(keys, kind="stable").astype(kind), bounds
    order, place = np.empty(len(keys), kind), np.zeros(n_keys + 2, kind)
    _sort_by_count(keys, order, place)
    return order, place[:-1]


@integer_loop
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


def index_type(n: int) -> type[np.int32 | np.int64]:
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
    n_distinct = suited_to(_number, 5 * len(low))(low, high, order, places)
    distinct = np.empty((n_distinct, 2), kind)
    distinct[places, 0], distinct[places, 1] = low, high
    return distinct, places


def merge_comparisons(
    near: IntArray, far: IntArray, weights: FloatArray, n_pairs: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Distinct comparisons by near pair: bounds of each, far pairs, and sums of their weights."""
    order = _lexicographic(near, far, n_pairs, n_pairs)
    places = np.empty(len(near), index_type(len(near)))
    n_distinct = suited_to(_number, 5 * len(near))(near, far, order, places)
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


@integer_loop
def _number(major, minor, order, places):
    """Give numbers to the distinct keys in their order; return how many there are."""
    number = -1
    for n in range(len(order)):
        t, before = order[n], order[n - 1]
        if n == 0 or major[t] != major[before] or minor[t] != minor[before]:
            number += 1
        places[t] = number
    return number + 1


@fast_loop
def _distinct_partners(begin, end, triplets, order, bounds, partners, n_samples, counts):
    """Sort the distinct partners of each reference into its own part of ``partners``."""
    seen_by = np.empty(n_samples, np.int64)
    for i in range(n_samples):
        seen_by[i] = -1
    for g in range(begin, end):
        start, stop = bounds[g], bounds[g + 1]
        free = 2 * start
        for place in range(start, stop):
            t = order[place]
            for role in range(1, 3):
                member = triplets[t, role]
                if seen_by[member] != g:
                    seen_by[member] = g
                    partners[free] = member
                    free += 1
        counts[g] = free - 2 * start
        _sort(partners, 2 * start, free)


@fast_loop
def _sort(values, start, stop):
    """Sort integers in place: Shell's sort, few of them or nearly sorted are the rule."""
    gap = 1
    while gap < (stop - start) // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(start + gap, stop):
            value, hole = values[place], place
            while hole >= start + gap and values[hole - gap] > value:
                values[hole] = values[hole - gap]
                hole -= gap
            values[hole] = value
        gap //= 3


@integer_loop
def _group_triplets(
    begin, end, triplets, order, bounds, partners, n_samples, groups, pairs, starts, far, n_far
):
    """List the far pairs of each near pair, sorted; of equal lists of a reference keep the first.

    ``starts`` are all zero before.
    """
    row_of = np.empty(n_samples, np.int64)  # row in pairs of each partner of the current reference
    for g in range(begin, end):
        start, stop, row0, row1 = bounds[g], bounds[g + 1], groups[g], groups[g + 1]
        reference = triplets[order[start], 0]
        for row in range(row0, row1):
            partner = partners[2 * start + row - row0]
            pairs[row, 0], pairs[row, 1] = reference, partner
            row_of[partner] = row
        # A counting sort by near pair; ``starts`` move from where a list begins to where it ends.
        for place in range(start, stop):
            starts[row_of[triplets[order[place], 1]]] += 1
        free = start
        for row in range(row0, row1):
            n = starts[row]
            starts[row] = free
            free += n
        for place in range(start, stop):
            t = order[place]
            row = row_of[triplets[t, 1]]
            far[starts[row]] = row_of[triplets[t, 2]]
            starts[row] += 1
        n_far[g] = _keep_distinct(row0, row1, starts, far, start)


@inner_step
def _keep_distinct(begin, end, starts, far, start):
    """Sort the lists of one reference; write -n for a list of n that equals the one before it.

    Lists move together. ``starts`` says before where they end, and after where they begin.
    """
    place = free = kept = np.int64(start)  # as other callers of _sort have it: compiled once
    n_kept = 0  # the last list that was kept is far[kept:kept + n_kept]
    for row in range(begin, end):
        n = starts[row] - place
        starts[row] = free
        if n == 0:
            continue
        _sort(far, place, place + n)
        same = n == n_kept and n > 1
        for e in range(n if same else 0):
            same = same and far[place + e] == far[kept + e]
        if same:
            far[free] = -n
            free += 1
        else:
            kept, n_kept = free, n
            for e in range(n):
                far[kept + e] = far[place + e]
            free += n
        place += n
    return free - start


@fast_loop
def group_lists(near, begin, indptr, others):
    """Arrays of ``Comparisons`` that join every near partner of a reference with every other.

    Reference ``begin + a`` has the near partners ``near[begin + a]`` (negative: none) and the far
    ones ``others[indptr[a]:indptr[a + 1]]``.
    """
    n_groups = n_pairs = n_entries = 0
    for a in range(len(indptr) - 1):
        n_near, n_far = _count_near(near, begin + a), indptr[a + 1] - indptr[a]
        if n_near > 0 and n_far > 0:
            n_groups, n_pairs = n_groups + 1, n_pairs + n_near + n_far
            n_entries += n_far + n_near - 1
    pairs, far = np.empty((n_pairs, 2), np.int32), np.empty(n_entries, np.int32)
    starts, groups = np.zeros(n_pairs + 1, np.int32), np.zeros(n_groups + 1, np.int64)
    g = p = f = 0
    for a in range(len(indptr) - 1):
        n_near, n_far = _count_near(near, begin + a), indptr[a + 1] - indptr[a]
        if n_near == 0 or n_far == 0:
            continue
        stop = p + n_near
        for n in range(near.shape[1]):
            if near[begin + a, n] >= 0:
                pairs[p, 0], pairs[p, 1] = begin + a, near[begin + a, n]
                if p + n_near == stop or n_far == 1:  # a list of its own
                    for e in range(n_far):
                        far[f + e] = stop + e
                    f += n_far
                else:
                    far[f] = -n_far
                    f += 1
                p += 1
                starts[p] = f
        for place in range(indptr[a], indptr[a + 1]):
            pairs[p, 0], pairs[p, 1] = begin + a, others[place]
            p += 1
            starts[p] = f
        g += 1
        groups[g] = p
    return pairs, starts, far, groups


@fast_loop
def _count_near(near, reference):
    n_near = 0
    for n in range(near.shape[1]):
        n_near += near[reference, n] >= 0
    return n_near

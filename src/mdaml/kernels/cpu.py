"""Compiled loops over pairs, triplets and samples for NumPy arrays on the CPU.

Each public function shares its work among threads and runs one compiled loop, which releases the
interpreter lock, on every share. Sums over all pairs are taken block by block in a fixed order, in
double precision, so no result depends on the number of threads. Index arrays come from
:class:`mdaml.constraints.TripletSet`: the pairs of one anchor are neighbours in memory and belong to
no other anchor, so anchors can be handed to threads without locks or atomic additions.

Why not Numba's own ``prange``: its OpenMP threads spin while they wait. Beside BLAS threads, or any
other busy process, that made a fit two to a hundred times slower, and it doubles the compile time.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numba
import numpy as np

# Sums may be reordered and contracted for vector units, and maximum and minimum need no test for NaN:
# all input was checked to be finite.
_loop = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz", "nnan"})
# Without licence to reorder: for logarithms, sorting and comparisons.
_exact_loop = numba.njit(nogil=True, cache=True)

_BLOCK = 512  # pairs per partial sum
_GRAIN = 150_000  # elementary operations (about 0.1 ms) below which a thread is not worth waking


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads(), "mdaml")


# The threads of a pool do not live on in a forked child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def n_threads() -> int:
    """Threads used by the kernels: ``NUMBA_NUM_THREADS``, or one per available core."""
    return int(numba.config.NUMBA_NUM_THREADS)


def _share(loop: Callable[..., None], n_items: int, cost: int, *args: object) -> None:
    """Call ``loop(first, last, *args)`` on consecutive shares of the items, in all threads."""
    n_shares = max(1, min(n_threads(), n_items, cost // _GRAIN))
    cuts = [n_items * share // n_shares for share in range(n_shares + 1)]
    rest = [
        _pool().submit(loop, first, last, *args)
        for first, last in zip(cuts[1:-1], cuts[2:], strict=True)
    ]
    loop(0, cuts[1], *args)
    for share in rest:
        share.result()


def pair_products(E, triplets):
    """Inner product of the two rows of E that a near pair names; zero for all other pairs."""
    out = np.zeros(len(triplets.pairs))
    args = (E, triplets.pairs, triplets.first, triplets.last, out)
    _share(_pair_products, len(out), len(out) * E.shape[1], *args)
    return out


@_loop
def _pair_products(begin, end, E, pairs, first, last, out):
    for p in range(begin, end):
        if first[p] < last[p]:
            i, j, total = pairs[p, 0], pairs[p, 1], 0.0
            for k in range(E.shape[1]):
                total += np.float64(E[i, k]) * E[j, k]
            out[p] = total


def triplet_losses(Y, triplets):
    """Sum of the smooth hinge over the triplets of each near pair, under Euclidean distance in Y."""
    out = np.zeros(len(triplets.pairs))
    cost = len(out) * Y.shape[1] + 3 * len(triplets)
    _share(_triplet_losses, len(triplets.groups) - 1, cost, Y, *triplets.arrays, out)
    return out


@_loop
def _triplet_losses(begin, end, Y, pairs, first, last, far, groups, out):
    sq_dists = np.empty(_longest(groups, begin, end))
    for g in range(begin, end):
        offset = groups[g]
        _pair_sq_dists(groups[g], groups[g + 1], Y, pairs, sq_dists)
        for p in range(groups[g], groups[g + 1]):
            reach = 1.0 + sq_dists[p - offset]
            for t in range(first[p], last[p]):
                short = max(reach - sq_dists[far[t] - offset], 0.0)
                slope = min(short, 1.0)
                out[p] += slope * (short - 0.5 * slope)


@_loop
def _longest(groups, begin, end):
    longest = 0
    for g in range(begin, end):
        longest = max(longest, groups[g + 1] - groups[g])
    return longest


@_loop
def _pair_sq_dists(begin, end, Y, pairs, out):
    """Squared distances of the pairs begin to end, summed in Y's precision."""
    for p in range(begin, end):
        i, j = pairs[p, 0], pairs[p, 1]
        total = Y.dtype.type(0)
        for c in range(Y.shape[1]):
            diff = Y[i, c] - Y[j, c]
            total += diff * diff
        out[p - begin] = total


def triplet_gradient(Y, triplets, pair_weights):
    """Weighted loss under Euclidean distance in Y, and half of its Laplacian times Y.

    With ``q`` the derivative of the loss with respect to each squared distance, ``B[i, j]`` the sum
    of ``q`` over the pairs (i, j) and ``deg`` its row and column sums, the second result is
    ``deg/2 * Y - B @ Y``, so that ``Y.T @ result`` plus its transpose is
    ``sum_p q[p] (y_i - y_j)(y_i - y_j)^T``. Each pair's rows are read once, for distance and product.
    """
    product, degree = np.zeros_like(Y), np.zeros(len(Y))
    slopes = np.empty(len(triplets.pairs))
    losses = np.zeros(len(triplets.groups) - 1)
    cost = 2 * slopes.size * Y.shape[1] + 3 * len(triplets)
    args = (Y, *triplets.arrays, pair_weights, slopes, losses, degree, product)
    _share(_triplet_gradient, len(losses), cost, *args)
    _add_columns(triplets.pairs, slopes, degree)
    _share(_add_scaled_rows, len(Y), Y.size, Y, degree, product)
    return float(losses.sum()), product


@_loop
def _triplet_gradient(
    begin, end, Y, pairs, first, last, far, groups, pair_weights, slopes, losses, degree, product
):
    n_longest = _longest(groups, begin, end)
    sq_dists = np.empty(n_longest)
    far_dists, far_slopes = np.empty(n_longest + 8), np.empty(n_longest + 8)
    for g in range(begin, end):
        offset, stop = groups[g], groups[g + 1]
        _pair_sq_dists(offset, stop, Y, pairs, sq_dists)
        slopes[offset:stop] = 0.0
        total = 0.0
        current, n_far, n_padded = -1, 0, 0
        for p in range(offset, stop):
            if first[p] == last[p]:
                continue
            if first[p] != current:
                for n in range(n_far):
                    slopes[far[current + n]] -= far_slopes[n]
                current, n_far = first[p], last[p] - first[p]
                n_padded = (n_far + 7) // 8 * 8
                for n in range(n_padded):
                    far_dists[n] = sq_dists[far[current + n] - offset] if n < n_far else np.inf
                    far_slopes[n] = 0.0
            reach, weight = 1.0 + sq_dists[p - offset], pair_weights[p]
            value = pull = 0.0
            for n in range(n_padded):
                short = max(reach - far_dists[n], 0.0)
                slope = min(short, 1.0)
                value += slope * (short - 0.5 * slope)
                pull += slope
                far_slopes[n] += weight * slope
            slopes[p] += weight * pull
            total += weight * value
        for n in range(n_far):
            slopes[far[current + n]] -= far_slopes[n]
        losses[g] = total
        i = pairs[offset, 0]
        for p in range(offset, stop):
            j, slope = pairs[p, 1], Y.dtype.type(slopes[p])
            degree[i] += slopes[p]
            for c in range(Y.shape[1]):
                product[i, c] -= slope * Y[j, c]


@_loop
def _add_columns(pairs, slopes, degree):
    """Add each slope to the degree of the pair's second row: scattered, so in one thread."""
    for p in range(len(pairs)):
        degree[pairs[p, 1]] += slopes[p]


@_loop
def _add_scaled_rows(begin, end, Y, degree, product):
    for i in range(begin, end):
        half = Y.dtype.type(0.5 * degree[i])
        for c in range(Y.shape[1]):
            product[i, c] += half * Y[i, c]


def triplet_losses_along(Z, triplets, pair_weights, scales):
    """Weighted loss for four scalings of the columns of Z, from one pass over the pairs.

    The squared distance of a pair under scaling s is ``sum_c scales[s, c] (z_ic - z_jc)**2``.
    """
    losses = np.zeros((len(triplets.groups) - 1, 4))
    cost = 4 * len(triplets.pairs) * Z.shape[1] + 8 * len(triplets)
    args = (Z, *triplets.arrays, pair_weights, scales, losses)
    _share(_triplet_losses_along, len(losses), cost, *args)
    return losses.sum(axis=0)


@_loop
def _triplet_losses_along(
    begin, end, Z, pairs, first, last, far, groups, pair_weights, scales, losses
):
    n_longest = _longest(groups, begin, end)
    sq_dists = np.empty((4, n_longest))
    far_dists = np.empty((4, n_longest + 8))
    for g in range(begin, end):
        offset, stop = groups[g], groups[g + 1]
        for p in range(offset, stop):
            i, j = pairs[p, 0], pairs[p, 1]
            s0 = s1 = s2 = s3 = Z.dtype.type(0)  # four named sums, so that this loop vectorises
            for c in range(Z.shape[1]):
                diff = Z[i, c] - Z[j, c]
                square = diff * diff
                s0 += square * scales[0, c]
                s1 += square * scales[1, c]
                s2 += square * scales[2, c]
                s3 += square * scales[3, c]
            n = p - offset
            sq_dists[0, n], sq_dists[1, n], sq_dists[2, n], sq_dists[3, n] = s0, s1, s2, s3
        current, n_padded = -1, 0
        for p in range(offset, stop):
            if first[p] == last[p]:
                continue
            if first[p] != current:
                current, n_far = first[p], last[p] - first[p]
                n_padded = (n_far + 7) // 8 * 8
                for s in range(4):
                    for n in range(n_padded):
                        far_dists[s, n] = (
                            sq_dists[s, far[current + n] - offset] if n < n_far else np.inf
                        )
            for s in range(4):
                reach, value = 1.0 + sq_dists[s, p - offset], 0.0
                for n in range(n_padded):
                    short = max(reach - far_dists[s, n], 0.0)
                    slope = min(short, 1.0)
                    value += slope * (short - 0.5 * slope)
                losses[g, s] += pair_weights[p] * value


def center_sq_dists(Y, centers):
    """Squared distance of every row of Y to every centre, by differences: no cancellation."""
    out = np.empty((len(Y), len(centers)), Y.dtype)
    _share(_center_sq_dists, len(Y), out.size * Y.shape[1], Y, centers, out)
    return out


@_loop
def _center_sq_dists(first, last, Y, centers, out):
    for i in range(first, last):
        for k in range(len(centers)):
            total = Y.dtype.type(0)
            for c in range(Y.shape[1]):
                diff = Y[i, c] - centers[k, c]
                total += diff * diff
            out[i, k] = total


def sequential_weights(weights, powers, costs, graph, losses, order, colors, eta):
    """Update ``weights`` and ``powers = weights**eta`` in place, one sample after another.

    ``graph = (indptr, samples, pairs)`` lists, for each sample, those it forms a near pair with and
    the rows of ``losses``. ``costs`` is the part of the cost of each mode that does not depend on
    other samples. ``order[colors[c]:colors[c + 1]]`` share no pair: any order among them, and so
    any number of threads, gives the same result.
    """
    args = (weights, powers, costs, *graph, losses, order, eta)
    work = weights.shape[1] * (len(graph[1]) + 80 * len(weights))
    if work // (len(colors) - 1) < 2 * _GRAIN:
        _sequential_weights(0, len(order), 0, *args)
        return
    for begin, end in zip(colors[:-1], colors[1:], strict=True):
        cost = work * (end - begin) // len(order)
        _share(_sequential_weights, int(end - begin), int(cost), int(begin), *args)


@_exact_loop
def _sequential_weights(
    first, last, begin, weights, powers, costs, indptr, samples, pairs, losses, order, eta
):
    n_modes = weights.shape[1]
    cost = np.empty(n_modes)
    for position in range(begin + first, begin + last):
        i = order[position]
        for k in range(n_modes):
            cost[k] = costs[i, k]
        for e in range(indptr[i], indptr[i + 1]):
            loss, j = losses[pairs[e]], samples[e]
            if loss > 0.0:
                for k in range(n_modes):
                    cost[k] += loss * powers[j, k]
        lowest = cost.min()
        total = 0.0
        for k in range(n_modes):
            # Relative to the lowest, so that nothing overflows; modes without cost share all weight.
            if lowest > 0.0:
                cost[k] = np.exp(np.log(lowest / cost[k]) / (eta - 1.0))
            else:
                cost[k] = 1.0 if cost[k] == 0.0 else 0.0
            total += cost[k]
        for k in range(n_modes):
            weights[i, k] = cost[k] / total
            powers[i, k] = weights[i, k] ** eta


@_exact_loop
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


def group_triplets(triplets, n_samples):
    """Arrays of a :class:`TripletSet`: pairs, first, last, far, groups."""
    order, bounds = _by_anchor(triplets, n_samples)
    partners = np.empty(2 * len(order), np.int32)
    n_pairs = np.zeros(len(bounds) - 1, np.int64)
    cost = 20 * len(order)
    args = (triplets, order, bounds, partners, n_samples)
    _share(_distinct_partners, len(n_pairs), cost, *args, n_pairs)
    groups = np.concatenate([[0], np.cumsum(n_pairs)])
    pairs = np.empty((groups[-1], 2), np.int32)
    first, last = np.empty(groups[-1], np.int64), np.empty(groups[-1], np.int64)
    n_far = np.empty(len(n_pairs), np.int64)
    far = np.empty(len(order), np.int32)
    _share(_group_triplets, len(n_pairs), cost, *args, groups, pairs, first, last, far, n_far)
    far = _compact(bounds, groups, first, last, far, n_far)
    return pairs, first, last, far, groups


@_exact_loop
def _by_anchor(triplets, n_samples):
    """Stable counting sort: triplets ``order[bounds[g]:bounds[g + 1]]`` share their anchor."""
    place = np.zeros(n_samples + 1, np.int64)
    for t in range(len(triplets)):
        place[triplets[t, 0] + 1] += 1
    n_groups = np.count_nonzero(place)
    bounds = np.zeros(n_groups + 1, np.int64)
    g = 0
    for i in range(n_samples):
        if place[i + 1] > 0:
            g += 1
            bounds[g] = bounds[g - 1] + place[i + 1]
        place[i + 1] += place[i]
    order = np.empty(len(triplets), np.int64)
    for t in range(len(triplets)):
        order[place[triplets[t, 0]]] = t
        place[triplets[t, 0]] += 1
    return order, bounds


@_exact_loop
def _distinct_partners(first, last, triplets, order, bounds, partners, n_samples, counts):
    """Sort the distinct partners of each anchor into its own part of ``partners``."""
    seen_by = np.full(n_samples, -1, np.int64)
    for g in range(first, last):
        own = partners[2 * bounds[g] : 2 * bounds[g + 1]]
        for t in order[bounds[g] : bounds[g + 1]]:
            for member in (triplets[t, 1], triplets[t, 2]):
                if seen_by[member] != g:
                    seen_by[member] = g
                    own[counts[g]] = member
                    counts[g] += 1
        own[: counts[g]].sort()


@_exact_loop
def _group_triplets(
    begin, end, triplets, order, bounds, partners, n_samples, groups, pairs, first, last, far, n_far
):
    """List the far pairs of each near pair, sorted; equal lists within an anchor are kept once."""
    row_of = np.empty(n_samples, np.int64)  # row in pairs of each partner of the current anchor
    by_far = np.empty(_longest(bounds, begin, end), np.int64)
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


@_exact_loop
def _count(triplets, members, role, row_of, rows, counts):
    """Count how many of the triplets have each pair in a role: 1 near, 2 far."""
    for row in rows:
        counts[row] = 0
    for t in members:
        counts[row_of[triplets[t, role]]] += 1


@_exact_loop
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


@_exact_loop
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


def nearest(X, queries, candidates, n_nearest):
    """The nearest candidates of each query, itself excluded; ties go to the earlier candidate."""
    out = np.full((len(queries), n_nearest), -1, np.int64)
    cost = len(queries) * len(candidates) * X.shape[1]
    _share(_nearest, len(queries), cost, X, queries, candidates, out)
    return out


@_loop
def _nearest(first, last, X, queries, candidates, out):
    n_nearest = out.shape[1]
    best = np.empty(n_nearest)
    for q in range(first, last):
        query = X[queries[q]]
        best[:] = np.inf
        for candidate in candidates:
            total = 0.0
            for c in range(X.shape[1]):
                diff = np.float64(query[c]) - X[candidate, c]
                total += diff * diff
            if total < best[-1] and candidate != queries[q]:
                n = n_nearest - 1
                while n > 0 and total < best[n - 1]:
                    best[n] = best[n - 1]
                    out[q, n] = out[q, n - 1]
                    n -= 1
                best[n] = total
                out[q, n] = candidate

"""The hot loops over pairs, triplets and samples, for NumPy arrays on the CPU.

Each public function shares its work among threads. All sums over pairs are taken anchor by anchor
in a fixed order, in double precision, so no result depends on the number of threads. Index arrays
come from :class:`mdaml.constraints.TripletSet`: the pairs of one anchor are neighbours in memory
and belong to no other anchor, so anchors go to threads without locks or atomic additions.
"""

from typing import Any

import numba
import numpy as np

from mdaml.kernels._prefetch import pairs_ahead, prefetch_row
from mdaml.kernels._threads import share

# Sums may be reordered and contracted for vector units, and maximum and minimum need no test for
# NaN: all input was checked to be finite.
fast_loop: Any = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz", "nnan"})
# Sums stay in the order written: where a term is added to many entries, vector units need no other.
# Reordered ones came out differently from compiled code and from the same code out of its cache.
ordered_loop: Any = numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "nnan"})
# Without licence to reorder: for logarithms and comparisons.
exact_loop: Any = numba.njit(nogil=True, cache=True)


@fast_loop
def smooth_hinge(x):
    """Loss of a margin, and minus its slope.

    Eq. (8): 0 above 1, ``1/2 - x`` below 0, ``(1 - x)**2 / 2`` between. With ``u = max(1 - x, 0)``
    and ``m = min(u, 1)`` all three are ``m (u - m/2)``, and the slope is ``-m``: no branches.
    """
    short = max(1.0 - x, 0.0)
    slope = min(short, 1.0)
    return slope * (short - 0.5 * slope), slope


def pair_products(E, triplets, dtype=np.float64):
    """Inner product of the two rows of E that a near pair names; zero for all other pairs."""
    out = np.zeros(len(triplets.pairs), dtype)
    args = (E, triplets.pairs, triplets.first, triplets.last, out)
    share(_pair_products, len(out), len(out) * E.shape[1], *args)
    return out


@fast_loop
def _pair_products(begin, end, E, pairs, first, last, out):
    for p in range(begin, end):
        if first[p] < last[p]:
            i, j, total = pairs[p, 0], pairs[p, 1], 0.0
            for k in range(E.shape[1]):
                total += np.float64(E[i, k]) * E[j, k]
            out[p] = total


def triplet_losses(Y, triplets, dtype=np.float64):
    """Sum of the losses of the triplets of each near pair, for distances in Y.

    Eq. (6), pair by pair and not yet averaged.
    """
    out = np.zeros(len(triplets.pairs), dtype)
    cost = len(out) * Y.shape[1] + 3 * triplets.n_triplets
    scales = np.ones(Y.shape[1], Y.dtype)
    args = (Y, pairs_ahead(Y), scales, triplets.arrays, out)
    share(_triplet_losses, len(triplets.groups) - 1, cost, *args)
    return out


@fast_loop
def _triplet_losses(begin, end, Y, ahead, scales, triplets, out):
    pairs, first, last, far, groups, widths = triplets
    sq_dists, far_dists = np.empty(widths[0]), np.empty(widths[1] + 8)
    for g in range(begin, end):
        offset, current, n_padded = groups[g], -1, 0
        _pair_sq_dists(offset, groups[g + 1], Y, ahead, scales, pairs, sq_dists)
        for p in range(offset, groups[g + 1]):
            if first[p] < last[p] and first[p] != current:
                current = first[p]
                n_padded = _gather(sq_dists, far, current, last[p], offset, far_dists)
            total = 0.0
            for n in range(n_padded if first[p] < last[p] else 0):
                total += smooth_hinge(far_dists[n] - sq_dists[p - offset])[0]
            out[p] = total


def pair_sq_dists(Y, pairs, scales=None, dtype=np.float64):
    """Squared distance of the two rows of Y that each pair names, columns scaled if so wanted."""
    out = np.empty(len(pairs), dtype)
    scales = np.ones(Y.shape[1], Y.dtype) if scales is None else scales
    args = (Y, pairs_ahead(Y), scales, pairs, out)
    share(_four_pair_sq_dists, -(-len(pairs) // 4), len(pairs) * Y.shape[1], *args)
    return out


@fast_loop
def _four_pair_sq_dists(begin, end, Y, ahead, scales, pairs, out):
    """Distances of the pairs from ``4 begin`` on, so that the same four always go together."""
    _pair_sq_dists(4 * begin, min(4 * end, len(pairs)), Y, ahead, scales, pairs, out[4 * begin :])


@fast_loop
def _pair_sq_dists(begin, end, Y, ahead, scales, pairs, out):
    """``sum_c scales[c] (y_ic - y_jc)**2`` for the pairs begin to end, in Y's precision.

    Four pairs at a time, so that their rows come from memory side by side; those of an anchor are
    neighbours here, so that its row is read from the first cache.
    """
    for n in range(0, end - begin - 3, 4):
        p = begin + n
        for q in range(p + ahead, min(p + ahead + 4, len(pairs)) if ahead > 0 else 0):
            prefetch_row(Y, pairs[q, 1])
        i0, i1, i2, i3 = pairs[p, 0], pairs[p + 1, 0], pairs[p + 2, 0], pairs[p + 3, 0]
        j0, j1, j2, j3 = pairs[p, 1], pairs[p + 1, 1], pairs[p + 2, 1], pairs[p + 3, 1]
        s0 = s1 = s2 = s3 = Y.dtype.type(0)  # four named sums, so that this loop vectorises
        for c in range(Y.shape[1]):
            d0, d1 = Y[i0, c] - Y[j0, c], Y[i1, c] - Y[j1, c]
            d2, d3 = Y[i2, c] - Y[j2, c], Y[i3, c] - Y[j3, c]
            s0 += scales[c] * d0 * d0
            s1 += scales[c] * d1 * d1
            s2 += scales[c] * d2 * d2
            s3 += scales[c] * d3 * d3
        out[n], out[n + 1], out[n + 2], out[n + 3] = s0, s1, s2, s3
    for p in range(begin + (end - begin) // 4 * 4, end):
        total = Y.dtype.type(0)
        for c in range(Y.shape[1]):
            diff = Y[pairs[p, 0], c] - Y[pairs[p, 1], c]
            total += scales[c] * diff * diff
        out[p - begin] = total


def triplet_gradient(Y, scales, triplets, pair_weights):
    """Weighted loss for distances in Y, columns scaled, and half of its Laplacian times Y.

    The squared distance of a pair is ``sum_c scales[c] (y_ic - y_jc)**2``. The second result is
    :func:`laplacian_product` for the derivatives of the loss with respect to each of them; here the
    rows of a pair are read once, for distance and product.
    """
    product, degree = np.zeros_like(Y), np.zeros(len(Y))
    slopes = np.empty(len(triplets.pairs))
    losses = np.zeros(len(triplets.groups) - 1)
    cost = 2 * slopes.size * Y.shape[1] + 3 * triplets.n_triplets
    args = (Y, pairs_ahead(Y), scales, triplets.arrays, pair_weights, 1.0, slopes, losses)
    share(triplet_slopes_loop, len(losses), cost, *args, degree, product, -1)
    return float(losses.sum()), _with_degrees(Y, triplets.pairs, slopes, degree, product)


def triplet_slopes(Y, scales, triplets, pair_weights, margin):
    """Weighted loss for distances in Y, columns scaled, and its derivative for every pair.

    A triplet loses nothing once its far pair is ``margin`` farther than its near pair.
    """
    slopes = np.empty(len(triplets.pairs))
    losses = np.zeros(len(triplets.groups) - 1)
    cost = slopes.size * Y.shape[1] + 3 * triplets.n_triplets
    args = (Y, pairs_ahead(Y), scales, triplets.arrays, pair_weights, margin, slopes, losses)
    nothing = np.empty((0, Y.shape[1]), Y.dtype)
    share(triplet_slopes_loop, len(losses), cost, *args, np.empty(0), nothing, -1)
    return float(losses.sum()), slopes


@fast_loop
def triplet_slopes_loop(
    begin, end, Y, ahead, scales, triplets, pair_weights, margin, slopes, losses, degree, product,
    shift,
):  # fmt: skip
    """Losses and slopes, anchor by anchor; and the product, unless ``product`` is empty.

    Its rows are those of Y or, if ``shift`` is not negative, the groups from ``shift`` on.
    """
    pairs, first, last, far, groups, widths = triplets
    sq_dists = np.empty(widths[0])
    far_dists, far_slopes = np.empty(widths[1] + 8), np.empty(widths[1] + 8)
    near_pairs = np.empty(widths[0], np.intp)
    for g in range(begin, end):
        offset, stop = groups[g], groups[g + 1]
        _pair_sq_dists(offset, stop, Y, ahead, scales, pairs, sq_dists)
        slopes[offset:stop] = 0.0
        current, n_far, n_padded = -1, 0, 0
        for p in near_pairs[: _find_near(offset, stop, first, last, near_pairs)]:
            near = sq_dists[p - offset] + (margin - 1.0)
            if last[p] - first[p] == 1:  # a list of one needs no copy
                q = far[first[p]]
                value, slope = smooth_hinge(sq_dists[q - offset] - near)
                slopes[p] += pair_weights[p] * slope
                slopes[q] -= pair_weights[p] * slope
                losses[g] += pair_weights[p] * value
                continue
            if first[p] != current:
                for n in range(n_far):
                    slopes[far[current + n]] -= far_slopes[n]
                current, n_far = first[p], last[p] - first[p]
                n_padded = _gather(sq_dists, far, current, last[p], offset, far_dists)
                far_slopes[:n_padded] = 0.0
            weight, total, pull = pair_weights[p], 0.0, 0.0
            for n in range(n_padded):
                value, slope = smooth_hinge(far_dists[n] - near)
                total += value
                pull += slope
                far_slopes[n] += weight * slope
            slopes[p] += weight * pull
            losses[g] += weight * total
        for n in range(n_far):
            slopes[far[current + n]] -= far_slopes[n]
        if len(product) > 0:
            row = pairs[offset, 0] if shift < 0 else g - shift
            _subtract_rows(offset, stop, Y, 0, pairs, slopes, degree, product, row)


def laplacian_product(Y, pairs, groups, weights):
    """``deg/2 * Y - B @ Y`` with ``B[i, j]`` the weight of the pair (i, j), ``deg`` its degrees.

    Degrees are row sums and column sums of B together. ``Y.T @ result`` plus its transpose is
    ``sum_p weights[p] (y_i - y_j)(y_i - y_j)^T``: the scatter of pairs for the price of products
    with Y. Pairs ``groups[g]:groups[g + 1]`` share their first row, which no other group has.
    """
    product, degree = np.zeros_like(Y), np.zeros(len(Y))
    args = (Y, pairs_ahead(Y), pairs, groups, weights, degree, product, -1)
    share(laplacian_product_loop, len(groups) - 1, len(pairs) * Y.shape[1], *args)
    return _with_degrees(Y, pairs, weights, degree, product)


@fast_loop
def laplacian_product_loop(begin, end, Y, ahead, pairs, groups, weights, degree, product, shift):
    """Make the product of :func:`laplacian_product` without its diagonal; ``shift`` as above."""
    for g in range(begin, end):
        row = pairs[groups[g], 0] if shift < 0 else g - shift
        _subtract_rows(groups[g], groups[g + 1], Y, ahead, pairs, weights, degree, product, row)


@ordered_loop
def _subtract_rows(begin, end, Y, ahead, pairs, weights, degree, product, row):
    """Subtract from a row of ``product`` the weighted rows of the partners of an anchor."""
    real, p = Y.dtype.type, begin
    while p < end:
        for q in range(p + ahead, min(p + ahead + 4, len(pairs)) if ahead > 0 else 0):
            prefetch_row(Y, pairs[q, 1])
        if p + 4 <= end:
            j0, j1, j2, j3 = pairs[p, 1], pairs[p + 1, 1], pairs[p + 2, 1], pairs[p + 3, 1]
            w0, w1, w2, w3 = weights[p], weights[p + 1], weights[p + 2], weights[p + 3]
            a0, a1, a2, a3 = real(w0), real(w1), real(w2), real(w3)
            degree[pairs[p, 0]] += w0 + w1 + w2 + w3
            for c in range(Y.shape[1]):
                total = product[row, c] - a0 * Y[j0, c]
                total -= a1 * Y[j1, c]
                total -= a2 * Y[j2, c]
                product[row, c] = total - a3 * Y[j3, c]
            p += 4
        else:
            j, pull = pairs[p, 1], real(weights[p])
            degree[pairs[p, 0]] += weights[p]
            for c in range(Y.shape[1]):
                product[row, c] -= pull * Y[j, c]
            p += 1


def _with_degrees(Y, pairs, weights, degree, product):
    """Add the diagonal of the Laplacian to the product, half of it."""
    add_columns(pairs, weights, degree)
    share(_add_scaled_rows, len(Y), Y.size, Y, degree, product)
    return product


@fast_loop
def _find_near(begin, end, first, last, out):
    """List the near pairs among some pairs; their number.

    Without a branch: near and far pairs alternate at random, so that every second guess of the
    processor would be wrong.
    """
    n_near = 0
    for p in range(begin, end):
        out[n_near] = p
        n_near += first[p] < last[p]
    return n_near


@fast_loop
def _gather(sq_dists, far, first, last, offset, out):
    """Copy the distances of a list of far pairs, so that loops over it vectorise; their number.

    The copy is padded to whole vectors of eight with distances at which no loss is left.
    """
    n_padded = (last - first + 7) // 8 * 8
    for n in range(last - first):
        out[n] = sq_dists[far[first + n] - offset]
    out[last - first : n_padded] = np.inf
    return n_padded


@fast_loop
def add_columns(pairs, weights, degree):
    """Add each weight to the degree of the pair's second row: scattered, so in one thread."""
    for p in range(len(pairs)):
        degree[pairs[p, 1]] += weights[p]


@fast_loop
def _add_scaled_rows(begin, end, Y, degree, product):
    for i in range(begin, end):
        half = Y.dtype.type(0.5 * degree[i])
        for c in range(Y.shape[1]):
            product[i, c] += half * Y[i, c]


def triplet_losses_along(Y, scales, triplets, pair_weights):
    """Weighted loss for each of four scalings of the columns of Y, from one pass over the pairs."""
    losses = np.zeros((len(triplets.groups) - 1, 4))
    cost = 4 * len(triplets.pairs) * Y.shape[1] + 8 * triplets.n_triplets
    args = (Y, pairs_ahead(Y, 2**21), scales, triplets.arrays, pair_weights, losses)
    share(_triplet_losses_along, len(losses), cost, *args)
    return losses.sum(axis=0)


@fast_loop
def _triplet_losses_along(begin, end, Y, ahead, scales, triplets, pair_weights, losses):
    pairs, first, last, far, groups, widths = triplets
    sq_dists, far_dists = np.empty((4, widths[0])), np.empty((4, widths[1] + 8))
    for g in range(begin, end):
        offset, stop = groups[g], groups[g + 1]
        for p in range(offset, stop):
            if ahead > 0 and p + ahead < len(pairs):
                prefetch_row(Y, pairs[p + ahead, 1])
            i, j, n = pairs[p, 0], pairs[p, 1], p - offset
            s0 = s1 = s2 = s3 = Y.dtype.type(0)  # four named sums, so that this loop vectorises
            for c in range(Y.shape[1]):
                diff = Y[i, c] - Y[j, c]
                square = diff * diff
                s0 += square * scales[0, c]
                s1 += square * scales[1, c]
                s2 += square * scales[2, c]
                s3 += square * scales[3, c]
            sq_dists[0, n], sq_dists[1, n], sq_dists[2, n], sq_dists[3, n] = s0, s1, s2, s3
        current, n_padded = -1, 0
        for p in range(offset, stop):
            if first[p] == last[p]:
                continue
            if last[p] - first[p] == 1:
                q = far[first[p]]
                for s in range(4):
                    margin = sq_dists[s, q - offset] - sq_dists[s, p - offset]
                    losses[g, s] += pair_weights[p] * smooth_hinge(margin)[0]
                continue
            if first[p] != current:
                current = first[p]
                for s in range(4):
                    n_padded = _gather(sq_dists[s], far, current, last[p], offset, far_dists[s])
            for s in range(4):
                total = 0.0
                for n in range(n_padded):
                    total += smooth_hinge(far_dists[s, n] - sq_dists[s, p - offset])[0]
                losses[g, s] += pair_weights[p] * total

"""The loops over triplets by reference: the two pairs of a triplet share their first row.

``lists = (pairs, starts, far, groups, widths)`` as of :class:`mdaml.constraints.Comparisons`: the
triplets with near pair p have the far pairs ``far[starts[p]:starts[p + 1]]`` or, if that is one
negative number, those of the near pair before; the pairs ``groups[g]:groups[g + 1]`` share their
reference; ``widths`` says how many pairs a reference has at most, how many triplets a near pair,
and how many triplets there are. ``pair_weights`` are one for each pair, or one for all.
"""

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import fast_loop, inner_loop, inner_step
from mdaml.kernels.pairs import (
    diagonal_part,
    four_sq_dists_loop,
    pair_sq_dists_loop,
    smooth_hinge,
    subtract_rows,
    sum_by_references,
    with_degrees,
)
from mdaml.kernels.prefetch import pairs_ahead
from mdaml.kernels.threads import share, with_memory

Lists = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]


def triplet_losses(Y: FloatArray, lists: Lists, dtype: npt.DTypeLike = np.float64) -> FloatArray:
    """Sum of the losses of the triplets of each near pair, for distances in Y.

    Eq. (6), pair by pair and not yet averaged.
    """
    # By the loop that also finds slopes: another one would have to be compiled.
    scales, one, no_slopes = np.ones(Y.shape[1], Y.dtype), np.ones(1, dtype), np.empty(0, dtype)
    losses = np.zeros(len(lists[0]), dtype)
    _write_slopes(Y, scales, lists, one, 1.0, no_slopes, losses)
    return losses


def triplet_gradient(
    Y: FloatArray, scales: FloatArray, lists: Lists, pair_weights: FloatArray
) -> tuple[float, FloatArray]:
    """Weighted loss for distances in Y, columns scaled, and half of its Laplacian times Y.

    The squared distance of a pair is ``sum_c scales[c] (y_ic - y_jc)**2``. The second result is
    :func:`laplacian_product` for the derivatives of the loss with respect to each of them; here the
    rows of a pair are read once, for distance and product.
    """
    pairs, _, _, groups, (_, _, n_triplets) = lists
    product, degree = np.zeros_like(Y), np.zeros(len(Y))
    slopes, losses = np.empty(len(pairs)), np.zeros(len(groups) - 1)
    cost = 2 * slopes.size * Y.shape[1] + 3 * n_triplets
    args = (Y, pairs_ahead(Y), scales, lists, pair_weights, 1.0, slopes, losses)
    share(_slopes_loop(lists, slopes), len(losses), cost, *args, degree, product, -1)
    return float(losses.sum()), with_degrees(Y, pairs, slopes, degree, product)


def triplet_slopes(
    Y: FloatArray, scales: FloatArray, lists: Lists, pair_weights: FloatArray, margin: float
) -> tuple[float, FloatArray]:
    """Weighted loss for distances in Y, columns scaled, and its derivative for every pair.

    A triplet loses nothing once its far pair is ``margin`` farther than its near pair.
    """
    slopes, losses = np.empty(len(lists[0])), np.zeros(len(lists[3]) - 1)
    _write_slopes(Y, scales, lists, pair_weights, margin, slopes, losses)
    return float(losses.sum()), slopes


def _write_slopes(Y, scales, lists, pair_weights, margin, slopes, losses):
    """Write the slopes of pairs, and the losses of groups or of pairs."""
    pairs, _, _, groups, (_, _, n_triplets) = lists
    args = (Y, pairs_ahead(Y), scales, lists, pair_weights, margin, slopes, losses)
    cost = len(pairs) * Y.shape[1] + 3 * n_triplets
    nothing = np.empty((0, Y.shape[1]), Y.dtype)
    loop = _slopes_loop(lists, slopes)
    share(loop, len(groups) - 1, cost, *args, np.empty(0), nothing, -1)
    return slopes


def _slopes_loop(lists, slopes):
    """Return the next loop with memory for one reference at a time."""
    n_pairs, n_far, _ = lists[4].tolist()

    def make():
        distances = np.empty(n_pairs), *np.empty((2, n_far + 8))
        return *distances, np.empty(n_pairs, slopes.dtype), np.empty(n_pairs, np.intp)

    return with_memory(_triplet_slopes, make)


@fast_loop
def _triplet_slopes(
    begin, end, Y, ahead, scales, lists, pair_weights, margin, slopes, losses, degree, product,
    shift, sq_dists, far_dists, far_slopes, pulls, near_pairs,
):  # fmt: skip
    """Losses and slopes, reference by reference; and the product, unless ``product`` is empty.

    Its rows are those of Y or, if ``shift`` is not negative, the groups from ``shift`` on. Losses
    are those of the groups, or of the near pairs if there are as many as pairs; they are zero
    before. Slopes are not kept if ``slopes`` is empty. The last five arrays are for one reference.
    """
    pairs, starts, far, groups, _ = lists
    by_pair, one_each = len(losses) == len(pairs), len(pair_weights) > 1
    no_hints = np.int64(0)  # as other callers of subtract_rows have it: compiled once
    for g in range(begin, end):
        offset, stop = groups[g], groups[g + 1]
        pair_sq_dists_loop(offset, stop, Y, ahead, scales, pairs, sq_dists)
        for n in range(stop - offset):
            pulls[n] = 0.0
        current, n_far, n_padded = -1, 0, 0
        for m in range(_find_near(offset, stop, starts, near_pairs)):
            p = near_pairs[m]
            near, told = sq_dists[p - offset] + (margin - 1.0), p if by_pair else g
            w, q = p if one_each else 0, far[starts[p]]
            if q >= 0 and starts[p + 1] - starts[p] == 1:  # a list of one needs no copy
                value, slope = smooth_hinge(sq_dists[q - offset] - near)
                pulls[p - offset] += pair_weights[w] * slope
                pulls[q - offset] -= pair_weights[w] * slope
                losses[told] += pair_weights[w] * value
                continue
            if q >= 0:  # otherwise the list of the near pair before
                for n in range(n_far):
                    pulls[far[current + n] - offset] -= far_slopes[n]
                current, n_far = starts[p], starts[p + 1] - starts[p]
                n_padded = _gather(sq_dists, far, current, n_far, offset, far_dists)
                for n in range(n_padded):
                    far_slopes[n] = 0.0
            weight, total, pull = pair_weights[w], 0.0, 0.0
            for n in range(n_padded):
                value, slope = smooth_hinge(far_dists[n] - near)
                total += value
                pull += slope
                far_slopes[n] += weight * slope
            pulls[p - offset] += weight * pull
            losses[told] += weight * total
        for n in range(n_far):
            pulls[far[current + n] - offset] -= far_slopes[n]
        if len(slopes) > 0:
            for n in range(stop - offset):
                slopes[offset + n] = pulls[n]
        if len(product) > 0:
            row = pairs[offset, 0] if shift < 0 else g - shift
            subtract_rows(offset, stop, Y, no_hints, pairs, slopes, degree, product, row)


def triplet_half_scatter(
    Y: FloatArray, scales: FloatArray, lists: Lists, pair_weights: FloatArray
) -> tuple[float, FloatArray]:
    """Weighted loss, and Y transposed times what :func:`triplet_gradient` returns.

    Made in blocks: nothing as large as Y is made.
    """
    pairs, _, _, groups, (_, _, n_triplets) = lists
    degree, slopes = np.zeros(len(Y)), np.empty(len(pairs), Y.dtype)
    losses, loop = np.zeros(len(groups) - 1), _slopes_loop(lists, slopes)
    args = (Y, pairs_ahead(Y), scales, lists, pair_weights, 1.0, slopes, losses, degree)

    def make_rows(begin, end, rows):
        loop(begin, end, *args, rows, begin)

    cost = 2 * slopes.size * Y.shape[1] + 3 * n_triplets
    half = sum_by_references(make_rows, Y, pairs, groups, cost)
    half += diagonal_part(Y, pairs, slopes, degree)
    return float(losses.sum()), half


def triplet_losses_along(
    Y: FloatArray, scales: FloatArray, lists: Lists, pair_weights: FloatArray
) -> FloatArray:
    """Weighted loss for each of four scalings of the columns of Y, from one pass over the pairs."""
    pairs, _, _, groups, widths = lists
    n_pairs, n_far, n_triplets = widths.tolist()
    losses = np.zeros((len(groups) - 1, 4))
    cost = 4 * len(pairs) * Y.shape[1] + 8 * n_triplets
    args = (Y, pairs_ahead(Y), scales, lists, pair_weights, losses)

    def make():
        return np.empty((4, n_pairs)), np.empty((4, n_far + 8))

    share(with_memory(_triplet_losses_along, make), len(losses), cost, *args)
    return losses.sum(axis=0)


@fast_loop
def _triplet_losses_along(
    begin, end, Y, ahead, scales, lists, pair_weights, losses, sq_dists, far_dists
):
    """Losses of each group for four scalings; the last arrays are for what belongs to one."""
    pairs, starts, far, groups, _ = lists
    one_each = len(pair_weights) > 1
    for g in range(begin, end):
        offset, stop = groups[g], groups[g + 1]
        four_sq_dists_loop(offset, stop, Y, ahead, scales, pairs, sq_dists.T)
        n_padded = 0
        for p in range(offset, stop):
            first, n_far = starts[p], starts[p + 1] - starts[p]
            if n_far == 0:
                continue
            w, q = p if one_each else 0, far[first]
            if q >= 0 and n_far == 1:
                for s in range(4):
                    margin = sq_dists[s, q - offset] - sq_dists[s, p - offset]
                    losses[g, s] += pair_weights[w] * smooth_hinge(margin)[0]
                continue
            if q >= 0:
                for s in range(4):
                    n_padded = _gather(sq_dists[s], far, first, n_far, offset, far_dists[s])
            for s in range(4):
                total = 0.0
                for n in range(n_padded):
                    total += smooth_hinge(far_dists[s, n] - sq_dists[s, p - offset])[0]
                losses[g, s] += pair_weights[w] * total


@inner_step
def _find_near(begin, end, starts, out):
    """List the near pairs among some pairs; their number.

    Without a branch: near and far pairs alternate at random, so that every second guess of the
    processor would be wrong.
    """
    n_near = 0
    for p in range(begin, end):
        out[n_near] = p
        n_near += starts[p] < starts[p + 1]
    return n_near


@inner_loop
def _gather(sq_dists, far, first, n_far, offset, out):
    """Copy the distances of a list of far pairs, so that loops over it vectorise; their number.

    The copy is padded to whole vectors of eight with distances at which no loss is left.
    """
    n_padded = (n_far + 7) // 8 * 8
    for n in range(n_far):
        out[n] = sq_dists[far[first + n] - offset]
    for n in range(n_far, n_padded):
        out[n] = np.inf
    return n_padded

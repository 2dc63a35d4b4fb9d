"""The loops over comparisons of any two pairs, each with a weight.

Near and far pair need not share a sample, so nothing can be done anchor by anchor as in
:mod:`mdaml.kernels.cpu`: distances of all pairs, then losses, then slopes are passes of their own.
Each writes what it alone owns (a pair, a comparison), and sums run in a fixed order in double
precision: no result depends on the number of threads. Index arrays come from
:class:`mdaml.constraints.ComparisonSet`.
"""

import numpy as np

from mdaml.kernels._prefetch import pairs_ahead, prefetch_row
from mdaml.kernels._threads import share
from mdaml.kernels.cpu import fast_loop, laplacian_product, pair_sq_dists, smooth_hinge


def comparison_losses(Y, comparisons):
    """Weighted sum of the losses of the comparisons of each near pair, for distances in Y."""
    sq_dists = pair_sq_dists(Y, comparisons.pairs)
    out = np.empty(len(sq_dists))
    share(_near_losses, len(out), 4 * len(comparisons.far), sq_dists, *comparisons.by_near, out)
    return out


@fast_loop
def _near_losses(begin, end, sq_dists, first, last, far, weights, out):
    for p in range(begin, end):
        near, total = sq_dists[p], 0.0
        for t in range(first[p], last[p]):
            total += weights[t] * smooth_hinge(sq_dists[far[t]] - near)[0]
        out[p] = total


def comparison_gradient(Y, scales, comparisons, pair_weights):
    """Weighted loss for distances in Y, columns scaled, and half of its Laplacian times Y.

    The second result is :func:`laplacian_product` for the slopes of :func:`comparison_slopes`.
    """
    loss, slopes = comparison_slopes(Y, scales, comparisons, pair_weights)
    return loss, laplacian_product(Y, comparisons.pairs, comparisons.groups, slopes)


def comparison_slopes(Y, scales, comparisons, pair_weights):
    """Weighted loss for distances in Y, columns scaled, and its derivative for every pair.

    The squared distance of a pair is ``sum_c scales[c] (y_ic - y_jc)**2``.
    """
    sq_dists = pair_sq_dists(Y, comparisons.pairs, scales)
    losses, slopes = np.empty(len(sq_dists)), np.empty(len(sq_dists))
    pulls = np.empty(len(comparisons.far))
    args = (sq_dists, *comparisons.by_near, pair_weights, losses, slopes, pulls)
    share(_near_slopes, len(slopes), 5 * len(pulls), *args)
    share(_subtract_far_slopes, len(slopes), 2 * len(pulls), *comparisons.by_far, pulls, slopes)
    return float(losses.sum()), slopes


@fast_loop
def _near_slopes(
    begin, end, sq_dists, first, last, far, weights, pair_weights, losses, slopes, pulls
):
    """Losses and slopes of the pairs as near pairs; each comparison's slope in ``pulls``."""
    for p in range(begin, end):
        near, total, pull = sq_dists[p], 0.0, 0.0
        for t in range(first[p], last[p]):
            value, slope = smooth_hinge(sq_dists[far[t]] - near)
            weight = pair_weights[p] * weights[t]
            total += weight * value
            pull += weight * slope
            pulls[t] = weight * slope
        losses[p], slopes[p] = total, pull


@fast_loop
def _subtract_far_slopes(begin, end, bounds, members, pulls, slopes):
    """Subtract from each pair's slope those of the comparisons in which it is the far pair."""
    for p in range(begin, end):
        total = 0.0
        for e in range(bounds[p], bounds[p + 1]):
            total += pulls[members[e]]
        slopes[p] -= total


def comparison_losses_along(Y, scales, comparisons, pair_weights):
    """Weighted loss for each of four scalings of the columns of Y, from one pass over the pairs."""
    pairs = comparisons.pairs
    sq_dists, losses = np.empty((len(pairs), 4)), np.empty((len(pairs), 4))
    args = (Y, pairs_ahead(Y), scales, pairs, sq_dists)
    share(_four_sq_dists, len(pairs), 4 * len(pairs) * Y.shape[1], *args)
    args = (sq_dists, *comparisons.by_near, pair_weights, losses)
    share(_four_losses, len(pairs), 12 * len(comparisons.far), *args)
    return losses.sum(axis=0)


@fast_loop
def _four_sq_dists(begin, end, Y, ahead, scales, pairs, out):
    for p in range(begin, end):
        if ahead > 0 and p + ahead < len(pairs):
            prefetch_row(Y, pairs[p + ahead, 1])
        i, j = pairs[p, 0], pairs[p, 1]
        s0 = s1 = s2 = s3 = Y.dtype.type(0)  # four named sums, so that this loop vectorises
        for c in range(Y.shape[1]):
            diff = Y[i, c] - Y[j, c]
            square = diff * diff
            s0 += square * scales[0, c]
            s1 += square * scales[1, c]
            s2 += square * scales[2, c]
            s3 += square * scales[3, c]
        out[p, 0], out[p, 1], out[p, 2], out[p, 3] = s0, s1, s2, s3


@fast_loop
def _four_losses(begin, end, sq_dists, first, last, far, weights, pair_weights, losses):
    for p in range(begin, end):
        losses[p] = 0.0
        for t in range(first[p], last[p]):
            weight, f = pair_weights[p] * weights[t], far[t]
            for s in range(4):
                losses[p, s] += weight * smooth_hinge(sq_dists[f, s] - sq_dists[p, s])[0]

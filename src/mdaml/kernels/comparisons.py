"""The loops over comparisons of any two pairs, each with a weight.

Near and far pair need not share a sample, so nothing can be done reference by reference as in
:mod:`mdaml.kernels.triplets`: distances of all pairs, then losses, then slopes are passes of their
own. Each writes what it alone owns (a pair, a comparison), and sums run in a fixed order in double
precision: no result depends on the number of threads.

``by_near = (starts, far, weights)``: the comparisons with near pair p have the far pairs
``far[starts[p]:starts[p + 1]]`` and the weights at the same places. ``by_far = (bounds, members)``:
the comparisons ``members[bounds[p]:bounds[p + 1]]`` have far pair p. ``pair_weights`` are one for
each pair, or one for all.
"""

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import fast_loop
from mdaml.kernels.pairs import four_sq_dists_loop, pair_sq_dists, smooth_hinge
from mdaml.kernels.prefetch import pairs_ahead
from mdaml.kernels.threads import share

ByNear = tuple[IntArray, IntArray, FloatArray]
ByFar = tuple[IntArray, IntArray]
_PAIRS_PER_SUM = 256  # losses are summed in so many at a time, whatever the number of threads


def comparison_losses(
    Y: FloatArray, pairs: IntArray, by_near: ByNear, dtype: npt.DTypeLike = np.float64
) -> FloatArray:
    """Weighted sum of the losses of the comparisons of each near pair, for distances in Y."""
    sq_dists = pair_sq_dists(Y, pairs, dtype=Y.dtype)
    out = np.empty(len(sq_dists), dtype)
    share(_near_losses, len(out), 4 * len(by_near[1]), sq_dists, *by_near, out)
    return out


@fast_loop
def _near_losses(begin, end, sq_dists, starts, far, weights, out):
    for p in range(begin, end):
        near, total = sq_dists[p], 0.0
        for t in range(starts[p], starts[p + 1]):
            total += weights[t] * smooth_hinge(sq_dists[far[t]] - near)[0]
        out[p] = total


def comparison_slopes(
    Y: FloatArray,
    scales: FloatArray,
    pairs: IntArray,
    by_near: ByNear,
    by_far: ByFar,
    pair_weights: FloatArray,
) -> tuple[float, FloatArray]:
    """Weighted loss for distances in Y, columns scaled, and its derivative for every pair.

    The squared distance of a pair is ``sum_c scales[c] (y_ic - y_jc)**2``.
    """
    sq_dists = pair_sq_dists(Y, pairs, scales, Y.dtype)
    losses, slopes = np.empty(len(sq_dists), Y.dtype), np.empty(len(sq_dists), Y.dtype)
    pulls = np.empty(len(by_near[1]), Y.dtype)
    args = (sq_dists, *by_near, pair_weights, losses, slopes, pulls)
    share(_near_slopes, len(slopes), 5 * len(pulls), *args)
    del args, sq_dists  # free the distances before the next pass
    share(_subtract_far_slopes, len(slopes), 2 * len(pulls), *by_far, pulls, slopes)
    return float(losses.sum(dtype=np.float64)), slopes


@fast_loop
def _near_slopes(begin, end, sq_dists, starts, far, weights, pair_weights, losses, slopes, pulls):
    """Losses and slopes of the pairs as near pairs; each comparison's slope in ``pulls``."""
    one_each = len(pair_weights) > 1
    for p in range(begin, end):
        near, total, pull = sq_dists[p], 0.0, 0.0
        for t in range(starts[p], starts[p + 1]):
            value, slope = smooth_hinge(sq_dists[far[t]] - near)
            weight = pair_weights[p if one_each else 0] * weights[t]
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


def comparison_losses_along(
    Y: FloatArray, scales: FloatArray, pairs: IntArray, by_near: ByNear, pair_weights: FloatArray
) -> FloatArray:
    """Weighted loss for each of four scalings of the columns of Y, from one pass over the pairs."""
    sq_dists = np.empty((len(pairs), 4), Y.dtype)
    args = (Y, pairs_ahead(Y), scales, pairs, sq_dists)
    share(_four_sq_dists, len(pairs), 4 * len(pairs) * Y.shape[1], *args)
    losses = np.zeros((-(-len(pairs) // _PAIRS_PER_SUM), 4))
    cost = 12 * len(by_near[1])
    share(_four_losses, len(losses), cost, sq_dists, *by_near, pair_weights, losses)
    return losses.sum(axis=0)


@fast_loop
def _four_sq_dists(begin, end, Y, ahead, scales, pairs, out):
    four_sq_dists_loop(begin, end, Y, ahead, scales, pairs, out[begin:])


@fast_loop
def _four_losses(begin, end, sq_dists, starts, far, weights, pair_weights, losses):
    one_each = len(pair_weights) > 1
    for block in range(begin, end):
        start = block * _PAIRS_PER_SUM
        for p in range(start, min(start + _PAIRS_PER_SUM, len(sq_dists))):
            for t in range(starts[p], starts[p + 1]):
                weight, f = pair_weights[p if one_each else 0] * weights[t], far[t]
                for s in range(4):
                    loss = smooth_hinge(sq_dists[f, s] - sq_dists[p, s])[0]
                    losses[block, s] += weight * loss

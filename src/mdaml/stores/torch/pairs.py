"""The passes over pairs and comparisons, for tensors on any device.

Passes of their own for distances, losses with slopes, and Laplacian products, each in Triton
where the tensors are on a GPU and Triton is there, otherwise in torch, block by block. Every result
is written by whoever alone owns it (a pair, a sample): no atomic additions, so a fit repeats itself
to the last bit.

``by_far = (starts, near, weights)`` lists the near pairs of each far pair as :class:`Comparisons`
lists the far pairs of each near pair; ``by_second = (starts, pairs)`` the pairs of each second row.
"""

from itertools import pairwise

import torch

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.comparisons import Comparisons
from mdaml.neighbors.device import block_length, blocks, triton_pairs

# Grouping, once per fit


def group(
    given: IntArray, weights: FloatArray | None, n_samples: int, device: str
) -> tuple[Comparisons, tuple[torch.Tensor, ...], tuple[torch.Tensor, torch.Tensor]]:
    """Group (n, 3) triplets, or (n, 4) near and far pairs with weights; with by_far and by_second.

    The first member of a pair of triplets stays first, so that the pairs of a reference stay
    together. Repeated comparisons are kept, and every sample has a group of pairs, perhaps empty.
    """
    rows = torch.tensor(given, device=device).long()
    far = rows[:, 2:] if weights is not None else rows[:, ::2]
    sides = (_pair_keys(pair, n_samples, weights is None) for pair in (rows[:, :2], far))
    keys, places = torch.unique(torch.cat(list(sides)), return_inverse=True)
    del rows, far
    near, far = places.view(2, -1)
    by_near = near * len(keys) + far
    del places, near, far
    by_near, order = torch.sort(by_near, stable=True)
    near, far = by_near // len(keys), (by_near % len(keys)).int()
    del by_near
    if weights is not None:
        weights = torch.tensor(weights, device=device).double()[order]
    far_sorted, order = torch.sort(far, stable=True)
    first, second = keys // n_samples, (keys % n_samples).int()
    second_sorted, by_second = torch.sort(second, stable=True)
    starts = bounds(near, len(keys))
    comparisons = Comparisons(
        pairs=torch.stack([first.int(), second], dim=1),
        groups=bounds(first, n_samples),
        starts=starts,
        far=far,
        weights=weights,
        n_samples=n_samples,
    )
    of_far = None if weights is None else weights[order]
    by_far = bounds(far_sorted, len(keys)), near.int()[order], of_far
    return comparisons, by_far, (bounds(second_sorted, n_samples), by_second.int())


def _pair_keys(pairs, n_samples, directed):
    if not directed:
        pairs = torch.stack([pairs.amin(dim=1), pairs.amax(dim=1)], dim=1)
    return pairs[:, 0] * n_samples + pairs[:, 1]


def bounds(values, n):
    """Where each of the numbers 0 to n - 1 begins in sorted values, and where the last ends."""
    numbers = torch.arange(n + 1, device=values.device, dtype=values.dtype)
    found = torch.searchsorted(values, numbers)
    return found.int() if len(values) < 2**31 else found


def near_graph(pairs, first, last, n_samples):
    """Rows of near pairs by sample, in either role: indptr, the other samples, the pairs."""
    rows = torch.nonzero(first < last)[:, 0].int()
    ends = pairs[rows.long()]
    own, order = torch.sort(torch.cat([ends[:, 0], ends[:, 1]]), stable=True)
    samples = torch.cat([ends[:, 1], ends[:, 0]])[order]
    return bounds(own, n_samples), samples, torch.cat([rows, rows])[order]


def near_totals(comparisons):
    """Weight of the comparisons of each near pair."""
    counts = comparisons.last - comparisons.first
    if comparisons.weights is None:
        return counts.double()
    return segment_sums(comparisons.weights, comparisons.starts.long())


# Passes over pairs


def pair_products(E, comparisons):
    """Inner product of the two rows of E that a near pair names; zero for all other pairs."""
    near = torch.nonzero(comparisons.first < comparisons.last)[:, 0]
    out = E.new_zeros(len(comparisons.pairs), dtype=torch.float64)
    for begin, end in blocks(len(near), 2 * E.shape[1]):
        i, j = comparisons.pairs[near[begin:end]].T
        products = E.index_select(0, i).double() * E.index_select(0, j)
        out[near[begin:end]] = products.sum(dim=1)
    return out


def near_losses(sq_dists, comparisons):
    """Weighted sum of the losses of the comparisons of each near pair."""
    fused = triton_pairs(sq_dists)
    if fused is not None:
        return fused.near_losses(sq_dists, comparisons)
    starts, far, weights = comparisons.starts, comparisons.far, comparisons.weights
    out = sq_dists.new_empty(len(sq_dists), dtype=torch.float64)
    for begin, end in blocks(len(sq_dists), _mean_length(far, sq_dists)):
        gaps, span, offsets = _gaps(sq_dists, starts, far, begin, end)
        values = _weighed(smooth_hinge(-gaps)[0], weights, span)
        out[begin:end] = segment_sums(values, offsets)
    return out


def losses_and_slopes(sq_dists, comparisons, by_far, pair_weights):
    """Losses of each near pair, not multiplied by its weight, and the slope of all for each pair.

    Slopes, the derivatives of the weighted loss, are in the precision of the distances.
    """
    fused = triton_pairs(sq_dists)
    if fused is not None:
        return fused.losses_and_slopes(sq_dists, comparisons, by_far, pair_weights)
    losses = torch.empty_like(pair_weights)
    slopes = torch.empty_like(sq_dists)
    starts, far, weights = comparisons.starts, comparisons.far, comparisons.weights
    far_starts, near, far_weights = by_far
    for begin, end in blocks(len(losses), _mean_length(far, losses)):
        gaps, span, offsets = _gaps(sq_dists, starts, far, begin, end)
        values, pulls = (_weighed(part, weights, span) for part in smooth_hinge(-gaps))
        losses[begin:end] = segment_sums(values, offsets)
        pull = pair_weights[begin:end] * segment_sums(pulls, offsets)
        # The same pairs as the far ones of others: a gap is then seen from its other side.
        gaps, span, offsets = _gaps(sq_dists, far_starts, near, begin, end)
        pushes = smooth_hinge(gaps)[1]
        pushes *= pair_weights.index_select(0, near[span])
        pushes = _weighed(pushes, far_weights, span)
        slopes[begin:end] = pull - segment_sums(pushes, offsets)
    return losses, slopes


def smooth_hinge(x):
    """Loss of a margin, and minus its slope: Eq. (8), as in :mod:`mdaml.kernels.pairs`."""
    short = (1.0 - x).clamp_(min=0.0)
    slope = short.clamp(max=1.0)
    return slope * (short - 0.5 * slope), slope


def list_range(starts, begin, end):
    """Where the lists of the items begin to end lie, and where each starts within; and the end."""
    part = starts[begin : end + 1].long()
    return slice(*part[[0, -1]].tolist()), part - part[0]


def _gaps(sq_dists, starts, others, begin, end):
    """Distance of each pair begin to end minus that of each on its list; and where that list is."""
    span, offsets = list_range(starts, begin, end)
    own = torch.repeat_interleave(
        sq_dists[begin:end].double(), offsets.diff(), output_size=span.stop - span.start
    )
    return own - sq_dists.index_select(0, others[span]), span, offsets


def _weighed(values, weights, span):
    return values if weights is None else values * weights[span]


def segment_sums(values, offsets):
    """Sum the values of each list."""
    return torch.segment_reduce(values, "sum", offsets=offsets, axis=0)


def laplacian_product(Y, comparisons, by_second, weights):
    """``deg/2 * Y - B @ Y`` with ``B[i, j]`` the weight of the pair (i, j), ``deg`` its degrees.

    As in :mod:`mdaml.kernels.pairs`; pairs are sorted by their first row.
    """
    fused = triton_pairs(Y)
    if fused is not None:
        return fused.laplacian_product(Y, comparisons, by_second, weights)
    starts, (second_starts, by_row) = comparisons.groups, by_second
    out = torch.empty_like(Y)
    for begin, end in _row_blocks(comparisons.pairs, len(Y), Y.shape[1]):
        span, offsets = list_range(starts, begin, end)
        own = weights[span]
        seconds = comparisons.pairs[span, 1]
        pulls = segment_sums(own[:, None] * Y.index_select(0, seconds), offsets)
        degrees = segment_sums(own.double(), offsets)
        span, offsets = list_range(second_starts, begin, end)
        others = weights.index_select(0, by_row[span]).double()
        degrees += segment_sums(others, offsets)
        out[begin:end] = (0.5 * degrees).to(Y)[:, None] * Y[begin:end] - pulls
    return out


def laplacian_times(Y, comparisons, by_second, weights):
    """``sum_p weights[p] (e_i - e_j)(e_i - e_j)^T Y``: pairs count for both of their samples."""
    fused = triton_pairs(Y)
    if fused is not None:
        return fused.laplacian_times(Y, comparisons, by_second, weights)
    firsts, seconds = comparisons.pairs.T
    second_starts, by_row = by_second
    out = torch.zeros_like(Y)
    _add_lists(out, Y, comparisons.groups, seconds, weights)
    own = weights.index_select(0, by_row)
    _add_lists(out, Y, second_starts, firsts.index_select(0, by_row), own)
    return out


def _add_lists(out, Y, starts, others, weights):
    """Add to each row of ``out`` the weighted differences of a row of Y and those on its list."""
    for begin, end in _list_blocks(starts, len(others), Y.shape[1]):
        span, offsets = list_range(starts, begin, end)
        own = weights[span]
        pulled = Y.index_select(0, others[span]).mul_(own[:, None])
        degrees = segment_sums(own.double(), offsets).to(Y)
        out[begin:end] += degrees[:, None] * Y[begin:end] - segment_sums(pulled, offsets)


# Blocks


def _mean_length(entries, lists):
    return -(-len(entries) // len(lists))


def _row_blocks(pairs, n_samples, width):
    """Cut the samples so that the pairs of a block make up at most about ``MAX_BLOCK`` entries."""
    step = block_length(width)
    return pairwise(sorted({0, *pairs[::step, 0].tolist(), n_samples}))


def _list_blocks(starts, n_entries, width):
    """Cut the lists so that those of a block make up at most about ``MAX_BLOCK`` entries."""
    step = block_length(width)
    marks = torch.arange(0, n_entries, step, device=starts.device, dtype=starts.dtype)
    cuts = torch.searchsorted(starts, marks).tolist()
    return pairwise(sorted({0, *cuts, len(starts) - 1}))

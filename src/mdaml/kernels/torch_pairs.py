"""The loops over pairs and comparisons, for tensors on any device.

Passes of their own for distances, losses with slopes, and Laplacian products, each in Triton
where the tensors are on a GPU and Triton is there, otherwise in torch, block by block. Every result
is written by whoever alone owns it (a pair, a sample): no atomic additions, so a fit repeats itself
to the last bit. Index arrays come from :class:`mdaml.device.DeviceComparisons`.
"""

from functools import cache
from importlib import import_module, util
from itertools import pairwise

import torch

from mdaml.kernels.torch_arrays import beside, to_device

# Entries of the largest temporary array of a pass in torch.
MAX_BLOCK = 2**25


def _fused(Y):
    """Return the passes in Triton, if they can work on Y, or None."""
    return _triton_pairs() if Y.is_cuda and Y.dtype == torch.float32 else None


@cache
def _triton_pairs():
    """Return the module of the passes in Triton, or None where Triton is absent."""
    if util.find_spec("triton") is None:
        return None
    return import_module("mdaml.kernels.triton_pairs")


# Grouping, once per fit


def group_comparisons(X, given, weights, *, directed):
    """Arrays of :class:`mdaml.device.DeviceComparisons` for an (n, 4) array of near and far pairs.

    Triplets may be passed as (n, 3). ``directed`` keeps the first member of a pair first, so that
    the pairs of an anchor stay together.
    """
    n_samples, given = len(X), to_device(given, X.device).long()
    far = given[:, 2:] if given.shape[1] == 4 else given[:, ::2]
    keys = torch.cat([_pair_keys(pair, n_samples, directed) for pair in (given[:, :2], far)])
    del given, far
    keys, rows = torch.unique(keys, return_inverse=True)
    near, far = rows.view(2, -1)
    by_near = near * len(keys) + far
    del rows, near, far
    by_near, order = torch.sort(by_near, stable=True)
    near, far = by_near // len(keys), (by_near % len(keys)).int()
    del by_near
    weights = None if weights is None else to_device(weights, X.device).double()[order]
    far_sorted, order = torch.sort(far, stable=True)
    first, second = keys // n_samples, (keys % n_samples).int()
    second_sorted, by_second = torch.sort(second, stable=True)
    return {
        "pairs": torch.stack([first.int(), second], dim=1),
        "by_first": bounds(first, n_samples),
        "by_second": (bounds(second_sorted, n_samples), by_second.int()),
        "by_near": (bounds(near, len(keys)), far, weights),
        "by_far": (
            bounds(far_sorted, len(keys)),
            near.int()[order],
            None if weights is None else weights[order],
        ),
    }


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


def list_totals(starts, _entries, weights):
    """Weight of the entries of each list."""
    if weights is None:
        return starts.diff().double()
    return segment_sums(weights, Rows(starts, 0, len(starts) - 1))


# Passes over pairs


def pair_sq_dists(Y, pairs, scales):
    """``sum_c scales[s, c] (y_ic - y_jc)**2`` for every row s of scales and every pair, (S, P)."""
    fused = _fused(Y)
    if fused is not None and len(scales) in (1, 4):
        return fused.pair_sq_dists(Y, pairs, scales)
    out = Y.new_empty((len(scales), len(pairs)))
    for begin, end in blocks(len(pairs), Y.shape[1]):
        i, j = pairs[begin:end].T
        difference = Y.index_select(0, i) - Y.index_select(0, j)
        out[:, begin:end] = scales @ difference.square_().T
    return out


def pair_products(E, comparisons):
    """Inner product of the two rows of E that a near pair names; zero for all other pairs."""
    pairs = comparisons.pairs
    out = E.new_zeros(len(pairs), dtype=torch.float64)
    for begin, end in blocks(len(pairs), 2 * E.shape[1]):
        i, j = pairs[begin:end].T
        out[begin:end] = (E.index_select(0, i).double() * E.index_select(0, j)).sum(dim=1)
    return out.where(comparisons.is_near, 0.0)


def comparison_losses(Y, comparisons):
    """Weighted sum of the losses of the comparisons of each near pair, for distances in Y."""
    scales = torch.ones((1, Y.shape[1]), dtype=Y.dtype, device=Y.device)
    return _near_losses(pair_sq_dists(Y, comparisons.pairs, scales)[0], comparisons)


def comparison_losses_along(Y, scales, comparisons, pair_weights):
    """Weighted loss for each of four scalings of the columns of Y, from one pass over the pairs."""
    sq_dists = pair_sq_dists(Y, comparisons.pairs, beside(Y, scales))
    losses = [torch.dot(_near_losses(row, comparisons), pair_weights) for row in sq_dists]
    return torch.stack(losses).cpu().numpy()


def comparison_gradient(Y, scales, comparisons, pair_weights):
    """Weighted loss for distances in Y, columns scaled, and half of its Laplacian times Y."""
    loss, slopes = comparison_slopes(Y, scales, comparisons, pair_weights)
    return loss, laplacian_product(Y, comparisons, slopes)


def comparison_slopes(Y, scales, comparisons, pair_weights):
    """Weighted loss for distances in Y, columns scaled, and its derivative for every pair."""
    sq_dists = pair_sq_dists(Y, comparisons.pairs, beside(Y, scales)[None])[0]
    losses, slopes = losses_and_slopes(sq_dists, comparisons, pair_weights)
    return float(torch.dot(losses, pair_weights)), slopes


def _near_losses(sq_dists, comparisons):
    fused = _fused(sq_dists)
    if fused is not None:
        return fused.near_losses(sq_dists, comparisons)
    starts, far, weights = comparisons.by_near
    out = sq_dists.new_empty(len(sq_dists), dtype=torch.float64)
    for begin, end in blocks(len(sq_dists), _mean_length(far, sq_dists)):
        gaps, rows = _gaps(sq_dists, starts, far, begin, end)
        values = _weighed(smooth_hinge(-gaps)[0], weights, rows)
        out[begin:end] = segment_sums(values, rows)
    return out


def losses_and_slopes(sq_dists, comparisons, pair_weights):
    """Losses of each near pair, not multiplied by its weight, and the slope of all for each pair.

    Slopes, the derivatives of the weighted loss, are in the precision of the distances.
    """
    fused = _fused(sq_dists)
    if fused is not None:
        return fused.losses_and_slopes(sq_dists, comparisons, pair_weights)
    losses = torch.empty_like(pair_weights)
    slopes = torch.empty_like(sq_dists)
    starts, far, weights = comparisons.by_near
    far_starts, near, far_weights = comparisons.by_far
    for begin, end in blocks(len(losses), _mean_length(far, losses)):
        gaps, rows = _gaps(sq_dists, starts, far, begin, end)
        values, pulls = (_weighed(part, weights, rows) for part in smooth_hinge(-gaps))
        losses[begin:end] = segment_sums(values, rows)
        pull = pair_weights[begin:end] * segment_sums(pulls, rows)
        # The same pairs as the far ones of others: a gap is then seen from its other side.
        gaps, rows = _gaps(sq_dists, far_starts, near, begin, end)
        pushes = smooth_hinge(gaps)[1]
        pushes *= pair_weights.index_select(0, near[rows.begin : rows.end])
        pushes = _weighed(pushes, far_weights, rows)
        slopes[begin:end] = pull - segment_sums(pushes, rows)
    return losses, slopes


def smooth_hinge(x):
    """Loss of a margin, and minus its slope: Eq. (8), as in :mod:`mdaml.kernels.cpu`."""
    short = (1.0 - x).clamp_(min=0.0)
    slope = short.clamp(max=1.0)
    return slope * (short - 0.5 * slope), slope


class Rows:
    """The entries begin to end of lists, and how many belong to each of some pairs."""

    def __init__(self, starts, begin, end):
        part = starts[begin : end + 1].long()
        self.begin, self.end = part[[0, -1]].tolist()
        self.starts = part - part[0]


def _gaps(sq_dists, starts, others, begin, end):
    """Distance of each pair begin to end minus that of each on its list; and where that list is."""
    rows = Rows(starts, begin, end)
    own = torch.repeat_interleave(
        sq_dists[begin:end].double(), rows.starts.diff(), output_size=rows.end - rows.begin
    )
    return own - sq_dists.index_select(0, others[rows.begin : rows.end]), rows


def _weighed(values, weights, rows):
    return values if weights is None else values * weights[rows.begin : rows.end]


def segment_sums(values, rows):
    """Sum the values of each list."""
    return torch.segment_reduce(values, "sum", offsets=rows.starts, axis=0)


def laplacian_product(Y, comparisons, weights):
    """``deg/2 * Y - B @ Y`` with ``B[i, j]`` the weight of the pair (i, j), ``deg`` its degrees.

    As in :mod:`mdaml.kernels.cpu`; pairs are sorted by their first row.
    """
    fused = _fused(Y)
    if fused is not None:
        return fused.laplacian_product(Y, comparisons, weights)
    starts, (second_starts, by_second) = comparisons.by_first, comparisons.by_second
    out = torch.empty_like(Y)
    for begin, end in _row_blocks(comparisons.pairs, len(Y), Y.shape[1]):
        rows = Rows(starts, begin, end)
        own = weights[rows.begin : rows.end]
        seconds = comparisons.pairs[rows.begin : rows.end, 1]
        pulls = segment_sums(own[:, None] * Y.index_select(0, seconds), rows)
        degrees = segment_sums(own.double(), rows)
        rows = Rows(second_starts, begin, end)
        others = weights.index_select(0, by_second[rows.begin : rows.end]).double()
        degrees += segment_sums(others, rows)
        out[begin:end] = (0.5 * degrees).to(Y)[:, None] * Y[begin:end] - pulls
    return out


def laplacian_times(Y, comparisons, weights):
    """``sum_p weights[p] (e_i - e_j)(e_i - e_j)^T Y``: pairs count for both of their samples."""
    fused = _fused(Y)
    if fused is not None:
        return fused.laplacian_times(Y, comparisons, weights)
    firsts, seconds = comparisons.pairs.T
    second_starts, by_second = comparisons.by_second
    out = torch.zeros_like(Y)
    _add_lists(out, Y, comparisons.by_first, seconds, weights)
    own = weights.index_select(0, by_second)
    _add_lists(out, Y, second_starts, firsts.index_select(0, by_second), own)
    return out


def _add_lists(out, Y, starts, others, weights):
    """Add to each row of ``out`` the weighted differences of a row of Y and those on its list."""
    for begin, end in _list_blocks(starts, len(others), Y.shape[1]):
        rows = Rows(starts, begin, end)
        own = weights[rows.begin : rows.end]
        pulled = Y.index_select(0, others[rows.begin : rows.end]).mul_(own[:, None])
        degrees = segment_sums(own.double(), rows).to(Y)
        out[begin:end] += degrees[:, None] * Y[begin:end] - segment_sums(pulled, rows)


# Blocks


def blocks(n, width):
    """Cut n items, each of some entries, so that a block has at most ``MAX_BLOCK`` entries."""
    step = max(MAX_BLOCK // max(width, 1), 1)
    return [(begin, min(begin + step, n)) for begin in range(0, n, step)]


def _mean_length(entries, lists):
    return -(-len(entries) // len(lists))


def _row_blocks(pairs, n_samples, width):
    """Cut the samples so that the pairs of a block make up at most about ``MAX_BLOCK`` entries."""
    step = max(MAX_BLOCK // width, 1)
    return pairwise(sorted({0, *pairs[::step, 0].tolist(), n_samples}))


def _list_blocks(starts, n_entries, width):
    """Cut the lists so that those of a block make up at most about ``MAX_BLOCK`` entries."""
    step = max(MAX_BLOCK // width, 1)
    marks = torch.arange(0, n_entries, step, device=starts.device, dtype=starts.dtype)
    cuts = torch.searchsorted(starts, marks).tolist()
    return pairwise(sorted({0, *cuts, len(starts) - 1}))

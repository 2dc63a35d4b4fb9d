"""The passes over pairs on a GPU, in Triton, for single precision.

The twins of the functions of the same names in :mod:`mdaml.stores.torch.pairs`, without temporary
arrays. Offsets into samples are 64 bits wide: samples times features may exceed 2^31.
"""

import torch
import triton
import triton.language as tl

# A program of the distances holds so many pairs, with one scaling or with four ...
_PAIRS, _PAIRS_OF_FOUR = 8, 16
# ... one of the losses so many, and one of the Laplacian product so many partners of its sample.
_LISTS, _PARTNERS = 128, 4
_SECOND_ROLES = 32
# Small programs of one warp each keep more rows on their way: on an H200 the Laplacian product of
# 1.1e7 pairs of 128 features took 1.8 ms with 4 partners and one warp, 4.4 ms with 16 and four.
_WARPS = 1
_MAX_COLUMNS = 128  # held at a time


def _columns(Y):
    return min(max(triton.next_power_of_2(Y.shape[1]), 16), _MAX_COLUMNS)


def pair_sq_dists(Y, pairs, scales):
    """``sum_c scales[s, c] (y_ic - y_jc)**2`` for one or four rows s of scales, (S, P)."""
    Y, pairs, scales = Y.contiguous(), pairs.contiguous(), scales.contiguous()
    n_scales, n_pairs = len(scales), len(pairs)
    out = torch.empty((n_scales, n_pairs), dtype=Y.dtype, device=Y.device)
    size = _PAIRS if n_scales == 1 else _PAIRS_OF_FOUR
    grid = (triton.cdiv(n_pairs, size),)
    _pair_sq_dists[grid](
        Y,
        pairs,
        scales,
        out,
        n_pairs,
        Y.shape[1],
        FOUR=n_scales == 4,
        SIZE=size,
        COLUMNS=_columns(Y),
        num_warps=_WARPS if n_scales == 1 else 4,
    )
    return out


@triton.jit
def _pair_sq_dists(
    Y, pairs, scales, out, n_pairs, d, FOUR: tl.constexpr, SIZE: tl.constexpr, COLUMNS: tl.constexpr
):
    p = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    real = p < n_pairs
    i = tl.load(pairs + 2 * p, mask=real, other=0).to(tl.int64)
    j = tl.load(pairs + 2 * p + 1, mask=real, other=0).to(tl.int64)
    s0 = tl.zeros([SIZE], dtype=tl.float32)
    s1 = tl.zeros([SIZE], dtype=tl.float32)
    s2 = tl.zeros([SIZE], dtype=tl.float32)
    s3 = tl.zeros([SIZE], dtype=tl.float32)
    for begin in range(0, d, COLUMNS):
        c = begin + tl.arange(0, COLUMNS)
        inside = c < d
        both = real[:, None] & inside[None, :]
        a = tl.load(Y + i[:, None] * d + c[None, :], mask=both, other=0.0)
        b = tl.load(Y + j[:, None] * d + c[None, :], mask=both, other=0.0)
        square = (a - b) * (a - b)
        scale = tl.load(scales + c, mask=inside, other=0.0)
        s0 += tl.sum(square * scale[None, :], axis=1)
        if FOUR:
            scale = tl.load(scales + d + c, mask=inside, other=0.0)
            s1 += tl.sum(square * scale[None, :], axis=1)
            scale = tl.load(scales + 2 * d + c, mask=inside, other=0.0)
            s2 += tl.sum(square * scale[None, :], axis=1)
            scale = tl.load(scales + 3 * d + c, mask=inside, other=0.0)
            s3 += tl.sum(square * scale[None, :], axis=1)
    tl.store(out + p, s0, mask=real)
    if FOUR:
        n = tl.full([SIZE], 0, dtype=tl.int64) + n_pairs  # three times as many may exceed 2^31
        tl.store(out + n + p, s1, mask=real)
        tl.store(out + 2 * n + p, s2, mask=real)
        tl.store(out + 3 * n + p, s3, mask=real)


def near_losses(sq_dists, comparisons):
    """Weighted sum of the losses of the comparisons of each near pair."""
    losses = torch.empty(len(sq_dists), dtype=torch.float64, device=sq_dists.device)
    lists = (comparisons.first, comparisons.far, comparisons.weights)  # not read
    _launch_losses(sq_dists, comparisons, lists, losses, losses, sq_dists, gradient=False)
    return losses


def losses_and_slopes(sq_dists, comparisons, by_far, pair_weights):
    """Losses of each near pair, not multiplied by its weight, and the slope for each pair."""
    losses, slopes = torch.empty_like(pair_weights), torch.empty_like(sq_dists)
    _launch_losses(sq_dists, comparisons, by_far, pair_weights, losses, slopes, gradient=True)
    return losses, slopes


def _launch_losses(sq_dists, comparisons, by_far, pair_weights, losses, slopes, *, gradient):
    weights = comparisons.weights
    far_starts, near, far_weights = by_far
    weighted = weights is not None
    grid = (triton.cdiv(len(losses), _LISTS),)
    _losses[grid](
        sq_dists.contiguous(),
        comparisons.first,
        comparisons.last,
        comparisons.far,
        weights if weighted else losses,  # not read
        far_starts,
        near,
        far_weights if weighted else losses,
        pair_weights,
        losses,
        slopes,
        len(losses),
        GRADIENT=gradient,
        WEIGHTED=weighted,
        SIZE=_LISTS,
    )


@triton.jit
def _losses(
    sq_dists,
    firsts,
    lasts,
    far,
    weights,
    far_starts,
    near,
    far_weights,
    pair_weights,
    losses,
    slopes,
    n_pairs,
    GRADIENT: tl.constexpr,
    WEIGHTED: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Follow the lists of SIZE pairs side by side, each as near pair and then as far pair."""
    p = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    real = p < n_pairs
    own = tl.load(sq_dists + p, mask=real, other=0.0).to(tl.float64)
    first = tl.load(firsts + p, mask=real, other=0).to(tl.int64)
    last = tl.load(lasts + p, mask=real, other=0).to(tl.int64)
    loss = tl.zeros([SIZE], dtype=tl.float64)
    pull = tl.zeros([SIZE], dtype=tl.float64)
    for step in range(0, tl.max(last - first, axis=0)):
        e = first + step
        here = e < last
        other = tl.load(far + e, mask=here, other=0).to(tl.int64)
        distance = tl.load(sq_dists + other, mask=here, other=0.0).to(tl.float64)
        short = tl.maximum(1.0 - (distance - own), 0.0)
        slope = tl.minimum(short, 1.0)
        if WEIGHTED:
            weight = tl.load(weights + e, mask=here, other=0.0)
            loss += tl.where(here, weight * slope * (short - 0.5 * slope), 0.0)
            pull += tl.where(here, weight * slope, 0.0)
        else:
            loss += tl.where(here, slope * (short - 0.5 * slope), 0.0)
            pull += tl.where(here, slope, 0.0)
    tl.store(losses + p, loss, mask=real)
    if GRADIENT:
        total = pull * tl.load(pair_weights + p, mask=real, other=0.0)
        first = tl.load(far_starts + p, mask=real, other=0).to(tl.int64)
        last = tl.load(far_starts + p + 1, mask=real, other=0).to(tl.int64)
        for step in range(0, tl.max(last - first, axis=0)):
            e = first + step
            here = e < last
            other = tl.load(near + e, mask=here, other=0).to(tl.int64)
            distance = tl.load(sq_dists + other, mask=here, other=0.0).to(tl.float64)
            slope = tl.minimum(tl.maximum(1.0 - (own - distance), 0.0), 1.0)
            weight = tl.load(pair_weights + other, mask=here, other=0.0)
            if WEIGHTED:
                weight = weight * tl.load(far_weights + e, mask=here, other=0.0)
            total -= tl.where(here, weight * slope, 0.0)
        tl.store(slopes + p, total.to(tl.float32), mask=real)


def laplacian_product(Y, comparisons, by_second, weights):
    """``deg/2 * Y - B @ Y`` with ``B[i, j]`` the weight of the pair (i, j), ``deg`` its degrees."""
    return _launch_laplacian(Y, comparisons, by_second, weights, _PARTNERS, both=False)


def laplacian_times(Y, comparisons, by_second, weights):
    """``sum_p weights[p] (e_i - e_j)(e_i - e_j)^T Y``: pairs count for both of their samples."""
    # As many entries at a time as of wide rows, so that short ones are on their way in numbers.
    partners = _PARTNERS * (_MAX_COLUMNS // _columns(Y))
    return _launch_laplacian(Y, comparisons, by_second, weights, partners, both=True)


def _launch_laplacian(Y, comparisons, by_second, weights, partners, *, both):
    Y = Y.contiguous()
    out, columns = torch.empty_like(Y), _columns(Y)
    second_starts, by_row = by_second
    grid = (len(Y), triton.cdiv(Y.shape[1], columns))
    _laplacian[grid](
        Y,
        comparisons.pairs,
        comparisons.groups,
        second_starts,
        by_row,
        weights.contiguous(),
        out,
        Y.shape[1],
        BOTH=both,
        PARTNERS=partners,
        SECOND_ROLES=_SECOND_ROLES,
        COLUMNS=columns,
        num_warps=_WARPS,
    )
    return out


@triton.jit
def _laplacian(
    Y,
    pairs,
    starts,
    second_starts,
    by_row,
    weights,
    out,
    d,
    BOTH: tl.constexpr,
    PARTNERS: tl.constexpr,
    SECOND_ROLES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One sample, some columns: the weighted rows of its partners, summed in registers."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = c < d
    pulls = tl.zeros([PARTNERS, COLUMNS], dtype=tl.float32)
    degrees = tl.zeros([PARTNERS], dtype=tl.float64)
    first = tl.load(starts + i).to(tl.int64)
    last = tl.load(starts + i + 1).to(tl.int64)
    for begin in range(first, last, PARTNERS):
        p = begin + tl.arange(0, PARTNERS)
        here = p < last
        j = tl.load(pairs + 2 * p + 1, mask=here, other=0).to(tl.int64)
        weight = tl.load(weights + p, mask=here, other=0.0)
        both = here[:, None] & inside[None, :]
        rows = tl.load(Y + j[:, None] * d + c[None, :], mask=both, other=0.0)
        pulls += weight[:, None] * rows
        degrees += weight.to(tl.float64)
    degree = tl.sum(degrees, axis=0)
    first = tl.load(second_starts + i).to(tl.int64)
    last = tl.load(second_starts + i + 1).to(tl.int64)
    if BOTH:
        degrees = tl.zeros([PARTNERS], dtype=tl.float64)
        for begin in range(first, last, PARTNERS):
            e = begin + tl.arange(0, PARTNERS)
            here = e < last
            p = tl.load(by_row + e, mask=here, other=0).to(tl.int64)
            j = tl.load(pairs + 2 * p, mask=here, other=0).to(tl.int64)
            weight = tl.load(weights + p, mask=here, other=0.0)
            both = here[:, None] & inside[None, :]
            rows = tl.load(Y + j[:, None] * d + c[None, :], mask=both, other=0.0)
            pulls += weight[:, None] * rows
            degrees += weight.to(tl.float64)
        degree += tl.sum(degrees, axis=0)
    else:  # where the sample comes second in a pair only its degree is concerned
        second_degrees = tl.zeros([SECOND_ROLES], dtype=tl.float64)
        for begin in range(first, last, SECOND_ROLES):
            e = begin + tl.arange(0, SECOND_ROLES)
            here = e < last
            p = tl.load(by_row + e, mask=here, other=0).to(tl.int64)
            second_degrees += tl.load(weights + p, mask=here, other=0.0).to(tl.float64)
        degree = 0.5 * (degree + tl.sum(second_degrees, axis=0))
    own = tl.load(Y + i * d + c, mask=inside, other=0.0)
    tl.store(out + i * d + c, degree.to(tl.float32) * own - tl.sum(pulls, axis=0), mask=inside)

"""The loops over pairs of samples: distances, Laplacian products, products of weights.

Each public function shares its work among threads. All sums over pairs are taken first row by first
row in a fixed order, in double precision, so no result depends on the number of threads. The pairs
``groups[g]:groups[g + 1]`` share their first row, which no other group has, so groups go to threads
without locks or atomic additions.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import fast_loop, inner_loop, ordered_loop, suited_to
from mdaml.kernels.prefetch import pairs_ahead, prefetch
from mdaml.kernels.products import blocks, rows_per_block, weighted_gram
from mdaml.kernels.threads import share

# Groups of pairs are dealt to at most so many parts, of about as many pairs each, whatever the
# number of threads: so the order of summation, and every bit of a sum, does not depend on it.
_MAX_PARTS = 16


@fast_loop
def smooth_hinge(x):
    """Loss of a margin, and minus its slope.

    Eq. (8): 0 above 1, ``1/2 - x`` below 0, ``(1 - x)**2 / 2`` between. With ``u = max(1 - x, 0)``
    and ``m = min(u, 1)`` all three are ``m (u - m/2)``, and the slope is ``-m``: no branches.
    """
    short = max(1.0 - x, 0.0)
    slope = min(short, 1.0)
    return slope * (short - 0.5 * slope), slope


def pair_products(
    E: FloatArray, pairs: IntArray, starts: IntArray, dtype: npt.DTypeLike = np.float64
) -> FloatArray:
    """Inner product of the two rows of E that a near pair names; zero for all other pairs.

    A pair p is a near pair if ``starts[p] < starts[p + 1]``.
    """
    out = np.zeros(len(pairs), dtype)
    args = (E, pairs_ahead(E, 2**23), pairs, starts, out)  # half of the hints are not used
    share(_pair_products, len(out), len(out) * E.shape[1], *args)
    return out


@fast_loop
def _pair_products(begin, end, E, ahead, pairs, starts, out):
    for p in range(begin, end):
        if ahead > 0 and p + ahead < len(pairs):
            prefetch(E, pairs[p + ahead, 1])
        if starts[p] < starts[p + 1]:
            i, j, total = pairs[p, 0], pairs[p, 1], 0.0
            for k in range(E.shape[1]):
                total += np.float64(E[i, k]) * E[j, k]
            out[p] = total


def pair_sq_dists(
    Y: FloatArray,
    pairs: IntArray,
    scales: FloatArray | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> FloatArray:
    """Squared distance of the two rows of Y that each pair names, columns scaled or not."""
    pairs = np.ascontiguousarray(pairs, np.int32)  # as in Comparisons: compiled once
    out = np.empty(len(pairs), dtype)
    scales = np.ones(Y.shape[1], Y.dtype) if scales is None else scales
    args, loop = (Y, pairs_ahead(Y), scales, pairs), suited_to(pair_sq_dists_loop, out.size)

    def measure(begin, end):  # fours, so that the same pairs always go together
        loop(4 * begin, min(4 * end, len(pairs)), *args, out[4 * begin :])

    share(measure, -(-len(pairs) // 4), len(pairs) * Y.shape[1])
    return out


@fast_loop
def pair_sq_dists_loop(begin, end, Y, ahead, scales, pairs, out):
    """``sum_c scales[c] (y_ic - y_jc)**2`` for the pairs begin to end, in Y's precision.

    Four pairs at a time, so that their rows come from memory side by side; those of a reference are
    neighbours here, so that its row is read from the first cache.
    """
    for n in range(0, end - begin - 3, 4):
        p = begin + n
        if ahead > 0 and p + ahead + 4 <= len(pairs):
            for q in range(p + ahead, p + ahead + 4):
                prefetch(Y, pairs[q, 1])
        i0, i1, i2, i3 = pairs[p, 0], pairs[p + 1, 0], pairs[p + 2, 0], pairs[p + 3, 0]
        j0, j1, j2, j3 = pairs[p, 1], pairs[p + 1, 1], pairs[p + 2, 1], pairs[p + 3, 1]
        s0 = s1 = s2 = s3 = Y.dtype.type(0)  # four named sums, so that this loop vectorises
        for c in range(Y.shape[1]):
            scale = scales[c]
            d0, d1 = Y[i0, c] - Y[j0, c], Y[i1, c] - Y[j1, c]
            d2, d3 = Y[i2, c] - Y[j2, c], Y[i3, c] - Y[j3, c]
            s0 += scale * d0 * d0
            s1 += scale * d1 * d1
            s2 += scale * d2 * d2
            s3 += scale * d3 * d3
        out[n], out[n + 1], out[n + 2], out[n + 3] = s0, s1, s2, s3
    for p in range(begin + (end - begin) // 4 * 4, end):
        total = Y.dtype.type(0)
        for c in range(Y.shape[1]):
            diff = Y[pairs[p, 0], c] - Y[pairs[p, 1], c]
            total += scales[c] * diff * diff
        out[p - begin] = total


@inner_loop
def four_sq_dists_loop(begin, end, Y, ahead, scales, pairs, out):
    """Squared distances of the pairs begin to end for each of four scalings, (n, 4)."""
    for p in range(begin, end):
        if ahead > 0 and p + ahead < len(pairs):
            prefetch(Y, pairs[p + ahead, 1])
        i, j, n = pairs[p, 0], pairs[p, 1], p - begin
        s0 = s1 = s2 = s3 = Y.dtype.type(0)  # four named sums, so that this loop vectorises
        for c in range(Y.shape[1]):
            diff = Y[i, c] - Y[j, c]
            square = diff * diff
            s0 += square * scales[0, c]
            s1 += square * scales[1, c]
            s2 += square * scales[2, c]
            s3 += square * scales[3, c]
        out[n, 0], out[n, 1], out[n, 2], out[n, 3] = s0, s1, s2, s3


def laplacian_product(
    Y: FloatArray, pairs: IntArray, groups: IntArray, weights: FloatArray
) -> FloatArray:
    """``deg/2 * Y - B @ Y`` with ``B[i, j]`` the weight of the pair (i, j), ``deg`` its degrees.

    Degrees are row sums and column sums of B together. ``Y.T @ result`` plus its transpose is
    ``sum_p weights[p] (y_i - y_j)(y_i - y_j)^T``: the scatter of pairs for the price of products
    with Y. Pairs ``groups[g]:groups[g + 1]`` share their first row, which no other group has.
    """
    product, degree = np.zeros_like(Y), np.zeros(len(Y))
    args = (Y, pairs_ahead(Y), pairs, groups, weights, degree, product, -1)
    share(laplacian_product_loop, len(groups) - 1, len(pairs) * Y.shape[1], *args)
    return with_degrees(Y, pairs, weights, degree, product)


@fast_loop
def laplacian_product_loop(begin, end, Y, ahead, pairs, groups, weights, degree, product, shift):
    """Make the product of :func:`laplacian_product` without its diagonal; ``shift`` as above."""
    for g in range(begin, end):
        row = pairs[groups[g], 0] if shift < 0 else g - shift
        subtract_rows(groups[g], groups[g + 1], Y, ahead, pairs, weights, degree, product, row)


@ordered_loop
def subtract_rows(begin, end, Y, ahead, pairs, weights, degree, product, row):
    """Subtract from a row of ``product`` the weighted rows of the partners of a reference."""
    real, p = Y.dtype.type, begin
    while p < end:
        if ahead > 0 and p + ahead + 4 <= len(pairs):
            for q in range(p + ahead, p + ahead + 4):
                prefetch(Y, pairs[q, 1])
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


def with_degrees(
    Y: FloatArray, pairs: IntArray, weights: FloatArray, degree: FloatArray, product: FloatArray
) -> FloatArray:
    """Add the diagonal of the Laplacian to the product, half of it."""
    add_columns(pairs, weights, degree)
    share(_add_scaled_rows, len(Y), Y.size, Y, degree, product)
    return product


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


def laplacian_half_scatter(
    Y: FloatArray, pairs: IntArray, groups: IntArray, weights: FloatArray
) -> FloatArray:
    """Y transposed times what :func:`laplacian_product` returns, made in blocks.

    The rows of the product for a block of first rows are made and multiplied while they are in the
    cache. The diagonal of the Laplacian is known only at the end and takes a second product with Y:
    that is the price of making nothing as large as Y.
    """
    degree, ahead = np.zeros(len(Y)), pairs_ahead(Y)

    def make_rows(begin, end, rows):
        laplacian_product_loop(begin, end, Y, ahead, pairs, groups, weights, degree, rows, begin)

    half = sum_by_references(make_rows, Y, pairs, groups, len(pairs) * Y.shape[1])
    half += diagonal_part(Y, pairs, weights, degree)
    return half


def sum_by_references(
    make_rows: Callable[[int, int, FloatArray], None],
    Y: FloatArray,
    pairs: IntArray,
    groups: IntArray,
    cost: int,
) -> FloatArray:
    """Sum ``Y[references].T @ rows`` over blocks of groups, in double precision."""
    n_rows = rows_per_block(Y.shape[1], Y.dtype.itemsize)
    n_parts = min(_MAX_PARTS, len(groups) - 1)
    cuts = np.searchsorted(groups, np.linspace(0, len(pairs), n_parts + 1)).tolist()
    partial = np.zeros((n_parts, Y.shape[1], Y.shape[1]))

    def add_parts(first_part, last_part):
        memory = np.empty((n_rows, Y.shape[1]), Y.dtype)
        for part in range(first_part, last_part):
            for begin, end in blocks(cuts[part], cuts[part + 1], n_rows):
                rows = memory[: end - begin]
                rows[:] = 0.0
                make_rows(begin, end, rows)
                references = pairs[groups[begin:end], 0]
                partial[part] += Y[references].T @ rows

    share(add_parts, n_parts, cost)
    return partial.sum(axis=0)


def diagonal_part(
    Y: FloatArray, pairs: IntArray, weights: FloatArray, degree: FloatArray
) -> FloatArray:
    """Y transposed times half the diagonal of the Laplacian times Y; overwrites ``degree``."""
    add_columns(pairs, weights, degree)
    degree *= 0.5
    return weighted_gram(Y, degree)

"""Gradients of large problems, in blocks: nothing as large as the samples is made.

``Y.T @ product`` is what a gradient needs of the product of a Laplacian with the samples Y. Its
rows for a block of anchors are made and multiplied while they are in the cache. The diagonal of the
Laplacian is known only at the end and takes a second product with Y: that is the price.
"""

import numpy as np

from mdaml.kernels._memory import blocks, rows_per_block
from mdaml.kernels._prefetch import pairs_ahead
from mdaml.kernels._threads import share
from mdaml.kernels.comparisons import comparison_slopes
from mdaml.kernels.cpu import add_columns, laplacian_product_loop, triplet_slopes_loop
from mdaml.kernels.products import weighted_gram

# Groups of pairs are dealt to at most so many parts, of about as many pairs each, whatever the
# number of threads: so the order of summation, and every bit of a sum, does not depend on it.
_MAX_PARTS = 16


def triplet_half_scatter(Y, scales, triplets, pair_weights):
    """Weighted loss, and Y transposed times what :func:`triplet_gradient` returns."""
    degree, slopes = np.zeros(len(Y)), np.empty(len(triplets.pairs), Y.dtype)
    losses = np.zeros(len(triplets.groups) - 1)
    args = (Y, pairs_ahead(Y), scales, triplets.arrays, pair_weights, 1.0, slopes, losses, degree)

    def make_rows(begin, end, rows):
        triplet_slopes_loop(begin, end, *args, rows, begin)

    cost = 2 * slopes.size * Y.shape[1] + 3 * triplets.n_triplets
    half = _by_anchors(make_rows, Y, triplets.pairs, triplets.groups, cost)
    half += _diagonal_part(Y, triplets.pairs, slopes, degree)
    return float(losses.sum()), half


def comparison_half_scatter(Y, scales, comparisons, pair_weights):
    """Weighted loss, and Y transposed times what :func:`comparison_gradient` returns."""
    loss, slopes = comparison_slopes(Y, scales, comparisons, pair_weights)
    return loss, laplacian_half_scatter(Y, comparisons.pairs, comparisons.groups, slopes)


def laplacian_half_scatter(Y, pairs, groups, weights):
    """Y transposed times what :func:`laplacian_product` returns."""
    degree, ahead = np.zeros(len(Y)), pairs_ahead(Y)

    def make_rows(begin, end, rows):
        laplacian_product_loop(begin, end, Y, ahead, pairs, groups, weights, degree, rows, begin)

    half = _by_anchors(make_rows, Y, pairs, groups, len(pairs) * Y.shape[1])
    half += _diagonal_part(Y, pairs, weights, degree)
    return half


def _by_anchors(make_rows, Y, pairs, groups, cost):
    """Sum ``Y[anchors].T @ rows`` over blocks of groups, in double precision."""
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
                anchors = pairs[groups[begin:end], 0]
                partial[part] += Y[anchors].T @ rows

    share(add_parts, n_parts, cost)
    return partial.sum(axis=0)


def _diagonal_part(Y, pairs, weights, degree):
    add_columns(pairs, weights, degree)
    return weighted_gram(Y, 0.5 * degree)

"""Sums over all pairs of a class, each weighted by its affinity, in tiles of the affinities.

Samples are sorted by class, so a class is a range of places. An affinity is the exponential of an
inner product of suitable rows (BLAS), so a tile costs two products and one pass of ``exp``; it is
symmetric, so only tiles on and above the diagonal are made. Memory is that of a few copies of the
samples and one tile per thread.
"""

from itertools import pairwise
from typing import TypeAlias

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.threads import share

_ROWS, _COLUMNS = 128, 512  # about: a tile of half a megabyte stays in the cache
# Neighbouring classes of at most so many members together share a tile, for which affinities across
# classes are made and struck out: cheaper than a handful of calls for each of thousands of classes.
_SHARED = 64  # not above _ROWS
# Degrees are summed in at most so many parts, whatever the number of threads, so that no result
# depends on it.
_PARTS = 16

# Rows begin:end, whose tiles are the square begin:end and what is right of it up to stop.
Block: TypeAlias = tuple[int, int, int]


def affinity_laplacian_product(X: FloatArray, first: IntArray, scales: FloatArray) -> FloatArray:
    """``deg/2 * X - B @ X`` with B the affinities above the diagonal, half of those on it.

    ``a_ij = exp(-|x_i - x_j|^2 / (scales_i scales_j))`` inside classes, ``deg`` its row sums. Class
    c begins at place ``first[c]``; no scale is zero. ``X.T @ result`` plus its transpose, over the
    places of one class, is ``sum_{i<j} a_ij (x_i - x_j)(x_i - x_j)^T``.
    """
    n, d = X.shape
    bounds = np.append(first, n)
    class_of = np.repeat(np.arange(len(first)), np.diff(bounds))
    # The exponent is 2 x_i.x_j / (s_i s_j) - |x_i|^2 / s_i * 1 / s_j - 1 / s_i * |x_j|^2 / s_j.
    left = np.empty((n, d + 2))
    np.multiply(X, np.sqrt(2.0) / scales[:, None], out=left[:, :d])
    left[:, d] = np.einsum("ij,ij->i", X, X) / scales
    left[:, d + 1] = 1.0 / scales
    right = left.copy()
    right[:, d:] = -left[:, : d - 1 : -1]
    parts = _parts(_row_blocks(bounds.tolist()))
    product, degrees = np.zeros((n, d)), np.zeros((len(parts), n))

    def add_tiles(begin: int, end: int) -> None:
        memory, sums = np.empty(2 * _ROWS * _COLUMNS), np.empty((2 * _ROWS, d))
        for part in range(begin, end):
            for r0, r1, stop in parts[part]:
                for c0 in (r0, *range(r1, stop, _COLUMNS)):
                    c1 = r1 if c0 == r0 else min(c0 + _COLUMNS, stop)
                    tile = memory[: (r1 - r0) * (c1 - c0)].reshape(r1 - r0, c1 - c0)
                    np.matmul(left[r0:r1], right[c0:c1].T, out=tile)
                    np.minimum(tile, 0.0, out=tile)  # rounding
                    np.exp(tile, out=tile)
                    if c0 == r0:
                        tile *= 0.5  # the other half is below the diagonal
                        if class_of[r0] != class_of[r1 - 1]:
                            tile *= class_of[r0:r1, None] == class_of[c0:c1]
                    product[r0:r1] -= np.matmul(tile, X[c0:c1], out=sums[: r1 - r0])
                    degrees[part, r0:r1] += tile.sum(axis=1)
                    degrees[part, c0:c1] += tile.sum(axis=0)

    n_pairs = sum(_n_pairs(block) for part in parts for block in part)
    share(add_tiles, len(parts), n_pairs * (d // 4 + 2))
    product += 0.5 * degrees.sum(axis=0)[:, None] * X
    return product


def _row_blocks(bounds: list[int]) -> list[Block]:
    """Cut classes into blocks of about equal height, and put small ones together."""
    blocks: list[Block] = []
    for begin, end in pairwise(bounds):
        if blocks and end - blocks[-1][0] <= _SHARED:
            blocks[-1] = (blocks[-1][0], end, end)
        else:
            n_blocks = max(1, round((end - begin) / _ROWS))
            cuts = [begin + (end - begin) * block // n_blocks for block in range(n_blocks + 1)]
            blocks += [(*rows, end) for rows in pairwise(cuts)]
    return blocks


def _parts(blocks: list[Block]) -> list[list[Block]]:
    """Deal the blocks to parts that cost about the same: large ones first, then in reverse."""
    n_parts = min(_PARTS, (len(blocks) + 1) // 2)
    parts: list[list[Block]] = [[] for _ in range(n_parts)]
    for number, block in enumerate(sorted(blocks, key=_n_pairs, reverse=True)):
        turn, place = divmod(number, n_parts)
        parts[place if turn % 2 == 0 else n_parts - 1 - place].append(block)
    return parts


def _n_pairs(block: Block) -> int:
    begin, end, stop = block
    return (end - begin) * (stop - begin)

"""Coordinates in which an adapter is fitted: few, and each with a curvature of its own."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mdaml._typing import FloatArray
from mdaml.retrieval._objective import Block, Rule, contrast, score_block
from mdaml.retrieval._search import Arrays, Library, Values

# A learned map separates better than the base, so scores may differ more than fits the base best.
_SHARPER = 1.5
_LOOKED_AT = 2000  # lessons by which scale and curvature are estimated
_FINE, _COARSE = 1e-4, 1e-2  # share of the variance along axes that are left out
_CACHED = 1 << 27  # scores of the anchor that are kept, at most


class Frame(NamedTuple):
    """Axes of documents and of queries; a map is held by how it moves one to the other.

    The second derivative of the loss is about a Kronecker product: the covariance of the documents
    that compete, times that of the queries. In their axes it is diagonal, so that a step needs no
    more than a division. Axes along which hardly anything lies are left out: there, the map stays
    at the anchor.
    """

    rule: Rule
    documents: Values = None  # (d, r) axes; None: the axes of the vectors
    queries: Values = None  # (d, s) axes
    curvature: Values = None  # (r, s) of the loss

    def project(self, W: Values) -> Values:
        """Return a map in these coordinates."""
        return W if self.documents is None else self.documents.T @ W @ self.queries

    def lift(self, moved: Values) -> Values:
        """Return a difference of maps from its coordinates."""
        return moved if self.documents is None else self.documents @ moved @ self.queries.T

    def coarsen(self, arrays: Arrays) -> "Frame":
        """Return a frame of fewer axes, good enough to compare strengths."""
        if self.documents is None:
            return self
        sizes = [arrays.fetch(part) for part in (self.curvature[:, -1], self.curvature[-1])]
        i, j = (_count_small(part, _COARSE) for part in sizes)
        return Frame(self.rule, self.documents[:, i:], self.queries[:, j:], self.curvature[i:, j:])

    def view(self, blocks: Sequence[Block], anchor: Values) -> list[Block]:
        """Return blocks in these coordinates, with the scores of the anchor."""
        if self.documents is None:
            return list(blocks)
        return [
            block._replace(
                queries=block.queries @ self.queries,
                documents=_seen_from_mean(block, self.rule) @ self.documents,
                base=score_block(anchor, block, self.rule)[2],
            )
            for block in blocks
        ]


def make_frame(
    blocks: Sequence[Block], anchor: Values, rule: Rule, arrays: Arrays, is_framed: bool
) -> Frame:
    """Return the frame of lessons at the anchor, and the scale of their scores."""
    some, n = [], 0
    for block in blocks:
        some.append((block, score_block(anchor, block, rule)[2]))
        n += len(block.queries)
        if n >= _LOOKED_AT:
            break
    rule = rule._replace(scale=_fit_scale(some, arrays.xp))
    size = sum(len(block.queries) * len(block.documents) for block in blocks)
    if not is_framed or size > _CACHED:
        return Frame(rule)
    of_documents, of_queries = _find_covariances(some, rule, arrays.xp)
    sizes, documents = _find_axes(of_documents, arrays)
    others, queries = _find_axes(of_queries, arrays)
    return Frame(rule, documents, queries, sizes[:, None] * others)


def _fit_scale(some: Sequence[tuple[Block, Values]], xp: Library) -> float:
    """Return the factor of scores at which their loss is smallest, half as large again."""
    spread = float(np.mean([float(S.std()) for _, S in some])) or 1.0
    factors = (np.geomspace(0.3, 30.0, 29) / spread).tolist()
    low, high = 0, len(factors) - 1
    while low < high:  # the loss is convex in the factor: look for where its slope changes sign
        middle = (low + high) // 2
        slope = 0.0
        for block, S in some:
            R = contrast(factors[middle] * S, block, xp)[1]
            slope += float((R * S).sum())
        low, high = (low, middle) if slope > 0 else (middle + 1, high)
    return _SHARPER * factors[low]


def _seen_from_mean(block: Block, rule: Rule) -> Values:
    """Return the documents; by distance less their mean, which changes what all score alike."""
    return block.documents - block.documents.mean(0) if rule.by_distance else block.documents


def _find_covariances(
    some: Sequence[tuple[Block, Values]], rule: Rule, xp: Library
) -> tuple[Values, Values]:
    """Return that of documents under the shares in the loss, times the scale, and of queries."""
    total, parts, scale = 0.0, [0.0, 0.0], rule.scale
    for block, S in some:
        X = _seen_from_mean(block, rule)
        rows, columns = block.near
        shares = contrast(scale * S, block, xp)[1]
        shares[rows, columns] += block.weights
        weights = shares.sum(1)
        means = shares @ X
        within = (X * shares.sum(0)[:, None]).T @ X - (means / weights[:, None]).T @ means
        parts = [
            parts[0] + scale**2 * within,
            parts[1] + (block.queries.T * weights) @ block.queries,
        ]
        total += float(weights.sum())
    return parts[0] / total, parts[1] / total


def _find_axes(covariance: Values, arrays: Arrays) -> tuple[Values, Values]:
    """Return the larger eigenvalues of a covariance, and their axes as columns."""
    sizes, axes = arrays.xp.linalg.eigh(covariance)
    first = _count_small(arrays.fetch(sizes), _FINE)
    return sizes[first:], axes[:, first:]


def _count_small(sizes: FloatArray, share: float) -> int:
    """Return how many of the smallest eigenvalues make up this share of all but the largest.

    The largest may be that of the mean of the vectors, which says nothing about the others.
    """
    sums = np.cumsum(np.clip(sizes, 0.0, None))
    return int(np.sum(sums <= share * sums[-2])) if len(sums) > 1 else 0

"""What an adapter minimises, and how; in one text for NumPy and torch."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mdaml._progress import report
from mdaml.retrieval._search import Library, Values

_MEMORY = 8  # steps that the solver remembers
_SUFFICIENT = 1e-4  # of the decrease that the slope promises
_EMPTY = 1e-30  # stands for the sum over no document


class Block(NamedTuple):
    """Queries that compete for one list of documents, in arrays of one library."""

    queries: Values  # (n, d)
    documents: Values  # (P, d)
    near: tuple[Values, Values]  # rows and columns of relevant pairs
    weights: Values  # of the relevant pairs; those of all blocks sum to one
    banned: tuple[
        Values, Values
    ]  # rows and columns that take no part: duplicates, a document itself
    base: Values = None  # (n, P) scores of the anchor, if queries and documents are in a frame


class Rule(NamedTuple):
    """How a map scores a document for a query."""

    scale: float  # s
    symmetric: bool = False  # documents are mapped too
    by_distance: bool = False  # less half of the squared length of the stored vector


def contrast(S: Values, block: Block, xp: Library) -> tuple[float, Values]:
    """Return the loss of scores and its derivative in them, which replaces them.

    ``sum_p weight_p log(1 + sum_z exp(S[q, z] - S[q, x]))`` over relevant pairs p = (q, x), with z
    over the documents that are not relevant for q. It is convex in the scores: relevant documents
    do not compete with each other.
    """
    rows, columns = block.near
    near = S[rows, columns]
    S[rows, columns] = -xp.inf
    S[block.banned] = -xp.inf
    highest = xp.nan_to_num(xp.amax(S, 1), neginf=0.0)
    S -= highest[:, None]
    xp.exp(S, out=S)
    total = xp.clip(S.sum(1), _EMPTY, None)
    gaps = (highest + xp.log(total))[rows] - near  # (n_pairs,)
    zero = xp.zeros_like(gaps)
    loss = float((xp.logaddexp(gaps, zero) * block.weights).sum())
    slopes = block.weights * xp.exp(-xp.logaddexp(-gaps, zero))
    by_query = xp.bincount(rows, slopes, len(S))  # torch and NumPy add in double precision
    S *= (by_query / total)[:, None]
    S[rows, columns] = -slopes
    return loss, S


def score_block(W: Values, block: Block, rule: Rule) -> tuple[Values, Values, Values]:
    """Return mapped queries, documents as they are ranked, and scores without their scale.

    Scores by distance are minus half its square, up to a constant of the query, and both sides are
    then seen from the mean of the documents.
    """
    queries = block.queries @ W.T
    stored = block.documents @ W.T if rule.symmetric else block.documents
    is_distance = rule.by_distance and block.base is None  # the base has the lengths already
    if is_distance:  # a shift of both changes no distance, and rounds less off
        center = stored.mean(0)
        queries, stored = queries - center, stored - center
    S = queries @ stored.T
    if is_distance:
        S -= 0.5 * (stored * stored).sum(1)
    if block.base is not None:
        S += block.base
    return queries, stored, S


def value_and_gradient(
    W: Values, blocks: Sequence[Block], rule: Rule, xp: Library
) -> tuple[float, Values]:
    """Return the mean loss under a map, and its gradient of the shape of the map."""
    value, gradient = 0.0, xp.zeros_like(W)
    for block in blocks:
        queries, stored, S = score_block(W, block, rule)
        S *= rule.scale
        loss, R = contrast(S, block, xp)
        value += loss
        gradient += (R @ stored).T @ block.queries
        if rule.symmetric:
            by_stored = R.T @ queries
            if rule.by_distance:
                by_stored -= R.sum(0)[:, None] * stored
            gradient += by_stored.T @ block.documents
    return value, rule.scale * gradient


class Anchored(NamedTuple):
    """The loss and the anchor: ``loss(W) + strength / 2 |W - anchor|^2``.

    A point is the map itself, or with a rank r factors ``[U; V]`` of shape (2 d, r) of the map
    ``I + U V^T``.
    """

    blocks: Sequence[Block]
    rule: Rule
    strength: float
    anchor: Values  # (d, d)
    identity: Values  # None at full rank
    xp: Library

    def map_of(self, point: Values) -> Values:
        """Return the map of a point."""
        if self.identity is None:
            return point
        d = len(self.anchor)
        return self.identity + point[:d] @ point[d:].T

    def evaluate(self, point: Values) -> tuple[float, Values]:
        """Return value and gradient at a point."""
        W = self.map_of(point)
        value, gradient = value_and_gradient(W, self.blocks, self.rule, self.xp)
        moved = W - self.anchor
        value += 0.5 * self.strength * float((moved * moved).sum())
        gradient = gradient + self.strength * moved
        if self.identity is None:
            return value, gradient
        d = len(self.anchor)
        return value, self.xp.concatenate([gradient @ point[d:], gradient.T @ point[:d]])


def minimise(
    function: Callable[[Values], tuple[float, Values]],
    point: Values,
    *,
    max_iter: int,
    tol: float,
    curvature: Values = None,
) -> tuple[Values, list[float]]:
    """Return a lower point and the values on the way, which never rise.

    Limited-memory BFGS; a step is taken only if it lowers the value enough. Ends when one lowers it
    by less than ``tol`` times the first value. A ``curvature`` of each coordinate, roughly right,
    saves many steps.
    """
    value, gradient = function(point)
    history = [value]
    steps: list[tuple[Values, Values, float]] = []
    for _ in range(max_iter):
        direction = _descend(gradient, steps, curvature)
        slope = _inner(gradient, direction)
        if slope >= 0:
            break
        length = 1.0
        while True:
            lower, new_gradient = function(point + length * direction)
            if lower <= value + _SUFFICIENT * length * slope:
                break
            length *= 0.3
            if length < 1e-6:
                return point, history
        step, change = length * direction, new_gradient - gradient
        bend = _inner(step, change)
        if bend > 0:
            steps = [*steps[1 - _MEMORY :], (step, change, bend)]
        point, gradient = point + step, new_gradient
        decrease, value = value - lower, lower
        history.append(value)
        report("rounds", len(history) - 1, max_iter)
        if decrease <= tol * abs(history[0]):
            break
    return point, history


def _descend(
    gradient: Values, steps: Sequence[tuple[Values, Values, float]], curvature: Values
) -> Values:
    """Return the direction of limited-memory BFGS; the first step is short or of Newton's kind."""
    if not steps and curvature is None:
        norm = _inner(gradient, gradient) ** 0.5
        return gradient * (-0.5 / max(norm, 0.5))
    direction = -gradient
    amounts = []
    for step, change, slope in reversed(steps):
        amounts.append(_inner(step, direction) / slope)
        direction = direction - amounts[-1] * change
    if curvature is not None:
        direction = direction / curvature
    if steps:
        _, change, slope = steps[-1]
        bent = change if curvature is None else change / curvature
        direction = direction * (slope / _inner(change, bent))
    for (step, change, slope), amount in zip(steps, reversed(amounts), strict=True):
        direction = direction + (amount - _inner(change, direction) / slope) * step
    return direction


def _inner(a: Values, b: Values) -> float:
    return float((a * b).sum())

"""Which rows are one unit: a repeated row must not be learned from while its copy is held out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.products import blocks, rows_per_block

# Tolerance within which rows are one: other programs, files and single precision round.
COPY = 1e-7
# Each round sorts by other random directions. Two copies are missed only if they lie on two sides
# of a border in every round, or if another row comes between them in every order.
_ROUNDS = 4
_DIRECTIONS = 4  # by which rows are put into cells; one more orders the rows of a cell
_CELL = 100.0  # width of a cell, in tolerances
_NUMBERS = 8  # bytes, of one entry


def same_rows(X: FloatArray, tolerance: float, *more: FloatArray) -> IntArray:
    """Return for each row the first row that is the same up to a tolerance.

    Two rows are the same if in every column they differ by at most ``tolerance`` times the standard
    deviation of the column, or by the rounding of its largest number. So are two rows that a third
    joins. A tolerance of 0 leaves rounding alone. Takes O(N d + N log N) for N rows of d numbers.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Finite numbers.
    tolerance : float
        Share of the standard deviation of a column.
    *more : array of shape (any, n_features)
        Further rows, counted on after those of X, without a copy that joins them.

    Returns
    -------
    codes : array of shape (n_rows,)
        Equal for rows that are the same; rows that occur once have their own number.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.holdout.units import same_rows
    >>> same_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0 + 1e-9]]), 1e-6)
    array([0, 1, 0])
    """
    parts = (X, *more)
    n, d = sum(len(part) for part in parts), X.shape[1]
    center, widths = _measure(parts, tolerance)
    rng = np.random.default_rng(0)
    # In units of the tolerances: copies differ by about one, or less, along each direction.
    directions = rng.normal(size=(d, _ROUNDS * (_DIRECTIONS + 1))) / widths[:, None] / d**0.5
    projected = np.concatenate([_project(part, center, directions) for part in parts])
    edges = []
    for Z in np.split(projected, _ROUNDS, axis=1):
        cells = np.floor(Z[:, :-1] / _CELL + rng.uniform(size=_DIRECTIONS)).astype(np.int64)
        # Sums that wrap around make one number of a cell; two cells may share it, which is checked.
        keys = cells @ rng.integers(1 << 62, size=_DIRECTIONS)
        order = np.lexsort([Z[:, -1], keys])
        is_near = (np.diff(keys[order]) == 0) & (np.diff(Z[order, -1]) <= _CELL)
        one, other = order[:-1][is_near], order[1:][is_near]
        equal = _are_same(parts, one, other, widths)
        edges.append((one[equal], other[equal]))
    one, other = (np.concatenate(ends) for ends in zip(*edges, strict=True))
    graph = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(n, n))
    _, first, group = np.unique(
        connected_components(graph, directed=False)[1], return_index=True, return_inverse=True
    )
    return first[group]


def _measure(parts: Sequence[FloatArray], tolerance: float) -> tuple[FloatArray, FloatArray]:
    """Return the mean of each column, and by how much entries of equal rows differ at most."""
    n = sum(len(part) for part in parts)
    center: FloatArray = sum(part.sum(axis=0, dtype=np.float64) for part in parts) / max(1, n)
    squares, largest = np.zeros(len(center)), np.zeros(len(center))
    for part in parts:
        for begin, end in blocks(0, len(part), rows_per_block(len(center), _NUMBERS)):
            squares += ((part[begin:end] - center) ** 2).sum(axis=0)
            largest = np.maximum(largest, np.abs(part[begin:end]).max(axis=0, initial=0.0))
    rounding = 4 * max(_resolution(part.dtype) for part in parts) * largest
    widths = tolerance * np.sqrt(squares / max(1, n)) + rounding
    return center, np.where(widths > 0, widths, 1.0)  # a column of zeros tells nothing


def _resolution(dtype: npt.DTypeLike) -> float:
    kind = np.dtype(dtype)
    return float(np.finfo(kind).eps) if kind.kind == "f" else 0.0


def _project(X: FloatArray, center: FloatArray, directions: FloatArray) -> FloatArray:
    """Return ``(X - center) @ directions`` in double precision, block by block."""
    out = np.empty((len(X), directions.shape[1]))
    for begin, end in blocks(0, len(X), rows_per_block(X.shape[1], _NUMBERS)):
        out[begin:end] = (X[begin:end] - center) @ directions
    return out


def _are_same(
    parts: Sequence[FloatArray], one: IntArray, other: IntArray, widths: FloatArray
) -> npt.NDArray[np.bool_]:
    """Return which pairs of rows differ by no more than the widths."""
    out = np.empty(len(one), bool)
    for begin, end in blocks(0, len(one), rows_per_block(len(widths), _NUMBERS)):
        gaps = np.abs(_gather(parts, one[begin:end]) - _gather(parts, other[begin:end]))
        out[begin:end] = np.all(gaps <= widths, axis=1)
    return out


def _gather(parts: Sequence[FloatArray], rows: IntArray) -> FloatArray:
    """Return rows of several arrays that are counted on, without joining these."""
    if len(parts) == 1:
        return parts[0][rows]
    gathered: Any = np.empty((len(rows), parts[0].shape[1]), np.result_type(*parts))
    begin = 0
    for part in parts:
        places = np.flatnonzero((rows >= begin) & (rows < begin + len(part)))
        gathered[places] = part[rows[places] - begin]
        begin += len(part)
    return gathered

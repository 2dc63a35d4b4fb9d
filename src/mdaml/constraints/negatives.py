"""Negatives for pairs that are known to belong together: random ones, and near ones."""

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.kernels.neighbors import nearest_rows

_TRIES = 20  # random draws before the few points that are left are listed
_MOST_NEAREST = 256


def draw_negatives(
    pairs: IntArray,
    n_points: int,
    n_negatives: int,
    Z: FloatArray | None,
    n_hard: int,
    rng: np.random.Generator,
) -> IntArray:
    """Return for each pair (a, b) points that are in no pair with a, (n, n_negatives).

    The first `n_hard` are those nearest to a in Z, if there is one, the others random. No point is
    there twice; -1 where there are no more.
    """
    if Z is not None and len(Z) != n_points:
        raise ValueError(f"X must have one row for each of the {n_points} points, got {len(Z)}.")
    known = np.sort(np.concatenate([_keys(pairs, n_points), _keys(pairs[:, ::-1], n_points)]))
    known = known[np.append(True, known[1:] != known[:-1])]
    order = np.argsort(pairs[:, 0], kind="stable")  # look-ups one beside the other are faster
    negatives = np.empty((len(pairs), n_negatives), np.int64)
    negatives[order] = _draw_sorted(pairs[order], n_points, n_negatives, known, Z, n_hard, rng)
    return negatives


def _draw_sorted(
    pairs: IntArray,
    n_points: int,
    n_negatives: int,
    known: IntArray,
    Z: FloatArray | None,
    n_hard: int,
    rng: np.random.Generator,
) -> IntArray:
    negatives = np.full((len(pairs), n_negatives), -1)
    if Z is not None and n_hard:
        references, which = np.unique(pairs[:, 0], return_inverse=True)
        negatives[:, :n_hard] = _nearest_unknown(Z, references, known, n_hard)[which]
    reference = pairs[:, 0]
    for _ in range(_TRIES):
        row, place = np.nonzero(negatives < 0)
        if len(row) == 0:
            return negatives
        negatives[row, place] = rng.integers(0, n_points, len(row))
        again = _are_known(reference[row], negatives[row, place], known, n_points)
        negatives[row[again], place[again]] = -1
        negatives[_repeats(negatives)] = -1
    _list_the_rest(negatives, reference, known, n_points, rng)
    return negatives


def _keys(pairs: IntArray, n_points: int) -> IntArray:
    return pairs[:, 0] * n_points + pairs[:, 1]


def _are_known(a: IntArray, b: IntArray, known: IntArray, n_points: int) -> BoolArray:
    """Say which of two points are in a pair, or are the same."""
    keys = a * n_points + b
    found = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return (known[found] == keys) | (a == b)


def _repeats(negatives: IntArray) -> BoolArray:
    """Say which negatives are in the same row before; -1 never is."""
    order = np.argsort(negatives, axis=1, kind="stable")
    ordered = np.take_along_axis(negatives, order, axis=1)
    again = np.zeros(negatives.shape, bool)
    same = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    np.put_along_axis(again, order[:, 1:], same, axis=1)
    return again


def _nearest_unknown(Z: FloatArray, references: IntArray, known: IntArray, n: int) -> IntArray:
    """Return the nearest points of each reference that are in no pair with it; -1 if too few."""
    n_known = np.bincount(
        np.searchsorted(references, known // len(Z)), minlength=len(references) + 1
    )
    wanted = n + 1 + min(int(n_known.max()), _MOST_NEAREST)
    found, _ = nearest_rows(Z[references], Z, wanted)
    first = np.repeat(references, found.shape[1])
    unknown = ~_are_known(first, found.ravel(), known, len(Z)).reshape(found.shape)
    order = np.argsort(~unknown, axis=1, kind="stable")[:, :n]  # unknown ones first, nearest first
    nearest = np.where(
        np.take_along_axis(unknown, order, axis=1), np.take_along_axis(found, order, axis=1), -1
    )
    padding = np.full((len(references), n - nearest.shape[1]), -1)
    return np.hstack([nearest, padding])


def _list_the_rest(
    negatives: IntArray,
    reference: IntArray,
    known: IntArray,
    n_points: int,
    rng: np.random.Generator,
) -> None:
    """Fill in what chance did not find, for the few rows with nearly all points known."""
    points = np.arange(n_points)
    for row in np.flatnonzero((negatives < 0).any(axis=1)):
        free = ~_are_known(np.full(n_points, reference[row]), points, known, n_points)
        free[negatives[row][negatives[row] >= 0]] = False
        empty = np.flatnonzero(negatives[row] < 0)
        left = rng.permutation(points[free])[: len(empty)]
        negatives[row, empty[: len(left)]] = left

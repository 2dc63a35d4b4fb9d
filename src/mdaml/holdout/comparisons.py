"""Comparisons that are held out, and how they fare under a metric: one home for all choices."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.constraints.matching import to_comparisons
from mdaml.holdout.split import Split
from mdaml.kernels.pairs import pair_sq_dists

# Multiples of the mean margin. The logistic loss is taken at the best of them, so that no scale of
# a metric can win. Zero is among them: there every comparison loses log 2.
_SCALES = np.concatenate([[0.0], 2.0 ** np.arange(-8.0, 8.5, 0.5)])
_USUAL = int(np.argmin(np.abs(_SCALES - 2.0)))  # where the search for the best of them begins


class Judged(NamedTuple):
    """How held-out comparisons fare under one metric, or under several, one in each row."""

    losses: FloatArray  # (n,) by which metrics are compared
    right: FloatArray  # (n,) one if it holds, one half for a tie, otherwise zero

    @classmethod
    def join(cls, parts: Iterable["Judged"]) -> "Judged":
        """Return the comparisons of all parts, one behind the other."""
        losses, right = (np.concatenate(rows, axis=-1) for rows in zip(*parts, strict=True))
        return cls(losses, right)

    @classmethod
    def stack(cls, metrics: Iterable["Judged"]) -> "Judged":
        """Return the same comparisons under several metrics, one in each row."""
        losses, right = (np.array(rows) for rows in zip(*metrics, strict=True))
        return cls(losses, right)


class HeldOutComparisons(NamedTuple):
    """Comparisons that are held out, each of two pairs of rows."""

    near: IntArray  # (n, 2)
    far: IntArray
    weights: FloatArray  # (n,)
    units: IntArray  # (n,)

    @classmethod
    def of(
        cls, split: Split, rng: np.random.RandomState, codes: IntArray | None = None
    ) -> "HeldOutComparisons":
        """Return those of a split; units are its own, or persons by their codes."""
        held_out = to_comparisons("MDaML", split.held_out, rng)
        compared = held_out.comparisons()
        units = split.units if codes is None else codes[split.is_out]
        if len(units) != len(compared):  # made of pairs: each counts for its near pair
            units = _find_units(split, compared[:, :2])
        return cls(compared[:, :2].copy(), compared[:, 2:].copy(), held_out.weights, units)

    def select(self, kept: BoolArray) -> "HeldOutComparisons":
        """Return some of them."""
        near, far, weights, units = self
        return HeldOutComparisons(near[kept], far[kept], weights[kept], units[kept])

    def margins(self, Y: FloatArray) -> FloatArray:
        """Return ``d2(far) - d2(near)`` where samples are mapped to."""
        near, far = (pair_sq_dists(Y, pairs).astype(np.float64) for pairs in (self.near, self.far))
        return far - near

    def judge(self, Y: FloatArray) -> Judged:
        """Return how they fare where samples are mapped to."""
        margins = self.margins(Y)
        return Judged(scaled_losses(margins, self.weights), are_right(margins))


def _find_units(split: Split, near: IntArray) -> IntArray:
    """Return the units of comparisons by their near pairs, each of which was held out."""
    held_out = split.held_out
    pairs = (held_out.triplets[:, :2], held_out.pairs, held_out.quadruplets[:, :2])
    known, asked = (
        np.sort(rows, axis=1) @ [held_out.n_points, 1] for rows in (np.concatenate(pairs), near)
    )
    order = np.argsort(known, kind="stable")
    units: IntArray = split.units[order[np.searchsorted(known[order], asked)]]
    return units


def join_units(parts: Sequence[HeldOutComparisons]) -> tuple[IntArray, FloatArray]:
    """Return the units, numbered over all parts, and the weights."""
    units = np.concatenate([part.units for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    return np.unique(units, return_inverse=True)[1], weights


def are_right(margins: FloatArray) -> FloatArray:
    """Return one for each margin above zero, and one half for a tie."""
    return np.where(margins == 0.0, 0.5, margins > 0.0)


def scaled_losses(
    margins: FloatArray, weights: FloatArray, codes: IntArray | None = None
) -> FloatArray:
    """Return the logistic loss of each margin, at the multiple of them that loses least.

    ``log(1 + exp(-c m_t))`` with the best c >= 0: the same for every multiple of a metric. Persons,
    by their ``codes``, have a multiple each: the metric of somebody who guesses could otherwise win
    by being small.
    """
    codes = np.zeros(len(margins), np.int64) if codes is None else codes
    masses, sizes = np.bincount(codes, weights), np.bincount(codes, weights * np.abs(margins))
    units = np.where(sizes > 0.0, sizes, 1.0) / np.where(masses > 0.0, masses, 1.0)

    def lose(places: IntArray) -> tuple[FloatArray, FloatArray]:
        losses: FloatArray = np.logaddexp(0.0, -(_SCALES[places] / units)[codes] * margins)
        return losses, np.bincount(codes, weights * losses).astype(np.float64, copy=False)

    # The sum of a person is convex in the scale: downhill from anywhere is the lowest of all.
    places = np.full(len(units), _USUAL)
    best, totals = lose(places)
    for step in (-1, 1):
        moves = np.ones(len(places), bool)
        while (moves := moves & (places + step >= 0) & (places + step < len(_SCALES))).any():
            losses, found = lose(places + step * moves)
            moves &= (found < totals) | ((found == totals) & (step < 0))  # the first of equals
            places = places + step * moves
            best, totals = np.where(moves[codes], losses, best), np.where(moves, found, totals)
    return best

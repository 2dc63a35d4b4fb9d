"""The rule for every choice: the start stays unless something else leads by more than chance.

A candidate is compared with the start on units that were held out: answers, points, samples or
queries that belong together are one unit. Under the hypothesis that a candidate is no better than
the start, the difference of a unit is as likely to be negative as positive. So the lead of the best
of several candidates is compared with the best lead that random signs of the units give: the test
knows how many candidates there are and how much alike they are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray

# How often something replaces a start that is as good. Answers may say nothing; labels hardly ever
# do, and at 0.05 a gain would be declined too often: docs/accuracy.md.
LEVEL, LEVEL_OF_LABELS = 0.05, 0.3
_LEAD = 0.5  # standard errors that it takes to replace the first of several candidates
_N_SIGNS = 2_000
_MOST_BLOCKS = 512  # units beyond so many are added up at random: the test hardly changes
_HALF_WIDTH = 1.96  # standard errors of an interval of 95 %


@dataclass(frozen=True)
class Gain:
    """What learning gained on held-out units: a score before and after, in shares of one.

    Attributes
    ----------
    score : str
        What was measured: "comparisons", the share that hold, or "3-NN", the accuracy.
    before, after : float
        The score of the start, and of what was learned.
    low, high : float
        An interval of 95 % of the difference, by units.
    n_units : int
        How many units were held out.
    is_beyond_chance : bool
        Whether the lead is more than chance gives.
    tried, scores : tuple of float
        The values that were tried, and the score of each; empty if there was nothing to choose.
    """

    score: str
    before: float
    after: float
    low: float
    high: float
    n_units: int
    is_beyond_chance: bool
    tried: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()

    def describe(self) -> str:
        """Return the gain as a sentence."""
        names = {"comparisons": "comparisons that hold", "3-NN": "accuracy of 3-NN"}
        change, low, high = (100 * x for x in (self.after - self.before, self.low, self.high))
        return (
            f"Held-out {names.get(self.score, self.score)}: {self.before:.1%} before learning, "
            f"{self.after:.1%} after it (difference {change:+.1f} points, 95 % interval {low:+.1f} "
            f"to {high:+.1f}, {self.n_units} units)."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def find_leaders(
    start: FloatArray,
    others: FloatArray,
    units: IntArray,
    weights: FloatArray | None = None,
    level: float = LEVEL,
) -> BoolArray:
    """Return which candidates lead the start by more than chance.

    Parameters
    ----------
    start : array of shape (n,)
        The score of each held-out case under the start; higher is better.
    others : array of shape (n_candidates, n)
        The scores of the same cases under each candidate.
    units : array of shape (n,)
        Which unit a case belongs to: 0, 1, ...
    weights : array of shape (n,), optional
        How much a case counts.
    level : float
        How often something that is as good as the start is taken for better.
    """
    sums = _unit_sums(others - start, units, weights)
    if sums.shape[1] > _MOST_BLOCKS:
        blocks = np.random.default_rng(0).permutation(sums.shape[1]) % _MOST_BLOCKS
        sums = _unit_sums(sums, blocks, None)
    lengths = np.sqrt(np.square(sums).sum(axis=1, keepdims=True))
    sums = np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0.0)
    signs = np.random.default_rng(0).integers(0, 2, (_N_SIGNS, sums.shape[1])) * 2.0 - 1.0
    by_chance = (signs @ sums.T).max(axis=1)  # (_N_SIGNS,)
    leads = sums.sum(axis=1)  # (n_candidates,)
    n_above = (by_chance >= leads[:, None] - 1e-12).sum(axis=1)
    p_values = (1.0 + n_above) / (1.0 + _N_SIGNS)
    leaders: BoolArray = p_values <= level
    return leaders


def prefer_first(scores: FloatArray, allowed: BoolArray | None = None) -> int:
    """Return the best candidate; the first, unless another leads it by half a standard error.

    With few cases the best score is mostly luck. ``scores`` has a row for each candidate,
    ``allowed`` says which of them may be taken.
    """
    means = scores.mean(axis=1)
    if allowed is not None:
        means = np.where(allowed, means, -np.inf)
    best = int(np.argmax(means))
    if allowed is not None and not allowed[0]:
        return best
    differences = scores[best] - scores[0]
    lead, chance = differences.sum(), np.sqrt(np.square(differences).sum())
    return best if lead > _LEAD * chance else 0


def measure_gain(
    score: str,
    before: FloatArray,
    after: FloatArray,
    units: IntArray,
    weights: FloatArray | None = None,
) -> Gain:
    """Return the gain of one candidate over the start, with an interval over the units."""
    weights = np.ones(len(before)) if weights is None else weights
    total = float(weights.sum())
    first, last = float(weights @ before) / total, float(weights @ after) / total
    sums = _unit_sums((after - before)[None], units, weights)[0]
    masses = np.bincount(units, weights)
    spread = sums - (last - first) * masses  # of a ratio of two sums
    n = len(masses)
    error = float(np.sqrt(np.square(spread).sum() * n / max(n - 1, 1))) / total
    leads = bool(find_leaders(before, after[None], units, weights)[0])
    half = _HALF_WIDTH * error
    return Gain(score, first, last, last - first - half, last - first + half, n, leads)


def _unit_sums(values: FloatArray, units: IntArray, weights: FloatArray | None) -> FloatArray:
    """Return the sum of weighted values in each unit, (n_candidates, n_units)."""
    n_units = int(units.max()) + 1
    if weights is not None:
        values = values * weights
    return np.array([np.bincount(units, row, n_units) for row in values])

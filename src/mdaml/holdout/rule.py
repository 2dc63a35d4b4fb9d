"""The rule for every choice: the start stays unless something else leads by more than chance.

A candidate is compared with the start on units that were held out: answers, points, samples or
queries that belong together are one unit. Under the hypothesis that a candidate is no better than
the start, the difference of a unit is as likely to be negative as positive. So the lead of the best
of several candidates is compared with the best lead that random signs of the units give: the test
knows how many candidates there are and how much alike they are.

The rule has two forms. :func:`find_leaders` tests all candidates at once, by :func:`find_p_values`.
:func:`walk_from_start` is for candidates in a fixed order, each farther from the start than the one
before: each is tested alone, and the first that does not lead ends the walk. Tests in a fixed order
need no correction for their number, and candidates behind the end need not be made.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml._validation import warn

# How often something replaces a start that is as good. Answers may say nothing; labels hardly ever
# do, and at 0.05 a gain would be declined too often: docs/accuracy.md.
LEVEL, LEVEL_OF_LABELS = 0.05, 0.2
# Share of comparisons that hold before learning: fewer hint at near and far swapped.
SWAPPED = 0.4
LEAD = 0.5  # standard errors that it takes to replace the first of several candidates
_FAR_BEHIND = 2.0  # standard errors after which a candidate is given up
_N_SIGNS = 2_000
_MOST_BLOCKS = 512  # units beyond so many are added up at random: the test hardly changes
_END = 0.975  # quantile at the end of an interval of 95 %


@dataclass(frozen=True)
class Gain:
    """What learning gained on held-out units: a score before and after, in shares of one.

    Attributes
    ----------
    score : str
        What was measured: "comparisons", the share that hold; "votes", the share of the three
        nearest neighbours that are of the right class; or "3-NN", the accuracy of their elections.
    before, after : float
        The score of the start, and of what was learned.
    low, high : float
        An interval of 95 % of the difference, by Student's t over the units.
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
        names = {
            "comparisons": "comparisons that hold",
            "votes": "neighbour votes that are right (of 3 for each row)",
            "3-NN": "accuracy of 3-NN",
        }
        unit = "rows" if self.score in ("votes", "3-NN") else "units"
        change, low, high = (100 * x for x in (self.after - self.before, self.low, self.high))
        return (
            f"Held-out {names.get(self.score, self.score)}: {self.before:.1%} before learning, "
            f"{self.after:.1%} after it (difference {change:+.1f} points, 95 % interval {low:+.1f} "
            f"to {high:+.1f}, {self.n_units} {unit})."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def warn_of_kept_start(gain: Gain | None) -> None:
    """Warn that a search returns the distance before learning."""
    if gain is not None and are_unexplained(gain):
        warn_of_unexplained(gain)
        return
    described = "" if gain is None else f" {gain.describe()}"
    warn(
        "Nothing was learned: no candidate led the distance before learning by more than "
        f"chance.{described} The distance before learning is returned. More comparisons or "
        "labels may help, or other features; check that they are right.",
    )


def are_unexplained(gain: Gain) -> bool:
    """Return whether so few comparisons hold before learning that near and far may be swapped.

    So too where fewer than half do, and what gained did not pass a test.
    """
    is_declined = gain.before < 0.5 and gain.low > 0.0 and not gain.is_beyond_chance
    return gain.score == "comparisons" and (gain.before < SWAPPED or is_declined)


def warn_of_unexplained(gain: Gain) -> None:
    """Warn that no metric explains comparisons of which few hold before learning."""
    warn(
        f"Nothing was learned: only {gain.before:.1%} of the held-out comparisons hold "
        "before learning, and no metric explains them. The distance before learning is "
        "returned."
    )


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
    leaders: BoolArray = find_p_values(others - start, units, weights) <= level
    return leaders


def explain_more_than_swapping(
    start: FloatArray, others: FloatArray, weights: FloatArray | None = None
) -> BoolArray:
    """Return which candidates explain more comparisons than the start does with these swapped.

    Scores are one for each comparison that holds. Where so few hold before learning that near and
    far are rather swapped, a metric that explains less than that teaches the contrary of what was
    meant, however far it leads the start.
    """
    before = float(np.average(start, weights=weights))
    if before >= SWAPPED:
        return np.ones(len(others), bool)
    shares: BoolArray = np.average(others, axis=1, weights=weights) > 1.0 - before
    return shares


@dataclass(frozen=True)
class Walk:
    """How far candidates in a fixed order led away from the start.

    Attributes
    ----------
    scores : list of arrays of shape (n,)
        Of the candidates that were tried: those that lead and, if it is not the last of all, the
        one that ended the walk.
    p_value : float
        How often chance alone leads so far: the largest value of the candidates up to the one that
        is taken; if none is, that of the first.
    taken : int or None
        The candidate to take; None is the start.
    """

    scores: list[FloatArray]
    p_value: float
    taken: int | None


def walk_from_start(
    start: FloatArray, others: Iterable[FloatArray], units: IntArray, level: float = LEVEL
) -> Walk:
    """Return how far to go from the start, of candidates in a fixed order.

    The walk ends at the first candidate that does not lead the start by more than chance, or whose
    score is more than a standard error below the highest so far. The last one before the end is
    taken. ``others`` may be a generator: what lies behind the end is not made. Otherwise as for
    :func:`find_leaders`.
    """
    scores: list[FloatArray] = []
    p_values: list[float] = []
    taken = None
    for place, score in enumerate(others):
        scores.append(score)
        p_values.append(float(find_p_values((score - start)[None], units, None)[0]))
        highest = max(scores, key=np.mean)
        if p_values[-1] > level or is_below(score, highest, units):
            break
        taken = place
    return Walk(scores, max(p_values[: (taken or 0) + 1]), taken)


def find_p_values(
    leads: FloatArray, units: IntArray, weights: FloatArray | None = None, variance: float = 1.0
) -> FloatArray:
    """Return how often the best of all candidates leads as far as each, if signs are random.

    ``variance`` is that of a sum of leads, where 1 is that of independent units. It is 2 if each
    unit is held out while the others teach the candidate, and leads are slopes: what one unit
    teaches of another is then in the leads of both.
    """
    sums = _unit_sums(leads, units, weights)
    if sums.shape[1] > _MOST_BLOCKS:
        blocks = np.random.default_rng(0).permutation(sums.shape[1]) % _MOST_BLOCKS
        sums = _unit_sums(sums, blocks, None)
    lengths = np.sqrt(variance * np.square(sums).sum(axis=1, keepdims=True))
    sums = np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0.0)
    by_chance = np.sqrt(variance) * (_random_signs(sums.shape[1]) @ sums.T).max(axis=1)
    n_above = (by_chance >= sums.sum(axis=1)[:, None] - 1e-12).sum(axis=1)
    return (1.0 + n_above) / (1.0 + _N_SIGNS)


@lru_cache(maxsize=8)
def _draw_signs(n_units: int) -> npt.NDArray[np.int8]:
    """Return random signs, always the same ones; at most one megabyte."""
    drawn = np.random.default_rng(0).integers(0, 2, (_N_SIGNS, n_units))
    return (2 * drawn - 1).astype(np.int8)


def _random_signs(n_units: int) -> FloatArray:
    return _draw_signs(n_units).astype(np.float64)


def is_below(
    scores: FloatArray, highest: FloatArray, units: IntArray, n_errors: float = 1.0
) -> bool:
    """Return whether scores are lower than others by more than this many standard errors."""
    gaps = _unit_sums((highest - scores)[None], units, None)[0]
    return bool(gaps.mean() > n_errors * gaps.std(ddof=1) / len(gaps) ** 0.5)


def find_trailing(
    scores: FloatArray, n_kept: int, units: IntArray, weights: FloatArray | None = None
) -> BoolArray:
    """Return which candidates are so far behind that more cases would hardly bring them back.

    Those are behind the ``n_kept``-th best by more than two standard errors over the units. With
    as many more cases of the same kind, one of them would pass it about once in 400 times.
    ``scores`` has a row for each candidate; otherwise as for :func:`find_leaders`.
    """
    means = np.average(scores, axis=1, weights=weights)
    last_kept = np.argsort(-means, kind="stable")[min(n_kept, len(scores)) - 1]
    gaps = _unit_sums(scores[last_kept] - scores, units, weights)
    chance = np.sqrt(np.square(gaps).sum(axis=1))
    trailing: BoolArray = gaps.sum(axis=1) > _FAR_BEHIND * chance
    return trailing


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
    return best if lead > LEAD * chance else 0


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
    half = float(stdtrit(max(n - 1, 1), _END)) * error
    return Gain(score, first, last, last - first - half, last - first + half, n, leads)


def _unit_sums(values: FloatArray, units: IntArray, weights: FloatArray | None) -> FloatArray:
    """Return the sum of weighted values in each unit, (n_candidates, n_units)."""
    n_units = int(units.max()) + 1
    if weights is not None:
        values = values * weights
    return np.array([np.bincount(units, row, n_units) for row in values])

"""How many places and maps a metric has, chosen on points or samples held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from mdaml._progress import mute
from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import to_comparisons
from mdaml.constraints.value import Constraints
from mdaml.holdout.anchor import compares, scaled_losses
from mdaml.holdout.rule import find_leaders
from mdaml.holdout.samples import deal_samples
from mdaml.holdout.split import hold_out_points
from mdaml.holdout.units import same_rows
from mdaml.kernels.neighbors import nearest_rows
from mdaml.kernels.pairs import pair_sq_dists

Size = tuple[int, int]  # numbers of places and of maps
Score = Callable[[FloatArray], "CaseScores"]  # of the columns of all rows
# Learns from what is said about the rows of columns, and returns a linear map, (r, n_columns).
Fitter = Callable[[FloatArray, Classes | Constraints], FloatArray]

_MOST_COMPARISONS, _MOST_ROWS = 20_000, 3_000  # that take part; the second with a label
_FEW_COMPARISONS = 2_000  # up to so many every point is held out once, otherwise a quarter
_POINT_PARTS, _SAMPLE_PARTS = 4, 3
_N_NEIGHBORS = 3


class CaseScores(NamedTuple):
    """How held-out cases fare: by what sizes are compared, and whether each is right."""

    good: FloatArray  # (n,) minus the loss of a comparison; or as below
    right: FloatArray  # (n,)


@dataclass(frozen=True)
class Judge:
    """Cases held out of several parts, each with the rest to learn from."""

    parts: Sequence[Score]
    units: IntArray  # (n,) of all cases: what belongs together
    weights: FloatArray  # (n,)

    def score(self, columns: FloatArray) -> CaseScores:
        """Learn from the rest of each part, and return how all cases fare."""
        found = [score(columns) for score in self.parts]
        return CaseScores(*(np.concatenate([each[k] for each in found]) for k in (0, 1)))

    def leads(self, scores: CaseScores, others: CaseScores) -> bool:
        """Return whether scores are above others by more than chance."""
        leads = find_leaders(others.good, scores.good[None], self.units, self.weights)
        return bool(leads[0])


@dataclass(frozen=True)
class SizeTrial:
    """What a number of places and maps reached on cases that were held out."""

    n_places: int
    n_maps: int
    score: float  # share of comparisons that hold, or accuracy of 3-NN
    is_chosen: bool


def choose_size(
    judge: Judge,
    columns_of: Callable[[Size], FloatArray],
    size: Size,
    ladders: Sequence[Sequence[Size]],
    is_allowed: Callable[[Size], bool] = lambda _: True,
) -> tuple[Size, list[SizeTrial]]:
    """Return numbers of places and maps, and all that was tried, ``size`` first.

    Each ladder goes on from what was chosen before: its numbers replace smaller ones, and they are
    kept if they lead what was chosen so far by more than chance. One in vain ends a ladder.
    """
    if not judge.parts or not any(ladders):
        return size, []
    with mute():
        best = judge.score(columns_of(size))
        tried = {size: best}
        for ladder in ladders:
            for n_places, n_maps in ladder:
                larger = max(size[0], n_places), max(size[1], n_maps)
                if not is_allowed(larger):
                    break
                tried[larger] = judge.score(columns_of(larger))
                if not judge.leads(tried[larger], best):
                    break
                size, best = larger, tried[larger]
    means = {at: float(np.average(s.right, weights=judge.weights)) for at, s in tried.items()}
    return size, [SizeTrial(*at, mean, at == size) for at, mean in means.items()]


def make_judge(X: FloatArray, said: Classes | Constraints, fit: Fitter) -> Judge:
    """Return held-out points with their comparisons, or of labels held-out samples.

    What is said always gives the same parts. There are none where there is too little.
    """
    rng, points = np.random.RandomState(0), same_rows(X, 0.0)
    if isinstance(said, Classes):
        parts = _sample_parts(said, points, fit, rng)
    else:
        parts = _point_parts(said, points, fit, rng)
    if not parts:
        return Judge([], np.empty(0, np.int64), np.empty(0))
    scores, units, weights = zip(*parts, strict=True)
    numbered = np.unique(np.concatenate(units), return_inverse=True)[1]
    return Judge(scores, numbered, np.concatenate(weights))


def _point_parts(
    said: Constraints, points: IntArray, fit: Fitter, rng: np.random.RandomState
) -> list[tuple[Score, IntArray, FloatArray]]:
    if said.n_constraints > _MOST_COMPARISONS:
        said = said.select(np.sort(rng.permutation(said.n_constraints)[:_MOST_COMPARISONS]))
    parts = hold_out_points(said, _POINT_PARTS, rng, points)
    parts = [part for part in parts if compares(part.learned) and compares(part.held_out)]
    made: list[tuple[Score, IntArray, FloatArray]] = []
    for part in parts if said.n_constraints <= _FEW_COMPARISONS else parts[:1]:
        held_out = to_comparisons("LocalMDaML", part.held_out, rng)
        compared = held_out.comparisons()
        # Comparisons made of pairs count for their first points.
        units = part.units if len(part.units) == len(compared) else compared[:, 0]
        score = partial(_score_comparisons, fit, part.learned, compared, held_out.weights)
        made.append((score, units, held_out.weights))
    return made


def _score_comparisons(
    fit: Fitter, learned: Constraints, compared: IntArray, weights: FloatArray, columns: FloatArray
) -> CaseScores:
    Y = columns @ fit(columns, learned).T
    near, far = (
        pair_sq_dists(Y, np.ascontiguousarray(pairs)).astype(np.float64)
        for pairs in (compared[:, :2], compared[:, 2:])
    )
    right = np.where(near == far, 0.5, near < far)
    return CaseScores(-scaled_losses(far - near, weights), right)


def _sample_parts(
    classes: Classes, points: IntArray, fit: Fitter, rng: np.random.RandomState
) -> list[tuple[Score, IntArray, FloatArray]]:
    rows, of = classes.rows, classes.of
    if len(rows) > _MOST_ROWS:
        some = rng.permutation(len(rows))[:_MOST_ROWS]
        rows, of = rows[some], of[some]
    order = np.argsort(rows)
    rows, of = rows[order], of[order]
    part_of = deal_samples(of, points[rows], _SAMPLE_PARTS, rng)
    made: list[tuple[Score, IntArray, FloatArray]] = []
    for number in range(_SAMPLE_PARTS):
        out = part_of == number
        if not out.any() or len(np.unique(of[~out])) < 2:
            continue
        score = partial(_score_votes, fit, rows, of, out)
        made.append((score, points[rows[out]], np.ones(int(out.sum()))))
    return made


def _score_votes(
    fit: Fitter, rows: IntArray, of: IntArray, out: BoolArray, columns: FloatArray
) -> CaseScores:
    mine = columns[rows]
    Y = mine @ fit(mine[~out], Classes.from_labels("LocalMDaML", of[~out])).T
    nearest = nearest_rows(Y[out], Y[~out], _N_NEIGHBORS)[0]
    votes = np.zeros((len(nearest), int(of.max()) + 1))
    for voter in nearest.T:
        votes[np.arange(len(votes)), of[~out][voter]] += 1
    right = (votes.argmax(axis=1) == of[out]).astype(np.float64)
    return CaseScores(right, right)

"""How strongly a metric is held near its start, chosen by comparisons of points held out."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from mdaml._progress import mute
from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml._validation import warn
from mdaml.constraints.matching import compared_rows, to_comparisons
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.holdout.comparisons import HeldOutComparisons, Judged, join_units
from mdaml.holdout.rule import (
    SWAPPED,
    Gain,
    explain_more_than_swapping,
    find_leaders,
    measure_gain,
)
from mdaml.holdout.split import (
    Split,
    exchange_near_and_far,
    hold_out_points,
    same_points,
    tells_enough,
)
from mdaml.solver.run import Problem, count_modes
from mdaml.solver.spec import Spec
from mdaml.solver.start import start_metric
from mdaml.solver.store import Store

_MOST_COMPARISONS = 20_000
_MOST_ROWS = 100_000  # beyond so many samples only those that are compared take part
_N_PARTS = 4
_ENOUGH_ROUGHLY = 1_000  # comparisons
_N_DEALS = 3  # to ask whether near and far are swapped: tells more of few comparisons than one
_NEAR_MISSES = 0.47  # share that holds before learning: fewer hint at near misses
_ROUNDS = 1  # for each of several strengths
_ROUNDS_OF_ONE = 3  # for a strength that was given
_MANY = 0.5  # of the rows: not worth a copy
_ENOUGH_PERSONS = 12  # to be the units, instead of the points


def choose_anchor(
    spec: Spec,
    store: Store,
    supervision: Constraints,
    persons: Persons | None = None,
    *,
    roughly: bool = False,
) -> tuple[Spec, Gain | None]:
    """Return the parameters with the anchor chosen, and what was gained on held-out points.

    Of the strengths in ``spec.anchors`` that lead the start by more than chance, the one under
    which held-out comparisons lose least is chosen; if none leads, or more hold the other way
    round, the start is kept. Without strengths to choose from, only the gain of the given one is
    measured. It is None where there is too little to hold anything out. ``roughly``: of a thousand
    comparisons and more one part decides, and nobody is asked whether near and far are swapped.
    """
    rng = np.random.RandomState(0)  # the same comparisons always give the same strength
    codes = None if persons is None or len(persons) < _ENOUGH_PERSONS else persons.codes
    if supervision.n_constraints > _MOST_COMPARISONS:
        draw = np.random.default_rng(0).choice  # in time that does not depend on how many there are
        some = np.sort(
            draw(supervision.n_constraints, _MOST_COMPARISONS, replace=False, shuffle=False)
        )
        supervision, codes = supervision.select(some), None if codes is None else codes[some]
    tried = spec.anchors or (spec.anchor,)
    short = replace(spec, anchors=(), anchor=tried[0], callback=None)
    if store.shape[0] > _MOST_ROWS:
        short, store, supervision = _compared_only(short, store, supervision)
    short = count_modes(short, store)
    points = same_points(store)
    parts = _hold_out(supervision, points, rng)
    if roughly and supervision.n_constraints >= _ENOUGH_ROUGHLY:
        parts = parts[:1]
    if not parts:
        return replace(spec, keep_start=bool(spec.anchors)), None
    try_on = partial(_try_parts, short, store, codes, spec.anchors, rng)
    losses, right, units, weights = try_on(parts if spec.anchors else parts[:1])
    leads = _find_leaders(losses, right, units, weights)
    leads &= explain_more_than_swapping(right[0], right[1:], weights)
    means = losses[1:] @ weights
    best = int(np.argmin(np.where(leads, means, np.inf) if leads.any() else means))
    if spec.anchors:
        spec = replace(spec, anchor=tried[best], keep_start=not leads.any())
    gain = measure_gain("comparisons", right[0], right[1 + best], units, weights)
    if spec.anchors:
        gain = replace(
            gain, tried=tried, scores=tuple(map(float, right[1:] @ weights / weights.sum()))
        )
    # Up to a standard error above a half: of true ones more hold, even under a weak start.
    may_ask = not roughly and not len(supervision.pairs)
    if may_ask and gain.before < 0.5 + 0.5 / np.sqrt(len(weights)):
        dealt = parts + [p for _ in range(1, _N_DEALS) for p in _hold_out(supervision, points, rng)]
        opposite = list(map(exchange_near_and_far, dealt))
        if _ask_if_swapped(try_on(dealt), try_on(opposite)) and spec.anchors:
            spec, leads = replace(spec, keep_start=True), np.zeros_like(leads)
    return spec, replace(gain, is_beyond_chance=bool(leads[best]))


def _hold_out(
    supervision: Constraints, points: IntArray, rng: np.random.RandomState
) -> list[Split]:
    """Return parts with something to learn from and to score by; one if it tells enough."""
    parts = hold_out_points(supervision, _N_PARTS, rng, points)
    return parts[:1] if tells_enough(supervision, parts[:1]) else parts


class _Tried(NamedTuple):
    """How held-out comparisons fare under the start, the first row, and under each strength."""

    losses: FloatArray  # (1 + n_strengths, n)
    right: FloatArray
    units: IntArray  # (n,)
    weights: FloatArray


def _ask_if_swapped(given: _Tried, opposite: _Tried) -> bool:
    """Warn if more held-out comparisons hold the other way round, each way after learning from it.

    Of coin flips both ways are alike, so that the rule tells how often chance leads so far. True
    comparisons that do not hold before learning, such as near misses, hold after it.
    """
    right, other = (
        way.right[int(np.argmin(way.losses @ way.weights))] for way in (given, opposite)
    )
    return ask_if_swapped(right, other, given.units, given.weights)


def ask_if_swapped(
    right: FloatArray, opposite: FloatArray, units: IntArray, weights: FloatArray
) -> bool:
    """Warn if more comparisons hold by more than chance when they are read the other way round."""
    is_asked = bool(find_leaders(right, opposite[None], units, weights)[0])
    if is_asked:
        warn(
            "More of the held-out comparisons hold, by more than chance, if all are read the other "
            "way round. Are near and far swapped? A triplet is (reference, nearer one, farther "
            "one), a quadruplet (nearer pair, farther pair)."
        )
    return is_asked


def _try_parts(
    spec: Spec,
    store: Store,
    codes: IntArray | None,
    anchors: Sequence[float],
    rng: np.random.RandomState,
    parts: Sequence[Split],
) -> _Tried:
    """Judge strengths, or the one that is given, by the held-out comparisons of all parts."""
    judged, asked = [], []
    with mute():
        for part in parts:  # one at a time in memory
            trial = _HeldOutTrial.of(store, part, codes, rng)
            asked.append(trial.asked)
            judged.append(Judged.stack(trial.judge_all(spec, anchors, rng)))
    return _Tried(*Judged.join(judged), *join_units(asked))


def _find_leaders(
    losses: FloatArray, right: FloatArray, units: IntArray, weights: FloatArray
) -> BoolArray:
    """Return which strengths lead the start, the first row: by losses, or by what is right.

    Losses tell more, but nothing where fewer than half of the comparisons hold under any metric, as
    with near misses.
    """
    surely = 0.5 - 1.5 / np.sqrt(len(weights))  # three standard errors below a half
    if SWAPPED <= np.average(right[0], weights=weights) < min(_NEAR_MISSES, surely):
        return find_leaders(right[0], right[1:], units, weights)
    return find_leaders(-losses[0], -losses[1:], units, weights)


class _HeldOutTrial(NamedTuple):
    """Comparisons to learn from in a store, and those that are held out."""

    supervision: Constraints  # to learn from
    store: Store
    judge: Store  # of the rows that held-out comparisons name, or of all if these are many
    asked: HeldOutComparisons  # of places in it

    @classmethod
    def of(
        cls, store: Store, part: Split, codes: IntArray | None, rng: np.random.RandomState
    ) -> "_HeldOutTrial":
        judge, asked = store, HeldOutComparisons.of(part, rng, codes)
        rows, places = np.unique([asked.near, asked.far], return_inverse=True)
        if len(rows) <= _MANY * store.shape[0]:
            near, far = places.reshape(2, -1, 2)
            judge, asked = store.part(rows), asked._replace(near=near.copy(), far=far.copy())
        return cls(to_comparisons("MDaML", part.learned, rng), store, judge, asked)

    def judge_all(
        self, spec: Spec, anchors: Sequence[float], rng: np.random.RandomState
    ) -> list[Judged]:
        """Return how held-out comparisons fare under the start, and under each strength.

        Every strength goes on from the metric of the one before. Without strengths, the given one
        is judged after a few rounds.
        """
        problem = Problem(spec, self.supervision)
        if not anchors:
            start = start_metric(replace(spec, keep_start=True), self.store, rng).F
            rounds = min(spec.max_iter, _ROUNDS_OF_ONE)
            run = replace(problem, spec=replace(spec, max_iter=rounds)).start(self.store, rng)
            return [self._judge(F) for F in (start, run.complete().metric)]
        run = problem.start(self.store, rng)
        judged = [self._judge(run.F)]
        for anchor in anchors:
            run = run.with_cells(anchor=anchor).advance(_ROUNDS)
            judged.append(self._judge(run.F))
        return judged

    def _judge(self, F: FloatArray) -> Judged:
        return self.asked.judge(self.judge.fetch_mapped(F))


def _compared_only(
    spec: Spec, store: Store, supervision: Constraints
) -> tuple[Spec, Store, Constraints]:
    """Return the problem of the samples that are compared: a step takes products with all."""
    rows = compared_rows(supervision)
    if isinstance(spec.weights, np.ndarray):
        spec = replace(spec, weights=spec.weights[rows])
    return spec, store.part(rows), supervision.restrict(rows)

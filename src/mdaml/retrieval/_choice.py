"""How strongly an adapter is held near its anchor, chosen by queries that were held out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mdaml._progress import mute, report
from mdaml._typing import FloatArray, IntArray
from mdaml.holdout.rule import (
    LEAD,
    LEVEL,
    Walk,
    find_p_values,
    is_below,
    measure_gain,
    walk_from_start,
)
from mdaml.retrieval._candidates import (
    Collection,
    Lessons,
    choose_n_negatives,
    make_blocks,
    make_lessons,
)
from mdaml.retrieval._clicks import ClickLog
from mdaml.retrieval._frame import Frame, make_frame
from mdaml.retrieval._judges import ClickJudge, SearchJudge
from mdaml.retrieval._objective import Anchored, Rule, minimise
from mdaml.retrieval._relevance import Relevance
from mdaml.retrieval._search import Values

NDCG, LIKELIHOOD = "nDCG@10", "log-likelihood of clicks"  # by which strengths are compared
STRENGTHS = (0.1, 0.03, 0.01, 0.003, 0.001)  # strongest first
_FOLDS = {100: 20, 250: 10, 1000: 3}  # up to so many queries: each held out once in so many folds
_FOLDS_OF_LOGS = {100: 20, 1000: 10}  # clicks say less than judged pairs, and are scored faster
_LEARNED, _HELD_OUT = 4000, 1000  # at most, of many queries
_SHORTER = 0.1  # steps without a curvature lower the objective by less at a time
_FEWEST = 12  # queries that a choice needs
_VARIANCE = 2.0  # of summed slopes: each query is held out while the others teach the map
_LEVEL_OF_CLICKS = 0.5 * LEVEL  # such sums have a longer tail than random signs


class AdapterPlan(NamedTuple):
    """What every fit of a choice has in common."""

    anchor: FloatArray  # (d, d) the map it is held near
    rank: int | None
    symmetric: bool
    n_negatives: int | str
    max_iter: int
    shown: IntArray | None = None  # documents of a log of clicks, sorted


@dataclass(frozen=True)
class HeldOut:
    """Scores of queries that were held out.

    Attributes
    ----------
    strengths : list of float
        Those that were tried, the strongest first.
    scores : list of float
        The mean score of each of them.
    base : float
        That of the anchor.
    p_value : float
        How often chance alone leads the base as far as the chosen strength, or one before it, does.
        If none was chosen, as far as the first. Of a log: how often chance alone gives clicks that
        confirm the direction of any of the maps so well.
    n_queries : int
        How many different ones were held out.
    gain : float
        The mean score of the chosen strength less that of the anchor; if none was chosen, of the
        first.
    interval : list of float
        95 % interval of the gain, over the queries; empty if nothing was tried.
    best : float or None
        The strength to use; None if nothing beats the base.
    measure : str
        What the scores are: nDCG at 10, or the log-likelihood of clicks among what was shown.
    """

    strengths: list[float]
    scores: list[float]
    base: float
    p_value: float
    n_queries: int
    gain: float
    interval: list[float]
    best: float | None
    measure: str = NDCG


class AdapterFit:
    """The fit of one collection of lessons; strengths are tried from strong to weak."""

    def __init__(
        self,
        collection: Collection,
        pairs: Relevance,
        plan: AdapterPlan,
        start: FloatArray,
        rng: np.random.Generator,
        frame: Frame | None = None,
    ) -> None:
        self.collection, self.plan, self._rng = collection, plan, rng
        self._anchor = collection.arrays.put(plan.anchor)
        is_rough = frame is not None  # to compare strengths, fewer lessons do
        self._lessons: Lessons = make_lessons(collection, pairs, rng, is_rough, plan.shown)
        self._n_candidates = choose_n_negatives(
            plan.n_negatives, len(self._lessons.vectors), len(self._lessons.known)
        )
        self.map = start
        self._point: Values = None
        self._given = frame
        self.refresh()

    @property
    def is_sampled(self) -> bool:
        """Whether queries compete for some of the known documents only."""
        return self._n_candidates < len(self._lessons.known)

    def restart(self, W: FloatArray) -> None:
        """Go on from another map."""
        self.map, self._point = W, None

    def refresh(self) -> None:
        """Look for hard documents under the map of now."""
        plan, arrays = self.plan, self.collection.arrays
        blocks = make_blocks(
            self.collection, self._lessons, self._n_candidates, self.map, self._rng
        )
        rule = Rule(1.0, plan.symmetric, self.collection.by_distance)
        is_framed = plan.rank is None and not plan.symmetric
        self.frame = self._given or make_frame(blocks, self._anchor, rule, arrays, is_framed)
        self._blocks = self.frame.view(blocks, self._anchor)
        self._point = None

    def run(self, strength: float, *, tol: float) -> list[float]:
        """Go on from the map of now with this strength; return the objective on the way."""
        plan, arrays, frame = self.plan, self.collection.arrays, self.frame
        is_framed = frame.documents is not None
        origin = self._anchor
        if is_framed:
            origin = arrays.xp.zeros_like(frame.curvature)
        identity = None
        if plan.rank is not None:
            identity = arrays.put(np.eye(len(plan.anchor), dtype=plan.anchor.dtype))
        function = Anchored(self._blocks, frame.rule, strength, origin, identity, arrays.xp)
        if self._point is None:
            self._point = self._start(function)
        self._point, history = minimise(
            function.evaluate,
            self._point,
            max_iter=plan.max_iter,
            tol=tol if is_framed else _SHORTER * tol,
            curvature=frame.curvature + strength if is_framed else None,
        )
        self.map = arrays.fetch(self._anchor + frame.lift(function.map_of(self._point) - origin))
        return history

    def _start(self, function: Anchored) -> Values:
        """Return the point of the map to start from."""
        arrays = self.collection.arrays
        if self.frame.documents is not None:
            return self.frame.project(arrays.put(self.map) - self._anchor)
        if self.plan.rank is None:
            return arrays.put(self.map)
        dtype, d, r = self.map.dtype, len(self.map), self.plan.rank
        axes, sizes, others = np.linalg.svd(self.map.astype(np.float64) - np.eye(d))
        factors = [axes[:, :r] * np.sqrt(sizes[:r]), others[:r].T * np.sqrt(sizes[:r])]
        # Directions that are free point where the gradient is largest: at zero it would vanish.
        full = function._replace(identity=None)
        _, _, steepest = np.linalg.svd(arrays.fetch(full.evaluate(arrays.put(self.map))[1]))
        free = sizes[:r] <= 1e-6
        factors[1][:, free] = steepest[: int(free.sum())].T
        return arrays.put(np.concatenate(factors).astype(dtype))


def choose_strength(
    fit: AdapterFit,
    pairs: Relevance,
    tol: float,
    rng: np.random.Generator,
    clicks: tuple[ClickLog, FloatArray] | None = None,
) -> HeldOut:
    """Return how strengths did on held-out queries, and the best that beats the anchor.

    By the rule for every choice. Pairs: for candidates in a fixed order; the weakest strength is
    taken that leads the anchor with all before it, and is among the best. The whole data bear a
    weaker anchor than the part that the folds learn from. ``clicks`` are a log and the propensities
    of its positions, if the pairs come from one: see :func:`_compare_by_clicks`. ``fit`` is left at
    a map that is near that of all data.
    """
    rows = np.unique(pairs.queries) if clicks is None else clicks[0].find_telling()
    folds: list[QueryFold] = []
    tests: list[IntArray] = []
    if len(rows) >= _FEWEST:
        parts = _split(rows, rng, clicks is not None)
        folds = [QueryFold(fit, pairs, train, test, rng) for train, test in parts]
        tests = [test for _, test in parts]
    if not folds or not all(fold.can_learn for fold in folds):
        return HeldOut([], [], float("nan"), 1.0, len(rows), float("nan"), [], None)
    maps: list[FloatArray] = []

    def try_in_turn() -> Iterator[list[FloatArray]]:
        for place, strength in enumerate(STRENGTHS):
            report("strengths", place, len(STRENGTHS))
            with mute():
                tried = [fold.try_strength(strength, tol) for fold in folds]
            maps.append(np.mean(tried, axis=0))
            yield tried

    anchors = [fit.plan.anchor] * len(folds)
    if clicks is None:
        judge = SearchJudge(fit.collection, fit.plan.symmetric, pairs, tests, rng)
        base = judge.score(anchors)
        units = np.arange(len(base))  # repeated queries were joined before
        walk = walk_from_start(base, map(judge.score, try_in_turn()), units)
    else:
        by_clicks = ClickJudge(fit.collection, fit.plan.symmetric, *clicks, tests)
        base = by_clicks.score(anchors)
        walk = _compare_by_clicks(by_clicks, base, anchors, try_in_turn())
    if walk.taken is not None:
        fit.restart(maps[walk.taken])
    measure = NDCG if clicks is None else LIKELIHOOD
    gain = measure_gain(measure, base, walk.scores[walk.taken or 0], np.arange(len(base)))
    return HeldOut(
        list(STRENGTHS[: len(walk.scores)]),
        [float(scores.mean()) for scores in walk.scores],
        gain.before,
        walk.p_value,
        len(base),
        gain.after - gain.before,
        [gain.low, gain.high],
        None if walk.taken is None else STRENGTHS[walk.taken],
        measure,
    )


def _compare_by_clicks(
    judge: ClickJudge,
    base: FloatArray,
    anchors: list[FloatArray],
    tried: Iterable[list[FloatArray]],
) -> Walk:
    """Return scores of strengths by held-out clicks, and the one to take.

    The directions of all maps are tested at once, by the slopes of scores. If one leads, the
    strongest is taken whose score is less than half a standard error below the best, the anchor
    included: few clicks cannot tell a map that is too weakly held.
    """
    scores: list[FloatArray] = []
    slopes: list[FloatArray] = []
    for maps in tried:
        scores.append(judge.score(maps))
        slopes.append(judge.slope(anchors, maps))
    units = np.arange(len(base))  # repeated queries were joined before
    p_value = float(find_p_values(np.array(slopes), units, variance=_VARIANCE).min())
    best = max([base, *scores], key=np.mean)
    among = [n for n, s in enumerate(scores) if not is_below(s, best, units, LEAD)]
    return Walk(scores, p_value, among[0] if among and p_value <= _LEVEL_OF_CLICKS else None)


def _split(
    rows: IntArray, rng: np.random.Generator, is_log: bool = False
) -> list[tuple[IntArray, IntArray]]:
    """Return training and held-out queries: each held out once, or some once if there are many.

    More queries of a log are held out than of judged pairs.
    """
    order = rng.permutation(rows)
    for limit, n_folds in (_FOLDS_OF_LOGS if is_log else _FOLDS).items():
        if len(rows) <= limit:
            fold = np.arange(len(rows)) % min(n_folds, len(rows))
            tests = [np.sort(order[fold == f]) for f in range(fold.max() + 1)]
            return [(np.setdiff1d(rows, test), test) for test in tests]
    if is_log:
        n_learned = min(len(rows) // 2, _LEARNED)
        halves = np.sort(order[:n_learned]), np.sort(order[n_learned:])
        return [halves, halves[::-1]] if len(rows) <= 2 * _LEARNED else [halves]
    n_test = min(len(rows) // 4, _HELD_OUT)
    return [(np.sort(order[n_test:][:_LEARNED]), np.sort(order[:n_test]))]


class QueryFold:
    """A fit to some queries, without what the held-out ones would tell."""

    def __init__(
        self,
        fit: AdapterFit,
        pairs: Relevance,
        train: IntArray,
        test: IntArray,
        rng: np.random.Generator,
    ) -> None:
        collection = fit.collection
        own = collection.own[test]
        # A new query is no document. One that is held out must not be learned from as one either:
        # others would be drawn to it, where it cannot be found, and not to its documents.
        is_own = np.isin(collection.copies.first[pairs.documents], own[own >= 0])
        kept = np.isin(pairs.queries, train) & ~is_own
        learned = Relevance(
            pairs.queries[kept],
            pairs.documents[kept],
            pairs.grades[kept],
            pairs.n_queries,
            pairs.n_documents,
        )
        self.can_learn = len(np.unique(learned.documents)) > 1
        if self.can_learn:
            frame = fit.frame.coarsen(collection.arrays)
            self._fit = AdapterFit(collection, learned, fit.plan, fit.plan.anchor, rng, frame)

    def try_strength(self, strength: float, tol: float) -> FloatArray:
        """Return the map of this strength."""
        self._fit.run(strength, tol=tol)
        return self._fit.map

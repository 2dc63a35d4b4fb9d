"""How strongly an adapter is held near its anchor, chosen by queries that were held out."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mdaml._progress import mute, report
from mdaml._typing import FloatArray, IntArray
from mdaml.holdout.rule import measure_gain, walk_from_start
from mdaml.retrieval._candidates import (
    Collection,
    Lessons,
    choose_n_negatives,
    make_blocks,
    make_lessons,
)
from mdaml.retrieval._frame import Frame, make_frame
from mdaml.retrieval._objective import Anchored, Rule, minimise
from mdaml.retrieval._relevance import Relevance
from mdaml.retrieval._scores import measure_ranking
from mdaml.retrieval._search import search

STRENGTHS = (0.1, 0.03, 0.01, 0.003, 0.001)  # strongest first
_DEPTH = 10  # of the nDCG by which strengths are compared
_FOLDS = {100: 20, 250: 10, 1000: 3}  # up to so many queries: each held out once in so many folds
_LEARNED, _HELD_OUT = 4000, 1000  # at most, of many queries
_SEARCHED = 1 << 15  # documents among which held-out queries search, at most
_SHORTER = 0.1  # steps without a curvature lower the objective by less at a time
_FEWEST = 12  # queries that a choice needs


class AdapterPlan(NamedTuple):
    """What every fit of a choice has in common."""

    anchor: FloatArray  # (d, d) the map it is held near
    rank: int | None
    symmetric: bool
    n_negatives: int | str
    max_iter: int


@dataclass(frozen=True)
class HeldOut:
    """Scores of queries that were held out.

    Attributes
    ----------
    strengths : list of float
        Those that were tried, the strongest first.
    scores : list of float
        Mean nDCG at 10 for each of them.
    base : float
        That of the anchor.
    p_value : float
        How often chance alone leads the base as far as the chosen strength, or one before it, does.
        If none was chosen, as far as the first.
    n_queries : int
        How many different ones were held out.
    gain : float
        Mean nDCG at 10 of the chosen strength less that of the anchor; if none was chosen, of the
        first.
    interval : list of float
        95 % interval of the gain, over the queries; empty if nothing was tried.
    best : float or None
        The strength to use; None if nothing beats the base.
    """

    strengths: list[float]
    scores: list[float]
    base: float
    p_value: float
    n_queries: int
    gain: float
    interval: list[float]
    best: float | None


class AdapterFit:
    """The fit of one collection of lessons; strengths are tried from strong to weak."""

    def __init__(
        self,
        collection: Collection,
        pairs: Relevance,
        plan: AdapterPlan,
        start: FloatArray,
        rng: Any,
        frame: Frame | None = None,
    ) -> None:
        self.collection, self.plan, self._rng = collection, plan, rng
        self._anchor = collection.arrays.put(plan.anchor)
        is_rough = frame is not None  # to compare strengths, fewer lessons do
        self._lessons: Lessons = make_lessons(collection, pairs, rng, is_rough)
        self._n_candidates = choose_n_negatives(
            plan.n_negatives, len(self._lessons.vectors), len(self._lessons.known)
        )
        self.map = start
        self._point: Any = None
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

    def _start(self, function: Anchored) -> Any:
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


def choose_strength(fit: AdapterFit, pairs: Relevance, tol: float, rng: Any) -> HeldOut:
    """Return how strengths did on held-out queries, and the best that beats the anchor.

    By the rule for every choice, for candidates in a fixed order: the weakest strength is taken
    that leads the anchor with all before it, and is among the best. The whole data bear a weaker
    anchor than the part that the folds learn from. ``fit`` is left at a map that is near that of
    all data.
    """
    rows = np.unique(pairs.queries)
    folds: list[QueryFold] = []
    if len(rows) >= _FEWEST:
        folds = [QueryFold(fit, pairs, train, test, rng) for train, test in _split(rows, rng)]
    if not folds or not all(fold.can_learn for fold in folds):
        return HeldOut([], [], float("nan"), 1.0, len(rows), float("nan"), [], None)
    base = np.concatenate([fold.score(fit.plan.anchor) for fold in folds])
    units = np.arange(len(base))  # repeated queries were joined before
    maps: list[FloatArray] = []

    def try_in_turn() -> Iterator[FloatArray]:
        for place, strength in enumerate(STRENGTHS):
            report("strengths", place, len(STRENGTHS))
            with mute():
                scores = [fold.try_strength(strength, tol) for fold in folds]
            maps.append(np.mean([fold.map for fold in folds], axis=0))
            yield np.concatenate(scores)

    walk = walk_from_start(base, try_in_turn(), units)
    if walk.taken is not None:
        fit.restart(maps[walk.taken])
    gain = measure_gain("nDCG@10", base, walk.scores[walk.taken or 0], units)
    return HeldOut(
        list(STRENGTHS[: len(walk.scores)]),
        [float(scores.mean()) for scores in walk.scores],
        gain.before,
        walk.p_value,
        len(base),
        gain.after - gain.before,
        [gain.low, gain.high],
        None if walk.taken is None else STRENGTHS[walk.taken],
    )


def _split(rows: IntArray, rng: Any) -> list[tuple[IntArray, IntArray]]:
    """Return training and held-out queries: each held out once, or some once if there are many."""
    order = rng.permutation(rows)
    for limit, n_folds in _FOLDS.items():
        if len(rows) <= limit:
            fold = np.arange(len(rows)) % min(n_folds, len(rows))
            tests = [np.sort(order[fold == f]) for f in range(fold.max() + 1)]
            return [(np.setdiff1d(rows, test), test) for test in tests]
    n_test = min(len(rows) // 4, _HELD_OUT)
    return [(np.sort(order[n_test:][:_LEARNED]), np.sort(order[:n_test]))]


class QueryFold:
    """A fit to some queries that is scored by others."""

    def __init__(
        self, fit: AdapterFit, pairs: Relevance, train: IntArray, test: IntArray, rng: Any
    ) -> None:
        self._collection = collection = fit.collection
        self._plan = fit.plan
        self._queries, self._own = collection.queries[test], collection.own[test]
        # A new query is no document. One that is held out must not be learned from as one either:
        # others would be drawn to it, where it cannot be found, and not to its documents.
        is_own = np.isin(collection.copies.first[pairs.documents], self._own[self._own >= 0])
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
        self._pairs, self._searched = _narrow(pairs.of(test), rng)
        if self._searched is not None:  # others are not searched, so they cannot be found
            self._own = _places_in(self._searched, self._own)

    @property
    def map(self) -> FloatArray:
        """The map of the strength tried last."""
        return self._fit.map

    def try_strength(self, strength: float, tol: float) -> FloatArray:
        """Return the scores of the held-out queries with this strength."""
        self._fit.run(strength, tol=tol)
        return self.score(self._fit.map)

    def score(self, W: FloatArray) -> FloatArray:
        """Return the nDCG of each held-out query."""
        stored = self._collection.documents
        stored = stored if self._searched is None else stored[self._searched]
        stored = stored @ W.T if self._plan.symmetric else stored
        found, _ = search(
            self._queries @ W.T,
            stored,
            _DEPTH + 1,
            by_distance=self._collection.by_distance,
            device=self._collection.arrays.device,
        )
        # A query that is a document itself would find itself.
        is_own = found == self._own[:, None]
        order = np.argsort(is_own, axis=1, kind="stable")[:, :_DEPTH]
        found = np.take_along_axis(found, order, axis=1)
        return measure_ranking(found, self._pairs, [_DEPTH])[f"ndcg@{_DEPTH}"]


def _narrow(pairs: Relevance, rng: Any) -> tuple[Relevance, IntArray | None]:
    """Return pairs among fewer documents, and these, if there are too many to search them all."""
    if pairs.n_documents <= _SEARCHED:
        return pairs, None
    drawn = rng.choice(pairs.n_documents, _SEARCHED, replace=False)
    kept = np.union1d(drawn, pairs.documents)
    places = np.searchsorted(kept, pairs.documents)
    return Relevance(pairs.queries, places, pairs.grades, pairs.n_queries, len(kept)), kept


def _places_in(rows: IntArray, wanted: IntArray) -> IntArray:
    """Return the places of some rows in a sorted list, -1 where they are not in it."""
    places = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[places] == wanted, places, -1)

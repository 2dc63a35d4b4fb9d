"""How strongly an adapter is held near its anchor, chosen by queries that were held out."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from mdaml._progress import mute, report
from mdaml._typing import FloatArray, IntArray
from mdaml.retrieval._candidates import (
    Collection,
    Lessons,
    choose_n_negatives,
    make_blocks,
    make_lessons,
)
from mdaml.retrieval._objective import Anchored, Block, Rule, contrast, minimise, score_block
from mdaml.retrieval._relevance import Relevance
from mdaml.retrieval._scores import measure_ranking
from mdaml.retrieval._search import search

STRENGTHS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # strongest first
_DEPTH = 10  # of the nDCG by which strengths are compared
_FOLDS = 5
_FEW = 1000  # queries up to which each is held out once
_LEARNED, _HELD_OUT = 8000, 2000  # at most, of many queries
_SEARCHED = 1 << 17  # documents among which held-out queries search, at most
_LEVEL = 0.05  # of the test against the base
_FEWEST = 12  # queries that a choice needs
# A learned map separates better than the base, so scores may differ more than fits the base best.
_SHARPER = 1.5
_SCALED = 2000  # lessons by which the scale is fitted


class Plan(NamedTuple):
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
        Those that were tried.
    scores : list of float
        Mean nDCG at 10 for each of them.
    base : float
        That of the anchor.
    p_value : float
        Of the paired test whether the chosen strength, or the best, is no better than the base,
        times the number of strengths that were tried.
    n_queries : int
        How many were held out.
    best : float or None
        The strength to use; None if nothing beats the base.
    """

    strengths: list[float]
    scores: list[float]
    base: float
    p_value: float
    n_queries: int
    best: float | None


class Fit:
    """The fit of one collection of lessons; strengths are tried from strong to weak."""

    def __init__(
        self, collection: Collection, pairs: Relevance, plan: Plan, start: FloatArray, rng: Any
    ) -> None:
        self._collection, self._plan, self._rng = collection, plan, rng
        self._lessons: Lessons = make_lessons(collection, pairs, rng)
        self._n_candidates = choose_n_negatives(
            plan.n_negatives, len(self._lessons.vectors), len(self._lessons.known)
        )
        self.map = start
        self._point: Any = None
        self.refresh()

    @property
    def is_sampled(self) -> bool:
        """Whether queries compete for some of the known documents only."""
        return self._n_candidates < len(self._lessons.known)

    def refresh(self) -> None:
        """Look for hard documents under the map of now."""
        plan, arrays = self._plan, self._collection.arrays
        self._blocks: list[Block] = make_blocks(
            self._collection, self._lessons, self._n_candidates, self.map, self._rng
        )
        scale = _fit_scale(self._blocks, arrays.put(plan.anchor), self.rule(1.0), arrays.xp)
        self._rule = self.rule(scale)

    def rule(self, scale: float) -> Rule:
        """Return how documents are scored."""
        return Rule(scale, self._plan.symmetric, self._collection.by_distance)

    def run(self, strength: float, *, tol: float) -> list[float]:
        """Go on from the map of now with this strength; return the objective on the way."""
        plan, arrays = self._plan, self._collection.arrays
        anchor = arrays.put(plan.anchor)
        identity = (
            None
            if plan.rank is None
            else arrays.put(np.eye(len(plan.anchor), dtype=plan.anchor.dtype))
        )
        function = Anchored(self._blocks, self._rule, strength, anchor, identity, arrays.xp)
        if self._point is None:
            self._point = self._start(function)
        self._point, history = minimise(
            function.evaluate, self._point, max_iter=plan.max_iter, tol=tol
        )
        self.map = arrays.fetch(function.map_of(self._point))
        return history

    def _start(self, function: Anchored) -> Any:
        """Return the point of the map to start from."""
        arrays = self._collection.arrays
        if self._plan.rank is None:
            return arrays.put(self.map)
        dtype, d, r = self.map.dtype, len(self.map), self._plan.rank
        axes, sizes, others = np.linalg.svd(self.map.astype(np.float64) - np.eye(d))
        factors = [axes[:, :r] * np.sqrt(sizes[:r]), others[:r].T * np.sqrt(sizes[:r])]
        # Directions that are free point where the gradient is largest: at zero it would vanish.
        full = function._replace(identity=None)
        _, _, steepest = np.linalg.svd(arrays.fetch(full.evaluate(arrays.put(self.map))[1]))
        free = sizes[:r] <= 1e-6
        factors[1][:, free] = steepest[: int(free.sum())].T
        return arrays.put(np.concatenate(factors).astype(dtype))


def _fit_scale(blocks: list[Block], W: Any, rule: Rule, xp: Any) -> float:
    """Return the factor of scores at which the loss of a map is smallest, half as large again."""
    some, n = [], 0
    for block in blocks:
        some.append((score_block(W, block, rule)[2], block))
        n += len(block.queries)
        if n >= _SCALED:
            break
    spread = float(np.mean([float(S.std()) for S, _ in some])) or 1.0
    factors = np.geomspace(0.3, 30.0, 15) / spread
    losses = [sum(contrast(f * S, block, xp)[0] for S, block in some) for f in factors.tolist()]
    return _SHARPER * float(factors[int(np.argmin(losses))])


def choose_strength(
    collection: Collection, pairs: Relevance, plan: Plan, tol: float, rng: Any
) -> HeldOut:
    """Return how strengths did on held-out queries, and the best if it beats the anchor."""
    rows = np.unique(pairs.queries)
    if len(rows) < _FEWEST:
        return HeldOut([], [], float("nan"), 1.0, len(rows), None)
    folds = [_Fold(collection, pairs, plan, train, test, rng) for train, test in _split(rows, rng)]
    base = np.concatenate([fold.score(plan.anchor) for fold in folds])
    by_strength: list[FloatArray] = []
    for strength in STRENGTHS:
        report("strengths", len(by_strength), len(STRENGTHS))
        with mute():
            tried = [fold.try_strength(strength, tol) for fold in folds]
        by_strength.append(np.concatenate(tried))
        means = [float(scores.mean()) for scores in by_strength]
        if len(means) > 2 and max(means[-2:]) < max(means[:-2]):
            break  # weaker ones follow the training queries ever more closely
    # Bonferroni: of several strengths that do nothing, one would pass a single test too often.
    p_values = [min(1.0, len(means) * _test(scores - base)) for scores in by_strength]
    # A strong anchor may gain little but surely, a weak one much but by chance.
    sure = [place for place, p in enumerate(p_values) if p < _LEVEL]
    best = max(sure or range(len(means)), key=means.__getitem__)
    return HeldOut(
        list(STRENGTHS[: len(means)]),
        means,
        float(base.mean()),
        p_values[best],
        len(base),
        STRENGTHS[best] if sure else None,
    )


def _test(gains: FloatArray) -> float:
    """Return the probability of such gains, or larger ones, if there were none (paired t)."""
    spread = float(gains.std(ddof=1))
    if spread == 0:
        return 1.0 if gains[0] <= 0 else 0.0
    return float(stats.t.sf(gains.mean() / (spread / len(gains) ** 0.5), len(gains) - 1))


def _split(rows: IntArray, rng: Any) -> list[tuple[IntArray, IntArray]]:
    """Return training and held-out queries: each held out once, or some once if there are many."""
    order = rng.permutation(rows)
    if len(rows) <= _FEW:
        fold = np.arange(len(rows)) % _FOLDS
        return [(np.sort(order[fold != f]), np.sort(order[fold == f])) for f in range(_FOLDS)]
    n_test = min(len(rows) // 4, _HELD_OUT)
    return [(np.sort(order[n_test:][:_LEARNED]), np.sort(order[:n_test]))]


class _Fold:
    """A fit to some queries that is scored by others."""

    def __init__(
        self,
        collection: Collection,
        pairs: Relevance,
        plan: Plan,
        train: IntArray,
        test: IntArray,
        rng: Any,
    ) -> None:
        kept = np.isin(pairs.queries, train)
        learned = Relevance(
            pairs.queries[kept],
            pairs.documents[kept],
            pairs.grades[kept],
            pairs.n_queries,
            pairs.n_documents,
        )
        self._fit = Fit(collection, learned, plan, plan.anchor, rng)
        self._queries, self._own = collection.queries[test], collection.own[test]
        self._plan, self._collection = plan, collection
        self._pairs, self._searched = _narrow(pairs.of(test), rng)
        if self._searched is not None:  # others are not searched, so they cannot be found
            self._own = _places_in(self._searched, self._own)

    def try_strength(self, strength: float, tol: float) -> FloatArray:
        """Return the scores of the held-out queries with this strength."""
        self._fit.run(strength, tol=tol)
        return self.score(self._fit.map)

    def score(self, W: FloatArray) -> FloatArray:
        """Return the nDCG of each held-out query."""
        stored = self._collection.documents
        stored = stored if self._searched is None else stored[self._searched]
        stored = stored @ W.T if self._plan.symmetric else stored
        offsets = None
        if self._collection.by_distance:
            offsets = -0.5 * np.einsum("ij,ij->i", stored, stored)
        device = self._collection.arrays.device
        found, _ = search(self._queries @ W.T, stored, _DEPTH + 1, offsets=offsets, device=device)
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

"""How a map does on held-out queries: by what they find, or by what was clicked."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

from mdaml._typing import FloatArray, IntArray
from mdaml.retrieval._candidates import Collection
from mdaml.retrieval._clicks import ClickLog
from mdaml.retrieval._relevance import Relevance
from mdaml.retrieval._scores import measure_ranking
from mdaml.retrieval._search import search

_DEPTH = 10  # of the nDCG by which maps are compared
_SEARCHED = 1 << 15  # documents among which held-out queries search, at most
_ROWS = 1 << 14  # of a log, scored at a time
_SHARPEST = 20.0  # factor of scores in units of their deviation within lists


class SearchJudge:
    """The nDCG of what held-out queries find."""

    def __init__(
        self, collection: Collection, symmetric: bool, pairs: Relevance, tests: Sequence[IntArray],
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self._collection, self._symmetric, self._tests = collection, symmetric, tests
        self._narrowed = [_narrow(pairs.of(test), rng) for test in tests]

    def score(self, maps: Sequence[FloatArray]) -> FloatArray:
        """Return the nDCG of each held-out query."""
        parts = zip(maps, self._tests, self._narrowed, strict=True)
        return np.concatenate([self._score_fold(*part) for part in parts])

    def _score_fold(
        self, W: FloatArray, test: IntArray, narrowed: tuple[Relevance, IntArray | None]
    ) -> FloatArray:
        collection, (pairs, searched) = self._collection, narrowed
        own, stored = collection.own[test], collection.documents
        if searched is not None:  # others are not searched, so they cannot be found
            own, stored = _places_in(searched, own), stored[searched]
        found, _ = search(
            collection.queries[test] @ W.T,
            stored @ W.T if self._symmetric else stored,
            _DEPTH + 1,
            by_distance=collection.by_distance,
            device=collection.arrays.device,
        )
        # A query that is a document itself would find itself.
        is_own = found == own[:, None]
        order = np.argsort(is_own, axis=1, kind="stable")[:, :_DEPTH]
        found = np.take_along_axis(found, order, axis=1)
        return measure_ranking(found, pairs, [_DEPTH])[f"ndcg@{_DEPTH}"]


class ClickJudge:
    """How well scores tell which of the documents that were shown are clicked.

    A click on a document x counts ``log(p(x) exp(t s(x)) / sum_z p(z) exp(t s(z)))``, z over what
    was shown in the same list, p the propensity of a position: the share of x if clicks follow
    positions and scores. The factor t is the one that fits best: maps are compared by how they
    rank, not by how large their scores are. All visits of a query together count once. What was
    not shown does not count.
    """

    def __init__(
        self, collection: Collection, symmetric: bool, log: ClickLog, propensities: FloatArray,
        tests: Sequence[IntArray],
    ) -> None:  # fmt: skip
        self._collection, self._symmetric, self._tests = collection, symmetric, tests
        self._log = shown = log.of(np.concatenate(tests))
        self._by_position = np.log(propensities)[shown.positions]
        first = np.flatnonzero(np.diff(shown.impressions, prepend=-1))
        n_lists = np.bincount(shown.queries[first], minlength=shown.n_queries)
        counts = shown.clicked / n_lists[shown.queries]
        self._weights = counts * (shown.n_queries / counts.sum())

    def score(self, maps: Sequence[FloatArray]) -> FloatArray:
        """Return the log-likelihood of the clicks of each held-out query."""
        scores = self._score_shown(maps)
        scores /= max(float(scores.std()), 1e-12)
        return self._by_query(self._log_shares(self._find_factor(scores) * scores))

    def slope(self, anchors: Sequence[FloatArray], maps: Sequence[FloatArray]) -> FloatArray:
        """Return how fast the log-likelihood of each query rises on the way from anchors to maps.

        At the anchors, up to a common factor. A whole step loses much of what its direction gains,
        by all that is random in a map of few clicks; the slope does not, so it tells with far fewer
        clicks whether there is something to learn. What another factor of the scores would do is
        taken out.
        """
        scores = self._score_shown(anchors)
        spread = max(float(scores.std()), 1e-12)
        base = scores / spread
        change = self._score_shown(maps) / spread - base
        shares = np.exp(self._log_shares(self._find_factor(base) * base))
        base, change = (part - self._sum(shares * part) for part in (base, change))
        weights = self._sum(self._weights) * shares
        size = float(weights @ (base * base))
        along = float(weights @ (base * change)) / size if size > 0.0 else 0.0
        return self._by_query(change - along * base)

    def _score_shown(self, maps: Sequence[FloatArray]) -> FloatArray:
        """Return the score of what was shown under the map of its fold, less the mean of a list."""
        log, collection = self._log, self._collection
        scores = np.empty(len(log.queries))
        begin = 0
        for W, test in zip(maps, self._tests, strict=True):
            rows = np.flatnonzero((log.queries >= begin) & (log.queries < begin + len(test)))
            queries = collection.queries[test][log.queries[rows] - begin]
            scores[rows] = score_shown(collection, queries, log.documents[rows], W, self._symmetric)
            begin += len(test)
        return scores - self._sum(scores) / self._sum(np.ones(len(scores)))

    def _find_factor(self, scores: FloatArray) -> float:
        """Return the factor of centred scores that fits the clicks best, exactly 0 if none does."""
        at_zero = np.exp(self._log_shares(np.zeros(len(scores))))
        if self._weights @ (scores - self._sum(at_zero * scores)) <= 0.0:  # a concave function
            return 0.0
        best = minimize_scalar(
            lambda factor: -float(self._weights @ self._log_shares(factor * scores)),
            bounds=(0.0, _SHARPEST),
            method="bounded",
        )
        return float(best.x)

    def _log_shares(self, scores: FloatArray) -> FloatArray:
        """Return the log of the share of each document in the clicks of its list."""
        values = scores + self._by_position
        return values - np.log(self._sum(np.exp(values)))

    def _sum(self, values: FloatArray) -> FloatArray:
        """Return for each row the sum over its list."""
        lists = self._log.impressions
        return np.bincount(lists, values).astype(np.float64)[lists]

    def _by_query(self, values: FloatArray) -> FloatArray:
        """Return the weighted sum over the clicks of each query."""
        sums: FloatArray = np.bincount(
            self._log.queries, self._weights * values, self._log.n_queries
        ).astype(np.float64)
        return sums


def score_shown(
    collection: Collection, queries: FloatArray, documents: IntArray, W: FloatArray, symmetric: bool
) -> FloatArray:
    """Return the score of each document for the query of the same row, under a map."""
    scores = np.empty(len(documents))
    for begin in range(0, len(scores), _ROWS):
        rows = slice(begin, begin + _ROWS)
        q, x = queries[rows] @ W.T, collection.documents[documents[rows]]
        x = x @ W.T if symmetric else x
        gaps = q - x
        scores[rows] = -0.5 * np.vecdot(gaps, gaps) if collection.by_distance else np.vecdot(q, x)
    return scores


def _narrow(pairs: Relevance, rng: np.random.Generator) -> tuple[Relevance, IntArray | None]:
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

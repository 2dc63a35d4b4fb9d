"""Which documents a query competes for: all, or relevant, hard and random ones."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.holdout.units import same_rows
from mdaml.retrieval._objective import Block
from mdaml.retrieval._relevance import Relevance
from mdaml.retrieval._scores import scale_rows
from mdaml.retrieval._search import Arrays, Values, search

_SCORES = 1 << 22  # of a block: 16 MB in single precision
_ALL = 1 << 26  # scores of a pass, up to which every query competes for all documents
_MINED = 1 << 14  # documents among which hard ones are looked for
_COPY = 1e-5  # tolerance within which vectors are those of one document
_REPEAT = 1e-3  # and of one query: encoders round differently from batch to batch
_MORE_QUERIES = 512  # documents that may take the part of queries, where queries are fewer

_MOST_SHARED = 64  # queries of a document that are looked at


@dataclass(frozen=True)
class Collection:
    """Vectors of a fit as a similarity needs them, and where to compute."""

    queries: FloatArray  # (n_queries, d)
    documents: FloatArray  # (n_documents, d)
    own: IntArray  # (n_queries,) a document with the very vector of the query, or -1
    copies: "Copies"  # documents by the vector they hold
    stored: Values  # the documents in arrays of the library
    arrays: Arrays
    by_distance: bool  # stored vectors are ranked by distance, not by product


@dataclass(frozen=True)
class Lessons:
    """Queries to learn from; documents that share a query take the part of queries too."""

    vectors: FloatArray  # (n, d)
    pairs: Relevance  # of the vectors
    weights: FloatArray  # of the pairs; they sum to one
    own: IntArray  # (n,) the document that a vector is, or -1
    shown: IntArray | None = None  # documents of a log of clicks

    @cached_property
    def known(self) -> IntArray:
        """Documents that are relevant for some of the vectors, or were shown; sorted."""
        relevant = np.unique(self.pairs.documents)
        return relevant if self.shown is None else np.union1d(relevant, self.shown)


def collect(
    queries: FloatArray, documents: FloatArray, arrays: Arrays, by_distance: bool
) -> Collection:
    """Return vectors with what is known of copies among them."""
    n = len(documents)
    first = same_rows(documents, _COPY, queries)
    own = np.where(first[n:] < n, first[n:], -1)
    stored = arrays.put(documents)
    return Collection(queries, documents, own, Copies(first[:n]), stored, arrays, by_distance)


def find_repeats(queries: FloatArray, by_length: bool) -> IntArray:
    """Return for each query the first row of the same query.

    What was relevant for any row of a repeated query is joined. Otherwise a query would be learned
    from while its repeat is held out, its other answers would count as wrong ones, and tests would
    count the same query many times. ``by_length``: whether the length of a query changes what it
    finds.
    """
    return same_rows(queries if by_length else scale_rows(queries), _REPEAT)


def make_lessons(
    collection: Collection,
    pairs: Relevance,
    rng: np.random.Generator,
    is_rough: bool = False,
    shown: IntArray | None = None,
) -> Lessons:
    """Return queries with relevant documents, and documents with others relevant for one query.

    The documents together weigh as much as the queries. Within a query, grades are weights. A
    document that is a query itself, held out or not, takes no part as one of these documents. Where
    documents are given that were ``shown``, the pairs are clicks: the more a query has of them, the
    more it counts.
    """
    rows = np.unique(pairs.queries)
    asked = pairs.of(rows)
    limit = len(rows) if is_rough else max(_MORE_QUERIES, len(rows))
    known, alike = _pair_documents(asked, collection.own[collection.own >= 0], limit, rng)
    vectors, own = collection.queries[rows], collection.own[rows]
    weights = _share(asked) if shown is None else asked.grades / asked.grades.sum()
    if len(known) == 0:
        return Lessons(vectors, asked, weights, own, shown)
    joined = Relevance(
        np.concatenate([asked.queries, alike.queries + len(rows)]),
        np.concatenate([asked.documents, alike.documents]),
        np.concatenate([asked.grades, alike.grades]),
        len(rows) + len(known),
        asked.n_documents,
    )
    return Lessons(
        np.concatenate([vectors, collection.documents[known]]),
        joined,
        0.5 * np.concatenate([weights, _share(alike)]),
        np.concatenate([own, known]),
        shown,
    )


def _share(pairs: Relevance) -> FloatArray:
    """Return weights of pairs: the same for all queries, within a query by grade."""
    total = np.bincount(pairs.queries, pairs.grades, minlength=pairs.n_queries)
    return pairs.grades / total[pairs.queries] / pairs.n_queries


def _pair_documents(
    pairs: Relevance, left_out: IntArray, limit: int, rng: np.random.Generator
) -> tuple[IntArray, Relevance]:
    """Return documents of which another is relevant for the same query, and these others."""
    shared = np.flatnonzero(np.diff(pairs.starts) > 1)
    some = pairs.of(shared)
    known = np.setdiff1d(some.documents, left_out)
    if len(known) > limit:
        known = np.sort(rng.choice(known, limit, replace=False))
    by_document = []
    order = np.argsort(some.documents, kind="stable")
    bounds = np.searchsorted(some.documents[order], [known, known + 1])
    starts = some.starts
    for row, begin, end in zip(known, *bounds, strict=True):
        queries = some.queries[order[begin:end]][:_MOST_SHARED]
        near = np.unique(
            np.concatenate([some.documents[starts[q] : starts[q + 1]] for q in queries])
        )
        by_document.append(near[near != row])
    counts = np.array([len(near) for near in by_document], np.int64)
    documents = np.concatenate([*by_document, np.empty(0, np.int64)])
    rows = np.repeat(np.arange(len(known)), counts)
    return known, Relevance(rows, documents, np.ones(len(rows)), len(known), some.n_documents)


def make_blocks(
    collection: Collection,
    lessons: Lessons,
    n_candidates: int,
    W: FloatArray,
    rng: np.random.Generator,
) -> list[Block]:
    """Return all lessons in blocks; with sampled documents, hard ones are those under the map W.

    Only documents that are relevant for some query take part: nobody said that the others are not
    relevant, and those of queries to come would be pushed away.
    """
    n, known = len(lessons.vectors), lessons.known
    if n_candidates >= len(known):
        step = max(1, _SCORES // len(known))
        stored = _take(collection, known)
        return [
            _make_block(collection, lessons, np.arange(start, min(start + step, n)), known, stored)
            for start in range(0, n, step)
        ]
    size = max(1, n_candidates // 4)
    order = rng.permutation(n)
    hard = _find_hard(collection, lessons, W, rng)
    blocks = []
    for start in range(0, n, size):
        rows = np.sort(order[start : start + size])
        drawn = known[rng.integers(len(known), size=n_candidates // 4)]
        relevant = lessons.pairs.of(rows).documents
        pool = np.unique(np.concatenate([relevant, hard[rows].reshape(-1), drawn]))
        stored = _take(collection, pool)
        blocks.append(_make_block(collection, lessons, rows, pool, stored))
    return blocks


def _take(collection: Collection, rows: IntArray) -> Values:
    return collection.stored[collection.arrays.put(rows)]


def choose_n_negatives(n_negatives: int | str, n_queries: int, n_documents: int) -> int:
    """Return for how many documents a query competes; all, if there are not more."""
    if n_negatives != "auto":
        return min(int(n_negatives), n_documents)
    if n_queries * n_documents <= _ALL:
        return n_documents
    return min(n_documents, max(512, min(2048, _ALL // n_queries)))


def _find_hard(
    collection: Collection, lessons: Lessons, W: FloatArray, rng: np.random.Generator
) -> IntArray:
    """Return the two best documents of each query, among some, that are not relevant."""
    n_documents, known = len(collection.documents), lessons.known
    mined = np.sort(rng.choice(known, min(_MINED, len(known)), replace=False))
    stored = collection.documents[mined]
    found, _ = search(
        lessons.vectors @ W.T,
        stored,
        4,
        by_distance=collection.by_distance,
        device=collection.arrays.device,
    )
    found = mined[found]
    pairs = lessons.pairs
    keys = pairs.queries * n_documents + pairs.documents
    sought = np.arange(len(found))[:, None] * n_documents + found
    is_relevant = np.isin(sought, keys)
    order = np.argsort(is_relevant, axis=1, kind="stable")[:, :2]  # others first
    return np.take_along_axis(found, order, axis=1)


def _make_block(
    collection: Collection, lessons: Lessons, rows: IntArray, pool: IntArray, stored: Values
) -> Block:
    arrays = collection.arrays
    pairs = lessons.pairs.of(rows)
    weights = lessons.weights[lessons.pairs.places(rows)]
    banned = _ban(collection, lessons, rows, pairs)
    near = (pairs.queries, np.searchsorted(pool, pairs.documents))
    places = np.minimum(np.searchsorted(pool, banned[1]), len(pool) - 1)
    there = pool[places] == banned[1]
    banned = (banned[0][there], places[there])
    dtype = collection.documents.dtype
    return Block(
        arrays.put(np.ascontiguousarray(lessons.vectors[rows])),
        stored,
        (arrays.put(near[0]), arrays.put(near[1])),
        arrays.put(weights.astype(dtype)),
        (arrays.put(banned[0]), arrays.put(banned[1])),
    )


def _ban(
    collection: Collection, lessons: Lessons, rows: IntArray, pairs: Relevance
) -> tuple[IntArray, IntArray]:
    """Return pairs of queries and documents that take no part.

    They are copies of relevant documents, and copies of the query itself.
    """
    own = lessons.own[rows]
    query = np.concatenate([pairs.queries, np.flatnonzero(own >= 0)])
    document = np.concatenate([pairs.documents, own[own >= 0]])
    query, document = collection.copies.spread(query, document)
    n_documents = pairs.n_documents
    keys = pairs.queries * n_documents + pairs.documents
    kept = ~np.isin(query * n_documents + document, keys)
    return query[kept], document[kept]


class Copies:
    """Documents by the vector they hold."""

    def __init__(self, first: IntArray) -> None:
        self.first = first  # (n_documents,) the first row with the same vector
        self._order = np.argsort(first, kind="stable")
        self._sorted = first[self._order]

    def spread(self, query: IntArray, document: IntArray) -> tuple[IntArray, IntArray]:
        """Return each pair once for each copy of its document, itself included."""
        key = self.first[document]
        begin = np.searchsorted(self._sorted, key)
        counts = np.searchsorted(self._sorted, key, side="right") - begin
        ends = np.cumsum(counts)
        places = np.arange(counts.sum()) + np.repeat(begin - (ends - counts), counts)
        return np.repeat(query, counts), self._order[places]

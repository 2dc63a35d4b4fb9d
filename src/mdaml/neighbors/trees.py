"""Nearly all neighbours of the same and of other classes, among many rows.

In every round a random tree cuts the rows into leaves of a few hundred that lie together. The rows
of a leaf are compared with each other and with the neighbours that any of them had so far, by one
product of matrices. Trees over all rows and trees within each class take turns, until a sample of
exact searches says that the wanted share of the true neighbours was found.

A row is in one leaf of a tree, and only the thread of this leaf reads and changes its list: results
do not depend on the number of threads.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.neighbor_lists import copy_rows, keep_candidates, project_rows, sort_lists
from mdaml.kernels.products import blocks, one_blas_thread
from mdaml.kernels.threads import share
from mdaml.neighbors.search import Wanted

_LEAF = 512  # rows of a leaf, at most
_QUERIES = 128  # rows of a leaf whose distances are computed at once: they stay in the cache
_POOLED = 6  # of each kind, so many neighbours of a row are shown to its leaf; no list is shorter
_MOST_ROUNDS = 24
N_TRIED = 400  # rows whose neighbours are searched exactly, to see how many were found
TREES, MOST_TURNS = 3, _MOST_ROUNDS // 3  # of a search in parts: rounds of a turn, and turns

Found = tuple[IntArray, FloatArray]


class NeighborLists(NamedTuple):
    """The nearest that some rows know so far: those of their class, then those of others."""

    places: IntArray  # (m, k) nearest first in either part; -1 for none
    dists: FloatArray  # (m, k) squared while lists are compared
    split: int  # where others begin

    @classmethod
    def none(cls, n_rows: int, wanted: Wanted) -> "NeighborLists":
        """Return lists for as many as are wanted of both kinds, without any in them."""
        n_near, n_far = (max(n, _POOLED) for n in wanted)
        shape = (n_rows, n_near + n_far)
        return cls(np.full(shape, -1, np.int32), np.full(shape, np.inf, np.float32), n_near)

    def shares(self, true: IntArray, wanted: Wanted) -> list[float]:
        """Return which shares of the true places of both kinds are in the lists."""
        shares = []
        for begin, n in ((0, wanted[0]), (self.split, wanted[1])):
            asked, have = (places[:, begin : begin + n] for places in (true, self.places))
            hits = (asked[:, :, None] == have[:, None, :]).any(axis=2) & (asked >= 0)
            shares.append(float(hits.sum() / max((asked >= 0).sum(), 1)))
        return shares


def nearly_nearest(
    X: FloatArray, bounds: IntArray, rows: IntArray, wanted: Wanted, recall: float
) -> tuple[Found, Found]:
    """Return the nearest places of each place in its class, and outside, and squared distances.

    -1 and infinity where there are fewer. ``bounds`` and ``rows`` as of :mod:`mdaml.neighbors`;
    ``wanted`` says how many of both kinds. Rounds end when at least the share ``recall`` of either
    kind was found, as far as a sample tells, or after 24.
    """
    rng, ranges = np.random.default_rng(0), (np.array([0, len(X)]), _class_cuts(bounds))
    Z, _ = _scaled(X)
    tried = np.sort(rng.permutation(len(Z))[:N_TRIED])
    with one_blas_thread():
        true = _search_all(Z, bounds, tried, wanted).places
        # Renumbered within classes so that rows which lie together do so in memory too.
        order, _ = _grow(Z, ranges[1], rng)
        number = np.argsort(order)
        Z, lists = Z[order], NeighborLists.none(len(X), wanted)
        tried, true = number[tried], np.where(true >= 0, number[true], -1)
        for turn in range(_MOST_ROUNDS):
            _join(Z, bounds, lists, *_grow(Z, ranges[turn % 2], rng))
            if min(lists._replace(places=lists.places[tried]).shares(true, wanted)) >= recall:
                break
        _complete(Z, bounds, lists, np.arange(len(X)), rng)
        del Z
        return _sorted(X, rows, lists, order, wanted)


def improve(
    X: FloatArray,
    bounds: IntArray,
    rows: IntArray,
    members: IntArray,
    known: NeighborLists,
    rng: np.random.Generator,
) -> NeighborLists:
    """Return better lists of some places, the members: a turn of a search in parts.

    X has the members and all places that they know; its rows, bounds and numbers as for
    :func:`nearly_nearest`. Members are compared in the leaves of three trees over them: over all,
    within each class, over all.
    """
    Z, size = _scaled(X)
    wanted = known.split, known.places.shape[1] - known.split
    with one_blas_thread():
        order, _ = _grow(Z, _class_cuts(bounds), rng)
        number = np.argsort(order).astype(np.int32)
        Z, lists = Z[order], NeighborLists.none(len(X), wanted)
        among = number[members]
        lists.places[among] = np.where(known.places >= 0, number[known.places], -1)
        lists.dists[among] = (known.dists / size) ** 2
        among.sort()
        of_class = _class_cuts(np.searchsorted(among, bounds[among]))
        for turn in range(TREES):
            cuts = of_class if turn % 2 else np.array([0, len(among)])
            leaves, cuts = _grow(Z[among], cuts, rng)
            _join(Z, bounds, lists, among[leaves], cuts)
        _complete(Z, bounds, lists, among, rng)
        del Z
        near, far = _sorted(X, rows, lists, order, wanted)
    return known._replace(
        places=np.hstack([near[0][members], far[0][members]]),
        dists=np.sqrt(np.hstack([near[1][members], far[1][members]])).astype(np.float32),
    )


def search_all(
    X: FloatArray, bounds: IntArray, tried: IntArray, wanted: Wanted
) -> tuple[IntArray, FloatArray]:
    """Return the nearest of some places and their distances, searched among all."""
    Z, size = _scaled(X)
    with one_blas_thread():
        lists = _search_all(Z, bounds, tried, wanted)
    return lists.places, size * np.sqrt(lists.dists)


def _scaled(X: FloatArray) -> tuple[FloatArray, float]:
    """Return a copy in single precision, centred, with entries of at most 1, and the unit."""
    Z = X - X.mean(axis=0)
    size = max(float(Z.max()), -float(Z.min()), float(np.finfo(Z.dtype).tiny))
    Z /= size
    return Z.astype(np.float32, copy=False), size


def _class_cuts(bounds: IntArray) -> IntArray:
    """Return where classes begin, and the end; small ones that follow each other stay together."""
    starts = np.append(np.unique(bounds[:, 0]), len(bounds)).tolist()
    cuts = [0]
    for begin, end in pairwise(starts):
        if end - cuts[-1] > _LEAF and begin > cuts[-1]:
            cuts.append(begin)
    return np.array([*cuts, len(bounds)])


def _grow(Z: FloatArray, cuts: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Cut ranges of rows along random directions until all are leaves; return order and cuts."""
    order, along = np.arange(len(Z), dtype=np.int32), np.empty(len(Z), np.float32)
    while True:
        large = np.flatnonzero(np.diff(cuts) > _LEAF)
        if len(large) == 0:
            return order, cuts
        begins, sizes = cuts[large], np.diff(cuts)[large]
        n_leaves = -(-sizes // _LEAF)
        middles = begins + sizes * (n_leaves // 2) // n_leaves
        ranges = np.column_stack([begins, middles, begins + sizes])
        ends = begins[:, None] + (rng.random((len(large), 2)) * sizes[:, None]).astype(np.int64)
        share(project_rows, len(large), Z.size, Z, order, ranges, order[ends], along)
        share(_halve, len(large), 4 * len(Z), order, ranges, along)
        cuts = np.sort(np.append(cuts, middles))


def _halve(begin: int, end: int, order: IntArray, ranges: IntArray, along: FloatArray) -> None:
    for first, middle, last in ranges[begin:end]:
        halves = np.argpartition(along[first:last], middle - first)
        order[first:last] = order[first:last][halves]


def _join(
    Z: FloatArray, bounds: IntArray, lists: NeighborLists, order: IntArray, cuts: IntArray
) -> None:
    """Compare the rows of each leaf with each other and with the neighbours they have."""

    def join(begin: int, end: int) -> None:
        for leaf in range(begin, end):
            members = np.sort(order[cuts[leaf] : cuts[leaf + 1]])
            near, far = (lists.places[members, k : k + _POOLED] for k in (0, lists.split))
            pool = np.sort(np.concatenate([members, near.ravel(), far.ravel()]))
            distinct = (pool >= 0) & np.append(True, pool[1:] != pool[:-1])
            _compare(Z, bounds, lists, members, pool[distinct])

    share(join, len(cuts) - 1, 4 * _LEAF * len(order))


def _compare(
    Z: FloatArray, bounds: IntArray, lists: NeighborLists, members: IntArray, candidates: IntArray
) -> None:
    """Put candidates, which are sorted, into the lists of some rows."""
    own = np.searchsorted(candidates, bounds[members])
    middle = Z[members].mean(axis=0)  # products of short vectors lose little
    half, left, right = _factors(Z, members, candidates, middle)
    for first, last in blocks(0, len(members), _QUERIES):
        some = slice(first, last)
        args = (members[some], members[some], own[some], candidates, half[some])
        keep_candidates(*args, left[some] @ right.T, *lists)


def _complete(
    Z: FloatArray,
    bounds: IntArray,
    lists: NeighborLists,
    members: IntArray,
    rng: np.random.Generator,
) -> None:
    """Compare members that met no other class in any leaf with a sample of every class."""
    alone = members[lists.places[members, lists.split] < 0].astype(np.int32)
    firsts = np.unique(bounds[:, 0])[:_LEAF]
    some = np.union1d(rng.permutation(len(Z))[:_LEAF], firsts).astype(np.int32)
    for first, last in blocks(0, len(alone), _LEAF):
        _compare(Z, bounds, lists, alone[first:last], some)


def _sorted(
    X: FloatArray, rows: IntArray, lists: NeighborLists, order: IntArray, wanted: Wanted
) -> tuple[Found, Found]:
    """Return the nearest by distances of full precision, ties to the lower row."""
    parts = (lists.places[:, : lists.split], lists.places[:, lists.split :])
    found = []
    for places, n in zip(parts, wanted, strict=True):
        out, sq_dists = np.full((len(X), n), -1), np.full((len(X), n), np.inf)
        share(sort_lists, len(X), places.size * X.shape[1], X, order, rows, places, out, sq_dists)
        found.append((out, sq_dists))
    return found[0], found[1]


def _search_all(Z: FloatArray, bounds: IntArray, tried: IntArray, wanted: Wanted) -> NeighborLists:
    """Search the neighbours of some places among all places."""
    lists, middle = NeighborLists.none(len(tried), wanted), np.zeros_like(Z[0])

    def search(begin: int, end: int) -> None:
        some = np.arange(begin, end, dtype=np.int32)
        names = tried[some].astype(np.int32)  # one type of places: compiled once
        for first, last in blocks(0, len(Z), 4096):
            candidates = np.arange(first, last, dtype=np.int32)
            own = np.clip(bounds[names] - first, 0, last - first)
            half, left, right = _factors(Z, names, candidates, middle)
            keep_candidates(some, names, own, candidates, half, left @ right.T, *lists)

    share(search, len(tried), len(tried) * len(Z))
    return lists


def _factors(
    Z: FloatArray, queries: IntArray, candidates: IntArray, middle: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return half the squared norms of queries, and matrices whose product lacks just these.

    The product and the norms are half the squared distances of queries and candidates.
    """
    left = np.empty((len(queries), len(middle) + 1), np.float32)
    right = np.empty((len(candidates), len(middle) + 1), np.float32)
    copy_rows(Z, queries, middle, left)
    copy_rows(Z, candidates, middle, right)
    half = left[:, -1].copy()
    np.negative(left, out=left)
    left[:, -1] = 1.0
    return half, left, right

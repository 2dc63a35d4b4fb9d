"""Nearly all neighbours of the same and of other classes, among many rows.

In every round a random tree cuts the rows into leaves of a few hundred that lie together. The rows
of a leaf are compared with each other and with the neighbours that any of them had so far, by one
product of matrices. Trees over all rows and trees within each class take turns, until a sample of
exact searches says that the wanted share of the true neighbours was found.

A row is in one leaf of a tree, and only the thread of this leaf reads and changes its list: results
do not depend on the number of threads.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import exact_loop, fast_loop
from mdaml.kernels.products import blocks, one_blas_thread
from mdaml.kernels.threads import share

_LEAF = 512  # rows of a leaf, at most
_QUERIES = 128  # rows of a leaf whose distances are computed at once: they stay in the cache
_POOLED = 6  # of each kind, so many neighbours of a row are shown to its leaf; no list is shorter
_MOST_ROUNDS = 24
N_TRIED = 400  # rows whose neighbours are searched exactly, to see how many were found
TREES, MOST_TURNS = 3, _MOST_ROUNDS // 3  # of a search in parts: rounds of a turn, and turns

Found = tuple[IntArray, FloatArray]


class Known(NamedTuple):
    """The nearest that some rows know so far: those of their class, then those of others."""

    places: IntArray  # (m, k) nearest first in either part; -1 for none
    dists: FloatArray  # (m, k)
    split: int  # where others begin

    @classmethod
    def none(cls, n_rows: int, wanted: tuple[int, int]) -> "Known":
        """Return lists for as many as are wanted of both kinds, without any in them."""
        n_near, n_far = (max(n, _POOLED) for n in wanted)
        shape = (n_rows, n_near + n_far)
        return cls(np.full(shape, -1, np.int32), np.full(shape, np.inf, np.float32), n_near)

    def shares(self, true: "Known", wanted: tuple[int, int]) -> list[float]:
        """Return which shares of the true neighbours of both kinds are known."""
        shares = []
        for begin, n in ((0, wanted[0]), (self.split, wanted[1])):
            asked, have = (lists.places[:, begin : begin + n] for lists in (true, self))
            hits = (asked[:, :, None] == have[:, None, :]).any(axis=2) & (asked >= 0)
            shares.append(float(hits.sum() / max((asked >= 0).sum(), 1)))
        return shares


def nearly_nearest(
    X: FloatArray, bounds: IntArray, rows: IntArray, wanted: tuple[int, int], recall: float
) -> tuple[Found, Found]:
    """Return the nearest places of each place in its class, and outside, and squared distances.

    -1 and infinity where there are fewer. ``bounds`` and ``rows`` as of
    :func:`mdaml.kernels.neighbors.nearest`; ``wanted`` says how many of both kinds. Rounds end when
    at least the share ``recall`` of either kind was found, as far as a sample tells, or after 24.
    """
    rng, ranges = np.random.default_rng(0), (np.array([0, len(X)]), _class_cuts(bounds))
    Z, _ = _scaled(X)
    tried = np.sort(rng.permutation(len(Z))[:N_TRIED])
    with one_blas_thread():
        true = _true_neighbors(Z, bounds, tried, wanted)
        # Renumbered within classes so that rows which lie together do so in memory too.
        order, _ = _grow(Z, ranges[1], rng)
        number = np.argsort(order)
        lists = _Lists.empty(Z[order], bounds, wanted)
        del Z
        tried = number[tried]
        true = true._replace(places=np.where(true.places >= 0, number[true.places], -1))
        for turn in range(_MOST_ROUNDS):
            lists.join(*_grow(lists.Z, ranges[turn % 2], rng))
            if min(lists.known(tried).shares(true, wanted)) >= recall:
                break
        lists.complete(np.arange(len(X)), rng)
        return lists.finish(X, order, rows, wanted)


def improve(
    X: FloatArray,
    bounds: IntArray,
    rows: IntArray,
    members: IntArray,
    known: Known,
    rng: np.random.Generator,
) -> Known:
    """Return better lists of some places, the members: a turn of a search in parts.

    X has the members and all places that they know; its rows, bounds and numbers as for
    :func:`nearly_nearest`. Members are compared in the leaves of three trees over them: over all,
    within each class, over all.
    """
    Z, size = _scaled(X)
    with one_blas_thread():
        order, _ = _grow(Z, _class_cuts(bounds), rng)
        number = np.argsort(order).astype(np.int32)
        lists = _Lists.empty(Z[order], bounds, (known.split, known.places.shape[1] - known.split))
        del Z
        among = number[members]
        lists.places[among] = np.where(known.places >= 0, number[known.places], -1)
        lists.sq_dists[among] = (known.dists / size) ** 2
        among.sort()
        of_class = _class_cuts(np.searchsorted(among, bounds[among]))
        for turn in range(TREES):
            cuts = of_class if turn % 2 else np.array([0, len(among)])
            leaves, cuts = _grow(lists.Z[among], cuts, rng)
            lists.join(among[leaves], cuts)
        lists.complete(among, rng)
        near, far = lists.finish(X, order, rows, (known.split, lists.places.shape[1] - known.split))
    return known._replace(
        places=np.hstack([near[0][members], far[0][members]]),
        dists=np.sqrt(np.hstack([near[1][members], far[1][members]])).astype(np.float32),
    )


def known_exactly(
    X: FloatArray, bounds: IntArray, tried: IntArray, wanted: tuple[int, int]
) -> Known:
    """Return the nearest of some places, searched among all."""
    Z, size = _scaled(X)
    with one_blas_thread():
        true = _true_neighbors(Z, bounds, tried, wanted)
    return true._replace(dists=size * true.dists)


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
        share(_project, len(large), Z.size, Z, order, ranges, order[ends], along)
        share(_halve, len(large), 4 * len(Z), order, ranges, along)
        cuts = np.sort(np.append(cuts, middles))


@fast_loop
def _project(begin, end, Z, order, ranges, ends, along):
    """Write how far each row of some ranges lies along the line through two of its range."""
    for node in range(begin, end):
        direction = Z[ends[node, 0]] - Z[ends[node, 1]]
        for m in range(ranges[node, 0], ranges[node, 2]):
            total = np.float32(0.0)
            for c in range(Z.shape[1]):
                total += direction[c] * Z[order[m], c]
            along[m] = total


def _halve(begin, end, order, ranges, along):
    for first, middle, last in ranges[begin:end]:
        halves = np.argpartition(along[first:last], middle - first)
        order[first:last] = order[first:last][halves]


@dataclass(frozen=True)
class _Lists:
    """The nearest rows so far of each row: those of its class, then those of others."""

    Z: FloatArray  # (n, d) single precision, sorted by class
    bounds: IntArray  # (n, 2) of the class of each row
    places: IntArray  # (n, k) nearest first in either part; -1 for none
    sq_dists: FloatArray  # (n, k)
    split: int  # where others begin in a list

    @classmethod
    def empty(cls, Z: FloatArray, bounds: IntArray, wanted: tuple[int, int]) -> "_Lists":
        return cls(Z, bounds, *Known.none(len(Z), wanted))

    def known(self, some: IntArray) -> Known:
        """Return the lists of some rows."""
        return Known(self.places[some], np.sqrt(self.sq_dists[some]), self.split)

    def join(self, order: IntArray, cuts: IntArray) -> None:
        """Compare the rows of each leaf with each other and with the neighbours they have."""
        share(self._join, len(cuts) - 1, 4 * _LEAF * len(order), order, cuts)

    def _join(self, begin: int, end: int, order: IntArray, cuts: IntArray) -> None:
        for leaf in range(begin, end):
            members = np.sort(order[cuts[leaf] : cuts[leaf + 1]])
            near, far = (self.places[members, k : k + _POOLED] for k in (0, self.split))
            pool = np.concatenate([members, near.ravel(), far.ravel()])
            self.compare(members, _distinct(pool))

    def compare(self, members: IntArray, candidates: IntArray) -> None:
        """Put candidates, which are sorted, into the lists of some rows."""
        own = np.searchsorted(candidates, self.bounds[members])
        middle = self.Z[members].mean(axis=0)  # products of short vectors lose little
        half, left, right = _factors(self.Z, members, candidates, middle)
        for first, last in blocks(0, len(members), _QUERIES):
            some = slice(first, last)
            args = (members[some], members[some], own[some], candidates, half[some])
            _keep(*args, left[some] @ right.T, self.places, self.sq_dists, self.split)

    def complete(self, members: IntArray, rng: np.random.Generator) -> None:
        """Compare members that no leaf gave any of another class with a sample of every class."""
        alone = members[self.places[members, self.split] < 0].astype(np.int32)
        firsts = np.unique(self.bounds[:, 0])[:_LEAF]
        some = np.union1d(rng.permutation(len(self.Z))[:_LEAF], firsts).astype(np.int32)
        for first, last in blocks(0, len(alone), _LEAF):
            self.compare(alone[first:last], some)

    def finish(
        self, X: FloatArray, order: IntArray, rows: IntArray, wanted: tuple[int, int]
    ) -> tuple[Found, Found]:
        """Return the nearest by distances of full precision, ties to the lower row."""
        parts = (self.places[:, : self.split], self.places[:, self.split :])
        found = []
        for places, n in zip(parts, wanted, strict=True):
            out, sq_dists = np.full((len(X), n), -1), np.full((len(X), n), np.inf)
            share(_sort, len(X), places.size * X.shape[1], X, order, rows, places, out, sq_dists)
            found.append((out, sq_dists))
        return found[0], found[1]


def _distinct(places: IntArray) -> IntArray:
    """Return each place once, sorted, without -1."""
    places = np.sort(places, axis=None)
    return places[(places >= 0) & np.append(True, places[1:] != places[:-1])]


def _true_neighbors(
    Z: FloatArray, bounds: IntArray, tried: IntArray, wanted: tuple[int, int]
) -> Known:
    """Return the nearest places of some places, searched among all."""
    lists, middle = _Lists.empty(Z[tried], bounds[tried], wanted), np.zeros_like(Z[0])

    def search(begin: int, end: int) -> None:
        some = np.arange(begin, end, dtype=np.int32)
        names = tried[some].astype(np.int32)  # one type of places: compiled once
        for first, last in blocks(0, len(Z), 4096):
            candidates = np.arange(first, last, dtype=np.int32)
            own = np.clip(lists.bounds[some] - first, 0, last - first)
            half, left, right = _factors(Z, names, candidates, middle)
            found = (lists.places, lists.sq_dists, lists.split)
            _keep(some, names, own, candidates, half, left @ right.T, *found)

    share(search, len(tried), len(tried) * len(Z))
    return lists.known(np.arange(len(tried)))


def _factors(
    Z: FloatArray, queries: IntArray, candidates: IntArray, middle: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return half the squared norms of queries, and matrices whose product lacks just these.

    The product and the norms are half the squared distances of queries and candidates.
    """
    left = np.empty((len(queries), len(middle) + 1), np.float32)
    right = np.empty((len(candidates), len(middle) + 1), np.float32)
    _copy_rows(Z, queries, middle, left)
    _copy_rows(Z, candidates, middle, right)
    half = left[:, -1].copy()
    np.negative(left, out=left)
    left[:, -1] = 1.0
    return half, left, right


@fast_loop
def _copy_rows(Z, rows, middle, out):
    """Copy rows, seen from the middle, each with half its squared norm behind it."""
    for r in range(len(rows)):
        total = np.float32(0.0)
        for c in range(len(middle)):
            value = Z[rows[r], c] - middle[c]
            out[r, c] = value
            total += value * value
        out[r, len(middle)] = np.float32(0.5) * total


@fast_loop
def _keep(queries, names, own, candidates, half, products, places, sq_dists, split):
    """Put candidates into the lists of queries; ``own[q]`` is the range of those of q's class.

    ``half[q] + products[q, c]`` is half a squared distance. Sixty-four are compared at a time with
    the last of a list; unsigned places let the compiler use vector units for that.
    """
    chunk = np.uintp(64)
    for q in range(len(queries)):
        i, inner = queries[q], products[q]
        for part in range(3):  # others, own class, others
            c = np.uintp(0 if part == 0 else own[q, part - 1])
            last = np.uintp(own[q, part] if part < 2 else len(candidates))
            first, stop = (0, split) if part == 1 else (split, places.shape[1])
            limit = np.float32(0.5 * sq_dists[i, stop - 1] - half[q])
            while c < last:
                upto, hit = min(c + chunk, last), np.int32(0)
                if upto - c == chunk:
                    for e in range(chunk):
                        hit |= np.int32(inner[c + e] < limit)
                else:
                    hit = np.int32(1)
                if hit:
                    for e in range(c, upto):
                        if inner[e] < limit and candidates[e] != names[q]:
                            sq_dist = max(2 * (inner[e] + half[q]), np.float32(0.0))
                            _put(i, first, stop, candidates[e], sq_dist, places, sq_dists)
                            limit = np.float32(0.5 * sq_dists[i, stop - 1] - half[q])
                c = upto


@fast_loop
def _put(i, first, stop, candidate, sq_dist, places, sq_dists):
    """Place a candidate that is near enough in a part of a list, unless it is there."""
    for k in range(first, stop):
        if places[i, k] == candidate:
            return
    k = stop - 1
    while k > first and sq_dists[i, k - 1] > sq_dist:
        places[i, k], sq_dists[i, k] = places[i, k - 1], sq_dists[i, k - 1]
        k -= 1
    places[i, k], sq_dists[i, k] = candidate, sq_dist


@exact_loop
def _sort(begin, end, X, order, rows, places, out, out_dists):
    """Write the nearest of each list to its place, by distances of X and then by row."""
    found, sq_dists = np.empty(places.shape[1], np.int64), np.empty(places.shape[1])
    for i in range(begin, end):
        n = 0
        while n < places.shape[1] and places[i, n] >= 0:
            j, total = order[places[i, n]], 0.0
            for c in range(X.shape[1]):
                diff = np.float64(X[order[i], c]) - X[j, c]
                total += diff * diff
            m = n
            while m > 0 and (
                total < sq_dists[m - 1]
                or (total == sq_dists[m - 1] and rows[j] < rows[found[m - 1]])
            ):
                sq_dists[m], found[m] = sq_dists[m - 1], found[m - 1]
                m -= 1
            sq_dists[m], found[m] = total, j
            n += 1
        for k in range(min(n, out.shape[1])):
            out[order[i], k], out_dists[order[i], k] = found[k], sq_dists[k]

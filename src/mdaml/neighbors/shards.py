"""Neighbours of labelled rows, found shard by shard.

Few rows are all sent to every worker, which compares its share of them with all. Many rows are
dealt out anew in every turn: a random tree, grown from a sample, cuts the space into a cell for
each shard. A worker gets the rows of its cell and copies of the neighbours that these rows know,
wherever they lie, and compares them as a search in one memory does. So its work depends on the
rows of a cell, not on the number of shards. Turns end when the wanted share of the true neighbours
was found, as far as a sample tells that is searched exactly.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.neighbors import nearest
from mdaml.kernels.products import one_blas_thread
from mdaml.neighbors import trees
from mdaml.neighbors.search import Wanted, is_exact

_ROWS_OF_A_CELL = 2_000  # at least: fewer rows are searched by fewer workers
_SAMPLE, _SAMPLE_OF_A_CELL = 20_000, 1_000  # rows that trees are grown from, at least
_LANDMARKS = 512  # rows of all classes, for rows that meet no other class

Ref = TypeVar("Ref")  # a result on a worker
# Cells from the first number on lie before a limit along a direction, those from the second on
# behind it; the last number says which of the rows on the limit are before it.
Cut = tuple[int, int, FloatArray, float, float]


class Workers(Protocol[Ref]):
    """What the search needs of a cluster, a worker for each shard."""

    def task(self, index: int, function: Callable[..., object], *args: object) -> Ref:
        """Return a result to be computed on the worker of a shard."""

    def share(self, value: object) -> Ref:
        """Send a value to one worker; it goes on from there."""

    def fetch(self, parts: Sequence[Ref]) -> list[Any]:
        """Return results, once they are there."""


def find_neighbors(
    workers: Workers[Ref],
    mapped: Sequence[Ref],
    owned: Sequence[IntArray],
    bounds: IntArray,
    rows: IntArray,
    wanted: Wanted,
) -> tuple[IntArray, IntArray]:
    """Return the nearest places of each place in its class, and outside; -1 where there are fewer.

    ``owned`` are the places whose rows each shard has, ``mapped`` these rows under the metric. Of
    many rows at least the share 0.95 of either kind is found, as far as a sample tells.
    """
    if is_exact(len(rows)):
        return _search_everywhere(workers, mapped, owned, bounds, rows, wanted)
    homes = [
        workers.task(i, Members.of, rows[places], bounds[places, 0], part)
        for i, (places, part) in enumerate(zip(owned, mapped, strict=True))
    ]
    cells = _search_in_turns(workers, homes, rows, bounds, wanted)
    place = np.full(int(rows.max()) + 2, -1)  # -1, for none, is read at the end
    place[rows] = np.arange(len(rows))
    near, far = (np.full((len(rows), n), -1) for n in wanted)
    parts = [workers.task(i, Members.results, cell, wanted) for i, cell in enumerate(cells)]
    for its_rows, its_near, its_far in workers.fetch(parts):
        near[place[its_rows]], far[place[its_rows]] = place[its_near], place[its_far]
    return near, far


# Few rows.


def _search_everywhere(
    workers: Workers[Ref],
    mapped: Sequence[Ref],
    owned: Sequence[IntArray],
    bounds: IntArray,
    rows: IntArray,
    wanted: Wanted,
) -> tuple[IntArray, IntArray]:
    """Compare all rows: each worker a share of them with all."""
    ends = np.linspace(0, len(rows), len(mapped) + 1).astype(int).tolist()
    layout = workers.share([np.argsort(np.concatenate(owned)), bounds, rows])
    found = workers.fetch(
        [
            workers.task(i, _nearest_of_range, mapped, layout, wanted, queries)
            for i, queries in enumerate(pairwise(ends))
        ]
    )
    near, far = zip(*found, strict=True)
    return np.concatenate(near), np.concatenate(far)


def _nearest_of_range(
    mapped: Sequence[FloatArray],
    layout: Sequence[IntArray],
    wanted: Wanted,
    queries: tuple[int, int],
) -> list[IntArray]:
    """Return the nearest of a range of places among all."""
    order, bounds, rows = layout
    Y = np.concatenate(mapped)[order]
    with one_blas_thread():
        return [
            nearest(Y, bounds, rows, n, same=kind == 0, queries=(queries[0], queries[1]))[0]
            for kind, n in enumerate(wanted)
        ]


# Many rows: what workers keep and compute.


class Members(NamedTuple):
    """Some labelled rows, sorted by class and number in X, and the neighbours each knows so far."""

    rows: IntArray  # (n,) numbers in X
    codes: IntArray  # (n,) class of each
    X: FloatArray  # (n, d) under the metric
    known: IntArray  # (n, k) numbers in X, as in NeighborLists; or (n, 0)
    dists: FloatArray  # (n, k)

    @classmethod
    def of(cls, rows: IntArray, codes: IntArray, X: FloatArray) -> "Members":
        """Return rows that are sorted already and have no lists of neighbours."""
        none = np.empty((len(rows), 0), np.float32)
        return cls(rows.astype(np.int32), codes.astype(np.int32), X, none.astype(np.int32), none)

    @classmethod
    def joined(cls, parts: "Sequence[Members]") -> "Members":
        """Return all rows of several parts, each once."""
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        first = np.unique(columns[0], return_index=True)[1]
        order = first[np.argsort(columns[1][first], kind="stable")]
        return cls._make(column[order] for column in columns)

    def take(self, places: IntArray) -> "Members":
        """Return the rows in some places, which are sorted."""
        return Members._make(column[places] for column in self)

    def among(self, rows: IntArray) -> "Members":
        """Return those rows that are among some."""
        return self.take(np.flatnonzero(np.isin(self.rows, rows)))

    def find(self, rows: IntArray) -> IntArray:
        """Return the places of rows, all of which are here; -1 for -1."""
        order = np.argsort(self.rows)
        places = order[np.searchsorted(self.rows, rows, sorter=order)]
        return np.where(rows >= 0, places, -1)

    @property
    def bounds(self) -> IntArray:
        """For each row the first place of its class and the one behind its last."""
        first = np.searchsorted(self.codes, self.codes)
        return np.column_stack([first, np.searchsorted(self.codes, self.codes, side="right")])

    def names(self, places: IntArray) -> IntArray:
        """Return the numbers in X of places; -1 for -1."""
        return np.where(places >= 0, self.rows[places], -1)

    def with_lists(self, wanted: Wanted) -> "Members":
        """Return the rows with empty lists for as many neighbours as are wanted."""
        lists = trees.NeighborLists.none(len(self.rows), wanted)
        return self._replace(known=lists.places, dists=lists.dists)

    def chosen(self, numbers: IntArray, number: int) -> "Members":
        """Return the rows that have been dealt to one cell."""
        return self.take(np.flatnonzero(numbers == number))

    def missing(self) -> IntArray:
        """Return the rows that are known here but lie elsewhere."""
        known = np.unique(self.known)
        return np.setdiff1d(known[known >= 0], self.rows)

    def improved(self, others: "Sequence[Members]", split: int, seed: Sequence[int]) -> "Members":
        """Compare the rows with each other and with those that they know."""
        if len(self.rows) == 0:
            return self
        union = Members.joined([Members.of(*self[:3]), *others])
        lists = trees.improve(
            union.X,
            union.bounds,
            union.rows,
            union.find(self.rows),
            trees.NeighborLists(union.find(self.known), self.dists, split),
            np.random.default_rng(seed),
        )
        return self._replace(known=union.names(lists.places), dists=lists.dists)

    def known_of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return which of some rows lie here, and what they know."""
        here = np.flatnonzero(np.isin(rows, self.rows))
        return here, self.known[self.find(rows[here])]

    def results(self, wanted: Wanted) -> tuple[IntArray, IntArray, IntArray]:
        """Return the rows, and their nearest of both kinds."""
        split = trees.NeighborLists.none(0, wanted).split
        return self.rows, self.known[:, : wanted[0]], self.known[:, split : split + wanted[1]]

    def true_neighbors(self, tried: "Members", wanted: Wanted) -> tuple[IntArray, FloatArray]:
        """Return the nearest of the rows tried among these rows, and among themselves."""
        union = Members.joined([self, tried])
        places, dists = trees.search_all(union.X, union.bounds, union.find(tried.rows), wanted)
        return union.names(places), dists

    def cells(self, cuts: Sequence[Cut]) -> IntArray:
        """Return the cell of each row."""
        number = np.zeros(len(self.rows), np.int32)
        for begin, middle, direction, limit, tie in cuts:
            inside = np.flatnonzero(number == begin)
            along, lot = _positions(self.X[inside], direction, self.rows[inside])
            behind = (along > limit) | ((along == limit) & (lot > tie))
            number[inside[behind]] = middle
        return number


def _positions(X: FloatArray, direction: FloatArray, rows: IntArray) -> tuple[FloatArray, IntArray]:
    """Return how far rows lie along a direction, and a number for each that orders equals."""
    # Not by BLAS, whose rounding depends on how many rows there are.
    return np.einsum("ij,j->i", X, direction), rows.astype(np.uint32) * np.uint32(2654435761)


# Many rows: what the driver does.


def grow_cells(sample: Members, n_cells: int, rng: np.random.Generator) -> list[Cut]:
    """Cut the space along lines through two rows of a cell until there are enough even cells."""
    todo, cuts = [(0, n_cells, np.arange(len(sample.rows)))], []
    while todo:
        begin, end, places = todo.pop()
        if end - begin < 2:
            continue
        one, other = sample.X[rng.choice(places, 2)]
        middle = (begin + end) // 2
        along, lot = _positions(sample.X[places], one - other, sample.rows[places])
        order = np.lexsort([lot, along])
        n_before = len(places) * (middle - begin) // (end - begin)
        last = order[max(n_before - 1, 0)]
        cuts.append((begin, middle, one - other, float(along[last]), float(lot[last])))
        todo.append((begin, middle, places[order[:n_before]]))
        todo.append((middle, end, places[order[n_before:]]))
    return cuts


def _search_in_turns(
    workers: Workers[Ref],
    homes: list[Ref],
    rows: IntArray,
    bounds: IntArray,
    wanted: Wanted,
    recall: float = 0.95,
) -> list[Ref]:
    """Return all rows with their neighbours, in cells; homes are the rows on their own shards."""
    rng, n, task = np.random.default_rng(0), len(rows), workers.task
    n_cells = max(1, min(len(homes), n // _ROWS_OF_A_CELL))
    drawn = rows[rng.permutation(n)[: max(_SAMPLE, _SAMPLE_OF_A_CELL * n_cells)]]
    firsts = rows[np.unique(bounds[:, 0])[:_LANDMARKS]]
    asked = [task(i, Members.among, h, np.union1d(drawn, firsts)) for i, h in enumerate(homes)]
    sample = Members.joined(workers.fetch(asked))
    tried = sample.take(np.sort(sample.find(drawn[: trees.N_TRIED])))
    marks = sample.take(sample.find(np.union1d(drawn[:_LANDMARKS], firsts)))
    asked = [task(i, Members.true_neighbors, h, tried, wanted) for i, h in enumerate(homes)]
    true = _merged(workers.fetch(asked), wanted)
    landmarks = workers.share(marks)
    parts = [task(i, Members.with_lists, home, wanted) for i, home in enumerate(homes)]
    for turn in range(trees.MOST_TURNS):
        cuts, found = grow_cells(sample, n_cells, rng), trees.NeighborLists.none(len(true), wanted)
        numbers = [task(i, Members.cells, part, cuts) for i, part in enumerate(parts)]
        dealt = []
        for w in range(n_cells):
            both = enumerate(zip(parts, numbers, strict=True))
            sent = [task(i, Members.chosen, part, number, w) for i, (part, number) in both]
            cell = task(w, Members.joined, sent)
            missing = task(w, Members.missing, cell)
            copies = [task(i, Members.among, home, missing) for i, home in enumerate(homes)]
            args = (cell, [landmarks, *copies], found.split, [turn, w])
            dealt.append(task(w, Members.improved, *args))
        parts = dealt
        asked = [task(i, Members.known_of, part, tried.rows) for i, part in enumerate(parts)]
        for here, known in workers.fetch(asked):
            found.places[here] = known
        if min(found.shares(true, wanted)) >= recall:
            break
    return parts


def _merged(found: Sequence[tuple[IntArray, FloatArray]], wanted: Wanted) -> IntArray:
    """Return the nearest rows of all that the shards found, as in :class:`NeighborLists`."""
    rows, dists = (np.hstack([part[k] for part in found]) for k in (0, 1))
    merged = trees.NeighborLists.none(len(rows), wanted)
    width, split = merged.places.shape[1], merged.split
    kind = np.tile(np.arange(width) >= split, len(found))
    for t, far in product(range(len(rows)), (False, True)):
        real = np.flatnonzero((kind == far) & (rows[t] >= 0))
        real = real[np.argsort(dists[t, real], kind="stable")]
        # The rows tried were with every shard, and are found more than once.
        distinct = rows[t, real[np.sort(np.unique(rows[t, real], return_index=True)[1])]]
        begin, end = (split, width) if far else (0, split)
        merged.places[t, begin:end][: len(distinct)] = distinct[: end - begin]
    return merged.places

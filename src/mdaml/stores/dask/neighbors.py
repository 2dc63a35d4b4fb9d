"""Neighbours of labelled rows, found shard by shard.

Few rows are all sent to every worker, which compares its share of them with all. Many rows are
dealt out anew in every turn: a random tree, grown from a sample, cuts the space into a cell for
each shard. A worker gets the rows of its cell and copies of the neighbours that these rows know,
wherever they lie, and compares them as a search in one memory does. So its work depends on the
rows of a cell, not on the number of shards. Turns end when the wanted share of the true neighbours
was found, as far as a sample tells that is searched exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.labels import Classes
from mdaml.kernels.neighbor_graph import MOST_TURNS, N_TRIED, Known, improve, known_exactly
from mdaml.kernels.products import one_blas_thread
from mdaml.stores.dask.cluster import Cluster, Part, same
from mdaml.stores.dask.shard import Kept, join, map_rows

_ROWS_OF_A_CELL = 2_000  # at least: fewer rows are searched by fewer workers
_SAMPLE, _SAMPLE_OF_A_CELL = 20_000, 1_000  # rows that trees are grown from, at least
_LANDMARKS = 512  # rows of all classes, for rows that meet no other class

Wanted = tuple[int, int]  # neighbours of the same class and of others


def find_neighbors(
    cluster: Cluster,
    own: Sequence[Part],
    cuts: IntArray,
    F: FloatArray,
    classes: Classes,
    wanted: Wanted,
) -> tuple[IntArray, IntArray]:
    """Return the nearest places of each place in its class, and outside; -1 where there are fewer.

    ``own`` are the rows of each shard, from ``cuts[i]`` to ``cuts[i + 1]``. Of many labelled rows
    at least the share 0.95 of either kind is found, as far as a sample tells.
    """
    places = _by_home(classes, cuts)
    mapped = [
        cluster.task(i, map_rows, part, classes.rows[places[i]] - cuts[i], F)
        for i, part in enumerate(own)
    ]
    if classes.are_few:
        return _search_all(cluster, mapped, cuts, classes, wanted)
    homes = [
        cluster.task(i, Some.of, classes.rows[places[i]], classes.of[places[i]], part)
        for i, part in enumerate(mapped)
    ]
    cells = _Search(cluster, homes, cuts, wanted).run(classes, recall=0.95)
    place = np.full(int(cuts[-1]) + 1, -1)  # -1, for none, is read at the end
    place[classes.rows] = np.arange(len(classes.rows))
    near, far = (np.full((len(classes.rows), n), -1) for n in wanted)
    parts = [cluster.task(i, Cell.results, cell, wanted) for i, cell in enumerate(cells)]
    for rows, its_near, its_far in cluster.fetch(parts):
        near[place[rows]], far[place[rows]] = place[its_near], place[its_far]
    return near, far


def _by_home(classes: Classes, cuts: IntArray) -> list[IntArray]:
    """Return the places whose rows each shard owns."""
    home = np.searchsorted(cuts, classes.rows, side="right") - 1
    return [np.flatnonzero(home == i) for i in range(len(cuts) - 1)]


# Few rows.


def _search_all(
    cluster: Cluster,
    mapped: list[Part],
    cuts: IntArray,
    classes: Classes,
    wanted: Wanted,
) -> tuple[IntArray, IntArray]:
    """Compare all rows: each worker a share of them with all."""
    ends = np.linspace(0, len(classes.rows), len(mapped) + 1).astype(int).tolist()
    shared = cluster.task(0, same, classes)  # sent once, then from worker to worker
    found = cluster.fetch(
        [
            cluster.task(i, _nearest_of_range, mapped, cuts, shared, wanted, queries)
            for i, queries in enumerate(pairwise(ends))
        ]
    )
    near, far = zip(*found, strict=True)
    return np.concatenate(near), np.concatenate(far)


def _nearest_of_range(
    mapped: Sequence[FloatArray],
    cuts: IntArray,
    classes: Classes,
    wanted: Wanted,
    queries: tuple[int, int],
) -> list[IntArray]:
    """Return the nearest of a range of places among all."""
    Y = join(_by_home(classes, cuts), mapped)
    with one_blas_thread():
        return [
            classes.nearest(Y, n, same=kind == 0, queries=queries)[0]
            for kind, n in enumerate(wanted)
        ]


# Many rows: what workers keep and compute.


@dataclass(frozen=True)
class Some(Kept):
    """Some labelled rows, sorted by class, then by their number in X."""

    rows: IntArray  # (n,) numbers in X
    codes: IntArray  # (n,) class of each
    X: FloatArray  # (n, d) under the metric

    @classmethod
    def of(cls, rows: IntArray, codes: IntArray, X: FloatArray) -> "Some":
        """Return rows that are sorted already."""
        return cls(rows.astype(np.int32), codes.astype(np.int32), X)

    @classmethod
    def joined(cls, parts: "Sequence[Some]") -> "Some":
        """Return all rows of several parts, each once."""
        X = np.concatenate([part.X for part in parts])
        rows, codes, order = cls.order(parts)
        return cls(rows[order], codes[order], X[order])

    @staticmethod
    def order(parts: "Sequence[Some]") -> tuple[IntArray, IntArray, IntArray]:
        """Return numbers and classes of all rows of several parts, and an order of each once."""
        rows, codes = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "codes")
        )
        first = np.unique(rows, return_index=True)[1]
        return rows, codes, first[np.argsort(codes[first], kind="stable")]

    def take(self, places: IntArray) -> "Some":
        """Return the rows in some places, which are sorted."""
        return Some(self.rows[places], self.codes[places], self.X[places])

    def among(self, rows: IntArray) -> "Some":
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


@dataclass(frozen=True)
class Cell(Kept):
    """The rows of a cell, and the neighbours that each knows so far, by their numbers in X."""

    some: Some
    known: Known

    @classmethod
    def of(cls, some: Some, wanted: Wanted) -> "Cell":
        """Return rows that know none."""
        return cls(some, Known.none(len(some.rows), wanted))

    @classmethod
    def joined(cls, parts: "Sequence[Cell]") -> "Cell":
        """Return the rows of several parts."""
        some, order = [part.some for part in parts], Some.order([part.some for part in parts])[-1]
        places, dists = (np.concatenate([part.known[k] for part in parts]) for k in (0, 1))
        return cls(Some.joined(some), Known(places[order], dists[order], parts[0].known.split))

    def chosen(self, numbers: IntArray, number: int) -> "Cell":
        """Return the rows that have been dealt to one cell."""
        places, known = np.flatnonzero(numbers == number), self.known
        return Cell(
            self.some.take(places), Known(known.places[places], known.dists[places], known.split)
        )

    def missing(self) -> IntArray:
        """Return the rows that are known here but lie elsewhere."""
        known = np.unique(self.known.places)
        return np.setdiff1d(known[known >= 0], self.some.rows)

    def improved(self, others: Sequence[Some], seed: Sequence[int]) -> "Cell":
        """Compare the rows with each other and with those that they know."""
        if len(self.some.rows) == 0:
            return self
        union, known = Some.joined([self.some, *others]), self.known
        known = improve(
            union.X,
            union.bounds,
            union.rows,
            union.find(self.some.rows),
            known._replace(places=union.find(known.places)),
            np.random.default_rng(seed),
        )
        return Cell(self.some, known._replace(places=union.names(known.places)))

    def known_of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return which of some rows lie here, and what they know."""
        here = np.flatnonzero(np.isin(rows, self.some.rows))
        return here, self.known.places[self.some.find(rows[here])]

    def results(self, wanted: Wanted) -> tuple[IntArray, IntArray, IntArray]:
        """Return the rows, and their nearest of both kinds."""
        places, split = self.known.places, self.known.split
        return self.some.rows, places[:, : wanted[0]], places[:, split : split + wanted[1]]


def _exactly(home: Some, tried: Some, wanted: Wanted) -> Known:
    """Return the nearest of some rows among those of a shard, and among themselves."""
    union = Some.joined([home, tried])
    found = known_exactly(union.X, union.bounds, union.find(tried.rows), wanted)
    return found._replace(places=union.names(found.places))


class _Cut(NamedTuple):
    """Cells from begin on lie before a limit along a direction, those from middle on behind it."""

    begin: int
    middle: int
    direction: FloatArray
    limit: float
    tie: float  # which of the rows on the limit are before it


@dataclass(frozen=True)
class Cells:
    """A tree that cuts the space into cells with about as many rows in each."""

    cuts: tuple[_Cut, ...]
    n_cells: int

    @classmethod
    def grow(cls, sample: Some, n_cells: int, rng: np.random.Generator) -> "Cells":
        """Cut along lines through two rows of a cell, at random, until there are enough cells."""
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
            cuts.append(_Cut(begin, middle, one - other, float(along[last]), float(lot[last])))
            todo.append((begin, middle, places[order[:n_before]]))
            todo.append((middle, end, places[order[n_before:]]))
        return cls(tuple(cuts), n_cells)

    def of(self, cell: Cell) -> IntArray:
        """Return the cell of each row."""
        number = np.zeros(len(cell.some.rows), np.int32)
        for cut in self.cuts:
            inside = np.flatnonzero(number == cut.begin)
            rows = cell.some.take(inside)
            along, lot = _positions(rows.X, cut.direction, rows.rows)
            behind = (along > cut.limit) | ((along == cut.limit) & (lot > cut.tie))
            number[inside[behind]] = cut.middle
        return number


def _positions(X: FloatArray, direction: FloatArray, rows: IntArray) -> tuple[FloatArray, IntArray]:
    """Return how far rows lie along a direction, and a number for each that orders equals."""
    # Not by BLAS, whose rounding depends on how many rows there are.
    return np.einsum("ij,j->i", X, direction), rows.astype(np.uint32) * np.uint32(2654435761)


# Many rows: what the driver does.


@dataclass(frozen=True)
class _Search:
    """A search in turns: rows under the metric on the shards that own them."""

    cluster: Cluster
    homes: list[Part]  # of Some
    cuts: IntArray  # where the rows of each shard begin, and their end
    wanted: Wanted

    def run(self, classes: Classes, recall: float) -> list[Part]:
        """Return all rows with their neighbours, in cells."""
        rng, n = np.random.default_rng(0), len(classes.rows)
        n_cells = max(1, min(len(self.homes), n // _ROWS_OF_A_CELL))
        drawn = classes.rows[rng.permutation(n)[: max(_SAMPLE, _SAMPLE_OF_A_CELL * n_cells)]]
        firsts = classes.rows[classes.first[:_LANDMARKS]]
        sample = self._fetch_rows(np.union1d(drawn, firsts))
        tried = sample.take(np.sort(sample.find(drawn[:N_TRIED])))
        marks = sample.take(sample.find(np.union1d(drawn[:_LANDMARKS], firsts)))
        cluster, true = self.cluster, self._true_neighbors(tried)
        landmarks = cluster.task(0, same, marks)
        parts = [cluster.task(i, Cell.of, home, self.wanted) for i, home in enumerate(self.homes)]
        for turn in range(MOST_TURNS):
            parts = self._turn(parts, Cells.grow(sample, n_cells, rng), landmarks, turn)
            known = true._replace(places=np.full_like(true.places, -1))
            asked = [cluster.task(i, Cell.known_of, p, tried.rows) for i, p in enumerate(parts)]
            for here, places in cluster.fetch(asked):
                known.places[here] = places
            if min(known.shares(true, self.wanted)) >= recall:
                break
        return parts

    def _fetch_rows(self, rows: IntArray) -> "Some":
        """Return some rows in this process."""
        found = [self.cluster.task(i, Some.among, home, rows) for i, home in enumerate(self.homes)]
        return Some.joined(self.cluster.fetch(found))

    def _true_neighbors(self, tried: "Some") -> Known:
        """Return the neighbours of some rows, searched among all rows."""
        cluster = self.cluster
        found = cluster.fetch(
            [cluster.task(i, _exactly, h, tried, self.wanted) for i, h in enumerate(self.homes)]
        )
        merged = Known.none(len(tried.rows), self.wanted)
        rows, dists = (np.hstack([part[k] for part in found]) for k in (0, 1))
        kind = np.tile(np.arange(merged.places.shape[1]) >= merged.split, len(found))
        for t, far in product(range(len(rows)), (False, True)):
            real = np.flatnonzero((kind == far) & (rows[t] >= 0))
            real = real[np.argsort(dists[t, real], kind="stable")]
            # The rows tried were with every shard, and are found more than once.
            nearest = rows[t, real[np.sort(np.unique(rows[t, real], return_index=True)[1])]]
            begin, end = (merged.split, len(kind) // len(found)) if far else (0, merged.split)
            merged.places[t, begin:end][: len(nearest)] = nearest[: end - begin]
        return merged

    def _turn(self, parts: list[Part], cells: "Cells", landmarks: Part, turn: int) -> list[Part]:
        """Deal the rows out to cells, send copies of what they know, and compare them."""
        task = self.cluster.task
        numbers = [task(i, cells.of, part) for i, part in enumerate(parts)]
        dealt = []
        for w in range(cells.n_cells):
            sent = [
                task(i, Cell.chosen, part, number, w)
                for i, (part, number) in enumerate(zip(parts, numbers, strict=True))
            ]
            cell = task(w, Cell.joined, sent)
            missing = task(w, Cell.missing, cell)
            copies = [task(i, Some.among, home, missing) for i, home in enumerate(self.homes)]
            dealt.append(task(w, Cell.improved, cell, [landmarks, *copies], [turn, w]))
        return dealt

"""Which shard keeps which rows, and what it sends to others when; made once, on the driver.

Every row has an owner, the shard whose block of rows it lies in. A shard holds the comparisons
whose near pair begins with a row that it owns. Rows that its comparisons name, or whose comparisons
name its own rows as similar, and that others own, are its *border*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.kernels.grouping import near_graph
from mdaml.stores.arrays import Turns


@dataclass(frozen=True)
class Survey:
    """What a shard tells the driver of its comparisons; all rows by their number in X."""

    near_rows: IntArray  # partners in near pairs that others own; sorted
    far_rows: IntArray  # partners in far pairs only that others own; sorted
    near_pairs: IntArray  # (n, 2) own row, partner
    places: IntArray  # (n,) of these pairs among all pairs of the shard


@dataclass(frozen=True)
class Border:
    """What a shard exchanges with the others, and the order of its updates.

    Its table has a row for each own row, then for each row in ``held``.
    """

    begin: int  # number in X of the first own row
    order: IntArray  # (n_own,) own rows, by round and colour
    rounds: IntArray  # (n_rounds + 1,) where each round begins in order
    colors: IntArray  # where in order the colour or the round changes, and the end
    is_shared: BoolArray  # (n_own,) whether others hold an own row
    receivers: list[list[int]]  # by round: the shards that hold a row which is updated then
    held: IntArray  # numbers in X: similar partners, then references with own rows as partners
    incoming: IntArray  # (m, 2) near pairs of others with an own row, in the table; by shard
    outgoing: dict[int, IntArray]  # by shard: own near pairs with one of its rows

    def is_read_by(self, shard: int) -> bool:
        """Return whether a shard holds own rows of this one."""
        return any(shard in targets for targets in self.receivers)

    @cached_property
    def by_number(self) -> IntArray:
        """The places of the rows held, sorted by their number in X."""
        return np.argsort(self.held)

    def find(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        """Return which of some rows of others are held, and their places in the table."""
        if len(self.held) == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        after = np.searchsorted(self.held, numbers, sorter=self.by_number)
        places = self.by_number[np.minimum(after, len(self.held) - 1)]
        found = np.flatnonzero(self.held[places] == numbers)
        return found, len(self.order) + places[found]


def cut_rows(references: IntArray, n_samples: int, n_shards: int) -> IntArray:
    """Return where blocks of rows begin, and their end: about as many rows and references in each.

    Every block has a reference; so there may be fewer blocks than asked for.
    """
    counts: IntArray = np.bincount(references, minlength=n_samples)
    distinct = np.flatnonzero(counts)
    n_shards = min(n_shards, len(distinct))
    load: FloatArray = np.cumsum(1.0 / n_samples + counts / len(references))
    shares = np.arange(1, n_shards) / n_shards - 1e-9  # less than rounding has done to the sums
    wanted = np.searchsorted(load, load[-1] * shares) + 1
    # References before each cut: at least one more than before the cut to its left, and no more
    # than leave one for every block to its right.
    steps = np.arange(1, n_shards)
    before = np.searchsorted(distinct, wanted)
    before = np.maximum.accumulate(np.maximum(before - steps, 0)) + steps
    before = np.minimum(before, len(distinct) - n_shards + steps)
    cuts = np.clip(wanted, distinct[before - 1] + 1, distinct[before])
    return np.concatenate([[0], cuts, [n_samples]])


def places_by(numbers: IntArray) -> dict[int, IntArray]:
    """Return, for each number that occurs, in order, the places where it occurs."""
    order = np.argsort(numbers, kind="stable")
    distinct, firsts = np.unique(numbers[order], return_index=True)
    ends = [*firsts.tolist(), len(order)]
    return {n: order[a:b] for n, (a, b) in zip(distinct.tolist(), pairwise(ends), strict=True)}


def make_borders(surveys: Sequence[Survey], cuts: IntArray) -> list[Border]:
    """Return what each shard updates and sends in which round, so that all is as in one memory."""
    owner = np.repeat(np.arange(len(surveys), dtype=np.int32), np.diff(cuts))
    color, turn = _take_turns(surveys, owner)
    crossing, outgoing = _crossing_pairs(surveys, owner)
    held = [
        np.append(s.near_rows, np.setdiff1d(pairs[:, 0], s.near_rows)).astype(np.int64)
        for s, pairs in zip(surveys, crossing, strict=True)
    ]
    is_shared = np.zeros(len(owner), bool)
    is_shared[np.concatenate(held)] = True
    n_rounds = int(turn.max()) + 1
    receivers: list[list[list[int]]] = [[[] for _ in range(n_rounds)] for _ in surveys]
    for t, rows in enumerate(held):
        keys = np.unique(owner[rows].astype(np.int64) * n_rounds + turn[rows])
        for source, when in zip(*np.divmod(keys, n_rounds), strict=True):
            receivers[source][when].append(t)
    borders = []
    for t, (begin, end) in enumerate(pairwise(cuts.tolist())):
        own_turn, own_color = turn[begin:end], color[begin:end]
        order = np.lexsort([own_color, own_turn])
        new_round, new_color = (np.diff(a[order], prepend=-1) != 0 for a in (own_turn, own_color))
        sorter, (references, own) = np.argsort(held[t]), crossing[t].T
        references = end - begin + sorter[np.searchsorted(held[t], references, sorter=sorter)]
        borders.append(
            Border(
                begin=begin,
                order=order,
                rounds=np.searchsorted(own_turn[order], np.arange(n_rounds + 1)),
                colors=np.append(np.flatnonzero(new_round | new_color), end - begin),
                is_shared=is_shared[begin:end],
                receivers=receivers[t],
                held=held[t],
                incoming=np.column_stack([references, own - begin]).astype(np.int32),
                outgoing=outgoing[t],
            )
        )
    return borders


def _crossing_pairs(
    surveys: Sequence[Survey], owner: IntArray
) -> tuple[list[IntArray], list[dict[int, IntArray]]]:
    """Return, for each shard, near pairs of others with its rows, and its own with rows of others.

    The first are (m, 2) rows of X, in the order of the others; the second places among all pairs of
    the shard, by the owner of the partner.
    """
    incoming: list[list[IntArray]] = [[np.empty((0, 2), np.int64)] for _ in surveys]
    outgoing: list[dict[int, IntArray]] = [{} for _ in surveys]
    for a, survey in enumerate(surveys):
        for b, chosen in places_by(owner[survey.near_pairs[:, 1]]).items():
            if a != b:
                incoming[b].append(survey.near_pairs[chosen])
                outgoing[a][b] = survey.places[chosen]
    return [np.concatenate(pairs) for pairs in incoming], outgoing


def _take_turns(surveys: Sequence[Survey], owner: IntArray) -> tuple[IntArray, IntArray]:
    """Return the colour of each row, and the round in which it is updated.

    The colours of the graph of near pairs are those of a fit in one memory. A sample waits only for
    neighbours of lower colours: so a shard goes on from colour to colour, and a new round begins
    only where it needs a row that another shard updates.
    """
    pairs = np.concatenate([survey.near_pairs for survey in surveys]).astype(np.int32)
    indptr, samples, places = near_graph(pairs, np.ones(len(pairs), bool), len(owner))
    by_color = Turns.from_graph((indptr, samples, places))
    color, turn = np.empty_like(owner), np.zeros_like(owner)
    color[by_color.order] = np.repeat(np.arange(len(by_color.colors) - 1), np.diff(by_color.colors))
    for begin, end in pairwise(by_color.colors[1:]):
        rows = by_color.order[begin:end]
        counts = indptr[rows + 1] - indptr[rows]
        ends = np.cumsum(counts)
        edges = np.arange(ends[-1]) + np.repeat(indptr[rows] - (ends - counts), counts)
        ones, others = np.repeat(rows, counts), samples[edges]
        earlier = color[others] < color[ones]
        ones, others = ones[earlier], others[earlier]
        np.maximum.at(turn, ones, turn[others] + (owner[others] != owner[ones]))
    return color, turn

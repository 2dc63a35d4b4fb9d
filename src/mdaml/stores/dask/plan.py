"""Who keeps which rows, and who tells whom what, when; made once, on the driver.

Every row has an owner, the shard whose block of rows it lies in. A shard holds the comparisons
whose near pair begins with a row that it owns. Rows that its comparisons name, or whose comparisons
name its own rows as similar, and that others own, are its *border*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from mdaml._typing import FloatArray, IntArray
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

    Rows by their place in the table of the shard: own rows, similar partners, then anchors of
    others that have own rows as similar partners. A *slot* is a place among the rows that a shard
    shares with others, listed by round.
    """

    order: IntArray  # (n_own,) own rows, by round and colour
    rounds: IntArray  # (n_rounds + 1,) where each round begins in order
    colors: IntArray  # where in order the colour or the round changes, and the end
    shared: IntArray  # own rows that others hold
    shared_rounds: IntArray  # (n_rounds + 1,) where each round begins in shared
    held: dict[int, tuple[IntArray, IntArray]]  # by owner: slots, sorted, and rows of the table
    n_rows: int  # of the table
    incoming: IntArray  # (m, 2) near pairs of others with an own row; by shard
    outgoing: dict[int, IntArray]  # by shard: own near pairs with one of its rows


@dataclass(frozen=True)
class Plan:
    """The borders of all shards."""

    borders: list[Border]
    n_rounds: int

    @cached_property
    def receivers(self) -> list[list[list[int]]]:
        """By source and round: the shards that hold a row which the source updates then."""
        found: list[list[list[int]]] = [[[] for _ in range(self.n_rounds)] for _ in self.borders]
        for target, border in enumerate(self.borders):
            for source, (slots, _) in border.held.items():
                begins = self.borders[source].shared_rounds
                for turn in np.unique(np.searchsorted(begins, slots, side="right") - 1):
                    found[source][turn].append(target)
        return found


def cut_rows(anchors: IntArray, n_samples: int, n_shards: int) -> IntArray:
    """Return where blocks of rows begin, and their end: about as many rows and anchors in each.

    Every block has an anchor; so there may be fewer blocks than asked for.
    """
    counts: IntArray = np.bincount(anchors, minlength=n_samples)
    distinct = np.flatnonzero(counts)
    n_shards = min(n_shards, len(distinct))
    load: FloatArray = np.cumsum(1.0 / n_samples + counts / len(anchors))
    shares = np.arange(1, n_shards) / n_shards - 1e-9  # less than rounding has done to the sums
    wanted = np.searchsorted(load, load[-1] * shares) + 1
    # Anchors before each cut: at least one more than before the cut to its left, and no more than
    # leave one for every block to its right.
    steps = np.arange(1, n_shards)
    before = np.searchsorted(distinct, wanted)
    before = np.maximum.accumulate(np.maximum(before - steps, 0)) + steps
    before = np.minimum(before, len(distinct) - n_shards + steps)
    cuts = np.clip(wanted, distinct[before - 1] + 1, distinct[before])
    return np.concatenate([[0], cuts, [n_samples]])


def make_plan(surveys: Sequence[Survey], cuts: IntArray) -> Plan:
    """Return who updates and tells what in which round, so that all is as if in one memory."""
    turns = _take_turns(surveys, cuts)
    crossing = _crossing_pairs(surveys, turns.owner)
    held = [_held_rows(t, survey, crossing) for t, survey in enumerate(surveys)]
    shared = np.unique(np.concatenate(held))
    shared = shared[np.lexsort([shared, turns.turn[shared], turns.owner[shared]])]
    firsts = np.searchsorted(turns.owner[shared], np.arange(len(surveys) + 1))
    slot = np.full(len(turns.turn), -1)
    slot[shared] = np.arange(len(shared)) - firsts[turns.owner[shared]]
    borders = []
    for t, rows in enumerate(held):
        order, rounds, colors = turns.order_of(slice(cuts[t], cuts[t + 1]))
        mine = shared[firsts[t] : firsts[t + 1]]
        borders.append(
            Border(
                order=order,
                rounds=rounds,
                colors=colors,
                shared=mine - cuts[t],
                shared_rounds=turns.begins(mine),
                held=_by_owner(rows, len(order), slot, turns.owner),
                n_rows=len(order) + len(rows),
                incoming=_incoming(t, crossing, rows, cuts),
                outgoing={b: places for (a, b), (_, places) in crossing.items() if a == t},
            )
        )
    return Plan(borders, turns.n_rounds)


@dataclass(frozen=True)
class _Rounds:
    """Owner, colour and round of every row."""

    owner: IntArray  # (N,)
    color: IntArray  # (N,)
    turn: IntArray  # (N,)

    @property
    def n_rounds(self) -> int:
        return int(self.turn.max()) + 1

    def begins(self, rows: IntArray) -> IntArray:
        """Return where each round begins among rows that are listed by round."""
        return np.searchsorted(self.turn[rows], np.arange(self.n_rounds + 1))

    def order_of(self, block: slice) -> tuple[IntArray, IntArray, IntArray]:
        """Return rows of a block by round and colour, and where rounds and colours begin."""
        turn, color = self.turn[block], self.color[block]
        order = np.lexsort([color, turn])
        changes = (np.diff(turn[order], prepend=-1) != 0) | (np.diff(color[order], prepend=-1) != 0)
        colors = np.append(np.flatnonzero(changes), len(order))
        return order, self.begins(order + block.start), colors


def _take_turns(surveys: Sequence[Survey], cuts: IntArray) -> _Rounds:
    """Return the round in which each row is updated.

    The colours of the graph of near pairs are those of a fit in one memory. A sample waits only for
    neighbours of lower colours: so a shard goes on from colour to colour, and a new round begins
    only where it needs a row that another shard updates.
    """
    pairs = np.concatenate([survey.near_pairs for survey in surveys]).astype(np.int32)
    none, one = np.zeros(len(pairs), np.int32), np.ones(len(pairs), np.int32)
    graph = near_graph(pairs, none, one, int(cuts[-1]))
    by_color = Turns.from_graph(graph)
    owner = np.repeat(np.arange(len(surveys), dtype=np.int32), np.diff(cuts))
    color, turn = np.empty_like(owner), np.zeros_like(owner)
    color[by_color.order] = np.repeat(np.arange(len(by_color.colors) - 1), np.diff(by_color.colors))
    for begin, end in pairwise(by_color.colors[1:]):
        rows = by_color.order[begin:end]
        ones, others = _edges(graph, rows)
        earlier = color[others] < color[ones]
        ones, others = ones[earlier], others[earlier]
        np.maximum.at(turn, ones, turn[others] + (owner[others] != owner[ones]))
    return _Rounds(owner, color, turn)


def _edges(graph: tuple[IntArray, ...], rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the two ends of all edges of some rows of a graph."""
    indptr, samples = graph[:2]
    counts = indptr[rows + 1] - indptr[rows]
    ends = np.cumsum(counts)
    places = np.arange(ends[-1]) + np.repeat(indptr[rows] - (ends - counts), counts)
    return np.repeat(rows, counts), samples[places]


_Crossing = dict[tuple[int, int], tuple[IntArray, IntArray]]


def _crossing_pairs(surveys: Sequence[Survey], owner: IntArray) -> _Crossing:
    """Return near pairs of anchors of one shard with rows of another, and their places."""
    crossing = {}
    for a, survey in enumerate(surveys):
        other = owner[survey.near_pairs[:, 1]]
        order = np.argsort(other, kind="stable")
        bounds = np.searchsorted(other[order], np.arange(len(surveys) + 1))
        for b, (begin, end) in enumerate(pairwise(bounds)):
            if a != b and begin < end:
                chosen = order[begin:end]
                crossing[a, b] = survey.near_pairs[chosen], survey.places[chosen]
    return crossing


def _held_rows(t: int, survey: Survey, crossing: _Crossing) -> IntArray:
    """Return the rows of others whose weights a shard needs: similar partners, then anchors."""
    anchors = [pairs[:, 0] for (_, b), (pairs, _) in crossing.items() if b == t]
    rest = np.setdiff1d(np.concatenate([*anchors, np.empty(0, np.int64)]), survey.near_rows)
    return np.concatenate([survey.near_rows, rest]).astype(np.int64)


def _by_owner(
    rows: IntArray, n_own: int, slot: IntArray, owner: IntArray
) -> dict[int, tuple[IntArray, IntArray]]:
    """Return, for each owner of held rows, their slots in order and their places in the table."""
    order = np.lexsort([slot[rows], owner[rows]])
    owners, begins = np.unique(owner[rows[order]], return_index=True)
    bounds = pairwise([*begins.tolist(), len(order)])
    return {
        int(one): (slot[rows[order[begin:end]]], n_own + order[begin:end])
        for one, (begin, end) in zip(owners, bounds, strict=True)
    }


def _incoming(t: int, crossing: _Crossing, rows: IntArray, cuts: IntArray) -> IntArray:
    """Return the near pairs of others with rows of a shard, by their places in its table."""
    sent = [pairs for (_, b), (pairs, _) in crossing.items() if b == t]
    pairs = np.concatenate([*sent, np.empty((0, 2), np.int64)])
    sorter = np.argsort(rows)
    places = sorter[np.searchsorted(rows, pairs[:, 0], sorter=sorter)]
    own = pairs[:, 1] - cuts[t]
    return np.column_stack([cuts[t + 1] - cuts[t] + places, own]).astype(np.int32)

"""What a worker keeps of the samples and triplets, and all that it computes.

Every function is pure: what a worker has lost can be computed again, elsewhere, from the same
arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import check_array

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_magnitude
from mdaml.constraints import TripletSet
from mdaml.distributed._plan import Border, Survey
from mdaml.modes import positive_shares, scale_rows, weighted_moments, weights_from


class Kept:
    """A value that workers keep; Dask asks for its size, and sends work where much is kept."""

    def __sizeof__(self) -> int:
        return _n_bytes(vars(self))


def _n_bytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(_n_bytes, value.values()))
    if isinstance(value, tuple):
        return sum(map(_n_bytes, value))
    return _n_bytes(vars(value)) if hasattr(value, "__dict__") else 0


@dataclass(frozen=True)
class Grouped(Kept):
    """The triplets of a shard, re-indexed to the rows it needs."""

    begin: int  # own rows of X
    end: int
    near_rows: IntArray  # then similar partners that others own, by their number in X
    far_rows: IntArray  # then partners that are dissimilar only
    triplets: TripletSet

    @property
    def rows(self) -> IntArray:
        """The rows of X that the shard needs, in its order."""
        return np.concatenate([np.arange(self.begin, self.end), self.near_rows, self.far_rows])


def group(triplets: IntArray, begin: int, end: int, n_samples: int) -> Grouped:
    """Group the triplets whose anchors are the rows from begin to end."""
    near, far = (np.zeros(n_samples, bool) for _ in range(2))
    near[triplets[:, 1]] = True
    far[triplets[:, 2]] = True
    near[begin:end] = far[begin:end] = False
    near_rows, far_rows = np.flatnonzero(near), np.flatnonzero(far & ~near)
    rows = np.concatenate([np.arange(begin, end), near_rows, far_rows])
    place = np.empty(n_samples, np.int32)
    place[rows] = np.arange(len(rows))
    return Grouped(
        begin, end, near_rows, far_rows, TripletSet.from_triplets(place[triplets], len(rows))
    )


def survey(grouped: Grouped) -> Survey:
    """Return what the driver must know of the triplets of a shard."""
    near = np.flatnonzero(grouped.triplets.near_totals)
    return Survey(
        grouped.near_rows,
        grouped.far_rows,
        grouped.rows.astype(np.int32)[grouped.triplets.pairs[near]],
        near.astype(np.int32),
    )


def check_block(block: Any) -> FloatArray:
    """Return rows of X, dense and finite, in single or double precision."""
    return check_array(
        block, dtype=[np.float64, np.float32], order="C", input_name="X", estimator="MDaML"
    )


def profile(block: FloatArray) -> tuple[int, int, str, FloatArray]:
    """Return rows, columns, precision and sum of a block."""
    return *block.shape, block.dtype.name, block.sum(axis=0, dtype=np.float64)


def take(block: FloatArray, rows: IntArray) -> FloatArray:
    """Return some rows of a block."""
    return block[rows]


@dataclass(frozen=True)
class Shard(Kept):
    """The rows that a shard needs, its triplets, and what it shares with others."""

    index: int
    X: FloatArray  # centred: own rows, similar partners, partners that are dissimilar only
    n_own: int
    triplets: TripletSet
    border: Border

    @property
    def own(self) -> FloatArray:
        """The own rows."""
        return self.X[: self.n_own]

    @cached_property
    def graph(self) -> tuple[IntArray, IntArray, IntArray]:
        """The near pairs of own rows, in either role; those of other shards last."""
        pairs = np.concatenate([self.triplets.pairs, self.border.incoming])
        first, last = self.triplets.first, self.triplets.last
        n = len(self.border.incoming)
        first = np.concatenate([first, np.zeros(n, first.dtype)])
        last = np.concatenate([last, np.ones(n, last.dtype)])
        indptr, samples, rows = kernels.near_graph(pairs, first, last, self.border.n_rows)
        indptr = indptr[: self.n_own + 1]
        return indptr, samples[: indptr[-1]], rows[: indptr[-1]]


def assemble(
    index: int,
    grouped: Grouped,
    border: Border,
    mean: FloatArray,
    places: Sequence[IntArray],
    pieces: Sequence[FloatArray],
) -> Shard:
    """Put a shard together from pieces of the blocks of X."""
    X = np.empty((sum(map(len, pieces)), len(mean)), mean.dtype)
    for where, piece in zip(places, pieces, strict=True):
        X[where] = piece
    X -= mean
    check_magnitude(X)
    return Shard(index, X, grouped.end - grouped.begin, grouped.triplets, border)


# The start.


def own_sum(shard: Shard) -> tuple[FloatArray]:
    """Return the sum of own rows."""
    return (shard.own.sum(axis=0, dtype=np.float64),)


def own_squares(shard: Shard, mean: FloatArray) -> tuple[FloatArray]:
    """Return the sum of squares of own rows about a mean."""
    return (np.square(shard.own - mean).sum(axis=0, dtype=np.float64),)


def second_moment(shard: Shard) -> tuple[FloatArray]:
    """Return the sum of ``x x^T`` over own rows."""
    return (kernels.transposed_times(shard.own, shard.own),)


def scaled_rows(shard: Shard, rows: Any, mean: FloatArray, spread: FloatArray) -> FloatArray:
    """Return some own rows, scaled."""
    return scale_rows(shard.own[rows], mean, spread)


@dataclass(frozen=True)
class Table(Kept):
    """The weights that a shard needs."""

    weights: FloatArray  # (n_own, K)
    powers: FloatArray  # (border.n_rows, K) those of others as they were last heard of


def first_table(
    shard: Shard, estimate: Any, mean: FloatArray, spread: FloatArray, eta: float
) -> Table:
    """Return the weights of own rows by an estimate, or as they are given."""
    given = isinstance(estimate, np.ndarray)
    raw = estimate if given else weights_from(estimate, scale_rows(shard.own, mean, spread))
    weights = positive_shares(raw, shard.X.dtype)
    powers = np.zeros((shard.border.n_rows, weights.shape[1]), weights.dtype)
    powers[: shard.n_own] = weights**eta
    return Table(weights, powers)


def weighted_sums(shard: Shard, table: Table) -> tuple[FloatArray, FloatArray]:
    """Return sums of own rows and of their weights, not raised to a power, by mode."""
    return kernels.transposed_times(table.weights, shard.own), table.weights.sum(
        axis=0, dtype=np.float64
    )


# Weights.


@dataclass(frozen=True)
class Message(Kept):
    """Powers of rows that a shard shares, from a slot on."""

    source: int
    begin: int
    powers: FloatArray


def post(shard: Shard, table: Table, first: int, last: int) -> Message:
    """Return the powers of the shared rows of the rounds from first to last."""
    begin, end = shard.border.shared_rounds[[first, last]]
    return Message(shard.index, begin, table.powers[shard.border.shared[begin:end]])


def hear(shard: Shard, table: Table, messages: Sequence[Message]) -> Table:
    """Return the table with the news of others."""
    powers = table.powers.copy()
    for message in messages:
        slots, places = shard.border.held[message.source]
        end = message.begin + len(message.powers)
        begin, end = np.searchsorted(slots, [message.begin, end])
        powers[places[begin:end]] = message.powers[slots[begin:end] - message.begin]
    return replace(table, powers=powers)


@dataclass(frozen=True)
class Costs(Kept):
    """What a mode costs a row, by itself and by the losses of near pairs."""

    own: FloatArray  # (n_own, K)
    losses: FloatArray  # own pairs, then near pairs of others with own rows


def tell_losses(shard: Shard, measured: "Measured", target: int) -> FloatArray:
    """Return the losses of the near pairs with rows of another shard."""
    return measured.losses[shard.border.outgoing[target]]


def price(
    measured: "Measured", incoming: Sequence[FloatArray], n_samples: int, loss_factor: float
) -> Costs:
    """Return the costs of Eq. (14) that stay the same for one update of all weights."""
    losses = np.concatenate([measured.losses, *incoming]) * loss_factor
    return Costs(measured.sq_dists / n_samples, losses)


def update_round(
    shard: Shard, table: Table, messages: Sequence[Message], costs: Costs, turn: int, eta: float
) -> Table:
    """Update the own rows of one round, once all news of earlier rounds is in."""
    heard = hear(shard, table, messages)
    weights, border = table.weights.copy(), shard.border
    begin, end = border.rounds[turn : turn + 2]
    colors = border.colors[np.searchsorted(border.colors, begin) :]
    colors = colors[colors <= end] - begin
    kernels.sequential_weights(
        weights,
        heard.powers,
        costs.own,
        shard.graph,
        costs.losses,
        border.order[begin:end].copy(),  # what came over the wire is read-only, a type of its own
        colors,
        eta,
    )
    return Table(weights, heard.powers)


def weigh(shard: Shard, table: Table) -> FloatArray:
    """Return the self-weight of the triplets of each near pair."""
    return shard.triplets.importances(table.powers)


def own_weights(table: Table) -> FloatArray:
    """Return the weights of own rows."""
    return table.weights


# Centres and the value.


def center_sums(shard: Shard, table: Table) -> tuple[FloatArray, FloatArray]:
    """Return the sums over own rows that new centres are made of."""
    powers = table.powers[: shard.n_own]
    return kernels.transposed_times(powers, shard.own), powers.sum(axis=0, dtype=np.float64)


def scatter_sums(shard: Shard, table: Table) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the sums over own rows that the scatter around centres is made of."""
    return weighted_moments(shard.own, table.powers[: shard.n_own])


@dataclass(frozen=True)
class Measured(Kept):
    """Distances and losses under one metric."""

    sq_dists: FloatArray  # (n_own, K) to the centres
    losses: FloatArray  # (P,) summed over the triplets of each near pair


def measure(shard: Shard, F: FloatArray, centers: FloatArray) -> Measured:
    """Return distances and losses under the metric of F."""
    projected = project(shard, F)
    return Measured(
        _center_sq_dists(projected[: shard.n_own], F, centers), shard.triplets.losses(projected)
    )


def recenter(shard: Shard, measured: Measured, F: FloatArray, centers: FloatArray) -> Measured:
    """Return distances to new centres."""
    projected = kernels.rows_times(shard.own, F.astype(shard.X.dtype))
    return replace(measured, sq_dists=_center_sq_dists(projected, F, centers))


def _center_sq_dists(projected: FloatArray, F: FloatArray, centers: FloatArray) -> FloatArray:
    return kernels.center_sq_dists(projected, centers @ F.astype(centers.dtype))


def appraise(
    shard: Shard, table: Table, measured: Measured, importance: FloatArray
) -> tuple[FloatArray]:
    """Return the sums of Eq. (7): distances, losses, and the losses of a zero metric, doubled."""
    powers = table.powers[: shard.n_own]
    clustering = np.sum(powers * measured.sq_dists, dtype=np.float64)
    losses = np.dot(importance, measured.losses)
    return (np.array([clustering, losses, np.dot(importance, shard.triplets.near_totals)]),)


# The metric.


def project(shard: Shard, F: FloatArray) -> FloatArray:
    """Return all rows, projected."""
    return kernels.rows_times(shard.X, F.astype(shard.X.dtype))


def gradient(
    shard: Shard, projected: FloatArray, scale: FloatArray, importance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the loss and half of its gradient in the frame that the rows are projected by."""
    loss, product = shard.triplets.gradient(
        projected, (scale * scale).astype(projected.dtype), importance
    )
    return np.array(loss), kernels.transposed_times(projected, product)


def gradient_at(
    shard: Shard, F: FloatArray, importance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the loss and half of its gradient in the frame F."""
    return gradient(shard, project(shard, F), np.ones(len(F)), importance)


def losses_along(
    shard: Shard, projected: FloatArray, growth: FloatArray, importance: FloatArray
) -> tuple[FloatArray]:
    """Return the losses for four scalings."""
    return (shard.triplets.losses_along(projected, growth.astype(projected.dtype), importance),)


def push(shard: Shard, importance: FloatArray) -> tuple[FloatArray]:
    """Return half of the gradient of the loss at the zero metric, where every slope is -1."""
    nowhere = np.zeros(shard.X.shape[1], shard.X.dtype)
    product = shard.triplets.gradient(shard.X, nowhere, importance)[1]
    return (kernels.transposed_times(shard.X, product),)


def add(*parts: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
    """Return sums, place by place."""
    return tuple(np.sum(part, axis=0) for part in zip(*parts, strict=True))

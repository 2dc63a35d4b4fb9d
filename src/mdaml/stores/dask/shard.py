"""What a worker keeps of the samples and comparisons, and what it computes beside its store.

Every function is pure: what a worker has lost can be computed again, elsewhere, from the same
arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils import check_array

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml._validation import check_magnitude, has_unit_rows
from mdaml.basis import Basis
from mdaml.constraints.comparisons import Comparisons
from mdaml.constraints.value import Constraints
from mdaml.kernels.grouping import near_graph
from mdaml.kernels.products import one_blas_thread, rows_times, transposed_times
from mdaml.stores.arrays import Array, Measures, SampleWeights, Turns, is_identity
from mdaml.stores.blocks import BlockStore
from mdaml.stores.dask.plan import Border, Survey
from mdaml.stores.memory import MemoryStore, group
from mdaml.stores.mixture import Mixture, scale_rows, weights_from

if TYPE_CHECKING:
    from mdaml.stores.torch import TorchStore

Sums: TypeAlias = tuple[float | FloatArray, ...]
Pulled: TypeAlias = tuple[float, float, Array, FloatArray]  # of ``pull``


# Dask asks for the size of values that workers keep, and sends work where much is kept.
def _n_bytes(value: object) -> int:
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(map(_n_bytes, value.values()))
    if isinstance(value, tuple):
        return sum(map(_n_bytes, value))
    return _n_bytes(vars(value)) if hasattr(value, "__dict__") else 0


# Rows.


def check_block(block: ArrayLike) -> FloatArray:
    """Return rows of X, dense and finite, in single or double precision."""
    return check_array(
        block, dtype=[np.float64, np.float32], order="C", input_name="X", estimator="MDaML"
    )


def profile(block: FloatArray) -> tuple[int, int, str, FloatArray, bool]:
    """Return rows, columns, precision and sum of a block, and whether its rows have length one."""
    total = block.sum(axis=0, dtype=np.float64)
    return *block.shape, block.dtype.name, total, has_unit_rows(block)


def take(block: FloatArray, rows: IntArray) -> FloatArray:
    """Return some rows of a block."""
    return block[rows]


def make_columns(block: FloatArray, by: tuple[Basis, FloatArray]) -> FloatArray:
    """Return the columns of rows on a basis, times the transpose of a matrix."""
    basis, T = by
    return basis.transform(block, T)


def join(places: Sequence[IntArray], pieces: Sequence[FloatArray]) -> FloatArray:
    """Return rows that come in pieces, each at its places."""
    out = np.empty((sum(map(len, pieces)), pieces[0].shape[1]), pieces[0].dtype)
    for where, piece in zip(places, pieces, strict=True):
        out[where] = piece
    return out


def center(
    mean: FloatArray, places: Sequence[IntArray], pieces: Sequence[FloatArray]
) -> FloatArray:
    """Return rows that come in pieces, less their mean, in its precision."""
    rows = join(places, [piece.astype(mean.dtype, copy=False) for piece in pieces])
    rows -= mean
    check_magnitude(rows)
    return rows


# Comparisons.


@dataclass(frozen=True)
class Grouped:
    """The comparisons of a shard, numbered by the rows it needs: own, near and far partners."""

    near_rows: IntArray  # partners in near pairs that others own, by their number in X
    far_rows: IntArray  # partners in far pairs only
    supervision: Constraints
    comparisons: Comparisons

    __sizeof__ = _n_bytes


def group_comparisons(supervision: Constraints, begin: int, end: int) -> Grouped:
    """Group the comparisons whose near pair begins with one of the rows from begin to end."""
    near, far = (np.zeros(supervision.n_points, bool) for _ in range(2))
    near[supervision.triplets[:, 1]] = near[supervision.quadruplets[:, :2]] = True
    far[supervision.triplets[:, 2]] = far[supervision.quadruplets[:, 2:]] = True
    near[begin:end] = far[begin:end] = False
    near_rows, far_rows = np.flatnonzero(near), np.flatnonzero(far & ~near)
    rows = np.concatenate([np.arange(begin, end), near_rows, far_rows])
    place = np.empty(supervision.n_points, np.int32)
    place[rows] = np.arange(len(rows))
    members = {name: place[getattr(supervision, name)] for name in ("triplets", "quadruplets")}
    local = supervision._replaced(**members, n_points=len(rows))
    return Grouped(near_rows, far_rows, local, group(local, len(rows)))


def survey(grouped: Grouped, begin: int, end: int) -> Survey:
    """Return what the driver must know of the comparisons of a shard."""
    rows = np.concatenate([np.arange(begin, end), grouped.near_rows, grouped.far_rows])
    near = np.flatnonzero(grouped.comparisons.first < grouped.comparisons.last)
    pairs = rows.astype(np.int32)[grouped.comparisons.pairs[near]]
    return Survey(grouped.near_rows, grouped.far_rows, pairs, near.astype(np.int32))


@dataclass(frozen=True)
class Shard:
    """The rows that a shard needs with its comparisons, and what it shares with others."""

    store: "MemoryStore | TorchStore"  # of own rows, then those of partners
    border: Border
    turns: Turns  # of own rows; near pairs of other shards come last in the graph

    __sizeof__ = _n_bytes

    def updated(self, turn: int) -> Turns:
        """Return the own rows that are updated in one round."""
        begin, end = self.border.rounds[turn : turn + 2]
        colors = self.border.colors[np.searchsorted(self.border.colors, begin) :]
        # What came over the wire is read-only, a type of its own.
        order = self.border.order[begin:end].copy()
        return replace(self.turns, order=order, colors=colors[colors <= end] - begin)


def assemble(
    grouped: Grouped,
    border: Border,
    kind: str,
    n_total: int,
    own: FloatArray,
    places: Sequence[IntArray],
    pieces: Sequence[FloatArray],
) -> Shard:
    """Put a shard together: own rows, and partners in pieces from other shards."""
    rows = np.concatenate([own, join(places, pieces)]) if pieces else own
    store = make_store(kind, rows, len(own), n_total)
    if isinstance(store, MemoryStore):
        store = replace(store, comparisons=grouped.comparisons)
    else:
        store = store.group(grouped.supervision)
    pairs = np.concatenate([grouped.comparisons.pairs, border.incoming])
    own_near = grouped.comparisons.first < grouped.comparisons.last
    is_near = np.append(own_near, np.ones(len(border.incoming), bool))
    n_rows = len(border.order) + len(border.held)
    indptr, samples, near = near_graph(pairs, is_near, n_rows)
    indptr = indptr[: len(own) + 1]
    graph = store.put(indptr), store.put(samples[: indptr[-1]]), store.put(near[: indptr[-1]])
    return Shard(store, border, Turns(border.order, border.colors, graph))


def make_store(kind: str, rows: FloatArray, n_own: int, n_total: int) -> "MemoryStore | TorchStore":
    """Return centred rows where a worker computes with them: in memory, in blocks, on a device."""
    mean = np.zeros(0, rows.dtype)
    if kind in ("memory", "blocks"):
        cls = MemoryStore if kind == "memory" else BlockStore
        return cls(rows, mean, n_own=n_own, n_total=n_total)
    import torch

    from mdaml.stores.torch import TorchStore

    samples = torch.tensor(rows, device=kind).float()
    return TorchStore(samples, mean, n_own=n_own, n_total=n_total)


def call(shard: Shard, method: str, *args: object) -> Any:
    """Return what a method of the shard's store returns."""
    with one_blas_thread():
        return getattr(shard.store, method)(*args)


def call_sums(shard: Shard, method: str, *args: object) -> Sums:
    """Return the same as a tuple of numbers and arrays to be added."""
    sums = call(shard, method, *args)
    return sums if isinstance(sums, tuple) else (sums,)


def pull_sums(pulled: Pulled) -> Sums:
    """Return the parts of the result of ``pull`` that are added up."""
    clustering, loss, _, by_centers = pulled
    return clustering, loss, by_centers


def pull_samples(pulled: Pulled) -> Array:
    """Return the derivative in the projected samples, of the result of ``pull``."""
    return pulled[2]


# The start.


def gram(own: FloatArray) -> tuple[FloatArray]:
    """Return the sum of ``x x^T`` over own rows."""
    return (transposed_times(own, own),)


def row_sums(own: FloatArray) -> tuple[FloatArray]:
    """Return the sum of own rows."""
    return (own.sum(axis=0, dtype=np.float64),)


def squares(own: FloatArray, mean: FloatArray) -> tuple[FloatArray]:
    """Return the sum of squares of own rows about a mean."""
    return (np.square(own - mean).sum(axis=0, dtype=np.float64),)


def scaled_rows(own: FloatArray, rows: IntArray, scaling: Sequence[FloatArray]) -> FloatArray:
    """Return some own rows, scaled."""
    return scale_rows(own[rows], *scaling) if scaling else own[rows]


def estimated_weights(
    shard: Shard,
    own: FloatArray,
    estimate: Mixture | KMeans,
    scaling: Sequence[FloatArray],
    eta: float,
) -> SampleWeights:
    """Return the weights of own rows by a mixture or by k-means."""
    rows = scale_rows(own, *scaling) if scaling else own
    return shard.store.given_weights(weights_from(estimate, rows), eta)


def map_rows(own: FloatArray, rows: IntArray | slice, F: FloatArray) -> FloatArray:
    """Return some own rows under a metric."""
    return own[rows] if is_identity(F) else rows_times(own[rows], F)


def mapped(shard: Shard, basis: FloatArray) -> Shard:
    """Return a shard whose rows are mapped by a basis."""
    return replace(shard, store=shard.store.mapped(basis))


# Weights. A message holds powers of own rows that others hold too, and their numbers in X.

Message = tuple[IntArray, FloatArray]


def post(shard: Shard, weights: SampleWeights, first: int, last: int) -> Message:
    """Return the powers of the shared rows of the rounds from first to last."""
    border = shard.border
    rows = border.order[border.rounds[first] : border.rounds[last]]
    rows = rows[border.is_shared[rows]]
    return border.begin + rows, shard.store.host(weights.powers[shard.store.put(rows)])


def apply_border(
    shard: Shard, weights: SampleWeights, messages: Sequence[Message]
) -> SampleWeights:
    """Return the weights with the powers that others have sent."""
    border, before = shard.border, shard.store.host(weights.powers)
    n_rows = len(border.order) + len(border.held)
    powers = np.zeros((n_rows, before.shape[1]), before.dtype)
    # Weights that were made before these comparisons have powers of other rows behind their own.
    powers[: len(before)] = before[:n_rows]
    for numbers, sent in messages:
        found, places = border.find(numbers)
        powers[places] = sent[found]
    return weights._replace(powers=shard.store.put(powers))


def outgoing_losses(shard: Shard, measured: Measures, target: int) -> FloatArray:
    """Return the losses of the near pairs with rows of another shard."""
    return shard.store.host(measured.losses)[shard.border.outgoing[target]]


def all_losses(
    shard: Shard, measured: Measures, incoming: Sequence[FloatArray], loss_factor: float
) -> Array:
    """Return what each near pair costs, own ones and those of others with own rows."""
    losses = np.concatenate([shard.store.host(measured.losses), *incoming]) * loss_factor
    return shard.store.put(losses)


def update_round(
    shard: Shard,
    weights: SampleWeights,
    messages: Sequence[Message],
    measured: Measures,
    losses: Array,
    turn: int,
    eta: float,
) -> SampleWeights:
    """Update the own rows of one round, once all powers of earlier rounds are in."""
    known = apply_border(shard, weights, messages)
    return shard.store.sweep(known, measured, losses, shard.updated(turn), eta)

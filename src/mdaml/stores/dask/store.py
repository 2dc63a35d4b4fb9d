"""The store on a cluster: every worker has a store of its own, and sums of theirs are added here.

Matrices of the size of the metric are in this process; workers see a factor of the metric and
return sums.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partialmethod
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.cluster import KMeans

from mdaml._typing import Dtype, FloatArray, IntArray, Rng
from mdaml.constraints.labels import Classes
from mdaml.constraints.value import Constraints
from mdaml.kernels.products import one_blas_thread
from mdaml.neighbors.shards import find_neighbors
from mdaml.stores import mixture
from mdaml.stores.arrays import scale_weights
from mdaml.stores.dask import shard
from mdaml.stores.dask.cluster import Cluster, Remote
from mdaml.stores.dask.plan import Border, Survey, make_borders
from mdaml.stores.dask.rows import Rows, gather_rows
from mdaml.stores.memory import MemoryStore, leading_axes

Parts = list[Remote]  # one for each shard


class Projection(NamedTuple):
    """X times a basis, on the workers."""

    basis: FloatArray  # (d, r)
    parts: Parts


@dataclass(frozen=True)
class DaskStore:
    """Blocks of centred rows on workers, and the comparisons whose near pairs begin in them."""

    cluster: Cluster
    own: Parts  # (n_own, d) centred
    cuts: IntArray  # where the rows of each shard begin, and their end
    mean: FloatArray  # (d,)
    kind: str  # how workers compute: "memory", "blocks", or a device of torch
    shards: Parts  # of Shard
    borders: Sequence[Border] = ()
    total: float = 0.0

    @classmethod
    def of(cls, cluster: Cluster, rows: Rows, cuts: IntArray, kind: str) -> "DaskStore":
        """Send the rows to where they are needed, and centre them."""
        own = []
        for i, (begin, end) in enumerate(pairwise(cuts.tolist())):
            pieces = gather_rows(cluster, i, np.arange(begin, end), rows.blocks, rows.begins)
            own.append(cluster.task(i, shard.center, rows.mean, *pieces))
        return cls(cluster, own, cuts, rows.mean, kind, shards=[])

    @property
    def shape(self) -> tuple[int, int]:
        """See :class:`~mdaml.solver.store.Store`, here and below."""
        return int(self.cuts[-1]), len(self.mean)

    @property
    def dtype(self) -> Dtype:
        return self.mean.dtype if self.kind in ("memory", "blocks") else np.dtype(np.float32)

    def threads(self) -> AbstractContextManager[object]:
        return one_blas_thread()

    def small(self, A: FloatArray) -> FloatArray:
        return A

    def host(self, A: FloatArray) -> FloatArray:
        return A

    def _each(self, method: str, *columns: object) -> Parts:
        """Call a method of the store of every shard; what it returns stays there."""
        return self.cluster.each(shard.call, self.shards, method, *map(_parts, columns))

    def _sum(self, method: str, *columns: object) -> Any:
        """Call a method of the store of every shard; return the sums of what it returns."""
        parts = map(_parts, columns)
        sums = self.cluster.total(shard.call_sums, self.shards, method, *parts)
        plain = tuple(each if np.ndim(each) else float(each) for each in sums)
        return plain if len(plain) > 1 else plain[0]

    def compare(self, supervision: Constraints) -> Self:
        """Group the comparisons on the workers, plan what they exchange, and send rows to where."""
        cluster, n = self.cluster, self.shape[0]
        bounds = list(pairwise(self.cuts.tolist()))
        chosen = _by_owner(scale_weights(supervision), self.cuts)
        grouped = [
            cluster.task(i, shard.group_comparisons, some, *bounds[i])
            for i, some in enumerate(chosen)
        ]
        surveys: list[Survey] = cluster.fetch(
            [cluster.task(i, shard.survey, part, *bounds[i]) for i, part in enumerate(grouped)]
        )
        borders, shards = make_borders(surveys, self.cuts), []
        for i, survey in enumerate(surveys):
            partners = np.concatenate([survey.near_rows, survey.far_rows])
            pieces = gather_rows(cluster, i, partners, self.own, self.cuts)
            args = (grouped[i], borders[i], self.kind, n, self.own[i], *pieces)
            shards.append(cluster.task(i, shard.assemble, *args))
        return replace(self, shards=shards, borders=borders, total=float(supervision.n_constraints))

    def part(self, rows: IntArray) -> MemoryStore:
        """Return them in this process."""
        return MemoryStore(self._fetch_rows(rows, ()), self.mean)

    def mapped(self, basis: FloatArray) -> Self:
        own = self.cluster.each(shard.map_rows, self.own, slice(None), basis)
        shards = self.cluster.each(shard.mapped, self.shards, basis) if self.shards else []
        mean = np.zeros(basis.shape[1], self.mean.dtype)
        return replace(self, own=own, shards=shards, mean=mean)

    # The metric. A projection is made from X itself, not from the last one: as cheap, and nothing
    # to remember for the time when a worker is lost.

    def project(self, F: FloatArray) -> Projection:
        return Projection(F, self._each("project", F))

    def turn(self, Y: Projection, A: FloatArray) -> Projection:
        return self.project(Y.basis @ A)

    def shift(self, Y: Projection, step: float, Z: Projection) -> Projection:
        return Projection(Y.basis + step * Z.basis, self._each("shift", Y, step, Z))

    def map_centers(self, centers: FloatArray, F: FloatArray) -> FloatArray:
        return centers.astype(self.dtype) @ F.astype(self.dtype)

    spread = partialmethod(_sum, "spread")
    loss_and_half = partialmethod(_sum, "loss_and_half")
    losses_along = partialmethod(_sum, "losses_along")
    cross = partialmethod(_sum, "cross")
    inner = partialmethod(_sum, "inner")
    push = partialmethod(_sum, "push")

    def pull(
        self,
        Y: Projection,
        centers: FloatArray,
        weights: Parts,
        importance: Parts,
        loss_factor: float,
    ) -> tuple[float, float, Parts, FloatArray]:
        pulled = self._each("pull", Y, centers, weights, importance, loss_factor)
        clustering, loss, by_centers = self.cluster.total(shard.pull_sums, pulled)
        by_samples = self.cluster.each(shard.pull_samples, pulled)
        return float(clustering), float(loss), by_samples, by_centers

    # The modes.

    measure = partialmethod(_each, "measure")
    recenter = partialmethod(_each, "recenter")
    importances = partialmethod(_each, "importances")
    weights_at = partialmethod(_each, "weights_at")
    terms = partialmethod(_sum, "terms")
    weight = partialmethod(_sum, "weight")
    center_sums = partialmethod(_sum, "center_sums")
    moments = partialmethod(_sum, "moments")
    weighted_means = partialmethod(_sum, "weighted_means")

    def update_weights(
        self, weights: Parts, measured: Parts, loss_factor: float, eta: float
    ) -> Parts:
        """Update all weights: one graph of tasks, in which only shared rows travel."""
        task, shards, weights = self.cluster.task, self.shards, list(weights)
        losses = self._losses(measured, loss_factor)
        waiting: list[Parts] = [[] for _ in weights]  # messages that are not yet applied
        for turn in range(len(self.borders[0].receivers)):
            for t, border in enumerate(self.borders):
                if border.rounds[turn] < border.rounds[turn + 1]:
                    args = (waiting[t], measured[t], losses[t], turn, eta)
                    weights[t] = task(t, shard.update_round, shards[t], weights[t], *args)
                    waiting[t] = []
            for s, border in enumerate(self.borders):
                if border.receivers[turn]:
                    message = task(s, shard.post, shards[s], weights[s], turn, turn + 1)
                    for t in border.receivers[turn]:
                        waiting[t].append(message)
        return [
            task(t, shard.apply_border, shards[t], weights[t], messages) if messages else weights[t]
            for t, messages in enumerate(waiting)
        ]

    def _losses(self, measured: Parts, loss_factor: float) -> Parts:
        """Return what each near pair costs, on the shards of both of its samples."""
        task, losses = self.cluster.task, []
        for t, own in enumerate(self.shards):
            sent = [
                task(s, shard.outgoing_losses, self.shards[s], measured[s], t)
                for s, border in enumerate(self.borders)
                if t in border.outgoing
            ]
            losses.append(task(t, shard.all_losses, own, measured[t], sent, loss_factor))
        return losses

    # The start.

    def covariance(self) -> FloatArray:
        (total,) = self.cluster.total(shard.gram, self.own)
        return total / self.shape[0]

    def leading_axes(self, n_axes: int, rng: Rng) -> tuple[FloatArray, FloatArray, float]:
        return leading_axes(self._some_rows(mixture.n_rows_for_start(), (), rng), n_axes, rng)

    def given_weights(self, weights: FloatArray, eta: float) -> Parts:
        some = [weights[begin:end] for begin, end in pairwise(self.cuts)]
        return self._each("given_weights", some, eta)

    def adopt(self, weights: Parts) -> Parts:
        """Tell every shard the powers of all rows that it holds of others."""
        task, adopted = self.cluster.task, []
        messages = [
            task(s, shard.post, self.shards[s], own, 0, len(self.borders[s].receivers))
            for s, own in enumerate(weights)
        ]
        for t, own in enumerate(weights):
            held = [m for m, b in zip(messages, self.borders, strict=True) if b.is_read_by(t)]
            adopted.append(task(t, shard.apply_border, self.shards[t], own, held))
        return adopted

    def mixture_weights(self, n_modes: int, eta: float, rng: Rng) -> Parts:
        n = self.shape[0]
        (total,) = self.cluster.total(shard.row_sums, self.own)
        mean = (total / n).astype(self.dtype)
        (squares,) = self.cluster.total(shard.squares, self.own, mean)
        scaling = [mean, np.sqrt(squares / n).astype(self.dtype)]
        some = self._some_rows(mixture.n_rows_for_start(n_modes), scaling, rng)
        return self._estimated(mixture.estimate_mixture(some, n_modes, rng), scaling, eta)

    def kmeans_weights(self, n_modes: int, eta: float, rng: Rng) -> Parts:
        some = self._some_rows(mixture.n_rows_for_start(n_modes), (), rng)
        return self._estimated(mixture.estimate_kmeans(some, n_modes, rng), (), eta)

    def fetch_weights(self, weights: Parts) -> FloatArray:
        return np.concatenate(self.cluster.fetch(self._each("fetch_weights", weights)))

    def fetch_mapped(self, F: FloatArray) -> FloatArray:
        # Of the rows themselves: before comparisons are known there are no shards.
        parts = self.cluster.each(shard.map_rows, self.own, slice(None), F)
        return np.concatenate(self.cluster.fetch(parts))

    def nearest(
        self, F: FloatArray, classes: Classes, n_similar: int, n_dissimilar: int
    ) -> tuple[IntArray, IntArray]:
        """Search shard by shard, as in one memory."""
        rows, wanted = classes.rows, (n_similar, n_dissimilar)
        owner = np.searchsorted(self.cuts, rows, side="right") - 1
        owned = [np.flatnonzero(owner == i) for i in range(len(self.own))]
        mapped = [
            self.cluster.task(i, shard.map_rows, part, rows[places] - self.cuts[i], F)
            for i, (part, places) in enumerate(zip(self.own, owned, strict=True))
        ]
        return find_neighbors(self.cluster, mapped, owned, classes.bounds, rows, wanted)

    def count_modes(self, most: int, rng: Rng) -> int:
        return mixture.count_modes(self._some_rows(mixture.MAX_ROWS_TO_COUNT, (), rng), most, rng)

    def _some_rows(self, most: int, scaling: Sequence[FloatArray], rng: Rng) -> FloatArray:
        """Return at most so many rows in this process, drawn at random, scaled."""
        some = mixture.some_of(self.shape[0], most, rng)
        return self._fetch_rows(np.arange(self.shape[0]) if some is None else some, scaling)

    def _fetch_rows(self, some: IntArray, scaling: Sequence[FloatArray]) -> FloatArray:
        """Return some rows in this process, scaled."""
        chosen = [
            some[slice(*np.searchsorted(some, bounds))] - bounds[0]
            for bounds in pairwise(self.cuts)
        ]
        parts = [
            self.cluster.task(i, shard.scaled_rows, own, rows, list(scaling))
            for i, (own, rows) in enumerate(zip(self.own, chosen, strict=True))
        ]
        return np.concatenate(self.cluster.fetch(parts))

    def _estimated(
        self, estimate: mixture.Mixture | KMeans, scaling: Sequence[FloatArray], eta: float
    ) -> Parts:
        return [
            self.cluster.task(
                i, shard.estimated_weights, self.shards[i], own, estimate, list(scaling), eta
            )
            for i, own in enumerate(self.own)
        ]


def _parts(column: object) -> object:
    return column.parts if isinstance(column, Projection) else column


def _by_owner(supervision: Constraints, cuts: IntArray) -> list[Constraints]:
    """Return the comparisons of each shard: those whose near pair begins with one of its rows."""
    firsts = supervision.triplets[:, 0]
    if len(supervision.quadruplets):
        firsts = supervision.quadruplets[:, :2].min(axis=1)
    owner = (np.searchsorted(cuts, firsts, side="right") - 1).astype(np.uint16)
    order = None if np.all(owner[:-1] <= owner[1:]) else np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner, np.arange(len(cuts)), sorter=order)
    parts = []
    for begin, end in pairwise(ends.tolist()):
        # Sorted comparisons, perhaps of a file that is mapped into memory, are read and not copied.
        some = slice(begin, end) if order is None else order[begin:end]
        if len(supervision.quadruplets):
            given = supervision.quadruplets[some], supervision.weights[some]
            parts.append(Constraints.of_quadruplets(*given, supervision.n_points))
        else:
            parts.append(Constraints.of_triplets(supervision.triplets[some], supervision.n_points))
    return parts

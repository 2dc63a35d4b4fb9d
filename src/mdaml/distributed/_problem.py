"""The alternation over shards: the same moves as in one memory, as sums over workers.

The d × d algebra is done here, on the driver; workers see a factor of the metric and return sums.
"""

from dataclasses import dataclass, replace

import numpy as np

from mdaml._typing import FloatArray
from mdaml.alternation import critical_weight, least_multiple, penalty
from mdaml.distributed import _shard
from mdaml.distributed._cluster import Cluster, Part
from mdaml.distributed._plan import Plan
from mdaml.geometry import Geodesic, gradient_in_frame, multiples
from mdaml.modes import move_centers, scatter_from_moments
from mdaml.objective import add_terms, add_values
from mdaml.optimize import Point, best_multiple, conjugate_gradient

Parts = list[Part]  # one for each shard


@dataclass(frozen=True)
class ShardedState:
    """Metric and modes; what has a row or a pair is kept on the workers."""

    F: FloatArray  # (d, d)
    centers: FloatArray  # (K, d)
    tables: Parts  # of Table
    measured: Parts  # of Measured
    importance: Parts  # (P,) of each shard
    value: float
    mean_loss: float


@dataclass(frozen=True)
class ShardedProblem:
    """Data and supervision on the workers of a cluster, as Algorithm 2 sees them."""

    cluster: Cluster
    shards: Parts  # of Shard
    plan: Plan
    n_samples: int
    n_triplets: int
    eta: float
    triplet_weight: float
    ridge: float
    max_inner_iter: int
    dtype: str

    def start(self, F: FloatArray, centers: FloatArray, tables: Parts) -> ShardedState:
        """Return the state at a given metric and given modes, whose borders have not met yet."""
        tables = self._introduce(tables)
        importance = self.cluster.each(_shard.weigh, self.shards, tables)
        return self._at_metric(F, centers, tables, importance)

    def rescaled(self, state: ShardedState) -> tuple[float, ShardedState]:
        """Return the best multiple of the metric, and the state there."""
        (moment,) = self.cluster.total(_shard.second_moment, self.shards)
        least = least_multiple(2.0 * float(np.vdot(state.F, moment @ state.F)) / self.n_samples)
        multiple, F = best_multiple(self.objective(state).among_multiples(state.F), least)
        there = self._at_metric(F, state.centers, state.tables, state.importance)
        return multiple, there

    def move_centers(self, state: ShardedState) -> ShardedState:
        """Return the state with the best centres."""
        sums, masses = self.cluster.total(_shard.center_sums, self.shards, state.tables)
        centers = move_centers(sums, masses, state.centers)
        measured = self.cluster.each(_shard.recenter, self.shards, state.measured, state.F, centers)
        return self._valued(replace(state, centers=centers, measured=measured))

    def move_weights(self, state: ShardedState) -> ShardedState:
        """Return the state with better weights."""
        tables = self._sweep(state)
        importance = self.cluster.each(_shard.weigh, self.shards, tables)
        return self._valued(replace(state, tables=tables, importance=importance))

    def move_metric(self, state: ShardedState) -> ShardedState:
        """Return the state with a better metric."""
        objective = self.objective(state)
        result = conjugate_gradient(objective, state.F, max_iter=self.max_inner_iter)
        return self._at_metric(result.F, state.centers, state.tables, state.importance)

    def objective(self, state: ShardedState) -> "ShardedObjective":
        """Return Eq. (7) as a function of the metric alone, at the modes of a state."""
        return ShardedObjective(
            self.cluster,
            self.shards,
            state.importance,
            self._loss_factor(state),
            self._scatter(state),
            self.ridge,
        )

    def critical_triplet_weight(self, state: ShardedState) -> float:
        """Return the triplet weight up to which, at the modes of a state, zero is best."""
        (half,) = self.cluster.total(_shard.push, self.shards, state.importance)
        half *= self._loss_factor(state) / self.triplet_weight
        return critical_weight(half, self._scatter(state), self.dtype)

    def weights(self, state: ShardedState) -> FloatArray:
        """Return the weights of all samples."""
        parts = self.cluster.each(_shard.own_weights, state.tables)
        return np.concatenate(self.cluster.fetch(parts))

    def _introduce(self, tables: Parts) -> Parts:
        """Tell every shard the powers of all rows that it holds of others."""
        task, borders = self.cluster.task, self.plan.borders
        messages = [
            task(s, _shard.post, self.shards[s], table, 0, self.plan.n_rounds)
            for s, table in enumerate(tables)
        ]
        return [
            task(t, _shard.hear, self.shards[t], table, [messages[s] for s in borders[t].held])
            for t, table in enumerate(tables)
        ]

    def _sweep(self, state: ShardedState) -> Parts:
        """Update all weights: one graph of tasks, in which only shared rows travel."""
        task, shards = self.cluster.task, self.shards
        costs, tables = self._costs(state), list(state.tables)
        unheard: list[Parts] = [[] for _ in tables]
        for turn in range(self.plan.n_rounds):
            for t, border in enumerate(self.plan.borders):
                if border.rounds[turn] < border.rounds[turn + 1]:
                    args = (shards[t], tables[t], unheard[t], costs[t], turn, self.eta)
                    tables[t], unheard[t] = task(t, _shard.update_round, *args), []
            for s, targets in enumerate(self.plan.receivers):
                if targets[turn]:
                    message = task(s, _shard.post, shards[s], tables[s], turn, turn + 1)
                    for t in targets[turn]:
                        unheard[t].append(message)
        for t, news in enumerate(unheard):
            if news:
                tables[t] = task(t, _shard.hear, shards[t], tables[t], news)
        return tables

    def _costs(self, state: ShardedState) -> Parts:
        """Return tasks for the costs that do not change during a sweep."""
        task, borders = self.cluster.task, self.plan.borders
        factor = self.triplet_weight / self.n_triplets
        return [
            task(
                t,
                _shard.price,
                state.measured[t],
                [
                    task(s, _shard.tell_losses, self.shards[s], state.measured[s], t)
                    for s, border in enumerate(borders)
                    if t in border.outgoing
                ],
                self.n_samples,
                factor,
            )
            for t in range(len(borders))
        ]

    def _at_metric(
        self, F: FloatArray, centers: FloatArray, tables: Parts, importance: Parts
    ) -> ShardedState:
        measured = self.cluster.each(_shard.measure, self.shards, F, centers)
        state = ShardedState(F, centers, tables, measured, importance, np.nan, np.nan)
        return self._valued(state)

    def _valued(self, state: ShardedState) -> ShardedState:
        """Fill in the value."""
        ((clustering, lost, at_stake),) = self.cluster.total(
            _shard.appraise, self.shards, state.tables, state.measured, state.importance
        )
        value = clustering / (self.n_samples * len(state.centers))
        value += self._loss_factor(state) * lost + penalty(state.F, self.ridge)
        mean_loss = lost / at_stake if at_stake > 0.0 else 0.0
        return replace(state, value=float(value), mean_loss=float(mean_loss))

    def _loss_factor(self, state: ShardedState) -> float:
        return self.triplet_weight / (len(state.centers) * self.n_triplets)

    def _scatter(self, state: ShardedState) -> FloatArray:
        own, by_mode, masses = self.cluster.total(_shard.scatter_sums, self.shards, state.tables)
        return scatter_from_moments(own, by_mode, masses, state.centers, self.n_samples)


@dataclass(frozen=True)
class ShardedObjective:
    """The full objective at fixed modes; a :class:`Point` has its projection on the workers."""

    cluster: Cluster
    shards: Parts
    importance: Parts
    loss_factor: float  # of all losses
    scatter: FloatArray  # (d, d) gradient of the clustering term
    ridge: float

    def at(self, F: FloatArray) -> Point:
        """Return value and gradient at ``M = F F^T``."""
        sums = self.cluster.total(_shard.gradient_at, self.shards, F, self.importance)
        scatter = gradient_in_frame(F, self.scatter)
        # A path projects anew: no projection is kept for it.
        return self.point(F, sums, [], np.ones(len(F)), scatter, F.T @ F)

    def along(self, point: Point, line: Geodesic) -> "ShardedPath":
        """Return the objective along a geodesic that starts at ``point``."""
        origin = replace(
            point,
            F=line.basis,
            gradient=line.transport(point.gradient),
            # From X itself, not from the last projection: as cheap, and nothing to remember.
            projected=self._project(line.basis),
            scale=np.ones(len(line.rates)),
        )
        return self._path(line, origin)

    def among_multiples(self, F: FloatArray) -> "ShardedPath":
        """Return the objective along the multiples of ``M = F F^T``."""
        origin = Point(F, np.nan, 0.0 * F, self._project(F), np.ones(len(F)))
        return self._path(multiples(F), origin)

    def _project(self, F: FloatArray) -> Parts:
        return self.cluster.each(_shard.project, self.shards, F)

    def _path(self, line: Geodesic, origin: Point) -> "ShardedPath":
        scatter = gradient_in_frame(line.basis, self.scatter)
        return ShardedPath(self, line, origin, scatter, line.basis.T @ line.basis)

    def point(
        self,
        F: FloatArray,
        sums: tuple[FloatArray, ...],
        projected: Parts,
        scale: FloatArray,
        scatter: FloatArray,
        gram: FloatArray,
    ) -> Point:
        """Evaluate at F from the sums over shards, ``F^T S F`` and ``F^T F``."""
        loss, half = sums
        half *= self.loss_factor * np.outer(scale, scale)
        terms = add_terms(self.loss_factor * float(loss), half, scatter, gram, self.ridge)
        return Point(F, *terms, projected, scale)


@dataclass(frozen=True)
class ShardedPath:
    """A :class:`ShardedObjective` along a geodesic, all in the frame of its origin."""

    objective: ShardedObjective
    line: Geodesic
    origin: Point
    scatter: FloatArray  # (d, d)
    gram: FloatArray  # (d, d)

    def values(self, steps: FloatArray) -> FloatArray:
        """Return the values at four steps."""
        growth = np.exp(np.outer(steps, self.line.rates))  # (4, d)
        (losses,) = self.objective.cluster.total(
            _shard.losses_along,
            self.objective.shards,
            self.origin.projected,
            growth,
            self.objective.importance,
        )
        losses *= self.objective.loss_factor
        return add_values(losses, growth, self.scatter, self.gram, self.objective.ridge)

    def at(self, step: float) -> Point:
        """Return the point reached by a step, without projecting the samples anew."""
        scale = np.exp(0.5 * step * self.line.rates)
        both = np.outer(scale, scale)
        objective = self.objective
        sums = objective.cluster.total(
            _shard.gradient, objective.shards, self.origin.projected, scale, objective.importance
        )
        return objective.point(
            self.line.frame(step),
            sums,
            self.origin.projected,
            scale,
            self.scatter * both,
            self.gram * both,
        )

"""The objective at fixed modes: Eq. (7) as a function of the metric alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from mdaml._typing import FloatArray
from mdaml.solver.geometry import log_det
from mdaml.solver.modes import Modes, clustering_scatter
from mdaml.solver.store import Importance, Store

# A metric with what a space keeps of it; the solver only hands it back.
Point = Any


class Path(Protocol):
    """An objective along one curve of its space."""

    @property
    def origin(self) -> Point:
        """The point where the curve starts; in a moving frame, in that of the curve."""

    @property
    def gradient(self) -> FloatArray:
        """The gradient at the origin, in the coordinates of the points of the curve."""

    @property
    def direction(self) -> FloatArray:
        """The direction of the curve, in the same coordinates."""

    @property
    def limit(self) -> float:
        """The largest step."""

    def first_step(self, value: float, last: float | None = None, equal: float = 0.0) -> float:
        """Return the step to try first, given the value at the origin.

        ``last`` is the step before, and ``equal`` the one that lowers the value as much, to first
        order.
        """

    def at(self, step: float) -> Point:
        """Return the point reached by a step: one pass over the pairs."""

    def slope(self, point: Point) -> float:
        """Return the derivative along the curve at one of its points."""


class Space(Protocol):
    """A set of metrics with coordinates; the solver knows no more of it."""

    def at(self, objective: "Objective", F: FloatArray) -> Point:
        """Return the point ``M = F F^T``."""

    def along(
        self, objective: "Objective", point: Point, gradient: FloatArray, direction: FloatArray
    ) -> Path:
        """Return the objective along a curve; what the point holds may be overwritten."""

    def gradient(self, objective: "Objective", point: Point) -> FloatArray:
        """Return the gradient in the coordinates of the point."""

    def steepest(self, objective: "Objective", point: Point, gradient: FloatArray) -> FloatArray:
        """Return the direction of steepest descent at a point, preconditioned or not."""

    def gain(self, point: Point, gradient: FloatArray) -> float:
        """Return how much a relative change of the metric along the gradient would gain."""


@dataclass(frozen=True)
class Anchor:
    """A divergence of the metric to a fixed one, the anchor A, which the objective may contain.

    ``strength * (tr(A^-1 M) - log det(A^-1 M) - d)``, the LogDet divergence, between Gaussians the
    Kullback-Leibler divergence: zero at the anchor, infinite at singular metrics. Of metrics
    ``F F^T`` of rank r it is that of ``F^T A^-1 F`` to the identity. Without barrier only
    ``strength * tr(F^T A^-1 F)`` is left of it there, so that directions may vanish.
    """

    strength: float
    precision: FloatArray  # (d, d) or, of a multiple of the identity, (1, 1): A^-1
    barrier: bool = True  # full rank has it always

    def times(self, F: FloatArray) -> FloatArray:
        """Return ``A^-1 F``."""
        return self.precision * F if len(self.precision) == 1 else self.precision @ F

    def value(self, gram: FloatArray) -> float:
        """Return the term, given ``F^T A^-1 F``."""
        if not self.barrier:
            return self.strength * float(gram.trace())
        return self.strength * (float(gram.trace()) - log_det(gram) - len(gram))

    @cached_property
    def _log_det(self) -> float:
        return log_det(self.precision)

    def beside_trace(self, log_det_metric: FloatArray | float, d: int) -> Any:
        """Return the term without its trace, given ``log det M`` of full rank."""
        own = self._log_det * (d if len(self.precision) == 1 else 1)
        return -self.strength * (log_det_metric + own + d)


NO_ANCHOR = Anchor(0.0, np.ones((1, 1)))


@dataclass(frozen=True)
class Objective:
    """The objective over a store and a space, of the metric alone.

    With the modes fixed it is ``<S, M> + sum_t c_t loss(t) + ridge/2 |M|^2`` with one scatter
    matrix ``S`` and one weight for each near pair: the number of modes has left the problem. The
    divergence to an anchor is added to it.
    """

    store: Store
    space: Space
    modes: Modes
    importance: Importance  # self-weight of the comparisons of each near pair
    loss_factor: float  # of all losses
    ridge: float
    anchor: Anchor = NO_ANCHOR

    def at(self, F: FloatArray) -> Point:
        """Return the point ``M = F F^T``."""
        return self.space.at(self, F)

    def along(self, point: Point, gradient: FloatArray, direction: FloatArray) -> Path:
        """Return the objective along the curve that leaves a point in a direction."""
        return self.space.along(self, point, gradient, direction)

    @cached_property
    def scatter(self) -> FloatArray:
        """The gradient of all that is linear in the metric, (d, d)."""
        scatter = self.store.small(clustering_scatter(self.store, self.modes))
        if not self.anchor.strength:
            return scatter
        identity = self.store.small(np.eye(len(scatter)))
        return scatter + self.anchor.strength * self.anchor.times(identity)

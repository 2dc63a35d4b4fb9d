"""Riemannian conjugate gradients on positive definite matrices."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

import numpy as np

from mdaml._typing import FloatArray
from mdaml.geometry import Geodesic, geodesic
from mdaml.kernels import dot, namespace


@dataclass(frozen=True)
class Point:
    """A metric, what the objective is there, and the samples projected by its factor.

    The projection is kept as ``projected * scale``: a step along a geodesic changes only the scale.
    """

    F: FloatArray  # (d, d)
    value: float
    gradient: FloatArray  # (d, d) in the frame F
    projected: Any  # (N, d) X @ F == projected * scale; the objective alone knows where it is kept
    scale: FloatArray  # (d,)


class Path(Protocol):
    """An objective along one geodesic."""

    @property
    def origin(self) -> Point:
        """Where the geodesic starts, in its own frame."""

    def values(self, steps: FloatArray) -> FloatArray:
        """Return the values at four steps, from one pass over the data."""

    def at(self, step: float) -> Point:
        """Return the point reached by a step."""


class Multiples(Protocol):
    """An objective along the multiples of a metric."""

    @property
    def line(self) -> Geodesic:
        """The multiples ``exp(t) M``."""

    def values(self, steps: FloatArray) -> FloatArray:
        """Return the values at four steps, from one pass over the data."""


class Objective(Protocol):
    """All that a solver knows of what it minimises."""

    def at(self, F: FloatArray) -> Point:
        """Return the point ``M = F F^T``."""

    def along(self, point: Point, line: Geodesic) -> Path:
        """Return the objective along a geodesic that starts at a point.

        The projected samples of the point may be overwritten: its origin takes its place.
        """


class Status(Enum):
    """Why a solver stopped; the value is the message for the user."""

    CONVERGED = "The gradient vanished relative to the objective."
    STALLED = "The objective no longer decreased by a noticeable amount."
    NO_DESCENT = "No step along the direction of steepest descent lowered the objective."
    STOPPED = "The callback asked to stop."
    MAX_ITER = "The maximum number of iterations was reached."


@dataclass(frozen=True)
class Result:
    """Where a solver ended and how it got there."""

    F: FloatArray
    value: float
    grad_norm: float  # relative to the value
    n_iter: int
    status: Status
    history: list[float] = field(repr=False)


def conjugate_gradient(
    objective: Objective,
    F: FloatArray,
    *,
    max_iter: int = 50,
    gtol: float = 1e-9,
    ftol: float = 1e-6,
) -> Result:
    """Minimise an objective over positive definite ``M = F F^T``; its value falls at every step.

    Algorithm 1, with the Hestenes-Stiefel rule and a restart wherever the direction does not
    descend. Stops at a gradient below ``gtol`` or a decrease over five steps below ``ftol``, both
    relative to the value.
    """
    point = objective.at(F)
    direction, guess, steepest = -point.gradient, None, True
    history, status = [point.value], Status.MAX_ITER
    while len(history) <= max_iter:
        if norm(point.gradient) <= gtol * abs(point.value):
            status = Status.CONVERGED
            break
        if len(history) > 5 and history[-6] - history[-1] <= ftol * abs(history[-1]):
            status = Status.STALLED
            break
        slope = dot(point.gradient, direction)
        if not slope < 0.0:
            direction, guess, steepest = -point.gradient, None, True
            slope = -dot(direction, direction)
        line = geodesic(point.F, direction)
        start = Trial(0.0, point.value, slope)
        path = objective.along(point, line)
        # All that follows is in the frame of the geodesic; the old projection can go.
        point, direction = path.origin, namespace(line.rates).diag(line.rates)
        found = search(path, line.rates, start, guess)
        if found is None:
            if steepest:
                status = Status.NO_DESCENT
                break
            direction, guess, steepest = -point.gradient, None, True
            continue
        old_gradient = point.gradient
        point, step = found
        del found  # it would keep this projection alive beside the next
        beta = hestenes_stiefel(point.gradient, old_gradient, direction)
        direction, steepest = beta * direction - point.gradient, beta == 0.0
        new_slope = dot(point.gradient, direction)
        guess = step * slope / new_slope if new_slope < 0.0 else None  # equal first-order decrease
        history.append(point.value)
    relative = norm(point.gradient) / max(abs(point.value), np.finfo(float).tiny)
    return Result(point.F, point.value, relative, len(history) - 1, status, history)


def best_multiple(path: Multiples, least: float) -> tuple[float, FloatArray]:
    """Return by what to multiply a metric for the lowest objective, and a factor of the result.

    It is convex in the multiple, so that four values at a time close in on it: to within a factor
    of 1.6, from ``least`` to 1e9.
    """
    center, width, low = 0.0, np.log(10.0), np.log(least)
    while width > 0.6 and center < np.log(1e9):
        steps = np.maximum(center + width * np.array([-1.5, -0.5, 0.5, 1.5]), low)
        lowest = int(np.argmin(path.values(steps)))
        center = float(steps[lowest])
        width = width / 2.5 if lowest in (1, 2) or center == low else width
    return float(np.exp(center)), path.line.frame(center)


def norm(gradient: FloatArray) -> float:
    """Return the length of a gradient in its frame."""
    return float(np.sqrt(dot(gradient, gradient)))


def hestenes_stiefel(gradient: FloatArray, previous: FloatArray, direction: FloatArray) -> float:
    """Weight of the last direction in the next one, never negative; all three in one frame."""
    change = gradient - previous
    curvature = dot(direction, change)
    return max(0.0, dot(gradient, change) / curvature) if curvature > 0.0 else 0.0


@dataclass(frozen=True)
class Trial:
    """One step along a path: where, how high, how steep."""

    step: float
    value: float
    slope: float


class Valued(Protocol):
    """A point of a path, whatever else it holds."""

    @property
    def value(self) -> float:
        """The objective there."""


P = TypeVar("P", bound=Valued)

# A step changes no eigenvalue of M by more than exp(2). A direction that a step has all but erased
# hardly comes back, because its gradient shrinks with it; with exp(8) single problems stayed 20 %
# above the optimum that they reach with exp(2).
LARGEST_CHANGE = 2.0
SUFFICIENT_DECREASE = 1e-4  # Wolfe conditions
CURVATURE = 0.4
MAX_TRIALS = 12


def search(
    path: Path, rates: FloatArray, start: Trial, guess: float | None
) -> tuple[Point, float] | None:
    """Return a lower point along a geodesic and its step, or None if no step lowers the value."""
    scale = 1.0 / float(abs(rates).max())
    limit = LARGEST_CHANGE * scale
    step = min(coarse_step(path, start, scale) if guess is None else guess, limit)
    return lower_point(
        path.at, lambda point: float(point.gradient.diagonal() @ rates), start, step, limit
    )


def lower_point(
    at: Callable[[float], P],
    slope: Callable[[P], float],
    start: Trial,
    step: float,
    limit: float,
) -> tuple[P, float] | None:
    """Return a point that meets the Wolfe conditions, or the lowest met, and its step.

    ``at`` is one pass over the data, which yields value, slope and, if it is accepted, the next
    gradient. ``low`` is the lowest descending trial, ``high`` one beyond it that is higher or
    ascends; between them a cubic places the next trial. None if no step lowers the value.
    """
    low, high, best = start, None, None
    for _ in range(MAX_TRIALS):
        point = at(step)
        trial = Trial(step, point.value, slope(point))
        enough = start.value + SUFFICIENT_DECREASE * step * start.slope
        if trial.value < start.value and trial.value <= enough:
            if best is None or point.value < best[0].value:
                best = point, step
            if abs(trial.slope) <= CURVATURE * abs(start.slope):
                break
        if trial.value < low.value and trial.slope < 0.0:
            low = trial
        else:
            high = trial
        if high is not None:
            step = cubic_minimum(low, high)
        elif step < limit:
            # Where the slope would vanish if it went on changing as it did.
            ratio = 1.0 - trial.slope / start.slope
            step = min(limit, step * float(np.clip(1.0 / ratio if ratio > 0.0 else 4.0, 1.5, 4.0)))
        else:
            break
    return best


def coarse_step(path: Path, start: Trial, scale: float) -> float:
    """Order of magnitude of the best step, from four values per pass over the data."""
    steps = scale * np.array([1 / 64, 1 / 16, 1 / 4, 1.0])
    for _ in range(MAX_TRIALS):
        values = path.values(steps)
        lowest = int(np.argmin(values))
        if values[lowest] < start.value:
            break
        steps = steps / 256
    return float(steps[lowest])


def cubic_minimum(low: Trial, high: Trial) -> float:
    """Step between two trials, `low` before `high`, that minimises the cubic through them."""
    width = high.step - low.step
    secant = low.slope + high.slope - 3.0 * (high.value - low.value) / width
    root = float(np.sqrt(max(secant * secant - low.slope * high.slope, 0.0)))
    bottom = high.slope - low.slope + 2.0 * root
    share = (high.slope + root - secant) / bottom if bottom > 0.0 else 0.5
    return high.step - width * float(np.clip(share, 0.05, 0.95))

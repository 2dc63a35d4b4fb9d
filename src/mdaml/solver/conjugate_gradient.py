"""Conjugate gradients over a space of metrics."""

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from mdaml._typing import FloatArray
from mdaml.solver.geometry import dot
from mdaml.solver.line_search import Trial, lower_point
from mdaml.solver.objective import Objective


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
    """Minimise an objective over metrics ``M = F F^T``; its value falls at every step.

    Algorithm 1, with the Hestenes-Stiefel rule and a restart wherever the direction does not
    descend. Stops at a gradient below ``gtol`` or a decrease over five steps below ``ftol``, both
    relative to the value.
    """
    space = objective.space
    point = space.at(objective, F)
    gradient = space.gradient(objective, point)
    direction, last, restarted = space.steepest(objective, point, gradient), None, True
    history, status, equal = [point.value], Status.MAX_ITER, 0.0
    while max_iter > 0:
        if space.gain(point, gradient) <= gtol * abs(point.value):
            status = Status.CONVERGED
            break
        if len(history) > 5 and history[-6] - history[-1] <= ftol * abs(history[-1]):
            status = Status.STALLED
            break
        slope = dot(gradient, direction)
        if not slope < 0.0:
            direction, last, restarted = space.steepest(objective, point, gradient), None, True
            slope = dot(gradient, direction)
        path = objective.along(point, gradient, direction)
        # From here on everything is in the frame of the path; free the old projection.
        point, gradient, direction = path.origin, path.gradient, path.direction
        first = path.first_step(point.value, last, equal)
        found = lower_point(path, Trial(0.0, point.value, slope), first)
        if found is None:
            if restarted:
                status = Status.NO_DESCENT
                break
            direction, last, restarted = space.steepest(objective, point, gradient), None, True
            continue
        point, step = found
        del found, path  # they would keep this projection alive beside the next
        history.append(point.value)
        previous, gradient = gradient, space.gradient(objective, point)
        if len(history) > max_iter:
            break
        steepest = space.steepest(objective, point, gradient)
        beta = hestenes_stiefel(gradient, previous, direction, steepest)
        direction, restarted = beta * direction + steepest, beta == 0.0
        new_slope = dot(gradient, direction)
        last, equal = (step, step * slope / new_slope) if new_slope < 0.0 else (None, 0.0)
    relative = space.gain(point, gradient) / max(abs(point.value), np.finfo(float).tiny)
    return Result(point.F, point.value, relative, len(history) - 1, status, history)


def hestenes_stiefel(
    gradient: FloatArray, previous: FloatArray, direction: FloatArray, steepest: FloatArray
) -> float:
    """Weight of the last direction in the next one, never negative; all in one frame.

    ``steepest`` is minus the gradient, preconditioned or not.
    """
    change = gradient - previous
    curvature = dot(direction, change)
    return max(0.0, -dot(steepest, change) / curvature) if curvature > 0.0 else 0.0

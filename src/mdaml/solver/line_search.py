"""Line search: a lower point along a curve, from values and slopes."""

from dataclasses import dataclass

import numpy as np

from mdaml.solver.objective import Path, Point

SUFFICIENT_DECREASE = 1e-4  # Wolfe conditions
CURVATURE = 0.4
MAX_TRIALS = 12


@dataclass(frozen=True)
class Trial:
    """One step along a curve: where, how high, how steep."""

    step: float
    value: float
    slope: float


def lower_point(path: Path, start: Trial, step: float) -> tuple[Point, float] | None:
    """Return a point that meets the Wolfe conditions, or the lowest met, and its step.

    A trial is one pass over the data, which yields value, slope and, if it is accepted, the next
    gradient. ``low`` is the lowest descending trial, ``high`` one beyond it that is higher or
    ascends; between them a cubic places the next trial. None if no step lowers the value.
    """
    low, high, best = start, None, None
    step = min(step, path.limit)
    for _ in range(MAX_TRIALS):
        if not start.value + step * start.slope < start.value:  # lost in rounding
            break
        point = path.at(step)
        trial = Trial(step, point.value, path.slope(point))
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
            if high.step == low.step:  # so short that no number lies between them
                break
            step = cubic_minimum(low, high)
        elif step < path.limit:
            # Where the slope would vanish if it went on changing as it did.
            ratio = 1.0 - trial.slope / start.slope
            growth = float(np.clip(1.0 / ratio if ratio > 0.0 else 4.0, 1.5, 4.0))
            step = min(path.limit, step * growth)
        else:
            break
    return best


def cubic_minimum(low: Trial, high: Trial) -> float:
    """Step between two trials, `low` before `high`, that minimises the cubic through them."""
    width = high.step - low.step
    secant = low.slope + high.slope - 3.0 * (high.value - low.value) / width
    root = float(np.sqrt(max(secant * secant - low.slope * high.slope, 0.0)))
    bottom = high.slope - low.slope + 2.0 * root
    share = (high.slope + root - secant) / bottom if bottom > 0.0 else 0.5
    return high.step - width * float(np.clip(share, 0.05, 0.95))

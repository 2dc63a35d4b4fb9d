"""Thresholds and probabilities for pairs, set from the distances of labelled pairs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from mdaml._typing import BoolArray, FloatArray


@dataclass(frozen=True)
class Tradeoff:
    """Number of pairs accepted as the same at every threshold, from the lowest threshold up.

    Thresholds lie midway between neighbouring distances; the first is below all distances, the
    last is the largest distance.
    """

    thresholds: FloatArray  # (m,)
    accepted_same: FloatArray  # (m,) similar pairs within the threshold
    accepted_different: FloatArray  # (m,) dissimilar pairs within it
    n_same: int
    n_different: int

    @classmethod
    def from_distances(cls, distances: FloatArray, same: BoolArray) -> Self:
        """Count pairs by sorting their distances once."""
        values = np.unique(distances)
        middles = 0.5 * (values[1:] + values[:-1])
        thresholds = np.concatenate([[values[0] - 1.0], middles, values[-1:]])
        near, far = (
            np.searchsorted(np.sort(kind), thresholds, side="right").astype(np.float64)
            for kind in (distances[same], distances[~same])
        )
        return cls(thresholds, near, far, int(near[-1]), int(far[-1]))

    @property
    def false_accepts(self) -> FloatArray:
        """Share of dissimilar pairs accepted as the same."""
        return self.accepted_different / self.n_different

    @property
    def false_rejects(self) -> FloatArray:
        """Share of similar pairs rejected as different."""
        return 1.0 - self.accepted_same / self.n_same

    def equal_error(self) -> tuple[float, float]:
        """Return the threshold at which both error rates are closest, and their mean there."""
        best = int(np.argmin(np.abs(self.false_accepts - self.false_rejects)))
        rate = 0.5 * (self.false_accepts[best] + self.false_rejects[best])
        return float(self.thresholds[best]), float(rate)

    def lowest_cost(self, cost: tuple[float, float]) -> float:
        """Return the threshold with the lowest total cost of false accepts and false rejects."""
        rejected = self.n_same - self.accepted_same
        total = cost[0] * self.accepted_different + cost[1] * rejected
        return float(self.thresholds[np.argmin(total)])

    def best_f(self, beta: float) -> float:
        """Return the threshold with the highest F-beta of the similar pairs."""
        rejected = self.n_same - self.accepted_same
        weighted = (1 + beta**2) * self.accepted_same
        f = weighted / (weighted + beta**2 * rejected + self.accepted_different)
        return float(self.thresholds[np.argmax(f)])


@dataclass(frozen=True)
class SigmoidCurve:
    """Probability of being the same as a logistic function that never rises with distance."""

    slope: float  # at most 0
    intercept: float

    @classmethod
    def fit(cls, distances: FloatArray, same: BoolArray) -> Self:
        """Fit by Platt's method, whose targets keep the slope finite for separable pairs."""
        n_same, n_different = int(same.sum()), int((~same).sum())
        target = np.where(same, (n_same + 1) / (n_same + 2), 1 / (n_different + 2))
        spread = float(distances.std()) or 1.0
        middle = float(distances.mean())
        column = ((distances - middle) / spread)[:, None]
        # Each pair counts as similar and as dissimilar, in the proportion of its target.
        model = LogisticRegression(C=1e6, tol=1e-8, max_iter=1000)
        model.fit(
            np.concatenate([column, column]),
            np.repeat([1, 0], len(column)),
            sample_weight=np.concatenate([target, 1 - target]),
        )
        slope = float(model.coef_[0, 0]) / spread
        if slope >= 0:  # similar pairs are not closer: use their share at all distances
            return cls(0.0, float(np.log(target.mean() / (1 - target.mean()))))
        return cls(slope, float(model.intercept_[0]) - slope * middle)

    def __call__(self, distances: FloatArray) -> FloatArray:
        """Return the probability that pairs at these distances are the same."""
        return 0.5 * (1.0 + np.tanh(0.5 * (self.slope * distances + self.intercept)))


def fit_curve(
    kind: str, distances: FloatArray, same: BoolArray
) -> Callable[[FloatArray], FloatArray]:
    """Return a function from distances to the probability of being the same."""
    if kind == "sigmoid":
        return SigmoidCurve.fit(distances, same)
    steps = IsotonicRegression(y_min=0, y_max=1, increasing=False, out_of_bounds="clip")
    return steps.fit(distances, same.astype(np.float64)).predict

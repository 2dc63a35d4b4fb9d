"""Learning on scaled features, with models that take the features as they are."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mdaml._typing import FloatArray


@dataclass(frozen=True)
class Scaling:
    """Features less their means, divided by their standard deviations; constant ones by 1."""

    mean: FloatArray  # (d,)
    scale: FloatArray  # (d,)

    @classmethod
    def from_samples(cls, X: FloatArray) -> Self:
        """Take means and deviations of samples."""
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler(copy=False).fit(X)
        return cls(scaler.mean_, scaler.scale_)

    def apply(self, X: FloatArray) -> FloatArray:
        """Return scaled samples, in the precision of X."""
        return ((X - self.mean) / self.scale).astype(X.dtype, copy=False)


def fold_scaling(model: Any, scaling: Scaling) -> None:
    """Turn a model of scaled samples into one of samples as they are, in place.

    For the map L of scaled samples, ``L diag(1/scale)`` gives raw samples the same distances, since
    distances do not see the means. Centres of modes go back to the units of the samples; weights in
    the modes, which depend on distances only, stay.
    """
    for metric in (model, getattr(model, "best_estimator_", None)):
        if metric is None:
            continue
        L = metric.components_
        metric.components_ = (L / scaling.scale).astype(L.dtype)
        if hasattr(metric, "centers_"):
            centers = metric.centers_ * scaling.scale + scaling.mean
            metric.centers_ = centers.astype(metric.centers_.dtype)


@dataclass(frozen=True)
class Unlearned:
    """Euclidean distance, of features as they are or divided by something: a yardstick."""

    scale: FloatArray | float = 1.0

    def transform(self, X: Any) -> FloatArray:
        """Return the samples, divided."""
        return np.asarray(X, np.float64) / self.scale

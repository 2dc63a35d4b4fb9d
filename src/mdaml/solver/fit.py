"""What came of a fit, and the learned attributes that it gives an estimator."""

from dataclasses import dataclass

from sklearn.base import BaseEstimator

from mdaml._typing import Array, FloatArray, IntArray, Params
from mdaml.constraints.labels import Classes
from mdaml.constraints.value import Constraints
from mdaml.solver.conjugate_gradient import Status
from mdaml.solver.spec import Spec


@dataclass(frozen=True)
class Fit:
    """What came of a fit."""

    F: FloatArray  # (d, r) factor of the metric
    centers: FloatArray  # (K, d) less the mean of the samples
    weights: FloatArray  # (N, K)
    comparisons: Constraints  # in force: triplets, or weighted quadruplets
    spec: Spec  # as it was used: modes counted, weight resolved
    critical_weight: float
    history: FloatArray
    pass_starts: IntArray
    n_iter: int
    mean_loss: float  # of the comparisons, weighted; 1/2 with a zero metric
    status: Status  # of the last pass
    n_last: int  # rounds of the last pass
    persons: dict[str, Array] | None = None  # name, answers, error and weight of each

    def attributes(self, supervision: Constraints | Classes, mean: FloatArray) -> Params:
        """Return the learned attributes of an estimator, all but ``components_``.

        ``supervision`` is what was passed to fit, ``mean`` the mean of the samples.
        """
        return comparison_attributes(supervision, self.comparisons) | {
            "triplet_weight_": self.spec.triplet_weight,
            "eta_": self.spec.eta,
            "ridge_": self.spec.ridge,
            "anchor_": self.spec.anchor,
            "floor_": self.spec.floor,
            "shrinkage_": self.spec.shrinkage,
            "lambda1_critical_": self.critical_weight,
            "n_modes_": len(self.centers),
            "mode_clarity_": _clarity(self.weights),
            "centers_": self.centers + mean,
            "weights_": self.weights.astype(mean.dtype, copy=False),
            "history_": self.history,
            "pass_starts_": self.pass_starts,
            "n_iter_": self.n_iter,
            "persons_": self.persons,
            "n_samples_seen_": len(self.weights),
            "n_comparisons_seen_": self.comparisons.n_constraints,
        }


def _clarity(weights: FloatArray) -> float:
    """Return how clearly samples belong to one mode: from 0, to all alike, to 1."""
    n_modes = weights.shape[1]
    if n_modes == 1:
        return 1.0
    return float((weights.max(axis=1).mean() * n_modes - 1.0) / (n_modes - 1.0))


def comparisons_of(model: BaseEstimator, n_points: int) -> Constraints:
    """Return the comparisons in force, read from the learned attributes."""
    if model.comparisons_ is None:
        return Constraints.of_triplets(model.triplets_, n_points)
    return Constraints.of_quadruplets(model.comparisons_, model.comparison_weights_, n_points)


def comparison_attributes(supervision: Constraints | Classes, comparisons: Constraints) -> Params:
    """Return the learned attributes that say which comparisons are in force."""
    made = len(comparisons.quadruplets) > 0
    return {
        "triplets_": supervision.triplets
        if isinstance(supervision, Constraints) and made
        else comparisons.triplets,
        "comparisons_": comparisons.quadruplets if made else None,
        "comparison_weights_": comparisons.weights if made else None,
    }

"""Choose parameters without labels: what to hold out, how to score it, and a search over a grid."""

from mdaml.holdout.split import Split
from mdaml.model_selection._search import MetricSearchCV
from mdaml.model_selection._split import ConstraintKFold, PointKFold
from mdaml.model_selection.scoring import (
    hit_rate_at_k,
    knn_accuracy,
    map_at_r,
    neighbor_accuracy,
    pair_auc,
    triplet_accuracy,
)

__all__ = [
    "ConstraintKFold",
    "MetricSearchCV",
    "PointKFold",
    "Split",
    "hit_rate_at_k",
    "knn_accuracy",
    "map_at_r",
    "neighbor_accuracy",
    "pair_auc",
    "triplet_accuracy",
]

"""Choose parameters without labels: what to hold out, how to score it, and a search over a grid."""

from mdaml.model_selection._scoring import (
    knn_accuracy,
    map_at_r,
    neighbor_accuracy,
    pair_auc,
    recall_at_k,
    triplet_accuracy,
)
from mdaml.model_selection._search import MetricSearchCV
from mdaml.model_selection._split import ConstraintKFold, PointKFold, Split

__all__ = [
    "ConstraintKFold",
    "MetricSearchCV",
    "PointKFold",
    "Split",
    "knn_accuracy",
    "map_at_r",
    "neighbor_accuracy",
    "pair_auc",
    "recall_at_k",
    "triplet_accuracy",
]

"""What a metric is linear in: the features, or features and closeness to modes."""

from mdaml.basis.modes import (
    N_LANDMARKS,
    Basis,
    Gates,
    find_landmarks,
    find_maps,
    find_places,
    mean_sq_dist,
)

__all__ = [
    "N_LANDMARKS",
    "Basis",
    "Gates",
    "find_landmarks",
    "find_maps",
    "find_places",
    "mean_sq_dist",
]

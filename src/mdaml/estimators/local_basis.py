"""The basis of LocalMDaML, kept as attributes and read back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdaml._typing import FloatArray
from mdaml.basis import Basis, Gates
from mdaml.estimators.local_rounds import Learned

# Of the metric on the basis: centres of its own modes, and what describes its rows and columns.
RENAMED = {"centers_": "mode_centers_"}
_LEFT_OUT = ("weights_", "n_features_in_", "feature_names_in_")


def learned_attributes(learned: Learned) -> tuple[FloatArray, dict[str, Any]]:
    """Return the map on the basis, and all else that was learned."""
    basis, metric, L = learned.basis, learned.metric, learned.components()
    others = {
        RENAMED.get(name, name): value
        for name, value in vars(metric).items()
        if name.endswith("_") and not name.startswith("_") and name not in _LEFT_OUT
    }
    del others["components_"]
    d = metric.n_features_in_ if basis.mean is None else len(basis.mean)
    gates = {"": basis.places, "map_": basis.maps, "landmark_": basis.landmarks}
    for name, found in gates.items():
        others[f"{name}width_"] = 0.0 if found is None else float(found.width)
        others[f"{name}centers_"] = np.empty((0, d), L.dtype) if found is None else found.centers
    U = np.empty((0, 0), L.dtype) if basis.landmark_map is None else basis.landmark_map
    return L, {
        **others,
        "landmark_map_": U,
        "scale_": 1.0,
        "n_places_": len(others["centers_"]),
        "n_maps_": len(others["map_centers_"]),
        "mean_": np.zeros(d, L.dtype) if basis.mean is None else basis.mean,
        "anchor_": learned.anchor,
        "gain_": learned.gain,
        "tried_": list(learned.tried),
    }


def basis_of(model: Any) -> Basis:
    """Return the basis of a fitted model, of samples after the steps before it."""
    places = maps = landmarks = U = None
    if model.n_places_:
        places = Gates(model._before(model.centers_), model.width_)
        landmarks = Gates(model._before(model.landmark_centers_), model.landmark_width_)
        U = model.landmark_map_
    if model.n_maps_:
        maps = Gates(model._before(model.map_centers_), model.map_width_)
    return Basis(places, maps, landmarks, U, model._before(model.mean_[None])[0])


def put_behind(model: Any, steps: Sequence[Any], matrix: FloatArray) -> None:
    """Let a model with places see samples after linear steps; its modes are given in those of X.

    ``matrix`` is the linear part of the steps, (n_before, n_features). Memberships do not depend on
    distances in X alone, so that the map on the basis stays as it is.
    """
    offset: FloatArray = np.zeros((1, steps[0].n_features_in_))
    for step in steps:
        offset = step.transform(offset)
    front, before = model.front_matrix_, model.front_offset_
    model.front_offset_ = np.asarray(offset, np.float64).ravel()
    model.front_matrix_ = matrix
    if front is not None and before is not None:
        model.front_offset_ = front @ model.front_offset_ + before
        model.front_matrix_ = front @ matrix
    for name in ("centers_", "map_centers_", "landmark_centers_", "mean_"):
        value = np.atleast_2d(getattr(model, name)).astype(np.float64)
        if len(value) == 0:
            model.__dict__[name] = np.empty((0, matrix.shape[1]))
            continue
        for step in reversed(steps):
            value = np.asarray(step.inverse_transform(value))
        model.__dict__[name] = value[0] if name == "mean_" else value
    model.n_features_in_ = matrix.shape[1]

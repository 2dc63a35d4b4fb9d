"""The basis of LocalMDaML: checked, chosen on held-out data, kept as attributes and read back."""

from dataclasses import asdict
from typing import Any

import numpy as np

from mdaml._typing import FloatArray
from mdaml._validation import check_integer, ignore_warnings
from mdaml.basis import Basis, Gates, find_basis
from mdaml.constraints.arguments import Said
from mdaml.constraints.labels import Classes
from mdaml.estimators.mdaml import MDaML
from mdaml.holdout.places import Size, choose_size, make_judge

# What is tried where "auto" stands; see docs/supervision.md.
PLACES, MAPS = (32, 128, 256), (4,)
MOST_COLUMNS = 320  # of a basis that is tried: a step takes the cube of it
_ROWS_FOR_A_PLACE = 4
_ROUNDS_TO_CHOOSE = 2
_SHARED = {
    *("goal", "triplet_weight", "ridge", "anchor", "n_components", "max_iter", "tol"),
    *("device", "memory_limit", "verbose", "callback", "random_state"),
}
# Of the metric on the basis: centres of its own modes, and what describes its rows and columns.
_RENAMED = {"centers_": "mode_centers_"}
_LEFT_OUT = ("weights_", "n_features_in_", "feature_names_in_")


def shared_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of the metric on the basis."""
    return {name: getattr(model, name) for name in _SHARED}


def choose_basis(model: Any, X: FloatArray, said: Said) -> tuple[Basis, list[dict[str, Any]]]:
    """Return the basis, with numbers given or chosen on held-out data, and what was tried."""
    n_nearest = check_integer(model, "n_nearest", model.n_nearest, 1)
    size, ladders = _check_numbers(model, X.shape, isinstance(said, Classes))

    def columns_of(size: Size) -> FloatArray:
        return find_basis(X, *size, n_nearest).transform(X)

    def fit(columns: FloatArray, said: Said) -> FloatArray:
        return _fit_shortly(model, columns, said)

    if not any(ladders):
        return find_basis(X, *size, n_nearest), []
    size, tried = choose_size(make_judge(X, said, fit), columns_of, size, ladders)
    return find_basis(X, *size, n_nearest), [asdict(trial) for trial in tried]


def _check_numbers(
    model: Any, shape: tuple[int, int], from_labels: bool
) -> tuple[Size, list[list[Size]]]:
    """Return the numbers of places and maps to begin with, and what else to try, in turn."""
    (n, d), rows = shape, ", the number of rows of X"
    begin, more = [], []
    for name, numbers in (("n_places", PLACES), ("n_maps", () if from_labels else MAPS)):
        value = getattr(model, name)
        auto = isinstance(value, str)
        if auto and value != "auto":
            raise ValueError(
                f"{type(model).__name__}({name}=...) must be 'auto' or a number, got {value!r}."
            )
        begin.append(0 if auto else check_integer(model, name, value, 0, n, what=rows))
        more.append([k for k in numbers if auto and k * _ROWS_FOR_A_PLACE <= n])
    n_places, n_maps = begin
    ladders = [[(k, n_maps) for k in more[0]], [(n_places, k) for k in more[1]]]
    fits = [[(k, m) for k, m in at if d * (1 + m) + k <= MOST_COLUMNS] for at in ladders]
    return (n_places, n_maps), fits


def _fit_shortly(model: Any, columns: FloatArray, said: Said) -> FloatArray:
    """Return the linear map of a short fit, to judge a basis by."""
    short: dict[str, Any] = {"verbose": 0, "callback": None}
    if model.max_iter == "auto" and not isinstance(said, Classes):
        short["max_iter"] = _ROUNDS_TO_CHOOSE
    metric = MDaML(**{**shared_parameters(model), **short})
    with ignore_warnings(UserWarning):  # of a trial: the fit itself will say it
        metric._fit(columns, columns, said, None)
    L: FloatArray = metric.components_.astype(columns.dtype, copy=False)
    return L


def learned_attributes(
    basis: Basis, metric: MDaML, tried: list[dict[str, Any]]
) -> tuple[FloatArray, dict[str, Any]]:
    """Return the map on the basis, and all else that was learned."""
    learned = {
        _RENAMED.get(name, name): value
        for name, value in vars(metric).items()
        if name.endswith("_") and not name.startswith("_") and name not in _LEFT_OUT
    }
    L: FloatArray = learned.pop("components_")
    d = metric.n_features_in_ if basis.mean is None else len(basis.mean)
    for gates, name in ((basis.places, ""), (basis.maps, "map_")):
        learned[f"{name}width_"] = 0.0 if gates is None else gates.width
        learned[f"{name}centers_"] = np.empty((0, d), L.dtype) if gates is None else gates.centers
    centers = learned["centers_"]
    columns = basis.transform(centers) if len(centers) else np.empty((0, L.shape[1]), L.dtype)
    return L, {
        **learned,
        "n_places_": len(centers),
        "n_maps_": len(learned["map_centers_"]),
        "places_": columns @ L.T.astype(columns.dtype),
        "scale_": float(basis.scale),
        "mean_": np.zeros(d, L.dtype) if basis.mean is None else basis.mean,
        "tried_": tried,
    }


def lend(model: Any, metric: MDaML) -> None:
    """Give a metric what a model has learned on its basis, to go on from."""
    names = {new: old for old, new in _RENAMED.items()}
    for name, value in vars(model).items():
        if name.endswith("_") and name not in ("centers_", "feature_names_in_"):
            setattr(metric, names.get(name, name), value)
    metric.n_features_in_ = model.components_.shape[1]
    if hasattr(model, "_stream"):
        metric._stream = model._stream


def basis_of(model: Any) -> Basis:
    """Return the basis of a fitted model."""
    places = maps = None
    if model.n_places_:
        places = Gates(model.centers_, model.width_, model.n_nearest)
    if model.n_maps_:
        maps = Gates(model.map_centers_, model.map_width_, model.n_maps_)
    return Basis(places, maps, model.scale_, model.mean_)

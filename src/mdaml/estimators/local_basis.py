"""The basis of LocalMDaML: checked, chosen on held-out data, kept as attributes and read back."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from mdaml._typing import FloatArray
from mdaml._validation import check_integer, ignore_warnings
from mdaml.basis import Basis, Gates, find_basis
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.labels import Classes
from mdaml.estimators.mdaml import MDaML
from mdaml.estimators.posing import is_auto
from mdaml.holdout.places import Size, SizeTrial, choose_size, make_judge

# What is tried where "auto" stands; see docs/places.md.
PLACES, MAPS = (32, 128, 512), (4,)
_ROWS_FOR_A_PLACE = 2.5
_ROUNDS_TO_CHOOSE = 2
# With places a stronger anchor keeps the neighbours of a kind together and costs no agreement.
LEAST_ANCHOR, LEAST_OF_LOW_RANK = 0.1, 1.0
# A step of full rank takes the cube of the columns: a basis of more is learned at a lower rank.
FULL_RANK_UP_TO, RANK = 320, 128
_SHARED = (
    *("goal", "triplet_weight", "ridge", "anchor", "n_components", "max_iter", "tol"),
    *("device", "verbose", "callback", "random_state"),
)
# Of the metric on the basis: centres of its own modes, and what describes its rows and columns.
_RENAMED = {"centers_": "mode_centers_"}
_LEFT_OUT = ("weights_", "n_features_in_", "feature_names_in_")


def shared_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of the metric on the basis."""
    return {name: getattr(model, name) for name in _SHARED}


def make_metric(model: Any, n_columns: int, anchor: Any, **others: Any) -> MDaML:
    """Return the metric to learn on the columns of a basis, given the anchor of a linear map."""
    params = shared_parameters(model) | others
    if params["n_components"] is None and n_columns > FULL_RANK_UP_TO:
        params["n_components"] = RANK
    if is_auto(model.anchor) and not is_auto(anchor):
        share = (params["n_components"] or n_columns) / n_columns
        params["anchor"] = share * max(anchor, LEAST_ANCHOR if share == 1 else LEAST_OF_LOW_RANK)
    return MDaML(**params)


def choose_basis(
    model: Any, X: FloatArray, said: Supervision
) -> tuple[Basis, MDaML, list[dict[str, Any]]]:
    """Return the basis, the metric to learn on it, and what was tried.

    Numbers of places and maps are those given, or chosen on held-out data.
    """
    n_nearest = check_integer(model, "n_nearest", model.n_nearest, 1)
    size, ladders = _check_numbers(model, X.shape, isinstance(said, Classes))
    if size == (0, 0) and not any(ladders):
        return Basis(), MDaML(**shared_parameters(model)), []
    anchor = _linear_anchor(model, X, said)

    def columns_of(size: Size) -> FloatArray:
        return find_basis(X, *size, n_nearest).transform(X)

    def fit(columns: FloatArray, said: Supervision) -> FloatArray:
        short: dict[str, Any] = {"verbose": 0, "callback": None}
        if is_auto(model.max_iter) and not isinstance(said, Classes):
            short["max_iter"] = _ROUNDS_TO_CHOOSE
        is_linear = columns.shape[1] == X.shape[1]
        metric = make_metric(model, columns.shape[1], "auto" if is_linear else anchor, **short)
        return _fit_quietly(metric, columns, said).components_.astype(columns.dtype, copy=False)

    tried: list[SizeTrial] = []
    if any(ladders):
        judge = make_judge(X, said, fit)
        size, tried = choose_size(
            judge, columns_of, size, ladders, lambda at: _is_affordable(at, X.shape[1])
        )
    basis = find_basis(X, *size, n_nearest)
    if basis.is_identity:
        metric = MDaML(**shared_parameters(model))
    else:
        metric = make_metric(model, basis.width(X.shape[1]), anchor)
    return basis, metric, [asdict(trial) for trial in tried]


def _linear_anchor(model: Any, X: FloatArray, said: Supervision) -> Any:
    """Return the anchor that a linear map chooses, or "auto" where nothing is to be chosen.

    That of one that learns nothing says nothing.
    """
    if isinstance(said, Classes) or not is_auto(model.anchor):
        return "auto"
    short = {"verbose": 0, "callback": None, "max_iter": 1, "n_components": None}
    metric = _fit_quietly(MDaML(**shared_parameters(model) | short), X, said)
    if metric.anchor_ == 0.0:  # groups were found, which are learned from as labels
        return "auto"
    return 0.0 if metric.start_kept_ else metric.anchor_


def _fit_quietly(metric: MDaML, columns: FloatArray, said: Supervision) -> MDaML:
    """Fit a metric for a trial, without the warnings that the fit itself will give."""
    with ignore_warnings(UserWarning):
        metric._fit(columns, columns, said, None)
    return metric


def _check_numbers(
    model: Any, shape: tuple[int, int], from_labels: bool
) -> tuple[Size, list[list[Size]]]:
    """Return the numbers of places and maps to begin with, and what else to try, in turn."""
    n, rows = shape[0], ", the number of rows of X"
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
    return (n_places, n_maps), [[(k, n_maps) for k in more[0]], [(n_places, k) for k in more[1]]]


def _is_affordable(size: Size, n_features: int) -> bool:
    """Return whether maps can be learned at full rank: at a low one they lose the neighbours."""
    n_places, n_maps = size
    return n_maps == 0 or n_features * (1 + n_maps) + n_places <= FULL_RANK_UP_TO


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
    return L, {
        **learned,
        "n_places_": len(learned["centers_"]),
        "n_maps_": len(learned["map_centers_"]),
        "scale_": float(basis.scale),
        "mean_": np.zeros(d, L.dtype) if basis.mean is None else basis.mean,
        "tried_": tried,
    }


def lend(model: Any) -> MDaML:
    """Return a metric with what a model has learned on its basis, to go on from."""
    n_columns = model.components_.shape[1]
    if model.n_places_ + model.n_maps_:
        metric = make_metric(model, n_columns, model.anchor_ if model.anchor_ else "auto")
    else:
        metric = MDaML(**shared_parameters(model))
    names = {new: old for old, new in _RENAMED.items()}
    for name, value in vars(model).items():
        if name.endswith("_") and name not in ("centers_", "feature_names_in_", "input_map_"):
            setattr(metric, names.get(name, name), value)
    metric.n_features_in_ = n_columns
    if hasattr(model, "_stream"):
        metric._stream = model._stream
    return metric


def basis_of(model: Any) -> Basis:
    """Return the basis of a fitted model, of samples after the steps before it."""
    places = maps = None
    if model.n_places_:
        places = Gates(model._before(model.centers_), model.width_, model.n_nearest)
    if model.n_maps_:
        maps = Gates(model._before(model.map_centers_), model.map_width_, model.n_maps_)
    return Basis(places, maps, model.scale_, model._before(model.mean_[None])[0])


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
    for name in ("centers_", "map_centers_", "mean_"):
        value = np.atleast_2d(getattr(model, name)).astype(np.float64)
        if len(value) == 0:
            model.__dict__[name] = np.empty((0, matrix.shape[1]))
            continue
        for step in reversed(steps):
            value = np.asarray(step.inverse_transform(value))
        model.__dict__[name] = value[0] if name == "mean_" else value
    model.n_features_in_ = matrix.shape[1]

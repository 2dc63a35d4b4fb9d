"""What LocalMDaML learns: one linear map, or places, by what is held out."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mdaml._typing import FloatArray
from mdaml._validation import check_integer, check_magnitude, check_number, ignore_warnings
from mdaml.basis import Basis
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.labels import Classes
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators.local_rounds import (
    N_PLACES,
    QUIET,
    ChosenPlaces,
    FitMetric,
    Learned,
    Rounds,
    inner_metric,
)
from mdaml.estimators.posing import choose_row, is_auto
from mdaml.stores.blocks import CentredRows

# What "auto" stands for, and is chosen from; see docs/places.md.
ANCHORS = (0.25, 2.5, 8.0)
USUAL_ANCHOR, LABEL_ANCHOR = 0.8, 0.25
_PARTNERS = 10  # of each kind that a sample gets from labels
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


def learn(
    model: Any,
    X: FloatArray,
    supervision: Supervision,
    persons: Persons | None,
    fit: FitMetric | None = None,
) -> Learned:
    """Learn a basis, and a metric on it; whether there are places, if not given, is chosen.

    ``fit`` makes the last fit, if not to X: X are then some of the samples.
    """
    n_places, n_maps = _check_numbers(model, X.shape)
    choose_row(model, from_labels=isinstance(supervision, Classes))
    check_magnitude(CentredRows.of(X))
    anchors = _anchors(model)
    anchor = USUAL_ANCHOR if is_auto(model.anchor) else anchors[0]
    if isinstance(supervision, Classes) and n_places is None and n_maps == 0:
        return _learn_from_labels(model, X, supervision, fit)
    if n_places is None and (isinstance(supervision, Classes) or model.goal == "neighbors"):
        n_places = 0
    if isinstance(supervision, Classes) and (n_places or n_maps):
        supervision = compare_classes(supervision, len(X))
    if isinstance(supervision, Classes) or n_places == n_maps == 0:
        return _learn_linear(model, X, supervision, persons, fit)
    rounds = Rounds.of(model, X, supervision, n_places, n_maps)
    if n_places is not None:
        return rounds.learn(X, supervision, persons, anchor, fit)
    choice = rounds.choose(anchors)
    gain, rounds = choice.gain, choice.rounds
    if choice.anchor is not None:
        learned = rounds.learn(X, supervision, persons, choice.anchor, fit)
    elif n_maps:
        learned = replace(rounds, n_places=0).learn(X, supervision, persons, anchor, fit)
    else:
        learned = _learn_linear(model, X, supervision, persons, fit)
        gain = learned.gain
    return replace(learned, tried=choice.tried, gain=gain)


def try_places(model: Any, X: FloatArray, supervision: Constraints, n_maps: int) -> "ChosenPlaces":
    """Choose on held-out points whether there are places, and how to learn them."""
    return Rounds.of(model, X, supervision, None, n_maps).choose(_anchors(model))


def _anchors(model: Any) -> tuple[float, ...]:
    """Return the anchors to choose from, one if it was given."""
    if is_auto(model.anchor):
        return ANCHORS
    return (check_number(model, "anchor", model.anchor, 0.0),)


def _learn_linear(
    model: Any,
    X: FloatArray,
    supervision: Supervision,
    persons: Persons | None,
    fit: FitMetric | None = None,
) -> Learned:
    metric = inner_metric(model)
    if fit is None:
        metric._fit(X, X, supervision, persons)
    else:
        fit(metric, Basis(), None)
    return Learned(Basis(), metric, anchor=metric.anchor_, gain=metric.gain_)


def _learn_from_labels(
    model: Any, X: FloatArray, classes: Classes, fit: FitMetric | None
) -> Learned:
    """Learn one linear map or, if held-out samples find their class by more than chance, places."""
    from mdaml.holdout.places import choose_by_votes

    anchor = LABEL_ANCHOR if is_auto(model.anchor) else _anchors(model)[0]
    quiet, n_places = clone(model).set_params(**QUIET), min(N_PLACES, (len(X) + 1) // 2)

    def with_places(
        model: Any, X: FloatArray, classes: Classes, fit: FitMetric | None = None
    ) -> Learned:
        supervision = compare_classes(classes, len(X))
        return Rounds.of(model, X, supervision, None, 0).learn(X, supervision, None, anchor, fit)

    def linear(X: FloatArray, classes: Classes, rows: FloatArray) -> FloatArray:
        return _learn_linear(quiet, X, classes, None).map(rows)

    def local(X: FloatArray, classes: Classes, rows: FloatArray) -> FloatArray:
        return with_places(quiet, X, classes).map(rows)

    found = None
    if isinstance(model.goal, str) and model.goal in ("auto", "comparisons"):
        with ignore_warnings(UserWarning):
            found = choose_by_votes(X, classes, [linear, local])
    if found is None:
        return _learn_linear(model, X, classes, None, fit)
    taken, scores, gain = found
    if taken:
        learned = with_places(model, X, classes, fit)
    else:
        learned = _learn_linear(model, X, classes, None, fit)
    numbers = [(0, learned.anchor if not taken else 0.0), (n_places, anchor)]
    tried = tuple(
        {"n_places": n, "n_maps": 0, "anchor": a, "width": 1.0, "score": score}
        | {"is_chosen": k == taken}
        for k, ((n, a), score) in enumerate(zip(numbers, scores, strict=True))
    )
    return replace(learned, tried=tried, gain=gain if taken else learned.gain)


def _check_numbers(model: Any, shape: tuple[int, int]) -> tuple[int | None, int]:
    """Return the numbers of places and maps; None are places to be chosen."""
    n, d = shape
    found: list[int | None] = []
    for name in ("n_places", "n_maps"):
        value = getattr(model, name)
        if isinstance(value, str):
            if value != "auto":
                raise ValueError(
                    f"{type(model).__name__}({name}=...) must be 'auto' or a number, got {value!r}."
                )
            found.append(None)
        else:
            rows = ", the number of rows of X"
            found.append(check_integer(model, name, value, 0, n, what=rows))
    n_places, n_maps = found[0], found[1] or 0
    if model.n_components is not None and (n_places or n_maps):
        most = (N_PLACES if n_places is None else n_places or d) + n_maps * d - 1
        what = ", one less than places and the features of maps"
        check_integer(model, "n_components", model.n_components, 1, max(most, 1), what=what)
    return n_places, n_maps


def compare_classes(classes: Classes, n: int) -> Constraints:
    """Return triplets of random partners, as places learn from labels."""
    rng = np.random.default_rng(0)
    triplets = classes.random_triplets(_PARTNERS, _PARTNERS, "zip", rng)
    return Constraints.of_triplets(triplets, n)

"""What a fit used, where each value came from, and what it gained, as text."""

from inspect import signature
from typing import Any

from sklearn.base import BaseEstimator

from mdaml.estimators.presets import (
    MODES_OF_RIDGE,
    PRESETS,
    RANDOM_PARTNERS,
    Preset,
    as_partners,
    as_preset,
)
from mdaml.holdout.rule import Gain

Value = tuple[str, str, str]  # name, value, where it came from

_CELLS = ("n_modes", "eta", "triplet_weight", "ridge", "anchor", "floor", "shrinkage")
_IN_WORDS = {"counted": "counted in X", "by amount": "by the number of comparisons"}
_UNITS = {
    "modes": "K^eta",
    "one": "n_columns / n_components",
    "self-weight": "over the mean self-weight",
}
# Why the value with the highest share is not always the one that is taken.
_REASONS = {
    "comparisons": " (by the loss of the comparisons, which says more than their share)",
    "votes": " (the lead over the one taken is too small to tell)",
}
_CHOSEN_BY = {"comparisons": "anchor", "votes": "shrinkage"}  # the score, what it chooses
_HELD_OUT = "chosen on held-out data"


def describe_fit(model: BaseEstimator) -> str:
    """Return what a model learned from, the values in force, and what was gained."""
    fitted = getattr(model, "best_estimator_", model)
    return "\n".join(
        [
            f"{type(model).__name__}: {fitted.n_samples_seen_} samples of {model.n_features_in_} "
            f"features, {_get_supervision(fitted)}",
            describe_work(fitted),
            *_list_tried(model),
            "",
            *(f"  {name:15s} {value:<16s} {source}" for name, value, source in list_values(model)),
            "",
            describe_gain(model),
        ]
    )


def describe_work(model: BaseEstimator) -> str:
    """Return how many comparisons were learned from, and in how many rounds."""
    persons = getattr(model, "persons_", None)
    by = "" if persons is None else f" of {len(persons['who'])} persons"
    rounds = "1 round" if model.n_iter_ == 1 else f"{model.n_iter_} rounds"
    return (
        f"learned from {model.n_comparisons_seen_} comparisons{by}, {rounds} in all passes "
        "(max_iter is for each)"
    )


def list_values(model: BaseEstimator) -> list[Value]:
    """Return name, value and origin of every parameter that was used."""
    searched = getattr(model, "best_estimator_", None)
    if searched is not None:
        return [_trace_search(model, *value) for value in list_values(searched)]
    return [
        *_trace_places(model),
        *(_trace_value(model, name) for name in _CELLS),
        *_trace_others(model),
        *_trace_settings(model),
    ]


def describe_gain(model: BaseEstimator) -> str:
    """Return what a model gained on held-out points or samples, in a sentence or two."""
    gain, kept = getattr(model, "gain_", None), getattr(model, "start_kept_", False)
    if gain is None and kept:
        return "The metric is the start: nothing was learned, and nothing was held out."
    if gain is None:
        return (
            "The gain was not measured: nothing was left to be chosen, or there was too "
            "little to hold out. Score it on comparisons or samples that it has not seen."
        )
    text = Gain(**gain).describe()
    if kept and gain["low"] > 0.0:  # as of swapped answers, of which half hold in the end
        return f"{text} The test did not pass what was learned, so the metric is the start."
    if kept:
        return f"{text} This is no more than chance, so the metric is the start."
    return describe_measured(Gain(**gain))


def describe_measured(gain: Gain) -> str:
    """Return a gain in words, with whether it is more than chance."""
    return f"{gain.describe()} {describe_chance(gain)}"


def describe_chance(gain: Gain) -> str:
    """Return in words whether a gain is more than chance."""
    more, although = "more" if gain.is_beyond_chance else "no more", ""
    if gain.is_beyond_chance and gain.low <= 0.0:
        although = " by the test that decides, although the interval contains 0"
    elif gain.low > 0.0 and not gain.is_beyond_chance:
        although = " by the test that decides, although the interval is above 0"
    return f"This is {more} than chance{although}."


def _preset_of(model: BaseEstimator) -> Preset | None:
    """Return the row of the table that was used; None if a file of the first candidate lacks it."""
    preset = PRESETS.get(getattr(model, "preset_", ""))
    if preset is None and not isinstance(model.goal, str):
        preset = as_preset(model, model.goal)
    return preset


def _trace_value(model: BaseEstimator, name: str) -> Value:
    """Return the value of a number of the objective that was used, and where it came from."""
    value, given = getattr(model, f"{name}_"), getattr(model, name, "auto")
    gain, kept = getattr(model, "gain_", None) or {}, getattr(model, "start_kept_", False)
    if not isinstance(given, str):
        source = "given"
    elif name == "anchor" and getattr(model, "n_places_", None):
        source = f"{_HELD_OUT}, with the places" if model.tried_ else "default"
    elif _CHOSEN_BY.get(gain.get("score", "")) == name and gain.get("tried"):
        tried = dict(zip(gain["tried"], gain["scores"], strict=True))
        source = f"{_HELD_OUT}: " + ", ".join(f"{x:g} has {s:.1%}" for x, s in tried.items())
        if max(tried.values()) > tried.get(value, 1.0):
            source += _REASONS[gain["score"]]
    else:
        source = f"preset {getattr(model, 'preset_', '')}{_tell_cell(model, name)}"
    if name in ("anchor", "shrinkage") and kept:
        source += ", not used: the start was kept"
    if name in ("anchor", "triplet_weight") and getattr(model, "persons_", None) and not kept:
        how = "over" if name == "anchor" else "times"
        source += f", {how} the mean weight of an answer"
    return name, f"{value:.6g}", source


def _tell_cell(model: BaseEstimator, name: str) -> str:
    """Return what a cell of the table says where it is not the value itself."""
    preset = _preset_of(model)
    if preset is None:
        return ""
    cell = getattr(preset, name)
    if isinstance(cell, str):
        return f", {_IN_WORDS[cell]}"
    by_modes = preset.weight_unit == "modes"
    if name == "ridge" and by_modes and model.n_modes_ > MODES_OF_RIDGE:
        return f", {cell:g} ({MODES_OF_RIDGE:g} / K)^eta"
    is_full = model.n_components is None and not getattr(model, "n_places_", None)
    if name == "triplet_weight" and not (is_full and preset.weight_unit == "one"):
        return f", {cell:g} {_UNITS[preset.weight_unit]}"
    return ""


def _trace_others(model: BaseEstimator) -> list[Value]:
    """Return the values of the table that are no numbers of the objective."""
    preset = _preset_of(model)
    if preset is None:
        return []
    row, start = model.preset_, getattr(model, "init_metric", "auto")
    partners = as_partners(model, getattr(model, "partners", "auto"), preset.partners)
    if getattr(model, "n_places_", None):
        partners = RANDOM_PARTNERS
    values = {
        "partners": f"{partners.n_similar} + {partners.n_dissimilar} {partners.kind}",
        "init_metric": start if isinstance(start, str) else "a matrix",
        "max_iter": model.max_iter,
    }
    if not any(word in model.supervision_ for word in ("labels", "groups")):
        del values["partners"]
    traced = []
    for name, value in values.items():
        given, source = getattr(model, name, "auto"), "given"
        if isinstance(given, str) and given == "auto":
            source = f"preset {row}"
            value = getattr(preset, name) if name != "partners" else value
        if name == "init_metric" and value == "auto":
            value = "identity"
            source += "" if model.anchor_ else ", its best multiple where that is far better"
        traced.append((name, str(value), source))
    return traced


def _trace_settings(model: BaseEstimator) -> list[Value]:
    """Return rank, tolerance and device, which stand in no table."""
    rank, full = model.n_components, f"{model.n_features_in_}, full rank"
    usual = signature(type(model)).parameters
    if getattr(model, "n_places_", None):
        full = "8 and the features"
    return [
        ("n_components", full if rank is None else str(rank), _given(rank is not None)),
        ("tol", f"{model.tol:g}", _given(model.tol != usual["tol"].default)),
        ("device", str(model.device or "none: NumPy"), _given(model.device is not None)),
    ]


def _given(is_given: bool) -> str:
    return "given" if is_given else "default"


def _trace_places(model: BaseEstimator) -> list[Value]:
    """Return the numbers of places and maps, of a model that may have some."""
    if not hasattr(model, "n_places_"):
        return []
    found = []
    for name in ("n_places", "n_maps"):
        source = "given" if not isinstance(getattr(model, name), str) else "default"
        if source == "default" and name == "n_places" and model.tried_:
            source = _HELD_OUT
        found.append((name, str(getattr(model, f"{name}_")), source))
    return found


def _trace_search(model: Any, name: str, value: str, source: str) -> Value:
    """Return a value of the best candidate, with who gave it."""
    if source == "given" and name in model.best_params_:
        source = f"chosen among {len(model.cv_results_['params'])} candidates"
    elif source == "given" and getattr(model, name, None) is None:
        source = f"set by {type(model).__name__}"
    return name, value, source


def _list_tried(model: BaseEstimator) -> list[str]:
    """Return what a search chose, and the numbers of places that were tried, with their scores."""
    lines = []
    if hasattr(model, "best_params_"):
        results = model.cv_results_["params"]
        chosen = ", ".join(
            f"{name}={value!r}" if isinstance(value, str | float | int) else name
            for name, value in results[0].items()
        )
        lines.append(f"chose among {len(results)} candidates: {chosen or 'the defaults of MDaML'}")
    for each in getattr(model, "tried_", []):
        places = "no places"
        if each["n_places"]:
            places = f"{each['n_places']} places, {each['n_maps']} maps, anchor {each['anchor']:g}"
            places += f", width {each['width']:g}" if each["width"] != 1.0 else ""
        lines.append(f"  {places}: {each['score']:.1%}{'  (chosen)' * each['is_chosen']}")
    return lines


def _get_supervision(model: BaseEstimator) -> str:
    # Files of the first candidate lack it.
    return getattr(model, "supervision_", f"{model.n_comparisons_seen_} comparisons")

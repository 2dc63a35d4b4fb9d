"""What a fit used, where each value came from, and what it gained, as text."""

from typing import Any

from mdaml.estimators.presets import PRESETS, as_preset
from mdaml.holdout.rule import Gain

_CELLS = ("n_modes", "eta", "triplet_weight", "ridge", "anchor", "floor", "shrinkage")
_CHOSEN_BY = {"comparisons": "anchor", "3-NN": "shrinkage"}  # the score, what it chooses


def describe_fit(model: Any) -> str:
    """Return what a fitted MDaML learned from, the values in force, and what was gained."""
    return "\n".join(
        [
            f"{type(model).__name__}: {model.n_samples_seen_} samples of {model.n_features_in_} "
            f"features, {_describe_supervision(model)}, {model.n_iter_} rounds",
            "",
            *(_describe_value(model, name) for name in _CELLS),
            "",
            describe_gain(model),
        ]
    )


def describe_gain(model: Any) -> str:
    """Return what a model gained on held-out points or samples, in a sentence or two."""
    gain, kept = getattr(model, "gain_", None), getattr(model, "start_kept_", False)
    if gain is None and kept:
        return "The metric is the start: nothing was learned, and nothing was held out."
    if gain is None:
        return (
            "What was gained was not measured: nothing was left to be chosen, or there was too "
            "little to hold out. Score it on comparisons or samples that it has not seen."
        )
    text = Gain(**gain).describe()
    if kept:
        return f"{text} This is no more than chance, so the metric is the start."
    more = "more" if gain["is_beyond_chance"] else "no more"
    return f"{text} This is {more} than chance."


def _describe_supervision(model: Any) -> str:
    """Return what was learned from, and what it became."""
    n_groups = getattr(model, "n_groups_", None)  # files of the first candidate lack it
    if n_groups is not None:
        return f"comparisons that follow {n_groups} groups"
    return f"{model.n_comparisons_seen_} comparisons"


def _describe_value(model: Any, name: str) -> str:
    """Return the value of a parameter that was used, and where it came from."""
    value, given = getattr(model, f"{name}_"), getattr(model, name, "auto")
    source = "given"
    if isinstance(given, str):
        # Files of the first candidate do not say which preset it was.
        source = f"preset {model.preset_}" if hasattr(model, "preset_") else "default"
        if _was_chosen(model, name):
            source = "chosen on held-out data"
    if name in ("anchor", "shrinkage") and getattr(model, "start_kept_", False):
        source += ", not used: the start was kept"
    return f"  {name:15s} {value:<12.6g} {source}"


def _was_chosen(model: Any, name: str) -> bool:
    """Return whether a value that was not given was chosen by what learning gained."""
    gain = getattr(model, "gain_", None)
    if gain is None or _CHOSEN_BY.get(gain["score"]) != name:
        return False
    if name == "shrinkage" and len(model.components_) < model.n_features_in_:
        return False
    row = getattr(model, "preset_", "")
    preset = as_preset(model, model.goal) if row == "given" else PRESETS.get(row)
    return preset is None or not isinstance(getattr(preset, name), float)

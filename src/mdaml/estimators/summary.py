"""What a fit used and what it gained, as text."""

from typing import Any

from mdaml.holdout.rule import Gain

_PARAMETERS = ("n_modes", "eta", "triplet_weight", "ridge", "anchor", "floor", "shrinkage")


def describe_fit(model: Any) -> str:
    """Return what a fitted MDaML learned from, the values in force, and what was gained."""
    n_samples, n_features = model.n_samples_seen_, model.n_features_in_
    lines = [
        f"{type(model).__name__}: {n_samples} samples of {n_features} features, "
        f"{model.n_comparisons_seen_} comparisons, {model.n_iter_} rounds",
        "",
        *(_describe_value(model, name) for name in _PARAMETERS),
        "",
        describe_gain(model),
    ]
    return "\n".join(lines)


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


def _describe_value(model: Any, name: str) -> str:
    """Return the value of a parameter that was used, and where it came from."""
    value, given = getattr(model, f"{name}_"), getattr(model, name)
    source = "given"
    if isinstance(given, str):
        source = "by default"
        gain = getattr(model, "gain_", None)
        chosen = {"comparisons": "anchor", "3-NN": "shrinkage"}
        if gain is not None and chosen.get(gain["score"]) == name:
            source = "chosen on held-out data"
    if name in ("anchor", "shrinkage") and getattr(model, "start_kept_", False):
        source += ", not used: the start was kept"
    return f"  {name:15s} {value:<12.6g} {source}"

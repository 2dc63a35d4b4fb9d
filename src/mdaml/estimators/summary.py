"""What a fit used, where each value came from, and what it gained, as text."""

from sklearn.base import BaseEstimator

from mdaml.estimators.presets import PRESETS, as_partners, as_preset
from mdaml.holdout.rule import Gain

_CELLS = ("n_modes", "eta", "triplet_weight", "ridge", "anchor", "floor", "shrinkage")
# Why the value with the highest share is not always the one that is taken.
_REASONS = {
    "comparisons": " (by the loss of the comparisons, which says more than their share)",
    "votes": " (the lead over the one taken is too small to tell)",
}
_CHOSEN_BY = {"comparisons": "anchor", "votes": "shrinkage"}  # the score, what it chooses


def describe_fit(model: BaseEstimator) -> str:
    """Return what a fitted MDaML learned from, the values in force, and what was gained."""
    return "\n".join(
        [
            f"{type(model).__name__}: {model.n_samples_seen_} samples of {model.n_features_in_} "
            f"features, {_get_supervision(model)}, {model.n_iter_} rounds in all "
            "passes (max_iter is for each)",
            "",
            *(f"  {name:15s} {value:<16s} {source}" for name, value, source in list_values(model)),
            "",
            describe_gain(model),
        ]
    )


def list_values(model: BaseEstimator) -> list[tuple[str, str, str]]:
    """Return name, value and origin of every parameter that was used."""
    return [*(_trace_value(model, name) for name in _CELLS), *_trace_others(model)]


def describe_gain(model: BaseEstimator) -> str:
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
    if kept and gain["low"] > 0.0:  # as of swapped answers, of which half hold in the end
        return f"{text} The test did not pass what was learned, so the metric is the start."
    if kept:
        return f"{text} This is no more than chance, so the metric is the start."
    more = "more" if gain["is_beyond_chance"] else "no more"
    return f"{text} This is {more} than chance."


def _trace_others(model: BaseEstimator) -> list[tuple[str, str, str]]:
    """Return the values that are no numbers of the objective: partners, start and rounds."""
    row = getattr(model, "preset_", "")
    preset = PRESETS.get(row)
    if preset is None and isinstance(model.goal, str):  # a file of the first candidate
        return []
    preset = preset or as_preset(model, model.goal)
    partners = as_partners(model, getattr(model, "partners", "auto"), preset.partners)
    drawn = f"{partners.n_similar} + {partners.n_dissimilar} {partners.kind}"
    given_start = getattr(model, "init_metric", "auto")
    start = given_start if isinstance(given_start, str) else "a matrix"
    values = {
        "partners": drawn,
        "init_metric": preset.init_metric if start == "auto" else start,
        "max_iter": preset.max_iter if isinstance(model.max_iter, str) else model.max_iter,
    }
    if "labels" not in model.supervision_ and "groups" not in model.supervision_:
        del values["partners"]
    traced = []
    for name, value in values.items():
        given = getattr(model, name, "auto")
        by_row = isinstance(given, str) and given == "auto"
        traced.append((name, str(value), f"preset {row}" if by_row else "given"))
    return traced


def _get_supervision(model: BaseEstimator) -> str:
    # Files of the first candidate lack it.
    return getattr(model, "supervision_", f"{model.n_comparisons_seen_} comparisons")


def _trace_value(model: BaseEstimator, name: str) -> tuple[str, str, str]:
    """Return the value of a parameter that was used, and where it came from."""
    value, given = getattr(model, f"{name}_"), getattr(model, name, "auto")
    source = f"preset {getattr(model, 'preset_', '')}" if isinstance(given, str) else "given"
    gain = getattr(model, "gain_", None) or {}
    if _CHOSEN_BY.get(gain.get("score", "")) == name and gain.get("tried"):
        scores = zip(gain["tried"], gain["scores"], strict=True)
        source = "chosen on held-out data: " + ", ".join(f"{x:g} has {s:.1%}" for x, s in scores)
        taken = dict(zip(gain["tried"], gain["scores"], strict=True)).get(value)
        if taken is not None and max(gain["scores"]) > taken:
            source += _REASONS[gain["score"]]
    if name in ("anchor", "shrinkage") and getattr(model, "start_kept_", False):
        source += ", not used: the start was kept"
    return name, f"{value:.6g}", source

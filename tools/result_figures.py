"""Draw the figures at the top of the result pages from the records in the repository.

``python tools/result_figures.py`` writes docs/_static/results-*.svg.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "docs" / "_static"
sys.path.append(str(ROOT / "experiments"))  # programs, not a package

from _record import label  # noqa: E402

OURS, OTHER, BASE = "#0072B2", "#999999", "#D55E00"  # of Okabe and Ito
BASELINES = ("Euclidean", "Euclid", "cosine")
OWN_OR_TOLD = ("cosine", "QueryAdapter", "logistic")  # the last is told every label
PAPER = [
    *("autompg", "balance", "dna", "german", "letter", "segment", "sonar", "spambase", "vehicle"),
    *("waveform", "osr", "pubfig", "caltech20"),
]

KINDS = [
    *("letter", "vowel", "segment", "vehicle"),
    *("digits", "satimage", "penbased", "movement_libras"),
]


def records(name: str) -> list[dict]:
    lines = (ROOT / "results" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def color(method: str) -> str:
    if method in BASELINES:
        return BASE
    is_ours = "QueryAdapter" in method or ("MDaML" in method and "(paper)" not in method)
    return OURS if is_ours else OTHER


def dots(axes, values: dict[str, float], title: str) -> None:
    """Draw a dot for each method, the best on top, with its value."""
    values = {label(name).replace(", goal", ",\ngoal"): value for name, value in values.items()}
    names = sorted(values, key=values.__getitem__)
    numbers = [values[name] for name in names]
    margin = 0.12 * (max(numbers) - min(numbers))
    axes.hlines(names, min(numbers) - margin, numbers, color="#dddddd", linewidth=1)
    axes.scatter(numbers, names, c=[color(name) for name in names], s=45, zorder=2)
    for place, number in enumerate(numbers):
        axes.annotate(
            f"{number:.1f}", (number, place), (7, 0), textcoords="offset points", va="center"
        )
    axes.set(title=title, xlim=(min(numbers) - margin, max(numbers) + 3 * margin), xticks=[])
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def save(figure: Figure, name: str) -> None:
    path = STATIC / f"results-{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")


def draw_accuracy() -> None:
    scores = defaultdict(dict)
    for record in records("study.jsonl"):
        if record["method"].endswith("()") or record["method"] in ("NCA", "Euclidean"):
            scores[record["method"]][record["dataset"]] = 100 * np.mean(record["accuracies"])
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    groups = {"The paper's 13 data sets": True, "11 other data sets": False}
    for axes, (title, wanted) in zip(figure.subplots(1, 2), groups.items(), strict=True):
        means = {
            method: np.mean([value for name, value in sets.items() if (name in PAPER) == wanted])
            for method, sets in scores.items()
        }
        dots(axes, means, title)
    figure.supxlabel("mean 3-NN accuracy in %, nothing tuned", fontsize=10)
    save(figure, "accuracy")


def draw_speed() -> None:
    speed = json.loads((ROOT / "benchmarks/results/core.json").read_text())["speed"]
    figure = Figure(figsize=(8, 2.9), layout="constrained")
    axes = figure.subplots()
    shown = {
        "literal": ("the paper line by line", BASE),
        "tidy_literal": ("the same, optimised by hand", OTHER),
        "until_as_low": ("this library", OURS),
    }
    for number, (key, (name, shade)) in enumerate(shown.items()):
        places = np.arange(len(speed)) + 0.27 * (number - 1)
        seconds = [case[key]["seconds"] for case in speed]
        axes.bar(places, seconds, 0.25, color=shade, label=name)
        for place, value in zip(places, seconds, strict=True):
            axes.text(
                place,
                value,
                f"{value:.0f}" if value > 10 else f"{value:.2g}",
                ha="center",
                va="bottom",
                fontsize=8,
            )
    names = [f"{case['set']}\n{case['n_samples']} × {case['n_features']}" for case in speed]
    axes.set(yscale="log", ylabel="seconds", xticks=range(len(speed)), xticklabels=names)
    axes.set_ylim(0.01, 1000)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, loc="upper left", fontsize=9)
    save(figure, "speed")


def draw_kinds() -> None:
    shown = ["Euclid", "GMML()", "KISSME()", "Eq. (7), K=1", "MDaML()", 'MDaML(goal="neighbors")']
    found = defaultdict(list)
    for record in records("kinds.jsonl"):
        if record["method"] in shown and record["dataset"] in KINDS:
            found[record["method"], "compared"].append(100 * record["compared"])
            found[record["method"], "unseen"].append(100 * record["unseen"])
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    titles = {"compared": "3-NN, % right", "unseen": "unseen comparisons, % right"}
    for axes, (score, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        means = {name: float(np.mean(found[name, score])) for name in shown}
        dots(axes, means, title)
    save(figure, "kinds")


def draw_places() -> None:
    shown = ["Euclid", "GMML()", "KISSME()", "MDaML()", 'MDaML(goal="neighbors")']
    shown += ["LocalMDaML()", "network"]
    found = defaultdict(list)
    for record in records("local.jsonl"):
        if record["study"] == "kinds" and record["case"][:2] == [10_000, 0.0]:
            for score in ("share", "kinds"):
                found[record["method"], score].append(100 * record[score])
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    titles = {"share": "unseen comparisons, % right", "kinds": "3-NN of the kinds, % right"}
    for axes, (score, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        dots(axes, {name: float(np.mean(found[name, score])) for name in shown}, title)
    save(figure, "places")


def draw_people() -> None:
    shown = ["Euclid", "KISSME()", "GMML()", "I + Δ", "MDaML()"]
    shares = defaultdict(list)
    for record in records("people.jsonl"):
        if record.get("share") is not None:
            shares[record["dataset"], record["method"]].append(100 * record["share"])
    sets = ["material", "food", "zappos", "faces36"]
    figure = Figure(figsize=(8, 2.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, 4), sets, strict=True):
        means = {method: float(np.mean(shares[name, method])) for method in shown}
        dots(axes, means, name)
    figure.get_layout_engine().set(wspace=0.06)
    figure.supxlabel("answers of people that hold, on items or answers not seen, in %", fontsize=10)
    save(figure, "people")


def draw_search() -> None:
    """Draw what a search finds by the encoder, our adapter and the best other adapter."""
    results = json.loads((ROOT / "benchmarks/results/retrieval.json").read_text())["methods"]
    found = defaultdict(dict)
    for case in results:
        found[case["set"]][case["method"]] = case["ndcg@10"]
    names = {
        "cranfield": "Cranfield, 225 questions",
        **{f"banking77/{n}": f"banking77, {n} for each intent" for n in (2, 5, 10, 30)},
        **{f"osr/{n}": f"OSR, {n} for each scene" for n in (5, 20)},
    }
    figure = Figure(figsize=(8, 2.9), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(reversed(names)):
        scores = found[name]
        others = [v for k, v in scores.items() if not k.startswith(OWN_OR_TOLD)]
        points = ((scores["cosine"], BASE), (max(others), OTHER), (scores["QueryAdapter"], OURS))
        axes.hlines(place, *np.sort([scores["cosine"], scores["QueryAdapter"]]), color="#dddddd")
        for lift, (value, shade) in zip((0.2, 0.0, -0.2), points, strict=True):  # all visible
            axes.scatter(value, place + lift, c=shade, s=40, zorder=2)
    for name, shade in (("encoder", BASE), ("best other adapter", OTHER), ("QueryAdapter", OURS)):
        axes.scatter([], [], c=shade, s=45, label=name)
    axes.set_yticks(range(len(names)), list(reversed(names.values())))
    axes.set(xlabel="nDCG@10 of held-out queries")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    save(figure, "search")


DRAWINGS = (draw_accuracy, draw_speed, draw_kinds, draw_places, draw_people, draw_search)


def draw_all() -> None:
    style = {"svg.hashsalt": "mdaml", "font.size": 10, "axes.titlesize": 10.5}
    with matplotlib.rc_context(style):
        for draw in DRAWINGS:
            draw()


if __name__ == "__main__":
    draw_all()

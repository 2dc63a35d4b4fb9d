"""The figures of the report: each is drawn from results, or is None where results have no part."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdaml._typing import FloatArray
from mdaml.experiments.pictures import COLORS, INK, MUTED, OTHER, Picture, new_figure
from mdaml.experiments.ranking import Ranking, indistinct_groups
from mdaml.experiments.results import (
    CONVERGENCE,
    FIXED,
    IMAGES,
    OURS,
    PARAMETERS,
    PUBLISHED_GRID,
    SETTINGS,
    UCI,
    Results,
)
from mdaml.experiments.toy_figure import learn_toy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELS = {
    "n_modes": "number of modes $K$",
    "triplet_weight": "weight of the triplets $\\lambda_1$",
    "eta": "sharpness of the weights $\\eta$",
    "ridge": "ridge $\\lambda_2$",
}


def draw_critical_difference(ranking: Ranking) -> Picture | None:
    """Mean ranks on a line, with bars over methods that Nemenyi's test cannot tell apart."""
    if math.isnan(ranking.critical_difference):
        return None
    names = [ranking.methods[i] for i in ranking.order]
    ranks = ranking.ranks[ranking.order]
    groups = indistinct_groups(ranks, ranking.critical_difference)
    n_left = (len(names) + 1) // 2
    top = 0.55 + 0.22 * len(groups)  # of the first label, below the axis
    depth = top + 0.36 * (n_left - 1) + 0.3
    figure = new_figure(8.6, 0.55 * (depth + 1.2) + 0.4)
    axes = figure.subplots()
    axes.set_axis_off()
    low, high = 1.0, float(len(names))
    margin = 0.32 * (high - low)
    axes.set(xlim=(low - margin, high + margin), ylim=(-depth, 1.2))
    axes.plot([low, high], [0, 0], color=MUTED, linewidth=1.0)
    for rank in range(1, len(names) + 1):
        axes.plot([rank, rank], [0, 0.1], color=MUTED, linewidth=1.0)
        axes.text(rank, 0.18, str(rank), ha="center", va="bottom", fontsize=9)
    _draw_scale(axes, low, ranking.critical_difference)
    for k, (first, last) in enumerate(groups):
        height = -0.25 - 0.22 * k
        ends = ranks[first] - 0.05, ranks[last] + 0.05
        axes.plot(ends, [height, height], color=INK, linewidth=3.5, solid_capstyle="butt")
    for k, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        left = k < n_left
        height = -top - 0.36 * (k if left else len(names) - 1 - k)
        edge = low - 0.04 * margin if left else high + 0.04 * margin
        color = COLORS.get(name, OTHER)
        axes.plot([rank, rank, edge], [0, height, height], color=color, linewidth=1.2)
        axes.plot([rank], [0], "o", color=color, markersize=6, zorder=3)
        words = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
        side, shift = ("right", -0.03) if left else ("left", 0.03)
        weight = "bold" if name == OURS else "normal"
        axes.text(edge + shift * margin, height, words, ha=side, va="center", weight=weight)
    p = "p < 0.001" if ranking.p_value < 0.001 else f"p = {ranking.p_value:.3f}"
    return Picture(
        "critical_difference",
        "Mean ranks and critical difference",
        f"Mean rank of {len(names)} methods over {len(ranking.datasets)} data sets, best at the "
        "left. A thick bar joins methods whose ranks are less than the critical difference, "
        f"{ranking.critical_difference:.2f}, apart: Nemenyi's test at 0.05 cannot tell them apart. "
        f"Friedman's test that all are alike (Iman and Davenport's F): {p}.",
        "Mean ranks from best to worst: "
        + ", ".join(f"{name} {rank:.2f}" for name, rank in zip(names, ranks, strict=True))
        + f". Critical difference {ranking.critical_difference:.2f}.",
        figure,
    )


def draw_convergence(results: Results) -> Picture | None:
    """Objective over the rounds, a panel for each data set that has a record."""
    names = [name for name in CONVERGENCE if name in results.convergence]
    names += [name for name in results.convergence if name not in CONVERGENCE]
    if not names:
        return None
    figure = new_figure(min(8.6, 0.8 + 3.2 * len(names)), 3.0)
    settled = []
    for axes, name in zip(np.ravel(figure.subplots(1, len(names))), names, strict=True):
        record = results.convergence[name]
        values = np.asarray(record["objective"], dtype=float)
        rounds = np.arange(len(values))
        moves = np.asarray(record.get("history", ()), dtype=float)
        if len(moves) < 2 or (len(moves) - 1) % rounds[-1]:
            moves = values
        axes.plot(np.linspace(0, rounds[-1], len(moves)), moves, color=COLORS[OURS], linewidth=1.2)
        axes.plot(rounds, values, "o", color=COLORS[OURS], markersize=4.5)
        if values.min() > 0 and values.max() > 10 * values.min():
            axes.set_yscale("log")
        axes.set_title(name)
        axes.set_xlabel("round")
        axes.xaxis.get_major_locator().set_params(integer=True)
        settled.append((name, rounds_to_settle(values)))
    figure.axes[0].set_ylabel("objective, Eq. (7)")
    words = ", ".join(f"{n} on {name}" for name, n in settled)
    return Picture(
        "convergence",
        "Convergence of MDaML",
        "Objective at the start and after each round of centres, weights and metric (dots); the "
        "line between them goes through the three moves of a round where they were recorded. "
        f"Rounds until 99 % of the whole descent is made: {words}. The paper reports fewer than "
        "five rounds on most data sets.",
        f"The objective falls with the rounds. 99 % of the descent is made after: {words}.",
        figure,
    )


def draw_images(results: Results) -> Picture | None:
    """Accuracies on the image data sets as bars."""
    names = [name for name in IMAGES if name in results.datasets]
    methods = [m for m in results.methods if any((name, m) in results.trials for name in names)]
    if not names:
        return None
    figure = new_figure(2.0 + 2.2 * len(names), 0.9 + 0.27 * len(methods))
    panels = np.ravel(figure.subplots(1, len(names), sharey=True))
    places = np.arange(len(methods))
    colors = [COLORS.get(method, OTHER) for method in methods]
    for axes, name in zip(panels, names, strict=True):
        means = np.array([results.mean(name, method) for method in methods])
        stds = np.nan_to_num([results.std(name, method) for method in methods])
        axes.barh(places, np.nan_to_num(means), height=0.7, color=colors)
        have = ~np.isnan(means)
        axes.errorbar(
            means[have], places[have], xerr=stds[have], fmt="none", ecolor=INK, elinewidth=1.2
        )
        for place, mean, std in zip(places, means, stds, strict=True):
            if math.isnan(mean):
                axes.text(1, place, "not run", va="center", fontsize=8, color=MUTED)
            else:
                weight = "bold" if mean == np.nanmax(means) else "normal"
                text = f"{mean:.1f}"
                axes.text(mean + std + 2, place, text, va="center", fontsize=9, weight=weight)
        axes.set_title(name)
        axes.set(xlim=(0, 118), xticks=range(0, 101, 25), xlabel="accuracy, %")
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(places, methods)
    panels[0].invert_yaxis()
    best = [(name, max(methods, key=lambda m: _or_lowest(results.mean(name, m)))) for name in names]
    words = ", ".join(f"{m} on {name} ({results.mean(name, m):.1f} %)" for name, m in best)
    return Picture(
        "images",
        "Accuracy on images",
        "Mean of 3-NN over the trials; the lines are one standard deviation to either side. The "
        "paper gives these results as a figure without numbers and says that MDaML is best on all "
        f"three. Best here: {words}.",
        f"Bars of accuracies on {', '.join(names)}. Best: {words}.",
        figure,
    )


def draw_fixed_weights(results: Results) -> Picture | None:
    """Draw fixed against learned weights, one line for each data set that has both."""
    pairs = results.means(UCI, (FIXED, OURS))
    both = ~np.isnan(pairs).any(axis=1)
    if not both.any():
        return None
    names = [UCI[i] for i in np.flatnonzero(both)]
    pairs = pairs[both]
    figure = new_figure(7.2, 1.3 + 0.36 * len(names))
    axes = figure.subplots()
    places = np.arange(len(names), dtype=float)
    shapes = ((FIXED, "fixed weights", "s", -0.13), (OURS, "learned weights", "o", 0.13))
    for k, (method, label, marker, shift) in enumerate(shapes):
        stds = np.nan_to_num([results.std(name, method) for name in names])
        axes.errorbar(
            pairs[:, k],
            places + shift,
            xerr=stds,
            fmt=marker,
            color=COLORS[method],
            markersize=6,
            elinewidth=1.2,
            label=label,
        )
    for place, (fixed, learned) in zip(places, pairs, strict=True):
        gain = f"{learned - fixed:+.1f}".replace("-", "−")
        axes.annotate(
            gain,
            (1.02, place),
            xycoords=("axes fraction", "data"),
            va="center",
            annotation_clip=False,
        )
    axes.annotate("gain", (1.02, -0.8), xycoords=("axes fraction", "data"), color=MUTED)
    axes.set_yticks(places, names)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel="accuracy, %")
    figure.legend(loc="outside upper center", ncols=2)
    gains = np.round(pairs[:, 1] - pairs[:, 0], 9)
    words = (
        f"Learned weights are better on {np.sum(gains > 0)}, worse on {np.sum(gains < 0)} and "
        f"equal on {np.sum(gains == 0)} of {len(names)} data sets"
    )
    return Picture(
        "fixed_weights",
        "Fixed against learned weights",
        "Mean and standard deviation over the trials of MDaML as it is, and with all weights of "
        f"the triplets fixed to one, each tuned for itself. {words}; the paper shows five data "
        "sets and finds learned weights better. The axis does not start at zero.",
        f"{words}.",
        figure,
    )


def draw_sensitivity(results: Results) -> Picture | None:
    """Accuracy over each parameter, around the paper's setting and around the library's."""
    if not results.sensitivity:
        return None
    dataset = results.sensitivity_dataset
    figure = new_figure(8.6, 5.8)
    figure.set_layout_engine("constrained", h_pad=0.09, w_pad=0.06)
    panels = np.ravel(figure.subplots(2, 2, sharey=True))
    euclid = results.mean(dataset, "EUCLID")
    for axes, parameter in zip(panels, PARAMETERS, strict=True):
        axes.set_title(_LABELS[parameter])
        lines = {s: results.sensitivity.get((parameter, s), {}) for s in SETTINGS}
        if _is_one(results, parameter):
            lines = {"paper": lines["paper"]}
            axes.set_xlabel("both settings are one here", color=MUTED)
        for setting, line in lines.items():
            _draw_band(axes, setting, line)
        values = sorted({value for line in lines.values() for value in line})
        if not values:
            axes.annotate("no records", (0.5, 0.5), xycoords="axes fraction", ha="center")
            axes.set_xticks([])
        else:
            _scale(axes, values)
        if not math.isnan(euclid):
            axes.axhline(euclid, color=COLORS["EUCLID"], linestyle=(0, (4, 3)), linewidth=1.4)
    for axes in panels[::2]:
        axes.set_ylabel("accuracy, %")
    _draw_sensitivity_legend(figure, not math.isnan(euclid))
    words = "; ".join(_spread(results, parameter) for parameter in PARAMETERS)
    return Picture(
        "sensitivity",
        f"Sensitivity to the parameters on {dataset}",
        "One parameter varies, the others stay at K = 10, η = 3, λ₂ = 0.001 and λ₁ = 1 (the "
        "paper's setting) or λ₁ = 300 K^η (the library's). Lines: mean over the trials, bands: one "
        f"standard deviation. Lowest and highest mean, in percent: {words}.",
        f"Four panels of accuracy over a parameter. Lowest and highest mean: {words}.",
        figure,
    )


def draw_toy_picture() -> Picture:
    """Draw the toy of the demo, learned anew; the only figure that needs no records."""
    figure = learn_toy()
    titles = [axes.get_title() for axes in figure.axes]
    return Picture(
        "toy",
        "A toy: what the metric does",
        "Two classes in two modes each. Left the points as they are given, right as the learned "
        "metric sees them. Both curves enclose the ten points nearest to the ringed one, by "
        "Euclidean distance and by the learned metric. The toy is built to show the method; it "
        "was learned while this page was written and is not part of the records.",
        "; ".join(titles) + ".",
        figure,
    )


def rounds_to_settle(values: FloatArray) -> int:
    """Count rounds until 99 % of the descent from the first to the last value is made."""
    return int(np.argmax(values - values[-1] <= 0.01 * (values[0] - values[-1])))


def _draw_scale(axes: "Axes", start: float, length: float) -> None:
    """Critical difference as a length, above the axis."""
    axes.plot([start, start + length], [0.85, 0.85], color=INK, linewidth=1.4)
    for end in (start, start + length):
        axes.plot([end, end], [0.78, 0.92], color=INK, linewidth=1.4)
    text = f"critical difference {length:.2f}"
    axes.text(start + length / 2, 0.97, text, ha="center", va="bottom", fontsize=9)


def _draw_band(axes: "Axes", setting: str, line: dict[float, list[float]]) -> None:
    if not line:
        return
    values = np.array(sorted(line))
    means = np.array([np.mean(line[value]) for value in values])
    stds = np.array([np.std(line[v], ddof=1) if len(line[v]) > 1 else 0.0 for v in values])
    style = _settings()[setting]
    axes.fill_between(
        values, means - stds, means + stds, color=style["color"], alpha=0.18, linewidth=0
    )
    axes.plot(values, means, **style)


def _settings() -> dict[str, dict[str, Any]]:
    return {
        "paper": {"color": COLORS[PUBLISHED_GRID], "marker": "s", "markersize": 5},
        "library": {"color": COLORS[OURS], "marker": "o", "markersize": 5},
    }


def _scale(axes: "Axes", values: Sequence[float]) -> None:
    """Logarithmic axis where the values span more than two powers of ten."""
    positive = [value for value in values if value > 0]
    if positive and positive[-1] > 100 * positive[0]:
        if values[0] > 0:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=positive[0])


def _draw_sensitivity_legend(figure: "Figure", with_euclid: bool) -> None:
    from matplotlib.lines import Line2D

    entries = {
        "paper's setting, $\\lambda_1 = 1$": _settings()["paper"],
        "library's setting, $\\lambda_1 = 300\\,K^\\eta$": _settings()["library"],
    }
    if with_euclid:
        entries["EUCLID"] = {"color": COLORS["EUCLID"], "linestyle": (0, (4, 3)), "linewidth": 1.4}
    handles = [Line2D([], [], **style) for style in entries.values()]
    figure.legend(handles, list(entries), loc="outside lower center", ncols=3)


def _spread(results: Results, parameter: str) -> str:
    """Lowest and highest mean over the values of a parameter, in words."""
    letters = {"n_modes": "K", "triplet_weight": "λ₁", "eta": "η", "ridge": "λ₂"}
    parts = {}
    for setting in SETTINGS:
        line = results.sensitivity.get((parameter, setting), {})
        if line:
            means = [float(np.mean(values)) for values in line.values()]
            parts[setting] = f"{min(means):.1f} to {max(means):.1f}"
    words = ", ".join(f"{part} ({setting})" for setting, part in parts.items())
    if len(parts) == 2 and _is_one(results, parameter):
        words = parts["paper"]
    return f"{letters[parameter]} {words or 'not run'}"


def _is_one(results: Results, parameter: str) -> bool:
    """Whether both settings gave the same: they do where λ₁, which tells them apart, varies."""
    paper, library = (results.sensitivity.get((parameter, setting), {}) for setting in SETTINGS)
    return bool(paper) and paper == library


def _or_lowest(value: float) -> float:
    return -math.inf if math.isnan(value) else value

"""The figures of the report.

Each function returns a figure and the values that its caption in ``template.html.j2`` needs, or
None if there are no records for it.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdaml._typing import FloatArray
from mdaml.experiments.pictures import COLORS, INK, MUTED, OTHER, new_figure
from mdaml.experiments.ranking import Ranking, indistinct_groups
from mdaml.experiments.results import (
    CONVERGENCE,
    FIXED,
    IMAGES,
    OURS,
    PARAMETERS,
    PRINTED,
    PUBLISHED_GRID,
    SETTINGS,
    UCI,
    Results,
)
from mdaml.experiments.tables import LETTERS, signed
from mdaml.experiments.toy_figure import learn_toy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Drawing = tuple["Figure", dict[str, Any]]

_LABELS = {
    "n_modes": "number of modes $K$",
    "triplet_weight": "weight of the triplets $\\lambda_1$",
    "eta": "sharpness of the weights $\\eta$",
    "ridge": "ridge $\\lambda_2$",
}
_STYLES: dict[str, dict[str, Any]] = {
    "paper": {"color": COLORS[PUBLISHED_GRID], "marker": "s", "markersize": 5},
    "library": {"color": COLORS[PRINTED], "marker": "o", "markersize": 5},
    "neighbors": {"color": COLORS["MDaML, neighbours"], "marker": "D", "markersize": 4},
    "EUCLID": {"color": COLORS["EUCLID"], "linestyle": (0, (4, 3)), "linewidth": 1.4},
}


def draw_critical_difference(ranking: Ranking) -> Drawing | None:
    """Draw mean ranks on a line, with bars over methods that do not differ by Nemenyi's test."""
    if math.isnan(ranking.critical_difference):
        return None
    names = [name for name, _ in ranking.ordered]
    ranks = np.array([rank for _, rank in ranking.ordered])
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
    return figure, {}


def draw_convergence(results: Results) -> Drawing | None:
    """Draw the objective over the rounds, in a panel for each data set that has a record."""
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
    return figure, {"settled": settled}


def draw_images(results: Results) -> Drawing | None:
    """Draw the accuracies on the image data sets as bars."""
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
    means = np.nan_to_num(results.means(names, methods), nan=-math.inf)
    best = zip(names, means.argmax(axis=1), means.max(axis=1), strict=True)
    return figure, {"best": [(name, methods[k], mean) for name, k, mean in best]}


def draw_fixed_weights(results: Results) -> Drawing | None:
    """Draw the accuracies with fixed and with learned weights, for each data set with both."""
    pairs = results.means(UCI, (FIXED, PRINTED))
    both = ~np.isnan(pairs).any(axis=1)
    if not both.any():
        return None
    names = [UCI[i] for i in np.flatnonzero(both)]
    pairs = pairs[both]
    figure = new_figure(7.2, 1.3 + 0.36 * len(names))
    axes = figure.subplots()
    places = np.arange(len(names), dtype=float)
    shapes = ((FIXED, "fixed weights", "s", -0.13), (PRINTED, "learned weights", "o", 0.13))
    for k, (method, label, marker, shift) in enumerate(shapes):
        stds = np.nan_to_num([results.std(name, method) for name in names])
        style: dict[str, Any] = {"fmt": marker, "color": COLORS[method], "label": label}
        axes.errorbar(pairs[:, k], places + shift, xerr=stds, markersize=6, elinewidth=1.2, **style)
    right: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
    for place, (fixed, learned) in zip(places, pairs, strict=True):
        axes.annotate(signed(learned - fixed, 1), (1.02, place), va="center", **right)
    axes.annotate("gain", (1.02, -0.8), color=MUTED, **right)
    axes.set_yticks(places, names)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel="accuracy, %")
    figure.legend(loc="outside upper center", ncols=2)
    gains = np.round(pairs[:, 1] - pairs[:, 0], 9)
    counts = {"better": np.sum(gains > 0), "worse": np.sum(gains < 0), "equal": np.sum(gains == 0)}
    return figure, counts | {"n_sets": len(names)}


def draw_sensitivity(results: Results) -> Drawing | None:
    """Draw the accuracy over each parameter, with the others as in the paper or the library."""
    if not results.sensitivity:
        return None
    figure = new_figure(8.6, 5.8)
    figure.set_layout_engine("constrained", h_pad=0.09, w_pad=0.06)
    panels = np.ravel(figure.subplots(2, 2, sharey=True))
    euclid = results.mean(results.sensitivity_dataset, "EUCLID")
    ranges = []
    for axes, parameter in zip(panels, PARAMETERS, strict=True):
        axes.set_title(_LABELS[parameter])
        lines = {s: results.sensitivity.get((parameter, s), {}) for s in SETTINGS}
        is_same = bool(lines["paper"]) and lines["paper"] == lines["library"]
        if is_same:  # these settings differ only in λ₁, so they agree where λ₁ varies
            del lines["library"]
            axes.set_xlabel("the paper's and λ₁ = 300 K^η are the same", color=MUTED)
        means = {s: _draw_band(axes, s, line) for s, line in lines.items() if line}
        ends = {s: (min(values), max(values)) for s, values in means.items()}
        ranges.append({"letter": LETTERS[parameter], "ends": ends, "is_same": is_same})
        values = sorted({value for line in lines.values() for value in line})
        if not values:
            axes.annotate("no records", (0.5, 0.5), xycoords="axes fraction", ha="center")
            axes.set_xticks([])
        else:
            _scale(axes, values)
        if not math.isnan(euclid):
            axes.axhline(euclid, **_STYLES["EUCLID"])
    for axes in panels[::2]:
        axes.set_ylabel("accuracy, %")
    _draw_sensitivity_legend(figure, not math.isnan(euclid))
    return figure, {"ranges": ranges}


def draw_fitted_toy() -> Drawing:
    """Draw the toy of the demo, fitted here; all other figures need only records."""
    figure = learn_toy()
    return figure, {"titles": [axes.get_title() for axes in figure.axes]}


def rounds_to_settle(values: FloatArray) -> int:
    """Return the number of rounds until 99 % of the total decrease."""
    return int(np.argmax(values - values[-1] <= 0.01 * (values[0] - values[-1])))


def _draw_scale(axes: "Axes", start: float, length: float) -> None:
    """Draw the critical difference as a length, above the axis."""
    axes.plot([start, start + length], [0.85, 0.85], color=INK, linewidth=1.4)
    for end in (start, start + length):
        axes.plot([end, end], [0.78, 0.92], color=INK, linewidth=1.4)
    text = f"critical difference {length:.2f}"
    axes.text(start + length / 2, 0.97, text, ha="center", va="bottom", fontsize=9)


def _draw_band(axes: "Axes", setting: str, line: dict[float, list[float]]) -> FloatArray:
    """Draw means and deviations over the values of a parameter, and return the means."""
    values = np.array(sorted(line))
    means = np.array([np.mean(line[value]) for value in values])
    stds = np.array([np.std(line[v], ddof=1) if len(line[v]) > 1 else 0.0 for v in values])
    style = _STYLES[setting]
    axes.fill_between(
        values, means - stds, means + stds, color=style["color"], alpha=0.18, linewidth=0
    )
    axes.plot(values, means, **style)
    return means


def _scale(axes: "Axes", values: Sequence[float]) -> None:
    """Make the axis logarithmic if the values span more than two powers of ten."""
    positive = [value for value in values if value > 0]
    if positive and positive[-1] > 100 * positive[0]:
        if values[0] > 0:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=positive[0])


def _draw_sensitivity_legend(figure: "Figure", with_euclid: bool) -> None:
    from matplotlib.lines import Line2D

    entries = {
        "paper's setting, $\\lambda_1 = 1$": _STYLES["paper"],
        "$\\lambda_1 = 300\\,K^\\eta$": _STYLES["library"],
        'goal="neighbors", the rest by default': _STYLES["neighbors"],
    }
    if with_euclid:
        entries["EUCLID"] = _STYLES["EUCLID"]
    handles = [Line2D([], [], **style) for style in entries.values()]
    figure.legend(handles, list(entries), loc="outside lower center", ncols=4)

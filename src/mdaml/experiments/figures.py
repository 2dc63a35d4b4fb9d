"""The figures of the report.

Each function returns a figure and the values that its caption in ``template.html.j2`` needs, or
None if there are no records for it.
"""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mdaml._typing import FloatArray
from mdaml.experiments import config
from mdaml.experiments.config import CONFIG, FIXED, OURS, PAPER
from mdaml.experiments.pictures import COLORS, INK, MUTED, OTHER, new_figure
from mdaml.experiments.ranking import indistinct_groups, rank_methods
from mdaml.experiments.records import Record
from mdaml.experiments.results import Results
from mdaml.experiments.tables import signed
from mdaml.experiments.toy_figure import learn_toy

Drawing = tuple[Figure, Record]


def draw_critical_difference(results: Results) -> Drawing | None:
    """Draw mean ranks on a line, with bars over methods that do not differ by Nemenyi's test."""
    ranking = rank_methods(results)
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
    axes.hlines(0, low, high, color=MUTED, linewidth=1.0)
    for rank in range(1, len(names) + 1):
        axes.vlines(rank, 0, 0.1, color=MUTED, linewidth=1.0)
        axes.text(rank, 0.18, str(rank), ha="center", va="bottom", fontsize=9)
    _draw_scale(axes, low, ranking.critical_difference)
    for k, (first, last) in enumerate(groups):
        axes.hlines(
            -0.25 - 0.22 * k, ranks[first] - 0.05, ranks[last] + 0.05, color=INK, linewidth=3.5
        )
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
    names = sorted(results.convergence, key=lambda name: (*config.CONVERGENCE, name).index(name))
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
        axes.plot(np.linspace(0, rounds[-1], len(moves)), moves, color=COLORS[PAPER], linewidth=1.2)
        axes.plot(rounds, values, "o", color=COLORS[PAPER], markersize=4.5)
        if values.min() > 0 and values.max() > 10 * values.min():
            axes.set_yscale("log")
        axes.set(title=name, xlabel="round")
        axes.xaxis.get_major_locator().set_params(integer=True)
        settled.append((name, rounds_to_settle(values)))
    figure.axes[0].set_ylabel("objective, Eq. (7)")
    return figure, {"settled": settled}


def draw_images(results: Results) -> Drawing | None:
    """Draw the accuracies on the image data sets as bars."""
    means = (
        results.mean.reindex(list(config.IMAGES))
        .dropna(how="all")
        .dropna(how="all", axis="columns")
    )
    if means.empty:
        return None
    stds = results.std.reindex_like(means).fillna(0.0)
    figure = new_figure(2.0 + 2.2 * len(means), 0.9 + 0.27 * len(means.columns))
    panels = np.ravel(figure.subplots(1, len(means), sharey=True))
    style = {"height": 0.7, "color": [COLORS.get(method, OTHER) for method in means]}
    for axes, (name, row) in zip(panels, means.iterrows(), strict=True):
        lines = {"xerr": stds.loc[name], "error_kw": {"ecolor": INK, "elinewidth": 1.2}}
        bars = axes.barh(list(means), row.fillna(0.0), **style, **lines)
        texts = ["not run" if math.isnan(mean) else f"{mean:.1f}" for mean in row]
        labels = axes.bar_label(bars, texts, padding=3, fontsize=9)
        for label, mean in zip(labels, row, strict=True):
            label.set_weight("bold" if mean == row.max() else "normal")
        axes.set(title=name, xlim=(0, 118), xticks=range(0, 101, 25), xlabel="accuracy, %")
        axes.grid(visible=False, axis="y")
    panels[0].invert_yaxis()
    best = [(name, row.idxmax(), row.max()) for name, row in means.iterrows()]
    return figure, {"best": best}


def draw_fixed_weights(results: Results) -> Drawing | None:
    """Draw the accuracies with fixed and with learned weights, for each data set with both."""
    pairs = results.mean.reindex(index=list(config.UCI), columns=[FIXED, PAPER]).dropna()
    if pairs.empty:
        return None
    stds = results.std.reindex_like(pairs).fillna(0.0)
    figure = new_figure(7.2, 1.3 + 0.36 * len(pairs))
    axes = figure.subplots()
    places = np.arange(len(pairs), dtype=float)
    shapes = ((FIXED, "fixed weights", "s", -0.13), (PAPER, "learned weights", "o", 0.13))
    for method, label, marker, shift in shapes:
        style: Record = {"fmt": marker, "color": COLORS[method], "label": label}
        style |= {"xerr": stds[method], "markersize": 6, "elinewidth": 1.2}
        axes.errorbar(pairs[method], places + shift, **style)
    gains = (pairs[PAPER] - pairs[FIXED]).round(9)
    right: Record = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
    for place, gain in zip(places, gains, strict=True):
        axes.annotate(signed(gain, 1), (1.02, place), va="center", **right)
    axes.annotate("gain", (1.02, -0.8), color=MUTED, **right)
    axes.set_yticks(places, list(pairs.index))
    axes.set(ylim=(len(pairs) - 0.4, -0.6), xlabel="accuracy, %")
    figure.legend(loc="outside upper center", ncols=2)
    counts = {"better": sum(gains > 0), "worse": sum(gains < 0), "equal": sum(gains == 0)}
    return figure, counts | {"n_sets": len(pairs)}


def draw_sensitivity(results: Results) -> Drawing | None:
    """Draw the accuracy over each parameter, with the others as in the paper or the library."""
    if results.sensitivity.empty:
        return None
    figure = new_figure(8.6, 5.8)
    figure.set_layout_engine("constrained", h_pad=0.09, w_pad=0.06)
    panels = np.ravel(figure.subplots(2, 2, sharey=True))
    euclid = results.mean_of(results.sensitivity_dataset, "EUCLID")
    groups = results.sensitivity.groupby(level=["parameter", "setting"])
    lines = {key: line.droplevel(["parameter", "setting"]) for key, line in groups}
    styles, ranges = CONFIG["sensitivity"]["lines"], []
    for axes, parameter in zip(panels, config.PARAMETERS, strict=True):
        drawn = {s: lines[parameter, s] for s in config.SETTINGS if (parameter, s) in lines}
        # These settings differ only in λ₁, so they agree where λ₁ varies.
        is_same = "library" in drawn and drawn["library"].equals(drawn.get("paper"))
        if is_same:
            del drawn["library"]
            axes.set_xlabel("the paper's and λ₁ = 300 K^η are the same", color=MUTED)
        for setting, line in drawn.items():
            _draw_band(axes, line, styles[setting])
        ends = {s: (line["mean"].min(), line["mean"].max()) for s, line in drawn.items()}
        ranges.append({"letter": config.LETTERS[parameter], "ends": ends, "is_same": is_same})
        axes.set_title(CONFIG["titles"][parameter])
        if drawn:
            _scale(axes, pd.concat(drawn.values()).index)
        else:
            axes.annotate("no records", (0.5, 0.5), xycoords="axes fraction", ha="center")
            axes.set_xticks([])
        if not math.isnan(euclid):
            axes.axhline(euclid, **styles["EUCLID"])
    for axes in panels[::2]:
        axes.set_ylabel("accuracy, %")
    handles = {line.get_label(): line for axes in panels for line in axes.lines}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    return figure, {"ranges": ranges}


def draw_toy(_results: Results) -> Drawing:
    """Draw the toy of the demo, fitted here; all other figures need only records."""
    figure = learn_toy()
    return figure, {"titles": [axes.get_title() for axes in figure.axes]}


def rounds_to_settle(values: FloatArray) -> int:
    """Return the number of rounds until 99 % of the total decrease."""
    return int(np.argmax(values - values[-1] <= 0.01 * (values[0] - values[-1])))


def _draw_scale(axes: Axes, start: float, length: float) -> None:
    """Draw the critical difference as a length, above the axis."""
    axes.hlines(0.85, start, start + length, color=INK, linewidth=1.4)
    axes.vlines([start, start + length], 0.78, 0.92, color=INK, linewidth=1.4)
    text = f"critical difference {length:.2f}"
    axes.text(start + length / 2, 0.97, text, ha="center", va="bottom", fontsize=9)


def _draw_band(axes: Axes, line: pd.DataFrame, style: Record) -> None:
    """Draw means and deviations over the values of a parameter."""
    low, high = line["mean"] - line["std"], line["mean"] + line["std"]
    axes.fill_between(line.index, low, high, color=style["color"], alpha=0.18, linewidth=0)
    axes.plot(line.index, line["mean"], **style)


def _scale(axes: Axes, values: pd.Index) -> None:
    """Make the axis logarithmic if the values span more than two powers of ten."""
    least = values[values > 0].min()
    if values.max() > 100 * least:
        log: Record = {"value": "symlog", "linthresh": least}
        axes.set_xscale(**log if values.min() <= 0 else {"value": "log"})

"""The cells of the report's tables; ``tables.j2`` has their captions, and prints them as text.

A table is a dict: ``columns`` maps each heading to "text", or to "high" or "low" for numbers that
are sorted from the highest or from the lowest at the first click; ``rows`` and ``footer`` are lists
of rows of cells. A cell is a dict: its ``text``, the ``order`` to sort by (None comes last), its
``mark`` ("best", "second" or none), and the ``published`` text of the paper, ``bold`` or not.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdaml.datasets import list_datasets
from mdaml.experiments.ranking import Ranking, rank_in_place
from mdaml.experiments.records import Record
from mdaml.experiments.results import OURS, PUBLISHED_GRID, Results, read_published

Cell = dict[str, Any]
Row = list[Cell]

LETTERS = {
    "n_modes": "K",
    "triplet_weight": "λ₁",
    "eta": "η",
    "ridge": "λ₂",
    "relative_triplet_weight": "λ₁/K^η",
}


def make_tables(
    results: Results, ranking: Ranking, comparisons: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return all tables that have rows, by name."""
    tables = {
        "accuracy": _accuracy_table(results, ranking),
        "tests": _comparison_table(comparisons),
        "variants": _variant_table(results, ranking),
        "times": _time_table(results),
        "parameters": _parameter_table(results),
        "sizes": _size_table(results),
    }
    return {
        name: {"footer": [], "has_published": _has_published(table["rows"])} | table
        for name, table in tables.items()
        if table["rows"]
    }


def _has_published(rows: list[Row]) -> bool:
    return any(cell["published"] for row in rows for cell in row)


def _accuracy_table(results: Results, ranking: Ranking) -> dict[str, Any]:
    """Mean accuracies of the methods that are compared, with their mean ranks."""
    methods = results.compared
    rows = _accuracy_rows(results, methods, {method: method for method in methods})
    ranks = dict(zip(ranking.methods, ranking.ranks.tolist(), strict=True))
    n_best = [sum(row[k + 1]["mark"] == "best" for row in rows) for k in range(len(methods))]
    mean_ranks = [_number(ranks.get(method, math.nan)) for method in methods]
    footer = [
        [_cell("best on"), *map(_count, n_best)],
        [_cell("mean rank"), *_mark(mean_ranks, lowest=True)],
    ]
    return {"columns": _columns(methods, "high"), "rows": rows, "footer": footer}


def _variant_table(results: Results, ranking: Ranking) -> dict[str, Any]:
    """Mean accuracies of MDaML and its variants."""
    methods = results.variants
    published = {PUBLISHED_GRID if PUBLISHED_GRID in methods else OURS: OURS}
    ranks = [_number(rank_in_place(results, ranking, method)) for method in methods]
    return {
        "columns": _columns(methods, "high"),
        "rows": _accuracy_rows(results, methods, published),
        "footer": [[_cell("mean rank"), *_mark(ranks, lowest=True)]],
    }


def _comparison_table(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Wilcoxon's tests against MDaML."""
    columns = {
        "method": "text",
        **dict.fromkeys(("sets", "MDaML better", "equal", "MDaML worse"), "high"),
        **{"median difference": "high", "p": "low", "p (Holm)": "low", "reading": "text"},
    }
    rows = []
    for test in comparisons:
        counts = [test["better"], test["equal"], test["worse"]]
        numbers = [
            _cell(signed(test["median"]), test["median"]),
            *(_cell(p_value(test[name]), test[name]) for name in ("p", "p_holm")),
        ]
        ends = _name(test["method"]), _name(test["reading"])
        rows.append([ends[0], *map(_count, (sum(counts), *counts)), *numbers, ends[1]])
    return {"columns": columns, "rows": rows}


def _time_table(results: Results) -> dict[str, Any]:
    """Median times of a fit beside the paper's; no rows if no time was recorded."""
    published = read_published()
    methods = [method for method in results.methods if method != "EUCLID"]
    rows: list[Row] = []
    for dataset in results.datasets:
        cells = []
        for method in methods:
            seconds = results.seconds(dataset, method)
            cell, theirs = _number(seconds, _seconds), published["seconds"].get((dataset, method))
            if theirs is not None and not math.isnan(seconds):
                ratio = f" ({_ratio(theirs / seconds)})" if seconds > 0 else ""
                cell["published"] = _seconds(theirs) + ratio
                cell["bold"] = (dataset, method) in published["bold_seconds"]
            cells.append(cell)
        rows.append([_name(dataset), *_mark(cells, lowest=True)])
    if all(cell["order"] is None for row in rows for cell in row[1:]):
        rows = []
    return {"columns": _columns(methods, "low"), "rows": rows}


def _parameter_table(results: Results) -> dict[str, Any]:
    """Parameters that tuning chose, or that the trials state; no rows if there are none."""
    rows = []
    for key in ((dataset, method) for dataset in results.datasets for method in results.methods):
        record = results.tuning.get(key, {})
        trials = results.trials.get(key, {}).values()
        stated: Record = next((trial["params"] for trial in trials if trial.get("params")), {})
        params = ", ".join(
            f"{LETTERS.get(name, name)} = {f'{value:.6g}' if isinstance(value, float) else value}"
            for name, value in record.get("params", stated).items()
        )
        if params:
            numbers = [
                _number(100.0 * _chosen_score(record)),
                _count(len(record.get("scores", ())) if record else None),
                _number(float(record.get("seconds", math.nan)), _seconds),
            ]
            rows.append([*map(_name, (*key, params)), *numbers])
    texts = dict.fromkeys(("data set", "method", "parameters"), "text")
    numbers_of = dict.fromkeys(("accuracy", "candidates", "seconds"), "high")
    return {"columns": texts | numbers_of, "rows": rows}


def _size_table(results: Results) -> dict[str, Any]:
    """Sizes of the data sets as they were used, beside those in the paper that differ."""
    classes = {record.name: record.n_classes for record in list_datasets()}
    rows = []
    for dataset in results.datasets:
        features, known, examples = read_published()["sizes"].get(dataset, (None,) * 3)
        trials = [t for (d, _), ts in results.trials.items() if d == dataset for t in ts.values()]
        train, test = _median(trials, "n_train"), _median(trials, "n_test")
        total = train + test if train and test else None
        rows.append(
            [
                _name(dataset),
                _count(_median(trials, "n_features"), features),
                _count(classes.get(dataset), known),
                *(_count(train), _count(test), _count(total, examples)),
            ]
        )
    labels = ("features", "classes", "training rows", "test rows", "rows")
    return {"columns": _columns(labels, "high"), "rows": rows}


def signed(value: float, digits: int = 2) -> str:
    """Return ``+1.25``, ``−1.25`` or ``0.00``."""
    return f"{value:+.{digits}f}".replace("-", "−") if value else f"{0:.{digits}f}"


def p_value(value: float) -> str:
    """Return three digits, or ``< 0.001``."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _accuracy_rows(
    results: Results, methods: Sequence[str], published_as: Mapping[str, str]
) -> list[Row]:
    """One row per data set; `published_as` names the column of the paper beside a method."""
    published = read_published()
    rows = []
    for dataset in results.datasets:
        if not any((dataset, method) in results.trials for method in methods):
            continue
        cells = []
        for method in methods:
            n_trials = len(results.trials.get((dataset, method), ()))
            mean, std = results.mean(dataset, method), results.std(dataset, method)
            cell = _number(mean, lambda value, std=std: _mean_and_deviation(value, std))
            if 0 < n_trials < results.trial_counts[-1]:
                cell["text"] += f" ({n_trials} trial{'s' * (n_trials > 1)})"
            key = dataset, published_as.get(method, "")
            if key in published["accuracy"]:
                cell["published"] = _mean_and_deviation(*published["accuracy"][key])
                cell["bold"] = key in published["bold"]
            cells.append(cell)
        rows.append([_name(dataset), *_mark(cells)])
    return rows


def _mark(cells: Row, *, lowest: bool = False) -> Row:
    """Mark the best and the second best cells; cells that print alike are marked alike."""
    digits = 6 if lowest else 2
    values = {round(cell["order"], digits) for cell in cells if cell["order"] is not None}
    if len(values) > 1:
        best, second = sorted(values, reverse=not lowest)[:2]
        marks = {best: "best", second: "second"}
        for cell in cells:
            if cell["order"] is not None:
                cell["mark"] = marks.get(round(cell["order"], digits), "")
    return cells


def _columns(labels: Sequence[str], kind: str) -> dict[str, str]:
    return {"data set": "text"} | dict.fromkeys(labels, kind)


def _cell(text: str, order: float | str | None = None) -> Cell:
    return {"text": text, "order": order, "mark": "", "published": "", "bold": False}


def _name(name: str) -> Cell:
    return _cell(name, name)


def _number(value: float, to_text: Any = "{:.2f}".format) -> Cell:
    return _cell("–") if math.isnan(value) else _cell(to_text(value), value)


def _count(n: int | None, published: int | None = None) -> Cell:
    """Return a cell with a whole number, and that of the paper if it differs."""
    differs = published not in (None, n)
    return _cell("–" if n is None else str(n), n) | {"published": str(published) * differs}


def _mean_and_deviation(mean: float, std: float) -> str:
    return f"{mean:.2f}" if math.isnan(std) else f"{mean:.2f} ± {std:.2f}"


def _seconds(value: float) -> str:
    """Return two or three significant digits, without an exponent."""
    if value < 1e-4:
        return "< 0.0001"
    if value >= 100.0:
        return f"{value:.0f}"
    digits = (3 if value >= 0.1 else 2) - 1 - math.floor(math.log10(value))
    return f"{value:.{max(digits, 0)}f}"


def _ratio(value: float) -> str:
    if value >= 10.0:
        return f"{value:.0f}×"
    return f"{value:.1f}×" if value >= 1.0 else f"{value:.2g}×"


def _chosen_score(record: Record) -> float:
    scores = record.get("scores", ())
    means = [score["mean"] for score in scores if score.get("params") == record["params"]]
    return float(means[0]) if means else math.nan


def _median(trials: Sequence[Record], field: str) -> int | None:
    values = [trial[field] for trial in trials if field in trial]
    return int(np.median(values)) if values else None

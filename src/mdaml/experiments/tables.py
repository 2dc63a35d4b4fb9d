"""The tables of the report, built from results."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mdaml.datasets import list_datasets
from mdaml.experiments.markup import Cell, Column, Table
from mdaml.experiments.ranking import Comparison, Ranking, rank_in_place
from mdaml.experiments.results import OURS, PUBLISHED_GRID, Record, Results, read_published

_LETTERS = {
    "n_modes": "K",
    "triplet_weight": "λ₁",
    "eta": "η",
    "ridge": "λ₂",
    "relative_triplet_weight": "λ₁/K^η",
}
_NOTHING = "–"


def accuracy_table(results: Results, ranking: Ranking) -> Table:
    """Mean accuracies of the methods that are compared, with their mean ranks."""
    methods = results.compared
    rows = _accuracy_rows(results, methods, {method: method for method in methods})
    ranks = dict(zip(ranking.methods, ranking.ranks.tolist(), strict=True))
    footer = (
        (Cell("best on"), *(_count(_n_best(rows, 1 + k)) for k in range(len(methods)))),
        (
            Cell("mean rank"),
            *_mark([_rank(ranks.get(method, math.nan)) for method in methods], lowest=True),
        ),
    )
    return Table(
        "accuracy",
        "Accuracy of 3-NN on the test part",
        f"Percent, mean ± standard deviation over {_n_trials(results)}. Best in bold, second best "
        "underlined. Where the paper has a figure it is given too, bold where the paper prints it "
        "so. " + _rank_note(results, ranking),
        (
            Column("data set", numeric=False, descending=False),
            *map(Column, methods),
        ),
        rows,
        footer,
    )


def variant_table(results: Results, ranking: Ranking) -> Table | None:
    """Mean accuracies of MDaML and its variants; None if there is no variant."""
    methods = results.variants
    if not methods:
        return None
    published = {PUBLISHED_GRID if PUBLISHED_GRID in methods else OURS: OURS}
    rows = _accuracy_rows(results, methods, published)
    ranks = [_rank(rank_in_place(results, ranking, method)) for method in methods]
    return Table(
        "variants",
        "MDaML and its variants",
        f"Percent, mean ± standard deviation over {_n_trials(results)}; best in bold, second best "
        "underlined. "
        "The paper's figure stands beside the variant that uses the paper's grid, if it was run. "
        "Variants are not ranked beside MDaML, which would give one method several entries: the "
        "last row is the mean rank that each has in MDaML's place.",
        (
            Column("data set", numeric=False, descending=False),
            *map(Column, methods),
        ),
        rows,
        ((Cell("mean rank"), *_mark(ranks, lowest=True)),),
    )


def comparison_table(comparisons: Sequence[Comparison]) -> Table | None:
    """Wilcoxon's tests against MDaML; None if there is nothing to test."""
    if not comparisons:
        return None
    labels = ("sets", "MDaML better", "equal", "MDaML worse", "median difference", "p", "p (Holm)")
    rows = []
    for test in comparisons:
        n_sets = test.wins + test.ties + test.losses
        counts = (_count(n) for n in (n_sets, test.wins, test.ties, test.losses))
        rows.append(
            (
                Cell(test.method, test.method),
                *counts,
                Cell(_signed(test.median_difference), test.median_difference),
                Cell(_p(test.p_value), test.p_value),
                Cell(_p(test.p_holm), test.p_holm),
                Cell(verdict(test), verdict(test)),
            )
        )
    return Table(
        "tests",
        "Each method against MDaML",
        "Two-sided Wilcoxon signed-rank test on the mean accuracies of the data sets, one pair a "
        "set; not on single trials, which share most of their training rows and are not "
        "independent. Sets with equal means count half for either side. Difference: MDaML minus "
        "the other, in percentage points. Holm's correction is over all rows; the last column "
        "reads it at 0.05." + _few_sets_note(comparisons),
        (
            Column("method", numeric=False, descending=False),
            *(Column(label, descending=not label.startswith("p")) for label in labels),
            Column("reading", numeric=False, descending=False),
        ),
        tuple(rows),
    )


def time_table(results: Results) -> Table | None:
    """Median times of a fit beside the paper's; None if no time was recorded."""
    published = read_published()
    methods = [method for method in results.methods if method != "EUCLID"]
    rows = []
    for dataset in results.datasets:
        cells = []
        for method in methods:
            seconds = results.seconds(dataset, method)
            cell = Cell(_seconds(seconds), None if math.isnan(seconds) else seconds)
            theirs = published.seconds.get((dataset, method))
            if theirs is not None and not math.isnan(seconds):
                ratio = f" ({_ratio(theirs / seconds)})" if seconds > 0 else ""
                bold = (dataset, method) in published.bold_seconds
                cell = replace(cell, published=_seconds(theirs) + ratio, published_bold=bold)
            cells.append(cell)
        rows.append((Cell(dataset, dataset), *_mark(cells, lowest=True)))
    if all(cell.order is None for row in rows for cell in row[1:]):
        return None
    return Table(
        "times",
        "Training time in seconds",
        "Median over the trials, without tuning; shortest in bold, second underlined. EUCLID "
        "learns nothing and is left out. Beside our time stand the paper's and, in brackets, how "
        "many times longer that is. The paper's times are of MATLAB 2018b on a Core i7-8700, ours "
        "of another machine, language and stopping rule: the ratio compares two programs, not two "
        "algorithms.",
        (
            Column("data set", numeric=False, descending=False),
            *(Column(method, descending=False) for method in methods),
        ),
        tuple(rows),
    )


def parameter_table(results: Results) -> Table | None:
    """Parameters that tuning chose; None if no record has any."""
    rows = []
    for dataset in results.datasets:
        for method in results.methods:
            record = results.tuning.get((dataset, method))
            params = record["params"] if record else _trial_params(results, dataset, method)
            if not params:
                continue
            score = _chosen_score(record) if record else math.nan
            seconds = float(record.get("seconds", math.nan)) if record else math.nan
            rows.append(
                (
                    Cell(dataset, dataset),
                    Cell(method, method),
                    Cell(_describe(params), _describe(params)),
                    _number(score, f"{100.0 * score:.2f}"),
                    _count(len(record.get("scores", ()))) if record else Cell(_NOTHING),
                    _number(seconds, _seconds(seconds)),
                )
            )
    if not rows:
        return None
    return Table(
        "parameters",
        "Parameters chosen on the first trial's training part",
        "Accuracy is that of the chosen candidate in cross-validation, in percent; it was chosen "
        "for being high, so it flatters. Seconds are those of the whole search. "
        "K: modes, λ₁: weight of the triplets, η: sharpness of the weights, λ₂: ridge.",
        (
            Column("data set", numeric=False, descending=False),
            Column("method", numeric=False, descending=False),
            Column("parameters", numeric=False, descending=False),
            Column("accuracy"),
            Column("candidates"),
            Column("seconds"),
        ),
        tuple(rows),
    )


def size_table(results: Results) -> Table:
    """Sizes of the data sets as they were used, beside the paper's."""
    classes = {record.name: record.n_classes for record in list_datasets()}
    published = read_published().sizes
    rows = []
    for dataset in results.datasets:
        theirs: Sequence[int | None] = published.get(dataset, (None, None, None))
        trials = [t for (d, _), ts in results.trials.items() if d == dataset for t in ts.values()]
        train, test = _size(trials, "n_train"), _size(trials, "n_test")
        rows.append(
            (
                Cell(dataset, dataset),
                _whole(_size(trials, "n_features"), theirs[0]),
                _whole(classes.get(dataset), theirs[1]),
                _whole(train),
                _whole(test),
                _whole(train + test if train and test else None, theirs[2]),
            )
        )
    return Table(
        "sizes",
        "The data sets as they were used",
        "Where the paper states another size it is given too. Features are counted after "
        "preprocessing, which reduces images to principal components, 100 in the paper as well.",
        (
            Column("data set", numeric=False, descending=False),
            *map(Column, ("features", "classes", "training rows", "test rows", "rows")),
        ),
        tuple(rows),
    )


def verdict(test: Comparison) -> str:
    """Read one test at 0.05 after Holm."""
    if not test.p_holm < 0.05:
        return "no difference shown"
    return "MDaML better" if test.median_difference > 0 else "MDaML worse"


def mean_and_deviation(mean: float, std: float) -> str:
    """Return ``77.73 ± 1.76``, without the second part if there is none."""
    return f"{mean:.2f}" if math.isnan(std) else f"{mean:.2f} ± {std:.2f}"


def _accuracy_rows(
    results: Results, methods: Sequence[str], published_as: Mapping[str, str]
) -> tuple[tuple[Cell, ...], ...]:
    """One row a data set; `published_as` says which of the paper's columns stands beside ours."""
    published = read_published()
    most = max(map(len, results.trials.values()))
    rows = []
    for dataset in results.datasets:
        if not any((dataset, method) in results.trials for method in methods):
            continue
        cells = []
        for method in methods:
            n_trials = len(results.trials.get((dataset, method), ()))
            key = dataset, published_as.get(method, "")
            mean = results.mean(dataset, method)
            text = mean_and_deviation(mean, results.std(dataset, method))
            if 0 < n_trials < most:
                text += f" ({n_trials} trial{'s' * (n_trials > 1)})"
            cell = _number(mean, text)
            if key in published.accuracy:
                theirs = mean_and_deviation(*published.accuracy[key])
                cell = replace(cell, published=theirs, published_bold=key in published.bold)
            cells.append(cell)
        rows.append((Cell(dataset, dataset), *_mark(cells)))
    return tuple(rows)


def _mark(cells: Sequence[Cell], *, lowest: bool = False) -> list[Cell]:
    """Mark the best and the second of the cells; those that print alike are marked alike."""
    values = {round(c.order, 6 if lowest else 2) for c in cells if isinstance(c.order, float)}
    if len(values) < 2:
        return list(cells)
    best, second = sorted(values, reverse=not lowest)[:2]
    marked = []
    for cell in cells:
        value = round(cell.order, 6 if lowest else 2) if isinstance(cell.order, float) else None
        mark: Literal["", "best", "second"] = ""
        if value is not None and value in (best, second):
            mark = "best" if value == best else "second"
        marked.append(replace(cell, mark=mark))
    return marked


def _n_trials(results: Results) -> str:
    counts = {len(trials) for trials in results.trials.values()}
    if max(counts) == 1:
        return "one trial, so without a deviation"
    return f"{max(counts)} trials" + (", fewer where a cell says so" if len(counts) > 1 else "")


def _n_best(rows: Iterable[Sequence[Cell]], column: int) -> int:
    return sum(row[column].mark == "best" for row in rows)


def _number(value: float, text: str) -> Cell:
    return Cell(_NOTHING) if math.isnan(value) else Cell(text, value)


def _count(n: int) -> Cell:
    return Cell(str(n), n)


def _whole(n: int | None, published: int | None = None) -> Cell:
    cell = Cell(_NOTHING) if n is None else _count(n)
    return cell if published in (None, n) else replace(cell, published=str(published))


def _rank(rank: float) -> Cell:
    return _number(rank, f"{rank:.2f}")


def _rank_note(results: Results, ranking: Ranking) -> str:
    if len(ranking.methods) < 2:
        return "No data set has results of two methods, so there are no ranks."
    note = f"Mean ranks are over the {len(ranking.datasets)} data sets that all methods have"
    left_out = [method for method in results.compared if method not in ranking.methods]
    if left_out:
        note += f", leaving out {' and '.join(left_out)}, which would leave fewer sets"
    return note + "; 1 is best."


def _few_sets_note(comparisons: Sequence[Comparison]) -> str:
    fewest = min(test.wins + test.ties + test.losses for test in comparisons)
    if fewest > 5:
        return ""
    return f" With {fewest} sets no p-value below 0.05 is possible, whatever the accuracies."


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−") if value else "0.00"


def _seconds(value: float) -> str:
    """Two or three digits that count, never an exponent."""
    if math.isnan(value):
        return _NOTHING
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


def _describe(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{_LETTERS.get(name, name)} = {_value(v)}" for name, v in params.items())


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _trial_params(results: Results, dataset: str, method: str) -> Mapping[str, Any]:
    trials = results.trials.get((dataset, method), {})
    return next((trial["params"] for trial in trials.values() if trial.get("params")), {})


def _chosen_score(record: Record) -> float:
    means = [s["mean"] for s in record.get("scores", ()) if s.get("params") == record["params"]]
    return float(means[0]) if means else math.nan


def _size(trials: Sequence[Record], field: str) -> int | None:
    values = [trial[field] for trial in trials if field in trial]
    return int(np.median(values)) if values else None

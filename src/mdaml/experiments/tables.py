"""The cells of the report's tables; ``tables.j2`` has their captions, and prints them as text.

A table is a dict: ``columns`` maps each heading to "text", or to "high" or "low" for numbers that
are sorted from the highest or from the lowest at the first click; ``rows`` and ``footer`` are lists
of rows of cells. A cell is a dict: its ``text``, the ``order`` to sort by (None comes last), its
``mark`` ("best", "second" or none), and the ``published`` text of the paper, ``bold`` or not.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from mdaml.datasets import list_datasets
from mdaml.experiments.config import CONFIRMATION, LETTERS, OURS, PAPER, PUBLISHED_GRID
from mdaml.experiments.ranking import Ranking, rank_in_place
from mdaml.experiments.records import Record
from mdaml.experiments.results import Results, read_published
from mdaml.experiments.splits import load_samples

Row = list[Record]
Format = Callable[[float], str]

_BESIDE = (OURS, PUBLISHED_GRID, PAPER)  # the first that was run has the paper's values of MDaML


def make_tables(
    results: Results, ranking: Ranking, comparisons: Sequence[Record]
) -> dict[str, Record]:
    """Return all tables that have rows, by name."""
    tables = {
        "accuracy": _accuracy_table(results, ranking),
        "tests": _comparison_table(comparisons),
        "variants": _variant_table(results, ranking),
        "times": _time_table(results),
        "parameters": _parameter_table(results),
        "sizes": _size_table(results),
    }
    return {name: table for name, table in tables.items() if table["rows"]}


def signed(value: float, digits: int = 2) -> str:
    """Return ``+1.25``, ``−1.25`` or ``0.00``."""
    return f"{value:+.{digits}f}".replace("-", "−") if value else f"{0:.{digits}f}"


def p_value(value: float) -> str:
    """Return three digits, or ``< 0.001``."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _accuracy_table(results: Results, ranking: Ranking) -> Record:
    """Mean accuracies of the methods that are compared, with their mean ranks."""
    table = _accuracies(results, results.compared, _BESIDE)
    best = pd.DataFrame([[cell["mark"] == "best" for cell in row[1:]] for row in table["rows"]])
    ranks = pd.Series(ranking.ranks, ranking.methods, dtype=float).reindex(results.compared)
    footer = [_footer("best on", best.sum(), _whole), _footer("mean rank", ranks, _two_digits)]
    return table | {"footer": footer}


def _variant_table(results: Results, ranking: Ranking) -> Record:
    """Mean accuracies of MDaML and its variants."""
    methods = results.variants
    ranks = [rank_in_place(results, ranking, method) for method in methods]
    footer = [_footer("mean rank", pd.Series(ranks, dtype=float), _two_digits)]
    return _accuracies(results, methods, (PUBLISHED_GRID, OURS)) | {"footer": footer}


def _comparison_table(comparisons: Sequence[Record]) -> Record:
    """Wilcoxon's tests against MDaML."""
    formats: dict[str, Format] = {
        **dict.fromkeys(("sets", f"{OURS} better", "equal", f"{OURS} worse"), _whole),
        **{"median difference": signed, "p": p_value, "p (Holm)": p_value, "reading": str},
    }
    tests = pd.DataFrame(comparisons, columns=["method", *_TEST]).set_index("method")
    tests.insert(0, "sets", tests[["better", "equal", "worse"]].sum(axis="columns"))
    tests.columns = list(formats)
    return _table(tests, formats, head="method", low=("p", "p (Holm)"))


_TEST = ("better", "equal", "worse", "median", "p", "p_holm", "reading")


def _time_table(results: Results) -> Record:
    """Median times of a fit beside the paper's; no rows if no time was recorded."""
    times = results.seconds.drop(columns="EUCLID", errors="ignore")
    if times.isna().all(axis=None):
        times = times.iloc[:0]
    theirs = _published("seconds", times, _BESIDE).where(times.notna())
    ratios = (theirs / times).map(lambda ratio: f" ({_ratio(ratio)})" * math.isfinite(ratio))
    more = {
        "mark": _marks(times, lowest=True),
        "published": _print(theirs, _seconds, "") + ratios,
        "bold": _published("bold_seconds", times, _BESIDE, False) & theirs.notna(),
    }
    return _table(times, _seconds, low=tuple(times), **more)


def _parameter_table(results: Results) -> Record:
    """Parameters that tuning chose, or that the trials state; no rows if there are none."""
    stated = results.trials[results.trials["params"].map(bool)].dropna(subset="params")
    chosen = {(t.dataset, t.method): t.params for t in stated.iloc[::-1].itertuples()}
    rows = []
    for key in ((dataset, method) for dataset in results.datasets for method in results.methods):
        record = results.tuning.get(key, {})
        params = [
            f"{LETTERS.get(name, name)} = {f'{value:.6g}' if isinstance(value, float) else value}"
            for name, value in record.get("params", chosen.get(key, {})).items()
        ]
        n_scores = len(record.get("scores", ())) if record else math.nan
        numbers = 100.0 * _chosen_score(record), n_scores, record.get("seconds", math.nan)
        if params:
            rows.append((*key, ", ".join(params), *numbers))
    formats: dict[str, Format] = {"method": str, "parameters": str}
    formats |= {"accuracy": _two_digits, "candidates": _whole, "seconds": _seconds}
    table = pd.DataFrame(rows, columns=["data set", *formats]).set_index("data set")
    return _table(table, formats)


def _size_table(results: Results) -> Record:
    """Sizes of the data sets as they were used, beside those in the paper that differ."""
    groups = results.trials.groupby("dataset")[["n_features", "n_train", "n_test"]]
    sizes = groups.median().reindex(results.datasets) // 1
    classes = {record.name: record.n_classes for record in list_datasets()}
    others = [name for name in CONFIRMATION if name in results.datasets]
    classes |= {name: len(np.unique(load_samples(name)[1])) for name in others}
    sizes.insert(1, "classes", sizes.index.map(classes.get))
    sizes["rows"] = sizes["n_train"] + sizes["n_test"]
    sizes.columns = ["features", "classes", "training rows", "test rows", "rows"]
    theirs = read_published()["sizes"].rename(columns={"examples": "rows"}).reindex_like(sizes)
    differ = theirs.where(theirs.notna() & (theirs != sizes))
    return _table(sizes, _whole, published=_print(differ, _whole, ""))


def _accuracies(results: Results, methods: Sequence[str], beside: Sequence[str]) -> Record:
    """One row per data set; the paper's values of MDaML are beside the first of `beside`."""
    mean = results.mean.reindex(columns=list(methods)).dropna(how="all")
    std, n_trials = (frame.reindex_like(mean) for frame in (results.std, results.n_trials))
    most = results.trial_counts[-1]
    few = n_trials.map(lambda n: f" ({n:.0f} trial{'s' * (n > 1)})" if n < most else "")
    theirs = _published("mean", mean, beside), _published("std", mean, beside)
    more = {
        "text": _mean_and_deviation(mean, std, "–") + few,
        "mark": _marks(mean, lowest=False),
        "published": _mean_and_deviation(*theirs, ""),
        "bold": _published("bold", mean, beside, False),
    }
    return _table(mean, _two_digits, **more)


def _published(
    name: str, like: pd.DataFrame, beside: Sequence[str], missing: float = math.nan
) -> pd.DataFrame:
    """Return a table of the paper for the cells of another.

    Its MDaML is under the first of the names `beside` that the other table has.
    """
    ours = next((method for method in beside if method in like), "MDaML")
    table = read_published()[name].rename(columns={"MDaML": ours})
    return table.reindex(index=like.index, columns=like.columns, fill_value=missing)


def _table(
    values: pd.DataFrame,
    formats: Format | dict[str, Format],
    *,
    head: str = "data set",
    low: Sequence[str] = (),
    **more: pd.DataFrame,
) -> Record:
    """Return a table of values; its first column, under `head`, is their index.

    `formats` print the numbers. `more` are other parts of the cells, frames of the same shape.
    """
    by_column = formats if isinstance(formats, dict) else dict.fromkeys(values, formats)
    text = {name: _print(values[[name]], to_text)[name] for name, to_text in by_column.items()}
    parts = {"text": pd.DataFrame(text, values.index, list(values))}
    parts["order"] = values.astype(object).where(values.notna(), None)
    parts |= more
    cells = zip(*(part.to_numpy(object) for part in parts.values()), strict=True)
    rows = [
        [
            _cell(name, name),
            *(_cell(**dict(zip(parts, cell, strict=True))) for cell in zip(*row, strict=True)),
        ]
        for name, row in zip(values.index, cells, strict=True)
    ]
    kinds = {name: "low" if name in low else "high" for name in values}
    kinds |= {name: "text" for name, to_text in by_column.items() if to_text is str}
    return {
        "columns": {head: "text"} | kinds,
        "rows": rows,
        "footer": [],
        "has_published": any(cell["published"] for row in rows for cell in row),
    }


def _cell(
    text: str, order: object = None, mark: str = "", published: str = "", bold: bool = False
) -> Record:
    return {"text": text, "order": order, "mark": mark, "published": published, "bold": bold}


def _footer(name: str, values: pd.Series, to_text: Format) -> Row:
    """Return a row below a table; the lowest of numbers with a fraction is marked as the best."""
    row = values.to_frame().T
    more = {"mark": _marks(row, lowest=True)} if to_text is _two_digits else {}
    return [_cell(name), *_table(row, to_text, **more)["rows"][0][1:]]


def _marks(values: pd.DataFrame, *, lowest: bool) -> pd.DataFrame:
    """Mark the best and the second best of each row; cells that print alike are marked alike."""
    rounded = values.round(6 if lowest else 2)
    places = rounded.rank(axis="columns", method="dense", ascending=lowest)
    marks = places.map(lambda place: {1: "best", 2: "second"}.get(place, ""))
    return marks.where(rounded.nunique(axis="columns") > 1, "")


def _print(values: pd.DataFrame, to_text: Format, missing: str = "–") -> pd.DataFrame:
    return values.map(to_text, na_action="ignore").astype(object).fillna(missing)


def _mean_and_deviation(mean: pd.DataFrame, std: pd.DataFrame, missing: str) -> pd.DataFrame:
    return _print(mean, _two_digits, missing) + _print(std, " ± {:.2f}".format, "")


def _two_digits(value: float) -> str:
    return f"{value:.2f}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _seconds(value: float) -> str:
    """Return two or three significant digits, without an exponent."""
    if value < 1e-4:
        return "< 0.0001"
    digits = (3 if value >= 0.1 else 2) - 1 - math.floor(math.log10(value))
    return f"{value:.{max(digits, 0)}f}"


def _ratio(value: float) -> str:
    return f"{value:.{0 if value >= 10.0 else 1}f}×" if value >= 1.0 else f"{value:.2g}×"


def _chosen_score(record: Record) -> float:
    scores = record.get("scores", ())
    means = [score["mean"] for score in scores if score.get("params") == record["params"]]
    return float(means[0]) if means else math.nan

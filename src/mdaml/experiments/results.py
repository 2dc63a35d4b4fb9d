"""The records of a run as tables by data set and method, and the tables printed in the paper."""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from mdaml._typing import FloatArray
from mdaml.experiments.config import DATASETS, FORMER, OURS, RIVALS, VARIANTS
from mdaml.experiments.records import Record

Key = tuple[str, ...]

_KEYS = {
    "trial": ("dataset", "method", "trial"),
    "tuning": ("dataset", "method"),
    "convergence": ("dataset",),
    "sensitivity": ("dataset", "parameter", "setting", "value", "trial"),
}
_TYPES = {"trial": int, "value": float}  # the other keys are text
_MORE = ("fit_seconds", "params", "n_train", "n_test", "n_features", "versions", "time", "preset")


@dataclass(frozen=True)
class Results:
    """Usable records, the last of each kind if a run was repeated.

    Attributes
    ----------
    trials : DataFrame
        One row per trial; the accuracy in percent, nan where a record lacks a field.
    mean, std, n_trials, seconds : DataFrame
        Mean and deviation of the accuracies, number of trials and median time of a fit: one row
        per data set (those of the paper in its order, then others), one column per method (MDaML,
        its variants, the others in the order of the paper). A missing cell is nan.
    tuning, convergence : dict
        Record by data set and method, and by data set.
    sensitivity : DataFrame
        Mean and deviation of the accuracies by parameter, setting and value.
    sensitivity_dataset : str
        The data set of `sensitivity`; the last one if there are several.
    n_unusable : int
        Number of records without a needed field or with an impossible value.
    """

    trials: pd.DataFrame
    mean: pd.DataFrame
    std: pd.DataFrame
    n_trials: pd.DataFrame
    seconds: pd.DataFrame
    tuning: dict[Key, Record]
    convergence: dict[str, Record]
    sensitivity: pd.DataFrame
    sensitivity_dataset: str
    n_unusable: int

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a trial."""
        return tuple(self.mean.index)

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods with a trial."""
        return tuple(self.mean.columns)

    @property
    def compared(self) -> tuple[str, ...]:
        """Methods that are ranked: MDaML once, without its variants."""
        if OURS not in self.methods:
            return self.methods
        return tuple(method for method in self.methods if not is_variant(method))

    @property
    def variants(self) -> tuple[str, ...]:
        """MDaML and its variants; empty unless MDaML and a variant were run."""
        found = tuple(method for method in self.methods if is_variant(method))
        return (OURS, *found) if found and OURS in self.methods else ()

    @property
    def trial_counts(self) -> list[int]:
        """The different numbers of trials that a method has on a data set, ascending."""
        return sorted({int(n) for n in self.n_trials.unstack().dropna()})

    def mean_of(self, dataset: str, method: str) -> float:
        """Mean accuracy in percent; nan if there is none."""
        return float(self.means((dataset,), (method,))[0, 0])

    def means(self, datasets: Sequence[str], methods: Sequence[str]) -> FloatArray:
        """Mean accuracies, one row per data set, one column per method; nan if there is none."""
        return np.asarray(self.mean.reindex(index=list(datasets), columns=list(methods)), float)


def is_variant(method: str) -> bool:
    """Whether a method is MDaML with other settings, by its name."""
    return method.startswith("MDaML") and method != OURS


def read_results(records: Sequence[Record]) -> Results:
    """Arrange records.

    Parameters
    ----------
    records : sequence of dict
        Records of the kinds ``trial``, ``tuning``, ``convergence`` and ``sensitivity``. Records of
        other kinds and unusable ones are left out. Older names of methods are replaced.

    Returns
    -------
    Results
        Any part but the trials may be empty.

    Raises
    ------
    ValueError
        If there is no usable trial.
    """
    found: dict[str, dict[Key, Record]] = {kind: {} for kind in _KEYS}
    n_unusable, reason = 0, ""
    for record in records:
        try:
            if record["kind"] in _KEYS:
                key = _check(record)
                names = dict(zip(_KEYS[record["kind"]], key, strict=True))
                found[record["kind"]][key] = {**record, **names}
        except (KeyError, TypeError, ValueError) as error:
            n_unusable += 1
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            reason = reason or f" The first unusable record: {what}."
    if not found["trial"]:
        raise ValueError(
            "a report needs records of kind 'trial' with an accuracy, got none among "
            f"{len(records)} records.{reason} Run the experiments first."
        )
    trials = _to_frame(found, "trial", *_MORE)
    cells = trials.groupby(["dataset", "method"]).agg(
        mean=("accuracy", "mean"),
        std=("accuracy", "std"),
        n_trials=("accuracy", "size"),
        seconds=("fit_seconds", "median"),
    )
    # Rounded, so that the order of additions cannot break a tie.
    cells["mean"] = [round(value, 9) for value in cells["mean"]]
    datasets = _arrange(trials["dataset"], DATASETS)
    methods = _arrange(trials["method"], (OURS, *VARIANTS, *RIVALS))
    frames = {
        name: cells[name].unstack().reindex(index=datasets, columns=methods) for name in cells
    }
    steps = _to_frame(found, "sensitivity")
    dataset = str(steps["dataset"].iloc[-1]) if len(steps) else ""
    lines = steps[steps["dataset"] == dataset].groupby(["parameter", "setting", "value"])
    return Results(
        trials,
        **frames,
        tuning=found["tuning"],
        convergence={key[0]: record for key, record in found["convergence"].items()},
        sensitivity=lines["accuracy"].agg(["mean", "std"]).fillna({"std": 0.0}),
        sensitivity_dataset=dataset,
        n_unusable=n_unusable,
    )


@cache
def read_published() -> dict[str, pd.DataFrame]:
    """Return the tables of the paper, one row per data set.

    ``mean`` and ``std`` of the accuracies in percent and training times in ``seconds`` have one
    column per method; ``bold`` and ``bold_seconds`` are true where the paper prints an entry in
    bold. ``sizes`` has the numbers of features, classes and examples.
    """
    text = files("mdaml.experiments").joinpath("published.toml").read_text(encoding="utf-8")
    printed = tomllib.loads(text)
    accuracy, seconds = printed["accuracy"], printed["seconds"]
    return {
        "mean": _by_dataset(accuracy["mean"], accuracy["methods"]),
        "std": _by_dataset(accuracy["std"], accuracy["methods"]),
        "bold": _is_bold(accuracy),
        "seconds": _by_dataset(seconds["time"], seconds["methods"]),
        "bold_seconds": _is_bold(seconds),
        "sizes": _by_dataset(printed["sizes"], ["features", "classes", "examples"]),
    }


def _by_dataset(rows: Record, columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(rows, "index", columns=columns)


def _is_bold(table: Record) -> pd.DataFrame:
    methods, bold = table["methods"], table["bold"]
    return _by_dataset({name: np.isin(methods, bold[name]) for name in bold}, methods)


def _check(record: Record) -> Key:
    """Return the key of a record; an error says what is wrong with it."""

    def require(is_usable: object, field: str, wanted: str) -> None:
        if not is_usable:
            raise ValueError(f"{field} must be {wanted}, got {record[field]!r}")

    match record["kind"]:
        case "trial" | "sensitivity":
            require(0 <= record["accuracy"] <= 1, "accuracy", "a fraction from 0 to 1")
            seconds = record.get("fit_seconds", 0.0)
            require(0 <= seconds < math.inf, "fit_seconds", "zero or more")
        case "tuning":
            require(isinstance(record["params"], Mapping), "params", "a table")
        case "convergence":
            values = np.asarray(record["objective"], dtype=float)
            usable = values.ndim == 1 and len(values) > 1 and np.isfinite(values).all()
            require(usable, "objective", "two or more finite numbers")
    names = {name: _TYPES.get(name, str)(record[name]) for name in _KEYS[record["kind"]]}
    if "method" in names:
        names["method"] = FORMER.get(names["method"], names["method"])
    return tuple(names.values())


def _to_frame(found: dict[str, dict[Key, Record]], kind: str, *more: str) -> pd.DataFrame:
    """Return one row per record, with the accuracy in percent; a missing field is nan."""
    columns = [*_KEYS[kind], "accuracy", *more]
    frame = pd.DataFrame(list(found[kind].values()), columns=columns)
    return frame.assign(accuracy=100.0 * frame["accuracy"].astype(float))


def _arrange(found: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return known names that were found, in their order, then the others as they appear."""
    names = dict.fromkeys(found)
    return [*(name for name in known if name in names), *(n for n in names if n not in known)]

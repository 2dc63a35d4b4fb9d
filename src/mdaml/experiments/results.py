"""The records of a run, arranged by data set and method, and the tables printed in the paper."""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from mdaml._typing import FloatArray
from mdaml.experiments.config import CONFIG, METHODS
from mdaml.experiments.records import Record

Key = tuple[str, str]  # data set, method

UCI = tuple(CONFIG["datasets"]["uci"])
IMAGES = tuple(CONFIG["datasets"]["images"])
CONVERGENCE = tuple(CONFIG["convergence"]["datasets"])
PARAMETERS = tuple(CONFIG["sensitivity"]["fixed"])
SETTINGS = ("paper", "library", "neighbors")

OURS = "MDaML"
PRINTED = "MDaML, Eq. (7)"
PUBLISHED_GRID = "MDaML, published grid"
FIXED = "MDaML, fixed weights"
VARIANTS = tuple(method for method in METHODS if method.startswith(f"{OURS}, "))
RIVALS = tuple(method for method in METHODS if method not in (OURS, *VARIANTS))

_FRACTION = "a fraction from 0 to 1"


@dataclass(frozen=True)
class Results:
    """Usable records, the last of each kind if a run was repeated.

    Attributes
    ----------
    trials : dict
        Records by data set and method, then by number of the trial.
    tuning : dict
        Record by data set and method.
    convergence : dict
        Record by data set.
    sensitivity : dict
        Accuracies in percent by parameter and setting, then by value; one for each trial.
    sensitivity_dataset : str
        The data set of `sensitivity`; the last one if there are several.
    is_quick : bool
        Whether records come from a quick run, which is too small for results.
    n_unusable : int
        Number of records without a needed field or with an impossible value.
    """

    trials: dict[Key, dict[int, Record]]
    tuning: dict[Key, Record]
    convergence: dict[str, Record]
    sensitivity: dict[Key, dict[float, list[float]]]
    sensitivity_dataset: str
    is_quick: bool
    n_unusable: int

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a trial: those of the paper in its order, then others."""
        return _arrange((dataset for dataset, _ in self.trials), (*UCI, *IMAGES))

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods with a trial: MDaML, its variants, the others in the order of the paper."""
        return _arrange((method for _, method in self.trials), (OURS, *VARIANTS, *RIVALS))

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
        return sorted({len(trials) for trials in self.trials.values()})

    def accuracies(self, dataset: str, method: str) -> FloatArray:
        """Accuracies in percent, in the order of the trials; empty if there are none."""
        trials = self.trials.get((dataset, method), {})
        return np.array([100.0 * trials[i]["accuracy"] for i in sorted(trials)])

    def mean(self, dataset: str, method: str) -> float:
        """Mean accuracy in percent; nan if there is none."""
        values = self.accuracies(dataset, method)
        # Rounded, so that the order of additions cannot break a tie.
        return round(float(values.mean()), 9) if len(values) else math.nan

    def std(self, dataset: str, method: str) -> float:
        """Sample standard deviation in percent; nan for fewer than two trials."""
        values = self.accuracies(dataset, method)
        return float(values.std(ddof=1)) if len(values) > 1 else math.nan

    def means(self, datasets: Sequence[str], methods: Sequence[str]) -> FloatArray:
        """Mean accuracies, one row per data set, one column per method."""
        return np.array(
            [[self.mean(dataset, method) for method in methods] for dataset in datasets]
        )

    def seconds(self, dataset: str, method: str) -> float:
        """Median time of a fit; nan if there is none."""
        trials = self.trials.get((dataset, method), {})
        values = [trial["fit_seconds"] for trial in trials.values() if "fit_seconds" in trial]
        return float(np.median(values)) if values else math.nan


def is_variant(method: str) -> bool:
    """Whether a method is MDaML with other settings, by its name."""
    return method.startswith(f"{OURS}, ")


def read_results(records: Sequence[Record]) -> Results:
    """Arrange records.

    Parameters
    ----------
    records : sequence of dict
        Records of the kinds ``trial``, ``tuning``, ``convergence`` and ``sensitivity``. Records of
        other kinds and unusable ones are left out.

    Returns
    -------
    Results
        Any part but the trials may be empty.

    Raises
    ------
    ValueError
        If there is no usable trial.
    """
    trials: dict[Key, dict[int, Record]] = {}
    tuning: dict[Key, Record] = {}
    convergence: dict[str, Record] = {}
    steps: dict[tuple[str, str, str, float, int], float] = {}
    n_unusable, reason = 0, ""
    for record in records:
        try:
            match record["kind"]:
                case "trial":
                    _check(0 <= record["accuracy"] <= 1, record, "accuracy", _FRACTION)
                    seconds = record.get("fit_seconds", 0.0)
                    _check(0 <= seconds < math.inf, record, "fit_seconds", "zero or more")
                    trials.setdefault(_key(record), {})[int(record["trial"])] = record
                case "tuning":
                    is_table = isinstance(record["params"], Mapping)
                    _check(is_table, record, "params", "a table")
                    tuning[_key(record)] = record
                case "convergence":
                    values = np.asarray(record["objective"], dtype=float)
                    usable = values.ndim == 1 and len(values) > 1 and np.isfinite(values).all()
                    _check(usable, record, "objective", "two or more finite numbers")
                    convergence[str(record["dataset"])] = record
                case "sensitivity":
                    _check(0 <= record["accuracy"] <= 1, record, "accuracy", _FRACTION)
                    line = str(record["dataset"]), str(record["parameter"]), str(record["setting"])
                    step = float(record["value"]), int(record["trial"])
                    steps[line + step] = 100.0 * record["accuracy"]
        except (KeyError, TypeError, ValueError) as error:
            n_unusable += 1
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            reason = reason or f" The first unusable record: {what}."
    if not trials:
        raise ValueError(
            "a report needs records of kind 'trial' with an accuracy, got none among "
            f"{len(records)} records.{reason} Run the experiments first."
        )
    dataset = next(reversed(steps))[0] if steps else ""
    lines: dict[Key, dict[float, list[float]]] = {}
    for (name, parameter, setting, value, _), accuracy in sorted(steps.items()):
        if name == dataset:
            lines.setdefault((parameter, setting), {}).setdefault(value, []).append(accuracy)
    presets = {trial.get("preset") for some in trials.values() for trial in some.values()}
    return Results(trials, tuning, convergence, lines, dataset, "quick" in presets, n_unusable)


@cache
def read_published() -> dict[str, Any]:
    """Return the tables of the paper, by data set and method.

    ``accuracy`` has mean and deviation in percent, ``seconds`` training times, ``bold`` and
    ``bold_seconds`` the entries that the paper prints in bold, and ``sizes`` the numbers of
    features, classes and examples of each data set.
    """
    text = files("mdaml.experiments").joinpath("published.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    accuracy, seconds = tables["accuracy"], tables["seconds"]
    stds = _by_key(accuracy["std"], accuracy["methods"])
    means = _by_key(accuracy["mean"], accuracy["methods"])
    return {
        "accuracy": {key: (mean, stds[key]) for key, mean in means.items()},
        "seconds": _by_key(seconds["time"], seconds["methods"]),
        "bold": {(name, method) for name, row in accuracy["bold"].items() for method in row},
        "bold_seconds": {(name, method) for name, row in seconds["bold"].items() for method in row},
        "sizes": tables["sizes"],
    }


def _by_key(rows: dict[str, list[float]], methods: list[str]) -> dict[Key, float]:
    return {
        (dataset, method): float(value)
        for dataset, values in rows.items()
        for method, value in zip(methods, values, strict=True)
    }


def _arrange(found: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return known names that were found, in their order, then the others as they appear."""
    names = dict.fromkeys(found)
    return (*(name for name in known if name in names), *(n for n in names if n not in known))


def _key(record: Record) -> Key:
    return str(record["dataset"]), str(record["method"])


def _check(is_usable: Any, record: Record, field: str, wanted: str) -> None:
    if not is_usable:
        raise ValueError(f"{field} must be {wanted}, got {record[field]!r}")

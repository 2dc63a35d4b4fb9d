"""What a run recorded, arranged by data set and method; what the paper printed, likewise."""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from mdaml._typing import FloatArray

Record = Mapping[str, Any]
Cell = tuple[str, str]  # data set, method

UCI = (
    *("autompg", "balance", "dna", "german", "letter"),
    *("spambase", "sonar", "segment", "vehicle", "waveform"),
)
IMAGES = ("pubfig", "osr", "caltech20")
CONVERGENCE = ("spambase", "letter", "dna")
PARAMETERS = ("n_modes", "triplet_weight", "eta", "ridge")
SETTINGS = ("paper", "library")

OURS = "MDaML"
PUBLISHED_GRID = "MDaML, published grid"
FIXED = "MDaML, fixed weights"
VARIANTS = ("MDaML, defaults", PUBLISHED_GRID, "MDaML, neighbours", FIXED)
RIVALS = ("EUCLID", "DMLMJ", "GMML", "KISSME", "LMNN", "DML-eig", "LFDA", "DML-dc", "NCA")

_Step = tuple[str, str, str, float, int]  # data set, parameter, setting, value, trial


@dataclass(frozen=True)
class Results:
    """Records that can be used, the last of each kind where a run was repeated.

    Attributes
    ----------
    trials : dict
        Records of a data set and a method by number of the trial.
    tuning : dict
        Record of a data set and a method.
    convergence : dict
        Record of a data set.
    sensitivity : dict
        Accuracies in percent over the trials, by parameter, setting and value.
    sensitivity_dataset : str
        The data set of the latter; of several, the last.
    is_quick : bool
        Whether records come from a quick run, whose grids and trials are too few for results.
    n_unusable : int
        Number of records that lack a field or hold a value that cannot be.
    """

    trials: dict[Cell, dict[int, Record]]
    tuning: dict[Cell, Record]
    convergence: dict[str, Record]
    sensitivity: dict[tuple[str, str], dict[float, list[float]]]
    sensitivity_dataset: str
    is_quick: bool
    n_unusable: int

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets with a trial: those of the paper in its order, then others."""
        return _arrange((dataset for dataset, _ in self.trials), (*UCI, *IMAGES))

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods with a trial: MDaML, its variants, the others in the paper's order."""
        return _arrange((method for _, method in self.trials), (OURS, *VARIANTS, *RIVALS))

    @property
    def compared(self) -> tuple[str, ...]:
        """Methods that are ranked: one entry each, so without variants of MDaML beside MDaML."""
        if OURS not in self.methods:
            return self.methods
        return tuple(method for method in self.methods if not is_variant(method))

    @property
    def variants(self) -> tuple[str, ...]:
        """MDaML and its variants, if there is a variant to compare it with."""
        found = tuple(method for method in self.methods if is_variant(method))
        return (OURS, *found) if found and OURS in self.methods else ()

    def accuracies(self, dataset: str, method: str) -> FloatArray:
        """Accuracies in percent, in the order of the trials; empty if there are none."""
        trials = self.trials.get((dataset, method), {})
        return np.array([100.0 * trials[i]["accuracy"] for i in sorted(trials)])

    def mean(self, dataset: str, method: str) -> float:
        """Mean accuracy in percent; nan if there is none."""
        values = self.accuracies(dataset, method)
        # Rounded so that the order of additions cannot break a tie.
        return round(float(values.mean()), 9) if len(values) else math.nan

    def std(self, dataset: str, method: str) -> float:
        """Sample standard deviation in percent; nan for fewer than two trials."""
        values = self.accuracies(dataset, method)
        return float(values.std(ddof=1)) if len(values) > 1 else math.nan

    def means(self, datasets: Sequence[str], methods: Sequence[str]) -> FloatArray:
        """Mean accuracies, one row a data set, one column a method."""
        return np.array(
            [[self.mean(dataset, method) for method in methods] for dataset in datasets]
        )

    def seconds(self, dataset: str, method: str) -> float:
        """Median time of a fit; nan if there is none."""
        trials = self.trials.get((dataset, method), {})
        values = [trial["fit_seconds"] for trial in trials.values() if "fit_seconds" in trial]
        return float(np.median(values)) if values else math.nan


def is_variant(method: str) -> bool:
    """Whether a method is MDaML with other settings: its name says so."""
    return method.startswith(f"{OURS}, ")


def read_results(records: Sequence[Record]) -> Results:
    """Arrange records.

    Parameters
    ----------
    records : sequence of dict
        Of the kinds ``trial``, ``tuning``, ``convergence`` and ``sensitivity``; other kinds are
        left out, and so are records that cannot be used.

    Returns
    -------
    Results
        Which may lack any part but trials.

    Raises
    ------
    ValueError
        If no trial can be used: without accuracies there is nothing to report.
    """
    trials: dict[Cell, dict[int, Record]] = {}
    tuning: dict[Cell, Record] = {}
    convergence: dict[str, Record] = {}
    steps: dict[_Step, float] = {}
    add: dict[Any, Callable[[Record], None]] = {
        "trial": lambda record: _add_trial(trials, record),
        "tuning": lambda record: _add_tuning(tuning, record),
        "convergence": lambda record: _add_convergence(convergence, record),
        "sensitivity": lambda record: _add_step(steps, record),
    }
    n_unusable, reason = 0, ""
    for record in records:
        try:
            if record["kind"] in add:
                add[record["kind"]](record)
        except (KeyError, TypeError, ValueError) as error:
            n_unusable += 1
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            reason = reason or f" The first one that could not be used: {what}."
    if not trials:
        raise ValueError(
            "a report needs records of kind 'trial' with an accuracy, got none among "
            f"{len(records)} records.{reason} Run the experiments first."
        )
    dataset = next(reversed(steps))[0] if steps else ""
    lines: dict[tuple[str, str], dict[float, list[float]]] = {}
    for (name, parameter, setting, value, _), accuracy in sorted(steps.items()):
        if name == dataset:
            lines.setdefault((parameter, setting), {}).setdefault(value, []).append(accuracy)
    is_quick = any(
        trial.get("preset") == "quick" for some in trials.values() for trial in some.values()
    )
    return Results(trials, tuning, convergence, lines, dataset, is_quick, n_unusable)


@dataclass(frozen=True)
class Published:
    """What the paper printed.

    Attributes
    ----------
    accuracy : dict
        Mean and deviation in percent of a data set and a method.
    seconds : dict
        Training time of a data set and a method.
    bold : set
        Accuracies that the paper prints in bold.
    bold_seconds : set
        Times that the paper prints in bold.
    sizes : dict
        Features, classes and examples of a data set.
    """

    accuracy: dict[Cell, tuple[float, float]]
    seconds: dict[Cell, float]
    bold: frozenset[Cell]
    bold_seconds: frozenset[Cell]
    sizes: dict[str, tuple[int, int, int]]


@cache
def read_published() -> Published:
    """Return the tables of the paper."""
    text = files("mdaml.experiments").joinpath("published.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    accuracy, seconds = tables["accuracy"], tables["seconds"]
    means = _cells(accuracy["mean"], accuracy["methods"])
    stds = _cells(accuracy["std"], accuracy["methods"])
    return Published(
        accuracy={cell: (means[cell], stds[cell]) for cell in means},
        seconds=_cells(seconds["time"], seconds["methods"]),
        bold=_pairs(accuracy["bold"]),
        bold_seconds=_pairs(seconds["bold"]),
        sizes={dataset: tuple(row) for dataset, row in tables["sizes"].items()},
    )


def _cells(rows: dict[str, list[float]], methods: list[str]) -> dict[Cell, float]:
    return {
        (dataset, method): float(value)
        for dataset, values in rows.items()
        for method, value in zip(methods, values, strict=True)
    }


def _pairs(rows: dict[str, list[str]]) -> frozenset[Cell]:
    return frozenset((dataset, method) for dataset, methods in rows.items() for method in methods)


def _arrange(found: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Known names that were found, in their order, then the others in order of appearance."""
    names = dict.fromkeys(found)
    return (*(name for name in known if name in names), *(n for n in names if n not in known))


def _add_trial(trials: dict[Cell, dict[int, Record]], record: Record) -> None:
    _check_share(record["accuracy"])
    if "fit_seconds" in record:
        _check_positive(record["fit_seconds"])
    trials.setdefault(_cell(record), {})[int(record["trial"])] = record


def _add_tuning(tuning: dict[Cell, Record], record: Record) -> None:
    if not isinstance(record["params"], Mapping):
        raise TypeError(f"params must be a table, got {record['params']!r}")
    tuning[_cell(record)] = record


def _add_convergence(convergence: dict[str, Record], record: Record) -> None:
    values = np.asarray(record["objective"], dtype=float)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ValueError(f"objective must be two or more finite numbers, got {values.tolist()}")
    convergence[str(record["dataset"])] = record


def _add_step(steps: dict[_Step, float], record: Record) -> None:
    _check_share(record["accuracy"])
    line = str(record["dataset"]), str(record["parameter"]), str(record["setting"])
    steps[*line, float(record["value"]), int(record["trial"])] = 100.0 * record["accuracy"]


def _cell(record: Record) -> Cell:
    return str(record["dataset"]), str(record["method"])


def _check_share(value: Any) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"accuracy must be a fraction from 0 to 1, got {value!r}")


def _check_positive(value: Any) -> None:
    if not 0.0 <= value < math.inf:
        raise ValueError(f"fit_seconds must be zero or more, got {value!r}")

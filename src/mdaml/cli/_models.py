"""Estimators by name, their parameters as text, and models in files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdaml.cli._columns import Columns
from mdaml.cli._comparisons import Given
from mdaml.cli._options import Method
from mdaml.cli._output import WORK_FAILED, CommandError
from mdaml.cli._screen import blaming_input
from mdaml.cli._tables import Table, check_file

_CLASSES = {
    Method.MDAML: "MDaML",
    Method.MDAMLCV: "MDaMLCV",
    Method.LMNN: "LMNN",
    Method.GMML: "GMML",
    Method.KISSME: "KISSME",
    Method.DML_EIG: "DMLeig",
    Method.DMLMJ: "DMLMJ",
    Method.LFDA: "LFDA",
    Method.DML_DC: "DMLdc",
    Method.EUCLIDEAN: "Euclidean",
}
_LABELS_ONLY = (Method.LMNN, Method.DMLMJ, Method.LFDA, Method.DML_DC)
_OWN = ("callback", "random_state", "device")  # set otherwise, or without use in a file


@dataclass(frozen=True)
class SavedModel:
    """A model from a file, and the names of the columns it was fitted to.

    The names are taken off the model, so that it takes arrays without a warning.
    """

    path: Path
    estimator: Any
    features: tuple[str, ...] | None

    def describe(self) -> str:
        """Return file and class."""
        return f"{self.path}: {type(self.estimator).__name__}"

    def check(self, path: Path, columns: Columns) -> None:
        """Refuse a table of the wrong width; columns are chosen by name where both have names."""
        wanted = self.estimator.n_features_in_
        if len(columns.features) != wanted:
            raise CommandError(
                f"{path} has {len(columns.features)} columns of features, but {self.path} was "
                f"fitted to {wanted}."
            )


def make_estimator(method: Method, params: dict[str, Any], seed: int) -> Any:
    """Return an estimator with these parameters, or refuse unknown ones."""
    import mdaml

    estimator = getattr(mdaml, _CLASSES[method])()
    known = estimator.get_params()
    for name in params:
        if name not in known or name in _OWN:
            names = [other for other in known if other not in _OWN]
            told = f"Its parameters are {', '.join(names)}." if names else "It has none."
            raise CommandError(f"{method} has no parameter {name!r}. {told}")
    seeds = {"random_state": seed} if "random_state" in known else {}
    return estimator.set_params(**params, **seeds)


def parse_params(given: Sequence[str] | None) -> dict[str, Any]:
    """Return parameters from texts like n_modes=3."""
    return {name: _parse(value) for name, value in _split("--param", given)}


def parse_grid(given: Sequence[str] | None) -> dict[str, list[Any]]:
    """Return values to try from texts like n_modes=1,3,10."""
    grid = {}
    for name, values in _split("--grid", given):
        grid[name] = [_parse(value) for value in values.split(",")]
    return grid


def _split(option: str, given: Sequence[str] | None) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in given or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise CommandError(f"{option} {text}: NAME=VALUE is wanted, such as n_modes=3.")
        if name in (other for other, _ in pairs):
            raise CommandError(f"{option} {text}: {name} is there twice.")
        pairs.append((name, value))
    return pairs


def _parse(text: str) -> Any:
    words = {"none": None, "true": True, "false": False}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()


def check_supervision(method: Method, given: bool, labels: str | None) -> None:
    """Refuse what the method cannot learn from, before any file is read."""
    if given and labels is not None:
        raise CommandError("Learn from comparisons or from --labels, not from both.")
    if method in _LABELS_ONLY and given:
        raise CommandError(f"{method} learns from --labels only; mdaml learns from comparisons.")
    if not given and labels is None and method is not Method.EUCLIDEAN:
        what = "--labels COLUMN"
        if method not in _LABELS_ONLY:
            what = f"--triplets FILE, --pairs FILE, --quadruplets FILE or {what}"
        raise CommandError(f"There is nothing to learn from: give {what}.")


def supervise(method: Method, given: Given | None, table: Table) -> dict[str, Any]:
    """Return what to pass to ``fit`` beside X."""
    if given is None:
        return {} if table.labels is None else {"y": table.codes()}
    constraints = given.constraints
    if method is not Method.MDAMLCV:
        return {"constraints": constraints}
    if len(constraints.triplets) < constraints.n_constraints or np.ptp(constraints.weights) > 0:
        raise CommandError(
            "mdamlcv learns from triplets of equal weight; use mdaml search instead."
        )
    return {"triplets": constraints.triplets}


def save_model(model: Any, path: Path, columns: Columns) -> None:
    """Write a model with the names of its columns; what it cannot carry is taken off before."""
    if "callback" in model.get_params():
        model.set_params(callback=None)
    if columns.named:
        for metric in _both(model):
            metric.feature_names_in_ = np.array(columns.features, dtype=object)
    model.save(path)


def load_model(path: Path) -> SavedModel:
    """Read a model, or say why it cannot be one."""
    from mdaml.persistence import load

    check_file(path)
    with blaming_input(WORK_FAILED):
        model = load(path)
    names: tuple[str, ...] | None = None
    for metric in _both(model):
        found = vars(metric).pop("feature_names_in_", None)
        names = names if found is None else tuple(found.tolist())
    return SavedModel(path, model, names)


def _both(model: Any) -> list[Any]:
    """Return the model, and the one that it chose, if it chooses."""
    best = getattr(model, "best_estimator_", None)
    return [model] if best is None else [model, best]


def shown_params(estimator: Any) -> dict[str, Any]:
    """Return the parameters that a user may set."""
    return {n: v for n, v in estimator.get_params().items() if n not in _OWN}

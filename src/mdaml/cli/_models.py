"""Estimators by name, their parameters as text, their scaling, and models in files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mdaml._typing import Params as Params
from mdaml.cli._inputs import KINDS, check_file
from mdaml.cli._options import get_class
from mdaml.cli._screen import WORK_FAILED, CommandError, convert_errors
from mdaml.io.beir import VECTOR_SUFFIXES
from mdaml.io.columns import Table
from mdaml.io.preparation import Preparation
from mdaml.io.sketch import Sketch, find_share, hash_comparisons, hash_rows, make_sketch

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from mdaml.constraints import Constraints

MODEL_SUFFIXES = (".mdaml", ".onnx")
Value: TypeAlias = str | float | bool | None
_HIDDEN = ("callback", "random_state", "device", "verbose")  # set otherwise, or of no use in a file


def make_estimator(method: str, params: Params, seed: int) -> "BaseEstimator":
    """Return an estimator with these parameters, or refuse unknown ones."""
    estimator = get_class(method)()
    known = estimator.get_params()
    for name in params:
        if name not in known or name in _HIDDEN:
            names = ", ".join(get_params(estimator))
            advice = f"Its parameters are {names}." if names else "It has none."
            raise CommandError(f"{method} has no parameter {name!r}. {advice}")
    seeds = {"random_state": seed} if "random_state" in known else {}
    return estimator.set_params(**params, **seeds)


def get_params(estimator: "BaseEstimator") -> Params:
    """Return the parameters that a user may set."""
    return {n: v for n, v in estimator.get_params().items() if n not in _HIDDEN}


def parse_params(given: Sequence[str] | None) -> Params:
    """Return parameters from texts like ``n_modes=3``."""
    return {name: _parse_value(value) for name, value in _split("--param", given).items()}


def parse_grid(given: Sequence[str] | None) -> dict[str, list[Value]]:
    """Return values to try from texts like ``n_modes=1,3,10``."""
    texts = {name: values.split(",") for name, values in _split("--grid", given).items()}
    return {name: [_parse_value(value) for value in values] for name, values in texts.items()}


def _split(option: str, given: Sequence[str] | None) -> dict[str, str]:
    params: dict[str, str] = {}
    for text in given or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise CommandError(f"{option} {text}: NAME=VALUE is wanted, such as n_modes=3.")
        if name in params:
            raise CommandError(f"{option} {text}: {name} is there twice.")
        params[name] = value
    return params


def _parse_value(text: str) -> Value:
    text = text.strip()
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def check_usage(method: str, has_comparisons: bool, labels: str | None) -> None:
    """Refuse what the method cannot learn from, before any file is read."""
    from mdaml.estimators.learners import LabelLearner

    if has_comparisons and labels is not None:
        raise CommandError("Learn from comparisons or from --labels, not from both.")
    labels_only = issubclass(get_class(method), LabelLearner)
    if labels_only and has_comparisons:
        raise CommandError(f"{method} learns from --labels only; mdaml learns from comparisons.")
    if not has_comparisons and labels is None and method != "euclidean":
        what = "--labels COLUMN"
        if not labels_only:
            files = "--triplets FILE, --pairs FILE, --quadruplets FILE, --constraints FILE"
            what = f"{files} or {what}"
        raise CommandError(f"There is nothing to learn from: give {what}.")


def choose_supervision(constraints: "Constraints | None", table: Table) -> Params:
    """Return what to pass to ``fit`` beside X."""
    if constraints is not None:
        return {"constraints": constraints}
    return {} if table.labels is None else {"y": table.encode_labels()}


def save_model(
    model: "BaseEstimator",
    path: Path,
    table: Table,
    compared: "Constraints | None",
    *,
    suffix: str,
    compact: bool,
) -> None:
    """Write a model with what it must know of its table, in the format of a suffix."""
    from mdaml.estimators.folding import list_metrics

    for metric in list_metrics(model):
        if table.is_named:
            metric.feature_names_in_ = np.array(table.features, dtype=object)
        if table.preparation is not None:
            metric.preparation_ = table.preparation.to_dict()
    model.fitted_to_ = _sketch(table, compared)
    with convert_errors(ImportError):
        if suffix.lower() == ".onnx":
            model.to_onnx(path)
        else:
            model.save(path, compact=compact)


def keep_voters(model: "BaseEstimator", table: Table) -> None:
    """Store the labelled rows in a model, as it takes them: their features, prepared."""
    assert table.labels is not None
    known = table.encode_labels() != -1
    model.training_rows_ = {"X": table.X[known], "labels": table.labels[known].astype(str)}


def _sketch(table: Table, compared: "Constraints | None") -> dict[str, Sketch]:
    """Return what tells later which rows and comparisons a model was fitted to."""
    rows = hash_rows(table.X)
    sketches = {"rows": make_sketch(rows)}
    if compared is not None:
        members = {kind: getattr(compared, kind) for kind in KINDS}
        sketches["comparisons"] = make_sketch(hash_comparisons(rows, members))
    return sketches


def describe_origin(
    model: "BaseEstimator", table: Table, compared: "Constraints | None"
) -> dict[str, Params]:
    """Return of rows and comparisons whether the model was fitted to them.

    ``kind`` is "train", "test", "train and test" or "not known", ``share_of_train`` the share.
    """
    sketches, rows = getattr(model, "fitted_to_", {}), hash_rows(table.X)
    scored = {"rows": rows}
    if compared is not None:
        members = {kind: getattr(compared, kind) for kind in KINDS}
        scored["comparisons"] = hash_comparisons(rows, members)
    found = dict[str, Params]()
    for what, hashes in scored.items():
        share = find_share(sketches[what], hashes) if what in sketches else None
        kinds = {None: "not known", 0.0: "test", 1.0: "train"}
        if share is None and sketches and what == "comparisons":
            share = 0.0  # the model was fitted to labels
        found[what] = {"kind": kinds.get(share, "train and test"), "share_of_train": share}
    return found


def load_model(
    path: Path, *, who: str | None = None, kind: int | None = None
) -> "tuple[BaseEstimator, Preparation | None]":
    """Return a model, or its metric of a person or kind, and how to prepare tables for it.

    The preparation is None if the model has none. The names of its features are taken off the
    model, so that it takes arrays without a warning.
    """
    from mdaml.estimators.folding import list_metrics
    from mdaml.persistence import load

    check_file(path)
    with convert_errors(code=WORK_FAILED):
        try:
            model: BaseEstimator = load(path)
        except ValueError:
            if not path.name.lower().endswith(VECTOR_SUFFIXES):
                raise
            text = f"{path} cannot be loaded: it is a table. The model comes first, then its data."
            raise CommandError(text, code=WORK_FAILED) from None
    known = model._preparation() if hasattr(model, "_preparation") else None
    metrics = list_metrics(model)
    names, *_ = (vars(metric).pop("feature_names_in_", None) for metric in metrics)
    for metric in metrics:
        vars(metric).pop("preparation_", None)
    if known is None and names is not None:
        known = Preparation(tuple(names.tolist()))
    return _pick_metric(model, path, who, kind), known


def _pick_metric(
    model: "BaseEstimator", path: Path, who: str | None, kind: int | None
) -> "BaseEstimator":
    """Return the metric of a person or kind, if one is asked for."""
    if who is None and kind is None:
        return model
    if not hasattr(model, "metric_for"):
        raise CommandError(
            f"{path} has one metric for all. --who and --kind are for models of mdaml fit --kinds."
        )
    persons = {str(name): name for name in getattr(model, "persons_", ())}
    if who is not None and who not in persons:
        some = ", ".join(list(persons)[:3])
        raise CommandError(f"{path} knows nobody called {who!r}. It knows {some} and so on.")
    with convert_errors():
        return model.metric_for(None if who is None else persons[who], kind=kind)


def get_labels(labels: str | None, known: Preparation | None) -> str | None:
    """Return the column of labels that was asked for, or the one that the model learned from."""
    return known.label_column if labels is None and known is not None else labels


def check_width(model: "BaseEstimator", path: Path, table: Table) -> None:
    """Refuse a table of the wrong width; columns are chosen by name where both have names."""
    if len(table.features) != model.n_features_in_:
        raise CommandError(
            f"{table.path} has {len(table.features)} columns of features, but {path} was fitted to "
            f"{model.n_features_in_}."
        )

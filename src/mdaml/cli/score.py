"""``mdaml score``: how good a model is on comparisons or labels, beside Euclidean distance."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mdaml._typing import Params
from mdaml.cli import _options as options
from mdaml.cli._inputs import (
    KINDS,
    AnswerFile,
    check_scored,
    choose_columns,
    list_files,
    read_inputs,
    read_labelled,
)
from mdaml.cli._models import check_width, describe_origin, get_labels, load_model
from mdaml.cli._screen import Screen, convert_errors, run_command
from mdaml.io.columns import Table

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from mdaml.constraints import Constraints


NAMES_OF_FORMS: dict[str | None, str] = {
    "odd_one_out": "odd ones that are the farthest",
    "picks": "picks that are among the nearest",
    "rankings": "ranked couples in the right order",
}


def score(
    model: options.Model,
    data: options.Data,
    triplets: options.Triplets = None,
    pairs: options.Pairs = None,
    quadruplets: options.Quadruplets = None,
    constraints: options.Mixed = None,
    answer_columns: options.AnswerColumns = None,
    form: options.AnswerForm = None,
    skip_invalid: options.SkipInvalid = False,
    who: options.Who = None,
    labels: options.Labels = None,
    train: options.Train = None,
    neighbors: options.Votes = 3,
    id_column: options.Id = None,
    drop: options.Drop = None,
    encoding: options.Encoding = None,
    na: options.Na = None,
    duplicates: options.Duplicates = "error",
    as_json: options.Json = False,
) -> None:
    """Score a model on comparisons, labels or both, next to Euclidean distance.

    Scores are too high on data that the model has learned from, and the command says if it has:
    keep some comparisons for this. Labels are those of neighbours among the other rows of DATA, or
    with --train among the rows of that table.
    """
    with run_command(as_json) as screen:
        from sklearn.preprocessing import StandardScaler

        from mdaml.estimators import Euclidean
        from mdaml.estimators.folding import fold_steps

        files = list_files((triplets, pairs, quadruplets, constraints), answer_columns, form)
        screen.document["command"] = "score"
        estimator, known = load_model(model)
        labels = labels if files else get_labels(labels, known)
        check_scored(files, labels)
        screen.add_fact("model", f"{model}: {type(estimator).__name__}", str(model))
        columns = choose_columns(
            id_column, drop, labels, known, encoding=encoding, na=na, duplicates=duplicates
        )
        table, compared = read_inputs(data, columns, files, screen, skip_invalid)
        check_width(estimator, model, table)
        gallery = None
        if train is not None:
            gallery = read_labelled(train, columns, screen)
            check_width(estimator, model, gallery)
        _describe_origin(screen, describe_origin(estimator, table, compared))
        with screen.show_progress("scoring"), screen.collect_warnings(), convert_errors():
            scaler = StandardScaler().fit(table.X)
            metrics = {
                "learned": estimator,
                "euclidean": Euclidean().fit(table.X),
                "standardised": fold_steps(Euclidean().fit(table.X), [scaler]),
            }
            scores = {
                name: {key: measure(metric) for key, metric in metrics.items()}
                for name, measure in _choose_measures(table, compared, gallery, neighbors).items()
            }
            if compared is not None:
                scores |= _score_forms(metrics, table, files, compared, who)
        screen.document["scores"] = scores
        screen.print_facts()
        screen.print()
        rows = [[name, *(f"{v:.4f}" for v in by.values())] for name, by in scores.items()]
        screen.print_table("Scores; 1 is best", ("score", *metrics), rows)


def _describe_origin(screen: Screen, found: dict[str, Params]) -> None:
    """Add whether the model was fitted to what it is scored on."""
    parts = []
    for what, each in found.items():
        share = each["share_of_train"]
        text = {
            "train": "the model was fitted to them, so that scores are too high",
            "test": "the model was not fitted to any of them",
            "not known": "the model does not say whether it was fitted to them",
        }.get(each["kind"], f"the model was fitted to {share or 0:.0%} of them")
        parts.append(f"{what}: {each['kind']} ({text})")
    screen.add_fact("scored on", "; ".join(parts), found)


def _score_forms(
    metrics: "dict[str, BaseEstimator]",
    table: Table,
    files: Sequence[AnswerFile],
    compared: "Constraints",
    who: str | None,
) -> dict[str, dict[str, float]]:
    """Return scores of answers as what they are, each by the metric of who gave it, if known."""
    from mdaml.constraints.forms.turning_back import turn_back
    from mdaml.constraints.persons import column_of
    from mdaml.people import PersonalMetrics

    forms = {file.layout.form for file in files}
    form = forms.pop() if len(forms) == 1 else None
    # Comparisons that came as such are answers too, of interest if persons have their own metrics.
    answers = turn_back(form, compared)
    if answers is None or (form not in NAMES_OF_FORMS and who is None):
        return {}
    method, rows, first = answers
    given = None if who is None else column_of(compared, who)[first]
    scores = {}
    for key, metric in metrics.items():
        by_person = {}
        if given is not None and isinstance(metric, PersonalMetrics):
            by_person = {"who": given}
        scores[key] = float(getattr(metric, method)(table.X, *rows, **by_person))
    name = NAMES_OF_FORMS.get(form, "comparisons")
    return {name if who is None else f"{name}, by who gave them": scores}


def _choose_measures(
    table: Table, compared: "Constraints | None", gallery: Table | None, k: int
) -> "dict[str, Callable[[BaseEstimator], float]]":
    """Return functions of a metric, by what they measure."""
    from mdaml.model_selection import knn_accuracy, pair_auc, triplet_accuracy

    scorers = {
        "triplets": ("triplets that hold", triplet_accuracy),
        "quadruplets": ("quadruplets that hold", triplet_accuracy),
        "pairs": ("pair AUC", pair_auc),
    }
    measures: dict[str, Callable[[BaseEstimator], float]] = {}
    for kind, (name, scorer) in scorers.items():
        if compared is not None and len(getattr(compared, kind)):
            sizes = [len(getattr(compared, each)) for each in KINDS]
            only = compared.select(np.repeat(np.array(KINDS) == kind, sizes))
            measures[name] = partial(scorer, X=table.X, constraints=only)
    if table.labels is not None and gallery is None:
        name = f"{k}-NN accuracy, leave one out"
        measures[name] = partial(knn_accuracy, X=table.X, y=table.encode_labels(), k=k)
    elif table.labels is not None and gallery is not None:
        name = f"{k}-NN accuracy, neighbours in {gallery.path.name}"
        others = (gallery.X, gallery.name_labels())
        y = table.name_labels()
        measures[name] = partial(knn_accuracy, X=table.X, y=y, k=k, gallery=others)
    return measures

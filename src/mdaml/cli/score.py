"""``mdaml score``: how good a model is on comparisons or labels, beside Euclidean distance."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from mdaml.cli._columns import Wanted
from mdaml.cli._comparisons import ComparisonFiles, Given, only
from mdaml.cli._models import load_model
from mdaml.cli._options import (
    ConstraintsOption,
    DataArgument,
    DropOption,
    IdOption,
    JsonOption,
    LabelsOption,
    ModelArgument,
    PairsOption,
    QuadrupletsOption,
    SkipOption,
    TripletsOption,
    split_names,
)
from mdaml.cli._output import CommandError
from mdaml.cli._scaling import Scaling, Unlearned
from mdaml.cli._screen import blaming_input, talking
from mdaml.cli._tables import Table
from mdaml.cli.fit import read_inputs


def score(
    model: ModelArgument,
    data: DataArgument,
    triplets: TripletsOption = None,
    pairs: PairsOption = None,
    quadruplets: QuadrupletsOption = None,
    constraints: ConstraintsOption = None,
    skip_invalid: SkipOption = False,
    labels: LabelsOption = None,
    neighbors: Annotated[
        int, typer.Option("-k", min=1, help="Neighbours that vote for a label.")
    ] = 3,
    id_column: IdOption = None,
    drop: DropOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a model by comparisons, by labels or by both, beside Euclidean distance.

    Scores on what a model has learned from flatter it: keep some comparisons for this.
    """
    files = ComparisonFiles(triplets, pairs, quadruplets, constraints)
    with talking(as_json) as screen:
        if not files and labels is None:
            raise CommandError(
                "There is nothing to score by: give --triplets, --pairs or --labels."
            )
        screen.document["command"] = "score"
        saved = load_model(model)
        screen.tell("model", saved.describe(), str(model))
        wanted = Wanted(id_column, labels, split_names(drop), saved.features)
        table, given = read_inputs(data, wanted, files, screen, skip_invalid)
        saved.check(data, table.columns)
        metrics = {
            "learned": saved.estimator,
            "euclidean": Unlearned(),
            "standardised": Unlearned(Scaling.from_samples(table.X).scale),
        }
        with screen.working("scoring"), blaming_input():
            scores = {
                name: {key: measure(metric) for key, metric in metrics.items()}
                for name, measure in _measures(table, given, neighbors).items()
            }
        screen.document["scores"] = scores
        screen.say_facts()
        screen.say()
        rows = [[name, *(f"{v:.4f}" for v in by.values())] for name, by in scores.items()]
        screen.say_table("Scores; 1 is best", ("score", *metrics), rows)


def _measures(table: Table, given: Given | None, k: int) -> dict[str, Callable[[Any], float]]:
    """Return functions of a metric, by what they measure."""
    from mdaml.model_selection import knn_accuracy, pair_auc, triplet_accuracy

    measures: dict[str, Callable[[Any], float]] = {}
    for kind, name, scorer in (
        ("triplets", "triplets that hold", triplet_accuracy),
        ("quadruplets", "quadruplets that hold", triplet_accuracy),
        ("pairs", "pair AUC", pair_auc),
    ):
        part = None if given is None else only(given.constraints, kind)
        if part is not None and part.n_constraints:
            measures[name] = partial(scorer, X=table.X, constraints=part)
    if table.labels is not None:
        name = f"{k}-NN accuracy, leave one out"
        measures[name] = partial(knn_accuracy, X=table.X, y=table.codes(), k=k)
    return measures

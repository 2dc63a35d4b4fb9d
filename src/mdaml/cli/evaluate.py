"""``mdaml evaluate``: what queries find under a model, beside the vectors as they are."""

from typing import Annotated

import typer

from mdaml.cli import _options as options
from mdaml.cli._models import check_width, load_model
from mdaml.cli._retrieval import (
    Documents,
    DocumentVectors,
    Queries,
    QueryVectors,
    Relevant,
    SkipUnknown,
    print_scores,
    read_search,
)
from mdaml.cli._screen import convert_errors, run_command
from mdaml.cli.adapt import Device


def evaluate(
    model: options.Model,
    queries: Queries,
    documents: Documents,
    relevant: Relevant,
    depths: Annotated[
        list[int] | None,
        typer.Option(
            "-k", min=1, help="How many documents to look at; repeat for more. By default 1, 5, 10."
        ),
    ] = None,
    query_vectors: QueryVectors = None,
    document_vectors: DocumentVectors = None,
    skip_unknown: SkipUnknown = False,
    device: Device = None,
    as_json: options.Json = False,
) -> None:
    """Score a search by relevant pairs: recall, precision, hit rate, MRR, MAP and nDCG.

    MODEL was written by mdaml adapt, or is a metric from mdaml fit. The base is the vectors as they
    are; intervals come from a paired bootstrap over queries. Scores are too high on queries that
    the model has learned from: keep some for this.
    """
    from mdaml.retrieval import retrieval_scores

    with run_command(as_json) as screen:
        screen.document["command"] = "evaluate"
        estimator, _ = load_model(model)
        screen.add_fact("model", f"{model}: {type(estimator).__name__}", str(model))
        files = (queries, documents, relevant)
        asked, stored, pairs = read_search(
            files, (query_vectors, document_vectors), skip_unknown, screen
        )
        check_width(estimator, model, asked)
        with screen.show_progress("searching"), convert_errors(ImportError):
            found = retrieval_scores(
                estimator, asked.X, stored.X, pairs, k=depths or (1, 5, 10), device=device
            )
        screen.print_facts()
        screen.print()
        print_scores(found, asked, screen)

"""``mdaml suggest``: questions whose answers would teach a model most, for other tools."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from mdaml._typing import FloatArray, IntArray
from mdaml.cli import _options as options
from mdaml.cli._inputs import check_file, choose_columns, read_data
from mdaml.cli._models import load_model
from mdaml.cli._screen import CommandError, convert_errors, replace_output, run_command
from mdaml.io.preparation import Preparation
from mdaml.io.writers import write_frame

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from mdaml.ask.items import Items

_DATABASES = (".db", ".sqlite", ".sqlite3")


def suggest(
    model: options.Model,
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ITEMS",
            help="Table of items or folder of images, as for mdaml ask.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write columns a,b,c: .csv or .parquet.")
    ],
    answers: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Answers so far, from mdaml ask or a table of triplets; they are not asked again.",
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="How many questions.")] = 50,
    id_column: options.Id = None,
    drop: options.Drop = None,
    encoding: options.Encoding = None,
    na: options.Na = None,
    duplicates: options.Duplicates = "error",
    features: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Features from another file.")
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """Propose questions such as "is a more like b or like c".

    The most useful question comes first. According to the model, a is nearer to b.
    """
    from mdaml.ask.items import read_items

    inputs, suffixes = (model, items, answers, features), (".csv", ".parquet")
    with run_command() as screen, replace_output(out, suffixes, inputs=inputs) as part:
        estimator, known = load_model(model)
        if not items.is_dir():
            check_file(items)
        with screen.collect_warnings(), convert_errors():
            # Models of mdaml ask know their features alone, and name items as it does.
            is_of_table = known is not None and known.is_named and hasattr(estimator, "fitted_to_")
            if not is_of_table or features is not None or items.is_dir():
                read = read_items(items, id_column=id_column, shown=None, features=features)
                X = _take_features(read, known, estimator.n_features_in_)
                names = list(read.ids)
            else:  # as for mdaml neighbors, with the same ids
                columns = choose_columns(
                    id_column, drop, known=known, encoding=encoding, na=na, duplicates=duplicates
                )
                table = read_data(items, columns)
                X, names = table.X, [table.get_name(row) for row in range(len(table.X))]
            asked = None if answers is None else _read_asked(answers, names)
            found = _suggest(estimator, X, n, asked, seed)
        ids = np.array(names, object)
        from pandas import DataFrame

        write_frame(part, out.suffix.lower(), DataFrame(ids[found], columns=list("abc")))
        screen.print(f"{n} questions: {out}")


def _suggest(
    model: "BaseEstimator", X: FloatArray, n: int, asked: IntArray | None, seed: int
) -> IntArray:
    from mdaml.inspection import suggest_queries

    return suggest_queries(model, X, n, asked=asked, training_rows=False, random_state=seed)


def _take_features(read: "Items", known: Preparation | None, n_wanted: int) -> FloatArray:
    """Return the columns that the model was fitted to, by name if it knows them."""
    if read.X is None:
        raise CommandError("The items have no features: give --features FILE.")
    if known is not None and known.is_named and read.features:
        missing = [name for name in known.columns if name not in read.features]
        if missing:
            raise CommandError(f"The items have no feature {missing[0]!r}, which the model needs.")
        return read.X[:, [read.features.index(name) for name in known.columns]]
    if read.X.shape[1] != n_wanted:
        raise CommandError(f"The model needs {n_wanted} features, but there are {read.X.shape[1]}.")
    return read.X


def _read_asked(answers: str, names: list[str]) -> IntArray | None:
    """Return the triplets that were asked, from a database or a table."""
    from mdaml.constraints import Constraints

    if "://" in answers or Path(answers).suffix.lower() in _DATABASES:
        from mdaml.ask.answers import to_constraints
        from mdaml.ask.storage import Storage, list_studies

        if "://" not in answers:
            check_file(Path(answers))
        asked = []
        for study in list_studies(answers):
            storage = Storage(answers, study)
            asked += storage.answers()
            storage.close()
        supervision = to_constraints(asked, names)
    else:
        check_file(Path(answers))
        supervision = Constraints.read(answers, ids=names)
    return None if supervision is None or not len(supervision.triplets) else supervision.triplets

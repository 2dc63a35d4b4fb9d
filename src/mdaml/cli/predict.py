"""``mdaml predict``: labels of new rows, from their nearest training rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from mdaml.cli import _options as options
from mdaml.cli._help import make_argument
from mdaml.cli._inputs import choose_columns, describe_data, read_data, read_labelled
from mdaml.cli._models import check_width, get_labels, load_model
from mdaml.cli._screen import CommandError, Screen, convert_errors, replace_output, run_command
from mdaml.io.columns import Table
from mdaml.io.writers import write_frame

if TYPE_CHECKING:
    from pandas import DataFrame
    from sklearn.base import BaseEstimator

_SHOWN = 20  # rows


def predict(
    model: options.Model,
    new: Annotated[Path, make_argument("NEW", "Table of rows without labels, like that of fit.")],
    train: options.Train = None,
    labels: options.Labels = None,
    neighbors: options.Votes = 3,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write: .csv or .parquet.")
    ] = None,
    raw: options.Raw = False,
    id_column: options.Id = None,
    drop: options.Drop = None,
    duplicates: options.Duplicates = "error",
    as_json: options.Json = False,
) -> None:
    """Predict labels: the nearest training rows vote, and their shares are the probabilities.

    For example: mdaml predict model.mdaml new.csv --train items.csv --out labels.csv
    """
    with run_command(as_json) as screen:
        if train is None:
            raise CommandError("Whose labels? Pass --train FILE, such as the table of mdaml fit.")
        estimator, known = load_model(model)
        column = get_labels(labels, known)
        gallery = read_labelled(
            train, choose_columns(id_column, drop, column, known, duplicates=duplicates), screen
        )
        table = read_data(new, choose_columns(id_column, drop, known=known, duplicates=duplicates))
        for each in (gallery, table):
            check_width(estimator, model, each)
        with screen.show_progress("searching"), convert_errors():
            frame = _vote(estimator, gallery, table, neighbors)
        if out is not None:
            inputs = (model, new, train, id_column)
            with replace_output(out, (".csv", ".parquet"), inputs=inputs) as part:
                write_frame(part, out.suffix.lower(), frame, raw=raw)
            screen.print(f"{len(frame)} rows: {out}")
        else:
            _print(screen, frame)
        screen.document = {
            "command": "predict",
            "data": describe_data(table),
            "train": describe_data(gallery),
            "out": None if out is None else str(out),
            "predictions": frame.to_dict("records"),
        }


def _vote(model: "BaseEstimator", gallery: Table, table: Table, k: int) -> "DataFrame":
    """Return the label of each row, its probability, and the probabilities of all labels."""
    from pandas import DataFrame
    from sklearn.neighbors import KNeighborsClassifier

    known = gallery.encode_labels() != -1
    if not known.any():
        raise ValueError(f"{gallery.path}: no row has a label.")
    assert gallery.labels is not None
    voters = KNeighborsClassifier(min(k, int(known.sum())))
    voters.fit(model.transform(gallery.X[known]), gallery.labels[known].astype(str))
    shares = voters.predict_proba(model.transform(table.X))
    names = [table.get_name(row) for row in range(len(table.X))]
    best = shares.argmax(axis=1)
    each = {f"p({name})": shares[:, n] for n, name in enumerate(voters.classes_)}
    own = {"id": names, "label": voters.classes_[best], "probability": np.max(shares, axis=1)}
    return DataFrame(own | each)


def _print(screen: Screen, frame: "DataFrame") -> None:
    rows = frame if not screen.console.is_terminal else frame.head(_SHOWN)
    cells = [[f"{v:.4f}" if isinstance(v, float) else v for v in row] for row in rows.to_numpy()]
    screen.print_table(f"Labels of {len(frame)} rows", list(frame.columns), cells)
    if len(rows) < len(frame):
        screen.print(f"({len(frame) - len(rows)} more; --out FILE writes all)")

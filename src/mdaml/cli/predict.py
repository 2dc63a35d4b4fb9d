"""``mdaml predict``: labels of new rows, from their nearest training rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import numpy as np
import typer

from mdaml._typing import Array, FloatArray
from mdaml._validation import check_mapped, warn
from mdaml.cli import _options as options
from mdaml.cli._help import make_argument
from mdaml.cli._inputs import (
    choose_columns,
    describe_changes,
    describe_data,
    read_data,
    read_labelled,
)
from mdaml.cli._models import check_width, get_labels, load_model
from mdaml.cli._screen import CommandError, Screen, convert_errors, replace_output, run_command
from mdaml.io.columns import Table
from mdaml.io.writers import write_frame

if TYPE_CHECKING:
    from pandas import DataFrame
    from sklearn.base import BaseEstimator

_SHOWN = 20  # rows
_Labelled: TypeAlias = tuple[FloatArray, Array]


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
    encoding: options.Encoding = None,
    na: options.Na = None,
    duplicates: options.Duplicates = "error",
    as_json: options.Json = False,
) -> None:
    """Predict labels: the nearest training rows vote, and their shares are the probabilities.

    For example: mdaml predict model.mdaml new.csv --train items.csv --out labels.csv
    A model of mdaml fit --keep-rows holds the training rows, and needs no --train.
    """
    with run_command(as_json) as screen:
        estimator, known = load_model(model)
        columns = choose_columns(
            id_column, drop, known=known, encoding=encoding, na=na, duplicates=duplicates
        )
        if train is None:
            rows, told = _get_stored(estimator, model)
        else:
            labelled = columns | {"label_column": get_labels(labels, known)}
            gallery = read_labelled(train, labelled, screen)
            check_width(estimator, model, gallery)
            rows, told = _get_labelled(gallery), describe_data(gallery)
        with screen.collect_warnings():
            table = read_data(new, columns)
        check_width(estimator, model, table)
        with screen.show_progress("searching"), convert_errors():
            frame = _vote(estimator, rows, table, neighbors)
        if table.changes:
            # Not a line of the output, which programs read.
            with screen.collect_warnings():
                changes = describe_changes(table.changes)
                warn(f"{new} was prepared as the training rows were: {changes}.")
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
            "train": told,
            "prepared": dict(table.changes),
            "out": None if out is None else str(out),
            "predictions": frame.to_dict("records"),
        }


def _get_stored(model: "BaseEstimator", path: Path) -> tuple[_Labelled, dict[str, object]]:
    """Return the labelled rows that a model holds, and what the document says of them."""
    stored = getattr(model, "training_rows_", None)
    if stored is None:
        raise CommandError(
            f"{path} holds no labelled rows to look for neighbours in. Pass --train FILE, such as "
            "the table of mdaml fit; with mdaml fit --keep-rows the model holds them."
        )
    return (stored["X"], stored["labels"]), {"file": str(path), "rows": len(stored["X"])}


def _get_labelled(table: Table) -> _Labelled:
    """Return the rows of a table that have a label, and their labels."""
    assert table.labels is not None
    known = table.encode_labels() != -1
    if not known.any():
        raise CommandError(f"{table.path}: no row has a label.")
    return table.X[known], table.labels[known].astype(str)


def _vote(model: "BaseEstimator", rows: _Labelled, table: Table, k: int) -> "DataFrame":
    """Return the label of each row, its probability, and the probabilities of all labels."""
    from pandas import DataFrame
    from sklearn.neighbors import KNeighborsClassifier

    X, labels = rows
    if k > len(X):
        raise ValueError(f"-k {k}: only {len(X)} training rows have a label.")
    known, new = model.transform(X), model.transform(table.X)
    for mapped in (known, new):
        check_mapped(mapped)
    voters = KNeighborsClassifier(k).fit(known, labels.astype(str))
    shares = voters.predict_proba(new)
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

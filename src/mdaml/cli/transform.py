"""``mdaml transform``: vectors to vectors whose Euclidean distance is the learned one."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer

from mdaml.cli import _options as options
from mdaml.cli._inputs import check_file, choose_columns, describe_changes, name_problems
from mdaml.cli._models import check_width, load_model
from mdaml.cli._screen import CommandError, replace_output, run_command
from mdaml.io.columns import Table
from mdaml.io.tables import read_blocks, slice_rows
from mdaml.io.writers import SUFFIXES, write_blocks

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def transform(
    model: options.Model,
    data: options.Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Where to write: .csv, .parquet and .feather keep the id column, .npy does not.",
            show_default=False,
        ),
    ],
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        typer.Option(
            metavar="float32|float64", help="Precision of the numbers; by default that of the data."
        ),
    ] = None,
    who: options.Person = None,
    kind: options.Kind = None,
    raw: options.Raw = False,
    id_column: options.Id = None,
    drop: options.Drop = None,
    encoding: options.Encoding = None,
    na: options.Na = None,
    as_json: options.Json = False,
) -> None:
    """Map vectors so that Euclidean distance between them is the learned distance.

    Files are read and written in blocks: they may be larger than memory.
    """
    with run_command(as_json) as screen:
        estimator, known = load_model(model, who=who, kind=kind)
        check_file(data)
        blocks = read_blocks(
            data, **choose_columns(id_column, drop, known=known, encoding=encoding, na=na)
        )
        changes = Counter[str]()
        mapped = _map_blocks(estimator, model, blocks, dtype, changes)
        progress = screen.show_progress(f"transforming {data}")
        inputs = (model, data, id_column)
        told = screen.collect_warnings()
        with replace_output(out, SUFFIXES, inputs=inputs) as part, name_problems(), progress, told:
            n_rows = write_blocks(part, out.suffix.lower(), mapped, raw=raw)
        names = list(estimator.get_feature_names_out())
        also = f"; {describe_changes(changes)}" if changes else ""
        screen.print(f"{n_rows} rows of {len(names)} numbers: {out}{also}")
        screen.document = {
            "command": "transform",
            "out": str(out),
            "rows": n_rows,
            "columns": names,
            "prepared": dict(changes),
        }


def _map_blocks(
    estimator: "BaseEstimator",
    model: Path,
    blocks: Iterable[Table],
    dtype: str | None,
    changes: Counter[str],
) -> Iterator[Table]:
    """Yield mapped rows, few enough at a time for a memory map that is larger than memory.

    What had to be done about empty cells and unknown categories is added to `changes`.
    """
    names = tuple(map(str, estimator.get_feature_names_out()))
    for block in blocks:
        check_width(estimator, model, block)
        changes.update(block.changes)
        for rows in slice_rows(*block.X.shape):
            Y = estimator.transform(block.X[rows])
            if dtype is not None:
                with np.errstate(over="ignore"):
                    Y = Y.astype(dtype, copy=False)
            if not np.isfinite(Y).all():
                raise CommandError("Mapped rows exceed this precision. Pass --dtype float64.")
            ids = None if block.ids is None else block.ids[rows]
            yield replace(block, X=Y, features=names, ids=ids)

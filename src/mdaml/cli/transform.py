"""``mdaml transform``: vectors to vectors whose Euclidean distance is the learned one."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from mdaml.cli._columns import Block, Source, Wanted
from mdaml.cli._models import SavedModel, load_model
from mdaml.cli._options import (
    DataArgument,
    DropOption,
    IdOption,
    JsonOption,
    ModelArgument,
    split_names,
)
from mdaml.cli._output import CommandError, staging
from mdaml.cli._screen import Screen, blaming_input, talking
from mdaml.cli._tables import SUFFIXES, open_table, row_slices
from mdaml.cli._writers import open_writer


class Precision(StrEnum):
    """Numbers that are written."""

    SINGLE = "float32"
    DOUBLE = "float64"


def transform(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Where to write: .csv and .parquet keep the id column, .npy has numbers only.",
            show_default=False,
        ),
    ],
    dtype: Annotated[
        Precision | None,
        typer.Option(help="Precision of the numbers; by default that of the data."),
    ] = None,
    id_column: IdOption = None,
    drop: DropOption = None,
    as_json: JsonOption = False,
) -> None:
    """Map vectors so that Euclidean distance between them is the learned distance.

    Files are read and written in blocks: they may be larger than memory.
    """
    with talking(as_json) as screen:
        if out.resolve() == data.resolve():
            raise CommandError(f"--out: {out} is the data itself. Choose another name.")
        saved = load_model(model)
        source = open_table(data, Wanted(id_column, None, split_names(drop), saved.features))
        saved.check(data, source.columns)
        with staging(out, SUFFIXES) as temporary:
            n_rows = _transform(saved, source, temporary, out.suffix.lower(), dtype, screen)
        n_columns = len(saved.estimator.components_)
        screen.say(f"{n_rows} rows of {n_columns} numbers: {out}")
        screen.document = {
            "command": "transform",
            "out": str(out),
            "rows": n_rows,
            "columns": list(saved.estimator.get_feature_names_out()),
        }


def _transform(
    saved: SavedModel,
    source: Source,
    path: Path,
    suffix: str,
    dtype: Precision | None,
    screen: Screen,
) -> int:
    """Write all rows, block by block, and return how many."""
    names = [str(name) for name in saved.estimator.get_feature_names_out()]
    n_rows = 0
    with screen.working(f"transforming {source.path}"), open_writer(path, suffix, names) as writer:
        for block in source.blocks():
            id_name = (source.columns.id or "id") if source.columns.named else "id"
            for ids, Y in _mapped(saved.estimator, block, dtype):
                writer.add(Y, id_name if ids is not None else None, ids)
                n_rows += len(Y)
    return n_rows


def _mapped(model: Any, block: Block, dtype: Precision | None) -> Any:
    """Yield ids and mapped rows, few enough at a time for a map that stays on disk."""
    for rows in row_slices(*block.X.shape):
        with blaming_input():
            Y = model.transform(block.X[rows])
        if dtype is not None:
            with np.errstate(over="ignore"):
                Y = Y.astype(dtype.value, copy=False)
        if not np.isfinite(Y).all():
            raise CommandError("Mapped rows exceed this precision. Say --dtype float64.")
        yield None if block.ids is None else block.ids[rows], Y

"""Tables of numbers written to CSV, Parquet, Feather and NPY files."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import numpy as np

from mdaml.io.columns import Table
from mdaml.io.texts import ArrowBatch, load_arrow

if TYPE_CHECKING:
    from pandas import DataFrame

Cell = TypeVar("Cell")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
SUFFIXES = (".csv", ".parquet", ".feather", ".npy")
_NEEDS_QUOTES = re.compile(r'[",\r\n]')


def write_blocks(path: Path, suffix: str, blocks: Iterable[Table], *, raw: bool = False) -> int:
    """Write tables one below the other, in the format of a suffix; return the number of rows.

    Numbers in CSV files are written such that reading them gives the same numbers, ids so that no
    spreadsheet runs them, unless ``raw``. Ids have no place in NPY files.
    """
    if suffix == ".csv" and not raw:
        blocks = map(_disarm_block, blocks)
    write: dict[str, Callable[[BinaryIO, Iterator[Table]], None]] = {
        ".csv": _write_csv,
        ".parquet": partial(_write_batches, suffix),
        ".feather": partial(_write_batches, suffix),
        ".npy": _write_npy,
    }
    n_rows = 0

    def count() -> Iterator[Table]:
        nonlocal n_rows
        for block in blocks:
            yield block
            n_rows += len(block.X)

    with path.open("wb") as file:
        write[suffix](file, count())
    return n_rows


def write_frame(path: Path, suffix: str, frame: "DataFrame", *, raw: bool = False) -> None:
    """Write a data frame without its index, as CSV or Parquet; ``raw`` as in `write_blocks`."""
    if suffix == ".csv":
        frame = frame if raw else frame.map(disarm)
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False, engine="pyarrow")


def disarm(cell: Cell) -> Cell | str:
    """Return a text that a spreadsheet would take for a formula with a ' in front; all else as is.

    Examples
    --------
    >>> from mdaml.io.writers import disarm
    >>> [disarm(cell) for cell in ("=1+1", "-12", "cat")]
    ["'=1+1", '-12', 'cat']
    """
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)  # a number is none
    except ValueError:
        return f"'{cell}"
    return cell


def _disarm_block(block: Table) -> Table:
    ids = block.ids
    if ids is not None and any(text.startswith(_FORMULA) for text in ids):
        ids = np.array([disarm(text) for text in ids], dtype=object)
    return replace(block, ids=ids, id_column=disarm(block.id_column))


def _write_csv(file: BinaryIO, blocks: Iterator[Table]) -> None:
    arrow = load_arrow()
    for n, block in enumerate(blocks):
        batch = _to_batch(block)
        if n == 0:
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow(batch.schema.names)
            file.write(header.getvalue().encode())
        # Arrow quotes all texts or none.
        quoted = block.ids is not None and any(map(_NEEDS_QUOTES.search, block.ids))
        style = "needed" if quoted else "none"
        options = arrow.csv.WriteOptions(include_header=False, quoting_style=style)
        arrow.csv.write_csv(batch, file, options)


def _write_batches(suffix: str, file: BinaryIO, blocks: Iterator[Table]) -> None:
    """Write Parquet, or Feather, which is a file of Arrow batches."""
    arrow, batches = load_arrow(), map(_to_batch, blocks)
    first = next(batches)
    open_writer = arrow.ipc.new_file if suffix == ".feather" else arrow.parquet.ParquetWriter
    with open_writer(file, first.schema) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)


def _write_npy(file: BinaryIO, blocks: Iterator[Table]) -> None:
    n_rows = 0
    for block in blocks:
        if n_rows == 0:
            _write_npy_header(file, block, 0)
        file.write(np.ascontiguousarray(block.X).data)
        n_rows += len(block.X)
    # NumPy leaves room for the first dimension to grow: all headers have the same length.
    file.seek(0)
    _write_npy_header(file, block, n_rows)


def _write_npy_header(file: BinaryIO, block: Table, n_rows: int) -> None:
    descr = np.lib.format.dtype_to_descr(block.X.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": (n_rows, block.X.shape[1])}
    np.lib.format.write_array_header_1_0(file, header)


def _to_batch(block: Table) -> ArrowBatch:
    arrow = load_arrow()
    names = list(block.features)
    columns = [arrow.array(np.ascontiguousarray(column)) for column in block.X.T]
    if block.ids is not None:
        names.insert(0, (block.id_column if block.is_named else None) or "id")
        columns.insert(0, arrow.array(block.ids, arrow.string()))
    return arrow.RecordBatch.from_arrays(columns, names)

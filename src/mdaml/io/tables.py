"""Tables of numbers in files, with ids and labels, whole or in blocks.

Messages name the options of the command line, by which people choose the columns.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray
from mdaml.io.formats import TEXT_SUFFIXES, TextFormat, copy_sheet, detect_format, get_suffix
from mdaml.io.texts import (
    BLOCK_ROWS,
    TABLE_SUFFIXES,
    Texts,
    check_suffix,
    load_arrow,
    open_columns,
    read_records,
    to_texts,
)

SUFFIXES = (*TABLE_SUFFIXES, ".npy")
_BLOCK_BYTES = 8 << 20  # of a CSV file, parsed at a time
# Data frames write their index like this; it is never a feature.
_INDEX = re.compile(r"|__index_level_\d+__")


@dataclass(frozen=True)
class Table:
    """Rows of a file: finite numbers, with ids and labels as text where there are any.

    Attributes
    ----------
    path : Path
        The file.
    X : array of shape (n_rows, n_features)
        Of a whole NPY file of floats a memory map.
    features : tuple of str
        Names of the columns of X.
    id_column, label_column : str or None
        Where ids and labels come from: a column, or with NPY another file.
    is_named : bool
        Whether the names of the features are the file's own.
    ids : array of str of shape (n_rows,) or None
        Distinct in a whole table.
    labels : array of str of shape (n_rows,) or None
        Empty where a row has no label.
    """

    path: Path
    X: FloatArray
    features: tuple[str, ...]
    id_column: str | None = None
    label_column: str | None = None
    is_named: bool = True
    ids: Texts | None = None
    labels: Texts | None = None

    def get_name(self, row: int) -> str:
        """Return the id of a row, or its number."""
        return str(row if self.ids is None else self.ids[row])

    def describe_names(self) -> str:
        """Return a sentence on how rows are named."""
        if self.ids is None:
            n = len(self.X)
            return f"The rows of {self.path} are numbered 0 to {n - 1}; --id names a column of ids."
        shown = ", ".join(map(repr, self.ids[:3].tolist()))
        return f"The ids of {self.path} are such as {shown}."

    def find_rows(self, names: Sequence[str]) -> list[int]:
        """Return the rows with these ids, or with these numbers where there are no ids."""
        known = map(str, range(len(self.X))) if self.ids is None else self.ids.tolist()
        wanted = set(names)
        rows = {name: row for row, name in enumerate(known) if name in wanted}
        unknown = [name for name in names if name not in rows]
        if unknown:
            kind = "row" if self.ids is None else "id"
            raise ValueError(f"There is no {kind} {unknown[0]!r}. {self.describe_names()}")
        return [rows[name] for name in names]

    def encode_labels(self) -> npt.NDArray[np.int64]:
        """Return the labels as integers, -1 for rows without a label.

        Labels that are integers keep their value; others are numbered in alphabetical order.
        """
        assert self.labels is not None
        known = (self.labels != "") & (self.labels != "-1")
        values = self.labels[known].tolist()
        codes = np.full(len(self.labels), -1)
        try:
            codes[known] = [int(value) for value in values]
        except (ValueError, OverflowError):
            codes[known] = np.unique(np.array(values, str), return_inverse=True)[1]
        return codes


def read_table(path: Path, **columns: Any) -> Table:
    """Read a whole table, with the options of :func:`read_blocks`; ids must be distinct."""
    blocks: list[Any] = list(read_blocks(path, **columns))
    is_mapped = isinstance(blocks[0].X, np.memmap)
    X = _map_npy(path) if is_mapped else np.concatenate([block.X for block in blocks])
    ids = None if blocks[0].ids is None else np.concatenate([b.ids for b in blocks])
    labels = None if blocks[0].labels is None else np.concatenate([b.labels for b in blocks])
    first: dict[str, int] = {}
    for row, name in enumerate([] if ids is None else ids.tolist()):
        if first.setdefault(name, row) != row:
            raise ValueError(
                f"{_locate(path, row)}: the id {name!r} was there before, at "
                f"{_locate(path, first[name])}. Ids must differ."
            )
    return replace(blocks[0], X=X, ids=ids, labels=labels)


def read_blocks(
    path: Path,
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    drop: Sequence[str] = (),
    features: Sequence[str] | None = None,
) -> Iterator[Table]:
    """Read a table in blocks of rows; refuse the file with the place of what is wrong.

    Parameters
    ----------
    path : Path
        Text with a header, unless all its cells are numbers: commas, semicolons or tabs, UTF-8 or
        UTF-16, also compressed by gzip; the first sheet of an Excel file; a Parquet or Feather
        file; or an NPY file with a matrix.
    id_column, label_column : str or None
        Columns of ids and labels, with NPY other NPY files. None: ids are in a column that is
        called id in some spelling or in the index of a data frame, if there is one; no labels.
    drop : sequence of str
        Columns to leave out.
    features : sequence of str or None
        Columns of X, in their order, if the file has names. None: all that are left.

    Yields
    ------
    block : Table
    """
    read = {".parquet": _read_columns, ".feather": _read_columns, ".npy": _read_npy}
    suffix = check_suffix(path, SUFFIXES)
    columns = {"id_column": id_column, "label_column": label_column, "drop": drop}
    yield from read.get(suffix, _read_lines)(path, columns | {"features": features})


def _choose_columns(path: Path, names: Sequence[str], columns: Mapping[str, Any]) -> Table:
    """Return a table without rows, or refuse columns that do not fit."""
    id_column, label_column = columns["id_column"], columns["label_column"]
    drop, features = columns["drop"], columns["features"]
    known = Counter(names)
    repeated = [name for name, n_times in known.items() if n_times > 1]
    if repeated:
        raise ValueError(f"{path}: the column {repeated[0]!r} is there twice. Rename one.")
    wanted = [(id_column, "--id"), (label_column, "--labels"), *((name, "--drop") for name in drop)]
    wanted = [(name, f"{option} {name}") for name, option in wanted if name is not None]
    wanted += [(name, "a feature of the model") for name in features or ()]
    for name, what in wanted:
        if name not in known:
            shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
            raise ValueError(
                f"{path}: there is no column {name!r} ({what}). Its columns are {shown}."
            )
    if id_column is None:
        used = {label_column, *drop, *(features or ())}
        free = [name for name in names if name not in used]
        called_id = [name for name in free if name.lower() == "id"]
        id_column = next(chain(called_id, filter(_INDEX.fullmatch, free)), None)
    if features is None:
        others = {id_column, label_column, *drop}
        features = [n for n in names if n not in others and not _INDEX.fullmatch(n)]
    if not features:
        raise ValueError(f"{path}: there is no column left that could be a feature.")
    return Table(path, np.empty((0, len(features))), tuple(features), id_column, label_column)


def _locate(path: Path, row: int) -> str:
    """Return file and line of a row; only lines of text files and sheets are numbered from 1."""
    if get_suffix(path, (*TEXT_SUFFIXES, ".xlsx")):
        form = _detect(path)
        _, n_skipped, _ = _read_head(path, form)
        lines = (line for line, _ in read_records(path, form) if line > n_skipped)
        return f"{path}:{next(line for n, line in enumerate(lines) if n == row)}"
    return f"{path}: row {row} (from 0)"


def _to_block(table: Table, batch: Any, *, trim: bool = False) -> Table:
    """Return rows as Arrow holds them, NaN and empty texts where there is nothing."""
    X = np.empty((batch.num_rows, len(table.features)))
    for place, name in enumerate(table.features):
        column = batch.column(name).cast("float64", safe=False)
        X[:, place] = column.to_numpy(zero_copy_only=False)
    ids, labels = (
        None if name is None else to_texts(table.path, batch, name, trim=trim)
        for name in (table.id_column, table.label_column)
    )
    return replace(table, X=X, ids=ids, labels=labels)


def _check_block(block: Table, n_before: int) -> None:
    """Refuse missing and infinite numbers, and missing ids."""
    if not np.isfinite(block.X).all():
        row, place = np.argwhere(~np.isfinite(block.X))[0].tolist()
        value = block.X[row, place]
        what = "is missing" if np.isnan(value) else f"is {value}, not finite"
        what = f"column {block.features[place]!r} {what}"
    elif block.ids is not None and not all(block.ids):
        row = block.ids.tolist().index("")
        what = f"the id, column {block.id_column!r}, is missing"
    else:
        return
    raise ValueError(f"{block.path}: row {n_before + row} (from 0): {what}.")


def _detect(path: Path) -> TextFormat:
    """Return the format of a text file, or that of the copy of a sheet."""
    if get_suffix(path, (".xlsx",)):
        return TextFormat("utf-8-sig", is_gzip=False, delimiter=",", decimal=".")
    return detect_format(path)


def _read_lines(path: Path, columns: Mapping[str, Any]) -> Iterator[Table]:
    """Read with Arrow, and once more line by line if something is wrong."""
    form = _detect(path)
    names, n_skipped, is_header = _read_head(path, form)
    if not is_header:
        columns = {**columns, "features": None}
    table = replace(_choose_columns(path, names, columns), is_named=is_header)
    n_rows = 0
    try:
        for batch in _open_csv(table, form, names, n_skipped):
            if batch.num_rows:
                block = _to_block(table, batch, trim=True)
                _check_block(block, n_rows)
                n_rows += batch.num_rows
                yield block
    except ValueError as error:  # errors of Arrow are ValueErrors too
        if "Empty CSV file" not in str(error):
            by_name = columns["features"] is not None
            fault = _find_fault(table, form, names, n_skipped, by_name=by_name)
            raise ValueError(fault or f"{path}: it cannot be read: {error}") from None
    if n_rows == 0:
        raise ValueError(f"{path}: there is a header, but no row under it.")


def _open_csv(table: Table, form: TextFormat, names: Sequence[str], n_skipped: int) -> Any:
    """Return Arrow's batches of the rows of a text file or sheet."""
    arrow = load_arrow()
    is_sheet = get_suffix(table.path, (".xlsx",))
    compression = "gzip" if form.is_gzip else None
    source = arrow.input_stream(
        copy_sheet(table.path) if is_sheet else str(table.path), compression=compression
    )
    texts = [name for name in (table.id_column, table.label_column) if name is not None]
    types = dict.fromkeys(table.features, "float64") | dict.fromkeys(texts, "string")
    return arrow.csv.open_csv(
        source,
        arrow.csv.ReadOptions(
            column_names=names,
            skip_rows=min(1, n_skipped) if is_sheet else n_skipped,
            block_size=_BLOCK_BYTES,
            encoding="utf8" if form.encoding == "utf-8-sig" else form.encoding,
        ),
        arrow.csv.ParseOptions(delimiter=form.delimiter),
        arrow.csv.ConvertOptions(
            column_types=types, include_columns=list(types), decimal_point=form.decimal
        ),
    )


def _read_head(path: Path, form: TextFormat) -> tuple[tuple[str, ...], int, bool]:
    """Return names of columns, the lines before the first row, and whether one is a header."""
    line, cells = next(read_records(path, form), (0, []))
    cells = [cell.strip() for cell in cells]
    if not cells:
        raise ValueError(f"{path}: the file is empty.")
    # Data frames without names write 0,1,2,... for a header.
    numbered = len(cells) > 1 and cells == [str(n) for n in range(len(cells))]
    if all(_is_finite(cell, form) for cell in cells) and not numbered:
        return tuple(f"x{n}" for n in range(len(cells))), line - 1, False
    unnamed = [place for place, cell in enumerate(cells) if not cell and place]
    if unnamed:
        message = f"{path}:{line}: column {unnamed[0] + 1} of the header has no name. Name it."
        raise ValueError(message)
    return tuple(cells), line, True


def _find_fault(
    table: Table, form: TextFormat, names: Sequence[str], n_skipped: int, *, by_name: bool
) -> str | None:
    """Return what is wrong with the first line that is wrong, and where."""
    path, id_column = table.path, table.id_column
    first = None
    for line, row in read_records(path, form):
        if line <= n_skipped:
            continue
        if len(row) != len(names):
            n = "1 cell" if len(row) == 1 else f"{len(row)} cells"
            return f"{path}:{line}: {n}, but {len(names)} are wanted."
        cells = dict(zip(names, map(str.strip, row), strict=True))
        first = first or cells
        for name in table.features:
            if not _is_finite(cells[name], form):
                advice = "" if by_name else _advise(names, name, first[name], form)
                return f"{path}:{line}: column {name!r} {_describe_cell(cells[name])}.{advice}"
        if id_column is not None and not cells[id_column]:
            return f"{path}:{line}: the id, column {id_column!r}, is empty."
    return None


def _advise(names: Sequence[str], name: str, first: str, form: TextFormat) -> str:
    """Return advice on a column that holds no numbers, rather than one wrong number."""
    if _is_finite(first, form) or not first:
        return ""
    advice = f" If it names the rows, pass --id {name}; if it is their class, --labels {name}; "
    advice += f"--drop {name} leaves it out."
    if any(_is_finite(each, form) for each in names):
        advice += " Line 1 is taken for the header; if it is none, add one."
    return advice


def _describe_cell(cell: str) -> str:
    if not cell:
        return "is empty"
    if cell.lower() in {"na", "n/a", "nan", "null", "none"}:
        return f"is {cell!r}: fill in what is missing, or leave the row out"
    return f"holds {cell!r}, not a finite number"


def _is_finite(cell: str, form: TextFormat) -> bool:
    if form.decimal == ",":
        cell = cell.replace(".", "_").replace(",", ".")
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def _read_columns(path: Path, columns: Mapping[str, Any]) -> Iterator[Table]:
    types = load_arrow().types
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    with open_columns(path) as (schema, iterate):
        table = _choose_columns(path, schema.names, columns)
        for name in table.features:
            kind = schema.field(name).type
            if not any(is_kind(kind) for is_kind in numbers):
                advice = f" Pass --id {name}, --labels {name} or --drop {name}."
                advice = advice if columns["features"] is None else ""
                raise ValueError(f"{path}: column {name!r} holds {kind}, not numbers.{advice}")
        used = {*table.features, table.id_column, table.label_column}
        n_rows = 0
        for batch in iterate([name for name in used if name is not None]):
            block = _to_block(table, batch)
            _check_block(block, n_rows)
            n_rows += batch.num_rows
            yield block
        if n_rows == 0:
            raise ValueError(f"{path}: there are columns, but no row.")


def _read_npy(path: Path, columns: Mapping[str, Any]) -> Iterator[Table]:
    if columns["drop"]:
        raise ValueError(f"{path}: --drop is for tables with named columns, not for NPY files.")
    array = _map_npy(path)
    if array.ndim != 2 or array.dtype.kind not in "fiub" or 0 in array.shape:
        raise ValueError(
            f"{path}: it must hold numbers of shape (rows, features); got {array.dtype} of shape "
            f"{array.shape}."
        )
    id_file, label_file = columns["id_column"], columns["label_column"]
    ids = _read_npy_texts(array, path, "--id", id_file)
    labels = _read_npy_texts(array, path, "--labels", label_file)
    names = tuple(f"x{n}" for n in range(array.shape[1]))
    is_float = array.dtype in (np.float32, np.float64)
    for start in range(0, len(array), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        X = array[rows] if is_float else np.array(array[rows], np.float64)
        few_ids, few_labels = (None if part is None else part[rows] for part in (ids, labels))
        block = Table(path, X, names, id_file, label_file, False, few_ids, few_labels)
        _check_block(block, start)
        yield block


def _read_npy_texts(array: Texts, path: Path, option: str, name: str | None) -> Texts | None:
    """Return the entries of another file, one for each row of an array."""
    if name is None:
        return None
    other = Path(name)
    if other.suffix.lower() != ".npy" or not other.is_file():
        raise ValueError(
            f"{option} {name}: with vectors in an NPY file, this must be another .npy file that "
            "holds one entry for each row."
        )
    texts = _map_npy(other)
    if texts.shape != (len(array),) or texts.dtype.kind not in "iuU":
        raise ValueError(
            f"{other}: it must hold {len(array)} texts or whole numbers, one for each row of "
            f"{path}; got {texts.dtype} of shape {texts.shape}."
        )
    return texts.astype(np.str_).astype(object)


def _map_npy(path: Path) -> npt.NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: it is no NPY file of numbers, or damaged: {error}.") from None


def slice_rows(n_rows: int, n_columns: int, n_values: int = 1 << 20) -> Iterator[slice]:
    """Yield slices of rows that hold about so many values each."""
    step = max(1, n_values // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))

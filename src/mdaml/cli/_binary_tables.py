"""Tables in Parquet and NPY files, whose rows are counted from 0."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray
from mdaml.cli._arrow import load_arrow
from mdaml.cli._columns import Block, Columns, Wanted, choose_columns
from mdaml.cli._output import CommandError

_ROWS = 1 << 16


class ParquetTable:
    """A Parquet file, read by some rows at a time."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.path = path
        arrow = load_arrow()
        try:
            self._file = arrow.parquet.ParquetFile(path)
        except (arrow.ArrowException, OSError) as error:
            raise CommandError(f"{path}: it is no Parquet file, or damaged: {error}.") from None
        schema = self._file.schema_arrow
        self.columns = choose_columns(path, schema.names, wanted)
        self._check_types(schema)
        if self._file.metadata.num_rows == 0:
            raise CommandError(f"{path}: there are columns, but no row.")

    def _check_types(self, schema: Any) -> None:
        types = load_arrow().types
        numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        for name in self.columns.features:
            kind = schema.field(name).type
            if not any(is_kind(kind) for is_kind in numbers):
                hint = ""
                if not self.columns.by_model:
                    hint = f" Say --id {name}, --labels {name} or --drop {name}."
                raise CommandError(f"{self.path}: column {name!r} holds {kind}, not numbers.{hint}")

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order."""
        arrow, columns, start = load_arrow(), self.columns, 0
        names = [*columns.features, *(n for n in (columns.id, columns.labels) if n is not None)]
        try:
            for batch in self._file.iter_batches(_ROWS, columns=names):
                X = np.empty((batch.num_rows, len(columns.features)))
                for place, name in enumerate(columns.features):
                    X[:, place] = _numbers(batch.column(name))
                _check_finite(self, X, start)
                ids, labels = (_texts(batch, name) for name in (columns.id, columns.labels))
                if ids is not None and not all(ids):
                    row = start + next(row for row, name in enumerate(ids) if not name)
                    raise CommandError(
                        f"{self.place(row)}: the id, column {columns.id!r}, is missing."
                    )
                start += batch.num_rows
                yield Block(X, ids, labels)
        except (arrow.ArrowException, OSError) as error:
            raise CommandError(f"{self.path}: it is damaged: {error}.") from None

    def place(self, row: int) -> str:
        """Return file and row."""
        return f"{self.path}: row {row} (from 0)"


class NpyTable:
    """An array in an NPY file, mapped into memory; names and labels are other such files."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.path = path
        if wanted.drop:
            raise CommandError(
                f"{path}: --drop is for tables with named columns, not for NPY files."
            )
        array = _load(path)
        if array.ndim != 2 or array.dtype.kind not in "fiub" or 0 in array.shape:
            raise CommandError(
                f"{path}: it must hold numbers of shape (rows, features); got {array.dtype} of "
                f"shape {array.shape}."
            )
        self._array = array
        names = tuple(f"x{n}" for n in range(array.shape[1]))
        self.columns = Columns(names, wanted.id, wanted.labels, named=False)
        self._ids = self._load_texts("--id", wanted.id)
        self._labels = self._load_texts("--labels", wanted.labels)

    @property
    def mapped(self) -> FloatArray | None:
        """The whole array without a copy, if it holds floats that need no conversion."""
        return self._array if self._array.dtype in (np.float32, np.float64) else None

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order."""
        for start in range(0, len(self._array), _ROWS):
            rows = slice(start, start + _ROWS)
            part = self._array[rows]
            X = part if self.mapped is not None else part.astype(np.float64)
            _check_finite(self, X, start)
            ids = None if self._ids is None else self._ids[rows]
            yield Block(X, ids, None if self._labels is None else self._labels[rows])

    def place(self, row: int) -> str:
        """Return file and row."""
        return f"{self.path}: row {row} (from 0)"

    def _load_texts(self, option: str, name: str | None) -> npt.NDArray[Any] | None:
        if name is None:
            return None
        path = Path(name)
        if path.suffix.lower() != ".npy" or not path.is_file():
            raise CommandError(
                f"{option} {name}: with vectors in an NPY file, this must be another .npy file "
                "that holds one entry for each row."
            )
        array = _load(path)
        if array.shape != (len(self._array),) or array.dtype.kind not in "iuU":
            raise CommandError(
                f"{path}: it must hold {len(self._array)} texts or whole numbers, one for each "
                f"row of {self.path}; got {array.dtype} of shape {array.shape}."
            )
        return array.astype(np.str_).astype(object)


def _load(path: Path) -> npt.NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise CommandError(f"{path}: it is no NPY file of numbers, or damaged: {error}.") from None


def _check_finite(source: ParquetTable | NpyTable, X: FloatArray, start: int) -> None:
    if np.isfinite(X).all():
        return
    row, place = np.argwhere(~np.isfinite(X))[0].tolist()
    name, value = source.columns.features[place], X[row, place]
    what = "is missing" if np.isnan(value) else f"is {value}, not finite"
    raise CommandError(f"{source.place(start + row)}: column {name!r} {what}.")


def _numbers(column: Any) -> npt.NDArray[Any]:
    """Return a column as floats, NaN where there is nothing."""
    return column.cast("float64", safe=False).to_numpy(zero_copy_only=False)


def _texts(batch: Any, name: str | None) -> npt.NDArray[Any] | None:
    """Return a column as texts, empty where there is nothing."""
    if name is None:
        return None
    arrow, column = load_arrow(), batch.column(name)
    if arrow.types.is_floating(column.type):  # whole numbers with gaps, as data frames hold them
        column = arrow.compute.if_else(arrow.compute.is_nan(column), None, column)
    try:
        return column.cast("string").fill_null("").to_numpy(zero_copy_only=False)
    except arrow.ArrowException:
        kind = batch.schema.field(name).type
        raise CommandError(
            f"column {name!r} holds {kind}, which cannot name or label rows."
        ) from None

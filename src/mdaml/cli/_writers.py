"""Tables of numbers written block by block."""

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray
from mdaml.cli._arrow import load_arrow

_NEEDS_QUOTES = re.compile(r'[",\r\n]')


class Writer(ABC):
    """Takes rows, and ids for them if they have ids."""

    def __init__(self, file: BinaryIO, names: Sequence[str]) -> None:
        self._file, self._names = file, names

    @abstractmethod
    def add(self, Y: FloatArray, id_name: str | None, ids: npt.NDArray[Any] | None) -> None:
        """Write some rows."""

    def close(self) -> None:  # noqa: B027
        """Write what is left to write, if anything."""

    def _batch(self, Y: FloatArray, id_name: str | None, ids: npt.NDArray[Any] | None) -> Any:
        arrow = load_arrow()
        columns = [] if ids is None else [arrow.array(ids, arrow.string())]
        names = [] if id_name is None else [id_name]
        columns += [arrow.array(np.ascontiguousarray(column)) for column in Y.T]
        return arrow.RecordBatch.from_arrays(columns, [*names, *self._names])


class CsvWriter(Writer):
    """Numbers are written such that reading them gives the same numbers."""

    _is_begun = False

    def add(self, Y: FloatArray, id_name: str | None, ids: npt.NDArray[Any] | None) -> None:
        """Write some rows, under a header if they are the first."""
        if not self._is_begun:
            text = io.StringIO()
            names = [] if id_name is None else [id_name]
            csv.writer(text, lineterminator="\n").writerow([*names, *self._names])
            self._file.write(text.getvalue().encode())
            self._is_begun = True
        # Arrow quotes all texts or none.
        quoted = ids is not None and any(map(_NEEDS_QUOTES.search, ids))
        style = "needed" if quoted else "none"
        to_csv = load_arrow().csv
        options = to_csv.WriteOptions(include_header=False, quoting_style=style)
        to_csv.write_csv(self._batch(Y, id_name, ids), self._file, options)


class ParquetWriter(Writer):
    """One row group for each block."""

    _writer: Any = None

    def add(self, Y: FloatArray, id_name: str | None, ids: npt.NDArray[Any] | None) -> None:
        """Write some rows."""
        batch = self._batch(Y, id_name, ids)
        if self._writer is None:
            self._writer = load_arrow().parquet.ParquetWriter(self._file, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the directory of the file."""
        if self._writer is not None:
            self._writer.close()


class NpyWriter(Writer):
    """The header is written again at the end, when the number of rows is known."""

    _dtype: Any = None
    _n_rows = 0

    def add(self, Y: FloatArray, id_name: str | None, ids: npt.NDArray[Any] | None) -> None:  # noqa: ARG002
        """Write some rows; ids have no place here."""
        if self._dtype is None:
            self._dtype = Y.dtype
            self._write_header()
        self._file.write(np.ascontiguousarray(Y).data)
        self._n_rows += len(Y)

    def close(self) -> None:
        """Fill in the number of rows."""
        if self._dtype is not None:
            self._write_header()

    def _write_header(self) -> None:
        # NumPy leaves room for the first dimension to grow: all headers have the same length.
        self._file.seek(0)
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._n_rows, len(self._names)),
        }
        np.lib.format.write_array_header_1_0(self._file, header)


_WRITERS: dict[str, type[Writer]] = {
    ".csv": CsvWriter,
    ".parquet": ParquetWriter,
    ".npy": NpyWriter,
}


@contextmanager
def open_writer(path: Path, suffix: str, names: Sequence[str]) -> Iterator[Writer]:
    """Open a file to write rows to, in the format of a suffix."""
    with path.open("wb") as file:
        writer = _WRITERS[suffix](file, names)
        try:
            yield writer
        finally:  # after an error too, or Arrow complains later of a file that is gone
            writer.close()

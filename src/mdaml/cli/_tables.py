"""Tables of vectors in files: CSV, Parquet and NPY, whole or block by block."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray
from mdaml.cli._columns import Block, Columns, Source, Wanted, describe_id
from mdaml.cli._csv_tables import CsvTable
from mdaml.cli._output import CommandError

SUFFIXES = (".csv", ".parquet", ".npy")


@dataclass(frozen=True)
class Table:
    """All rows of a file."""

    path: Path
    X: FloatArray  # (n, d); of an NPY file a memory map
    columns: Columns
    ids: npt.NDArray[Any] | None = None  # (n,) distinct texts
    labels: npt.NDArray[Any] | None = None  # (n,) texts, "" where there is none
    _rows: dict[str, int] = field(default_factory=dict)

    def name(self, row: int) -> str:
        """Return the id of a row, or its number."""
        return str(row if self.ids is None else self.ids[row])

    def row(self, name: str) -> int:
        """Return the row that an id or a number names, or refuse it."""
        if self.ids is None:
            if name.isascii() and name.isdigit() and int(name) < len(self.X):
                return int(name)
            raise CommandError(
                f"There is no row {name!r} in {self.path}: rows are the numbers from 0 to "
                f"{len(self.X) - 1}. If they have names, say which column: --id."
            )
        if not self._rows:
            self._rows.update(zip(self.ids.tolist(), range(len(self.ids)), strict=True))
        if name not in self._rows:
            raise CommandError(
                f"There is no id {name!r} in {self.path}; its ids are such as "
                f"{', '.join(map(repr, self.ids[:3].tolist()))}."
            )
        return self._rows[name]

    def codes(self) -> npt.NDArray[np.int64]:
        """Return the labels as whole numbers, -1 for rows without one.

        Whole numbers stay as they are; texts are numbered in their order.
        """
        assert self.labels is not None
        known = (self.labels != "") & (self.labels != "-1")
        values = self.labels[known].tolist()
        out = np.full(len(self.labels), -1)
        try:
            out[known] = [int(value) for value in values]
        except (ValueError, OverflowError):
            out[known] = np.unique(np.array(values, str), return_inverse=True)[1]
        return out

    def count_labels(self) -> tuple[int, int]:
        """Return the number of classes, and of rows without one."""
        codes = self.codes()
        known = codes[codes != -1]
        return len(np.unique(known)), len(codes) - len(known)

    def describe(self) -> str:
        """Return size and kind of rows in a few words."""
        n, d = self.X.shape
        named = "row numbers" if self.ids is None else f"ids in {_where_ids(self.columns)}"
        return f"{self.path}: {n} rows, {d} features, {named}"

    def facts(self) -> dict[str, Any]:
        """Return the same for machines."""
        return {
            "file": str(self.path),
            "rows": len(self.X),
            "features": list(self.columns.features),
            "id": self.columns.id,
            "labels": self.columns.labels,
        }


def _where_ids(columns: Columns) -> str:
    return columns.id or "" if not columns.named else describe_id(columns.id or "")


def open_table(path: Path, wanted: Wanted) -> Source:
    """Return a file as a table to be read block by block; refuse it if it cannot be one."""
    check_file(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return CsvTable(path, wanted)
    if suffix == ".parquet":
        from mdaml.cli._binary_tables import ParquetTable

        return ParquetTable(path, wanted)
    if suffix == ".npy":
        from mdaml.cli._binary_tables import NpyTable

        return NpyTable(path, wanted)
    raise CommandError(
        f"{path}: the name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
    )


def check_file(path: Path) -> None:
    """Refuse what is no file that can be read."""
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise CommandError(f"There is no file {path}.") from None
    except OSError as error:
        raise CommandError(f"{path}: it cannot be read: {error.strerror}.") from None


def read_table(path: Path, wanted: Wanted) -> Table:
    """Read a whole table; ids must be distinct."""
    source = open_table(path, wanted)
    blocks = list(source.blocks())
    mapped = getattr(source, "mapped", None)
    X = np.concatenate([block.X for block in blocks]) if mapped is None else mapped
    ids, labels = (_joined(blocks, name) for name in ("ids", "labels"))
    if ids is not None:
        _check_distinct(source, ids)
    return Table(path, X, source.columns, ids, labels)


def _joined(blocks: list[Block], name: str) -> npt.NDArray[Any] | None:
    parts = [getattr(block, name) for block in blocks]
    return None if parts[0] is None else np.concatenate(parts)


def _check_distinct(source: Source, ids: npt.NDArray[Any]) -> None:
    if len(set(ids.tolist())) == len(ids):
        return
    seen: dict[str, int] = {}
    for row, name in enumerate(ids.tolist()):
        if name in seen:
            raise CommandError(
                f"{source.place(row)}: the id {name!r} was there before, at "
                f"{source.place(seen[name])}. Ids must differ."
            )
        seen[name] = row


def row_slices(n_rows: int, n_columns: int, block_values: int = 1 << 20) -> Iterator[slice]:
    """Yield slices of rows that hold about so many values each."""
    step = max(1, block_values // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))

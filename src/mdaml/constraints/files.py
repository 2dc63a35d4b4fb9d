"""Constraints in tables and NPZ files: reading, and writing."""

import csv
import io
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np

from mdaml._typing import Array, ArrayLike
from mdaml.constraints.checks import check_points, nothing
from mdaml.constraints.forms.answers import ANSWER, COLUMNS
from mdaml.constraints.forms.layout import COMPARISONS, Layout
from mdaml.constraints.forms.layout import choose_layout as choose_layout
from mdaml.constraints.forms.mixture import KINDS, split_kinds
from mdaml.constraints.lines import Blocks, LineReader
from mdaml.constraints.problems import InvalidLine
from mdaml.constraints.problems import list_problems as list_problems
from mdaml.constraints.value import Constraints, _restore
from mdaml.io.atomic import replace_file
from mdaml.io.messages import Naming, check_readable, name_argument
from mdaml.io.model_zip import ARRAY_DAMAGE
from mdaml.io.texts import TABLE_SUFFIXES, check_suffix, load_arrow, read_texts

_SUFFIXES = (*TABLE_SUFFIXES, ".npz")
_WRITTEN = (".csv", ".parquet", ".npz")
_PARTS = {"triplets", "pairs", "pair_labels", "quadruplets", "weights", "n_points"}
_MEMBERS = ("a", "b", "c", "d")
_Cells: TypeAlias = dict[str, list[object]]  # cells by column
_COLUMN = "column "  # what the names of columns begin with in an NPZ file
_MOST_COMPRESSED = 100  # times; row numbers never are


def read_lines(
    cls: type[Constraints],
    path: str | os.PathLike[str],
    ids: ArrayLike | None,
    n_points: int | None,
    layout: Layout,
    encoding: str | None = None,
    naming: Naming = name_argument,
) -> tuple[Constraints, list[InvalidLine], int]:
    """Return the constraints of a file, its lines that are none, and the number of its lines."""
    names, n_points = check_points(cls.__new__(cls), n_points, ids)
    path = Path(path)
    suffix = check_suffix(path, _SUFFIXES)
    check_readable(path)
    if suffix != ".npz":
        reader = LineReader(path, names, n_points, layout, naming)
        value = _build(cls, reader, read_texts(path, encoding, naming), names, n_points)
        return value, reader.problems, reader.n_lines
    stored = _read_npz(cls, path)
    if names is None or stored.ids is None or np.array_equal(names, stored.ids):
        if n_points not in (None, stored.n_points):
            raise ValueError(
                f"{path}: it was written for {stored.n_points} points, but X has {n_points}. "
                "Restrict the constraints to the points that are left before they are "
                "written, or write their ids."
            )
        ids = stored.ids if names is None else names
        return stored._replaced(ids=ids), [], stored.n_constraints
    # Rows may have another order by now: read the lines of text with the same content.
    reader = LineReader(path, names, n_points, Layout(), naming)
    places = {"place": np.arange(stored.n_constraints)}
    table = _to_columns(stored, places)
    cells = [["" if cell is None else str(cell) for cell in cells] for cells in table.values()]
    blocks = iter([([0], [[name] for name in table]), (range(1, len(cells[0]) + 1), cells)])
    value = _build(cls, reader, blocks, names, n_points)
    kept = value.columns["place"].astype(np.int64)
    own = {name: column[kept] for name, column in stored.columns.items()}
    return value._replaced(columns=own), reader.problems, reader.n_lines


def _build(
    cls: type[Constraints],
    reader: LineReader,
    blocks: Blocks,
    ids: Array | None,
    n_points: int | None,
) -> Constraints:
    """Return the constraints of lines, which the reader has checked."""
    arrays, own, weights = reader.read(blocks)
    if reader.form not in COMPARISONS:
        name = "votes" if reader.form == "choices" else reader.form
        try:
            value = getattr(cls, f"from_{name}")(*arrays, ids, n_points=n_points, columns=own)
        except ValueError as error:
            raise ValueError(f"{reader.path}: {error}") from None
        return value._replaced(weights=value.weights * weights[value.columns[ANSWER]])
    parts = dict(zip((reader.form, "pair_labels"), arrays, strict=False))
    if reader.form == "mixture":
        parts, order = split_kinds(*arrays)
        weights, own = weights[order], {name: column[order] for name, column in own.items()}
    known = {"weights": weights, "columns": own, "ids": ids, "n_points": n_points}
    return _restore(nothing() | parts | known)


def _read_npz(cls: type[Constraints], path: Path) -> Constraints:
    try:
        with path.open("rb") as file:  # np.load would leave a damaged one open
            _check_sizes(file, path.stat().st_size)
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("it holds a single array")
            arrays = {name: archive[name] for name in archive.files}
        columns = {name: arrays.pop(name) for name in [*arrays] if name.startswith(_COLUMN)}
        if not arrays.keys() >= _PARTS >= arrays.keys() - {"ids"}:
            raise ValueError(f"it holds {', '.join(arrays) or 'nothing'}")
        if arrays["n_points"].shape != () or arrays["n_points"].dtype.kind != "i":
            raise ValueError("n_points is not an integer")
        own = {name.removeprefix(_COLUMN): column for name, column in columns.items()}
        return cls(**arrays | {"n_points": int(arrays["n_points"]), "columns": own})
    except (*ARRAY_DAMAGE, OSError) as error:
        why = (
            str(error).rstrip(".") if error.args[1:] == () else "it names places that do not exist"
        )
        raise ValueError(
            f"{path}: not an NPZ file of Constraints.write, or damaged: {why}. Write it again."
        ) from None


def _check_sizes(file: BinaryIO, size: int) -> None:
    """Refuse an archive whose arrays claim much more memory than it has bytes; read none."""
    claimed = 0
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                with archive.open(name) as entry:
                    major, _ = np.lib.format.read_magic(entry)
                    read = "read_array_header_1_0" if major == 1 else "read_array_header_2_0"
                    shape, _, dtype = getattr(np.lib.format, read)(entry)
                    claimed += math.prod(shape) * dtype.itemsize
    file.seek(0)
    if claimed > _MOST_COMPRESSED * size:
        raise ValueError(f"it claims to hold {claimed} bytes, but has only {size}")


def write(value: Constraints, path: str | os.PathLike[str]) -> None:
    """Write all parts of constraints; the file appears whole or not at all."""
    suffix = check_suffix(Path(path), _WRITTEN)
    arrow = load_arrow() if suffix == ".parquet" else None
    with replace_file(path) as part, part.open("wb") as file:
        if suffix == ".npz":
            parts = {name: getattr(value, name) for name in (*_PARTS, "ids")}
            for name, column in value.columns.items():
                # Texts in the one form that needs no pickle.
                parts[_COLUMN + name] = column.astype(np.str_) if column.dtype == object else column
            np.savez(file, **{name: part for name, part in parts.items() if part is not None})
        elif arrow is None:
            _write_csv(file, _to_columns(value, value.columns))
        else:
            arrow.parquet.write_table(arrow.table(_to_columns(value, value.columns)), file)


def _write_csv(file: BinaryIO, table: _Cells) -> None:
    # Cells that begin with a space or hold the end of a line keep them only within quotes.
    free = [cells for name, cells in table.items() if name in _MEMBERS or name not in COLUMNS]
    texts = (cell for cells in (*free, table) for cell in cells if isinstance(cell, str))
    plain = all(cell.isprintable() and cell[:1] != " " for cell in texts)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(
        text, quoting=csv.QUOTE_MINIMAL if plain else csv.QUOTE_ALL, lineterminator="\n"
    )
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    text.detach()


def _to_columns(value: Constraints, own: Mapping[str, Array]) -> _Cells:
    """Return the columns of a table with the same content, None where a kind has no such cell."""
    parts = {kind: getattr(value, f"{kind}s") for kind in KINDS}
    columns: _Cells = {name: [] for name in COLUMNS}
    for kind, part in parts.items():
        members = part if value.ids is None else value.ids[part]
        missing = [None] * len(part)
        columns["kind"] += [kind] * len(part)
        for place, name in enumerate(_MEMBERS):
            columns[name] += members[:, place].tolist() if place < part.shape[1] else missing
        columns["label"] += value.pair_labels.tolist() if kind == "pair" else missing
    columns["weight"] = value.weights.tolist()
    unused = {"weight"} if np.all(value.weights == 1) else set()
    if sum(len(part) > 0 for part in parts.values()) == 1:
        unused |= {"kind"} | {name for name in columns if columns[name][0] is None}
    kept = {name: column for name, column in columns.items() if name not in unused}
    return kept | {name: column.tolist() for name, column in own.items()}

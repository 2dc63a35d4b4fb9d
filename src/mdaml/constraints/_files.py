"""Constraints in CSV, Parquet and NPZ files: the method ``read`` of the class, and writing."""

import csv
import io
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TextIO

import numpy as np
import numpy.typing as npt

from mdaml.archive import replacing
from mdaml.constraints._table import (
    COLUMNS,
    KINDS,
    MEMBERS,
    Points,
    Problem,
    TableReader,
    find_layout,
)
from mdaml.constraints.checks import check_ids, check_points

if TYPE_CHECKING:  # the class takes its method from here
    from mdaml.constraints.value import Constraints

Arrays = dict[str, Any]  # the arguments of Constraints, or some of them

_BLOCK = 1 << 16  # lines held as text at a time
_NPZ_PARTS = {  # kind of the numbers, and width
    "triplets": ("i", 3),
    "pairs": ("i", 2),
    "pair_labels": ("i",),
    "quadruplets": ("i", 4),
    "weights": ("f",),
}


def check_suffix(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Return the path and its suffix in small letters, which must be one that can be read."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet", ".npz"):
        raise ValueError(f"{path}: the name must end in .csv, .parquet or .npz, to say the format.")
    return path, suffix


def read(
    cls: type["Constraints"],
    path: str | os.PathLike[str],
    *,
    ids: Sequence[str] | Sequence[int] | npt.NDArray[Any] | None = None,
    n_points: int | None = None,
    invalid: Literal["raise", "skip"] = "raise",
) -> "Constraints":
    r"""Read a file, in the format that the end of its name tells: .csv, .parquet or .npz.

    The columns say what a table holds: ``a,b,c`` triplets, ``a,b,label`` pairs, ``a,b,c,d``
    quadruplets, ``kind,a,b,c,d,label`` a mixture with ``triplet``, ``pair`` or ``quadruplet``
    as kind; ``weight`` may be added. Labels are 1 and -1, 1 and 0, similar and dissimilar or
    same and different. A CSV file without a header holds triplets or quadruplets.

    Parameters
    ----------
    path : str or path
        CSV is UTF-8, with commas; lines that begin with # at its top are left out.
    ids : sequence of str or int, default=None
        Ids of the rows of X, in their order; the file must name points by them, letter for
        letter. If None, it must hold row numbers, from 0.
    n_points : int, default=None
        Rows of X, if there are no ids. If None, the highest row that is named, plus one, or
        what an NPZ file says.
    invalid : {"raise", "skip"}, default="raise"
        Whether to refuse a file with lines that are no constraints, or to leave these lines
        out. :func:`read_constraints` returns them as well.

    Returns
    -------
    Constraints
        In the order of the file, for each kind.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mdaml.constraints import Constraints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "said.csv"
    ...     _ = path.write_text("a,b,c\n0,1,2\n0,0,1\n")
    ...     Constraints.read(path, invalid="skip", n_points=10)
    Constraints(1 triplet, n_points=10)
    """
    if invalid not in ("raise", "skip"):
        raise ValueError(f"invalid must be 'raise' or 'skip', got {invalid!r}.")
    value, problems, n_lines = read_lines(cls, path, ids, n_points)
    if problems and invalid == "raise":
        raise ValueError(
            f"{os.fspath(path)}, {problems[0]}. {len(problems)} of {n_lines} lines are wrong; "
            "pass invalid='skip' to leave them out."
        )
    return value


def read_lines(
    cls: type["Constraints"], path: Any, ids: Any, n_points: int | None
) -> tuple["Constraints", list[Problem], int]:
    """Return the constraints of a file, its lines that are none, and the number of its lines."""
    names, limit = check_points(cls.__new__(cls), n_points, ids)
    parts, problems, n_lines = _read_arrays(path, names, limit)
    try:
        return cls(**parts), problems, n_lines
    except (TypeError, ValueError) as error:  # only NPZ files come here unchecked
        raise ValueError(f"{path}: {error}") from None


def _read_arrays(
    path: str | os.PathLike[str], ids: npt.NDArray[Any] | None, n_points: int | None
) -> tuple[Arrays, list[Problem], int]:
    """Return the arguments for Constraints, the lines that are none, and the number of lines."""
    path, suffix = check_suffix(path)
    try:
        if suffix == ".npz":
            stored = _read_npz(path)
            if ids is None or np.array_equal(stored.get("ids", ids), ids):
                return _attach(stored, ids, n_points), [], len(stored["weights"])
            reader = _read_by_id(stored, ids)
        elif suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = _read_csv(file, ids, n_points)
        else:
            reader = _read_parquet(path, ids, n_points)
        if not reader.n_lines:
            raise ValueError("there is no constraint in this file.")
        arrays: Arrays = reader.finish()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}. Save it as UTF-8.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if reader.n_lines == len(reader.problems):
        raise ValueError(
            f"{path}: none of {reader.n_lines} lines is a constraint; {reader.problems[0]}."
        )
    arrays |= {"ids": ids, "n_points": n_points}
    return arrays, reader.problems, reader.n_lines


def _attach(stored: Arrays, ids: npt.NDArray[Any] | None, n_points: int | None) -> Arrays:
    """Return stored arrays for the X at hand, which must have the rows they were written for."""
    if n_points not in (None, stored["n_points"]):
        raise ValueError(
            f"it was written for {stored['n_points']} points, but X has {n_points}. Restrict the "
            "constraints to the points that are left before they are written, or write their ids."
        )
    return {"ids": ids, **stored}


def _read_by_id(stored: Arrays, ids: npt.NDArray[Any]) -> TableReader:
    """Read stored arrays as the file of text they could be: rows may have another order by now."""
    table = _columns(stored)
    reader = TableReader(list(table), ids, len(ids))
    _add_columns(reader, [list(map(_text, column)) for column in table.values()])
    return reader


def _read_csv(file: TextIO, ids: npt.NDArray[Any] | None, n_points: int | None) -> TableReader:
    records = _records(file)
    first = next(records, None)
    if first is None:
        raise ValueError("the file is empty.")
    columns = find_layout(first[1])
    if columns is None:
        columns = _layout_without_header(first[1], Points(ids, n_points))
        records = chain([first], records)
    reader = TableReader(columns, ids, n_points)
    _add_records(reader, records)
    return reader


def _records(file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line on which each record begins, and its cells."""
    lines = csv.reader(_without_comments(file), skipinitialspace=True, strict=True)
    begin = 1
    try:
        for row in lines:
            if row:
                yield begin, row
            begin = lines.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {begin}: {error}. Is a quotation mark not closed?") from None


def _without_comments(file: TextIO) -> Iterator[str]:
    """Yield the lines, those that begin with # at the top as blank ones, so that numbers stay."""
    for line in file:
        if not line.startswith("#") and line.strip():
            yield line
            break
        yield "\n"
    yield from file


def _layout_without_header(row: Sequence[str], points: Points) -> tuple[str, ...]:
    if any(points[cell] < 0 for cell in row):
        raise ValueError(
            f"the first line, {','.join(row)}, is no header (a,b,c or a,b,label or a,b,c,d) and "
            f"holds no constraint: {next(points.fault(c) for c in row if points[c] < 0)}."
        )
    if len(row) not in (3, 4):
        advice = " Pairs need a header: a,b,label." if len(row) == 2 else ""
        raise ValueError(
            "without a header, lines hold three points (a triplet) or four (a quadruplet), got "
            f"{len(row)}.{advice}"
        )
    return MEMBERS[: len(row)]


def _add_records(reader: TableReader, records: Iterable[tuple[int, list[str]]]) -> None:
    # Cells are kept in one list: to keep a list for each line costs more than to read it.
    width, lines, cells = len(reader.columns), list[int](), list[str]()
    for line, row in records:
        if len(row) != width:
            reader.refuse(line, row)
            continue
        lines.append(line)
        cells += row
        if len(lines) == _BLOCK:
            reader.add(lines, [cells[place::width] for place in range(width)])
            lines, cells = [], []
    reader.add(lines, [cells[place::width] for place in range(width)])


def _add_columns(reader: TableReader, columns: Sequence[list[str]]) -> None:
    for begin in range(0, len(columns[0]), _BLOCK):
        cells = [column[begin : begin + _BLOCK] for column in columns]
        reader.add(range(begin + 1, begin + 1 + len(cells[0])), cells)


def _read_parquet(path: Path, ids: npt.NDArray[Any] | None, n_points: int | None) -> TableReader:
    pyarrow = _import_pyarrow()
    try:
        table = pyarrow.parquet.read_table(path)
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"not a Parquet file, or damaged: {error}") from None
    columns = find_layout(table.column_names)
    if columns is None:
        raise ValueError(f"there are no columns a and b, but {', '.join(table.column_names)}.")
    reader = TableReader(columns, ids, n_points)
    _add_columns(reader, [_cells_of(pyarrow, table, n) for n in range(len(columns))])
    return reader


def _cells_of(pyarrow: Any, table: Any, n: int) -> list[str]:
    """Return a column as text, empty where there is no value."""
    column, kind = table.column(n), table.schema.field(n).type
    if pyarrow.types.is_floating(kind):  # whole numbers with gaps, as data frames hold them
        column = pyarrow.compute.if_else(pyarrow.compute.is_nan(column), None, column)
    try:
        return column.cast(pyarrow.string()).fill_null("").to_pylist()
    except pyarrow.ArrowException:
        name = table.column_names[n]
        raise ValueError(f"column {name} holds {kind}, not numbers or strings.") from None


# What NumPy and zipfile raise for archives that are not as they should be. A header of an array is
# Python source to NumPy, hence the errors of a parser.
_DAMAGE = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, tokenize.TokenError),
    *(ArithmeticError, EOFError, LookupError, MemoryError, NotImplementedError, RuntimeError),
    *(SyntaxError, TypeError, ValueError),
)


def _read_npz(path: Path) -> Arrays:
    """Return the arrays of an NPZ file, of the right names, dimensions and kinds."""
    problem = "not an NPZ file of Constraints.write, or damaged"
    try:
        with path.open("rb") as file:  # np.load would leave a damaged one open
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("it holds a single array")
            arrays = {name: archive[name] for name in archive.files}
    except _DAMAGE as error:
        raise ValueError(f"{problem}: {error}.") from None
    names = {*_NPZ_PARTS, "n_points"}
    if not names <= arrays.keys() <= names | {"ids"}:
        raise ValueError(f"{problem}: it holds {', '.join(arrays) or 'nothing'}.")
    for name, (kind, *shape) in _NPZ_PARTS.items():
        array = arrays[name]
        if array.dtype.kind != kind or array.shape[1:] != tuple(shape) or array.ndim == 0:
            raise ValueError(f"{problem}: {name} has shape {array.shape}, dtype {array.dtype}.")
    if arrays["n_points"].shape != () or arrays["n_points"].dtype.kind != "i":
        raise ValueError(f"{problem}: n_points is no integer.")
    arrays |= {"n_points": int(arrays["n_points"])}
    members = [arrays[name] for name in ("triplets", "pairs", "quadruplets")]
    named = np.concatenate([part.ravel() for part in members])
    if not np.all((named >= 0) & (named < arrays["n_points"])):
        raise ValueError(f"{problem}: there are rows that are not below n_points.")
    fits = len(arrays["pair_labels"]) == len(arrays["pairs"])
    fits &= len(arrays["weights"]) == sum(map(len, members))
    fits &= "ids" not in arrays or arrays["ids"].shape == (arrays["n_points"],)
    if not fits:
        raise ValueError(f"{problem}: pair_labels, weights or ids have another length.")
    return arrays | ({"ids": check_ids(arrays["ids"])} if "ids" in arrays else {})


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write all parts of a Constraints; the file appears whole or not at all."""
    path, suffix = check_suffix(path)
    if suffix == ".parquet":
        pyarrow = _import_pyarrow()
        table = pyarrow.table(_columns(arrays))
    with replacing(path) as file:
        if suffix == ".npz":
            np.savez(file, **{name: value for name, value in arrays.items() if value is not None})
        elif suffix == ".csv":
            _write_csv(file, _columns(arrays))
        else:
            pyarrow.parquet.write_table(table, file)


def _write_csv(file: IO[bytes], table: dict[str, list[Any]]) -> None:
    # Cells that begin with a space or hold the end of a line keep them only within quotes.
    texts = (cell for name in MEMBERS for cell in table.get(name, []) if isinstance(cell, str))
    plain = all(map(_is_plain, texts))
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(
        text, quoting=csv.QUOTE_MINIMAL if plain else csv.QUOTE_ALL, lineterminator="\n"
    )
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    text.detach()


def _is_plain(cell: str) -> bool:
    return cell.isprintable() and cell[0] != " "


def _columns(arrays: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the table that says the same, with None where a kind has no such cell."""
    parts = [arrays["triplets"], arrays["pairs"], arrays["quadruplets"]]
    present = [kind for kind, part in zip(KINDS, parts, strict=True) if len(part)]
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for kind, part in zip(KINDS, parts, strict=True):
        members = part if arrays.get("ids") is None else arrays["ids"][part]
        missing = [None] * len(part)
        columns["kind"] += [kind] * len(part)
        for place, name in enumerate(MEMBERS):
            columns[name] += members[:, place].tolist() if place < part.shape[1] else missing
        columns["label"] += arrays["pair_labels"].tolist() if kind == "pair" else missing
    columns["weight"] = arrays["weights"].tolist()
    unused = {"weight"} if np.all(arrays["weights"] == 1) else set()
    if len(present) == 1:
        empty = {name for name in columns if all(cell is None for cell in columns[name])}
        unused |= empty | {"kind"}
    return {name: column for name, column in columns.items() if name not in unused}


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _import_pyarrow() -> Any:
    try:
        for module in ("pyarrow.compute", "pyarrow.parquet"):
            import_module(module)
    except ImportError as error:
        raise ImportError('Parquet files need pyarrow: pip install "mdaml[cli]"') from error
    return import_module("pyarrow")

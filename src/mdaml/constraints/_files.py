"""Constraints in CSV, Parquet and NPZ files: the method ``read`` of the class, and writing."""

import csv
import io
import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from mdaml.constraints._table import COLUMNS, KINDS, MEMBERS, LineReader, Problem
from mdaml.constraints.checks import check_points
from mdaml.io.atomic import replace_file
from mdaml.io.model_zip import ARRAY_DAMAGE
from mdaml.io.texts import check_suffix, load_arrow, read_texts

if TYPE_CHECKING:  # the class takes its method from here
    from mdaml.constraints.value import Constraints

_SUFFIXES = (".csv", ".parquet", ".npz")
_PARTS = {"triplets", "pairs", "pair_labels", "quadruplets", "weights", "n_points"}
_MOST_COMPRESSED = 100  # times; row numbers never are


def read(
    cls: type["Constraints"],
    path: str | os.PathLike[str],
    *,
    ids: Sequence[str] | Sequence[int] | npt.NDArray[Any] | None = None,
    n_points: int | None = None,
    invalid: Literal["raise", "skip"] = "raise",
) -> "Constraints":
    r"""Read a file, in the format of its suffix: .csv, .parquet or .npz.

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
        the number in an NPZ file.
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
    cls: type["Constraints"], path: str | os.PathLike[str], ids: Any, n_points: int | None
) -> tuple["Constraints", list[Problem], int]:
    """Return the constraints of a file, its lines that are none, and the number of its lines."""
    from mdaml.constraints.value import _restore

    names, n_points = check_points(cls.__new__(cls), n_points, ids)
    path = Path(path)
    if check_suffix(path, _SUFFIXES) == ".npz":
        stored = _read_npz(cls, path)
        if names is None or stored.ids is None or np.array_equal(names, stored.ids):
            if n_points not in (None, stored.n_points):
                raise ValueError(
                    f"{path}: it was written for {stored.n_points} points, but X has {n_points}. "
                    "Restrict the constraints to the points that are left before they are "
                    "written, or write their ids."
                )
            ids = stored.ids if names is None else names
            return _restore(_get_parts(stored) | {"ids": ids}), [], stored.n_constraints
        # Rows may have another order by now: read the lines of text with the same content.
        table = _to_columns(_get_parts(stored))
        cells = [["" if cell is None else str(cell) for cell in cells] for cells in table.values()]
        blocks = iter([([0], [[name] for name in table]), (range(1, len(cells[0]) + 1), cells)])
    else:
        blocks = read_texts(path)
    reader = LineReader(path, names, n_points)
    parts = reader.read(blocks) | {"ids": names, "n_points": n_points}
    return _restore(parts), reader.problems, reader.n_lines  # checked line by line


def _get_parts(value: "Constraints") -> dict[str, Any]:
    return {name: getattr(value, name) for name in (*_PARTS, "ids")}


def _read_npz(cls: type["Constraints"], path: Path) -> "Constraints":
    try:
        with path.open("rb") as file:  # np.load would leave a damaged one open
            _check_sizes(file, path.stat().st_size)
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("it holds a single array")
            arrays = {name: archive[name] for name in archive.files}
        if not arrays.keys() >= _PARTS >= arrays.keys() - {"ids"}:
            raise ValueError(f"it holds {', '.join(arrays) or 'nothing'}")
        if arrays["n_points"].shape != () or arrays["n_points"].dtype.kind != "i":
            raise ValueError("n_points is no integer")
        return cls(**arrays | {"n_points": int(arrays["n_points"])})
    except ARRAY_DAMAGE as error:
        message = f"{path}: not an NPZ file of Constraints.write, or damaged: {error}"
        raise ValueError(message.rstrip(".") + ".") from None


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


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write all parts of a Constraints; the file appears whole or not at all."""
    suffix = check_suffix(Path(path), _SUFFIXES)
    arrow = load_arrow() if suffix == ".parquet" else None
    with replace_file(path) as part, part.open("wb") as file:
        if suffix == ".npz":
            np.savez(file, **{name: value for name, value in arrays.items() if value is not None})
        elif arrow is None:
            _write_csv(file, _to_columns(arrays))
        else:
            arrow.parquet.write_table(arrow.table(_to_columns(arrays)), file)


def _write_csv(file: BinaryIO, table: Mapping[str, list[Any]]) -> None:
    # Cells that begin with a space or hold the end of a line keep them only within quotes.
    texts = (cell for name in MEMBERS for cell in table.get(name, []) if isinstance(cell, str))
    plain = all(cell.isprintable() and cell[0] != " " for cell in texts)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(
        text, quoting=csv.QUOTE_MINIMAL if plain else csv.QUOTE_ALL, lineterminator="\n"
    )
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    text.detach()


def _to_columns(arrays: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of a table with the same content, None where a kind has no such cell."""
    parts = {kind: arrays[f"{kind}s"] for kind in KINDS}
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for kind, part in parts.items():
        members = part if arrays["ids"] is None else arrays["ids"][part]
        missing = [None] * len(part)
        columns["kind"] += [kind] * len(part)
        for place, name in enumerate(MEMBERS):
            columns[name] += members[:, place].tolist() if place < part.shape[1] else missing
        columns["label"] += arrays["pair_labels"].tolist() if kind == "pair" else missing
    columns["weight"] = arrays["weights"].tolist()
    unused = {"weight"} if np.all(arrays["weights"] == 1) else set()
    if sum(len(part) > 0 for part in parts.values()) == 1:
        unused |= {"kind"} | {name for name in columns if columns[name][0] is None}
    return {name: column for name, column in columns.items() if name not in unused}

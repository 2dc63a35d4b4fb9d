"""Constraints in tables and NPZ files: the method ``read`` of the class, and writing."""

import csv
import io
import math
import os
import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from mdaml._typing import ArrayLike
from mdaml.constraints._answer_files import (
    ROLES,
    AnswerReader,
    Layout,
    choose_layout,
    find_columns,
    suggest_preset,
)
from mdaml.constraints._table import KINDS, MEMBERS, LineReader, Problem
from mdaml.constraints.answers import ANSWER
from mdaml.constraints.checks import COLUMNS, check_points
from mdaml.io.atomic import replace_file
from mdaml.io.messages import check_readable
from mdaml.io.model_zip import ARRAY_DAMAGE
from mdaml.io.texts import TABLE_SUFFIXES, check_suffix, load_arrow, read_texts

if TYPE_CHECKING:  # the class takes its method from here
    from mdaml.constraints.value import Constraints

_SUFFIXES = (*TABLE_SUFFIXES, ".npz")
_WRITTEN = (".csv", ".parquet", ".npz")
_PARTS = {"triplets", "pairs", "pair_labels", "quadruplets", "weights", "n_points"}
_ANY = Layout()  # the header says what it is
_COLUMN = "column "  # what the names of columns begin with in an NPZ file
_MOST_COMPRESSED = 100  # times; row numbers never are


def read(
    cls: type["Constraints"],
    path: str | os.PathLike[str],
    *,
    ids: ArrayLike | None = None,
    n_points: int | None = None,
    columns: Sequence[str] | None = None,
    form: str | None = None,
    invalid: Literal["raise", "skip"] = "raise",
) -> "Constraints":
    r"""Read a file, in the format of its suffix.

    Text (.csv, .tsv, also with .gz) may have commas, semicolons or tabs, and be UTF-8 or
    UTF-16; Excel (.xlsx, its first sheet), .parquet, .feather and the .npz of :meth:`write` are
    read too.

    The columns say what a table holds: ``a,b,c`` triplets, ``a,b,label`` pairs, ``a,b,c,d``
    quadruplets, ``kind,a,b,c,d,label`` a mixture with ``triplet``, ``pair`` or ``quadruplet``
    as kind; ``weight`` may be added. Labels are 1 and -1, 1 and 0, similar and dissimilar or
    same and different. A text without a header holds triplets or quadruplets. All other
    columns, such as who answered and when, are kept as texts in ``columns``.

    Parameters
    ----------
    path : str or path
        Lines that begin with # at the top of a text are left out.
    ids : sequence of str or int, default=None
        Ids of the rows of X, in their order; the file must name points by them, letter for
        letter. If None, it must hold row numbers, from 0.
    n_points : int, default=None
        Rows of X, if there are no ids. If None, the highest row that is named, plus one, or
        the number in an NPZ file.
    columns : sequence of str, default=None
        Names of the columns that hold the points, if they are not a, b, c: such as ``["anchor",
        "closer", "farther"]``. With `form`, its columns, in the order of the table below.
    form : str, default=None
        What the lines hold, if it is none of the above, or the program that wrote the file:

        ==================== ===============================================================
        form                 columns
        ==================== ===============================================================
        triplets             a, b, c
        pairs                a, b, label
        quadruplets          a, b, c, d
        choices              a, b, c, answer (a name, b, c, left, right, 1, 2 or neither)
        odd_one_out          item1, item2, item3, ..., odd (a name, or none)
        picks                anchor, shown, picked (lists in one cell, with | or as JSON)
        rankings             anchor, rank1, rank2, ..., or anchor and one list
        votes                a, b, c, votes_b, votes_c and perhaps neither
        grades               a, b, grade (and who, whose grades alone are compared)
        positives            a, b
        salmon               head, winner, loser
        things               image1, image2, image3, choice (1, 2 or 3: the odd one)
        jspsych              anchor, left, right, response (0 left, 1 right, 2 neither)
        splink               unique_id_l, unique_id_r, clerical_match_score (1 or 0)
        ==================== ===============================================================

        They are turned into constraints as :meth:`Constraints.from_odd_one_out` and its likes do.
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
    layout = choose_layout(form, columns)
    value, problems, n_lines = read_lines(cls, path, ids, n_points, layout)
    if problems and invalid == "raise":
        raise ValueError(
            f"{os.fspath(path)}: {len(problems)} of {n_lines} lines are wrong. Correct them, or "
            f"pass invalid='skip' to leave them out.\n{list_problems(problems)}"
        )
    return value


def list_problems(problems: Sequence[Problem], most: int = 20) -> str:
    """Return the first problems, one a line, and how many there are of each kind if more."""
    shown = [f"{problem}: {problem.remedy}" for problem in problems[:most]]
    if len(problems) > most:
        kinds = Counter(re.sub(r"'[^']*'|[0-9]+", "...", problem.reason) for problem in problems)
        shown.append(f"and {len(problems) - most} more; in all:")
        shown += [f"  {n} times: {kind}" for kind, n in kinds.most_common(most)]
    return "\n".join(shown)


def read_constraints(
    path: str | os.PathLike[str],
    *,
    ids: ArrayLike | None = None,
    n_points: int | None = None,
    columns: Sequence[str] | None = None,
    form: str | None = None,
) -> tuple["Constraints", list[Problem]]:
    r"""Read the constraints of a file as :meth:`Constraints.read` does, and its wrong lines.

    Parameters
    ----------
    path : str or path
        As for :meth:`Constraints.read`.
    ids : sequence of str or int, default=None
        Ids of the rows of X, in their order. If None, the file must hold row numbers.
    n_points : int, default=None
        Rows of X, if there are no ids. If None, the highest row that is named, plus one.
    columns : sequence of str, default=None
        As for :meth:`Constraints.read`.
    form : str, default=None
        As for :meth:`Constraints.read`.

    Returns
    -------
    constraints : Constraints
        The lines that are right, at least one.
    problems : list of Problem
        The others.

    See Also
    --------
    mdaml.Constraints : What it returns, with ways to make it from arrays.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mdaml.constraints import read_constraints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "said.csv"
    ...     _ = path.write_text("a,b,c\n0,1,2\n0,x,1\n")
    ...     value, problems = read_constraints(path)
    >>> value
    Constraints(1 triplet, n_points=3)
    >>> print(problems[0])
    line 3: b is 'x', not an integer; if points have names, pass ids= (0,x,1)
    """
    from mdaml.constraints.value import Constraints

    layout = choose_layout(form, columns)
    value, problems, _ = read_lines(Constraints, path, ids, n_points, layout)
    return value, problems


def read_lines(
    cls: type["Constraints"],
    path: str | os.PathLike[str],
    ids: Any,
    n_points: int | None,
    layout: Layout = _ANY,
) -> tuple["Constraints", list[Problem], int]:
    """Return the constraints of a file, its lines that are none, and the number of its lines."""
    from mdaml.constraints.value import _restore

    names, n_points = check_points(cls.__new__(cls), n_points, ids)
    path = Path(path)
    suffix = check_suffix(path, _SUFFIXES)
    check_readable(path)
    if suffix == ".npz":
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
        places = {"place": np.arange(stored.n_constraints)}
        table = _to_columns(_get_parts(stored) | {"columns": places})
        cells = [["" if cell is None else str(cell) for cell in cells] for cells in table.values()]
        blocks = iter([([0], [[name] for name in table]), (range(1, len(cells[0]) + 1), cells)])
    else:
        stored = None
        blocks = read_texts(path)
    if layout.form not in (None, "triplets", "pairs", "quadruplets"):
        return _read_answers(cls, LineReader(path, names, n_points), path, blocks, layout)
    roles = None if stored is not None or layout.form is None else partial(_roles, path, layout)
    reader = LineReader(path, names, n_points, roles, suggest_preset)
    parts = reader.read(blocks) | {"ids": names, "n_points": n_points}
    if stored is not None:
        kept = parts["columns"]["place"].astype(np.int64)
        parts["columns"] = {name: column[kept] for name, column in stored.columns.items()}
    return _restore(parts), reader.problems, reader.n_lines  # checked line by line


def _roles(path: Path, layout: Layout, header: Sequence[str]) -> dict[int, str]:
    """Return which column of a header is a, which is b and so on."""
    places = find_columns(path, header, layout)
    return dict(zip(places, ROLES[layout.form or ""], strict=True))


def _read_answers(
    cls: type["Constraints"], points: LineReader, path: Path, blocks: Any, layout: Layout
) -> tuple["Constraints", list[Problem], int]:
    """Return constraints of a file of answers of another form."""
    reader = AnswerReader(path, points, layout)
    answers, own, weight = reader.read(blocks)
    name = "votes" if layout.form == "choices" else layout.form
    try:
        value = getattr(cls, f"from_{name}")(
            *answers, points.ids, n_points=points.n_points, columns=own
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    heavier = value.weights * weight[value.columns[ANSWER]]
    return value._replaced(weights=heavier), reader.problems, reader.n_lines


def _get_parts(value: "Constraints") -> dict[str, Any]:
    return {name: getattr(value, name) for name in (*_PARTS, "ids", "columns")}


def _read_npz(cls: type["Constraints"], path: Path) -> "Constraints":
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
    except (*ARRAY_DAMAGE, OSError) as error:  # the last where a place in it is none
        why = str(error).rstrip(".") if error.args[1:] == () else "it names places it has not"
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


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write all parts of a Constraints; the file appears whole or not at all."""
    suffix = check_suffix(Path(path), _WRITTEN)
    arrow = load_arrow() if suffix == ".parquet" else None
    with replace_file(path) as part, part.open("wb") as file:
        if suffix == ".npz":
            own = {_COLUMN + name: _plain(c) for name, c in arrays["columns"].items()}
            parts = {name: part for name, part in arrays.items() if name != "columns"} | own
            np.savez(file, **{name: part for name, part in parts.items() if part is not None})
        elif arrow is None:
            _write_csv(file, _to_columns(arrays))
        else:
            arrow.parquet.write_table(arrow.table(_to_columns(arrays)), file)


def _plain(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return texts in the one form that needs no pickle."""
    return column.astype(np.str_) if column.dtype == object else column


def _write_csv(file: BinaryIO, table: Mapping[str, list[Any]]) -> None:
    # Cells that begin with a space or hold the end of a line keep them only within quotes.
    free = [cells for name, cells in table.items() if name in MEMBERS or name not in COLUMNS]
    texts = (cell for cells in (*free, table) for cell in cells if isinstance(cell, str))
    plain = all(cell.isprintable() and cell[:1] != " " for cell in texts)
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
    own = {name: column.tolist() for name, column in arrays["columns"].items()}
    return {name: column for name, column in columns.items() if name not in unused} | own

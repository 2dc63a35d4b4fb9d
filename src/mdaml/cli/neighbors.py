"""``mdaml neighbors``: the nearest items under a learned distance."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from mdaml._typing import FloatArray
from mdaml.cli._columns import Wanted
from mdaml.cli._models import SavedModel, load_model
from mdaml.cli._options import (
    DataArgument,
    DropOption,
    IdOption,
    JsonOption,
    ModelArgument,
    split_names,
)
from mdaml.cli._output import CommandError
from mdaml.cli._screen import Screen, talking
from mdaml.cli._tables import Table, check_file, read_table, row_slices

_DISTANCES = 1 << 25  # held at a time


def neighbors(
    model: ModelArgument,
    data: DataArgument,
    query: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Id of an item of DATA, or its row where there are no ids; repeat for more.",
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Vectors to look for, a table like DATA; or .txt with an id a line.",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many neighbours.")] = 10,
    id_column: IdOption = None,
    drop: DropOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the nearest items of DATA to some items, or to new vectors.

    Beside the learned distance stands the place an item has by Euclidean distance.
    """
    with talking(as_json) as screen:
        if (not query) == (queries is None):
            raise CommandError("Say what to look for: --query ID, or --queries FILE.")
        saved = load_model(model)
        wanted = Wanted(id_column, None, split_names(drop), saved.features)
        with screen.working("searching"):
            table = read_table(data, wanted)
            saved.check(data, table.columns)
            sought = _sought(query or [], queries, table, saved, wanted)
            found = list(_search(saved.estimator, table, sought, k))
        _show(found, table, screen)
        screen.document |= {
            "command": "neighbors",
            "model": str(model),
            "data": table.facts(),
            "queries": [_record(item, table) for item in found],
        }


@dataclass(frozen=True)
class _Sought:
    """What to find neighbours for."""

    names: list[str]
    X: FloatArray  # (n, d)
    rows: list[int | None]  # in the table; None for new vectors


@dataclass(frozen=True)
class _Found:
    """The nearest rows of one query, nearest first."""

    name: str
    rows: list[int]
    distances: list[float]
    euclidean_ranks: list[int]


def _sought(
    names: list[str], path: Path | None, table: Table, saved: SavedModel, wanted: Wanted
) -> _Sought:
    if path is not None and path.suffix.lower() != ".txt":
        others = read_table(path, wanted)
        saved.check(path, others.columns)
        every = range(len(others.X))
        return _Sought([others.name(row) for row in every], others.X, [None for _ in every])
    if path is not None:
        names = _listed(path)
    rows = [table.row(name) for name in names]
    return _Sought(names, np.asarray(table.X[rows]), list(rows))


def _listed(path: Path) -> list[str]:
    check_file(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: it is not UTF-8 text: {error}.") from None
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise CommandError(f"{path}: the file is empty.")
    return names


def _search(model: Any, table: Table, sought: _Sought, k: int) -> Iterator[_Found]:
    """Yield the neighbours of each query; the table is mapped in blocks and never as a whole."""
    step = max(1, _DISTANCES // len(table.X))
    for start in range(0, len(sought.names), step):
        part = slice(start, start + step)
        X = sought.X[part].astype(np.float64)
        learned, plain = (np.empty((len(X), len(table.X))) for _ in range(2))
        Y = model.transform(X)
        for rows in row_slices(*table.X.shape):
            block = table.X[rows].astype(np.float64)
            mapped = model.transform(block)
            for q in range(len(X)):
                learned[q, rows] = np.linalg.norm(mapped - Y[q], axis=1)
                plain[q, rows] = np.linalg.norm(block - X[q], axis=1)
        for q, (name, own) in enumerate(zip(sought.names[part], sought.rows[part], strict=True)):
            yield _nearest(name, own, learned[q], plain[q], k)


def _nearest(name: str, own: int | None, learned: FloatArray, plain: FloatArray, k: int) -> _Found:
    """Return the k nearest rows, without the query itself; ties go to the earlier row."""
    n_others = len(learned)
    if own is not None:
        learned[own] = plain[own] = np.inf
        n_others -= 1
    k = min(k, n_others)
    if k == 0:
        return _Found(name, [], [], [])
    bound = np.partition(learned, k - 1)[k - 1]
    near = np.flatnonzero(learned <= bound)
    rows = near[np.argsort(learned[near], kind="stable")][:k]
    ranks = [1 + int(np.sum(plain < plain[row])) for row in rows]
    return _Found(name, rows.tolist(), learned[rows].tolist(), ranks)


def _record(found: _Found, table: Table) -> dict[str, Any]:
    return {
        "query": found.name,
        "neighbors": [
            {
                "id": table.name(row),
                "row": row,
                "distance": distance,
                "euclidean_rank": rank,
            }
            for row, distance, rank in zip(
                found.rows, found.distances, found.euclidean_ranks, strict=True
            )
        ],
    }


def _show(found: list[_Found], table: Table, screen: Screen) -> None:
    """Show a table for each query; where nobody watches, one for all, to be read by programs."""
    columns = ("rank", "id", "distance", "Euclidean rank")
    rows_of = [
        [
            [n + 1, table.name(row), f"{distance:#.6g}", rank]
            for n, (row, distance, rank) in enumerate(
                zip(item.rows, item.distances, item.euclidean_ranks, strict=True)
            )
        ]
        for item in found
    ]
    if not screen.is_terminal:
        rows = [
            [item.name, *row] for item, rows in zip(found, rows_of, strict=True) for row in rows
        ]
        screen.say_table("", ("query", *columns), rows)
        return
    for item, rows in zip(found, rows_of, strict=True):
        screen.say_table(f"Nearest to {item.name}", columns, rows)

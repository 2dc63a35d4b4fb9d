"""``mdaml neighbors``: the nearest items under a learned distance."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from mdaml._typing import FloatArray
from mdaml.cli import _options as options
from mdaml.cli._inputs import check_file, choose_columns, describe_data, read_data
from mdaml.cli._models import check_width, load_model
from mdaml.cli._screen import CommandError, Screen, convert_errors, run_command
from mdaml.io.columns import Table
from mdaml.io.tables import slice_rows

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Neighbor: TypeAlias = dict[str, Any]  # of a query, for the document
_N_REASONS = 3  # features and modes that are named
_DISTANCES = 1 << 25  # held at a time


def neighbors(
    model: options.Model,
    data: options.Data,
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
            help="Vectors to look for, a table like DATA; or .txt with one id per line.",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="How many neighbours.")] = 10,
    why: Annotated[
        bool,
        typer.Option("--why", help="Name the features and modes that make most of each distance."),
    ] = False,
    who: options.Person = None,
    kind: options.Kind = None,
    id_column: options.Id = None,
    drop: options.Drop = None,
    encoding: options.Encoding = None,
    na: options.Na = None,
    duplicates: options.Duplicates = "error",
    as_json: options.Json = False,
) -> None:
    """List the nearest items of DATA to some items, or to new vectors.

    Each item is listed with its learned distance and its rank by Euclidean distance.
    """
    with run_command(as_json) as screen:
        if (not query) == (queries is None):
            raise CommandError("Choose what to look for: --query ID, or --queries FILE.")
        estimator, known = load_model(model, who=who, kind=kind)
        columns = choose_columns(
            id_column, drop, known=known, encoding=encoding, na=na, duplicates=duplicates
        )
        own: Sequence[int | None]
        with screen.show_progress("searching"):
            with screen.collect_warnings():
                table = read_data(data, columns)
            check_width(estimator, model, table)
            if queries is not None and queries.suffix.lower() != ".txt":
                with screen.collect_warnings():
                    sought = read_data(queries, columns)
                check_width(estimator, model, sought)
                names = [sought.get_name(row) for row in range(len(sought.X))]
                vectors, own = sought.X, [None] * len(names)
            else:
                names = (query or []) if queries is None else _read_names(queries)
                with screen.collect_warnings(), convert_errors():
                    rows = table.find_rows(names)
                vectors, own = table.X[rows], rows
            found = list(_search(estimator, table, vectors, own, k))
            if why:
                with convert_errors():
                    _explain(estimator, table, vectors, found)
        _print_found(names, found, screen)
        screen.document |= {
            "command": "neighbors",
            "model": str(model),
            "data": describe_data(table),
            "queries": [
                {"query": name, "neighbors": near} for name, near in zip(names, found, strict=True)
            ],
        }


def _read_names(path: Path) -> list[str]:
    check_file(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: it is not UTF-8 text: {error}.") from None
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise CommandError(f"{path}: the file is empty. Write at least one line into it.")
    return names


def _search(
    model: "BaseEstimator", table: Table, queries: FloatArray, own: Sequence[int | None], k: int
) -> Iterator[list[Neighbor]]:
    """Yield the neighbours of each query; the table is mapped in blocks and never as a whole."""
    step = max(1, _DISTANCES // len(table.X))
    for start in range(0, len(queries), step):
        X = np.array(queries[start : start + step], np.float64)
        learned, plain = (np.empty((len(X), len(table.X))) for _ in range(2))
        Y = model.transform(X)
        for rows in slice_rows(*table.X.shape):
            block = table.X[rows].astype(np.float64)
            mapped = model.transform(block)
            for q in range(len(X)):
                learned[q, rows] = np.linalg.norm(mapped - Y[q], axis=1)
                plain[q, rows] = np.linalg.norm(block - X[q], axis=1)
        for q in range(len(X)):
            yield _find_nearest(table, own[start + q], learned[q], plain[q], k)


def _find_nearest(
    table: Table, own: int | None, learned: FloatArray, plain: FloatArray, k: int
) -> list[Neighbor]:
    """Return the k nearest rows, without the query itself; ties go to the earlier row."""
    n_others = len(learned)
    if own is not None:
        learned[own] = plain[own] = np.inf
        n_others -= 1
    if n_others == 0:
        return []
    k = min(k, n_others)
    near = np.flatnonzero(learned <= np.partition(learned, k - 1)[k - 1])
    rows = near[np.argsort(learned[near], kind="stable")][:k].tolist()
    return [
        {
            "id": table.get_name(row),
            "row": row,
            "distance": float(learned[row]),
            "euclidean_rank": 1 + int(np.sum(plain < plain[row])),
        }
        for row in rows
    ]


def _explain(
    model: "BaseEstimator", table: Table, queries: FloatArray, found: list[list[Neighbor]]
) -> None:
    """Add to each neighbour what makes most of its distance to the query, largest first."""
    from mdaml.inspection import explain_distance

    names = {f"x{place}": name for place, name in enumerate(table.features)}
    for query, near in zip(queries, found, strict=True):
        for item in near:
            shares = explain_distance(model, query, table.X[item["row"]])["share"]
            largest = shares.sort_values(ascending=False, kind="stable")[:_N_REASONS]
            item["why"] = [
                {"part": names.get(str(part), str(part)), "share": float(share)}
                for part, share in largest.items()
                if share > 0.0
            ]


def _print_found(names: list[str], found: list[list[Neighbor]], screen: Screen) -> None:
    """Print a table for each query; into a pipe one for all, to be read by programs."""
    columns = ["rank", "id", "distance", "Euclidean rank"]
    if any("why" in item for near in found for item in near):
        columns.append("why")
    tables = [
        [
            [rank, item["id"], f"{item['distance']:#.6g}", item["euclidean_rank"], *_reasons(item)]
            for rank, item in enumerate(near, 1)
        ]
        for near in found
    ]
    named = list(zip(names, tables, strict=True))
    if screen.console.is_terminal:
        for name, rows in named:
            screen.print_table(f"Nearest to {name}", columns, rows)
    else:
        joined = [[name, *row] for name, rows in named for row in rows]
        screen.print_table("", ("query", *columns), joined)


def _reasons(item: Neighbor) -> list[str]:
    if "why" not in item:
        return []
    return [", ".join(f"{each['part']} {each['share']:.0%}" for each in item["why"])]

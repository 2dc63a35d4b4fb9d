"""Queries, documents and relevant pairs of the commands ``adapt`` and ``evaluate``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from typer.models import ArgumentInfo

from mdaml._typing import Array, FloatArray, IntArray
from mdaml.cli._help import make_option
from mdaml.cli._inputs import check_file, count, name_option
from mdaml.cli._screen import CommandError, Screen, convert_errors
from mdaml.io.beir import (
    CLICK_COLUMNS,
    join_click_columns,
    read_click_columns,
    read_pairs,
    read_vectors,
)
from mdaml.io.columns import Table
from mdaml.io.messages import split_names

if TYPE_CHECKING:
    from mdaml.retrieval import RetrievalScores

_HELP = {
    "QUERIES": "Vectors of queries: .csv, .parquet, .npy, or .jsonl with the fields _id and "
    "embedding.",
    "DOCUMENTS": "Vectors of documents, in the same formats.",
    "RELEVANT": "Pairs of a query and a relevant document, optionally with a grade: .tsv like "
    "BEIR's qrels, .csv, .parquet or .npy.",
    "--clicks": "A log instead of RELEVANT: .csv, .tsv, .parquet or .jsonl with the columns query, "
    "document, position and clicked, perhaps impression or visit; a row for every document shown. "
    "Repeat the option for more files.",
    "--columns": "Names of these columns in your log, in the order query, document, position, "
    "clicked, perhaps visit, such as question,article,rank,click.",
    "--propensities": "How often each position of the log is looked at, such as 1,0.5,0.33. By "
    "default estimated.",
    "--query-vectors": "Vectors of the lines of QUERIES, a .jsonl file.",
    "--document-vectors": "Vectors of the lines of DOCUMENTS, a .jsonl file.",
    "--skip-unknown": "Skip pairs of unknown queries or documents, and count them.",
}


def _argument(name: str) -> ArgumentInfo:
    return typer.Argument(metavar=name, help=_HELP[name], show_default=False)


_option = partial(make_option, _HELP)
Queries = Annotated[Path, _argument("QUERIES")]
Documents = Annotated[Path, _argument("DOCUMENTS")]
Relevant = Annotated[Path, _argument("RELEVANT")]
PerhapsRelevant = Annotated[
    Path | None, typer.Argument(metavar="[RELEVANT]", help=_HELP["RELEVANT"], show_default=False)
]
Clicks = Annotated[list[Path] | None, _option("--clicks", "FILE")]
ClickColumns = Annotated[str | None, _option("--columns", "NAMES")]
Propensities = Annotated[str | None, _option("--propensities", "LIST")]
QueryVectors = Annotated[Path | None, _option("--query-vectors", "FILE")]
DocumentVectors = Annotated[Path | None, _option("--document-vectors", "FILE")]
SkipUnknown = Annotated[bool, _option("--skip-unknown")]


def read_search(
    files: tuple[Path, Path, Path],
    vectors: tuple[Path | None, Path | None],
    skip_unknown: bool,
    screen: Screen,
) -> tuple[Table, Table, FloatArray]:
    """Return queries, documents, and rows of both with grades, (n_pairs, 3); describe them."""
    queries, documents = _read_both(files, vectors, screen)
    with convert_errors():
        pairs = read_pairs(files[2], name_option)
    names = [query for query, _, _ in pairs], [document for _, document, _ in pairs]
    rows, kept = _find_known((queries, documents), names, str(files[2]), skip_unknown)
    grades = np.array([grade for _, _, grade in pairs])
    known = np.column_stack([rows, grades])[kept]
    n_skipped = len(pairs) - len(kept)
    _describe(screen, queries, documents, known[:, 0].astype(int), n_skipped)
    return queries, documents, known


def read_click_log(
    files: tuple[Path, ...],
    vectors: tuple[Path | None, Path | None],
    own: str | None,
    skip_unknown: bool,
    screen: Screen,
) -> tuple[Table, Table, Array]:
    """Return queries, documents, and the rows of logs as texts, with row numbers for names.

    The first two files are those of queries and documents, the others are logs, whose columns may
    have names of their own.
    """
    queries, documents = _read_both(files, vectors, screen)
    with convert_errors():
        names_of = split_names(own or "")
        logs_read = [read_click_columns(path, names_of, name_option) for path in files[2:]]
        columns = join_click_columns(logs_read)
    names = columns["query"], columns["document"]
    logs = ", ".join(map(str, files[2:]))
    rows, kept = _find_known((queries, documents), names, logs, skip_unknown, "row")
    others = [columns[name] for name in CLICK_COLUMNS[2:] if name in columns]
    log = np.array([*rows.T.astype(str).tolist(), *others], object).T[kept]
    _describe(screen, queries, documents, rows[kept, 0], len(rows) - len(kept), "row", "clicks")
    return queries, documents, log


def _read_both(
    files: tuple[Path, ...], vectors: tuple[Path | None, Path | None], screen: Screen
) -> tuple[Table, Table]:
    for path in (*files, *vectors):
        if path is not None:
            check_file(path)
    with screen.show_progress(f"reading {files[1]}"), convert_errors():
        queries = read_vectors(files[0], vectors[0], "--query-vectors FILE.npy")
        documents = read_vectors(files[1], vectors[1], "--document-vectors FILE.npy")
    if queries.X.shape[1] != documents.X.shape[1]:
        raise CommandError(
            f"{files[0]} has vectors of {queries.X.shape[1]} numbers, {files[1]} of "
            f"{documents.X.shape[1]}. Both must come from the same encoder."
        )
    return queries, documents


def _find_known(
    tables: tuple[Table, Table],
    names: tuple[list[str], list[str]],
    path: str,
    skip_unknown: bool,
    unit: str = "pair",
) -> tuple[IntArray, IntArray]:
    """Return rows of both tables, (n, 2), and which of these are known; refuse others."""
    rows = np.column_stack([_find_rows(*side) for side in zip(tables, names, strict=True)])
    unknown = np.flatnonzero((rows < 0).any(axis=1))
    if len(unknown) and (not skip_unknown or len(unknown) == len(rows)):
        if all((_find_rows(*pair) >= 0).all() for pair in zip(tables, names[::-1], strict=True)):
            raise CommandError(
                f"{path}: the column of queries names documents, and that of documents names "
                "queries. Swap the names of these columns."
            )
        side = int(rows[unknown[0], 0] >= 0)
        advice = f"--skip-unknown leaves such {unit}s out."
        if len(unknown) == len(rows):
            advice = "use the same names in both files."
        raise CommandError(
            f"{path}: {names[side][unknown[0]]!r} is not in {tables[side].path}. "
            f"{tables[side].describe_names()} {count(len(unknown), unit)} of {len(rows)} cannot "
            f"be used; {advice}"
        )
    return rows, np.setdiff1d(np.arange(len(rows)), unknown)


def _find_rows(table: Table, names: list[str]) -> IntArray:
    """Return the rows of names, -1 for unknown ones."""
    known = map(str, range(len(table.X))) if table.ids is None else table.ids.tolist()
    places = {name: row for row, name in enumerate(known)}
    return np.array([places.get(name, -1) for name in names], np.int64)


def _describe(
    screen: Screen,
    queries: Table,
    documents: Table,
    rows: IntArray,
    n_unknown: int,
    unit: str = "pair",
    what: str = "relevant",
) -> None:
    n_asked = len(np.unique(rows))
    for name, table in (("queries", queries), ("documents", documents)):
        n, d = table.X.shape
        screen.add_fact(
            name, f"{table.path}: {n} vectors of {d} numbers", {"file": str(table.path), "rows": n}
        )
    skipped = f"; {count(n_unknown, unit)} left out" if n_unknown else ""
    screen.add_fact(
        what,
        f"{count(len(rows), unit)} of {count(n_asked, 'query', 'queries')}{skipped}",
        {f"{unit}s": len(rows), "queries": n_asked, "skipped": n_unknown},
    )


def print_scores(found: "RetrievalScores", names: Table, screen: Screen) -> None:
    """Print scores beside those of the base, and the queries that lost most."""
    rows = []
    for name in found.measures:
        low, high = found.interval[name]
        numbers = (found.scores[name], found.base[name])
        change = f"{found.difference[name]:+.4f}"
        rows.append([name, *(f"{n:.4f}" for n in numbers), change, f"{low:+.4f} to {high:+.4f}"])
    columns = ("score", "model", "base", "change", "95 % interval")
    screen.print_table(f"Scores of {len(found.queries)} queries", columns, rows)
    lost = [[names.get_name(row), f"{ours:.4f}", f"{base:.4f}"] for row, ours, base in found.lost]
    if lost:
        screen.print()
        screen.print_table("Queries that lost most, by nDCG", ("query", "model", "base"), lost)
    screen.document["scores"] = {
        name: {
            "model": found.scores[name],
            "base": found.base[name],
            "change": found.difference[name],
            "interval": list(found.interval[name]),
        }
        for name in found.measures
    }
    screen.document["lost"] = [
        {"query": names.get_name(row), "model": ours, "base": base}
        for row, ours, base in found.lost
    ]

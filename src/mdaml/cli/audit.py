"""``mdaml audit``: what a model makes of every comparison, and which ones may be wrong."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from mdaml.cli._columns import Wanted
from mdaml.cli._comparisons import ComparisonFiles
from mdaml.cli._models import load_model
from mdaml.cli._options import (
    ConstraintsOption,
    DataArgument,
    DropOption,
    IdOption,
    JsonOption,
    ModelArgument,
    PairsOption,
    QuadrupletsOption,
    SkipOption,
    TripletsOption,
    split_names,
)
from mdaml.cli._output import CommandError, staging
from mdaml.cli._screen import Screen, blaming_input, talking
from mdaml.cli._tables import Table
from mdaml.cli.fit import read_inputs

_MEMBERS = ("a", "b", "c", "d")
_MEANINGS = {
    "kept": "holds",
    "redundant": "holds, and follows from others",
    "violated": "does not hold, but nearly",
    "suspected wrong": "does not hold; the answer is probably wrong",
    "ignored across modes": "does not hold; its points are of different modes",
}


def audit(
    model: ModelArgument,
    data: DataArgument,
    triplets: TripletsOption = None,
    pairs: PairsOption = None,
    quadruplets: QuadrupletsOption = None,
    constraints: ConstraintsOption = None,
    skip_invalid: SkipOption = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a row for every comparison, .csv or .parquet."),
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, help="How many of the most suspicious comparisons to show.")
    ] = 10,
    id_column: IdOption = None,
    drop: DropOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which comparisons hold, and which answers are probably wrong.

    Suspicion is the probability that an answer is wrong, given all answers and the model.
    """
    files = ComparisonFiles(triplets, pairs, quadruplets, constraints)
    with talking(as_json) as screen:
        if not files:
            raise CommandError("There is nothing to audit: give --triplets, --pairs or others.")
        screen.document["command"] = "audit"
        saved = load_model(model)
        screen.tell("model", saved.describe(), str(model))
        wanted = Wanted(id_column, None, split_names(drop), saved.features)
        with nullcontext() if out is None else staging(out, (".csv", ".parquet")) as temporary:
            table, given = read_inputs(data, wanted, files, screen, skip_invalid)
            saved.check(data, table.columns)
            assert given is not None
            with screen.working("auditing"), blaming_input():
                frame = _audit(saved.estimator, table, given.constraints)
            if temporary is not None and out is not None:
                _write(frame, temporary, out.suffix.lower())
        screen.document["out"] = None if out is None else str(out)
        screen.say_facts()
        _show_counts(frame, screen)
        _show_top(frame, top, screen)
        if out is not None:
            screen.say(f"All {len(frame)} comparisons: {out}")


def _audit(model: Any, table: Table, constraints: Any) -> Any:
    """Return the frame of the audit, with ids for the members."""
    from mdaml.inspection import audit as audit_comparisons

    frame = audit_comparisons(model, table.X, constraints=constraints)
    for name in _MEMBERS:
        if table.ids is not None and name in frame:
            known = frame[name].notna().to_numpy()
            ids = np.full(len(frame), None, dtype=object)
            ids[known] = table.ids[frame[name][known].to_numpy(np.int64)]
            frame[name] = ids
    return frame


def _write(frame: Any, path: Path, suffix: str) -> None:
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False, engine="pyarrow")


def _show_counts(frame: Any, screen: Screen) -> None:
    counts = frame["category"].value_counts(sort=False)
    screen.document["categories"] = {str(name): int(n) for name, n in counts.items()}
    rows = [
        [name, int(n), f"{n / len(frame):.1%}", _MEANINGS[str(name)]] for name, n in counts.items()
    ]
    screen.say()
    screen.say_table("What became of them", ("category", "count", "share", "meaning"), rows)


def _show_top(frame: Any, n: int, screen: Screen) -> None:
    """Show the comparisons that are most likely wrong, the likeliest first."""
    first = frame.sort_values("suspicion", ascending=False, kind="stable").head(n)
    members = [name for name in _MEMBERS if name in frame]
    columns = [*members, "suspicion", "slack", "category"]
    if frame["kind"].nunique() > 1:
        columns = ["kind", *columns]
    records = [
        {name: _plain(value) for name, value in zip(columns, row, strict=True)}
        for row in first[columns].itertuples(index=False)
    ]
    screen.document["most_suspicious"] = records
    if not records:
        return
    screen.say()
    rows = [[_cell(value) for value in record.values()] for record in records]
    screen.say_table("Most likely wrong", columns, rows)


def _plain(value: Any) -> Any:
    """Return a value that JSON knows; None where there is none."""
    if value is None or value != value or str(value) == "<NA>":
        return None
    return value.item() if hasattr(value, "item") else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)

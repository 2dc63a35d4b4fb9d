"""``mdaml audit``: what a model makes of every comparison, and which ones may be wrong."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from mdaml.cli import _options as options
from mdaml.cli._inputs import choose_columns, list_files, read_inputs
from mdaml.cli._models import check_width, load_model
from mdaml.cli._screen import CommandError, Screen, convert_errors, replace_output, run_command
from mdaml.constraints import Constraints
from mdaml.io.tables import Table
from mdaml.io.writers import write_frame

_MEMBERS = ("a", "b", "c", "d")
_MEANINGS = {
    "kept": "holds",
    "redundant": "holds, and follows from others",
    "violated": "does not hold, but nearly",
    "suspected wrong": "does not hold; the answer is probably wrong",
    "ignored across modes": "does not hold; its points are of different modes",
}


def audit(
    model: options.Model,
    data: options.Data,
    triplets: options.Triplets = None,
    pairs: options.Pairs = None,
    quadruplets: options.Quadruplets = None,
    constraints: options.Mixed = None,
    answer_columns: options.AnswerColumns = None,
    form: options.AnswerForm = None,
    skip_invalid: options.SkipInvalid = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a row for every comparison, .csv or .parquet."),
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, help="How many of the most suspicious comparisons to show.")
    ] = 10,
    id_column: options.Id = None,
    drop: options.Drop = None,
    as_json: options.Json = False,
) -> None:
    """Find out which comparisons hold, and which answers are probably wrong.

    Suspicion is the probability that an answer is wrong, given all answers and the model.
    """
    with run_command(as_json) as screen:
        files = list_files((triplets, pairs, quadruplets, constraints), answer_columns, form)
        if not files:
            raise CommandError("There is nothing to audit: give --triplets, --pairs or others.")
        screen.document["command"] = "audit"
        estimator, features = load_model(model)
        screen.add_fact("model", f"{model}: {type(estimator).__name__}", str(model))
        columns = choose_columns(id_column, drop, features=features)
        output = nullcontext() if out is None else replace_output(out, (".csv", ".parquet"))
        with output as part:
            table, compared = read_inputs(data, columns, files, screen, skip_invalid)
            check_width(estimator, model, table)
            with screen.show_progress("auditing"), convert_errors():
                frame = _audit(estimator, table, compared)
            if part is not None and out is not None:
                write_frame(part, out.suffix.lower(), frame)
        screen.document["out"] = None if out is None else str(out)
        screen.print_facts()
        _print_counts(frame, screen)
        _print_top(frame, top, screen)
        if out is not None:
            screen.print(f"All {len(frame)} comparisons: {out}")


def _audit(model: Any, table: Table, compared: Constraints | None) -> Any:
    """Return the frame of the audit, with ids for the members."""
    from mdaml.inspection import audit as audit_comparisons

    return audit_comparisons(model, table.X, constraints=compared, ids=table.ids)


def _print_counts(frame: Any, screen: Screen) -> None:
    counts = frame["category"].value_counts(sort=False)
    screen.document["categories"] = {str(name): int(n) for name, n in counts.items()}
    shares = {name: f"{n / len(frame):.1%}" for name, n in counts.items()}
    rows = [[name, int(n), shares[name], _MEANINGS[str(name)]] for name, n in counts.items()]
    screen.print()
    screen.print_table("What became of them", ("category", "count", "share", "meaning"), rows)


def _print_top(frame: Any, n: int, screen: Screen) -> None:
    """Print the comparisons that are most likely wrong, the likeliest first."""
    first = frame.sort_values("suspicion", ascending=False, kind="stable").head(n)
    columns = [*(name for name in _MEMBERS if name in frame), "suspicion", "slack", "category"]
    if frame["kind"].nunique() > 1:
        columns = ["kind", *columns]
    plain = first[columns].astype(object)
    records = plain.where(plain.notna(), None).to_dict("records")
    screen.document["most_suspicious"] = records
    if records:
        screen.print()
        rows = [[_format_cell(value) for value in record.values()] for record in records]
        screen.print_table("Most likely wrong", columns, rows)


def _format_cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else str(value)

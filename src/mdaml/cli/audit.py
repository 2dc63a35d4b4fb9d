"""``mdaml audit``: which comparisons or labels a model agrees with, and which may be wrong."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import numpy as np
import typer

from mdaml.cli import _options as options
from mdaml.cli._inputs import choose_columns, list_files, read_inputs
from mdaml.cli._models import check_width, get_labels, load_model
from mdaml.cli._screen import CommandError, Screen, convert_errors, replace_output, run_command
from mdaml.io.columns import Table
from mdaml.io.writers import write_frame

if TYPE_CHECKING:
    from pandas import DataFrame
    from sklearn.base import BaseEstimator

    from mdaml.constraints import Constraints

_MEMBERS = ("a", "b", "c", "d")
_MEANINGS = {
    "kept": "holds",
    "redundant": "holds, and follows from others",
    "violated": "does not hold, but nearly",
    "suspected wrong": "does not hold; the answer is probably wrong",
    "ignored across modes": "does not hold; its points are of different modes",
}

_LABEL_MEANINGS = {
    "kept": "neighbours of its label are nearer than others",
    "violated": "others are nearer, but hardly",
    "suspected wrong": "others are nearer; the label is probably wrong",
}
_LABELLED = ("id", "row", "label", "other")
_Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write a row for every comparison or label, .csv or .parquet."
    ),
]
_Top: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=0, help="How many of the most suspicious ones to show.")
]
_Seconds: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="With --who: how long each answer took.")
]
_Left: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="With --who: 1 if the chosen item was on the left, else 0."
    ),
]


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
    labels: options.Labels = None,
    out: _Out = None,
    top: _Top = 10,
    raw: options.Raw = False,
    who: options.Who = None,
    seconds: _Seconds = None,
    left: _Left = None,
    id_column: options.Id = None,
    drop: options.Drop = None,
    encoding: options.Encoding = None,
    na: options.Na = None,
    duplicates: options.Duplicates = "error",
    as_json: options.Json = False,
) -> None:
    """Find out which comparisons hold, and which answers or labels are probably wrong.

    Without comparisons, the labels that the model has learned from are audited. Suspicion is the
    probability that an answer or a label is wrong, given all of them and the model.
    """
    with run_command(as_json) as screen:
        files = list_files((triplets, pairs, quadruplets, constraints), answer_columns, form)
        named = {"who": who, "seconds": seconds, "left": left}
        _check_named(named, has_files=bool(files))
        screen.document["command"] = "audit"
        estimator, known = load_model(model)
        labels = get_labels(labels, known) if not files else labels
        if (not files) == (labels is None):
            what = "There is nothing to audit: give" if not files else "Audit one at a time:"
            raise CommandError(f"{what} comparisons, such as --triplets FILE, or --labels COLUMN.")
        screen.add_fact("model", f"{model}: {type(estimator).__name__}", str(model))
        columns = choose_columns(
            id_column, drop, labels, known, encoding=encoding, na=na, duplicates=duplicates
        )
        inputs = (model, data, id_column, labels, *(file.path for file in files))
        suffixes = (".csv", ".parquet")
        no_output = nullcontext(None)
        with no_output if out is None else replace_output(out, suffixes, inputs=inputs) as part:
            table, compared = read_inputs(data, columns, files, screen, skip_invalid)
            check_width(estimator, model, table)
            with screen.show_progress("auditing"), screen.collect_warnings(), convert_errors():
                frame, persons = _audit(estimator, table, compared, named)
            if part is not None and out is not None:
                write_frame(part, out.suffix.lower(), frame, raw=raw)
        screen.document["out"] = None if out is None else str(out)
        screen.print_facts()
        _print_counts(frame, screen)
        _print_top(frame, top, screen)
        if persons is not None:
            _print_persons(persons, screen)
        if out is not None:
            what = "comparisons" if files else "labels"
            screen.print(f"All {len(frame)} {what}: {out}")


def _check_named(named: dict[str, str | None], *, has_files: bool) -> None:
    """Refuse columns of persons where there are no persons, or no comparisons."""
    if named["who"] is None and (named["seconds"] or named["left"]):
        raise CommandError("--seconds and --left describe persons: give --who too.")
    if named["who"] is not None and not has_files:
        raise CommandError("--who is about comparisons: give --triplets FILE, or others, too.")


def _audit(
    model: "BaseEstimator",
    table: Table,
    compared: "Constraints | None",
    named: dict[str, str | None],
) -> "tuple[DataFrame, DataFrame | None]":
    """Return the frame of the comparisons or labels, and that of the persons if there are any."""
    from mdaml.inspection import audit as audit_comparisons

    if compared is None:
        return _audit_labels(model, table), None
    who, seconds, left = (named[name] for name in ("who", "seconds", "left"))
    if who is None:
        return audit_comparisons(model, table.X, constraints=compared, ids=table.ids), None
    persons = audit_comparisons(
        model, table.X, constraints=compared, who=who, seconds=seconds, left=left
    )
    if hasattr(model, "metric_for"):
        return _audit_by_who(model, table, compared, who), persons
    return audit_comparisons(model, table.X, constraints=compared, ids=table.ids), persons


def _audit_by_who(
    model: "BaseEstimator", table: Table, compared: "Constraints", who: str
) -> "DataFrame":
    """Return the frame of the comparisons, each judged by the metric of the person who made it.

    The shared metric would call honest answers of a smaller kind wrong.
    """
    import pandas as pd

    from mdaml.constraints.persons import Persons, column_of
    from mdaml.inspection import audit as audit_comparisons

    persons, frames = Persons.from_who(column_of(compared, who), compared.n_constraints), []
    for code, name in enumerate(persons.names):
        rows = np.flatnonzero(persons.codes == code)
        own = compared.select(rows)
        found = audit_comparisons(model.metric_for(name), table.X, constraints=own, ids=table.ids)
        frames.append(found.set_axis(rows))
    return pd.concat(frames).sort_index()


def _audit_labels(model: "BaseEstimator", table: Table) -> "DataFrame":
    """Return the frame of the labels, with ids for the rows."""
    from mdaml.inspection import audit_labels

    assert table.labels is not None
    codes = table.encode_labels()
    names = dict(zip(codes.tolist(), table.labels.tolist(), strict=True))
    frame = audit_labels(model, table.X, codes)
    for name in ("label", "other"):
        frame[name] = [names[code] for code in frame[name]]
    if table.ids is not None:
        frame.insert(0, "id", table.ids[frame.pop("row")])
    return frame


def _print_persons(persons: "DataFrame", screen: Screen) -> None:
    screen.document["persons"] = _print_records("Persons", persons, screen)


def _print_counts(frame: "DataFrame", screen: Screen) -> None:
    counts = frame["category"].value_counts(sort=False)
    screen.document["categories"] = {str(name): int(n) for name, n in counts.items()}
    shares = {name: f"{n / len(frame):.1%}" for name, n in counts.items()}
    meanings = _MEANINGS if "kind" in frame else _LABEL_MEANINGS
    rows = [[name, int(n), shares[name], meanings[str(name)]] for name, n in counts.items()]
    screen.print()
    screen.print_table("By category", ("category", "count", "share", "meaning"), rows)


def _print_top(frame: "DataFrame", n: int, screen: Screen) -> None:
    """Print the comparisons that are most likely wrong, the likeliest first."""
    first = frame.sort_values("suspicion", ascending=False, kind="stable").head(n)
    columns = [*(name for name in (*_MEMBERS, *_LABELLED) if name in frame)]
    columns += ["suspicion", "slack", "category"]
    if "kind" in frame and frame["kind"].nunique() > 1:
        columns = ["kind", *columns]
    records = _print_records("Most likely wrong", first[columns], screen)
    screen.document["most_suspicious"] = records


def _print_records(title: str, frame: "DataFrame", screen: Screen) -> list[dict[str, object]]:
    """Print a data frame, if it has rows, and return its rows for the document."""
    plain = frame.astype(object)
    records: list[dict[str, object]] = plain.where(plain.notna(), None).to_dict("records")
    if records:
        screen.print()
        rows = [[_format_cell(value) for value in record.values()] for record in records]
        screen.print_table(title, list(frame.columns), rows)
    return records


def _format_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else str(value)

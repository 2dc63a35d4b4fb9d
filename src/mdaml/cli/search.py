"""``mdaml search``: choose the parameters of a method by what is held out."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mdaml._typing import Params
from mdaml._validation import has_unit_rows
from mdaml.cli import _options as options
from mdaml.cli._inputs import check_scored, choose_columns, list_files, read_inputs
from mdaml.cli._models import (
    MODEL_SUFFIXES,
    Value,
    check_usage,
    choose_supervision,
    make_estimator,
    parse_grid,
    parse_params,
    save_model,
)
from mdaml.cli._options import get_class
from mdaml.cli._screen import CommandError, Screen, convert_errors, replace_output, run_command

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Grid: TypeAlias = dict[str, list[Value]]
_STEP = "metric"
_Jobs: TypeAlias = Annotated[
    int, typer.Option(metavar="N", help="Folds to run at a time; -1 is one for every core.")
]


def search(
    data: options.Data,
    out: options.ModelOut,
    triplets: options.Triplets = None,
    pairs: options.Pairs = None,
    quadruplets: options.Quadruplets = None,
    constraints: options.Mixed = None,
    answer_columns: options.AnswerColumns = None,
    form: options.AnswerForm = None,
    skip_invalid: options.SkipInvalid = False,
    labels: options.Labels = None,
    id_column: options.Id = None,
    drop: options.Drop = None,
    encoding: options.Encoding = None,
    na: options.Na = None,
    duplicates: options.Duplicates = "error",
    missing: options.MissingRule = "error",
    categorical: options.Categorical = None,
    method: options.MethodName = "mdaml",
    grid: options.Grid = None,
    param: options.Params = None,
    folds: options.Folds = 5,
    hold_out: options.HeldOut = "comparisons",
    scale: options.Scale = True,
    seed: options.Seed = 0,
    jobs: _Jobs = 1,
    compact: options.Compact = True,
    as_json: options.Json = False,
) -> None:
    """Choose parameters on held-out data, learn with the best, and save the model.

    No labels are needed: parameters are scored by the share of held-out comparisons that hold.
    """
    with run_command(as_json) as screen:
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import StandardScaler

        from mdaml.model_selection import ConstraintKFold, MetricSearchCV, PointKFold

        files = list_files((triplets, pairs, quadruplets, constraints), answer_columns, form)
        if method == "mdamlcv":
            raise CommandError("mdamlcv chooses its parameters itself: mdaml fit --method mdamlcv.")
        check_usage(method, bool(files), labels)
        check_scored(files, labels)
        estimator = make_estimator(method, parse_params(param), seed)
        grids = _choose_grids(method, parse_grid(grid), seed)
        columns = choose_columns(
            id_column,
            drop,
            labels,
            encoding=encoding,
            na=na,
            missing=missing,
            categorical=categorical,
            duplicates=duplicates,
        )
        inputs = (data, id_column, labels, *(file.path for file in files))
        with replace_output(out, MODEL_SUFFIXES, inputs=inputs) as part:
            table, compared = read_inputs(data, columns, files, screen, skip_invalid)
            scale = scale and not has_unit_rows(table.X)
            if scale:  # inside the search: the scale of held-out points must not be known to a fit
                estimator = Pipeline([("scale", StandardScaler()), (_STEP, estimator)])
                grids = [{f"{_STEP}__{name}": v for name, v in each.items()} for each in grids]
            supervision = choose_supervision(compared, table)
            by_points = compared is None or hold_out == "points"
            cv = (PointKFold if by_points else ConstraintKFold)(folds, random_state=seed)
            start = time.perf_counter()
            searched = MetricSearchCV(estimator, grids, cv=cv, n_jobs=jobs, random_state=seed)
            progress, warned = screen.follow_work("searching"), screen.collect_warnings()
            with progress, warned, _name_folds(folds), convert_errors():
                searched.fit(table.X, **supervision)
            seconds = time.perf_counter() - start
            best = _fold_scaling(searched.best_estimator_)
            save_model(best, part, table, compared, suffix=out.suffix, compact=compact)
        _report(screen, out, searched, seconds, has_labels=compared is None)


def _fold_scaling(best: "BaseEstimator") -> "BaseEstimator":
    """Return a model of samples as they are."""
    from sklearn.pipeline import Pipeline

    from mdaml.estimators.folding import fold_steps

    if isinstance(best, Pipeline):
        return fold_steps(best.named_steps[_STEP], [best.named_steps["scale"]])
    return best


def _choose_grids(method: str, grid: Grid, seed: int) -> list[Grid]:
    """Return the values to try, those of the method if none are given."""
    make_estimator(method, {name: values[0] for name, values in grid.items()}, seed)
    return [grid] if grid else get_class(method).default_grid


@contextmanager
def _name_folds(folds: int) -> Iterator[None]:
    """Name the option in the message if there is too little for so many folds."""
    try:
        yield
    except CommandError as error:
        if "n_splits" in str(error):
            raise CommandError(f"--folds {folds}: {error}", code=error.code) from error
        raise


def _report(
    screen: Screen, out: Path, searched: "BaseEstimator", seconds: float, *, has_labels: bool
) -> None:
    results = searched.cv_results_
    records: list[Params] = [
        {
            "params": {n.removeprefix(f"{_STEP}__"): v for n, v in results["params"][row].items()},
            "mean": float(results["mean_test_score"][row]),
            "std": float(results["std_test_score"][row]),
            "finished": bool(results["finished"][row]),
        }
        for row in results["rank_test_score"].argsort(kind="stable")
    ]
    screen.document |= {
        "command": "search",
        "model": str(out),
        "results": records,
        "best_params": records[0]["params"],
        "best_score": searched.best_score_,
        "start_score": searched.start_score_,
        "start_kept": searched.start_kept_,
        "gain": searched.gain_,
        "seconds": seconds,
    }
    screen.print_facts()
    screen.print()
    names = list(dict.fromkeys(name for record in records for name in record["params"]))
    rows = [
        [
            *(_format_value(record["params"].get(name, "")) for name in names),
            f"{record['mean']:.4f}",
            f"{record['std']:.4f}",
            "" if record["finished"] else "given up early",
        ]
        for record in records
    ]
    what = "3-NN accuracy" if has_labels else "comparisons that hold"
    title = f"Held-out {what}: mean and deviation of {searched.n_splits_} folds, the best first"
    screen.print_table(title, (*names, "score", "deviation", "note"), rows)
    screen.print(f"Before learning: {searched.start_score_:.4f}")
    saved = "fitted to everything"
    if searched.start_kept_:
        saved = "no better than chance, so the distance before learning is saved"
    screen.print(f"Best of {len(records)} in {seconds:.1f} s, {saved}: {out}")


def _format_value(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)

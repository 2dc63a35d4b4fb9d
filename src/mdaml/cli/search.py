"""``mdaml search``: choose the parameters of a method by what is held out."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mdaml.cli._columns import Wanted
from mdaml.cli._comparisons import ComparisonFiles
from mdaml.cli._models import (
    check_supervision,
    make_estimator,
    parse_grid,
    parse_params,
    save_model,
    supervise,
)
from mdaml.cli._options import (
    ConstraintsOption,
    DataArgument,
    DropOption,
    IdOption,
    JsonOption,
    LabelsOption,
    Method,
    MethodOption,
    ModelOut,
    PairsOption,
    ParamOption,
    QuadrupletsOption,
    ScaleOption,
    SeedOption,
    SkipOption,
    TripletsOption,
    split_names,
)
from mdaml.cli._output import CommandError, staging
from mdaml.cli._scaling import Scaling, fold_scaling
from mdaml.cli._screen import Screen, blaming_input, talking
from mdaml.cli._tables import Table
from mdaml.cli.fit import read_inputs

_STEP = "metric"
_MODES, _WEIGHTS = (1, 3, 10), (10.0, 30.0, 100.0, 300.0, 1000.0)
_GRIDS: dict[Method, Any] = {
    # The weight that is worth the same grows like the number of modes to the power eta, 3.
    Method.MDAML: [
        {"n_modes": [K], "triplet_weight": [weight * K**3 for weight in _WEIGHTS]} for K in _MODES
    ],
    Method.LMNN: {"n_neighbors": [1, 3, 5, 10]},
    Method.GMML: {"t": [0.1, 0.3, 0.5, 0.7, 0.9]},
    Method.KISSME: {"reg": [1e-6, 1e-3, 1e-2, 0.1, 1.0]},
    Method.DML_EIG: {"mu": [1e-3, 1e-2, 0.1, 1.0]},
    Method.DMLMJ: {"n_neighbors": [3, 5, 10, 20]},
    Method.LFDA: {"n_neighbors": [3, 7, 15, 30]},
    Method.DML_DC: {"ridge": [1e-4, 1e-3, 1e-2, 0.1]},
    Method.EUCLIDEAN: {},
}


class HoldOut(StrEnum):
    """What a search holds out to score by."""

    COMPARISONS = "comparisons"
    POINTS = "points"


def search(
    data: DataArgument,
    out: ModelOut,
    triplets: TripletsOption = None,
    pairs: PairsOption = None,
    quadruplets: QuadrupletsOption = None,
    constraints: ConstraintsOption = None,
    skip_invalid: SkipOption = False,
    labels: LabelsOption = None,
    id_column: IdOption = None,
    drop: DropOption = None,
    method: MethodOption = Method.MDAML,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V1,V2,...",
            help="Values to try for a parameter; repeat the option for more, all combinations are "
            "tried. By default a grid that suits the method.",
            rich_help_panel="Method",
        ),
    ] = None,
    param: ParamOption = None,
    folds: Annotated[
        int, typer.Option(min=2, help="Parts, each held out once.", rich_help_panel="Method")
    ] = 5,
    hold_out: Annotated[
        HoldOut,
        typer.Option(
            help="Hold out comparisons, or points with all their comparisons, to know how the "
            "metric does on new ones. With --labels always points.",
            rich_help_panel="Method",
        ),
    ] = HoldOut.COMPARISONS,
    scale: ScaleOption = True,
    seed: SeedOption = 0,
    jobs: Annotated[int, typer.Option(help="Folds at a time; -1 is one for every core.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Choose parameters by what is held out, learn with the best, and save the model.

    No labels are needed: parameters are scored by the share of held-out comparisons that hold.
    """
    files = ComparisonFiles(triplets, pairs, quadruplets, constraints)
    wanted = Wanted(id_column, labels, split_names(drop))
    with talking(as_json) as screen:
        if method is Method.MDAMLCV:
            raise CommandError("mdamlcv chooses its parameters itself: mdaml fit --method mdamlcv.")
        check_supervision(method, bool(files), labels)
        estimator = make_estimator(method, parse_params(param), seed)
        values = _check_grid(method, parse_grid(grid), seed)
        with staging(out, (".mdaml",)) as temporary:
            table, given = read_inputs(data, wanted, files, screen, skip_invalid)
            told = supervise(method, given, table)
            if not told:
                raise CommandError(
                    "There is nothing to score by: give --triplets, --pairs or --labels."
                )
            start = time.perf_counter()
            plan = _Plan(values, folds, hold_out, scale, seed, jobs)
            found = _search(estimator, plan, table, told, screen)
            seconds = time.perf_counter() - start
            save_model(_unscaled(found.best_estimator_), temporary, table.columns)
        _report(screen, out, found, seconds, has_labels=table.labels is not None)


class _Plan:
    """What is tried, and how it is scored."""

    def __init__(
        self, values: Any, folds: int, hold_out: HoldOut, scale: bool, seed: int, jobs: int
    ) -> None:
        self.grids: list[dict[str, list[Any]]] = values if isinstance(values, list) else [values]
        self.folds, self.hold_out, self.scale = folds, hold_out, scale
        self.seed, self.jobs = seed, jobs

    @property
    def n_trials(self) -> int:
        from sklearn.model_selection import ParameterGrid

        return len(ParameterGrid(self.grids)) * self.folds


def _check_grid(method: Method, grid: dict[str, list[Any]], seed: int) -> Any:
    """Return the values to try, those of the method if none are given."""
    if not grid:
        return _GRIDS[method]
    make_estimator(method, {name: values[0] for name, values in grid.items()}, seed)
    return grid


def _search(estimator: Any, plan: _Plan, table: Table, told: dict[str, Any], screen: Screen) -> Any:
    """Return the search, fitted; its best estimator is a pipeline where features are scaled."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    from mdaml.model_selection import ConstraintKFold, MetricSearchCV, PointKFold

    grids = plan.grids
    if plan.scale:  # inside, so that points that are held out do not tell their scale
        estimator = Pipeline([("scale", StandardScaler()), (_STEP, estimator)])
        grids = [{f"{_STEP}__{name}": grid[name] for name in grid} for grid in grids]
    by_points = "y" in told or plan.hold_out is HoldOut.POINTS
    splitter: Any = PointKFold if by_points else ConstraintKFold
    with _showing_trials(plan, told, screen) as scoring:
        found = MetricSearchCV(
            estimator,
            grids,
            cv=splitter(plan.folds, random_state=plan.seed),
            scoring=scoring,
            n_jobs=plan.jobs,
            random_state=plan.seed,
        )
        try:
            with screen.collecting_warnings(), blaming_input():
                return found.fit(table.X, **told)
        except CommandError as error:
            message = re.sub(r"\w+\(n_splits=(\d+)\)", r"--folds \1", str(error))
            message = message.replace("n_splits", "--folds").replace(f"{_STEP}__", "")
            raise CommandError(message, code=error.code) from error


@contextmanager
def _showing_trials(
    plan: _Plan, told: dict[str, Any], screen: Screen
) -> Iterator[Callable[..., float] | None]:
    """Count trials where their scores are computed; other processes cannot tell."""
    from mdaml.model_selection import triplet_accuracy

    if "y" in told or plan.jobs != 1:
        with screen.working("searching"):
            yield None
        return
    with screen.working(f"trying {plan.n_trials} fits", plan.n_trials) as advance:
        n_done = 0

        def score(metric: Any, X: Any, constraints: Any) -> float:
            nonlocal n_done
            n_done += 1
            advance(n_done)
            return triplet_accuracy(metric, X, constraints)

        yield score


def _unscaled(best: Any) -> Any:
    """Return the metric at the end of a pipeline, made to take the features as they are."""
    if not hasattr(best, "steps"):
        return best
    scaler, metric = best.named_steps["scale"], best.named_steps[_STEP]
    fold_scaling(metric, Scaling(scaler.mean_, scaler.scale_))
    return metric


def _report(screen: Screen, out: Path, found: Any, seconds: float, *, has_labels: bool) -> None:
    results = found.cv_results_
    order = results["rank_test_score"].argsort(kind="stable")
    records: list[dict[str, Any]] = [
        {
            "params": _bare(results["params"][row]),
            "mean": float(results["mean_test_score"][row]),
            "std": float(results["std_test_score"][row]),
            "finished": bool(results["finished"][row]),
        }
        for row in order
    ]
    screen.document |= {
        "command": "search",
        "model": str(out),
        "results": records,
        "best_params": records[0]["params"],
        "best_score": found.best_score_,
        "seconds": seconds,
    }
    screen.say_facts()
    screen.say()
    names = list(dict.fromkeys(name for record in records for name in record["params"]))
    rows = [
        [
            *(_shown(record["params"].get(name, "")) for name in names),
            f"{record['mean']:.4f}",
            f"{record['std']:.4f}",
            "" if record["finished"] else "given up early",
        ]
        for record in records
    ]
    what = "3-NN accuracy" if has_labels else "comparisons that hold"
    title = f"Held-out {what}: mean and deviation of {found.n_splits_} folds, the best first"
    screen.say_table(title, (*names, "score", "deviation", "note"), rows)
    screen.say(f"Best of {len(records)} in {seconds:.1f} s, fitted to everything: {out}")


def _shown(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _bare(params: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(f"{_STEP}__"): value for name, value in params.items()}

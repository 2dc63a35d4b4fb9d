"""``mdaml fit``: vectors and comparisons in files to a model in a file."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mdaml.cli._columns import Wanted
from mdaml.cli._comparisons import ComparisonFiles, Given, counted, read_comparisons
from mdaml.cli._models import (
    check_supervision,
    make_estimator,
    parse_params,
    save_model,
    shown_params,
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
from mdaml.cli._output import staging
from mdaml.cli._scaling import Scaling, Unlearned, fold_scaling
from mdaml.cli._screen import Screen, blaming_input, talking
from mdaml.cli._tables import Table, read_table


def fit(
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
    param: ParamOption = None,
    scale: ScaleOption = True,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn a distance from comparisons or labels, and save it as a model.

    For example: mdaml fit items.csv --triplets answers.csv --out model.mdaml
    """
    files = ComparisonFiles(triplets, pairs, quadruplets, constraints)
    wanted = Wanted(id_column, labels, split_names(drop))
    with talking(as_json) as screen:
        check_supervision(method, bool(files), labels)
        estimator = make_estimator(method, parse_params(param), seed)
        screen.document["command"] = "fit"
        with staging(out, (".mdaml",)) as temporary:
            table, given = read_inputs(data, wanted, files, screen, skip_invalid)
            told = supervise(method, given, table)
            start = time.perf_counter()
            scaling = _learn(estimator, table, told, screen, scale)
            seconds = time.perf_counter() - start
            screen.tell("method", f"{type(estimator).__name__}, {seconds:.1f} s", str(method))
            screen.document |= {"params": shown_params(estimator), "seconds": seconds}
            if given is not None:
                _tell_agreement(screen, estimator, scaling, table, given)
            save_model(estimator, temporary, table.columns)
        screen.tell("model", str(out), str(out))
        screen.say_facts()


def read_inputs(
    data: Path, wanted: Wanted, files: ComparisonFiles, screen: Screen, skip_invalid: bool
) -> tuple[Table, Given | None]:
    """Read the table and the comparisons of its rows, if there are any, and tell their sizes."""
    with screen.working(f"reading {data}"):
        table = read_table(data, wanted)
        given = None
        if files:
            given = read_comparisons(files, table, skip_invalid=skip_invalid)
    screen.tell("data", table.describe(), table.facts())
    if given is not None:
        screen.tell("comparisons", given.describe(), given.facts())
    if table.labels is not None:
        n_classes, n_without = table.count_labels()
        text = f"{n_classes} classes; {counted(n_without, 'row')} without a label"
        screen.tell("labels", text, {"classes": n_classes, "rows_without": n_without})
    return table, given


def _learn(
    estimator: Any, table: Table, told: dict[str, Any], screen: Screen, scale: bool
) -> Scaling | None:
    """Fit the estimator, on scaled features if wanted; it takes raw ones afterwards."""
    scaling = Scaling.from_samples(table.X) if scale else None
    X = table.X if scaling is None else scaling.apply(table.X)
    with _showing_rounds(estimator, told, screen), screen.collecting_warnings(), blaming_input():
        estimator.fit(X, **told)
    if scaling is not None:
        fold_scaling(estimator, scaling)
    return scaling


@contextmanager
def _showing_rounds(estimator: Any, told: dict[str, Any], screen: Screen) -> Iterator[None]:
    """Show progress while an estimator is fitted, by its rounds where it tells them."""
    params = estimator.get_params()
    total = _n_rounds(params, from_labels="y" in told) if "callback" in params else None
    with screen.working("learning", total) as advance:
        if total is not None:
            estimator.set_params(callback=lambda n, _: advance(n))
        yield


def _n_rounds(params: dict[str, Any], *, from_labels: bool) -> int | None:
    """Return the most rounds that a fit makes."""
    n_rounds = params["max_iter"]
    near = from_labels and params.get("sampling") == "neighbors"
    if n_rounds == "auto":
        n_rounds = 2 if near else 10
    if not isinstance(n_rounds, int):
        return None
    return n_rounds * (1 + params["n_refresh"]) if near else n_rounds


def _tell_agreement(
    screen: Screen, model: Any, scaling: Scaling | None, table: Table, given: Given
) -> None:
    """Tell the share of comparisons that hold, after and before learning."""
    from mdaml.model_selection import triplet_accuracy

    before = Unlearned() if scaling is None else Unlearned(scaling.scale)
    try:
        learned, unlearned = (
            triplet_accuracy(metric, table.X, given.constraints) for metric in (model, before)
        )
    except ValueError:  # pairs of one kind only, which some methods take
        return
    text = f"{learned:.1%} of these comparisons hold, {unlearned:.1%} before learning"
    screen.tell("agreement", text, {"learned": learned, "before": unlearned})

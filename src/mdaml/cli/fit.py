"""``mdaml fit``: vectors and comparisons in files to a model in a file."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.preprocessing import StandardScaler

from mdaml._validation import has_unit_rows
from mdaml.cli import _options as options
from mdaml.cli._inputs import choose_columns, list_files, read_inputs
from mdaml.cli._models import (
    check_usage,
    choose_supervision,
    fold_scaling,
    get_params,
    make_estimator,
    parse_params,
    save_model,
)
from mdaml.cli._screen import Screen, convert_errors, replace_output, run_command
from mdaml.constraints import Constraints
from mdaml.io.tables import Table


def fit(
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
    method: options.MethodName = "mdaml",
    param: options.Params = None,
    scale: options.Scale = True,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Learn a distance from comparisons or labels, and save it as a model.

    For example: mdaml fit items.csv --triplets answers.csv --out model.mdaml
    """
    with run_command(as_json) as screen:
        files = list_files((triplets, pairs, quadruplets, constraints), answer_columns, form)
        check_usage(method, bool(files), labels)
        estimator = make_estimator(method, parse_params(param), seed)
        screen.document["command"] = "fit"
        columns = choose_columns(id_column, drop, labels)
        with replace_output(out, (".mdaml",)) as part:
            table, compared = read_inputs(data, columns, files, screen, skip_invalid)
            supervision = choose_supervision(compared, table)
            start = time.perf_counter()
            scaler = _learn(estimator, table, supervision, screen, scale)
            seconds = time.perf_counter() - start
            screen.add_fact("method", f"{type(estimator).__name__}, {seconds:.1f} s", str(method))
            screen.document |= {"params": get_params(estimator), "seconds": seconds}
            if compared is not None:
                _describe_agreement(screen, estimator, scaler, table, compared)
            save_model(estimator, part, table)
        screen.add_fact("model", str(out), str(out))
        screen.print_facts()


def _learn(
    estimator: Any, table: Table, supervision: dict[str, Any], screen: Screen, scale: bool
) -> StandardScaler | None:
    """Fit the estimator, on scaled features if wanted; afterwards it takes them as they are."""
    if scale and has_unit_rows(table.X):
        scale = False  # embeddings: dividing their columns would undo what their lengths mean
        screen.add_fact("scale", "none, since all rows have unit length", False)
    scaler = StandardScaler().fit(table.X) if scale else None
    X = table.X if scaler is None else scaler.transform(table.X)
    with _show_rounds(estimator, supervision, screen), screen.collect_warnings(), convert_errors():
        estimator.fit(X, **supervision)
    if scaler is not None:
        fold_scaling(estimator, scaler)
    return scaler


@contextmanager
def _show_rounds(estimator: Any, supervision: dict[str, Any], screen: Screen) -> Iterator[None]:
    """Show progress while an estimator is fitted, by its rounds where it reports them."""
    params = estimator.get_params()
    total = _count_rounds(params, from_labels="y" in supervision) if "callback" in params else None
    with screen.show_progress("learning", total) as update:
        if total is not None:
            estimator.set_params(callback=lambda n, _: update(n))
        yield


def _count_rounds(params: dict[str, Any], *, from_labels: bool) -> int | None:
    """Return the most rounds that a fit makes."""
    n_rounds = params["max_iter"]
    near = from_labels and params.get("sampling") == "neighbors"
    if n_rounds == "auto":
        n_rounds = 2 if near else 10
    if not isinstance(n_rounds, int):
        return None
    return n_rounds * (1 + params["n_refresh"]) if near else n_rounds


def _describe_agreement(
    screen: Screen, model: Any, scaler: StandardScaler | None, table: Table, compared: Constraints
) -> None:
    """Add the share of comparisons that hold, after and before learning."""
    from mdaml.estimators import Euclidean
    from mdaml.model_selection import triplet_accuracy

    euclidean = Euclidean().fit(table.X)
    before = euclidean if scaler is None else fold_scaling(euclidean, scaler)
    try:
        learned, unlearned = (triplet_accuracy(m, table.X, compared) for m in (model, before))
    except ValueError:  # pairs of one kind only, which some methods take
        return
    text = f"{learned:.1%} of these comparisons hold, {unlearned:.1%} before learning"
    screen.add_fact("agreement", text, {"learned": learned, "before": unlearned})

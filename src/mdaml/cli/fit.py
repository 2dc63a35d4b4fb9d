"""``mdaml fit``: vectors and comparisons in files to a model in a file."""

import time
import warnings
from typing import TYPE_CHECKING

import numpy as np

from mdaml._validation import has_unit_rows, warn
from mdaml.cli import _options as options
from mdaml.cli._inputs import choose_columns, list_files, read_inputs
from mdaml.cli._models import (
    MODEL_SUFFIXES,
    Params,
    check_usage,
    choose_supervision,
    get_params,
    keep_voters,
    make_estimator,
    parse_params,
    save_model,
)
from mdaml.cli._screen import CommandError, Screen, convert_errors, replace_output, run_command
from mdaml.io.columns import Table

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.preprocessing import StandardScaler

    from mdaml.constraints import Constraints

_SMALL = 2000  # rows


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
    who: options.Who = None,
    labels: options.Labels = None,
    id_column: options.Id = None,
    drop: options.Drop = None,
    encoding: options.Encoding = None,
    na: options.Na = None,
    duplicates: options.Duplicates = "error",
    missing: options.MissingRule = "error",
    categorical: options.Categorical = None,
    method: options.MethodName = "mdaml",
    kinds: options.Kinds = None,
    param: options.Params = None,
    scale: options.Scale = True,
    estimate: options.Estimate = True,
    seed: options.Seed = 0,
    compact: options.Compact = True,
    keep_rows: options.KeepRows = False,
    as_json: options.Json = False,
) -> None:
    """Learn a distance from comparisons or labels, and save it as a model.

    For example: mdaml fit items.csv --triplets answers.csv --out model.mdaml
    """
    with run_command(as_json) as screen:
        files = list_files((triplets, pairs, quadruplets, constraints), answer_columns, form)
        check_usage(method, bool(files), labels)
        params = parse_params(param)
        estimator = make_estimator(method, params, seed)
        if kinds is not None:
            estimator = _for_kinds(estimator, kinds, who)
        if who is not None and not files:
            raise CommandError("--who is about comparisons: give --triplets FILE, or others, too.")
        if keep_rows and (labels is None or out.suffix.lower() == ".onnx"):
            raise CommandError("--keep-rows needs --labels COLUMN, and a model ending in .mdaml.")
        if kinds is not None and out.suffix.lower() == ".onnx":
            raise CommandError(
                "--kinds learns several metrics, and an ONNX file holds one. Save a .mdaml file; "
                "in Python, mdaml.load(...).kinds_[0].to_onnx(...) writes the metric of a kind."
            )
        screen.document["command"] = "fit"
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
            supervision = choose_supervision(compared, table)
            supervision |= {} if who is None else {"who": who}
            start = time.perf_counter()
            if kinds is not None:
                screen.print_note("Finding kinds of people takes many fits, perhaps minutes.")
            scaler = _learn(estimator, table, supervision, screen, scale)
            seconds = time.perf_counter() - start
            is_measured = _describe_fit(screen, estimator, method, seconds)
            if compared is not None:
                by_kinds = None if kinds is None else who
                _describe_agreement(screen, estimator, scaler, table, compared, by_kinds)
            elif supervision and estimate and not is_measured:
                _describe_accuracy(screen, make_estimator(method, params, seed), table, scaler)
            elif is_measured and not estimate:
                why = f"{method} needs held_out to choose its values, with --no-estimate too"
                screen.add_fact("estimate", why, why)
            if keep_rows:
                keep_voters(estimator, table)
            save_model(estimator, part, table, compared, suffix=out.suffix, compact=compact)
        screen.add_fact("model", str(out), str(out))
        screen.print_facts()


def _for_kinds(metric: "BaseEstimator", kinds: str, who: str | None) -> "BaseEstimator":
    """Return an estimator of the kinds of people around a metric."""
    from mdaml.people import PersonalMetrics

    if who is None:
        raise CommandError("--kinds are kinds of people: give --who COLUMN too.")
    if kinds != "auto" and not (kinds.isdecimal() and int(kinds) > 0):
        raise CommandError(f"--kinds must be a number or auto, got {kinds!r}.")
    return PersonalMetrics(metric, n_kinds=kinds if kinds == "auto" else int(kinds))


def _describe_fit(screen: Screen, model: "BaseEstimator", method: str, seconds: float) -> bool:
    """Add what was learned, and return whether its gain was measured."""
    screen.add_fact("method", f"{type(model).__name__}, {seconds:.1f} s", method)
    screen.document |= {"params": get_params(model), "seconds": seconds}
    if hasattr(getattr(model, "best_estimator_", model), "preset_"):
        _describe_values(screen, model)
    if hasattr(model, "kind_of_person_"):
        _describe_kinds(screen, model)
    is_measured = getattr(model, "gain_", None) is not None
    if is_measured:
        _describe_gain(screen, model)
    return is_measured


def _describe_kinds(screen: Screen, model: "BaseEstimator") -> None:
    """Add how many persons are of each kind."""
    sizes = np.bincount(model.kind_of_person_, minlength=model.n_kinds_).tolist()
    numbers = ", ".join(f"{n} of kind {kind}" for kind, n in enumerate(sizes))
    own = "" if model.pull_ is None else "; persons have metrics of their own"
    text = f"{len(model.persons_)} persons: {numbers}{own}"
    of = dict(zip(map(str, model.persons_), model.kind_of_person_.tolist(), strict=True))
    facts = {"n_kinds": model.n_kinds_, "persons": sizes, "kind_of_person": of}
    screen.add_fact("kinds", text, facts | {"pull": model.pull_})


def _learn(
    estimator: "BaseEstimator", table: Table, supervision: Params, screen: Screen, scale: bool
) -> "StandardScaler | None":
    """Fit the estimator, on scaled features if wanted; afterwards it takes them as they are."""
    from sklearn.preprocessing import StandardScaler

    from mdaml.estimators.folding import fold_steps

    if scale and has_unit_rows(table.X):
        scale = False  # embeddings: dividing their columns would undo what their lengths mean
        screen.add_fact("scale", "none, since all rows have unit length", False)
    scaler = StandardScaler().fit(table.X) if scale else None
    X = table.X if scaler is None else scaler.transform(table.X)
    with screen.follow_work("learning"), screen.collect_warnings(), convert_errors():
        estimator.fit(X, **supervision)
    if scaler is not None:
        fold_steps(estimator, [scaler])
    return scaler


def _describe_values(screen: Screen, model: "BaseEstimator") -> None:
    """Add what was learned from, and the values in force with where each came from."""
    from mdaml.estimators.summary import describe_work, list_values

    fitted = getattr(model, "best_estimator_", model)
    used = f"{fitted.supervision_}, {describe_work(fitted)}"
    screen.add_fact("supervision", used, used)
    values, row = list_values(model), f"preset {fitted.preset_}"
    usual = ", ".join(f"{name} {value}" for name, value, source in values if source == row)
    others = (f"; {name} {value} ({source})" for name, value, source in values if source != row)
    facts = {name: {"value": value, "from": source} for name, value, source in values}
    screen.add_fact(
        "values", f"{row}: {usual}{''.join(others)}", {"preset": fitted.preset_, **facts}
    )


def _describe_gain(screen: Screen, model: "BaseEstimator") -> None:
    """Add what was gained on held-out points or samples, which the fit has measured."""
    from mdaml.estimators.summary import describe_gain

    if hasattr(model, "kind_of_person_"):  # whose gain is over the shared metric
        text = model.summary().splitlines()[-1]
    else:
        text = describe_gain(model)
    screen.add_fact("held_out", text, model.gain_ | {"start_kept": model.start_kept_})


def _describe_agreement(
    screen: Screen,
    model: "BaseEstimator",
    scaler: "StandardScaler | None",
    table: Table,
    compared: "Constraints",
    who: str | None,
) -> None:
    """Add the share of comparisons that hold, after and before learning.

    With the column of who gave them, which models of kinds have: each by the metric of who did.
    """
    from mdaml.estimators import Euclidean
    from mdaml.estimators.folding import fold_steps
    from mdaml.model_selection import triplet_accuracy

    euclidean = Euclidean().fit(table.X)
    before = euclidean if scaler is None else fold_steps(euclidean, [scaler])
    try:
        learned, unlearned = (triplet_accuracy(m, table.X, compared) for m in (model, before))
    except ValueError:  # pairs of one kind only, which some methods take
        return
    text, facts = f"{learned:.1%} of all comparisons hold", {"learned": learned}
    if who is not None:
        facts = {"learned": _share_by_who(model, table, compared, who), "shared": learned}
        text = f"{facts['learned']:.1%} of all comparisons hold under the metric of who answered, "
        text += f"{learned:.1%} under that of all"
    _warn_if_worse(screen, facts["learned"], unlearned)
    text += f", {unlearned:.1%} before learning"
    screen.add_fact("agreement", text, facts | {"before": unlearned})


def _share_by_who(model: "BaseEstimator", table: Table, compared: "Constraints", who: str) -> float:
    """Return the share of comparisons that hold, each by the metric of who gave it."""
    from mdaml.constraints.persons import Persons, column_of
    from mdaml.model_selection import triplet_accuracy

    persons = Persons.from_who(column_of(compared, who), compared.n_constraints)
    shares = [
        triplet_accuracy(model.metric_for(name), table.X, compared.select(persons.codes == code))
        for code, name in enumerate(persons.names)
    ]
    return float(np.average(shares, weights=persons.sums(compared.weights)))


def _describe_accuracy(
    screen: Screen, estimator: "BaseEstimator", table: Table, scaler: "StandardScaler | None"
) -> None:
    """Add the 3-NN accuracy on rows that other fits have not seen, before and after learning.

    Five folds for small tables, one for large ones, which need no more.
    """
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedShuffleSplit
    from sklearn.preprocessing import StandardScaler

    from mdaml.estimators import Euclidean
    from mdaml.estimators.summary import describe_measured
    from mdaml.holdout.rule import measure_gain
    from mdaml.model_selection.scoring import BY_LABELS

    y = table.encode_labels()
    labelled = np.flatnonzero(y != -1)
    X, y = table.X[labelled], y[labelled]
    if np.bincount(np.unique(y, return_inverse=True)[1]).min() < 2:
        return  # a class of one row cannot be held out
    n_folds = 5 if len(y) <= _SMALL else 1
    splitter = StratifiedShuffleSplit(n_folds, test_size=0.2, random_state=0)
    judge, cases = BY_LABELS["knn_accuracy"][0], []
    with screen.show_progress("holding out", n_folds) as update, convert_errors():
        try:
            folds = list(splitter.split(X, y))
        except ValueError:  # more classes than rows to hold out
            return
        for n, (kept, held) in enumerate(folds, 1):
            means = StandardScaler().fit(X[kept]) if scaler is not None else None
            A, B = (
                (part if means is None else means.transform(part)) for part in (X[kept], X[held])
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit to all rows has shown them
                metrics = (Euclidean().fit(A), clone(estimator).fit(A, y[kept]))
            cases.append([judge(m, B, y[held], gallery=(A, y[kept])).scores for m in metrics])
            update(n)
    before, after = np.hstack(cases).astype(float)
    units = np.unique(np.concatenate([held for _, held in folds]), return_inverse=True)[1]
    gain = measure_gain("3-NN", before, after, units)
    _warn_if_worse(screen, gain.after, gain.before)
    facts = {"learned": gain.after, "before": gain.before, "folds": n_folds}
    screen.add_fact("accuracy", describe_measured(gain), gain.as_dict() | facts)


def _warn_if_worse(screen: Screen, learned: float, before: float) -> None:
    """Warn if the score after learning is below that before it."""
    if learned < before - 1e-9:  # sums in another order differ by rounding
        with screen.collect_warnings():
            warn(
                f"Learning made it worse: {learned:.1%}, and {before:.1%} before learning. Use "
                "another method, or the distance before learning (--method euclidean)."
            )

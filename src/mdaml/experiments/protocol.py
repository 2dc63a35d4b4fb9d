"""The protocol of the paper: splits, tuning, trials; one record for each piece of work.

Work is cut into jobs that know nothing of each other: tune a method on a data set, run a trial, fit
for a curve. A job is a few words; whoever runs it loads the data itself. So jobs go to processes or
to a cluster, and a run that was interrupted goes on with the jobs that have no record yet.
"""

import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

from mdaml import estimators
from mdaml._typing import FloatArray, IntArray
from mdaml.experiments.config import (
    CONFIG,
    CONFIRMATION,
    DATASETS,
    METHODS,
    combinations,
    spread,
)
from mdaml.experiments.records import Record, appending, read_records
from mdaml.experiments.splits import (
    load_samples,
    prepared,
    seed_of,
    shared_triplets,
    sizes,
    split,
)

_MAIN = "MDaML"  # the method whose choices the curve of convergence uses


@dataclass(frozen=True)
class Job:
    """One piece of work, and with its preset the key of its record."""

    kind: str  # "tuning", "trial", "convergence" or "sensitivity"
    dataset: str
    method: str
    trial: int = 0
    parameter: str = ""  # sensitivity: which one varies,
    setting: str = ""  # around which setting,
    value: float = 0.0  # and its value


@dataclass(frozen=True)
class Plan:
    """What is to be run: all of it, or a part."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    trials: int
    quick: bool = False

    @property
    def preset(self) -> str:
        """Records of a quick run are no results, and are kept apart."""
        return "quick" if self.quick else "full"

    def tuning(self) -> list[Job]:
        """Jobs that choose parameters, for methods that have any."""
        return [
            Job("tuning", dataset, method)
            for dataset in self.datasets
            for method in self.methods
            if len(combinations(method, self.quick)) > 1
        ]

    def trials_and_curves(self) -> list[Job]:
        """Jobs that use the parameters chosen."""
        jobs = [
            Job("trial", dataset, method, trial)
            for dataset in self.datasets
            for method in self.methods
            for trial in range(self.trials)
        ]
        if _MAIN not in self.methods:
            return jobs
        quick, curves = CONFIG["quick"], CONFIG["convergence"]["datasets"]
        curves = quick["convergence"] if self.quick else curves
        jobs += [Job("convergence", name, _MAIN) for name in curves if name in self.datasets]
        return jobs + self._sensitivity()

    def _sensitivity(self) -> list[Job]:
        table, quick = CONFIG["sensitivity"], CONFIG["quick"]
        dataset = quick["sensitivity_dataset"] if self.quick else table["dataset"]
        n_trials = quick["sensitivity_trials"] if self.quick else table["trials"]
        if dataset not in self.datasets:
            return []
        return [
            Job("sensitivity", dataset, _MAIN, trial, parameter, setting, float(value))
            for parameter in table["fixed"]
            for setting in ("paper", "library")
            for value in spread(
                table[parameter], quick["sensitivity_values"] if self.quick else None
            )
            for trial in range(min(n_trials, self.trials))
        ]


def make_plan(
    datasets: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
    trials: int | None = None,
    *,
    quick: bool = False,
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of the paper, or the part of it that was asked for, and what is left out.

    Parameters
    ----------
    datasets, methods : iterable of str or None
        Names, from ``DATASETS``, ``CONFIRMATION`` and ``METHODS``; None is all of the paper's, or
        those of the quick preset. Data sets that were not named are left out where their files are
        missing.
    trials : int or None
        Random splits of each data set.
    quick : bool, default=False
        A look in two minutes: few sets, splits and values of the grids.
    """
    n_trials = CONFIG["quick" if quick else "protocol"]["trials"] if trials is None else trials
    left_out: tuple[str, ...] = ()
    if datasets is None:
        default = CONFIG["quick"]["datasets"] if quick else DATASETS
        left_out = tuple(name for name in default if not _is_here(name))
        datasets = [name for name in default if name not in left_out]
    chosen = _known("datasets", datasets, (*DATASETS, *CONFIRMATION))
    for name in chosen:
        load_samples(name)  # complain now, not after an hour
    plan = Plan(
        chosen, _known("methods", METHODS if methods is None else methods, METHODS), n_trials, quick
    )
    return plan, left_out


def _is_here(dataset: str) -> bool:
    try:
        load_samples(dataset)
    except FileNotFoundError:
        return False
    return True


def run(
    plan: Plan,
    path: Path,
    *,
    n_jobs: int = 1,
    progress: Callable[[Job, float, float], None] | None = None,
) -> list[Record]:
    """Do all jobs of a plan that have no record yet; append a record for each to a file.

    Parameters
    ----------
    plan : Plan
        What to run; see `make_plan`.
    path : Path
        The file of records; what it holds already is not repeated.
    n_jobs : int, default=1
        Jobs at a time, through joblib: inside ``joblib.parallel_config(backend=...)`` they go to
        that backend, be it processes, Dask or Ray.
    progress : callable or None
        Called as ``progress(job, done, all)`` after each job, with costs in some unit.

    Returns
    -------
    list of dict
        All records of the plan.
    """
    with appending(path) as append:
        records = read_records(path)
        presets = {record["preset"] for record in records} - {plan.preset}
        if presets:
            raise ValueError(
                f"{path} holds records of a {presets.pop()} run, this is a {plan.preset} one. "
                "Choose another --out."
            )
        known = {_key(record) for record in records}
        tuning, rest = plan.tuning(), plan.trials_and_curves()
        total = sum(map(cost, [*tuning, *rest]))
        done = sum(cost(job) for job in [*tuning, *rest] if _key(vars(job)) in known)
        for stage in (tuning, rest):
            chosen = {
                (record["dataset"], record["method"]): record["params"]
                for record in records
                if record["kind"] == "tuning"
            }
            # The longest first, so that no core waits for a straggler at the end.
            jobs = sorted(
                (job for job in stage if _key(vars(job)) not in known), key=cost, reverse=True
            )
            calls = [(job, plan, chosen.get((job.dataset, job.method), {})) for job in jobs]
            for job, record in _in_parallel(calls, n_jobs):
                append(record)
                records.append(record)
                done += cost(job)
                if progress is not None:
                    progress(job, done, total)
    wanted = {_key(vars(job)) for job in [*tuning, *rest]}
    return [record for record in records if _key(record) in wanted]


def do_job(job: Job, plan: Plan, params: dict[str, Any]) -> tuple[Job, Record]:
    """Return a job with its record."""
    with warnings.catch_warnings():
        # Grids hold values at which methods rightly warn; records tell how they did.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        work = {
            "tuning": _tune,
            "trial": _trial,
            "convergence": _convergence,
            "sensitivity": _sensitivity,
        }[job.kind]
        start = time.perf_counter()
        result = work(job, plan, params)
    record = {name: value for name, value in vars(job).items() if value != "" or name == "method"}
    if job.kind != "sensitivity":
        record.pop("value")
    record |= {"preset": plan.preset, "seed": seed_of(job.dataset, job.trial)} | result
    record |= {"seconds": time.perf_counter() - start, "versions": versions()}
    return job, record | {"time": datetime.now(UTC).isoformat(timespec="seconds")}


def _tune(job: Job, plan: Plan, _params: dict[str, Any]) -> Record:
    """Score all combinations of the grid by cross-validation on the first training part."""
    X, y, _, _ = split(job.dataset, 0)
    n_folds = CONFIG["quick" if plan.quick else "protocol"]["folds"]
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed_of(job.dataset, 0) % 2**32)
    parts = []
    for fold, (train, valid) in enumerate(folds.split(X, y)):
        samples, held_out = prepared(job.dataset, X[train], X[valid])
        triplets = shared_triplets(job.dataset, y[train], trial=1000 + fold)
        parts.append((samples, y[train], held_out, y[valid], triplets))
    scores: list[Record] = []
    for params in combinations(job.method, plan.quick):
        accuracies = [fit_and_score(job.method, params, *part)[0] for part in parts]
        scores.append({"params": params, "mean": float(np.mean(accuracies)), "folds": accuracies})
    best = max(scores, key=lambda score: score["mean"])  # the first of equals
    return {"params": best["params"], "scores": scores}


def _trial(job: Job, plan: Plan, params: dict[str, Any]) -> Record:
    """Fit on the training part of a split, classify the rest."""
    if not params and len(combinations(job.method, plan.quick)) == 1:
        params = combinations(job.method, plan.quick)[0]
    X, y, X_test, y_test = split(job.dataset, job.trial)
    samples, held_out = prepared(job.dataset, X, X_test)
    triplets = shared_triplets(job.dataset, y, job.trial)
    accuracy, seconds = fit_and_score(
        job.method, params, samples, y, held_out, y_test, triplets, trial=job.trial
    )
    return {
        "accuracy": accuracy,
        "fit_seconds": seconds,
        "params": params,
        "n_train": len(y),
        "n_test": len(y_test),
        "n_features": samples.shape[1],
    }


def _convergence(job: Job, _plan: Plan, params: dict[str, Any]) -> Record:
    """Fit for many rounds, whether they still pay or not."""
    X, y, X_test, _ = split(job.dataset, 0)
    samples, _ = prepared(job.dataset, X, X_test)
    triplets = shared_triplets(job.dataset, y, 0)
    model = make(job.method, params, seed_of(job.dataset, 0))
    model.set_params(max_iter=CONFIG["convergence"]["rounds"], tol=0)
    model.fit(samples, triplets=triplets)
    history = model.history_.tolist()
    return {"params": params, "objective": history[::3], "history": history}


def _sensitivity(job: Job, _plan: Plan, _params: dict[str, Any]) -> Record:
    """Fit with one parameter changed."""
    table = CONFIG["sensitivity"]
    params = table["fixed"] | {job.parameter: job.value}
    params["n_modes"] = int(params["n_modes"])
    if job.setting == "library" and job.parameter != "triplet_weight":
        params["triplet_weight"] = (
            table["relative_triplet_weight"] * params["n_modes"] ** params["eta"]
        )
    X, y, X_test, y_test = split(job.dataset, job.trial)
    samples, held_out = prepared(job.dataset, X, X_test)
    triplets = shared_triplets(job.dataset, y, job.trial)
    accuracy, _ = fit_and_score(
        job.method, params, samples, y, held_out, y_test, triplets, trial=job.trial
    )
    return {"accuracy": accuracy, "params": params}


def fit_and_score(
    method: str,
    params: dict[str, Any],
    X: FloatArray,
    y: IntArray,
    X_test: FloatArray,
    y_test: IntArray,
    triplets: IntArray,
    *,
    trial: int = 0,
) -> tuple[float, float]:
    """Return the accuracy of nearest neighbours under the metric learned, and seconds of the fit.

    Equation 16 of the paper is the accuracy; only the fit is timed.
    """
    model = make(method, params, seed_of(method, trial))
    supervision: dict[str, Any] = {"y": y}
    if CONFIG["methods"][method]["supervision"] == "triplets":
        supervision = {"triplets": triplets}
    start = time.perf_counter()
    model.fit(X, **supervision)
    seconds = time.perf_counter() - start
    knn = KNeighborsClassifier(CONFIG["protocol"]["n_neighbors"]).fit(model.transform(X), y)
    return float(knn.score(model.transform(X_test), y_test)), seconds


def make(method: str, params: dict[str, Any], seed: int) -> Any:
    """Return an estimator with the options of the method and these parameters."""
    entry = CONFIG["methods"][method]
    options = entry.get("options", {}) | params
    if entry["class"] == "NeighborhoodComponentsAnalysis":
        model = NeighborhoodComponentsAnalysis()
    else:
        model = getattr(estimators, entry["class"])()
    known = model.get_params()
    if "random_state" in known:
        options = {"random_state": seed % 2**32} | options
    if "relative_triplet_weight" in options:
        scale = options["n_modes"] ** known["eta"]
        options = options | {"triplet_weight": options["relative_triplet_weight"] * scale}
        del options["relative_triplet_weight"]
    return model.set_params(**options)


@cache
def versions() -> dict[str, str]:
    """Return what the results may depend on."""
    names = ("mdaml", "numpy", "scipy", "scikit-learn", "numba")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def cost(job: Job) -> float:
    """Return a rough estimate of the work, in no particular unit: for the order, and time left."""
    n, d = sizes(job.dataset)
    n_fits = 1.0
    if job.kind == "tuning":
        n_fits = 2.0 * len(combinations(job.method, quick=False))
    slow = {"DML-dc": 20.0, "NCA": 40.0, "LMNN": 4.0, "DMLMJ": 2.0, "LFDA": 1.0}
    quick = {"EUCLID": 0.05, "GMML": 0.3, "KISSME": 0.3}
    return n_fits * (n * (d + 20.0) * (slow | quick).get(job.method, 2.0) + 2e4)


def _known(what: str, names: Iterable[str], all_names: tuple[str, ...]) -> tuple[str, ...]:
    by_name = {name.casefold(): name for name in all_names}
    chosen = []
    for name in names:
        if name.casefold() not in by_name:
            listed = "; ".join(all_names)
            raise ValueError(f"{what} must be among: {listed}. Got {name!r}.")
        chosen.append(by_name[name.casefold()])
    return tuple(dict.fromkeys(chosen))


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name, default) for name, default in vars(Job("", "", "")).items())


def _in_parallel(
    calls: list[tuple[Job, Plan, dict[str, Any]]], n_jobs: int
) -> Iterator[tuple[Job, Record]]:
    """Yield results as they come; in order, batch by batch, from backends that cannot do that."""
    backend, _ = get_active_backend()
    if n_jobs == 1 and type(backend).__name__ in ("LokyBackend", "SequentialBackend"):
        for call in calls:
            yield do_job(*call)
        return
    if backend.supports_return_generator:
        yield from Parallel(n_jobs, return_as="generator_unordered")(
            delayed(do_job)(*call) for call in calls
        )
        return
    step = max(8, 4 * abs(n_jobs))
    for begin in range(0, len(calls), step):
        yield from Parallel(n_jobs)(delayed(do_job)(*call) for call in calls[begin : begin + step])

"""The protocol of the paper: splits, tuning, trials; one record for each piece of work.

Work is cut into independent jobs: tune a method on a data set, run a trial, fit for a curve. A job
is a few words; the process that runs it loads the data. So jobs can run in other processes or on a
cluster, and an interrupted run continues with the jobs that have no record yet.
"""

import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from threading import Thread

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.base import BaseEstimator
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

from mdaml import estimators
from mdaml._validation import ignore_warnings
from mdaml.experiments import config
from mdaml.experiments.config import CONFIG, METHODS, PAPER, combinations, spread
from mdaml.experiments.records import Record, appending, read_records
from mdaml.experiments.splits import TrialData, load_folds, load_samples, load_split, seed_of, sizes


@dataclass(frozen=True)
class Job:
    """One piece of work; its fields are the key of its record."""

    kind: str  # "tuning", "trial", "convergence" or "sensitivity"
    dataset: str
    method: str
    trial: int = 0
    parameter: str = ""  # of a sensitivity: the parameter that varies,
    setting: str = ""  # the setting of the others,
    value: float = 0.0  # and the value of the parameter
    preset: str = "full"  # or "quick", whose records are not results and are kept apart


def make_plan(
    datasets: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
    trials: int | None = None,
    *,
    quick: bool = False,
) -> tuple[list[Job], tuple[str, ...]]:
    """Return the jobs of the paper's experiments, or of a part of them.

    Parameters
    ----------
    datasets, methods : iterable of str or None
        Names from ``DATASETS``, ``CONFIRMATION`` and ``METHODS``; None is all of the paper's, or
        those of the quick preset. Data sets that are not named are left out if their files are
        missing.
    trials : int or None
        Random splits of each data set.
    quick : bool, default=False
        The quick preset, for a run of one minute: few data sets, trials and values of the grids.

    Returns
    -------
    jobs : list of Job
        What to run.
    left_out : tuple of str
        Data sets whose files are missing.
    """
    n_trials = CONFIG["quick" if quick else "protocol"]["trials"] if trials is None else trials
    left_out: tuple[str, ...] = ()
    if datasets is None:
        default = CONFIG["quick"]["datasets"] if quick else config.DATASETS
        left_out = tuple(name for name in default if not _is_available(name))
        datasets = [name for name in default if name not in left_out]
    datasets = _find_names("datasets", datasets, (*config.DATASETS, *config.CONFIRMATION))
    for name in datasets:
        load_samples(name)  # an error now is better than one after an hour
    methods = _find_names("methods", METHODS if methods is None else methods, METHODS)
    return list_jobs(datasets, methods, n_trials, quick=quick), left_out


def list_jobs(
    datasets: Sequence[str], methods: Sequence[str], n_trials: int, *, quick: bool = False
) -> list[Job]:
    """Return the tuning of methods that have a grid, then all trials and curves."""
    short, job = CONFIG["quick"], partial(Job, preset="quick" if quick else "full")
    jobs = [
        job("tuning", dataset, method)
        for dataset in datasets
        for method in methods
        if len(combinations(method, quick)) > 1
    ]
    jobs += [
        job("trial", dataset, method, trial)
        for dataset in datasets
        for method in methods
        for trial in range(n_trials)
    ]
    curves = short["convergence"] if quick else CONFIG["convergence"]["datasets"]
    if PAPER in methods:
        jobs += [job("convergence", name, PAPER) for name in curves if name in datasets]
    study = CONFIG["sensitivity"]
    dataset = short["sensitivity_dataset"] if quick else study["dataset"]
    most = short["sensitivity_trials"] if quick else study["trials"]
    n_values = short["sensitivity_values"] if quick else None
    return jobs + [
        job("sensitivity", dataset, method, trial, parameter, setting, float(value))
        for parameter in study["fixed"]
        for setting, method in config.SETTINGS.items()
        if method in methods
        for value in spread(study[parameter], n_values)
        for trial in range(min(most, n_trials))
        if dataset in datasets
    ]


def run(
    plan: Sequence[Job],
    path: Path,
    *,
    n_jobs: int = 1,
    progress: Callable[[Job, float, float], None] | None = None,
) -> list[Record]:
    """Run all jobs of a plan that have no record yet, and append a record for each to a file.

    Parameters
    ----------
    plan : sequence of Job
        What to run; see `make_plan`.
    path : Path
        The file of records. Jobs that have a record there are not repeated.
    n_jobs : int, default=1
        Number of jobs that run at the same time, through joblib: inside
        ``joblib.parallel_config(backend=...)`` they run on that backend (processes, Dask, Ray).
    progress : callable or None
        Called as ``progress(job, done, total)`` after each job, with costs in an arbitrary unit.

    Returns
    -------
    list of dict
        All records of the plan.
    """
    costs = {_key(vars(job)): cost(job) for job in plan}
    with appending(path) as append:
        records = read_records(path)
        _check_presets(path, records, {job.preset for job in plan})
        for record in records:
            record["method"] = config.FORMER.get(record["method"], record["method"])
        known = {_key(record) for record in records}
        done = sum(value for key, value in costs.items() if key in known)
        for is_tuning in (True, False):  # trials need the parameters that tuning chooses
            chosen = {
                (record["dataset"], record["method"]): record["params"]
                for record in records
                if record["kind"] == "tuning"
            }
            jobs = [job for job in plan if (job.kind == "tuning") == is_tuning]
            jobs = [job for job in jobs if _key(vars(job)) not in known]
            jobs.sort(key=cost, reverse=True)  # so that no long job is left for the end
            calls = [(job, chosen.get((job.dataset, job.method), {})) for job in jobs]
            for job, record in _run_parallel(calls, n_jobs):
                append(record)
                records.append(record)
                done += cost(job)
                if progress is not None:
                    progress(job, done, sum(costs.values()))
    return [record for record in records if _key(record) in costs]


def do_job(job: Job, params: Record) -> tuple[Job, Record]:
    """Return a job with its record; `params` are those that tuning has chosen."""
    work = {
        "tuning": _tune,
        "trial": _trial,
        "convergence": _convergence,
        "sensitivity": _sensitivity,
    }[job.kind]
    start = time.perf_counter()
    # The grids contain values at which methods warn, of slow convergence for instance.
    with ignore_warnings(UserWarning):
        result = work(job, params)
    record = {name: value for name, value in vars(job).items() if value != ""}
    if job.kind != "sensitivity":
        record.pop("value")
    record |= {"seed": seed_of(job.dataset, job.trial)} | result
    record |= {"seconds": time.perf_counter() - start, "versions": versions()}
    return job, record | {"time": datetime.now(UTC).isoformat(timespec="seconds")}


def _tune(job: Job, _params: Record) -> Record:
    """Score all combinations of the grid by cross-validation on the first training part."""
    quick = job.preset == "quick"
    folds = load_folds(job.dataset, CONFIG["quick" if quick else "protocol"]["folds"])
    scores: list[Record] = []
    for params in combinations(job.method, quick):
        accuracies = [fit_and_score(job.method, params, fold)[0] for fold in folds]
        scores.append({"params": params, "mean": float(np.mean(accuracies)), "folds": accuracies})
    best = max(scores, key=lambda score: score["mean"])  # the first of equals
    return {"params": best["params"], "scores": scores}


def _trial(job: Job, params: Record) -> Record:
    """Fit on the training part of a split, and classify the test part."""
    grid = combinations(job.method, job.preset == "quick")
    if not params and len(grid) == 1:
        params = grid[0]
    data = load_split(job.dataset, job.trial)
    accuracy, seconds = fit_and_score(job.method, params, data, trial=job.trial)
    sizes = {"n_train": len(data[1]), "n_test": len(data[3]), "n_features": data[0].shape[1]}
    return {"accuracy": accuracy, "fit_seconds": seconds, "params": params} | sizes


def _convergence(job: Job, params: Record) -> Record:
    """Fit for a fixed number of rounds, even after convergence."""
    samples, _, _, _, triplets = load_split(job.dataset, 0)
    model = make(job.method, params, seed_of(job.dataset, 0))
    model.set_params(max_iter=CONFIG["convergence"]["rounds"], tol=0)
    model.fit(samples, triplets=triplets)
    history = model.history_.tolist()
    return {"params": params, "objective": history[::3], "history": history}


def _sensitivity(job: Job, _params: Record) -> Record:
    """Fit with one parameter changed."""
    study = CONFIG["sensitivity"]
    params = {} if job.setting == "neighbors" else study["fixed"]
    value = int(job.value) if job.parameter == "n_modes" else job.value
    params = params | {job.parameter: value}
    if job.setting == "library" and job.parameter != "triplet_weight":
        scale = params["n_modes"] ** params["eta"]
        params["triplet_weight"] = study["relative_triplet_weight"] * scale
    data = load_split(job.dataset, job.trial)
    accuracy, _ = fit_and_score(job.method, params, data, trial=job.trial)
    return {"accuracy": accuracy, "params": params}


def fit_and_score(
    method: str, params: Record, data: TrialData, *, trial: int = 0
) -> tuple[float, float]:
    """Return the accuracy of nearest neighbours under the learned metric, and the fit's seconds.

    The accuracy is Eq. (16) of the paper; only the fit is timed.
    """
    X, y, X_test, y_test, triplets = data
    # Seeds follow the name in the first records, so that results stay the same.
    first_name = CONFIG["methods"][method].get("formerly", method)
    model = make(method, params, seed_of(first_name, trial))
    uses_triplets = CONFIG["methods"][method]["supervision"] == "triplets"
    supervision: Record = {"triplets": triplets} if uses_triplets else {"y": y}
    start = time.perf_counter()
    model.fit(X, **supervision)
    seconds = time.perf_counter() - start
    knn = KNeighborsClassifier(CONFIG["protocol"]["n_neighbors"]).fit(model.transform(X), y)
    return float(knn.score(model.transform(X_test), y_test)), seconds


def make(method: str, params: Record, seed: int) -> BaseEstimator:
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
        scale = options["n_modes"] ** options["eta"]
        options["triplet_weight"] = options.pop("relative_triplet_weight") * scale
    return model.set_params(**options)


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that results may depend on."""
    names = ("mdaml", "numpy", "scipy", "scikit-learn", "numba")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


@cache
def cost(job: Job) -> float:
    """Return a rough estimate of the work in an arbitrary unit, to order jobs and show progress."""
    n, d = sizes(job.dataset)
    n_fits = 2.0 * len(combinations(job.method, quick=False)) if job.kind == "tuning" else 1.0
    return n_fits * (n * (d + 20.0) * CONFIG["methods"][job.method].get("cost", 2.0) + 2e4)


def _is_available(dataset: str) -> bool:
    try:
        load_samples(dataset)
    except FileNotFoundError:
        return False
    return True


def _find_names(what: str, names: Iterable[str], all_names: Sequence[str]) -> tuple[str, ...]:
    """Return the names as `all_names` has them; any case and former names are accepted."""
    known = config.FORMER | {name: name for name in all_names}
    by_name = {former.casefold(): name for former, name in known.items() if name in all_names}
    names = list(names)
    unknown = [name for name in names if name.casefold() not in by_name]
    if unknown:
        raise ValueError(f"{what} must be among: {'; '.join(all_names)}. Got {unknown[0]!r}.")
    return tuple(dict.fromkeys(by_name[name.casefold()] for name in names))


def _check_presets(path: Path, records: list[Record], presets: set[str]) -> None:
    for number, record in enumerate(records, 1):
        missing = {"kind", "dataset", "method", "preset", "params"} - record.keys()
        if missing:
            raise ValueError(
                f"Line {number} of {path} is not a record of a run: it has no {min(missing)}. "
                "Remove the line, or choose another --out."
            )
    others = {record["preset"] for record in records} - presets
    if presets and others:
        raise ValueError(
            f"{path} holds records of a {others.pop()} run, this is a {presets.pop()} one. "
            "Choose another --out."
        )


def _key(record: Record) -> tuple[object, ...]:
    return tuple(record.get(name, default) for name, default in vars(Job("", "", "")).items())


def _do_job_of(driver: int, job: Job, params: Record) -> tuple[Job, Record]:
    """Do a job in a process of its own, which ends soon after the one that started it."""
    if os.getppid() == driver:
        _end_with_parent(driver)
    return do_job(job, params)


@cache
def _end_with_parent(parent: int) -> None:
    """Watch the parent: one that was killed cannot stop its children."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    Thread(target=watch, name="mdaml-watch", daemon=True).start()


def _run_parallel(calls: list[tuple[Job, Record]], n_jobs: int) -> Iterator[tuple[Job, Record]]:
    """Yield results when they are ready, or batch by batch if the backend cannot do that."""
    backend, _ = get_active_backend()
    if not calls:
        return
    n_jobs = min(effective_n_jobs(n_jobs), len(calls))  # idle workers would not watch their parent
    if backend.supports_return_generator:
        parallel = Parallel(n_jobs, return_as="generator_unordered")
        yield from parallel(delayed(_do_job_of)(os.getpid(), *call) for call in calls)
        return
    step = max(8, 4 * n_jobs)
    for begin in range(0, len(calls), step):
        some = calls[begin : begin + step]
        yield from Parallel(n_jobs)(delayed(_do_job_of)(os.getpid(), *call) for call in some)

"""One candidate on one split: fitted to what is left, scored by what is held out."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_consistent_length

from mdaml._progress import mute, report
from mdaml._typing import Array, ArrayLike, BoolArray, Matrix
from mdaml._validation import ignore_warnings
from mdaml.constraints import Constraints
from mdaml.constraints.arguments import EVERY_FORM, check_forms, constraints_of
from mdaml.constraints.labels import check_labels, to_labels
from mdaml.constraints.names import get_index
from mdaml.estimators.posing import choose_row
from mdaml.holdout.rule import find_trailing
from mdaml.holdout.split import Split
from mdaml.kernels.threads import side_by_side
from mdaml.model_selection._gallery import metric_of
from mdaml.model_selection._ground import (
    FIRST_ROUNDS,
    NOT_TRIED,
    Attempt,
    Ground,
    Params,
    Task,
    number_units,
    partners_of,
)
from mdaml.stores.choice import current_limit, limit_memory

_KEPT = 1 / 5
_KEPT_AT_LEAST = 3
_MOST_MEMORY = 2**29  # bytes of all splits that are kept at a time


def check_data(X: Matrix, y: ArrayLike | None, given: Params) -> tuple[Matrix, Array | Constraints]:
    """Return X such that rows can be taken, and labels or constraints."""
    given = {form: value for form, value in given.items() if value is not None}
    check_forms("MetricSearchCV", EVERY_FORM, y, given)
    samples = X if hasattr(X, "iloc") or hasattr(X, "tocsr") else np.asarray(X)
    samples = samples.tocsr() if hasattr(samples, "tocsr") else samples
    n_points = samples.shape[0] if samples.ndim else 0
    if y is None:
        return samples, constraints_of(n_points, names=get_index(samples), **given)
    labels = to_labels(y)
    check_consistent_length(samples, labels)
    labels = labels.ravel() if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.dtype == object and labels.ndim == 1:  # -1 among texts, which have no order
        rows, codes = check_labels("MetricSearchCV", labels)
        labels = np.full(len(labels), -1)
        labels[rows] = codes
    return samples, labels


def try_all(
    task: Task,
    candidates: Sequence[Params],
    splits: Sequence[Split],
    *,
    in_stages: bool,
    n_jobs: int | None,
) -> tuple[list[list[Attempt]], BoolArray]:
    """Return the trials of every candidate on every split, and which of them are finished.

    In stages, all make a few rounds on the first split and, unless they are far behind by then, on
    the others; only the best are fitted to the end. Where one was not tried its score is NaN.
    """
    n_kept = max(_KEPT_AT_LEAST, int(np.ceil(_KEPT * len(candidates))))
    grounds = [Ground(task, split) for split in splits]
    if not in_stages or len(candidates) <= n_kept:
        whole = [[(ground, params) for ground in grounds] for params in candidates]
        return _run(whole, n_jobs), np.ones(len(candidates), bool)
    trials = _run([[(grounds[0], params, True)] for params in candidates], n_jobs)
    trailing = _find_trailing(task, splits[0], trials, n_kept)
    left = [c for c in range(len(candidates)) if not trailing[c]]
    short = [[(ground, candidates[c], True) for ground in grounds[1:]] for c in left]
    for c, row in zip(left, _run(short, n_jobs), strict=True):
        trials[c] += row
    means = np.array([np.mean([trial.score for trial in trials[c]]) for c in left])
    best = np.sort(np.array(left)[np.argsort(-means, kind="stable")[:n_kept]])
    for row in trials:
        row += [NOT_TRIED] * (len(splits) - len(row))
    rest = [
        [
            (ground, candidates[c], False, trial.seconds)
            for ground, trial in zip(grounds, trials[c], strict=True)
        ]
        for c in best
    ]
    for c, row in zip(best, _run(rest, n_jobs), strict=True):
        trials[c] = row
    return trials, np.isin(np.arange(len(candidates)), best)


def _find_trailing(
    task: Task, split: Split, trials: Sequence[Sequence[Attempt]], n_kept: int
) -> BoolArray:
    """Return which candidates are given up after their first rounds on the first split."""
    cases = [trial.cases for trial, *_ in trials if trial.cases is not None]
    if not cases:  # a function that scores as a whole does not tell by how much chance decides
        return np.zeros(len(trials), bool)
    units = number_units(task, [split], cases[:1])
    scores = np.array([own.scores for own in cases], np.float64)
    return find_trailing(scores, n_kept, units, cases[0].weights)


def _run(calls: Sequence[Sequence[tuple[Any, ...]]], n_jobs: int | None) -> list[list[Attempt]]:
    """Return the trials of calls, one row for each candidate; a job is one split, or part of it."""
    by_split = [list(column) for column in zip(*calls, strict=True)]
    if not by_split:
        return [[] for _ in calls]
    if n_jobs in (None, 1):
        # Not a job for each split: here every fit can be reported.
        total = sum(map(len, by_split))
        report("fits", 0, total)
        columns = []
        for place, column in enumerate(by_split):
            ground, made = column[0][0], []
            for attempt in side_by_side(_try_quietly, column, ground.n_at_once):
                made.append(attempt)
                report("fits", place * len(column) + len(made), total)
            columns.append(made)
            if len(by_split) * _n_bytes(ground.task.X) > _MOST_MEMORY:
                ground.forget()
    else:
        columns = _run_in_jobs(by_split, n_jobs)
    return [list(row) for row in zip(*columns, strict=True)]


def _run_in_jobs(
    by_split: Sequence[Sequence[tuple[Any, ...]]], n_jobs: int | None
) -> list[list[Attempt]]:
    """Return the trials of each split, made in other processes; those of a single one in parts."""
    parts = list(by_split)
    if len(by_split) == 1:
        n_parts = min(effective_n_jobs(n_jobs), len(by_split[0]))
        cuts = [len(by_split[0]) * part // n_parts for part in range(n_parts + 1)]
        parts = [by_split[0][begin:end] for begin, end in pairwise(cuts)]
    limit = current_limit()  # which other processes do not see
    jobs = (delayed(_try_each)(part, limit) for part in parts)
    made: list[list[Attempt]] = []
    with parallel_config("loky", inner_max_num_threads=1):
        for part in Parallel(n_jobs, return_as="generator")(jobs):
            made.append(part)
            report("splits", len(made), len(parts))
    return made if len(by_split) > 1 else [[attempt for part in made for attempt in part]]


def _try_quietly(*call: Any) -> Attempt:
    with mute():
        return _try(*call)


def _try_each(calls: Sequence[tuple[Any, ...]], limit: int | None) -> list[Attempt]:
    with limit_memory(limit):
        return [_try(*call) for call in calls]


def _n_bytes(X: Matrix) -> float:
    return 8.0 * X.shape[0] * X.shape[1]


def _try(
    ground: Ground,
    params: Params,
    is_short: bool = False,
    seconds_before: float = 0.0,
) -> Attempt:
    """Fit and score one candidate on one split, to the end or for its first rounds only.

    Those that go on make the rounds that are left, unless they chose another anchor than for the
    first rounds, or are in a pipeline: these are fitted anew.
    """
    start = perf_counter()
    try:
        model = _make(ground.task, params, is_short=is_short)
        # Candidates are meant to differ; what is wrong with one shows in its score.
        with ignore_warnings(UserWarning):
            ground.fit(model, is_short=is_short)
    except (ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError) as error:
        what = f"{_described(params)} cannot be fitted."
        if type(error) in (ValueError, TypeError):
            raise type(error)(f"{what} {error}") from error
        error.add_note(what)
        raise
    seconds = perf_counter() - start + seconds_before  # of the fit
    return replace(ground.score(model, is_short=is_short), seconds=seconds)


def _make(task: Task, params: Params, *, is_short: bool) -> BaseEstimator:
    """Return the candidate, or one in a pipeline that makes only its first rounds."""
    candidate = task.candidate(params)
    metric = metric_of(candidate)
    if not is_short or metric is candidate:
        return candidate
    if task.has_refresh(metric):
        metric.set_params(partners=replace(partners_of(metric), n_refresh=0))
        return candidate
    n_rounds = metric.max_iter
    if isinstance(n_rounds, str) and n_rounds == "auto":
        n_rounds = choose_row(metric, from_labels=task.has_labels)[1].max_iter
    if isinstance(n_rounds, Integral):  # anything else is refused by the fit
        metric.set_params(max_iter=min(int(n_rounds), FIRST_ROUNDS))
    return candidate


def _described(params: Params) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items()) or "The estimator"


def seeded(estimator: BaseEstimator, seed: int) -> BaseEstimator:
    """Return the estimator with a seed wherever it has none, so that all candidates share it."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(f"MetricSearchCV(estimator=...) must be an estimator, got {estimator!r}.")
    params = estimator.get_params()
    unset = [name for name in params if f"__{name}".endswith("__random_state")]
    return clone(estimator).set_params(**{name: seed for name in unset if params[name] is None})


def summary(
    candidates: list[Params],
    trials: list[list[Attempt]],
    finished: BoolArray,
) -> Params:
    """Return ``cv_results_``: scores, their ranks, and times."""
    scores = np.array([[trial.score for trial in row] for row in trials])
    mean = np.nanmean(scores, axis=1)
    # Those of two rounds rank behind all others, and last those that were not tried everywhere.
    ranks, behind = np.empty(len(mean), np.int32), 0
    everywhere = ~np.isnan(scores).any(axis=1)
    for group in (finished, ~finished & everywhere, ~everywhere):
        ranks[group] = behind + rankdata(-mean[group], method="min")
        behind += int(group.sum())
    return {
        "params": candidates,
        **{f"split{n}_test_score": column for n, column in enumerate(scores.T)},
        "mean_test_score": mean,
        "std_test_score": np.nanstd(scores, axis=1),
        "rank_test_score": ranks,
        "mean_fit_time": np.nanmean([[trial.seconds for trial in row] for row in trials], axis=1),
        "finished": finished,
    }

"""One candidate on one split: fitted to what is left, scored by what is held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length

from mdaml._memory import current_limit, limit_memory
from mdaml._progress import mute, report
from mdaml._typing import Array, ArrayLike, BoolArray, FloatArray, Matrix
from mdaml._validation import check_random_state, has_unit_rows, ignore_warnings
from mdaml.constraints import Constraints
from mdaml.constraints.arguments import (
    EVERY_FORM,
    Supervision,
    check_forms,
    check_supervision,
    constraints_of,
)
from mdaml.constraints.labels import Classes, check_labels, find_labelled, to_labels
from mdaml.constraints.names import get_index
from mdaml.estimators import MDaML
from mdaml.estimators.posing import choose_row, place, pose
from mdaml.estimators.presets import Partners, as_partners
from mdaml.holdout.samples import Score, vote_score
from mdaml.holdout.split import Split
from mdaml.kernels.threads import side_by_side
from mdaml.model_selection._gallery import Cases, metric_of
from mdaml.model_selection._scoring import BY_CONSTRAINTS, BY_LABELS, Scorer
from mdaml.neighbors.search import is_for_gpu
from mdaml.stores.choice import n_fits_at_once
from mdaml.stores.shared import SharedClasses, SharedStores

FIRST_ROUNDS = 2
_KEPT = 1 / 5
_KEPT_AT_LEAST = 3
_MANY_SAMPLES = 20_000
_MOST_MEMORY = 2**29  # bytes of all splits that are kept at a time

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Attempt:
    """What came of one fit."""

    score: float
    seconds: float
    cases: Cases | None = None  # of which the score is the mean, where that is known


@dataclass(frozen=True)
class Task:
    """Samples, and labels or constraints: what is searched for, and how it is judged."""

    estimator: BaseEstimator
    X: Matrix
    truth: Any  # (n_samples,) labels, or Constraints
    scoring: str | Scorer

    @property
    def has_labels(self) -> bool:
        """Whether labels are learned from."""
        return not isinstance(self.truth, Constraints)

    def candidate(self, params: Params) -> BaseEstimator:
        """Return a new estimator with some parameters."""
        copies = {name: clone(value, safe=False) for name, value in params.items()}
        return clone(self.estimator).set_params(**copies)

    def can_pause(self, params: Params) -> bool:
        """Return whether a candidate can be fitted for some rounds and go on later."""
        metric = metric_of(self.candidate(params))
        if not isinstance(metric, MDaML):
            return False
        # Few rounds in any case, which take long only where samples are many.
        return not self.has_refresh(metric) or self.X.shape[0] > _MANY_SAMPLES

    def has_refresh(self, metric: MDaML) -> bool:
        """Return whether a metric is learned from neighbours, which are searched again.

        Before that is where to pause. To go on from the metric that was learned would be another
        problem: neighbours are searched under the start metric first.
        """
        return self.has_labels and partners_of(metric).kind == "neighbors"

    def sides(self, split: Split) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Return samples and truth to learn from, and those that are held out."""
        if self.has_labels:
            train, test = self.truth[split.train_points], self.truth[split.test_points]
        else:
            train, test = split.learned, split.held_out
        learned = (take_rows(self.X, split.train_points), train)
        return learned, (take_rows(self.X, split.test_points), test)

    def score(
        self, model: BaseEstimator, learned: tuple[Any, Any], held_out: tuple[Any, Any]
    ) -> Attempt:
        """Return how well a model does on what is held out, in no time."""
        if isinstance(self.scoring, str):
            judge = (BY_LABELS if self.has_labels else BY_CONSTRAINTS)[self.scoring][0]
            voters = {"gallery": learned} if self.scoring == "knn_accuracy" else {}
            cases = judge(model, *held_out, **voters)
            return Attempt(cases.mean, 0.0, cases)
        value = float(self.scoring(model, *held_out))
        if not np.isfinite(value):
            raise ValueError(f"scoring must return a finite number, got {value}.")
        return Attempt(value, 0.0)


@dataclass(frozen=True)
class Ground:
    """One split of a task, with what all candidates that are tried there have in common."""

    task: Task
    split: Split

    @cached_property
    def sides(self) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Samples and truth to learn from, and those that are held out."""
        return self.task.sides(self.split)

    @cached_property
    def stores(self) -> SharedStores:
        """The samples to learn from, where they were computed with."""
        return {}

    @property
    def n_at_once(self) -> int:
        """How many candidates to try at a time."""
        model = self.task.estimator
        if type(model) is not MDaML:
            return 1
        return n_fits_at_once(model.device, (len(self.split.train_points), self.task.X.shape[1]))

    def fit(self, model: BaseEstimator) -> BaseEstimator:
        """Fit a candidate; those of MDaML share samples, neighbours and first modes."""
        if type(model) is not MDaML:
            return fit(model, *self.sides[0])
        samples, given = self._checked
        posed = pose(model, samples.shape, given, unit_rows=has_unit_rows(samples))
        # The search measures by itself; only what a candidate chooses is held out once more.
        chosen = bool(posed.spec.anchors or posed.spec.shrinkages)
        posed = replace(posed, spec=replace(posed.spec, is_measured=chosen))
        store = place(model, samples, posed.spec, posed.supervision, shared=self.stores)
        with store.threads():  # after the fit, too: threads of BLAS are slow to wake
            posed, gain = posed.choose(store)
            run = posed.problem.start(store, check_random_state(model.random_state))
            model._keep(self.sides[0][0], posed, run.complete(), gain)
        return model

    @cached_property
    def _checked(self) -> tuple[FloatArray, Supervision]:
        """The samples and the supervision as MDaML takes them."""
        X, truth = self.sides[0]
        given = {"y": truth} if self.task.has_labels else {"y": None, "constraints": truth}
        samples, said = check_supervision(MDaML(), EVERY_FORM, X, **given)
        return samples, SharedClasses.of_classes(said) if isinstance(said, Classes) else said

    def score(self, model: BaseEstimator) -> Attempt:
        """Return how well a model does on what is held out."""
        (X, _), (held_out, asked) = self.sides
        votes = self.task.scoring == "knn_accuracy" and type(model) is MDaML
        if votes and is_for_gpu(model.device, len(held_out), *X.shape):
            right = np.asarray(self._votes(model.components_.T), bool)
            cases = Cases(right, np.flatnonzero(find_labelled(asked)))
            return Attempt(cases.mean, 0.0, cases)
        return self.task.score(model, *self.sides)

    @cached_property
    def _votes(self) -> Score:
        """What says of a factor of a metric, on a GPU, whether neighbours vote rightly."""
        _, truth = self.sides[0]
        held_out, asked = self.sides[1]
        known, labelled = find_labelled(truth), find_labelled(asked)
        codes = np.unique(np.concatenate([truth[known], asked[labelled]]), return_inverse=True)[1]
        n_known, samples = int(known.sum()), self._checked[0][known]
        queries = check_array(held_out, dtype=samples.dtype)[labelled]
        return vote_score(samples, codes[:n_known], queries, codes[n_known:], "auto")

    def forget(self) -> None:
        """Free what can be made again."""
        for name in ("sides", "stores", "_checked", "_votes"):
            self.__dict__.pop(name, None)


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


def fit(estimator: BaseEstimator, X: Matrix, truth: Constraints | Array) -> BaseEstimator:
    """Fit an estimator or a pipeline to labels or constraints."""
    if not isinstance(truth, Constraints):
        return estimator.fit(X, truth)
    name = f"{estimator.steps[-1][0]}__constraints" if isinstance(estimator, Pipeline) else ""
    return estimator.fit(X, **{name or "constraints": truth})


def take_rows(X: Matrix, rows: Array) -> Matrix:
    """Return some rows of an array, a data frame or a sparse matrix, of the same type."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def try_all(
    task: Task,
    candidates: Sequence[Params],
    splits: Sequence[Split],
    *,
    in_stages: bool,
    n_jobs: int | None,
) -> tuple[list[list[Attempt]], BoolArray]:
    """Return the trials of every candidate on every split, and which of them are finished.

    In stages, all make a few rounds, and only the best are fitted to the end, anew.
    """
    n_kept = max(_KEPT_AT_LEAST, int(np.ceil(_KEPT * len(candidates))))
    grounds = [Ground(task, split) for split in splits]
    if not in_stages or len(candidates) <= n_kept:
        whole = [[(ground, params) for ground in grounds] for params in candidates]
        return _run(whole, n_jobs), np.ones(len(candidates), bool)
    short = [[(ground, params, True) for ground in grounds] for params in candidates]
    trials = _run(short, n_jobs)
    means = [np.mean([trial.score for trial in row]) for row in trials]
    best = np.sort(np.argsort(-np.array(means), kind="stable")[:n_kept])
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


def _run(calls: Sequence[Sequence[tuple[Any, ...]]], n_jobs: int | None) -> list[list[Attempt]]:
    """Return the trials of calls, one row for each candidate; a job is one split."""
    by_split = [list(column) for column in zip(*calls, strict=True)]
    limit = current_limit()  # which other processes do not see
    jobs = (delayed(_try_each)(column, limit) for column in by_split)
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
        columns = []
        with parallel_config("loky", inner_max_num_threads=1):
            for column in Parallel(n_jobs, return_as="generator")(jobs):
                columns.append(column)
                report("splits", len(columns), len(by_split))
    return [list(row) for row in zip(*columns, strict=True)]


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

    Those that go on are fitted anew, not from where they stopped: the metric to start from is also
    the anchor, and another anchor would be another problem than the final fit solves.
    """
    start = perf_counter()
    try:
        model = _make(ground.task, params, is_short=is_short)
        # Candidates are meant to differ; what is wrong with one shows in its score.
        with ignore_warnings(UserWarning):
            ground.fit(model)
    except (ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError) as error:
        what = f"{_described(params)} cannot be fitted."
        if type(error) in (ValueError, TypeError):
            raise type(error)(f"{what} {error}") from error
        error.add_note(what)
        raise
    seconds = perf_counter() - start + seconds_before  # of the fit
    return replace(ground.score(model), seconds=seconds)


def _make(task: Task, params: Params, *, is_short: bool) -> BaseEstimator:
    """Return the candidate, or one that makes only its first rounds."""
    candidate = task.candidate(params)
    if not is_short:
        return candidate
    metric = metric_of(candidate)
    if task.has_refresh(metric):
        metric.set_params(partners=replace(partners_of(metric), n_refresh=0))
        return candidate
    n_rounds = metric.max_iter
    if isinstance(n_rounds, str) and n_rounds == "auto":
        n_rounds = choose_row(metric, from_labels=task.has_labels)[1].max_iter
    if isinstance(n_rounds, Integral):  # anything else is refused by the fit
        metric.set_params(max_iter=min(int(n_rounds), FIRST_ROUNDS))
    return candidate


def partners_of(metric: MDaML) -> Partners:
    """Return how a metric draws partners from labels."""
    return as_partners(metric, metric.partners, choose_row(metric, from_labels=True)[1].partners)


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
    mean = scores.mean(axis=1)
    # Those of two rounds rank behind all others; ranks of scores are at most their number.
    rank = rankdata(-mean[finished], method="min")
    ranks = np.empty(len(mean), np.int32)
    ranks[finished] = rank
    ranks[~finished] = len(rank) + rankdata(-mean[~finished], method="min")
    return {
        "params": candidates,
        **{f"split{n}_test_score": column for n, column in enumerate(scores.T)},
        "mean_test_score": mean,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": ranks,
        "mean_fit_time": np.array([np.mean([trial.seconds for trial in row]) for row in trials]),
        "finished": finished,
    }

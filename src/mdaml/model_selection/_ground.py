"""A search and its splits: what is fitted there, and how it is scored."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from mdaml._typing import Array, FloatArray, IntArray, Matrix
from mdaml._validation import has_unit_rows
from mdaml.constraints import Constraints
from mdaml.constraints.arguments import EVERY_FORM, Supervision, check_supervision
from mdaml.constraints.labels import Classes, find_labelled
from mdaml.estimators import MDaML
from mdaml.estimators.posing import Posed, choose_row, place, pose
from mdaml.estimators.presets import Partners, as_partners
from mdaml.holdout.rule import Gain
from mdaml.holdout.samples import Score, list_shares, vote_score
from mdaml.holdout.split import Split, find_questions
from mdaml.holdout.units import COPY, same_rows
from mdaml.model_selection._gallery import Cases, metric_of
from mdaml.model_selection._runs import Runs
from mdaml.model_selection.scoring import BY_CONSTRAINTS, BY_LABELS, Scorer
from mdaml.neighbors.search import is_for_gpu
from mdaml.solver.run import Run
from mdaml.solver.spec import Spec
from mdaml.stores.choice import n_fits_at_once
from mdaml.stores.shared import SharedClasses, SharedStores

FIRST_ROUNDS = 2
_FEWEST_UNITS = 8  # points; of fewer every question counts by itself
_MANY_SAMPLES = 20_000
_MOST_VOTED_ON = 3_000  # samples of a split, after first rounds

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Attempt:
    """What came of one fit."""

    score: float
    seconds: float
    cases: Cases | None = None  # of which the score is the mean, where that is known


NOT_TRIED = Attempt(np.nan, np.nan)


@dataclass(frozen=True)
class Task:
    """Samples, and labels or constraints: what is searched for, and how it is judged."""

    estimator: BaseEstimator
    X: Matrix
    truth: Any  # (n_samples,) labels, or Constraints
    scoring: str | Scorer

    @cached_property
    def row_numbers(self) -> IntArray:
        """The same number for rows of X that are the same, where they are numbers."""
        samples = np.empty((self.X.shape[0], 0)) if hasattr(self.X, "tocsr") else np.asarray(self.X)
        is_number = samples.dtype.kind in "fiub" and samples.ndim == 2 and samples.size > 0
        if not is_number or not np.isfinite(samples).all():
            return np.arange(self.X.shape[0])
        return same_rows(samples.astype(np.float64, copy=False), COPY)

    @property
    def has_labels(self) -> bool:
        """Whether labels are learned from."""
        return not isinstance(self.truth, Constraints)

    def candidate(self, params: Params) -> BaseEstimator:
        """Return a new estimator with some parameters."""
        if id(params) not in self._made:
            copies = {name: clone(value, safe=False) for name, value in params.items()}
            self._made[id(params)] = clone(self.estimator).set_params(**copies), params
        made = self._made[id(params)][0]
        # To clone takes long beside a short fit. A seed is the only parameter that a fit changes.
        is_plain = type(made) is MDaML and isinstance(made.random_state, Integral)
        return copy(made) if is_plain else clone(made)

    @cached_property
    def _made(self) -> dict[int, tuple[BaseEstimator, Params]]:
        """Candidates that were made, by the id of their parameters."""
        return {}

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

    @cached_property
    def choices(self) -> dict[Any, tuple[Spec, Gain | None]]:
        """What was chosen, by the parameters, and for first rounds by what to choose from."""
        return {}

    @cached_property
    def runs(self) -> Runs:
        """The runs that were made."""
        return Runs()

    def fit(self, model: BaseEstimator, *, is_short: bool = False) -> BaseEstimator:
        """Fit a candidate, or make its first rounds.

        Candidates of MDaML share samples, neighbours, first modes and equal runs, and go on from
        their first rounds. Of others those rounds are set in their parameters.
        """
        if type(model) is not MDaML:
            return fit(model, *self.sides[0])
        samples, given = self._checked
        posed = pose(model, samples.shape, given, unit_rows=has_unit_rows(samples))
        # The search measures by itself; only what a candidate chooses is held out once more.
        chosen = bool(posed.spec.anchors or posed.spec.shrinkages)
        posed = replace(posed, spec=replace(posed.spec, is_measured=chosen))
        store = place(model, samples, posed.spec, posed.supervision, shared=self.stores)
        with store.threads():  # after the fit, too: threads of BLAS are slow to wake
            spec, gain = (self._share_choice if is_short else self._choose)(posed, store)
            posed = replace(posed, spec=spec)
            run = self._run(posed, store, model.random_state, is_short=is_short)
            model._keep(self.sides[0][0], posed, run, gain)
        return model

    def _run(self, posed: Posed, store: Any, seed: object, *, is_short: bool) -> Run:
        """Return a whole run, or its first rounds.

        From labels these are all that come before neighbours are searched again. Groups that were
        found in comparisons are learned from by short passes instead.
        """
        problem, spec = posed.problem, posed.spec
        if not is_short:
            return self.runs.make(problem, store, seed)
        if spec.neighbors and self.task.has_labels:
            return self.runs.make(problem, store, seed, spec.max_iter)
        n_rounds = min(FIRST_ROUNDS, spec.max_iter)
        if spec.neighbors and isinstance(posed.supervision, Classes):
            short = replace(problem, spec=replace(spec, max_iter=n_rounds))
            return self.runs.make(short, store, seed)
        return self.runs.make(problem, store, seed, n_rounds)

    def _choose(self, posed: Posed, store: Any) -> tuple[Spec, Gain | None]:
        """Choose the anchor or the shrinkage of a candidate, once for the same parameters."""
        spec = posed.spec
        if not (spec.anchors or spec.shrinkages) or spec.callback is not None:
            made, gain = posed.choose(store)
            return made.spec, gain
        is_found = isinstance(posed.supervision, Classes)  # groups in comparisons
        key = spec.rounds_key, spec.anchors, spec.shrinkages, is_found
        if key not in self.choices:
            made, gain = posed.choose(store)
            self.choices[key] = made.spec, gain
        return self.choices[key]

    def _share_choice(self, posed: Posed, store: Any) -> tuple[Spec, None]:
        """Take the anchor or the shrinkage of the first candidate that had as many to choose from.

        For first rounds, which only tell who is fitted to the end: a choice takes longer than they.
        Whether that candidate would keep the start does not matter to the others.
        """
        spec = posed.spec
        tried = spec.anchors
        if isinstance(posed.supervision, Classes):
            tried = list_shares(spec, len(posed.supervision.rows))
        short = replace(spec, anchors=(), shrinkages=())
        if not (spec.anchors or spec.shrinkages):
            return short, None
        if len(tried) == 1:  # only whether to keep the start is left to be chosen
            if spec.anchors:
                return replace(short, anchor=tried[0]), None
            return replace(short, shrinkage=tried[0]), None
        key = spec.anchors, spec.shrinkages
        if key not in self.choices:
            self.choices[key] = self._choose(posed, store)
        first = self.choices[key][0]
        return replace(short, anchor=first.anchor, shrinkage=first.shrinkage), None

    @cached_property
    def _checked(self) -> tuple[FloatArray, Supervision]:
        """The samples and the supervision as MDaML takes them."""
        X, truth = self.sides[0]
        given = {"y": truth} if self.task.has_labels else {"y": None, "constraints": truth}
        samples, supervision = check_supervision(MDaML(), EVERY_FORM, X, **given)
        return samples, SharedClasses.of_classes(supervision) if isinstance(
            supervision, Classes
        ) else supervision

    def score(self, model: BaseEstimator, *, is_short: bool = False) -> Attempt:
        """Return how well a model does on what is held out; after first rounds, on some of it."""
        (X, _), (held_out, asked) = self.sides
        votes = self.task.scoring == "knn_accuracy" and type(model) is MDaML
        if votes and is_for_gpu(model.device, len(held_out), *X.shape):
            right = np.asarray(self._votes(model.components_.T), bool)
            cases = Cases(right, np.flatnonzero(find_labelled(asked)))
            return Attempt(cases.mean, 0.0, cases)
        some = self._some_rows if is_short and self.task.scoring == "knn_accuracy" else None
        if some is None:
            return self.task.score(model, *self.sides)
        attempt = self.task.score(model, self.sides[0], (take_rows(held_out, some), asked[some]))
        assert attempt.cases is not None
        cases = attempt.cases
        return replace(attempt, cases=cases._replace(points=some[cases.points]))

    @cached_property
    def _some_rows(self) -> IntArray | None:
        """Held-out samples to tell by who is fitted to the end; None: all, as there are few."""
        labelled = np.flatnonzero(find_labelled(self.sides[1][1]))
        if len(labelled) <= _MOST_VOTED_ON:
            return None
        return np.sort(np.random.RandomState(0).permutation(labelled)[:_MOST_VOTED_ON])

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
        for name in ("sides", "stores", "choices", "runs", "_checked", "_votes", "_some_rows"):
            self.__dict__.pop(name, None)


def fit(estimator: BaseEstimator, X: Matrix, truth: Constraints | Array) -> BaseEstimator:
    """Fit an estimator or a pipeline to labels or constraints."""
    if not isinstance(truth, Constraints):
        return estimator.fit(X, truth)
    name = f"{estimator.steps[-1][0]}__constraints" if isinstance(estimator, Pipeline) else ""
    return estimator.fit(X, **{name or "constraints": truth})


def number_units(task: Task, splits: Sequence[Split], cases: Sequence[Cases]) -> IntArray:
    """Return which cases of splits belong together: those about one point or, of few, question.

    Labels and nearest items are about points, however few these are.
    """
    rows = [split.test_points[own.points] for split, own in zip(splits, cases, strict=True)]
    numbers = task.row_numbers
    units: IntArray = np.unique(numbers[np.concatenate(rows)], return_inverse=True)[1]
    if int(units.max()) + 1 >= _FEWEST_UNITS or task.scoring not in ("comparisons", "pair_auc"):
        return units
    asked, n = [], 0
    for split in splits:
        questions = find_questions(split.held_out, numbers[split.test_points])
        asked.append(n + questions[_of_cases(task, split)])
        n += int(questions.max()) + 1
    return np.unique(np.concatenate(asked), return_inverse=True)[1]


def _of_cases(task: Task, split: Split) -> IntArray:
    """Return which held-out constraints are cases: dissimilar pairs, or all that are no pairs."""
    held_out = split.held_out
    first, n_pairs = len(held_out.triplets), len(held_out.pairs)
    if task.scoring == "pair_auc" or n_pairs == held_out.n_constraints:
        return first + np.flatnonzero(held_out.pair_labels <= 0)
    return np.delete(np.arange(held_out.n_constraints), slice(first, first + n_pairs))


def take_rows(X: Matrix, rows: Array) -> Matrix:
    """Return some rows of an array, a data frame or a sparse matrix, of the same type."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def partners_of(metric: MDaML) -> Partners:
    """Return how a metric draws partners from labels."""
    return as_partners(metric, metric.partners, choose_row(metric, from_labels=True)[1].partners)

"""The distance before learning as a candidate of a search: it stays unless something leads it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from mdaml._typing import BoolArray, FloatArray
from mdaml.constraints import Constraints
from mdaml.estimators import Euclidean, MDaML
from mdaml.holdout.anchor import ask_if_swapped
from mdaml.holdout.rule import (
    LEVEL,
    LEVEL_OF_LABELS,
    Gain,
    explain_more_than_swapping,
    find_leaders,
    measure_gain,
)
from mdaml.holdout.split import Split
from mdaml.model_selection._gallery import metric_of
from mdaml.model_selection._ground import Attempt, Task, fit, number_units


def start_of(estimator: BaseEstimator) -> BaseEstimator:
    """Return what an estimator is before learning; of a pipeline, with its other steps.

    The Euclidean distance or, of MDaML, the metric to start from that it was given, at its rank.
    """
    start, metric = clone(estimator), metric_of(estimator)
    learner = Euclidean()
    if type(metric) is MDaML and not (
        isinstance(metric.init_metric, str) and metric.n_components is None
    ):
        learner = clone(metric).set_params(shrinkage=1.0)
    if isinstance(start, Pipeline):
        return start.set_params(**{start.steps[-1][0]: learner})
    return learner


def score_start(task: Task, splits: Sequence[Split]) -> list[Attempt]:
    """Return how well the distance before learning does on all splits."""
    made = []
    for split in splits:
        learned, held_out = task.sides(split)
        made.append(task.score(fit(start_of(task.estimator), *learned), learned, held_out))
    return made


def compare_with_start(
    task: Task,
    splits: Sequence[Split],
    trials: Sequence[Sequence[Attempt]],
    start: Sequence[Attempt],
    finished: BoolArray,
    best: int,
) -> tuple[bool, Gain | None]:
    """Return whether nothing leads the start by more than chance, and what the best gains.

    Units are the points that comparisons are about, or the samples. A function that scores as a
    whole knows of none: then the best must lead by an interval of 95 % over the splits, and the
    gain is None. Candidates that were given up early are counted too: the others were chosen from
    them by the same cases. Where one was not scored it counts as level with the start.
    """
    cases = [attempt.cases for attempt in start if attempt.cases is not None]
    if not cases:
        old, new = (np.array([attempt.score for attempt in own]) for own in (start, trials[best]))
        gain = measure_gain("score", old, new, np.arange(len(start)))
        return not gain.low > 0.0, None
    units = number_units(task, splits, cases)
    weights = None
    if cases[0].weights is not None:
        weights = np.concatenate([own.weights for own in cases if own.weights is not None])
    before, *others = (_join_cases(row, start) for row in (start, *trials))
    level = LEVEL_OF_LABELS if task.has_labels else LEVEL
    leads = finished & find_leaders(before, np.array(others), units, weights, level)
    name = {"knn_accuracy": "3-NN"}.get(str(task.scoring), str(task.scoring))
    gain = measure_gain(name, before, others[best], units, weights)
    if task.scoring == "comparisons" and isinstance(task.truth, Constraints):
        leads &= explain_more_than_swapping(before, np.array(others), weights)
        is_compared = len(task.truth.pairs) < task.truth.n_constraints
        if not leads.any() and is_compared and weights is not None:
            ask_if_swapped(before, 1.0 - before, units, weights)
    return not leads.any(), replace(gain, is_beyond_chance=bool(leads[best]))


def _join_cases(attempts: Sequence[Attempt], start: Sequence[Attempt]) -> FloatArray:
    """Return the scores of all cases, over the splits."""
    joined = []
    for attempt, before in zip(attempts, start, strict=True):
        assert before.cases is not None
        own = before.cases if attempt.cases is None else attempt.cases
        scores = own.scores.astype(np.float64)
        if len(scores) < len(before.cases.scores):  # after first rounds, of some samples
            some, scores = scores, before.cases.scores.astype(np.float64)
            scores[np.searchsorted(before.cases.points, own.points)] = some
        joined.append(scores)
    return np.concatenate(joined)

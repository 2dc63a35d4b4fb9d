"""What is known of a person by the kinds that the others are of."""

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml._validation import ignore_warnings
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.holdout.split import deal
from mdaml.holdout.units import same_rows
from mdaml.people._choice import AnswerSpace, choose_size, some_persons
from mdaml.people._mixture import Heard, Kinds, fit_persons, place_persons

_N_FOLDS = 3  # of persons
_FEWEST = 2  # persons of a kind: one alone is none
_MOST_ANSWERS = 50_000  # that kinds are learned from
_PULL_OF_VIEWS = 0.3  # of the metric of a person towards none


class Views(NamedTuple):
    """The kinds of persons, and the margins of all answers under those that others are of."""

    margins: FloatArray  # (K, n)
    chances: FloatArray  # (K,) of the kinds, before any answer
    of_person: FloatArray  # (P, K) by all answers


def find_views(
    metric: BaseEstimator, X: ArrayLike, supervision: Constraints, persons: Persons
) -> Views | None:
    """Return the kinds of persons around a fitted metric, or None if there is one at most.

    Kinds are learned without a third of the persons at a time, whose answers they then judge: what
    somebody answers is no evidence that it is right. Kinds of different thirds are in the order of
    those of all persons.
    """
    samples = np.asarray(X, dtype=np.float64)
    with ignore_warnings(UserWarning):
        points = same_rows(samples, 0.0)
        size, _, _ = choose_size(
            supervision, persons, points, lambda _: metric, samples, ("auto", None)
        )
    if size.n_kinds < 2:
        return None
    space = AnswerSpace.of(metric, samples, supervision, persons)
    whole = space.fit_kinds(size.n_kinds).without_empty(_FEWEST)
    if len(whole.shares) < 2:
        return None
    margins = np.empty((len(whole.shares), supervision.n_constraints))
    Y = metric._map(samples).astype(np.float64, copy=False)
    kinds = whole.of_person.argmax(axis=1)
    fold = deal(_N_FOLDS, np.arange(len(kinds)), kinds)  # those of one kind in all folds alike
    for number in range(_N_FOLDS):
        out = fold[persons.codes] == number
        others = persons.restrict(~out)
        few, known = some_persons(supervision.select(~out), others, _MOST_ANSWERS)
        learned = _learn_without(space, Y, few, known, len(whole.shares))
        features = space.coordinates.features(Y, supervision.comparisons()[out])
        near = [_match(learned, row) for row in whole.coefficients]
        margins[:, out] = learned[near] @ features.T
    return Views(margins, whole.shares, whole.of_person)


def predict_by_own(
    metric: BaseEstimator,
    X: ArrayLike,
    supervision: Constraints,
    persons: Persons,
    answer: IntArray,
) -> FloatArray:
    """Return the margin of each comparison under a metric learned from other answers of its person.

    ``answer`` numbers the answers: what one was turned into is held out together.
    """
    samples = np.asarray(X, dtype=np.float64)
    space = AnswerSpace.of(metric, samples, supervision, persons)
    features = space.coordinates.features(
        metric._map(samples).astype(np.float64, copy=False), supervision.comparisons()
    )
    margins, part = np.zeros(len(features)), answer % _N_FOLDS
    for number in range(_N_FOLDS):
        out = part == number
        kept = np.where(out, 0.0, supervision.weights)  # nobody is left out who has answered at all
        heard = Heard.of(features, kept, persons)
        one = Kinds(0.0 * space.center[None], np.ones(1), np.empty(0), np.empty((0, 1)))
        own = fit_persons(heard, place_persons(heard, one), _PULL_OF_VIEWS)
        margins[out] = np.einsum("nq,nq->n", features[out], own[persons.codes[out]])
    return margins


def _learn_without(
    space: AnswerSpace, Y: FloatArray, supervision: Constraints, persons: Persons, n_kinds: int
) -> FloatArray:
    """Return coefficients of kinds that some persons are of."""
    features = space.coordinates.features(Y, supervision.comparisons())
    heard = Heard.of(features, supervision.weights, persons)
    few = AnswerSpace(space.metric, space.coordinates, heard, space.center)
    return space.coordinates.cut(few.fit_kinds(n_kinds).coefficients)


def _match(found: FloatArray, row: FloatArray) -> int:
    """Return the kind that is nearest to a given one, by the angle."""
    lengths = np.maximum(np.linalg.norm(found, axis=1), 1e-12)  # zero: one of answers reversed
    return int(np.argmax(found @ row / lengths))

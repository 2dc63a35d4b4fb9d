"""What is known of a person by the kinds that the others are of."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml._validation import ignore_warnings
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.holdout.split import deal
from mdaml.holdout.units import COPY, same_rows
from mdaml.people._choice import AnswerSpace, choose_size, some_persons
from mdaml.people._mixture import Heard, Kinds, fit_persons
from mdaml.people._personal import PersonalMetrics

_N_FOLDS = 3  # of persons
_FEWEST = 2  # persons of a kind: one alone is none
_MOST_ANSWERS = 50_000  # that kinds are learned from
_N_PARTS = 6  # of the answers of a person
_MOST_OF_OTHERS = 20_000  # answers; of more, only persons in question are compared with each other
_CENTERS = ((0.0, 0.3), (1.0, 1.0))  # of a view: a multiple of the given metric, and the pull to it


class Views(NamedTuple):
    """The kinds of people, and the margins of all answers under those that others are of."""

    margins: FloatArray  # (K, n)
    chances: FloatArray  # (K,) of the kinds, before any answer
    of_person: FloatArray  # (P, K) by all answers


def find_views(
    metric: BaseEstimator, X: ArrayLike, supervision: Constraints, persons: Persons
) -> Views | None:
    """Return the kinds of people around a fitted metric, or None if there is one at most.

    Kinds are learned without a third of the persons at a time, whose answers they then judge: what
    somebody answers is no evidence that it is right. Kinds of different thirds are in the order of
    those of all persons, and these in the order of the kinds of a model of persons.
    """
    samples = np.asarray(X, dtype=np.float64)
    with ignore_warnings(UserWarning):
        points = same_rows(samples, COPY)
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
    if isinstance(metric, PersonalMetrics) and metric.n_kinds_ > 1:
        whole = whole.in_order(_order_as(metric, space, whole, Y, supervision.comparisons()))
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


def find_own_views(
    metric: BaseEstimator,
    X: ArrayLike,
    supervision: Constraints,
    persons: Persons,
    answer: IntArray,
    some: IntArray,
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield views that some persons may have, one person after the other.

    The places of their comparisons, (n,), and margins under metrics, (V, n). Two are learned from
    other answers of the person: near the given metric, and near none. The others are those of every
    other person, again near both: two persons who look at the same are no kind yet.
    ``answer`` numbers the answers: what one was turned into is held out together.
    """
    samples = np.asarray(X, dtype=np.float64)
    space = AnswerSpace.of(metric, samples, supervision, persons)
    Y = metric._map(samples).astype(np.float64, copy=False)
    features = space.coordinates.features(Y, supervision.comparisons())
    known = some if len(features) > _MOST_OF_OTHERS else np.arange(len(persons))
    of_others = [
        _fit_own(space, features, supervision.weights, persons, known, c) for c in _CENTERS
    ]
    margins = np.zeros((len(_CENTERS), len(features)))
    for part in range(_N_PARTS):
        out = answer % _N_PARTS == part
        weights = np.where(out, 0.0, supervision.weights)  # all who answered stay
        for row, center in zip(margins, _CENTERS, strict=True):
            own = np.zeros((len(persons), features.shape[1]))
            own[some] = _fit_own(space, features, weights, persons, some, center)
            row[out] = np.einsum("nq,nq->n", features[out], own[persons.codes[out]])
    for person in some:
        rows = np.flatnonzero(persons.codes == person)
        others = np.concatenate([own[known != person] for own in of_others])
        yield rows, np.vstack([margins[:, rows], others @ features[rows].T])


def _fit_own(
    space: AnswerSpace,
    features: FloatArray,
    weights: FloatArray,
    persons: Persons,
    some: IntArray,
    center: tuple[float, float],
) -> FloatArray:
    """Return coefficients of metrics of some persons, pulled to a multiple of the given metric."""
    multiple, pull = center
    rows = np.flatnonzero(np.isin(persons.codes, some))
    codes = np.searchsorted(some, persons.codes[rows])
    heard = Heard.of(features[rows], weights[rows], Persons(persons.names[some], codes))
    one = Kinds(multiple * space.center[None], np.ones(1), np.empty(0), np.ones((len(some), 1)))
    return fit_persons(heard, one, pull)


def _learn_without(
    space: AnswerSpace, Y: FloatArray, supervision: Constraints, persons: Persons, n_kinds: int
) -> FloatArray:
    """Return coefficients of kinds that some persons are of."""
    features = space.coordinates.features(Y, supervision.comparisons())
    heard = Heard.of(features, supervision.weights, persons)
    few = AnswerSpace(space.metric, space.coordinates, heard, space.center)
    return space.coordinates.cut(few.fit_kinds(n_kinds).coefficients)


def _order_as(
    model: PersonalMetrics, space: AnswerSpace, kinds: Kinds, Y: FloatArray, asked: IntArray
) -> IntArray:
    """Return kinds in the order of those of a model that are most like them, others behind."""
    known = model._coordinates.features(Y, asked) @ model.kind_coefficients_.T
    found = space.coordinates.features(Y, asked) @ kinds.coefficients.T
    known, found = (m / np.maximum(np.linalg.norm(m, axis=0), 1e-12) for m in (known, found))
    rows, places = linear_sum_assignment(-found.T @ known)
    rank = np.full(len(kinds.shares), model.n_kinds_)
    rank[rows] = places
    return np.argsort(rank, kind="stable")


def _match(found: FloatArray, row: FloatArray) -> int:
    """Return the kind that is nearest to a given one, by the angle."""
    lengths = np.maximum(np.linalg.norm(found, axis=1), 1e-12)  # zero: one of answers reversed
    return int(np.argmax(found @ row / lengths))

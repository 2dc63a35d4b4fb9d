"""What is known of a person by the kinds that the others are of."""

from typing import Any, NamedTuple

import numpy as np

from mdaml._typing import FloatArray
from mdaml._validation import ignore_warnings
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.holdout.units import same_rows
from mdaml.people._choice import Size, Space, choose_size, some_persons
from mdaml.people._mixture import Heard

_N_FOLDS = 3  # of persons
_MOST_ANSWERS = 50_000  # that kinds are learned from


class Views(NamedTuple):
    """The kinds of persons, and the margins of all answers under those that others are of."""

    margins: FloatArray  # (K, n)
    chances: FloatArray  # (K,) of the kinds, before any answer
    of_person: FloatArray  # (P, K) by all answers
    sizes: FloatArray  # (K,) persons who are most probably of each kind


def find_views(metric: Any, X: FloatArray, said: Constraints, persons: Persons) -> Views | None:
    """Return the kinds of persons around a fitted metric, or None if there is one at most.

    Kinds are learned without a third of the persons at a time, whose answers they then judge: what
    somebody answers is no evidence that it is right. Kinds of different thirds are in the order of
    those of all persons.
    """
    samples = np.asarray(X, np.float64)
    with ignore_warnings(UserWarning):
        points = same_rows(samples, 0.0)
        size, _, _ = choose_size(
            said, persons, points, lambda _: metric, samples, Size("auto", None)
        )
    if size.n_kinds < 2:
        return None
    space = Space.of(metric, samples, said, persons)
    whole = space.fit_kinds(size.n_kinds).without_empty()
    margins = np.empty((len(whole.shares), said.n_constraints))
    Y, fold = metric._map(samples).astype(np.float64, copy=False), _deal(whole.of_person)
    for number in range(_N_FOLDS):
        out = fold[persons.codes] == number
        others = _rename(persons, ~out)
        few, known = some_persons(said.select(~out), others, _MOST_ANSWERS)
        learned = _learn_without(space, Y, few, known, len(whole.shares))
        features = space.coordinates.features(Y, said.comparisons()[out])
        near = [_match(learned, row) for row in whole.coefficients]
        margins[:, out] = learned[near] @ features.T
    best = whole.of_person.argmax(axis=1)
    sizes = np.bincount(best, minlength=len(whole.shares)).astype(float)
    return Views(margins, whole.shares, whole.of_person, sizes)


def _deal(of_person: FloatArray) -> Any:
    """Return the fold of each person; those of one kind in all folds alike."""
    order = np.argsort(of_person.argmax(axis=1), kind="stable")
    fold = np.empty(len(order), np.int64)
    fold[order] = np.arange(len(order)) % _N_FOLDS
    return fold


def _rename(persons: Persons, kept: Any) -> Persons:
    known, codes = np.unique(persons.codes[kept], return_inverse=True)
    return Persons(persons.names[known], codes)


def _learn_without(
    space: Space, Y: FloatArray, said: Constraints, persons: Persons, n_kinds: int
) -> FloatArray:
    """Return coefficients of kinds that some persons are of."""
    features = space.coordinates.features(Y, said.comparisons())
    heard = Heard.of(features, said.weights, persons)
    few = Space(space.metric, space.coordinates, heard, space.center)
    return space.coordinates.cut(few.fit_kinds(n_kinds).coefficients)


def _match(found: FloatArray, row: FloatArray) -> int:
    """Return the kind that is nearest to a given one, by the angle."""
    return int(np.argmax(found @ row / np.linalg.norm(found, axis=1)))

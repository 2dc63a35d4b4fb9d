"""How many kinds few answers speak for: a test by simulated answers, then persons held out."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.people._mixture import (
    RIGHT,
    WRONG,
    Heard,
    chances_of_answers,
    place,
    place_persons,
)

if TYPE_CHECKING:  # it counts its kinds by these functions
    from mdaml.people._choice import AnswerSpace

_N_SIMULATED = 19  # chance exceeds all of them once in twenty times
_TESTED = 3  # kinds, against one; those of two are among them
_N_FOLDS = 10  # of persons
_STARTS = 8  # of each fit: there are many


def count_kinds(space: "AnswerSpace", questions: IntArray, most: int) -> int:
    """Return how many kinds there are, at most ``most``.

    There is one, unless three lower the objective more than they do for all of 19 sets of answers
    that are simulated under one kind. The number is then the one under which answers of persons who
    are held out are most likely, or the smallest within a standard error of it.
    """
    if most < 2 or not _is_more_than_one(space, questions, min(_TESTED, most)):
        return 1
    found = {1: _held_out_evidence(space, 1)}
    best = 1
    while ahead := [n for n in (best + 1, best + 2) if n <= most]:
        found |= {n: _held_out_evidence(space, n) for n in ahead if n not in found}
        last, best = best, max((best, *ahead), key=lambda n: found[n].sum())
        if best == last:
            break
    for n in range(2, best):
        leads = found[best] - found[n]
        if leads.sum() < np.sqrt(np.square(leads).sum()) and found[n].sum() > found[1].sum():
            return n
    return best


def _is_more_than_one(space: "AnswerSpace", questions: IntArray, n_kinds: int) -> bool:
    """Say whether several kinds explain more than chance, by a parametric bootstrap.

    Answers are simulated under the metric of one kind with the errors of each person. Those of one
    person to one question are turned together: they may not have been given independently.
    """
    heard, one = space.heard, space.fit_kinds(1)
    lead = one.history[-1] - space.fit_kinds(n_kinds, n_starts=_STARTS).history[-1]
    chances = chances_of_answers(
        heard.features @ one.coefficients[0], one.errors[heard.persons.codes]
    )
    keys = np.column_stack([heard.persons.codes, questions])
    together = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    rng = np.random.RandomState(0)
    for _ in range(_N_SIMULATED):
        turned = rng.uniform(size=int(together.max()) + 1)[together] > chances
        signs = np.where(turned, -1.0, 1.0)
        drawn = space.with_heard(replace(heard, features=heard.features * signs[:, None]))
        several = drawn.fit_kinds(n_kinds, n_starts=_STARTS)
        if drawn.fit_kinds(1).history[-1] - several.history[-1] >= lead:
            return False
    return True


def _held_out_evidence(space: "AnswerSpace", n_kinds: int) -> FloatArray:
    """Return the log evidence of all answers of each person, by kinds of the others, (P,)."""
    heard, n_persons = space.heard, len(space.heard.persons)
    fold = np.random.RandomState(0).permutation(n_persons) % _N_FOLDS
    evidence = np.zeros(n_persons)
    for number in range(min(_N_FOLDS, n_persons)):
        out = fold[heard.persons.codes] == number
        others = space.with_heard(_some(heard, np.flatnonzero(~out)))
        kinds = others.fit_kinds(n_kinds, n_starts=_STARTS)
        judged = _some(heard, np.flatnonzero(out))
        placed = place_persons(judged, kinds)
        prior = WRONG * np.log(placed.errors) + RIGHT * np.log1p(-placed.errors)
        evidence[fold == number] = place(judged, placed)[1] + prior
    return evidence


def _some(heard: Heard, rows: IntArray) -> Heard:
    """Return some of the answers, and the persons who gave them."""
    return Heard(heard.features[rows], heard.weights[rows], heard.persons.restrict(rows))

"""How many kinds of people few answers speak for."""

import numpy as np
import pytest

from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.datasets import make_triplets
from mdaml.estimators import Euclidean
from mdaml.people._choice import AnswerSpace
from mdaml.people._counting import count_kinds


def count(n_kinds, seed, times=1):
    """Return the number found for 12 persons with 30 answers each, given so many times."""
    X, eye = np.random.default_rng(seed).normal(size=(60, 4)), np.eye(4)
    supervision = [
        make_triplets(
            X,
            n_triplets=30,
            components=eye[[0, 1 + p % n_kinds]],
            wrong=0.1,
            random_state=100 * seed + p,
        )[0]
        for p in range(12)
    ]
    T, who = np.concatenate(supervision), np.repeat(np.arange(12), 30)
    T, who = np.tile(T, (times, 1)), np.tile(who, times)
    persons = Persons.from_who(who, len(T))
    space = AnswerSpace.of(Euclidean().fit(X), X, Constraints.of_triplets(T, len(X)), persons)
    questions = np.tile(np.arange(360), times)[np.argsort(who, kind="stable")]
    return count_kinds(space, questions, 4)


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_thirty_answers_each_show_two_kinds(seed):
    assert count(2, seed) == 2


def test_persons_who_agree_are_of_one_kind():
    assert sum(count(1, seed) > 1 for seed in range(8)) <= 1


def test_answers_given_three_times_are_no_evidence_of_kinds():
    assert sum(count(1, seed, times=3) > 1 for seed in range(4)) <= 1

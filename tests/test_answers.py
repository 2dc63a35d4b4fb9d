"""Answers as people give them: each form against its rule in plain loops, and the rule itself."""

from collections import Counter, defaultdict
from itertools import combinations, permutations
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdaml import Constraints
from mdaml.model_selection import ConstraintKFold

SEEDS = st.integers(0, 2**32 - 1)


def weighed(value):
    """Return the weight of each (answer, triplet or quadruplet)."""
    members = value.triplets if len(value.triplets) else value.quadruplets
    answers = value.columns["answer_number"].tolist()
    found = Counter()
    for answer, row, weight in zip(answers, members.tolist(), value.weights.tolist(), strict=True):
        found[answer, *row] += weight
    return found


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for key, weight in wanted.items():
        assert found[key] == pytest.approx(weight, rel=1e-12)


def draw_items(rng, n_answers, n_items, n_points=9):
    return np.array([rng.permutation(n_points)[:n_items] for _ in range(n_answers)])


# Each form against loops


@given(seed=SEEDS, n=st.integers(1, 8), k=st.integers(3, 6))
def test_odd_one_out(seed, n, k):
    rng = np.random.default_rng(seed)
    items = draw_items(rng, n, k)
    odd = [int(rng.choice([-1, *row])) for row in items]
    wanted = Counter()
    for answer, row in enumerate(items.tolist()):
        for out in [odd[answer]] if odd[answer] >= 0 else row:
            share = 1 if odd[answer] >= 0 else 1 / k
            for i, j in permutations([item for item in row if item != out], 2):
                wanted[answer, i, j, out] += share * 2 / (k * (k - 2))
    value = Constraints.from_odd_one_out(items, odd, n_points=9)
    same(weighed(value), wanted)
    totals = defaultdict(float)
    for (answer, *_), weight in weighed(value).items():
        totals[answer] += weight
    assert list(totals.values()) == pytest.approx([2 * (k - 1) / k] * n)
    assert value.counts().ties == odd.count(-1)


@given(seed=SEEDS, n=st.integers(1, 8), k=st.integers(2, 7))
def test_rankings(seed, n, k):
    rng = np.random.default_rng(seed)
    items = draw_items(rng, n, k + 1)
    anchors, rankings = items[:, 0], items[:, 1:].copy()
    for row in rankings:
        row[rng.integers(2, k + 1) :] = -1
    wanted = {}
    for answer, row in enumerate(rankings.tolist()):
        left = [item for item in row if item >= 0]
        while len(left) > 1:  # the choice of one of those that are left
            first, *left = left
            for other in left:
                wanted[answer, int(anchors[answer]), first, other] = 2 / (len(left) + 1)
    value = Constraints.from_rankings(anchors, rankings, n_points=9)
    same(weighed(value), wanted)
    for answer, row in enumerate(rankings):
        length = int(np.sum(row >= 0))
        weight = sum(w for (number, *_), w in wanted.items() if number == answer)
        assert weight == pytest.approx(2 * sum(1 - 1 / m for m in range(2, length + 1)))


@given(seed=SEEDS, n=st.integers(1, 6), m=st.integers(2, 5))
def test_picks_are_the_mean_over_all_orders_in_which_they_were_made(seed, n, m):
    rng = np.random.default_rng(seed)
    items = draw_items(rng, n, m + 1)
    anchors, shown = items[:, 0], items[:, 1:].copy()
    for row in shown:
        row[rng.permutation(m)[: rng.integers(0, m - 1)]] = -1
    picked = np.where(rng.random(shown.shape) < 0.5, shown, -1)
    wanted = Counter()
    for answer, row in enumerate(shown.tolist()):
        there = [item for item in row if item >= 0]
        chosen = [item for item in picked[answer].tolist() if item >= 0]
        decided = 0 < len(chosen) < len(there)
        sets = [chosen] if decided else [[item] for item in there]
        for few in sets:
            orders = list(permutations(few))
            for order in orders:
                left = list(there)
                for first in order:
                    size = len(left)
                    left.remove(first)
                    for other in left:
                        if other not in few:  # picked ones cancel among themselves
                            key = answer, int(anchors[answer]), first, other
                            wanted[key] += 2 / size / len(orders) / len(sets)
    value = Constraints.from_picks(anchors, shown, picked, n_points=9)
    same(weighed(value), wanted)


@given(seed=SEEDS, n=st.integers(1, 10), width=st.integers(2, 3))
def test_votes(seed, n, width):
    rng = np.random.default_rng(seed)
    questions = draw_items(rng, n, 3)
    votes = rng.integers(0, 4, (n, width))
    votes[votes.sum(axis=1) == 0, 0] = 1
    wanted = {}
    for answer, (a, b, c) in enumerate(questions.tolist()):
        neither = votes[answer, 2] / 2 if width == 3 else 0
        for_b, for_c = votes[answer, 0] + neither, votes[answer, 1] + neither
        if for_b > for_c:
            wanted[answer, a, b, c] = log((for_b + 1) / (for_c + 1)) / log(2)
        elif for_c > for_b:
            wanted[answer, a, c, b] = log((for_c + 1) / (for_b + 1)) / log(2)
        else:
            wanted[answer, a, b, c] = wanted[answer, a, c, b] = 0.5
    value = Constraints.from_votes(questions, votes, n_points=9)
    same(weighed(value), wanted)
    counts = value.counts()
    assert counts.triplets == n + counts.ties  # nothing lost
    assert counts.ties == sum(2 * b == 2 * c for b, c in votes[:, :2].tolist())


@given(seed=SEEDS, n=st.integers(2, 40), n_others=st.integers(1, 12))
def test_grades(seed, n, n_others):
    rng = np.random.default_rng(seed)
    pairs, grades, who = draw_items(rng, n, 2, 7), rng.integers(1, 6, n), rng.integers(0, 3, n)
    grades = grades if n_others >= 10 else rng.permutation(n)  # few might meet equal ones only
    different = {
        (i, j)
        for i, j in permutations(range(n), 2)
        if who[i] == who[j] and grades[i] > grades[j] and set(pairs[i]) != set(pairs[j])
    }
    if not different:
        with pytest.raises(ValueError, match="compare nothing"):
            Constraints.from_grades(pairs, grades, who=who)
        return
    value = Constraints.from_grades(
        pairs, grades, who=who, n_others=n_others, n_points=7, random_state=seed
    )
    near = value.columns["answer_number"]
    rows = {tuple(row): [] for row in pairs.tolist()}
    for number, row in enumerate(pairs.tolist()):
        rows[tuple(row)].append(number)
    by_person = defaultdict(list)
    for i, (a, b, c, d), weight, person in zip(
        near.tolist(), value.quadruplets.tolist(), value.weights, value.columns["who"], strict=True
    ):
        assert pairs[i].tolist() == [a, b]
        assert who[i] == person
        assert any((i, j) in different for j in rows[c, d])
        by_person[int(person)].append((i, (c, d), weight))
    for person, compared in by_person.items():
        assert sum(weight for *_, weight in compared) == pytest.approx(np.sum(who == person) - 1)
    met = Counter(near.tolist())
    assert max(met.values()) <= 2 * ((n_others + 1) // 2)


def test_all_grades_of_a_small_group_are_compared_by_their_differences():
    pairs, grades = list(combinations(range(5), 2)), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    value = Constraints.from_grades(pairs, grades, n_others=10)
    differences = {
        (*pairs[i], *pairs[j]): grades[i] - grades[j]
        for i, j in permutations(range(10), 2)
        if grades[i] > grades[j]
    }
    total = sum(differences.values())
    found = dict(zip(map(tuple, value.quadruplets.tolist()), value.weights, strict=True))
    assert found.keys() == differences.keys()
    for key, difference in differences.items():
        assert found[key] == pytest.approx(difference * 9 / total)


@given(seed=SEEDS, n=st.integers(1, 30), n_points=st.integers(3, 12), q=st.integers(1, 6))
def test_negatives_of_positives_are_none_that_is_known(seed, n, n_points, q):
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.permutation(n_points)[:2] for _ in range(n)])
    X = rng.normal(size=(n_points, 2)) if rng.random() < 0.5 else None
    known = {frozenset(pair) for pair in pairs.tolist()}
    free = [
        {c for c in range(n_points) if c != a and frozenset((a, c)) not in known} for a, _ in pairs
    ]
    if not any(free):
        return
    value = Constraints.from_positives(
        pairs, n_negatives=q, X=X, n_points=n_points, hard=0.5, random_state=seed
    )
    drawn = defaultdict(list)
    for answer, (a, b, c) in zip(
        value.columns["answer_number"].tolist(), value.triplets.tolist(), strict=True
    ):
        assert [a, b] == pairs[answer].tolist()
        drawn[answer].append(c)
    for answer in range(n):
        assert len(drawn[answer]) == min(q, len(free[answer])) == len(set(drawn[answer]))
        assert set(drawn[answer]) <= free[answer]
        if X is not None:
            distance = {c: np.sum((X[pairs[answer, 0]] - X[c]) ** 2) for c in free[answer]}
            nearest = sorted(distance, key=distance.get)[: round(0.5 * q)]
            assert drawn[answer][: len(nearest)] == nearest
    for (answer, *_), weight in weighed(value).items():
        assert weight == pytest.approx(2 / (len(drawn[answer]) + 1))


def test_hard_negatives_are_near_under_the_current_metric():
    class Metric:
        def transform(self, X):
            return np.asarray(X)[:, :1]

    X = np.array([[0, 0], [0, 9], [1, 50], [2, 1], [3, 2]], float)
    value = Constraints.from_positives([[0, 1]], n_negatives=1, X=X, model=Metric(), hard=1.0)
    assert value.triplets.tolist() == [[0, 1, 2]]
    value = Constraints.from_positives([[0, 1]], n_negatives=1, X=X, hard=1.0)
    assert value.triplets.tolist() == [[0, 1, 3]]


# Why the weights are so


def logistic_gradient(value, sq_dists, h=1e-5):
    """Return the gradient of the weighted logistic losses in every squared distance."""

    def loss(D):
        return sum(
            weight * log(1 + exp(D[a, b] - D[a, c]))
            for (a, b, c), weight in zip(value.triplets.tolist(), value.weights, strict=True)
        )

    return numeric_gradient(loss, sq_dists, h)


def numeric_gradient(function, sq_dists, h=1e-5):
    gradient = {}
    for i, j in combinations(range(len(sq_dists)), 2):
        step = np.zeros_like(sq_dists)
        step[i, j] = step[j, i] = h
        gradient[i, j] = (function(sq_dists + step) - function(sq_dists - step)) / (2 * h)
    return gradient


def choice_loss(utilities, chosen):
    """Return minus the logarithm of the probability of a choice, by Luce."""
    return log(sum(map(exp, utilities))) - utilities[chosen]


@pytest.mark.parametrize("k", [3, 4, 5])
def test_weights_of_odd_one_out_have_the_gradient_of_a_choice(k):
    def loss(D):
        return choice_loss([D[i].sum() / (k - 2) for i in range(k)], k - 1)

    alike = 0.7 * (1 - np.eye(k))
    value = Constraints.from_odd_one_out([list(range(k))], [k - 1])
    assert logistic_gradient(value, alike) == pytest.approx(numeric_gradient(loss, alike), abs=1e-8)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_weights_of_rankings_have_the_gradient_of_repeated_choices(n):
    def loss(D):
        return sum(choice_loss([-D[0, i] for i in range(first, n + 1)], 0) for first in range(1, n))

    alike = 0.7 * (1 - np.eye(n + 1))
    value = Constraints.from_rankings([0], [list(range(1, n + 1))])
    assert logistic_gradient(value, alike) == pytest.approx(numeric_gradient(loss, alike), abs=1e-8)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (4, 1), (4, 2), (5, 3)])
def test_weights_of_picks_have_the_gradient_of_the_probability_of_the_set(n, k):
    def loss(D):
        chance = 0.0
        for order in permutations(range(1, k + 1)):
            left, product = list(range(1, n + 1)), 1.0
            for item in order:
                product *= exp(-choice_loss([-D[0, i] for i in left], left.index(item)))
                left.remove(item)
            chance += product
        return -log(chance)

    alike = 0.7 * (1 - np.eye(n + 1))
    value = Constraints.from_picks([0], [list(range(1, n + 1))], [list(range(1, k + 1))])
    assert logistic_gradient(value, alike) == pytest.approx(numeric_gradient(loss, alike), abs=1e-8)


@pytest.mark.parametrize("m", [2, 3, 6])
def test_a_choice_has_on_average_the_hessian_of_its_comparisons(m):
    """The expected Hessian in the utilities, where all are alike: (m I - 1 1') / m²."""
    star = np.zeros((m, m))
    for chosen in range(m):
        for other in set(range(m)) - {chosen}:
            difference = np.eye(m)[chosen] - np.eye(m)[other]
            star += (2 / m) * 0.25 * np.outer(difference, difference) / m
    np.testing.assert_allclose(star, (m * np.eye(m) - 1) / m**2)


# Held out together


@given(seed=SEEDS, n=st.integers(12, 40))
@settings(max_examples=30)
def test_comparisons_of_one_answer_are_held_out_together(seed, n):
    rng = np.random.default_rng(seed)
    items = draw_items(rng, n, 4, 40)
    value = Constraints.from_rankings(items[:, 0], items[:, 1:], n_points=40)
    tests = []
    for split in ConstraintKFold(3, random_state=seed).split(value):
        held_out = set(split.test.columns["answer_number"].tolist())
        assert not held_out & set(split.train.columns["answer_number"].tolist())
        tests += held_out
    assert sorted(tests) == list(range(n))


def test_answers_that_share_comparisons_with_all_others_are_still_split():
    rng = np.random.default_rng(0)
    rankings = np.array([rng.permutation(4) + 1 for _ in range(30)])
    value = Constraints.from_rankings(np.zeros(30, int), rankings)
    sizes = [split.test.n_constraints for split in ConstraintKFold(3).split(value)]
    assert sizes == [60, 60, 60]


# Names, columns, faults


def test_names_are_found_and_columns_follow_their_answers():
    import pandas

    ids = ["ant", "bee", "cat", "dog"]
    frame = pandas.DataFrame({"i": ["cat", "ant"], "j": ["dog", "bee"], "k": ["ant", "cat"]})
    value = Constraints.from_odd_one_out(
        frame, pandas.Series(["ant", None]), ids=ids, columns={"who": ["ann", "bob"], "t": [1, 2]}
    )
    assert value.triplets[:2].tolist() == [[2, 3, 0], [3, 2, 0]]
    assert value.columns["who"].tolist() == ["ann"] * 2 + ["bob"] * 6
    assert value.columns["t"].tolist() == [1] * 2 + [2] * 6
    assert value.ids.tolist() == ids
    assert value.counts().ties == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.from_odd_one_out([[0, 1, 1]], [0]), r"an item is there twice \(1 of 1, the"),
        (lambda c: c.from_odd_one_out([[0, 1, 2]], [3]), "the odd one is none of the items"),
        (lambda c: c.from_odd_one_out([[0, 1]], [1]), "at least three"),
        (lambda c: c.from_odd_one_out([["a", "b", "c"]], ["a"]), "pass ids="),
        (
            lambda c: c.from_odd_one_out([["a", "b", "Cat"]], ["a"], ids=["a", "b", "cat"]),
            r"items has a name that no row of X has: 'Cat' \(did you mean 'cat'\?\)",
        ),
        (lambda c: c.from_rankings([0], [[1, -1, 2]]), "a gap in the ranking"),
        (lambda c: c.from_rankings([0], [[1, -1]]), "fewer than two items"),
        (lambda c: c.from_rankings([0, 3], [[1, 0], [0, 3]]), r"among the items \(2 of 2"),
        (lambda c: c.from_picks([0], [[1, 2]], [[3]]), "picked that was not shown"),
        (lambda c: c.from_votes([[0, 1, 2]], [[0, 0]]), "there is no vote"),
        (lambda c: c.from_votes([[0, 1, 2]], [[-1, 2]]), "votes must be counts"),
        (lambda c: c.from_votes([[0, 1, 2]], [[np.nan, 2]]), "votes must be counts"),
        (lambda c: c.from_votes([[0, 1, 2]], [[1]]), r"got shape \(1, 1\)"),
        (lambda c: c.from_grades([[0, 1]], [np.nan]), "the grade is not a number"),
        (lambda c: c.from_grades([[0, 1], [0, 2]], [1, 1]), "compare nothing"),
        (lambda c: c.from_positives([[1, 1]]), "both are the same point"),
        (lambda c: c.from_positives([[0, 1]], n_points=5, hard=2.0), "hard"),
        (
            lambda c: c.from_positives([[0, 1]], n_points=5, X=np.eye(4)),
            "one row for each of the 5",
        ),
        (lambda c: c.from_votes([[0, 1, 2]], [[1, 0]], columns={"who": []}), "1 answers; column"),
        (lambda c: c.from_votes([[0, 1, 2]], [[1, 0]], n_points=2), "name row 2, but X has 2"),
    ],
)
def test_wrong_answers_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(Constraints)


def test_undecided_answers_are_no_contradictions_but_opposite_answers_are():
    value = Constraints.from_votes([[0, 1, 2], [0, 1, 2], [0, 1, 2]], [[1, 1], [1, 0], [0, 1]])
    counts = value.counts()
    assert (counts.ties, counts.contradictions, counts.duplicates) == (1, 1, 0)

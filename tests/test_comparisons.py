"""Comparisons of any two pairs, with weights: triplets, pairs and quadruplets in one fit."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import literal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.models import make_mdaml

from mdaml import GMML, KISSME, LMNN, Constraints, DMLeig, Euclidean, MDaML
from mdaml.constraints.comparisons import Comparisons, PairSet
from mdaml.constraints.matching import match_pairs
from mdaml.stores.arrays import scale_weights

# Few rounds are enough to see what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def random_comparisons(seed, n_samples=20, n=80):
    """Near and far pairs, some with a common sample, some given twice, some the wrong way round."""
    rng = np.random.default_rng(seed)
    rows = np.array([rng.choice(n_samples, 4, replace=False) for _ in range(n)])
    rows[::3, 2] = rows[::3, 0]
    return np.concatenate([rows, rows[:5], rows[:4, [1, 0, 3, 2]], rows[-5:, [2, 3, 0, 1]]])


def random_weights(seed, n):
    return np.random.default_rng(3000 + seed).uniform(0.2, 3.0, n)


# Triplets and comparisons


@pytest.mark.parametrize("seed", range(3))
def test_triplets_are_comparisons_with_a_common_sample(
    random_problem, local_problem, store, rank, seed
):
    problem = random_problem(seed)
    quadruplets, ones = problem.comparisons
    general = replace(problem, quadruplets=quadruplets, quadruplet_weights=7 * ones)
    fused, local = (local_problem(p, store=store, rank=rank) for p in (problem, general))
    assert local.store.total == pytest.approx(80.0, rel=1e-12)
    assert fused.store.total == 80.0
    F = np.random.default_rng(seed).normal(size=local.F.shape)
    objective, same = local.objective(), fused.objective()
    point, expected = objective.at(F), same.at(F)
    assert point.value == pytest.approx(expected.value, rel=1e-12)
    gradient = objective.space.gradient(objective, point)
    np.testing.assert_allclose(gradient, same.space.gradient(same, expected), rtol=1e-9, atol=1e-10)
    mean_losses = [part.alternation.mean_loss(part.start(F)) for part in (local, fused)]
    assert mean_losses[0] == pytest.approx(mean_losses[1], rel=1e-12)


@pytest.mark.parametrize("factor", [2.0, 1e9])
def test_weight_two_is_the_comparison_twice_and_only_ratios_matter(
    random_problem, local_problem, rank, factor
):
    problem = random_problem(0, form="quadruplets")
    times = np.where(np.arange(len(problem.quadruplets)) % 3 == 0, 2, 1)
    weighted = replace(problem, quadruplet_weights=factor * times)
    repeated = np.repeat(problem.quadruplets, times, axis=0)
    twice = replace(problem, quadruplets=repeated, quadruplet_weights=np.ones(len(repeated)))
    values = []
    for each in (weighted, twice):
        local = local_problem(each, rank=rank)
        objective = local.objective()
        point = objective.at(local.F)
        values.append((point.value, objective.space.gradient(objective, point)))
    assert values[0][0] == pytest.approx(values[1][0], rel=1e-12)
    np.testing.assert_allclose(values[0][1], values[1][1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_modes", [1, 3])
def test_a_fit_by_triplets_is_that_by_their_quadruplets(n_modes):
    X, triplets = toy_triplets()
    model, same = (
        make_mdaml("eq. 7", n_modes, max_iter=5, random_state=0).fit(X, **form)
        for form in ({"triplets": triplets}, {"quadruplets": triplets[:, [1, 0, 0, 2]]})
    )
    np.testing.assert_allclose(same.history_, model.history_, rtol=1e-8)
    np.testing.assert_allclose(
        same.get_mahalanobis_matrix(), model.get_mahalanobis_matrix(), rtol=1e-4, atol=1e-6
    )


def test_equal_weights_change_nothing_to_the_last_bit():
    X, triplets = toy_triplets()
    models = [
        make_mdaml("eq. 7", 2, random_state=0).fit(X, triplets=triplets, constraint_weight=weight)
        for weight in (None, np.full(len(triplets), 0.3))
    ]
    np.testing.assert_array_equal(models[0].history_, models[1].history_)
    assert models[1].comparisons_ is models[1].comparison_weights_ is None


# The grouping


@st.composite
def comparison_arrays(draw):
    n_samples = draw(st.integers(3, 8))
    member = st.integers(0, n_samples - 1)
    pair = st.tuples(member, member).filter(lambda pair: pair[0] != pair[1])
    two = st.tuples(pair, pair).filter(lambda both: set(both[0]) != set(both[1]))
    return np.array(draw(st.lists(two, min_size=1, max_size=40))).reshape(-1, 4), n_samples


@settings(max_examples=80)
@given(comparison_arrays())
def test_every_comparison_is_there_as_often_as_it_was_given(case):
    comparisons, n_samples = case
    made = Comparisons.from_quadruplets(comparisons, np.ones(len(comparisons)), n_samples)
    expected = Counter(
        (tuple(sorted(row[:2])), tuple(sorted(row[2:]))) for row in comparisons.tolist()
    )
    pairs, found = list(map(tuple, made.pairs.tolist())), Counter()
    for p, (first, last) in enumerate(zip(made.first, made.last, strict=True)):
        for t in range(first, last):
            found[pairs[p], pairs[made.far[t]]] += made.weights[t]
    assert found == expected
    assert made.total == len(comparisons)
    assert pairs == sorted({pair for both in expected for pair in both})
    parts = [set(made.pairs[a:b, 0].tolist()) for a, b in pairwise(made.groups)]
    assert all(len(part) == 1 for part in parts)
    assert len(parts) == len(np.unique(made.pairs[:, 0]))
    bounds, members = made.by_far
    for p, (a, b) in enumerate(pairwise(bounds)):
        np.testing.assert_array_equal(made.far[members[a:b]], p)
    assert sorted(members) == list(range(len(made.far)))


def test_weights_in_a_store_are_one_on_average_and_those_in_a_group_are_kept():
    comparisons = random_comparisons(0)
    v = random_weights(0, len(comparisons))
    scaled = scale_weights(Constraints.of_quadruplets(comparisons, v, 20))
    assert scaled.weights.mean() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(scaled.weights / scaled.weights[0], v / v[0], rtol=1e-12)
    assert Comparisons.from_quadruplets(comparisons, v, 20).total == pytest.approx(v.sum())
    triplets = Constraints.of_triplets(comparisons[:, [0, 1, 3]], 20)
    assert scale_weights(triplets) is triplets


def test_order_of_comparisons_and_of_members_does_not_matter():
    comparisons = random_comparisons(0)
    mixed = np.random.default_rng(0).permutation(comparisons)[:, [1, 0, 3, 2]]
    made, same = (
        Comparisons.from_quadruplets(rows, np.ones(len(rows)), 20) for rows in (comparisons, mixed)
    )
    for name in ("pairs", "groups", "first", "last", "far", "weights"):
        np.testing.assert_array_equal(getattr(same, name), getattr(made, name))


# Pairs that become comparisons


def matched(similar, dissimilar, n_samples, seed=0, weights=(None, None)):
    sets = [
        PairSet.from_pairs(np.array(pairs), n_samples, w)
        for pairs, w in zip((similar, dissimilar), weights, strict=True)
    ]
    return match_pairs(*sets, n_samples, np.random.RandomState(seed))


@st.composite
def labelled_pairs(draw):
    n_samples = draw(st.integers(2, 12))
    member = st.integers(0, n_samples - 1)
    pair = st.tuples(member, member).filter(lambda pair: pair[0] < pair[1])
    pairs = st.lists(pair, min_size=1, max_size=30, unique=True)
    return draw(pairs), draw(pairs), n_samples, draw(st.integers(0, 2**31 - 1))


@settings(max_examples=100)
@given(labelled_pairs())
def test_similar_pairs_meet_those_that_share_a_sample_first_and_all_are_met(case):
    similar, dissimilar, n_samples, seed = case
    comparisons, weights = matched(*case)
    met = [(tuple(row[:2]), tuple(row[2:])) for row in comparisons.tolist()]
    assert len(set(met)) == len(met) <= 10 * len(similar) + len(dissimilar)
    assert all(near in similar and far in dissimilar and near != far for near, far in met)
    for pair in similar:
        others = [other for other in dissimilar if other != pair]
        sharing = {other for other in others if set(other) & set(pair)}
        partners = {far for near, far in met if near == pair}
        assert len(partners) >= min(10, len(others))
        if len(partners) <= 10:
            assert partners <= sharing or sharing <= partners
    for pair in dissimilar:
        others = [other for other in similar if other != pair]
        partners = {near for near, far in met if far == pair}
        assert bool(partners) == bool(others)
    if met:
        assert weights.sum() == pytest.approx(len(similar) + len(dissimilar))
        np.testing.assert_allclose(weights, weights[0])
    again, _ = matched(*case)
    np.testing.assert_array_equal(again, comparisons)
    mixed, _ = matched(similar[::-1], [pair[::-1] for pair in dissimilar[::-1]], n_samples, seed)
    np.testing.assert_array_equal(mixed, comparisons)


def test_a_dissimilar_pair_that_none_has_met_meets_a_similar_one_that_shares_a_sample():
    similar = [(0, 1), (2, 3)]
    dissimilar = [(0, n) for n in range(4, 30)] + [(2, n) for n in range(4, 30)]
    comparisons, _ = matched(similar, dissimilar, 30)
    assert len(comparisons) == len(dissimilar)
    assert np.all(comparisons[:, 0] == comparisons[:, 2])


def test_partners_are_drawn_at_random_and_each_as_likely():
    dissimilar = [(0, n) for n in range(2, 32)] + [(1, n) for n in range(2, 32)]
    times = Counter()
    for seed in range(600):
        comparisons, _ = matched([(0, 1)], dissimilar, 32, seed)
        times.update(map(tuple, comparisons[:10, 2:].tolist()))
    assert len(times) == 60
    assert 60 < min(times.values()) <= max(times.values()) < 145  # 100 on average


def test_many_pairs_are_matched_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    pairs = np.sort(rng.integers(0, 100, size=(400, 2)), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
    monkeypatch.setattr("mdaml.constraints.matching._BLOCK", 7)
    comparisons, _ = matched(pairs[::2], pairs[1::2], 100)
    near, times = np.unique(comparisons[:, :2], axis=0, return_counts=True)
    np.testing.assert_array_equal(near, pairs[::2])
    assert times.min() >= 10
    np.testing.assert_array_equal(np.unique(comparisons[:, 2:], axis=0), pairs[1::2])


def test_weight_of_a_matched_comparison_is_in_proportion_to_the_product():
    v = np.array([1.0, 3.0]), np.array([2.0, 4.0])
    comparisons, weights = matched([(0, 1), (2, 3)], [(0, 2), (1, 3)], 4, weights=v)
    products = {(0, 0): 2, (0, 1): 4, (2, 0): 6, (2, 1): 12}
    expected = [products[row[0], row[2]] for row in comparisons.tolist()]
    np.testing.assert_allclose(weights, np.array(expected) * 10 / 24)


# In a fit


def toy_triplets(n_samples=60, n_triplets=300, seed=0):
    """Only the first two of five features matter to whoever answers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 5))
    rows = np.array([rng.choice(n_samples, 3, replace=False) for _ in range(n_triplets)])
    return X, in_order(X, rows[:, [0, 1, 0, 2]])[:, [0, 1, 3]]


def in_order(X, comparisons):
    """Turn comparisons so that the first pair is the nearer one in the first two features."""
    a, b, c, d = X[comparisons.T, :2]
    wrong = np.sum((a - b) ** 2, axis=1) > np.sum((c - d) ** 2, axis=1)
    return np.where(wrong[:, None], comparisons[:, [2, 3, 0, 1]], comparisons)


def toy(n_samples=200, n=2000, seed=0):
    """Samples, quadruplets, pairs and their labels: only two of five features matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 5))
    rows = np.array([rng.choice(n_samples, 4, replace=False) for _ in range(n)])
    pairs = rows[:, :2]
    gaps = np.sum((X[pairs[:, 0], :2] - X[pairs[:, 1], :2]) ** 2, axis=1)
    return X, in_order(X, rows), pairs, np.where(gaps < 1.5, 1, -1)


def mixture(X_seed=0):
    X, quadruplets, pairs, signs = toy(60, 200, X_seed)
    return X, {
        "triplets": toy_triplets(60, 100, X_seed)[1],
        "pairs": pairs[:80],
        "pair_labels": signs[:80],
        "quadruplets": quadruplets[:90],
    }


@pytest.mark.parametrize("form", ["quadruplets", "pairs"])
def test_pairs_or_quadruplets_alone_find_what_matters(form):
    X, quadruplets, pairs, signs = toy()
    known = {
        "quadruplets": {"quadruplets": quadruplets[:1000]},
        "pairs": {"pairs": pairs[:1000], "pair_labels": signs[:1000]},
    }[form]
    model = MDaML(1, random_state=0).fit(X, **known)
    assert model.score_quadruplets(X, quadruplets[1000:]) > 0.9
    assert model.score_pairs(X, pairs[1000:], signs[1000:]) > 0.95
    assert Euclidean().fit(X).score_quadruplets(X, quadruplets[1000:]) < 0.8
    relevances = np.diagonal(model.get_mahalanobis_matrix())
    assert relevances[:2].min() > 10 * relevances[2:].max()


def test_a_mixture_has_a_history_that_follows_from_what_was_fitted():
    X, known = mixture()
    v = random_weights(0, 270)
    model = make_mdaml("eq. 7", 2, ridge=1e-3, random_state=0)
    model.fit(X, **known, constraint_weight=v)
    assert np.all(np.diff(model.history_) <= 0)
    M = model.get_mahalanobis_matrix()
    value = literal.comparison_objective(
        M,
        model.centers_,
        model.weights_,
        X,
        model.comparisons_,
        model.comparison_weights_,
        eta=3.0,
        triplet_weight=model.triplet_weight_,
        ridge=1e-3,
    )
    assert model.history_[-1] == pytest.approx(value, rel=1e-8)


def test_comparisons_in_force_are_triplets_then_matched_pairs_then_quadruplets():
    X, known = mixture()
    model = MDaML(max_iter=1, random_state=0).fit(X, **known)
    triplets = known["triplets"]
    np.testing.assert_array_equal(model.triplets_, triplets)
    np.testing.assert_array_equal(model.comparisons_[:100], triplets[:, [0, 1, 0, 2]])
    np.testing.assert_array_equal(model.comparisons_[-90:], known["quadruplets"])
    np.testing.assert_array_equal(model.comparison_weights_[:100], 1)
    np.testing.assert_array_equal(model.comparison_weights_[-90:], 1)
    assert model.comparison_weights_[100:-90].sum() == pytest.approx(80)
    labels = {
        tuple(sorted(p)): s
        for p, s in zip(known["pairs"].tolist(), known["pair_labels"], strict=True)
    }
    for row in model.comparisons_[100:-90].tolist():
        assert labels[tuple(row[:2])] == 1
        assert labels[tuple(row[2:])] == -1


def test_what_is_in_force_is_forgotten_by_the_next_fit():
    X, known = mixture()
    model = MDaML(max_iter=1, random_state=0).fit(X, **known)
    model.fit(X, np.arange(60) % 2)
    assert model.comparisons_ is model.comparison_weights_ is None
    assert len(model.triplets_) > 0
    model.fit(X, quadruplets=known["quadruplets"])
    assert model.triplets_.shape == (0, 3)


def test_a_seed_fixes_the_matching_and_the_order_of_pairs_does_not_matter():
    X, known = mixture()
    pairs, signs = known["pairs"], known["pair_labels"]
    first, same, other = (
        MDaML(max_iter=1, random_state=seed).fit(X, pairs=p, pair_labels=s).comparisons_
        for seed, p, s in (
            (0, pairs, signs),
            (0, pairs[::-1, ::-1], signs[::-1]),
            (1, pairs, signs),
        )
    )
    np.testing.assert_array_equal(same, first)
    assert not np.array_equal(other[:50], first[:50])


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ("comparisons", {"anchor": 0.03}),
        ("neighbors", {"anchor": 0.03, "floor": 0.1}),
        ("eq. 7", {}),
    ],
)
def test_weight_two_is_the_constraint_twice_in_a_fit(row, cells):
    X, known = mixture()
    v = np.ones(270)
    v[[3, 110, 150, 200]] = 2.0  # a triplet, two pairs, a quadruplet
    twice = {
        "triplets": np.concatenate([known["triplets"], known["triplets"][[3]]]),
        "pairs": np.concatenate([known["pairs"], known["pairs"][[10, 50]]]),
        "pair_labels": np.concatenate([known["pair_labels"], known["pair_labels"][[10, 50]]]),
        "quadruplets": np.concatenate([known["quadruplets"], known["quadruplets"][[20]]]),
    }
    n_modes = 1 if row == "comparisons" else 2
    model, same = (make_mdaml(row, n_modes, **cells, max_iter=3, random_state=0) for _ in range(2))
    model.fit(X, **known, constraint_weight=v)
    same.fit(X, **twice)
    np.testing.assert_allclose(same.history_, model.history_, rtol=1e-8)


def test_a_heavy_constraint_is_met_against_a_light_contradiction():
    X, triplets = toy_triplets()
    both = np.concatenate([triplets, triplets[:, [0, 2, 1]]])
    light, heavy = np.ones(300), np.full(300, 20.0)
    right = MDaML(1, random_state=0).fit(
        X, triplets=both, constraint_weight=np.concatenate([heavy, light])
    )
    assert right.score_triplets(X, triplets) > 0.9
    with pytest.warns(UserWarning, match="Nothing was learned"):
        MDaML(1, random_state=0).fit(X, triplets=both)


def test_single_precision_stays_single_in_a_mixture():
    X, known = mixture()
    model = make_mdaml("eq. 7", 2, max_iter=3, random_state=0).fit(X.astype(np.float32), **known)
    assert model.components_.dtype == np.float32
    assert np.all(np.diff(model.history_) <= 0)


def test_pairs_of_one_kind_are_left_out_with_a_warning_if_there_is_more_to_learn_from():
    X, known = mixture()
    quadruplets = known["quadruplets"]
    model = MDaML(max_iter=1, anchor=0.1, random_state=0)
    with pytest.warns(UserWarning, match="All 2 pairs are similar: without dissimilar ones"):
        model.fit(X, pairs=[[0, 1], [2, 3]], pair_labels=[1, 1], quadruplets=quadruplets)
    np.testing.assert_array_equal(model.comparisons_, quadruplets)


# Constraints as one value


def test_constraints_are_their_arrays():
    X, known = mixture()
    v = random_weights(0, 270)
    model = make_mdaml("eq. 7", 2, max_iter=2, random_state=0).fit(X, **known, constraint_weight=v)
    same = make_mdaml("eq. 7", 2, max_iter=2, random_state=0).fit(
        X, constraints=Constraints(**known, weights=v, n_points=60)
    )
    np.testing.assert_array_equal(same.history_, model.history_)
    for cls in (GMML, KISSME, DMLeig):
        given, value = cls().fit(X, **known, constraint_weight=v), Constraints(**known, weights=v)
        np.testing.assert_array_equal(
            cls().fit(X, constraints=value).components_, given.components_
        )
    np.testing.assert_array_equal(
        Euclidean().fit(X, constraints=Constraints(**known)).components_, np.eye(5)
    )


def test_constraints_that_hold_triplets_alone_take_the_fused_path():
    X, triplets = toy_triplets()
    model, same = (
        make_mdaml("eq. 7", 2, random_state=0).fit(X, **form)
        for form in ({"triplets": triplets}, {"constraints": Constraints(triplets=triplets)})
    )
    np.testing.assert_array_equal(same.history_, model.history_)
    assert same.comparisons_ is None


# Learners from pairs


@pytest.mark.parametrize("cls", [GMML, KISSME, DMLeig])
def test_a_mixture_is_the_union_of_its_pairs(cls):
    X, known = mixture()
    T, Q, P, s = (known[name] for name in ("triplets", "quadruplets", "pairs", "pair_labels"))
    pairs = np.concatenate([T[:, [0, 1]], T[:, [0, 2]], Q[:, :2], Q[:, 2:], P])
    signs = np.concatenate([np.repeat([1, -1, 1, -1], [100, 100, 90, 90]), s])
    mixed, union = cls().fit(X, **known), cls().fit(X, pairs=pairs, pair_labels=signs)
    np.testing.assert_allclose(mixed.components_, union.components_, rtol=1e-9)


@pytest.mark.parametrize("cls", [GMML, KISSME, DMLeig])
def test_weight_two_is_the_pair_twice(cls):
    X, _, pairs, signs = toy(60, 200)
    v = np.where(np.arange(200) % 3 == 0, 2.0, 1.0)
    weighted = cls().fit(X, pairs=pairs, pair_labels=signs, constraint_weight=7 * v)
    times = v.astype(int)
    twice = cls().fit(X, pairs=np.repeat(pairs, times, axis=0), pair_labels=np.repeat(signs, times))
    M, same = (model.get_mahalanobis_matrix() for model in (weighted, twice))
    # The scale of GMML's metric depends on the number of pairs; that is not what weights change.
    np.testing.assert_allclose(M / np.trace(M), same / np.trace(same), rtol=1e-6, atol=1e-9)


# Scores


@pytest.mark.parametrize("ties", [False, True])
def test_scores_are_those_of_loops(ties):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(20, 2)).astype(float) if ties else rng.normal(size=(20, 2))
    quadruplets = random_comparisons(0)
    pairs, signs = quadruplets[:40, :2], np.where(np.arange(40) % 3 == 0, 1, -1)
    model = Euclidean().fit(X)

    def distance(i, j):
        return float(np.sum((X[i] - X[j]) ** 2))

    held = [distance(a, b) < distance(c, d) for a, b, c, d in quadruplets]
    assert model.score_quadruplets(X, quadruplets) == np.mean(held)
    wins = []
    for near in pairs[signs > 0]:
        for far in pairs[signs < 0]:
            gap = distance(*far) - distance(*near)
            wins.append(0.5 if gap == 0 else float(gap > 0))
    assert model.score_pairs(X, pairs, signs) == pytest.approx(np.mean(wins), rel=1e-12)
    assert not ties or 0.5 in wins
    triplets = quadruplets[::3, [0, 1, 3]][:20]
    assert model.score_triplets(X, triplets) == model.score_quadruplets(
        X, triplets[:, [0, 1, 0, 2]]
    )


def test_scores_need_both_kinds_of_pairs():
    model = Euclidean().fit(np.eye(3))
    with pytest.raises(ValueError, match="got no similar pair"):
        model.score_pairs(np.eye(3), [[0, 1]], [-1])
    with pytest.raises(ValueError, match="got no similar pair"):
        model.score_pairs(np.eye(3), [[0, 1]], [0])
    with pytest.raises(ValueError, match="pair_labels must hold"):
        model.score_pairs(np.eye(3), [[0, 1]], [2])
    with pytest.raises(ValueError, match="name row 3"):
        model.score_quadruplets(np.eye(3), [[0, 1, 2, 3]])


# Mistakes

QUADRUPLET = [[0, 1, 2, 3]]
PAIRS = {"pairs": [[0, 1], [2, 3]], "pair_labels": [1, -1]}
MISTAKES = {
    "three columns": ({"quadruplets": [[0, 1, 2]]}, ValueError, r"\(n_quadruplets, 4\).*\(1, 3\)"),
    "floats": ({"quadruplets": [[0.0, 1, 2, 3]]}, TypeError, "must be integers.*float64"),
    "no quadruplet": ({"quadruplets": []}, ValueError, "At least one constraint is needed"),
    "a row too high": ({"quadruplets": [[0, 1, 2, 60]]}, ValueError, "row 60, but X has 60 rows"),
    "a negative row": ({"quadruplets": [[0, 1, 2, -1]]}, ValueError, "row -1.*counted from 0"),
    "near pair of one": (
        {"quadruplets": [*QUADRUPLET, [1, 1, 2, 3]]},
        ValueError,
        r"two members of either pair.*quadruplet 1 is \(1, 1, 2, 3\)",
    ),
    "far pair of one": ({"quadruplets": [[0, 1, 2, 2]]}, ValueError, "two members of either pair"),
    "a pair with itself": (
        {"quadruplets": [*QUADRUPLET, [4, 5, 5, 4]]},
        ValueError,
        r"two pairs of a quadruplet must differ.*quadruplet 1 is \(4, 5, 5, 4\)",
    ),
    "too few weights": (
        {"quadruplets": QUADRUPLET, **PAIRS, "constraint_weight": [1, 1]},
        ValueError,
        r"order triplets, pairs, quadruplets: 3 for 2 pairs, 1 quadruplets; got shape \(2,\)",
    ),
    "weights of words": (
        {"quadruplets": QUADRUPLET, "constraint_weight": ["a"]},
        TypeError,
        "one positive number for each constraint.*got dtype",
    ),
    "a weight of zero": (
        {**PAIRS, "constraint_weight": [1.0, 0.0]},
        ValueError,
        r"got 0\.0 at place 1.*leave out",
    ),
    "a negative weight": ({**PAIRS, "constraint_weight": [-1, 1]}, ValueError, "got -1 at place 0"),
    "a weight missing": ({**PAIRS, "constraint_weight": [1, np.nan]}, ValueError, "got nan"),
    "an infinite weight": ({**PAIRS, "constraint_weight": [1, np.inf]}, ValueError, "got inf"),
    "weights of labels": (
        {"y": np.arange(60) % 2, "constraint_weight": np.ones(60)},
        ValueError,
        "labels have no weights",
    ),
    "weights of nothing": ({"constraint_weight": [1.0]}, ValueError, "requires y"),
    "labels and quadruplets": (
        {"y": np.arange(60) % 2, "quadruplets": QUADRUPLET},
        ValueError,
        "either y or quadruplets",
    ),
    "quadruplets as labels": ({"y": np.zeros((60, 4))}, ValueError, "pass them by name"),
    "constraints as labels": ({"y": Constraints(**PAIRS)}, ValueError, "constraints by name"),
    "constraints and arrays": (
        {"constraints": Constraints(quadruplets=QUADRUPLET), "triplets": [[0, 1, 2]]},
        ValueError,
        "either constraints or triplets",
    ),
    "constraints and weights": (
        {"constraints": Constraints(quadruplets=QUADRUPLET), "constraint_weight": [1.0]},
        ValueError,
        "either constraints or constraint_weight",
    ),
    "an array as constraints": (
        {"constraints": np.array(QUADRUPLET)},
        TypeError,
        "must be mdaml.Constraints, got ndarray",
    ),
    "constraints of more points": (
        {"constraints": Constraints(quadruplets=QUADRUPLET, n_points=61)},
        ValueError,
        "refer to 61 points, but X has 60 rows",
    ),
    "constraints that hold none": (
        {"constraints": Constraints(quadruplets=QUADRUPLET).select([])},
        ValueError,
        "constraints are empty",
    ),
}


@pytest.mark.parametrize("cls", [MDaML, GMML])
@pytest.mark.parametrize(("known", "error", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_refused_in_words(cls, known, error, message):
    model = cls()
    with pytest.raises(error, match=f"(?s){message}"):
        model.fit(toy(60, 1)[0], **known)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(("sign", "missing"), [(1, "dissimilar"), (-1, "similar")])
def test_pairs_of_one_kind_alone_are_refused(sign, missing):
    with pytest.raises(ValueError, match=f"MDaML needs similar.*got no {missing} pair.*triplets"):
        MDaML(1).fit(toy(60, 1)[0], pairs=[[0, 1], [2, 3]], pair_labels=[sign, sign])


def test_a_pair_that_is_both_kinds_and_alone_is_refused():
    with pytest.raises(ValueError, match="are the same: nothing can be compared"):
        MDaML(1).fit(toy(60, 1)[0], pairs=[[0, 1], [1, 0]], pair_labels=[1, -1])


@pytest.mark.parametrize("form", ["quadruplets", "constraints", "constraint_weight"])
def test_those_who_do_not_take_comparisons_say_who_does(form):
    with pytest.raises(TypeError, match=rf"LMNN learns from.*; got {form}=.*MDaML learns from all"):
        LMNN().fit(toy(60, 1)[0], **{form: QUADRUPLET})


def test_fewer_points_than_rows_are_fine():
    X, triplets = toy_triplets(60)
    more = np.concatenate([X, X[:5]])
    value = Constraints(triplets=triplets, n_points=60)
    assert MDaML(1, max_iter=1).fit(more, constraints=value).weights_.shape == (65, 1)

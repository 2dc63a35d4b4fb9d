"""Groups found in comparisons, and what is learned from them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier

from mdaml import PRESETS, MDaML, MDaMLCV
from mdaml.constraints import Constraints, sample_triplets
from mdaml.constraints.groups import _joined, _settled, _votes, find_groups
from mdaml.datasets import make_triplets

RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, 5, 300)


def turned(triplets, share, seed=0):
    wrong = np.random.default_rng(seed).random(len(triplets)) < share
    triplets = triplets.copy()
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    return triplets


def triplets_of(labels, wrong=0.0):
    return turned(sample_triplets(labels, 3, 2, random_state=0), wrong)


@pytest.mark.parametrize(
    ("n_groups", "wrong"), [(2, 0.0), (5, 0.0), (24, 0.0), (2, 0.15), (5, 0.15)]
)
def test_groups_that_comparisons_were_drawn_from_are_found(n_groups, wrong):
    labels = RNG.integers(0, n_groups, 300)
    supervision = Constraints(triplets=triplets_of(labels, wrong), n_points=310)
    found = find_groups(supervision)
    assert set(found[300:]) == {-1}  # never compared
    assert adjusted_rand_score(labels, found[:300]) > (0.85 if wrong else 0.999)


def test_groups_are_found_in_pairs_and_in_quadruplets():
    pairs = RNG.integers(0, 300, size=(5000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = np.where(CLASSES[pairs[:, 0]] == CLASSES[pairs[:, 1]], 1, -1)
    found = find_groups(Constraints(pairs=pairs, pair_labels=same, n_points=300))
    assert adjusted_rand_score(CLASSES, found) > 0.99
    near, far = pairs[same > 0], pairs[same < 0][: np.count_nonzero(same > 0)]
    quadruplets = np.hstack([near[: len(far)], far])
    assert adjusted_rand_score(CLASSES, find_groups(Constraints(quadruplets=quadruplets))) > 0.99


def test_comparisons_by_a_distance_follow_no_groups():
    X = RNG.normal(size=(300, 4))
    triplets, _ = make_triplets(X, n_triplets=6000, random_state=0)
    assert find_groups(Constraints(triplets=triplets, n_points=300)) is None


def test_a_few_comparisons_or_random_ones_follow_no_groups():
    triplets = triplets_of(CLASSES)
    assert find_groups(Constraints(triplets=triplets[:100], n_points=300)) is None
    assert find_groups(Constraints(triplets=turned(triplets, 0.5), n_points=300)) is None


def test_partners_of_one_anchor_each_are_no_groups():
    # Every query with three answers of its own: near pairs held out cannot be told from the others.
    queries = np.arange(0, 800, 4)
    near = queries[:, None] + np.arange(1, 4)
    anchors, partners = np.repeat(queries, 3), near.ravel()
    triplets = np.column_stack([anchors, partners, np.roll(partners, 300)])
    assert find_groups(Constraints(triplets=triplets, n_points=800)) is None


def test_groups_do_not_depend_on_the_order_of_points():
    labels = RNG.integers(0, 3, 200)
    triplets = triplets_of(labels)
    order = RNG.permutation(200)
    found = find_groups(Constraints(triplets=triplets, n_points=200))
    moved = find_groups(Constraints(triplets=order[triplets], n_points=200))
    assert adjusted_rand_score(found, moved[order]) == 1.0


def test_every_point_goes_where_its_votes_are():
    compared = RNG.integers(0, 30, size=(200, 4))
    votes = _votes(compared, 30)
    dense = np.zeros((30, 30))
    for a, b, c, d in compared:  # the literal rule
        for i, j, sign in ((a, b, 1), (b, a, 1), (c, d, -1), (d, c, -1)):
            dense[i, j] += sign
    np.testing.assert_array_equal(votes.toarray(), np.sign(dense))
    groups = RNG.integers(0, 6, 30)
    once = [np.argmax([np.sign(dense)[i, groups == g].sum() for g in range(6)]) for i in range(30)]
    np.testing.assert_array_equal(_settled(votes, groups, 1), once)


def test_groups_that_vote_to_be_one_are_joined():
    classes = np.arange(60) % 2
    pairs = np.array(list(itertools.combinations(range(60), 2)))
    same = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    votes = _votes(np.hstack([pairs[same][:800], pairs[~same][:800]]), 60)
    assert adjusted_rand_score(_joined(votes, np.arange(60) % 6), classes) == 1.0


@pytest.fixture(scope="module")
def kinds():
    """Two classes of two kinds each, among features that say nothing."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 4, 400)
    X = rng.normal(size=(400, 8)) * np.array([0.35, 0.35, 1, 1, 1, 1, 1, 1])
    X[:, :2] += np.array([[0, 0], [1, 1], [0, 1], [1, 0]])[kind] * 1.6
    return X, kind // 2


def accuracy(model, X, y):
    Y = model.transform(X)
    return KNeighborsClassifier(3).fit(Y[:300], y[:300]).score(Y[300:], y[300:])


def test_neighbors_learned_from_comparisons_are_as_good_as_from_labels(kinds):
    X, y = kinds
    supervision = turned(sample_triplets(y[:300], 3, 2, random_state=0), 0.1)
    plain = KNeighborsClassifier(3).fit(X[:300], y[:300]).score(X[300:], y[300:])
    from_labels = accuracy(MDaML(random_state=0).fit(X[:300], y[:300]), X, y)
    model = MDaML(goal="neighbors", random_state=0).fit(X[:300], triplets=supervision)
    assert model.shrinkage_ == 0.5
    assert accuracy(model, X, y) >= max(plain + 0.03, from_labels - 0.05)
    chosen = MDaMLCV(goal="neighbors", random_state=0).fit(X[:300], triplets=supervision)
    assert accuracy(chosen, X, y) >= max(plain + 0.03, from_labels - 0.05)


def test_a_preset_that_finds_no_groups_takes_the_comparisons_as_they_are(kinds):
    X, y = kinds
    supervision = sample_triplets(y, 3, 2, random_state=0)
    goal = replace(PRESETS["neighbors"], find_groups=False)
    model = MDaML(goal=goal, anchor=0.1, random_state=0).fit(X, triplets=supervision)
    np.testing.assert_array_equal(model.triplets_, supervision)
    assert model.shrinkage_ == 0.0


@pytest.mark.parametrize("n_components", [None, 3])
def test_shrinkage_goes_back_along_the_geodesic(kinds, n_components):
    X, y = kinds
    fits = {
        back: MDaML(shrinkage=back, n_components=n_components, random_state=0).fit(X, y)
        for back in (0.0, 0.25, 1.0)
    }
    np.testing.assert_array_equal(fits[0.0].history_, fits[0.25].history_)
    M = {back: fit.get_mahalanobis_matrix() for back, fit in fits.items()}
    if n_components is None:
        np.testing.assert_array_equal(M[1.0], np.eye(8))  # the start itself
        values, axes = np.linalg.eigh(M[0.0])
        level = np.exp(np.mean(np.log(values)))  # of the nearest multiple of the identity
        np.testing.assert_allclose(M[0.25], (axes * (level**0.25 * values**0.75)) @ axes.T)
    else:
        assert all(np.linalg.matrix_rank(metric) == 3 for metric in M.values())
        middle = np.linalg.norm(M[0.25] - M[0.0]), np.linalg.norm(M[1.0] - M[0.0])
        assert 0 < middle[0] < middle[1]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, np.nan])
def test_a_wrong_shrinkage_is_refused(wrong, kinds):
    with pytest.raises(ValueError, match="shrinkage"):
        MDaML(shrinkage=wrong).fit(*kinds)

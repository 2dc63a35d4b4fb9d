"""LMNN: pins, twins, semidefinite optima, the list of impostors, and degenerate input."""

from itertools import pairwise

import convex
import frozen_peers
import literal_baselines as lit
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from suite.lists import far_lists

from mdaml import LMNN
from mdaml.constraints.labels import Classes
from mdaml.datasets import load_dataset
from mdaml.estimators import lmnn as module
from mdaml.estimators.lmnn import LargeMargin
from mdaml.kernels.pairs import pair_sq_dists

X8, Y8 = lit.e8()
HINGE = 2.0**-40  # a width of rounding that leaves the hinge


def random_classes(seed, sizes=(8, 7, 6), n_features=3, spread=0.7):
    """Return samples of classes that overlap, in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centers = spread * rng.normal(size=(len(sizes), n_features))
    return rng.normal(size=(len(y), n_features)) + centers[y], y


def large_margin(X, y, k, push_weight=0.5):
    """Return the library's objective, a function of L, for samples in any order."""
    classes = Classes.from_labels("test", y)
    Z = np.ascontiguousarray(X[classes.rows])
    return LargeMargin(Z, classes, classes.nearest(Z, k, same=True)[0], push_weight)


def literal_value(L, X, y, k, push_weight=0.5):
    return lit.lmnn_objective(L.T @ L, X, y, lit.lmnn_targets(X, y, k), push_weight)[0]


def literal_gradient(L, X, y, k, push_weight=0.5):
    return 2 * L @ lit.lmnn_subgradient(L.T @ L, X, y, lit.lmnn_targets(X, y, k), push_weight)


def rounded_value(L, X, y, k, push_weight, width):
    """The objective with the hinge z of every triplet replaced by z²/2w up to w, then z − w/2."""
    M, targets, push = L.T @ L, lit.lmnn_targets(X, y, k), 0.0
    for i, j, other in lit.lmnn_triplets(y, targets):
        z = 1 + lit.sq_dist(M, X, i, j) - lit.sq_dist(M, X, i, other)
        push += max(z, 0) ** 2 / (2 * width) if z < width else z - width / 2
    return (1 - push_weight) * lit.lmnn_objective(M, X, y, targets, 0)[1] + push_weight * push


def optimum(X, y, k, push_weight=0.5):
    return convex.lmnn_optimum(X, y, lit.lmnn_targets(X, y, k), push_weight)[0]


def n_active(objective, L):
    """The number of triplets, among those listed, that violate the margin."""
    Y, n = objective.X @ L.T, 0
    for triplets in objective._working_sets(Y):
        i, j = triplets.pairs.T
        sq_dists = np.sum((Y[i] - Y[j]) ** 2, axis=1)
        for near, far in zip(sq_dists, far_lists(triplets.starts, triplets.far), strict=True):
            n += np.sum(1 + near - sq_dists[far] > 0)
    return n


def assert_close(found, wanted, rtol):
    """Relative to the largest entry."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rtol * np.abs(wanted).max())


# The worked example


@pytest.mark.parametrize(
    ("k", "diagonal", "total", "pull", "push", "active"),
    [
        (1, (1, 1), 7.705, 12.31, 3.10, 3),
        (1, (2, 0.5), 8.6575, 14.69, 2.625, 2),
        (2, (1, 1), 23.645, 35.53, 11.76, 10),
        (2, (2, 0.5), 19.84, 32.825, 6.855, 5),
    ],
)
def test_objective_of_the_example(k, diagonal, total, pull, push, active):
    L = np.diag(np.sqrt(diagonal))
    assert large_margin(X8, Y8, k).value(L) == pytest.approx(total, rel=1e-10)
    for push_weight in (0.25, 0.9):
        value = large_margin(X8, Y8, k, push_weight).value(L)
        assert value == pytest.approx((1 - push_weight) * pull + push_weight * push, rel=1e-10)
    assert n_active(large_margin(X8, Y8, k), L) == active


@pytest.mark.parametrize(
    ("k", "gradient"), [(1, [2.005, 1.055, 4.2]), (2, [-1.435, -5.455, 20.08])]
)
def test_gradient_of_the_example(k, gradient):
    found = large_margin(X8, Y8, k).value_and_gradient(np.eye(2), HINGE)[1] / 2
    np.testing.assert_allclose(found[[0, 0, 1], [0, 1, 1]], gradient, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("k", "value", "M"),
    [
        (1, 2.918790, [[0.480797, 0.036708], [0.036708, 0.086371]]),
        (2, 5.882779, [[0.500473, 0.070536], [0.070536, 0.009941]]),
    ],
)
def test_fit_reaches_the_optimum_of_the_example(k, value, M):
    model = LMNN(k).fit(X8, Y8)
    assert value * (1 - 1e-6) < min(model.history_) < value * 1.002  # 1.005 is asked for
    assert_close(model.get_mahalanobis_matrix(), np.array(M), 0.02)


# The objective, against twins and peers


@st.composite
def problems(draw):
    """Classes of one to six members with ties and duplicates, and a map of any rank."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=2, max_size=4).filter(lambda n: max(n) > 1))
    d, rng = draw(st.integers(1, 4)), np.random.default_rng(draw(st.integers(0, 2**32)))
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.normal(size=(len(y), d))
    if draw(st.booleans()):
        X = np.round(2 * X)  # on a grid
    L = draw(st.sampled_from([0.1, 0.7, 3.0])) * rng.normal(size=(draw(st.integers(1, d)), d))
    return L, X, y, draw(st.integers(1, 4)), draw(st.sampled_from([0.1, 0.5, 0.9]))


@given(problems())
def test_value_and_gradient_are_those_of_the_twin(problem):
    L, *rest = problem
    objective = large_margin(*rest)
    assert objective.value(L) == pytest.approx(literal_value(*problem), rel=1e-10)
    value, gradient = objective.value_and_gradient(L, HINGE)
    assert value == pytest.approx(literal_value(*problem), rel=1e-10)
    wanted = literal_gradient(*problem)
    np.testing.assert_allclose(gradient, wanted, atol=1e-9 * (1 + np.abs(wanted).max()))


@given(problems(), st.sampled_from([3.0, 1.0, 0.1, 0.01]))
def test_rounded_value_is_that_of_the_twin(problem, width):
    L, *rest = problem
    value = large_margin(*rest).value_and_gradient(L, width)[0]
    assert value == pytest.approx(rounded_value(*problem, width), rel=1e-10)


@pytest.mark.parametrize("width", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("rank", [3, 2])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_of_the_rounded_objective_is_that_of_differences(seed, rank, width):
    objective = large_margin(*random_classes(seed), 2, 0.6)
    L, h = 0.5 * np.random.default_rng(seed).normal(size=(rank, 3)), 1e-6
    wanted = np.zeros_like(L)
    for place in np.ndindex(L.shape):
        step = np.zeros_like(L)
        step[place] = h
        ahead, behind = (objective.value_and_gradient(L + s * step, width)[0] for s in (1, -1))
        wanted[place] = (ahead - behind) / (2 * h)
    assert_close(objective.value_and_gradient(L, width)[1], wanted, 1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_rounded_value_rises_to_the_hinge_as_the_width_shrinks(seed):
    objective, L = large_margin(*random_classes(seed), 2, 0.6), 0.5 * np.eye(3)
    value, n = objective.value(L), n_active(objective, L)
    widths = [1.0, 0.3, 0.1, 0.01, 1e-4, 1e-8]
    below = [value - objective.value_and_gradient(L, width)[0] for width in widths]
    assert all(more > less > 0 for more, less in pairwise(below))
    for width, gap in zip(widths, below, strict=True):
        assert gap <= 0.6 * n * width / 2 + 1e-9 * value


@pytest.mark.parametrize("seed", range(3))
def test_a_rotation_of_samples_and_map_leaves_the_objective(seed):
    X, y = random_classes(seed)
    Q, L = ortho_group.rvs(3, random_state=seed), np.random.default_rng(seed).normal(size=(2, 3))
    one, other = large_margin(X, y, 2), large_margin(X @ Q.T, y, 2)
    assert other.value(L @ Q.T) == pytest.approx(one.value(L), rel=1e-12)
    turned = ortho_group.rvs(2, random_state=0) @ L @ Q.T
    assert other.value(turned) == pytest.approx(one.value(L), rel=1e-12)


@pytest.mark.parametrize("case", frozen_peers.LMNN_CASES, ids=lambda case: case["map"])
def test_objective_is_that_of_metric_learn(case):
    X, y, k = frozen_peers.X, frozen_peers.LABELS, case["n_neighbors"]
    classes = Classes.from_labels("test", y)
    places, _ = classes.nearest(X[classes.rows], k, same=True)
    np.testing.assert_array_equal(classes.rows[places], frozen_peers.LMNN_TARGETS[k][classes.rows])
    objective, L = (
        large_margin(X, y, k, case["push_weight"]),
        frozen_peers.LMNN_MAPS[case["map"]],
    )
    assert objective.value(L) == pytest.approx(case["objective"], rel=1e-11)
    assert n_active(objective, L) == case["n_active"]
    assert_close(objective.value_and_gradient(L, HINGE)[1], case["gradient"], 1e-10)


# The list of impostors


@st.composite
def walks(draw):
    """A sequence of maps: small and large moves, stretches, and returns."""
    d, rng = draw(st.integers(1, 4)), np.random.default_rng(draw(st.integers(0, 2**32)))
    rank = draw(st.integers(1, d))
    walk = [rng.normal(size=(rank, d))]
    for move in draw(st.lists(st.sampled_from([0.0, 1e-3, 0.02, 0.1, 1.0, 5.0, -1]), max_size=8)):
        if move == -1:
            walk.append(walk[rng.integers(len(walk))])  # back
        else:
            walk.append(walk[-1] + move * rng.normal(size=(rank, d)) / np.sqrt(d))
    sizes = draw(st.lists(st.integers(1, 12), min_size=2, max_size=4).filter(lambda n: max(n) > 1))
    X, y = random_classes(draw(st.integers(0, 1000)), sizes, d)
    return X, y, draw(st.integers(1, 3)), walk


@pytest.mark.parametrize("slack", [0.0, 0.05, 0.5, 20.0])
@settings(max_examples=25)
@given(walks())
def test_a_kept_list_gives_what_a_new_one_gives(slack, case):
    X, y, k, walk = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SLACK", slack)
        kept = large_margin(X, y, k)
        for L in walk:
            new = large_margin(X, y, k)
            assert kept.value(L) == pytest.approx(new.value(L), rel=1e-10)
            value, gradient = kept.value_and_gradient(L, 0.1)
            wanted, wanted_gradient = new.value_and_gradient(L, 0.1)
            assert value == pytest.approx(wanted, rel=1e-10)
            np.testing.assert_allclose(
                gradient, wanted_gradient, atol=1e-9 * (1 + np.abs(wanted_gradient).max())
            )


def test_the_list_is_kept_for_small_moves_and_renewed_for_large_ones():
    X, y = random_classes(0, (30, 30), 3, spread=2.0)
    objective, L = large_margin(X, y, 2), np.eye(3)
    objective.value(L)
    first = objective._listed[0]
    objective.value((1 - 1e-4) * L)
    assert objective._listed[0] is first
    objective.value(3 * L)
    assert objective._listed[0] is not first
    objective.value(L)
    np.testing.assert_array_equal(objective._listed[0].pairs, first.pairs)


def test_a_map_that_is_changed_in_place_is_a_new_map():
    X, y = random_classes(0)
    objective, L = large_margin(X, y, 2), np.eye(3)
    objective.value(L)
    L *= 0.5
    assert objective.value(L) == pytest.approx(literal_value(0.5 * np.eye(3), X, y, 2), rel=1e-10)


def test_impostors_that_arrive_after_the_list_was_made_are_counted():
    """The first list is empty; every later value is that of the twin."""
    X = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 9.0], [0.1, 9.0]])
    y = np.array([0, 0, 1, 1])
    objective = large_margin(X, y, 1)
    for height in (1.0, 0.9, 0.5, 0.2, 0.11, 0.05, 0.0, 1.0):
        L = np.diag([1.0, height])
        assert objective.value(L) == pytest.approx(literal_value(L, X, y, 1), rel=1e-10)


@pytest.mark.parametrize("most", [1, 700, 5000])
def test_block_by_block_gives_what_one_list_gives(most, monkeypatch):
    X, y = random_classes(0, (150, 1, 149, 120), 4)
    maps = [np.eye(4), 0.5 * np.eye(4), np.diag([0.4, 0.4, 0.0, 0.0])]
    whole = large_margin(X, y, 3)
    wanted = [(whole.value(L), *whole.value_and_gradient(L, 0.1)) for L in maps]
    assert whole._listed is not None
    monkeypatch.setattr(module, "_MOST_PAIRS", most)
    parts = large_margin(X, y, 3)
    for L, (value, rounded, gradient) in zip(maps, wanted, strict=True):
        assert parts.value(L) == pytest.approx(value, rel=1e-12)
        found, found_gradient = parts.value_and_gradient(L, 0.1)
        assert found == pytest.approx(rounded, rel=1e-12)
        assert_close(found_gradient, gradient, 1e-11)
        assert parts._listed is None
        assert len(list(parts._working_sets(parts.X @ L.T))) > 1


def test_a_fit_block_by_block_is_the_same_fit(monkeypatch):
    X, y = random_classes(0, (150, 149), 4)
    whole = LMNN(max_iter=5000).fit(X, y)
    monkeypatch.setattr(module, "_MOST_PAIRS", 1000)
    parts = LMNN(max_iter=5000).fit(X, y)
    np.testing.assert_allclose(parts.history_[:5], whole.history_[:5], rtol=1e-8)
    assert min(parts.history_) == pytest.approx(min(whole.history_), rel=1e-3)


def test_a_sparse_part_of_the_samples_may_have_no_impostors_in_its_block(monkeypatch):
    X, y = random_classes(0, (140, 140), 2)
    X[:140] += 1e3 * np.arange(140)[:, None]  # whole blocks of anchors without impostors
    monkeypatch.setattr(module, "_MOST_PAIRS", 1)
    objective = large_margin(X, y, 1)
    assert objective.value(np.eye(2)) == pytest.approx(literal_value(np.eye(2), X, y, 1), rel=1e-9)


# The solver


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore:.* have at most n_neighbors:UserWarning")
def test_fit_is_within_half_a_percent_of_the_semidefinite_optimum(seed):
    k, push_weight = 1 + seed % 3, (0.5, 0.2, 0.8, 0.05, 0.95)[seed % 5]
    sizes = [(8, 7, 6), (10, 10), (5, 6, 1, 8), (2, 9, 6)][seed % 4]
    spread = (0.7, 2.0, 5.0)[seed // 4 % 3]
    X, y = random_classes(seed, sizes, 2 + seed % 3, spread)
    model = LMNN(k, push_weight=push_weight).fit(X, y)
    value = optimum(X, y, k, push_weight)
    assert value * (1 - 1e-5) <= min(model.history_) <= value * 1.005


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e3, 1e9])
def test_the_unit_of_the_features_does_not_matter(scale):
    X, y = random_classes(1)
    model = LMNN(2).fit(scale * X, y)
    assert min(model.history_) == pytest.approx(optimum(X, y, 2), rel=2e-3)


@pytest.mark.parametrize("spread", [10.0, 30.0, 100.0])
def test_small_objectives_are_lowered_as_far_as_large_ones(spread):
    """Classes far apart need little: the first term shrinks with the metric."""
    X, y = random_classes(1, spread=spread)
    model = LMNN(2).fit(X, y)
    value = optimum(X / spread, y, 2)  # the same value, better conditioned
    assert value < 30 / spread**2 < model.history_[0] / 100
    assert min(model.history_) == pytest.approx(value, rel=5e-3)


@pytest.mark.parametrize(("k", "push_weight"), [(1, 0.5), (3, 0.2)])
def test_history_starts_at_the_identity_and_its_least_value_belongs_to_the_metric(k, push_weight):
    X, y = random_classes(3)
    model = LMNN(k, push_weight=push_weight).fit(X + 50.0, y)
    assert model.history_[0] == pytest.approx(literal_value(np.eye(3), X, y, k, push_weight))
    last = literal_value(model.components_, X, y, k, push_weight)
    assert min(model.history_) == pytest.approx(last, rel=1e-9)
    assert model.n_iter_ == len(model.history_) - 1


def test_the_metric_kept_is_the_best_and_not_the_last():
    X, y = random_classes(3)
    history = LMNN(2).fit(X, y).history_
    rise = 1 + int(np.argmax(np.diff(history)))
    assert history[rise] > min(history[:rise]) > min(history)
    model = LMNN(2, callback=lambda step, _: step == rise).fit(X, y)
    assert model.n_iter_ == rise
    last = literal_value(model.components_, X, y, 2)
    assert last == pytest.approx(min(model.history_), rel=1e-9)
    assert last < model.history_[-1] * (1 - 1e-7)


def test_the_rounded_steps_raise_the_objective_only_slightly():
    X, y = random_classes(3)
    history = LMNN().fit(X, y).history_
    assert max(np.diff(history)) < 0.05 * history[0]
    assert history[-1] <= 1.001 * min(history)


def test_too_few_steps_are_reported_where_fit_was_called():
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps.*Increase max_iter") as caught:
        model = LMNN(2, max_iter=1).fit(X8, Y8)
    assert [warning.filename for warning in caught] == [__file__]
    assert model.n_iter_ == 1
    assert model.history_[1] < model.history_[0]


def test_callback_may_stop_at_any_step():
    X, y = random_classes(0)
    full = LMNN().fit(X, y).history_
    for last in range(1, len(full) - 1, 4):
        stopped = LMNN(callback=lambda step, _, last=last: step == last).fit(X, y)
        np.testing.assert_array_equal(stopped.history_, full[: last + 1])


def test_three_neighbors_classify_segments_better_than_by_euclid():
    X, y = load_dataset("segment", return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.split(order, [int(0.7 * len(X))])
    scaler = StandardScaler().fit(X[train])
    X = scaler.transform(X)
    model = LMNN().fit(X[train], y[train])
    knn = KNeighborsClassifier(3)
    plain = knn.fit(X[train], y[train]).score(X[test], y[test])
    learned = knn.fit(model.transform(X[train]), y[train]).score(model.transform(X[test]), y[test])
    assert learned > plain
    assert learned > 0.95


# Reduced rank


def test_reduced_rank_starts_from_principal_components_and_ends_no_higher():
    X, y = random_classes(2, (10, 9, 8), 4)
    least = optimum(X, y, 2)
    for rank in (1, 2, 3):
        model = LMNN(2, n_components=rank).fit(X, y)
        assert model.components_.shape == (rank, 4)
        assert model.transform(X).shape == (len(X), rank)
        axes = np.linalg.svd(X - X.mean(axis=0))[2][:rank]
        assert model.history_[0] == pytest.approx(literal_value(axes, X, y, 2))
        assert min(model.history_) <= model.history_[0]
        assert min(model.history_) == pytest.approx(literal_value(model.components_, X, y, 2))
        assert min(model.history_) >= least * (1 - 1e-5)


def test_as_many_components_as_features_are_the_default():
    X, y = random_classes(2)
    fits = [LMNN(n_components=n_components).fit(X, y) for n_components in (None, 3)]
    np.testing.assert_array_equal(fits[1].components_, fits[0].components_)


# Degenerate input


class TestDegenerate:
    def test_small_classes_have_fewer_targets_and_a_warning(self):
        X, y = random_classes(0, (8, 3, 9, 2))
        with pytest.warns(UserWarning, match=r"2 class\(es\) have at most n_neighbors=3") as caught:
            model = LMNN(3).fit(X, y)
        assert [warning.filename for warning in caught] == [__file__]
        assert model.history_[0] == pytest.approx(literal_value(np.eye(3), X, y, 3))
        assert min(model.history_) == pytest.approx(optimum(X, y, 3), rel=5e-3)

    def test_all_targets_capped_is_the_largest_k_that_fits(self):
        with pytest.warns(UserWarning, match=r"2 class\(es\) have at most n_neighbors=50"):
            capped = LMNN(50).fit(X8, Y8)
        np.testing.assert_array_equal(capped.history_, LMNN(3).fit(X8, Y8).history_)

    def test_member_of_a_class_of_one_is_an_impostor_only(self):
        X, y = random_classes(1, (8, 1, 9))
        with pytest.warns(UserWarning, match=r"1 class\(es\) have at most n_neighbors=2"):
            model = LMNN(2).fit(X, y)
        assert min(model.history_) == pytest.approx(optimum(X, y, 2), rel=5e-3)
        without = LMNN(2).fit(X[y != 1], y[y != 1])
        assert min(without.history_) < min(model.history_)
        objectives = large_margin(X, y, 2), large_margin(X[y != 1], y[y != 1], 2)
        np.testing.assert_allclose(objectives[0].scatter, objectives[1].scatter, rtol=1e-10)

    def test_without_impostors_the_metric_shrinks_until_margins_are_hit(self):
        X, y = random_classes(0, (10, 10), 2)
        X[y == 1] += 100.0
        objective = large_margin(X, y, 3)
        assert n_active(objective, np.eye(2)) == 0
        model = LMNN().fit(X, y)
        M = model.get_mahalanobis_matrix()
        assert np.all(np.isfinite(M))
        assert 0 < np.linalg.norm(M, 2) < 0.01
        assert min(model.history_) < 0.01 * model.history_[0]
        assert n_active(objective, 0.9 * model.components_) > 0

    @pytest.mark.parametrize("seed", range(6))
    def test_duplicates_do_not_pull(self, seed):
        X, y = random_classes(seed)
        X, y = np.vstack([X, X]), np.append(y, y)
        model = LMNN(1).fit(X, y)  # the target of every sample is its copy
        assert large_margin(X, y, 1, 1e-9).scatter == pytest.approx(np.zeros((3, 3)))
        assert model.history_[0] == pytest.approx(literal_value(np.eye(3), X, y, 1))
        assert min(model.history_) == pytest.approx(literal_value(model.components_, X, y, 1))
        assert np.all(np.isfinite(model.components_))

    def test_classes_of_identical_samples_are_pushed_apart_at_no_cost(self):
        X = np.repeat([[0.0, 0.0], [0.3, 0.1], [0.0, 0.4]], 4, axis=0)
        y = np.repeat([0, 1, 2], 4)
        model = LMNN().fit(X, y)
        assert model.history_[0] > 10
        assert min(model.history_) < 1e-6 * model.history_[0]
        assert np.all(np.isfinite(model.components_))

    def test_classes_of_identical_samples_far_apart_need_no_step(self):
        X, y = np.repeat([[0.0, 0.0], [5.0, 1.0]], 4, axis=0), np.repeat([0, 1], 4)
        model = LMNN().fit(X, y)
        assert model.history_ == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(model.get_mahalanobis_matrix(), np.eye(2), atol=1e-12)

    @pytest.mark.parametrize("k", [1, 3, 5, 7])
    @pytest.mark.parametrize("seed", range(3))
    def test_classes_of_many_identical_samples_have_a_scatter_of_exactly_zero(self, seed, k):
        points = 3 * np.random.default_rng(seed).normal(size=(2, 3))
        X, y = np.repeat(points, 12, axis=0), np.repeat([0, 1], 12)
        assert np.all(large_margin(X, y, k).scatter == 0)
        model = LMNN(k).fit(X, y)
        assert min(model.history_) < 1e-12
        assert np.linalg.norm(model.components_) < 10

    @pytest.mark.parametrize("seed", range(5))
    def test_classes_of_nearly_identical_samples_do_not_stretch_the_metric(self, seed):
        """The first term is rounding; were it negative, it could be lowered forever."""
        rng = np.random.default_rng(seed)
        X, y = np.repeat([[0.1, 0.7], [5.0, 1.3]], 4, axis=0), np.repeat([0, 1], 4)
        model = LMNN().fit(X * (1 + 1e-15 * rng.normal(size=X.shape)), y)
        assert 0 <= min(model.history_) < 1e-12
        assert np.linalg.norm(model.components_) < 10

    def test_target_neighbours_much_closer_than_classes_do_not_cancel(self):
        X, y = random_classes(0, (9, 9, 9), 2)
        X += np.array([[0.0, 0.0], [1e6, 0.0], [3e5, 7e5]])[np.arange(27) % 3]
        wanted = literal_value(np.eye(2), X - X.mean(axis=0), y, 1)
        assert LMNN(1).fit(X, y).history_[0] == pytest.approx(wanted, rel=1e-8)

    def test_samples_that_are_all_identical_leave_the_metric_as_it_was(self):
        model = LMNN().fit(np.full((12, 3), 7.0), np.arange(12) % 2)
        np.testing.assert_array_equal(model.get_mahalanobis_matrix(), np.eye(3))
        assert model.history_[0] == pytest.approx(0.5 * 12 * 3 * 6)  # every hinge is 1

    def test_identical_samples_of_different_classes_are_allowed(self):
        X, y = random_classes(0, (5, 4, 4))
        X = np.vstack([X, X])
        y = np.append(y, (y + 1) % 3)
        model = LMNN(2).fit(X, y)
        assert min(model.history_) == pytest.approx(optimum(X, y, 2), rel=5e-3)

    def test_constant_and_dependent_features_do_no_harm(self):
        X, y = random_classes(0, (20, 18, 16))
        more = np.hstack([X, X, np.full((len(X), 1), 3.0)])  # the same target neighbours
        model, plain = LMNN().fit(more, y), LMNN().fit(X, y)
        assert np.all(np.isfinite(model.components_))
        assert min(model.history_) == pytest.approx(min(plain.history_), rel=2e-3)

    def test_more_features_than_samples(self):
        X, y = random_classes(0, (6, 7), 40)
        model = LMNN(2).fit(X, y)
        assert np.all(np.isfinite(model.components_))
        assert min(model.history_) < model.history_[0]

    def test_one_feature(self):
        X, y = random_classes(0, (8, 9), 1)
        model = LMNN(2).fit(X, y)
        assert model.components_.shape == (1, 1)
        assert min(model.history_) == pytest.approx(optimum(X, y, 2), rel=5e-3)

    def test_automatic_rank_is_refused_with_the_reason(self):
        with pytest.raises(TypeError, match=r"different rank are not nested.*got 'auto'"):
            LMNN(n_components="auto").fit(X8, Y8)

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"push_weight": 0}, ValueError, "a number strictly between 0 and 1, got 0"),
            ({"push_weight": 1.0}, ValueError, r"push_weight=...\) must be .* got 1.0"),
            ({"push_weight": 2}, ValueError, "push_weight"),
            ({"push_weight": np.nan}, ValueError, "push_weight"),
            ({"push_weight": "a"}, TypeError, "got 'a'"),
            ({"n_neighbors": 0}, ValueError, "at least 1, got 0"),
            ({"n_neighbors": 1.5}, TypeError, "n_neighbors"),
            ({"n_components": 0}, ValueError, "between 1 and 2, the number of features"),
            ({"n_components": 3}, ValueError, "between 1 and 2, the number of features"),
            ({"n_components": 1.0}, TypeError, "n_components"),
            ({"max_iter": 0}, ValueError, "max_iter"),
            ({"tol": -1e-3}, ValueError, "tol"),
            ({"callback": "print"}, TypeError, "callback=...\\) must be callable"),
        ],
    )
    def test_parameters_are_checked(self, options, error, message):
        with pytest.raises(error, match=message):
            LMNN(**options).fit(X8, Y8)


def test_the_gradient_uses_the_kernels_of_triplets_drawn_from_lists():
    """One anchor, one target, one impostor: all by hand."""
    X = np.array([[0.0], [1.0], [1.2]])
    objective = large_margin(X, np.array([0, 0, 1]), 1)
    (triplets,) = objective._working_sets(X)
    np.testing.assert_array_equal(triplets.pairs, [[0, 1], [0, 2], [1, 0], [1, 2]])
    assert pair_sq_dists(X, triplets.pairs) == pytest.approx([1, 1.44, 1, 0.04])
    # pull 2, hinges 1 + 1 - 1.44 and 1 + 1 - 0.04
    assert objective.value(np.eye(1)) == pytest.approx(0.5 * 2 + 0.5 * (0.56 + 1.96))
    gradient = objective.value_and_gradient(np.eye(1), HINGE)[1]
    assert gradient[0, 0] == pytest.approx(2 * (0.5 * 2 + 0.5 * (1 - 1.44 + 1 - 0.04)))

"""Modes: the updates against the paper in plain loops, and the starts on awkward data."""

import literal
import numpy as np
import pytest

from mdaml import modes as modes_module
from mdaml.constraints import TripletSet
from mdaml.modes import (
    Modes,
    Neighbors,
    clustering_scatter,
    kmeans_weights,
    mixture_weights,
    modes_from_weights,
    update_centers,
    update_weights,
)

STARTS = (mixture_weights, kmeans_weights)
every_start = pytest.mark.parametrize("start", STARTS, ids=lambda start: start.__name__)
twenty_problems = pytest.mark.parametrize("seed", range(20))


class Problem:
    """A random small problem, with all that an update of the weights takes."""

    def __init__(self, seed, n_samples=18, n_modes=3, n_triplets=60):
        rng = np.random.default_rng(seed)
        n_features = int(rng.integers(1, 6))
        self.eta = float(rng.uniform(1.2, 5.0))
        self.triplet_weight = float(10 ** rng.uniform(-1, 3))
        self.X = rng.normal(size=(n_samples, n_features))
        self.weights = rng.dirichlet(np.ones(n_modes), n_samples)
        self.centers = rng.normal(size=(n_modes, n_features))
        root = rng.normal(size=(n_features, n_features))
        self.M = np.eye(n_features) + 0.1 * root @ root.T
        self.triplets = np.array(
            [rng.choice(n_samples, 3, replace=False) for _ in range(n_triplets)]
        )

    def modes(self):
        return Modes(self.centers, self.weights, self.weights**self.eta)

    def updated_weights(self, neighbors, eta=None):
        eta = self.eta if eta is None else eta
        grouped = TripletSet.from_triplets(self.triplets, len(self.X))
        losses = np.zeros(len(grouped.pairs))
        row_of = {pair: p for p, pair in enumerate(map(tuple, grouped.pairs.tolist()))}
        for triplet in self.triplets:
            loss = literal.smooth_hinge(literal.margin(self.M, self.X, triplet))
            losses[row_of[tuple(triplet[:2].tolist())]] += loss
        sq_dists = [[literal.sq_dist(self.M, x, c) for c in self.centers] for x in self.X]
        return update_weights(
            Modes(self.centers, self.weights, self.weights**eta),
            np.array(sq_dists) / len(self.X),
            losses * (self.triplet_weight / len(self.triplets)),
            neighbors,
            eta,
        )

    def literal_weights(self, order=None, eta=None):
        return literal.update_weights(
            self.M,
            self.centers,
            self.weights,
            self.X,
            self.triplets,
            eta=self.eta if eta is None else eta,
            triplet_weight=self.triplet_weight,
            order=order,
        )

    def graph(self):
        return TripletSet.from_triplets(self.triplets, len(self.X)).near_graph()

    def in_index_order(self):
        N = len(self.X)
        return Neighbors(self.graph(), np.arange(N), np.arange(N + 1))


def update_without_pairs(costs, eta, dtype=np.float64):
    """Weights of samples that no pair joins."""
    N, K = np.shape(costs)
    graph = (np.zeros(N + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
    start = np.full((N, K), 1 / K, dtype)
    modes = Modes(np.zeros((K, 2), dtype), start, start**eta)
    neighbors = Neighbors(graph, np.arange(N), np.array([0, N]))
    return update_weights(modes, np.array(costs, dtype), np.zeros(0), neighbors, eta)


# The updates


@twenty_problems
def test_updated_centers_are_those_of_the_paper(seed):
    problem = Problem(seed)
    np.testing.assert_allclose(
        update_centers(problem.X, problem.modes()).centers,
        literal.update_centers(problem.X, problem.weights, problem.eta),
        rtol=1e-10,
        atol=1e-12,
    )


@twenty_problems
def test_updated_weights_are_those_of_the_paper(seed):
    problem = Problem(seed)
    updated = problem.updated_weights(problem.in_index_order())
    expected = problem.literal_weights()
    np.testing.assert_allclose(updated.weights, expected, rtol=1e-10)
    np.testing.assert_allclose(updated.powers, expected**problem.eta, rtol=1e-10)
    assert updated.centers is problem.centers


@twenty_problems
def test_weights_updated_by_color_are_those_of_the_paper_in_that_order(seed):
    problem = Problem(seed)
    neighbors = Neighbors.from_graph(problem.graph())
    np.testing.assert_allclose(
        problem.updated_weights(neighbors).weights,
        problem.literal_weights(order=neighbors.order),
        rtol=1e-10,
    )


@twenty_problems
def test_scatter_is_that_of_the_paper_for_centers_that_are_not_the_means(seed):
    problem = Problem(seed)
    np.testing.assert_allclose(
        clustering_scatter(problem.X, problem.modes()),
        literal.scatter(problem.centers, problem.weights, problem.X, eta=problem.eta),
        rtol=1e-10,
        atol=1e-12,
    )


@twenty_problems
def test_modes_from_weights_are_centered_at_the_weighted_means(seed):
    problem = Problem(seed)
    modes = modes_from_weights(problem.X, 7 * problem.weights, problem.eta)
    np.testing.assert_allclose(modes.weights, problem.weights, rtol=1e-10)
    np.testing.assert_allclose(modes.powers, problem.weights**problem.eta, rtol=1e-9)
    np.testing.assert_allclose(
        modes.centers, literal.update_centers(problem.X, problem.weights, 1), rtol=1e-10, atol=1e-12
    )


def test_updates_leave_the_modes_they_start_from_unchanged():
    problem = Problem(0)
    before = problem.modes()
    centers, weights = before.centers.copy(), before.weights.copy()
    update_centers(problem.X, before)
    problem.updated_weights(problem.in_index_order())
    np.testing.assert_array_equal(before.centers, centers)
    np.testing.assert_array_equal(problem.weights, weights)


def test_weights_are_kept_off_zero_at_the_start():
    X = np.arange(8.0).reshape(4, 2)
    modes = modes_from_weights(X, np.eye(2)[[0, 0, 1, 1]], 3.0)
    assert modes.weights.min() > 0
    np.testing.assert_allclose(modes.weights.sum(axis=1), 1)
    np.testing.assert_allclose(modes.centers, [[1, 2], [5, 6]], rtol=1e-10)


def test_modes_keep_single_precision():
    X = np.arange(8, dtype=np.float32).reshape(4, 2)
    modes = modes_from_weights(X, np.eye(2)[[0, 0, 1, 1]], 3.0)
    for state in (modes, update_centers(X, modes)):
        assert {state.centers.dtype, state.weights.dtype, state.powers.dtype} == {X.dtype}
    assert clustering_scatter(X, modes).dtype == np.float64


def test_modes_that_cost_nothing_share_the_weight():
    updated = update_without_pairs([[0, 2, 0, 5], [0, 1, 1, 1], [0, 0, 0, 0]], eta=3.0)
    np.testing.assert_allclose(
        updated.weights, [[0.5, 0, 0.5, 0], [1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]]
    )
    np.testing.assert_allclose(updated.powers, updated.weights**3)


def test_the_zero_cost_rule_is_that_of_the_paper():
    for costs in ([0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1e-3, 2.0, 5.0]):
        np.testing.assert_allclose(
            update_without_pairs([costs], eta=2.5).weights[0],
            literal.weights_from_costs(np.array(costs), 2.5),
            rtol=1e-12,
        )


@pytest.mark.parametrize("eta", [1 + 1e-12, 1.001])
def test_weights_concentrate_as_eta_tends_to_one(eta):
    costs = np.random.default_rng(0).random((50, 4)) + 1e-3
    costs[:, 2] *= 0.1 / costs[:, 2].max()
    costs[:, 2] = np.minimum(costs[:, 2], 0.9 * costs.min(axis=1))
    updated = update_without_pairs(costs, eta)
    np.testing.assert_allclose(updated.weights, np.tile(np.eye(4)[2], (50, 1)), atol=1e-12)
    assert np.all(np.isfinite(updated.powers))


def test_weights_stay_finite_at_eta_close_to_one_in_a_whole_problem():
    for seed in range(5):
        problem = Problem(seed)
        updated = problem.updated_weights(problem.in_index_order(), eta=1.001)
        assert np.all(np.isfinite(updated.weights))
        assert np.all(np.isfinite(updated.powers))
        np.testing.assert_allclose(updated.weights.sum(axis=1), 1, rtol=1e-12)
        assert np.mean(updated.weights.max(axis=1)) > 0.95


def test_weights_tend_to_uniform_for_large_eta():
    costs = 10 ** np.random.default_rng(0).uniform(-3, 3, (50, 4))
    gap = [
        np.abs(update_without_pairs(costs, eta).weights - 0.25).max() for eta in (3.0, 30.0, 3000.0)
    ]
    assert gap[0] > gap[1] > gap[2]
    assert gap[2] < 2e-3


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_only_ratios_of_the_costs_matter(scale):
    costs = np.random.default_rng(0).random((20, 3)) + 0.1
    np.testing.assert_allclose(
        update_without_pairs(costs * scale, 3.0).weights,
        update_without_pairs(costs, 3.0).weights,
        rtol=1e-10,
    )


def test_costs_of_very_different_size_give_finite_weights():
    updated = update_without_pairs([[1e-300, 1.0, 1e300]], 1.5)
    np.testing.assert_allclose(updated.weights, [[1, 0, 0]], atol=1e-300)
    assert np.all(np.isfinite(updated.powers))


def test_a_mode_whose_weights_vanish_stays_where_it_is():
    X = np.arange(6.0).reshape(3, 2)
    powers = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    modes = update_centers(X, Modes(np.array([[9.0, 9.0], [7.0, -7.0]]), powers, powers))
    np.testing.assert_allclose(modes.centers, [[2, 3], [7, -7]])
    assert np.all(np.isfinite(clustering_scatter(X, modes)))


def test_a_mode_whose_powers_underflow_stays_where_it_is():
    X = np.arange(6.0).reshape(3, 2)
    modes = modes_from_weights(X, np.eye(2)[[0, 0, 0]], eta=40.0)  # 1e-12**40 is below any double
    assert np.all(modes.powers[:, 1] == 0)
    np.testing.assert_array_equal(update_centers(X, modes).centers[1], modes.centers[1])


# The starts


def clouds(seed=0, n_samples=60, n_features=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_samples, n_features)) + 8 * rng.integers(0, 3, (n_samples, 1))


def started(start, X, n_modes, seed=0):
    weights = start(X, n_modes, np.random.RandomState(seed))
    assert weights.shape == (len(X), n_modes)
    assert np.all(np.isfinite(weights))
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    return weights


@every_start
def test_a_start_finds_separate_clouds(start):
    X = clouds()
    weights = started(start, X, 3)
    cloud = np.round(X.mean(axis=1) / 8).astype(int)
    for c in range(3):
        mean = weights[cloud == c].mean(axis=0)
        assert mean.max() > 0.99
    assert len({int(weights[cloud == c].mean(axis=0).argmax()) for c in range(3)}) == 3


AWKWARD = {
    "fewer samples than features": np.random.default_rng(0).normal(size=(8, 30)),
    "a constant feature": np.column_stack([clouds(), np.full(60, 0.1)]),
    "all features constant": np.full((20, 3), 0.1),
    "all zero": np.zeros((20, 3)),
    "every row twice": np.repeat(clouds(n_samples=10), 2, axis=0),
    "two distinct rows": np.repeat([[0.0, 1.0], [5.0, -2.0]], 10, axis=0),
    "one feature": clouds(n_features=1),
    "tiny": 1e-12 * clouds(),
    "huge": 1e12 * clouds(),
    "features of very different scales": clouds() * [1e-9, 1.0, 1e9],
    "far from the origin": clouds() + 1e6,
    "an outlier": np.concatenate([clouds(), [[1e6, -1e6, 1e6]]]),
}


@every_start
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_modes", [1, 4])
@pytest.mark.parametrize("kind", list(AWKWARD))
def test_a_start_copes_with_awkward_data(start, dtype, n_modes, kind):
    started(start, AWKWARD[kind].astype(dtype), n_modes)


@every_start
@pytest.mark.parametrize("n_samples", [2, 5, 12])
def test_there_may_be_as_many_modes_as_samples(start, n_samples):
    X = clouds(n_samples=n_samples)
    started(start, X, n_samples)
    started(start, X, n_samples - 1)
    started(start, np.ones((n_samples, 2)), n_samples)


@every_start
def test_the_same_seed_gives_the_same_start(start):
    X = np.random.default_rng(0).normal(size=(80, 4))
    first = started(start, X, 5, seed=3)
    np.testing.assert_array_equal(first, started(start, X, 5, seed=3))
    assert not np.array_equal(first, started(start, X, 5, seed=4))


@every_start
def test_a_start_does_not_change_its_samples(start):
    X = clouds()
    before = X.copy()
    started(start, X, 3)
    np.testing.assert_array_equal(X, before)


@every_start
def test_a_start_from_some_rows_weighs_all_rows(start, monkeypatch):
    monkeypatch.setattr(modes_module, "MAX_ROWS_FOR_START", 20)
    X = clouds(n_samples=300)
    weights = started(start, X, 3)
    np.testing.assert_array_equal(weights, started(start, X, 3))
    cloud = np.round(X.mean(axis=1) / 8).astype(int)
    for c in range(3):
        assert weights[cloud == c].mean(axis=0).max() > 0.99


def test_the_mixture_does_not_see_the_scale_of_a_feature():
    X = clouds()
    np.testing.assert_allclose(
        started(mixture_weights, X * [1e-6, 1.0, 1e6], 3), started(mixture_weights, X, 3), atol=1e-6
    )

"""Modes: the updates against the paper in plain loops, and the starts on awkward data."""

import literal
import numpy as np
import pytest
from sklearn.mixture import GaussianMixture
from suite.specs import make_spec

from mdaml.kernels.modes import sequential_weights
from mdaml.solver.modes import Modes, clustering_scatter, update_centers, update_weights
from mdaml.solver.start import start_modes
from mdaml.stores import memory, mixture
from mdaml.stores.arrays import SampleWeights
from mdaml.stores.blocks import BlockStore, CentredRows
from mdaml.stores.memory import MemoryStore

every_start = pytest.mark.parametrize("start", ["mixture_weights", "kmeans_weights"])
five_problems = pytest.mark.parametrize("seed", range(5))


@pytest.fixture
def varied(random_problem, local_problem, store):
    """Return a function of a seed that makes a problem of any size, and the library's own."""

    def make(seed, **options):
        rng = np.random.default_rng(seed)
        given = random_problem(
            seed,
            n_samples=18,
            n_triplets=60,
            n_features=int(rng.integers(1, 6)),
            eta=float(rng.uniform(1.2, 5.0)),
            triplet_weight=float(10 ** rng.uniform(-1, 3)),
        )
        return given, local_problem(given, store=store, **options)

    return make


def updated_weights(given, local, F, eta):
    """Eq. 14 by the library, under the metric of F."""
    measured = local.store.measure(F, local.modes.centers)
    factor = given.triplet_weight / len(given.triplets)
    weights = SampleWeights(given.weights, given.weights**eta)
    return update_weights(local.store, Modes(given.centers, weights), measured, factor, eta)


def update_without_pairs(costs, eta):
    """Weights of samples that no pair joins, and their powers."""
    costs = np.array(costs, float)
    N, K = costs.shape
    graph = (np.zeros(N + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
    weights = np.full((N, K), 1 / K)
    powers = weights**eta
    bounds = np.array([0, N])
    sequential_weights(weights, powers, costs, graph, np.zeros(0), np.arange(N), bounds, eta)
    return weights, powers


def modes_of(store, weights, eta):
    """The modes that a fit starts from, with given first weights."""
    spec = make_spec(weights.shape[1], eta, triplet_weight=1.0, ridge=0.0, weights=weights)
    return start_modes(spec, store, np.random.RandomState(0))


# The updates


@five_problems
def test_centers_and_scatter_are_those_of_the_paper_for_centers_that_are_not_the_means(
    varied, seed
):
    given, local = varied(seed)
    np.testing.assert_allclose(
        update_centers(local.store, local.modes).centers,
        literal.update_centers(given.X, given.weights, given.eta),
        rtol=1e-10,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        clustering_scatter(local.store, local.modes),
        literal.scatter(given.centers, given.weights, given.X, eta=given.eta),
        rtol=1e-10,
        atol=1e-12,
    )


@pytest.mark.parametrize("in_index_order", [True, False])
@five_problems
def test_updated_weights_are_those_of_the_paper_in_either_order(varied, seed, in_index_order):
    given, local = varied(seed, in_index_order=in_index_order)
    d = given.X.shape[1]
    F = np.eye(d) + 0.2 * np.random.default_rng(seed).normal(size=(d, d))
    updated = updated_weights(given, local, F, given.eta)
    expected = literal.update_weights(
        F @ F.T,
        given.centers,
        given.weights,
        given.X,
        given.triplets,
        eta=given.eta,
        triplet_weight=given.triplet_weight,
        order=None if in_index_order else local.store.turns.order,
    )
    np.testing.assert_allclose(updated.weights.weights, expected, rtol=1e-10)
    np.testing.assert_allclose(updated.weights.powers, expected**given.eta, rtol=1e-10)
    assert updated.centers is given.centers


@five_problems
def test_modes_from_weights_are_centered_at_the_weighted_means(varied, seed):
    given, local = varied(seed)
    modes = modes_of(local.store, 7 * given.weights, given.eta)
    np.testing.assert_allclose(modes.weights.weights, given.weights, rtol=1e-10)
    np.testing.assert_allclose(modes.weights.powers, given.weights**given.eta, rtol=1e-9)
    expected = literal.update_centers(given.X, given.weights, 1)
    np.testing.assert_allclose(modes.centers, expected, rtol=1e-10, atol=1e-12)


def test_updates_leave_the_modes_they_start_from_unchanged(varied):
    given, local = varied(0)
    before = given.centers.copy(), given.weights.copy()
    update_centers(local.store, Modes(given.centers, local.modes.weights))
    updated_weights(given, local, local.F, given.eta)
    np.testing.assert_array_equal(given.centers, before[0])
    np.testing.assert_array_equal(given.weights, before[1])


def test_weights_are_kept_off_zero_at_the_start(store):
    made = store.of(np.arange(8.0).reshape(4, 2))
    modes = modes_of(made, np.eye(2)[[0, 0, 1, 1]], 3.0)
    assert modes.weights.weights.min() > 0
    np.testing.assert_allclose(modes.weights.weights.sum(axis=1), 1)
    np.testing.assert_allclose(modes.centers + made.mean, [[1, 2], [5, 6]], rtol=1e-10)


def test_modes_keep_single_precision(store):
    made = store.of(np.arange(8, dtype=np.float32).reshape(4, 2))
    modes = modes_of(made, np.eye(2)[[0, 0, 1, 1]], 3.0)
    for state in (modes, update_centers(made, modes)):
        assert {a.dtype for a in (state.centers, *state.weights)} == {np.dtype(np.float32)}
    assert clustering_scatter(made, modes).dtype == np.float64


def test_modes_that_cost_nothing_share_the_weight():
    weights, powers = update_without_pairs([[0, 2, 0, 5], [0, 1, 1, 1], [0, 0, 0, 0]], eta=3.0)
    expected = [[0.5, 0, 0.5, 0], [1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]]
    np.testing.assert_allclose(weights, expected)
    np.testing.assert_allclose(powers, weights**3)


@pytest.mark.parametrize("eta", [2.5, 3.0])
def test_the_zero_cost_rule_is_that_of_the_paper(eta):
    for costs in ([0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1e-3, 2.0, 5.0]):
        expected = literal.weights_from_costs(np.array(costs), eta)
        np.testing.assert_allclose(update_without_pairs([costs], eta)[0][0], expected, rtol=1e-12)


@pytest.mark.parametrize("eta", [1 + 1e-12, 1.001])
def test_weights_concentrate_as_eta_tends_to_one(eta):
    costs = np.random.default_rng(0).random((50, 4)) + 1e-3
    costs[:, 2] *= 0.1 / costs[:, 2].max()
    costs[:, 2] = np.minimum(costs[:, 2], 0.9 * costs.min(axis=1))
    weights, powers = update_without_pairs(costs, eta)
    np.testing.assert_allclose(weights, np.tile(np.eye(4)[2], (50, 1)), atol=1e-12)
    assert np.all(np.isfinite(powers))


def test_weights_stay_finite_at_eta_close_to_one_in_a_whole_problem(varied):
    for seed in range(5):
        given, local = varied(seed)
        weights, powers = updated_weights(given, local, local.F, 1.001).weights
        assert np.all(np.isfinite(weights))
        assert np.all(np.isfinite(powers))
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
        assert np.mean(weights.max(axis=1)) > 0.95


def test_weights_tend_to_uniform_for_large_eta():
    costs = 10 ** np.random.default_rng(0).uniform(-3, 3, (50, 4))
    gaps = [np.abs(update_without_pairs(costs, eta)[0] - 0.25).max() for eta in (3.0, 30.0, 3000.0)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 2e-3


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_only_ratios_of_the_costs_matter(scale):
    costs = np.random.default_rng(0).random((20, 3)) + 0.1
    weights, expected = (update_without_pairs(factor * costs, 3.0)[0] for factor in (scale, 1.0))
    np.testing.assert_allclose(weights, expected, rtol=1e-10)


def test_costs_of_very_different_size_give_finite_weights():
    weights, powers = update_without_pairs([[1e-300, 1.0, 1e300]], 1.5)
    np.testing.assert_allclose(weights, [[1, 0, 0]], atol=1e-300)
    assert np.all(np.isfinite(powers))


def test_a_mode_whose_weights_vanish_stays_where_it_is(store):
    made = store.of(np.arange(6.0).reshape(3, 2))
    ones = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    modes = Modes(np.array([[9.0, 9.0], [7.0, -7.0]]), SampleWeights(ones, ones))
    moved = update_centers(made, modes)
    np.testing.assert_allclose(moved.centers, [[0, 0], [7, -7]], atol=1e-12)
    assert np.all(np.isfinite(clustering_scatter(made, moved)))


def test_a_mode_whose_powers_underflow_stays_where_it_is(store):
    made = store.of(np.arange(6.0).reshape(3, 2))
    modes = modes_of(made, np.eye(2)[[0, 0, 0]], eta=40.0)  # 1e-12**40 is below any double
    assert np.all(modes.weights.powers[:, 1] == 0)
    np.testing.assert_array_equal(update_centers(made, modes).centers[1], modes.centers[1])


def test_weights_without_comparisons_minimise_the_clustering_term(store):
    rng = np.random.default_rng(0)
    X, centers, eta = rng.normal(size=(30, 3)), rng.normal(size=(4, 3)), 2.5
    X[0] = centers[1]
    made, F = store.of(X), np.diag([1.0, 2.0, 0.5])
    weights, powers = made.weights_at(F, centers - made.mean, eta)
    sq_dists = np.sum(((X[:, None] - centers) @ F) ** 2, axis=2)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights[0, 1] == pytest.approx(1)
    slopes = (eta * weights ** (eta - 1) * sq_dists)[1:]
    np.testing.assert_allclose(slopes, slopes[:, :1].repeat(4, axis=1), rtol=1e-6)
    np.testing.assert_allclose(powers, weights**eta)


# The floor under the self-weights


@pytest.mark.parametrize("floor", [0.0, 0.05, 0.5, 1.0])
@five_problems
def test_self_weights_above_a_floor_are_those_of_the_loops(varied, seed, floor):
    given, local = varied(seed)
    found = local.store.importances(local.modes.weights, floor)
    comparisons = local.store.comparisons
    near = comparisons.last > comparisons.first
    expected = [
        literal.importance(given.weights, (i, j, None), given.eta, floor)
        for i, j in comparisons.pairs[near]
    ]
    np.testing.assert_allclose(found[near], expected, rtol=1e-10)
    assert found[near].min() >= floor


def test_a_floor_of_zero_changes_no_bit(varied):
    _, local = varied(0)
    found = [local.store.importances(local.modes.weights, *floor) for floor in ((), (0.0,))]
    np.testing.assert_array_equal(*found)


def test_a_floor_of_one_gives_all_comparisons_the_same_weight(varied):
    _, local = varied(0)
    np.testing.assert_array_equal(local.store.importances(local.modes.weights, 1.0), 1.0)


# The mixture


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_modes", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_is_that_of_scikit_learn(seed, n_modes, dtype):
    X = clouds(n_samples=150).astype(dtype)
    options = {"covariance_type": "diag", "reg_covar": 1e-3, "init_params": "k-means++"}
    peer = GaussianMixture(n_modes, max_iter=20, tol=1e-2, random_state=seed, **options).fit(X)
    found = mixture.estimate_mixture(X, n_modes, np.random.RandomState(seed))
    tolerance = 1e-9 if dtype == np.float64 else 1e-3
    weights = mixture.weights_from(found, X)
    assert weights.dtype == dtype
    np.testing.assert_allclose(weights, peer.predict_proba(X), atol=tolerance)
    np.testing.assert_allclose(found.means, peer.means_, rtol=tolerance, atol=tolerance)
    assert found.bic(X) == pytest.approx(peer.bic(X), rel=tolerance)


# Counting modes


def counted(X, most=32, store=MemoryStore, seed=0):
    return store.of(X).count_modes(most, np.random.RandomState(seed))


@pytest.mark.parametrize("n_features", [1, 2, 10])
def test_a_round_cloud_has_one_mode(store, n_features):
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(400, n_features))
        assert counted(X, store=store) == 1


@pytest.mark.parametrize("n_blobs", [1, 2, 3, 4, 6, 8])
def test_blobs_that_are_apart_have_at_least_a_mode_each(store, n_blobs):
    rng = np.random.default_rng(n_blobs)
    centers = 30 * np.eye(8)[:n_blobs]
    X = rng.normal(size=(60 * n_blobs, 8)) + np.repeat(centers, 60, axis=0)
    n_modes = counted(X, store=store)
    assert n_modes in 2 ** np.arange(6)
    assert n_blobs <= n_modes < 2 * n_blobs


def test_no_more_modes_are_counted_than_allowed(store):
    X = clouds(n_samples=200) * [1.0, -1.0, 1.0]
    assert counted(X, store=store) >= 3
    assert [counted(X, most, store) for most in (1, 2, 3)] == [1, 2, 2]


def test_counts_are_the_same_every_time_and_in_all_stores():
    X = np.random.default_rng(0).normal(size=(300, 3)) ** 3 + 5.0  # of no clear number
    for seed in range(3):
        first = counted(X, seed=seed)
        assert counted(X, seed=seed) == first
        assert counted(X, store=BlockStore, seed=seed) == first


def test_modes_of_many_samples_are_counted_in_some_rows(store, monkeypatch):
    monkeypatch.setattr(mixture, "MAX_ROWS_TO_COUNT", 60)
    seen = []

    def count(rows, *args, count_modes=mixture.count_modes):
        seen.append(len(rows))
        return count_modes(rows, *args)

    monkeypatch.setattr(mixture, "count_modes", count)
    assert counted(clouds(n_samples=300), store=store) >= 3
    assert seen == [60]


# The starts


def clouds(seed=0, n_samples=60, n_features=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_samples, n_features)) + 8 * rng.integers(0, 3, (n_samples, 1))


def started(start, X, n_modes, seed=0, store=MemoryStore):
    """First weights; for a store in blocks the samples are centred."""
    rows = CentredRows.of(X) if store is BlockStore else X
    weights, powers = getattr(store(rows, X[0]), start)(n_modes, 3.0, np.random.RandomState(seed))
    assert weights.shape == (len(X), n_modes)
    assert np.all(np.isfinite(weights))
    assert weights.min() > 0
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(powers, weights**3)
    return weights


def assert_finds_clouds(weights, X):
    cloud = np.round(X.mean(axis=1) / 8).astype(int)
    means = np.array([weights[cloud == c].mean(axis=0) for c in range(3)])
    assert means.max(axis=1).min() > 0.99
    assert len(set(means.argmax(axis=1))) == 3


@every_start
def test_a_start_finds_separate_clouds(start, store):
    X = clouds()
    before = X.copy()
    assert_finds_clouds(started(start, X, 3, store=store), X)
    np.testing.assert_allclose(started(start, X, 1, store=store), 1)
    np.testing.assert_array_equal(X, before)


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
@pytest.mark.parametrize("kind", list(AWKWARD))
def test_a_start_copes_with_awkward_data(start, dtype, kind):
    started(start, AWKWARD[kind].astype(dtype), 4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", list(AWKWARD))
def test_counting_modes_copes_with_awkward_data(dtype, kind):
    X = AWKWARD[kind].astype(dtype)
    before = X.copy()
    assert 1 <= MemoryStore(X, X[0]).count_modes(4, np.random.RandomState(0)) <= 4
    np.testing.assert_array_equal(X, before)


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
def test_a_start_from_some_rows_weighs_all_rows_and_is_the_same_in_blocks(start, monkeypatch):
    monkeypatch.setattr(mixture, "MAX_ROWS_FOR_START", 20)
    monkeypatch.setattr(memory, "_ROWS_PER_BLOCK", 64)
    X = clouds(n_samples=300)
    X -= X.mean(axis=0)
    weights = started(start, X, 3)
    np.testing.assert_array_equal(weights, started(start, X, 3))
    np.testing.assert_allclose(started(start, X, 3, store=BlockStore), weights, atol=1e-8)
    assert_finds_clouds(weights, clouds(n_samples=300))


def test_the_mixture_does_not_see_the_scale_of_a_feature():
    X = clouds()
    scaled, plain = (started("mixture_weights", X * s, 3) for s in ([1e-6, 1.0, 1e6], [1, 1, 1]))
    np.testing.assert_allclose(scaled, plain, atol=1e-6)

"""Metrics of low rank: what is their own, and whole fits; the rest is tested for both spaces."""

import tracemalloc
from types import SimpleNamespace

import literal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.models import make_mdaml

from mdaml import Euclidean, MDaML, MDaMLCV
from mdaml.constraints import sample_triplets
from mdaml.datasets import make_multimodal
from mdaml.stores.memory import MemoryStore

# Few rounds are enough to see what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
hardly_learned = pytest.mark.filterwarnings("ignore:The learned distance agrees:UserWarning")


def planted(n_samples, n_features, n_triplets, rank=2, seed=0):
    """Samples, a metric of low rank in some hidden subspace, and comparisons that it makes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    hidden = np.linalg.qr(rng.normal(size=(n_features, rank)))[0]
    Y = X @ hidden
    t = np.array([rng.choice(n_samples, 3, replace=False) for _ in range(n_triplets)])
    near, far = (np.sum((Y[t[:, 0]] - Y[t[:, other]]) ** 2, axis=1) for other in (1, 2))
    t[near > far] = t[near > far][:, [0, 2, 1]]
    return X, hidden, t


# The parts


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), n_pairs=st.integers(1, 40))
def test_laplacian_of_both_directions_is_the_sum_over_pairs(seed, n_pairs):
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(9, 2, replace=False) for _ in range(n_pairs)], np.int32)
    Y, weights = rng.normal(size=(9, 3)), rng.normal(size=n_pairs)
    expected = np.zeros_like(Y)
    for (i, j), weight in zip(pairs, weights, strict=True):
        expected[i] += weight * (Y[i] - Y[j])
        expected[j] += weight * (Y[j] - Y[i])
    store = MemoryStore(Y, np.zeros(3), SimpleNamespace(pairs=pairs))
    np.testing.assert_allclose(store.laplacian_times(Y, weights), expected, rtol=0, atol=1e-12)


def test_critical_weight_is_that_of_the_mapped_samples(random_problem, local_problem, store):
    given = random_problem(0)
    low, full = (local_problem(given, store=store, rank=rank) for rank in (2, None))
    F = 0.7 * np.random.default_rng(0).normal(size=(4, 4))
    among_all = full.alternation.critical_triplet_weight(full.F, full.modes)
    square = low.alternation.critical_triplet_weight(F, low.modes)
    assert square == pytest.approx(among_all, rel=1e-9)
    F = F[:, :2]
    narrow = low.alternation.critical_triplet_weight(F, low.modes)
    expected = literal.critical_triplet_weight(
        given.centers @ F, given.weights, given.X @ F, given.triplets, eta=given.eta
    )
    assert narrow == pytest.approx(expected, rel=1e-9)
    assert narrow > among_all


# The estimator


def eq_7(model, X):
    comparisons, v = model.comparisons_, model.comparison_weights_
    if comparisons is None:
        comparisons = model.triplets_[:, [0, 1, 0, 2]]
    return literal.comparison_objective(
        model.get_mahalanobis_matrix().astype(float),
        model.centers_.astype(float),
        model.weights_.astype(float),
        np.asarray(X, float),
        comparisons,
        np.ones(len(comparisons)) if v is None else v,
        eta=3.0,
        triplet_weight=model.triplet_weight_,
        ridge=model.ridge_,
    )


def some_supervision(form):
    rng = np.random.default_rng(3)
    y = np.arange(60) % 3
    quadruplets = np.array([rng.choice(60, 4, replace=False) for _ in range(60)])
    pairs = quadruplets[:, :2]
    return {
        "labels": {"y": y},
        "triplets": {"triplets": sample_triplets(y, 2, 2, random_state=0)},
        "pairs": {"pairs": pairs, "pair_labels": 2 * (y[pairs[:, 0]] == y[pairs[:, 1]]) - 1},
        "weighted quadruplets": {
            "quadruplets": quadruplets,
            "constraint_weight": rng.uniform(0.5, 2.0, len(quadruplets)),
        },
    }[form]


@pytest.mark.filterwarnings("ignore:The weighted mean loss:UserWarning")
@hardly_learned
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", ["labels", "triplets", "pairs", "weighted quadruplets"])
def test_last_objective_is_eq_7_of_the_fitted_attributes(form, dtype):
    X = np.random.default_rng(0).normal(size=(60, 8)) + 2 * (np.arange(60) % 3)[:, None] + 50
    X = X.astype(dtype)
    model = make_mdaml("eq. 7", n_components=3, random_state=0).fit(X, **some_supervision(form))
    rel = 1e-10 if dtype is np.float64 else 1e-3
    assert model.history_[-1] == pytest.approx(eq_7(model, X), rel=rel)
    for one_pass in np.split(model.history_, model.pass_starts_[1:]):
        assert np.all(np.diff(one_pass) <= 0)
    assert model.components_.dtype == dtype
    assert model.components_.shape == (3, 8)
    lengths = np.linalg.norm(model.components_, axis=1)
    assert np.all(np.diff(lengths) <= 0)
    largest = np.abs(model.components_).argmax(axis=1)
    assert np.all(model.components_[np.arange(3), largest] > 0)


@pytest.fixture(scope="module")
def toy():
    X, y = make_multimodal(200, random_state=0)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=(200, 3))])
    return X / X.std(axis=0), y


def test_as_many_components_as_features_are_full_rank(toy):
    X, y = toy
    every = MDaML(3, n_components=X.shape[1], random_state=0).fit(X, y)
    np.testing.assert_array_equal(every.components_, MDaML(3, random_state=0).fit(X, y).components_)


def test_same_seed_same_metric_whatever_the_threads(toy, use_threads):
    maps = []
    for n in (1, 2, 3):
        use_threads(n)
        maps.append(MDaML(3, n_components=2, random_state=0).fit(*toy).components_)
    np.testing.assert_array_equal(maps[1], maps[0])
    np.testing.assert_array_equal(maps[2], maps[0])


def test_fit_begins_where_it_is_told_to(toy):
    X, y = toy
    triplets = sample_triplets(y, 3, 3, random_state=0)
    M = np.diag([1.0] * 2 + [1e-6] * (X.shape[1] - 2))
    plain = np.eye(X.shape[1]) * 10 / (2 * X.var(axis=0).sum())
    starts = [
        make_mdaml("eq. 7", 1, n_components=2, init_metric=start, max_iter=1, random_state=0)
        .fit(X, triplets=triplets)
        .history_[0]
        for start in ("identity", "whitened", plain, M)
    ]
    assert starts[0] == pytest.approx(starts[2], rel=1e-6)
    assert len({round(value, 6) for value in starts}) == 3


def test_more_components_than_samples_leave_some_at_zero():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 40)), np.arange(12) % 2
    X[:, :3] += 2 * y[:, None]
    model = MDaML(1, eta=3.0, n_components=20, random_state=0).fit(X, y)
    assert model.components_.shape == (20, 40)
    lengths = np.linalg.norm(model.components_, axis=1)
    assert lengths[0] > 1e-3
    np.testing.assert_allclose(lengths[12:], 0, atol=1e-12)
    assert model.history_[-1] == pytest.approx(eq_7(model, X), rel=1e-9)


@hardly_learned
@pytest.mark.parametrize("floor", [1.0, 0.05])
def test_with_an_anchor_more_components_than_dimensions_are_finite_and_all_in_use(floor):
    rng = np.random.default_rng(0)
    shapes = {"few samples": rng.normal(size=(12, 40)), "a plane": np.zeros((30, 40))}
    shapes["a plane"][:, :2] = rng.normal(size=(30, 2))
    for X in shapes.values():
        T = np.array([rng.choice(len(X), 3, replace=False) for _ in range(60)])
        options = {"anchor": 0.1, "floor": floor, "n_components": 20, "random_state": 0}
        n_modes = 1 if floor == 1.0 else 2
        model = make_mdaml("neighbors", n_modes, find_groups=False, **options).fit(X, triplets=T)
        assert np.all(np.isfinite(model.components_))
        assert np.all(np.isfinite(model.history_))
        assert np.all(np.diff(model.history_) <= 0)
        lengths = np.linalg.norm(model.components_, axis=1)
        assert lengths[-1] > 0  # the anchor makes metrics of lower rank infinitely bad


@pytest.mark.filterwarnings("ignore:The weighted mean loss:UserWarning")
@pytest.mark.filterwarnings("ignore:triplet_weight=.* is below lambda1_critical_:UserWarning")
@hardly_learned
@pytest.mark.filterwarnings("ignore:Too little to learn from:UserWarning")
@pytest.mark.parametrize("given", [{"y": np.arange(8) % 2}, {"triplets": [[0, 1, 2], [3, 4, 5]]}])
def test_samples_that_are_all_alike_are_no_error(given):
    model = MDaML(1, n_components=2, random_state=0).fit(np.ones((8, 5)), **given)
    assert np.all(np.isfinite(model.components_))


def test_cross_validation_hands_the_rank_on(toy):
    X, y = toy
    model = MDaMLCV(n_components=2, random_state=0).fit(X, y)
    assert model.components_.shape == (2, X.shape[1])
    assert model.best_estimator_.n_components == 2
    np.testing.assert_array_equal(model.components_, model.best_estimator_.components_)


def test_planted_metric_of_rank_two_is_found_among_a_hundred_features():
    X, hidden, triplets = planted(400, 100, 7000)
    model = MDaML(1, n_components=2, max_iter=20, random_state=0).fit(X, triplets=triplets[:6000])
    cosines = np.linalg.svd(hidden.T @ np.linalg.qr(model.components_.T)[0], compute_uv=False)
    assert cosines.min() > 0.98
    unseen = triplets[6000:]
    assert model.score_triplets(X, unseen) > 0.95
    assert Euclidean().fit(X).score_triplets(X, unseen) < 0.6


@pytest.mark.filterwarnings("ignore:Nothing was learned:UserWarning")  # from so few comparisons
@pytest.mark.parametrize("anchor", [0.1, "auto"])
def test_no_array_of_features_by_features(anchor):
    n, d = 150, 1500
    X, _, triplets = planted(n, d, 300)
    options = {"anchor": anchor, "n_components": 4, "max_iter": 2, "random_state": 0}
    small, _, answers = planted(n, 10, 300)
    MDaML(**options).fit(small, triplets=answers)  # compiles
    tracemalloc.start()
    model = MDaML(**options).fit(X, triplets=triplets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.components_.shape == (4, d)
    assert peak < 5 * X.nbytes < 0.51 * 8 * d * d  # copies of X, which are small here

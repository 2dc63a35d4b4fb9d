"""DMLMJ: pins, twins, published peers, identities and degenerate input."""

import frozen_peers
import literal_baselines as lit
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mdaml.constraints.labels import Classes
from mdaml.estimators.dmlmj import DMLMJ, jeffrey_directions, neighbor_covariance, regularised

X8, Y8 = lit.e8()


def random_classes(seed, sizes=(9, 8, 7), n_features=3):
    """Return samples of classes that overlap, in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return rng.normal(size=(len(y), n_features)) + 0.7 * rng.normal(size=(9, n_features))[y], y


def metric(X, y, k, m, **options):
    return DMLMJ(k, n_components=m, **options).fit(X, y).get_mahalanobis_matrix()


def covariances(X, y, k):
    classes = Classes.from_labels("test", y)
    centred = (X - X.mean(axis=0))[classes.rows]
    return tuple(neighbor_covariance(centred, classes, k, same=same) for same in (True, False))


def assert_pinned(found, wanted):
    if np.ndim(found) == 2:
        found = found[np.triu_indices(len(found))]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


def assert_same(found, wanted, rtol=1e-10):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rtol * np.abs(wanted).max())


# Against others


def test_covariances_of_the_example():
    positive, negative = covariances(X8, Y8, 2)
    assert_pinned(positive, [0.6275, -0.25, 1.593125])
    assert_pinned(negative, [3.681875, 0.8325, 1.19875])


@pytest.mark.parametrize(
    ("k", "m", "M", "eigenvalues"),
    [
        (2, 1, [1.651840, 0.430433, 0.112161], [6.932992]),
        (2, 2, [1.699903, 0.266756, 0.669558], [6.932992, 0.572619]),
        (5, 1, [1.899302, 0.411102, 0.088983], [10.056928]),
        (5, 2, [1.919394, 0.330735, 0.410451], [10.056928, 0.75]),
    ],
)
def test_metric_and_eigenvalues_of_the_example(k, m, M, eigenvalues):
    model = DMLMJ(k, n_components=m, reg=0).fit(X8, Y8)
    assert_pinned(model.get_mahalanobis_matrix(), M)
    assert_pinned(model.eigenvalues_, eigenvalues)
    assert model.n_components_ == m
    assert model.components_.shape == (m, 2)


@pytest.mark.parametrize(("k", "m"), frozen_peers.DMLMJ_METRICS)
def test_metric_is_that_of_pydml(k, m):
    model = DMLMJ(k, n_components=m, reg=0).fit(frozen_peers.X, frozen_peers.LABELS)
    assert_same(model.get_mahalanobis_matrix(), frozen_peers.DMLMJ_METRICS[k, m])
    assert_same(model.eigenvalues_, frozen_peers.DMLMJ_EIGENVALUES[k][:m])


@pytest.mark.parametrize("sizes", [(9, 8, 7), (1, 2, 9, 1), (2, 3), (20, 1)])
@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("reg", [1e-6, 0.1])
def test_metric_is_that_of_the_loops(sizes, k, reg):
    """With fewer neighbours than asked for, and classes of one, among them."""
    X, y = random_classes(sum(sizes) + k, sizes)
    for m in (1, 2, 3):
        assert_same(metric(X, y, k, m, reg=reg), lit.dmlmj(X, y, k, m, reg=reg), 1e-8)


# Identities


seeds = st.integers(0, 10**6)


@given(seeds, st.integers(1, 4))
def test_all_components_give_the_inverse_covariance_of_the_positives(seed, k):
    X, y = random_classes(seed)
    positive, _ = lit.dmlmj_scatters(X, y, k)
    assume(np.linalg.cond(positive) < 1e4)
    assert_same(metric(X, y, k, 3, reg=0), np.linalg.inv(positive), 1e-9)


def test_with_all_components_it_does_not_matter_where_the_other_classes_are():
    X, y = random_classes(3)
    moved = X + 10 * np.eye(3)[y]
    assert_same(metric(moved, y, 3, 3), metric(X, y, 3, 3), 1e-9)
    assert np.abs(metric(moved, y, 3, 1) - metric(X, y, 3, 1)).max() > 1e-2


def jeffrey_divergence(A, positive, negative):
    P, N = A @ positive @ A.T, A @ negative @ A.T
    return 0.5 * np.trace(np.linalg.solve(P, N) + np.linalg.solve(N, P)) - len(A)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_components_maximise_the_jeffrey_divergence(m):
    X, y = random_classes(4, n_features=4)
    positive, negative = lit.dmlmj_scatters(X, y, 3)
    model = DMLMJ(3, n_components=m, reg=0).fit(X, y)
    best = jeffrey_divergence(model.components_, positive, negative)
    score = np.sum(model.eigenvalues_ + 1 / model.eigenvalues_) / 2 - m
    assert best == pytest.approx(score, rel=1e-9)
    rng = np.random.default_rng(5)
    for _ in range(200):
        near = model.components_ + 0.1 * rng.normal(size=(m, 4))
        assert jeffrey_divergence(near, positive, negative) <= best * (1 + 1e-12)
        assert jeffrey_divergence(rng.normal(size=(m, 4)), positive, negative) <= best


def test_fewer_components_are_the_first_rows_of_more():
    X, y = random_classes(6)
    everything = DMLMJ(3, n_components=3).fit(X, y)
    for m in (1, 2):
        some = DMLMJ(3, n_components=m).fit(X, y)
        np.testing.assert_array_equal(some.components_, everything.components_[:m])
        np.testing.assert_array_equal(some.eigenvalues_, everything.eigenvalues_[:m])


# Order


def test_small_eigenvalues_rank_beside_large_ones():
    values, rows = jeffrey_directions(np.eye(3), np.diag([2.0, 0.1, 5.0]))
    np.testing.assert_allclose(values, [0.1, 5.0, 2.0])
    np.testing.assert_allclose(np.abs(rows), np.eye(3)[[1, 2, 0]])


def test_ties_go_to_the_larger_eigenvalue():
    values, rows = jeffrey_directions(np.eye(4), np.diag([0.25, 1.0, 4.0, 1.0]))
    np.testing.assert_array_equal(values, [4.0, 0.25, 1.0, 1.0])
    np.testing.assert_array_equal(np.abs(rows[:2]), np.eye(4)[[2, 0]])


def test_a_direction_without_negative_spread_ranks_first():
    values, rows = jeffrey_directions(np.eye(2), np.diag([4.0, 0.0]))
    np.testing.assert_allclose(values, [8 * np.finfo(float).eps, 4.0])
    np.testing.assert_allclose(np.abs(rows), np.eye(2)[::-1])


# Degenerate input


def test_class_of_one_has_no_positive_differences_but_is_a_negative():
    X, y = random_classes(8, (1, 9, 8))
    rest = y > 0
    positive, negative = covariances(X, y, 3)
    positive_of_rest, negative_of_rest = covariances(X[rest], y[rest], 3)
    assert_same(positive, positive_of_rest)
    assert np.abs(negative - negative_of_rest).max() > 1e-3


def test_copies_of_samples_are_harmless():
    X, y = random_classes(9)
    X, y = np.vstack([X, X[:5]]), np.append(y, y[:5])
    assert_same(metric(X, y, 3, 2), lit.dmlmj(X, y, 3, 2, reg=1e-6), 1e-8)


def test_tight_classes_far_apart_keep_their_precision():
    X, y = random_classes(9)
    moved = X + 1e6 * np.array([[1.0, 2, 3], [-3, 1, 2], [2, -3, 1]])[y]
    positive, _ = covariances(X, y, 3)
    assert_same(covariances(moved, y, 3)[0], positive, 1e-8)


def test_neighbors_are_capped_class_by_class():
    positive, negative = covariances(X8, Y8, 10**9)
    similar, dissimilar = lit.labelled_pairs(Y8)
    assert_same(positive, lit.pair_covariance(X8, similar))
    assert_same(negative, lit.pair_covariance(X8, dissimilar))


def flat(seed=10):
    """Return samples whose last feature depends on the others."""
    X, y = random_classes(seed)
    return np.column_stack([X, X.sum(axis=1)]), y


def test_singular_positives_are_refused_without_a_ridge():
    X, y = flat()
    with pytest.raises(ValueError, match=r"same-class neighbours is singular.*Use reg > 0"):
        metric(X, y, 3, 2, reg=0)
    assert np.all(np.isfinite(metric(X, y, 3, 2)))
    assert np.all(np.isfinite(metric(X, y, 3, 2, reg="original")))


def test_fewer_samples_than_features_are_refused_without_a_ridge():
    X = np.random.default_rng(0).normal(size=(6, 10))
    with pytest.raises(ValueError, match="same-class neighbours is singular"):
        metric(X, [0, 0, 0, 1, 1, 1], 2, 2, reg=0)
    assert np.all(np.isfinite(metric(X, [0, 0, 0, 1, 1, 1], 2, 2)))


def test_singular_negatives_are_no_error_even_without_a_ridge():
    """Classes that differ in the first feature only, samples of a class in both."""
    X = np.array([[0.0, 0], [0, 1], [0.3, 5], [5, 0], [5, 1], [5.3, 5]])
    model = DMLMJ(1, n_components=1, reg=0).fit(X, [0, 0, 0, 1, 1, 1])
    assert np.abs(model.components_[0, 0]) < 1e-6 * np.abs(model.components_[0, 1])
    assert 0 < model.eigenvalues_[0] < 1e-10


@pytest.mark.parametrize("reg", [0, 1e-6, "original"])
@pytest.mark.parametrize("n_components", [None, 1])
def test_classes_of_copies_are_refused(reg, n_components):
    X, y = np.repeat(np.random.default_rng(0).normal(size=(2, 3)), 4, axis=0), np.repeat([0, 1], 4)
    with pytest.raises(ValueError, match="same-class neighbours do not differ in any feature"):
        DMLMJ(n_components=n_components, reg=reg).fit(X, y)


@pytest.mark.parametrize("reg", [0, 1e-6, "original"])
def test_classes_that_coincide_are_refused(reg):
    X = np.random.default_rng(0).normal(size=(6, 3))
    with pytest.raises(ValueError, match="other-class neighbours do not differ in any feature"):
        metric(np.vstack([X, X]), np.repeat([0, 1], 6), 1, 1, reg=reg)


# The authors' ridge


@pytest.mark.parametrize("size", [1e-6, 0.99e-5, 1.01e-5, 1.0])
def test_original_ridge_looks_at_the_determinant(size):
    A = size * np.eye(2)
    assert_same(regularised(A, "original", "pairs"), lit.dmlmj_original_ridge(A), 1e-14)


def test_original_ridge_knows_determinants_that_underflow_and_overflow():
    small, large = 0.01 * np.eye(200), 100.0 * np.eye(200)
    assert_same(regularised(small, "original", "pairs"), 0.999 * small + 0.001 * np.eye(200))
    np.testing.assert_array_equal(regularised(large, "original", "pairs"), large)


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_original_ridge_acts_on_each_covariance_by_itself(scale):
    """At the small scale the positives are regularised, and the negatives, far apart, are not."""
    X, y = random_classes(11, (12, 12))
    X = scale * X
    X[y == 1] += 50 * np.random.default_rng(0).normal(size=(12, 3))
    sigma_p, sigma_n = lit.dmlmj_scatters(X, y, 3)
    V = lit.dmlmj_directions(lit.dmlmj_original_ridge(sigma_p), lit.dmlmj_original_ridge(sigma_n))
    found = metric(X, y, 3, 1, reg="original")
    assert_same(found, np.outer(V[2][:, 0], V[2][:, 0]), 1e-8)


def test_original_ridge_is_none_for_regular_covariances():
    assert_same(metric(X8, Y8, 2, 1, reg="original"), metric(X8, Y8, 2, 1, reg=0))


# Parameters


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_neighbors": 0}, ValueError, r"DMLMJ\(n_neighbors=...\) must be at least 1, got 0"),
        ({"n_neighbors": 2.5}, TypeError, r"n_neighbors=...\) must be an integer"),
        ({"reg": -1.0}, ValueError, r"reg=...\) must be .* of at least 0, got -1.*'original'"),
        ({"reg": "ridge"}, TypeError, r"reg=...\) must be .* got 'ridge'. Or pass 'original'"),
        ({"random_state": "x"}, ValueError, "random_state must be an integer"),
    ],
)
def test_wrong_parameters_are_refused_in_words(options, error, message):
    with pytest.raises(error, match=message):
        DMLMJ(**options).fit(X8, Y8)

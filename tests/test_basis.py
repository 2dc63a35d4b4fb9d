"""What a metric is linear in: features, closeness to modes, features within a few modes."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import kmeans_plusplus

from mdaml.basis import (
    Basis,
    Gates,
    find_landmarks,
    find_maps,
    find_places,
    mean_sq_dist,
    spread_rows,
)
from mdaml.kernels.products import rows_times, transposed_times, weighted_gram


@pytest.fixture(name="X")
def make_rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 3)) + 6.0 * rng.integers(3, size=(200, 1))


@pytest.fixture(name="basis")
def make_basis(X):
    """Five places in a learned space of two dimensions, and two maps."""
    seen = Basis(
        landmarks=find_landmarks(X),
        landmark_map=np.random.default_rng(1).normal(size=(2, len(X))),
        maps=find_maps(X, 2),
    )
    return find_places(X, seen, 5)


def literal_closeness(X, centers, width):
    return np.array([[np.exp(-((x - c) ** 2).sum() / width) for c in centers] for x in X])


def test_without_modes_the_basis_is_the_identity(X):
    assert Basis().is_identity
    assert Basis().transform(X) is X
    assert Basis().width(3) == 3


def test_closeness_is_one_at_a_centre_and_falls_with_the_squared_distance(X):
    gates = Gates(X[:6], 2.0)
    found = gates.closeness(X)
    np.testing.assert_allclose(found, literal_closeness(X, X[:6], 2.0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.diag(found[:6]), 1.0, rtol=1e-12)
    shares = gates.shares(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(shares, found / found.sum(axis=1, keepdims=True), atol=1e-12)


def test_closeness_far_from_the_origin_is_that_near_it(X):
    far = Gates(X[:6] + 1e7, 2.0).closeness(X + 1e7)
    np.testing.assert_allclose(far, Gates(X[:6], 2.0).closeness(X), atol=1e-6)


def test_a_conditioner_makes_columns_whose_products_are_the_kernel():
    """Of centres: ``(G + jitter)^-1`` is ``T^T T``, so that columns ``G T^T`` give G again."""
    gates = Gates(np.random.default_rng(0).normal(size=(8, 3)), 4.0)
    gram, T = gates.closeness(gates.centers), gates.conditioner()
    columns = gram @ T.T
    np.testing.assert_allclose(columns @ columns.T, gram, atol=1e-3)


def test_columns_are_features_closeness_and_features_of_each_map(X, basis):
    columns = basis.transform(X)
    assert columns.shape == (200, basis.width(3)) == (200, 3 + 5 + 2 * 3)
    np.testing.assert_array_equal(columns[:, :3], X)
    u = literal_closeness(X, basis.landmarks.centers, basis.landmarks.width) @ basis.landmark_map.T
    centers = (
        literal_closeness(basis.places.centers, basis.landmarks.centers, basis.landmarks.width)
        @ basis.landmark_map.T
    )
    wanted = literal_closeness(u, centers, basis.places.width)
    np.testing.assert_allclose(columns[:, 3:8], wanted, rtol=1e-7, atol=1e-10)
    shares = basis.maps.shares(X)
    for k in range(2):
        inside = shares[:, [k]] * (X - X.mean(axis=0))
        np.testing.assert_allclose(columns[:, 8 + 3 * k : 11 + 3 * k], inside)


def test_columns_can_be_mapped_block_by_block(X, basis):
    T = np.random.default_rng(2).normal(size=(4, basis.width(3)))
    np.testing.assert_allclose(basis.transform(X, T), basis.transform(X) @ T.T, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_made_in_blocks_stand_for_those_made_at_once(X, basis, dtype):
    X, T = X.astype(dtype), np.random.default_rng(2).normal(size=(4, basis.width(3)))
    T[:, :3] = 0.0  # features do not take part beside places
    lazy, eager = basis.in_blocks(X, T), basis.transform(X, T)
    rng = np.random.default_rng(3)
    A, V, w = rng.normal(size=(4, 2)), rng.normal(size=(200, 2)).astype(dtype), rng.random(200)
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype is np.float64 else {"rtol": 1e-3, "atol": 0.1}
    pairs = [
        (lazy[:], eager),
        (lazy[np.array([7, 3])], eager[[7, 3]]),
        (lazy.mean(0, np.float64), eager.mean(axis=0, dtype=np.float64)),
        (rows_times(lazy, A), eager @ A),
        (transposed_times(lazy, V), eager.T @ V),
        (transposed_times(V, lazy), V.T @ eager),
        (weighted_gram(lazy, w), (eager.T * w) @ eager),
        (mean_sq_dist(lazy), mean_sq_dist(eager)),
    ]
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, **tolerance)
    assert (lazy.shape, lazy.dtype, lazy.itemsize) == (eager.shape, dtype, eager.itemsize)
    assert lazy.tall.shape[1] == basis.width(3) - 3


def test_modes_with_a_place_are_rows_of_the_samples(X, basis):
    rows = {tuple(row) for row in X}
    assert {tuple(center) for center in basis.places.centers} <= rows
    assert len(np.unique(basis.places.centers, axis=0)) == 5


def test_widths_follow_the_scale_of_the_features(X):
    np.testing.assert_allclose(mean_sq_dist(100.0 * X), 1e4 * mean_sq_dist(X))
    near, far = find_landmarks(X), find_landmarks(100.0 * X)
    np.testing.assert_allclose(near.closeness(X), far.closeness(100.0 * X), rtol=1e-9, atol=1e-12)


def test_a_row_has_the_same_columns_alone_and_among_others(X, basis):
    one_by_one = np.concatenate([basis.transform(row[None]) for row in X])
    np.testing.assert_allclose(one_by_one, basis.transform(X), rtol=1e-8, atol=1e-12)


def test_single_precision_stays_single(X, basis):
    assert basis.transform(X.astype(np.float32)).dtype == np.float32


def test_rows_that_coincide_are_close_to_modes_too():
    X = np.ones((10, 3))
    basis = find_places(X, Basis(landmarks=find_landmarks(X), landmark_map=np.ones((1, 10))), 3)
    columns = basis.transform(X)
    np.testing.assert_array_equal(columns[:, 3:], 1.0)


def test_the_same_rows_give_the_same_modes(X):
    one, other = (find_places(rows, Basis(), 8) for rows in (X, X.copy()))
    np.testing.assert_array_equal(one.transform(X), other.transform(X))


def test_a_basis_of_maps_alone_has_no_places(X):
    basis = Basis(maps=find_maps(X, 2), mean=X.mean(axis=0))
    assert basis.places is None
    assert basis.width(3) == 9


def test_rows_are_spread_over_all():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 50)
    X = 20.0 * rng.normal(size=(12, 3))[groups] + rng.normal(size=(600, 3))
    rows = spread_rows(X, 12)
    assert len(np.unique(groups[rows])) == 12
    np.testing.assert_array_equal(rows, spread_rows(X, 12))
    assert len(np.unique(spread_rows(X, 600))) == 600
    # As near to some of them as with scikit-learn's.
    theirs = kmeans_plusplus(X, 40, random_state=0)[0]
    ours, wanted = (cdist(X, C).min(axis=1).mean() for C in (X[spread_rows(X, 40)], theirs))
    assert ours < 1.05 * wanted


def test_rows_that_are_all_the_same_are_spread_too():
    assert len(spread_rows(np.ones((30, 2)), 5)) == 5


def test_mean_squared_distances_are_taken_without_a_copy():
    X = np.random.default_rng(0).normal(size=(40_000, 64)).astype(np.float32) + 5.0
    wanted = 2.0 * X.var(axis=0, dtype=np.float64).sum()
    tracemalloc.start()
    found = mean_sq_dist(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == pytest.approx(wanted, rel=1e-6)
    assert peak < 0.5 * X.nbytes
    assert mean_sq_dist(np.full((10, 3), 0.1)) == 1.0

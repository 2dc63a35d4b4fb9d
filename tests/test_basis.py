"""What a metric is linear in: features, memberships in modes, features within a few modes."""

import numpy as np
import pytest

from mdaml.basis import Basis, Gates, find_basis


@pytest.fixture(name="X")
def make_rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 3)) + 6.0 * rng.integers(3, size=(200, 1))


def test_without_modes_the_basis_is_the_identity(X):
    basis = find_basis(X, 0, 0)
    assert basis.is_identity
    assert basis.transform(X) is X
    assert basis.width(3) == 3


def test_memberships_are_the_softmax_of_the_nearest_centres(X):
    centers = X[:6]
    gates = Gates(centers, 2.0, 2)
    found = gates.memberships(X).toarray()
    for x, row in zip(X, found, strict=True):
        sq_dists = ((x - centers) ** 2).sum(axis=1)
        nearest = np.argsort(sq_dists, kind="stable")[:2]
        shares = np.exp(-(sq_dists[nearest] - sq_dists.min()) / 2.0)
        wanted = np.zeros(6)
        wanted[nearest] = shares / shares.sum()
        np.testing.assert_allclose(row, wanted, atol=1e-12)


def test_memberships_are_few_and_sum_to_one(X):
    found = find_basis(X, 20, 0, 4).places.memberships(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.nnz == 4 * len(X)
    assert found.min() >= 0.0


def test_columns_are_features_memberships_and_features_of_each_map(X):
    basis = find_basis(X, 5, 2)
    columns = basis.transform(X)
    assert columns.shape == (200, basis.width(3)) == (200, 3 + 5 + 2 * 3)
    np.testing.assert_array_equal(columns[:, :3], X)
    places = basis.scale * basis.places.memberships(X).toarray()
    np.testing.assert_allclose(columns[:, 3:8], places)
    shares = basis.maps.memberships(X).toarray()
    for k in range(2):
        inside = shares[:, [k]] * (X - X.mean(axis=0))
        np.testing.assert_allclose(columns[:, 8 + 3 * k : 11 + 3 * k], inside)


def test_the_length_of_a_membership_follows_the_scale_of_the_features(X):
    wide, narrow = find_basis(100.0 * X, 5, 0), find_basis(X, 5, 0)
    np.testing.assert_allclose(wide.scale, 100.0 * narrow.scale)
    np.testing.assert_allclose(wide.transform(100.0 * X), 100.0 * narrow.transform(X), rtol=1e-9)


def test_a_row_has_the_same_columns_alone_and_among_others(X):
    basis = find_basis(X, 12, 2)
    one_by_one = np.concatenate([basis.transform(row[None]) for row in X])
    np.testing.assert_allclose(one_by_one, basis.transform(X), rtol=1e-10, atol=1e-12)


def test_single_precision_stays_single(X):
    basis = find_basis(X.astype(np.float32), 5, 2)
    assert basis.transform(X.astype(np.float32)).dtype == np.float32


def test_rows_that_coincide_have_memberships_too():
    X = np.ones((10, 3))
    columns = find_basis(X, 3, 2).transform(X)
    assert np.all(np.isfinite(columns))
    np.testing.assert_allclose(columns[:, 3:6].sum(axis=1), 1.0)


def test_the_same_rows_give_the_same_modes(X):
    one, other = find_basis(X, 8, 2), find_basis(X.copy(), 8, 2)
    np.testing.assert_array_equal(one.transform(X), other.transform(X))


def test_a_basis_of_maps_alone_has_no_places(X):
    assert isinstance(find_basis(X, 0, 2), Basis)
    assert find_basis(X, 0, 2).places is None

"""What belongs together when something is held out."""

import numpy as np
import pytest

from mdaml.holdout.units import same_rows


def first_of_each(X, tolerance):
    """The definition, pair by pair: rows that differ by no more than the tolerance are joined."""
    X = X.astype(np.float64)
    widths = tolerance * X.std(axis=0) + 1e-12 * np.abs(X).max(axis=0)
    same = (np.abs(X[:, None] - X) <= widths).all(axis=2)
    for _ in range(len(X)):
        same = (same.astype(int) @ same) > 0
    return same.argmax(axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_same_rows_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 3))[rng.integers(20, size=60)] * [1.0, 1e6, 1e-3] + [1e3, 0, 0]
    X += 1e-5 * X.std(axis=0) * rng.uniform(size=X.shape)
    assert np.array_equal(same_rows(X, 1e-3), first_of_each(X, 1e-3))


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_with_rounding_are_all_found_and_nothing_else(dtype, offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 24)) + offset
    of = rng.integers(5000, size=60_000)
    noisy = (X[of] + 1e-4 * rng.normal(size=(60_000, 24))).astype(dtype)
    codes = same_rows(noisy, 1e-2)
    _, first, group = np.unique(of, return_index=True, return_inverse=True)
    assert np.array_equal(codes, first[group])


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_units_of_columns_do_not_matter_and_zero_tolerance_means_rounding(scale):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4)) * scale
    X[200:] = X[:100]
    X[250] += 1e-9 * scale
    wanted = np.r_[np.arange(200), np.arange(100)]
    wanted[250] = 250
    assert np.array_equal(same_rows(X, 0.0), wanted)
    wanted[250] = 50
    assert np.array_equal(same_rows(X, 1e-6), wanted)


def test_rows_of_few_values_constant_columns_and_single_rows():
    rng = np.random.default_rng(2)
    X = rng.integers(2, size=(4000, 5)).astype(np.float64)
    X[:, 2] = 7.0
    _, first, group = np.unique(X, axis=0, return_index=True, return_inverse=True)
    assert np.array_equal(same_rows(X, 1e-6), first[group.ravel()])
    assert same_rows(np.zeros((3, 2)), 1e-6).tolist() == [0, 0, 0]
    assert same_rows(np.ones((1, 2)), 1e-6).tolist() == [0]


def test_rows_of_several_arrays_are_those_of_all_joined():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 200, 5)).astype(np.float32)
    Y[:50] = X[100:150]
    Y[60] = Y[70]
    assert np.array_equal(same_rows(X, 1e-5, Y), same_rows(np.concatenate([X, Y]), 1e-5))
    assert np.array_equal(same_rows(X, 1e-5, Y)[200:250], np.arange(100, 150))

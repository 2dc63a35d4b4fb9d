"""Scatters of pairs, from Laplacians and from class sums."""

import literal_baselines as literal
import numpy as np
import pytest

from mdaml.constraints.comparisons import PairSet
from mdaml.constraints.labels import Classes
from mdaml.constraints.value import Constraints
from mdaml.estimators.scatter import (
    cholesky,
    class_scatters,
    pair_scatter,
    ridged,
    scatters,
    weighted_scatter,
    whitened,
)


def random_pairs(rng, n_samples, n_pairs):
    return np.array([rng.choice(n_samples, 2, replace=False) for _ in range(n_pairs)])


def centred(rng, n_samples, n_features, offset=0.0):
    X = rng.normal(size=(n_samples, n_features)) + offset
    return X - X.mean(axis=0)


@pytest.mark.parametrize("seed", range(5))
def test_pair_scatter_is_the_sum_over_all_pairs_given(seed):
    rng = np.random.default_rng(seed)
    X, pairs = centred(rng, 12, 4), random_pairs(rng, 12, 60)  # of 66 possible: many repeat
    scatter = pair_scatter(X, PairSet.from_pairs(pairs, 12))
    np.testing.assert_allclose(scatter.total, literal.pair_scatter(X, pairs), rtol=1e-12)
    np.testing.assert_allclose(scatter.mean, literal.pair_covariance(X, pairs), rtol=1e-12)
    assert scatter.n_pairs == 60
    assert scatter.n_distinct == len({tuple(sorted(pair)) for pair in pairs.tolist()})


def test_pairs_of_close_or_equal_samples_lose_no_digits():
    rng = np.random.default_rng(0)
    X = centred(rng, 20, 3)
    X[10:] = X[:10] + 1e-7 * rng.normal(size=(10, 3))
    pairs = np.column_stack([np.arange(10), np.arange(10, 20)])
    scatter = pair_scatter(X, PairSet.from_pairs(pairs, 20))
    np.testing.assert_allclose(scatter.total, literal.pair_scatter(X, pairs), rtol=1e-12)
    X[10:] = X[:10]
    assert not pair_scatter(X, PairSet.from_pairs(pairs, 20)).total.any()


def test_weights_of_either_sign_are_allowed():
    rng = np.random.default_rng(0)
    X, pairs = centred(rng, 10, 3), random_pairs(rng, 10, 25)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    groups = np.append(np.flatnonzero(np.diff(pairs[:, 0], prepend=-1)), len(pairs))
    weights = rng.normal(size=25)
    np.testing.assert_allclose(
        weighted_scatter(X, pairs, groups, weights),
        literal.pair_scatter(X, pairs, weights),
        rtol=1e-11,
        atol=1e-12,
    )


@pytest.mark.parametrize("seed", range(5))
def test_class_scatters_are_those_of_all_pairs_there_are(seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation([0, 0, 1, 1, 1, 1, 2, 5, 5, 5, -1, -1])  # one class of one, two unlabelled
    classes = Classes.from_labels("test", y)
    X = rng.normal(size=(12, 3))
    samples = X[classes.rows] - X[classes.rows].mean(axis=0)
    similar, dissimilar = class_scatters(samples, classes)
    wanted = literal.labelled_pairs(y[classes.rows])
    for scatter, pairs in zip((similar, dissimilar), wanted, strict=True):
        np.testing.assert_allclose(scatter.total, literal.pair_scatter(samples, pairs), rtol=1e-11)
        assert scatter.n_pairs == scatter.n_distinct == len(pairs)


def test_many_small_classes_give_the_same_scatters_as_few():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 20  # so small that products with all samples are made
    classes, X = Classes.from_labels("test", y), centred(rng, 60, 3)
    wanted = literal.labelled_pairs(y[classes.rows])
    found = class_scatters(X[classes.rows], classes)
    for scatter, pairs in zip(found, wanted, strict=True):
        expected = literal.pair_scatter(X[classes.rows], pairs)
        np.testing.assert_allclose(scatter.total, expected, rtol=1e-11, atol=1e-10)


def test_scatters_of_labels_and_of_constraints_are_those_of_their_pairs():
    rng = np.random.default_rng(0)
    X, y = centred(rng, 80, 3), np.arange(80) // 40  # classes so large that each has a product
    for found, wanted in (
        (scatters(X, Classes.from_labels("test", y)), literal.labelled_pairs(y)),
        (
            scatters(X, Constraints(pairs=[[0, 1], [2, 3]], pair_labels=[1, -1])),
            ([[0, 1]], [[2, 3]]),
        ),
    ):
        for scatter, pairs in zip(found, wanted, strict=True):
            expected = literal.pair_scatter(X, np.asarray(pairs))
            np.testing.assert_allclose(scatter.total, expected, rtol=1e-10, atol=1e-9)


def test_whitened_samples_have_the_identity_for_their_scatter():
    X = centred(np.random.default_rng(0), 30, 4)
    Y = whitened(X, cholesky(X.T @ X, "samples"))
    np.testing.assert_allclose(Y.T @ Y, np.eye(4), atol=1e-12)


def test_a_ridge_is_relative_to_the_mean_eigenvalue():
    scatter = np.diag([1.0, 5.0])
    np.testing.assert_allclose(ridged(scatter, 0.1, "pairs"), np.diag([1.3, 5.3]))
    np.testing.assert_array_equal(ridged(scatter, 0.0, "pairs"), scatter)


def test_pairs_that_do_not_differ_are_refused_in_words():
    with pytest.raises(ValueError, match="similar pairs do not differ in any feature"):
        ridged(np.zeros((2, 2)), 1e-6, "similar pairs")


@pytest.mark.parametrize("tiny", [0.0, 1e-17, -1e-17])
def test_a_singular_scatter_is_refused_in_words(tiny):
    with pytest.raises(ValueError, match=r"scatter of the pairs is singular.*reg > 0.*PCA"):
        cholesky(np.diag([1.0, tiny]), "pairs")

"""KISSME: a difference of inverse covariances, clipped."""

import literal_baselines as literal
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdaml import KISSME
from mdaml.estimators.kissme import clipped_components, likelihood_ratio


def e8_pairs():
    X, y = literal.e8()
    similar, dissimilar = literal.labelled_pairs(y)
    return X, similar, dissimilar


def fit_pairs(X, similar, dissimilar, **options):
    signs = [1] * len(similar) + [-1] * len(dissimilar)
    return KISSME(**options).fit(X, pairs=[*similar, *dissimilar], pair_labels=signs)


def entries(M):
    return [M[0, 0], M[0, 1], M[1, 1]]


def test_worked_example_from_pairs_and_from_labels():
    X, similar, dissimilar = e8_pairs()
    for model in (
        fit_pairs(X, similar, dissimilar, reg=0),
        KISSME(reg=0).fit(X, literal.e8()[1]),
    ):
        M = model.get_mahalanobis_matrix()
        np.testing.assert_allclose(entries(M), [1.708930, 0.373299, 0.081543], atol=2e-6)
        assert len(model.components_) == 1  # one eigenvalue was negative


def test_worked_example_before_clipping():
    X, similar, dissimilar = e8_pairs()
    raw = likelihood_ratio(
        literal.pair_covariance(X, similar), literal.pair_covariance(X, dissimilar)
    )
    np.testing.assert_allclose(entries(raw), [1.703750, 0.397014, -0.027021], atol=2e-6)


def test_worked_example_that_needs_no_clipping():
    X, _, dissimilar = e8_pairs()
    hits, _ = literal.dmlmj_neighbors(*literal.e8(), 2)
    M = fit_pairs(X, literal.neighbor_pairs(hits), dissimilar, reg=0).get_mahalanobis_matrix()
    np.testing.assert_allclose(entries(M), [1.484259, 0.333035, 0.232086], atol=2e-6)


@given(seed=st.integers(0, 10**6), d=st.integers(1, 6), reg=st.sampled_from([0.0, 1e-6, 0.1]))
def test_the_twin_by_explicit_inverses(seed, d, reg):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, d)) * rng.uniform(0.5, 2, d)
    pairs = [tuple(rng.choice(40, 2, replace=False)) for _ in range(120)]
    similar, dissimilar = pairs[:60], pairs[60:]
    S, D = (literal.add_ridge(literal.pair_covariance(X, p), reg) for p in (similar, dissimilar))
    raw = literal.kissme_raw(S, D)
    if np.linalg.eigvalsh(raw).max() < 1e-6:
        return  # refused: see below
    M = fit_pairs(X, similar, dissimilar, reg=reg).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, literal.clip_psd(raw), rtol=1e-7, atol=1e-9)


def test_clipping_is_the_nearest_positive_semidefinite_matrix_not_a_cut_of_ratios():
    X, similar, dissimilar = e8_pairs()
    S, D = literal.pair_covariance(X, similar), literal.pair_covariance(X, dissimilar)
    L = clipped_components(likelihood_ratio(S, D))
    np.testing.assert_allclose(L.T @ L, literal.clip_psd(literal.kissme_raw(S, D)), rtol=1e-9)
    wrong = [1.710447, 0.370225, 0.080135]  # clipped in the generalised basis
    assert np.abs(np.array(entries(L.T @ L)) - wrong).max() > 1e-3


@given(seed=st.integers(0, 10**6))
def test_equivariant_under_any_linear_map_before_clipping(seed):
    rng = np.random.default_rng(seed)
    A, C, B = rng.normal(size=(3, 4, 7)), rng.normal(size=(4, 9)), rng.normal(size=(4, 4))
    S, D = A[0] @ A[0].T, C @ C.T
    B += 4 * np.eye(4)  # well away from singular
    raw = likelihood_ratio(S, D)
    mapped = likelihood_ratio(B @ S @ B.T, B @ D @ B.T)
    np.testing.assert_allclose(
        B.T @ mapped @ B, raw, rtol=1e-6, atol=1e-7 * max(1, np.abs(raw).max())
    )


def test_similar_pairs_that_differ_more_than_dissimilar_ones_are_refused():
    X = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"differ no more than similar ones.*1 for similar"):
        fit_pairs(X, [(0, 1), (0, 2)], [(0, 3), (0, 4)], reg=0)


def test_fewer_pairs_than_features_warns_and_suggests_pca():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 5))
    X[10:] *= 3
    similar, dissimilar = (
        [(0, 1), (2, 3), (0, 1)],
        [(10, 11), (12, 13), (14, 15), (16, 17), (18, 0)],
    )
    with pytest.warns(UserWarning, match=r"2 distinct similar pairs for 5 features.*PCA"):
        model = fit_pairs(X, similar, dissimilar)
    assert np.all(np.isfinite(model.components_))
    with (
        pytest.raises(ValueError, match="similar pairs is singular"),
        pytest.warns(UserWarning, match="2 distinct similar"),
    ):
        fit_pairs(X, similar, dissimilar, reg=0)

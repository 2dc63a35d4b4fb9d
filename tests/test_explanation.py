"""Feature relevances, contributions to a distance, effective rank and the map of modes."""

import itertools
import warnings

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from mdaml import GMML, KISSME, LFDA, Euclidean, MDaML, fold_pipeline
from mdaml.datasets import make_multimodal, make_triplets
from mdaml.inspection import effective_rank, explain_distance, feature_relevance, mode_map
from mdaml.plot import plot_metric_ellipse


def metric_of(components):
    """A metric with given components."""
    components = np.asarray(components, dtype=float)
    metric = Euclidean().fit(np.eye(components.shape[1]))
    metric.components_ = components
    return metric


@pytest.fixture(scope="module")
def correlated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) @ (np.eye(4) + rng.normal(size=(4, 4)))
    return X, rng.normal(size=(3, 4))


@pytest.fixture(scope="module")
def modal():
    X, y = make_multimodal(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return X, MDaML(n_modes=4, max_iter=2, random_state=0).fit(X, y)


def test_relevances_by_loops_over_features(correlated):
    X, L = correlated
    M, covariance = L.T @ L, np.cov(X.T)
    parts = [sum(M[f, g] * covariance[f, g] for g in range(4)) for f in range(4)]
    np.testing.assert_allclose(feature_relevance(metric_of(L), X), parts / np.sum(parts))


def test_relevances_are_mean_contributions_over_all_pairs(correlated):
    X, L = correlated
    metric = metric_of(L)
    frames = [explain_distance(metric, a, b) for a, b in itertools.combinations(X[:12], 2)]
    mean = sum(frame["contribution"] for frame in frames)
    pd.testing.assert_series_equal(
        feature_relevance(metric, X[:12]), mean / mean.sum(), check_names=False
    )


@pytest.mark.parametrize("learner", [GMML(), KISSME(), LFDA(), Euclidean()])
def test_shares_of_any_metric_sum_to_one(learner):
    X, y = make_multimodal(random_state=0)
    shares = feature_relevance(learner.fit(X, y), X)
    assert shares.sum() == pytest.approx(1)


def test_features_that_do_not_matter_have_no_relevance():
    X = np.random.default_rng(0).normal(size=(100, 3)) * [1, 2, 100]
    shares = feature_relevance(metric_of(np.diag([1.0, 1.0, 0.0])), X)
    assert shares["x2"] == 0
    assert shares["x1"] > shares["x0"] > 0


def test_scaling_a_feature_against_its_weight_changes_no_relevance(correlated):
    X, L = correlated
    scales = np.array([1, 10, 0.1, 5])
    before, after = (
        feature_relevance(metric_of(L), X),
        feature_relevance(metric_of(L / scales), X * scales),
    )
    pd.testing.assert_series_equal(before, after)


numbers = st.floats(-100, 100)


@given(hnp.arrays(float, (3, 4), elements=numbers), hnp.arrays(float, (2, 4), elements=numbers))
def test_contributions_sum_to_the_squared_distance(L, points):
    metric = metric_of(L)
    frame = explain_distance(metric, *points)
    distance = metric.pair_distance(points[:1], points[1:])[0]
    scale = np.sum(np.abs(frame["contribution"])) + 1e-300
    assert frame["contribution"].sum() == pytest.approx(distance**2, rel=1e-9, abs=1e-12 * scale)
    back = explain_distance(metric, points[1], points[0])
    np.testing.assert_array_equal(frame["contribution"], back["contribution"])


def test_contributions_by_loops(correlated):
    X, L = correlated
    M, z = L.T @ L, X[0] - X[1]
    frame = explain_distance(metric_of(L), X[0], X[1])
    by_loops = [sum(z[f] * M[f, g] * z[g] for g in range(4)) for f in range(4)]
    np.testing.assert_allclose(frame["contribution"], by_loops)
    np.testing.assert_allclose(frame["share"], np.divide(by_loops, np.sum(by_loops)))


def test_a_point_and_itself():
    frame = explain_distance(metric_of(np.eye(2)), [1.0, 2.0], [1.0, 2.0])
    assert (frame["contribution"] == 0).all()
    assert (frame["share"] == 0).all()


def test_features_keep_their_names():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["length", "width"])
    metric = Euclidean().fit(X)
    assert list(feature_relevance(metric, X).index) == ["length", "width"]
    assert list(explain_distance(metric, X.iloc[0], X.iloc[1]).index) == ["length", "width"]


@given(hnp.arrays(float, 5, elements=st.floats(0.01, 100)))
def test_effective_rank_is_the_exponential_of_the_entropy(lengths):
    shares = lengths**2 / np.sum(lengths**2)
    expected = np.exp(-sum(p * np.log(p) for p in shares))
    rank = effective_rank(metric_of(np.diag(lengths)))
    assert rank == pytest.approx(expected)
    assert 1 - 1e-9 <= rank <= 5 + 1e-9


def test_effective_rank_of_extremes():
    assert effective_rank(metric_of(np.eye(7))) == pytest.approx(7)
    assert effective_rank(metric_of([[1.0, 2.0, 3.0]])) == pytest.approx(1)
    assert effective_rank(metric_of(np.zeros((2, 2)))) == 0


def test_links_by_loops(modal):
    X, model = modal
    found = mode_map(model, X)
    links = np.zeros((4, 4))
    for i, j, _ in model.triplets_:
        links += np.outer(model.weights_[i], model.weights_[j])
    links /= links.sum()
    np.testing.assert_allclose(found.links, 0.5 * (links + links.T))
    np.testing.assert_array_equal(found.modes, model.weights_.argmax(axis=1))
    np.testing.assert_allclose(found.weights.sum(axis=1), 1)


def test_modes_of_other_points_need_their_own_comparisons(modal):
    X, model = modal
    with pytest.raises(ValueError, match="pass triplets="):
        mode_map(model, X[:50])
    found = mode_map(model, X[:50], triplets=[[0, 1, 2]])
    expected = np.outer(found.weights[0], found.weights[1])
    np.testing.assert_allclose(found.links, 0.5 * (expected + expected.T))


def test_near_pairs_of_quadruplets_count_too():
    X = np.random.default_rng(0).normal(size=(40, 2))
    quadruplets = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
    triplets, _ = make_triplets(X, n_triplets=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MDaML(n_modes=2, random_state=0).fit(X, triplets=triplets, quadruplets=quadruplets)
    W = model.weights_
    near = [*triplets[:, :2].tolist(), [0, 1], [4, 5]]
    links = sum(np.outer(W[i], W[j]) for i, j in near) / len(near)
    np.testing.assert_allclose(mode_map(model, X).links, 0.5 * (links + links.T))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: feature_relevance(m, [[1.0, 2.0]]), ValueError, "at least two rows"),
        (lambda m: feature_relevance(m, np.ones((3, 2))), ValueError, "distance zero"),
        (lambda m: feature_relevance(m, np.ones((3, 5))), ValueError, "features"),
        (lambda m: explain_distance(m, [1.0], [2.0, 3.0]), ValueError, r"a must be one point of 2"),
        (lambda m: explain_distance(m, [1.0, 2.0], [np.nan, 0.0]), ValueError, "got nan"),
        (lambda m: mode_map(m, np.eye(2)), TypeError, "needs a model with modes, MDaML"),
        (lambda _: effective_rank(BaseEstimator()), TypeError, "needs a fitted metric"),
    ],
)
def test_what_cannot_be_explained_is_said(call, error, message):
    with pytest.raises(error, match=message):
        call(metric_of(np.eye(2)))


@pytest.mark.parametrize(
    "steps",
    [
        [Normalizer()],
        [Normalizer("l1")],
        [StandardScaler(), Normalizer()],
        [StandardScaler(), Normalizer(), StandardScaler(), PCA(3)],
        [StandardScaler(), PCA(3)],
        [StandardScaler(with_mean=False)],
    ],
    ids=str,
)
def test_contributions_sum_to_the_distance_of_a_folded_pipeline(steps):
    X = np.random.default_rng(0).normal(size=(24, 4)) + np.array([3.0, 0, 0, 1])
    y = (X[:, 0] > 3) + 2 * (X[:, 1] > 0)
    pipeline = make_pipeline(*steps, GMML()).fit(X, y)
    model = fold_pipeline(pipeline)
    a, b = pipeline.transform(X[:2])
    frame = explain_distance(model, X[0], X[1])
    assert frame["contribution"].sum() == pytest.approx(np.sum((a - b) ** 2))
    assert frame["share"].sum() == pytest.approx(1.0)
    every = sum(
        explain_distance(model, X[i], X[j])["contribution"] for i in range(24) for j in range(i)
    )
    shares = feature_relevance(model, X)
    assert shares.sum() == pytest.approx(1.0)
    assert shares.to_numpy() == pytest.approx((every / every.sum()).to_numpy(), abs=1e-9)


def test_mixed_features_before_a_normalizer_are_refused():
    X = np.random.default_rng(0).normal(size=(60, 4))
    for n in (3, 4):
        pipeline = make_pipeline(PCA(n), Normalizer(), Euclidean()).fit(X)
        model = fold_pipeline(pipeline)
        with pytest.raises(TypeError, match="explain_distance cannot tell features apart"):
            explain_distance(model, X[0], X[1])
        with pytest.raises(TypeError, match="feature_relevance cannot tell features apart"):
            feature_relevance(model, X)
        with pytest.raises(TypeError, match="no Mahalanobis distance of X"):
            plot_metric_ellipse(model, X)

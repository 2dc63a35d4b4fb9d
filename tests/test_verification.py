"""Decisions for pairs: thresholds against exhaustive search, and calibrated probabilities."""

import pickle
from itertools import pairwise

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as reference_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mdaml import DMLMJ, GMML, KISSME, LFDA, LMNN, DMLdc, DMLeig, Euclidean, MDaML
from mdaml.datasets import load_dataset
from mdaml.verification import PairVerifier, SigmoidCurve


@pytest.fixture(scope="module")
def faces():
    """Points of 40 people, and pairs of them; half of the pairs are of one person."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(40), 8)
    X = 1.5 * rng.normal(size=(40, 5))[who] + rng.normal(size=(320, 5)) * [0.2, 0.5, 1, 2, 2]
    pairs = np.array([rng.choice(320, 2, replace=False) for _ in range(3000)])
    pairs[::2, 1] = pairs[::2, 0] // 8 * 8 + (pairs[::2, 0] + 3) % 8
    return X, who, pairs, np.where(who[pairs[:, 0]] == who[pairs[:, 1]], 1, -1)


@pytest.fixture(scope="module")
def metric(faces):
    return GMML().fit(faces[0], faces[1])


def on_a_line(distances, labels, **options):
    """A verifier of pairs at given distances from a point at the origin."""
    X = np.concatenate([[0.0], distances])[:, None]
    pairs = np.column_stack([np.zeros(len(distances), int), np.arange(1, len(X))])
    verifier = PairVerifier(Euclidean().fit(X), **options)
    return verifier.fit(X, pairs, labels), X, pairs


def candidates(distances):
    values = sorted(set(distances))
    middles = [(low + high) / 2 for low, high in pairwise(values)]
    return [values[0] - 1, *middles, values[-1]]


def errors(distances, labels, threshold):
    """False accepts and false rejects, counted one by one."""
    accepted = [d <= threshold for d in distances]
    false_accepts = sum(yes and label < 0 for yes, label in zip(accepted, labels, strict=True))
    false_rejects = sum(not yes and label > 0 for yes, label in zip(accepted, labels, strict=True))
    return false_accepts, false_rejects


# Few values, so that ties occur; both kinds of pairs.
some_pairs = st.tuples(
    st.lists(st.integers(0, 12), min_size=1, max_size=15),
    st.lists(st.integers(0, 12), min_size=1, max_size=15),
).map(
    lambda kinds: (np.array([*kinds[0], *kinds[1]]) / 4, [1] * len(kinds[0]) + [-1] * len(kinds[1]))
)


@given(some_pairs)
def test_the_equal_error_rate_by_loops(supervision):
    distances, labels = supervision
    n_same, n_different = labels.count(1), labels.count(-1)
    rates = []
    for threshold in candidates(distances):
        accepts, rejects = errors(distances, labels, threshold)
        rates.append((accepts / n_different, rejects / n_same))
    gaps = [abs(a - r) for a, r in rates]
    verifier, _, _ = on_a_line(distances, labels, calibration=None)
    accepts, rejects = errors(distances, labels, verifier.threshold_)
    assert abs(accepts / n_different - rejects / n_same) == pytest.approx(min(gaps))
    assert verifier.equal_error_rate_ == pytest.approx(
        0.5 * (accepts / n_different + rejects / n_same)
    )


@given(some_pairs, st.sampled_from([0.25, 1.0, 3.0]))
def test_no_threshold_has_a_higher_f_beta(supervision, beta):
    distances, labels = supervision

    def f_beta(threshold):
        accepts, rejects = errors(distances, labels, threshold)
        found = labels.count(1) - rejects
        if found == 0:
            return 0.0
        precision, recall = found / (found + accepts), found / labels.count(1)
        return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)

    verifier, _, _ = on_a_line(distances, labels, threshold="fbeta", beta=beta, calibration=None)
    best = max(f_beta(threshold) for threshold in candidates(distances))
    assert f_beta(verifier.threshold_) == pytest.approx(best)


@given(some_pairs, st.sampled_from([(1.0, 1.0), (10.0, 1.0), (1.0, 5.0), (0.0, 1.0)]))
def test_no_threshold_costs_less(supervision, cost):
    distances, labels = supervision

    def total(threshold):
        return np.dot(cost, errors(distances, labels, threshold))

    verifier, _, _ = on_a_line(distances, labels, threshold="cost", cost=cost, calibration=None)
    assert total(verifier.threshold_) == min(map(total, candidates(distances)))


@given(some_pairs, st.sampled_from(["sigmoid", "isotonic"]))
def test_probabilities_never_rise_with_distance(supervision, calibration):
    verifier, _, _ = on_a_line(*supervision, calibration=calibration)
    X = np.linspace(0, 10, 101)[:, None]
    pairs = np.column_stack([np.zeros(100, int), np.arange(1, 101)])
    proba = verifier.predict_proba(X, pairs)
    assert np.all(np.diff(proba[:, 1]) <= 1e-12)
    assert proba.min() >= 0
    np.testing.assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_probabilities_hold_on_other_pairs(faces, metric, calibration):
    X, _, pairs, labels = faces
    verifier = PairVerifier(metric, calibration=calibration).fit(X, pairs[:1500], labels[:1500])
    proba = verifier.predict_proba(X, pairs[1500:])[:, 1]
    same = labels[1500:] > 0
    for low in np.arange(0, 1, 0.2):
        rows = (low <= proba) & (proba < low + 0.2)
        if rows.sum() > 50:
            assert abs(proba[rows].mean() - same[rows].mean()) < 0.15
    assert abs(proba.mean() - same.mean()) < 0.03


def test_the_sigmoid_minimises_its_loss():
    rng = np.random.default_rng(0)
    distances = rng.uniform(0, 5, 400)
    same = rng.random(400) < 1 / (1 + np.exp(2 * distances - 4))
    curve = SigmoidCurve.fit(distances, same)
    target = np.where(same, (same.sum() + 1) / (same.sum() + 2), 1 / ((~same).sum() + 2))

    def loss(slope, intercept):
        p = SigmoidCurve(slope, intercept)(distances)
        return -np.sum(target * np.log(p) + (1 - target) * np.log(1 - p))

    best = loss(curve.slope, curve.intercept)
    for step in np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]) * 0.05:
        assert best < loss(curve.slope + step[0], curve.intercept + step[1])


def test_the_roc_curve_is_that_of_scikit_learn(faces, metric):
    X, _, pairs, labels = faces
    verifier = PairVerifier(metric).fit(X, pairs, labels)
    false, true, thresholds = verifier.roc_curve(X, pairs, labels)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert np.all(np.diff(thresholds) > 0)
    scores = verifier.decision_function(X, pairs)
    expected = reference_curve(labels, scores, drop_intermediate=False)
    np.testing.assert_allclose(false, expected[0])
    np.testing.assert_allclose(true, expected[1])
    assert np.trapezoid(true, false) == pytest.approx(roc_auc_score(labels, scores))


def test_decisions_follow_the_threshold(faces, metric):
    X, _, pairs, labels = faces
    verifier = PairVerifier(metric, threshold=2.5).fit(X, pairs, labels)
    distances = metric.pair_distance(X[pairs[:, 0]], X[pairs[:, 1]])
    assert verifier.threshold_ == 2.5
    np.testing.assert_array_equal(verifier.predict(X, pairs), np.where(distances <= 2.5, 1, -1))
    np.testing.assert_allclose(verifier.decision_function(X, pairs), 2.5 - distances)
    assert verifier.score(X, pairs, labels) == np.mean(verifier.predict(X, pairs) == labels)


def test_at_the_equal_error_threshold_both_errors_are_equal(faces, metric):
    X, _, pairs, labels = faces
    verifier = PairVerifier(metric).fit(X, pairs, labels)
    decided = verifier.predict(X, pairs)
    accepts, rejects = np.mean(decided[labels < 0] > 0), np.mean(decided[labels > 0] < 0)
    assert abs(accepts - rejects) < 2 / 1400
    assert verifier.equal_error_rate_ == pytest.approx(0.5 * (accepts + rejects))
    plain = PairVerifier(Euclidean().fit(X)).fit(X, pairs, labels)
    assert verifier.equal_error_rate_ < 0.85 * plain.equal_error_rate_


LEARNERS = [DMLMJ, GMML, KISSME, LFDA, LMNN, DMLdc, DMLeig, Euclidean, MDaML]


@pytest.mark.filterwarnings("ignore")  # of short fits
@pytest.mark.parametrize("learner", LEARNERS)
def test_any_metric_can_verify(learner):
    X, y = load_dataset("balance", return_X_y=True)
    y = np.unique(y, return_inverse=True)[1]
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[:200]
    X, y = X[rows], y[rows]
    pairs = np.array([rng.choice(200, 2, replace=False) for _ in range(400)])
    labels = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    verifier = PairVerifier(learner().fit(X, y)).fit(X, pairs, labels)
    assert verifier.score(X, pairs, labels) > 0.5
    assert verifier.predict_proba(X, pairs).shape == (400, 2)


def test_a_pipeline_can_verify(faces):
    X, who, pairs, labels = faces
    scaled = StandardScaler().fit_transform(X)
    plain = PairVerifier(GMML().fit(scaled, who)).fit(scaled, pairs, labels)
    whole = PairVerifier(make_pipeline(StandardScaler(), GMML()).fit(X, who))
    whole.fit(X, pairs=pairs, pair_labels=labels)
    assert whole.threshold_ == pytest.approx(plain.threshold_)


def test_clones_share_the_fitted_metric(faces, metric):
    X, _, pairs, labels = faces
    verifier = PairVerifier(metric, threshold="cost", cost=(2.0, 1.0)).fit(X, pairs, labels)
    copy = clone(verifier)
    assert copy.get_params()["cost"] == (2.0, 1.0)
    assert copy.metric is metric
    assert not hasattr(copy, "threshold_")
    assert copy.fit(X, pairs, labels).threshold_ == verifier.threshold_
    again = pickle.loads(pickle.dumps(verifier))
    np.testing.assert_array_equal(again.predict_proba(X, pairs), verifier.predict_proba(X, pairs))


def test_a_distance_that_misleads_gives_the_base_rate():
    verifier, X, pairs = on_a_line(np.array([1.0, 2.0, 8.0, 9.0]), [-1, -1, 1, 1])
    proba = verifier.predict_proba(X, pairs)
    np.testing.assert_allclose(proba, 0.5)


@given(hnp.arrays(float, 6, elements=st.floats(0, 1e8)))
def test_extreme_distances_have_finite_probabilities(distances):
    curve = SigmoidCurve(-3.0, 1e5)
    assert np.all(np.isfinite(curve(distances)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"threshold": "best"}, ValueError, "one of 'eer', 'cost', 'fbeta'"),
        ({"threshold": -1.0}, ValueError, "at least 0"),
        ({"threshold": None}, TypeError, "Or one of 'eer'"),
        ({"beta": 0.0}, ValueError, "greater than 0"),
        ({"cost": 3.0}, ValueError, "must be two numbers"),
        ({"cost": (1.0, -1.0)}, ValueError, "at least 0"),
        ({"calibration": "platt"}, ValueError, "one of 'sigmoid', 'isotonic', None"),
    ],
)
def test_parameters_are_checked_before_any_work(metric, options, error, message):
    with pytest.raises(error, match=message):
        PairVerifier(metric, **options).fit(None, None, None)


def test_what_cannot_be_fitted_is_said(faces, metric):
    X, _, pairs, labels = faces
    with pytest.raises(NotFittedError, match="must be fitted first"):
        PairVerifier(GMML()).fit(X, pairs, labels)
    with pytest.raises(TypeError, match="got DBSCAN, without transform"):
        PairVerifier(DBSCAN()).fit(X, pairs, labels)
    with pytest.raises(ValueError, match="similar and dissimilar pairs, got 4 and 0"):
        PairVerifier(metric).fit(X, pairs[:4], [1, 1, 1, 1])
    with pytest.raises(ValueError, match="Does 0 mean dissimilar"):
        PairVerifier(metric).fit(X, pairs[:3], [0, 1, -1])
    with pytest.raises(ValueError, match="name row 999"):
        PairVerifier(metric).fit(X, [[0, 999]], [1])
    with pytest.raises(NotFittedError):
        PairVerifier(metric).predict(X, pairs)


def test_without_calibration_there_are_no_probabilities(faces, metric):
    X, _, pairs, labels = faces
    verifier = PairVerifier(metric, calibration=None).fit(X, pairs, labels)
    assert not hasattr(verifier, "predict_proba")
    assert hasattr(PairVerifier(metric), "predict_proba")

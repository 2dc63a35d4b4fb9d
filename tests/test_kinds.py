"""What kinds of people look at: shares of features, and intervals that hold the truth."""

import numpy as np
import pytest
from scipy.special import expit

from mdaml import Euclidean, LocalMDaML
from mdaml.constraints.persons import Persons
from mdaml.datasets import make_triplets
from mdaml.inspection import describe_kinds, feature_relevance
from mdaml.inspection._explanation import by_feature, covary
from mdaml.people import PersonalMetrics
from mdaml.people._coordinates import Coordinates
from mdaml.people._mixture import Heard, find_uncertainties, fit_kinds

pytestmark = pytest.mark.needs("pandas")


def ask(seed, n_persons, n_answers, n_kinds=2, spread=0.0):
    """Return samples, answers of two kinds of people, who gave them, and true shares (K, F)."""
    rng = np.random.default_rng(seed)
    X, supervision, looks_at = rng.normal(size=(80, 4)), [], np.array([[1, 1, 0, 0], [1, 0, 1, 0]])
    for person in range(n_persons):
        weights = looks_at[person % n_kinds] * np.exp(spread * rng.normal(size=4))
        axes = np.diag(weights)[weights > 0]
        drawn = {"components": axes, "wrong": 0.1, "random_state": 1000 * seed + person}
        supervision.append(make_triplets(X, n_triplets=n_answers, **drawn)[0])
    parts = looks_at * X.var(axis=0)
    who = np.repeat(np.arange(n_persons), n_answers)
    return X, np.concatenate(supervision), who, parts / parts.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("metric", [Euclidean(), LocalMDaML(n_places=3)], ids=["one map", "places"])
def test_parts_of_coefficients_add_up_to_the_relevance(metric):
    X, T, who, _ = ask(0, 8, 60)
    model = PersonalMetrics(metric, n_kinds=2, pull=None, n_starts=2).fit(X, triplets=T, who=who)
    parts = model._coordinates.parts(model.metric_.components_, covary("", model.metric_, X))
    cut = model._coordinates.cut(model.kind_coefficients_)
    for coefficients, kind in zip(cut, model.kinds_, strict=True):
        shares = by_feature(model.metric_, parts @ coefficients)[1]
        assert np.allclose(shares / shares.sum(), feature_relevance(kind, X))


def test_uncertainties_are_those_of_the_loops():
    rng = np.random.default_rng(0)
    Y, codes = rng.normal(size=(20, 3)), np.repeat(np.arange(6), 20)
    asked = np.array([rng.permutation(20)[:4] for _ in range(120)])
    coordinates = Coordinates.of(Y, asked)
    heard = Heard.of(
        coordinates.features(Y, asked), rng.uniform(0.5, 2.0, 120), Persons(np.arange(6), codes)
    )
    kinds = fit_kinds(heard, coordinates.given(1.0), 1)
    curvature, wishes = np.eye(coordinates.size), np.zeros((6, coordinates.size))
    for f, w, code in zip(heard.features, heard.weights, codes, strict=True):
        error, right = kinds.errors[code], expit(f @ kinds.coefficients[0])
        chance = (1 - error) * right + error * (1 - right)
        slope = (1 - 2 * error) * right * (1 - right)
        curvature += w * slope**2 / (chance * (1 - chance)) * np.outer(f, f)
        wishes[code] += w * slope / chance * f
    (by_answers, by_persons) = find_uncertainties(heard, kinds)[0]
    assert np.allclose(by_answers, np.linalg.inv(curvature))
    wider = (2.570582 / 1.959964) ** 2 * 6 / 5  # Student's t with five degrees of freedom
    assert np.allclose(by_persons, wider * by_answers @ wishes.T @ wishes @ by_answers, rtol=1e-5)
    few = Heard.of(heard.features[:80], heard.weights[:80], Persons(np.arange(4), codes[:80]))
    assert not find_uncertainties(few, fit_kinds(few, coordinates.given(1.0), 1))[0, 1].any()


@pytest.mark.slow
def test_intervals_of_95_percent_hold_the_truth():
    held = {True: [], False: [], "differences": []}
    for seed in range(12):
        X, T, who, truth = ask(seed, 12, 60)
        model = PersonalMetrics(Euclidean(), n_kinds=2, pull=None).fit(X, triplets=T, who=who)
        truth = truth[[model.kind_of_person_[0], model.kind_of_person_[1]]]
        frame = describe_kinds(model, X)
        ends = frame[["low", "high"]].to_numpy().reshape(2, 4, 2)
        inside = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
        for is_used in (True, False):
            held[is_used] += inside[(truth > 0) == is_used].tolist()
        ends = frame[["difference_low", "difference_high"]].to_numpy().reshape(2, 4, 2)
        apart = truth - truth[::-1]
        held["differences"] += ((ends[..., 0] <= apart) & (apart <= ends[..., 1])).ravel().tolist()
        assert np.all(frame["low"] <= frame["relevance"])
        assert np.all(frame["relevance"] <= frame["high"])
    assert min(np.mean(some) for some in held.values()) >= 0.88


def test_persons_who_differ_within_their_kind_make_intervals_wider():
    lengths = []
    for spread in (0.0, 0.7):
        X, T, who, _ = ask(1, 16, 60, 1, spread)
        model = PersonalMetrics(Euclidean(), n_kinds=1, pull=None).fit(X, triplets=T, who=who)
        frame = describe_kinds(model, X)
        lengths.append((frame["high"] - frame["low"])[:2].mean())
    assert lengths[1] > 1.5 * lengths[0]


def test_everybody_with_the_shared_metric_has_no_intervals():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(30, 3)), np.array([rng.permutation(30)[:3] for _ in range(120)])
    with pytest.warns(UserWarning, match="Nothing was learned about single persons"):
        model = PersonalMetrics(Euclidean()).fit(X, triplets=T, who=np.arange(120) % 6)
    frame = describe_kinds(model, X)
    assert model.kind_covariances_.shape == (0, 2, 7, 7)
    assert frame["low"].isna().all()
    assert frame["high"].isna().all()
    assert frame["relevance"].sum() == pytest.approx(1.0)


@pytest.mark.needs("matplotlib")
def test_the_legend_of_kinds_is_right_below_the_label():
    from matplotlib.figure import Figure

    from mdaml.plot import plot_kinds

    X, T, who, _ = ask(0, 6, 40)
    model = PersonalMetrics(Euclidean(), n_kinds=2, pull=None, n_starts=1)
    model.fit(X, triplets=T, who=who)
    for height in (1.9, 4.0, 9.0):
        ax = plot_kinds(model, X, ax=Figure((6.0, height), layout="constrained").subplots())
        ax.figure.draw_without_rendering()
        label, legend = ax.xaxis.label.get_window_extent(), ax.get_legend().get_window_extent()
        assert 0 <= label.y0 - legend.y1 < label.height
        assert ax.figure.bbox.y0 <= legend.y0

"""The first metric: the identity, a multiple of it where that is far better, or leading axes."""

from dataclasses import replace

import numpy as np
import oracles
import pytest

from mdaml import MDaML
from mdaml.constraints import sample_triplets
from mdaml.datasets import make_multimodal, make_triplets
from mdaml.solver import start as start_module
from mdaml.solver.alternation import Alternation
from mdaml.solver.spec import Spec
from mdaml.solver.start import (
    BETTER,
    NARROWEST,
    better_start,
    low_rank_part,
    rescaled,
    start_metric,
    whitening_factor,
)


@pytest.fixture(scope="module")
def many_features():
    """Samples of which five of many features matter, and comparisons by those."""
    X = np.random.default_rng(0).normal(size=(100, 60))
    answers = make_triplets(X, n_triplets=1200, components=np.eye(60)[:5], random_state=0)
    return X, answers[0]


def multimodal():
    """Samples with few features, their labels, and triplets drawn from these."""
    X, y = make_multimodal(240, random_state=0)
    return X, y, sample_triplets(y, 3, 3, random_state=0)


# A multiple of the identity


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 40.0])
def test_the_best_multiple_is_the_lowest_of_all_by_the_oracle(
    random_problem, local_problem, store, scale
):
    given = random_problem(seed=3)
    given = replace(given, X=scale * given.X, centers=scale * given.centers, ridge=0.0)
    local = local_problem(given, store=store)
    state = local.start()
    multiple, found = rescaled(local.alternation, state)
    mean_sq_dist = 2 * np.mean(np.sum(given.X**2, axis=1))
    np.testing.assert_allclose(found.F @ found.F.T, multiple * np.eye(4))
    factors = np.logspace(np.log10(min(1.0, NARROWEST / mean_sq_dist)), 9, 181)
    value, _ = oracles.m_step_functions(*given.m_step, **given.options)
    lowest = min(value(factor * np.eye(4)) for factor in factors)
    assert lowest <= found.value * (1 + 1e-3)
    assert found.value <= 1.2 * lowest
    assert found.modes is state.modes
    assert found.importance is state.importance


def test_contradictions_do_not_start_at_no_distance_at_all():
    X = np.random.default_rng(0).normal(size=(60, 40))
    T = np.array([np.random.default_rng(i).choice(60, 3, replace=False) for i in range(300)])
    both = np.concatenate([T, T[:, [0, 2, 1]]])
    with pytest.warns(UserWarning, match="the best metric is zero"):
        model = MDaML(1, max_iter=1, max_inner_iter=1).fit(X, triplets=both)
    assert np.trace(model.get_mahalanobis_matrix()) > 0.01


def test_with_many_features_the_start_is_a_multiple_of_the_identity(many_features):
    X, T = many_features
    auto, plain = (
        MDaML(1, init_metric=start).fit(X, triplets=T[:800]) for start in ("auto", "identity")
    )
    assert auto.history_[0] * BETTER < plain.history_[0]
    assert auto.history_[-1] * BETTER < plain.history_[-1]
    assert auto.score_triplets(X, T[800:]) > plain.score_triplets(X, T[800:]) + 0.02


@pytest.mark.parametrize("supervision", ["labels", "triplets"])
def test_with_few_features_the_start_is_the_identity(supervision):
    X, y, triplets = multimodal()
    given = {"y": y} if supervision == "labels" else {"triplets": triplets}
    auto, plain = (
        MDaML(3, init_metric=start, random_state=0).fit(X, **given)
        for start in ("auto", "identity")
    )
    np.testing.assert_array_equal(auto.history_, plain.history_)
    np.testing.assert_array_equal(auto.components_, plain.components_)


def test_units_of_the_features_matter_little():
    X, _, T = multimodal()
    options = {"n_modes": 3, "ridge": 0.0, "random_state": 0}
    small, usual, large = (
        MDaML(**options).fit(unit * X, triplets=T).score_triplets(unit * X, T)
        for unit in (1e-4, 1.0, 1e3)
    )
    assert min(small, large) > usual - 0.03


def test_history_and_callback_are_those_of_the_start_that_was_chosen(many_features):
    X, T = many_features
    seen = []
    model = MDaML(2, callback=lambda n, value: seen.append((n, value)), random_state=0)
    model.fit(X, triplets=T)
    assert len(model.history_) == 1 + 3 * model.n_iter_
    assert np.all(np.diff(model.history_) <= 0)
    assert [n for n, _ in seen] == list(range(1, model.n_iter_ + 1))
    assert [value for _, value in seen] == model.history_[3::3].tolist()


def test_a_callback_may_stop_after_the_first_round(many_features):
    X, T = many_features
    model = MDaML(2, callback=lambda *_: True, random_state=0).fit(X, triplets=T)
    assert model.n_iter_ == 1


@pytest.mark.parametrize(
    ("times_lower", "after_a_round", "multiple", "taken"),
    [
        (2, None, 1.0, False),
        (8, (0.01, 0.01), 0.1, False),  # a wide start that one round makes good
        (8, (0.5, 0.01), 0.1, True),
        (11, None, 0.1, True),
        (2, None, 11.0, True),  # too narrow for any margin
    ],
)
def test_the_multiple_is_taken_where_it_is_far_better_or_better_after_a_round(
    random_problem, local_problem, monkeypatch, times_lower, after_a_round, multiple, taken
):
    alternation = local_problem(random_problem(5)).alternation
    start = replace(local_problem(random_problem(5)).start(), value=5.0)
    other = replace(start, value=5.0 / times_lower)
    reached = dict(zip((start.value, other.value), after_a_round or (), strict=False))

    class Rounds(Alternation):
        def move_centers(self, state):
            return state

        move_weights = move_centers

        def move_metric(self, state):
            return replace(state, value=reached[state.value])

    monkeypatch.setattr(start_module, "rescaled", lambda *_: (multiple, other))
    found = better_start(Rounds(*vars(alternation).values()), start)
    assert found is (other if taken else start)


# Other starts


def test_a_whitened_start_is_the_ridged_inverse_covariance_at_the_distances_of_the_samples():
    X = np.random.default_rng(0).normal(size=(80, 5)) @ np.diag([3.0, 2.0, 1.0, 0.5, 0.1])
    covariance = np.cov(X.T, bias=True)
    F = whitening_factor(covariance)
    inverse = np.linalg.inv(covariance + 0.1 * np.trace(covariance) / 5 * np.eye(5))
    M = F @ F.T
    np.testing.assert_allclose(M / np.trace(M), inverse / np.trace(inverse), atol=1e-12)
    assert np.trace(covariance @ M) == pytest.approx(np.trace(covariance), rel=1e-12)
    np.testing.assert_array_equal(whitening_factor(np.zeros((3, 3))), np.eye(3))


def spec(**options):
    return Spec(1, eta=3.0, triplet_weight=1.0, ridge=0.0, **options)


def test_of_low_rank_it_is_the_principal_axes_with_squared_distances_of_ten_margins(store):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 30)) * np.linspace(3, 1, 30)
    made, axes = store.of(X), np.linalg.svd(X - X.mean(axis=0))[2][:4]
    plain, whitened = (
        start_metric(spec(rank=4, metric=metric), made, np.random.RandomState(0))[1]
        for metric in (None, "whitened")
    )
    for F in (plain, whitened):
        cosines = np.linalg.svd(axes @ np.linalg.qr(F)[0], compute_uv=False)
        np.testing.assert_allclose(cosines, 1, atol=1e-6)
        Y = X @ F
        assert 2 * Y.var(axis=0).sum() == pytest.approx(10, rel=1e-3)  # the mean over all pairs
    np.testing.assert_allclose(np.linalg.norm(plain, axis=0), np.linalg.norm(plain[:, 0]))
    ratios = [np.ptp(np.log(np.var(X @ F, axis=0))) for F in (plain, whitened)]
    assert ratios[1] < 0.1 * ratios[0]
    own = low_rank_part(np.eye(30), made, 4, np.random.RandomState(0))
    assert 2 * np.var(X @ own, axis=0).sum() == pytest.approx(2 * X.var(axis=0).sum(), rel=1e-3)
    own *= np.linalg.norm(plain) / np.linalg.norm(own)
    np.testing.assert_allclose(own @ own.T, plain @ plain.T, atol=1e-8)


def test_of_low_rank_a_matrix_keeps_what_it_sees(store):
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(50, 6)), rng.normal(size=(6, 2))
    M = A @ A.T + 1e-8 * np.eye(6)
    _, F = start_metric(spec(rank=2, metric=M), store.of(X), np.random.RandomState(0))
    np.testing.assert_allclose(F @ F.T, A @ A.T, rtol=0, atol=1e-5)


def test_of_full_rank_a_matrix_is_the_start():
    root = np.random.default_rng(0).normal(size=(3, 3))
    M = np.eye(3) + root @ root.T
    _, F = start_metric(spec(metric=M), None, None)
    np.testing.assert_allclose(F @ F.T, M, rtol=1e-12)


def test_many_samples_lend_some_rows_to_the_axes(store, monkeypatch):
    monkeypatch.setattr("mdaml.stores.mixture.MAX_ROWS_FOR_START", 2000)
    X = np.random.default_rng(0).normal(size=(3000, 3)) * [5, 2, 1]
    _, variances, level = store.of(X).leading_axes(2, np.random.RandomState(0))
    np.testing.assert_allclose(variances, [25, 4], rtol=0.1)
    assert level == pytest.approx(10, rel=0.1)

"""The first metric: the identity, a multiple of it where that is far better, or leading axes."""

from dataclasses import replace

import numpy as np
import oracles
import pytest
from suite.models import make_mdaml
from suite.specs import make_spec

from mdaml import MDaML
from mdaml.constraints import Constraints, sample_triplets
from mdaml.datasets import make_multimodal, make_triplets
from mdaml.solver import start as start_module
from mdaml.solver.alternation import Alternation
from mdaml.solver.run import Problem
from mdaml.solver.start import (
    ANCHOR_SQ_DIST,
    BETTER,
    NARROWEST,
    WIDER,
    better_start,
    low_rank_part,
    rescaled,
    start_metric,
    whitening_factor,
)
from mdaml.stores.memory import MemoryStore


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
    with pytest.warns(UserWarning, match="the best metric is zero|hardly anything to learn"):
        model = make_mdaml("eq. 7", 1, max_iter=1, max_inner_iter=1).fit(X, triplets=both)
    assert np.trace(model.get_mahalanobis_matrix()) > 0.01


def test_with_many_features_the_start_is_a_multiple_of_the_identity(many_features):
    X, T = many_features
    auto, plain = (
        make_mdaml("eq. 7", 1, init_metric=start).fit(X, triplets=T[:800])
        for start in ("auto", "identity")
    )
    assert auto.history_[0] * BETTER < plain.history_[0]
    assert auto.history_[-1] * BETTER < plain.history_[-1]
    assert auto.score_triplets(X, T[800:]) > plain.score_triplets(X, T[800:]) + 0.02


def test_an_anchored_fit_starts_at_a_multiple_of_the_identity_that_suits_the_margin(many_features):
    X, T = many_features
    models = [MDaML(init_metric=start).fit(X, triplets=T[:800]) for start in ("auto", "identity")]
    np.testing.assert_array_equal(models[0].history_, models[1].history_)
    plain = make_mdaml("eq. 7", 1).fit(X, triplets=T[:800])
    assert models[0].score_triplets(X, T[800:]) > plain.score_triplets(X, T[800:])


@pytest.mark.parametrize(
    ("row", "supervision"),
    [("labels", "labels"), ("comparisons", "triplets"), ("eq. 7", "labels"), ("eq. 7", "triplets")],
)
def test_with_few_features_the_start_is_the_identity(supervision, row):
    X, y, triplets = multimodal()
    given = {"y": y} if supervision == "labels" else {"triplets": triplets}
    auto, plain = (
        make_mdaml(row, init_metric=start, random_state=0).fit(X, **given)
        for start in ("auto", "identity")
    )
    np.testing.assert_array_equal(auto.history_, plain.history_)
    np.testing.assert_array_equal(auto.components_, plain.components_)


@pytest.mark.parametrize("row", ["comparisons", "eq. 7"])
def test_units_of_the_features_matter_little(row):
    X, _, T = multimodal()
    small, usual, large = (
        make_mdaml(row, ridge=0.0, random_state=0)
        .fit(unit * X, triplets=T)
        .score_triplets(unit * X, T)
        for unit in (1e-4, 1.0, 1e3)
    )
    assert min(small, large) > usual - 0.03


def test_history_and_callback_are_those_of_the_start_that_was_chosen(many_features):
    X, T = many_features
    seen = []
    model = make_mdaml(
        "eq. 7", 2, callback=lambda n, value: seen.append((n, value)), random_state=0
    )
    model.fit(X, triplets=T)
    assert len(model.history_) == 1 + 3 * model.n_iter_
    assert np.all(np.diff(model.history_) <= 0)
    assert [n for n, _ in seen] == list(range(1, model.n_iter_ + 1))
    assert [value for _, value in seen] == model.history_[3::3].tolist()


def test_a_callback_may_stop_after_the_first_round(many_features):
    X, T = many_features
    model = make_mdaml("eq. 7", 2, callback=lambda *_: True, random_state=0).fit(X, triplets=T)
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
    rounds, wanted = Rounds(*vars(alternation).values()), other if taken else start
    found = better_start(rounds, start)
    if after_a_round is None:
        assert found is wanted
    else:
        assert found.history == [wanted.value] * 3 + [reached[wanted.value]]
    monkeypatch.setattr(start_module, "_FEW_SAMPLES", 0)
    assert better_start(rounds, start) is wanted


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
    return make_spec(1, eta=3.0, triplet_weight=1.0, ridge=0.0, **options)


def test_of_low_rank_it_is_the_principal_axes_with_squared_distances_of_ten_margins(store):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 30)) * np.linspace(3, 1, 30)
    made, axes = store.of(X), np.linalg.svd(X - X.mean(axis=0))[2][:4]
    plain, whitened = (
        start_metric(spec(rank=4, metric=metric), made, np.random.RandomState(0)).F
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
    F = start_metric(spec(rank=2, metric=M), store.of(X), np.random.RandomState(0)).F
    np.testing.assert_allclose(F @ F.T, A @ A.T, rtol=0, atol=1e-5)


def test_of_full_rank_a_matrix_is_the_start():
    rng = np.random.default_rng(0)
    X, root = rng.normal(size=(20, 3)), rng.normal(size=(3, 3))
    M = np.eye(3) + root @ root.T
    for anchor in (0.0, 0.1):
        start = start_metric(spec(metric=M, anchor=anchor), MemoryStore.of(X), None)
        np.testing.assert_allclose(start.F @ start.F.T, M, rtol=1e-12)


def test_many_samples_lend_some_rows_to_the_axes(store, monkeypatch):
    monkeypatch.setattr("mdaml.stores.mixture.MAX_ROWS_FOR_START", 2000)
    X = np.random.default_rng(0).normal(size=(3000, 3)) * [5, 2, 1]
    _, variances, level = store.of(X).leading_axes(2, np.random.RandomState(0))
    np.testing.assert_allclose(variances, [25, 4], rtol=0.1)
    assert level == pytest.approx(10, rel=0.1)


# The anchor

hardly_learned = pytest.mark.filterwarnings("ignore:The learned distance agrees:UserWarning")


def mean_sq_dist(X, M):
    """The mean squared distance over all pairs, a sample with itself among them."""
    return 2 * np.trace(np.cov(X.T, bias=True) @ M)


METRICS = {"identity": None, "whitened": "whitened", "matrix": np.diag([1.0, 2.0, 4.0, 0.5])}


@pytest.mark.parametrize("metric", METRICS)
def test_the_anchor_is_a_multiple_of_the_start_whose_distances_suit_the_margin(store, metric):
    X = np.random.default_rng(0).normal(size=(60, 4)) @ np.diag([3.0, 1.0, 0.5, 2.0]) + 7.0
    given = spec(metric=METRICS[metric], anchor=0.2)
    start = start_metric(given, store.of(X), np.random.RandomState(0))
    A = np.linalg.inv(start.anchor.times(np.eye(4)))
    M = start.F @ start.F.T
    np.testing.assert_allclose(A / np.trace(A), M / np.trace(M), atol=1e-12)
    assert mean_sq_dist(X, A) == pytest.approx(ANCHOR_SQ_DIST, rel=1e-10)
    assert start.anchor.strength == pytest.approx(0.2 * given.triplet_weight / 4)
    if metric != "matrix":
        np.testing.assert_allclose(M, WIDER * A, rtol=1e-10, atol=1e-14)


def test_of_low_rank_the_anchor_is_that_of_full_rank(store):
    X = np.random.default_rng(0).normal(size=(60, 4)) @ np.diag([3.0, 1.0, 0.5, 2.0]) + 7.0
    low, full = (
        start_metric(spec(anchor=0.2, rank=rank), store.of(X), np.random.RandomState(0)).anchor
        for rank in (2, None)
    )
    assert low.strength == full.strength
    np.testing.assert_allclose(low.precision, full.precision, rtol=1e-6)


def test_the_strength_of_the_anchor_is_one_mean_loss_for_each_feature_and_mode(store):
    X = np.random.default_rng(0).normal(size=(30, 4))
    strengths = [
        start_metric(each, store.of(X), np.random.RandomState(0)).anchor.strength
        for each in (
            spec(anchor=0.3),
            replace(spec(anchor=0.3), triplet_weight=7.0),
            replace(spec(anchor=0.3), n_modes=3),
        )
    ]
    np.testing.assert_allclose(strengths, [0.3 / 4, 7 * 0.3 / 4, 0.1 / 4])


def test_samples_that_are_all_alike_leave_the_anchor_at_the_identity(store, rank):
    given = spec(anchor=0.1, rank=rank)
    start = start_metric(given, store.of(np.ones((8, 4))), np.random.RandomState(0))
    np.testing.assert_allclose(start.anchor.precision, 1.0)
    inside = start.F.T @ start.anchor.times(start.F)
    assert np.isfinite(start.anchor.value(inside))


def test_with_more_columns_than_the_data_have_dimensions_an_anchored_start_has_full_rank(store):
    X = np.zeros((30, 8))
    X[:, :2] = np.random.default_rng(0).normal(size=(30, 2))
    plain, anchored = (
        start_metric(spec(rank=5, anchor=anchor), store.of(X), np.random.RandomState(0)).F
        for anchor in (0.0, 0.1)
    )
    lengths = np.linalg.svd(anchored, compute_uv=False)
    assert lengths[-1] > 1e-4 * lengths[0]
    np.testing.assert_allclose(
        X @ anchored @ anchored.T @ X.T, X @ plain @ plain.T @ X.T, atol=1e-4
    )


@hardly_learned
def test_a_very_strong_anchor_returns_a_multiple_of_the_start(many_features):
    X, T = many_features[0][:, :6], many_features[1]
    for start in (None, np.diag([1.0, 2.0, 3.0, 1.0, 1.0, 1.0])):
        given = "identity" if start is None else start
        model = MDaML(anchor=1e9, init_metric=given).fit(X, triplets=T)
        M = model.get_mahalanobis_matrix()
        wanted = np.eye(6) if start is None else start
        np.testing.assert_allclose(M / np.trace(M), wanted / np.trace(wanted), atol=1e-6)
        assert mean_sq_dist(X, M) == pytest.approx(ANCHOR_SQ_DIST, rel=1e-5)


@hardly_learned
def test_of_low_rank_a_very_strong_anchor_leaves_the_metric_of_the_anchor_in_a_subspace(
    many_features,
):
    X, T = many_features[0][:, :6], many_features[1]
    multiple = ANCHOR_SQ_DIST / mean_sq_dist(X, np.eye(6))
    model = MDaML(anchor=1e9, n_components=2, max_iter=20).fit(X, triplets=T)
    lengths = np.linalg.norm(model.components_, axis=1)
    np.testing.assert_allclose(lengths**2, multiple, rtol=1e-3)


@hardly_learned
def test_an_anchor_of_zero_is_eq_7_to_the_last_bit(many_features, rank):
    X, T = many_features[0][:, :6], many_features[1]
    supervision = Constraints.of_triplets(T, len(X))
    eq_7 = make_spec(2, 3.0, 2400.0, 1e-4, rank, scale_metric=rank is None)
    fit = Problem(eq_7, supervision).solve(MemoryStore.of(X), np.random.RandomState(0))
    options = {"n_components": rank, "random_state": 0}
    model = make_mdaml("eq. 7", 2, **options).fit(X, triplets=T)
    assert fit.F.shape == model.components_.T.shape
    np.testing.assert_array_equal(fit.history, model.history_)
    np.testing.assert_array_equal(fit.weights, model.weights_)
    same = make_mdaml(
        "neighbors", 2, anchor=0.0, floor=0.0, eta=3.0, triplet_weight=2400.0, **options
    ).fit(X, triplets=T)
    np.testing.assert_array_equal(same.components_, model.components_)

"""Metrics of low rank, learned as a factor of shape (d, r)."""

import tracemalloc
from dataclasses import replace

import literal
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from mdaml import Euclidean, MDaML, MDaMLCV, kernels
from mdaml.alternation import alternate
from mdaml.constraints import ComparisonSet, sample_triplets
from mdaml.datasets import make_multimodal
from mdaml.low_rank import (
    LeadingAxes,
    LowRankProblem,
    PairGraph,
    factor_conjugate_gradient,
    low_rank_part,
)
from mdaml.modes import Neighbors
from mdaml.optimize import Status, conjugate_gradient

# Few rounds are enough to see what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def low_rank(local, grouped=None):
    """The problem of a :class:`conftest.Local` with metrics of low rank, and its modes."""
    full = local.problem
    triplets = full.triplets if grouped is None else grouped
    problem = LowRankProblem(
        X=full.X,
        triplets=triplets,
        neighbors=Neighbors.from_graph(triplets.near_graph()),
        eta=full.eta,
        triplet_weight=full.triplet_weight,
        ridge=full.ridge,
        max_inner_iter=full.max_inner_iter,
        leading=LeadingAxes.of(full.X, 32, np.random.RandomState(0)),
    )
    return problem, local.modes


def objective_of(problem, modes, rank):
    return problem.factor_objective(problem.start(problem.leading.start(rank), modes))


def factor(seed, n_features=4, rank=2):
    return 0.7 * np.random.default_rng(seed).normal(size=(n_features, rank))


def random_comparisons(seed, n_samples=20, n=60):
    """Near pair, far pair and weights; some have a common sample, some come twice."""
    rng = np.random.default_rng(seed)
    rows = np.array([rng.choice(n_samples, 4, replace=False) for _ in range(n)])
    rows[::3, 2] = rows[::3, 0]
    rows = np.concatenate([rows, rows[:5]])
    return rows, rng.uniform(0.2, 3.0, len(rows))


def planted(n_samples, n_features, n_triplets, rank=2, seed=0):
    """Samples, a metric of low rank in some hidden subspace, and comparisons that it makes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    hidden = np.linalg.qr(rng.normal(size=(n_features, rank)))[0]
    Y = X @ hidden
    t = np.array([rng.choice(n_samples, 3, replace=False) for _ in range(n_triplets)])
    near, far = (np.sum((Y[t[:, 0]] - Y[t[:, other]]) ** 2, axis=1) for other in (1, 2))
    t[near > far] = t[near > far][:, [0, 2, 1]]
    return X, hidden, t


# The objective


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_are_those_of_the_loops(random_problem, local_problem, seed, rank):
    given, F = random_problem(seed), factor(seed, rank=rank)
    objective = objective_of(*low_rank(local_problem(given)), rank)
    point = objective.at(F)
    assert point.value == pytest.approx(given.value(F @ F.T), rel=1e-11)
    expected = 2 * given.gradient(F @ F.T) @ F
    np.testing.assert_allclose(objective.gradient(point), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_any_comparisons_with_weights_will_do(random_problem, local_problem, seed):
    given, F = random_problem(seed), factor(seed)
    comparisons, v = random_comparisons(seed)
    grouped = ComparisonSet.from_comparisons(comparisons, v, len(given.X))
    objective = objective_of(*low_rank(local_problem(given), grouped), 2)
    args = F @ F.T, given.centers, given.weights, given.X, comparisons, v
    point = objective.at(F)
    assert point.value == pytest.approx(
        literal.comparison_objective(*args, **given.options), rel=1e-11
    )
    expected = 2 * literal.comparison_gradient(*args, **given.options) @ F
    np.testing.assert_allclose(objective.gradient(point), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_gradient_is_that_of_finite_differences(random_problem, local_problem, seed):
    objective = objective_of(*low_rank(local_problem(random_problem(seed))), 2)
    F, h = factor(seed), 1e-5
    gradient = objective.gradient(objective.at(F))
    for i, j in np.ndindex(F.shape):
        step = np.zeros_like(F)
        step[i, j] = h
        rise = objective.at(F + step).value - objective.at(F - step).value
        assert gradient[i, j] == pytest.approx(rise / (2 * h), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("step", [0.0, 1e-3, 0.5, 3.0, -1.0])
def test_path_is_exact_at_every_step(random_problem, local_problem, step):
    objective = objective_of(*low_rank(local_problem(random_problem(1))), 2)
    F, D = factor(1), factor(2)
    path = objective.along(objective.at(F), D)
    along, fresh = path.at(step), objective.at(F + step * D)
    assert along.value == pytest.approx(fresh.value, rel=1e-12)
    np.testing.assert_allclose(
        objective.gradient(along), objective.gradient(fresh), rtol=1e-9, atol=1e-9
    )
    slope = np.vdot(objective.gradient(fresh), D)
    assert path.slope(along) == pytest.approx(slope, rel=1e-10, abs=1e-10)


def test_a_turn_of_the_factor_changes_nothing(random_problem, local_problem):
    objective = objective_of(*low_rank(local_problem(random_problem(0))), 2)
    F, Q = factor(0), np.linalg.qr(factor(5, 2, 2))[0]
    assert objective.at(F @ Q).value == pytest.approx(objective.at(F).value, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n_pairs=st.integers(1, 40))
def test_laplacian_is_the_sum_over_pairs(seed, n_pairs):
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(9, 2, replace=False) for _ in range(n_pairs)], np.int32)
    Y, weights = rng.normal(size=(9, 3)), rng.normal(size=n_pairs)
    expected = np.zeros_like(Y)
    for (i, j), weight in zip(pairs, weights, strict=True):
        expected[i] += weight * (Y[i] - Y[j])
        expected[j] += weight * (Y[j] - Y[i])
    got = PairGraph.from_pairs(pairs, 9).laplacian_times(Y, weights)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_slopes_of_comparisons_are_those_of_triplets(random_problem, local_problem):
    given = random_problem(0)
    triplets = local_problem(given).problem.triplets
    grouped = ComparisonSet.from_comparisons(given.triplets[:, [0, 1, 0, 2]], None, 20)
    Y = given.X @ factor(0)
    sums = np.zeros((2, 20, 20))
    losses = []
    for total, kind in zip(sums, (triplets, grouped), strict=True):
        loss, slopes = kind.slopes(Y, np.ones(len(kind.pairs)))
        losses.append(loss)
        np.add.at(total, tuple(np.sort(kind.pairs, axis=1).T), slopes)
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)
    np.testing.assert_allclose(sums[1], sums[0], rtol=1e-10, atol=1e-10)


# The solver


@st.composite
def problems(draw):
    return {
        "seed": draw(st.integers(0, 2**32 - 1)),
        "n_samples": draw(st.integers(4, 30)),
        "n_features": draw(st.integers(2, 8)),
        "n_modes": draw(st.integers(1, 4)),
        "n_triplets": draw(st.sampled_from([1, 2, 20, 60])),
        "eta": draw(st.floats(1.05, 8.0)),
        "triplet_weight": 10.0 ** draw(st.floats(-3, 6)),
        "ridge": draw(st.just(0.0) | st.floats(-6, 0).map(lambda power: 10.0**power)),
        "dtype": draw(st.sampled_from([np.float64, np.float32])),
    }


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sizes=problems(), rank=st.integers(1, 8), spoil=st.sampled_from(["", "copies", "scales"]))
def test_objective_never_rises_and_is_that_of_the_paper(
    random_problem, local_problem, sizes, rank, spoil
):
    given = random_problem(**sizes)
    X = given.X.copy()
    if spoil == "copies":
        X[: len(X) // 2] = X[0]
    if spoil == "scales":
        X *= np.logspace(-3, 1, X.shape[1], dtype=X.dtype)
    problem, modes = low_rank(local_problem(replace(given, X=X - X.mean(axis=0))))
    rank = min(rank, X.shape[1])
    outcome = alternate(
        problem, problem.start(problem.leading.start(rank), modes), max_iter=3, tol=0.0
    )
    state, history = outcome.state, np.array(outcome.history)
    assert np.all(history[1:] <= history[:-1])
    assert np.all(np.isfinite(history))
    assert state.F.shape == (X.shape[1], rank)
    assert np.all(np.isfinite(state.F))
    last = replace(
        given, X=problem.X, centers=state.modes.centers, weights=state.modes.weights
    ).astype(np.float64)
    M, single = state.F @ state.F.T, sizes["dtype"] is np.float32
    rounding = np.finfo(sizes["dtype"]).eps * (
        history[0] + np.linalg.norm(M) * np.vdot(problem.X, problem.X) / len(X)
    )
    assert history[-1] == pytest.approx(last.value(M), rel=1e-4 if single else 1e-10, abs=rounding)


@pytest.mark.parametrize("n_modes", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_of_full_rank_it_finds_the_optimum_of_the_other_solver(
    random_problem, local_problem, seed, n_modes
):
    given = random_problem(
        seed, n_samples=40, n_features=6, n_modes=n_modes, n_triplets=200, triplet_weight=1e3
    )
    local = local_problem(given)
    problem, modes = low_rank(local)
    full = conjugate_gradient(local.objective(), np.eye(6), max_iter=400, ftol=1e-9)
    objective = objective_of(problem, modes, 6)
    start = problem.leading.start(6)
    found = factor_conjugate_gradient(objective, start, problem.leading, max_iter=400, ftol=1e-9)
    assert found.value == pytest.approx(full.value, rel=1e-3)
    assert found.value == pytest.approx(given.value(found.F @ found.F.T), rel=1e-9)
    assert np.all(np.diff(found.history) < 0)


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_it_ends_below_the_leading_directions_of_the_full_metric(
    random_problem, local_problem, seed, rank
):
    given = random_problem(
        seed, n_samples=60, n_features=8, n_modes=1, n_triplets=300, triplet_weight=1e3
    )
    local = local_problem(given)
    full = conjugate_gradient(local.objective(), np.eye(8), max_iter=100)
    axes, lengths, _ = np.linalg.svd(full.F)
    problem, modes = low_rank(local)
    objective = objective_of(problem, modes, rank)
    truncated = objective.at(axes[:, :rank] * lengths[:rank]).value
    start = problem.leading.start(rank)
    found = factor_conjugate_gradient(objective, start, problem.leading, max_iter=100)
    assert found.value < truncated


def test_solver_says_why_it_stopped(random_problem, local_problem):
    problem, modes = low_rank(local_problem(random_problem(0)))
    objective, F = objective_of(problem, modes, 2), problem.leading.start(2)
    few = factor_conjugate_gradient(objective, F, problem.leading, max_iter=3)
    assert (few.status, few.n_iter, len(few.history)) == (Status.MAX_ITER, 3, 4)
    many = factor_conjugate_gradient(objective, F, problem.leading, max_iter=1000)
    assert many.status in (Status.STALLED, Status.CONVERGED)
    nowhere = factor_conjugate_gradient(objective, np.zeros((4, 2)), problem.leading)
    assert (nowhere.status, nowhere.n_iter) == (Status.CONVERGED, 0)


def test_preconditioner_is_a_damped_inverse_covariance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)) * [9, 5, 3, 1, 1, 1]
    X -= X.mean(axis=0)
    leading = LeadingAxes.of(X, 32, np.random.RandomState(0))
    covariance = X.T @ X / 50
    damped = covariance + 0.3 * np.trace(covariance) / 6 * np.eye(6)
    G = rng.normal(size=(6, 2))
    got, expected = leading.precondition(G), np.linalg.solve(damped, G)
    np.testing.assert_allclose(got / np.linalg.norm(got), expected / np.linalg.norm(expected))
    constant = LeadingAxes.of(np.zeros((5, 3)), 32, np.random.RandomState(0))
    np.testing.assert_array_equal(constant.precondition(G[:3]), G[:3])


# The start


def test_start_is_the_principal_axes_with_squared_distances_of_ten_margins():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 30)) * np.linspace(3, 1, 30)
    X -= X.mean(axis=0)
    leading = LeadingAxes.of(X, 32, np.random.RandomState(0))
    plain, whitened = leading.start(4), leading.start(4, whitened=True)
    axes = np.linalg.svd(X)[2][:4]
    for F in (plain, whitened):
        cosines = np.linalg.svd(axes @ np.linalg.qr(F)[0], compute_uv=False)
        np.testing.assert_allclose(cosines, 1, atol=1e-6)
        Y = X @ F
        mean = np.mean([np.sum((a - b) ** 2) for a in Y for b in Y])
        assert mean == pytest.approx(10, rel=1e-3)
    np.testing.assert_allclose(np.linalg.norm(plain, axis=0), np.linalg.norm(plain[:, 0]))
    ratios = [np.ptp(np.log(np.var(X @ F, axis=0))) for F in (plain, whitened)]
    assert ratios[1] < 0.1 * ratios[0]
    own = low_rank_part(np.eye(30), X, 4, np.random.RandomState(0))
    assert np.vdot(X @ own, X @ own) == pytest.approx(np.vdot(X, X), rel=1e-3)
    own *= np.linalg.norm(plain) / np.linalg.norm(own)
    np.testing.assert_allclose(own @ own.T, plain @ plain.T, atol=1e-8)


def test_start_from_a_matrix_keeps_what_it_sees():
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(50, 6)), rng.normal(size=(6, 2))
    X -= X.mean(axis=0)
    M = A @ A.T + 1e-8 * np.eye(6)
    F = low_rank_part(M, X, 2, np.random.RandomState(0))
    np.testing.assert_allclose(F @ F.T, A @ A.T, rtol=0, atol=1e-5)


def test_many_samples_lend_some_rows_to_the_start():
    X = np.random.default_rng(0).normal(size=(30_000, 3)) * [5, 2, 1]
    leading = LeadingAxes.of(X - X.mean(axis=0), 2, np.random.RandomState(0))
    np.testing.assert_allclose(leading.variances, [25, 4], rtol=0.05)
    assert leading.level == pytest.approx(10, rel=0.05)


# The critical weight


def test_critical_weight_is_that_of_the_mapped_samples(random_problem, local_problem):
    given = random_problem(0)
    local = local_problem(given)
    problem, modes = low_rank(local)
    full = local.problem.critical_triplet_weight(local.start())
    square = problem.critical_triplet_weight(problem.start(factor(0, rank=4), modes))
    assert square == pytest.approx(full, rel=1e-9)
    F = factor(0)
    narrow = problem.critical_triplet_weight(problem.start(F, modes))
    expected = literal.critical_triplet_weight(
        given.centers @ F, given.weights, given.X @ F, given.triplets, eta=given.eta
    )
    assert narrow == pytest.approx(expected, rel=1e-9)
    assert narrow > full


# The estimator


@pytest.mark.filterwarnings("ignore:The weighted mean loss:UserWarning")
@pytest.mark.filterwarnings("ignore:triplet_weight=.* is below lambda1_critical_:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([MDaML(n_components=1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def eq_7(model, X):
    comparisons, v = model.comparisons_, model.comparison_weights_
    if comparisons is None:
        comparisons = model.triplets_[:, [0, 1, 0, 2]]
    return literal.comparison_objective(
        model.get_mahalanobis_matrix().astype(float),
        model.centers_.astype(float),
        model.weights_.astype(float),
        np.asarray(X, float),
        comparisons,
        np.ones(len(comparisons)) if v is None else v,
        eta=model.eta,
        triplet_weight=model.triplet_weight_,
        ridge=model.ridge,
    )


def some_supervision(form):
    rng = np.random.default_rng(3)
    y = np.arange(60) % 3
    pairs = np.array([rng.choice(60, 2, replace=False) for _ in range(60)])
    quadruplets = random_comparisons(0, n_samples=60)[0]
    return {
        "labels": {"y": y},
        "triplets": {"triplets": sample_triplets(y, 2, 2, random_state=0)},
        "pairs": {"pairs": pairs, "pair_labels": 2 * (y[pairs[:, 0]] == y[pairs[:, 1]]) - 1},
        "weighted quadruplets": {
            "quadruplets": quadruplets,
            "constraint_weight": rng.uniform(0.5, 2.0, len(quadruplets)),
        },
    }[form]


@pytest.mark.filterwarnings("ignore:The weighted mean loss:UserWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", ["labels", "triplets", "pairs", "weighted quadruplets"])
def test_last_objective_is_eq_7_of_the_fitted_attributes(form, dtype):
    X = np.random.default_rng(0).normal(size=(60, 8)) + 2 * (np.arange(60) % 3)[:, None] + 50
    X = X.astype(dtype)
    model = MDaML(3, n_components=3, random_state=0).fit(X, **some_supervision(form))
    rel = 1e-10 if dtype is np.float64 else 1e-3
    assert model.history_[-1] == pytest.approx(eq_7(model, X), rel=rel)
    for one_pass in np.split(model.history_, model.pass_starts_[1:]):
        assert np.all(np.diff(one_pass) <= 0)
    assert model.components_.dtype == dtype
    assert model.components_.shape == (3, 8)
    lengths = np.linalg.norm(model.components_, axis=1)
    assert np.all(np.diff(lengths) <= 0)
    largest = np.abs(model.components_).argmax(axis=1)
    assert np.all(model.components_[np.arange(3), largest] > 0)


@pytest.fixture(scope="module")
def toy():
    X, y = make_multimodal(200, random_state=0)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=(200, 3))])
    return X / X.std(axis=0), y


def test_as_many_components_as_features_are_full_rank(toy):
    X, y = toy
    every = MDaML(3, n_components=X.shape[1], random_state=0).fit(X, y)
    np.testing.assert_array_equal(every.components_, MDaML(3, random_state=0).fit(X, y).components_)


def test_same_seed_same_metric_whatever_the_threads(toy, use_threads):
    maps = []
    for n in (1, 2, 3):
        use_threads(n)
        maps.append(MDaML(3, n_components=2, random_state=0).fit(*toy).components_)
    np.testing.assert_array_equal(maps[1], maps[0])
    np.testing.assert_array_equal(maps[2], maps[0])


def test_fit_begins_where_it_is_told_to(toy):
    X, y = toy
    triplets = sample_triplets(y, 3, 3, random_state=0)
    M = np.diag([1.0] * 2 + [1e-6] * (X.shape[1] - 2))
    plain = np.eye(X.shape[1]) * 10 / (2 * X.var(axis=0).sum())
    starts = [
        MDaML(1, n_components=2, init_metric=start, max_iter=1, random_state=0)
        .fit(X, triplets=triplets)
        .history_[0]
        for start in ("identity", "whitened", plain, M)
    ]
    assert starts[0] == pytest.approx(starts[2], rel=1e-6)
    assert len({round(value, 6) for value in starts}) == 3


def test_more_components_than_samples_leave_some_at_zero():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 40)), np.arange(12) % 2
    X[:, :3] += 2 * y[:, None]
    model = MDaML(1, n_components=20, random_state=0).fit(X, y)
    assert model.components_.shape == (20, 40)
    lengths = np.linalg.norm(model.components_, axis=1)
    assert lengths[0] > 1e-3
    np.testing.assert_allclose(lengths[12:], 0, atol=1e-12)
    assert model.history_[-1] == pytest.approx(eq_7(model, X), rel=1e-9)


@pytest.mark.filterwarnings("ignore:The weighted mean loss:UserWarning")
@pytest.mark.filterwarnings("ignore:triplet_weight=.* is below lambda1_critical_:UserWarning")
def test_samples_that_are_all_alike_are_no_error():
    model = MDaML(1, n_components=2, random_state=0).fit(np.ones((8, 5)), np.arange(8) % 2)
    assert np.all(np.isfinite(model.components_))


def test_cross_validation_hands_the_rank_on(toy):
    X, y = toy
    model = MDaMLCV(n_components=2, random_state=0).fit(X, y)
    assert model.components_.shape == (2, X.shape[1])
    assert model.best_estimator_.n_components == 2
    np.testing.assert_array_equal(model.components_, model.best_estimator_.components_)


def test_planted_metric_of_rank_two_is_found_among_two_hundred_features():
    X, hidden, triplets = planted(600, 200, 12_000)
    model = MDaML(1, n_components=2, max_iter=20, random_state=0).fit(X, triplets=triplets[:10_000])
    cosines = np.linalg.svd(hidden.T @ np.linalg.qr(model.components_.T)[0], compute_uv=False)
    assert cosines.min() > 0.98
    unseen = triplets[10_000:]
    assert model.score_triplets(X, unseen) > 0.95
    assert Euclidean().fit(X).score_triplets(X, unseen) < 0.6


def test_no_array_of_features_by_features():
    n, d = 300, 3000
    X, _, triplets = planted(n, d, 500)
    options = {"n_components": 8, "max_iter": 2, "random_state": 0}
    MDaML(2, **options).fit(X[:, :10], triplets=triplets)  # compiles
    tracemalloc.start()
    model = MDaML(2, **options).fit(X, triplets=triplets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.components_.shape == (8, d)
    assert peak < 5 * X.nbytes < 0.51 * 8 * d * d  # copies of X, which are small here


def test_kernels_agree_on_slopes_and_gradient():
    rng = np.random.default_rng(0)
    comparisons, v = random_comparisons(0)
    grouped = ComparisonSet.from_comparisons(comparisons, v, 20)
    Y, weights = rng.normal(size=(20, 3)), rng.uniform(size=len(grouped.pairs))
    loss, slopes = grouped.slopes(Y, weights)
    expected, product = grouped.gradient(Y, np.ones(3), weights)
    assert loss == expected
    half = kernels.laplacian_product(Y, grouped.pairs, grouped.groups, slopes)
    np.testing.assert_array_equal(product, half)

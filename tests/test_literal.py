"""The oracles against the worked example of the methods notes, and against each other."""

import importlib.util
from pathlib import Path

import literal
import numpy as np
import oracles
import pytest

X8 = np.array(
    [[0.0, 0.0], [0.5, 1.2], [1.1, 0.2], [0.3, 2.1], [2.0, 0.6], [2.7, 1.7], [3.4, 0.1], [2.2, 3.2]]
)
FIRST = np.array([0.9, 0.7, 0.8, 0.6, 0.3, 0.2, 0.1, 0.4])
W8 = np.column_stack([FIRST, 1 - FIRST])
T8 = np.array(
    [
        (0, 2, 4),
        (0, 1, 5),
        (1, 3, 4),
        (2, 0, 4),
        (3, 1, 7),
        (4, 5, 2),
        (5, 7, 1),
        (6, 4, 2),
        (7, 5, 3),
        (7, 6, 3),
    ]
)
I2 = np.eye(2)
C8 = literal.update_centers(X8, W8, 3)
W_STEP = {"eta": 3, "triplet_weight": 10}
ALL = {**W_STEP, "ridge": 1e-3}


def assert_digits(actual, printed, decimals):
    """Every entry rounds to the printed one; the slack is rounding error only."""
    np.testing.assert_allclose(actual, printed, rtol=0, atol=0.5 * 10.0**-decimals + 1e-12)


def upper(M):
    """[m11, m12, m22] of a symmetric 2×2 matrix."""
    assert M[0, 1] == pytest.approx(M[1, 0], abs=1e-15)
    return [M[0, 0], M[0, 1], M[1, 1]]


def random_problem(seed, n=24, d=4, n_modes=3, n_triplets=90):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    triplets = np.array([rng.choice(n, size=3, replace=False) for _ in range(n_triplets)])
    weights = rng.dirichlet(np.ones(n_modes), size=n)
    root = rng.normal(size=(d, d))
    M = np.eye(d) + 0.1 * root @ root.T
    return X, triplets, literal.update_centers(X, weights, 3), weights, M


def sequential_weights():
    return literal.update_weights(I2, C8, W8, X8, T8, **W_STEP)


# The worked example


def test_centers_of_the_example():
    assert_digits(C8, [[0.536474, 0.632789], [2.665105, 1.057211]], 6)


def test_margins_and_losses_of_the_example():
    delta = [literal.margin(I2, X8, t) for t in T8]
    assert_digits(delta, [3.11, 8.49, 1.76, -0.28, 3.97, -0.73, 2.59, 3.09, 2.32, -6.23], 12)
    losses = np.array([literal.smooth_hinge(x) for x in delta])
    assert np.flatnonzero(losses).tolist() == [3, 5, 9]
    assert_digits(losses[losses > 0], [0.78, 1.23, 6.73], 12)


def test_triplet_importances_of_the_example():
    printed = [
        0.373256,
        0.250074,
        0.075816,
        0.373256,
        0.075816,
        0.175832,
        0.111104,
        0.250074,
        0.111104,
        0.157528,
    ]
    assert_digits([literal.importance(W8, t, 3) for t in T8], printed, 6)


def test_objective_terms_of_the_example():
    terms = literal.objective_terms(I2, C8, W8, X8, T8, **ALL)
    assert_digits(terms, [0.324003580, 0.783788240, 0.001], 9)
    assert_digits(literal.objective(I2, C8, W8, X8, T8, **ALL), 1.108791820, 9)


def test_clustering_scatter_of_the_example():
    assert_digits(upper(literal.scatter(C8, W8, X8, eta=3)), [0.110599, -0.027212, 0.213405], 6)


def test_gradient_of_the_example():
    gradient = literal.gradient(I2, C8, W8, X8, T8, **ALL)
    assert_digits(upper(gradient), [-0.012801, -0.474914, 0.945939], 6)


def test_weight_costs_of_the_example():
    F = [literal.weight_costs(i, I2, C8, W8, X8, T8, **W_STEP) for i in range(8)]
    printed = [
        (0.485388, 1.033800),
        (0.040382, 0.588509),
        (0.631729, 0.398826),
        (0.276078, 0.835142),
        (0.277713, 0.711186),
        (0.760683, 0.473689),
        (1.491176, 1.635720),
        (1.176466, 5.507154),
    ]
    assert_digits(F, printed, 6)


def test_simultaneous_weights_of_the_example():
    W = literal.update_weights_simultaneously(I2, C8, W8, X8, T8, **W_STEP)
    printed = [0.593396, 0.792424, 0.442760, 0.634938, 0.615425, 0.441067, 0.511563, 0.683903]
    assert_digits(W[:, 0], printed, 6)
    assert_digits(literal.objective(I2, C8, W, X8, T8, **ALL), 0.683966884, 9)


def test_sequential_weights_of_the_example():
    W = sequential_weights()
    printed = [0.593396, 0.792424, 0.585331, 0.634938, 0.615425, 0.257330, 0.511563, 0.449914]
    assert_digits(W[:, 0], printed, 6)
    assert_digits(W.sum(axis=1), 1, 12)
    assert_digits(literal.objective(I2, C8, W, X8, T8, **ALL), 0.509866500, 9)


@pytest.mark.parametrize("solver", [oracles.pymanopt_m_step, oracles.manopt_cg])
@pytest.mark.parametrize(
    ("n_iterations", "value", "decimals", "M"),
    [
        (1, 0.296387734, 9, [0.677440, 0.080319, 0.538646]),
        (3, 0.118520603, 9, [0.264259, 0.051620, 0.147098]),
        (10, 0.0799566, 7, [0.201600, 0.037518, 0.022679]),
    ],
)
def test_metric_steps_of_the_example(solver, n_iterations, value, decimals, M):
    W = sequential_weights()
    values, reached = solver(X8, T8, C8, W, I2, n_iterations=n_iterations, **ALL)
    assert len(values) == n_iterations + 1
    assert_digits(values[0], 0.509866500, 9)
    assert_digits(values[-1], value, decimals)
    assert_digits(upper(reached), M, 6)


def test_metric_optimum_of_the_example_has_rank_one():
    W = sequential_weights()
    value, M = oracles.projected_fista(X8, T8, C8, W, I2, n_iterations=300, **ALL)
    assert_digits(value, 0.076110145, 9)
    assert_digits(upper(M), [0.195165, 0.032112, 0.005284], 6)
    assert np.linalg.eigvalsh(M)[0] == pytest.approx(0, abs=1e-12)
    assert oracles.optimality_gap(M, X8, T8, C8, W, **ALL) < 1e-12


# The transcription of the paper


@pytest.mark.parametrize(
    ("x", "value", "slope"), [(-2, 2.5, -1), (0, 0.5, -1), (0.5, 0.125, -0.5), (1, 0, 0), (3, 0, 0)]
)
def test_smooth_hinge_and_slope(x, value, slope):
    assert literal.smooth_hinge(x) == value
    assert literal.smooth_hinge_slope(x) == slope


@pytest.mark.parametrize("seed", range(3))
def test_gradient_is_the_derivative_of_the_objective(seed):
    X, triplets, centers, weights, M = random_problem(seed)
    gradient = literal.gradient(M, centers, weights, X, triplets, **ALL)
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-14)
    h = 1e-5
    for p, q in np.ndindex(M.shape):
        step = np.zeros_like(M)
        step[p, q] = h
        above = literal.objective(M + step, centers, weights, X, triplets, **ALL)
        below = literal.objective(M - step, centers, weights, X, triplets, **ALL)
        # ℓ' is continuous but has kinks, hence not the full h² accuracy.
        assert (above - below) / (2 * h) == pytest.approx(gradient[p, q], abs=1e-6)


def test_centers_are_stationary_points_of_the_objective():
    X, triplets, centers, weights, M = random_problem(3)
    value = literal.objective(M, centers, weights, X, triplets, **ALL)
    for k, p in np.ndindex(centers.shape):
        for h in (-1e-3, 1e-3):
            moved = centers.copy()
            moved[k, p] += h
            assert literal.objective(M, moved, weights, X, triplets, **ALL) > value


@pytest.mark.parametrize("eta", [1.5, 3])
def test_weight_costs_give_the_part_of_the_objective_that_depends_on_one_sample(eta):
    X, triplets, centers, weights, M = random_problem(4)
    options = {"eta": eta, "triplet_weight": 50}
    rng = np.random.default_rng(0)
    for i in (0, 7):
        F = literal.weight_costs(i, M, centers, weights, X, triplets, **options)
        other = weights.copy()
        other[i] = rng.dirichlet(np.ones(3))
        change = literal.objective(
            M, centers, other, X, triplets, ridge=0, **options
        ) - literal.objective(M, centers, weights, X, triplets, ridge=0, **options)
        assert change == pytest.approx((other[i] ** eta - weights[i] ** eta) @ F / 3, abs=1e-13)
        best = literal.weights_from_costs(F, eta)
        assert best.sum() == pytest.approx(1, abs=1e-15)
        assert best**eta @ F <= other[i] ** eta @ F


def test_sequential_update_never_raises_the_objective_in_any_order():
    for seed in range(3):
        X, triplets, centers, weights, M = random_problem(seed)
        value = literal.objective(M, centers, weights, X, triplets, **ALL)
        for i in np.random.default_rng(seed).permutation(len(X)):
            weights = literal.update_weights(M, centers, weights, X, triplets, order=[i], **W_STEP)
            new_value = literal.objective(M, centers, weights, X, triplets, **ALL)
            assert new_value <= value * (1 + 1e-14)
            value = new_value


def test_modes_of_zero_cost_share_the_weight_equally():
    np.testing.assert_array_equal(
        literal.weights_from_costs(np.array([0, 2.0, 0]), 3), [0.5, 0, 0.5]
    )
    np.testing.assert_array_equal(literal.weights_from_costs(np.zeros(4), 3), [0.25] * 4)


def test_riemannian_gradient_represents_the_differential():
    _, _, _, _, M = random_problem(5)
    egrad, xi = np.random.default_rng(5).normal(size=(2, 4, 4))
    xi = xi + xi.T
    riemannian = literal.riemannian_gradient(M, egrad)
    assert literal.inner_product(M, riemannian, xi) == pytest.approx(np.sum(egrad * xi), rel=1e-12)


def test_exponential_map_agrees_with_the_second_order_retraction_to_third_order():
    _, _, _, _, M = random_problem(6)
    xi = np.random.default_rng(6).normal(size=(4, 4))
    xi = xi + xi.T
    errors = []
    for h in (1e-2, 5e-3):
        retracted = M + h * xi + h**2 / 2 * xi @ np.linalg.solve(M, xi)
        errors.append(np.linalg.norm(literal.exp_map(M, h * xi) - retracted))
    assert errors[0] / errors[1] == pytest.approx(8, rel=0.02)


def test_parallel_transport_is_an_isometry_and_carries_a_geodesic_velocity_along():
    _, _, _, _, M = random_problem(7)
    xi, zeta = np.random.default_rng(7).normal(size=(2, 4, 4))
    xi, zeta = (xi + xi.T) / 4, (zeta + zeta.T) / 4
    end = literal.exp_map(M, xi)
    velocity = literal.parallel_transport(M, end, xi)
    assert literal.inner_product(
        end, velocity, literal.parallel_transport(M, end, zeta)
    ) == pytest.approx(literal.inner_product(M, xi, zeta), rel=1e-10)
    np.testing.assert_allclose(
        literal.exp_map(end, velocity), literal.exp_map(M, 2 * xi), rtol=0, atol=1e-9
    )


def test_metric_collapses_to_zero_exactly_below_the_critical_triplet_weight():
    W = sequential_weights()
    critical = literal.critical_triplet_weight(C8, W, X8, T8, eta=3)
    for factor, collapses in ((0.98, True), (1.02, False)):
        _, M = oracles.projected_fista(
            X8,
            T8,
            C8,
            W,
            I2,
            eta=3,
            triplet_weight=factor * critical,
            ridge=1e-3,
            n_iterations=300,
        )
        assert (np.abs(M).max() < 1e-12) == collapses


def test_critical_triplet_weight_is_infinite_when_no_triplet_asks_for_a_larger_metric():
    X = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 0.0]])
    triplets = np.array([(0, 1, 3), (0, 2, 3)])
    weights = np.full((4, 2), 0.5)
    centers = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert literal.critical_triplet_weight(centers, weights, X, triplets, eta=3) == np.inf


# The solvers of the M-step


@pytest.mark.parametrize("seed", range(3))
def test_vectorised_value_and_gradient_equal_the_loops(seed):
    X, triplets, centers, weights, M = random_problem(seed)
    value, egrad = oracles.m_step_functions(X, triplets, centers, weights, **ALL)
    assert value(M) == pytest.approx(
        literal.objective(M, centers, weights, X, triplets, **ALL), rel=1e-13
    )
    expected = literal.gradient(M, centers, weights, X, triplets, **ALL)
    np.testing.assert_allclose(egrad(M), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("n_iterations", "tolerance"), [(5, 1e-13), (20, 1e-11)])
@pytest.mark.parametrize("seed", range(4))
def test_manopt_settings_reproduce_the_iterates_of_pymanopt(seed, n_iterations, tolerance):
    X, triplets, centers, weights, M0 = random_problem(seed)
    options = {"eta": 3, "triplet_weight": 100, "ridge": 1e-3, "n_iterations": n_iterations}
    theirs, M_theirs = oracles.pymanopt_m_step(X, triplets, centers, weights, M0, **options)
    ours, M_ours = oracles.manopt_cg(X, triplets, centers, weights, M0, **options)
    assert len(ours) == len(theirs) == n_iterations + 1
    np.testing.assert_allclose(ours, theirs, rtol=tolerance)
    assert np.abs(M_ours - M_theirs).max() <= tolerance * np.abs(M_theirs).max()


@pytest.mark.parametrize("triplet_weight", [10, 1000])
@pytest.mark.parametrize("seed", range(2))
def test_projected_optimum_is_certified_and_below_every_conjugate_gradient_value(
    seed, triplet_weight
):
    X, triplets, centers, weights, M0 = random_problem(seed)
    options = {"eta": 3, "triplet_weight": triplet_weight, "ridge": 1e-3}
    problem = X, triplets, centers, weights
    value, M = oracles.projected_fista(*problem, M0, n_iterations=500, **options)
    values, _ = oracles.pymanopt_m_step(*problem, M0, n_iterations=100, **options)
    assert np.linalg.eigvalsh(M)[0] >= -1e-12
    assert value == pytest.approx(
        literal.objective(M, centers, weights, X, triplets, **options), rel=1e-12
    )
    assert value <= min(values) * (1 + 1e-12)
    assert oracles.optimality_gap(M, *problem, **options) <= 1e-9 * value


# The baseline of the benchmark


def load_baseline():
    path = Path(__file__).parents[1] / "benchmarks" / "literal_mdaml.py"
    spec = importlib.util.spec_from_file_location("literal_mdaml", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("tidy", [False, True])
def test_baseline_takes_the_steps_of_the_paper(tidy):
    X, triplets, _, weights0, _ = random_problem(8)
    options = {"eta": 3, "triplet_weight": 100, "ridge": 1e-3}
    steps = []
    load_baseline().fit_literal(
        X,
        triplets,
        weights0,
        n_outer=2,
        n_inner=4,
        tidy=tidy,
        callback=lambda *state: steps.append(state),
        **options,
    )
    M, weights = np.eye(4), weights0
    for outer, (iteration, M_got, centers_got, weights_got, value_got) in enumerate(steps):
        assert iteration == outer
        centers = literal.update_centers(X, weights, 3)
        weights = literal.update_weights(
            M, centers, weights, X, triplets, eta=3, triplet_weight=100
        )
        values, M = oracles.pymanopt_m_step(
            X, triplets, centers, weights, M, n_iterations=4, **options
        )
        np.testing.assert_allclose(centers_got, centers, rtol=0, atol=1e-10)
        np.testing.assert_allclose(weights_got, weights, rtol=0, atol=1e-10)
        np.testing.assert_allclose(M_got, M, rtol=0, atol=1e-10)
        assert value_got == pytest.approx(values[-1], rel=1e-10)
        assert value_got == pytest.approx(
            literal.objective(M, centers, weights, X, triplets, **options), rel=1e-10
        )
    assert len(steps) == 2


def test_baseline_objective_never_rises():
    X, triplets, _, weights0, _ = random_problem(9)
    before = weights0.copy()
    M, centers, weights, history = load_baseline().fit_literal(
        X, triplets, weights0, eta=3, triplet_weight=100, ridge=1e-3, n_outer=5, n_inner=5
    )
    assert M.shape == (4, 4)
    assert centers.shape == (3, 4)
    assert weights.shape == weights0.shape
    assert len(history) == 5
    assert np.all(np.diff(history) < 0)
    np.testing.assert_array_equal(weights0, before)

"""The oracles against the worked example of the methods notes, and against each other."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import literal
import numpy as np
import oracles
import pytest

I2 = np.eye(2)


@pytest.fixture(scope="module")
def after_weights(example):
    """The example at the point where its M-step begins."""
    weights = literal.update_weights(I2, *parts(example), **weight_options(example))
    return replace(example, weights=weights)


@pytest.fixture(scope="module")
def problem(random_problem):
    """Return a function of a seed that makes a problem with centres at the weighted means."""

    def make(seed, **options):
        made = random_problem(seed, n_samples=24, n_triplets=90, **options)
        centers = literal.update_centers(made.X, made.weights, made.eta)
        root = np.random.default_rng(seed).normal(size=(4, 4))
        return replace(made, centers=centers), np.eye(4) + 0.1 * root @ root.T

    return make


def parts(given):
    """All arguments of the equations but the metric."""
    return given.centers, given.weights, given.X, given.triplets


def weight_options(given):
    return {"eta": given.eta, "triplet_weight": given.triplet_weight}


def assert_digits(actual, printed, decimals):
    """Every entry rounds to the printed one; the slack is rounding error only."""
    np.testing.assert_allclose(actual, printed, rtol=0, atol=0.5 * 10.0**-decimals + 1e-12)


def upper(M):
    """[m11, m12, m22] of a symmetric 2×2 matrix."""
    assert M[0, 1] == pytest.approx(M[1, 0], abs=1e-15)
    return [M[0, 0], M[0, 1], M[1, 1]]


# The worked example


def test_centers_of_the_example(example):
    assert_digits(example.centers, [[0.536474, 0.632789], [2.665105, 1.057211]], 6)


def test_margins_and_losses_of_the_example(example):
    delta = [literal.margin(I2, example.X, t) for t in example.triplets]
    assert_digits(delta, [3.11, 8.49, 1.76, -0.28, 3.97, -0.73, 2.59, 3.09, 2.32, -6.23], 12)
    losses = np.array([literal.smooth_hinge(x) for x in delta])
    assert np.flatnonzero(losses).tolist() == [3, 5, 9]
    assert_digits(losses[losses > 0], [0.78, 1.23, 6.73], 12)


def test_triplet_importances_of_the_example(example):
    printed = [0.373256, 0.250074, 0.075816, 0.373256, 0.075816]
    printed += [0.175832, 0.111104, 0.250074, 0.111104, 0.157528]
    found = [literal.importance(example.weights, t, 3) for t in example.triplets]
    assert_digits(found, printed, 6)


def test_objective_terms_of_the_example(example):
    terms = literal.objective_terms(I2, *parts(example), **example.options)
    assert_digits(terms, [0.324003580, 0.783788240, 0.001], 9)
    assert_digits(example.value(I2), 1.108791820, 9)


def test_clustering_scatter_of_the_example(example):
    scatter = literal.scatter(example.centers, example.weights, example.X, eta=3)
    assert_digits(upper(scatter), [0.110599, -0.027212, 0.213405], 6)


def test_gradient_of_the_example(example):
    assert_digits(upper(example.gradient(I2)), [-0.012801, -0.474914, 0.945939], 6)


def test_weight_costs_of_the_example(example):
    options = weight_options(example)
    F = [literal.weight_costs(i, I2, *parts(example), **options) for i in range(8)]
    first = [0.485388, 0.040382, 0.631729, 0.276078, 0.277713, 0.760683, 1.491176, 1.176466]
    second = [1.033800, 0.588509, 0.398826, 0.835142, 0.711186, 0.473689, 1.635720, 5.507154]
    assert_digits(F, np.column_stack([first, second]), 6)


def test_simultaneous_weights_of_the_example(example):
    options = weight_options(example)
    W = literal.update_weights_simultaneously(I2, *parts(example), **options)
    printed = [0.593396, 0.792424, 0.442760, 0.634938, 0.615425, 0.441067, 0.511563, 0.683903]
    assert_digits(W[:, 0], printed, 6)
    assert_digits(replace(example, weights=W).value(I2), 0.683966884, 9)


def test_sequential_weights_of_the_example(after_weights):
    printed = [0.593396, 0.792424, 0.585331, 0.634938, 0.615425, 0.257330, 0.511563, 0.449914]
    assert_digits(after_weights.weights[:, 0], printed, 6)
    assert_digits(after_weights.weights.sum(axis=1), 1, 12)
    assert_digits(after_weights.value(I2), 0.509866500, 9)


@pytest.mark.parametrize("solver", [oracles.pymanopt_m_step, oracles.manopt_cg])
@pytest.mark.parametrize(
    ("n_iterations", "value", "decimals", "M"),
    [
        (1, 0.296387734, 9, [0.677440, 0.080319, 0.538646]),
        (3, 0.118520603, 9, [0.264259, 0.051620, 0.147098]),
        (10, 0.0799566, 7, [0.201600, 0.037518, 0.022679]),
    ],
)
def test_metric_steps_of_the_example(after_weights, solver, n_iterations, value, decimals, M):
    options = {"n_iterations": n_iterations, **after_weights.options}
    values, reached = solver(*after_weights.m_step, I2, **options)
    assert len(values) == n_iterations + 1
    assert_digits(values[0], 0.509866500, 9)
    assert_digits(values[-1], value, decimals)
    assert_digits(upper(reached), M, 6)


def test_metric_optimum_of_the_example_has_rank_one(after_weights):
    options = after_weights.options
    value, M = oracles.projected_fista(*after_weights.m_step, I2, n_iterations=300, **options)
    assert_digits(value, 0.076110145, 9)
    assert_digits(upper(M), [0.195165, 0.032112, 0.005284], 6)
    assert np.linalg.eigvalsh(M)[0] == pytest.approx(0, abs=1e-12)
    assert oracles.optimality_gap(M, *after_weights.m_step, **options) < 1e-12


# The transcription of the paper


@pytest.mark.parametrize(
    ("x", "value", "slope"), [(-2, 2.5, -1), (0, 0.5, -1), (0.5, 0.125, -0.5), (1, 0, 0), (3, 0, 0)]
)
def test_smooth_hinge_and_slope(x, value, slope):
    assert literal.smooth_hinge(x) == value
    assert literal.smooth_hinge_slope(x) == slope


@pytest.mark.parametrize("form", ["triplets", "quadruplets"])
@pytest.mark.parametrize("seed", range(2))
def test_gradient_is_the_derivative_of_the_objective(problem, seed, form):
    given, M = problem(seed, triplet_weight=10.0, form=form)
    gradient = given.gradient(M)
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-14)
    h = 1e-5
    for place in np.ndindex(M.shape):
        step = np.zeros_like(M)
        step[place] = h
        slope = (given.value(M + step) - given.value(M - step)) / (2 * h)
        # ℓ' is continuous but has kinks, hence not the full h² accuracy.
        assert slope == pytest.approx(gradient[place], abs=1e-6)


def test_comparisons_are_the_equations_of_the_paper_for_triplets(problem):
    given, M = problem(0)
    args = M, given.centers, given.weights, given.X, *given.comparisons
    assert literal.comparison_objective(*args, **given.options) == pytest.approx(
        given.value(M), rel=1e-12
    )
    gradient = literal.comparison_gradient(*args, **given.options)
    np.testing.assert_allclose(gradient, given.gradient(M), rtol=1e-10, atol=1e-13)
    options = {**weight_options(given), "order": range(len(given.X))}
    np.testing.assert_allclose(
        literal.update_weights_by_comparisons(*args, **options),
        literal.update_weights(M, *parts(given), **options),
        rtol=1e-10,
    )


def test_centers_are_stationary_points_of_the_objective(problem):
    given, M = problem(3, triplet_weight=10.0)
    value = given.value(M)
    for place in np.ndindex(given.centers.shape):
        for h in (-1e-3, 1e-3):
            moved = given.centers.copy()
            moved[place] += h
            assert replace(given, centers=moved).value(M) > value


@pytest.mark.parametrize("eta", [1.5, 3])
def test_weight_costs_give_the_part_of_the_objective_that_depends_on_one_sample(problem, eta):
    given, M = problem(4, eta=eta, triplet_weight=50, ridge=0)
    rng = np.random.default_rng(0)
    for i in (0, 7):
        F = literal.weight_costs(i, M, *parts(given), **weight_options(given))
        old, new = given.weights[i], rng.dirichlet(np.ones(3))
        other = given.weights.copy()
        other[i] = new
        change = replace(given, weights=other).value(M) - given.value(M)
        assert change == pytest.approx((new**eta - old**eta) @ F / 3, abs=1e-13)
        best = literal.weights_from_costs(F, eta)
        assert best.sum() == pytest.approx(1, abs=1e-15)
        assert best**eta @ F <= new**eta @ F


@pytest.mark.parametrize("seed", range(2))
def test_sequential_update_never_raises_the_objective_in_any_order(problem, seed):
    given, M = problem(seed)
    value = given.value(M)
    for i in np.random.default_rng(seed).permutation(len(given.X)):
        options = weight_options(given)
        weights = literal.update_weights(M, *parts(given), order=[i], **options)
        given = replace(given, weights=weights)
        assert given.value(M) <= value * (1 + 1e-14)
        value = given.value(M)


def test_modes_of_zero_cost_share_the_weight_equally():
    np.testing.assert_array_equal(
        literal.weights_from_costs(np.array([0, 2.0, 0]), 3), [0.5, 0, 0.5]
    )
    np.testing.assert_array_equal(literal.weights_from_costs(np.zeros(4), 3), [0.25] * 4)


def test_riemannian_gradient_represents_the_differential(problem):
    _, M = problem(5)
    egrad, xi = np.random.default_rng(5).normal(size=(2, 4, 4))
    xi = xi + xi.T
    riemannian = literal.riemannian_gradient(M, egrad)
    assert literal.inner_product(M, riemannian, xi) == pytest.approx(np.sum(egrad * xi), rel=1e-12)


def test_exponential_map_agrees_with_the_second_order_retraction_to_third_order(problem):
    _, M = problem(6)
    xi = np.random.default_rng(6).normal(size=(4, 4))
    xi = xi + xi.T
    errors = []
    for h in (1e-2, 5e-3):
        retracted = M + h * xi + h**2 / 2 * xi @ np.linalg.solve(M, xi)
        errors.append(np.linalg.norm(literal.exp_map(M, h * xi) - retracted))
    assert errors[0] / errors[1] == pytest.approx(8, rel=0.02)


def test_parallel_transport_is_an_isometry_and_carries_a_geodesic_velocity_along(problem):
    _, M = problem(7)
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


def test_metric_collapses_to_zero_exactly_below_the_critical_triplet_weight(after_weights):
    critical = literal.critical_triplet_weight(*parts(after_weights), eta=3)
    for factor, collapses in ((0.98, True), (1.02, False)):
        given = replace(after_weights, triplet_weight=factor * critical)
        _, M = oracles.projected_fista(*given.m_step, I2, n_iterations=300, **given.options)
        assert (np.abs(M).max() < 1e-12) == collapses


def test_critical_triplet_weight_is_infinite_when_no_triplet_asks_for_a_larger_metric():
    X = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 0.0]])
    triplets = np.array([(0, 1, 3), (0, 2, 3)])
    weights = np.full((4, 2), 0.5)
    centers = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert literal.critical_triplet_weight(centers, weights, X, triplets, eta=3) == np.inf


# The solvers of the M-step


@pytest.mark.parametrize("seed", range(3))
def test_vectorised_value_and_gradient_equal_the_loops(problem, seed):
    given, M = problem(seed, triplet_weight=10.0)
    value, egrad = oracles.m_step_functions(*given.m_step, **given.options)
    assert value(M) == pytest.approx(given.value(M), rel=1e-13)
    np.testing.assert_allclose(egrad(M), given.gradient(M), rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_manopt_settings_reproduce_the_iterates_of_pymanopt(problem, seed):
    given, M0 = problem(seed)
    options = {**given.options, "n_iterations": 20}
    theirs, M_theirs = oracles.pymanopt_m_step(*given.m_step, M0, **options)
    ours, M_ours = oracles.manopt_cg(*given.m_step, M0, **options)
    assert len(ours) == len(theirs) == 21
    np.testing.assert_allclose(ours[:6], theirs[:6], rtol=1e-13)
    np.testing.assert_allclose(ours, theirs, rtol=1e-11)
    assert np.abs(M_ours - M_theirs).max() <= 1e-11 * np.abs(M_theirs).max()


@pytest.mark.parametrize(("seed", "triplet_weight"), [(0, 10), (1, 1000)])
def test_projected_optimum_is_certified_and_below_every_conjugate_gradient_value(
    problem, seed, triplet_weight
):
    given, M0 = problem(seed, triplet_weight=triplet_weight)
    value, M = oracles.projected_fista(*given.m_step, M0, n_iterations=500, **given.options)
    values, _ = oracles.pymanopt_m_step(*given.m_step, M0, n_iterations=100, **given.options)
    assert np.linalg.eigvalsh(M)[0] >= -1e-12
    assert value == pytest.approx(given.value(M), rel=1e-12)
    assert value <= min(values) * (1 + 1e-12)
    assert oracles.optimality_gap(M, *given.m_step, **given.options) <= 1e-9 * value


# The baseline of the benchmark


@pytest.fixture(scope="module")
def fit_literal():
    """The fit of the baseline."""
    path = Path(__file__).parents[1] / "benchmarks" / "literal_mdaml.py"
    spec = importlib.util.spec_from_file_location("literal_mdaml", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.fit_literal


@pytest.mark.parametrize("tidy", [False, True])
def test_baseline_takes_the_steps_of_the_paper(problem, fit_literal, tidy):
    given, _ = problem(8)
    options, steps = given.options, []
    fit_literal(
        given.X,
        given.triplets,
        given.weights,
        n_outer=2,
        n_inner=4,
        tidy=tidy,
        callback=lambda *state: steps.append(state),
        **options,
    )
    M = np.eye(4)
    for outer, (iteration, M_got, centers_got, weights_got, value_got) in enumerate(steps):
        assert iteration == outer
        given = replace(given, centers=literal.update_centers(given.X, given.weights, 3))
        weights = literal.update_weights(M, *parts(given), **weight_options(given))
        given = replace(given, weights=weights)
        values, M = oracles.pymanopt_m_step(*given.m_step, M, n_iterations=4, **options)
        np.testing.assert_allclose(centers_got, given.centers, rtol=0, atol=1e-10)
        np.testing.assert_allclose(weights_got, weights, rtol=0, atol=1e-10)
        np.testing.assert_allclose(M_got, M, rtol=0, atol=1e-10)
        assert value_got == pytest.approx(values[-1], rel=1e-10)
        assert value_got == pytest.approx(given.value(M), rel=1e-10)
    assert len(steps) == 2


def test_baseline_objective_never_rises(problem, fit_literal):
    given, _ = problem(9)
    before = given.weights.copy()
    M, centers, weights, history = fit_literal(
        given.X, given.triplets, given.weights, **given.options, n_outer=5, n_inner=5
    )
    assert M.shape == (4, 4)
    assert centers.shape == (3, 4)
    assert weights.shape == given.weights.shape
    assert len(history) == 5
    assert np.all(np.diff(history) < 0)
    np.testing.assert_array_equal(given.weights, before)

"""Conjugate gradients against independent solvers, and its parts against formulas."""

from dataclasses import dataclass, replace

import literal
import numpy as np
import oracles
import pytest

from mdaml.geometry import Geodesic, geodesic
from mdaml.optimize import (
    LARGEST_CHANGE,
    Point,
    Status,
    Trial,
    coarse_step,
    conjugate_gradient,
    cubic_minimum,
    hestenes_stiefel,
    search,
)


@dataclass(frozen=True)
class LogBarrier:
    """``tr(A M) - log det M + offset``, whose minimum is at the inverse of A; in one dimension too.

    Its gradient in the frame is ``F^T A F - I``. Stands for any objective: no samples, no triplets.
    """

    A: np.ndarray
    offset: float = 0.0

    def at(self, F):
        inner = F.T @ self.A @ F
        value = np.trace(inner) - 2 * np.linalg.slogdet(F)[1] + self.offset
        return Point(
            F=F,
            value=float(value),
            gradient=inner - np.eye(len(F)),
            projected=np.empty((0, len(F))),
            scale=np.ones(len(F)),
        )

    def along(self, point, line):
        turned = replace(point, F=line.basis, gradient=line.transport(point.gradient))
        return FramePath(self, line, turned)


@dataclass(frozen=True)
class FramePath:
    """Any objective along a geodesic, evaluated at the frames."""

    objective: LogBarrier
    line: Geodesic
    origin: Point

    def values(self, steps):
        return np.array([self.at(step).value for step in steps])

    def at(self, step):
        return self.objective.at(self.line.frame(step))


@dataclass(frozen=True)
class WrongSign(LogBarrier):
    """An objective whose gradient points the wrong way: no step along it descends."""

    def at(self, F):
        point = super().at(F)
        return replace(point, gradient=-point.gradient)


@pytest.fixture
def barrier():
    """A smooth objective with minimum ``4 + log det A`` at the inverse of A."""
    root = np.random.default_rng(0).normal(size=(4, 4))
    return LogBarrier(np.eye(4) + root @ root.T)


@pytest.fixture
def twins(random_problem):
    """Return a function of a seed that makes a problem with a metric of high rank.

    Each sample has a close copy, its only similar partner, and six dissimilar ones: few triplets
    are in conflict.
    """

    def make(seed, **options):
        rng = np.random.default_rng(seed)
        given = random_problem(seed, n_samples=40, triplet_weight=1e4, **options)
        X = np.concatenate([given.X[:20], given.X[:20] + 0.05 * rng.normal(size=(20, 4))])
        others = [np.delete(np.arange(20), i) for i in range(20)]
        triplets = [
            (i, 20 + i, r) for i in range(20) for r in rng.choice(others[i], 6, replace=False)
        ]
        return replace(given, X=X - X.mean(axis=0), triplets=np.array(triplets))

    return make


@pytest.fixture
def example_after_weights(example):
    """The worked example at the point where its M-step begins."""
    weights = literal.update_weights(
        np.eye(2),
        example.centers,
        example.weights,
        example.X,
        example.triplets,
        eta=example.eta,
        triplet_weight=example.triplet_weight,
    )
    return replace(example, weights=weights)


def solve(local, n_features, **options):
    """Many iterations, without the tests for a small decrease or gradient."""
    options = {"max_iter": 300, "ftol": 0.0, "gtol": 1e-12, **options}
    return conjugate_gradient(local.objective(), np.eye(n_features), **options)


# The path


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("triplet_weight", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("seed", range(3))
def test_every_step_lowers_the_value(random_problem, local_problem, seed, triplet_weight, dtype):
    given = random_problem(seed, triplet_weight=triplet_weight, dtype=dtype)
    result = solve(local_problem(given), 4, max_iter=60)
    assert np.all(np.diff(result.history) < 0)


def test_result_describes_the_last_point(random_problem, local_problem):
    local = local_problem(random_problem(0))
    result = solve(local, 4, max_iter=7)
    point = local.objective().at(result.F)
    assert len(result.history) == result.n_iter + 1 == 8
    assert result.history[-1] == result.value == pytest.approx(point.value, rel=1e-12)
    expected = np.linalg.norm(point.gradient) / point.value
    assert result.grad_norm == pytest.approx(expected, rel=1e-8)


def test_same_start_same_path_to_the_last_bit(random_problem, local_problem):
    paths = [solve(local_problem(random_problem(0)), 4, max_iter=20).history for _ in range(2)]
    assert paths[0] == paths[1]


def test_steps_start_from_the_given_factor(barrier):
    F = np.diag([1.0, 2.0, 3.0, 4.0])
    assert conjugate_gradient(barrier, F, max_iter=1).history[0] == barrier.at(F).value


# The optimum


def test_smooth_optimum_is_found_to_the_last_digits(barrier):
    result = conjugate_gradient(barrier, np.eye(4), max_iter=100, ftol=0.0)
    np.testing.assert_allclose(result.F @ result.F.T, np.linalg.inv(barrier.A), atol=1e-6)
    assert result.value == pytest.approx(4 + np.linalg.slogdet(barrier.A)[1], rel=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_optimum_is_that_of_a_projected_gradient_method(twins, local_problem, seed):
    given = twins(seed, ridge=0.1)
    lowest, M = oracles.projected_fista(*given.m_step, np.eye(4), n_iterations=500, **given.options)
    assert oracles.optimality_gap(M, *given.m_step, **given.options) <= 1e-9 * lowest
    result = solve(local_problem(given), 4)
    assert lowest * (1 - 1e-9) <= result.value <= lowest * (1 + 1e-3)


@pytest.mark.parametrize("ridge", [1e-3, 1e-2, 1.0])
def test_regular_optimum_is_certified_to_eight_digits(twins, local_problem, ridge):
    given = twins(2, ridge=ridge)
    result = solve(local_problem(given), 4)
    M = result.F @ result.F.T
    assert np.linalg.eigvalsh(M)[0] > 0.05
    assert oracles.optimality_gap(M, *given.m_step, **given.options) <= 1e-8 * result.value


def test_metric_vanishes_below_the_critical_triplet_weight(random_problem, local_problem):
    given = random_problem(0)
    critical = literal.critical_triplet_weight(
        given.centers, given.weights, given.X, given.triplets, eta=given.eta
    )
    given = replace(given, triplet_weight=0.5 * critical)
    result = solve(local_problem(given), 4)
    assert np.abs(result.F).max() < 1e-4
    assert result.value == pytest.approx(given.value(np.zeros((4, 4))), rel=1e-6)


def test_singular_optimum_of_the_example_is_approached_from_above(
    example_after_weights, local_problem
):
    result = solve(local_problem(example_after_weights), 2)
    assert np.all(np.isfinite(result.F))
    assert np.all(np.diff(result.history) < 0)
    assert result.history[0] == pytest.approx(0.509866500, abs=5e-10)
    assert 0.076110145 - 5e-10 <= result.value <= 0.076110145 * (1 + 1e-3)


def test_metric_of_the_example_has_nearly_rank_one(example_after_weights, local_problem):
    F = solve(local_problem(example_after_weights), 2).F
    expected = [[0.195165, 0.032112], [0.032112, 0.005284]]
    np.testing.assert_allclose(F @ F.T, expected, rtol=0, atol=5e-3)


# Other implementations


@pytest.mark.parametrize("n_iterations", [3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_values_are_below_those_of_pymanopt_at_equal_iterations(
    random_problem, local_problem, seed, n_iterations
):
    given = random_problem(seed, triplet_weight=1000.0)
    theirs, _ = oracles.pymanopt_m_step(
        *given.m_step, np.eye(4), n_iterations=n_iterations, **given.options
    )
    ours = solve(local_problem(given), 4, max_iter=n_iterations).history
    assert ours[0] == pytest.approx(theirs[0], rel=1e-12)
    assert ours[-1] <= theirs[-1] * (1 + 1e-3)


@pytest.mark.parametrize("seed", range(2))
def test_optimum_is_that_of_pymanopt(twins, local_problem, seed):
    given = twins(seed)
    theirs, _ = oracles.pymanopt_m_step(*given.m_step, np.eye(4), n_iterations=150, **given.options)
    result = solve(local_problem(given), 4)
    assert result.value == pytest.approx(theirs[-1], rel=1e-3)


@pytest.mark.parametrize(("n_iterations", "tolerance"), [(5, 1e-12), (20, 1e-9)])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_drive_manopt_along_the_path_of_pymanopt(
    random_problem, local_problem, monkeypatch, seed, n_iterations, tolerance
):
    given, objective = random_problem(seed), local_problem(random_problem(seed)).objective()
    options = {"n_iterations": n_iterations, **given.options}
    theirs, M_theirs = oracles.pymanopt_m_step(*given.m_step, np.eye(4), **options)

    def value(M):
        return objective.at(np.linalg.cholesky(M)).value

    def egrad(M):
        inverse = np.linalg.inv(np.linalg.cholesky(M))
        return inverse.T @ objective.at(np.linalg.cholesky(M)).gradient @ inverse

    monkeypatch.setattr(oracles, "m_step_functions", lambda *_, **__: (value, egrad))
    ours, M_ours = oracles.manopt_cg(*given.m_step, np.eye(4), **options)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance)
    np.testing.assert_allclose(M_ours, M_theirs, rtol=0, atol=tolerance * np.abs(M_theirs).max())


# Hard starts


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("powers", [(-12, 12), (-12, -12), (12, 12), (-3, 9)])
def test_extreme_starts_stay_finite_and_never_rise(random_problem, local_problem, powers, dtype):
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(A)[0] for A in rng.normal(size=(2, 4, 4)))
    F = left * np.logspace(*powers, 4) @ right
    objective = local_problem(random_problem(0, dtype=dtype)).objective()
    result = conjugate_gradient(objective, F, max_iter=100)
    assert np.all(np.isfinite(result.F))
    assert np.all(np.isfinite(result.history))
    assert np.all(np.diff(result.history) < 0)


def test_huge_start_comes_down_to_the_scale_of_the_optimum(random_problem, local_problem):
    given = random_problem(0)
    objective = local_problem(given).objective()
    result = conjugate_gradient(objective, 1e12 * np.eye(4), max_iter=100)
    assert result.value < objective.at(np.eye(4)).value


# Why it stops


def test_status_is_converged_where_the_gradient_vanishes(barrier):
    result = conjugate_gradient(barrier, np.eye(4), max_iter=100, ftol=0.0, gtol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.grad_norm <= 1e-6


def test_start_at_the_optimum_converges_without_a_step():
    result = conjugate_gradient(LogBarrier(np.eye(3)), np.eye(3))
    assert (result.status, result.n_iter) == (Status.CONVERGED, 0)


def test_status_is_stalled_where_five_steps_no_longer_help(example_after_weights, local_problem):
    objective = local_problem(example_after_weights).objective()
    result = conjugate_gradient(objective, np.eye(2), max_iter=500, ftol=1e-3)
    assert result.status is Status.STALLED
    drops = -np.diff(result.history)
    assert drops[-5:].sum() <= 1e-3 * result.value < drops[-6:-1].sum()


def test_status_is_no_descent_where_no_step_helps():
    result = conjugate_gradient(WrongSign(np.diag([2.0, 0.5])), np.eye(2))
    assert (result.status, result.n_iter) == (Status.NO_DESCENT, 0)
    assert len(result.history) == 1


def test_status_is_max_iter_when_iterations_run_out(barrier):
    result = conjugate_gradient(barrier, np.eye(4), max_iter=2)
    assert (result.status, result.n_iter) == (Status.MAX_ITER, 2)


def test_no_iterations_return_the_start(barrier):
    result = conjugate_gradient(barrier, np.eye(4), max_iter=0)
    np.testing.assert_array_equal(result.F, np.eye(4))
    assert (result.status, result.n_iter) == (Status.MAX_ITER, 0)


def test_value_of_zero_at_a_minimum_is_converged():
    lowest = LogBarrier(np.eye(2), offset=-2.0)
    assert conjugate_gradient(lowest, np.eye(2)).status is Status.CONVERGED


# The parts


def steepest(objective, n_features):
    """Return the path of steepest descent from the identity, its line and its start."""
    point = objective.at(np.eye(n_features))
    line = geodesic(point.F, -point.gradient)
    start = Trial(0.0, point.value, -float(np.vdot(point.gradient, point.gradient)))
    return objective.along(point, line), line, start


@pytest.mark.parametrize("guess", [None, 1e-9, 1e-3, 1.0, 1e6])
def test_search_finds_a_lower_point_from_any_guess(random_problem, local_problem, guess):
    path, line, start = steepest(local_problem(random_problem(0)).objective(), 4)
    point, step = search(path, line.rates, start, guess)
    assert point.value <= start.value + 1e-4 * step * start.slope
    np.testing.assert_array_equal(point.F, line.frame(step))


@pytest.mark.parametrize("guess", [None, 1e6])
def test_search_changes_no_eigenvalue_beyond_its_limit(guess):
    path, line, start = steepest(LogBarrier(1e-30 * np.eye(2)), 2)  # the minimum is at 1e30
    _, step = search(path, line.rates, start, guess)
    assert step * np.abs(line.rates).max() == pytest.approx(LARGEST_CHANGE)


def test_search_returns_none_where_all_steps_ascend():
    path, line, start = steepest(WrongSign(np.diag([2.0, 0.5])), 2)
    assert search(path, line.rates, start, None) is None


def test_accepted_step_flattens_the_slope(barrier):
    path, line, start = steepest(barrier, 4)
    point, _ = search(path, line.rates, start, None)
    assert abs(np.diagonal(point.gradient) @ line.rates) <= 0.4 * abs(start.slope)


@pytest.mark.parametrize("slope", [1e-8, 0.5, 1e8])
def test_coarse_step_lowers_the_value_at_any_scale(slope):
    path, line, start = steepest(LogBarrier(np.array([[slope]])), 1)
    step = coarse_step(path, start, 1.0 / np.abs(line.rates).max())
    assert path.at(step).value < start.value


def test_coarse_step_finds_the_scale_of_a_narrow_valley():
    class Valley:
        def values(self, steps):
            return (steps - 1e-6) ** 2

    step = coarse_step(Valley(), Trial(0.0, 1e-12, -2e-6), scale=1.0)
    assert 2.5e-7 <= step < 2e-6


@pytest.mark.parametrize("seed", range(5))
def test_cubic_minimum_is_exact_on_cubics(seed):
    rng = np.random.default_rng(seed)
    minimum, other = rng.uniform(0.3, 0.7), rng.uniform(-3, -1)
    # A cubic with the stationary points ``minimum`` and, to its left, the maximum ``other``.
    slope = np.poly1d([1.0, -(minimum + other), minimum * other])
    value = slope.integ()
    low, high = (Trial(t, value(t), slope(t)) for t in (0.0, 1.0))
    assert cubic_minimum(low, high) == pytest.approx(minimum, rel=1e-12)


def test_cubic_minimum_is_exact_on_parabolas():
    low, high = Trial(0.0, 0.0, -2.0), Trial(4.0, 8.0, 6.0)  # t**2 - 2 t
    assert cubic_minimum(low, high) == pytest.approx(1.0, rel=1e-14)


def test_cubic_minimum_stays_inside_the_interval():
    low, high = Trial(1.0, 0.0, -1e-9), Trial(2.0, 1e9, 1e9)
    assert 1.0 < cubic_minimum(low, high) <= 1.05 + 1e-12


def test_cubic_minimum_of_a_straight_line_is_inside_the_interval():
    low, high = Trial(0.0, 0.0, -1.0), Trial(1.0, -1.0, -1.0)
    assert 0.0 < cubic_minimum(low, high) < 1.0


def test_hestenes_stiefel_is_its_formula():
    gradient, previous, direction = (
        literal.symmetric_part(A) for A in np.random.default_rng(1).normal(size=(3, 3, 3))
    )
    change = gradient - previous
    expected = np.sum(gradient * change) / np.sum(direction * change)
    direction = direction * np.sign(np.sum(direction * change))
    assert hestenes_stiefel(gradient, previous, direction) == pytest.approx(
        max(0.0, expected * np.sign(np.sum(direction * change))), rel=1e-13
    )


def test_hestenes_stiefel_is_zero_without_curvature():
    gradient, previous = np.eye(2), 2 * np.eye(2)
    assert hestenes_stiefel(gradient, previous, np.eye(2)) == 0.0
    assert hestenes_stiefel(gradient, gradient, np.eye(2)) == 0.0


def test_hestenes_stiefel_is_never_negative():
    gradient, previous, direction = np.diag([1.0, 1.0]), np.diag([3.0, 0.0]), np.diag([0.0, 1.0])
    assert hestenes_stiefel(gradient, previous, direction) == 0.0


@pytest.mark.parametrize("triplet_weight", [10.0, 100.0, 1000.0])
@pytest.mark.parametrize("seed", range(10))
def test_singular_optimum_is_reached_to_a_thousandth(
    random_problem, local_problem, seed, triplet_weight
):
    given = random_problem(seed, triplet_weight=triplet_weight)
    lowest, _ = oracles.projected_fista(*given.m_step, np.eye(4), n_iterations=600, **given.options)
    result = conjugate_gradient(local_problem(given).objective(), np.eye(4), max_iter=200, ftol=0.0)
    assert result.value <= lowest * (1 + 1e-3)


@pytest.mark.parametrize("seed", range(10))
def test_values_are_below_those_of_pymanopt_after_twenty_iterations(
    random_problem, local_problem, seed
):
    given = random_problem(seed, triplet_weight=1000.0)
    theirs, _ = oracles.pymanopt_m_step(*given.m_step, np.eye(4), n_iterations=20, **given.options)
    ours = conjugate_gradient(local_problem(given).objective(), np.eye(4), max_iter=20, ftol=0.0)
    assert ours.value <= theirs[-1] * (1 + 1e-3)

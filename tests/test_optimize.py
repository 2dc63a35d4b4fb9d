"""Conjugate gradients against independent solvers, and its parts against formulas."""

from dataclasses import dataclass, replace

import literal
import numpy as np
import oracles
import pytest

from mdaml.solver.conjugate_gradient import Status, conjugate_gradient, hestenes_stiefel
from mdaml.solver.geometry import Geodesic, geodesic, norm
from mdaml.solver.line_search import Trial, cubic_minimum, lower_point
from mdaml.solver.objective import NO_ANCHOR
from mdaml.solver.spaces import LARGEST_CHANGE, FramePoint, FullRank, GeodesicPath, LowRank
from mdaml.stores.memory import MemoryStore


class FrameSpace(FullRank):
    """Metrics of full rank for objectives that evaluate themselves."""

    def at(self, objective, F):
        return objective.at(F)


@dataclass(frozen=True)
class LogBarrier:
    """``tr(A M) - log det M + offset``, whose minimum is at the inverse of A; in one dimension too.

    Its gradient in the frame is ``F^T A F - I``. Stands for any objective: no samples, no triplets.
    """

    A: np.ndarray
    offset: float = 0.0
    space = FrameSpace()
    anchor = NO_ANCHOR

    def at(self, F):
        inner = F.T @ self.A @ F
        size = 2 * np.linalg.slogdet(F)[1]
        value = float(np.trace(inner) - size + self.offset)
        nothing = np.empty((0, len(F)))
        ones = np.ones(len(F))
        return FramePoint(F, value, inner - np.eye(len(F)), nothing, ones, inner, size)

    def along(self, point, gradient, direction):
        line = geodesic(point.F, direction)
        return FramePath(
            self, line, replace(point, F=line.basis, gradient=line.transport(gradient))
        )


class FramePath(GeodesicPath):
    """Any objective along a geodesic, evaluated at the frames."""

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


def solve(local, **options):
    """Many iterations, without the tests for a small decrease or gradient."""
    options = {"max_iter": 300, "ftol": 0.0, "gtol": 1e-12, **options}
    return conjugate_gradient(local.objective(), local.F, **options)


# The path


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("triplet_weight", [0.1, 10.0, 1e4])
def test_every_step_lowers_the_value(random_problem, local_problem, rank, triplet_weight, dtype):
    given = random_problem(0, triplet_weight=triplet_weight, dtype=dtype)
    result = solve(local_problem(given, rank=rank), max_iter=60)
    assert np.all(np.diff(result.history) < 0)


def test_result_describes_the_last_point(random_problem, local_problem, rank):
    local = local_problem(random_problem(0), rank=rank)
    result, objective = solve(local, max_iter=7), local.objective()
    point = objective.at(result.F)
    gradient = objective.space.gradient(objective, point)
    assert len(result.history) == result.n_iter + 1 == 8
    assert result.history[-1] == result.value == pytest.approx(point.value, rel=1e-12)
    expected = norm(gradient) / point.value * (1.0 if rank is None else norm(result.F))
    assert result.grad_norm == pytest.approx(expected, rel=1e-8)


def test_same_start_same_path_to_the_last_bit(random_problem, local_problem, rank):
    local = local_problem(random_problem(0), rank=rank)
    paths = [solve(local, max_iter=20).history for _ in range(2)]
    assert paths[0] == paths[1]


def test_steps_start_from_the_given_factor(barrier):
    F = np.diag([1.0, 2.0, 3.0, 4.0])
    assert conjugate_gradient(barrier, F, max_iter=1).history[0] == barrier.at(F).value


# The optimum


def test_smooth_optimum_is_found_to_the_last_digits(barrier):
    result = conjugate_gradient(barrier, np.eye(4), max_iter=100, ftol=0.0)
    np.testing.assert_allclose(result.F @ result.F.T, np.linalg.inv(barrier.A), atol=1e-6)
    assert result.value == pytest.approx(4 + np.linalg.slogdet(barrier.A)[1], rel=1e-14)


def test_optimum_is_that_of_a_projected_gradient_method(twins, local_problem):
    given = twins(0, ridge=0.1)
    lowest, M = oracles.projected_fista(*given.m_step, np.eye(4), n_iterations=500, **given.options)
    assert oracles.optimality_gap(M, *given.m_step, **given.options) <= 1e-9 * lowest
    for rank in (None, 4):
        result = solve(local_problem(given, rank=rank))
        assert lowest * (1 - 1e-9) <= result.value <= lowest * (1 + 1e-3)


@pytest.mark.parametrize(("seed", "triplet_weight"), [(0, 10.0), (1, 100.0), (2, 1000.0)])
def test_singular_optimum_is_reached_to_a_thousandth(
    random_problem, local_problem, seed, triplet_weight
):
    given = random_problem(seed, triplet_weight=triplet_weight)
    lowest, _ = oracles.projected_fista(*given.m_step, np.eye(4), n_iterations=400, **given.options)
    for rank in (None, 4):
        result = solve(local_problem(given, rank=rank), max_iter=200)
        assert result.value <= lowest * (1 + 1e-3)
        assert result.value == pytest.approx(given.value(result.F @ result.F.T), rel=1e-9)


@pytest.mark.parametrize("n_modes", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_both_spaces_have_the_same_optimum(random_problem, local_problem, seed, n_modes):
    given = random_problem(
        seed, n_samples=40, n_features=6, n_modes=n_modes, n_triplets=200, triplet_weight=1e3
    )
    full, factor = (solve(local_problem(given, rank=rank), ftol=1e-9) for rank in (None, 6))
    assert factor.value == pytest.approx(full.value, rel=1e-3)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_low_rank_ends_below_the_leading_directions_of_the_full_metric(
    random_problem, local_problem, rank
):
    given = random_problem(
        rank, n_samples=60, n_features=8, n_modes=1, n_triplets=300, triplet_weight=1e3
    )
    full = solve(local_problem(given), max_iter=100, ftol=1e-6)
    axes, lengths, _ = np.linalg.svd(full.F)
    low = local_problem(given, rank=rank)
    truncated = low.objective().at(axes[:, :rank] * lengths[:rank]).value
    assert solve(low, max_iter=100, ftol=1e-6).value < truncated


@pytest.mark.parametrize("ridge", [1e-3, 1e-2, 1.0])
def test_regular_optimum_is_certified_to_eight_digits(twins, local_problem, ridge):
    given = twins(2, ridge=ridge)
    result = solve(local_problem(given))
    M = result.F @ result.F.T
    assert np.linalg.eigvalsh(M)[0] > 0.05
    assert oracles.optimality_gap(M, *given.m_step, **given.options) <= 1e-8 * result.value


def test_metric_vanishes_below_the_critical_triplet_weight(random_problem, local_problem, rank):
    given = random_problem(0)
    critical = literal.critical_triplet_weight(
        given.centers, given.weights, given.X, given.triplets, eta=given.eta
    )
    given = replace(given, triplet_weight=0.5 * critical)
    result = solve(local_problem(given, rank=rank))
    assert np.abs(result.F).max() < 1e-4
    assert result.value == pytest.approx(given.value(np.zeros((4, 4))), rel=1e-6)


def test_singular_optimum_of_the_example_is_approached_from_above(
    example_after_weights, local_problem
):
    result = solve(local_problem(example_after_weights))
    assert np.all(np.isfinite(result.F))
    assert np.all(np.diff(result.history) < 0)
    assert result.history[0] == pytest.approx(0.509866500, abs=5e-10)
    assert 0.076110145 - 5e-10 <= result.value <= 0.076110145 * (1 + 1e-3)
    expected = [[0.195165, 0.032112], [0.032112, 0.005284]]  # nearly of rank one
    np.testing.assert_allclose(result.F @ result.F.T, expected, rtol=0, atol=5e-3)


# Other implementations


@pytest.mark.parametrize("seed", range(5))
def test_values_are_below_those_of_pymanopt_at_equal_iterations(
    random_problem, local_problem, seed
):
    given = random_problem(seed, triplet_weight=1000.0)
    theirs, _ = oracles.pymanopt_m_step(*given.m_step, np.eye(4), n_iterations=20, **given.options)
    ours = solve(local_problem(given), max_iter=20).history
    assert ours[0] == pytest.approx(theirs[0], rel=1e-12)
    for n in (3, 5, 20):
        assert ours[n] <= theirs[n] * (1 + 1e-3)


@pytest.mark.parametrize("seed", range(2))
def test_optimum_is_that_of_pymanopt(twins, local_problem, seed):
    given = twins(seed)
    theirs, _ = oracles.pymanopt_m_step(*given.m_step, np.eye(4), n_iterations=150, **given.options)
    result = solve(local_problem(given))
    assert result.value == pytest.approx(theirs[-1], rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_drive_manopt_along_the_path_of_pymanopt(
    random_problem, local_problem, monkeypatch, seed
):
    given, objective = random_problem(seed), local_problem(random_problem(seed)).objective()
    options = {"n_iterations": 20, **given.options}
    theirs, M_theirs = oracles.pymanopt_m_step(*given.m_step, np.eye(4), **options)

    def value(M):
        return objective.at(np.linalg.cholesky(M)).value

    def egrad(M):
        inverse = np.linalg.inv(np.linalg.cholesky(M))
        return inverse.T @ objective.at(np.linalg.cholesky(M)).gradient @ inverse

    monkeypatch.setattr(oracles, "m_step_functions", lambda *_, **__: (value, egrad))
    ours, M_ours = oracles.manopt_cg(*given.m_step, np.eye(4), **options)
    np.testing.assert_allclose(ours[:6], theirs[:6], rtol=1e-12)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    np.testing.assert_allclose(M_ours, M_theirs, rtol=0, atol=1e-9 * np.abs(M_theirs).max())


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
    objective = local_problem(random_problem(0)).objective()
    result = conjugate_gradient(objective, 1e12 * np.eye(4), max_iter=100)
    assert result.value < objective.at(np.eye(4)).value


# Why it stops


def test_status_is_converged_where_the_gradient_vanishes(barrier):
    result = conjugate_gradient(barrier, np.eye(4), max_iter=100, ftol=0.0, gtol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.grad_norm <= 1e-6


def test_start_at_the_optimum_converges_without_a_step(random_problem, local_problem):
    low = local_problem(random_problem(0), rank=2).objective()
    for objective, F in ((LogBarrier(np.eye(3)), np.eye(3)), (low, np.zeros((4, 2)))):
        result = conjugate_gradient(objective, F)
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


def test_status_is_max_iter_when_iterations_run_out(random_problem, local_problem, rank):
    local = local_problem(random_problem(0), rank=rank)
    few = conjugate_gradient(local.objective(), local.F, max_iter=3)
    assert (few.status, few.n_iter, len(few.history)) == (Status.MAX_ITER, 3, 4)
    many = conjugate_gradient(local.objective(), local.F, max_iter=1000)
    assert many.status in (Status.STALLED, Status.CONVERGED)


def test_no_iterations_return_the_start(barrier):
    result = conjugate_gradient(barrier, np.eye(4), max_iter=0)
    np.testing.assert_array_equal(result.F, np.eye(4))
    assert (result.status, result.n_iter) == (Status.MAX_ITER, 0)


def test_value_of_zero_at_a_minimum_is_converged():
    lowest = LogBarrier(np.eye(2), offset=-2.0)
    assert conjugate_gradient(lowest, np.eye(2)).status is Status.CONVERGED


# The line search


def steepest(objective, F):
    """Return the path of steepest descent from F, and its start."""
    point = objective.at(F)
    gradient = objective.space.gradient(objective, point)
    direction = objective.space.steepest(objective, point, gradient)
    start = Trial(0.0, point.value, float(np.vdot(gradient, direction)))
    return objective.along(point, gradient, direction), start


def search(path, start, guess=None):
    """Return a lower point and its step, as conjugate gradients look for it."""
    return lower_point(path, start, path.first_step(start.value) if guess is None else guess)


@pytest.mark.parametrize("guess", [None, 1e-9, 1e-3, 1.0, 1e6])
def test_search_finds_a_lower_point_from_any_guess(random_problem, local_problem, rank, guess):
    guess = 1e3 if rank is not None and guess == 1e6 else guess  # a line has no longest step
    local = local_problem(random_problem(0), rank=rank)
    path, start = steepest(local.objective(), local.F)
    point, step = search(path, start, guess)
    assert point.value <= start.value + 1e-4 * step * start.slope
    np.testing.assert_array_equal(point.F, path.at(step).F)


@pytest.mark.parametrize("guess", [None, 1e6])
def test_search_changes_no_eigenvalue_beyond_its_limit(guess):
    path, start = steepest(LogBarrier(1e-30 * np.eye(2)), np.eye(2))  # the minimum is at 1e30
    _, step = search(path, start, guess)
    assert step * np.abs(path.line.rates).max() == pytest.approx(LARGEST_CHANGE)


def test_search_returns_none_where_all_steps_ascend():
    assert search(*steepest(WrongSign(np.diag([2.0, 0.5])), np.eye(2))) is None


def test_accepted_step_flattens_the_slope(barrier):
    path, start = steepest(barrier, np.eye(4))
    point, _ = search(path, start)
    assert abs(path.slope(point)) <= 0.4 * abs(start.slope)


@pytest.mark.parametrize("slope", [1e-8, 0.5, 1e8])
def test_first_step_of_a_geodesic_lowers_the_value_at_any_scale(slope):
    path, start = steepest(LogBarrier(np.array([[slope]])), np.eye(1))
    assert path.at(path.first_step(start.value)).value < start.value


def test_first_step_of_a_geodesic_finds_the_scale_of_a_narrow_valley():
    class Valley(GeodesicPath):
        def values(self, steps):
            return (steps - 1e-6) ** 2

    one = np.eye(1)
    path = Valley(LogBarrier(one), Geodesic(one, one[0], one), None)
    assert 2.5e-7 <= path.first_step(1e-12) < 2e-6


def test_first_step_of_a_line_changes_the_factor_by_a_tenth(random_problem, local_problem):
    local = local_problem(random_problem(0), rank=2)
    path, start = steepest(local.objective(), local.F)
    assert path.first_step(start.value) * norm(path.direction) == pytest.approx(0.1 * norm(local.F))


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
    low, high = Trial(0.0, 0.0, -1.0), Trial(1.0, -1.0, -1.0)  # a straight line
    assert 0.0 < cubic_minimum(low, high) < 1.0


# The direction


@pytest.mark.parametrize("factor", [1.0, 0.5])  # of the steepest descent, where preconditioned
def test_hestenes_stiefel_is_its_formula(factor):
    gradient, previous, direction = (
        literal.symmetric_part(A) for A in np.random.default_rng(1).normal(size=(3, 3, 3))
    )
    change = gradient - previous
    direction = direction * np.sign(np.sum(direction * change))
    expected = factor * np.sum(gradient * change) / np.sum(direction * change)
    found = hestenes_stiefel(gradient, previous, direction, -factor * gradient)
    assert found == pytest.approx(max(0.0, expected), rel=1e-13)


def test_hestenes_stiefel_is_zero_without_curvature():
    gradient, previous = np.eye(2), 2 * np.eye(2)
    assert hestenes_stiefel(gradient, previous, np.eye(2), -gradient) == 0.0
    assert hestenes_stiefel(gradient, gradient, np.eye(2), -gradient) == 0.0


def test_hestenes_stiefel_is_never_negative():
    gradient, previous, direction = np.diag([1.0, 1.0]), np.diag([3.0, 0.0]), np.diag([0.0, 1.0])
    assert hestenes_stiefel(gradient, previous, direction, -gradient) == 0.0


def test_steepest_descent_of_low_rank_is_preconditioned_by_a_damped_inverse_covariance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)) * [9, 5, 3, 1, 1, 1]
    store, G = MemoryStore.of(X), rng.normal(size=(6, 2))
    axes = store.leading_axes(32, np.random.RandomState(0))
    covariance = store.covariance()
    damped = covariance + 0.3 * np.trace(covariance) / 6 * np.eye(6)
    got, expected = LowRank.among(store, *axes).steepest(None, None, G), -np.linalg.solve(damped, G)
    np.testing.assert_allclose(got / norm(got), expected / norm(expected))
    constant = MemoryStore.of(np.zeros((5, 3)))
    space = LowRank.among(constant, *constant.leading_axes(32, np.random.RandomState(0)))
    np.testing.assert_array_equal(space.steepest(None, None, G[:3]), -G[:3])

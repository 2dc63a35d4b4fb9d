"""The objective as a function of the metric, against the paper in loops."""

from dataclasses import replace

import literal
import numpy as np
import pytest

from mdaml.constraints import TripletSet
from mdaml.geometry import geodesic
from mdaml.kernels.cpu import smooth_hinge

SEEDS = range(20)


@pytest.fixture
def factor():
    """Return a function of a seed and a size that makes an invertible matrix."""

    def make(seed, n_features=4):
        rng = np.random.default_rng(1000 + seed)
        return 0.6 * np.eye(n_features) + 0.2 * rng.normal(size=(n_features, n_features))

    return make


@pytest.fixture
def direction():
    """Return a function of a seed and a size that makes a tangent vector of length one."""

    def make(seed, n_features=4):
        h = literal.symmetric_part(
            np.random.default_rng(2000 + seed).normal(size=(n_features, n_features))
        )
        return h / np.linalg.norm(h)

    return make


@pytest.fixture
def grid_problem(random_problem):
    """A problem whose triplets are all combinations of 4 similar and 11 dissimilar partners."""
    rng = np.random.default_rng(0)
    triplets = []
    for anchor in range(24):
        partners = rng.permutation(np.delete(np.arange(24), anchor))
        triplets += [(anchor, j, r) for j in partners[:4] for r in partners[4:15]]
    return replace(random_problem(0, n_samples=24), triplets=np.array(triplets))


def assert_close(actual, expected, tolerance):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# The loss


@pytest.mark.parametrize("kink", [0.0, 1.0])
@pytest.mark.parametrize("away", [-2.0, -0.5, -1e-9, 0.0, 1e-9, 0.5, 2.0])
def test_smooth_hinge_and_its_slope_are_those_of_the_paper_around_the_kinks(kink, away):
    x = kink + away
    loss, minus_slope = smooth_hinge(x)
    assert loss == pytest.approx(literal.smooth_hinge(x), rel=1e-14, abs=1e-24)
    assert -minus_slope == pytest.approx(literal.smooth_hinge_slope(x), rel=1e-14)


def test_smooth_hinge_is_exact_at_its_kinks():
    assert smooth_hinge(0.0) == (0.5, 1.0)
    assert smooth_hinge(1.0) == (0.0, 0.0)


# Value and gradient


@pytest.mark.parametrize("seed", SEEDS)
def test_value_and_gradient_are_those_of_the_paper(random_problem, local_problem, factor, seed):
    given, F = random_problem(seed), factor(seed)
    point = local_problem(given).objective().at(F)
    M = F @ F.T
    assert point.value == pytest.approx(given.value(M), rel=1e-10)
    np.testing.assert_allclose(point.gradient, F.T @ given.gradient(M) @ F, rtol=1e-10, atol=1e-12)


def test_value_and_gradient_of_a_grid_of_triplets_are_those_of_the_paper(
    grid_problem, local_problem, factor
):
    F = factor(0)
    point = local_problem(grid_problem).objective().at(F)
    M = F @ F.T
    assert point.value == pytest.approx(grid_problem.value(M), rel=1e-10)
    assert_close(point.gradient, F.T @ grid_problem.gradient(M) @ F, 1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_is_the_derivative_along_tangent_vectors(
    random_problem, local_problem, factor, direction, seed
):
    objective, F, h = local_problem(random_problem(seed)).objective(), factor(seed), direction(seed)
    line, t = geodesic(F, h), 1e-5
    difference = objective.at(line.frame(t)).value - objective.at(line.frame(-t)).value
    # The loss has kinks in its slope, hence not the full t**2 accuracy.
    expected = np.vdot(objective.at(F).gradient, h)
    assert difference / (2 * t) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_gradient_is_symmetric(random_problem, local_problem, factor):
    gradient = local_problem(random_problem(0)).objective().at(factor(0)).gradient
    np.testing.assert_allclose(gradient, gradient.T, rtol=1e-13, atol=1e-13)


def test_projected_samples_are_part_of_a_point(random_problem, local_problem, factor):
    given, F = random_problem(0), factor(0)
    point = local_problem(given).objective().at(F)
    np.testing.assert_allclose(point.projected * point.scale, given.X @ F, rtol=0, atol=1e-13)


# Along a geodesic


@pytest.mark.parametrize("seed", range(5))
def test_values_along_a_geodesic_are_those_at_its_frames(
    random_problem, local_problem, factor, direction, seed
):
    objective, F = local_problem(random_problem(seed)).objective(), factor(seed)
    line = geodesic(F, direction(seed))
    steps = np.array([-1.0, 0.0, 0.1, 2.0])
    values = objective.along(objective.at(F), line).values(steps)
    expected = [objective.at(line.frame(t)).value for t in steps]
    np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("t", [-1.0, 0.0, 2.0])
def test_point_along_a_geodesic_is_the_point_at_its_frame(
    random_problem, local_problem, factor, direction, seed, t
):
    objective, F = local_problem(random_problem(seed)).objective(), factor(seed)
    line = geodesic(F, direction(seed))
    point, expected = objective.along(objective.at(F), line).at(t), objective.at(line.frame(t))
    np.testing.assert_array_equal(point.F, expected.F)
    assert point.value == pytest.approx(expected.value, rel=1e-12)
    assert_close(point.gradient, expected.gradient, 1e-11)
    assert_close(point.projected * point.scale, expected.projected * expected.scale, 1e-12)


def test_origin_of_a_path_is_its_start_seen_from_the_frame_of_the_geodesic(
    random_problem, local_problem, factor, direction
):
    objective, F = local_problem(random_problem(0)).objective(), factor(0)
    start, line = objective.at(F), geodesic(F, direction(0))
    origin, expected = objective.along(start, line).origin, objective.at(line.basis)
    assert origin.value == start.value
    np.testing.assert_array_equal(origin.F, line.basis)
    assert_close(origin.gradient, expected.gradient, 1e-12)
    assert_close(origin.projected * origin.scale, expected.projected, 1e-12)


def test_geodesic_from_a_point_along_a_geodesic_carries_its_samples_on(
    random_problem, local_problem, factor, direction
):
    objective, F = local_problem(random_problem(0)).objective(), factor(0)
    halfway = objective.along(objective.at(F), geodesic(F, direction(0))).at(1.5)
    line = geodesic(halfway.F, direction(1))
    point, expected = objective.along(halfway, line).at(0.5), objective.at(line.frame(0.5))
    assert point.value == pytest.approx(expected.value, rel=1e-12)
    assert_close(point.gradient, expected.gradient, 1e-11)


def test_values_and_points_along_a_geodesic_agree(grid_problem, local_problem, factor, direction):
    objective, F = local_problem(grid_problem).objective(), factor(0)
    path = objective.along(objective.at(F), geodesic(F, direction(0)))
    steps = np.array([-1.0, 0.0, 0.1, 2.0])
    np.testing.assert_allclose(path.values(steps), [path.at(t).value for t in steps], rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("t", [0.0, 0.7])
def test_slope_along_a_geodesic_is_the_diagonal_of_the_gradient_times_the_rates(
    random_problem, local_problem, factor, direction, seed, t
):
    objective, F = local_problem(random_problem(seed)).objective(), factor(seed)
    line = geodesic(F, direction(seed))
    path = objective.along(objective.at(F), line)
    values = path.values(t + 1e-5 * np.array([-1, 1, -2, 2]))
    slope = np.diagonal(path.at(t).gradient) @ line.rates
    assert (values[1] - values[0]) / 2e-5 == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_slope_at_the_start_is_the_product_of_gradient_and_direction(
    random_problem, local_problem, factor, direction
):
    objective, F, h = local_problem(random_problem(0)).objective(), factor(0), direction(0)
    start, line = objective.at(F), geodesic(F, h)
    slope = np.diagonal(objective.along(start, line).at(0.0).gradient) @ line.rates
    assert slope == pytest.approx(np.vdot(start.gradient, h), rel=1e-11)


# The worked example


def test_value_of_the_example(example, local_problem):
    value = local_problem(example).objective().at(np.eye(2)).value
    assert value == pytest.approx(1.108791820, abs=5e-10)


def test_gradient_of_the_example(example, local_problem):
    gradient = local_problem(example).objective().at(np.eye(2)).gradient
    expected = [[-0.012801, -0.474914], [-0.474914, 0.945939]]
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=6e-7)


def test_scatter_of_the_example(example, local_problem):
    expected = [[0.110599, -0.027212], [-0.027212, 0.213405]]
    scatter = local_problem(example).objective().scatter
    np.testing.assert_allclose(scatter, expected, rtol=0, atol=6e-7)


def test_losses_of_the_example(example, local_problem):
    local = local_problem(example)
    pairs, losses = local.problem.triplets.pairs, local.start().losses
    unmet = losses > 0
    assert pairs[unmet].tolist() == [[2, 0], [4, 5], [7, 6]]
    np.testing.assert_allclose(losses[unmet], [0.78, 1.23, 6.73], rtol=1e-12)


def test_importances_of_the_example(example, local_problem):
    local = local_problem(example)
    pairs, importance = local.problem.triplets.pairs.tolist(), local.start().importance
    by_pair = {(0, 2): 0.373256, (0, 1): 0.250074, (1, 3): 0.075816, (4, 5): 0.175832}
    for pair, expected in by_pair.items():
        assert importance[pairs.index(list(pair))] == pytest.approx(expected, abs=6e-7)
    assert importance[pairs.index([0, 4])] == 0  # a far pair only


# What must not matter


@pytest.mark.parametrize("seed", range(5))
def test_single_precision_agrees_to_six_digits(random_problem, local_problem, factor, seed):
    given, F = random_problem(seed), factor(seed)
    double = local_problem(given).objective().at(F)
    single = local_problem(given.astype(np.float32)).objective().at(F)
    assert single.projected.dtype == np.float32
    assert single.value == pytest.approx(double.value, rel=1e-6)
    assert_close(single.gradient, double.gradient, 1e-5)


def test_single_precision_agrees_along_a_geodesic(random_problem, local_problem, factor, direction):
    given, F, line = random_problem(0), factor(0), geodesic(factor(0), direction(0))
    steps = np.array([-1.0, 0.0, 0.1, 2.0])
    values = [
        (objective := local_problem(problem).objective()).along(objective.at(F), line).values(steps)
        for problem in (given, given.astype(np.float32))
    ]
    np.testing.assert_allclose(values[1], values[0], rtol=2e-6)


def test_every_triplet_twice_is_the_same_objective(random_problem, local_problem, factor):
    given, F = random_problem(0), factor(0)
    twice = replace(given, triplets=np.repeat(given.triplets, 2, axis=0))
    point, expected = (local_problem(p).objective().at(F) for p in (twice, given))
    assert point.value == pytest.approx(expected.value, rel=1e-13)
    assert_close(point.gradient, expected.gradient, 1e-12)


def test_order_of_the_triplets_does_not_matter_to_the_last_bit(grid_problem, local_problem, factor):
    mixed = np.random.default_rng(0).permutation(grid_problem.triplets)
    local, expected = (
        local_problem(replace(grid_problem, triplets=mixed)),
        local_problem(grid_problem),
    )
    for array, same in zip(
        local.problem.triplets.arrays, expected.problem.triplets.arrays, strict=True
    ):
        np.testing.assert_array_equal(array, same)
    point, same = local.objective().at(factor(0)), expected.objective().at(factor(0))
    assert point.value == same.value
    np.testing.assert_array_equal(point.gradient, same.gradient)


def test_translation_of_the_samples_does_not_matter(random_problem, local_problem, factor):
    given, F = random_problem(0), factor(0)
    local, expected = local_problem(given), local_problem(given).objective().at(F)
    moved = given.shifted(np.array([100.0, -30.0, 5.0, 0.0]))
    objective = local.objective()
    point = replace(objective, X=moved.X).at(F)
    assert point.value == pytest.approx(expected.value, rel=1e-10)
    assert_close(point.gradient, expected.gradient, 1e-9)


def test_translation_of_samples_and_centers_leaves_the_scatter(random_problem, local_problem):
    given = random_problem(0)
    moved = given.shifted(np.array([100.0, -30.0, 5.0, 0.0]))
    scatter = local_problem(moved).objective().scatter
    assert_close(scatter, local_problem(given).objective().scatter, 1e-10)


def test_shared_and_separate_lists_of_far_pairs_agree(
    grid_problem, local_problem, factor, direction
):
    objective, F = local_problem(grid_problem).objective(), factor(0)
    shared = objective.triplets
    lengths = shared.last - shared.first
    last = np.cumsum(lengths)
    lists = [shared.far[a:b] for a, b in zip(shared.first, shared.last, strict=True)]
    separate = TripletSet(
        shared.pairs, last - lengths, last, np.concatenate(lists), shared.groups, shared.n_samples
    )
    assert len(shared.far) < len(separate.far) == len(grid_problem.triplets)
    other, line = replace(objective, triplets=separate), geodesic(F, direction(0))
    point, expected = other.at(F), objective.at(F)
    assert point.value == pytest.approx(expected.value, rel=1e-13)
    assert_close(point.gradient, expected.gradient, 1e-13)
    steps = np.array([0.0, 0.1, 0.5, 1.0])
    np.testing.assert_allclose(
        other.along(point, line).values(steps),
        objective.along(expected, line).values(steps),
        rtol=1e-13,
    )


def test_scatter_is_positive_semidefinite(random_problem, local_problem):
    given = random_problem(0, n_samples=4, n_features=6, n_modes=2, n_triplets=2, dtype=np.float32)
    eigenvalues = np.linalg.eigvalsh(local_problem(given).objective().scatter)
    assert eigenvalues[0] >= -1e-14 * eigenvalues[-1]

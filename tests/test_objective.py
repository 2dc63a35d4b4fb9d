"""The objective as a function of the metric in every store and space, against the paper."""

from dataclasses import replace

import literal
import numpy as np
import pytest
from suite.lists import spelled_out

from mdaml.kernels.pairs import smooth_hinge
from mdaml.solver.geometry import dot
from mdaml.solver.spaces import FullRank
from mdaml.stores.memory import MemoryStore

pytestmark = pytest.mark.usefixtures("tiny_blocks")

STEPS = np.array([-1.0, 0.0, 0.1, 2.0])
ANCHORS = {
    "no anchor": None,
    "at a multiple": 0.5 * np.eye(4),
    "at a matrix": literal.symmetric_part(np.diag([0.2, 0.5, 1.0, 3.0]) + 0.2),
}
every_anchor = pytest.mark.parametrize("anchor", ["at a multiple", "at a matrix"])


@pytest.fixture(params=ANCHORS)
def problem(request, random_problem, form):
    """Return a function of a seed that makes a problem, with and without an anchor."""

    def make(seed, **options):
        given = random_problem(seed, form=form, **options)
        anchor = ANCHORS[request.param]
        return given if anchor is None else given.anchored(anchor, strength=3.0)

    return make


@pytest.fixture
def case(problem, local_problem, store, rank):
    """Return a function of a seed that makes a problem, its objective, a factor, a direction."""

    def make(seed, **options):
        given = problem(seed, **options)
        objective = local_problem(given, store=store, rank=rank).objective()
        return given, objective, *factor_and_direction(seed, rank)

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


def factor_and_direction(seed, rank=None):
    """An invertible factor and a tangent vector in its frame, or a factor and a change of it."""
    rng = np.random.default_rng(1000 + seed)
    if rank is not None:
        return tuple(0.7 * rng.normal(size=(2, 4, rank)))
    h = literal.symmetric_part(rng.normal(size=(4, 4)))
    return 0.6 * np.eye(4) + 0.2 * rng.normal(size=(4, 4)), h / np.linalg.norm(h)


def gradient_at(objective, F):
    """Value and gradient in the coordinates of the space."""
    point = objective.at(F)
    return point.value, objective.space.gradient(objective, point)


def path_from(objective, F, direction):
    """The objective along the curve that leaves F in a direction, and the gradient at F."""
    point = objective.at(F)
    gradient = objective.space.gradient(objective, point)
    return objective.along(point, gradient, direction), gradient


def projected(point):
    """The samples times the factor of a point."""
    return point.projected * getattr(point, "scale", 1.0)


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


@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_are_those_of_the_paper(case, rank, seed):
    given, objective, F, _ = case(seed)
    value, gradient = gradient_at(objective, F)
    M = F @ F.T
    by_metric = given.gradient(M)
    expected = F.T @ by_metric @ F if rank is None else 2 * by_metric @ F
    assert value == pytest.approx(given.value(M), rel=1e-10)
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("rank", [1, 4])
def test_value_and_gradient_at_the_lowest_and_the_highest_rank(
    random_problem, local_problem, store, rank
):
    given, (F, _) = random_problem(0), factor_and_direction(0, rank)
    value, gradient = gradient_at(local_problem(given, store=store, rank=rank).objective(), F)
    assert value == pytest.approx(given.value(F @ F.T), rel=1e-11)
    np.testing.assert_allclose(gradient, 2 * given.gradient(F @ F.T) @ F, rtol=1e-9, atol=1e-10)


def test_value_and_gradient_of_a_grid_of_triplets_are_those_of_the_paper(
    grid_problem, local_problem, store
):
    F, _ = factor_and_direction(0)
    point, M = local_problem(grid_problem, store=store).objective().at(F), F @ F.T
    assert point.value == pytest.approx(grid_problem.value(M), rel=1e-10)
    assert_close(point.gradient, F.T @ grid_problem.gradient(M) @ F, 1e-10)


def test_gradient_is_the_derivative_in_every_direction(case, rank):
    _, objective, F, direction = case(0)
    _, gradient = gradient_at(objective, F)
    t = 1e-5
    for place in np.ndindex(direction.shape):
        unit = np.zeros_like(direction)
        unit[place] = 1.0
        unit = literal.symmetric_part(unit) if rank is None else unit
        path, _ = path_from(objective, F, unit)
        ends = [objective.at(path.at(step).F).value for step in (-t, t)]
        # The loss has kinks in its slope, hence not the full t**2 accuracy.
        expected = dot(gradient, unit)
        assert (ends[1] - ends[0]) / (2 * t) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_gradient_of_full_rank_is_symmetric(random_problem, local_problem):
    gradient = local_problem(random_problem(0)).objective().at(factor_and_direction(0)[0]).gradient
    np.testing.assert_allclose(gradient, gradient.T, rtol=1e-13, atol=1e-13)


def test_projected_samples_are_part_of_a_point(case):
    given, objective, F, _ = case(0)
    np.testing.assert_allclose(projected(objective.at(F)), given.X @ F, rtol=0, atol=1e-13)


def test_a_rotation_of_the_factor_changes_nothing(case):
    _, objective, F, _ = case(0)
    Q = np.linalg.qr(np.random.default_rng(5).normal(size=(F.shape[1], F.shape[1])))[0]
    assert objective.at(F @ Q).value == pytest.approx(objective.at(F).value, rel=1e-12)


# Along a curve


@pytest.mark.parametrize("seed", range(2))
def test_points_along_a_curve_are_those_at_their_factors(case, rank, seed):
    _, objective, F, direction = case(seed)
    path, _ = path_from(objective, F, direction)
    for t in [*STEPS, 1e-3]:
        point = path.at(t)
        fresh = objective.at(point.F)
        expected = objective.space.gradient(objective, fresh)
        assert point.value == pytest.approx(fresh.value, rel=1e-12)
        assert_close(objective.space.gradient(objective, point), expected, 1e-11)
        assert_close(projected(point), projected(fresh), 1e-12)
        assert path.slope(point) == pytest.approx(dot(expected, path.direction), rel=1e-9, abs=1e-9)
        if rank is None:
            np.testing.assert_array_equal(point.F, path.line.frame(t))
        else:
            np.testing.assert_array_equal(point.F, F + t * direction)


@pytest.mark.parametrize("seed", range(2))
def test_slope_along_a_curve_is_the_derivative(case, seed):
    _, objective, F, direction = case(seed)
    path, gradient = path_from(objective, F, direction)
    for t in (0.0, 0.7):
        ends = [path.at(t + step).value for step in (-1e-5, 1e-5)]
        slope = path.slope(path.at(t))
        assert (ends[1] - ends[0]) / 2e-5 == pytest.approx(slope, rel=1e-5, abs=1e-4)
    assert path.slope(path.at(0.0)) == pytest.approx(dot(gradient, direction), rel=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_four_values_along_a_geodesic_are_those_of_its_points(problem, local_problem, store, seed):
    objective = local_problem(problem(seed), store=store).objective()
    path, _ = path_from(objective, *factor_and_direction(seed))
    expected = [objective.at(path.line.frame(t)).value for t in STEPS]
    np.testing.assert_allclose(path.values(STEPS), expected, rtol=1e-12)


def test_origin_of_a_path_is_its_start_in_the_coordinates_of_the_path(case):
    _, objective, F, direction = case(0)
    value = objective.at(F).value
    path, gradient = path_from(objective, F, direction)
    fresh = objective.at(path.origin.F)
    assert path.origin.value == value
    assert_close(path.origin.F @ path.origin.F.T, F @ F.T, 1e-13)
    assert_close(path.gradient, objective.space.gradient(objective, fresh), 1e-12)
    assert_close(projected(path.origin), projected(fresh), 1e-12)
    assert dot(path.gradient, path.direction) == pytest.approx(dot(gradient, direction), rel=1e-12)


def test_curve_from_a_point_along_a_curve_carries_its_samples_on(case, rank):
    _, objective, F, direction = case(0)
    halfway = path_from(objective, F, direction)[0].at(1.5)
    gradient = objective.space.gradient(objective, halfway)
    path = objective.along(halfway, gradient, factor_and_direction(1, rank)[1])
    point = path.at(0.5)
    value, expected = gradient_at(objective, point.F)
    assert point.value == pytest.approx(value, rel=1e-12)
    assert_close(objective.space.gradient(objective, point), expected, 1e-11)


def test_four_values_of_a_grid_of_triplets_are_those_of_its_points(grid_problem, local_problem):
    path, _ = path_from(local_problem(grid_problem).objective(), *factor_and_direction(0))
    np.testing.assert_allclose(path.values(STEPS), [path.at(t).value for t in STEPS], rtol=1e-12)


def test_values_along_the_multiples_of_a_metric_are_those_at_them(problem, local_problem, store):
    objective = local_problem(problem(0), store=store).objective()
    F, _ = factor_and_direction(0)
    path = FullRank().multiples(objective, F)
    expected = [objective.at(np.exp(0.5 * t) * F).value for t in STEPS]
    np.testing.assert_allclose(path.values(STEPS), expected, rtol=1e-12)


# The anchor


@pytest.fixture
def both(random_problem, local_problem, rank):
    """Return a function that makes an objective without and one with an anchor."""

    def make(anchor, strength=2.0):
        given = random_problem(0)
        held = given.anchored(ANCHORS[anchor], strength)
        return [local_problem(each, rank=rank).objective() for each in (given, held)]

    return make


def added(both, F):
    """What the anchor adds to value and gradient."""
    (value, gradient), (held, held_gradient) = (gradient_at(objective, F) for objective in both)
    return held - value, held_gradient - gradient


@every_anchor
def test_at_the_anchor_its_term_and_the_gradient_of_that_are_zero(both, anchor, rank):
    # Of low rank any metric that the anchor has in a subspace.
    F = np.linalg.cholesky(ANCHORS[anchor])
    F = F if rank is None else F @ np.linalg.qr(factor_and_direction(0, rank)[0])[0]
    value, gradient = added(both(anchor), F)
    assert value == pytest.approx(0, abs=1e-13)
    np.testing.assert_allclose(gradient, 0, atol=1e-13)


@every_anchor
def test_away_from_the_anchor_its_term_is_positive(both, anchor, rank):
    objectives = both(anchor)
    for seed in range(20):
        F, _ = factor_and_direction(seed, rank)
        for scale in (1e-6, 1.0, 1e3):
            assert added(objectives, scale * F)[0] > 0


@every_anchor
def test_the_term_of_the_anchor_is_the_divergence_times_its_strength(both, anchor, rank):
    for strength in (1e-3, 2.0, 1e3):
        for seed in range(3):
            F, _ = factor_and_direction(seed, rank)
            A = ANCHORS[anchor]
            inside = F.T @ np.linalg.solve(A, F)
            divergence = np.trace(inside) - np.log(np.linalg.det(inside)) - F.shape[1]
            assert divergence == pytest.approx(literal.divergence(F @ F.T, A), rel=1e-10)
            value, gradient = added(both(anchor, strength), F)
            assert value == pytest.approx(strength * divergence, rel=1e-9, abs=1e-10)
            by_metric = strength * literal.divergence_gradient(F @ F.T, A)
            expected = F.T @ by_metric @ F if rank is None else 2 * by_metric @ F
            np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-9 * max(1, strength))


def test_a_multiple_of_the_identity_is_an_anchor_like_any_other(both, rank):
    objective = both("at a multiple")[1]
    assert objective.anchor.precision.shape == (1, 1)
    whole = replace(objective.anchor, precision=objective.anchor.precision * np.eye(4))
    F, direction = factor_and_direction(0, rank)
    objectives = objective, replace(objective, anchor=whole)
    (value, gradient), (same, expected) = (gradient_at(each, F) for each in objectives)
    assert value == pytest.approx(same, rel=1e-13)
    assert_close(gradient, expected, 1e-13)
    if rank is None:
        values = [path_from(each, F, direction)[0].values(STEPS) for each in objectives]
        np.testing.assert_allclose(*values, rtol=1e-13)


def test_an_anchor_without_strength_changes_no_bit(both, rank):
    value, gradient = added(both("at a matrix", strength=0.0), factor_and_direction(0, rank)[0])
    assert value == 0
    assert not gradient.any()


# The worked example


def test_value_gradient_and_scatter_of_the_example(example, local_problem, store):
    objective = local_problem(example, store=store).objective()
    point = objective.at(np.eye(2))
    assert point.value == pytest.approx(1.108791820, abs=5e-10)
    gradient = [[-0.012801, -0.474914], [-0.474914, 0.945939]]
    scatter = [[0.110599, -0.027212], [-0.027212, 0.213405]]
    np.testing.assert_allclose(point.gradient, gradient, rtol=0, atol=6e-7)
    np.testing.assert_allclose(objective.scatter, scatter, rtol=0, atol=6e-7)


def test_losses_and_importances_of_the_example(example, local_problem, store):
    local = local_problem(example, store=store)
    pairs, state = local.store.comparisons.pairs.tolist(), local.start()
    losses = {tuple(p): x for p, x in zip(pairs, state.measured.losses, strict=True) if x > 0}
    assert losses == pytest.approx({(2, 0): 0.78, (4, 5): 1.23, (7, 6): 6.73}, rel=1e-12)
    by_pair = {(0, 2): 0.373256, (0, 1): 0.250074, (1, 3): 0.075816, (4, 5): 0.175832}
    for pair, expected in by_pair.items():
        assert state.importance[pairs.index(list(pair))] == pytest.approx(expected, abs=6e-7)
    assert state.importance[pairs.index([0, 4])] == 0  # a far pair only


# What must not matter


def test_single_precision_agrees_to_six_digits(problem, local_problem, store, rank):
    given, (F, direction) = problem(0), factor_and_direction(0, rank)
    double, single = (
        local_problem(problem, store=store, rank=rank).objective()
        for problem in (given, given.astype(np.float32))
    )
    point, expected = single.at(F), double.at(F)
    assert point.projected.dtype == np.float32
    assert point.value == pytest.approx(expected.value, rel=1e-6)
    gradient = double.space.gradient(double, expected)
    assert_close(single.space.gradient(single, point), gradient, 1e-5)
    if rank is None:
        values = [
            path_from(objective, F, direction)[0].values(STEPS) for objective in (single, double)
        ]
        np.testing.assert_allclose(*values, rtol=2e-6)


def test_every_comparison_twice_is_the_same_objective(local_problem, rank, case):
    given, objective, F, _ = case(0)
    value, gradient = gradient_at(local_problem(given.twice(), rank=rank).objective(), F)
    same, expected = gradient_at(objective, F)
    assert value == pytest.approx(same, rel=1e-13)
    assert_close(gradient, expected, 1e-12)


def test_order_of_the_triplets_does_not_matter_to_the_last_bit(grid_problem, local_problem, store):
    mixed = np.random.default_rng(0).permutation(grid_problem.triplets)
    local, expected = (
        local_problem(problem, store=store)
        for problem in (replace(grid_problem, triplets=mixed), grid_problem)
    )
    for array, same in zip(
        local.store.comparisons.lists, expected.store.comparisons.lists, strict=True
    ):
        np.testing.assert_array_equal(array, same)
    F, _ = factor_and_direction(0)
    point, same = local.objective().at(F), expected.objective().at(F)
    assert point.value == same.value
    np.testing.assert_array_equal(point.gradient, same.gradient)


def test_translation_of_the_samples_does_not_matter(random_problem, local_problem, rank):
    """Not even that of samples which are not centred, as far as their products hold digits."""
    given, (F, _) = random_problem(0), factor_and_direction(0, rank)
    local = local_problem(given, rank=rank)
    moved = given.shifted(np.array([100.0, -30.0, 5.0, 0.0]))
    at_home = MemoryStore(given.X, np.zeros(4)).compare(given.supervision)
    away = MemoryStore(moved.X, np.zeros(4)).compare(given.supervision)
    importance = at_home.importances(local.modes.weights)
    results = [
        store.loss_and_half(store.project(F), np.ones(F.shape[1]), importance)
        for store in (away, at_home)
    ]
    (loss, half), (same, expected) = results
    assert loss == pytest.approx(same, rel=1e-10)
    assert_close(half + half.T, expected + expected.T, 1e-9)
    elsewhere, here = (local_problem(p, rank=rank).objective() for p in (moved, given))
    (value, gradient), (same, expected) = gradient_at(elsewhere, F), gradient_at(here, F)
    assert value == pytest.approx(same, rel=1e-10)
    assert_close(gradient, expected, 1e-10)
    assert_close(elsewhere.scatter, here.scatter, 1e-10)


def test_shared_and_separate_lists_of_far_pairs_agree(grid_problem, local_problem):
    objective, (F, direction) = local_problem(grid_problem).objective(), factor_and_direction(0)
    shared = objective.store.comparisons
    starts, far = spelled_out(shared.starts, shared.far)
    separate = replace(shared, starts=starts, far=far)
    assert len(shared.far) < len(separate.far) == len(grid_problem.triplets)
    other = replace(objective, store=replace(objective.store, comparisons=separate))
    point, expected = other.at(F), objective.at(F)
    assert point.value == pytest.approx(expected.value, rel=1e-13)
    assert_close(point.gradient, expected.gradient, 1e-13)
    values = [path_from(each, F, direction)[0].values(STEPS) for each in (other, objective)]
    np.testing.assert_allclose(*values, rtol=1e-13)


def test_scatter_is_positive_semidefinite(random_problem, local_problem):
    given = random_problem(0, n_samples=4, n_features=6, n_modes=2, n_triplets=2, dtype=np.float32)
    eigenvalues = np.linalg.eigvalsh(local_problem(given).objective().scatter)
    assert eigenvalues[0] >= -1e-14 * eigenvalues[-1]

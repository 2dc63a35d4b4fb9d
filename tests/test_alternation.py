"""Algorithm 2: centres, weights and metric in turn."""

from dataclasses import replace

import literal
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdaml.alternation import alternate
from mdaml.optimize import Status


@st.composite
def problems(draw):
    """Keywords of ``random_problem``, and how to spoil its result."""
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    some_ridge = st.floats(-6, 0).map(lambda power: 10.0**power)
    sizes = {
        "seed": draw(st.integers(0, 2**32 - 1)),
        "n_samples": draw(st.integers(4, 40)),
        "n_features": draw(st.integers(1, 6)),
        "n_modes": draw(st.integers(1, 5)),
        "n_triplets": draw(st.sampled_from([1, 2, 5, 20, 60])),
        "eta": draw(st.floats(1.05, 8.0)),
        "triplet_weight": 10.0 ** draw(st.floats(-3, 6)),
        "ridge": draw(st.just(0.0) | some_ridge),
        "dtype": dtype,
    }
    faults = [
        "duplicate rows",
        "constant feature",
        "duplicate triplets",
        "contradictions",
        "scales",
    ]
    return sizes, draw(st.sets(st.sampled_from(faults)))


def spoiled(problem, faults, seed):
    """The problem with features of real data that are easily forgotten."""
    rng = np.random.default_rng(seed)
    X, triplets = problem.X.copy(), problem.triplets
    if "duplicate rows" in faults:
        X[rng.integers(len(X), size=len(X) // 2)] = X[0]
    if "constant feature" in faults:
        X[:, 0] = 1.0
    if "scales" in faults:
        X *= np.logspace(-3, 1, X.shape[1], dtype=X.dtype)
    if "duplicate triplets" in faults:
        triplets = np.concatenate([triplets, triplets[::2], triplets[:1]])
    if "contradictions" in faults:
        triplets = np.concatenate([triplets, triplets[:, [0, 2, 1]]])
    return replace(problem, X=X - X.mean(axis=0), triplets=triplets)


def literal_value(problem, state):
    """Eq. 7 by the loops, in double precision, at a state."""
    double = replace(problem, centers=state.modes.centers, weights=state.modes.weights).astype(
        np.float64
    )
    return double.value(state.F @ state.F.T)


# Any problem


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=problems())
def test_objective_never_rises_and_is_that_of_the_paper(drawn, random_problem, local_problem):
    sizes, faults = drawn
    problem = spoiled(random_problem(**sizes), faults, sizes["seed"])
    local = local_problem(problem)
    outcome = alternate(local.problem, local.start(), max_iter=4, tol=0.0)
    state, history = outcome.state, np.array(outcome.history)
    assert np.all(history[1:] <= history[:-1])
    assert np.all(np.isfinite(history))
    for array in (state.F, state.modes.centers, state.modes.weights, state.modes.powers):
        assert np.all(np.isfinite(array))
    single = sizes["dtype"] is np.float32
    sums = state.modes.weights.sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(sums, 1, rtol=1e-6 if single else 1e-14)
    assert history[-1] == state.value
    # Where almost nothing is left of the objective, or without ridge the metric is huge, the loops
    # know it only up to rounding.
    X, M = local.problem.X, state.F @ state.F.T
    rounding = np.finfo(X.dtype).eps * (history[0] + np.linalg.norm(M) * np.vdot(X, X) / len(X))
    assert history[-1] == pytest.approx(
        literal_value(replace(problem, X=X), state), rel=1e-4 if single else 1e-10, abs=rounding
    )


# One round


@pytest.mark.parametrize("seed", range(20))
def test_centers_and_weights_are_those_of_the_paper(random_problem, local_problem, seed):
    problem = random_problem(seed)
    local = local_problem(problem)
    F = np.eye(4) + 0.2 * np.random.default_rng(seed).normal(size=(4, 4))
    state = local.problem.move_weights(local.problem.move_centers(local.start(F)))
    centers = literal.update_centers(problem.X, problem.weights, problem.eta)
    weights = literal.update_weights(
        F @ F.T,
        centers,
        problem.weights,
        problem.X,
        problem.triplets,
        eta=problem.eta,
        triplet_weight=problem.triplet_weight,
        order=local.problem.neighbors.order,
    )
    np.testing.assert_allclose(state.modes.centers, centers, rtol=0, atol=1e-12)
    np.testing.assert_allclose(state.modes.weights, weights, rtol=1e-10, atol=1e-14)
    assert state.value == pytest.approx(literal_value(problem, state), rel=1e-10)


@pytest.mark.parametrize("move", ["move_centers", "move_weights", "move_metric"])
@pytest.mark.parametrize("seed", range(5))
def test_each_move_lowers_the_objective(random_problem, local_problem, seed, move):
    local = local_problem(random_problem(seed))
    before = local.start()
    after = getattr(local.problem, move)(before)
    assert after.value < before.value


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_a_state_fit_together_after_a_round(random_problem, local_problem, seed):
    local = local_problem(random_problem(seed))
    state = alternate(local.problem, local.start(), max_iter=1, tol=0.0).state
    fresh = local.problem.start(state.F, state.modes)
    np.testing.assert_allclose(state.sq_dists, fresh.sq_dists, rtol=1e-12)
    np.testing.assert_allclose(state.losses, fresh.losses, rtol=1e-12)
    np.testing.assert_allclose(state.importance, fresh.importance, rtol=1e-12)
    np.testing.assert_allclose(state.modes.powers, state.modes.weights**3, rtol=1e-12)
    assert state.value == pytest.approx(fresh.value, rel=1e-12)


def test_value_of_a_state_is_that_of_its_objective_in_the_metric(random_problem, local_problem):
    local = local_problem(random_problem(0))
    state = local.start()
    value = local.problem.objective(state).at(state.F).value
    assert value == pytest.approx(state.value, rel=1e-12)


def test_moves_leave_the_old_state_as_it_was(random_problem, local_problem):
    local = local_problem(random_problem(0))
    before = local.start()
    weights, centers = before.modes.weights.copy(), before.modes.centers.copy()
    alternate(local.problem, before, max_iter=2, tol=0.0)
    np.testing.assert_array_equal(before.modes.weights, weights)
    np.testing.assert_array_equal(before.modes.centers, centers)
    np.testing.assert_array_equal(before.F, np.eye(4))


def test_one_mode_gives_all_triplets_the_same_importance(random_problem, local_problem):
    local = local_problem(random_problem(0, n_modes=1))
    state = alternate(local.problem, local.start(), max_iter=2, tol=0.0).state
    near = local.problem.triplets.last > local.problem.triplets.first
    np.testing.assert_allclose(state.importance[near], 1.0, rtol=1e-14)
    np.testing.assert_allclose(state.modes.weights, 1.0, rtol=1e-14)


# Why one sample after another


def test_simultaneous_update_of_the_weights_can_raise_the_objective(random_problem, local_problem):
    problem = random_problem(0, eta=1.5, triplet_weight=1e4)
    before = problem.value(np.eye(4))
    weights = literal.update_weights_simultaneously(
        np.eye(4),
        problem.centers,
        problem.weights,
        problem.X,
        problem.triplets,
        eta=problem.eta,
        triplet_weight=problem.triplet_weight,
    )
    assert replace(problem, weights=weights).value(np.eye(4)) > before
    local = local_problem(problem)
    assert local.problem.move_weights(local.start()).value < before


# The worked example


def test_centers_of_the_example(example, local_problem):
    local = local_problem(replace(example, centers=np.zeros((2, 2))))
    centers = local.problem.move_centers(local.start()).modes.centers + example.X.mean(axis=0)
    expected = [[0.536474, 0.632789], [2.665105, 1.057211]]
    np.testing.assert_allclose(centers, expected, rtol=0, atol=6e-7)


def test_weights_of_the_example_in_index_order(example, local_problem):
    local = local_problem(example, in_index_order=True)
    state = local.problem.move_weights(local.start())
    first = [0.593396, 0.792424, 0.585331, 0.634938, 0.615425, 0.257330, 0.511563, 0.449914]
    np.testing.assert_allclose(state.modes.weights[:, 0], first, rtol=0, atol=6e-7)
    assert state.value == pytest.approx(0.509866500, abs=6e-10)


def test_weights_of_the_example_in_the_order_of_colours(example, local_problem):
    local = local_problem(example)
    order = local.problem.neighbors.order
    assert sorted(order) == list(range(8))
    assert list(order) != list(range(8))
    expected = literal.update_weights(
        np.eye(2),
        example.centers,
        example.weights,
        example.X,
        example.triplets,
        eta=3,
        triplet_weight=10,
        order=order,
    )
    weights = local.problem.move_weights(local.start()).modes.weights
    np.testing.assert_allclose(weights, expected, rtol=1e-11)


def test_metric_step_of_the_example_falls_below_ten_steps_of_manopt(example, local_problem):
    local = local_problem(example, in_index_order=True, max_inner_iter=10)
    outcome = alternate(local.problem, local.start(), max_iter=1, tol=0.0)
    assert outcome.history[0] == pytest.approx(1.108791820, abs=6e-10)
    assert outcome.history[2] == pytest.approx(0.509866500, abs=6e-10)
    assert 0.076110144 <= outcome.history[3] <= 0.0799566


# Stopping


def test_history_has_the_start_and_three_values_per_round(random_problem, local_problem):
    local = local_problem(random_problem(0))
    outcome = alternate(local.problem, local.start(), max_iter=3, tol=0.0)
    assert outcome.n_iter == 3
    assert len(outcome.history) == 10
    assert outcome.history[0] == local.start().value
    assert outcome.status is Status.MAX_ITER


def test_no_rounds_return_the_start(random_problem, local_problem):
    local = local_problem(random_problem(0))
    start = local.start()
    outcome = alternate(local.problem, start, max_iter=0, tol=0.0)
    assert outcome.state is start
    assert (outcome.n_iter, outcome.history) == (0, [start.value])


def test_small_decrease_in_a_round_stops_it(random_problem, local_problem):
    local = local_problem(random_problem(0))
    outcome = alternate(local.problem, local.start(), max_iter=100, tol=1e-2)
    assert outcome.status is Status.STALLED
    assert outcome.n_iter < 100
    rounds = np.array(outcome.history[::3])
    falls = (rounds[:-1] - rounds[1:]) / rounds[:-1]
    assert np.all(falls[:-1] > 1e-2)
    assert falls[-1] <= 1e-2


def test_callback_sees_every_round(random_problem, local_problem):
    local, seen = local_problem(random_problem(0)), []
    outcome = alternate(
        local.problem,
        local.start(),
        max_iter=3,
        tol=0.0,
        callback=lambda *args: seen.append(args),
    )
    assert [iteration for iteration, _ in seen] == [1, 2, 3]
    assert [value for _, value in seen] == outcome.history[3::3]
    assert outcome.status is Status.MAX_ITER  # None from the callback goes on


def test_callback_can_stop_it(random_problem, local_problem):
    local = local_problem(random_problem(0))
    outcome = alternate(
        local.problem,
        local.start(),
        max_iter=10,
        tol=0.0,
        callback=lambda iteration, _: iteration == 2,
    )
    assert (outcome.status, outcome.n_iter) == (Status.STOPPED, 2)
    assert len(outcome.history) == 7


def test_move_that_would_raise_the_objective_is_not_made(random_problem, local_problem):
    local = local_problem(random_problem(0))
    start = local.start()

    class Clumsy:
        def move_centers(self, state):
            return replace(state, value=state.value + 1.0)

        move_weights = move_metric = move_centers

    outcome = alternate(Clumsy(), start, max_iter=5, tol=1e-4)
    assert outcome.state is start
    assert outcome.history == [start.value] * 4
    assert outcome.status is Status.STALLED


# What must not matter


def test_same_start_same_outcome_to_the_last_bit(random_problem, local_problem):
    first, second = (
        alternate(
            (local := local_problem(random_problem(0))).problem, local.start(), max_iter=3, tol=0
        )
        for _ in range(2)
    )
    assert first.history == second.history
    np.testing.assert_array_equal(first.state.F, second.state.F)


def test_every_triplet_twice_gives_the_same_path(random_problem, local_problem):
    problem = random_problem(0)
    twice = replace(problem, triplets=np.repeat(problem.triplets, 2, axis=0))
    histories = [
        alternate((local := local_problem(p)).problem, local.start(), max_iter=2, tol=0.0).history
        for p in (problem, twice)
    ]
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-7)


def test_translation_of_the_samples_gives_the_same_path(random_problem, local_problem):
    problem = random_problem(0)
    histories = [
        alternate((local := local_problem(p)).problem, local.start(), max_iter=2, tol=0.0).history
        for p in (problem, problem.shifted(np.array([100.0, -30.0, 5.0, 0.0])))
    ]
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-7)


def test_without_ridge_in_single_precision_the_metric_does_not_run_away(
    random_problem, local_problem
):
    """A scatter with a negative eigenvalue, left by rounding, once let the metric grow to 1e15."""
    given = random_problem(
        4,
        n_samples=4,
        n_features=5,
        n_modes=2,
        n_triplets=1,
        eta=1.0546875,
        triplet_weight=1.0,
        ridge=0.0,
        dtype=np.float32,
    )
    X = given.X.copy()
    X[np.random.default_rng(4).integers(4, size=2)] = X[0]
    local = local_problem(replace(given, X=X - X.mean(axis=0)))
    outcome = alternate(local.problem, local.start(), max_iter=4, tol=0.0)
    assert np.abs(outcome.state.F).max() < 1e6

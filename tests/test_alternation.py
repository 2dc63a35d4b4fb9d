"""Algorithm 2, in every store and space: centres, weights and metric in turn."""

import weakref
from dataclasses import replace

import literal
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mdaml.solver.alternation import Alternation
from mdaml.solver.conjugate_gradient import Status
from mdaml.stores.blocks import BlockStore
from mdaml.stores.memory import MemoryStore


@pytest.fixture
def case(random_problem, local_problem, store, rank, form):
    """Return a function of a seed that makes a problem, and the library's own."""

    def make(seed, *, floor=0.0, anchor=0.0, **options):
        problem = replace(random_problem(seed, form=form, **options), floor=floor)
        local = local_problem(problem, store=store, rank=rank, anchor=anchor)
        return problem.anchored(*anchor_of(local)) if anchor else problem, local

    return make


FAULTS = (
    "duplicate rows",
    "constant feature",
    "duplicate comparisons",
    "contradictions",
    "scales",
    "wild weights",
)


FLOORS = (0.0, 0.05, 0.5, 1.0)


@st.composite
def problems(draw):
    """Keywords of ``random_problem``, how to spoil its result, and where to solve it."""
    some_ridge = st.floats(-6, 0).map(lambda power: 10.0**power)
    sizes = {
        "seed": draw(st.integers(0, 2**32 - 1)),
        "n_samples": draw(st.integers(4, 40)),
        "n_features": draw(st.integers(1, 8)),
        "n_modes": draw(st.integers(1, 5)),
        "n_triplets": draw(st.sampled_from([1, 2, 5, 20, 60])),
        "eta": draw(st.floats(1.05, 8.0)),
        "triplet_weight": 10.0 ** draw(st.floats(-3, 6)),
        "ridge": draw(st.just(0.0) | some_ridge),
        "dtype": draw(st.sampled_from([np.float64, np.float32])),
        "form": draw(st.sampled_from(["triplets", "quadruplets"])),
    }
    place = {
        "store": draw(st.sampled_from([MemoryStore, BlockStore])),
        "rank": draw(st.none() | st.integers(1, sizes["n_features"])),
    }
    beyond = {
        "floor": draw(st.sampled_from(FLOORS)),
        "anchor": draw(st.just(0.0) | st.floats(-3, 2).map(lambda power: 10.0**power)),
    }
    return sizes, draw(st.sets(st.sampled_from(FAULTS))), place, beyond


def spoiled(problem, faults, seed):
    """The problem with features of real data that are easily forgotten."""
    rng = np.random.default_rng(seed)
    X, triplets, quadruplets = problem.X.copy(), problem.triplets, problem.quadruplets
    if "duplicate rows" in faults:
        X[rng.integers(len(X), size=len(X) // 2)] = X[0]
    if "constant feature" in faults:
        X[:, 0] = 1.0
    if "scales" in faults:
        X *= np.logspace(-3, 1, X.shape[1], dtype=X.dtype)
    if "duplicate comparisons" in faults:
        triplets = np.concatenate([triplets, triplets[::2], triplets[:1]])
    if "contradictions" in faults:
        triplets = np.concatenate([triplets, triplets[:, [0, 2, 1]]])
        quadruplets = (
            None
            if quadruplets is None
            else rng.permuted(quadruplets.reshape(-1, 2, 2), axis=1).reshape(-1, 4)
        )
    weights = problem.quadruplet_weights
    if "wild weights" in faults and weights is not None:
        weights = 10.0 ** rng.uniform(-8, 8, len(weights))
    arrays = {"triplets": triplets, "quadruplets": quadruplets, "quadruplet_weights": weights}
    return replace(problem, X=X - X.mean(axis=0), **arrays)


def anchor_of(local):
    """The anchor of the library's own problem as a metric, and its strength."""
    anchor = local.alternation.anchor
    return np.linalg.inv(anchor.times(np.eye(len(local.F)))), anchor.strength


def literal_value(problem, state):
    """Eq. 7 by the loops, in double precision, at a state."""
    modes = state.modes
    at_state = replace(problem, centers=modes.centers, weights=modes.weights.weights)
    return at_state.astype(np.float64).value(state.F @ state.F.T)


def literal_weights(problem, M, centers, order):
    """Eq. 14 by the loops, one sample after another."""
    args = M, centers, problem.weights, problem.X
    options = {"eta": problem.eta, "triplet_weight": problem.triplet_weight, "order": order}
    if problem.quadruplets is None and not problem.floor:
        return literal.update_weights(*args, problem.triplets, **options)
    options["floor"] = problem.floor
    return literal.update_weights_by_comparisons(*args, *problem.comparisons, **options)


# Any problem

AT_THE_ANCHOR = (
    {
        **{"seed": 0, "n_samples": 4, "n_features": 2, "n_modes": 4, "n_triplets": 1, "eta": 3.0},
        **{"triplet_weight": 1.0, "ridge": 0.0, "dtype": np.float64, "form": "triplets"},
    },
    set(),
    {"store": MemoryStore, "rank": None},
    {"floor": 0.0, "anchor": 100.0},
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(drawn=problems())
@example(drawn=AT_THE_ANCHOR)
def test_objective_never_rises_and_is_that_of_the_paper(drawn, random_problem, local_problem):
    sizes, faults, place, beyond = drawn
    problem = spoiled(random_problem(**sizes), faults, sizes["seed"])
    problem = replace(problem, floor=beyond["floor"])
    local = local_problem(problem, **place, anchor=beyond["anchor"])
    if beyond["anchor"]:
        problem = problem.anchored(*anchor_of(local))
    outcome = local.run(4)
    state, history = outcome.state, np.array(outcome.history)
    assert np.all(history[1:] <= history[:-1])
    assert np.all(np.isfinite(history))
    rank = place["rank"] or sizes["n_features"]
    assert state.F.shape == (sizes["n_features"], rank)
    for array in (state.F, state.modes.centers, *state.modes.weights):
        assert np.all(np.isfinite(array))
    single = sizes["dtype"] is np.float32
    sums = state.modes.weights.weights.sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(sums, 1, rtol=1e-6 if single else 1e-14)
    assert history[-1] == state.value
    # Where almost nothing is left of the objective, or without ridge the metric is huge, the loops
    # know it only up to rounding; so they do at an anchor, tr(A M) - log det(A M) - d.
    X, M = local.store.rows[:], state.F @ state.F.T
    size = history[0] + np.linalg.norm(M) * np.vdot(X, X) / len(X) + problem.strength * len(M)
    rounding = np.finfo(X.dtype).eps * size
    assert history[-1] == pytest.approx(
        literal_value(replace(problem, X=X), state), rel=1e-4 if single else 1e-10, abs=rounding
    )


# One round


@pytest.mark.parametrize("floor", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(2))
def test_centers_and_weights_are_those_of_the_paper(case, rank, seed, floor):
    problem, local = case(seed, floor=floor)
    F = (np.eye(4) + 0.2 * np.random.default_rng(seed).normal(size=(4, 4)))[:, :rank]
    state = local.alternation.move_weights(local.alternation.move_centers(local.start(F)))
    centers = literal.update_centers(problem.X, problem.weights, problem.eta)
    weights = literal_weights(problem, F @ F.T, centers, local.store.turns.order)
    np.testing.assert_allclose(state.modes.centers, centers, rtol=0, atol=1e-12)
    np.testing.assert_allclose(state.modes.weights.weights, weights, rtol=1e-10, atol=1e-14)
    assert state.value == pytest.approx(literal_value(problem, state), rel=1e-10)


@pytest.mark.parametrize("seed", range(2))
def test_each_move_lowers_the_objective(case, seed):
    local = case(seed)[1]
    before, moves = local.start(), local.alternation
    for move in (moves.move_centers, moves.move_weights, moves.move_metric):
        assert move(before).value < before.value


def test_parts_of_a_state_fit_together_after_a_round(case):
    local = case(0)[1]
    state = local.run(1).state
    fresh = local.alternation.start(state.F, state.modes)
    for part, expected in zip(state.measured, fresh.measured, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-11)
    np.testing.assert_allclose(state.importance, fresh.importance, rtol=1e-12)
    weights, powers = state.modes.weights
    np.testing.assert_allclose(powers, weights**3, rtol=1e-12)
    assert state.value == pytest.approx(fresh.value, rel=1e-12)
    value = local.alternation.objective(state).at(state.F).value
    assert value == pytest.approx(state.value, rel=1e-12)


def test_moves_leave_the_old_state_as_it_was(case):
    local = case(0)[1]
    before = local.start()
    arrays = [before.F, before.modes.centers, *before.modes.weights, *before.measured]
    copies = [array.copy() for array in arrays]
    local.alternation.run(before, max_iter=2, tol=0.0)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_one_mode_gives_all_comparisons_the_same_importance(case):
    local = case(0, n_modes=1)[1]
    state = local.run(2).state
    assert state.importance.tolist() == [1.0]
    np.testing.assert_allclose(state.modes.weights.weights, 1.0, rtol=1e-14)
    assert state.measured is None  # which would be as large as the pairs


def test_what_a_move_in_vain_made_is_let_go_before_the_next_move(case, monkeypatch):
    local, made = case(0)[1], []

    def move_in_vain(_alternation, state):
        worse = replace(state, value=np.inf)
        made.append(weakref.ref(worse))
        return worse

    def move_last(_alternation, state):
        assert made[0]() is None
        return state

    monkeypatch.setattr(Alternation, "move_weights", move_in_vain)
    monkeypatch.setattr(Alternation, "move_metric", move_last)
    local.run(1)
    assert len(made) == 1


def test_mean_loss_is_weighted_by_importance(case):
    problem, local = case(0)
    M = local.F @ local.F.T
    comparisons, v = problem.comparisons
    losses = [literal.smooth_hinge(literal.comparison_margin(M, problem.X, c)) for c in comparisons]
    omega = [literal.importance(problem.weights, c[:3], problem.eta) for c in comparisons]
    expected = np.average(losses, weights=v * np.array(omega))
    assert local.alternation.mean_loss(local.start()) == pytest.approx(expected, rel=1e-10)
    nowhere = local.start(np.zeros_like(local.F))
    assert local.alternation.mean_loss(nowhere) == pytest.approx(0.5, rel=1e-12)


# The anchor and the floor


@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.parametrize("n_modes", [1, 4])
def test_with_an_anchor_the_objective_never_rises_and_is_that_of_the_loops(case, n_modes, floor):
    problem, local = case(0, n_modes=n_modes, anchor=0.1, floor=floor)
    outcome = local.run(4)
    assert np.all(np.diff(outcome.history) <= 0)
    assert outcome.history[-1] == pytest.approx(literal_value(problem, outcome.state), rel=1e-10)
    at_end = local.alternation.objective(outcome.state).at(outcome.state.F).value
    assert at_end == pytest.approx(outcome.history[-1], rel=1e-12)


def test_with_a_floor_of_one_memberships_do_not_see_the_comparisons(case):
    problem, local = case(0, floor=1.0)
    before = local.start()
    np.testing.assert_array_equal(before.importance, 1.0)
    state = local.alternation.move_weights(before)
    np.testing.assert_array_equal(state.importance, 1.0)
    alone = local.store.weights_at(local.F, local.modes.centers, problem.eta)
    np.testing.assert_allclose(state.modes.weights.weights, alone.weights, rtol=1e-9)
    seen = case(0)[1]
    weights = seen.alternation.move_weights(seen.start()).modes.weights.weights
    assert np.abs(weights - alone.weights).max() > 0.1


def test_a_higher_floor_leaves_the_comparisons_less_say_in_the_memberships(case):
    far = []
    for floor in FLOORS:
        problem, local = case(0, floor=floor)
        weights = local.alternation.move_weights(local.start()).modes.weights.weights
        alone = local.store.weights_at(local.F, local.modes.centers, problem.eta).weights
        far.append(np.abs(weights - alone).sum())
    assert far == sorted(far, reverse=True)


def test_a_stronger_anchor_ends_nearer_to_it(case):
    ends = []
    for anchor in (0.01, 1.0, 100.0):
        problem, local = case(0, anchor=anchor)
        F = local.run(10).state.F
        ends.append(literal.divergence(F @ F.T, problem.anchor))
    assert ends[0] > ends[1] > ends[2]


def test_with_an_anchor_zero_is_never_the_best_metric(case):
    local = case(0, anchor=0.1)[1]
    assert local.alternation.critical_triplet_weight(local.F, local.modes) == 0


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
    assert local.alternation.move_weights(local.start()).value < before


# The critical weight


def test_zero_is_the_best_metric_up_to_the_critical_weight(case, rank):
    problem, local = case(0, n_modes=2)
    critical = local.alternation.critical_triplet_weight(local.F, local.modes)
    basis = np.eye(4) if rank is None else np.linalg.qr(local.F)[0]
    for factor, sign in ((1 - 1e-9, 1), (1 + 1e-9, -1)):
        other = replace(problem, triplet_weight=critical * factor, ridge=0.0)
        gradient = basis.T @ other.gradient(np.zeros((4, 4))) @ basis
        assert np.sign(np.linalg.eigvalsh(gradient)[0]) == sign


# The worked example


def test_centers_of_the_example(example, local_problem):
    local = local_problem(replace(example, centers=np.zeros((2, 2))))
    centers = local.alternation.move_centers(local.start()).modes.centers + local.store.mean
    expected = [[0.536474, 0.632789], [2.665105, 1.057211]]
    np.testing.assert_allclose(centers, expected, rtol=0, atol=6e-7)


def test_weights_of_the_example_in_index_order(example, local_problem):
    local = local_problem(example, in_index_order=True)
    state = local.alternation.move_weights(local.start())
    first = [0.593396, 0.792424, 0.585331, 0.634938, 0.615425, 0.257330, 0.511563, 0.449914]
    np.testing.assert_allclose(state.modes.weights.weights[:, 0], first, rtol=0, atol=6e-7)
    assert state.value == pytest.approx(0.509866500, abs=6e-10)


def test_weights_of_the_example_in_the_order_of_colours(example, local_problem):
    local = local_problem(example)
    order = local.store.turns.order
    assert sorted(order) == list(range(8))
    assert list(order) != list(range(8))
    expected = literal_weights(example, np.eye(2), example.centers, order)
    weights = local.alternation.move_weights(local.start()).modes.weights.weights
    np.testing.assert_allclose(weights, expected, rtol=1e-11)


def test_metric_step_of_the_example_falls_below_ten_steps_of_manopt(example, local_problem):
    history = local_problem(example, in_index_order=True, max_inner_iter=10).run(1).history
    assert history[0] == pytest.approx(1.108791820, abs=6e-10)
    assert history[2] == pytest.approx(0.509866500, abs=6e-10)
    assert 0.076110144 <= history[3] <= 0.0799566


# Stopping


@pytest.fixture
def local(random_problem, local_problem):
    """A problem of full rank."""
    return local_problem(random_problem(0))


def test_history_has_the_start_and_three_values_per_round(local):
    outcome = local.run(3)
    assert outcome.n_iter == 3
    assert len(outcome.history) == 10
    assert outcome.history[0] == local.start().value
    assert outcome.status is Status.MAX_ITER


def test_no_rounds_return_the_start(local):
    start = local.start()
    outcome = local.alternation.run(start, max_iter=0, tol=0.0)
    assert outcome.state is start
    assert (outcome.n_iter, outcome.history) == (0, [start.value])


def test_small_decrease_in_a_round_stops_it(local):
    outcome = local.run(100, tol=1e-2)
    assert outcome.status is Status.STALLED
    assert outcome.n_iter < 100
    rounds = np.array(outcome.history[::3])
    falls = (rounds[:-1] - rounds[1:]) / rounds[:-1]
    assert np.all(falls[:-1] > 1e-2)
    assert falls[-1] <= 1e-2


def test_callback_sees_every_round(local):
    seen = []
    outcome = local.run(3, callback=lambda *args: seen.append(args))
    assert [iteration for iteration, _ in seen] == [1, 2, 3]
    assert [value for _, value in seen] == outcome.history[3::3]
    assert outcome.status is Status.MAX_ITER  # None from the callback goes on


def test_callback_can_stop_it(local):
    outcome = local.run(10, callback=lambda iteration, _: iteration == 2)
    assert (outcome.status, outcome.n_iter) == (Status.STOPPED, 2)
    assert len(outcome.history) == 7


def test_move_that_would_raise_the_objective_is_not_made(local):
    class Clumsy(Alternation):
        def move_centers(self, state):
            return replace(state, value=state.value + 1.0)

        move_weights = move_metric = move_centers

    start = local.start()
    outcome = Clumsy(*vars(local.alternation).values()).run(start, max_iter=5, tol=1e-4)
    assert outcome.state is start
    assert outcome.history == [start.value] * 4
    assert outcome.status is Status.STALLED


# What must not matter


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_bit_depends_on_the_number_of_threads(case, use_threads, tiny_blocks, dtype):  # noqa: ARG001
    outcomes = []
    for count in (1, 2, 7):
        use_threads(count)
        outcomes.append(case(0, n_samples=50, n_triplets=200, dtype=dtype)[1].run(2))
    for other in outcomes[1:]:
        assert other.history == outcomes[0].history
        np.testing.assert_array_equal(other.state.F, outcomes[0].state.F)


def test_every_comparison_twice_gives_the_same_path(case, local_problem, rank):
    problem, local = case(0)
    twice = local_problem(problem.twice(), rank=rank).run(2).history
    np.testing.assert_allclose(twice, local.run(2).history, rtol=1e-7)


def test_translation_of_the_samples_gives_the_same_path(case, local_problem, rank):
    problem, local = case(0)
    moved = problem.shifted(np.array([100.0, -30.0, 5.0, 0.0]))
    history = local_problem(moved, rank=rank).run(2).history
    np.testing.assert_allclose(history, local.run(2).history, rtol=1e-7)


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
    state = local_problem(replace(given, X=X - X.mean(axis=0))).run(4).state
    assert np.abs(state.F).max() < 1e6

"""A run can be left and taken up again: the same rounds, however they are cut."""

from dataclasses import replace

import numpy as np
import pytest
from suite.clusters import Serial
from suite.specs import make_spec

from mdaml import PRESETS, MDaML
from mdaml.constraints.labels import Classes
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators.posing import pose
from mdaml.solver import start
from mdaml.solver.conjugate_gradient import Status
from mdaml.solver.run import Problem
from mdaml.stores.blocks import BlockStore
from mdaml.stores.dask.store import DaskStore
from mdaml.stores.memory import MemoryStore

X = np.random.default_rng(0).normal(size=(60, 5)) * [3.0, 1.0, 1.0, 0.5, 1.0]
Y = (X[:, 1] > 0).astype(int) + 2 * (X[:, 3] > 0)
TRIPLETS = np.array([np.random.default_rng(n).choice(60, 3, replace=False) for n in range(400)])
_near, _far = (np.abs(X[TRIPLETS[:, 0], 1] - X[TRIPLETS[:, k], 1]) for k in (1, 2))
TRIPLETS[_near > _far] = TRIPLETS[_near > _far][:, [0, 2, 1]]
SUPERVISION = {
    "labels": Classes.from_labels("MDaML", Y),
    "triplets": Constraints.of_triplets(TRIPLETS, 60),
    "quadruplets": Constraints.of_quadruplets(TRIPLETS[:, [0, 1, 0, 2]], np.ones(400), 60),
}
SPECS = {
    "labels": make_spec(3, 3.0, 27000.0, 1e-4, scale_metric=True, n_refresh=1),
    "comparisons": make_spec(1, 1.1, 6.0, 1e-4, anchor=0.1, floor=1.0),
    "neighbors": make_spec(4, 1.1, 6.0, 1e-4, anchor=0.1, floor=0.05, mean_weight=True),
    "paper": make_spec(3, 3.0, 8100.0, 1e-4, neighbors=False, n_similar=10, n_dissimilar=10),
}


def on_device(X):
    from mdaml.stores.torch import TorchStore  # needs torch

    return TorchStore.on(X, "cpu")


def in_shards(X):
    cuts = np.array([0, 25, len(X)])
    mean = X.mean(axis=0)
    return DaskStore(Serial(2), [X[:25] - mean, X[25:] - mean], cuts, mean, "memory", shards=[])


STORES = {
    "memory": MemoryStore.of,
    "blocks": BlockStore.of,
    "device": on_device,
    "shards": in_shards,
}


def begin(spec="comparisons", form="triplets", store="memory", persons=None, **cells):
    cells = {"tol": 0.0} | cells
    problem = Problem(replace(SPECS[spec], **cells), SUPERVISION[form], persons)
    return problem.start(STORES[store](X), np.random.RandomState(0))


def assert_same(one, other):
    np.testing.assert_array_equal(one.F, other.F)
    np.testing.assert_array_equal(one.centers, other.centers)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.history, other.history)
    assert (one.n_iter, one.status, one.mean_loss) == (other.n_iter, other.status, other.mean_loss)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize(
    "store",
    [pytest.param(s, marks=pytest.mark.needs("torch")) if s == "device" else s for s in STORES],
)
@pytest.mark.parametrize("form", ["labels", "triplets", "quadruplets"])
@pytest.mark.parametrize("preset", PRESETS)
def test_rounds_may_be_made_in_parts(preset, form, store, rank):
    model = MDaML(goal=PRESETS[preset], n_components=rank, tol=0.0)
    spec = replace(pose(model, X.shape, SUPERVISION[form], as_given=True).spec, anchors=())
    run = Problem(spec, SUPERVISION[form]).start(STORES[store](X), np.random.RandomState(0))
    assert_same(run.advance(2).advance(8).finish(), run.advance(10).finish())


def test_a_first_round_that_was_made_to_choose_the_start_counts(monkeypatch):
    monkeypatch.setattr(start, "BETTER", 0.0)
    monkeypatch.setattr(start, "FAR_BETTER", np.inf)
    told = []
    run = begin("labels", "labels", callback=lambda n, _: told.append(n))
    assert run.passes[-1].n_rounds == 1
    assert_same(run.advance(1).advance(2).finish(), run.advance(3).finish())
    assert told == [1, 2, 3, 1, 2, 3]


def test_a_run_that_settled_makes_no_round_more():
    run = begin(tol=0.5).advance(50)
    assert run.passes[-1].status is Status.STALLED
    assert run.advance(5) is run


def test_a_callback_stops_a_run_for_good():
    run = begin(callback=lambda n, _: n == 2).advance(10)
    assert run.is_stopped
    assert run.passes[-1].n_rounds == 2
    assert run.advance(1) is run


def test_nothing_is_changed_by_going_on():
    run = begin("labels", "labels")
    before = run.finish()
    run.advance(3).redraw().advance(2)
    assert_same(run.finish(), before)


@pytest.mark.parametrize("spec", SPECS)
def test_no_round_raises_the_objective(spec):
    fit = begin(spec, "labels").complete().finish()
    for values in np.split(fit.history, fit.pass_starts[1:]):
        assert np.all(np.diff(values) <= 0.0)


def test_a_whole_run_is_rounds_and_neighbours_drawn_again():
    run = begin("labels", "labels", max_iter=2)
    by_hand = run.advance(2).redraw().advance(2)
    assert_same(run.complete().finish(), by_hand.finish())
    assert list(by_hand.finish().pass_starts) == [0, 7]


@pytest.mark.parametrize("form", ["labels", "triplets"])
@pytest.mark.parametrize("n_rounds", [1, 2])
def test_a_run_that_was_left_in_its_first_pass_is_completed_from_there(form, n_rounds):
    run = begin("labels" if form == "labels" else "comparisons", form, max_iter=4)
    assert_same(run.advance(n_rounds).complete().finish(), run.complete().finish())


def test_runs_with_equal_keys_differ_in_the_shrinkage_alone():
    one, other = (begin("labels", "labels", shrinkage=share) for share in (0.0, 0.5))
    assert one.problem.spec.rounds_key == other.problem.spec.rounds_key
    assert_same(one.complete().with_shrinkage(0.5).finish(), other.complete().finish())
    for cells in ({"ridge": 1.0}, {"keep_start": True}, {"metric": np.eye(X.shape[1])}):
        assert begin("labels", "labels", **cells).problem.spec.rounds_key != (
            one.problem.spec.rounds_key
        )


def test_other_cells_do_not_move_the_anchor_with_the_metric():
    """The anchor belongs to the problem, never to where a run stands."""
    run = begin().advance(3)
    again = begin(anchor=2.0)
    changed = run.with_cells(anchor=2.0)
    np.testing.assert_array_equal(
        changed.alternation.anchor.precision, again.alternation.anchor.precision
    )
    assert changed.alternation.anchor.strength == again.alternation.anchor.strength
    np.testing.assert_array_equal(changed.F, run.F)


def test_a_mean_weight_is_resolved_once():
    run = begin("neighbors")
    changed = run.with_cells(anchor=0.1)
    assert changed.spec.triplet_weight == run.spec.triplet_weight
    assert changed.alternation.anchor.strength == run.alternation.anchor.strength


def test_resuming_keeps_the_anchor_and_starts_at_the_metric():
    problem = Problem(SPECS["comparisons"], SUPERVISION["triplets"])
    store, rng = MemoryStore.of(X), np.random.RandomState(0)
    first = problem.start(store, rng).advance(2)
    second = problem.start(store, rng, first.F, first.modes.centers)
    np.testing.assert_array_equal(second.F, first.F)
    assert second.alternation.anchor.strength == first.alternation.anchor.strength
    assert second.advance(1).passes[-1].values[0] == pytest.approx(
        first.passes[-1].values[-1], rel=1e-12
    )


def test_persons_are_weighed_in_passes_of_their_own():
    supervision = SUPERVISION["quadruplets"]
    persons = Persons.from_who(np.arange(400) % 4, 400)
    run = begin(form="quadruplets", persons=persons, max_iter=3)
    by_hand = run.advance(3).weigh_alike(persons)
    for _ in range(2):
        by_hand = by_hand.reweigh().advance(3)
    fit = run.complete().finish()
    n_passes = len(fit.pass_starts)
    assert n_passes in (2, 3)  # the last is not made if errors hardly change
    np.testing.assert_array_equal(fit.history, by_hand.finish().history[: len(fit.history)])
    assert len(fit.persons["error"]) == 4
    assert fit.comparisons.n_constraints == supervision.n_constraints
    assert not np.array_equal(fit.comparisons.weights, supervision.weights)

"""A new store is one class: the solver asks for nothing but the methods of the protocol."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from suite.models import make_mdaml
from suite.specs import make_spec

from mdaml.constraints import sample_triplets
from mdaml.constraints.value import Constraints
from mdaml.datasets import make_triplets
from mdaml.solver.run import Problem
from mdaml.solver.store import Store
from mdaml.stores.memory import MemoryStore


@dataclass(frozen=True)
class LoggingStore:
    """Hands every call on to a store in memory, and writes down its name."""

    wrapped: MemoryStore
    calls: list = field(default_factory=list)

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self.wrapped, name)

    def compare(self, supervision):
        return LoggingStore(self.wrapped.compare(supervision), self.calls)

    def mapped(self, basis):
        return LoggingStore(self.wrapped.mapped(basis), self.calls)


# Rows of defaults and cells of the estimator, and the same for the solver.
EQ_7 = "eq. 7", {}, {"n_modes": 3, "eta": 3.0}
ANCHORED = (
    "neighbors",
    {"anchor": 0.1, "init_metric": "whitened", "find_groups": False},
    {"n_modes": 2, "count_modes": True, "eta": 1.1, "anchor": 0.1, "floor": 0.05}
    | {"metric": "whitened", "mean_weight": True},
)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("same", [EQ_7, ANCHORED], ids=["Eq. (7)", "anchor"])
def test_solver_asks_a_store_for_its_protocol_only(rank, same):
    row, cells, options = same
    X = np.random.default_rng(0).normal(size=(40, 4))
    supervision, _ = make_triplets(X, n_triplets=200, components=np.eye(4)[:1], random_state=0)
    weight = 6.0 * 4 / (rank or 4) if "anchor" in options else 8100.0
    scaled = rank is None and "anchor" not in options
    spec = make_spec(**options, triplet_weight=weight, ridge=1e-4, rank=rank, scale_metric=scaled)
    store = LoggingStore(MemoryStore.of(X))
    constraints = Constraints.of_triplets(supervision, len(X))
    fit = Problem(spec, constraints).solve(store, np.random.RandomState(0))
    model = make_mdaml(row, **cells, n_components=rank, random_state=0).fit(X, triplets=supervision)
    np.testing.assert_array_equal(fit.history, model.history_)
    assert set(store.calls) <= {name for name in vars(Store) if not name.startswith("_")}


@pytest.mark.parametrize("anchor", [0.003, 0.1, 3.0])
@pytest.mark.parametrize("distance", [0.3, 2.0, 10.0])
def test_a_step_takes_fewer_than_two_passes_however_far_apart_classes_lie(anchor, distance):
    rng = np.random.default_rng(0)
    y = np.arange(240) % 6
    X = distance * rng.normal(size=(6, 8))[y] + rng.normal(size=(240, 8))
    supervision = Constraints.of_triplets(sample_triplets(y, 3, 3, random_state=0), len(X))
    store = LoggingStore(MemoryStore.of(X))
    spec = make_spec(n_modes=1, eta=1.1, triplet_weight=6.0, ridge=1e-4, anchor=anchor, floor=1.0)
    Problem(replace(spec, max_iter=2), supervision).solve(store, np.random.RandomState(0))
    passes = store.calls.count("loss_and_half") + store.calls.count("losses_along")
    assert 2 * spec.max_inner_iter <= passes < 2 * 2 * spec.max_inner_iter

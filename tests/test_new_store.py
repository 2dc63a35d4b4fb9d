"""A new store is one class: the solver asks for nothing but the methods of the protocol."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from suite.models import make_mdaml

from mdaml.constraints.value import Constraints
from mdaml.datasets import make_triplets
from mdaml.solver.run import Problem
from mdaml.solver.spec import Spec
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

    def compare(self, said):
        return LoggingStore(self.wrapped.compare(said), self.calls)

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
    said, _ = make_triplets(X, n_triplets=200, components=np.eye(4)[:1], random_state=0)
    weight = 6.0 * 4 / (rank or 4) if "anchor" in options else 8100.0
    scaled = rank is None and "anchor" not in options
    spec = Spec(**options, triplet_weight=weight, ridge=1e-4, rank=rank, scale_metric=scaled)
    store = LoggingStore(MemoryStore.of(X))
    constraints = Constraints.of_triplets(said, len(X))
    fit = Problem(spec, constraints).solve(store, np.random.RandomState(0))
    model = make_mdaml(row, **cells, n_components=rank, random_state=0).fit(X, triplets=said)
    np.testing.assert_array_equal(fit.history, model.history_)
    assert set(store.calls) <= {name for name in vars(Store) if not name.startswith("_")}

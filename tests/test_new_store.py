"""A new store is one class: the solver asks for nothing but the methods of the protocol."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from mdaml import MDaML
from mdaml.constraints.value import Constraints
from mdaml.datasets import make_triplets
from mdaml.solver.fit import fit_metric
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


@pytest.mark.parametrize("rank", [None, 2])
def test_solver_asks_a_store_for_its_protocol_only(rank):
    X = np.random.default_rng(0).normal(size=(40, 4))
    said, _ = make_triplets(X, n_triplets=200, components=np.eye(4)[:1], random_state=0)
    spec = Spec(3, 3.0, 8100.0, 1e-4, rank, scale_metric=rank is None)
    store = LoggingStore(MemoryStore.of(X))
    constraints = Constraints.of_triplets(said, len(X))
    fit = fit_metric(spec, store, constraints, np.random.RandomState(0))
    model = MDaML(3, n_components=rank, random_state=0).fit(X, triplets=said)
    np.testing.assert_array_equal(fit.history, model.history_)
    assert set(store.calls) <= {name for name in vars(Store) if not name.startswith("_")}

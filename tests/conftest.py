"""Inputs that several test files share, and the threads and blocks of the kernels.

``random_problem``, ``example`` and ``local_problem`` are fixtures; the first and the last return
functions. They live for the whole session and hold nothing that changes, so property tests may use
them. :class:`Problem` holds plain arrays in the shapes of ``literal`` and ``oracles``.
"""

import os

# Workers share the cores: one thread each, set before anything loads a library with threads. Tests
# of several threads ask for them (``use_threads``).
if "PYTEST_XDIST_WORKER" in os.environ:
    for library in ("NUMBA", "OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import signal
from dataclasses import dataclass, replace
from pathlib import Path

import hypothesis
import literal
import numpy as np
import pytest
from suite.specs import make_spec

from mdaml.constraints.value import Constraints
from mdaml.kernels import modes, products, threads
from mdaml.solver.alternation import Alternation
from mdaml.solver.modes import Modes
from mdaml.solver.objective import Anchor
from mdaml.solver.start import start_metric
from mdaml.stores.arrays import SampleWeights
from mdaml.stores.blocks import BlockStore
from mdaml.stores.memory import MemoryStore

# Property tests draw few examples, new ones at every run; in continuous integration many, the same
# every time: a failure should mean that the change is to blame. No deadline: machines are busy.
# Failing examples are kept beside the tests, unless another user runs these, who may only read.
kept = {} if os.access(Path(__file__).parents[1], os.W_OK) else {"database": None}
hypothesis.settings.register_profile("quick", max_examples=20, deadline=None, **kept)
hypothesis.settings.register_profile("full", max_examples=100, deadline=None, derandomize=True)
hypothesis.settings.load_profile("full" if os.environ.get("CI") else "quick")


@pytest.fixture(autouse=True)
def keep_ctrl_c():
    """Put back what Ctrl-C does, which the command changes for the rest of its process."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class Problem:
    """Samples, comparisons, modes and the constants of Eq. 7; and of what may be added to it."""

    X: np.ndarray  # (N, d)
    triplets: np.ndarray  # (T, 3)
    weights: np.ndarray  # (N, K) rows sum to one
    centers: np.ndarray  # (K, d), not the weighted means
    eta: float
    triplet_weight: float
    ridge: float
    quadruplets: np.ndarray | None = None  # (C, 4) in place of the triplets
    quadruplet_weights: np.ndarray | None = None  # (C,)
    floor: float = 0.0  # under the self-weights
    anchor: np.ndarray | None = None  # (d, d) a metric
    strength: float = 0.0  # of the divergence to the anchor

    @property
    def options(self):
        """The keywords of ``literal.objective`` and of the oracles."""
        return {"eta": self.eta, "triplet_weight": self.triplet_weight, "ridge": self.ridge}

    @property
    def m_step(self):
        """The positional arguments of the oracles of the M-step."""
        return self.X, self.triplets, self.centers, self.weights

    @property
    def supervision(self):
        """The comparisons as a store takes them."""
        if self.quadruplets is None:
            return Constraints.of_triplets(self.triplets, len(self.X))
        return Constraints.of_quadruplets(self.quadruplets, self.quadruplet_weights, len(self.X))

    @property
    def comparisons(self):
        """Near pair, far pair and weight of each, as ``literal`` takes them."""
        if self.quadruplets is None:
            return self.triplets[:, [0, 1, 0, 2]], np.ones(len(self.triplets))
        return self.quadruplets, self.quadruplet_weights

    def value(self, M):
        """Eq. 7 by the loops, and the divergence to the anchor."""
        args = M, self.centers, self.weights, self.X
        if self.quadruplets is None and not self.floor:
            value = literal.objective(*args, self.triplets, **self.options)
        else:
            options = self.options | {"floor": self.floor}
            value = literal.comparison_objective(*args, *self.comparisons, **options)
        if self.anchor is None:
            return value
        return value + self.strength * literal.divergence(M, self.anchor)

    def gradient(self, M):
        """Eq. 15 by the loops, and the gradient of the divergence."""
        args = M, self.centers, self.weights, self.X
        if self.quadruplets is None and not self.floor:
            gradient = literal.gradient(*args, self.triplets, **self.options)
        else:
            options = self.options | {"floor": self.floor}
            gradient = literal.comparison_gradient(*args, *self.comparisons, **options)
        if self.anchor is None:
            return gradient
        return gradient + self.strength * literal.divergence_gradient(M, self.anchor)

    def anchored(self, anchor, strength):
        """The same problem, held at a metric."""
        return replace(self, anchor=anchor, strength=strength)

    def shifted(self, offset):
        """The same problem elsewhere in space."""
        return replace(self, X=self.X + offset, centers=self.centers + offset)

    def twice(self):
        """The same problem with every comparison given twice."""
        names = ("triplets", "quadruplets", "quadruplet_weights")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(self, **{name: np.repeat(a, 2, axis=0) for name, a in given.items()})

    def astype(self, dtype):
        """The same problem in another precision."""
        arrays = {name: getattr(self, name).astype(dtype) for name in ("X", "weights", "centers")}
        return replace(self, **arrays)


@dataclass(frozen=True)
class Local:
    """An :class:`Alternation` in memory, with the modes of the :class:`Problem` it came from."""

    alternation: Alternation
    modes: Modes
    F: np.ndarray  # where a fit would start

    @property
    def store(self):
        """The samples and comparisons."""
        return self.alternation.store

    def start(self, F=None):
        """The state at ``M = F F^T``, by default where a fit would start: at the identity."""
        return self.alternation.start(self.F if F is None else F, self.modes)

    def objective(self):
        """The objective as a function of the metric, at the modes of the problem."""
        return self.alternation.objective(self.start())

    def run(self, max_iter, tol=0.0, **options):
        """Algorithm 2 from the start."""
        return self.alternation.run(self.start(), max_iter=max_iter, tol=tol, **options)


def _random_problem(
    seed,
    n_samples=20,
    n_features=4,
    n_modes=3,
    n_triplets=80,
    eta=3.0,
    triplet_weight=100.0,
    ridge=1e-3,
    dtype=np.float64,
    form="triplets",
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    given = Problem(
        X=X - X.mean(axis=0),
        triplets=np.array([rng.choice(n_samples, 3, replace=False) for _ in range(n_triplets)]),
        weights=rng.dirichlet(np.ones(n_modes), size=n_samples),
        centers=rng.normal(size=(n_modes, n_features)),
        eta=eta,
        triplet_weight=triplet_weight,
        ridge=ridge,
    ).astype(dtype)
    return given if form == "triplets" else _with_quadruplets(given, rng, n_triplets)


def _with_quadruplets(given, rng, n):
    """Compare any two pairs: some share a sample, some come again, turned or contradicted."""
    rows = np.array([rng.choice(len(given.X), 4, replace=False) for _ in range(n)])
    rows[::3, 2] = rows[::3, 0]
    again = [rows[:5], rows[:4, [1, 0, 3, 2]], rows[-5:, [2, 3, 0, 1]]]
    rows = np.concatenate([rows, *again])
    weights = rng.uniform(0.2, 3.0, len(rows))
    return replace(given, quadruplets=rows, quadruplet_weights=weights)


def _local_problem(given, *, store=MemoryStore, rank=None, in_index_order=False, **options):
    made = store.of(given.X).compare(given.supervision)
    if in_index_order:
        places = np.arange(len(given.X) + 1)
        turns = replace(made.turns, order=places[:-1], colors=places)
        vars(made)["turns"] = turns  # found once and kept
    options |= given.options | {"floor": given.floor}
    spec = make_spec(given.weights.shape[1], rank=rank, **options)
    start = start_metric(spec, made, np.random.RandomState(0))
    anchor = start.anchor if given.anchor is None else _anchor_of(given)
    weights = SampleWeights(given.weights, given.weights**given.eta)
    modes = Modes(given.centers - made.mean, weights)
    return Local(Alternation(made, start.space, spec, anchor), modes, start.F)


def _anchor_of(given):
    """The anchor as the solver takes it: a multiple of the identity has one entry."""
    precision = np.linalg.inv(given.anchor)
    if np.array_equal(precision, precision[0, 0] * np.eye(len(precision))):
        precision = precision[:1, :1]
    return Anchor(given.strength, precision)


@pytest.fixture(scope="session")
def random_problem():
    """Return a function of a seed and of sizes that makes a centred :class:`Problem`.

    ``form="quadruplets"`` compares any two pairs, with weights.
    """
    return _random_problem


@pytest.fixture(scope="session")
def local_problem():
    """Return a function that turns a :class:`Problem` into the library's own, with X centred.

    ``in_index_order`` updates the weights from the first sample to the last, not by colour. Other
    options are those of :class:`Spec`; the anchor is that of the problem, if it has one.
    """
    return _local_problem


@pytest.fixture(scope="session", params=[MemoryStore, BlockStore], ids=lambda cls: cls.__name__)
def store(request):
    """Each store in the memory of this machine."""
    return request.param


@pytest.fixture(scope="session", params=[None, 2], ids=["full rank", "rank 2"])
def rank(request):
    """Each space of metrics."""
    return request.param


@pytest.fixture(scope="session", params=["triplets", "quadruplets"])
def form(request):
    """Each form of comparisons in a store."""
    return request.param


@pytest.fixture(scope="session")
def example():
    """Data E8 of the methods notes, with the triplets and weights of its MDaML example; M = I."""
    X = np.array(
        [
            [0.0, 0.0],
            [0.5, 1.2],
            [1.1, 0.2],
            [0.3, 2.1],
            [2.0, 0.6],
            [2.7, 1.7],
            [3.4, 0.1],
            [2.2, 3.2],
        ]
    )
    anchors, similar = [0, 0, 1, 2, 3, 4, 5, 6, 7, 7], [2, 1, 3, 0, 1, 5, 7, 4, 5, 6]
    dissimilar = [4, 5, 4, 4, 7, 2, 1, 2, 3, 3]
    first = np.array([0.9, 0.7, 0.8, 0.6, 0.3, 0.2, 0.1, 0.4])
    weights = np.column_stack([first, 1 - first])
    return Problem(
        X=X,
        triplets=np.column_stack([anchors, similar, dissimilar]),
        weights=weights,
        centers=literal.update_centers(X, weights, 3.0),
        eta=3.0,
        triplet_weight=10.0,
        ridge=1e-3,
    )


@pytest.fixture(scope="session")
def torch():
    """Return torch, with one thread: its threads spin while they wait for other processes."""
    import torch

    torch.set_num_threads(1)
    return torch


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Blocks of 16 rows, so that small samples are many blocks."""
    monkeypatch.setattr(products, "BLOCK_BYTES", 1)


@pytest.fixture
def use_threads(monkeypatch):
    """Return a function that sets the number of threads and wakes them for any work at all."""
    pools = []

    def use(n):
        threads._pool.cache_clear()  # the pool is as wide as the threads were when it was made
        monkeypatch.setattr(threads, "n_threads", lambda: n)
        monkeypatch.setattr(threads, "GRAIN", 1)
        monkeypatch.setattr(modes, "GRAIN", 1)  # imported there by name
        pools.append(threads._pool())

    yield use
    threads._pool.cache_clear()
    for pool in pools:
        pool.shutdown()

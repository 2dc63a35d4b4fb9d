"""Fits on a device: every method of the store against that of NumPy, and fits against fits.

All runs on torch's CPU; what needs a GPU is skipped where there is none. A rank of None is full.
"""

import sys
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from suite.models import make_mdaml
from suite.specs import make_spec

from mdaml import MDaML, limit_memory
from mdaml.constraints import Constraints, sample_triplets
from mdaml.datasets import make_multimodal
from mdaml.kernels.pairs import laplacian_product
from mdaml.neighbors import device as neighbors
from mdaml.solver.alternation import Alternation
from mdaml.solver.geometry import geodesic
from mdaml.solver.spaces import LowRank
from mdaml.solver.start import leading_factor, low_rank_part, start_metric, start_modes
from mdaml.stores.arrays import Measures
from mdaml.stores.choice import find_device
from mdaml.stores.memory import MemoryStore
from mdaml.stores.torch import modes as torch_modes
from mdaml.stores.torch import pairs as torch_pairs
from mdaml.stores.torch import start as torch_start
from mdaml.stores.torch import store as torch_store

needs_gpu = pytest.mark.needs("a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]
in_both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])
at_both_ranks = pytest.mark.parametrize("rank", [None, 3])
# Eq. (7), and what may be added to it; a start that is a matrix makes the anchor one.
BEYOND = {
    "Eq. (7)": {},
    "anchor and floor": {"anchor": 0.1, "floor": 0.05},
    "anchor at a matrix": {"anchor": 0.1, "metric": np.diag([1.0, 2.0, 0.5, 1.0, 3.0]) + 0.1},
}
with_and_without_anchor = pytest.mark.parametrize("beyond", BEYOND)
pytestmark = [
    pytest.mark.usefixtures("torch"),  # one thread
    # Few rounds are enough to see what these tests are about.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


class InDouble(torch_store.TorchStore):
    """A store on a device in double precision: what differs from NumPy then is a mistake."""

    @property
    def dtype(self):
        return np.dtype(np.float64)


def comparisons(kind, n_samples, seed=0):
    """Return triplets, some of them twice, or weighted quadruplets, as a store takes them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_samples)
    extra = np.array([rng.choice(n_samples, 3, replace=False) for _ in range(100)])
    given = np.concatenate([sample_triplets(y, 3, 4, random_state=seed), extra, extra[:20]])
    if kind == "triplets":
        return Constraints.of_triplets(given, n_samples)
    given = np.column_stack([given, np.roll(given[:, 2], 1)])
    given[given[:, 2] == given[:, 3], 3] += 1
    given[:, 3] %= n_samples
    return Constraints.of_quadruplets(given, rng.random(len(given)) + 0.1, n_samples)


class Twins:
    """The same samples, comparisons and weights in memory and on a device."""

    def __init__(self, kind, dtype, device, seed=0, n_samples=83, n_features=5):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n_samples, n_features)).astype(dtype)
        mean, supervision = np.zeros(n_features, dtype), comparisons(kind, n_samples, seed)
        cls = torch_store.TorchStore if dtype == np.float32 else InDouble
        self.here = MemoryStore(self.X, mean).compare(supervision)
        self.there = cls(torch.tensor(self.X, device=device), mean).compare(supervision)
        self.shares = rng.dirichlet(np.ones(3), n_samples)
        self.scales = rng.random((4, n_features))
        near = self.here.comparisons.near_totals() > 0
        self.importance = rng.random(len(near)) * near

    def of(self, method, *args, **options):
        """Return what a method of either store returns; arrays go where the store is."""
        for store in (self.here, self.there):
            placed = [store.put(a) if isinstance(a, np.ndarray) else a for a in args]
            yield getattr(store, method)(*placed, **options)

    def weights(self, eta=3.0):
        return [store.given_weights(self.shares, eta) for store in (self.here, self.there)]

    def alternations(self, rank, eta=3.0, **options):
        """Return the alternation over either store, with its start."""
        spec = make_spec(
            3, eta, 500.0, 1e-3, rank, weights=self.shares, max_inner_iter=5, **options
        )
        for store in (self.here, self.there):
            start = start_metric(spec, store, np.random.RandomState(0))
            alternation = Alternation(store, start.space, spec, start.anchor)
            yield alternation, alternation.start(start.F, start_modes(spec, store, None))


def host(value):
    return value.cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def assert_close(got, wanted, dtype=np.float32, scale=None):
    got, wanted = host(got), host(wanted)
    assert got.shape == wanted.shape
    scale = np.abs(wanted).max() if scale is None else scale
    tolerance = (3e-6 if dtype == np.float32 else 1e-13) * max(scale, 1e-300)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(params=["triplets", "weighted"])
def kind(request):
    return request.param


@pytest.fixture(params=[2**25, 50])
def twins(request, monkeypatch, kind, device):
    """Return a function of a precision that makes :class:`Twins`, in one block and in many."""
    monkeypatch.setattr(neighbors, "MAX_BLOCK", request.param)
    return lambda dtype, **sizes: Twins(kind, dtype, device, **sizes)


# Comparisons


def test_pairs_totals_near_pairs_and_colors_are_those_of_numpy(twins):
    both = twins(np.float64)
    ours, theirs = both.here.comparisons, both.there.comparisons
    np.testing.assert_array_equal(host(theirs.pairs), ours.pairs)
    assert both.there.total == pytest.approx(both.here.total, rel=1e-12)
    assert_close(torch_pairs.near_totals(theirs), ours.near_totals(), np.float64)
    graphs = ours.near_graph(), tuple(map(host, both.there.turns.graph))
    np.testing.assert_array_equal(graphs[0][0], graphs[1][0])
    by_sample = [
        [sorted(zip(samples[a:b], rows[a:b], strict=True)) for a, b in pairwise(ptr)]
        for ptr, samples, rows in graphs
    ]
    assert by_sample[0] == by_sample[1]
    np.testing.assert_array_equal(both.here.turns.order, both.there.turns.order)
    np.testing.assert_array_equal(both.here.turns.colors, both.there.turns.colors)


@in_both_precisions
def test_measures_and_sums_of_them_are_those_of_numpy(twins, dtype):
    both, F = twins(dtype), np.random.default_rng(1).normal(size=(5, 4))
    centers = both.X[:4] + dtype(0.5)
    stores = both.here, both.there
    measured = [store.measure(F, centers) for store in stores]
    for ours, theirs in zip(*measured, strict=True):
        assert_close(theirs, ours, dtype)
    recentered = [
        store.recenter(found, F, centers + 1).sq_dists
        for store, found in zip(stores, measured, strict=True)
    ]
    assert_close(recentered[1], recentered[0], dtype)
    weights = [store.given_weights(np.tile(both.shares, 2)[:, :4], 3.0) for store in stores]
    for floor in (1.0, 0.05, 0.0):
        importance = [store.importances(w, floor) for store, w in zip(stores, weights, strict=True)]
        assert importance[1].dtype == torch.float64
        assert_close(importance[1], importance[0], dtype)
    for method, args in (("terms", (weights, measured)), ("weight", ())):
        sums = [
            getattr(store, method)(*(arg[n] for arg in args), importance[n])
            for n, store in enumerate(stores)
        ]
        assert sums[1] == pytest.approx(sums[0], rel=1e-5 if dtype == np.float32 else 1e-12)


@in_both_precisions
def test_losses_slopes_and_gradient_are_those_of_numpy(twins, dtype):
    both = twins(dtype)
    along = list(both.of("losses_along", both.X, both.scales, both.importance))
    assert isinstance(along[1], np.ndarray)
    assert_close(along[1], along[0], dtype)
    losses, slopes = zip(
        *both.of("slopes", both.X, np.ones(5, dtype), both.importance), strict=True
    )
    assert losses[1] == pytest.approx(losses[0], rel=1e-5 if dtype == np.float32 else 1e-10)
    assert_close(slopes[1], slopes[0], dtype, scale=10 * np.abs(slopes[0]).max())
    for scales in (both.scales[0], np.zeros(5)):
        (loss, half), (got, tensor) = both.of("loss_and_half", both.X, scales, both.importance)
        assert isinstance(got, float)
        assert_close(got, loss, dtype)
        assert_close(tensor, half, dtype, scale=100 * np.abs(half).max())
    push = list(both.of("push", both.importance))
    assert_close(push[1], push[0], dtype, scale=100 * np.abs(push[0]).max())


@in_both_precisions
def test_laplacians_are_those_of_numpy(twins, dtype):
    both = twins(dtype)
    ours, theirs, by_second = both.here.comparisons, both.there.comparisons, both.there.by_second
    weights = np.random.default_rng(1).normal(size=len(ours.pairs)).astype(dtype)
    tensors = both.there.put(both.X), theirs, by_second, both.there.put(weights)
    wanted = laplacian_product(both.X, ours.pairs, ours.groups, weights)
    got = torch_pairs.laplacian_product(*tensors)
    assert got.dtype == tensors[0].dtype
    assert_close(got, wanted, dtype, scale=10 * np.abs(wanted).max())
    wanted = both.here.laplacian_times(both.X, weights)
    got = torch_pairs.laplacian_times(*tensors)
    assert got.dtype == tensors[0].dtype
    assert_close(got, wanted, dtype, scale=10 * np.abs(wanted).max())


def test_samples_without_pairs_have_a_laplacian_of_zero(device):
    Y = torch.ones((9, 2), device=device).cumsum(dim=0)
    given = torch_store.TorchStore(Y, np.zeros(2)).compare(
        Constraints.of_triplets(np.array([[3, 4, 5]]), 9)
    )
    ones = torch.ones(2, device=device)
    got = host(torch_pairs.laplacian_times(Y, given.comparisons, given.by_second, ones))
    wanted = np.zeros((9, 2))
    wanted[3:6] = [[-3, -3], [1, 1], [2, 2]]
    np.testing.assert_array_equal(got, wanted)


# Samples and modes


@in_both_precisions
@pytest.mark.parametrize("n", [3, 4096, 9001])
def test_products_and_sums_are_those_of_numpy(device, dtype, n):
    rng = np.random.default_rng(n)
    X, A, shares = (
        rng.normal(size=(n, 4)).astype(dtype),
        rng.normal(size=(4, 2)),
        rng.random((n, 3)),
    )
    cls = torch_store.TorchStore if dtype == np.float32 else InDouble
    stores = MemoryStore(X, X[0]), cls(torch.tensor(X, device=device), X[0])
    Y = [store.project(A) for store in stores]
    assert_close(Y[1], Y[0], dtype)
    turned = [store.turn(y + 0, A[:2]) for store, y in zip(stores, Y, strict=True)]
    assert_close(turned[1], turned[0], dtype)
    shifted = [store.shift(y, 0.5, y) for store, y in zip(stores, Y, strict=True)]
    assert_close(shifted[1], shifted[0], dtype)
    spread = [store.spread(y) for store, y in zip(stores, Y, strict=True)]
    assert spread[1] == pytest.approx(spread[0], rel=1e-5)
    inner = [store.inner(y, y) for store, y in zip(stores, Y, strict=True)]
    assert inner[1] == pytest.approx(spread[0], rel=1e-5)
    weights = [store.given_weights(shares, 3.0) for store in stores]
    found = [
        (store.covariance(), store.cross(y), *store.moments(w), *store.weighted_means(w))
        for store, y, w in zip(stores, Y, weights, strict=True)
    ]
    for ours, theirs in zip(*found, strict=True):
        assert isinstance(theirs, np.ndarray)
        assert theirs.dtype == np.float64
        assert_close(theirs, ours, dtype, scale=max(np.sqrt(n) * 10, np.abs(ours).max()))


def test_rows_left_over_by_blocks_are_not_lost(device):
    for n in (4095, 4096, 4097, 12_288, 12_289):
        ones = torch.ones((n, 2), device=device)
        product = host(torch_store._transposed_times(ones, ones))
        np.testing.assert_array_equal(product, np.full((2, 2), n))


@in_both_precisions
@pytest.mark.parametrize("eta", [1.05, 3.0, 7.5])
def test_updates_of_weights_are_those_of_numpy(twins, dtype, eta):
    both = twins(dtype)
    costs = np.abs(both.X[:, :3]) + dtype(0.1)
    costs[5] = 0.0  # modes that cost nothing, for a sample that may have near pairs
    losses = host(both.here.measure(np.eye(5), both.X[:3]).losses)
    losses[::3] = 0.0
    updated = [
        store.update_weights(weights, Measures(store.put(costs), store.put(losses)), 0.7, eta)
        for store, weights in zip((both.here, both.there), both.weights(eta), strict=True)
    ]
    assert_close(updated[1].weights, updated[0].weights, dtype, scale=10)
    assert_close(updated[1].powers, updated[0].powers, dtype, scale=10)


def test_modes_that_cost_nothing_share_all_the_weight(device):
    costs = torch.tensor([[0.0, 0.0, 2.0], [1.0, 0.0, 2.0]], device=device)
    weights = torch.full((2, 3), 1 / 3, device=device)
    powers = weights**2
    none = torch.zeros(0, dtype=torch.int32, device=device)
    graph = torch.zeros(3, dtype=torch.int32, device=device), none, none
    losses = torch.zeros(0, dtype=torch.float64, device=device)
    order = np.arange(2), np.array([0, 2]), 2.0
    torch_modes.sequential_weights(weights, powers, costs, graph, losses, *order)
    np.testing.assert_array_equal(host(weights), [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(host(powers), [[0.25, 0.25, 0.0], [0.0, 1.0, 0.0]])


def test_first_weights_are_those_of_numpy_and_none_is_zero(device):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(50, 3)).astype(np.float32), rng.random((50, 4))
    weights[3] = [0, 1, 0, 5]
    stores = MemoryStore.of(X), torch_store.TorchStore.on(X, device)
    ours, theirs = (store.given_weights(weights, 2.0) for store in stores)
    assert_close(theirs.weights, ours.weights)
    assert_close(theirs.powers, ours.powers)
    assert host(theirs.weights).min() > 0
    F, centers = rng.normal(size=(3, 2)), X[:4]
    ours, theirs = (store.weights_at(F, centers, 2.0) for store in stores)
    assert_close(theirs.weights, ours.weights, scale=10)
    assert_close(stores[1].fetch_weights(theirs), stores[0].fetch_weights(ours), scale=10)


# Starts


def blobs(n_samples=600, n_features=4, n_blobs=3, seed=0):
    rng = np.random.default_rng(seed)
    of = rng.integers(0, n_blobs, n_samples)
    centers = 10 * np.eye(n_features)[:n_blobs]
    return (rng.normal(size=(n_samples, n_features)) + centers[of]).astype(np.float32), of


@pytest.mark.parametrize("start", ["mixture_weights", "kmeans_weights"])
def test_a_start_finds_clusters_that_are_apart(device, start, monkeypatch):
    X, of = blobs()
    store = torch_store.TorchStore.on(X, device)
    for n_rows in (20_000, 90):  # all rows, or some to estimate from
        monkeypatch.setattr("mdaml.stores.mixture.MAX_ROWS_FOR_START", n_rows)
        weights = host(getattr(store, start)(3, 2.0, np.random.RandomState(0)).weights)
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
        found = weights.argmax(axis=1)
        assert len({*zip(found.tolist(), of.tolist(), strict=True)}) == len({*of.tolist()})


@pytest.mark.parametrize("n_rows", [2000, 100])
def test_as_many_modes_are_counted_as_by_numpy(device, n_rows, monkeypatch):
    monkeypatch.setattr("mdaml.stores.mixture.MAX_ROWS_TO_COUNT", n_rows)
    for X in (blobs()[0], np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)):
        stores = MemoryStore.of(X), torch_store.TorchStore.on(X, device)
        counts = [store.count_modes(8, np.random.RandomState(0)) for store in stores]
        assert counts[0] == counts[1]


def test_steps_of_the_mixture_are_those_of_scikit_learn():
    X, _ = blobs(n_blobs=2)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    tensor = torch.tensor(X).double()
    posteriors = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(3), len(X)))
    shares, means, variances = torch_start._estimate(tensor, posteriors)
    peer = GaussianMixture(3, covariance_type="diag", reg_covar=torch_start.FLOOR)
    peer._initialize(X.astype(np.float64), posteriors.numpy())
    np.testing.assert_allclose(shares.exp(), peer.weights_, rtol=1e-9)
    np.testing.assert_allclose(means, peer.means_, atol=1e-12)
    np.testing.assert_allclose(variances, peer.covariances_, atol=1e-12)
    got = torch_start._log_joint(tensor, (shares, means, variances)).softmax(dim=1)
    np.testing.assert_allclose(got, peer.predict_proba(X.astype(np.float64)), atol=1e-9)


def test_a_mixture_does_no_worse_than_that_of_scikit_learn():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(size=(200, 3)) * s + s for s in (0.5, 1.0, 2.0)])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    scores = {"ours": [], "theirs": []}
    for seed in range(8):
        options = {"covariance_type": "diag", "reg_covar": 1e-3, "init_params": "k-means++"}
        peer = GaussianMixture(3, max_iter=20, tol=1e-2, random_state=seed, **options).fit(X)
        scores["theirs"].append(peer.score(X))
        mixture = torch_start._fit(torch.tensor(X), 3, np.random.RandomState(seed))
        likelihood = torch_start._log_joint(torch.tensor(X), mixture).logsumexp(dim=1).mean()
        scores["ours"].append(float(likelihood) - 0.5 * 3 * np.log(2 * np.pi))
    assert np.mean(scores["ours"]) > np.mean(scores["theirs"]) - 0.05


def test_a_start_survives_samples_that_coincide(device):
    X = np.ones((30, 2), np.float32)
    X[:3] = 5.0
    store = torch_store.TorchStore.on(X, device)
    weights = host(store.mixture_weights(4, 2.0, np.random.RandomState(0)).weights)
    assert np.all(np.isfinite(weights))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)


def leading(store, n_axes=6):
    return store.leading_axes(n_axes, np.random.RandomState(0))


@in_both_precisions
@pytest.mark.parametrize("shape", [(300, 60), (60, 300), (70, 70), (200, 4), (5, 90)])
@pytest.mark.parametrize("rows", [20_000, 40])
def test_axes_are_those_of_numpy(device, dtype, shape, rows, monkeypatch):
    monkeypatch.setattr("mdaml.stores.mixture.MAX_ROWS_FOR_START", rows)
    X = np.random.default_rng(0).normal(size=shape) * np.logspace(1, -1, shape[1])
    X = (X - X.mean(axis=0)).astype(dtype)
    stores = MemoryStore(X, X[0]), torch_store.TorchStore(torch.tensor(X, device=device), X[0])
    here, there = map(leading, stores)
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(there[1], here[1], rtol=1e3 * eps, atol=eps * here[1][0])
    assert there[2] == pytest.approx(here[2], rel=10 * eps)
    assert there[0].dtype == np.float64
    gram = there[0].T @ there[0]
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=100 * eps)
    for whitened in (False, True):  # the last axis of few samples has no variance
        lengths = 1.0 / np.sqrt(here[1] + 0.1 * here[2]) if whitened else np.ones(len(here[1]))
        ours, theirs = (leading_factor(*lead[:2], lengths, 4, 10.0) for lead in (here, there))
        tolerance = 1e5 * eps * np.abs(ours @ ours.T).max()
        np.testing.assert_allclose(theirs @ theirs.T, ours @ ours.T, rtol=0, atol=tolerance)
    G = np.random.default_rng(1).normal(size=(shape[1], 3))
    ours = LowRank.among(stores[0], *here).steepest(None, None, G)
    theirs = LowRank.among(stores[1], *there).steepest(None, None, stores[1].small(G))
    theirs = stores[1].host(theirs)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e5 * eps)


def test_axes_of_samples_that_are_all_alike(device):
    store = torch_store.TorchStore(torch.zeros((8, 5), device=device), np.zeros(5))
    axes, variances, level = leading(store)
    G = np.ones((5, 2))
    np.testing.assert_array_equal(
        LowRank.among(store, axes, variances, level).steepest(None, None, G), -G
    )
    F = leading_factor(axes, variances, np.ones(len(variances)), 2, 10.0)
    assert np.all(np.isfinite(F))


def test_a_start_from_a_matrix_is_that_of_numpy(device):
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(50, 6)), rng.normal(size=(6, 6))
    M = A @ A.T + 0.1 * np.eye(6)
    ours, theirs = (
        low_rank_part(M, store, 2, np.random.RandomState(0))
        for store in (MemoryStore(X, X[0]), InDouble(torch.tensor(X, device=device), X[0]))
    )
    np.testing.assert_allclose(theirs @ theirs.T, ours @ ours.T, atol=1e-10)


# The objective and the solver


@in_both_precisions
@with_and_without_anchor
@pytest.mark.parametrize("rank", [None, 1, 3])
def test_value_gradient_and_path_are_those_of_numpy(twins, dtype, rank, beyond):
    both, rng = twins(dtype), np.random.default_rng(2)
    d = both.X.shape[1]
    F, D = 0.5 * rng.normal(size=(2, d, rank or d))
    D = D if rank else D + D.T
    rel = 1e-5 if dtype == np.float32 else 1e-12
    found = []
    for alternation, state in both.alternations(rank, **BEYOND[beyond]):
        objective = alternation.objective(state)
        point = objective.at(F)
        gradient = objective.space.gradient(objective, point)
        path = objective.along(point, gradient, D)
        at = path.at(0.3)
        found.append((objective.at(F).value, gradient, at.value, path.slope(at)))
    (value, gradient, along, slope), theirs = found
    assert isinstance(theirs[1], np.ndarray)
    assert theirs[1].dtype == np.float64
    assert theirs[0] == pytest.approx(value, rel=rel)
    assert_close(theirs[1], gradient, dtype, scale=30 * np.abs(gradient).max())
    assert theirs[2] == pytest.approx(along, rel=rel)
    assert theirs[3] == pytest.approx(slope, rel=10 * rel)


@with_and_without_anchor
@pytest.mark.parametrize("seed", range(2))
def test_gradient_is_that_of_finite_differences(device, seed, beyond):
    both = Twins("weighted" if seed % 2 else "triplets", np.float64, device, seed=seed)
    F, h = 0.5 * np.random.default_rng(seed).normal(size=(5, 2)), 1e-5
    _, (alternation, state) = both.alternations(2, **BEYOND[beyond])
    objective = alternation.objective(state)
    gradient = objective.space.gradient(objective, objective.at(F))
    for i, j in np.ndindex(F.shape):
        step = np.zeros_like(F)
        step[i, j] = h
        up, down = (objective.at(F + sign * step).value for sign in (1, -1))
        assert gradient[i, j] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("rank", "rtol"), [(None, 1e-7), (2, 1e-8)])
@pytest.mark.parametrize("eta", [1.3, 3.0])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("algebra", ["host", "device"])
@with_and_without_anchor
def test_in_double_precision_the_solver_takes_the_same_way(
    device, rank, rtol, seed, eta, algebra, beyond, monkeypatch
):
    if algebra == "device":  # as for features in the hundreds
        monkeypatch.setattr(
            torch_store.TorchStore,
            "small",
            lambda store, A: A if isinstance(A, torch.Tensor) else store.put(A),
        )
    both = Twins("triplets" if seed % 2 else "weighted", np.float64, device, seed=seed)
    here, there = (
        alternation.run(state, max_iter=3, tol=0)
        for alternation, state in both.alternations(rank, eta, **BEYOND[beyond])
    )
    np.testing.assert_allclose(there.history, here.history, rtol=rtol)
    assert isinstance(there.state.F, np.ndarray)
    M = here.state.F @ here.state.F.T
    np.testing.assert_allclose(there.state.F @ there.state.F.T, M, atol=1e-4 * np.abs(M).max())
    assert np.all(np.diff(there.history) <= 0)


@in_both_precisions
@pytest.mark.parametrize("rank", [None, 2])
def test_critical_weight_is_that_of_numpy(twins, dtype, rank):
    here, there = (
        alternation.critical_triplet_weight(state.F, state.modes)
        for alternation, state in twins(dtype).alternations(rank)
    )
    assert there == pytest.approx(here, rel=1e-3 if dtype == np.float32 else 1e-9)


# Fits


@pytest.fixture(scope="module")
def problem():
    """Return a function of a precision: samples, what is said in every form, first weights."""
    X, y = make_multimodal(200, random_state=0)
    rng = np.random.default_rng(0)
    X = np.column_stack([X, rng.normal(size=(len(X), 4))])
    X /= X.std(axis=0)
    T = sample_triplets(y, 3, 3, random_state=0)
    Q = np.column_stack([T, np.roll(T[:, 1], 7)])
    forms = {
        "labels": {"y": y},
        "triplets": {"triplets": T},
        "weighted": {"triplets": T, "constraint_weight": 0.2 + rng.random(len(T))},
        "quadruplets": {"quadruplets": Q[Q[:, 2] != Q[:, 3]]},
        "pairs": {"pairs": T[:, :2], "pair_labels": np.where(rng.random(len(T)) < 0.5, 1, -1)},
    }
    start = rng.dirichlet(np.ones(3), len(X))
    return lambda dtype=np.float32: (X.astype(dtype), forms, start)


EQ_7 = {"row": "eq. 7", "max_iter": 4}
ANCHOR = {"row": "comparisons", "anchor": 0.03}
CASES = [
    ("labels", {"row": "labels", "shrinkage": 0.0}),
    ("labels", {"row": "neighbors", "kind": "random", "anchor": 0.1}),
    ("triplets", {"row": "comparisons"}),
    ("triplets", EQ_7),
    ("triplets", EQ_7 | {"eta": 1.6, "init_metric": "whitened", "max_inner_iter": 10}),
    ("triplets", {"row": "neighbors", "anchor": 0.03, "eta": 3.0, "init_metric": "whitened"}),
    ("triplets", EQ_7 | {"n_modes": 1, "ridge": 0.0}),
    ("triplets", ANCHOR | {"init_metric": 0.5 * np.eye(6)}),
    ("weighted", ANCHOR),
    ("quadruplets", ANCHOR),
    ("pairs", ANCHOR),
]


def assert_same_fit(here, there):
    for one_pass in np.split(there.history_, there.pass_starts_[1:]):
        assert np.all(np.diff(one_pass) <= 0)
    np.testing.assert_array_equal(here.triplets_, there.triplets_)
    np.testing.assert_allclose(there.history_, here.history_, rtol=1e-3)
    np.testing.assert_allclose(there.weights_, here.weights_, atol=5e-3)
    M = here.get_mahalanobis_matrix()
    np.testing.assert_allclose(there.get_mahalanobis_matrix(), M, atol=1e-2 * np.abs(M).max())
    assert there.lambda1_critical_ == pytest.approx(here.lambda1_critical_, rel=1e-2)
    for name, value in vars(here).items():
        if isinstance(value, np.ndarray):
            assert isinstance(getattr(there, name), np.ndarray), name
            assert getattr(there, name).dtype == value.dtype, name


@at_both_ranks
@pytest.mark.parametrize(("form", "options"), CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # what is learned is not the question
def test_a_fit_on_a_device_is_the_fit_of_numpy(device, rank, form, options, problem):
    for dtype in (
        (np.float32, np.float64)
        if form == "triplets" and options == {"row": "comparisons"}
        else (np.float32,)
    ):
        X, forms, start = problem(dtype)
        all_options = {"n_components": rank, "random_state": 0, **options}
        all_options["n_modes"] = start[:, : options.get("n_modes", 3)]
        here = make_mdaml(**all_options).fit(X, **forms[form])
        there = make_mdaml(**all_options, device=device).fit(X, **forms[form])
        assert_same_fit(here, there)


@pytest.mark.parametrize("form", ["triplets", "quadruplets"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # what is learned is not the question
def test_a_start_much_too_wide_is_scaled_as_with_numpy(device, form, problem):
    X, forms, start = problem(np.float64)
    X = 1e3 * X
    options = {"row": "eq. 7", "n_modes": start, "ridge": 0.0, "max_iter": 2, "random_state": 0}
    here = make_mdaml(**options).fit(X, **forms[form])
    there = make_mdaml(**options, device=device).fit(X, **forms[form])
    plain = make_mdaml(**options, init_metric="identity").fit(X, **forms[form])
    assert here.history_[0] != plain.history_[0]
    np.testing.assert_allclose(there.history_, here.history_, rtol=1e-6)


@pytest.mark.parametrize(("init", "rank"), [("gmm", None), ("kmeans", None), ("gmm", 3)])
def test_a_fit_with_its_own_start_repeats_itself_and_learns(device, init, rank, problem):
    X, forms, _ = problem()
    options = {"row": "eq. 7", "init_modes": init, "n_components": rank, "random_state": 0}
    T = forms["triplets"]
    model, again = (make_mdaml(**options, device=device).fit(X, **T) for _ in range(2))
    np.testing.assert_array_equal(model.components_, again.components_)
    np.testing.assert_array_equal(model.history_, again.history_)
    plain = make_mdaml(**options).fit(X, **T)
    score = model.score_triplets(X, T["triplets"])
    assert score > plain.score_triplets(X, T["triplets"]) - 0.03
    assert model.history_[-1] < 0.1 * model.history_[0]


def test_double_precision_far_from_the_origin_is_centred_before_it_becomes_single(device, problem):
    X, forms, start = problem(np.float64)
    options = {"row": "comparisons", "floor": 0.5, "anchor": 0.1, "n_modes": start}
    options |= {"random_state": 0, "device": device}
    near = make_mdaml(**options).fit(X, **forms["triplets"])
    model = make_mdaml(**options).fit(X + 1e7, **forms["triplets"])
    np.testing.assert_allclose(model.history_, near.history_, rtol=1e-3)
    np.testing.assert_allclose(model.centers_, near.centers_ + 1e7, rtol=1e-9)
    assert model.components_.dtype == model.weights_.dtype == model.centers_.dtype == np.float64


def test_input_is_left_alone_and_may_be_read_only(problem):
    X, forms, start = problem()
    arrays = X, forms["triplets"]["triplets"].copy(), start.copy()
    before = X.copy()
    for array in arrays:
        array.setflags(write=False)
    MDaML.paper(arrays[2], device="cpu").fit(X, triplets=arrays[1])
    np.testing.assert_array_equal(X, before)


def test_values_that_single_precision_cannot_hold_are_refused(problem):
    X, forms, _ = problem(np.float64)
    with pytest.raises(ValueError, match="fourth powers overflow in float32"):
        MDaML(device="cpu").fit(X * 1e10, **forms["triplets"])


@at_both_ranks
def test_a_limit_of_memory_is_kept_or_refused_before_the_fit(device, rank, problem):
    X, forms, start = problem()
    options = {"n_components": rank, "device": device, "random_state": 0}
    model = make_mdaml("neighbors", start, anchor=0.1, find_groups=False, **options)
    free = clone(model).fit(X, **forms["triplets"])
    with limit_memory("1 GB"):
        within = clone(model).fit(X, **forms["triplets"])
    np.testing.assert_array_equal(within.components_, free.components_)
    message = r"limit_memory allows 10 MB .* may need .* MB"
    with limit_memory("10 MB"), pytest.raises(ValueError, match=message):
        model.fit(X, **forms["triplets"])


def test_more_components_than_samples_leave_some_at_zero(device):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 40)), np.arange(12) % 2
    X[:, :3] += 2 * y[:, None]
    model = MDaML(1, n_components=20, random_state=0, device=device).fit(X, y)
    lengths = np.linalg.norm(model.components_, axis=1)
    assert lengths[0] > 1e-3
    np.testing.assert_allclose(lengths[12:], 0, atol=1e-12)


def largest_tensor(device, function):
    """Return the bytes that a run takes on a GPU, or that one operation takes on the CPU."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        return torch.cuda.max_memory_allocated() - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        function()
    return max(event.self_cpu_memory_usage for event in profile.events())


@pytest.mark.filterwarnings("ignore::UserWarning")  # what is learned is not the question
def test_at_low_rank_no_array_is_of_features_by_features(device):
    n, d = 60, 1500
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    triplets = sample_triplets(np.arange(n) % 4, 1, 2, random_state=0)
    options = {"max_iter": 1, "max_inner_iter": 1, "random_state": 0}
    model = make_mdaml("comparisons", n_components=4, device=device, **options)
    model.fit(X[:, :10], triplets=triplets)  # compiles
    assert 0 < largest_tensor(device, lambda: model.fit(X, triplets=triplets)) < 0.5 * 4 * d * d
    assert model.components_.shape == (4, d)
    tracemalloc.start()  # what NumPy takes; it would count the records of a profile too
    model.fit(X, triplets=triplets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 4 * d * d


# Which device


@pytest.mark.needs("no CUDA device")
def test_without_a_gpu_cuda_is_refused_and_auto_is_numpy(problem):
    X, forms, _ = problem()
    message = r"MDaML\(device=\.\.\.\) needs a GPU, but torch .* 'auto'"
    with pytest.raises(ValueError, match=message):
        MDaML(device="cuda").fit(X, **forms["triplets"])
    assert find_device("MDaML", "auto") is None


@needs_gpu
def test_with_a_gpu_auto_is_cuda():
    assert find_device("MDaML", "auto") == "cuda"


def test_without_torch_a_device_is_refused_and_auto_is_numpy(monkeypatch, problem):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'needs torch: pip install "mdaml\[torch\]"'):
        find_device("MDaML(device=...)", "cpu")
    assert find_device("MDaML(device=...)", "auto") is None
    X, forms, _ = problem()
    fits = [
        MDaML(anchor=0.1, random_state=0, device=device).fit(X, **forms["triplets"])
        for device in (None, "auto")
    ]
    np.testing.assert_array_equal(fits[0].history_, fits[1].history_)


# Triton on a GPU


def in_torch(monkeypatch, function):
    with monkeypatch.context() as patched:
        patched.setattr(neighbors, "load_triton", lambda _: None)
        return function()


@pytest.mark.needs("a CUDA device", "triton")
@pytest.mark.parametrize(
    ("n_samples", "n_features"),
    [(83, 1), (200, 5), (90, 16), (150, 32), (150, 33), (300, 128), (150, 200), (60, 768)],
)
def test_passes_in_triton_are_those_in_torch(monkeypatch, kind, n_samples, n_features):
    assert neighbors.load_triton("triton_pairs") is not None
    both = Twins(kind, np.float32, "cuda", n_samples=n_samples, n_features=n_features)
    store, Y = both.there, both.there.rows / n_features**0.5
    importance, scales = store.put(both.importance), store.put(both.scales.astype(np.float32))
    weights = store.put(np.random.default_rng(1).normal(size=len(both.importance))).float()
    laplacian = Y, store.comparisons, store.by_second, weights
    passes = {
        "gradient": lambda: store.loss_and_half(Y, scales[0], importance)[1],
        "loss": lambda: torch.tensor(store.loss_and_half(Y, scales[0], importance)[0]),
        "losses": lambda: store.measure(np.eye(n_features) / n_features**0.5, both.X[:2]).losses,
        "along": lambda: store.losses_along(Y, both.scales, importance),
        "dists": lambda: neighbors.pair_sq_dists(Y, store.comparisons.pairs, scales),
        "product": lambda: torch_pairs.laplacian_product(*laplacian),
        "times": lambda: torch_pairs.laplacian_times(*laplacian),
    }
    for run in passes.values():
        wanted = in_torch(monkeypatch, run)
        got = run()
        assert_close(got, wanted, scale=10 * np.abs(host(wanted)).max())
        np.testing.assert_array_equal(host(run()), host(got))  # nothing depends on chance


@pytest.mark.needs("a CUDA device", "triton")
def test_a_sample_with_very_many_pairs_and_a_pair_with_very_many_comparisons(monkeypatch):
    rng = np.random.default_rng(0)
    n, many = 5000, 4000
    hub = np.column_stack([np.zeros(many), np.ones(many), 2 + rng.permutation(n - 2)[:many]])
    second = np.column_stack([2 + np.arange(many), np.ones(many), np.zeros(many)])
    supervision = Constraints.of_triplets(np.concatenate([hub, second]).astype(np.int64), n)
    Y = torch.tensor(rng.normal(size=(n, 32)).astype(np.float32) / 6, device="cuda")
    store = torch_store.TorchStore(Y, np.zeros(32)).compare(supervision)
    importance = torch_pairs.pair_products(Y.abs(), store.comparisons)
    weights = store.put(rng.normal(size=len(importance)).astype(np.float32))

    def run():
        loss, slopes = store.slopes(Y, np.ones(32), importance)
        laplacian = Y, store.comparisons, store.by_second
        product = torch_pairs.laplacian_product(*laplacian, slopes)
        return loss, product, torch_pairs.laplacian_times(*laplacian, weights)

    wanted, got = in_torch(monkeypatch, run), run()
    assert got[0] == pytest.approx(wanted[0], rel=1e-6)
    assert_close(got[1], wanted[1], scale=10 * float(wanted[1].abs().max()))
    assert_close(got[2], wanted[2], scale=100 * float(wanted[2].abs().max()))


@pytest.mark.needs("a CUDA device", "60 GiB of GPU memory")
def test_offsets_beyond_two_to_the_31():
    n, d = 2**31 // 128 + 1000, 128
    Y = torch.zeros((n, d), device="cuda")
    rows = np.array([0, 5, n - 3, n - 2, n - 1])
    some = torch.randn((5, d), generator=torch.Generator().manual_seed(0)) / 10
    Y[torch.tensor(rows, device="cuda")] = some.cuda()
    T = np.array([[0, 1, 2], [2, 3, 4], [4, 3, 0], [3, 1, 4]])
    importance = torch.rand(8, generator=torch.Generator().manual_seed(1)).double().cuda()

    def gradient(samples, triplets):
        supervision = Constraints.of_triplets(triplets, len(samples))
        store = torch_store.TorchStore(samples, np.zeros(d)).compare(supervision)
        loss, slopes = store.slopes(samples, np.ones(d), importance)
        laplacian = samples, store.comparisons, store.by_second, slopes
        return loss, torch_pairs.laplacian_product(*laplacian)

    wanted, got = gradient(some.cuda(), T), gradient(Y, rows[T])
    assert got[0] == pytest.approx(wanted[0], rel=1e-6)
    assert_close(got[1][torch.tensor(rows, device="cuda")], wanted[1])
    assert float(got[1].abs().sum()) == pytest.approx(float(wanted[1].abs().sum()), rel=1e-4)
    del Y, got
    torch.cuda.empty_cache()


@needs_gpu
def test_large_matrices_are_decomposed_on_the_gpu():
    rng = np.random.default_rng(0)
    store = torch_store.TorchStore(torch.zeros((1, 300), device="cuda"), np.zeros(300))
    F, A = rng.normal(size=(2, 300, 300))
    A = A + A.T
    assert store.small(A).is_cuda
    line = geodesic(store.small(F), store.small(A))
    rates, rotation = store.host(line.rates), store.host(line.rotation)
    np.testing.assert_allclose(rates, np.linalg.eigvalsh(A), atol=1e-10)
    np.testing.assert_allclose(rotation @ np.diag(rates) @ rotation.T, A, atol=1e-10)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(300), atol=1e-12)
    np.testing.assert_allclose(store.host(line.basis), F @ rotation, atol=1e-10)

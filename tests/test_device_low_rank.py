"""Metrics of low rank on a device: every kernel and whole fits against those with arrays.

All runs on torch's CPU; what needs a GPU is skipped where there is none.
"""

import tracemalloc

import numpy as np
import pytest
import test_device
from test_device import (
    Twins,
    assert_close,
    host,
    in_both_precisions,
    in_torch,
    needs_gpu,
    on_devices,
)

from mdaml import MDaML
from mdaml.alternation import alternate
from mdaml.constraints import sample_triplets
from mdaml.device import DeviceComparisons
from mdaml.low_rank import LeadingAxes, LowRankProblem, PairGraph, low_rank_part
from mdaml.modes import Neighbors, modes_from_weights

torch = pytest.importorskip("torch", reason="needs the extra torch")
torch_pairs = pytest.importorskip("mdaml.kernels.torch_pairs")

# The fixtures of the other tests of devices.
one_thread, kind, twins = test_device.one_thread, test_device.kind, test_device.twins
# Few rounds are enough to see what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# The Laplacian of pairs in both roles


@on_devices
@in_both_precisions
def test_laplacian_is_that_of_the_arrays(twins, device, dtype):
    both = twins(dtype, device)
    weights = np.random.default_rng(1).normal(size=len(both.host.pairs))
    graph = PairGraph.from_pairs(both.host.pairs, len(both.Y))
    got = both.set.laplacian_times(both.tensor, both.beside(weights.astype(dtype)))
    assert got.dtype == both.tensor.dtype
    wanted = graph.laplacian_times(both.Y, weights)
    assert_close(got, wanted, dtype, scale=10 * np.abs(wanted).max())


@on_devices
def test_samples_without_pairs_have_a_laplacian_of_zero(device):
    Y = torch.ones((9, 2), device=device).cumsum(dim=0)
    given = DeviceComparisons.from_triplets(Y, np.array([[3, 4, 5]]))
    got = host(given.laplacian_times(Y, torch.ones(2, device=device)))
    wanted = np.zeros((9, 2))
    wanted[3:6] = [[-3, -3], [1, 1], [2, 2]]
    np.testing.assert_array_equal(got, wanted)


@needs_gpu
@pytest.mark.parametrize("n_features", [1, 5, 16, 32, 33, 128, 200])
def test_laplacian_in_triton_is_that_in_torch(monkeypatch, kind, n_features):
    pytest.importorskip("triton")
    both = Twins(kind, np.float32, "cuda", n_samples=150, n_features=n_features)
    weights = both.beside(np.random.default_rng(1).normal(size=len(both.set.pairs))).float()

    def run():
        return both.set.laplacian_times(both.tensor, weights)

    wanted, got = in_torch(monkeypatch, run), run()
    assert_close(got, wanted, scale=10 * float(wanted.abs().max()))
    assert torch.equal(run(), got)


@needs_gpu
def test_laplacian_of_a_sample_with_very_many_pairs(monkeypatch):
    pytest.importorskip("triton")
    rng = np.random.default_rng(0)
    n, many = 5000, 4000
    hub = np.column_stack([np.zeros(many), np.ones(many), 2 + rng.permutation(n - 2)[:many]])
    second = np.column_stack([2 + np.arange(many), np.ones(many), np.zeros(many)])
    Y = torch.tensor(rng.normal(size=(n, 32)).astype(np.float32), device="cuda")
    given = DeviceComparisons.from_triplets(Y, np.concatenate([hub, second]).astype(np.int64))
    weights = torch.tensor(rng.normal(size=len(given.pairs)).astype(np.float32), device="cuda")
    wanted = in_torch(monkeypatch, lambda: given.laplacian_times(Y, weights))
    got = given.laplacian_times(Y, weights)
    assert_close(got, wanted, scale=100 * float(wanted.abs().max()))


# The axes


@on_devices
@in_both_precisions
@pytest.mark.parametrize("shape", [(300, 60), (60, 300), (70, 70), (200, 4), (5, 90)])
@pytest.mark.parametrize("rows", [20_000, 40])
def test_axes_are_those_of_the_arrays(device, dtype, shape, rows, monkeypatch):
    monkeypatch.setattr("mdaml.low_rank.MAX_ROWS_FOR_START", rows)
    X = np.random.default_rng(0).normal(size=shape) * np.logspace(1, -1, shape[1])
    X = (X - X.mean(axis=0)).astype(dtype)
    here = LeadingAxes.of(X, 6, np.random.RandomState(0))
    there = LeadingAxes.of(torch.tensor(X, device=device), 6, np.random.RandomState(0))
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(
        there.variances, here.variances, rtol=1e3 * eps, atol=eps * here.variances[0]
    )
    assert there.level == pytest.approx(here.level, rel=10 * eps)
    axes = host(there.axes)
    assert axes.dtype == np.float64
    np.testing.assert_allclose(axes.T @ axes, np.eye(axes.shape[1]), atol=100 * eps)
    for whitened in (False, True):  # the last axis of few samples has no variance
        ours, theirs = (lead.start(4, whitened=whitened) for lead in (here, there))
        assert isinstance(theirs, np.ndarray)
        tolerance = 1e5 * eps * np.abs(ours @ ours.T).max()
        np.testing.assert_allclose(theirs @ theirs.T, ours @ ours.T, rtol=0, atol=tolerance)
    G = np.random.default_rng(1).normal(size=(shape[1], 3))
    got = there.precondition(torch.tensor(G, device=device))
    assert got.dtype == torch.float64
    np.testing.assert_allclose(host(got), here.precondition(G), rtol=0, atol=1e5 * eps)


@on_devices
def test_axes_of_samples_that_are_all_alike(device):
    leading = LeadingAxes.of(torch.zeros((8, 5), device=device), 6, np.random.RandomState(0))
    G = torch.ones((5, 2), device=device).double()
    assert torch.equal(leading.precondition(G), G)
    assert np.all(np.isfinite(leading.start(2)))


@on_devices
def test_start_from_a_matrix_is_that_of_the_arrays(device):
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(50, 6)), rng.normal(size=(6, 6))
    M = A @ A.T + 0.1 * np.eye(6)
    ours = low_rank_part(M, X, 2, np.random.RandomState(0))
    theirs = low_rank_part(M, torch.tensor(X, device=device), 2, np.random.RandomState(0))
    np.testing.assert_allclose(theirs @ theirs.T, ours @ ours.T, atol=1e-10)


# The objective and the solver


def problems(both, eta=3.0, **settings):
    """The same problem of low rank and its modes, with arrays and with tensors."""
    settings = {"triplet_weight": 500.0, "ridge": 1e-3, "max_inner_iter": 5, **settings}
    for X, given in ((both.Y, both.host), (both.tensor, both.set)):
        X = X - X.mean(axis=0)
        local = LowRankProblem(
            X=X,
            triplets=given,
            neighbors=Neighbors.from_graph(given.near_graph()),
            leading=LeadingAxes.of(X, 32, np.random.RandomState(0)),
            eta=eta,
            **settings,
        )
        yield local, modes_from_weights(X, both.weights, eta)


def objectives(both, F):
    return [local.factor_objective(local.start(F, modes)) for local, modes in problems(both)]


@on_devices
@in_both_precisions
@pytest.mark.parametrize("rank", [1, 3])
def test_value_gradient_and_path_are_those_of_the_arrays(twins, device, dtype, rank):
    both = twins(dtype, device)
    rng = np.random.default_rng(2)
    F, D = 0.5 * rng.normal(size=(2, both.Y.shape[1], rank))
    here, there = objectives(both, F)
    ours, theirs = here.at(F), there.at(both.beside(F))
    rel = 1e-5 if dtype == np.float32 else 1e-12
    assert theirs.value == pytest.approx(ours.value, rel=rel)
    assert theirs.projected.dtype == theirs.by_samples.dtype == both.tensor.dtype
    gradient = there.gradient(theirs)
    assert gradient.dtype == torch.float64
    wanted = here.gradient(ours)
    assert_close(gradient, wanted, dtype, scale=30 * np.abs(wanted).max())
    paths = here.along(ours, D), there.along(theirs, both.beside(D))
    points = [path.at(0.3) for path in paths]
    assert points[1].value == pytest.approx(points[0].value, rel=rel)
    slopes = [path.slope(point) for path, point in zip(paths, points, strict=True)]
    assert slopes[1] == pytest.approx(slopes[0], rel=10 * rel)


@on_devices
@pytest.mark.parametrize("seed", range(3))
def test_gradient_is_that_of_finite_differences(device, seed):
    both = Twins("weighted" if seed % 2 else "triplets", np.float64, device, seed=seed)
    F, h = 0.5 * np.random.default_rng(seed).normal(size=(5, 2)), 1e-5
    objective = objectives(both, F)[1]
    gradient = host(objective.gradient(objective.at(both.beside(F))))
    for i, j in np.ndindex(F.shape):
        step = np.zeros_like(F)
        step[i, j] = h
        up, down = (objective.at(both.beside(F + sign * step)).value for sign in (1, -1))
        assert gradient[i, j] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-4)


@on_devices
@pytest.mark.parametrize("eta", [1.3, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_in_double_precision_the_solver_takes_the_same_way(device, seed, eta):
    both = Twins("triplets" if seed % 2 else "weighted", np.float64, device, seed=seed)
    here, there = (
        alternate(local, local.start(local.leading.start(2), modes), max_iter=3, tol=0)
        for local, modes in problems(both, eta)
    )
    np.testing.assert_allclose(there.history, here.history, rtol=1e-8)
    assert isinstance(there.state.F, np.ndarray)
    M = here.state.F @ here.state.F.T
    np.testing.assert_allclose(there.state.F @ there.state.F.T, M, atol=1e-6 * np.abs(M).max())
    assert np.all(np.diff(there.history) <= 0)


@on_devices
@in_both_precisions
def test_critical_weight_is_that_of_the_arrays(twins, device, dtype):
    both = twins(dtype, device)
    F = np.random.default_rng(3).normal(size=(both.Y.shape[1], 2))
    here, there = (
        local.critical_triplet_weight(local.start(F, modes)) for local, modes in problems(both)
    )
    assert there == pytest.approx(here, rel=1e-3 if dtype == np.float32 else 1e-9)


# Fits


def toy(dtype=np.float32, n_features=8):
    X, supervision, start = test_device.problem()
    noise = np.random.default_rng(0).normal(size=(len(X), n_features - X.shape[1]))
    X = np.column_stack([X, noise])
    return (X / X.std(axis=0)).astype(dtype), supervision, start


CASES = [
    ("labels", {}),
    ("labels", {"sampling": "random"}),
    ("triplets", {}),
    ("triplets", {"eta": 1.6, "init_metric": "whitened", "max_inner_iter": 10, "max_iter": 4}),
    ("triplets", {"n_modes": 1, "ridge": 0.0, "n_components": 1}),
    ("triplets", {"init_metric": 0.5 * np.eye(8), "n_components": 7}),
    ("weighted", {}),
    ("quadruplets", {}),
    ("pairs", {}),
]


@on_devices
@in_both_precisions
@pytest.mark.parametrize(("form", "options"), CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # what is learned is not the question
def test_a_fit_on_a_device_is_the_fit_of_numpy(device, dtype, form, options):
    X, supervision, start = toy(dtype)
    options = {"n_modes": 3, "n_components": 3, "random_state": 0, **options}
    options["init"] = start[:, : options["n_modes"]]
    here = MDaML(**options).fit(X, **supervision[form])
    there = MDaML(**options, device=device).fit(X, **supervision[form])
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


@on_devices
def test_a_fit_with_its_own_start_repeats_itself_and_learns(device):
    X, supervision, _ = toy()
    options = {"n_components": 3, "random_state": 0}
    model, again = (
        MDaML(3, **options, device=device).fit(X, **supervision["triplets"]) for _ in range(2)
    )
    np.testing.assert_array_equal(model.components_, again.components_)
    np.testing.assert_array_equal(model.history_, again.history_)
    plain = MDaML(3, **options).fit(X, **supervision["triplets"])
    T = supervision["triplets"]["triplets"]
    assert model.score_triplets(X, T) > plain.score_triplets(X, T) - 0.03


@on_devices
def test_more_components_than_samples_leave_some_at_zero(device):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 40)), np.arange(12) % 2
    X[:, :3] += 2 * y[:, None]
    model = MDaML(1, n_components=20, random_state=0, device=device).fit(X, y)
    lengths = np.linalg.norm(model.components_, axis=1)
    assert lengths[0] > 1e-3
    np.testing.assert_allclose(lengths[12:], 0, atol=1e-12)


def largest_tensor(device, function):
    """The bytes that a run takes on a GPU, or that one operation takes on the CPU."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        return torch.cuda.max_memory_allocated() - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        function()
    return max(event.self_cpu_memory_usage for event in profile.events())


@on_devices
def test_no_array_of_features_by_features(device):
    n, d = 200, 4000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    triplets = sample_triplets(np.arange(n) % 4, 2, 2, random_state=0)
    model = MDaML(2, n_components=8, max_iter=2, random_state=0, device=device)
    model.fit(X[:, :10], triplets=triplets)  # compiles
    assert 0 < largest_tensor(device, lambda: model.fit(X, triplets=triplets)) < 0.5 * 4 * d * d
    assert model.components_.shape == (8, d)
    tracemalloc.start()  # what NumPy takes; it would count the records of a profile too
    model.fit(X, triplets=triplets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 4 * d * d


def test_a_limit_of_memory_is_still_refused():
    X, supervision, _ = toy()
    with pytest.raises(ValueError, match=r"leave device and n_components out, or memory_limit"):
        MDaML(3, n_components=2, device="cpu", memory_limit="1 GB").fit(X, **supervision["labels"])

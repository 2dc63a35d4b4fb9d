"""Fits on a device: every kernel for tensors against the one for arrays, and fits against fits.

All runs on torch's CPU; what needs a GPU is skipped where there is none.
"""

import sys
from itertools import pairwise

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from mdaml import MDaML, kernels
from mdaml.alternation import LocalProblem, alternate
from mdaml.constraints import ComparisonSet, TripletSet, sample_triplets
from mdaml.datasets import make_multimodal
from mdaml.device import DeviceComparisons, find_device
from mdaml.modes import Neighbors, kmeans_weights, mixture_weights, modes_from_weights

torch = pytest.importorskip("torch", reason="needs the extra torch")
torch_mixture = pytest.importorskip("mdaml.kernels.torch_mixture")
torch_pairs = pytest.importorskip("mdaml.kernels.torch_pairs")
torch_arrays = pytest.importorskip("mdaml.kernels.torch_arrays")

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]
on_devices = pytest.mark.parametrize("device", DEVICES)
in_both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Spare the other processes: torch's threads spin while they wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Twins:
    """The same samples, comparisons and modes as arrays and as tensors."""

    def __init__(self, kind, dtype, device, seed=0, n_samples=83, n_features=5, n_modes=3):
        rng = np.random.default_rng(seed)
        self.Y = rng.normal(size=(n_samples, n_features)).astype(dtype)
        y = rng.integers(0, 3, n_samples)
        extra = np.array([rng.choice(n_samples, 3, replace=False) for _ in range(100)])
        given = np.concatenate([sample_triplets(y, 3, 4, random_state=seed), extra, extra[:20]])
        self.weights = rng.dirichlet(np.ones(n_modes), n_samples).astype(dtype)
        self.scales = rng.random((4, n_features))
        self.tensor = torch.tensor(self.Y, device=device)
        if kind == "triplets":
            self.host = TripletSet.from_triplets(given, n_samples)
            self.set = DeviceComparisons.from_triplets(self.tensor, given)
        else:
            given = np.column_stack([given, np.roll(given[:, 2], 1)])
            given[given[:, 2] == given[:, 3], 3] += 1
            given[:, 3] %= n_samples
            v = None if kind == "quadruplets" else rng.random(len(given)) + 0.1
            self.host = ComparisonSet.from_comparisons(given, v, n_samples)
            self.set = DeviceComparisons.from_comparisons(self.tensor, given, v)
        self.importance = rng.random(len(self.host.pairs)) * (self.host.near_totals > 0)

    def beside(self, array):
        return torch.tensor(array, device=self.tensor.device)


def host(value):
    return value.cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def assert_close(got, wanted, dtype=np.float32, scale=None):
    got, wanted = host(got), host(wanted)
    assert got.shape == wanted.shape
    scale = np.abs(wanted).max() if scale is None else scale
    tolerance = (3e-6 if dtype == np.float32 else 1e-13) * max(scale, 1e-300)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)


@pytest.fixture(params=["triplets", "quadruplets", "weighted"])
def kind(request):
    return request.param


@pytest.fixture(params=[2**25, 50])
def twins(request, monkeypatch, kind):
    """A function that makes :class:`Twins`, in one block and in many."""
    monkeypatch.setattr(torch_pairs, "MAX_BLOCK", request.param)
    return lambda dtype, device, **sizes: Twins(kind, dtype, device, **sizes)


# Comparisons


@on_devices
def test_pairs_and_totals_are_those_of_the_host(twins, device):
    both = twins(np.float64, device)
    np.testing.assert_array_equal(host(both.set.pairs), both.host.pairs)
    assert both.set.total == pytest.approx(both.host.total, rel=1e-12)
    assert_close(both.set.near_totals, both.host.near_totals, np.float64)


@on_devices
def test_the_graph_of_near_pairs_and_its_colors_are_those_of_the_host(twins, device):
    both = twins(np.float64, device)
    graphs = both.host.near_graph(), tuple(host(part) for part in both.set.near_graph())
    np.testing.assert_array_equal(graphs[0][0], graphs[1][0])
    by_sample = [
        [sorted(zip(samples[a:b], rows[a:b], strict=True)) for a, b in pairwise(ptr)]
        for ptr, samples, rows in graphs
    ]
    assert by_sample[0] == by_sample[1]
    ours, theirs = (Neighbors.from_graph(s.near_graph()) for s in (both.host, both.set))
    np.testing.assert_array_equal(ours.order, theirs.order)
    np.testing.assert_array_equal(ours.colors, theirs.colors)


@on_devices
@in_both_precisions
def test_importances(twins, device, dtype):
    both = twins(dtype, device)
    powers = both.weights**3
    got = both.set.importances(both.beside(powers))
    assert got.dtype == torch.float64
    assert_close(got, both.host.importances(powers), np.float64)


@on_devices
@in_both_precisions
def test_losses(twins, device, dtype):
    both = twins(dtype, device)
    assert_close(both.set.losses(both.tensor), both.host.losses(both.Y), dtype)


@on_devices
@in_both_precisions
def test_losses_along(twins, device, dtype):
    both = twins(dtype, device)
    got = both.set.losses_along(both.tensor, both.scales, both.beside(both.importance))
    assert isinstance(got, np.ndarray)
    assert_close(got, both.host.losses_along(both.Y, both.scales, both.importance), dtype)


@on_devices
@in_both_precisions
def test_gradient(twins, device, dtype):
    both = twins(dtype, device)
    for scales in (both.scales[0], np.zeros(both.Y.shape[1])):
        loss, product = both.host.gradient(both.Y, scales, both.importance)
        got, tensor = both.set.gradient(both.tensor, scales, both.beside(both.importance))
        assert isinstance(got, float)
        assert tensor.dtype == both.tensor.dtype
        assert_close(got, loss, dtype)
        assert_close(tensor, product, dtype, scale=10 * np.abs(product).max())
        half = both.set.half_scatter(both.tensor, scales, both.beside(both.importance))[1]
        wanted = both.host.half_scatter(both.Y, scales, both.importance)[1]
        assert_close(half, wanted, dtype, scale=100 * np.abs(wanted).max())


# Samples and modes


@on_devices
@in_both_precisions
@pytest.mark.parametrize("n", [3, 4096, 9001])
def test_products_and_sums(device, dtype, n):
    rng = np.random.default_rng(n)
    Y, V, A = (rng.normal(size=s).astype(dtype) for s in ((n, 4), (n, 3), (4, 2)))
    tensors = [torch.tensor(array, device=device) for array in (Y, V)]
    assert_close(kernels.rows_times(tensors[0], A.astype(np.float64)), Y @ A, dtype)
    got = kernels.transposed_times(*tensors)
    assert isinstance(got, np.ndarray)
    assert got.dtype == np.float64
    assert_close(got, kernels.transposed_times(Y, V), dtype, scale=np.sqrt(n) * 10)
    gram = kernels.weighted_gram(tensors[0], tensors[1][:, 0])
    wanted = kernels.weighted_gram(Y, V[:, 0])
    assert_close(gram, wanted, dtype, scale=np.sqrt(n) * 10)
    sums = kernels.column_sums(tensors[0])
    assert_close(sums, Y.sum(axis=0, dtype=np.float64), dtype, scale=np.sqrt(n) * 10)
    squares = kernels.inner_product(tensors[0], tensors[0])
    assert squares == pytest.approx(np.sum(Y * Y, dtype=np.float64), rel=1e-5)


@on_devices
def test_rows_left_over_by_blocks_are_not_lost(device):
    for n in (4095, 4096, 4097, 12_288, 12_289):
        ones = torch.ones((n, 2), device=device)
        np.testing.assert_array_equal(kernels.transposed_times(ones, ones), np.full((2, 2), n))


@on_devices
@in_both_precisions
def test_center_sq_dists(twins, device, dtype):
    both = twins(dtype, device)
    centers = both.Y[:4] + dtype(0.5)
    got = kernels.center_sq_dists(both.tensor, centers)
    assert_close(got, kernels.center_sq_dists(both.Y, centers), dtype)


@on_devices
@in_both_precisions
@pytest.mark.parametrize("eta", [1.05, 2.0, 3.0, 7.5])
def test_sequential_weights(twins, device, dtype, eta):
    both = twins(dtype, device)
    neighbors = Neighbors.from_graph(both.host.near_graph())
    costs = np.abs(both.Y[:, :3]) + dtype(0.1)
    costs[5] = 0.0  # modes that cost nothing, for a sample that may have near pairs
    losses = both.host.losses(both.Y)
    losses[::3] = 0.0
    weights, powers = both.weights.copy(), both.weights**eta
    got = both.beside(weights), both.beside(powers)
    order = neighbors.order, neighbors.colors, eta
    kernels.sequential_weights(weights, powers, costs, neighbors.graph, losses, *order)
    graph, tensors = both.set.near_graph(), (both.beside(costs), both.beside(losses))
    kernels.sequential_weights(*got, tensors[0], graph, tensors[1], *order)
    assert_close(got[0], weights, dtype, scale=10)
    assert_close(got[1], powers, dtype, scale=10)


@on_devices
def test_modes_that_cost_nothing_share_all_the_weight(device):
    costs = torch.tensor([[0.0, 0.0, 2.0], [1.0, 0.0, 2.0]], device=device)
    weights = torch.full((2, 3), 1 / 3, device=device)
    powers = weights**2
    none = torch.zeros(0, dtype=torch.int32, device=device)
    graph = torch.zeros(3, dtype=torch.int32, device=device), none, none
    losses = torch.zeros(0, dtype=torch.float64, device=device)
    order = np.arange(2), np.array([0, 2]), 2.0
    kernels.sequential_weights(weights, powers, costs, graph, losses, *order)
    np.testing.assert_array_equal(host(weights), [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(host(powers), [[0.25, 0.25, 0.0], [0.0, 1.0, 0.0]])


@on_devices
def test_first_weights_and_means(device):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(50, 3)).astype(np.float32), rng.random((50, 4))
    weights[3] = [0, 1, 0, 5]
    tensor = torch.tensor(X, device=device)
    got = kernels.start_weights(tensor, weights)
    wanted = kernels.start_weights(X, weights)
    assert_close(got, wanted)
    assert host(got).min() > 0
    assert_close(kernels.mean_rows(got, tensor), kernels.mean_rows(wanted, X), scale=10)


# The mixture start


def blobs(n_samples=600, n_features=4, n_blobs=3, seed=0):
    rng = np.random.default_rng(seed)
    of = rng.integers(0, n_blobs, n_samples)
    centers = 10 * np.eye(n_features)[:n_blobs]
    return (rng.normal(size=(n_samples, n_features)) + centers[of]).astype(np.float32), of


def assert_same_partition(weights, of):
    found = weights.argmax(axis=1)
    assert len({*zip(found.tolist(), of.tolist(), strict=True)}) == len({*of.tolist()})


@on_devices
@pytest.mark.parametrize("start", [mixture_weights, kmeans_weights])
def test_a_start_finds_clusters_that_are_apart(device, start, monkeypatch):
    X, of = blobs()
    for n_rows in (20_000, 90):  # all rows, or some to estimate from
        monkeypatch.setattr("mdaml.modes.MAX_ROWS_FOR_START", n_rows)
        weights = start(torch.tensor(X, device=device), 3, np.random.RandomState(0))
        np.testing.assert_allclose(host(weights).sum(axis=1), 1, rtol=1e-6)
        assert_same_partition(host(weights), of)


def test_steps_of_the_mixture_are_those_of_scikit_learn():
    X, _ = blobs(n_blobs=2)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    tensor = torch.tensor(X).double()
    posteriors = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(3), len(X)))
    shares, means, variances = torch_mixture._estimate(tensor, posteriors)
    peer = GaussianMixture(3, covariance_type="diag", reg_covar=torch_mixture.FLOOR)
    peer._initialize(X.astype(np.float64), posteriors.numpy())
    np.testing.assert_allclose(shares.exp(), peer.weights_, rtol=1e-9)
    np.testing.assert_allclose(means, peer.means_, atol=1e-12)
    np.testing.assert_allclose(variances, peer.covariances_, atol=1e-12)
    got = torch_mixture._log_joint(tensor, (shares, means, variances)).softmax(dim=1)
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
        mixture = torch_mixture._fit(torch.tensor(X), 3, np.random.RandomState(seed))
        likelihood = torch_mixture._log_joint(torch.tensor(X), mixture).logsumexp(dim=1).mean()
        scores["ours"].append(float(likelihood) - 0.5 * 3 * np.log(2 * np.pi))
    assert np.mean(scores["ours"]) > np.mean(scores["theirs"]) - 0.05


@on_devices
def test_a_start_survives_samples_that_coincide(device):
    X = torch.ones((30, 2), device=device)
    X[:3] = 5.0
    weights = host(mixture_weights(X, 4, np.random.RandomState(0)))
    assert np.all(np.isfinite(weights))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)


# Fits


@on_devices
@pytest.mark.parametrize("eta", [1.3, 3.0])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("algebra", ["host", "device"])
def test_in_double_precision_the_solver_takes_the_same_way(device, seed, eta, algebra, monkeypatch):
    if algebra == "device":  # as for features in the hundreds
        monkeypatch.setattr(
            torch_arrays, "small_matrix", lambda X, A: torch_arrays.to_device(A, X.device)
        )
    both = Twins("triplets" if seed % 2 else "weighted", np.float64, device, seed=seed)
    outcomes = []
    for X, given in ((both.Y, both.host), (both.tensor, both.set)):
        X = X - X.mean(axis=0)
        settings = {"eta": eta, "triplet_weight": 500.0, "ridge": 1e-3, "max_inner_iter": 5}
        neighbors = Neighbors.from_graph(given.near_graph())
        local = LocalProblem(X=X, triplets=given, neighbors=neighbors, **settings)
        modes = modes_from_weights(X, both.weights, eta)
        outcomes.append(alternate(local, local.start(np.eye(X.shape[1]), modes), max_iter=3, tol=0))
    here, there = outcomes
    np.testing.assert_allclose(there.history, here.history, rtol=1e-7)
    np.testing.assert_allclose(
        there.state.F @ there.state.F.T, here.state.F @ here.state.F.T, atol=1e-4
    )
    assert np.all(np.diff(there.history) <= 0)


def problem(seed=0, dtype=np.float32):
    X, y = make_multimodal(random_state=seed)
    rng = np.random.default_rng(seed)
    T = sample_triplets(y, 3, 3, random_state=seed)
    Q = np.column_stack([T, np.roll(T[:, 1], 7)])
    supervision = {
        "labels": {"y": y},
        "triplets": {"triplets": T},
        "weighted": {"triplets": T, "constraint_weight": 0.2 + rng.random(len(T))},
        "quadruplets": {"quadruplets": Q[Q[:, 2] != Q[:, 3]]},
        "pairs": {"pairs": T[:, :2], "pair_labels": np.where(rng.random(len(T)) < 0.5, 1, -1)},
    }
    return X.astype(dtype), supervision, rng.dirichlet(np.ones(3), len(X))


CASES = [
    ("labels", {}),
    ("labels", {"sampling": "random", "n_components": 2}),
    ("triplets", {}),
    ("triplets", {"eta": 1.6, "init_metric": "whitened", "max_inner_iter": 10}),
    ("triplets", {"n_modes": 1, "ridge": 0.0}),
    ("weighted", {}),
    ("quadruplets", {}),
    ("pairs", {}),
]


@on_devices
@pytest.mark.parametrize(("form", "options"), CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # what is learned is not the question
def test_a_fit_on_a_device_is_the_fit_of_numpy(device, form, options):
    X, supervision, start = problem()
    options = {"n_modes": 3, "random_state": 0, **options}
    options["init"] = start[:, : options["n_modes"]]
    here = MDaML(**options).fit(X, **supervision[form])
    there = MDaML(**options, device=device).fit(X, **supervision[form])
    assert np.all(np.diff(there.history_)[np.setdiff1d(
        np.arange(len(there.history_) - 1), there.pass_starts_ - 1)] <= 0)  # fmt: skip
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
@pytest.mark.parametrize("form", ["triplets", "quadruplets"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # what is learned is not the question
def test_a_start_much_too_wide_is_scaled_as_with_numpy(device, form):
    X, supervision, start = problem(dtype=np.float64)
    X = 1e3 * X
    options = {"n_modes": 3, "init": start, "max_iter": 2, "ridge": 0.0, "random_state": 0}
    here = MDaML(**options).fit(X, **supervision[form])
    there = MDaML(**options, device=device).fit(X, **supervision[form])
    plain = MDaML(**options, init_metric="identity").fit(X, **supervision[form])
    assert here.history_[0] != plain.history_[0]
    np.testing.assert_allclose(there.history_, here.history_, rtol=1e-6)


@on_devices
@pytest.mark.parametrize("init", ["gmm", "kmeans"])
def test_a_fit_with_its_own_start_repeats_itself_and_learns(device, init):
    X, supervision, _ = problem(1)
    model = MDaML(3, init=init, random_state=0, device=device).fit(X, **supervision["triplets"])
    again = MDaML(3, init=init, random_state=0, device=device).fit(X, **supervision["triplets"])
    np.testing.assert_array_equal(model.components_, again.components_)
    np.testing.assert_array_equal(model.history_, again.history_)
    plain = MDaML(3, init=init, random_state=0).fit(X, **supervision["triplets"])
    T = supervision["triplets"]["triplets"]
    assert model.score_triplets(X, T) > plain.score_triplets(X, T) - 0.03
    assert model.history_[-1] < 0.1 * model.history_[0]


@on_devices
def test_double_precision_far_from_the_origin_is_centred_before_it_becomes_single(device):
    X, supervision, start = problem(dtype=np.float64)
    far = X + 1e7
    options = {"init": start, "random_state": 0, "device": device}
    near = MDaML(3, **options).fit(X, **supervision["triplets"])
    model = MDaML(3, **options).fit(far, **supervision["triplets"])
    np.testing.assert_allclose(model.history_, near.history_, rtol=1e-3)
    np.testing.assert_allclose(model.centers_, near.centers_ + 1e7, rtol=1e-9)
    assert model.components_.dtype == model.weights_.dtype == model.centers_.dtype == np.float64


def test_input_is_left_alone_and_may_be_read_only():
    X, supervision, start = problem()
    T = supervision["triplets"]["triplets"]
    before = X.copy()
    for array in (X, T, start):
        array.setflags(write=False)
    MDaML(3, init=start, device="cpu").fit(X, triplets=T)
    np.testing.assert_array_equal(X, before)


def test_values_that_single_precision_cannot_hold_are_refused():
    X, supervision, _ = problem(dtype=np.float64)
    with pytest.raises(ValueError, match="fourth powers overflow in float32"):
        MDaML(3, device="cpu").fit(X * 1e10, **supervision["triplets"])


# Which device


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_is_refused_where_there_is_none():
    X, supervision, _ = problem()
    with pytest.raises(
        ValueError, match=r"MDaML\(device=\.\.\.\) needs a GPU, but torch .* 'auto'"
    ):
        MDaML(device="cuda").fit(X, **supervision["triplets"])


def test_without_torch_a_device_is_refused_and_auto_is_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'needs torch: pip install "mdaml\[torch\]"'):
        find_device("MDaML(device=...)", "cpu")
    assert find_device("MDaML(device=...)", "auto") is None
    X, supervision, _ = problem()
    fits = [MDaML(3, random_state=0, device=d).fit(X, **supervision["triplets"])
            for d in (None, "auto")]  # fmt: skip
    np.testing.assert_array_equal(fits[0].history_, fits[1].history_)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_auto_without_cuda_is_numpy():
    assert find_device("MDaML", "auto") is None


@needs_gpu
def test_auto_with_cuda_is_cuda():
    assert find_device("MDaML", "auto") == "cuda"


# Triton on a GPU


def in_torch(monkeypatch, function):
    with monkeypatch.context() as patched:
        patched.setattr(torch_pairs, "_triton_pairs", lambda: None)
        return function()


@needs_gpu
@pytest.mark.parametrize(
    ("n_samples", "n_features"), [(83, 1), (200, 5), (90, 16), (300, 128), (150, 200), (60, 768)]
)
def test_passes_in_triton_are_those_in_torch(monkeypatch, kind, n_samples, n_features):
    pytest.importorskip("triton")
    assert torch_pairs._triton_pairs() is not None
    sizes = {"n_samples": n_samples, "n_features": n_features}
    both = Twins(kind, np.float32, "cuda", **sizes)
    Y, given = both.tensor / n_features**0.5, both.set
    importance = both.beside(both.importance)
    passes = {
        "gradient": lambda: given.gradient(Y, both.scales[0], importance)[1],
        "loss": lambda: torch.tensor(given.gradient(Y, both.scales[0], importance)[0]),
        "losses": lambda: given.losses(Y),
        "along": lambda: given.losses_along(Y, both.scales, importance),
        "dists": lambda: torch_pairs.pair_sq_dists(
            Y, given.pairs, both.beside(both.scales.astype(np.float32))
        ),
    }
    for run in passes.values():
        wanted = in_torch(monkeypatch, run)
        assert_close(run(), wanted, scale=10 * np.abs(host(wanted)).max())


@needs_gpu
def test_a_sample_with_very_many_pairs_and_a_pair_with_very_many_comparisons(monkeypatch):
    pytest.importorskip("triton")
    rng = np.random.default_rng(0)
    n, many = 5000, 4000
    hub = np.column_stack([np.zeros(many), np.ones(many), 2 + rng.permutation(n - 2)[:many]])
    second = np.column_stack([2 + np.arange(many), np.ones(many), np.zeros(many)])
    Y = torch.tensor(rng.normal(size=(n, 20)).astype(np.float32) / 5, device="cuda")
    given = DeviceComparisons.from_triplets(Y, np.concatenate([hub, second]).astype(np.int64))
    importance = given.importances(Y.abs())
    scales = np.ones(20)
    wanted = in_torch(monkeypatch, lambda: given.gradient(Y, scales, importance))
    got = given.gradient(Y, scales, importance)
    assert got[0] == pytest.approx(wanted[0], rel=1e-6)
    assert_close(got[1], wanted[1], scale=10 * float(wanted[1].abs().max()))


@needs_gpu
def test_offsets_beyond_two_to_the_31():
    n, d = 2**31 // 128 + 1000, 128
    if torch.cuda.mem_get_info()[0] < 60 * 2**30:
        pytest.skip("needs 60 GiB of free GPU memory")
    Y = torch.zeros((n, d), device="cuda")
    rows = np.array([0, 5, n - 3, n - 2, n - 1])
    some = torch.randn((5, d), generator=torch.Generator().manual_seed(0)) / 10
    Y[torch.tensor(rows, device="cuda")] = some.cuda()
    T = np.array([[0, 1, 2], [2, 3, 4], [4, 3, 0], [3, 1, 4]])
    small = DeviceComparisons.from_triplets(some.cuda(), T)
    large = DeviceComparisons.from_triplets(Y, rows[T])
    importance = torch.rand(len(small.pairs), generator=torch.Generator().manual_seed(1)).double()
    wanted = small.gradient(some.cuda(), np.ones(d), importance.cuda())
    got = large.gradient(Y, np.ones(d), importance.cuda())
    assert got[0] == pytest.approx(wanted[0], rel=1e-6)
    assert_close(got[1][torch.tensor(rows, device="cuda")], wanted[1])
    assert float(got[1].abs().sum()) == pytest.approx(float(wanted[1].abs().sum()), rel=1e-4)
    del Y, large, got
    torch.cuda.empty_cache()


@needs_gpu
def test_large_matrices_are_decomposed_on_the_gpu():
    A = np.random.default_rng(0).normal(size=(300, 300))
    A = A + A.T
    values, vectors = kernels.eigh(torch.zeros((1, 300), device="cuda"), A)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), atol=1e-10)
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, A, atol=1e-10)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(300), atol=1e-12)


@on_devices
def test_slopes_are_those_of_the_arrays(device, kind):
    both = Twins(kind, np.float64, device)
    loss, slopes = both.set.slopes(both.tensor, both.beside(both.importance))
    expected, wanted = both.host.slopes(both.Y, both.importance)
    assert loss == pytest.approx(expected, rel=1e-10)
    assert_close(slopes, wanted, np.float64)

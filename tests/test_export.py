"""The learned map in other libraries: each agrees with ``transform`` of the model."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from joblib import Parallel, delayed
from pages import run_page
from scipy.spatial.distance import cdist, pdist
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

import mdaml
from mdaml.datasets import load_dataset
from mdaml.io.export import MahalanobisMetric

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def data():
    X, y = load_dataset("vehicle", return_X_y=True)
    return X[:300], y[:300]


@pytest.fixture(scope="module", params=["square", "low rank", "single precision"])
def model(request, data):
    X, y = data
    if request.param == "square":
        return mdaml.GMML().fit(X, y)
    if request.param == "low rank":
        return mdaml.LFDA(n_components=3).fit(X, y)
    return mdaml.GMML().fit(X.astype(np.float32), y)


# --- the metric as a function ---


def test_the_metric_is_the_distance_of_pairs(model, data):
    X = data[0].astype(np.float64)
    metric = model.get_metric()
    L = model.components_.astype(np.float64)
    for a, b in zip(X[:20], X[20:40], strict=True):
        square = 0.0
        for row in L:
            square += sum(c * (p - q) for c, p, q in zip(row, a, b, strict=True)) ** 2
        assert metric(a, b) == pytest.approx(square**0.5, rel=1e-10)
        assert metric(a, b) == pytest.approx(model.pair_distance([a], [b])[0], rel=1e-5)


components = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 3), st.just(3)), elements=st.floats(-9, 9, width=16)
)
vectors = hnp.arrays(np.float64, 3, elements=st.floats(-9, 9, width=16))


@given(L=components, u=vectors, v=vectors, w=vectors)
def test_it_is_a_pseudometric(L, u, v, w):
    metric = MahalanobisMetric(L)
    assert metric(u, u) == 0.0
    assert metric(u, v) == metric(v, u) >= 0.0
    assert metric(u, w) <= metric(u, v) + metric(v, w) + 1e-9


def test_scikit_learn_and_scipy_take_it(model, data):
    X, y = data[0][:80].astype(np.float64), data[1][:80]
    metric, Z = model.get_metric(), X @ model.components_.astype(np.float64).T
    wanted = cdist(Z, Z)
    tight = {"rtol": 1e-9, "atol": 1e-9 * wanted.max()}
    np.testing.assert_allclose(cdist(X, X, metric), wanted, **tight)
    np.testing.assert_allclose(pdist(X, metric), pdist(Z), **tight)
    np.testing.assert_allclose(pairwise_distances(X, metric=metric), wanted, **tight)
    for algorithm in ("auto", "brute", "ball_tree"):
        knn = KNeighborsClassifier(3, metric=metric, algorithm=algorithm).fit(X, y)
        np.testing.assert_allclose(knn.kneighbors(X)[0], np.sort(wanted)[:, :3], **tight)


def test_it_crosses_the_borders_of_processes(model, data):
    X = data[0][:4].astype(np.float64)
    metric = model.get_metric()
    again = pickle.loads(pickle.dumps(metric))
    assert again == metric
    assert hash(again) == hash(metric)
    assert again.components.tobytes() == metric.components.tobytes()
    assert not again.components.flags.writeable
    there = Parallel(n_jobs=2)(delayed(metric)(u, X[0]) for u in X)
    assert there == [metric(u, X[0]) for u in X]
    pickled = pickle.dumps(NearestNeighbors(metric=metric).fit(X))
    assert len(pickle.loads(pickled).kneighbors(X, 2)[0]) == 4


def test_it_does_not_change(model):
    metric = model.get_metric()
    with pytest.raises(AttributeError, match="cannot assign to field 'components'"):
        metric.components = np.eye(2)
    with pytest.raises(AttributeError, match="cannot delete field 'components'"):
        del metric.components
    with pytest.raises(ValueError, match="read-only"):
        metric.components[0, 0] = 1.0
    kept = model.components_.copy()
    model.components_ *= 2
    assert metric == MahalanobisMetric(kept)
    assert metric != model.get_metric()
    assert metric != "metric"
    model.components_ = kept


def test_zeros_of_either_sign_are_equal_and_hash_alike():
    plus, minus = MahalanobisMetric([[0.0, 1.0]]), MahalanobisMetric([[-0.0, 1.0]])
    assert plus == minus
    assert hash(plus) == hash(minus)
    assert repr(plus) == "MahalanobisMetric(<1 x 2>)"


def test_wrong_vectors_and_components_are_refused():
    metric = MahalanobisMetric(np.eye(3))
    for u, v in [([1.0] * 2, [1.0] * 3), ([1.0] * 3, [1.0]), (np.eye(3), np.eye(3))]:
        with pytest.raises(ValueError, match="vectors of 3 features"):
            metric(u, v)
    for bad in (np.ones(3), np.ones((0, 3)), [[np.nan]]):
        with pytest.raises(ValueError, match="components must be finite numbers"):
            MahalanobisMetric(bad)


# --- samples for any index ---


def test_embed_is_transform_in_single_precision_and_c_order(model, data):
    for X in (data[0], np.asfortranarray(data[0]), data[0].astype(np.float32), data[0].tolist()):
        embedded = model.embed(X)
        assert embedded.dtype == np.float32
        assert embedded.flags.c_contiguous
        np.testing.assert_allclose(embedded, model.transform(X), rtol=1e-4, atol=1e-3)


def test_embed_of_many_blocks_goes_from_memory_map_to_memory_map(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.integers(-9, 9, size=(50_001, 5)))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = mdaml.LFDA(n_components=2).fit(X[:50], np.arange(50) % 2)
    out = np.lib.format.open_memmap(tmp_path / "Z.npy", "w+", np.float32, (50_001, 2))
    assert model.embed(X, out=out) is out
    np.testing.assert_array_equal(out, model.transform(X).astype(np.float32))


def test_embed_checks_names_of_features_and_ignores_set_output(data):
    import pandas

    X = pandas.DataFrame(data[0]).add_prefix("f")
    model = mdaml.GMML().fit(X, data[1]).set_output(transform="pandas")
    np.testing.assert_array_equal(model.embed(X), model.transform(X).to_numpy(np.float32))
    with pytest.raises(ValueError, match="feature names"):
        model.embed(X[X.columns[::-1]])


@pytest.mark.parametrize(
    ("out", "got"),
    [
        (np.empty((2, 2)), "float64 of shape"),
        (np.empty((3, 2), np.float32), r"shape \(3, 2\)"),
        (np.empty((2, 2), np.float32, order="F"), "not in C order"),
        (np.broadcast_to(np.float32(0), (2, 2)), "read-only"),
        ([[0.0, 0.0]] * 2, "list"),
    ],
)
def test_embed_refuses_other_places_to_write_to(out, got):
    model = mdaml.Euclidean().fit(np.eye(2))
    with pytest.raises(ValueError, match=f"out must be a writable float32.*got .*{got}"):
        model.embed(np.eye(2), out=out)


def test_embed_refuses_what_transform_refuses_and_what_overflows():
    model = mdaml.Euclidean().fit(np.eye(2))
    for bad in ([1.0, 2.0], [[1.0]], [[np.nan, 0.0]], np.empty((0, 2)), 3.0):
        with pytest.raises(ValueError, match=r"array|features|NaN|sample"):
            model.embed(bad)
    with pytest.raises(ValueError, match="Rows 0 to 1 of X, transformed, exceed single"):
        model.embed([[0.0, 0.0], [1e39, 0.0]])


# --- faiss, ONNX, torch ---


def test_faiss_finds_the_neighbours_and_squared_distances_of_the_metric(model, data):
    import faiss

    X = data[0].astype(np.float32)
    index = model.to_faiss(X[:200])
    assert isinstance(index, faiss.IndexPreTransform)
    assert index.ntotal == 200
    squared, found = index.search(X[200:], 5)
    Z = X.astype(np.float64) @ model.components_.astype(np.float64).T
    wanted = cdist(Z[200:], Z[:200], "sqeuclidean")
    tolerance = 1e-5 * wanted.max()
    np.testing.assert_allclose(
        squared, np.take_along_axis(wanted, found, axis=1), rtol=1e-3, atol=tolerance
    )
    np.testing.assert_allclose(squared, np.sort(wanted)[:, :5], rtol=1e-3, atol=tolerance)


@pytest.mark.needs("faiss")
def test_an_empty_faiss_index_takes_samples_as_they_are(data):
    X = data[0].astype(np.float32)
    model = mdaml.LFDA(n_components=3).fit(X, data[1])
    index = model.to_faiss()
    assert (index.d, index.ntotal) == (X.shape[1], 0)
    np.testing.assert_allclose(index.chain.at(0).apply(X), model.transform(X), rtol=1e-3, atol=1e-2)
    index.add(X)
    assert index.search(X[7:8], 1)[1] == [[7]]


@pytest.mark.needs("faiss")
def test_faiss_distances_survive_features_far_from_zero():
    """In single precision, squares of 10 000 leave nothing of distances of 0.1."""
    X = 1e4 + np.random.default_rng(0).normal(size=(400, 3)).round(2)
    model = mdaml.Euclidean().fit(X)
    squared, _ = model.to_faiss(X).search(X.astype(np.float32), 4)
    np.testing.assert_allclose(squared, np.sort(cdist(X, X, "sqeuclidean"))[:, :4], atol=0.01)


@pytest.mark.parametrize("dtype", ["float32", np.float64])
def test_onnx_runs_to_the_same_result_for_any_number_of_rows(dtype, model, data, tmp_path):
    import onnx
    import onnxruntime as runtime

    made = model.to_onnx(tmp_path / "model.onnx", dtype=dtype)
    assert isinstance(made, onnx.ModelProto)
    assert onnx.load(tmp_path / "model.onnx") == made
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    for n in (1, 7, 300):
        X = data[0][:n].astype(dtype)
        (embedding,) = session.run(["embedding"], {"X": X})
        assert embedding.dtype == dtype
        wanted = model.transform(X)
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(embedding, wanted, rtol=1e-4, atol=1e-5 * scale)
    with pytest.raises(Exception, match="Got: 2 Expected: "):
        session.run(None, {"X": np.ones((1, 2), dtype)})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_layer_is_the_transform_frozen(dtype, model, data):
    import torch

    layer = model.to_torch(dtype=dtype)
    assert type(layer) is torch.nn.Linear
    assert layer.bias is None
    assert not layer.weight.requires_grad
    X = data[0].astype(dtype)
    mapped = layer(torch.from_numpy(X)).numpy()
    assert mapped.dtype == dtype
    wanted = model.transform(X)
    np.testing.assert_allclose(mapped, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
    same = model.to_torch(dtype=getattr(torch, dtype))
    assert torch.equal(same.weight, layer.weight)
    layer.weight.mul_(2)  # a copy: the model does not change
    assert not torch.equal(model.to_torch(dtype=dtype).weight, layer.weight)


@pytest.mark.parametrize("dtype", ["float16", "int8", "numbers", None, 3])
def test_other_precisions_are_refused(dtype):
    model = mdaml.Euclidean().fit(np.eye(2))
    for export in (model.to_onnx, model.to_torch):
        with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64'"):
            export(dtype=dtype)


@pytest.mark.needs("onnx")
def test_components_beyond_single_precision_are_refused():
    model = mdaml.Euclidean().fit(np.eye(2))
    model.components_ = 1e39 * model.components_
    with pytest.raises(ValueError, match=r"up to 1.0e\+39 do not fit into float32"):
        model.to_onnx()


def test_a_model_that_is_not_fitted_exports_nothing():
    model = mdaml.MDaML()
    for export in (model.to_faiss, model.to_onnx, model.to_torch, model.get_metric):
        with pytest.raises(NotFittedError):
            export()
    with pytest.raises(NotFittedError):
        model.embed(np.eye(2))


@pytest.mark.parametrize("name", ["faiss", "onnx", "torch"])
def test_a_missing_library_is_named_with_its_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)  # no import finds it
    model = mdaml.Euclidean().fit([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(
        ImportError, match=rf'^to_{name} needs {name}: pip install "mdaml\[{name}\]"$'
    ):
        getattr(model, f"to_{name}")()


@pytest.mark.needs("faiss", "onnx", "onnxruntime", "torch", "pandas")
def test_the_page_on_deployment_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = run_page(ROOT / "docs" / "deployment.md")
    assert result.failed == 0
    assert result.attempted > 10

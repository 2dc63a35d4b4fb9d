"""Samples in every container in which people have them, and those that are refused in words."""

import copy
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from mdaml import DMLMJ, GMML, KISSME, LFDA, LMNN, DMLdc, DMLeig, Euclidean, MDaML, MDaMLCV
from mdaml.datasets import make_multimodal
from mdaml.estimators.base import PackedRows

NAMES = ["a", "b"]
DENSE_ONLY = [MDaML(), MDaMLCV(), LMNN(), DMLeig(), DMLMJ(), LFDA(), DMLdc()]


@pytest.fixture(scope="module", name="data")
def make_data():
    return make_multimodal(random_state=0)


FRAMES = {
    "polars": lambda X, y: (pl.DataFrame(X, schema=NAMES), pl.Series(y)),
    "polars text": lambda X, y: (pl.DataFrame(X, schema=NAMES), pl.Series([f"c{c}" for c in y])),
    "arrow": lambda X, y: (pa.table(dict(zip(NAMES, X.T, strict=True))), pa.chunked_array([y])),
    "nullable": lambda X, y: (
        pd.DataFrame(X, columns=NAMES).convert_dtypes(),
        pd.Series(y, dtype="Int64"),
    ),
    "arrow in pandas": lambda X, y: (
        pd.DataFrame(X, columns=NAMES).astype("float64[pyarrow]"),
        pd.Series(y, dtype="int64[pyarrow]"),
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_all_libraries_go_in_and_out(kind, data):
    X, y = data
    frame, labels = FRAMES[kind](X, y)
    plain, model = GMML().fit(X, y), GMML().fit(frame, labels)
    np.testing.assert_allclose(model.components_, plain.components_)
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_allclose(model.transform(frame), plain.transform(X))
    for library, cls in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        mapped = GMML().fit(frame, labels).set_output(transform=library).transform(frame)
        assert isinstance(mapped, cls)
        assert list(mapped.columns) == ["gmml0", "gmml1"]
        np.testing.assert_allclose(mapped.to_numpy(), plain.transform(X))


def holes(X):
    return np.where(X > 1.5, np.nan, X)


REFUSED = {
    "NaN: 214 missing values, the first in row 0, column 0": holes,
    "the first in row 0, column 'a'": lambda X: pd.DataFrame(holes(X), columns=NAMES),
    "Preparing data": holes,
    "a masked array with 214 masked values": lambda X: np.ma.masked_invalid(holes(X)),
    "holds dates": lambda X: X.astype("datetime64[D]"),
    "The column 'b' of X holds dates": lambda X: pd.DataFrame(
        {"a": X[:, 0], "b": pd.date_range("2020", periods=len(X))}
    ),
    "The column 'd' of X holds dates": lambda X: pl.DataFrame(
        {"d": pl.Series(X[:, 0]).cast(pl.Int32).cast(pl.Date)}
    ),
    "The column 't' of X holds dates": lambda X: pa.table(
        {"t": pa.array(X[:, 0].astype("datetime64[s]"))}
    ),
    "OneHotEncoder": lambda X: pd.DataFrame({"a": X[:, 0], "b": "word"}),
    "the columns 'b'": lambda X: pd.DataFrame(
        {"a": X[:, 0], "b": pd.Categorical(["x", "y"] * (len(X) // 2))}
    ),
}


@pytest.mark.parametrize("message", REFUSED)
@pytest.mark.parametrize("estimator", [GMML(), Euclidean(), LFDA()], ids=repr)
def test_what_is_no_number_is_refused_with_what_to_do(message, estimator, data):
    X, y = data
    with pytest.raises(ValueError, match=message):
        estimator.fit(REFUSED[message](X), y)


def test_later_samples_are_refused_in_the_same_words(data):
    X, y = data
    model = GMML().fit(X, y)
    with pytest.raises(ValueError, match="Input X contains NaN: 214 missing"):
        model.transform(holes(X))
    with pytest.raises(ValueError, match="Input B contains NaN: 214 missing"):
        model.pair_distance(X, holes(X))
    with pytest.raises(ValueError, match="masked array"):
        model.transform(np.ma.masked_invalid(holes(X)))


def test_a_masked_array_without_a_mask_is_an_array(data):
    X, y = data
    model = GMML().fit(np.ma.array(X), y)
    np.testing.assert_array_equal(model.components_, GMML().fit(X, y).components_)


def words(seed, n=120, d=12):
    """Counts of few words in texts of two kinds, and the kinds."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.poisson(0.3 + 0.7 * (y[:, None] == np.arange(d) % 2), size=(n, d)).astype(float)
    return X, y, rng.integers(n, size=(400, 2)), rng.choice([-1, 1], 400)


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
@pytest.mark.parametrize("estimator", [GMML(), KISSME(), Euclidean()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_samples_give_the_metric_of_dense_ones(container, estimator, dtype):
    X, y, pairs, labels = words(0)
    X = X.astype(dtype)
    pairs, labels = pairs[pairs[:, 0] != pairs[:, 1]], labels[pairs[:, 0] != pairs[:, 1]]
    for supervision in ({"y": y}, {"pairs": pairs, "pair_labels": labels}):
        metrics = [copy.deepcopy(estimator).fit(x, **supervision) for x in (X, container(X))]
        M, of_sparse = (metric.get_mahalanobis_matrix() for metric in metrics)
        np.testing.assert_allclose(of_sparse, M, rtol=1e-5, atol=1e-6 * np.abs(M).max())


def test_sparse_scatters_are_sums_over_pairs_in_blocks(monkeypatch):
    monkeypatch.setattr("mdaml.estimators.scatter._SPARSE_PAIRS", 7)
    X, _, pairs, labels = words(1)
    pairs, labels = pairs[pairs[:, 0] != pairs[:, 1]], labels[pairs[:, 0] != pairs[:, 1]]
    whole = GMML().fit(X, pairs=pairs, pair_labels=labels)
    parts = GMML().fit(sparse.csr_array(X), pairs=pairs, pair_labels=labels)
    np.testing.assert_allclose(
        parts.get_mahalanobis_matrix(), whole.get_mahalanobis_matrix(), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("estimator", [MDaML(n_components=3), LFDA(), GMML()], ids=repr)
def test_every_fitted_metric_maps_and_scores_sparse_samples(estimator):
    X, y, pairs, labels = words(2)
    model, S = estimator.fit(X, y), sparse.csr_array(X)
    triplets = np.column_stack([pairs[:-1], pairs[1:, 1]])
    triplets = triplets[[len(set(t)) == 3 for t in triplets.tolist()]]
    pairs = pairs[:-1]
    keep = pairs[:, 0] != pairs[:, 1]
    np.testing.assert_allclose(model.transform(S), model.transform(X), atol=1e-9)
    assert isinstance(model.transform(S), np.ndarray)
    for A, B in ((S, S[::-1]), (X, S[::-1]), (S, X[::-1])):
        np.testing.assert_allclose(model.pair_distance(A, B), model.pair_distance(X, X[::-1]))
    assert model.score_triplets(S, triplets) == model.score_triplets(X, triplets)
    supervision = (pairs[keep], labels[:-1][keep])
    assert model.score_pairs(S, *supervision) == pytest.approx(model.score_pairs(X, *supervision))


def test_large_sparse_samples_are_never_dense():
    """A million rows of 300 features would take 2.4 GB."""
    rng = np.random.default_rng(0)
    n, d = 200_000, 300
    entries = (rng.normal(size=2 * n), (np.repeat(np.arange(n), 2), rng.integers(d, size=2 * n)))
    S, y = sparse.csr_array(entries, shape=(n, d)), rng.integers(2, size=n)
    tracemalloc.start()
    model = KISSME().fit(S, y)
    assert model.pair_distance(S[:1000], S[1000:2000]).shape == (1000,)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * d * 8 / 4


@pytest.mark.parametrize("estimator", DENSE_ONLY, ids=repr)
def test_other_methods_say_what_to_do_about_sparse_samples(estimator):
    X, y, _, _ = words(3)
    with pytest.raises(TypeError, match=r"sparse.*Euclidean, GMML and KISSME.*TruncatedSVD"):
        estimator.fit(sparse.csr_array(X), y)
    with pytest.raises(TypeError, match="sparse_output=False"):
        estimator.fit(sparse.csr_array(X), y)


@pytest.mark.parametrize(
    ("supervision", "error", "message"),
    [
        ({"triplets": "abc"}, TypeError, "triplets"),
        ({"triplets": [[0, 1]]}, ValueError, "triplets"),
        ({"triplets": [[0, 1, 999]]}, ValueError, "999"),
        ({"triplet": [[0, 1, 2]]}, TypeError, "unexpected argument 'triplet'"),
    ],
)
def test_supervision_that_is_none_is_refused_by_the_baseline_too(supervision, error, message, data):
    with pytest.raises((error, ValueError), match=message):
        Euclidean().fit(data[0], **supervision)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MDaML(n_mode=3), "MDaML has no parameter 'n_mode'. Did you mean 'n_modes'?"),
        (lambda: GMML(prior_wieght=3), "Did you mean 'prior_weight'?"),
        (lambda: KISSME(zzz=3), "Its parameters are reg."),
        (lambda: MDaMLCV(randomstate=3), "Did you mean 'random_state'?"),
    ],
)
def test_misspelt_parameters_are_answered_with_the_nearest(make, message):
    with pytest.raises(TypeError) as caught:
        make()
    assert message in str(caught.value)


def test_a_search_without_a_classifier_points_to_the_search_for_metrics(data):
    X, y = data
    with pytest.raises(TypeError, match="MetricSearchCV"):
        GridSearchCV(GMML(), {"t": [0.3, 0.5]}).fit(X, y)
    assert not hasattr(GMML(), "score")
    model = make_pipeline(GMML(), KNeighborsClassifier(3))
    GridSearchCV(model, {"gmml__t": [0.3, 0.5]}, cv=2).fit(X, y)


def test_pickles_hold_comparisons_in_a_few_bytes(data):
    X, y = data
    model = MDaML(n_modes=1, random_state=0).fit(X, y)
    pickled = pickle.dumps(model)
    assert len(pickled) < model.triplets_.nbytes / 5
    again = pickle.loads(pickled)
    np.testing.assert_array_equal(again.triplets_, model.triplets_)
    assert again.triplets_.dtype == model.triplets_.dtype
    assert again.comparisons_ is None
    assert (again.transform(X) == model.transform(X)).all()


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_packed_rows_are_the_same_rows(dtype):
    rng = np.random.default_rng(0)
    for n, k, top in ((0, 3, 5), (1, 3, 5), (1000, 4, 10), (1000, 3, 2**31 - 1)):
        rows = rng.integers(top, size=(n, k)).astype(dtype)
        again = PackedRows.of(rows).unpack()
        np.testing.assert_array_equal(again, rows)
        assert again.dtype == rows.dtype
    huge = np.array([[0, 2**40, 7]])
    np.testing.assert_array_equal(PackedRows.of(huge).unpack(), huge)


def test_the_html_representation_links_to_the_documentation():
    for estimator in (MDaML(), GMML(), MDaMLCV()):
        page = estimator._repr_html_()
        assert f"/api/generated/mdaml.{type(estimator).__name__}.html" in page

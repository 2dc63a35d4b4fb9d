"""Whole pipelines as one model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

import mdaml
from mdaml import LFDA, FoldedMetric, MDaML, MDaMLCV, audit, fold_pipeline
from mdaml.datasets import make_triplets


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) * [1.0, 10.0, 0.1, 3.0, 1.0] + [5.0, -30.0, 0.0, 1.0, 2.0]
    T, _ = make_triplets(
        X / X.std(axis=0), n_triplets=300, components=np.eye(5)[:2], random_state=0
    )
    return X, T


LINEAR = {
    "scale": [StandardScaler()],
    "center": [StandardScaler(with_std=False)],
    "only scale": [StandardScaler(with_mean=False)],
    "scale, rotate": [StandardScaler(), PCA(3)],
    "rotate, whiten": [PCA(4, whiten=True)],
    "rotate, scale": [PCA(), StandardScaler()],
    "scale, reduce": [StandardScaler(with_mean=False), TruncatedSVD(3, random_state=0)],
    "nothing": ["passthrough"],
}
NORMED = {
    "l2": [Normalizer()],
    "l1": [StandardScaler(), Normalizer("l1")],
    "max": [StandardScaler(), Normalizer("max"), PCA(3)],
    "all": [StandardScaler(), PCA(4), Normalizer(), StandardScaler(), Normalizer(), PCA(3)],
}
EVERY = LINEAR | NORMED


@pytest.fixture(scope="module", params=EVERY)
def folded(request, answers):
    X, T = answers
    pipeline = make_pipeline(*EVERY[request.param], MDaML(1, anchor=0.1, random_state=0))
    pipeline.fit(X, mdaml__triplets=T)
    return pipeline, fold_pipeline(pipeline), X, T


def distances(mapped):
    return np.linalg.norm(mapped[:, None] - mapped[None], axis=2)


def test_distances_are_those_of_the_pipeline(folded):
    pipeline, model, X, T = folded
    expected = distances(pipeline.transform(X))
    np.testing.assert_allclose(distances(model.transform(X)), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        model.pair_distance(X[:9], X[9:18]), expected[range(9), range(9, 18)]
    )
    own = pipeline[-1].score_triplets(pipeline[:-1].transform(X), T)
    assert model.score_triplets(X, T) == pytest.approx(own, abs=0.01)
    assert model.n_features_in_ == 5


def test_whole_pipeline_is_saved(folded, tmp_path):
    _, model, X, _ = folded
    model.save(tmp_path / "m.mdaml")
    again = mdaml.load(tmp_path / "m.mdaml")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.needs("onnx")
def test_whole_pipeline_is_exported_to_onnx(folded):
    import onnxruntime

    _, model, X, _ = folded
    some = X.astype(np.float32)
    some[3] = 0.0
    expected = distances(model.transform(some.astype(np.float64)))
    np.testing.assert_allclose(distances(model.embed(some)), expected, rtol=1e-3, atol=1e-3)
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    (mapped,) = session.run(None, {"X": some})
    np.testing.assert_allclose(distances(mapped), expected, rtol=1e-3, atol=1e-3)


def test_whole_pipeline_is_exported_to_torch(folded):
    import torch

    _, model, X, _ = folded
    some = X.astype(np.float32)
    some[3] = 0.0
    expected = distances(model.transform(some.astype(np.float64)))
    layer = model.to_torch(dtype="float64")
    mapped = layer(torch.tensor(some, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(distances(mapped), expected, rtol=1e-6, atol=1e-9)
    assert not any(weight.requires_grad for weight in layer.parameters())


@pytest.mark.needs("faiss")
def test_whole_pipeline_is_searched_by_faiss(folded):
    _, model, X, _ = folded
    norms = {step["norm"] for step in getattr(model, "front_", [])}
    if norms - {"l2"}:
        with pytest.raises(ValueError, match="by the norm 'l2' only"):
            model.to_faiss(X)
        return
    sq_dists, rows = model.to_faiss(X).search(X.astype(np.float32), 3)
    expected = np.sort(distances(model.transform(X)), axis=1)[:, :3]
    np.testing.assert_allclose(np.sqrt(np.maximum(sq_dists, 0)), expected, rtol=1e-2, atol=1e-2)
    assert np.mean(rows[:, 0] == np.arange(60)) > 0.95


def test_modes_go_back_to_where_the_samples_are(answers):
    X, T = answers
    pipeline = make_pipeline(StandardScaler(), PCA(), MDaML.paper(2, random_state=0))
    pipeline.fit(X, mdaml__triplets=T)
    model = fold_pipeline(pipeline)
    inside = audit(pipeline, X, triplets=T)
    pd.testing.assert_frame_equal(audit(model, X, triplets=T), inside, atol=1e-6)
    away = audit(model, X, triplets=T, training_rows=False)
    expected = audit(pipeline, X, triplets=T, training_rows=False)
    np.testing.assert_allclose(away["self_weight"], expected["self_weight"], atol=1e-6)


def test_pipeline_stays_as_it_is_and_names_are_kept(answers):
    X, T = answers
    frame = pd.DataFrame(X, columns=list("pqrst"))
    pipeline = make_pipeline(StandardScaler(), MDaMLCV(random_state=0))
    pipeline.fit(frame, mdamlcv__triplets=T)
    before = pipeline[-1].components_.copy()
    model = fold_pipeline(pipeline)
    np.testing.assert_array_equal(pipeline[-1].components_, before)
    assert model.feature_names_in_.tolist() == list("pqrst")
    np.testing.assert_array_equal(model.components_, model.best_estimator_.components_)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list("qprst")])


def test_what_cannot_be_folded_is_named(answers):
    X, T = answers
    y = np.arange(60) % 2
    with pytest.raises(TypeError, match="MinMaxScaler cannot be folded"):
        fold_pipeline(make_pipeline(MinMaxScaler(), LFDA()).fit(X, y))
    with pytest.raises(TypeError, match=r"must be a metric of mdaml.*pass pipeline\[:-1\]"):
        fold_pipeline(make_pipeline(LFDA(), KNeighborsClassifier()).fit(X, y))
    with pytest.raises(TypeError, match="needs a Pipeline"):
        fold_pipeline(LFDA().fit(X, y))
    model = fold_pipeline(make_pipeline(Normalizer(), LFDA()).fit(X, y))
    assert isinstance(model, FoldedMetric)
    for refused in (model.get_mahalanobis_matrix, model.get_metric):
        with pytest.raises(TypeError, match="no Mahalanobis distance of X"):
            refused()
    with pytest.raises(TypeError, match="does not learn"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="as many rows"):
        model.pair_distance(X[:3], X[:4])
    assert model.score_triplets(X, T) > 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"norm": "l3"},
        {"matrix": np.eye(4)},
        {"offset": np.zeros(4)},
        {"matrix": np.full((5, 5), np.nan)},
        {"more": 1},
    ],
)
def test_steps_that_do_not_fit_are_not_saved(answers, tmp_path, wrong):
    X, _ = answers
    pipeline = make_pipeline(StandardScaler(), Normalizer(), LFDA()).fit(X, np.arange(60) % 2)
    model = fold_pipeline(pipeline)
    model.front_[0] |= wrong
    with pytest.raises(ValueError, match="front_ must be steps"):
        model.save(tmp_path / "m.mdaml")

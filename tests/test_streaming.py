"""Learning chunk by chunk: what is kept, what it costs, and how close it comes to one fit."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from suite.models import make_mdaml

from mdaml import MDaML, limit_memory, load
from mdaml.constraints import Constraints, sample_triplets
from mdaml.datasets import load_dataset
from mdaml.estimators import chunks as chunks_module
from mdaml.estimators.chunks import Choice, LabelledRows, Past, Reservoir
from mdaml.solver.geometry import between
from mdaml.stores import choice

D = 16


def random_comparisons(n_samples, n_triplets, seed, noise=0.1):
    """Triplets answered under a metric that sees half of the features; some answers are wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, D))
    seen = X[:, : D // 2] * np.linspace(2, 1, D // 2)
    triplets = np.array([rng.choice(n_samples, 3, replace=False) for _ in range(n_triplets)])
    near, far = (np.sum((seen[triplets[:, 0]] - seen[triplets[:, m]]) ** 2, axis=1) for m in (1, 2))
    wrong = (near > far) ^ (rng.random(n_triplets) < noise)
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    return X, triplets


@pytest.fixture(scope="module")
def few_chunks():
    """Three chunks."""
    return [random_comparisons(100, 400, seed) for seed in range(3)]


@pytest.fixture(params=[None, 3], ids=["full rank", "rank 3"])
def model(request):
    """A model of either space, not fitted."""
    return make_mdaml("comparisons", 2, floor=0.5, n_components=request.param, random_state=0)


def stream(chunks, model):
    for X, triplets in chunks:
        model.partial_fit(X, triplets=triplets)
    return model


def joined(chunks):
    starts = np.cumsum([0, *(len(X) for X, _ in chunks)])
    triplets = [t + start for (_, t), start in zip(chunks, starts, strict=False)]
    return np.concatenate([X for X, _ in chunks]), np.concatenate(triplets)


def mean_loss(model, X, triplets):
    Y = model.transform(X)
    near, far = (np.sum((Y[triplets[:, 0]] - Y[triplets[:, m]]) ** 2, axis=1) for m in (1, 2))
    short = np.maximum(1 - (far - near), 0)
    slope = np.minimum(short, 1)
    return float(np.mean(slope * (short - slope / 2)))


# The gap to one fit on everything; the figures of docs/scaling.md with a margin


@pytest.fixture(scope="module")
def ten_chunks():
    """Ten chunks, and comparisons held out, all of them right."""
    chunks = [random_comparisons(150, 1500, seed) for seed in range(10)]
    return chunks, random_comparisons(500, 5000, 99, noise=0.0)


# With an anchor one fit stops before it has learned the wrong answers; chunks have more rounds.
GAPS = [("eq. 7", {"n_modes": 2}, (0.02, 0.01)), ("comparisons", {"anchor": 0.03}, (0.03, 0.015))]


@pytest.mark.parametrize(("row", "cells", "gaps"), GAPS, ids=["Eq. (7)", "anchor"])
@pytest.mark.parametrize("rank", [None, pytest.param(8, marks=pytest.mark.slow)])
def test_ten_chunks_come_close_to_one_fit_on_random_comparisons(
    monkeypatch, ten_chunks, rank, row, cells, gaps
):
    chunks, held_out = ten_chunks
    X, triplets = joined(chunks)
    model = make_mdaml(row, **cells, n_components=rank, random_state=0)
    first = clone(model).fit(chunks[0][0], triplets=chunks[0][1])
    one_fit = clone(model).fit(X, triplets=triplets)
    for kept, gap in zip((1000, 20_000), gaps, strict=True):
        monkeypatch.setattr(chunks_module, "MAX_COMPARISONS", kept)
        streamed = stream(chunks, clone(model))
        scores = [m.score_triplets(*held_out) for m in (first, streamed, one_fit)]
        assert scores[1] >= scores[2] - gap
        assert scores[1] >= scores[0] + 0.02
        assert mean_loss(streamed, X, triplets) <= 1.05 * mean_loss(one_fit, X, triplets)


@pytest.mark.parametrize("row", ["eq. 7", "comparisons"])
def test_ten_chunks_come_close_to_one_fit_on_a_data_set(monkeypatch, row):
    monkeypatch.setattr(chunks_module, "MAX_COMPARISONS", 2000)
    X, y = load_dataset("vehicle", return_X_y=True)
    X = StandardScaler().fit_transform(X)
    parts = np.array_split(np.random.default_rng(0).permutation(len(X)), 10)
    chunks = [(X[p], sample_triplets(y[p], 5, 5, random_state=0)) for p in parts]
    every, triplets = joined(chunks)
    batch = make_mdaml(row, random_state=0).fit(every, triplets=triplets)
    model = stream(chunks, make_mdaml(row, random_state=0))
    held_out = X, sample_triplets(y, 5, 5, random_state=99)
    assert model.score_triplets(*held_out) >= batch.score_triplets(*held_out) - 0.01


# What a call does


def test_the_first_call_is_a_fit(few_chunks, model):
    X, triplets = few_chunks[0]
    same = clone(model).fit(X, triplets=triplets)
    model.partial_fit(X, triplets=triplets)
    for name in ("components_", "centers_", "weights_", "history_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(same, name))
    assert (model.n_samples_seen_, model.n_comparisons_seen_) == (100, 400)


def test_attributes_after_a_chunk_refer_to_it(few_chunks, model):
    chunks = [few_chunks[0], random_comparisons(60, 200, 1)]
    rank = stream(chunks, model).n_components or D
    assert (model.n_samples_seen_, model.n_comparisons_seen_) == (160, 600)
    assert model.weights_.shape == (60, 2)
    np.testing.assert_allclose(model.weights_.sum(axis=1), 1)
    np.testing.assert_array_equal(model.triplets_, chunks[1][1])
    assert np.all(np.diff(model.history_) <= 0)
    assert model.transform(chunks[0][0]).shape == (100, rank)
    assert model.components_.shape == (rank, D)


def test_a_fit_forgets_the_chunks(few_chunks, model):
    same = clone(model).fit(few_chunks[2][0], triplets=few_chunks[2][1])
    model = stream(few_chunks, model).fit(few_chunks[2][0], triplets=few_chunks[2][1])
    np.testing.assert_array_equal(model.components_, same.components_)
    assert model.n_samples_seen_ == 100
    again = [stream(few_chunks[:1], m).components_ for m in (model, same)]
    np.testing.assert_array_equal(*again)


def test_a_fitted_model_moves_by_the_share_of_the_chunk(model):
    X, triplets = random_comparisons(200, 2000, 0)
    few = random_comparisons(50, 20, 1)
    model.fit(X, triplets=triplets)
    before = model.get_mahalanobis_matrix()
    after = model.partial_fit(few[0], triplets=few[1]).get_mahalanobis_matrix()
    if model.n_components is None:
        changes = np.log(np.linalg.eigvals(np.linalg.solve(before, after)).real)
        assert 0 < np.abs(changes).max() < 0.2
    assert 0 < np.linalg.norm(after - before) < 0.1 * np.linalg.norm(before)
    assert model.score_triplets(X, triplets) > (0.8 if model.n_components is None else 0.7)


@pytest.mark.filterwarnings("ignore:Nothing was learned")  # of the few that a loaded model has
def test_a_loaded_model_goes_on(tmp_path, few_chunks, model):
    stream(few_chunks[:1], model).save(tmp_path / "model.mdaml", compact=True)
    loaded = stream(few_chunks[1:2], load(tmp_path / "model.mdaml"))
    assert (loaded.n_samples_seen_, loaded.n_comparisons_seen_) == (200, 800)
    assert loaded.components_.shape == model.components_.shape


@pytest.mark.parametrize("n_components", [None, D])
def test_directions_that_were_cut_off_can_come_back(few_chunks, n_components):
    model = MDaML(n_components=n_components, random_state=0)
    model.fit(few_chunks[0][0], triplets=few_chunks[0][1])
    model.components_ = model.components_[:3]
    stream(few_chunks[1:], model)
    assert np.linalg.matrix_rank(model.components_) == D


def test_a_pickled_model_goes_on_as_if_nothing_had_happened(few_chunks, model):
    copy = pickle.loads(pickle.dumps(stream(few_chunks[:1], model)))
    results = [stream(few_chunks[1:2], m).components_ for m in (model, copy)]
    np.testing.assert_array_equal(*results)
    assert not hasattr(clone(model), "components_")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("form", ["y", "pairs", "quadruplets", "constraint_weight", "constraints"])
def test_every_form_of_supervision_comes_in_chunks(few_chunks, model, form):
    X, triplets = few_chunks[0]
    given = {
        "y": {"y": (X[:, 0] > 0).astype(int)},
        "pairs": {"pairs": triplets[:, :2], "pair_labels": np.where(triplets[:, 2] % 2, 1, -1)},
        "quadruplets": {"quadruplets": triplets[:, [0, 1, 0, 2]]},
        "constraint_weight": {"triplets": triplets, "constraint_weight": np.linspace(1, 2, 400)},
        "constraints": {"constraints": Constraints(triplets=triplets)},
    }[form]
    model.partial_fit(X, **given).partial_fit(X, **given)
    assert model.n_samples_seen_ == 200
    assert np.all(np.isfinite(model.components_))


def test_single_precision_stays_single_and_large_chunks_go_in_blocks(
    monkeypatch, few_chunks, model
):
    chunks = [(X.astype(np.float32), triplets) for X, triplets in few_chunks]
    model.set_params(max_iter=4)
    whole = stream(chunks, clone(model))
    monkeypatch.setattr(choice, "SMALL_BYTES", 0)
    blocks = stream(chunks, model)
    assert whole.components_.dtype == blocks.components_.dtype == np.float32
    assert blocks.history_[-1] == pytest.approx(whole.history_[-1], rel=0.05)


# Mistakes


def test_other_features_other_names_and_other_modes_are_refused(few_chunks):
    X, triplets = few_chunks[0]
    named = pd.DataFrame(X, columns=[f"f{n}" for n in range(D)])
    model = MDaML.paper(2, random_state=0).partial_fit(named, triplets=triplets)
    expected = model.components_.copy()
    with pytest.raises(ValueError, match="expecting 16 features"):
        MDaML().partial_fit(X, triplets=triplets).partial_fit(X[:, 1:], triplets=triplets)
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(named.rename(columns={"f0": "other"}), triplets=triplets)
    with pytest.raises(ValueError, match=r"goes on with a model of 2 modes.*fit"):
        model.set_params(n_modes=3).partial_fit(named, triplets=triplets)
    with pytest.raises(ValueError, match=r"n_components=3\) goes on with a model of rank 16.*fit"):
        model.set_params(n_modes=2, n_components=3).partial_fit(named, triplets=triplets)
    np.testing.assert_array_equal(model.components_, expected)


def test_another_rank_is_refused(few_chunks):
    X, triplets = few_chunks[0]
    model = MDaML(n_components=3, random_state=0).partial_fit(X, triplets=triplets)
    for rank in (None, 2):
        with pytest.raises(
            ValueError, match=rf"n_components={rank}\) goes on with a model of rank 3"
        ):
            model.set_params(n_components=rank).partial_fit(X, triplets=triplets)


def test_a_chunk_that_does_not_fit_into_the_limit_is_refused(few_chunks, model):
    stream(few_chunks[:1], model)
    expected = model.components_.copy()
    with limit_memory(10), pytest.raises(ValueError, match="may need"):
        stream(few_chunks[1:2], model)
    np.testing.assert_array_equal(model.components_, expected)
    with limit_memory("1 GB"):
        stream(few_chunks[1:2], model)


# The parts


def chain(n, weights=None):
    """Triplets of neighbours in a row of samples, perhaps with weights."""
    rows = np.arange(n)
    triplets = np.column_stack([rows, (rows + 1) % 20, (rows + 2) % 20])
    if weights is None:
        return Constraints.of_triplets(triplets, 20)
    return Constraints.of_quadruplets(triplets[:, [0, 1, 0, 2]], weights, 20)


def test_the_sample_is_uniform_over_all_that_was_seen(monkeypatch):
    monkeypatch.setattr(chunks_module, "MAX_COMPARISONS", 8)
    rng, counts = np.random.default_rng(0), np.zeros(40)
    for _ in range(400):
        kept = Reservoir.empty(1, np.dtype(float))
        for begin, n in ((0, 10), (10, 20), (30, 10)):
            kept = kept.updated(np.arange(begin, begin + 20.0)[:, None], chain(n), rng)
        counts[kept.rows[kept.comparisons[:, 0], 0].astype(int)] += 1
    assert counts.sum() == 400 * 8
    assert np.abs(counts / 400 - 8 / 40).max() < 0.09  # four and a half standard errors


def test_the_sample_keeps_rows_and_comparisons_together_and_no_more_than_its_limits(monkeypatch):
    monkeypatch.setattr(chunks_module, "MAX_COMPARISONS", 15)
    rng, kept = np.random.default_rng(0), Reservoir.empty(2, np.dtype(float))
    for seed in range(4):
        column = np.random.default_rng(seed).normal(size=20)
        X = np.column_stack([column, column + 1])
        kept = kept.updated(X, chain(20, np.repeat([1.0, 3.0], 10)), rng)
        assert len(kept.comparisons) == len(kept.weights) == len(kept.keys) == 15
        np.testing.assert_allclose(kept.rows[:, 1], kept.rows[:, 0] + 1)
        assert np.unique(kept.comparisons).tolist() == list(range(len(kept.rows)))
    assert set(kept.weights) == {1.0, 3.0}  # so that they compare chunks too
    monkeypatch.setattr(chunks_module, "MAX_BYTES", 640)
    kept = kept.updated(X, chain(20), rng)
    assert kept.rows.nbytes <= 640


def test_a_chunk_is_joined_with_the_sample_behind_it():
    rng, X = np.random.default_rng(0), np.arange(20.0)[:, None]
    kept = Reservoir.empty(1, np.dtype(float)).updated(X + 100, chain(5), rng)
    rows, supervision = kept.joined(X, chain(4))
    assert len(supervision.triplets) == 9  # of equal weight: the fast form
    np.testing.assert_array_equal(rows[:20], X)
    places = rows[supervision.triplets, 0]
    np.testing.assert_array_equal(places[:4, 0], [0, 1, 2, 3])
    assert set(places[4:, 0]) == {100, 101, 102, 103, 104}
    _, supervision = kept.joined(X, chain(4, np.array([1.0, 1.0, 1.0, 5.0])))
    np.testing.assert_allclose(supervision.weights, [1, 1, 1, 5, 1, 1, 1, 1, 1])
    assert supervision.quadruplets.shape == (9, 4)


def metric(F):
    return F @ F.T


def relative_distance(F, G):
    """The affine-invariant distance of two metrics of full rank."""
    return np.linalg.norm(np.log(np.linalg.eigvals(np.linalg.solve(metric(F), metric(G))).real))


def bures_distance(F, G):
    """The distance of Bures and Wasserstein of two metrics of any rank."""
    overlap = np.linalg.svd(F.T @ G, compute_uv=False).sum()
    return np.sqrt(np.sum(F**2) + np.sum(G**2) - 2 * overlap)


@pytest.mark.parametrize(("rank", "distance"), [(4, relative_distance), (2, bures_distance)])
def test_a_metric_between_two_lies_on_the_geodesic_and_keeps_the_rank(rank, distance):
    rng = np.random.default_rng(0)
    F, G = rng.normal(size=(2, 4, rank))
    np.testing.assert_allclose(metric(between(F, G, 0.0)), metric(F), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(metric(between(F, G, 1.0)), metric(G))
    nearly = between(F, G, 1 - 1e-12)  # no jump at the end
    np.testing.assert_allclose(metric(nearly), metric(G), rtol=1e-6, atol=1e-8)
    H = between(F, G, 0.25)
    assert H.shape == (4, rank)
    assert np.linalg.matrix_rank(H) == rank
    assert distance(F, H) == pytest.approx(0.25 * distance(F, G), rel=1e-6)
    assert distance(H, G) == pytest.approx(0.75 * distance(F, G), rel=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_metric_between_two_does_not_depend_on_rotations_of_their_factors(rank):
    rng = np.random.default_rng(1)
    F, G = rng.normal(size=(2, 4, rank))
    Q, R = (np.linalg.qr(A)[0] for A in rng.normal(size=(2, rank, rank)))
    for share in (0.0, 0.3, 0.9, 1.0):
        turned = metric(between(F @ Q, G @ R, share))
        np.testing.assert_allclose(turned, metric(between(F, G, share)), rtol=1e-8, atol=1e-10)


def test_the_share_is_that_of_what_was_learned_from_in_all_that_was_seen():
    nothing = Reservoir.empty(2, np.dtype(float))
    choice = Choice(0.1, 0.0, keep_start=False, gain=None, n_comparisons=300)
    labelled = LabelledRows.empty(2, np.dtype(float))
    past = Past(np.eye(2), np.zeros((1, 2)), 300, nothing, choice, n_lost=300, labelled=labelled)
    assert past.share(100) == 0.25
    full = Reservoir(np.zeros((2, 2)), np.zeros((300, 4), int), np.ones(300), np.ones(300))
    assert replace(past, reservoir=full, n_lost=0).share(100) == 1.0
    assert replace(past, reservoir=full).share(100) == 0.25  # the sample is not of all

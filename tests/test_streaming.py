"""Learning chunk by chunk: what is kept, what it costs, and how close it comes to one fit."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from mdaml import MDaML, load, streaming
from mdaml.constraints import sample_triplets
from mdaml.datasets import load_dataset
from mdaml.streaming import Past, Reservoir, between, weights_at

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


@pytest.mark.parametrize(("kept", "gap"), [(2000, 0.02), (20_000, 0.01)])
def test_ten_chunks_come_close_to_one_fit_on_random_comparisons(monkeypatch, kept, gap):
    monkeypatch.setattr(streaming, "MAX_COMPARISONS", kept)
    chunks = [random_comparisons(300, 3000, seed) for seed in range(10)]
    held_out = random_comparisons(1000, 10_000, 99, noise=0.0)
    batch = MDaML(2, random_state=0).fit(*(a := joined(chunks))[:1], triplets=a[1])
    first = MDaML(2, random_state=0).fit(chunks[0][0], triplets=chunks[0][1])
    model = stream(chunks, MDaML(2, random_state=0))
    scores = [m.score_triplets(*held_out) for m in (first, model, batch)]
    assert scores[1] >= scores[2] - gap
    assert scores[1] >= scores[0] + 0.02
    assert mean_loss(model, *a) <= 1.05 * mean_loss(batch, *a)


@pytest.mark.parametrize("name", ["vehicle", "segment"])
def test_ten_chunks_come_close_to_one_fit_on_data_sets(monkeypatch, name):
    monkeypatch.setattr(streaming, "MAX_COMPARISONS", 2000)
    X, y = load_dataset(name, return_X_y=True)
    X = StandardScaler().fit_transform(X)
    parts = np.array_split(np.random.default_rng(0).permutation(len(X)), 10)
    chunks = [(X[p], sample_triplets(y[p], 5, 5, random_state=0)) for p in parts]
    batch = MDaML(random_state=0).fit(*(a := joined(chunks))[:1], triplets=a[1])
    model = stream(chunks, MDaML(random_state=0))
    held_out = X, sample_triplets(y, 5, 5, random_state=99)
    assert model.score_triplets(*held_out) >= batch.score_triplets(*held_out) - 0.01


# What a call does


def test_the_first_call_is_a_fit():
    X, triplets = random_comparisons(100, 400, 0)
    model = MDaML(2, random_state=0).partial_fit(X, triplets=triplets)
    same = MDaML(2, random_state=0).fit(X, triplets=triplets)
    for name in ("components_", "centers_", "weights_", "history_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(same, name))
    assert (model.n_samples_seen_, model.n_comparisons_seen_) == (100, 400)


def test_attributes_after_a_chunk_refer_to_it():
    chunks = [random_comparisons(100, 400, 0), random_comparisons(60, 200, 1)]
    model = stream(chunks, MDaML(2, random_state=0))
    assert (model.n_samples_seen_, model.n_comparisons_seen_) == (160, 600)
    assert model.weights_.shape == (60, 2)
    np.testing.assert_allclose(model.weights_.sum(axis=1), 1)
    np.testing.assert_array_equal(model.triplets_, chunks[1][1])
    assert np.all(np.diff(model.history_) <= 0)
    assert model.transform(chunks[0][0]).shape == (100, D)


def test_a_fit_forgets_the_chunks():
    chunks = [random_comparisons(100, 400, seed) for seed in range(3)]
    model = stream(chunks, MDaML(2, random_state=0)).fit(chunks[2][0], triplets=chunks[2][1])
    same = MDaML(2, random_state=0).fit(chunks[2][0], triplets=chunks[2][1])
    np.testing.assert_array_equal(model.components_, same.components_)
    assert model.n_samples_seen_ == 100
    again = [m.partial_fit(chunks[0][0], triplets=chunks[0][1]) for m in (model, same)]
    np.testing.assert_array_equal(again[0].components_, again[1].components_)


def test_a_fitted_model_moves_by_the_share_of_the_chunk():
    X, triplets = random_comparisons(200, 2000, 0)
    few = random_comparisons(50, 20, 1)
    model = MDaML(2, random_state=0).fit(X, triplets=triplets)
    before = model.get_mahalanobis_matrix()
    after = model.partial_fit(few[0], triplets=few[1]).get_mahalanobis_matrix()
    changes = np.log(np.linalg.eigvals(np.linalg.solve(before, after)).real)
    assert 0 < np.abs(changes).max() < 0.2
    assert model.score_triplets(X, triplets) > 0.8


def test_a_loaded_model_goes_on(tmp_path):
    chunks = [random_comparisons(100, 400, seed) for seed in range(2)]
    model = stream(chunks[:1], MDaML(2, random_state=0))
    model.save(tmp_path / "model.mdaml", compact=True)
    loaded = stream(chunks[1:], load(tmp_path / "model.mdaml"))
    assert (loaded.n_samples_seen_, loaded.n_comparisons_seen_) == (200, 800)
    assert loaded.components_.shape == (D, D)


def test_a_pickled_model_goes_on_as_if_nothing_had_happened():
    chunks = [random_comparisons(100, 400, seed) for seed in range(2)]
    model = stream(chunks[:1], MDaML(2, random_state=0))
    copy = pickle.loads(pickle.dumps(model))
    results = [stream(chunks[1:], m).components_ for m in (model, copy)]
    np.testing.assert_array_equal(*results)
    assert not hasattr(clone(model), "components_")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("form", ["y", "pairs", "quadruplets", "constraint_weight"])
def test_every_form_of_supervision_comes_in_chunks(form):
    X, triplets = random_comparisons(100, 300, 0)
    given = {
        "y": {"y": (X[:, 0] > 0).astype(int)},
        "pairs": {"pairs": triplets[:, :2], "pair_labels": np.where(triplets[:, 2] % 2, 1, -1)},
        "quadruplets": {"quadruplets": triplets[:, [0, 1, 0, 2]]},
        "constraint_weight": {"triplets": triplets, "constraint_weight": np.linspace(1, 2, 300)},
    }[form]
    model = MDaML(2, random_state=0).partial_fit(X, **given).partial_fit(X, **given)
    assert model.n_samples_seen_ == 200
    assert np.all(np.isfinite(model.components_))


def test_single_precision_stays_single_and_large_chunks_go_in_blocks(monkeypatch):
    chunks = [random_comparisons(100, 400, seed) for seed in range(3)]
    chunks = [(X.astype(np.float32), triplets) for X, triplets in chunks]
    whole = stream(chunks, MDaML(2, max_iter=4, random_state=0))
    monkeypatch.setattr("mdaml.estimators._memory.SMALL_BYTES", 0)
    blocks = stream(chunks, MDaML(2, max_iter=4, random_state=0))
    assert whole.components_.dtype == blocks.components_.dtype == np.float32
    assert blocks.history_[-1] == pytest.approx(whole.history_[-1], rel=0.05)


# Mistakes


def test_other_features_other_names_and_other_modes_are_refused():
    X, triplets = random_comparisons(100, 300, 0)
    named = pd.DataFrame(X, columns=[f"f{n}" for n in range(D)])
    model = MDaML(2, random_state=0).partial_fit(named, triplets=triplets)
    expected = model.components_.copy()
    with pytest.raises(ValueError, match="expecting 16 features"):
        MDaML(2).partial_fit(X, triplets=triplets).partial_fit(X[:, 1:], triplets=triplets)
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(named.rename(columns={"f0": "other"}), triplets=triplets)
    with pytest.raises(ValueError, match=r"goes on with a model of 2 modes.*fit"):
        model.set_params(n_modes=3).partial_fit(named, triplets=triplets)
    with pytest.raises(AttributeError) as refused:
        model.set_params(n_modes=2, n_components=3).partial_fit(named, triplets=triplets)
    assert "of full rank with NumPy" in str(refused.value.__cause__ or refused.value)
    with pytest.raises(ValueError, match="may need"):
        model.set_params(n_components=None, memory_limit=10).partial_fit(named, triplets=triplets)
    np.testing.assert_array_equal(model.components_, expected)


# The parts


def test_the_sample_is_uniform_over_all_that_was_seen():
    rng = np.random.default_rng(0)
    counts = np.zeros(40)
    for _ in range(400):
        kept = Reservoir.empty(1, np.dtype(float))
        for begin in (0, 10, 30):
            X = np.arange(begin, begin + 20.0)[:, None]
            n = {0: 10, 10: 20, 30: 10}[begin]
            rows = np.arange(n)
            comparisons = np.column_stack([rows, (rows + 1) % 20, rows, (rows + 2) % 20])
            kept = kept.updated(X, comparisons, np.ones(n), rng)
            kept = limited(kept, 8)
        counts[kept.rows[kept.comparisons[:, 0], 0].astype(int)] += 1
    assert counts.sum() == 400 * 8
    assert np.abs(counts / 400 - 8 / 40).max() < 0.09  # four and a half standard errors


def limited(reservoir, n):
    """What a smaller limit would have kept: the lowest keys."""
    order = np.argsort(reservoir.keys)[:n]
    named, places = np.unique(reservoir.comparisons[order], return_inverse=True)
    return Reservoir(
        reservoir.rows[named],
        places.reshape(-1, 4),
        reservoir.weights[order],
        reservoir.keys[order],
    )


def test_the_sample_keeps_rows_and_comparisons_together_and_no_more_than_its_limits(monkeypatch):
    monkeypatch.setattr(streaming, "MAX_COMPARISONS", 50)
    rng, kept = np.random.default_rng(0), Reservoir.empty(2, np.dtype(float))
    for seed in range(4):
        X, triplets = random_comparisons(40, 60, seed)
        X = np.column_stack([X[:, 0], X[:, 0] + 1])
        kept = kept.updated(X, triplets[:, [0, 1, 0, 2]], np.full(60, seed + 1.0), rng)
        assert len(kept.comparisons) == len(kept.weights) == len(kept.keys) == 50
        np.testing.assert_allclose(kept.rows[:, 1], kept.rows[:, 0] + 1)
        assert np.unique(kept.comparisons).tolist() == list(range(len(kept.rows)))
    assert set(kept.weights) == {1.0, 2.0, 3.0, 4.0}
    monkeypatch.setattr(streaming, "MAX_BYTES", 640)
    kept = kept.updated(X, triplets[:, [0, 1, 0, 2]], np.ones(60), rng)
    assert kept.rows.nbytes <= 640


def test_a_metric_between_two_lies_on_the_geodesic():
    rng = np.random.default_rng(0)
    F, G = rng.normal(size=(2, 4, 4))
    M, end = F @ F.T, G @ G.T
    np.testing.assert_allclose(between(F, G, 1.0) @ between(F, G, 1.0).T, end)
    H = between(F, G, 1e-12)
    np.testing.assert_allclose(H @ H.T, M, rtol=1e-6, atol=1e-8)
    lengths = [
        np.linalg.norm(np.log(np.linalg.eigvals(np.linalg.solve(M, H @ H.T)).real))
        for H in (between(F, G, 0.25), G)
    ]
    assert lengths[0] == pytest.approx(0.25 * lengths[1], rel=1e-6)


def test_weights_without_comparisons_minimise_the_clustering_term():
    rng = np.random.default_rng(0)
    X, centers, eta = rng.normal(size=(30, 3)), rng.normal(size=(4, 3)), 2.5
    X[0] = centers[1]
    modes = weights_at(X, np.diag([1.0, 2.0, 0.5]), centers, eta)
    sq_dists = np.sum(((X[:, None] - centers) * [1.0, 2.0, 0.5]) ** 2, axis=2)
    np.testing.assert_allclose(modes.weights.sum(axis=1), 1)
    assert modes.weights[0, 1] == pytest.approx(1)
    slopes = (eta * modes.weights ** (eta - 1) * sq_dists)[1:]
    np.testing.assert_allclose(slopes, slopes[:, :1].repeat(4, axis=1), rtol=1e-6)
    np.testing.assert_allclose(modes.powers, modes.weights**eta)


def test_the_share_is_that_of_what_was_learned_from_in_all_that_was_seen():
    nothing = Reservoir.empty(2, np.dtype(float))
    past = Past(np.eye(2), np.zeros((1, 2)), 300, nothing)
    assert past.share(100) == 0.25
    full = Reservoir(np.zeros((2, 2)), np.zeros((300, 4), int), np.ones(300), np.ones(300))
    assert Past(np.eye(2), np.zeros((1, 2)), 300, full).share(100) == 1.0

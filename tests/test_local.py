"""LocalMDaML: a place for every mode, on the metric of MDaML."""

import json
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import mdaml
from mdaml import Constraints, LocalMDaML, MDaML
from mdaml.constraints import sample_triplets
from mdaml.holdout.places import choose_candidate
from mdaml.inspection import explain_distance, feature_relevance
from mdaml.model_selection import MetricSearchCV
from mdaml.people import PersonalMetrics

LINEAR = {"n_places": 0, "n_maps": 0, "random_state": 0}
LOCAL = {"n_places": 12, "n_maps": 2, "max_iter": 3, "random_state": 0}
# One linear map has nothing to learn from opposite corners, and MDaML says so.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def corners(n, seed):
    """Return samples in the corners of a square whose opposite corners are one class."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(4, size=n)
    X = np.array([[0, 0], [0, 5], [5, 5], [5, 0]])[corner] + rng.normal(size=(n, 2))
    return np.hstack([X, rng.normal(size=(n, 2))]), corner % 2


@pytest.fixture(scope="module")
def data():
    X, y = corners(240, 0)
    return X, y, sample_triplets(y, 2, 4, random_state=0)


@pytest.fixture(scope="module")
def local(data):
    X, _, triplets = data
    return LocalMDaML(**LOCAL).fit(X, triplets=triplets)


def every_supervision(data):
    X, y, triplets = data
    pairs = triplets[:200, :2]
    return {
        "labels": {"y": y},
        "triplets": {"triplets": triplets},
        "weights": {"triplets": triplets, "constraint_weight": 1.0 + np.arange(len(triplets)) % 3},
        "quadruplets": {"quadruplets": triplets[:, [0, 1, 0, 2]]},
        "pairs": {
            "pairs": np.concatenate([pairs, triplets[:200, [0, 2]]]),
            "pair_labels": np.repeat([1, -1], 200),
        },
        "constraints": {"constraints": Constraints(triplets=triplets, n_points=len(X))},
        "persons": {"triplets": triplets, "who": np.arange(len(triplets)) % 5},
    }


FORMS = ("labels", "triplets", "weights", "quadruplets", "pairs", "constraints", "persons")


@pytest.mark.parametrize("form", FORMS)
def test_without_places_and_maps_it_is_mdaml_bit_for_bit(data, form):
    supervision = every_supervision(data)[form]
    plain = MDaML(random_state=0).fit(data[0], **supervision)
    ours = LocalMDaML(**LINEAR).fit(data[0], **supervision)
    np.testing.assert_array_equal(ours.components_, plain.components_)
    np.testing.assert_array_equal(ours.history_, plain.history_)
    np.testing.assert_array_equal(ours.transform(data[0]), plain.transform(data[0]))
    np.testing.assert_array_equal(ours.get_mahalanobis_matrix(), plain.get_mahalanobis_matrix())
    assert ours.gain_ == plain.gain_
    assert (ours.n_places_, ours.n_maps_, ours.tried_) == (0, 0, [])


@pytest.mark.parametrize("form", FORMS)
def test_places_learn_from_every_form_of_supervision(data, form):
    X, _, triplets = data
    model = LocalMDaML(**LOCAL).fit(X, **every_supervision(data)[form])
    assert model.components_.shape[1] == 4 + 12 + 2 * 4
    assert model.score_triplets(X, triplets) > MDaML().fit(X, triplets=triplets).score_triplets(
        X, triplets
    )
    assert (model.persons_ is not None) == (form == "persons")


def test_kinds_of_a_class_come_together_which_no_linear_map_can_do(data):
    X, _, triplets = data
    X_new, y_new = corners(300, 1)
    unseen = sample_triplets(y_new, 5, 5, random_state=1)
    linear = MDaML(random_state=0).fit(X, triplets=triplets).score_triplets(X_new, unseen)
    local = LocalMDaML(n_places=16, n_maps=0, random_state=0).fit(X, triplets=triplets)
    assert local.score_triplets(X_new, unseen) > linear + 0.2


def test_the_learned_distance_is_the_euclidean_one_after_transform(data, local):
    X = data[0]
    Y = local.transform(X)
    distances = np.linalg.norm(Y[:50] - Y[50:100], axis=1)
    np.testing.assert_allclose(local.pair_distance(X[:50], X[50:100]), distances)
    i, j, r = data[2].T
    near, far = (np.linalg.norm(Y[i] - Y[k], axis=1) for k in (j, r))
    assert local.score_triplets(X, data[2]) == pytest.approx(np.mean(near < far))
    np.testing.assert_allclose(local.embed(X), Y, rtol=1e-4, atol=1e-5)


def test_the_map_is_one_linear_map_and_a_place_for_each_mode(data):
    X, _, triplets = data
    model = LocalMDaML(n_places=12, n_maps=0, random_state=0).fit(X, triplets=triplets)
    A, B = model.components_[:, :4], model.components_[:, 4:]
    z = X @ A.T + model.scale_ * model.memberships(X) @ B.T
    np.testing.assert_allclose(model.transform(X), z)
    np.testing.assert_allclose(model.places_, model.transform(model.centers_))
    assert model.centers_.shape == (12, 4)
    assert model.places_.shape == (12, len(model.components_))


@pytest.mark.parametrize("n_places", ["auto", 8])
@pytest.mark.parametrize(
    ("name", "value"),
    [("max_iter", 0), ("tol", -1.0), ("ridge", -1.0), ("device", "x"), ("callback", 3)],
)
def test_errors_name_the_model_that_the_user_made(data, n_places, name, value):
    X, triplets = data[0], np.array([[0, 1, 2], [3, 4, 5]])
    model = LocalMDaML(n_places=n_places, **{name: value})
    with pytest.raises((ValueError, TypeError), match=rf"^LocalMDaML\({name}=\.\.\.\) must be"):
        model.fit(X, triplets=triplets)


def test_memberships_of_sparse_samples_are_those_of_dense_ones(data, local):
    sparse = local.memberships(csr_array(data[0]))
    assert np.array_equal(sparse.toarray(), local.memberships(data[0]).toarray())


def test_a_matrix_of_the_metric_is_refused_where_there_is_none(local):
    for name in ("get_mahalanobis_matrix", "get_metric", "to_onnx", "to_torch"):
        with pytest.raises(TypeError, match=r"12 places and 2 maps\. Use "):
            getattr(local, name)()


@pytest.mark.needs("faiss")
def test_an_index_of_faiss_finds_the_neighbours_under_the_learned_distance(data, local):
    X = data[0]
    sq_dists, rows = local.to_faiss(X).search(local.embed(X[:9]), 4)
    distances, wanted = local.neighbors(X, X[:9], k=4)
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_allclose(sq_dists, distances**2, atol=1e-3)
    assert local.to_faiss().ntotal == 0


@pytest.mark.needs("onnxruntime", "torch")
@pytest.mark.parametrize("folded", [False, True])
def test_onnx_and_torch_map_samples_alike(tmp_path, data, folded):
    import onnxruntime
    import torch

    X, _, triplets = data
    X = X * 3.0 + 100.0
    model = LocalMDaML(n_places=12, n_maps=0, random_state=0)
    if folded:
        steps = make_pipeline(StandardScaler(), model).fit(X, localmdaml__triplets=triplets)
        model = mdaml.fold_pipeline(steps)
    else:
        model.fit(X, triplets=triplets)
    Y = model.transform(X)
    np.testing.assert_allclose(model.to_torch(dtype="float64")(torch.tensor(X)), Y, atol=1e-8)
    model.to_onnx(tmp_path / "local.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "local.onnx")
    found = session.run(None, {"X": X.astype(np.float32)})[0]
    np.testing.assert_allclose(found, Y, atol=1e-3 * np.abs(Y).max())


def test_it_can_be_saved_pickled_and_loaded(tmp_path, data, local):
    local.save(tmp_path / "local.mdaml")
    for again in (mdaml.load(tmp_path / "local.mdaml"), pickle.loads(pickle.dumps(local))):
        np.testing.assert_array_equal(again.transform(data[0]), local.transform(data[0]))
        assert again.tried_ == local.tried_
        assert again.get_params() == local.get_params()


def test_a_file_whose_map_does_not_fit_its_basis_is_refused(tmp_path, local):
    damaged = pickle.loads(pickle.dumps(local))
    damaged.components_ = damaged.components_[:, :-1].copy()
    with pytest.raises(ValueError, match="components_"):
        damaged.save(tmp_path / "damaged.mdaml")


def test_modes_stay_after_the_first_chunk(data):
    X, _, _ = data
    more, labels = corners(240, 3)
    model = LocalMDaML(**LOCAL).partial_fit(X, triplets=data[2])
    centers, before = model.centers_.copy(), model.components_.copy()
    model.partial_fit(more, triplets=sample_triplets(labels, 2, 4, random_state=1))
    np.testing.assert_array_equal(model.centers_, centers)
    assert model.n_samples_seen_ == 480
    assert np.abs(model.components_ - before).max() > 0.0
    np.testing.assert_allclose(model.places_, model.transform(centers))


def in_chunks(sizes, **params):
    """Return a model that learned chunk by chunk, and one of all at once; and their agreement."""
    X, y = corners(sum(sizes), 0)
    X_new, y_new = corners(300, 1)
    unseen, model = sample_triplets(y_new, 5, 5, random_state=1), LocalMDaML(random_state=0)
    model.set_params(**params)
    for rows in np.split(np.arange(len(X)), np.cumsum(sizes)[:-1]):
        model.partial_fit(X[rows], triplets=sample_triplets(y[rows], 2, 4, random_state=0))
    once = clone(model).fit(X, triplets=sample_triplets(y, 2, 4, random_state=0))
    return model, once, [each.score_triplets(X_new, unseen) for each in (model, once)]


@pytest.mark.parametrize("sizes", [(240, 240), (160, 40, 160), (40, 440), (40, 40, 400)])
def test_chunks_agree_as_much_as_one_fit_to_all(sizes):
    # Which anchor is chosen depends on the order of rows, by up to 0.03 of agreement here.
    model, once, (agreement, wanted) = in_chunks(sizes, anchor=2.5)
    assert once.n_places_ > 0
    assert model.n_places_ > 0  # of the first chunk, or of the first that was large enough
    assert agreement > wanted - 0.03
    assert model.n_samples_seen_ == sum(sizes)
    assert model.n_comparisons_seen_ == once.n_comparisons_seen_
    assert len(model.triplets_) == 8 * sizes[-1]


def test_places_that_were_found_late_stay():
    X, y = corners(480, 0)
    model, found = LocalMDaML(random_state=0), []
    for rows in np.split(np.arange(480), [40, 280]):
        model.partial_fit(X[rows], triplets=sample_triplets(y[rows], 2, 4, random_state=0))
        found.append(model.centers_)
    assert len(found[0]) == 0
    np.testing.assert_array_equal(found[1], found[2])
    assert [each["is_chosen"] for each in model.tried_].count(True) == 1


def test_what_a_chunk_is_like_does_not_change_what_was_learned_before(data):
    X, _, triplets = data
    model = LocalMDaML(n_places=12, n_maps=4, random_state=0).partial_fit(X, triplets=triplets)
    before = model.score_triplets(X, triplets)
    near = np.flatnonzero((X[:, 0] < 2.5) & (X[:, 1] < 2.5))[:20]  # one corner: a small spread
    supervision = np.array([[near[0], near[1], k] for k in near[2:]])
    for _ in range(3):
        model.partial_fit(X[near], triplets=np.searchsorted(near, supervision))
    assert model.score_triplets(X, triplets) > before - 0.01


def test_a_first_chunk_of_few_rows_is_told_that_its_modes_stay():
    X, y = corners(40, 0)
    supervision = sample_triplets(y, 2, 4, random_state=0)
    with pytest.warns(UserWarning, match="modes of its first chunk, which has only 40 rows"):
        LocalMDaML(n_places=12, n_maps=0).partial_fit(X, triplets=supervision)


def test_a_loaded_model_learns_from_another_chunk(tmp_path, data, local):
    local.save(tmp_path / "local.mdaml")
    again = mdaml.load(tmp_path / "local.mdaml")
    again.partial_fit(data[0], triplets=data[2])
    np.testing.assert_array_equal(again.centers_, local.centers_)
    assert again.n_comparisons_seen_ == 2 * len(data[2])


def test_a_failed_fit_changes_nothing(data, local):
    before = pickle.dumps(local)
    with pytest.raises(ValueError, match="triplets"):
        local.fit(data[0][:10], triplets=data[2])
    assert pickle.dumps(local) == before


def test_the_rank_can_be_low(data):
    X, _, triplets = data
    model = LocalMDaML(n_components=2, **LOCAL).fit(X, triplets=triplets)
    assert model.transform(X).shape == (240, 2)
    assert model.score_triplets(X, triplets) > 0.8


def test_single_precision_stays_single(data):
    model = LocalMDaML(**LOCAL).fit(data[0].astype(np.float32), triplets=data[2])
    assert model.transform(data[0].astype(np.float32)).dtype == np.float32


def test_it_is_a_step_of_a_pipeline_and_can_be_cloned(data):
    X, y, _ = data
    both = make_pipeline(clone(LocalMDaML(**LOCAL)), KNeighborsClassifier(3)).fit(X, y)
    assert both.score(X, y) > 0.9


@pytest.mark.parametrize("name", ["n_places", "n_maps"])
def test_numbers_are_checked(data, name):
    X, _, triplets = data
    with pytest.raises(ValueError, match=f"{name}=...\\) must be 'auto' or a number, got 'many'"):
        LocalMDaML(**{name: "many"}).fit(X, triplets=triplets)
    with pytest.raises(ValueError, match=name):
        LocalMDaML(**{name: 241}).fit(X, triplets=triplets)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"goal": "comparison"}, r"LocalMDaML\(goal=...\) must be one of 'auto', 'comparisons'"),
        ({"n_components": 0}, "between 1 and 11, one less than places and the features of maps"),
        ({"n_components": 12}, "between 1 and 11, .*, got 12"),
        ({"n_components": 24, "n_maps": 3}, "between 1 and 23, .*, got 24"),
        ({"n_components": 8, "n_places": 0, "n_maps": 1}, "between 1 and 7, .*, got 8"),
    ],
)
def test_goal_and_rank_are_checked_with_places_too(data, params, message):
    X, _, triplets = data
    with pytest.raises(ValueError, match=message):
        LocalMDaML(**{"n_places": 12, "n_maps": 0, **params}).fit(X, triplets=triplets)


# The choice


def test_places_are_chosen_where_they_help(data):
    model = LocalMDaML(random_state=0).fit(data[0], triplets=data[2])
    assert model.n_places_ > 0
    assert {k: model.tried_[0][k] for k in ("n_places", "n_maps")} == {"n_places": 0, "n_maps": 0}
    assert [each["is_chosen"] for each in model.tried_].count(True) == 1
    assert f"{model.n_places_} places" in model.summary()
    assert "(chosen)" in model.summary()


def test_none_are_chosen_where_a_linear_map_explains_all():
    X = np.random.default_rng(0).normal(size=(240, 4))
    triplets, _ = mdaml.datasets.make_triplets(
        X, n_triplets=1500, components=np.diag([3.0, 1.0, 0.3, 0.0]), random_state=0
    )
    model = LocalMDaML(random_state=0).fit(X, triplets=triplets)
    assert (model.n_places_, model.n_maps_) == (0, 0)
    plain = MDaML(random_state=0).fit(X, triplets=triplets)
    np.testing.assert_array_equal(model.components_, plain.components_)


def test_places_are_chosen_for_labels_where_held_out_samples_say_so():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    supervision = []
    model = LocalMDaML(callback=lambda n, _: supervision.append(n), random_state=0).fit(X, y)
    assert [each["n_places"] for each in model.tried_] == [0, model.n_places_]
    assert model.tried_[1]["score"] > model.tried_[0]["score"]
    assert model.tried_[1]["is_chosen"]
    assert model.gain_["score"] == "votes"
    assert supervision == [*range(1, model.n_iter_ + 1)]  # trials tell nobody


def test_labels_that_teach_nothing_leave_what_mdaml_learns(data):
    X, rng = data[0], np.random.default_rng(0)
    y = rng.integers(2, size=len(X))
    model, plain = (cls(random_state=0).fit(X, y) for cls in (LocalMDaML, MDaML))
    assert [each["is_chosen"] for each in model.tried_] == [True, False]
    np.testing.assert_array_equal(model.components_, plain.components_)
    assert model.gain_ == plain.gain_


@pytest.mark.parametrize("params", [{"goal": "neighbors"}, {"goal": "paper"}])
def test_places_are_not_tried_for_labels_with_another_goal(data, params):
    assert LocalMDaML(random_state=0, **params).fit(data[0], data[1]).tried_ == []


def test_few_comparisons_leave_the_linear_map():
    X, y = corners(40, 0)
    with pytest.warns(UserWarning, match="learn"):
        model = LocalMDaML().fit(X, triplets=sample_triplets(y, 1, 1, random_state=0)[:3])
    assert model.n_places_ == 0


@pytest.mark.parametrize(
    ("noises", "taken"), [((3.0, 0.3, 0.6), 1), ((3.0, 0.6, 0.3), 2), ((0.3, 3.0, 0.3), 0)]
)
def test_a_candidate_is_taken_if_it_leads_the_first_by_more_than_chance(data, noises, taken):
    X, y, triplets = data
    supervision = Constraints(triplets=triplets, n_points=len(X))
    rng = np.random.default_rng(0)
    spread = [y[:, None] + noise * rng.normal(size=(len(y), 1)) for noise in noises]
    chosen, scores, gain = choose_candidate(X, supervision, [lambda _, Y=Y: Y for Y in spread])
    assert chosen == taken
    assert gain["after"] == pytest.approx(scores[taken])


def test_a_candidate_under_which_fewer_than_half_hold_is_not_taken():
    """Though it loses less: those that hold do so by far, the others hardly fail."""
    rng = np.random.default_rng(0)
    noise, kind = rng.normal(size=(240, 1)), np.arange(240) % 2
    Y = 10.0 * kind[:, None] + 0.1 * rng.normal(size=(240, 1))
    within = np.array([2 * rng.permutation(120)[:3] for _ in range(1000)])
    near, far = (np.abs(Y[within[:, 0], 0] - Y[within[:, k], 0]) for k in (1, 2))
    wrong = np.where((near < far)[:, None], within[:, [0, 2, 1]], within)[:550]
    across = np.add(within[550:], [0, 0, 1])
    supervision = Constraints(triplets=np.concatenate([wrong, across]), n_points=240)
    chosen, scores, _ = choose_candidate(noise, supervision, [lambda _, Y=Y: Y for Y in (noise, Y)])
    assert 0.4 < scores[1] < 0.5
    assert chosen == 0


def test_a_candidate_that_only_keeps_learned_points_apart_is_not_taken(data):
    """To it new points are nearly the same; learned ones are far apart by their class."""
    X, y, triplets = data
    supervision = Constraints(triplets=triplets, n_points=len(X))
    noisy = y[:, None] + np.random.default_rng(0).normal(size=(len(y), 1))

    def apart(learned):
        is_known = np.isin(np.arange(len(y)), learned.triplets)
        return (np.where(is_known, 1.0, 0.1) * (y - 0.5))[:, None]

    chosen, scores, _ = choose_candidate(X, supervision, [lambda _: noisy, apart])
    assert scores[1] > scores[0]
    assert chosen == 0


def test_few_noisy_answers_about_few_things_get_no_places():
    """Places kept learned points apart one by one; of new comparisons 6 points fewer held."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(180, 12))
    y = X[:, :4].sum(axis=1) + 2.0 * rng.normal(size=180) > 0.0
    supervision = sample_triplets(y, 10, 10, random_state=0)
    supervision = supervision[np.random.default_rng(0).permutation(len(supervision))[:1500]]
    model, plain = (cls(random_state=0).fit(X, triplets=supervision) for cls in (LocalMDaML, MDaML))
    assert len(model.tried_) == 3
    assert model.n_places_ == 0
    np.testing.assert_array_equal(model.components_, plain.components_)


def test_the_features_count_more_where_the_anchor_is_strong(data):
    shares = []
    for anchor in (2.5, 8.0):
        model = LocalMDaML(n_places=12, n_maps=0, anchor=anchor, random_state=0)
        Y = model.fit(data[0], triplets=data[2]).transform(data[0])
        variances = Y.var(axis=0)  # features come last
        shares.append(variances[-4:].sum() / variances[:-4].sum())
    np.testing.assert_allclose(shares, [0.15, 0.3], rtol=1e-6)


def test_places_that_exceed_the_limit_of_memory_are_refused_before_any_work(data, monkeypatch):
    monkeypatch.setattr("mdaml.estimators.local_rounds.find_landmarks", None)
    with mdaml.limit_memory(100_000), pytest.raises(ValueError, match="12 places and 0 maps need"):
        LocalMDaML(n_places=12, n_maps=0).fit(data[0], triplets=data[2])


@pytest.mark.parametrize("limit", [None, "300 MB"])
@pytest.mark.parametrize(("form", "n_maps"), [("triplets", 2), ("quadruplets", 0), ("persons", 0)])
def test_columns_that_are_made_again_for_every_step_give_the_same_places(
    data, form, n_maps, limit, monkeypatch
):
    X, supervision = data[0], every_supervision(data)[form]
    model = LocalMDaML(n_places=12, n_maps=n_maps, max_iter=3, random_state=0)
    wanted = clone(model).fit(X, **supervision).pair_distance(X[:120], X[120:])
    name, value = ("_COPIES", 10**6) if limit else ("_MOST_COLUMNS", 0)
    monkeypatch.setattr(f"mdaml.estimators.local_rounds.{name}", value)
    monkeypatch.setattr("mdaml.basis.Basis.transform", None)  # which would make them all
    with mdaml.limit_memory(limit):
        model.fit(X, **supervision)
    monkeypatch.undo()
    np.testing.assert_allclose(model.pair_distance(X[:120], X[120:]), wanted, rtol=1e-5)


def test_many_samples_are_mapped_in_blocks(data, local, monkeypatch):
    wanted = local.transform(data[0])
    monkeypatch.setattr("mdaml.estimators.local_handover._ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(local.transform(data[0]), wanted, rtol=1e-12)


@pytest.mark.parametrize("factor", [1e2, 1e6])
def test_far_from_all_samples_places_are_the_same_for_all_and_features_decide(data, factor):
    local = LocalMDaML(n_places=12, n_maps=0, random_state=0).fit(data[0], triplets=data[2])
    far = data[0][:40] * factor
    members = local.memberships(far).toarray()
    assert np.ptp(members, axis=0).max() < 1e-9
    Y = local.transform(far)
    assert np.isfinite(Y).all()
    plain = np.linalg.norm(far[:20] - far[20:], axis=1)
    ratios = local.pair_distance(far[:20], far[20:]) / plain
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-3)


# Bad answers


def bad_answers(data):
    """Return answers that teach nothing: near and far swapped, coin flips, and 45 % wrong."""
    triplets, rng = data[2], np.random.default_rng(3)
    swapped = triplets[:, [0, 2, 1]]
    coin, wrong = (
        np.where(rng.random((len(triplets), 1)) < share, swapped, triplets) for share in (0.5, 0.45)
    )
    return {
        "swapped": swapped,
        "coin": coin,
        "45 % wrong": wrong,
        "repeated": np.tile(coin, (10, 1)),
    }


@pytest.mark.parametrize("kind", ["swapped", "coin", "45 % wrong", "repeated"])
def test_answers_that_teach_nothing_leave_the_start_bit_for_bit(data, kind):
    with pytest.warns(UserWarning, match="Nothing was learned"):
        model = LocalMDaML(random_state=0).fit(data[0], triplets=bad_answers(data)[kind])
    assert model.start_kept_
    np.testing.assert_array_equal(model.components_, np.eye(4))


@pytest.mark.parametrize("params", [{}, {"n_places": 12, "n_maps": 0}])
def test_it_is_asked_whether_near_and_far_are_swapped(data, params):
    X = data[0]
    corner = 2 * (X[:, 0] > 2.5) + (X[:, 1] > 2.5)
    supervision = sample_triplets(corner, 2, 4, random_state=0)[:, [0, 2, 1]]
    with pytest.warns(UserWarning, match="Are near and far swapped"):
        LocalMDaML(random_state=0, **params).fit(X, triplets=supervision)


@pytest.mark.slow
def test_swapped_answers_under_a_weak_start_are_asked_about_and_get_no_places():
    X, y = load_digits(return_X_y=True)
    X = PCA(8, random_state=0).fit_transform(X[:400])
    supervision = sample_triplets(y[:400] % 3, 2, 2, random_state=0)
    with pytest.warns(UserWarning, match="read the other way round"):
        model = LocalMDaML(random_state=0).fit(X, triplets=supervision[:, [0, 2, 1]])
    assert model.n_places_ == 0
    assert LocalMDaML(random_state=0).fit(X, triplets=supervision).n_places_ > 0


@pytest.mark.parametrize("kind", ["repeated", "constant features", "rows of unit length"])
def test_places_are_found_in_unusual_samples_too(data, kind):
    X, _, triplets = data
    if kind == "constant features":
        X = np.hstack([X, np.full((len(X), 2), 7.0)])
    if kind == "rows of unit length":
        X = (X - 2.5) / np.linalg.norm(X - 2.5, axis=1, keepdims=True)
    supervision = np.tile(triplets, (10, 1)) if kind == "repeated" else triplets
    model = LocalMDaML(random_state=0).fit(X, triplets=supervision)
    assert model.n_places_ > 0
    assert model.score_triplets(X, triplets) > 0.9


@pytest.mark.parametrize(("factor", "offset"), [(2.0**70, 0.0), (2.0**-75, 0.0), (1.0, 2.0**26)])
def test_the_unit_of_the_samples_does_not_change_the_choice(data, factor, offset):
    """Part of the work is done in single precision, which has no numbers as large or as small."""
    X, _, triplets = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usual, model = (
            LocalMDaML(random_state=0).fit(samples, triplets=triplets)
            for samples in (X, (X + offset) * factor)
        )
    assert model.n_places_ == usual.n_places_
    assert model.gain_["after"] == pytest.approx(usual.gain_["after"], abs=0.01)
    found = model.score_triplets((X + offset) * factor, triplets)
    assert found == pytest.approx(usual.score_triplets(X, triplets), abs=0.01)


def test_samples_whose_distances_overflow_are_refused_before_any_work(data):
    with pytest.raises(ValueError, match="Scale the features"):
        LocalMDaML(n_places=4, n_maps=0).fit(1e160 * data[0], triplets=data[2])


# With other parts of the package


def test_scaling_and_principal_components_are_folded_into_the_model(tmp_path, data):
    X, _, triplets = data
    steps = make_pipeline(StandardScaler(), PCA(3, random_state=0), LocalMDaML(**LOCAL))
    steps.fit(X * [1.0, 10.0, 0.1, 1.0] + 3.0, localmdaml__triplets=triplets)
    raw = X[:40] * [1.0, 10.0, 0.1, 1.0] + 3.0
    folded = mdaml.fold_pipeline(steps)
    folded.save(tmp_path / "folded.mdaml")
    for model in (folded, mdaml.load(tmp_path / "folded.mdaml")):
        np.testing.assert_allclose(model.transform(raw), steps.transform(raw), atol=1e-9)
        np.testing.assert_allclose(model.transform(model.centers_), model.places_, atol=1e-9)
        assert model.centers_.shape == (12, 4)
    linear = LocalMDaML(**LINEAR).fit(X, triplets=triplets)
    both = make_pipeline(StandardScaler().fit(X), linear)
    np.testing.assert_allclose(
        mdaml.fold_pipeline(both).pair_distance(X[:9], X[9:18]),
        linear.pair_distance(both[0].transform(X[:9]), both[0].transform(X[9:18])),
    )


@pytest.mark.needs("pandas")
@pytest.mark.parametrize("output", ["default", "pandas"])
def test_steps_fitted_to_a_data_frame_are_folded_without_a_warning(data, output):
    X, _, triplets = data
    import pandas as pd

    frame = pd.DataFrame(3.0 * X + 1.0, columns=["w", "h", "d", "p"])
    scalers = [StandardScaler().set_output(transform=output) for _ in range(2)]
    steps = make_pipeline(*scalers, LocalMDaML(**LOCAL)).fit(frame, localmdaml__triplets=triplets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folded = mdaml.fold_pipeline(steps)
    np.testing.assert_allclose(folded.transform(frame), steps.transform(frame), atol=1e-9)


def test_a_normalizer_is_not_folded(data):
    X, _, triplets = data
    steps = make_pipeline(Normalizer(), LocalMDaML(**LOCAL)).fit(X, localmdaml__triplets=triplets)
    with pytest.raises(TypeError, match="Normalise X first"):
        mdaml.fold_pipeline(steps)


@pytest.mark.needs("pandas")
def test_an_explanation_adds_up_to_the_distance_and_names_modes(data, local):
    X = data[0]
    frame = explain_distance(local, X[0], X[1])
    assert frame["contribution"].sum() == pytest.approx(local.pair_distance(X[:1], X[1:2])[0] ** 2)
    members = np.flatnonzero(local.memberships(X[:2]).toarray().any(axis=0))
    assert list(frame.index) == [*(f"x{n}" for n in range(4)), *(f"mode {k}" for k in members)]
    assert feature_relevance(local, X).sum() == pytest.approx(1.0)


@pytest.mark.needs("pandas")
def test_audit_suggestions_search_and_persons_take_it(data):
    X, _, triplets = data
    model = LocalMDaML(n_places=12, n_maps=0, max_iter=2, random_state=0)
    fitted = clone(model).fit(X, triplets=triplets)
    assert len(mdaml.audit(fitted, X, triplets=triplets)) > 0
    assert mdaml.suggest_queries(fitted, X, 5, random_state=0).shape == (5, 3)
    search = MetricSearchCV(model, {"n_places": [0, 12]}, cv=2).fit(X, triplets=triplets)
    assert search.best_params_ == {"n_places": 12}
    people = PersonalMetrics(metric=model).fit(
        X, triplets=triplets, who=np.arange(len(triplets)) % 2
    )
    assert people.transform(X, who=0).shape == fitted.transform(X).shape


@pytest.mark.needs("typer", "pandas")
def test_the_command_line_fits_it(tmp_path, data):
    from typer.testing import CliRunner

    from mdaml.cli import build_app

    X, _, triplets = data
    wide = X * [1, 9, 1, 1]
    items, supervision, out = (
        str(tmp_path / name) for name in ("items.csv", "said.csv", "model.mdaml")
    )
    np.savetxt(items, wide, delimiter=",", header="a,b,c,d", comments="")
    np.savetxt(supervision, triplets, "%d", ",", header="a,b,c", comments="")
    arguments = ["fit", items, "--triplets", supervision, "--out", out, "--method", "localmdaml"]
    arguments += ["--param", "n_places=12", "--param", "n_maps=0"]
    result = CliRunner().invoke(build_app(), arguments)
    assert result.exit_code == 0, result.output
    model = mdaml.load(out)
    assert model.n_places_ == 12
    assert model.score_triplets(wide, triplets) > 0.8


@pytest.mark.needs("typer", "pandas")
def test_the_command_line_says_why_items_are_near(tmp_path, data):
    from typer.testing import CliRunner

    from mdaml.cli import build_app

    X, _, triplets = data
    model = LocalMDaML(n_places=12, n_maps=0, random_state=0).fit(X, triplets=triplets)
    items, path = str(tmp_path / "items.csv"), str(tmp_path / "model.mdaml")
    np.savetxt(items, X, delimiter=",", header="a,b,c,d", comments="")
    model.save(path)
    arguments = ["neighbors", path, items, "--query", "0", "-k", "240", "--why"]
    shown = CliRunner().invoke(build_app(), [*arguments, "--json"])
    assert shown.exit_code == 0, shown.output
    near = json.loads(shown.stdout)["queries"][0]["neighbors"]
    far = near[-1]
    shares = explain_distance(model, X[0], X[far["row"]])["share"]
    assert far["why"][0]["share"] == pytest.approx(shares.max())
    names = {f"x{place}": name for place, name in enumerate("abcd")}  # those of the table
    assert far["why"][0]["part"] == names.get(shares.idxmax(), shares.idxmax())
    found = {each["part"] for item in near for each in item["why"]}
    assert {"a", "b"} <= found
    assert not found & set(names)
    assert any(each["part"].startswith("mode ") for each in far["why"])
    text = CliRunner().invoke(build_app(), arguments).output.splitlines()
    assert text[0].endswith("Euclidean rank\twhy")
    assert f"{far['why'][0]['part']} {far['why'][0]['share']:.0%}" in text[-1]


@pytest.mark.needs("matplotlib")
def test_modes_are_drawn_with_an_arrow_each(data, local):
    from mdaml.plot import plot_modes, plot_places

    X, y, triplets = data
    ax = plot_places(local, X, y)
    assert len(ax.texts) == 12
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        *("0", "1", "before learning", "after learning")
    ]
    assert len(plot_places(local, X).texts) == 12
    corner = 2 * (X[:, 0] > 2.5) + (X[:, 1] > 2.5)
    with pytest.raises(ValueError, match="kinds must have a label for each of the 240 rows"):
        plot_places(local, X, y, kinds=corner[:3])
    with pytest.raises(ValueError, match="a label for each of the 240 rows of X, got 3"):
        plot_places(local, X, y[:3])
    with pytest.raises(TypeError, match="plot_places draws its modes"):
        plot_modes(local, X)
    with pytest.raises(TypeError, match="needs a LocalMDaML with places"):
        plot_places(MDaML().fit(X, triplets=triplets), X)


@pytest.mark.needs("matplotlib")
def test_kinds_of_modes_are_written_where_they_can_be_read(data, local):
    from mdaml.plot import plot_places

    X, y, _ = data
    corner = 2 * (X[:, 0] > 2.5) + (X[:, 1] > 2.5)
    ax = plot_places(local, X, y, kinds=corner)
    arrows, labels = ax.texts[:12], ax.texts[12:]
    nearest = local.memberships(X).toarray().argmax(axis=0)  # the sample at each centre
    ends = [[arrow.get_position() for arrow in arrows], [tuple(arrow.xy) for arrow in arrows]]
    for places in ends:
        kinds = dict(zip(places, corner[nearest], strict=True))
        shown = {label.get_position(): label.get_text() for label in labels}
        shown = {place: text for place, text in shown.items() if place in kinds}
        assert shown == {place: str(kinds[place]) for place in shown}
        at = ax.transData.transform([*kinds]) * 72.0 / ax.figure.dpi
        kept = np.array([place in shown for place in kinds])
        apart = np.abs(at[:, None] - at[kept]).max(axis=2)
        assert np.sort(apart[kept], axis=1)[:, 1].min() > 8.0  # points: no label lies on another
        assert np.all(apart[~kept].min(axis=1) <= 8.0)  # and none is left out for nothing
    assert len(labels) > 12


def test_without_barrier_directions_that_are_not_needed_vanish():
    X = np.random.default_rng(0).normal(size=(200, 6))
    triplets, _ = mdaml.datasets.make_triplets(
        X, n_triplets=1000, components=np.eye(6)[:1], random_state=0
    )
    ratios = []
    for barrier in (True, False):
        preset = replace(mdaml.PRESETS["comparisons"], measure=False, barrier=barrier)
        model = MDaML(goal=preset, n_components=3, anchor=1.0, max_iter=20, random_state=0)
        model.fit(X, triplets=triplets)
        assert np.all(np.diff(model.history_) <= 1e-9 * np.abs(model.history_[:-1]))
        lengths = np.linalg.svd(model.components_, compute_uv=False)
        ratios.append(lengths[-1] / lengths[0])
    assert ratios[1] < 0.2 * ratios[0]


@pytest.mark.needs("torch")
def test_a_device_finds_the_same_places(data):
    X, _, triplets = data
    here = LocalMDaML(n_places=12, n_maps=0, random_state=0).fit(X, triplets=triplets)
    there = LocalMDaML(n_places=12, n_maps=0, device="cpu", random_state=0)
    there.fit(X, triplets=triplets)
    gap = abs(there.score_triplets(X, triplets) - here.score_triplets(X, triplets))
    assert gap < 0.02


def test_scales_are_told_of_the_features_and_not_of_columns_made_of_them():
    X, y = load_digits(return_X_y=True)
    X, y = X[::3] / 16.0, y[::3] % 2
    supervision = sample_triplets(y, 2, 2, random_state=0)
    LocalMDaML(n_places=20, n_maps=0, random_state=0).fit(
        X, triplets=supervision
    )  # warns of nothing
    X[:, 20] *= 1e4
    X[:, 21:60] *= 1e-3
    with pytest.warns(UserWarning, match="The features differ much in scale"):
        LocalMDaML(n_places=20, n_maps=0, random_state=0).fit(X, triplets=supervision)

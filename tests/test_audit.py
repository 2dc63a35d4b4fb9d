"""What a fitted metric makes of each comparison, and which to ask next."""

import itertools
import sys
import warnings

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import literal
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from suite.models import make_mdaml

import mdaml
from mdaml import KISSME, Euclidean, MDaML, MDaMLCV
from mdaml.constraints import Constraints
from mdaml.datasets import make_triplets
from mdaml.inspection import CATEGORIES, audit, audit_labels, suggest_queries
from mdaml.inspection._audit import implied
from mdaml.inspection.suspicion import FlipModel, relative_margins
from mdaml.model_selection import MetricSearchCV

HIDDEN = np.eye(8)[:4]


@pytest.fixture(scope="module")
def answers():
    """600 points, 8 features of which 4 are noise, 4000 answers of which 15 % are wrong."""
    X = np.random.default_rng(0).normal(size=(600, 8))
    triplets, is_wrong = make_triplets(
        X, n_triplets=4000, components=HIDDEN, wrong=0.15, random_state=0
    )
    return X, triplets, is_wrong


@pytest.fixture(scope="module")
def model(answers):
    X, triplets, _ = answers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rounds are what the search is made of
        return MDaMLCV(random_state=0).fit(X, triplets=triplets)


@pytest.fixture(scope="module")
def modal():
    """Four blobs; the near pairs of half of the comparisons lie in different blobs."""
    rng = np.random.default_rng(1)
    blob = np.repeat(np.arange(4), 30)
    X = 4.0 * np.array([[0, 0], [0, 3], [3, 0], [3, 3]])[blob] + rng.normal(size=(120, 2))
    triplets = np.array([rng.choice(120, 3, replace=False) for _ in range(600)])
    start = np.eye(4)[KMeans(4, n_init=1, random_state=0).fit(X).labels_]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # answers at random cannot be met
        return (
            X,
            triplets,
            make_mdaml("eq. 7", start, max_iter=3).fit(X, triplets=triplets),
        )


def test_wrong_answers_are_suspected(answers, model):
    X, triplets, is_wrong = answers
    clean, _ = make_triplets(X, n_triplets=4000, components=HIDDEN, random_state=1)
    assert model.score_triplets(X, clean) >= 0.85 > Euclidean().fit(X).score_triplets(X, clean)
    frame = audit(model, X, triplets=triplets)
    assert roc_auc_score(is_wrong, frame["suspicion"]) >= 0.98
    suspected = frame["category"] == "suspected wrong"
    assert is_wrong[suspected].mean() > 0.9


def test_suspicion_reads_as_a_probability(answers, model):
    X, triplets, is_wrong = answers
    suspicion = audit(model, X, triplets=triplets)["suspicion"].to_numpy()
    assert suspicion.min() >= 0
    assert suspicion.max() <= 1
    assert abs(suspicion.mean() - 0.15) < 0.01
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.0)):
        rows = (low <= suspicion) & (suspicion <= high)
        # Three standard errors of a share of so many answers, and some more for the model.
        spread = 0.05 + 3 * 0.5 / np.sqrt(rows.sum())
        assert abs(suspicion[rows].mean() - is_wrong[rows].mean()) < spread


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.3])
def test_the_share_of_wrong_answers_is_found(rate):
    X = np.random.default_rng(0).normal(size=(200, 4))
    triplets, _ = make_triplets(
        X, n_triplets=3000, components=np.diag([2, 1, 0.2, 0.1]), wrong=rate, random_state=0
    )
    metric = KISSME().fit(X, triplets=triplets)
    assert abs(audit(metric, X, triplets=triplets)["suspicion"].mean() - rate) < 0.04


def test_a_metric_that_knows_nothing_suspects_all_alike(answers):
    X, triplets, _ = answers
    blind = Euclidean().fit(np.random.default_rng(1).normal(size=(600, 8)))
    shuffled = np.random.default_rng(2).permutation(X)
    suspicion = audit(blind, shuffled, triplets=triplets)["suspicion"]
    assert suspicion.max() - suspicion.min() < 0.2


@pytest.mark.parametrize("factor", [1e-3, 7e4])
def test_scaling_the_metric_changes_nothing(answers, factor):
    X, triplets, _ = answers
    metric = KISSME().fit(X, triplets=triplets)
    before = audit(metric, X, triplets=triplets)
    metric.components_ = metric.components_ * factor
    after = audit(metric, X, triplets=triplets)
    pd.testing.assert_frame_equal(before, after, rtol=1e-4, atol=1e-6)


def test_slack_and_satisfied_by_loops(modal):
    X, triplets, metric = modal
    frame = audit(metric, X, triplets=triplets[:50])
    M = metric.get_mahalanobis_matrix()

    def sq_dist(i, j):
        return float((X[i] - X[j]) @ M @ (X[i] - X[j]))

    typical = np.mean([sq_dist(i, j) for i, j in itertools.combinations(range(len(X)), 2)])
    for row, (a, b, c) in zip(frame.itertuples(), triplets, strict=False):
        assert (row.a, row.b, row.c) == (a, b, c)
        assert row.slack == pytest.approx((sq_dist(a, c) - sq_dist(a, b)) / typical)
        assert row.satisfied == (sq_dist(a, b) < sq_dist(a, c))
    assert frame["satisfied"].mean() == metric.score_triplets(X, triplets[:50])


def test_self_weight_and_modes_by_loops(modal):
    X, triplets, metric = modal
    W, eta = metric.weights_, metric.eta_
    frame = audit(metric, X, triplets=triplets)
    for row in frame.head(50).itertuples():
        shared = sum((W[row.a, k] * W[row.b, k]) ** eta for k in range(4))
        own = [sum(W[i, k] ** (2 * eta) for k in range(4)) for i in (row.a, row.b)]
        assert row.self_weight == pytest.approx(shared / np.sqrt(own[0] * own[1]))
        assert (row.mode_a, row.mode_b) == (W[row.a].argmax(), W[row.b].argmax())
        assert row.mode_c == W[row.c].argmax()
    assert frame["self_weight"].between(0, 1).all()


def test_other_points_have_the_weights_of_equation_14_without_pairs(modal):
    X, _, metric = modal
    new = X[:5] + 0.1
    M = metric.get_mahalanobis_matrix()
    sq_dists = np.array([[(x - c) @ M @ (x - c) for c in metric.centers_] for x in new])
    weights = sq_dists ** (-1 / (metric.eta_ - 1))
    weights /= weights.sum(axis=1, keepdims=True)
    by_paper = [literal.weights_from_costs(costs, metric.eta_) for costs in sq_dists]
    np.testing.assert_allclose(weights, by_paper)
    frame = audit(metric, new, triplets=[[0, 1, 2], [3, 4, 0]])
    modes = weights.argmax(axis=1)
    assert frame["mode_a"].tolist() == [modes[0], modes[3]]
    powers = weights**metric.eta_
    cosine = powers[0] @ powers[1] / np.linalg.norm(powers[0]) / np.linalg.norm(powers[1])
    assert frame["self_weight"][0] == pytest.approx(cosine)


def test_a_point_on_a_centre_belongs_to_it(modal):
    X, _, metric = modal
    frame = audit(metric, np.vstack([metric.centers_, X[:1]]), triplets=[[0, 1, 2], [3, 4, 1]])
    assert frame["mode_a"].tolist() == [0, 3]
    assert np.isfinite(frame["self_weight"]).all()


def test_other_points_as_many_as_the_training_rows_can_be_told_apart(modal):
    X, triplets, metric = modal
    learned = audit(metric, X[::-1], triplets=triplets)
    from_centers = audit(metric, X[::-1], triplets=triplets, training_rows=False)
    back = audit(metric, X, triplets=119 - triplets, training_rows=False)
    assert not learned["mode_a"].equals(from_centers["mode_a"])
    pd.testing.assert_series_equal(from_centers["mode_a"], back["mode_a"])
    with pytest.raises(ValueError, match=r"had 120 rows; got 20"):
        audit(metric, X[:20], triplets=[[0, 1, 2]], training_rows=True)


def test_what_is_violated_across_modes_is_ignored_not_suspected(modal):
    X, triplets, metric = modal
    frame = audit(metric, X, triplets=triplets)
    across = ~frame["satisfied"] & (frame["self_weight"] < 0.1)
    assert across.sum() > 50
    assert (frame["category"][across] == "ignored across modes").all()
    assert not (frame["category"][~across] == "ignored across modes").any()


def test_categories_follow_their_rules(answers, model):
    X, triplets, _ = answers
    frame = audit(model, X, triplets=triplets)
    assert frame["category"].cat.categories.tolist() == list(CATEGORIES)
    held = frame["category"].isin(["kept", "redundant"])
    pd.testing.assert_series_equal(held, frame["satisfied"], check_names=False)
    wrong = frame["category"] == "suspected wrong"
    assert (frame["suspicion"][wrong] >= 0.5).all()
    assert (frame["suspicion"][frame["category"] == "violated"] < 0.5).all()


def test_repetitions_and_consequences_are_redundant():
    X = np.array([[0.0], [1.0], [2.0], [4.0], [8.0]])
    triplets = [[0, 1, 2], [0, 2, 3], [0, 1, 3], [0, 1, 2], [1, 0, 4], [0, 4, 1], [0, 4, 1]]
    frame = audit(Euclidean().fit(X), X, triplets=triplets)
    assert frame["category"][:5].tolist() == ["kept", "kept", "redundant", "redundant", "kept"]
    assert not frame["satisfied"][5:].any()
    assert "redundant" not in frame["category"][5:].tolist()


def test_a_quadruplet_with_a_shared_point_repeats_the_triplet():
    X = np.array([[0.0], [1.0], [3.0], [7.0]])
    frame = audit(
        Euclidean().fit(X), X, triplets=[[0, 1, 2]], quadruplets=[[1, 0, 2, 0], [0, 1, 2, 3]]
    )
    assert frame["category"].tolist() == ["kept", "redundant", "kept"]


@given(hnp.arrays(int, st.tuples(st.integers(1, 25), st.just(2)), elements=st.integers(0, 7)))
def test_consequences_by_loops(edges):
    edges = edges[edges[:, 0] < edges[:, 1]]  # pairs numbered by their distance
    supervision = set(map(tuple, edges.tolist()))
    expected = [
        any((u, w) in supervision and (w, v) in supervision for w in range(8)) for u, v in edges
    ]
    assert implied(edges[:, 0], edges[:, 1]).tolist() == expected


def test_leaving_out_consequences_loses_nothing():
    rng = np.random.default_rng(0)
    edges = np.sort(np.array([rng.choice(12, 2, replace=False) for _ in range(60)]), axis=1)
    edges = np.unique(edges, axis=0)

    def closure(rows):
        reach = np.zeros((12, 12), bool)
        reach[tuple(rows.T)] = True
        for k in range(12):
            reach |= reach[:, [k]] & reach[[k]]
        return reach

    left = edges[~implied(edges[:, 0], edges[:, 1])]
    assert len(left) < len(edges)
    np.testing.assert_array_equal(closure(left), closure(edges))


def test_pairs_are_measured_against_the_threshold_that_parts_them_best():
    X = np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [9.0]])
    pairs = [[0, 1], [1, 2], [3, 4], [0, 3], [2, 5], [4, 5], [0, 1]]
    labels = [1, 1, 1, -1, -1, -1, 1]
    frame = audit(Euclidean().fit(X), X, pairs=pairs, pair_labels=labels)
    assert list(frame.columns[:3]) == ["kind", "a", "b"]
    assert "c" not in frame
    assert frame["kind"].tolist() == ["similar pair"] * 3 + ["dissimilar pair"] * 3 + [
        "similar pair"
    ]
    assert frame["satisfied"].all()  # any threshold between 1 and 4 parts them
    assert frame["category"].tolist() == ["kept"] * 6 + ["redundant"]
    frame = audit(Euclidean().fit(X), X, pairs=pairs, pair_labels=[*labels[:-1], -1])
    assert frame["satisfied"].tolist() == [True] * 6 + [False]
    assert frame["suspicion"].argmax() == 6


def test_wrong_pairs_are_suspected():
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(20), 10)
    X = 3 * rng.normal(size=(20, 4))[who] + rng.normal(size=(200, 4)) * 0.5
    pairs = np.array([rng.choice(200, 2, replace=False) for _ in range(2000)])
    pairs[::2, 1] = (pairs[::2, 0] // 10) * 10 + (pairs[::2, 0] + 1) % 10  # of the same
    is_wrong = rng.random(2000) < 0.1
    labels = np.where((who[pairs[:, 0]] == who[pairs[:, 1]]) != is_wrong, 1, -1)
    frame = audit(Euclidean().fit(X), X, pairs=pairs, pair_labels=labels)
    assert roc_auc_score(is_wrong, frame["suspicion"]) > 0.95
    assert abs(frame["suspicion"].mean() - 0.1) < 0.03


def test_mixed_forms_come_in_order_and_from_a_value_too(answers, model):
    X, triplets, _ = answers
    supervision = {
        "triplets": triplets[:3],
        "pairs": [[0, 1], [2, 3]],
        "pair_labels": [1, -1],
        "quadruplets": [[0, 1, 2, 3]],
    }
    frame = audit(model, X, **supervision)
    kinds = ["triplet"] * 3 + ["similar pair", "dissimilar pair", "quadruplet"]
    assert frame["kind"].tolist() == kinds
    assert frame["d"].isna().tolist() == [True] * 5 + [False]
    assert frame["mode_c"].isna().tolist() == [False] * 3 + [True] * 2 + [False]
    assert frame.iloc[-1][["a", "b", "c", "d"]].tolist() == [0, 1, 2, 3]
    pd.testing.assert_frame_equal(frame, audit(model, X, constraints=Constraints(**supervision)))


def test_metrics_without_modes_have_weight_one_and_no_modes(answers):
    X, triplets, _ = answers
    frame = audit(KISSME().fit(X, triplets=triplets), X, triplets=triplets[:20])
    assert (frame["self_weight"] == 1).all()
    assert frame[["mode_a", "mode_b", "mode_c"]].isna().all(axis=None)
    assert frame[["a", "b", "c"]].to_numpy().tolist() == triplets[:20].tolist()


def test_points_that_coincide_are_ties():
    X = np.array([[0.0], [0.0], [0.0], [1.0]])
    frame = audit(Euclidean().fit(X), X, triplets=[[0, 1, 2], [0, 1, 3]])
    assert frame["satisfied"].tolist() == [False, True]
    assert np.isfinite(frame[["slack", "suspicion"]].to_numpy()).all()


@given(
    hnp.arrays(float, st.integers(1, 30), elements=st.floats(-1, 1)),
    st.floats(0.001, 0.499),
    st.floats(0.005, 5.0),
)
def test_suspicion_is_bayes_rule_and_falls_with_the_margin(margins, flip_rate, scale):
    got = FlipModel(flip_rate, scale).suspicion(margins)
    agrees = 1 / (1 + np.exp(-margins / scale))
    flipped = flip_rate * (1 - agrees)
    np.testing.assert_allclose(got, flipped / (flipped + (1 - flip_rate) * agrees), atol=1e-12)
    order = np.argsort(margins)
    assert np.all(np.diff(got[order]) <= 1e-15)


@settings(max_examples=15)
@given(hnp.arrays(float, st.integers(1, 40), elements=st.floats(-1, 1)))
def test_any_margins_give_a_finite_model(margins):
    model = FlipModel.from_margins(margins)
    assert 0 < model.flip_rate <= 0.5
    assert 0.005 <= model.scale <= 5.001


def test_the_flip_model_finds_the_best_of_a_grid():
    rng = np.random.default_rng(0)
    learned = rng.uniform(0, 0.8, 3000)  # how much the distances differ, whatever the answer
    agrees = rng.random(3000) < 1 / (1 + np.exp(-learned / 0.1))
    margins = np.where(agrees != (rng.random(3000) < 0.2), learned, -learned)

    def likelihood(flip_rate, scale):
        p = 1 / (1 + np.exp(-margins / scale))
        return np.sum(np.log((1 - flip_rate) * p + flip_rate * (1 - p)))

    found = FlipModel.from_margins(margins)
    assert abs(found.flip_rate - 0.2) < 0.03
    assert 0.06 < found.scale < 0.15
    grid = [
        likelihood(e, s) for e in np.linspace(0.01, 0.49, 49) for s in np.geomspace(0.01, 3, 50)
    ]
    assert likelihood(found.flip_rate, found.scale) > max(grid) - 2.0  # the priors cost a little


@given(
    hnp.arrays(float, 10, elements=st.floats(0, 1e6)),
    hnp.arrays(float, 10, elements=st.floats(0, 1e6)),
)
def test_relative_margins_are_bounded_and_odd(near, far):
    margins = relative_margins(near, far)
    assert np.all(np.abs(margins) <= 1)
    np.testing.assert_array_equal(margins, -relative_margins(far, near))


@pytest.mark.parametrize(
    ("supervision", "error", "message"),
    [
        ({}, ValueError, "At least one constraint is needed"),
        ({"pair_labels": [1]}, ValueError, "At least one constraint is needed"),
        ({"triplets": [[0, 1, 2]], "pair_labels": [1]}, ValueError, "belong to pairs"),
        ({"triplets": [[0, 1, 900]]}, ValueError, "name row 900"),
        ({"pairs": [[0, 1]], "pair_labels": [1]}, ValueError, "similar and dissimilar"),
        ({"constraints": [[0, 1, 2]]}, TypeError, r"must be mdaml\.Constraints, got list"),
        (
            {"constraints": Constraints(triplets=[[0, 1, 2]]), "triplets": [[0, 1, 2]]},
            ValueError,
            "not both",
        ),
    ],
)
def test_what_cannot_be_audited_is_said(answers, model, supervision, error, message):
    with pytest.raises(error, match=message):
        audit(model, answers[0], **supervision)


def test_only_fitted_metrics_are_audited(answers):
    X, triplets, _ = answers
    with pytest.raises(NotFittedError):
        audit(MDaML(), X, triplets=triplets)
    with pytest.raises(TypeError, match=r"needs a fitted metric of mdaml.*got KMeans"):
        audit(KMeans(), X, triplets=triplets)


def test_without_pandas_the_extra_is_named(answers, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"mdaml\[cli\]"):
        audit(model, answers[0], triplets=answers[1])


def answer(X, triplets):
    """Answer by half of the features, of different importance."""
    Y = X[:, :4] * np.linspace(1, 2, 4)
    near, far = (np.sum((Y[triplets[:, 0]] - Y[triplets[:, n]]) ** 2, axis=1) for n in (1, 2))
    return np.where((near <= far)[:, None], triplets, triplets[:, [0, 2, 1]])


def learn(seed, suggested):
    """Ask 30 comparisons five times over, and return the share of others that then hold."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 8))

    def draw(n):
        return np.array([rng.choice(150, 3, replace=False) for _ in range(n)])

    others, asked = answer(X, draw(3000)), answer(X, draw(30))
    for step in range(5):
        metric = MDaML(n_modes=1, anchor=0.1).fit(X, triplets=asked)
        queries = suggest_queries(metric, X, 30, random_state=step) if suggested else draw(30)
        asked = np.concatenate([asked, answer(X, queries)])
    return MDaML(n_modes=1, anchor=0.1).fit(X, triplets=asked).score_triplets(X, others)


@pytest.mark.slow
def test_suggested_queries_teach_more_than_random_ones():
    ours = np.mean([learn(seed, True) for seed in range(4)])
    random = np.mean([learn(seed, False) for seed in range(4)])
    assert ours > random + 0.01  # 0.025, with a standard error of 0.008


def test_queries_are_open_new_and_spread(answers, model):
    X = answers[0]
    queries = suggest_queries(model, X, 40, random_state=0)
    assert queries.shape == (40, 3)
    assert len(set(queries[:, 0])) == 40  # no anchor twice
    Y = model.transform(X)
    near, far = (np.sum((Y[queries[:, 0]] - Y[queries[:, n]]) ** 2, axis=1) for n in (1, 2))
    assert np.all(near <= far)
    drawn, _ = make_triplets(X, n_triplets=1000, random_state=3)
    n, f = (np.sum((Y[drawn[:, 0]] - Y[drawn[:, k]]) ** 2, axis=1) for k in (1, 2))
    assert np.median(far - near) < np.median(np.abs(f - n))
    np.testing.assert_array_equal(queries, suggest_queries(model, X, 40, random_state=0))


def test_modes_take_turns(modal):
    X, _, metric = modal
    modes = metric.weights_.argmax(axis=1)[suggest_queries(metric, X, 24, random_state=0)[:, 0]]
    shares = np.bincount(metric.weights_.argmax(axis=1), minlength=4) / len(X)
    assert np.all(np.abs(np.bincount(modes, minlength=4) / 24 - shares) < 0.1)


def test_what_was_asked_is_not_proposed_in_either_order():
    X = np.random.default_rng(0).normal(size=(5, 2))
    every = [(a, b, c) for a, b, c in itertools.permutations(range(5), 3) if b < c]
    asked = every[:20]
    metric = Euclidean().fit(X)
    queries = suggest_queries(metric, X, 10, asked=[(a, c, b) for a, b, c in asked])
    assert {(a, *sorted((b, c))) for a, b, c in queries.tolist()} == set(every[20:])
    with pytest.raises(ValueError, match="only 10 of the candidates have not been asked"):
        suggest_queries(metric, X, 11, asked=asked)


def test_the_comparisons_of_fit_are_not_proposed():
    X = np.random.default_rng(0).normal(size=(6, 2))
    triplets, _ = make_triplets(X, n_triplets=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # six points
        metric = MDaML(n_modes=1).fit(X, triplets=triplets)
    queries = suggest_queries(metric, X, 5)
    asked = {(a, *sorted((b, c))) for a, b, c in triplets.tolist()}
    assert not asked & {(a, *sorted((b, c))) for a, b, c in queries.tolist()}


def test_candidates_are_drawn_from_those_given():
    X = np.random.default_rng(0).normal(size=(50, 2))
    given_ones, _ = make_triplets(X, n_triplets=60, random_state=0)
    queries = suggest_queries(Euclidean().fit(X), X, 20, candidates=given_ones)
    assert set(map(tuple, queries.tolist())) <= set(map(tuple, given_ones.tolist()))
    assert suggest_queries(Euclidean().fit(X), X, 20, candidates=30, random_state=0).shape == (
        20,
        3,
    )


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_a_senseless_number_of_queries_is_refused(n):
    X = np.eye(5)
    with pytest.raises(ValueError, match="integer of at least 1"):
        suggest_queries(Euclidean().fit(X), X, n)


def test_two_points_cannot_be_compared():
    X = np.eye(2)
    with pytest.raises(ValueError, match="three points, but X has 2"):
        suggest_queries(Euclidean().fit(X), X, 1)


def test_a_model_saved_without_its_training_rows_takes_all_points_for_new(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3))
    T, _ = make_triplets(X, n_triplets=300, components=np.eye(3)[:2], random_state=0)
    model = MDaML.paper(2, random_state=0).fit(X, triplets=T)
    model.save(tmp_path / "compact.mdaml", compact=True)
    compact = mdaml.load(tmp_path / "compact.mdaml")
    expected = audit(model, X, triplets=T, training_rows=False)
    assert audit(compact, X, triplets=T).equals(expected)
    with pytest.raises(ValueError, match="compact=False"):
        audit(compact, X, triplets=T, training_rows=True)


# Pipelines


def test_pipelines_are_audited_and_asked_with_the_samples_as_they_came(answers):
    X, T = 100.0 * answers[0] + 7.0, answers[1]
    pipeline = make_pipeline(StandardScaler(), MDaML(1))
    pipeline.fit(X, mdaml__triplets=T)
    scaled = pipeline[:-1].transform(X)
    pd.testing.assert_frame_equal(
        audit(pipeline, X, triplets=T), audit(pipeline[-1], scaled, triplets=T)
    )
    np.testing.assert_array_equal(
        suggest_queries(pipeline, X, 10, random_state=0),
        suggest_queries(pipeline[-1], scaled, 10, random_state=0),
    )


def test_a_search_over_pipelines_is_audited(answers):
    X, T = answers[0], answers[1]
    pipeline = make_pipeline(StandardScaler(), MDaML(random_state=0))
    search = MetricSearchCV(pipeline, {"mdaml__n_modes": [1, 2]}, cv=2, random_state=0)
    search.fit(X, triplets=T)
    pd.testing.assert_frame_equal(
        audit(search, X, triplets=T), audit(search.best_estimator_, X, triplets=T)
    )


@pytest.mark.parametrize("what", [{"triplets": [[0, 1, 2]]}, {}])
def test_distances_that_overflow_are_refused(what):
    """Before: suspicions that are no numbers, or a division by zero."""
    X, y = 1e160 * np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2
    metric = Euclidean().fit(X)
    with pytest.raises(ValueError, match="squared distances overflow"):
        audit(metric, X, **what) if what else audit_labels(metric, X, y)

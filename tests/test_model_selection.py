"""What is held out, and how it is scored."""

import tracemalloc
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sklearn.metrics import label_ranking_average_precision_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mdaml import DMLMJ, GMML, KISSME, LFDA, LMNN, DMLdc, DMLeig, Euclidean, MDaML
from mdaml.constraints import Constraints
from mdaml.model_selection import (
    ConstraintKFold,
    PointKFold,
    hit_rate_at_k,
    knn_accuracy,
    map_at_r,
    pair_auc,
    triplet_accuracy,
)
from mdaml.neighbors import search

N_POINTS = 12


@st.composite
def some_constraints(draw):
    """Comparisons of few points, so that many are asked twice, mirrored or contradicted."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    named = np.arange(draw(st.sampled_from([5, N_POINTS])))
    rows = [rng.permuted(np.tile(named, (60, 1)), axis=1)[:, :4] for _ in range(3)]
    n = [draw(st.integers(0, 40)) for _ in range(3)]
    parts = {
        "triplets": rows[0][: max(n[0], 1), :3],
        "pairs": rows[1][: n[1], :2],
        "pair_labels": rng.choice([-1, 1], n[1]),
        "quadruplets": rows[2][: n[2]],
    }
    weights = rng.uniform(0.5, 2.0, max(n[0], 1) + n[1] + n[2])
    return Constraints(**parts, weights=weights, n_points=N_POINTS)


def listed(constraints):
    """All constraints with their weights, as tuples that can be counted."""
    kinds = ("triplets", "pairs", "quadruplets")
    rows = [(kind, *row) for kind in kinds for row in getattr(constraints, kind).tolist()]
    labels = [0] * len(constraints.triplets) + constraints.pair_labels.tolist()
    labels += [0] * len(constraints.quadruplets)
    return list(zip(rows, labels, constraints.weights.tolist(), strict=True))


def questions(constraints):
    """What is asked, whatever the answer: two unordered pairs, or one."""
    asked = {frozenset([frozenset(q[:2]), frozenset(q[2:])]) for q in constraints.comparisons()}
    return asked | {frozenset(pair) for pair in constraints.pairs}


def renamed(constraints, points):
    """The constraints with the numbers that their points had before."""
    kinds = ("triplets", "pairs", "quadruplets")
    parts = {kind: points[getattr(constraints, kind)] for kind in kinds}
    labels = {"pair_labels": constraints.pair_labels, "weights": constraints.weights}
    return Constraints(**parts, **labels, n_points=N_POINTS)


def listed_points(supervision):
    return [
        row
        for rows in (supervision.triplets, supervision.pairs, supervision.quadruplets)
        for row in rows.tolist()
    ]


@given(supervision=some_constraints(), shuffle=st.booleans(), n_splits=st.integers(2, 5))
def test_each_comparison_is_held_out_once_and_asked_on_one_side_only(
    supervision, shuffle, n_splits
):
    if len({frozenset(row) for row in listed_points(supervision)}) < n_splits:
        return  # what is asked about the same points stays together
    seed = 0 if shuffle else None
    splits = list(ConstraintKFold(n_splits, shuffle=shuffle, random_state=seed).split(supervision))
    assert len(splits) == n_splits
    held_out = Counter()
    for split in splits:
        held_out.update(listed(split.test))
        assert Counter(listed(split.train)) + Counter(listed(split.test)) == Counter(
            listed(supervision)
        )
        assert not questions(split.train) & questions(split.test)
        assert split.train.n_points == split.test.n_points == N_POINTS
        np.testing.assert_array_equal(split.train_points, np.arange(N_POINTS))
    assert held_out == Counter(listed(supervision))


def test_a_triplet_its_flip_and_the_same_as_a_quadruplet_are_one_question():
    triplets = [[0, 1, 2], [0, 2, 1], [3, 4, 5], [6, 7, 8]]
    quadruplets = [[0, 1, 0, 2], [2, 0, 1, 0], [1, 2, 1, 0]]
    supervision = Constraints(triplets=triplets, quadruplets=quadruplets)
    for split in ConstraintKFold(3, random_state=0).split(supervision):
        together = [row in split.test.triplets.tolist() for row in triplets[:2]]
        together += [row in split.test.quadruplets.tolist() for row in quadruplets[:2]]
        assert len(set(together)) == 1
    # Another anchor among the same points is another question.
    assert len(questions(supervision)) == 4


def test_folds_are_of_equal_size_in_all_and_of_every_kind():
    rng = np.random.default_rng(0)
    rows = np.array([rng.choice(500, 4, replace=False) for _ in range(300)])
    supervision = Constraints(
        triplets=rows[:100, :3],
        pairs=rows[100:200, :2],
        pair_labels=np.where(np.arange(100) < 30, 1, -1),
        quadruplets=rows[200:],
    )
    for split in ConstraintKFold(5, random_state=0).split(supervision):
        test = split.test
        counts = test.counts()
        assert (counts.triplets, counts.similar_pairs) == (20, 6)
        assert (counts.dissimilar_pairs, counts.quadruplets) == (14, 20)


@given(supervision=some_constraints(), seed=st.integers(0, 99))
def test_held_out_points_take_their_comparisons_with_them(supervision, seed):
    try:
        splits = list(PointKFold(2, random_state=seed).split(supervision))
    except ValueError:  # nothing lies within one side
        reject()
    test_points = np.concatenate([split.test_points for split in splits])
    np.testing.assert_array_equal(np.sort(test_points), np.arange(N_POINTS))
    for split in splits:
        train, test = split.train_points, split.test_points
        assert sorted([*train, *test]) == list(range(N_POINTS))
        sides = {
            side: [row for row in listed(supervision) if set(row[0][1:]) <= set(points)]
            for side, points in (("train", train), ("test", test))
        }
        assert listed(renamed(split.train, train)) == sides["train"]
        assert listed(renamed(split.test, test)) == sides["test"]
        assert split.train.n_points == len(train)
        n_both = len(sides["train"]) + len(sides["test"])
        assert split.n_dropped == supervision.n_constraints - n_both


def test_points_are_stratified_by_label_unlabelled_ones_too():
    y = np.repeat([-1, 0, 1], [20, 30, 50])
    for split in PointKFold(5, random_state=0).split(y=y):
        assert Counter(y[split.test_points].tolist()) == {-1: 4, 0: 6, 1: 10}
        assert split.train is split.test is None
    names = np.array(["a", "b"] * 10)
    assert Counter(names[next(PointKFold(2).split(y=names)).test_points]) == {"a": 5, "b": 5}


@pytest.mark.parametrize("splitter", [ConstraintKFold, PointKFold])
def test_same_seed_same_folds(splitter):
    rng = np.random.default_rng(0)
    supervision = Constraints(triplets=[rng.choice(30, 3, replace=False) for _ in range(300)])

    def folds(**options):
        return [split.test.triplets.tolist() for split in splitter(3, **options).split(supervision)]

    assert folds(random_state=1) == folds(random_state=1) != folds(random_state=2)
    assert folds(shuffle=False) == folds(shuffle=False) != folds(random_state=1)


def test_splitters_refuse_what_cannot_be_split():
    supervision = Constraints(triplets=[[0, 1, 2], [0, 2, 1]])
    with pytest.raises(ValueError, match="at least as many different comparisons, got 1"):
        ConstraintKFold(2).split(supervision)
    with pytest.raises(ValueError, match=r"n_splits=.*at least 2, got 1"):
        ConstraintKFold(1).split(supervision)
    with pytest.raises(TypeError, match=r"PointKFold\(n_splits=...\) must be an integer"):
        PointKFold(2.0).split(supervision)
    with pytest.raises(TypeError, match=r"must be mdaml\.Constraints, got list"):
        PointKFold().split([[0, 1, 2]])
    with pytest.raises(TypeError, match="use PointKFold"):
        ConstraintKFold().split(None, [0, 1])
    with pytest.raises(TypeError, match="got neither"):
        PointKFold().split()
    with pytest.raises(ValueError, match="needs at least as many points, got n_samples=3"):
        PointKFold(4).split(supervision)
    with pytest.raises(ValueError, match="one label for each of the 3 points"):
        PointKFold(2).split(supervision, y=[0, 1])
    with pytest.raises(ValueError, match="has no effect with shuffle=False"):
        PointKFold(2, shuffle=False, random_state=0).split(supervision)
    with pytest.raises(ValueError, match="2 join both sides"):
        list(PointKFold(2).split(supervision))


# Scorers, against loops and scikit-learn.


@pytest.fixture(params=[0, 1, 2])
def problem(request):
    """Points on a grid, so that distances are exact and ties are many; labels of uneven size."""
    rng = np.random.default_rng(request.param)
    X = rng.integers(-3, 4, size=(40, 2)).astype(float)
    X = np.concatenate([X, -X])  # of mean zero: centring changes nothing
    y = rng.choice(5, 80, p=[0.5, 0.3, 0.1, 0.07, 0.03])
    y[0] = 9  # the only one
    return X, y


def metric(n_features=2):
    return Euclidean().fit(np.zeros((2, n_features)))


def ranking(X, gallery, i, own):
    """The gallery in the order of its distance to row i, ties to the earlier row."""
    far = [(float(np.sum((X[i] - row) ** 2)), j) for j, row in enumerate(gallery)]
    return [j for _, j in sorted(far) if not (own and j == i)]


def loop_knn(X, y, k, gallery=None):
    other, labels = (X, y) if gallery is None else gallery
    n_right = 0
    for i in range(len(X)):
        votes = Counter(labels[j] for j in ranking(X, other, i, gallery is None)[:k])
        most = max(votes.values())
        n_right += min(label for label, n in votes.items() if n == most) == y[i]
    return n_right / len(X)


def loop_recall(X, y, k, gallery=None):
    other, labels = (X, y) if gallery is None else gallery
    found = []
    for i in range(len(X)):
        ranked = [labels[j] == y[i] for j in ranking(X, other, i, gallery is None)]
        if any(ranked):
            found.append(any(ranked[:k]))
    return np.mean(found)


def loop_map(X, y, gallery=None):
    other, labels = (X, y) if gallery is None else gallery
    precisions = []
    for i in range(len(X)):
        ranked = [labels[j] == y[i] for j in ranking(X, other, i, gallery is None)]
        R = sum(ranked)
        if R:
            at = [sum(ranked[:r]) / r for r in range(1, R + 1) if ranked[r - 1]]
            precisions.append(sum(at) / R)
    return np.mean(precisions)


def test_label_scores_equal_the_loops_whatever_the_blocks(problem, monkeypatch):
    X, y = problem
    Q, q = X[:25], y[:25]
    gallery = np.concatenate([X[25:40], -X[25:40]]), np.concatenate([y[25:40], y[65:80]])
    ranks = (1, 3, 200)
    votes = [(loop_knn(X, y, k), loop_knn(Q, q, k, gallery)) for k in ranks]
    recalls = [(loop_recall(X, y, k), loop_recall(Q, q, k, gallery)) for k in ranks]
    precisions = loop_map(X, y), loop_map(Q, q, gallery)
    for block in (1, 500, 2**21):
        monkeypatch.setattr(search, "_BLOCK", block)
        for score, wanted in ((knn_accuracy, votes), (hit_rate_at_k, recalls)):
            for k, (of_all, of_some) in zip(ranks, wanted, strict=True):
                assert score(metric(), X, y, k=k) == of_all
                assert score(metric(), Q, q, k=k, gallery=gallery) == of_some
        found = map_at_r(metric(), X, y), map_at_r(metric(), Q, q, gallery=gallery)
        np.testing.assert_allclose(found, precisions, rtol=1e-12)


def test_votes_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)) + 1e4, rng.choice(["a", "b", "c"], 300)
    for k in (1, 2, 5):
        knn = KNeighborsClassifier(k, algorithm="brute").fit(X[:200], y[:200])
        ours = knn_accuracy(metric(4), X[200:], y[200:], k=k, gallery=(X[:200], y[:200]))
        assert ours == knn.score(X[200:], y[200:])


def test_map_at_r_is_label_ranking_precision_of_the_nearest_r():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.integers(0, 4, 80)
    total = 0.0
    for i in range(len(X)):
        others = np.delete(np.arange(len(X)), i)
        sq_dists = np.sum((X[others] - X[i]) ** 2, axis=1)
        R = np.sum(y[others] == y[i])
        nearest = np.argsort(sq_dists)[:R]
        hits = y[others][nearest] == y[i]
        if hits.any():
            precision = label_ranking_average_precision_score([hits], [-sq_dists[nearest]])
            total += precision * hits.sum() / R
    np.testing.assert_allclose(map_at_r(metric(3), X, y), total / len(X))


def test_unlabelled_points_neither_ask_nor_vote(problem):
    X, y = problem
    hidden = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    shown = hidden != -1
    for score in (knn_accuracy, hit_rate_at_k, map_at_r):
        with_hidden, without = score(metric(), X, hidden), score(metric(), X[shown], y[shown])
        np.testing.assert_allclose(with_hidden, without)


@settings(max_examples=30)
@given(supervision=some_constraints())
def test_comparison_scores_equal_the_loops_and_scikit_learn(supervision):
    X = np.random.default_rng(0).integers(0, 3, size=(N_POINTS, 2)).astype(float)
    dist = [[np.linalg.norm(a - b) for b in X] for a in X]
    n_triplets = len(supervision.triplets)
    of_triplets, of_pairs, of_quadruplets = np.split(
        supervision.weights, [n_triplets, n_triplets + len(supervision.pairs)]
    )

    def holds(near, far):
        return float(near < far) + 0.5 * (near == far)

    held, total = 0.0, 0.0
    for (a, b, c), w in zip(supervision.triplets, of_triplets, strict=True):
        held, total = held + w * holds(dist[a][b], dist[a][c]), total + w
    for (a, b, c, d), w in zip(supervision.quadruplets, of_quadruplets, strict=True):
        held, total = held + w * holds(dist[a][b], dist[c][d]), total + w
    np.testing.assert_allclose(triplet_accuracy(metric(), X, supervision), held / total)
    similar = supervision.pair_labels > 0
    if not similar.any() or similar.all():
        with pytest.raises(ValueError, match="needs similar and dissimilar pairs"):
            pair_auc(metric(), X, supervision)
        return
    auc, total = 0.0, 0.0
    for (a, b), v in zip(supervision.pairs[similar], of_pairs[similar], strict=True):
        for (c, d), w in zip(supervision.pairs[~similar], of_pairs[~similar], strict=True):
            auc, total = auc + v * w * holds(dist[a][b], dist[c][d]), total + v * w
    np.testing.assert_allclose(pair_auc(metric(), X, supervision), auc / total)
    scores = [-dist[a][b] for a, b in supervision.pairs]
    oracle = roc_auc_score(similar, scores, sample_weight=of_pairs)
    np.testing.assert_allclose(pair_auc(metric(), X, supervision), oracle)
    only_pairs = Constraints(
        pairs=supervision.pairs,
        pair_labels=supervision.pair_labels,
        weights=of_pairs,
        n_points=N_POINTS,
    )
    assert triplet_accuracy(metric(), X, only_pairs) == pair_auc(metric(), X, supervision)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "learner",
    # Without the shrinkage given, MDaML would rightly keep the start: there is little to learn.
    [Euclidean, GMML, KISSME, DMLeig, DMLMJ, LFDA, LMNN, DMLdc, partial(MDaML, shrinkage=0.0)],
)
def test_all_estimators_can_be_scored_alone_and_in_a_pipeline(learner):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 15)
    X = rng.normal(size=(45, 3)) + 3.0 * np.eye(3)[y]
    supervision = Constraints(
        triplets=[[0, 1, 20], [20, 21, 40]], pairs=[[0, 1], [0, 20]], pair_labels=[1, -1]
    )
    for model in (learner(), make_pipeline(StandardScaler(), learner())):
        model.fit(X, y)
        for score, truth in [
            (triplet_accuracy, supervision),
            (pair_auc, supervision),
            (knn_accuracy, y),
            (partial(hit_rate_at_k, k=5), y),
            (map_at_r, y),
        ]:
            assert 0.5 <= score(model, X, truth) <= 1.0


def test_memory_of_neighbours_is_bounded_for_many_points():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 2)), rng.integers(0, 40, 3000)
    model = metric()
    tracemalloc.start()
    map_at_r(model, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.8 * 3000**2 * 8


def test_scorers_refuse_what_they_cannot_score():
    X, supervision = np.zeros((3, 2)), Constraints(triplets=[[0, 1, 3]])
    with pytest.raises(ValueError, match="refer to 4 points, but X has 3 rows"):
        triplet_accuracy(metric(), X, supervision)
    with pytest.raises(TypeError, match=r"must be mdaml\.Constraints, got ndarray"):
        triplet_accuracy(metric(), X, supervision.triplets)
    with pytest.raises(ValueError, match="got 0 similar and 0 dissimilar"):
        pair_auc(metric(), X, supervision)
    with pytest.raises(ValueError, match=r"one label for each of the 3 rows of X, got shape \(2,"):
        knn_accuracy(metric(), X, [0, 1])
    with pytest.raises(ValueError, match="all are -1"):
        knn_accuracy(metric(), X, [-1, -1, -1])
    with pytest.raises(TypeError, match=r"knn_accuracy\(k=...\) must be an integer"):
        knn_accuracy(metric(), X, [0, 1, 1], k=1.5)
    with pytest.raises(ValueError, match=r"hit_rate_at_k\(k=...\) must be at least 1, got 0"):
        hit_rate_at_k(metric(), X, [0, 1, 1], k=0)
    with pytest.raises(ValueError, match="A single labelled point"):
        knn_accuracy(metric(), X, [0, -1, -1])
    with pytest.raises(ValueError, match="labels that occur more than once"):
        map_at_r(metric(), X, [0, 1, 2])

"""Exact search and the scores of retrieval, against loops and against trec_eval."""

import math

import numpy as np
import pytest

from mdaml import Euclidean
from mdaml.retrieval import QueryAdapter, _search, retrieval_scores
from mdaml.retrieval._relevance import read_relevance
from mdaml.retrieval._search import search

DEVICES = [None, pytest.param("cpu", marks=pytest.mark.needs("torch"))]


def problem(seed, n_queries=12, n_documents=40, d=5):
    """Vectors, and graded pairs of some of the queries, with one judged not relevant."""
    rng = np.random.default_rng(seed)
    Q, X = rng.normal(size=(n_queries, d)), rng.normal(size=(n_documents, d))
    rows = [
        (q, x, rng.integers(1, 4))
        for q in range(n_queries - 2)
        for x in rng.choice(n_documents, rng.integers(1, 6), replace=False)
    ]
    return Q, X, np.array([*rows, (n_queries - 1, 0, 0)])


def literal_scores(ranking, grades, k):
    """The measures of one query, in loops; ``grades`` has a positive grade for relevant ones."""
    hits = [document in grades for document in ranking[:k]]
    precisions = [sum(hits[: r + 1]) / (r + 1) for r in range(len(hits)) if hits[r]]
    gain = sum(grades.get(x, 0) / math.log2(r + 2) for r, x in enumerate(ranking[:k]))
    ideal = sorted(grades.values(), reverse=True)[:k]
    best = sum(grade / math.log2(r + 2) for r, grade in enumerate(ideal))
    return {
        "recall": sum(hits) / len(grades),
        "precision": sum(hits) / k,
        "hit_rate": float(any(hits)),
        "mrr": 1 / (1 + hits.index(True)) if any(hits) else 0.0,
        "map": sum(precisions) / len(grades),
        "ndcg": gain / best,
    }


def similarity_of(q, x, kind):
    if kind == "cosine":
        return q @ x / np.linalg.norm(q) / np.linalg.norm(x)
    return q @ x if kind == "dot" else -np.sum((q - x) ** 2)


@pytest.mark.parametrize("kind", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_loops(seed, kind):
    Q, X, relevant = problem(seed)
    found = retrieval_scores(None, Q, X, relevant, k=(1, 3, 10), similarity=kind)
    assert list(found.queries) == list(range(10))
    for place, q in enumerate(found.queries):
        ranking = sorted(range(len(X)), key=lambda x: -similarity_of(Q[q], X[x], kind))
        grades = {x: g for a, x, g in relevant.tolist() if a == q and g > 0}
        for k in (1, 3, 10):
            for name, wanted in literal_scores(ranking, grades, k).items():
                assert found.per_query[f"{name}@{k}"][place] == pytest.approx(wanted, abs=1e-12)


def test_scores_are_those_of_trec_eval():
    import pytrec_eval

    Q, X, relevant = problem(7, 30, 200)
    k = 10
    found = retrieval_scores(None, Q, X, relevant, k=k, similarity="dot")
    qrels, run = {}, {}
    for q, x, grade in relevant.tolist():
        qrels.setdefault(str(q), {})[str(x)] = grade
    for q in found.queries:
        best = np.argsort(-(X @ Q[q]))[:k]
        run[str(q)] = {str(x): float(X[x] @ Q[q]) for x in best}
    names = {
        f"recall_{k}": "recall",
        f"P_{k}": "precision",
        f"success_{k}": "hit_rate",
        "recip_rank": "mrr",
        f"map_cut_{k}": "map",
        f"ndcg_cut_{k}": "ndcg",
    }
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(run)
    for their_name, name in names.items():
        wanted = [theirs[str(q)][their_name] for q in found.queries]
        assert found.per_query[f"{name}@{k}"] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("k", [1, 7, 100])
@pytest.mark.parametrize("by_distance", [False, True])
def test_search_in_blocks_finds_what_sorting_finds(monkeypatch, device, k, by_distance):
    monkeypatch.setattr(_search, "_QUERIES", 5)
    monkeypatch.setattr(_search, "_DOCUMENTS", 6)
    rng = np.random.default_rng(0)
    Q = rng.integers(-2, 3, size=(13, 3)).astype(float)  # small integers: many ties
    X = rng.integers(-2, 3, size=(31, 3)).astype(float)
    rows, scores = search(Q, X, k, by_distance=by_distance, device=device)
    S = Q @ X.T - (0.5 * np.sum(X * X, axis=1) if by_distance else 0.0)
    order = np.argsort(-S, axis=1, kind="stable")[:, :k]
    assert np.array_equal(rows, order)
    assert np.array_equal(scores, np.take_along_axis(S, order, axis=1))


@pytest.mark.parametrize("device", DEVICES)
def test_ties_among_whole_numbers_far_from_the_origin_go_to_the_earlier_row(device):
    rng = np.random.default_rng(0)
    Q, X = (rng.integers(3, size=(n, 4)).astype(np.float32) + 30_000 for n in (50, 300))
    wanted = np.sum((Q[:, None] - X) ** 2, axis=2).argsort(axis=1, kind="stable")[:, :20]
    assert np.array_equal(search(Q, X, 20, by_distance=True, device=device)[0], wanted)


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e5])
def test_distances_far_from_the_origin_are_those_near_it(offset):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(500, 16)) + offset).astype(np.float32)
    Q = X[:100] + np.float32(0.1) * rng.normal(size=(100, 16)).astype(np.float32)
    relevant = np.column_stack([np.arange(100), np.arange(100)])
    L = Euclidean().fit(X)
    L.components_ = rng.normal(size=(16, 16))
    identity = QueryAdapter(similarity="euclidean", anchor=1e6).fit(Q, X, relevant)
    identity.components_ = np.eye(16, dtype=np.float32)
    for model in (None, L, identity):
        found = retrieval_scores(model, Q, X, relevant, k=1, similarity="euclidean")
        assert found.base["recall@1"] > 0.95
        assert found.scores["recall@1"] > 0.9


def test_the_base_is_scored_beside_what_is_passed():
    Q, X, relevant = problem(1)
    swapped = Q[:, ::-1]
    found = retrieval_scores(swapped, Q, X, relevant)
    alone, base = (retrieval_scores(None, A, X, relevant) for A in (swapped, Q))
    assert found.scores == alone.scores
    assert found.base == base.scores
    for name in found.measures:
        assert found.difference[name] == pytest.approx(found.scores[name] - found.base[name])
        low, high = found.interval[name]
        assert low <= found.difference[name] <= high
    both = retrieval_scores((swapped, X), Q, X, relevant)
    assert both.scores == found.scores


def test_queries_that_lost_most_come_first():
    Q, X, relevant = problem(2)
    found = retrieval_scores(-Q, Q, X, relevant, k=(1, 10), n_lost=3)
    change = found.per_query["ndcg@10"] - found.base_per_query["ndcg@10"]
    assert [row for row, _, _ in found.lost] == list(found.queries[np.argsort(change)[:3]])
    assert all(ours < base for _, ours, base in found.lost)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    from mdaml.retrieval._scores import _bootstrap

    rng = np.random.RandomState(0)
    covered = 0
    for _ in range(200):
        low, high = _bootstrap(rng.normal(0.1, 1.0, size=(60, 1)), 300, rng)[:, 0]
        covered += low <= 0.1 <= high
    assert 178 <= covered <= 199  # of 200; 190 are expected


def test_a_metric_ranks_by_its_distance():
    Q, X, relevant = problem(3)
    found = retrieval_scores(Euclidean().fit(X), Q, X, relevant)
    assert found.scores == retrieval_scores(None, Q, X, relevant, similarity="euclidean").scores


def test_names_stand_for_rows():
    Q, X, relevant = problem(4)
    ids = [f"q{n}" for n in range(len(Q))], [f"d{n}" for n in range(len(X))]
    named = [(f"q{q}", f"d{x}", int(g)) for q, x, g in relevant]
    found = retrieval_scores(None, Q, X, named, ids=ids)
    assert found.scores == retrieval_scores(None, Q, X, relevant).scores


def test_of_a_repeated_pair_the_highest_grade_counts():
    pairs = read_relevance([[1, 0, 1], [0, 2, 1], [1, 0, 3]], None, 2, 3)
    assert pairs.queries.tolist() == [0, 1]
    assert pairs.documents.tolist() == [2, 0]
    assert pairs.grades.tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("relevant", "ids", "message"),
    [
        ([[0, 99]], None, "names row 99 of the documents, but there are 40"),
        ([[0, 1, 0]], None, "at least one pair with a grade above 0"),
        ([[0]], None, "must have a row"),
        ([[0, 1], [0, 1, 2]], None, "rows of 2 and 3 entries"),
        ([["a", "b"]], None, "by its row, an integer"),
        ([[0.5, 1.0]], None, "by its row, an integer"),
        ([[0, 1, np.nan]], None, "finite"),
        ([["a", "d0"]], (list("qrstuvwxyzAB"), [f"d{n}" for n in range(40)]), "not one of the ids"),
        ([["a", "d0"]], (["a", "a"], ["d0"]), "must name each of the 12 queries"),
        ([["a", "d0"]], "ab", "must be a pair"),
    ],
)
def test_wrong_pairs_are_refused(relevant, ids, message):
    Q, X, _ = problem(0)
    with pytest.raises((ValueError, TypeError), match=message):
        retrieval_scores(None, Q, X, relevant, ids=ids)


def test_wrong_arguments_are_refused():
    Q, X, relevant = problem(0)
    with pytest.raises(ValueError, match="k must be integers of at least 1"):
        retrieval_scores(None, Q, X, relevant, k=(0, 1))
    with pytest.raises(ValueError, match="same encoder"):
        retrieval_scores(None, Q[:, :2], X, relevant)
    with pytest.raises(ValueError, match="similarity must be one of"):
        retrieval_scores(None, Q, X, relevant, similarity="l2")
    with pytest.raises(ValueError, match="must have 12 and 40 rows"):
        retrieval_scores(Q[:3], Q, X, relevant)

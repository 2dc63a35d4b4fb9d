"""The adapter: its objective against loops and differences, its promises on data."""

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mdaml
from mdaml.retrieval import QueryAdapter, retrieval_scores
from mdaml.retrieval import _candidates as candidates
from mdaml.retrieval._candidates import collect, make_blocks
from mdaml.retrieval._objective import Anchored, Block, Rule, minimise, value_and_gradient
from mdaml.retrieval._relevance import read_relevance
from mdaml.retrieval._search import load_arrays

RULES = [
    Rule(3.0),
    Rule(2.0, by_distance=True),
    Rule(2.0, symmetric=True, by_distance=True),
    Rule(1.0, symmetric=True),
]
by_rule = pytest.mark.parametrize("rule", RULES, ids=str)


def block(seed=0, n=6, n_documents=11, d=4):
    rng = np.random.default_rng(seed)
    near = np.array([[0, 1], [0, 4], [1, 2], [2, 0], [3, 9], [4, 4], [5, 5], [5, 6], [5, 7]])
    weights = rng.uniform(0.1, 1.0, len(near))
    return Block(
        rng.normal(size=(n, d)),
        rng.normal(size=(n_documents, d)),
        (near[:, 0], near[:, 1]),
        weights / weights.sum(),
        (np.array([0, 3]), np.array([3, 8])),
    )


def literal_loss(W, block, rule):
    """The loss in loops."""
    documents = [W @ x if rule.symmetric else x for x in block.documents]

    def score(q, x):
        less = 0.5 * documents[x] @ documents[x] if rule.by_distance else 0.0
        return rule.scale * ((W @ block.queries[q]) @ documents[x] - less)

    near = list(zip(*(part.tolist() for part in block.near), strict=True))
    out = set(near) | set(zip(*(part.tolist() for part in block.banned), strict=True))
    total = 0.0
    for (q, x), weight in zip(near, block.weights, strict=True):
        far = [z for z in range(len(documents)) if (q, z) not in out]
        total += weight * math.log1p(sum(math.exp(score(q, z) - score(q, x)) for z in far))
    return total


@by_rule
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_that_of_loops(seed, rule):
    W = np.eye(4) + 0.3 * np.random.default_rng(seed + 9).normal(size=(4, 4))
    value, _ = value_and_gradient(W, [block(seed)], rule, np)
    assert value == pytest.approx(literal_loss(W, block(seed), rule), rel=1e-12)


def differences(function, point, step=1e-6):
    slopes = np.empty_like(point)
    for place in np.ndindex(point.shape):
        moved = point.copy()
        moved[place] += step
        above = function(moved)[0]
        moved[place] -= 2 * step
        slopes[place] = (above - function(moved)[0]) / (2 * step)
    return slopes


@by_rule
@pytest.mark.parametrize("rank", [None, 2])
def test_the_gradient_is_that_of_differences(rule, rank):
    rng = np.random.default_rng(3)
    identity = None if rank is None else np.eye(4)
    function = Anchored([block(1), block(2)], rule, 0.2, rng.normal(size=(4, 4)), identity, np)
    point = rng.normal(size=(4, 4) if rank is None else (8, rank))
    slopes = differences(function.evaluate, point)
    assert function.evaluate(point)[1] == pytest.approx(slopes, rel=1e-6, abs=1e-7)


@by_rule
def test_torch_computes_the_same(rule):
    import torch

    W, ours = np.eye(4) + 0.1, block()
    moved = Block(
        *(torch.as_tensor(part) for part in ours[:2]),
        tuple(torch.as_tensor(part) for part in ours.near),
        torch.as_tensor(ours.weights),
        tuple(torch.as_tensor(part) for part in ours.banned),
    )
    value, gradient = value_and_gradient(W, [ours], rule, np)
    same, its_gradient = value_and_gradient(torch.as_tensor(W), [moved], rule, torch)
    assert same == pytest.approx(value, rel=1e-12)
    assert its_gradient.numpy() == pytest.approx(gradient, rel=1e-10)


def test_the_objective_is_convex_where_only_queries_are_mapped():
    rng = np.random.default_rng(0)
    for rule in RULES[:2]:
        for _ in range(20):
            A, B = rng.normal(size=(2, 4, 4))
            ends = [value_and_gradient(W, [block()], rule, np)[0] for W in (A, B)]
            middle = value_and_gradient((A + B) / 2, [block()], rule, np)[0]
            assert middle <= np.mean(ends) + 1e-12


def test_the_solver_finds_the_minimum_and_never_rises():
    from scipy.optimize import minimize

    function = Anchored([block()], Rule(3.0), 0.05, np.eye(4), None, np)
    point, history = minimise(function.evaluate, np.eye(4), max_iter=200, tol=0.0)
    theirs = minimize(lambda p: function.evaluate(p.reshape(4, 4))[0], np.eye(4).ravel(), tol=1e-10)
    assert history[-1] == pytest.approx(theirs.fun, rel=1e-6)
    assert function.evaluate(point)[0] == history[-1]
    assert all(later <= earlier for earlier, later in pairwise(history))


def test_queries_that_all_documents_answer_do_no_harm():
    rows, columns = np.divmod(np.arange(6), 3)
    full = Block(
        np.ones((2, 2)),
        np.eye(3, 2),
        (rows, columns),
        np.full(6, 1 / 6),
        (np.empty(0, int), np.empty(0, int)),
    )
    value, gradient = value_and_gradient(np.eye(2), [full], Rule(1.0), np)
    assert value == pytest.approx(0.0, abs=1e-12)
    assert np.all(np.abs(gradient) < 1e-12)


def questions(seed=0, n=240, n_documents=300, d=12, noise=4):
    """Documents, and questions about one each: some features of a question mean nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_documents, d)).astype(np.float32)
    rows = rng.integers(n_documents, size=n)
    Q = X[rows] + 0.3 * rng.normal(size=(n, d)).astype(np.float32)
    Q[:, :noise] = 1.5 * rng.normal(size=(n, noise))
    return Q, X, np.column_stack([np.arange(n), rows])


SETTINGS = [
    {},
    {"rank": 4},
    {"similarity": "euclidean"},
    {"similarity": "dot"},
    {"symmetric": True},
    {"symmetric": True, "similarity": "dot", "rank": 6},
    pytest.param({"device": "cpu"}, marks=pytest.mark.needs("torch")),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_new_questions_find_more_than_before(settings):
    Q, X, relevant = questions(n=480)
    train, test = relevant[:160], relevant[160:]
    model = QueryAdapter(random_state=0, **settings).fit(Q, X, train)
    assert model.improved_
    assert all(later <= earlier for earlier, later in pairwise(model.history_))
    found = retrieval_scores(model, Q, X, test)
    assert found.interval["mrr@10"][0] > 0.05


@pytest.mark.needs("torch")
def test_torch_learns_the_same_map():
    Q, X, relevant = questions()
    ours, theirs = (
        QueryAdapter(anchor=0.03, tol=1e-6, device=device).fit(Q, X, relevant)
        for device in (None, "cpu")
    )
    assert theirs.components_ == pytest.approx(ours.components_, abs=2e-3)
    assert theirs.history_[-1] == pytest.approx(ours.history_[-1], rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_clicks_without_meaning_return_the_vectors_as_they_are(seed):
    rng = np.random.default_rng(seed)
    Q, X, _ = questions(seed)
    clicks = np.column_stack([np.arange(len(Q)), rng.integers(len(X), size=len(Q))])
    with pytest.warns(UserWarning, match="no map was better by more than chance"):
        model = QueryAdapter(random_state=0).fit(Q, X, clicks)
    assert not model.improved_
    assert np.array_equal(model.components_, np.eye(X.shape[1]))
    assert len(model.history_) == 0
    found = retrieval_scores(model, Q, X, clicks)
    assert found.scores == found.base


def test_vectors_that_need_no_map_are_returned_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    rows = np.arange(100)
    with pytest.warns(UserWarning, match="no map was better"):
        model = QueryAdapter(random_state=0).fit(
            X[rows] + 0.05 * rng.normal(size=(100, 8)), X, np.column_stack([rows, rows])
        )
    assert not model.improved_


def test_few_queries_are_too_few():
    Q, X, relevant = questions()
    with pytest.warns(UserWarning, match="only 5 different queries have relevant doc.*, too few"):
        QueryAdapter().fit(Q, X, relevant[:5])


def test_the_same_seed_gives_the_same_map():
    Q, X, relevant = questions()
    maps = [
        QueryAdapter(n_negatives=64, random_state=3).fit(Q, X, relevant).components_
        for _ in range(2)
    ]
    assert np.array_equal(*maps)


def test_sampled_documents_do_almost_as_well_as_all():
    Q, X, relevant = questions(n=400, n_documents=2000)
    train, test = relevant[:300], relevant[300:]
    scores = []
    for n_negatives in ("auto", 100):
        model = QueryAdapter(anchor=0.03, n_negatives=n_negatives, random_state=0).fit(Q, X, train)
        assert all(later <= earlier for earlier, later in pairwise(model.history_))
        scores.append(retrieval_scores(model, Q, X, test))
    everything, sampled = (found.scores["mrr@10"] for found in scores)
    assert sampled > scores[0].base["mrr@10"] + 0.8 * (everything - scores[0].base["mrr@10"])


def make_collection(Q, X):
    return collect(Q, X, load_arrays(None), by_distance=False)


@pytest.mark.parametrize("n_negatives", [60, 20])
def test_known_answers_and_their_copies_never_count_against_a_query(n_negatives):
    Q, X, relevant = questions(n=50, n_documents=60)
    X[:10] = X[50:]  # each of ten documents is there twice
    relevant = np.concatenate([relevant, [[0, 1], [0, 2], [1, 53]]])
    collection = make_collection(Q, X)
    pairs = read_relevance(relevant, None, len(Q), len(X))
    rng = np.random.default_rng(0)
    lessons = candidates.make_lessons(collection, pairs, rng)
    blocks = make_blocks(collection, lessons, n_negatives, np.eye(12, dtype=np.float32), rng)
    assert sum(len(part.queries) for part in blocks) == len(lessons.vectors)
    assert sum(part.weights.sum() for part in blocks) == pytest.approx(1.0, rel=1e-5)
    # Without these, no document of a block equals one that is relevant for the same query.
    for part in blocks:
        takes_part = np.ones((len(part.queries), len(part.documents)), bool)
        takes_part[part.near] = takes_part[part.banned] = False
        for row, column in zip(*part.near, strict=True):
            far = part.documents[takes_part[row]]
            assert np.abs(far - part.documents[column]).max(axis=1).min() > 1e-3


def test_documents_of_one_query_are_lessons_too_and_weigh_as_much():
    Q, X, _ = questions(n=3)
    pairs = read_relevance([[0, 5], [0, 9], [1, 9], [1, 7], [2, 1]], None, 3, len(X))
    lessons = candidates.make_lessons(make_collection(Q, X), pairs, np.random.default_rng(0))
    assert lessons.own.tolist() == [-1, -1, -1, 5, 7, 9]
    assert lessons.pairs.of(np.array([5])).documents.tolist() == [5, 7]
    of_queries = lessons.own[lessons.pairs.queries] < 0
    assert lessons.weights[of_queries].sum() == pytest.approx(0.5)


def test_a_warm_start_ends_at_the_same_map_in_fewer_steps():
    Q, X, relevant = questions()
    model = QueryAdapter(anchor=0.03, tol=1e-7, warm_start=True).fit(Q, X, relevant)
    first, n_iter = model.components_, model.n_iter_
    model.fit(Q, X, relevant)
    assert model.n_iter_ < n_iter / 2
    assert model.components_ == pytest.approx(first, abs=2e-3)


def test_a_log_that_grows_keeps_what_was_learned():
    Q, X, relevant = questions(n=600)
    model = QueryAdapter(random_state=0).partial_fit(Q[:200], X, relevant[:200])
    before = model.components_
    more = np.column_stack([np.arange(200), relevant[200:400, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the map of before may be best
        model.partial_fit(Q[200:400], X, more)
    test = relevant[400:]
    found = retrieval_scores(model, Q, X, test)
    first = retrieval_scores(Q @ before.T, Q, X, test)
    assert found.scores["mrr@10"] > first.scores["mrr@10"] - 0.02
    noise = np.column_stack([np.arange(200), np.random.default_rng(0).integers(300, size=200)])
    now = model.components_
    with pytest.warns(UserWarning, match="no map was better"):
        model.partial_fit(Q[:200], X, noise)
    assert np.array_equal(model.components_, now)


@pytest.mark.parametrize("settings", SETTINGS[:6], ids=str)
def test_inner_products_rank_as_the_model_does(settings):
    Q, X, relevant = questions()
    model = QueryAdapter(anchor=0.03, **settings).fit(Q, X, relevant)
    q, x = model.to_inner_product(Q, X)
    wanted = retrieval_scores(model, Q, X, relevant)
    found = retrieval_scores((q, x), Q, X, relevant, similarity="dot")
    assert found.scores == pytest.approx(wanted.scores, abs=1e-3)
    if settings.get("symmetric"):
        assert x[:, :12] == pytest.approx(
            X / (np.linalg.norm(X, axis=1)[:, None] if len(x[0]) > 12 else 1), abs=1e-5
        )


def test_a_symmetric_adapter_gives_the_distance_of_its_matrix():
    Q, X, relevant = questions()
    model = QueryAdapter(symmetric=True, similarity="euclidean", anchor=0.03).fit(Q, X, relevant)
    q, x = model.to_inner_product(Q[:4], X[:4])
    M = (model.components_.T @ model.components_).astype(float)
    gap = Q[:4].astype(float) - X[:4]
    wanted = np.einsum("ij,jk,ik->i", gap, M, gap)
    own = np.einsum("ij,jk,ik->i", Q[:4], M, Q[:4])
    assert own - 2 * np.einsum("ij,ij->i", q, x) == pytest.approx(wanted, rel=1e-4, abs=1e-3)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    Q, X, relevant = questions()
    model = QueryAdapter(random_state=0).fit(Q, X, relevant)
    model.save(tmp_path / "a.mdaml")
    again = mdaml.load(tmp_path / "a.mdaml")
    assert np.array_equal(again.transform_queries(Q), model.transform_queries(Q))
    assert again.held_out_ == model.held_out_
    assert repr(again) == repr(model)


@pytest.fixture(scope="module")
def exported():
    """A fitted model, queries, and what it maps them to."""
    Q, X, relevant = questions()
    model = QueryAdapter(similarity="dot", anchor=0.03).fit(Q, X, relevant)
    return model, Q, pytest.approx(model.transform_queries(Q), abs=1e-4)


def test_safetensors_reads_what_is_exported(exported, tmp_path):
    from safetensors.numpy import load_file

    model, _, _ = exported
    model.to_safetensors(tmp_path / "a.safetensors")
    weight = load_file(tmp_path / "a.safetensors")["linear.weight"]
    assert np.array_equal(weight, model.components_)


def test_torch_runs_what_is_exported(exported):
    import torch

    model, Q, wanted = exported
    assert model.to_torch()(torch.as_tensor(Q)).numpy() == wanted


@pytest.mark.needs("onnx")
def test_onnx_runs_what_is_exported(exported):
    import onnxruntime

    model, Q, wanted = exported
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    assert session.run(None, {"X": Q})[0] == wanted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the library at import
def test_sentence_transformers_reads_the_folder(tmp_path):
    import torch
    from sentence_transformers import models

    Q, X, relevant = questions()
    model = QueryAdapter(similarity="dot", anchor=0.03).fit(Q, X, relevant)
    model.to_sentence_transformers(tmp_path / "2_Dense")
    dense = models.Dense.load(str(tmp_path / "2_Dense"))
    mapped = dense({"sentence_embedding": torch.as_tensor(Q)})["sentence_embedding"]
    assert mapped.detach().numpy() == pytest.approx(model.transform_queries(Q), abs=1e-4)


def test_it_can_be_cloned_and_must_be_fitted():
    model = QueryAdapter(rank=3, anchor=0.1)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.transform_queries(np.eye(3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similarity": "l2"}, "similarity=...*must be one of"),
        ({"rank": 13}, "rank=...*between 1 and 12, the number of features"),
        ({"anchor": -1.0}, "anchor=...*at least 0"),
        ({"anchor": "strong"}, "anchor"),
        ({"n_negatives": 1}, "n_negatives=...*at least 4"),
        ({"device": "tpu"}, "device"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_wrong_parameters_are_refused(settings, message):
    Q, X, relevant = questions()
    with pytest.raises(
        (ValueError, TypeError), match=message.replace("...", r"\.\.\.\)").replace("*", ".*")
    ):
        QueryAdapter(**settings).fit(Q, X, relevant)


def test_a_failed_fit_changes_nothing():
    Q, X, relevant = questions()
    model = QueryAdapter(anchor=0.03).fit(Q, X, relevant)
    before = model.components_
    with pytest.raises(ValueError, match="same encoder"):
        model.fit(Q[:, :3], X, relevant)
    with pytest.raises(ValueError, match="features, but the map was fitted to 12"):
        model.partial_fit(Q[:, :3], X[:, :3], relevant)
    with pytest.raises(ValueError, match="features, but the map was fitted to 12"):
        model.transform_queries(Q[:, :3])
    assert model.components_ is before

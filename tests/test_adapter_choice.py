"""The frame in which an adapter is fitted, and the choice of its strength."""

import numpy as np
import pytest

from mdaml.retrieval import QueryAdapter
from mdaml.retrieval import _choice as choice
from mdaml.retrieval._candidates import collect, find_repeats
from mdaml.retrieval._choice import AdapterFit, AdapterPlan, choose_strength
from mdaml.retrieval._frame import Frame
from mdaml.retrieval._objective import Anchored, contrast, minimise, score_block
from mdaml.retrieval._relevance import read_relevance
from mdaml.retrieval._search import load_arrays


def classes(seed=0, n_classes=12, n=6, d=10):
    """Items of classes that differ in few features, as queries and documents of each other."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(n_classes), n)
    X = rng.normal(size=(len(label), d)).astype(np.float32)
    X[:, :4] += 0.8 * rng.normal(size=(n_classes, 4))[label]
    pairs = np.argwhere(label[:, None] == label)
    return X, pairs[pairs[:, 0] != pairs[:, 1]]


def make_fit(X, pairs, anchor=None, frame=None, by_distance=False):
    anchor = np.eye(X.shape[1], dtype=np.float32) if anchor is None else anchor
    collection = collect(X, X, load_arrays(None), by_distance)
    relevance = read_relevance(pairs, None, len(X), len(X))
    plan = AdapterPlan(anchor, None, False, "auto", 200)
    return AdapterFit(
        collection, relevance, plan, anchor, np.random.default_rng(0), frame
    ), relevance


@pytest.mark.parametrize("by_distance", [False, True])
@pytest.mark.parametrize("is_moved", [False, True])
def test_a_fit_in_a_frame_ends_at_the_minimum_in_fewer_steps(is_moved, by_distance):
    X, pairs = classes()
    rng = np.random.default_rng(1)
    X *= np.geomspace(0.2, 2.0, 10).astype(np.float32)
    anchor = np.eye(10, dtype=np.float32)
    if is_moved:
        anchor += 0.1 * rng.normal(size=(10, 10)).astype(np.float32)
    framed, _ = make_fit(X, pairs, anchor, by_distance=by_distance)
    plain, _ = make_fit(X, pairs, anchor, Frame(framed.frame.rule), by_distance)
    function = Anchored(plain._blocks, framed.frame.rule, 0.01, anchor, None, np)
    W, steps = minimise(function.evaluate, anchor, max_iter=500, tol=1e-7)
    history = framed.run(0.01, tol=1e-7)
    assert history[-1] == pytest.approx(steps[-1], rel=1e-4)
    assert function.evaluate(framed.map)[0] == pytest.approx(history[-1], rel=1e-4)
    assert framed.map == pytest.approx(W, abs=0.05)
    near = 1.001 * steps[-1]
    assert sum(value > near for value in history) < sum(value > near for value in steps)


def test_axes_without_vectors_are_left_out_and_the_map_stays_there():
    X, pairs = classes(d=10)
    X = np.concatenate([X, np.zeros((len(X), 5), np.float32)], axis=1)
    fit, _ = make_fit(X, pairs)
    assert fit.frame.curvature.shape == (10, 10)
    fit.run(0.01, tol=1e-3)
    assert fit.map[10:] == pytest.approx(np.eye(15)[10:], abs=1e-5)
    assert fit.map[:, 10:] == pytest.approx(np.eye(15)[:, 10:], abs=1e-5)


def test_the_scale_is_where_the_loss_of_the_vectors_is_smallest():
    X, pairs = classes()
    fit, _ = make_fit(X, pairs)
    plain, _ = make_fit(X, pairs, frame=Frame(fit.frame.rule._replace(scale=1.0)))
    (block,) = plain._blocks
    S = score_block(np.eye(10, dtype=np.float32), block, plain.frame.rule)[2]
    losses = [contrast(factor * S, block, np)[0] for factor in np.geomspace(0.01, 30, 2000)]
    best = np.geomspace(0.01, 30, 2000)[int(np.argmin(losses))]
    assert 1.5 * best == pytest.approx(fit.frame.rule.scale, rel=0.2)


def test_a_held_out_query_is_not_learned_from_as_a_document():
    X, pairs = classes()
    fit, relevance = make_fit(X, pairs)
    test = np.arange(0, len(X), 6)
    train = np.setdiff1d(np.arange(len(X)), test)
    fold = choice.QueryFold(fit, relevance, train, test, np.random.default_rng(0))
    lessons = fold._fit._lessons
    assert not np.isin(test, lessons.known).any()
    assert np.array_equal(np.unique(lessons.own), train)


def test_strengths_are_tried_until_one_does_not_beat_the_base(monkeypatch):
    X, pairs = classes()
    seen = []

    identity = np.eye(10, dtype=np.float32)
    measure = choice.SearchJudge.score

    def try_strength(fold, strength, tol):
        assert fold.can_learn
        assert tol == 1e-2
        seen.append(strength)
        return strength * identity

    def score(judge, maps):  # gains at 0.1 and 0.03, a loss from 0.01 on
        before = measure(judge, [identity] * len(maps))
        strength = maps[0][0, 0]
        if strength == 1.0:
            return before
        return before + 0.001 * np.arange(len(before)) + (0.1 if strength > 0.02 else -0.1)

    monkeypatch.setattr(choice.QueryFold, "try_strength", try_strength)
    monkeypatch.setattr(choice.SearchJudge, "score", score)
    fit, relevance = make_fit(X, pairs)
    held_out = choose_strength(fit, relevance, 1e-2, np.random.default_rng(0))
    assert sorted(set(seen), reverse=True) == [0.1, 0.03, 0.01] == held_out.strengths
    assert held_out.best == 0.03
    assert held_out.p_value < 0.05


@pytest.mark.parametrize("n", [12, 60, 180, 400, 3000])
def test_a_query_is_held_out_at_most_once_and_never_learned_from_meanwhile(n):
    rows = np.arange(n) * 2
    splits = choice._split(rows, np.random.default_rng(0))
    held_out = np.concatenate([test for _, test in splits])
    assert len(np.unique(held_out)) == len(held_out)
    assert len(held_out) == (n if n <= 1000 else n // 4)
    assert all(len(np.intersect1d(train, test)) == 0 for train, test in splits)


@pytest.mark.parametrize(("n", "n_folds"), [(60, 20), (400, 10), (1000, 10), (1001, 2)])
def test_small_logs_are_learned_from_but_for_a_tenth(n, n_folds):
    rows = 2 * np.arange(n)
    parts = choice._split(rows, np.random.default_rng(0), is_log=True)
    assert len(parts) == n_folds
    assert np.array_equal(np.sort(np.concatenate([test for _, test in parts])), rows)
    assert all(np.array_equal(np.union1d(*part), rows) for part in parts)


def test_classes_with_three_examples_are_enough():
    rng = np.random.default_rng(0)
    X, pairs = classes(n_classes=60, n=3, d=16)
    X[:, :4] *= 3
    X[:, 8:] += 4 * rng.normal(size=(len(X), 8))  # what has nothing to do with the class
    assert QueryAdapter(random_state=0).fit(X, X, pairs).improved_


def a_log(seed, n_distinct=30, n_repeats=20, n_documents=300, d=32):
    """Queries that are repeated, as in every log, and documents that belong to none of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_documents, d)).astype(np.float32)
    asked = rng.normal(size=(n_distinct, d)).astype(np.float32)
    clicked = rng.integers(n_documents, size=n_distinct)
    Q = np.repeat(asked, n_repeats, axis=0)
    return Q, X, np.column_stack([np.arange(len(Q)), np.repeat(clicked, n_repeats)])


@pytest.mark.filterwarnings("ignore:QueryAdapter returns the vectors as they are")
def test_a_log_of_repeated_queries_without_meaning_is_not_learned():
    improved = [QueryAdapter(random_state=0).fit(*a_log(seed)).improved_ for seed in range(20)]
    assert sum(improved) <= 3  # one in twenty is expected


def repeat(Q, pairs, similarity):
    """Each query four times: as it is, rounded, and longer where length does not matter."""
    half = Q.astype(np.float16).astype(np.float32) if similarity == "euclidean" else 3 * Q
    noise = 1e-6 * np.random.default_rng(0).normal(size=Q.shape).astype(np.float32)
    rows = np.concatenate([pairs + np.array([n * len(Q), 0]) for n in range(4)])
    return np.concatenate([Q, Q + noise, half, Q]), rows


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_repeating_every_query_changes_nothing(similarity):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12)).astype(np.float32)
    Q = X[:80].copy()
    Q[:, 8:] = 3 * rng.normal(size=(80, 4))
    pairs = np.column_stack([np.arange(80), np.arange(80)])
    once = QueryAdapter(similarity=similarity, random_state=0).fit(Q, X, pairs)
    Q, pairs = repeat(Q, pairs, similarity)
    often = QueryAdapter(similarity=similarity, random_state=0).fit(Q, X, pairs)
    assert once.improved_
    assert often.held_out_["n_queries"] == 80
    assert often.held_out_ == once.held_out_
    assert np.array_equal(often.components_, once.components_)


def test_other_answers_to_a_repeated_query_do_not_count_against_it():
    Q, _, _ = a_log(0, n_distinct=3, n_repeats=2)
    relevance = read_relevance([[0, 5], [1, 6], [2, 5], [3, 5], [4, 7]], None, 6, 300)
    joined = relevance.join(find_repeats(Q, by_length=False))
    assert joined.queries.tolist() == [0, 0, 2, 4]
    assert joined.documents.tolist() == [5, 6, 5, 7]
    assert joined.grades.tolist() == [1, 1, 2, 1]


def test_the_gain_is_that_of_the_chosen_strength_with_its_interval():
    X, pairs = classes(n_classes=40, d=16)
    X[:, 8:] *= 3
    model = QueryAdapter(random_state=0).fit(X, X, pairs)
    found = model.held_out_
    chosen = found["scores"][found["strengths"].index(model.strength_)]
    assert found["gain"] == pytest.approx(chosen - found["base"])
    low, high = found["interval"]
    assert 0 < low < found["gain"] < high
    wanted = f"nDCG@10 {found['base']:.4f} before, {chosen:.4f} after, change {found['gain']:+.4f}"
    assert wanted in model.summary()
    assert f"{low:+.4f} to {high:+.4f}" in model.summary()


def test_a_refusal_names_the_scores_likely_causes_and_what_to_try():
    with pytest.warns(UserWarning, match="Likely causes: too few different queries") as caught:
        model = QueryAdapter(random_state=0).fit(*a_log(0))
    (message,) = [str(warning.message) for warning in caught]
    assert "30 different held-out queries" in message
    assert all(part in message for part in ("before", "95 % interval", "anchor=0.1"))
    assert model.summary().startswith("No change of the queries.\n30 different")


def test_a_part_that_teaches_nothing_keeps_the_last_map_and_says_so():
    model = QueryAdapter(anchor=0.1, random_state=0).partial_fit(*a_log(0))
    learned = model.components_.copy()
    model.set_params(anchor="auto")
    with pytest.warns(UserWarning, match="QueryAdapter returns the vectors of the last map"):
        model.partial_fit(*a_log(0))
    assert np.array_equal(model.components_, learned)
    assert model.summary().startswith("The last map is kept.\n")

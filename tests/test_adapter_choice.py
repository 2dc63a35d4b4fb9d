"""The frame in which an adapter is fitted, and the choice of its strength."""

import numpy as np
import pytest

from mdaml.retrieval import QueryAdapter
from mdaml.retrieval import _choice as choice
from mdaml.retrieval._candidates import collect, find_duplicates
from mdaml.retrieval._choice import Fit, Plan, choose_strength
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


def make_fit(X, pairs, anchor=None, frame=None):
    anchor = np.eye(X.shape[1], dtype=np.float32) if anchor is None else anchor
    collection = collect(X, X, load_arrays(None), by_distance=False)
    relevance = read_relevance(pairs, None, len(X), len(X))
    plan = Plan(anchor, None, False, "auto", 200)
    return Fit(collection, relevance, plan, anchor, np.random.default_rng(0), frame), relevance


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_fit_in_a_frame_ends_at_the_minimum_in_fewer_steps(is_moved):
    X, pairs = classes()
    rng = np.random.default_rng(1)
    X *= np.geomspace(0.2, 2.0, 10).astype(np.float32)
    anchor = np.eye(10, dtype=np.float32)
    if is_moved:
        anchor += 0.1 * rng.normal(size=(10, 10)).astype(np.float32)
    framed, _ = make_fit(X, pairs, anchor)
    plain, _ = make_fit(X, pairs, anchor, Frame(framed.frame.rule))
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
    fold = choice._Fold(fit, relevance, train, test, np.random.default_rng(0))
    lessons = fold._fit._lessons
    assert not np.isin(test, lessons.known).any()
    assert np.array_equal(np.unique(lessons.own), train)


def test_strengths_are_tried_until_one_does_not_beat_the_base(monkeypatch):
    X, pairs = classes()
    seen = []

    def score(fold, strength, tol):  # gains at 0.1 and 0.03, a loss from 0.01 on
        seen.append(strength)
        fold._fit.run(0.1, tol=tol)
        before = fold.score(np.eye(10, dtype=np.float32))
        jitter = 0.001 * np.arange(len(before))
        return before + jitter + (0.1 if strength > 0.02 else -0.1)

    monkeypatch.setattr(choice._Fold, "try_strength", score)
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


def test_classes_with_three_examples_are_enough():
    rng = np.random.default_rng(0)
    X, pairs = classes(n_classes=60, n=3, d=16)
    X[:, :4] *= 3
    X[:, 8:] += 4 * rng.normal(size=(len(X), 8))  # what has nothing to do with the class
    assert QueryAdapter(random_state=0).fit(X, X, pairs).improved_


def test_copies_in_two_arrays_are_those_of_both_joined():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 200, 5)).astype(np.float32)
    Y[:50] = X[100:150]
    Y[60] = Y[70]
    assert np.array_equal(find_duplicates(X, Y), find_duplicates(np.concatenate([X, Y])))
    assert np.array_equal(find_duplicates(X, Y)[200:250], np.arange(100, 150))

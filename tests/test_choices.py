"""Choices do no harm: nothing is learned from nothing, and what can be learned is used.

Over the estimators that choose by what is held out. The rule itself: test_holdout_rule.py.
"""

import ast
import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sklearn.model_selection
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import mdaml
from mdaml import Constraints, Euclidean, LocalMDaML, MDaML, MDaMLCV
from mdaml.constraints.forms.answers import ANSWER
from mdaml.datasets import load_dataset, make_triplets
from mdaml.estimators.mdaml_folds import THE_START, folds_of_constraints
from mdaml.estimators.summary import describe_measured
from mdaml.holdout.rule import Gain
from mdaml.holdout.split import find_questions, hold_out_points
from mdaml.model_selection import ConstraintKFold, MetricSearchCV

TRUE = np.diag([2.0, 1.0, 0.3, 0.1, 0.1, 0.1])  # the metric of who answers


def fit_and_listen(model, *data, **supervision):
    """Return the fitted model and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, **supervision)
    return model, [str(warning.message) for warning in caught]


def warned(texts, begin):
    return any(text.startswith(begin) for text in texts)


@cache
def points(n=120, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def answers(n, seed=0, wrong=0.1):
    return make_triplets(points(), n_triplets=n, components=TRUE, wrong=wrong, random_state=seed)[0]


@cache
def unseen():
    """Return comparisons that nobody learns from, all right."""
    return answers(2000, seed=1, wrong=0.0)


def agreement(model):
    return model.score_triplets(points(), unseen())


@cache
def learned():
    return MDaML(random_state=0).fit(points(), triplets=answers(600))


# Nothing is learned from nothing.


def coin_flips(n, d, n_triplets, wrong, seed):
    """Return answers by Euclidean distance, about half of them wrong."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, make_triplets(X, n_triplets=n_triplets, wrong=wrong, random_state=seed)[0]


CASES = [(60, 10, 400, 0.5), (60, 10, 400, 0.45), (300, 20, 3000, 0.5), (300, 20, 3000, 0.45)]


def check_no_harm(make, case, seeds):
    """Let coin flips be learned from: before learning all that is true holds."""
    kept, heard, scores = 0, 0, []
    for seed in seeds:
        X, supervision = coin_flips(*case, seed)
        model, texts = fit_and_listen(make(), X, triplets=supervision)
        true, _ = make_triplets(X, n_triplets=500, random_state=1000 + seed)
        scores.append(model.score_triplets(X, true))
        heard += warned(texts, "Nothing was learned")
        kept += np.array_equal(model.components_, np.eye(X.shape[1]))
        assert kept == heard  # it is warned whenever the start comes back
    assert np.mean(scores) >= 0.98  # Euclidean distance has 1.0
    assert heard >= 0.9 * len(seeds)
    return kept


@pytest.mark.parametrize("case", CASES[:3])
def test_coin_flips_change_nothing(case):
    check_no_harm(MDaML, case, range(2))  # a hundred below


def test_coin_flips_change_nothing_in_a_search():
    check_no_harm(lambda: MDaMLCV(random_state=0), CASES[0], [0])  # a hundred below


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_coin_flips_change_nothing_in_95_of_100(case):
    kept = check_no_harm(MDaML, case, range(100))
    assert kept >= 95 or case[-1] < 0.5  # of 45 % wrong answers something may be learned


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[:2])
def test_coin_flips_change_nothing_in_searches(case):
    # Its test is at a level of 5 %: about 95, give or take 5.
    assert check_no_harm(lambda: MDaMLCV(random_state=0), case, range(100)) >= 90


def random_labels(seed, n=90, d=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(0, 3, n)


def test_random_labels_keep_the_start_more_often_than_not():
    """At the level for labels, 0.2: a gain declined costs more than a start that is as good."""
    kept = 0
    for seed in range(12):
        model, texts = fit_and_listen(MDaML(random_state=0), *random_labels(seed))
        assert model.start_kept_ == warned(texts, "Nothing was learned")
        assert model.gain_["is_beyond_chance"] is not model.start_kept_
        kept += model.start_kept_
    assert kept >= 6


# What can be learned is used.


def test_true_answers_are_used():
    euclidean = agreement(Euclidean().fit(points()))
    for model in (learned(), MDaMLCV(random_state=0).fit(points(), triplets=answers(600))):
        assert agreement(model) > 0.92 > 0.7 > euclidean
        gain = model.gain_
        assert gain["is_beyond_chance"]
        assert gain["before"] + 0.1 < gain["after"]
        assert 0.0 < gain["low"] < gain["after"] - gain["before"] < gain["high"]


@pytest.mark.parametrize("make", [MDaML, MDaMLCV])
def test_true_labels_are_used(make):
    """Two of six features tell three classes apart; the others are loud."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 60)
    X = rng.normal(size=(180, 6)) * [0.3, 0.3, 2, 2, 2, 2]
    X[:, :2] += np.array([[0, 0], [2, 0], [0, 2]])[y]
    train = rng.permutation(180) < 120
    model = make(random_state=0).fit(X[train], y[train])
    assert model.gain_["is_beyond_chance"]
    knn = KNeighborsClassifier(3)
    before = knn.fit(X[train], y[train]).score(X[~train], y[~train])
    after = knn.fit(model.transform(X[train]), y[train])
    assert after.score(model.transform(X[~train]), y[~train]) > before + 0.05


def classes_of_two(n_classes, seed, *, is_true=True):
    """Return two rows of each class, which differ along two of eight features; or random labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), 2)
    noise = rng.normal(size=(len(y), 8)) * np.repeat([1.5, 0.15], [2, 6])
    return rng.normal(size=(n_classes, 8))[y] + noise, y if is_true else rng.permutation(y)


@pytest.mark.parametrize("make", [MDaML, pytest.param(MDaMLCV, marks=pytest.mark.slow)])
def test_of_classes_of_two_rows_one_is_held_out(make):
    """No class has two rows to spare: without a test it would be learned from nothing."""
    model, _ = fit_and_listen(make(random_state=0), *classes_of_two(40, 0))
    assert model.gain_["is_beyond_chance"]
    X, y = classes_of_two(60, 1)
    hits = [mdaml.model_selection.hit_rate_at_k(m, X, y) for m in (Euclidean().fit(X), model)]
    assert hits[1] > hits[0] + 0.1
    kept = []
    for seed in range(2):
        given = classes_of_two(40, seed, is_true=False)
        model, texts = fit_and_listen(make(random_state=0), *given)
        assert model.start_kept_ == warned(texts, "Nothing was learned")
        kept.append(model.start_kept_)
    assert any(kept)


@pytest.mark.parametrize("make", [MDaML, MDaMLCV, LocalMDaML])
@pytest.mark.parametrize("y", [[0, 0, 1], [0, 0, 1, 1]])
def test_too_few_labels_to_hold_some_out_change_nothing(make, y):
    X = np.random.default_rng(0).normal(size=(len(y), 3))
    model, texts = fit_and_listen(make(random_state=0), X, y)
    assert model.start_kept_
    np.testing.assert_array_equal(model.transform(X), X)
    assert warned(texts, "Too little to learn from" if len(y) == 3 else "Nothing was learned")


# What is given twice says nothing new.


def assert_same_gain(one, other):
    for name, value in other.gain_.items():
        is_number = name not in ("score", "is_beyond_chance")
        assert one.gain_[name] == (pytest.approx(value) if is_number else value)


def test_comparisons_given_twice_change_nothing():
    supervision = answers(600)
    twice = MDaML(random_state=0).fit(points(), triplets=np.concatenate([supervision, supervision]))
    assert twice.anchor_ == learned().anchor_
    assert_same_gain(twice, learned())
    M = learned().get_mahalanobis_matrix()
    np.testing.assert_allclose(twice.get_mahalanobis_matrix(), M, atol=1e-6 * M.max())


def spread(supervision, n):
    """Return comparisons spread over two copies of each of n rows."""
    return supervision + n * np.random.default_rng(2).integers(0, 2, supervision.shape)


def test_copies_of_rows_are_held_out_together():
    X, supervision = points(), answers(600)
    copies = MDaML(random_state=0).fit(np.concatenate([X, X]), triplets=spread(supervision, len(X)))
    assert copies.anchor_ == learned().anchor_
    assert_same_gain(copies, learned())


def copy(X, n, rounding):
    """Rows n times, the copies of a row behind each other, and perhaps not quite equal."""
    copies = np.repeat(X, n, axis=0)
    return copies + rounding * np.random.default_rng(0).normal(size=copies.shape)


@pytest.mark.parametrize("rounding", [0.0, 1e-12, 1e-9])
def test_copies_of_rows_with_random_labels_teach_nothing(rounding):
    """Where a copy is learned from, held-out copies would seem to be predicted."""
    X, y = random_labels(0)
    model, _ = fit_and_listen(MDaML(random_state=0), copy(X, 3, rounding), np.repeat(y, 3))
    assert model.gain_["n_units"] == len(X)
    assert max(model.gain_["before"], model.gain_["after"]) < 0.5


@pytest.mark.parametrize("rounding", [0.0, 1e-12, 1e-9])
@pytest.mark.parametrize("seeds", [[0], pytest.param(range(1, 5), marks=pytest.mark.slow)])
def test_copies_of_rows_with_random_answers_teach_nothing(seeds, rounding):
    for seed in seeds:
        X, supervision = coin_flips(*CASES[0], seed)
        supervision = np.concatenate([2 * supervision + np.arange(3) % (n + 1) for n in range(2)])
        model, _ = fit_and_listen(MDaML(), copy(X, 2, rounding), triplets=supervision)
        assert model.start_kept_


def test_pairs_of_copies_are_one_unit():
    """What was asked of each copy of a point tells no more than what was asked of the point."""
    rng = np.random.default_rng(0)
    X, pairs = points()[:16], np.array([rng.choice(16, 2, replace=False) for _ in range(40)])
    labels = rng.choice([-1, 1], 40)
    copies = np.concatenate([pairs + 16 * n for n in range(4)])
    once, _ = fit_and_listen(MDaML(), X, pairs=pairs, pair_labels=labels)
    given = {"pairs": copies, "pair_labels": np.tile(labels, 4)}
    again, _ = fit_and_listen(MDaML(), np.tile(X, (4, 1)), **given)
    assert again.gain_["n_units"] == once.gain_["n_units"] <= len(X)


@pytest.mark.parametrize("has_answers", [True, False])
def test_the_two_triplets_of_an_odd_one_out_stay_together(has_answers):
    """(i, j, k) and (j, i, k): to know one is nearly to know the other."""
    first = answers(300)
    both = np.stack([first, first[:, [1, 0, 2]]], axis=1).reshape(-1, 3)
    columns = {ANSWER: np.repeat(np.arange(300), 2)} if has_answers else {}
    supervision = Constraints(triplets=both, n_points=120, columns=columns)
    questions = find_questions(supervision)
    assert np.array_equal(questions[::2], questions[1::2])

    def sides():
        rng = np.random.RandomState(0)
        for part in hold_out_points(supervision, 4, rng):
            yield part.learned, part.held_out
        for split in ConstraintKFold(4, random_state=0).split(supervision):
            yield split.train, split.test
        for fold in folds_of_constraints(points(), supervision, None, {}, "comparisons", rng):
            yield fold.supervision, None

    n = 0
    for known, held_out in sides():
        sets = [frozenset(row) for row in known.triplets.tolist()]
        assert all(sets.count(members) % 2 == 0 for members in set(sets[:40]))
        if held_out is not None:
            assert not set(sets) & {frozenset(row) for row in held_out.triplets.tolist()}
        n += 1
    assert n == 4 + 4 + 3


# Near and far swapped.


SWAPPED = "Are near and far swapped?"


@pytest.mark.parametrize("make", [MDaML, MDaMLCV, lambda: MDaML(anchor=0.1)])
@pytest.mark.parametrize("wrong", [0.0, 0.2])
def test_swapped_columns_are_always_asked_about(make, wrong):
    """Of right answers 86 % hold before learning."""
    true = np.diag([1.8, 1.3, 1.0, 1.0, 0.7, 0.5])
    for seed in range(2 if make is not MDaMLCV else 1):
        supervision, _ = make_triplets(
            points(), n_triplets=400, components=true, wrong=wrong, random_state=seed
        )
        model, texts = fit_and_listen(make(), points(), triplets=supervision[:, [0, 2, 1]])
        assert any(SWAPPED in text for text in texts)
        if type(model) is MDaML and model.start_kept_ and model.gain_["low"] > 0.0:
            assert "The test did not pass what was learned" in model.summary()


@pytest.mark.parametrize(
    "make",
    [MDaML, MDaMLCV, LocalMDaML, lambda: MetricSearchCV(MDaML(), {"anchor": [0.003, 0.1]}, cv=2)],
)
@pytest.mark.parametrize("case", [(60, 10, 400), (150, 8, 1200)])
def test_swapped_columns_teach_nothing(make, case):
    """Metrics that explain some of them lead a start of which most are the contrary."""
    n, d, n_triplets = case
    X = np.random.default_rng(1).normal(size=(n, d))
    true = np.diag(np.linspace(1.0, 0.4, d))
    supervision, _ = make_triplets(X, n_triplets=n_triplets, components=true, random_state=1)
    model, texts = fit_and_listen(make(), X, triplets=supervision[:, [0, 2, 1]])
    assert model.start_kept_
    assert any(SWAPPED in text for text in texts)
    assert not any("more than chance. Held-out" in text for text in texts)  # it led, the wrong way


def test_swapped_columns_of_which_a_part_is_wrong_teach_nothing():
    """Between 40 and 50 % hold before learning, and a metric explains a few more."""
    X = np.random.default_rng(7110).normal(size=(120, 6))
    true = np.diag([1.8, 1.3, 1.0, 1.0, 0.7, 0.5])
    supervision, _ = make_triplets(X, n_triplets=400, components=true, wrong=0.3, random_state=7110)
    model, texts = fit_and_listen(MDaML(), X, triplets=supervision[:, [0, 2, 1]])
    assert 0.4 < model.gain_["before"] < 0.5
    assert model.gain_["low"] > 0.0
    assert model.start_kept_
    assert any(SWAPPED in text for text in texts)
    assert warned(texts, "Nothing was learned: only")


def answers_about(true, n, seed, wrong):
    made = make_triplets(points(), n_triplets=n, components=true, wrong=wrong, random_state=seed)
    return made[0]


def near_ties(true, n, seed, wrong):
    """Return true comparisons of which Euclidean distance has hardly an idea."""
    T = answers_about(true, 12 * n, seed, 0.0)
    near, far = (np.sum((points()[T[:, 0]] - points()[T[:, k]]) ** 2, axis=1) for k in (1, 2))
    rng = np.random.default_rng(seed)
    T = rng.permutation(T[np.argsort(np.abs(far - near))[:n]])
    is_wrong = rng.random(n) < wrong
    return np.where(is_wrong[:, None], T[:, [0, 2, 1]], T)


WEAK = np.diag([3.0, 0.3, 0.1, 0.1, 0.05, 0.05])  # Euclidean distance gets 63 % right


def count_asked(draw, seeds, make=MDaML):
    """Return how often swapped columns are asked about, and how often right ones."""
    asked = np.zeros(2, int)
    for seed in seeds:
        supervision = draw(seed)
        for place, order in enumerate(([0, 2, 1], [0, 1, 2])):
            _, texts = fit_and_listen(make(), points(), triplets=supervision[:, order])
            asked[place] += any(SWAPPED in text for text in texts)
    return asked.tolist()


@pytest.mark.parametrize("make", [MDaML, lambda: MDaML(anchor=0.1)])
def test_swapped_columns_with_a_weak_start_and_wrong_answers_are_asked_about(make):
    """About 41 to 45 % hold before learning: the share alone does not tell."""
    for wrong in (0.2, 0.3):
        draw = lambda seed, w=wrong: answers_about(WEAK, 400, seed, w)  # noqa: E731
        assert count_asked(draw, [0], make) == [1, 0]  # fifty below


def test_a_search_asks_about_swapped_columns_with_a_weak_start():
    supervision = answers_about(WEAK, 400, 0, 0.2)
    _, texts = fit_and_listen(MDaMLCV(random_state=0), points(), triplets=supervision[:, [0, 2, 1]])
    assert any(SWAPPED in text for text in texts)


def test_near_ties_that_are_right_are_not_asked_about():
    """About half of them hold before learning, and so do those that are swapped."""
    for wrong, n in ((0.1, 2), (0.3, 1)):
        asked, by_mistake = count_asked(
            lambda seed, w=wrong: near_ties(WEAK, 400, seed, w), range(n)
        )
        assert by_mistake == 0
        assert asked >= 1 or wrong > 0.1


@pytest.mark.slow
def test_swapped_columns_are_asked_about_in_all_of_fifty_cases_and_right_ones_in_none():
    for n, wrong, least in ((400, 0.0, 50), (400, 0.2, 50), (400, 0.3, 50), (150, 0.2, 46)):
        draw = lambda seed, n=n, w=wrong: answers_about(WEAK, n, seed, w)  # noqa: E731
        asked, by_mistake = count_asked(draw, range(50))
        assert asked >= least
        assert by_mistake == 0
    assert count_asked(lambda seed: near_ties(WEAK, 400, seed, 0.3), range(50))[1] == 0
    asked, by_mistake = count_asked(lambda seed: near_ties(WEAK, 400, seed, 0.1), range(4))
    assert asked >= 2
    assert by_mistake == 0


def test_right_columns_and_coin_flips_are_not_asked_about():
    for seed in range(2):
        X, flips = coin_flips(*CASES[0], seed)
        texts = fit_and_listen(MDaML(), points(), triplets=answers(400, seed))[1]
        texts += fit_and_listen(MDaML(), X, triplets=flips)[1]
        assert not any(SWAPPED in text for text in texts)


# Chunks agree with one fit.


def in_chunks(chunks):
    model, anchors = MDaML(random_state=0), []
    for chunk in chunks:
        with warnings.catch_warnings():
            # Of a first chunk with many wrong answers nothing may be learned.
            warnings.filterwarnings("ignore", "Nothing was learned")
            model.partial_fit(points(), triplets=chunk)
        anchors.append(model.anchor_)
    return model, anchors


def test_chunks_of_two_do_not_make_a_model_forget():
    supervision = answers(330, seed=3)
    model, anchors = in_chunks([supervision[:300], *supervision[300:].reshape(-1, 2, 3)])
    one = MDaML(random_state=0).fit(points(), triplets=supervision)
    assert set(anchors) == {one.anchor_}
    assert agreement(model) >= agreement(one) - 0.02


@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.3])
def test_five_chunks_agree_with_one_fit(wrong):
    supervision = answers(1000, seed=4, wrong=wrong)
    one = MDaML(random_state=0).fit(points(), triplets=supervision)
    model, anchors = in_chunks(np.array_split(supervision, 5))
    assert agreement(model) >= agreement(one) - 0.02
    assert max(anchors) <= 50 * one.anchor_


@pytest.mark.parametrize("make", [MDaML, LocalMDaML])
def test_a_choice_from_a_few_labels_is_made_anew_with_more(make):
    """The start that four rows kept would stay for ever, and the gain be that of four rows."""
    X, y = load_dataset("vehicle", return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:400]
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    model, _ = fit_and_listen(make(random_state=0), X, y)
    chunked = make(random_state=0)
    for rows in np.split(np.arange(400), [10, 60, 200]):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Nothing was learned|Too little")
            chunked.partial_fit(X[rows], y[rows])
    assert not model.start_kept_
    assert not chunked.start_kept_
    assert chunked.gain_["n_units"] == 400


def test_weights_compare_chunks_as_they_do_in_one_fit():
    """Many coin flips that hardly count, then a few answers that do."""
    X, flips = points(), coin_flips(120, 6, 300, 0.5, 0)[1]
    parts = [(flips, 0.05), (answers(150, wrong=0.0), 1.0)]
    weights = np.concatenate([np.full(len(supervision), weight) for supervision, weight in parts])
    supervision = np.concatenate([supervision for supervision, _ in parts])
    one, _ = fit_and_listen(
        MDaML(random_state=0), X, triplets=supervision, constraint_weight=weights
    )
    model = MDaML(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing is learned from the first
        for part, weight in parts:
            model.partial_fit(X, triplets=part, constraint_weight=np.full(len(part), weight))
    assert agreement(model) >= agreement(one) - 0.01


@pytest.mark.parametrize("n_points", [6, 40])
def test_the_order_of_comparisons_changes_no_choice(n_points):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_points, 4))
    supervision, _ = make_triplets(
        X, n_triplets=40, wrong=0.1, components=TRUE[:4, :4], random_state=0
    )
    supervision = np.concatenate(
        [supervision, supervision[:20, [1, 0, 2]]]
    )  # the same question about another point
    models = [
        fit_and_listen(MDaML(random_state=0), X, triplets=part)[0]
        for part in (supervision, supervision[rng.permutation(60)])
    ]
    assert models[0].gain_["n_units"] == models[1].gain_["n_units"]
    assert models[0].gain_["before"] == pytest.approx(models[1].gain_["before"])
    assert models[0].gain_["scores"] == pytest.approx(models[1].gain_["scores"])
    assert models[0].anchor_ == models[1].anchor_


def test_a_start_that_is_kept_in_a_later_chunk_is_warned_of():
    X, supervision = coin_flips(60, 10, 400, 0.5, 0)
    model = MDaML(random_state=0)
    for part in np.split(supervision, 2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.partial_fit(X, triplets=part)
        assert model.start_kept_
        assert warned([str(each.message) for each in caught], "Nothing was learned")


def test_chunks_are_never_worse_than_the_start_that_is_nearly_right():
    """The anchor that was chosen is not forgotten, nor replaced by the weakest."""
    true = np.diag([1.0, 1.0, 1.0, 1.0, 1.0, 0.5])
    made = [
        make_triplets(points(), n_triplets=600, components=true, wrong=0.2, random_state=seed)[0]
        for seed in range(2)
    ]
    fresh, _ = make_triplets(points(), n_triplets=2000, components=true, random_state=9)
    model, scores = MDaML(random_state=0), []
    for chunk in np.concatenate([made[0], made[1][:100]]).reshape(7, 100, 3):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Nothing was learned")  # of few answers
            model.partial_fit(points(), triplets=chunk)
        scores.append(model.score_triplets(points(), fresh))
    one, _ = fit_and_listen(MDaML(random_state=0), points(), triplets=np.concatenate(made)[:700])
    assert scores[-1] >= one.score_triplets(points(), fresh) - 0.02
    assert min(scores) >= Euclidean().fit(points()).score_triplets(points(), fresh) - 0.02


@pytest.mark.parametrize("n_chunks", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_chunks_of_coin_flips_change_nothing(n_chunks):
    X, supervision = coin_flips(*CASES[0], 0)
    model = MDaML(random_state=0)
    for chunk in supervision.reshape(n_chunks, -1, 3):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Nothing was learned")
            model.partial_fit(X, triplets=chunk)
        np.testing.assert_array_equal(model.components_, np.eye(10))


# A search that leaves candidates out early scores the others as one that does not.


@pytest.mark.parametrize(
    ("grid", "fixed"),
    [
        ({"anchor": ["auto", 0.01, 0.1, 1.0, 10.0]}, {}),
        ({"shrinkage": [0.0, 0.2, 0.4, 0.6, 0.8]}, {"anchor": 0.01}),
    ],
)
def test_finished_candidates_have_the_scores_of_whole_fits(grid, fixed):
    def search(warm_start):
        model = MetricSearchCV(
            MDaML(**fixed), grid, cv=3, warm_start=warm_start, random_state=0, refit=False
        )
        return model.fit(points(), triplets=answers(300)).cv_results_

    staged, whole = search(True), search(False)
    finished = staged["finished"]
    assert finished.sum() == 3
    for n in range(3):
        name = f"split{n}_test_score"
        np.testing.assert_array_equal(staged[name][finished], whole[name][finished])


# The start comes back bit for bit.


def test_the_start_comes_back_bit_for_bit():
    """On binary features many distances are equal: a rotated copy would break ties otherwise."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(120, 6)).astype(float)
    y = rng.integers(0, 2, 120)
    start = Euclidean().fit(X)
    near, _ = make_triplets(X, n_triplets=300, random_state=0)  # by Euclidean distance
    kept = [
        fit_and_listen(MDaML(random_state=0), X, triplets=near)[0],
        fit_and_listen(MDaMLCV(random_state=0), X, triplets=near)[0],
        MDaML(**THE_START).fit(X, y),
        MDaML(**THE_START).fit(X, triplets=near),
    ]
    plain = KNeighborsClassifier(3).fit(X, y).predict(X)
    for model in kept:
        np.testing.assert_array_equal(model.components_, start.components_)
        assert model.n_iter_ == 1  # in which nothing moved
        assert np.ptp(model.history_) == 0.0
        mapped = model.transform(X)
        np.testing.assert_array_equal(mapped, X)
        knn = KNeighborsClassifier(3).fit(mapped, y)
        np.testing.assert_array_equal(knn.predict(mapped), plain)
    assert kept[0].start_kept_


def test_a_start_that_was_given_comes_back():
    X, supervision = coin_flips(*CASES[0], 0)
    M = np.diag(np.arange(1.0, 11.0))
    model, texts = fit_and_listen(MDaML(init_metric=M), X, triplets=supervision)
    assert model.start_kept_
    assert warned(texts, "Nothing was learned")
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), M, rtol=1e-12)


# No scale wins.


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_unit_of_the_features_does_not_change_what_is_chosen(scale):
    # The ridge, which pulls the metric to zero, is not free of units.
    plain, scaled = (
        MDaML(ridge=0.0, random_state=0).fit(unit * points(), triplets=answers(600))
        for unit in (1.0, scale)
    )
    assert (scaled.anchor_, scaled.start_kept_) == (plain.anchor_, plain.start_kept_)
    assert_same_gain(scaled, plain)
    X, supervision = coin_flips(*CASES[0], 0)
    assert fit_and_listen(MDaML(), scale * X, triplets=supervision)[0].start_kept_


# What cannot be fitted is left out.


def test_starts_of_other_methods_that_fail_are_left_out():
    """Binary features, of which two are the class: LFDA and DMLMJ cannot learn from them."""
    y = np.repeat([0, 1], 40)
    X = np.random.default_rng(1).integers(0, 2, size=(80, 4)).astype(float)
    X[:, 0], X[:, 1] = y, 1 - y
    model, _ = fit_and_listen(MDaMLCV(random_state=0), X, y)
    assert np.all(np.isfinite(model.components_))
    tried = model.cv_results_["params"]
    assert THE_START in tried
    assert {params["start"] for params in tried if "start" in params} == {"GMML"}


def test_a_search_for_neighbours_by_several_persons():
    """Answers follow groups: the search learns from these, and persons are weighed by answers."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 20)
    X = rng.normal(size=(80, 4)) + 2.0 * rng.normal(size=(4, 4))[y]
    supervision, _ = make_triplets(X, y, n_triplets=800, random_state=0)
    who = rng.choice(["ann", "bob", "eve"], 800)
    model, _ = fit_and_listen(
        MDaMLCV(goal="neighbors", random_state=0), X, triplets=supervision, who=who
    )
    assert model.components_.shape == (4, 4)
    euclidean = Euclidean().fit(X).score_triplets(X, supervision)
    assert model.score_triplets(X, supervision) >= euclidean - 0.02


# Every choice goes through the rule.


RULE = {"find_leaders", "walk_from_start"}  # its two forms
# By name: not all can be imported where optional packages are missing.
CHOICES = {
    "the anchor": "mdaml.holdout.anchor.choose_anchor",
    "the shrinkage": "mdaml.holdout.samples.choose_shrinkage",
    "candidates of MDaMLCV": "mdaml.estimators.mdaml_cv.search",
    "the strength of an adapter": "mdaml.retrieval._choice.choose_strength",
    "candidates of MetricSearchCV": "mdaml.model_selection._start.compare_with_start",
    "kinds of people": "mdaml.people._choice.choose_size",
    "whether there are places": "mdaml.holdout.places.choose_candidate",
    "whether labels get places": "mdaml.holdout.places.choose_by_votes",
    "whether a model of mdaml ask leads": "mdaml.ask.owner.describe_learning",
}
# Others, and why they do not go through it.
EXCEPTIONS = {
    "mdaml.estimators.rank.best_rank": "the number of components of published baselines, as they "
    "were published",
    "mdaml.people._counting.count_kinds": "a test of its own, on simulated answers of one kind; "
    "the choice of kinds refuses what held-out answers speak against",
    "mdaml.ask.fitting.choose_anchor": "how to learn from few open questions, which tell nothing "
    "of each other; what was learned is judged by held-out questions",
}


def tree_of(module):
    path = Path(mdaml.__file__).parent.joinpath(*module.split(".")[1:])
    return ast.parse(path.with_suffix(".py").read_text(encoding="utf-8"))


def calls(name):
    """Return the names that the module of a function calls, from the function on."""
    module, _, function = name.rpartition(".")
    bodies = {n.name: n for n in ast.walk(tree_of(module)) if isinstance(n, ast.FunctionDef)}
    found, left = set(), [function]
    while left:
        for node in ast.walk(bodies[left.pop()]):
            name = ast.unparse(node.func).split(".")[-1] if isinstance(node, ast.Call) else ""
            if name and name not in found:
                found.add(name)
                left += [name] if name in bodies else []
    return found


@pytest.mark.parametrize("what", CHOICES)
def test_every_choice_goes_through_the_rule(what):
    assert RULE & calls(CHOICES[what])


# Every function that is named for a choice among candidates, beside those above, and what it does.
OTHERS = {
    "mdaml.ask.questions._choose_source": "draws the kind of the next question",
    "mdaml.cli._inputs.choose_columns": "reads a table",
    "mdaml.cli._models.choose_supervision": "reads a table",
    "mdaml.cli._models._pick_metric": "that of a person or a kind, who is named",
    "mdaml.cli.score._choose_measures": "what to print",
    "mdaml.constraints.forms.picks._pick_weights": "of the form of answers called picks",
    "mdaml.constraints.value.select": "rows that are named",
    "mdaml.cli.search._choose_grids": "candidates for MetricSearchCV",
    "mdaml.constraints.forms.layout.choose_layout": "reads a table",
    "mdaml.estimators.chunks.choose": "keeps a choice, or calls that of the anchor anew",
    "mdaml.estimators.local_rounds.choose": "calls that of the places",
    "mdaml.estimators.mdaml_cv._choose": "called by the search of MDaMLCV",
    "mdaml.estimators.posing.choose": "calls that of the anchor or of the shrinkage",
    "mdaml.estimators.posing.choose_row": "the row of the table of presets, by what was passed",
    "mdaml.inspection._answers._best_threshold": "of distances, for a report",
    "mdaml.inspection.calibration.best_f": "of thresholds, for a report",
    "mdaml.holdout.comparisons.select": "comparisons that are named",
    "mdaml.holdout.rule.prefer_first": "among those that lead the start",
    "mdaml.io.columns.choose_columns": "reads a table",
    "mdaml.io.columns.select": "rows that are named",
    "mdaml.people._choice._best_leader": "called by the choice of kinds",
    "mdaml.people._mixture.best_scale": "a line search",
    "mdaml.retrieval._candidates.choose_n_negatives": "by the size of the data",
    "mdaml.retrieval._scores._choose_similarities": "by what the model says",
    "mdaml.model_selection._ground._choose": "calls that of the anchor or of the shrinkage",
    "mdaml.model_selection._search._best": "what MetricSearchCV found",
    "mdaml.solver.start._best_multiple": "a line search",
    "mdaml.solver.start.best_step": "a line search",
}


CHOOSES = re.compile("_?(choose|best|count_kinds|decide|pick|prefer|select)(_|$)")


def test_every_function_that_chooses_is_in_a_list():
    """A new choice is either made by the rule, or it says why not."""
    assert all(calls(name) for name in EXCEPTIONS)  # they exist
    listed = {*CHOICES.values(), *EXCEPTIONS, *OTHERS}
    root, found = Path(mdaml.__file__).parent, set()
    for path in root.rglob("*.py"):
        module = ".".join(["mdaml", *path.relative_to(root).with_suffix("").parts])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and CHOOSES.match(node.name):
                found.add(f"{module}.{node.name}")
    assert found >= {"mdaml.holdout.anchor.choose_anchor", "mdaml.people._choice.choose_size"}
    assert sorted(found - listed) == []


OURS = {"deal", "deal_samples", "hold_out_points", "hold_out_samples", "nested_votes"}
THEIRS = {*sklearn.model_selection.__all__} - {"ParameterGrid"}
SPLITS = {*OURS, *THEIRS, "ConstraintKFold", "PointKFold"}
# Who else holds something out, to report a score or to judge labels or persons, and chooses
# nothing by it.
REPORTS = {
    "mdaml.cli.demo",
    "mdaml.cli.fit",
    "mdaml.experiments.splits",
    "mdaml.experiments.toy_figure",
    "mdaml.inspection._crossfit",
    "mdaml.people.judging",
}


def test_nothing_else_is_held_out():
    """Whoever calls what splits is in one of the lists above."""
    known = {name.rpartition(".")[0] for name in (*CHOICES.values(), *EXCEPTIONS)}
    known |= {"mdaml.estimators.mdaml_folds", "mdaml.model_selection._search", "mdaml.cli.search"}
    known |= {"mdaml.holdout.split", "mdaml.model_selection._split", *REPORTS}
    root, found = Path(mdaml.__file__).parent, set()
    for path in root.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = [ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)]
        if SPLITS & {name.rpartition(".")[2] for name in called}:
            found.add(".".join(["mdaml", *path.relative_to(root).with_suffix("").parts]))
    assert found >= {"mdaml.holdout.anchor", "mdaml.holdout.samples"}
    assert found <= known


@pytest.mark.parametrize(
    ("low", "is_beyond_chance", "supervision"),
    [
        (0.01, True, "This is more than chance."),
        (-0.01, False, "This is no more than chance."),
        (
            -0.01,
            True,
            "more than chance by the test that decides, although the interval contains 0.",
        ),
        (
            0.01,
            False,
            "no more than chance by the test that decides, although the interval is above",
        ),
    ],
)
def test_an_interval_that_seems_to_contradict_the_test_is_explained(
    low, is_beyond_chance, supervision
):
    gain = Gain("votes", 0.7, 0.75, low, 0.09, 64, is_beyond_chance)
    assert supervision in describe_measured(gain)

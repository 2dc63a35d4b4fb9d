"""Points by name, and other ways in which people pass what they have."""

import numpy as np
import pandas
import pytest

from mdaml import Constraints, Euclidean, MDaML, audit, suggest_queries
from mdaml.constraints import sample_triplets
from mdaml.constraints.forms.answers import number_groups
from mdaml.constraints.persons import Persons
from mdaml.datasets import make_multimodal, make_triplets, make_waveform
from mdaml.estimators import DMLMJ, GMML, LFDA, DMLeig
from mdaml.model_selection import ConstraintKFold, MetricSearchCV, triplet_accuracy


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    names = [f"item {n:02}" for n in rng.permutation(40)]
    return pandas.DataFrame(rng.normal(size=(40, 3)), index=names, columns=["x", "y", "z"])


@pytest.fixture
def triplets(frame):
    return make_triplets(
        frame.to_numpy(), n_triplets=200, components=np.eye(3)[:1], random_state=0
    )[0]


def named(frame, rows):
    return pandas.DataFrame(frame.index.to_numpy()[rows])


def test_names_in_the_index_of_x_are_the_same_as_rows(frame, triplets):
    rows = MDaML(random_state=0).fit(frame, triplets=triplets)
    names = MDaML(random_state=0).fit(frame, triplets=named(frame, triplets))
    np.testing.assert_array_equal(rows.components_, names.components_)
    for held, few in (("triplets", triplets[:9]), ("quadruplets", triplets[:9][:, [0, 1, 2, 0]])):
        score = getattr(rows, f"score_{held}")
        assert score(frame, few) == score(frame, named(frame, few))
    labels = np.tile([True, False], 20)
    pairs = triplets[:40, :2]
    by_rows = GMML().fit(frame, pairs=pairs, pair_labels=np.where(labels, 1, -1))
    by_names = GMML().fit(frame, pairs=named(frame, pairs), pair_labels=labels)
    np.testing.assert_array_equal(by_rows.components_, by_names.components_)


def test_constraints_take_names_and_are_matched_by_them(frame, triplets):
    ids = frame.index.tolist()
    supervision = Constraints(triplets=named(frame, triplets), ids=ids)
    np.testing.assert_array_equal(supervision.triplets, triplets)
    other = frame.iloc[::-1]
    one, two = (
        MDaML(n_modes=1, random_state=0).fit(X, constraints=supervision) for X in (frame, other)
    )
    # In another order of rows sums are rounded differently, and every step passes that on.
    np.testing.assert_allclose(one.components_, two.components_, atol=1e-5)
    assert triplet_accuracy(one, frame, supervision) == triplet_accuracy(one, other, supervision)
    found = MetricSearchCV(MDaML(n_modes=1), {"eta": [2.0]}, cv=2, random_state=0)
    assert found.fit(other, constraints=supervision).best_score_ > 0.5
    with pytest.raises(ValueError, match=r"constraints name \d+ points that are not in the index"):
        MDaML().fit(frame.iloc[:20], constraints=supervision)
    part = supervision.restrict(np.arange(20))
    assert MDaML(1, anchor=0.1).fit(frame.iloc[:25], constraints=part).n_features_in_ == 3


def test_audit_and_queries_answer_in_names(frame, triplets):
    model = MDaML(random_state=0).fit(frame, triplets=triplets)
    numbered = frame.reset_index(drop=True)
    rows = audit(model, numbered, triplets=triplets)
    names = audit(model, frame, triplets=named(frame, triplets))
    for member in "abc":
        assert names[member].tolist() == frame.index[rows[member]].tolist()
    assert rows.drop(columns=list("abc")).equals(names.drop(columns=list("abc")))
    queries = suggest_queries(model, frame, 5, random_state=0)
    assert queries.shape == (5, 3)
    assert set(queries.ravel()) <= set(frame.index)
    by_ids = suggest_queries(
        model, numbered, 5, ids=frame.index, asked=named(frame, triplets), random_state=0
    )
    np.testing.assert_array_equal(queries, by_ids)
    chosen = suggest_queries(model, frame, 2, candidates=queries, random_state=0)
    assert {tuple(sorted(row)) for row in chosen} <= {tuple(sorted(row)) for row in queries}


def test_a_wrong_name_is_named_with_what_was_meant(frame):
    with pytest.raises(ValueError, match=r"has a name .*: 'Item 03' \(did you mean 'item 03'\?\)"):
        MDaML().fit(frame, triplets=[["item 01", "item 02", "Item 03"]])
    with pytest.raises(ValueError, match="nothing says which rows of X they are: pass ids="):
        MDaML().fit(frame.to_numpy(), triplets=[["item 01", "item 02", "item 03"]])


@pytest.mark.parametrize("labels", [[1, -1, 1], [1, 0, 1], [True, False, True], [1.0, 0.0, 1.0]])
def test_labels_of_pairs_in_every_usual_form(labels):
    supervision = Constraints(pairs=[[0, 1], [0, 2], [1, 2]], pair_labels=labels)
    assert supervision.pair_labels.tolist() == [1, -1, 1]


def test_a_zero_beside_minus_one_is_not_guessed_at():
    with pytest.raises(ValueError, match="Does 0 mean dissimilar, or not known"):
        Constraints(pairs=[[0, 1], [0, 2], [1, 2]], pair_labels=[1, 0, -1])


def test_generators_are_seeds_everywhere():
    X, y = make_multimodal(60, random_state=np.random.default_rng(1))
    again, _ = make_multimodal(60, random_state=np.random.default_rng(1))
    np.testing.assert_array_equal(X, again)
    make_waveform(10, random_state=np.random.default_rng(1))
    seed = np.random.default_rng(3)
    triplets, _ = make_triplets(X, n_triplets=50, random_state=seed)
    other, _ = make_triplets(X, n_triplets=50, random_state=seed)
    assert not np.array_equal(triplets, other)  # it moves on
    sample_triplets(y, 2, 2, random_state=seed)
    for model in (MDaML(n_modes=2), DMLeig(), DMLMJ(), LFDA()):
        fits = [
            model.set_params(random_state=np.random.default_rng(5)).fit(X, y).components_
            for _ in range(2)
        ]
        np.testing.assert_array_equal(*fits)
    supervision = Constraints(triplets=triplets)
    assert len(list(ConstraintKFold(2, random_state=seed).split(supervision))) == 2
    with pytest.raises(ValueError, match="must be an integer, a NumPy Generator"):
        make_triplets(X, n_triplets=5, random_state="seven")


# Scores of answers of every form, against loops


@pytest.fixture
def line():
    """Points on a line, in random order, and a metric that is Euclidean distance."""
    X = np.random.default_rng(2).normal(size=(12, 2))
    return X, Euclidean().fit(X), np.sum((X[:, None] - X[None]) ** 2, axis=2)


def draw(rng, n, k):
    return np.array([rng.permutation(12)[:k] for _ in range(n)])


@pytest.mark.parametrize("k", [3, 4, 5])
def test_score_of_odd_ones(line, k):
    X, metric, D = line
    rng = np.random.default_rng(k)
    items = draw(rng, 50, k)
    odd = np.array([rng.choice([-1, *row]) for row in items])
    right = [
        all(D[o, row].sum() > D[other, row].sum() for other in row if other != o)
        for row, o in zip(items, odd, strict=True)
        if o >= 0
    ]
    assert metric.score_odd_one_out(X, items, odd) == np.mean(right)


def test_score_of_picks(line):
    X, metric, D = line
    rng = np.random.default_rng(0)
    items = draw(rng, 60, 6)
    shown = np.where(rng.random((60, 5)) < 0.9, items[:, 1:], -1)
    picked = np.where(rng.random((60, 5)) < 0.4, shown, -1)
    enough = np.sum(shown >= 0, axis=1) > 1
    items, shown, picked = items[enough], shown[enough], picked[enough]
    shares = []
    for anchor, row, few in zip(items[:, 0], shown, picked, strict=True):
        there, chosen = [i for i in row if i >= 0], {i for i in few if i >= 0}
        if 0 < len(chosen) < len(there):
            nearest = sorted(there, key=lambda i: D[anchor, i])[: len(chosen)]
            shares.append(len(chosen & set(nearest)) / len(chosen))
    assert metric.score_picks(X, items[:, 0], shown, picked) == pytest.approx(np.mean(shares))


def test_score_of_rankings(line):
    X, metric, D = line
    rng = np.random.default_rng(0)
    items = draw(rng, 40, 6)
    rankings = items[:, 1:].copy()
    shares = []
    for anchor, row in zip(items[:, 0], rankings, strict=True):
        row[rng.integers(2, 6) :] = -1
        ranked = [i for i in row if i >= 0]
        couples = [(i, j) for n, i in enumerate(ranked) for j in ranked[n + 1 :]]
        shares.append(np.mean([D[anchor, i] < D[anchor, j] for i, j in couples]))
    assert metric.score_rankings(X, items[:, 0], rankings) == pytest.approx(np.mean(shares))


def test_score_of_votes(line):
    X, metric, D = line
    rng = np.random.default_rng(0)
    questions, votes = draw(rng, 40, 3), rng.integers(0, 5, (40, 3))
    votes[:, 2] += 1
    right = sum(
        v[0] if D[a, b] < D[a, c] else v[1] for (a, b, c), v in zip(questions, votes, strict=True)
    )
    assert metric.score_votes(X, questions, votes) == pytest.approx(right / votes[:, :2].sum())


def test_score_of_grades(line):
    X, metric, D = line
    rng = np.random.default_rng(0)
    pairs, who = draw(rng, 60, 2), rng.permutation(["ann"] * 20 + ["bob"] * 39 + ["eve"])
    near = -D[pairs[:, 0], pairs[:, 1]]
    grades = np.round(near + rng.normal(size=60))
    wanted = []
    for person, n in (("ann", 20), ("bob", 39)):
        frame = pandas.DataFrame({"g": grades, "n": near})[who == person]
        wanted.append((frame.rank().corr().iloc[0, 1], n))
    mean = sum(score * n for score, n in wanted) / 59
    assert metric.score_grades(X, pairs, grades, who=who) == pytest.approx(mean)


def test_score_of_positives(line):
    X, metric, D = line
    rng = np.random.default_rng(0)
    pairs = draw(rng, 15, 2)
    known = {frozenset(pair) for pair in pairs.tolist()}
    shares = []
    for a, b in pairs.tolist():
        others = [c for c in range(12) if c != a and frozenset((a, c)) not in known]
        shares.append(np.mean([(D[a, c] > D[a, b]) + 0.5 * (D[a, c] == D[a, b]) for c in others]))
    assert metric.score_positives(X, pairs) == pytest.approx(np.mean(shares))


def test_scores_take_names_and_refuse_rows_that_are_not_there(frame):
    metric = Euclidean().fit(frame)
    items = frame.index.to_numpy()[[[0, 1, 2], [5, 6, 7]]]
    by_rows = metric.score_odd_one_out(frame, [[0, 1, 2], [5, 6, 7]], [2, 6])
    assert metric.score_odd_one_out(frame, items, frame.index[[2, 6]]) == by_rows
    with pytest.raises(ValueError, match="items names row 99, but X has 40 rows"):
        metric.score_odd_one_out(frame, [[0, 1, 99]], [99])
    with pytest.raises(ValueError, match="all are undecided"):
        metric.score_odd_one_out(frame, [[0, 1, 2]], [-1])


@pytest.mark.parametrize("who", [[1, "1"], ("1", 1), np.array([1, "1"], dtype=object)])
def test_the_number_1_and_the_text_1_are_not_merged(who):
    X = [[0.0], [1.0], [3.0], [4.0]]
    with pytest.raises(TypeError, match="the number 1 and the text '1'"):
        Persons.from_who(who, 2)
    with pytest.raises(ValueError, match="1 and the text '1', which are the same in a file"):
        Constraints(triplets=[[0, 1, 2], [1, 0, 2]], columns={"who": who})
    with pytest.raises(TypeError, match="y mixes labels of types int, str"):
        GMML().fit(X, [*who, *who])
    assert len(set(number_groups(who, 2).tolist())) == 2


def test_true_is_not_the_person_1():
    with pytest.raises(TypeError, match="got True among them"):
        Persons.from_who([1, True], 2)
    assert Persons.from_who([1, np.int64(2)], 2).names.tolist() == [1, 2]

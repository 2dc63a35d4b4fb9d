"""The table of persons of an audit."""

import numpy as np
import pytest

from mdaml import Euclidean, MDaML, audit
from mdaml.constraints import Constraints
from mdaml.constraints.persons import Persons
from mdaml.datasets import make_triplets
from mdaml.inspection._answers import columns_of
from mdaml.inspection._persons import (
    Counted,
    _remark_on_errors,
    _weigh_kinds,
    agreement_with_others,
    count_repeats,
)
from mdaml.people import PersonalMetrics
from mdaml.people.judging import Views, find_own_views


@pytest.fixture(scope="module")
def panel():
    """Return a metric, and answers of five persons: good, good, random, reversed, lazy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    axes = np.diag([1.0, 1.0, 0.1, 0.1])
    T, left, seconds = [], [], []
    for person, wrong in enumerate([0.05, 0.15, 0.5, 0.95, 0.5]):
        supervision, _ = make_triplets(
            X, n_triplets=300, components=axes, wrong=wrong, random_state=person
        )
        T.append(supervision)
        left.append(rng.random(300) < (0.99 if person == 4 else 0.5))
        seconds.append(rng.exponential(1.0 + person, 300))
    who = np.repeat(["ann", "bob", "ran", "rev", "sid"], 300)
    model = MDaML(random_state=0).fit(X, triplets=np.concatenate(T[:2]))
    return model, X, np.concatenate(T), who, np.concatenate(seconds), np.concatenate(left)


@pytest.mark.needs("pandas")
def test_who_answers_at_random_is_said(panel):
    model, X, T, who, seconds, left = panel
    table = audit(model, X, triplets=T, who=who, seconds=seconds, left=left).set_index("who")
    remarks = table["remark"].to_dict()
    assert remarks["ann"] == remarks["bob"] == ""
    assert remarks["ran"].startswith("answers at random: agrees with no kind (4")
    assert remarks["rev"].startswith("answers the wrong way round")
    assert remarks["sid"].startswith("answers at random")
    assert remarks["sid"].endswith("always answers left")
    assert np.all(table["error_low"] <= table["error"])
    assert np.all(table["error"] <= table["error_high"])
    assert table["answers"].tolist() == [300] * 5
    holds = audit(model, X, triplets=T)["satisfied"].to_numpy()
    for code, name in enumerate(table.index):
        assert table.loc[name, "agreement"] == holds[who == name].mean()
        assert table.loc[name, "seconds"] == np.median(seconds[who == name])
        assert table.loc[name, "left"] == left[who == name].mean(), code
    assert table["error"].to_dict() == pytest.approx(
        {"ann": 0.05, "bob": 0.15, "ran": 0.5, "rev": 0.95, "sid": 0.5}, abs=0.08
    )


@pytest.mark.needs("pandas")
def test_the_interval_of_errors_holds_the_estimate_however_few_the_answers(panel):
    model, X, T, *_ = panel
    table = audit(model, X, triplets=T[:40], who=np.arange(40) // 2)
    assert table["error"].min() < 0.05  # where two quantiles lie on one side of the likeliest
    assert np.all(table["error_low"] <= table["error"])
    assert np.all(table["error"] <= table["error_high"])


@pytest.mark.needs("pandas")
def test_few_answers_prove_nothing(panel):
    model, X, T, who, _, _ = panel
    some = np.concatenate([np.flatnonzero(who == name)[:6] for name in np.unique(who)])
    table = audit(model, X, triplets=T[some], who=who[some], left=np.ones(30, bool))
    assert table["remark"].tolist() == [""] * 5


def literal_agreement(answers, who):
    """Return the share of answers that most others gave too, in loops."""
    shares = {}
    for person in sorted(set(who)):
        agreed = known = 0
        for (near, far), name in zip(answers, who, strict=True):
            if name != person:
                continue
            votes = 0
            for (other_near, other_far), other in zip(answers, who, strict=True):
                if other != person:
                    votes += ((other_near, other_far) == (near, far)) - (
                        (other_near, other_far) == (far, near)
                    )
            known += votes != 0
            agreed += votes > 0
        shares[person] = agreed / known if known else np.nan
    return list(shares.values())


@pytest.mark.parametrize("seed", range(5))
def test_agreement_with_others_is_that_of_the_loops(seed):
    rng = np.random.default_rng(seed)
    T = np.array([rng.permutation(5)[:3] for _ in range(60)])
    T = np.where(T[:, :1] > 2, T, np.column_stack([T[:, 0], T[:, 2], T[:, 1]]))
    who = rng.choice(["a", "b", "c", "d"], 60)
    answers = [(tuple(sorted((a, b))), tuple(sorted((a, c)))) for a, b, c in T.tolist()]
    found = agreement_with_others(
        columns_of(Constraints(triplets=T)), Persons.from_who(who, len(T))
    )
    np.testing.assert_allclose(found, literal_agreement(answers, who))


def test_pairs_have_questions_too():
    supervision = Constraints(pairs=[[0, 1], [1, 0], [0, 1], [2, 3]], pair_labels=[1, 1, -1, 1])
    found = agreement_with_others(
        columns_of(supervision), Persons.from_who(["a", "b", "c", "c"], 4)
    )
    # To a the others are divided, so are they to b; to c both say the opposite.
    np.testing.assert_array_equal(found, [np.nan, np.nan, 0.0])


def test_repeated_questions_are_counted():
    T = [[0, 1, 2], [0, 2, 1], [0, 1, 2], [0, 1, 2], [3, 1, 2], [0, 1, 2]]
    differ, repeated = count_repeats(
        columns_of(Constraints(triplets=T)), Persons.from_who(list("aabbab"), 6)
    )
    assert differ.tolist() == [1, 0]
    assert repeated.tolist() == [1, 2]


def ask_odd_one_out(X, looks_at, guesses, rng, n=60):
    """Return questions of three items and the odd ones, by the features somebody looks at."""
    items = np.array([rng.permutation(len(X))[:3] for _ in range(n)])
    Y = X[:, looks_at][items]
    far = np.square(Y[:, :, None] - Y[:, None]).sum(axis=(2, 3))
    odd = np.where(rng.uniform(size=n) < guesses, rng.integers(3, size=n), far.argmax(axis=1))
    return items, items[np.arange(n), odd]


@pytest.fixture(scope="module")
def minority():
    """Return thirty people, ten of whom look at other features, and one who guesses mostly."""
    rng = np.random.default_rng(0)
    X, parts = rng.normal(size=(80, 5)), []
    for person in range(31):
        looks_at = [2, 3] if 20 <= person < 30 else [0, 1]
        parts.append(ask_odd_one_out(X, looks_at, 2 / 3 if person == 30 else 0.1, rng))
    items, odd = map(np.concatenate, zip(*parts, strict=True))
    columns = {"who": np.repeat(np.arange(31), 60)}
    return X, Constraints.from_odd_one_out(items, odd, n_points=80, columns=columns)


def test_as_many_persons_agree_with_a_kind_as_rows_say_so():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(12), 60)
    margins = rng.uniform(2.0, 6.0, (2, 720)) * rng.choice([-1.0, 1.0], (2, 720))
    for kind, own in enumerate((codes < 6, (codes >= 6) & (codes < 11))):
        margins[kind, own] = np.abs(margins[kind, own])  # the last answers at random
    supervision = Constraints(triplets=np.array([rng.permutation(40)[:3] for _ in range(720)]))
    by_all = np.tile([0.9, 0.1], (12, 1))  # in the kinds of all persons everybody is of the first
    views, persons = Views(margins, np.array([0.5, 0.5]), by_all), Persons(np.arange(12), codes)
    found = _weigh_kinds(margins[0], persons, Counted.of_persons(supervision, persons), views)
    remarks, none = [[] for _ in range(12)], np.zeros(12, np.int64)
    _remark_on_errors(remarks, found, views, np.full(12, np.inf), (none, none))
    wanted = [["agrees with kind 0, 6 persons"]] * 6 + [["agrees with kind 1, 5 persons"]] * 5
    assert remarks[:11] == wanted
    assert remarks[11][0].startswith("answers at random")


@pytest.mark.slow
@pytest.mark.needs("pandas")
def test_a_minority_is_not_taken_for_noise_and_a_guesser_is_found(minority):
    X, supervision = minority
    table = audit(
        MDaML(anchor=0.02).fit(X, constraints=supervision), X, constraints=supervision, who="who"
    )
    assert table["answers"].tolist() == [60] * 31  # not 120 triplets
    assert table["remark"][:20].tolist() == ["agrees with kind 0, 20 persons"] * 20
    assert table["remark"][20:30].tolist() == ["agrees with kind 1, 10 persons"] * 10
    assert table["remark"][30].startswith(("guesses on", "answers at random"))
    assert table["agreement"][:30].min() > 0.8 > table["agreement"][30]


def answer_as(X, looks_at, n_answers, wrong=0.1, seed=0):
    """Return answers of persons, who look at some features each, and who gave them."""
    supervision = []
    for person, features in enumerate(looks_at):
        drawn = {"components": np.eye(X.shape[1])[features], "random_state": 1000 * seed + person}
        drawn["wrong"] = wrong if np.isscalar(wrong) else wrong[person]
        supervision.append(make_triplets(X, n_triplets=n_answers, **drawn)[0])
    return np.concatenate(supervision), np.repeat(np.arange(len(looks_at)), n_answers)


@pytest.mark.slow
@pytest.mark.needs("pandas")
def test_kinds_of_an_audit_are_numbered_as_those_of_the_model():
    X = np.random.default_rng(0).normal(size=(60, 4))
    T, who = answer_as(X, [[0, 1]] * 7 + [[2, 3]] * 4, 60)
    model = PersonalMetrics(Euclidean(), n_kinds=2, pull=None).fit(X, triplets=T, who=who)
    assert model.kind_of_person_.tolist() == [0] * 7 + [1] * 4
    T, who = answer_as(X, [[0, 1]] * 4 + [[2, 3]] * 7, 60, seed=1)  # the second kind is larger
    table = audit(model, X, triplets=T, who=who)
    assert table["kind"].tolist() == [0] * 4 + [1] * 7
    assert table["remark"][0] == "agrees with kind 0, 4 persons"


@pytest.mark.slow
@pytest.mark.needs("pandas")
@pytest.mark.parametrize("seed", range(4))
def test_three_of_thirty_who_look_at_something_else_are_not_accused(seed):
    X = np.random.default_rng(seed).normal(size=(100, 6))
    looks_at = [[0, 1, 2]] * 27 + [[3, 4, 5]] * 3
    T, who = answer_as(X, looks_at, 60, seed=seed)
    remarks = audit(MDaML(anchor=0.02).fit(X, triplets=T), X, triplets=T, who=who)["remark"]
    assert not remarks.str.contains("random|guesses|wrong way").any()


@pytest.mark.slow
@pytest.mark.needs("pandas")
def test_who_guesses_on_two_of_three_of_many_questions_is_found():
    X = np.random.default_rng(0).normal(size=(100, 6))
    wrong = np.where(np.arange(30) == 4, 1 / 3, 0.1)
    T, who = answer_as(X, [[0, 1, 2]] * 20 + [[0, 1, 3]] * 10, 150, wrong)
    remarks = audit(MDaML(anchor=0.02).fit(X, triplets=T), X, triplets=T, who=who)["remark"]
    assert remarks[4].startswith(("guesses on", "answers at random"))
    assert remarks.drop(4).str.startswith("agrees with kind").all()


def test_views_of_two_who_look_at_the_same_explain_each_other():
    X = np.random.default_rng(0).normal(size=(60, 4))
    wrong = np.where(np.arange(8) == 7, 0.5, 0.1)
    T, who = answer_as(X, [[0, 1]] * 5 + [[2, 3]] * 2 + [[0, 1]], 90, wrong)
    supervision, persons = Constraints(triplets=T), Persons(np.arange(8), who)
    suspects = np.array([5, 6, 7])
    metric = MDaML(anchor=0.02).fit(X, triplets=T)
    held = []
    for person, (rows, margins) in zip(
        suspects,
        find_own_views(metric, X, supervision, persons, np.arange(720), suspects),
        strict=True,
    ):
        assert np.array_equal(rows, np.flatnonzero(who == person))
        assert margins.shape == (2 + 2 * 7, 90)
        held.append((margins > 0.0).mean(axis=1))
    assert held[0][:2].max() > 0.7  # by other answers of the same person
    assert held[0][2 + 5] > 0.7  # by person 6, the sixth of the others
    assert held[1][2 + 5] > 0.7
    assert held[2].max() < 0.65


@pytest.mark.needs("pandas")
def test_who_sees_it_differently_from_all_others_has_a_view():
    rng = np.random.default_rng(1)
    X, supervision = rng.normal(size=(60, 4)), []
    for person in range(12):
        axes = np.eye(4)[[3]] if person == 11 else np.eye(4)[:2]
        made, _ = make_triplets(X, n_triplets=150, components=axes, wrong=0.05, random_state=person)
        supervision.append(made)
    T, who = np.concatenate(supervision), np.repeat(np.arange(12), 150)
    model = MDaML(anchor=0.02).fit(X, triplets=T[who < 11])
    remarks = audit(model, X, triplets=T, who=who)["remark"]
    assert not remarks[:11].str.contains("random|guesses|view|wrong").any()
    assert not remarks[11].startswith(("answers at random", "guesses"))


@pytest.mark.needs("pandas")
def test_bad_columns_are_refused(panel):
    model, X, T, who, seconds, left = panel
    with pytest.raises(ValueError, match="pass who= too"):
        audit(model, X, triplets=T, seconds=seconds)
    with pytest.raises(
        ValueError, match=r"seconds must hold a number of seconds for each of the 1500"
    ):
        audit(model, X, triplets=T, who=who, seconds=seconds[:3])
    with pytest.raises(ValueError, match="left must hold 1 or 0"):
        audit(model, X, triplets=T, who=who, left=np.where(left, 2, 1))
    with pytest.raises(ValueError, match=r"seconds must hold .*quick"):
        audit(model, X, triplets=T, who=who, seconds=["quick"] * 1500)
    two = {"triplets": T[:600], "who": who[:600]}
    times = audit(model, X, **two, seconds=seconds[:600])["seconds"]
    texts = seconds[:600].astype(str)
    for column in (texts, np.char.replace(texts, ".", ",")):
        assert audit(model, X, **two, seconds=column)["seconds"].equals(times)
    with pytest.raises(ValueError, match="have no column 'person'"):
        audit(model, X, triplets=T, who="person")

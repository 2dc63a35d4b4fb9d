"""The table of persons of an audit."""

import numpy as np
import pytest

from mdaml import MDaML, audit
from mdaml.constraints import Constraints
from mdaml.constraints.persons import Persons
from mdaml.datasets import make_triplets
from mdaml.inspection._answers import columns_of
from mdaml.inspection._persons import agreement_with_others, person_errors
from mdaml.inspection._suspicion import FlipModel


@pytest.fixture(scope="module")
def panel():
    """Return a metric, and answers of five persons: good, good, random, reversed, lazy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    axes = np.diag([1.0, 1.0, 0.1, 0.1])
    T, left, seconds = [], [], []
    for person, wrong in enumerate([0.05, 0.15, 0.5, 0.95, 0.5]):
        said, _ = make_triplets(
            X, n_triplets=300, components=axes, wrong=wrong, random_state=person
        )
        T.append(said)
        left.append(rng.random(300) < (0.99 if person == 4 else 0.5))
        seconds.append(rng.exponential(1.0 + person, 300))
    who = np.repeat(["ann", "bob", "ran", "rev", "sid"], 300)
    model = MDaML(random_state=0).fit(X, triplets=np.concatenate(T[:2]))
    return model, X, np.concatenate(T), who, np.concatenate(seconds), np.concatenate(left)


@pytest.mark.needs("pandas")
def test_who_answers_at_random_is_said(panel):
    model, X, T, who, seconds, left = panel
    table = audit(model, X, triplets=T, who=who, seconds=seconds, left=left).set_index("who")
    assert table["remark"].to_dict() == {
        "ann": "",
        "bob": "",
        "ran": "answers at random",
        "rev": "answers the wrong way round",
        "sid": "answers at random, always answers left",
    }
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
    said = Constraints(pairs=[[0, 1], [1, 0], [0, 1], [2, 3]], pair_labels=[1, 1, -1, 1])
    found = agreement_with_others(columns_of(said), Persons.from_who(["a", "b", "c", "c"], 4))
    # To a the others are divided, so are they to b; to c both say the opposite.
    np.testing.assert_array_equal(found, [np.nan, np.nan, 0.0])


def test_errors_are_a_posterior_mode():
    rng = np.random.default_rng(0)
    margins, codes = rng.normal(0.1, 0.3, 200).clip(-1, 1), np.arange(200) % 3
    persons = Persons(np.arange(3), codes)
    errors = person_errors(margins, persons)
    shares = [np.mean(margins[codes == person] > 0) for person in range(3)]
    better = np.isin(codes, np.flatnonzero(shares >= np.median(shares)))
    right = 1 / (1 + np.exp(-margins / FlipModel.from_margins(margins[better]).scale))

    def value(error, person):
        p = right[codes == person]
        likelihood = np.log((1 - error) * p + error * (1 - p)).sum()
        return likelihood + 2 * np.log(error) + 18 * np.log(1 - error)

    for person, error in enumerate(errors):
        grid = np.linspace(0.001, 0.999, 999)
        best = grid[np.argmax([value(e, person) for e in grid])]
        assert error == pytest.approx(best, abs=2e-3)


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
    times = audit(model, X, triplets=T, who=who, seconds=seconds)["seconds"]
    texts = seconds.astype(str)
    for column in (texts, np.char.replace(texts, ".", ",")):
        assert audit(model, X, triplets=T, who=who, seconds=column)["seconds"].equals(times)
    with pytest.raises(ValueError, match="have no column 'person'"):
        audit(model, X, triplets=T, who="person")

"""The studies of comparisons: what they draw, what they hold out, and the figures on the page."""

import re
import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "experiments"))  # programs, not a package

import kinds  # noqa: E402
import people  # noqa: E402
import persons  # noqa: E402
import small_sets  # noqa: E402
from _record import resume  # noqa: E402

from mdaml.experiments.records import read_records  # noqa: E402

STUDIES = {"kinds": kinds, "people": people, "persons": persons}


# Comparisons of coarse and fine classes


@pytest.mark.parametrize("name", ["vowel", "vehicle"])
def test_fine_classes_are_thrown_into_groups_of_about_one_size(name):
    case = kinds.make_case(name, "coarse", 5, 0.0, 0)
    sizes = np.bincount(case.groups)
    assert len(sizes) == kinds.GROUPS[name]
    assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(case.labels, case.groups[case.fine])
    np.testing.assert_array_equal(case.labels_test, case.groups[case.fine_test])


def test_seventy_percent_are_learned_from_and_no_row_is_held_out_as_well():
    case = kinds.make_case("letter", "fine", 5, 0.0, 0)
    assert len(case.train) + len(case.test) == kinds.MOST_ROWS
    assert len(case.train) == int(0.7 * kinds.MOST_ROWS)
    assert not set(case.train) & set(case.test)
    assert case.triplets.max() < len(case.train)
    np.testing.assert_allclose(case.X.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(case.X.std(axis=0), 1.0)


@pytest.mark.parametrize("supervision", ["coarse", "fine"])
def test_as_many_triplets_are_wrong_as_were_turned(supervision):
    case = kinds.make_case("vehicle", supervision, 100, 0.15, 1)
    i, j, r = case.labels[case.triplets].T
    np.testing.assert_array_equal(i != j, case.turned)
    np.testing.assert_array_equal(i == r, case.turned)
    assert case.turned.mean() == pytest.approx(0.15, abs=0.01)  # of 59 200
    i, j, r = case.labels_test[case.unseen].T
    assert ((i == j) & (i != r)).all()  # what is scored is never wrong


def test_few_triplets_are_five_of_the_hundred_of_each_sample():
    many = kinds.make_case("vehicle", "coarse", 100, 0.0, 0)
    few = kinds.make_case("vehicle", "coarse", 5, 0.0, 0)
    assert set(np.bincount(many.triplets[:, 0])) == {100}
    assert set(np.bincount(few.triplets[:, 0])) == {5}
    assert set(map(tuple, few.triplets)) <= set(map(tuple, many.triplets))


def test_cases_of_a_split_share_rows_and_groups_and_splits_do_not():
    one = kinds.make_case("vehicle", "coarse", 5, 0.0, 0)
    noisy = kinds.make_case("vehicle", "coarse", 5, 0.15, 0)
    fine = kinds.make_case("vehicle", "fine", 100, 0.15, 0)
    other = kinds.make_case("vehicle", "coarse", 5, 0.0, 1)
    for case in (noisy, fine):
        np.testing.assert_array_equal(one.train, case.train)
        np.testing.assert_array_equal(one.groups, case.groups)
    np.testing.assert_array_equal(one.unseen, noisy.unseen)
    turned = np.where(noisy.turned[:, None], noisy.triplets[:, [0, 2, 1]], noisy.triplets)
    np.testing.assert_array_equal(one.triplets, turned)
    assert (one.train != other.train).any()


def test_every_case_is_for_every_method_and_the_search_for_few_triplets_only():
    jobs = [job for job in kinds.all_jobs() if job["dataset"] in kinds.GROUPS]
    per_case = len(kinds.METHODS) + len(kinds.CHOSEN) / 2
    assert len(jobs) == kinds.N_SPLITS * len(kinds.GROUPS) * len(kinds.CASES) * per_case
    assert {j["per_sample"] for j in jobs if j["method"] in kinds.CHOSEN} == {kinds.FEW}


def test_a_fit_is_scored_on_held_out_rows():
    result = kinds.do_job("vehicle", "coarse", 5, 0.0, 0, "Euclid")
    case = kinds.make_case("vehicle", "coarse", 5, 0.0, 0)
    assert result["unseen"] == kinds.share_that_holds(case.X_test, case.unseen)
    assert 0.5 < result["fine"] < result["compared"] < 1


# Answers of people


def answers(n_items, n_answers):
    rng = np.random.default_rng(0)
    return np.array([rng.choice(n_items, 3, replace=False) for _ in range(n_answers)])


def test_held_out_items_are_never_learned_from():
    triplets = answers(40, 3000)
    X = np.arange(40.0)[:, None]  # an item is its own number
    votes = np.arange(3000.0)
    task = people.unseen_items(X, triplets, votes, np.random.default_rng(0))
    assert len(task.test) == 12
    assert not set(task.train) & set(task.test)
    np.testing.assert_array_equal(task.X[:, 0], task.train)
    learned, scored = task.train[task.triplets], task.test[task.unseen]
    aside = np.isin(triplets, task.test)
    np.testing.assert_array_equal(learned, triplets[~aside.any(axis=1)])
    np.testing.assert_array_equal(scored, triplets[aside.all(axis=1)])
    np.testing.assert_array_equal(task.weights, votes[~aside.any(axis=1)])
    np.testing.assert_array_equal(task.votes, votes[aside.all(axis=1)])


def test_held_out_items_do_not_move_the_principal_axes():
    X, supervision = np.random.default_rng(1).normal(size=(40, 6)), answers(40, 200)
    task = people.unseen_items(X, supervision, None, np.random.default_rng(0), 3)
    X[task.test] *= 100
    again = people.unseen_items(X, supervision, None, np.random.default_rng(0), 3)
    np.testing.assert_array_equal(task.X, again.X)


def test_both_directions_of_an_answer_weigh_their_votes():
    triplets, votes = people.of_votes(np.array([[0, 1, 2, 3, 1], [3, 4, 5, 0, 2]]))
    assert triplets.tolist() == [[0, 1, 2], [0, 2, 1], [3, 5, 4]]
    assert votes.tolist() == [3, 1, 2]
    assert people.ceiling(triplets, votes) == pytest.approx(5 / 6)  # 3 of 4, and 2 of 2


def test_held_out_queries_are_in_no_triplet(monkeypatch):
    rng = np.random.default_rng(0)
    data = {
        "queries": rng.normal(size=(20, 4)),
        "documents": rng.normal(size=(50, 4)),
        "relevant": np.array([(q, d) for q in range(20) for d in (q, q + 20, q + 30)]),
        "grade": np.tile([1, 4, -1], 20),  # the last is not relevant
    }
    monkeypatch.setattr(people, "load", lambda _: data)
    tests = []
    for split in range(5):
        task = people.make_cranfield(split, np.random.default_rng(0))
        tests += task.test.tolist()
        query, near, far = task.triplets.T
        assert not set(query) & set(task.test)
        assert set(task.unseen[:, 0]) == set(task.test)
        assert len(task.triplets) == 16 * 2 * 13
        right = {(q, 20 + d) for q in range(20) for d in (q, q + 20)}
        assert set(zip(query, near, strict=True)) <= right
        assert not set(zip(query, far, strict=True)) & right
        np.testing.assert_array_equal(task.relevant.sum(axis=1), 2)
    assert sorted(tests) == list(range(20))


def test_ten_examples_of_each_intent_are_drawn(monkeypatch):
    data = {
        "train": np.random.default_rng(0).normal(size=(60, 3)),
        "train_label": np.repeat([0, 1, 2], 20),
        "test": np.ones((4, 3)),
        "test_label": np.zeros(4, int),
    }
    monkeypatch.setattr(people, "load", lambda _: data)
    task = people.make_banking(np.random.default_rng(0))
    assert len(set(task.rows)) == 30
    assert np.bincount(task.y).tolist() == [10, 10, 10]
    other = people.make_banking(np.random.default_rng(1))
    assert (task.rows != other.rows).any()


def test_scores_of_a_ranking():
    documents = np.arange(30.0)[:, None]  # the query at zero ranks them in this order
    relevant = np.zeros((2, 30), bool)
    relevant[0, [1, 3, 25]] = True  # found at places 2 and 4, the third too late
    scores = people.retrieval(np.zeros((2, 1)), documents, relevant)
    assert scores["mrr"] == 1 / 2  # the second query has no answer and does not count
    assert scores["recall"] == pytest.approx(2 / 3)
    best = 1 + 1 / np.log2(3) + 1 / 2
    assert scores["ndcg"] == pytest.approx((1 / np.log2(3) + 1 / np.log2(5)) / best)


def test_near_identity_learns_what_matters_and_little_where_it_is_held():
    rng = np.random.default_rng(0)
    X, supervision = rng.normal(size=(60, 4)), answers(60, 1500)
    far = np.abs(X[supervision[:, 0], 0] - X[supervision[:, 1], 0]) > np.abs(
        X[supervision[:, 0], 0] - X[supervision[:, 2], 0]
    )
    supervision[far] = supervision[far][:, [0, 2, 1]]  # the first feature decides
    model = people.NearIdentity().fit(X[:50], triplets=supervision[(supervision < 50).all(axis=1)])
    new = supervision[(supervision >= 40).any(axis=1)]
    assert kinds.share_that_holds(model.transform(X), new) > 0.9
    assert kinds.share_that_holds(X, new) < 0.75
    held = people._near_identity(X, supervision, np.ones(len(supervision)), 1e6, np.eye(4))
    np.testing.assert_allclose(held, np.eye(4), atol=1e-4)


def test_a_set_without_its_file_is_left_out_with_a_word(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MDAML_DATA", str(tmp_path))
    assert list(people.all_jobs()) == []
    supervision = capsys.readouterr().out.splitlines()
    assert len(supervision) == len(people.FILES)
    assert "material is left out: MDAML_DATA names no folder with human/material.npz" in supervision
    monkeypatch.delenv("MDAML_DATA")
    assert list(people.all_jobs()) == []


# Small sets of labels


@pytest.mark.parametrize("kind", small_sets.OTHER_KINDS)
def test_small_sets_of_other_kinds_are_drawn_again_alike_and_hold_out_rows(kind):
    X, y, X_test, y_test = small_sets.make_other(kind, 60, 0, 0.3, 3)
    assert len(X) == len(y) == 60
    assert 75 <= len(X_test) == len(y_test) <= 400
    assert len(np.unique(y)) > 1
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_array_equal(X, small_sets.make_other(kind, 60, 0, 0.3, 3)[0])


def test_small_sets_are_recorded_once_and_the_table_is_that_of_the_records():
    keys = [small_sets.key_of(record) for record in read_records(small_sets.RECORDS)]
    sets = small_sets.SETS + small_sets.OTHERS
    assert len(keys) == len(set(keys)) == len(sets) * 10 * len(small_sets.METHODS)
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    names = {"first half": "decided", "second half": "confirmed", "other kinds": "other kinds"}
    for group, name in names.items():
        gains = [small_sets.gains_of(method, group) for method in ("MDaML()", "MDaMLCV()")]
        cells = [f"{x:+.2f}" for each in gains for x in (each.mean(), each.min())]
        assert f"| {name} | {len(gains[0])} | {' | '.join(cells)} |" in page
        assert gains[1].min() > -2.0  # what MDaMLCV promises


# Records


def test_a_record_is_resumed_and_not_computed_twice(tmp_path):
    path, done = tmp_path / "records.jsonl", []

    def do(name, split):
        done.append((name, split))
        if done == [("a", 0), ("a", 1)]:
            raise KeyboardInterrupt
        return {"score": 0.5}

    jobs = [{"name": name, "split": split} for name in "ab" for split in (0, 1)]
    with pytest.raises(KeyboardInterrupt):
        resume(path, jobs, do)
    resume(path, jobs, do)
    resume(path, jobs, do)
    assert done == [("a", 0), ("a", 1), ("a", 1), ("b", 0), ("b", 1)]
    assert read_records(path) == [{**job, "score": 0.5} for job in jobs]


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_records_are_complete_and_none_is_there_twice(study, monkeypatch):
    for one in (people, persons):
        monkeypatch.setattr(one, "data_file", lambda _: ROOT)
    monkeypatch.setattr(kinds, "is_here", lambda _: True)
    names = {job.get("protocol"): list(job) for job in study.all_jobs()}
    jobs = [tuple(job.items()) for job in study.all_jobs()]
    kept = [
        tuple((name, record[name]) for name in names[record.get("protocol")])
        for record in read_records(study.RECORDS)
    ]
    assert sorted(kept, key=repr) == sorted(jobs, key=repr)


# The page


def tables(lines):
    """Blocks of lines that are a table."""
    return [list(block) for inside, block in groupby(lines, lambda line: line[:1] == "|") if inside]


def test_the_tables_of_the_page_are_those_of_the_records():
    page = (ROOT / "docs" / "supervision.md").read_text(encoding="utf-8").splitlines()
    made = [
        t for study in STUDIES.values() for t in tables(study.report(read_records(study.RECORDS)))
    ]
    on_the_page = tables(page)
    assert [t for t in on_the_page if t not in made] == []
    assert [t for t in made if t not in on_the_page] == []


def test_the_page_names_both_commands():
    page = (ROOT / "docs" / "supervision.md").read_text(encoding="utf-8")
    for study in STUDIES:
        assert re.search(rf"python experiments/{study}\.py run", page)

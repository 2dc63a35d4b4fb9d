"""Answers of people: stored once and for good, asked in a stated mixture, read as constraints."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy
from ask_site import Browser, make_answer, make_items, make_site

from mdaml.ask.answers import to_constraints
from mdaml.ask.collector import AHEAD
from mdaml.ask.items import Column, Items, read_items, write_demo
from mdaml.ask.learner import split_answers
from mdaml.ask.questions import Composer, Person, Plan, check_choice
from mdaml.ask.storage import Storage
from mdaml.constraints import Constraints


@pytest.fixture
def place(tmp_path):
    return tmp_path / "answers.db"


@pytest.fixture
def site(place):
    made = make_site(place)
    yield made
    made.close()


# Storage


def test_an_answer_that_is_sent_twice_counts_once(site):
    browser = Browser(site)
    browser.send()
    event = make_answer(browser.questions[0]["id"])
    assert browser.send(event)["n_answers"] == 1
    assert browser.send(event)["n_answers"] == 1
    assert browser.send(event, event, event)["n_answers"] == 1
    assert len(site.storage.answers()) == 1


def test_a_double_click_with_two_ids_counts_once(site):
    browser = Browser(site)
    browser.send()
    question = browser.questions[0]["id"]
    browser.send(make_answer(question, [1]), make_answer(question, [2]))
    (stored,) = site.storage.answers()
    assert stored["choice"] == [1]


def test_two_tabs_answer_one_question_once(site):
    one = Browser(site)
    two = Browser(site, client=one.client)
    assert one.send()["questions"] == two.send()["questions"]
    one.answer([1])
    two.answer([2])
    (stored,) = site.storage.answers()
    assert stored["choice"] == [1]
    two.answer([2])
    assert len(site.storage.answers()) == 2


def test_undo_takes_an_answer_back_and_asks_again(site):
    browser = Browser(site)
    event = browser.answer([1])
    undo = {"undo": event["id"]}
    reply = browser.send(undo, undo)
    assert reply["n_answers"] == 0
    assert reply["questions"][0]["id"] == event["question"]
    browser.send(event)  # a late retry of what was taken back
    assert site.storage.answers() == []
    browser.answer([2])
    browser.send(event, undo)  # the whole queue once more
    (stored,) = site.storage.answers()
    assert (stored["id"], stored["choice"]) == (event["question"], [2])


def test_the_last_answer_is_told_so_that_it_can_be_undone(site):
    browser = Browser(site)
    assert browser.send()["last"] is None
    first = browser.answer()
    second = browser.answer((), "skip")
    last = browser.send()["last"]
    assert (last["answer"], last["question"]["id"]) == (second["id"], second["question"])
    assert not last["counts"]
    assert set(last["question"]) == {"id", "items"}
    last = browser.send({"undo": second["id"]})["last"]
    assert (last["answer"], last["counts"]) == (first["id"], True)


def test_a_person_finds_the_same_questions_after_a_restart(place):
    first = make_site(place)
    browser = Browser(first)
    browser.answer()
    event = browser.answer()
    shown = browser.send()["questions"]
    first.close()
    second = make_site(place)
    again = Browser(second)
    reply = again.send(event)
    assert reply["questions"] == shown
    assert reply["n_answers"] == 2
    assert again.send({"undo": event["id"]})["n_answers"] == 1
    second.close()


def test_nobody_can_answer_for_somebody_else(site):
    ann, bob = Browser(site, "ann"), Browser(site, "bob")
    event = ann.answer()
    ann.send()
    reply = bob.send(make_answer(ann.questions[0]["id"]), {"undo": event["id"]})
    assert reply["refused"] == ["There is no such question."]
    assert [a["person"] for a in site.storage.answers()] == ["ann"]


@pytest.mark.parametrize(
    "change",
    [
        {"choice": [0]},
        {"choice": [3]},
        {"choice": [1, 2]},
        {"choice": [True]},
        {"choice": "1"},
        {"choice": []},
        {"outcome": "maybe"},
        {"outcome": "skip"},
        {"id": "short"},
        {"id": None},
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_others_are_kept(site, change):
    browser = Browser(site)
    browser.send()
    first, second = (question["id"] for question in browser.questions[:2])
    reply = browser.send(make_answer(first) | change, make_answer(second))
    assert len(reply["refused"]) == 1
    assert [a["id"] for a in site.storage.answers()] == [second]


def test_a_full_disk_refuses_answers_clearly_and_loses_none(site):
    browser = Browser(site)
    browser.answer()
    engine = site.storage._engine

    def limit(pages):
        sqlalchemy.event.listen(
            engine, "connect", lambda c, _: c.execute(f"PRAGMA max_page_count={pages}")
        )
        engine.dispose()

    limit(1)  # SQLite raises it to the size that the file has
    events = []
    for _ in range(200):
        events = [make_answer(question["id"]) for question in browser.questions]
        reply = browser.post(*events)
        if reply.status_code != 200:
            break
        browser.questions = reply.json()["questions"]
    assert reply.status_code == 503
    assert "disk is full" in reply.json()["error"]
    before = len(site.storage.answers())
    limit(1 << 30)
    assert browser.send(*events)["refused"] == []
    assert len(site.storage.answers()) == before + len(events)


def test_many_persons_at_once_lose_nothing(site):
    def answer(name):
        browser = Browser(site, f"person {name}")
        for _ in range(10):
            event = browser.answer()
            browser.post(event)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(answer, range(12)))
    stored = site.storage.answers()
    assert Counter(a["person"] for a in stored) == {f"person {n}": 10 for n in range(12)}
    assert len({a["id"] for a in stored}) == 120


def test_commits_wait_for_the_disk(place):
    storage = Storage(place)
    with storage._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    storage.close()


def test_places_for_answers_that_cannot_be_used_are_refused(tmp_path):
    with pytest.raises(ValueError, match="There is no folder"):
        Storage(tmp_path / "nowhere" / "answers.db")
    with pytest.raises(ValueError, match=r"must be a file or postgresql://..., got mysql"):
        Storage("mysql://somewhere/answers")
    for url in ("sqlite://", "sqlite:///", "sqlite:////x.db?mode=memory&uri=true"):
        with pytest.raises(ValueError, match="must name a file"):
            Storage(url)
    text = tmp_path / "notes.txt"
    text.write_text("This is no database. " * 100)
    with pytest.raises(ValueError, match="this is not a database of answers"):
        Storage(text)


@pytest.mark.parametrize("name", ["what?2.db", "100%41.db", "a b#c.db", "ü&=+.db"])
def test_answers_are_kept_in_the_file_of_this_name(tmp_path, name):
    """Two names that differ behind a question mark were one file."""
    if os.name == "nt" and "?" in name:
        name = name.replace("?", "")  # Windows has no such names
    folder = tmp_path / name.removesuffix(".db")
    folder.mkdir()
    storage = Storage(folder / name)
    assert Path(storage.name) == folder / name
    storage.close()
    assert [path.name for path in folder.iterdir()] == [name]
    again = Storage(storage.url)  # as the learner opens it
    assert (again.url, again.name) == (storage.url, storage.name)
    again.close()


# Questions


def ask_many(plan, n, gold=None, queries=True, ids=30):
    """Let one person answer n questions, always the first choice."""
    names = [f"item {row}" for row in range(ids)]
    composer, person = Composer(plan, names, gold, seed=0), Person()
    asked = []
    for _ in range(n):
        if queries:
            composer.take_queries([names[:3], names[3:6]])
        question = composer.compose("ann", person)
        person.answered.append(question)
        composer.note(question)
        asked.append(question)
    return asked


def test_the_mixture_is_the_one_that_is_stated():
    gold = Constraints(triplets=[[0, 1, 2], [3, 4, 5]], n_points=30)
    asked = ask_many(Plan(held_out=0.3, repeats=0.2, catch=0.1), 200, gold)
    counts = Counter(question["source"] for question in asked)
    assert counts["held out"] == pytest.approx(60, abs=2)
    assert counts["catch"] == pytest.approx(20, abs=2)
    assert counts["repeat"] == pytest.approx(40, abs=3)
    assert counts["active"] == pytest.approx(80, abs=3)


def test_expected_answers_are_as_often_left_as_right():
    gold = Constraints(triplets=[[0, 1, 2]], n_points=30)
    asked = ask_many(Plan(held_out=0, repeats=0, catch=0.5), 101, gold)
    caught = [q for q in asked if q["source"] == "catch"]
    assert all(q["items"][q["expected"][0]] == "item 1" for q in caught)
    sides = Counter(q["items"].index("item 1") for q in asked)
    assert abs(sides[1] - sides[2]) <= 1 + sum(q["source"] == "active" for q in asked) // 2


def test_no_anchor_comes_too_often():
    asked = ask_many(Plan(held_out=1, repeats=0, catch=0), 95)
    times = Counter(question["items"][0] for question in asked)
    assert max(times.values()) - min(times.values()) <= 1


def test_repeats_exchange_the_sides_and_stay_held_out():
    asked = ask_many(Plan(held_out=0.5, repeats=0.3, catch=0), 60)
    by_id = {question["id"]: question for question in asked}
    again = [question for question in asked if question["source"] == "repeat"]
    assert len(again) > 10
    for question in again:
        first = by_id[question["repeats"]]
        a, b, c = first["items"]
        assert question["items"] == [a, c, b]
        assert question["held_out"] == first["held_out"]
        assert asked.index(question) - asked.index(first) > 3


@pytest.mark.parametrize(("form", "size"), [("triplet", 3), ("odd", 3), ("same", 2), ("pick", 7)])
def test_every_form_shows_different_items(form, size):
    for question in ask_many(Plan(form=form), 40):
        assert len(set(question["items"])) == len(question["items"]) == size


def test_a_limit_ends_the_questions(place):
    site = make_site(place, plan=Plan(limit=4))
    browser = Browser(site)
    for left in (3, 2, 1, 0):
        browser.answer()
        assert len(browser.questions) == min(AHEAD, left)
    browser.send()
    assert browser.questions == []
    site.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"form": "rank"}, "form must be one of"),
        ({"held_out": 0.9, "repeats": 0.2}, "Shares"),
        ({"held_out": -0.1}, "Shares"),
        ({"form": "pick", "pick": 6, "show": 6}, "Picks"),
        ({"limit": 0}, "limit"),
    ],
)
def test_plans_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Plan(**wrong)


# Answers as constraints


def stored(form, items, choice, outcome="answer", **more):
    row = {"form": form, "items": items, "choice": choice, "outcome": outcome, "person": "ann"}
    row |= {"time": 1.5, "seconds": 2.0, "source": "active", "id": "q", "held_out": False}
    return row | more


IDS = ["a", "b", "c", "d", "e"]


def test_answers_become_what_they_say():
    supervision = to_constraints(
        [
            stored("triplet", ["a", "b", "c"], [2]),
            stored("triplet", ["d", "b", "c"], [1]),
            stored("triplet", ["a", "b", "c"], [], "skip"),
            stored("triplet", ["a", "b", "gone"], [1]),
            stored("same", ["a", "e"], [1]),
            stored("same", ["b", "e"], [0]),
            stored("same", ["b", "e"], [], "unsure"),
        ],
        IDS,
    )
    assert supervision.triplets.tolist() == [[0, 2, 1], [3, 1, 2]]
    assert supervision.pairs.tolist() == [[0, 4], [1, 4]]
    assert supervision.pair_labels.tolist() == [1, -1]
    assert supervision.columns["who"].tolist() == ["ann"] * 4
    assert supervision.columns["time"][0] == "1970-01-01T00:00:01.500+00:00"


def test_odd_ones_and_picks_are_those_of_the_library():
    supervision = to_constraints([stored("odd", ["a", "b", "c"], [1])], IDS)
    direct = Constraints.from_odd_one_out([[0, 1, 2]], [1], n_points=5)
    np.testing.assert_array_equal(supervision.triplets, direct.triplets)
    np.testing.assert_array_equal(supervision.weights, direct.weights)
    supervision = to_constraints([stored("pick", list("abcde"), [2, 4])], IDS)
    direct = Constraints.from_picks([0], [[1, 2, 3, 4]], [[2, 4]], n_points=5)
    np.testing.assert_array_equal(supervision.triplets, direct.triplets)
    np.testing.assert_array_equal(supervision.weights, direct.weights)


def test_cannot_tell_counts_half_for_both_sides():
    supervision = to_constraints([stored("triplet", ["a", "b", "c"], [], "unsure")], IDS)
    assert sorted(supervision.triplets.tolist()) == [[0, 1, 2], [0, 2, 1]]
    assert supervision.weights.tolist() == [0.5, 0.5]


def test_held_out_questions_are_never_learned_from_whoever_repeats_them():
    answers = [
        stored("triplet", ["a", "b", "c"], [1], source="held out", held_out=True),
        stored("triplet", ["a", "c", "b"], [2], source="repeat", held_out=True),
        stored("triplet", ["a", "c", "b"], [1]),
        stored("triplet", ["a", "c", "d"], [1]),
        stored("triplet", ["a", "c", "e"], [1], source="catch"),
    ]
    held, taught = split_answers(answers)
    assert (held, taught) == (answers[:1], answers[3:4])


@pytest.mark.parametrize(
    "kind", ["csv", pytest.param("parquet", marks=pytest.mark.needs("pyarrow"))]
)
def test_downloads_are_what_the_library_reads(site, tmp_path, kind):
    browser = Browser(site)
    for choice in (1, 2, 1, 2):
        browser.answer([choice])
    browser.answer([], "unsure")
    browser.answer([], "skip")
    path = tmp_path / f"answers.{kind}"
    path.write_bytes(browser.client.get(f"/owner/answers.{kind}").content)
    read = Constraints.read(path, ids=site.items.ids)
    assert read == to_constraints(site.storage.answers(), site.items.ids)
    assert len(read.triplets) == 6
    assert set(read.columns["who"]) == {"ann"}


# Items


def test_the_demo_has_pictures_and_features(tmp_path):
    items = read_items(write_demo(tmp_path))
    assert items.X.shape == (60, 3)
    assert items.features == ("red", "green", "blue")
    assert items.show(0)["parts"] == [{"kind": "image", "url": f"media/0/0?{items.mark(0, 0)}"}]
    path, media = items.find_file(0, 0)
    assert media == "image/png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_columns_are_recognised_by_what_they_hold(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    (tmp_path / "b.jpg").write_bytes(b"")
    table = tmp_path / "items.csv"
    table.write_text(
        "picture,title,size\na.jpg,An apple,1\nb.jpg,A bear,2.5\n"
        "https://example.org/c.jpg,A car,3\n"
    )
    items = read_items(table)
    assert list(items.ids)[:2] == ["a.jpg", "b.jpg"]
    assert [column.kind for column in items.columns] == ["image", "text"]
    assert items.X.tolist() == [[1], [2.5], [3]]
    assert items.origins == ["https://example.org"]
    assert items.show(2)["parts"][0]["url"] == "https://example.org/c.jpg"


def test_items_without_anything_to_show_show_their_numbers(tmp_path):
    table = tmp_path / "items.csv"
    table.write_text("x,y\n1,2\n3,4\n5,6\n")
    items = read_items(table)
    shown = items.show(1)["parts"]
    assert shown == [{"kind": "numbers", "rows": [["x", "3"], ["y", "4"]]}]


def test_items_with_names_and_numbers_show_both(tmp_path):
    table = tmp_path / "items.csv"
    table.write_text("Item,x\nred chair,1\noak lamp,3\nold sofa,5\n")
    shown = read_items(table, id_column="Item").show(1)["parts"]
    assert shown == [
        {"kind": "text", "text": "oak lamp"},
        {"kind": "numbers", "rows": [["x", "3"]]},
    ]


@pytest.mark.needs("pyarrow")
def test_features_come_from_another_file_by_id(tmp_path):
    table, features = tmp_path / "items.csv", tmp_path / "features.csv"
    table.write_text("id,title\np,P\nq,Q\nr,R\n")
    features.write_text("file,f1\nr,3\np,1\nq,2\n")
    assert read_items(table, features=features).X.tolist() == [[1], [2], [3]]
    np.save(tmp_path / "X.npy", np.arange(6.0).reshape(3, 2))
    assert read_items(table, features=tmp_path / "X.npy").X.tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("id,x\np,1\nq,2\n", {}, "needs three items, got 2"),
        ("id,x\np,1\nq,2\np,3\n", {}, "Two items have the id 'p'"),
        ("id,x\np,1\nq,two\nr,3\n", {}, "column 'x' holds 'two'"),
        ("id,x\np,1\nq,2\nr,3\n", {"shown": [("image", "pic")]}, "no column 'pic'"),
        ("id,f\np,a.png\nq,b.png\nr,c.png\n", {}, "there is no file"),
        ("id,x\np,1\nq\nr,3\n", {}, "1 cells, but 2"),
        ("id,id\np,1\n", {}, "there twice"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(tmp_path, text, options, message):
    table = tmp_path / "items.csv"
    table.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_items(table, **options)


def test_of_a_table_with_an_embedding_the_other_numbers_are_shown(tmp_path):
    table = tmp_path / "items.csv"
    table.write_text("id,year,embed_1,embed_2\na,1990,0.1,0.2\nb,1991,0.3,0.4\nc,1992,0.5,0.6\n")
    items = read_items(table)
    assert items.features == ("embed_1", "embed_2")
    assert items.X.tolist() == [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]
    assert not items.is_scaled
    assert items.show(1)["parts"] == [{"kind": "text", "text": "1991"}]


def test_answers_in_the_place_of_items_are_refused(tmp_path):
    table = tmp_path / "answers.csv"
    table.write_text("a,b,c,weight,who,time,seconds,source,question\n0,1,2,1,ann,t,1,active,q\n")
    with pytest.raises(ValueError, match=r"answers of a study, not its items\. Give the table"):
        read_items(table)


def test_questions_need_enough_items():
    with pytest.raises(ValueError, match="shows 7 items, but there are 5"):
        Composer(Plan(form="pick"), IDS)


def test_gold_must_fit_the_form():
    gold = Constraints(pairs=[[0, 1]], pair_labels=[1], n_points=5)
    with pytest.raises(ValueError, match="need columns a,b,c"):
        Composer(Plan(), IDS, gold)
    with pytest.raises(ValueError, match="need columns item1,item2,item3,odd"):
        Composer(Plan(form="odd"), IDS, gold)
    asked = ask_many(Plan(form="same", catch=0.5), 10, gold, ids=8)
    assert {tuple(q["expected"]) for q in asked if q["source"] == "catch"} == {(1,)}
    gold = Constraints.from_picks([0], [[1, 2, 3, 4]], [[3]], n_points=8)
    with pytest.raises(ValueError, match="the one about '0' shows 4 with 1 picked"):
        Composer(Plan(form="pick", pick=2, show=4), list("01234567"), gold)


@pytest.mark.parametrize(
    ("plan", "gold", "shown", "right"),
    [
        (
            Plan(form="odd", catch=0.5),
            Constraints.from_odd_one_out([[0, 1, 2], [5, 3, 4]], [1, 5], n_points=8),
            [{0, 1, 2}, {3, 4, 5}],
            [{1}, {5}],
        ),
        (
            Plan(form="pick", pick=2, show=4, catch=0.5),
            Constraints.from_picks(
                [0, 0], [[1, 2, 3, 4], [4, 5, 6, 7]], [[1, 3], [7, 4]], n_points=8
            ),
            [{0, 1, 2, 3, 4}, {0, 4, 5, 6, 7}],
            [{1, 3}, {4, 7}],
        ),
    ],
)
def test_catch_questions_of_every_form_expect_the_known_answer_in_any_place(
    plan, gold, shown, right
):
    asked = [q for q in ask_many(plan, 80, gold, ids=8) if q["source"] == "catch"]
    places = set()
    for question in asked:
        rows = [int(name.removeprefix("item ")) for name in question["items"]]
        known = shown.index(set(rows))
        assert {rows[place] for place in question["expected"]} == right[known]
        assert question["expected"] == check_choice(plan, "answer", question["expected"], len(rows))
        places.add(tuple(question["expected"]))
    assert len(places) == {"odd": 3, "pick": 6}[plan.form]


def test_items_are_values():
    items = Items(IDS, (Column("text", IDS),))
    assert items.rows["c"] == 2
    assert make_items().X.shape == (30, 3)

"""A study is one thing: whoever starts with something else is told, and no answer changes sides."""

import re
import sqlite3
import time
from multiprocessing import Pipe

import numpy as np
import pytest
from ask_site import Browser, check_model, make_items, make_site
from typer.testing import CliRunner

from mdaml.ask import running as running_
from mdaml.ask.items import Column, Items, read_items
from mdaml.ask.learner import Learner
from mdaml.ask.questions import Plan
from mdaml.ask.running import Running
from mdaml.ask.storage import Storage
from mdaml.ask.study import find_new_place
from mdaml.cli import build_app

pytestmark = pytest.mark.needs("pandas", "uvicorn")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "answers.db"


def fill(place, items, n=12, plan=None, **more):
    """Begin a study with some answers; return the texts of each, the chosen one second."""
    site = make_site(place, items, plan, **more)
    browser, supervision = Browser(site), []
    for k in range(n):
        browser.answer([1 + k % 2])
    for answer in site.storage.answers():
        supervision.append(told(items, answer))
    site.close()
    return supervision


def told(items, answer):
    texts = [items.show(items.rows[name])["parts"][0]["text"] for name in answer["items"]]
    return texts[0], texts[answer["choice"][0]]


def numbered(texts, d=2):
    X = np.array([[sum(map(ord, text)) * (k + 1) % 97 for k in range(d)] for text in texts], float)
    ids = [str(row) for row in range(len(texts))]
    return Items(ids, (Column("text", list(texts)),), X, tuple(f"x{k}" for k in range(d)))


TEXTS = [f"text {letter}" for letter in "abcdefghijklmnopqrst"]


def test_the_same_study_goes_on(place):
    fill(place, make_items())
    first = make_site(place)
    names = first.study
    first.close()
    again = make_site(place)
    assert again.study == names
    assert len(again.storage.answers()) == 12
    again.close()


def test_a_row_on_top_of_a_table_without_ids_is_noticed_and_followed(place):
    supervision = fill(place, numbered(TEXTS))
    later = numbered(["text new", *TEXTS])
    with pytest.raises(
        ValueError, match=r"20 of 20 have moved .*\. Answers about them \(12\)"
    ) as found:
        make_site(place, later)
    assert "--accept-changes" in str(found.value)
    site = make_site(place, later, changes="accept")
    assert [told(later, answer) for answer in site.storage.answers()] == supervision
    site.close()
    make_site(place, later).close()  # is the study from now on


@pytest.mark.parametrize("first", [1, 100])
def test_answers_stay_with_items_that_get_ids_later(place, first):
    supervision = fill(place, numbered(TEXTS))
    rows = numbered(["text new", *TEXTS[::-1]])
    named = Items([str(first + k) for k in range(21)], rows.columns, rows.X, rows.features)
    with pytest.raises(ValueError, match="had no ids, and have some now: 20 of 20 have moved"):
        make_site(place, named)
    site = make_site(place, named, changes="accept")
    assert [told(named, answer) for answer in site.storage.answers()] == supervision
    site.close()


def test_ids_that_are_numbers_are_not_taken_for_rows(place):
    items = numbered(TEXTS)
    fill(place, items)
    turned = Items(
        items.ids[::-1],
        (Column("text", ["corrected", *items.columns[0].cells[-2::-1]]),),
        items.X[::-1],
        items.features,
    )
    with pytest.raises(ValueError, match="the same id now shows something else"):
        make_site(place, turned)


def test_equal_rows_without_ids_can_be_added(place):
    supervision = fill(place, numbered(TEXTS))
    later = numbered([*TEXTS, *TEXTS[:2]])
    with pytest.raises(ValueError, match="2 items were added") as found:
        make_site(place, later)
    assert "moved" not in str(found.value)
    site = make_site(place, later, changes="accept")
    assert [told(later, answer) for answer in site.storage.answers()] == supervision
    assert all(int(name) < 20 for answer in site.storage.answers() for name in answer["items"])
    site.close()


def test_removed_items_keep_their_answers_and_the_owners_page(place):
    items = make_items(20)
    fill(place, items, 30)
    site = make_site(place, items)
    Learner(site.storage, items).step()
    before = Browser(site).client.get("/owner/answers.csv").text
    site.close()
    few = Items(items.ids[5:], (Column("text", items.columns[0].cells[5:]),), items.X[5:])
    few = Items(few.ids, few.columns, few.X, items.features)
    with pytest.raises(
        ValueError, match=r"5 items were removed \(item 0, .*\. Answers about them \(\d+"
    ):
        make_site(place, few)
    site = make_site(place, few, changes="accept")
    client = Browser(site).client
    Learner(site.storage, few).step()
    assert client.get("/api/owner").status_code == 200
    assert sorted(client.get("/owner/answers.csv").text.splitlines()) == sorted(before.splitlines())
    site.close()


@pytest.mark.parametrize("n", [30, 50])
def test_the_model_of_other_items_is_that_of_a_whole_fit(place, n):
    """Nothing is learned from items that were removed, also before the next answer."""
    items, others = make_items(40), make_items(n)
    fill(place, items, 40)
    site = make_site(place, items)
    Learner(site.storage, items).step()
    before = site.storage.latest("model")["model"]
    site.close()
    site = make_site(place, others, changes="accept")
    Learner(site.storage, others).step()
    assert site.storage.latest("model")["model"] != before
    assert check_model(site.storage, others) == "the model of a whole fit"
    site.close()


@pytest.mark.parametrize("left", [0, 5])
def test_nobody_is_asked_about_items_that_were_removed(place, left):
    """Nor are they in a question that is asked again, or in one that was taken back."""
    items, plan = make_items(20), Plan(repeats=0.5)
    fill(place, items, 30, plan)
    site = make_site(place, items, plan)
    last = site.storage.answers("ann")[-1]
    site.close()
    few = Items([*items.ids[20 - left :], *(f"new {k}" for k in range(15))])
    site = make_site(place, few, plan, changes="accept")
    for person in ("ann", "bob"):
        browser = Browser(site, person)
        browser.send({"undo": last["answer"]})
        for _ in range(15):
            browser.answer()
            assert all(
                few.rows.keys() >= {i["name"] for i in q["items"]} for q in browser.questions
            )
    site.close()


def test_a_question_that_shows_too_few_for_the_new_plan_is_not_asked(place):
    fill(place, make_items(), plan=Plan(form="pick", pick=1, show=3))
    site = make_site(place, plan=Plan(form="pick", pick=4, show=6), changes="accept")
    browser = Browser(site)
    browser.answer([1, 2, 3, 4])
    assert len(site.storage.answers()) == 13
    site.close()


def test_a_report_about_items_that_are_gone_is_shown(place):
    items = make_items(20)
    fill(place, items, 30)
    site = make_site(place, items)
    Learner(site.storage, items).step()
    site.items = make_items(10)
    reply = Browser(site).client.get("/api/owner")
    assert reply.status_code == 200
    assert reply.json()["items"]["item 15"]["name"] == "item 15"
    site.close()


def test_another_feature_lets_the_learner_begin_anew(place):
    items = numbered(TEXTS)
    fill(place, items, 30)
    site = make_site(place, items)
    Learner(site.storage, items).step()
    site.close()
    wide = numbered(TEXTS, 3)
    with pytest.raises(ValueError, match=r"There were 2 features, now 3 \(\+ x2\). The metric is"):
        make_site(place, wide)
    site = make_site(place, wide, changes="accept")
    assert site.storage.models() == []
    assert Learner(site.storage, wide).step()
    assert len(site.storage.models()) == 1
    site.close()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            Plan(question="Which is older?"),
            "is now “Which is older.” .triplet.. .* 12 answers to",
        ),
        (Plan(form="odd"), "is now “Which one is the odd one out.” .odd.. .* 12 answers"),
        (Plan(limit=9), "The limit for a person was None, and is now 9. Answers stay valid."),
        (Plan(held_out=0.5), "The share of held-out questions was 0.2, and is now 0.5."),
    ],
)
def test_another_question_is_another_study(place, plan, message):
    fill(place, make_items())
    with pytest.raises(ValueError, match=message):
        make_site(place, plan=plan)
    make_site(place, plan=plan, changes="accept").close()
    make_site(place, plan=plan).close()


def test_another_order_of_items_with_ids_is_the_same_study(place):
    items = make_items(20)
    fill(place, items, 30)
    site = make_site(place, items)
    Learner(site.storage, items).step()
    site.close()
    texts = items.columns[0].cells[::-1]
    turned = Items(items.ids[::-1], (Column("text", texts),), items.X[::-1], items.features)
    site = make_site(place, turned)
    assert site.storage.latest("report") is not None
    site.close()


def test_another_order_of_features_is_named(place):
    items = make_items(20)
    fill(place, items)
    turned = Items(items.ids, items.columns, items.X[:, ::-1], items.features[::-1])
    with pytest.raises(ValueError, match=r"The features are in another order. The metric is"):
        make_site(place, turned)


def test_items_that_show_something_else_under_their_id_are_told(place):
    items = make_items(20)
    fill(place, items)
    texts = ["Other", *items.columns[0].cells[1:]]
    other = Items(items.ids, (Column("text", texts),), items.X, items.features)
    with pytest.raises(ValueError, match=r"1 item was changed \(item 0\): the same id now"):
        make_site(place, other)


def test_another_introduction_needs_consent_again(place):
    fill(place, make_items(), intro="Please agree.")
    with pytest.raises(ValueError, match="Everybody is asked for consent"):
        make_site(place, intro="Please agree to more.")
    site = make_site(place, intro="Please agree to more.", changes="accept")
    known = Browser(site, link=f"/p/{site.signer.seal('person', 'ann')}")
    assert known.page.url.path == "/"
    reply = known.post()
    assert (reply.status_code, reply.json()["error"]) == (403, "Please agree to the text first.")
    Browser(site).answer()
    site.close()


def test_a_place_where_nobody_has_answered_is_free(place):
    make_site(place).close()
    make_site(place, make_items(20)).close()


def test_a_new_study_gets_a_file_of_its_own(place, tmp_path):
    assert find_new_place(place) == place
    place.touch()
    (tmp_path / "answers-2.db").touch()
    assert find_new_place(place) == tmp_path / "answers-3.db"
    with pytest.raises(ValueError, match="pass --study NAME"):
        find_new_place("postgresql://host/study")


def test_the_command_refuses_another_study_in_the_same_place(place, tmp_path):
    fill(place, make_items())
    table = tmp_path / "items.csv"
    table.write_text("id,title,x\na,A,1\nb,B,2\nc,C,3\n")
    result = CliRunner().invoke(
        build_app(), ["ask", str(table), "--answers", str(place), "--no-browser", "--port", "0"]
    )
    assert result.exit_code == 2
    shown = re.sub(r"\s+", " ", result.output)
    assert "30 items were removed" in shown
    assert "perhaps ids are in a column of another name (--id)" in shown
    assert "--new-study" in result.output
    assert len(read_items(table).ids) == 3


def test_a_database_of_the_first_format_is_upgraded(place):
    fill(place, make_items())
    with sqlite3.connect(place) as old:
        for line in (
            "UPDATE settings SET value = '1' WHERE name = 'schema'",
            "DELETE FROM settings WHERE name LIKE 'study%'",
            "ALTER TABLE persons DROP COLUMN intro",
            "ALTER TABLE persons DROP COLUMN is_guest",
            "ALTER TABLE models DROP COLUMN answers",
        ):
            old.execute(line)
    old.close()
    site = make_site(place)
    assert len(site.storage.answers()) == 12
    Browser(site).answer()
    Learner(site.storage, site.items).step()
    site.close()
    again = Storage(place)
    assert again.read_setting("schema") == "2"
    again.close()


class Failed:
    """A learner that ended by an error."""

    exitcode = 1

    def is_alive(self):
        return False

    def kill(self):
        pass

    join = kill


class Killed(Failed):
    """A learner that the system ended."""

    exitcode = -9


def test_a_learner_that_fails_is_started_again_for_other_answers_only(place, monkeypatch):
    starts = []
    monkeypatch.setattr(running_, "_WATCH", 0.02)

    def start(*given):
        starts.append(given)
        receiver, sender = Pipe(duplex=False)
        receiver.close()
        return Failed(), sender

    monkeypatch.setattr(running_.learner, "start", start)
    site = make_site(place)
    started = Running(site, port=0)
    started.start()
    time.sleep(0.3)
    assert len(starts) == 1
    Browser(site).answer()
    time.sleep(0.3)
    assert len(starts) == 2
    started.close()


def test_a_learner_that_is_killed_is_told_to_the_owner_and_started_again(place, monkeypatch):
    starts = []
    monkeypatch.setattr(running_, "_WATCH", 0.02)

    def start(*given):
        starts.append(given)
        receiver, sender = Pipe(duplex=False)
        receiver.close()
        return Killed(), sender

    monkeypatch.setattr(running_.learner, "start", start)
    started = Running(make_site(place), port=0)
    started.start()
    end = time.monotonic() + 20
    while len(starts) < 3:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert "ended by signal 9" in started.site.storage.failure()
    started.close()

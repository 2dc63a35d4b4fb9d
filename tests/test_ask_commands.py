"""The commands ``mdaml ask`` and ``mdaml suggest``, as a user calls them."""

import re
import signal
import socket

import httpx
import numpy as np
import pytest
from ask_site import make_answer, make_site, read_token
from typer.testing import CliRunner

from mdaml import Constraints, Euclidean
from mdaml.ask.items import read_items, write_demo
from mdaml.ask.owner_pages import write_answers
from mdaml.ask.security import Access
from mdaml.ask.several import open_sites
from mdaml.cli import build_app

pytestmark = pytest.mark.needs("pandas", "pyarrow", "uvicorn")

MAIN = "from mdaml.cli import main\nif __name__ == '__main__':\n    main()\n"


@pytest.fixture
def demo(tmp_path):
    return write_demo(tmp_path)


def run(*arguments):
    return CliRunner().invoke(build_app(), [str(argument) for argument in arguments])


@pytest.mark.needs("POSIX")
@pytest.mark.parametrize(("options", "is_told"), [((), True), (("--id", "Item"), False)])
def test_owners_are_told_that_items_are_named_by_their_rows(start, tmp_path, options, is_told):
    script, table = tmp_path / "main.py", tmp_path / "items.csv"
    script.write_text(MAIN)
    table.write_text("Item,size\nred chair,1\noak lamp,2\nold sofa,5\n")
    where = ["--port", "0", "--no-browser", "--no-learn", "--answers", tmp_path / "said.db"]
    process = start(script, "ask", table, *where, *options)
    lines = [process.stdout.readline() for _ in range(2)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert lines[0] == "3 items, 1 features.\n"
    assert ("--id COLUMN" in lines[1]) == is_told


@pytest.mark.needs("POSIX")
def test_ask_serves_a_table_until_it_is_interrupted(start, demo, tmp_path):
    script = tmp_path / "main.py"
    script.write_text(MAIN)
    place = tmp_path / "said.db"
    options = ["--port", "0", "--no-browser", "--no-learn", "--answers", place]
    options += ["--question", "Which is bluer?", "--method", "localmdaml"]
    process = start(script, "ask", demo, *options)
    lines = [process.stdout.readline() for _ in range(4)]
    assert lines[0] == "60 items, 3 features.\n"
    url = re.search(r"http://\S+", lines[1])[0]
    with httpx.Client(base_url=url, follow_redirects=True) as client:
        client.post("/start", data={"name": "ann", "token": read_token(client.get("/").text)})
        page = client.get("/ask").text
        assert "Which is bluer?" in page
        headers = {"x-page-token": read_token(page)}
        reply = client.post("/api/answers", json={"events": []}, headers=headers).json()
        events = [make_answer(reply["questions"][0]["id"])]
        client.post("/api/answers", json={"events": events}, headers=headers)
        supervision = client.get("/owner/answers.csv")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "Stopped. All answers are stored.\n"
    (site,) = open_sites(place, Access())
    assert site.method == "localmdaml"
    site.close()
    path = tmp_path / "said.csv"
    path.write_bytes(supervision.content)
    assert len(Constraints.read(path, ids=read_items(demo).ids).triplets) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "or pass --demo"),
        (["nowhere.csv"], "There is no file nowhere.csv."),
        (["DEMO", "--demo"], "or pass --demo"),
        (["DEMO", "--image", "photo"], "there is no column 'photo'"),
        (["DEMO", "--held-out", "2"], "Shares must be"),
        (["DEMO", "--gold", "DEMO"], "items.csv"),
        (["DEMO", "--intro", "nowhere.md"], "There is no file nowhere.md."),
        (["DEMO", "--answers", "/nowhere/answers.db"], "There is no folder /nowhere"),
        (["DEMO", "--database", "mysql://x"], "must be a file or postgresql://"),
        (["DEMO", "--form", "pick", "--pick", "9"], "Picks must be fewer"),
        (["DEMO", "--port", "99999"], "65535"),
        (["DEMO", "--method", "lmnn"], "'lmnn' is not one of 'mdaml', 'localmdaml'"),
    ],
)
def test_ask_refuses_what_it_cannot_use_before_anybody_answers(demo, tmp_path, arguments, message):
    given = [demo if argument == "DEMO" else argument for argument in arguments]
    if "--answers" not in given and "--database" not in given:
        given += ["--answers", tmp_path / "said.db"]
    result = run("ask", "--no-browser", "--port", "0", *given)
    assert result.exit_code == 2, result.output
    assert message in result.output


def test_a_port_that_is_taken_is_named(demo, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("ask", demo, "--answers", tmp_path / "a.db", "--port", port, "--no-browser")
    assert result.exit_code == 2
    assert f"Cannot listen on 127.0.0.1:{port}" in result.output


@pytest.mark.parametrize("kind", ["db", "csv"])
def test_suggest_writes_questions_that_were_not_asked(demo, tmp_path, kind):
    items = read_items(demo)
    site = make_site(tmp_path / "said.db", items)
    events = []
    for n in range(30):
        reply = site.collector.submit("ann", events).result()
        events = [make_answer(reply["questions"][0]["id"], [1 + n % 2])]
    asked = {(a["items"][0], *sorted(a["items"][1:])) for a in site.storage.answers()}
    (tmp_path / "said.csv").write_bytes(write_answers(site, "csv"))
    site.close()
    for picture in tmp_path.glob("*.png"):
        picture.unlink()  # not needed any more
    model, out = tmp_path / "model.mdaml", tmp_path / "questions.csv"
    Euclidean().fit(items.X).save(model)
    answers = ["--answers", tmp_path / f"said.{kind}"]
    result = run("suggest", model, demo, *answers, "-n", 40, "--out", out)
    assert result.exit_code == 0, result.output
    found = Constraints.read(out, ids=items.ids)
    assert len(found.triplets) == 40
    named = np.array(items.ids)[found.triplets].tolist()
    assert not asked & {(a, *sorted((b, c))) for a, b, c in named}


def test_suggest_needs_the_features_of_the_model(demo, tmp_path):
    model, table = tmp_path / "model.mdaml", tmp_path / "texts.csv"
    Euclidean().fit(np.eye(4)).save(model)
    result = run("suggest", model, demo, "--out", tmp_path / "questions.csv")
    assert result.exit_code == 2
    assert "The model needs 4 features, but there are 3." in result.output
    table.write_text("id,title\na,A\nb,B\nc,C\n")
    result = run("suggest", model, table, "--out", tmp_path / "questions.csv")
    assert "The items have no features" in result.output
    assert not (tmp_path / "questions.csv").exists()

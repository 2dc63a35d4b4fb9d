"""Several studies in one database and on one server: nothing of one is seen in another."""

import re
import signal

import httpx
import numpy as np
import pytest
from ask_site import HERE, Browser, make_items, make_site, read_token
from starlette.testclient import TestClient
from typer.testing import CliRunner

from mdaml.ask.items import read_items, write_demo
from mdaml.ask.learner import Learner
from mdaml.ask.questions import Plan
from mdaml.ask.security import Access, make_access
from mdaml.ask.server import Site
from mdaml.ask.several import make_app, open_sites
from mdaml.ask.storage import Storage, list_studies
from mdaml.ask.study import check_name
from mdaml.cli import build_app
from mdaml.constraints import Constraints

pytestmark = pytest.mark.needs("pandas", "uvicorn")

MAIN = "from mdaml.cli import main\nif __name__ == '__main__':\n    main()\n"
PLANS = {"birds": Plan(question="Which sings alike?"), "fish": Plan(form="odd", limit=50)}


@pytest.fixture
def place(tmp_path):
    return tmp_path / "answers.db"


@pytest.fixture
def sites(place):
    made = {name: make_site(place, make_items(20), plan, name) for name, plan in PLANS.items()}
    yield made
    for site in made.values():
        site.close()


def visit(sites):
    """Return a client of a server that runs all sites."""
    return TestClient(make_app(list(sites.values())), base_url=HERE)


def test_answers_persons_and_secrets_of_studies_are_apart(sites, place):
    client = visit(sites)
    ann = {name: Browser(site, client=client, root=site.path) for name, site in sites.items()}
    event = ann["birds"].answer([1])
    ann["fish"].answer([2])
    ann["fish"].answer([0])
    # The same person in both, an undo of an answer of the other study, and a question of it.
    assert ann["fish"].send({"undo": event["id"]})["n_answers"] == 2
    again = event | {"id": "another answer"}
    assert ann["fish"].send(again)["refused"] == ["There is no such question."]
    assert ann["birds"].send()["n_answers"] == 1
    assert {name: len(site.storage.answers()) for name, site in sites.items()} == {
        "birds": 1,
        "fish": 2,
    }
    assert len({site.signer.sign("owner") for site in sites.values()}) == 2
    assert list_studies(place) == ["birds", "fish"]


def test_each_study_has_cookies_of_its_own_under_its_own_path(sites):
    client = visit(sites)
    for site in sites.values():
        Browser(site, site.storage.study, client=client, root=site.path)
    cookies = {cookie.path: cookie.name for cookie in client.cookies.jar}
    assert set(cookies) == {"/s/birds/", "/s/fish/"}
    for site in sites.values():
        assert site.study.id in cookies[f"{site.path}/"]
        page = client.get(f"{site.path}/ask").text
        assert f'data-study="{site.study.id}"' in page  # with which names in storage begin
        assert f'data-person="{site.storage.study}"' in page
        assert f'src="{site.path}/static/ask.js"' in page


@pytest.mark.needs("POSIX")
def test_another_program_may_open_and_close_the_database_meanwhile(sites, place, start):
    """It takes the file ahead away if the locks of the server are lost."""
    browsers = [Browser(site) for site in sites.values()]
    for browser in browsers:
        browser.answer([1])
    ahead = place.with_name("answers.db-wal")
    first = ahead.stat().st_ino
    script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1])"
    script += "; print(db.execute('SELECT count(*) FROM birds__answers').fetchall()); db.close()"
    assert start("-c", script, place).communicate(timeout=60) == ("[(1,)]\n", "")
    assert ahead.stat().st_ino == first
    for browser in browsers:
        browser.answer([1])
    again = Storage(place, "birds")
    assert len(again.answers()) == 2
    again.close()


def test_links_of_one_study_are_refused_by_another(place):
    access = Access(is_open=False)
    sites = {name: make_site(place, plan=p, study=name, access=access) for name, p in PLANS.items()}
    birds, _ = sites.values()
    client = visit(sites)
    for kind in ("o", "join"):
        signature = birds.signer.sign({"o": "owner", "join": "join"}[kind])
        assert client.get(f"/s/fish/{kind}/{signature}").status_code == 403
        assert client.get(f"/s/birds/{kind}/{signature}").status_code == 200
    sealed = birds.signer.seal("person", "ann")
    assert client.get(f"/s/fish/p/{sealed}").status_code == 403
    assert client.get(f"/s/birds/p/{sealed}").status_code == 200
    assert client.get("/s/fish/owner").status_code == 403
    assert client.get("/").status_code == 401  # strangers learn no names
    for path in ("/s/other", "/s/other/", "/s/", "/s/birds/nothing", "/ask"):
        assert client.get(path).status_code == 404, path
    assert client.get("/s/birds", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    page = client.get("/s/birds/owner")
    headers = {"x-page-token": read_token(page.text)}
    made = client.post("/s/birds/api/links", json={"names": ["bob"]}, headers=headers).json()
    ((_, link),) = made["links"]
    assert link.startswith(f"{HERE}/s/birds/p/")
    assert client.get(link).status_code == 200
    assert re.search(r'href="(/s/birds/join/\w+)"', page.text)
    for site in sites.values():
        site.close()


def test_a_study_without_a_name_keeps_the_root_and_its_links(place):
    old, named = make_site(place, access=Access(is_open=False)), make_site(place, study="birds")
    sealed = old.signer.seal("person", "ann")
    client = visit({"": old, "birds": named})
    assert client.get(f"/p/{sealed}").status_code == 200
    browser = Browser(named, client=client, root="/s/birds")
    browser.answer()
    assert not old.storage.answers()
    assert list_studies(place) == ["", "birds"]
    old.close()
    named.close()


def test_the_first_page_lists_the_studies_of_an_open_server(sites):
    client = visit(sites)
    page = client.get("/").text
    for site in sites.values():
        assert f'href="{site.path}/"' in page
        assert client.get(site.path).status_code == 200
        assert client.get(f"{site.path}/owner").status_code == 200
    assert "Which sings alike?" in page
    assert client.get("/static/style.css").status_code == 200


def test_every_study_learns_from_its_own_answers(sites):
    birds, fish = sites.values()
    browser = Browser(birds)
    for _ in range(15):
        browser.answer()
    for site in sites.values():
        Learner(site.storage, site.items).step()
    assert birds.storage.latest("model") is not None
    assert fish.storage.latest("model") is None
    assert fish.storage.latest("report")["report"]["n_answers"] == 0


# Begun by one command, served by another


def begin(table, place, study, gold=None, method="mdaml", **options):
    plan, storage, access = Plan(**options), Storage(place, study), Access(most_guests=7)
    site = Site(read_items(table), plan, storage, access, gold, "# Hello", method=method)
    Browser(site).answer()
    site.close()


def test_studies_are_opened_as_they_were_begun(tmp_path, place):
    table = write_demo(tmp_path)
    ids = read_items(table).ids
    gold = Constraints(triplets=[[0, 1, 2]], n_points=len(ids))
    begin(table, place, "birds", gold, question="Which sings alike?", limit=30)
    begin(table, place, "fish", form="odd", method="localmdaml")
    birds, fish = open_sites(place, make_access("0.0.0.0", "https://ask.example.org/lab"))
    assert birds.plan == Plan(question="Which sings alike?", limit=30)
    assert (birds.method, fish.method) == ("mdaml", "localmdaml")
    assert birds.composer.gold == [([ids[0]], [ids[1], ids[2]], {ids[1]})]
    assert birds.composer.shares["catch"] > 0
    assert fish.plan.form == "odd"
    assert (fish.intro, fish.access.most_guests) == ("# Hello", 7)
    assert fish.access.public_url == "https://ask.example.org/lab"
    np.testing.assert_array_equal(fish.items.X, read_items(table).X)
    assert len(birds.storage.answers()) == len(fish.storage.answers()) == 1
    for site in (birds, fish):
        site.close()
    (site,) = open_sites(place, Access(), ["fish"])
    assert site.path == "/s/fish"
    site.close()


def test_what_cannot_be_served_is_named(tmp_path, place):
    table = write_demo(tmp_path)
    with pytest.raises(ValueError, match="There is no database"):
        open_sites(place, Access())
    Storage(place).close()
    with pytest.raises(ValueError, match="no study in this database"):
        open_sites(place, Access())
    begin(table, place, "birds")
    with pytest.raises(ValueError, match=r"no study 'fish' .*there is: birds"):
        open_sites(place, Access(), ["fish"])
    lines = table.read_text().splitlines()
    table.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(ValueError, match=r"(?s)Study 'birds'.*1 item was removed"):
        open_sites(place, Access())
    table.unlink()
    with pytest.raises(ValueError, match=r"Study 'birds': there is no .*items.csv any more"):
        open_sites(place, Access())
    make_site(place, study="fish").close()  # items of a script: no file to read them from
    with pytest.raises(ValueError, match="Start it once by mdaml ask ITEMS --study fish"):
        open_sites(place, Access(), ["fish"])


@pytest.mark.parametrize("name", ["Birds", "-a", "a-", "a_b", "a" * 31, "a/b", "ä", " ", "a__b"])
def test_names_of_studies_fit_into_addresses_and_tables(name):
    with pytest.raises(ValueError, match="The name of a study"):
        check_name(name)
    assert check_name("2-birds-3") == "2-birds-3"


def test_other_tables_of_a_database_are_no_studies(place):
    import sqlite3

    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE user_settings (name TEXT)")
    connection.execute("CREATE TABLE app__settings (name TEXT)")
    connection.close()
    assert list_studies(place) == []


@pytest.mark.needs("POSIX")
def test_one_command_serves_all_studies(start, tmp_path, place):
    table = write_demo(tmp_path)
    begin(table, place, "birds", question="Which sings alike?")
    begin(table, place, "fish", form="odd")
    script = tmp_path / "main.py"
    script.write_text(MAIN)
    options = ("--port", "0", "--no-browser", "--no-learn")
    process = start(script, "ask", "serve", place, *options)
    lines = [process.stdout.readline() for _ in range(7)]
    assert lines[0] == "birds: 60 items, 3 features.\n"
    assert lines[3] == "fish: 60 items, 3 features.\n"
    for line, words in ((lines[1], "Which sings alike?"), (lines[4], "odd one out")):
        url = re.search(r"http://\S+", line)[0]
        assert re.search(r"/s/(birds|fish)$", url)
        with httpx.Client(base_url=url, follow_redirects=True) as client:
            token = read_token(client.get("").text)
            form = {"name": "bob", "token": token, "consent": "yes"}
            assert words in client.post("start", data=form).text
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "Stopped. All answers are stored.\n"


def test_the_command_says_what_is_wrong(tmp_path):
    def run(*words):
        return CliRunner().invoke(build_app(), ["ask", "serve", *map(str, words)])

    assert "Missing argument 'DATABASE'" in run().output
    assert "There is no database" in run(tmp_path / "nothing.db").output
    table = write_demo(tmp_path)
    table.chmod(0o644)
    assert "items.csv: this is not a database of answers" in run(table).output
    assert table.stat().st_mode & 0o777 == 0o644  # nor is it closed to others, as those are
    wrong = run(tmp_path / "nothing.db", "--public-url", "ask.example.org")
    assert "must be like https://ask.example.org" in wrong.output
    assert "Usage: mdaml ask serve [OPTIONS] DATABASE" in run("--help").output

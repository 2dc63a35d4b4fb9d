"""Nobody gets in who does not belong, and nothing gets out that is not listed."""

import shutil
import time
from types import SimpleNamespace

import pytest
from ask_site import HERE, Browser, make_answer, make_site, read_token
from sqlalchemy.exc import DataError
from starlette.testclient import TestClient
from suite.needs import skip_without

from mdaml.ask.bodies import MOST_BYTES
from mdaml.ask.items import Column, Items, is_address, read_items
from mdaml.ask.questions import Plan
from mdaml.ask.security import Access, Rates, Signer, check_person, is_loopback
from mdaml.ask.storage import Storage, Transaction

LINKS = Access(is_open=False, hosts=("*",))


@pytest.fixture
def run(tmp_path):
    made = []

    def start(**more):
        made.append(make_site(tmp_path / f"{len(made)}.db", **more))
        return made[-1]

    yield start
    for site in made:
        site.close()


def client_of(site, **more):
    return TestClient(site.app(), base_url=HERE, **more)


# Links


PRIVATE = ["/", "/ask", "/owner", "/api/owner", "/owner/answers.csv", "/owner/model.mdaml"]


@pytest.mark.parametrize("path", PRIVATE)
def test_without_a_link_nothing_is_shown(run, path):
    client = client_of(run(access=LINKS), follow_redirects=True)
    assert client.get(path).status_code in (401, 403)


def test_a_personal_link_opens_the_questions_but_not_the_owners_page(run):
    site = run(access=LINKS)
    browser = Browser(site, link=f"/p/{site.signer.seal('person', 'Zoë / 1')}")
    browser.answer()
    assert site.storage.answers()[0]["person"] == "Zoë / 1"
    assert browser.client.get("/owner").status_code == 403
    assert browser.client.get("/owner/answers.csv").status_code == 403
    reply = browser.client.post(
        "/api/links", json={"names": ["eve"]}, headers={"x-page-token": browser.token}
    )
    assert reply.status_code == 403


def test_only_the_signature_of_the_purpose_is_good(run):
    site = run(access=LINKS)
    client, sign = client_of(site), site.signer.sign
    for wrong in (sign("join"), sign("person", "ann"), "", "x" * 40, sign("owner")[:-1]):
        assert client.get(f"/o/{wrong}").status_code in (403, 404)
    sealed = site.signer.seal("person", "ann")
    for wrong in (
        sealed[:-1],
        "YW5u." + sign("owner"),
        sealed.replace("YW5u", "Ym9i"),
        "é.é",
        "YW5u",
    ):
        assert client.get(f"/p/{wrong}").status_code == 403
    assert client.get(site.owner_path()).status_code == 200


def test_another_study_has_other_links(run):
    one, two = run(access=LINKS), run(access=LINKS)
    link = f"/p/{one.signer.seal('person', 'ann')}"
    assert client_of(one).get(link).status_code == 200
    assert client_of(two).get(link).status_code == 403


def test_a_forged_cookie_is_nobody(run):
    site = run()
    client = client_of(site)
    client.cookies.set(f"mdaml_{site.study.id}__person", "YW5u." + "0" * 40)
    reply = client.post("/api/answers", json={"events": []})
    assert reply.status_code == 401


def test_the_owner_makes_links_that_work(run):
    site = run(access=LINKS)
    client = client_of(site)
    token = read_token(client.get(site.owner_path()).text)
    reply = client.post(
        "/api/links", json={"names": ["Ann", "Bob"]}, headers={"x-page-token": token}
    )
    (_, first), (_, second) = reply.json()["links"]
    Browser(site, link=first).answer()
    Browser(site, link=second).answer()
    assert {a["person"] for a in site.storage.answers()} == {"Ann", "Bob"}


def test_the_link_for_anybody_makes_a_new_person_each_time(run):
    site = run(access=LINKS)
    path = f"/join/{site.signer.sign('join')}"
    for _ in range(2):
        Browser(site, link=path).answer()
    assert len({a["person"] for a in site.storage.answers()}) == 2
    assert client_of(site).get("/join/" + "0" * 40).status_code == 403


def test_to_look_at_the_link_for_anybody_makes_nobody(run):
    site = run(access=LINKS)
    path = f"/join/{site.signer.sign('join')}"
    for _ in range(5):
        assert client_of(site).get(path).status_code == 200
    assert client_of(site).post(path, data={"token": "0" * 40}).status_code == 403
    assert site.storage.persons() == []


def test_guests_are_limited_and_take_no_place_from_invited_persons(run, monkeypatch):
    monkeypatch.setattr("mdaml.ask.server._MOST_PERSONS", 2)
    site = run(access=Access(is_open=False, hosts=("*",), most_guests=2))
    path = f"/join/{site.signer.sign('join')}"
    codes = []
    for _ in range(4):
        client = client_of(site)
        token = read_token(client.get(path).text)
        codes.append(client.post(path, data={"token": token}).status_code)
    assert codes == [200, 200, 403, 403]
    Browser(site, link=f"/p/{site.signer.seal('person', 'ann')}").answer()


def test_a_guest_who_opens_the_link_again_stays_the_same_person(run):
    site = run(access=LINKS)
    path = f"/join/{site.signer.sign('join')}"
    guest = Browser(site, link=path)
    assert guest.client.get(path).url.path == "/"
    assert len(site.storage.persons()) == 1


def test_links_that_only_work_here_are_told_and_a_public_address_is_used(run):
    for access, host, has_note in (
        (LINKS, "localhost:8765", True),
        (LINKS, "study.example", False),
        (Access(is_open=False, hosts=("*",), public_url="https://a.example/s/"), "[::1]", False),
    ):
        site = run(access=access)
        client = TestClient(site.app(), base_url=f"http://{host}")
        token = read_token(client.get(site.owner_path()).text)
        reply = client.post(
            "/api/links", json={"names": ["Ann"]}, headers={"x-page-token": token}
        ).json()
        assert bool(reply["note"]) is has_note
    assert reply["links"][0][1].startswith("https://a.example/s/p/")


def test_cookies_of_two_studies_on_one_host_do_not_disturb_each_other(run):
    one, two = run(), run()
    first = TestClient(one.app(), base_url="http://127.0.0.1:8001", follow_redirects=False)
    second = TestClient(two.app(), base_url="http://127.0.0.1:8002", follow_redirects=False)
    replies = [
        client.get(f"/p/{site.signer.seal('person', 'ann')}")
        for client, site in ((first, one), (second, two))
    ]
    names = [reply.headers["set-cookie"].partition("=")[0] for reply in replies]
    assert len(set(names)) == 2
    same = TestClient(one.app(), base_url="http://127.0.0.1:8003", follow_redirects=False)
    reply = same.get(f"/p/{one.signer.seal('person', 'ann')}")
    assert reply.headers["set-cookie"].partition("=")[0] not in names


def test_links_cannot_be_tried_without_end(run):
    client = client_of(run(access=LINKS))
    codes = [client.get(f"/p/YW5u.{n:040}").status_code for n in range(60)]
    assert codes[0] == 403
    assert codes[-1] == 429


def test_cookies_are_closed_to_scripts_and_other_sites(run):
    site = run()
    reply = client_of(site, follow_redirects=False).get(f"/p/{site.signer.seal('person', 'a')}")
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    secure = TestClient(site.app(), base_url="https://127.0.0.1", follow_redirects=False)
    reply = secure.get(f"/p/{site.signer.seal('person', 'a')}")
    assert "secure" in reply.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    ("host", "is_safe"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("127.9.9.9", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("example.org", False),
    ],
)
def test_only_loopback_needs_no_links(host, is_safe):
    assert is_loopback(host) is is_safe


# Requests from other sites


def test_a_change_needs_the_token_of_the_page(run):
    site = run()
    browser = Browser(site)
    assert browser.post(**{"x-page-token": "0" * 40}).status_code == 403
    other = Browser(site, "bob")
    assert browser.post(**{"x-page-token": other.token}).status_code == 403
    form = {"name": "eve", "token": "0" * 40}
    assert browser.client.post("/start", data=form).status_code == 403
    assert browser.post().status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_sites_cannot_send_answers_even_with_the_token(run, headers):
    browser = Browser(run())
    assert browser.post(**headers).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "evil.example:80"])
def test_names_that_point_here_are_not_served_on_loopback(run, host):
    client = client_of(run())
    assert client.get("/owner", headers={"host": host}).status_code == 421
    assert client.get("/owner", headers={"host": "localhost:8765"}).status_code == 200


@pytest.mark.parametrize("access", [Access(), LINKS])
@pytest.mark.parametrize("host", ["[::1", "::1]", "[", "a:b:c", "x@127.0.0.1", "127.0.0.1:port"])
@pytest.mark.parametrize("path", ["/", "/owner", "/owner/", "/nowhere", "/api/nowhere"])
def test_hosts_that_are_none_are_refused(run, access, host, path):
    client = client_of(run(access=access), raise_server_exceptions=False)
    assert client.get(path, headers={"host": host}).status_code in (404, 421)


@pytest.mark.parametrize("origin", ["http://[::1", "http://]", "[", "http://[x]:y"])
def test_origins_that_are_none_are_refused(run, origin):
    assert Browser(run()).post(origin=origin).status_code == 403


def test_every_answer_has_a_strict_policy(run):
    site = run()
    browser = Browser(site)
    paths = ["/", "/ask", "/owner", "/api/owner", "/static/ask.js", "/nowhere", "/media/0/0"]
    for path in paths:
        headers = browser.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    page = browser.client.get("/ask").headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page
    assert "script-src 'self';" in page


def test_pages_load_nothing_from_elsewhere_and_have_no_scripts_inside(run):
    browser = Browser(run())
    for path in ("/", "/ask", "/owner"):
        text = browser.client.get(path).text
        assert "http://" not in text
        assert "https://" not in text
        assert "<script>" not in text
        assert " style=" not in text
        assert " onclick=" not in text


# Files


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.png").write_bytes(b"\x89PNG " + name.encode())
    (tmp_path / "secret.png").write_bytes(b"secret")
    (folder / "unlisted.png").write_bytes(b"unlisted")
    (folder / "items.csv").write_text("picture\na.png\nb.png\nc.png\n")
    return folder


def test_listed_files_are_sent_as_what_they_are(run, pictures):
    browser = Browser(run(items=read_items(pictures / "items.csv")))
    reply = browser.client.get("/media/1/0")
    assert (reply.content, reply.headers["content-type"]) == (b"\x89PNG b", "image/png")
    assert "sandbox" in reply.headers["content-security-policy"]


def test_browsers_never_show_a_file_that_they_kept_in_the_place_of_another(run, pictures):
    table = pictures / "items.csv"
    site = run(items=read_items(table))
    client = Browser(site).client
    before = [site.items.show(row)["parts"][0]["url"] for row in range(3)]
    assert client.get(before[0]).content == b"\x89PNG a"
    table.write_text("picture\nunlisted.png\na.png\nb.png\nc.png\n")
    site.items = read_items(table)
    after = [site.items.show(row)["parts"][0]["url"] for row in range(4)]
    assert not set(before) & set(after)
    assert [client.get(url).status_code for url in before] == [404] * 3
    assert client.get(after[1]).content == b"\x89PNG a"
    (pictures / "a.png").write_bytes(b"\x89PNG another")
    assert client.get(after[1]).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        *["/media/3/0", "/media/-1/0", "/media/0/1", "/media/0/9999999999999999999"],
        *["/media/../../secret.png", "/media/%2e%2e/secret.png", "/media/..%2f..%2fsecret.png"],
        *["/media/0/..%2f..%2fsecret.png", "/media/0/0%00", "/media/0/0/../../../secret.png"],
        *["/media/unlisted.png", "/media/items.csv", "/static/../server.py"],
        *[
            "/static/..%2fserver.py",
            "/static/%2e%2e%2fserver.py",
            "/static/%252e%252e%252fserver.py",
        ],
        *["/static//etc/passwd", "/static/..\\server.py", "/media/０/0"],
    ],
)
def test_nothing_else_is_ever_sent(run, pictures, path):
    browser = Browser(run(items=read_items(pictures / "items.csv")))
    reply = browser.client.get(path)
    assert reply.status_code in (404, 400) or reply.content == b"\x89PNG a"
    assert b"secret" not in reply.content
    assert b"unlisted" not in reply.content


@pytest.mark.parametrize("cell", ["../secret.png", "/etc/hostname.png", "sub/../../secret.png"])
def test_tables_cannot_list_files_outside_their_folder(pictures, cell):
    (pictures / "items.csv").write_text(f"picture\na.png\nb.png\n{cell}\n")
    with pytest.raises(ValueError, match="is not in the folder"):
        read_items(pictures / "items.csv")


@pytest.mark.needs("POSIX")
def test_links_out_of_the_folder_are_not_followed(run, pictures):
    items = read_items(pictures / "items.csv")
    browser = Browser(run(items=items))
    (pictures / "b.png").unlink()
    (pictures / "b.png").symlink_to(pictures.parent / "secret.png")
    assert browser.client.get("/media/1/0").status_code == 404
    with pytest.raises(ValueError, match="is not in the folder"):
        read_items(pictures / "items.csv")


@pytest.mark.parametrize("name", ["page.html", "drawing.svg", "program.js", "items.csv"])
def test_files_that_can_hold_programs_are_refused(pictures, name):
    (pictures / name).write_text("<script>1</script>")
    cells = ("a.png", "b.png", name)
    with pytest.raises(ValueError, match="is no image"):
        Items(list("xyz"), (Column("image", cells),), folder=pictures)


def test_files_need_a_person_or_the_owner(run, pictures):
    site = run(items=read_items(pictures / "items.csv"), access=LINKS)
    client = client_of(site)
    assert client.get("/media/0/0").status_code == 403
    client.get(site.owner_path())
    assert client.get("/media/0/0").status_code == 200


@pytest.mark.parametrize(
    "cell",
    [
        "http://a.example;script-src 'unsafe-inline'/x.png",
        "https:// a/x.png",
        "javascript:alert(1)",
        "data:text/html,x",
        "http:///x.png",
        "//a.example/x.png",
        "http://[::1/x.png",
        "http://a..é/x.png",
    ],
)
def test_addresses_cannot_change_the_policy(cell):
    assert not is_address(cell)


def test_pictures_on_hosts_in_any_script_are_shown(run):
    address = "https://bücher.例え.jp:8080/x.png"
    site = run(items=Items(list("abc"), (Column("image", [address] * 3),)))
    page = Browser(site).client.get("/ask")
    assert page.status_code == 200
    assert "https://xn--bcher-kva.xn--r8jz45g.jp:8080" in page.headers["content-security-policy"]


# Texts, sizes and rates


def test_texts_of_items_and_persons_are_texts(run):
    evil = "</title><script>alert(1)</script>"
    items = Items([f"{evil}{n}" for n in range(3)], (Column("text", [evil] * 3),))
    site = run(items=items, plan=Plan(question=evil), intro=f"Hello {evil}")
    browser = Browser(site, evil)
    for path in ("/", "/ask", "/owner"):
        assert "<script>alert" not in browser.client.get(path).text
    reply = browser.post()
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()["questions"][0]["items"][0]["parts"][0]["text"] == evil


@pytest.mark.parametrize("name", ["", "   ", "x" * 65, "a\u0000b", "\ud800", "a\u202eb", 7, None])
def test_names_that_cannot_be_shown_are_refused(name):
    with pytest.raises(ValueError, match="A name must have"):
        check_person(name)


@pytest.mark.parametrize("name", ["a\u200cnn", "\u200cم", "م\u200d", "م\u200c\u200cم", "\u200d"])
def test_joiners_that_join_nothing_are_refused(name):
    with pytest.raises(ValueError, match="A name must have"):
        check_person(name)


@pytest.mark.parametrize("name", ["می\u200cخواهم", "क्\u200dष", "👩\u200d💻", "Zoë", "李雷"])
def test_names_in_any_script_are_taken(name):
    assert check_person(name) == name


def test_two_ways_to_write_a_letter_are_one_person(run):
    site = run()
    Browser(site, "Zoe\u0308").answer()
    Browser(site, "Zo\u00eb").answer()
    link = f"/p/{site.signer.seal('person', 'Zoe' + chr(0x308))}"
    Browser(site, link=link).answer()
    assert {a["person"] for a in site.storage.answers()} == {"Zo\u00eb"}


def test_large_requests_are_refused(run):
    browser = Browser(run())
    headers = {"x-page-token": browser.token, "content-type": "application/json"}
    reply = browser.client.post("/api/answers", content=b"[" * (MOST_BYTES + 1), headers=headers)
    assert reply.status_code == 413
    assert browser.post(*[{}] * 101).status_code == 400
    many = browser.client.post("/api/answers", content=b"[" * 60_000, headers=headers)
    assert many.status_code == 400
    assert browser.client.post("/api/answers", content=b"[]", headers=headers).status_code == 400


def test_a_person_who_sends_too_fast_is_slowed_down_and_others_are_not(run, monkeypatch):
    site = run()
    # All at one moment, however slow this machine is.
    monkeypatch.setattr("mdaml.ask.security.time", SimpleNamespace(monotonic=lambda: 0.0))
    fast, other = Browser(site, "fast"), Browser(site, "other")
    codes = [fast.post().status_code for _ in range(90)]
    assert codes[:40] == [200] * 40
    assert codes[-20:] == [429] * 20
    assert other.post().status_code == 200


def test_many_events_count_as_many_requests(run, monkeypatch):
    site = run()
    monkeypatch.setattr("mdaml.ask.security.time", SimpleNamespace(monotonic=lambda: 0.0))
    fast = Browser(site, "fast")
    undos = [{"undo": f"nothing {k}"} for k in range(100)]
    codes = [fast.post(*undos).status_code for _ in range(10)]
    assert codes[:2] == [200] * 2
    assert codes[-5:] == [429] * 5


def test_undos_of_nothing_and_links_opened_again_cost_no_change(run, monkeypatch):
    """One person could make all others wait for seconds by either."""
    site = run(access=Access(is_open=False))
    link = f"/p/{site.signer.seal('person', 'ann')}"
    ann, changes = Browser(site, link=link), []
    event = ann.answer()
    writing = site.storage.write
    monkeypatch.setattr(site.storage, "write", lambda **more: changes.append(1) or writing(**more))
    ann.client.get(link)
    assert changes == []
    monkeypatch.setattr(Transaction, "undo", lambda *given: changes.append(given[1:]))
    ann.send(*({"undo": f"nothing {k}"} for k in range(50)), {"undo": event["id"]})
    assert changes == [1, ("ann", event["id"])]


def test_rates_recover():
    rates = Rates(per_second=1000, burst=2)
    assert [rates.allow("a") for _ in range(2)] == [True, True]
    assert rates.allow("b")
    time.sleep(0.01)
    assert rates.allow("a")


def test_databases_take_no_commands_from_texts(run):
    site = run()
    name = "x'); DROP TABLE answers; --"
    browser = Browser(site, name)
    browser.send()
    event = make_answer(browser.questions[0]["id"]) | {"id": "'); DROP TABLE answers;--"}
    browser.send(event)
    (stored,) = site.storage.answers()
    assert stored["person"] == name


def test_one_answer_that_the_database_refuses_does_not_fail_others(run, monkeypatch):
    site, add = run(), Transaction.add_answer

    def refuse(change, answer):
        if answer["id"].startswith("bad"):
            raise DataError("INSERT", {}, ValueError("no"))
        return add(change, answer)

    monkeypatch.setattr(Transaction, "add_answer", refuse)
    events = {}
    for person, name in (("ann", "good answer"), ("eve", "bad answer"), ("bob", "fine answer")):
        question = site.collector.submit(person, []).result()["questions"][0]["id"]
        events[person] = make_answer(question) | {"id": name}
    with site.storage._turn:  # so that all come into one batch
        futures = {who: site.collector.submit(who, [event]) for who, event in events.items()}
    assert isinstance(futures["eve"].exception(5), DataError)
    assert futures["ann"].result(5)["n_answers"] == futures["bob"].result(5)["n_answers"] == 1


@pytest.mark.parametrize("name", ["a\0bcdefgh", "answer\n\n\n", "\x7f" * 9])
def test_ids_that_a_database_may_refuse_are_refused_before(run, name):
    browser = Browser(run())
    browser.send()
    reply = browser.send(make_answer(browser.questions[0]["id"]) | {"id": name})
    assert reply["refused"] == ["An answer needs an id and a question."]
    with pytest.raises(ValueError, match="no NUL"):
        Items(["a", "b", "c\0"])


@pytest.mark.needs("pandas", "pyarrow")
def test_names_are_no_formulas_in_exports(run):
    site = run()
    browser = Browser(site, '=HYPERLINK("http://evil.example")')
    browser.answer()
    text = browser.client.get("/owner/answers.csv").text
    assert "'=HYPERLINK" in text
    assert ",=" not in text
    assert ',"=' not in text


@pytest.mark.needs("POSIX")
def test_a_file_that_is_begun_anew_is_closed_to_others_too(tmp_path):
    place = tmp_path / "answers.db"
    for _ in range(2):
        Storage(place).close()
        assert place.stat().st_mode & 0o777 == 0o600
        place.unlink()


def test_other_users_of_the_machine_cannot_read_the_answers(tmp_path):
    place = tmp_path / "answers.db"
    place.touch(0o644)
    site = make_site(place)
    Browser(site).answer()
    for path in tmp_path.glob("answers*"):
        assert path.stat().st_mode & 0o777 == 0o600, path
    site.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@127.0.0.1:1/study",
        "postgresql://ann:hunter2@127.0.0.1:port/study",
        "postgresql://ann:x@hunter2@127.0.0.1:1/study",
        "postgresql://127.0.0.1:1/study?password=hunter2&hostaddr=hunter2",
        "postgresql://[::1/ann:hunter2@",
        "sqlite://hunter2",
    ],
)
def test_passwords_are_never_printed(url):
    skip_without(["psycopg"])
    with pytest.raises(ValueError, match=r"database|store") as found:
        Storage(url)
    assert "hunter2" not in str(found.value)


def test_a_disk_with_little_room_takes_answers_although_the_file_cannot_grow(tmp_path):
    storage = Storage(tmp_path / "answers.db")
    with storage._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() == 0
    for n in range(110):
        with storage.write() as change:
            change.set(f"setting {n}", "x" * 1000)
    assert (tmp_path / "answers.db").stat().st_size > 100_000  # it is moved there now and then
    storage.close()


def test_a_nearly_full_disk_is_not_filled_by_what_is_written_ahead(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=2**20))
    site = make_site(tmp_path / "answers.db")
    browser = Browser(site)
    for _ in range(30):
        browser.answer()
    assert (tmp_path / "answers.db-wal").stat().st_size < 300_000
    site.close()


def test_secrets_stay_in_the_database(run):
    site = run()
    secret = site.storage.keep_setting("secret", "other")
    assert len(secret) == 64
    assert secret != "other"
    assert Signer(secret).sign("owner") == site.signer.sign("owner")
    browser = Browser(site)
    assert secret not in browser.client.get("/owner").text


def test_people_do_not_see_where_a_question_comes_from(run):
    reply = Browser(run()).send()
    assert set(reply["questions"][0]) == {"id", "items"}

"""Nobody gets in who does not belong, and nothing gets out that is not listed."""

import time
from types import SimpleNamespace

import pytest
from ask_site import HERE, Browser, make_answer, make_site, read_token
from starlette.testclient import TestClient

from mdaml.ask.items import Column, Items, is_address, read_items
from mdaml.ask.questions import Plan
from mdaml.ask.security import MOST_BYTES, Access, Rates, Signer, check_person, is_loopback

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
    client.cookies.set("mdaml_person", "YW5u." + "0" * 40)
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
    ],
)
def test_addresses_cannot_change_the_policy(cell):
    assert not is_address(cell)


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

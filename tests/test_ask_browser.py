"""The pages in a real browser: every form, keyboard, phone, crashes, the owner's page."""

import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
from ask_site import make_site
from playwright import sync_api as playwright
from suite.needs import CHROMIUM, skip_without

from mdaml.ask.items import Items, read_items, write_demo
from mdaml.ask.learner import Learner
from mdaml.ask.questions import FORMS, Plan
from mdaml.ask.running import Running
from mdaml.ask.security import Access

SHOTS = os.environ.get("MDAML_SCREENSHOTS")  # a folder to look at them
pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("Chromium"),
]


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 1000, "height": 800})
    made = context.new_page()
    made.errors = []
    made.on("pageerror", lambda error: made.errors.append(str(error)))
    made.on("console", lambda line: line.type == "error" and made.errors.append(line.text))
    yield made
    context.close()


@pytest.fixture
def run(tmp_path):
    """Start sites; they end with the test."""
    started = []

    def start(items=None, plan=None, port=0, **more):
        site = make_site(tmp_path / "answers.db", items or demo(tmp_path), plan, **more)
        running = Running(site, port=port, learns=False)
        running.start()
        started.append(running)
        return running

    yield start
    for running in started:
        running.close()


def demo(tmp_path) -> Items:
    folder = tmp_path / "colours"
    folder.mkdir(exist_ok=True)
    return read_items(write_demo(folder))


def enter(page, running, name="ann"):
    page.goto(running.url)
    page.fill("input[name=name]", name)
    page.click("button[type=submit]")
    page.wait_for_selector(".question")


def ready(page):
    """Wait until a question can be answered: clicks right after the last one do not count."""
    page.wait_for_selector(".question")
    page.wait_for_timeout(200)


def wait_stored(running, n, timeout=10):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = running.site.storage.answers()
        if len(found) >= n:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{len(found)} answers instead of {n}")


def wait_true(page, script, timeout=10):
    """Wait for a script; the browser itself must not evaluate one again and again on our pages."""
    end = time.monotonic() + timeout
    while not page.evaluate(script):
        assert time.monotonic() < end, script
        page.wait_for_timeout(50)


def shoot(page, name):
    if SHOTS:
        page.wait_for_load_state("networkidle")
        page.screenshot(path=Path(SHOTS, f"{name}.png"), full_page=True)


def find_violations(page):
    """Return what axe finds against WCAG A and AA."""
    skip_without(["axe_playwright_python"])
    from axe_playwright_python.sync_playwright import Axe

    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}

    found = Axe().run(page, options=options).response["violations"]
    return [(rule["id"], rule["nodes"][0]["html"]) for rule in found]


def test_mouse_keyboard_undo_skip_and_cannot_tell(page, run):
    running = run()
    enter(page, running)
    ready(page)
    page.click(".choice >> nth=0")
    ready(page)
    page.keyboard.press("ArrowRight")
    ready(page)
    page.keyboard.press("2")
    ready(page)
    page.keyboard.press("ArrowDown")
    ready(page)
    page.click("#skip")
    found = wait_stored(running, 5)
    supervision = [(a["outcome"], a["choice"]) for a in found]
    assert supervision == [
        *[("answer", [1]), ("answer", [2]), ("answer", [2])],
        *[("unsure", []), ("skip", [])],
    ]
    assert all(0.1 < a["seconds"] < 60 for a in found)
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    wait_true(page, "document.getElementById('count').textContent === '3 answers'")
    ready(page)
    page.keyboard.press("ArrowLeft")
    wait_true(page, "document.getElementById('count').textContent === '4 answers'")
    time.sleep(0.5)
    assert [(a["outcome"], a["choice"]) for a in running.site.storage.answers()] == [
        *[("answer", [1]), ("answer", [2]), ("answer", [2]), ("answer", [1])],
    ]
    shoot(page, "triplet")
    assert page.errors == []


def test_a_double_click_answers_one_question(page, run):
    running = run()
    enter(page, running)
    ready(page)
    page.dblclick(".choice >> nth=0")
    ready(page)
    time.sleep(0.5)
    assert len(running.site.storage.answers()) == 1


@pytest.mark.parametrize(
    ("form", "keys", "choice"),
    [("odd", ["3"], [2]), ("same", ["ArrowLeft"], [1]), ("pick", ["4", "2"], [2, 4])],
)
def test_every_form_can_be_answered_by_keys_and_by_mouse(page, run, form, keys, choice):
    running = run(plan=Plan(form=form))
    enter(page, running)
    ready(page)
    shoot(page, form)
    for key in keys:
        page.keyboard.press(key)
    assert wait_stored(running, 1)[0]["choice"] == choice
    ready(page)
    buttons = page.locator(".choices button")
    for place in range(len(keys)):
        buttons.nth(place).click()
    found = wait_stored(running, 2)[1]["choice"]
    assert found == {"odd": [0], "same": [1], "pick": [1, 2]}[form]
    assert page.errors == []


def test_texts_numbers_and_sounds_are_shown(page, run, tmp_path):
    table = tmp_path / "items.csv"
    for name in "abc":
        (tmp_path / f"{name}.wav").write_bytes(b"RIFF")
        (tmp_path / f"{name}.mp4").write_bytes(b"")
    table.write_text(
        "id,sound,film,words\n" + "".join(f"{n},{n}.wav,{n}.mp4,Say {n}\n" for n in "abc")
    )
    running = run(read_items(table))
    enter(page, running)
    assert page.locator(".card audio").count() == page.locator(".card video").count() == 3
    assert "Say" in page.locator(".card.anchor p").inner_text()


def test_the_next_question_shows_within_100_ms_with_its_pictures(page, run):
    running = run()
    enter(page, running)
    ready(page)
    times = []
    for _ in range(8):
        page.wait_for_timeout(300)
        times.append(
            page.evaluate(
                """() => new Promise((done) => {
                  const old = document.querySelector(".question"), began = performance.now();
                  const look = () => {
                    const now = document.querySelector(".question");
                    const images = now ? [...now.querySelectorAll("img")] : [];
                    const all = images.every((i) => i.complete && i.naturalWidth);
                    if (now && now !== old && all) done(performance.now() - began);
                    else requestAnimationFrame(look);
                  };
                  document.querySelector(".choice").click();
                  look();
                })"""
            )
        )
    assert np.median(times) < 100, times


def test_answers_wait_in_the_browser_while_the_server_is_away(page, run):
    running = run()
    enter(page, running)
    ready(page)
    page.keyboard.press("1")
    wait_stored(running, 1)
    running.close()
    ready(page)
    page.keyboard.press("2")
    page.wait_for_selector("text=will be sent")
    shoot(page, "offline")
    ready(page)
    page.keyboard.press("2")
    again = run(port=running.port)
    found = wait_stored(again, 3, timeout=40)
    assert [a["choice"] for a in found] == [[1], [2], [2]]
    wait_true(page, "document.getElementById('status').textContent === ''")


def test_a_browser_without_storage_keeps_answers_while_the_page_is_open(page, run):
    getter = "{get() { throw new Error('blocked'); }}"
    page.add_init_script(f"Object.defineProperty(window, 'localStorage', {getter})")
    running = run()
    enter(page, running)
    for _ in range(2):
        ready(page)
        page.keyboard.press("ArrowLeft")
    assert len(wait_stored(running, 2)) == 2
    assert page.errors == []


def test_a_browser_that_crashes_sends_its_answers_when_it_comes_back(chromium, run):
    running = run()
    context = chromium.new_context()
    page = context.new_page()
    enter(page, running)
    ready(page)
    page.route("**/api/answers", lambda route: route.abort())
    page.keyboard.press("1")
    page.wait_for_selector("text=1 answer waits")
    state = context.storage_state()
    context.close()
    assert running.site.storage.answers() == []
    context = chromium.new_context(storage_state=state)
    page = context.new_page()
    page.goto(f"{running.url}/ask")
    assert wait_stored(running, 1)[0]["choice"] == [1]
    wait_true(page, "Object.keys(localStorage).length === 0")
    wait_true(page, "document.getElementById('count').textContent === '1 answer'")
    context.close()


def test_pause_hides_the_question_and_its_time_does_not_count(page, run):
    running = run()
    enter(page, running)
    ready(page)
    page.click("#pause")
    page.keyboard.press("1")
    assert page.is_visible("text=come back by the same link")
    assert not page.is_visible(".question")
    page.wait_for_timeout(1500)
    page.click("#pause")
    page.keyboard.press("1")
    assert wait_stored(running, 1)[0]["seconds"] < 1.4


def test_progress_consent_and_the_end(page, run):
    running = run(
        plan=Plan(limit=2), intro="# Please\n\nLook at the **colours**. <script>x</script>"
    )
    page.goto(f"{running.url}/ask")
    assert page.is_visible("text=I have read this")
    assert page.is_visible("text=<script>x</script>")
    shoot(page, "start")
    page.check("input[name=consent]")
    page.fill("input[name=name]", "ann")
    page.click("button[type=submit]")
    for text in ("1 of 2", "2 of 2"):
        ready(page)
        page.keyboard.press("1")
        page.wait_for_selector(f"text={text}")
    page.wait_for_selector("text=That was all")
    page.keyboard.press("Backspace")
    page.wait_for_selector(".question")
    assert page.errors == []


@pytest.mark.parametrize("form", ["triplet", "pick"])
def test_a_phone_needs_no_scrolling_sideways_and_takes_taps(chromium, run, form):
    running = run(plan=Plan(form=form))
    context = chromium.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True, color_scheme="dark"
    )
    page = context.new_page()
    enter(page, running)
    ready(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    shoot(page, f"phone-{form}")
    heights = page.evaluate(
        "[...document.querySelectorAll('button')].filter((b) => b.offsetHeight)"
        ".map((b) => b.offsetHeight)"
    )
    assert min(heights) >= 40
    for place in range(2 if form == "pick" else 1):
        page.tap(f".choice >> nth={place}")
    wait_stored(running, 1)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", paper))) < 200
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_meet_wcag_aa(chromium, run, scheme):
    running = run(intro="# Please look\n\nAt *all* of them.", plan=Plan(limit=1))
    context = chromium.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()

    def check():
        assert find_violations(page) == []

    page.goto(f"{running.url}/p/nonsense")
    check()
    page.goto(f"{running.url}/owner")  # nothing to show yet
    check()
    page.goto(running.url)
    check()
    page.check("input[name=consent]")
    page.click("button[type=submit]")
    ready(page)
    page.click("#pause")
    check()
    page.click("#pause")
    ready(page)
    page.keyboard.press("1")
    page.wait_for_selector("text=That was all")
    check()
    running.site.plan = running.site.composer.plan = Plan()
    learn_something(running)
    page.goto(f"{running.url}/owner")
    page.wait_for_selector("#map image")
    page.fill("#names", "Zoë")
    page.click("text=Make links")
    page.wait_for_selector("#made li")
    check()
    context.close()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_questions_meet_wcag_aa(chromium, run, form, scheme):
    running = run(plan=Plan(form=form, limit=10))
    context = chromium.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    enter(page, running)
    ready(page)
    if form == "pick":
        page.keyboard.press("1")
    assert find_violations(page) == []
    context.close()


def learn_something(running, n=60, error=0.0, seed=0):
    """Answer as somebody who looks at blue only, but for errors, and learn from it."""
    site, rng = running.site, np.random.default_rng(seed)
    events = []
    for _ in range(n):
        open_questions = site.collector.submit("ann", events).result()["questions"]
        question = open_questions[0]
        a, b, c = (site.items.X[site.items.rows[name]][2] for name in question["items"])
        choice = [1] if (abs(a - b) < abs(a - c)) != (rng.random() < error) else [2]
        event = {"id": f"answer {len(site.storage.answers())}", "question": question["id"]}
        events = [event | {"outcome": "answer", "choice": choice, "seconds": 1.0}]
    site.collector.submit("ann", events).result()
    assert Learner(site.storage, site.items).step()


def test_the_owner_sees_persons_curve_map_neighbours_and_downloads(page, run, tmp_path):
    running = run()
    learn_something(running)
    page.goto(f"{running.url}/owner")
    page.wait_for_selector("#map image")
    shoot(page, "owner")
    assert "60 answers of 1 person" in page.inner_text("#summary")
    assert "ann" in page.inner_text("#persons")
    assert page.locator("#curve svg .dot").count() >= 1
    assert page.locator("#map image").count() == 60
    mapped = running.site.storage.latest("report")["report"]["map"]
    hold = sum(n > 0 and fails == 0 for *_, fails, n in mapped)
    assert page.locator("#map .spot.holds").count() == hold > 0
    assert "of 60 answers fail" in page.inner_text("#fails")
    assert page.locator("#nearest tbody tr").count() == 8
    with page.expect_download() as download:
        page.click("text=Model (.mdaml)")
    path = tmp_path / "model.mdaml"
    download.value.save_as(path)
    from mdaml import load

    model = load(path)
    weights = np.abs(np.diag(model.get_mahalanobis_matrix()))
    assert weights.argmax() == 2
    page.fill("#names", "Zoë <b>\nBob")
    page.click("text=Make links")
    page.wait_for_selector("#made li")
    assert page.locator("#made li").count() == 2
    assert "Zoë <b>" in page.inner_text("#made")
    before = page.locator("#map .spot.most").count()
    page.evaluate("document.querySelector('.spot').dataset.old = 'yes'")
    learn_something(running, 25, error=1.0, seed=1)  # wrong ones: the map shows where they are
    page.wait_for_selector("text=85 answers", timeout=10000)
    assert page.locator("#map .spot.most").count() > before
    assert page.locator("#worst tbody tr").count() == 8
    assert page.locator(".spot[data-old=yes]").count() == 1  # it has moved, and is not drawn anew
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.errors == []


@pytest.mark.parametrize(("error", "words"), [(0.0, "The answers teach"), (0.5, "No sign yet")])
def test_the_owner_is_told_whether_answers_teach(page, run, error, words):
    running = run(plan=Plan(held_out=0.4))
    for part in range(4):
        learn_something(running, 50, error, seed=part)
    page.goto(f"{running.url}/owner")
    page.wait_for_selector("#map image")
    supervision = page.inner_text("#summary")
    assert words in supervision
    assert ("to gain a point" in supervision) <= (error == 0)


def test_the_owner_reads_why_learning_stopped_and_how_many_are_of_each_kind(page, run):
    running = run()
    learn_something(running)
    site = running.site
    of_kinds = {"kinds": [7, 5], "by_kind": [0.74, 0.92]}
    report = site.storage.latest("report")["report"] | of_kinds
    with site.storage.write() as change:
        change.replace_report(report, [])
    site.storage.note_failure("ValueError: no such luck.")
    page.goto(f"{running.url}/owner")
    page.wait_for_selector("#failure:not([hidden])")
    shoot(page, "failure")
    assert "The learner has stopped" in page.inner_text("#failure")
    assert "ValueError: no such luck." in page.inner_text("#failure")
    assert re.search(r"Kinds of people\s+7 and 5", page.inner_text("body"))
    told = page.inner_text("#summary")
    assert "74.0 % of their answers hold under one metric for all, 92.0 % under" in told
    assert page.errors == []


def test_scripts_in_texts_and_names_are_shown_and_do_not_run(page, run):
    from mdaml.ask.items import Column

    evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    items = Items([f"{evil} {n}" for n in range(4)], (Column("text", [evil] * 4),))
    running = run(items, Plan(question=evil))
    enter(page, running, name="<script>alert(1)</script>")
    ready(page)
    assert page.inner_text("h1") == evil
    assert page.locator(".card p").first.inner_text() == evil
    page.keyboard.press("1")
    wait_stored(running, 1)
    Learner(running.site.storage, items).step()
    page.goto(f"{running.url}/owner")
    page.wait_for_selector("#persons td")
    assert "<script>" in page.inner_text("#persons")
    assert page.title() != "owned"


def test_a_personal_link_lets_in_and_no_link_does_not(page, run):
    running = run(access=Access(is_open=False))
    response = page.goto(running.url)
    assert response.status == 401
    sealed = running.site.signer.seal("person", "Zoë / 1")
    page.goto(f"{running.url}/p/{sealed}")
    page.click("button[type=submit]")
    ready(page)
    page.keyboard.press("1")
    assert wait_stored(running, 1)[0]["person"] == "Zoë / 1"
    assert page.goto(f"{running.url}/owner").status == 403
    page.goto(running.owner_url)
    page.wait_for_selector("#links")


# Texts and names of all kinds

LONG = "A very long story that goes on and on. " * 120


def texts(*cells, n=12):
    from mdaml.ask.items import Column

    return Items(
        [f"item {k}" for k in range(n)], (Column("text", list(cells) * (n // len(cells))),)
    )


def test_arrows_scroll_long_texts_and_store_nothing(page, run):
    running = run(texts(LONG))
    enter(page, running)
    ready(page)
    assert page.locator("#unsure kbd").inner_text() == "0"
    for _ in range(4):
        page.keyboard.press("ArrowDown")
        page.wait_for_timeout(100)
    wait_true(page, "window.scrollY > 50")
    page.keyboard.press("ArrowUp")
    page.wait_for_timeout(300)
    assert running.site.storage.answers() == []
    page.keyboard.press("0")
    wait_stored(running, 1)
    wait_true(page, "window.scrollY === 0")
    assert page.errors == []


def test_right_to_left_texts_are_shown_as_they_are_written(page, run):
    running = run(texts("שלום (1).", "Hello (1)."), plan=Plan(question="מה דומה יותר?"))
    enter(page, running, "می\u200cخواهم")
    directions = page.eval_on_selector_all(
        ".card p, #words",
        "nodes => nodes.map((n) => [n.textContent, getComputedStyle(n).direction])",
    )
    for text, direction in directions:
        assert direction == ("ltr" if text.startswith("Hello") else "rtl")
    assert page.locator(".who").inner_text() == "می\u200cخواهم"
    assert page.locator(".who").evaluate("node => node.tagName") == "BDI"
    left, right = (page.locator(".choice").nth(k).bounding_box() for k in (0, 1))
    assert left["x"] < right["x"]


def test_the_focus_stays_in_the_question_after_enter(page, run):
    running = run()
    enter(page, running)
    ready(page)
    page.locator(".choice button").first.focus()
    page.keyboard.press("Enter")
    wait_stored(running, 1)
    ready(page)
    assert page.evaluate("document.activeElement.id") == "stage"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.choice') !== null")
    page.keyboard.press("Enter")
    wait_stored(running, 2)


def test_an_answer_can_be_undone_after_a_reload(page, run):
    running = run()
    enter(page, running)
    ready(page)
    page.keyboard.press("ArrowLeft")
    (first,) = wait_stored(running, 1)
    page.reload()
    ready(page)
    page.click("#undo")
    wait_true(page, "document.getElementById('count').textContent === '0 answers'")
    ready(page)
    page.keyboard.press("ArrowRight")
    wait_true(page, "document.getElementById('count').textContent === '1 answer'")
    page.wait_for_timeout(500)
    (last,) = running.site.storage.answers()
    assert (last["id"], last["choice"]) == (first["id"], [2])
    assert page.errors == []


def test_kept_answers_belong_to_one_person_of_one_study(page, run):
    running = run()
    enter(page, running, "team")
    ready(page)
    study = page.locator("#page").get_attribute("data-study")
    keys = ["mdaml:team:a:0:x", f"mdaml:{study}:team%3Aa:000000000000001:x", "mdaml:0000:team:1:x"]
    page.evaluate("keys => keys.forEach((key) => localStorage.setItem(key, '{}'))", keys)
    page.keyboard.press("ArrowLeft")
    wait_stored(running, 1)
    page.wait_for_timeout(500)
    assert set(page.evaluate("Object.keys(localStorage)")) == set(keys)


def test_two_studies_on_one_server_share_a_browser(page, tmp_path):
    place = tmp_path / "answers.db"
    sites = [make_site(place, demo(tmp_path), study=name) for name in ("birds", "fish")]
    running = Running(*sites, port=0, learns=False)
    running.start()
    for site, person in zip(sites, ("ann", "bob"), strict=True):
        page.goto(running.url)  # the list of studies
        page.click(f"a[href='{site.path}/']")
        page.fill("input[name=name]", person)
        page.click("button[type=submit]")
        ready(page)
        assert page.locator(".card img").count() == 3
        if person == "ann":  # her answer waits in the browser, beside those of the other study
            page.route("**/s/birds/api/answers", lambda route: route.abort())
        page.keyboard.press("1")
        page.wait_for_selector("text=1 answer")
        wait_true(page, "Object.keys(localStorage).length === 1")
    assert [len(site.storage.answers()) for site in sites] == [0, 1]
    page.unroute("**/s/birds/api/answers")
    page.goto(f"{running.url}/s/birds/ask")
    wait_true(page, "Object.keys(localStorage).length === 0")
    assert page.inner_text(".who") == "ann"
    assert [a["person"] for site in sites for a in site.storage.answers()] == ["ann", "bob"]
    running.close()

"""Look at every page of the built site in a headless browser: ``make docs-check``.

A page must load without console errors and failed requests, ask nothing of other hosts, link only
to pages and anchors that exist, and be no wider than a phone. All text must have enough contrast,
on a desk and on a phone, in the light and in the dark. Search and navigation must work.
"""

import argparse
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urlsplit

from axe_playwright_python.sync_playwright import Axe
from conf import SEARCH_WORDS
from playwright.sync_api import Browser, Page, sync_playwright

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
SCHEMES = ("light", "dark")
CONTRAST = {
    "runOnly": {"type": "rule", "values": ["color-contrast"]},
    "resultTypes": ["violations"],
}
READ_PAGE = """() => ({
  links: [...document.querySelectorAll("a[href]")].map(a => a.href),
  images: [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src),
  ids: [...document.querySelectorAll("[id], a[name]")].map(e => e.id || e.name),
})"""
# Also what is cut off without a scroll bar; what scrolls in a box of its own may be wide.
TOO_WIDE = """() => {
  const scrolls = e => e.closest("article") &&
    (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const shown = "article :not(mjx-assistive-mml, mjx-assistive-mml *)";  // not for eyes
  const wide = [...document.querySelectorAll(shown)].find(
    e => e.getBoundingClientRect().right > window.innerWidth + 1 && !scrolls(e));
  const page = document.documentElement.scrollWidth - window.innerWidth;
  return wide ? `cut off on a phone: ${wide.outerHTML.slice(0, 100)}`
    : page > 0 ? `${page} px wider than a phone` : null;
}"""


class QuietHandler(SimpleHTTPRequestHandler):
    """A handler that does not report every request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine, and give its address."""
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Site:
    """The pages as the browser saw them, and all that was wrong."""

    def __init__(self, browser: Browser, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.faults: list[str] = []
        self.n_told = 0
        self.links: dict[str, set[str]] = {}  # page: addresses it links to
        self.ids: dict[str, set[str]] = {}  # page: its anchors
        self.page = browser.new_page(viewport=DESKTOP)
        self._listen(self.page)

    def _listen(self, page: Page) -> None:
        def fault(what: str) -> None:
            self.faults.append(f"{page.url.removeprefix(self.address)}: {what}")

        def on_request(request) -> None:
            if request.url.startswith("http") and not request.url.startswith(self.address):
                fault(f"asks another host for {request.url}")

        def on_failure(request) -> None:
            if request.failure != "net::ERR_ABORTED":  # by ourselves: we went on to another page
                fault(f"no answer for {request.url}")

        page.on("console", lambda said: said.type == "error" and fault(f"console: {said.text}"))
        page.on("pageerror", lambda error: fault(f"script: {error}"))
        page.on("request", on_request)
        page.on("requestfailed", on_failure)
        page.on("response", lambda r: r.status >= 400 and fault(f"{r.status} for {r.url}"))

    def visit(self, name: str, *, color_scheme: str = "light", width: dict = DESKTOP) -> None:
        """Load a page and wait until it is still."""
        self.page.emulate_media(color_scheme=color_scheme)
        self.page.set_viewport_size(width)
        self.page.goto(self.address + name, wait_until="networkidle")

    def check_page(self, name: str) -> None:
        """Load a page, keep its links and anchors, and look at it in both widths and schemes."""
        self.visit(name)
        for width in (DESKTOP, PHONE):
            self.page.set_viewport_size(width)
            for scheme in SCHEMES:
                self.page.emulate_media(color_scheme=scheme)
                self.page.wait_for_function(
                    "t => document.documentElement.dataset.theme == t", arg=scheme
                )
                self._check_contrast(f"{name}, {scheme}, {width['width']} px")
                found = self.page.evaluate(READ_PAGE)
                self.faults += [f"{name}: no picture at {image}" for image in found["images"]]
        self.links[name], self.ids[name] = set(found["links"]), set(found["ids"])
        if wide := self.page.evaluate(TOO_WIDE):
            self.faults.append(f"{name}: {wide}")

    def _check_contrast(self, where: str) -> None:
        # Colours of links fade from one scheme to the other; look at where they end.
        self.page.add_style_tag(content="* { transition: none !important; }")
        for rule in Axe().run(self.page, options=CONTRAST).response["violations"]:
            for node in rule["nodes"]:
                self.faults.append(f"{where}: contrast of {node['html'][:120]}")

    def check_links(self) -> None:
        """Check that every link inside the site leads to a file, and to an anchor of it."""
        for name, links in self.links.items():
            for link in sorted(links):
                if not link.startswith(self.address):
                    continue
                place, anchor = urldefrag(link.removeprefix(self.address))
                target = unquote(urlsplit(place).path) or "index.html"
                target += "index.html" if target.endswith("/") else ""
                if not (self.folder / target).is_file():
                    self.faults.append(f"{name}: links to {target}, which does not exist")
                elif anchor and target in self.ids and unquote(anchor) not in self.ids[target]:
                    self.faults.append(f"{name}: links to {target}#{anchor}, an unknown anchor")

    def check_search(self, word: str, page: str) -> None:
        """Check that the search for a word lists a page first."""
        self.visit(f"search.html?q={quote(word)}")
        hits = self.page.locator("#search-results ul.search > li > a")
        hits.first.wait_for(timeout=20_000)
        self.page.wait_for_timeout(500)  # summaries are fetched page by page
        first = hits.first.evaluate("a => a.href").removeprefix(self.address).partition("?")[0]
        if first.partition("#")[0] != f"{page}.html":
            self.faults.append(f"search: {word!r} leads to {first}, not to {page}.html")

    def check_navigation(self) -> None:
        """Walk through the header on a desktop, and open the menu of a phone."""
        self.visit("index.html")
        header = self.page.locator(".bd-header .navbar-nav a.nav-internal")
        names = [name.strip() for name in header.all_inner_texts()]
        if len(names) < 5:
            self.faults.append(f"navigation: the header has only {names}")
        for name in names:
            self.visit("index.html")
            self.page.locator(".bd-header").get_by_role("link", name=name, exact=True).click()
            self.page.wait_for_load_state("networkidle")
            if self.page.url.removesuffix("#") == f"{self.address}index.html":
                self.faults.append(f"navigation: {name!r} leads nowhere")
        self.visit("index.html", width=PHONE)
        self.page.locator(".bd-header .primary-toggle").click()
        self.page.get_by_role("link", name=names[0], exact=True).first.click()
        self.page.wait_for_load_state("networkidle")
        if self.page.url == f"{self.address}index.html":
            self.faults.append("navigation: the menu of a phone leads nowhere")

    def tell(self) -> None:
        """Print the faults that were found since the last call."""
        for fault in self.faults[self.n_told :]:
            print(fault, flush=True)
        self.n_told = len(self.faults)

    def take_pictures(self, out: Path, names: list[str]) -> None:
        """Save how pages look, wide and narrow, light and dark."""
        out.mkdir(parents=True, exist_ok=True)
        for name in names:
            for size, width in (("wide", DESKTOP), ("phone", PHONE)):
                for scheme in SCHEMES:
                    self.visit(name, color_scheme=scheme, width=width)
                    path = out / f"{Path(name).with_suffix('').as_posix().replace('/', '-')}"
                    self.page.screenshot(path=f"{path}-{size}-{scheme}.png")


def main() -> int:
    """Check a built site and say what is wrong with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the built site, docs/_build/html")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="save pictures of pages")
    parser.add_argument("--pages", nargs="+", metavar="PAGE", help="look at these pages only")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    pages = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.html"))
    # Parts of other pages, not pages: what the theme and the widgets of scikit-learn ship.
    pages = chosen.pages or [name for name in pages if not name.startswith("_")]
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    with serve(folder) as address, sync_playwright() as playwright:
        # Without a browser of the system, the one that `playwright install chromium` brought.
        browser = playwright.chromium.launch(executable_path=browser_path)
        site = Site(browser, folder, address)
        if chosen.pictures:
            site.take_pictures(chosen.pictures, pages)
        else:
            for name in pages:
                site.check_page(name)
                site.tell()
            site.check_links()
            for page, words in SEARCH_WORDS.items():
                for word in words:
                    site.check_search(word, page)
            site.check_navigation()
        browser.close()
    site.tell()
    print(f"{len(pages)} pages, {len(site.faults)} faults")
    return bool(site.faults)


if __name__ == "__main__":
    sys.exit(main())

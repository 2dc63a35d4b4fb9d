"""The site: pages, an interface for their scripts, files of items, and the owner's pages."""

import asyncio
import json
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path

import jinja2
from sqlalchemy.exc import DBAPIError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mdaml.ask import bodies, owner_pages, security
from mdaml.ask.collector import MOST_EVENTS, Collector
from mdaml.ask.fitting import Method
from mdaml.ask.items import Items
from mdaml.ask.markdown import to_html
from mdaml.ask.questions import Composer, Gold, Plan, Row
from mdaml.ask.security import OWNER, PERSON, Access, Rates, Signer, name_cookie
from mdaml.ask.storage import Storage
from mdaml.ask.study import OnChanges, open_study
from mdaml.constraints import Constraints

_HERE = Path(__file__).parent
_LOG = logging.getLogger("uvicorn.error")
_STATIC = {".js": "text/javascript", ".css": "text/css", ".png": "image/png"}
_MONTH = 30 * 24 * 3600
_MOST_PERSONS = 10_000
_EVENTS_PER_CALL = 5  # that count as one request more
_NO_PAGE = "There is no such page. Open your link again."  # instead of two words of a protocol
RECIPE = "recipe"  # the setting that names items, plan and introduction

_Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass
class Site:
    """Everything that answers requests; :meth:`app` returns the application.

    Attributes
    ----------
    items : Items
        What is compared.
    plan : Plan
        What is asked.
    storage : Storage
        Where answers are kept.
    access : Access
        Who may come in.
    gold : Constraints, sequence of Gold or None
        Questions with known answers.
    intro : str
        Instructions and consent, in Markdown; nothing is asked before they are accepted.
    seed : int or None
        Seed of the random questions; None for other questions every time.
    changes : {"refuse", "accept"}
        What to do if the database holds answers to something else: raise an error, or go on.
    method : {"mdaml", "localmdaml"}
        What learns from the answers.
    """

    items: Items
    plan: Plan
    storage: Storage
    access: Access = field(default_factory=Access)
    gold: Constraints | Sequence[Gold] | None = None
    intro: str = ""
    seed: int | None = None
    changes: OnChanges = "refuse"
    method: Method = "mdaml"

    def __post_init__(self) -> None:
        """Prepare everything that can fail before the first request."""
        self.study = open_study(self.storage, self.items, self.plan, self.intro, self.changes)
        self.signer = Signer(self.storage.keep_setting("secret", Signer.make_secret()))
        self.composer = Composer(self.plan, self.items.ids, self.gold, self.seed)
        self._keep_recipe()
        self.collector = Collector(self.storage, self.composer)
        self._agreed = set[str]()
        self._rates = Rates(per_second=10, burst=60)
        self._newcomers = Rates(per_second=20, burst=300)
        self._tries = Rates(per_second=0.2, burst=30)  # links that are not signed
        self._headers = security.make_headers(self.items.origins, self.access.frames)
        loader = jinja2.FileSystemLoader(_HERE / "templates")
        self._pages = jinja2.Environment(loader=loader, autoescape=True)
        static = (_HERE / "static").iterdir()
        self._static = {p.name: p.read_bytes() for p in static if p.suffix in _STATIC}

    def _keep_recipe(self) -> None:
        """Store what is needed to open this study by the name of its database alone."""
        gold = [(first, others, sorted(right)) for first, others, right in self.composer.gold]
        recipe = {
            "items": self.items.source,
            "plan": asdict(self.plan),
            "gold": gold,
            "intro": self.intro,
            "most_guests": self.access.most_guests,
            "method": self.method,
        }
        with self.storage.write() as change:
            change.set(RECIPE, json.dumps(recipe))

    @property
    def path(self) -> str:
        """Where the pages of this study begin on a server; one without a name has the root."""
        return f"/s/{self.storage.study}" if self.storage.study else ""

    def app(self) -> Starlette:
        """Return the application."""
        routes: list[tuple[str, str, _Endpoint]] = [
            ("GET", "/", self._show_start),
            ("POST", "/start", self._start),
            ("GET", "/p/{sealed}", self._enter),
            ("GET", "/join/{signature}", self._show_join),
            ("POST", "/join/{signature}", self._join),
            ("GET", "/o/{signature}", self._enter_owner),
            ("GET", "/ask", self._show_questions),
            ("POST", "/api/answers", self._take_answers),
            ("GET", "/media/{row:int}/{place:int}", self._send_file),
            ("GET", "/static/{name}", self.send_static),
            ("GET", "/owner", partial(owner_pages.show, self)),
            ("GET", "/api/owner", partial(owner_pages.send_report, self)),
            ("POST", "/api/links", partial(owner_pages.make_links, self)),
            ("GET", "/owner/answers.{kind}", partial(owner_pages.send_answers, self)),
            ("GET", "/owner/model.mdaml", partial(owner_pages.send_model, self)),
        ]
        made = [Route(path, self.guard(call), methods=[m]) for m, path, call in routes]
        app = Starlette(routes=made, exception_handlers={HTTPException: self.show_error})
        app.router.redirect_slashes = False  # it would read host names before they are checked
        return app

    def owner_path(self) -> str:
        """Return the path of the owner's link."""
        page = "/owner" if self.access.is_open else f"/o/{self.signer.sign('owner')}"
        return self.path + page

    def close(self) -> None:
        """Store what is waiting, and close the database."""
        self.collector.close()
        self.storage.close()

    # Checks of every request

    def guard(self, endpoint: _Endpoint) -> _Endpoint:
        """Return an endpoint that answers only to requests that may be answered."""

        async def guarded(request: Request) -> Response:
            try:
                self._check(request)
                response = await endpoint(request)
            except HTTPException as error:
                response = self.show_error(request, error)
            except DBAPIError as error:
                # What PostgreSQL says may name machines and users.
                why = f": {str(error.orig).splitlines()[0]}" if self.storage.is_file else ""
                what = f"The server could not save or read{why}."
                _LOG.warning("%s", error.orig)
                response = self.show_error(request, HTTPException(503, what))
            for name, value in self._headers.items():
                response.headers.setdefault(name, value)
            return response

        return guarded

    def _check(self, request: Request) -> None:
        if not security.is_known_host(request, self.access.hosts):
            raise HTTPException(421, "This server does not answer under this host name.")
        if request.method == "POST" and not self._is_slow(request):
            raise HTTPException(429, "Too many requests. Wait some seconds.", {"retry-after": "5"})
        if request.method == "POST" and not security.comes_from_here(request):
            raise HTTPException(403, "This request came from another site.")

    def _is_slow(self, request: Request) -> bool:
        """Whether the client sends requests slowly enough; many persons may share one address."""
        person = self._person(request)
        if person is not None:
            return self._rates.allow(person)
        return self._newcomers.allow(request.client.host if request.client else "")

    def show_error(self, request: Request, error: Exception) -> Response:
        """Return what a browser or a script is told of an error."""
        assert isinstance(error, HTTPException)
        words = _NO_PAGE if error.detail == HTTPStatus.NOT_FOUND.phrase else error.detail
        if "/api/" in request.scope["path"]:
            return JSONResponse({"error": words}, error.status_code, headers=error.headers)
        page = self.page(request, "message.html", message=words)
        page.status_code = error.status_code
        for name, value in (*self._headers.items(), *(error.headers or {}).items()):
            page.headers[name] = value
        return page

    def _person(self, request: Request) -> str | None:
        sealed = request.cookies.get(name_cookie(request, self.study.id, PERSON))
        return self.access.person or self.signer.unseal("person", sealed)

    def _need_person(self, request: Request) -> str:
        person = self._person(request)
        if person is None:
            raise HTTPException(401, "The server does not know you. Open your personal link again.")
        return person

    def need_owner(self, request: Request) -> None:
        """Refuse everybody but the owner."""
        if not self.access.is_open and not self._is_owner(request):
            raise HTTPException(403, "This page is for the owner. Open the owner's link.")

    def _token(self, request: Request) -> str:
        """Return the token that a page of this server must send with a change."""
        return self.signer.sign("page", f"{self._person(request)}\n{self._is_owner(request)}")

    def _is_owner(self, request: Request) -> bool:
        sealed = request.cookies.get(name_cookie(request, self.study.id, OWNER))
        return self.signer.unseal("owner cookie", sealed) is not None

    async def read_json(self, request: Request) -> Row:
        """Return what a script of a page of this server sent."""
        self._check_token(request, request.headers.get("x-page-token"))
        return await bodies.read_json(request)

    async def _read_form(self, request: Request) -> dict[str, str]:
        """Return what a form of a page of this server sent."""
        form = await bodies.read_form(request)
        self._check_token(request, form.get("token"))
        return form

    def _check_token(self, request: Request, given: str | None) -> None:
        if given is None or not security.is_equal(given, self._token(request)):
            raise HTTPException(403, "The page is out of date. Load it again.")

    # Pages for persons

    def page(self, request: Request, name: str, **values: object) -> Response:
        """Return a page made of a template."""
        root = request.scope.get("root_path", "")
        shown = {"root": root, "token": self._token(request), "person": self._person(request)}
        text = self._pages.get_template(name).render(**shown, **values)
        return Response(text, media_type="text/html", headers={"cache-control": "no-store"})

    async def _show_start(self, request: Request) -> Response:
        if self._person(request) is None and not self.access.is_open:
            raise HTTPException(401, "To answer, open the personal link that you were given.")
        return self.page(
            request, "start.html", intro=to_html(self.intro), is_open=self.access.is_open
        )

    async def _start(self, request: Request) -> Response:
        form = await self._read_form(request)
        person = self._person(request)
        if person is None or (self.access.is_open and form.get("name")):
            if not self.access.is_open:
                raise HTTPException(401, "To answer, open the personal link that you were given.")
            try:
                person = security.check_person(form.get("name"))
            except ValueError as error:
                raise HTTPException(400, str(error)) from None
        if self.study.intro and form.get("consent") != "yes":
            raise HTTPException(400, "Please agree to the text first.")
        await run_in_threadpool(self._add_person, person, intro=self.study.intro)
        return self._let_in(request, person, "/ask")

    def _add_person(self, person: str, *, intro: str = "", is_guest: bool = False) -> None:
        known = self.storage.persons(person)
        if known and (not intro or known[0]["intro"] == intro):
            return  # links may be opened again and again, at no cost for those who answer
        most = self.access.most_guests if is_guest else _MOST_PERSONS
        if not known and self.storage.count_persons(is_guest=is_guest) >= most:
            raise HTTPException(403, "All places are taken. Ask for a personal link.")
        with self.storage.write() as change:
            change.add_person(person, intro=intro, is_guest=is_guest)

    def _let_in(self, request: Request, person: str, path: str) -> Response:
        return self._redirect(request, path, PERSON, self.signer.seal("person", person))

    def _redirect(self, request: Request, path: str, kind: str, value: str) -> Response:
        cookie = name_cookie(request, self.study.id, kind)
        response = RedirectResponse(request.scope.get("root_path", "") + path, 303)
        is_safe = request.scope["scheme"] == "https"
        response.set_cookie(
            cookie,
            value,
            max_age=_MONTH,
            path=f"{request.scope.get('root_path', '')}/",
            httponly=True,
            samesite="lax",
            secure=is_safe,
        )
        response.headers["cache-control"] = "no-store"
        return response

    async def _enter(self, request: Request) -> Response:
        person = self.signer.unseal("person", request.path_params["sealed"])
        if person is None:
            raise self._refuse_link(request)
        person = unicodedata.normalize("NFC", person)
        await run_in_threadpool(self._add_person, person)
        return self._let_in(request, person, "/")

    async def _show_join(self, request: Request) -> Response:
        """Ask before a person is made: programs that only look at links must not make any."""
        self._need_join(request)
        if self._person(request) is not None:
            return RedirectResponse(request.scope.get("root_path", "") + "/", 303)
        return self.page(request, "join.html")

    async def _join(self, request: Request) -> Response:
        self._need_join(request)
        await self._read_form(request)
        person = self._person(request)
        if person is None:
            person = f"guest {Signer.make_secret()[:8]}"
            await run_in_threadpool(self._add_person, person, is_guest=True)
        return self._let_in(request, person, "/")

    def _need_join(self, request: Request) -> None:
        if not self.signer.is_signed("join", "", request.path_params["signature"]):
            raise self._refuse_link(request)

    async def _enter_owner(self, request: Request) -> Response:
        if not self.signer.is_signed("owner", "", request.path_params["signature"]):
            raise self._refuse_link(request)
        return self._redirect(request, "/owner", OWNER, self.signer.seal("owner cookie", "yes"))

    def _refuse_link(self, request: Request) -> HTTPException:
        if not self._tries.allow(request.client.host if request.client else ""):
            return HTTPException(429, "Too many wrong links.", {"retry-after": "60"})
        return HTTPException(403, "This link is not valid. Ask for a new one.")

    async def _show_questions(self, request: Request) -> Response:
        person = self._person(request)
        if person is None or not await self._has_agreed(person):
            return RedirectResponse(request.scope.get("root_path", "") + "/", 303)
        plan = self.plan
        return self.page(request, "ask.html", plan=plan, words=plan.words, study=self.study.id)

    async def _has_agreed(self, person: str) -> bool:
        """Whether a person accepted the text; a yes is remembered, without the database."""
        intro = self.study.intro
        if intro and person not in self._agreed:
            known = await run_in_threadpool(self.storage.persons, person)
            self._agreed |= {row["id"] for row in known if row["intro"] == intro}
        return not intro or person in self._agreed

    async def _take_answers(self, request: Request) -> Response:
        person = self._need_person(request)
        events = (await self.read_json(request)).get("events", [])
        if not isinstance(events, list) or len(events) > MOST_EVENTS:
            raise HTTPException(400, f"Send a list of at most {MOST_EVENTS} events.")
        self._rates.allow(person, max(len(events) - 1, 0) / _EVENTS_PER_CALL)  # paid by the next
        if not await self._has_agreed(person):
            raise HTTPException(403, "Please agree to the text first.")
        reply = await asyncio.wrap_future(self.collector.submit(person, events))
        last = reply["last"] and {
            "question": self._show(reply["last"]),
            "answer": reply["last"]["answer"],
            "counts": reply["last"]["outcome"] != "skip",
        }
        questions = [self._show(question) for question in reply["questions"]]
        return JSONResponse(reply | {"questions": questions, "last": last})

    def _show(self, question: Row) -> Row:
        """Return what a person may know of a question."""
        items = [self.show_item(name) for name in question["items"]]
        return {"id": question["id"], "items": items}

    def show_item(self, name: str) -> Row:
        """Return what is shown of an item; its name if it was removed."""
        row = self.items.rows.get(name)
        if row is None:
            return {"name": name, "parts": [{"kind": "text", "text": name}]}
        return self.items.show(row)

    async def _send_file(self, request: Request) -> Response:
        if self._person(request) is None:
            self.need_owner(request)
        row, place = request.path_params["row"], request.path_params["place"]
        found, mark = self.items.find_file(row, place), request.url.query
        # A page that was loaded before the items changed must not show another one in this row.
        if found is None or mark not in ("", self.items.mark(row, place)):
            raise HTTPException(404, "There is no such file.")
        path, media = found
        headers = {"cache-control": "private, max-age=3600"}
        policy = {"content-security-policy": "default-src 'none'; sandbox"}
        return FileResponse(path, media_type=media, headers=headers | policy)

    async def send_static(self, request: Request) -> Response:
        """Send a script, the style or the icon of the pages."""
        name = request.path_params["name"]
        if name not in self._static:
            raise HTTPException(404, "There is no such file.")
        kind = _STATIC[Path(name).suffix]
        return Response(self._static[name], media_type=kind, headers={"cache-control": "no-cache"})

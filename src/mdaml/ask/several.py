"""Several studies in one database and on one server, each with its own links and cookies."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from mdaml.ask.items import read_again
from mdaml.ask.questions import Plan
from mdaml.ask.security import Access
from mdaml.ask.server import RECIPE, Site
from mdaml.ask.storage import Storage, list_studies


def open_sites(place: str | Path, access: Access, only: Sequence[str] = ()) -> list[Site]:
    """Return the studies of a database, as they were begun.

    Parameters
    ----------
    place : str or path
        A file, or ``postgresql://...``.
    access : Access
        Who may come in; each study has its own limit of guests.
    only : sequence of str
        Names of some studies; empty for all.
    """
    known = list_studies(place)
    missing = [name for name in only if name not in known]
    if missing or not known:
        there = ", ".join(name or "one without a name" for name in known) or "none"
        what = f"no study {missing[0]!r}" if missing else "no study"
        raise ValueError(
            f"There is {what} in this database (there is: {there}). mdaml ask ITEMS --study NAME "
            "begins one."
        )
    sites: list[Site] = []
    try:
        for name in only or known:
            sites.append(_open(Storage(place, name), access))
    except ValueError:
        for site in sites:
            site.close()
        raise
    return sites


def _open(storage: Storage, access: Access) -> Site:
    """Return a study as it was begun, or say what has changed since."""
    named = f"--study {storage.study}" if storage.study else "without --study"
    again = f"Start it once by mdaml ask ITEMS {named}"
    try:
        recipe = json.loads(storage.read_setting(RECIPE) or "{}")
        if not recipe.get("items"):
            raise ValueError(f"it does not say where its items are. {again}.")
        items = read_again(recipe["items"])
        allowed = replace(access, most_guests=recipe["most_guests"])
        plan = Plan(**recipe["plan"])
        method = recipe.get("method", "mdaml")  # studies of earlier versions name none
        return Site(items, plan, storage, allowed, recipe["gold"], recipe["intro"], method=method)
    except ValueError as error:
        storage.close()
        called = f"Study {storage.study!r}" if storage.study else "The study without a name"
        raise ValueError(f"{called}: {error}") from None


def make_app(sites: Sequence[Site]) -> Starlette:
    """Return the application of all sites; that without a name has the root."""
    if len(sites) == 1 and not sites[0].path:
        return sites[0].app()
    first, routes = sites[0], list[BaseRoute]()
    for site in sorted(sites, key=lambda site: site.path, reverse=True):
        if site.path:  # an address without a slash at its end is the same
            routes.append(Route(site.path, site.guard(_add_slash), methods=["GET"]))
        else:
            first = site
        routes.append(Mount(site.path, site.app()))

    async def list_them(request: Request) -> Response:
        if not first.access.is_open:
            raise HTTPException(401, "To answer, open the personal link that you were given.")
        return first.page(request, "studies.html", sites=sites)

    if first.path:
        routes += [
            Route("/", first.guard(list_them), methods=["GET"]),
            Route("/static/{name}", first.guard(first.send_static), methods=["GET"]),
        ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: first.show_error})
    app.router.redirect_slashes = False  # it would read host names before they are checked
    return app


async def _add_slash(request: Request) -> Response:
    return RedirectResponse(f"{request.scope['path']}/", 303)

"""What only the owner of a study may see: figures, links, files.

Every endpoint first checks that the owner calls.
"""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mdaml.ask import security
from mdaml.ask.answers import to_constraints
from mdaml.ask.collector import MOST_EVENTS
from mdaml.ask.security import check_person, is_loopback, split_host

if TYPE_CHECKING:
    from mdaml.ask.server import Site

_TABLES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
_NOTE = (
    "These links work on this machine only. Open the owner's page by the address that others use, "
    "or start with --public-url."
)


async def show(site: "Site", request: Request) -> Response:
    """Send the page, whose script fetches the figures."""
    site.need_owner(request)
    shares = {name: f"{100 * share:.0f} %" for name, share in site.composer.shares.items() if share}
    return site.page(
        request,
        "owner.html",
        words=site.plan.words,
        shares=shares,
        has_features=site.items.X is not None,
        is_open=site.access.is_open,
        join=f"{request.scope.get('root_path', '')}/join/{site.signer.sign('join')}",
        most_guests=site.access.most_guests,
    )


async def send_report(site: "Site", request: Request) -> Response:
    """Send the figures."""
    site.need_owner(request)
    latest = await run_in_threadpool(site.storage.latest, "report", "time")
    report = dict(latest["report"]) if latest else {}
    shown = {name: site.show_item(name) for name in report.get("rows", [])}
    failure = await run_in_threadpool(site.storage.failure)
    time = latest["time"] if latest else None
    return JSONResponse(report | {"items": shown, "time": time, "failure": failure})


async def make_links(site: "Site", request: Request) -> Response:
    """Send personal links for names."""
    site.need_owner(request)
    names = (await site.read_json(request)).get("names", [])
    if not isinstance(names, list) or not 1 <= len(names) <= MOST_EVENTS:
        raise HTTPException(400, f"The request must have a list of 1 to {MOST_EVENTS} names.")
    try:
        persons = [check_person(name) for name in names]
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    base = (site.access.public_url or str(request.base_url)).rstrip("/") + site.path
    links = [f"{base}/p/{site.signer.seal('person', person)}" for person in persons]
    is_reached = "*" in site.access.hosts and not site.access.public_url
    name, _ = split_host(request.headers.get("host", ""))
    note = _NOTE if is_reached and is_loopback(name) else ""
    made = [list(pair) for pair in zip(persons, links, strict=True)]
    return JSONResponse({"links": made, "note": note})


async def send_answers(site: "Site", request: Request) -> Response:
    """Send all answers as a file."""
    site.need_owner(request)
    kind = request.path_params["kind"]
    if kind not in _TABLES:
        raise HTTPException(
            404, "There is no such file. There are answers.csv and answers.parquet."
        )
    body = await run_in_threadpool(write_answers, site, kind)
    return _download(body, _TABLES[kind], f"answers.{kind}")


def write_answers(site: "Site", kind: str) -> bytes:
    """Return a file of all answers, also of those about items that were removed."""
    items, answers = site.items, site.storage.answers()
    if kind == "csv":
        answers = [a | {"person": security.quote_formula(a["person"])} for a in answers]
    gone = {name for a in answers for name in a["items"]} - items.rows.keys()
    supervision = to_constraints(answers, [*items.ids, *sorted(gone)])
    if supervision is None:
        raise HTTPException(404, "There are no answers yet.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"answers.{kind}")
        supervision.write(path)
        return path.read_bytes()


async def send_model(site: "Site", request: Request) -> Response:
    """Send the latest model as a file."""
    site.need_owner(request)
    latest = await run_in_threadpool(site.storage.latest, "model")
    if latest is None:
        raise HTTPException(404, "There is no model yet: it needs features and some answers.")
    return _download(latest["model"], "application/octet-stream", "model.mdaml")


def _download(body: bytes, media: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(body, media_type=media, headers=headers)

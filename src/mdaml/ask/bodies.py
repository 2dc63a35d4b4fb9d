"""The bodies of requests: not too large, and forms or JSON objects."""

import json
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from mdaml.ask.questions import Row

MOST_BYTES = 64 * 1024


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that a browser sent."""
    body = await _read(request)
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=10))
    except ValueError:
        raise HTTPException(400, "The request is not a valid form.") from None


async def read_json(request: Request) -> Row:
    """Return the object that a script sent."""
    try:
        found = json.loads(await _read(request))
    except (ValueError, RecursionError):
        raise HTTPException(400, "The request is not valid JSON.") from None
    if not isinstance(found, dict):
        raise HTTPException(400, "The request must be a JSON object.")
    return found


async def _read(request: Request) -> bytes:
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise HTTPException(413, "The request is too large.")
    except ClientDisconnect:
        raise HTTPException(400, "The request broke off.") from None
    return body

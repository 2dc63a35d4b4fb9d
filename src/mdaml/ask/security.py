"""Who may do what: signed links and cookies, checks of requests, limits, headers."""

import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request

PERSON, OWNER = "person", "owner"  # kinds of cookies
_MOST_LETTERS = 64  # of the name of a person
_MOST_CLIENTS = 10_000  # whose rates are kept
_JOINERS = re.compile("[\u200c\u200d]")  # letters of many scripts and pictures need them
_JOINED = re.compile("(?<=[^\\x00-\\x7f\\s])[\u200c\u200d](?=[^\\x00-\\x7f\\s\u200c\u200d])")


@dataclass(frozen=True)
class Access:
    """Who may come in.

    Attributes
    ----------
    is_open : bool
        Whether everybody who reaches the server may answer under any name and see the owner's
        page. Otherwise both need a link.
    hosts : sequence of str
        Host names under which the server answers; ``*`` for any.
    person : str or None
        Everybody is taken for this person; no cookies are used.
    frames : str
        Who may show the pages in a frame.
    most_guests : int
        How many persons may come by the link for anybody.
    public_url : str
        The address under which others reach the server, for personal links; empty: that of the
        owner.
    """

    is_open: bool = True
    hosts: Sequence[str] = ("127.0.0.1", "localhost", "::1")
    person: str | None = None
    frames: str = "'none'"
    most_guests: int = 1000
    public_url: str = ""


def make_access(host: str, public_url: str = "", *, links: bool = False) -> Access:
    """Return who may come in to a server that listens on a host."""
    is_open = is_loopback(host) and not links and not public_url
    hosts: Sequence[str] = Access().hosts if is_loopback(host) else ("*",)
    if public_url:
        kind, _, rest = public_url.partition("://")
        name, _ = split_host(rest.partition("/")[0])
        if kind not in ("http", "https") or not name or set(public_url) & set("?#@ "):
            raise ValueError(
                f"The public address must be like https://ask.example.org, got {public_url!r}."
            )
        hosts = (*hosts, name)
    return Access(is_open=is_open, hosts=hosts, public_url=public_url.rstrip("/"))


class Signer:
    """Signs what browsers send back, with a secret that stays in the database."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    @staticmethod
    def make_secret() -> str:
        """Return a new secret."""
        return secrets.token_hex(32)

    def sign(self, purpose: str, text: str = "") -> str:
        """Return a signature that is valid for one purpose."""
        message = f"{purpose}\n{text}".encode()
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()[:40]

    def is_signed(self, purpose: str, text: str, signature: str) -> bool:
        """Whether a signature is right; the time of the check tells nothing about it."""
        return is_equal(signature, self.sign(purpose, text))

    def seal(self, purpose: str, text: str) -> str:
        """Return a text with its signature, in letters that are allowed in cookies and paths."""
        letters = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return f"{letters}.{self.sign(purpose, text)}"

    def unseal(self, purpose: str, sealed: str | None) -> str | None:
        """Return the text, or None if it was not sealed here."""
        letters, _, signature = (sealed or "").rpartition(".")
        try:
            text = base64.urlsafe_b64decode(letters + "=" * (-len(letters) % 4)).decode()
        except ValueError:
            return None
        return text if text and self.is_signed(purpose, text, signature) else None


class Rates:
    """Limits how often each client may call: a bucket that fills at a constant rate."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second, self._burst = per_second, burst
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, client: str, n_calls: float = 1.0) -> bool:
        """Say whether a client may call now, and count the call, or as many."""
        now = time.monotonic()
        level, then = self._levels.pop(client, (float(self._burst), now))
        level = min(self._burst, level + (now - then) * self._per_second)
        self._levels[client] = (max(level - n_calls, 0), now)
        if len(self._levels) > _MOST_CLIENTS:
            self._levels.popitem(last=False)
        return level >= 1


def is_loopback(host: str) -> bool:
    """Say whether only programs of this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_person(name: object) -> str:
    """Return the name of a person in its one normal form, or refuse it."""
    text = unicodedata.normalize("NFC", " ".join(name.split())) if isinstance(name, str) else ""
    # A joiner that joins nothing cannot be seen: two names would look like one.
    bare = _JOINED.sub("", text)
    if not bare or len(text) > _MOST_LETTERS or not bare.isprintable():
        raise ValueError(f"A name must have 1 to {_MOST_LETTERS} letters.")
    return text


def is_known_host(request: Request, hosts: Sequence[str]) -> bool:
    """Say whether a request was meant for this server.

    Otherwise a foreign page could reach a server on a loopback address by a host name that
    resolves to it.
    """
    name, _ = split_host(request.headers.get("host", ""))
    return bool(name) and ("*" in hosts or name in hosts)


def split_host(host: str) -> tuple[str, str]:
    """Return name and port of a host; empty texts if it is none."""
    if set(host) & set("@/\\?#"):
        return "", ""
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname or "", str(parts.port or "")
    except ValueError:  # half a bracket, or a port that is no number
        return "", ""


def name_cookie(request: Request, study: str, kind: str) -> str:
    """Return the name of a cookie: browsers give those of one port to all ports of a host."""
    _, port = split_host(request.headers.get("host", ""))
    return f"mdaml_{study}_{port}_{kind}"


def quote_formula(text: str) -> str:
    """Return a text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def comes_from_here(request: Request) -> bool:
    """Whether a page of this server sent a request, as far as the browser says."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:
        return False


def make_headers(origins: Sequence[str], frames: str = "'none'") -> dict[str, str]:
    """Return headers that forbid a page to load from or send to other sites."""
    sites = " ".join(("'self'", *origins))
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": sites,
        "media-src": sites,
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": frames,
    }
    return {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",  # personal links are secrets
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=()",
    }


def is_equal(given: str, wanted: str) -> bool:
    """Compare texts; the time of the comparison tells nothing about them."""
    return hmac.compare_digest(given.encode(), wanted.encode())

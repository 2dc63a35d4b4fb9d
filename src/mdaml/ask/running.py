"""Runs sites: a server in this process, the learner of each in another."""

import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from types import FrameType
from urllib.parse import urlsplit

from sqlalchemy.exc import DBAPIError

from mdaml.ask import learner
from mdaml.ask.connections import BACKLOG, limit_connections, spare_log
from mdaml.ask.server import Site
from mdaml.ask.several import make_app
from mdaml.ask.storage import Stamp

_WATCH = 2.0  # seconds between looks at the learner


class Running:
    """Sites that answer on a port, with their learners; close it with :meth:`close`.

    Parameters
    ----------
    sites : Site
        What to run; several if each has a name.
    host : str
        The address to listen on.
    port : int
        0 for any that is free.
    learns : bool
        Whether to start processes that learn.
    """

    def __init__(
        self, *sites: Site, host: str = "127.0.0.1", port: int = 8765, learns: bool = True
    ) -> None:
        import uvicorn

        self.sites, access = sites, sites[0].access
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        shown = "localhost" if host in ("0.0.0.0", "::") else host
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}"
        config = uvicorn.Config(
            make_app(sites),
            root_path=urlsplit(access.public_url).path,  # which a proxy takes away
            http=limit_connections(),
            backlog=BACKLOG,
            log_level="warning",
            access_log=False,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._learns, self._starting = learns, threading.Lock()
        self._learners: list[BaseProcess | None] = [None] * len(sites)

    @property
    def site(self) -> Site:
        """The first site."""
        return self.sites[0]

    @property
    def owner_url(self) -> str:
        """The owner's link of the first site."""
        return self.find_owner(self.site)

    def find_owner(self, site: Site) -> str:
        """Return the owner's link of a site."""
        return (site.access.public_url or self.url) + site.owner_path()

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Answer requests until the process is asked to end."""
        before = _leave_in_order()
        try:
            for number in range(len(self.sites) if self._learns else 0):
                threading.Thread(target=self._watch, args=(number,), daemon=True).start()
            if ready is not None:
                ready()
            with spare_log("uvicorn.error", "asyncio"):
                self._server.run(sockets=[self._socket])
        finally:
            self._stop()
            if before is not None:
                signal.signal(signal.SIGTERM, before)

    def start(self) -> None:
        """Answer requests in a thread, and return as soon as requests are answered."""
        self._thread = threading.Thread(target=self.run, name="mdaml-site", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.02)

    def stop(self) -> None:
        """Let :meth:`run` return, once all answers are stored."""
        self._server.should_exit = True

    def close(self) -> None:
        """Stop what :meth:`start` started, and wait for its end."""
        self.stop()
        self._thread.join()

    def _watch(self, number: int) -> None:
        """Start a learner, and start it again if it dies; answers do not wait for it.

        One that ended by an error would meet it again: it waits for other answers.
        """
        n_starts, stamp, site = 0, None, self.sites[number]
        while self._learns:
            process = self._learners[number]
            if process is None or not process.is_alive():
                failed = process is not None and (process.exitcode or 0) > 0
                self._note_killed(number)
                now = _read_stamp(site)
                if not failed or now != stamp:
                    time.sleep(min(n_starts * _WATCH, 60.0))
                    self._start_learner(number)
                    n_starts, stamp = n_starts + 1, now
            time.sleep(_WATCH)

    def _note_killed(self, number: int) -> None:
        """Tell the owner if something else ended a learner, which could not say so itself."""
        with self._starting, suppress(DBAPIError):
            process = self._learners[number]
            code = None if process is None else process.exitcode
            if self._learns and code is not None and code < 0:
                self.sites[number].storage.note_failure(
                    f"It was ended by signal {-code}, perhaps for want of memory. It is started "
                    "again."
                )

    def _start_learner(self, number: int) -> None:
        site = self.sites[number]
        with self._starting:
            if not self._learns:
                return
            process, sender = learner.start(site.storage.url, site.storage.study, site.method)
            self._learners[number] = process
        learner.hand_over(sender, site.items)

    def _stop(self) -> None:
        with self._starting:
            self._learns = False
        for process in filter(None, self._learners):
            process.kill()
            process.join()  # then closing the database puts everything into one file
        for site in self.sites:
            site.close()
        self._socket.close()


def _read_stamp(site: Site) -> Stamp | None:
    try:
        return site.storage.stamp()
    except DBAPIError:  # the database is away for a while
        return None


def _leave_in_order() -> Callable[[int, FrameType | None], object] | int | None:
    """Let a request to terminate end the server like an interrupt; return what it did before.

    The server raises the signal again when it has stopped, and that would end the process at once,
    before the database is closed: the last answers would be in a second file beside it.
    """
    if threading.current_thread() is not threading.main_thread():
        return None

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    return signal.signal(signal.SIGTERM, leave)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ValueError(f"The port must be 0 to 65535, got {port}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, because asyncio sends small answers at once only if it knows it is TCP.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen()  # requests before the server runs wait and are not refused
    except OSError as error:
        made.close()
        raise ValueError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Is another server running "
            "there? Choose another port with --port."
        ) from None
    return made

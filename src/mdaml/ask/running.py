"""Runs the site: a server in this process, the learner in another."""

import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from types import FrameType

from sqlalchemy.exc import DBAPIError

from mdaml.ask import learner
from mdaml.ask.connections import BACKLOG, limit_connections, spare_log
from mdaml.ask.server import Site
from mdaml.ask.storage import Stamp

_WATCH = 2.0  # seconds between looks at the learner


class Running:
    """A site that answers on a port, with its learner; close it with :meth:`close`.

    Parameters
    ----------
    site : Site
        What to run.
    host : str
        The address to listen on.
    port : int
        0 for any that is free.
    learns : bool
        Whether to start a process that learns.
    """

    def __init__(
        self, site: Site, host: str = "127.0.0.1", port: int = 8765, *, learns: bool = True
    ) -> None:
        import uvicorn

        self.site = site
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        shown = "localhost" if host in ("0.0.0.0", "::") else host
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}"
        config = uvicorn.Config(
            site.app(),
            http=limit_connections(),
            backlog=BACKLOG,
            log_level="warning",
            access_log=False,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._learns = learns
        self._learner: BaseProcess | None = None
        self._watcher: threading.Thread | None = None

    @property
    def owner_url(self) -> str:
        """The owner's link."""
        return self.url + self.site.owner_path()

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Answer requests until the process is asked to end."""
        before = _leave_in_order()
        try:
            if self._learns:
                self._watcher = threading.Thread(target=self._watch, daemon=True)
                self._watcher.start()
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

    def _watch(self) -> None:
        """Start the learner, and start it again if it dies; answers do not wait for it.

        One that ended by an error would meet it again: it waits for other answers.
        """
        n_starts, stamp = 0, None
        while self._learns:
            if self._learner is None or not self._learner.is_alive():
                failed = self._learner is not None and (self._learner.exitcode or 0) > 0
                now = self._read_stamp()
                if not failed or now != stamp:
                    time.sleep(min(n_starts * _WATCH, 60.0))
                    self._learner = learner.start(self.site.storage.url, self.site.items)
                    n_starts, stamp = n_starts + 1, now
            time.sleep(_WATCH)

    def _read_stamp(self) -> Stamp | None:
        try:
            return self.site.storage.stamp()
        except DBAPIError:  # the database is away for a while
            return None

    def _stop(self) -> None:
        self._learns = False
        if self._learner is not None:
            self._learner.kill()
            self._learner.join()  # then closing the database puts everything into one file
        self.site.close()
        self._socket.close()


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

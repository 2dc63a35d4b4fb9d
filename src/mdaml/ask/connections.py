"""Connections of browsers: not too many, none that waits for ever, and few words about them."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 4_000
BACKLOG = 128  # connections that are accepted at once, before any of them can be closed
_SPARE_FILES = 200 + BACKLOG  # for everything that is no connection
_DEADLINE = 15.0  # seconds for a whole request, and for a browser that reads nothing
_LINES, _MINUTE = 30, 60.0  # of the log


class Connection(H11Protocol):
    """A connection that is closed if its request does not come, or if others need the place."""

    most = MOST_CONNECTIONS
    deadline = _DEADLINE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to count the time; close the connection that has waited longest, if need be."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._n_unread = 0
        self._wait()
        if len(self.connections) > self.most:
            known = cast("set[Connection]", self.connections)
            waiting = (other for other in known if other.is_waiting())
            min(waiting, key=lambda other: other.since, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to count."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def on_response_complete(self) -> None:
        """Begin to count anew for the next request."""
        super().on_response_complete()
        self._wait()

    def is_waiting(self) -> bool:
        """Whether the browser has not sent a whole request."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def _wait(self) -> None:
        self.since = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.deadline, self._expire)

    def _expire(self) -> None:
        n_unread = self.transport.get_write_buffer_size()
        reads_nothing = self.flow.write_paused and n_unread == self._n_unread
        if self.is_waiting() or reads_nothing:
            self.transport.abort()
            return
        self._n_unread = n_unread
        self._timer = self.loop.call_later(self.deadline, self._expire)


def limit_connections(most: int = MOST_CONNECTIONS) -> type[Connection]:
    """Return the class of connections, as many at once as this process may open files."""
    try:
        import resource  # POSIX only
    except ImportError:
        return type("Connection", (Connection,), {"most": min(most, 500)})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        most = max(allowed - _SPARE_FILES, 50)
    return type("Connection", (Connection,), {"most": most})


class _Sparing(logging.Filter):
    """Lets so many lines a minute pass; who floods the server must not fill the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._began, self._n_lines = 0.0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Count a line; the last one that passes says that others follow."""
        now = time.monotonic()
        if now - self._began >= _MINUTE:
            self._began, self._n_lines = now, 0
        self._n_lines += 1
        if self._n_lines == _LINES:
            record.msg, record.args = f"{record.getMessage()} (more lines are left out)", ()
        return self._n_lines <= _LINES


@contextmanager
def spare_log(*names: str) -> Iterator[None]:
    """Write at most 30 lines a minute to the named logs."""
    sparing = _Sparing()
    logs = [logging.getLogger(name) for name in names]
    for log in logs:
        log.addFilter(sparing)
    try:
        yield
    finally:
        for log in logs:
            log.removeFilter(sparing)

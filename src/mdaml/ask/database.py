"""How a database is reached: addresses without secrets in errors, files for one user, commits."""

import os
import re
import shutil
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, unquote

import sqlalchemy as sa

_LITTLE_ROOM = 32 * 2**20  # bytes
_FORMAT = b"SQLite format 3\0"  # with which its files begin
_opened, _opening = set[str](), threading.Lock()  # files that this process may have open


def to_url(place: str | Path) -> str:
    """Return the URL of a file or database, as SQLAlchemy reads it."""
    text = str(place)
    kind, is_url, rest = text.partition("://")
    if not is_url:
        return _to_file_url(text)
    if kind in ("postgresql", "postgres"):
        return f"postgresql+psycopg://{rest}"
    if kind == "postgresql+psycopg":
        return text
    if kind != "sqlite":
        raise ValueError(f"The database must be a file or postgresql://..., got {kind}://....")
    if not rest.startswith("/") or not rest.strip("/") or "?" in rest:
        # A database in memory would lose all answers.
        raise ValueError(
            "The address of a database of SQLite must name a file, and no options, such as "
            "sqlite:////folder/answers.db."
        )
    return _to_file_url(unquote(rest.removeprefix("/")))


def _to_file_url(name: str) -> str:
    """Return the URL of a file, also of one with a ? or % in its name."""
    path = Path(name).resolve()
    if not path.parent.is_dir():
        raise ValueError(f"There is no folder {path.parent} for the answers. Create it first.")
    return sa.URL.create("sqlite", database=str(path)).render_as_string()


def make_engine(url: str) -> sa.Engine:
    """Return what connects to a database; errors name no password."""
    is_file = url.startswith("sqlite")
    try:
        engine = sa.create_engine(url, pool_pre_ping=not is_file)
    except ModuleNotFoundError:
        raise ValueError('PostgreSQL needs psycopg: pip install "psycopg[binary]".') from None
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(
            "The address of the database cannot be read. It must look like "
            "postgresql://user:password@host:5432/name; signs such as @ : / in a password are "
            "written %40 %3A %2F."
        ) from None
    if is_file:
        path = os.path.realpath(str(sa.make_url(url).database))
        with _opening:
            if path not in _opened or not Path(path).exists():
                _check_format(path)
                _opened.add(path)
        _close_to_others(path)
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _check_format(path: str) -> None:
    """Refuse a file that is no database; make one if there is none.

    Not while SQLite has it open: to close a file lets go of all locks that this process has on it,
    and then another program takes away what is written ahead.
    """
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "rb") as file:
            if file.read(len(_FORMAT)) not in (_FORMAT, b""):
                raise ValueError(f"{path}: this is not a database of answers. Name another file.")
    except OSError as error:
        raise ValueError(f"{path}: cannot store answers there: {error.strerror}.") from None


def _close_to_others(path: str) -> None:
    """Let only this user read a file, which holds the secret of all links, and its companions."""
    try:
        for name in (path, f"{path}-wal", f"{path}-shm"):
            if Path(name).exists():
                Path(name).chmod(0o600)
    except OSError as error:
        raise ValueError(f"{path}: cannot store answers there: {error.strerror}.") from None


def hide_password(text: str, url: str) -> str:
    """Return a message, unless it names a part of the password."""
    given = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    named = parse_qs(url.partition("?")[2]).get("password", [])
    secrets = {part for word in (given, unquote(given), *named) for part in re.split("[@:/]", word)}
    if any(len(part) > 1 and part in text for part in secrets):
        return "the message of the database contains the password and is not shown"
    return text


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """Write ahead, and wait for the disk at every commit, so that a crash loses no commit.

    What was written ahead is moved to the file by `move_to_file`. SQLite would do it at the end of
    a commit and report one as failed that is on the disk, if there is no room for both files.
    """
    connection.isolation_level = None  # transactions begin where the code says so
    for line in (
        "busy_timeout=10000",  # first: the others wait for their turn too
        "journal_mode=WAL",
        "synchronous=FULL",
        "wal_autocheckpoint=0",
    ):
        connection.execute(f"PRAGMA {line}")


def has_little_room(path: str) -> bool:
    """Say whether the disk is so full that what is written ahead must stay small.

    A hundred commits need some MB; once they fill the disk, they cannot be moved either.
    """
    return shutil.disk_usage(Path(path).parent).free < _LITTLE_ROOM


def move_to_file(connection: sa.Connection) -> None:
    """Move what was written ahead to the file of the database, as far as there is room."""
    plain = connection.connection.driver_connection  # outside of any transaction
    assert isinstance(plain, sqlite3.Connection)
    with suppress(sqlite3.OperationalError):  # commits are safe where they are, without room too
        plain.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that writes takes the lock at its start: taking it later can fail.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

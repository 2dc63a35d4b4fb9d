"""Persons, questions, answers and models in a database: SQLite in one file, or PostgreSQL."""

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from mdaml.ask.questions import Row
from mdaml.ask.tables import (
    ANSWERS,
    METADATA,
    MODELS,
    PERSONS,
    QUESTIONS,
    REPORTS,
    SCHEMA,
    SETTINGS,
    UPGRADES,
)

_FAILURE = "learner failure"
# Made once: to build a statement takes longer than to execute it.
_NEWEST_ANSWER = sa.select(
    sa.select(sa.func.max(ANSWERS.c.number)).scalar_subquery(),
    sa.select(sa.func.max(ANSWERS.c.undone)).where(ANSWERS.c.undone.is_not(None)).scalar_subquery(),
)
_NEWEST_REPORT = sa.select(sa.func.max(REPORTS.c.version))

Stamp = tuple[int, float]
_Inserts = dict[sa.Table, sa.Insert]
_COMMITS = 100  # after which they are moved to the file of SQLite
_LOCK = "SELECT pg_advisory_xact_lock(1835296108)"


class Storage:
    """A database of answers.

    Parameters
    ----------
    place : str or path
        A file for SQLite, or the URL of a database: ``postgresql://user@host/name``.
    """

    def __init__(self, place: str | Path) -> None:
        self.url = _to_url(place)
        self._engine = _make_engine(self.url)
        if self.is_file:
            _close_to_others(self.name)
        if self.is_file:
            sa.event.listen(self._engine, "connect", _prepare_sqlite)
            sa.event.listen(self._engine, "begin", _begin_sqlite)
        self._turn, self._n_commits = threading.Lock(), 0
        insert = sqlite.insert if self.is_file else postgresql.insert
        tables = METADATA.tables.values()
        self._insert: _Inserts = {t: insert(t).on_conflict_do_nothing() for t in tables}
        try:
            with self._engine.begin() as connection:
                self._create(connection)
        except sa.exc.DBAPIError as error:
            why = _hide_password(str(error.orig).strip(), self.url)
            raise ValueError(f"{self.name}: cannot store answers there: {why}.") from None
        found = self.keep_setting("schema", SCHEMA)
        if found != SCHEMA:
            raise ValueError(
                f"{self.name}: it was written by another version of mdaml (format {found}; this "
                f"one reads {SCHEMA}). Name another file."
            )

    def _create(self, connection: sa.Connection) -> None:
        if not self.is_file:  # several servers may start at once
            connection.exec_driver_sql(_LOCK)
        if sa.inspect(connection).has_table(SETTINGS.name):
            chosen = sa.select(SETTINGS.c.value).where(SETTINGS.c.name == "schema")
            found = connection.execute(chosen).scalar()
            for line in UPGRADES.get(str(found), ()):
                connection.exec_driver_sql(line)
            if found in UPGRADES:
                connection.execute(
                    sa.update(SETTINGS).where(SETTINGS.c.name == "schema").values(value=SCHEMA)
                )
        METADATA.create_all(connection)

    @property
    def is_file(self) -> bool:
        """Whether this is a file of SQLite."""
        return self.url.startswith("sqlite")

    @property
    def name(self) -> str:
        """The file, or the address of the database without user, password and options."""
        if self.is_file:
            return str(sa.make_url(self.url).database)
        return f"postgresql://{self.url.rpartition('@')[2].rpartition('://')[2].partition('?')[0]}"

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def write(self) -> Iterator["Transaction"]:
        """Begin a transaction; at its end all changes are on the disk, or none.

        One at a time among all servers: SQLite has a lock for it, PostgreSQL is asked for one.
        """
        # Threads queue here: SQLite lets those that wait try again at random, and some may starve.
        with self._turn, self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                if not self.is_file:
                    connection.exec_driver_sql(_LOCK)
                yield Transaction(connection, self._insert)
            self._n_commits += 1
            if self.is_file and self._n_commits % _COMMITS == 0:
                _move_to_file(connection)

    def keep_setting(self, name: str, value: str) -> str:
        """Store a setting unless it is there already, and return its value."""
        with self.write() as change:
            change.insert(SETTINGS, name=name, value=value)
        return str(self.read_setting(name))

    def read_setting(self, name: str) -> str | None:
        """Return the value of a setting; None if it is not there."""
        row = self._read(sa.select(SETTINGS.c.value).where(SETTINGS.c.name == name))
        return row[0]["value"] if row else None

    def persons(self) -> list[Row]:
        """Return all persons, in the order in which they came."""
        return self._read(sa.select(PERSONS).order_by(PERSONS.c.time))

    def answers(self, person: str | None = None) -> list[Row]:
        """Return questions with the answers that count, in the order of the answers."""
        live = sa.and_(ANSWERS.c.question == QUESTIONS.c.id, ANSWERS.c.undone.is_(None))
        asked = [c for c in QUESTIONS.c if c.name not in ("number", "time")]
        given = [ANSWERS.c[name] for name in ("outcome", "choice", "seconds", "time")]
        own = ANSWERS.c.id.label("answer")
        chosen = sa.select(*asked, *given, own).join(ANSWERS, live).order_by(ANSWERS.c.number)
        if person is not None:
            chosen = chosen.where(QUESTIONS.c.person == person)
        return self._read(chosen)

    def open_questions(self, person: str) -> list[Row]:
        """Return the questions of a person that have no answer yet, the oldest first."""
        live = sa.and_(ANSWERS.c.question == QUESTIONS.c.id, ANSWERS.c.undone.is_(None))
        return self._read(
            sa.select(QUESTIONS)
            .outerjoin(ANSWERS, live)
            .where(QUESTIONS.c.person == person, ANSWERS.c.id.is_(None))
            .order_by(QUESTIONS.c.number)
        )

    def anchors(self) -> dict[str, int]:
        """Return how often each item came first in a question."""
        counts: dict[str, int] = {}
        for row in self._read(sa.select(QUESTIONS.c["items"])):
            counts[row["items"][0]] = counts.get(row["items"][0], 0) + 1
        return counts

    def stamp(self) -> Stamp:
        """Return two numbers, quickly found, that change when an answer is added or undone."""
        with self._engine.connect() as connection:
            return _read_stamp(connection)

    def add_report(self, report: Row, queries: Sequence[Sequence[str]]) -> None:
        """Store a report with its questions in place of the last one."""
        with self.write() as change:
            change.replace_report(report, queries)

    def add_model(self, answers: Sequence[str], model: bytes) -> int:
        """Store a model with the ids of the answers it was learned from; return its version."""
        with self.write() as change:
            return change.insert_model(answers, model)

    def note_failure(self, why: str | None) -> None:
        """Store why the learner ended, or that it learns again."""
        if self.read_setting(_FAILURE) != (why or ""):
            with self.write() as change:
                change.set(_FAILURE, why or "")

    def failure(self) -> str | None:
        """Return why the learner ended; None if it learns."""
        return self.read_setting(_FAILURE) or None

    def latest(self, *columns: str, after: int = 0) -> Row | None:
        """Return columns of the latest model or report, if its version is above a number."""
        table = MODELS if "model" in columns else REPORTS
        chosen = [table.c[name] for name in ("version", *columns)]
        newest = sa.select(*chosen).order_by(table.c.version.desc()).limit(1)
        found = self._read(newest.where(table.c.version > after))
        return found[0] if found else None

    def models(self) -> list[Row]:
        """Return the versions of all models that are kept."""
        chosen = sa.select(MODELS.c.version)
        return self._read(chosen.order_by(MODELS.c.version))

    def read_model(self, version: int) -> Row:
        """Return a model that is kept, with the ids of its answers."""
        chosen = sa.select(MODELS.c.model, MODELS.c.answers)
        (row,) = self._read(chosen.where(MODELS.c.version == version))
        return row

    def drop_models(self, versions: Sequence[int]) -> None:
        """Delete models."""
        with self.write() as change:
            change.delete_models(versions)

    def _read(self, chosen: sa.Select[Any]) -> list[Row]:
        with self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(chosen).mappings()]


class Transaction:
    """Changes that are made together; see :meth:`Storage.write`."""

    def __init__(self, connection: sa.Connection, insert: _Inserts) -> None:
        self._connection, self._insert = connection, insert

    def insert(self, table: sa.Table, **values: object) -> bool:
        """Insert a row unless one like it is there; return whether it was inserted."""
        return bool(self._connection.execute(self._insert[table], values).rowcount)

    def stamp(self) -> Stamp:
        """Return the stamp of the answers, these changes included."""
        return _read_stamp(self._connection)

    def newest_report(self) -> int:
        """Return the version of the latest report, 0 if there is none."""
        return int(self._connection.execute(_NEWEST_REPORT).scalar() or 0)

    def add_person(self, person: str, *, intro: str = "", is_guest: bool = False) -> None:
        """Add a person, or the consent of one who is there to a text, given by its fingerprint."""
        now = time.time()
        self.insert(PERSONS, id=person, time=now, is_guest=is_guest)
        if intro:
            mine = sa.update(PERSONS).where(PERSONS.c.id == person)
            new = sa.or_(PERSONS.c.intro.is_(None), PERSONS.c.intro != intro)
            self._connection.execute(mine.where(new).values(consent=now, intro=intro))

    def rename_items(self, names: dict[str, str]) -> None:
        """Give items other names in all questions."""
        rows = self._connection.execute(sa.select(QUESTIONS.c.number, QUESTIONS.c["items"])).all()
        for number, items in rows:
            renamed = [names.get(name, name) for name in items]
            if renamed != items:
                change = sa.update(QUESTIONS).where(QUESTIONS.c.number == number)
                self._connection.execute(change.values({"items": renamed}))

    def forget_learned(self, *, models: bool) -> None:
        """Delete the report with its questions, and all models if they fit no longer."""
        self._connection.execute(sa.delete(REPORTS))
        if models:
            self._connection.execute(sa.delete(MODELS))

    def add_question(self, question: Row) -> None:
        """Add a question that is to be asked."""
        self.insert(QUESTIONS, **question, time=time.time())

    def add_answer(self, answer: Row) -> bool:
        """Add an answer unless it, or another one to the question, is there."""
        return self.insert(ANSWERS, **answer, time=time.time())

    def undo(self, person: str, answer: str) -> None:
        """Take back an answer of a person; doing it twice changes nothing."""
        mine = sa.and_(ANSWERS.c.id == answer, ANSWERS.c.person == person)
        change = sa.update(ANSWERS).where(mine, ANSWERS.c.undone.is_(None))
        moment = max(time.time(), self.stamp()[1] + 1e-3)  # grows even if the clock is set back
        self._connection.execute(change.values(undone=moment))

    def replace_report(self, report: Row, queries: Sequence[Sequence[str]]) -> None:
        """Insert a report and delete those before."""
        self._connection.execute(sa.delete(REPORTS))
        values = {"report": report, "queries": queries, "time": time.time()}
        self._connection.execute(sa.insert(REPORTS).values(**values))

    def set(self, name: str, value: str) -> None:
        """Store a setting in place of its last value."""
        self._connection.execute(sa.delete(SETTINGS).where(SETTINGS.c.name == name))
        self.insert(SETTINGS, name=name, value=value)

    def insert_model(self, answers: Sequence[str], model: bytes) -> int:
        """Insert a model; return its version."""
        made = sa.insert(MODELS).values(answers=list(answers), model=model)
        return int(self._connection.execute(made.returning(MODELS.c.version)).scalar_one())

    def delete_models(self, versions: Sequence[int]) -> None:
        """Delete models."""
        self._connection.execute(sa.delete(MODELS).where(MODELS.c.version.in_(versions)))


def _read_stamp(connection: sa.Connection) -> Stamp:
    number, moment = connection.execute(_NEWEST_ANSWER).one()
    return int(number or 0), float(moment or 0)


def _to_url(place: str | Path) -> str:
    text = str(place)
    if "://" not in text:
        folder = Path(text).resolve().parent
        if not folder.is_dir():
            raise ValueError(f"There is no folder {folder} for the answers. Create it first.")
        return f"sqlite:///{Path(text).resolve()}"
    kind, _, rest = text.partition("://")
    if kind in ("postgresql", "postgres"):
        return f"postgresql+psycopg://{rest}"
    if kind in ("sqlite", "postgresql+psycopg"):
        return text
    raise ValueError(f"The database must be a file or postgresql://..., got {kind}://....")


def _make_engine(url: str) -> sa.Engine:
    """Return what connects to a database; errors name no password."""
    try:
        return sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    except ModuleNotFoundError:
        raise ValueError('PostgreSQL needs psycopg: pip install "psycopg[binary]".') from None
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(
            "The address of the database cannot be read. It must look like "
            "postgresql://user:password@host:5432/name; signs such as @ : / in a password are "
            "written %40 %3A %2F."
        ) from None


def _close_to_others(path: str) -> None:
    """Let only this user read a file, which holds the secret of all links, and its companions."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        for name in (path, f"{path}-wal", f"{path}-shm"):
            if Path(name).exists():
                Path(name).chmod(0o600)
    except OSError as error:
        raise ValueError(f"{path}: cannot store answers there: {error.strerror}.") from None


def _hide_password(text: str, url: str) -> str:
    """Return a message, unless it names a part of the password."""
    given = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    named = parse_qs(urlsplit(url).query).get("password", [])
    secrets = {part for word in (given, unquote(given), *named) for part in re.split("[@:/]", word)}
    if any(len(part) > 1 and part in text for part in secrets):
        return "what the database says names the password and is left out"
    return text


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """Write ahead, and wait for the disk at every commit, so that a crash loses no commit.

    What was written ahead is moved to the file by `_move_to_file`. SQLite would do it at the end of
    a commit and report one as failed that is on the disk, if there is no room for both files.
    """
    connection.isolation_level = None  # transactions begin where the code says so
    for line in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "busy_timeout=10000",
        "wal_autocheckpoint=0",
    ):
        connection.execute(f"PRAGMA {line}")


def _move_to_file(connection: sa.Connection) -> None:
    """Move what was written ahead to the file of the database, as far as there is room."""
    plain = connection.connection.driver_connection  # outside of any transaction
    assert isinstance(plain, sqlite3.Connection)
    with suppress(sqlite3.OperationalError):  # commits are safe where they are, without room too
        plain.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that writes takes the lock at its start: taking it later can fail.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

"""Persons, questions, answers and models in a database: SQLite in one file, or PostgreSQL."""

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from mdaml.ask.questions import Row

_SCHEMA = "1"
_METADATA = sa.MetaData()
_SETTINGS = sa.Table(
    "settings",
    _METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_PERSONS = sa.Table(
    "persons",
    _METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("consent", sa.Double),
)
_QUESTIONS = sa.Table(
    "questions",
    _METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("person", sa.Text, nullable=False, index=True),
    sa.Column("form", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("held_out", sa.Boolean, nullable=False),
    sa.Column("items", sa.JSON, nullable=False),  # ids in the order in which they are shown
    sa.Column("expected", sa.JSON(none_as_null=True)),  # the right choice of a catch question
    sa.Column("repeats", sa.Text),  # the question that this one asks again
    sa.Column("time", sa.Double, nullable=False),
)
_ANSWERS = sa.Table(
    "answers",
    _METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),  # made by the browser
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("person", sa.Text, nullable=False, index=True),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("choice", sa.JSON, nullable=False),  # places in the items of the question
    sa.Column("seconds", sa.Double),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("undone", sa.Double),
)
# One answer counts for each question, whatever browsers send; one that was undone does not.
_ONE_ANSWER = sa.Index(
    "one_answer",
    _ANSWERS.c.question,
    unique=True,
    sqlite_where=_ANSWERS.c.undone.is_(None),
    postgresql_where=_ANSWERS.c.undone.is_(None),
)
_UNDONE = sa.Index(
    "undone_answers",
    _ANSWERS.c.undone,
    sqlite_where=_ANSWERS.c.undone.is_not(None),
    postgresql_where=_ANSWERS.c.undone.is_not(None),
)
_REPORTS = sa.Table(  # the latest alone
    "reports",
    _METADATA,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("report", sa.JSON, nullable=False),
    sa.Column("queries", sa.JSON, nullable=False),  # triplets of ids worth asking
    sqlite_autoincrement=True,  # versions grow, though older rows are deleted
)
_MODELS = sa.Table(  # rows are never changed: SQLite would write the whole model again
    "models",
    _METADATA,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("n_answers", sa.Integer, nullable=False),
    sa.Column("model", sa.LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)
# Made once: to build a statement takes longer than to execute it.
_NEWEST_ANSWER = sa.select(
    sa.select(sa.func.max(_ANSWERS.c.number)).scalar_subquery(),
    sa.select(sa.func.max(_ANSWERS.c.undone))
    .where(_ANSWERS.c.undone.is_not(None))
    .scalar_subquery(),
)
_NEWEST_REPORT = sa.select(sa.func.max(_REPORTS.c.version))

Stamp = tuple[int, float]
_Inserts = dict[sa.Table, sa.Insert]
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
        self._engine = sa.create_engine(self.url, pool_pre_ping=not self.is_file)
        if self.is_file:
            sa.event.listen(self._engine, "connect", _prepare_sqlite)
            sa.event.listen(self._engine, "begin", _begin_sqlite)
        self._turn = threading.Lock()
        insert = sqlite.insert if self.is_file else postgresql.insert
        tables = _METADATA.tables.values()
        self._insert: _Inserts = {t: insert(t).on_conflict_do_nothing() for t in tables}
        try:
            with self._engine.begin() as connection:
                self._create(connection)
        except sa.exc.DBAPIError as error:
            what = f"{place}: cannot store answers there: {error.orig}."
            raise ValueError(what) from None
        found = self.keep_setting("schema", _SCHEMA)
        if found != _SCHEMA:
            raise ValueError(
                f"{place}: it was written by another version of mdaml (format {found}; this one "
                f"reads {_SCHEMA}). Name another file."
            )

    def _create(self, connection: sa.Connection) -> None:
        if not self.is_file:  # several servers may start at once
            connection.exec_driver_sql(_LOCK)
        _METADATA.create_all(connection)

    @property
    def is_file(self) -> bool:
        """Whether this is a file of SQLite."""
        return self.url.startswith("sqlite")

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

    def keep_setting(self, name: str, value: str) -> str:
        """Store a setting unless it is there already, and return its value."""
        with self.write() as change:
            change.insert(_SETTINGS, name=name, value=value)
        row = self._read(sa.select(_SETTINGS.c.value).where(_SETTINGS.c.name == name))
        return row[0]["value"]

    def persons(self) -> list[Row]:
        """Return all persons, in the order in which they came."""
        return self._read(sa.select(_PERSONS).order_by(_PERSONS.c.time))

    def answers(self, person: str | None = None) -> list[Row]:
        """Return questions with the answers that count, in the order of the answers."""
        live = sa.and_(_ANSWERS.c.question == _QUESTIONS.c.id, _ANSWERS.c.undone.is_(None))
        asked = [c for c in _QUESTIONS.c if c.name not in ("number", "time")]
        given = [_ANSWERS.c[name] for name in ("outcome", "choice", "seconds", "time")]
        own = _ANSWERS.c.id.label("answer")
        chosen = sa.select(*asked, *given, own).join(_ANSWERS, live).order_by(_ANSWERS.c.number)
        if person is not None:
            chosen = chosen.where(_QUESTIONS.c.person == person)
        return self._read(chosen)

    def open_questions(self, person: str) -> list[Row]:
        """Return the questions of a person that have no answer yet, the oldest first."""
        live = sa.and_(_ANSWERS.c.question == _QUESTIONS.c.id, _ANSWERS.c.undone.is_(None))
        return self._read(
            sa.select(_QUESTIONS)
            .outerjoin(_ANSWERS, live)
            .where(_QUESTIONS.c.person == person, _ANSWERS.c.id.is_(None))
            .order_by(_QUESTIONS.c.number)
        )

    def anchors(self) -> dict[str, int]:
        """Return how often each item came first in a question."""
        counts: dict[str, int] = {}
        for row in self._read(sa.select(_QUESTIONS.c["items"])):
            counts[row["items"][0]] = counts.get(row["items"][0], 0) + 1
        return counts

    def stamp(self) -> Stamp:
        """Return two numbers, quickly found, that change when an answer is added or undone."""
        with self._engine.connect() as connection:
            return _read_stamp(connection)

    def add_model(
        self, n_answers: int, model: bytes | None, report: Row, queries: Sequence[Sequence[str]]
    ) -> None:
        """Store a report with its questions in place of the last one, and a model, if any."""
        with self.write() as change:
            change.replace_report(report, queries)
            if model is not None:
                change.insert_model(n_answers, model)

    def latest(self, *columns: str, after: int = 0) -> Row | None:
        """Return columns of the latest model or report, if its version is above a number."""
        table = _MODELS if "model" in columns else _REPORTS
        chosen = [table.c[name] for name in ("version", *columns)]
        newest = sa.select(*chosen).order_by(table.c.version.desc()).limit(1)
        found = self._read(newest.where(table.c.version > after))
        return found[0] if found else None

    def models(self) -> list[Row]:
        """Return version and number of answers of all models that are kept."""
        chosen = sa.select(_MODELS.c.version, _MODELS.c.n_answers)
        return self._read(chosen.order_by(_MODELS.c.version))

    def read_model(self, version: int) -> bytes:
        """Return a model that is kept."""
        (row,) = self._read(sa.select(_MODELS.c.model).where(_MODELS.c.version == version))
        return row["model"]

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

    def add_person(self, person: str, *, consent: bool) -> None:
        """Add a person, or the time of the consent of one who is there."""
        now = time.time()
        self.insert(_PERSONS, id=person, time=now)
        if consent:
            mine = sa.update(_PERSONS).where(_PERSONS.c.id == person, _PERSONS.c.consent.is_(None))
            self._connection.execute(mine.values(consent=now))

    def add_question(self, question: Row) -> None:
        """Add a question that is to be asked."""
        self.insert(_QUESTIONS, **question, time=time.time())

    def add_answer(self, answer: Row) -> bool:
        """Add an answer unless it, or another one to the question, is there."""
        return self.insert(_ANSWERS, **answer, time=time.time())

    def undo(self, person: str, answer: str) -> None:
        """Take back an answer of a person; doing it twice changes nothing."""
        mine = sa.and_(_ANSWERS.c.id == answer, _ANSWERS.c.person == person)
        change = sa.update(_ANSWERS).where(mine, _ANSWERS.c.undone.is_(None))
        moment = max(time.time(), self.stamp()[1] + 1e-3)  # grows even if the clock is set back
        self._connection.execute(change.values(undone=moment))

    def replace_report(self, report: Row, queries: Sequence[Sequence[str]]) -> None:
        """Insert a report and delete those before."""
        self._connection.execute(sa.delete(_REPORTS))
        values = {"report": report, "queries": queries, "time": time.time()}
        self._connection.execute(sa.insert(_REPORTS).values(**values))

    def insert_model(self, n_answers: int, model: bytes) -> None:
        """Insert a model."""
        self._connection.execute(sa.insert(_MODELS).values(n_answers=n_answers, model=model))

    def delete_models(self, versions: Sequence[int]) -> None:
        """Delete models."""
        self._connection.execute(sa.delete(_MODELS).where(_MODELS.c.version.in_(versions)))


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


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """Write ahead, and wait for the disk at every commit, so that a crash loses no commit."""
    connection.isolation_level = None  # transactions begin where the code says so
    for line in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {line}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that writes takes the lock at its start: taking it later can fail.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

"""Persons, questions, answers and models in a database: SQLite in one file, or PostgreSQL."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from mdaml.ask.database import has_little_room, hide_password, make_engine, move_to_file, to_url
from mdaml.ask.questions import Row
from mdaml.ask.tables import SCHEMA, UPGRADES, Tables, find_studies, make_tables

_FAILURE = "learner failure"
_STUDY = "study"  # the setting that every study has

Stamp = tuple[int, float]
_Inserts = dict[sa.Table, sa.Insert]
_COMMITS = 100  # after which they are moved to the file of SQLite
_LOCK = "SELECT pg_advisory_xact_lock(1835296108)"  # of answers, and all that is not learned
_LOCK_LEARNED = "SELECT pg_advisory_xact_lock(1835296109)"
# Threads that write to one database queue: SQLite lets those that wait try again at random, and
# some may starve.
_TURNS: dict[str, threading.Lock] = {}


class Storage:
    """A database of answers.

    Parameters
    ----------
    place : str or path
        A file for SQLite, or the URL of a database: ``postgresql://user@host/name``.
    study : str
        The name of one of several studies in it; empty for the one without a name.
    """

    def __init__(self, place: str | Path, study: str = "") -> None:
        self.url, self.study = to_url(place), study
        self._engine = make_engine(self.url)
        self._turn, self._n_commits = _TURNS.setdefault(self.url, threading.Lock()), 0
        insert = sqlite.insert if self.is_file else postgresql.insert
        self._tables = make_tables(study)
        tables = self._tables.metadata.tables.values()
        self._insert: _Inserts = {t: insert(t).on_conflict_do_nothing() for t in tables}
        try:
            writer = self._engine.execution_options(writes=True)  # of several, one after another
            with writer.begin() as connection:
                self._create(connection)
        except sa.exc.DBAPIError as error:
            why = hide_password(str(error.orig).strip(), self.url)
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
        if sa.inspect(connection).has_table(self._tables.settings.name):
            chosen = sa.select(self._tables.settings.c.value).where(
                self._tables.settings.c.name == "schema"
            )
            found = connection.execute(chosen).scalar()
            for line in UPGRADES.get(str(found), ()):
                connection.exec_driver_sql(line)
            if found in UPGRADES:
                connection.execute(
                    sa.update(self._tables.settings)
                    .where(self._tables.settings.c.name == "schema")
                    .values(value=SCHEMA)
                )
        self._tables.metadata.create_all(connection)

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
    def write(self, *, learned: bool = False) -> Iterator["Transaction"]:
        """Begin a transaction; at its end all changes are on the disk, or none.

        One at a time among all servers: SQLite has a lock for it, PostgreSQL is asked for one. Its
        answers do not wait for models and reports, which have a lock of their own (`learned`).
        """
        with self._turn, self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                if not self.is_file:
                    connection.exec_driver_sql(_LOCK_LEARNED if learned else _LOCK)
                yield Transaction(connection, self._tables, self._insert)
            self._n_commits += 1
            is_time = self._n_commits % _COMMITS == 0
            if self.is_file and (is_time or has_little_room(self.name)):
                move_to_file(connection)

    def keep_setting(self, name: str, value: str) -> str:
        """Store a setting unless it is there already, and return its value."""
        with self.write() as change:
            change.insert(self._tables.settings, name=name, value=value)
        return str(self.read_setting(name))

    def read_setting(self, name: str) -> str | None:
        """Return the value of a setting; None if it is not there."""
        row = self._read(
            sa.select(self._tables.settings.c.value).where(self._tables.settings.c.name == name)
        )
        return row[0]["value"] if row else None

    def persons(self, person: str | None = None) -> list[Row]:
        """Return all persons, in the order in which they came, or one if there is one."""
        chosen = sa.select(self._tables.persons).order_by(self._tables.persons.c.time)
        if person is not None:
            chosen = chosen.where(self._tables.persons.c.id == person)
        return self._read(chosen)

    def count_persons(self, *, is_guest: bool) -> int:
        """Return how many persons came by the link for anybody, or in another way."""
        kind = sa.func.coalesce(self._tables.persons.c.is_guest, sa.false())
        chosen = sa.select(sa.func.count().label("n")).where(kind == is_guest)
        return int(self._read(chosen)[0]["n"])

    def answers(self, person: str | None = None) -> list[Row]:
        """Return questions with the answers that count, in the order of the answers."""
        live = sa.and_(
            self._tables.answers.c.question == self._tables.questions.c.id,
            self._tables.answers.c.undone.is_(None),
        )
        asked = [c for c in self._tables.questions.c if c.name not in ("number", "time")]
        given = [self._tables.answers.c[name] for name in ("outcome", "choice", "seconds", "time")]
        own = self._tables.answers.c.id.label("answer")
        chosen = (
            sa.select(*asked, *given, own)
            .join(self._tables.answers, live)
            .order_by(self._tables.answers.c.number)
        )
        if person is not None:
            chosen = chosen.where(self._tables.questions.c.person == person)
        return self._read(chosen)

    def open_questions(self, person: str) -> list[Row]:
        """Return the questions of a person that have no answer yet, the oldest first."""
        live = sa.and_(
            self._tables.answers.c.question == self._tables.questions.c.id,
            self._tables.answers.c.undone.is_(None),
        )
        return self._read(
            sa.select(self._tables.questions)
            .outerjoin(self._tables.answers, live)
            .where(self._tables.questions.c.person == person, self._tables.answers.c.id.is_(None))
            .order_by(self._tables.questions.c.number)
        )

    def anchors(self) -> dict[str, int]:
        """Return how often each item came first in a question."""
        counts: dict[str, int] = {}
        for row in self._read(sa.select(self._tables.questions.c["items"])):
            counts[row["items"][0]] = counts.get(row["items"][0], 0) + 1
        return counts

    def stamp(self) -> Stamp:
        """Return two numbers, quickly found, that change when an answer is added or undone."""
        with self._engine.connect() as connection:
            return _read_stamp(connection, self._tables)

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
        table = self._tables.models if "model" in columns else self._tables.reports
        chosen = [table.c[name] for name in ("version", *columns)]
        newest = sa.select(*chosen).order_by(table.c.version.desc()).limit(1)
        found = self._read(newest.where(table.c.version > after))
        return found[0] if found else None

    def models(self) -> list[Row]:
        """Return the versions of all models that are kept."""
        chosen = sa.select(self._tables.models.c.version)
        return self._read(chosen.order_by(self._tables.models.c.version))

    def read_model(self, version: int) -> Row:
        """Return a model that is kept, with the ids of its answers."""
        chosen = sa.select(self._tables.models.c.model, self._tables.models.c.answers)
        (row,) = self._read(chosen.where(self._tables.models.c.version == version))
        return row

    def _read(self, chosen: sa.Executable) -> list[Row]:
        with self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(chosen).mappings()]


class Transaction:
    """Changes that are made together; see :meth:`Storage.write`."""

    def __init__(self, connection: sa.Connection, tables: Tables, insert: _Inserts) -> None:
        self._connection, self._tables, self._insert = connection, tables, insert

    def insert(self, table: sa.Table, **values: object) -> bool:
        """Insert a row unless one like it is there; return whether it was inserted."""
        return bool(self._connection.execute(self._insert[table], values).rowcount)

    def stamp(self) -> Stamp:
        """Return the stamp of the answers, these changes included."""
        return _read_stamp(self._connection, self._tables)

    def newest_report(self) -> int:
        """Return the version of the latest report, 0 if there is none."""
        return int(self._connection.execute(self._tables.newest_report).scalar() or 0)

    def add_person(self, person: str, *, intro: str = "", is_guest: bool = False) -> None:
        """Add a person, or the consent of one who is there to a text, given by its fingerprint."""
        now = time.time()
        self.insert(self._tables.persons, id=person, time=now, is_guest=is_guest)
        if intro:
            mine = sa.update(self._tables.persons).where(self._tables.persons.c.id == person)
            new = sa.or_(
                self._tables.persons.c.intro.is_(None), self._tables.persons.c.intro != intro
            )
            self._connection.execute(mine.where(new).values(consent=now, intro=intro))

    def rename_items(self, names: dict[str, str]) -> None:
        """Give items other names in all questions."""
        rows = self._connection.execute(
            sa.select(self._tables.questions.c.number, self._tables.questions.c["items"])
        ).all()
        for number, items in rows:
            renamed = [names.get(name, name) for name in items]
            if renamed != items:
                change = sa.update(self._tables.questions).where(
                    self._tables.questions.c.number == number
                )
                self._connection.execute(change.values({"items": renamed}))

    def forget_learned(self, *, models: bool) -> None:
        """Delete the report with its questions, and all models if they fit no longer."""
        self._connection.execute(sa.delete(self._tables.reports))
        if models:
            self._connection.execute(sa.delete(self._tables.models))

    def add_question(self, question: Row) -> None:
        """Add a question that is to be asked."""
        self.insert(self._tables.questions, **question, time=time.time())

    def add_answer(self, answer: Row) -> bool:
        """Add an answer unless it, or another one to the question, is there."""
        return self.insert(self._tables.answers, **answer, time=time.time())

    def undo(self, person: str, answer: str) -> None:
        """Take back an answer of a person; doing it twice changes nothing."""
        mine = sa.and_(self._tables.answers.c.id == answer, self._tables.answers.c.person == person)
        change = sa.update(self._tables.answers).where(
            mine, self._tables.answers.c.undone.is_(None)
        )
        moment = max(time.time(), self.stamp()[1] + 1e-3)  # grows even if the clock is set back
        self._connection.execute(change.values(undone=moment))

    def replace_report(self, report: Row, queries: Sequence[Sequence[str]]) -> None:
        """Store a report with its questions in place of the last one."""
        self._connection.execute(sa.delete(self._tables.reports))
        values = {"report": report, "queries": queries, "time": time.time()}
        self._connection.execute(sa.insert(self._tables.reports).values(**values))

    def set(self, name: str, value: str) -> None:
        """Store a setting in place of its last value."""
        self._connection.execute(
            sa.delete(self._tables.settings).where(self._tables.settings.c.name == name)
        )
        self.insert(self._tables.settings, name=name, value=value)

    def insert_model(self, answers: Sequence[str], model: bytes) -> int:
        """Store a model with the ids of the answers it was learned from; return its version."""
        made = sa.insert(self._tables.models).values(answers=list(answers), model=model)
        return int(
            self._connection.execute(made.returning(self._tables.models.c.version)).scalar_one()
        )

    def delete_models(self, versions: Sequence[int]) -> None:
        """Delete models."""
        self._connection.execute(
            sa.delete(self._tables.models).where(self._tables.models.c.version.in_(versions))
        )


def _read_stamp(connection: sa.Connection, tables: Tables) -> Stamp:
    number, moment = connection.execute(tables.newest_answer).one()
    return int(number or 0), float(moment or 0)


def list_studies(place: str | Path) -> list[str]:
    """Return the names of the studies in a database; that without a name is empty."""
    if "://" not in str(place) and not Path(place).is_file():
        raise ValueError(f"There is no database {place}. mdaml ask ITEMS --answers begins one.")
    url = to_url(place)
    engine = make_engine(url)
    try:
        names = find_studies(sa.inspect(engine).get_table_names())
    except sa.exc.DBAPIError as error:
        why = hide_password(str(error.orig).strip(), url)
        raise ValueError(f"The database cannot be read: {why}.") from None
    finally:
        engine.dispose()
    found = []
    for name in names:
        storage = Storage(place, name)
        if storage.read_setting(_STUDY) is not None:
            found.append(name)
        storage.close()
    return found

"""The tables of a study; those of each study have a prefix, so that none can read another's."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

SCHEMA = "2"
# What makes a database of an earlier format one of this format; models are learned again.
UPGRADES = {
    "1": (
        "ALTER TABLE persons ADD COLUMN intro TEXT",
        "ALTER TABLE persons ADD COLUMN is_guest BOOLEAN",
        "DROP TABLE models",
        "DELETE FROM reports",
    )
}


@dataclass(frozen=True)
class Tables:
    """The tables of one study, and statements that are made once: that takes time."""

    settings: sa.Table
    persons: sa.Table
    questions: sa.Table
    answers: sa.Table
    reports: sa.Table
    models: sa.Table
    newest_answer: sa.Executable
    newest_report: sa.Executable

    @property
    def metadata(self) -> sa.MetaData:
        """All of them."""
        return self.settings.metadata


def name_prefix(study: str) -> str:
    """Return what the names of the tables of a study begin with."""
    return f"{study.replace('-', '_')}__" if study else ""


def find_studies(tables: Sequence[str]) -> list[str]:
    """Return the names of the studies that have these tables."""
    ends = [name.removesuffix("settings") for name in tables if name.endswith("settings")]
    names = [end.removesuffix("__").replace("_", "-") for end in ends]
    return sorted(name for name in names if make_tables(name).metadata.tables.keys() <= set(tables))


def make_tables(study: str) -> Tables:
    """Return the tables of a study."""
    metadata, prefix = sa.MetaData(), name_prefix(study)
    settings = sa.Table(
        f"{prefix}settings",
        metadata,
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    persons = sa.Table(
        f"{prefix}persons",
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("consent", sa.Double),
        sa.Column("intro", sa.Text),  # fingerprint of the text that was agreed to
        sa.Column("is_guest", sa.Boolean),  # came by the link for anybody
    )
    questions = sa.Table(
        f"{prefix}questions",
        metadata,
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("person", sa.Text, nullable=False, index=True),
        sa.Column("form", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("held_out", sa.Boolean, nullable=False),
        sa.Column("items", sa.JSON, nullable=False),  # ids in the order in which they are shown
        sa.Column("expected", sa.JSON(none_as_null=True)),  # right choice of a catch question
        sa.Column("repeats", sa.Text),  # the question that this one asks again
        sa.Column("time", sa.Double, nullable=False),
    )
    answers = _make_answers(prefix, metadata)
    reports = sa.Table(  # the latest alone
        f"{prefix}reports",
        metadata,
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("report", sa.JSON, nullable=False),
        sa.Column("queries", sa.JSON, nullable=False),  # triplets of ids worth asking
        sqlite_autoincrement=True,  # versions grow, though older rows are deleted
    )
    models = sa.Table(  # rows are never changed: SQLite would write the whole model again
        f"{prefix}models",
        metadata,
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("answers", sa.JSON, nullable=False),  # ids of those that it was learned from
        sa.Column("model", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    undone = sa.select(sa.func.max(answers.c.undone)).where(answers.c.undone.is_not(None))
    newest = sa.select(sa.func.max(answers.c.number)).scalar_subquery(), undone.scalar_subquery()
    return Tables(
        settings,
        persons,
        questions,
        answers,
        reports,
        models,
        sa.select(*newest),
        sa.select(sa.func.max(reports.c.version)),
    )


def _make_answers(prefix: str, metadata: sa.MetaData) -> sa.Table:
    answers = sa.Table(
        f"{prefix}answers",
        metadata,
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
    sa.Index(
        f"{prefix}one_answer",
        answers.c.question,
        unique=True,
        sqlite_where=answers.c.undone.is_(None),
        postgresql_where=answers.c.undone.is_(None),
    )
    sa.Index(
        f"{prefix}undone_answers",
        answers.c.undone,
        sqlite_where=answers.c.undone.is_not(None),
        postgresql_where=answers.c.undone.is_not(None),
    )
    return answers

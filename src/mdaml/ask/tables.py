"""The tables of a study."""

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
METADATA = sa.MetaData()
SETTINGS = sa.Table(
    "settings",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
PERSONS = sa.Table(
    "persons",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("consent", sa.Double),
    sa.Column("intro", sa.Text),  # fingerprint of the text that was agreed to
    sa.Column("is_guest", sa.Boolean),  # came by the link for anybody
)
QUESTIONS = sa.Table(
    "questions",
    METADATA,
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
ANSWERS = sa.Table(
    "answers",
    METADATA,
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
    "one_answer",
    ANSWERS.c.question,
    unique=True,
    sqlite_where=ANSWERS.c.undone.is_(None),
    postgresql_where=ANSWERS.c.undone.is_(None),
)
sa.Index(
    "undone_answers",
    ANSWERS.c.undone,
    sqlite_where=ANSWERS.c.undone.is_not(None),
    postgresql_where=ANSWERS.c.undone.is_not(None),
)
REPORTS = sa.Table(  # the latest alone
    "reports",
    METADATA,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("report", sa.JSON, nullable=False),
    sa.Column("queries", sa.JSON, nullable=False),  # triplets of ids worth asking
    sqlite_autoincrement=True,  # versions grow, though older rows are deleted
)
MODELS = sa.Table(  # rows are never changed: SQLite would write the whole model again
    "models",
    METADATA,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("answers", sa.JSON, nullable=False),  # ids of those that it was learned from
    sa.Column("model", sa.LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)

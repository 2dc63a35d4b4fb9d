"""The table of what to use is the same in README, guide, docstrings and ``mdaml --help``."""

import re
from pathlib import Path

import pytest

from mdaml import LocalMDaML, MDaML, MDaMLCV, estimators
from mdaml._choosing import CHOICES, show_choices
from mdaml.people import PersonalMetrics
from mdaml.retrieval import QueryAdapter

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/guide/choosing.md"])
def test_pages_show_the_table(page):
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    begin = lines.index("| I have | I want | use |") + 2
    rows = [re.split(r"\s*\|\s*", line)[1:-1] for line in lines[begin : begin + len(CHOICES)]]
    assert [tuple(cell.replace("`", "") for cell in row) for row in rows] == list(CHOICES)
    assert not lines[begin + len(CHOICES)].startswith("|")


@pytest.mark.parametrize("cls", [MDaML, MDaMLCV, LocalMDaML, PersonalMetrics, QueryAdapter])
def test_docstrings_show_the_table(cls):
    for row in CHOICES:
        pattern = r"\s+".join([*map(re.escape, row[:2]), re.escape(f"``{row[2]}``")])
        assert re.search(pattern, cls.__doc__), row


@pytest.mark.parametrize("indent", ["", "    "])  # Python 3.13 and newer take it away
def test_the_table_is_put_under_the_notes_at_their_indentation(indent):
    lines = ["A class.", "", "Notes", "-----", "More.", ""]
    shown = show_choices(type("Estimator", (), {"__doc__": f"\n{indent}".join(lines)})).__doc__
    assert f"{indent}-----\n{indent}**Which estimator to use**\n" in shown
    rows = [line for line in shown.splitlines() if "``MDaMLCV()``" in line]
    assert [len(row) - len(row.lstrip()) for row in rows] == [len(indent)]
    assert shown.rstrip().endswith(f"\n{indent}More.")


def test_the_command_line_shows_the_table():
    from typer.testing import CliRunner

    from mdaml.cli import build_app

    shown = " ".join(CliRunner().invoke(build_app(), ["--help"]).output.split())
    for have, want, use in CHOICES:
        assert f"{use} I have {have}. I want {want}." in shown


def test_docstrings_tell_the_cost_and_the_size_that_the_table_tells():
    """As ``time for five fits`` and ``1500 comparisons`` do; only one method is tried first."""
    shown = " ".join(have for have, _, _ in CHOICES)
    fits, answers = re.search(r"time for (\w+) fits.*?(\d+) comparisons", shown).groups()
    assert set(re.findall(r"about (\w+) (?:fits|times)", MDaMLCV.__doc__)) == {fits}
    (advice,) = re.findall(r"\*\*Prefer it\*\* (.*)", LocalMDaML.__doc__)
    assert f"{answers} comparisons" in advice
    others = [getattr(estimators, name) for name in estimators.__all__]
    assert [cls for cls in others if "first thing to try" in cls.__doc__] == []

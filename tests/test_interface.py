"""Nothing public goes without a word: the policy of ``docs/support.md``."""

import ast
import json
import re
from pathlib import Path

import pytest
from interface import RECORD, gone, interface

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def newest_section(changelog):
    return changelog.split("\n## ")[1]


def moved(section):
    """What the first column of the tables of a section calls by name, as code."""
    cells = re.findall(r"^ *\|([^|]*)\|", section, re.M)
    return {word for cell in cells for code in re.findall("`[^`]+`", cell) for word in words(code)}


def words(text):
    return re.findall(r"--[\w-]+|\w+", text)


@pytest.mark.needs("jinja2", "sqlalchemy", "starlette", "typer")  # of mdaml.ask and the commands
def test_what_is_gone_since_the_last_version_is_in_the_changelog():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    lost = list(gone(record["interface"], interface()))
    told = moved(newest_section(CHANGELOG))
    assert [what for what in lost if words(what.rpartition(".")[2])[-1] not in told] == []
    assert f"| {record['version']} | now |" in newest_section(CHANGELOG)


def test_lost_names_parameters_and_options_are_found():
    before = {"mdaml.A": ["x", "y"], "mdaml.B": [], "mdaml fit": ["--by"]}
    assert list(gone(before, before | {"mdaml.C": []})) == []
    now = {"mdaml.A": ["y", "z"], "mdaml fit": ["--who"]}
    assert list(gone(before, now)) == ["mdaml.A: x", "mdaml.B", "mdaml fit: --by"]
    assert list(gone({"mdaml.A": [], "mdaml.A.f": []}, {})) == ["mdaml.A"]
    assert moved("| old | new |\n| `A(x=1)`, `--by` | `z` |\n") == {"A", "x", "1", "--by"}


def deprecations(source):
    """Texts of the warnings by which a source announces that something will go."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and "FutureWarning" in map(ast.unparse, node.args):
            yield ast.unparse(node.args[0])


def faults(text, changelog):
    """What the policy wants of a deprecation and its text does not have."""
    version = re.search(r"mdaml (\d+\.\d+)", text)
    if version is None:
        return "does not say in which version the old way ends"
    if not re.search(r"\b[Uu]se ", text):
        return "does not say what to use instead"
    name = re.search(r"`?(\w+)", text.lstrip("f'\""))[1]
    announced = changelog.partition("### Deprecated\n")[2].partition("\n### ")[0]
    return None if name in announced else f"{name} is not under Deprecated in the changelog"


def test_deprecations_say_what_to_use_and_when_and_are_in_the_changelog():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    texts = [text for source in sources for text in deprecations(source)]
    assert [found for text in texts if (found := faults(text, CHANGELOG))] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("by= ends in mdaml 2.0. Use who=.", None),
        ("by= ends in mdaml 2.0.", "does not say what to use instead"),
        ("by= ends soon. Use who=.", "does not say in which version the old way ends"),
        ("in_= ends in mdaml 2.0. Use who=.", "in_ is not under Deprecated in the changelog"),
    ],
)
def test_a_deprecation_without_its_parts_is_found(text, found):
    source = f"warnings.warn({text!r}, FutureWarning, stacklevel=2)\n"
    (read,) = deprecations(source)
    changelog = "## 1.1.0\n\n### Deprecated\n\n- `by=` of `fit`\n\n### Fixed\n\n- `in_`\n"
    assert faults(read, changelog) == found

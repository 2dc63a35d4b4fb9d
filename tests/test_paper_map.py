"""Every equation has one home in the code and, where it computes something, a twin in loops."""

import ast
import re
from pathlib import Path

import literal
import pytest

ROOT = Path(__file__).parents[1]
PAPER = (ROOT / "docs" / "paper.md").read_text()
ROW = re.compile(r"^\| (\(\d+\)|Algorithm \d) \|[^|]*\| ([^|]*) \| ([^|]*)\|$", re.M)
ROWS = {name: (home.strip(), twin.strip()) for name, home, twin in ROW.findall(PAPER)}


def docstrings():
    """Each module, class, function and method of the package with its docstring, by its name."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        yield from named(ast.parse(path.read_text()), ".".join(parts).removesuffix(".__init__"))


def named(node, name):
    yield name, ast.get_docstring(node) or ""
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef | ast.ClassDef):
            yield from named(inner, f"{name}.{inner.name}")


def claims():
    """(equation, home) for each docstring line that begins with an equation or an algorithm."""
    for name, text in docstrings():
        for line in text.splitlines():
            if line.strip().startswith("Eq. ("):
                # Up to the formula or the end of the clause: "Eq. (10), the minimiser of Eq. (9):"
                for number in re.findall(r"\(\d+\)", re.split(r":|``| is ", line)[0]):
                    yield number, name
            elif found := re.match(r"\s*(Algorithm \d)", line):
                yield found[1], name


def test_the_table_has_every_equation_of_the_paper():
    assert set(ROWS) == {f"({n})" for n in range(1, 17)} | {"Algorithm 1", "Algorithm 2"}


def test_every_equation_is_claimed_by_one_docstring_the_one_in_the_table():
    in_table = {(eq, home.strip("`")) for eq, (home, _) in ROWS.items() if home.startswith("`")}
    assert sorted(claims()) == sorted(in_table)


@pytest.mark.parametrize("twin", sorted({twin for _, twin in ROWS.values() if twin}))
def test_every_twin_exists(twin):
    assert callable(getattr(literal, twin.strip("`")))


def test_deviations_in_the_code_are_explained():
    numbers = {
        n
        for path in (ROOT / "src").rglob("*.py")
        for n in re.findall(r"Deviates from the paper \((\d+)\)", path.read_text())
    }
    explained = set(re.findall(r"^(\d+)\. \*\*", PAPER, re.M))
    assert numbers
    assert numbers <= explained

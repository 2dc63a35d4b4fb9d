"""Pages of guide and theory: examples run, links lead somewhere, warnings are explained."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest
from pages import TolerantChecker, run_page, text_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINKED = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
ELSEWHERE = [DOCS / "deployment.md"]  # runs in test_export.py
RUN = [
    *(page for page in LINKED if ">>>" in page.read_text() and page not in ELSEWHERE),
    ROOT / "README.md",
]
TREES = [ast.parse(path.read_text()) for path in sorted((ROOT / "src").rglob("*.py"))]


def named(pages):
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


@named(RUN)
def test_the_examples_of_a_page_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some write files
    assert run_page(page).failed == 0


def anchors(page):
    """Anchors of the headings of a page, as GitHub and MyST make them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_of_all_pages_lead_to_files_and_headings_that_exist():
    links = [(page, target) for page in LINKED for target in links_of(page)]
    assert len(links) > 50
    assert [f"{page.name}: {target}" for page, target in links if not leads(page, target)] == []


def links_of(page):
    """Targets within the repository."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    return [target for target in targets if not target.startswith("http")]


def leads(page, target):
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if anchor and file.suffix == ".md":
        return file.exists() and anchor in anchors(file)
    return file.exists()


def warnings_of_the_code():
    for tree in TREES:
        for node in ast.walk(tree):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            # A name is a message that is handed on.
            if called in ("warnings.warn", "warn") and not isinstance(node.args[0], ast.Name):
                yield text_of(node.args[0])


def test_the_page_on_warnings_quotes_each_warning_of_the_code_and_no_other():
    page = (DOCS / "warnings.md").read_text()
    assert sorted(re.findall(r"^> (.*)$", page, re.M)) == sorted(warnings_of_the_code())


def test_each_warning_has_a_heading_of_its_own():
    page = (DOCS / "warnings.md").read_text()
    sections = re.split(r"^### ", page.partition("## Errors")[0], flags=re.M)[1:]
    assert all(len(re.findall(r"^> ", section, re.M)) == 1 for section in sections)


def test_messages_on_the_page_are_messages_of_the_code():
    page = (DOCS / "warnings.md").read_text()
    table = page.partition("## Errors met most often")[2].partition("\n## ")[0]
    wanted = [
        row.split(" | ")[0].removeprefix("| ") for row in table.splitlines() if row[:2] == "| "
    ]
    assert len(wanted) > 10
    written = "\n".join(
        text_of(node)
        for tree in TREES
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )
    assert [text for text in wanted[2:] if text not in written] == []


def test_advice_in_a_warning_that_differs_from_case_to_case_is_explained():
    page = (DOCS / "warnings.md").read_text()
    checks = (ROOT / "src" / "mdaml" / "estimators" / "mdaml_warnings.py").read_text()
    advice = re.findall(r'advice = "(.*)"', checks)
    assert len(advice) == 2
    assert all(f"*{text}*" in page for text in advice)


@pytest.mark.needs("pandas")
def test_the_notebook_has_the_code_of_the_quick_start_and_runs(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("notebook", ROOT / "tools" / "notebook.py")
    notebook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebook)
    built = notebook.build((DOCS / "quickstart.md").read_text(encoding="utf-8"))
    written = (DOCS / "quickstart.ipynb").read_text(encoding="utf-8")
    assert built == written, "run python tools/notebook.py"
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in json.loads(written)["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["metric"].score_triplets(names["X"], names["unseen"]) > names["before"] + 0.1


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        ("0.83\n", "0.82\n", True),
        ("0.83\n", "0.80\n", False),
        ("Euclidean 0.67, learned 0.835\n", "Euclidean 0.68, learned 0.834\n", True),
        ("Euclidean 0.67\n", "Euclid 0.67\n", False),
        ("0.83 0.72\n", "0.83\n", False),
        ("array([1, 2])\n", "array([1, 3])\n", False),
    ],
)
def test_numbers_on_pages_are_compared_in_the_digits_shown(want, got, same):
    assert TolerantChecker().check_output(want, got, 0) == same


def test_every_test_that_holds_a_promise_exists():
    page = (DOCS / "reliability.md").read_text()
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", page)
    assert len(named) > 50
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(), (file, test)


def test_every_row_of_the_table_of_promises_names_a_test():
    page = (DOCS / "reliability.md").read_text()
    table = page.partition("## Which test holds which promise")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")][2:]
    assert len(rows) > 30
    assert [row for row in rows if "::" not in row and "doctests of" not in row] == []

"""Every equation has one home in the code and, where it computes something, a twin in loops."""

import ast
import json
import re
from collections import defaultdict
from pathlib import Path

import literal
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAPER = (ROOT / "docs" / "paper.md").read_text()  # for readers
EQUATIONS = (ROOT / "docs" / "paper_equations.md").read_text()
EIGHT_SETS = [  # of the study of comparisons, docs/supervision.md
    *("letter", "vowel", "segment", "vehicle"),
    *("digits", "satimage", "penbased", "movement_libras"),
]
ROW = re.compile(r"^\| (\(\d+\)|Algorithm \d) \|[^|]*\| ([^|]*) \| ([^|]*)\|$", re.M)
ROWS = {name: (home.strip(), twin.strip()) for name, home, twin in ROW.findall(EQUATIONS)}


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
    explained = set(re.findall(r"^(\d+)\. \*\*", EQUATIONS, re.M))
    assert numbers
    assert numbers <= explained


@pytest.mark.needs("pandas")
def test_findings_on_the_page_are_those_of_the_records():
    from mdaml.experiments.config import IMAGES, OURS, PUBLISHED_GRID, RIVALS, UCI
    from mdaml.experiments.results import read_published, read_results

    lines = (ROOT / "results" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    results, published = read_results([json.loads(line) for line in lines]), read_published()
    uci, images = results.mean.loc[list(UCI)], results.mean.loc[list(IMAGES)]

    def best(frame, method):
        return int((frame[method] > frame[list(RIVALS)].max(axis=1)).sum())

    def rank(method, shown):
        ranks = uci[[method, *RIVALS]].rank(axis=1, ascending=False).mean()
        return f"{ranks[shown]:.2f}"

    def near(method):
        lowest = published["mean"]["MDaML"] - published["std"]["MDaML"]
        return int((uci[method] >= lowest.loc[uci.index]).sum())

    steps = results.sensitivity["mean"]
    gains = uci["MDaML (paper)"] - uci["MDaML (paper), fixed weights"]
    grid, weak = PUBLISHED_GRID, steps.loc["triplet_weight", "paper"]
    rows = [line.split(" | ") for line in PAPER.splitlines() if line.startswith("| ")]
    found = {row[0][2:]: " | ".join(row[1:]) for row in rows}
    accuracy = found["best on 6 of 10 UCI sets"]
    assert f"best on {best(uci, grid)} of 10" in accuracy
    assert f"best on {best(uci, OURS)} of 10" in accuracy
    ranks = [rank(grid, grid), rank(grid, "DML-dc"), rank(OURS, OURS), rank(OURS, "DML-dc")]
    assert re.findall(r"\d\.\d\d", accuracy) == ranks
    means = [f"{uci[method].mean():.1f}" for method in (grid, "MDaML (paper)", OURS)]
    mean = f"mean accuracy on them {published['mean']['MDaML'].mean():.1f} %"
    assert re.findall(r"(\d\d\.\d) %", found[mean]) == means
    assert (best(images, grid), best(images, "MDaML (paper)"), best(images, OURS)) == (0, 0, 1)
    helped = sorted(gains[gains > 1])
    assert (len(helped), int((gains.abs().round(6) <= 0.8).sum())) == (4, 5)
    assert f"by {helped[0]:.1f} to {helped[-1]:.1f} points" in found["self-weighting helps"]
    assert f"worse by {-gains.min():.1f} on {gains.idxmin()}" in found["self-weighting helps"]
    scores = [weak[1.0], results.mean.loc["segment", "EUCLID"], weak[10000.0]]
    row = found["λ₁ hardly matters; the study uses λ₁ = 1"]
    assert re.findall(r"(\d\d\.\d) %", row) == [f"{score:.1f}" for score in scores]
    many, ours = steps.loc["n_modes", "library"], steps.loc["n_modes", "neighbors"]
    row = found["K = 10 is best, larger K is stable"]
    shown = [many.max(), many[50.0], ours[2.0], ours[50.0]]
    assert re.findall(r"\d\d\.\d", row) == [f"{score:.1f}" for score in shown]
    assert f"best at K = {many.idxmax():.0f}" in row
    cells = uci[list(RIVALS)] - published["mean"].reindex(columns=list(RIVALS))
    assert f"in {int((cells > 0).sum().sum())} of {int(cells.notna().sum().sum())} cells" in PAPER
    assert (near(grid), near(OURS)) == (5, 9)


def test_the_gain_of_the_anchor_is_that_of_the_records():
    lines = (ROOT / "results" / "kinds.jsonl").read_text(encoding="utf-8").splitlines()
    held = defaultdict(list)
    for record in map(json.loads, lines):
        if record["dataset"] in EIGHT_SETS:
            held[record["method"]].append(100 * record["unseen"])
    means = {method: np.mean(values) for method, values in held.items()}
    many, few, one = (f"{means[f'Eq. (7), K={n}']:.1f}" for n in (20, 3, 1))
    assert f"{many}, {few} and {one} %, MDaML (ours) {means['MDaML()']:.1f} %" in PAPER

"""Figures on the pages about results are those of the records, so no two pages disagree."""

import importlib
import itertools
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from mdaml.experiments.config import IMAGES, OURS, PAPER, PUBLISHED_GRID, RIVALS, UCI

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def read(page):
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


def read_records(name):
    lines = (ROOT / "results" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def study():
    """Return the mean accuracy of each method on the 24 sets, as a page prints it."""
    scores = defaultdict(list)
    for record in read_records("study"):
        scores[record["method"]].append(100 * np.mean(record["accuracies"]))
    assert {len(values) for values in scores.values()} == {24}
    return {name: f"{np.mean(values):.1f}" for name, values in scores.items()}


@pytest.fixture(scope="module")
def accuracy():
    """Return the mean accuracies of the paper's experiments, a row for each data set."""
    from mdaml.experiments.results import read_results

    return read_results(read_records("records")).mean


def rank(accuracy, method, shown, sets):
    """Return the mean rank of one method when another stands for MDaML."""
    frame = accuracy.loc[list(sets), [method, *RIVALS]]
    return f"{frame.rank(axis=1, ascending=False).mean()[shown]:.2f}"


def best_on(accuracy, method):
    """Return the UCI sets on which a method is better than all that are not MDaML."""
    uci = accuracy.loc[list(UCI)]
    return list(uci.index[uci[method] > uci[list(RIVALS)].max(axis=1)])


def test_accuracies_of_the_study_are_those_of_the_records(study):
    ours, nca, euclid = (study[name] for name in ("MDaML()", "NCA", "Euclidean"))
    wanted = f"`MDaML()` {ours} % on 24 data sets, NCA {nca} %, Euclidean {euclid} %"
    assert wanted in read("experiments_index.md")
    assert f"`MDaML()` has {ours} % and NCA {nca} %" in read("comparison.md")
    page = read("accuracy.md")
    assert f"{study['MDaMLCV()']} over all 24" in page
    assert f"{ours} over all)" in page
    assert f"NCA has {nca} and Euclidean distance {euclid}" in page


def test_labels_with_places_are_those_of_the_records():
    records = [r for r in read_records("local") if r["study"] == "labels"]
    linear, local = (
        np.mean([100 * r["classes"] for r in records if r["method"] == method])
        for method in ("MDaML()", "LocalMDaML()")
    )
    assert f"a mean of {local:.1f} against {linear:.1f}" in read("places.md")


@pytest.mark.needs("pandas")
def test_means_of_the_papers_sets_are_those_of_the_records(accuracy):
    from mdaml.experiments.results import read_published

    grid, own, ours = (
        f"{accuracy.loc[list(UCI), method].mean():.1f}" for method in (PUBLISHED_GRID, PAPER, OURS)
    )
    printed = f"{read_published()['mean']['MDaML'].mean():.1f}"
    wanted = f"{grid} % where it prints {printed} %; {ours} % with ours"
    assert wanted in read("experiments_index.md")
    assert f"{own} to {ours} % from the same triplets" in read("paper.md")


@pytest.mark.needs("pandas")
def test_sets_on_which_the_papers_method_is_best_are_the_same_on_all_pages(accuracy):
    by_grid, (own,) = best_on(accuracy, PUBLISHED_GRID), best_on(accuracy, PAPER)
    row = (
        f"with the grid of the paper best on {len(by_grid)} of 10, {' and '.join(by_grid)}, "
        f"with ours on 1, {own}"
    )
    assert row in read("paper.md")
    page = read("experiments.md")
    assert f"best on one of the ten sets, {own}, by" in page
    assert f"with the published grid on two, {' and '.join(by_grid)}" in page
    ours = best_on(accuracy, OURS)
    assert f"MDaML (ours) is best on {', '.join(ours[:-1])} and {ours[-1]}" in page


@pytest.mark.needs("pandas")
def test_mean_ranks_are_those_of_the_records(accuracy):
    every, page = (*UCI, *IMAGES), read("experiments.md")
    first, second = (rank(accuracy, OURS, method, every) for method in (OURS, "DML-dc"))
    assert f"ten methods ({first}, next DML-dc with {second})" in page
    assert f"the best mean rank, {first} of ten methods" in read("experiments_index.md")
    tens = [rank(accuracy, OURS, method, UCI) for method in (OURS, "DML-dc")]
    assert f"the ten UCI sets**: MDaML (ours) {tens[0]}, DML-dc {tens[1]}" in page
    paper = re.search(r"\*\*MDaML \(paper\), on the same triplets\*\*.*?Earlier", page)[0]
    wanted = [rank(accuracy, PAPER, method, every) for method in (PAPER, "DML-dc")]
    wanted += [rank(accuracy, PAPER, method, UCI) for method in (PAPER, "DML-dc")]
    assert re.findall(r"\d\.\d\d", paper) == wanted


def test_how_long_the_quick_run_takes_is_the_same_everywhere():
    from mdaml.cli import paper as command

    wanted = "mdaml paper run --quick # three small sets, two splits, one minute"
    assert wanted in read("experiments.md")
    assert "`mdaml paper run --quick` | 1 minute" in read("reproduce.md")
    assert "A look in one minute" in Path(command.__file__).read_text(encoding="utf-8")


def draft():
    return " ".join((ROOT / "paper" / "paper.md").read_text(encoding="utf-8").split())


@pytest.mark.needs("pandas")
def test_the_draft_of_the_article_has_the_ranks_and_seconds_of_the_records(accuracy):
    every = (*UCI, *IMAGES)
    ours, dc = (rank(accuracy, OURS, method, every) for method in (OURS, "DML-dc"))
    assert f"ten methods, {ours}; the next is DML-dc with {dc}" in draft()
    (own, other, own_others, others) = re.search(
        r"on both \(([\d.]+), next ([\d.]+); ([\d.]+), next ([\d.]+)\)", read("accuracy.md")
    ).groups()
    assert f"{own} on the paper's sets (next best {other})" in draft()
    assert f"{own_others} on the others (next best {others})" in draft()
    caltech, bupa = re.search(
        r"tuned, it is ([\d.]+) points behind on caltech20 and ([\d.]+) on bupa",
        read("accuracy.md"),
    ).groups()
    assert f"{bupa} points behind on bupa and {caltech} on caltech20" in draft()
    gpu = json.loads((ROOT / "benchmarks" / "results" / "gpu.json").read_text(encoding="utf-8"))
    assert f"10^7 triplets takes {gpu['large']['fit_seconds']:.1f} s" in draft()


def test_the_draft_of_the_article_has_the_agreement_with_places_of_the_records():
    held = defaultdict(list)
    for record in read_records("local"):
        if record["study"] == "kinds" and record["case"][:2] == [10_000, 0.0]:
            held[record["method"]].append(100 * record["share"])
    local, linear, network = (
        f"{np.mean(held[name]):.0f}" for name in ("LocalMDaML()", "MDaML()", "network")
    )
    assert f"{local} % of new ones hold under `LocalMDaML()`, {linear} % under" in draft()
    assert f"and {network} % under a small network" in draft()


def rows_below(page, words):
    """Cells of the first table after some words of a page, by the name in the first column."""
    lines = (DOCS / page).read_text(encoding="utf-8").partition(words)[2].splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("|"))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[begin:])
    return {
        cells[0]: cells[1:] for cells in ([c.strip() for c in r[1:-1].split("|")] for r in table)
    }


def test_what_the_page_on_comparisons_says_in_short_is_what_its_tables_say():
    """The tables are those of the records: see tests/test_studies.py."""
    means = [
        {name: cells[-2] for name, cells in rows_below("supervision.md", f"\n{title}:\n").items()}
        for title in (
            "Compared coarse, 3-NN of coarse labels",
            "Compared coarse, 3-NN of fine labels",
            "Compared fine, 3-NN of fine labels",
        )
    ]
    ours, found, labels = (
        [f"{abs(float(mean[name])):.1f}" for mean in means]
        for name in ("MDaML (ours)", 'MDaML (ours), goal="neighbors"', "MDaML (ours) from labels")
    )
    page = read("supervision.md")
    assert f"{ours[0]} points below for coarse labels, {ours[1]} for fine ones" in page
    assert f"{found[0]} points above Euclid for coarse labels and {found[1]} for the fine" in page
    assert f"(with labels {labels[0]} and {labels[1]})" in page
    assert f"On fine comparisons it is {found[2]} above (labels {labels[2]})" in page
    texts = rows_below("supervision.md", "### Embeddings of texts")
    score = {name: cells[0].partition(" ")[0] for name, cells in texts.items()}
    regression = score["logistic regression"]
    assert f"({score['MDaML (ours)']}; logistic regression has {regression})" in page


def test_the_tables_of_the_page_on_places_are_those_of_the_records(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")  # programs, not a package
    local = importlib.import_module("local")
    report = "\n".join(local.report(read_records("local"))).partition("### What was chosen")[0]
    page = (DOCS / "places.md").read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", report + "\n", re.M)
    assert len(tables) == 9
    assert [table for table in tables if table not in page] == []


def test_the_picture_of_the_page_on_places_is_described_as_the_table_has_it():
    page = (DOCS / "places.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:agreement|3-NN kinds) \| 10000, 0% wrong \| (.*) \|$", page, re.M)
    share, kinds = (row.split(" | ") for row in rows)  # Euclid, MDaML, LocalMDaML, network
    shown = re.findall(r"\d\d\.\d", re.search(r"!\[(.*?)\]", page)[1])
    assert shown == [*share[::-1], *(kinds[k] for k in (3, 2, 1, 0))]


def tables_of(text):
    return re.findall(r"(?:^\|.*\n)+", text + "\n", re.M)


@pytest.mark.parametrize(
    ("study", "page", "n_tables"), [("study", "accuracy.md", 11), ("clicks", "retrieval.md", 1)]
)
def test_tables_of_a_study_are_those_of_the_records(study, page, n_tables, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "experiments")  # programs, not a package
    importlib.import_module(study).report()
    made = tables_of(capsys.readouterr().out)
    text = (DOCS / page).read_text(encoding="utf-8")
    assert len(made) == n_tables
    assert [table for table in made if table not in text] == []


def test_the_table_of_answers_needed_is_that_of_the_records(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    study = importlib.import_module("how_many")
    records = read_records("how_many")
    assert len(records) == len(list(study.all_jobs()))
    assert "\n".join(study.report(records)) in (DOCS / "how_many.md").read_text(encoding="utf-8")

"""The report: tables, figures and page, from records made up here."""

import html
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from scipy import stats
from suite.needs import CHROMIUM, skip_without

import mdaml.experiments.figures as figures_module
from mdaml.experiments.config import (
    FIXED,
    IMAGES,
    OURS,
    PAPER,
    PUBLISHED_GRID,
    RIVALS,
    SETTINGS,
    UCI,
    VARIANTS,
)
from mdaml.experiments.figures import rounds_to_settle
from mdaml.experiments.findings import find_all
from mdaml.experiments.page import make_tables, render_page
from mdaml.experiments.pictures import COLORS, fix_layout, report_style, to_inline_svg, to_svg
from mdaml.experiments.ranking import (
    compare_with_ours,
    critical_difference,
    holm,
    indistinct_groups,
    rank_in_place,
    rank_methods,
)
from mdaml.experiments.report import write_report
from mdaml.experiments.results import read_published, read_results
from mdaml.experiments.toy_figure import learn_toy

pytestmark = pytest.mark.needs("jinja2")

TABLES = ("accuracy", "tests", "variants", "times", "parameters", "sizes")
FIGURES = ("critical_difference", "fixed_weights", "images", "convergence", "sensitivity", "toy")

# Demšar (2006), Table 6: AUC of C4.5 and of three ways to tune it, on 14 data sets. The two .975
# of the last row but one are printed alike and ranked 2 and 3 there.
DEMSAR = """
.763 .768 .771 .798
.599 .591 .590 .569
.954 .971 .968 .967
.628 .661 .654 .657
.882 .888 .886 .898
.936 .931 .916 .931
.661 .668 .609 .685
.583 .583 .563 .625
.775 .838 .866 .875
1.000 1.000 1.000 1.000
.940 .962 .965 .962
.619 .666 .614 .669
.972 .981 .9751 .975
.957 .978 .946 .970
"""


def trial(dataset, method, number, accuracy, **more):
    record = {"kind": "trial", "dataset": dataset, "method": method, "trial": number}
    return record | {"seed": number, "accuracy": accuracy, "fit_seconds": 0.5} | more


def make_records(datasets, methods, n_trials, *, seed=0, **more):
    """Trials and tuning with random accuracies around a level of each data set and method."""
    rng = np.random.default_rng(seed)
    records = []
    for dataset, method in itertools.product(datasets, methods):
        level = rng.uniform(0.6, 0.95)
        params = {"n_modes": 10, "ridge": 1e-4} if method.startswith("MDaML") else {"reg": 0.5}
        scores = [{"params": params, "mean": level, "folds": [level]}, {"params": {}, "mean": 0.1}]
        head = {"kind": "tuning", "dataset": dataset, "method": method}
        records.append(head | {"params": params, "scores": scores, "seconds": 12.5})
        for number in range(n_trials):
            accuracy = float(np.clip(rng.normal(level, 0.02), 0, 1))
            sizes = {"n_train": 70, "n_test": 30, "n_features": 4, "params": params}
            about = {"versions": {"mdaml": "0.1"}, "time": "2026-01-02T03:04:05+00:00"}
            seconds = {"fit_seconds": float(rng.gamma(2.0, 0.1))}
            records.append(
                trial(dataset, method, number, accuracy, **sizes, **about, **seconds, **more)
            )
    return records


def make_curves():
    """Convergence on three data sets and sensitivity on segment."""
    values = 3.0 + 500.0 * np.exp(-np.arange(31) / 3)
    records = [
        {
            "kind": "convergence",
            "dataset": dataset,
            "method": PAPER,
            "objective": values[::3].tolist(),
            "history": values.tolist(),
            "params": {},
        }
        for dataset in ("spambase", "letter", "dna")
    ]
    grids = {"n_modes": (2, 10, 50), "triplet_weight": (0.1, 1000), "eta": (2, 3), "ridge": (0, 1)}
    rng = np.random.default_rng(1)
    for parameter, grid in grids.items():
        for setting, value, number in itertools.product(SETTINGS, grid, range(2)):
            line = {"parameter": parameter, "setting": setting, "value": value, "trial": number}
            accuracy = float(rng.uniform(0.9, 0.98))
            head = {"kind": "sensitivity", "dataset": "segment"}
            records.append(head | line | {"accuracy": accuracy})
    return records


def from_means(rows, methods, datasets=None):
    """Results with one trial for each entry of a matrix."""
    names = datasets or [f"set {i}" for i in range(len(rows))]
    return read_results(
        [
            trial(name, method, 0, float(value))
            for name, row in zip(names, rows, strict=True)
            for method, value in zip(methods, row, strict=True)
        ]
    )


def table(results, name):
    return make_tables(find_all(results))[name]


def cell(table, row, column):
    rows = {cells[0]["text"]: cells for cells in (*table["rows"], *table["footer"])}
    return rows[row][list(table["columns"]).index(column)]


def texts(row):
    return [entry["text"] for entry in row]


def words(markup):
    """The text of some HTML, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


def sentence(results, name):
    """What the page says in its paragraph of this name; empty if there is none."""
    page = render_page(find_all(results), {}, {})
    found = re.search(rf'<p [^>]*id="{name}"[^>]*>(.*?)</p>', page, re.DOTALL)
    return words(found[1]) if found else ""


def notes(results, section):
    """What the page lists in a section."""
    page = render_page(find_all(results), {}, {})
    part = re.search(rf'<section id="{section}".*?</section>', page, re.DOTALL)[0]
    return [words(note) for note in re.findall(r"<li>(.*?)</li>", part, re.DOTALL)]


def draw(name, results):
    """A figure, and its caption and its description in words on the page."""
    with report_style():
        figure, values = getattr(figures_module, f"draw_{name}")(results)
    drawn = {name: values | {"svg": "></svg>"}}
    page = render_page(find_all(results), {}, drawn)
    caption = re.search(r"<figcaption>(.*?)</figcaption>", page, re.DOTALL)[1]
    return figure, words(caption), re.search(r'<svg role="img" aria-label="([^"]*)"', page)[1]


@pytest.fixture(scope="module")
def full_records():
    return make_records((*UCI, *IMAGES), (OURS, *VARIANTS, *RIVALS), 3) + make_curves()


@pytest.fixture(scope="module")
def full(full_records):
    return read_results(full_records)


@pytest.fixture
def partial():
    """Three methods on two sets, fewer trials for one cell, one cell absent."""
    records = make_records(("balance", "osr"), (OURS, "EUCLID", "GMML"), 2, preset="quick")
    wanted = [r for r in records if (r["dataset"], r["method"]) != ("osr", "GMML")]
    return [r for r in wanted if (r["method"], r.get("trial")) != ("EUCLID", 1)]


@pytest.fixture(scope="module", autouse=True)
def _without_learning():
    """Replace the toy, the only part of a report that learns, by an empty figure."""

    def draw():
        figure = Figure(figsize=(4, 1))
        figure.subplots(1, 2)[0].set_title("toy")
        return figure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures_module, "learn_toy", draw)
        yield


@pytest.fixture(scope="module")
def report(full_records, tmp_path_factory):
    return write_report(full_records, tmp_path_factory.mktemp("full") / "report").parent


@pytest.fixture(scope="module")
def page(report):
    return (report / "report.html").read_text(encoding="utf-8")


# The paper's tables


def test_published_tables_are_complete():
    published = read_published()
    for name in ("mean", "std", "bold"):
        assert published[name].shape == (10, 9)
    for name in ("seconds", "bold_seconds"):
        assert published[name].shape == (10, 7)
    assert not any(table.isna().any(axis=None) for table in published.values())
    assert set(published["mean"].index) == set(UCI)
    assert set(published["sizes"].index) == {*UCI, *IMAGES}
    assert published["mean"].loc["spambase", "LFDA"] == 73.82
    assert published["std"].loc["spambase", "LFDA"] == 7.11
    assert published["mean"].loc["waveform", "GMML"] == 83.06
    assert published["std"].loc["waveform", "GMML"] == 0.30
    assert published["seconds"].loc["dna", "DML-dc"] == 2180
    assert published["seconds"].loc["sonar", "DML-dc"] == 3.1535
    assert published["sizes"].loc["letter"].tolist() == [16, 26, 5000]


def test_paper_prints_the_best_in_bold_but_for_spambase():
    published = read_published()
    for dataset in UCI:
        means, times = (published[name].loc[dataset] for name in ("mean", "seconds"))
        bold, quick = (published[name].loc[dataset] for name in ("bold", "bold_seconds"))
        assert (bold[bold].index.tolist() == [means.idxmax()]) == (dataset != "spambase")
        assert quick.tolist() == (times == times.min()).tolist()
    assert published["bold"]["MDaML"].sum() == 6


# Records


def test_a_repeated_record_replaces_the_first():
    records = [trial("dna", OURS, 0, 0.1), trial("dna", OURS, 1, 0.5), trial("dna", OURS, 0, 0.7)]
    trials = read_results(records).trials.sort_values("trial")
    assert trials["accuracy"].tolist() == [70.0, 50.0]


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "trial", "dataset": "dna", "method": OURS, "trial": 0},
        trial("dna", OURS, 0, 97.0),
        trial("dna", OURS, 0, math.nan),
        trial("dna", OURS, 0, None),
        trial("dna", OURS, 0, 0.9) | {"fit_seconds": -1},
        {"kind": "convergence", "dataset": "dna", "objective": [1.0, math.inf]},
        {"kind": "sensitivity", "dataset": "segment", "accuracy": 0.9},
        {"kind": "tuning", "dataset": "dna", "method": OURS, "params": 3},
        {},
        "text",
    ],
)
def test_records_that_cannot_be_are_left_out_and_counted(record):
    results = read_results([record, trial("osr", OURS, 0, 0.5)])
    assert results.datasets == ("osr",)
    assert results.n_unusable == 1
    assert any("1 record could not be used" in note for note in notes(results, "missing"))


@pytest.mark.parametrize("records", [[], make_curves(), [trial("dna", OURS, 0, 97.0)]])
def test_without_a_usable_trial_the_error_says_so_and_nothing_is_written(records, tmp_path):
    with pytest.raises(ValueError, match=f"got none among {len(records)} records"):
        write_report(records, tmp_path / "report")
    assert not list(tmp_path.iterdir())


def test_the_error_names_what_is_wrong_with_the_first_record():
    with pytest.raises(ValueError, match=r"must be a fraction from 0 to 1, got 97\.0"):
        read_results([trial("dna", OURS, 0, 97.0)])


def test_older_records_are_read_under_the_names_of_today():
    names = {
        "MDaML": OURS,
        "MDaML, Eq. (7)": PAPER,
        "MDaML, defaults": "MDaML (ours), untuned",
        "MDaML, automatic": "MDaML (ours), automatic",
        "MDaML, published grid": PUBLISHED_GRID,
        "MDaML, neighbours": "MDaML (paper), neighbours",
        "MDaML, fixed weights": FIXED,
    }
    assert set(names.values()) == {OURS, *VARIANTS}
    older = make_records(("dna", "sonar"), (*names, "EUCLID"), 2)
    today = [record | {"method": names.get(record["method"], record["method"])} for record in older]
    assert table(read_results(older), "variants") == table(read_results(today), "variants")
    assert set(read_results(older).methods) == {OURS, *VARIANTS, "EUCLID"}


def test_names_come_in_the_order_of_the_paper_and_new_ones_last():
    names = [
        ("new set", "mine"),
        ("letter", "NCA"),
        ("osr", OURS),
        ("autompg", "MDaML (ours), mine"),
    ]
    results = read_results([trial(*name, 0, 0.5) for name in names])
    assert results.datasets == ("autompg", "letter", "osr", "new set")
    assert results.methods == (OURS, "NCA", "mine", "MDaML (ours), mine")
    assert results.compared == (OURS, "NCA", "mine")
    assert results.variants == (OURS, "MDaML (ours), mine")


# Statistics


@pytest.mark.parametrize(
    ("n_methods", "q"),
    [
        *((2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850)),
        *((7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)),
    ],
)
def test_critical_difference_is_that_of_demsars_table(n_methods, q):
    expected = q * math.sqrt(n_methods * (n_methods + 1) / (6 * 30))
    assert critical_difference(n_methods, 30) == pytest.approx(expected, abs=5e-4)


def test_mean_ranks_are_those_of_demsars_example():
    rows = [line.split() for line in DEMSAR.split("\n") if line]
    ranking = rank_methods(from_means(rows, ("a", "b", "c", "d")))
    assert ranking.ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert ranking.critical_difference == pytest.approx(1.25, abs=5e-3)
    assert [method for method, _ in ranking.ordered] == ["d", "b", "c", "a"]
    assert 0.01 < ranking.p_value < 0.05  # F = 3.69 with (3, 39) degrees of freedom


def test_mean_ranks_agree_with_counting(full):
    ranking = rank_methods(full)
    assert ranking.methods == (OURS, *RIVALS)
    assert len(ranking.datasets) == 13
    for method, rank in zip(ranking.methods, ranking.ranks, strict=True):
        ranks = [
            1 + sum(full.mean_of(d, other) > full.mean_of(d, method) for other in ranking.methods)
            for d in ranking.datasets
        ]
        assert rank == pytest.approx(statistics.mean(ranks))


def test_a_method_with_few_sets_does_not_shrink_the_ranking():
    rows = np.random.default_rng(0).uniform(0.5, 1, (8, 4)).tolist()
    records = [
        trial(f"set {i}", method, 0, value)
        for i, row in enumerate(rows)
        for method, value in zip((OURS, "EUCLID", "GMML", "NCA"), row, strict=True)
        if method != "NCA" or i < 2
    ]
    ranking = rank_methods(read_results(records))
    assert ranking.methods == (OURS, "EUCLID", "GMML")
    assert len(ranking.datasets) == 8


def test_mdaml_stays_in_the_ranking_however_few_its_sets():
    records = [trial(f"set {i}", m, 0, 0.5) for i in range(9) for m in ("EUCLID", "GMML", "LFDA")]
    ranking = rank_methods(read_results([*records, trial("set 0", OURS, 0, 0.6)]))
    assert OURS in ranking.methods
    assert ranking.datasets == ("set 0",)
    assert math.isnan(ranking.critical_difference)


def test_a_variant_is_ranked_in_place_of_mdaml_only():
    methods = (OURS, PUBLISHED_GRID, "EUCLID", "GMML")
    results = from_means([[0.9, 0.6, 0.7, 0.8], [0.9, 0.85, 0.7, 0.8]], methods)
    ranking = rank_methods(results)
    assert ranking.methods == (OURS, "EUCLID", "GMML")
    assert ranking.ranks.tolist() == [1.0, 3.0, 2.0]
    assert rank_in_place(results, ranking, PUBLISHED_GRID) == 2.0  # third, then first
    assert rank_in_place(results, ranking, OURS) == 1.0
    assert cell(table(results, "variants"), "mean rank", PUBLISHED_GRID)["text"] == "2.00"


def test_the_same_order_everywhere_leaves_no_doubt():
    results = from_means([[0.9, 0.8, 0.7]] * 5, (OURS, "EUCLID", "GMML"))
    assert rank_methods(results).p_value == 0.0
    equal = from_means([[0.9, 0.9, 0.9]] * 5, (OURS, "EUCLID", "GMML"))
    assert rank_methods(equal).p_value == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_the_largest_runs_within_the_difference(seed):
    rng = np.random.default_rng(seed)
    ranks = np.sort(rng.uniform(1, 9, 8))
    near = [(i, j) for i in range(8) for j in range(i + 1, 8) if ranks[j] - ranks[i] <= 1.5]
    largest = [
        (i, j) for i, j in near if not any(a <= i and j <= b and (a, b) != (i, j) for a, b in near)
    ]
    assert indistinct_groups(ranks, 1.5) == largest


def test_wilcoxon_agrees_with_scipy_and_with_all_signs_tried(full):
    signs = np.array(list(itertools.product((-1, 1), repeat=13)))
    for test in compare_with_ours(full):
        pairs = full.means(full.datasets, (OURS, test["method"]))
        assert test["p"] == pytest.approx(stats.wilcoxon(*pairs.T).pvalue)
        assert test["better"] == int(np.sum(pairs[:, 0] > pairs[:, 1]))
        assert test["better"] + test["equal"] + test["worse"] == 13
        differences = pairs[:, 0] - pairs[:, 1]
        assert test["median"] == pytest.approx(statistics.median(differences))
        ranks = stats.rankdata(abs(differences))
        sums = abs(signs @ ranks)
        as_extreme = np.mean(sums >= abs(np.sign(differences) @ ranks) - 1e-9)
        assert test["p"] == pytest.approx(as_extreme)


def test_equal_means_are_no_evidence():
    results = from_means([[0.9, 0.9]] * 6, (OURS, "EUCLID"))
    (test,) = compare_with_ours(results)
    assert (test["better"], test["equal"], test["worse"], test["p"]) == (0, 6, 0, 1.0)


def test_holm_by_hand():
    # Sorted: 0.01 * 4 = 0.04, 0.02 * 3 = 0.06, 0.025 * 2 = 0.05 -> 0.06, 0.9.
    assert holm([0.025, 0.9, 0.01, 0.02]) == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


# Tables


def test_accuracies_are_means_and_deviations_of_the_trials(full_records, full):
    accuracies = table(full, "accuracy")
    for dataset, method in (("dna", OURS), ("osr", "NCA"), ("balance", "GMML")):
        values = [
            100 * record["accuracy"]
            for record in full_records
            if (record["kind"], record["dataset"], record.get("method"))
            == ("trial", dataset, method)
        ]
        expected = f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
        assert cell(accuracies, dataset, method)["text"] == expected


def test_the_best_is_bold_and_the_second_underlined(full):
    accuracies = table(full, "accuracy")
    for row in accuracies["rows"]:
        order = sorted(row[1:], key=lambda entry: entry["order"], reverse=True)
        assert [entry["mark"] for entry in order[:3]] == ["best", "second", ""]
    assert sum(entry["order"] for entry in accuracies["footer"][0][1:]) == 13


def test_cells_that_print_alike_are_marked_alike():
    results = from_means([[0.900001, 0.9, 0.8]], (OURS, "EUCLID", "GMML"))
    (row,) = table(results, "accuracy")["rows"]
    assert [entry["mark"] for entry in row[1:]] == ["best", "best", "second"]


def test_the_papers_values_stand_beside_ours_with_the_papers_bold(full):
    accuracies, variants = table(full, "accuracy"), table(full, "variants")
    ours, eig = (cell(accuracies, "spambase", method) for method in (OURS, "DML-eig"))
    assert (ours["published"], ours["bold"]) == ("92.12 ± 0.52", True)
    assert (eig["published"], eig["bold"]) == ("92.32 ± 0.41", False)
    assert cell(accuracies, "spambase", "NCA")["published"] == ""
    assert cell(accuracies, "osr", OURS)["published"] == ""
    assert cell(variants, "dna", PUBLISHED_GRID)["published"] == "93.74 ± 0.96"
    assert cell(variants, "dna", OURS)["published"] == ""


@pytest.mark.parametrize("methods", [(PUBLISHED_GRID,), (PAPER,), (PAPER, PUBLISHED_GRID)])
def test_the_papers_value_is_there_if_only_the_papers_method_was_run(methods):
    results = read_results(make_records(["sonar"], [*methods, "EUCLID"], 2))
    for name, value in (("accuracy", "83.13 ± 3.36"), ("times", "1.21 (")):
        shown = [cell(table(results, name), "sonar", m)["published"] for m in methods]
        assert shown[-1].startswith(value)
        assert shown[:-1] == [""] * (len(methods) - 1)
    assert "the paper's MDaML is beside MDaML (paper)" in table(results, "accuracy")["caption"]


def test_fewer_trials_and_missing_cells_are_shown(partial):
    results = read_results(partial)
    accuracies = table(results, "accuracy")
    assert "(1 trial)" in cell(accuracies, "balance", "EUCLID")["text"]
    assert "±" not in cell(accuracies, "balance", "EUCLID")["text"]
    assert cell(accuracies, "osr", "GMML")["text"] == "–"
    assert cell(accuracies, "osr", "GMML")["order"] is None
    assert "over 2 trials, or fewer if a cell says so." in accuracies["caption"]
    missing = notes(results, "missing")
    assert "GMML was not run on osr." in missing
    assert "EUCLID has fewer trials on balance (1 of 2) and osr (1 of 2)." in missing


def test_times_are_medians_with_the_ratio_to_the_paper():
    times = (0.1, 0.4, 0.2)
    records = [trial("segment", OURS, i, 0.9) | {"fit_seconds": t} for i, t in enumerate(times)]
    records += [trial("segment", "GMML", 0, 0.9) | {"fit_seconds": 0.0008}]
    seconds = table(read_results([*records, trial("segment", "EUCLID", 0, 0.9)]), "times")
    ours, gmml = (cell(seconds, "segment", method) for method in (OURS, "GMML"))
    assert (ours["text"], ours["published"]) == ("0.200", "18.9 (94×)")  # 18.85 / 0.2 = 94.25
    assert (gmml["text"], gmml["published"]) == ("0.00080", "0.0020 (2.5×)")
    assert gmml["mark"] == "best"
    assert "EUCLID" not in seconds["columns"]


def test_parameters_are_those_chosen_with_their_score():
    score = {"params": {"n_modes": 5, "triplet_weight": 1e5}, "mean": 0.91234}
    tuning = {"kind": "tuning", "dataset": "dna", "method": OURS, "seconds": 250.2}
    tuning |= {"params": score["params"], "scores": [{"params": {}, "mean": 0.99}, score]}
    fixed = trial("dna", "LFDA", 0, 0.9, params={"n_components": None})
    parameters = table(read_results([tuning, trial("dna", OURS, 0, 0.9), fixed]), "parameters")
    assert list(map(texts, parameters["rows"])) == [
        ["dna", OURS, "K = 5, λ₁ = 100000", "91.23", "2", "250"],
        ["dna", "LFDA", "n_components = None", "–", "–", "–"],
    ]


def test_sizes_name_the_papers_only_where_they_differ():
    sizes = {"n_train": 463, "n_test": 309, "n_features": 100}
    (row,) = table(read_results([trial("pubfig", OURS, 0, 0.9, **sizes)]), "sizes")["rows"]
    assert texts(row) == ["pubfig", "100", "8", "463", "309", "772"]
    assert [entry["published"] for entry in row] == ["", "542", "", "", "", ""]


def test_sizes_have_the_classes_of_sets_that_are_not_the_papers():
    sizes = {"n_train": 124, "n_test": 54, "n_features": 13}
    (row,) = table(read_results([trial("wine", OURS, 0, 0.9, **sizes)]), "sizes")["rows"]
    assert texts(row) == ["wine", "13", "3", "124", "54", "178"]


def test_tests_are_read_at_a_twentieth_after_holm():
    rng = np.random.default_rng(0)
    ours = rng.uniform(0.7, 0.9, 8)
    near = rng.permutation(np.linspace(-0.02, 0.02, 8))
    means = np.column_stack([ours, ours - 0.1, ours + 0.05, ours + near])
    results = from_means(means, (OURS, "EUCLID", "LMNN", "LFDA"))
    tests = table(results, "tests")
    assert {row[0]["text"]: row[-1]["text"] for row in tests["rows"]} == {
        "EUCLID": "MDaML (ours) better",
        "LMNN": "MDaML (ours) worse",
        "LFDA": "no difference shown",
    }
    assert cell(tests, "EUCLID", "p (Holm)")["text"] == "0.023"  # 3 * 2 / 2**8
    expected = "better than EUCLID, worse than LMNN, not shown to differ from LFDA"
    assert expected in sentence(results, "significance")


@pytest.mark.parametrize("n_sets", [5, 6])
def test_few_sets_are_said_to_be_too_few(n_sets):
    results = from_means([[0.9, 0.8]] * n_sets, (OURS, "EUCLID"))
    note = f"With {n_sets} data sets no p-value below 0.05 is possible"
    assert (note in table(results, "tests")["caption"]) == (n_sets < 6)
    shown = "no difference between MDaML (ours) and EUCLID is shown." in sentence(
        results, "significance"
    )
    assert shown == (n_sets < 6)


def test_markdown_rows_have_as_many_cells_as_the_head(report):
    for path in (report / "tables").glob("*.md"):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
        assert set(lines[1]) <= set("| -:")
    assert "**" in (report / "tables" / "accuracy.md").read_text(encoding="utf-8")


def test_latex_is_well_formed(report):
    paths = sorted((report / "tables").glob("*.tex"))
    assert [path.stem for path in paths] == sorted(TABLES)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert text.isascii()
        bare = re.sub(r"\\[{}&%$#_]", "", text)
        assert bare.count("{") == bare.count("}")
        assert bare.count("$") % 2 == 0
        assert not re.search(r"[%#]|(?<!\$)\^", re.sub(r"\$[^$]*\$", "", bare))
        begins, ends = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
        assert begins == ends[::-1]
        layout = re.search(r"\\begin{tabular}{(\w+)}", text)[1]
        rows = [line for line in bare.splitlines() if line.endswith(r"\\")]
        assert rows
        assert {row.count("&") for row in rows} == {len(layout) - 1}


def test_special_characters_of_names_are_escaped():
    results = from_means([[0.9, 0.8]], (OURS, "a_b & 50% {x} <i>|"))
    accuracies = table(results, "accuracy")
    assert r"a\_b \& 50\% \{x\} $<$i$>$" in accuracies["tex"]
    assert r"a\_b & 50% {x} <i>\|" in accuracies["md"]


# Sentences


@pytest.mark.parametrize(
    ("methods", "rows", "expected"),
    [
        (
            (OURS, "EUCLID", "GMML"),
            [[0.9, 0.8, 0.7], [0.9, 0.7, 0.8]],
            "MDaML (ours) has the best mean rank of 3 methods over 2 data sets, 1.00; "
            "EUCLID and GMML are next with 2.50.",
        ),
        (
            (OURS, "EUCLID", "GMML"),
            [[0.7, 0.8, 0.9]],
            "GMML has the best mean rank of 3 methods over 1 data set, 1.00. "
            "MDaML (ours) has place 3 with 3.00.",
        ),
        (
            (OURS, "EUCLID"),
            [[0.8, 0.8]],
            "MDaML (ours) and EUCLID share the best mean rank of 2 methods over 1 data set, 1.50.",
        ),
        (
            (OURS,),
            [[0.8]],
            "Only MDaML (ours) was run, on 1 data set, with a mean accuracy of 80.00 %; "
            "there is nothing to compare it with.",
        ),
        (
            ("EUCLID", "GMML"),
            [[0.8, 0.9]],
            "GMML has the best mean rank of 2 methods over 1 data set, 1.00. "
            "MDaML (ours) was not run.",
        ),
    ],
)
def test_headline_says_who_is_best_and_where_mdaml_stands(methods, rows, expected):
    assert sentence(from_means(rows, methods), "headline") == expected


def test_headline_without_ranks():
    results = read_results([trial("dna", OURS, 0, 0.5), trial("osr", "GMML", 0, 0.5)])
    assert sentence(results, "headline") == (
        "No ranks: no data set has results of two methods that can be compared, "
        "among MDaML (ours) and GMML."
    )


def test_ranks_are_told_for_tables_and_images_apart():
    rows = [[0.9, 0.8], [0.9, 0.8], [0.7, 0.8], [0.9, 0.8]]
    results = from_means(rows, (OURS, "EUCLID"), ("sonar", "dna", "osr", "pubfig"))
    assert sentence(results, "ranks-by-kind") == (
        "Mean ranks over the 2 UCI sets alone: MDaML (ours) 1.00, EUCLID 2.00. "
        "Mean ranks over the 2 image sets alone: EUCLID 1.50, MDaML (ours) 1.50."
    )
    assert sentence(from_means([[0.9, 0.8]] * 3, (OURS, "EUCLID")), "ranks-by-kind") == ""


def test_every_set_that_mdaml_loses_is_named():
    rows = [[0.9, 0.8, 0.7], [0.7, 0.75, 0.9], [0.8, 0.85, 0.8], [0.6, 0.6, 0.5]]
    assert sentence(from_means(rows, (OURS, "EUCLID", "GMML")), "standing") == (
        "MDaML (ours) has the highest mean accuracy on 1 of 4 data sets and shares it on set 3. "
        "Another method is better on set 1 (GMML, by 20.00); set 2 (EUCLID, by 5.00), in "
        "percentage points."
    )


def test_differences_from_the_paper_are_told():
    means = {
        ("dna", OURS): 0.9474,
        ("sonar", OURS): 0.8013,
        ("dna", PUBLISHED_GRID): 0.93,
        ("dna", "GMML"): 0.8306,
        ("sonar", "LFDA"): 0.7844,
        ("mine", OURS): 0.5,
    }
    results = read_results([trial(*key, 0, accuracy) for key, accuracy in means.items()])
    assert sentence(results, "against-paper") == (
        "MDaML (ours) is above the paper's value on 1 of 2 data sets; the median difference is "
        "−1.00 points (−3.00 on sonar to +1.00 on dna). MDaML (paper), published grid is above the "
        "paper's value on 0 of 1 data set, by −0.74 points. The other methods are above the "
        "paper's values in 1 of 2 cells; the median difference is +0.50 points "
        "(0.00 for LFDA on sonar to +1.00 for GMML on dna)."
    )


def test_deviations_are_of_the_sets_that_were_run(full):
    deviations = notes(full, "deviations")
    subjects = [note.split(".")[0] for note in deviations]
    assert subjects[:2] == ["The scale of λ₁", "Tuning"]
    assert {"spambase, EUCLID", "spambase, bold", "letter", "caltech20"} <= set(subjects)
    euclid = f"Here it has {full.mean_of('spambase', 'EUCLID'):.2f} %"
    assert any(euclid in note for note in deviations)
    assert len(notes(from_means([[0.9]], (OURS,)), "deviations")) == 2


def test_nothing_is_missing_from_a_full_run(full):
    assert notes(full, "missing") == []


# Figures


def contrast(one, other):
    """Ratio of luminances after WCAG 2."""

    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def schemes(page):
    """Colours of the light and of the dark page."""
    blocks = re.findall(r":root \{([^}]*)\}", page)
    return [dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in blocks[:2]]


def test_text_and_lines_stand_out_in_light_and_in_dark(page):
    for colors in schemes(page):
        for text, ground in itertools.product(("ink", "muted", "accent"), ("card", "page")):
            assert contrast(colors[text], colors[ground]) >= 4.5
        assert contrast(colors["warn"], colors["warn-soft"]) >= 4.5
        assert min(contrast(color, colors["card"]) for color in COLORS.values()) >= 3.0


def test_every_method_has_a_color_of_its_own():
    assert set(COLORS) == {OURS, *VARIANTS, *RIVALS}
    assert len(set(COLORS.values())) == len(COLORS)


def test_figures_are_files_that_can_be_read(report):
    folder = report / "figures"
    assert {p.name for p in folder.iterdir()} == {
        f"{f}.{s}" for f in FIGURES for s in ("png", "svg")
    }
    for name in FIGURES:
        assert imread(folder / f"{name}.png").shape[1] > 600
        assert ET.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")


def test_the_diagram_of_ranks_says_them(full):
    ranking = rank_methods(full)
    figure, _, description = draw("critical_difference", full)
    labels = [text.get_text() for text in figure.axes[0].texts]
    for method, rank in zip(ranking.methods, ranking.ranks, strict=True):
        assert {f"{method}  {rank:.2f}", f"{rank:.2f}  {method}"} & set(labels)
        assert f"{method} {rank:.2f}" in description
    assert f"critical difference {critical_difference(10, 13):.2f}" in labels


def test_rounds_are_counted_until_the_descent_is_made():
    assert rounds_to_settle(np.array([100.0, 50.0, 1.5, 0.5, 0.0])) == 3
    assert rounds_to_settle(np.array([1.0, 1.0])) == 0


def test_convergence_shows_the_objective_after_each_round(full):
    figure, caption, _ = draw("convergence", full)
    assert [axes.get_title() for axes in figure.axes] == ["spambase", "letter", "dna"]
    dots = figure.axes[0].lines[-1].get_ydata()
    assert dots.tolist() == full.convergence["spambase"]["objective"]
    assert figure.axes[0].get_yscale() == "log"
    n_rounds = rounds_to_settle(dots)
    assert f"decrease: {n_rounds} on spambase, {n_rounds} on letter" in caption


def test_fixed_weights_show_gains_and_losses_alike():
    results = from_means([[0.9, 0.8], [0.7, 0.75]], (PAPER, FIXED), ("dna", "sonar"))
    figure, caption, _ = draw("fixed_weights", results)
    assert {"+10.0", "−5.0"} <= {text.get_text() for text in figure.axes[0].texts}
    assert "better on 1, worse on 1 and equal on 0 of 2 data sets" in caption


def test_the_best_on_each_image_set_is_named(partial):
    results = read_results(partial)
    _, caption, _ = draw("images", results)
    best = max((OURS, "EUCLID"), key=lambda method: results.mean_of("osr", method))
    assert f"Best here: {best} on osr ({results.mean_of('osr', best):.1f} %)." in caption


def test_sensitivity_has_a_panel_for_each_parameter(full):
    panels = draw("sensitivity", full)[0].axes
    assert len(panels) == 4
    for axes, parameter in zip(panels, ("n_modes", "triplet_weight", "eta", "ridge"), strict=True):
        lines = {line.get_color(): line for line in axes.lines}
        means = full.sensitivity.loc[parameter, "library"]["mean"].tolist()
        assert lines[COLORS[PAPER]].get_ydata() == pytest.approx(means)
        assert lines[COLORS["EUCLID"]].get_ydata()[0] == full.mean_of("segment", "EUCLID")
    assert [axes.get_xscale() for axes in panels] == ["linear", "log", "linear", "linear"]


def test_settings_that_agree_are_drawn_once():
    records = [
        {"kind": "sensitivity", "dataset": "segment", "parameter": "triplet_weight"}
        | {"setting": setting, "value": value, "trial": 0, "accuracy": 0.9}
        for setting in ("paper", "library")
        for value in (1, 10)
    ]
    results = read_results([*records, trial("dna", OURS, 0, 0.9)])
    figure, caption, _ = draw("sensitivity", results)
    assert [len(axes.lines) for axes in figure.axes] == [0, 1, 0, 0]
    assert figure.axes[1].get_xlabel() == "the paper's and λ₁ = 300 K^η are the same"
    assert "K not run; λ₁ 90.0 to 90.0 (paper and library); η not run" in caption
    assert figure.axes[0].texts[0].get_text() == "no records"


def test_style_leaves_the_users_settings_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    with report_style():
        assert matplotlib.rcParams["axes.grid"]
    assert dict(matplotlib.rcParams) == before


def test_inline_figures_take_the_pages_colors_and_own_ids(full):
    with report_style():
        figure, _ = figures_module.draw_fixed_weights(full)
        fix_layout(figure)
        first, second = (to_svg(figure) for _ in range(2))
    assert first == second
    inline = f"<svg{to_inline_svg(first, 'one')}"
    assert ET.fromstring(inline).get("style").startswith("--natural: ")
    assert "var(--ink)" in inline
    assert "#ffffff" not in inline
    ids = re.findall(r'\bid="([^"]*)"', inline)
    assert all(name.startswith("one-") for name in ids)
    targets = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', inline)
    assert {name for pair in targets for name in pair if name} <= set(ids)


# The page


class Checker(HTMLParser):
    """Collects what the tests ask of a page; elements must be closed in order."""

    VOID = frozenset(("meta", "br", "img", "link", "input", "hr"))

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.loads, self.links = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append((tag, values))
        if "id" in values:
            self.ids.append(values["id"])
        for name in ("src", "href", "xlink:href", "srcset", "data", "action"):
            if name in values:
                (self.links if tag == "a" else self.loads).append(values[name])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(page):
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


@pytest.fixture(scope="module")
def checked(page):
    return check(page)


def test_page_loads_nothing_from_elsewhere(checked, page):
    assert all(target.startswith("#") for target in checked.loads)
    assert not re.search(r"url\((?!#)|@import|fetch\(|https?://(?!www\.w3\.org/)", page)


def test_ids_are_unique_and_links_lead_somewhere(checked, report):
    assert len(checked.ids) == len(set(checked.ids))
    for target in checked.links:
        assert target[1:] in checked.ids if target[0] == "#" else (report / target).is_file()
    for _, values in checked.tags:
        if "aria-labelledby" in values:
            assert values["aria-labelledby"] in checked.ids


def test_headings_go_down_one_by_one_from_a_single_title(checked):
    levels = [int(tag[1]) for tag, _ in checked.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_figures_have_words_and_tables_have_heads(checked):
    svgs = [values for tag, values in checked.tags if tag == "svg"]
    assert len(svgs) == len(FIGURES)
    assert all(values["role"] == "img" and len(values["aria-label"]) > 3 for values in svgs)
    tables = [values["id"] for tag, values in checked.tags if tag == "table"]
    assert tables == [*TABLES[:4], "sizes", "parameters"]
    heads = [values for tag, values in checked.tags if tag == "th"]
    assert all(values["scope"] in ("col", "row") for values in heads)
    assert dict(checked.tags[checked.tags.index(("html", {"lang": "en"}))][1]) == {"lang": "en"}


def test_result_and_table_come_first(page):
    marks = ("<h1>", 'id="headline"', 'class="facts"', 'id="accuracy"', 'id="critical_difference"')
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)


def test_page_has_every_cell_of_the_tables(page, full):
    for row in table(full, "accuracy")["rows"]:
        for entry in row:
            assert f">{html.escape(entry['text'])}<" in page
            assert entry["published"] in page
    assert page.count("<strong>") >= 13


def test_names_are_escaped_on_the_page(tmp_path):
    names = ("<script>alert(1)</script>", 'a&b"c')
    methods = ((OURS, 0.5), (names[0], 0.6), (names[1], 0.7))
    records = [trial(name, method, 0, value) for name in names for method, value in methods]
    page = write_report(records, tmp_path / "report").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert 'a&b"' not in page
    descriptions = [values["aria-label"] for tag, values in check(page).tags if tag == "svg"]
    assert any(all(f"{name} " in words for name in names) for words in descriptions)


def test_a_partial_run_says_what_it_lacks(partial, tmp_path):
    path = write_report(partial, tmp_path / "report")
    text = html.unescape(path.read_text(encoding="utf-8"))
    for words in (
        "A quick run.",
        "Data sets without records: autompg, dna",
        "Methods without records: MDaML (paper); MDaML (ours), untuned",
        "No records of MDaML (ours) together with one of its variants.",
        "No figure of fixed against learned weights",
        "No records of convergence",
        "No records of sensitivity.",
        "Convergence was not recorded on spambase, letter and dna.",
    ):
        assert words in text
    figures = {file.name for file in (path.parent / "figures").iterdir()}
    assert figures == {"images.png", "images.svg", "toy.png", "toy.svg"}
    assert not (path.parent / "tables" / "variants.md").exists()


@pytest.mark.parametrize("method", [OURS, "EUCLID", PUBLISHED_GRID, "mine"])
def test_a_single_trial_makes_a_report(method, tmp_path):
    record = {"kind": "trial", "dataset": "x", "method": method, "trial": 0, "accuracy": 0.5}
    path = write_report([record], tmp_path / "report")
    text = path.read_text(encoding="utf-8")
    assert f"Only {method} was run" in text
    assert "No training times were recorded." in text


# Writing


@pytest.fixture
def records():
    return [trial("dna", OURS, 0, 0.9), trial("dna", "EUCLID", 0, 0.8)]


def test_progress_is_told_of_every_part(records, tmp_path):
    told = []
    write_report(records, tmp_path / "a" / "report", progress=lambda *step: told.append(step))
    assert [name for name, _, _ in told] == [*(f.replace("_", " ") for f in FIGURES), "page"]
    assert [done for _, done, _ in told] == list(range(7))
    assert {total for _, _, total in told} == {7}


def test_an_older_report_is_replaced_as_a_whole(records, tmp_path):
    out = tmp_path / "report"
    (out / "tables").mkdir(parents=True)
    (out / "tables" / "variants.tex").write_text("old")
    (out / "report.html").write_text("old")
    (out / ".DS_Store").write_text("")
    path = write_report(records, out)
    assert path == out.resolve() / "report.html"
    assert "old" not in path.read_text(encoding="utf-8")[:20]
    assert not (out / "tables" / "variants.tex").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("step", ["a figure", "the last renaming"])
def test_an_older_report_survives_a_failure(step, records, monkeypatch, tmp_path):
    out = tmp_path / "report"
    out.mkdir()
    (out / "report.html").write_text("old")
    rename = Path.rename

    def interrupt(self, target):
        if self.name.endswith(".part"):
            raise KeyboardInterrupt
        return rename(self, target)

    if step == "a figure":
        monkeypatch.setattr(figures_module, "learn_toy", lambda: interrupt(Path(".part"), ""))
    else:
        monkeypatch.setattr(Path, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_report(records, out)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]
    assert [(entry.name, entry.read_text()) for entry in out.iterdir()] == [("report.html", "old")]


def test_what_a_killed_process_left_is_no_obstacle(records, tmp_path):
    out = tmp_path / "report"
    write_report(records, out)
    for suffix in ("part", "old"):
        left = tmp_path / f".report.{os.getpid()}.{suffix}"
        left.mkdir()
        (left / "report.html").write_text("left")
    write_report(records, out)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("name", ["thesis.tex", "figures/mine.png", ".git/config", ""])
def test_what_is_no_report_is_refused(records, tmp_path, name):
    path = tmp_path / "report" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("precious")
    message = f"contains {name}, which is not part of a report" if name else "is a file"
    with pytest.raises(ValueError, match=re.escape(message)):
        write_report(records, tmp_path / "report")
    assert path.read_text() == "precious"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


@pytest.mark.slow
def test_the_toy_is_learned_for_the_report(records, monkeypatch, tmp_path):
    monkeypatch.setattr(figures_module, "learn_toy", learn_toy)
    path = write_report(records, tmp_path / "report")
    assert "After learning: 3-NN accuracy" in path.read_text(encoding="utf-8")


# In a browser

# Put first into the page: nothing that goes wrong may be missed.
WATCH = """<script>
window.problems = [];
const note = (event) => problems.push(String(event.message || event.type));
window.addEventListener("error", note, true);
console.error = console.warn = (...words) => problems.push(words.join(" "));
</script>"""

# In the page around it, whose frame is a window of the width of a phone or of a desktop.
ASK = """
const frame = document.querySelector("iframe");
window.addEventListener("load", () => {
  const inner = frame.contentWindow, page = frame.contentDocument, answer = {};
  for (const details of page.querySelectorAll("details")) details.open = true;
  answer.width = page.documentElement.scrollWidth;
  answer.background = inner.getComputedStyle(page.body).backgroundColor;
  const figures = [...page.querySelectorAll("figure svg")];
  answer.figures = figures.map((svg) => svg.getBoundingClientRect().width);
  answer.images = [...page.images].every((image) => image.complete && image.naturalWidth > 0);
  answer.loads = inner.performance.getEntriesByType("resource").length;
  answer.columns = {};
  for (const table of page.querySelectorAll("table")) {
    const head = table.tHead.rows[0].cells[1], button = head.querySelector("button");
    const key = (row) => row.cells[1].dataset.order ?? null;
    const column = () => [...table.tBodies[0].rows].map(key);
    const sort = [], found = [column()];
    for (let click = 0; click < 2; click++) {
      button.focus();
      answer.focused = page.activeElement === button;
      button.click();
      sort.push(head.getAttribute("aria-sort"));
      found.push(column());
    }
    answer.columns[table.id] = { sort, found, numeric: head.classList.contains("number") };
  }
  answer.problems = inner.problems;
  const result = document.createElement("pre");
  result.id = "answer";
  result.textContent = JSON.stringify(answer);
  document.body.append(result);
});
"""


@pytest.fixture
def browse(tmp_path):
    """Ask the browser about a page in a window of some width."""
    skip_without(["Chromium"])

    def ask(page, width, *, dark=False):
        watched = page.replace("<head>", f"<head>{WATCH}", 1)
        around = tmp_path / "around.html"
        around.write_text(
            f'<!DOCTYPE html><meta charset="utf-8"><iframe srcdoc="{html.escape(watched)}" '
            f'style="width: {width}px; height: 800px; border: 0"></iframe><script>{ASK}</script>',
            encoding="utf-8",
        )
        command = [
            *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000"),
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            around.as_uri(),
        ]
        out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return json.loads(html.unescape(re.search(r'id="answer">(.*?)</pre>', out.stdout)[1]))

    return ask


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_page_works_in_a_browser(browse, page, width):
    answer = browse(page, width)
    assert answer["problems"] == []
    assert answer["width"] <= width
    assert answer["loads"] == 0
    assert answer["images"]
    assert len(answer["figures"]) == len(FIGURES)
    assert min(answer["figures"]) > 300
    assert answer["focused"]


@pytest.mark.slow
def test_clicks_on_a_head_sort_the_table_either_way(browse, page):
    tables = browse(page, 1280)["columns"]
    assert set(tables) == set(TABLES)
    for name, table in tables.items():
        before, first, second = table["found"]
        as_key = float if table["numeric"] else str.casefold
        known = sorted((value for value in before if value is not None), key=as_key)
        down = table["sort"] == ["descending", "ascending"]
        assert down or table["sort"] == ["ascending", "descending"]
        assert down == (name not in ("times", "parameters"))
        found = {
            "descending" if down else "ascending": first,
            "ascending" if down else "descending": second,
        }
        for way, values in found.items():
            keys = [as_key(value) for value in values if value is not None]
            expected = [as_key(value) for value in known]
            assert keys == (expected if way == "ascending" else expected[::-1])


@pytest.mark.slow
def test_page_is_dark_where_the_reader_wants_it(browse, page):
    light, dark = (browse(page, 800, dark=dark)["background"] for dark in (False, True))
    assert light == "rgb(246, 247, 249)"
    assert dark == "rgb(14, 17, 22)"


@pytest.mark.slow
def test_missing_entries_are_sorted_last(browse, tmp_path):
    records = [trial(f"set {i}", "EUCLID", 0, 0.5) for i in range(3)]
    records += [trial("set 1", OURS, 0, 0.9), trial("set 2", OURS, 0, 0.8)]
    page = write_report(records, tmp_path / "report").read_text(encoding="utf-8")
    _, down, up = browse(page, 1280)["columns"]["accuracy"]["found"]
    assert down == ["90.0", "80.0", None]
    assert up == ["80.0", "90.0", None]

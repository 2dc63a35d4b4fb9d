"""Figures in guides and benchmarks are those of the records, or of the page that they sum up."""

import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from mdaml import PRESETS, MDaML
from mdaml.datasets import load_dataset

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EIGHT_SETS = (  # of the study of comparisons, docs/supervision.md
    *("letter", "vowel", "segment", "vehicle"),
    *("digits", "satimage", "penbased", "movement_libras"),
)


def read(page):
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


def read_lines(name):
    lines = (ROOT / "results" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def measured(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def table(page, first):
    """Cells below the header that begins with some words, without emphasis and code."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith(f"| {first}"))
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append([re.sub(r"[*`]", "", cell).strip() for cell in line[1:-1].split("|")])
    return rows


def means(records, names):
    """Percentages of some scores for each method, with one digit."""
    scores = defaultdict(list)
    for record in records:
        scores[record["method"]].append([100 * record[name] for name in names])
    return {
        method: [f"{v:.1f} %" for v in np.mean(rows, axis=0)] for method, rows in scores.items()
    }


def test_the_two_goals_score_as_in_the_study_of_comparisons():
    records = [r for r in read_lines("kinds") if r["dataset"] in EIGHT_SETS]
    scores = means(records, ("unseen", "compared"))
    shown = {name: cells for name, *cells in table("guide/choosing.md", "| unseen")}
    assert shown == {
        "Euclidean": scores["Euclid"],
        "MDaML()": scores["MDaML()"],
        'MDaML(goal="neighbors")': scores['MDaML(goal="neighbors")'],
    }
    line = f"{scores['MDaML()'][0]} of unseen comparisons, Euclidean {scores['Euclid'][0]}"
    assert line in read("experiments_index.md")


def test_the_guide_on_places_has_the_scores_of_the_study():
    records = read_lines("local")
    kinds = [r for r in records if r["study"] == "kinds" and r["case"][:2] == [10_000, 0.0]]
    scores = means(kinds, ("share", "groups", "kinds"))
    shown = {name: cells for name, *cells in table("guide/local.md", "| unseen")}
    assert shown == {
        "Euclidean": scores["Euclid"],
        "MDaML()": scores["MDaML()"],
        "LocalMDaML()": scores["LocalMDaML()"],
        "network, two layers of 256": scores["network"],
    }
    page, other = read("guide/local.md"), scores['MDaML(goal="neighbors")']
    assert f"It has {other[1][:-2]} and {other[2]} in the last two columns" in page
    assert f"but only {other[0]} in the first" in page
    labels = [r for r in records if r["study"] == "labels"]
    found = {r["dataset"] for r in labels if r["n_places"]}
    right = means(labels, ["classes"])
    assert (len({r["dataset"] for r in labels}), len(found)) == (24, 8)
    wanted = f"3-NN is right for {right['LocalMDaML()'][0]} instead of {right['MDaML()'][0]}"
    assert f"places are taken on eight, and {wanted}" in page
    hold = [scores[name][0] for name in ("LocalMDaML()", "MDaML()", "network")]
    local, linear, network = (f"{float(text[:-2]):.0f}" for text in hold)
    line = f"{local} % of unseen comparisons hold with places, {linear} % with one map"
    assert f"{line}, {network} % with a small network" in read("experiments_index.md")


def adapters():
    return {(r["set"], r["method"]): r for r in measured("retrieval")["methods"]}


SETS = {
    "Cranfield": "cranfield",
    **{f"banking77, n = {n}": f"banking77/{n}" for n in (2, 5, 10, 30)},
    **{f"OSR, n = {n}": f"osr/{n}" for n in (5, 20)},
    **{"Caltech, n = 10": "caltech20/10", "PubFig, n = 10": "pubfig/10"},
}
ADAPTERS = {
    "QueryAdapter()": "QueryAdapter",
    "QueryAdapter(anchor=0.03), no test": "QueryAdapter, anchor=0.03",
    "bilinear I + D, L-BFGS, fixed ridge": "bilinear I + D, L-BFGS",
    "InfoNCE in torch, rate 2e-5": "InfoNCE in torch, 2e-5",
    "InfoNCE in torch, rate 1e-3": "InfoNCE in torch, 1e-3",
    "pytorch-metric-learning, both sides": "pytorch-metric-learning",
    "logistic regression, with labels": "logistic regression",
}


def test_the_table_of_adapters_is_that_of_the_records():
    scores, rows = adapters(), table("retrieval.md", "| Cranfield | banking77")
    assert len(rows) == 11
    for name, *cells in rows:
        method = ADAPTERS.get(name, name)
        for cell, data in zip(cells, SETS.values(), strict=True):
            found = scores.get((data, method))
            wanted = f"{found['ndcg@10']:.3f} · {found['hit_rate@1']:.3f}" if found else "–"
            assert cell == wanted, (name, data)


def test_what_is_said_about_adapters_is_what_the_records_say():
    score = {key: record["ndcg@10"] for key, record in adapters().items()}

    def rise(data):
        return f"from {score[data, 'cosine']:.2f} to {score[data, 'QueryAdapter']:.2f}"

    ten, questions = rise("banking77/10"), rise("cranfield")
    page = read("guide/adapting_embeddings.md")
    assert f"each intent nDCG@10 rises {ten}, on Cranfield {questions}." in page
    line = f"nDCG@10 {ten} on banking77 with ten questions of each intent, {questions} on"
    assert line in read("experiments_index.md")
    other = "pytorch-metric-learning"
    assert all(score[data, other] < score[data, "QueryAdapter"] for data in SETS.values())
    gaps = {data: score[data, "QueryAdapter"] - score[data, other] for data in SETS.values()}
    assert f"by {min(gaps.values()):.2f} to {max(gaps.values()):.2f}" in read("comparison.md")


def test_new_topics_cost_what_the_page_on_search_says():
    """Guides round what the page of results has with three digits."""
    results = read("retrieval.md")
    clicks, lost, pairs = (
        re.search(rf"{words} (\d\.\d+) (?:to|and) (\d\.\d+)", results).groups()
        for words in (
            "new questions on these intents rose from",
            "that of 135 on the others fell from",
            "From judged pairs of the same questions it was",
        )
    )
    before, after, start, end = map(as_shown, (*clicks, *lost))
    page = read("guide/click_logs.md")
    assert f"rose from {before} to {after}, that of the other 27 fell from {start} to {end}" in page
    page = read("guide/adapting_embeddings.md")
    assert f"on the other 27 fell from {start} to {as_shown(pairs[1])}" in page


def as_shown(text):
    """Two digits of a number with three, halves up."""
    return f"{float(text) + 1e-6:.2f}"


def test_comparisons_with_other_libraries_are_those_of_the_records():
    verdict = measured("peers")["verdict"]
    faster = [v["against_scml"] for v in verdict if "against_scml" in v]
    faster = [v for v in faster if "times_faster" in v]
    assert all(v["accuracy"] > 0 < v["satisfied"] for v in faster)
    times = [v["times_faster"] for v in faster]
    wanted = f"{min(times):.0f} to {max(times):.0f} times faster"
    page = read("comparison.md")
    assert (len(times), f"`MDaML` was {wanted} and better on all seven sets" in page) == (7, True)
    assert f"On triplets, {wanted} than metric-learn's SCML." in read("index.md")
    beaten = {
        kind: [v["set"] for v in verdict if v["kind"] == kind and v[f"faster_and_better_by_{by}"]]
        for kind, by in (("labels", "accuracy"), ("triplets", "satisfied"))
    }
    assert beaten == {"labels": ["sonar"], "triplets": []}
    assert "on nine of ten sets. The exception is sonar." in page
    assert "none was both faster and better on held-out triplets on any set" in page
    rows = {(r["kind"], r["set"], r["method"]): r for r in measured("peers")["rows"]}
    lsml, ours = (rows["triplets", "sonar", m] for m in ("LSML of quadruplets", "MDaML"))
    assert lsml["seconds"] < ours["seconds"]
    assert lsml["accuracy"] > ours["accuracy"]


def test_nca_beside_ours_is_that_of_the_records():
    rows, page = measured("methods")["methods"], read("comparison.md")
    assert all(row["NCA"]["seconds"] > row["MDaML"]["seconds"] for row in rows)
    lead = {row["set"]: row["NCA"]["accuracy"] - row["MDaML"]["accuracy"] for row in rows}
    (name, points), *others = [(n, v) for n, v in lead.items() if v > 1e-9]
    assert others == []
    assert f"on one of ten data sets, {name}, by {100 * points:.1f} points" in page
    assert "and slower on all ten" in page


def test_the_card_on_wrong_answers_has_the_figures_of_the_guide():
    """The guide computes them: see tests/test_guide.py."""
    guide = read("inspection.md")
    found, made, alarms = re.search(
        r">>> int\(is_wrong\[suspected\].* # of (\d+) wrong answers; (\d+) are false alarms (\d+)",
        guide,
    ).group(3, 1, 2)
    suspected = re.search(r"int\(suspected\.sum\(\)\) (\d+)", guide)[1]
    assert int(suspected) == int(found) + int(alarms)
    card = read("index.md")
    assert f"{100 * int(found) / int(made):.0f} % of wrong answers" in card
    assert f"{found} of {made} among 4000 answers, with {alarms} false alarms" in card


def test_the_table_of_answers_needed_is_part_of_the_study():
    header = "answers | 50 | 100 | 200 | 400 | 800 | 1600 | 3200 | 6400"
    study = {
        name.split(" (")[0]: [cells[k] for k in (1, 3, 5, 7)]
        for name, *cells in table("how_many.md", header)
    }
    guide = table("guide/collecting.md", "answers | 100 | 400 | 1600 | 6400")
    assert {name: cells for name, *cells in guide} == study


def test_persons_who_were_not_accused_are_those_of_the_study():
    numbers = re.search(
        r"No honest person of (\d+) was accused.*?none of (\d+) was either"
        r".*?none of (\d+) honest persons was accused",
        read("supervision.md"),
    ).groups()
    wanted = f"no honest person of {sum(map(int, numbers))} was accused"
    assert wanted in read("guide/several_people.md")


def test_the_table_of_defaults_is_that_of_the_code():
    rows = {name: cells for name, *cells in table("guide/defaults.md", "| labels | comparisons")}
    presets = [PRESETS[name] for name in ("labels", "comparisons", "neighbors", "paper")]
    shown = {name.partition(" (")[0]: cells for name, cells in rows.items()}

    def numbers(name):
        return [float(cell) for cell in shown[name]]

    for name, field in (("exponent η", "eta"), ("ridge λ₂", "ridge"), ("floor", "floor")):
        assert numbers(name) == [getattr(preset, field) for preset in presets]
    modes = [
        "counted in X, up to 32" if p.n_modes == "counted" else str(p.n_modes) for p in presets
    ]
    assert shown["modes K"] == modes
    units = {"one": "", "modes": " K^η", "self-weight": " over the mean self-weight"}
    weights = [f"{preset.triplet_weight:.0f}{units[preset.weight_unit]}" for preset in presets]
    assert shown["loss λ₁"] == weights
    assert shown["gain measured"] == ["yes" if preset.measure else "no" for preset in presets]
    rounds = [f"{preset.max_iter}, {preset.max_inner_iter}" for preset in presets]
    assert shown["rounds, steps in each"] == rounds
    anchors, shrinkages = presets[1].anchor, presets[0].shrinkage
    assert shown["anchor"][1] == f"chosen: {min(anchors)} to {max(anchors):.0f}"
    assert shown["shrinkage"][0] == f"chosen: {min(shrinkages):.0f} to {max(shrinkages)}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vehicle", "balance"])
def test_the_unit_of_the_features_costs_what_the_guide_says(name):
    """Another machine may classify a sample or two differently."""
    words = rf"([\d.]+) instead of ([\d.]+) % on {name}"
    shown = re.search(words, read("guide/troubleshooting.md")).groups()
    X, y = load_dataset(name, return_X_y=True)
    parts = [train_test_split(X, y, test_size=0.3, stratify=y, random_state=n) for n in range(5)]
    for text, divisor in zip(shown, (8.0, 1.0), strict=True):
        model = make_pipeline(StandardScaler(), MDaML(random_state=0), KNeighborsClassifier(3))
        model.steps.insert(1, ("unit", FunctionTransformer(lambda Z, by=divisor: Z / by)))
        scores = [model.fit(A, c).score(B, d) for A, B, c, d in parts]
        assert 100 * np.mean(scores) == pytest.approx(float(text), abs=0.3)

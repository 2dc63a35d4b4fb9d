"""Tables and figures about speed and memory are those of the records in ``benchmarks/results``."""

import re

import pytest
from test_guide_figures import measured, read, table

BENCHMARKS = "../benchmarks/README.md"
N_ANSWERS = ("30", "60", "100", "150")


def by_name(page, first):
    """Rows of a table by their first cell."""
    return {name: cells for name, *cells in table(page, first)}


def test_the_table_of_speed_is_that_of_the_records():
    rows, cases = by_name(BENCHMARKS, "set | N | d | literal"), measured("core")["speed"]
    assert list(rows) == [case["set"] for case in cases]
    for case in cases:
        literal, tidy = (case[name]["seconds"] for name in ("literal", "tidy_literal"))
        wanted = [f"{case['n_samples']}", f"{case['n_features']}"]
        wanted += [f"{literal:.1f} s", f"{tidy:.1f} s"]
        for name in ("same_iterations", "until_as_low", "default_fit"):
            ours = case[name]["seconds"]
            wanted.append(f"{ours:.3f} s, {literal / ours:.0f}x ({tidy / ours:.0f}x)")
        assert rows[case["set"]] == wanted


def test_the_tables_of_growth_and_memory_are_those_of_the_records():
    core, low_rank = measured("core"), measured("low_rank")["rank"]
    rows = table(BENCHMARKS, "what grows")
    assert len(rows) == len(core["growth"])
    for (_, *cells), grown in zip(rows, core["growth"].values(), strict=True):
        ends = [f"{grown['values'][k]}: {grown['seconds'][k]:.2f} s" for k in (0, -1)]
        assert cells == [f"{grown['exponent']:.2f}", *ends]
    assert by_name(BENCHMARKS, "case | X + triplets") == {
        name: [f"{m['input_mb']:.0f} MB", f"{m['peak_mb']:.0f} MB", f"{m['multiple']:.1f}"]
        for name, m in core["memory"].items()
    }
    assert [cells[:2] + cells[3:] for cells in table(BENCHMARKS, "features | rank")] == [
        [
            f"{row['n_features']}",
            f"{row['n_components'] or 'full'}",
            f"{row['peak_mb']:.0f}, {row['input_mb']:.0f} MB",
            f"{100 * row['unseen']:.1f} %",
        ]
        for row in low_rank["rows"]
    ]
    assert f"The exponent in the features is {low_rank['exponent']:.2f}" in read(BENCHMARKS)


def duration(seconds):
    return f"{seconds:.2f} s" if seconds >= 0.0999 else f"{1000 * seconds:.1f} ms"


def test_the_tables_of_methods_are_those_of_the_records():
    records = measured("methods")
    rows = by_name(BENCHMARKS, "set | N | d | Euclidean")
    for record in records["methods"]:
        name, n, d, *methods = record.values()
        scores = [f"{duration(m['seconds'])}, {100 * m['accuracy']:.1f}" for m in methods]
        assert rows[name] == [f"{n}", f"{d}", *scores]
    closed = by_name(BENCHMARKS, "set | GMML")
    for record in records["closed"]:
        name, _, _, *methods = record.values()
        assert closed[name] == [
            f"{duration(m['seconds'])}, {m['seconds'] / m['bare_seconds']:.1f}x" for m in methods
        ]
    assert len(rows) == len(records["methods"])
    assert len(closed) == len(records["closed"])


def test_the_table_of_files_of_answers_is_that_of_the_records():
    keys = ("in all, s of CPU", "in all, s", "constraints")
    assert by_name(BENCHMARKS, "form | seconds") == {
        form: [f"{record[key]}" for key in keys]
        for form, record in measured("answers")["forms"].items()
    }


def test_figures_of_the_gpu_are_those_of_the_records():
    gpu, page = measured("gpu"), read(BENCHMARKS)
    cases = [gpu[name] for name in ("large", "distinct", "wide", "low")]
    for (_, *cells), case in zip(table(BENCHMARKS, "| pairs | one"), cases, strict=True):
        step = case["milliseconds"]["step of the metric"]
        wanted = [f"{step:.1f} ms", f"{case['fit_seconds']:.2f} s", f"{case['peak_gib']:.1f} GiB"]
        assert cells[1:] == wanted
    labels = [gpu[name] for name in ("labels", "labels_more", "labels_most", "labels_wide")]
    for (_, *cells), case in zip(table(BENCHMARKS, "| whole fit | one"), labels, strict=True):
        for cell, seconds in zip(
            cells[:2], (case["fit_seconds"][1], case["search_seconds"]), strict=True
        ):
            digits = len(cell.removesuffix(" s").partition(".")[2])
            assert cell == f"{seconds:.{digits}f} s"
        assert cells[2:] == [f"{found:.3f}" for found in case["recall"]]
    pass_ = gpu["large"]["milliseconds"]
    parts = {"`X F`": "X F", "distances of pairs": "distances", "`Xᵀ V`": "X^T V"}
    parts |= {"losses and slopes": "losses and slopes", "Laplacian product": "Laplacian product"}
    for shown, part in (parts | {"`eigh` on the host": "eigh, NumPy"}).items():
        assert f"{shown} {pass_[part]:.1f}" in page
    places = {name: min(gpu["places"][name]["seconds"]) for name in ("MDaML", "LocalMDaML")}
    assert f"takes {places['MDaML']:.2f} s, and" in page
    assert f'device="cuda")` {places["LocalMDaML"]:.1f} s' in page


def test_the_guide_on_scaling_has_the_figures_of_the_records():
    gpu, page = measured("gpu"), read("scaling.md")
    fits = {name: gpu[name]["fit_seconds"] for name in ("large", "low")}
    assert f"10^6 × 128 with 10^7 triplets in {fits['large']:.1f} s on an H200" in page
    assert f"2·10^5 × 1024, rank 32, in {fits['low']:.1f} s" in page
    more, most = (gpu[name]["fit_seconds"][1] for name in ("labels_more", "labels_most"))
    assert f"3·10^5 × 128 takes {more:.1f} s, one of 10^6 × 128 {most:.1f} s" in page
    small, low = (gpu[name] for name in ("compare", "compare_low"))
    numpy, device = (
        [case[f"{where}_seconds"] for case in (small, low)] for where in ("numpy", "device")
    )
    wanted = f"{numpy[0]:.2f} on 16 cores and {device[0]:.2f} on a GPU; {numpy[1]:.2f} and"
    assert f"Seconds of two fits: {wanted} {device[1]:.2f}]" in page
    few, many = measured("scale")["cases"]
    assert f"X and triplets take {few['input_mb']:.0f} MB" in page
    assert f"a fit took {few['peak_mb'] / 1000:.2f} GB in all" in page
    assert f"{few['peak_mb'] / few['input_mb']:.2f} times as much" in page
    gigabytes, times = many["peak_mb"] / 1000, many["peak_mb"] / many["input_mb"]
    assert f"(ten modes: {gigabytes:.2f} GB, {times:.2f} times)" in page


def test_the_guide_on_clusters_has_the_figures_of_the_records():
    cluster, page = measured("cluster"), read("distributed.md")
    rounds = sum(cluster["terms"]["predicted"]["round"].values())
    assert f"| 5·10⁶ | {cluster['weak']['1']['round']:.2f} s |" in page
    assert f"| 10⁹ | {rounds:.1f} s |" in page
    costs = read("cluster_costs.md")
    shown = re.search(r"the efficiencies become (0\.\d+) and (0\.\d+)", costs).groups()
    work = cluster["work"]
    for name, text in zip(("triplets", "labels"), shown, strict=True):
        assert float(text) == pytest.approx(work[name]["efficiency"], abs=0.025)
    triplets, labels = shown
    wanted = f"from triplets has an efficiency of {triplets}, one from labels in random order"
    assert f"{wanted} {labels}" in page
    line = f"efficiency {triplets} from triplets and {labels} from labels"
    assert line in read("experiments_index.md")


def test_the_pages_on_questions_have_the_figures_of_the_records():
    ask, page = measured("ask"), "ask_teaching.md"
    rows = [cells[2:] for cells in table(page, "items | agreement with")]
    teach = list(ask["teach"].values())
    assert len(rows) == len(teach)
    shown = {(kind, tuple(answers)) for kind, _, *answers in rows}
    made = {
        (kind, tuple(case[n].replace("-", "−") for n in N_ANSWERS))
        for name, case in ask["teach"].items()
        for kind in ("active", "random")
        if f", {kind} questions" in name
    }
    assert shown == made
    simulated, keys = table(page, "features | questions"), ("active", "random", "lead")
    cases = [ask["simulated"][f"{d} features"] for d in (5, 15)]
    wanted = [
        [case[n][key] for n in N_ANSWERS] for case in cases for key in (*keys, "studies ahead")
    ]
    assert [row[3:] for row in simulated] == [
        [f"{value:.3f}" if isinstance(value, float) else value for value in row] for row in wanted
    ]
    grow = ask["grow"]
    start, *_, end = [100 * value for name, value in grow.items() if name != "Euclid"]
    text = read("ask_studies.md")
    assert f"from {start:.1f} % to {end:.1f} %" in text.replace("`", "")
    assert f"Euclidean distance has {100 * grow['Euclid']:.1f} %" in text

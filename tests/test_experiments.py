"""The paper's protocol: splits, tuning, one record per job, and resuming after an interruption."""

import json
import os
import textwrap
import time

import joblib
import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from mdaml import GMML
from mdaml.cli import build_app
from mdaml.datasets import load_dataset
from mdaml.experiments import (
    CONFIRMATION,
    DATASETS,
    METHODS,
    make_plan,
    protocol,
    read_records,
    run,
    splits,
)
from mdaml.experiments.records import appending

KINDS = ("tuning", "trial", "convergence", "sensitivity")
SMALL = {"datasets": ["balance"], "methods": ["EUCLID", "GMML", "KISSME"], "quick": True}


def small_plan(**changes):
    return make_plan(**SMALL | changes)[0]


def results(records):
    """Records without the time they were made and the seconds they took."""
    timed = ("seconds", "fit_seconds", "time")
    kept = [{k: v for k, v in record.items() if k not in timed} for record in records]
    return sorted(kept, key=json.dumps)


@pytest.fixture(scope="module")
def small_records(tmp_path_factory):
    return run(small_plan(), tmp_path_factory.mktemp("small") / "records.jsonl")


# Records


def test_records_are_read_back_in_order(tmp_path):
    path = tmp_path / "folder" / "records.jsonl"
    assert read_records(path) == []
    with appending(path) as append:
        append({"a": 1})
        append({"b": [1.5, "two"]})
    with appending(path) as append:
        append({"c": None})
    assert read_records(path) == [{"a": 1}, {"b": [1.5, "two"]}, {"c": None}]


@pytest.mark.parametrize("rest", [b'{"b": ', b'{"b": 2}', b"\xff"])
def test_a_line_cut_short_is_left_out_and_written_over(tmp_path, rest):
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"a": 1}\n' + rest)  # even a whole record counts only with its line's end
    assert read_records(path) == [{"a": 1}]
    with appending(path) as append:
        append({"c": 3})
    assert read_records(path) == [{"a": 1}, {"c": 3}]


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"a": 1}\nnonsense\n{"b": 2}\n')
    with pytest.raises(ValueError, match=r"Line 2 of .*records\.jsonl is not JSON"):
        read_records(path)


def test_not_a_number_is_no_result(tmp_path):
    with appending(tmp_path / "r.jsonl") as append, pytest.raises(ValueError, match="JSON compl"):
        append({"accuracy": float("nan")})


def test_two_runs_do_not_write_the_same_file(tmp_path):
    path = tmp_path / "records.jsonl"
    with (
        appending(path) as append,
        pytest.raises(BlockingIOError, match="Another run is writing"),
        appending(path),
    ):
        append({})


# Plans


def test_the_whole_plan_has_every_method_set_and_trial():
    jobs = protocol.list_jobs(DATASETS, METHODS, 10)
    assert len(set(jobs)) == len(jobs)
    assert sum(job.kind == "trial" for job in jobs) == 13 * 16 * 10
    datasets = {kind: {job.dataset for job in jobs if job.kind == kind} for kind in KINDS}
    assert datasets["convergence"] == {"spambase", "letter", "dna"}
    assert datasets["sensitivity"] == {"segment"}
    untuned = set(METHODS) - {job.method for job in jobs if job.kind == "tuning"}
    assert untuned == {"EUCLID", "NCA", "MDaML (ours), untuned", "MDaML (ours), automatic"}


def test_the_published_grid_is_the_papers():
    grid = protocol.combinations("MDaML (paper), published grid", quick=False)
    assert len(grid) == 11 * 5
    assert {params["triplet_weight"] for params in grid} == {0.1, 1, 10, 100, 1000}


@pytest.mark.parametrize("what", ["datasets", "methods"])
def test_an_unknown_name_is_refused_with_all_names(what):
    with pytest.raises(ValueError, match=f"{what} must be among: .*Got 'iris'"):
        make_plan(**{what: ["iris"]})


def test_names_are_found_whatever_their_case():
    plan = small_plan(methods=["dml-EIG", "gmml", "GMML"])
    assert list(dict.fromkeys(job.method for job in plan)) == ["DML-eig", "GMML"]


def test_sets_that_are_not_here_are_left_out_unless_asked_for(monkeypatch):
    monkeypatch.delenv("MDAML_DATA", raising=False)
    splits.load_samples.cache_clear()
    plan, left_out = make_plan(methods=["EUCLID"])
    assert left_out == ("pubfig", "osr", "caltech20")
    assert len({job.dataset for job in plan}) == 10
    with pytest.raises(FileNotFoundError, match="osr"):
        make_plan(datasets=["osr"])


@pytest.mark.parametrize(
    ("values", "n", "expected"),
    [([1, 2, 3], None, [1, 2, 3]), ([1, 2], 5, [1, 2]), (list(range(10)), 2, [2, 7])],
)
def test_a_quick_grid_is_spread_evenly(values, n, expected):
    assert protocol.spread(values, n) == expected


# Running


def test_a_trial_is_what_one_would_do_by_hand(small_records):
    (record,) = (
        r for r in small_records if (r["kind"], r["method"], r.get("trial")) == ("trial", "GMML", 1)
    )
    X, y, X_test, y_test = splits.split("balance", 1)
    scaler = StandardScaler().fit(X)
    model = GMML(**record["params"]).fit(
        scaler.transform(X), triplets=splits.shared_triplets("balance", y, 1)
    )
    mapped, held_out = (model.transform(scaler.transform(part)) for part in (X, X_test))
    accuracy = KNeighborsClassifier(3).fit(mapped, y).score(held_out, y_test)
    assert record["accuracy"] == pytest.approx(accuracy)
    assert record["n_train"] + record["n_test"] == 625
    assert record["n_test"] == 188  # 30 %
    assert record["fit_seconds"] <= record["seconds"]
    assert {"mdaml", "numpy", "scikit-learn", "python"} <= set(record["versions"])


def test_parameters_are_the_best_of_the_grid_and_the_same_in_all_trials(small_records):
    (tuned,) = (r for r in small_records if r["kind"] == "tuning" and r["method"] == "GMML")
    best = max(tuned["scores"], key=lambda score: score["mean"])
    assert tuned["params"] == best["params"]
    assert [s["params"] for s in tuned["scores"]] == protocol.combinations("GMML", quick=True)
    trials = [r for r in small_records if r["kind"] == "trial" and r["method"] == "GMML"]
    assert [r["params"] for r in trials] == [tuned["params"]] * 2


def test_tuning_sees_the_first_training_part_only(monkeypatch):
    X, _, X_test, _ = splits.split("balance", 0)
    seen = []

    def watch(_method, _params, data):
        seen.append(data)
        return 0.5, 0.0

    monkeypatch.setattr(protocol, "fit_and_score", watch)
    monkeypatch.setattr(splits, "prepared", lambda _, train, test: (train, test))
    protocol.do_job(protocol.Job("tuning", "balance", "GMML", preset="quick"), {})
    known = {row.tobytes() for row in X}
    assert len(known) == len(X)  # no two rows of balance are alike
    for samples, _, held_out, _, _ in seen:
        rows = [row.tobytes() for row in (*samples, *held_out)]
        assert sorted(rows) == sorted(known)
    assert not known & {row.tobytes() for row in X_test}


def test_all_methods_get_the_same_splits_and_the_same_triplets(monkeypatch):
    seen = {}

    def watch(_method, _params, data, *, trial):
        seen.setdefault(trial, []).append(data)
        return 0.5, 0.0

    monkeypatch.setattr(protocol, "fit_and_score", watch)
    for method in METHODS:
        for trial in (0, 1):
            protocol.do_job(protocol.Job("trial", "sonar", method, trial), {"t": 1})
    for calls in seen.values():
        for other in calls[1:]:
            for mine, its in zip(calls[0], other, strict=True):
                np.testing.assert_array_equal(mine, its)
    assert not np.array_equal(seen[0][0][0], seen[1][0][0])


def test_the_test_part_is_scaled_by_the_training_part():
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(50, 3)) * 5 + 2, rng.normal(size=(20, 3))
    samples, held_out = splits.prepared("segment", X, X_test)
    np.testing.assert_allclose(samples.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(held_out, (X_test - X.mean(axis=0)) / X.std(axis=0))


def test_images_are_reduced_by_the_training_part_and_keep_their_scale():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 120)) * np.linspace(5, 1, 120)
    samples, held_out = splits.prepared("osr", X[:120], X[120:])
    assert samples.shape == (120, 100)
    assert held_out.shape == (30, 100)
    assert np.all(np.diff(samples.std(axis=0)) < 1e-9)  # in order of their spread, not equal


def test_letter_is_cut_to_the_size_of_the_paper():
    X, y = splits.load_samples("letter")
    assert X.shape == (5000, 16)
    assert len(np.unique(y)) == 26
    assert len(load_dataset("letter", return_X_y=True)[1]) == 20000


def test_sets_that_are_not_the_papers_are_run_only_if_named():
    assert not set(CONFIRMATION) & {job.dataset for job in make_plan(methods=["EUCLID"])[0]}
    plan, _ = make_plan(datasets=["wine"], methods=["EUCLID"], trials=1)
    assert plan == [protocol.Job("trial", "wine", "EUCLID")]
    _, y, X_test, _ = splits.split("wine", 0)
    assert len(X_test) == 54  # 30 % of 178
    assert len(np.unique(y)) == 3
    assert splits.load_samples("digits")[0].shape == (1797, 61)  # without constant pixels
    assert protocol.cost(protocol.Job("trial", "wine", "GMML")) > 0


def test_fixed_weights_are_one_mode():
    model = protocol.make("MDaML (paper), fixed weights", {"triplet_weight": 100}, 0)
    assert (model.n_modes, model.triplet_weight) == (1, 100)


def test_relative_weights_are_multiples_of_modes_to_the_eta():
    params = {"n_modes": 5, "relative_triplet_weight": 30}
    assert protocol.make("MDaML (paper)", params, 0).triplet_weight == 30 * 5**3


def test_a_second_run_does_nothing(small_records, tmp_path, monkeypatch):
    path = tmp_path / "records.jsonl"
    with appending(path) as append:
        for record in small_records:
            append(record)
    before = path.read_bytes()
    monkeypatch.setattr(protocol, "do_job", None)
    assert results(run(small_plan(), path)) == results(small_records)
    assert path.read_bytes() == before


def test_a_method_under_its_former_name_is_continued_with_the_same_seeds(tmp_path, monkeypatch):
    seeds = []
    make = protocol.make

    def watch(method, params, seed):
        seeds.append(seed)
        return make(method, params, seed)

    monkeypatch.setattr(protocol, "make", watch)
    path, former = tmp_path / "records.jsonl", "MDaML, defaults"
    plan = small_plan(methods=[former.upper()])
    assert {job.method for job in plan} == {"MDaML (ours), untuned"}
    records = run(plan, path)
    assert seeds == [splits.seed_of(former, trial) for trial in range(2)]
    path.write_text(path.read_text().replace("MDaML (ours), untuned", former))
    monkeypatch.setattr(protocol, "do_job", None)
    assert results(run(plan, path)) == results(records)


def test_a_larger_plan_adds_to_the_records_of_a_smaller_one(small_records, tmp_path):
    path = tmp_path / "records.jsonl"
    run(small_plan(methods=["EUCLID"]), path)
    run(small_plan(trials=1), path)
    assert results(run(small_plan(), path)) == results(small_records)


def test_quick_records_are_no_results_of_a_full_run(small_records, tmp_path):
    path = tmp_path / "records.jsonl"
    with appending(path) as append:
        append(small_records[0])
    with pytest.raises(ValueError, match="holds records of a quick run, this is a full one"):
        run(small_plan(quick=False), path)


def test_progress_counts_up_to_all_work(tmp_path):
    calls = []
    run(small_plan(), tmp_path / "r.jsonl", progress=lambda *call: calls.append(call))
    done = [call[1] for call in calls]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(calls[-1][2])
    assert len(calls) == 2 + 3 * 2


@pytest.mark.slow
@pytest.mark.parametrize("streaming", [True, False])
def test_parallel_jobs_give_the_same_records(small_records, tmp_path, streaming, monkeypatch):
    with joblib.parallel_config("threading"):
        backend, _ = joblib.parallel.get_active_backend()
        monkeypatch.setattr(type(backend), "supports_return_generator", streaming)
        records = run(small_plan(), tmp_path / "records.jsonl", n_jobs=2)
    assert results(records) == results(small_records)


@pytest.mark.slow
@pytest.mark.needs("POSIX")
def test_killed_at_any_moment_it_goes_on_where_it_was(start, small_records, tmp_path):
    code = """
        import sys
        from pathlib import Path
        from mdaml.experiments import make_plan, run
        run(make_plan(**{SMALL!r})[0], Path(sys.argv[1]))
    """.replace("{SMALL!r}", repr(SMALL))
    code = textwrap.dedent(code)
    # One is killed while tuning, the other during the trials; both run at the same time.
    n_records = {tmp_path / "tuning.jsonl": 1, tmp_path / "trials.jsonl": 3}
    processes = {path: start("-c", code, path, stdout=None, stderr=None) for path in n_records}
    deadline = time.monotonic() + 60
    while processes:
        for path, process in list(processes.items()):
            if len(read_records(path)) >= n_records[path] or process.poll() is not None:
                process.kill()
                process.wait()
                del processes[path]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for path in n_records:
        with path.open("ab") as file:  # as if the last line had been cut
            file.write(b'{"kind": "tri')
        assert results(run(small_plan(), path)) == results(small_records)
        assert results(read_records(path)) == results(small_records)


# The command


def invoke(*arguments):
    return CliRunner().invoke(build_app(), ["paper", *map(str, arguments)])


def test_the_command_runs_and_resumes(tmp_path):
    options = ["--quick", "--datasets", "balance", "--methods", "EUCLID", "--jobs", 1]
    first = invoke("run", *options, "--out", tmp_path)
    assert first.exit_code == 0, first.output
    assert "2 records" in first.output
    assert len(read_records(tmp_path / "quick.jsonl")) == 2
    again = invoke("run", *options, "--out", tmp_path)
    assert "holds 2 records" in again.output


def test_the_newest_records_of_a_folder_are_reported(tmp_path, monkeypatch):
    for seconds, name in enumerate(("records.jsonl", "quick.jsonl")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))
    monkeypatch.setattr("mdaml.experiments.read_records", lambda path: path)
    monkeypatch.setattr(
        "mdaml.experiments.report.write_report", lambda records, out: f"{records} in {out}"
    )
    result = invoke("report", "--records", tmp_path)
    printed = "".join(result.output.split())
    assert printed == f"Report:{tmp_path / 'quick.jsonl'}in{tmp_path / 'report'}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--datasets", "iris"], "datasets must be among"),
        (["run", "--methods", "SVM"], "methods must be among"),
        (["report", "--records", "nowhere.jsonl"], "there is no file or folder nowhere.jsonl"),
    ],
)
def test_the_command_refuses_before_any_work(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not list(tmp_path.iterdir())


def test_a_report_without_records_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("report")
    assert result.exit_code == 2
    assert "mdaml paper run first" in result.output
    (tmp_path / "mine").mkdir()
    result = invoke("report", "--records", "mine")
    assert result.exit_code == 2
    assert "no records in mine. Run mdaml paper run first; if its --out named" in result.output

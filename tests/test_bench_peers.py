"""The verdict of the comparison with the peers: what it is made of, and what it leaves out."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

HOME = Path(__file__).parents[1] / "benchmarks" / "peers"
pytestmark = pytest.mark.needs("benchmarks")


@pytest.fixture
def module(monkeypatch):
    """Import a module of the benchmark; its names are forgotten after the test."""
    monkeypatch.syspath_prepend(str(HOME))
    before = set(sys.modules)
    yield importlib.import_module
    for name in ("report", "learners", "problems"):
        if name not in before:
            sys.modules.pop(name, None)


def record(method, seconds, accuracy, *, split=0, status="ok", **more):
    facts = {"method": method, "kind": "labels", "set": "toy", "split": split, "status": status}
    figures = {"cpu_seconds": seconds, "accuracy": accuracy, "satisfied": accuracy, "peak_mb": 1.0}
    return facts | (figures if status == "ok" else {"message": "why"}) | more


def names(module, records):
    report = module("report")
    return [peer["method"] for peer in report.dominating(report.summarise(records), "accuracy")]


def test_a_peer_must_be_both_faster_and_more_accurate_to_be_named(module):
    ours = record("MDaML", 1.0, 0.8)
    assert names(module, [ours, record("sklearn NCA", 0.5, 0.81)]) == ["sklearn NCA"]
    assert names(module, [ours, record("sklearn NCA", 0.5, 0.8)]) == []
    assert names(module, [ours, record("sklearn NCA", 1.0, 0.9)]) == []


def test_neither_our_own_methods_nor_the_euclidean_distance_count_as_peers(module):
    better = [record(method, 0.1, 0.9) for method in ("GMML", "LMNN", "Euclidean")]
    assert names(module, [record("MDaML", 1.0, 0.8), *better]) == []


def test_a_method_that_failed_on_one_split_has_no_figures_but_says_why(module):
    records = [
        record("MDaML", 1.0, 0.8),
        record("sklearn NCA", 0.1, 0.9),
        record("sklearn NCA", 0.0, 0.0, split=1, status="failed"),
    ]
    rows = module("report").summarise(records)
    assert names(module, records) == []
    assert [row.get("message") for row in rows] == [None, "why"]
    assert "seconds" not in rows[1]


def test_splits_are_summed_up_by_median_seconds_and_mean_accuracy(module):
    seconds, accuracies = (1.0, 2.0, 9.0), (0.7, 0.8, 0.6)
    records = [
        record("MDaML", *pair, split=n)
        for n, pair in enumerate(zip(seconds, accuracies, strict=True))
    ]
    (row,) = module("report").summarise(records)
    assert row["seconds"] == 2.0
    assert row["accuracy"] == pytest.approx(0.7)


def test_methods_see_labels_or_triplets_but_never_held_out_samples(module, tmp_path):
    problems = module("problems")
    problem = problems.Problem.of("sonar", 0)
    for kind in problems.KINDS:
        problem.write(kind, tmp_path / "data.npz")
        with np.load(tmp_path / "data.npz") as file:
            assert set(file.files) == {"X", "y" if kind == "labels" else "triplets"}
            assert len(file["X"]) == len(problem.y)
    rows = {row.tobytes() for row in problem.X}
    assert not any(row.tobytes() in rows for row in problem.X_test)
    assert problem.triplets_test.max() < len(problem.X_test)


def test_every_method_has_a_mark_in_the_picture(module):
    report = module("report")
    assert set(report.STYLES) | {report.REFERENCE} == set(module("learners").METHODS)


def test_small_sets_have_ten_splits_unless_another_number_is_wanted(module):
    problems = module("problems")
    assert [problems.count_splits(name) for name in ("german", "sonar", "vehicle")] == [10, 10, 2]
    assert problems.count_splits("german", 1) == 1


@pytest.mark.needs("torch")
def test_linear_modern_nca_finds_the_feature_that_matters(module):
    learners = module("learners")
    X = np.random.default_rng(0).normal(size=(120, 3)) * [1.0, 3.0, 3.0]
    y = (X[:, 0] > 0).astype(int)
    L = learners.METHODS["linear ModernNCA"].fit(SimpleNamespace(X=X, y=y, triplets=None))
    lengths = np.linalg.norm(L, axis=0)
    assert L.shape == (3, 3)
    assert lengths[0] > 1.5 * lengths[1:].max()

"""Results of small fits, pinned bit for bit on the build that recorded them.

Rearranging the code must not change a result. ``frozen.json`` holds, for each case, a few numbers
of what was learned and, for each build (libraries and processor), a hash of all of it. On a build
of the record the hash must be the same, with one thread and with two; on others the numbers must
agree up to rounding. Record anew, after a change that is meant to change results or on a new build,
with

    python tests/test_frozen.py

which drops the hashes of other builds for the cases that changed.
"""

import hashlib
import json
import platform
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np
import pytest
import scipy
import sklearn
from threadpoolctl import threadpool_info

from mdaml import (
    DMLMJ,
    GMML,
    KISSME,
    LFDA,
    LMNN,
    DMLdc,
    DMLeig,
    Euclidean,
    MDaML,
    MDaMLCV,
    Partners,
    Preset,
)
from mdaml.kernels import modes, threads
from mdaml.model_selection import MetricSearchCV

RECORD = Path(__file__).with_name("frozen.json")
BLOCKS = "mdaml.stores.choice.SMALL_BYTES"  # samples above this size are worked on in blocks
LEARNED = ("components_", "centers_", "weights_", "history_")
# Spelled out, so that other defaults leave the record as it is.
PRESET = Preset(
    n_modes=3,
    eta=3.0,
    triplet_weight=300.0,
    weight_unit="modes",
    ridge=1e-4,
    anchor=0.0,
    floor=0.0,
    shrinkage=0.0,
    partners=Partners("neighbors", n_similar=3, n_dissimilar=4, n_refresh=1, pairing="grid"),
    init_metric="auto",
    init_modes="gmm",
    max_iter=4,
    max_inner_iter=5,
    find_groups=False,
    measure=False,
)
MDAML = {"ridge": 1e-4, "max_iter": 4, "random_state": 0}
ZIP = Partners("neighbors", n_similar=3, n_dissimilar=4, n_refresh=1, pairing="zip")
RANDOM = Partners("random", n_similar=3, n_dissimilar=4, n_refresh=0, pairing="grid")


def preset_of(supervision, partners=PRESET.partners):
    """Neighbours drawn from labels have a larger weight."""
    near = supervision == "labels" and partners.kind == "neighbors"
    return replace(PRESET, triplet_weight=1000.0 if near else 300.0, partners=partners)


def keep(X):
    return X


def move_by_rounding(seed):
    """Return a function that moves every number to one of its neighbours."""

    def move(X):
        up = np.random.default_rng(seed).random(X.shape) < 0.5
        return np.nextafter(X, np.where(up, np.inf, -np.inf).astype(X.dtype))

    return move


move = keep  # what happens to the samples before a fit


def problem(dtype=np.float64):
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1, 2, -1], [24, 20, 18, 4])
    X = rng.normal(size=(len(y), 6)) @ np.diag([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    X[:, 0] += 2.5 * y * (-1) ** np.arange(len(y))
    X[:, 1] += y
    triplets = np.array([rng.choice(len(y), 3, replace=False) for _ in range(300)])
    near, far = (np.abs(X[triplets[:, 0], 0] - X[triplets[:, k], 0]) for k in (1, 2))
    triplets[near > far] = triplets[near > far][:, [0, 2, 1]]
    quadruplets = np.array([rng.choice(len(y), 4, replace=False) for _ in range(200)])
    near, far = (np.abs(X[quadruplets[:, k], 0] - X[quadruplets[:, k + 1], 0]) for k in (0, 2))
    quadruplets[near > far] = quadruplets[near > far][:, [2, 3, 0, 1]]
    pairs = np.array([rng.choice(len(y), 2, replace=False) for _ in range(120)])
    similar = np.where(np.abs(X[pairs[:, 0], 0] - X[pairs[:, 1], 0]) < 2.0, 1, -1)
    return move((X + 3.0).astype(dtype)), {
        "labels": {"y": y},
        "triplets": {"triplets": triplets},
        "weighted": {"triplets": triplets, "constraint_weight": rng.random(300) + 0.5},
        "pairs": {"pairs": pairs, "pair_labels": similar},
        "quadruplets": {"quadruplets": quadruplets},
        "mixed": {
            "triplets": triplets,
            "pairs": pairs,
            "pair_labels": similar,
            "quadruplets": quadruplets,
        },
    }


def fitted(make, given, dtype=np.float64):
    X, supervision = problem(dtype)
    model = make()
    if "random_state" in model.get_params() and model.random_state is None:
        model.set_params(random_state=0)
    return model.fit(X, **supervision[given])


def in_chunks(given, dtype=np.float64):
    X, supervision = problem(dtype)
    model = MDaML(goal=preset_of(given), **MDAML)
    for shift in (0.0, 0.1, 0.2):
        model.partial_fit(X + shift, **supervision[given])
    return model


def mdaml_cases():
    cases = {}

    def add(name, supervision, dtype=np.float64, *, partners=PRESET.partners, **params):
        params = {"goal": preset_of(supervision, partners)} | MDAML | params
        cases[name] = lambda: fitted(lambda: MDaML(**params), supervision, dtype)

    for supervision in problem()[1]:
        for dtype in (np.float64, np.float32):
            for rank in (None, 2):
                bits = np.dtype(dtype).itemsize * 8
                add(
                    f"MDaML {supervision} float{bits} rank {rank}",
                    supervision,
                    dtype,
                    n_components=rank,
                )
    for dtype in (np.float64, np.float32):
        bits = np.dtype(dtype).itemsize * 8
        add(f"MDaML random labels float{bits}", "labels", dtype, partners=RANDOM)
        add(f"MDaML zip labels float{bits}", "labels", dtype, partners=ZIP)
    for supervision in ("labels", "triplets", "mixed"):
        add(f"MDaML one mode {supervision}", supervision, n_modes=1)
        add(f"MDaML eta 2 {supervision}", supervision, eta=2.0, n_modes=5)
        for start in ("identity", "whitened", np.diag([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])):
            name = start if isinstance(start, str) else "matrix"
            add(f"MDaML start {name} {supervision}", supervision, init_metric=start)
            add(
                f"MDaML start {name} {supervision} rank 2",
                supervision,
                init_metric=start,
                n_components=2,
            )
        add(
            f"MDaML kmeans {supervision}",
            supervision,
            goal=replace(preset_of(supervision), init_modes="kmeans"),
        )
        weights = np.random.default_rng(1).random((66, 3))
        add(f"MDaML given weights {supervision}", supervision, n_modes=weights)
    wide = np.random.default_rng(2).normal(size=(60, 40)) * 10.0
    cases["MDaML wide"] = lambda: MDaML(goal=preset_of("labels"), **MDAML).fit(
        wide, np.arange(60) % 4
    )
    for supervision in ("labels", "triplets", "mixed"):
        cases[f"MDaML chunks {supervision}"] = lambda supervision=supervision: in_chunks(
            supervision
        )
    cases["MDaML chunks float32"] = lambda: in_chunks("mixed", np.float32)
    return cases


def other_cases():
    cases = {}
    for learner in (GMML, KISSME, DMLeig, Euclidean):
        for supervision in problem()[1]:
            cases[f"{learner.__name__} {supervision}"] = (
                lambda learner=learner, supervision=supervision: fitted(learner, supervision)
            )
    for learner in (LMNN, DMLMJ, LFDA, DMLdc):
        for dtype in (np.float64, np.float32):
            name = f"{learner.__name__} float{np.dtype(dtype).itemsize * 8}"
            cases[name] = lambda learner=learner, dtype=dtype: fitted(learner, "labels", dtype)
    for rank in ("auto", 2):
        cases[f"LFDA rank {rank}"] = lambda rank=rank: fitted(
            lambda: LFDA(n_components=rank), "labels"
        )
        cases[f"DMLMJ rank {rank}"] = lambda rank=rank: fitted(
            lambda: DMLMJ(n_components=rank), "labels"
        )
    cases["LMNN rank 2"] = lambda: fitted(lambda: LMNN(n_components=2), "labels")
    for supervision in ("labels", "triplets"):
        cases[f"MDaMLCV {supervision}"] = lambda supervision=supervision: fitted(
            lambda: MDaMLCV(random_state=0), supervision
        )
        grid = {"triplet_weight": [3.0, 30.0, 300.0, 3000.0, 10000.0], "n_modes": [1, 3]}
        cases[f"MetricSearchCV {supervision}"] = lambda supervision=supervision, grid=grid: (
            fitted(
                lambda: MetricSearchCV(
                    MDaML(goal=preset_of(supervision, RANDOM), ridge=1e-4, max_iter=4),
                    grid,
                    cv=3,
                    random_state=0,
                ),
                supervision,
            ).best_estimator_
        )
    return cases


CASES = mdaml_cases() | other_cases()
IN_BLOCKS = [name for name in CASES if name.startswith("MDaML ") and "rank 2" not in name]


def learned(model):
    """All that a model learned, with its scores, as arrays."""
    X, supervision = problem()
    found = {name: np.asarray(getattr(model, name)) for name in LEARNED if hasattr(model, name)}
    if model.n_features_in_ == X.shape[1]:
        held = supervision["mixed"]
        scores = [
            model.score_triplets(X, held["triplets"]),
            model.score_quadruplets(X, held["quadruplets"]),
            model.score_pairs(X, held["pairs"], held["pair_labels"]),
        ]
        found["scores"] = np.array(scores)
    return found


def entry(model):
    """What the record keeps of a model: a hash of every bit, and a few numbers."""
    found, digest = learned(model), hashlib.sha256()
    for name, array in found.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    numbers = [float(np.linalg.norm(found["components_"].astype(np.float64)))]
    numbers += [float(found["history_"][-1])] if "history_" in found else []
    return {"hash": digest.hexdigest(), "numbers": numbers}


@cache
def build():
    """The libraries and the processor that decide about the last bit."""
    versions = [f"{module.__name__} {module.__version__}" for module in (np, scipy, sklearn, numba)]
    blas = {
        f"{info['internal_api']} {info['version']} {info.get('architecture')}"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    }
    parts = [platform.machine(), llvmlite.binding.get_host_cpu_name(), *versions, *sorted(blas)]
    return ", ".join(parts)


@cache
def record():
    return json.loads(RECORD.read_text())


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.slow)])
def use_one_or_two_threads(request, monkeypatch):
    """One thread, or two for however little work."""
    monkeypatch.setattr(threads, "n_threads", lambda: request.param)
    monkeypatch.setattr(threads, "GRAIN", 1)
    monkeypatch.setattr(modes, "GRAIN", 1)


def numbers_of_moved_samples(make, monkeypatch):
    """The numbers of a case, with its samples moved by rounding in several ways."""
    for seed in range(16):
        monkeypatch.setattr(sys.modules[__name__], "move", move_by_rounding(seed))
        yield entry(make())["numbers"]


def check(name, make, monkeypatch):
    found, wanted = entry(make()), record()["numbers"][name]
    if known := record()["builds"].get(build(), {}).get(name):
        assert found["hash"] == known
        return
    single = "float32" in name
    try:
        np.testing.assert_allclose(found["numbers"], wanted, rtol=1e-2 if single else 1e-6)
    except AssertionError:
        # Some fits multiply rounding, by as much as can be seen when their samples are rounded.
        moved = list(numbers_of_moved_samples(make, monkeypatch))
        spread = np.ptp([found["numbers"], *moved], axis=0)
        if not np.all(np.abs(np.subtract(found["numbers"], wanted)) <= 2 * spread):
            raise


@pytest.mark.filterwarnings("ignore")  # of fits that are cut short on purpose
@pytest.mark.usefixtures("use_one_or_two_threads")
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_record(name, monkeypatch):
    check(name, CASES[name], monkeypatch)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("use_one_or_two_threads")
@pytest.mark.parametrize("name", IN_BLOCKS)
def test_results_in_blocks_are_those_of_the_record(name, monkeypatch):
    monkeypatch.setattr(BLOCKS, 0)
    check(f"{name} in blocks", CASES[name], monkeypatch)


def test_record_has_no_other_cases():
    assert set(record()["numbers"]) == {*CASES, *(f"{name} in blocks" for name in IN_BLOCKS)}


def make_record():
    import warnings

    import mdaml.stores.choice as memory

    warnings.simplefilter("ignore")
    cases = {name: entry(make()) for name, make in CASES.items()}
    memory.SMALL_BYTES = 0
    cases |= {f"{name} in blocks": entry(CASES[name]()) for name in IN_BLOCKS}
    builds, here = record()["builds"], {name: case["hash"] for name, case in cases.items()}
    before = builds.get(build(), here)
    same = {name for name, hash in here.items() if before.get(name) == hash}
    others = {
        other: {name: hash for name, hash in hashes.items() if name in same}
        for other, hashes in builds.items()
    }
    numbers = {
        name: record()["numbers"][name]
        if name in same & {*record()["numbers"]}
        else case["numbers"]
        for name, case in cases.items()
    }
    new = {"builds": others | {build(): here}, "numbers": numbers}
    RECORD.write_text(json.dumps(new, indent=1) + "\n")


if __name__ == "__main__":
    make_record()

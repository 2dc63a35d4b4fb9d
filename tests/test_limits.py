"""What a fit can hold: tiny and huge numbers, many columns, threads, places without a cache."""

import os
import subprocess
import sys
import time
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import mdaml.distributed
from mdaml import GMML, KISSME, LFDA, Euclidean, MDaML
from mdaml.constraints import sample_triplets
from mdaml.features import gist
from mdaml.kernels import products
from mdaml.kernels.products import one_blas_thread
from mdaml.model_selection import hit_rate_at_k, knn_accuracy, map_at_r

ROOT = Path(__file__).parents[1]
N, D = 40, 4


@pytest.fixture(scope="module", name="X")
def make_samples():
    return np.random.default_rng(0).normal(size=(N, D))


@pytest.fixture(scope="module")
def y():
    return np.arange(N) % 3


@pytest.fixture(scope="module")
def triplets():
    rng = np.random.default_rng(1)
    return np.array([rng.choice(N, 3, replace=False) for _ in range(100)])


@pytest.mark.filterwarnings("ignore::UserWarning")  # there is little to learn
@pytest.mark.parametrize("scale", [1e-10, 1e-24])
@pytest.mark.parametrize("rank", [None, 2])
def test_small_samples_are_learned_from(X, triplets, scale, rank):
    model = MDaML(n_modes=1, n_components=rank, random_state=0, max_iter=2)
    model.fit(X * scale, triplets=triplets)
    assert np.all(np.isfinite(model.history_))
    assert np.all(np.diff(model.history_) <= 0)


@pytest.mark.parametrize("scale", [1e-30, 1e-56, 1e-80, 1e-150, 1e-300])
@pytest.mark.parametrize("rank", [None, 2])
def test_samples_whose_distances_vanish_are_refused(X, triplets, scale, rank):
    with pytest.raises(ValueError, match=r"distances vanish in float64\. Scale the features"):
        MDaML(n_components=rank).fit(X * scale, triplets=triplets)


def test_nothing_infinite_is_stored(X, y):
    model = KISSME().fit(X.astype(np.float32), y)
    before = dict(vars(model))
    for fitted in ({}, {"history_": np.array([1.0, np.nan])}):
        components = np.full((1, D), 1.0 if fitted else 1e39)
        with pytest.raises(ValueError, match="would hold values that are not finite in float"):
            model._store(X, components, np.float32, **fitted)
    assert vars(model) == before


def test_single_precision_of_vanishing_distances_is_refused(X, y):
    for method in (MDaML, KISSME, LFDA, GMML):
        with pytest.raises(ValueError, match="distances vanish"):
            method().fit((X * 1e-40).astype(np.float32), y)


def test_constant_samples_are_no_small_samples(triplets):
    model = MDaML(n_modes=1, max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(np.full((N, D), 3.0), triplets=triplets)
    assert np.all(np.isfinite(model.components_))


@pytest.mark.parametrize(
    ("dtype", "scale"), [("f4", 1e20), ("f4", 1e-30), ("f8", 1e200), ("f8", 1e-200)]
)
def test_distances_neither_overflow_nor_vanish(X, dtype, scale):
    metric = Euclidean().fit(X.astype(dtype))
    A = (X * scale).astype(dtype)
    found = metric.pair_distance(A, -A)
    assert found.dtype == dtype
    wanted = 2.0 * np.linalg.norm(A.astype(np.float64) / scale, axis=1)
    np.testing.assert_allclose(found.astype(np.float64) / scale, wanted, rtol=1e-5)


def test_distances_that_have_no_number_are_refused(X):
    metric = Euclidean().fit(X.astype(np.float32))
    A = np.full((1, D), 3e38, np.float32)
    with pytest.raises(ValueError, match="exceed float32"):
        metric.pair_distance(A, -A)


def test_euclidean_makes_one_matrix_only():
    d = 2000
    X = np.ones((2, d), np.float32)
    tracemalloc.start()
    try:
        Euclidean().fit(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * 4 * d * d


@pytest.mark.parametrize("score", [knn_accuracy, hit_rate_at_k, map_at_r])
@pytest.mark.parametrize("missing", [np.nan, None, ""])
def test_scores_leave_out_missing_labels(X, y, score, missing):
    labels = y.astype(float if missing is np.nan else object)
    labels[3] = -1
    wanted = score(Euclidean().fit(X), X, labels)
    labels[3] = missing
    assert score(Euclidean().fit(X), X, labels) == wanted
    labels = y.astype(float)
    labels[3] = np.inf
    with pytest.raises(ValueError, match="no label in row 3"):
        score(Euclidean().fit(X), X, labels)


def test_two_columns_are_no_labels(y):
    with pytest.raises(ValueError, match="one label for each row"):
        sample_triplets(np.column_stack([y, y]))


def test_filters_too_large_to_be_made_are_refused_at_once():
    start = time.process_time()
    for options in ({"size": 10**9}, {"boundary": 10**8}, {"n_orientations": [10**9]}):
        with pytest.raises(ValueError, match="Make size smaller"):
            gist([np.zeros((8, 8))], **options)
    assert time.process_time() - start < 1.0


@pytest.mark.needs("distributed")
def test_without_a_dask_client_one_is_asked_for(X, y):
    """Here, where no fixture has made one."""
    with pytest.raises(ValueError, match="no Dask client yet"):
        mdaml.distributed.fit(MDaML(), X, y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # the labels are random
def test_too_many_shards_are_joined(X, y):
    import distributed

    import mdaml.distributed

    model = MDaML(n_modes=1, max_iter=1, random_state=0)
    with distributed.Client(n_workers=1, processes=False, dashboard_address=":0") as client:
        for wrong in (True, 0, 1.5):
            with pytest.raises(ValueError, match="n_shards"):
                mdaml.distributed.fit(model, X, y, client=client, n_shards=wrong)
        rng = np.random.default_rng(0)
        many, labels = rng.normal(size=(500, 2)), rng.integers(0, 3, 500)
        start = time.process_time()
        mdaml.distributed.fit(model, many, labels, client=client, n_shards=400)
        assert time.process_time() - start < 30.0


@pytest.mark.filterwarnings("ignore::UserWarning")  # the labels are random
def test_threads_change_neither_filters_nor_results(X, y):
    big = np.repeat(X, 10, axis=0) + np.random.default_rng(2).normal(size=(10 * N, D))
    labels = np.repeat(y, 10)

    def fit(_):
        return MDaML(n_modes=3, max_iter=2, random_state=0).fit(big, labels).history_

    alone = fit(0)
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        histories = list(pool.map(fit, range(8)))
    assert list(warnings.filters) == before
    assert all(np.array_equal(history, alone) for history in histories)


def test_the_last_of_overlapping_fits_frees_blas():
    # Those of libraries that were loaded after the first fit are not ours to limit.
    blas = products._controller()

    def n_threads():
        return [pool["num_threads"] for pool in blas.info() if pool["user_api"] == "blas"]

    with blas.limit(limits=2, user_api="blas"):  # whatever the environment allows
        before = n_threads()
        one, two = one_blas_thread(), one_blas_thread()
        one.__enter__()
        two.__enter__()
        one.__exit__(None, None, None)
        assert set(n_threads()) <= {1}
        two.__exit__(None, None, None)
        assert n_threads() == before
        assert set(before) <= {2}


FIT = """
import warnings
import numpy as np
from mdaml import GMML
X = np.random.default_rng(0).normal(size=(30, 3))
from mdaml.kernels.pairs import pair_sq_dists
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        print(float(pair_sq_dists(X, np.array([[0, 1], [2, 3]]))[0]))
        print(float(pair_sq_dists(X.astype("f4"), np.array([[0, 1], [2, 3]]))[0]))
for each in caught:
    print(each.category.__name__, each.message)
"""


def run_loop(folder, **environment):
    words = [sys.executable, "-c", FIT]
    given = os.environ | {"NUMBA_CACHE_DIR": str(folder)} | environment
    done = subprocess.run(words, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_loops_run_where_no_code_can_be_kept(tmp_path):
    cache = tmp_path / "cache"
    first = run_loop(cache)
    assert len(first) == 4  # no warning
    damaged = list(cache.rglob("*.nbi"))
    for path in damaged:
        path.write_bytes(path.read_bytes()[:20])
    again = run_loop(cache)
    assert damaged
    assert again[:4] == first
    assert len(again) == 5  # one warning for all loops
    assert again[4].startswith("RuntimeWarning Compiled code cannot be kept or read")
    assert run_loop(cache) == first  # the damaged files were replaced


def test_loops_run_without_a_folder_for_code(tmp_path):
    (tmp_path / "file").touch()
    found = run_loop(tmp_path / "file" / "cache", HOME=str(tmp_path / "file"))
    assert [line for line in found if line.startswith("RuntimeWarning")] == found[4:5]


def test_only_our_own_warnings_fail_tests(tmp_path):
    lines = ["import warnings"]
    for name, module in enumerate(["torch.profiler.profiler", "mdaml.x", "numpy.linalg"]):
        warn = f"warnings.warn_explicit('old', UserWarning, 'f.py', 1, module={module!r})"
        lines += [f"def test_{name}():", f"    {warn}"]
    (tmp_path / "test_warning.py").write_text("\n".join(lines))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c"]
    words += [str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "test_warning.py"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "2 failed, 1 passed" in done.stdout
    assert "test_0 " not in done.stdout.partition("short test summary")[2]

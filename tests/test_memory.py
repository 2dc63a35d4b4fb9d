"""Memory of a fit: what is documented is what is measured, and nothing depends on the blocks."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mdaml import MDaML, kernels
from mdaml.constraints import ComparisonSet, PairSet, TripletSet
from mdaml.kernels import CentredRows, FitSize, _memory
from mdaml.modes import (
    Neighbors,
    clustering_scatter,
    kmeans_weights,
    mixture_weights,
    modes_from_weights,
    update_centers,
)

N, D = 400, 6


def problem(seed=0, dtype=np.float64, n_triplets=1500):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(N, D)) * np.linspace(0.5, 2, D) + 3).astype(dtype)
    triplets = np.array([rng.choice(N, 3, replace=False) for _ in range(n_triplets)])
    importance = rng.random(n_triplets * 2)
    return X, triplets, importance


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Blocks of 16 rows, so that small samples are many blocks."""
    monkeypatch.setattr(_memory, "BLOCK_BYTES", 1)


# Blocks


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_centred_rows_stand_for_the_centred_array_in_every_product(dtype):
    X, _, _ = problem(dtype=dtype)
    lazy = CentredRows.of(X)
    eager = (X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)).astype(dtype)
    A = np.random.default_rng(1).normal(size=(D, 4)).astype(dtype)
    w = np.random.default_rng(2).random(N)
    tolerance = {"rtol": 1e-10, "atol": 1e-10} if dtype is np.float64 else {"rtol": 1e-4}
    tolerance.setdefault("atol", 1e-3)
    np.testing.assert_allclose(kernels.rows_times(lazy, A), eager @ A, **tolerance)
    np.testing.assert_allclose(kernels.transposed_times(lazy, lazy), eager.T @ eager, **tolerance)
    np.testing.assert_allclose(kernels.weighted_gram(lazy, w), (eager.T * w) @ eager, **tolerance)
    assert lazy.max() == pytest.approx(eager.max(), rel=1e-6)
    assert lazy.min() == pytest.approx(eager.min(), rel=1e-6)
    assert (lazy.shape, lazy.dtype, lazy.size, len(lazy)) == (X.shape, X.dtype, X.size, N)


def test_the_mean_of_many_single_precision_rows_is_taken_in_double_precision():
    X = np.full((2**20, 2), 1000.1, np.float32)
    X[::2] += np.float32(0.5)
    assert np.abs(CentredRows.of(X)[:2].sum(axis=0)).max() < 1e-3


@pytest.mark.usefixtures("tiny_blocks")
def test_a_product_may_overwrite_its_samples():
    Y, A = problem()[0], np.random.default_rng(1).normal(size=(D, D))
    expected = Y @ A
    assert kernels.rows_times(Y, A, out=Y) is Y
    np.testing.assert_allclose(Y, expected, rtol=1e-12)


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["triplets", "comparisons"])
def test_the_gradient_in_blocks_is_the_gradient(kind, dtype):
    X, triplets, importance = problem(dtype=dtype)
    grouped = (
        TripletSet.from_triplets(triplets, N)
        if kind == "triplets"
        else ComparisonSet.from_comparisons(triplets[:, [0, 1, 0, 2]], None, N)
    )
    importance, scales = importance[: len(grouped.pairs)], np.linspace(0.5, 2, D).astype(dtype)
    loss, product = grouped.gradient(X, scales, importance)
    same_loss, half = grouped.half_scatter(X, scales, importance)
    expected = X.astype(np.float64).T @ product
    assert same_loss == pytest.approx(loss, rel=1e-5 if dtype is np.float32 else 1e-12)
    atol = (1e-3 if dtype is np.float32 else 1e-11) * np.abs(expected).max()
    np.testing.assert_allclose(half, expected, atol=atol)


def test_no_bit_of_a_gradient_in_blocks_depends_on_the_number_of_threads(
    use_threads,
    tiny_blocks,  # noqa: ARG001
):
    X, triplets, importance = problem(dtype=np.float32)
    grouped = TripletSet.from_triplets(triplets, N)
    results = []
    for count in (1, 2, 5):
        use_threads(count)
        scales = np.ones(D, np.float32)
        results.append(grouped.half_scatter(X, scales, importance[: len(grouped.pairs)]))
    for loss, half in results[1:]:
        assert loss == results[0][0]
        assert half.tobytes() == results[0][1].tobytes()


@pytest.mark.usefixtures("tiny_blocks")
def test_modes_of_rows_that_are_centred_in_blocks_are_the_same():
    X, _, _ = problem()
    weights = np.random.default_rng(3).dirichlet(np.ones(3), N)
    results = []
    for samples in (CentredRows.of(X), X - X.mean(axis=0)):
        modes = modes_from_weights(samples, weights, 3.0)
        moved = update_centers(samples, modes)
        results.append((modes.centers, moved.centers, clustering_scatter(samples, moved)))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_a_graph_that_was_not_kept_is_made_again():
    grouped = TripletSet.from_triplets(problem()[1], N)
    kept = Neighbors.from_graph(grouped.near_graph())
    again = kept.without_graph().with_graph(grouped)
    assert kept.with_graph(grouped) is kept
    for one, other in zip(kept.graph, again.graph, strict=True):
        np.testing.assert_array_equal(one, other)


# Grouping


@pytest.mark.parametrize("n_samples", [12, 10**9])
def test_pairs_are_grouped_as_unique_would(n_samples):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 12, (300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    distinct, places = kernels.group_pairs(pairs, n_samples)
    expected, inverse = np.unique(np.sort(pairs, axis=1), axis=0, return_inverse=True)
    np.testing.assert_array_equal(distinct, expected)
    np.testing.assert_array_equal(places, inverse.ravel())


def test_comparisons_are_merged_by_their_two_pairs():
    rng = np.random.default_rng(1)
    near, far = rng.integers(0, 5, (2, 200)).astype(np.int32)
    weights = rng.random(200)
    bounds, members, sums = kernels.merge_comparisons(near, far, weights, 7)
    expected = {}
    for n, f, w in zip(near.tolist(), far.tolist(), weights, strict=True):
        expected[n, f] = expected.get((n, f), 0.0) + w
    listed = {
        (n, int(members[e])): sums[e] for n in range(7) for e in range(bounds[n], bounds[n + 1])
    }
    assert list(listed) == sorted(expected)
    assert listed == pytest.approx(expected)


def test_pairs_are_counted_without_grouping_them():
    triplets = problem()[1]
    assert kernels.count_pairs(triplets, N) == len(TripletSet.from_triplets(triplets, N).pairs)


def test_indices_take_four_bytes_where_they_fit():
    triplets = problem()[1]
    grouped = TripletSet.from_triplets(triplets, N)
    general = ComparisonSet.from_comparisons(triplets[:, [0, 1, 0, 2]], None, N)
    arrays = [grouped.pairs, grouped.first, grouped.last, grouped.far, *grouped.near_graph()[1:]]
    arrays += [general.pairs, general.first, general.last, general.far, *general.by_far]
    arrays += [PairSet.from_pairs(triplets[:, :2], N).pairs]
    assert {array.dtype.itemsize for array in arrays} == {4}


# Fits


def fit(X, triplets, **options):
    return MDaML(3, max_iter=3, random_state=0, **options).fit(X, triplets=triplets)


def size_of(X, triplets, n_modes=3):
    n_pairs = kernels.count_pairs(triplets, len(X))
    return FitSize(*X.shape, n_modes, X.itemsize, n_pairs, len(triplets))


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-6), (np.float32, 5e-3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_in_blocks_is_the_fit(monkeypatch, dtype, rtol, weighted):
    X, triplets, _ = problem(dtype=dtype)
    given = {"triplets": triplets}
    if weighted:
        given["constraint_weight"] = np.linspace(1, 2, len(triplets))
    models = []
    for small in (_memory.SMALL_BYTES, 0):
        monkeypatch.setattr("mdaml.estimators._memory.SMALL_BYTES", small)
        models.append(MDaML(3, max_iter=3, random_state=0).fit(X, **given))
    whole, blocks = models
    np.testing.assert_allclose(blocks.history_, whole.history_, rtol=rtol)
    np.testing.assert_allclose(blocks.weights_, whole.weights_, rtol=0.05, atol=rtol)
    assert blocks.lambda1_critical_ == pytest.approx(whole.lambda1_critical_, rel=rtol)
    assert blocks.components_.dtype == dtype
    assert np.all(np.diff(blocks.history_) <= 0)


def test_memory_maps_are_fitted_as_they_are(tmp_path):
    X, triplets, _ = problem(dtype=np.float32)
    for name, array in (("X", X), ("triplets", triplets.astype(np.int32))):
        np.save(tmp_path / f"{name}.npy", array)
    maps = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("X", "triplets")]
    np.testing.assert_array_equal(fit(*maps).components_, fit(X, triplets).components_)


def test_a_limit_that_leaves_room_changes_nothing_and_a_tighter_one_takes_blocks():
    X, triplets, _ = problem()
    size = size_of(X, triplets)
    roomy, tight = size.needed(in_blocks=False), size.needed(in_blocks=True)
    assert tight < roomy
    free = fit(X, triplets)
    np.testing.assert_array_equal(
        fit(X, triplets, memory_limit=roomy).components_, free.components_
    )
    np.testing.assert_allclose(
        fit(X, triplets, memory_limit=tight).history_, free.history_, rtol=1e-6
    )


@pytest.mark.parametrize(
    "given",
    [
        {"y": np.arange(N) % 3},
        {"triplets": problem()[1]},
        {"quadruplets": problem()[1][:, [0, 1, 0, 2]]},
        {"pairs": [(0, 1), (2, 3)], "pair_labels": [1, -1]},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_does_not_fit_is_refused_with_what_is_needed_and_what_to_do(given):
    with pytest.raises(ValueError, match=r"allows 1 MB .* may need \d+ MB.*float32.*partial_fit"):
        MDaML(2, memory_limit="1 MB").fit(problem()[0], **given)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ValueError),
        (-5, ValueError),
        (float("nan"), ValueError),
        ("", ValueError),
        ("-1 GB", ValueError),
        ("2 gigs", ValueError),
        (True, TypeError),
        ([1], TypeError),
    ],
)
def test_a_limit_that_is_none_is_refused(value, error):
    with pytest.raises(
        error, match=r"MDaML\(memory_limit=...\) must be a positive number of bytes"
    ):
        MDaML(2, memory_limit=value).fit(problem()[0], triplets=problem()[1])


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("2 GB", 2e9),
        ("1.5GiB", 1.5 * 2**30),
        ("500 MB", 5e8),
        ("7 kB", 7e3),
        ("9 B", 9),
        (3e8, 3e8),
    ],
)
def test_limits_are_bytes_or_words(text, n_bytes):
    from mdaml._validation import check_memory_limit

    assert check_memory_limit(MDaML(), text) == n_bytes


@pytest.mark.parametrize("options", [{"device": "cpu"}, {"n_components": 2}], ids=str)
def test_a_limit_is_refused_where_it_is_not_kept(options):
    if "device" in options:
        pytest.importorskip("torch")
    X, triplets, _ = problem()
    with pytest.raises(ValueError, match="kept by fits of full rank with NumPy"):
        fit(X, triplets, memory_limit="1 GB", **options)


@pytest.mark.parametrize("options", [{"device": "cpu"}, {"n_components": 2}], ids=str)
def test_fits_on_a_device_and_of_low_rank_do_not_go_in_blocks(monkeypatch, options):
    if "device" in options:
        pytest.importorskip("torch")
    X, triplets, _ = problem()
    whole = fit(X, triplets, **options)
    monkeypatch.setattr("mdaml.estimators._memory.SMALL_BYTES", 0)
    monkeypatch.setattr(CentredRows, "of", None)
    np.testing.assert_array_equal(fit(X, triplets, **options).components_, whole.components_)


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("options", [{"init": "kmeans"}, {"init_metric": "whitened"}], ids=str)
@pytest.mark.parametrize("unit", [1.0, 1e3])  # a start as wide as that is scaled
def test_a_fit_to_labels_in_blocks_is_the_fit(monkeypatch, options, unit):
    X = unit * problem()[0]
    y = np.digitize(X[:, 0] / unit, [2.7, 3.3])
    models = []
    for small in (_memory.SMALL_BYTES, 0):
        monkeypatch.setattr("mdaml.estimators._memory.SMALL_BYTES", small)
        models.append(MDaML(3, random_state=0, **options).fit(X, y))
    whole, blocks = models
    np.testing.assert_array_equal(blocks.triplets_, whole.triplets_)
    np.testing.assert_allclose(blocks.history_, whole.history_, rtol=1e-6)


def test_a_start_from_some_of_many_rows_is_that_of_the_centred_array(monkeypatch):
    monkeypatch.setattr("mdaml.modes.MAX_ROWS_FOR_START", 100)
    monkeypatch.setattr("mdaml.modes._ROWS_PER_BLOCK", 64)
    X = problem()[0]
    for start in (mixture_weights, kmeans_weights):
        one, other = (
            start(samples, 3, np.random.RandomState(0))
            for samples in (CentredRows.of(X), X - X.mean(axis=0))
        )
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_what_is_needed_grows_with_every_size():
    size = FitSize(10**5, 64, 5, 4, 10**6, 10**6)
    for in_blocks in (True, False):
        for name in ("n_samples", "n_features", "n_modes", "n_pairs", "n_comparisons", "itemsize"):
            larger = replace(size, **{name: 2 * getattr(size, name)})
            assert larger.needed(in_blocks=in_blocks) > size.needed(in_blocks=in_blocks)


MEASURE = """
import ctypes, gc, json, sys, warnings
import numpy as np
from mdaml import MDaML
from mdaml import kernels
from mdaml.kernels import FitSize

warnings.simplefilter("ignore")
n, d, t, k, in_blocks = json.loads(sys.argv[1])

def resident(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))

def fit(n, t):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    near = rng.integers(1, n - 1, t)
    triplets = np.column_stack([np.arange(t) % n] * 3).astype(np.int32)
    triplets[:, 1] = (triplets[:, 0] + near) % n
    triplets[:, 2] = (triplets[:, 0] + near + 1) % n
    size = FitSize(n, d, k, 4, kernels.count_pairs(triplets, n), t)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before, limit = resident("VmRSS"), size.needed(in_blocks=in_blocks)
    MDaML(k, max_iter=1, max_inner_iter=2, memory_limit=limit).fit(X, triplets=triplets)
    return resident("VmHWM") - before, limit

fit(2000, 2000)
print(json.dumps(fit(n, t)))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize("in_blocks", [True, False])
def test_the_peak_of_a_fit_is_no_higher_than_documented(in_blocks):
    case = [60_000, 64, 300_000, 5, in_blocks]
    command = [sys.executable, "-c", MEASURE, json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, documented = json.loads(done.stdout)
    assert peak <= documented
    assert peak >= 0.3 * documented  # a bound that says something

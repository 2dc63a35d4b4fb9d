"""The compiled loops: against plain loops, independent of threads, and safe beside others."""

import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import threading
from itertools import pairwise
from types import SimpleNamespace

import literal
import numba
import numpy as np
import pytest
from suite.lists import far_lists, spelled_out

from mdaml import MDaML, Partners
from mdaml.constraints import sample_triplets
from mdaml.constraints.comparisons import Comparisons
from mdaml.kernels import comparisons, grouping, modes, pairs, prefetch, threads, triplets
from mdaml.kernels.comparisons import (
    comparison_losses,
    comparison_losses_along,
    comparison_slopes,
)
from mdaml.kernels.compiling import IntegerLoop, Loop, exact_loop
from mdaml.kernels.grouping import greedy_colors, group_lists
from mdaml.kernels.modes import center_sq_dists, sequential_weights
from mdaml.kernels.neighbors import closest, nearest
from mdaml.kernels.pairs import (
    laplacian_half_scatter,
    laplacian_product,
    pair_products,
    pair_sq_dists,
)
from mdaml.kernels.prefetch import empty_lines
from mdaml.kernels.products import rows_times, transposed_times, weighted_gram
from mdaml.kernels.triplets import (
    triplet_gradient,
    triplet_half_scatter,
    triplet_losses,
    triplet_losses_along,
    triplet_slopes,
)
from mdaml.stores.arrays import Turns
from mdaml.stores.blocks import CentredRows

COUNTS = (1, 2, 3, 7)
both_precisions = pytest.mark.parametrize("dtype", [np.float64, np.float32])
five_problems = pytest.mark.parametrize("seed", range(5))


def problem(dtype=np.float64, seed=0, n_samples=83, n_features=5, n_modes=3):
    """Projected samples, scales of their columns, triplets, comparisons, weights."""
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n_samples, n_features)).astype(dtype)
    y = rng.integers(0, 3, n_samples)
    extra = [rng.choice(n_samples, 3, replace=False) for _ in range(100)]
    rows = np.concatenate([sample_triplets(y, 3, 4, random_state=seed), extra])
    quadruplets = np.array([rng.choice(n_samples, 4, replace=False) for _ in range(300)])
    triplets = Comparisons.from_triplets(rows, n_samples)
    general = Comparisons.from_quadruplets(quadruplets, rng.uniform(0.2, 3.0, 300), n_samples)
    return SimpleNamespace(
        Y=Y,
        scales=rng.random((4, n_features)).astype(dtype),
        triplets=triplets,
        general=general,
        importance=rng.random(len(triplets.pairs)),  # of the pairs of the triplets
        general_importance=rng.random(len(general.pairs)),
        weights=rng.dirichlet(np.ones(n_modes), n_samples).astype(dtype),
        turns=Turns.from_graph(triplets.near_graph()),
    )


def blobs(seed=0, n_samples=150):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_samples)
    return rng.normal(size=(n_samples, 4)) + 4 * np.eye(4)[y], y


def candidates_of(n_samples, n_candidates, seed=3):
    """Places in random order, fewer for some samples and none for the first, padded with -1."""
    rng = np.random.default_rng(seed)
    out = np.array([rng.permutation(n_samples)[:n_candidates] for _ in range(n_samples)])
    n_given = rng.integers(0, n_candidates + 1, n_samples)
    n_given[0] = 0
    return np.where(np.arange(n_candidates) < n_given[:, None], out, -1)


def partner_lists(seed=4, n_samples=83, begin=10, n_anchors=50):
    """Near partners of all samples, and far partners of some anchors; some have none of either."""
    rng = np.random.default_rng(seed)
    n_near = rng.integers(0, 4, n_samples)
    near = np.array([rng.choice(40, 3, replace=False) for _ in range(n_samples)])
    near = np.where(np.arange(3) < n_near[:, None], near, -1)
    counts = rng.integers(0, 5, n_anchors)
    others = [np.sort(rng.choice(np.arange(40, n_samples), n, replace=False)) for n in counts]
    assert begin + n_anchors <= n_samples
    return near, np.append(0, np.cumsum(counts)), np.concatenate(others).astype(np.int32)


def run_sequential_weights(given):
    weights, powers, turns = given.weights.copy(), given.weights**3, given.turns
    costs = center_sq_dists(given.Y, given.Y[: weights.shape[1]] + given.Y.dtype.type(0.5))
    losses = triplet_losses(given.Y, given.triplets.lists)
    sequential_weights(weights, powers, costs, turns.graph, losses, turns.order, turns.colors, 3.0)
    return weights, powers


def run_nearest(given):
    bounds = np.repeat([[0, 40], [40, 41], [41, 83]], [40, 1, 42], axis=0)
    return nearest(given.Y, bounds, np.arange(83), 6, same=False)


def run_group_lists(_given):
    near, indptr, others = partner_lists()
    return group_lists(near, 10, indptr, others)


def run_triplet_gradient(given):
    return triplet_gradient(given.Y, given.scales[0], given.triplets.lists, given.importance)


def many_rows(given):
    """So many rows that products are sums over several blocks."""
    return np.random.default_rng(2).normal(size=(9001, 3)).astype(given.Y.dtype)


def of_general(given):
    return given.general.pairs, given.general.by_near


RUNS = {
    "pair_products": lambda p: pair_products(p.weights**3, p.triplets.pairs, p.triplets.starts),
    "pair_sq_dists": lambda p: pair_sq_dists(p.Y, p.triplets.pairs),
    "laplacian_product": lambda p: laplacian_product(
        p.Y, p.triplets.pairs, p.triplets.groups, p.importance
    ),
    "laplacian_half_scatter": lambda p: laplacian_half_scatter(
        p.Y, p.triplets.pairs, p.triplets.groups, p.importance
    ),
    "triplet_losses": lambda p: triplet_losses(p.Y, p.triplets.lists),
    "triplet_gradient": run_triplet_gradient,
    "triplet_half_scatter": lambda p: triplet_half_scatter(
        p.Y, p.scales[0], p.triplets.lists, p.importance
    ),
    "triplet_losses_along": lambda p: triplet_losses_along(
        p.Y, p.scales, p.triplets.lists, p.importance
    ),
    "comparison_losses": lambda p: comparison_losses(p.Y, *of_general(p)),
    "comparison_slopes": lambda p: comparison_slopes(
        p.Y, p.scales[0], *of_general(p), p.general.by_far, p.general_importance
    ),
    "comparison_losses_along": lambda p: comparison_losses_along(
        p.Y, p.scales, *of_general(p), p.general_importance
    ),
    "center_sq_dists": lambda p: center_sq_dists(p.Y, p.Y[:4] + p.Y.dtype.type(0.5)),
    "sequential_weights": run_sequential_weights,
    "group_triplets": lambda p: p.triplets.lists,
    "group_lists": run_group_lists,
    "greedy_colors": lambda p: greedy_colors(*p.triplets.near_graph()[:2]),
    "nearest": run_nearest,
    "closest": lambda p: closest(p.Y, candidates_of(len(p.Y), 6)),
    "transposed_times": lambda p: transposed_times(many_rows(p), many_rows(p)[:, :2]),
    "rows_times": lambda p: rows_times(CentredRows.of(many_rows(p)), p.scales[:3]),
}


def as_arrays(result):
    return list(map(np.asarray, result if isinstance(result, tuple) else [result]))


def assert_same_bits(results, others):
    for result, other in zip(results, others, strict=True):
        assert result.dtype == other.dtype
        assert result.tobytes() == other.tobytes()


@both_precisions
@pytest.mark.parametrize("name", RUNS)
def test_no_bit_depends_on_the_number_of_threads(name, dtype, use_threads, tiny_blocks):  # noqa: ARG001
    results = []
    for count in COUNTS:
        use_threads(count)
        results.append(as_arrays(RUNS[name](problem(dtype))))
    for result in results[1:]:
        assert_same_bits(results[0], result)


@both_precisions
@pytest.mark.parametrize("name", RUNS)
def test_no_bit_depends_on_hints_which_rows_come_next(name, dtype, monkeypatch):
    results = []
    for ahead in (0, 1, 32, 100_000):
        for module in (comparisons, modes, pairs, triplets):
            monkeypatch.setattr(module, "pairs_ahead", lambda *_, ahead=ahead: ahead)
        results.append(as_arrays(RUNS[name](problem(dtype))))
    for result in results[1:]:
        assert_same_bits(results[0], result)


@pytest.mark.parametrize("array", [np.ones(4), np.ones((4, 100), np.float32)])
def test_a_hint_is_one_instruction_that_reads_into_the_second_cache(array):
    """Compiled here, not out of the cache, to see the code."""
    hint = getattr(prefetch.prefetch, "compiled", prefetch.prefetch)
    compiled = numba.njit(lambda array, place: hint(array, place))
    compiled(array, 2)
    (code,) = compiled.inspect_llvm().values()
    hints = re.findall(r"call void @llvm\.prefetch.*?\(.*?(i32 \d, i32 \d, i32 \d)\)", code)
    assert hints == ["i32 0, i32 2, i32 1"]  # to read, second cache, data


@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (1, 1), (7, 32), (1000, 3)])
@both_precisions
def test_arrays_for_rows_of_pairs_begin_with_a_cache_line(shape, dtype):
    for _ in range(5):
        out = empty_lines(shape, dtype)
        assert out.shape == shape
        assert out.dtype == dtype
        assert out.flags.c_contiguous
        assert out.flags.writeable
        assert out.ctypes.data % 64 == 0 or out.size == 0
    Y = rows_times(np.ones(shape, dtype), np.eye(shape[1], dtype=dtype))
    assert Y.ctypes.data % 64 == 0 or Y.size == 0


@pytest.mark.parametrize("count", COUNTS)
def test_every_item_is_handed_to_exactly_one_thread(count, use_threads):
    use_threads(count)
    for n_items in (0, 1, 2, 5, 6, 7, 8, 100):
        shares = []
        threads.share(lambda begin, end, into: into.append((begin, end)), n_items, 10**6, shares)
        assert sorted(i for begin, end in shares for i in range(begin, end)) == list(range(n_items))
        assert len(shares) == max(1, min(count, n_items))


def test_small_work_stays_in_the_calling_thread(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: 4)
    seen = []
    threads.share(
        lambda _begin, _end: seen.append(threading.get_ident()), 100, 2 * threads.GRAIN - 1
    )
    assert seen == [threading.get_ident()]


def test_a_context_can_limit_the_threads(use_threads):
    use_threads(4)
    shares = []
    with threads.threads_at_most(2):
        threads.share(lambda begin, end: shares.append((begin, end)), 100, 10**6)
    assert len(shares) == 2


def test_an_error_in_a_thread_reaches_the_caller(use_threads):
    def fail_at_the_end(_begin, end):
        if end == 100:
            raise RuntimeError("the last share failed")

    use_threads(4)
    with pytest.raises(RuntimeError, match="the last share failed"):
        threads.share(fail_at_the_end, 100, 10**6)


def test_many_threads_color_by_color_give_what_one_sample_after_another_gives(use_threads):
    given = problem()
    losses = triplet_losses(given.Y, given.triplets.lists)
    costs = center_sq_dists(given.Y, given.Y[:3] + 0.5)
    expected = given.weights.copy()
    indptr, samples, pairs = given.turns.graph
    for i in given.turns.order:  # plain NumPy, in the order stated
        cost = costs[i].copy()
        for e in range(indptr[i], indptr[i + 1]):
            cost += losses[pairs[e]] * expected[samples[e]] ** 3
        expected[i] = cost**-0.5 / np.sum(cost**-0.5)
    use_threads(7)
    weights, powers = run_sequential_weights(given)
    np.testing.assert_allclose(weights, expected, rtol=1e-10)
    np.testing.assert_allclose(powers, expected**3, rtol=1e-10)


def test_a_loop_is_compiled_at_its_first_call_with_the_loops_it_calls():
    assert isinstance(outer_loop, Loop)
    assert isinstance(inner_loop, Loop)
    assert outer_loop(3) == 6
    assert outer_loop.compiled.py_func is outer_loop.function
    assert not isinstance(inner_loop, Loop)  # its name refers to the compiled function


@exact_loop
def inner_loop(x):
    return 2 * x


@exact_loop
def outer_loop(x):
    return inner_loop(x)


def twice(x):
    return 2 * x


def test_a_file_with_code_for_other_types_is_not_run(tmp_path, monkeypatch):
    # As two processes leave it that compiled the loop for two types at the same moment.
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    loop = exact_loop(twice)
    assert (loop(2), loop(0.25)) == (4, 0.5)
    of_integers, of_reals = sorted(tmp_path.rglob("*.nbc"))
    of_integers.write_bytes(of_reals.read_bytes())
    for _ in range(2):  # the second time from the file that the first one replaced
        again = exact_loop(twice)
        assert isinstance(again(2), int)
        assert again(0.25) == 0.5


# Losses, slopes and products


def losses_and_slopes(Y, comparisons, importance, scale, margin=1.0):
    """Losses of the near pairs, their weighted sum and its derivative by pair, in loops."""
    i, j = comparisons.pairs.T
    sq_dists = (Y[i] - Y[j]) ** 2 @ scale
    starts, far = spelled_out(comparisons.starts, comparisons.far)
    v = np.ones(len(far)) if comparisons.weights is None else comparisons.weights
    losses, slopes = np.zeros((2, len(i)))
    for p, (a, b) in enumerate(pairwise(starts)):
        for t in range(a, b):
            r = far[t]
            x = sq_dists[r] - sq_dists[p] - margin + 1
            losses[p] += v[t] * literal.smooth_hinge(x)
            slopes[p] -= importance[p] * v[t] * literal.smooth_hinge_slope(x)
            slopes[r] += importance[p] * v[t] * literal.smooth_hinge_slope(x)
    return losses, importance @ losses, slopes


@five_problems
def test_losses_are_sums_of_the_smooth_hinge_by_near_pair(seed):
    given = problem(seed=seed)
    ones = np.ones(5)
    expected, *_ = losses_and_slopes(given.Y, given.triplets, given.importance, ones)
    np.testing.assert_allclose(triplet_losses(given.Y, given.triplets.lists), expected, rtol=1e-10)
    expected, *_ = losses_and_slopes(given.Y, given.general, given.general_importance, ones)
    np.testing.assert_allclose(comparison_losses(given.Y, *of_general(given)), expected, rtol=1e-10)


@five_problems
def test_all_kernels_agree_on_the_loss_under_scaled_columns(seed):
    given = problem(seed=seed)
    Y, scales, lists, importance = given.Y, given.scales, given.triplets.lists, given.importance
    scales[1] = 1.0
    pairs, by_near = of_general(given)
    along = triplet_losses_along(Y, scales, lists, importance)
    general = comparison_losses_along(Y, scales, pairs, by_near, given.general_importance)
    for scale, value, other in zip(scales, along, general, strict=True):
        expected = importance @ triplet_losses(Y * np.sqrt(scale), lists)
        loss, _ = triplet_gradient(Y, scale, lists, importance)
        assert value == pytest.approx(expected, rel=1e-12)
        assert loss == pytest.approx(expected, rel=1e-12)
        losses = comparison_losses(Y * np.sqrt(scale), pairs, by_near)
        assert other == pytest.approx(given.general_importance @ losses, rel=1e-12)


@pytest.mark.parametrize("margin", [1.0, 0.25, 4.0])
def test_slopes_of_triplets_are_the_derivatives_of_the_loss_by_pair(margin):
    given = problem()
    args = given.triplets, given.importance, given.scales[0], margin
    _, expected, derivative = losses_and_slopes(given.Y, *args)
    lists = given.triplets.lists
    loss, slopes = triplet_slopes(given.Y, given.scales[0], lists, given.importance, margin)
    np.testing.assert_allclose(loss, expected, rtol=1e-10)
    np.testing.assert_allclose(slopes, derivative, rtol=1e-10, atol=1e-12)


@five_problems
def test_slopes_of_comparisons_are_the_derivatives_of_the_loss_by_pair(seed):
    given = problem(seed=seed)
    args = given.general, given.general_importance, given.scales[0]
    _, expected, derivative = losses_and_slopes(given.Y, *args)
    loss, slopes = RUNS["comparison_slopes"](given)
    np.testing.assert_allclose(loss, expected, rtol=1e-10)
    np.testing.assert_allclose(slopes, derivative, rtol=1e-10, atol=1e-12)


def test_slopes_of_triplets_are_those_of_their_quadruplets():
    rng = np.random.default_rng(0)
    rows = np.array([rng.choice(20, 3, replace=False) for _ in range(80)])
    Y, ones = rng.normal(size=(20, 2)), np.ones(2)
    triplets = Comparisons.from_triplets(rows, 20)
    general = Comparisons.from_quadruplets(rows[:, [0, 1, 0, 2]], np.ones(80), 20)
    alike = np.ones(len(triplets.pairs)), np.ones(len(general.pairs))
    found = (
        triplet_slopes(Y, ones, triplets.lists, alike[0], 1.0),
        comparison_slopes(Y, ones, general.pairs, general.by_near, general.by_far, alike[1]),
    )
    sums = np.zeros((2, 20, 20))  # a pair of triplets may be there in both directions
    for total, kind, (_, slopes) in zip(sums, (triplets, general), found, strict=True):
        np.add.at(total, tuple(np.sort(kind.pairs, axis=1).T), slopes)
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-12)
    np.testing.assert_allclose(sums[1], sums[0], rtol=1e-10, atol=1e-10)


@both_precisions
@pytest.mark.parametrize(
    "name",
    [
        *("triplet_gradient", "triplet_half_scatter", "triplet_losses_along"),
        *("comparison_slopes", "comparison_losses_along"),
    ],
)
def test_one_weight_alone_is_the_weight_of_every_pair(name, dtype):
    alone, each = problem(dtype), problem(dtype)
    alone.importance = alone.general_importance = np.full(1, 0.3)
    each.importance[:] = each.general_importance[:] = 0.3
    assert_same_bits(*(as_arrays(RUNS[name](given)) for given in (alone, each)))


@five_problems
def test_gradient_product_is_half_the_laplacian_times_the_samples(seed):
    given = problem(seed=seed)
    scale, (i, j) = given.scales[0], given.triplets.pairs.T
    *_, slopes = losses_and_slopes(given.Y, given.triplets, given.importance, scale)
    _, product = run_triplet_gradient(given)
    half = given.Y.T @ product
    expected = (slopes[:, None] * (given.Y[i] - given.Y[j])).T @ (given.Y[i] - given.Y[j])
    np.testing.assert_allclose(half + half.T, expected, rtol=1e-10, atol=1e-10)


def test_laplacian_product_is_the_scatter_of_pairs():
    given = problem()
    pairs, groups = given.triplets.pairs, given.triplets.groups
    weights = np.random.default_rng(0).normal(size=len(pairs))
    half = given.Y.T @ laplacian_product(given.Y, pairs, groups, weights)
    diffs = given.Y[pairs[:, 0]] - given.Y[pairs[:, 1]]
    np.testing.assert_allclose(half + half.T, (diffs.T * weights) @ diffs, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("tiny_blocks")
@both_precisions
def test_products_made_in_blocks_are_the_products(dtype):
    given = problem(dtype, n_samples=300)
    loss, product = run_triplet_gradient(given)
    same_loss, half = RUNS["triplet_half_scatter"](given)
    assert same_loss == pytest.approx(loss, rel=1e-5 if dtype is np.float32 else 1e-12)
    pairs, groups, Y = given.triplets.pairs, given.triplets.groups, given.Y.astype(np.float64)
    plain = laplacian_product(given.Y, pairs, groups, given.importance)
    in_blocks = laplacian_half_scatter(given.Y, pairs, groups, given.importance)
    for found, expected in ((half, Y.T @ product), (in_blocks, Y.T @ plain)):
        atol = (1e-3 if dtype is np.float32 else 1e-11) * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, atol=atol)


def test_pair_products_are_zero_for_pairs_that_are_only_far():
    given = problem()
    pairs, near = given.triplets.pairs, given.triplets.first < given.triplets.last
    products = np.sum(given.weights[pairs[:, 0]] * given.weights[pairs[:, 1]], axis=1)
    assert not np.all(near)
    found = pair_products(given.weights, pairs, given.triplets.starts)
    np.testing.assert_allclose(found, np.where(near, products, 0.0), rtol=1e-12)


@both_precisions
def test_pair_distances_are_sums_of_squared_differences(dtype):
    given = problem(dtype)
    i, j = given.triplets.pairs.T
    found = pair_sq_dists(given.Y, given.triplets.pairs)
    assert found.dtype == np.float64
    rtol = 1e-5 if dtype is np.float32 else 1e-14
    np.testing.assert_allclose(found, np.sum((given.Y[i] - given.Y[j]) ** 2, axis=1), rtol=rtol)


def test_distances_do_not_cancel_far_from_the_origin():
    Y = np.array([[1e8, 0.0], [1e8 + 1, 0.0]])
    np.testing.assert_array_equal(center_sq_dists(Y, Y), [[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(pair_sq_dists(Y, np.array([[0, 1], [1, 1]])), [1, 0])
    assert pair_sq_dists(Y, np.empty((0, 2), np.int64)).shape == (0,)


@pytest.mark.parametrize("n_samples", [1, 5, 2047, 4097, 40000])
@both_precisions
def test_products_shared_among_threads_are_products(n_samples, dtype, use_threads):
    rng = np.random.default_rng(0)
    Y, A = rng.normal(size=(n_samples, 4)).astype(dtype), rng.normal(size=(4, 3)).astype(dtype)
    w = rng.random(n_samples)
    use_threads(3)
    product, gram = rows_times(Y, A), transposed_times(Y, Y[:, :2])
    assert (product.dtype, gram.dtype) == (dtype, np.float64)
    tolerance = (
        {"rtol": 1e-10, "atol": 1e-10} if dtype is np.float64 else {"rtol": 1e-3, "atol": 1e-1}
    )
    np.testing.assert_allclose(product, Y @ A, **tolerance)
    np.testing.assert_allclose(gram, Y.T @ Y[:, :2], **tolerance)
    np.testing.assert_allclose(weighted_gram(Y, w), (Y.T * w) @ Y, **tolerance)


# Colours


@five_problems
def test_samples_that_share_a_near_pair_have_different_colors(seed):
    grouped = problem(seed=seed).triplets
    graph = grouped.near_graph()
    color = greedy_colors(*graph[:2])
    near = grouped.pairs[grouped.last > grouped.first]
    assert np.all(color[near[:, 0]] != color[near[:, 1]])
    degrees = np.diff(graph[0])
    assert np.all(color <= degrees)  # first fit needs one colour more than neighbours, at most
    np.testing.assert_array_equal(np.unique(color), np.arange(color.max() + 1))


def test_turns_order_the_samples_by_color():
    turns = problem().turns
    color = greedy_colors(*turns.graph[:2])
    np.testing.assert_array_equal(np.sort(turns.order), np.arange(83))
    assert turns.colors[-1] == 83
    for c in range(len(turns.colors) - 1):
        same = turns.order[turns.colors[c] : turns.colors[c + 1]]
        assert np.all(color[same] == c)
        assert np.all(np.diff(same) > 0)


# Neighbours


@pytest.mark.parametrize("n_candidates", [1, 6, 30])
@both_precisions
def test_closest_is_the_first_candidate_at_the_least_distance(n_candidates, dtype):
    Y = np.random.default_rng(0).integers(0, 3, size=(83, 2)).astype(dtype)  # many ties
    candidates = candidates_of(83, n_candidates)
    found, dists = closest(Y, candidates)
    assert (found.dtype, dists.dtype) == (np.int64, np.float64)
    assert (found[0], dists[0]) == (-1, np.inf)  # without any
    for i, row in enumerate(candidates):
        places = row[row >= 0]
        if len(places) == 0:
            assert (found[i], dists[i]) == (-1, np.inf)
            continue
        expected = np.linalg.norm(Y[places].astype(float) - Y[i], axis=1)
        assert found[i] == places[expected.argmin()]
        assert dists[i] == pytest.approx(expected.min(), rel=1e-15)


def test_closest_may_be_the_sample_itself_if_it_is_a_candidate():
    found, dists = closest(np.eye(3), np.array([[1, 0], [1, 2], [0, 1]]))
    np.testing.assert_array_equal(found, [0, 1, 0])
    np.testing.assert_array_equal(dists, [0, 0, np.sqrt(2)])


# Grouping


@five_problems
def test_lists_are_grouped_to_all_triplets_of_near_and_far_partners(seed):
    near, indptr, others = partner_lists(seed)
    pairs, starts, far, groups = group_lists(near, 10, indptr, others)
    lists = far_lists(starts, far)
    expected = {
        (10 + a, j, r)
        for a in range(len(indptr) - 1)
        for j in near[10 + a].tolist()
        for r in others[indptr[a] : indptr[a + 1]].tolist()
        if j >= 0
    }
    found = [
        (int(i), int(j), int(pairs[row, 1]))
        for (i, j), rows in zip(pairs, lists, strict=True)
        for row in rows
    ]
    assert len(found) == len(expected)
    assert set(found) == expected
    assert groups[-1] == len(pairs)
    for start, stop in pairwise(groups):
        assert start < stop
        assert len(set(pairs[start:stop, 0])) == 1
        rows = np.concatenate(lists[start:stop])
        assert np.all((rows >= start) & (rows < stop))
        entries = far[starts[start] : starts[stop]]
        n_far = len(set(rows.tolist()))
        assert np.sum(entries >= 0) == (n_far if n_far > 1 else len(rows))  # near pairs share
    anchors = pairs[groups[:-1], 0]
    assert np.all(np.diff(anchors) > 0)
    assert set(anchors.tolist()) == {i for i, _, _ in expected}


def test_lists_without_a_triplet_are_grouped_to_nothing():
    near = np.array([[1, -1], [0, -1], [-1, -1]])
    others = np.array([0, 1], np.int32)  # far partners of the one anchor that has no near partner
    pairs, starts, far, groups = group_lists(near, 0, np.array([0, 0, 0, 2]), others)
    assert pairs.shape == (0, 2)
    assert len(far) == 0
    assert starts.tolist() == groups.tolist() == [0]


# Types of numbers


@pytest.mark.parametrize("name", ["center_sq_dists", "sequential_weights"])
def test_single_precision_stays_single(name):
    result = RUNS[name](problem(np.float32))
    arrays = result if isinstance(result, tuple) else (result,)
    assert all(array.dtype == np.float32 for array in arrays)


def test_the_gradient_product_is_single_and_the_loss_double():
    loss, product = run_triplet_gradient(problem(np.float32))
    assert isinstance(loss, float)
    assert product.dtype == np.float32


@pytest.mark.parametrize(
    "name",
    [
        *("pair_products", "triplet_losses", "triplet_losses_along", "triplet_half_scatter"),
        *("comparison_losses", "comparison_losses_along", "laplacian_half_scatter"),
    ],
)
def test_sums_over_single_precision_samples_are_double(name):
    single, double = (RUNS[name](problem(dtype)) for dtype in (np.float32, np.float64))
    if isinstance(single, tuple):
        assert isinstance(single[0], float)
        single, double = single[1], double[1]
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-4 * np.abs(double).max())


@pytest.mark.slow
def test_read_only_arrays_of_indices_are_accepted():
    given = problem()
    expected = run_triplet_gradient(given)[1]
    arrays = (*given.triplets.lists, given.Y, given.scales, given.importance, given.weights)
    for array in arrays:
        array.flags.writeable = False
    # Compiled once more for such arrays, with sums in an order of its own.
    found = run_triplet_gradient(given)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert np.all(np.isfinite(RUNS["triplet_losses"](given)))
    assert np.all(np.isfinite(RUNS["pair_products"](given)))
    assert len(RUNS["greedy_colors"](given)) == 83


# Whole fits


def fitted(X, y, **parameters):
    partners = Partners(n_similar=3, n_dissimilar=3)
    options = {"partners": partners, "shrinkage": 0.0, "max_iter": 3, "random_state": 0}
    return MDaML(n_modes=3, **options, **parameters).fit(X, y)


def test_a_fit_does_not_depend_on_the_number_of_threads(use_threads):
    X, y = blobs()
    models = []
    for count in COUNTS:
        use_threads(count)
        models.append(fitted(X, y))
    for model in models[1:]:
        np.testing.assert_allclose(model.history_, models[0].history_, rtol=1e-10)
        np.testing.assert_allclose(model.weights_, models[0].weights_, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            model.get_mahalanobis_matrix(),
            models[0].get_mahalanobis_matrix(),
            rtol=1e-10,
            atol=1e-10,
        )


def test_two_fits_at_once_give_what_each_gives_alone(use_threads):
    use_threads(3)
    data = [blobs(seed) for seed in (1, 2)]
    alone = [fitted(X, y).components_ for X, y in data]
    together, start = [None, None], threading.Barrier(2)

    def fit(which):
        start.wait(timeout=30)
        together[which] = fitted(*data[which]).components_

    fits = [threading.Thread(target=fit, args=(which,), daemon=True) for which in (0, 1)]
    for thread in fits:
        thread.start()
    for thread in fits:
        thread.join(timeout=30)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)


@pytest.mark.needs("POSIX")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_can_fit_after_its_parent(use_threads):
    use_threads(3)
    X, y = blobs()
    expected = fitted(X, y).components_.tobytes()
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(sender, fitted(X, y).components_.tobytes())
        finally:
            os._exit(0)
    os.close(sender)
    try:
        ready, _, _ = select.select([receiver], [], [], 30)
        if not ready:
            os.kill(child, signal.SIGKILL)
            pytest.fail("the fit in the forked child hangs")
        assert os.read(receiver, 10**6) == expected
    finally:
        os.close(receiver)
        os.waitpid(child, 0)


@pytest.mark.slow
def test_no_bit_depends_on_whether_the_code_was_compiled_or_read_from_its_cache(tmp_path):
    given = problem()
    names = ("pairs", "starts", "far", "groups", "widths", "Y", "scales", "importance")
    arrays = *given.triplets.lists, given.Y, given.scales, given.importance
    np.savez(tmp_path / "given.npz", **dict(zip(names, arrays, strict=True)))
    code = """
        import hashlib, sys
        import numpy as np
        *lists, Y, scales, weights = np.load(sys.argv[1]).values()
        first, *_, groups, _ = lists = tuple(lists)
        for _ in range(2):
            from mdaml.kernels import pairs, triplets
            results = [
                pairs.laplacian_product(Y, first, groups, weights),
                triplets.triplet_losses_along(Y, scales, lists, weights),
                triplets.triplet_gradient(Y, scales[0], lists, weights)[1],
            ]
            hits = pairs.laplacian_product_loop.compiled.stats.cache_hits
            print(len(hits) > 0, *(hashlib.md5(result.tobytes()).hexdigest() for result in results))
            for name in [name for name in sys.modules if name.startswith("mdaml")]:
                del sys.modules[name]
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "given.npz")]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (compiled, *expected), (from_cache, *found) = map(str.split, done.stdout.splitlines())
    assert (compiled, from_cache) == ("False", "True")
    assert len(found) == 3
    assert found == expected


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("n_others", [3, 30])
def test_python_and_compiler_group_alike(kind, n_others):
    rng = np.random.default_rng(0)
    near, far = rng.integers(40, size=(2, 300))
    # With few others lists repeat, with many some samples are no anchors.
    anchors, others = np.append(rng.integers(30, size=400), 29), rng.integers(n_others, size=80)
    given = [anchors, np.resize(others, 401), rng.integers(n_others, size=401)]
    lists = np.stack(
        [np.repeat(np.arange(9), 6), np.tile([1, 2, 4], 18), np.tile([3, 3, 5, 5], 14)[:54]]
    )
    triplets = np.concatenate([np.stack(given, axis=1), lists.T]).astype(kind)

    def group():
        grouped = grouping.group_triplets(triplets, 30)
        graph = grouping.near_graph(grouped[0], np.diff(grouped[1]) > 0, 30)
        merged = grouping.merge_comparisons(near, far, np.ones(300), 40)
        count = np.array(grouping.count_pairs(triplets, 30))
        return *grouped, *graph, grouping.greedy_colors(*graph[:2]), *merged, count

    loops = [loop for loop in vars(grouping).values() if isinstance(loop, IntegerLoop)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IntegerLoop, "patience", 10**9)
        for loop in loops:
            patch.setitem(vars(loop), "_is_kept", False)
            patch.delitem(vars(loop), "compiled", raising=False)
        plain = group()
        assert not any("compiled" in vars(loop) for loop in loops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IntegerLoop, "patience", 0)
        compiled = group()
    for a, b in zip(plain, compiled, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)

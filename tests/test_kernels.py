"""The compiled loops: independent of the threads that run them, and safe beside other threads."""

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from itertools import pairwise

import literal
import numpy as np
import pytest

from mdaml import MDaML, kernels
from mdaml.constraints import TripletSet, sample_triplets
from mdaml.kernels import _threads
from mdaml.modes import Neighbors

COUNTS = (1, 2, 3, 7)


def problem(dtype=np.float64, seed=0, n_samples=83, n_features=5, n_modes=3):
    """Projected samples, grouped triplets, weights of the pairs, and weights of modes."""
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n_samples, n_features)).astype(dtype)
    y = rng.integers(0, 3, n_samples)
    extra = [rng.choice(n_samples, 3, replace=False) for _ in range(100)]
    triplets = np.concatenate([sample_triplets(y, 3, 4, random_state=seed), extra])
    grouped = TripletSet.from_triplets(triplets, n_samples)
    weights = rng.dirichlet(np.ones(n_modes), n_samples).astype(dtype)
    return Y, grouped, rng.random(len(grouped.pairs)), weights


def column_scales(Y, seed=1):
    return np.random.default_rng(seed).random((4, Y.shape[1])).astype(Y.dtype)


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


def run_pair_products(dtype):
    _, grouped, _, weights = problem(dtype)
    return (kernels.pair_products(weights**3, grouped),)


def run_triplet_losses(dtype):
    Y, grouped, _, _ = problem(dtype)
    return (kernels.triplet_losses(Y, grouped),)


def run_triplet_gradient(dtype):
    Y, grouped, pair_weights, _ = problem(dtype)
    loss, product = kernels.triplet_gradient(Y, column_scales(Y)[0], grouped, pair_weights)
    return np.float64(loss), product


def run_triplet_losses_along(dtype):
    Y, grouped, pair_weights, _ = problem(dtype)
    return (kernels.triplet_losses_along(Y, column_scales(Y), grouped, pair_weights),)


def run_center_sq_dists(dtype):
    Y, _, _, _ = problem(dtype)
    return (kernels.center_sq_dists(Y, Y[:4] + dtype(0.5)),)


def run_sequential_weights(dtype):
    Y, grouped, _, weights = problem(dtype)
    weights, powers = weights.copy(), weights**3
    neighbors = Neighbors.from_graph(grouped.near_graph())
    costs = kernels.center_sq_dists(Y, Y[: weights.shape[1]] + dtype(0.5))
    losses = kernels.triplet_losses(Y, grouped)
    kernels.sequential_weights(
        weights, powers, costs, neighbors.graph, losses, neighbors.order, neighbors.colors, 3.0
    )
    return weights, powers


def run_group_triplets(dtype):
    grouped = problem(dtype)[1]
    return grouped.pairs, grouped.first, grouped.last, grouped.far, grouped.groups


def run_greedy_colors(dtype):
    return (kernels.greedy_colors(*problem(dtype)[1].near_graph()[:2]),)


def run_nearest(dtype):
    Y, _, _, _ = problem(dtype)
    bounds = np.repeat([[0, 40], [40, 41], [41, 83]], [40, 1, 42], axis=0)
    return kernels.nearest(Y, bounds, np.arange(83), 6, same=False)


def run_transposed_times(dtype):
    Y = np.random.default_rng(2).normal(size=(9001, 3)).astype(dtype)  # several blocks of rows
    return (kernels.transposed_times(Y, Y[:, :2] + dtype(1)),)


def run_closest(dtype):
    Y, _, _, _ = problem(dtype)
    return kernels.closest(Y, candidates_of(len(Y), 6))


def run_pair_sq_dists(dtype):
    Y, grouped, _, _ = problem(dtype)
    return (kernels.pair_sq_dists(Y, grouped.pairs),)


def run_group_lists(dtype):
    del dtype  # indices only
    near, indptr, others = partner_lists()
    return kernels.group_lists(near, 10, indptr, others, len(others))


RUNS = (
    run_pair_products,
    run_triplet_losses,
    run_triplet_gradient,
    run_triplet_losses_along,
    run_center_sq_dists,
    run_sequential_weights,
    run_group_triplets,
    run_greedy_colors,
    run_nearest,
    run_transposed_times,
    run_closest,
    run_pair_sq_dists,
    run_group_lists,
)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__.removeprefix("run_"))
def test_no_bit_depends_on_the_number_of_threads(run, dtype, use_threads):
    results = []
    for count in COUNTS:
        use_threads(count)
        results.append(run(dtype))
    for result in results[1:]:
        for alone, shared in zip(results[0], result, strict=True):
            assert alone.dtype == shared.dtype
            assert alone.tobytes() == shared.tobytes()


@pytest.mark.parametrize("count", COUNTS)
def test_every_item_is_handed_to_exactly_one_thread(count, use_threads):
    use_threads(count)
    for n_items in (0, 1, 2, 5, 6, 7, 8, 100):
        shares = []
        _threads.share(lambda begin, end, into: into.append((begin, end)), n_items, 10**6, shares)
        assert sorted(i for begin, end in shares for i in range(begin, end)) == list(range(n_items))
        assert len(shares) == max(1, min(count, n_items))


def test_small_work_stays_in_the_calling_thread(monkeypatch):
    monkeypatch.setattr(_threads, "n_threads", lambda: 4)
    seen = []
    _threads.share(
        lambda _begin, _end: seen.append(threading.get_ident()), 100, 2 * _threads.GRAIN - 1
    )
    assert seen == [threading.get_ident()]


def test_an_error_in_a_thread_reaches_the_caller(use_threads):
    def fail_at_the_end(_begin, end):
        if end == 100:
            raise RuntimeError("the last share failed")

    use_threads(4)
    with pytest.raises(RuntimeError, match="the last share failed"):
        _threads.share(fail_at_the_end, 100, 10**6)


def test_many_threads_color_by_color_give_what_one_sample_after_another_gives(use_threads):
    Y, grouped, _, start = problem()
    neighbors = Neighbors.from_graph(grouped.near_graph())
    losses = kernels.triplet_losses(Y, grouped)
    costs = kernels.center_sq_dists(Y, Y[:3] + 0.5)
    expected = start.copy()
    for i in neighbors.order:  # plain NumPy, in the order stated
        cost = costs[i].copy()
        indptr, samples, pairs = neighbors.graph
        for e in range(indptr[i], indptr[i + 1]):
            cost += losses[pairs[e]] * expected[samples[e]] ** 3
        expected[i] = cost**-0.5 / np.sum(cost**-0.5)
    use_threads(7)
    weights, powers = start.copy(), start**3
    kernels.sequential_weights(
        weights, powers, costs, neighbors.graph, losses, neighbors.order, neighbors.colors, 3.0
    )
    np.testing.assert_allclose(weights, expected, rtol=1e-10)
    np.testing.assert_allclose(powers, expected**3, rtol=1e-10)


# What the kernels compute


@pytest.mark.parametrize("seed", range(5))
def test_losses_are_sums_of_the_smooth_hinge_by_near_pair(seed):
    Y, grouped, _, _ = problem(seed=seed)
    sq_dists = np.sum((Y[grouped.pairs[:, 0]] - Y[grouped.pairs[:, 1]]) ** 2, axis=1)
    expected = [
        sum(literal.smooth_hinge(sq_dists[r] - sq_dists[p]) for r in grouped.far[a:b])
        for p, (a, b) in enumerate(zip(grouped.first, grouped.last, strict=True))
    ]
    np.testing.assert_allclose(kernels.triplet_losses(Y, grouped), expected, rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_all_kernels_agree_on_the_loss_under_scaled_columns(seed):
    Y, grouped, pair_weights, _ = problem(seed=seed)
    scales = column_scales(Y, seed)
    scales[1] = 1.0
    along = kernels.triplet_losses_along(Y, scales, grouped, pair_weights)
    for scale, value in zip(scales, along, strict=True):
        expected = pair_weights @ kernels.triplet_losses(Y * np.sqrt(scale), grouped)
        loss, _ = kernels.triplet_gradient(Y, scale, grouped, pair_weights)
        assert value == pytest.approx(expected, rel=1e-12)
        assert loss == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_gradient_product_is_half_the_laplacian_times_the_samples(seed):
    Y, grouped, pair_weights, _ = problem(seed=seed)
    scale = column_scales(Y, seed)[0]
    i, j = grouped.pairs.T
    sq_dists = (Y[i] - Y[j]) ** 2 @ scale
    q = np.zeros(len(i))
    for p, (a, b) in enumerate(zip(grouped.first, grouped.last, strict=True)):
        for r in grouped.far[a:b]:
            pull = pair_weights[p] * np.clip(1 - (sq_dists[r] - sq_dists[p]), 0, 1)
            q[p] += pull
            q[r] -= pull
    _, product = kernels.triplet_gradient(Y, scale, grouped, pair_weights)
    half = Y.T @ product
    expected = (q[:, None] * (Y[i] - Y[j])).T @ (Y[i] - Y[j])
    np.testing.assert_allclose(half + half.T, expected, rtol=1e-10, atol=1e-10)


def test_pair_products_are_zero_for_pairs_that_are_only_far():
    _, grouped, _, weights = problem()
    near = grouped.first < grouped.last
    products = np.sum(weights[grouped.pairs[:, 0]] * weights[grouped.pairs[:, 1]], axis=1)
    assert not np.all(near)
    np.testing.assert_allclose(
        kernels.pair_products(weights, grouped), np.where(near, products, 0.0), rtol=1e-12
    )


def test_center_distances_do_not_cancel_far_from_the_origin():
    Y = np.array([[1e8, 0.0], [1e8 + 1, 0.0]])
    np.testing.assert_array_equal(kernels.center_sq_dists(Y, Y), [[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize("seed", range(5))
def test_samples_that_share_a_near_pair_have_different_colors(seed):
    grouped = problem(seed=seed)[1]
    graph = grouped.near_graph()
    color = kernels.greedy_colors(*graph[:2])
    near = grouped.pairs[grouped.last > grouped.first]
    assert np.all(color[near[:, 0]] != color[near[:, 1]])
    degrees = np.diff(graph[0])
    assert np.all(color <= degrees)  # first fit needs one colour more than neighbours, at most
    np.testing.assert_array_equal(np.unique(color), np.arange(color.max() + 1))


def test_neighbors_order_the_samples_by_color():
    grouped = problem()[1]
    neighbors = Neighbors.from_graph(grouped.near_graph())
    color = kernels.greedy_colors(*neighbors.graph[:2])
    np.testing.assert_array_equal(np.sort(neighbors.order), np.arange(83))
    assert neighbors.colors[-1] == 83
    for c in range(len(neighbors.colors) - 1):
        same = neighbors.order[neighbors.colors[c] : neighbors.colors[c + 1]]
        assert np.all(color[same] == c)
        assert np.all(np.diff(same) > 0)


def sorted_classes(rng, sizes, n_features, dtype):
    """Samples on a grid, with many ties and duplicates; bounds and rows as nearest takes them."""
    last = np.cumsum(sizes)
    bounds = np.repeat(np.column_stack([last - sizes, last]), sizes, axis=0)
    X = rng.integers(0, 4, size=(last[-1], n_features)).astype(dtype)
    return X, bounds, rng.permutation(last[-1])


def pool_of(i, bounds, same):
    own = np.arange(*bounds[i])
    return own[own != i] if same else np.setdiff1d(np.arange(len(bounds)), own)


# Class sizes around those of the blocks (128 queries, 512 candidates).
CLASS_SIZES = [[30, 1, 29], [700, 1, 3, 600], [128, 127, 1, 513], [1, 1], [3] * 60]


@pytest.mark.parametrize("sizes", CLASS_SIZES, ids=str)
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("n_nearest", [1, 4, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nearest_is_what_sorting_all_distances_gives(sizes, same, n_nearest, dtype):
    rng = np.random.default_rng(n_nearest)
    X, bounds, rows = sorted_classes(rng, sizes, 3, dtype)
    found, sq_dists = kernels.nearest(X, bounds, rows, n_nearest, same=same)
    for i in range(len(X)):
        pool = pool_of(i, bounds, same)
        dists = np.sum((X[pool].astype(float) - X[i]) ** 2, axis=1)
        order = np.lexsort([rows[pool], dists])[:n_nearest]
        missing = n_nearest - len(order)
        np.testing.assert_array_equal(found[i], np.append(pool[order], [-1] * missing))
        np.testing.assert_array_equal(sq_dists[i], np.append(dists[order], [np.inf] * missing))


def test_nearest_survives_an_offset_that_swamps_inner_products():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) * 1e-3 + 1e5  # inner products keep none of the differences
    bounds = np.tile([0, 300], (300, 1))
    found, _ = kernels.nearest(X, bounds, np.arange(300), 3, same=True)
    dists = np.sum((X[:, None] - X) ** 2, axis=2)
    np.fill_diagonal(dists, np.inf)
    np.testing.assert_array_equal(found, np.argsort(dists, axis=1)[:, :3])


@pytest.mark.parametrize("sizes", CLASS_SIZES, ids=str)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_within_lists_the_samples_of_other_classes_in_a_ball(sizes, n_threads, use_threads):
    use_threads(n_threads)
    rng = np.random.default_rng(1)
    X, bounds, _ = sorted_classes(rng, sizes, 3, np.float64)
    radii = rng.integers(0, 12, size=len(X)) + 0.5  # distances are whole: none on a sphere
    for begin, end in [(0, len(X)), (len(X) // 3, len(X) - 1)]:
        indptr, places = kernels.within(X, bounds, radii, begin, end)
        assert len(indptr) == end - begin + 1
        for n, i in enumerate(range(begin, end)):
            pool = pool_of(i, bounds, same=False)
            inside = pool[np.sum((X[pool] - X[i]) ** 2, axis=1) < radii[i]]
            np.testing.assert_array_equal(places[indptr[n] : indptr[n + 1]], inside)


@pytest.mark.parametrize("margin", [1.0, 0.25, 4.0])
def test_slopes_are_the_derivatives_of_the_loss_by_pair(margin):
    Y, grouped, pair_weights, _ = problem()
    scale = column_scales(Y)[0]
    loss, slopes = kernels.triplet_slopes(Y, scale, grouped, pair_weights, margin)
    sq_dists = np.sum(scale * (Y[grouped.pairs[:, 0]] - Y[grouped.pairs[:, 1]]) ** 2, axis=1)
    expected, derivative = 0.0, np.zeros(len(slopes))
    for p, (a, b) in enumerate(zip(grouped.first, grouped.last, strict=True)):
        for r in grouped.far[a:b]:
            x = sq_dists[r] - sq_dists[p] - margin + 1
            expected += pair_weights[p] * literal.smooth_hinge(x)
            derivative[p] -= pair_weights[p] * literal.smooth_hinge_slope(x)
            derivative[r] += pair_weights[p] * literal.smooth_hinge_slope(x)
    np.testing.assert_allclose(loss, expected, rtol=1e-10)
    np.testing.assert_allclose(slopes, derivative, rtol=1e-10, atol=1e-12)


def test_laplacian_product_is_the_scatter_of_pairs():
    Y, grouped, _, _ = problem()
    weights = np.random.default_rng(0).normal(size=len(grouped.pairs))
    half = Y.T @ kernels.laplacian_product(Y, grouped.pairs, grouped.groups, weights)
    diffs = Y[grouped.pairs[:, 0]] - Y[grouped.pairs[:, 1]]
    np.testing.assert_allclose(half + half.T, (diffs.T * weights) @ diffs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_samples", [1, 5, 2047, 4097, 40000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_shared_among_threads_are_products(n_samples, dtype, use_threads):
    rng = np.random.default_rng(0)
    Y, A = rng.normal(size=(n_samples, 4)).astype(dtype), rng.normal(size=(4, 3)).astype(dtype)
    use_threads(3)
    product, gram = kernels.rows_times(Y, A), kernels.transposed_times(Y, Y[:, :2])
    assert (product.dtype, gram.dtype) == (dtype, np.float64)
    tolerance = (
        {"rtol": 1e-10, "atol": 1e-10} if dtype is np.float64 else {"rtol": 1e-3, "atol": 1e-1}
    )
    np.testing.assert_allclose(product, Y @ A, **tolerance)
    np.testing.assert_allclose(gram, Y.T @ Y[:, :2], **tolerance)


@pytest.mark.parametrize("n_candidates", [1, 6, 30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_closest_is_the_first_candidate_at_the_least_distance(n_candidates, dtype):
    Y = np.random.default_rng(0).integers(0, 3, size=(83, 2)).astype(dtype)  # many ties
    candidates = candidates_of(83, n_candidates)
    found, dists = kernels.closest(Y, candidates)
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
    found, dists = kernels.closest(np.eye(3), np.array([[1, 0], [1, 2], [0, 1]]))
    np.testing.assert_array_equal(found, [0, 1, 0])
    np.testing.assert_array_equal(dists, [0, 0, np.sqrt(2)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pair_distances_are_sums_of_squared_differences(dtype):
    Y, grouped, _, _ = problem(dtype)
    expected = np.sum((Y[grouped.pairs[:, 0]] - Y[grouped.pairs[:, 1]]) ** 2, axis=1)
    found = kernels.pair_sq_dists(Y, grouped.pairs)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype is np.float32 else 1e-14)


def test_pair_distances_do_not_cancel_far_from_the_origin():
    Y = np.array([[1e8, 0.0], [1e8 + 1, 0.0]])
    np.testing.assert_array_equal(kernels.pair_sq_dists(Y, np.array([[0, 1], [1, 1]])), [1, 0])
    assert kernels.pair_sq_dists(Y, np.empty((0, 2), np.int64)).shape == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_lists_are_grouped_to_all_triplets_of_near_and_far_partners(seed):
    near, indptr, others = partner_lists(seed)
    pairs, first, last, far, groups = kernels.group_lists(near, 10, indptr, others, len(others))
    expected = {
        (10 + a, j, r)
        for a in range(len(indptr) - 1)
        for j in near[10 + a].tolist()
        for r in others[indptr[a] : indptr[a + 1]].tolist()
        if j >= 0
    }
    found = [
        (int(i), int(j), int(pairs[row, 1]))
        for (i, j), a, b in zip(pairs, first, last, strict=True)
        for row in far[a:b]
    ]
    assert len(found) == len(expected)
    assert set(found) == expected
    assert groups[-1] == len(pairs)
    for start, stop in pairwise(groups):
        assert start < stop
        assert len(set(pairs[start:stop, 0])) == 1
        lists = {(a, b) for a, b in zip(first[start:stop], last[start:stop], strict=True) if a < b}
        assert len(lists) == 1  # near pairs of an anchor share one
        ((a, b),) = lists
        assert np.all((far[a:b] >= start) & (far[a:b] < stop))
    anchors = pairs[groups[:-1], 0]
    assert np.all(np.diff(anchors) > 0)
    assert set(anchors.tolist()) == {i for i, _, _ in expected}


def test_lists_without_a_triplet_are_grouped_to_nothing():
    near = np.array([[1, -1], [0, -1], [-1, -1]])
    others = np.array([0, 1], np.int32)  # far partners of the one anchor that has no near partner
    pairs, first, last, far, groups = kernels.group_lists(
        near, 0, np.array([0, 0, 0, 2]), others, 2
    )
    assert pairs.shape == (0, 2)
    assert len(first) == len(last) == len(far) == 0
    np.testing.assert_array_equal(groups, [0])


# Types of numbers


@pytest.mark.parametrize("run", [run_center_sq_dists, run_sequential_weights])
def test_single_precision_stays_single(run):
    assert all(result.dtype == np.float32 for result in run(np.float32))


def test_the_gradient_product_is_single_and_the_loss_double():
    loss, product = run_triplet_gradient(np.float32)
    assert loss.dtype == np.float64
    assert product.dtype == np.float32
    Y, grouped, pair_weights, _ = problem(np.float32)
    assert isinstance(
        kernels.triplet_gradient(Y, column_scales(Y)[0], grouped, pair_weights)[0], float
    )


@pytest.mark.parametrize(
    "run", [run_pair_products, run_triplet_losses, run_triplet_losses_along, run_triplet_gradient]
)
def test_sums_over_single_precision_samples_are_double(run):
    single, double = run(np.float32)[0], run(np.float64)[0]
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-4)


def test_read_only_arrays_of_indices_are_accepted():
    Y, grouped, pair_weights, weights = problem()
    scale = column_scales(Y)[0]
    expected = kernels.triplet_gradient(Y, scale, grouped, pair_weights)[1]
    for array in (*grouped.arrays, Y, scale, pair_weights, weights):
        array.flags.writeable = False
    # Compiled once more for such arrays, with sums in an order of its own.
    found = kernels.triplet_gradient(Y, scale, grouped, pair_weights)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert np.all(np.isfinite(kernels.triplet_losses(Y, grouped)))
    assert np.all(np.isfinite(kernels.pair_products(weights, grouped)))
    assert len(kernels.greedy_colors(*grouped.near_graph()[:2])) == 83


def test_an_unknown_kernel_is_named():
    with pytest.raises(AttributeError, match="no kernel 'fastest'"):
        _ = kernels.fastest


# Whole fits


def fitted(X, y, **parameters):
    return MDaML(
        n_modes=3, n_similar=3, n_dissimilar=3, max_iter=3, random_state=0, **parameters
    ).fit(X, y)


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

    threads = [threading.Thread(target=fit, args=(which,), daemon=True) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
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
    code = """
        import hashlib
        import numpy as np
        from mdaml import kernels
        from mdaml.constraints import TripletSet, sample_triplets
        rng = np.random.default_rng(0)
        T = sample_triplets(rng.integers(0, 3, 100), 5, 5, random_state=0)
        grouped = TripletSet.from_triplets(T, 100)
        Y, weights = rng.normal(size=(100, 7)), rng.random(len(grouped.pairs))
        scales = rng.random((4, 7))
        results = [
            kernels.laplacian_product(Y, grouped.pairs, grouped.groups, weights),
            kernels.pair_sq_dists(Y, grouped.pairs, scales[0]),
            kernels.triplet_losses(Y, grouped),
            kernels.triplet_losses_along(Y, scales, grouped, weights),
            kernels.triplet_gradient(Y, scales[0], grouped, weights)[1],
            kernels.transposed_times(Y, Y),
        ]
        print(*(hashlib.md5(result.tobytes()).hexdigest() for result in results))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == second

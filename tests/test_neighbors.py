"""The search for neighbours in blocks, against sorting all distances."""

import numpy as np
import pytest

from mdaml.kernels import neighbors
from mdaml.kernels.neighbors import nearest, nearest_rows, within
from mdaml.neighbors import trees
from mdaml.neighbors.trees import nearly_nearest


def sorted_classes(rng, sizes, n_features, dtype):
    """Samples on a grid, with many ties and duplicates; bounds and rows as nearest takes them."""
    last = np.cumsum(sizes)
    bounds = np.repeat(np.column_stack([last - sizes, last]), sizes, axis=0)
    X = rng.integers(0, 4, size=(last[-1], n_features)).astype(dtype)
    return X, bounds, rng.permutation(last[-1])


def pool_of(i, bounds, same):
    own = np.arange(*bounds[i])
    return own[own != i] if same else np.setdiff1d(np.arange(len(bounds)), own)


@pytest.fixture
def small_neighbor_blocks(monkeypatch):
    """Blocks of 16 queries and 48 candidates, so that few samples fill several."""
    monkeypatch.setattr(neighbors, "_QUERIES", 16)
    monkeypatch.setattr(neighbors, "_CANDIDATES", 48)


# Class sizes around those of the blocks.
CLASS_SIZES = [[30, 1, 29], [70, 1, 3, 60], [16, 15, 1, 49], [1, 1], [3] * 20]


@pytest.mark.usefixtures("small_neighbor_blocks")
@pytest.mark.parametrize("sizes", CLASS_SIZES, ids=str)
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("n_nearest", [1, 4, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nearest_is_what_sorting_all_distances_gives(sizes, same, n_nearest, dtype):
    rng = np.random.default_rng(n_nearest)
    X, bounds, rows = sorted_classes(rng, sizes, 3, dtype)
    found, sq_dists = nearest(X, bounds, rows, n_nearest, same=same)
    for i in range(len(X)):
        pool = pool_of(i, bounds, same)
        dists = np.sum((X[pool].astype(float) - X[i]) ** 2, axis=1)
        order = np.lexsort([rows[pool], dists])[:n_nearest]
        missing = n_nearest - len(order)
        np.testing.assert_array_equal(found[i], np.append(pool[order], [-1] * missing))
        np.testing.assert_array_equal(sq_dists[i], np.append(dists[order], [np.inf] * missing))


@pytest.mark.parametrize("n_nearest", [1, 7, 1000])
def test_nearest_rows_of_a_gallery_are_those_of_sorting_with_ties_to_the_earlier(n_nearest):
    rng = np.random.default_rng(0)
    queries, gallery = (rng.integers(0, 6, (n, 2)).astype(float) for n in (140, 600))
    found, sq_dists = nearest_rows(queries, gallery, n_nearest)
    dists = np.sum((queries[:, None] - gallery) ** 2, axis=2)
    order = np.argsort(dists, axis=1, kind="stable")[:, :n_nearest]
    np.testing.assert_array_equal(found, order)
    np.testing.assert_array_equal(sq_dists, np.take_along_axis(dists, order, axis=1))


def test_nearest_survives_an_offset_that_swamps_inner_products():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) * 1e-3 + 1e5  # inner products keep none of the differences
    bounds = np.tile([0, 300], (300, 1))
    found, _ = nearest(X, bounds, np.arange(300), 3, same=True)
    dists = np.sum((X[:, None] - X) ** 2, axis=2)
    np.fill_diagonal(dists, np.inf)
    np.testing.assert_array_equal(found, np.argsort(dists, axis=1)[:, :3])


@pytest.mark.usefixtures("small_neighbor_blocks")
@pytest.mark.parametrize("sizes", CLASS_SIZES, ids=str)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_within_lists_the_samples_of_other_classes_in_a_ball(sizes, n_threads, use_threads):
    use_threads(n_threads)
    rng = np.random.default_rng(1)
    X, bounds, _ = sorted_classes(rng, sizes, 3, np.float64)
    radii = rng.integers(0, 12, size=len(X)) + 0.5  # distances are whole: none on a sphere
    for begin, end in [(0, len(X)), (len(X) // 3, len(X) - 1)]:
        indptr, places = within(X, bounds, radii, begin, end)
        assert len(indptr) == end - begin + 1
        for n, i in enumerate(range(begin, end)):
            pool = pool_of(i, bounds, same=False)
            inside = pool[np.sum((X[pool] - X[i]) ** 2, axis=1) < radii[i]]
            np.testing.assert_array_equal(places[indptr[n] : indptr[n + 1]], inside)


# Nearly all neighbours


@pytest.fixture
def small_leaves(monkeypatch):
    monkeypatch.setattr(trees, "_LEAF", 64)


def clouds(sizes, n_features, dtype, distance=1.0):
    """Classes of some sizes around random centres; rows in random order."""
    rng = np.random.default_rng(0)
    last = np.cumsum(sizes)
    bounds = np.repeat(np.column_stack([last - sizes, last]), sizes, axis=0)
    centers = distance * np.repeat(rng.normal(size=(len(sizes), n_features)), sizes, axis=0)
    X = (centers + rng.normal(size=(last[-1], n_features))).astype(dtype)
    return X, bounds, rng.permutation(last[-1])


def share_found(found, true):
    hits = (found[:, :, None] == true[:, None, :]) & (true[:, None, :] >= 0)
    return hits.any(axis=1).sum() / (true >= 0).sum()


@pytest.mark.usefixtures("small_leaves")
@pytest.mark.parametrize("sizes", [[1500, 900, 600], [40] * 70, [2990, 9, 1], [2] * 1500], ids=str)
@pytest.mark.parametrize("distance", [0.5, 30.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("recall", [0.8, 0.95])
def test_nearly_nearest_finds_the_wanted_share(sizes, distance, dtype, recall):
    X, bounds, rows = clouds(sizes, 6, dtype, distance)
    found = nearly_nearest(X, bounds, rows, (3, 4), recall)
    for (places, sq_dists), same, n in zip(found, (True, False), (3, 4), strict=True):
        true, least = nearest(X, bounds, rows, n, same=same)
        assert share_found(places, true) > recall - 0.03
        np.testing.assert_array_equal((places >= 0).sum(axis=1) > 0, (true >= 0).sum(axis=1) > 0)
        assert np.all(sq_dists >= least * (1 - 1e-12))
        some, rank = np.nonzero(places >= 0)
        other = places[some, rank]
        assert np.all((bounds[some, 0] == bounds[other, 0]) == same)
        assert np.all(some != other)
        diffs = X[some].astype(float) - X[other]
        np.testing.assert_allclose(sq_dists[some, rank], np.sum(diffs**2, axis=1), rtol=1e-12)
        assert np.all(np.isinf(sq_dists[places < 0]))
        assert np.all(np.diff(np.where(places >= 0, sq_dists, 1e300), axis=1) >= 0)


@pytest.mark.usefixtures("small_leaves")
def test_small_classes_are_searched_whole():
    X, bounds, rows = clouds([60, 1, 3] * 40, 4, np.float64)
    (places, _), _ = nearly_nearest(X, bounds, rows, (5, 5), 0.5)
    np.testing.assert_array_equal(places, nearest(X, bounds, rows, 5, same=True)[0])


@pytest.mark.usefixtures("small_leaves")
def test_nearly_nearest_does_not_depend_on_the_number_of_threads(use_threads):
    X, bounds, rows = clouds([1500, 900, 600], 6, np.float32)
    found = []
    for n_threads in (1, 3, 7):
        use_threads(n_threads)
        near, far = nearly_nearest(X, bounds, rows, (3, 4), 0.9)
        found.append(np.hstack([*near, *far]))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.usefixtures("small_leaves")
def test_equal_rows_and_an_offset_do_not_stop_the_search():
    X, bounds, rows = clouds([200, 300], 3, np.float64)
    near, far = nearly_nearest(np.zeros_like(X) + 1e6, bounds, rows, (2, 2), 0.9)
    assert np.all(near[1] == 0)
    assert np.all(far[1] == 0)
    shifted, true = (nearly_nearest(Z, bounds, rows, (2, 2), 1.0)[1][0] for Z in (X + 1e6, X))
    assert share_found(shifted, true) > 0.99

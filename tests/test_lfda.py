"""LFDA: pins, twins, published peers, identities, degenerate input, and tiles of affinities."""

import frozen_peers
import literal_baselines as lit
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh

from mdaml.constraints.labels import Classes
from mdaml.estimators import lfda as module
from mdaml.estimators.lfda import LFDA, embedded, local_scales, local_scatters
from mdaml.kernels import affinity

X8, Y8 = lit.e8()
EMBEDDINGS = ("weighted", "plain", "orthonormalized")


def random_classes(seed, sizes=(9, 8, 7), n_features=3):
    """Return samples of classes that overlap, in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centers = 0.7 * rng.normal(size=(len(sizes), n_features))
    return rng.normal(size=(len(y), n_features)) + centers[y], y


def metric(X, y, k, r, embedding="weighted", **options):
    return (
        LFDA(k, n_components=r, embedding=embedding, **options).fit(X, y).get_mahalanobis_matrix()
    )


def sorted_by_class(X, y):
    classes = Classes.from_labels("test", y)
    return (X - X.mean(axis=0))[classes.rows], classes


def scatters(X, y, k):
    return local_scatters(*sorted_by_class(X, y), k)


def assert_pinned(found, wanted):
    if np.ndim(found) == 2:
        found = found[np.triu_indices(len(found))]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


def assert_same(found, wanted, rtol=1e-10):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rtol * np.abs(wanted).max())


# Against others


@pytest.mark.parametrize(
    ("k", "S_w", "S_b", "eigenvalues"),
    [
        (
            2,
            [0.601599, -0.284973, 1.913385],
            [9.426701, 1.616237, 3.838308],
            [18.149241, 1.728870],
        ),
        (
            7,
            [1.105643, -0.659970, 3.904861],
            [9.174678, 1.803735, 2.842570],
            [10.068042, 0.584054],
        ),
    ],
)
def test_scatters_and_eigenvalues_of_the_example(k, S_w, S_b, eigenvalues):
    within, between = scatters(X8, Y8, k)
    assert_pinned(within, S_w)
    assert_pinned(between, S_b)
    assert_pinned(LFDA(k, reg=0).fit(X8, Y8).eigenvalues_, eigenvalues)


@pytest.mark.parametrize(
    ("k", "r", "embedding", "M"),
    [
        (2, 1, "weighted", [31.910430, 7.012946, 1.541233]),
        (2, 2, "weighted", [31.962619, 6.805405, 2.366569]),
        (2, 1, "plain", [1.758224, 0.386404, 0.084920]),
        (2, 2, "plain", [1.788411, 0.266360, 0.562305]),
        (2, 1, "orthonormalized", [0.953927, 0.209644, 0.046073]),
        (2, 2, "orthonormalized", [1, 0, 1]),
        (7, 2, "weighted", [9.983041, 2.275685, 0.670494]),
    ],
)
def test_metric_of_the_example(k, r, embedding, M):
    model = LFDA(k, n_components=r, embedding=embedding, reg=0).fit(X8, Y8)
    assert_pinned(model.get_mahalanobis_matrix(), M)
    assert model.n_components_ == r
    assert model.components_.shape == (r, 2)
    assert model.eigenvalues_.shape == (r,)


@pytest.mark.parametrize("k", frozen_peers.LFDA_DIRECTIONS)
def test_directions_are_those_of_pydml(k):
    model = LFDA(k, embedding="plain", reg=0).fit(frozen_peers.X, frozen_peers.LABELS)
    L, peer = model.components_, frozen_peers.LFDA_DIRECTIONS[k]
    cosines = np.sum(L * peer, axis=1) / np.linalg.norm(L, axis=1)
    np.testing.assert_allclose(np.abs(cosines), 1, rtol=0, atol=1e-12)
    directions = L / np.linalg.norm(L, axis=1, keepdims=True)
    assert_same(directions * np.sign(cosines)[:, None], peer, 1e-8)
    np.testing.assert_allclose(model.eigenvalues_, frozen_peers.LFDA_EIGENVALUES[k], rtol=1e-9)


@pytest.mark.parametrize("sizes", [(9, 8, 7), (1, 2, 9, 1), (3, 3), (20, 1), (4,) * 9])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_metric_is_that_of_the_loops(sizes, k):
    """With classes smaller than the neighbours asked for, and classes of one, among them."""
    X, y = random_classes(sum(sizes) + k, sizes)
    for embedding in EMBEDDINGS:
        for r, reg in ((1, 1e-6), (2, 0.1), (3, 1e-6)):
            wanted = lit.lfda(X, y, k, r, embedding, reg=reg)
            assert_same(metric(X, y, k, r, embedding, reg=reg), wanted, 1e-7)


@pytest.mark.parametrize("sizes", [(9, 8, 7), (1, 2, 9, 1), (3, 3), (20, 1), (4,) * 9])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_scatters_are_those_of_the_loops(sizes, k):
    X, y = random_classes(sum(sizes) + k, sizes)
    for found, wanted in zip(scatters(X, y, k), lit.lfda_scatters(X, y, k), strict=True):
        assert_same(found, wanted, 1e-12)


# Identities


seeds = st.integers(0, 10**6)


@settings(max_examples=30)
@given(seeds, st.integers(1, 9), st.sampled_from([0.0, 0.1]))
def test_full_rank_has_closed_forms_with_the_ridge_on_the_within_scatter_only(seed, k, reg):
    X, y = random_classes(seed)
    S_w, S_b = lit.lfda_scatters(X, y, k)
    S_w = lit.add_ridge(S_w, reg)
    assume(np.linalg.cond(S_w) < 1e3)
    inverse = np.linalg.inv(S_w)
    assert_same(metric(X, y, k, None, "plain", reg=reg), inverse, 1e-9)
    assert_same(metric(X, y, k, None, "orthonormalized", reg=reg), np.eye(3), 1e-9)
    assert_same(metric(X, y, k, None, reg=reg), inverse @ S_b @ inverse, 1e-9)


@settings(max_examples=30)
@given(seeds, st.lists(st.integers(1, 9), min_size=2, max_size=6), st.integers(1, 9))
def test_both_scatters_and_their_sum_are_semi_definite(seed, sizes, k):
    """The one between classes because no affinity is above 1."""
    assume(max(sizes) > 1)
    within, between = scatters(*random_classes(seed, sizes), k)
    for scatter in (within, between, within + between):
        assert np.linalg.eigvalsh(scatter)[0] >= -1e-12 * np.trace(scatter)


@pytest.mark.parametrize("sizes", [(9, 8, 7), (1, 5, 20), (300, 40)])
def test_affinity_one_everywhere_gives_the_scatters_of_fisher(sizes, monkeypatch):
    X, y = random_classes(15, sizes)
    monkeypatch.setattr(module, "local_scales", lambda X, *_: np.full(len(X), 1e12))
    within, between = scatters(X, y, 3)
    fisher_within, fisher_between = np.zeros((3, 3)), np.zeros((3, 3))
    for label in np.unique(y):
        own = X[y == label]
        fisher_within += (own - own.mean(axis=0)).T @ (own - own.mean(axis=0))
        gap = own.mean(axis=0) - X.mean(axis=0)
        fisher_between += len(own) * np.outer(gap, gap)
    assert_same(within, fisher_within)
    assert_same(between, fisher_between)


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_fewer_components_are_the_first_rows_of_more(embedding):
    X, y = random_classes(6)
    everything = LFDA(3, embedding=embedding).fit(X, y)
    for r in (1, 2):
        some = LFDA(3, n_components=r, embedding=embedding).fit(X, y)
        np.testing.assert_array_equal(some.components_, everything.components_[:r])
        np.testing.assert_array_equal(some.eigenvalues_, everything.eigenvalues_[:r])


def test_eigenvalues_are_those_of_the_scatters_largest_first():
    X, y = random_classes(6)
    within, between = lit.lfda_scatters(X, y, 3)
    np.testing.assert_allclose(
        LFDA(3, reg=0).fit(X, y).eigenvalues_,
        eigh(between, within, eigvals_only=True)[::-1],
        rtol=1e-9,
    )


def test_rows_of_eigenvalues_that_rounding_made_negative_vanish(monkeypatch):
    rows = embedded(np.array([4.0, -1e-17]), np.eye(2), "weighted")
    np.testing.assert_array_equal(rows, [[2, 0], [0, 0]])
    # Two classes without locality have one direction, as in the analysis of Fisher.
    monkeypatch.setattr(module, "local_scales", lambda X, *_: np.full(len(X), 1e12))
    L = LFDA().fit(*random_classes(6, (20, 30))).components_
    assert np.abs(L[1:]).max() < 1e-6 * np.abs(L[0]).max()


# Degenerate input


def test_local_scale_is_the_distance_to_the_kth_neighbor_or_the_last_there_is():
    X = np.array([[0.0], [1.0], [3.0], [10.0], [14.0], [50.0]])
    y = [0, 0, 0, 1, 1, 2]
    classes = Classes.from_labels("test", y)
    for k, wanted in [(1, [1, 1, 2, 4, 4, 0]), (2, [3, 2, 3, 4, 4, 0]), (9, [3, 2, 3, 4, 4, 0])]:
        np.testing.assert_array_equal(local_scales(X, classes, k), wanted)


def test_a_small_class_does_not_lower_the_neighbors_of_others():
    X = np.random.default_rng(8).normal(size=(60, 3))
    beside_large = local_scales(X, Classes.from_labels("test", [0] * 30 + [1] * 30), 7)
    beside_small = local_scales(X[:33], Classes.from_labels("test", [0] * 30 + [1] * 3), 7)
    np.testing.assert_array_equal(beside_small[:30], beside_large[:30])


def test_class_of_one_counts_between_classes_only():
    X, y = random_classes(9, (1, 9, 8))
    rest = y > 0
    within, between = scatters(X, y, 3)
    assert_same(within, scatters(X[rest], y[rest], 3)[0])
    assert np.abs(between - scatters(X[rest], y[rest], 3)[1]).max() > 1e-3


def test_sample_with_k_copies_has_no_affinity():
    """Each of the first three samples gets two copies."""
    X, y = random_classes(10)
    X, y = np.vstack([X, X[:3], X[:3]]), np.concatenate([y, y[:3], y[:3]])
    for k in (2, 3):
        assert np.sum(local_scales(*sorted_by_class(X, y), k) == 0) == (9 if k == 2 else 0)
        for found, wanted in zip(scatters(X, y, k), lit.lfda_scatters(X, y, k), strict=True):
            assert_same(found, wanted, 1e-12)


@pytest.mark.parametrize("reg", [0, 1e-6])
def test_classes_of_copies_are_refused(reg):
    X, y = np.repeat(np.random.default_rng(0).normal(size=(2, 3)), 4, axis=0), np.repeat([0, 1], 4)
    with pytest.raises(ValueError, match="same-class samples do not differ in any feature"):
        LFDA(reg=reg).fit(X, y)


def test_singular_within_scatter_is_refused_without_a_ridge():
    X, y = random_classes(11)
    X = np.column_stack([X, X.sum(axis=1)])
    with pytest.raises(ValueError, match=r"same-class samples is singular.*Use reg > 0"):
        LFDA(reg=0).fit(X, y)
    assert np.all(np.isfinite(LFDA().fit(X, y).components_))


def test_fewer_samples_than_features_are_refused_without_a_ridge():
    X = np.random.default_rng(0).normal(size=(6, 10))
    with pytest.raises(ValueError, match="same-class samples is singular"):
        LFDA(reg=0).fit(X, [0, 0, 0, 1, 1, 1])
    assert np.all(np.isfinite(LFDA().fit(X, [0, 0, 0, 1, 1, 1]).components_))


def test_tight_classes_far_apart_keep_their_precision():
    X, y = random_classes(12)
    moved = X + 1e6 * np.array([[1.0, 2, 3], [-3, 1, 2], [2, -3, 1]])[y]
    assert_same(scatters(moved, y, 3)[0], scatters(X, y, 3)[0], 1e-8)


@pytest.mark.parametrize("tiny", [1e-8, 1e-60, 1e-150, 1e-170])
def test_near_copies_are_harmless(tiny):
    """Scales of almost nothing beside others: no overflow, and what they weigh is nothing."""
    X, y = random_classes(13, (6, 9))
    X[y == 0] -= X[y == 0][0]
    X[np.flatnonzero(y == 0)[1:4]] = tiny * np.random.default_rng(0).normal(size=(3, 3))
    copies = X.copy()
    copies[np.flatnonzero(y == 0)[:4]] = 0
    for found, wanted in zip(scatters(X, y, 2), scatters(copies, y, 2), strict=True):
        assert_same(found, wanted, 1e-6)


# Tiles


@pytest.mark.parametrize("sizes", [(23, 11, 1, 2, 2, 3, 17, 1), (50,), (3,) * 20, (1, 2, 1)])
@pytest.mark.parametrize("tiles", [(4, 6, 2, 1), (5, 7, 5, 3), (3, 100, 6, 16), (128, 512, 64, 16)])
def test_no_size_of_tiles_changes_the_product(sizes, tiles, monkeypatch):
    rng = np.random.default_rng(sum(sizes))
    X, scales = rng.normal(size=(sum(sizes), 4)), rng.uniform(0.5, 2, sum(sizes))
    first = np.cumsum(sizes) - sizes
    for name, value in zip(("_ROWS", "_COLUMNS", "_SHARED", "_PARTS"), tiles, strict=True):
        monkeypatch.setattr(affinity, name, value)
    half = X.T @ affinity.affinity_laplacian_product(X, first, scales)
    wanted = np.zeros((4, 4))
    for begin, size in zip(first, sizes, strict=True):
        for i in range(begin, begin + size):
            for j in range(begin, i):
                diff = X[i] - X[j]
                a = np.exp(-(diff @ diff) / (scales[i] * scales[j]))
                wanted += a * np.outer(diff, diff)
    np.testing.assert_allclose(half + half.T, wanted, rtol=1e-10, atol=1e-12)


def test_fit_is_the_same_for_small_tiles(monkeypatch):
    X, y = random_classes(14, (400, 150, 20, 1, 3, 3, 3))
    whole = LFDA().fit(X, y).components_
    for name, value in {"_ROWS": 16, "_COLUMNS": 40, "_SHARED": 8}.items():
        monkeypatch.setattr(affinity, name, value)
    assert_same(LFDA().fit(X, y).components_, whole, 1e-9)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=30))
def test_blocks_cover_every_pair_of_a_class_once_and_parts_hold_every_block(sizes):
    bounds = np.append(0, np.cumsum(sizes)).tolist()
    blocks = affinity._row_blocks(bounds)
    assert [begin for begin, _, _ in blocks] == [0] + [end for _, end, _ in blocks[:-1]]
    assert blocks[-1][1] == bounds[-1]
    assert max(end - begin for begin, end, _ in blocks) <= 2 * affinity._ROWS
    for begin, end, stop in blocks:
        assert stop in bounds
        assert end == stop or not any(begin < bound < stop for bound in bounds)
    parts = affinity._parts(blocks)
    assert sorted(block for part in parts for block in part) == blocks
    assert len(parts) <= affinity._PARTS


# Parameters


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_neighbors": 0}, ValueError, r"LFDA\(n_neighbors=...\) must be at least 1, got 0"),
        ({"n_neighbors": "all"}, TypeError, r"n_neighbors=...\) must be an integer"),
        ({"reg": -1.0}, ValueError, r"reg=...\) must be .* of at least 0, got -1"),
        ({"reg": "original"}, TypeError, r"reg=...\) must be .* got 'original'"),
        ({"embedding": "full"}, ValueError, r"embedding=...\) must be one of 'weighted', 'plain'"),
        (
            {"n_components": "auto", "random_state": "x"},
            ValueError,
            "random_state must be an integer",
        ),
    ],
)
def test_wrong_parameters_are_refused_in_words(options, error, message):
    with pytest.raises(error, match=message):
        LFDA(**options).fit(X8, Y8)

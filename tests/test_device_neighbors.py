"""The search of neighbours on a device: torch on the CPU, and on a GPU where there is one."""

import numpy as np
import pytest
import torch

from mdaml import DMLMJ, LFDA, MDaML
from mdaml.constraints.labels import Classes
from mdaml.estimators.mdaml_folds import other_start
from mdaml.holdout.samples import share_score, vote_score
from mdaml.kernels.neighbors import nearest, nearest_rows
from mdaml.model_selection import MetricSearchCV, knn_accuracy
from mdaml.neighbors import device as neighbors
from mdaml.neighbors import search


def on_the_cpu(Y, classes, *wanted):
    return search.nearest_places(Y, classes.bounds, classes.rows, wanted)


needs_gpu = pytest.mark.needs("a CUDA device")
on_every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])


def problem(n, d=6, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, d)) + rng.normal(size=(n_classes, d))[y]
    classes = Classes.from_labels("test", y)
    return X[classes.rows].astype(np.float32), classes


def share_found(found, true):
    """Return the share of the true neighbours that was found; -1 is none."""
    hits = (found[:, :, None] == true[:, None, :]) & (true[:, None, :] >= 0)
    return hits.any(axis=1).sum() / (true >= 0).sum()


@on_every_device
@pytest.mark.parametrize(
    ("n", "d", "n_classes", "block"),
    [
        (180, 6, 2, 2**28),
        (180, 6, 60, 500),
        (180, 6, 7, 2**28),
        (180, 200, 7, 2**28),
        (9000, 3, 2, 2**28),  # several members in each group
    ],
)
def test_all_pairs_give_the_neighbors_of_the_cpu(n, d, n_classes, block, device, monkeypatch):
    monkeypatch.setattr(neighbors, "_BLOCK", block)
    monkeypatch.setattr(neighbors, "_MOST_QUERIES", 700)
    Y, classes = problem(n, d=d, n_classes=n_classes)
    for ours, theirs in zip(
        neighbors.nearest_places(torch.tensor(Y, device=device), classes.bounds, (4, 5)),
        on_the_cpu(Y, classes, 4, 5),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_a_class_too_small_for_the_neighbors_wanted_has_fewer():
    Y, classes = problem(9, n_classes=3)
    near, far = neighbors.nearest_places(torch.tensor(Y), classes.bounds, (8, 20))
    assert near.shape == (9, 8)
    assert far.shape == (9, 20)
    np.testing.assert_array_equal((near >= 0).sum(axis=1), classes.size[classes.of] - 1)
    np.testing.assert_array_equal((far >= 0).sum(axis=1), 9 - classes.size[classes.of])


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        ("cpu", torch.float32),
        pytest.param("cuda", torch.float32, marks=needs_gpu),
        pytest.param("cuda", torch.float16, marks=needs_gpu),  # products in it are for a GPU
    ],
)
def test_minima_are_those_of_the_groups(same, device, dtype):
    rng = np.random.default_rng(0)
    Y, of = rng.normal(size=(900, 70)), np.sort(rng.integers(0, 3, 900))
    rows = torch.tensor(Y, device=device).to(dtype)
    points = neighbors._as_points(rows, torch.tensor(of, device=device).int())
    found = neighbors.group_minima(points[slice(100, 300)], points, same, 3).cpu().numpy()
    assert found.shape == (200, 3 * 128)
    Y = rows.double().cpu().numpy()
    for q in range(100, 300, 17):
        for group in range(0, 3 * 128, 5):
            slab, place = divmod(group, 128)
            members = [3 * 128 * slab + 128 * tile + place for tile in range(3)]
            values = [
                0.5 * Y[c] @ Y[c] - Y[q] @ Y[c]
                for c in members
                if c < 900 and (of[c] == of[q]) == same
            ]
            assert found[q - 100, group] == pytest.approx(min(values, default=np.inf), abs=1e-3)


@needs_gpu
def test_half_precision_is_not_used_where_it_loses_neighbors():
    rng = np.random.default_rng(0)
    y = np.arange(4000) % 2
    spots = 50.0 * rng.normal(size=(20, 8))  # far apart, the samples of each close together
    Y = (spots[rng.integers(0, 20, 4000)] + 0.1 * rng.normal(size=(4000, 8))).astype(np.float32)
    classes = Classes.from_labels("test", y)
    Y = Y[classes.rows]
    near, far = neighbors.nearest_places(torch.tensor(Y, device="cuda"), classes.bounds, (5, 5))
    true = on_the_cpu(Y.astype(np.float64), classes, 5, 5)
    assert min(share_found(near, true[0]), share_found(far, true[1])) > 0.95


def test_rounding_of_the_products_does_not_decide():
    # Far from the origin the products of single precision cannot tell these apart.
    Y, classes = problem(60, d=2, n_classes=2)
    far_away = Y + np.float32(300.0)
    near, _ = neighbors.nearest_places(torch.tensor(far_away), classes.bounds, (2, 2))
    true, _ = on_the_cpu(far_away.astype(np.float64), classes, 2, 2)
    assert share_found(near, true) > 0.9


@pytest.mark.parametrize("recall", [0.8, 0.99])
def test_cells_find_the_share_that_was_asked_for(recall, monkeypatch):
    monkeypatch.setattr(neighbors, "_MOST_PRODUCTS", {True: 0.0, False: 0.0})
    monkeypatch.setattr(neighbors, "_CELL", 60)
    Y, classes = problem(4000, d=4)
    found = neighbors.nearest_places(torch.tensor(Y), classes.bounds, (5, 5), recall)
    for ours, true in zip(found, on_the_cpu(Y, classes, 5, 5), strict=True):
        assert share_found(ours, true) > recall - 0.04
        assert (classes.of[ours] == classes.of[:, None]).all() == (ours is found[0])
        assert (ours != np.arange(4000)[:, None]).all()


def test_samples_whose_cells_hold_no_other_class_find_it_elsewhere(monkeypatch):
    monkeypatch.setattr(neighbors, "_MOST_PRODUCTS", {True: 0.0, False: 0.0})
    monkeypatch.setattr(neighbors, "_CELL", 50)
    rng = np.random.default_rng(0)
    y = np.arange(400) // 200
    Y = (rng.normal(size=(400, 2)) + 1000.0 * y[:, None]).astype(np.float32)
    _, far = neighbors.nearest_places(
        torch.tensor(Y), Classes.from_labels("test", y).bounds, (3, 3), 0.5
    )
    assert (far >= 0).all()
    assert (y[far] != y[:, None]).all()


@on_every_device
def test_rows_of_a_gallery_are_those_of_the_cpu(device):
    rng = np.random.default_rng(0)
    queries, gallery = rng.normal(size=(300, 9)) + 50.0, rng.normal(size=(4000, 9)) + 50.0
    gallery[7] = gallery[5]  # of equals the earlier
    queries[0] = gallery[5]
    found = neighbors.Gallery.on(queries, gallery, device).nearest(4)
    np.testing.assert_array_equal(found, nearest_rows(queries, gallery, 4)[0])


@needs_gpu
def test_scores_on_a_gpu_are_those_of_the_cpu(monkeypatch):
    monkeypatch.setattr(search, "_WORTH_A_GPU", 0.0)
    Y, classes = problem(600)
    model = MDaML(device="cuda", shrinkage=0.0, random_state=0).fit(Y, classes.of)
    gallery = (Y[::2], classes.of[::2])
    there = knn_accuracy(model, Y[1::2], classes.of[1::2], gallery=gallery)
    model.set_params(device=None)
    assert there == knn_accuracy(model, Y[1::2], classes.of[1::2], gallery=gallery)


def test_a_model_of_a_gpu_is_scored_where_there_is_none(monkeypatch):
    monkeypatch.setattr(search, "_WORTH_A_GPU", 0.0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    Y, classes = problem(60)
    model = MDaML(shrinkage=0.0, random_state=0).fit(Y, classes.of).set_params(device="cuda")
    gallery = (Y[::2], classes.of[::2])
    assert 0.0 <= knn_accuracy(model, Y[1::2], classes.of[1::2], gallery=gallery) <= 1.0


@on_every_device
@pytest.mark.parametrize("same", [True, False])
def test_places_and_distances_are_those_of_the_cpu(same, device):
    Y, classes = problem(300, n_classes=5)
    Y = Y.astype(np.float64)
    Y[classes.first[1] + 1] = Y[classes.first[1]]  # a copy, at distance zero
    kept = np.append(np.arange(classes.first[-1] + 2), 299)  # the last class has three members
    classes = Classes.from_labels("test", classes.of[kept])
    args = (Y[kept], classes.bounds, classes.rows, 4)
    for ours, theirs in zip(
        neighbors.nearest(*args, same=same, device=device), nearest(*args, same=same), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@on_every_device
def test_a_gallery_is_searched_under_every_metric(device):
    rng = np.random.default_rng(0)
    queries, rows = rng.normal(size=(200, 9)) + 5.0, rng.normal(size=(3000, 9)) + 5.0
    gallery = neighbors.Gallery.on(queries, rows, device)
    for F in (rng.normal(size=(9, 9)), rng.normal(size=(9, 2))):
        found = gallery.nearest(3, F)
        assert share_found(found, nearest_rows(queries @ F, rows @ F, 3)[0]) > 0.999


@pytest.fixture
def torch_for_a_gpu(monkeypatch):
    """Do on the CPU, by torch, what a search would do on a GPU."""
    monkeypatch.setattr(search, "_WORTH_A_GPU", 0.0)
    monkeypatch.setattr(search, "_GPU", "cpu")
    monkeypatch.setattr(search, "has_gpu", lambda: True)


@pytest.mark.usefixtures("torch_for_a_gpu")
@pytest.mark.parametrize("learner", [DMLMJ, LFDA])
def test_other_methods_learn_the_same_from_neighbors_of_a_device(learner):
    Y, classes = problem(400)
    assert classes.on("cuda", 6).search is not nearest
    there = other_start(learner.__name__, Y, classes, "cuda")
    np.testing.assert_allclose(there, other_start(learner.__name__, Y, classes), rtol=1e-6)


@pytest.mark.usefixtures("torch_for_a_gpu")
def test_votes_on_a_device_are_those_of_the_cpu():
    Y, classes = problem(600)
    sides = (Y[::2], classes.of[::2], Y[1::2], classes.of[1::2])
    for score in (vote_score, share_score):
        here, there = score(*sides), score(*sides, "cuda")
        for F in (np.eye(6), np.random.default_rng(0).normal(size=(6, 2))):
            assert np.mean(here(F) == there(F)) > 0.995  # rounding may part those that are tied


@pytest.mark.filterwarnings("ignore:Nothing was learned")  # the scores count here
def test_a_grid_is_scored_on_a_device_as_on_the_cpu(monkeypatch, request):
    Y, classes = problem(300)
    y = np.where(np.arange(300) % 7 == 0, -1, classes.of)  # some are not labelled
    search = MetricSearchCV(
        MDaML(device="auto"), {"n_modes": [1, 2]}, cv=2, refit=False, random_state=0
    )
    here = search.fit(Y, y).cv_results_["mean_test_score"]
    request.getfixturevalue("torch_for_a_gpu")
    searched = []
    original = neighbors.Gallery.nearest

    def watch(gallery, *args):
        searched.append(len(gallery.rows))
        return original(gallery, *args)

    monkeypatch.setattr(neighbors.Gallery, "nearest", watch)
    there = search.fit(Y, y).cv_results_["mean_test_score"]
    np.testing.assert_allclose(there, here, atol=0.004)
    assert searched == 4 * [np.sum(y != -1)]

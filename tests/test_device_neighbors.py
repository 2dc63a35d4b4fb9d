"""The search of neighbours on a device, on the torch of the CPU."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mdaml.constraints.labels import Classes  # noqa: E402
from mdaml.constraints.labels import nearest_places as on_the_cpu  # noqa: E402
from mdaml.stores.torch import neighbors  # noqa: E402


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


@pytest.mark.parametrize("n_classes", [2, 7, 60])
@pytest.mark.parametrize("block", [2**28, 500])
def test_all_pairs_give_the_neighbors_of_the_cpu(n_classes, block, monkeypatch):
    monkeypatch.setattr(neighbors, "_BLOCK", block)
    Y, classes = problem(180, n_classes=n_classes)
    for ours, theirs in zip(
        neighbors.nearest_places(torch.tensor(Y), classes, 4, 5),
        on_the_cpu(Y, classes, 4, 5),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_a_class_too_small_for_the_neighbors_wanted_has_fewer():
    Y, classes = problem(9, n_classes=3)
    near, far = neighbors.nearest_places(torch.tensor(Y), classes, 8, 20)
    assert near.shape == (9, 8)
    assert far.shape == (9, 20)
    np.testing.assert_array_equal((near >= 0).sum(axis=1), classes.size[classes.of] - 1)
    np.testing.assert_array_equal((far >= 0).sum(axis=1), 9 - classes.size[classes.of])


def test_rounding_of_the_products_does_not_decide():
    # Far from the origin the products of single precision cannot tell these apart.
    Y, classes = problem(60, d=2, n_classes=2)
    far_away = Y + np.float32(300.0)
    near, _ = neighbors.nearest_places(torch.tensor(far_away), classes, 2, 2)
    true, _ = on_the_cpu(far_away.astype(np.float64), classes, 2, 2)
    assert share_found(near, true) > 0.9


@pytest.mark.parametrize("recall", [0.8, 0.99])
def test_cells_find_the_share_that_was_asked_for(recall, monkeypatch):
    monkeypatch.setattr(neighbors, "_MOST_PAIRS", {True: 0.0, False: 0.0})
    monkeypatch.setattr(neighbors, "_CELL", 60)
    Y, classes = problem(4000, d=4)
    found = neighbors.nearest_places(torch.tensor(Y), classes, 5, 5, recall)
    for ours, true in zip(found, on_the_cpu(Y, classes, 5, 5), strict=True):
        assert share_found(ours, true) > recall - 0.04
        assert (classes.of[ours] == classes.of[:, None]).all() == (ours is found[0])
        assert (ours != np.arange(4000)[:, None]).all()


def test_samples_whose_cells_hold_no_other_class_find_it_elsewhere(monkeypatch):
    monkeypatch.setattr(neighbors, "_MOST_PAIRS", {True: 0.0, False: 0.0})
    monkeypatch.setattr(neighbors, "_CELL", 50)
    rng = np.random.default_rng(0)
    y = np.arange(400) // 200
    Y = (rng.normal(size=(400, 2)) + 1000.0 * y[:, None]).astype(np.float32)
    _, far = neighbors.nearest_places(torch.tensor(Y), Classes.from_labels("test", y), 3, 3, 0.5)
    assert (far >= 0).all()
    assert (y[far] != y[:, None]).all()

"""Candidates that are tried side by side come out as one after the other."""

import threading

import numpy as np
import pytest
from suite.models import make_mdaml

from mdaml.estimators import mdaml_cv, mdaml_folds
from mdaml.kernels.threads import side_by_side
from mdaml.model_selection import MetricSearchCV, _ground

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_results_come_in_order_and_the_first_is_made_alone():
    alone, met = [], threading.Barrier(3, timeout=20)

    def call(n):
        if n == 0:
            alone.append(threading.active_count())
        else:
            met.wait()  # passes only when three are there at once
        return n

    before = threading.active_count()
    assert list(side_by_side(call, [(n,) for n in range(7)], 3)) == list(range(7))
    assert alone == [before]


@pytest.mark.parametrize("n_at_once", [1, 3])
def test_an_error_ends_all(n_at_once):
    def call(n):
        if n == 2:
            raise ValueError("the third")
        return n

    with pytest.raises(ValueError, match="the third"):
        list(side_by_side(call, [(n,) for n in range(9)], n_at_once))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    telling = rng.normal(size=(150, 4)) + 1.5 * rng.normal(size=(3, 4))[y]
    return np.hstack([telling, 3.0 * rng.normal(size=(150, 3))]), y  # with something to learn


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_grid_search_is_the_same_side_by_side(data, device, request, monkeypatch):
    if device is not None:
        request.getfixturevalue("torch")
    grid = {"n_modes": [1, 2], "triplet_weight": [300.0, 3000.0]}
    model = make_mdaml("labels", device=device, max_inner_iter=2, n_refresh=0 if device else 1)
    search = MetricSearchCV(model, grid, cv=2, refit=False, random_state=0)
    alone = search.fit(*data).cv_results_["mean_test_score"]
    monkeypatch.setattr(_ground, "n_fits_at_once", lambda *_: 3)
    np.testing.assert_array_equal(search.fit(*data).cv_results_["mean_test_score"], alone)


def test_the_candidates_of_mdamlcv_are_the_same_side_by_side(data, monkeypatch):
    X, y = data

    def choose():
        model = mdaml_cv.MDaMLCV(random_state=0).fit(X, y)
        return model.cv_results_["mean_test_score"], model.components_

    alone = choose()
    monkeypatch.setattr(mdaml_folds, "n_fits_at_once", lambda *_: 3)
    for ours, theirs in zip(choose(), alone, strict=True):
        np.testing.assert_array_equal(ours, theirs)

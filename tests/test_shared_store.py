"""Fits that share a store learn what each would learn alone, and do their common work once."""

from dataclasses import replace

import numpy as np
import pytest
from suite.models import make_mdaml

from mdaml import MDaML
from mdaml.constraints.arguments import EVERY_FORM, check_supervision
from mdaml.constraints.labels import Classes
from mdaml.datasets import make_triplets
from mdaml.estimators.posing import place, pose
from mdaml.stores.memory import MemoryStore
from mdaml.stores.shared import SharedClasses, SharedStore, _Recent

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FROM_LABELS = [
    {"n_modes": 2},
    {"n_modes": 1},
    {"n_modes": 2, "triplet_weight": 30.0},
    {"n_modes": 2, "n_similar": 2, "n_dissimilar": 7},
    {"n_modes": 3, "init_modes": "kmeans"},
    {"n_modes": 2, "kind": "random"},
    {"n_modes": "auto", "anchor": 0.1},
    {"n_modes": 2, "pairing": "zip"},
    {"n_modes": 2, "n_components": 2},
    {"n_modes": 2},  # again, after all others
]
FROM_TRIPLETS = [{"anchor": 0.003}, {"anchor": 0.1}, {"row": "eq. 7", "n_modes": 2}]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 4)) + 1.5 * rng.normal(size=(3, 4))[y]
    triplets, _ = make_triplets(X, n_triplets=400, components=np.eye(4)[:2], random_state=0)
    return X, {"y": y}, {"y": None, "triplets": triplets}


def make(given, cells):
    usual = {"row": "labels", "shrinkage": 0.0}
    if given["y"] is None:
        usual = {"row": "comparisons"}
    return make_mdaml(**usual | {"random_state": 0} | cells)


def fit_together(X, given, candidates, **options):
    samples, supervision = check_supervision(MDaML(), EVERY_FORM, X, **given)
    supervision = (
        SharedClasses.of_classes(supervision) if isinstance(supervision, Classes) else supervision
    )
    shared = {}
    for params in candidates:
        model = make(given, params | options)
        posed = pose(model, samples.shape, supervision)
        chosen = bool(posed.spec.anchors or posed.spec.shrinkages)  # as searches do
        posed = replace(posed, spec=replace(posed.spec, is_measured=chosen))
        store = place(model, samples, posed.spec, supervision, shared=shared)
        posed, gain = posed.choose(store)
        run = posed.problem.start(store, np.random.RandomState(0)).complete()
        model._keep(X, posed, run, gain)
        yield model
    assert len(shared) == 1


@pytest.mark.parametrize("kind", ["labels", "triplets"])
def test_each_fit_is_the_one_it_would_be_alone(data, kind):
    X, labels, triplets = data
    given, candidates = (labels, FROM_LABELS) if kind == "labels" else (triplets, FROM_TRIPLETS)
    assert_alone_is_the_same(X, given, candidates)


@pytest.mark.usefixtures("torch")
def test_on_a_device_too(data):
    X, labels, _ = data
    candidates = [{"n_modes": 2}, {"n_modes": 2, "triplet_weight": 300.0}]
    assert_alone_is_the_same(X, labels, candidates, device="cpu", max_inner_iter=2, n_refresh=0)


def assert_alone_is_the_same(X, given, candidates, **options):
    together = fit_together(X, given, candidates, **options)
    for params, ours in zip(candidates, together, strict=True):
        alone = make(given, params | options).fit(X, **given)
        np.testing.assert_array_equal(ours.history_, alone.history_, err_msg=str(params))
        np.testing.assert_array_equal(ours.components_, alone.components_)
        np.testing.assert_array_equal(ours.triplets_, alone.triplets_)


def test_common_work_is_done_once(data, monkeypatch):
    X, labels, triplets = data
    calls = []

    def count(name):
        original = getattr(MemoryStore, name)

        def counted(*args):
            calls.append(name)
            return original(*args)

        monkeypatch.setattr(MemoryStore, name, counted)

    for name in ("nearest", "compare", "mixture_weights"):
        count(name)
    weights = [{"n_modes": 2, "triplet_weight": weight} for weight in (300.0, 1000.0, 3000.0)]
    list(fit_together(X, labels, weights, n_refresh=0))
    assert sorted(calls) == ["compare", "mixture_weights", "nearest"]
    calls.clear()
    # Searched again under three different metrics.
    list(fit_together(X, labels, weights, n_refresh=1))
    assert sorted(calls) == 4 * ["compare"] + ["mixture_weights"] + 4 * ["nearest"]
    calls.clear()
    list(fit_together(X, triplets, [{"row": "eq. 7", **params} for params in weights]))
    assert sorted(calls) == ["compare", "mixture_weights"]


def test_generators_are_left_as_if_all_had_been_drawn(data):
    store = SharedStore(MemoryStore.of(data[0]))
    after = []
    for _ in range(2):
        rng = np.random.RandomState(3)
        store.mixture_weights(2, 3.0, rng)
        after.append(rng.random_sample())
    assert after[0] == after[1]
    ours = store.mixture_weights(2, 3.0, np.random.RandomState(4))
    theirs = MemoryStore.of(data[0]).mixture_weights(2, 3.0, np.random.RandomState(4))
    np.testing.assert_array_equal(ours.weights, theirs.weights)


def test_neighbors_for_several_fits_are_those_of_separate_searches(data, monkeypatch):
    X, labels, _ = data
    classes, searched = Classes.from_labels("test", labels["y"]), []
    nearest = MemoryStore.nearest
    monkeypatch.setattr(MemoryStore, "nearest", lambda *a: searched.append(a[3:]) or nearest(*a))
    ahead = SharedStore(MemoryStore.of(X), ahead=(6, 7))
    identity, other = np.eye(4), np.diag([1.0, 2.0, 3.0, 4.0])
    wanted = [(identity, 5, 5), (identity, 3, 7), (other, 5, 5), (identity, 8, 2), (identity, 6, 1)]
    for F, n_similar, n_dissimilar in wanted:
        found = ahead.nearest(F, classes, n_similar, n_dissimilar)
        alone = nearest(MemoryStore.of(X), F, classes, n_similar, n_dissimilar)
        for one, two in zip(found, alone, strict=True):
            np.testing.assert_array_equal(one, two)
    assert searched == [(6, 7), (5, 5), (8, 2)]  # more than was expected is searched by itself


def test_only_the_last_results_are_kept():
    recent, made = _Recent(2), []
    for key in (1, 2, 1, 3, 1, 2):
        recent.once(key, lambda key=key: made.append(key))
    assert made == [1, 2, 3, 2]

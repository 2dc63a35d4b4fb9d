"""Everything goes together: place, rank, supervision and driver, each compared with plain NumPy.

A fit in blocks, on a device or on a cluster is the fit in memory up to rounding, at full and at low
rank, from labels or comparisons of any form, at once, in chunks or in a search.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler
from suite.models import make_mdaml
from suite.needs import is_there

import mdaml.distributed
from mdaml import PRESETS, LocalMDaML, MDaML, MDaMLCV
from mdaml.constraints import Constraints, sample_triplets
from mdaml.estimators import local_rounds, mdaml_cv
from mdaml.holdout import anchor
from mdaml.model_selection import MetricSearchCV

N, K = 48, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5)) @ np.diag([3.0, 1.0, 1.0, 0.5, 2.0]) + 1.0
WEIGHTS = RNG.random((N, K))
# Few steps: rounding of single precision decides about the branches of a long fit.
PLAIN = {
    "n_modes": WEIGHTS,
    "eta": 3.0,
    "init_metric": "identity",
    "n_similar": 3,
    "n_dissimilar": 3,
    "max_iter": 1,
    "max_inner_iter": 3,
    "random_state": 0,
}


def comparisons(width):
    rows = np.array([RNG.choice(N, width, replace=False) for _ in range(120)])
    near, far = rows[:, :2], rows[:, [0, 2]] if width == 3 else rows[:, 2:]
    wrong = np.abs(np.diff(X[near, 0])) > np.abs(np.diff(X[far, 0]))
    return np.where(wrong, rows[:, [0, 2, 1]] if width == 3 else rows[:, [2, 3, 0, 1]], rows)


TRIPLETS, QUADRUPLETS = comparisons(3), comparisons(4)
PAIRS = np.array([RNG.choice(N, 2, replace=False) for _ in range(60)])
PAIR_LABELS = np.where(np.abs(np.diff(X[PAIRS, 0])[:, 0]) < 2.5, 1, -1)
LABELS, OF_CLASSES = np.digitize(X[:, 0], [-1.0, 2.0]), "triplets of classes"
SUPERVISION = {
    "labels": {"y": LABELS},
    "random partners": {"y": LABELS},
    "triplets": {"triplets": TRIPLETS},
    "weighted triplets": {"triplets": TRIPLETS, "constraint_weight": RNG.random(120) + 0.5},
    "pairs": {"pairs": PAIRS, "pair_labels": PAIR_LABELS},
    "quadruplets": {"quadruplets": QUADRUPLETS},
    "all forms": {
        "constraints": Constraints(
            triplets=TRIPLETS,
            pairs=PAIRS,
            pair_labels=PAIR_LABELS,
            quadruplets=QUADRUPLETS,
            n_points=N,
        )
    },
    OF_CLASSES: {"triplets": sample_triplets(LABELS, 4, 3, random_state=0)},
}
# What may be added to Eq. (7), which all other fits here minimise, and to which supervision.
BEYOND = [
    (OF_CLASSES, {}),
    ("all forms", {"anchor": 0.1, "floor": 0.05, "eta": 1.1}),
    ("random partners", {"anchor": 0.03, "floor": 0.5, "init_metric": "whitened"}),
]
# Parameters that choose the place.
PLACES = {
    "memory": {},
    "blocks": {},
    "device": {"device": "cpu"},
    "cluster": {},
    "cluster in blocks": {},
    "cluster of devices": {"device": "cpu"},
}
SINGLE = ("device", "cluster of devices")
NEEDS = {
    "device": ["torch"],
    "cluster": ["distributed"],
    "cluster in blocks": ["distributed"],
    "cluster of devices": ["distributed", "torch"],
}
# Fits are cut short on purpose, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
every_supervision = pytest.mark.parametrize(
    "supervision", [s for s in SUPERVISION if s != OF_CLASSES]
)
every_rank = pytest.mark.parametrize("rank", [None, 2])


def places(*names):
    return [pytest.param(n, marks=pytest.mark.needs(*NEEDS.get(n, []))) for n in names]


# Blocks and low rank do not meet on a cluster otherwise than elsewhere: by default each alone.
everywhere_at_every_rank = pytest.mark.parametrize(
    ("place", "rank"),
    [
        pytest.param(
            *(*place.values, rank),
            marks=[
                *place.marks,
                *([pytest.mark.slow] if "in blocks" in place.values[0] and rank else []),
            ],
        )
        for place in places(*PLACES)[1:]
        for rank in (None, 2)
    ],
)


@pytest.fixture(scope="module", autouse=True)
def one_thread(request):
    """Keep torch to one thread, where there is torch."""
    if is_there("torch"):
        request.getfixturevalue("torch")


@pytest.fixture(scope="module")
def client():
    import distributed

    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as client:
        yield client


@pytest.fixture
def force_blocks(monkeypatch):
    """Let a limit of one byte stand for one under which only blocks fit."""
    for home in ("mdaml.stores.choice", "mdaml.distributed"):
        monkeypatch.setattr(f"{home}.must_spare", lambda limit, *_: limit == 1)
    limit = local_rounds.current_limit  # columns of places are made in blocks too
    monkeypatch.setattr("mdaml.estimators.local_rounds._must_spare", lambda *_: limit() == 1)
    monkeypatch.setattr("mdaml.estimators.local_rounds.current_limit", lambda: None)


def limit_of(place):
    return mdaml.limit_memory(1 if place.endswith("blocks") else None)


def make(supervision, rank, row="eq. 7", **more):
    kind = {"kind": "random"} if supervision == "random partners" else {}
    return make_mdaml(row, **PLAIN | {"n_components": rank} | kind | more)


def fitted(place, supervision, rank, client, **more):
    model = make(supervision, rank, **PLACES[place] | more)
    with limit_of(place):
        if place.startswith("cluster"):
            return mdaml.distributed.fit(
                model, X, **SUPERVISION[supervision], client=client, n_shards=2
            )
        return model.fit(X, **SUPERVISION[supervision])


@cache
def fitted_in_memory(supervision, rank, **more):
    return fitted("memory", supervision, rank, None, **more)


def assert_same(model, plain, place):
    tolerance = 1e-3 if place in SINGLE else 1e-6
    M, wanted = model.get_mahalanobis_matrix(), plain.get_mahalanobis_matrix()
    assert np.abs(M - wanted).max() <= tolerance * np.abs(wanted).max()
    for name in ("history_", "weights_", "centers_"):
        np.testing.assert_allclose(
            getattr(model, name), getattr(plain, name), rtol=tolerance, atol=tolerance
        )
    assert model.lambda1_critical_ == pytest.approx(plain.lambda1_critical_, rel=tolerance)
    assert model.components_.shape == plain.components_.shape
    assert model.n_comparisons_seen_ == plain.n_comparisons_seen_


@pytest.mark.usefixtures("force_blocks")
@everywhere_at_every_rank
@every_supervision
def test_a_fit_anywhere_is_the_fit_in_memory(place, rank, supervision, request):
    client = request.getfixturevalue("client") if place.startswith("cluster") else None
    assert_same(
        fitted(place, supervision, rank, client), fitted_in_memory(supervision, rank), place
    )


@pytest.mark.usefixtures("force_blocks")
@pytest.mark.filterwarnings("ignore:The learned distance agrees:UserWarning")
@everywhere_at_every_rank
@pytest.mark.parametrize(
    ("supervision", "beyond"), BEYOND, ids=[supervision for supervision, _ in BEYOND]
)
def test_a_fit_beyond_the_paper_anywhere_is_the_fit_in_memory(
    place, rank, supervision, beyond, request
):
    client = request.getfixturevalue("client") if place.startswith("cluster") else None
    beyond = {"row": "neighbors"} | beyond
    wanted = fitted_in_memory(supervision, rank, **beyond)
    assert (wanted.shrinkage_ == 0.5) == (
        supervision == OF_CLASSES and rank is None
    )  # groups were found
    assert_same(fitted(place, supervision, rank, client, **beyond), wanted, place)


@pytest.mark.usefixtures("force_blocks")
@pytest.mark.parametrize("place", places("blocks", "device"))
@every_rank
@every_supervision
def test_chunks_anywhere_are_the_chunks_in_memory(place, rank, supervision):
    def in_chunks(place):
        model = make(supervision, rank, **PLACES[place])
        with limit_of(place):
            for shift in (0.0, 0.1):
                model.partial_fit(X + shift, **SUPERVISION[supervision])
        return model

    assert_same(in_chunks(place), in_chunks("memory"), place)


def test_groups_are_found_in_every_chunk():
    model = MDaML(goal="neighbors", random_state=0)
    for rows in (np.arange(N), np.arange(N)[::-1]):  # another order, as of other samples
        supervision = sample_triplets(LABELS[rows], 4, 3, random_state=0)
        model.partial_fit(X[rows], triplets=supervision)
        assert (LABELS[rows][model.triplets_[:, 0]] == LABELS[rows][model.triplets_[:, 1]]).all()
        assert not np.array_equal(model.triplets_, supervision)  # those of neighbours instead


@pytest.mark.usefixtures("force_blocks")
@pytest.mark.parametrize("place", places(*PLACES))
@pytest.mark.parametrize("supervision", ["triplets", "all forms"])
def test_an_anchor_is_chosen_by_the_samples_compared(place, supervision, request, monkeypatch):
    client = request.getfixturevalue("client") if place.startswith("cluster") else None
    row = {"row": "comparisons", "n_modes": "auto"}
    wanted = fitted_in_memory(supervision, None, **row)
    monkeypatch.setattr(anchor, "_MOST_ROWS", 0)
    got = fitted(place, supervision, None, client, **row)
    assert got.anchor_ == wanted.anchor_  # all samples are compared here
    assert_same(got, wanted, place)


@pytest.mark.slow
@pytest.mark.parametrize("place", places("memory", "device"))
@every_rank
@every_supervision
@pytest.mark.filterwarnings("ignore:Nothing was learned")  # of two axes and few pairs
def test_the_search_of_mdamlcv_runs_anywhere(place, rank, supervision, monkeypatch):
    few = [{"anchor": 0.003}, {"anchor": 0.1}]
    monkeypatch.setitem(mdaml_cv.FROM_COMPARISONS, "comparisons", few)
    monkeypatch.setattr(mdaml_cv, "FROM_LABELS", mdaml_cv.FROM_LABELS[:2])
    model = MDaMLCV(n_components=rank, random_state=0, **PLACES[place])
    model.fit(X, **SUPERVISION[supervision])
    assert len(model.components_) == (rank or X.shape[1])
    assert model.best_estimator_.device == PLACES[place].get("device")
    assert model.best_score_ > 0.7


@pytest.mark.filterwarnings("ignore:Nothing was learned")  # comparisons are few
@pytest.mark.parametrize("place", places("device"))
@every_rank
@every_supervision
def test_a_grid_search_anywhere_is_the_one_in_memory(place, rank, supervision):
    def search(place):
        changed = {"init_modes": "kmeans", "n_modes": 2} | PLACES[place]
        model = make(supervision, rank, **changed)
        grid = {"triplet_weight": [30.0, 1000.0]}
        return MetricSearchCV(model, grid, cv=2, random_state=0).fit(X, **SUPERVISION[supervision])

    found, wanted = search(place), search("memory")
    assert found.best_params_ == wanted.best_params_
    assert found.start_kept_ == wanted.start_kept_
    assert len(found.components_) == (rank or X.shape[1])
    assert found.best_score_ == pytest.approx(wanted.best_score_, abs=0.05)
    assert found.components_.shape == wanted.components_.shape


# Places for modes

BY_PERSONS = {"triplets": TRIPLETS, "who": np.arange(len(TRIPLETS)) % 3}


@cache
def distances_with_places(place, given, rank, client=None):
    """Return distances under a metric with places for modes."""
    few_steps = replace(PRESETS["comparisons"], max_inner_iter=3)  # as above
    model = LocalMDaML(n_places=8, n_maps=0, goal=few_steps, max_iter=1, random_state=0)
    model.set_params(n_components=rank, **PLACES[place])
    supervision = BY_PERSONS if given == "persons" else SUPERVISION[given]
    with limit_of(place):
        if place.startswith("cluster"):
            mdaml.distributed.fit(model, X, **supervision, client=client, n_shards=2)
        else:
            model.fit(X, **supervision)
    assert model.n_places_ == 8
    assert len(model.components_) == (rank or 7 + X.shape[1])
    assert model.n_samples_seen_ == N
    return model.pair_distance(X[: N // 2], X[N // 2 :])


@pytest.mark.usefixtures("force_blocks")
@pytest.mark.parametrize("place", places("blocks", "device"))
@every_rank
@pytest.mark.parametrize("supervision", [*SUPERVISION, "persons"])
def test_places_for_modes_anywhere_are_those_in_memory(place, rank, supervision):
    compare_places(place, rank, supervision)


@pytest.mark.parametrize("place", places("cluster", "cluster of devices"))
@pytest.mark.parametrize(
    ("rank", "supervision"), [(None, "labels"), (2, "all forms"), (None, "persons")]
)
def test_places_for_modes_on_a_cluster_are_those_in_memory(client, place, rank, supervision):
    compare_places(place, rank, supervision, client)


def compare_places(place, rank, supervision, client=None):
    wanted = distances_with_places("memory", supervision, rank)
    # Modes are found in single precision everywhere.
    gap = np.abs(distances_with_places(place, supervision, rank, client) - wanted).max()
    assert gap <= 0.002 * wanted.max()


@pytest.mark.slow
@pytest.mark.needs("distributed")
def test_of_many_rows_on_a_cluster_places_are_found_among_some(client, monkeypatch):
    rng = np.random.default_rng(0)
    corner = rng.integers(4, size=300)
    corners = np.array([[0, 0], [0, 5], [5, 5], [5, 0]])[corner] + rng.normal(size=(300, 2))
    triplets = sample_triplets(corner[:80] % 2, 4, 4, random_state=0)
    unseen = sample_triplets(corner % 2, 4, 4, random_state=1)
    monkeypatch.setattr(mdaml.distributed, "_MOST_ROWS", 60)
    model = LocalMDaML(n_places=12, n_maps=0, anchor=0.1, random_state=0)
    mdaml.distributed.fit(model, corners, triplets=triplets, client=client, n_shards=2)
    assert len(model.landmark_centers_) < 140  # of those 60, and of the 80 that are compared
    assert model.n_samples_seen_ == 300
    assert model.score_triplets(corners, unseen) > 0.9


@pytest.mark.slow
@pytest.mark.needs("distributed")
@pytest.mark.parametrize("supervision", ["labels", "triplets"])
def test_places_are_chosen_on_a_cluster_as_in_memory(client, supervision):
    wines, kind = load_wine(return_X_y=True)
    wines = StandardScaler().fit_transform(wines)
    triplets = sample_triplets(kind == 1, 3, 3, random_state=0)
    given = {"y": kind} if supervision == "labels" else {"triplets": triplets}
    here = LocalMDaML(random_state=0).fit(wines, **given)
    model = LocalMDaML(random_state=0)
    there = mdaml.distributed.fit(model, wines, **given, client=client, n_shards=2)
    assert there is model
    assert there.tried_ == here.tried_
    assert there.n_places_ > 0
    assert there.summary() == here.summary()
    np.testing.assert_allclose(there.transform(wines), here.transform(wines), atol=1e-5)


@pytest.mark.usefixtures("force_blocks")
@pytest.mark.parametrize("place", places("blocks", "device"))
@pytest.mark.parametrize("supervision", ["labels", "triplets"])
def test_chunks_with_places_anywhere_are_the_chunks_in_memory(place, supervision):
    def in_chunks(place):
        few_steps = replace(PRESETS["comparisons"], max_inner_iter=3)
        model = LocalMDaML(n_places=8, n_maps=0, goal=few_steps, max_iter=1, random_state=0)
        model.set_params(**PLACES[place])
        with limit_of(place):
            for shift in (0.0, 0.1):
                model.partial_fit(X + shift, **SUPERVISION[supervision])
        return model.pair_distance(X[: N // 2], X[N // 2 :])

    with pytest.warns(UserWarning, match="modes of its first chunk"):
        wanted, found = in_chunks("memory"), in_chunks(place)
    assert np.abs(found - wanted).max() <= 0.005 * wanted.max()

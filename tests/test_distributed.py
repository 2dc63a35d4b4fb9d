"""Fits over shards: the plan and the sums without a cluster, then real ones on Dask."""

import os
import signal
import sys
import time
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.clusters import Serial
from suite.models import make_mdaml
from suite.specs import make_spec

from mdaml import GMML, Constraints, MDaML, limit_memory
from mdaml.constraints.labels import Classes
from mdaml.datasets import make_triplets
from mdaml.distributed import _kind, fit
from mdaml.estimators.posing import Posed
from mdaml.neighbors.shards import Members, grow_cells
from mdaml.neighbors.trees import improve
from mdaml.stores.dask import cluster as cluster_module
from mdaml.stores.dask.cluster import Cluster
from mdaml.stores.dask.plan import cut_rows
from mdaml.stores.dask.store import DaskStore
from mdaml.stores.memory import MemoryStore

seeds = st.integers(0, 2**32 - 1)


# Without Dask


def split(X, supervision, n_shards):
    """Return the same samples and comparisons in shards, and in one memory."""
    near = np.concatenate([supervision.triplets[:, :2], supervision.quadruplets[:, :2]])
    first = near.min(axis=1) if len(supervision.quadruplets) else near[:, 0]
    cuts = cut_rows(first, len(X), n_shards)
    own = [X[begin:end] for begin, end in pairwise(cuts)]
    shards = DaskStore(Serial(len(own)), own, cuts, X[0], "memory", shards=[])
    return shards.compare(supervision), MemoryStore(X, X[0]).compare(supervision)


def said_of(one, kind):
    """Return the triplets of a problem, or as many weighted quadruplets."""
    T, n = one.triplets, len(one.X)
    if kind == "triplets":
        return Constraints.of_triplets(T, n)
    other = (T[:, 2] + 1 + T[:, 0] % (n - 1)) % n
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(T))
    return Constraints.of_quadruplets(np.column_stack([T, other]), weights, n)


def in_both(stores, method, *columns):
    """Return the results of a method of the shards and of one memory, for arguments of each."""
    return [
        getattr(store, method)(*(c[n] if isinstance(c, tuple) else c for c in columns))
        for n, store in enumerate(stores)
    ]


def assert_same_sums(sums, wanted, rtol=1e-9):
    for one, other in zip(np.atleast_1d(sums), np.atleast_1d(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max())


@given(seeds, st.integers(1, 12), st.integers(3, 40), st.integers(1, 60))
def test_cuts_cover_all_rows_and_leave_no_block_without_an_anchor(
    seed, n_shards, n_samples, n_triplets
):
    anchors = np.random.default_rng(seed).integers(0, n_samples, n_triplets)
    cuts = cut_rows(anchors, n_samples, n_shards)
    assert cuts[0] == 0
    assert cuts[-1] == n_samples
    assert np.all(np.histogram(anchors, [*cuts[:-1], n_samples])[0] > 0)
    assert len(cuts) - 1 == min(n_shards, len(np.unique(anchors)))


def test_cuts_balance_rows_and_triplets():
    anchors = np.repeat(np.arange(1000), 7)
    assert np.all(np.abs(np.diff(cut_rows(anchors, 1000, 4)) - 250) <= 1)


@settings(max_examples=30)
@given(seeds, st.integers(1, 6), st.sampled_from([2.0, 3.0]), st.sampled_from(["triplets", "four"]))
def test_rounds_with_messages_give_the_weights_of_one_memory(
    random_problem, seed, n_shards, eta, kind
):
    rng = np.random.default_rng(seed)
    one = random_problem(seed, n_samples=24, n_triplets=int(rng.integers(1, 60)), eta=eta)
    stores = split(one.X, said_of(one, kind), n_shards)
    F = rng.normal(size=(4, 4))
    weights = tuple(in_both(stores, "given_weights", one.weights, eta))
    weights = tuple(in_both(stores, "adopt", weights))
    measured = tuple(in_both(stores, "measure", F, one.centers))
    updated = tuple(in_both(stores, "update_weights", weights, measured, 0.7, eta))
    got, wanted = in_both(stores, "fetch_weights", updated)
    np.testing.assert_allclose(got, wanted, rtol=1e-9)
    # What the shards have told each other: the powers of all rows that they hold.
    parts, whole = in_both(stores, "importances", updated)
    np.testing.assert_allclose(sum(part.sum() for part in parts), whole.sum(), rtol=1e-9)


@settings(max_examples=20)
@given(
    seeds,
    st.integers(1, 6),
    st.sampled_from(["triplets", "four"]),
    st.sampled_from([0.0, 0.05, 1.0]),
)
def test_sums_over_shards_are_those_of_one_memory(random_problem, seed, n_shards, kind, floor):
    one = random_problem(seed, n_samples=30)
    stores = split(one.X, said_of(one, kind), n_shards)
    F, scales = np.random.default_rng(seed).normal(size=(4, 3)), np.array([1.0, 0.25, 4.0, 2.0])
    weights = tuple(in_both(stores, "given_weights", one.weights, 3.0))
    weights = tuple(in_both(stores, "adopt", weights))
    importance = tuple(in_both(stores, "importances", weights, floor))
    measured = tuple(in_both(stores, "measure", F, one.centers))
    measured = tuple(in_both(stores, "recenter", measured, F, one.centers + 1.0))
    Y = tuple(in_both(stores, "project", np.eye(4)))
    assert stores[0].total == pytest.approx(stores[1].total)
    assert_same_sums(*in_both(stores, "terms", weights, measured, importance))
    assert_same_sums(*in_both(stores, "weight", importance))
    assert_same_sums(*in_both(stores, "covariance"))
    for method in ("moments", "center_sums", "weighted_means"):
        for sums, wanted in zip(*in_both(stores, method, weights), strict=True):
            assert_same_sums(sums, wanted)
    assert_same_sums(
        *in_both(stores, "losses_along", Y, np.outer([1, 2, 3, 4], scales), importance)
    )
    (loss, half), (wanted, whole) = in_both(stores, "loss_and_half", Y, scales, importance)
    assert_same_sums(loss, wanted)
    assert_same_sums(half + half.T, whole + whole.T)
    half, whole = in_both(stores, "push", importance)
    assert_same_sums(half + half.T, whole + whole.T)
    # Of low rank
    Y = tuple(in_both(stores, "project", F))
    Y = tuple(in_both(stores, "shift", Y, 0.3, Y))
    assert_same_sums(*in_both(stores, "spread", Y))
    pulled = in_both(stores, "pull", Y, one.centers @ F, weights, importance, 0.7)
    for place in (0, 1, 3):
        assert_same_sums(pulled[0][place], pulled[1][place])
    by_samples = tuple(found[2] for found in pulled)
    assert_same_sums(*in_both(stores, "cross", by_samples))
    assert_same_sums(*in_both(stores, "inner", by_samples, Y))
    found = tuple(in_both(stores, "weights_at", F, one.centers, 3.0))
    np.testing.assert_allclose(*in_both(stores, "fetch_weights", found), rtol=1e-9)


@settings(max_examples=20)
@given(seeds, st.integers(1, 5))
def test_neighbours_over_shards_are_those_of_one_memory(random_problem, seed, n_shards):
    one, rng = random_problem(seed, n_samples=40), np.random.default_rng(seed)
    stores = split(np.round(one.X), said_of(one, "triplets"), n_shards)  # with ties
    classes = Classes.from_labels("test", np.append([0, 0, 1, 1], rng.integers(-1, 3, 36)))
    for F in (np.eye(4), np.diag([1.0, 2.0, 0.0, 1.0])):
        for got, wanted in zip(*in_both(stores, "nearest", F, classes, 3, 5), strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.fixture
def small_cells(monkeypatch):
    """Let few rows be searched as many are: in turns, in cells and leaves."""
    monkeypatch.setattr("mdaml.neighbors.search._EXACT_UP_TO", 100)
    monkeypatch.setattr("mdaml.neighbors.trees._LEAF", 64)
    monkeypatch.setattr("mdaml.neighbors.shards._ROWS_OF_A_CELL", 100)


def search(X, y, n_shards, F=None, cluster=None):
    """Return the neighbours that shards find, 3 of the same class and 5 of others."""
    classes, cuts = Classes.from_labels("test", y), np.linspace(0, len(X), n_shards + 1).astype(int)
    own = [X[begin:end] for begin, end in pairwise(cuts)]
    F = np.eye(X.shape[1]) if F is None else F
    store = DaskStore(cluster or Serial(n_shards), own, cuts, X[0], "memory", shards=[])
    return store.nearest(F, classes, 3, 5)


def true_neighbors(X, y):
    classes = Classes.from_labels("test", y)
    Y = X[classes.rows]
    return [classes.nearest(Y, n, same=same)[0] for n, same in ((3, True), (5, False))]


@pytest.mark.usefixtures("small_cells")
@pytest.mark.parametrize("n_shards", [1, 2, 7])
@pytest.mark.parametrize("distance", [0.5, 20.0])
@pytest.mark.parametrize("sizes", [[1200, 900, 600], [2690, 9, 1], [30] * 90], ids=str)
def test_the_wanted_share_of_the_true_neighbours_is_found_shard_by_shard(sizes, distance, n_shards):
    rng = np.random.default_rng(0)
    y = rng.permuted(np.repeat(np.arange(len(sizes)), sizes))
    y[:50] = -1  # without a label
    X = rng.normal(size=(len(y), 6)) + distance * rng.normal(size=(len(sizes), 6))[y]
    for got, true in zip(search(X, y, n_shards), true_neighbors(X, y), strict=True):
        real = true >= 0
        hits = (got[:, :, None] == true[:, None, :]).any(axis=1)[real]
        assert hits.mean() >= 0.95 - 0.02  # the sample that ends the search has 400 rows
        np.testing.assert_array_equal((got >= 0).any(axis=1), real.any(axis=1))


@pytest.mark.usefixtures("small_cells")
def test_classes_that_cells_keep_apart_find_each_other():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 600)
    X = rng.normal(size=(1200, 2)) + 1e4 * y[:, None]
    near, far = search(X, y, 2)
    assert np.all(near >= 0)
    assert np.all((far < 600) == (np.arange(1200) >= 600)[:, None])


@pytest.mark.usefixtures("small_cells")
def test_neighbours_come_nearest_first_and_are_the_same_each_time():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 3)).astype(np.float32), rng.integers(0, 3, 1500)
    F, first = np.diag([1.0, 3.0, 0.0]), None
    for _ in range(2):
        found = search(X, y, 4, F)
        first = first or found
        for one, other in zip(first, found, strict=True):
            np.testing.assert_array_equal(one, other)
    Y = X[Classes.from_labels("test", y).rows] @ F
    for places in first:
        dists = np.linalg.norm(Y[:, None] - Y[places], axis=2)
        assert np.all(np.diff(dists, axis=1) >= -1e-6)


@pytest.mark.usefixtures("small_cells")
def test_every_worker_compares_about_as_many_rows_however_many_shards_there_are(monkeypatch):
    sizes = []

    def counted(X, bounds, rows, members, *args):
        sizes.append((len(members), len(X)))
        return improve(X, bounds, rows, members, *args)

    monkeypatch.setattr("mdaml.neighbors.trees.improve", counted)
    rng = np.random.default_rng(0)
    for n_shards in (2, 8):
        y = rng.integers(0, 3, 1000 * n_shards)
        search(rng.normal(size=(len(y), 2)), y, n_shards)
    members, compared = np.array(sizes).T
    assert np.all(np.abs(members - 1000) <= 50)
    assert np.all(compared <= 1000 + 512 + 600)  # members, landmarks, neighbours elsewhere


@pytest.mark.parametrize("values", [1, 2, 1000])
def test_cells_are_even_also_where_rows_are_equal(values):
    rng = np.random.default_rng(0)
    X = rng.integers(0, values, (4000, 1)) * np.ones((1, 3), np.float32)
    rows = Members.of(np.arange(4000), np.zeros(4000), X)
    cuts = grow_cells(rows.take(np.arange(0, 4000, 2)), 5, rng)
    sizes = np.bincount(rows.cells(cuts), minlength=5)
    assert sizes.sum() == 4000
    assert np.all(np.abs(sizes - 800) < 80)


@pytest.mark.parametrize("n_rows", [2000, 50])
def test_modes_counted_over_shards_are_those_of_one_memory(monkeypatch, n_rows):
    monkeypatch.setattr("mdaml.stores.mixture.MAX_ROWS_TO_COUNT", n_rows)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) + 20 * rng.integers(0, 2, (200, 1))
    supervision = Constraints.of_triplets(np.array([[0, 1, 2], [70, 71, 72], [150, 151, 0]]), 200)
    counts = [store.count_modes(8, np.random.RandomState(0)) for store in split(X, supervision, 3)]
    assert counts[0] == counts[1] >= 2


def test_shards_without_common_rows_need_one_round_and_no_message():
    apart = np.array([[0, 1, 2], [1, 2, 0], [3, 4, 5], [4, 5, 3]])
    store, _ = split(np.eye(6), Constraints.of_triplets(apart, 6), 2)
    assert len(store.borders[0].receivers) == 1
    assert [len(s.store.rows) for s in store.shards] == [3, 3]
    assert not any(len(b.held) or b.outgoing or b.is_shared.any() for b in store.borders)
    assert not any(b.is_read_by(t) for b in store.borders for t in range(2))


def test_a_shard_holds_only_the_rows_that_it_needs_and_shares_only_what_others_need():
    # Of the second block row 4 is similar and row 5 dissimilar to an anchor of the first.
    triplets = np.array([[0, 4, 5], [1, 2, 3], [5, 6, 7], [6, 7, 4]])
    store, _ = split(np.arange(8.0)[:, None], Constraints.of_triplets(triplets, 8), 2)
    assert store.cuts.tolist() == [0, 4, 8]
    first, second = store.shards
    assert first.store.rows[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert second.store.rows[:, 0].tolist() == [4, 5, 6, 7]
    # The anchor of the pair that row 4 is in, and row 4.
    for border, held in ((first.border, [4]), (second.border, [0])):
        assert np.flatnonzero(border.is_shared).tolist() == [0]
        assert border.held.tolist() == held
        assert len(border.receivers) == 2


def test_workers_are_told_how_much_they_keep():
    store, _ = split(np.ones((1000, 50)), Constraints.of_triplets(np.array([[0, 1, 2]]), 1000), 1)
    assert sys.getsizeof(store.shards[0]) > 1000 * 50 * 8


def test_workers_compute_in_memory_in_blocks_or_on_a_device_as_a_limit_allows():
    rows = SimpleNamespace(n_samples=100_000, n_features=100, dtype=np.dtype(np.float32))
    supervision = Constraints.of_triplets(np.arange(30_000).reshape(-1, 3), 100_000)
    posed = Posed(make_spec(3, 3.0, 300.0, 0.0), supervision, None, "given", "one triplet")

    def kind(limit, n_shards=4):
        with limit_memory(limit):
            return _kind(MDaML(), rows, posed, n_shards)

    assert kind(None) == kind("1 GB") == "memory"
    assert kind("150 MB") == "blocks"
    assert kind("150 MB", n_shards=40) == "memory"  # each needs less
    with pytest.raises(ValueError, match="limit_memory allows 50 MB"):
        kind("50 MB")


@pytest.mark.usefixtures("torch")
def test_workers_compute_on_a_device_if_it_is_asked_for():
    rows = SimpleNamespace(n_samples=1000, n_features=10, dtype=np.dtype(np.float32))
    supervision = Constraints.of_triplets(np.array([[0, 1, 2]]), 1000)
    posed = Posed(make_spec(3, 3.0, 300.0, 0.0), supervision, None, "given", "one triplet")
    for limit in (None, "1 GB"):
        with limit_memory(limit):
            assert _kind(MDaML(device="cpu"), rows, posed, 2) == "cpu"
    with limit_memory("1 MB"), pytest.raises(ValueError, match="limit_memory allows 1 MB"):
        _kind(MDaML(device="cpu"), rows, posed, 2)


# Fits


@pytest.fixture(scope="module")
def answers():
    X = np.random.default_rng(0).normal(size=(150, 5)) + 3.0
    triplets, _ = make_triplets(
        X, n_triplets=400, components=np.eye(5)[:2], wrong=0.1, random_state=0
    )
    return X, triplets


@pytest.fixture(scope="module")
def client():
    import distributed as dask

    with (
        dask.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client


def model(**options):
    """Return a model that takes few rounds, and none to choose an anchor."""
    cells = {"row": "comparisons", "n_modes": 3, "anchor": 0.03, "floor": 0.5}
    cells |= {"max_iter": 2, "max_inner_iter": 2, "random_state": 0, "tol": 0.0}
    return make_mdaml(**cells | options)


@pytest.fixture
def serial(monkeypatch):
    """Let a fit run over shards in this process, without Dask and much faster."""
    monkeypatch.setattr("mdaml.distributed.Cluster", lambda *_: Serial())
    monkeypatch.setattr("mdaml.distributed.check_client", lambda client: client)


def assert_same(one, other, rtol=1e-6):
    for name in ("components_", "centers_", "weights_", "history_", "lambda1_critical_"):
        wanted = getattr(one, name)
        np.testing.assert_allclose(
            getattr(other, name), wanted, rtol=rtol, atol=rtol * np.abs(wanted).max(), err_msg=name
        )
    for name in ("triplets_", "comparisons_", "comparison_weights_", "n_iter_", "n_features_in_"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("pass_starts_", "n_samples_seen_", "n_comparisons_seen_", "n_modes_"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    # A weight that is that of a mean comparison is a sum over shards.
    assert one.triplet_weight_ == pytest.approx(other.triplet_weight_, rel=1e-12)
    assert set(vars(one)) == set(vars(other))


# Two rounds of two steps are enough to compare.
quick = pytest.mark.filterwarnings(
    "ignore:.*increase max_iter:sklearn.exceptions.ConvergenceWarning"
)


def forms(answers):
    """Return what can be said, in every form."""
    X, triplets = answers
    rng = np.random.default_rng(1)
    quadruplets = np.column_stack([triplets[:100], (triplets[:100, 1:].sum(axis=1) + 1) % len(X)])
    quadruplets = quadruplets[quadruplets[:, 2] != quadruplets[:, 3]]
    pairs = {"pairs": triplets[:120, :2], "pair_labels": rng.choice([1, -1], 120)}
    mixed = pairs | {"triplets": triplets[:50], "quadruplets": quadruplets[:50]}
    return {
        "labels": {"y": (X[:, 0] > 3.0).astype(int) + (X[:, 1] > 3.0)},
        "triplets": {"triplets": triplets},
        "weighted": {"triplets": triplets, "constraint_weight": rng.uniform(0.2, 3, len(triplets))},
        "pairs": pairs,
        "quadruplets": {"quadruplets": quadruplets},
        "constraints": {"constraints": Constraints(**mixed, n_points=len(X))},
    }


@quick
@pytest.mark.usefixtures("serial")
def test_persons_are_weighed_as_in_one_memory(answers):
    X, triplets = answers
    who = np.arange(len(triplets)) % 3
    options = {"n_modes": 2, "anchor": 0.1, "floor": 0.5, "init_modes": "kmeans"}
    alone = model(**options).fit(X, triplets=triplets, who=who)
    spread = fit(model(**options), X, triplets=triplets, who=who, n_shards=2)
    np.testing.assert_allclose(spread.persons_["error"], alone.persons_["error"], atol=1e-3)
    assert np.all(np.diff(spread.history_) <= 1e-9 * spread.history_[:-1])


@pytest.mark.usefixtures("serial")
@pytest.mark.filterwarnings("ignore::UserWarning")  # some cannot be met
@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize(
    "form", ["labels", "triplets", "weighted", "pairs", "quadruplets", "constraints"]
)
def test_the_fit_to_any_form_at_any_rank_is_that_of_one_memory(answers, form, rank):
    X, supervision = answers[0], forms(answers)[form]
    options = {"n_components": rank}
    options |= {"row": "eq. 7", "anchor": 0.0} if form == "labels" else {}
    local = model(**options).fit(X, **supervision)
    for n_shards in (1, 2, 5):
        assert_same(local, fit(model(**options), X, **supervision, n_shards=n_shards))


@quick
@pytest.mark.usefixtures("serial")
@pytest.mark.parametrize(
    "options",
    [
        {"eta": 2.0, "init_modes": "kmeans", "init_metric": "whitened"},
        {"row": "eq. 7", "eta": 2.0, "init_modes": "kmeans", "init_metric": "whitened"},
        {"n_modes": 1, "floor": 1.0},
        {"n_modes": "auto"},
        {"row": "comparisons", "n_modes": "auto", "anchor": "auto"},
    ],
    ids=str,
)
def test_the_fit_with_other_options_is_that_of_one_memory(answers, options):
    X, triplets = answers
    local = model(**options).fit(X, triplets=triplets)
    assert_same(local, fit(model(**options), X, triplets=triplets))


@quick
@pytest.mark.filterwarnings("ignore:The learned distance agrees:UserWarning")
@pytest.mark.usefixtures("serial")
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_a_start_of_the_wrong_width_is_scaled_as_in_one_memory(answers, unit):
    X, triplets = unit * answers[0], answers[1]
    eq_7 = {"row": "eq. 7", "anchor": 0.0, "ridge": 0.0}
    local = model(**eq_7).fit(X, triplets=triplets)
    with pytest.warns(UserWarning, match="could not be met"):
        model(**eq_7, init_metric="identity").fit(X, triplets=triplets)
    assert_same(local, fit(model(**eq_7), X, triplets=triplets))
    anchored = model(ridge=0.0).fit(X, triplets=triplets)
    assert_same(anchored, fit(model(ridge=0.0), X, triplets=triplets))


@quick
@pytest.mark.usefixtures("serial")
def test_the_start_may_be_given_or_estimated_from_some_rows(answers, monkeypatch):
    X, triplets = answers
    weights = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    metric = np.diag([1.0, 2.0, 1.0, 1.0, 3.0])
    options = {"n_modes": weights, "init_metric": metric, "max_iter": 1}
    local = model(**options).fit(X, triplets=triplets)
    assert_same(local, fit(model(**options), X, triplets=triplets))
    monkeypatch.setattr("mdaml.stores.mixture.MAX_ROWS_FOR_START", 60)
    local = model(max_iter=1).fit(X, triplets=triplets)
    assert_same(local, fit(model(max_iter=1), X, triplets=triplets))


@quick
@pytest.mark.usefixtures("serial")
def test_single_precision_stays_single(answers):
    X, triplets = answers[0].astype(np.float32), answers[1]
    local = model(triplet_weight=6.0).fit(X, triplets=triplets)
    there = fit(model(triplet_weight=6.0), X, triplets=triplets)
    assert there.components_.dtype == there.weights_.dtype == np.float32
    assert_same(local, there, rtol=1e-3)


@quick
@pytest.mark.usefixtures("serial")
def test_a_limit_of_memory_is_kept_by_blocks(answers, monkeypatch):
    X, triplets = answers
    local = model().fit(X, triplets=triplets)
    monkeypatch.setattr("mdaml.distributed.must_spare", lambda *_: True)
    with limit_memory("1 GB"):
        assert_same(local, fit(model(), X, triplets=triplets))


@quick
@pytest.mark.usefixtures("serial", "torch")
def test_workers_may_have_devices(answers):
    X, triplets = answers
    weights = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    local = model(n_modes=weights, device="cpu").fit(X, triplets=triplets)
    there = fit(model(n_modes=weights, device="cpu"), X, triplets=triplets)
    np.testing.assert_allclose(there.history_, local.history_, rtol=1e-3)
    assert there.components_.dtype == local.components_.dtype == np.float64


@quick
@pytest.mark.usefixtures("serial")
def test_a_model_fitted_on_a_cluster_goes_on_by_chunks(answers):
    X, triplets = answers
    local = model().fit(X, triplets=triplets).partial_fit(X + 0.1, triplets=triplets)
    there = fit(model(), X, triplets=triplets)
    assert_same(local, there.partial_fit(X + 0.1, triplets=triplets), rtol=1e-5)


# On a cluster of threads, then of processes.


@quick
def test_the_fit_on_a_cluster_is_that_of_one_memory(client, answers):
    X, supervision, options = (
        answers[0],
        forms(answers)["labels"],
        {"n_components": 2, "max_iter": 1, "row": "labels", "anchor": 0.0, "shrinkage": 0.0},
    )
    local = model(**options).fit(X, **supervision)
    assert_same(local, fit(model(**options), X, **supervision, client=client, n_shards=5))


@pytest.mark.usefixtures("small_cells")
def test_neighbours_on_a_cluster_are_those_of_shards_in_this_process(client):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 3)), rng.integers(0, 3, 900)
    cluster = Cluster(client, 60.0)
    cluster.place(3)
    for got, wanted in zip(search(X, y, 3, cluster=cluster), search(X, y, 3), strict=True):
        np.testing.assert_array_equal(got, wanted)


@quick
def test_x_may_be_a_dask_array_or_a_list_of_futures(client, answers):
    import dask.array as da

    X, triplets = answers
    local = model(max_iter=1).fit(X, triplets=triplets)
    blocks = client.scatter(np.array_split(X, 3))
    for blocks_of in (da.from_array(X, chunks=(40, 2)), blocks):
        assert_same(local, fit(model(max_iter=1), blocks_of, triplets=triplets, client=client))


def test_many_parts_are_added_up_on_the_workers(client):
    cluster = Cluster(client, 10.0)
    cluster.place(20)
    (total,) = cluster.total(ones_times, [np.float64(i) for i in range(20)])
    assert np.array_equal(total, np.full(3, 190.0))


def ones_times(factor):
    return (factor * np.ones(3),)


@quick
def test_the_callback_may_stop_the_fit_and_an_interrupt_leaves_nothing_behind(client, answers):
    X, triplets = answers
    stopped = model(max_iter=50, callback=lambda n, _: n == 1)
    assert fit(stopped, X, triplets=triplets, client=client).n_iter_ == 1

    def interrupt(*_):
        raise KeyboardInterrupt

    interrupted = model(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit(interrupted, X, triplets=triplets, client=client)
    assert not hasattr(interrupted, "components_")
    assert eventually(lambda: client.run_on_scheduler(n_tasks) == 0)


def n_tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


def eventually(fact, seconds=20.0):
    end = time.monotonic() + seconds
    while not fact() and time.monotonic() < end:
        time.sleep(0.05)
    return fact()


@quick
def test_warnings_point_at_the_call(client, answers):
    X, triplets = answers
    low = model(row="eq. 7", anchor=0.0, triplet_weight=1e-6, max_iter=1)
    with pytest.warns(UserWarning, match="below lambda1_critical_") as caught:
        fit(low, X, triplets=triplets, client=client)
    assert caught[-1].filename == __file__


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"estimator": GMML()}, TypeError, "must be an MDaML"),
        ({"estimator": MDaML}, TypeError, "must be an MDaML"),
        ({"estimator": MDaML(n_modes=0)}, ValueError, "n_modes"),
        ({"estimator": MDaML(n_components=6)}, ValueError, "between 1 and 5"),
        ({"n_shards": 0}, ValueError, "n_shards"),
        ({"timeout": 0.0}, ValueError, "timeout"),
        ({"client": "localhost:8786"}, TypeError, "client must be a dask.distributed.Client"),
        ({"triplets": [[0, 1, 200]]}, ValueError, "triplets name row 200, but X has 150 rows"),
        ({"y": np.zeros(150)}, ValueError, "either y or triplets, not both"),
        ({"triplets": None}, ValueError, "MDaML requires y to be passed"),
        ({"triplets": None, "y": [0, 1]}, ValueError, "one label for each of the 150 rows"),
        ({"triplets": None, "pairs": [[0, 1]]}, ValueError, "pair_labels must hold one number"),
        ({"constraint_weight": [1.0]}, ValueError, "constraint_weight must hold one positive"),
        ({"constraints": [[0, 1, 2]]}, TypeError, "constraints must be mdaml.Constraints"),
        ({"X": np.ones(5)}, ValueError, "Expected 2D array"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_mistakes_are_refused_in_words(client, answers, change, error, message):
    X, triplets = answers
    arguments = {"estimator": model(), "X": X, "triplets": triplets, "client": client} | change
    estimator, X = arguments.pop("estimator"), arguments.pop("X")
    with pytest.raises(error, match=message):
        fit(estimator, X, **arguments)


def test_a_limit_that_is_too_low_is_refused_in_words(client, answers):
    X, triplets = answers
    with limit_memory(1), pytest.raises(ValueError, match="limit_memory allows 0 MB"):
        fit(model(), X, triplets=triplets, client=client)


def test_mistakes_in_blocks_are_refused_in_words(client, answers):
    import dask.array as da

    X, triplets = answers
    broken = X.copy()
    broken[77, 3] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        fit(model(), da.from_array(broken, chunks=(50, 5)), triplets=triplets, client=client)
    with pytest.raises(ValueError, match="two dimensions"):
        fit(model(), da.ones((4, 4, 4)), triplets=triplets, client=client)
    uneven = client.scatter([X[:70], X[70:, :3]])
    with pytest.raises(ValueError, match="the same number of columns"):
        fit(model(), uneven, triplets=triplets, client=client)


def test_without_dask_the_extra_is_named(monkeypatch, answers):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r'pip install "mdaml\[dask\]"'):
        fit(model(), answers[0], triplets=answers[1])


# Losses.


@quick
@pytest.mark.slow
def test_a_worker_process_that_is_killed_is_made_good(answers):
    import distributed as dask

    X, triplets = answers
    local = model().fit(X, triplets=triplets)
    killed = []
    with (
        dask.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        for nanny in cluster.workers.values():
            nanny.auto_restart = False  # the other worker is enough

        def kill(iteration, _):
            if iteration == 1:
                killed.append(min(pids))  # it has the first shard
                os.kill(pids[killed[0]], signal.SIGKILL)

        there = fit(model(callback=kill), X, triplets=triplets, client=client)
        assert killed[0] not in client.nthreads()
    assert_same(local, there.set_params(callback=None))


@pytest.fixture
def doomed():
    """A cluster of threads, one worker, for a test to destroy."""
    import distributed as dask

    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0"}
    with dask.LocalCluster(n_workers=1, **options) as cluster, dask.Client(cluster) as client:
        yield cluster, client


async def remove_workers(dask_scheduler, addresses):
    for address in addresses:
        await dask_scheduler.remove_worker(address, stimulus_id="test")


@quick
@pytest.mark.parametrize("part", ["cluster", "client", "workers"])
def test_a_cluster_that_is_gone_ends_the_fit_in_words(doomed, answers, part, monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.1)
    cluster, client = doomed

    def leave(iteration, _):
        if iteration == 1 and part == "workers":
            client.run_on_scheduler(remove_workers, addresses=list(client.nthreads()))
        elif iteration == 1:
            {"cluster": cluster, "client": client}[part].close()

    unlucky = model(callback=leave)
    message = "No worker of the Dask cluster" if part == "workers" else "cluster is gone"
    with pytest.raises(RuntimeError, match=message):
        fit(unlucky, answers[0], triplets=answers[1], client=client, timeout=0.2)
    assert not hasattr(unlucky, "components_")


@quick
def test_rows_that_nobody_can_load_again_are_missed_in_words(doomed, answers):
    cluster, client = doomed
    blocks = client.scatter(np.array_split(answers[0], 2))
    holders = list(client.nthreads())

    def lose(iteration, _):
        if iteration == 1:
            cluster.scale(2)
            client.wait_for_workers(2)
            client.run_on_scheduler(remove_workers, addresses=holders)

    with pytest.raises(RuntimeError, match="scattered were lost with their worker"):
        fit(model(callback=lose), blocks, triplets=answers[1], client=client)


def test_a_cluster_without_workers_is_not_waited_for_for_ever(answers):
    import distributed as dask

    with (
        dask.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        dask.Client(cluster) as client,
        pytest.raises(RuntimeError, match="had no worker for"),
    ):
        fit(model(), answers[0], triplets=answers[1], client=client, timeout=0.1)


def test_a_closed_client_is_refused(doomed, answers):
    _, client = doomed
    client.close()
    with pytest.raises(ValueError, match="client is closed"):
        fit(model(), answers[0], triplets=answers[1], client=client)

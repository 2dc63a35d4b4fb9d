"""Fits over shards: the plan and the sums without a cluster, then real ones on Dask."""

import os
import signal
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdaml import GMML, MDaML, modes
from mdaml.constraints import TripletSet
from mdaml.datasets import make_triplets
from mdaml.distributed import _cluster, _plan, _shard, fit
from mdaml.modes import Modes, Neighbors, update_weights

seeds = st.integers(0, 2**32 - 1)


def split(X, triplets, n_shards):
    """The shards of a problem, and where they are cut, without a cluster."""
    cuts = _plan.cut_rows(triplets[:, 0], len(X), n_shards)
    owner = np.searchsorted(cuts, triplets[:, 0], side="right") - 1
    grouped = [
        _shard.group(triplets[owner == i], begin, end, len(X))
        for i, (begin, end) in enumerate(pairwise(cuts))
    ]
    plan = _plan.make_plan([_shard.survey(g) for g in grouped], cuts)
    nowhere = np.zeros(X.shape[1])
    shards = [
        _shard.assemble(i, g, plan.borders[i], nowhere, [np.arange(len(g.rows))], [X[g.rows]])
        for i, g in enumerate(grouped)
    ]
    return shards, plan, cuts


def tables_of(shards, plan, weights, eta, cuts):
    """First tables that know the powers of all rows they hold."""
    parts = [weights[begin:end] for begin, end in pairwise(cuts)]
    tables = [
        _shard.first_table(shard, part, 0, 1, eta)
        for shard, part in zip(shards, parts, strict=True)
    ]
    news = [
        _shard.post(s, table, 0, plan.n_rounds) for s, table in zip(shards, tables, strict=True)
    ]
    return [
        _shard.hear(s, table, [news[other] for other in s.border.held])
        for s, table in zip(shards, tables, strict=True)
    ]


@given(seeds, st.integers(1, 12), st.integers(3, 40), st.integers(1, 60))
def test_cuts_cover_all_rows_and_leave_no_block_without_an_anchor(
    seed, n_shards, n_samples, n_triplets
):
    anchors = np.random.default_rng(seed).integers(0, n_samples, n_triplets)
    cuts = _plan.cut_rows(anchors, n_samples, n_shards)
    assert cuts[0] == 0
    assert cuts[-1] == n_samples
    assert np.all(np.histogram(anchors, [*cuts[:-1], n_samples])[0] > 0)
    assert len(cuts) - 1 == min(n_shards, len(np.unique(anchors)))


def test_cuts_balance_rows_and_triplets():
    anchors = np.repeat(np.arange(1000), 7)
    assert np.all(np.abs(np.diff(_plan.cut_rows(anchors, 1000, 4)) - 250) <= 1)


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 6), st.sampled_from([2.0, 3.0]))
def test_rounds_with_messages_give_the_weights_of_one_memory(random_problem, seed, n_shards, eta):
    rng = np.random.default_rng(seed)
    one = random_problem(seed, n_samples=24, n_triplets=int(rng.integers(1, 60)), eta=eta)
    weights = modes.positive_shares(one.weights, float)
    shards, plan, cuts = split(one.X, one.triplets, n_shards)
    tables = tables_of(shards, plan, weights, eta, cuts)
    F = rng.normal(size=(4, 4))
    measured = [_shard.measure(shard, F, one.centers) for shard in shards]
    prices = []
    for t in range(len(shards)):
        sent = [
            _shard.tell_losses(shard, of, t)
            for shard, of in zip(shards, measured, strict=True)
            if t in shard.border.outgoing
        ]
        prices.append(_shard.price(measured[t], sent, len(one.X), 0.7))
    unheard = [[] for _ in shards]
    for turn in range(plan.n_rounds):
        for t, shard in enumerate(shards):
            args = (unheard[t], prices[t], turn, eta)
            if shard.border.rounds[turn] < shard.border.rounds[turn + 1]:
                tables[t], unheard[t] = _shard.update_round(shard, tables[t], *args), []
        for s, targets in enumerate(plan.receivers):
            for t in targets[turn]:
                unheard[t].append(_shard.post(shards[s], tables[s], turn, turn + 1))
    for t, shard in enumerate(shards):
        tables[t] = _shard.hear(shard, tables[t], unheard[t])

    grouped = TripletSet.from_triplets(one.triplets, len(one.X))
    whole = update_weights(
        Modes(one.centers, weights, weights**eta),
        np.concatenate([m.sq_dists for m in measured]) / len(one.X),
        grouped.losses(one.X @ F) * 0.7,
        Neighbors.from_graph(grouped.near_graph()),
        eta,
    )
    np.testing.assert_allclose(
        np.concatenate([t.weights for t in tables]), whole.weights, rtol=1e-9
    )
    importance = np.sum([_shard.weigh(s, t).sum() for s, t in zip(shards, tables, strict=True)])
    np.testing.assert_allclose(importance, grouped.importances(whole.powers).sum(), rtol=1e-9)


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(1, 6))
def test_sums_over_shards_are_those_of_one_memory(random_problem, seed, n_shards):
    one = random_problem(seed, n_samples=30)
    shards, plan, cuts = split(one.X, one.triplets, n_shards)
    tables = tables_of(shards, plan, one.weights, 3.0, cuts)
    whole = TripletSet.from_triplets(one.triplets, len(one.X))
    importance = whole.importances(one.weights**3.0)
    scale = np.array([1.0, 0.5, 2.0, 1.5])
    loss, product = whole.gradient(one.X, scale**2, importance)
    parts = [
        _shard.gradient(s, s.X, scale, _shard.weigh(s, t))
        for s, t in zip(shards, tables, strict=True)
    ]
    total, half = _shard.add(*parts)
    np.testing.assert_allclose(total, loss, rtol=1e-9)
    wanted = one.X.T @ product
    np.testing.assert_allclose(half + half.T, wanted + wanted.T, rtol=1e-8, atol=1e-9)


def test_shards_without_common_rows_need_one_round_and_no_message():
    apart = np.array([[0, 1, 2], [1, 2, 0], [3, 4, 5], [4, 5, 3]])
    shards, plan, _ = split(np.eye(6), apart, 2)
    assert plan.n_rounds == 1
    assert [len(s.X) for s in shards] == [3, 3]
    assert not any(s.border.held or s.border.outgoing or len(s.border.shared) for s in shards)


def test_a_shard_holds_only_the_rows_that_it_needs_and_shares_only_what_others_need():
    # Of the second block row 4 is similar and row 5 dissimilar to an anchor of the first.
    triplets = np.array([[0, 4, 5], [1, 2, 3], [5, 6, 7], [6, 7, 4]])
    shards, plan, cuts = split(np.arange(8.0)[:, None], triplets, 2)
    assert cuts.tolist() == [0, 4, 8]
    assert shards[0].X[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert shards[1].X[:, 0].tolist() == [4, 5, 6, 7]
    assert shards[0].border.shared.tolist() == [0]  # the anchor of the pair that row 4 is in
    assert shards[1].border.shared.tolist() == [0]  # row 4
    assert plan.n_rounds == 2


def test_workers_are_told_how_much_they_keep():
    shards, _, _ = split(np.ones((1000, 50)), np.array([[0, 1, 2]]), 1)
    assert sys.getsizeof(shards[0]) > 1000 * 50 * 8


# On a cluster of threads, then of processes.


@pytest.fixture(scope="module")
def answers():
    X = np.random.default_rng(0).normal(size=(150, 5)) + 3.0
    triplets, _ = make_triplets(
        X, n_triplets=400, components=np.eye(5)[:2], wrong=0.1, random_state=0
    )
    return X, triplets


def test_without_a_client_one_is_asked_for(answers):
    pytest.importorskip("distributed")
    with pytest.raises(ValueError, match="no Dask client yet"):
        fit(model(), answers[0], triplets=answers[1])  # before there is one


@pytest.fixture(scope="module")
def client():
    dask = pytest.importorskip("distributed")
    with (
        dask.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client


def model(**options):
    defaults = {"n_modes": 3, "max_iter": 2, "max_inner_iter": 2, "random_state": 0, "tol": 0.0}
    return MDaML(**defaults | options)


def assert_same(one, other, rtol=1e-6):
    for name in ("components_", "centers_", "weights_", "history_", "lambda1_critical_"):
        wanted = getattr(one, name)
        np.testing.assert_allclose(
            getattr(other, name), wanted, rtol=rtol, atol=rtol * np.abs(wanted).max(), err_msg=name
        )
    for name in ("triplets_", "n_iter_", "n_features_in_", "triplet_weight_", "pass_starts_"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert set(vars(one)) == set(vars(other))


# Two rounds of two steps are enough to compare.
quick = pytest.mark.filterwarnings(
    "ignore:.*increase max_iter:sklearn.exceptions.ConvergenceWarning"
)


@quick
@pytest.mark.parametrize(
    "options",
    [
        {"n_shards": 1},
        {"n_shards": 5},
        {"eta": 2.0, "init": "kmeans", "init_metric": "whitened"},
        {"n_modes": 1, "n_shards": 2},
    ],
    ids=str,
)
def test_the_fit_is_that_of_one_memory(client, answers, options):
    X, triplets = answers
    options = dict(options)
    n_shards = options.pop("n_shards", None)
    local = model(**options).fit(X, triplets=triplets)
    there = fit(model(**options), X, triplets=triplets, client=client, n_shards=n_shards)
    assert_same(local, there)


@quick
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_a_start_of_the_wrong_width_is_scaled_as_in_one_memory(client, answers, unit):
    X, triplets = unit * answers[0], answers[1]
    local = model(ridge=0.0).fit(X, triplets=triplets)
    with pytest.warns(UserWarning, match="could not be met"):
        model(ridge=0.0, init_metric="identity").fit(X, triplets=triplets)
    assert_same(local, fit(model(ridge=0.0), X, triplets=triplets, client=client))


@quick
def test_x_may_be_a_dask_array_or_a_list_of_futures(client, answers):
    da = pytest.importorskip("dask.array")
    X, triplets = answers
    local = model().fit(X, triplets=triplets)
    blocks = client.scatter(np.array_split(X, 3))
    for blocks_of in (da.from_array(X, chunks=(40, 2)), blocks):
        assert_same(local, fit(model(), blocks_of, triplets=triplets, client=client))


@quick
def test_the_start_may_be_given_or_estimated_from_some_rows(client, answers, monkeypatch):
    X, triplets = answers
    weights = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    metric = np.diag([1.0, 2.0, 1.0, 1.0, 3.0])
    options = {"init": weights, "init_metric": metric, "max_iter": 1}
    local = model(**options).fit(X, triplets=triplets)
    assert_same(local, fit(model(**options), X, triplets=triplets, client=client))
    monkeypatch.setattr(modes, "MAX_ROWS_FOR_START", 60)
    local = model(max_iter=1).fit(X, triplets=triplets)
    assert_same(local, fit(model(max_iter=1), X, triplets=triplets, client=client))


@quick
def test_single_precision_stays_single(client, answers):
    X, triplets = answers[0].astype(np.float32), answers[1]
    local = model().fit(X, triplets=triplets)
    there = fit(model(), X, triplets=triplets, client=client)
    assert there.components_.dtype == there.weights_.dtype == np.float32
    assert_same(local, there, rtol=1e-3)


def test_many_parts_are_added_up_on_the_workers(client):
    cluster = _cluster.Cluster(client, 10.0)
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
    with pytest.warns(UserWarning, match="below lambda1_critical_") as caught:
        fit(model(triplet_weight=1e-6, max_iter=1), X, triplets=triplets, client=client)
    assert caught[-1].filename == __file__


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"estimator": GMML()}, TypeError, "must be an MDaML"),
        ({"estimator": MDaML}, TypeError, "must be an MDaML"),
        ({"estimator": MDaML(n_modes=0)}, ValueError, "n_modes"),
        ({"estimator": MDaML(device="cuda")}, ValueError, "Set device=None"),
        ({"estimator": MDaML(memory_limit="1 GB")}, ValueError, "Set memory_limit=None"),
        ({"estimator": MDaML(n_components=1)}, ValueError, "is a metric of low rank"),
        ({"n_shards": 0}, ValueError, "n_shards"),
        ({"timeout": 0.0}, ValueError, "timeout"),
        ({"client": "localhost:8786"}, TypeError, "client must be a dask.distributed.Client"),
        ({"triplets": [[0, 1, 200]]}, ValueError, "triplets name row 200, but X has 150 rows"),
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


def test_mistakes_in_blocks_are_refused_in_words(client, answers):
    da = pytest.importorskip("dask.array")
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
    dask = pytest.importorskip("distributed")
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
    dask = pytest.importorskip("distributed")
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0"}
    with dask.LocalCluster(n_workers=1, **options) as cluster, dask.Client(cluster) as client:
        yield cluster, client


async def remove_workers(dask_scheduler, addresses):
    for address in addresses:
        await dask_scheduler.remove_worker(address, stimulus_id="test")


@quick
@pytest.mark.parametrize("part", ["cluster", "client", "workers"])
def test_a_cluster_that_is_gone_ends_the_fit_in_words(doomed, answers, part):
    cluster, client = doomed

    def leave(iteration, _):
        if iteration == 1 and part == "workers":
            client.run_on_scheduler(remove_workers, addresses=list(client.nthreads()))
        elif iteration == 1:
            {"cluster": cluster, "client": client}[part].close()

    unlucky = model(callback=leave)
    message = "No worker of the Dask cluster" if part == "workers" else "cluster is gone"
    with pytest.raises(RuntimeError, match=message):
        fit(unlucky, answers[0], triplets=answers[1], client=client, timeout=1.0)
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
    dask = pytest.importorskip("distributed")
    with (
        dask.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        dask.Client(cluster) as client,
        pytest.raises(RuntimeError, match="had no worker for"),
    ):
        fit(model(), answers[0], triplets=answers[1], client=client, timeout=0.5)


def test_a_closed_client_is_refused(doomed, answers):
    _, client = doomed
    client.close()
    with pytest.raises(ValueError, match="client is closed"):
        fit(model(), answers[0], triplets=answers[1], client=client)

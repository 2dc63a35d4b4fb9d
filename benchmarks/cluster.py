"""What a fit over Dask workers costs: weak scaling, and the terms that a prediction is made of.

work     Weak scaling in processor time: a whole fit with 1 worker, and with 2 and twice the data.
         Tasks run one after another in this process; every worker has a clock.
weak     Rounds from triplets by the clock, on worker processes of one thread.
terms    Processor time of one thread for each kind of work on the 64th part of 10^9 triplets, and
         of driver and scheduler for a task; from these, the time of such a fit on 64 workers.

``python benchmarks/cluster.py [PART ...] [--out FILE]``; all by default. Wall times mean little
beside other busy processes; processor times mean more.
"""

import argparse
import json
import os
import pickle
import platform
import time
import warnings
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from unittest.mock import patch

import numpy as np
from distributed import Client, LocalCluster
from sklearn.exceptions import ConvergenceWarning

from mdaml import PRESETS, MDaML, Partners
from mdaml.constraints import Constraints
from mdaml.distributed import fit
from mdaml.kernels.products import one_blas_thread
from mdaml.kernels.threads import threads_at_most
from mdaml.neighbors.shards import Members
from mdaml.neighbors.trees import NeighborLists
from mdaml.stores.dask import shard as shards
from mdaml.stores.dask.cluster import Cluster, Remote
from mdaml.stores.dask.plan import make_borders

K, D, SIMILAR, DISSIMILAR = 10, 64, 5, 10
REACH = 300  # partners are at most so many rows away
warnings.simplefilter("ignore", ConvergenceWarning)


def load(n_samples, n_features=D):
    """Ten classes in a sorted stream: partners of a row are other rows nearby, 5 x 10 triplets."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n_samples)
    X = 2 * rng.normal(size=(10, n_features))[y] + rng.normal(size=(n_samples, n_features))
    anchors = np.arange(n_samples)[:, None]
    # Distinct steps of at most REACH rows, so that the members of a triplet are distinct too.
    width = REACH // (SIMILAR + DISSIMILAR)
    steps = rng.integers(1, width, (n_samples, SIMILAR + DISSIMILAR))
    steps = rng.permuted(steps + width * np.arange(steps.shape[1]), axis=1)
    others = (anchors + steps) % n_samples
    triplets = np.empty((n_samples, SIMILAR, DISSIMILAR, 3), np.int32)
    triplets[..., 0] = anchors[:, :, None]
    triplets[..., 1] = others[:, :SIMILAR, None]
    triplets[..., 2] = others[:, None, SIMILAR:]
    return X.astype(np.float32), triplets.reshape(-1, 3)


def embeddings(n_samples, n_features=D, n_directions=12):
    """Ten classes of twenty kinds, in random order: like embeddings, of twelve directions."""
    rng = np.random.default_rng(0)
    y, kind = rng.integers(0, 10, n_samples), rng.integers(0, 20, n_samples)
    directions = rng.normal(size=(n_directions, n_features)) / n_directions**0.5
    kinds = 1.5 * rng.normal(size=(10, 20, n_directions))
    X = (kinds[y, kind] + rng.normal(size=(n_samples, n_directions))) @ directions
    return (X + 0.1 * rng.normal(size=X.shape)).astype(np.float32), y


def problem(form, n_samples):
    """X and what is said of it: triplets, or labels with neighbours to be searched twice."""
    if form == "labels":
        X, y = embeddings(n_samples)
        return X, {"y": y}
    X, triplets = load(n_samples)
    return X, {"triplets": triplets}


def model(n_rounds=4, **options):
    # No anchor: to choose one takes more fits, and how many depends on the data.
    partners = Partners(n_similar=SIMILAR, n_dissimilar=DISSIMILAR)
    goal = replace(PRESETS["paper"], init_metric="auto", init_modes="kmeans", partners=partners)
    return MDaML(K, goal=goal, max_iter=n_rounds, tol=0, random_state=0, **options)


class OneByOne(Cluster):
    """Workers in this process, one after another: seconds of each, of what is sent, of tasks."""

    n_workers = None  # hides the property

    def __init__(self, n_workers):
        self.n_workers, self._keys = n_workers, count()
        self.work, self.sending = np.zeros(n_workers), np.zeros(n_workers)
        self.calls, self.n_tasks, self.n_passes, self._there = {}, 0, 0, set()

    def __exit__(self, *_):
        pass

    def place(self, n_shards):
        self._workers = list(range(n_shards))

    def task(self, index, function, *args):
        args = [self._arrived(arg, index) for arg in args]
        begin = time.thread_time()
        with threads_at_most(1):
            value = function(*args)
        took = time.thread_time() - begin
        self.work[index] += took
        # What a task is called on the dashboard, or the method of a store.
        name = args[1] if function in (shards.call, shards.call_sums) else function.__name__
        self.calls.setdefault(name, [[] for _ in self.work])[index].append(took)
        self.n_tasks += 1
        return Remote((next(self._keys), index), value)

    def fetch(self, parts):
        self.n_passes += 1
        return [part.future for part in parts]

    def _arrived(self, arg, index):
        """Return an argument; one of another worker is written and read again, once."""
        if type(arg) in (list, tuple):
            return [self._arrived(one, index) for one in arg]
        if not isinstance(arg, Remote):
            return arg
        key, home = arg.key
        if home != index and (key, index) not in self._there:
            self._there.add((key, index))
            begin = time.thread_time()
            buffers = []
            text = pickle.dumps(arg.future, protocol=5, buffer_callback=buffers.append)
            buffers = [bytearray(buffer) for buffer in buffers]  # as they come off the wire
            pickle.loads(text, buffers=buffers)
            self.sending[[home, index]] += (time.thread_time() - begin) / 2
        return arg.future


def worked(form, n_workers, n_samples):
    """Processor seconds of a whole fit: the busiest worker, the driver, and what each sends."""
    X, supervision = problem(form, n_samples * n_workers)
    there = OneByOne(n_workers)
    with (
        patch("mdaml.distributed.Cluster", lambda *_: there),
        patch("mdaml.distributed.check_client", lambda client: client),
    ):
        begin = time.thread_time()
        fit(model(), X, **supervision)
        driver = time.thread_time() - begin - there.work.sum() - there.sending.sum()
    seconds = {name: max(map(sum, by)) for name, by in there.calls.items()}
    return {
        # Of the busiest worker, for each kind of work.
        "seconds": seconds | {"sending": float(there.sending.max()), "driver": float(driver)},
        "trial": {name: max(map(np.median, there.calls[name])) for name in TRIALS},
        "n_trials": {name: len(there.calls[name][0]) for name in TRIALS},
        "n_tasks": there.n_tasks,
    }


# How often these are done depends on the data: a fit with twice as many may need more or fewer.
TRIALS = ("loss_and_half", "losses_along", "project")


def work(n_samples, repeats=3):
    """Efficiency of 2 workers with twice the data, from triplets and from labels.

    Least seconds of several fits for each kind of work, and as many trials with 2 workers as with
    1: trials take their median.
    """
    result = {}
    for form in ("triplets", "labels"):
        print(f"\nWhole fit from {form}: {n_samples} rows of {D} features a worker", flush=True)
        worked(form, 1, 1000)  # compiles
        runs = [[worked(form, n, n_samples) for n in (1, 2)] for _ in range(repeats)]
        n_trials, least = runs[0][0]["n_trials"], []
        for n, column in enumerate(zip(*runs, strict=True), 1):
            seconds = {
                name: min(run["seconds"][name] for run in column) for name in column[0]["seconds"]
            }
            seconds |= {
                name: n_trials[name] * min(run["trial"][name] for run in column) for name in TRIALS
            }
            least.append(seconds)
            print(f"{n} worker(s): {sum(seconds.values()):.2f} s of processor time, of which")
            largest = sorted(seconds.items(), key=lambda item: -item[1])[:12]
            print("  ", ", ".join(f"{name} {t:.2f}" for name, t in largest), flush=True)
        parts = {
            "neighbours": ["improved", "_exactly", "missing", "among", "joined", "chosen", "of"],
            "trials": TRIALS,
            "driver": ["driver"],
            "all": list(least[0]),
        }
        totals = {
            part: [sum(seconds.get(name, 0.0) for name in names) for seconds in least]
            for part, names in parts.items()
        }
        totals["all"][1] = sum(least[1].values())
        for part, (one, two) in totals.items():
            if one > 0:
                print(f"{part:12s} {one:6.2f} s, {two:6.2f} s: efficiency {one / two:.2f}")
        tasks = [run["n_tasks"] for run in runs[0]]
        result[form] = {"n_samples": n_samples, "seconds": least, "parts": totals, "tasks": tasks}
        result[form]["efficiency"] = totals["all"][0] / totals["all"][1]
    return result


def one_fit(client, n_samples):
    """Seconds of a fit to triplets by the clock, and of its rounds; the first round warms up."""
    X, supervision = problem("triplets", n_samples)
    ends, busy = [], []

    def note(*_):
        ends.append(time.perf_counter())
        busy.append(max(client.run(time.process_time).values()))

    begin = time.perf_counter()
    fit(model(callback=note), X, **supervision, client=client)
    return {
        "fit": time.perf_counter() - begin,
        "until_first_round": ends[0] - begin,
        "round": float(np.min(np.diff(ends))),
        "busy": float(np.min(np.diff(busy))),
    }


def weak(n_samples, repeats=3):
    """Fits with 1 and with 2 worker processes, each with as many rows, by the clock."""
    print(f"\nBy the clock: {n_samples} rows of {D} features, {50 * n_samples} triplets a worker")
    result = {"load": os.getloadavg()[0], "n_samples": n_samples}
    for n_workers in (1, 2):
        with cluster(n_workers) as workers, Client(workers) as client:
            fits = [one_fit(client, n_samples * n_workers) for _ in range(repeats)]
        result[n_workers] = best = {name: min(f[name] for f in fits) for name in fits[0]}
        print(
            f"{n_workers} worker(s): fit {best['fit']:.2f} s, a round {best['round']:.3f} s, "
            f"of which the busiest worker computes {best['busy']:.3f} s",
            flush=True,
        )
    result["efficiency"] = result[1]["round"] / result[2]["round"]
    print(f"efficiency of a round {result['efficiency']:.2f}")
    return result


def cluster(n_workers):
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


def processor_seconds(function, repeats=5):
    """Least processor time of a call, all threads of this process, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


def terms(n_samples):
    """Processor time of each kind of work in one shard, and of a task that does nothing."""
    X, triplets = load(n_samples)
    supervision, whole = Constraints.of_triplets(triplets, n_samples), (0, n_samples)
    cuts = np.array(whole)
    grouping = processor_seconds(lambda: shards.group_comparisons(supervision, *whole), 2)
    grouped = shards.group_comparisons(supervision, *whole)
    survey = shards.survey(grouped, *whole)
    planning = processor_seconds(lambda: make_borders([shards.survey(grouped, *whole)], cuts), 2)
    border = make_borders([survey], cuts)[0]
    shard = shards.assemble(grouped, border, "memory", n_samples, X, [], [])
    shares = np.random.default_rng(0).dirichlet(np.ones(K), n_samples)
    weights = shards.apply_border(shard, shard.store.given_weights(shares, 3.0), [])
    F, centers = np.eye(D), X[:K]
    call = partial(shards.call, shard)
    measured = call("measure", F, centers)
    importance, projected = call("importances", weights), call("project", F)
    losses = shards.all_losses(shard, measured, [], 1.0)
    scale, growth = np.ones(D), np.ones((4, D))
    n_pairs = len(grouped.comparisons.pairs)
    work = {
        "project": partial(call, "project", F),
        "gradient": partial(call, "loss_and_half", projected, scale, importance),
        "losses_along": partial(call, "losses_along", projected, growth, importance),
        "measure": partial(call, "measure", F, centers),
        "scatter_sums": partial(call, "moments", weights),
        "center_sums": partial(call, "center_sums", weights),
        "update_round": lambda: shards.update_round(shard, weights, [], measured, losses, 0, 3.0),
        "weigh": partial(call, "importances", weights),
    }
    with threads_at_most(1), one_blas_thread():
        seconds = {name: processor_seconds(call) for name, call in work.items()}
    seconds |= {"group": grouping, "plan": planning, "neighbours_turn": a_turn(n_samples)}
    print(
        f"\nOne thread, {n_samples} rows, {n_pairs} pairs, {len(triplets)} triplets, d={D}, K={K}"
    )
    for name, value in seconds.items():
        print(f"{name:13s} {1e3 * value:9.2f} ms   {1e9 * value / len(triplets):7.2f} ns a triplet")
    measured = {
        "n_samples": n_samples,
        "n_pairs": n_pairs,
        "n_triplets": len(triplets),
        "near_pairs": len(survey.near_pairs),
        "seconds": seconds,
        "task": task_cost(),
    }
    return measured | {"predicted": predict(measured)}


def a_turn(n_samples):
    """Processor time of a turn of the search for neighbours, when rows know some of them."""
    wanted, seconds = (SIMILAR, DISSIMILAR), 0.0
    for n in (2000, n_samples):  # the first compiles
        X, y = embeddings(n)
        order = np.argsort(y, kind="stable")
        cell = Members.of(order, y[order], X[order]).with_lists(wanted)
        split = NeighborLists.none(0, wanted).split
        with threads_at_most(1):
            for turn in range(2):
                begin = time.process_time()
                cell = cell.improved([], split, [turn, 0])
                seconds = time.process_time() - begin
    return seconds


def task_cost(n_passes=20):
    """Processor time of driver and scheduler for a pass of empty tasks, by the number of shards."""
    rows = {}
    with cluster(2) as workers, Client(workers) as client:
        there = Cluster(client, 60.0)
        for n_shards in (2, 8, 32):
            there.place(n_shards)
            # A function that does next to nothing, with a matrix for input and two for output.
            there.total(np.modf, np.zeros((D, D)))
            begin, wall = time.process_time(), time.perf_counter()
            for _ in range(n_passes):
                there.total(np.modf, np.zeros((D, D)))
            busy = (time.process_time() - begin) / n_passes
            wall = (time.perf_counter() - wall) / n_passes
            rows[n_shards] = {"processor": busy, "wall": wall}
            print(
                f"empty pass over {n_shards:2d} shards: driver and scheduler {1e3 * busy:6.1f} ms, "
                f"wall {1e3 * wall:.1f} ms",
                flush=True,
            )
    sizes = list(rows)
    slope, base = np.polyfit(sizes, [rows[n]["processor"] for n in sizes], 1)
    print(f"that is {1e3 * base:.1f} ms and {1e3 * slope:.2f} ms for each shard")
    return {"passes": rows, "base": base, "per_shard": slope}


# A round of five steps, as counted in fits: how often each kind of work is done.
ROUND = {
    "center_sums": 1,
    "measure": 2,  # once for new centres, of which it needs a part; once for the new metric
    "update_round": 1,
    "weigh": 1,
    "scatter_sums": 1,
    "project": 6,
    "gradient": 1 + 5 * 1.3,
    "losses_along": 1,
}
PASSES = 5 + 1 + 5 * 1.3 + 1  # results that the driver waits for


def predict(measured, n_workers=64, n_rounds=10, bandwidth=1.25e9, rounds_of_weights=8):
    """Seconds of a fit with as many rows and triplets on each worker as were measured."""
    seconds, task = measured["seconds"], measured["task"]
    compute = sum(times * seconds[name] for name, times in ROUND.items())
    # A table of single precision is read and written in each round of the weights.
    copies = rounds_of_weights * 4 * K * measured["n_samples"] * 4 / 5e9
    scheduling = PASSES * (task["base"] + n_workers * task["per_shard"])
    exchange = 2 * rounds_of_weights * n_workers * task["per_shard"]
    # Three levels of a tree, each of up to eight matrices, and as much for the way out.
    matrices = PASSES * 2 * 3 * 8 * D * D * 8 / bandwidth
    triplets = n_workers * measured["n_triplets"] * 12
    near_pairs = n_workers * measured["near_pairs"] * 12
    start = {
        "triplets, driver to scheduler to workers": 2 * triplets / bandwidth,
        "grouping, on the workers": seconds["group"],
        "near pairs to the driver": near_pairs / bandwidth,
        "colours and rounds, on the driver": n_workers * seconds["plan"],
        "weights to the driver": n_workers * measured["n_samples"] * K * 4 / bandwidth,
    }
    a_round = {
        "computing": compute,
        "copies of weights": copies,
        "driver and scheduler, passes": scheduling,
        "driver and scheduler, rounds of weights": exchange,
        "matrices on the wire": matrices,
    }
    total = sum(start.values()) + n_rounds * sum(a_round.values())
    print(f"\n{n_workers * measured['n_triplets']:.3g} triplets on {n_workers} workers, predicted")
    for label, parts in (("once", start), ("each round", a_round)):
        for name, value in parts.items():
            print(f"{label:10s} {name:42s} {value:7.2f} s")
    print(f"{n_rounds} rounds and start: {total:.0f} s")
    labels = a_search(measured, n_workers, bandwidth)
    return {"start": start, "round": a_round, "total": total, "neighbours": labels}


def a_search(measured, n_workers, bandwidth, n_turns=4, copies=4):
    """Seconds of a search for the neighbours of labelled rows, as many on each worker."""
    n, seconds, task = measured["n_samples"], measured["seconds"], measured["task"]
    lists = 8 * (SIMILAR + DISSIMILAR + 1)
    parts = {
        "comparing": n_turns * seconds["neighbours_turn"],
        # Rows with their lists, and copies of neighbours that lie elsewhere.
        "rows on the wire": n_turns * n * (4 * D + lists + copies * 4 * D) / bandwidth,
        "driver and scheduler, two tasks for every two shards": n_turns
        * 2
        * n_workers**2
        * task["per_shard"],
    }
    for name, value in parts.items():
        print(f"{'a search':10s} {name:52s} {value:7.2f} s")
    return parts


def machine():
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["work", "weak", "terms"])
    parser.add_argument("--samples", type=int, help="rows for each worker")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    known = {"work": (work, 60_000), "weak": (weak, 100_000), "terms": (terms, 312_500)}
    if unknown := set(args.parts) - set(known):
        parser.error(f"unknown part {', '.join(unknown)}; choose from {', '.join(known)}")
    kept = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    figures = kept | {"machine": machine()}  # parts that are not run again are kept
    for part in args.parts:
        measure, n_samples = known[part]
        figures[part] = measure(args.samples or n_samples)
    if args.out:
        unfinished = args.out.with_suffix(".tmp")
        unfinished.write_text(json.dumps(figures, indent=1))
        unfinished.replace(args.out)
        print(f"\nwrote {args.out}")


if __name__ == "__main__":
    main()

"""Time of a fit on a device, and of the kernels it is made of.

Some questions, each answered by figures taken in one run:

large    One million samples of 128 features, ten triplets each that share their dissimilar sample,
         ten modes, five rounds of ten steps: how long do each kernel, a step of the metric and the
         whole fit from arrays take?
distinct The same with a dissimilar sample for each triplet: almost twice as many pairs.
wide     The same as large for 768 features and fewer samples.
low      The same as large for metrics of rank 32 (``--rank``), 1024 features and fewer samples.
compare  How much sooner than NumPy is a smaller fit done, and is it the same fit?
compare_low
         The same question for metrics of low rank.
labels   How long does a fit from labels take, and how many of the neighbours does it find? Also for
         more samples (labels_more, labels_most) and more features (labels_wide).
searches How many times as long as one fit from labels do ``MDaMLCV``, and ``MetricSearchCV`` with
         ten candidates and two splits, take?

``python benchmarks/gpu.py [PART ...] [--device cuda] [--out FILE]``; all by default. Sizes can be
given, for a try on ``--device cpu``. The first use of a GPU and of the compilers is not counted: a
small fit of as many features goes before.
"""

import argparse
import cProfile
import json
import platform
import pstats
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from mdaml import PRESETS, LocalMDaML, MDaML, MDaMLCV, __version__
from mdaml.constraints import Constraints
from mdaml.constraints.labels import Classes
from mdaml.model_selection import MetricSearchCV
from mdaml.neighbors.device import nearest_places, pair_sq_dists
from mdaml.solver.alternation import Alternation
from mdaml.solver.conjugate_gradient import conjugate_gradient
from mdaml.solver.modes import clustering_scatter
from mdaml.solver.spec import Spec
from mdaml.solver.start import start_metric, start_modes
from mdaml.stores.arrays import Turns
from mdaml.stores.torch import TorchStore, pairs
from mdaml.stores.torch.modes import center_sq_dists

CLASSES = 20
PER_SAMPLE, ETA = 10, 3.0
warnings.simplefilter("ignore")  # timed runs stop early on purpose


def make_case(n_samples, n_features, seed=0, *, distinct=False):
    """Samples around the centres of classes, some features noise, and ten triplets for each."""
    rng = np.random.default_rng(seed)
    n_samples -= n_samples % CLASSES
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    y = np.arange(n_samples) % CLASSES
    n_useful = max(n_features // 4, 1)
    X[:, :n_useful] += rng.standard_normal((CLASSES, n_useful), dtype=np.float32)[y]
    anchors = np.repeat(np.arange(n_samples), PER_SAMPLE)
    similar = rng.integers(0, n_samples // CLASSES, len(anchors)) * CLASSES + y[anchors]
    similar = np.where(similar == anchors, (similar + CLASSES) % n_samples, similar)
    other = rng.integers(0, n_samples, len(anchors))
    if not distinct:
        other = np.repeat(other[::PER_SAMPLE], PER_SAMPLE)
    other = np.where(other % CLASSES == y[anchors], (other + 1) % n_samples, other)
    return X, np.column_stack([anchors, similar, other])


def settle(device):
    if device == "cuda":
        torch.cuda.synchronize()


def milliseconds(function, device, repeats=5):
    """Median time of some runs after one that does not count."""
    function()
    times = []
    for _ in range(repeats):
        settle(device)
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            function()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        else:
            start = time.perf_counter()
            function()
            times.append(1000 * (time.perf_counter() - start))
    return float(np.median(times))


def options(arguments, **others):
    return {
        "n_modes": arguments.modes,
        "max_iter": arguments.rounds,
        "goal": replace(PRESETS["comparisons"], max_inner_iter=arguments.steps),
        "tol": 0.0,
        "random_state": 0,
        **others,
    }


def timed_fit(X, T, device, profile=False, **parameters):
    """Seconds of a fit, the model, and the GPU memory it took at most."""
    model = MDaML(**parameters, device=device)
    settle(device)
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    start = time.perf_counter()
    model.fit(X, triplets=T)
    settle(device)
    seconds = time.perf_counter() - start
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    return seconds, model, peak


def warm_up(n_features, arguments, **others):
    X, T = make_case(2000, n_features, seed=1)
    timed_fit(X, T, arguments.device, **options(arguments, **others))


def kernel_times(X, T, arguments, rank):
    """Milliseconds of each kernel and of a step of the metric; rank None: of full rank."""
    device, n_modes = arguments.device, arguments.modes
    out = {}

    def once(name, function):
        settle(device)
        start = time.perf_counter()
        result = function()
        settle(device)
        out[name] = 1000 * (time.perf_counter() - start)
        return result

    def clock(name, function):
        out[name] = milliseconds(function, device)

    store = once("samples to the device (once)", lambda: TorchStore.on(X, device))
    clock_grouping(once, store, T)
    store = store.compare(Constraints.of_triplets(T, len(X)))
    spec = Spec(
        n_modes=n_modes,
        eta=ETA,
        triplet_weight=300.0 * n_modes**ETA,
        ridge=1e-4,
        rank=rank,
        max_inner_iter=arguments.steps,
        n_similar=10,
        n_dissimilar=10,
        pairing="grid",
        max_iter=10,
        tol=1e-4,
    )
    rng = np.random.RandomState(0)
    modes = once("mixture start (once)", lambda: start_modes(spec, store, rng))
    start = once("start of the metric (once)", lambda: start_metric(spec, store, rng))
    problem = Alternation(store, start.space, spec)
    state = once("state at the start", lambda: problem.start(start.F, modes))
    clock_rounds(clock, problem, state)
    (clock_full_rank if rank is None else clock_low_rank)(clock, problem, state)
    limits = {"max_iter": arguments.steps, "gtol": 0.0, "ftol": -1.0}
    with store.threads():
        for _ in range(2):  # the first may compile
            settle(device)
            start = time.perf_counter()
            result = conjugate_gradient(problem.objective(state), store.small(state.F), **limits)
            settle(device)
            elapsed = time.perf_counter() - start
    out["step of the metric"] = 1000 * elapsed / max(result.n_iter, 1)
    n_pairs, n_colors = len(store.comparisons.pairs), len(store.turns.colors) - 1
    print(f"  {n_pairs} pairs, {n_colors} colours")
    for name, value in out.items():
        print(f"  {name:40s} {value:9.2f} ms")
    return {"pairs": n_pairs, "colors": n_colors, "milliseconds": out}


def clock_grouping(once, store, T):
    """The parts of what a store does with comparisons before a fit."""
    n = len(store.rows)
    made, *_ = once("grouping (once)", lambda: pairs.group(T, None, n, store.rows.device))
    graph = once(
        "graph of near pairs (once)",
        lambda: pairs.near_graph(made.pairs, made.first, made.last, n),
    )
    on_host = store.host(graph[0].long()), store.host(graph[1]), graph[2]
    once("colours, on the host (once)", lambda: Turns.from_graph(on_host))


def clock_full_rank(clock, problem, state):
    """Time the parts of a step of the metric."""
    store, importance = problem.store, state.importance
    rows, d = store.rows, store.shape[1]
    centers = store.put(state.modes.centers)
    clock("distances to centres", lambda: center_sq_dists(rows, centers))
    clock("scatter", lambda: clustering_scatter(store, state.modes))
    clock("X F", lambda: store.project(np.eye(d)))
    clock("X^T V", lambda: store.cross(rows))
    slopes = clock_passes(clock, store, rows, importance)
    clock(
        "Laplacian product",
        lambda: pairs.laplacian_product(rows, store.comparisons, store.by_second, slopes),
    )
    clock("trial: all three, and X^T V", lambda: store.loss_and_half(rows, np.ones(d), importance))
    clock("losses of four steps", lambda: store.losses_along(rows, np.ones((4, d)), importance))
    clock_small(clock, store)


def clock_low_rank(clock, problem, state):
    """The same for metrics of low rank."""
    store, space, objective = problem.store, problem.space, problem.objective(state)
    F = store.small(state.F)
    point = objective.at(F)
    gradient = space.gradient(objective, point)
    Y, centers = point.projected, torch.as_tensor(point.centers).to(point.projected)
    clock("X F", lambda: store.project(F))
    clock("gradient: X^T U", lambda: space.gradient(objective, point))
    clock("preconditioner", lambda: space.steepest(objective, point, gradient))
    slopes = clock_passes(clock, store, Y, state.importance)
    clock(
        "Laplacian, both roles",
        lambda: pairs.laplacian_times(Y, store.comparisons, store.by_second, slopes),
    )
    clock("distances to centres", lambda: center_sq_dists(Y, centers))
    path = objective.along(point, gradient, -gradient)
    clock("trial: value, derivatives, slope", lambda: path.slope(path.at(1e-3)))


def clock_rounds(clock, problem, state):
    """What a round does besides the metric."""
    clock("importances", lambda: problem.store.importances(state.modes.weights))
    clock("move of the centres", lambda: problem.move_centers(state))
    clock("move of the weights", lambda: problem.move_weights(state))


def clock_passes(clock, store, Y, importance):
    """What a step of the metric does with pairs, whatever its rank; the slopes of the pairs."""
    given, scales = store.comparisons, torch.ones((1, Y.shape[1]), device=Y.device)
    distances = partial(pair_sq_dists, Y, given.pairs, scales)
    clock("distances", distances)
    slopes = partial(pairs.losses_and_slopes, distances()[0], given, store.by_far, importance)
    clock("losses and slopes", slopes)
    return slopes()[1]


def clock_small(clock, store):
    """Algebra of the size of the metric."""
    A = np.random.default_rng(0).normal(size=(store.shape[1], store.shape[1]))
    A = A + A.T
    with store.threads():
        clock("eigh, NumPy", lambda: np.linalg.eigh(A))
        clock("product, NumPy", lambda: A @ A)
    on_device = store.put(A)
    clock("eigh, torch, double", lambda: torch.linalg.eigh(on_device))
    clock("eigh, torch, single", lambda: torch.linalg.eigh(on_device.float()))


def whole_fit(name, n_samples, n_features, arguments):
    print(f"{name}: N = {n_samples}, d = {n_features}, T = {PER_SAMPLE * n_samples}")
    X, T = make_case(n_samples, n_features, distinct=name == "distinct")
    rank = arguments.rank if name == "low" else None
    warm_up(n_features, arguments, n_components=rank)
    out = {"N": len(X), "d": n_features, "T": len(T), "K": arguments.modes, "rank": rank}
    out |= kernel_times(X, T, arguments, rank)
    # Twice: the memory that the first one asked the driver for serves the second.
    parameters = options(arguments, n_components=rank)
    runs = [timed_fit(X, T, arguments.device, **parameters) for _ in range(2)]
    if arguments.profile:
        timed_fit(X, T, arguments.device, profile=True, **parameters)
    seconds, model, peak = runs[0]
    out |= {
        "fit_seconds": seconds,
        "fit_again_seconds": runs[1][0],
        "rounds": model.n_iter_,
        "objective": [float(model.history_[0]), float(model.history_[-1])],
        "peak_gib": peak,
    }
    print(
        f"  whole fit {seconds:.2f} s, again {runs[1][0]:.2f} s, {model.n_iter_} rounds, objective "
        f"{model.history_[0]:.4g} to {model.history_[-1]:.4g}, {peak:.1f} GiB\n"
    )
    return out


def compare(name, n, d, arguments):
    print(f"{name}: N = {n}, d = {d}, T = {PER_SAMPLE * n}")
    X, T = make_case(n, d)
    rank = arguments.rank if name == "compare_low" else None
    warm_up(d, arguments, n_components=rank)
    start = np.random.default_rng(0).dirichlet(np.ones(arguments.modes), len(X))
    parameters = options(arguments, n_modes=start, n_components=rank)
    here, plain, _ = timed_fit(X, T, None, **parameters)
    here = min(here, timed_fit(X, T, None, **parameters)[0])  # the first one may compile
    there, model, _ = timed_fit(X, T, arguments.device, **parameters)
    gap = float(np.max(np.abs(model.history_ / plain.history_ - 1)))
    M, other = plain.get_mahalanobis_matrix(), model.get_mahalanobis_matrix()
    off = float(np.linalg.norm(M - other) / np.linalg.norm(M))
    print(
        f"  NumPy {here:.2f} s, device {there:.2f} s; objectives differ by {gap:.1e}, metrics by "
        f"{off:.1e}\n"
    )
    return {
        "N": len(X),
        "d": d,
        "rank": rank,
        "numpy_seconds": here,
        "device_seconds": there,
        "objective_gap": gap,
        "metric_gap": off,
    }


def make_labelled(n_samples, n_features, n_classes=20, seed=0):
    """Return samples of classes made of ten kinds each, in 16 dimensions and noise, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_samples)
    kinds = 1.2 * rng.normal(size=(10 * n_classes, 16)).astype(np.float32)
    Z = kinds[10 * y + rng.integers(0, 10, n_samples)]
    Z = Z + 0.7 * rng.standard_normal(Z.shape, np.float32)
    X = Z @ (rng.normal(size=(16, n_features)) / 4).astype(np.float32)
    X += 0.3 * rng.standard_normal(X.shape, np.float32)
    return X, y


def from_labels(name, n, d, arguments):
    """Time ``MDaML().fit(X, y)``, neighbours searched twice, and measure how many are found."""
    print(f"{name}: N = {n}, d = {d}, 20 classes")
    X, y = make_labelled(n, d)
    warm = make_labelled(2000, d)
    MDaML(device=arguments.device, random_state=0).fit(*warm)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        model = MDaML(device=arguments.device, random_state=0).fit(X, y)
        settle(arguments.device)
        seconds.append(time.perf_counter() - start)
    classes = Classes.from_labels("MDaML", y)
    Y = torch.tensor(X - X.mean(axis=0), device=arguments.device)
    Y = Y[torch.tensor(classes.rows, device=arguments.device)]
    start = time.perf_counter()
    found = nearest_places(Y, classes.bounds, (5, 5))
    search = time.perf_counter() - start
    recall = [
        measure_recall(Y, classes, places, kind)
        for places, kind in zip(found, (True, False), strict=True)
    ]
    print(
        f"  whole fit {min(seconds):.2f} s, one search {search:.2f} s, found of the true "
        f"neighbours {recall[0]:.3f} and {recall[1]:.3f}\n"
    )
    return {
        "N": n,
        "d": d,
        "fit_seconds": seconds,
        "search_seconds": search,
        "recall": recall,
        "rounds": model.n_iter_,
    }


TEN_CANDIDATES = {"n_modes": [1, 3], "triplet_weight": [30.0, 100.0, 300.0, 1000.0, 3000.0]}


def searches(name, n, d, arguments):
    """Time both searches in units of one fit; the best of two runs of each."""
    print(f"{name}: N = {n}, d = {d}, 20 classes")
    made = {
        "MDaML": MDaML(device=arguments.device, random_state=0),
        "MDaMLCV": MDaMLCV(device=arguments.device, random_state=0),
        "MetricSearchCV": MetricSearchCV(
            MDaML(device=arguments.device), TEN_CANDIDATES, cv=2, random_state=0
        ),
    }
    data, warm = make_labelled(n, d), make_labelled(min(n, 25_000), d, seed=1)
    seconds = {}
    for title, model in made.items():
        model.fit(*warm)
        times = []
        for _ in range(2):
            settle(arguments.device)
            start = time.perf_counter()
            model.fit(*data)
            settle(arguments.device)
            times.append(time.perf_counter() - start)
        seconds[title] = min(times)
        ratio = seconds[title] / seconds["MDaML"]
        print(f"  {title:16s} {seconds[title]:6.2f} s, {ratio:5.1f} times one fit", flush=True)
        if arguments.profile:
            profiler = cProfile.Profile()
            profiler.runcall(model.fit, *data)
            pstats.Stats(profiler).sort_stats("cumtime").print_stats(60)
    best = {title: str(getattr(model, "best_params_", None)) for title, model in made.items()}
    return {"N": n, "d": d, "seconds": seconds, "chosen": best}


def places(name, n, d, arguments):
    """Time a fit with places in units of a linear one, which chooses its anchor; best of two."""
    print(f"{name}: N = {n}, d = {d}, T = {PER_SAMPLE * n}, {arguments.places_number} places")
    number = {"n_places": arguments.places_number, "n_maps": 0}
    made = {
        "MDaML": MDaML(device=arguments.device, random_state=0),
        "LocalMDaML": LocalMDaML(**number, device=arguments.device, random_state=0),
    }
    data, warm = make_case(n, d), make_case(min(n, 20_000), d, seed=1)
    out = {"N": n, "d": d, "T": len(data[1]), "n_places": arguments.places_number}
    for title, model in made.items():
        model.fit(warm[0], triplets=warm[1])
        times = []
        for _ in range(2):
            settle(arguments.device)
            start = time.perf_counter()
            model.fit(data[0], triplets=data[1])
            settle(arguments.device)
            times.append(time.perf_counter() - start)
        held = model.score_triplets(data[0], data[1][:: len(data[1]) // 100_000 + 1])
        out[title] = {"seconds": times, "agreement": float(held)}
        ratio = min(times) / min(out["MDaML"]["seconds"])
        print(f"  {title:12s} {min(times):6.2f} s, {ratio:4.1f} times MDaML, {held:.3f} hold")
    print(flush=True)
    return out


def measure_recall(Y, classes, found, same, n_tried=300):
    """Return the share of the five true neighbours of some places that was found."""
    of = torch.tensor(classes.of, device=Y.device)
    hits = 0
    tried = np.random.default_rng(1).choice(len(Y), n_tried, replace=False)
    for place in tried:
        dists = (Y - Y[place]).square().sum(dim=1)
        dists[(of == of[place]) != same] = torch.inf
        dists[place] = torch.inf
        hits += len(set(dists.topk(5, largest=False).indices.tolist()) & set(found[place]))
    return hits / (5 * n_tried)


def describe(device):
    gpu = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    try:
        import triton

        version = triton.__version__
    except ImportError:
        version = None
    return {
        "device": gpu,
        "mdaml": __version__,
        "torch": torch.__version__,
        "triton": version,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = {
        "large": (10**6, 128),
        "distinct": (10**6, 128),
        "wide": (200_000, 768),
        "low": (200_000, 1024),
        "compare": (50_000, 64),
        "compare_low": (20_000, 1024),
        "labels": (100_000, 128),
        "labels_more": (300_000, 128),
        "labels_most": (10**6, 128),
        "labels_wide": (10**6, 768),
        "searches": (100_000, 128),
        "places": (10**6, 128),
    }
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {[*parts]}; default: all")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    for part, sizes in parts.items():
        parser.add_argument(f"--{part}", nargs=2, type=int, default=sizes, metavar=("N", "d"))
    parser.add_argument("--places-number", type=int, default=256, help="of places")
    parser.add_argument("--rank", type=int, default=32, help="of low and compare_low")
    parser.add_argument("--modes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--profile", action="store_true", help="profile one more fit of each size")
    parser.add_argument("--out", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(parts)
    if unknown:
        parser.error(f"unknown part {sorted(unknown)[0]!r}")
    results = {"machine": describe(arguments.device)}
    print(results["machine"])
    for part in arguments.parts or parts:
        kinds = {"compare": compare, "labels": from_labels, "searches": searches}
        kinds["places"] = places
        measure = kinds.get(part.partition("_")[0], whole_fit)
        results[part] = measure(part, *getattr(arguments, part), arguments)
        if arguments.out:
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

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

from mdaml import MDaML, __version__, kernels
from mdaml.alternation import LocalProblem
from mdaml.device import DeviceComparisons
from mdaml.kernels import torch_mixture, torch_pairs
from mdaml.low_rank import N_AXES, LeadingAxes, LowRankProblem, factor_conjugate_gradient
from mdaml.modes import Modes, Neighbors, clustering_scatter, modes_from_weights
from mdaml.optimize import conjugate_gradient

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
        "max_inner_iter": arguments.steps,
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

    samples = once("samples to the device (once)", lambda: kernels.to_device(X, device))
    _, samples = kernels.center(samples)
    given = once("grouping (once)", lambda: DeviceComparisons.from_triplets(samples, T))
    graph = once("graph of near pairs (once)", given.near_graph)
    neighbors = once("colours, on the host (once)", lambda: Neighbors.from_graph(graph))
    rng = np.random.RandomState(0)
    rows = np.sort(rng.choice(len(X), min(len(X), 20_000), replace=False))
    weights = once(
        "mixture start (once)",
        lambda: torch_mixture.mixture_posteriors(samples, n_modes, rows, rng),
    )
    modes = modes_from_weights(samples, weights, ETA)
    parts = {
        "X": samples,
        "triplets": given,
        "neighbors": neighbors,
        "eta": ETA,
        "triplet_weight": 300.0 * n_modes**ETA,
        "ridge": 1e-4,
        "max_inner_iter": arguments.steps,
    }
    if rank is None:
        problem, F = LocalProblem(**parts), np.eye(X.shape[1])
    else:
        leading = once(
            "principal axes (once)", lambda: LeadingAxes.of(samples, max(rank, N_AXES), rng)
        )
        problem, F = LowRankProblem(**parts, leading=leading), leading.start(rank)
    state = once("state at the start", lambda: problem.start(F, modes))
    if rank is None:
        minimise = clock_full_rank(clock, problem, state)
    else:
        minimise = clock_low_rank(clock, problem, state)
    limits = {"max_iter": arguments.steps, "gtol": 0.0, "ftol": -1.0}
    with kernels.fit_threads(samples):
        for _ in range(2):  # the first may compile
            settle(device)
            start = time.perf_counter()
            result = minimise(**limits)
            settle(device)
            elapsed = time.perf_counter() - start
    out["step of the metric"] = 1000 * elapsed / max(result.n_iter, 1)
    print(f"  {len(given.pairs)} pairs, {len(neighbors.colors) - 1} colours")
    for name, value in out.items():
        print(f"  {name:40s} {value:9.2f} ms")
    return {"pairs": len(given.pairs), "colors": len(neighbors.colors) - 1, "milliseconds": out}


def clock_full_rank(clock, problem, state):
    """Time the parts; return the steps of the metric."""
    samples, d = problem.X, problem.X.shape[1]
    clock_rounds(clock, problem, state)
    clock("distances to centres", lambda: kernels.center_sq_dists(samples, state.modes.centers))
    clock("scatter", lambda: clustering_scatter(samples, state.modes))
    clock("X F", lambda: kernels.rows_times(samples, np.eye(d)))
    clock("X^T V", lambda: kernels.transposed_times(samples, samples))
    given, ones, four = problem.triplets, np.ones(d), np.ones((4, d))
    slopes = clock_passes(clock, samples, given, state, d)
    clock("Laplacian product", lambda: torch_pairs.laplacian_product(samples, given, slopes))
    clock("trial: all three", lambda: given.gradient(samples, ones, state.importance))
    clock("losses of four steps", lambda: given.losses_along(samples, four, state.importance))
    clock_small(clock, samples, d)
    objective = problem.objective(state)
    objective = replace(objective, scatter=kernels.small_matrix(samples, objective.scatter))
    F = kernels.small_matrix(samples, state.F)
    return partial(conjugate_gradient, objective, F)


def clock_low_rank(clock, problem, state):
    """The same for metrics of low rank."""
    objective, F = problem.factor_objective(state), kernels.in_double(problem.X, state.F)
    point = objective.at(F)
    gradient = objective.gradient(point)
    Y, centers = point.projected, point.centers
    clock_rounds(clock, problem, state)
    clock("X F", lambda: kernels.rows_times(problem.X, F))
    clock("gradient: X^T U", lambda: objective.gradient(point))
    clock("preconditioner", lambda: problem.leading.precondition(gradient))
    slopes = clock_passes(clock, Y, problem.triplets, state, Y.shape[1])
    clock("Laplacian, both roles", lambda: problem.graph.laplacian_times(Y, slopes))
    clock("distances to centres", lambda: kernels.center_sq_dists(Y, centers))
    path = objective.along(point, -gradient)
    clock("trial: value, derivatives, slope", lambda: path.slope(path.at(1e-3)))
    return partial(factor_conjugate_gradient, objective, F, problem.leading)


def clock_rounds(clock, problem, state):
    """What a round does besides the metric."""
    modes: Modes = state.modes
    clock("importances", lambda: problem.triplets.importances(modes.powers))
    clock("move of the centres", lambda: problem.move_centers(state))
    clock("move of the weights", lambda: problem.move_weights(state))


def clock_passes(clock, samples, given, state, d):
    """What a step of the metric does with pairs, whatever its rank; the slopes of the pairs."""
    scales = torch.ones((1, d), device=samples.device)
    clock("distances", lambda: torch_pairs.pair_sq_dists(samples, given.pairs, scales))
    sq_dists = torch_pairs.pair_sq_dists(samples, given.pairs, scales)[0]
    slopes = torch_pairs.losses_and_slopes(sq_dists, given, state.importance)[1]
    clock(
        "losses and slopes",
        lambda: torch_pairs.losses_and_slopes(sq_dists, given, state.importance),
    )
    return slopes


def clock_small(clock, samples, d):
    """Algebra of the size of the metric."""
    A = np.random.default_rng(0).normal(size=(d, d))
    A = A + A.T
    with kernels.fit_threads(samples):
        clock("eigh, NumPy", lambda: np.linalg.eigh(A))
        clock("product, NumPy", lambda: A @ A)
    on_device = kernels.to_device(A, samples.device)
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
    parameters = options(arguments, init=start, n_components=rank)
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
    }
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {[*parts]}; default: all")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    for part, sizes in parts.items():
        parser.add_argument(f"--{part}", nargs=2, type=int, default=sizes, metavar=("N", "d"))
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
        measure = compare if part.startswith("compare") else whole_fit
        results[part] = measure(part, *getattr(arguments, part), arguments)
        if arguments.out:
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Memory and time of one large fit, and how they grow; each case in a process of its own.

``python benchmarks/scale.py --samples 1000000 --features 128 --triplets 10000000`` fits once;
``--growth`` fits halves and quarters of it too, of samples and of triplets, and fits power laws
(``--parts 16 4 1``: sixteenths and quarters).
X is float32, triplets are int32 with distinct pairs, the worst case; ``--map`` puts both into files
and passes memory maps; ``--grid`` draws 10 x 10 partners of a tenth of the samples a hundred times.

Memory is what the operating system saw: ``peak`` is the high-water mark of the process during the
fit less what it held before X and the triplets were there.
"""

import argparse
import ctypes
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

MB = 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--triplets", type=int, default=1_000_000)
    parser.add_argument("--modes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="of the metric, in each round")
    parser.add_argument("--memory-limit", help='for instance "2 GB"')
    parser.add_argument("--map", action="store_true", help="memory maps instead of arrays")
    parser.add_argument("--grid", action="store_true", help="100 triplets share 20 pairs")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--parts", nargs="+", type=int, default=[4, 2, 1], help="for --growth")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one_case(args)))
        return
    figures = {"machine": machine(), "cases": [run_case(args)]}
    if args.growth:
        figures["cases"] += grow(args)
    if args.out:
        unfinished = args.out.with_suffix(".tmp")
        unfinished.write_text(json.dumps(figures, indent=1))
        unfinished.replace(args.out)


def grow(args):
    """Cases with a part of the samples, of the triplets, and of both."""
    whole = vars(args).copy()
    cases = []
    for names in (("samples",), ("triplets",), ("samples", "triplets")):
        sizes, cpu, peaks = [], [], []
        for part in args.parts:
            case = whole | {name: whole[name] // part for name in names}
            figures = run_case(argparse.Namespace(**case))
            sizes.append(1 / part)
            cpu.append(figures["cpu_seconds"]["fit"])
            peaks.append(figures["peak_mb"])
            cases.append(figures)
        time_exponent, memory_exponent = (
            np.polyfit(np.log(sizes), np.log(values), 1)[0] for values in (cpu, peaks)
        )
        print(
            f"growth in {' and '.join(names)}: processor time ^{time_exponent:.2f}, "
            f"memory ^{memory_exponent:.2f}",
            flush=True,
        )
    return cases


def run_case(args):
    options = ["--one"]
    for name in ("samples", "features", "triplets", "modes", "rounds", "steps"):
        options += [f"--{name}", str(getattr(args, name))]
    options += [f"--{name}" for name in ("map", "grid") if getattr(args, name)]
    if args.memory_limit:
        options += ["--memory-limit", args.memory_limit]
    command = [sys.executable, __file__, *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures = json.loads(done.stdout)
    show(figures)
    return figures


def show(figures):
    peak, given = figures["peak_mb"], figures["input_mb"]
    phases = ", ".join(f"{name} {s:.2f}" for name, s in figures["seconds"].items())
    print(
        f"N={figures['samples']} d={figures['features']} T={figures['triplets']} "
        f"P={figures['pairs']} K={figures['modes']}: input {given:.0f} MB, peak {peak:.0f} MB = "
        f"{peak / given:.2f} x, beyond it {(peak - given) / given:.2f} x; seconds: {phases}; "
        f"processor {figures['cpu_seconds']['fit']:.2f}",
        flush=True,
    )


def one_case(args):
    """Run in a process of its own: the peak is that of the process."""
    from sklearn.exceptions import ConvergenceWarning

    from mdaml import PRESETS, MDaML, limit_memory
    from mdaml.constraints.comparisons import Comparisons
    from mdaml.stores.choice import make_store
    from mdaml.stores.memory import Turns

    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    compile_kernels(MDaML, args)
    goal = replace(PRESETS["comparisons"], max_inner_iter=args.steps)
    # Classes so far apart leave nothing to gain: with a given anchor it learns in any case.
    model = MDaML(args.modes, goal=goal, anchor=0.1, max_iter=args.rounds, tol=0, random_state=0)
    rounds = []
    model.set_params(callback=lambda _n, _value: rounds.append(time.perf_counter()))
    with tempfile.TemporaryDirectory() as folder:
        before = resident("VmRSS")
        X, triplets = samples_and_triplets(args, Path(folder))
        given = X.nbytes + triplets.nbytes
        return_freed_memory()
        Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark
        begin, cpu_begin = time.perf_counter(), time.process_time()
        with limit_memory(args.memory_limit):
            model.fit(X, triplets=triplets)
        end, cpu_end = time.perf_counter(), time.process_time()
        peak = resident("VmHWM") - before
        grouping, grouped = timed(lambda: Comparisons.from_triplets(triplets, len(X)))
        graph, _ = timed(lambda: Turns.from_graph(grouped.near_graph()))
        store, rng = make_store(X), np.random.RandomState(0)
        start, _ = timed(lambda: store.mixture_weights(args.modes, 3.0, rng))
    return {
        "samples": len(X),
        "features": X.shape[1],
        "triplets": len(triplets),
        "pairs": len(grouped.pairs),
        "modes": args.modes,
        "input_mb": given / MB,
        "peak_mb": peak * 1024 / MB,
        "objective": float(model.history_[-1]),
        "seconds": {
            "fit": end - begin,
            "grouping": grouping + graph,
            "start": start,
            "round": (rounds[-1] - rounds[0]) / max(len(rounds) - 1, 1),
        },
        "cpu_seconds": {"fit": cpu_end - cpu_begin},
    }


def compile_kernels(cls, args):
    """Fit something smaller, in blocks, so that no figure holds compiler and buffers of BLAS."""
    from mdaml import limit_memory

    small = argparse.Namespace(samples=30_000, features=128, triplets=60_000, map=False, grid=False)
    X, triplets = samples_and_triplets(small, Path())
    triplets.flags.writeable = not args.map  # kernels are compiled for either kind
    with limit_memory("175 MB"):
        cls(2, max_iter=1, random_state=0).fit(X, triplets=triplets)
    del X, triplets
    return_freed_memory()


def return_freed_memory():
    """Give back what the allocator keeps: it would hide what the fit takes, or count as that."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def samples_and_triplets(args, folder):
    """Ten noisy classes; a random similar and dissimilar partner for each triplet."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, args.samples)
    means = 2 * rng.normal(size=(10, args.features)).astype(np.float32)
    X = array(args, folder / "X.npy", np.float32, (args.samples, args.features))
    for begin in range(0, args.samples, 10_000):
        block = y[begin : begin + 10_000]
        X[begin : begin + 10_000] = means[block] + rng.standard_normal(
            (len(block), args.features), dtype=np.float32
        )
    triplets = array(args, folder / "triplets.npy", np.int32, (args.triplets, 3))
    by_class = np.argsort(y, kind="stable")
    first = np.searchsorted(y[by_class], np.arange(11))
    for begin in range(0, args.triplets, 100_000):
        n = min(100_000, args.triplets - begin)
        triplets[begin : begin + n] = draw(args, rng, begin, n, y, by_class, first)
    if args.map:
        X.flush()
        triplets.flush()
        X = np.load(folder / "X.npy", mmap_mode="r")
        triplets = np.load(folder / "triplets.npy", mmap_mode="r")
    return X, triplets


def draw(args, rng, begin, n, y, by_class, first):
    place = np.arange(begin, begin + n)
    if args.grid:  # ten similar and ten dissimilar partners, each of them with each
        seeds = np.random.default_rng(begin)
        anchors = (place // 100) % args.samples
        hundreds = place // 100 - begin // 100
        near, far = (seeds.random((hundreds[-1] + 1, 10)) for _ in range(2))
        near, far = near[hundreds, place % 10], far[hundreds, place // 10 % 10]
    else:
        anchors, near, far = place % args.samples, rng.random(n), rng.random(n)
    own = y[anchors]
    size = first[own + 1] - first[own]
    similar = by_class[first[own] + (near * size).astype(np.int64)]
    same = similar == anchors
    similar[same] = by_class[
        first[own[same]] + (near[same] * size[same] + 1).astype(int) % size[same]
    ]
    other = first[own + 1] + (far * (len(y) - size)).astype(np.int64)
    return np.column_stack([anchors, similar, by_class[other % len(y)]])


def array(args, path, dtype, shape):
    if args.map:
        return np.lib.format.open_memmap(path, "w+", dtype, shape)
    return np.empty(shape, dtype)


def timed(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])  # kB


def machine():
    from mdaml import __version__

    return {
        "mdaml": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


if __name__ == "__main__":
    main()

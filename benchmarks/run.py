"""Time, growth and memory of MDaML, and all methods side by side; `make bench`.

Six questions, each answered by figures taken in one run:

speed    How much sooner than a literal transcription of the paper (literal_mdaml.py) do we reach
         its objective, with the same iterations and with the default ones?
growth   How does the time of a fit grow with triplets, samples, features and modes?
memory   How much memory does a fit need beyond its input?
methods  How long does each of the nine methods take, beside NCA, and how well does 3-NN do then?
closed   How much longer than their bare matrix products do the closed forms take?
rank     How long does a metric of rank 32 take where features are thousands?

``python benchmarks/run.py [PART ...] [--out FILE]``; all by default.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from literal_mdaml import fit_literal
from low_rank import low_rank
from methods import closed_forms, methods
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from mdaml import PRESETS, MDaML, __version__
from mdaml.constraints import sample_triplets
from mdaml.datasets import load_dataset
from mdaml.stores.memory import MemoryStore

K, ETA, RIDGE = 10, 3.0, 1e-4
TRIPLET_WEIGHT = 300.0 * K**ETA
SETS = ["vehicle", "german", "segment", "letter", "dna"]
# Timed runs stop early on purpose.
warnings.simplefilter("ignore", ConvergenceWarning)


def seconds(function, repeats):
    """Median time of some runs, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return float(np.median(times)), result


def training_part(name):
    """A random 70 % of a data set (of 5000 rows of letter), standardised; 100 triplets a sample."""
    X, y = load_dataset(name, return_X_y=True)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[:5000]
    rows = rows[: int(0.7 * len(rows))]
    X, y = StandardScaler().fit_transform(X[rows]), y[rows]
    return X, y, sample_triplets(y, 10, 10, random_state=0)


def mixture_weights(X, n_modes):
    """First weights, as a fit makes them."""
    return MemoryStore.of(X).mixture_weights(n_modes, ETA, np.random.RandomState(0)).weights


def speed_on(name):
    X, y, triplets = training_part(name)
    options = {"eta": ETA, "triplet_weight": TRIPLET_WEIGHT, "ridge": RIDGE}
    start_seconds, start = seconds(partial(mixture_weights, X, K), 3)
    # The objective of the paper, and nothing else.
    paper = replace(PRESETS["paper"], init_metric="auto")
    ours = {**options, "goal": paper}
    MDaML(start, max_iter=5, **ours).fit(X, triplets=triplets)  # compile

    def literal(tidy):
        results = fit_literal(X, triplets, start, n_outer=5, n_inner=10, tidy=tidy, **options)
        return results[-1][-1]

    def same_iterations():
        ten_steps = replace(paper, max_inner_iter=10)
        model = MDaML(start, max_iter=5, tol=0, **ours | {"goal": ten_steps})
        return model.fit(X, triplets=triplets).history_[-1]

    def until_as_low():
        model = MDaML(start, max_iter=100, callback=lambda _, value: value <= target, **ours)
        return model.fit(X, triplets=triplets).history_[-1]

    def default_fit():
        return MDaML(K, goal=paper, random_state=0).fit(X, y).history_[-1]

    # Ours once before, once after: a slow spell of the machine then hits both sides.
    same_seconds, same = seconds(same_iterations, 5)
    literal_seconds, target = seconds(lambda: literal(tidy=False), 1)
    tidy_seconds, tidy = seconds(lambda: literal(tidy=True), 1 if X.shape[1] > 100 else 3)
    until_seconds, until = seconds(until_as_low, 7)
    default_seconds, default = seconds(default_fit, 7)
    return {
        "set": name,
        "n_samples": len(X),
        "n_features": X.shape[1],
        "n_triplets": len(triplets),
        "literal": {"seconds": literal_seconds, "objective": target},
        "tidy_literal": {"seconds": tidy_seconds, "objective": tidy},
        "same_iterations": {"seconds": same_seconds, "objective": same},
        "until_as_low": {"seconds": until_seconds, "objective": until},
        "default_fit": {"seconds": default_seconds, "objective": default},
        "mixture_start_seconds": start_seconds,
    }


def speed():
    print(
        f"""
Speed against the literal transcription with pymanopt, 5 x 10 iterations, K={K}, eta={ETA:g}.
literal   Eq. 7 and 15 as printed, sums over modes inside the M-step; W-step sample by sample
tidy      the same with one weight per triplet and one scatter matrix: K left the M-step by hand
same its  MDaML, 5 x 10 iterations, same start      as low  MDaML until as low as the literal
default   MDaML.paper(10).fit(X, y): sampling, mixture start, 10 x 5 iterations
Behind each of ours: literal seconds / ours and, in brackets, tidy seconds / ours.
"""
    )
    print(
        f"{'set':8s} {'N':>5s} {'d':>4s} {'literal':>9s} {'tidy':>8s}  {'same its':>8s}"
        f"{'as low':>23s}{'default':>24s}{'start':>19s}   objectives: literal, same its, as low"
    )
    rows = []
    for name in SETS:
        row = speed_on(name)
        rows.append(row)
        base, tidy = row["literal"]["seconds"], row["tidy_literal"]["seconds"]
        cells = "  ".join(
            f"{own:7.3f}s {base / own:4.0f}x ({tidy / own:4.0f}x)"
            for own in (
                row[key]["seconds"] for key in ("same_iterations", "until_as_low", "default_fit")
            )
        )
        objectives = " ".join(
            f"{row[key]['objective']:.4g}" for key in ("literal", "same_iterations", "until_as_low")
        )
        print(
            f"{name:8s} {row['n_samples']:5d} {row['n_features']:4d} {base:8.2f}s {tidy:7.2f}s "
            f"{cells} {row['mixture_start_seconds']:7.3f}s   {objectives}",
            flush=True,
        )
    return rows


def synthetic(n_samples, n_features, per_sample, pairing="zip", dtype="float64"):
    """Ten noisy classes and random triplets, a fixed number per sample.

    "zip" makes all pairs distinct, the worst case; "grid" is the default of MDaML.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n_samples)
    X = 2 * rng.normal(size=(10, n_features))[y] + rng.normal(size=(n_samples, n_features))
    if pairing == "grid":
        per_sample = round(per_sample**0.5)
    triplets = sample_triplets(y, per_sample, per_sample, pairing=pairing, random_state=0)
    return X.astype(dtype), triplets


GROWTH = {
    # what grows: (values, arguments of synthetic, modes)
    "triplets": ([10, 30, 100, 300], lambda v: (5000, 20, v), lambda _: K),
    "samples": ([5_000, 15_000, 50_000, 150_000], lambda v: (v, 20, 20), lambda _: K),
    "many samples": (
        [20_000, 80_000, 320_000, 1_000_000],
        lambda v: (v, 32, 10, "zip", "float32"),
        lambda _: K,
    ),
    "features": ([16, 32, 64, 128, 256], lambda v: (5000, v, 20), lambda _: K),
    "modes": ([5, 10, 20, 40, 80], lambda _: (20_000, 20, 20), lambda v: v),
}


def growth():
    print("\nGrowth of a fit (3 x 5 iterations): exponent of a fitted power law\n")
    result = {}
    for what, (values, arguments, modes) in GROWTH.items():
        times, starts = [], []
        for value in values:
            X, triplets = synthetic(*arguments(value))
            model = MDaML(modes(value), anchor=0.0, max_iter=3, tol=0, random_state=0)
            repeats = 3 if len(X) <= 300_000 else 1
            times.append(seconds(partial(model.fit, X, triplets=triplets), repeats)[0])
            starts.append(seconds(partial(mixture_weights, X, modes(value)), 1)[0])
        slope = np.polyfit(np.log(values), np.log(times), 1)[0]
        cells = "  ".join(f"{v}: {t:.3f}s" for v, t in zip(values, times, strict=True))
        print(f"{what:12s} exponent {slope:5.2f}   {cells}", flush=True)
        print(f"{'':12s} of which mixture start: {'  '.join(f'{t:.3f}s' for t in starts)}")
        result[what] = {
            "values": values,
            "seconds": times,
            "start_seconds": starts,
            "exponent": slope,
        }
    return result


MEMORY_CASES = {
    "narrow, 10 x 10 triplets a sample": (20_000, 16, 100, "grid", "float64"),
    "wide, 10 x 10 triplets a sample": (20_000, 256, 100, "grid", "float64"),
    "narrow, 100 of distinct pairs": (20_000, 16, 100, "zip", "float32"),
    "wide, 100 of distinct pairs": (20_000, 256, 100, "zip", "float32"),
}


def memory():
    print("\nPeak memory of a fit beyond its input, in MB and as a multiple of X + triplets\n")
    result = {}
    for label, case in MEMORY_CASES.items():
        command = [sys.executable, __file__, "--one-memory-case", json.dumps(case)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        row = json.loads(out)
        row["multiple"] = row["peak_mb"] / row["input_mb"]
        print(
            f"{label:34s} N={case[0]} d={case[1]}: input {row['input_mb']:.0f}, peak "
            f"{row['peak_mb']:.0f}, multiple {row['multiple']:.2f}",
            flush=True,
        )
        result[label] = row
    return result


def one_memory_case(n_samples, n_features, per_sample, pairing, dtype):
    """Run in a process of its own: the peak is that of the process."""
    X, triplets = synthetic(n_samples, n_features, per_sample, pairing)
    X = X.astype(dtype)
    small = slice(0, 200)
    y = np.arange(200) % 2
    drawn = sample_triplets(y, 3, 3, random_state=0)
    MDaML.paper(3, random_state=0).fit(X[small], triplets=drawn)  # compile
    Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark
    before = resident("VmRSS")
    MDaML.paper(K, max_iter=3, tol=0, random_state=0).fit(X, triplets=triplets)
    peak = resident("VmHWM")
    bytes_in = X.nbytes + triplets.nbytes
    print(json.dumps({"input_mb": bytes_in / 2**20, "peak_mb": (peak - before) / 2**10}))


def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])  # kB


def machine():
    return {
        "mdaml": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": resource.getpagesize() * os.sysconf("SC_PHYS_PAGES") / 2**30,
    }


PARTS = {
    "speed": speed,
    "growth": growth,
    "memory": memory,
    "methods": methods,
    "closed": closed_forms,
    "rank": low_rank,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--one-memory-case", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one_memory_case:
        one_memory_case(*args.one_memory_case)
        return
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    figures = {"machine": machine()} | {part: PARTS[part]() for part in args.parts}
    if args.out:
        unfinished = args.out.with_suffix(".tmp")
        unfinished.write_text(json.dumps(figures, indent=1))
        unfinished.replace(args.out)
        print(f"\nwrote {args.out}")


if __name__ == "__main__":
    main()

"""Where the time of one inner iteration goes, and how far each part is from what the machine can.

A metric step of five inner iterations, as in a fit, with every kernel timed in place; a fifth of it
is "one inner iteration". The fused pass over pairs is split by timing its parts alone. Limits are
measured in the same run, with as many threads:

GEMM rate    a square product of 1024 rows
bandwidth    a triad ``a = b + s c`` in arrays of 64 MB, and of the size of the data
row reads    a loop that touches every cache line of the same rows in the same order, and does
             nothing else: what gathers cannot beat; *again* where an anchor's rows are read twice
hinge loop   the loss of as many triplets from one long list of distances in the first cache

``[NUMBA_NUM_THREADS=1] python benchmarks/profile_iteration.py [D ...] [--out FILE]``
"""

import argparse
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from machine_limits import (
    GIGA,
    PRECISIONS,
    bandwidth,
    best,
    clock,
    gemm_rate,
    hinge_seconds,
    machine_limits,
    touch_rows,
)

from mdaml.constraints import Constraints, sample_triplets
from mdaml.kernels.pairs import add_columns, pair_sq_dists
from mdaml.kernels.prefetch import pairs_ahead
from mdaml.kernels.threads import n_threads
from mdaml.kernels.triplets import triplet_gradient, triplet_slopes
from mdaml.solver.alternation import Alternation
from mdaml.solver.conjugate_gradient import conjugate_gradient
from mdaml.solver.spaces import FullRank
from mdaml.solver.spec import Spec
from mdaml.solver.start import start_modes
from mdaml.stores import memory
from mdaml.stores.memory import MemoryStore

N, K, N_INNER = 20_000, 3, 5
FEATURES = (16, 64, 128)
SUPERVISION = {"10 x 10": (10, "grid"), "100 random": (100, "zip")}  # triplets of each anchor
GROUPS = {
    "products": ("X F", "Xt P"),
    "gathers": ("distances", "Laplacian rows", "degrees"),
    "losses": ("losses",),
    "coarse search": ("four losses",),
    "eigh": ("eigh",),
}
TIMED = ("rows_times", "transposed_times", "triplet_gradient", "triplet_losses_along")
EIGH_FLOPS = 14 / 3  # times d^3: to tridiagonal form, its eigenvectors, and back


@cache
def supervise(supervision):
    """Labels of ten classes, and triplets drawn from them."""
    n_partners, pairing = SUPERVISION[supervision]
    y = np.random.default_rng(0).integers(0, 10, N)
    drawn = sample_triplets(y, n_partners, n_partners, pairing=pairing, random_state=0)
    return y, Constraints(triplets=drawn, n_points=N)


def build(n_features, supervision, dtype):
    """A problem and its state after centres and weights were moved once: the metric is next."""
    y, given = supervise(supervision)
    rng = np.random.default_rng(1)
    X = 2 * rng.normal(size=(10, n_features))[y] / np.sqrt(n_features)
    X = X + rng.normal(size=(N, n_features))
    store = MemoryStore.of(X.astype(dtype)).compare(given)
    spec = Spec(
        n_modes=K,
        eta=3.0,
        triplet_weight=300.0 * K**3,
        ridge=1e-4,
        weights=rng.dirichlet(np.ones(K), N),
        max_inner_iter=N_INNER,
        n_similar=10,
        n_dissimilar=10,
        pairing="grid",
        max_iter=10,
        tol=1e-4,
    )
    problem = Alternation(store, FullRank(), spec)
    state = problem.start(np.eye(n_features), start_modes(spec, store, rng))
    return problem, problem.move_weights(problem.move_centers(state))


@contextmanager
def timed_kernels():
    """Time the large kernels and ``eigh`` wherever they are called: ``{name: [seconds, ...]}``."""
    times = {name: [] for name in (*TIMED, "eigh")}

    def timed(name, function):
        def call(*args, **options):
            start = clock()
            result = function(*args, **options)
            times[name].append(clock() - start)
            return result

        return call

    eigh, plain = np.linalg.eigh, {name: getattr(memory, name) for name in TIMED}
    try:
        for name, function in plain.items():
            setattr(memory, name, timed(name, function))
        np.linalg.eigh = timed("eigh", eigh)
        yield times
    finally:
        np.linalg.eigh = eigh
        for name, function in plain.items():
            setattr(memory, name, function)


def metric_step(problem, state, repeats=3):
    """Seconds of the fastest of some metric steps, of its kernels, and its iterations."""
    objective = problem.objective(state)
    runs = []
    for _ in range(repeats + 1):
        with timed_kernels() as times, problem.store.threads():
            start = clock()
            result = conjugate_gradient(objective, state.F, max_iter=N_INNER, ftol=0.0)
            runs.append((clock() - start, times, result.n_iter))
    return min(runs[1:], key=lambda run: run[0])  # the first compiles


def parts_and_reads(problem, state):
    """Seconds of the parts of the fused pass, each as what it adds to those before; of row reads.

    The reads are of an anchor's rows once, and what a second reading adds.
    """
    Y, triplets = problem.store.rows, problem.store.comparisons
    scales, lists, weights = np.ones(Y.shape[1], Y.dtype), triplets.lists, state.importance
    slopes = triplet_slopes(Y, scales, lists, weights, 1.0)[1]
    distances, upto_losses, whole, degrees, *reads = best(
        partial(pair_sq_dists, Y, triplets.pairs, scales),
        partial(triplet_slopes, Y, scales, lists, weights, 1.0),
        partial(triplet_gradient, Y, scales, lists, weights),
        partial(add_columns, triplets.pairs, slopes, np.zeros(len(Y))),
        *(
            partial(touch_rows, Y, triplets, ahead, passes)
            for ahead, passes in product((0, pairs_ahead(Y)), (1, 2))
        ),
    )
    parts = {
        "distances": distances,
        "losses": upto_losses - distances,
        "Laplacian rows": whole - upto_losses - degrees,
        "degrees": degrees,
    }
    once, twice = min(reads[0::2]), min(reads[1::2])
    return parts, (once, twice - once)


def profile(n_features, supervision, dtype):
    """Seconds, work and limits of all parts of one inner iteration."""
    problem, state = build(n_features, supervision, dtype)
    total, times, n_iter = metric_step(problem, state)
    parts, reads = parts_and_reads(problem, state)
    in_fused = sum(times["triplet_gradient"]) / sum(parts.values())
    seconds = {
        "X F": sum(times["rows_times"]),
        "Xt P": sum(times["transposed_times"]),
        **{name: in_fused * value for name, value in parts.items()},
        "four losses": sum(times["triplet_losses_along"]),
        "eigh": sum(times["eigh"]),
    }
    calls = {name: len(times["triplet_gradient"]) for name in parts} | {
        "X F": len(times["rows_times"]),
        "Xt P": len(times["transposed_times"]),
        "four losses": len(times["triplet_losses_along"]),
        "eigh": len(times["eigh"]),
    }
    triplets = problem.store.comparisons
    work = work_of_kernels(problem.store.rows, triplets, reads)
    rows = [
        part(name, seconds[name], calls[name], work[name], total, n_iter)
        for name in seconds
        if calls[name]
    ]
    rest = total - sum(seconds.values())
    length = int(triplets.near_totals().max())
    rows.append({"part": "rest", "seconds": rest / n_iter, "share": rest / total})
    return {
        "n_features": n_features,
        "triplets": supervision,
        "dtype": dtype,
        "n_pairs": len(triplets.pairs),
        "n_triplets": int(triplets.total),
        "seconds": total / n_iter,
        "triplets_per_near_pair": length,
        "hinge_in_lists_of_that_length": 1.0 / hinge_seconds(length)[0],
        "passes_per_iteration": calls["distances"] / n_iter,
        "parts": rows,
        "groups": groups_of(rows),
    }


def groups_of(rows):
    """Share of each kind of work, and how much of it would be left at the limits."""
    result = {}
    for group, names in GROUPS.items():
        chosen = [row for row in rows if row["part"] in names]
        spent = sum(row["seconds"] for row in chosen)
        least = sum(row["seconds"] * row["of_limit"] for row in chosen)
        if chosen:
            share_of_all = sum(row["share"] for row in chosen)
            result[group] = {"share": share_of_all, "of_limit": least / spent}
    return result


def work_of_kernels(X, triplets, reads):
    """What one call of each kernel must do at least.

    Products are limited by operations or by a stream of what they read and write, gathers by the
    row reads, losses by the hinge loop, ``eigh`` by its operations.
    """
    (n, d), T, P = X.shape, int(triplets.total), len(triplets.pairs)
    flops = gemm_rate(X.dtype.name, n_threads())
    both = 2 * X.nbytes
    operations = Work(2 * n * d * d, 2 * n * d * d / flops, "Gflop/s", "GEMM rate")
    streams = Work(both, both / bandwidth(both), "GB/s", "triad")
    tall_product = max(operations, streams, key=lambda work: work.seconds)
    once, again = reads
    with_slope, without = hinge_seconds()
    rows, ends = P * d * X.itemsize, 16 * P
    eigh_flops = EIGH_FLOPS * d**3
    return {
        "X F": tall_product,
        "Xt P": tall_product,
        "distances": Work(rows, once, "GB/s", "row reads"),
        "losses": Work(T, T * with_slope, "G/s", "hinge loop"),
        "Laplacian rows": Work(rows, again, "GB/s", "row reads, again"),
        "degrees": Work(ends, ends / bandwidth(ends), "GB/s", "triad"),
        "four losses": Work(4 * T, once + 4 * T * without, "G/s", "row reads + hinge loop"),
        "eigh": Work(
            eigh_flops, eigh_flops / gemm_rate("float64", 1), "Gflop/s", "GEMM rate, 1 thread"
        ),
    }


@dataclass(frozen=True)
class Work:
    """An amount of work, the least seconds it takes, and what says so."""

    amount: float
    seconds: float
    unit: str
    bound: str


def part(name, seconds, calls, work, total, n_iter):
    """A row of the table: one inner iteration's share of a kernel."""
    return {
        "part": name,
        "seconds": seconds / n_iter,
        "share": seconds / total,
        "calls": calls / n_iter,
        "rate": calls * work.amount / seconds / GIGA,
        "limit": work.amount / work.seconds / GIGA,
        "unit": work.unit,
        "bound": work.bound,
        "of_limit": calls * work.seconds / seconds,
    }


def show(case):
    print(
        f"\nd={case['n_features']}, {case['triplets']} triplets an anchor, {case['dtype']}: "
        f"{1e3 * case['seconds']:.1f} ms an iteration, {case['n_pairs'] / 1e6:.1f} M pairs, "
        f"{case['n_triplets'] / 1e6:.1f} M triplets, {case['passes_per_iteration']:.1f} passes; "
        f"hinge loop in lists of {case['triplets_per_near_pair']}: "
        f"{case['hinge_in_lists_of_that_length'] / GIGA:.2f} G/s"
    )
    for row in case["parts"]:
        line = f"  {row['part']:15s}{1e3 * row['seconds']:9.2f} ms{100 * row['share']:6.1f} %"
        if "rate" in row:
            line += (
                f"{row['rate']:9.3g} of {row['limit']:6.3g} {row['unit']:8s}"
                f"{100 * row['of_limit']:5.0f} % of {row['bound']}"
            )
        print(line)
    cells = (
        f"{name} {100 * group['share']:.0f} % at {100 * group['of_limit']:.0f} % of its limit"
        for name, group in case["groups"].items()
    )
    print(f"  = {', '.join(cells)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", nargs="*", type=int, default=list(FEATURES), help="d")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    limits = machine_limits()
    print(f"{limits['threads']} threads of {os.cpu_count()} cores")
    for name in ("triad_64mb_one_thread", "triad_64mb"):
        print(f"{name:24s} {limits[name] / GIGA:7.1f} GB/s")
    for name in ("gemm_one_thread", "gemm"):
        cells = ", ".join(f"{kind} {rate / GIGA:.0f}" for kind, rate in limits[name].items())
        print(f"{name:24s} {cells} Gflop/s")
    print(f"{'hinge loop':24s} {limits['hinge'] / GIGA:.2f} G triplets/s")
    cases = []
    for supervision, n_features, dtype in product(SUPERVISION, args.features, PRECISIONS):
        cases.append(profile(n_features, supervision, dtype))
        show(cases[-1])
    if args.out:
        unfinished = args.out.with_suffix(".tmp")
        unfinished.write_text(json.dumps({"limits": limits, "cases": cases}, indent=1))
        unfinished.replace(args.out)
        print(f"\nwrote {args.out}")


if __name__ == "__main__":
    main()

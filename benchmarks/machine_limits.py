"""What this machine can: bandwidth, GEMM rate, row reads, a loop of losses; for the profile."""

import time
from functools import cache, partial

import numpy as np
from threadpoolctl import threadpool_limits

from mdaml.kernels.compiling import fast_loop
from mdaml.kernels.pairs import smooth_hinge
from mdaml.kernels.prefetch import prefetch
from mdaml.kernels.threads import n_threads, share

GIGA = 1e9
PRECISIONS = ("float32", "float64")
# With one thread, seconds of the processor: other processes then matter less.
clock = time.process_time if n_threads() == 1 else time.perf_counter


def best(*functions, seconds=0.3, least=4):
    """Shortest time of each of some functions, called in turn so that a slow spell hits all.

    The shortest: on a shared machine the others measure the neighbours. The first calls compile.
    """
    times = []
    while len(times) < least or np.sum(times) < seconds:
        times.append([])
        for function in functions:
            start = clock()
            function()
            times[-1].append(clock() - start)
    return np.min(times, axis=0).tolist()


@fast_loop
def _triad(begin, end, a, b, c):
    for i in range(begin, end):
        a[i] = b[i] + 3.0 * c[i]


@cache
def bandwidth(n_bytes, one_thread=False):
    """Bytes per second of a triad in three arrays that take so much together."""
    a, b, c = (np.ones(n_bytes // 24) for _ in range(3))
    cost = 0 if one_thread else 10**12
    return 24 * len(a) / best(partial(share, _triad, len(a), cost, a, b, c))[0]


@cache
def gemm_rate(dtype, threads):
    """Floating-point operations per second of a square product."""
    A = np.ones((1024, 1024), dtype)
    out = np.empty_like(A)
    with threadpool_limits(threads, "blas"):
        return 2 * 1024**3 / best(partial(np.matmul, A, A, out=out))[0]


@fast_loop
def _touch_rows(begin, end, words, Y, ahead, pairs, groups, passes, out):
    for g in range(begin, end):
        found = 0
        for _ in range(passes):
            for p in range(groups[g], groups[g + 1]):
                if ahead > 0 and p + ahead < len(pairs):
                    prefetch(Y, pairs[p + ahead, 1])
                j = pairs[p, 1]
                for c in range(0, words.shape[1], 8):  # eight words are a cache line
                    found ^= words[j, c]
        out[g] = found


def touch_rows(Y, triplets, ahead, passes):
    """Touch the partners of all anchors, anchor by anchor, so many times in a row."""
    words, out = Y.view(np.int64), np.empty(len(triplets.groups) - 1, np.int64)
    cost = len(triplets.pairs) * Y.shape[1]
    args = (words, Y, ahead, triplets.pairs, triplets.groups, passes, out)
    share(_touch_rows, len(out), cost, *args)


@fast_loop
def _hinges(begin, end, dists, far_slopes, near, out):
    """Losses and slopes of a list of far pairs for each near pair, as in the gradient's pass."""
    for p in range(begin, end):
        total = pull = 0.0
        for n in range(len(dists)):
            value, slope = smooth_hinge(dists[n] - near[p])
            total += value
            pull += slope
            far_slopes[n] += 0.5 * slope
        out[p] = total + pull


@fast_loop
def _hinge_values(begin, end, dists, near, out):
    """Losses alone, as in the coarse search."""
    for p in range(begin, end):
        total = 0.0
        for n in range(len(dists)):
            total += smooth_hinge(dists[n] - near[p])[0]
        out[p] = total


@cache
def hinge_seconds(length=1024):
    """Seconds of one triplet in lists of some length, with its slope and without.

    As in the kernels, a list is padded to whole vectors of eight.
    """
    rng = np.random.default_rng(0)
    n_lists = 2**21 // length
    dists, near, out = 2 * rng.random(-(-length // 8) * 8), rng.random(n_lists), np.empty(n_lists)
    args = (n_lists, 10**9)
    seconds = best(
        partial(share, _hinges, *args, dists, np.zeros(len(dists)), near, out),
        partial(share, _hinge_values, *args, dists, near, out),
    )
    return [value / (n_lists * length) for value in seconds]


def machine_limits():
    every = n_threads()
    return {
        "threads": every,
        "triad_64mb_one_thread": bandwidth(3 * 2**26, one_thread=True),
        "triad_64mb": bandwidth(3 * 2**26),
        "gemm_one_thread": {kind: gemm_rate(kind, 1) for kind in PRECISIONS},
        "gemm": {kind: gemm_rate(kind, every) for kind in PRECISIONS},
        "hinge": 1.0 / hinge_seconds()[0],
    }

"""The loops over samples and modes, for NumPy arrays on the CPU."""

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import exact_loop, fast_loop
from mdaml.kernels.prefetch import pairs_ahead, prefetch_entry, prefetch_row
from mdaml.kernels.threads import GRAIN, share


def center_sq_dists(Y: FloatArray, centers: FloatArray) -> FloatArray:
    """Squared distance of every row of Y to every centre, by differences: no cancellation."""
    out = np.empty((len(Y), len(centers)), Y.dtype)
    share(_center_sq_dists, len(Y), out.size * Y.shape[1], Y, centers, out)
    return out


@fast_loop
def _center_sq_dists(begin, end, Y, centers, out):
    for i in range(begin, end):
        for k in range(len(centers)):
            total = Y.dtype.type(0)
            for c in range(Y.shape[1]):
                diff = Y[i, c] - centers[k, c]
                total += diff * diff
            out[i, k] = total


def sequential_weights(
    weights: FloatArray,
    powers: FloatArray,
    costs: FloatArray,
    graph: tuple[IntArray, IntArray, IntArray],
    losses: FloatArray,
    order: IntArray,
    colors: IntArray,
    eta: float,
) -> None:
    """Update ``weights`` and ``powers = weights**eta`` in place, one sample after another.

    ``graph = (indptr, samples, pairs)`` lists, for each sample, those it forms a near pair with and
    the rows of ``losses``. ``costs`` is the part of the cost of each mode that does not depend on
    other samples. ``order[colors[c]:colors[c + 1]]`` share no pair: any order among them, and so
    any number of threads, gives the same result.
    """
    args = (weights, powers, pairs_ahead(powers) > 0, costs, *graph, losses, order, eta)
    work = weights.shape[1] * (len(graph[1]) + 60 * len(weights))
    if work // (len(colors) - 1) < 2 * GRAIN:
        _sequential_weights(0, len(order), 0, *args)
        return
    for start, stop in zip(colors[:-1].tolist(), colors[1:].tolist(), strict=True):
        share(_sequential_weights, stop - start, work * (stop - start) // len(order), start, *args)


@exact_loop
def _sequential_weights(
    begin, end, start, weights, powers, large, costs, indptr, samples, pairs, losses, order, eta
):
    n_modes = weights.shape[1]
    cost, logs = np.empty(n_modes), np.empty(n_modes)
    for position in range(start + begin, start + end):
        i = order[position]
        if large and position + 2 < start + end:
            soon = order[position + 2]
            for e in range(indptr[soon], indptr[soon + 1]):
                prefetch_row(powers, samples[e])
                prefetch_entry(losses, pairs[e])
        for k in range(n_modes):
            cost[k] = costs[i, k]
        for e in range(indptr[i], indptr[i + 1]):
            loss, j = losses[pairs[e]], samples[e]
            if loss > 0.0:
                for k in range(n_modes):
                    cost[k] += loss * powers[j, k]
        lowest = cost[0]
        for k in range(1, n_modes):
            lowest = min(lowest, cost[k])
        if lowest > 0.0 and eta == 3.0:  # the paper's value needs no logarithm
            total = 0.0
            for k in range(n_modes):
                cost[k] = np.sqrt(lowest / cost[k])
                total += cost[k]
            for k in range(n_modes):
                share_of_k = cost[k] / total
                weights[i, k] = share_of_k
                powers[i, k] = share_of_k * share_of_k * share_of_k
        elif lowest > 0.0:
            # Relative to the lowest, so that nothing overflows, however close eta is to 1.
            total = 0.0
            for k in range(n_modes):
                logs[k] = np.log(lowest / cost[k]) / (eta - 1.0)
                total += np.exp(logs[k])
            log_total = np.log(total)
            for k in range(n_modes):
                weights[i, k] = np.exp(logs[k] - log_total)
                powers[i, k] = np.exp(eta * (logs[k] - log_total))
        else:  # modes that cost nothing share all the weight
            n_free = 0
            for k in range(n_modes):
                n_free += cost[k] == 0.0
            for k in range(n_modes):
                weights[i, k] = 1.0 / n_free if cost[k] == 0.0 else 0.0
                powers[i, k] = weights[i, k] ** eta

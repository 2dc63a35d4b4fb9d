"""The loops over samples and modes, for NumPy arrays on the CPU."""

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import exact_loop, fast_loop
from mdaml.kernels.prefetch import pairs_ahead, prefetch
from mdaml.kernels.threads import GRAIN, share, with_memory


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
    loop = with_memory(_sequential_weights, lambda: (np.empty(weights.shape[1]),))
    if work // (len(colors) - 1) < 2 * GRAIN:
        loop(0, len(order), 0, *args)
        return
    for start, stop in zip(colors[:-1].tolist(), colors[1:].tolist(), strict=True):
        share(loop, stop - start, work * (stop - start) // len(order), start, *args)


@exact_loop
def _sequential_weights(
    begin, end, start, weights, powers, large, costs, indptr, samples, pairs, losses, order, eta,
    cost,
):  # fmt: skip
    n_modes = weights.shape[1]
    for position in range(start + begin, start + end):
        i = order[position]
        if large and position + 2 < start + end:
            soon = order[position + 2]
            for e in range(indptr[soon], indptr[soon + 1]):
                prefetch(powers, samples[e])
                prefetch(losses, pairs[e])
        for k in range(n_modes):
            cost[k] = costs[i, k]
        for e in range(indptr[i], indptr[i + 1]):
            loss, j = losses[pairs[e]], samples[e]
            if loss > 0.0:
                for k in range(n_modes):
                    cost[k] += loss * powers[j, k]
        lowest = cost[0]
        for k in range(1, n_modes):
            if cost[k] < lowest:
                lowest = cost[k]
        # Relative to the lowest, so that nothing overflows, however close eta is to 1; modes that
        # cost nothing share all the weight.
        total = 0.0
        for k in range(n_modes):
            ratio = lowest / cost[k] if cost[k] > lowest else 1.0
            if eta == 3.0:  # the paper's value needs no logarithm
                cost[k] = np.sqrt(ratio)
                total += cost[k]
            else:
                cost[k] = np.log(ratio) / (eta - 1.0)
                total += np.exp(cost[k])
        log_total = 0.0 if eta == 3.0 else np.log(total)
        for k in range(n_modes):
            if eta == 3.0:
                weight = cost[k] / total
                weights[i, k] = weight
                powers[i, k] = weight * weight * weight
            else:
                weights[i, k] = np.exp(cost[k] - log_total)
                powers[i, k] = np.exp(eta * (cost[k] - log_total))

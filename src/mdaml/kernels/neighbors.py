"""Neighbours of the same and of other classes, by blocks of inner products.

Samples are sorted by class, so a class is a range of places. Blocks of ``Z @ Z.T`` (BLAS) say which
few samples may be near enough; only their distances are computed, by differences, so neither
rounding nor the blocks decide about neighbours. Memory is one block per thread.
"""

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import fast_loop, inner_step
from mdaml.kernels.threads import share, with_memory

_QUERIES, _CANDIDATES = 128, 512  # a block of half a megabyte stays in the cache


def nearest_rows(
    queries: FloatArray, gallery: FloatArray, n_nearest: int
) -> tuple[IntArray, FloatArray]:
    """Nearest rows of a gallery for each query, and squared distances; ties to the earlier row.

    As many as wanted, or all rows there are.
    """
    n = len(queries)
    Z = np.concatenate([queries, gallery])
    # Two classes, of which each looks in the other one.
    bounds = np.repeat([[0, n], [n, len(Z)]], [n, len(gallery)], axis=0)
    n_nearest = min(n_nearest, len(gallery))
    found, sq_dists = nearest(Z, bounds, np.arange(len(Z)), n_nearest, same=False, queries=(0, n))
    return found - n, sq_dists


def nearest(
    Z: FloatArray,
    bounds: IntArray,
    rows: IntArray,
    n_nearest: int,
    *,
    same: bool,
    queries: tuple[int, int] | None = None,
) -> tuple[IntArray, FloatArray]:
    """Nearest samples of the own class (but oneself) or, unless `same`, of all other classes.

    ``bounds[i]`` holds the first place of i's class and the one behind its last. Returns places and
    squared distances, both (n, n_nearest), nearest first; ties go to the lower of ``rows``. Where
    there are too few, the rest is -1 and infinite. Of all samples, or of a range of them.
    """
    begin, end = queries or (0, len(Z))
    found = np.full((end - begin, n_nearest), -1, np.int64)
    sq_dists = np.full((end - begin, n_nearest), np.inf)
    half_norms = 0.5 * np.einsum("ij,ij->i", Z, Z, dtype=np.float64)

    # Not np.finfo, which takes long.
    rounding = 2.0 * (8.0 + Z.shape[1]) * (2.0**-52 if Z.itemsize == 8 else 2.0**-23)
    largest = np.maximum.reduceat(half_norms, np.arange(0, len(Z), _CANDIDATES)).tolist()
    n_bests = n_nearest + same  # one more, if a sample may meet itself

    def make():
        return np.empty(_CANDIDATES), np.empty(_CANDIDATES + 1, np.intp), np.empty(n_bests)

    loop = with_memory(_keep_nearest, make)
    wanted = _wanted(bounds, len(Z), same)

    def search(first_block, last_block):
        blocks = _blocks(first_block, last_block, Z, bounds, begin, end, same)
        for (q0, q1), (c0, c1), products in blocks:
            lists = found[q0 - begin : q1 - begin], sq_dists[q0 - begin : q1 - begin]
            top = max(largest[c0 // _CANDIDATES : (c1 - 1) // _CANDIDATES + 1])
            loop(q0, q1, c0, c1, products, Z, half_norms, top, rounding, wanted, rows, *lists)

    _share_blocks(search, Z, bounds, end - begin, same)
    return found, sq_dists


def within(
    Z: FloatArray, bounds: IntArray, radii: FloatArray, begin: int, end: int
) -> tuple[IntArray, IntArray]:
    """For each i from begin to end, the samples of other classes at squared distance < radii[i].

    Returns ``indptr`` and places: those of ``begin + i`` are ``places[indptr[i]:indptr[i + 1]]``,
    in order. Decided by inner products, so rounding decides about samples on the sphere.
    """
    half_norms = 0.5 * np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    counts = np.zeros(end - begin + 1, np.int64)
    parts: dict[int, IntArray] = {}

    def search(first_block, last_block):
        buffer, n_found, current = np.empty((4096, 2), np.int32), 0, None

        def finish():
            if current is not None:
                found = buffer[:n_found]
                parts[current[0]] = _by_query(*current, found, counts[current[0] - begin :])

        blocks = _blocks(first_block, last_block, Z, bounds, begin, end, same=False)
        for queries, candidates, products in blocks:
            if queries != current:
                finish()
                current, n_found = queries, 0
            if n_found + products.size > len(buffer):
                grown = np.empty((2 * len(buffer) + products.size, 2), np.int32)
                grown[:n_found] = buffer[:n_found]
                buffer = grown
            n_found = _keep_within(
                *queries, *candidates, products, half_norms, bounds, radii, buffer, n_found
            )
        finish()

    _share_blocks(search, Z, bounds, end - begin, same=False)
    places = [parts[first] for first in sorted(parts)]
    return np.cumsum(counts), np.concatenate(places) if places else np.empty(0, np.int32)


def closest(Y: FloatArray, candidates: IntArray) -> tuple[IntArray, FloatArray]:
    """For each row of Y the closest of its candidates, the first of equals, and their distance.

    Candidates are (n, c) places, negative at the end where there are fewer; without any, the result
    is -1 and infinite.
    """
    found, dists = np.full(len(Y), -1, np.int64), np.full(len(Y), np.inf)
    share(_closest, len(Y), candidates.size * Y.shape[1], Y, candidates, found, dists)
    return found, dists


@fast_loop
def _closest(begin, end, Y, candidates, found, dists):
    for i in range(begin, end):
        best = np.inf
        for j in candidates[i]:
            if j < 0:
                break
            total = 0.0
            for c in range(Y.shape[1]):
                diff = Y[i, c] - Y[j, c]
                total += diff * diff
            if total < best:
                best, found[i] = total, j
        dists[i] = np.sqrt(best)


def _share_blocks(search, Z, bounds, n_queries, same):
    n_candidates = int(np.mean(bounds[:, 1] - bounds[:, 0])) if same else len(Z)
    cost = n_queries * n_candidates * (Z.shape[1] // 8 + 1)
    share(search, -(-n_queries // _QUERIES), cost)


def _blocks(first_block, last_block, Z, bounds, begin, end, same):
    """Inner products of blocks of the queries begin to end with all candidates, in turn."""
    memory = np.empty(_QUERIES * _CANDIDATES, Z.dtype)
    for block in range(first_block, last_block):
        q0, q1 = begin + block * _QUERIES, min(begin + (block + 1) * _QUERIES, end)
        first, last = (bounds[q0, 0], bounds[q1 - 1, 1]) if same else (0, len(Z))
        of_one_class = bounds[q0, 0] == bounds[q1 - 1, 0]
        for c0 in range(first, last, _CANDIDATES):
            c1 = min(c0 + _CANDIDATES, last)
            own = of_one_class and bounds[q0, 0] <= c0 and c1 <= bounds[q0, 1]
            if own and not same:
                continue  # none of these can be wanted
            products = memory[: (q1 - q0) * (c1 - c0)].reshape(q1 - q0, c1 - c0)
            np.matmul(Z[q0:q1], Z[c0:c1].T, out=products)
            yield (q0, q1), (c0, c1), products


def _wanted(bounds, n, same):
    """Two ranges of places for each sample: its class, or what comes before and after it."""
    first, last = np.ascontiguousarray(bounds, np.int64).T
    nothing, all_places = np.zeros_like(first), np.full_like(first, n)
    parts = (first, last, nothing, nothing) if same else (nothing, first, last, all_places)
    return np.stack(parts, axis=1)


@fast_loop
def _keep_nearest(
    q0, q1, c0, c1, products, Z, half_norms, largest, rounding, wanted, rows, found, sq_dists,
    memory, close, bests,
):  # fmt: skip
    n_nearest = found.shape[1]
    for q in range(q0, q1):
        places, dists = found[q - q0], sq_dists[q - q0]
        unsure = rounding * (half_norms[q] + largest)
        for part in range(0, 4, 2):
            low, high = wanted[q, part], wanted[q, part + 1]
            low, high = c0 if low < c0 else low, c1 if high > c1 else high
            if low >= high:
                continue
            # Half of the squared distance less a constant. Views that begin at zero: only loops
            # over these vectorise.
            inner, norms = products[q - q0, low - c0 : high - c0], half_norms[low:high]
            near = memory[: high - low]
            for e in range(len(near)):
                near[e] = norms[e] - inner[e]
            most = 0.5 * dists[n_nearest - 1] - half_norms[q] + unsure
            if most == np.inf:
                most = _lowest_of_groups(near, bests) + 2.0 * unsure
            for n in range(_find_close(near, most, close)):
                e = close[n]
                if near[e] <= most and low + e != q:
                    _insert(Z, q, low + e, rows, places, dists)
                    lower = 0.5 * dists[n_nearest - 1] - half_norms[q] + unsure
                    most = lower if lower < most else most


@inner_step
def _lowest_of_groups(values, lowest):
    """Return a bound that at least as many values as ``lowest`` has entries do not exceed.

    By the minima of groups of eight, of which so many are lower: cheaper than a selection.
    """
    lowest[:] = np.inf
    n = len(lowest) - 1
    for g in range(len(values) // 8):
        group, least = values[8 * g : 8 * g + 8], np.inf
        for e in range(8):
            least = min(least, group[e])
        if least < lowest[n]:
            place = n
            while place > 0 and lowest[place - 1] > least:
                lowest[place] = lowest[place - 1]
                place -= 1
            lowest[place] = least
    return lowest[n]


@inner_step
def _find_close(values, most, out):
    """List the values that are no higher, without branches; return their number."""
    n_close = 0
    for e in range(len(values)):
        out[n_close] = e
        n_close += values[e] <= most
    return n_close


@inner_step
def _insert(Z, q, candidate, rows, places, dists):
    """Place a candidate among the nearest of q, if it is near enough by its true distance."""
    total = 0.0
    for c in range(Z.shape[1]):
        diff = np.float64(Z[q, c]) - Z[candidate, c]
        total += diff * diff
    n = len(dists)
    while n > 0 and (
        total < dists[n - 1]
        or (total == dists[n - 1] and (places[n - 1] < 0 or rows[candidate] < rows[places[n - 1]]))
    ):
        n -= 1
        if n + 1 < len(dists):
            dists[n + 1], places[n + 1] = dists[n], places[n]
    if n < len(dists):
        dists[n], places[n] = total, candidate


@fast_loop
def _keep_within(q0, q1, c0, c1, products, half_norms, bounds, radii, out, n_found):
    for q in range(q0, q1):
        limit = 0.5 * radii[q] - half_norms[q]
        inner = products[q - q0]
        for part in range(2):
            low, high = (c0, min(c1, bounds[q, 0])) if part == 0 else (max(c0, bounds[q, 1]), c1)
            for c in range(low, high):
                if half_norms[c] - inner[c - c0] < limit:
                    out[n_found, 0], out[n_found, 1] = q, c
                    n_found += 1
    return n_found


@fast_loop
def _by_query(q0, q1, found, counts):
    """Second column of ``found``, sorted by the first; ``counts[1:]`` says how many."""
    place = np.zeros(q1 - q0 + 1, np.int64)
    for n in range(len(found)):
        place[found[n, 0] - q0 + 1] += 1
    counts[1 : len(place)] = place[1:]
    place = np.cumsum(place)
    out = np.empty(len(found), np.int32)
    for n in range(len(found)):
        q = found[n, 0] - q0
        out[place[q]] = found[n, 1]
        place[q] += 1
    return out

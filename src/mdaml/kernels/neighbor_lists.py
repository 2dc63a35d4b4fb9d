"""The loops of the search for neighbours in trees (:mod:`mdaml.neighbors.trees`).

A list holds the nearest rows that a row knows so far: those of its class, then those of others.
"""

import numpy as np

from mdaml.kernels.compiling import exact_loop, fast_loop


@fast_loop
def project_rows(begin, end, Z, order, ranges, ends, along):
    """Write how far each row of some ranges lies along the line through two of its range."""
    for node in range(begin, end):
        direction = Z[ends[node, 0]] - Z[ends[node, 1]]
        for m in range(ranges[node, 0], ranges[node, 2]):
            total = np.float32(0.0)
            for c in range(Z.shape[1]):
                total += direction[c] * Z[order[m], c]
            along[m] = total


@fast_loop
def copy_rows(Z, rows, middle, out):
    """Copy rows, seen from the middle, each with half its squared norm behind it."""
    for r in range(len(rows)):
        total = np.float32(0.0)
        for c in range(len(middle)):
            value = Z[rows[r], c] - middle[c]
            out[r, c] = value
            total += value * value
        out[r, len(middle)] = np.float32(0.5) * total


@fast_loop
def keep_candidates(queries, names, own, candidates, half, products, places, sq_dists, split):
    """Put candidates into the lists of queries; ``own[q]`` is the range of those of q's class.

    ``half[q] + products[q, c]`` is half a squared distance. Sixty-four are compared at a time with
    the last of a list; unsigned places let the compiler use vector units for that.
    """
    chunk = np.uintp(64)
    for q in range(len(queries)):
        i, inner = queries[q], products[q]
        for part in range(3):  # others, own class, others
            c = np.uintp(0 if part == 0 else own[q, part - 1])
            last = np.uintp(own[q, part] if part < 2 else len(candidates))
            first, stop = (0, split) if part == 1 else (split, places.shape[1])
            limit = np.float32(0.5 * sq_dists[i, stop - 1] - half[q])
            while c < last:
                upto, hit = min(c + chunk, last), np.int32(0)
                if upto - c == chunk:
                    for e in range(chunk):
                        hit |= np.int32(inner[c + e] < limit)
                else:
                    hit = np.int32(1)
                if hit:
                    for e in range(c, upto):
                        if inner[e] < limit and candidates[e] != names[q]:
                            sq_dist = max(2 * (inner[e] + half[q]), np.float32(0.0))
                            _put(i, first, stop, candidates[e], sq_dist, places, sq_dists)
                            limit = np.float32(0.5 * sq_dists[i, stop - 1] - half[q])
                c = upto


@fast_loop
def _put(i, first, stop, candidate, sq_dist, places, sq_dists):
    """Place a candidate that is near enough in a part of a list, unless it is there."""
    for k in range(first, stop):
        if places[i, k] == candidate:
            return
    k = stop - 1
    while k > first and sq_dists[i, k - 1] > sq_dist:
        places[i, k], sq_dists[i, k] = places[i, k - 1], sq_dists[i, k - 1]
        k -= 1
    places[i, k], sq_dists[i, k] = candidate, sq_dist


@exact_loop
def sort_lists(begin, end, X, order, rows, places, out, out_dists):
    """Write the nearest of each list to its place, by distances of X and then by row."""
    found, sq_dists = np.empty(places.shape[1], np.int64), np.empty(places.shape[1])
    for i in range(begin, end):
        n = 0
        while n < places.shape[1] and places[i, n] >= 0:
            j, total = order[places[i, n]], 0.0
            for c in range(X.shape[1]):
                diff = np.float64(X[order[i], c]) - X[j, c]
                total += diff * diff
            m = n
            while m > 0 and (
                total < sq_dists[m - 1]
                or (total == sq_dists[m - 1] and rows[j] < rows[found[m - 1]])
            ):
                sq_dists[m], found[m] = sq_dists[m - 1], found[m - 1]
                m -= 1
            sq_dists[m], found[m] = total, j
            n += 1
        for k in range(min(n, out.shape[1])):
            out[order[i], k], out_dists[order[i], k] = found[k], sq_dists[k]

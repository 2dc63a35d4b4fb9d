"""Votes of the nearest neighbours in the leading coordinates, for every number of coordinates."""

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.compiling import fast_loop
from mdaml.kernels.threads import share

_CHUNK = 16  # distances that are compared with the farthest neighbour all at once


def nested_votes(
    Q: FloatArray,
    q_codes: IntArray,
    Z: FloatArray,
    z_codes: IntArray,
    n_classes: int,
    n_neighbors: int,
) -> IntArray:
    """How many rows of Q their neighbours in Z classify correctly, by the first m columns of both.

    Entry m - 1 is for m columns. The ``n_neighbors`` nearest rows (all, if there are fewer) vote;
    ties of distances go to the earlier row of Z, ties of votes to the lower code. Codes are below
    ``n_classes``. One row of distances per thread grows by a column at a time.
    """
    n_features = Q.shape[1]
    n_padded = -(-len(Z) // _CHUNK) * _CHUNK
    columns = np.full((n_features, n_padded), np.inf)  # a row of the padding is never a neighbour
    columns[:, : len(Z)] = Z.T
    correct = np.zeros((len(Q), n_features), np.bool_)
    args = (Q, q_codes, columns, z_codes, n_classes, min(n_neighbors, len(Z)), correct)
    share(_nested_votes, len(Q), Q.size * len(Z), *args)
    return correct.sum(axis=0)


@fast_loop
def _nested_votes(begin, end, Q, q_codes, columns, z_codes, n_classes, n_neighbors, correct):
    n_features, n_padded = columns.shape
    sq_dists, votes = np.empty(n_padded), np.zeros(n_classes, np.int64)
    places, nearest = np.zeros(n_neighbors, np.int64), np.empty(n_neighbors)
    for q in range(begin, end):
        sq_dists[:] = 0.0
        for m in range(n_features):
            value, column = Q[q, m], columns[m]
            for z in range(n_padded):
                diff = value - column[z]
                sq_dists[z] += diff * diff
            # The neighbours so far are as many as needed, so no row beyond them all is one now.
            farthest = 0.0 if m > 0 else np.inf
            for place in places:
                farthest = max(farthest, sq_dists[place])
            nearest[:] = np.nextafter(farthest, np.inf)
            for chunk in range(0, n_padded, _CHUNK):
                lowest = np.inf
                for z in range(chunk, chunk + _CHUNK):
                    lowest = min(lowest, sq_dists[z])
                if lowest < nearest[-1]:
                    for z in range(chunk, chunk + _CHUNK):
                        if sq_dists[z] < nearest[-1]:
                            _insert(z, sq_dists[z], places, nearest)
            correct[q, m] = _is_elected(q_codes[q], places, z_codes, votes)


@fast_loop
def _insert(place, sq_dist, places, nearest):
    """Put a row behind all that are as near or nearer; the last one drops out."""
    n = len(nearest) - 1
    while n > 0 and sq_dist < nearest[n - 1]:
        nearest[n], places[n] = nearest[n - 1], places[n - 1]
        n -= 1
    nearest[n], places[n] = sq_dist, place


@fast_loop
def _is_elected(code, places, z_codes, votes):
    """Whether a class has more votes than any other, or as many and the lowest code of those.

    ``votes`` is all zero before and after.
    """
    for place in places:
        votes[z_codes[place]] += 1
    elected = votes[code] > 0
    for place in places:
        rival = z_codes[place]
        if votes[rival] > votes[code] or (votes[rival] == votes[code] and rival < code):
            elected = False
    for place in places:
        votes[z_codes[place]] = 0
    return elected

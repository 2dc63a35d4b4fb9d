"""Comparisons that say nothing new: repetitions, and consequences of two others."""

import numpy as np
from scipy.sparse import csr_array

from mdaml._typing import BoolArray, IntArray

_BLOCK = 4096  # near pairs whose consequences are held at a time


def repeated(keys: IntArray) -> BoolArray:
    """Return whether a row equals an earlier one."""
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first[inverse.ravel()] < np.arange(len(keys))


def implied(near: IntArray, far: IntArray) -> BoolArray:
    """Return whether some pair p lies between: near < p and p < far are both among the rows.

    ``near`` and ``far`` number pairs. All rows must hold under one distance: then they have no
    circles, and leaving out all that are implied loses nothing.
    """
    n_pairs = 1 + int(max(near.max(initial=0), far.max(initial=0)))
    shape = (n_pairs, n_pairs)
    steps = csr_array((np.ones(len(near), np.float32), (near, far)), shape=shape)
    out = np.zeros(len(near), bool)
    order = np.argsort(near, kind="stable")
    for begin in range(0, n_pairs, _BLOCK):
        low, high = np.searchsorted(near, [begin, begin + _BLOCK], sorter=order)
        rows = order[low:high]
        if len(rows) == 0:
            continue
        twice = (steps[begin : begin + _BLOCK] @ steps).tocsr()
        out[rows] = np.asarray(twice[near[rows] - begin, far[rows]]).ravel() > 0
    return out

"""The lists of far pairs of grouped comparisons, as their definition says."""

from itertools import pairwise

import numpy as np


def far_lists(starts, far):
    """Return an array of rows for each pair, empty for those that are no near pair."""
    lists, before = [], None
    for a, b in pairwise(starts):
        own = far[a:b]
        if len(own) == 1 and own[0] < 0:
            assert -own[0] == len(before)
            own = before
        before = own if a < b else before
        lists.append(own)
    return lists


def spelled_out(starts, far):
    """Return the same lists with nothing shared: where they start, and their entries."""
    lists = far_lists(starts, far)
    kinds = starts.dtype, far.dtype
    return np.append(0, np.cumsum([*map(len, lists)])).astype(kinds[0]), np.concatenate(lists)

"""A score of neighbours without labels: is the nearest item that was compared a near one."""

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.constraints.value import Constraints
from mdaml.kernels.pairs import pair_sq_dists


def nearest_was_near(Y: FloatArray, said: Constraints) -> BoolArray:
    """Return, for each point that was compared, whether the nearest of its partners is a near one.

    The partners of a point are those in its triplets (as the reference), pairs and quadruplets; it
    counts if it has near and far ones. ``Y`` holds the samples where Euclidean distance counts.
    """
    near, far = (_closest(Y, partners) for partners in _partners(said))
    counts = np.isfinite(near) & np.isfinite(far)
    return (near < far)[counts]


def _closest(Y: FloatArray, partners: IntArray) -> FloatArray:
    """Return the squared distance of each row to the nearest of its partners; infinite for none."""
    closest = np.full(len(Y), np.inf)
    np.minimum.at(closest, partners[:, 0], pair_sq_dists(Y, partners))
    return closest


def _partners(said: Constraints) -> tuple[IntArray, IntArray]:
    """Return (point, partner) in near pairs, and in far pairs."""
    both = []
    for last, sign, members in ((1, 1, [0, 1]), (2, -1, [2, 3])):
        pairs = [said.pairs[said.pair_labels == sign], said.quadruplets[:, members]]
        mutual = np.concatenate(pairs)
        both.append(np.concatenate([said.triplets[:, [0, last]], mutual, mutual[:, ::-1]]))
    return both[0], both[1]

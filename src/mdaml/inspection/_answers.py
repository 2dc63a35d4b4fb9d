"""Constraints of all forms side by side: which pair should be nearer than which."""

from typing import NamedTuple

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.matching import kinds_of
from mdaml.constraints.value import Constraints
from mdaml.kernels.pairs import pair_sq_dists

KINDS = ("triplet", "similar pair", "dissimilar pair", "quadruplet")
NOBODY = -1  # where a form has no such member


class Columns(NamedTuple):
    """Arrays with one row for each constraint, in the order triplets, pairs, quadruplets."""

    kind: IntArray  # (n,) places in KINDS
    members: IntArray  # (n, 4) as given
    near: IntArray  # (n, 2) of a pair: the pair itself
    far: IntArray  # (n, 2) of a pair: nobody, a threshold stands for it


def columns_of(supervision: Constraints) -> Columns:
    """Return constraints of all forms side by side."""
    abc, ab, abcd = supervision.triplets, supervision.pairs, supervision.quadruplets
    members = np.full((supervision.n_constraints, 4), NOBODY)
    begin = 0
    for given in (abc, ab, abcd):
        members[begin : begin + len(given), : given.shape[1]] = given
        begin += len(given)
    return Columns(
        kinds_of(supervision),
        members,
        np.concatenate([abc[:, [0, 1]], ab, abcd[:, :2]]),
        np.concatenate([abc[:, [0, 2]], np.full_like(ab, NOBODY), abcd[:, 2:]]),
    )


def compared_sq_dists(Y: FloatArray, given: Columns) -> tuple[FloatArray, FloatArray]:
    """Return squared distances of the pairs that should be near and far, for mapped samples.

    A similar pair should be nearer than a threshold, a dissimilar one farther: the threshold
    that parts the two kinds best, each kind counting one half.
    """
    near, far = pair_sq_dists(Y, given.near), pair_sq_dists(Y, np.maximum(given.far, 0))
    similar, dissimilar = given.kind == 1, given.kind == 2
    if similar.any() or dissimilar.any():
        threshold = _best_threshold(near[similar], near[dissimilar])
        far[similar] = threshold
        far[dissimilar] = near[dissimilar]
        near[dissimilar] = threshold
    return near, far


def pair_numbers(given: Columns) -> tuple[IntArray, IntArray]:
    """Return near and far pairs as numbers; the order inside a pair does not matter."""
    both = np.sort(np.concatenate([given.near, given.far]), axis=1)
    _, numbers = np.unique(both, axis=0, return_inverse=True)
    near, far = np.split(numbers.ravel(), 2)
    return near, far


def _best_threshold(similar: FloatArray, dissimilar: FloatArray) -> float:
    """Return the squared distance with the lowest mean of the two rates of error."""
    if len(similar) == 0 or len(dissimilar) == 0:
        raise ValueError(
            f"Pairs are audited against each other: similar and dissimilar ones are needed, got "
            f"{len(similar)} and {len(dissimilar)}."
        )
    values = np.unique(np.concatenate([similar, dissimilar]))
    cuts = np.concatenate([0.5 * (values[1:] + values[:-1]), values[-1:]])
    missed = 1 - np.searchsorted(np.sort(similar), cuts) / len(similar)
    taken = np.searchsorted(np.sort(dissimilar), cuts) / len(dissimilar)
    return float(cuts[np.argmin(missed + taken)])

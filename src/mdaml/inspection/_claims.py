"""Comparisons of all forms as one table: which pair is said to be nearer than which."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints import Constraints
from mdaml.constraints.checks import check_pairs, check_quadruplets, check_triplets

KINDS = ("triplet", "similar pair", "dissimilar pair", "quadruplet")
_NOBODY = -1


@dataclass(frozen=True)
class Claims:
    """What is said to be nearer than what, in the order triplets, pairs, quadruplets.

    -1 stands where a form has no such member.
    """

    kind: IntArray  # (n,) places in KINDS
    members: IntArray  # (n, 4) as given
    near: IntArray  # (n, 2) of a pair: the pair itself
    far: IntArray  # (n, 2) of a pair: -1, a threshold stands for it

    @classmethod
    def read(cls, n_samples: int, **given: Any) -> "Claims":
        """Check and join triplets, pairs with pair_labels, and quadruplets, or a Constraints."""
        parts = []
        triplets, pairs, labels, quadruplets = _arrays(**given)
        if triplets is not None:
            abc = check_triplets(triplets, n_samples)
            parts.append(cls._of(np.zeros(len(abc), int), abc, abc[:, [0, 1]], abc[:, [0, 2]]))
        if pairs is not None:
            ab, similar = check_pairs(pairs, labels, n_samples)
            parts.append(cls._of(np.where(similar, 1, 2), ab, ab, np.full_like(ab, _NOBODY)))
        if quadruplets is not None:
            abcd = check_quadruplets(quadruplets, n_samples)
            parts.append(cls._of(np.full(len(abcd), 3), abcd, abcd[:, :2], abcd[:, 2:]))
        return cls(*(np.concatenate(columns) for columns in zip(*map(_fields, parts), strict=True)))

    @classmethod
    def _of(cls, kind: IntArray, given: IntArray, near: IntArray, far: IntArray) -> "Claims":
        members = np.full((len(given), 4), _NOBODY)
        members[:, : given.shape[1]] = given
        return cls(kind, members, near, far)

    def sq_dists(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return squared distances of what is said to be near and far, for mapped samples.

        A similar pair is said to be nearer than a threshold, a dissimilar one farther: the
        threshold that parts the two kinds best, each kind counting one half.
        """
        near, far = _pair_sq_dists(Y, self.near), _pair_sq_dists(Y, np.maximum(self.far, 0))
        similar, dissimilar = self.kind == 1, self.kind == 2
        if similar.any() or dissimilar.any():
            threshold = _best_threshold(near[similar], near[dissimilar])
            far[similar] = threshold
            far[dissimilar] = near[dissimilar]
            near[dissimilar] = threshold
        return near, far

    def pair_numbers(self) -> tuple[IntArray, IntArray]:
        """Return near and far pairs as numbers; the order inside a pair does not matter."""
        both = np.sort(np.concatenate([self.near, self.far]), axis=1)
        _, numbers = np.unique(both, axis=0, return_inverse=True)
        return numbers.ravel()[: len(self.near)], numbers.ravel()[len(self.near) :]


def _arrays(
    triplets: Any = None,
    pairs: Any = None,
    pair_labels: Any = None,
    quadruplets: Any = None,
    constraints: Any = None,
) -> tuple[Any, Any, Any, Any]:
    """Return the arrays given, or those of the constraints; None where there are none."""
    given = (triplets, pairs, pair_labels, quadruplets)
    if constraints is not None:
        if any(array is not None for array in given):
            raise ValueError("Pass constraints= or arrays of comparisons, not both.")
        if not isinstance(constraints, Constraints):
            raise TypeError(
                f"constraints must be a Constraints, got {type(constraints).__name__}. Pass arrays "
                "as triplets=, pairs= or quadruplets=."
            )
        said = constraints
        parts = (said.triplets, said.pairs, said.pair_labels, said.quadruplets)
        triplets, pairs, pair_labels, quadruplets = (p if len(p) else None for p in parts)
    if triplets is None and pairs is None and quadruplets is None:
        raise ValueError(
            "There is nothing to audit: pass triplets=, pairs= with pair_labels=, quadruplets= or "
            "constraints= that hold some."
        )
    if pairs is None and pair_labels is not None:
        raise ValueError("pair_labels belong to pairs: pass pairs= too, or leave them out.")
    return triplets, pairs, pair_labels, quadruplets


def _fields(part: Claims) -> tuple[IntArray, ...]:
    return part.kind, part.members, part.near, part.far


def _pair_sq_dists(Y: FloatArray, pairs: IntArray) -> FloatArray:
    out = np.empty(len(pairs))
    for start in range(0, len(pairs), 65536):  # bounds the memory for many pairs
        i, j = pairs[start : start + 65536].T
        out[start : start + 65536] = np.sum((Y[i] - Y[j]) ** 2, axis=1)
    return out


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

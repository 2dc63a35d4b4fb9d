"""Quadruplets: a and b are nearer to each other than c and d."""

import numpy as np

from mdaml._typing import ArrayLike, BoolArray, IntArray
from mdaml.constraints.forms import answers
from mdaml.constraints.names import Names, get_index
from mdaml.kernels.pairs import pair_sq_dists

COLUMNS = ("a", "b", "c", "d")


def check_quadruplets(quadruplets: ArrayLike, n_samples: int, names: Names = None) -> IntArray:
    """Return quadruplets as an (n, 4) integer array of row indices: near pair, far pair."""
    what = "four row numbers of X: a pair, and a pair that is farther apart"
    rows = answers.check_members("quadruplets", quadruplets, 4, n_samples, what, names)
    why = "The two pairs of a quadruplet must differ"
    answers.refuse_comparisons(why, "quadruplet", rows, _have_one_pair(rows))
    return rows


def _have_one_pair(rows: IntArray) -> BoolArray:
    """Say which of (n, 4) quadruplets compare a pair with itself."""
    near, far = np.sort(rows[:, :2], axis=1), np.sort(rows[:, 2:], axis=1)
    return np.all(near == far, axis=1)


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return the rows of (n, 4) quadruplets, and the faults of lines."""
    members, faults = reader.find_points(cells, COLUMNS)
    faults += reader.find_repeats(members, cells, [(0, 1), (2, 3)])
    return (members,), [*faults, (_have_one_pair(members), "a,b and c,d are the same pair")]


def score_quadruplets(self: "answers.Metric", X: ArrayLike, quadruplets: ArrayLike) -> float:
    """Return the fraction of comparisons of two pairs that hold under the learned distance.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that the quadruplets index; they need not be those of ``fit``.
    quadruplets : array-like of shape (n_quadruplets, 4)
        Row indices: ``X[q[0]]`` and ``X[q[1]]`` should be closer than ``X[q[2]]`` and
        ``X[q[3]]``.

    Returns
    -------
    score : float
        Between 0 and 1; a tie does not hold.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> X = [[0.0], [1.0], [3.0], [6.0]]
    >>> Euclidean().fit(X).score_quadruplets(X, [[0, 1, 2, 3], [0, 2, 1, 2]])
    0.5
    """
    Y = self.transform(X)
    rows = check_quadruplets(quadruplets, len(Y), get_index(X))
    near, far = (pair_sq_dists(Y, pairs) for pairs in np.split(rows, 2, axis=1))
    return float(np.mean(near < far))

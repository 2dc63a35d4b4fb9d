"""Triplets: a is nearer to b than to c."""

import numpy as np

from mdaml._typing import ArrayLike, IntArray
from mdaml.constraints.forms import answers
from mdaml.constraints.names import Names, get_index
from mdaml.kernels.pairs import pair_sq_dists

COLUMNS = ("a", "b", "c")


def check_triplets(triplets: ArrayLike, n_samples: int, names: Names = None) -> IntArray:
    """Return triplets as an (n, 3) integer array of row indices below ``n_samples``.

    `names` are those of the rows of X, if the triplets may name them.
    """
    what = "three row numbers of X: reference, similar, dissimilar"
    return answers.check_members("triplets", triplets, 3, n_samples, what, names)


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return the rows of (n, 3) triplets, and the faults of lines."""
    members, faults = reader.find_points(cells, COLUMNS)
    return (members,), [*faults, *reader.find_repeats(members, cells, [(0, 1), (0, 2), (1, 2)])]


def score_triplets(self: "answers.Metric", X: ArrayLike, triplets: ArrayLike) -> float:
    """Return the fraction of comparisons that hold under the learned distance.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples that the triplets index; they need not be those of ``fit``.
    triplets : array-like of shape (n_triplets, 3)
        Row indices: ``X[t[0]]`` should be closer to ``X[t[1]]`` than to ``X[t[2]]``.

    Returns
    -------
    score : float
        Between 0 and 1; a tie does not hold.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> X = [[0.0], [1.0], [3.0], [6.0]]
    >>> Euclidean().fit(X).score_triplets(X, [[0, 1, 2], [2, 3, 1]])
    0.5
    """
    Y = self.transform(X)
    rows = check_triplets(triplets, len(Y), get_index(X))
    near, far = (pair_sq_dists(Y, rows[:, [0, other]]) for other in (1, 2))
    return float(np.mean(near < far))

"""Groups that comparisons follow: things of one group were called near, others far.

Comparisons are often made from classes that nobody passes on: triplets drawn from labels, clicks on
things of one topic, duplicates. Then each means "same group, other group", and the groups can be
told from the comparisons alone, even if some of them are wrong. If the goal is right neighbours,
the groups teach far more than the comparisons, most of which are about things that are far apart.
"""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.matching import to_comparisons
from mdaml.constraints.value import Constraints

_FOLLOWED = 0.6  # of the comparisons held out; see docs/supervision.md
_HELD_OUT = 5  # one near pair in so many
_FEWEST = 50  # comparisons held out that can tell
_CLEAR = 0.95  # no other groups need to be looked for
_NUMBERS = (0, 2, 4, 8, 16, 32, 64)  # of groups to begin with; some are joined afterwards
_MOST_POINTS = 100_000  # more are only told apart by what was never called near


def find_groups(supervision: Constraints) -> IntArray | None:
    """Return the group of every point, or None if the comparisons do not follow groups.

    They do if groups told from most near pairs fit at least 60 % of the comparisons with the other
    near pairs: the near pair in one group, the far pair in two. Points that were not compared have
    the group ``-1``. The same comparisons always give the same groups.
    """
    rng = np.random.RandomState(0)
    compared = to_comparisons("MDaML", supervision, rng).comparisons()
    named, places = np.unique(compared, return_inverse=True)
    places, n = places.reshape(-1, 4), len(named)
    keys = np.sort(places[:, :2], axis=1) @ np.array([n, 1])
    pairs, pair_of = np.unique(keys, return_inverse=True)
    held_out = (rng.permutation(len(pairs)) % _HELD_OUT == 0)[pair_of]
    if np.count_nonzero(held_out) < _FEWEST:
        return None
    numbers = [number for number in _NUMBERS if number == 0 or 4 * number <= n <= _MOST_POINTS]
    best, most = 0, 0.0
    for number, groups in zip(numbers, _splits(_votes(places[~held_out], n), numbers), strict=True):
        share = _share_that_fits(groups, places[held_out])
        if share > most:
            best, most = number, share
        if share > _CLEAR:
            break
    if most < _FOLLOWED:
        return None
    found = next(_splits(_votes(places, n), [best]))
    groups = np.full(supervision.n_points, -1)
    groups[named] = np.unique(found, return_inverse=True)[1]
    return groups


def _share_that_fits(groups: IntArray, compared: IntArray) -> float:
    a, b, c, d = groups[compared].T
    return float(np.mean((a == b) & (c != d)))


def _votes(compared: IntArray, n: int) -> csr_array:
    """Return 1 for pairs that were called near, -1 for far ones, 0 for both as often."""
    pairs = np.concatenate([compared[:, :2], compared[:, 2:]])
    signs = np.repeat([1.0, -1.0], len(compared))
    votes = csr_array((signs, tuple(pairs.T)), shape=(n, n))
    votes = csr_array(votes + votes.T)
    votes.data = np.sign(votes.data)
    votes.eliminate_zeros()
    return votes


def _splits(votes: csr_array, numbers: list[int]) -> Iterator[IntArray]:
    """Yield groups for each number of them to begin with.

    0 is what near pairs connect. Otherwise clusters of the leading eigenvectors of the votes, after
    which every point goes where its votes are, and groups that vote to be one are joined.
    """
    leading: FloatArray | None = None
    for number in numbers:
        if number == 0:
            yield connected_components(votes.maximum(0.0), directed=False)[1]
            continue
        if leading is None:
            leading = _leading_vectors(votes, max(numbers))
        clusters = KMeans(number, n_init=1, random_state=0)
        yield _joined(votes, clusters.fit_predict(leading[:, -number:]))


def _leading_vectors(votes: csr_array, number: int) -> FloatArray:
    """Return eigenvectors of the normalised votes, those of the largest eigenvalues last."""
    scale = diags_array(1.0 / np.sqrt(np.maximum(abs(votes).sum(axis=1), 1.0)))
    start = np.random.RandomState(0).uniform(size=votes.shape[0])
    vectors: FloatArray = eigsh(scale @ votes @ scale, number, which="LA", v0=start, tol=1e-3)[1]
    return vectors


def _joined(votes: csr_array, groups: IntArray) -> IntArray:
    """Return groups with every point moved to most of its votes, and agreeing groups joined."""
    groups = _settled(votes, groups)
    while True:
        members = _members(groups)
        between = (members.T @ votes @ members).toarray()
        np.fill_diagonal(between, 0.0)
        one, other = np.unravel_index(between.argmax(), between.shape)
        if between[one, other] <= 0.0:
            return _settled(votes, groups)
        groups = np.where(groups == other, one, groups)


def _settled(votes: csr_array, groups: IntArray, n_sweeps: int = 20) -> IntArray:
    """Return groups after each point was moved to the group with most of its votes."""
    for _ in range(n_sweeps):
        before, groups = groups, (votes @ _members(groups)).toarray().argmax(axis=1)
        if np.array_equal(before, groups):
            break
    return groups


def _members(groups: IntArray) -> csr_array:
    """Return which points (rows) are in which groups (columns)."""
    n = len(groups)
    return csr_array((np.ones(n), (np.arange(n), groups)), shape=(n, int(groups.max()) + 1))

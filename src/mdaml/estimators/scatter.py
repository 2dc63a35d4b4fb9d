"""Scatter matrices: sums of ``(x_i - x_j)(x_i - x_j)^T`` over pairs, without the differences.

The sum over a list of pairs is a graph Laplacian between X and itself; the sum over all pairs of a
class, or of different classes, needs class sums only. X is centred by the caller: exact in theory,
essential in floating point.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.sparse import csr_array, issparse

from mdaml._typing import FloatArray, IntArray, Matrix
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.comparisons import PairSet
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import to_pair_sets
from mdaml.kernels.pairs import laplacian_product
from mdaml.kernels.products import transposed_times

_SPARSE_PAIRS = 1 << 16  # whose differences are held at a time
_SMALL_PRODUCT = 1 << 25  # multiplications, about a millisecond, that need no threads


@dataclass(frozen=True)
class PairScatter:
    """The scatter of a set of pairs."""

    total: FloatArray  # (d, d) sum over the pairs, repetitions included
    n_pairs: float  # repetitions included
    n_distinct: int  # a bound of the rank

    @property
    def mean(self) -> FloatArray:
        """The second moment of the differences."""
        return self.total / max(self.n_pairs, 1.0)


def scatters(X: Matrix, supervision: Supervision) -> tuple[PairScatter, PairScatter]:
    """Return the scatters of similar and dissimilar pairs; with labels, of all pairs.

    The samples of classes are in the order of their places.
    """
    if isinstance(supervision, Classes):
        return class_scatters(X, supervision)
    similar, dissimilar = to_pair_sets(supervision)
    scatter = _sparse_pair_scatter if issparse(X) else pair_scatter
    return scatter(X, similar), scatter(X, dissimilar)


def pair_scatter(X: FloatArray, given: PairSet) -> PairScatter:
    """Return the scatter of a list of pairs, each as often as it was given."""
    total = weighted_scatter(X, given.pairs, given.groups, given.counts)
    norms = np.einsum("ij,ij->i", X, X)
    if np.trace(total) <= 1e-6 * (given.counts @ norms[given.pairs].sum(axis=1)):
        # The members of the pairs are so close, or equal, that the Laplacian has lost digits.
        total = _direct_scatter(X, given)
    return PairScatter(total, given.total, len(given.pairs))


def _direct_scatter(X: FloatArray, given: PairSet) -> FloatArray:
    """Return the scatter by differences, in blocks: slower, without cancellation."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for begin in range(0, len(given.pairs), 4096):
        i, j = given.pairs[begin : begin + 4096].T
        differences = X[i] - X[j]
        total += (differences.T * given.counts[begin : begin + 4096]) @ differences
    return _symmetric(total)


def _sparse_pair_scatter(X: Matrix, given: PairSet) -> PairScatter:
    """Return the scatter of pairs of sparse samples, whose differences are sparse too."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for begin in range(0, len(given.pairs), _SPARSE_PAIRS):
        i, j = given.pairs[begin : begin + _SPARSE_PAIRS].T
        differences = X[i] - X[j]
        weights = given.counts[begin : begin + _SPARSE_PAIRS, None]
        total += differences.T @ differences.multiply(weights)
    return PairScatter(_symmetric(total), given.total, len(given.pairs))


def weighted_scatter(
    X: FloatArray, pairs: IntArray, groups: IntArray, weights: FloatArray
) -> FloatArray:
    """Return ``sum_p weights[p] (x_i - x_j)(x_i - x_j)^T``, pairs grouped by their first row."""
    half = transposed_times(X, laplacian_product(X, pairs, groups, weights))
    return half + half.T


def class_scatters(X: Matrix, classes: Classes) -> tuple[PairScatter, PairScatter]:
    """Return the scatters of all pairs within classes and of all pairs across classes.

    With ``n_c`` members, their sum ``s_c`` and second moment ``Q_c``, the pairs within class c
    scatter by ``n_c Q_c - s_c s_c^T``, and all pairs by ``n Q - s s^T``; across is the rest. X
    holds the samples in the order of the places of the classes.
    """
    n, sizes = X.shape[0], classes.size.astype(np.float64)
    if issparse(X):
        members = csr_array((np.ones(n), classes.of, np.arange(n + 1)))  # (n, n_classes)
        sums = (members.T @ X).toarray()
    else:
        sums = np.add.reduceat(X, classes.first)
    total = sums.sum(axis=0)
    moment, weighed = _moments(X, classes)
    within = weighed - sums.T @ sums
    across = n * moment - np.outer(total, total) - within
    n_within = float(np.sum(sizes * (sizes - 1)) / 2)
    n_across = n * (n - 1) / 2 - n_within
    return (
        PairScatter(_symmetric(within), n_within, int(n_within)),
        PairScatter(_symmetric(across), n_across, int(n_across)),
    )


def _moments(X: Matrix, classes: Classes) -> tuple[FloatArray, FloatArray]:
    """Return ``sum_c Q_c`` and ``sum_c n_c Q_c`` for the second moments ``Q_c`` of the classes."""
    if issparse(X):
        weighed = X.multiply(classes.size[classes.of][:, None].astype(np.float64))
        return (X.T @ X).toarray(), (X.T @ weighed).toarray()
    n_classes, d = len(classes.size), X.shape[1]
    if len(X) < max(32, d) * n_classes:  # small classes: two products beat a loop over many
        weighed = X * classes.size[classes.of][:, None]
        return transposed_times(X, X), transposed_times(X, weighed)
    of_classes = np.empty((n_classes, d, d))
    ranges = zip(classes.first.tolist(), classes.size.tolist(), of_classes, strict=True)
    for first, size, own in ranges:
        members = X[first : first + size]
        if members.size * d <= _SMALL_PRODUCT:
            np.matmul(members.T, members, out=own)
        else:
            own[:] = transposed_times(members, members)
    both = np.stack([np.ones(n_classes), classes.size]) @ of_classes.reshape(n_classes, -1)
    moment, weighed = both.reshape(2, d, d)
    return moment, weighed


def ridged(scatter: FloatArray, reg: float, what: str) -> FloatArray:
    """Return a scatter matrix plus ``reg`` times its mean eigenvalue on the diagonal."""
    level = float(np.trace(scatter)) / len(scatter)
    if not level > 0:
        raise ValueError(
            f"The {what} do not differ in any feature: there is nothing to learn from. Are the "
            "samples they name identical?"
        )
    return scatter + reg * level * np.eye(len(scatter))


def cholesky(scatter: FloatArray, what: str) -> FloatArray:
    """Return R, upper triangular, with ``scatter = R^T R``; refuse a singular matrix."""
    try:
        R: FloatArray = np.linalg.cholesky(scatter).T
        pivots = np.square(R.diagonal())
        # Dependent features leave pivots of rounding errors, not zeros.
        singular = pivots.min() <= 100 * len(R) * np.finfo(R.dtype).eps * pivots.max()
    except np.linalg.LinAlgError:
        singular = True
    if singular:
        raise ValueError(
            f"The scatter of the {what} is singular: there are fewer of them than features, or "
            "features depend on each other. Use reg > 0 (the default is 1e-6), or reduce the "
            "features by PCA first."
        )
    return R


def relative_eigh(A: FloatArray, B: FloatArray, what: str) -> tuple[FloatArray, FloatArray]:
    """Return γ, ascending, and columns v with ``A v = γ B v`` and ``v^T B v = 1``.

    A singular B, the scatter of ``what``, is refused with an explanation.
    """
    cholesky(B, what)
    # By LAPACK itself: scipy.linalg.eigh takes as long again to prepare the call of a small one.
    values, V, info = scipy.linalg.lapack.dsygvd(A, B)
    if info != 0:
        raise np.linalg.LinAlgError(f"dsygvd did not converge: {info}.")
    return values, V


def whitened(X: FloatArray, R: FloatArray) -> FloatArray:
    """Return ``X R^{-1}`` for an upper triangular R."""
    solved = scipy.linalg.solve_triangular(R, X.T, trans="T", check_finite=False)
    return np.ascontiguousarray(solved.T)


def _symmetric(A: FloatArray) -> FloatArray:
    return 0.5 * (A + A.T)

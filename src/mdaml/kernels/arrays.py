"""Small steps of the solver whose arrays may also live elsewhere: here, for NumPy arrays."""

import numpy as np

from mdaml import kernels
from mdaml.kernels.products import one_blas_thread


def beside(Y, A):
    """Return A in the precision of Y."""
    return A.astype(Y.dtype)


def center(X):
    """Mean of the rows of X, and X without it."""
    mean = X.mean(axis=0)
    return mean, X - mean


def column_sums(Y, dtype=None):
    """Sum of the rows of Y."""
    return Y.sum(axis=0, dtype=dtype)


def cross_product(_F, Y, V):
    """``Y.T @ V`` for tall Y and V, in double precision and on the host, as F is."""
    return kernels.transposed_times(Y, V)


def copied(Y):
    """Return a copy."""
    return Y.copy()


def eigh(_Y, A):
    """Eigenvalues and eigenvectors of a small symmetric A, decomposed where Y is."""
    return np.linalg.eigh(A)


def fit_threads(_X):
    """Limit the threads of BLAS during a fit."""
    return one_blas_thread()


def in_double(_X, A):
    """Return a small array in double precision."""
    return A.astype(np.float64, copy=False)


def inner_product(a, b):
    """Sum of the products of corresponding entries, in double precision."""
    if a.ndim > 1:
        return np.sum(a * b, dtype=np.float64)
    return np.dot(a, b) if a.dtype == np.float64 else np.einsum("i,i", a, b, dtype=np.float64)


def sum_of_squares(A):
    """Sum of all squared entries, in double precision and without a copy."""
    return float(np.einsum("ij,ij->", A, A, dtype=np.float64))


def mean_and_spread(X):
    """Mean and standard deviation of each column."""
    if isinstance(X, np.ndarray):
        return X.mean(axis=0), X.std(axis=0)
    return np.zeros(X.shape[1], X.dtype), X.spread()


def mean_rows(weights, X):
    """Weighted means of the rows of X, one for each column of weights."""
    sums = kernels.transposed_times(weights, X)
    return (sums / column_sums(weights, np.float64)[:, None]).astype(X.dtype)


def precision(Y):
    """Type of the entries, as NumPy calls it."""
    return Y.dtype


def small_matrix(_X, A):
    """Return a matrix of the size of the metric where its algebra is done."""
    return A


def start_weights(X, weights):
    """Rows of weights made to sum to one, off zero, in the precision of X."""
    shares = weights / weights.sum(axis=1, keepdims=True)
    weights = np.maximum(shares, 1e-12).astype(X.dtype)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def to_host(Y):
    """Return Y as a NumPy array."""
    return Y

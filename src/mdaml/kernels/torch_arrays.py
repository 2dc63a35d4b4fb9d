"""Products, sums and small steps of the solver, for tensors on any device.

Whatever has one entry per sample, pair or comparison stays on the device; matrices of the size of
the metric come back as NumPy arrays in double precision.
"""

from contextlib import nullcontext

import numpy as np
import torch

from mdaml.kernels.products import one_blas_thread

# Rows whose products are summed in single precision, before double precision takes over. Many
# blocks also keep all processors of a device busy where the result is a small matrix.
_ROWS_PER_BLOCK = 4096
_MAX_PARTIAL = 2**27  # entries of all partial sums together
# From this size on an eigendecomposition pays for the way to a GPU and back, and BLAS for threads.
LARGE = 256


def to_device(array, device):
    """Return a copy of a NumPy array on a device; read-only arrays need no copy before."""
    return torch.tensor(array, device=device)


def beside(Y, array):
    """Return a NumPy array, or a tensor, in the precision and on the device of Y."""
    if isinstance(array, torch.Tensor):
        return array.to(Y)
    return torch.tensor(array).to(Y)


def to_host(Y):
    """Return Y as a NumPy array."""
    return Y.cpu().numpy()


def precision(Y):
    """Type of the entries, as NumPy calls it."""
    return np.dtype(str(Y.dtype).removeprefix("torch."))


def center(X):
    """Mean of the rows of X, in its precision and on the host, and X without it, single."""
    mean = X.mean(dim=0, dtype=torch.float64).to(X)
    return to_host(mean), (X - mean).float()


def column_sums(Y, dtype=None):
    """Sum of the rows of Y, in double precision whatever was asked for."""
    del dtype
    return to_host(Y.sum(dim=0, dtype=torch.float64))


def cross_product(_F, Y, V):
    """``Y.T @ V`` for tall Y and V, in double precision and on the device, as F is."""
    return _transposed_times(Y, V)


def copied(Y):
    """Return a copy."""
    return Y.clone()


def eigh(Y, A):
    """Eigenvalues and eigenvectors of a small symmetric A, decomposed where that is faster."""
    if Y.device.type == "cpu" or len(A) < LARGE:
        return np.linalg.eigh(A)
    values, vectors = torch.linalg.eigh(to_device(A, Y.device))
    return to_host(values), to_host(vectors)


def fit_threads(X):
    """Limit the threads of BLAS during a fit, unless large matrices need them.

    No threads of ours compete with them here.
    """
    return one_blas_thread() if X.shape[1] < LARGE else nullcontext()


def in_double(X, A):
    """Return a small array in double precision on the device of X."""
    return to_device(A, X.device).double()


def sum_of_squares(A):
    """Sum of all squared entries, in double precision and without a copy."""
    return float(torch.linalg.vector_norm(A, dtype=torch.float64)) ** 2


def inner_product(a, b):
    """Sum of the products of corresponding entries, in double precision."""
    return float((a * b).sum(dtype=torch.float64))


def mean_rows(weights, X):
    """Weighted means of the rows of X, one for each column of weights."""
    means = transposed_times(weights, X) / column_sums(weights)[:, None]
    return means.astype(precision(X))


def small_matrix(X, A):
    """Return a matrix of the size of the metric where its algebra is done: large ones on a GPU."""
    if len(A) < LARGE or X.device.type == "cpu":
        return A
    return to_device(A, X.device)


def start_weights(X, weights):
    """Rows of weights made to sum to one, off zero, in the precision and on the device of X."""
    if not isinstance(weights, torch.Tensor):
        weights = to_device(weights, X.device)
    shares = (weights / weights.sum(dim=1, keepdim=True)).clamp(min=1e-12).to(X)
    return shares / shares.sum(dim=1, keepdim=True)


def rows_times(Y, A):
    """``Y @ A`` for a tall Y."""
    return Y @ beside(Y, A)


def transposed_times(Y, V):
    """``Y.T @ V`` for tall Y and V, in double precision and on the host."""
    return to_host(_transposed_times(Y, V))


def weighted_gram(Y, weights):
    """``Y.T @ diag(weights) @ Y`` for a tall Y, in double precision and on the host."""
    return transposed_times(Y, Y * weights[:, None])


def _transposed_times(Y, V):
    n_blocks = len(Y) // _ROWS_PER_BLOCK
    n_blocks = min(n_blocks, max(_MAX_PARTIAL // (Y.shape[1] * V.shape[1]), 1))
    n_rows = len(Y) // n_blocks if n_blocks else 0
    total = (Y[n_blocks * n_rows :].T @ V[n_blocks * n_rows :]).double()
    if n_blocks:
        blocks = [A[: n_blocks * n_rows].reshape(n_blocks, n_rows, A.shape[1]) for A in (Y, V)]
        partial = torch.bmm(blocks[0].transpose(1, 2), blocks[1])
        total += partial.sum(dim=0, dtype=torch.float64)
    return total

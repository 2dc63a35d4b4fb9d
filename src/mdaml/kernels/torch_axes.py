"""Principal axes on a device: a randomised decomposition as scikit-learn's ``randomized_svd``.

The draws come from NumPy and are those of scikit-learn, so the same seed gives the same axes up to
rounding and sign.
"""

import numpy as np
import torch

from mdaml.kernels.torch_arrays import beside, to_host

N_MORE, N_ROUNDS = 10, 4  # axes beyond those wanted, and products with X both ways


def principal_axes(X, n_axes, rng):
    """Longest singular values of X and their right vectors (d, m).

    On the host. Of X are made products with some 40 columns, nothing of its own size.
    """
    wide = X.shape[0] < X.shape[1]
    A = X.T if wide else X
    Q = beside(X, rng.normal(size=(A.shape[1], n_axes + N_MORE)))
    for _ in range(N_ROUNDS):
        Q = torch.linalg.qr(A @ Q)[0]
        Q = torch.linalg.qr(A.T @ Q)[0]
    Q = torch.linalg.qr(A @ Q)[0]
    # At most some 40 rows of d or fewer entries: on the host this is soon done.
    left, lengths, right = np.linalg.svd(to_host((Q.T @ A).double()), full_matrices=False)
    axes = to_host(Q.double()) @ left if wide else right.T
    return lengths[:n_axes], axes[:, :n_axes]

"""Starts on a device: a Gaussian mixture for the modes, principal axes for metrics of low rank.

Expectation maximisation as scikit-learn's ``GaussianMixture`` does it, from k-means++ seeds, on a
sample of the rows; in double precision throughout. The draws come from NumPy, so the same seed
gives the same start on every device, though not the start of scikit-learn. The axes are those of
scikit-learn's ``randomized_svd`` for the same seed, up to rounding and sign.
"""

import math

import numpy as np
import torch

from mdaml.neighbors.device import blocks

FLOOR = 1e-3  # added to variances of features whose variance is one
MAX_STEPS, TOL = 20, 1e-2  # TOL of the mean log-likelihood
N_MORE, N_ROUNDS = 10, 4  # axes beyond those wanted, and products with X both ways


def mixture_posteriors(X, n_modes, rows, rng):
    """Probability of each mode for each row of X, estimated from some rows (None: all of them)."""
    mean, spread = X.mean(dim=0, dtype=torch.float64), X.std(dim=0, correction=0).double()
    # Scaled, so that one floor suits all variances; constant features stay as they are.
    spread = torch.where(spread > 0, spread, 1.0)
    some = X if rows is None else X[torch.tensor(rows, device=X.device)]
    mixture = _fit((some - mean) / spread, n_modes, rng)
    out = X.new_empty((len(X), n_modes))
    for begin, end in blocks(len(X), 4 * X.shape[1]):
        out[begin:end] = _log_joint((X[begin:end] - mean) / spread, mixture).softmax(dim=1)
    return out


def _fit(X, n_modes, rng):
    """Logarithms of the shares, means and variances of the modes."""
    means = X[_seeds(X, n_modes, rng)]
    shares = X.new_full((n_modes,), -math.log(n_modes))
    mixture, last = (shares, means, torch.full_like(means, FLOOR)), -math.inf
    for _ in range(MAX_STEPS):
        joint = _log_joint(X, mixture)
        likelihood = joint.logsumexp(dim=1, keepdim=True)
        mixture = _estimate(X, (joint - likelihood).exp())
        height = float(likelihood.mean())
        if abs(height - last) < TOL:
            break
        last = height
    return mixture


def _estimate(X, posteriors):
    masses = posteriors.sum(dim=0) + 10 * torch.finfo(X.dtype).eps
    means = (posteriors.T @ X) / masses[:, None]
    variances = (posteriors.T @ X.square()) / masses[:, None] - means.square()
    return (masses / len(X)).log(), means, variances.clamp(min=0.0) + FLOOR


def _log_joint(X, mixture):
    """Logarithm of share times density of each mode at each row, up to a common constant."""
    log_shares, means, variances = mixture
    inverse = 1.0 / variances
    sq_dists = X.square() @ inverse.T - 2.0 * (X @ (means * inverse).T)
    sq_dists += (means.square() * inverse).sum(dim=1)
    return log_shares - 0.5 * (sq_dists + variances.log().sum(dim=1))


def _seeds(X, n_modes, rng):
    """Rows far from each other: k-means++, the best of a few candidates each time."""
    n_trials = 2 + int(math.log(n_modes))
    seeds = [int(rng.randint(len(X)))]
    closest = (X - X[seeds[0]]).square().sum(dim=1)
    while len(seeds) < n_modes:
        # The place of a draw in the sums up to each row: a row's chance is its squared distance.
        draws = torch.tensor(rng.random_sample(n_trials), device=X.device) * closest.sum()
        places = torch.searchsorted(closest.cumsum(dim=0), draws).clamp(max=len(X) - 1)
        trials = [(X - X[place]).square().sum(dim=1).minimum(closest) for place in places]
        best = int(torch.stack([trial.sum() for trial in trials]).argmin())
        seeds.append(int(places[best]))
        closest = trials[best]
    return seeds


def principal_axes(X, n_axes, rng):
    """Longest singular values of X and their right vectors (d, m).

    On the host. Of X are made products with some 40 columns, nothing of its own size.
    """
    wide = X.shape[0] < X.shape[1]
    A = X.T if wide else X
    Q = torch.tensor(rng.normal(size=(A.shape[1], n_axes + N_MORE))).to(X)
    for _ in range(N_ROUNDS):
        Q = torch.linalg.qr(A @ Q)[0]
        Q = torch.linalg.qr(A.T @ Q)[0]
    Q = torch.linalg.qr(A @ Q)[0]
    # At most some 40 rows of d or fewer entries: on the host this is soon done.
    left, lengths, right = np.linalg.svd((Q.T @ A).double().cpu().numpy(), full_matrices=False)
    axes = Q.double().cpu().numpy() @ left if wide else right.T
    return lengths[:n_axes], axes[:, :n_axes]

"""First weights of samples in the modes: by a Gaussian mixture, or by k-means of scikit-learn."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn import config_context
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from mdaml._typing import FloatArray, IntArray, Rng
from mdaml._validation import ignore_warnings

# Rows that the start is estimated from; all rows get their weights from the estimate.
MAX_ROWS_FOR_START = 20_000
MAX_ROWS_TO_COUNT = 2_000  # that modes are counted in
_FLOOR = 1e-3  # of a variance, next to one
_MOST_STEPS, _SMALL_GAIN = 20, 1e-2  # of the mean log likelihood


def n_rows_for_start(n_modes: int = 0) -> int:
    """Return how many rows the start of the modes is estimated from, at most."""
    return max(MAX_ROWS_FOR_START, 10 * n_modes)


def some_of(n_samples: int, n_rows: int, rng: Rng) -> IntArray | None:
    """Return at most so many rows, drawn at random; None: all of them."""
    if n_samples <= n_rows:
        return None
    return np.sort(rng.choice(n_samples, n_rows, replace=False))


def scale_rows(X: FloatArray, mean: FloatArray, spread: FloatArray) -> FloatArray:
    """Scale features, so that one floor suits all variances; constant ones stay as they are."""
    return (X - mean) / np.where(spread > 0, spread, 1)


@dataclass(frozen=True)
class Mixture:
    """Gaussians with diagonal covariances, as ``GaussianMixture`` of scikit-learn has them.

    On a thousand samples its checks take several times as long as the estimate itself.
    """

    shares: FloatArray  # (K,)
    means: FloatArray  # (K, d)
    precisions: FloatArray  # (K, d) inverse variances

    @classmethod
    def of(cls, X: FloatArray, posteriors: FloatArray) -> "Mixture":
        """Return the most likely mixture, given how likely each row comes from each mode."""
        masses = posteriors.sum(axis=0) + 10 * np.finfo(posteriors.dtype).eps
        means = posteriors.T @ X / masses[:, None]
        variances = posteriors.T @ (X * X) / masses[:, None] - means**2 + _FLOOR
        return cls(masses / len(X), means, 1.0 / variances)

    def posteriors(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean log likelihood of the rows, and how likely each comes from each mode."""
        scaled = self.means * self.precisions
        sq_dists = (X * X) @ self.precisions.T - 2.0 * (X @ scaled.T)
        sq_dists += np.sum(self.means * scaled, axis=1)
        logs = np.log(self.shares) + 0.5 * np.sum(np.log(self.precisions), axis=1) - 0.5 * sq_dists
        highest = logs.max(axis=1, keepdims=True)
        parts = np.exp(logs - highest)
        totals = parts.sum(axis=1, keepdims=True)
        mean_log = float(np.mean(highest + np.log(totals), dtype=np.float64))
        return mean_log - 0.5 * X.shape[1] * float(np.log(2.0 * np.pi)), parts / totals

    def bic(self, X: FloatArray) -> float:
        """Return the Bayesian information criterion of some rows."""
        n_numbers = self.means.size + self.precisions.size + len(self.shares) - 1
        return n_numbers * float(np.log(len(X))) - 2.0 * len(X) * self.posteriors(X)[0]


def estimate_mixture(scaled: FloatArray, n_modes: int, rng: Rng) -> Mixture:
    """Return a mixture estimated from scaled rows, by few steps from k-means++ seeds."""
    # Deviates from the paper (6): diagonal covariances and few steps, as good a start for less.
    with _quiet():
        seeds = kmeans_plusplus(scaled, n_modes, random_state=rng)[1]
    posteriors = np.zeros((len(scaled), n_modes), scaled.dtype)
    posteriors[seeds, np.arange(n_modes)] = 1.0
    mixture, before = Mixture.of(scaled, posteriors), -np.inf
    for _ in range(_MOST_STEPS):
        likelihood, posteriors = mixture.posteriors(scaled)
        mixture = Mixture.of(scaled, posteriors)
        if abs(likelihood - before) < _SMALL_GAIN:
            break
        before = likelihood
    return mixture


def count_modes(rows: FloatArray, most: int, rng: Rng) -> int:
    """Return how many modes some rows have: 1, 2, 4, ... as long as BIC falls."""
    scaled = scale_rows(rows.astype(np.float64), rows.mean(axis=0), rows.std(axis=0))
    best, lowest = 1, np.inf
    for n_modes in 2 ** np.arange(int(np.log2(max(most, 1))) + 1):
        criterion = estimate_mixture(scaled, int(n_modes), rng).bic(scaled)
        if criterion >= lowest:
            break
        best, lowest = int(n_modes), criterion
    return best


def estimate_kmeans(rows: FloatArray, n_modes: int, rng: Rng) -> KMeans:
    """Return k-means centres of some rows."""
    with _quiet():
        return KMeans(n_modes, n_init=1, random_state=rng).fit(rows)


def weights_from(estimate: Mixture | KMeans, rows: FloatArray) -> FloatArray:
    """Return the posteriors of a mixture, or weight one for the nearest k-means centre."""
    if isinstance(estimate, Mixture):
        return estimate.posteriors(rows)[1]
    with _quiet():
        return np.eye(estimate.n_clusters)[estimate.predict(rows)]


def positive_shares(weights: FloatArray, dtype: npt.DTypeLike) -> FloatArray:
    """Return weights whose rows sum to one, none of them zero.

    From zero a sample could never come back to a mode.
    """
    shares = weights / weights.sum(axis=1, keepdims=True)
    positive: FloatArray = np.maximum(shares, 1e-12).astype(dtype)
    positive /= positive.sum(axis=1, keepdims=True)
    return positive


def shares_at(sq_dists: FloatArray, eta: float) -> FloatArray:
    """Return the best weights for squared distances to the centres, without any comparison.

    ``w_ik ~ d2(x_i, c_k)**(-1/(eta-1))``, kept off zero as at the start of a fit.
    """
    dtype = sq_dists.dtype
    sq_dists = np.maximum(sq_dists, np.finfo(dtype).tiny).astype(np.float64)
    weights = np.exp(np.log(sq_dists.min(axis=1, keepdims=True) / sq_dists) / (eta - 1.0))
    return positive_shares(weights, dtype)


@contextmanager
def _quiet() -> Iterator[None]:
    """Run scikit-learn for a start, whatever the user has configured.

    A start need not be converged: the alternation moves on from it. Nor need clusters be distinct:
    where samples coincide, some modes begin without samples of their own.
    """
    # The samples are NumPy arrays; scikit-learn refuses k-means++ while it dispatches on others.
    with ignore_warnings(ConvergenceWarning, "sklearn"), config_context(array_api_dispatch=False):
        yield

"""Modes: soft clusters with centres, and the weights of every sample in them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from sklearn import config_context
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray

# Rows that the start of the modes is estimated from; all rows get their weights from the estimate.
MAX_ROWS_FOR_START = 20_000


@dataclass(frozen=True)
class Modes:
    """Soft clusters; each update returns a new value."""

    centers: FloatArray  # (K, d)
    weights: FloatArray  # (N, K) rows sum to one
    powers: FloatArray  # (N, K) weights**eta


def modes_from_weights(X: FloatArray, weights: FloatArray, eta: float) -> Modes:
    """Modes with given weights, centred at the weighted means of the samples.

    Weights are kept off zero, where a sample could never come back to a mode.
    """
    weights = kernels.start_weights(X, weights)
    return Modes(kernels.mean_rows(weights, X), weights, weights**eta)


def mixture_weights(X: FloatArray, n_modes: int, rng: np.random.RandomState) -> FloatArray:
    """Posterior probabilities of a Gaussian mixture with diagonal covariances."""
    # Deviates from the paper (6): diagonal covariances and few steps, as good a start for less.
    if not isinstance(X, np.ndarray):
        return kernels.mixture_posteriors(X, n_modes, _row_numbers(len(X), n_modes, rng), rng)
    spread = X.std(axis=0)
    # Scaled, so that one floor suits all variances; constant features stay as they are.
    scaled = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    mixture = GaussianMixture(
        n_modes,
        covariance_type="diag",
        reg_covar=1e-3,
        init_params="k-means++",
        max_iter=20,
        tol=1e-2,
        random_state=rng,
    )
    with _quiet():
        mixture.fit(_some_rows(scaled, n_modes, rng))
        posteriors: FloatArray = mixture.predict_proba(scaled)
    return posteriors


def kmeans_weights(X: FloatArray, n_modes: int, rng: np.random.RandomState) -> FloatArray:
    """Weight one for the nearest k-means centre."""
    kmeans = KMeans(n_modes, n_init=1, random_state=rng)
    with _quiet():
        kmeans.fit(kernels.to_host(_some_rows(X, n_modes, rng)))
        if not isinstance(X, np.ndarray):
            return kernels.nearest_center(X, kmeans.cluster_centers_)
        nearest: FloatArray = np.eye(n_modes)[kmeans.predict(X)]
    return nearest


@contextmanager
def _quiet() -> Iterator[None]:
    """Run scikit-learn for a start, whatever the user has configured.

    A start need not be converged: the alternation moves on from it. Nor need clusters be distinct:
    where samples coincide, some modes begin without samples of their own.
    """
    # The samples are NumPy arrays; scikit-learn refuses k-means++ while it dispatches on others.
    with warnings.catch_warnings(), config_context(array_api_dispatch=False):
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _some_rows(X: FloatArray, n_modes: int, rng: np.random.RandomState) -> FloatArray:
    rows = _row_numbers(len(X), n_modes, rng)
    return X if rows is None else X[rows]


def _row_numbers(n_samples: int, n_modes: int, rng: np.random.RandomState) -> IntArray | None:
    """Return the rows to estimate the start from; None for all."""
    n_rows = max(MAX_ROWS_FOR_START, 10 * n_modes)
    return np.sort(rng.choice(n_samples, n_rows, replace=False)) if n_samples > n_rows else None


def update_centers(X: FloatArray, modes: Modes) -> Modes:
    """Move each centre to the weighted mean of the samples.

    Eq. (10), the minimiser of Eq. (9): ``c_k = sum_i w_ik**eta x_i / sum_i w_ik**eta``. A mode
    whose weights have all vanished stays where it is.
    """
    masses = kernels.column_sums(modes.powers)[:, None]
    alive = masses > 0
    means = kernels.transposed_times(modes.powers, X) / np.where(alive, masses, 1)
    centers = np.where(alive, means, modes.centers).astype(modes.centers.dtype)
    return replace(modes, centers=centers)


def update_weights(
    modes: Modes,
    sq_dists: FloatArray,
    losses: FloatArray,
    neighbors: "Neighbors",
    eta: float,
) -> Modes:
    """Move weight to the modes that cost least, one sample after another.

    Eq. (14), the minimiser of Eq. (11) by the conditions of Eq. (12) and (13):
    ``w_ik ~ F_ik**(-1/(eta-1))`` with ``F_ik = sq_dists[i, k] + sum_p losses[p] w_jk**eta`` over
    the near pairs p of sample i and another sample j, in either role. A sample sees the new weights
    of those updated before it: only then does the objective never rise.
    """
    # Deviates from the paper (5): by colours of the graph of near pairs, not by row number.
    weights, powers = kernels.copied(modes.weights), kernels.copied(modes.powers)
    kernels.sequential_weights(
        weights, powers, sq_dists, neighbors.graph, losses, neighbors.order, neighbors.colors, eta
    )
    return replace(modes, weights=weights, powers=powers)


@dataclass(frozen=True)
class Neighbors:
    """The samples joined by near pairs, and an order of updates that threads can share.

    Samples of one colour share no pair, so updating them at once is the same as one by one.
    """

    graph: tuple[IntArray, IntArray, IntArray]
    order: IntArray  # (N,) samples by colour
    colors: IntArray  # (n_colors + 1,) where each colour begins in order

    @classmethod
    def from_graph(cls, graph: tuple[IntArray, IntArray, IntArray]) -> "Neighbors":
        """Colour the graph of near pairs greedily."""
        color = kernels.greedy_colors(*graph[:2])
        starts = np.concatenate([[0], np.cumsum(np.bincount(color))])
        return cls(graph, np.argsort(color, kind="stable"), starts)


def clustering_scatter(X: FloatArray, modes: Modes) -> FloatArray:
    """Gradient of the averaged clustering term in the metric.

    Eq. (5) is linear in the metric, with the constant gradient
    ``1/(NK) sum_ik w_ik**eta (x_i - c_k)(x_i - c_k)^T`` for centres that need not be the means.
    """
    powers, centers = modes.powers, modes.centers.astype(np.float64)
    by_mode = kernels.transposed_times(powers, X)  # (K, d)
    own = kernels.transposed_times(X, X * powers.sum(axis=1, keepdims=True))
    cross = by_mode.T @ centers
    masses = kernels.column_sums(powers, np.float64)[:, None]
    scatter = (own - cross - cross.T + centers.T @ (masses * centers)) / prod(powers.shape)
    # The subtraction may leave a negative eigenvalue of the size of rounding, along which an
    # objective without ridge would fall for ever.
    spread, axes = kernels.eigh(X, scatter)
    return (axes * np.maximum(spread, 0.0)) @ axes.T

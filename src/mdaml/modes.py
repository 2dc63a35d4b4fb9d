"""Modes: soft clusters with centres, and the weights of every sample in them."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from sklearn import config_context
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml.constraints import Comparisons
from mdaml.kernels import Samples

# Rows that the start of the modes is estimated from; all rows get their weights from the estimate.
MAX_ROWS_FOR_START = 20_000
_ROWS_PER_BLOCK = 4096


@dataclass(frozen=True)
class Modes:
    """Soft clusters; each update returns a new value."""

    centers: FloatArray  # (K, d)
    weights: FloatArray  # (N, K) rows sum to one
    powers: FloatArray  # (N, K) weights**eta


def modes_from_weights(X: Samples, weights: FloatArray, eta: float) -> Modes:
    """Modes with given weights, centred at the weighted means of the samples.

    Weights are kept off zero, where a sample could never come back to a mode.
    """
    weights = kernels.start_weights(X, weights)
    return Modes(kernels.mean_rows(weights, X), weights, weights**eta)


def positive_shares(weights: FloatArray, dtype: npt.DTypeLike) -> FloatArray:
    """Return weights whose rows sum to one, none of them zero."""
    shares = weights / weights.sum(axis=1, keepdims=True)
    positive: FloatArray = np.maximum(shares, 1e-12).astype(dtype)
    positive /= positive.sum(axis=1, keepdims=True)
    return positive


def mixture_weights(X: Samples, n_modes: int, rng: np.random.RandomState) -> FloatArray:
    """Posterior probabilities of a Gaussian mixture with diagonal covariances."""
    if not kernels.on_host(X):
        return kernels.mixture_posteriors(X, n_modes, rows_for_start(len(X), n_modes, rng), rng)
    mean, spread = kernels.mean_and_spread(X)
    some = scale_rows(_some_rows(X, n_modes, rng), mean, spread)
    mixture = estimate_mixture(some, n_modes, rng)
    return _by_blocks(
        X, lambda rows: weights_from(mixture, scale_rows(rows, mean, spread)), n_modes
    )


def scale_rows(X: FloatArray, mean: FloatArray, spread: FloatArray) -> FloatArray:
    """Scale features, so that one floor suits all variances; constant ones stay as they are."""
    return (X - mean) / np.where(spread > 0, spread, 1)


def estimate_mixture(
    scaled: FloatArray, n_modes: int, rng: np.random.RandomState
) -> GaussianMixture:
    """Return a Gaussian mixture with diagonal covariances, estimated from scaled rows."""
    # Deviates from the paper (6): diagonal covariances and few steps, as good a start for less.
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
        return mixture.fit(scaled)


def kmeans_weights(X: Samples, n_modes: int, rng: np.random.RandomState) -> FloatArray:
    """Weight one for the nearest k-means centre."""
    kmeans = estimate_kmeans(_some_rows(X, n_modes, rng), n_modes, rng)
    return _by_blocks(X, lambda rows: weights_from(kmeans, rows), n_modes)


def estimate_kmeans(rows: FloatArray, n_modes: int, rng: np.random.RandomState) -> KMeans:
    """Return k-means centres of some rows."""
    with _quiet():
        return KMeans(n_modes, n_init=1, random_state=rng).fit(kernels.to_host(rows))


def weights_from(estimate: GaussianMixture | KMeans, rows: FloatArray) -> FloatArray:
    """Return the posteriors of a mixture, or weight one for the nearest k-means centre."""
    if not isinstance(rows, np.ndarray):
        return kernels.nearest_center(rows, estimate.cluster_centers_)
    with _quiet():
        if isinstance(estimate, KMeans):
            return np.eye(estimate.n_clusters)[estimate.predict(rows)]
        return estimate.predict_proba(rows)


def _by_blocks(X: Samples, weigh: Callable[[FloatArray], FloatArray], n_modes: int) -> FloatArray:
    """Return the weights of all rows, of many on the host in blocks: bounds the memory."""
    if len(X) <= MAX_ROWS_FOR_START or not kernels.on_host(X):
        return weigh(X[:])
    out = np.empty((len(X), n_modes), X.dtype)
    for begin in range(0, len(X), _ROWS_PER_BLOCK):
        out[begin : begin + _ROWS_PER_BLOCK] = weigh(X[begin : begin + _ROWS_PER_BLOCK])
    return out


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


def _some_rows(X: Samples, n_modes: int, rng: np.random.RandomState) -> FloatArray:
    rows = rows_for_start(len(X), n_modes, rng)
    return X[:] if rows is None else X[rows]


def rows_for_start(n_samples: int, n_modes: int, rng: np.random.RandomState) -> IntArray | None:
    """Return the rows that the start of the modes is estimated from; None: all of them."""
    n_rows = max(MAX_ROWS_FOR_START, 10 * n_modes)
    if n_samples <= n_rows:
        return None
    return np.sort(rng.choice(n_samples, n_rows, replace=False))


def update_centers(X: Samples, modes: Modes) -> Modes:
    """Move each centre to the weighted mean of the samples.

    Eq. (10), the minimiser of Eq. (9): ``c_k = sum_i w_ik**eta x_i / sum_i w_ik**eta``. A mode
    whose weights have all vanished stays where it is.
    """
    sums = kernels.transposed_times(modes.powers, X)
    masses = kernels.column_sums(modes.powers, np.float64)
    return replace(modes, centers=move_centers(sums, masses, modes.centers))


def move_centers(sums: FloatArray, masses: FloatArray, centers: FloatArray) -> FloatArray:
    """Return the weighted means from weighted sums; centres without mass stay."""
    alive = masses[:, None] > 0
    means = sums / np.where(alive, masses[:, None], 1)
    return np.where(alive, means, centers).astype(centers.dtype)


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

    graph: tuple[IntArray, IntArray, IntArray] | None  # None: made again for every round
    order: IntArray  # (N,) samples by colour
    colors: IntArray  # (n_colors + 1,) where each colour begins in order

    @classmethod
    def from_graph(cls, graph: tuple[IntArray, IntArray, IntArray]) -> "Neighbors":
        """Colour the graph of near pairs greedily."""
        color = kernels.greedy_colors(*graph[:2])
        starts = np.concatenate([[0], np.cumsum(np.bincount(color))])
        return cls(graph, np.argsort(color, kind="stable"), starts)

    def without_graph(self) -> "Neighbors":
        """Keep the order only: the graph can be made again where memory is scarce."""
        return replace(self, graph=None)

    def with_graph(self, comparisons: Comparisons) -> "Neighbors":
        """Make the graph again if it was not kept."""
        return self if self.graph is not None else replace(self, graph=comparisons.near_graph())


def clustering_scatter(X: Samples, modes: Modes) -> FloatArray:
    """Gradient of the averaged clustering term in the metric.

    Eq. (5) is linear in the metric, with the constant gradient
    ``1/(NK) sum_ik w_ik**eta (x_i - c_k)(x_i - c_k)^T`` for centres that need not be the means.
    """
    return scatter_from_moments(*weighted_moments(X, modes.powers), modes.centers, len(X))


def weighted_moments(X: Samples, powers: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the sums over samples that the scatter around any centres is made of."""
    own = kernels.weighted_gram(X, powers.sum(axis=1))  # (d, d)
    by_mode = kernels.transposed_times(powers, X)  # (K, d)
    return own, by_mode, kernels.column_sums(powers, np.float64)


def scatter_from_moments(
    own: FloatArray, by_mode: FloatArray, masses: FloatArray, centers: FloatArray, n_samples: int
) -> FloatArray:
    """Return the averaged scatter around centres."""
    centers = centers.astype(np.float64)
    cross = by_mode.T @ centers
    scatter = own - cross - cross.T + centers.T @ (masses[:, None] * centers)
    scatter /= n_samples * len(centers)
    # The subtraction may leave a negative eigenvalue of the size of rounding, along which an
    # objective without ridge would fall for ever.
    spread, axes = np.linalg.eigh(scatter)
    return (axes * np.maximum(spread, 0.0)) @ axes.T

"""Modes: soft clusters with centres, and the weights of every sample in them."""

from dataclasses import dataclass, replace

import numpy as np

from mdaml._typing import FloatArray
from mdaml.solver.store import Measured, Store, Weights


@dataclass(frozen=True)
class Modes:
    """Soft clusters; each update returns a new value."""

    centers: FloatArray  # (K, d)
    weights: Weights  # (N, K) rows sum to one; kept with their powers weights**eta by the store

    @property
    def n_modes(self) -> int:
        """The number of modes, K."""
        return len(self.centers)


def update_centers(store: Store, modes: Modes) -> Modes:
    """Move each centre to the weighted mean of the samples.

    Eq. (10), the minimiser of Eq. (9): ``c_k = sum_i w_ik**eta x_i / sum_i w_ik**eta``. A mode
    whose weights have all vanished stays where it is.
    """
    sums, masses = store.center_sums(modes.weights)
    alive = masses[:, None] > 0
    means = sums / np.where(alive, masses[:, None], 1)
    centers = np.where(alive, means, modes.centers).astype(modes.centers.dtype)
    return replace(modes, centers=centers)


def update_weights(
    store: Store, modes: Modes, measured: Measured, loss_factor: float, eta: float
) -> Modes:
    """Move weight to the modes that cost least, one sample after another.

    Eq. (14), the minimiser of Eq. (11) by the conditions of Eq. (12) and (13):
    ``w_ik ~ F_ik**(-1/(eta-1))`` with ``F_ik = d2(x_i, c_k)/N + loss_factor sum_p loss_p
    w_jk**eta`` over the near pairs p of sample i and another sample j, in either role. A sample
    sees the new weights of those updated before it: only then does the objective never rise.
    """
    # Deviates from the paper (5): by colours of the graph of near pairs, not by row number.
    weights = store.update_weights(modes.weights, measured, loss_factor, eta)
    return replace(modes, weights=weights)


def clustering_scatter(store: Store, modes: Modes) -> FloatArray:
    """Gradient of the averaged clustering term in the metric.

    Eq. (5) is linear in the metric, with the constant gradient
    ``1/(NK) sum_ik w_ik**eta (x_i - c_k)(x_i - c_k)^T`` for centres that need not be the means.
    """
    own, by_mode, masses = store.moments(modes.weights)
    centers = modes.centers.astype(np.float64)
    cross = by_mode.T @ centers
    scatter = own - cross - cross.T + centers.T @ (masses[:, None] * centers)
    scatter /= store.shape[0] * len(centers)
    scatter = 0.5 * (scatter + scatter.T)
    # The subtraction may leave a negative eigenvalue of the size of rounding, along which an
    # objective without ridge would fall for ever. A triangular factor is the cheaper proof that
    # there is none.
    rounding = 100.0 * float(np.finfo(store.dtype).eps) * float(scatter.trace())
    try:
        np.linalg.cholesky(scatter - rounding * np.eye(len(scatter)))
    except np.linalg.LinAlgError:
        spread, axes = np.linalg.eigh(scatter)
        return (axes * np.maximum(spread, 0.0)) @ axes.T
    return scatter

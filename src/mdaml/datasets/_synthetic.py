"""Toy data whose classes have several modes."""

from numbers import Integral, Real

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

# Standard deviation along the nuisance directions; neighbouring modes are 1 apart. At 300 samples
# in the plane it costs Euclidean 3-NN some six points of accuracy.
_NUISANCE = 5.0


def make_multimodal(
    n_samples: int = 300,
    *,
    n_modes_per_class: int = 2,
    n_classes: int = 2,
    n_features: int = 2,
    noise: float = 0.2,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw labelled points in parallel bands that belong to the classes in turn.

    One direction ``u = (1, -1, 1, ...) / sqrt(n_features)`` tells the modes apart: along it
    their centres lie at distance 1 from one another and belong to class 0, 1, ..., 0, 1, ....
    Each mode has standard deviation `noise` along ``u`` and 5 in all directions orthogonal to
    it, so it is a long, thin band, and the nearest points of a sample are often in the band
    next to its own. Two things follow.

    - A metric that shrinks the nuisance directions makes 3-NN nearly perfect; the Euclidean
      metric does not, and scaling single features does not help, as ``u`` uses all of them.
    - Pulling all points of a class together shrinks ``u`` as well, because the other classes
      lie between its modes, and mixes them. Only neighbours in the same mode are to be pulled.

    Parameters
    ----------
    n_samples : int, default=300
        Number of points; the sizes of the modes differ by one at most.
    n_modes_per_class : int, default=2
        Number of bands of each class.
    n_classes : int, default=2
        Number of classes.
    n_features : int, default=2
        Dimension, at least 2.
    noise : float, default=0.2
        Standard deviation of a mode along ``u``, in units of the distance between neighbouring
        modes. At 0.2 about one point in a hundred lies nearer to the next mode's centre.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The points, in random order.
    y : ndarray of shape (n_samples,)
        Their classes, ``0 .. n_classes - 1``.

    Examples
    --------
    >>> from mdaml.datasets import make_multimodal
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = make_multimodal(random_state=0)
    >>> X.shape, y.shape
    ((300, 2), (300,))
    >>> across = X[:, :1] - X[:, 1:]  # what a good metric sees: the position along u
    >>> plain, best = (
    ...     cross_val_score(KNeighborsClassifier(3), Z, y).mean() for Z in (X, across)
    ... )
    >>> bool(best > plain + 0.05)
    True
    """
    n_modes = _check_count("n_modes_per_class", n_modes_per_class, 1) * _check_count(
        "n_classes", n_classes, 2
    )
    _check_count("n_features", n_features, 2)
    _check_count("n_samples", n_samples, n_modes)
    if not isinstance(noise, Real) or not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a finite number of at least 0, got {noise!r}.")
    rng = check_random_state(random_state)
    modes = rng.permutation(n_samples) % n_modes
    Z = _NUISANCE * rng.standard_normal((n_samples, n_features))
    Z[:, 0] = modes - (n_modes - 1) / 2 + noise * rng.standard_normal(n_samples)
    return Z @ _reflection_to_u(n_features), (modes % n_classes).astype(np.int64)


def _reflection_to_u(n_features: int) -> NDArray[np.float64]:
    """Symmetric orthogonal matrix whose first row is ``u``."""
    u = np.where(np.arange(n_features) % 2, -1.0, 1.0) / np.sqrt(n_features)
    normal = np.eye(n_features)[0] - u
    normal /= np.linalg.norm(normal)
    return np.eye(n_features) - 2.0 * np.outer(normal, normal)


def _check_count(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return int(value)

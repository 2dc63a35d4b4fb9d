"""Synthetic data: multimodal classes, Breiman's waves, and triplets with wrong answers."""

from numbers import Real

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from mdaml._typing import ArrayLike, Rng
from mdaml._validation import check_at_least, check_random_state
from mdaml.constraints.generators import random_triples
from mdaml.constraints.labels import Classes, to_labels

# Standard deviation along the nuisance directions; neighbouring modes are 1 apart. At 300 samples
# in the plane it costs Euclidean 3-NN some six points of accuracy.
_NUISANCE = 5.0

# Breiman's three triangles, of height 6 at the points 11, 15 and 7 of 21; two of them make a class.
_TRIANGLES = np.maximum(6.0 - np.abs(np.arange(1, 22) - np.array([[11], [15], [7]])), 0.0)
_WAVES = np.array([[0, 1], [0, 2], [1, 2]])

# Triplets drawn at a time, which bounds the memory for their differences.
_BLOCK = 1 << 13

# Squared distances that agree to this share are a tie, which rounding could decide either way.
_TIE = 1e-9


_MOST = 2**31  # of anything that is counted


def make_multimodal(
    n_samples: int = 300,
    *,
    n_modes_per_class: int = 2,
    n_classes: int = 2,
    n_features: int = 2,
    noise: float = 0.2,
    random_state: int | np.random.Generator | Rng | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw labelled points in parallel bands whose classes alternate.

    The modes differ along one direction, ``u = (1, -1, 1, ...) / sqrt(n_features)``: their centres
    are at distance 1 from one another and belong to class 0, 1, ..., 0, 1, .... Each mode has
    standard deviation `noise` along ``u`` and 5 in all directions orthogonal to it: it is a long,
    thin band. The nearest points of a sample are often in a neighbouring band. So

    - a metric that shrinks the directions orthogonal to ``u`` makes 3-NN nearly perfect. The
      Euclidean metric does not, and scaling single features does not help, as ``u`` uses all;
    - pulling all points of a class together shrinks ``u`` as well and mixes the classes, because
      the other classes lie between its modes. Only points of the same mode should be pulled.

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
    random_state : int, Generator, RandomState or None, default=None
        Seed of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The points, in random order.
    y : ndarray of shape (n_samples,)
        Their classes, ``0 .. n_classes - 1``.

    See Also
    --------
    make_triplets : Comparisons of such points.

    Examples
    --------
    >>> from mdaml.datasets import make_multimodal
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = make_multimodal(random_state=0)
    >>> X.shape, y.shape
    ((300, 2), (300,))
    >>> across = X[:, :1] - X[:, 1:]  # the position along u, up to a factor
    >>> plain, best = (
    ...     cross_val_score(KNeighborsClassifier(3), Z, y).mean() for Z in (X, across)
    ... )
    >>> bool(best > plain + 0.05)
    True
    """
    n_modes = check_at_least("n_modes_per_class", n_modes_per_class, 1, _MOST) * check_at_least(
        "n_classes", n_classes, 2, _MOST
    )
    check_at_least("n_features", n_features, 2, _MOST)
    check_at_least("n_samples", n_samples, n_modes, _MOST)
    if not isinstance(noise, Real) or not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a finite number of at least 0, got {noise!r}.")
    rng = check_random_state(random_state)
    modes = rng.permutation(n_samples) % n_modes
    Z = _NUISANCE * rng.standard_normal((n_samples, n_features))
    Z[:, 0] = modes - (n_modes - 1) / 2 + noise * rng.standard_normal(n_samples)
    return Z @ _reflection_to_u(n_features), (modes % n_classes).astype(np.int64)


def make_waveform(
    n_samples: int = 5000, *, random_state: int | np.random.Generator | Rng | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw noisy waves: random mixtures of two of three triangles, with the pair as the class.

    With ``h1(i) = max(6 - |i - 11|, 0)``, ``h2(i) = h1(i - 4)`` and ``h3(i) = h1(i + 4)`` at the
    points ``i = 1 .. 21``, ``u`` uniform on (0, 1) for each wave, and standard normal noise ``e``
    at each point, the classes, all equally likely, are [1]_

    - 0: ``u h1 + (1 - u) h2 + e``
    - 1: ``u h1 + (1 - u) h3 + e``
    - 2: ``u h2 + (1 - u) h3 + e``

    The UCI file of this name numbers them in the opposite order. The best possible classifier has
    an accuracy of about 86 %, Euclidean 3-NN of 79 to 80 %.

    Parameters
    ----------
    n_samples : int, default=5000
        Number of waves.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the draw. ``load_dataset("waveform")`` is 5000 waves with seed 0.

    Returns
    -------
    X : ndarray of shape (n_samples, 21)
        The waves.
    y : ndarray of shape (n_samples,)
        Their classes, 0, 1 or 2.

    See Also
    --------
    load_dataset : Real data.

    References
    ----------
    .. [1] L. Breiman, J. Friedman, R. Olshen and C. Stone, *Classification and Regression Trees*,
       Wadsworth, 1984.

    Examples
    --------
    >>> from mdaml.datasets import make_waveform
    >>> X, y = make_waveform(300, random_state=0)
    >>> X.shape, y[:5]
    ((300, 21), array([0, 1, 0, 1, 1]))
    """
    check_at_least("n_samples", n_samples, 1, _MOST)
    rng = check_random_state(random_state)
    y = rng.randint(3, size=n_samples, dtype=np.int64)
    u = rng.uniform(size=(n_samples, 1))
    one, other = _TRIANGLES[_WAVES[y]].swapaxes(0, 1)
    return u * one + (1.0 - u) * other + rng.standard_normal((n_samples, 21)), y


def make_triplets(
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    n_triplets: int = 1000,
    components: ArrayLike | None = None,
    wrong: float = 0.0,
    random_state: int | np.random.Generator | Rng | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw triplets from the rows of X, a chosen share of them wrong.

    With labels, the near row has the class of the reference and the far row another class. Without
    labels, three rows are drawn and a hidden metric decides which of two is closer to the first:
    ``|components (a - b)| < |components (a - c)|``. Ties are left out.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,), default=None
        Labels; ``-1`` marks rows without a label, which are left out.
    n_triplets : int, default=1000
        Number of triplets. They are drawn independently: some may be drawn twice.
    components : array-like of shape (n_components, n_features), default=None
        The hidden metric if there are no labels, as in the ``components_`` of an estimator; None
        is the Euclidean metric. For a matrix ``M`` pass ``np.linalg.cholesky(M).T``.
    wrong : float, default=0.0
        Share of wrong triplets, between 0 and 1: near and far are exchanged in
        ``round(wrong * n_triplets)`` triplets, chosen at random.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the draw. The rows drawn do not depend on `wrong`.

    Returns
    -------
    triplets : ndarray of shape (n_triplets, 3)
        Row indices: ``X[t[0]]`` is stated to be closer to ``X[t[1]]`` than to ``X[t[2]]``.
    is_wrong : ndarray of shape (n_triplets,)
        True where the statement is wrong.

    See Also
    --------
    mdaml.Constraints : Comparisons of people, from arrays and files.
    sample_triplets : Triplets from labels, as fits draw them.

    Examples
    --------
    The hidden metric uses only the first two of five features, and one triplet in ten is wrong.

    >>> import numpy as np
    >>> from mdaml.datasets import make_triplets
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> triplets, is_wrong = make_triplets(
    ...     X, n_triplets=500, components=np.eye(5)[:2], wrong=0.1, random_state=0
    ... )
    >>> triplets.shape, int(is_wrong.sum())
    ((500, 3), 50)
    >>> reference, near, far = X[triplets.T, :2]
    >>> holds = np.linalg.norm(reference - near, axis=1) < np.linalg.norm(reference - far, axis=1)
    >>> bool(np.all(holds == ~is_wrong))
    True

    With labels:

    >>> labels = np.repeat(["cat", "dog"], 100)
    >>> triplets, _ = make_triplets(X, labels, random_state=0)
    >>> bool(np.all(labels[triplets[:, 0]] == labels[triplets[:, 1]]))
    True
    """
    X = check_array(X, dtype=np.float64, input_name="X")
    n_triplets = check_at_least("n_triplets", n_triplets, 1, _MOST)
    if isinstance(wrong, bool) or not isinstance(wrong, Real) or not 0 <= wrong <= 1:
        raise ValueError(f"wrong must be a share between 0 and 1, got {wrong!r}.")
    rng = check_random_state(random_state)
    if y is None:
        triplets = _triplets_from_distances(_project(X, components), n_triplets, rng)
    elif components is None:
        triplets = _triplets_from_labels(_check_target(y, len(X)), n_triplets, rng)
    else:
        raise ValueError("Pass either y or components, not both.")
    is_wrong = np.zeros(n_triplets, bool)
    is_wrong[rng.permutation(n_triplets)[: round(wrong * n_triplets)]] = True
    triplets[is_wrong] = triplets[is_wrong][:, [0, 2, 1]]
    return triplets, is_wrong


def _triplets_from_labels(y: NDArray[np.generic], n_triplets: int, rng: Rng) -> NDArray[np.int64]:
    classes = Classes.from_labels("make_triplets", y)
    reference = rng.choice(np.flatnonzero(classes.size[classes.of] > 1), n_triplets)
    first, size = classes.first[classes.of[reference]], classes.size[classes.of[reference]]
    # The rows of a class are consecutive places, so places behind a left-out one move up.
    near = first + rng.randint(size - 1, dtype=np.int64)
    near += near >= reference
    far = rng.randint(len(classes.rows) - size, dtype=np.int64)
    far += np.where(far >= first, size, 0)
    return classes.rows[np.column_stack([reference, near, far])]


def _triplets_from_distances(
    Z: NDArray[np.float64], n_triplets: int, rng: Rng
) -> NDArray[np.int64]:
    if len(Z) < 3:
        raise ValueError(f"X must have at least 3 rows to compare, got {len(Z)}.")
    found, n_missing = [], n_triplets
    while n_missing > 0:
        triplets = random_triples(len(Z), min(max(n_missing, 1000), _BLOCK), rng)
        reference, one, other = (Z[rows] for rows in triplets.T)
        one, other = (
            np.sum((reference - one) ** 2, axis=1),
            np.sum((reference - other) ** 2, axis=1),
        )
        triplets = np.where((one > other)[:, None], triplets[:, [0, 2, 1]], triplets)
        triplets = triplets[np.abs(one - other) > _TIE * np.maximum(one, other)][:n_missing]
        if len(triplets) == 0:
            raise ValueError(
                "All rows of X that were compared are equally far apart under the hidden metric, "
                "so no triplet can be drawn. Check that rows of X differ and components is not 0."
            )
        found.append(triplets)
        n_missing -= len(triplets)
    return np.concatenate(found)


def _project(X: NDArray[np.float64], components: ArrayLike | None) -> NDArray[np.float64]:
    if components is None:
        return X
    checked = check_array(components, dtype=np.float64, input_name="components")
    if checked.shape[1] != X.shape[1]:
        raise ValueError(
            f"components must have one column for each of the {X.shape[1]} features of X, got "
            f"shape {checked.shape}."
        )
    return X @ checked.T


def _check_target(y: ArrayLike, n_samples: int) -> NDArray[np.generic]:
    labels = to_labels(y)
    if labels.shape != (n_samples,):
        raise ValueError(
            f"y must hold one label for each of the {n_samples} rows of X, got shape "
            f"{labels.shape}."
        )
    return labels


def _reflection_to_u(n_features: int) -> NDArray[np.float64]:
    """Symmetric orthogonal matrix whose first row is ``u``."""
    u = np.where(np.arange(n_features) % 2, -1.0, 1.0) / np.sqrt(n_features)
    normal = np.eye(n_features)[0] - u
    normal /= np.linalg.norm(normal)
    return np.eye(n_features) - 2.0 * np.outer(normal, normal)

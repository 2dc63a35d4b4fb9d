"""Plots of samples: their modes, and the shape of the metric."""

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from mdaml._typing import ArrayLike, FloatArray
from mdaml.estimators.local import LocalMDaML
from mdaml.inspection import models
from mdaml.plot._axes import BLUE, COLORS, MARKERS, MUTED, ORANGE, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_LISTED = 10  # modes in a legend


def plot_modes(
    model: BaseEstimator,
    X: ArrayLike,
    *,
    training_rows: bool | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw samples coloured by mode, in the first two components of the learned map.

    Samples that belong to one mode are opaque, those between modes pale; crosses are centres.

    Parameters
    ----------
    model : fitted estimator
        MDaML, or a search that chose it.
    X : array-like of shape (n_samples, n_features)
        Samples, those of ``fit`` or others.
    training_rows : bool or None, default=None
        Whether X are the rows of ``fit``, whose weights were learned. None assumes so if X has as
        many rows.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    mode_map : Modes, and how comparisons link them.

    Examples
    --------
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_multimodal
    >>> from mdaml.plot import plot_modes
    >>> X, y = make_multimodal(random_state=0)
    >>> plot_modes(MDaML(n_modes=3, random_state=0).fit(X, y), X).get_xlabel()
    'first component'
    """
    metric = models.fitted_metric("plot_modes", model)
    if not hasattr(metric, "centers_") or isinstance(metric, LocalMDaML):
        advice = " plot_places draws its modes." if isinstance(metric, LocalMDaML) else ""
        raise TypeError(
            f"plot_modes needs a model with modes, MDaML; got {type(metric).__name__}.{advice}"
        )
    Y = models.mapped_samples(metric, X)
    weights = models.mode_weights("plot_modes", metric, Y, training_rows)
    assert weights is not None
    points, centers = _plane(Y), _plane(metric.centers_ @ metric.components_.T)
    ax = prepare(ax, 6.5, 4.5)
    modes, certainty = weights.argmax(axis=1), _certainty(weights)
    for mode in range(weights.shape[1]):
        own = modes == mode
        # Markers are shifted where the colours start again, so that no two modes look alike.
        marker = MARKERS[(mode + mode // len(COLORS)) % len(MARKERS)]
        color = COLORS[mode % len(COLORS)]
        x, y = points[own].T
        alpha = 0.35 + 0.55 * certainty[own]
        ax.scatter(x, y, s=20, color=color, alpha=alpha, marker=marker, linewidths=0)
        if mode < _MAX_LISTED:
            label = f"mode {mode} ({int(own.sum())})"
            ax.scatter([], [], s=30, color=color, marker=marker, linewidths=0, label=label)
    x, y = centers.T
    ax.scatter(x, y, marker="x", s=70, color="black", linewidths=2, label="centres")
    ax.set(xlabel="first component", ylabel="second component")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def plot_metric_ellipse(
    model: BaseEstimator,
    X: ArrayLike,
    *,
    features: tuple[int, int] = (0, 1),
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw an ellipse of equal learned distance from the mean, in the plane of two features.

    The circle of the same area is one of equal Euclidean distance. A long axis of the ellipse is a
    direction that has little weight in the metric.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, or a search over metrics.
    X : array-like of shape (n_samples, n_features)
        Samples; both curves are scaled to their spread.
    features : (int, int), default=(0, 1)
        Columns of the two features; all other features are held fixed.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    plot_spectrum : For more than two features.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import Euclidean
    >>> from mdaml.plot import plot_metric_ellipse
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> plot_metric_ellipse(Euclidean().fit(X), X).get_xlabel()
    'x0'
    """
    metric = models.fitted_metric("plot_metric_ellipse", model)
    models.mapped_samples(metric, X)  # checks X as the model does
    pair = [int(feature) for feature in features]
    if len(set(pair)) != 2 or not all(0 <= n < metric.n_features_in_ for n in pair):
        raise ValueError(
            f"features must be two different columns below {metric.n_features_in_}, got "
            f"{features!r}."
        )
    points = np.asarray(X, dtype=np.float64)[:, pair]
    M = metric.get_mahalanobis_matrix().astype(np.float64)[np.ix_(pair, pair)]
    lengths, axes = np.linalg.eigh(M)
    # A flat metric would have an axis of infinite length.
    lengths = np.maximum(lengths, 1e-6 * max(float(lengths[-1]), 1e-300))
    middle = points.mean(axis=0)
    radius = float(np.sqrt(points.var(axis=0).mean()))
    angle = np.linspace(0, 2 * np.pi, 361)
    circle = radius * np.stack([np.cos(angle), np.sin(angle)])
    area = np.prod(lengths) ** 0.25
    ellipse = (axes * (area / np.sqrt(lengths))) @ circle
    ax = prepare(ax, 4.8, 5.0)
    ax.scatter(points[:, 0], points[:, 1], s=12, color=MUTED, alpha=0.4, linewidths=0)
    reach = 1.05 * np.abs(points - middle).max()  # the ellipse of a flat metric may be longer
    ax.plot(*(middle[:, None] + ellipse), color=BLUE, linewidth=2, label="learned distance")
    ax.plot(
        *(middle[:, None] + circle), "--", color=ORANGE, linewidth=2, label="Euclidean distance"
    )
    ax.set(xlim=middle[0] + reach * np.array([-1, 1]), ylim=middle[1] + reach * np.array([-1, 1]))
    ax.set_aspect("equal", adjustable="box")
    names = models.feature_names(metric)
    ax.set(xlabel=names[pair[0]], ylabel=names[pair[1]])
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=2)
    return ax


def _plane(Y: FloatArray) -> FloatArray:
    """Return the first two coordinates; the second is 0 if there is only one."""
    return np.column_stack([Y, np.zeros(len(Y))])[:, :2]


def _certainty(weights: FloatArray) -> FloatArray:
    """Return a number from 0 (equal weights in all modes) to 1 (a single mode) per sample."""
    n_modes = weights.shape[1]
    if n_modes == 1:
        return np.ones(len(weights))
    return np.clip((weights.max(axis=1) * n_modes - 1) / (n_modes - 1), 0, 1)

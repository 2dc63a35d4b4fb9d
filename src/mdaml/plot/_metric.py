"""Plots of a metric: its objective during the fit, its spectrum, and the weight of features."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from mdaml._typing import ArrayLike
from mdaml.inspection import effective_rank, explain_distance, feature_relevance
from mdaml.plot._axes import BLUE, MUTED, ORANGE, RED, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import Series


def plot_history(model: BaseEstimator, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the objective over the rounds of the fit.

    Parameters
    ----------
    model : fitted estimator
        A model with ``history_``, such as MDaML, or a search that chose one.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    mdaml.MDaML : Its ``history_`` is drawn.

    Examples
    --------
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_multimodal
    >>> from mdaml.plot import plot_history
    >>> ax = plot_history(MDaML(n_modes=3, random_state=0).fit(*make_multimodal(random_state=0)))
    >>> ax.get_ylabel()
    'objective'
    """
    model = getattr(model, "best_estimator_", model)
    history = getattr(model, "history_", None)
    if history is None:
        raise TypeError(
            "plot_history needs a fitted model with a history_, such as MDaML; got "
            f"{type(model).__name__}."
        )
    ax = prepare(ax)
    starts = [*getattr(model, "pass_starts_", [0]), len(history)]
    for n, (begin, end) in enumerate(pairwise(starts)):
        # A round has three entries: centres, weights and metric. Each pass has one more, its start.
        rounds = (np.arange(begin, end) - n) / 3
        ax.plot(rounds, history[begin:end], color=BLUE, linewidth=1.8)
        ends = np.arange(0, end - begin, 3)
        ax.plot(rounds[ends], history[begin:end][ends], "o", color=BLUE, markersize=4)
        if n > 0:
            label = "new triplets drawn" if n == 1 else None
            ax.axvline(rounds[0], color=ORANGE, linewidth=1.2, linestyle="--", label=label)
    if len(starts) > 2:
        ax.legend(frameon=False)
    if np.min(history) > 0 and np.max(history) > 20 * np.min(history):
        ax.set_yscale("log")
    ax.locator_params(axis="x", integer=True)
    ax.set(xlabel="round", ylabel="objective")
    return ax


def plot_spectrum(model: BaseEstimator, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the eigenvalues of the metric, as shares of their sum, and its effective rank.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, or a search over metrics.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    effective_rank : The same as one number.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import Euclidean
    >>> from mdaml.plot import plot_spectrum
    >>> plot_spectrum(Euclidean().fit(np.eye(3))).get_xlabel()
    'direction'
    """
    rank = effective_rank(model)
    components = getattr(model, "best_estimator_", model).components_.astype(np.float64)
    spectrum = np.linalg.svd(components, compute_uv=False) ** 2
    shares = spectrum / (spectrum.sum() or 1.0)
    places = np.arange(1, len(shares) + 1)
    ax = prepare(ax)
    ax.bar(places, shares, width=0.75, color=BLUE, label="eigenvalue")
    ax.step(
        np.append(places - 0.5, places[-1] + 0.5),
        np.append(np.cumsum(shares), 1.0),
        where="post",
        color=ORANGE,
        linewidth=1.8,
        label="sum so far",
    )
    ax.axvline(rank + 0.5, color=MUTED, linewidth=1.2, linestyle="--")
    right = rank < 0.5 * len(shares)  # the side of the line with more room
    ax.annotate(
        f"effective rank {rank:.1f}",
        (rank + 0.5, 0.25),
        xytext=(5 if right else -5, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        color=MUTED,
    )
    ax.locator_params(axis="x", integer=True)
    ax.set(
        xlim=(0.4, len(shares) + 0.6),
        ylim=(0, 1.05),
        xlabel="direction",
        ylabel="share of the metric",
    )
    ax.legend(frameon=False, loc="center right")
    return ax


def plot_feature_relevance(
    model: BaseEstimator, X: ArrayLike, *, max_features: int = 20, ax: "Axes | None" = None
) -> "Axes":
    """Draw the share of each feature in the learned distance, the largest first.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, or a search over metrics.
    X : array-like of shape (n_samples, n_features)
        Samples, at least two; the shares are those in their mean squared distance.
    max_features : int, default=20
        Features with a bar of their own; one more bar is the sum of the others.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    feature_relevance : The numbers behind it.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import Euclidean
    >>> from mdaml.plot import plot_feature_relevance
    >>> X = np.eye(3)
    >>> len(plot_feature_relevance(Euclidean().fit(X), X).patches)
    3
    """
    shares = feature_relevance(model, X)
    return _bars(shares, "share of the mean squared distance", max_features, ax)


def plot_distance_explanation(
    model: BaseEstimator,
    a: ArrayLike,
    b: ArrayLike,
    *,
    max_features: int = 20,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what each feature adds to the squared learned distance of two points.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, or a search over metrics.
    a, b : array-like of shape (n_features,)
        Two points.
    max_features : int, default=20
        Features with a bar of their own; one more bar is the sum of the others.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    explain_distance : The numbers behind it.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import Euclidean
    >>> from mdaml.plot import plot_distance_explanation
    >>> metric = Euclidean().fit(np.eye(3))
    >>> len(plot_distance_explanation(metric, [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]).patches)
    3
    """
    parts = explain_distance(model, a, b)["contribution"]
    label = f"contribution to the squared distance of {parts.sum():.3g}"
    return _bars(parts, label, max_features, ax)


def _bars(values: "Series", label: str, max_features: int, ax: "Axes | None") -> "Axes":
    """Draw horizontal bars, the largest on top; negative ones have another colour."""
    if max_features < 1:
        raise ValueError(f"max_features must be at least 1, got {max_features}.")
    ordered = values.sort_values(key=np.abs, ascending=False, kind="stable")
    shown, rest = ordered[:max_features], ordered[max_features:]
    labels, lengths = [*map(str, shown.index)], shown.tolist()
    colors = [BLUE if length >= 0 else RED for length in lengths]
    if len(rest):
        labels, lengths = [*labels, f"{len(rest)} others"], [*lengths, float(rest.sum())]
        colors.append(MUTED)
    ax = prepare(ax, height=1.2 + 0.28 * len(labels))
    bars = ax.barh(labels, lengths, color=colors, height=0.7)
    ax.bar_label(bars, fmt="%.2g", padding=3, fontsize=8, color=MUTED)
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    ax.axvline(0, color=MUTED, linewidth=0.8)
    ax.margins(x=0.12)
    ax.set_xlabel(label)
    return ax

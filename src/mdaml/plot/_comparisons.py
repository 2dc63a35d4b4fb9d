"""Plots of audited comparisons and of verified pairs."""

from typing import TYPE_CHECKING

import numpy as np

from mdaml._typing import ArrayLike
from mdaml.inspection import CATEGORIES
from mdaml.plot._axes import BLUE, GREEN, MUTED, ORANGE, PURPLE, RED, SKY, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from mdaml.verification import PairVerifier

_COLORS = dict(zip(CATEGORIES, (BLUE, SKY, ORANGE, RED, PURPLE), strict=True))
_MARKERS = dict(zip(CATEGORIES, ("o", ".", "^", "X", "s"), strict=True))
_MAX_DRAWN = 5000


def plot_audit(frame: "DataFrame", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the comparisons of an audit: suspicion over slack, with the size of each category.

    Parameters
    ----------
    frame : pandas.DataFrame
        From :func:`mdaml.inspection.audit`. Of more than 5000 comparisons only every n-th is
        drawn; the legend counts all.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    audit : Makes the table that is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import Euclidean
    >>> from mdaml.inspection import audit
    >>> from mdaml.plot import plot_audit
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> frame = audit(Euclidean().fit(X), X, triplets=[[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    >>> plot_audit(frame).get_ylabel()
    'suspicion'
    """
    needed = {"slack", "suspicion", "category"}
    if not needed <= set(getattr(frame, "columns", ())):
        raise TypeError("plot_audit needs the data frame that mdaml.inspection.audit returns.")
    ax = prepare(ax, 7.5, 4.2)
    counts = frame["category"].value_counts()
    drawn = frame.iloc[:: max(1, -(-len(frame) // _MAX_DRAWN))]
    for category in CATEGORIES:
        if not counts.get(category, 0):
            continue
        rows = drawn[drawn["category"] == category]
        ax.scatter(
            rows["slack"],
            rows["suspicion"],
            s=22,
            marker=_MARKERS[category],
            color=_COLORS[category],
            alpha=0.6,
            linewidths=0,
            label=f"{category}: {counts[category]} ({counts[category] / len(frame):.0%})",
        )
    ax.axvline(0, color=MUTED, linewidth=1)
    ax.axhline(0.5, color=MUTED, linewidth=1, linestyle="--")
    ax.set_ylim(-0.03, 1.03)
    ax.set(xlabel="slack: squared distance to spare (negative: violated)", ylabel="suspicion")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), markerscale=1.5)
    return ax


def plot_roc(
    verifier: "PairVerifier",
    X: ArrayLike,
    pairs: ArrayLike,
    pair_labels: ArrayLike,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the ROC curve of a verifier, with its threshold and its equal error rate.

    Parameters
    ----------
    verifier : PairVerifier
        A fitted verifier.
    X : array-like of shape (n_samples, n_features)
        Samples.
    pairs : array-like of shape (n_pairs, 2)
        Row numbers of X.
    pair_labels : array-like of shape (n_pairs,)
        1 for similar, -1 for dissimilar pairs.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    mdaml.PairVerifier : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import Euclidean
    >>> from mdaml.plot import plot_roc
    >>> from mdaml.verification import PairVerifier
    >>> X = np.array([[0.0], [1.0], [5.0], [6.0]])
    >>> pairs, labels = [[0, 1], [2, 3], [0, 2], [1, 3]], [1, 1, -1, -1]
    >>> verifier = PairVerifier(Euclidean().fit(X)).fit(X, pairs, labels)
    >>> plot_roc(verifier, X, pairs, labels).get_xlabel()
    'false accepts'
    """
    false, true, thresholds = verifier.roc_curve(X, pairs, pair_labels)
    area = float(np.trapezoid(true, false))
    equal = int(np.argmin(np.abs(false - (1 - true))))
    ax = prepare(ax, 6.8, 4.4)
    ax.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=":", label="chance")
    ax.plot(false, true, color=BLUE, linewidth=2, label=f"area {area:.3f}")
    label = f"equal error rate {0.5 * (false[equal] + 1 - true[equal]):.1%}"
    ax.plot(false[equal], true[equal], "o", color=ORANGE, markersize=9, label=label)
    if hasattr(verifier, "threshold_"):
        here = max(int(np.searchsorted(thresholds, verifier.threshold_, side="right")) - 1, 0)
        label = f"threshold {verifier.threshold_:.3g}"
        ax.plot(false[here], true[here], "X", color=GREEN, markersize=8, label=label)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_aspect("equal")
    ax.set(xlabel="false accepts", ylabel="true accepts")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax

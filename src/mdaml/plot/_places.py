"""A plot of modes before and after learning."""

from typing import TYPE_CHECKING

import numpy as np

from mdaml._typing import Array, ArrayLike, FloatArray, IntArray
from mdaml.inspection.models import fitted_metric, like_training, mapped_samples
from mdaml.plot._axes import COLORS, MUTED, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

_LABEL = 8.0  # points that a label takes


def plot_places(
    model: "BaseEstimator",
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    kinds: ArrayLike | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw where the modes of a LocalMDaML were before learning, and where they are now.

    An arrow leads from an open to a filled circle, as large as the mode has members. Before
    learning, modes are as far apart as in X, which is turned and scaled to be as near to the
    learned space as it can. Both are seen in the plane in which they spread most.

    Parameters
    ----------
    model : fitted estimator
        LocalMDaML with places, or a search that chose it.
    X : array-like of shape (n_samples, n_features)
        Samples, which are drawn as dots where they are after learning.
    y : array-like of shape (n_samples,), optional
        Labels, for colours: a mode has that of most of its members.
    kinds : array-like of shape (n_samples,), optional
        What the samples are, in a few letters; that of the sample nearest to the centre of a mode
        is written into its circles, unless it would lie on another.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    mdaml.inspection.explain_distance : How much of a distance comes from which mode.

    Examples
    --------
    >>> from mdaml import LocalMDaML
    >>> from mdaml.datasets import make_multimodal
    >>> from mdaml.plot import plot_places
    >>> X, y = make_multimodal(random_state=0)
    >>> plot_places(LocalMDaML(n_places=8, n_maps=0).fit(X, y), X, y).get_xlabel()
    'first direction'
    """
    metric = fitted_metric("plot_places", model)
    if not getattr(metric, "n_places_", 0):
        raise TypeError(
            "plot_places needs a LocalMDaML with places; got "
            f"{type(metric).__name__} without. Fit LocalMDaML(n_places=...) with a number."
        )
    Y = mapped_samples(metric, X)
    members = metric.memberships(X).toarray().astype(np.float64)
    after = mapped_samples(metric, like_training(metric, metric.centers_))
    inside = metric._before(np.asarray(metric.centers_, np.float64))
    sizes = members.sum(axis=0)
    middle = np.average(after, axis=0, weights=sizes)
    after, points = after - middle, Y - middle
    heavy = np.sqrt(sizes)[:, None]  # a mode of a few odd samples must not decide about the plane
    before = _aligned(inside - np.average(inside, axis=0, weights=sizes), after, heavy)
    axes = np.linalg.svd(np.concatenate([heavy * before, heavy * after]), full_matrices=False)[2]
    before, after, points = (Z @ axes[:2].T for Z in (before, after, points))
    labels, names = _labels(y, members)
    ax = prepare(ax, 6.5, 5.0)
    sizes = 30.0 + 500.0 * sizes / len(members)
    for k, name in enumerate(names):
        color, own = COLORS[k % len(COLORS)], labels == k
        if y is not None:
            dots = points[np.asarray(y) == name]
            ax.scatter(dots[:, 0], dots[:, 1], s=8, color=color, alpha=0.25, linewidths=0)
        (x, height), size = before[own].T, sizes[own]
        ax.scatter(x, height, s=size, facecolors="none", edgecolors=color)
        x, height = after[own].T
        label = "modes" if y is None else str(name)
        ax.scatter(x, height, s=size, color=color, alpha=0.8, label=label)
    if y is None:
        ax.scatter(points[:, 0], points[:, 1], s=8, color=MUTED, alpha=0.25, linewidths=0)
    for start, end in zip(before, after, strict=True):
        style = {"arrowstyle": "->", "color": MUTED, "lw": 0.9, "shrinkA": 4, "shrinkB": 3}
        ax.annotate("", xy=end, xytext=start, arrowprops=style)
    if kinds is not None:
        written = _of_samples("kinds", kinds, members)[members.argmax(axis=0)]
        for at, color in ((before, MUTED), (after, "white")):
            for k in _apart(at, ax):
                x, height = at[k]
                ax.text(x, height, str(written[k]), color=color, ha="center", va="center", size=9)
    ax.scatter([], [], s=60, facecolors="none", edgecolors=MUTED, label="before learning")
    ax.scatter([], [], s=60, color=MUTED, label="after learning")
    ax.set_xlabel("first direction")
    ax.set_ylabel("second direction")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _apart(points: FloatArray, ax: "Axes") -> list[int]:
    """Return points that can be labelled so that no label lies on another."""
    ax.get_xlim(), ax.get_ylim()  # which fixes the limits
    at = ax.transData.transform(points) * 72.0 / ax.figure.dpi
    kept: list[int] = []
    for k in range(len(at)):
        if not len(kept) or np.abs(at[kept] - at[k]).max(axis=1).min() > _LABEL:
            kept.append(k)
    return kept


def _aligned(A: FloatArray, B: FloatArray, heavy: FloatArray) -> FloatArray:
    """Return the rows of A, turned and scaled to be as near to those of B as they can."""
    left, lengths, right = np.linalg.svd((heavy * A).T @ (heavy * B), full_matrices=False)
    size = float(np.sum((heavy * A) ** 2))
    return (A @ (left @ right)) * (float(lengths.sum()) / size if size > 0.0 else 1.0)


def _labels(y: ArrayLike | None, members: FloatArray) -> tuple[IntArray, Array]:
    """Return the label of each mode, as a number, and the names of the labels."""
    if y is None:
        return np.zeros(members.shape[1], int), np.array(["modes"])
    names, codes = np.unique(_of_samples("y", y, members), return_inverse=True)
    votes = np.stack([members[codes == k].sum(axis=0) for k in range(len(names))])
    return votes.argmax(axis=0), names


def _of_samples(name: str, given: ArrayLike, members: FloatArray) -> Array:
    """Return what was given of each sample as an array, checked."""
    values = np.asarray(given)
    if len(values) != len(members):
        raise ValueError(
            f"plot_places: {name} must have a label for each of the {len(members)} rows of X, got "
            f"{len(values)}."
        )
    return values

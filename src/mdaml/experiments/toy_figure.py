"""Toy data before and after learning a metric: the figure of the demo and of the report."""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.preprocessing import StandardScaler

from mdaml._typing import FloatArray, IntArray
from mdaml._validation import ignore_warnings
from mdaml.datasets import make_multimodal
from mdaml.estimators import MDaML
from mdaml.estimators.presets import PRESETS, Partners
from mdaml.experiments.records import Record

# Blue circles and red squares, as in the paper; from the palette of Okabe and Ito.
_CLASSES: tuple[Record, ...] = (
    {"color": "#0072B2", "marker": "o", "label": "class 0"},
    {"color": "#D55E00", "marker": "s", "label": "class 1"},
)
_EUCLIDEAN: Record = {
    **{"color": "black", "linewidth": 1.6, "linestyle": (0, (4, 2))},
    "label": "ten nearest to one point: Euclidean",
}
_LEARNED: Record = {"color": "black", "linewidth": 2.0, "label": "learned metric"}
_MODE: Record = {
    **{"color": "black", "marker": "X", "markeredgecolor": "white", "markersize": 11},
    **{"linestyle": "none", "label": "learned mode (faint points: shared by several)"},
}
_EXAMPLE: Record = {"color": "none", "marker": "o", "markeredgecolor": "black", "markersize": 11}
_BALL_POINTS = 10


def make_toy_model(seed: int) -> MDaML:
    """Return a model of the toy whose modes are places: four bands of points."""
    # With so low an exponent a point belongs to one mode, and with a floor of one the comparisons
    # leave the modes alone. They move to the bands as the metric finds them.
    row = replace(PRESETS["labels"], floor=1.0, shrinkage=0.0, partners=Partners(n_refresh=10))
    return MDaML(4, goal=row, eta=1.1, random_state=seed)


def learn_toy(seed: int = 0, accuracies: tuple[float, float] | None = None) -> Figure:
    """Learn a metric for points in the plane, with two modes per class, and draw both.

    Parameters
    ----------
    seed : int, default=0
        Of the points, of the split into training and test points, and of the fit.
    accuracies : tuple of float, optional
        3-NN accuracy in percent before and after, as a table beside the figure has it. None: those
        of this split.
    """
    X, y = make_multimodal(random_state=seed)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    with ignore_warnings(UserWarning):  # the figure shows the quality of the fit
        model = make_toy_model(seed).fit(X_train, y_train)
    knn = KNeighborsClassifier(3)
    before, after = accuracies or (
        100.0 * float(knn.fit(transform(X_train), y_train).score(transform(X_test), y_test))
        for transform in (np.asarray, model.transform)
    )
    return draw_toy(model, X_train, y_train, (before, after))


def draw_toy(model: MDaML, X: FloatArray, y: IntArray, accuracies: tuple[float, float]) -> Figure:
    """Draw the same points as they are given, and under the learned metric.

    One point is ringed, which 3-NN classifies wrongly by Euclidean distance and correctly by the
    learned metric. Both panels show the balls of both metrics with its ten nearest points. The
    right panel also shows the learned modes; points that belong to several modes are faint.

    Parameters
    ----------
    model : MDaML
        Fitted on `X`.
    X : ndarray of shape (n_samples, 2)
        The training points.
    y : ndarray of shape (n_samples,)
        Their classes, 0 or 1.
    accuracies : tuple of float
        3-NN accuracy in percent before and after.

    Returns
    -------
    matplotlib.figure.Figure
        Made without pyplot.
    """
    figure = Figure(figsize=(12.0, 6.0), dpi=150, layout="constrained")
    before, after = figure.subplots(1, 2, width_ratios=(1.0, 1.1))
    components = np.asarray(model.components_)
    view = _view(components)
    example = X[_example(X, y, components)]
    balls = ((_ball(X, example, np.eye(2)), _EUCLIDEAN), (_ball(X, example, components), _LEARNED))
    _draw_points(before, X, y, np.ones(len(X)))
    _draw_points(after, X @ view, y, np.asarray(model.weights_).max(axis=1))
    for ball, style in balls:
        # Not `plot`, which would extend the axes: a ball may be very long.
        before.add_artist(Line2D(*ball.T, **style, zorder=3))
        after.add_artist(Line2D(*(ball @ view).T, **style, zorder=3))
    for axes, point in ((before, example), (after, example @ view)):
        axes.plot(*point, **_EXAMPLE, zorder=3)
    after.plot(*(model.centers_ @ view).T, **_MODE, zorder=4)
    before.set_title(f"Before learning: 3-NN accuracy {accuracies[0]:.1f} %", fontsize=14)
    after.set_title(f"After learning: 3-NN accuracy {accuracies[1]:.1f} %", fontsize=14)
    before.set(xlabel="feature 1 (standardised)", ylabel="feature 2 (standardised)")
    after.set(xlabel="direction the metric stretches most", ylabel="direction it stretches least")
    alone = {"linestyle": "none", "markersize": 8}
    entries = [*(style | alone for style in _CLASSES), _MODE, _EUCLIDEAN, _LEARNED]
    figure.legend(
        handles=[Line2D([], [], **style) for style in entries],
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=11,
    )
    return figure


def _view(components: FloatArray) -> FloatArray:
    """Return a matrix V with ``|x V| = |components x|`` whose first column is the longest."""
    stretches, directions = np.linalg.eigh(components.T @ components)
    directions = directions * np.where(directions[0] < 0, -1.0, 1.0)  # left stays left
    return np.asarray(directions[:, ::-1] * np.sqrt(np.maximum(stretches[::-1], 0.0)))


def _example(X: FloatArray, y: IntArray, components: FloatArray) -> int:
    """Return the most central point that leave-one-out 3-NN gets right only after learning."""
    helped = (_vote(X, y) != y) & (_vote(X @ components.T, y) == y)
    dists = np.linalg.norm(X - np.median(X, axis=0), axis=1)
    return int(np.argmin(np.where(helped, dists, np.inf) if helped.any() else dists))


def _vote(Z: FloatArray, y: IntArray) -> IntArray:
    """Return the class, 0 or 1, of most of the three nearest points of each point."""
    nearest = NearestNeighbors(n_neighbors=3).fit(Z).kneighbors(return_distance=False)
    return (y[nearest].sum(axis=1) >= 2).astype(np.int64)


def _ball(X: FloatArray, center: FloatArray, components: FloatArray) -> FloatArray:
    """Return the curve ``|components (x - center)| = r`` around ten other points of X."""
    radius = np.sort(np.linalg.norm((X - center) @ components.T, axis=1))[_BALL_POINTS]
    angle = np.linspace(0.0, 2.0 * np.pi, 400)
    circle = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.asarray(center + np.linalg.solve(components, circle.T).T)


def _draw_points(axes: Axes, Z: FloatArray, y: IntArray, share: FloatArray) -> None:
    """Draw points by class, fainter for a smaller share."""
    low, span = share.min(), np.ptp(share)
    alpha = 0.45 + 0.5 * (share - low) / span if span > 0 else np.full(len(Z), 0.95)
    for label, style in enumerate(_CLASSES):
        here = y == label
        points = Z[here, 0], Z[here, 1]
        axes.scatter(*points, s=42, alpha=alpha[here], linewidths=0, zorder=2, **style)
    axes.set_aspect("equal", adjustable="datalim")

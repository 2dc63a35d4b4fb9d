"""The picture of the landing page, drawn at every build: points before and after learning."""

from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from mdaml import MDaML
from mdaml.datasets import make_multimodal

# Of Okabe and Ito, whose colours all eyes tell apart; both show on white and on black.
CLASSES = (("#0072B2", "#56B4E9", "o"), ("#D55E00", "#E69F00", "s"))
INK = {"light": "#222832", "dark": "#ced6dd"}
N_NEIGHBORS = 8


def draw(path: Path, scheme: Literal["light", "dark"]) -> None:
    """Learn a metric of a toy and draw the nearest neighbours of a point before and after.

    Parameters
    ----------
    path : Path
        The SVG file to write.
    scheme : {"light", "dark"}
        Of the page that shows it.
    """
    import matplotlib

    X_train, y_train = make_multimodal(120, noise=0.15, random_state=0)
    X_test, y_test = make_multimodal(2000, noise=0.15, random_state=1)
    model = MDaML(random_state=0).fit(X_train, y_train)
    # Rotated for the eye only: what the metric stretches most goes to the right.
    turn = np.linalg.svd(model.components_)[0]
    turn *= np.where((turn.T @ model.components_)[:, 0] < 0, -1.0, 1.0)
    spaces = {
        "Before": (X_train, X_test),
        "After": (model.transform(X_train) @ turn, model.transform(X_test) @ turn),
    }
    query = _helped(*(train for train, _ in spaces.values()), y_train)
    with matplotlib.rc_context({"svg.hashsalt": "mdaml", "text.color": INK[scheme]}):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.4, 2.7), layout="constrained")
        for axes, (title, (train, test)) in zip(figure.subplots(1, 2), spaces.items(), strict=True):
            knn = KNeighborsClassifier(3).fit(train, y_train)
            _draw_space(axes, train, y_train, query, scheme)
            axes.set_title(f"{title}: {100 * knn.score(test, y_test):.0f} % right", fontsize=16)
        figure.savefig(path, transparent=True, metadata={"Date": None})


def _helped(before: np.ndarray, after: np.ndarray, y: np.ndarray) -> int:
    """Point whose neighbours are all of its class after learning, and least so before."""
    right = [(y[_neighbors(Z)] == y[:, None]).mean(axis=1) for Z in (before, after)]
    central = np.linalg.norm(before - np.median(before, axis=0), axis=1) < 4.0
    return int(np.argmin(np.where(central & (right[1] == 1.0), right[0], np.inf)))


def _neighbors(Z: np.ndarray) -> np.ndarray:
    return NearestNeighbors(n_neighbors=N_NEIGHBORS).fit(Z).kneighbors(return_distance=False)


def _draw_space(axes, Z, y, query, scheme) -> None:
    neighbors = _neighbors(Z)[query]
    for label, (on_white, on_black, marker) in enumerate(CLASSES):
        color = on_white if scheme == "light" else on_black
        here = y == label
        near = np.isin(np.arange(len(Z)), neighbors) & here
        axes.scatter(*Z[here].T, s=26, c=color, marker=marker, alpha=0.4, linewidths=0)
        axes.scatter(*Z[near].T, s=44, c=color, marker=marker, linewidths=0, zorder=3)
    for other in neighbors:
        axes.plot(*Z[[query, other]].T, color=INK[scheme], linewidth=1.2, zorder=2)
    axes.scatter(*Z[query], s=240, c=INK[scheme], marker="*", linewidths=0, zorder=4)
    axes.set_aspect("equal", adjustable="datalim")
    axes.axis("off")

"""Plots of kinds of people: what each looks at, and who is of which."""

from typing import TYPE_CHECKING

import numpy as np

from mdaml._typing import ArrayLike
from mdaml.inspection import describe_kinds
from mdaml.people import PersonalMetrics
from mdaml.plot._axes import COLORS, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_kinds(model: PersonalMetrics, X: ArrayLike, *, ax: "Axes | None" = None) -> "Axes":
    """Draw what each kind of people looks at, with intervals of 95 %.

    Parameters
    ----------
    model : PersonalMetrics
        Fitted.
    X : array-like of shape (n_samples, n_features)
        Points among which distances are meant.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    mdaml.inspection.describe_kinds : The numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.datasets import make_triplets
    >>> from mdaml.people import PersonalMetrics
    >>> from mdaml.plot import plot_kinds
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> T, _ = make_triplets(X, n_triplets=200, components=[[1.0, 0.2]], random_state=0)
    >>> model = PersonalMetrics(n_kinds=1).fit(X, triplets=T, who=np.arange(200) % 4)
    >>> plot_kinds(model, X).get_xlabel()
    'share of the squared distance'
    """
    frame = describe_kinds(model, X)
    features = frame["feature"][frame["kind"] == 0].tolist()
    ax = prepare(ax, height=1.2 + 0.35 * len(features) * max(1, model.n_kinds_ / 2))
    height = 0.8 / model.n_kinds_
    for kind, own in frame.groupby("kind"):
        places = np.arange(len(features)) + (kind - (model.n_kinds_ - 1) / 2) * height
        n = int(own["persons"].iloc[0])
        label = f"kind {kind}, {n} person{'' if n == 1 else 's'}"
        color = COLORS[int(kind) % len(COLORS)]
        ax.barh(places, own["relevance"], height=0.9 * height, color=color, label=label)
        if own["low"].notna().all():
            spans = np.abs(own[["low", "high"]].to_numpy().T - own["relevance"].to_numpy())
            ax.errorbar(own["relevance"], places, xerr=spans, fmt="none", ecolor="black", capsize=2)
    ax.set_yticks(range(len(features)), features)
    ax.invert_yaxis()
    ax.set_xlabel("share of the squared distance")
    # Below the label of the axis, however high the axes are.
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), borderaxespad=3.5, ncols=2, frameon=False
    )
    return ax


def plot_persons(model: PersonalMetrics, *, ax: "Axes | None" = None) -> "Axes":
    """Draw how probable each kind is for every person, those of a kind together.

    Parameters
    ----------
    model : PersonalMetrics
        Fitted.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes drawn on; names of up to 40 persons are shown.

    See Also
    --------
    plot_kinds : What the kinds look at.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.datasets import make_triplets
    >>> from mdaml.people import PersonalMetrics
    >>> from mdaml.plot import plot_persons
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> T, _ = make_triplets(X, n_triplets=200, components=[[1.0, 0.2]], random_state=0)
    >>> model = PersonalMetrics(n_kinds=1).fit(X, triplets=T, who=np.arange(200) % 4)
    >>> plot_persons(model).get_ylabel()
    'probability of the kind'
    """
    chances = model.kind_probabilities_
    order = np.lexsort([-chances.max(axis=1), model.kind_of_person_])
    ax = prepare(ax, width=max(6.0, min(12.0, 0.25 * len(order))))
    below = np.zeros(len(order))
    for kind, own in enumerate(chances[order].T):
        color = COLORS[kind % len(COLORS)]
        ax.bar(np.arange(len(order)), own, 0.9, bottom=below, color=color, label=f"kind {kind}")
        below += own
    if len(order) <= 40:
        names = [str(name) for name in model.persons_[order]]
        ax.set_xticks(range(len(order)), names, rotation=90)
    ax.grid(visible=False, axis="x")
    ax.set(xlabel="person", ylabel="probability of the kind", ylim=(0.0, 1.0))
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return ax

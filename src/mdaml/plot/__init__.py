"""Plots of fitted metrics, audits and verifiers, with Matplotlib.

Every function draws into ``ax``, or into a new figure if ``ax`` is None, and returns the axes.
"""

from mdaml.plot._comparisons import plot_audit, plot_roc
from mdaml.plot._kinds import plot_kinds, plot_persons
from mdaml.plot._metric import (
    plot_distance_explanation,
    plot_feature_relevance,
    plot_history,
    plot_spectrum,
)
from mdaml.plot._places import plot_places
from mdaml.plot._points import plot_metric_ellipse, plot_modes

__all__ = [
    "plot_audit",
    "plot_distance_explanation",
    "plot_feature_relevance",
    "plot_history",
    "plot_kinds",
    "plot_metric_ellipse",
    "plot_modes",
    "plot_persons",
    "plot_places",
    "plot_roc",
    "plot_spectrum",
]

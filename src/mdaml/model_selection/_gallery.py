"""Points mapped by a metric, and the search for neighbours of a label among them."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from mdaml._typing import Array, ArrayLike, BoolArray, FloatArray, IntArray
from mdaml._validation import check_mapped
from mdaml.constraints.labels import find_labelled, to_labels
from mdaml.kernels.products import one_blas_thread
from mdaml.neighbors.search import nearest_in_blocks, nearest_others, nearest_rows_on

# Samples and their labels.
Labelled: TypeAlias = tuple[ArrayLike, ArrayLike]


class Metric(Protocol):
    """Anything after whose ``transform`` Euclidean distance is the one to be scored."""

    # Not a method: that of a pipeline is a descriptor, which type checkers do not take for one.
    @property
    def transform(self) -> Any:
        """Map samples."""
        ...


def metric_of(estimator: BaseEstimator) -> BaseEstimator:
    """Return the metric learner: the last step of a pipeline, or the estimator itself."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def map_samples(metric: Metric, X: ArrayLike) -> FloatArray:
    """Return samples mapped by a metric; refuse what is none, and values too large."""
    if isinstance(metric, type) or not hasattr(metric, "fit") or not hasattr(metric, "transform"):
        raise TypeError(
            f"metric must be a fitted estimator of mdaml, or a pipeline that ends in one, got "
            f"{type(metric).__name__}."
        )
    Y: FloatArray = np.ascontiguousarray(metric.transform(X), np.float64)
    check_mapped(Y)
    return Y


class Cases(NamedTuple):
    """How each of several cases fares under a metric; higher is better."""

    scores: FloatArray | BoolArray  # (n,)
    points: IntArray  # (n,) the row of X that a case is about
    weights: FloatArray | None = None  # (n,)

    @property
    def mean(self) -> float:
        """The score of all."""
        return float(np.average(self.scores, weights=self.weights))


class Search:
    """The search for neighbours of labelled points, in a gallery or among themselves."""

    def __init__(
        self,
        metric: Metric,
        X: ArrayLike,
        y: ArrayLike,
        gallery: Labelled | None,
    ) -> None:
        self.device = getattr(metric_of(metric), "device", None)
        self.queries, labels, self.rows = _labelled(metric, X, y)
        self.is_own_gallery = gallery is None
        self.gallery, gallery_labels = (
            (self.queries, labels) if gallery is None else _labelled(metric, *gallery)[:2]
        )
        classes = np.unique(np.concatenate([labels, gallery_labels]))
        self.n_classes = len(classes)
        self.codes: IntArray = np.searchsorted(classes, labels)
        self.gallery_codes: IntArray = np.searchsorted(classes, gallery_labels)
        size = np.bincount(self.gallery_codes, minlength=self.n_classes)
        self.n_relevant: IntArray = size[self.codes] - int(self.is_own_gallery)

    def find_findable(self, name: str) -> BoolArray:
        """Return which points have at least one other point of their label to find."""
        findable: BoolArray = self.n_relevant > 0
        if not findable.any():
            raise ValueError(
                f"{name} needs labels that occur more than once: no point has another of its "
                f"label ({len(self.codes)} points, {self.n_classes} labels)."
            )
        return findable

    def nearest(self, k: int) -> IntArray:
        """Return the k nearest in the gallery of each point, or all; ties to the earlier row."""
        with one_blas_thread():  # the search has threads of its own
            if not self.is_own_gallery:
                return nearest_rows_on(self.device, self.queries, self.gallery, k)
            if len(self.gallery) == 1:
                raise ValueError("A single labelled point has no neighbours: pass more.")
            return nearest_others(self.gallery, k)

    def blocks(self, n_wanted: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Return some of the points at a time and their nearest in the gallery, nearest first.

        All points of a block get as many as the one that wants most; those that want none are left
        out. Ties go to the earlier row. For many neighbours, where :meth:`nearest` would be slow
        and its result large.
        """
        return nearest_in_blocks(self.queries, self.gallery, n_wanted, own=self.is_own_gallery)


def _labelled(metric: Metric, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, Array, IntArray]:
    """Return the mapped samples that have a label, their labels, and their rows."""
    Y, labels = map_samples(metric, X), to_labels(y)
    if labels.shape != (len(Y),):
        raise ValueError(
            f"y must hold one label for each of the {len(Y)} rows of X, got shape {labels.shape}."
        )
    known = find_labelled(labels)
    Y, labels = Y[known], labels[known]
    if len(labels) == 0:
        raise ValueError("No point has a label: all are -1 or empty.")
    return Y, labels, np.flatnonzero(known)

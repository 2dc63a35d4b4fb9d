"""How good a metric is, by what was held out: comparisons, pairs or labels.

All take ``(metric, X, truth)``, as scorers of scikit-learn do. Memory is linear in the points and
in the comparisons: neighbours are searched for blocks of points at a time.
"""

from collections.abc import Callable, Iterator
from functools import partial
from numbers import Integral
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml.constraints import Constraints
from mdaml.constraints.arguments import match_names
from mdaml.constraints.names import get_index
from mdaml.constraints.nearest import nearest_was_near
from mdaml.kernels.neighbors import nearest, nearest_rows
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.kernels.products import one_blas_thread
from mdaml.model_selection._split import check_constraints

_BLOCK = 2**21  # distances at a time


class Metric(Protocol):
    """Anything after whose ``transform`` Euclidean distance is the one to be scored."""

    # Not a method: that of a pipeline is a descriptor, which type checkers do not take for one.
    @property
    def transform(self) -> Any:
        """Map samples."""
        ...


Scorer: TypeAlias = Callable[[Any, Any, Any], float]  # metric, X, labels or constraints


def triplet_accuracy(metric: Metric, X: ArrayLike, constraints: Constraints) -> float:
    """Return the share of comparisons that hold, weighted.

    Parameters
    ----------
    metric : estimator
        Any fitted estimator of this library, or a pipeline that ends in one.
    X : array-like of shape (n_samples, n_features)
        The points that the constraints refer to.
    constraints : Constraints
        Triplets and quadruplets count; a tie does not hold. If there are pairs only, the result is
        :func:`pair_auc`: the share of similar and dissimilar pairs in the right order.

    Returns
    -------
    score : float
        Between 0 and 1.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.constraints import Constraints
    >>> from mdaml.model_selection import triplet_accuracy
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> said = Constraints(triplets=[[0, 1, 2], [2, 3, 1]], quadruplets=[[0, 1, 2, 3]])
    >>> round(triplet_accuracy(Euclidean().fit(X), X, said), 3)
    0.667
    """
    constraints = _of_rows(X, constraints)
    compared = constraints.comparisons()
    if len(compared) == 0:
        return pair_auc(metric, X, constraints)
    Y = _mapped(metric, X, constraints)
    near, far = (pair_sq_dists(Y, compared[:, pair]) for pair in ([0, 1], [2, 3]))
    first = len(constraints.triplets)
    weights = np.delete(constraints.weights, slice(first, first + len(constraints.pairs)))
    return float(np.average(near < far, weights=weights))


def neighbor_accuracy(metric: Metric, X: ArrayLike, constraints: Constraints) -> float:
    """Return the share of points whose nearest item, of all they were compared with, is a near one.

    Follows the accuracy of nearest neighbours somewhat more closely than the share of comparisons
    does, and needs no labels: of many comparisons of a point only its nearest items count. It is no
    substitute for a score of the task itself; the guide "model selection" has figures.

    Parameters
    ----------
    metric : estimator
        Any fitted estimator of this library, or a pipeline that ends in one.
    X : array-like of shape (n_samples, n_features)
        The points that the constraints refer to.
    constraints : Constraints
        A point counts if it has near and far items: in triplets of which it is the first, or in
        pairs and quadruplets. At least one must.

    Returns
    -------
    score : float
        Between 0 and 1.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.constraints import Constraints
    >>> from mdaml.model_selection import neighbor_accuracy
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> said = Constraints(triplets=[[0, 1, 2], [2, 3, 1], [2, 0, 1]])
    >>> neighbor_accuracy(Euclidean().fit(X), X, said)
    0.5
    """
    constraints = _of_rows(X, constraints)
    right = nearest_was_near(_mapped(metric, X, constraints), constraints)
    if len(right) == 0:
        raise ValueError(
            "neighbor_accuracy needs a point with near and far items; these constraints have none."
        )
    return float(np.mean(right))


def pair_auc(metric: Metric, X: ArrayLike, constraints: Constraints) -> float:
    """Return the area under the ROC curve of telling similar from dissimilar pairs by distance.

    It is the probability that a similar pair is nearer than a dissimilar one, ties counting half,
    both drawn by weight.

    Parameters
    ----------
    metric : estimator
        Any fitted estimator of this library, or a pipeline that ends in one.
    X : array-like of shape (n_samples, n_features)
        The points that the constraints refer to.
    constraints : Constraints
        Of these the pairs; both kinds are needed.

    Returns
    -------
    score : float
        Between 0 and 1; chance is 0.5.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.constraints import Constraints
    >>> from mdaml.model_selection import pair_auc
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> said = Constraints(pairs=[[0, 1], [2, 3], [0, 3], [1, 2]], pair_labels=[1, 1, -1, -1])
    >>> pair_auc(Euclidean().fit(X), X, said)
    0.75
    """
    constraints = _of_rows(X, constraints)
    similar = constraints.pair_labels > 0
    if not similar.any() or similar.all():
        raise ValueError(
            f"pair_auc needs similar and dissimilar pairs, got {int(similar.sum())} similar and "
            f"{int(np.sum(~similar))} dissimilar ones. Where pairs are held out, lower n_splits."
        )
    first = len(constraints.triplets)
    weights = constraints.weights[first : first + len(similar)]
    sq_dists = pair_sq_dists(_mapped(metric, X, constraints), constraints.pairs)
    return float(roc_auc_score(similar, -sq_dists, sample_weight=weights))


def knn_accuracy(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    k: int = 3,
    gallery: tuple[ArrayLike, ArrayLike] | None = None,
) -> float:
    """Return the share of points whose k nearest neighbours vote for their label.

    Parameters
    ----------
    metric : estimator
        As for :func:`triplet_accuracy`.
    X, y : array-like of shape (n_samples, n_features), array-like of shape (n_samples,)
        Points to classify and their labels; ``-1`` marks unlabelled ones, which are left out.
    k : int, default=3
        Neighbours that vote; all, if there are fewer. Ties go to the label that sorts first.
    gallery : tuple of samples and labels, default=None
        The points that vote. None: the points themselves, each without its own vote.

    Returns
    -------
    score : float
        Between 0 and 1.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.model_selection import knn_accuracy
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> knn_accuracy(Euclidean().fit(X), X, ["a", "a", "b", "b"], k=1)
    0.75
    """
    _check_k("knn_accuracy", k)
    search = _Search(metric, X, y, gallery)
    votes = np.zeros((len(search.codes), search.n_classes), np.int64)
    labels = search.gallery_codes[search.nearest(k)]
    np.add.at(votes, (np.arange(len(votes))[:, None], labels), 1)
    return float(np.mean(votes.argmax(axis=1) == search.codes))


def recall_at_k(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    k: int = 1,
    gallery: tuple[ArrayLike, ArrayLike] | None = None,
) -> float:
    """Return the share of points with at least one of their label among the k nearest.

    Points without another of their label in the gallery are left out.

    Parameters
    ----------
    metric : estimator
        Any fitted estimator of this library, or a pipeline that ends in one.
    X, y : array-like of shape (n_samples, n_features), array-like of shape (n_samples,)
        Points that look for their label, and their labels; ``-1`` marks unlabelled ones, which are
        left out.
    k : int, default=1
        Neighbours that are looked at; all, if there are fewer.
    gallery : tuple of samples and labels, default=None
        The points to be found. None: the points themselves, each without itself.

    Returns
    -------
    score : float
        Between 0 and 1.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.model_selection import recall_at_k
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> recall_at_k(Euclidean().fit(X), X, ["a", "a", "b", "b"], k=2)
    0.75
    """
    _check_k("recall_at_k", k)
    search = _Search(metric, X, y, gallery)
    n_findable = search.check_findable("recall_at_k")
    hits = search.gallery_codes[search.nearest(k)] == search.codes[:, None]
    return int(np.sum(hits.any(axis=1))) / n_findable


def map_at_r(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    gallery: tuple[ArrayLike, ArrayLike] | None = None,
) -> float:
    """Return the mean average precision at R.

    For a point with R others of its label in the gallery, the R nearest are looked at: the sum of
    the precision at each rank that holds one of its label, over R [1]_. It is 1 if every point has
    all of its label nearest. Points without another of their label are left out.

    Parameters
    ----------
    metric : estimator
        Any fitted estimator of this library, or a pipeline that ends in one.
    X, y : array-like of shape (n_samples, n_features), array-like of shape (n_samples,)
        Points that look for their label, and their labels; ``-1`` marks unlabelled ones, which are
        left out.
    gallery : tuple of samples and labels, default=None
        The points to be found. None: the points themselves, each without itself.

    Returns
    -------
    score : float
        Between 0 and 1.

    References
    ----------
    .. [1] K. Musgrave, S. Belongie, S.-N. Lim, "A Metric Learning Reality Check", ECCV 2020.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.model_selection import map_at_r
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> map_at_r(Euclidean().fit(X), X, ["a", "a", "b", "b"])
    0.75
    """
    search = _Search(metric, X, y, gallery)
    n_findable = search.check_findable("map_at_r")
    total = 0.0
    for rows, neighbors in search.blocks(search.n_relevant):
        R = search.n_relevant[rows, None]
        rank = np.arange(1, neighbors.shape[1] + 1)
        hits = (search.gallery_codes[neighbors] == search.codes[rows, None]) & (rank <= R)
        total += float(np.sum(hits * (hits.cumsum(axis=1) / rank) / R))
    return total / n_findable


def _check_k(name: str, k: Any) -> None:
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise TypeError(f"{name}(k=...) must be an integer of at least 1, got {k!r}.")
    if k < 1:
        raise ValueError(f"{name}(k=...) must be at least 1, got {k}.")


def _of_rows(X: ArrayLike, constraints: Constraints) -> Constraints:
    """Return constraints of the rows of X: by their ids, if X is a data frame with names."""
    check_constraints(constraints)
    return match_names(constraints, get_index(X))


def _mapped(metric: Metric, X: ArrayLike, constraints: Constraints) -> FloatArray:
    Y: FloatArray = np.ascontiguousarray(metric.transform(X), np.float64)
    if constraints.n_points > len(Y):
        raise ValueError(
            f"constraints refer to {constraints.n_points} points, but X has {len(Y)} rows. Pass "
            "the X that they index, or restrict them to its rows: constraints.restrict(rows)."
        )
    return Y


class _Search:
    """Labelled points that look for neighbours in a gallery, or among themselves."""

    def __init__(self, metric: Metric, X: Any, y: Any, gallery: tuple[Any, Any] | None) -> None:
        self.queries, labels = _labelled(metric, X, y)
        self.is_own_gallery = gallery is None
        self.gallery, gallery_labels = (
            (self.queries, labels) if gallery is None else _labelled(metric, *gallery)
        )
        classes = np.unique(np.concatenate([labels, gallery_labels]))
        self.n_classes = len(classes)
        self.codes: IntArray = np.searchsorted(classes, labels)
        self.gallery_codes: IntArray = np.searchsorted(classes, gallery_labels)
        size = np.bincount(self.gallery_codes, minlength=self.n_classes)
        self.n_relevant: IntArray = size[self.codes] - int(self.is_own_gallery)

    def check_findable(self, name: str) -> int:
        """Return how many points have another of their label to find, at least one."""
        n_findable = int(np.sum(self.n_relevant > 0))
        if n_findable == 0:
            raise ValueError(
                f"{name} needs labels that occur more than once: no point has another of its "
                f"label ({len(self.codes)} points, {self.n_classes} labels)."
            )
        return n_findable

    def nearest(self, k: int) -> IntArray:
        """Return the k nearest in the gallery of each point, or all; ties to the earlier row."""
        with one_blas_thread():  # the search has threads of its own
            if not self.is_own_gallery:
                return nearest_rows(self.queries, self.gallery, k)[0]
            places = np.arange(len(self.gallery))
            if len(places) == 1:
                raise ValueError("A single labelled point has no neighbours: pass more.")
            bounds = np.column_stack([places, places + 1])  # each a class of its own
            k = min(k, len(places) - 1)
            return nearest(self.gallery, bounds, places, k, same=False)[0]

    def blocks(self, n_wanted: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield some of the points and their nearest in the gallery, nearest first.

        All points of a block get as many as the one that wants most; those that want none are left
        out. Ties go to the earlier row. For many neighbours, where :meth:`nearest` would be slow
        and its result large.
        """
        center = self.gallery.mean(axis=0)  # products of large numbers would round differences off
        gallery, queries = self.gallery - center, self.queries - center
        half_norms = 0.5 * np.einsum("ij,ij->i", gallery, gallery)
        # Those that want about as many share a block.
        wanting = np.argsort(n_wanted, kind="stable")[np.sum(n_wanted <= 0) :]
        step = max(1, _BLOCK // len(gallery))
        for start in range(0, len(wanting), step):
            rows = wanting[start : start + step]
            closeness = half_norms - queries[rows] @ gallery.T  # half of squared, less a constant
            if self.is_own_gallery:
                closeness[np.arange(len(rows)), rows] = np.inf
            yield rows, _smallest(closeness, int(n_wanted[rows].max()))


def _smallest(values: FloatArray, n: int) -> IntArray:
    """Return the columns of the n smallest values of each row, in order; ties to the left."""
    bound = np.partition(values, n - 1, axis=1)[:, n - 1 : n]
    kept = values <= bound
    crowded = np.flatnonzero(np.count_nonzero(kept, axis=1) > n)
    if len(crowded):
        below, tied = values[crowded] < bound[crowded], values[crowded] == bound[crowded]
        n_free = n - np.count_nonzero(below, axis=1)[:, None]
        kept[crowded] = below | (tied & (np.cumsum(tied, axis=1) <= n_free))
    columns = (np.flatnonzero(kept) % values.shape[1]).reshape(-1, n)
    order = np.argsort(np.take_along_axis(values, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def _labelled(metric: Metric, X: Any, y: Any) -> tuple[FloatArray, npt.NDArray[Any]]:
    """Return the mapped samples that have a label, and their labels."""
    Y, labels = np.asarray(metric.transform(X), np.float64), np.asarray(y)
    if labels.shape != (len(Y),):
        raise ValueError(
            f"y must hold one label for each of the {len(Y)} rows of X, got shape {labels.shape}."
        )
    if labels.dtype.kind in "iufO":
        Y, labels = Y[labels != -1], labels[labels != -1]
    if len(labels) == 0:
        raise ValueError("No point has a label: all are -1.")
    return Y, labels


BY_CONSTRAINTS: dict[str, Scorer] = {
    "comparisons": triplet_accuracy,
    "neighbors": neighbor_accuracy,
    "pair_auc": pair_auc,
}
BY_LABELS: dict[str, Scorer] = {
    "knn_accuracy": knn_accuracy,
    "recall_at_1": partial(recall_at_k, k=1),
    "map_at_r": map_at_r,
}

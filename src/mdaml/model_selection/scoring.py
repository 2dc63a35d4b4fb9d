"""How good a metric is, by what was held out: comparisons, pairs or labels.

All take ``(metric, X, truth)``, as scorers of scikit-learn do. Memory is linear in the points and
in the comparisons: neighbours are searched for blocks of points at a time (``_gallery.py``).
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mdaml._typing import ArrayLike, FloatArray
from mdaml._validation import check_integer
from mdaml.constraints import Constraints
from mdaml.constraints.arguments import match_names
from mdaml.constraints.matching import nearest_was_near, split_weights
from mdaml.constraints.names import get_index
from mdaml.holdout.comparisons import are_right
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.model_selection._gallery import Cases, Labelled, Metric, Search, map_samples
from mdaml.model_selection._split import check_constraints

Scorer: TypeAlias = Callable[[Any, Any, Any], float]  # metric, X, labels or constraints


def triplet_accuracy(metric: Metric, X: ArrayLike, constraints: Constraints) -> float:
    """Return the share of comparisons that hold, weighted.

    Parameters
    ----------
    metric : estimator
        A fitted estimator of this library, or a pipeline that ends in one.
    X : array-like of shape (n_samples, n_features)
        The points that the constraints refer to.
    constraints : Constraints
        Triplets and quadruplets count, a tie one half. If there are pairs only, the result is
        :func:`pair_auc`: the share of similar and dissimilar pairs in the right order.

    Returns
    -------
    score : float
        Between 0 and 1.

    See Also
    --------
    neighbor_accuracy : Looks at the nearest item only.
    pair_auc : For pairs.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.constraints import Constraints
    >>> from mdaml.model_selection import triplet_accuracy
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> answers = Constraints(triplets=[[0, 1, 2], [2, 3, 1]], quadruplets=[[0, 1, 2, 3]])
    >>> round(triplet_accuracy(Euclidean().fit(X), X, answers), 3)
    0.667
    """
    return _judge_comparisons(metric, X, constraints).mean


def neighbor_accuracy(metric: Metric, X: ArrayLike, constraints: Constraints) -> float:
    """Return the share of points whose nearest item, of all they were compared with, is a near one.

    Follows the accuracy of nearest neighbours somewhat more closely than the share of comparisons
    does, and needs no labels: however often a point was compared, only its nearest items count, a
    tie one half. It is no substitute for a score of the task; "Choosing parameters" has figures.

    Parameters
    ----------
    metric : estimator
        A fitted estimator of this library, or a pipeline that ends in one.
    X : array-like of shape (n_samples, n_features)
        The points that the constraints refer to.
    constraints : Constraints
        A point counts if it has near and far items: in triplets whose first member it is, or in
        pairs and quadruplets. At least one point must.

    Returns
    -------
    score : float
        Between 0 and 1.

    See Also
    --------
    triplet_accuracy : Counts every comparison alike.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.constraints import Constraints
    >>> from mdaml.model_selection import neighbor_accuracy
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> answers = Constraints(triplets=[[0, 1, 2], [2, 3, 1], [2, 0, 1]])
    >>> neighbor_accuracy(Euclidean().fit(X), X, answers)
    0.5
    """
    return _judge_nearest(metric, X, constraints).mean


def pair_auc(metric: Metric, X: ArrayLike, constraints: Constraints) -> float:
    """Return the area under the ROC curve of telling similar from dissimilar pairs by distance.

    It is the probability that a similar pair is nearer than a dissimilar one, ties counting half,
    both drawn by weight.

    Parameters
    ----------
    metric : estimator
        A fitted estimator of this library, or a pipeline that ends in one.
    X : array-like of shape (n_samples, n_features)
        The points that the constraints refer to.
    constraints : Constraints
        Only the pairs are used; both kinds are needed.

    Returns
    -------
    score : float
        Between 0 and 1; chance is 0.5.

    See Also
    --------
    triplet_accuracy : For triplets.
    mdaml.PairVerifier : Chooses a threshold.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.constraints import Constraints
    >>> from mdaml.model_selection import pair_auc
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> answers = Constraints(pairs=[[0, 1], [2, 3], [0, 3], [1, 2]], pair_labels=[1, 1, -1, -1])
    >>> pair_auc(Euclidean().fit(X), X, answers)
    0.75
    """
    return _judge_pairs(metric, X, constraints).mean


def knn_accuracy(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    k: int = 3,
    gallery: Labelled | None = None,
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

    See Also
    --------
    triplet_accuracy : Needs comparisons, no labels.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.model_selection import knn_accuracy
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> knn_accuracy(Euclidean().fit(X), X, ["a", "a", "b", "b"], k=1)
    0.75
    """
    check_integer("knn_accuracy", "k", k, 1)
    return _judge_votes(metric, X, y, k=k, gallery=gallery).mean


def hit_rate_at_k(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    k: int = 1,
    gallery: Labelled | None = None,
) -> float:
    """Return the share of points with at least one of their label among the k nearest.

    Points without another of their label in the gallery are left out.

    Parameters
    ----------
    metric : estimator
        A fitted estimator of this library, or a pipeline that ends in one.
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

    See Also
    --------
    map_at_r : Looks at all points of the class.
    neighbor_accuracy : Needs comparisons, no labels.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> from mdaml.model_selection import hit_rate_at_k
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> hit_rate_at_k(Euclidean().fit(X), X, ["a", "a", "b", "b"], k=2)
    0.75
    """
    check_integer("hit_rate_at_k", "k", k, 1)
    return _judge_hits(metric, X, y, k=k, gallery=gallery).mean


def map_at_r(
    metric: Metric,
    X: ArrayLike,
    y: ArrayLike,
    *,
    gallery: Labelled | None = None,
) -> float:
    """Return the mean average precision at R.

    For a point with R others of its label in the gallery, the R nearest are looked at: the sum of
    the precision at each rank that holds one of its label, over R [1]_. It is 1 if every point has
    all of its label nearest. Points without another of their label are left out.

    Parameters
    ----------
    metric : estimator
        A fitted estimator of this library, or a pipeline that ends in one.
    X, y : array-like of shape (n_samples, n_features), array-like of shape (n_samples,)
        Points that look for their label, and their labels; ``-1`` marks unlabelled ones, which are
        left out.
    gallery : tuple of samples and labels, default=None
        The points to be found. None: the points themselves, each without itself.

    Returns
    -------
    score : float
        Between 0 and 1.

    See Also
    --------
    hit_rate_at_k : Looks at the nearest few only.

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
    return _judge_precision(metric, X, y, gallery=gallery).mean


def _judge_comparisons(metric: Metric, X: ArrayLike, constraints: Constraints) -> Cases:
    constraints = _of_rows(X, constraints)
    compared = constraints.comparisons()
    if len(compared) == 0:
        return _judge_pairs(metric, X, constraints)
    Y, weights = _mapped(metric, X, constraints), split_weights(constraints)
    near, far = (pair_sq_dists(Y, compared[:, pair]) for pair in ([0, 1], [2, 3]))
    return Cases(are_right(far - near), compared[:, 0], np.concatenate(weights[::2]))


def _judge_nearest(metric: Metric, X: ArrayLike, constraints: Constraints) -> Cases:
    constraints = _of_rows(X, constraints)
    points, right = nearest_was_near(_mapped(metric, X, constraints), constraints)
    if len(right) == 0:
        raise ValueError(
            "neighbor_accuracy needs a point with near and far items; these constraints have none."
        )
    return Cases(right, points)


def _judge_pairs(metric: Metric, X: ArrayLike, constraints: Constraints) -> Cases:
    """Return for each dissimilar pair the share of similar ones that are nearer, ties half."""
    constraints = _of_rows(X, constraints)
    similar = constraints.pair_labels > 0
    if not similar.any() or similar.all():
        raise ValueError(
            f"pair_auc needs similar and dissimilar pairs, got {int(similar.sum())} similar and "
            f"{int(np.sum(~similar))} dissimilar ones. Where pairs are held out, lower n_splits."
        )
    weights = split_weights(constraints)[1]
    sq_dists = pair_sq_dists(_mapped(metric, X, constraints), constraints.pairs)
    order = np.argsort(sq_dists[similar])
    near, mass = sq_dists[similar][order], np.append(0.0, np.cumsum(weights[similar][order]))
    below, up_to = (np.searchsorted(near, sq_dists[~similar], side) for side in ("left", "right"))
    shares = (mass[below] + mass[up_to]) / (2.0 * mass[-1])
    return Cases(shares, constraints.pairs[~similar, 0], weights[~similar])


def _judge_votes(
    metric: Metric, X: ArrayLike, y: ArrayLike, *, gallery: Labelled | None = None, k: int = 3
) -> Cases:
    search = Search(metric, X, y, gallery)
    votes = np.zeros((len(search.codes), search.n_classes), np.int64)
    labels = search.gallery_codes[search.nearest(k)]
    np.add.at(votes, (np.arange(len(votes))[:, None], labels), 1)
    return Cases(votes.argmax(axis=1) == search.codes, search.rows)


def _judge_hits(
    metric: Metric, X: ArrayLike, y: ArrayLike, *, gallery: Labelled | None = None, k: int = 1
) -> Cases:
    search = Search(metric, X, y, gallery)
    findable = search.find_findable("hit_rate_at_k")
    hits = search.gallery_codes[search.nearest(k)] == search.codes[:, None]
    return Cases(hits.any(axis=1)[findable], search.rows[findable])


def _judge_precision(
    metric: Metric, X: ArrayLike, y: ArrayLike, *, gallery: Labelled | None = None
) -> Cases:
    search = Search(metric, X, y, gallery)
    findable = search.find_findable("map_at_r")
    scores = np.zeros(len(search.codes))
    for rows, neighbors in search.blocks(search.n_relevant):
        R = search.n_relevant[rows, None]
        rank = np.arange(1, neighbors.shape[1] + 1)
        hits = (search.gallery_codes[neighbors] == search.codes[rows, None]) & (rank <= R)
        scores[rows] = np.sum(hits * (hits.cumsum(axis=1) / rank) / R, axis=1)
    return Cases(scores[findable], search.rows[findable])


def _of_rows(X: ArrayLike, constraints: Constraints) -> Constraints:
    """Return constraints of the rows of X: by their ids, if X is a data frame with names."""
    check_constraints(constraints)
    return match_names(constraints, get_index(X))


def _mapped(metric: Metric, X: ArrayLike, constraints: Constraints) -> FloatArray:
    Y: FloatArray = map_samples(metric, X)
    if constraints.n_points > len(Y):
        raise ValueError(
            f"constraints refer to {constraints.n_points} points, but X has {len(Y)} rows. Pass "
            "the X that they index, or restrict them to its rows: constraints.restrict(rows)."
        )
    return Y


# Name of a score, what judges each case, and the public function of its mean.
_Judge: TypeAlias = Callable[..., Cases]
BY_CONSTRAINTS: dict[str, tuple[_Judge, Callable[..., float]]] = {
    "comparisons": (_judge_comparisons, triplet_accuracy),
    "neighbors": (_judge_nearest, neighbor_accuracy),
    "pair_auc": (_judge_pairs, pair_auc),
}
BY_LABELS: dict[str, tuple[_Judge, Callable[..., float]]] = {
    "knn_accuracy": (_judge_votes, knn_accuracy),
    "hit_rate_at_1": (_judge_hits, hit_rate_at_k),
    "map_at_r": (_judge_precision, map_at_r),
}


def check_scoring(scoring: str | Scorer | None, *, has_labels: bool) -> str | Scorer:
    """Return a known name, or a callable; refuse anything else."""
    names, others = (BY_LABELS, BY_CONSTRAINTS) if has_labels else (BY_CONSTRAINTS, BY_LABELS)
    if scoring is None:
        return next(iter(names))
    if callable(scoring):
        return next((name for name, (_, own) in names.items() if scoring is own), scoring)
    if scoring not in names:
        hint = ""
        if scoring in others:
            hint = f" {scoring!r} needs {'comparisons' if has_labels else 'labels'}."
        raise ValueError(
            f"MetricSearchCV(scoring=...) must be one of {', '.join(map(repr, names))} "
            f"or a callable, {'with' if has_labels else 'without'} labels; got "
            f"{scoring!r}.{hint}"
        )
    return scoring

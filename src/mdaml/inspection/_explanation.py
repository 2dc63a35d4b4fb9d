"""What a metric looks at: features, directions and modes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml.constraints.forms.triplets import check_triplets
from mdaml.constraints.names import get_index
from mdaml.estimators.local import LocalMDaML
from mdaml.inspection import models

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def feature_relevance(model: BaseEstimator, X: ArrayLike) -> "Series":
    r"""Return the share of each feature in the mean squared learned distance.

    The mean squared distance of two points of X is :math:`2 \sum_{fg} M_{fg} \mathrm{Cov}_{fg}`.
    Feature f is given :math:`\sum_g M_{fg} \mathrm{Cov}_{fg}`: its own term, and half of each term
    it shares with another feature. Behind a ``Normalizer`` that :func:`mdaml.fold_pipeline` kept,
    Cov is that of the rows of unit length; features that are mixed before it are refused.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, or a search over them.
    X : array-like of shape (n_samples, n_features)
        Points, at least two, among which distances are meant.

    Returns
    -------
    shares : pandas.Series of shape (n_features,)
        They sum to one, under the names of the features. A share can be negative: the feature
        then takes back, on the average, what others add. Of :class:`~mdaml.LocalMDaML` also
        "modes", for all places together.

    See Also
    --------
    explain_distance : The same for one pair of points.
    mdaml.plot.plot_feature_relevance : Draws it.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_triplets
    >>> from mdaml.inspection import feature_relevance
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> T, _ = make_triplets(X, n_triplets=2000, components=np.eye(4)[:2], random_state=0)
    >>> feature_relevance(MDaML().fit(X, triplets=T), X).round(1)
    x0    0.5
    x1    0.5
    x2    0.0
    x3    0.0
    Name: relevance, dtype: float64
    """
    pandas = models.require_pandas("feature_relevance")
    metric = models.fitted_metric("feature_relevance", model)
    # sum_g M_fg Cov_fg = sum_c L_cf Cov(x_f, y_c), with y = L x.
    parts = np.sum(metric.components_.T * covary("feature_relevance", metric, X), axis=1)
    total = float(parts.sum())
    if total <= 0:
        raise ValueError("All rows of X are at distance zero under the metric: no shares exist.")
    names, parts = by_feature(metric, parts)
    return pandas.Series(parts / total, index=names, name="relevance")


def covary(caller: str, metric: BaseEstimator, X: ArrayLike) -> FloatArray:
    """Return sums of products of features and mapped samples, both centred, (d, rank)."""
    X = metric.prepare(X)
    Y = models.mapped_samples(metric, X)
    if len(Y) < 2:
        raise ValueError(f"{caller} needs at least two rows of X, got {len(Y)}.")
    samples = models.before_the_map(caller, metric, np.asarray(X, dtype=np.float64))
    products: FloatArray = (samples - samples.mean(axis=0)).T @ (Y - Y.mean(axis=0))
    return products


def by_feature(metric: BaseEstimator, parts: FloatArray) -> tuple[list[str], FloatArray]:
    """Return the names of features, and the part of each; of places one part, named modes."""
    names = list(models.feature_names(metric))
    if not models.has_places(metric):
        return names, parts
    parts, of_modes = models.split_columns(metric, parts)
    return [*names, "modes"], np.append(parts, of_modes.sum())


def explain_distance(model: BaseEstimator, a: ArrayLike, b: ArrayLike) -> "DataFrame":
    """Return what each feature adds to the squared learned distance of two points.

    With :math:`z = a - b` feature f adds :math:`z_f (M z)_f`; together they are the squared
    distance. Behind a ``Normalizer`` that :func:`mdaml.fold_pipeline` kept, a and b in z are the
    points of unit length; features that are mixed before it are refused.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, or a search over them.
    a, b : array-like of shape (n_features,)
        Two points.

    Returns
    -------
    frame : pandas.DataFrame
        One row per feature, in order: ``a``, ``b``, ``contribution`` to the squared distance, and
        ``share`` of it. Contributions can be negative where features are taken together. Of
        :class:`~mdaml.LocalMDaML` also one row for each mode with a place that a or b is a member
        of: ``a`` and ``b`` are the memberships there. What maps add counts for the features.

    See Also
    --------
    feature_relevance : The same over all pairs of points.
    mdaml.plot.plot_distance_explanation : Draws it.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import Euclidean
    >>> from mdaml.inspection import explain_distance
    >>> metric = Euclidean().fit(np.eye(3))
    >>> explain_distance(metric, [1.0, 2.0, 3.0], [1.0, 5.0, 7.0])
          a    b  contribution  share
    x0  1.0  1.0           0.0   0.00
    x1  2.0  5.0           9.0   0.36
    x2  3.0  7.0          16.0   0.64
    """
    pandas = models.require_pandas("explain_distance")
    metric = models.fitted_metric("explain_distance", model)
    points = []
    for name, given in (("a", a), ("b", b)):
        point = np.asarray(given, dtype=np.float64)
        wanted = f"{name} must be one point of {metric.n_features_in_} finite numbers"
        if point.shape != (metric.n_features_in_,):
            raise ValueError(f"{wanted}, got shape {point.shape}.")
        if not np.all(np.isfinite(point)):
            raise ValueError(f"{wanted}, got {point[~np.isfinite(point)][0]} among them.")
        points.append(point)
    inner = models.before_the_map("explain_distance", metric, np.array(points))
    difference = inner[0] - inner[1]
    parts = difference * (metric.components_.T @ (metric.components_ @ difference))
    total, names, values = parts.sum(), models.feature_names(metric), np.array(points)
    if models.has_places(metric):
        parts, of_modes = models.split_columns(metric, parts)
        members = metric.memberships(models.like_training(metric, np.array(points))).toarray()
        named = np.flatnonzero(members.any(axis=0))
        names = names + [f"mode {k}" for k in named]
        parts = np.concatenate([parts, of_modes[named]])
        values = np.hstack([values, members[:, named]])
    return pandas.DataFrame(
        {
            "a": values[0],
            "b": values[1],
            "contribution": parts,
            "share": parts / total if total > 0 else np.zeros(len(parts)),
        },
        index=names,
    )


def effective_rank(model: BaseEstimator) -> float:
    r"""Return how many directions the metric uses: the exponential of the entropy of its spectrum.

    With the shares :math:`p_k` of the eigenvalues of M in their sum,
    :math:`\exp(-\sum_k p_k \log p_k)`. It is d if all directions count alike and 1 if only one
    counts.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, or a search over them.

    Returns
    -------
    rank : float
        Between 1 and the number of features; 0 for a metric that is zero.

    See Also
    --------
    mdaml.plot.plot_spectrum : Draws the eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import Euclidean
    >>> from mdaml.inspection import effective_rank
    >>> round(effective_rank(Euclidean().fit(np.eye(3))), 6)
    3.0
    """
    components = models.fitted_metric("effective_rank", model).components_.astype(np.float64)
    spectrum = np.linalg.svd(components, compute_uv=False) ** 2
    if spectrum.sum() == 0:
        return 0.0
    shares = spectrum[spectrum > 0] / spectrum.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))))


@dataclass(frozen=True)
class ModeMap:
    """Which modes points belong to, and which modes are joined by comparisons.

    Attributes
    ----------
    modes : array of shape (n_samples,)
        The mode in which each point has most weight.
    weights : array of shape (n_samples, n_modes)
        Weights of the points in the modes; rows sum to one.
    links : array of shape (n_modes, n_modes)
        Share of the near pairs between each two modes, symmetric, sums to one: the mean of
        ``w_ik w_jl`` over the near pairs (i, j). What lies off the diagonal crosses modes.

    See Also
    --------
    mode_map : Makes it of a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_multimodal
    >>> from mdaml.inspection import mode_map
    >>> X, y = make_multimodal(random_state=0)
    >>> found = mode_map(MDaML(n_modes=4, random_state=0).fit(X, y), X)
    >>> sizes = np.bincount(found.modes, minlength=4)  # points of each mode
    >>> int(sizes.sum())
    300
    """

    modes: IntArray
    weights: FloatArray
    links: FloatArray


def mode_map(
    model: BaseEstimator,
    X: ArrayLike,
    *,
    triplets: ArrayLike | None = None,
    training_rows: bool | None = None,
) -> ModeMap:
    """Return the modes of points and how much near pairs link them.

    Parameters
    ----------
    model : fitted estimator
        MDaML, or a search that chose it.
    X : array-like of shape (n_samples, n_features)
        Points, those of ``fit`` or others.
    triplets : array-like of shape (n_triplets, 3), optional
        Comparisons of the rows of X whose near pairs are counted. None: all those of ``fit``, if X
        has its rows.
    training_rows : bool or None, default=None
        Whether X has the rows of ``fit``, whose weights were learned. None: yes if equally many.

    Returns
    -------
    map : ModeMap
        Modes, weights and links.

    See Also
    --------
    mdaml.plot.plot_modes : Draws points by mode.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_multimodal
    >>> from mdaml.inspection import mode_map
    >>> X, y = make_multimodal(random_state=0)
    >>> found = mode_map(MDaML(n_modes=4, random_state=0).fit(X, y), X)
    >>> found.weights.shape, found.links.shape
    ((300, 4), (4, 4))
    >>> bool(np.isclose(found.links.sum(), 1))
    True
    """
    metric = models.fitted_metric("mode_map", model)
    if not hasattr(metric, "centers_") or isinstance(metric, LocalMDaML):
        raise TypeError(f"mode_map needs a model with modes, MDaML; got {type(metric).__name__}.")
    Y = models.mapped_samples(metric, X)
    if triplets is not None:
        near = check_triplets(triplets, len(Y), get_index(X))[:, :2]
    elif models.are_training_rows("mode_map", metric, Y, training_rows):
        near = (metric.triplets_ if metric.comparisons_ is None else metric.comparisons_)[:, :2]
    else:
        raise ValueError(
            f"X has {len(Y)} rows, not the {len(metric.weights_)} of fit: pass triplets= of these "
            "rows."
        )
    weights = models.mode_weights("mode_map", metric, Y, training_rows)
    assert weights is not None
    half = weights[near[:, 0]].T @ weights[near[:, 1]] / len(near)
    return ModeMap(weights.argmax(axis=1), weights, 0.5 * (half + half.T))

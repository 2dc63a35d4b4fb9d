"""What kinds of people look at, and how they differ."""

from typing import TYPE_CHECKING

import numpy as np

from mdaml._typing import ArrayLike, FloatArray
from mdaml.inspection._explanation import by_feature, covary, feature_relevance
from mdaml.inspection.models import require_pandas
from mdaml.people import PersonalMetrics

if TYPE_CHECKING:
    from pandas import DataFrame

_END = 1.96  # standard errors from the middle of an interval of 95 % to its end


def describe_kinds(model: PersonalMetrics, X: ArrayLike) -> "DataFrame":
    """Return what each kind of people looks at, and how it differs from the other kinds.

    Parameters
    ----------
    model : PersonalMetrics
        Fitted.
    X : array-like of shape (n_samples, n_features)
        Points, at least two, among which distances are meant.

    Returns
    -------
    frame : pandas.DataFrame
        One row for each kind and feature: ``kind``, ``persons``, ``feature``; ``relevance``, the
        share of the feature in the mean squared distance (:func:`feature_relevance`), with ``low``
        and ``high``; ``difference`` to the mean of the other kinds, with ``difference_low`` and
        ``difference_high``, missing if there is one kind. Intervals of 95 % tell what so many
        answers leave open or, if that is more, what so many persons do who differ within their
        kind; missing if everybody has the shared metric. They do not tell whether the kinds are
        the right ones. A kind of one person may be somebody who answers at random: see
        :func:`mdaml.audit`.

    See Also
    --------
    mdaml.plot.plot_kinds : Draws it.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.datasets import make_triplets
    >>> from mdaml.inspection import describe_kinds
    >>> from mdaml.people import PersonalMetrics
    >>> X, eye = np.random.default_rng(0).normal(size=(60, 3)), np.eye(3)
    >>> answers = [
    ...     make_triplets(X, n_triplets=60, components=eye[p % 2 : p % 2 + 1], random_state=p)[0]
    ...     for p in range(8)
    ... ]
    >>> who = np.repeat(np.arange(8), 60)
    >>> model = PersonalMetrics(n_kinds=2).fit(X, triplets=np.concatenate(answers), who=who)
    >>> frame = describe_kinds(model, X)
    >>> sorted(frame["feature"][frame["relevance"] > 0.8])
    ['x0', 'x1']
    """
    pandas = require_pandas("describe_kinds")
    found = np.array([feature_relevance(kind, X) for kind in model.kinds_])  # (K, F)
    names = feature_relevance(model.metric_, X).index
    sizes = np.bincount(model.kind_of_person_, minlength=len(found))
    n_features = len(names)
    columns: dict[str, ArrayLike] = {
        "kind": np.repeat(np.arange(len(found)), n_features),
        "persons": np.repeat(sizes, n_features),
        "feature": np.tile(names, len(found)),
        "relevance": found.ravel(),
    }
    middle, span = _find_spans(model, X)
    ends = np.minimum(middle - span, found), np.maximum(middle + span, found)
    columns |= {"low": ends[0].ravel(), "high": ends[1].ravel()}
    if len(found) > 1:
        to_others = np.full((len(found), len(found)), -1.0 / (len(found) - 1))
        np.fill_diagonal(to_others, 1.0)
        found, middle, span = (
            to_others @ found,
            to_others @ middle,
            np.sqrt(to_others**2 @ span**2),
        )
        ends = np.minimum(middle - span, found), np.maximum(middle + span, found)
        columns |= {"difference": found.ravel()}
        columns |= {"difference_low": ends[0].ravel(), "difference_high": ends[1].ravel()}
    return pandas.DataFrame(columns)


def _find_spans(model: PersonalMetrics, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return middles of intervals of the relevances of each kind, and half their lengths, (K, F).

    By the delta method, for a matrix of which nothing is cut off: what is cut off would make every
    feature that nobody looks at relevant for sure. Missing numbers if nothing was learned.
    """
    metric = model.metric_
    L = metric.components_.astype(np.float64)
    of_columns = model._coordinates.parts(L, covary("describe_kinds", metric, X))
    parts = np.column_stack([by_feature(metric, column)[1] for column in of_columns.T])  # (F, q)
    middle, span = np.full((2, model.n_kinds_, len(parts)), np.nan)
    for kind, covariances in enumerate(model.kind_covariances_):
        added = parts @ model.kind_coefficients_[kind]
        total = float(added.sum())
        if total <= 0.0:
            continue
        middle[kind] = added / total
        slopes = (parts - np.outer(middle[kind], parts.sum(axis=0))) / total
        variances = np.einsum("fq,nqr,fr->nf", slopes, covariances, slopes)
        span[kind] = _END * np.sqrt(variances.max(axis=0))
    return middle, span

"""What kinds of persons look at, and how they differ."""

from typing import TYPE_CHECKING

import numpy as np

from mdaml._typing import ArrayLike, FloatArray
from mdaml.inspection._explanation import feature_relevance
from mdaml.inspection.models import require_pandas
from mdaml.people import PersonalMetrics

if TYPE_CHECKING:
    from pandas import DataFrame

_ENDS = (0.025, 0.975)


def describe_kinds(model: PersonalMetrics, X: ArrayLike) -> "DataFrame":
    """Return what each kind of persons looks at, and how it differs from the other kinds.

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
        ``difference_high``, missing if there is one kind. Intervals of 95 % are over persons drawn
        again, missing if everybody has the shared metric. Of a kind of one person they are too
        narrow, and the kind may be somebody who answers at random: see :func:`mdaml.audit`.

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
    drawn = np.array(
        [[feature_relevance(model._make(row), X) for row in draw] for draw in model.kind_draws_]
    )
    sizes = np.bincount(model.kind_of_person_, minlength=len(found))
    n_features = len(names)
    columns: dict[str, ArrayLike] = {
        "kind": np.repeat(np.arange(len(found)), n_features),
        "persons": np.repeat(sizes, n_features),
        "feature": np.tile(names, len(found)),
        "relevance": found.ravel(),
    }
    missing = np.full((2, found.size), np.nan)
    low, high = np.quantile(drawn, _ENDS, axis=0).reshape(2, -1) if len(drawn) else missing
    columns |= {"low": low, "high": high}
    if len(found) > 1:
        ends = np.quantile(_to_others(drawn), _ENDS, axis=0).reshape(2, -1)
        columns |= {"difference": _to_others(found[None])[0].ravel()}
        columns |= {"difference_low": ends[0], "difference_high": ends[1]}
    return pandas.DataFrame(columns)


def _to_others(shares: FloatArray) -> FloatArray:
    """Return shares less the mean of those of the other kinds, (n, K, F)."""
    n_kinds = shares.shape[1]
    others = (shares.sum(axis=1, keepdims=True) - shares) / (n_kinds - 1)
    differences: FloatArray = shares - others
    return differences

"""Which labels are probably wrong."""

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from mdaml._typing import ArrayLike, FloatArray
from mdaml.constraints.labels import Classes
from mdaml.inspection._model import mapped_samples, metric_and_samples, require_pandas
from mdaml.inspection._suspicion import FlipModel, relative_margins
from mdaml.kernels.products import one_blas_thread

if TYPE_CHECKING:
    from pandas import DataFrame

_SUSPICIOUS = 0.5
LABEL_CATEGORIES = ("kept", "violated", "suspected wrong")


def audit_labels(model: Any, X: ArrayLike, y: ArrayLike, *, n_neighbors: int = 5) -> "DataFrame":
    """Report which labels a fitted metric agrees with, and which are probably wrong.

    Parameters
    ----------
    model : fitted estimator
        Any metric of this library, a pipeline that ends in one, or a search over them.
    X : array-like of shape (n_samples, n_features)
        Samples; those of ``fit`` or others.
    y : array-like of shape (n_samples,)
        Their labels; ``-1`` marks unlabelled rows, which are left out.
    n_neighbors : int, default=5
        Nearest samples of the own label, and of others, that are compared.

    Returns
    -------
    frame : pandas.DataFrame
        One row per labelled sample, in the order of X:

        ``row``, ``label``
            Row of X, and its label.
        ``other``
            The most frequent label among the nearest samples of other labels.
        ``slack``
            ``(d2(far) - d2(near)) / (d2(far) + d2(near))``, from -1 to 1: *near* is the mean
            squared distance to the nearest samples of the same label, *far* to the nearest of other
            labels. 0 where no other sample has the label.
        ``suspicion``
            Probability that the label is wrong, estimated from all slacks as :func:`mdaml.audit`
            does for comparisons.
        ``category``
            *kept* if the slack is positive; else *suspected wrong* if the suspicion is at least
            one half, *violated* if it is less.

    See Also
    --------
    audit : The same for comparisons.

    Notes
    -----
    A tenth of the labels was changed at random before :class:`mdaml.MDaML` learned from them. On
    vehicle, segment and balance the area under the ROC curve of suspicion was 0.97 to 0.99; of the
    suspected labels, 59 to 80 percent had been changed, and 87 to 97 percent of the changed ones
    were suspected. Samples between two classes are suspected too: look at them before you change
    their labels.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import GMML
    >>> from mdaml.datasets import make_multimodal
    >>> from mdaml.inspection import audit_labels
    >>> X, y = make_multimodal(random_state=0)
    >>> y[7] = 1 - y[7]
    >>> frame = audit_labels(GMML().fit(X, y), X, y)
    >>> frame.sort_values("suspicion", ascending=False)["row"].iloc[0]
    np.int64(7)
    """
    pandas = require_pandas("audit_labels")
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, Integral) or n_neighbors < 1:
        raise ValueError(f"n_neighbors must be an integer of at least 1, got {n_neighbors!r}.")
    metric, X = metric_and_samples("audit_labels", model, X)
    Y = mapped_samples(metric, X)
    labels = np.asarray(y)
    if labels.shape != (len(Y),):
        raise ValueError(
            f"y must be one label per row of X, which has {len(Y)}; got shape {labels.shape}."
        )
    classes = Classes.from_labels("audit_labels", labels)
    samples = np.ascontiguousarray(Y[classes.rows])
    with one_blas_thread():  # the search has threads of its own
        _, near = classes.nearest(samples, n_neighbors, same=True)
        places, far = classes.nearest(samples, n_neighbors, same=False)
    is_alone = ~np.isfinite(near[:, 0])
    slack = relative_margins(_mean_finite(near), _mean_finite(far))
    slack[is_alone] = 0.0
    suspicion = FlipModel.from_margins(slack[~is_alone]).suspicion(slack)
    codes = np.where(slack > 0, 0, np.where(suspicion >= _SUSPICIOUS, 2, 1))
    votes = np.zeros((len(places), len(classes.size)), np.int64)
    who, which = np.nonzero(places >= 0)
    np.add.at(votes, (who, classes.of[places[who, which]]), 1)
    names = labels[classes.rows[classes.first]]
    frame = pandas.DataFrame(
        {
            "row": classes.rows,
            "label": labels[classes.rows],
            "other": names[votes.argmax(axis=1)],
            "slack": slack,
            "suspicion": suspicion,
            "category": pandas.Categorical.from_codes(codes, LABEL_CATEGORIES),
        }
    )
    return frame.sort_values("row", ignore_index=True)


def _mean_finite(sq_dists: FloatArray) -> FloatArray:
    """Return the mean of each row as far as there are neighbours; 0 without any."""
    known = np.isfinite(sq_dists)
    return np.where(known, sq_dists, 0.0).sum(axis=1) / np.maximum(1, known.sum(axis=1))

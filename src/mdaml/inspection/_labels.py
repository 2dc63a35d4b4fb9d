"""Which labels are probably wrong."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from mdaml._typing import ArrayLike, BoolArray, FloatArray, IntArray
from mdaml._validation import check_at_least, warn
from mdaml.constraints.labels import Classes, to_labels
from mdaml.inspection import _crossfit
from mdaml.inspection.models import mapped_samples, metric_and_samples, require_pandas
from mdaml.inspection.suspicion import FlipModel, relative_margins
from mdaml.kernels.products import one_blas_thread

if TYPE_CHECKING:
    from pandas import DataFrame

# How distances judge labelled rows, in the order of the classes: the slack, the class that is most
# frequent among the nearest of other classes, and whether no other row has the class.
_Judgement: TypeAlias = tuple[FloatArray, IntArray, BoolArray]
_SUSPICIOUS = 0.5
LABEL_CATEGORIES = ("kept", "violated", "suspected wrong")


def audit_labels(
    model: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_neighbors: int = 5,
    refit: bool | str = "auto",
    random_state: _crossfit.Seed = 0,
) -> "DataFrame":
    """Report which labels are probably wrong, by distances that these labels did not influence.

    A metric that learned from a wrong label has moved the row to where the label says, and then
    finds nothing wrong. So copies of the model are fitted without the labels of a third of the
    rows, and judge these; once more without the labels that were suspected the first time.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, a pipeline that ends in one, or a search over them.
    X : array-like of shape (n_samples, n_features)
        Samples; those of ``fit`` or others.
    y : array-like of shape (n_samples,)
        Their labels; ``-1`` marks unlabelled rows, which are left out.
    n_neighbors : int, default=5
        Nearest samples of the own label, and of others, that are compared.
    refit : bool or "auto", default="auto"
        Whether copies are fitted; six fits. "auto": if the model has learned from these labels, as
        far as its triplets or another fit tell. False judges by the model as it is.
    random_state : int, RandomState or None, default=0
        Seed of the thirds, and of copies whose own seed is None. Copies of a row stay together.

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
    vehicle, segment and balance the area under the ROC curve of suspicion was 0.97 to 1.00; of the
    suspected labels, 58 to 85 percent had been changed, and 88 to 100 percent of the changed ones
    were suspected. Samples between two classes are suspected too: look at them before you change
    their labels. On breast cancer with 9 percent of the labels changed, 177 of 204 were suspected;
    by the distances of the model itself 54.

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
    check_at_least("n_neighbors", n_neighbors, 1)
    if not isinstance(refit, bool) and refit != "auto":
        raise ValueError(f'refit must be True, False or "auto", got {refit!r}.')
    metric, seen = metric_and_samples("audit_labels", model, X)
    Y = mapped_samples(metric, seen)
    labels = to_labels(y)
    if labels.shape != (len(Y),):
        raise ValueError(
            f"y must be one label per row of X, which has {len(Y)}; got shape {labels.shape}."
        )
    classes = Classes.from_labels("audit_labels", labels)
    judge = partial(_judge, classes=classes, n_neighbors=n_neighbors)
    found = None
    learner = None if refit is False else _crossfit.learner_of(model, random_state)
    if refit is not False and learner is None:
        _warn_of_own_labels("it was made by fold_pipeline; pass the pipeline")
    elif refit is not False:
        codes = np.full(len(Y), _crossfit.UNLABELLED)
        codes[classes.rows] = classes.of
        inner, units = _crossfit.samples_of(metric, X), _crossfit.find_units(seen, Y)
        try:
            if refit is True or _crossfit.has_learned_from(metric, learner, inner, codes):
                fold = _crossfit.deal_rows(codes, units, check_random_state(random_state))
                found = _cross_fit(learner, inner, classes, fold, judge)
        except ValueError as error:  # too few labels of a class, or none, in a part
            _warn_of_own_labels(str(error).rstrip("."))
    slack, other, is_alone = judge(Y) if found is None else found
    suspicion = _suspicion(slack, is_alone)
    codes = np.where(slack > 0, 0, np.where(suspicion >= _SUSPICIOUS, 2, 1))
    frame = pandas.DataFrame(
        {
            "row": classes.rows,
            "label": labels[classes.rows],
            "other": labels[classes.rows[classes.first]][other],
            "slack": slack,
            "suspicion": suspicion,
            "category": pandas.Categorical.from_codes(codes, LABEL_CATEGORIES),
        }
    )
    return frame.sort_values("row", ignore_index=True)


def _suspicion(slack: FloatArray, is_alone: BoolArray) -> FloatArray:
    """Return the probability that each label is wrong."""
    return FlipModel.from_margins(slack[~is_alone]).suspicion(slack)


def _judge(Y: FloatArray, classes: Classes, n_neighbors: int) -> _Judgement:
    """Judge labels by the distances of mapped samples."""
    samples = np.ascontiguousarray(Y[classes.rows])
    with one_blas_thread():  # the search has threads of its own
        _, near = classes.nearest(samples, n_neighbors, same=True)
        places, far = classes.nearest(samples, n_neighbors, same=False)
    is_alone = ~np.isfinite(near[:, 0])
    slack = relative_margins(_mean_finite(near), _mean_finite(far))
    slack[is_alone] = 0.0
    votes = np.zeros((len(places), len(classes.size)), np.int64)
    who, which = np.nonzero(places >= 0)
    np.add.at(votes, (who, classes.of[places[who, which]]), 1)
    return slack, votes.argmax(axis=1), is_alone


def _cross_fit(
    learner: BaseEstimator,
    X: ArrayLike,
    classes: Classes,
    fold: IntArray,
    judge: Callable[[FloatArray], _Judgement],
) -> _Judgement:
    """Judge each label by a metric that did not learn from it."""
    codes = np.full(len(fold), _crossfit.UNLABELLED)
    codes[classes.rows] = classes.of
    left_out = np.zeros(len(codes), bool)
    for _ in range(2):
        slack = np.empty(len(classes.rows))
        other, is_alone = np.zeros(len(slack), np.int64), np.zeros(len(slack), bool)
        for held, Y in _crossfit.maps_without(learner, X, codes, fold, left_out):
            rows = held[classes.rows]
            for part, judged in zip((slack, other, is_alone), judge(Y), strict=True):
                part[rows] = judged[rows]
        left_out[classes.rows] = _suspected(slack, is_alone, classes)
    return slack, other, is_alone


def _suspected(slack: FloatArray, is_alone: BoolArray, classes: Classes) -> BoolArray:
    """Return which rows are suspected; none of a class that would lose more than half."""
    suspected = (slack <= 0) & (_suspicion(slack, is_alone) >= _SUSPICIOUS)
    share = np.bincount(classes.of, suspected, len(classes.size)) / classes.size
    return suspected & (share[classes.of] <= 0.5)


def _warn_of_own_labels(reason: str) -> None:
    warn(
        "audit_labels judges by the distances of the model, which the labels may have shaped, so "
        f"that wrong ones are missed: the model cannot be fitted again ({reason}). refit=False "
        "judges so without this warning."
    )


def _mean_finite(sq_dists: FloatArray) -> FloatArray:
    """Return the mean of each row as far as there are neighbours; 0 without any."""
    known = np.isfinite(sq_dists)
    return np.where(known, sq_dists, 0.0).sum(axis=1) / np.maximum(1, known.sum(axis=1))

"""Which labels are probably wrong."""

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from mdaml._typing import ArrayLike, BoolArray, FloatArray, IntArray
from mdaml._validation import warn
from mdaml.constraints.labels import Classes
from mdaml.constraints.names import to_array
from mdaml.inspection._crossfit import (
    UNLABELLED,
    deal,
    find_units,
    has_learned_from,
    learner_of,
    maps_without,
    samples_of,
)
from mdaml.inspection._model import mapped_samples, metric_and_samples, require_pandas
from mdaml.inspection._suspicion import FlipModel, relative_margins
from mdaml.kernels.products import one_blas_thread

if TYPE_CHECKING:
    from pandas import DataFrame

_SUSPICIOUS = 0.5
LABEL_CATEGORIES = ("kept", "violated", "suspected wrong")


def audit_labels(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_neighbors: int = 5,
    refit: bool | str = "auto",
    random_state: Any = 0,
) -> "DataFrame":
    """Report which labels are probably wrong, by distances that the label of a row did not shape.

    A metric that learned from a wrong label has moved the row to where the label says, and then
    finds nothing wrong. So copies of the model are fitted without the labels of a third of the
    rows, and judge these; once more without the labels that were suspected the first time.

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
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, Integral) or n_neighbors < 1:
        raise ValueError(f"n_neighbors must be an integer of at least 1, got {n_neighbors!r}.")
    if not isinstance(refit, bool) and refit != "auto":
        raise ValueError(f'refit must be True, False or "auto", got {refit!r}.')
    metric, seen = metric_and_samples("audit_labels", model, X)
    Y = mapped_samples(metric, seen)
    labels = to_array(y)
    if labels.shape != (len(Y),):
        raise ValueError(
            f"y must be one label per row of X, which has {len(Y)}; got shape {labels.shape}."
        )
    classes = Classes.from_labels("audit_labels", labels)
    found = None
    if refit is not False:
        units = find_units(seen, Y)
        found = _cross_fit(
            model, metric, X, _Task(classes, units, n_neighbors, refit, random_state)
        )
    found = _measure(Y, classes, n_neighbors) if found is None else found
    suspicion = found.suspicion
    codes = np.where(found.slack > 0, 0, np.where(suspicion >= _SUSPICIOUS, 2, 1))
    frame = pandas.DataFrame(
        {
            "row": classes.rows,
            "label": labels[classes.rows],
            "other": labels[classes.rows[classes.first]][found.other],
            "slack": found.slack,
            "suspicion": suspicion,
            "category": pandas.Categorical.from_codes(codes, LABEL_CATEGORIES),
        }
    )
    return frame.sort_values("row", ignore_index=True)


class _Task(NamedTuple):
    """Labels to judge, and how."""

    classes: Classes
    units: IntArray  # (n_samples,) rows that are the same
    n_neighbors: int
    refit: bool | str
    random_state: Any


@dataclass(frozen=True)
class _Judged:
    """How distances judge labelled rows, in the order of the classes."""

    slack: FloatArray
    other: IntArray  # the class most frequent among the nearest of other classes
    is_alone: BoolArray  # without another row of the class

    @property
    def suspicion(self) -> FloatArray:
        """The probability that each label is wrong."""
        return FlipModel.from_margins(self.slack[~self.is_alone]).suspicion(self.slack)


def _measure(Y: FloatArray, classes: Classes, n_neighbors: int) -> _Judged:
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
    return _Judged(slack, votes.argmax(axis=1), is_alone)


def _cross_fit(model: Any, metric: Any, X: ArrayLike, task: _Task) -> _Judged | None:
    """Judge each label by a metric that did not learn from it; None if the model is to judge."""
    classes = task.classes
    codes = np.full(len(task.units), UNLABELLED)
    codes[classes.rows] = classes.of
    learner = learner_of(model, task.random_state)
    if learner is None:
        _warn_of_own_labels("it was made by fold_pipeline; pass the pipeline")
        return None
    inner = samples_of(metric, X)
    left_out = np.zeros(len(codes), bool)
    try:
        if task.refit == "auto" and not has_learned_from(metric, learner, inner, codes):
            return None
        fold = deal(codes, task.units, check_random_state(task.random_state))
        for _ in range(2):
            parts = [
                (held[classes.rows], _measure(Y, classes, task.n_neighbors))
                for held, Y in maps_without(learner, inner, codes, fold, left_out)
            ]
            judged = _join(parts)
            left_out[classes.rows] = _suspected(judged, classes)
    except ValueError as error:  # too few labels of a class, or none, in a part
        _warn_of_own_labels(str(error).rstrip("."))
        return None
    return judged


def _join(parts: list[tuple[BoolArray, _Judged]]) -> _Judged:
    """Return the judgement of each row by the part that it belongs to."""
    belongs = np.array([rows for rows, _ in parts]).argmax(axis=0)
    every = np.arange(len(belongs))
    slack, other, is_alone = (
        np.array([getattr(judged, name) for _, judged in parts])[belongs, every]
        for name in ("slack", "other", "is_alone")
    )
    return _Judged(slack, other, is_alone)


def _suspected(judged: _Judged, classes: Classes) -> BoolArray:
    """Return which rows are suspected; none of a class that would lose more than half."""
    suspected = (judged.slack <= 0) & (judged.suspicion >= _SUSPICIOUS)
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

"""How LocalMDaML learns chunk by chunk: its modes stay, and the metric on them is refined.

A model without places tries them again as comparisons come in, on the sample of all of them that
MDaML keeps; see chunks.py.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdaml._typing import ArrayLike, FloatArray
from mdaml._validation import warn
from mdaml.basis import Basis, mean_sq_dist
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.labels import Classes
from mdaml.estimators.chunks import Past, begin_sample, due_at, past_of
from mdaml.estimators.local_handover import basis_of
from mdaml.estimators.local_learning import RENAMED, compare_classes, try_places
from mdaml.estimators.local_rounds import (
    Learned,
    inner_metric,
    make_metric,
    second_anchor,
)
from mdaml.estimators.posing import is_auto
from mdaml.holdout.places import FEWEST_POINTS

# Of the metric on the basis, these are its own.
_OWN = ("centers_", "feature_names_in_", "input_map_")
_OF_A_CHUNK = ("n_samples_seen_", "n_comparisons_seen_", "triplets_", "comparisons_")


@dataclass(frozen=True)
class LocalStream:
    """What is kept of earlier chunks, beside the model."""

    of_metric: Past  # what MDaML keeps, on conditioned columns
    conditioner: FloatArray | None  # of these columns
    n_tried: int  # comparisons seen when places were last tried


def begin_stream(
    X: FloatArray, learned: Learned, supervision: Supervision, y: ArrayLike | None
) -> LocalStream:
    """Return what is kept of a first chunk; warn if its modes, which stay, are of few rows."""
    metric, T = learned.metric, learned.conditioner
    if len(X) < FEWEST_POINTS and not learned.basis.is_identity:
        warn(
            f"partial_fit keeps the modes of its first chunk, which has only {len(X)} rows. Begin "
            f'with {FEWEST_POINTS} or more, or leave n_places and n_maps at "auto".'
        )
    columns = X if T is None else learned.basis.transform(X, T)
    begin_sample(metric, columns, supervision, y)
    return LocalStream(metric._stream, T, metric.n_comparisons_seen_)


def learn_more(
    model: Any, X: FloatArray, supervision: Supervision, y: Any
) -> tuple[Learned, LocalStream]:
    """Refine what a model has learned by a chunk; modes stay, and are found where there are none.

    Returns what is learned, and what is kept for the next chunk.
    """
    kept = getattr(model, "_stream", None)
    learned = _refine(model, X, supervision, y, kept)
    metric = learned.metric
    n_lost, n_seen = metric._stream.n_lost, metric.n_comparisons_seen_
    n_tried = n_lost if kept is None else kept.n_tried
    untried = (
        is_auto(model.n_places)
        and model.goal != "neighbors"
        and not isinstance(supervision, Classes)
    )
    if learned.basis.is_identity and untried and n_seen >= due_at(n_seen, n_tried, n_lost):
        learned, n_tried = _try_again(model, learned), n_seen
    return learned, LocalStream(learned.metric._stream, learned.conditioner, n_tried)


def _try_again(model: Any, linear: Learned) -> Learned:
    """Return places learned from the sample of all chunks, if they lead; else the linear map."""
    reservoir = linear.metric._stream.reservoir
    rows, supervision = reservoir.rows, reservoir.constraints()
    choice = try_places(model, rows, supervision, 0)
    if choice.anchor is None:
        return replace(linear, tried=choice.tried)
    learned = choice.rounds.learn(rows, supervision, None, choice.anchor)
    metric, past = learned.metric, past_of(learned.metric)
    for name in (*_OF_A_CHUNK, "comparison_weights_"):
        setattr(metric, name, getattr(linear.metric, name))
    columns = learned.basis.transform(rows, learned.conditioner)
    metric._stream = replace(past, reservoir=replace(reservoir, rows=columns), n_lost=0)
    return replace(learned, tried=choice.tried, gain=choice.gain)


def _refine(
    model: Any, X: FloatArray, supervision: Supervision, y: Any, kept: LocalStream | None
) -> Learned:
    """Refine the metric on the basis of a model, which stays."""
    basis, names = basis_of(model), {new: old for old, new in RENAMED.items()}
    linear = basis.is_identity
    if isinstance(supervision, Classes) and not linear:
        supervision = compare_classes(supervision, len(X))
    T, L, n_features, columns = None, model.components_, 0, X
    if not linear:
        # That of the first chunk: what is kept of earlier ones is in its columns.
        T = None if kept is None else kept.conditioner
        T = basis.conditioner(X.shape[1], mean_sq_dist(X)) if T is None else T
        columns = basis.transform(X, T)
        if basis.places is not None and model.n_components is None:
            n_features = X.shape[1]
        own = L[: len(L) - n_features].T.astype(np.float64)
        L = np.linalg.lstsq(T.T.astype(np.float64), own, rcond=None)[0].T
    metric = inner_metric(model)
    if not linear:
        metric = make_metric(model, columns, second_anchor(model.anchor_))
        if kept is not None:  # in proportion to the columns of the first chunk, not of this one
            metric.anchor = kept.of_metric.choice.anchor
    for name, value in vars(model).items():
        if name.endswith("_") and name not in _OWN:
            setattr(metric, names.get(name, name), value)
    metric.components_, metric.n_features_in_ = L.astype(model.components_.dtype), columns.shape[1]
    if not linear:
        metric.anchor_ = metric.anchor
    if kept is not None:
        metric._stream = kept.of_metric
    passed = {"y": y} if isinstance(supervision, Classes) else {"constraints": supervision}
    metric.partial_fit(columns, **passed)
    anchor, gain = (metric.anchor_, metric.gain_) if linear else (model.anchor_, model.gain_)
    learned = Learned(basis, metric, T, 0.0, anchor, tuple(model.tried_), gain)
    if not n_features:
        return learned
    return replace(learned, features=_factor_of_features(model.components_, basis, learned))


def _factor_of_features(before: FloatArray, basis: Basis, learned: Learned) -> float:
    """Return the factor of the features that keeps their share beside places that have moved."""
    assert basis.places is not None
    columns, after = basis.transform(basis.places.centers), learned.components()
    old = mean_sq_dist(columns @ before[: len(after)].T)
    new = mean_sq_dist(columns @ after.T)
    n_features = len(before) - len(after)  # which come last, each times the factor
    return float(before[-1, n_features - 1]) * float(np.sqrt(new / old))

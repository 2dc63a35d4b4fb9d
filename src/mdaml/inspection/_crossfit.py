"""Distances that the label of a row did not influence, from metrics learned without it."""

import warnings
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from mdaml._typing import ArrayLike, BoolArray, FloatArray, IntArray, Rng
from mdaml.estimators.base import MahalanobisTransformer
from mdaml.estimators.pipelines import FoldedMetric
from mdaml.holdout.split import deal
from mdaml.holdout.units import COPY, same_rows
from mdaml.inspection.models import has_places, mapped_samples, metric_and_samples

Seed: TypeAlias = int | Rng | None
N_FOLDS = 3  # metrics that were learned without a third of the labels; more share more wrong ones
UNLABELLED = -1
_FOLLOWED = 0.9  # share of a model's triplets that follow the labels, if it learned from them
_SAME = 1e-3  # two fits to the same labels differ by less
_QUIET = {"callback": None, "verbose": 0, "warm_start": False}


def learner_of(model: BaseEstimator, random_state: Seed) -> BaseEstimator | None:
    """Return an unfitted copy of what learned the metric, or None if it cannot learn again.

    Of a search this is the estimator that it chose.
    """
    if not isinstance(model, Pipeline | MahalanobisTransformer):
        model = getattr(model, "best_estimator_", model)
    learner = clone(model)
    metric = learner[-1] if isinstance(learner, Pipeline) else learner
    if isinstance(metric, FoldedMetric):
        return None
    metric.set_params(**{k: v for k, v in _QUIET.items() if k in metric.get_params(deep=False)})
    unseeded = [
        name
        for name, value in learner.get_params().items()
        if name.endswith("random_state") and value is None
    ]
    return learner.set_params(**dict.fromkeys(unseeded, random_state))


def samples_of(metric: BaseEstimator, X: ArrayLike) -> ArrayLike:
    """Return samples as the metric was fitted to them, before steps were folded into it."""
    scale, X = getattr(metric, "input_map_", None), metric.prepare(X)
    if scale is None:
        return X
    inner: FloatArray = check_array(X, dtype=np.float64)
    inner = inner - inner.mean(axis=0)
    return inner * scale if scale.ndim == 1 else inner @ scale.T


def has_learned_from(
    metric: BaseEstimator, learner: BaseEstimator, X: ArrayLike, codes: IntArray
) -> bool:
    """Say whether a metric was learned from these labels of these rows.

    The triplets that a model keeps tell; otherwise a fit to the labels does, which gives the metric
    back if it was.
    """
    triplets, weights = getattr(metric, "triplets_", None), getattr(metric, "weights_", None)
    if triplets is not None and weights is not None:
        if len(weights) != len(codes):
            return False
        a, b, c = codes[triplets].T
        known = (a != UNLABELLED) & (b != UNLABELLED) & (c != UNLABELLED)
        return not known.any() or bool(np.mean((a == b)[known] & (a != c)[known]) >= _FOLLOWED)
    again, _ = metric_and_samples("audit_labels", _fit(clone(learner), X, codes), X)
    L = again.components_.astype(np.float64)
    scale, X = getattr(metric, "input_map_", None), metric.prepare(X)
    if scale is not None and not has_places(metric):
        L = L * scale if scale.ndim == 1 else L @ scale
    if L.shape[1] != metric.components_.shape[1]:
        return False
    now, before = L.T @ L, metric.components_.T @ metric.components_
    return bool(np.abs(now - before).max() <= _SAME * np.abs(now).max())


def deal_rows(codes: IntArray, units: IntArray, rng: Rng) -> IntArray:
    """Return the fold of each row: rows of a unit in one, each class in all of them alike."""
    first, unit_of = np.unique(units, return_inverse=True)
    rank = np.argsort(rng.permutation(len(first)))
    return deal(N_FOLDS, rank, codes[first])[unit_of]


def find_units(X: ArrayLike, mapped: FloatArray) -> IntArray:
    """Return for each row the first that is the same; of sparse samples by their images."""
    dense = mapped if issparse(X) else check_array(X, dtype=[np.float64, np.float32])
    return same_rows(dense, COPY)


def maps_without(
    learner: BaseEstimator, X: ArrayLike, codes: IntArray, fold: IntArray, left_out: BoolArray
) -> Iterator[tuple[BoolArray, FloatArray]]:
    """Yield the rows of each fold, and all samples under a metric learned without their labels.

    Labels of rows that are left out are not learned from either.
    """
    for number in range(N_FOLDS):
        held = fold == number
        given = np.where(held | left_out, UNLABELLED, codes)
        fitted = _fit(clone(learner), X, given)
        metric, seen = metric_and_samples("audit_labels", fitted, X)
        yield held, mapped_samples(metric, seen)


def _fit(learner: BaseEstimator, X: ArrayLike, codes: IntArray) -> BaseEstimator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all rows has shown them
        return learner.fit(X, codes)

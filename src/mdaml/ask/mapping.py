"""The map of the owner's page: items in the learned space, and the answers that fail there."""

import numpy as np
from scipy.linalg import orthogonal_procrustes

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.ask.questions import Row
from mdaml.constraints import Constraints
from mdaml.estimators.base import MahalanobisTransformer as Metric
from mdaml.kernels.pairs import pair_sq_dists

_MOST_MAPPED = 200


def describe_map(
    model: Metric, euclidean: Metric, X: FloatArray, answers: Constraints | None
) -> Row:
    """Return places of items on a plane, with the answers about each and those that fail.

    ``map`` has the row of each item, two coordinates from -1 to 1, the number of answers about it
    that fail, and the number of answers about it; ``fails`` has both numbers for all answers. Of
    many items, those are shown whose answers fail most, then others that were asked about. The
    plane is turned towards that of Euclidean distance, so that items stay where they were while
    the metric changes a little.
    """
    fails, (question, item) = find_failures(model, X, answers)
    n_answers = np.bincount(item, minlength=len(X))
    n_fails = np.bincount(item[fails[question]], minlength=len(X))
    shown = list_mapped(n_fails, n_answers)
    flat, plain = (_flatten(metric.transform(X[shown])) for metric in (model, euclidean))
    flat = flat @ orthogonal_procrustes(flat, plain)[0]
    places = _move_apart(flat / (np.abs(flat).max(axis=0) + 1e-12))
    mapped = [
        [int(row), *place, int(n_fails[row]), int(n_answers[row])]
        for row, place in zip(shown, places.round(4).tolist(), strict=True)
    ]
    return {"map": mapped, "fails": [int(fails.sum()), len(fails)]}


def find_failures(
    model: Metric, X: FloatArray, answers: Constraints | None
) -> tuple[BoolArray, IntArray]:
    """Return whether each answer fails under a metric, and pairs of an answer and an item.

    An answer may be several comparisons: it fails if half of them or more do not hold. Pairs
    called the same or different cannot fail one by one.
    """
    T = np.empty((0, 3), int) if answers is None else answers.triplets
    if answers is None or not len(T):
        return np.zeros(0, bool), np.empty((2, 0), int)
    Y = model.transform(X)
    broken = pair_sq_dists(Y, T[:, [0, 1]]) >= pair_sq_dists(Y, T[:, [0, 2]])
    _, question = np.unique(answers.columns["question"][: len(T)], return_inverse=True)
    share = np.bincount(question, broken) / np.bincount(question)
    pairs = np.unique(np.stack([np.repeat(question, 3), T.ravel()]), axis=1)
    return share >= 0.5, pairs


def list_mapped(n_fails: IntArray, n_answers: IntArray) -> IntArray:
    """Return the rows of items to show: failures first, then answers, then by chance."""
    chance = np.random.default_rng(0).permutation(len(n_fails))
    order = np.lexsort((chance, n_answers == 0, -n_fails))
    return np.sort(order[:_MOST_MAPPED])


def _flatten(Y: FloatArray) -> FloatArray:
    """Return the plane of the two longest axes."""
    Y = Y - Y.mean(axis=0)
    _, _, axes = np.linalg.svd(Y, full_matrices=False)
    flat = Y @ axes[:2].T
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))


def _move_apart(places: FloatArray) -> FloatArray:
    """Move items that would hide each other on the map a little, within the square."""
    gap = 1.6 / np.sqrt(len(places))
    rng = np.random.default_rng(0)
    places = places + 1e-6 * rng.normal(size=places.shape)  # moves items in one place apart
    for _ in range(40):
        away = places[:, None] - places  # (n, n, 2)
        dist = np.sqrt(np.sum(away**2, axis=2)) + np.eye(len(places))
        push = np.where(dist < gap, (gap - dist) / dist, 0.0)
        np.fill_diagonal(push, 0.0)
        places = np.clip(places + 0.25 * np.sum(push[:, :, None] * away, axis=1), -1.0, 1.0)
    return places

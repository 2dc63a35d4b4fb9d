"""How many components to keep, by the accuracy of nearest neighbours on held-out samples.

The rows of L are in order of importance and do not depend on how many are kept, so one fit for each
split serves every number of components.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray, Rng
from mdaml._validation import check_integer
from mdaml.constraints.labels import Classes
from mdaml.holdout.split import deal
from mdaml.kernels.products import rows_times

Rank: TypeAlias = int | Literal["auto"] | None
# Square L for centred samples in the order of the places of their classes.
Learn: TypeAlias = Callable[[FloatArray, Classes], FloatArray]

_N_VOTERS = 5
_HELD_OUT = 0.3
_N_FOLDS = 5
_TO_LEARN_FROM = 2  # members that every class keeps, if it has them: one has no partner


def check_rank(owner: object, value: object, n_features: int) -> None:
    """Refuse a parameter ``n_components`` that is no number of features, None or 'auto'."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return
    what = " (the features of X), None or 'auto'"
    check_integer(owner, "n_components", value, 1, n_features, what=what)


def best_rank(X: FloatArray, classes: Classes, learn: Learn, parts: list[BoolArray]) -> int:
    """Return the number of components with the most correct votes, the largest among equals.

    Each of ``parts`` is a mask of places to hold out; the others are learned from and vote. X holds
    the samples in the order of the places. Without parts all components are kept.
    """
    from mdaml.kernels.voting import nested_votes  # few fits choose a rank

    correct: IntArray = np.zeros(X.shape[1], np.int64)
    for held_out in parts:
        kept = classes_without(classes, held_out)
        samples = X[~held_out]
        mean = samples.mean(axis=0)
        L = learn(samples - mean, kept)
        # Ties of distances go to the lower row of the data as given.
        order = np.argsort(kept.rows)
        correct += nested_votes(
            rows_times(X[held_out] - mean, L.T),
            classes.of[held_out],
            rows_times(samples[order] - mean, L.T),
            kept.of[order],
            len(classes.size),
            _N_VOTERS,
        )
    return len(correct) - int(np.argmax(correct[::-1]))


def holdout(classes: Classes, rng: Rng) -> list[BoolArray]:
    """Return one part of 30 % of each class, but two members stay; none, if it would be empty."""
    size = classes.size
    n_out = np.minimum(np.rint(_HELD_OUT * size), np.maximum(size - _TO_LEARN_FROM, 0))
    rank = np.argsort(rng.permutation(len(classes.of)))
    order = np.lexsort((rank, classes.of))  # class by class, each in random order
    part = np.zeros(len(order), np.bool_)
    part[order] = np.arange(len(order)) - classes.first[classes.of] < n_out[classes.of]
    return [part] if part.any() else []


def folds(classes: Classes, rng: Rng) -> list[BoolArray]:
    """Return five disjoint parts with equal shares of each class; fewer, if all classes are small.

    Classes of one or two are never held out: two members of each class stay in every case.
    """
    n_folds = min(_N_FOLDS, int(classes.size.max()))
    rank = np.argsort(rng.permutation(len(classes.of)))
    dealt = classes.size[classes.of] > _TO_LEARN_FROM
    fold = np.full(len(classes.of), -1)
    fold[dealt] = deal(n_folds, rank[dealt], classes.of[dealt])
    return [fold == number for number in range(n_folds)] if dealt.any() else []


def classes_without(classes: Classes, held_out: BoolArray) -> Classes:
    """Return the classes without some places; every class must keep a member."""
    of = classes.of[~held_out]
    size = np.bincount(of)
    return Classes(classes.rows[~held_out], of, np.cumsum(size) - size, size, classes.search)

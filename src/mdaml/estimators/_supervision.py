"""What may be passed to ``fit``: labels, triplets or pairs, read and checked before any work."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array, check_X_y

from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_pairs, check_triplets
from mdaml.constraints import Classes, PairSet, pairs_of_triplets
from mdaml.scatter import PairScatter, class_scatters, pair_scatter

_FORMS = {
    "y": "labels, fit(X, y)",
    "triplets": "triplets, fit(X, triplets=T)",
    "pairs": "pairs, fit(X, pairs=P, pair_labels=s)",
}
_WHO_TAKES = (
    "MDaML takes labels or triplets; GMML, KISSME, DMLeig and Euclidean take labels, pairs or "
    "triplets; LMNN, DMLMJ, LFDA and DMLdc take labels."
)


@dataclass(frozen=True)
class Supervision:
    """Labels (with their classes), triplets or pairs; the others are None."""

    labels: npt.NDArray[Any] | None = None
    classes: Classes | None = None
    triplets: IntArray | None = None
    pairs: tuple[IntArray, IntArray] | None = None  # similar, dissimilar

    def pair_sets(self, n_samples: int) -> tuple[PairSet, PairSet]:
        """Return similar and dissimilar pairs of pairs or triplets, counted; not of labels."""
        if self.triplets is not None:
            return pairs_of_triplets(self.triplets, n_samples)
        assert self.pairs is not None
        similar, dissimilar = self.pairs
        return PairSet.from_pairs(similar, n_samples), PairSet.from_pairs(dissimilar, n_samples)


def scatters(X: FloatArray, given: Supervision) -> tuple[PairScatter, PairScatter]:
    """Return the scatters of similar and dissimilar pairs; with labels, of all pairs there are."""
    if given.classes is not None:
        return class_scatters(X[given.classes.rows], given.classes)
    similar, dissimilar = given.pair_sets(len(X))
    return pair_scatter(X, similar), pair_scatter(X, dissimilar)


def check_both_kinds(estimator: object, n_similar: float, n_dissimilar: float, advice: str) -> None:
    """Refuse pairs that are all similar or all dissimilar."""
    for count, kind in ((n_similar, "similar"), (n_dissimilar, "dissimilar")):
        if count == 0:
            raise ValueError(
                f"{type(estimator).__name__} needs similar and dissimilar pairs, got no {kind} "
                f"pair. {advice}"
            )


def check_supervision(
    estimator: object, takes: Sequence[str], X: Any, y: Any, **weak: Any
) -> tuple[FloatArray, Supervision]:
    """Return samples and the one form of supervision that was passed and that the method takes.

    Parameters
    ----------
    estimator : object
        Named in messages.
    takes : sequence of {"y", "triplets", "pairs"}
        What the method can learn from.
    X, y : array-like
        As passed to fit.
    **weak
        All other arguments of fit: triplets, pairs, pair_labels, or what the method has not got.
    """
    name = type(estimator).__name__
    passed = [form for form in weak if weak[form] is not None]
    unknown = [form for form in passed if form not in (*_FORMS, "pair_labels")]
    if unknown:
        raise TypeError(f"{name}.fit got an unexpected argument {unknown[0]!r}.")
    forms = [form for form in (*passed, *(["y"] if y is not None else [])) if form in _FORMS]
    learns = f"{name} learns from {' or '.join(_FORMS[form] for form in takes)}"
    for form in [*forms, *("pairs" for form in passed if form == "pair_labels")]:
        if form not in takes:
            raise TypeError(f"{learns}; got {form}=. {_WHO_TAKES}")
    if len(forms) > 1:
        raise ValueError(f"Pass either {' or '.join(sorted(forms, reverse=True))}, not both.")
    if not forms:
        extra = "" if len(takes) == 1 else f" {learns}."
        raise ValueError(f"{name} requires y to be passed, but the target y is None.{extra}")
    if "pair_labels" in passed and forms != ["pairs"]:
        raise ValueError("pair_labels belong to pairs: pass pairs= too, or leave them out.")
    if getattr(y, "shape", ())[1:] in [(2,), (3,)]:
        raise ValueError(
            f"y must be one label per row, got shape {y.shape}. If these are comparisons, "
            "pass them by name: fit(X, triplets=...) or fit(X, pairs=..., pair_labels=...)."
        )
    samples, labels = _check_arrays(estimator, X, y)
    if forms == ["y"]:
        return samples, Supervision(labels=labels, classes=Classes.from_labels(name, labels))
    if forms == ["triplets"]:
        return samples, Supervision(triplets=check_triplets(weak["triplets"], len(samples)))
    pairs = check_pairs(weak["pairs"], weak.get("pair_labels"), len(samples))
    return samples, Supervision(pairs=pairs)


def _check_arrays(estimator: object, X: Any, y: Any) -> tuple[FloatArray, Any]:
    options = {"dtype": [np.float64, np.float32], "ensure_min_samples": 2, "estimator": estimator}
    try:
        if y is None:
            return check_array(X, input_name="X", **options), None
        return check_X_y(X, y, **options)
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        raise ValueError(
            f"X must hold numbers only: {error}. Encode words as numbers first, for instance "
            "by OneHotEncoder."
        ) from error

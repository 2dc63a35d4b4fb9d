"""What may be passed to ``fit``: labels or comparisons, read and checked before any work."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array, check_X_y

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml._validation import (
    check_constraint_weight,
    check_pairs,
    check_quadruplets,
    check_triplets,
)
from mdaml.constraints import Classes, Comparisons, ComparisonSet, PairSet, TripletSet, match_pairs
from mdaml.device import DeviceComparisons
from mdaml.kernels import CentredRows
from mdaml.scatter import PairScatter, class_scatters, pair_scatter

_FORMS = {
    "y": "labels, fit(X, y)",
    "triplets": "triplets, fit(X, triplets=T)",
    "pairs": "pairs, fit(X, pairs=P, pair_labels=s)",
    "quadruplets": "quadruplets, fit(X, quadruplets=Q)",
}
EVERY_FORM = tuple(_FORMS)
# What goes with the forms or stands for them, and the form a method must take to take it.
_COMPANIONS = {
    "pair_labels": "pairs",
    "constraints": "quadruplets",
    "constraint_weight": "quadruplets",
}
_WHO_TAKES = (
    "MDaML, GMML, KISSME, DMLeig and Euclidean take labels, or any of triplets, pairs and "
    "quadruplets; MDaMLCV takes labels or triplets; LMNN, DMLMJ, LFDA and DMLdc take labels."
)


@dataclass(frozen=True)
class InForce:
    """The comparisons that a fit obeys."""

    triplets: IntArray  # (n, 3)
    comparisons: IntArray | None = None  # (n, 4) if there are others than triplets of equal weight
    weights: FloatArray | None = None  # (n,) of the comparisons

    def __len__(self) -> int:
        """How many they are."""
        return len(self.triplets if self.comparisons is None else self.comparisons)

    def grouped(self, X: Any) -> Comparisons:
        """Return them as the solver takes them, where the samples are."""
        on_host = kernels.on_host(X)
        dtype = X.dtype if isinstance(X, CentredRows) else np.float64
        if self.comparisons is None:
            if on_host:
                return TripletSet.from_triplets(self.triplets, len(X), dtype)
            return DeviceComparisons.from_triplets(X, self.triplets)
        if on_host:
            return ComparisonSet.from_comparisons(self.comparisons, self.weights, len(X), dtype)
        return DeviceComparisons.from_comparisons(X, self.comparisons, self.weights)


@dataclass(frozen=True)
class Weak:
    """Comparisons of any forms, empty arrays for those that were not passed."""

    triplets: IntArray  # (n, 3)
    pairs: IntArray  # (n, 2)
    similar: npt.NDArray[np.bool_]  # (n,) of the pairs
    quadruplets: IntArray  # (n, 4)
    weights: FloatArray  # of triplets, pairs, quadruplets

    @property
    def has_triplets_only(self) -> bool:
        """Whether these are triplets of equal weight and nothing else."""
        alike = bool(np.all(self.weights == self.weights[0]))
        return alike and len(self.weights) == len(self.triplets)

    def split_weights(self) -> list[FloatArray]:
        """Return the weights of triplets, of pairs and of quadruplets."""
        ends = np.cumsum([len(self.triplets), len(self.pairs)])
        return np.split(self.weights, ends)

    def pair_sets(self, n_samples: int) -> tuple[PairSet, PairSet]:
        """Return similar and dissimilar pairs, those of triplets and quadruplets among them.

        Weights are scaled to one on average, those of either kind by themselves.
        """
        of_triplets, of_pairs, of_quadruplets = self.split_weights()
        sets = []
        for last, kind, pair in ((1, self.similar, [0, 1]), (2, ~self.similar, [2, 3])):
            rows = [self.triplets[:, [0, last]], self.pairs[kind], self.quadruplets[:, pair]]
            weights = np.concatenate([of_triplets, of_pairs[kind], of_quadruplets])
            weights = weights * (len(weights) / max(weights.sum(), 1e-100))
            sets.append(PairSet.from_pairs(np.concatenate(rows), n_samples, weights))
        return sets[0], sets[1]

    def comparisons(self, estimator: object, n_samples: int, rng: np.random.RandomState) -> InForce:
        """Return them as comparisons of two pairs, where triplets of equal weight are not all."""
        if self.has_triplets_only:
            return InForce(self.triplets)
        of_triplets, of_pairs, of_quadruplets = self.split_weights()
        matched, of_matched = self._match(estimator, of_pairs, n_samples, rng)
        parts = [self.triplets[:, [0, 1, 0, 2]], matched, self.quadruplets]
        weights = [of_triplets, of_matched, of_quadruplets]
        return InForce(self.triplets, np.concatenate(parts), np.concatenate(weights))

    def _match(
        self, estimator: object, weights: FloatArray, n_samples: int, rng: np.random.RandomState
    ) -> tuple[IntArray, FloatArray]:
        """Return the pairs as comparisons of similar with dissimilar ones, and their weights."""
        n_similar = int(self.similar.sum())
        n_dissimilar = len(self.pairs) - n_similar
        if n_similar and n_dissimilar:
            kinds = (self.similar, ~self.similar)
            sets = [PairSet.from_pairs(self.pairs[k], n_samples, weights[k]) for k in kinds]
            comparisons, weights = match_pairs(sets[0], sets[1], n_samples, rng)
            if len(comparisons) or len(self.triplets) or len(self.quadruplets):
                return comparisons, weights
            raise ValueError(
                "The only similar pair and the only dissimilar pair are the same: nothing can be "
                "compared. Add pairs, or remove the wrong one."
            )
        if len(self.triplets) + len(self.quadruplets) == 0:
            advice = "Add some, or pass triplets or quadruplets as well."
            check_both_kinds(estimator, n_similar, n_dissimilar, advice)
        if len(self.pairs):
            kinds_of = ("similar", "dissimilar") if n_similar else ("dissimilar", "similar")
            warnings.warn(
                f"All {len(self.pairs)} pairs are {kinds_of[0]}: without {kinds_of[1]} ones to "
                "compare them with they are left out.",
                UserWarning,
                stacklevel=4,
            )
        return np.empty((0, 4), np.int64), np.empty(0)


@dataclass(frozen=True)
class Supervision:
    """Labels with their classes, or comparisons; the others are None."""

    labels: npt.NDArray[Any] | None = None
    classes: Classes | None = None
    weak: Weak | None = None

    @property
    def triplets(self) -> IntArray | None:
        """The triplets passed; None for labels."""
        return None if self.weak is None else self.weak.triplets

    def pair_sets(self, n_samples: int) -> tuple[PairSet, PairSet]:
        """Return similar and dissimilar pairs of the comparisons, counted; not of labels."""
        assert self.weak is not None
        return self.weak.pair_sets(n_samples)


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
    """Return samples and the supervision that was passed, if the method takes it.

    Parameters
    ----------
    estimator : object
        Named in messages.
    takes : sequence of {"y", "triplets", "pairs", "quadruplets"}
        What the method can learn from: labels alone, or any mixture of the others.
    X, y : array-like
        As passed to fit.
    **weak
        All other arguments of fit: triplets, pairs, pair_labels, quadruplets, constraints,
        constraint_weight, or what the method has not got.
    """
    name = type(estimator).__name__
    weak = {form: value for form, value in weak.items() if value is not None}
    _check_forms(name, takes, y, weak)
    samples, labels = _check_arrays(estimator, X, y)
    if labels is not None:
        return samples, Supervision(labels=labels, classes=Classes.from_labels(name, labels))
    if "constraints" in weak:
        weak = _arrays_of(weak["constraints"], len(samples))
    return samples, Supervision(weak=_check_weak(len(samples), **weak))


def _check_forms(name: str, takes: Sequence[str], y: Any, weak: dict[str, Any]) -> None:
    """Refuse what the method does not take, and what does not go together."""
    for form in weak:
        if form not in _FORMS and form not in _COMPANIONS:
            raise TypeError(f"{name}.fit got an unexpected argument {form!r}.")
    learns = f"{name} learns from {' or '.join(_FORMS[form] for form in takes)}"
    for form in weak:
        if _COMPANIONS.get(form, form) not in takes:
            raise TypeError(f"{learns}; got {form}=. {_WHO_TAKES}")
    forms = [form for form in weak if form in _FORMS or form == "constraints"]
    if y is not None and forms:
        raise ValueError(f"Pass either y or {forms[0]}, not both.")
    if y is None and not forms:
        extra = "" if len(takes) == 1 else f" {learns}."
        raise ValueError(f"{name} requires y to be passed, but the target y is None.{extra}")
    if "constraints" in weak and len(weak) > 1:
        other = next(form for form in weak if form != "constraints")
        raise ValueError(
            f"Pass either constraints or {other}, not both: constraints hold arrays and weights."
        )
    if "pair_labels" in weak and "pairs" not in weak:
        raise ValueError("pair_labels belong to pairs: pass pairs= too, or leave them out.")
    if "constraint_weight" in weak and y is not None:
        raise ValueError(
            "constraint_weight belongs to triplets, pairs and quadruplets; labels have no weights."
        )
    if _is_constraints(y):
        raise ValueError("y must be one label per row. Pass constraints by name: constraints=...")
    if getattr(y, "shape", ())[1:] in [(2,), (3,), (4,)]:
        raise ValueError(
            f"y must be one label per row, got shape {y.shape}. If these are comparisons, pass "
            "them by name: fit(X, triplets=...), fit(X, pairs=..., pair_labels=...) or "
            "fit(X, quadruplets=...)."
        )


_PARTS = ("triplets", "pairs", "pair_labels", "quadruplets", "weights", "n_points")


def _is_constraints(value: Any) -> bool:
    return all(hasattr(value, part) for part in _PARTS)


def _arrays_of(constraints: Any, n_samples: int) -> dict[str, Any]:
    """Return the arrays of a value that holds constraints, as they could be passed to fit."""
    if not _is_constraints(constraints):
        raise TypeError(
            f"constraints must be mdaml.Constraints, got {type(constraints).__name__}. Pass "
            "arrays by name: triplets=..., pairs=... with pair_labels=..., quadruplets=..."
        )
    if constraints.n_points > n_samples:
        raise ValueError(
            f"constraints refer to {constraints.n_points} points, but X has {n_samples} rows. Pass "
            "the X that they index, or restrict them to its rows: constraints.restrict(rows)."
        )
    arrays = {part: getattr(constraints, part) for part in _PARTS[:4]}
    arrays = {part: array for part, array in arrays.items() if len(array)}
    if not arrays:
        raise ValueError("constraints are empty: at least one constraint is needed.")
    return arrays | {"constraint_weight": constraints.weights}


def _check_weak(
    n_samples: int,
    triplets: Any = None,
    pairs: Any = None,
    pair_labels: Any = None,
    quadruplets: Any = None,
    constraint_weight: Any = None,
) -> Weak:
    """Check the arrays; those that were not passed are empty."""
    widths = {"triplets": 3, "pairs": 2, "quadruplets": 4}
    by_form: dict[str, IntArray] = {
        form: np.empty((0, width), np.int64) for form, width in widths.items()
    }
    similar = np.empty(0, bool)
    if triplets is not None:
        by_form["triplets"] = check_triplets(triplets, n_samples)
    if pairs is not None:
        by_form["pairs"], similar = check_pairs(pairs, pair_labels, n_samples)
    if quadruplets is not None:
        by_form["quadruplets"] = check_quadruplets(quadruplets, n_samples)
    counts = {form: len(array) for form, array in by_form.items()}
    weights: FloatArray = np.broadcast_to(1.0, sum(counts.values()))  # of no size, however many
    if constraint_weight is not None:
        weights = check_constraint_weight(constraint_weight, counts)
    return Weak(**by_form, similar=similar, weights=weights)


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

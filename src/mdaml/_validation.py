"""Checks of what a user passes, all made before any work starts.

Messages say what was wanted, what came, and what to do.
"""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray, IntArray


def check_integer(owner: object, name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return a parameter that must be an integer in ``[low, high]``."""
    wanted = f"at least {low}" if high is None else f"between {low} and {high}"
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer:
        raise TypeError(f"{_parameter(owner, name)} must be an integer {wanted}, got {value!r}.")
    if value < low or (high is not None and value > high):
        raise ValueError(f"{_parameter(owner, name)} must be {wanted}, got {value}.")
    return int(value)


def check_number(
    owner: object, name: str, value: Any, low: float, *, strict: bool = False, why: str = ""
) -> float:
    """Return a parameter that must be a finite number above ``low`` (or equal, unless strict)."""
    wanted = f"{'greater than' if strict else 'at least'} {low:g}"
    why = f": {why}" if why else "."
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number:
        raise TypeError(f"{_parameter(owner, name)} must be a number {wanted}, got {value!r}.")
    if not np.isfinite(value) or value < low or (strict and value == low):
        raise ValueError(f"{_parameter(owner, name)} must be {wanted}, got {value}{why}")
    return float(value)


def check_choice(owner: object, name: str, value: Any, choices: Sequence[Any]) -> None:
    """Refuse a parameter that is none of the choices."""
    if not any(value is choice or value == choice for choice in choices):
        raise ValueError(
            f"{_parameter(owner, name)} must be one of {', '.join(map(repr, choices))}, "
            f"got {value!r}."
        )


def check_triplets(triplets: npt.ArrayLike, n_samples: int) -> IntArray:
    """Return triplets as an (n, 3) integer array of row indices below ``n_samples``."""
    given = np.asarray(triplets)
    if given.ndim != 2 or given.shape[1] != 3:
        raise ValueError(f"triplets must be integers of shape (n_triplets, 3), got {given.shape}.")
    if given.dtype.kind not in "iu":
        raise TypeError(
            f"triplets must be integers of shape (n_triplets, 3), got dtype {given.dtype}. "
            "Each row holds three row numbers of X: anchor, similar, dissimilar."
        )
    if len(given) == 0:
        raise ValueError("triplets is empty: at least one comparison is needed.")
    highest, lowest = int(given.max()), int(given.min())
    if highest >= n_samples:
        raise ValueError(
            f"triplets name row {highest}, but X has {n_samples} rows. Triplets index the X passed "
            "to the same call; under cross-validation pass labels and let fit draw the triplets."
        )
    if lowest < 0:
        raise ValueError(
            f"triplets name row {lowest}, but rows are counted from 0: negative indices, which "
            "would count from the end, are refused."
        )
    anchor, similar, dissimilar = given.T
    repeated = (anchor == similar) | (anchor == dissimilar) | (similar == dissimilar)
    if repeated.any():
        bad = int(np.argmax(repeated))
        raise ValueError(
            f"The three members of a triplet must differ, but triplet {bad} is "
            f"{tuple(given[bad].tolist())} ({int(repeated.sum())} such triplets in all). "
            "Remove them."
        )
    # Narrow integers are widened; int32 and int64 are used as they are, without a copy.
    return given if given.dtype in (np.int32, np.int64) else given.astype(np.int64)


def check_labels(owner: object, y: npt.NDArray[Any]) -> None:
    """Refuse labels from which no triplet can be drawn; ``-1`` means unlabelled."""
    name = type(owner).__name__
    if y.dtype.kind == "f" and np.any(y != np.floor(y)):
        raise ValueError(
            f"y must hold class labels, got continuous values such as {y[y != np.floor(y)][0]}. "
            f"{name} compares classes; cut the values into classes, or pass triplets."
        )
    labelled = y[y != -1] if y.dtype.kind in "iuf" else y
    classes, sizes = np.unique(labelled, return_counts=True)
    if len(classes) < 2:
        hint = " Rows with label -1 count as unlabelled." if len(labelled) < len(y) else ""
        raise ValueError(
            f"{name} needs at least two classes, got {len(classes)} class(es) in y: one class "
            f"alone has no dissimilar samples.{hint}"
        )
    if sizes.max() < 2:
        raise ValueError(
            f"No class in y has two members (labels of {len(labelled)} samples, {len(classes)} "
            "classes): nothing is similar to anything. Are these class labels?"
        )


def check_start_weights(owner: object, weights: Any, n_samples: int, n_modes: int) -> FloatArray:
    """Return the array of weights that a user passed as ``init``."""
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (n_samples, n_modes):
        raise ValueError(
            f"{_parameter(owner, 'init')} must be 'gmm', 'kmeans' or weights of shape (n_samples, "
            f"n_modes) = ({n_samples}, {n_modes}), got an array of shape {given.shape}."
        )
    if not np.all(np.isfinite(given)) or given.min() < 0 or np.any(given.sum(axis=1) <= 0):
        raise ValueError(
            f"{_parameter(owner, 'init')} weights must be finite and not negative, with a positive "
            f"sum in every row; the smallest is {given.min()}, the smallest sum of a row "
            f"{given.sum(axis=1).min()}."
        )
    return given


def _parameter(owner: object, name: str) -> str:
    return f"{type(owner).__name__}({name}=...)"

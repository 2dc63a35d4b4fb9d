"""Checks of what a user passes, all made before any work starts.

Messages say what was wanted, what came, and what to do.
"""

import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray, IntArray


def check_integer(
    owner: object, name: str, value: Any, low: int, high: int | None = None, *, what: str = ""
) -> int:
    """Return a parameter that must be an integer in ``[low, high]``; `what` explains the bound."""
    wanted = f"at least {low}" if high is None else f"between {low} and {high}{what}"
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer:
        raise TypeError(f"{_parameter(owner, name)} must be an integer {wanted}, got {value!r}.")
    if value < low or (high is not None and value > high):
        raise ValueError(f"{_parameter(owner, name)} must be {wanted}, got {value}.")
    return int(value)


def check_number(
    owner: object,
    name: str,
    value: Any,
    low: float,
    high: float = np.inf,
    *,
    strict: bool = False,
    why: str = "",
) -> float:
    """Return a parameter that must be a finite number in ``[low, high]``; strict: inside."""
    wanted = f"a finite number {'greater than' if strict else 'of at least'} {low:g}"
    if high < np.inf:
        wanted = f"a number {'strictly ' if strict else ''}between {low:g} and {high:g}"
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number:
        raise TypeError(f"{_parameter(owner, name)} must be {wanted}, got {value!r}.{why}")
    if not np.isfinite(value) or not low <= value <= high or (strict and value in (low, high)):
        raise ValueError(f"{_parameter(owner, name)} must be {wanted}, got {value}.{why}")
    return float(value)


def check_choice(
    owner: object, name: str, value: Any, choices: Sequence[Any], *, why: str = ""
) -> None:
    """Refuse a parameter that is none of the choices."""
    if not any(value is choice or value == choice for choice in choices):
        raise ValueError(
            f"{_parameter(owner, name)} must be one of {', '.join(map(repr, choices))}, "
            f"got {value!r}.{why}"
        )


def check_metric(owner: object, name: str, value: Any, n_features: int) -> FloatArray:
    """Return a parameter that must be a symmetric positive definite matrix."""
    wanted = (
        f"{_parameter(owner, name)} must be a symmetric positive definite matrix of shape "
        f"({n_features}, {n_features})"
    )
    try:
        matrix: FloatArray = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{wanted}; got {value!r}.") from None
    if matrix.shape != (n_features, n_features):
        raise ValueError(f"{wanted}; got shape {matrix.shape}.")
    if not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T, rtol=1e-10):
        raise ValueError(f"{wanted}; got one that is not symmetric or not finite.")
    lowest = float(np.linalg.eigvalsh(matrix)[0])
    if lowest <= 0:
        raise ValueError(f"{wanted}; its smallest eigenvalue is {lowest:.3g}.")
    return matrix


def check_callback(owner: object, callback: Any) -> None:
    """Refuse a callback that cannot be called."""
    if callback is not None and not callable(callback):
        raise TypeError(f"{_parameter(owner, 'callback')} must be callable, got {callback!r}.")


def check_memory_limit(owner: object, value: Any) -> int | None:
    """Return a limit of memory in bytes; None is none."""
    wanted = (
        f"{_parameter(owner, 'memory_limit')} must be a positive number of bytes, a string such as "
        f"'2 GB' or '500 MiB', or None; got {value!r}."
    )
    if value is None:
        return None
    factor = 1.0
    if isinstance(value, str):
        given = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kKMGT]?)(i?)B\s*", value)
        if given is None:
            raise ValueError(wanted)
        factor = (1024.0 if given[3] else 1000.0) ** " KMGT".index(given[2].upper() or " ")
        value = float(given[1])
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(wanted)
    if not (np.isfinite(float(value)) and float(value) * factor >= 1):
        raise ValueError(wanted)
    return int(float(value) * factor)


def check_triplets(triplets: npt.ArrayLike, n_samples: int) -> IntArray:
    """Return triplets as an (n, 3) integer array of row indices below ``n_samples``."""
    return _check_indices(
        "triplets", triplets, 3, n_samples, "three row numbers of X: anchor, similar, dissimilar"
    )


def check_pairs(
    pairs: npt.ArrayLike, pair_labels: npt.ArrayLike | None, n_samples: int
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return pairs as an (n, 2) integer array of row indices, and which of them are similar."""
    given = _check_indices("pairs", pairs, 2, n_samples, "two row numbers of X")
    wanted = "pair_labels must hold one number for each pair: 1 if similar, -1 if dissimilar"
    if pair_labels is None:
        raise ValueError(f"{wanted}; got None. Pass pairs= and pair_labels= together.")
    labels = np.asarray(pair_labels)
    if labels.shape != (len(given),):
        raise ValueError(f"{wanted}; got shape {labels.shape} for {len(given)} pairs.")
    if labels.dtype.kind not in "iuf" or not np.all(np.abs(labels) == 1):
        values = ", ".join(map(str, np.unique(labels)[:5]))
        hint = ""
        if np.array_equal(np.unique(labels), [0, 1]):
            hint = " If 0 means dissimilar, pass 2 * pair_labels - 1."
        raise ValueError(f"{wanted}; got the values {values}.{hint}")
    return given, labels > 0


def check_quadruplets(quadruplets: npt.ArrayLike, n_samples: int) -> IntArray:
    """Return quadruplets as an (n, 4) integer array of row indices: near pair, far pair."""
    what = "four row numbers of X: a pair, and a pair that is farther apart"
    given = _check_indices("quadruplets", quadruplets, 4, n_samples, what)
    near, far = np.sort(given[:, :2], axis=1), np.sort(given[:, 2:], axis=1)
    same = np.all(near == far, axis=1)
    _refuse("The two pairs of a quadruplet must differ", "quadruplet", given, same)
    return given


def check_constraint_weight(weight: npt.ArrayLike, counts: Mapping[str, int]) -> FloatArray:
    """Return the weights of as many constraints as there are, in the order in which they came."""
    n = sum(counts.values())
    parts = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    wanted = (
        "constraint_weight must hold one positive number for each constraint, in the order "
        f"triplets, pairs, quadruplets: {n} for {parts}"
    )
    try:
        given = np.asarray(weight)
    except ValueError:
        raise ValueError(f"{wanted}; got rows of different lengths.") from None
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{wanted}; got dtype {given.dtype}.")
    if given.shape != (n,):
        raise ValueError(f"{wanted}; got shape {given.shape}.")
    bad = ~((given >= 1e-100) & (given <= 1e100))
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"{wanted}; got {given[first]} at place {first}. Weights are finite, from 1e-100 to "
            "1e100; leave out a constraint that should not count."
        )
    return given.astype(np.float64)


def _check_indices(
    name: str, indices: npt.ArrayLike, width: int, n_samples: int, what: str
) -> IntArray:
    wanted = f"{name} must be integers of shape (n_{name}, {width}), each row {what}"
    try:
        given = np.asarray(indices)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{wanted}; got rows of different lengths.") from None
    if given.size == 0:
        raise ValueError(f"{name} is empty: at least one comparison is needed.")
    if given.ndim != 2 or given.shape[1] != width:
        raise ValueError(f"{wanted}; got shape {given.shape}.")
    if given.dtype.kind not in "iu":
        raise TypeError(f"{wanted}; got dtype {given.dtype}.")
    highest, lowest = int(given.max()), int(given.min())
    if highest >= n_samples:
        raise ValueError(
            f"{name} name row {highest}, but X has {n_samples} rows. {name.capitalize()} index the "
            "X passed to the same call; under cross-validation pass labels, from which each fit "
            "draws its own."
        )
    if lowest < 0:
        raise ValueError(
            f"{name} name row {lowest}, but rows are counted from 0: negative indices, which "
            "would count from the end, are refused."
        )
    # Narrow integers are widened; int32 and int64 in rows are used as they are, without a copy.
    kept = given.dtype if given.dtype in (np.int32, np.int64) else np.int64
    given = np.ascontiguousarray(given, dtype=kept)
    of, places = _MUST_DIFFER[width]
    repeated = np.zeros(len(given), bool)
    for n, other in places:
        repeated |= given[:, n] == given[:, other]
    _refuse(f"The {of} must differ", name[:-1], given, repeated)
    return given


_MUST_DIFFER = {
    2: ("two members of a pair", [(0, 1)]),
    3: ("three members of a triplet", [(0, 1), (0, 2), (1, 2)]),
    4: ("two members of either pair of a quadruplet", [(0, 1), (2, 3)]),
}


def _refuse(why: str, one: str, given: IntArray, bad: npt.NDArray[np.bool_]) -> None:
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"{why}, but {one} {first} is {tuple(given[first].tolist())}, the first of "
            f"{int(bad.sum())}. Remove them."
        )


def check_labels(caller: str, y: npt.NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Return the rows that are labelled, not ``-1``, and the class of each, counted from 0.

    Refuse labels from which nothing can be learned.
    """
    if y.dtype.kind == "f" and np.any(y != np.floor(y)):
        raise ValueError(
            f"y must hold class labels, got continuous values such as {y[y != np.floor(y)][0]}. "
            f"{caller} compares classes; cut the values into classes, or pass triplets."
        )
    rows = np.arange(len(y))
    if y.dtype.kind in "iufO":
        rows = np.flatnonzero(y != -1)
    try:
        classes, codes = np.unique(y[rows], return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in y}))
        raise TypeError(
            f"y mixes labels of types {kinds}, which cannot be ordered. Use numbers or strings."
        ) from None
    if len(classes) < 2:
        hint = ""
        if len(rows) < len(y):
            hint = " Rows with label -1 count as unlabelled: use other labels, such as 0 and 1."
        raise ValueError(
            f"{caller} needs at least two classes in y, got {len(classes)} class(es): without a "
            f"second class nothing is dissimilar.{hint}"
        )
    if len(classes) == len(rows):
        raise ValueError(
            f"No class in y has two members ({len(rows)} samples, {len(classes)} "
            "classes): nothing is similar to anything. Are these class labels?"
        )
    return rows, codes


def check_start_weights(owner: object, weights: Any, n_samples: int, n_modes: int) -> FloatArray:
    """Return the array of weights that a user passed as ``init``."""
    wanted = (
        f"{_parameter(owner, 'init')} must be 'gmm', 'kmeans' or numbers of shape (n_samples, "
        f"n_modes) = ({n_samples}, {n_modes}), the first weights of the samples in the modes"
    )
    given = np.asarray(weights)
    if given.dtype.kind not in "iufb":
        raise TypeError(f"{wanted}; got {weights!r}.")
    if given.shape != (n_samples, n_modes):
        raise ValueError(f"{wanted}; got shape {given.shape}.")
    if not np.all(np.isfinite(given)) or given.min() < 0 or np.any(given.sum(axis=1) <= 0):
        raise ValueError(
            f"{_parameter(owner, 'init')} weights must be finite and not negative, with a positive "
            f"sum in every row; the smallest is {given.min()}, the smallest sum of a row "
            f"{given.sum(axis=1).min()}."
        )
    return given.astype(np.float64)


def check_magnitude(X: Any) -> None:
    """Refuse centred samples whose squared distances, multiplied once more, would overflow."""
    largest = max(float(X.max()), -float(X.min()))
    precision = str(X.dtype).removeprefix("torch.")  # tensors are welcome
    limit = float(np.finfo(precision).max) ** 0.25
    if largest > limit:
        raise ValueError(
            f"X has values up to {largest:.1e} away from their mean; beyond {limit:.1e} fourth "
            f"powers overflow in {precision}. Scale the features, for instance by StandardScaler."
        )


def _parameter(owner: object, name: str) -> str:
    return f"{type(owner).__name__}({name}=...)"

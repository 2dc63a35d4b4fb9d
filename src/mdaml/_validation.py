"""Checks of what a user passes, all made before any work starts; and warnings.

Messages say what was wanted, what came, and what to do.
"""

import inspect
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from mdaml._typing import FloatArray, Matrix

_FARTHEST = 1e150  # of mapped coordinates: their squares are numbers
_HOME = f"{Path(__file__).parent}{os.sep}"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user that led here, however deep the call is."""
    wrappers = sys.modules.get("sklearn")  # its methods call ours; it is not loaded for that
    homes = (_HOME, f"{Path(str(wrappers.__file__)).parent}{os.sep}") if wrappers else (_HOME,)
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(homes):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def ignore_warnings(category: type[Warning], module: str = "", message: str = "") -> Iterator[None]:
    """Ignore warnings of a category, by how module and message begin, in all threads for a while.

    ``warnings.catch_warnings`` puts back what it found: where threads overlap, the last one to end
    would leave the filters of another. This takes away only what it added.
    """
    filters: Any = warnings.filters
    entry = ("ignore", re.compile(message), category, re.compile(module), 0)
    filters.insert(0, entry)
    try:
        yield
    finally:
        with suppress(ValueError):  # others have reset all filters
            filters.remove(entry)


def check_random_state(seed: object) -> np.random.RandomState:
    """Return a RandomState: as scikit-learn does, and from a Generator, which moves on by it."""
    if isinstance(seed, np.random.Generator):
        return np.random.RandomState(seed.integers(0, 2**32, 4, np.uint32))
    if seed is None or isinstance(seed, Integral | np.random.RandomState):
        # Not above: this module is loaded by `mdaml --help`, which must not wait for scikit-learn.
        from sklearn.utils import check_random_state as sklearn_check_random_state

        return sklearn_check_random_state(seed)
    raise ValueError(
        "random_state must be an integer, a NumPy Generator or RandomState, or None; got the seed "
        f"{seed!r}."
    )


def check_integer(
    owner: object, name: str, value: object, low: int, high: int | None = None, *, what: str = ""
) -> int:
    """Return a parameter that must be an integer in ``[low, high]``; `what` explains the bound."""
    wanted = f"at least {low}" if high is None else f"between {low} and {high}{what}"
    if not isinstance(value, Integral) or isinstance(value, bool):
        of = "of " if high is None else ""
        raise TypeError(
            f"{_parameter(owner, name)} must be an integer {of}{wanted}, got {value!r}."
        )
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{_parameter(owner, name)} must be {wanted}, got {value}.")
    return number


def check_at_least(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return an option of a function that must be an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} must be at most {most}, got {value}.")
    return int(value)


def check_number(
    owner: object,
    name: str,
    value: object,
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
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{_parameter(owner, name)} must be {wanted}, got {value!r}.{why}")
    number = float(value)
    if not np.isfinite(number) or not low <= number <= high or (strict and number in (low, high)):
        raise ValueError(f"{_parameter(owner, name)} must be {wanted}, got {value}.{why}")
    return number


def check_choice(
    owner: object, name: str, value: object, choices: Sequence[object], *, why: str = ""
) -> None:
    """Refuse a parameter that is none of the choices."""
    if not any(value is choice or value == choice for choice in choices):
        raise ValueError(
            f"{_parameter(owner, name)} must be one of {', '.join(map(repr, choices))}, "
            f"got {value!r}.{why}"
        )


def check_metric(owner: object, name: str, value: object, n_features: int) -> FloatArray:
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


def check_callback(owner: object, callback: object) -> None:
    """Refuse a callback that cannot be called."""
    if callback is not None and not callable(callback):
        raise TypeError(f"{_parameter(owner, 'callback')} must be callable, got {callback!r}.")


def check_memory_limit(what: str, value: object) -> int | None:
    """Return a limit of memory in bytes; None is none. ``what`` names it in messages."""
    wanted = (
        f"{what} must be a positive number of bytes, a string such as "
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


def check_start_weights(owner: object, weights: object, n_samples: int) -> FloatArray:
    """Return the first weights that a user passed as ``n_modes``."""
    wanted = (
        f"{_parameter(owner, 'n_modes')} must be a number of modes or the first weights of the "
        f"samples in them, of shape (n_samples, n_modes) with {n_samples} samples"
    )
    try:
        given = np.asarray(weights)
    except ValueError:
        raise ValueError(f"{wanted}; got rows of different lengths.") from None
    if given.dtype.kind not in "iufb":
        raise TypeError(f"{wanted}; got {weights!r}.")
    if given.ndim != 2 or len(given) != n_samples or given.shape[1] < 1:
        raise ValueError(f"{wanted}; got shape {given.shape}.")
    if not np.all(np.isfinite(given)) or given.min() < 0 or np.any(given.sum(axis=1) <= 0):
        raise ValueError(
            f"{_parameter(owner, 'n_modes')}: weights must be finite and not negative, with a "
            f"positive sum in every row; the smallest is {given.min()}, the smallest sum of a row "
            f"{given.sum(axis=1).min()}."
        )
    return given.astype(np.float64)


def check_magnitude(X: Matrix) -> float:
    """Refuse centred samples whose squared distances, multiplied once more, overflow or vanish.

    Return their largest absolute value.
    """
    largest = max(float(X.max()), -float(X.min()))
    precision = str(X.dtype).removeprefix("torch.")  # tensors are welcome
    least, limit = _usual_range(precision)
    if 0.0 < largest < least:
        raise ValueError(
            f"X has values no more than {largest:.1e} away from their mean; below {least:.1e} "
            f"distances vanish in {precision}. Scale the features, for instance by StandardScaler."
        )
    if largest > limit:
        raise ValueError(
            f"X has values up to {largest:.1e} away from their mean; beyond {limit:.1e} fourth "
            f"powers overflow in {precision}. Scale the features, for instance by StandardScaler."
        )
    return largest


def check_mapped(Y: FloatArray) -> None:
    """Refuse mapped samples whose squared distances overflow."""
    if not np.abs(Y).max(initial=0.0) < _FARTHEST:
        raise ValueError(
            f"X, mapped by the metric, has values beyond {_FARTHEST:.0e}: squared distances "
            "overflow. Scale the features, for instance by StandardScaler, and fit again."
        )


@cache
def _usual_range(precision: str) -> tuple[float, float]:
    """Return between which magnitudes, but zero, samples are computed with."""
    numbers = np.finfo(precision)
    # Metrics grow as samples shrink: twelfth powers, in double precision, must not overflow.
    return max(float(numbers.tiny) ** 0.25, 1e-25), float(numbers.max) ** 0.25


def _parameter(owner: object, name: str) -> str:
    """Return a parameter of an estimator, or of a function by its name, as messages call it."""
    if not isinstance(owner, str):  # one inside another model has the name of that one
        owner = getattr(owner, "_named", type(owner).__name__)
    return f"{owner}({name}=...)"


def has_unit_rows(X: FloatArray) -> bool:
    """Return whether all rows have length one, as many embeddings have."""
    some = X[:: max(1, len(X) // 1000)].astype(np.float64)
    return bool(np.allclose(np.einsum("ij,ij->i", some, some), 1.0, atol=1e-3))

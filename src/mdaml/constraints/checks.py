"""Checks of arrays of constraints: messages say what was wanted, what came and what to do."""

from collections.abc import Callable, Mapping, Sized
from typing import TypeAlias

import numpy as np

from mdaml._typing import Array, ArrayLike, FloatArray, IntArray
from mdaml._validation import check_integer, warn
from mdaml.constraints.forms.answers import COLUMNS
from mdaml.constraints.forms.pairs import check_pairs
from mdaml.constraints.forms.quadruplets import check_quadruplets
from mdaml.constraints.forms.triplets import check_triplets
from mdaml.constraints.names import MOST_POINTS, Names, check_ids, frozen, is_missing, to_array

Seed: TypeAlias = int | np.random.Generator | None


def _is_empty(given: ArrayLike | None) -> bool:
    """Say whether an argument was left out, or holds nothing."""
    return given is None or (isinstance(given, Sized) and len(given) == 0)


def check_weights(
    weights: ArrayLike | None, counts: Mapping[str, int], name: str = "weights"
) -> FloatArray:
    """Return a positive weight for each constraint; None means 1 for each, without memory."""
    n = sum(counts.values())
    if weights is None:
        return np.broadcast_to(1.0, n)
    parts = ", ".join(f"{count} {form}" for form, count in counts.items() if count)
    wanted = (
        f"{name} must hold one positive number for each constraint, in the order triplets, pairs, "
        f"quadruplets: {n} for {parts}"
    )
    try:
        given = np.asarray(weights)
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


def check_columns(columns: Mapping[str, ArrayLike] | None, n_constraints: int) -> dict[str, Array]:
    """Return a read-only array of one value for each constraint under each name."""
    wanted = f"columns must map names to one value for each of the {n_constraints} constraints"
    if columns is not None and not hasattr(columns, "items"):
        raise TypeError(f"{wanted}; got {type(columns).__name__}.")
    checked = {}
    for name, values in {} if columns is None else columns.items():
        if not isinstance(name, str) or not name.strip() or name.strip().lower() in COLUMNS:
            raise ValueError(
                f"{wanted}; got the name {name!r}. It must be a text, other than "
                f"{', '.join(COLUMNS)}, which files have for the constraints themselves."
            )
        array = to_array(values)
        if array.shape != (n_constraints,):
            raise ValueError(f"{wanted}; column {name!r} has shape {array.shape}.")
        checked[name] = frozen(to_column(array), None)
    return checked


def to_column(values: Array) -> Array:
    """Return numbers and dates as they are, all else as Python strings, empty where missing."""
    if values.dtype.kind in "biufM":
        return values
    if values.dtype.kind == "U":
        return values.astype(object)
    if set(map(type, values.tolist())) <= {str}:
        return values
    given = values.tolist()
    texts = [x if isinstance(x, str) else "" if is_missing(x) else str(x) for x in given]
    spelt = {x for x in given if isinstance(x, str)}
    for value, text in zip(given, texts, strict=True):
        if text in spelt and text and not isinstance(value, str):
            raise ValueError(
                f"A column of the comparisons holds {value!r} and the text {text!r}, which are the "
                "same in a file. Make them differ, or use one of them."
            )
    column = np.empty(len(texts), object)
    column[:] = texts
    return column


def same_column(one: Array, other: Array) -> bool:
    """Say whether two columns hold the same; what is missing in both is the same."""
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


def check_points(
    owner: object, n_points: int | None, ids: ArrayLike | None
) -> tuple[Array | None, int | None]:
    """Return the ids as an array, and the number of points if it is known."""
    if n_points is not None:
        n_points = check_integer(owner, "n_points", n_points, 1, MOST_POINTS)
    if ids is None:
        return None, n_points
    names = check_ids(ids)
    if n_points not in (None, len(names)):
        raise ValueError(f"There are {len(names)} ids, but n_points is {n_points}.")
    return names, len(names)


def check_selection(name: str, which: ArrayLike, size: int, *, distinct: bool) -> IntArray:
    """Return a mask or indices of a range of that size as indices."""
    wanted = f"{name} must be a mask of {size} booleans, or integers from 0 to {size - 1}"
    given = np.asarray(which)
    if given.ndim != 1:
        raise ValueError(f"{wanted}; got shape {given.shape}.")
    if given.dtype == bool:
        if len(given) != size:
            raise ValueError(f"{wanted}; got {len(given)} booleans.")
        return np.flatnonzero(given)
    if len(given) == 0:
        return np.empty(0, np.int64)
    if given.dtype.kind not in "iu":
        raise TypeError(f"{wanted}; got dtype {given.dtype}.")
    if given.min() < 0 or given.max() >= size:
        bad = given[(given < 0) | (given >= size)][0]
        raise ValueError(f"{wanted}; got {bad}.")
    if distinct and len(np.unique(given)) < len(given):
        raise ValueError(f"{wanted}, each at most once; got one twice.")
    return given.astype(np.int64)


def check_all(
    most_points: int,
    weights_name: str = "weights",
    *,
    names: Names = None,
    triplets: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
    pair_labels: ArrayLike | None = None,
    quadruplets: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> dict[str, Array]:
    """Return checked arrays of every kind, empty where nothing was given."""
    if all(map(_is_empty, (triplets, pairs, quadruplets))):
        raise ValueError(
            "At least one constraint is needed: pass triplets=, pairs= with pair_labels=, or "
            "quadruplets=; got none of them, or only empty ones."
        )
    if _is_empty(pairs) and not _is_empty(pair_labels):
        raise ValueError("pair_labels belong to pairs: pass pairs= too, or leave them out.")
    given = nothing()
    if triplets is not None and not _is_empty(triplets):
        given["triplets"] = check_triplets(triplets, most_points, names)
    if pairs is not None and not _is_empty(pairs):
        given["pairs"], similar = check_pairs(pairs, pair_labels, most_points, names)
        given["pair_labels"] = np.where(similar, 1, -1)
    if quadruplets is not None and not _is_empty(quadruplets):
        given["quadruplets"] = check_quadruplets(quadruplets, most_points, names)
    counts = {kind: len(given[kind]) for kind in ("triplets", "pairs", "quadruplets")}
    return given | {"weights": check_weights(weights, counts, weights_name)}


def nothing() -> dict[str, Array]:
    """Return empty arrays of every kind."""
    return {
        "triplets": np.empty((0, 3), np.int64),
        "pairs": np.empty((0, 2), np.int64),
        "pair_labels": np.empty(0, np.int64),
        "quadruplets": np.empty((0, 4), np.int64),
    }


def check_count(name: str, value: object, high: int = MOST_POINTS, what: str = "") -> int:
    """Return a number of things to draw, at least 1; `what` explains the bound."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer of at least 1, got {value!r}.")
    if not 1 <= value <= high:
        most = f"the {high}{what}" if what else str(high)
        raise ValueError(f"{name} must be at least 1 and at most {most}, got {value}.")
    return int(value)


def warn_of_odd_labels(
    labels: Array,
    where: str = "y",
    name_remedy: Callable[[str], str] | None = None,
) -> None:
    """Warn of classes that are probably meant as others, or as no label.

    The caller can say where the labels are, and what to do about a text that may mean no label.
    """
    if labels.dtype.kind not in "UO":
        return
    from mdaml.io.messages import describe_twins, is_no_answer  # few labels are texts
    from mdaml.io.preparation import MISSING

    texts = [label for label in labels.tolist() if isinstance(label, str)]
    distinct = set(texts)
    empty = {*MISSING} - {"none"}  # which is a word like others
    no_label = [text for text in distinct if is_no_answer(text) or text.strip() in empty]
    if "-1" in distinct and not distinct <= {"-1", "1", "+1"}:
        no_label.append("-1")
    for text in sorted(no_label):
        remedy = "Write -1 as a number, None or an empty text there."
        if name_remedy is not None:
            remedy = name_remedy(text)
        warn(
            f"{where} holds the text {text!r} in {texts.count(text)} rows, which is a class like "
            f"any other. Did you mean rows without a label? {remedy}"
        )
    twins = describe_twins(distinct)
    if twins:
        warn(f"{where} holds classes that differ in capitals or spaces only: {twins}")

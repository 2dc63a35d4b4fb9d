"""Checks of arrays of constraints: messages say what was wanted, what came and what to do."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import ArrayLike, BoolArray, FloatArray, IntArray
from mdaml._validation import check_integer
from mdaml.constraints.names import Names, check_ids, frozen, is_missing, to_array, to_rows

# Beyond this many rows the number of a pair, row * n_points + row, would not fit into 64 bits.
MOST_POINTS = 2**31
# Names that columns of a file have for the constraints themselves.
COLUMNS = ("kind", "a", "b", "c", "d", "label", "weight")


def is_empty(given: Any) -> bool:
    """Say whether an argument was left out, or holds nothing."""
    return given is None or (hasattr(given, "__len__") and len(given) == 0)


def compares_nothing(quadruplets: IntArray) -> BoolArray:
    """Say of (n, 4) quadruplets whether a pair is one point twice, or both pairs are the same."""
    a, b, c, d = quadruplets.T
    same: BoolArray = ((a == c) & (b == d)) | ((a == d) & (b == c))
    return same | (a == b) | (c == d)


def check_weights(
    weights: ArrayLike | None, counts: Mapping[str, int], name: str = "weights"
) -> FloatArray:
    """Return a positive weight for each constraint; None is one for all, in no memory."""
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


def check_columns(
    columns: Mapping[str, ArrayLike] | None, n_constraints: int
) -> dict[str, npt.NDArray[Any]]:
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


def to_column(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
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


def same_column(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Say whether two columns hold the same; what is missing in both is the same."""
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


def check_points(
    owner: object, n_points: Any, ids: Any
) -> tuple[npt.NDArray[Any] | None, int | None]:
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


def check_triplets(triplets: ArrayLike, n_samples: int, names: Names = None) -> IntArray:
    """Return triplets as an (n, 3) integer array of row indices below ``n_samples``.

    Here and below: `names` are those of the rows of X, if the triplets may name them.
    """
    what = "three row numbers of X: anchor, similar, dissimilar"
    return _check_indices("triplets", to_rows("triplets", triplets, names), 3, n_samples, what)


def check_pairs(
    pairs: ArrayLike, pair_labels: ArrayLike | None, n_samples: int, names: Names = None
) -> tuple[IntArray, BoolArray]:
    """Return pairs as an (n, 2) integer array of row indices, and which of them are similar."""
    rows = to_rows("pairs", pairs, names)
    given = _check_indices("pairs", rows, 2, n_samples, "two row numbers of X")
    wanted = "pair_labels must hold one number for each pair: 1 if similar, -1 or 0 if dissimilar"
    if pair_labels is None:
        raise ValueError(f"{wanted}; got None. Pass pairs= and pair_labels= together.")
    labels = np.asarray(pair_labels)
    if labels.shape != (len(given),):
        raise ValueError(f"{wanted}; got shape {labels.shape} for {len(given)} pairs.")
    if labels.dtype.kind not in "iufb":
        raise ValueError(f"{wanted}; got dtype {labels.dtype}.")
    values = np.unique(labels)
    if not (np.isin(values, [1, -1]).all() or np.isin(values, [1, 0]).all()):
        hint = ""
        if np.isin(values, [-1, 0, 1]).all():
            hint = " Does 0 mean dissimilar, or not known? Use 1 and -1, or 1 and 0."
        raise ValueError(f"{wanted}; got the values {', '.join(map(str, values[:5]))}.{hint}")
    return given, labels > 0


def check_quadruplets(quadruplets: ArrayLike, n_samples: int, names: Names = None) -> IntArray:
    """Return quadruplets as an (n, 4) integer array of row indices: near pair, far pair."""
    what = "four row numbers of X: a pair, and a pair that is farther apart"
    rows = to_rows("quadruplets", quadruplets, names)
    given = _check_indices("quadruplets", rows, 4, n_samples, what)
    near, far = np.sort(given[:, :2], axis=1), np.sort(given[:, 2:], axis=1)
    same = np.all(near == far, axis=1)
    _refuse("The two pairs of a quadruplet must differ", "quadruplet", given, same)
    return given


def _check_indices(
    name: str, indices: ArrayLike, width: int, n_samples: int, what: str
) -> IntArray:
    wanted = f"{name} must be integers of shape (n_{name}, {width}), each row {what}"
    given = np.asarray(indices)
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


def _refuse(why: str, one: str, given: IntArray, bad: BoolArray) -> None:
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"{why}, but {one} {first} is {tuple(given[first].tolist())}, the first of "
            f"{int(bad.sum())}. Remove them."
        )


def check_all(
    most_points: int,
    weights_name: str = "weights",
    *,
    names: Names = None,
    triplets: Any = None,
    pairs: Any = None,
    pair_labels: Any = None,
    quadruplets: Any = None,
    weights: Any = None,
) -> dict[str, Any]:
    """Return checked arrays of every kind, empty where nothing was given."""
    if all(map(is_empty, (triplets, pairs, quadruplets))):
        raise ValueError(
            "At least one constraint is needed: pass triplets=, pairs= with pair_labels=, or "
            "quadruplets=; got none of them, or only empty ones."
        )
    if is_empty(pairs) and not is_empty(pair_labels):
        raise ValueError("pair_labels belong to pairs: pass pairs= too, or leave them out.")
    given = nothing()
    if not is_empty(triplets):
        given["triplets"] = check_triplets(triplets, most_points, names)
    if not is_empty(pairs):
        given["pairs"], similar = check_pairs(pairs, pair_labels, most_points, names)
        given["pair_labels"] = np.where(similar, 1, -1)
    if not is_empty(quadruplets):
        given["quadruplets"] = check_quadruplets(quadruplets, most_points, names)
    counts = {kind: len(given[kind]) for kind in ("triplets", "pairs", "quadruplets")}
    return given | {"weights": check_weights(weights, counts, weights_name)}


def nothing() -> dict[str, Any]:
    """Return empty arrays of every kind."""
    return {
        "triplets": np.empty((0, 3), np.int64),
        "pairs": np.empty((0, 2), np.int64),
        "pair_labels": np.empty(0, np.int64),
        "quadruplets": np.empty((0, 4), np.int64),
    }

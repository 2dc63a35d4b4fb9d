"""Checks of what ``fit`` and similar methods take: labels or constraints."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_X_y

from mdaml._samples import explain_samples
from mdaml._typing import Array, ArrayLike, FloatArray, Params
from mdaml.constraints.labels import Classes, to_labels
from mdaml.constraints.names import Names, check_ids, describe_unknown, get_index
from mdaml.constraints.persons import Persons, column_of
from mdaml.constraints.value import Constraints

_FORMS = {
    "y": "labels, fit(X, y)",
    "triplets": "triplets, fit(X, triplets=T)",
    "pairs": "pairs, fit(X, pairs=P, pair_labels=s)",
    "quadruplets": "quadruplets, fit(X, quadruplets=Q)",
}
EVERY_FORM = tuple(_FORMS)
# Arguments that go with a form or replace the forms, and the form a method must accept for them.
_COMPANIONS = {
    "pair_labels": "pairs",
    "constraints": "quadruplets",
    "constraint_weight": "quadruplets",
}
Supervision = Classes | Constraints


def check_supervision(
    estimator: object, takes: Sequence[str], X: ArrayLike, y: ArrayLike | None, **given: Any
) -> tuple[FloatArray, Supervision]:
    """Return samples, and the labels or constraints that were passed, if the method takes them.

    Parameters
    ----------
    estimator : object
        Named in messages.
    takes : sequence of {"y", "triplets", "pairs", "quadruplets"}
        What the method can learn from: labels alone, or any mixture of the others.
    X, y : array-like
        As passed to fit.
    **given
        All other arguments of fit: triplets, pairs, pair_labels, quadruplets, constraints,
        constraint_weight, or arguments that the method does not have.
    """
    name = type(estimator).__name__
    given = {form: value for form, value in given.items() if value is not None}
    check_forms(name, takes, y, given)
    samples, labels = _check_arrays(estimator, X, y)
    if labels is not None:
        return samples, Classes.from_labels(name, labels)
    return samples, constraints_of(samples.shape[0], names=get_index(X), **given)


def constraints_of(
    n_samples: int,
    constraints: object = None,
    constraint_weight: ArrayLike | None = None,
    names: Names = None,
    **arrays: Any,
) -> Constraints:
    """Return constraints of at most `n_samples` rows of X, passed as a value or as arrays.

    Arrays are checked and not copied; a :class:`Constraints` was checked when it was made. With
    names of the rows of X, arrays may hold names, and constraints with ids are matched by them.
    """
    if constraints is None:
        arrays |= {"weights": constraint_weight, "names": names}
        return Constraints.borrow(n_samples, "constraint_weight", **arrays)
    if not isinstance(constraints, Constraints):
        raise TypeError(
            f"constraints must be mdaml.Constraints, got {type(constraints).__name__}. Pass "
            "arrays by name: triplets=..., pairs=... with pair_labels=..., quadruplets=..."
        )
    for name, value in {**arrays, "constraint_weight": constraint_weight}.items():
        if value is not None:
            raise ValueError(
                f"Pass either constraints or {name}, not both: constraints hold arrays and weights."
            )
    constraints = match_names(constraints, names)
    if constraints.n_points > n_samples:
        raise ValueError(
            f"constraints refer to {constraints.n_points} points, but X has {n_samples} rows. Pass "
            "the X that they index, or restrict them to its rows: constraints.restrict(rows)."
        )
    if constraints.n_constraints == 0:
        raise ValueError("constraints are empty: at least one constraint is needed.")
    return constraints.about(n_samples)


def check_ignored(name: str, X: ArrayLike, n_samples: int, given: Params) -> None:
    """Check comparisons and arguments of a method that learns nothing from them."""
    given = {form: value for form, value in given.items() if value is not None}
    if given:
        check_forms(name, EVERY_FORM, None, given)
        constraints_of(n_samples, names=get_index(X), **given)


def match_names(constraints: Constraints, names: Names) -> Constraints:
    """Return constraints whose points are found by name in the rows of X, if both have names."""
    ids = constraints.ids
    if names is None or ids is None or ids.dtype.kind != "U" or np.array_equal(ids, names):
        return constraints
    place = dict(zip(names.tolist(), range(len(names)), strict=True))
    rows = np.array([place.get(name, -1) for name in ids.tolist()])
    parts = {
        name: rows[getattr(constraints, name)] for name in ("triplets", "pairs", "quadruplets")
    }
    unknown = np.zeros(len(ids), bool)
    for name, part in parts.items():
        unknown[getattr(constraints, name)[part < 0]] = True
    if unknown.any():
        lost = ids[unknown].tolist()
        shown = ", ".join(describe_unknown(name, list(place)) for name in lost[:5])
        raise ValueError(
            f"constraints name {len(lost)} points that are not in the index of X: {shown}"
            f"{', ...' if len(lost) > 5 else ''}. Restrict them to the rows of X, or pass an X "
            "whose index holds the ids."
        )
    return constraints._replaced(**parts, n_points=len(names), ids=check_ids(names))


def persons_of(supervision: Supervision, who: ArrayLike) -> Persons:
    """Return who gave each comparison; labels and pairs have no persons."""
    if isinstance(supervision, Classes) or len(supervision.pairs):
        what = "labels" if isinstance(supervision, Classes) else "pairs"
        raise ValueError(
            f"who= names the person behind each triplet and quadruplet; got {what}. Pass "
            "comparisons, or leave who= out."
        )
    return Persons.from_who(column_of(supervision, who), supervision.n_constraints)


def weighable(supervision: Supervision, persons: Persons | None) -> Supervision:
    """Return supervision that can be weighted: with persons, all comparisons as quadruplets."""
    if persons is None or isinstance(supervision, Classes):
        return supervision
    return Constraints.of_quadruplets(
        supervision.comparisons(), supervision.weights, supervision.n_points
    )


def check_forms(name: str, takes: Sequence[str], y: ArrayLike | None, given: Params) -> None:
    """Refuse what the method does not take, and what does not go together."""
    for form in given:
        if form not in _FORMS and form not in _COMPANIONS:
            raise TypeError(f"{name}.fit got an unexpected argument {form!r}.")
    learns = f"{name} learns from {' or '.join(_FORMS[form] for form in takes)}"
    for form in given:
        if _COMPANIONS.get(form, form) not in takes:
            raise TypeError(f"{learns}; got {form}=. MDaML learns from all forms.")
    forms = [form for form in given if form in _FORMS or form == "constraints"]
    if y is not None and forms:
        raise ValueError(f"Pass either y or {forms[0]}, not both.")
    if y is None and not forms:
        extra = "" if len(takes) == 1 else f" {learns}."
        raise ValueError(f"{name} requires y to be passed, but the target y is None.{extra}")
    if "pair_labels" in given and "pairs" not in given and "constraints" not in given:
        raise ValueError("pair_labels belong to pairs: pass pairs= too, or leave them out.")
    if "constraint_weight" in given and y is not None:
        raise ValueError(
            "constraint_weight belongs to triplets, pairs and quadruplets; labels have no weights."
        )
    if isinstance(y, Constraints):
        raise ValueError("y must be one label per row. Pass constraints by name: constraints=...")
    shape = getattr(y, "shape", ())
    if shape[1:] in [(2,), (3,), (4,)]:
        raise ValueError(
            f"y must be one label per row, got shape {shape}. If these are comparisons, pass "
            "them by name: fit(X, triplets=...), fit(X, pairs=..., pair_labels=...) or "
            "fit(X, quadruplets=...)."
        )


def _check_arrays(
    estimator: object, X: ArrayLike, y: ArrayLike | None
) -> tuple[FloatArray, Array | None]:
    if _is_plain(X, y):
        return np.asarray(X), None if y is None else np.asarray(y)
    takes_sparse = bool(getattr(estimator, "takes_sparse", False))
    options = {
        "dtype": [np.float64, np.float32],
        "ensure_min_samples": 2,
        "estimator": estimator,
        "accept_sparse": "csr" if takes_sparse else False,
    }
    with explain_samples(estimator, X, sparse=takes_sparse):
        if y is None:
            return check_array(X, input_name="X", **options), None
        return check_X_y(X, to_labels(y), **options)


def _is_plain(X: ArrayLike, y: ArrayLike | None) -> bool:
    """Say whether scikit-learn's checks would pass and change nothing.

    They take longer than a closed form on a thousand samples.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype not in (np.float64, np.float32):
        return False
    if len(X) < 2 or X.shape[1] == 0:
        return False
    if y is not None and (
        type(y) is not np.ndarray or y.dtype.kind not in "iu" or y.shape != (len(X),)
    ):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(X.sum()))

"""From comparisons back to the answers that they came from, to score these as answers."""

from typing import NamedTuple

import numpy as np

from mdaml._typing import Array, IntArray
from mdaml.constraints.forms.answers import ANSWER
from mdaml.constraints.value import Constraints


class Answers(NamedTuple):
    """Arguments of a score."""

    method: str  # its name
    rows: tuple[Array, ...]
    first: IntArray  # the place of a comparison of each answer, whose columns are those of it


def turn_back(form: str | None, supervision: Constraints) -> Answers | None:
    """Return answers of a form, from triplets with ``answer_number``; undecided ones are left out.

    Without a form the triplets, or quadruplets, themselves; None of what has no such score.
    """
    if form in ("odd_one_out", "picks", "rankings") and ANSWER in supervision.columns:
        _, first, number = np.unique(
            supervision.columns[ANSWER].astype(str), return_index=True, return_inverse=True
        )
        order = np.argsort(number.ravel(), kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(number.ravel()))[:-1])
        made = [_TURN[form](supervision.triplets[own]) for own in parts]
        kept = [place for place, answer in enumerate(made) if answer is not None]
        if not kept:
            return None
        columns = zip(*(made[place] or () for place in kept), strict=True)
        return Answers(f"score_{form}", tuple(map(_stack, columns)), first[kept])
    if form in (None, "triplets", "choices", "quadruplets") and not len(supervision.pairs):
        if len(supervision.quadruplets) and len(supervision.triplets):
            rows: Array = supervision.comparisons()
            return Answers("score_quadruplets", (rows,), np.arange(len(rows)))
        name = "triplets" if len(supervision.triplets) else "quadruplets"
        return Answers(
            f"score_{name}", (getattr(supervision, name),), np.arange(supervision.n_constraints)
        )
    return None


def _turn_odd(triplets: IntArray) -> tuple[IntArray, ...] | None:
    """Return the items and the odd one, which is the far one of all triplets."""
    odd = np.unique(triplets[:, 2])
    return None if len(odd) > 1 else (np.unique(triplets), triplets[0, 2])


def _turn_picks(triplets: IntArray) -> tuple[IntArray, ...] | None:
    """Return the reference, the items and the picks, which are near in all triplets."""
    near, far = np.unique(triplets[:, 1]), np.unique(triplets[:, 2])
    if np.intersect1d(near, far).size:
        return None
    return triplets[0, 0], np.concatenate([near, far]), near


def _turn_ranking(triplets: IntArray) -> tuple[IntArray, ...] | None:
    """Return the reference and the items, the nearest first: how often each is the near one."""
    items = np.unique(triplets[:, 1:])
    times = [np.count_nonzero(triplets[:, 1] == item) for item in items]
    return triplets[0, 0], items[np.argsort(-np.array(times), kind="stable")]


_TURN = {"odd_one_out": _turn_odd, "picks": _turn_picks, "rankings": _turn_ranking}


def _stack(rows: tuple[IntArray, ...]) -> Array:
    """Return numbers as one array, or lists as rows of one, -1 where a list is shorter."""
    if rows[0].ndim == 0:
        return np.array(rows)
    out = np.full((len(rows), max(map(len, rows))), -1)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return out

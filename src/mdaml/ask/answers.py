"""Stored answers as constraints, the format that the whole library reads."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np

from mdaml._typing import IntArray
from mdaml.ask.questions import SAME, Row
from mdaml.constraints import Constraints
from mdaml.constraints.names import check_ids


def to_constraints(answers: Sequence[Row], ids: Sequence[str]) -> Constraints | None:
    """Return the answers as constraints with columns who, time, seconds, source and question.

    "Cannot tell" becomes an undecided answer: both directions, each with half the weight.
    Left out are undecided pairs, skipped questions, and items that are no longer there.

    Returns
    -------
    constraints : Constraints or None
        None if there is no answer.
    """
    rows = {name: row for row, name in enumerate(ids)}
    given = [a for a in answers if a["outcome"] != "skip" and rows.keys() >= set(a["items"])]
    parts = []
    for form, turn in _TURN.items():
        few = [a for a in given if a["form"] == form]
        if form == "same":
            few = [a for a in few if a["outcome"] == "answer"]
        by_size: dict[tuple[int, int], list[Row]] = {}
        for answer in few:
            by_size.setdefault((len(answer["items"]), len(answer["choice"])), []).append(answer)
        for same_size in by_size.values():
            items = np.array([[rows[name] for name in a["items"]] for a in same_size])
            parts.append(
                turn(same_size, items, {"n_points": len(ids), "columns": _list_columns(same_size)})
            )
    return _join(parts, ids) if parts else None


def _list_columns(answers: Sequence[Row]) -> Row:
    moments = [datetime.fromtimestamp(a["time"], UTC) for a in answers]
    return {
        "who": [a["person"] for a in answers],
        "time": [moment.isoformat(timespec="milliseconds") for moment in moments],
        "seconds": ["" if a["seconds"] is None else f"{a['seconds']:.3f}" for a in answers],
        "source": [a["source"] for a in answers],
        "question": [a["id"] for a in answers],
    }


def _turn_triplets(answers: Sequence[Row], items: IntArray, more: Row) -> Constraints:
    votes = np.array([[1 in a["choice"], 2 in a["choice"], not a["choice"]] for a in answers])
    return Constraints.from_votes(items, votes.astype(int), **more)


def _turn_odd(answers: Sequence[Row], items: IntArray, more: Row) -> Constraints:
    odd = [
        row[a["choice"][0]] if a["choice"] else -1 for a, row in zip(answers, items, strict=True)
    ]
    return Constraints.from_odd_one_out(items, odd, **more)


def _turn_picks(answers: Sequence[Row], items: IntArray, more: Row) -> Constraints:
    chosen = [
        row[a["choice"]] if a["choice"] else [-1] for a, row in zip(answers, items, strict=True)
    ]
    return Constraints.from_picks(items[:, 0], items[:, 1:], np.array(chosen), **more)


def _turn_pairs(answers: Sequence[Row], items: IntArray, more: Row) -> Constraints:
    labels = [1 if a["choice"] == [SAME] else -1 for a in answers]
    return Constraints(pairs=items, pair_labels=labels, **more)


_TURN: dict[str, Callable[..., Constraints]] = {
    "triplet": _turn_triplets,
    "odd": _turn_odd,
    "pick": _turn_picks,
    "same": _turn_pairs,
}


def _join(parts: Sequence[Constraints], ids: Sequence[str]) -> Constraints:
    """Return all parts in one, with names; no column describes those that became several."""
    joined = Constraints.concat(parts)
    columns = {name: joined.columns[name] for name in joined.columns if name != "answer_number"}
    return joined._replaced(columns=columns, ids=check_ids(ids))

"""Triplets, pairs and quadruplets in one file, told apart by the column kind."""

from functools import partial
from types import ModuleType

import numpy as np

from mdaml._typing import BoolArray, IntArray
from mdaml.constraints.forms import answers, pairs, quadruplets, triplets

COLUMNS = ("kind", "a", "b", "c", "d", "label")
KINDS: dict[str, ModuleType] = {"triplet": triplets, "pair": pairs, "quadruplet": quadruplets}


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return the kind, the four members and the label of each line, and the faults of lines."""
    n, texts = len(cells[0]), dict(zip(COLUMNS, cells, strict=True))
    kind = reader.look_up(texts["kind"], _parse_kind)
    members, label = np.zeros((n, 4), np.int64), np.zeros(n, np.int64)
    filled = {name: np.fromiter(map(bool, column), bool, n) for name, column in texts.items()}
    faults: list[answers.Fault] = [
        (kind < 0, lambda at: f"kind is {texts['kind'][at]!r}, not triplet, pair or quadruplet")
    ]
    for number, (name, form) in enumerate(KINDS.items()):
        rows = np.flatnonzero(kind == number)
        if len(rows) == 0:
            continue
        own = [texts[column] for column in form.COLUMNS]
        if len(rows) < n:
            own = [[column[row] for row in rows.tolist()] for column in own]
        arrays, wrong = form.parse(reader, own)
        members[rows, : arrays[0].shape[1]] = arrays[0]
        if form is pairs:
            label[rows] = arrays[1]
        faults += [_of_lines(n, rows, *fault) for fault in wrong]
        for column in COLUMNS[1:]:
            if column not in form.COLUMNS and filled[column].any():
                extra = (kind == number) & filled[column]
                faults.append((extra, partial(_describe_extra, column, texts[column], name)))
    return (kind, members, label), faults


def split_kinds(
    kind: IntArray, members: IntArray, label: IntArray
) -> tuple[dict[str, IntArray], IntArray]:
    """Return the arrays of each kind by name, and the order of the lines in them."""
    of_pairs = kind == 1
    arrays = {"triplets": members[kind == 0, :3], "pairs": members[of_pairs, :2]}
    arrays |= {"pair_labels": label[of_pairs], "quadruplets": members[kind == 2]}
    return arrays, np.argsort(kind, kind="stable")


def _of_lines(n: int, rows: IntArray, bad: BoolArray, reason: object) -> answers.Fault:
    """Return a fault of some of n lines as one of all of them."""
    mask = np.zeros(n, bool)
    mask[rows] = bad
    if isinstance(reason, str):
        return mask, reason
    assert callable(reason)
    return mask, lambda at: reason(int(np.searchsorted(rows, at)))


def _describe_extra(column: str, texts: list[str], kind: str, at: int) -> str:
    return f"{column} is {texts[at]!r}, which a {kind} does not have"


def _parse_kind(text: str) -> int:
    name = text.strip().lower()
    return list(KINDS).index(name) if name in KINDS else -1

"""What single cells of a file of answers mean: points, options, weights and numbers."""

import json

import numpy as np

from mdaml.constraints.names import NOBODY

NO_ANSWER, NO_OPTION = -2, -3  # in place of an option
_UNDECIDED = {"neither", "none", "tie", "equal", "both"}
_SIDES = {"b": 0, "c": 1, "left": 0, "right": 1, "1": 0, "2": 1}


def split_points(cell: str) -> list[str]:
    """Return the points that one cell names: a JSON list, or texts with | or ; between."""
    text = cell.strip()
    if text.startswith("["):
        try:
            return [str(item) for item in json.loads(text)]
        except ValueError:
            return [text]
    mark = "|" if "|" in text else ";"
    return [part.strip() for part in text.split(mark) if part.strip()]


def find_place(cell: str, n_options: int, first: int | None) -> int:
    """Return the option that a text means: -1 for neither, less than -1 if it means no option."""
    text = cell.strip().lower().removesuffix(".0")
    if first is not None and text.isdigit():
        place = int(text) - first
        neither = NOBODY if place == n_options == 2 else NO_OPTION
        return place if 0 <= place < n_options else neither
    if text in _UNDECIDED:
        return NOBODY
    if n_options == 2 and text in _SIDES:
        return _SIDES[text]
    return NO_ANSWER if text in ("", "null") else NO_OPTION


def parse_weight(text: str) -> float:
    """Return a weight: 1 for an empty cell, negative for a text that is no weight."""
    weight = parse_number(text) if text else 1.0
    return weight if 1e-100 <= weight <= 1e100 else -1.0  # as in check_weights


def parse_number(text: str) -> float:
    """Return a cell as a number, NaN if it is not one; a decimal comma is accepted."""
    plain = text.replace("_", "?")
    plain = plain.replace(",", ".") if plain.count(",") == 1 and "." not in plain else plain
    try:
        return float(plain)
    except ValueError:
        return np.nan

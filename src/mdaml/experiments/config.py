"""The contents of ``paper.toml``: data sets, methods and their grids."""

import itertools
import tomllib
from importlib.resources import files
from typing import Any

import numpy as np

CONFIG: dict[str, Any] = tomllib.loads(
    (files("mdaml.experiments") / "paper.toml").read_text(encoding="utf-8")
)
METHODS = tuple(CONFIG["methods"])
DATASETS = (*CONFIG["datasets"]["uci"], *CONFIG["datasets"]["images"])
# Data sets that are not in the paper; none of the library's defaults was chosen on them.
CONFIRMATION = tuple(CONFIG["datasets"]["confirmation"])


def combinations(method: str, quick: bool) -> list[dict[str, Any]]:
    """Return all combinations of a method's grid; without a grid, one empty combination."""
    grid = CONFIG["methods"][method].get("grid", {})
    n_values = CONFIG["quick"]["grid_values"] if quick else None
    values = [spread(entries, n_values) for entries in grid.values()]
    return [dict(zip(grid, choice, strict=True)) for choice in itertools.product(*values)]


def spread(values: list[Any], n: int | None) -> list[Any]:
    """Return n of the values, spread evenly over the list; None returns all."""
    if n is None or n >= len(values):
        return values
    places = (np.arange(n) + 0.5) * len(values) / n
    return [values[int(place)] for place in places]

"""The contents of ``paper.toml``: data sets, methods and their grids."""

import tomllib
from importlib.resources import files

import numpy as np

from mdaml.experiments.records import Record

CONFIG: Record = tomllib.loads(
    (files("mdaml.experiments") / "paper.toml").read_text(encoding="utf-8")
)
METHODS = tuple(CONFIG["methods"])
UCI = tuple(CONFIG["datasets"]["uci"])
IMAGES = tuple(CONFIG["datasets"]["images"])
DATASETS = (*UCI, *IMAGES)
# Data sets that are not in the paper; none of the library's defaults was chosen on them.
CONFIRMATION = tuple(CONFIG["datasets"]["confirmation"])
CONVERGENCE = tuple(CONFIG["convergence"]["datasets"])
PARAMETERS = tuple(CONFIG["sensitivity"]["fixed"])
LETTERS: dict[str, str] = CONFIG["letters"]

OURS = "MDaML (ours)"
PAPER = "MDaML (paper)"
PUBLISHED_GRID = f"{PAPER}, published grid"
FIXED = f"{PAPER}, fixed weights"
VARIANTS = tuple(method for method in METHODS if method.startswith("MDaML") and method != OURS)
RIVALS = tuple(method for method in METHODS if method not in (OURS, *VARIANTS))
SETTINGS = {"paper": PAPER, "library": PAPER, "neighbors": OURS}  # of sensitivity, by method

# Names of methods in older records, and their names today.
FORMER = {e["formerly"]: name for name, e in CONFIG["methods"].items() if "formerly" in e}


def combinations(method: str, quick: bool) -> list[Record]:
    """Return all combinations of a method's grid; without a grid, one empty combination."""
    from sklearn.model_selection import ParameterGrid  # the command reads this file for its help

    grid = CONFIG["methods"][method].get("grid", {})
    n_values = CONFIG["quick"]["grid_values"] if quick else None
    return list(ParameterGrid({name: spread(values, n_values) for name, values in grid.items()}))


def spread(values: list[float], n: int | None) -> list[float]:
    """Return n of the values, spread evenly over the list; None returns all."""
    if n is None or n >= len(values):
        return values
    places = (np.arange(n) + 0.5) * len(values) / n
    return [values[int(place)] for place in places]

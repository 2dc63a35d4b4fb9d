"""Which samples are alike: constraints as users have them, and their grouping for the solver."""

from typing import TYPE_CHECKING

from mdaml._lazy import attach
from mdaml.constraints.labels import neighbor_triplets, sample_triplets
from mdaml.constraints.reading import read_constraints
from mdaml.constraints.value import Constraints

if TYPE_CHECKING:
    from mdaml.constraints.counts import ConstraintCounts
    from mdaml.constraints.problems import InvalidLine

__all__ = [
    "ConstraintCounts",
    "Constraints",
    "InvalidLine",
    "neighbor_triplets",
    "read_constraints",
    "sample_triplets",
]

if not TYPE_CHECKING:  # a type checker would take any misspelt name for one of these
    __getattr__, __dir__ = attach(
        __name__,
        {
            "ConstraintCounts": "mdaml.constraints.counts",
            "InvalidLine": "mdaml.constraints.problems",
        },
    )

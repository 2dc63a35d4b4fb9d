"""Which samples are alike: constraints as users have them, and their grouping for the solver."""

from mdaml.constraints._counts import ConstraintCounts
from mdaml.constraints._files import read_constraints
from mdaml.constraints._table import Problem
from mdaml.constraints.labels import neighbor_triplets, sample_triplets
from mdaml.constraints.value import Constraints

__all__ = [
    "ConstraintCounts",
    "Constraints",
    "Problem",
    "neighbor_triplets",
    "read_constraints",
    "sample_triplets",
]

"""Which rows are compared: constraints as users have them, and their grouping for the solver."""

from mdaml.constraints._counts import ConstraintCounts
from mdaml.constraints._labels import Classes, neighbor_triplets, sample_triplets
from mdaml.constraints._matching import match_pairs
from mdaml.constraints._sets import (
    Comparisons,
    ComparisonSet,
    PairSet,
    TripletSet,
    pairs_of_triplets,
)
from mdaml.constraints._table import Problem
from mdaml.constraints._value import Constraints, read_constraints

__all__ = [
    "Classes",
    "ComparisonSet",
    "Comparisons",
    "ConstraintCounts",
    "Constraints",
    "PairSet",
    "Problem",
    "TripletSet",
    "match_pairs",
    "neighbor_triplets",
    "pairs_of_triplets",
    "read_constraints",
    "sample_triplets",
]

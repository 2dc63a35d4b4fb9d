"""Which rows are compared: comparisons drawn from labels, and their grouping for the solver."""

from mdaml.constraints._labels import Classes, neighbor_triplets, sample_triplets
from mdaml.constraints._matching import match_pairs
from mdaml.constraints._sets import (
    Comparisons,
    ComparisonSet,
    PairSet,
    TripletSet,
    pairs_of_triplets,
)

__all__ = [
    "Classes",
    "ComparisonSet",
    "Comparisons",
    "PairSet",
    "TripletSet",
    "match_pairs",
    "neighbor_triplets",
    "pairs_of_triplets",
    "sample_triplets",
]

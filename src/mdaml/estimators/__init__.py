"""The metric learners."""

from mdaml.estimators._euclidean import Euclidean
from mdaml.estimators._gmml import GMML
from mdaml.estimators._kissme import KISSME
from mdaml.estimators._mdaml import MDaML

__all__ = ["GMML", "KISSME", "Euclidean", "MDaML"]

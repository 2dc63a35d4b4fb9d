"""The metric learners."""

from mdaml.estimators._mdaml import MDaML

__all__ = ["MDaML"]

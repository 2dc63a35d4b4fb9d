"""Metrics of persons and of kinds of persons."""

from mdaml.people._personal import PersonalMetrics

__all__ = ["PersonalMetrics"]

"""Metrics of persons."""

from mdaml.people._personal import PersonalMetrics

__all__ = ["PersonalMetrics"]

"""Metrics of persons and of kinds of people."""

from mdaml.people._personal import PersonalMetrics

__all__ = ["PersonalMetrics"]

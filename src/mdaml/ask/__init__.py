"""A page where people compare items, and a metric that learns while they do."""

from mdaml.ask.interview import Interview, serve
from mdaml.ask.questions import Plan

__all__ = ["Interview", "Plan", "serve"]

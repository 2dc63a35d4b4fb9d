"""A page where people compare items, and a metric that learns while they do."""

from mdaml.ask.interview import Interview, serve

__all__ = ["Interview", "serve"]

"""A page where people compare items, and a metric that learns while they do."""

from typing import TYPE_CHECKING

from mdaml._lazy import attach

if TYPE_CHECKING:
    from mdaml.ask.interview import Interview, serve
    from mdaml.ask.questions import Plan

__all__ = ["Interview", "Plan", "serve"]

if not TYPE_CHECKING:  # help(mdaml) loads this package, also where the extra is not installed
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Interview": "mdaml.ask.interview",
            "Plan": "mdaml.ask.questions",
            "serve": "mdaml.ask.interview",
        },
    )

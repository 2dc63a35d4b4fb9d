"""The experiments of the paper: run them, resume them, report them.

The commands are ``mdaml paper run`` and ``mdaml paper report``. From Python, on a cluster for
instance, use ``make_plan``, ``run`` and ``read_records``.
"""

from typing import TYPE_CHECKING

from mdaml._lazy import attach
from mdaml.experiments.config import CONFIRMATION, DATASETS, METHODS

if TYPE_CHECKING:
    from mdaml.experiments.protocol import Job, make_plan, run
    from mdaml.experiments.records import read_records

__all__ = ["CONFIRMATION", "DATASETS", "METHODS", "Job", "make_plan", "read_records", "run"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            **dict.fromkeys(("Job", "make_plan", "run"), "mdaml.experiments.protocol"),
            "read_records": "mdaml.experiments.records",
        },
    )

"""The experiments of the paper: run them, resume them, report them.

``mdaml paper run`` and ``mdaml paper report`` are the way in; ``make_plan``, ``run`` and
``read_records`` do the same from Python, for a cluster for instance.
"""

from mdaml.experiments.config import CONFIRMATION, DATASETS, METHODS
from mdaml.experiments.protocol import Job, Plan, make_plan, run
from mdaml.experiments.records import read_records

__all__ = ["CONFIRMATION", "DATASETS", "METHODS", "Job", "Plan", "make_plan", "read_records", "run"]

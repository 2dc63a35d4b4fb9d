"""Python loads this at its start if the folder is on PYTHONPATH; see ../hide_packages.py."""

import os
import sys
from importlib.machinery import PathFinder

# JSON would be imported by every child; names have no commas.
MODULES = frozenset(os.environ.get("MDAML_HIDDEN_MODULES", "").split(","))
DISTRIBUTIONS = frozenset(os.environ.get("MDAML_HIDDEN_DISTRIBUTIONS", "").split(","))


class Finder(PathFinder):
    """Finds what lies on the path, except what is hidden: as if it were not installed."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        hidden = fullname.partition(".")[0] in MODULES
        return None if hidden else PathFinder.find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *args, **kwargs):
        for found in PathFinder.find_distributions(*args, **kwargs):
            if found.name.lower().replace("_", "-") not in DISTRIBUTIONS:
                yield found


sys.meta_path[sys.meta_path.index(PathFinder)] = Finder

"""The rules of the suite: collection, needs, children, leftovers, what was skipped or used."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tests"))
PLUGINS = ("collection", "needs", "children", "leftovers", "skips", "used")
pytest_plugins = [f"suite.{name}" for name in PLUGINS]

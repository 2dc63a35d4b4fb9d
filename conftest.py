"""The rules of the suite: needs, children, what is left behind, what was skipped."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tests"))
pytest_plugins = ["suite.needs", "suite.children", "suite.leftovers", "suite.skips"]

"""The rules of the suite: needs, children, what is left behind, what was skipped or used."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tests"))
pytest_plugins = [f"suite.{name}" for name in ("needs", "children", "leftovers", "skips", "used")]

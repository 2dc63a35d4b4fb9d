"""Arrow, which reads and writes tables; loaded when a table is."""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def load_arrow() -> Any:
    """Return pyarrow with the parts that are used here."""
    for part in ("compute", "csv", "parquet"):
        import_module(f"pyarrow.{part}")
    return import_module("pyarrow")

"""The hot loops, compiled. Everything else in the library is plain array code.

The compiler is loaded by the first use of a kernel, not by ``import mdaml``: it takes longer to
import than the rest of the library.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a kernel for the CPU, importing the compiler now."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(import_module("mdaml.kernels.cpu"), name)

"""Learn a distance from weak supervision."""

from importlib.metadata import version

from mdaml.estimators import (
    DMLMJ,
    GMML,
    KISSME,
    LFDA,
    LMNN,
    DMLdc,
    DMLeig,
    Euclidean,
    MDaML,
    MDaMLCV,
)

__version__ = version("mdaml")
__all__ = [
    "DMLMJ",
    "GMML",
    "KISSME",
    "LFDA",
    "LMNN",
    "DMLdc",
    "DMLeig",
    "Euclidean",
    "MDaML",
    "MDaMLCV",
    "__version__",
]

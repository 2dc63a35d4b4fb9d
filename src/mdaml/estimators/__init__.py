"""The metric learners."""

from typing import TYPE_CHECKING

from mdaml._lazy import attach

if TYPE_CHECKING:
    from mdaml.estimators.dml_dc import DMLdc
    from mdaml.estimators.dml_eig import DMLeig
    from mdaml.estimators.dmlmj import DMLMJ
    from mdaml.estimators.euclidean import Euclidean
    from mdaml.estimators.gmml import GMML
    from mdaml.estimators.kissme import KISSME
    from mdaml.estimators.lfda import LFDA
    from mdaml.estimators.lmnn import LMNN
    from mdaml.estimators.local import LocalMDaML
    from mdaml.estimators.mdaml import MDaML
    from mdaml.estimators.mdaml_cv import MDaMLCV

__all__ = [
    "DMLMJ",
    "GMML",
    "KISSME",
    "LFDA",
    "LMNN",
    "DMLdc",
    "DMLeig",
    "Euclidean",
    "LocalMDaML",
    "MDaML",
    "MDaMLCV",
]

if not TYPE_CHECKING:  # a type checker would take any misspelt name for one of these
    _files = {name: name.lower() for name in __all__}
    _files |= {"DMLdc": "dml_dc", "DMLeig": "dml_eig", "LocalMDaML": "local", "MDaMLCV": "mdaml_cv"}
    _homes = {name: f"mdaml.estimators.{file}" for name, file in _files.items()}
    __getattr__, __dir__ = attach(__name__, _homes)

"""The metric learners."""

from mdaml.estimators._dml_dc import DMLdc
from mdaml.estimators._dml_eig import DMLeig
from mdaml.estimators._dmlmj import DMLMJ
from mdaml.estimators._euclidean import Euclidean
from mdaml.estimators._gmml import GMML
from mdaml.estimators._kissme import KISSME
from mdaml.estimators._lfda import LFDA
from mdaml.estimators._lmnn import LMNN
from mdaml.estimators._mdaml import MDaML
from mdaml.estimators._mdaml_cv import MDaMLCV

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
]

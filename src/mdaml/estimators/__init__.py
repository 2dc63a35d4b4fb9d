"""The metric learners."""

from mdaml.estimators.dml_dc import DMLdc
from mdaml.estimators.dml_eig import DMLeig
from mdaml.estimators.dmlmj import DMLMJ
from mdaml.estimators.euclidean import Euclidean
from mdaml.estimators.gmml import GMML
from mdaml.estimators.kissme import KISSME
from mdaml.estimators.lfda import LFDA
from mdaml.estimators.lmnn import LMNN
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
    "MDaML",
    "MDaMLCV",
]

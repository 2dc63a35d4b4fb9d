"""Files of models: a zip of arrays and one JSON document, written atomically, read with suspicion.

Nothing here knows an estimator by name: a model is a class name, parameters and what was learned.
"""

from mdaml.archive._atomic import replacing
from mdaml.archive._learned import check_learned
from mdaml.archive._model import (
    TRAINING_ONLY,
    Build,
    is_learned_name,
    read_model,
    write_model,
)

__all__ = [
    "TRAINING_ONLY",
    "Build",
    "check_learned",
    "is_learned_name",
    "read_model",
    "replacing",
    "write_model",
]

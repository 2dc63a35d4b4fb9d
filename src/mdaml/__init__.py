"""Learn a distance from weak supervision."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mdaml import estimators
from mdaml.estimators import *  # noqa: F403 (one list of the methods: that of estimators)

if TYPE_CHECKING:
    from mdaml import ask as ask
    from mdaml import datasets as datasets
    from mdaml import distributed as distributed
    from mdaml import features as features
    from mdaml import inspection as inspection
    from mdaml import model_selection as model_selection
    from mdaml import people as people
    from mdaml import plot as plot
    from mdaml import retrieval as retrieval
    from mdaml import verification as verification
    from mdaml.constraints import Constraints
    from mdaml.estimators.pipelines import FoldedMetric, fold_pipeline
    from mdaml.inspection import audit, suggest_queries
    from mdaml.persistence import load
    from mdaml.verification import PairVerifier

__version__: str
__all__ = ["Constraints", "FoldedMetric", "PairVerifier", "__version__", "audit"]
__all__ += ["fold_pipeline", "load", "suggest_queries"]
__all__ += estimators.__all__

# Found on first use, so that `import mdaml` stays light.
_HOMES = {
    "Constraints": "mdaml.constraints",
    "FoldedMetric": "mdaml.estimators.pipelines",
    "fold_pipeline": "mdaml.estimators.pipelines",
    "PairVerifier": "mdaml.verification",
    "audit": "mdaml.inspection",
    "load": "mdaml.persistence",
    "suggest_queries": "mdaml.inspection",
}
_MODULES = (
    *("ask", "datasets", "distributed", "features", "inspection", "model_selection"),
    *("people", "plot", "retrieval", "verification"),
)


if not TYPE_CHECKING:  # a type checker would take any misspelt name for one of these

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        if name in _MODULES:
            return import_module(f"mdaml.{name}")
        if name == "__version__":  # the module that finds it loads a parser of e-mails
            return import_module("importlib.metadata").version("mdaml")
        raise AttributeError(f"module 'mdaml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})

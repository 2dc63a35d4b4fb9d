"""Learn a distance from weak supervision."""

from typing import TYPE_CHECKING

from mdaml import estimators
from mdaml._lazy import attach

if TYPE_CHECKING:
    from mdaml import ask as ask
    from mdaml import constraints as constraints
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
    from mdaml.estimators import *  # noqa: F403 (one list of the methods: that of estimators)
    from mdaml.estimators.pipelines import FoldedMetric, fold_pipeline
    from mdaml.estimators.presets import PRESETS, Partners, Preset
    from mdaml.inspection import audit, suggest_queries
    from mdaml.persistence import load
    from mdaml.stores.choice import limit_memory
    from mdaml.verification import PairVerifier

__version__: str
__all__ = ["PRESETS", "Constraints", "FoldedMetric", "PairVerifier", "Partners", "Preset"]
__all__ += ["__version__", "audit", "fold_pipeline", "limit_memory", "load", "suggest_queries"]
__all__ += estimators.__all__

if not TYPE_CHECKING:  # a type checker would take any misspelt name for one of these
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Constraints": "mdaml.constraints",
            "__version__": "mdaml._version",  # what finds it loads a parser of e-mails
            "FoldedMetric": "mdaml.estimators.pipelines",
            **dict.fromkeys(("PRESETS", "Partners", "Preset"), "mdaml.estimators.presets"),
            "limit_memory": "mdaml.stores.choice",
            "fold_pipeline": "mdaml.estimators.pipelines",
            "PairVerifier": "mdaml.verification",
            "audit": "mdaml.inspection",
            "load": "mdaml.persistence",
            "suggest_queries": "mdaml.inspection",
            **dict.fromkeys(estimators.__all__, "mdaml.estimators"),
        },
        (
            *("ask", "constraints", "datasets", "distributed", "estimators", "features"),
            *("inspection", "model_selection", "people", "plot", "retrieval", "verification"),
        ),
    )

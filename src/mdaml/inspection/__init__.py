"""What a fitted model did: audit of its comparisons, queries worth asking, explanations."""

from mdaml.inspection._audit import CATEGORIES, audit
from mdaml.inspection._explanation import (
    ModeMap,
    effective_rank,
    explain_distance,
    feature_relevance,
    mode_map,
)
from mdaml.inspection._kinds import describe_kinds
from mdaml.inspection._labels import audit_labels
from mdaml.inspection._queries import suggest_queries
from mdaml.inspection.verification import PairVerifier

__all__ = [
    "CATEGORIES",
    "ModeMap",
    "PairVerifier",
    "audit",
    "audit_labels",
    "describe_kinds",
    "effective_rank",
    "explain_distance",
    "feature_relevance",
    "mode_map",
    "suggest_queries",
]

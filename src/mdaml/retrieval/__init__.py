"""Search that learns: adapters for embeddings, and scores of retrieval."""

from mdaml.retrieval._adapter import QueryAdapter
from mdaml.retrieval._scores import RetrievalScores, retrieval_scores

__all__ = ["QueryAdapter", "RetrievalScores", "retrieval_scores"]

"""Embedding models of other libraries whose queries pass through an adapter.

Loaded only if one is asked for: each class derives from one of its library.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from llama_index.core.embeddings import BaseEmbedding

Map = Callable[[Any], Any]  # vectors to vectors


def _mapped(transform: Map, vectors: list[list[float]]) -> list[list[float]]:
    mapped: list[list[float]] = transform(np.asarray(vectors, np.float64)).tolist()
    return mapped


def wrap_langchain(model: "Embeddings", map_query: Map, map_documents: Map) -> "Embeddings":
    """Return embeddings of LangChain that map what ``model`` returns."""
    from langchain_core.embeddings import Embeddings

    class AdaptedEmbeddings(Embeddings):
        """Embeddings with mapped queries."""

        def embed_query(self, text: str) -> list[float]:
            return _mapped(map_query, [model.embed_query(text)])[0]

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            vectors = model.embed_documents(texts)
            return _mapped(map_documents, vectors) if vectors else []

        async def aembed_query(self, text: str) -> list[float]:
            return _mapped(map_query, [await model.aembed_query(text)])[0]

        async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
            vectors = await model.aembed_documents(texts)
            return _mapped(map_documents, vectors) if vectors else []

    return AdaptedEmbeddings()


def wrap_llama_index(model: "BaseEmbedding", map_query: Map, map_documents: Map) -> "BaseEmbedding":
    """Return an embedding model of LlamaIndex that maps what ``model`` returns."""
    from llama_index.core.embeddings import BaseEmbedding

    class AdaptedEmbedding(BaseEmbedding):
        """An embedding model with mapped queries."""

        def _get_query_embedding(self, query: str) -> list[float]:
            return _mapped(map_query, [model.get_query_embedding(query)])[0]

        def _get_text_embedding(self, text: str) -> list[float]:
            return _mapped(map_documents, [model.get_text_embedding(text)])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return _mapped(map_documents, model.get_text_embedding_batch(texts))

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return _mapped(map_query, [await model.aget_query_embedding(query)])[0]

        async def _aget_text_embedding(self, text: str) -> list[float]:
            return _mapped(map_documents, [await model.aget_text_embedding(text)])[0]

    return AdaptedEmbedding(
        model_name=f"{model.model_name}, adapted", embed_batch_size=model.embed_batch_size
    )

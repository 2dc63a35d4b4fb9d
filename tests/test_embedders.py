"""Adapters in front of the embeddings of LangChain and LlamaIndex, with the real packages."""

import asyncio

import numpy as np
import pytest

from mdaml.retrieval import QueryAdapter

TEXTS = [f"text {n}" for n in range(30)]


def fit(documents, **parameters):
    pairs = np.column_stack([np.arange(10), np.arange(10) + 10])
    return QueryAdapter(anchor=0.1, **parameters).fit(documents[:10], documents, pairs)


@pytest.mark.parametrize("symmetric", [False, True])
def test_langchain_searches_with_mapped_queries(symmetric):
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    encoder = DeterministicFakeEmbedding(size=8)
    documents = np.array(encoder.embed_documents(TEXTS))
    adapter = fit(documents, similarity="dot", symmetric=symmetric)
    adapted = adapter.to_langchain(encoder)
    assert adapted.embed_query(TEXTS[3]) == pytest.approx(adapter.transform_queries(documents[3]))
    stored = adapter.transform_documents(documents)
    assert np.array(adapted.embed_documents(TEXTS)) == pytest.approx(stored)
    assert adapted.embed_documents([]) == []
    assert asyncio.run(adapted.aembed_query(TEXTS[3])) == adapted.embed_query(TEXTS[3])
    several = asyncio.run(adapted.aembed_documents(TEXTS[:2]))
    assert several == adapted.embed_documents(TEXTS[:2])
    store = InMemoryVectorStore(adapted)
    store.add_texts(TEXTS)
    found = [document.page_content for document in store.similarity_search(TEXTS[3], k=5)]
    mapped = adapter.transform_queries(documents[3])
    cosines = stored @ mapped / np.linalg.norm(stored, axis=1)
    assert found == [TEXTS[n] for n in np.argsort(-cosines)[:5]]


def test_llama_index_searches_with_mapped_queries():
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode

    class Encoder(BaseEmbedding):
        def _get_query_embedding(self, query):
            return np.random.default_rng(int(query.split()[1])).normal(size=8).tolist()

        def _get_text_embedding(self, text):
            return self._get_query_embedding(text)

        async def _aget_query_embedding(self, query):
            return self._get_query_embedding(query)

    encoder = Encoder()
    documents = np.array(encoder.get_text_embedding_batch(TEXTS))
    adapter = fit(documents)
    adapted = adapter.to_llama_index(encoder)
    mapped = adapter.transform_queries(documents[3])
    assert adapted.get_query_embedding(TEXTS[3]) == pytest.approx(mapped)
    assert asyncio.run(adapted.aget_query_embedding(TEXTS[3])) == pytest.approx(mapped)
    stored = adapter.transform_documents(documents)
    assert np.array(adapted.get_text_embedding_batch(TEXTS)) == pytest.approx(stored)
    assert asyncio.run(adapted.aget_text_embedding(TEXTS[0])) == pytest.approx(stored[0])
    index = VectorStoreIndex([TextNode(text=text) for text in TEXTS], embed_model=adapted)
    found = [node.text for node in index.as_retriever(similarity_top_k=5).retrieve(TEXTS[3])]
    assert found == [TEXTS[n] for n in np.argsort(-(stored @ mapped))[:5]]

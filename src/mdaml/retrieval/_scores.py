"""How well queries find their documents: recall, precision, hit rate, MRR, MAP and nDCG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml.kernels.products import blocks, rows_per_block
from mdaml.retrieval._relevance import Ids, Relevance, read_relevance
from mdaml.retrieval._search import search
from mdaml.stores.choice import find_device

Mapping: TypeAlias = Callable[[FloatArray], FloatArray]
SIMILARITIES = ("cosine", "dot", "euclidean")
MEASURES = ("recall", "precision", "hit_rate", "mrr", "map", "ndcg")
_BOOTSTRAP = 1 << 22  # entries of the drawn samples held at a time
_ROWS_OF_LENGTHS = 256  # in double precision at a time, in the cache


@dataclass(frozen=True)
class RetrievalScores:
    """Scores of a search and of the base, query by query and on average.

    Attributes
    ----------
    measures : tuple of str
        Names such as ``"ndcg@10"``.
    scores, base : dict of str to float
        Means over the queries that have a relevant document.
    difference : dict of str to float
        ``scores - base``.
    interval : dict of str to tuple of float
        95 % interval of each difference, by a paired bootstrap over queries.
    queries : array of shape (n_scored,)
        Rows of the queries that were scored.
    per_query, base_per_query : dict of str to array of shape (n_scored,)
        Scores of each of them.
    lost : list of tuple (int, float, float)
        Query row, nDCG and nDCG of the base at the largest k, for the queries that lost most.

    Examples
    --------
    >>> from mdaml.retrieval import retrieval_scores
    >>> documents = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    >>> found = retrieval_scores(None, [[0.9, 0.1]], documents, [[0, 2]], k=(1, 2))
    >>> found.scores["hit_rate@1"], found.scores["hit_rate@2"], found.scores["mrr@2"]
    (0.0, 1.0, 0.5)
    """

    measures: tuple[str, ...]
    scores: dict[str, float]
    base: dict[str, float]
    difference: dict[str, float]
    interval: dict[str, tuple[float, float]]
    queries: IntArray = field(repr=False)
    per_query: dict[str, FloatArray] = field(repr=False)
    base_per_query: dict[str, FloatArray] = field(repr=False)
    lost: list[tuple[int, float, float]] = field(repr=False)

    def __str__(self) -> str:
        """Return a table."""
        lines = [f"{'':14}{'score':>8}{'base':>8}{'change':>9}  95 % interval"]
        for name in self.measures:
            low, high = self.interval[name]
            lines.append(
                f"{name:14}{self.scores[name]:8.4f}{self.base[name]:8.4f}"
                f"{self.difference[name]:+9.4f}  {low:+.4f} to {high:+.4f}"
            )
        return "\n".join([*lines, f"{len(self.queries)} queries"])


def retrieval_scores(
    model_or_vectors: Any,
    queries: ArrayLike,
    documents: ArrayLike,
    relevant: ArrayLike,
    k: int | Sequence[int] = (1, 5, 10),
    *,
    ids: Ids | None = None,
    similarity: str | None = None,
    n_bootstrap: int = 2000,
    n_lost: int = 10,
    device: str | None = None,
    random_state: Any = 0,
) -> RetrievalScores:
    """Score a search for documents, compared with the base: the vectors as they are.

    The search is exact and done in blocks, so that memory does not grow with
    ``n_queries * n_documents``. Of equally near documents the earlier row comes first.

    Parameters
    ----------
    model_or_vectors : fitted model, array, pair of arrays, or None
        What to score: a :class:`QueryAdapter`; a metric of this library, which ranks by Euclidean
        distance after ``transform``; mapped queries of shape (n_queries, n_features); mapped
        queries and mapped documents; None scores the vectors as they are.
    queries : array-like of shape (n_queries, n_features)
        Vectors of the queries.
    documents : array-like of shape (n_documents, n_features)
        Vectors of the documents.
    relevant : array-like of shape (n_pairs, 2) or (n_pairs, 3)
        Query row, document row, and optionally a grade: the higher, the more relevant; 0 is not
        relevant.
    k : int or sequence of int, default=(1, 5, 10)
        How many of the best documents to look at.
    ids : pair of sequences, default=None
        Names of the queries and of the documents, if ``relevant`` names them.
    similarity : {"cosine", "dot", "euclidean"}, default=None
        How documents are ranked. None: that of the model; Euclidean for a metric; otherwise cosine.
    n_bootstrap : int, default=2000
        Number of bootstrap samples of the queries, for the intervals.
    n_lost : int, default=10
        How many of the queries that lost most to list.
    device : {None, "cpu", "cuda", "auto"}, default=None
        None searches with NumPy, the others with torch.
    random_state : int, RandomState or None, default=0
        Seed of the bootstrap.

    Returns
    -------
    scores : RetrievalScores
        Six scores for each k, means of the queries that have a relevant document.
        ``recall``: the share of the relevant documents that were found.
        ``precision``: the share of the found ones that are relevant.
        ``hit_rate``: whether any was found. ``mrr``: one over the rank of the first.
        ``map``: the mean of the precision at the ranks of the relevant, 0 for those not found.
        ``ndcg``: the discounted gain, where the gain is the grade, as in trec_eval.

    See Also
    --------
    QueryAdapter : Learns from pairs or clicks.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.retrieval import retrieval_scores
    >>> rng = np.random.default_rng(0)
    >>> documents = rng.normal(size=(50, 4))
    >>> queries = documents[:20] * [1, 1, -1, 1]
    >>> relevant = np.column_stack([np.arange(20), np.arange(20)])
    >>> found = retrieval_scores(queries * [1, 1, -1, 1], queries, documents, relevant, k=1)
    >>> found.scores["recall@1"], found.difference["recall@1"] > 0
    (1.0, True)
    """
    depths = _check_depths(k)
    device = find_device("retrieval_scores(device=...)", device)
    Q, X = (_check_vectors(A, name) for A, name in ((queries, "queries"), (documents, "documents")))
    if Q.shape[1] != X.shape[1]:
        raise ValueError(
            f"queries have {Q.shape[1]} features, documents {X.shape[1]}; both must come from the "
            "same encoder."
        )
    pairs = read_relevance(relevant, ids, len(Q), len(X))
    scored = np.unique(pairs.queries)
    kind, mapped_kind = _choose_similarities(model_or_vectors, similarity)
    if kind == "cosine" and getattr(model_or_vectors, "similarity", kind) == "cosine":
        Q, X = scale_rows(Q), scale_rows(X)  # once: a copy of many documents is large
    mapped = _map(model_or_vectors, Q, X, scored, mapped_kind == "euclidean")
    pairs = pairs.of(scored)
    base = measure(Q[scored], X, kind, pairs, depths, device)
    ours = base
    if mapped is not None:
        q, x = mapped
        ours = measure(q, x, mapped_kind, pairs, depths, device)
    return _compare(ours, base, scored, (n_bootstrap, n_lost, random_state))


def scale_rows(A: FloatArray) -> FloatArray:
    """Return rows of length one; zero rows stay."""
    lengths = np.empty(len(A))
    for begin, end in blocks(0, len(A), _ROWS_OF_LENGTHS):
        some = A[begin:end].astype(np.float64)
        lengths[begin:end] = np.sqrt(np.vecdot(some, some))
    if np.allclose(lengths, 1.0, rtol=0, atol=1e-6):
        return A
    return A / np.where(lengths > 0, lengths, 1.0)[:, None].astype(A.dtype)


def measure(
    queries: FloatArray,
    documents: FloatArray,
    similarity: str,
    pairs: Relevance,
    depths: Sequence[int],
    device: str | None = None,
) -> dict[str, FloatArray]:
    """Return each measure at each depth for each query; every query has a relevant document."""
    if similarity == "cosine":
        queries, documents = scale_rows(queries), scale_rows(documents)
    by_distance = similarity == "euclidean"
    found, _ = search(queries, documents, max(depths), by_distance=by_distance, device=device)
    return measure_ranking(found, pairs, depths)


def measure_ranking(
    found: IntArray, pairs: Relevance, depths: Sequence[int]
) -> dict[str, FloatArray]:
    """Return the measures of documents that were found, the best first."""
    n, depth = found.shape
    keys = pairs.queries * pairs.n_documents + pairs.documents  # sorted
    sought = np.arange(n)[:, None] * pairs.n_documents + found
    places = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
    gains = np.where(keys[places] == sought, pairs.grades[places], 0.0)
    hits = gains > 0
    n_relevant = np.diff(pairs.starts)
    ranks = np.arange(1, depth + 1)
    discounts = 1.0 / np.log2(ranks + 1)
    precisions = hits.cumsum(axis=1) / ranks
    by_measure: dict[str, FloatArray] = {}
    for k in depths:
        top, n_hits = hits[:, :k], hits[:, :k].sum(axis=1)
        is_hit = n_hits > 0
        ideal = _ideal_gains(pairs, min(k, pairs.n_documents))
        by_measure |= {
            f"recall@{k}": n_hits / n_relevant,
            f"precision@{k}": n_hits / k,
            f"hit_rate@{k}": is_hit.astype(np.float64),
            f"mrr@{k}": is_hit / (1.0 + top.argmax(axis=1)),
            f"map@{k}": (precisions[:, :k] * top).sum(axis=1) / n_relevant,
            f"ndcg@{k}": gains[:, :k] @ discounts[:k] / ideal,
        }
    return by_measure


def _ideal_gains(pairs: Relevance, k: int) -> FloatArray:
    """Return the discounted gain of each query if its best documents came first."""
    order = np.lexsort([-pairs.grades, pairs.queries])
    ranks = np.arange(len(order)) - pairs.starts[pairs.queries]
    kept = ranks < k
    gains = pairs.grades[order] * kept / np.log2(ranks + 2)
    return np.bincount(pairs.queries, gains, minlength=pairs.n_queries).astype(np.float64)


def _compare(
    ours: dict[str, FloatArray],
    base: dict[str, FloatArray],
    rows: IntArray,
    settings: tuple[int, int, Any],
) -> RetrievalScores:
    n_bootstrap, n_lost, random_state = settings
    names = tuple(f"{m}@{n.split('@')[1]}" for n in base for m in MEASURES if n.startswith(m + "@"))
    differences = np.column_stack([ours[name] - base[name] for name in names])
    bounds = _bootstrap(differences, n_bootstrap, check_random_state(random_state))
    deepest = max((n for n in names if n.startswith("ndcg@")), key=lambda n: int(n[5:]))
    change = ours[deepest] - base[deepest]
    worst = [i for i in np.argsort(change, kind="stable")[:n_lost].tolist() if change[i] < 0]
    return RetrievalScores(
        names,
        {name: float(ours[name].mean()) for name in names},
        {name: float(base[name].mean()) for name in names},
        dict(zip(names, differences.mean(axis=0).tolist(), strict=True)),
        {name: (low, high) for name, (low, high) in zip(names, bounds.T.tolist(), strict=True)},
        rows,
        ours,
        base,
        [(int(rows[i]), float(ours[deepest][i]), float(base[deepest][i])) for i in worst],
    )


def _bootstrap(differences: FloatArray, n_samples: int, rng: np.random.RandomState) -> FloatArray:
    """Return 95 % bounds of the means of columns, of shape (2, n_columns)."""
    n = len(differences)
    step = max(1, _BOOTSTRAP // n)
    means = []
    for start in range(0, n_samples, step):
        times = rng.multinomial(n, np.full(n, 1.0 / n), size=min(step, n_samples - start))
        means.append(times @ differences / n)
    return np.quantile(np.concatenate(means), [0.025, 0.975], axis=0)


def _map(
    model: BaseEstimator, Q: FloatArray, X: FloatArray, rows: IntArray, by_distance: bool
) -> tuple[FloatArray, FloatArray] | None:
    """Return mapped queries, of some rows, and documents; None: as they are."""
    if model is None:
        return None
    if hasattr(model, "transform_queries"):
        check_is_fitted(model, "components_")
        maps = model.transform_queries, model.transform_documents
        return _map_both(*maps, Q[rows], X, by_distance)
    if hasattr(model, "transform"):
        return _map_both(model.transform, model.transform, Q[rows], X, by_distance)
    both = model if isinstance(model, tuple) else (model, X)
    if len(both) != 2:
        raise ValueError(
            f"A tuple must hold two arrays, mapped queries and mapped documents, got {len(both)}."
        )
    mapped, stored = (_check_vectors(A, "mapped vectors") for A in both)
    if len(mapped) != len(Q) or len(stored) != len(X) or mapped.shape[1] != stored.shape[1]:
        raise ValueError(
            f"Mapped queries and documents must have {len(Q)} and {len(X)} rows and the same "
            f"columns, got shapes {mapped.shape} and {stored.shape}."
        )
    return mapped[rows], stored


def _map_both(
    map_queries: Mapping, map_documents: Mapping, Q: FloatArray, X: FloatArray, by_distance: bool
) -> tuple[FloatArray, FloatArray]:
    """Return mapped vectors; where distances rank, seen from where the mean document is mapped to.

    These are mapped in double precision, block by block: vectors far from the origin that are
    mapped in single precision lose what they differ by.
    """
    if not by_distance:
        return map_queries(Q), map_documents(X)
    origin = np.asarray(map_documents(X.mean(axis=0, dtype=np.float64)[None]), np.float64)

    def each(mapping: Mapping, A: FloatArray) -> FloatArray:
        out = np.empty((len(A), origin.shape[1]), A.dtype)
        for begin, end in blocks(0, len(A), rows_per_block(A.shape[1], 8)):
            out[begin:end] = np.asarray(mapping(A[begin:end].astype(np.float64))) - origin
        return out

    return each(map_queries, Q), each(map_documents, X)


def _choose_similarities(model: BaseEstimator, similarity: str | None) -> tuple[str, str]:
    """Return by what to rank vectors as they are, and mapped ones."""
    own = getattr(model, "similarity", "euclidean" if hasattr(model, "transform") else "cosine")
    if similarity is not None and similarity not in SIMILARITIES:
        wanted = ", ".join(SIMILARITIES)
        raise ValueError(f"similarity must be one of {wanted}, got {similarity!r}.")
    base = similarity or own
    return base, getattr(model, "search_similarity", base)


def _check_depths(k: int | Sequence[int]) -> list[int]:
    depths = [k] if isinstance(k, int | np.integer) else list(k)
    for depth in depths:
        if not isinstance(depth, Integral) or isinstance(depth, bool) or depth < 1:
            raise ValueError(f"k must be integers of at least 1, got {k!r}.")
    if not depths:
        raise ValueError("k must name at least one depth, such as 10.")
    return sorted({int(depth) for depth in depths})


def _check_vectors(A: ArrayLike, name: str) -> FloatArray:
    """Return finite vectors; half precision becomes single, all but single becomes double."""
    is_single = getattr(A, "dtype", None) in (np.float16, np.float32)
    return check_array(A, dtype=np.float32 if is_single else np.float64, input_name=name)

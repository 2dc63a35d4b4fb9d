"""Exact search by inner products or distances, in blocks, with NumPy or on a device."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mdaml._typing import FloatArray, IntArray

Library: TypeAlias = Any  # numpy or torch, by functions that both have
Values: TypeAlias = Any  # an array of either

_LOOKED_AT = 4096  # documents by which their place is told
_QUERIES, _DOCUMENTS = 1024, 8192  # scores of 32 MB in single precision are held at a time


class Arrays(NamedTuple):
    """A library of arrays, NumPy or torch, and the device of its arrays.

    Code for both uses functions that they have in common.
    """

    xp: Library
    device: str | None

    def put(self, A: Values) -> Values:
        """Return an array of NumPy as one of this library."""
        return A if self.device is None else self.xp.as_tensor(A, device=self.device)

    def fetch(self, A: Values) -> Values:
        """Return an array of this library as one of NumPy."""
        return A if self.device is None else A.cpu().numpy()

    def arange(self, n: int) -> Values:
        """Return the integers below n."""
        return np.arange(n) if self.device is None else self.xp.arange(n, device=self.device)

    def kth_largest(self, S: Values, k: int) -> Values:
        """Return the k-th largest entry of each row, as a column."""
        if self.device is None:
            return np.partition(S, -k, axis=1)[:, -k, None]
        return self.xp.topk(S, k, dim=1).values[:, -1:]


def load_arrays(device: str | None) -> Arrays:
    """Return NumPy, or torch for a device that is there."""
    if device is None:
        return Arrays(np, None)
    import torch

    return Arrays(torch, device)


def search(
    queries: FloatArray,
    documents: FloatArray,
    k: int,
    *,
    by_distance: bool = False,
    device: str | None = None,
) -> tuple[IntArray, FloatArray]:
    """Rows of the k documents with the highest ``query @ document``, and these scores.

    ``by_distance``: of the nearest documents. The scores are then minus half the squared distance,
    up to a constant of the query. The highest come first, ties go to the earlier row. All documents
    are looked at.
    """
    k = min(k, len(documents))
    arrays = load_arrays(device)
    found = np.empty((len(queries), k), np.int64)
    scores = np.empty((len(queries), k), np.result_type(queries, documents))
    # Documents are moved to a device once; there is room for them where there is one.
    stored = documents if device is None else arrays.put(np.ascontiguousarray(documents))
    center: Values = None
    if by_distance:  # products of vectors far from the origin would round differences off
        near = _find_center(documents)
        queries, center = queries - near, arrays.put(near)
    for start in range(0, len(queries), _QUERIES):
        rows = slice(start, start + _QUERIES)
        best = _Best(arrays, k)
        some = arrays.put(np.ascontiguousarray(queries[rows]))
        for first in range(0, len(documents), _DOCUMENTS):
            last = first + _DOCUMENTS
            block = stored[first:last] if center is None else stored[first:last] - center
            S = some @ block.T
            if center is not None:
                S -= 0.5 * (block * block).sum(1)
            best.add(S, first)
        found[rows], scores[rows] = (arrays.fetch(part) for part in (best.rows, best.scores))
    return found, scores


def _find_center(documents: FloatArray) -> FloatArray:
    """Return a point among the documents, as some of them tell.

    Its entries are multiples of a power of two about as large as the documents spread. So vectors
    around the origin stay as they are, and differences of whole numbers exact, ties among them too.
    """
    some = documents[:: 1 + len(documents) // _LOOKED_AT].astype(np.float64)
    spread = float(some.std(axis=0).max(initial=0.0))
    unit = 2.0 ** np.ceil(np.log2(spread)) if spread > 0 else 1.0
    center: FloatArray = np.round(some.mean(axis=0) / unit) * unit
    return center.astype(documents.dtype)


class _Best:
    """The k best documents of each query so far."""

    def __init__(self, arrays: Arrays, k: int) -> None:
        self._arrays, self._k = arrays, k
        self.rows: Values = None  # (n, at most k)
        self.scores: Values = None

    def add(self, S: Values, first: int) -> None:
        """Look at scores of the documents that begin with the row ``first``."""
        xp, k, n = self._arrays.xp, self._k, len(S)
        query, column = xp.where(self._passed(S))
        values, rows = S[query, column], column + first
        width = min(k, S.shape[1])
        if self.scores is not None:
            n_before = self.scores.shape[1]
            before = self._arrays.arange(n * n_before) // n_before
            query = xp.concatenate([before, query])
            values = xp.concatenate([self.scores.reshape(-1), values])
            rows = xp.concatenate([self.rows.reshape(-1), rows])
            width = min(k, n_before + S.shape[1])
        # Stable sorts: earlier rows stay before later ones with the same score.
        order = xp.argsort(-values, stable=True)
        order = order[xp.argsort(query[order], stable=True)]
        counts = xp.bincount(query, None, n)
        begins = xp.cumsum(counts, 0) - counts
        kept = order[self._arrays.arange(len(query)) - begins[query[order]] < k]
        self.rows, self.scores = rows[kept].reshape(n, width), values[kept].reshape(n, width)

    def _passed(self, S: Values) -> Values:
        """Return which scores may be among the best: few, so that sorting them is cheap."""
        k = self._k
        passed = None
        if self.scores is not None and self.scores.shape[1] == k:
            passed = self.scores[:, -1:] < S  # a tie goes to the document that was there before
            if int(passed.sum()) <= 4 * k * len(S):
                return passed
        best_here = self._arrays.kth_largest(S, min(k, S.shape[1])) <= S
        return best_here if passed is None else passed & best_here

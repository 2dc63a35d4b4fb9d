"""How neighbours are searched: exactly or nearly, in memory or on a GPU."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.neighbors import nearest, nearest_rows

Wanted = tuple[int, int]  # neighbours of the same class and of others

_EXACT_UP_TO = 50_000  # labelled rows whose neighbours are searched among all
_WORTH_A_GPU = 1e9  # products of a search for neighbours
_GPU = "cuda"
_BLOCK = 2**21  # distances at a time, of a search for many neighbours

# As :func:`mdaml.kernels.neighbors.nearest`.
ExactSearch = Callable[..., tuple[IntArray, FloatArray]]


def is_exact(n_rows: int) -> bool:
    """Return whether the neighbours of so many labelled rows are searched among all of them."""
    return n_rows <= _EXACT_UP_TO


def nearest_places(
    X: FloatArray, bounds: IntArray, rows: IntArray, wanted: Wanted, recall: float = 0.95
) -> tuple[IntArray, IntArray]:
    """Return the nearest places of each place in its class, and outside; -1 where there are fewer.

    X holds the samples in the order of the places. Of many, at least the share ``recall`` is found.
    """
    if is_exact(len(X)) or recall >= 1.0:
        near = nearest(X, bounds, rows, wanted[0], same=True)
        far = nearest(X, bounds, rows, wanted[1], same=False)
    else:
        from mdaml.neighbors.trees import nearly_nearest  # few fits are so large

        near, far = nearly_nearest(X, bounds, rows, wanted, recall)
    return near[0], far[0]


def has_gpu() -> bool:
    """Return whether torch is installed and finds a GPU."""
    if find_spec("torch") is None:
        return False
    from mdaml.neighbors import device

    return device.has_gpu()


def is_for_gpu(device: str | None, n_queries: int, n_rows: int, n_features: int) -> bool:
    """Return whether to search neighbours on a GPU: there is one, and it is faster."""
    is_large = float(n_queries) * n_rows * n_features >= _WORTH_A_GPU
    # A model may be used on a machine without the GPU it was fitted on.
    return is_large and device in ("cuda", "auto") and has_gpu()


def exact_search(device: str | None, n_rows: int, n_features: int) -> ExactSearch:
    """Return the function that searches neighbours of labelled rows, on a GPU where that pays."""
    if not is_for_gpu(device, n_rows, n_rows, n_features):
        return nearest
    from mdaml.neighbors.device import nearest as nearest_on

    return partial(nearest_on, device=_GPU)


def search_under(
    device: str | None, queries: FloatArray, gallery: FloatArray
) -> Callable[[FloatArray, int], IntArray]:
    """Return a function that finds the nearest rows of a gallery for queries under a metric F.

    On a GPU, where that pays, queries and gallery stay there from one metric to the next.
    """
    if is_for_gpu(device, len(queries), *gallery.shape):
        from mdaml.neighbors.device import Gallery

        kept = Gallery.on(queries, gallery, _GPU)
        return lambda F, n_nearest: kept.nearest(n_nearest, F)
    mean = gallery.mean(axis=0)
    queries, gallery = queries - mean, gallery - mean
    return lambda F, n_nearest: nearest_rows(queries @ F, gallery @ F, n_nearest)[0]


def nearest_rows_on(
    device: str | None, queries: FloatArray, gallery: FloatArray, n_nearest: int
) -> IntArray:
    """Return the nearest rows of a gallery for each query, searched on a GPU where that pays."""
    if not is_for_gpu(device, len(queries), *gallery.shape):
        return nearest_rows(queries, gallery, n_nearest)[0]
    from mdaml.neighbors.device import Gallery

    return Gallery.on(queries, gallery, _GPU).nearest(n_nearest)


def nearest_others(X: FloatArray, n_nearest: int) -> IntArray:
    """Return the nearest other rows of each row, or all; ties to the earlier row."""
    places = np.arange(len(X))
    bounds = np.column_stack([places, places + 1])  # each a class of its own
    return nearest(X, bounds, places, min(n_nearest, len(X) - 1), same=False)[0]


def nearest_in_blocks(
    queries: FloatArray, gallery: FloatArray, n_wanted: IntArray, *, own: bool
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield some of the queries and their nearest rows of a gallery, nearest first.

    For many neighbours. All queries of a block get as many as the one that wants most; those that
    want none are left out. Ties go to the earlier row. ``own`` says that the gallery is the queries
    themselves, of which none is its own neighbour.
    """
    center = gallery.mean(axis=0)  # products of large numbers would round differences off
    gallery, queries = gallery - center, queries - center
    half_norms = 0.5 * np.einsum("ij,ij->i", gallery, gallery)
    # Those that want about as many share a block.
    wanting = np.argsort(n_wanted, kind="stable")[np.sum(n_wanted <= 0) :]
    step = max(1, _BLOCK // len(gallery))
    for start in range(0, len(wanting), step):
        rows = wanting[start : start + step]
        closeness = half_norms - queries[rows] @ gallery.T  # half of squared, less a constant
        if own:
            closeness[np.arange(len(rows)), rows] = np.inf
        yield rows, _smallest(closeness, int(n_wanted[rows].max()))


def _smallest(values: FloatArray, n: int) -> IntArray:
    """Return the columns of the n smallest values of each row, in order; ties to the left."""
    bound = np.partition(values, n - 1, axis=1)[:, n - 1 : n]
    kept = values <= bound
    crowded = np.flatnonzero(np.count_nonzero(kept, axis=1) > n)
    if len(crowded):
        below, tied = values[crowded] < bound[crowded], values[crowded] == bound[crowded]
        n_free = n - np.count_nonzero(below, axis=1)[:, None]
        kept[crowded] = below | (tied & (np.cumsum(tied, axis=1) <= n_free))
    columns = (np.flatnonzero(kept) % values.shape[1]).reshape(-1, n)
    order = np.argsort(np.take_along_axis(values, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)

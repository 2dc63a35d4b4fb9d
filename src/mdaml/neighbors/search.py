"""How neighbours are searched: exactly or nearly, in memory or on a GPU."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from mdaml._typing import FloatArray, IntArray
from mdaml.kernels.neighbors import nearest, nearest_rows
from mdaml.neighbors.trees import Wanted, nearly_nearest

_EXACT_UP_TO = 50_000  # labelled rows whose neighbours are searched among all
_WORTH_A_GPU = 1e9  # products of a search for neighbours
_GPU = "cuda"

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
        near, far = nearly_nearest(X, bounds, rows, wanted, recall)
    return near[0], far[0]


def has_gpu() -> bool:
    """Return whether torch is installed and finds a GPU."""
    if find_spec("torch") is None:
        return False
    from mdaml.neighbors import device

    return device.has_gpu()


def is_for_gpu(device: str | None, n_queries: int, n_rows: int, n_features: int) -> bool:
    """Return whether neighbours are to be searched on a GPU: there is one, and it pays."""
    is_large = float(n_queries) * n_rows * n_features >= _WORTH_A_GPU
    # A model may be used on a machine without the GPU it was fitted on.
    return is_large and device in ("cuda", "auto") and has_gpu()


def exact_search(device: str | None, n_rows: int, n_features: int) -> ExactSearch:
    """Return what searches neighbours among labelled rows, on a GPU where that pays."""
    if not is_for_gpu(device, n_rows, n_rows, n_features):
        return nearest
    from mdaml.neighbors.device import nearest as nearest_on

    return partial(nearest_on, device=_GPU)


def search_under(
    device: str | None, queries: FloatArray, gallery: FloatArray
) -> Callable[[FloatArray, int], IntArray]:
    """Return what finds the nearest rows of a gallery for each query under the metric of F.

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

"""The hot loops, compiled. Everything else in the library is plain array code.

The compiler is loaded by the first use of a kernel, not by ``import mdaml``. A kernel that exists
for torch too goes where its first argument is: NumPy arrays, and rows of one that are centred in
blocks, to the CPU, tensors to their device.
"""

from importlib import import_module
from typing import Any

import numpy as np

from mdaml.kernels._memory import SMALL_BYTES, CentredRows, FitSize, Samples

__all__ = ["SMALL_BYTES", "CentredRows", "FitSize", "Samples", "dot", "namespace", "on_host"]

_HOMES = {
    "_threads": ("threads_at_most",),
    "affinity": ("affinity_laplacian_product",),
    "arrays": (
        "beside",
        "center",
        "column_sums",
        "copied",
        "cross_product",
        "eigh",
        "fit_threads",
        "in_double",
        "inner_product",
        "mean_and_spread",
        "mean_rows",
        "precision",
        "small_matrix",
        "start_weights",
        "sum_of_squares",
        "to_host",
    ),
    "blockwise": ("comparison_half_scatter", "laplacian_half_scatter", "triplet_half_scatter"),
    "comparisons": (
        "comparison_gradient",
        "comparison_losses",
        "comparison_losses_along",
        "comparison_slopes",
    ),
    "cpu": (
        "laplacian_product",
        "pair_products",
        "pair_sq_dists",
        "triplet_gradient",
        "triplet_losses",
        "triplet_losses_along",
        "triplet_slopes",
    ),
    "grouping": (
        "count_pairs",
        "counting_sort",
        "greedy_colors",
        "group_lists",
        "group_pairs",
        "group_triplets",
        "merge_comparisons",
        "near_graph",
    ),
    "modes": ("center_sq_dists", "sequential_weights"),
    "neighbors": ("closest", "nearest", "within"),
    "products": ("one_blas_thread", "rows_times", "transposed_times", "weighted_gram"),
    "voting": ("nested_votes",),
}
_TORCH_HOMES = {
    "torch_arrays": (
        "beside",
        "center",
        "column_sums",
        "copied",
        "cross_product",
        "eigh",
        "fit_threads",
        "in_double",
        "inner_product",
        "mean_rows",
        "precision",
        "rows_times",
        "small_matrix",
        "start_weights",
        "sum_of_squares",
        "to_device",
        "to_host",
        "transposed_times",
        "weighted_gram",
    ),
    "torch_axes": ("principal_axes",),
    "torch_modes": ("center_sq_dists", "greedy_colors", "nearest_center", "sequential_weights"),
    "torch_mixture": ("mixture_posteriors",),
    "torch_pairs": (
        "comparison_gradient",
        "comparison_losses",
        "comparison_losses_along",
        "comparison_slopes",
        "group_comparisons",
        "laplacian_times",
        "list_totals",
        "near_graph",
        "pair_products",
    ),
}


def __getattr__(name: str) -> Any:
    """Return a kernel, importing the compiler now; Python asks once for each name."""
    host, torch = _home(_HOMES, name), _home(_TORCH_HOMES, name)
    if not host and not torch:
        raise AttributeError(f"mdaml.kernels has no kernel {name!r}")
    if host and torch:
        kernel = _dispatched(name, host, torch)
    else:
        kernel = getattr(import_module(f"mdaml.kernels.{host or torch}"), name)
    return globals().setdefault(name, kernel)


def on_host(X: Any) -> bool:
    """Return whether this is a NumPy array, or rows of one centred in blocks, and no tensor."""
    return isinstance(X, (np.ndarray, CentredRows))


def namespace(A: Any) -> Any:
    """Return NumPy, or torch for a tensor: the algebra of small matrices is one text for both."""
    return np if isinstance(A, np.ndarray) else import_module("torch")


def dot(A: Any, B: Any) -> float:
    """Return the sum of the products of corresponding entries."""
    if isinstance(A, np.ndarray):
        return float(np.vdot(A, B))
    return float((A * B).sum(dtype=namespace(A).float64))


def _home(homes: dict[str, tuple[str, ...]], name: str) -> str | None:
    return next((home for home, names in homes.items() if name in names), None)


def _dispatched(name: str, host: str, torch: str) -> Any:
    """Return the kernel for NumPy arrays, which hands tensors on to the one for torch."""
    for_arrays = getattr(import_module(f"mdaml.kernels.{host}"), name)

    def kernel(first: Any, *others: Any, **options: Any) -> Any:
        if on_host(first):
            return for_arrays(first, *others, **options)
        for_tensors = getattr(import_module(f"mdaml.kernels.{torch}"), name)
        return for_tensors(first, *others, **options)

    kernel.__name__, kernel.__doc__ = name, for_arrays.__doc__
    return kernel

"""The hot loops, compiled. Everything else in the library is plain array code.

The compiler is loaded by the first use of a kernel, not by ``import mdaml``.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "affinity": ("affinity_laplacian_product",),
    "comparisons": ("comparison_gradient", "comparison_losses", "comparison_losses_along"),
    "cpu": (
        "center_sq_dists",
        "laplacian_product",
        "pair_products",
        "pair_sq_dists",
        "sequential_weights",
        "triplet_gradient",
        "triplet_losses",
        "triplet_losses_along",
        "triplet_slopes",
    ),
    "grouping": ("greedy_colors", "group_lists", "group_triplets", "near_graph"),
    "neighbors": ("closest", "nearest", "within"),
    "products": ("one_blas_thread", "rows_times", "transposed_times"),
    "voting": ("nested_votes",),
}


def __getattr__(name: str) -> Any:
    """Return a kernel, importing the compiler now."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"mdaml.kernels.{home}"), name)
    raise AttributeError(f"mdaml.kernels has no kernel {name!r}")

"""Fits whose samples and triplets are spread over the workers of a Dask cluster."""

from mdaml.distributed._fit import fit

__all__ = ["fit"]

"""Samples and comparisons spread over the workers of a Dask cluster."""

"""Bundled data sets, and a generator of labelled toys with several modes per class."""

from mdaml.datasets._load import list_datasets, load_dataset
from mdaml.datasets._registry import DatasetRecord
from mdaml.datasets._synthetic import make_multimodal

__all__ = ["DatasetRecord", "list_datasets", "load_dataset", "make_multimodal"]

"""The thirteen data sets of the paper, and generators of toys: points, waves and comparisons."""

from mdaml.datasets._banking import load_banking77
from mdaml.datasets._load import list_datasets, load_dataset
from mdaml.datasets._registry import DatasetRecord
from mdaml.datasets._synthetic import make_multimodal, make_triplets, make_waveform

__all__ = [
    "DatasetRecord",
    "list_datasets",
    "load_banking77",
    "load_dataset",
    "make_multimodal",
    "make_triplets",
    "make_waveform",
]

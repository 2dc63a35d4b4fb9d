"""The learned map as an object of other libraries.

All of it is made from the matrix ``components_``; the estimators' methods call these functions.
"""

from mdaml.export._embedding import embed_blocks
from mdaml.export._libraries import faiss_index, onnx_model, torch_layer
from mdaml.export._metric import MahalanobisMetric

__all__ = ["MahalanobisMetric", "embed_blocks", "faiss_index", "onnx_model", "torch_layer"]

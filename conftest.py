"""Examples in docstrings that need an extra are left out where it is not installed."""

from importlib.util import find_spec

import pytest

# ``mdaml[test]`` brings faiss and onnx, not torch; continuous integration installs that as well.
NEEDS = {
    "to_faiss": "faiss",
    "faiss_index": "faiss",
    "to_onnx": "onnxruntime",
    "onnx_model": "onnx",
    "to_torch": "torch",
    "torch_layer": "torch",
}


def pytest_collection_modifyitems(items):
    for item in items:
        example_of = item.name.rpartition(".")[2] if isinstance(item, pytest.DoctestItem) else ""
        extra = NEEDS.get(example_of)
        if extra and find_spec(extra) is None:
            item.add_marker(pytest.mark.skip(reason=f"needs {extra}"))

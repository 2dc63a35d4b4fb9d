"""The learned map in faiss, ONNX and torch; each is imported only here."""

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray
from mdaml.archive import replacing

_BLOCK = 1 << 20  # values added to an index at a time
# Old enough for every runtime of the last years; a product of matrices has not changed since.
_OPSET, _IR_VERSION = 13, 8


def faiss_index(components: FloatArray, X: FloatArray | None = None) -> Any:
    """Return a faiss index of untransformed vectors that searches by the learned distance.

    Parameters
    ----------
    components : array of shape (n_components, n_features)
        The linear map.
    X : array of shape (n_samples, n_features) or None
        Samples to add. Their mean is subtracted from all vectors inside the index, now and later:
        distances do not change, but lose less in faiss's single precision.

    Returns
    -------
    index : faiss.IndexPreTransform
        A LinearTransform before an IndexFlatL2; distances it returns are squared.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.export import faiss_index
    >>> index = faiss_index(np.diag([1.0, 2.0]), np.eye(2))
    >>> index.search(np.zeros((1, 2), np.float32), 1)
    (array([[1.]], dtype=float32), array([[0]]))
    """
    try:
        import faiss
    except ImportError as error:
        raise _missing("faiss", "to_faiss") from error
    n_components, n_features = components.shape
    linear = faiss.LinearTransform(n_features, n_components, X is not None)
    faiss.copy_array_to_vector(_single(components).ravel(), linear.A)
    if X is not None:
        offset = -components.astype(np.float64) @ X.mean(axis=0, dtype=np.float64)
        faiss.copy_array_to_vector(_single(offset), linear.b)
    linear.is_trained = True
    index = faiss.IndexPreTransform(linear, faiss.IndexFlatL2(n_components))
    if X is not None:
        step = max(1, _BLOCK // n_features)
        for start in range(0, len(X), step):
            index.add(_single(X[start : start + step]))
    return index


def onnx_model(
    components: FloatArray,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: Any = "float32",
) -> Any:
    """Return an ONNX model that maps ``X`` of shape (any, n_features) to ``embedding``.

    Parameters
    ----------
    components : array of shape (n_components, n_features)
        The linear map.
    path : str or path or None
        A file to write as well; it is replaced only once the new one is complete.
    dtype : {"float32", "float64"} or dtype
        Of input and output.

    Returns
    -------
    model : onnx.ModelProto

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.export import onnx_model
    >>> model = onnx_model(np.diag([1.0, 2.0]))
    >>> [node.op_type for node in model.graph.node]
    ['MatMul']
    """
    precision = _check_precision(dtype)
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError as error:
        raise _missing("onnx", "to_onnx") from error
    weight = _cast(components.T, precision)
    element = helper.np_dtype_to_tensor_dtype(precision)
    n_features, n_components = weight.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["X", "components"], ["embedding"])],
        "mdaml",
        [helper.make_tensor_value_info("X", element, ["n_samples", n_features])],
        [helper.make_tensor_value_info("embedding", element, ["n_samples", n_components])],
        [numpy_helper.from_array(weight, "components")],
        doc_string="Euclidean distance of rows of the embedding is the learned distance.",
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="mdaml")
    model.ir_version = _IR_VERSION
    onnx.checker.check_model(model)
    if path is not None:
        with replacing(path) as file:
            file.write(model.SerializeToString())
    return model


def torch_layer(components: FloatArray, *, dtype: Any = "float32") -> Any:
    """Return a linear layer without bias, frozen.

    Parameters
    ----------
    components : array of shape (n_components, n_features)
        The weight.
    dtype : {"float32", "float64"} or dtype of NumPy or torch
        Of the weight.

    Returns
    -------
    layer : torch.nn.Linear

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.export import torch_layer
    >>> torch_layer(np.diag([1.0, 2.0]))
    Linear(in_features=2, out_features=2, bias=False)
    """
    precision = _check_precision(dtype)
    try:
        import torch
    except ImportError as error:
        raise _missing("torch", "to_torch") from error
    n_components, n_features = components.shape
    weight = torch.tensor(_cast(components, precision))
    layer = torch.nn.Linear(n_features, n_components, bias=False, dtype=weight.dtype, device="meta")
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    return layer


def _check_precision(dtype: Any) -> np.dtype[Any]:
    try:
        # torch's own dtypes are known by their names only: it need not be imported for this.
        name = str(dtype).removeprefix("torch.")
        precision = np.dtype(name if name != str(dtype) else dtype)
    except TypeError:
        precision = None
    if dtype is None or precision not in (np.float32, np.float64):  # None is double to NumPy
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r}.")
    return precision


def _single(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return _cast(array, np.dtype(np.float32))


def _cast(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array in another precision, in C order, unless it does not fit."""
    with np.errstate(over="ignore"):  # said in words
        cast = np.ascontiguousarray(array, dtype=dtype)
    if not np.all(np.isfinite(cast)):
        raise ValueError(
            f"Values up to {np.abs(array).max():.1e} do not fit into {dtype}. Scale the features, "
            "for instance by StandardScaler, and fit again."
        )
    return cast


def _missing(library: str, method: str) -> ImportError:
    return ImportError(f'{method} needs {library}: pip install "mdaml[{library}]"')

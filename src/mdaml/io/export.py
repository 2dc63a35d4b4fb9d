"""The learned map as an object of other libraries, each of which is imported only here.

All of it is made from the matrix ``components_``; methods of the estimators call these functions.
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mdaml._typing import Array, ArrayLike, FloatArray
from mdaml.io.atomic import replace_file
from mdaml.io.preparation import Preparation

Step: TypeAlias = Mapping[str, Any]  # before the map; see mdaml.io.front
Exported: TypeAlias = Any  # an object of faiss, onnx or torch
Precision: TypeAlias = np.dtype[np.float32] | np.dtype[np.float64]
_EMBEDDED = 1 << 16  # values of the samples embedded at a time: half a megabyte in double precision
_INDEXED = 1 << 20  # values added to an index at a time
# Old enough for every runtime of the last years; a product of matrices has not changed since.
_OPSET, _IR_VERSION = 13, 8
_OPSET_OF_TEXTS = 20  # the first that can ignore the spaces around a category


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MahalanobisMetric:
    """The learned distance as a function of two vectors, for ``metric=`` of other libraries.

    It can be pickled, and two with the same components are equal. It is slow, since it is called
    from Python for each pair: where the library takes vectors, pass ``model.transform(X)`` and let
    it compute Euclidean distances.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The linear map ``L``; the distance is ``|L u - L v|``.

    Attributes
    ----------
    components : array of shape (n_components, n_features)
        In double precision, read-only.

    Examples
    --------
    >>> from scipy.spatial.distance import pdist
    >>> from mdaml.io.export import MahalanobisMetric
    >>> metric = MahalanobisMetric([[1.0, 0.0], [0.0, 2.0]])
    >>> metric([0.0, 0.0], [3.0, 2.0])
    5.0
    >>> pdist([[0.0, 0.0], [3.0, 2.0]], metric)
    array([5.])
    """

    components: FloatArray

    def __init__(self, components: npt.ArrayLike) -> None:
        given = np.array(components, dtype=np.float64, order="C")
        if given.ndim != 2 or given.size == 0 or not np.all(np.isfinite(given)):
            raise ValueError(
                "components must be finite numbers of shape (n_components, n_features), got shape "
                f"{given.shape}. Take components_ of a fitted model."
            )
        given.setflags(write=False)
        object.__setattr__(self, "components", given)

    def __call__(self, u: npt.ArrayLike, v: npt.ArrayLike) -> float:
        """Return the distance of two vectors of length n_features."""
        a, b = np.asarray(u, dtype=np.float64), np.asarray(v, dtype=np.float64)
        wanted = self.components.shape[1:]
        if a.shape != wanted or b.shape != wanted:
            raise ValueError(
                f"u and v must be vectors of {wanted[0]} features, got shapes {a.shape} and "
                f"{b.shape}. For many pairs at once use pair_distance of the model."
            )
        mapped = self.components @ (a - b)
        return math.sqrt(mapped.dot(mapped))

    def __reduce__(self) -> tuple[type["MahalanobisMetric"], tuple[FloatArray]]:
        """Pickle the components alone."""
        return type(self), (self.components,)

    def __eq__(self, other: object) -> bool:
        """Compare the components."""
        if not isinstance(other, MahalanobisMetric):
            return NotImplemented
        return np.array_equal(self.components, other.components)

    def __hash__(self) -> int:
        """Hash the components; zeros of either sign are equal."""
        return hash((self.components.shape, (self.components + 0.0).tobytes()))

    def __repr__(self) -> str:
        """Name the shape."""
        n_components, n_features = self.components.shape
        return f"MahalanobisMetric(<{n_components} x {n_features}>)"


def embed_blocks(
    transform: Callable[[ArrayLike], FloatArray],
    X: Any,
    n_components: int,
    out: npt.NDArray[np.float32] | None = None,
) -> npt.NDArray[np.float32]:
    """Transform block by block into single precision, C order.

    Parameters
    ----------
    transform : callable
        Maps and checks some rows.
    X : array-like of shape (n_samples, n_features)
        Sliced by rows, so that a memory map is never read as a whole.
    n_components : int
        Columns of what ``transform`` returns.
    out : float32 array of shape (n_samples, n_components), C order, or None
        Where to write, for instance a memory map.

    Returns
    -------
    out : float32 array of shape (n_samples, n_components)

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.io.export import embed_blocks
    >>> embed_blocks(lambda rows: rows @ np.ones((2, 1)), np.eye(2), 1)
    array([[1.],
           [1.]], dtype=float32)
    """
    X = X if hasattr(X, "shape") else np.asarray(X)
    rows, shape = getattr(X, "iloc", X), X.shape
    n_samples = shape[0] if len(shape) == 2 else 0
    if n_samples == 0:
        transform(X)  # raises an error that says what is wrong
        raise ValueError(f"X must have rows and columns, got shape {shape}.")
    if out is None:
        out = np.empty((n_samples, n_components), np.float32)
    _check_out(out, (n_samples, n_components))
    step = max(1, _EMBEDDED // max(1, shape[1]))
    for start in range(0, n_samples, step):
        with np.errstate(over="ignore"):  # checked below
            block = transform(rows[start : start + step]).astype(np.float32)
        if not np.all(np.isfinite(block)):
            raise ValueError(
                f"Rows {start} to {start + len(block) - 1} of X, transformed, exceed single "
                "precision. Scale the features, for instance by StandardScaler, and fit again."
            )
        out[start : start + len(block)] = block
    return out


def _check_out(out: Array, shape: tuple[int, int]) -> None:
    fits = isinstance(out, np.ndarray) and out.dtype == np.float32 and out.shape == shape
    if not fits or not out.flags.c_contiguous or not out.flags.writeable:
        got = type(out).__name__
        if isinstance(out, np.ndarray):
            got = f"{out.dtype} of shape {out.shape}"
            got += "" if out.flags.c_contiguous else ", not in C order"
            got += "" if out.flags.writeable else ", read-only"
        raise ValueError(
            f"out must be a writable float32 array of shape {shape} in C order, got {got}."
        )


def cast(array: Array, dtype: npt.DTypeLike = "float32") -> Array:
    """Return an array in another precision, in C order, unless it does not fit."""
    with np.errstate(over="ignore"):  # checked below
        made = np.ascontiguousarray(array, dtype=dtype)
    if not np.all(np.isfinite(made)):
        raise ValueError(
            f"Values up to {np.abs(array).max():.1e} do not fit into {dtype}. Scale the features, "
            "for instance by StandardScaler, and fit again."
        )
    return made


def make_faiss_index(
    components: FloatArray, X: FloatArray | None = None, *, front: Sequence[Step] = ()
) -> Exported:
    """Return a faiss index of untransformed vectors that searches by the learned distance.

    Parameters
    ----------
    components : array of shape (n_components, n_features)
        The linear map.
    X : array of shape (n_samples, n_features) or None
        Samples to add. Their mean is subtracted from all vectors inside the index, now and later:
        distances do not change, but lose less in faiss's single precision.
    front : sequence of dict
        Steps before the map, through which X went; those who search pass vectors before them.

    Returns
    -------
    index : faiss.IndexPreTransform
        A LinearTransform before an IndexFlatL2; distances it returns are squared.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.io.export import make_faiss_index
    >>> index = make_faiss_index(np.diag([1.0, 2.0]), np.eye(2))
    >>> index.search(np.zeros((1, 2), np.float32), 1)
    (array([[1.]], dtype=float32), array([[0]]))
    """
    faiss = import_extra("faiss")
    from mdaml.io.front import prepend_faiss_front

    n_components, n_features = components.shape
    linear = faiss.LinearTransform(n_features, n_components, X is not None)
    faiss.copy_array_to_vector(cast(components).ravel(), linear.A)
    if X is not None:
        offset = -components.astype(np.float64) @ X.mean(axis=0, dtype=np.float64)
        faiss.copy_array_to_vector(cast(offset), linear.b)
    linear.is_trained = True
    index = faiss.IndexPreTransform(linear, faiss.IndexFlatL2(n_components))
    if X is not None:
        step = max(1, _INDEXED // n_features)
        for start in range(0, len(X), step):
            index.add(cast(X[start : start + step]))
    return prepend_faiss_front(faiss, index, front)


class OnnxColumns(NamedTuple):
    """How an ONNX model makes features of its inputs: the columns of a table, or X itself."""

    known: Preparation | None
    precision: Precision
    inputs: list[Exported]
    nodes: list[Exported]
    constants: list[Exported]
    output: str  # the name of the features


def make_onnx_model(
    components: FloatArray,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: object = "float32",
    front: Sequence[Step] = (),
    known: Preparation | None = None,
) -> Exported:
    """Return an ONNX model that maps ``X`` of shape (any, n_features) to ``embedding``.

    Parameters
    ----------
    components : array of shape (n_components, n_features)
        The linear map.
    path : str or path or None
        A file to write as well; it is replaced only once the new one is complete.
    dtype : {"float32", "float64"} or dtype
        Of input and output.
    front : sequence of dict
        Steps before the map; see :class:`mdaml.estimators.pipelines.FoldedMetric`.
    known : Preparation or None
        How columns of a table become features. X then has the columns of numbers, NaN where a cell
        is empty, and the input ``categories`` those of texts; ``metadata_props`` names them.

    Returns
    -------
    model : onnx.ModelProto

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.io.export import make_onnx_model
    >>> model = make_onnx_model(np.diag([1.0, 2.0]))
    >>> [node.op_type for node in model.graph.node]
    ['MatMul']
    """
    precision = check_precision(dtype)
    onnx = import_extra("onnx")
    from mdaml.io.front import n_inputs, onnx_columns, onnx_front

    weight = cast(components.T, precision)
    columns = onnx_columns(onnx, known, n_inputs(front, len(weight)), precision)
    nodes, constants, last = onnx_front(onnx, front, precision, columns.output)
    nodes = [*nodes, onnx.helper.make_node("MatMul", [last, "components"], ["embedding"])]
    constants = [*constants, onnx.numpy_helper.from_array(weight, "components")]
    return save_onnx_model(onnx, columns, (nodes, constants), weight.shape[1], path)


def save_onnx_model(
    onnx: ModuleType,
    columns: OnnxColumns,
    parts: tuple[Sequence[Exported], Sequence[Exported]],
    n_components: int,
    path: str | os.PathLike[str] | None,
) -> Exported:
    """Return a checked model from columns to ``embedding``, and write it to a path, if any.

    ``parts`` are nodes and constants from the output of the columns on.
    """
    helper, known = onnx.helper, columns.known
    element = helper.np_dtype_to_tensor_dtype(columns.precision)
    graph = helper.make_graph(
        [*columns.nodes, *parts[0]],
        "mdaml",
        columns.inputs,
        [helper.make_tensor_value_info("embedding", element, ["n_samples", n_components])],
        [*columns.constants, *parts[1]],
        doc_string="Euclidean distance of rows of the embedding is the learned distance.",
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    if known is not None and known.categories:
        opsets = [helper.make_opsetid("", _OPSET_OF_TEXTS), helper.make_opsetid("ai.onnx.ml", 2)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="mdaml")
    if known is not None:
        texts = [name for name in known.columns if name in known.categories]
        names = {"X": list(known.numeric)} | ({"categories": texts} if texts else {})
        cells = {"na": known.na, "encoding": known.encoding}
        props = {"columns": json.dumps(names), "cells": json.dumps(cells)}
        helper.set_model_props(model, props | {"id_column": known.id_column or ""})
    model.ir_version = _IR_VERSION
    onnx.checker.check_model(model)
    if path is not None:
        with replace_file(path) as part:
            part.write_bytes(model.SerializeToString())
    return model


def make_torch_layer(
    components: FloatArray,
    *,
    dtype: object = "float32",
    front: Sequence[Step] = (),
    known: Preparation | None = None,
) -> Exported:
    """Return a linear layer without bias, frozen; with steps before it a sequence.

    Parameters
    ----------
    components : array of shape (n_components, n_features)
        The weight.
    dtype : {"float32", "float64"} or dtype of NumPy or torch
        Of the weight.
    front : sequence of dict
        Steps before the map; see :class:`mdaml.estimators.pipelines.FoldedMetric`.
    known : Preparation or None
        How columns of a table become features. The first layer then has a method ``read``, which
        turns a table into the input: a number for each cell.

    Returns
    -------
    layer : torch.nn.Linear or torch.nn.Sequential

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.io.export import make_torch_layer
    >>> make_torch_layer(np.diag([1.0, 2.0]))
    Linear(in_features=2, out_features=2, bias=False)
    """
    precision = check_precision(dtype)
    torch = import_extra("torch")
    from mdaml.io.front import torch_front

    n_components, n_features = components.shape
    weight = torch.tensor(cast(components, precision))
    layer = torch.nn.Linear(n_features, n_components, bias=False, dtype=weight.dtype, device="meta")
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    before = torch_front(torch, known, front, precision)
    return torch.nn.Sequential(*before, layer) if before else layer


def check_precision(dtype: Any) -> Precision:
    """Return single or double precision, or refuse another."""
    try:
        # torch's own dtypes are known by their names only: it need not be imported for this.
        name = str(dtype).removeprefix("torch.")
        precision = np.dtype(name if name != str(dtype) else dtype)
    except TypeError:
        precision = None
    if dtype is None or precision not in (np.float32, np.float64):  # None is double to NumPy
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r}.")
    return precision


def import_extra(library: str) -> ModuleType:
    """Import an optional package, or say which extra has it."""
    try:
        return import_module(library)
    except ImportError as error:
        message = f'to_{library} needs {library}: pip install "mdaml[{library}]"'
        raise ImportError(message) from error

"""Places for modes as a model of ONNX or torch: closeness to centres, twice, and matrices."""

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from mdaml._typing import ArrayLike, FloatArray
from mdaml.io.export import Exported, check_precision, import_extra, save_onnx_model
from mdaml.io.front import onnx_columns, torch_front
from mdaml.io.preparation import Preparation


class Closeness(NamedTuple):
    """A step from rows to ``exp(-|x - c_k|^2 / width)``, (N, K)."""

    centers: FloatArray  # (K, d)
    width: float


class PlacesMap(NamedTuple):
    """``[x, g(u(k(x)))] L^T`` of rows ``x = X A^T + a``."""

    A: FloatArray  # (d, n_features)
    a: FloatArray  # (d,)
    landmarks: Closeness
    U: FloatArray  # (r, n_landmarks)
    modes: Closeness
    L: FloatArray  # (n_components, d + n_places)


def make_onnx_places(
    steps: PlacesMap,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: object = "float32",
    known: Preparation | None = None,
) -> Exported:
    """Return an ONNX model that maps ``X`` to ``embedding``, and write it to a path, if any.

    ``known`` says how columns of a table become features; see :func:`make_onnx_model`.
    """
    precision, onnx = check_precision(dtype), import_extra("onnx")
    nodes: list[Exported] = []
    constants: list[Exported] = []

    def constant(value: ArrayLike, of: DTypeLike = precision) -> str:
        constants.append(
            onnx.numpy_helper.from_array(np.asarray(value, of), f"constant_{len(constants)}")
        )
        return str(constants[-1].name)

    def node(kind: str, *inputs: str, **options: int) -> str:
        name = f"value_{len(nodes)}"
        nodes.append(onnx.helper.make_node(kind, inputs, [name], **options))
        return name

    def closeness(rows: str, of: Closeness) -> str:
        middle = of.centers.mean(axis=0)
        centers = of.centers - middle
        rows = node("Sub", rows, constant(middle))
        squares = node("ReduceSum", node("Mul", rows, rows), constant([1], np.int64), keepdims=1)
        crossed = node("MatMul", rows, constant(-2.0 * centers.T))
        sums = node("Add", node("Add", crossed, squares), constant(np.square(centers).sum(axis=1)))
        return node("Exp", node("Mul", node("Relu", sums), constant(-1.0 / of.width)))

    columns = onnx_columns(onnx, known, steps.A.shape[1], precision)
    x = node("Add", node("MatMul", columns.output, constant(steps.A.T)), constant(steps.a))
    u = node("MatMul", closeness(x, steps.landmarks), constant(steps.U.T))
    both = node("Concat", x, closeness(u, steps.modes), axis=1)
    nodes.append(onnx.helper.make_node("MatMul", [both, constant(steps.L.T)], ["embedding"]))
    return save_onnx_model(onnx, columns, (nodes, constants), len(steps.L), path)


def make_torch_places(
    steps: PlacesMap, *, dtype: object = "float32", known: Preparation | None = None
) -> Exported:
    """Return a frozen module of torch that maps X, or the columns of a table."""
    precision, torch = check_precision(dtype), import_extra("torch")
    from mdaml.io.torch_layers import Places

    before = torch_front(torch, known, (), precision)
    places = Places(steps, precision)
    return torch.nn.Sequential(*before, places) if before else places

"""Steps before a learned map that are not linear, as parts of exported models.

A step is a mapping: ``x -> (matrix x + offset) / norm``, with ``norm`` one of "l1", "l2" and "max".
Without matrix and offset, which are then None, rows are brought to length one and nothing else.
"""

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from mdaml.io.export import Exported, Precision, Step, cast


def n_inputs(front: Sequence[Step], n_inner: int) -> int:
    """Return the features that go into the first step, given those that come out of the last."""
    for step in reversed(front):
        n_inner = n_inner if step["matrix"] is None else step["matrix"].shape[1]
    return n_inner


def prepend_faiss_front(faiss: ModuleType, index: Exported, front: Sequence[Step]) -> Exported:
    """Return an index of vectors before some steps, given one of vectors after them."""
    if any(step["norm"] != "l2" for step in front):
        raise ValueError("faiss brings rows to length 1 by the norm 'l2' only. Use embed instead.")
    for step in reversed(front):
        index.prepend_transform(faiss.NormalizationTransform(index.d, 2.0))
        if step["matrix"] is not None:
            n_out, n_in = step["matrix"].shape
            linear = faiss.LinearTransform(n_in, n_out, True)
            faiss.copy_array_to_vector(cast(step["matrix"]).ravel(), linear.A)
            faiss.copy_array_to_vector(cast(step["offset"]), linear.b)
            linear.is_trained = True
            index.prepend_transform(linear)
    return index


def onnx_front(
    onnx: ModuleType, front: Sequence[Step], precision: Precision
) -> tuple[list[Exported], list[Exported], str]:
    """Return the nodes and constants of steps, and the name of what comes out."""
    make, constant = onnx.helper.make_node, onnx.numpy_helper.from_array
    nodes, last = [], "X"
    constants = [constant(np.array(np.finfo(precision).tiny, precision), "tiny")] if front else []
    for n, step in enumerate(front):
        if step["matrix"] is not None:
            constants.append(constant(cast(step["matrix"].T, precision), f"matrix_{n}"))
            constants.append(constant(cast(step["offset"], precision), f"offset_{n}"))
            nodes.append(make("MatMul", [last, f"matrix_{n}"], [f"rotated_{n}"]))
            nodes.append(make("Add", [f"rotated_{n}", f"offset_{n}"], [f"shifted_{n}"]))
            last = f"shifted_{n}"
        kind, source = {"l1": "ReduceL1", "l2": "ReduceL2", "max": "ReduceMax"}[step["norm"]], last
        if step["norm"] == "max":
            nodes.append(make("Abs", [last], [f"sizes_{n}"]))
            source = f"sizes_{n}"
        nodes.append(make(kind, [source], [f"length_{n}"], axes=[1], keepdims=1))
        # Rows of zeros stay so.
        nodes.append(make("Max", [f"length_{n}", "tiny"], [f"divisor_{n}"]))
        nodes.append(make("Div", [last, f"divisor_{n}"], [f"unit_{n}"]))
        last = f"unit_{n}"
    return nodes, constants, last


def torch_front(torch: ModuleType, front: Sequence[Step], precision: Precision) -> list[Exported]:
    """Return the layers of steps, frozen."""
    if not front:
        return []
    from mdaml.io.torch_layers import RowNorm

    layers = list[Exported]()
    for step in front:
        if step["matrix"] is not None:
            n_out, n_in = step["matrix"].shape
            linear = torch.nn.Linear(n_in, n_out, device="meta")
            for name, part in (("weight", step["matrix"]), ("bias", step["offset"])):
                value = torch.tensor(cast(part, precision))
                setattr(linear, name, torch.nn.Parameter(value, requires_grad=False))
            layers.append(linear)
        layers.append(RowNorm(step["norm"]))
    return layers

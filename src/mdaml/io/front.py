"""What comes before a learned map, as parts of exported models: columns of a table, then steps.

A step is a mapping: ``x -> (matrix x + offset) / norm``, with ``norm`` one of "l1", "l2" and "max".
Without matrix and offset, which are then None, rows are brought to length one and nothing else.
"""

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from mdaml.io.export import Exported, OnnxColumns, Precision, Step, cast
from mdaml.io.preparation import MISSING, Preparation

_ML = "ai.onnx.ml"  # operators of ONNX for texts


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


def onnx_columns(
    onnx: ModuleType, known: Preparation | None, n_features: int, precision: Precision
) -> OnnxColumns:
    """Return inputs, nodes and constants that make features of columns.

    Numbers are the input X; columns of categories, if there are any, another one of texts.
    """
    make, constant = onnx.helper.make_node, onnx.numpy_helper.from_array
    describe, element = onnx.helper.make_tensor_value_info, onnx.TensorProto
    kind = onnx.helper.np_dtype_to_tensor_dtype(precision)
    n_numbers = n_features if known is None else len(known.numeric)
    inputs = [describe("X", kind, ["n_samples", n_numbers])] if n_numbers else []
    if known is None or not (known.fills or known.categories):
        return OnnxColumns(known, precision, inputs, [], [], "X")
    fills = dict(zip(known.columns, known.fill_values().tolist(), strict=True))
    nodes, constants, parts = [], [], list[str]()
    if n_numbers:
        medians = np.array([[fills[name] for name in known.numeric]], precision)
        constants.append(constant(medians, "fills"))
        nodes += [
            make("IsNaN", ["X"], ["gaps"]),
            make("Where", ["gaps", "fills", "X"], ["numbers"]),
        ]
        parts.append("numbers")
    if known.categories:
        inputs.append(describe("categories", element.STRING, ["n_samples", len(known.categories)]))
    for n, name in enumerate(column for column in known.columns if column in known.categories):
        values = list(known.categories[name])
        gaps = [] if np.isnan(fills[name]) else [text for text in MISSING if text not in values]
        places = [*range(len(values)), *(int(fills[name]) for _ in gaps)]
        keys = {"keys_strings": values + gaps, "values_int64s": places, "default_int64": -1}
        constants.append(constant(np.array([n]), f"column_{n}"))
        constants.append(constant(np.array([known.find_places(name)]), f"known_{n}"))
        nodes.append(make("Gather", ["categories", f"column_{n}"], [f"texts_{n}"], axis=1))
        nodes.append(make("LabelEncoder", [f"texts_{n}"], [f"place_{n}"], domain=_ML, **keys))
        nodes.append(make("Equal", [f"place_{n}", f"known_{n}"], [f"same_{n}"]))
        nodes.append(make("Cast", [f"same_{n}"], [f"indicators_{n}"], to=kind))
        parts.append(f"indicators_{n}")
    order = known.order_of_features()
    constants.append(constant(np.array(order), "order"))
    nodes.append(make("Concat", parts, ["joined"], axis=1))
    nodes.append(make("Gather", ["joined", "order"], ["features"], axis=1))
    return OnnxColumns(known, precision, inputs, nodes, constants, "features")


def onnx_front(
    onnx: ModuleType, front: Sequence[Step], precision: Precision, last: str
) -> tuple[list[Exported], list[Exported], str]:
    """Return the nodes and constants of steps behind `last`, and the name of what comes out."""
    make, constant = onnx.helper.make_node, onnx.numpy_helper.from_array
    nodes = []
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


def torch_front(
    torch: ModuleType, known: Preparation | None, front: Sequence[Step], precision: Precision
) -> list[Exported]:
    """Return the layers before a map, frozen."""
    layers = list[Exported]()
    if known is not None and (known.fills or known.categories):
        from mdaml.io.torch_layers import TableColumns

        layers.append(TableColumns(known, torch.tensor(known.fill_values().astype(precision))))
    if not front:
        return layers
    from mdaml.io.torch_layers import RowNorm

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

"""What comes before a learned map, as parts of exported models: columns of a table, then steps.

A step is a mapping: ``x -> (matrix x + offset) / norm``, with ``norm`` one of "l1", "l2" and "max".
Without matrix and offset, which are then None, rows are brought to length one and nothing else.
"""

import re
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from mdaml.io.export import Exported, OnnxColumns, Precision, Step, cast
from mdaml.io.preparation import Preparation

_ML = "ai.onnx.ml"  # operators of ONNX for texts
# All that str.strip removes.
_SPACES = (
    r"[\x{9}-\x{d}\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}"
    r"\x{205f}\x{3000}]*"
)
_EMPTY = -2.0  # in place of a category, where a cell is empty and nothing is known to fill it with


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
        own_nodes, own_constants = _onnx_category(onnx, known, name, n, precision)
        nodes, constants = nodes + own_nodes, constants + own_constants
        parts.append(f"indicators_{n}")
    order = known.order_of_features()
    constants.append(constant(np.array(order), "order"))
    nodes.append(make("Concat", parts, ["joined"], axis=1))
    nodes.append(make("Gather", ["joined", "order"], ["features"], axis=1))
    return OnnxColumns(known, precision, inputs, nodes, constants, "features")


def _onnx_category(
    onnx: ModuleType, known: Preparation, name: str, n: int, precision: Precision
) -> tuple[list[Exported], list[Exported]]:
    """Return nodes and constants that make zeros and ones of the texts of column n.

    A text is the category that it equals; otherwise, without the spaces around it, a text that
    means empty or a category, which is what :meth:`Preparation.read` returns.
    """
    make, constant = onnx.helper.make_node, onnx.numpy_helper.from_array
    kind = onnx.helper.np_dtype_to_tensor_dtype(precision)
    values = list(known.categories[name])
    fill = dict(zip(known.columns, known.fill_values().tolist(), strict=True))[name]
    gap = values.index("") if "" in values else _EMPTY if np.isnan(fill) else fill
    patterns = {"|".join(map(re.escape, known.na)): gap} | {
        re.escape(value): float(place)
        for place, value in enumerate(values)
        if value == value.strip() and value not in known.na
    }
    matches = [f"match_{n}_{k}" for k in range(len(patterns))]
    nodes = [make("Gather", ["categories", f"column_{n}"], [f"texts_{n}"], axis=1)]
    nodes += [
        make("RegexFullMatch", [f"texts_{n}"], [match], pattern=f"{_SPACES}(?:{text}){_SPACES}")
        for match, text in zip(matches, patterns, strict=True)
    ]
    keys = {"keys_strings": values, "values_int64s": range(len(values)), "default_int64": -1}
    nodes += [
        make("Concat", matches, [f"matches_{n}"], axis=1),
        make("Cast", [f"matches_{n}"], [f"is_{n}"], to=kind),
        make("MatMul", [f"is_{n}", f"places_{n}"], [f"plain_{n}"]),  # at most one is one
        make("Add", [f"plain_{n}", f"unknown_{n}"], [f"spelled_{n}"]),
        make("LabelEncoder", [f"texts_{n}"], [f"exact_{n}"], domain=_ML, **keys),
        make("Cast", [f"exact_{n}"], [f"same_{n}"], to=kind),
        make("Equal", [f"same_{n}", f"unknown_{n}"], [f"is_other_{n}"]),
        make("Where", [f"is_other_{n}", f"spelled_{n}", f"same_{n}"], [f"place_{n}"]),
        make("Equal", [f"place_{n}", f"known_{n}"], [f"found_{n}"]),
        make("Cast", [f"found_{n}"], [f"ones_{n}"], to=kind),
        make("Equal", [f"place_{n}", f"empty_{n}"], [f"gaps_{n}"]),
        make("Where", [f"gaps_{n}", f"nan_{n}", f"ones_{n}"], [f"indicators_{n}"]),
    ]
    numbers = {
        f"places_{n}": [[place + 1.0] for place in patterns.values()],
        f"unknown_{n}": [[-1.0]],
        f"known_{n}": [known.find_places(name)],
        f"empty_{n}": [[_EMPTY]],
        f"nan_{n}": [[np.nan]],
    }
    constants = [constant(np.array(value, precision), key) for key, value in numbers.items()]
    return nodes, [*constants, constant(np.array([n]), f"column_{n}")]


def onnx_front(
    onnx: ModuleType, front: Sequence[Step], precision: Precision, last: str
) -> tuple[list[Exported], list[Exported], str]:
    """Return the nodes and constants of steps behind `last`, and the name of what comes out."""
    make, constant = onnx.helper.make_node, onnx.numpy_helper.from_array
    nodes = []
    constants = [constant(np.array(np.finfo(precision).tiny, precision), "tiny")] if front else []
    constants += [constant(np.array([1]), "one")] if front else []
    for n, step in enumerate(front):
        if step["matrix"] is not None:
            constants.append(constant(cast(step["matrix"].T, precision), f"matrix_{n}"))
            constants.append(constant(cast(step["offset"], precision), f"offset_{n}"))
            nodes.append(make("MatMul", [last, f"matrix_{n}"], [f"rotated_{n}"]))
            nodes.append(make("Add", [f"rotated_{n}", f"offset_{n}"], [f"shifted_{n}"]))
            last = f"shifted_{n}"
        nodes += _onnx_length(onnx, step["norm"], last, n)
        # Rows of zeros stay so.
        nodes.append(make("Max", [f"length_{n}", "tiny"], [f"divisor_{n}"]))
        nodes.append(make("Div", [last, f"divisor_{n}"], [f"unit_{n}"]))
        last = f"unit_{n}"
    return nodes, constants, last


def _onnx_length(onnx: ModuleType, norm: str, rows: str, n: int) -> list[Exported]:
    """Return nodes that make length_n of rows, by operators that all versions have alike."""
    make, length = onnx.helper.make_node, f"length_{n}"
    if norm == "l2":
        return [
            make("Mul", [rows, rows], [f"squares_{n}"]),
            make("ReduceSum", [f"squares_{n}", "one"], [f"square_{n}"], keepdims=1),
            make("Sqrt", [f"square_{n}"], [length]),
        ]
    sizes = make("Abs", [rows], [f"sizes_{n}"])
    if norm == "l1":
        return [sizes, make("ReduceSum", [f"sizes_{n}", "one"], [length], keepdims=1)]
    return [sizes, make("TopK", [f"sizes_{n}", "one"], [length, f"largest_{n}"], axis=1)]


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

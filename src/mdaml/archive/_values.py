"""Values as JSON: plain ones as they are, all others as an object of one tagged field.

===========  ==================================================================
tag          value
===========  ==================================================================
``float``    ``"nan"``, ``"inf"`` or ``"-inf"``
``number``   a scalar of NumPy: its dtype and its value
``array``    name, dtype, shape, order and checksum of an entry of the zip
``strings``  a one-dimensional array of Python strings, as names of features are
``tuple``    a list
``dict``     an object
``model``    class, params, fitted
===========  ==================================================================
"""

import hashlib
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from mdaml.archive import _npy
from mdaml.archive._npy import Array, Layout

_DEEPEST = 16
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
Parts = tuple[str, dict[str, Any], dict[str, Any]]  # class name, parameters, learned attributes


class Encoder:
    """Turns values into JSON and collects the arrays in them."""

    def __init__(self, take_apart: Callable[[Any, str], Parts | None]) -> None:
        self.arrays: dict[str, tuple[Array, Layout]] = {}
        self._take_apart = take_apart

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """Return the JSON of a value; ``where`` names it in errors and in names of entries."""
        if depth > _DEEPEST:
            raise ValueError(f"{where} is nested too deeply to be saved.")
        if isinstance(value, np.generic):
            return self._number(value, where)
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if type(value) in (np.ndarray, np.memmap):
            return self._array(value, where)
        if type(value) in (list, tuple):
            items = [self.encode(v, f"{where}.{n}", depth + 1) for n, v in enumerate(value)]
            return items if type(value) is list else {"tuple": items}
        if type(value) is dict and all(type(key) is str for key in value):
            return {"dict": self._mapping(value, where, depth)}
        parts = self._take_apart(value, where)
        if parts is None:
            raise self._refusal(value, where)
        name, params, learned = parts
        prefix = f"{where}." if where else ""
        fitted = {k: self.encode(v, prefix + k, depth + 1) for k, v in learned.items()}
        settings = self._mapping(params, f"{prefix}params", depth)
        return {"model": {"class": name, "params": settings, "fitted": fitted}}

    def _mapping(self, value: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        return {k: self.encode(v, f"{where}.{k}", depth + 1) for k, v in value.items()}

    def _number(self, value: Any, where: str) -> Any:
        if isinstance(value, str):
            return str(value)
        dtype = _npy.portable(value.dtype).str
        if dtype not in _npy.DTYPES:
            raise self._refusal(value, where)
        return {"number": [dtype, self.encode(value.item(), where)]}

    def _array(self, value: Array, where: str) -> Any:
        if value.dtype == object and value.ndim == 1 and all(type(v) is str for v in value):
            return {"strings": value.tolist()}
        layout = Layout.of(value)
        if layout.dtype not in _npy.DTYPES:
            raise self._refusal(value, where)
        name = "arrays/" + re.sub(r"[^A-Za-z0-9_.]", "_", where)
        while f"{name}.npy" in self.arrays:
            name += "+"
        digest = hashlib.sha256()
        for chunk in _npy.to_chunks(value, layout):
            digest.update(chunk)
        self.arrays[f"{name}.npy"] = value, layout
        described = {"file": f"{name}.npy", "dtype": layout.dtype, "shape": list(layout.shape)}
        return {"array": {**described, "order": layout.order, "sha256": digest.hexdigest()}}

    @staticmethod
    def _refusal(value: Any, where: str) -> TypeError:
        what = type(value).__name__
        if isinstance(value, np.ndarray):
            what = f"{what} of dtype {value.dtype}"
        advice = "Set it to something else by set_params before saving."
        if isinstance(value, np.random.RandomState):
            advice = "Its state is not saved: set_params(random_state=None), or an integer, first."
        where = re.sub(r"(.*\.)?params\.", "The parameter ", where)
        return TypeError(
            f"{where} is a {what}, which cannot be saved; None, numbers, strings, NumPy arrays of "
            f"numbers, and lists, tuples and dicts of these can. {advice}"
        )


class Decoder:
    """Turns JSON into values; refuses all that no encoder writes."""

    def __init__(
        self,
        read: Callable[[str, Layout, str], Array],
        build: Callable[[str, dict[str, Any], dict[str, Any]], Any],
    ) -> None:
        self._read, self._build = read, build
        self._tags: dict[str, Callable[[Any, int], Any]] = {
            "float": self._float,
            "number": self._number,
            "array": self._array,
            "strings": self._strings,
            "tuple": lambda value, depth: tuple(self._list(value, depth)),
            "dict": self._mapping,
            "model": self.model,
        }

    def decode(self, tree: Any, depth: int = 0) -> Any:
        """Return the value."""
        if depth > _DEEPEST:
            raise ValueError("a value is nested too deeply")
        if isinstance(tree, list):
            return self._list(tree, depth)
        if isinstance(tree, dict):
            (tag, value), *more = tree.items() if tree else [("", None)]
            if more or tag not in self._tags:
                raise ValueError(f"a value is of an unknown kind, {', '.join(tree)[:60]!r}")
            return self._tags[tag](value, depth)
        if isinstance(tree, float) and not math.isfinite(tree):
            raise ValueError("a number is too large")
        return tree

    def model(self, value: Any, depth: int = 0) -> Any:
        """Return a model."""
        fields = exactly(value, {"class", "params", "fitted"}, "a model")
        if not isinstance(fields["class"], str):
            raise ValueError("the class of a model is not a name")
        params = self._mapping(fields["params"], depth)
        return self._build(fields["class"], params, self._mapping(fields["fitted"], depth))

    def _list(self, value: Any, depth: int) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError("a list was expected")
        return [self.decode(item, depth + 1) for item in value]

    def _mapping(self, value: Any, depth: int) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("an object of JSON was expected")
        return {key: self.decode(item, depth + 1) for key, item in value.items()}

    def _float(self, value: Any, depth: int) -> float:  # noqa: ARG002
        if not isinstance(value, str) or value not in _SPECIAL:
            raise ValueError("a float is none of nan, inf, -inf")
        return _SPECIAL[value]

    def _number(self, value: Any, depth: int) -> Any:
        dtype, tree = value if isinstance(value, list) and len(value) == 2 else (None, None)
        if dtype not in _npy.DTYPES:
            raise ValueError("a number is of no known dtype")
        number, kind = self.decode(tree, depth + 1), np.dtype(dtype).kind
        if type(number) is not {"b": bool, "f": float}.get(kind, int):
            raise ValueError(f"a number of dtype {dtype} is not")
        if kind in "iu" and not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
            raise ValueError(f"a number is too large for its dtype {dtype}")
        with np.errstate(over="ignore"):
            return np.dtype(dtype).type(number)

    def _array(self, value: Any, depth: int) -> Array:  # noqa: ARG002
        fields = exactly(value, {"file", "dtype", "shape", "order", "sha256"}, "an array")
        layout = Layout.parse(fields["dtype"], fields["shape"], fields["order"])
        if not isinstance(fields["file"], str) or not isinstance(fields["sha256"], str):
            raise ValueError("an array has no file or no checksum")
        return self._read(fields["file"], layout, fields["sha256"])

    def _strings(self, value: Any, depth: int) -> Array:  # noqa: ARG002
        if not isinstance(value, list) or not all(type(item) is str for item in value):
            raise ValueError("a list of strings was expected")
        return np.array(value, dtype=object)


def exactly(value: Any, names: set[str], what: str) -> dict[str, Any]:
    """Return a JSON object that must have these fields and no others."""
    if not isinstance(value, dict) or set(value) != names:
        raise ValueError(f"{what} must have the fields {', '.join(sorted(names))}")
    return value

"""Saved models: class name, parameters and learned attributes in a zip without any code.

Plain values are JSON as they are, all others an object with one field:

===========  ==================================================================
field        value
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

import math
import os
import re
import stat
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import Array
from mdaml.io import model_zip
from mdaml.io.atomic import replace_file
from mdaml.io.messages import check_readable
from mdaml.io.model_zip import DAMAGE, DTYPES, Described, ZipReader, get_dtype

Value: TypeAlias = Any  # of a model or a document: anything, until it is checked
Attributes: TypeAlias = dict[str, Value]  # parameters or learned attributes, by name
Build: TypeAlias = Callable[[str, Attributes, Attributes], BaseEstimator]

FORMAT = "mdaml model"
FORMAT_VERSION = 1
# What describes the training data and is of no use for new samples; `compact` leaves it out.
TRAINING_ONLY = frozenset({"weights_", "triplets_", "comparisons_", "comparison_weights_"})
_PACKAGES = (
    "mdaml.estimators",
    "mdaml.people",
    "mdaml.retrieval",
)  # only classes from here can be loaded
_MAX_DEPTH = 16


def write_model(
    path: str | os.PathLike[str], model: BaseEstimator, *, compact: bool = True
) -> None:
    """Write a fitted model; see ``MahalanobisTransformer.save``.

    Parameters
    ----------
    path : str or path
        The file, replaced only once the new one is complete.
    model : fitted estimator of mdaml
    compact : bool, default=True
        Leave out attributes of :data:`TRAINING_ONLY`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mdaml import Euclidean
    >>> from mdaml.io.model_file import write_model
    >>> model = Euclidean().fit([[0.0, 1.0], [2.0, 3.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(Path(folder, "plain.mdaml"), model)
    ...     [file.name for file in Path(folder).iterdir()]
    ['plain.mdaml']
    """
    check_is_fitted(model, "components_")
    arrays: dict[str, Described] = {}
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "mdaml_version": version("mdaml"),
        **_encode(model, "", arrays, compact),
    }
    with replace_file(path) as part, part.open("wb") as file:
        model_zip.write_zip(file, document, arrays.values())


def _encode(
    value: Value, where: str, arrays: dict[str, Described], compact: bool, depth: int = 0
) -> Value:
    """Return the JSON of a value; ``where`` names it in errors and in the names of its arrays."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"{where} is nested too deeply to be saved.")

    def encode_fields(fields: Mapping[str, object], prefix: str) -> dict[str, object]:
        return {k: _encode(v, prefix + k, arrays, compact, depth + 1) for k, v in fields.items()}

    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.str_):
        return str(value)
    if isinstance(value, np.generic) and get_dtype(value) in DTYPES:
        return {"number": [get_dtype(value), _encode(value.item(), where, arrays, compact, depth)]}
    if type(value) in (np.ndarray, np.memmap):
        return _encode_array(value, where, arrays)
    if type(value) in (list, tuple):
        items = list(encode_fields({str(n): v for n, v in enumerate(value)}, f"{where}.").values())
        return items if type(value) is list else {"tuple": items}
    if is_dataclass(value) and not isinstance(value, type):  # a Preset, or Partners
        value = asdict(value)
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": encode_fields(value, f"{where}.")}
    if not isinstance(value, BaseEstimator):
        raise _refusal(value, where)
    params, learned = _split_model(value, where, compact)
    prefix = f"{where}." if where else ""
    fitted = encode_fields(learned, prefix)
    settings = encode_fields(params, f"{prefix}params.")
    return {"model": {"class": type(value).__name__, "params": settings, "fitted": fitted}}


def _encode_array(value: Array, where: str, arrays: dict[str, Described]) -> dict[str, object]:
    if value.dtype.kind in "OU" and value.ndim == 1 and all(isinstance(v, str) for v in value):
        return {"strings": value.tolist()}
    if get_dtype(value) not in DTYPES:
        raise _refusal(value, where)
    name = "arrays/" + re.sub(r"[^A-Za-z0-9_.]", "_", where)
    while f"{name}.npy" in arrays:
        name += "+"
    arrays[f"{name}.npy"] = model_zip.describe_array(f"{name}.npy", value)
    return {"array": arrays[f"{name}.npy"][1]}


def _refusal(value: object, where: str) -> TypeError:
    what = type(value).__name__
    if isinstance(value, np.ndarray):
        what = f"{what} of dtype {value.dtype}"
    advice = "Set it to something else by set_params before saving."
    if isinstance(value, np.random.RandomState | np.random.Generator):
        advice = "Its state is not saved: set_params(random_state=None), or an integer, first."
    where = re.sub(r"(.*\.)?params\.", "The parameter ", where)
    return TypeError(
        f"{where} is a {what}, which cannot be saved; None, numbers, strings, NumPy arrays of "
        f"numbers, and lists, tuples and dicts of these can. {advice}"
    )


def _split_model(model: BaseEstimator, where: str, compact: bool) -> tuple[Attributes, Attributes]:
    """Return the parameters and the learned attributes of a model."""
    name = type(model).__name__
    if type(model).__module__.rpartition(".")[0] not in _PACKAGES:
        raise TypeError(
            f"{where or 'The model'} is a {name}, which is not an estimator of mdaml itself: its "
            "file could not be loaded. For a search, save best_estimator_; for a pipeline, save "
            "mdaml.fold_pipeline(pipeline)."
        )
    params = model.get_params(deep=False)
    if params.get("callback") is not None:
        params["callback"] = None
        warnings.warn(
            f"{name}(callback=...) is not saved: files hold no code. It is None in the loaded "
            "model; set it again by set_params if you fit again.",
            UserWarning,
            stacklevel=5,
        )
    left_out = TRAINING_ONLY if compact else frozenset()
    learned = {k: v for k, v in vars(model).items() if is_learned_name(k) and k not in left_out}
    try:
        check_learned(learned)
    except ValueError as error:
        raise ValueError(f"This {name} cannot be saved: {error}. Fit it again.") from None
    return params, learned


def is_learned_name(name: str) -> bool:
    """Return whether scikit-learn's rules make this the name of something learned."""
    return name.isidentifier() and name.endswith("_") and not name.startswith("_")


def read_model(path: str | os.PathLike[str], build: Build) -> BaseEstimator:
    """Read a model, or refuse the file with a ValueError; nothing in it is executed.

    Parameters
    ----------
    path : str or path
        A file of :func:`write_model`, or anything at all.
    build : callable
        Called as ``build(class_name, params, learned)`` for every model in the file, the innermost
        first; raises ValueError for what it does not know.

    Returns
    -------
    model : whatever ``build`` returned last

    Examples
    --------
    >>> from mdaml.io.model_file import read_model
    >>> read_model("pyproject.toml", build=print)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: pyproject.toml cannot be loaded: it is not a zip file, or it was cut off. Name a...
    """
    try:
        check_readable(path)
    except IsADirectoryError as error:
        raise ValueError(str(error)) from None
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe would block, a device never end
            raise ValueError("it is not a plain file")
        with Path(path).open("rb") as file:
            reader = ZipReader(file)
            document = _check_format(reader.read_document())
            model = _decode({"model": document["model"]}, reader, build)
            reader.check_all_read()
            return model
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} cannot be loaded: {error}.") from error
    except DAMAGE as error:
        message = f"{os.fspath(path)} cannot be loaded: it is damaged: {error}."
        raise ValueError(message) from error


def _check_format(document: object) -> Attributes:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("it is a zip file, but no model of mdaml")
    number = document.get("format_version")
    if type(number) is not int or number < 1:
        raise ValueError(f"its format version is {number!r}, not a positive integer")
    if number > FORMAT_VERSION:
        raise ValueError(
            f"it has format version {number}, written by mdaml {document.get('mdaml_version')!r}; "
            f"mdaml {version('mdaml')} reads versions up to {FORMAT_VERSION}. Update mdaml"
        )
    if set(document) != {"format", "format_version", "mdaml_version", "model"}:
        raise ValueError("it must have the fields format, format_version, mdaml_version and model")
    return document


def _decode(tree: object, reader: ZipReader, build: Build, depth: int = 0) -> object:
    """Return the value of some JSON; refuse all that :func:`_encode` never writes."""
    if depth > _MAX_DEPTH:
        raise ValueError("a value is nested too deeply")

    def decode_all(items: list[object]) -> list[object]:
        return [_decode(item, reader, build, depth + 1) for item in items]

    def decode_fields(fields: dict[str, object]) -> dict[str, object]:
        return dict(zip(fields, decode_all(list(fields.values())), strict=True))

    if isinstance(tree, float) and not math.isfinite(tree):
        raise ValueError("a number is too large")
    if isinstance(tree, list):
        return decode_all(tree)
    if not isinstance(tree, dict):
        return tree
    items: list[tuple[str, Value]] = list(tree.items())
    kind, value = items[0] if len(items) == 1 else ("", {})
    match kind, value:
        case "float", "nan" | "inf" | "-inf":
            return float(value)
        case "number", [str(dtype), number] if dtype in DTYPES:
            return _decode_number(dtype, *decode_all([number]))
        case "array", dict():
            return reader.read_array(value)
        case "strings", list() if all(type(name) is str for name in value):
            return np.array(value, dtype=object)
        case "tuple", list():
            return tuple(decode_all(value))
        case "dict", dict():
            return decode_fields(value)
        case "model", {"class": str(name), "params": dict(p), "fitted": dict(f)} if len(value) == 3:
            return build(name, decode_fields(p), decode_fields(f))
    raise ValueError(f"a value is of an unknown kind or form, {', '.join(tree)[:60]!r}")


def _decode_number(dtype: str, number: object) -> np.generic:
    kind = np.dtype(dtype).kind
    if type(number) is not {"b": bool, "f": float}.get(kind, int):
        raise ValueError(f"a number is not of its dtype {dtype}")
    if kind in "iu" and not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        raise ValueError(f"a number is too large for its dtype {dtype}")
    with np.errstate(over="ignore"):
        return np.dtype(dtype).type(number)


def check_learned(learned: Mapping[str, Value]) -> None:
    """Refuse attributes that do not fit together or are not finite, in the name of the first.

    Parameters
    ----------
    learned : mapping of str to object
        Attributes by name.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.io.model_file import check_learned
    >>> check_learned({"components_": np.eye(3), "n_features_in_": 4})
    Traceback (most recent call last):
    ValueError: components_ must be floats of shape (n_components, 4), got shape (3, 3)
    """
    for name, value in learned.items():
        is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        if is_float and not np.all(np.isfinite(value)):
            raise ValueError(f"{name} holds values that are not finite")
    d = learned.get("n_features_in_")
    if type(d) is not int or d < 1:
        raise ValueError(f"n_features_in_ must be a positive integer, got {d!r}")
    inner = _check_front(learned["front_"], d) if "front_" in learned else d
    inner = _check_basis(learned, d) if "n_places_" in learned else inner
    components = _check_matrix(learned, "components_", "f", "n_components", inner)
    if components is None or not len(components) or components.dtype.itemsize < 4:
        raise ValueError("components_ must have at least one row, in single or double precision")
    steps = learned.get("input_map_")
    if steps is not None and not (
        isinstance(steps, np.ndarray) and steps.dtype.kind == "f" and steps.shape[-1:] == (d,)
    ):
        raise ValueError(f"input_map_ must be floats of shape ({d},) or (n_inner, {d})")
    names = learned.get("feature_names_in_")
    is_list = isinstance(names, np.ndarray) and names.shape == (d,)
    if names is not None and not (is_list and all(type(name) is str for name in names)):
        raise ValueError(f"feature_names_in_ must be {d} strings, one name for each feature")
    centers = _check_matrix(learned, "centers_", "f", "n_modes", d)
    n_modes: int | str = "n_modes" if centers is None else len(centers)
    weights = _check_matrix(learned, "weights_", "f", "n_samples", n_modes)
    triplets = _check_matrix(learned, "triplets_", "iu", "n_triplets", 3)
    if triplets is not None and triplets.size:
        n_samples = np.inf if weights is None else len(weights)
        if triplets.min() < 0 or triplets.max() >= n_samples:
            raise ValueError("triplets_ must be row numbers of the training samples")


def _check_front(front: object, d: int) -> int:
    """Return the width of what comes out of the steps before a map, or refuse them."""
    wanted = "front_ must be steps, each with matrix, offset and norm, that fit together"
    if not isinstance(front, list) or not all(isinstance(step, dict) for step in front):
        raise ValueError(wanted)
    for step in front:
        if set(step) != {"matrix", "offset", "norm"} or step["norm"] not in ("l1", "l2", "max"):
            raise ValueError(wanted)
        matrix, offset = step["matrix"], step["offset"]
        if matrix is None and offset is None:
            continue
        for part in (matrix, offset):
            is_float = isinstance(part, np.ndarray) and part.dtype == np.float64
            if not is_float or not np.all(np.isfinite(part)):
                raise ValueError(wanted)
        if matrix.ndim != 2 or matrix.shape[1] != d or offset.shape != matrix.shape[:1]:
            raise ValueError(wanted)
        d = len(matrix)
    return d


def _check_basis(learned: Mapping[str, Value], d: int) -> int:
    """Return the number of columns of a basis of d features, or refuse what does not fit.

    ``front_matrix_`` and ``front_offset_`` are linear steps before it.
    """
    inner, vectors = d, {"mean_": d}
    if learned.get("front_matrix_") is not None:
        front = _check_matrix(learned, "front_matrix_", "f", "n_inner", d)
        inner = 0 if front is None else len(front)
        vectors["front_offset_"] = inner
    for name, length in vectors.items():
        value = learned.get(name)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or len(value) != length:
            raise ValueError(f"{name} must be floats of shape ({length},)")
    for name in ("scale_", "width_", "map_width_", "landmark_width_"):
        if type(learned.get(name)) is not float:
            raise ValueError(f"{name} must be a float")
    numbers = []
    for count, name in (("n_places_", "centers_"), ("n_maps_", "map_centers_")):
        centers = _check_matrix(learned, name, "f", count, d)
        if centers is None or learned.get(count) != len(centers):
            raise ValueError(f"{name} must be there, with {count} rows")
        numbers.append(len(centers))
    landmarks = _check_matrix(learned, "landmark_centers_", "f", "n_landmarks", d)
    n_landmarks = len(landmarks) if landmarks is not None else 0
    _check_matrix(learned, "landmark_map_", "f", "n_components", n_landmarks)
    return inner + numbers[0] + inner * numbers[1]


def _check_matrix(
    learned: Mapping[str, Value], name: str, kinds: str, n_rows: str, n_columns: int | str
) -> Array | None:
    """Return an attribute, if there, as a matrix; a string stands for any number of columns."""
    if name not in learned:
        return None
    value, numbers = learned[name], "floats" if kinds == "f" else "integers"
    wanted = f"{name} must be {numbers} of shape ({n_rows}, {n_columns})"
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        raise ValueError(f"{wanted}, got {getattr(value, 'dtype', type(value).__name__)}")
    if value.ndim != 2 or n_columns not in (value.shape[1], "n_modes"):
        raise ValueError(f"{wanted}, got shape {value.shape}")
    return value

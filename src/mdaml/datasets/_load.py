"""Read the data sets of the registry."""

import gzip
from difflib import get_close_matches
from importlib.resources import files
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from mdaml.datasets._registry import BUNDLED, DatasetRecord

Arrays = tuple[NDArray[np.float64], NDArray[np.int64]]


def list_datasets() -> list[DatasetRecord]:
    """List the records of all data sets that `load_dataset` reads.

    Returns
    -------
    list of DatasetRecord
        Name, size, classes, source, licence, citation and checksum of each set.

    Examples
    --------
    >>> from mdaml.datasets import list_datasets
    >>> [record.name for record in list_datasets() if record.n_features < 10]
    ['balance', 'autompg']
    """
    return list(BUNDLED.values())


@overload
def load_dataset(name: str, *, return_X_y: Literal[False] = False) -> Bunch: ...
@overload
def load_dataset(name: str, *, return_X_y: Literal[True]) -> Arrays: ...
@overload
def load_dataset(name: str, *, return_X_y: bool) -> Bunch | Arrays: ...
def load_dataset(name: str, *, return_X_y: bool = False) -> Bunch | Arrays:
    """Load a data set: its points, labels and description.

    The features are the source's own values: scale them, on the training part only, before
    learning a metric.

    Parameters
    ----------
    name : str
        One of the names of `list_datasets`.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the whole description.

    Returns
    -------
    sklearn.utils.Bunch or tuple of ndarray
        ``data`` is float64 of shape (n_samples, n_features) and ``target`` int64 of shape
        (n_samples,), with label ``c`` standing for ``target_names[c]``. The other fields are
        ``feature_names``, ``target_names``, ``name``, ``source`` and ``licence``.

    Examples
    --------
    >>> from mdaml.datasets import load_dataset
    >>> vehicle = load_dataset("vehicle")
    >>> vehicle.data.shape, vehicle.target_names
    ((846, 18), ['bus', 'opel', 'saab', 'van'])
    >>> X, y = load_dataset("vehicle", return_X_y=True)
    >>> y[:5]
    array([3, 3, 2, 3, 0])
    """
    record = _find(name)
    data, target = _read_bundled(record)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        feature_names=list(record.feature_names),
        target_names=list(record.class_names),
        name=record.name,
        source=record.source,
        licence=record.licence,
    )


def _find(name: str) -> DatasetRecord:
    if isinstance(name, str) and name in BUNDLED:
        return BUNDLED[name]
    near = get_close_matches(name.lower(), BUNDLED, n=1) if isinstance(name, str) else []
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"name must be one of {', '.join(BUNDLED)}, got {name!r}.{hint}")


def _read_bundled(record: DatasetRecord) -> Arrays:
    resource = files("mdaml.datasets") / "data" / f"{record.name}.csv.gz"
    with resource.open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)

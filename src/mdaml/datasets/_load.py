"""Load the data sets of the registry."""

import gzip
import hashlib
import io
import os
from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from mdaml.datasets._registry import DATASETS, DatasetRecord
from mdaml.datasets._synthetic import make_waveform

DataAndTarget = tuple[NDArray[np.float64], NDArray[np.int64]]
Folder = str | os.PathLike[str]

# Changing it changes every result on the set.
_WAVEFORM_SEED = 0


def list_datasets() -> list[DatasetRecord]:
    """List the records of all data sets that `load_dataset` knows.

    Returns
    -------
    list of DatasetRecord
        Name, size, classes, source, licence, citation and checksum of each set, and whether it
        comes with the library (``availability``).

    See Also
    --------
    load_dataset : Loads one of them.

    Examples
    --------
    >>> from mdaml.datasets import list_datasets
    >>> for record in list_datasets():
    ...     print(record.name, (record.n_samples, record.n_features), record.availability)
    sonar (208, 60) bundled
    dna (2000, 180) bundled
    balance (625, 4) bundled
    autompg (392, 7) bundled
    letter (20000, 16) bundled
    vehicle (846, 18) bundled
    spambase (4601, 57) bundled
    waveform (5000, 21) generated
    german (1000, 24) bundled
    segment (2310, 18) bundled
    pubfig (772, 542) data folder
    osr (2688, 512) data folder
    caltech20 (1536, 512) data folder
    """
    return list(DATASETS.values())


@overload
def load_dataset(
    name: str, *, return_X_y: Literal[False] = False, data_home: Folder | None = None
) -> Bunch: ...
@overload
def load_dataset(
    name: str, *, return_X_y: Literal[True], data_home: Folder | None = None
) -> DataAndTarget: ...
@overload
def load_dataset(
    name: str, *, return_X_y: bool, data_home: Folder | None = None
) -> Bunch | DataAndTarget: ...
def load_dataset(
    name: str, *, return_X_y: bool = False, data_home: Folder | None = None
) -> Bunch | DataAndTarget:
    """Load a data set: its samples, labels and description.

    The features have the values of the source. Scale them before learning a metric, with a scaler
    fitted to the training part only.

    Nine sets come with the library. ``"waveform"`` is ``make_waveform(5000, random_state=0)``. The
    image sets ``"pubfig"``, ``"osr"`` and ``"caltech20"`` are read from a folder of yours that
    holds ``pubfig.csv.gz`` and so on. Every file must have the checksum of the registry, so that a
    name always stands for the same numbers.

    Parameters
    ----------
    name : str
        One of the names of `list_datasets`.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the whole description.
    data_home : str or path, default=None
        Folder of the image sets; None reads the environment variable ``MDAML_DATA``. The other
        sets do not need a folder.

    Returns
    -------
    sklearn.utils.Bunch or tuple of ndarray
        ``data`` is float64 of shape (n_samples, n_features) and ``target`` int64 of shape
        (n_samples,), with label ``c`` standing for ``target_names[c]``. The other fields are
        ``feature_names``, ``target_names``, ``name``, ``source``, ``licence`` and ``note``.

    Raises
    ------
    FileNotFoundError
        If the file of an image set is missing.
    ValueError
        If no set has this name, or a file does not have the checksum of the registry.

    See Also
    --------
    list_datasets : Which there are.
    load_banking77 : Sentences with their embeddings.

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
    data, target = _arrays(record, data_home)
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
        note=record.note,
    )


def _find(name: str) -> DatasetRecord:
    if isinstance(name, str) and name in DATASETS:
        return DATASETS[name]
    near = get_close_matches(name.lower(), DATASETS, n=1) if isinstance(name, str) else []
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"name must be one of {', '.join(DATASETS)}, got {name!r}.{hint}")


def _arrays(record: DatasetRecord, data_home: Folder | None) -> DataAndTarget:
    if record.availability == "generated":
        return make_waveform(record.n_samples, random_state=_WAVEFORM_SEED)
    if record.availability == "bundled":
        resource = files("mdaml.datasets") / "data" / f"{record.name}.csv.gz"
        return _read(record, resource, "Install mdaml again.")
    return _read(
        record,
        _find_file(record, data_home),
        "Copy the file again. If you computed the features yourself, read them with your own code: "
        f"under the name {record.name!r} results would not be comparable.",
    )


def _find_file(record: DatasetRecord, data_home: Folder | None) -> Path:
    """Return the path of the file of a set in the data folder; an error says how to provide it."""
    file = f"{record.name}.csv.gz"
    # An empty variable counts as unset, as is usual.
    folder = data_home if data_home is not None else os.environ.get("MDAML_DATA") or None
    if folder is None:
        missing = f"needs the file {file} in a data folder, but no folder is set"
    else:
        path = Path(folder).expanduser() / file
        if path.is_file():
            return path
        given_by = "MDAML_DATA" if data_home is None else "data_home"
        missing = f"looked for the file {path} (folder given by {given_by})"
        missing += ", but there is no such " + ("file" if path.parent.is_dir() else "folder")
    raise FileNotFoundError(
        f"load_dataset({record.name!r}) {missing}.\n"
        f"Set the environment variable MDAML_DATA to the folder that holds {file}, or pass "
        "data_home=.\n"
        f"The file does not come with mdaml. It was made from: {record.citation}; "
        f"{record.source} (licence: {record.licence}).\n"
        f"{record.note}\n"
        "mdaml.features.gist computes such features for any images."
    )


def _read(record: DatasetRecord, path: Path | Traversable, remedy: str) -> DataAndTarget:
    """Return the arrays of a file, after checking its checksum and shape."""
    packed = path.read_bytes()
    found = hashlib.sha256(packed).hexdigest()
    if found != record.sha256:
        raise ValueError(
            f"{path} is not the file of the registry: its SHA-256 is {found} ({len(packed)} "
            f"bytes), but must be {record.sha256}. It is damaged or another version. {remedy}"
        )
    text = io.BytesIO(gzip.decompress(packed))
    table = np.loadtxt(text, delimiter=",", skiprows=1, ndmin=2)
    wanted = (record.n_samples, record.n_features + 1)
    if table.shape != wanted:
        raise ValueError(
            f"{path} must hold {wanted[0]} rows of {wanted[1] - 1} features and a label, got a "
            f"table of shape {table.shape}. The registry of mdaml.datasets is wrong: please report "
            "it."
        )
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)

"""The registry of data sets: size, classes, source, licence and checksum of each."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from mdaml._typing import Params


@dataclass(frozen=True)
class DatasetRecord:
    """One data set that `load_dataset` knows.

    Attributes
    ----------
    name : str
        What to pass to `load_dataset`.
    n_samples, n_features : int
        Shape of the data.
    class_names : tuple of str
        Name of label 0, 1, 2, ...
    feature_names : tuple of str
        Name of each column; ``f1, f2, ...`` where the source gives none.
    source : str
        Address of the data set's page.
    licence : str
        Licence under which the source offers the data.
    citation : str
        Who to cite.
    sha256 : str
        Checksum of the file ``name.csv.gz``; empty for a set that is generated.
    availability : {"bundled", "generated", "data folder"}
        Whether the set comes with the library, is drawn by it, or is read from your data folder.
    kind : {"table", "image"}
        Rows of a table, or features of images.
    note : str
        What to know before comparing results on this set with others.

    Examples
    --------
    >>> from mdaml.datasets import list_datasets
    >>> list_datasets()[0]
    DatasetRecord(sonar: 208 x 60, 2 classes, bundled)
    """

    name: str
    n_samples: int
    n_features: int
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    source: str
    licence: str
    citation: str
    sha256: str = ""
    availability: Literal["bundled", "generated", "data folder"] = "bundled"
    kind: Literal["table", "image"] = "table"
    note: str = ""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    # With all fields, up to 542 feature names, a list of records would fill many screens.
    def __repr__(self) -> str:
        """Return name and size only."""
        return (
            f"{type(self).__name__}({self.name}: {self.n_samples} x {self.n_features}, "
            f"{self.n_classes} classes, {self.availability})"
        )


def _read(name: str, entry: Params) -> DatasetRecord:
    """Return one entry of ``registry.toml``; names may be one prefix that is numbered from 1."""
    features, classes = entry.pop("features"), entry.pop("classes")
    names = tuple(features.split())
    if len(names) == 1:
        names = tuple(f"{features}{i}" for i in range(1, entry["n_features"] + 1))
    classes = tuple(classes if isinstance(classes, list) else classes.split())
    return DatasetRecord(name=name, feature_names=names, class_names=classes, **entry)


DATASETS = {
    name: _read(name, entry)
    for name, entry in tomllib.loads(
        files("mdaml.datasets").joinpath("registry.toml").read_text(encoding="utf-8")
    ).items()
}

"""Models to and from files."""

import os
import stat
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mdaml.archive._atomic import replacing
from mdaml.archive._container import Container, write_container
from mdaml.archive._learned import check_learned
from mdaml.archive._values import Decoder, Encoder, Parts, exactly

Build = Callable[[str, dict[str, Any], dict[str, Any]], Any]

FORMAT = "mdaml model"
FORMAT_VERSION = 1
# What describes the training data and is of no use for new samples; `compact` leaves it out.
TRAINING_ONLY = frozenset({"weights_", "triplets_", "comparisons_", "comparison_weights_"})
_HOME = "mdaml.estimators"  # only classes from here are known when the file is loaded


def write_model(path: str | os.PathLike[str], model: Any, *, compact: bool = False) -> None:
    """Write a fitted model; see ``MahalanobisTransformer.save``.

    Parameters
    ----------
    path : str or path
        The file, replaced only once the new one is complete.
    model : fitted estimator of mdaml
    compact : bool, default=False
        Leave out attributes of :data:`TRAINING_ONLY`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mdaml import Euclidean
    >>> from mdaml.archive import write_model
    >>> model = Euclidean().fit([[0.0, 1.0], [2.0, 3.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(Path(folder, "plain.mdaml"), model)
    ...     [file.name for file in Path(folder).iterdir()]
    ['plain.mdaml']
    """
    check_is_fitted(model, "components_")
    encoder = Encoder(lambda value, where: _take_apart(value, where, compact))
    tree = encoder.encode(model, "")
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "mdaml_version": version("mdaml"),
        **tree,
    }
    with replacing(path) as file:
        write_container(file, document, encoder.arrays)


def _take_apart(value: Any, where: str, compact: bool) -> Parts | None:
    """Return class name, parameters and learned attributes; None if it is no model."""
    if not isinstance(value, BaseEstimator):
        return None
    cls, name = type(value), type(value).__name__
    if cls.__module__.rpartition(".")[0] != _HOME:
        raise TypeError(
            f"{where or 'The model'} is a {name}, which is no estimator of mdaml itself: its file "
            "could not be loaded. Of a search, save best_estimator_; of a pipeline, its steps."
        )
    params = value.get_params(deep=False)
    if params.get("callback") is not None:
        params["callback"] = None
        warnings.warn(
            f"{name}(callback=...) is not saved: files hold no code. It is None in the loaded "
            "model; set it again by set_params if you fit again.",
            UserWarning,
            stacklevel=6,
        )
    learned = {key: v for key, v in vars(value).items() if is_learned_name(key)}
    if compact:
        learned = {key: v for key, v in learned.items() if key not in TRAINING_ONLY}
    try:
        check_learned(learned)
    except ValueError as error:
        raise ValueError(f"This {name} cannot be saved: {error}. Fit it again.") from None
    return name, params, learned


def is_learned_name(name: str) -> bool:
    """Return whether scikit-learn's rules make this the name of something learned."""
    return name.isidentifier() and name.endswith("_") and not name.startswith("_")


def read_model(path: str | os.PathLike[str], build: Build) -> Any:
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
    >>> from mdaml.archive import read_model
    >>> read_model("pyproject.toml", build=print)
    Traceback (most recent call last):
    ValueError: pyproject.toml cannot be loaded: it is no zip file, or it was cut off.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe would block, a device never end
            raise ValueError("it is not a plain file")
        with Path(path).open("rb") as file:
            container = Container(file)
            document = _check_format(container.document())
            model = Decoder(container.array, build).model(document["model"])
            container.check_all_read()
            return model
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} cannot be loaded: {error}.") from error


def _check_format(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("it is a zip file, but no model of mdaml")
    number = document.get("format_version")
    if type(number) is not int or number < 1:
        raise ValueError(f"its format version is {number!r}, which is none")
    if number > FORMAT_VERSION:
        raise ValueError(
            f"it has format version {number}, written by mdaml {document.get('mdaml_version')!r}; "
            f"mdaml {version('mdaml')} reads versions up to {FORMAT_VERSION}. Update mdaml"
        )
    return exactly(document, {"format", "format_version", "mdaml_version", "model"}, "model.json")

"""Loading saved models: which classes there are, and what each must bring."""

import os
from dataclasses import asdict

import numpy as np
from sklearn.base import BaseEstimator

from mdaml import estimators
from mdaml._typing import Params
from mdaml.estimators import MDaML, MDaMLCV
from mdaml.estimators.base import MahalanobisTransformer
from mdaml.estimators.pipelines import FoldedMetric
from mdaml.estimators.presets import Partners
from mdaml.io.model_file import check_learned, is_learned_name, read_model
from mdaml.io.preparation import Preparation
from mdaml.io.sketch import check_sketches
from mdaml.people import PersonalMetrics
from mdaml.retrieval import QueryAdapter

# The only classes a file can name; nothing is imported because of what a file holds.
_CLASSES: Params = {name: getattr(estimators, name) for name in estimators.__all__}
_CLASSES[FoldedMetric.__name__] = FoldedMetric
_CLASSES |= {"QueryAdapter": QueryAdapter, "PersonalMetrics": PersonalMetrics}
# Parameters of MDaML in files of 1.0.0rc1: fields of Partners, and those that moved to presets.
_PARTNERS = {
    "sampling": "kind",
    "n_similar": "n_similar",
    "n_dissimilar": "n_dissimilar",
    "n_refresh": "n_refresh",
    "pairing": "pairing",
}
_MOVED = frozenset({"floor", "init", "max_inner_iter", "memory_limit"})


def load(path: str | os.PathLike[str]) -> MahalanobisTransformer:
    """Return a model that was written by ``model.save(path)``.

    The file is not trusted: it holds no code, and a file that was cut off, changed or made up is
    refused. Checksums find damage, not forgery: whoever can write the file chooses the metric.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : estimator
        Of the class that was saved, fitted, with the same parameters and attributes, bit for bit.

    Raises
    ------
    ValueError
        If the file is no model, damaged, inconsistent, or written by a newer format; the message
        names the file and the reason.

    See Also
    --------
    fold_pipeline : Folds scaling and metric into one map before it is saved.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mdaml import GMML
    >>> from mdaml.datasets import load_dataset
    >>> from mdaml import load
    >>> X, y = load_dataset("balance", return_X_y=True)
    >>> model = GMML(t=0.3).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder, "balance.mdaml"))
    ...     again = load(Path(folder, "balance.mdaml"))
    >>> again
    GMML(t=0.3)
    >>> bool((again.transform(X) == model.transform(X)).all())
    True
    """
    return read_model(path, _build)


def _build(name: str, params: Params, learned: Params) -> BaseEstimator:
    """Return a model from parts that may be anything; constructors only store what they get."""
    cls = _CLASSES.get(name)
    if cls is None:
        raise ValueError(f"it holds a {name[:60]!r}; known are {', '.join(sorted(_CLASSES))}")
    if cls is MDaML:
        params = _renew(params)
    unknown = sorted(set(params) - set(cls().get_params(deep=False)))
    if unknown:
        raise ValueError(f"{name} has no parameter {unknown[0][:60]!r}")
    for key in learned:
        # What the class defines, such as a method, must not be hidden by a value.
        if not is_learned_name(key) or hasattr(cls, key):
            raise ValueError(f"{key[:60]!r} is not an attribute that {name} learns")
    check_learned(learned)
    if (cls is FoldedMetric) != ("front_" in learned):
        raise ValueError("front_ is missing, or is where it should not be")
    if "preparation_" in learned:
        known = Preparation.from_dict(learned["preparation_"])
        if len(known.features) != learned["n_features_in_"]:
            raise ValueError("its preparation_ has another number of features")
    if "fitted_to_" in learned:
        check_sketches(learned["fitted_to_"])
    if "training_rows_" in learned:
        _check_rows(learned["training_rows_"], learned["n_features_in_"])
    if cls is MDaML and "centers_" not in learned:
        raise ValueError("centers_ is missing")
    if cls is MDaMLCV:
        best = learned.get("best_estimator_")
        if type(best) is not MDaML or best.components_.shape != learned["components_"].shape:
            raise ValueError("best_estimator_ must be an MDaML of the same shape")
    if cls is PersonalMetrics:
        _check_people(learned)
    model = cls(**params)
    for key, value in learned.items():
        setattr(model, key, value)
    return model


def _check_rows(rows: object, d: int) -> None:
    """Refuse what is not labelled rows of d features."""
    if isinstance(rows, dict) and set(rows) == {"X", "labels"}:
        X, labels = rows["X"], rows["labels"]
        are_arrays = isinstance(X, np.ndarray) and isinstance(labels, np.ndarray)
        is_table = are_arrays and X.dtype.kind == "f" and X.shape == (len(labels), d) and len(X) > 0
        if is_table and np.isfinite(X).all() and all(isinstance(name, str) for name in labels):
            return
    raise ValueError("its training_rows_ are not those that mdaml fit writes")


def _check_people(learned: Params) -> None:
    """Refuse metrics of persons whose parts do not fit together."""
    metric = learned.get("metric_")
    if not isinstance(metric, MahalanobisTransformer):
        raise ValueError("metric_ must be a metric")
    names = np.asarray(learned.get("persons_", ()))
    learned["persons_"] = names.astype(np.str_) if names.dtype == object else names
    sizes = {"P": len(names), "K": learned.get("n_kinds_")}
    axes = learned.get("axes_")
    if not isinstance(axes, np.ndarray) or axes.ndim != 2 or len(axes) != len(metric.components_):
        raise ValueError("axes_ must have a row for each component of metric_")
    sizes["q"] = 1 + axes.shape[1] * (axes.shape[1] + 1) // 2
    shapes = {"kind_coefficients_": "Kq", "coefficients_": "Pq", "kind_probabilities_": "PK"}
    shapes |= {"kind_shares_": "K", "errors_": "P"}
    for name, letters in shapes.items():
        wanted = tuple(sizes[letter] for letter in letters)
        if getattr(learned.get(name), "shape", None) != wanted:
            raise ValueError(f"{name} must be of shape {wanted}")


def _renew(params: Params) -> Params:
    """Return parameters of MDaML with those of 1.0.0rc1 where they are now.

    How partners are drawn is one value. Others moved into presets: a new fit takes their defaults.
    """
    params = {name: value for name, value in params.items() if name not in _MOVED}
    old = {new: params.pop(name) for name, new in _PARTNERS.items() if name in params}
    if old and old != {name: asdict(Partners()).get(name) for name in old}:
        params["partners"] = old
    return params

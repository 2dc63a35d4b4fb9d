"""What learned attributes must look like, in a model about to be saved or just read."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdaml.archive._npy import Array


def check_learned(learned: Mapping[str, Any]) -> None:
    """Refuse attributes that do not fit together or are not finite, in the name of the first.

    Parameters
    ----------
    learned : mapping of str to object
        Attributes by name.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.archive import check_learned
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
    components = _matrix(learned, "components_", "f", ("n_components", d))
    if components is None or not len(components) or components.dtype.itemsize < 4:
        raise ValueError("components_ must be there, with a row at least, in single or double")
    names = learned.get("feature_names_in_")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (d,)):
        raise ValueError(f"feature_names_in_ must be {d} names, one for each feature")
    if names is not None and not all(type(name) is str for name in names):
        raise ValueError("feature_names_in_ must be strings")
    centers = _matrix(learned, "centers_", "f", ("n_modes", d))
    n_modes: int | str = "n_modes" if centers is None else len(centers)
    weights = _matrix(learned, "weights_", "f", ("n_samples", n_modes))
    triplets = _matrix(learned, "triplets_", "iu", ("n_triplets", 3))
    if triplets is not None and triplets.size:
        n_samples = np.inf if weights is None else len(weights)
        if triplets.min() < 0 or triplets.max() >= n_samples:
            raise ValueError("triplets_ must be row numbers of the training samples")


def _matrix(
    learned: Mapping[str, Any], name: str, kinds: str, shape: tuple[str | int, str | int]
) -> Array | None:
    """Return an attribute, if there, as a matrix of the shape: strings stand for any number."""
    value = learned.get(name)
    if value is None and name not in learned:
        return None
    wanted = f"{name} must be {'floats' if kinds == 'f' else 'integers'} of shape "
    wanted += f"({shape[0]}, {shape[1]})"
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        raise ValueError(f"{wanted}, got {getattr(value, 'dtype', type(value).__name__)}")
    fits = value.ndim == 2 and all(
        isinstance(n, str) or n == m for n, m in zip(shape, value.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{wanted}, got shape {value.shape}")
    return value

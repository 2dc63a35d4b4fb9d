"""A distance function that can be pickled."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray


class MahalanobisMetric:
    """The learned distance as a function of two vectors, for ``metric=`` of other libraries.

    It crosses borders of processes and is equal to another of the same components. Called for each
    pair from Python it is slow: where the library takes vectors, pass ``model.transform(X)`` and
    let it compute Euclidean distances.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The linear map ``L``; the distance is ``|L u - L v|``.

    Attributes
    ----------
    components : array of shape (n_components, n_features)
        In double precision, read-only.

    Examples
    --------
    >>> from scipy.spatial.distance import pdist
    >>> from mdaml.export import MahalanobisMetric
    >>> metric = MahalanobisMetric([[1.0, 0.0], [0.0, 2.0]])
    >>> metric([0.0, 0.0], [3.0, 2.0])
    5.0
    >>> pdist([[0.0, 0.0], [3.0, 2.0]], metric)
    array([5.])
    """

    __slots__ = ("components",)
    components: FloatArray

    def __init__(self, components: npt.ArrayLike) -> None:
        given = np.array(components, dtype=np.float64, order="C")
        if given.ndim != 2 or given.size == 0 or not np.all(np.isfinite(given)):
            raise ValueError(
                "components must be finite numbers of shape (n_components, n_features), got shape "
                f"{given.shape}. Take components_ of a fitted model."
            )
        given.setflags(write=False)
        object.__setattr__(self, "components", given)

    def __call__(self, u: npt.ArrayLike, v: npt.ArrayLike) -> float:
        """Return the distance of two vectors of length n_features."""
        a, b = np.asarray(u, dtype=np.float64), np.asarray(v, dtype=np.float64)
        wanted = self.components.shape[1:]
        if a.shape != wanted or b.shape != wanted:
            raise ValueError(
                f"u and v must be vectors of {wanted[0]} features, got shapes {a.shape} and "
                f"{b.shape}. For many pairs at once use pair_distance of the model."
            )
        mapped = self.components @ (a - b)
        return math.sqrt(mapped.dot(mapped))

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse changes."""
        raise AttributeError(f"A MahalanobisMetric does not change; {name} cannot be set.")

    def __delattr__(self, name: str) -> None:
        """Refuse changes."""
        raise AttributeError(f"A MahalanobisMetric does not change; {name} cannot be deleted.")

    def __reduce__(self) -> tuple[type["MahalanobisMetric"], tuple[FloatArray]]:
        """Pickle the components alone."""
        return type(self), (self.components,)

    def __eq__(self, other: object) -> bool:
        """Compare the components."""
        if not isinstance(other, MahalanobisMetric):
            return NotImplemented
        return np.array_equal(self.components, other.components)

    def __hash__(self) -> int:
        """Hash the components; zeros of either sign are equal."""
        return hash((self.components.shape, (self.components + 0.0).tobytes()))

    def __repr__(self) -> str:
        """Name the shape."""
        n_components, n_features = self.components.shape
        return f"MahalanobisMetric(<{n_components} x {n_features}>)"

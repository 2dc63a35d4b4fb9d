"""What every learner of a Mahalanobis distance can do once it is fitted."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from mdaml._typing import ArrayLike, FloatArray
from mdaml.estimators.handover import Handover
from mdaml.estimators.scores import Scores

_FLOATS = [np.float64, np.float32]


def principal_components(F: FloatArray, n_components: int | None = None) -> FloatArray:
    """Return L with ``L.T @ L = F F^T`` whose rows are the principal axes, the longest first.

    Leading rows are the best metric of lower rank.
    """
    axes, lengths, _ = np.linalg.svd(F, full_matrices=False)
    return (axes * lengths).T[:n_components]


class MahalanobisTransformer(
    Scores, Handover, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """A linear map after which Euclidean distance is the learned distance.

    Subclasses set ``components_`` in ``fit``: ``M = components_.T @ components_``.
    """

    components_: FloatArray  # (n_components, d)
    # What ``mdaml search`` tries; as ``param_grid`` of MetricSearchCV.
    default_grid: ClassVar[list[dict[str, list[Any]]]] = [{}]

    def transform(self, X: ArrayLike) -> FloatArray:
        """Map samples so that Euclidean distance between them is the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            ``X @ components_.T``, in the precision of X.

        Examples
        --------
        >>> from mdaml import LFDA
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> LFDA(n_components=1).fit(X, y).transform(X).shape
        (300, 1)
        """
        check_is_fitted(self, "components_")
        samples: FloatArray = validate_data(self, X, dtype=_FLOATS, reset=False)
        return self._map(samples)

    def get_mahalanobis_matrix(self) -> FloatArray:
        """Return the matrix ``M`` of the learned distance.

        Returns
        -------
        M : array of shape (n_features, n_features)
            ``components_.T @ components_``, symmetric and positive semi-definite.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import GMML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> M = GMML().fit(X, y).get_mahalanobis_matrix()
        >>> M.shape, np.allclose(M, M.T)
        ((2, 2), True)
        """
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_

    def pair_distance(self, A: ArrayLike, B: ArrayLike) -> FloatArray:
        """Return the learned distance of each row of A to the same row of B.

        Eq. (1), with its square root: ``sqrt((a - b)^T M (a - b))``.

        Parameters
        ----------
        A, B : array-like of shape (n_pairs, n_features)
            The two members of each pair.

        Returns
        -------
        distances : array of shape (n_pairs,)
            Not squared.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> metric = Euclidean().fit([[0.0, 1.0], [2.0, 3.0]])
        >>> metric.pair_distance([[0.0, 0.0], [1.0, 1.0]], [[3.0, 4.0], [1.0, 2.0]])
        array([5., 1.])
        """
        check_is_fitted(self, "components_")
        a: FloatArray = validate_data(self, A, dtype=_FLOATS, reset=False)
        b: FloatArray = check_array(B, dtype=_FLOATS, input_name="B", estimator=self)
        if a.shape != b.shape:
            raise ValueError(
                f"A and B must have the same shape, one pair per row, got {a.shape} and {b.shape}."
            )
        return np.linalg.norm(self._map(a - b), axis=1)

    def _map(self, X: FloatArray) -> FloatArray:
        return X @ self.components_.astype(X.dtype, copy=False).T

    def _store(self, X: Any, components: FloatArray, dtype: Any, **fitted: Any) -> None:
        """Set all that was learned, nothing before: a fit that fails leaves the model as it was.

        The largest entry of each row of ``components`` is made positive. Without X, features and
        their names are those of before.
        """
        if X is not None:
            validate_data(self, X, skip_check_array=True)
        for name, value in fitted.items():
            setattr(self, name, value)
        largest = np.abs(components).argmax(axis=1)[:, None]
        signs = np.where(np.take_along_axis(components, largest, axis=1) < 0, -1.0, 1.0)
        self.components_ = (components * signs).astype(dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        """Keep single precision; labels are the usual supervision, comparisons replace them."""
        tags: Any = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check(self, X: ArrayLike) -> FloatArray:
        return validate_data(self, X, dtype=_FLOATS, reset=False)

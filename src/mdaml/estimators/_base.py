"""What every learner of a Mahalanobis distance can do once it is fitted."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from mdaml._typing import FloatArray
from mdaml._validation import check_triplets

_FLOATS = [np.float64, np.float32]


class MahalanobisTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A linear map after which Euclidean distance is the learned distance.

    Subclasses set ``components_`` in ``fit``: ``M = components_.T @ components_``.
    """

    components_: FloatArray  # (n_components, d)

    def transform(self, X: npt.ArrayLike) -> FloatArray:
        """Map samples so that Euclidean distance between them is the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            ``X @ components_.T``, in the precision of X.
        """
        check_is_fitted(self, "components_")
        samples: FloatArray = validate_data(self, X, dtype=_FLOATS, reset=False)
        return self._map(samples)

    def get_mahalanobis_matrix(self) -> FloatArray:
        """Return the matrix ``M`` of the learned distance, symmetric and positive semi-definite."""
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_

    def pair_distance(self, A: npt.ArrayLike, B: npt.ArrayLike) -> FloatArray:
        """Return the learned distance of each row of A to the same row of B.

        Eq. (1), with its square root: ``sqrt((a - b)^T M (a - b))``.

        Parameters
        ----------
        A, B : array-like of shape (n_pairs, n_features)
            The two members of each pair.

        Returns
        -------
        distances : array of shape (n_pairs,)
        """
        check_is_fitted(self, "components_")
        a: FloatArray = validate_data(self, A, dtype=_FLOATS, reset=False)
        b: FloatArray = check_array(B, dtype=_FLOATS, input_name="B", estimator=self)
        if a.shape != b.shape:
            raise ValueError(
                f"A and B must have the same shape, one pair per row, got {a.shape} and {b.shape}."
            )
        return np.linalg.norm(self._map(a - b), axis=1)

    def pair_score(self, A: npt.ArrayLike, B: npt.ArrayLike) -> FloatArray:
        """Return the similarity of each row of A and the same row of B: minus their distance."""
        return -self.pair_distance(A, B)

    def score_triplets(self, X: npt.ArrayLike, triplets: npt.ArrayLike) -> float:
        """Return the fraction of comparisons that hold under the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the triplets index; they need not be those of ``fit``.
        triplets : array-like of shape (n_triplets, 3)
            Row indices: ``X[t[0]]`` should be closer to ``X[t[1]]`` than to ``X[t[2]]``.

        Returns
        -------
        score : float
            Between 0 and 1; a tie does not hold.
        """
        check_is_fitted(self, "components_")
        Y = self.transform(X)
        checked = check_triplets(triplets, len(Y))
        n_held = 0
        for start in range(0, len(checked), 65536):  # bounds the memory for many triplets
            anchor, similar, dissimilar = checked[start : start + 65536].T
            near = np.sum((Y[anchor] - Y[similar]) ** 2, axis=1)
            far = np.sum((Y[anchor] - Y[dissimilar]) ** 2, axis=1)
            n_held += int(np.count_nonzero(near < far))
        return n_held / len(checked)

    def _map(self, X: FloatArray) -> FloatArray:
        return X @ self.components_.astype(X.dtype, copy=False).T

    def _store_metric(self, F: FloatArray, n_components: int | None, dtype: npt.DTypeLike) -> None:
        """Set ``components_`` from a factor ``M = F F^T``.

        Rows are the principal axes of M, the longest first, so that leading rows are the best
        metric of lower rank; the largest entry of each is positive.
        """
        axes, lengths, _ = np.linalg.svd(F, full_matrices=False)
        components = (axes * lengths).T[:n_components]
        largest = np.abs(components).argmax(axis=1)[:, None]
        components *= np.where(np.take_along_axis(components, largest, axis=1) < 0, -1.0, 1.0)
        self.components_ = components.astype(dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        """Keep single precision where it is given."""
        tags: Any = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

"""What every learner of a Mahalanobis distance can do once it is fitted."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from mdaml._typing import ArrayLike, FloatArray
from mdaml._validation import warn
from mdaml.constraints.checks import check_pairs, check_quadruplets, check_triplets
from mdaml.constraints.matching import check_both_kinds
from mdaml.estimators.handover import Handover
from mdaml.kernels.pairs import pair_sq_dists

_FLOATS = [np.float64, np.float32]
_COMPARISONS = ("triplets", "pairs", "quadruplets", "constraints")


def principal_components(F: FloatArray, n_components: int | None = None) -> FloatArray:
    """Return L with ``L.T @ L = F F^T`` whose rows are the principal axes, the longest first.

    Leading rows are the best metric of lower rank.
    """
    axes, lengths, _ = np.linalg.svd(F, full_matrices=False)
    return (axes * lengths).T[:n_components]


class PairScores:
    """Scores of comparisons that follow from distances and a map to where they are Euclidean."""

    transform: Any
    pair_distance: Any

    def pair_score(self, A: ArrayLike, B: ArrayLike) -> FloatArray:
        """Return the similarity of each row of A and the same row of B: minus their distance.

        Parameters
        ----------
        A, B : array-like of shape (n_pairs, n_features)
            The two members of each pair.

        Returns
        -------
        scores : array of shape (n_pairs,)
            At most 0; the higher, the more alike.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).pair_score([[0.0, 0.0]], [[3.0, 4.0]])
        array([-5.])
        """
        return -self.pair_distance(A, B)

    def score_triplets(self, X: ArrayLike, triplets: ArrayLike) -> float:
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

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_triplets(X, [[0, 1, 2], [2, 3, 1]])
        0.5
        """
        Y = self.transform(X)
        triplets = check_triplets(triplets, len(Y))
        near, far = (pair_sq_dists(Y, triplets[:, [0, other]]) for other in (1, 2))
        return float(np.mean(near < far))

    def score_quadruplets(self, X: ArrayLike, quadruplets: ArrayLike) -> float:
        """Return the fraction of comparisons of two pairs that hold under the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the quadruplets index; they need not be those of ``fit``.
        quadruplets : array-like of shape (n_quadruplets, 4)
            Row indices: ``X[q[0]]`` and ``X[q[1]]`` should be closer than ``X[q[2]]`` and
            ``X[q[3]]``.

        Returns
        -------
        score : float
            Between 0 and 1; a tie does not hold.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_quadruplets(X, [[0, 1, 2, 3], [0, 2, 1, 2]])
        0.5
        """
        Y = self.transform(X)
        quadruplets = check_quadruplets(quadruplets, len(Y))
        near, far = (pair_sq_dists(Y, pairs) for pairs in np.split(quadruplets, 2, axis=1))
        return float(np.mean(near < far))

    def score_pairs(self, X: ArrayLike, pairs: ArrayLike, pair_labels: ArrayLike) -> float:
        """Return how well the learned distance tells similar from dissimilar pairs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the pairs index; they need not be those of ``fit``.
        pairs : array-like of shape (n_pairs, 2)
            Row indices.
        pair_labels : array-like of shape (n_pairs,)
            1 for similar, -1 for dissimilar pairs; both must be there.

        Returns
        -------
        score : float
            The area under the ROC curve: the share of similar and dissimilar pairs, of all that can
            be put side by side, in which the similar one is closer; ties count half.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_pairs(X, [[0, 1], [1, 2], [0, 2], [2, 3]], [1, -1, 1, -1])
        0.625
        """
        Y = self.transform(X)
        checked, similar = check_pairs(pairs, pair_labels, len(Y))
        name, advice = type(self).__name__, "The score compares the two."
        check_both_kinds(name, similar.sum(), (~similar).sum(), advice)
        return float(roc_auc_score(similar, -pair_sq_dists(Y, checked)))


class MahalanobisTransformer(
    PairScores, Handover, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """A linear map after which Euclidean distance is the learned distance.

    Subclasses set ``components_`` in ``fit``: ``M = components_.T @ components_``.
    """

    components_: FloatArray  # (n_components, d)
    fit: Any
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

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> Any:
        """Fit and map the samples of the fit, as a pipeline does with every step but its last.

        A pipeline hands ``y`` to all steps. Where comparisons are passed too, the metric is learned
        from these alone, and ``y`` is for the steps behind it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), optional
            Class labels; not looked at if there are comparisons.
        **fit_params : Any
            As for ``fit``: triplets, constraints and so on.

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            ``fit(X, ...).transform(X)``.

        Examples
        --------
        A metric from comparisons and a classifier from labels.

        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> from sklearn.pipeline import make_pipeline
        >>> from mdaml import MDaML
        >>> from mdaml.datasets import load_dataset, make_triplets
        >>> X, y = load_dataset("balance", return_X_y=True)
        >>> T, _ = make_triplets(X, y, n_triplets=500, random_state=0)
        >>> both = make_pipeline(MDaML(), KNeighborsClassifier(3)).fit(X, y, mdaml__triplets=T)
        >>> both.score(X, y) > 0.8
        True
        """
        if any(fit_params.get(form) is not None for form in _COMPARISONS):
            return self.fit(X, **fit_params).transform(X)
        if y is not None:
            _warn_of_unlabelled(y)
        return self.fit(X, y, **fit_params).transform(X)

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


def _warn_of_unlabelled(y: ArrayLike) -> None:
    """Warn of labels -1, which mean nothing to a metric and a class to a classifier behind it."""
    labels = np.asarray(y)
    n_unlabelled = int(np.count_nonzero(labels == -1)) if labels.dtype.kind in "if" else 0
    if 0 < n_unlabelled < labels.size:
        warn(
            f"{n_unlabelled} labels are -1, which marks rows without a label here; a classifier "
            "behind this step takes -1 for one more class. Fit the metric first, then a pipeline "
            "of FrozenEstimator(metric) and the classifier to the labelled rows alone."
        )

"""Learners that see centred samples and checked supervision, and return a linear map."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray
from mdaml._validation import check_magnitude
from mdaml.constraints.arguments import EVERY_FORM, Said, check_supervision
from mdaml.constraints.labels import Classes
from mdaml.estimators.base import MahalanobisTransformer
from mdaml.kernels.products import one_blas_thread


class PairLearner(MahalanobisTransformer, ABC):
    """A learner from pairs, those of triplets and quadruplets too; labels stand for their pairs."""

    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        pairs: npt.ArrayLike | None = None,
        pair_labels: npt.ArrayLike | None = None,
        triplets: npt.ArrayLike | None = None,
        quadruplets: npt.ArrayLike | None = None,
        constraints: Any = None,
        constraint_weight: npt.ArrayLike | None = None,
        **unsupported: Any,
    ) -> Self:
        """Learn the metric from labels, or from any of pairs, triplets and quadruplets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, dense.
        y : array-like of shape (n_samples,), optional
            Class labels; ``-1`` marks unlabelled rows, which are left out.
        pairs : array-like of shape (n_pairs, 2), optional
            Row numbers of X.
        pair_labels : array-like of shape (n_pairs,), optional
            1 for similar, -1 for dissimilar pairs.
        triplets : array-like of shape (n_triplets, 3), optional
            Row numbers ``(a, b, c)``: a and b are taken for similar, a and c for dissimilar.
        quadruplets : array-like of shape (n_quadruplets, 4), optional
            Row numbers ``(a, b, c, d)``: a and b are taken for similar, c and d for dissimilar.
        constraints : Constraints, optional
            Triplets, pairs, quadruplets and their weights in one value, instead of the arrays.
        constraint_weight : array-like of shape (n_constraints,), optional
            Positive weights of the triplets, pairs and quadruplets, in this order; for the two
            pairs of a triplet or quadruplet alike. Only ratios matter, of similar pairs and of
            dissimilar pairs.
        **unsupported : Any
            Anything else is refused by name.

        Returns
        -------
        self : object
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import KISSME
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> pairs = np.arange(100).reshape(50, 2)
        >>> far_in_first = np.abs(X[pairs[:, 0], 0] - X[pairs[:, 1], 0]) > 1
        >>> metric = KISSME().fit(X, pairs=pairs, pair_labels=np.where(far_in_first, -1, 1))
        >>> int(metric.get_mahalanobis_matrix().diagonal().argmax())
        0
        """
        samples, said = check_supervision(
            self,
            EVERY_FORM,
            X,
            y,
            triplets=triplets,
            pairs=pairs,
            pair_labels=pair_labels,
            quadruplets=quadruplets,
            constraints=constraints,
            constraint_weight=constraint_weight,
            **unsupported,
        )
        self._check_parameters(samples.shape[1])
        centred = _centred(samples)
        with one_blas_thread():
            components, fitted = self._learn(centred, said)
        self._store(X, components, samples.dtype, **fitted)
        return self

    @abstractmethod
    def _check_parameters(self, n_features: int) -> None: ...

    @abstractmethod
    def _learn(self, X: FloatArray, said: Said) -> tuple[FloatArray, dict[str, Any]]:
        """Return components and further attributes for centred samples in double precision."""


class LabelLearner(MahalanobisTransformer, ABC):
    """A learner from class labels only."""

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None, **unsupported: Any) -> Self:
        """Learn the metric from labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, dense.
        y : array-like of shape (n_samples,)
            Class labels; ``-1`` marks unlabelled rows, which are left out.
        **unsupported : Any
            Other supervision, such as triplets or pairs, is refused with advice.

        Returns
        -------
        self : object
            The fitted estimator.

        Examples
        --------
        >>> from mdaml import LMNN
        >>> from mdaml.datasets import load_dataset
        >>> X, y = load_dataset("balance", return_X_y=True)
        >>> LMNN().fit(X, y).components_.shape
        (4, 4)
        """
        samples, classes = check_supervision(self, ("y",), X, y, **unsupported)
        self._check_parameters(samples.shape[1])
        assert isinstance(classes, Classes)
        centred = _centred(samples[classes.rows])
        with one_blas_thread():
            components, fitted = self._learn(centred, classes)
        self._store(X, components, samples.dtype, **fitted)
        return self

    @abstractmethod
    def _check_parameters(self, n_features: int) -> None: ...

    @abstractmethod
    def _learn(self, X: FloatArray, classes: Classes) -> tuple[FloatArray, dict[str, Any]]:
        """Return components and further attributes for samples sorted by class.

        They are centred, in double precision and in the order of the places of the classes.
        """


def _centred(samples: FloatArray) -> FloatArray:
    """Return samples less their mean, in double precision: scatter matrices need it."""
    mean = samples.mean(axis=0, dtype=np.float64)
    shifted: FloatArray = np.subtract(samples, mean, order="C")  # rounding sees translations
    check_magnitude(shifted)
    return shifted

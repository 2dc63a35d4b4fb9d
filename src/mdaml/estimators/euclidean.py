"""Euclidean distance, the baseline."""

from typing import ClassVar, Self

import numpy as np
from sklearn.utils import Tags, check_array

from mdaml._samples import explain_samples
from mdaml._typing import ArrayLike
from mdaml.constraints.arguments import check_ignored
from mdaml.estimators.base import MahalanobisTransformer


class Euclidean(MahalanobisTransformer):
    """Plain Euclidean distance, as a baseline with the interface of the learners.

    **Objective**: none; ``M`` is the identity. **Supervision**: any, ignored. **Prefer it** to see
    whether learning a metric helps at all: put it in place of a learner, in a pipeline or in a
    table of results. On standardised features it is the standardised Euclidean distance.

    Attributes
    ----------
    components_ : array of shape (n_features, n_features)
        The identity.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    MDaML : Learns a metric from comparisons or labels.

    Notes
    -----
    **Cost**: only a copy of the identity, :math:`O(d^2)` of memory for d features.

    Examples
    --------
    >>> from mdaml import Euclidean
    >>> Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).get_mahalanobis_matrix()
    array([[1., 0.],
           [0., 1.]])
    """

    takes_sparse: ClassVar = True

    def fit(self, X: ArrayLike, y: object = None, **ignored: object) -> Self:  # noqa: ARG002
        """Remember the number of features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : object
            Ignored.
        **ignored : object
            Any supervision that the learners take, checked but not used: triplets, pairs,
            pair_labels, quadruplets, constraints, constraint_weight.

        Returns
        -------
        self : Euclidean
            The estimator.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0, 1.0], [2.0, 3.0], [5.0, 3.0]]
        >>> Euclidean().fit(X, triplets=[[0, 1, 2]]).n_features_in_
        2
        """
        options = {"dtype": [np.float64, np.float32], "input_name": "X", "accept_sparse": "csr"}
        with explain_samples(self, X, sparse=True):
            samples = check_array(X, estimator=self, **options)
        check_ignored(type(self).__name__, X, samples.shape[0], ignored)
        self._store(X, np.eye(samples.shape[1], dtype=samples.dtype), samples.dtype)
        return self

    def __sklearn_tags__(self) -> Tags:
        """Nothing is learned, so labels are not needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

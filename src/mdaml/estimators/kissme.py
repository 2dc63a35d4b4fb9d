"""Keep it simple and straightforward metric learning."""

from typing import ClassVar

import numpy as np

from mdaml._typing import FloatArray, Params
from mdaml._validation import check_number, warn
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.matching import check_both_kinds
from mdaml.estimators.learners import PairLearner
from mdaml.estimators.scatter import cholesky, relative_eigh, ridged, scatters


class KISSME(PairLearner):
    r"""KISSME: a likelihood ratio of Gaussians, closed form, from pairs.

    **Objective**: differences of similar and of dissimilar pairs are assumed to be Gaussian with
    mean zero and covariances :math:`\Sigma_S` and :math:`\Sigma_D`; the log-likelihood ratio of a
    difference is the quadratic form of

    .. math:: M = \Sigma_S^{-1} - \Sigma_D^{-1},

    projected onto the positive semi-definite matrices.

    **Supervision**: pairs, triplets (broken into pairs) or labels (all pairs of labelled samples,
    counted by class sums, so that nothing is drawn at random).

    **Prefer it** for very many pairs in moderate dimension, after PCA: nothing to tune. It needs
    many more pairs than features, and assumes one shape of noise for all classes.

    Parameters
    ----------
    reg : float, default=1e-6
        This fraction of the mean eigenvalue is added to the diagonals of both covariances. With 0
        the method is the original one, and a singular covariance is an error.

    Attributes
    ----------
    components_ : array of shape (rank, n_features)
        The linear map ``L``; the metric is ``L.T @ L``. Directions with a negative eigenvalue are
        dropped, so there may be fewer rows than features.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    GMML : The other closed form from pairs, of full rank.
    PairVerifier : Decides "same or different" by a learned distance.

    Notes
    -----
    **Cost**: time :math:`O(p d + n d^2 + d^3)` for p pairs of n samples with d features; memory
    beyond X and the pairs :math:`O(d^2)` and one block of differences.

    Negative eigenvalues are set to zero, the nearest positive semi-definite matrix; the code
    released with the paper lifts them to 1e-6 instead.

    References
    ----------
    .. [1] M. Köstinger, M. Hirzer, P. Wohlhart, P. M. Roth, H. Bischof, "Large Scale Metric
       Learning from Equivalence Constraints", CVPR 2012.

    Examples
    --------
    >>> from mdaml import KISSME
    >>> from mdaml.datasets import load_dataset
    >>> X, y = load_dataset("vehicle", return_X_y=True)
    >>> KISSME().fit(X, y).transform(X).shape[0] == len(X)
    True
    """

    takes_sparse: ClassVar = True
    sorted_by_class: ClassVar = True
    default_grid: ClassVar = [{"reg": [1e-6, 1e-3, 1e-2, 0.1, 1.0]}]

    def __init__(self, *, reg: float = 1e-6) -> None:
        self.reg = reg

    def _check_parameters(self, n_features: int) -> None:  # noqa: ARG002
        check_number(self, "reg", self.reg, 0.0)

    def _learn(self, X: FloatArray, supervision: Supervision) -> tuple[FloatArray, Params]:
        similar, dissimilar = scatters(X, supervision)
        check_both_kinds(type(self).__name__, similar.n_pairs, dissimilar.n_pairs, "Add some.")
        for scatter, what in ((similar, "similar"), (dissimilar, "dissimilar")):
            if scatter.n_distinct < X.shape[1]:
                warn(
                    f"KISSME got {scatter.n_distinct} distinct {what} pairs for {X.shape[1]} "
                    "features: their covariance is singular and the ridge decides. Reduce the "
                    "features by PCA first, or raise reg.",
                )
        raw = likelihood_ratio(
            ridged(similar.mean, self.reg, "similar pairs"),
            ridged(dissimilar.mean, self.reg, "dissimilar pairs"),
        )
        return clipped_components(raw), {}


def likelihood_ratio(S: FloatArray, D: FloatArray) -> FloatArray:
    """Return ``S^{-1} - D^{-1}``.

    With ``D v = γ S v`` and ``V^T S V = I`` it is ``V diag(1 - 1/γ) V^T``: no inverse.
    """
    ratios, V = relative_eigh(D, S, "similar pairs")
    cholesky(D, "dissimilar pairs")  # only to refuse a singular matrix
    raw = (V * (1.0 - 1.0 / ratios)) @ V.T
    return 0.5 * (raw + raw.T)


def clipped_components(raw: FloatArray) -> FloatArray:
    """Return L with ``L.T @ L`` the positive semi-definite matrix nearest to ``raw``."""
    w, V = np.linalg.eigh(raw)
    positive = w > len(w) * np.finfo(w.dtype).eps * np.abs(w).max()
    if not positive.any():
        raise ValueError(
            "Dissimilar pairs differ no more than similar ones in any direction: the learned "
            "distance would be zero. Are pair_labels 1 for similar and -1 for dissimilar pairs?"
        )
    # In one piece: products with rows in reverse differ in the last bit from those of a copy.
    return np.ascontiguousarray((V * np.sqrt(np.maximum(w, 0.0))).T[positive][::-1])

"""Geometric mean metric learning."""

from typing import ClassVar, Literal

import numpy as np
import scipy.linalg

from mdaml._typing import ArrayLike, FloatArray, Params
from mdaml._validation import check_metric, check_number
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.matching import check_both_kinds
from mdaml.estimators.base import principal_components
from mdaml.estimators.learners import PairLearner
from mdaml.estimators.scatter import cholesky, ridged, scatters


class GMML(PairLearner):
    r"""Geometric mean metric learning: closed form, from pairs.

    **Objective**: over positive definite M,

    .. math:: \min_M \; \operatorname{tr}(M S) + \operatorname{tr}(M^{-1} D),

    with S and D the sums of :math:`(x_i - x_j)(x_i - x_j)^\top` over similar and over dissimilar
    pairs. Its solution is the middle of the geodesic from :math:`S^{-1}` to D; ``t`` moves along
    it: :math:`M = S^{-1/2} (S^{1/2} D S^{1/2})^t S^{-1/2}`.

    **Supervision**: pairs, triplets (broken into pairs) or labels (all pairs of labelled samples,
    counted by class sums, so that nothing is drawn at random).

    **Prefer it** for an answer in milliseconds: no iteration, one parameter, full rank.

    Parameters
    ----------
    t : float, default=0.5
        Place on the geodesic: 0 uses similar pairs only, 1 dissimilar pairs only.
    prior : array-like of shape (n_features, n_features) or None, default=None
        A positive definite metric to stay close to, A: ``prior_weight * A^{-1}`` is added to S and
        ``prior_weight * A`` to D.
    prior_weight : float, default=1.0
        Weight of the prior, in pairs: S and D are sums.
    reg : float or "original", default=1e-6
        Without a prior, this fraction of the mean eigenvalue is added to the diagonals of S and D.
        With 0 nothing is, and a singular S is an error. "original" is the rule of the authors'
        code: 1e-6 is added to both, but only if either has a reciprocal condition number below
        1e-9; being absolute, it depends on the scale of the data and on the number of pairs.

    Attributes
    ----------
    components_ : array of shape (n_features, n_features)
        The linear map ``L``; the metric is ``L.T @ L``.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    KISSME : The other closed form from pairs, without a parameter to tune.
    MDaML : Learns from triplets as they are, and tolerates wrong answers.

    Notes
    -----
    **Cost**: time :math:`O(p d + n d^2 + d^3)` for p pairs of n samples with d features; memory
    beyond X and the pairs :math:`O(d^2)` and one block of differences.

    With fewer similar pairs than features, there are directions in which similar pairs do not
    differ at all. Along these the metric is as large as the ridge allows, of the order
    ``reg ** (t - 1)``. Raise ``reg`` or give a ``prior`` if there are few pairs.

    References
    ----------
    .. [1] P. Zadeh, R. Hosseini, S. Sra, "Geometric Mean Metric Learning", ICML 2016.

    Examples
    --------
    >>> from mdaml import GMML
    >>> X = [[0.0, 0.0], [0.1, 3.0], [2.0, 0.2], [2.1, 3.1]]
    >>> model = GMML().fit(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], pair_labels=[1, 1, -1, -1])
    >>> M = model.get_mahalanobis_matrix()
    >>> bool(M[0, 0] > M[1, 1])  # similar samples differ in the second feature only
    True
    """

    takes_sparse: ClassVar = True
    sorted_by_class: ClassVar = True
    default_grid: ClassVar = [{"t": [0.1, 0.3, 0.5, 0.7, 0.9]}]

    def __init__(
        self,
        t: float = 0.5,
        *,
        prior: ArrayLike | None = None,
        prior_weight: float = 1.0,
        reg: float | Literal["original"] = 1e-6,
    ) -> None:
        self.t = t
        self.prior = prior
        self.prior_weight = prior_weight
        self.reg = reg

    def _check_parameters(self, n_features: int) -> None:
        check_number(self, "t", self.t, 0.0, 1.0)
        if not isinstance(self.reg, str) or self.reg != "original":
            check_number(self, "reg", self.reg, 0.0, why=" Or 'original', the authors' own rule.")
        check_number(self, "prior_weight", self.prior_weight, 0.0, strict=True)
        if self.prior is not None:
            check_metric(self, "prior", self.prior, n_features)

    def _learn(self, X: FloatArray, supervision: Supervision) -> tuple[FloatArray, Params]:
        similar, dissimilar = scatters(X, supervision)
        if self.prior is None:
            advice = "Add some, or give a prior."
            check_both_kinds(type(self).__name__, similar.n_pairs, dissimilar.n_pairs, advice)
        if self.prior is None and self.reg == "original":
            S, D = originally_ridged(similar.total, dissimilar.total)
        elif self.prior is None:
            S = ridged(similar.total, float(self.reg), "similar pairs")
            D = ridged(dissimilar.total, float(self.reg), "dissimilar pairs")
        else:
            prior = check_metric(self, "prior", self.prior, X.shape[1])
            S = similar.total + self.prior_weight * np.linalg.inv(prior)
            D = dissimilar.total + self.prior_weight * prior
        return principal_components(geometric_mean_factor(S, D, self.t)), {}


def originally_ridged(S: FloatArray, D: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Add 1e-6 to both diagonals if either matrix is nearly singular, as the authors do."""
    with np.errstate(divide="ignore"):
        nearly_singular = max(np.linalg.cond(S, 1), np.linalg.cond(D, 1)) > 1e9
    ridge = 1e-6 * np.eye(len(S)) if nearly_singular else 0.0
    return S + ridge, D + ridge


def geometric_mean_factor(S: FloatArray, D: FloatArray, t: float) -> FloatArray:
    """Return F with ``F F^T`` on the geodesic from ``S^{-1}`` (t=0) to D (t=1).

    With ``S = R^T R`` and ``R D R^T = U diag(w) U^T``, ``F = R^{-1} U diag(w^{t/2})``: one Cholesky
    factor, one eigendecomposition, no inverse and no square root of a matrix.
    """
    R = cholesky(S, "similar pairs")
    with np.errstate(over="ignore", invalid="ignore"):
        inner = R @ D @ R.T
    if not np.all(np.isfinite(inner)):
        raise ValueError(
            "GMML multiplies the scatter of similar pairs by that of dissimilar pairs, which "
            "overflows with such large samples. Scale the features, for instance by StandardScaler."
        )
    w, U = np.linalg.eigh(0.5 * (inner + inner.T))
    scaled = U * np.maximum(w, 0.0) ** (0.5 * t)
    F: FloatArray = scipy.linalg.solve_triangular(R, scaled, check_finite=False)
    return F

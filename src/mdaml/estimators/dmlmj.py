"""Distance metric learning through maximisation of the Jeffrey divergence."""

from typing import ClassVar, Literal

import numpy as np

from mdaml._typing import FloatArray, Params
from mdaml._validation import check_integer, check_number, check_random_state
from mdaml.constraints.labels import Classes
from mdaml.estimators.learners import LabelLearner
from mdaml.estimators.rank import Rank, best_rank, check_rank, folds, holdout
from mdaml.estimators.scatter import relative_eigh, ridged, weighted_scatter

_SAME, _OTHER = "same-class neighbours", "other-class neighbours"


class DMLMJ(LabelLearner):
    r"""DMLMJ: the directions that best tell differences inside classes from those across.

    **Objective**: differences of each sample to its nearest neighbours in its class, and to those
    in other classes, are assumed to be Gaussian with mean zero and covariances :math:`\Sigma_P` and
    :math:`\Sigma_N`. The map A, of m rows, maximises the Jeffrey divergence of the two after
    projection,

    .. math:: & \mathrm{KL}(P_A \| N_A) + \mathrm{KL}(N_A \| P_A) \\
        & = \tfrac12 \operatorname{tr}\left[(A \Sigma_P A^\top)^{-1} A \Sigma_N A^\top
        + (A \Sigma_N A^\top)^{-1} A \Sigma_P A^\top\right] - m.

    Its rows solve :math:`\Sigma_N v = \lambda \Sigma_P v` with :math:`v^\top \Sigma_P v = 1` for
    the m largest values of :math:`\lambda + 1/\lambda`.

    **Supervision**: labels.

    **Prefer it** to reduce the dimension for nearest-neighbour classification when classes have
    several modes: only neighbours count, and nothing is iterated.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours of each sample in its class and in the others; all of them if there are fewer.
    n_components : int, None or "auto", default=None
        Rows of the map, m. None is the published choice: a random 30 % of each class are held out,
        and the map is learned from the rest. The m with the best accuracy of 5 nearest neighbours
        is kept, the largest in a tie. "auto" decides the same way by 5-fold cross-validation:
        slower, less random. The map is then learned from all samples.
    reg : float or "original", default=1e-6
        This fraction of the mean eigenvalue is added to the diagonals of both covariances; with 0
        a singular ``Σ_P`` is an error. "original" is the rule of the authors' code: a covariance
        with a determinant below 1e-10 becomes ``0.999 Σ + 0.001 I``.
    random_state : int, Generator, RandomState or None, default=None
        For the samples held out; not used with a number of components.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The linear map ``L``, most important row first; the metric is ``L.T @ L``.
    n_components_ : int
        The number of components, as given or as chosen.
    eigenvalues_ : array of shape (n_components_,)
        The generalised eigenvalue λ of each row, in the order of ``λ + 1/λ``, not of λ.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    LFDA : The other way to reduce the dimension from labels, by all members of a class.
    LMNN : Neighbours by a large margin, with iterations.

    Notes
    -----
    **Cost**: time :math:`O(n^2 d + d^3)`; memory beyond X :math:`O(n k + d^2)` for k neighbours.
    Choosing the number of components adds one or two such fits for the hold-out, five to eight for
    cross-validation.

    With as many components as features the metric is ``Σ_P^{-1}`` regardless of the other classes:
    the choice of the number of components is the method.

    The criterion also keeps directions with λ far below 1, in which samples of one class differ
    more than those of different classes. A direction in which other-class neighbours do not differ
    at all ranks first: its λ, zero, is lifted to the rounding error of the largest.

    A class with a single member has no same-class differences and is never held out; neither is
    one with two. If no class has three members, None and "auto" keep all components. With
    ``reg=0`` the part that is learned from for the choice needs a regular ``Σ_P`` as well.

    References
    ----------
    .. [1] B. Nguyen, C. Morell, B. De Baets, "Supervised distance metric learning through
       maximization of the Jeffrey divergence", Pattern Recognition 64, 2017.

    Examples
    --------
    >>> from mdaml import DMLMJ
    >>> from mdaml.datasets import load_dataset
    >>> X, y = load_dataset("vehicle", return_X_y=True)
    >>> DMLMJ(n_components=4).fit(X, y).transform(X).shape == (len(X), 4)
    True
    """

    default_grid: ClassVar = [{"n_neighbors": [3, 5, 10, 20]}]

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        n_components: Rank = None,
        reg: float | Literal["original"] = 1e-6,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.reg = reg
        self.random_state = random_state

    def _check_parameters(self, n_features: int) -> None:
        check_integer(self, "n_neighbors", self.n_neighbors, 1)
        check_rank(self, self.n_components, n_features)
        if not (isinstance(self.reg, str) and self.reg == "original"):
            check_number(self, "reg", self.reg, 0.0, why=" Or pass 'original'.")

    def _learn(self, X: FloatArray, classes: Classes) -> tuple[FloatArray, Params]:
        def solve(samples: FloatArray, among: Classes) -> tuple[FloatArray, FloatArray]:
            positive = neighbor_covariance(samples, among, self.n_neighbors, same=True)
            negative = neighbor_covariance(samples, among, self.n_neighbors, same=False)
            return jeffrey_directions(
                regularised(positive, self.reg, _SAME), regularised(negative, self.reg, _OTHER)
            )

        if isinstance(self.n_components, str) or self.n_components is None:
            rng = check_random_state(self.random_state)
            parts = holdout(classes, rng) if self.n_components is None else folds(classes, rng)
            n_components = best_rank(X, classes, lambda *among: solve(*among)[1], parts)
        else:
            n_components = int(self.n_components)
        eigenvalues, rows = solve(X, classes)
        fitted = {"n_components_": n_components, "eigenvalues_": eigenvalues[:n_components]}
        return rows[:n_components], fitted


def neighbor_covariance(
    X: FloatArray, classes: Classes, n_neighbors: int, *, same: bool
) -> FloatArray:
    """Return the mean of ``(x_i - x_j)(x_i - x_j)^T`` over the nearest j of every i.

    They are of the same class or of others; X holds the samples in the order of the places.
    """
    if same:  # differences inside a class do not see its place; rounding does
        means = np.add.reduceat(X, classes.first) / classes.size[:, None]
        X = X - means[classes.of]
    nearest, sq_dists = classes.nearest(X, min(n_neighbors, len(X) - 1), same=same)
    # Copies count, but add nothing: without them the scatter of nothing but copies is exactly zero.
    differ = (nearest >= 0) & (sq_dists > 0)
    pairs = np.column_stack([np.nonzero(differ)[0], nearest[differ]])
    counts = np.count_nonzero(differ, axis=1)
    groups = np.append(0, np.cumsum(counts[counts > 0]))
    total = weighted_scatter(X, pairs, groups, np.ones(len(pairs)))
    return total / np.count_nonzero(nearest >= 0)


def regularised(covariance: FloatArray, reg: float | Literal["original"], what: str) -> FloatArray:
    """Return a covariance with the relative ridge or, if nearly singular, the original one."""
    if reg != "original":
        return ridged(covariance, reg, what)
    checked = ridged(covariance, 0.0, what)
    # The logarithm, because the determinant itself underflows with many features.
    if np.linalg.slogdet(checked).logabsdet >= np.log(1e-10):
        return checked
    return 0.999 * checked + 0.001 * np.eye(len(checked))


def jeffrey_directions(P: FloatArray, N: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return λ and, as rows, v of ``N v = λ P v``, ``v^T P v = 1``: the largest λ + 1/λ first."""
    values, V = relative_eigh(N, P, _SAME)
    values, rows = values[::-1], V.T[::-1]
    values = np.maximum(values, len(values) * np.finfo(values.dtype).eps * values[0])
    order = np.lexsort((-values, -(values + 1.0 / values)))
    return values[order], rows[order]

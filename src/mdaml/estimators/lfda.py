"""Local Fisher discriminant analysis."""

from typing import ClassVar, Literal, TypeAlias

import numpy as np

from mdaml._typing import FloatArray, Params
from mdaml._validation import check_choice, check_integer, check_number, check_random_state
from mdaml.constraints.labels import Classes
from mdaml.estimators.learners import LabelLearner
from mdaml.estimators.rank import Rank, best_rank, check_rank, folds
from mdaml.estimators.scatter import relative_eigh, ridged
from mdaml.kernels.affinity import affinity_laplacian_product
from mdaml.kernels.products import transposed_times

Embedding: TypeAlias = Literal["weighted", "plain", "orthonormalized"]


class LFDA(LabelLearner):
    r"""Local Fisher discriminant analysis: keep near samples of a class near, classes apart.

    **Objective**: over maps A of r rows,

    .. math:: \max_A \; \operatorname{tr}\left[(A S_w A^\top)^{-1} A S_b A^\top\right], \qquad
        S = \tfrac12 \sum_{ij} W_{ij} (x_i - x_j)(x_i - x_j)^\top,

    with the scatters within (w) and between (b) classes. In class c, of :math:`n_c` members,
    :math:`W^w_{ij} = a_{ij} / n_c` and :math:`W^b_{ij} = a_{ij} (1/n - 1/n_c)`; across classes
    :math:`W^w_{ij} = 0` and :math:`W^b_{ij} = 1/n`. The affinity
    :math:`a_{ij} = \exp(-\|x_i - x_j\|^2 / (\sigma_i \sigma_j))`, with :math:`\sigma_i` the
    distance of :math:`x_i` to its k-th neighbour in its class, makes the method local: far samples
    of one class need not come together. Rows v solve :math:`S_b v = \lambda S_w v` with
    :math:`v^\top S_w v = 1` for the r largest λ.

    **Supervision**: labels.

    **Prefer it** to reduce the dimension when classes have several modes, which the global Fisher
    analysis would merge, and for pictures of labelled data: it has more directions than classes.

    Parameters
    ----------
    n_neighbors : int, default=7
        The neighbour in the class whose distance is the local scale, k; in a smaller class the
        farthest member.
    n_components : int, None or "auto", default=None
        Rows of the map, r. None keeps all; "auto" keeps the number with the best accuracy of 5
        nearest neighbours in 5-fold cross-validation, the largest in a tie.
    embedding : {"weighted", "plain", "orthonormalized"}, default="weighted"
        Rows ``sqrt(λ) v``, rows ``v``, or an orthonormal basis of the leading v.
    reg : float, default=1e-6
        This fraction of the mean eigenvalue is added to the diagonal of ``S_w``. With 0 the method
        is the original one, and a singular ``S_w`` is an error.
    random_state : int, Generator, RandomState or None, default=None
        For the folds of ``n_components="auto"``; not used otherwise.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The linear map ``L``, most important row first; the metric is ``L.T @ L``.
    n_components_ : int
        The number of components, as given or as chosen.
    eigenvalues_ : array of shape (n_components_,)
        The generalised eigenvalue λ of each row, largest first.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    DMLMJ : The other way to reduce the dimension from labels, by neighbours only.
    MDaML : With ``n_components``, reduces the dimension from comparisons too.

    Notes
    -----
    **Cost**: time :math:`O(\sum_c n_c^2 d + n d^2 + d^3)`, and :math:`O(n^2 d)` more for
    ``n_components="auto"``; memory beyond X :math:`O(\max_c n_c^2 + d^2)`.

    With as many components as features, "weighted" is the metric ``S_w^{-1} S_b S_w^{-1}``, "plain"
    is ``S_w^{-1}``, which ignores the other classes, and "orthonormalized" is the Euclidean
    distance: the latter two are meant for fewer components.

    λ is negative only through rounding; "weighted" then uses zero.

    A class with a single member has no affinities and counts in ``S_b`` only. A sample with k
    copies in its class has local scale zero and no affinity to any other sample.

    References
    ----------
    .. [1] M. Sugiyama, "Dimensionality Reduction of Multimodal Labeled Data by Local Fisher
       Discriminant Analysis", Journal of Machine Learning Research 8, 2007.

    Examples
    --------
    >>> from mdaml import LFDA
    >>> from mdaml.datasets import load_dataset
    >>> X, y = load_dataset("vehicle", return_X_y=True)
    >>> LFDA(n_components=2).fit(X, y).transform(X).shape == (len(X), 2)
    True
    """

    default_grid: ClassVar = [{"n_neighbors": [3, 7, 15, 30]}]

    def __init__(
        self,
        n_neighbors: int = 7,
        *,
        n_components: Rank = None,
        embedding: Embedding = "weighted",
        reg: float = 1e-6,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.embedding = embedding
        self.reg = reg
        self.random_state = random_state

    def _check_parameters(self, n_features: int) -> None:
        check_integer(self, "n_neighbors", self.n_neighbors, 1)
        check_rank(self, self.n_components, n_features)
        choices = ["weighted", "plain", "orthonormalized"]
        check_choice(self, "embedding", self.embedding, choices)
        check_number(self, "reg", self.reg, 0.0)

    def _learn(self, X: FloatArray, classes: Classes) -> tuple[FloatArray, Params]:
        def solve(samples: FloatArray, among: Classes) -> tuple[FloatArray, FloatArray]:
            within, between = local_scatters(samples, among, self.n_neighbors)
            within = ridged(within, self.reg, "same-class samples")
            eigenvalues, V = fisher_directions(within, between)
            return eigenvalues, embedded(eigenvalues, V, self.embedding)

        n_components = X.shape[1] if self.n_components is None else self.n_components
        if isinstance(n_components, str):
            parts = folds(classes, check_random_state(self.random_state))
            n_components = best_rank(X, classes, lambda *among: solve(*among)[1], parts)
        eigenvalues, rows = solve(X, classes)
        fitted = {"n_components_": int(n_components), "eigenvalues_": eigenvalues[:n_components]}
        return rows[:n_components], fitted


def local_scales(X: FloatArray, classes: Classes, n_neighbors: int) -> FloatArray:
    """Return the distance of each sample to its k-th neighbour in its class, or to its last.

    Zero for a sample alone in its class. X holds the samples in the order of the places.
    """
    n_others = classes.size - 1
    n_nearest = min(n_neighbors, int(n_others.max()))
    _, sq_dists = classes.nearest(X, n_nearest, same=True)
    last = np.minimum(n_nearest, n_others)[classes.of] - 1
    kth = np.take_along_axis(sq_dists, np.maximum(last, 0)[:, None], axis=1)[:, 0]
    return np.sqrt(np.where(last >= 0, kth, 0.0))


def local_scatters(
    X: FloatArray, classes: Classes, n_neighbors: int
) -> tuple[FloatArray, FloatArray]:
    """Return ``S_w`` and ``S_b`` of centred samples in the order of the places.

    With ``G_c = Σ_{i<j in c} a_ij (x_i - x_j)(x_i - x_j)^T`` and class means ``m_c``,
    ``S_w = Σ_c G_c / n_c`` and ``S_b = Σ_c (1/n - 1/n_c) G_c + (1 - n_c/n) Q_c + n_c m_c m_c^T``,
    where ``Q_c`` is the scatter around the mean. No pair across classes is ever looked at.
    """
    n, size = len(X), classes.size.astype(np.float64)
    means = np.add.reduceat(X, classes.first) / size[:, None]
    centred = X - means[classes.of]  # G_c does not see translations; rounding does
    scales = local_scales(centred, classes, n_neighbors)
    # Besides scales of zero this leaves out some whose inverse squares would overflow.
    near = scales > 1e-100 * np.abs(X).max()
    samples, of = centred[near], classes.of[near]
    first = np.flatnonzero(np.diff(of, prepend=-1))
    product = np.zeros_like(X)
    product[near] = affinity_laplacian_product(samples, first, scales[near])
    own = size[classes.of][:, None]
    within = transposed_times(centred, product / own)
    product *= 1.0 / n - 1.0 / own
    product += 0.5 * (1.0 - own / n) * centred
    between = transposed_times(centred, product)
    return within + within.T, between + between.T + (means.T * size) @ means


def fisher_directions(within: FloatArray, between: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return λ and columns v of ``S_b v = λ S_w v``, ``v^T S_w v = 1``, the largest λ first."""
    values, V = relative_eigh(between, within, "same-class samples")
    return values[::-1], V[:, ::-1]


def embedded(eigenvalues: FloatArray, V: FloatArray, embedding: Embedding) -> FloatArray:
    """Return L, whose leading rows are the embedding of the leading columns of V."""
    if embedding == "weighted":
        return (V * np.sqrt(np.maximum(eigenvalues, 0.0))).T
    if embedding == "plain":
        return V.T
    return np.linalg.qr(V)[0].T

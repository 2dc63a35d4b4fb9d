"""Multimodal-aware weakly supervised metric learning."""

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml._validation import (
    check_magnitude,
    check_memory_limit,
    check_metric,
    check_start_weights,
)
from mdaml.alternation import LocalProblem, Outcome, Problem, S, State, alternate, better_start
from mdaml.constraints import neighbor_triplets, sample_triplets
from mdaml.device import find_device, to_device
from mdaml.estimators._base import MahalanobisTransformer, principal_components
from mdaml.estimators._chunk import ChunkLearner
from mdaml.estimators._mdaml_checks import check_parameters, warn_if_needed
from mdaml.estimators._memory import center, choose_blocks, fit_size
from mdaml.estimators._supervision import EVERY_FORM, InForce, Supervision, check_supervision
from mdaml.kernels import CentredRows, Samples
from mdaml.low_rank import N_AXES, LeadingAxes, LowRankProblem, low_rank_part
from mdaml.modes import (
    Modes,
    Neighbors,
    kmeans_weights,
    mixture_weights,
    modes_from_weights,
)
from mdaml.optimize import Status
from mdaml.scatter import whitening_factor


class MDaML(ChunkLearner, MahalanobisTransformer):
    """Learn a distance from comparisons or labels, aware that classes may have several modes.

    Soft clusters ("modes"), a weight for every comparison that says whether its similar pair lives
    in one mode, and the metric are improved in turn; no step raises the objective.

    **Objective**: over the metric M, centres ``c_k`` and weights ``w_ik`` that sum to one,

    ``1/(N K) sum_ik w_ik^η d²(x_i, c_k) + λ₁/(K T) sum_t ω_t ℓ(d²(i, r) - d²(i, j)) + λ₂/2 |M|²``

    with triplets ``t = (i, j, r)``, ``ω_t = sum_k (w_ik w_jk)^η`` and ℓ a smooth hinge. In general
    two pairs, near (i, j) and far, are compared, and each loss may have a weight of its own; T is
    then the sum of these weights.

    **Supervision**: triplets, pairs and quadruplets, mixed and weighted as you like; or labels from
    which triplets are drawn.

    **Prefer it** for comparisons instead of labels, for classes of several shapes or places, and
    for comparisons of which some are wrong or cannot hold.

    **Cost**: a step of the metric takes ``O(P d + n d² + d³)`` for P distinct pairs, a round of
    weights ``O(P K)``; memory is linear in samples and pairs. With ``n_components=r`` below d a
    step takes ``O(P r + n d r)`` and no array is d × d: for features by the thousand.

    Parameters
    ----------
    n_modes : int, default=3
        Number of modes, K. With 1, all comparisons weigh the same. Many modes can explain wrong
        comparisons away, and right ones too.
    eta : float, default=3.0
        Exponent of the weights, above 1. Near 1 a sample belongs to one mode, for large values to
        all modes alike.
    triplet_weight : float or "auto", default="auto"
        Weight of the triplet loss, the paper's λ₁; "auto" is ``300 * n_modes**eta``, and
        ``1000 * n_modes**eta`` where triplets are neighbours, which are hard to tell apart. Compare
        with ``lambda1_critical_``, below which the best metric is zero.
    ridge : float, default=1e-4
        Weight of the penalty on the squared norm of the metric, the paper's λ₂.
    n_similar, n_dissimilar : int, default=5
        Similar and dissimilar partners of each sample when triplets are drawn from labels.
    sampling : {"neighbors", "random"}, default="neighbors"
        Take the nearest samples under the start metric for partners, or draw them at random, as
        the paper does.
    n_refresh : int, default=1
        With ``sampling="neighbors"``: so many times the nearest samples are searched again, under
        the metric learned so far, and learning goes on from there with the new triplets. Triplets
        that were passed, or drawn at random, stay as they are.
    pairing : {"grid", "zip"}, default="grid"
        Combine every similar with every dissimilar partner, or pair them off in turn.
    init_metric : {"auto", "identity", "whitened"} or array of shape (n_features, n_features)
        Where the metric starts. "auto", the default, is the identity, or the best multiple of it
        where that is far better, as with many features; "whitened" is the inverse of the covariance
        of X, a tenth of its mean eigenvalue added to the diagonal, scaled to the same mean squared
        distance. An array must be positive definite. Of the lower rank of ``n_components`` it is
        the leading principal axes of X, of one length or whitened, with a mean squared distance
        of 10; or of the samples mapped by the array, with the distances that it gives.
    init : {"gmm", "kmeans"} or array of shape (n_samples, n_modes), default="gmm"
        First weights: posteriors of a Gaussian mixture, nearest k-means centre, or given.
    max_iter : int or "auto", default="auto"
        Most rounds of centres, weights and metric in each pass. "auto" is 10, but 2 where triplets
        are neighbours: those are soon met, and further rounds learn the training samples by heart.
    max_inner_iter : int, default=5
        Most steps of the metric in each round. Few are enough: better weights help more.
    tol : float, default=1e-4
        Stop when a round lowers the objective by less than this fraction.
    n_components : int or None, default=None
        Learn a metric of this rank, as a linear map to so many features; None, or the number of
        features of X, learns one of full rank. More than there are samples leave the last at zero.
    callback : callable or None, default=None
        Called as ``callback(iteration, objective)`` after each round; stops early if it returns
        True.
    device : {None, "cpu", "cuda", "auto"}, default=None
        Where to compute: with NumPy (None), or with torch on the CPU or a GPU, samples in single
        precision whatever was passed; "auto" takes a GPU if there is one, otherwise NumPy. The same
        start gives the same objective up to a relative 1e-3; the mixture start is another draw.
        Neighbours are searched on the CPU. All attributes are NumPy arrays.
    memory_limit : int, str or None, default=None
        Most bytes, or for instance "2 GB", that a fit may take beyond X and the comparisons passed.
        Copies of X are made only where they fit; a fit that does not fit without them is refused
        before it starts. None sets no limit, but spares memory where X is larger than 32 MiB. With
        NumPy and full rank only. The guide "scaling" says what a fit takes.
    random_state : int, RandomState or None, default=None
        For the triplets drawn from labels, for the first weights and, with ``n_components``, for
        the principal axes.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The linear map ``L``; the metric is ``L.T @ L``.
    centers_ : array of shape (n_modes, n_features)
        Centres of the modes.
    weights_ : array of shape (n_samples, n_modes)
        Weight of each training sample in each mode; rows sum to one.
    triplets_ : array of shape (n_triplets, 3)
        The triplets in force: those passed, or those drawn from the labels.
    comparisons_ : array of shape (n_comparisons, 4) or None
        All comparisons in force, near pair and far pair: triplets, those made of pairs, and
        quadruplets, in this order. None where ``triplets_`` are all, of equal weight.
    comparison_weights_ : array of shape (n_comparisons,) or None
        Their weights, up to a common factor.
    triplet_weight_ : float
        The λ₁ in force.
    lambda1_critical_ : float
        The λ₁ at and below which, with these modes, the zero metric is optimal; with
        ``n_components`` below the number of features, among metrics in the span of ``components_``.
    history_ : array of shape (n_passes + 3 * n_iter_,)
        The objective, Eq. (7) of the paper, after the start and after every step: centres, weights,
        metric, in turn. It never rises but where a pass with new triplets begins.
    pass_starts_ : array of shape (n_passes,)
        Where in ``history_`` each pass begins: ``[0]``, and one more for every refresh.
    n_iter_ : int
        Rounds made, in all passes.
    n_samples_seen_, n_comparisons_seen_ : int
        Samples and comparisons learned from, in all calls of ``partial_fit``.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Scale the features first, as for any distance. Rows whose label is ``-1`` are unlabelled: no
    triplet is drawn for them, but they take part in finding the modes. A class with a single member
    serves as dissimilar only.

    References
    ----------
    .. [1] H. Deng, X. Meng, L. Feng, "Multimodal-Aware Weakly Supervised Metric Learning with
       Self-weighting Triplet Loss", arXiv:2102.02670, 2021.

    Examples
    --------
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_multimodal
    >>> X, y = make_multimodal(random_state=0)
    >>> model = MDaML(n_modes=4, random_state=0).fit(X, y)
    >>> model.transform(X).shape == X.shape
    True
    >>> bool(model.history_[-1] < model.history_[0])
    True
    """

    def __init__(
        self,
        n_modes: int = 3,
        *,
        eta: float = 3.0,
        triplet_weight: float | Literal["auto"] = "auto",
        ridge: float = 1e-4,
        n_similar: int = 5,
        n_dissimilar: int = 5,
        sampling: Literal["neighbors", "random"] = "neighbors",
        n_refresh: int = 1,
        pairing: Literal["grid", "zip"] = "grid",
        init_metric: Literal["auto", "identity", "whitened"] | npt.ArrayLike = "auto",
        init: Literal["gmm", "kmeans"] | npt.ArrayLike = "gmm",
        max_iter: int | Literal["auto"] = "auto",
        max_inner_iter: int = 5,
        tol: float = 1e-4,
        n_components: int | None = None,
        callback: Callable[[int, float], bool | None] | None = None,
        device: Literal["cpu", "cuda", "auto"] | None = None,
        memory_limit: int | str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_modes = n_modes
        self.eta = eta
        self.triplet_weight = triplet_weight
        self.ridge = ridge
        self.n_similar = n_similar
        self.n_dissimilar = n_dissimilar
        self.sampling = sampling
        self.n_refresh = n_refresh
        self.pairing = pairing
        self.init_metric = init_metric
        self.init = init
        self.max_iter = max_iter
        self.max_inner_iter = max_inner_iter
        self.tol = tol
        self.n_components = n_components
        self.callback = callback
        self.device = device
        self.memory_limit = memory_limit
        self.random_state = random_state

    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        triplets: npt.ArrayLike | None = None,
        pairs: npt.ArrayLike | None = None,
        pair_labels: npt.ArrayLike | None = None,
        quadruplets: npt.ArrayLike | None = None,
        constraints: Any = None,
        constraint_weight: npt.ArrayLike | None = None,
        **unsupported: Any,
    ) -> Self:
        """Learn the metric from labels, or from any of triplets, pairs and quadruplets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, dense; single precision stays single.
        y : array-like of shape (n_samples,), optional
            Class labels, from which triplets are drawn; ``-1`` marks unlabelled rows.
        triplets : array-like of shape (n_triplets, 3), optional
            Rows of X: ``X[t[0]]`` is closer to ``X[t[1]]`` than to ``X[t[2]]``.
        pairs : array-like of shape (n_pairs, 2), optional
            Rows of X. Every similar pair is compared with ten dissimilar ones, those that share a
            sample with it first, the others drawn at random; every dissimilar pair is compared with
            at least one similar pair. All these comparisons together weigh as much as the pairs,
            each in proportion to the product of the weights of its two pairs.
        pair_labels : array-like of shape (n_pairs,), optional
            1 for similar, -1 for dissimilar pairs.
        quadruplets : array-like of shape (n_quadruplets, 4), optional
            Rows of X: ``X[q[0]]`` and ``X[q[1]]`` are closer than ``X[q[2]]`` and ``X[q[3]]``.
        constraints : Constraints, optional
            Triplets, pairs, quadruplets and their weights in one value, instead of the arrays.
        constraint_weight : array-like of shape (n_constraints,), optional
            Positive weights of the triplets, pairs and quadruplets, in this order: 2 counts like a
            constraint given twice. Only their ratios matter.
        **unsupported : Any
            Anything else is refused by name.

        Returns
        -------
        self : MDaML
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import MDaML
        >>> from mdaml.datasets import make_triplets
        >>> X = np.random.default_rng(0).normal(size=(200, 4))
        >>> said, _ = make_triplets(X, n_triplets=2000, components=np.eye(4)[:1], random_state=0)
        >>> metric = MDaML(n_modes=1).fit(X, triplets=said)
        >>> metric.score_triplets(X, said) > 0.95
        True
        """
        samples, given = check_supervision(
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
        near = given.labels is not None and self.sampling == "neighbors"
        triplet_weight = check_parameters(self, len(samples), samples.shape[1], near)
        device = find_device("MDaML(device=...)", self.device)
        in_blocks = self._needs_blocks(samples, given, device)
        mean, centred = center(to_device(samples, device), in_blocks=in_blocks)
        check_magnitude(centred)
        rng = check_random_state(self.random_state)
        with kernels.fit_threads(centred):
            problem, obeyed, passes = self._learn(centred, given, triplet_weight, rng)
            outcome = passes[-1]
            critical = problem.critical_triplet_weight(outcome.state)
            components = principal_components(outcome.state.F)
        lengths = [len(done.history) for done in passes]
        self._store(
            X,
            components,
            mean.dtype,
            triplets_=obeyed.triplets,
            comparisons_=obeyed.comparisons,
            comparison_weights_=obeyed.weights,
            triplet_weight_=triplet_weight,
            lambda1_critical_=critical,
            centers_=outcome.state.modes.centers + mean,
            weights_=kernels.to_host(outcome.state.modes.weights).astype(mean.dtype, copy=False),
            history_=np.concatenate([done.history for done in passes]),
            pass_starts_=np.cumsum([0, *lengths[:-1]]),
            n_iter_=sum(done.n_iter for done in passes),
            n_samples_seen_=len(samples),
            n_comparisons_seen_=len(obeyed),
        )
        self.__dict__.pop("_stream", None)  # what partial_fit kept of other samples
        few_by_design = near and isinstance(self.max_iter, str)
        mean_loss = problem.mean_loss(outcome.state)
        warn_if_needed(self, outcome, mean_loss, few_by_design=few_by_design)
        return self

    def _learn(
        self,
        centred: Samples,
        given: Supervision,
        triplet_weight: float,
        rng: np.random.RandomState,
    ) -> tuple[LocalProblem, InForce, list[Outcome[State]]]:
        """Return the last problem with the comparisons it obeys, and the outcomes of all passes."""
        near = given.labels is not None and self.sampling == "neighbors"
        leading = self._leading_axes(centred, rng)
        F = self._start_metric(centred, leading, rng)
        obeyed = self._compare(centred, F, given, rng)
        problem = self._problem(centred, obeyed, triplet_weight, leading)
        modes = modes_from_weights(centred, self._start_weights(centred, rng), problem.eta)
        n_rounds = self._n_rounds(near)
        passes = [self._alternate(problem, F, modes, 0, n_rounds)]
        # Comparisons that were made, or drawn at random, do not depend on the metric.
        for _ in range(self.n_refresh if near else 0):
            state = passes[-1].state
            if passes[-1].status is Status.STOPPED:
                break
            obeyed = self._compare(centred, state.F, given, rng)
            problem = self._problem(centred, obeyed, triplet_weight, leading)
            n_before = sum(done.n_iter for done in passes)
            passes.append(self._alternate(problem, state.F, state.modes, n_before, n_rounds))
        return problem, obeyed, passes

    def _better_start(self, problem: Problem[S], state: S, n_before: int = 0) -> S:
        """Return a start, scaled if that is wanted; of low rank it has its scale already."""
        auto = isinstance(self.init_metric, str) and self.init_metric == "auto"
        if n_before > 0 or not auto or isinstance(problem, LowRankProblem):
            return state
        return better_start(problem, state)

    def _n_rounds(self, near: bool) -> int:
        """Return the most rounds of a pass, given whether its triplets are neighbours."""
        if isinstance(self.max_iter, str):
            return 2 if near else 10
        return self.max_iter

    def _alternate(
        self, problem: LocalProblem, F: FloatArray, modes: Modes, n_before: int, n_rounds: int
    ) -> Outcome[State]:
        """Make one pass, with the triplets of the problem."""
        callback = self.callback
        return alternate(
            problem,
            # Made here and held by no name, so that the first round can free it.
            self._better_start(problem, problem.start(F, modes), n_before),
            max_iter=n_rounds,
            tol=self.tol,
            callback=None if callback is None else lambda n, value: callback(n_before + n, value),
        )

    def _problem(
        self,
        X: Samples,
        obeyed: InForce,
        triplet_weight: float,
        leading: LeadingAxes | None,
    ) -> LocalProblem:
        grouped = obeyed.grouped(X)
        neighbors = Neighbors.from_graph(grouped.near_graph())
        if isinstance(X, CentredRows):
            neighbors = neighbors.without_graph()
        parts: dict[str, Any] = {
            "X": X,
            "triplets": grouped,
            "neighbors": neighbors,
            "eta": float(self.eta),
            "triplet_weight": triplet_weight,
            "ridge": float(self.ridge),
            "max_inner_iter": self.max_inner_iter,
        }
        return (
            LocalProblem(**parts) if leading is None else LowRankProblem(**parts, leading=leading)
        )

    def _needs_blocks(self, X: FloatArray, given: Supervision, device: str | None) -> bool:
        """Return whether to spare memory; refuse a fit that does not fit into the limit."""
        if device is not None or self.n_components not in (None, X.shape[1]):
            return False
        limit = check_memory_limit(self, self.memory_limit)
        drawn = (self.n_similar, self.n_dissimilar, self.pairing)
        return choose_blocks(limit, X, lambda: fit_size(X, self.n_modes, given, drawn))

    def _leading_axes(self, X: Samples, rng: np.random.RandomState) -> LeadingAxes | None:
        """Return what a metric of low rank starts from and is steered by; None for full rank."""
        if self.n_components is None or self.n_components == X.shape[1]:
            return None
        return LeadingAxes.of(X[:], max(self.n_components, N_AXES), rng)

    def _start_metric(
        self, X: Samples, leading: LeadingAxes | None, rng: np.random.RandomState
    ) -> FloatArray:
        """Return the factor of the first metric."""
        given = None
        if not isinstance(self.init_metric, str):
            given = check_metric(self, "init_metric", self.init_metric, X.shape[1])
        whitened = given is None and self.init_metric == "whitened"
        if leading is not None and self.n_components is not None:
            if given is not None:
                return low_rank_part(given, X[:], self.n_components, rng)
            return leading.start(self.n_components, whitened=whitened)
        if given is not None:
            return np.linalg.cholesky(given)
        return whitening_factor(X) if whitened else np.eye(X.shape[1])

    def _compare(
        self, X: Samples, F: FloatArray, given: Supervision, rng: np.random.RandomState
    ) -> InForce:
        """Return the comparisons passed, or those drawn from labels under the metric of F."""
        if given.weak is not None:
            return given.weak.comparisons(self, len(X), rng)
        return InForce(self._draw(X, F, given.labels, rng))

    def _draw(self, X: Samples, F: FloatArray, y: Any, rng: np.random.RandomState) -> IntArray:
        if self.sampling == "neighbors":
            mapped = kernels.to_host(X[:] if _is_identity(F) else kernels.rows_times(X, F))
            with kernels.one_blas_thread():  # the search has threads of its own
                return neighbor_triplets(
                    mapped, y, self.n_similar, self.n_dissimilar, pairing=self.pairing
                )
        seed = int(rng.randint(2**31 - 1))
        return sample_triplets(
            y, self.n_similar, self.n_dissimilar, pairing=self.pairing, random_state=seed
        )

    def _start_weights(self, X: Samples, rng: np.random.RandomState) -> FloatArray:
        if not isinstance(self.init, str):
            return check_start_weights(self, self.init, len(X), self.n_modes)
        if self.n_modes == 1:
            return np.ones((len(X), 1))
        make = mixture_weights if self.init == "gmm" else kmeans_weights
        return make(X, self.n_modes, rng)


def _is_identity(F: FloatArray) -> bool:
    return F.shape[0] == F.shape[1] and np.array_equal(F, np.eye(len(F)))

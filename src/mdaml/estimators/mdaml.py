"""Multimodal-aware weakly supervised metric learning."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import ArrayLike, FloatArray
from mdaml._validation import check_random_state, has_unit_rows
from mdaml.constraints.arguments import Supervision, weighable
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators.base import principal_components
from mdaml.estimators.chunks import Choice, learn_chunk
from mdaml.estimators.learners import WeakLearner
from mdaml.estimators.mdaml_spec import choose_rest, place, resolve
from mdaml.estimators.mdaml_warnings import (
    warn_if_hardly_learned,
    warn_if_needed,
    warn_of_gain,
    warn_of_scales,
    warn_of_swapped,
)
from mdaml.estimators.summary import describe_fit
from mdaml.solver.fit import Fit
from mdaml.solver.run import Problem
from mdaml.solver.spec import Spec


class MDaML(WeakLearner):
    r"""Learn a distance from comparisons or labels, aware that classes may have several modes.

    The fit improves in turn soft clusters ("modes"), a weight for each comparison that says whether
    its similar pair lies in one mode, and the metric. No step raises the objective.

    **Objective**: minimise over the metric M, centres :math:`c_k` and weights :math:`w_{ik}`

    .. math:: & \frac{1}{N K} \sum_{ik} w_{ik}^\eta\, d^2(x_i, c_k)
        + \frac{\lambda_1}{K T} \sum_t s_t\, \ell\bigl(d^2(i, r) - d^2(i, j)\bigr) \\
        & + \frac{\lambda_2}{2} \|M\|^2
        + \frac{\beta \lambda_1}{K d} \bigl(\operatorname{tr} A^{-1} M - \log\det A^{-1} M - d\bigr)

    with triplets :math:`t = (i, j, r)`, :math:`s_t = f + (1 - f) \sum_k (w_{ik} w_{jk})^\eta` and ℓ
    a smooth hinge. In general a near pair (i, j) is compared with a far pair, and each loss may
    have its own weight; T is then the sum of these weights. The last term keeps the metric near an
    *anchor* A, the metric it starts from, so that it does not change where the supervision says
    nothing. With ``anchor=0`` (β) and ``floor=0`` (f) it is the paper's objective, its Eq. (7).

    **Supervision**: triplets, pairs and quadruplets, mixed and weighted; or labels from which
    triplets are drawn. Each similar pair is compared with ten dissimilar pairs, first those
    that share a sample with it, and each dissimilar pair with at least one similar pair. Together
    they weigh as much as the pairs, each by the product of its two weights.

    **Prefer it** with comparisons instead of labels, if classes have several clusters or shapes, or
    if some comparisons are wrong or cannot hold.

    Parameters
    ----------
    n_modes : int or "auto", default="auto"
        Number of modes, K. "auto" is, for neighbours, the number found in X (1, 2, 4, ... up to 32,
        as long as the BIC of a Gaussian mixture falls), 1 for comparisons, and 3 without an anchor.
    goal : {"auto", "comparisons", "neighbors"}, default="auto"
        What the metric is for. "comparisons": predict comparisons of other items. "neighbors":
        search, nearest neighbours, clustering. The first trusts all comparisons. The second looks
        for groups that explain them, as when they were drawn from classes. If it finds groups, it
        uses them as labels (unless `anchor` is a number); otherwise it trusts mainly comparisons
        within a mode. "auto" is "comparisons" for comparisons and "neighbors" for labels.
    eta : float or "auto", default="auto"
        Exponent of the weights, greater than 1. Near 1 a sample belongs to one mode; for large
        values it belongs to all modes equally. "auto" is 1.1, or 3 without an anchor.
    triplet_weight : float or "auto", default="auto"
        Weight of the triplet loss, the paper's λ₁. "auto" is 6 over the mean of the weights ``s_t``
        at the start, times ``n_features / n_components`` at low rank. Without an anchor it is
        ``300 * n_modes**eta``, or ``1000 * n_modes**eta`` for triplets of neighbours, which are
        hard to tell apart; compare with ``lambda1_critical_``, below which the best metric is zero.
    anchor : float or "auto", default="auto"
        How strongly the metric is kept near its start, β. 0 is the paper's objective; with 10 or
        more little is learned. "auto" is, for comparisons, the value between 0.003 and 10 with the
        lowest loss on comparisons of held-out points, found in short fits to at most 20 000 of
        them; at least 10 if hardly more points were compared than there are features. If none
        leads the start by more than chance, the start is returned. For neighbours it is
        0.1, more with few comparisons, and 10 if rows of X have unit length, as embeddings have.
        All are multiplied by ``n_components / n_features``. It is 0 for neighbours from labels.
    floor : float or "auto", default="auto"
        Share of its weight that a comparison keeps regardless of the modes, from 0 (the paper) to 1
        (all of it). "auto" is 1 for comparisons, 0.05 for neighbours, 0 without an anchor.
    shrinkage : float or "auto", default="auto"
        How far the learned metric is finally moved back to its start, along the geodesic: 0 is not
        at all, 1 is the start itself. "auto" is, for labels, the best of 0, 0.25, 0.5 and 0.75 by
        3-NN on held-out samples, or the start if none leads it by more than chance; 0.5 if groups
        were found in comparisons; otherwise 0, also if a parameter of the objective is given.
    ridge : float or "auto", default="auto"
        Weight of the penalty on the squared norm of the metric, the paper's λ₂; it pulls the metric
        to zero. "auto" is 1e-4; without an anchor and with more than 3 modes it is
        ``1e-4 * (3 / n_modes)**eta``, because the other terms shrink by the same factor.
    n_similar, n_dissimilar : int, default=5
        Similar and dissimilar partners of each sample when triplets are drawn from labels.
    sampling : {"neighbors", "random"}, default="neighbors"
        Partners are the nearest samples under the start metric, or random ones, as in the paper.
    n_refresh : int, default=1
        With ``sampling="neighbors"``: how often to search the nearest samples again under the
        metric learned so far, and to continue with the new triplets. Passed or random ones stay.
    pairing : {"grid", "zip"}, default="grid"
        Combine every similar partner with every dissimilar one, or pair them off in turn.
    init_metric : {"auto", "identity", "whitened"} or array of shape (n_features, n_features)
        Where the metric starts; the anchor is a multiple of it. "auto", the default, is the
        identity; without an anchor it is the best multiple of the identity if that is far better,
        as with many features. "whitened" is the inverse of the covariance of X, with a tenth of its
        mean eigenvalue added to the diagonal. An array must be positive definite. An anchor has a
        mean squared distance of three margins; at low rank it is a multiple of the identity, or of
        the array. There the start is the leading principal axes of X, of equal length or whitened,
        with a mean squared distance of 10; or those of the samples mapped by the array, with the
        distances that it gives.
    init : {"gmm", "kmeans"} or array of shape (n_samples, n_modes), default="gmm"
        First weights: posteriors of a Gaussian mixture, nearest k-means centre, or given.
    max_iter : int or "auto", default="auto"
        Maximum number of rounds of centres, weights and metric in each pass. "auto" is 10, or 2 for
        triplets of neighbours: these are soon satisfied, and further rounds overfit.
    max_inner_iter : int, default=5
        Maximum number of metric steps in each round. Few are enough: better weights help more.
    tol : float, default=1e-4
        Stop when a round lowers the objective by less than this fraction.
    n_components : int or None, default=None
        Rank of the metric, learned as a linear map to this many features; None, or the number of
        features of X, is full rank. If it exceeds the number of samples, the last rows stay zero.
    verbose : int, default=0
        1 shows a progress bar in a terminal or a notebook.
    callback : callable or None, default=None
        Called as ``callback(iteration, objective)`` after each round; returning True stops early.
    device : {None, "cpu", "cuda", "auto"}, default=None
        Where to compute: with NumPy (None), or with torch on the CPU or a GPU, with samples always
        in single precision; "auto" uses a GPU if there is one, otherwise NumPy. With an anchor the
        same start gives the same objective up to a relative 1e-3; without one only the start and
        the first round do. The mixture start is a different draw.
        Neighbours are searched there too: exactly, or among enough samples to find 95 % of them.
        All attributes are NumPy arrays.
    memory_limit : int, str or None, default=None
        Maximum number of bytes, or text such as "2 GB", that a fit may use beyond X and the
        comparisons passed. X is copied only if the copies fit; a fit that needs more without them
        is refused before it starts. None sets no limit, but saves memory if X is larger than 32
        MiB. On a device it limits the memory there. The guide "scaling" says how much a fit needs.
    random_state : int, Generator, RandomState or None, default=None
        Seed of drawn triplets, of first weights and, with ``n_components``, of principal axes.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The linear map ``L``; the metric is ``L.T @ L``.
    centers_ : array of shape (n_modes, n_features)
        Centres of the modes.
    weights_ : array of shape (n_samples, n_modes)
        Weight of each training sample in each mode; rows sum to one.
    triplets_ : array of shape (n_triplets, 3)
        The triplets used: those passed, or those drawn from the labels.
    comparisons_ : array of shape (n_comparisons, 4) or None
        All comparisons used, near pair and far pair: triplets, those made from pairs, and
        quadruplets, in this order. None if there are only ``triplets_``, with equal weights.
    comparison_weights_ : array of shape (n_comparisons,) or None
        Their weights, up to a common factor.
    mode_clarity_ : float
        How clearly samples belong to one mode: near 0 all modes have merged, as with ``eta=3``.
    n_modes_, eta_, triplet_weight_, ridge_, anchor_, floor_, shrinkage_ : int or float
        The values used.
    lambda1_critical_ : float
        The λ₁ at and below which, with these modes, the zero metric is optimal; with
        ``n_components`` below the number of features, among metrics in the span of ``components_``.
        0 with an anchor.
    persons_ : dict or None
        With ``who=``, arrays with an entry for each person: ``who``, ``answers``, ``error``, the
        estimated share of wrong answers, and ``weight``, how much an answer counts (1 on average).
    history_ : array of shape (n_passes + 3 * n_iter_,)
        The objective after the start and after every step: centres, weights, metric, in turn,
        before any shrinkage. It never rises, except where a pass with new triplets begins. Without
        anchor and floor it is Eq. (7); with ``who=`` it also has the term of the errors.
    pass_starts_ : array of shape (n_passes,)
        Where each pass begins in ``history_``: 0, and each refresh or estimate of persons' errors.
    n_iter_ : int
        Number of rounds, over all passes.
    gain_ : dict or None
        What learning gained on held-out points (``score`` is "comparisons", the share that hold) or
        samples ("3-NN", the accuracy): ``before`` and ``after``, ``low`` and ``high``, an interval
        of 95 % of the difference, ``n_units``, ``is_beyond_chance``. None if it was not measured,
        as with ``anchor=0``: the paper's objective is fitted as it is.
    start_kept_ : bool
        Whether the metric is the start: nothing led it by more than chance, or it was asked for.
    n_samples_seen_, n_comparisons_seen_ : int
        Number of samples and comparisons learned from, over all calls of ``partial_fit``.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    MDaMLCV : Chooses its parameters on held-out data.
    audit : Which answers to doubt after a fit.
    mdaml.people.PersonalMetrics : One metric for each person.

    Notes
    -----
    **Cost**: a step of the metric takes :math:`O(P d + N d^2 + d^3)` for P distinct pairs, a round
    of weights :math:`O(P K)`; memory beyond X is :math:`O(N (d + K) + P + d^2)`. A step for
    ``n_components=r`` takes :math:`O(P r + N d r)`, and no array is d × d.

    Scale the features first. Rows with label ``-1`` only help to find the modes.

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
    >>> model.transform(X).shape == X.shape, bool(model.history_[-1] < model.history_[0])
    (True, True)
    """

    default_grid: ClassVar = [
        {"anchor": ["auto", 0.01, 0.1, 1.0, 10.0]},
        {"anchor": [0.0], "n_modes": [1, 3, 10]},
    ]

    def __init__(
        self,
        n_modes: int | Literal["auto"] = "auto",
        *,
        goal: Literal["auto", "comparisons", "neighbors"] = "auto",
        eta: float | Literal["auto"] = "auto",
        triplet_weight: float | Literal["auto"] = "auto",
        anchor: float | Literal["auto"] = "auto",
        floor: float | Literal["auto"] = "auto",
        shrinkage: float | Literal["auto"] = "auto",
        ridge: float | Literal["auto"] = "auto",
        n_similar: int = 5,
        n_dissimilar: int = 5,
        sampling: Literal["neighbors", "random"] = "neighbors",
        n_refresh: int = 1,
        pairing: Literal["grid", "zip"] = "grid",
        init_metric: Literal["auto", "identity", "whitened"] | ArrayLike = "auto",
        init: Literal["gmm", "kmeans"] | ArrayLike = "gmm",
        max_iter: int | Literal["auto"] = "auto",
        max_inner_iter: int = 5,
        tol: float = 1e-4,
        n_components: int | None = None,
        verbose: int = 0,
        callback: Callable[[int, float], bool | None] | None = None,
        device: Literal["cpu", "cuda", "auto"] | None = None,
        memory_limit: int | str | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.n_modes = n_modes
        self.goal = goal
        self.eta = eta
        self.triplet_weight = triplet_weight
        self.anchor = anchor
        self.floor = floor
        self.shrinkage = shrinkage
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
        self.verbose = verbose
        self.callback = callback
        self.device = device
        self.memory_limit = memory_limit
        self.random_state = random_state

    def _fit(
        self, X: ArrayLike, samples: FloatArray, said: Supervision, persons: Persons | None
    ) -> None:
        self._learn(X, samples, said, persons)
        self.__dict__.pop("_stream", None)  # what partial_fit kept of other samples

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        triplets: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_labels: ArrayLike | None = None,
        quadruplets: ArrayLike | None = None,
        constraints: Any = None,
        constraint_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the model with a chunk of new samples and comparisons, without the old ones.

        The first call is :meth:`fit`. A later one starts from the model so far and learns from the
        chunk and from a sample of at most 20 000 comparisons of earlier chunks (64 MiB at most). A
        model that was fitted in one call, or loaded, has no such sample; its metric then moves by
        the share of the chunk in all comparisons. What was chosen is kept until twice as many
        comparisons were seen. The guide "scaling" says how far this is from one fit.

        ``weights_``, ``triplets_``, ``comparisons_``, ``comparison_weights_`` then refer to this
        chunk, ``history_`` and ``n_iter_`` to this call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples of the chunk.
        y : array-like of shape (n_samples,), optional
            Their labels; triplets are drawn within the chunk.
        triplets, pairs, pair_labels, quadruplets : array-like, optional
            As for :meth:`fit`; row numbers are those of the chunk.
        constraints : Constraints, optional
            The same in one value.
        constraint_weight : array-like, optional
            As for :meth:`fit`.

        Returns
        -------
        self : MDaML
            The estimator, refined.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import MDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> model = MDaML(n_modes=4, random_state=0)
        >>> for rows in np.array_split(np.random.default_rng(0).permutation(len(X)), 2):
        ...     model = model.partial_fit(X[rows], y[rows])
        >>> model.n_samples_seen_ == len(X)
        True
        """
        given = {
            "triplets": triplets,
            "pairs": pairs,
            "pair_labels": pair_labels,
            "quadruplets": quadruplets,
            "constraints": constraints,
            "constraint_weight": constraint_weight,
        }
        learn_chunk(self, X, y, given)
        return self

    def summary(self) -> str:
        """Return what the fit used, where each value came from, and what was gained.

        Returns
        -------
        text : str
            To be printed.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import MDaML
        >>> from mdaml.datasets import make_triplets
        >>> X = np.random.default_rng(0).normal(size=(200, 4))
        >>> said, _ = make_triplets(X, n_triplets=2000, components=np.eye(4)[:1], random_state=0)
        >>> print(MDaML().fit(X, triplets=said).summary().splitlines()[0].rpartition(",")[0])
        MDaML: 200 samples of 4 features, 2000 comparisons
        """
        check_is_fitted(self, "components_")
        return describe_fit(self)

    def _learn(
        self, X: ArrayLike, samples: FloatArray, said: Supervision, persons: Persons | None = None
    ) -> Fit:
        """Fit to samples, and store what was learned."""
        options = {"unit_rows": has_unit_rows(samples), "keep": persons is not None}
        given, (spec, said) = said, resolve(self, samples.shape, said, **options)
        store = place(self, samples, spec, weighable(said, persons))
        with store.threads():
            fit = self._learn_in(X, store, spec, said, persons)
            if spec.metric is None:
                warn_of_scales(samples)
            if isinstance(given, Constraints):
                warn_of_swapped(samples, given, spec.metric)
            # A metric of low rank also leaves out what nobody asked about.
            if isinstance(said, Constraints) and spec.rank is None and not fit.spec.keep_start:
                warn_if_hardly_learned(samples, fit.comparisons, spec.metric, self.components_)
        return fit

    def _learn_in(
        self,
        X: ArrayLike,
        store: Any,
        spec: Spec,
        said: Supervision,
        persons: Persons | None = None,
    ) -> Fit:
        """Fit to the samples of a store, and store what was learned."""
        rng = check_random_state(self.random_state)
        spec, gain = choose_rest(spec, store, said, persons)
        fit = Problem(spec, weighable(said, persons), persons).solve(store, rng)
        learned = fit.attributes(said, store.mean)
        learned |= Choice.of(spec, gain, fit.comparisons.n_constraints).attributes()
        # Not turned to its principal axes: a start that is kept comes back bit for bit.
        L = fit.F.T.copy() if spec.keep_start else principal_components(fit.F)
        self._store(X, L, store.mean.dtype, **learned)
        warn_if_needed(self, spec, fit)
        warn_of_gain(spec, gain, said.n_constraints if isinstance(said, Constraints) else 0)
        return replace(fit, spec=spec)

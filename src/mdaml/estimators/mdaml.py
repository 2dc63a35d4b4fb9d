"""Multimodal-aware weakly supervised metric learning."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mdaml._choosing import show_choices
from mdaml._typing import ArrayLike, FloatArray, Params
from mdaml._validation import check_random_state, has_unit_rows
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators.base import principal_components
from mdaml.estimators.learners import WeakLearner
from mdaml.estimators.mdaml_warnings import warn_if_needed, warn_of_gain, warn_of_input
from mdaml.estimators.posing import Posed, place, pose
from mdaml.estimators.presets import Partners, Preset
from mdaml.holdout.rule import Gain
from mdaml.solver.run import Run


@show_choices
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

    **Prefer it** to begin with, from labels as from comparisons; the table says when not.

    **Defaults** are a table, ``mdaml.PRESETS``. The goal and the supervision choose a row; an
    argument that is given replaces its cell and nothing else. :meth:`summary` shows all values in
    force and where they came from.

    ============== ============== ============== ============== ============== ==============
    parameter      labels         groups         comparisons    neighbors      paper
    ============== ============== ============== ============== ============== ==============
    n_modes        3              3              1              counted        10
    eta            3              3              1.1            1.1            3
    triplet_weight 1000 K^eta     1000 K^eta     6              6 / mean       300 K^eta
    ridge          1e-4           1e-4           1e-4           1e-4           1e-4
    anchor         0              0              chosen         by amount      0
    floor          0              0              1              0.05           0
    shrinkage      chosen         0.5            0              0              0
    partners       neighbors      neighbors                                    random
    init_metric    auto           auto           auto           auto           identity
    max_iter       2              2              10             10             10
    ============== ============== ============== ============== ============== ==============

    *labels*: fit(X, y). *comparisons*: triplets, pairs, quadruplets. With ``goal="neighbors"``:
    *groups* if comparisons follow groups, as when they were drawn from classes, otherwise
    *neighbors*. *paper*: :meth:`paper`. The guide "Defaults" explains each cell.

    Parameters
    ----------
    n_modes : int, array of shape (n_samples, n_modes) or "auto", default="auto"
        Everyday: number of modes, K; or first weights of the samples in them.
    goal : {"auto", "comparisons", "neighbors", "paper"} or Preset, default="auto"
        Everyday: what the metric is for. "comparisons": predict comparisons of other items.
        "neighbors": search, nearest neighbours, clustering. "auto" is the first for comparisons and
        the second for labels. "paper" is :meth:`paper`. A :class:`Preset` is a row of your own.
    partners : {"auto", "neighbors", "random"} or Partners, default="auto"
        Everyday, for labels: triplets are made of the nearest samples, searched again once, 5
        similar and 5 dissimilar ones; or of 10 and 10 random ones. :class:`Partners` says more.
    anchor : float or "auto", default="auto"
        Everyday: how strongly the metric is kept near its start, β; with 10 or more little is
        learned. "chosen": the value between 0.003 and 10 with the lowest loss on comparisons of
        held-out points, or the start if none leads it by more than chance.
    shrinkage : float or "auto", default="auto"
        Everyday: how far the learned metric is moved back to its start, along the geodesic; 1 is
        the start. "chosen": by the votes of the three nearest neighbours of held-out samples.
    n_components : int or None, default=None
        Everyday: rank of the metric, learned as a linear map to this many features; None is full
        rank. If it exceeds the number of samples, the last rows stay zero.
    random_state : int, Generator, RandomState or None, default=None
        Everyday: seed of drawn triplets, of first weights and, at low rank, of principal axes.
    eta : float or "auto", default="auto"
        Paper: exponent of the weights, η > 1. Near 1 a sample belongs to one mode; for large values
        it belongs to all modes equally.
    triplet_weight : float or "auto", default="auto"
        Paper: weight of the triplet loss, λ₁. Without an anchor compare it with
        ``lambda1_critical_``, below which the best metric is zero.
    ridge : float or "auto", default="auto"
        Paper: weight of the penalty on the squared norm of the metric, λ₂.
    init_metric : {"auto", "identity", "whitened"} or array of shape (n_features, n_features)
        Paper: where the metric starts; the anchor is a multiple of it. "auto" is the identity;
        without an anchor, its best multiple if that is far better, as with many features.
        "whitened": the inverse of the covariance, ridged. An array must be positive definite.
    max_iter : int or "auto", default="auto"
        Solver: maximum number of rounds of centres, weights and metric in each pass.
    tol : float, default=1e-4
        Solver: stop when a round lowers the objective by less than this fraction.
    device : {None, "cpu", "cuda", "auto"}, default=None
        Solver: NumPy (None), or torch on the CPU or a GPU, in single precision; "auto" uses a GPU
        if there is one. With an anchor the objective agrees up to a relative 1e-3.
    verbose : int, default=0
        Solver: 1 shows a progress bar in a terminal or a notebook.
    callback : callable or None, default=None
        Solver: called as ``callback(iteration, objective)`` after each round; returning True stops.

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
    preset_ : str
        The row of the table of defaults: "labels", "groups", "comparisons", "neighbors" or "paper";
        "given" if a :class:`Preset` was passed.
    supervision_ : str
        What was learned from, and what it became, such as "7614 triplets, which became 12 groups".
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
        samples ("votes", the share of their three nearest neighbours that are of their class):
        ``before`` and ``after``, ``low`` and ``high``, an interval of 95 % of the difference,
        ``n_units``, ``is_beyond_chance``. None if it was not measured, as with :meth:`paper`.
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
        {"goal": ["paper"], "n_modes": [1, 3, 10]},
    ]

    def __init__(
        self,
        n_modes: int | FloatArray | Literal["auto"] = "auto",
        *,
        goal: Literal["auto", "comparisons", "neighbors", "paper"] | Preset = "auto",
        partners: Literal["auto", "neighbors", "random"] | Partners = "auto",
        anchor: float | Literal["auto"] = "auto",
        shrinkage: float | Literal["auto"] = "auto",
        n_components: int | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        eta: float | Literal["auto"] = "auto",
        triplet_weight: float | Literal["auto"] = "auto",
        ridge: float | Literal["auto"] = "auto",
        init_metric: Literal["auto", "identity", "whitened"] | ArrayLike = "auto",
        max_iter: int | Literal["auto"] = "auto",
        tol: float = 1e-4,
        device: Literal["cpu", "cuda", "auto"] | None = None,
        verbose: int = 0,
        callback: Callable[[int, float], bool | None] | None = None,
    ) -> None:
        self.n_modes = n_modes
        self.goal = goal
        self.partners = partners
        self.anchor = anchor
        self.shrinkage = shrinkage
        self.n_components = n_components
        self.random_state = random_state
        self.eta = eta
        self.triplet_weight = triplet_weight
        self.ridge = ridge
        self.init_metric = init_metric
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.verbose = verbose
        self.callback = callback

    @classmethod
    def paper(
        cls,
        n_modes: int | FloatArray | Literal["auto"] = "auto",
        *,
        eta: float | Literal["auto"] = "auto",
        triplet_weight: float | Literal["auto"] = "auto",
        ridge: float | Literal["auto"] = "auto",
        **others: Any,
    ) -> Self:
        """Return the method of the paper: Eq. (7), and nothing that is chosen by the data.

        Ten similar and ten dissimilar random partners of each labelled sample, start at the
        identity, no anchor, no floor. By default ten modes, η = 3, λ₁ = 300 K^η: the paper's own
        λ₁ = 1 lets the metric collapse, see the page on the paper.

        Parameters
        ----------
        n_modes : int or array of shape (n_samples, n_modes)
            K, or first weights.
        eta, triplet_weight, ridge : float
            η, λ₁ and λ₂.
        **others : object
            Further parameters of :class:`MDaML`.

        Returns
        -------
        model : MDaML
            Not fitted.

        Examples
        --------
        >>> from mdaml import MDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> model = MDaML.paper(n_modes=4, random_state=0).fit(X, y)
        >>> model.anchor_, model.floor_, model.preset_
        (0.0, 0.0, 'paper')
        """
        others |= {"eta": eta, "triplet_weight": triplet_weight, "ridge": ridge}
        return cls(n_modes, goal="paper", **others)

    def _fit(
        self,
        X: ArrayLike,
        samples: FloatArray,
        supervision: Supervision,
        persons: Persons | None = None,
        measured: Gain | None = None,
    ) -> None:
        unit_rows = has_unit_rows(samples)
        posed = pose(self, samples.shape, supervision, unit_rows=unit_rows, persons=persons)
        rng, taught = check_random_state(self.random_state), posed.problem.supervision
        with (store := place(self, samples, posed.spec, taught)).threads():
            posed, gain = posed.choose(store, measured)
            run = posed.problem.start(store, rng).complete()
            self._keep(X, posed, run, gain)
            warn_of_input(self, samples, supervision, posed)
        self.__dict__.pop("_stream", None)  # what partial_fit kept of other samples

    def _keep(self, X: ArrayLike, posed: Posed, run: Run, gain: Gain | None) -> None:
        """Store what was learned, and warn of what went wrong on the way."""
        fit, spec, supervision, mean = run.finish(), posed.spec, posed.supervision, run.store.mean
        learned = fit.attributes(supervision, mean) | posed.attributes()
        learned |= {"start_kept_": spec.keep_start, "gain_": gain and gain.as_dict()}
        # Not turned to its principal axes: a start that is kept comes back bit for bit.
        L = fit.F.T.copy() if spec.keep_start else principal_components(fit.F)
        self._store(X, L, mean.dtype, **learned)
        warn_if_needed(self, spec, fit)
        warn_of_gain(spec, gain, supervision)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        triplets: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_labels: ArrayLike | None = None,
        quadruplets: ArrayLike | None = None,
        constraints: Constraints | None = None,
        constraint_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the model with a chunk of new samples and comparisons, without the old ones.

        The first call is :meth:`fit`. A later one starts from the model so far. It learns from the
        chunk and from a sample of at most 20 000 comparisons of earlier chunks (64 MiB at most). A
        model that was fitted in one call, or loaded, has no such sample; its metric then moves by
        the share of the chunk in all comparisons. The anchor or, from a sample of the labels, the
        shrinkage is chosen anew with every chunk up to 2000 comparisons, then with a quarter more.

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
        from mdaml.estimators.chunks import learn_chunk  # fits in one call need none of it

        given: Params = {"triplets": triplets, "pairs": pairs, "pair_labels": pair_labels}
        given |= {"quadruplets": quadruplets, "constraints": constraints}
        learn_chunk(self, X, y, given | {"constraint_weight": constraint_weight})
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
        >>> T, _ = make_triplets(X, n_triplets=2000, components=np.eye(4)[:1], random_state=0)
        >>> print(MDaML().fit(X, triplets=T).summary().splitlines()[0])
        MDaML: 200 samples of 4 features, 2000 triplets
        """
        check_is_fitted(self, "components_")
        from mdaml.estimators.summary import describe_fit

        return describe_fit(self)

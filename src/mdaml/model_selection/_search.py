"""Choose parameters by what is held out, with labels or without."""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin
from sklearn.model_selection import ParameterGrid
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from mdaml._progress import show
from mdaml._typing import ArrayLike, FloatArray, Params
from mdaml._validation import check_random_state
from mdaml.constraints import Constraints
from mdaml.estimators import Euclidean
from mdaml.estimators.base import distances_after, page_of
from mdaml.estimators.scores import Scores
from mdaml.holdout.rule import warn_of_kept_start
from mdaml.holdout.split import Split
from mdaml.model_selection._gallery import metric_of
from mdaml.model_selection._ground import Task, fit
from mdaml.model_selection._split import ConstraintKFold, PointKFold
from mdaml.model_selection._start import compare_with_start, score_start, start_of
from mdaml.model_selection._trials import check_data, seeded, summary, try_all
from mdaml.model_selection.scoring import Scorer, check_scoring

_N_SPLITS = 5


class MetricSearchCV(Scores, MetaEstimatorMixin, TransformerMixin, BaseEstimator):
    """Choose the parameters of a metric learner on held-out data; no labels needed.

    scikit-learn's own search cannot do this: comparisons name rows of X, and it either passes all
    of them on with a part of X, or splits them as if there were one for each row.

    Parameters
    ----------
    estimator : estimator
        An estimator of this library, or a :class:`~sklearn.pipeline.Pipeline` that ends in one;
        its other steps see training points only.
    param_grid : dict or list of dict
        Values to try for each parameter, in all combinations; or a list of such grids.
    cv : int, splitter, iterable of Split or None, default=None
        What to hold out. An integer is the number of folds, 5 by default: of points, stratified,
        with labels (:class:`PointKFold`), of comparisons without (:class:`ConstraintKFold`). A
        splitter has a method ``split(constraints, y)`` that yields :class:`Split`.
    scoring : str, callable or None, default=None
        With labels "knn_accuracy" (default; 3 neighbours among the training points) or, among the
        points held out, "hit_rate_at_1" or "map_at_r". Without labels, "comparisons" (default, see
        :func:`triplet_accuracy`), "neighbors" (see :func:`neighbor_accuracy`) or "pair_auc". A
        callable is called as ``scoring(model, X, truth)`` with the points held out and their labels
        or constraints. Higher is better.
    n_jobs : int or None, default=None
        Number of splits to run in parallel, with joblib; -1 uses all cores.
    refit : bool, default=True
        Finally fit the best candidate to everything, from scratch.
    warm_start : bool, default=True
        For :class:`~mdaml.MDaML`: all candidates run two rounds, with the anchor or shrinkage that
        the first one chooses. Those far behind on the first split are given up, and only the best
        fifth (at least three) are fitted to the end. If False, all are fitted to the end. So are
        all candidates of other estimators, and of MDaML with at most 20 000 labelled samples and
        neighbours as partners, which runs few rounds.
    verbose : int, default=0
        1 shows a progress bar in a terminal or a notebook.
    random_state : int, Generator, RandomState or None, default=None
        For the folds if `cv` is a number, and for estimators whose own ``random_state`` is None:
        all get the same seed, so that chance does not decide between candidates.

    Attributes
    ----------
    best_estimator_ : estimator
        Fitted to everything with the best parameters, or the distance before learning if that is
        kept; only if `refit`.
    best_params_ : dict
        The parameters with the highest mean score among the finished candidates; in a tie, the
        first in the grid.
    best_score_ : float
        Their mean score; it is optimistic, because the highest was chosen.
    start_score_ : float
        The mean score of the distance before learning, on the same splits.
    start_kept_ : bool
        Whether no candidate leads that distance by more than chance; a warning says so.
    gain_ : dict or None
        What the best parameters gain over it, see :class:`~mdaml.MDaML`; None with a callable
        `scoring`, which does not score single comparisons or samples.
    best_index_ : int
        Their index in ``cv_results_``.
    cv_results_ : dict
        In the order of the grid: ``params``, ``split0_test_score`` and so on, ``mean_test_score``,
        ``std_test_score``, ``rank_test_score`` (1 is best), ``mean_fit_time`` in seconds, and
        ``finished``: False if a candidate ran only two rounds. Those rank behind the finished ones.
        Scores are NaN on splits where a candidate that was far behind was not tried.
    n_splits_ : int
        Number of splits.
    components_, n_features_in_, feature_names_in_
        Those of the best estimator.

    See Also
    --------
    mdaml.MDaMLCV : Chooses the parameters of MDaML without a grid.

    Notes
    -----
    The distance before learning is always a candidate: Euclidean or, for :class:`~mdaml.MDaML`, the
    ``init_metric`` that is given, at its rank. It is returned unless a candidate leads it by more
    than chance on the points or samples held out; with a callable `scoring`, over the splits.

    Only warnings of the final fit are shown. A fit that fails ends the search with an error that
    names the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_triplets
    >>> from mdaml.model_selection import MetricSearchCV
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> answers, _ = make_triplets(  # two features matter, and one answer in ten is wrong
    ...     X, n_triplets=1500, components=np.eye(5)[:2], wrong=0.1, random_state=0
    ... )
    >>> grid = {"triplet_weight": [3.0, 30.0, 300.0]}
    >>> search = MetricSearchCV(MDaML(), grid, cv=3, random_state=0)
    >>> search.fit(X, triplets=answers).best_score_ > 0.8
    True
    >>> search.transform(X).shape
    (200, 5)
    """

    _doc_link_module = "mdaml"
    _doc_link_template = page_of("model_selection.MetricSearchCV")

    def __init__(
        self,
        estimator: BaseEstimator,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        cv: Any = None,
        scoring: str | Scorer | None = None,
        n_jobs: int | None = None,
        refit: bool = True,
        warm_start: bool = True,
        verbose: int = 0,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def fit(
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
        """Choose parameters, and learn the metric with them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), optional
            Labels; instead of everything else.
        triplets, pairs, pair_labels, quadruplets : array-like, optional
            Comparisons of the rows of X, as for :meth:`mdaml.MDaML.fit`.
        constraints : Constraints, optional
            The same in one value.
        constraint_weight : array-like, optional
            Positive weights of the comparisons, as for :meth:`mdaml.MDaML.fit`.

        Returns
        -------
        self : MetricSearchCV
            The fitted search.

        Examples
        --------
        >>> from mdaml import GMML
        >>> from mdaml.datasets import make_multimodal
        >>> from mdaml.model_selection import MetricSearchCV
        >>> X, y = make_multimodal(random_state=0)
        >>> search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, random_state=0).fit(X, y)
        >>> sorted(search.best_params_)
        ['t']
        """
        given = {
            "triplets": triplets,
            "pairs": pairs,
            "pair_labels": pair_labels,
            "quadruplets": quadruplets,
            "constraints": constraints,
            "constraint_weight": constraint_weight,
        }
        samples, truth = check_data(X, y, given)
        rng = check_random_state(self.random_state)
        seed_of_folds, seed = (int(rng.randint(2**31 - 1)) for _ in range(2))
        scoring = check_scoring(self.scoring, has_labels=y is not None)
        task = Task(seeded(self.estimator, seed), samples, truth, scoring)
        candidates = list(ParameterGrid(self.param_grid))
        if not candidates:
            raise ValueError("param_grid is empty: at least one candidate is needed.")
        can_pause = [task.can_pause(params) for params in candidates]  # refuses unknown names too
        in_stages = self.warm_start and all(can_pause)
        splits = self._splits(task, seed_of_folds)
        fitted: Params = {}
        with show(self):
            tried = try_all(task, candidates, splits, in_stages=in_stages, n_jobs=self.n_jobs)
            trials, finished = tried
            results = summary(candidates, trials, finished)
            best = int(np.argmin(results["rank_test_score"]))
            start = score_start(task, splits)
            kept, gain = compare_with_start(task, splits, trials, start, finished, best)
            if self.refit:
                model = start_of(task.estimator) if kept else task.candidate(candidates[best])
                fitted["best_estimator_"] = fit(model, samples, truth)
        if kept and not isinstance(metric_of(self.estimator), Euclidean):
            warn_of_kept_start(gain)
        # All at once and last: a search that is interrupted leaves no half of a result.
        self.__dict__.pop("best_estimator_", None)
        self.__dict__.update(
            fitted,
            cv_results_=results,
            best_index_=best,
            best_params_=candidates[best],
            best_score_=float(results["mean_test_score"][best]),
            start_score_=float(np.mean([attempt.score for attempt in start])),
            start_kept_=kept,
            gain_=None if gain is None else gain.as_dict(),
            n_splits_=len(splits),
        )
        return self

    def _splits(self, task: Task, seed: int) -> list[Split]:
        cv, truth = _N_SPLITS if self.cv is None else self.cv, task.truth
        parts = (None, truth) if task.has_labels else (truth, None)
        if isinstance(cv, Integral):
            kind: Any = PointKFold if task.has_labels else ConstraintKFold
            cv = kind(cv, random_state=seed).split(*parts, groups=task.row_numbers)
        elif hasattr(cv, "split"):
            cv = cv.split(*parts) if task.has_labels else cv.split(truth)
        wanted = "MetricSearchCV(cv=...) must be a number of folds, a splitter such as PointKFold"
        if not isinstance(cv, Iterable):
            raise TypeError(f"{wanted}, or an iterable of Split; got {cv!r}.")
        splits = list(cv)
        if not splits or not all(isinstance(split, Split) for split in splits):
            raise TypeError(f"{wanted}, or an iterable of Split; got {splits[:1]!r}.")
        return splits

    def transform(self, X: ArrayLike) -> FloatArray:
        """Map samples by the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            Euclidean distance there is the learned distance.

        Examples
        --------
        >>> from mdaml import GMML
        >>> from mdaml.datasets import make_multimodal
        >>> from mdaml.model_selection import MetricSearchCV
        >>> X, y = make_multimodal(random_state=0)
        >>> search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, random_state=0).fit(X, y)
        >>> search.transform(X[:5]).shape
        (5, 2)
        """
        return self._best().transform(X)

    def pair_distance(self, A: ArrayLike, B: ArrayLike) -> FloatArray:
        """Return the learned distance of each row of A to the same row of B.

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
        >>> from mdaml import GMML
        >>> from mdaml.datasets import make_multimodal
        >>> from mdaml.model_selection import MetricSearchCV
        >>> X, y = make_multimodal(random_state=0)
        >>> search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, random_state=0).fit(X, y)
        >>> search.pair_distance(X[:2], X[:2])
        array([0., 0.])
        """
        best = self._best()
        if best is metric_of(best):
            return best.pair_distance(A, B)
        return distances_after(best.transform, A, B)

    def get_mahalanobis_matrix(self) -> FloatArray:
        """Return the matrix of the learned distance; in a pipeline, after its other steps.

        Returns
        -------
        M : array of shape (n_features, n_features)
            Symmetric and positive semi-definite.

        Examples
        --------
        >>> from mdaml import GMML
        >>> from mdaml.datasets import make_multimodal
        >>> from mdaml.model_selection import MetricSearchCV
        >>> X, y = make_multimodal(random_state=0)
        >>> search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, random_state=0).fit(X, y)
        >>> search.get_mahalanobis_matrix().shape
        (2, 2)
        """
        return metric_of(self._best()).get_mahalanobis_matrix()

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns of ``transform``.

        Parameters
        ----------
        input_features : object
            As everywhere in scikit-learn; ignored by the metrics of this library.

        Returns
        -------
        names : array of shape (n_components,)
            The name of the estimator and a number.

        Examples
        --------
        >>> from mdaml import GMML
        >>> from mdaml.datasets import make_multimodal
        >>> from mdaml.model_selection import MetricSearchCV
        >>> X, y = make_multimodal(random_state=0)
        >>> search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, random_state=0).fit(X, y)
        >>> search.get_feature_names_out()
        array(['gmml0', 'gmml1'], dtype=object)
        """
        return self._best().get_feature_names_out(input_features)

    @property
    def components_(self) -> FloatArray:
        """The linear map of the metric; in a pipeline, after its other steps."""
        return self._attribute(metric_of, "components_")

    @property
    def n_features_in_(self) -> int:
        """Number of features of the X that was fitted."""
        return self._attribute(None, "n_features_in_")

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """Names of the features, where X had names."""
        return self._attribute(None, "feature_names_in_")

    def _attribute(self, of: Any, name: str) -> Any:
        if "best_estimator_" not in self.__dict__:
            raise AttributeError(f"MetricSearchCV has no {name} before it is fitted with refit.")
        best = self.best_estimator_
        return getattr(best if of is None else of(best), name)

    def _best(self) -> BaseEstimator:
        check_is_fitted(self, "best_params_")
        if not self.refit or "best_estimator_" not in self.__dict__:
            raise ValueError(
                "MetricSearchCV(refit=False) keeps no metric: fit the estimator with best_params_, "
                "or search with refit=True."
            )
        return self.best_estimator_

    def __sklearn_tags__(self) -> Tags:
        """Take what the estimator takes."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.transformer_tags = inner.transformer_tags
        return tags

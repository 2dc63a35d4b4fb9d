"""Decide whether the two points of a pair are the same, by a learned distance."""

from typing import Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import ArrayLike, BoolArray, FloatArray, IntArray
from mdaml._validation import check_choice, check_number
from mdaml.constraints.forms.pairs import check_pairs
from mdaml.constraints.names import get_index
from mdaml.estimators.base import page_of
from mdaml.inspection.calibration import Tradeoff, fit_curve

_RULES = ["eer", "cost", "fbeta"]


class PairVerifier(BaseEstimator):
    """Decide whether two points are the same, by a learned distance and a threshold.

    Fitting sets the threshold and the probabilities from labelled pairs; it does not change the
    metric. Use pairs that the metric was not fitted to: on its own pairs it makes too few errors.

    Parameters
    ----------
    metric : fitted estimator
        A fitted metric of this library, or a fitted pipeline that ends in one. Clones of the
        verifier (:func:`sklearn.base.clone`) share it.
    threshold : {"eer", "cost", "fbeta"} or float, default="eer"
        Pairs within this distance are the same. ``fit`` chooses it so that both error rates are
        equal ("eer"), the errors cost least ("cost"), or the F-beta score of the similar pairs is
        highest ("fbeta"). Of several such distances it takes the lowest. A number is used as it is.
    beta : float, default=1.0
        For "fbeta": how many times recall is as important as precision.
    cost : (float, float), default=(1.0, 1.0)
        For "cost": the cost of a false accept (a dissimilar pair accepted as the same) and of a
        false reject.
    calibration : {"sigmoid", "isotonic", None}, default="sigmoid"
        How distances become probabilities: by a logistic curve (Platt), by isotonic regression,
        which needs about a thousand pairs, or not at all. A larger distance never has a higher
        probability of being the same.

    Attributes
    ----------
    threshold_ : float
        Pairs within this distance are the same.
    equal_error_rate_ : float
        Error rate on the pairs of ``fit`` at the threshold where false accepts and false rejects
        are equally frequent, whichever threshold is used.
    classes_ : array
        ``[-1, 1]``: different, same.

    See Also
    --------
    KISSME : A metric from pairs, in closed form.
    mdaml.plot.plot_roc : Draws its errors at every threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import GMML, PairVerifier
    >>> rng = np.random.default_rng(0)
    >>> who = np.repeat(np.arange(50), 6)  # six pictures of each of fifty people
    >>> X = rng.normal(size=(50, 8))[who] + rng.normal(size=(300, 8)) * np.linspace(0.1, 0.5, 8)
    >>> pairs = rng.integers(0, 300, size=(40_000, 2))
    >>> pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    >>> labels = np.where(who[pairs[:, 0]] == who[pairs[:, 1]], 1, -1)
    >>> metric = GMML().fit(X[:150], who[:150])
    >>> new = pairs.min(axis=1) >= 150
    >>> verifier = PairVerifier(metric).fit(X, pairs[new], labels[new])
    >>> bool(verifier.equal_error_rate_ < 0.01)  # Euclidean distance: 0.015
    True
    >>> verifier.predict(X, [[150, 151], [150, 299]])
    array([ 1, -1])
    """

    _doc_link_module = "mdaml"
    _doc_link_template = page_of("PairVerifier")

    def __init__(
        self,
        metric: BaseEstimator,
        *,
        threshold: Literal["eer", "cost", "fbeta"] | float = "eer",
        beta: float = 1.0,
        cost: tuple[float, float] = (1.0, 1.0),
        calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid",
    ) -> None:
        self.metric = metric
        self.threshold = threshold
        self.beta = beta
        self.cost = cost
        self.calibration = calibration

    def fit(self, X: ArrayLike, pairs: ArrayLike, pair_labels: ArrayLike) -> Self:
        """Set the threshold and the probabilities from labelled pairs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers of X.
        pair_labels : array-like of shape (n_pairs,)
            1 for similar, -1 for dissimilar pairs; both kinds are needed.

        Returns
        -------
        self : PairVerifier
            The fitted verifier.

        Examples
        --------
        >>> from mdaml import Euclidean, PairVerifier
        >>> X, pairs = [[0.0], [1.0], [3.0], [7.0]], [[0, 1], [1, 2], [0, 3], [2, 3]]
        >>> PairVerifier(Euclidean().fit(X)).fit(X, pairs, [1, 1, -1, -1]).threshold_
        3.0
        """
        self._check_parameters()
        distances, same = self._measure(X, pairs, pair_labels)
        tradeoff = _count_accepted(distances, same)
        threshold, rate = tradeoff.equal_error()
        if self.threshold == "cost":
            threshold = tradeoff.lowest_cost(self.cost)
        elif self.threshold == "fbeta":
            threshold = tradeoff.best_f(float(self.beta))
        elif self.threshold != "eer":
            threshold = float(self.threshold)
        if self.calibration is not None:
            self._curve = fit_curve(self.calibration, distances, same)
        self.threshold_, self.equal_error_rate_ = threshold, rate
        self.classes_ = np.array([-1, 1])
        return self

    def decision_function(self, X: ArrayLike, pairs: ArrayLike) -> FloatArray:
        """Return the threshold minus the distance of each pair: 0 or more for the same.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers of X.

        Returns
        -------
        scores : array of shape (n_pairs,)
            Larger for pairs that are more likely the same.

        Examples
        --------
        >>> from mdaml import Euclidean, PairVerifier
        >>> X, pairs = [[0.0], [1.0], [3.0], [7.0]], [[0, 1], [1, 2], [0, 3], [2, 3]]
        >>> verifier = PairVerifier(Euclidean().fit(X)).fit(X, pairs, [1, 1, -1, -1])
        >>> verifier.decision_function(X, pairs)
        array([ 2.,  1., -4., -1.])
        """
        check_is_fitted(self, "threshold_")
        return self.threshold_ - self._distances(X, pairs)

    def predict(self, X: ArrayLike, pairs: ArrayLike) -> IntArray:
        """Return 1 for pairs within the threshold (the same) and -1 for the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers of X.

        Returns
        -------
        decisions : array of shape (n_pairs,)
            1 or -1.

        Examples
        --------
        >>> from mdaml import Euclidean, PairVerifier
        >>> X, pairs = [[0.0], [1.0], [3.0], [7.0]], [[0, 1], [1, 2], [0, 3], [2, 3]]
        >>> verifier = PairVerifier(Euclidean().fit(X)).fit(X, pairs, [1, 1, -1, -1])
        >>> verifier.predict([[10.0], [11.0], [20.0]], [[0, 1], [0, 2]])
        array([ 1, -1])
        """
        return np.where(self.decision_function(X, pairs) >= 0, 1, -1)

    @available_if(lambda self: self.calibration is not None)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike, pairs: ArrayLike) -> FloatArray:
        """Return the probabilities that each pair is different and that it is the same.

        They assume that similar pairs are as frequent as among the pairs of ``fit``, and do not
        depend on the threshold. With ``calibration=None`` there is no such method.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers of X.

        Returns
        -------
        probabilities : array of shape (n_pairs, 2)
            Columns in the order of ``classes_``.

        Examples
        --------
        >>> from mdaml import Euclidean, PairVerifier
        >>> X, pairs = [[0.0], [1.0], [3.0], [7.0]], [[0, 1], [1, 2], [0, 3], [2, 3]]
        >>> verifier = PairVerifier(Euclidean().fit(X)).fit(X, pairs, [1, -1, -1, 1])
        >>> verifier.predict_proba(X, pairs)[:, 1].round(1)  # of being the same
        array([0.6, 0.6, 0.3, 0.5])
        """
        check_is_fitted(self, "threshold_")
        same = self._curve(self._distances(X, pairs))
        return np.column_stack([1.0 - same, same])

    def roc_curve(
        self, X: ArrayLike, pairs: ArrayLike, pair_labels: ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the rates of false and true accepts at all thresholds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers of X.
        pair_labels : array-like of shape (n_pairs,)
            1 for similar, -1 for dissimilar pairs; both kinds are needed.

        Returns
        -------
        false_accepts, true_accepts, thresholds : arrays of shape (n_thresholds,)
            From no pair accepted to all.

        Examples
        --------
        >>> from mdaml import Euclidean, PairVerifier
        >>> X, pairs = [[0.0], [1.0], [3.0], [7.0]], [[0, 1], [1, 2], [0, 3], [2, 3]]
        >>> false, true, thresholds = PairVerifier(Euclidean().fit(X)).roc_curve(
        ...     X, pairs, [1, -1, -1, 1]
        ... )
        >>> true[false == 0].max()  # share of similar pairs accepted without any false accept
        np.float64(0.5)
        """
        tradeoff = _count_accepted(*self._measure(X, pairs, pair_labels))
        return tradeoff.false_accepts, 1.0 - tradeoff.false_rejects, tradeoff.thresholds

    def score(self, X: ArrayLike, pairs: ArrayLike, pair_labels: ArrayLike) -> float:
        """Return the share of pairs decided correctly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers of X.
        pair_labels : array-like of shape (n_pairs,)
            1 for similar, -1 for dissimilar pairs; one kind is enough.

        Returns
        -------
        score : float
            Between 0 and 1.

        Examples
        --------
        >>> from mdaml import Euclidean, PairVerifier
        >>> X, pairs = [[0.0], [1.0], [3.0], [7.0]], [[0, 1], [1, 2], [0, 3], [2, 3]]
        >>> verifier = PairVerifier(Euclidean().fit(X)).fit(X, pairs, [1, 1, -1, -1])
        >>> verifier.score(X, [[0, 1], [0, 2]], [1, -1])
        0.5
        """
        check_is_fitted(self, "threshold_")
        distances, same = self._measure(X, pairs, pair_labels)
        return float(np.mean((distances <= self.threshold_) == same))

    def _check_parameters(self) -> None:
        if isinstance(self.threshold, str):
            check_choice(self, "threshold", self.threshold, _RULES, why=" Or pass a distance.")
        else:
            why = f" Or one of {', '.join(map(repr, _RULES))}."
            check_number(self, "threshold", self.threshold, 0.0, why=why)
        check_number(self, "beta", self.beta, 0.0, strict=True)
        check_choice(self, "calibration", self.calibration, ["sigmoid", "isotonic", None])
        if not isinstance(self.cost, tuple | list) or len(self.cost) != 2:
            raise ValueError(
                "PairVerifier(cost=...) must be two numbers, the costs of a false accept and of a "
                f"false reject; got {self.cost!r}."
            )
        for value in self.cost:
            check_number(self, "cost", value, 0.0)

    def _distances(self, X: ArrayLike, pairs: ArrayLike) -> FloatArray:
        return self._measure(X, pairs, np.ones(np.shape(pairs)[:1]))[0]

    def _measure(
        self, X: ArrayLike, pairs: ArrayLike, pair_labels: ArrayLike
    ) -> tuple[FloatArray, BoolArray]:
        """Return the distances of the pairs, and which of the pairs are labelled as similar."""
        if not hasattr(self.metric, "transform"):
            raise TypeError(
                "PairVerifier(metric=...) must be a fitted metric, such as MDaML or GMML, or a "
                f"pipeline that ends in one; got {type(self.metric).__name__}, without transform."
            )
        check_is_fitted(
            self.metric,
            msg="PairVerifier(metric=...) must be fitted first, because the verifier only sets a "
            "threshold. Call metric.fit, then PairVerifier(metric).fit.",
        )
        Y = np.asarray(self.metric.transform(X), dtype=np.float64)
        rows, same = check_pairs(pairs, pair_labels, len(Y), get_index(X))
        return np.linalg.norm(Y[rows[:, 0]] - Y[rows[:, 1]], axis=1), same

    def __sklearn_clone__(self) -> "PairVerifier":
        """Share the fitted metric: an unfitted copy of it could not be used."""
        return type(self)(**self.get_params(deep=False))


def _count_accepted(distances: FloatArray, same: BoolArray) -> Tradeoff:
    """Return the counts at all thresholds; both kinds of pairs are needed."""
    if same.all() or not same.any():
        raise ValueError(
            f"PairVerifier needs similar and dissimilar pairs, got {int(same.sum())} and "
            f"{int((~same).sum())}."
        )
    return Tradeoff.from_distances(distances, same)

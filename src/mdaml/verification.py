"""Same or different: decisions and probabilities for pairs, by a learned distance."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_choice, check_number
from mdaml.constraints.checks import check_pairs

_RULES = ["eer", "cost", "fbeta"]


@dataclass(frozen=True)
class Tradeoff:
    """Pairs taken for the same at every threshold worth telling apart, lowest first.

    Thresholds lie midway between neighbouring distances; the first is below all, the last is the
    largest distance.
    """

    thresholds: FloatArray  # (m,)
    accepted_same: FloatArray  # (m,) similar pairs within the threshold
    accepted_different: FloatArray  # (m,) dissimilar pairs within it
    n_same: int
    n_different: int

    @classmethod
    def from_distances(cls, distances: FloatArray, same: npt.NDArray[np.bool_]) -> "Tradeoff":
        """Count pairs by sorting their distances once."""
        values = np.unique(distances)
        middles = 0.5 * (values[1:] + values[:-1])
        thresholds = np.concatenate([[values[0] - 1.0], middles, values[-1:]])
        near, far = np.sort(distances[same]), np.sort(distances[~same])
        return cls(
            thresholds,
            np.searchsorted(near, thresholds, side="right").astype(np.float64),
            np.searchsorted(far, thresholds, side="right").astype(np.float64),
            len(near),
            len(far),
        )

    @property
    def false_accepts(self) -> FloatArray:
        """Share of dissimilar pairs taken for the same."""
        return self.accepted_different / self.n_different

    @property
    def false_rejects(self) -> FloatArray:
        """Share of similar pairs taken for different."""
        return 1.0 - self.accepted_same / self.n_same

    def equal_error(self) -> tuple[float, float]:
        """Return where the two rates of error are closest, and their mean there."""
        gap = np.abs(self.false_accepts - self.false_rejects)
        best = int(np.argmin(gap))
        rate = 0.5 * (self.false_accepts[best] + self.false_rejects[best])
        return float(self.thresholds[best]), float(rate)

    def lowest_cost(self, cost: tuple[float, float]) -> float:
        """Return the threshold with the lowest sum of costs: of false accepts, false rejects."""
        missed = self.n_same - self.accepted_same
        return float(
            self.thresholds[np.argmin(cost[0] * self.accepted_different + cost[1] * missed)]
        )

    def best_f(self, beta: float) -> float:
        """Return the threshold with the highest F-beta of the similar pairs."""
        missed = self.n_same - self.accepted_same
        weighed = (1 + beta**2) * self.accepted_same
        f = weighed / (weighed + beta**2 * missed + self.accepted_different)
        return float(self.thresholds[np.argmax(f)])


class PairVerifier(BaseEstimator):
    """Decide whether two points are the same, by a learned distance and a threshold.

    Threshold and probabilities are set from labelled pairs; the metric is left as it is. Use pairs
    that the metric was not fitted to: on its own pairs the errors are too few.

    Parameters
    ----------
    metric : fitted estimator
        Any metric of this library, fitted, or a pipeline that ends in one. Copies of the verifier,
        as :func:`sklearn.base.clone` makes them, share it.
    threshold : {"eer", "cost", "fbeta"} or float, default="eer"
        Pairs within this distance are the same. Chosen on the pairs of ``fit`` so that both rates
        of error are equal, that the errors cost least, or that the F-beta of similar pairs is
        highest; the lowest such threshold. Or a distance.
    beta : float, default=1.0
        Of "fbeta": how many times recall is as important as precision.
    cost : (float, float), default=(1.0, 1.0)
        Of "cost": what a false accept costs (different, taken for the same), and a false reject.
    calibration : {"sigmoid", "isotonic", None}, default="sigmoid"
        How distances become probabilities: a logistic curve (Platt), any falling steps, which needs
        a thousand pairs or so, or not at all. Never does a larger distance get a higher
        probability of being the same.

    Attributes
    ----------
    threshold_ : float
        The distance in force.
    equal_error_rate_ : float
        Rate of error on the pairs of ``fit`` where false accepts and false rejects are equally
        frequent, whatever the threshold in force.
    classes_ : array
        ``[-1, 1]``: different, same.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml import GMML
    >>> from mdaml import PairVerifier
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

    def __init__(
        self,
        metric: Any,
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

    def fit(self, X: npt.ArrayLike, pairs: npt.ArrayLike, pair_labels: npt.ArrayLike) -> Self:
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
        distances, same = self._labelled(X, pairs, pair_labels)
        tradeoff = Tradeoff.from_distances(distances, same)
        at_equal, rate = tradeoff.equal_error()
        if not isinstance(self.threshold, str):
            threshold = float(self.threshold)
        elif self.threshold == "eer":
            threshold = at_equal
        elif self.threshold == "cost":
            threshold = tradeoff.lowest_cost(self.cost)
        else:
            threshold = tradeoff.best_f(float(self.beta))
        curve = _fit_curve(self.calibration, distances, same)
        self._curve, self.threshold_, self.equal_error_rate_ = curve, threshold, rate
        self.classes_ = np.array([-1, 1])
        return self

    def decision_function(self, X: npt.ArrayLike, pairs: npt.ArrayLike) -> FloatArray:
        """Return the threshold less the distance of each pair: at least 0 for the same.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers of X.

        Returns
        -------
        scores : array of shape (n_pairs,)
            The larger, the surer that the two are the same.

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

    def predict(self, X: npt.ArrayLike, pairs: npt.ArrayLike) -> IntArray:
        """Return 1 for pairs within the threshold, the same, and -1 for the others.

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
    def predict_proba(self, X: npt.ArrayLike, pairs: npt.ArrayLike) -> FloatArray:
        """Return the probabilities that each pair is different and that it is the same.

        They hold where similar pairs are as frequent as among the pairs of ``fit``. The threshold
        plays no part. Not there with ``calibration=None``.

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
        self, X: npt.ArrayLike, pairs: npt.ArrayLike, pair_labels: npt.ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the rates of false and of true accepts at all thresholds.

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
        >>> true[false == 0].max()  # found before the first error
        np.float64(0.5)
        """
        tradeoff = Tradeoff.from_distances(*self._labelled(X, pairs, pair_labels))
        return tradeoff.false_accepts, 1.0 - tradeoff.false_rejects, tradeoff.thresholds

    def score(self, X: npt.ArrayLike, pairs: npt.ArrayLike, pair_labels: npt.ArrayLike) -> float:
        """Return the share of pairs decided rightly.

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
        decided = self.predict(X, pairs)
        check_pairs(pairs, pair_labels, int(np.max(np.asarray(pairs))) + 1)
        return float(np.mean(decided == np.asarray(pair_labels)))

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

    def _labelled(
        self, X: npt.ArrayLike, pairs: npt.ArrayLike, pair_labels: npt.ArrayLike
    ) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Return distances of pairs, and which are similar; both kinds must be there."""
        distances = self._distances(X, pairs)
        check_pairs(pairs, pair_labels, int(np.max(np.asarray(pairs))) + 1)
        same = np.asarray(pair_labels) > 0
        if same.all() or not same.any():
            raise ValueError(
                f"PairVerifier needs similar and dissimilar pairs, got {int(same.sum())} and "
                f"{int((~same).sum())}."
            )
        return distances, same

    def _distances(self, X: npt.ArrayLike, pairs: npt.ArrayLike) -> FloatArray:
        if not hasattr(self.metric, "transform"):
            raise TypeError(
                "PairVerifier(metric=...) must be a fitted metric, such as MDaML or GMML, or a "
                f"pipeline that ends in one; got {type(self.metric).__name__}, without transform."
            )
        check_is_fitted(
            self.metric,
            msg="PairVerifier(metric=...) must be fitted first: the verifier sets a threshold and "
            "leaves the metric as it is. Call metric.fit, then PairVerifier(metric).fit.",
        )
        Y = np.asarray(self.metric.transform(X), dtype=np.float64)
        i, j = check_pairs(pairs, np.ones(len(np.asarray(pairs))), len(Y))[0].T
        return np.linalg.norm(Y[i] - Y[j], axis=1)

    def __sklearn_clone__(self) -> "PairVerifier":
        """Share the fitted metric: a copy that forgot it could not be used."""
        return type(self)(**self.get_params(deep=False))


@dataclass(frozen=True)
class SigmoidCurve:
    """Probability of being the same as a logistic function that never rises with distance."""

    slope: float  # at most 0
    intercept: float

    @classmethod
    def fit(cls, distances: FloatArray, same: npt.NDArray[np.bool_]) -> "SigmoidCurve":
        """Platt's fit, to targets drawn in a little so that parted pairs leave a finite slope."""
        n_same, n_different = int(same.sum()), int((~same).sum())
        target = np.where(same, (n_same + 1) / (n_same + 2), 1 / (n_different + 2))
        spread = float(distances.std()) or 1.0
        middle = float(distances.mean())
        column = ((distances - middle) / spread)[:, None]
        # Each pair counts as both answers, in the proportion of its target.
        model = LogisticRegression(C=1e6, tol=1e-8, max_iter=1000)
        model.fit(
            np.concatenate([column, column]),
            np.repeat([1, 0], len(column)),
            sample_weight=np.concatenate([target, 1 - target]),
        )
        slope = float(model.coef_[0, 0]) / spread
        if slope >= 0:  # distance tells nothing, or the opposite
            return cls(0.0, float(np.log(target.mean() / (1 - target.mean()))))
        return cls(slope, float(model.intercept_[0]) - slope * middle)

    def __call__(self, distances: FloatArray) -> FloatArray:
        """Return the probability that pairs at these distances are the same."""
        return 0.5 * (1.0 + np.tanh(0.5 * (self.slope * distances + self.intercept)))


def _fit_curve(kind: str | None, distances: FloatArray, same: npt.NDArray[np.bool_]) -> Any:
    if kind is None:
        return None
    if kind == "sigmoid":
        return SigmoidCurve.fit(distances, same)
    steps = IsotonicRegression(y_min=0, y_max=1, increasing=False, out_of_bounds="clip")
    return steps.fit(distances, same.astype(np.float64)).predict

"""Learners that see centred samples and checked supervision, and return a linear map."""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator

from mdaml._progress import report, show
from mdaml._typing import ArrayLike, FloatArray, IntArray, Matrix, Params
from mdaml._validation import check_magnitude
from mdaml.constraints.arguments import EVERY_FORM, Supervision, check_supervision, persons_of
from mdaml.constraints.labels import Classes
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators.base import MahalanobisTransformer
from mdaml.kernels.products import one_blas_thread


class WeakLearner(MahalanobisTransformer, ABC):
    """A learner from labels, or from any mixture of triplets, pairs and quadruplets."""

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
        who: ArrayLike | None = None,
        **unsupported: object,
    ) -> Self:
        """Learn the metric from labels, or from any of triplets, pairs and quadruplets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples; single precision stays single. Sparse arrays in GMML and KISSME only.
        y : array-like of shape (n_samples,), optional
            Class labels; ``-1`` marks unlabelled rows.
        triplets : array-like of shape (n_triplets, 3), optional
            Rows of X: ``X[t[0]]`` is closer to ``X[t[1]]`` than to ``X[t[2]]``. Here and below,
            names instead, if X is a data frame with these in its index.
        pairs : array-like of shape (n_pairs, 2), optional
            Rows of X.
        pair_labels : array-like of shape (n_pairs,), optional
            1 for similar, -1 or 0 for dissimilar pairs.
        quadruplets : array-like of shape (n_quadruplets, 4), optional
            Rows of X: ``X[q[0]]`` and ``X[q[1]]`` are closer than ``X[q[2]]`` and ``X[q[3]]``.
        constraints : Constraints, optional
            Triplets, pairs, quadruplets and their weights in one value, instead of the arrays.
            If it has ids and X names in its index, they are matched by name.
        constraint_weight : array-like of shape (n_constraints,), optional
            Positive weights of the triplets, pairs and quadruplets, in this order: 2 counts like a
            constraint given twice. Only their ratios matter.
        who : array-like of shape (n_comparisons,), optional
            Who gave each answer: a string or integer for each triplet and quadruplet, in this
            order; or the name of a column of ``constraints``. The share of wrong answers of each
            person is then estimated together with the metric, and answers count by the log odds
            that they are right; see ``persons_``. Only MDaML, MDaMLCV and LocalMDaML, without
            pairs.
        **unsupported : object
            Anything else is refused by name.

        Returns
        -------
        self : object
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import MDaML
        >>> from mdaml.datasets import make_triplets
        >>> X = np.random.default_rng(0).normal(size=(200, 4))
        >>> T, _ = make_triplets(X, n_triplets=2000, components=np.eye(4)[:1], random_state=0)
        >>> metric = MDaML().fit(X, triplets=T)
        >>> metric.score_triplets(X, T) > 0.95
        True
        """
        with show(self):
            report("reading")
            samples, supervision = check_supervision(
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
            self._fit(
                X, samples, supervision, None if who is None else persons_of(supervision, who)
            )
        return self

    @abstractmethod
    def _fit(
        self, X: ArrayLike, samples: FloatArray, supervision: Supervision, persons: Persons | None
    ) -> None:
        """Learn from checked samples and supervision; X is what was passed, with its names."""


class PairLearner(WeakLearner):
    """A learner from pairs: those of triplets and quadruplets count, labels stand for their pairs.

    The near pair of a triplet or quadruplet is taken for similar, the far pair for dissimilar.
    """

    sorted_by_class: ClassVar[bool] = False  # how samples with labels come

    def _fit(
        self, X: ArrayLike, samples: FloatArray, supervision: Supervision, persons: Persons | None
    ) -> None:
        if persons is not None:
            raise TypeError(f"{type(self).__name__} does not weigh persons; got who=. MDaML does.")
        rows = None
        if self.sorted_by_class and isinstance(supervision, Classes):
            rows = supervision.rows
        _fit_centred(self, X, samples, supervision, rows)

    @abstractmethod
    def _check_parameters(self, n_features: int) -> None: ...

    @abstractmethod
    def _learn(self, X: FloatArray, supervision: Supervision) -> tuple[FloatArray, Params]:
        """Return components and further attributes for centred samples in double precision.

        Those of classes are in the order of their places where ``sorted_by_class`` says so.
        """


class LabelLearner(MahalanobisTransformer, ABC):
    """A learner from class labels only."""

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **unsupported: object) -> Self:
        """Learn the metric from labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, dense.
        y : array-like of shape (n_samples,)
            Class labels; ``-1`` marks unlabelled rows, which are left out.
        **unsupported : object
            Other supervision, such as triplets or pairs, is refused with advice.

        Returns
        -------
        self : object
            The fitted estimator.

        Examples
        --------
        >>> from mdaml import LMNN
        >>> from mdaml.datasets import load_dataset
        >>> X, y = load_dataset("balance", return_X_y=True)
        >>> LMNN().fit(X, y).components_.shape
        (4, 4)
        """
        with show(self):
            report("reading")
            samples, classes = check_supervision(self, ("y",), X, y, **unsupported)
            assert isinstance(classes, Classes)
            self._fit(X, samples, classes)
        return self

    def _fit(self, X: ArrayLike, samples: FloatArray, classes: Classes) -> None:
        """Learn from checked samples and labels; X is what was passed, with its names."""
        _fit_centred(self, X, samples, classes, classes.rows)

    @abstractmethod
    def _check_parameters(self, n_features: int) -> None: ...

    @abstractmethod
    def _learn(self, X: FloatArray, classes: Classes) -> tuple[FloatArray, Params]:
        """Return components and further attributes for samples sorted by class.

        They are centred, in double precision and in the order of the places of the classes.
        """


def _fit_centred(
    model: BaseEstimator,
    X: ArrayLike,
    samples: Matrix,
    supervision: Supervision,
    rows: IntArray | None,
) -> None:
    """Learn from centred samples, or from some of their rows, and store what was learned."""
    model._check_parameters(samples.shape[1])
    with one_blas_thread():
        centred, largest = _centred(samples, rows)
        components, fitted = model._learn(centred, supervision)
    _check_mapped(samples, components, largest)
    model._store(X, components, samples.dtype, **fitted)


def _centred(samples: Matrix, rows: IntArray | None) -> tuple[Matrix, float]:
    """Return samples, or some of their rows, less their mean; and a bound of all absolute values.

    In double precision: scatter matrices need it. Sparse samples are not centred: without their
    zeros they would be dense.
    """
    if issparse(samples):
        chosen = samples if rows is None else samples[rows]
        return csr_array(chosen, dtype=np.float64), check_magnitude(samples)
    shifted: FloatArray = samples if rows is None else np.take(samples, rows, axis=0)
    # A product with ones: sums of columns row by row take five times as long.
    mean = (np.ones(len(shifted)) @ shifted) / len(shifted)
    in_place = shifted is not samples and shifted.dtype == np.float64
    # Rounding sees translations.
    shifted = np.subtract(shifted, mean, out=shifted if in_place else None, order="C")
    bound = check_magnitude(shifted) + float(np.abs(mean).max())
    return shifted, bound if len(shifted) == len(samples) else np.inf


def _check_mapped(samples: Matrix, components: FloatArray, at_most: float) -> None:
    """Refuse a map after which the samples would overflow in their precision.

    ``at_most`` is a bound of their absolute values; mostly it is enough.
    """
    limit, length = float(np.finfo(samples.dtype).max), float(np.abs(components).sum(axis=1).max())
    if at_most * length <= limit:
        return
    largest = max(float(samples.max()), -float(samples.min()))
    if largest * length > limit:
        raise ValueError(
            f"X has values up to {largest:.1e}, which overflow in {samples.dtype} when the learned "
            "map is applied. Scale the features, for instance by StandardScaler."
        )

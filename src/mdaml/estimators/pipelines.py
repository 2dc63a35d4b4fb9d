"""Pipelines that end in a metric as one model, which can be saved and exported."""

from collections.abc import Sequence
from copy import deepcopy
from typing import NoReturn

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import ArrayLike, FloatArray, Params
from mdaml.estimators.base import MahalanobisTransformer, distances_after
from mdaml.estimators.folding import (
    OF_COLUMNS,
    check_step,
    fold_columns,
    fold_steps,
    list_metrics,
    refuse,
)
from mdaml.estimators.linear_steps import LINEAR, Affine, apply_step, pull_back
from mdaml.estimators.local import LocalMDaML


def fold_pipeline(pipeline: Pipeline) -> BaseEstimator:
    """Turn a fitted pipeline that ends in a metric into one model, which takes samples as they are.

    The model has ``save``, ``embed``, ``to_faiss``, ``to_onnx``, ``to_torch`` and the scores. Its
    distances are those of the pipeline. Mapped samples differ from those of the pipeline by one
    shift, the same for all.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted. Steps before the metric are ``SimpleImputer``, ``OneHotEncoder``,
        ``OrdinalEncoder``, ``ColumnTransformer`` and ``FeatureUnion``; then ``StandardScaler``,
        ``MinMaxScaler``, ``MaxAbsScaler``, ``RobustScaler``, ``PCA``, ``TruncatedSVD`` and
        ``Normalizer``, in any order and number; all but ``Normalizer`` also inside of those.

    Returns
    -------
    model : estimator
        A copy of the metric with other ``components_``; the pipeline stays as it is. Scaling and
        principal components are linear, up to that shift. With a ``Normalizer``, which is not, a
        :class:`FoldedMetric`. What imputers and encoders do is in ``preparation_``, and the model
        takes the same tables as the pipeline.

    See Also
    --------
    load : Reads a saved model back.
    MahalanobisMetric : The metric as a function of two points.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from mdaml import LFDA, fold_pipeline
    >>> from mdaml.datasets import load_dataset
    >>> X, y = load_dataset("balance", return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), PCA(3), LFDA()).fit(X, y)
    >>> model = fold_pipeline(pipeline)
    >>> model.components_.shape
    (3, 4)
    >>> shift = model.transform(X) - pipeline.transform(X)
    >>> bool(np.allclose(shift, shift[0]))
    True
    """
    if not isinstance(pipeline, Pipeline):
        raise TypeError(f"fold_pipeline needs a Pipeline, got {type(pipeline).__name__}.")
    *steps, metric = _list_steps(pipeline)
    if not isinstance(metric, MahalanobisTransformer):
        raise TypeError(
            "The last step of the pipeline must be a metric of mdaml, such as MDaML(); got "
            f"{type(metric).__name__}. Of a pipeline with a classifier pass pipeline[:-1]."
        )
    check_is_fitted(metric, "components_")
    names, known = getattr(pipeline, "feature_names_in_", None), None
    n_columns = max(
        (n for n, step in enumerate(steps, 1) if isinstance(step, OF_COLUMNS)), default=0
    )
    if n_columns:
        known, linear = fold_columns(steps[:n_columns], names)
        steps, names = [linear, *steps[n_columns:]], known.features
    for step in steps:
        if not isinstance(step, (*LINEAR, Affine, Normalizer)):
            raise refuse(step)
        if not isinstance(step, Affine):
            check_step(step)
    norms = [n for n, step in enumerate(steps) if isinstance(step, Normalizer)]
    if norms and isinstance(metric, LocalMDaML) and not metric.is_linear:
        raise TypeError(
            "A Normalizer cannot be folded into a LocalMDaML with places or maps: StandardScaler, "
            "PCA and TruncatedSVD can. Normalise X first, and fold the rest of the pipeline."
        )
    model = _with_front(metric, steps, norms) if norms else fold_steps(deepcopy(metric), steps)
    for each in list_metrics(model):
        if names is not None:
            each.feature_names_in_ = np.array(names, dtype=object)
        if known is not None:
            each.preparation_ = known.to_dict()
    return model


def _list_steps(pipeline: Pipeline) -> list[BaseEstimator]:
    """Return the steps of a pipeline, with those of pipelines inside of it."""
    steps = list[BaseEstimator]()
    for _, step in pipeline.steps:
        if isinstance(step, Pipeline):
            steps += _list_steps(step)
        elif step is not None and not isinstance(step, str):
            steps.append(step)
    return steps


def _with_front(
    metric: BaseEstimator, steps: Sequence[BaseEstimator], norms: list[int]
) -> "FoldedMetric":
    """Return steps up to the last that is not linear, and a linear map after it."""
    front, begin, width = [], 0, steps[0].n_features_in_
    for place in norms:
        matrix: FloatArray = np.eye(steps[place].n_features_in_)
        offset: FloatArray = np.zeros((1, width))
        for step in reversed(steps[begin:place]):
            matrix = pull_back(step, matrix)
        for step in steps[begin:place]:
            offset = apply_step(step, offset)
        is_plain = begin == place
        front.append(
            {
                "matrix": None if is_plain else matrix.astype(np.float64),
                "offset": None if is_plain else np.asarray(offset, np.float64).ravel(),
                "norm": steps[place].norm,
            }
        )
        begin, width = place + 1, steps[place].n_features_in_
    L = metric.components_
    for step in reversed(steps[begin:]):
        L = pull_back(step, L)
    model = FoldedMetric()
    model.components_ = L.astype(metric.components_.dtype)
    model.front_ = front
    model.n_features_in_ = steps[0].n_features_in_
    return model


class FoldedMetric(MahalanobisTransformer):
    """A metric behind steps that bring rows to unit length; made by :func:`fold_pipeline`.

    The distance is Euclidean after ``transform``, as for any metric here, but no Mahalanobis
    distance of X. Modes of the metric are not kept.

    Attributes
    ----------
    components_ : array of shape (n_components, n_inner)
        The linear map of what the steps return.
    front_ : list of dict
        Steps, in their order: ``x -> (matrix x + offset) / norm``, with ``norm`` one of "l1", "l2"
        and "max"; ``matrix`` and ``offset`` may be None.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    fold_pipeline : Makes it.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> from mdaml import LFDA, fold_pipeline
    >>> from mdaml.datasets import load_dataset
    >>> X, y = load_dataset("balance", return_X_y=True)
    >>> pipeline = make_pipeline(Normalizer(), LFDA()).fit(X, y)
    >>> bool((fold_pipeline(pipeline).transform(X) == pipeline.transform(X)).all())
    True
    """

    front_: list[Params]
    n_features_in_: int

    def fit(self, X: ArrayLike | None = None, y: object = None, **fit_params: object) -> NoReturn:
        """Refuse: the pipeline is what learns.

        Parameters
        ----------
        X, y : object
            Not used.
        **fit_params : object
            Not used.

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import Normalizer
        >>> from mdaml import Euclidean, fold_pipeline
        >>> X = [[3.0, 4.0], [0.0, 2.0]]
        >>> model = fold_pipeline(make_pipeline(Normalizer(), Euclidean()).fit(X))
        >>> model.fit(X)
        Traceback (most recent call last):
        TypeError: A FoldedMetric does not learn. Fit the pipeline, then fold_pipeline(it).
        """
        del X, y, fit_params
        raise TypeError("A FoldedMetric does not learn. Fit the pipeline, then fold_pipeline(it).")

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
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import Normalizer
        >>> from mdaml import Euclidean, fold_pipeline
        >>> X = [[3.0, 4.0], [0.0, 2.0]]
        >>> model = fold_pipeline(make_pipeline(Normalizer(), Euclidean()).fit(X))
        >>> model.pair_distance([[3.0, 4.0]], [[6.0, 8.0]])
        array([0.])
        """
        return distances_after(self.transform, A, B)

    def _require_linear(self, name: str) -> None:
        if not name.startswith("to_"):  # exports have the steps inside
            raise TypeError(
                "A metric behind a Normalizer is no Mahalanobis distance of X. Take pair_distance."
            )

    def _front(self, X: FloatArray) -> FloatArray:
        for step in self.front_:
            if step["matrix"] is not None:
                X = X @ step["matrix"].T.astype(X.dtype) + step["offset"].astype(X.dtype)
            X = Normalizer(norm=step["norm"]).transform(X)
        return X

    def _map(self, X: FloatArray) -> FloatArray:
        return super()._map(self._front(X))

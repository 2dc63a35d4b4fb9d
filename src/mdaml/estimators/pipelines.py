"""Pipelines that end in a metric as one model, which can be saved and exported."""

import os
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NoReturn

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import ArrayLike, FloatArray
from mdaml.estimators.base import MahalanobisTransformer
from mdaml.estimators.local import LocalMDaML
from mdaml.estimators.local_basis import put_behind
from mdaml.io import export


def fold_pipeline(pipeline: Pipeline) -> Any:
    """Return a fitted pipeline that ends in a metric as one model of samples as they are.

    So ``save``, ``embed``, ``to_faiss``, ``to_onnx``, ``to_torch`` and the scores are there for the
    whole pipeline. Distances are those of the pipeline; mapped samples differ from those of the
    pipeline by one shift, the same for all.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted. Steps before the metric are ``StandardScaler``, ``PCA``, ``TruncatedSVD`` and
        ``Normalizer``, in any order and number.

    Returns
    -------
    model : estimator
        A copy of the metric with other ``components_``; the pipeline stays as it is. Scaling and
        principal components are linear, up to that shift. With a ``Normalizer``, which is not, a
        :class:`FoldedMetric`.

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
    *steps, metric = [step for _, step in pipeline.steps if step not in (None, "passthrough")]
    if not isinstance(metric, MahalanobisTransformer):
        raise TypeError(
            "The last step of the pipeline must be a metric of mdaml, such as MDaML(); got "
            f"{type(metric).__name__}. Of a pipeline with a classifier pass pipeline[:-1]."
        )
    check_is_fitted(metric, "components_")
    for step in steps:
        check_is_fitted(step)
        if not isinstance(step, StandardScaler | PCA | TruncatedSVD | Normalizer):
            raise TypeError(
                f"{type(step).__name__} cannot be folded into a metric: StandardScaler, PCA, "
                "TruncatedSVD and Normalizer can. Apply it to X first, and fold the rest of the "
                "pipeline."
            )
    norms = [n for n, step in enumerate(steps) if isinstance(step, Normalizer)]
    if norms and isinstance(metric, LocalMDaML) and not metric.is_linear:
        raise TypeError(
            "A Normalizer cannot be folded into a LocalMDaML with places or maps: StandardScaler, "
            "PCA and TruncatedSVD can. Normalise X first, and fold the rest of the pipeline."
        )
    model = _with_front(metric, steps, norms) if norms else fold_steps(deepcopy(metric), steps)
    if hasattr(pipeline, "feature_names_in_"):
        for each in list_metrics(model):
            each.feature_names_in_ = pipeline.feature_names_in_
    return model


def fold_steps(model: Any, steps: Sequence[Any]) -> Any:
    """Turn a model of scaled and rotated samples into one of samples as they are, in place.

    For the map L of scaled samples, ``L diag(1/scale)`` gives raw samples the same distances, which
    do not depend on the means; for that of principal components V it is ``L V``. Centres of modes
    go back to where the samples are; weights in the modes depend on distances only and stay.
    ``input_map_`` keeps the map to what the metric was fitted to, so that it can be fitted again.
    """
    for metric in list_metrics(model):
        if isinstance(metric, LocalMDaML) and not metric.is_linear:
            width = len(metric.mean_) if metric.front_matrix_ is None else len(metric.front_matrix_)
            metric.input_map_ = _input_map(metric, steps, width)
            matrix: FloatArray = np.eye(metric.n_features_in_)
            for step in reversed(steps):
                matrix = _pull_back(step, matrix)
            put_behind(metric, steps, matrix)
            continue
        L = metric.components_
        centers = getattr(metric, "centers_", None)
        centers = None if isinstance(metric, LocalMDaML) else centers
        with np.errstate(over="ignore"):  # no model is saved that is not finite
            for step in reversed(steps):
                metric.components_ = _pull_back(step, metric.components_)
                centers = None if centers is None else step.inverse_transform(centers)
            metric.components_ = metric.components_.astype(L.dtype)
            metric.input_map_ = _input_map(metric, steps, L.shape[1])
        metric.n_features_in_ = metric.components_.shape[1]
        if centers is not None:
            metric.centers_ = np.asarray(centers).astype(metric.centers_.dtype)
        if isinstance(metric, LocalMDaML):  # without modes
            metric.mean_ = np.zeros(metric.n_features_in_)
            nothing = np.empty((0, metric.n_features_in_))
            metric.centers_ = metric.map_centers_ = metric.landmark_centers_ = nothing
    return model


def _input_map(metric: Any, steps: Sequence[Any], width: int) -> FloatArray:
    """Return the linear map from X to what the metric was fitted to, of shape (d,) if diagonal."""
    A: FloatArray = getattr(metric, "input_map_", np.ones(width))
    for step in reversed(steps):
        if A.ndim == 1 and not isinstance(step, StandardScaler):
            A = np.diag(A)
        A = _pull_back(step, A)
    return A


def list_metrics(model: Any) -> list[Any]:
    """Return the model, and the one that it chose, if it chooses."""
    best = getattr(model, "best_estimator_", None)
    return [model] if best is None else [model, best]


def _pull_back(step: Any, L: FloatArray) -> FloatArray:
    """Return the linear map of what goes into a step, given that of what comes out."""
    if isinstance(step, StandardScaler):
        return L if step.scale_ is None else L / step.scale_
    if isinstance(step, PCA) and step.whiten:
        L = L / np.sqrt(step.explained_variance_)
    return L @ step.components_


def _with_front(metric: Any, steps: Sequence[Any], norms: list[int]) -> "FoldedMetric":
    """Return steps up to the last that is not linear, and a linear map after it."""
    front, begin, width = [], 0, steps[0].n_features_in_
    for place in norms:
        matrix: FloatArray = np.eye(steps[place].n_features_in_)
        offset: FloatArray = np.zeros((1, width))
        for step in reversed(steps[begin:place]):
            matrix = _pull_back(step, matrix)
        for step in steps[begin:place]:
            offset = step.transform(offset)
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
        L = _pull_back(step, L)
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

    front_: list[dict[str, Any]]
    n_features_in_: int

    def fit(self, X: Any = None, y: Any = None, **fit_params: Any) -> NoReturn:
        """Refuse: the pipeline is what learns.

        Parameters
        ----------
        X, y : Any
            Not used.
        **fit_params : Any
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
        a, b = self.transform(A), self.transform(B)
        if a.shape != b.shape:
            raise ValueError(
                f"A and B must have as many rows, one pair per row, got {len(a)} and {len(b)}."
            )
        distances: FloatArray = np.linalg.norm(a - b, axis=1)
        return distances

    def get_mahalanobis_matrix(self) -> NoReturn:
        """Refuse: there is no such matrix.

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import Normalizer
        >>> from mdaml import Euclidean, fold_pipeline
        >>> X = [[3.0, 4.0], [0.0, 2.0]]
        >>> model = fold_pipeline(make_pipeline(Normalizer(), Euclidean()).fit(X))
        >>> model.get_mahalanobis_matrix()
        Traceback (most recent call last):
        TypeError: A metric behind a Normalizer is no Mahalanobis distance of X. Take pair_distance.
        """
        raise TypeError(
            "A metric behind a Normalizer is no Mahalanobis distance of X. Take pair_distance."
        )

    def get_metric(self) -> NoReturn:
        """Refuse: there is no such function; ``pair_distance`` takes many pairs at once.

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import Normalizer
        >>> from mdaml import Euclidean, fold_pipeline
        >>> X = [[3.0, 4.0], [0.0, 2.0]]
        >>> model = fold_pipeline(make_pipeline(Normalizer(), Euclidean()).fit(X))
        >>> model.get_metric()
        Traceback (most recent call last):
        TypeError: A metric behind a Normalizer is no Mahalanobis distance of X. Take pair_distance.
        """
        self.get_mahalanobis_matrix()

    def to_faiss(self, X: ArrayLike | None = None) -> Any:
        """Return a faiss index that takes vectors as they are; see :meth:`mdaml.MDaML.to_faiss`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or None
            Samples to add.

        Returns
        -------
        index : faiss.IndexPreTransform
            Steps and the map before a flat index; rows of length "l2" only.

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import Normalizer
        >>> from mdaml import Euclidean, fold_pipeline
        >>> X = [[3.0, 4.0], [0.0, 2.0]]
        >>> model = fold_pipeline(make_pipeline(Normalizer(), Euclidean()).fit(X))
        >>> import numpy as np
        >>> model.to_faiss(X).search(np.array([[6, 8]], dtype=np.float32), 1)[1]
        array([[0]])
        """
        inner = None if X is None else self._front(self._check(X))
        return export.make_faiss_index(self.components_, inner, front=self.front_)

    def to_onnx(self, path: str | os.PathLike[str] | None = None, *, dtype: Any = "float32") -> Any:
        """Return ``transform`` as an ONNX model; see :meth:`mdaml.MDaML.to_onnx`.

        Parameters
        ----------
        path : str or path or None
            A file to write as well.
        dtype : {"float32", "float64"} or dtype, default="float32"
            Of input and output.

        Returns
        -------
        model : onnx.ModelProto
            Its input is ``X`` of shape (any, n_features), its output ``embedding``.

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import Normalizer
        >>> from mdaml import Euclidean, fold_pipeline
        >>> X = [[3.0, 4.0], [0.0, 2.0]]
        >>> model = fold_pipeline(make_pipeline(Normalizer(), Euclidean()).fit(X))
        >>> [node.op_type for node in model.to_onnx().graph.node]
        ['ReduceL2', 'Max', 'Div', 'MatMul']
        """
        return export.make_onnx_model(self.components_, path, dtype=dtype, front=self.front_)

    def to_torch(self, *, dtype: Any = "float32") -> Any:
        """Return ``transform`` as a ``torch.nn.Sequential``, frozen.

        Parameters
        ----------
        dtype : {"float32", "float64"} or dtype of NumPy or torch, default="float32"
            Of the weights.

        Returns
        -------
        layers : torch.nn.Sequential
            The steps and the map.

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import Normalizer
        >>> from mdaml import Euclidean, fold_pipeline
        >>> X = [[3.0, 4.0], [0.0, 2.0]]
        >>> model = fold_pipeline(make_pipeline(Normalizer(), Euclidean()).fit(X))
        >>> model.to_torch()[-1]
        Linear(in_features=2, out_features=2, bias=False)
        """
        return export.make_torch_layer(self.components_, dtype=dtype, front=self.front_)

    def _front(self, X: FloatArray) -> FloatArray:
        for step in self.front_:
            if step["matrix"] is not None:
                X = X @ step["matrix"].T.astype(X.dtype) + step["offset"].astype(X.dtype)
            X = Normalizer(norm=step["norm"]).transform(X)
        return X

    def _map(self, X: FloatArray) -> FloatArray:
        return super()._map(self._front(X))

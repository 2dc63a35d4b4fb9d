"""What inspection reads from a fitted model: mapped samples, weights in the modes, names."""

from types import ModuleType

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml._validation import check_mapped
from mdaml.estimators.base import MahalanobisTransformer
from mdaml.estimators.local import LocalMDaML
from mdaml.estimators.local_handover import basis_of
from mdaml.estimators.pipelines import FoldedMetric


def fitted_metric(caller: str, model: BaseEstimator) -> BaseEstimator:
    """Return the fitted learner; of a search, the one it chose."""
    metric = getattr(model, "best_estimator_", model)
    if not isinstance(metric, MahalanobisTransformer):
        raise TypeError(
            f"{caller} needs a fitted metric of mdaml, such as MDaML or KISSME, or a fitted "
            f"search over them; got {type(metric).__name__}. Of a pipeline, pass its last step, "
            "and X as the steps before it transform it."
        )
    check_is_fitted(metric, "components_")
    return metric


def metric_and_samples(
    caller: str, model: BaseEstimator, X: ArrayLike
) -> tuple[BaseEstimator, ArrayLike]:
    """Return the fitted learner, and samples as it sees them: after other steps of a pipeline."""
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        X, model = model[:-1].transform(X), model[-1]
    metric = fitted_metric(caller, model)
    return metric, metric.prepare(X)


def require_pandas(caller: str) -> ModuleType:
    """Return pandas, or say which extra has it."""
    try:
        import pandas
    except ModuleNotFoundError:
        message = f'{caller} returns pandas objects: pip install "mdaml[cli]" installs pandas.'
        raise ModuleNotFoundError(message, name="pandas") from None
    return pandas


def mapped_samples(metric: BaseEstimator, X: ArrayLike) -> FloatArray:
    """Return samples under the learned map, in double precision."""
    Y: FloatArray = metric.transform(X).astype(np.float64)
    check_mapped(Y)
    return Y


def before_the_map(caller: str, metric: BaseEstimator, X: FloatArray) -> FloatArray:
    """Return samples as the linear map of the metric sees them, with one column for each feature.

    A metric behind steps that bring rows to unit length sees these rows. Where the steps mix
    features, as principal components do, no column is that of a feature.
    """
    if has_places(metric):
        columns = basis_of(metric).transform(metric._before(X))
        matrices = [] if metric.front_matrix_ is None else [metric.front_matrix_]
    elif isinstance(metric, FoldedMetric):
        columns = metric._front(X)
        matrices = [step["matrix"] for step in metric.front_ if step["matrix"] is not None]
    else:
        return X
    for matrix in matrices:
        if matrix.shape[0] != matrix.shape[1] or np.any(matrix != np.diag(np.diag(matrix))):
            raise TypeError(
                f"{caller} cannot tell features apart here: before the Normalizer or the places "
                "the pipeline mixes them, as PCA does, and no feature has a share of its own. Fold "
                "the steps behind PCA only, and pass what PCA returns."
            )
    return columns


def has_places(metric: BaseEstimator) -> bool:
    """Return whether a metric has places or maps for modes, and no one linear map."""
    return isinstance(metric, LocalMDaML) and not metric.is_linear


def split_columns(metric: LocalMDaML, parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what columns of a basis add up to for each feature, and for each mode with a place."""
    d = parts.shape[0] - metric.n_places_
    d //= 1 + metric.n_maps_
    of_modes = parts[d : d + metric.n_places_]
    inside = parts[d + metric.n_places_ :].reshape(metric.n_maps_, d)
    return parts[:d] + inside.sum(axis=0), of_modes


def mode_weights(
    caller: str, metric: BaseEstimator, Y: FloatArray, training_rows: bool | None
) -> FloatArray | None:
    """Return the weights of mapped samples in the modes, or None for a metric without modes.

    Those of the training rows were learned. Of other points they follow from the centres.
    """
    if not hasattr(metric, "centers_") or isinstance(metric, LocalMDaML):
        return None  # modes that have a place do not weigh comparisons
    if are_training_rows(caller, metric, Y, training_rows):
        return metric.weights_.astype(np.float64)
    centers = mapped_samples(metric, like_training(metric, metric.centers_))
    sq_dists = np.column_stack([np.sum((Y - center) ** 2, axis=1) for center in centers])
    return weights_from_centers(sq_dists, metric.eta_)


def are_training_rows(
    caller: str, metric: BaseEstimator, Y: FloatArray, training_rows: bool | None
) -> bool:
    """Return whether samples are the training rows: as the user says, else if as many."""
    weights = getattr(metric, "weights_", None)
    if isinstance(metric, LocalMDaML):
        weights = range(metric.n_samples_seen_)
    if weights is None:  # saved without what describes the training data
        if training_rows:
            raise ValueError(
                f"{caller}(training_rows=True) needs the weights of the training rows, but this "
                "model was saved without them. Leave training_rows out, or save it by "
                "save(path, compact=False)."
            )
        return False
    n_fitted = len(weights)
    if training_rows and len(Y) != n_fitted:
        raise ValueError(
            f"{caller}(training_rows=True) needs the X of fit, which had {n_fitted} rows; got "
            f"{len(Y)}. Leave training_rows out for other points."
        )
    return len(Y) == n_fitted if training_rows is None else training_rows


def weights_from_centers(sq_dists: FloatArray, eta: float) -> FloatArray:
    """Weights of points that no comparison names.

    As in Eq. (14), without its pair terms: ``w_ik ~ d2(x_i, c_k)**(-1/(eta-1))``. A point on a
    centre belongs to that mode alone.
    """
    lowest = sq_dists.min(axis=1, keepdims=True)
    at_center = (lowest == 0) & (sq_dists == 0)
    ratio = np.where(lowest == 0, 1.0, lowest) / np.where(sq_dists == 0, 1.0, sq_dists)
    shares = np.where(lowest == 0, at_center, ratio ** (1.0 / (eta - 1.0)))
    return shares / shares.sum(axis=1, keepdims=True)


def self_weights(metric: BaseEstimator, weights: FloatArray | None, pairs: IntArray) -> FloatArray:
    """How far the two members of each pair share their modes, between the floor and 1.

    ``sum_k (w_ik w_jk)**eta``, the weight of Eq. (6), over the geometric mean of the same sum for
    i with itself and j with itself: the cosine between the powers of their weights.
    """
    if weights is None:
        return np.ones(len(pairs))
    eta, floor = metric.eta_, metric.floor_
    powers = (weights / weights.max(axis=1, keepdims=True)) ** eta  # no underflow of all modes
    powers /= np.linalg.norm(powers, axis=1, keepdims=True)
    shared = np.einsum("ij,ij->i", powers[pairs[:, 0]], powers[pairs[:, 1]])
    return floor + (1.0 - floor) * np.clip(shared, 0.0, 1.0)


def feature_names(metric: BaseEstimator) -> list[str]:
    """Return the names of the features, or x0, x1, ... where X had none."""
    names = getattr(metric, "feature_names_in_", None)
    if names is None:
        return [f"x{n}" for n in range(metric.n_features_in_)]
    return [str(name) for name in names]


def like_training(metric: BaseEstimator, points: FloatArray) -> ArrayLike:
    """Return points in the form of X: with names where X had them, or transform warns."""
    if not hasattr(metric, "feature_names_in_"):
        return points
    pandas = require_pandas("A metric fitted to a data frame")
    return pandas.DataFrame(points, columns=metric.feature_names_in_)

"""Steps of pipelines that are a matrix and an offset."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from mdaml._typing import FloatArray

SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
LINEAR = (*SCALERS, PCA, TruncatedSVD)


class Affine:
    """A linear step ``x -> matrix x + offset``, as pipelines have them."""

    def __init__(self, matrix: FloatArray, offset: FloatArray) -> None:
        self.matrix, self.offset = matrix, offset
        self.n_features_in_ = matrix.shape[1]

    def transform(self, X: FloatArray) -> FloatArray:
        """Return what comes out of the step."""
        return apply_step(self, X)

    def inverse_transform(self, X: FloatArray) -> FloatArray:
        """Return what went in, the shortest if there are several."""
        return (X - self.offset) @ np.linalg.pinv(self.matrix).T


def linear_part(step: BaseEstimator) -> FloatArray:
    """Return the matrix of a linear step, of shape (n_features,) if it is diagonal."""
    n: int = step.n_features_in_
    if isinstance(step, MinMaxScaler):
        return np.asarray(step.scale_)
    if isinstance(step, SCALERS):
        return np.ones(n) if step.scale_ is None else 1 / np.asarray(step.scale_)
    if isinstance(step, Affine):
        return step.matrix
    whitened = isinstance(step, PCA) and step.whiten
    scale = np.sqrt(step.explained_variance_)[:, None] if whitened else 1.0
    return step.components_ / scale


def apply_step(step: BaseEstimator, X: FloatArray) -> FloatArray:
    """Return what comes out of a linear step; the step itself would ask for names of features."""
    matrix = linear_part(step)
    mapped = X * matrix if matrix.ndim == 1 else X @ matrix.T
    if isinstance(step, MinMaxScaler):
        return mapped + step.min_
    if isinstance(step, Affine):
        return mapped + step.offset
    center = getattr(step, "mean_" if isinstance(step, StandardScaler | PCA) else "center_", None)
    if center is None or not getattr(step, "with_mean", True):
        return mapped
    return mapped - (center * matrix if matrix.ndim == 1 else matrix @ center)


def pull_back(step: BaseEstimator, L: FloatArray) -> FloatArray:
    """Return the linear map of what goes into a step, given that of what comes out."""
    matrix = linear_part(step)
    return L * matrix if matrix.ndim == 1 else L @ matrix

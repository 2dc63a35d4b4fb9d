"""The map of LocalMDaML, and how it is handed over to other libraries."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import ArrayLike, FloatArray
from mdaml.basis import Basis, Gates
from mdaml.estimators.learners import WeakLearner
from mdaml.kernels.products import blocks

_ROWS_AT_ONCE = 8192  # that are mapped: their columns are wider than they are


class LocalHandover(WeakLearner):
    """A learner whose map is linear in the columns of a basis."""

    landmark_map_: FloatArray
    mean_: FloatArray
    n_places_: int
    n_maps_: int
    front_matrix_: FloatArray | None
    front_offset_: FloatArray | None

    def to_faiss(self, X: ArrayLike | None = None) -> Any:
        """Return a faiss index; with places or maps it takes what :meth:`embed` returns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or None
            Samples to add. None: an empty index.

        Returns
        -------
        index : faiss.Index
            Without places and maps that of :meth:`MDaML.to_faiss`, which takes samples as they are.
            Otherwise a flat index of embedded samples: pass ``model.embed(samples)`` to ``search``
            and ``add``. The distances it returns are squared.

        Examples
        --------
        >>> from mdaml import LocalMDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> model = LocalMDaML(n_places=8, n_maps=0).fit(X, y)
        >>> sq_dists, rows = model.to_faiss(X).search(model.embed(X[:1]), 2)
        >>> rows.shape
        (1, 2)
        """
        check_is_fitted(self, "components_")
        if self.is_linear:
            return super().to_faiss(X)
        from mdaml.io.export import import_extra

        index = import_extra("faiss").IndexFlatL2(self._n_features_out)
        if X is not None:
            index.add(self.embed(X))
        return index

    def to_onnx(self, path: str | os.PathLike[str] | None = None, *, dtype: Any = "float32") -> Any:
        """Return ``transform`` as an ONNX model; see :meth:`MDaML.to_onnx`.

        Parameters
        ----------
        path : str or path or None
            A file to write as well; it is replaced only once the new one is complete.
        dtype : {"float32", "float64"} or dtype, default="float32"
            Of input and output.

        Returns
        -------
        model : onnx.ModelProto
            Its input is ``X`` of shape (any, n_features), its output ``embedding``.

        Examples
        --------
        >>> from mdaml import LocalMDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> LocalMDaML(n_places=8, n_maps=0).fit(X, y).to_onnx().graph.output[0].name
        'embedding'
        """
        check_is_fitted(self, "components_")
        if self.is_linear:
            return super().to_onnx(path, dtype=dtype)
        from mdaml.io.places import make_onnx_places

        steps, known = self._places_map("to_onnx"), self._preparation()
        return make_onnx_places(steps, path, dtype=dtype, known=known)

    def to_torch(self, *, dtype: Any = "float32") -> Any:
        """Return ``transform`` as a module of torch, frozen; without places a linear layer.

        Parameters
        ----------
        dtype : {"float32", "float64"} or dtype of NumPy or torch, default="float32"
            Of the weights.

        Returns
        -------
        module : torch.nn.Module
            It maps rows to the learned space.

        Examples
        --------
        >>> import torch
        >>> from mdaml import LocalMDaML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> model = LocalMDaML(n_places=8, n_maps=0).fit(X, y)
        >>> mapped = model.to_torch()(torch.tensor(X).float()).numpy()
        >>> bool(abs(mapped - model.embed(X)).max() < 1e-3)
        True
        """
        check_is_fitted(self, "components_")
        if self.is_linear:
            return super().to_torch(dtype=dtype)
        from mdaml.io.places import make_torch_places

        steps, known = self._places_map("to_torch"), self._preparation()
        return make_torch_places(steps, dtype=dtype, known=known)

    def _places_map(self, name: str) -> Any:
        """Return all that transform does, for another library; maps are refused."""
        if self.n_maps_:
            self._require_linear(name)
        from mdaml.io.places import Closeness, PlacesMap

        basis, d = basis_of(self), len(self.mean_)
        modes = basis.modes()
        assert basis.landmarks is not None
        A, a = self.front_matrix_, self.front_offset_
        return PlacesMap(
            np.eye(d) if A is None else A,
            np.zeros(d) if a is None else a,
            Closeness(basis.landmarks.centers, basis.landmarks.width),
            self.landmark_map_,
            Closeness(modes.centers, modes.width),
            self.components_,
        )

    def _require_linear(self, name: str) -> None:
        """Refuse what only one linear map of the features can do."""
        check_is_fitted(self, "components_")
        if not self.is_linear:
            raise TypeError(
                f"{name} needs one linear map, but this LocalMDaML has {self.n_places_} places and "
                f"{self.n_maps_} maps. Use transform or embed, and Euclidean distance; or fit "
                "MDaML, or LocalMDaML(n_places=0, n_maps=0)."
            )

    @property
    def is_linear(self) -> bool:
        """Whether the learned distance is that of one linear map, without places and maps."""
        check_is_fitted(self, "components_")
        return self.n_places_ == 0 and self.n_maps_ == 0

    def _map(self, X: Any) -> FloatArray:
        if self.is_linear:
            return super()._map(X)
        basis, n = basis_of(self), X.shape[0]
        out = np.empty((n, len(self.components_)), X.dtype)
        for begin, end in blocks(0, n, _ROWS_AT_ONCE):
            rows = X[begin:end].toarray() if issparse(X) else X[begin:end]
            out[begin:end] = super()._map(basis.transform(self._before(rows)))
        return out

    def _before(self, X: FloatArray) -> FloatArray:
        """Return samples after the linear steps that were folded into the model, if any."""
        matrix = getattr(self, "front_matrix_", None)
        if matrix is None:
            return X
        mapped: FloatArray = X @ matrix.T + self.front_offset_
        return mapped.astype(X.dtype, copy=False)


def basis_of(model: Any) -> Basis:
    """Return the basis of a fitted model, of samples after the steps before it."""
    places = maps = landmarks = U = None
    if model.n_places_:
        places = Gates(model._before(model.centers_), model.width_)
        landmarks = Gates(model._before(model.landmark_centers_), model.landmark_width_)
        U = model.landmark_map_
    if model.n_maps_:
        maps = Gates(model._before(model.map_centers_), model.map_width_)
    return Basis(places, maps, landmarks, U, model._before(model.mean_[None])[0])


def _name_columns(step: Any, rows: FloatArray) -> ArrayLike:
    """Return rows as a step was fitted to: without the names that it has seen, it warns."""
    if not hasattr(step, "feature_names_in_"):
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=step.feature_names_in_)


def put_behind(model: Any, steps: Sequence[Any], matrix: FloatArray) -> None:
    """Let a model with places see samples after linear steps; its modes are given in those of X.

    ``matrix`` is the linear part of the steps, (n_before, n_features). Memberships do not depend on
    distances in X alone, so that the map on the basis stays as it is.
    """
    offset: FloatArray = np.zeros((1, steps[0].n_features_in_))
    for step in steps:
        offset = np.asarray(step.transform(_name_columns(step, offset)))
    front, before = model.front_matrix_, model.front_offset_
    model.front_offset_ = np.asarray(offset, np.float64).ravel()
    model.front_matrix_ = matrix
    if front is not None and before is not None:
        model.front_offset_ = front @ model.front_offset_ + before
        model.front_matrix_ = front @ matrix
    for name in ("centers_", "map_centers_", "landmark_centers_", "mean_"):
        value = np.atleast_2d(getattr(model, name)).astype(np.float64)
        if len(value) == 0:
            model.__dict__[name] = np.empty((0, matrix.shape[1]))
            continue
        for step in reversed(steps):
            value = np.asarray(step.inverse_transform(value))
        model.__dict__[name] = value[0] if name == "mean_" else value
    model.n_features_in_ = matrix.shape[1]

"""Saving a fitted metric, and exporting it to other libraries."""

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import FloatArray, IntArray, Matrix, Params

if TYPE_CHECKING:  # files and other libraries are loaded with the first model that is handed over
    from faiss import IndexPreTransform
    from onnx import ModelProto
    from torch.nn import Module

    from mdaml.io.export import MahalanobisMetric
    from mdaml.io.preparation import Preparation


class Handover(ABC):
    """Methods of a fitted metric that save or export it."""

    components_: FloatArray  # (n_components, d)

    @abstractmethod
    def _check(self, X: npt.ArrayLike) -> FloatArray:
        """Return samples like those of the fit, or raise an error that says what is wrong."""

    @abstractmethod
    def _map(self, X: FloatArray) -> FloatArray:
        """Return checked samples under the learned map."""

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """Entries of a mapped sample."""

    def _require_linear(self, name: str) -> None:  # noqa: ARG002
        """Refuse a method that takes one linear map, where there is none."""
        check_is_fitted(self, "components_")

    def prepare(self, X: Matrix) -> Matrix:
        """Return the features of a table like that of the fit.

        All other methods take such a table too. Empty cells, categories and columns that are left
        out are treated as ``mdaml fit`` or the steps of :func:`mdaml.fold_pipeline` treated those
        of the fit. ``preparation_`` says how; a model without it takes X as it is.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns)
            A table with the columns of the fit, found by their names. Arrays of numbers are taken
            for features if there are columns of categories.

        Returns
        -------
        features : array of shape (n_samples, n_features)
            X itself if there is nothing to prepare.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn.compose import make_column_transformer
        >>> from sklearn.impute import SimpleImputer
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import OneHotEncoder
        >>> from mdaml import Euclidean, fold_pipeline
        >>> table = pd.DataFrame({"mass": [3.0, None, 5.0], "sex": ["f", "m", "f"]})
        >>> steps = make_column_transformer(
        ...     (SimpleImputer(), ["mass"]), (OneHotEncoder(sparse_output=False), ["sex"])
        ... )
        >>> model = fold_pipeline(make_pipeline(steps, Euclidean()).fit(table))
        >>> model.prepare(table)
        array([[3., 1., 0.],
               [4., 0., 1.],
               [5., 1., 0.]])
        """
        known = self._preparation()
        if known is None:
            return X
        names = getattr(X, "column_names", getattr(X, "columns", None))
        if names is not None:
            is_prepared = known.categories and list(names) == list(known.features)
            return X if is_prepared else known.apply(X)
        array = X if hasattr(X, "dtype") else np.asarray(X)
        are_features = array.dtype.kind in "fiub" and known.categories
        return X if are_features or issparse(array) else known.apply(array)

    def _front(self, X: FloatArray) -> FloatArray:
        """Return checked samples after the steps before the map; there are none but folded ones."""
        return X

    def _steps(self) -> list[Params]:
        return getattr(self, "front_", [])

    def _preparation(self) -> "Preparation | None":
        """Return how columns of a table become features, if the model knows."""
        plain = getattr(self, "preparation_", None)
        if plain is None:
            return None
        from mdaml.io.preparation import Preparation

        return Preparation.from_dict(plain)

    def neighbors(
        self, X: npt.ArrayLike, queries: npt.ArrayLike | None = None, *, k: int = 10
    ) -> tuple[FloatArray, IntArray]:
        """Return the nearest rows of X under the learned distance.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Where to look.
        queries : data frame or array-like of shape (n_queries, n_features) or None
            What to look for. None: every row of X, among the others.
        k : int, default=10
            Number of neighbours; all rows if there are fewer.

        Returns
        -------
        distances : array of shape (n_queries, k)
            Nearest first.
        rows : array of shape (n_queries, k)
            Rows of X; ties go to the earlier one.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> model = Euclidean().fit([[0.0, 1.0], [2.0, 3.0]])
        >>> model.neighbors([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], [[0.0, 0.0]], k=2)
        (array([[0., 1.]]), array([[0, 2]]))
        """
        check_is_fitted(self, "components_")
        from mdaml._validation import check_integer
        from mdaml.neighbors.search import nearest_others, nearest_rows_on

        k = check_integer(self, "k", k, 1)
        Y = np.ascontiguousarray(self._map(self._check(X)), np.float64)
        if queries is None:
            sought, rows = Y, nearest_others(Y, k)
        else:
            sought = np.ascontiguousarray(self._map(self._check(queries)), np.float64)
            rows = nearest_rows_on(None, sought, Y, min(k, len(Y)))
        each = zip(rows, sought, strict=True)
        distances = [np.linalg.norm(Y[near] - y, axis=1) for near, y in each]
        return np.array(distances).reshape(rows.shape), rows

    def save(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Write the fitted model to a file, which :func:`mdaml.load` reads.

        A zip of arrays and JSON without any code, written beside ``path`` and then renamed. All
        parameters but ``callback`` are saved, and all fitted attributes that new samples need.
        Settings of ``set_output`` and metadata routing are not.

        Parameters
        ----------
        path : str or path
            The file; ``.mdaml`` is usual, no suffix is added.
        compact : bool, default=True
            Leave out what describes the training data only: ``weights_`` and ``triplets_``.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from mdaml import Euclidean
        >>> from mdaml import load
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).save(Path(folder, "plain.mdaml"))
        ...     load(Path(folder, "plain.mdaml")).transform([[4.0, 5.0]])
        array([[4., 5.]])
        """
        from mdaml.io.model_file import write_model

        write_model(path, self, compact=compact)

    def embed(
        self, X: npt.ArrayLike, *, out: npt.NDArray[np.float32] | None = None
    ) -> npt.NDArray[np.float32]:
        """Transform into single precision and C order, as vector indexes take it.

        Works block by block: X and ``out`` may be memory maps larger than memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        out : float32 array of shape (n_samples, n_components), C order, or None
            Where to write. After an error in X some rows may have been written.

        Returns
        -------
        embedding : float32 array of shape (n_samples, n_components)
            ``out``, if it was given.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).embed([[4, 5]])
        array([[4., 5.]], dtype=float32)
        """
        check_is_fitted(self, "components_")
        from mdaml.io.export import embed_blocks

        known = self._preparation()
        if known is not None and known.categories:
            X = self.prepare(X)  # at once, so that unknown categories are counted once
        return embed_blocks(lambda rows: self._map(self._check(rows)), X, self._n_features_out, out)

    def get_metric(self) -> "MahalanobisMetric":
        """Return the learned distance as a function of two vectors, which can be pickled.

        For ``metric=`` of scikit-learn and SciPy; ``transform`` and Euclidean distance is faster.

        Returns
        -------
        metric : callable
            ``metric(a, b)`` is the distance of two vectors of n_features.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).get_metric()([0.0, 0.0], [3.0, 4.0])
        5.0
        """
        self._require_linear("get_metric")
        from mdaml.io.export import MahalanobisMetric

        return MahalanobisMetric(self.components_)

    def to_faiss(self, X: npt.ArrayLike | None = None) -> "IndexPreTransform":
        """Return a faiss index that takes vectors as they are and transforms them inside.

        Needs the extra ``faiss``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or None
            Samples to add. Their mean is taken as the origin inside the index, now and later, which
            changes no distance but loses less in single precision. None: an empty index. The index
            takes numbers: what :meth:`prepare` returns, if the model was fitted to a table.

        Returns
        -------
        index : faiss.IndexPreTransform
            The map before a flat index; the distances it returns are squared.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import Euclidean
        >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 5.0]], dtype=np.float32)
        >>> index = Euclidean().fit(X).to_faiss(X)
        >>> sq_dists, rows = index.search(X[:1], 2)
        >>> rows
        array([[0, 1]])
        """
        self._require_linear("to_faiss")
        from mdaml.io.export import make_faiss_index

        inner = None if X is None else self._front(self._check(X))
        return make_faiss_index(self.components_, inner, front=self._steps())

    def to_onnx(
        self, path: str | os.PathLike[str] | None = None, *, dtype: object = "float32"
    ) -> "ModelProto":
        """Return ``transform`` as an ONNX model, and write it to ``path`` if one is given.

        Needs the extra ``onnx``.

        Parameters
        ----------
        path : str or path or None
            A file to write as well; it is replaced only once the new one is complete.
        dtype : {"float32", "float64"} or dtype, default="float32"
            Of input and output.

        Returns
        -------
        model : onnx.ModelProto
            Its input is ``X`` of shape (any, n_features), its output ``embedding``. A model with a
            ``preparation_`` takes the columns of the table as they are: numbers in ``X``, NaN where
            a cell is empty, and texts in ``categories``; ``metadata_props`` names them.

        Examples
        --------
        >>> import numpy as np
        >>> import onnxruntime
        >>> from mdaml import Euclidean
        >>> model = Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).to_onnx()
        >>> session = onnxruntime.InferenceSession(model.SerializeToString())
        >>> session.run(None, {"X": np.array([[4, 5]], dtype=np.float32)})[0]
        array([[4., 5.]], dtype=float32)
        """
        self._require_linear("to_onnx")
        from mdaml.io.export import make_onnx_model

        return make_onnx_model(
            self.components_, path, dtype=dtype, front=self._steps(), known=self._preparation()
        )

    def to_torch(self, *, dtype: object = "float32") -> "Module":
        """Return ``transform`` as a ``torch.nn.Linear`` without bias, in float32 or float64.

        Needs the extra ``torch``.

        Parameters
        ----------
        dtype : {"float32", "float64"} or dtype of NumPy or torch, default="float32"
            Of the weight.

        Returns
        -------
        layer : torch.nn.Linear
            Its weight is frozen; ``requires_grad_(True)`` lets it learn. A model with a
            ``preparation_`` becomes a ``torch.nn.Sequential`` ``layers`` that takes what
            ``layers[0].read(table)`` returns.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).to_torch()
        Linear(in_features=2, out_features=2, bias=False)
        """
        self._require_linear("to_torch")
        from mdaml.io.export import make_torch_layer

        return make_torch_layer(
            self.components_, dtype=dtype, front=self._steps(), known=self._preparation()
        )

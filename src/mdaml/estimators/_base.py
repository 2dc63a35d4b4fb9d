"""What every learner of a Mahalanobis distance can do once it is fitted."""

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from mdaml import kernels
from mdaml._typing import FloatArray, IntArray
from mdaml._validation import check_magnitude, check_pairs, check_quadruplets, check_triplets
from mdaml.constraints import Classes
from mdaml.estimators._supervision import (
    EVERY_FORM,
    Supervision,
    check_both_kinds,
    check_supervision,
)

if TYPE_CHECKING:
    from mdaml.export import MahalanobisMetric

_FLOATS = [np.float64, np.float32]


def principal_components(F: FloatArray, n_components: int | None = None) -> FloatArray:
    """Return L with ``L.T @ L = F F^T`` whose rows are the principal axes, the longest first.

    Leading rows are the best metric of lower rank.
    """
    axes, lengths, _ = np.linalg.svd(F, full_matrices=False)
    return (axes * lengths).T[:n_components]


class MahalanobisTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A linear map after which Euclidean distance is the learned distance.

    Subclasses set ``components_`` in ``fit``: ``M = components_.T @ components_``.
    """

    components_: FloatArray  # (n_components, d)

    def transform(self, X: npt.ArrayLike) -> FloatArray:
        """Map samples so that Euclidean distance between them is the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            ``X @ components_.T``, in the precision of X.

        Examples
        --------
        >>> from mdaml import LFDA
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> LFDA(n_components=1).fit(X, y).transform(X).shape
        (300, 1)
        """
        check_is_fitted(self, "components_")
        samples: FloatArray = validate_data(self, X, dtype=_FLOATS, reset=False)
        return self._map(samples)

    def get_mahalanobis_matrix(self) -> FloatArray:
        """Return the matrix ``M`` of the learned distance.

        Returns
        -------
        M : array of shape (n_features, n_features)
            ``components_.T @ components_``, symmetric and positive semi-definite.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import GMML
        >>> from mdaml.datasets import make_multimodal
        >>> X, y = make_multimodal(random_state=0)
        >>> M = GMML().fit(X, y).get_mahalanobis_matrix()
        >>> M.shape, np.allclose(M, M.T)
        ((2, 2), True)
        """
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_

    def pair_distance(self, A: npt.ArrayLike, B: npt.ArrayLike) -> FloatArray:
        """Return the learned distance of each row of A to the same row of B.

        Eq. (1), with its square root: ``sqrt((a - b)^T M (a - b))``.

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
        >>> from mdaml import Euclidean
        >>> metric = Euclidean().fit([[0.0, 1.0], [2.0, 3.0]])
        >>> metric.pair_distance([[0.0, 0.0], [1.0, 1.0]], [[3.0, 4.0], [1.0, 2.0]])
        array([5., 1.])
        """
        check_is_fitted(self, "components_")
        a: FloatArray = validate_data(self, A, dtype=_FLOATS, reset=False)
        b: FloatArray = check_array(B, dtype=_FLOATS, input_name="B", estimator=self)
        if a.shape != b.shape:
            raise ValueError(
                f"A and B must have the same shape, one pair per row, got {a.shape} and {b.shape}."
            )
        return np.linalg.norm(self._map(a - b), axis=1)

    def pair_score(self, A: npt.ArrayLike, B: npt.ArrayLike) -> FloatArray:
        """Return the similarity of each row of A and the same row of B: minus their distance.

        Parameters
        ----------
        A, B : array-like of shape (n_pairs, n_features)
            The two members of each pair.

        Returns
        -------
        scores : array of shape (n_pairs,)
            At most 0; the higher, the more alike.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).pair_score([[0.0, 0.0]], [[3.0, 4.0]])
        array([-5.])
        """
        return -self.pair_distance(A, B)

    def score_triplets(self, X: npt.ArrayLike, triplets: npt.ArrayLike) -> float:
        """Return the fraction of comparisons that hold under the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the triplets index; they need not be those of ``fit``.
        triplets : array-like of shape (n_triplets, 3)
            Row indices: ``X[t[0]]`` should be closer to ``X[t[1]]`` than to ``X[t[2]]``.

        Returns
        -------
        score : float
            Between 0 and 1; a tie does not hold.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_triplets(X, [[0, 1, 2], [2, 3, 1]])
        0.5
        """
        Y = self.transform(X)
        triplets = check_triplets(triplets, len(Y))
        near, far = (_sq_dists(Y, triplets[:, [0, other]]) for other in (1, 2))
        return float(np.mean(near < far))

    def score_quadruplets(self, X: npt.ArrayLike, quadruplets: npt.ArrayLike) -> float:
        """Return the fraction of comparisons of two pairs that hold under the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the quadruplets index; they need not be those of ``fit``.
        quadruplets : array-like of shape (n_quadruplets, 4)
            Row indices: ``X[q[0]]`` and ``X[q[1]]`` should be closer than ``X[q[2]]`` and
            ``X[q[3]]``.

        Returns
        -------
        score : float
            Between 0 and 1; a tie does not hold.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_quadruplets(X, [[0, 1, 2, 3], [0, 2, 1, 2]])
        0.5
        """
        Y = self.transform(X)
        quadruplets = check_quadruplets(quadruplets, len(Y))
        near, far = (_sq_dists(Y, pairs) for pairs in np.split(quadruplets, 2, axis=1))
        return float(np.mean(near < far))

    def score_pairs(
        self, X: npt.ArrayLike, pairs: npt.ArrayLike, pair_labels: npt.ArrayLike
    ) -> float:
        """Return how well the learned distance tells similar from dissimilar pairs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the pairs index; they need not be those of ``fit``.
        pairs : array-like of shape (n_pairs, 2)
            Row indices.
        pair_labels : array-like of shape (n_pairs,)
            1 for similar, -1 for dissimilar pairs; both must be there.

        Returns
        -------
        score : float
            The area under the ROC curve: the share of similar and dissimilar pairs, of all that can
            be put side by side, in which the similar one is closer; ties count half.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_pairs(X, [[0, 1], [1, 2], [0, 2], [2, 3]], [1, -1, 1, -1])
        0.625
        """
        Y = self.transform(X)
        checked, similar = check_pairs(pairs, pair_labels, len(Y))
        check_both_kinds(self, similar.sum(), (~similar).sum(), "The score compares the two.")
        return float(roc_auc_score(similar, -_sq_dists(Y, checked)))

    def _map(self, X: FloatArray) -> FloatArray:
        return X @ self.components_.astype(X.dtype, copy=False).T

    def _store(self, X: Any, components: FloatArray, dtype: Any, **fitted: Any) -> None:
        """Set all that was learned, nothing before: a fit that fails leaves the model as it was.

        The largest entry of each row of ``components`` is made positive. Without X, features and
        their names are those of before.
        """
        if X is not None:
            validate_data(self, X, skip_check_array=True)
        for name, value in fitted.items():
            setattr(self, name, value)
        largest = np.abs(components).argmax(axis=1)[:, None]
        signs = np.where(np.take_along_axis(components, largest, axis=1) < 0, -1.0, 1.0)
        self.components_ = (components * signs).astype(dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        """Keep single precision where it is given."""
        tags: Any = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def save(self, path: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Write the fitted model to a file, which :func:`mdaml.load` reads.

        A zip of arrays and JSON without any code, written beside ``path`` and then renamed. All
        parameters are saved but ``callback``, and all fitted attributes. What ``set_output`` and
        metadata routing were told is not.

        Parameters
        ----------
        path : str or path
            The file; ``.mdaml`` is usual, no suffix is added.
        compact : bool, default=False
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
        from mdaml.archive import write_model

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
        from mdaml.export import embed_blocks

        check_is_fitted(self, "components_")
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
        from mdaml.export import MahalanobisMetric

        check_is_fitted(self, "components_")
        return MahalanobisMetric(self.components_)

    def to_faiss(self, X: npt.ArrayLike | None = None) -> Any:
        """Return a faiss index that takes vectors as they are and transforms them inside.

        Needs the extra ``faiss``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or None
            Samples to add. Their mean is taken as the origin inside the index, now and later, which
            changes no distance but loses less in single precision. None: an empty index.

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
        from mdaml.export import faiss_index

        check_is_fitted(self, "components_")
        return faiss_index(self.components_, None if X is None else self._check(X))

    def to_onnx(self, path: str | os.PathLike[str] | None = None, *, dtype: Any = "float32") -> Any:
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
            Its input is ``X`` of shape (any, n_features), its output ``embedding``.

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
        from mdaml.export import onnx_model

        check_is_fitted(self, "components_")
        return onnx_model(self.components_, path, dtype=dtype)

    def to_torch(self, *, dtype: Any = "float32") -> Any:
        """Return ``transform`` as a ``torch.nn.Linear`` without bias, in float32 or float64.

        Needs the extra ``torch``.

        Parameters
        ----------
        dtype : {"float32", "float64"} or dtype of NumPy or torch, default="float32"
            Of the weight.

        Returns
        -------
        layer : torch.nn.Linear
            Its weight is frozen; ``requires_grad_(True)`` lets it learn.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).to_torch()
        Linear(in_features=2, out_features=2, bias=False)
        """
        from mdaml.export import torch_layer

        check_is_fitted(self, "components_")
        return torch_layer(self.components_, dtype=dtype)

    def _check(self, X: npt.ArrayLike) -> FloatArray:
        return validate_data(self, X, dtype=_FLOATS, reset=False)


class PairLearner(MahalanobisTransformer, ABC):
    """A learner from pairs, those of triplets and quadruplets too; labels stand for their pairs."""

    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        pairs: npt.ArrayLike | None = None,
        pair_labels: npt.ArrayLike | None = None,
        triplets: npt.ArrayLike | None = None,
        quadruplets: npt.ArrayLike | None = None,
        constraints: Any = None,
        constraint_weight: npt.ArrayLike | None = None,
        **unsupported: Any,
    ) -> Self:
        """Learn the metric from labels, or from any of pairs, triplets and quadruplets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, dense.
        y : array-like of shape (n_samples,), optional
            Class labels; ``-1`` marks unlabelled rows, which are left out.
        pairs : array-like of shape (n_pairs, 2), optional
            Row numbers of X.
        pair_labels : array-like of shape (n_pairs,), optional
            1 for similar, -1 for dissimilar pairs.
        triplets : array-like of shape (n_triplets, 3), optional
            Row numbers ``(a, b, c)``: a and b are taken for similar, a and c for dissimilar.
        quadruplets : array-like of shape (n_quadruplets, 4), optional
            Row numbers ``(a, b, c, d)``: a and b are taken for similar, c and d for dissimilar.
        constraints : Constraints, optional
            Triplets, pairs, quadruplets and their weights in one value, instead of the arrays.
        constraint_weight : array-like of shape (n_constraints,), optional
            Positive weights of the triplets, pairs and quadruplets, in this order; for the two
            pairs of a triplet or quadruplet alike. Only ratios matter, of similar pairs and of
            dissimilar pairs.
        **unsupported : Any
            Anything else is refused by name.

        Returns
        -------
        self : object
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml import KISSME
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> pairs = np.arange(100).reshape(50, 2)
        >>> far_in_first = np.abs(X[pairs[:, 0], 0] - X[pairs[:, 1], 0]) > 1
        >>> metric = KISSME().fit(X, pairs=pairs, pair_labels=np.where(far_in_first, -1, 1))
        >>> int(metric.get_mahalanobis_matrix().diagonal().argmax())
        0
        """
        samples, given = check_supervision(
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
        self._check_parameters(samples.shape[1])
        centred = _centred(samples)
        with kernels.one_blas_thread():
            components, fitted = self._learn(centred, given)
        self._store(X, components, samples.dtype, **fitted)
        return self

    @abstractmethod
    def _check_parameters(self, n_features: int) -> None: ...

    @abstractmethod
    def _learn(self, X: FloatArray, given: Supervision) -> tuple[FloatArray, dict[str, Any]]:
        """Return components and further attributes for centred samples in double precision."""

    def __sklearn_tags__(self) -> Tags:
        """Labels are the usual supervision; comparisons replace them."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class LabelLearner(MahalanobisTransformer, ABC):
    """A learner from class labels only."""

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None, **unsupported: Any) -> Self:
        """Learn the metric from labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, dense.
        y : array-like of shape (n_samples,)
            Class labels; ``-1`` marks unlabelled rows, which are left out.
        **unsupported : Any
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
        samples, given = check_supervision(self, ("y",), X, y, **unsupported)
        self._check_parameters(samples.shape[1])
        assert given.classes is not None
        centred = _centred(samples[given.classes.rows])
        with kernels.one_blas_thread():
            components, fitted = self._learn(centred, given.classes)
        self._store(X, components, samples.dtype, **fitted)
        return self

    @abstractmethod
    def _check_parameters(self, n_features: int) -> None: ...

    @abstractmethod
    def _learn(self, X: FloatArray, classes: Classes) -> tuple[FloatArray, dict[str, Any]]:
        """Return components and further attributes for samples sorted by class.

        They are centred, in double precision and in the order of the places of the classes.
        """

    def __sklearn_tags__(self) -> Tags:
        """Without labels there is nothing to learn from."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _sq_dists(Y: FloatArray, pairs: IntArray) -> FloatArray:
    """Return the squared distances of pairs of rows, in blocks: bounds the memory."""
    blocks = [pairs[start : start + 65536].T for start in range(0, len(pairs), 65536)]
    return np.concatenate([np.sum((Y[i] - Y[j]) ** 2, axis=1) for i, j in blocks])


def _centred(samples: FloatArray) -> FloatArray:
    """Return samples less their mean, in double precision: scatter matrices need it."""
    mean = samples.mean(axis=0, dtype=np.float64)
    shifted: FloatArray = np.subtract(samples, mean, order="C")  # rounding sees translations
    check_magnitude(shifted)
    return shifted

"""What every learner of a Mahalanobis distance can do once it is fitted."""

import inspect
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from mdaml._samples import explain_samples
from mdaml._typing import Array, ArrayLike, Dtype, FloatArray, IntArray, Matrix, Params
from mdaml._validation import warn
from mdaml.constraints.labels import to_labels
from mdaml.estimators.handover import Handover
from mdaml.estimators.scores import Scores
from mdaml.kernels.products import blocks, rows_per_block

SITE = "https://mdaml.github.io/mdaml"
_FLOATS = [np.float64, np.float32]
_COMPARISONS = ("triplets", "pairs", "quadruplets", "constraints")


def page_of(path: str) -> str:
    """Return the address of the page of the reference about a class of this package."""
    return f"{SITE}/api/generated/mdaml.{path}.html"


def principal_components(F: FloatArray) -> FloatArray:
    """Return L with ``L.T @ L = F F^T`` whose rows are the principal axes, the longest first.

    Leading rows are the best metric of lower rank.
    """
    axes, lengths, _ = np.linalg.svd(F, full_matrices=False)
    return (axes * lengths).T


def _answer_typos(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that refuses unknown parameters with what may have been meant."""
    known = list(inspect.signature(init).parameters)[1:]

    @wraps(init)
    def checked(self: BaseEstimator, *args: object, **params: object) -> None:
        for name in params:
            if name not in known:
                close = get_close_matches(name, known, n=1)
                advice = f"Its parameters are {', '.join(known)}." if known else "It has none."
                advice = f"Did you mean {close[0]!r}?" if close else advice
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}. {advice}")
        init(self, *args, **params)

    return checked


class MahalanobisTransformer(
    Scores, Handover, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """A linear map after which Euclidean distance is the learned distance.

    Subclasses set ``components_`` in ``fit``: ``M = components_.T @ components_``.
    """

    components_: FloatArray  # (n_components, d)
    takes_sparse: ClassVar[bool] = False  # in fit; whatever follows needs products only
    fit: Callable[..., Self]
    # What ``mdaml search`` tries; as ``param_grid`` of MetricSearchCV.
    default_grid: ClassVar[list[Params]] = [{}]

    # Links of the HTML representation, as scikit-learn documents for libraries built on it.
    _doc_link_module = "mdaml"
    _doc_link_template = page_of("{estimator_name}")

    def __init_subclass__(cls, **more: object) -> None:
        """Let constructors answer misspelt parameters with the nearest name."""
        super().__init_subclass__(**more)
        if "__init__" in vars(cls):
            cls.__init__ = _answer_typos(cls.__init__)  # type: ignore[method-assign]

    if not TYPE_CHECKING:  # type checkers must go on to refuse unknown attributes

        def __getattr__(self, name: str) -> object:
            """Tell users of GridSearchCV, which looks for a score, what to use instead."""
            # Nothing but the caller tells its question apart from those of pipelines, of checks and
            # of hasattr in general, which must get an AttributeError. A method that raises when it
            # is called would come after all fits, as one warning each: scores become NaN then.
            if name == "score" and sys._getframe(1).f_code.co_name == "check_scoring":
                raise TypeError(
                    f"{type(self).__name__} learns a metric and has no score of its own. "
                    "mdaml.model_selection.MetricSearchCV searches its parameters, by comparisons "
                    "or by labels; for GridSearchCV put it in a pipeline before a classifier, such "
                    "as KNeighborsClassifier."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def transform(self, X: ArrayLike) -> FloatArray:
        """Map samples so that Euclidean distance between them is the learned distance.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
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
        return self._map(self._check(X, sparse=True))

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: object
    ) -> FloatArray:
        """Fit and map the samples of the fit, as a pipeline does with every step but its last.

        A pipeline hands ``y`` to all steps. Where comparisons are passed too, the metric is learned
        from these alone, and ``y`` is for the steps behind it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), optional
            Class labels; not looked at if there are comparisons.
        **fit_params : object
            As for ``fit``: triplets, constraints and so on.

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            ``fit(X, ...).transform(X)``.

        Examples
        --------
        A metric from comparisons and a classifier from labels.

        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> from sklearn.pipeline import make_pipeline
        >>> from mdaml import MDaML
        >>> from mdaml.datasets import load_dataset, make_triplets
        >>> X, y = load_dataset("balance", return_X_y=True)
        >>> T, _ = make_triplets(X, y, n_triplets=500, random_state=0)
        >>> both = make_pipeline(MDaML(), KNeighborsClassifier(3)).fit(X, y, mdaml__triplets=T)
        >>> both.score(X, y) > 0.8
        True
        """
        if any(fit_params.get(form) is not None for form in _COMPARISONS):
            return self.fit(X, **fit_params).transform(X)
        if y is not None:
            _warn_of_unlabelled(y)
        return self.fit(X, y, **fit_params).transform(X)

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
        self._require_linear("get_mahalanobis_matrix")
        return self.components_.T @ self.components_

    def pair_distance(self, A: ArrayLike, B: ArrayLike) -> FloatArray:
        """Return the learned distance of each row of A to the same row of B.

        Eq. (1), with its square root: ``sqrt((a - b)^T M (a - b))``.

        Parameters
        ----------
        A, B : array-like or sparse array of shape (n_pairs, n_features)
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
        a = self._check(A, "A", sparse=True)
        B = self.prepare(B)
        with explain_samples(self, B, "B", sparse=True):
            options = {"dtype": _FLOATS, "input_name": "B", "accept_sparse": "csr"}
            b: FloatArray = check_array(B, estimator=self, **options)
        if a.shape != b.shape:
            raise ValueError(
                f"A and B must have the same shape, one pair per row, got {a.shape} and {b.shape}."
            )
        if issparse(a) != issparse(b):
            a, b = csr_array(a), csr_array(b)
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            distances = _lengths(self._map(a - b))
        if not np.all(np.isfinite(distances)):
            raise ValueError(
                f"Distances of these A and B exceed {distances.dtype}. Pass them in double "
                "precision, or scale the features, for instance by StandardScaler."
            )
        return distances

    def _map(self, X: Matrix) -> FloatArray:
        return X @ self.components_.astype(X.dtype, copy=False).T

    def _store(
        self, X: ArrayLike | None, components: FloatArray, dtype: Dtype, **fitted: object
    ) -> None:
        """Set all that was learned, nothing before: a fit that fails leaves the model as it was.

        The largest entry of each row of ``components`` is made positive. Without X, features and
        their names are those of before.
        """
        with np.errstate(over="ignore"):  # checked below
            stored = components.astype(dtype, copy=False)
        # In blocks: features may be so many that a copy does not fit into memory. Not by
        # np.negative(rows, out=rows), which NumPy 2.4 gets wrong where rows have strides.
        for first, last in blocks(0, len(stored), rows_per_block(stored.shape[1], 8)):
            rows = stored[first:last]
            largest = np.abs(rows).argmax(axis=1)
            rows *= np.where(rows[np.arange(len(rows)), largest] < 0, -1.0, 1.0)[:, None]
        fitted["components_"] = stored
        self._check_finite(fitted)
        if X is not None:
            # Of what came before an earlier fit.
            for name in ("input_map_", "preparation_", "fitted_to_", "training_rows_"):
                self.__dict__.pop(name, None)
        if type(X) is np.ndarray:
            # What scikit-learn would find out, which takes it as long as a small product.
            fitted["n_features_in_"] = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        elif X is not None:
            validate_data(self, X, skip_check_array=True)
        for name, value in fitted.items():
            setattr(self, name, value)

    def _check_finite(self, fitted: Params) -> None:
        """Refuse what was learned if an array holds infinities or no numbers."""
        for name, value in fitted.items():
            is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
            if is_float and not np.all(np.isfinite(value)):
                raise ValueError(
                    f"{type(self).__name__} cannot be fitted to X: {name} would hold values that "
                    f"are not finite in {value.dtype}. Scale the features, for instance by "
                    "StandardScaler, and fit again."
                )

    def __getstate__(self) -> Params:
        """Pack row numbers of comparisons, of which there are many; nothing is lost."""
        state = dict(super().__getstate__())
        for name in ("triplets_", "comparisons_"):
            if isinstance(state.get(name), np.ndarray):
                state[name] = PackedRows.of(state[name])
        return state

    def __setstate__(self, state: Params) -> None:
        """Unpack them."""
        super().__setstate__(
            {k: v.unpack() if isinstance(v, PackedRows) else v for k, v in state.items()}
        )

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        """Keep single precision; labels are the usual supervision, comparisons replace them."""
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self.takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check(self, X: ArrayLike, name: str = "X", *, sparse: bool = False) -> Matrix:
        """Return samples like those of the fit, sparse ones only where these will do."""
        X = self.prepare(X)
        with explain_samples(self, X, name, sparse=sparse):
            options: Params = {"dtype": _FLOATS, "accept_sparse": "csr" if sparse else False}
            if not hasattr(self, "preparation_"):
                return validate_data(self, X, reset=False, **options)
            # Names were looked at when the table was prepared; an array has none.
            checked = check_array(X, estimator=self, input_name=name, **options)
            if checked.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"{name} has {checked.shape[1]} features, but {type(self).__name__} expects "
                    f"{self.n_features_in_}. Pass a table with the columns of the fit."
                )
            return checked


def distances_after(
    transform: Callable[[ArrayLike], Matrix], A: ArrayLike, B: ArrayLike
) -> FloatArray:
    """Return the Euclidean distance of each row of A to the same row of B, both transformed."""
    a, b = (np.asarray(transform(side)) for side in (A, B))
    if a.shape != b.shape:
        raise ValueError(
            f"A and B must have as many rows, one pair per row, got {len(a)} and {len(b)}."
        )
    distances: FloatArray = np.linalg.norm(a - b, axis=1)
    return distances


def _lengths(Y: FloatArray) -> FloatArray:
    """Return the lengths of the rows; squares neither overflow nor vanish.

    Rows are scaled by powers of two, which changes no digit.
    """
    _, exponents = np.frexp(np.abs(Y).max(axis=1, initial=0.0))
    return np.ldexp(np.linalg.norm(np.ldexp(Y, -exponents[:, None]), axis=1), exponents)


def _warn_of_unlabelled(y: ArrayLike) -> None:
    """Warn of labels -1, which mean nothing to a metric and a class to a classifier behind it."""
    labels = to_labels(y)
    n_unlabelled = int(np.count_nonzero(labels == -1)) if labels.dtype.kind in "ifO" else 0
    if 0 < n_unlabelled < labels.size:
        warn(
            f"{n_unlabelled} labels are -1 or missing, which marks rows without a label here; a "
            "classifier behind this step takes -1 for one more class. Fit the metric first, then a "
            "pipeline of FrozenEstimator(metric) and the classifier to the labelled rows alone."
        )


@dataclass(frozen=True)
class PackedRows:
    """An array of integers, compressed without loss.

    Comparisons are sorted by their first member: differences of consecutive ones are mostly zero.
    """

    data: bytes
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, rows: Array) -> "PackedRows":
        """Pack an array of integers of shape (n, k)."""
        steps = np.diff(rows.T.astype(np.int64), prepend=0)  # (k, n), each column by itself
        small = steps.astype(np.int32) if np.abs(steps).max(initial=0) < 2**31 else steps
        size = small.dtype.itemsize
        # Bytes of the same place together: those of small numbers are all zero or all 255.
        planes = np.ascontiguousarray(small).view(np.uint8).reshape(-1, size).T
        data = size.to_bytes(1, "little") + zlib.compress(planes.tobytes(), 1)
        return cls(data, rows.dtype.str, rows.shape)

    def unpack(self) -> IntArray:
        """Return the array."""
        size, planes = self.data[0], np.frombuffer(zlib.decompress(self.data[1:]), np.uint8)
        by_number = np.ascontiguousarray(planes.reshape(size, -1).T)
        steps = by_number.view(f"<i{size}").reshape(self.shape[::-1])
        return np.ascontiguousarray(np.cumsum(steps, axis=1, dtype=np.int64).T).astype(self.dtype)

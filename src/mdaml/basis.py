"""What a metric is linear in: features, closeness to modes, and features within a few modes."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn import config_context
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from mdaml._typing import Dtype, FloatArray, IntArray
from mdaml._validation import ignore_warnings
from mdaml.kernels.products import Product, blocks, one_blas_thread, rows_per_block, rows_times

# From the study of docs/places.md.
N_LANDMARKS = 512  # at most
# Widths in mean squared distances between rows: of landmarks, places and maps.
LANDMARK_WIDTH, PLACE_WIDTH, MAP_WIDTH = 0.25, 0.3, 0.1
_ROWS_FOR_A_MODE = 20  # that k-means sees at most, in the mean
_ROUNDS_OF_KMEANS = 10
_JITTER = 1e-4  # on the diagonal: centres may coincide


@dataclass(frozen=True, eq=False)
class Gates:
    """How close rows are to some centres: ``exp(-|x - c_k|^2 / width)``, one at a centre."""

    centers: FloatArray  # (K, d)
    width: float

    def __len__(self) -> int:
        """Return the number of centres."""
        return len(self.centers)

    def closeness(self, X: FloatArray) -> FloatArray:
        """Return how close rows are to each centre, (N, K)."""
        exponents = self._exponents(X)
        return np.exp(exponents, out=exponents)

    def shares(self, X: FloatArray) -> FloatArray:
        """Return the closeness to each centre as shares that sum to one, (N, K)."""
        exponents = self._exponents(X)
        exponents -= exponents.max(axis=1, keepdims=True)
        shares = np.exp(exponents, out=exponents)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def conditioner(self) -> FloatArray:
        """Return T, (K, K), such that columns ``closeness T^T`` are as good as independent.

        Squared lengths after a map of such columns are those in the space of functions whose kernel
        the closeness is, and a penalty on the map one on how rough it is.
        """
        gram = self.closeness(self.centers.astype(np.float64))
        gram[np.diag_indices(len(gram))] += _JITTER
        inverse: FloatArray = solve_triangular(
            cholesky(gram, lower=True), np.eye(len(gram)), lower=True
        )
        return inverse

    def _exponents(self, X: FloatArray) -> FloatArray:
        middle = self.centers.mean(axis=0)  # far from the origin differences would be rounded
        rows, centers = X - middle.astype(X.dtype), (self.centers - middle).astype(X.dtype)
        out = rows_times(rows, np.ascontiguousarray(centers.T))
        out *= -2.0
        out += np.square(rows).sum(axis=1)[:, None]
        out += np.square(centers).sum(axis=1)
        np.maximum(out, 0.0, out=out)
        out *= -1.0 / self.width
        return out


@dataclass(frozen=True, eq=False)
class Basis:
    """Columns that a metric is linear in: ``[x, g(x), h_1(x) (x - mean), ...]``.

    A linear map of them is ``z(x) = A x + sum_k g_k(x) b_k + sum_m h_m(x) A_m (x - mean)``: one map
    for all, a place for each mode, and further maps for a few wide modes. Euclidean distance
    between z(x) is then a distance between x. With neither places nor maps it is the identity.

    Rows are close to a mode in a space that was learned before: ``u(x) = U k(x)`` with the
    closeness k(x) to landmarks. Then ``g_k(x) = exp(-|u(x) - u(c_k)|^2 / width)``.
    """

    places: Gates | None = None  # centres in X, the width in the learned space
    maps: Gates | None = None
    landmarks: Gates | None = None
    landmark_map: FloatArray | None = None  # (r, n_landmarks) U
    mean: FloatArray | None = None  # (d,)

    @property
    def is_identity(self) -> bool:
        """Whether the columns are the features."""
        return self.places is None and self.maps is None

    def width(self, d: int) -> int:
        """Return the number of columns for d features."""
        n_places = 0 if self.places is None else len(self.places)
        return d + n_places + (0 if self.maps is None else len(self.maps) * d)

    def modes(self) -> Gates:
        """Return the modes with a place, their centres in the learned space."""
        assert self.places is not None
        return replace(self.places, centers=self.see(self.places.centers))

    def see(self, X: FloatArray) -> FloatArray:
        """Return rows in the learned space in which modes are found."""
        if self.landmarks is None or self.landmark_map is None:
            return X
        return rows_times(
            self.landmarks.closeness(X), np.ascontiguousarray(self.landmark_map.T.astype(X.dtype))
        )

    def transform(
        self, X: FloatArray, T: FloatArray | None = None, seen: FloatArray | None = None
    ) -> FloatArray:
        """Return the columns of rows, times ``T^T``; X itself where the basis is the identity.

        ``seen`` is where the rows are in the learned space, if that is known.
        """
        if self.is_identity:
            return X
        n_columns = self.width(X.shape[1])
        out = np.empty((len(X), n_columns if T is None else len(T)), X.dtype)
        modes = None if self.places is None else self.modes()
        widest = max(n_columns, 0 if self.landmarks is None else len(self.landmarks))
        for begin, end in blocks(0, len(X), rows_per_block(widest, out.itemsize)):
            known = None if seen is None else seen[begin:end]
            if T is None:
                self._fill(X[begin:end], modes, known, out[begin:end])
                continue
            columns = np.empty((end - begin, n_columns), X.dtype)
            self._fill(X[begin:end], modes, known, columns)
            np.matmul(columns, T.T.astype(X.dtype), out=out[begin:end])
        return out

    def in_blocks(self, X: FloatArray, T: FloatArray) -> Product:
        """Return what :meth:`transform` returns as a product of which blocks are made on demand.

        Where each row is in the learned space is kept, and nothing as wide as the columns.
        """
        modes, seen = None, None
        if self.places is not None:
            modes = self.modes()
            seen = np.empty((len(X), modes.centers.shape[1]), X.dtype)
            widest = X.shape[1] if self.landmarks is None else len(self.landmarks)
            for begin, end in blocks(0, len(X), rows_per_block(widest, X.itemsize)):
                seen[begin:end] = self.see(X[begin:end])
        taking_part = np.flatnonzero(T.any(axis=0))
        columns = BasisColumns(self, X, modes, seen, int(taking_part[0]) if len(taking_part) else 0)
        return Product(columns, np.ascontiguousarray(T[:, columns.first :].T))

    def _fill(
        self, X: FloatArray, modes: Gates | None, seen: FloatArray | None, out: FloatArray
    ) -> None:
        """Write the columns of some rows."""
        at = X.shape[1]
        out[:, :at] = X
        if modes is not None:
            out[:, at : at + len(modes)] = modes.closeness(self.see(X) if seen is None else seen)
            at += len(modes)
        if self.maps is not None:
            centred = X if self.mean is None else X - self.mean.astype(X.dtype)
            for share in self.maps.shares(X).T:
                np.multiply(share[:, None], centred, out=out[:, at : at + X.shape[1]])
                at += X.shape[1]

    def conditioner(self, d: int, size: float) -> FloatArray:
        """Return T, (m, n_columns), that makes columns to learn from out of those of the basis.

        ``size`` is the mean squared distance between rows, of d features. Features take part only
        where there are no places.
        """
        n_places = 0 if self.places is None else len(self.places)
        T = np.eye(self.width(d)) / np.sqrt(size)
        T[d : d + n_places] = 0.0
        if n_places:
            T[d : d + n_places, d : d + n_places] = self.modes().conditioner()
            T = T[d:]
        return T


@dataclass(frozen=True, eq=False)
class BasisColumns:
    """The columns of rows, from the first that takes part; blocks are made when they are asked for.

    Stands for an array in :mod:`mdaml.kernels.products` and in :mod:`mdaml.stores.blocks`.
    """

    basis: Basis
    X: FloatArray  # (N, d)
    modes: Gates | None
    seen: FloatArray | None  # (N, r) the rows in the learned space
    first: int

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.X)

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        """Return some rows as an array."""
        X = self.X[rows]
        out = np.empty((len(X), self.basis.width(X.shape[1])), X.dtype)
        self.basis._fill(X, self.modes, None if self.seen is None else self.seen[rows], out)
        return out[:, self.first :]

    @property
    def shape(self) -> tuple[int, int]:
        """As of an array."""
        return len(self.X), self.basis.width(self.X.shape[1]) - self.first

    @property
    def dtype(self) -> Dtype:
        """As of an array."""
        return self.X.dtype

    @property
    def size(self) -> int:
        """As of an array."""
        return self.shape[0] * self.shape[1]

    def mean(self, axis: int, dtype: type) -> FloatArray:
        """As of an array."""
        total: FloatArray = np.zeros(self.shape[1], dtype)
        for begin, end in blocks(0, len(self), rows_per_block(self.shape[1], self.dtype.itemsize)):
            total += self[begin:end].sum(axis=axis, dtype=dtype)
        mean: FloatArray = total / len(self)
        return mean


def mean_sq_dist(X: FloatArray | Product) -> float:
    """Return the mean squared distance between two rows, one if all are the same."""
    mean, total, differ = X.mean(axis=0, dtype=np.float64).astype(X.dtype), 0.0, False
    for begin, end in blocks(0, len(X), rows_per_block(X.shape[1], X.itemsize)):
        rows = X[begin:end] - mean
        total += float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
        differ = differ or bool(np.any(X[begin:end] != X[:1]))
    return 2.0 * total / len(X) if differ else 1.0


def find_landmarks(X: FloatArray) -> Gates:
    """Return the rows as landmarks or, if these are many, the centres of k-means."""
    return Gates(_find_centers(X, N_LANDMARKS), LANDMARK_WIDTH * mean_sq_dist(X))


def find_maps(X: FloatArray, n_maps: int) -> Gates:
    """Return wide modes at the centres of k-means."""
    return Gates(_find_centers(X, n_maps), MAP_WIDTH * mean_sq_dist(X))


def find_places(
    X: FloatArray, basis: Basis, n_places: int, seen: FloatArray | None = None
) -> Basis:
    """Return a basis with modes at some of the rows, spread over the learned space of a basis.

    ``seen`` is where the rows are in that space, if that is known.
    """
    some = _some_rows(X, n_places)
    seen = basis.see(some) if seen is None or len(some) < len(X) else seen
    with one_blas_thread():
        rows = spread_rows(seen.astype(np.float64), n_places)
    places = Gates(some[np.sort(rows)], PLACE_WIDTH * mean_sq_dist(seen))
    return replace(basis, places=places, mean=X.mean(axis=0))


def spread_rows(X: FloatArray, n: int) -> IntArray:
    """Return different rows that are spread over all: greedy k-means++, as of scikit-learn.

    Each is the best of a few rows that are drawn by their squared distance to the nearest one so
    far. ``sklearn.cluster.kmeans_plusplus`` takes ten times as long for hundreds of centres, since
    it checks its input for each.
    """
    norms, ones = np.einsum("ij,ij->i", X, X)[:, None], np.ones((len(X), 1))
    left, right = np.hstack([-2.0 * X, ones, norms]), np.hstack([X, norms, ones])
    n_tried, rng = 2 + int(np.log(n)), np.random.RandomState(0)
    taken = [rng.randint(len(X))]
    nearest = np.maximum(right @ left[taken[0]], 0.0)
    nearest[taken] = 0.0
    for _ in range(1, min(n, len(X))):
        sums = np.cumsum(nearest)
        drawn = np.searchsorted(sums, rng.uniform(size=n_tried) * sums[-1])
        np.minimum(drawn, len(X) - 1, out=drawn)
        found = np.minimum(left[drawn] @ right.T, nearest)
        best = int(np.argmin(found.sum(axis=1)))
        nearest = np.maximum(found[best], 0.0)
        nearest[drawn[best]] = 0.0
        taken.append(int(drawn[best]))
    return np.array(taken)


def _some_rows(X: FloatArray, n_modes: int) -> FloatArray:
    most = _ROWS_FOR_A_MODE * max(n_modes, N_LANDMARKS)
    if len(X) <= most:
        return X
    return X[np.sort(np.random.RandomState(0).permutation(len(X))[:most])]


def _find_centers(X: FloatArray, n_modes: int) -> FloatArray:
    if len(X) <= n_modes:
        return X
    some = _some_rows(X, n_modes)
    # Rows that coincide leave some modes without rows of their own; they do no harm.
    quiet = ignore_warnings(ConvergenceWarning, "sklearn")
    with one_blas_thread(), quiet, config_context(array_api_dispatch=False):
        first = some[spread_rows((some - some.mean(axis=0)).astype(np.float64), n_modes)]
        found = KMeans(n_modes, init=first, n_init=1, max_iter=_ROUNDS_OF_KMEANS)
        found.fit(some)
    centers: FloatArray = found.cluster_centers_.astype(X.dtype)
    return centers

"""Features, memberships in modes, and features within a few modes: columns for a linear map."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from mdaml._typing import FloatArray
from mdaml._validation import ignore_warnings
from mdaml.kernels.neighbors import nearest_rows
from mdaml.kernels.products import blocks, one_blas_thread, rows_per_block

# From the study of docs/places.md.
N_NEAREST = 4  # modes that a row belongs to
SOFTNESS = 0.7  # mean gaps between the squared distances to the nearest two centres
SCALE = 6.0  # a whole membership, in standard deviations of a feature
_ROWS_FOR_A_MODE = 256  # that k-means sees at most, in the mean


@dataclass(frozen=True, eq=False)
class Gates:
    """Soft memberships of rows in the modes with the nearest centres.

    ``g_k(x) ~ exp(-|x - c_k|^2 / width)`` for the ``n_nearest`` nearest centres, zero for the
    others; they sum to one.
    """

    centers: FloatArray  # (K, d)
    width: float
    n_nearest: int = N_NEAREST

    def __len__(self) -> int:
        """Return the number of modes."""
        return len(self.centers)

    def memberships(self, X: FloatArray) -> csr_array:
        """Return the memberships of rows, (N, K), with few entries in each row."""
        nearest, sq_dists = nearest_rows(X, self.centers.astype(X.dtype), self.n_nearest)
        above = sq_dists - sq_dists[:, :1]
        # Rows on their centres only: a width of zero makes memberships hard.
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(above > 0.0, np.exp(-above / self.width), 1.0)
        shares /= shares.sum(axis=1, keepdims=True)
        n, k = nearest.shape
        starts = np.arange(0, n * k + 1, k)
        return csr_array((shares.astype(X.dtype).ravel(), nearest.ravel(), starts), (n, len(self)))


@dataclass(frozen=True, eq=False)
class Basis:
    """Columns that a metric is linear in: ``[x, scale g(x), h_1(x) (x - mean), ...]``.

    A linear map of them is ``z(x) = A x + sum_k g_k(x) b_k + sum_m h_m(x) A_m (x - mean)``: one map
    for all, a place for each mode, and further maps for a few wide modes. Euclidean distance
    between z(x) is then a distance between x. With neither places nor maps it is the identity.
    """

    places: Gates | None = None
    maps: Gates | None = None
    scale: float = 1.0
    mean: FloatArray | None = None  # (d,)

    @property
    def is_identity(self) -> bool:
        """Whether the columns are the features."""
        return self.places is None and self.maps is None

    def width(self, d: int) -> int:
        """Return the number of columns for d features."""
        n_places = 0 if self.places is None else len(self.places)
        return d + n_places + (0 if self.maps is None else len(self.maps) * d)

    def transform(self, X: FloatArray) -> FloatArray:
        """Return the columns of rows: X itself where the basis is the identity."""
        if self.is_identity:
            return X
        out = np.empty((len(X), self.width(X.shape[1])), X.dtype)
        for begin, end in blocks(0, len(X), rows_per_block(out.shape[1], out.itemsize)):
            self._fill(X[begin:end], out[begin:end])
        return out

    def _fill(self, X: FloatArray, out: FloatArray) -> None:
        """Write the columns of some rows."""
        at = X.shape[1]
        out[:, :at] = X
        if self.places is not None:
            end = at + len(self.places)
            out[:, at:end] = self.scale * self.places.memberships(X).toarray()
            at = end
        if self.maps is not None:
            centred = X if self.mean is None else X - self.mean.astype(X.dtype)
            for share in self.maps.memberships(X).toarray().T:
                np.multiply(share[:, None], centred, out=out[:, at : at + X.shape[1]])
                at += X.shape[1]


def find_basis(X: FloatArray, n_places: int, n_maps: int, n_nearest: int = N_NEAREST) -> Basis:
    """Return a basis with modes found in rows by k-means; the same rows give the same modes."""
    if n_places == 0 and n_maps == 0:
        return Basis()
    places = _find_gates(X, n_places, n_nearest) if n_places else None
    maps = _find_gates(X, n_maps, n_maps) if n_maps else None
    spread = float(np.sqrt(np.mean(X.var(axis=0, dtype=np.float64))))
    return Basis(places, maps, SCALE * spread if spread > 0.0 else 1.0, X.mean(axis=0))


def _find_gates(X: FloatArray, n_modes: int, n_nearest: int) -> Gates:
    """Return gates at the centres of k-means, as wide as a part of the gap between the nearest."""
    rng = np.random.RandomState(0)
    if len(X) > _ROWS_FOR_A_MODE * n_modes:
        X = X[np.sort(rng.permutation(len(X))[: _ROWS_FOR_A_MODE * n_modes])]
    # Rows that coincide leave some modes without rows of their own; they do no harm.
    quiet = ignore_warnings(ConvergenceWarning, "sklearn")
    with one_blas_thread(), quiet, config_context(array_api_dispatch=False):
        found = KMeans(n_modes, n_init=1, random_state=rng).fit(X)
    centers: FloatArray = found.cluster_centers_.astype(X.dtype)
    sq_dists = nearest_rows(X, centers, 2)[1]
    gap = float(np.mean(sq_dists[:, -1] - sq_dists[:, 0], dtype=np.float64))
    return Gates(centers, SOFTNESS * gap, n_nearest)

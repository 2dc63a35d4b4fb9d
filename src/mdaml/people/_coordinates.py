"""Metrics near a given one by a few coefficients, in which margins of answers are linear."""

from dataclasses import dataclass

import numpy as np

from mdaml._typing import FloatArray, IntArray

_MOST_AXES = 12  # on which metrics may differ in any way
_MOST_LEADING = 64  # axes of the given metric, the longest, among which these are looked for
_ANSWERS_AT_ONCE = 1 << 15


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Metrics ``M = L^T (b_0/u I + V B V^T) L`` by coefficients b: b_0 and the entries of B.

    L is the map of the given metric. All directions of it are axes, or, of many, those that the
    answers ask for most. Off the diagonal coefficients are ``sqrt(2)`` times the entries of B.
    """

    axes: FloatArray  # V, (rank of the metric, m)
    unit: float  # u, the mean size of margins under the given metric

    @classmethod
    def of(cls, Y: FloatArray, asked: IntArray) -> "Coordinates":
        """Return coordinates for samples mapped by the given metric, (N, rank)."""
        spread = Y.std(axis=0)
        used = np.flatnonzero(spread > 1e-9 * spread.max(initial=0.0))
        used = used[np.argsort(-spread[used], kind="stable")][:_MOST_LEADING]
        axes = np.zeros((Y.shape[1], len(used)))
        axes[used, np.arange(len(used))] = 1.0 / spread[used]
        if len(used) > _MOST_AXES:
            axes = axes @ _find_wishes(Y @ axes, asked)
        sizes = np.abs(cls(axes, 1.0).features(Y, asked[:_ANSWERS_AT_ONCE])).mean(axis=0)
        rows, columns = np.triu_indices(axes.shape[1])
        # Without axes all samples are alike.
        size = float(sizes[1:][rows == columns].mean()) if len(rows) else 1.0
        return cls(axes / np.sqrt(size or 1.0), float(sizes[0]) or 1.0)

    @property
    def size(self) -> int:
        """The number of coefficients, q."""
        m = self.axes.shape[1]
        return 1 + m * (m + 1) // 2

    def features(self, Y: FloatArray, asked: IntArray) -> FloatArray:
        """Return f with margin ``d2(far) - d2(near) = f . b`` of comparisons, (n, q)."""
        rows, columns = np.triu_indices(self.axes.shape[1])
        factors, Z = np.where(rows == columns, 1.0, np.sqrt(2.0)), Y @ self.axes
        out = np.empty((len(asked), self.size))
        for begin in range(0, len(asked), _ANSWERS_AT_ONCE):
            a, b, c, d = asked[begin : begin + _ANSWERS_AT_ONCE].T
            some = out[begin : begin + _ANSWERS_AT_ONCE]
            far, near = Y[c] - Y[d], Y[a] - Y[b]
            some[:, 0] = (np.square(far).sum(axis=1) - np.square(near).sum(axis=1)) / self.unit
            far, near = Z[c] - Z[d], Z[a] - Z[b]
            np.multiply(far[:, rows], far[:, columns], out=some[:, 1:])
            some[:, 1:] -= near[:, rows] * near[:, columns]
            some[:, 1:] *= factors
        return out

    def given(self, scale: float = 1.0) -> FloatArray:
        """Return the coefficients of a multiple of the given metric, (q,)."""
        return scale * np.eye(1, self.size)[0]

    def cut(self, coefficients: FloatArray) -> FloatArray:
        """Return coefficients of metrics, (n, q), of which what is negative is cut off."""
        R: FloatArray = np.asarray(np.linalg.qr(self.axes, mode="r"))
        own = self._matrices(coefficients)
        lowest = np.maximum(coefficients[:, 0], 0.0) / self.unit
        lengths, turns = np.linalg.eigh(R @ own @ R.T + lowest[:, None, None] * np.eye(len(R)))
        kept = np.maximum(lengths, 0.0) - lowest[:, None]
        whole = (turns * kept[:, None, :]) @ turns.transpose(0, 2, 1)
        inner = np.linalg.solve(R, np.linalg.solve(R, whole).transpose(0, 2, 1))
        rows, columns = np.triu_indices(len(R))
        factors = np.where(rows == columns, 1.0, np.sqrt(2.0))
        return np.column_stack([lowest * self.unit, inner[:, rows, columns] * factors])

    def components(self, coefficients: FloatArray, L: FloatArray) -> FloatArray:
        """Return the linear map of a metric, (rank, d); what is negative is cut off."""
        own = self._matrices(coefficients[None])[0]
        M = max(coefficients[0], 0.0) / self.unit * np.eye(len(self.axes))
        M += self.axes @ own @ self.axes.T
        lengths, turns = np.linalg.eigh(0.5 * (M + M.T))
        mapped = (turns * np.sqrt(np.maximum(lengths, 0.0))).T[::-1] @ L
        return np.asarray(mapped)

    def parts(self, L: FloatArray, moments: FloatArray) -> FloatArray:
        """Return what each coefficient adds to the mean squared distance by each feature, (d, q).

        ``moments`` are sums of products of features and samples mapped by L, (d, rank): feature f
        adds ``sum_g M_fg moments of f and g``.
        """
        rows, columns = np.triu_indices(self.axes.shape[1])
        P, Q = moments @ self.axes, L.T @ self.axes
        both = P[:, rows] * Q[:, columns] + P[:, columns] * Q[:, rows]
        factors = np.where(rows == columns, 0.5, np.sqrt(0.5))
        whole = np.sum(moments * L.T, axis=1) / self.unit
        return np.column_stack([whole, both * factors])

    def _matrices(self, coefficients: FloatArray) -> FloatArray:
        """Return B for each row of coefficients, (n, m, m)."""
        m = self.axes.shape[1]
        rows, columns = np.triu_indices(m)
        entries = coefficients[:, 1:] * np.where(rows == columns, 1.0, np.sqrt(0.5))
        out = np.zeros((len(coefficients), m, m))
        out[:, rows, columns] = out[:, columns, rows] = entries
        return out


def _find_wishes(Z: FloatArray, asked: IntArray) -> FloatArray:
    """Return orthonormal axes, (m, 12), along which the answers ask most for distance.

    What a kind of people looks at is among them, however few look at it: all answers speak about
    it, and noise has no direction.
    """
    a, b, c, d = asked.T
    far, near = Z[c] - Z[d], Z[a] - Z[b]
    lengths, turns = np.linalg.eigh(far.T @ far - near.T @ near)
    found: FloatArray = turns[:, np.argsort(-lengths)[:_MOST_AXES]]
    return found

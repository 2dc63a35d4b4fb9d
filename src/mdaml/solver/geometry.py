"""Symmetric positive definite matrices in a moving frame.

Eq. (2), the set of these matrices, is never left: a point is a square factor ``F`` with
``M = F F^T``. A tangent vector is a symmetric matrix ``h`` in the frame ``F`` and stands for
``F h F^T``. In these coordinates the affine-invariant metric is the Frobenius inner product, and no
inverse, square root or projection is ever needed.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdaml._typing import FloatArray


def namespace(A: Any) -> Any:
    """Return the library of an array: small matrices may be tensors, with the same code."""
    return sys.modules[type(A).__module__]


def dot(A: FloatArray, B: FloatArray) -> float:
    """Return the sum of the products of corresponding entries."""
    return float(np.vdot(A, B)) if isinstance(A, np.ndarray) else float((A * B).sum())


def norm(A: FloatArray) -> float:
    """Return the square root of the sum of squared entries."""
    return float(np.sqrt(dot(A, A)))


def log_det(A: FloatArray) -> float:
    """Return the logarithm of the absolute value of the determinant."""
    return float(namespace(A).linalg.slogdet(A)[1])


def gradient_in_frame(F: FloatArray, gradient: FloatArray) -> FloatArray:
    """Riemannian gradient at ``M = F F^T``, as a symmetric matrix in the frame ``F``.

    Eq. (3): ``M sym(gradient) M = F h F^T`` with ``h = F^T sym(gradient) F``.
    """
    # Deviates from the paper (1): this changes the metric of a gradient; it projects nothing.
    h = F.T @ gradient @ F
    return 0.5 * (h + h.T)


@dataclass(frozen=True)
class Geodesic:
    """The geodesic ``M(t) = basis diag(exp(t rates)) basis^T`` through a point.

    Eq. (4), of ``t`` times the direction. The frame moves along and is turned by ``rotation``, so
    that the direction of the curve is diagonal in it at all times; exact parallel transport is then
    that rotation.
    """

    basis: FloatArray  # (d, d)  F Q
    rates: FloatArray  # (d,)
    rotation: FloatArray  # (d, d)  Q, with direction = Q diag(rates) Q^T

    def frame(self, t: float) -> FloatArray:
        """Return a factor of ``M(t)``."""
        return self.basis * namespace(self.rates).exp(0.5 * t * self.rates)

    def transport(self, h: FloatArray) -> FloatArray:
        """Carry a tangent vector at the start to any later frame of the curve."""
        return self.rotation.T @ h @ self.rotation


def multiples(F: FloatArray) -> Geodesic:
    """Geodesic of the multiples ``exp(t) F F^T``."""
    ones = namespace(F).ones_like(F[0])
    return Geodesic(F, ones, namespace(F).diag(ones))


def geodesic(F: FloatArray, direction: FloatArray) -> Geodesic:
    """Geodesic that leaves ``M = F F^T`` in a direction given in the frame ``F``."""
    rates, rotation = namespace(direction).linalg.eigh(direction)
    return Geodesic(F @ rotation, rates, rotation)


def between(F: FloatArray, G: FloatArray, share: float) -> FloatArray:
    """Return a factor of the metric on the geodesic from ``F F^T`` to ``G G^T``; share 1: its end.

    Of full rank ``M(s) = F (F^-1 G G^T F^-T)^s F^T``, the way of equal relative changes. Of low
    rank the straight line between the factors once G is turned to be as near to F as it can: the
    geodesic of Bures and Wasserstein, which keeps the rank.
    """
    if share >= 1.0:
        return G
    if F.shape[0] > F.shape[1]:
        return (1.0 - share) * F + share * _turned(F, G)
    axes, lengths, _ = np.linalg.svd(np.linalg.solve(F, G))
    return F @ (axes * lengths**share)


def nearest_multiple(F: FloatArray, G: FloatArray) -> FloatArray:
    """Return the multiple of F whose metric is nearest to that of G, along such geodesics."""
    if F.shape[0] > F.shape[1]:
        return F * (float(np.vdot(F, _turned(F, G))) / float(np.vdot(F, F)))
    return F * float(np.exp((log_det(G) - log_det(F)) / len(F)))


def shrink(F: FloatArray, origin: FloatArray, share: float) -> FloatArray:
    """Return F moved back to the nearest multiple of the origin, by a share of the way."""
    return F if share == 0.0 else between(nearest_multiple(origin, F), F, 1.0 - share)


def _turned(F: FloatArray, G: FloatArray) -> FloatArray:
    """Return G turned, which leaves its metric as it is, to be as near to F as it can."""
    left, _, right = np.linalg.svd(G.T @ F)
    return G @ (left @ right)

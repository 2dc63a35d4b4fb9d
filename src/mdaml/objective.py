"""The objective at fixed modes: Eq. (7) as a function of the metric alone.

With the modes fixed, Eq. (7) is ``<S, M> + sum_t c_t loss(t) + ridge/2 |M|^2`` with one scatter
matrix ``S`` and one weight per near pair: the number of modes has left the problem. Distances
belong to distinct pairs, and along a geodesic the squared distance of a pair is a sum of
exponentials, so that a step of a line search needs no new projection.
"""

from dataclasses import dataclass, replace

import numpy as np

from mdaml import kernels
from mdaml._typing import FloatArray
from mdaml.constraints import Comparisons
from mdaml.geometry import Geodesic, gradient_in_frame, multiples
from mdaml.kernels import CentredRows, Samples, namespace
from mdaml.optimize import Point


@dataclass(frozen=True)
class TripletObjective:
    """The full objective at fixed modes."""

    X: Samples  # (N, d) centred: the Laplacian form of the gradient needs it
    triplets: Comparisons
    importance: FloatArray  # (P,) self-weight of the triplets of each near pair
    loss_factor: float  # of all losses
    scatter: FloatArray  # (d, d) gradient of the clustering term
    ridge: float

    def at(self, F: FloatArray) -> Point:
        """Return value and gradient at ``M = F F^T``."""
        projected = kernels.rows_times(self.X, F)
        return self._point(F, projected, _ones(F), gradient_in_frame(F, self.scatter), F.T @ F)

    def along(self, point: Point, line: Geodesic) -> "TripletPath":
        """Return the objective along a geodesic that starts at ``point``."""
        turn = point.scale[:, None] * line.rotation
        origin = replace(
            point,
            F=line.basis,
            gradient=line.transport(point.gradient),
            projected=self._turned(point.projected, turn),
            scale=_ones(turn),
        )
        return self._path(line, origin)

    def among_multiples(self, F: FloatArray) -> "TripletPath":
        """Return the objective along the multiples of ``M = F F^T``."""
        projected = kernels.rows_times(self.X, F)
        return self._path(multiples(F), Point(F, np.nan, 0.0 * F, projected, _ones(F)))

    def _path(self, line: Geodesic, origin: Point) -> "TripletPath":
        scatter = gradient_in_frame(line.basis, self.scatter)
        return TripletPath(self, line, origin, scatter, line.basis.T @ line.basis)

    def _turned(self, projected: FloatArray, turn: FloatArray) -> FloatArray:
        """Turn the frame of projected samples; of large problems in place: no one else needs it."""
        if isinstance(self.X, CentredRows):
            return kernels.rows_times(projected, turn, out=projected)
        return kernels.rows_times(projected, turn)

    def _point(
        self,
        F: FloatArray,
        projected: FloatArray,
        scale: FloatArray,
        scatter: FloatArray,
        gram: FloatArray,
    ) -> Point:
        """Evaluate at F from ``X F = projected * scale``, ``F^T S F`` and ``F^T F``.

        Eq. (15), ``S + sum_t c_t loss'(t) (A_ir - A_ij) + ridge M``, carried into the frame:
        the middle sum is a graph Laplacian between the projected samples and themselves.
        """
        loss, half = half_scatter(
            self.X, self.triplets, F, projected, scale * scale, self.importance
        )
        half *= self.loss_factor
        half *= scale[:, None] * scale
        loss *= self.loss_factor
        return Point(F, *add_terms(loss, half, scatter, gram, self.ridge), projected, scale)


def half_scatter(
    X: Samples,
    triplets: Comparisons,
    F: FloatArray,
    Y: FloatArray,
    scales: FloatArray,
    importance: FloatArray,
) -> tuple[float, FloatArray]:
    """Return the loss for distances in Y, columns scaled, and half its gradient in Y's frame.

    The product of Laplacian and Y is made as a whole unless X is not: then memory is scarce.
    The gradient comes where F is.
    """
    if isinstance(X, CentredRows):
        return triplets.half_scatter(Y, scales, importance)
    loss, product = triplets.gradient(Y, scales, importance)
    return loss, kernels.cross_product(F, Y, product)


@dataclass(frozen=True)
class TripletPath:
    """A :class:`TripletObjective` along a geodesic, all in the frame of its origin."""

    objective: TripletObjective
    line: Geodesic
    origin: Point
    scatter: FloatArray  # (d, d)
    gram: FloatArray  # (d, d)

    def values(self, steps: FloatArray) -> FloatArray:
        """Return the values at four steps."""
        rates = self.line.rates
        growth = namespace(rates).exp(kernels.beside(rates, steps)[:, None] * rates)  # (4, d)
        losses = self.objective.triplets.losses_along(
            self.origin.projected, growth, self.objective.importance
        )
        losses *= self.objective.loss_factor
        return add_values(losses, growth, self.scatter, self.gram, self.objective.ridge)

    def at(self, step: float) -> Point:
        """Return the point reached by a step, without projecting the samples anew."""
        scale = namespace(self.line.rates).exp(0.5 * step * self.line.rates)
        both = scale[:, None] * scale
        return self.objective._point(
            self.line.frame(step),
            self.origin.projected,
            scale,
            self.scatter * both,
            self.gram * both,
        )


def add_terms(
    loss: float, half: FloatArray, scatter: FloatArray, gram: FloatArray, ridge: float
) -> tuple[float, FloatArray]:
    """Return value and gradient from those of the three terms, all in one frame.

    ``half`` plus its transpose is the gradient of the loss.
    """
    value = float(scatter.trace()) + loss + 0.5 * ridge * kernels.dot(gram, gram)
    # F^T M F = (F^T F)^2
    return value, scatter + half + half.T + ridge * (gram @ gram)


def add_values(
    losses: FloatArray, growth: FloatArray, scatter: FloatArray, gram: FloatArray, ridge: float
) -> FloatArray:
    """Return the values where the squared columns of the frame have grown, from the losses."""
    overlap = ((growth @ (gram * gram)) * growth).sum(axis=1)
    return kernels.to_host(growth @ scatter.diagonal() + 0.5 * ridge * overlap) + losses


def _ones(F: FloatArray) -> FloatArray:
    return namespace(F).ones_like(F[0])

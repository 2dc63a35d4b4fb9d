"""Two spaces of metrics: of full rank in a moving frame, and of low rank by their factors."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mdaml._typing import FloatArray
from mdaml.solver.geometry import (
    Geodesic,
    dot,
    geodesic,
    gradient_in_frame,
    log_det,
    multiples,
    namespace,
    norm,
)
from mdaml.solver.objective import Objective
from mdaml.solver.store import Projected, Store

# A step changes no eigenvalue of M by more than exp(2). A direction that a step has all but erased
# hardly comes back, because its gradient shrinks with it; with exp(8) single problems stayed 20 %
# above the optimum that they reach with exp(2).
LARGEST_CHANGE = 2.0
DAMPING = 0.3  # mean variances added to the covariance that preconditions; see docs/solver.md
FIRST_STEP = 0.1  # of the length of F
# The first step along a direction that is divided by the curvature, which is overestimated: best
# steps are between 3 and 7 on all problems tried, at all stages of a fit.
NATURAL_STEP = 4.0


# Full rank.


@dataclass(frozen=True)
class FramePoint:
    """A metric of full rank, the objective and its gradient there, and the projected samples.

    The projection is kept as ``projected * scale``: a step along a geodesic changes only the scale.
    """

    F: FloatArray  # (d, d)
    value: float
    gradient: FloatArray  # (d, d) in the frame F
    projected: Projected  # (N, d) X F == projected * scale
    scale: FloatArray  # (d,)
    scatter: FloatArray  # (d, d) the gradient of all that is linear in M, in the frame F
    log_det: float  # of M


class FullRank:
    """Positive definite metrics, along geodesics: see :mod:`mdaml.solver.geometry`."""

    def at(self, objective: Objective, F: FloatArray) -> FramePoint:
        """Return value and gradient at ``M = F F^T``."""
        projected = objective.store.project(F)
        scatter = gradient_in_frame(F, objective.scatter)
        size = 2.0 * log_det(F)
        return _frame_point(objective, F, projected, _ones(F), scatter, F.T @ F, size)

    def along(
        self, objective: Objective, point: FramePoint, gradient: FloatArray, direction: FloatArray
    ) -> "GeodesicPath":
        """Return the objective along the geodesic in a direction given in the frame."""
        line = geodesic(point.F, direction)
        turn = point.scale[:, None] * line.rotation
        origin = replace(
            point,
            F=line.basis,
            gradient=line.transport(gradient),
            projected=objective.store.turn(point.projected, turn),
            scale=_ones(turn),
            scatter=gradient_in_frame(line.basis, objective.scatter),
        )
        return GeodesicPath(objective, line, origin)

    def multiples(self, objective: Objective, F: FloatArray) -> "GeodesicPath":
        """Return the objective along the multiples of ``M = F F^T``."""
        projected, scatter = objective.store.project(F), gradient_in_frame(F, objective.scatter)
        origin = FramePoint(F, np.nan, 0.0 * F, projected, _ones(F), scatter, 2.0 * log_det(F))
        return GeodesicPath(objective, multiples(F), origin)

    def gradient(self, objective: Objective, point: FramePoint) -> FloatArray:  # noqa: ARG002
        """Return the gradient, which is known at every point."""
        return point.gradient

    def steepest(self, objective: Objective, point: FramePoint, gradient: FloatArray) -> FloatArray:
        """Return minus the gradient; next to an anchor, divided by how curved the objective is.

        The paper takes the gradient as it is. A direction that is nearly erased then has a
        gradient of the size of the anchor alone, and comes back only after thousands of steps. Each
        eigenvalue of M should change by about a factor of e instead: with the gradient H without
        the barrier of the anchor, whose strength is s, and the scatter S in the frame, the
        curvature is taken to be ``sqrt(H^2 + (s I + w S)^2)`` for a weight w of all losses. See
        docs/solver.md.
        """
        strength = objective.anchor.strength
        if not strength:
            return -gradient
        identity = namespace(gradient).diag(_ones(gradient))
        smooth = gradient + strength * identity
        weight = objective.loss_factor * objective.store.total
        damping = strength * identity + weight * point.scatter
        squares, axes = namespace(gradient).linalg.eigh(smooth @ smooth + damping @ damping)
        curvature = squares.clip(strength * strength) ** 0.5
        inside = axes.T @ gradient @ axes / (0.5 * (curvature[:, None] + curvature))
        return -(axes @ inside @ axes.T)

    def gap(self, objective: Objective, point: FramePoint) -> float:
        """Return a bound of how much lower the best metric at these modes is: a certificate.

        The objective is ``p(M) - s log det M`` with a convex p and the strength s of the anchor. A
        plane below p bounds it: with the eigenvalues h of the gradient of p in the frame, by
        ``sum(h - s - s log(h / s))``; infinite if one of them is not positive, or without anchor.
        """
        strength = objective.anchor.strength
        slopes = namespace(point.F).linalg.eigvalsh(point.gradient)
        relative = 1.0 + slopes / strength if strength else 0.0 * slopes
        if not float(relative.min()) > 0.0:
            return float("inf")
        return strength * float((relative - 1.0 - namespace(point.F).log(relative)).sum())

    def gain(self, point: FramePoint, gradient: FloatArray) -> float:  # noqa: ARG002
        """Return the length of the gradient: the frame makes changes relative."""
        return norm(gradient)


@dataclass(frozen=True)
class GeodesicPath:
    """An objective along a geodesic, all in the frame of its origin.

    The squared distance of a pair is a sum of exponentials there: a step needs no new projection.
    """

    objective: Objective
    line: Geodesic
    origin: FramePoint

    @property
    def gradient(self) -> FloatArray:
        """The gradient at the origin."""
        return self.origin.gradient

    @cached_property
    def direction(self) -> FloatArray:
        """The direction, diagonal in the frame."""
        return namespace(self.line.rates).diag(self.line.rates)

    @cached_property
    def _gram(self) -> FloatArray:
        return self.line.basis.T @ self.line.basis

    @cached_property
    def _scale(self) -> float:
        return 1.0 / float(abs(self.line.rates).max())

    @property
    def limit(self) -> float:
        """The step that changes an eigenvalue of M by ``exp(LARGEST_CHANGE)``."""
        return LARGEST_CHANGE * self._scale

    def first_step(self, value: float, last: float | None = None, equal: float = 0.0) -> float:
        """Return the step to try first.

        Next to an anchor directions have a natural length, so that steps are much alike. Otherwise
        it is the step whose first-order decrease is that of the last one or, without a last one,
        the order of magnitude of the best step, from four values per pass.
        """
        if self.objective.anchor.strength:
            return NATURAL_STEP if last is None else (NATURAL_STEP * last) ** 0.5
        if last is not None:
            return equal
        steps = self._scale * np.array([1 / 64, 1 / 16, 1 / 4, 1.0])
        for _ in range(12):
            values = self.values(steps)
            lowest = int(np.argmin(values))
            if values[lowest] < value:
                break
            steps = steps / 256
        return float(steps[lowest])

    def values(self, steps: FloatArray) -> FloatArray:
        """Return the values at four steps, from one pass over the pairs."""
        rates, objective = self.line.rates, self.objective
        # (4, d), where the rates are
        growth = namespace(rates).exp(objective.store.small(steps)[:, None] * rates)
        losses = objective.store.losses_along(self.origin.projected, growth, objective.importance)
        losses *= objective.loss_factor
        overlap = ((growth @ (self._gram * self._gram)) * growth).sum(axis=1)
        others = growth @ self.origin.scatter.diagonal() + 0.5 * objective.ridge * overlap
        if objective.anchor.strength:
            sizes = self.origin.log_det + steps * float(rates.sum())
            losses += objective.anchor.beside_trace(sizes, len(rates))
        return objective.store.host(others) + losses

    def at(self, step: float) -> FramePoint:
        """Return the point reached by a step, without projecting the samples anew."""
        scale = namespace(self.line.rates).exp(0.5 * step * self.line.rates)
        both = scale[:, None] * scale
        F, projected = self.line.frame(step), self.origin.projected
        size = self.origin.log_det + step * float(self.line.rates.sum())
        return _frame_point(
            self.objective, F, projected, scale, self.origin.scatter * both, self._gram * both, size
        )

    def slope(self, point: FramePoint) -> float:
        """Return the derivative along the geodesic."""
        return float(point.gradient.diagonal() @ self.line.rates)


def _frame_point(
    objective: Objective,
    F: FloatArray,
    projected: Projected,
    scale: FloatArray,
    scatter: FloatArray,
    gram: FloatArray,
    size: float,
) -> FramePoint:
    """Evaluate at F from ``X F = projected * scale``, ``F^T S F``, ``F^T F`` and ``log det M``.

    Eq. (15), ``S + sum_t c_t loss'(t) (A_ir - A_ij) + ridge M``, carried into the frame: the middle
    sum is a graph Laplacian between the projected samples and themselves. An anchor adds
    ``strength * (A^-1 - M^-1)``, whose last part is a multiple of the identity in any frame.
    """
    loss, half = objective.store.loss_and_half(projected, scale * scale, objective.importance)
    half *= objective.loss_factor
    half *= scale[:, None] * scale
    ridge = objective.ridge
    value = float(scatter.trace()) + objective.loss_factor * loss + 0.5 * ridge * dot(gram, gram)
    # F^T M F = (F^T F)^2
    gradient = scatter + half + half.T + ridge * (gram @ gram)
    if objective.anchor.strength:
        value += objective.anchor.beside_trace(size, len(F))
        gradient -= objective.anchor.strength * namespace(F).diag(_ones(F))
    return FramePoint(F, value, gradient, projected, scale, scatter, size)


def _ones(F: FloatArray) -> FloatArray:
    return namespace(F).ones_like(F[0])


# Low rank.


@dataclass(frozen=True)
class FactorPoint:
    """A factor, the objective there, and its derivatives in all that depends on the factor."""

    F: FloatArray  # (d, r)
    projected: Projected  # (N, r) X F
    centers: FloatArray  # (K, r) of the modes, times F
    value: float
    by_samples: Projected  # (N, r) derivative in X F
    by_centers: FloatArray  # (K, r) derivative in the mapped centres
    by_factor: FloatArray  # (d, r) derivative of ridge and anchor, which need no samples


@dataclass(frozen=True)
class LowRank:
    """Metrics ``F F^T`` by their factors (d, r), along lines: for features by the thousand.

    At fixed modes Eq. (7) is a function of the mapped samples X F, of the mapped centres and, in
    its ridge, of ``F^T F``: two products with X of O(N d r), and no array of shape (d, d). The
    principal axes of the samples precondition the gradient.
    """

    axes: FloatArray  # (d, m) principal axes of the samples, the longest first
    excess: FloatArray  # (m, 1) what the preconditioner takes off along each of them

    @classmethod
    def among(
        cls, store: Store, axes: FloatArray, variances: FloatArray, level: float
    ) -> "LowRank":
        """Precondition by the covariance plus ``DAMPING`` mean variances, up to a common factor.

        All directions other than the axes count as if they had the variance of the last axis.
        """
        damped = variances + DAMPING * level
        excess = 1.0 - damped[-1] / damped if DAMPING * level > 0.0 else 0.0 * damped
        return cls(store.small(axes), store.small(excess[:, None]))

    def at(self, objective: Objective, F: FloatArray) -> FactorPoint:
        """Return the point ``M = F F^T``: one product with X."""
        return _factor_point(objective, F, *_map(objective, F))

    def along(
        self, objective: Objective, point: FactorPoint, gradient: FloatArray, direction: FloatArray
    ) -> "LinePath":
        """Return the objective along a line: one product with X."""
        return LinePath(objective, point, gradient, direction, *_map(objective, direction))

    def gradient(self, objective: Objective, point: FactorPoint) -> FloatArray:
        """Return the derivative in F by the chain rule: one product with X."""
        store = objective.store
        gradient = store.cross(point.by_samples)
        gradient += store.small(objective.modes.centers.astype(np.float64)).T @ point.by_centers
        gradient += point.by_factor
        return gradient

    def steepest(
        self,
        objective: Objective,  # noqa: ARG002
        point: FactorPoint,  # noqa: ARG002
        gradient: FloatArray,
    ) -> FloatArray:
        """Return minus the gradient, preconditioned."""
        return -(gradient - self.axes @ (self.excess * (self.axes.T @ gradient)))

    def gain(self, point: FactorPoint, gradient: FloatArray) -> float:
        """Return what a change of F by its own length along the gradient would gain."""
        return norm(gradient) * norm(point.F)


@dataclass(frozen=True)
class LinePath:
    """An objective along ``F + t D``: samples and centres move along lines too."""

    objective: Objective
    origin: FactorPoint
    gradient: FloatArray  # (d, r)
    direction: FloatArray  # (d, r) D
    projected: Projected  # (N, r) X D
    centers: FloatArray  # (K, r) of the modes, times D
    limit: float = np.inf

    def first_step(self, value: float, last: float | None = None, equal: float = 0.0) -> float:  # noqa: ARG002
        """Return the step that decreases as much as the last one, or changes F by a tenth."""
        if last is not None:
            return equal
        return FIRST_STEP * (norm(self.origin.F) / norm(self.direction))

    def at(self, step: float) -> FactorPoint:
        """Return the point reached by a step, without a product with X."""
        return _factor_point(
            self.objective,
            self.origin.F + step * self.direction,
            self.objective.store.shift(self.origin.projected, step, self.projected),
            self.origin.centers + step * self.centers,
        )

    def slope(self, point: FactorPoint) -> float:
        """Return the derivative along the line."""
        return (
            self.objective.store.inner(point.by_samples, self.projected)
            + dot(point.by_centers, self.centers)
            + dot(point.by_factor, self.direction)
        )


def _map(objective: Objective, F: FloatArray) -> tuple[Projected, FloatArray]:
    """Return the samples and the centres, mapped by a factor in the precision of the samples."""
    store = objective.store
    return store.project(F), store.map_centers(objective.modes.centers, F)


def _factor_point(
    objective: Objective, F: FloatArray, Y: Projected, centers: FloatArray
) -> FactorPoint:
    """Evaluate at F from ``Y = X F`` and the mapped centres, without a product with X.

    The derivatives together are the gradient in the metric times 2 F. The value of the clustering
    term is taken from differences, which rounding cannot make negative.
    """
    store, ridge, modes = objective.store, objective.ridge, objective.modes
    clustering, loss, by_samples, by_centers = store.pull(
        Y, centers, modes.weights, objective.importance, objective.loss_factor
    )
    gram = F.T @ F
    value = (
        clustering / (store.shape[0] * modes.n_modes)
        + objective.loss_factor * loss
        + 0.5 * ridge * dot(gram, gram)
    )
    by_factor = (2.0 * ridge) * (F @ gram)
    anchor = objective.anchor
    if anchor.strength:
        pulled = anchor.times(F)
        inside = F.T @ pulled
        value += anchor.value(inside)
        if anchor.barrier:
            pulled = pulled - namespace(F).linalg.solve(inside, pulled.T).T
        by_factor = by_factor + (2.0 * anchor.strength) * pulled
    return FactorPoint(F, Y, centers, float(value), by_samples, by_centers, by_factor)

"""The alternation of centres, weights and metric."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mdaml import kernels
from mdaml._typing import FloatArray
from mdaml.constraints import Comparisons
from mdaml.kernels import CentredRows, Samples
from mdaml.modes import Modes, Neighbors, clustering_scatter, update_centers, update_weights
from mdaml.objective import TripletObjective, half_scatter
from mdaml.optimize import Status, best_multiple, conjugate_gradient

Callback = Callable[[int, float], bool | None]
# When a start is scaled; see docs/solver.md.
BETTER, FAR_BETTER = 4.0, 10.0  # times lower is the objective
MUCH_WIDER = 10.0  # times longer are squared distances
NARROWEST = 3.0  # margins, the mean squared distance


@dataclass(frozen=True)
class State:
    """Metric and modes, with what Eq. (7) is made of at them."""

    F: FloatArray  # (d, d)
    modes: Modes
    sq_dists: FloatArray  # (N, K) of samples to centres
    losses: FloatArray  # (P,) summed over the triplets of each near pair
    importance: FloatArray  # (P,) self-weight of the triplets of each near pair
    value: float


@dataclass(frozen=True)
class LocalProblem:
    """Data and supervision in this machine's memory, as Algorithm 2 sees them."""

    X: Samples  # (N, d) centred
    triplets: Comparisons  # or other comparisons: each has a near pair and a far pair
    neighbors: Neighbors
    eta: float
    triplet_weight: float
    ridge: float
    max_inner_iter: int

    def start(self, F: FloatArray, modes: Modes) -> State:
        """Return the state at a given metric and given modes."""
        importance = self.triplets.importances(modes.powers)
        return self._at_metric(F, modes, importance)

    def rescaled(self, state: State) -> tuple[float, State]:
        """Return the best multiple of the metric, and the state there."""
        multiple, F = self._best_multiple(state)  # whose projected samples are gone by now
        return multiple, self._at_metric(kernels.to_host(F), state.modes, state.importance)

    def _best_multiple(self, state: State) -> tuple[float, FloatArray]:
        F = kernels.small_matrix(self.X, state.F)
        path = self._objective_beside(state).among_multiples(F)
        sum_of_squares = kernels.sum_of_squares(path.origin.projected)
        return best_multiple(path, least_multiple(2.0 * sum_of_squares / len(self.X)))

    def move_centers(self, state: State) -> State:
        """Return the state with the best centres."""
        modes = update_centers(self.X, state.modes)
        sq_dists = _center_sq_dists(self._project(state.F), state.F, modes)
        return self._valued(replace(state, modes=modes, sq_dists=sq_dists))

    def move_weights(self, state: State) -> State:
        """Return the state with better weights."""
        modes = update_weights(
            state.modes,
            state.sq_dists / len(self.X),
            state.losses * (self.triplet_weight / self.triplets.total),
            self.neighbors.with_graph(self.triplets),
            self.eta,
        )
        importance = self.triplets.importances(modes.powers)
        return self._valued(replace(state, modes=modes, importance=importance))

    def move_metric(self, state: State) -> State:
        """Return the state with a better metric."""
        F = kernels.small_matrix(self.X, state.F)
        objective = self._objective_beside(state)
        result = conjugate_gradient(objective, F, max_iter=self.max_inner_iter)
        return self._at_metric(kernels.to_host(result.F), state.modes, state.importance)

    def objective(self, state: State) -> TripletObjective:
        """Return Eq. (7) as a function of the metric alone, at the modes of a state."""
        return TripletObjective(
            self.X,
            self.triplets,
            state.importance,
            self._loss_factor(state.modes),
            clustering_scatter(self.X, state.modes),
            self.ridge,
        )

    def _objective_beside(self, state: State) -> TripletObjective:
        """Return the objective with its matrices, if they are large, where the samples are."""
        objective = self.objective(state)
        return replace(objective, scatter=kernels.small_matrix(self.X, objective.scatter))

    def critical_triplet_weight(self, state: State) -> float:
        """Return the triplet weight up to which, at the modes of a state, zero is the best metric.

        It is, as long as the gradient there, ``S - triplet_weight * B``, is positive semi-definite:
        up to one over the largest eigenvalue of the push B relative to the scatter S.
        """
        # At distance zero every triplet has slope -1.
        nowhere = np.zeros(self.X.shape[1])
        Y = self.X[:] if isinstance(self.X, CentredRows) else self.X
        _, half = half_scatter(self.X, self.triplets, state.F, Y, nowhere, state.importance)
        half *= self._loss_factor(state.modes) / self.triplet_weight
        scatter = clustering_scatter(self.X, state.modes)
        return critical_weight(half, scatter, kernels.precision(self.X))

    def mean_loss(self, state: State) -> float:
        """Return the weighted mean loss of the comparisons; with a zero metric it is 1/2."""
        weighed = float(kernels.inner_product(state.importance, self.triplets.near_totals))
        loss = float(kernels.inner_product(state.importance, state.losses))
        return loss / weighed if weighed > 0.0 else 0.0

    def _at_metric(self, F: FloatArray, modes: Modes, importance: FloatArray) -> State:
        projected = self._project(F)
        return self._valued(
            State(
                F=F,
                modes=modes,
                sq_dists=_center_sq_dists(projected, F, modes),
                losses=self.triplets.losses(projected),
                importance=importance,
                value=np.nan,
            )
        )

    def _project(self, F: FloatArray) -> FloatArray:
        return kernels.rows_times(self.X, F)

    def _loss_factor(self, modes: Modes) -> float:
        return self.triplet_weight / (modes.weights.shape[1] * self.triplets.total)

    def _valued(self, state: State) -> State:
        """Fill in the value.

        Eq. (7): ``1/(NK) sum_ik w_ik**eta d(x_i, c_k) + lambda_1/(KT) sum_t omega_t loss_t +
        lambda_2/2 |M|^2``, with the losses already summed over the triplets of each near pair.
        """
        powers = state.modes.powers
        clustering = kernels.inner_product(powers, state.sq_dists) / prod(powers.shape)
        losses = kernels.inner_product(state.importance, state.losses)
        triplet = self._loss_factor(state.modes) * losses
        return replace(state, value=float(clustering + triplet + penalty(state.F, self.ridge)))


def least_multiple(mean_sq_dist: float) -> float:
    """Return by what a metric may be multiplied at least, given its mean squared distance.

    Comparisons that the features hardly explain are met best by no distance at all: not a start.
    """
    return min(1.0, NARROWEST / mean_sq_dist) if mean_sq_dist > 0.0 else 1.0


def penalty(F: FloatArray, ridge: float) -> float:
    """Return the last term of Eq. (7) at ``M = F F^T``."""
    gram = F.T @ F
    return float(0.5 * ridge * np.vdot(gram, gram))


def critical_weight(half: FloatArray, scatter: FloatArray, dtype: npt.DTypeLike) -> float:
    """Return one over the largest eigenvalue of the push relative to the scatter.

    ``half`` plus its transpose is minus the push, of a triplet weight of one, at distance zero.
    """
    spread, axes = np.linalg.eigh(scatter)
    seen = spread > len(spread) * np.finfo(dtype).eps * spread[-1]
    if not seen.any():
        return 0.0
    whitening = axes[:, seen] / np.sqrt(spread[seen])
    highest = float(np.linalg.eigvalsh(-whitening.T @ (half + half.T) @ whitening)[-1])
    return 1.0 / highest if highest > 0.0 else float("inf")


def _center_sq_dists(projected: FloatArray, F: FloatArray, modes: Modes) -> FloatArray:
    centers = modes.centers @ F.astype(modes.centers.dtype)
    return kernels.center_sq_dists(projected, centers)


class Valued(Protocol):
    """A state, as far as the alternation looks into it."""

    @property
    def value(self) -> float:
        """The objective, Eq. (7)."""


S = TypeVar("S", bound=Valued)


class Problem(Protocol[S]):
    """Data and supervision, wherever they are kept: three moves, each to a state of its own."""

    def rescaled(self, state: S) -> tuple[float, S]:
        """Return the best multiple of the metric, and the state there."""

    def move_centers(self, state: S) -> S:
        """Return the state with the best centres."""

    def move_weights(self, state: S) -> S:
        """Return the state with better weights."""

    def move_metric(self, state: S) -> S:
        """Return the state with a better metric."""


@dataclass(frozen=True)
class Outcome(Generic[S]):
    """Where the alternation ended and how it got there."""

    state: S
    n_iter: int
    status: Status
    history: list[float]


def alternate(
    problem: Problem[S],
    state: S,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> Outcome[S]:
    """Improve centres, weights and metric in turn until the objective settles.

    Algorithm 2. The objective is recorded after the start and after every move; a move that does
    not lower it, because nothing is left to gain but rounding, is not made.
    """
    history, status, n_iter = [state.value], Status.MAX_ITER, 0
    while n_iter < max_iter and status is Status.MAX_ITER:
        before = state.value
        for move in (problem.move_centers, problem.move_weights, problem.move_metric):
            candidate = move(state)
            state = candidate if candidate.value < state.value else state
            history.append(state.value)
        n_iter += 1
        if callback is not None and callback(n_iter, state.value):
            status = Status.STOPPED
        elif before - state.value <= tol * abs(before):
            status = Status.STALLED
    return Outcome(state, n_iter, status, history)


def better_start(problem: Problem[S], state: S) -> S:
    """Return a start or, where that is far better, the one at the best multiple of its metric.

    Squared distances grow with the number of features, the margin of a triplet does not. From a
    start hundreds of margins wide the first steps shrink a few directions much too far; the best
    multiple is then far better. Where it is somewhat better both are tried, and it is taken if it
    is better still after a round: a wide start that one round makes good leaves more directions to
    choose from. A start too narrow for any margin has nothing to recommend it.
    """
    # Deviates from the paper (11): it starts at the identity in any case.
    multiple, other = problem.rescaled(state)
    if multiple > MUCH_WIDER or state.value > FAR_BETTER * other.value:
        return other
    if state.value <= BETTER * other.value:
        return state
    from_here, from_there = (
        alternate(problem, start, max_iter=1, tol=0.0).state.value for start in (state, other)
    )
    return other if from_here > BETTER * from_there else state

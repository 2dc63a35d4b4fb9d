"""The alternation of centres, weights and metric."""

from dataclasses import dataclass, replace

import numpy as np

from mdaml._typing import FloatArray
from mdaml.solver.conjugate_gradient import Status, conjugate_gradient
from mdaml.solver.geometry import shrink
from mdaml.solver.modes import Modes, clustering_scatter, update_centers, update_weights
from mdaml.solver.objective import NO_ANCHOR, Anchor, Objective, Space
from mdaml.solver.spaces import FullRank
from mdaml.solver.spec import Callback, Spec
from mdaml.solver.store import Importance, Measured, Store


@dataclass(frozen=True)
class State:
    """Metric and modes, with what Eq. (7) is made of at them."""

    F: FloatArray  # (d, r)
    modes: Modes
    measured: Measured | None  # None for a single mode, whose weights never change
    importance: Importance
    value: float
    lost: float = np.nan  # weighted losses of the comparisons


@dataclass(frozen=True)
class Outcome:
    """Where the alternation ended and how it got there."""

    state: State
    n_iter: int
    status: Status
    history: list[float]


@dataclass(frozen=True)
class Alternation:
    """The three moves over a store with its comparisons and a space, and their order."""

    store: Store
    space: Space
    spec: Spec
    anchor: Anchor = NO_ANCHOR
    origin: FloatArray | None = None  # factor of the metric to go back to, by the shrinkage

    def start(self, F: FloatArray, modes: Modes) -> State:
        """Return the state at a given metric and given modes."""
        modes = replace(modes, weights=self.store.adopt(modes.weights))
        return self._at_metric(F, modes, self._importances(modes))

    def move_centers(self, state: State) -> State:
        """Return the state with the best centres."""
        modes = update_centers(self.store, state.modes)
        if np.array_equal(modes.centers, state.modes.centers):  # as always of a single mode
            return state
        if state.measured is None:
            return self._at_metric(state.F, modes, state.importance)
        measured = self.store.recenter(state.measured, state.F, modes.centers)
        return self._valued(replace(state, modes=modes, measured=measured))

    def move_weights(self, state: State) -> State:
        """Return the state with better weights; those of a single mode are all one."""
        if state.modes.n_modes == 1:
            return state
        factor = (1.0 - self.spec.floor) * self.spec.triplet_weight / self.store.total
        modes = update_weights(self.store, state.modes, state.measured, factor, self.spec.eta)
        return self._valued(replace(state, modes=modes, importance=self._importances(modes)))

    def move_metric(self, state: State) -> State:
        """Return the state with a better metric."""
        F = self.store.small(state.F)
        result = conjugate_gradient(self.objective(state), F, max_iter=self.spec.max_inner_iter)
        return self.at_metric(self.store.host(result.F), state)

    def at_metric(self, F: FloatArray, state: State) -> State:
        """Return the state with another metric."""
        return self._at_metric(F, state.modes, state.importance)

    def objective(self, state: State) -> Objective:
        """Return Eq. (7) as a function of the metric alone, at the modes of a state."""
        return Objective(
            self.store,
            self.space,
            state.modes,
            state.importance,
            self._loss_factor(state.modes),
            self.spec.ridge,
            replace(self.anchor, precision=self.store.small(self.anchor.precision)),
        )

    def run(
        self, state: State, *, max_iter: int, tol: float, callback: Callback | None = None
    ) -> Outcome:
        """Improve centres, weights and metric in turn until the objective settles.

        Algorithm 2. The objective is recorded after the start and after every move. A move that
        does not lower it is not made: then only rounding is left to gain.
        """
        status, n_iter, history = Status.MAX_ITER, 0, [state.value]
        while n_iter < max_iter and status is Status.MAX_ITER:
            before = state.value
            for move in (self.move_centers, self.move_weights, self.move_metric):
                candidate = move(state)
                state = candidate if candidate.value < state.value else state
                del candidate  # the next move needs the memory
                history.append(state.value)
            n_iter += 1
            stop = callback is not None and bool(callback(n_iter, state.value))
            status = judge_round(before, state.value, tol, stop)
        return Outcome(state, n_iter, status, history)

    def factor(self, F: FloatArray) -> FloatArray:
        """Return a factor of the metric, moved back to the origin by the shrinkage.

        It lies on the geodesic from the metric of F to the nearest multiple of the origin.
        """
        if self.spec.keep_start or self.origin is None:
            return F
        return shrink(F, self.origin, self.spec.shrinkage)

    def critical_triplet_weight(self, F: FloatArray, modes: Modes) -> float:
        """Return the triplet weight up to which, at given modes, zero is the best metric.

        It is, as long as the gradient there, ``S - triplet_weight * B``, is positive semi-definite:
        up to one over the largest eigenvalue of the push B relative to the scatter S. Of low rank
        it is that of metrics in the span of F: no less than the critical weight among all
        directions, and the same as soon as the span holds the best of them. Next to an anchor
        zero is never the best.
        """
        if self.anchor.strength:
            return 0.0
        store, importance = self.store, self._importances(modes)
        if F.shape[1] < F.shape[0]:
            basis = np.linalg.qr(F)[0].astype(store.dtype)
            store, modes = store.mapped(basis), replace(modes, centers=modes.centers @ basis)
        half = store.push(importance)
        half *= self._loss_factor(modes) / self.spec.triplet_weight
        return _critical_weight(half, clustering_scatter(store, modes), store.dtype)

    def gap(self, state: State) -> float:
        """Return a bound: no metric of full rank is lower than this by more, at the same modes."""
        objective, space = self.objective(state), FullRank()
        return space.gap(objective, space.at(objective, self.store.small(state.F)))

    def mean_loss(self, state: State) -> float:
        """Return the weighted mean loss of the comparisons; with a zero metric it is 1/2."""
        weight = self.store.weight(state.importance)
        return state.lost / weight if weight > 0.0 else 0.0

    def _at_metric(self, F: FloatArray, modes: Modes, importance: Importance) -> State:
        measured = self.store.measure(F, modes.centers)
        return self._valued(State(F, modes, measured, importance, np.nan))

    def _importances(self, modes: Modes) -> Importance:
        return self.store.importances(modes.weights, self.spec.floor)

    def _loss_factor(self, modes: Modes) -> float:
        return self.spec.triplet_weight / (modes.n_modes * self.store.total)

    def _valued(self, state: State) -> State:
        """Fill in the value.

        Eq. (7): ``1/(NK) sum_ik w_ik**eta d(x_i, c_k) + lambda_1/(KT) sum_t omega_t loss_t +
        lambda_2/2 |M|^2``, with the losses already summed over the triplets of each near pair, and
        the divergence to the anchor.
        """
        modes = state.modes
        distances, losses = self.store.terms(modes.weights, state.measured, state.importance)
        clustering = distances / (self.store.shape[0] * modes.n_modes)
        triplet = self._loss_factor(modes) * losses
        gram = state.F.T @ state.F
        penalty = float(0.5 * self.spec.ridge * np.vdot(gram, gram))
        if self.anchor.strength:
            penalty += self.anchor.value(state.F.T @ self.anchor.times(state.F))
        # The weights of a single mode never change: what each pair loses is not needed again.
        measured = state.measured if modes.n_modes > 1 else None
        value = float(clustering + triplet + penalty)
        return replace(state, measured=measured, value=value, lost=losses)


def judge_round(before: float, after: float, tol: float, stop: bool) -> Status:
    """Return whether to go on after a round, given the objective before and after it."""
    if stop:
        return Status.STOPPED
    return Status.STALLED if before - after <= tol * abs(before) else Status.MAX_ITER


def _critical_weight(half: FloatArray, scatter: FloatArray, dtype: np.dtype) -> float:
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

"""One fit of a metric, whatever the supervision, the place and the space: the one road."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdaml._progress import report
from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import to_comparisons
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.solver.alternation import Alternation, Outcome, State
from mdaml.solver.conjugate_gradient import Status
from mdaml.solver.modes import Modes
from mdaml.solver.persons import MOST_PASSES, SMALL_CHANGE, Reliability, answer_losses
from mdaml.solver.spec import Spec
from mdaml.solver.start import better_start, start_metric, start_modes
from mdaml.solver.store import Store


@dataclass(frozen=True)
class Warm:
    """Metric and centres of an earlier fit, to go on from."""

    F: FloatArray  # (d, r)
    centers: FloatArray  # (K, d) less the mean of the samples


@dataclass(frozen=True)
class Fit:
    """What came of a fit."""

    F: FloatArray  # (d, r) factor of the metric
    centers: FloatArray  # (K, d) less the mean of the samples
    weights: FloatArray  # (N, K)
    comparisons: Constraints  # in force: triplets, or weighted quadruplets
    spec: Spec  # as it was used: modes counted, weight resolved
    critical_weight: float
    history: FloatArray
    pass_starts: IntArray
    n_iter: int
    mean_loss: float  # of the comparisons, weighted; with a zero metric it is 1/2
    status: Status  # of the last pass
    n_last: int  # rounds of the last pass
    persons: dict[str, Any] | None = None  # name, answers, error and weight of each

    def attributes(self, said: Any, mean: FloatArray) -> dict[str, Any]:
        """Return the learned attributes of an estimator, all but ``components_``.

        ``said`` is what was passed to fit, ``mean`` the mean of the samples.
        """
        return comparison_attributes(said, self.comparisons) | {
            "triplet_weight_": self.spec.triplet_weight,
            "eta_": self.spec.eta,
            "ridge_": self.spec.ridge,
            "anchor_": self.spec.anchor,
            "floor_": self.spec.floor,
            "shrinkage_": self.spec.shrinkage,
            "lambda1_critical_": self.critical_weight,
            "n_modes_": len(self.centers),
            "mode_clarity_": _clarity(self.weights),
            "centers_": self.centers + mean,
            "weights_": self.weights.astype(mean.dtype, copy=False),
            "history_": self.history,
            "pass_starts_": self.pass_starts,
            "n_iter_": self.n_iter,
            "persons_": self.persons,
            "n_samples_seen_": len(self.weights),
            "n_comparisons_seen_": self.comparisons.n_constraints,
        }


def _clarity(weights: FloatArray) -> float:
    """Return how clearly samples belong to one mode: from 0, to all alike, to 1."""
    n_modes = weights.shape[1]
    if n_modes == 1:
        return 1.0
    return float((weights.max(axis=1).mean() * n_modes - 1.0) / (n_modes - 1.0))


def comparison_attributes(said: Any, comparisons: Constraints) -> dict[str, Any]:
    """Return the learned attributes that say which comparisons are in force."""
    made = len(comparisons.quadruplets) > 0
    return {
        "triplets_": said.triplets if made else comparisons.triplets,
        "comparisons_": comparisons.quadruplets if made else None,
        "comparison_weights_": comparisons.weights if made else None,
    }


def fit_metric(
    spec: Spec,
    store: Store,
    said: Classes | Constraints,
    rng: np.random.RandomState,
    warm: Warm | None = None,
    persons: Persons | None = None,
) -> Fit:
    """Learn a metric from labels or constraints about the samples of a store.

    With persons, who gave each of the constraints, quadruplets, these are weighted by how often
    each person is wrong.
    """
    with store.threads():
        alternation, comparisons, F, modes = begin_fit(spec, store, said, rng, warm)
        # Comparisons that were passed, or drawn at random, do not depend on the metric.
        refreshed = isinstance(said, Classes) and spec.neighbors and warm is None
        n_refresh = spec.n_refresh if refreshed and not spec.keep_start else 0
        most = (1 + n_refresh) * spec.max_iter if persons is None else None
        passes = [_run(alternation, F, modes, 0, most, later=False)]
        for _ in range(n_refresh):
            state = passes[-1].state
            if passes[-1].status is Status.STOPPED:
                break
            del comparisons  # free them before others are drawn
            comparisons = draw_comparisons(spec, store, said, state.F, rng)
            alternation = replace(alternation, store=store.compare(comparisons))
            n_before = sum(done.n_iter for done in passes)
            passes.append(_run(alternation, state.F, state.modes, n_before, most, later=True))
        if persons is not None:
            return _weigh_persons(alternation, comparisons, passes, persons)
        return _gather(alternation, comparisons, passes)


def _weigh_persons(
    alternation: Alternation, comparisons: Constraints, passes: list[Outcome], persons: Persons
) -> Fit:
    """Go on from a pass in which all answers count alike: errors of persons and metric in turn.

    The term that errors add to the objective is added to all of its values.
    """
    first, factor = alternation, alternation.spec.triplet_weight / alternation.spec.n_modes
    done = passes.pop()
    reliable = Reliability.of_all(
        persons, comparisons.weights, *answer_losses(first, done.state, comparisons)
    )
    passes.append(_raised(done, factor * reliable.term()))
    if first.spec.keep_start:  # no answer counts more than another for a metric that stays
        table = reliable.updated(answer_losses(first, done.state, comparisons)[0]).table()
        return replace(_gather(first, comparisons, passes), persons=table)
    for _ in range(MOST_PASSES):
        if done.status is Status.STOPPED:
            break
        before = reliable
        reliable = before.updated(answer_losses(first, done.state, comparisons)[0])
        alternation = reliable.weigh(first, comparisons)
        n_before = sum(made.n_iter for made in passes)
        done = _run(alternation, done.state.F, done.state.modes, n_before, None, later=True)
        passes.append(_raised(done, factor * reliable.term()))
        if np.abs(reliable.errors - before.errors).max() < SMALL_CHANGE:
            break
    weights = reliable.base * reliable.weights[persons.codes]
    weighted = Constraints.of_quadruplets(comparisons.quadruplets, weights, comparisons.n_points)
    return replace(_gather(alternation, weighted, passes), persons=reliable.table())


def _raised(done: Outcome, term: float) -> Outcome:
    return replace(done, history=[value + term for value in done.history])


def begin_fit(
    spec: Spec,
    store: Store,
    said: Classes | Constraints,
    rng: np.random.RandomState,
    warm: Warm | None = None,
) -> tuple[Alternation, Constraints, FloatArray, Modes]:
    """Return all that is there before the first step: the comparisons, first metric and modes.

    The parameters of the alternation have the modes counted and the weight resolved.
    """
    report("start")
    spec = count_modes(spec, store)
    start = start_metric(spec, store, rng)
    F = start.F if warm is None else warm.F
    comparisons = draw_comparisons(spec, store, said, F, rng)
    report("start")
    alternation = Alternation(store.compare(comparisons), start.space, spec, start.anchor, start.F)
    if warm is None:
        modes = start_modes(spec, alternation.store, rng)
    else:
        modes = Modes(warm.centers, alternation.store.weights_at(F, warm.centers, spec.eta))
    return resolve_weight(alternation, F, modes), comparisons, F, modes


def count_modes(spec: Spec, store: Store) -> Spec:
    """Return the parameters with the modes counted in the samples, where that is wanted."""
    if not spec.count_modes:
        return spec
    n_modes = store.count_modes(spec.n_modes, np.random.RandomState(0))
    return replace(spec, n_modes=n_modes, count_modes=False)


def resolve_weight(alternation: Alternation, F: FloatArray, modes: Modes) -> Alternation:
    """Return the alternation with the weight of a mean comparison as that of all, if so meant."""
    spec = alternation.spec
    if not spec.mean_weight:
        return alternation
    weight = spec.triplet_weight / _mean_self_weight(alternation, F, modes)
    return replace(alternation, spec=replace(spec, triplet_weight=weight, mean_weight=False))


def draw_comparisons(
    spec: Spec,
    store: Store,
    said: Classes | Constraints,
    F: FloatArray,
    rng: np.random.RandomState,
) -> Constraints:
    """Return the comparisons passed, or triplets drawn from labels under the metric of F."""
    if isinstance(said, Constraints):
        return to_comparisons("MDaML", said, rng)
    if spec.neighbors:
        report("neighbours")
        near, far = store.nearest(F, said, spec.n_similar, spec.n_dissimilar)
        triplets = said.neighbor_triplets(near, far, spec.pairing)
    else:
        draws = np.random.default_rng(int(rng.randint(2**31 - 1)))
        triplets = said.random_triplets(spec.n_similar, spec.n_dissimilar, spec.pairing, draws)
    return Constraints.of_triplets(triplets, store.shape[0])


def _mean_self_weight(alternation: Alternation, F: FloatArray, modes: Modes) -> float:
    """Return the mean self-weight of the comparisons at the start."""
    state = alternation.start(F, modes)
    _, weight = alternation.store.lost(state.measured, state.importance)
    return weight / alternation.store.total


def _run(
    alternation: Alternation,
    F: FloatArray,
    modes: Modes,
    n_before: int,
    most: int | None,
    *,
    later: bool,
) -> Outcome:
    """Make one pass, with the comparisons of the store; ``most`` rounds are made in all passes."""
    spec = alternation.spec

    def tell(n: int, value: float) -> bool:
        report("rounds", n_before + n, most)
        return spec.callback is not None and bool(spec.callback(n_before + n, value))

    report("rounds", n_before, most)
    if spec.keep_start:  # a round in which nothing moves
        state = alternation.start(F, modes)
        return Outcome(state, 1, Status.STALLED, [state.value] * 4)
    return alternation.run(
        # Held by no name, so that the first round can free it.
        alternation.start(F, modes) if later else begin_at(alternation, F, modes),
        max_iter=spec.max_iter,
        tol=spec.tol,
        callback=tell,
    )


def begin_at(alternation: Alternation, F: FloatArray, modes: Modes) -> State | Outcome:
    """Return a start, scaled where that is wanted, or its first round if that has been made."""
    state = alternation.start(F, modes)
    return better_start(alternation, state) if alternation.spec.scale_metric else state


def _gather(alternation: Alternation, comparisons: Constraints, passes: list[Outcome]) -> Fit:
    state, lengths = passes[-1].state, [len(done.history) for done in passes]
    return Fit(
        F=alternation.factor(state),
        centers=state.modes.centers,
        weights=alternation.store.fetch_weights(state.modes.weights),
        comparisons=comparisons,
        spec=alternation.spec,
        critical_weight=alternation.critical_triplet_weight(state),
        history=np.concatenate([done.history for done in passes]),
        pass_starts=np.cumsum([0, *lengths[:-1]]),
        n_iter=sum(done.n_iter for done in passes),
        mean_loss=alternation.mean_loss(state),
        status=passes[-1].status,
        n_last=passes[-1].n_iter,
    )

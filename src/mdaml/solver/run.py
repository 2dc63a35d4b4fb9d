"""The one road of every fit: a problem, and a run of it that can be left and taken up again."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mdaml._progress import report
from mdaml._typing import FloatArray, Rng
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import to_comparisons
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.solver.alternation import Alternation, Outcome, State, judge_round
from mdaml.solver.conjugate_gradient import Status
from mdaml.solver.fit import Fit
from mdaml.solver.modes import Modes
from mdaml.solver.persons import MOST_PASSES, SMALL_CHANGE, Reliability, answer_losses
from mdaml.solver.spec import Spec
from mdaml.solver.start import better_start, start_metric, start_modes
from mdaml.solver.store import Store


@dataclass(frozen=True)
class Problem:
    """What is to be minimised: parameters and supervision, whatever the store and the start.

    If ``persons`` says who gave each constraint, the constraints are quadruplets, weighted by how
    often their person is wrong.
    """

    spec: Spec
    supervision: Classes | Constraints
    persons: Persons | None = None

    def start(
        self,
        store: Store,
        rng: Rng,
        F: FloatArray | None = None,
        centers: FloatArray | None = None,
    ) -> "Run":
        """Return a run before its first round, or after it if the start had to make one.

        ``F`` and ``centers``, less the mean of the samples, are a metric and centres that were
        learned before: the run goes on from them, the anchor stays, and neighbours are not searched
        again later.
        """
        report("start")
        spec = count_modes(self.spec, store)
        spec = spec if F is None else replace(spec, n_refresh=0)
        start = start_metric(spec, store, rng)
        first = start.F if F is None else F
        comparisons = draw_comparisons(spec, store, self.supervision, first, rng)
        report("start")
        placed = store.compare(comparisons)
        alternation = Alternation(placed, start.space, spec, start.anchor, start.F)
        if centers is None:
            modes = start_modes(spec, placed, rng)
        else:
            modes = Modes(centers, placed.weights_at(first, centers, spec.eta))
        alternation = resolve_weight(alternation, first, modes)
        run = Run(self, store, alternation, comparisons, first, modes, rng)
        scaled = spec.scale_metric and F is None and not spec.keep_start
        return run.scale_start() if scaled else run

    def solve(self, store: Store, rng: Rng) -> Fit:
        """Return what a whole run learns from the samples of a store."""
        with store.threads():
            return self.start(store, rng).complete().finish()


@dataclass(frozen=True)
class Pass:
    """Rounds with the same comparisons and parameters."""

    values: tuple[float, ...] = ()  # of the objective, after the start and after every move
    n_rounds: int = 0
    n_told: int = 0  # rounds reported to the callback
    status: Status = Status.MAX_ITER
    term: float = 0.0  # what the errors of persons add to all values


@dataclass(frozen=True)
class Run:
    """Where a fit is. Never changed: every method returns another run, and nothing is lost.

    What has an entry for each pair is not kept between rounds, but computed again.
    """

    problem: Problem
    store: Store  # of the samples
    alternation: Alternation  # over the comparisons in force, with the parameters in force
    comparisons: Constraints
    F: FloatArray  # (d, r) factor of the metric
    modes: Modes
    rng: Rng
    passes: tuple[Pass, ...] = (Pass(),)
    mean_loss: float = float("nan")
    alike: Alternation | None = None  # with persons: all answers count alike
    reliability: Reliability | None = None

    @property
    def spec(self) -> Spec:
        """The parameters in force."""
        return self.alternation.spec

    @property
    def is_stopped(self) -> bool:
        """Whether the callback asked for an end."""
        return self.passes[-1].status is Status.STOPPED

    @property
    def n_redraws(self) -> int:
        """How often partners are drawn again in a whole run; only neighbours are."""
        drawn = isinstance(self.problem.supervision, Classes) and self.spec.neighbors
        return self.spec.n_refresh if drawn and not self.spec.keep_start else 0

    @property
    def metric(self) -> FloatArray:
        """A factor of the metric, (d, r), moved back to the start by the shrinkage."""
        return self.alternation.factor(self.F)

    def scale_start(self) -> "Run":
        """Return the run from the best multiple of the start, if that is far better.

        It includes its first round if that was needed to decide.
        """
        begun = better_start(self.alternation, self.alternation.start(self.F, self.modes))
        if isinstance(begun, State):
            return replace(self, F=begun.F)
        loss = self.alternation.mean_loss(begun.state)
        made = Pass(tuple(begun.history), n_rounds=1)
        state = begun.state
        return replace(self, F=state.F, modes=state.modes, passes=(made,), mean_loss=loss)

    def advance(self, n_rounds: int) -> "Run":
        """Make rounds of centres, weights and metric: fewer if the objective settles.

        ``run.advance(2).advance(8)`` is ``run.advance(10)``.
        """
        report("rounds", sum(made.n_told for made in self.passes), self._most)
        run = self
        if self.passes[-1].n_told < self.passes[-1].n_rounds and n_rounds > 0:
            run, n_rounds = self._tell_first(), n_rounds - 1
        last, alternation = run.passes[-1], run.alternation
        if last.status is not Status.MAX_ITER or n_rounds < 1:
            return run
        if run.spec.keep_start:  # a round in which nothing moves
            state = alternation.start(run.F, run.modes)
            done = Outcome(state, 1, Status.STALLED, [state.value] * 4)
        else:
            done = alternation.run(
                # Not in a variable, so that the first round can free it.
                alternation.start(run.F, run.modes),
                max_iter=n_rounds,
                tol=run.spec.tol,
                callback=lambda n, value: run._tell(last.n_rounds + n, value),
            )
        n_made = last.n_rounds + done.n_iter
        values = (*last.values[:-1], *done.history)
        made = replace(last, values=values, n_rounds=n_made, n_told=n_made, status=done.status)
        return replace(
            run,
            F=done.state.F,
            modes=done.state.modes,
            passes=(*run.passes[:-1], made),
            mean_loss=alternation.mean_loss(done.state),
        )

    def _tell_first(self) -> "Run":
        """Return the run after the round made at the start was reported."""
        last = self.passes[-1]
        stop = self._tell(last.n_rounds, last.values[-1])
        status = judge_round(last.values[0], last.values[-1], self.spec.tol, stop)
        told = replace(last, n_told=last.n_rounds, status=status)
        return replace(self, passes=(*self.passes[:-1], told))

    def redraw(self) -> "Run":
        """Return the run with neighbours searched again under the metric so far, in a new pass."""
        drawn = draw_comparisons(self.spec, self.store, self.problem.supervision, self.F, self.rng)
        alternation = replace(self.alternation, store=self.store.compare(drawn))
        return self._next_pass(alternation=alternation, comparisons=drawn)

    def with_cells(self, **cells: Any) -> "Run":
        """Return the run with other parameters in force, in a new pass."""
        alternation = replace(self.alternation, spec=replace(self.spec, **cells))
        if "anchor" in cells:
            posed = self.problem.spec  # an anchor is as strong as the weight before it is resolved
            spec = replace(
                alternation.spec, triplet_weight=posed.triplet_weight, mean_weight=posed.mean_weight
            )
            start = start_metric(spec, alternation.store, self.rng)
            alternation = replace(alternation, spec=spec, space=start.space, anchor=start.anchor)
            alternation = resolve_weight(alternation, self.F, self.modes)
        return self._next_pass(alternation=alternation)

    def with_shrinkage(self, shrinkage: float) -> "Run":
        """Return the run with another shrinkage, which no round depends on, in the same pass."""
        spec = replace(self.spec, shrinkage=shrinkage)
        return replace(self, alternation=replace(self.alternation, spec=spec))

    def weigh_alike(self, persons: Persons) -> "Run":
        """Return the run with one error for all persons, estimated from the last pass."""
        losses, violated = answer_losses(self.alternation, self.F, self.modes, self.comparisons)
        reliable = Reliability.of_all(persons, self.comparisons.weights, losses, violated)
        made = replace(self.passes[-1], term=self._error_term(reliable))
        return replace(
            self, passes=(*self.passes[:-1], made), alike=self.alternation, reliability=reliable
        )

    def reweigh(self) -> "Run":
        """Return the run with the errors of persons estimated again, in a new pass.

        Answers count by the log odds that they are right. The term that errors add to the objective
        is added to all of its values.
        """
        assert self.alike is not None
        assert self.reliability is not None
        losses = answer_losses(self.alike, self.F, self.modes, self.comparisons)[0]
        reliable = self.reliability.updated(losses)
        if self.spec.keep_start:  # the metric stays, so all answers count alike
            return replace(self, reliability=reliable)
        weighed = reliable.weigh(self.alike, self.comparisons)
        run = self._next_pass(alternation=weighed, reliability=reliable)
        return replace(run, passes=(*self.passes, Pass(term=run._error_term(reliable))))

    def complete(self) -> "Run":
        """Make all passes of a whole fit: rounds, neighbours drawn again, persons weighed.

        A run that was left in its first pass goes on from there.
        """
        left, persons = self.spec.max_iter - self.passes[-1].n_told, self.problem.persons
        run = self.advance(left)
        for _ in range(self.n_redraws):
            if run.is_stopped:
                break
            run = replace(run, comparisons=_NOTHING)  # free them before others are drawn
            run = run.redraw()
            run = run.advance(self.spec.max_iter)
        return run if persons is None else run._weigh_persons(persons)

    def finish(self) -> Fit:
        """Return what came of the run."""
        lengths = [len(made.values) for made in self.passes]
        values = [np.array(made.values) + made.term for made in self.passes]
        return Fit(
            F=self.metric,
            centers=self.modes.centers,
            weights=self.alternation.store.fetch_weights(self.modes.weights),
            comparisons=self._weighted(),
            spec=self.spec,
            critical_weight=self.alternation.critical_triplet_weight(self.F, self.modes),
            history=np.concatenate(values),
            pass_starts=np.cumsum([0, *lengths[:-1]]),
            n_iter=sum(made.n_rounds for made in self.passes),
            mean_loss=self.mean_loss,
            status=self.passes[-1].status,
            n_last=self.passes[-1].n_rounds,
            persons=None if self.reliability is None else self.reliability.table(),
        )

    def _weigh_persons(self, persons: Persons) -> "Run":
        """Estimate errors of persons and metric in turn, from a pass in which all count alike."""
        run = self.weigh_alike(persons)
        if run.spec.keep_start:
            return run.reweigh()
        for _ in range(MOST_PASSES):
            if run.is_stopped:
                break
            before = run
            run = run.reweigh()
            run = run.advance(self.spec.max_iter)
            if _change(before, run) < SMALL_CHANGE:
                break
        return run

    def _weighted(self) -> Constraints:
        """Return the comparisons in force, with the weights that their persons give them."""
        reliable, given = self.reliability, self.comparisons
        if reliable is None or self.spec.keep_start:
            return given
        weights = reliable.base * reliable.weights[reliable.persons.codes]
        return Constraints.of_quadruplets(given.quadruplets, weights, given.n_points)

    def _error_term(self, reliable: Reliability) -> float:
        """Return the term of the objective that the errors of persons make."""
        spec = (self.alike or self.alternation).spec
        return spec.triplet_weight / spec.n_modes * reliable.term()

    def _next_pass(self, **changes: Any) -> Self:
        return replace(self, passes=(*self.passes, Pass()), **changes)

    def _tell(self, n_rounds: int, value: float) -> bool:
        """Report a round of this pass; return whether the callback asks for an end."""
        n_rounds += sum(made.n_rounds for made in self.passes[:-1])
        report("rounds", n_rounds, self._most)
        return self.spec.callback is not None and bool(self.spec.callback(n_rounds, value))

    @property
    def _most(self) -> int | None:
        """How many rounds a whole run makes at most; None if that depends on persons."""
        if self.problem.persons is not None:
            return None
        return (1 + self.n_redraws) * self.spec.max_iter


_NOTHING = Constraints.of_triplets(np.empty((0, 3), np.int64), 0)


def _change(before: Run, after: Run) -> float:
    """Return the largest change of a person's error."""
    assert before.reliability is not None
    assert after.reliability is not None
    return float(np.abs(after.reliability.errors - before.reliability.errors).max())


def count_modes(spec: Spec, store: Store) -> Spec:
    """Return the parameters with the number of modes counted in the samples, if wanted."""
    if not spec.count_modes:
        return spec
    n_modes = store.count_modes(spec.n_modes, np.random.RandomState(0))
    return replace(spec, n_modes=n_modes, count_modes=False)


def resolve_weight(alternation: Alternation, F: FloatArray, modes: Modes) -> Alternation:
    """Return the alternation with the total weight, where that of a mean comparison was given."""
    spec = alternation.spec
    if not spec.mean_weight:
        return alternation
    state = alternation.start(F, modes)
    weight = alternation.store.weight(state.importance)
    mean = weight / alternation.store.total  # self-weight of a comparison
    spec = replace(spec, triplet_weight=spec.triplet_weight / mean, mean_weight=False)
    return replace(alternation, spec=spec)


def draw_comparisons(
    spec: Spec, store: Store, supervision: Classes | Constraints, F: FloatArray, rng: Rng
) -> Constraints:
    """Return the comparisons passed, or triplets drawn from labels under the metric of F."""
    if isinstance(supervision, Constraints):
        return to_comparisons("MDaML", supervision, rng)
    if spec.neighbors:
        report("neighbours")
        near, far = store.nearest(F, supervision, spec.n_similar, spec.n_dissimilar)
        triplets = supervision.neighbor_triplets(near, far, spec.pairing)
    else:
        draws = np.random.default_rng(int(rng.randint(2**31 - 1)))
        partners = (spec.n_similar, spec.n_dissimilar, spec.pairing)
        triplets = supervision.random_triplets(*partners, draws)
    return Constraints.of_triplets(triplets, store.shape[0])

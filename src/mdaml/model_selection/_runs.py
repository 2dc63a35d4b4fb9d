"""Runs of MDaML on one split, kept so that a candidate goes on from its first rounds."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from numbers import Integral

from mdaml._validation import check_random_state
from mdaml.constraints.labels import Classes
from mdaml.solver.run import Problem, Run
from mdaml.solver.store import Store
from mdaml.stores.shared import SharedStore

_MOST_BYTES = 2**28  # of all runs that are kept; others are made anew
_GROUPED = 4  # times as large are comparisons, with what is kept of them in a store


@dataclass
class Runs:
    """Runs on one split. Those whose rounds are the same, bit by bit, are one run.

    Such are candidates that differ only in how far they go back to the start, or that chose an
    anchor which another one was given.
    """

    _made: dict[Hashable, tuple[Run, bool]] = field(default_factory=dict)  # whether it is whole
    _counted: set[int] = field(default_factory=set)  # comparisons, by the id of an array
    _n_bytes: int = 0

    def make(
        self, problem: Problem, store: Store, seed: object, n_rounds: int | None = None
    ) -> Run:
        """Return a whole run, or one after some rounds of its first pass.

        A whole run goes on from its first rounds, if these were made and kept.
        """
        is_whole = n_rounds is None
        # A store of its own, as under a limit of memory, must not be kept.
        key = _key(problem, seed) if isinstance(store, SharedStore) else None
        run, was_whole = self._made.get(key, (None, False))
        if run is None or (was_whole and not is_whole):
            run = problem.start(store, check_random_state(seed))
            run = run.complete() if n_rounds is None else run.advance(n_rounds)
        elif is_whole and not was_whole:
            run = run.complete()
        if key is not None:
            self._keep(key, run, is_whole=is_whole)
        return run.with_shrinkage(problem.spec.shrinkage)

    def _keep(self, key: Hashable, run: Run, *, is_whole: bool) -> None:
        """Keep a run, if there is room for it."""
        given = run.comparisons
        largest = given.quadruplets if len(given.quadruplets) else given.triplets
        if self._made.get(key, (None, None))[0] is run:
            return
        n_bytes = run.store.shape[0] * run.modes.n_modes * 16
        if id(largest) not in self._counted:
            n_bytes += _GROUPED * largest.nbytes
        if self._n_bytes + n_bytes > _MOST_BYTES:
            return
        self._n_bytes += n_bytes
        self._counted.add(id(largest))
        self._made[key] = run, is_whole


def _key(problem: Problem, seed: object) -> Hashable:
    """Return what the rounds of a run depend on, on one split; None if they cannot be shared."""
    if problem.spec.callback is not None or not isinstance(seed, Integral):
        return None
    # Of comparisons there may be two kinds of problems: with the groups that they follow, if any.
    return problem.spec.rounds_key, isinstance(problem.supervision, Classes), int(seed)

"""What is held out while parameters of MDaML are chosen, and fits that go on where they stopped."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.constraints.arguments import Said
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import to_comparisons
from mdaml.constraints.value import Constraints
from mdaml.estimators.rank import folds
from mdaml.kernels.neighbors import nearest_rows
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.kernels.products import rows_times
from mdaml.solver.alternation import Alternation, State
from mdaml.solver.fit import draw_comparisons
from mdaml.solver.modes import Modes
from mdaml.solver.objective import Space
from mdaml.solver.spec import Spec
from mdaml.solver.start import start_metric, start_modes
from mdaml.stores.choice import make_store

Run = tuple[Alternation, State]  # where a candidate has got to on one split

_N_PARTS = 3
_MAX_ROWS = 20_000  # that the search uses; the metric is then learned from all
_MAX_COMPARISONS = 1_000_000
_N_NEIGHBORS = 3  # of the classifier


class Fold:
    """One split: samples and what was said of them to learn from, and how to score a metric.

    What candidates share is made once: comparisons of the first pass, and first weights.
    """

    def __init__(
        self,
        store: Any,
        said: Said,
        score: Callable[[FloatArray], BoolArray],
        rank: int | None,
        rng: np.random.RandomState,
    ) -> None:
        self.store, self.said, self.score, self.rank = store, said, score, rank
        self._draw_seed = int(rng.randint(2**31 - 1)) if isinstance(said, Classes) else 0
        self._seed = int(rng.randint(2**31 - 1))
        self._compared: dict[tuple[bool, int, int], Any] = {}
        self._modes: dict[int, Modes] = {}

    @cached_property
    def _start(self) -> tuple[Space, FloatArray]:
        """The space of the metrics, and where they start."""
        return start_metric(Spec(1, 2.0, 1.0, 0.0, self.rank), self.store, self._rng())

    def begin(self, spec: Spec) -> Run:
        """Make the first rounds of a candidate."""
        space, F = self._start
        key = (spec.neighbors, spec.n_similar, spec.n_dissimilar)
        if key not in self._compared:
            self._compared[key] = self._compare(spec, F)
        if spec.n_modes not in self._modes:
            self._modes[spec.n_modes] = start_modes(spec, self.store, self._rng())
        alternation = Alternation(self._compared[key], space, spec)
        return _advance(alternation, alternation.start(F, self._modes[spec.n_modes]))

    def go_on(self, run: Run) -> Run:
        """Make further rounds; neighbours are searched again."""
        alternation, state = run
        if alternation.spec.neighbors and isinstance(self.said, Classes):
            store = self._compare(alternation.spec, state.F)
            alternation = replace(alternation, store=store)
            state = alternation.start(state.F, state.modes)
        return _advance(alternation, state)

    def _compare(self, spec: Spec, F: FloatArray) -> Any:
        """Return the store with the comparisons that a candidate learns from."""
        if isinstance(self.said, Classes) and not spec.neighbors:
            draws = np.random.default_rng(self._draw_seed)
            triplets = self.said.random_triplets(
                spec.n_similar, spec.n_dissimilar, spec.pairing, draws
            )
            return self.store.compare(Constraints.of_triplets(triplets, self.store.shape[0]))
        return self.store.compare(draw_comparisons(spec, self.store, self.said, F, self._rng()))

    def _rng(self) -> np.random.RandomState:
        return np.random.RandomState(self._seed)


def _advance(alternation: Alternation, state: State) -> Run:
    spec = alternation.spec
    return alternation, alternation.run(state, max_iter=spec.max_iter, tol=spec.tol).state


def with_ridge(alternation: Alternation, state: State, ridge: float) -> Run:
    """Make further rounds with another ridge."""
    other = replace(alternation, spec=replace(alternation.spec, ridge=ridge))
    return _advance(other, other.start(state.F, state.modes))


def folds_of_classes(
    X: FloatArray,
    classes: Classes,
    device: str | None,
    rank: int | None,
    rng: np.random.RandomState,
) -> list[Fold]:
    """Hold out a fifth of each class, three times; samples without a label are not used."""
    rows, of = classes.rows, classes.of
    if len(rows) > _MAX_ROWS:
        some = np.sort(rng.permutation(len(rows))[:_MAX_ROWS])
        rows, of = rows[some], of[some]
    labels = Classes.from_labels("MDaMLCV", of)
    parts = []
    for held_out in folds(labels, rng)[:_N_PARTS]:
        train, valid = rows[labels.rows[~held_out]], rows[labels.rows[held_out]]
        y, y_valid = of[labels.rows[~held_out]], of[labels.rows[held_out]]
        if len(valid):
            score = _vote_score(X[train], y, X[valid], y_valid)
            said = Classes.from_labels("MDaMLCV", y)
            parts.append(Fold(make_store(X[train], device), said, score, rank, rng))
    return parts


def _vote_score(
    X: FloatArray, y: IntArray, X_valid: FloatArray, y_valid: IntArray
) -> Callable[[FloatArray], BoolArray]:
    """Return whether the nearest samples under a metric vote for the class of held-out ones."""
    mean = X.mean(axis=0)
    samples, held_out = X - mean, X_valid - mean

    def score(F: FloatArray) -> BoolArray:
        # Not scikit-learn's classifier: its threads wait for each other when other work is going
        # on, and that took longer than all fits together.
        nearest, _ = nearest_rows(held_out @ F, samples @ F, _N_NEIGHBORS)
        votes = np.zeros((len(nearest), int(y.max()) + 1))
        for voter in nearest.T:
            votes[np.arange(len(votes)), y[voter]] += 1
        return votes.argmax(axis=1) == y_valid  # the lowest class of equals

    return score


def folds_of_constraints(
    X: FloatArray,
    said: Constraints,
    device: str | None,
    rank: int | None,
    rng: np.random.RandomState,
) -> list[Fold]:
    """Hold out a third of the comparisons of each kind, three times."""
    kinds = np.repeat([0, 1, 2], [len(said.triplets), len(said.pairs), len(said.quadruplets)])
    kinds[kinds == 1] += np.where(said.pair_labels > 0, 2, 3)
    if np.bincount(kinds)[np.unique(kinds)].min() < _N_PARTS:
        return []
    order = rng.permutation(said.n_constraints)[:_MAX_COMPARISONS]
    order = order[np.argsort(kinds[order], kind="stable")]
    store, parts = make_store(X, device), []
    for number in range(_N_PARTS):
        held_out = np.arange(len(order)) % _N_PARTS == number
        score = _comparison_score(X - X.mean(axis=0), said.select(order[held_out]), rng)
        parts.append(Fold(store, said.select(order[~held_out]), score, rank, rng))
    return parts


def _comparison_score(
    X: FloatArray, held_out: Constraints, rng: np.random.RandomState
) -> Callable[[FloatArray], BoolArray]:
    """Return whether held-out comparisons hold under a metric."""
    compared = to_comparisons("MDaMLCV", held_out, rng)
    near, far = compared.triplets[:, [0, 1]], compared.triplets[:, [0, 2]]
    if len(compared.quadruplets):
        near, far = compared.quadruplets[:, :2], compared.quadruplets[:, 2:]

    def score(F: FloatArray) -> BoolArray:
        Y = rows_times(X, F.astype(X.dtype))
        return pair_sq_dists(Y, near) < pair_sq_dists(Y, far)

    return score

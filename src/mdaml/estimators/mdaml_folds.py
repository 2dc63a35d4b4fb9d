"""What is held out while parameters of MDaML are chosen, and fits that go on where they stopped."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml._validation import has_unit_rows
from mdaml.constraints.arguments import Said
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import nearest_was_near, to_comparisons
from mdaml.constraints.value import Constraints
from mdaml.estimators.dmlmj import DMLMJ
from mdaml.estimators.gmml import GMML
from mdaml.estimators.lfda import LFDA
from mdaml.estimators.mdaml import MDaML
from mdaml.estimators.mdaml_spec import check_parameters
from mdaml.estimators.rank import folds
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.kernels.products import rows_times
from mdaml.solver.alternation import Alternation, State
from mdaml.solver.fit import begin_at, begin_fit, draw_comparisons
from mdaml.stores.choice import classes_on, make_store, n_fits_at_once, search_under
from mdaml.stores.shared import SharedClasses, SharedStore

Run = tuple[Alternation, State]  # where a candidate has got to on one split
Score = Callable[[FloatArray], BoolArray]  # of a factor of the metric

# Rounds at a time; after the first two most candidates are left out.
_SHORT: dict[str, Any] = {"max_iter": 2, "tol": 1e-4}
_N_PARTS = 3
_MAX_ROWS = 20_000  # that the search uses; the metric is then learned from all
_MAX_COMPARISONS = 1_000_000
_N_NEIGHBORS = 3  # of the classifier
_STARTS: dict[str, Any] = {
    "GMML": GMML(),
    "LFDA": LFDA(random_state=0),
    "DMLMJ": DMLMJ(random_state=0),
}
# So strong that nothing is learned: the metric is the start, up to a multiple.
THE_START = {"anchor": 1e6}


def other_start(name: str, X: FloatArray, said: Said, device: str | None = None) -> FloatArray:
    """Return the metric that another method learns from labels, made positive definite.

    From as many samples at most as the search uses: those methods are of no use as a start if they
    take longer than what they start.
    """
    assert isinstance(said, Classes)
    if len(said.rows) > _MAX_ROWS:
        some = np.random.RandomState(0).permutation(len(said.rows))[:_MAX_ROWS]
        X, said = X[said.rows[some]], Classes.from_labels("MDaMLCV", said.of[some])
    learner = clone(_STARTS[name])
    if name == "GMML":  # no neighbours
        learner._fit(X, X, said, None)
    else:
        learner._fit(X, X, classes_on(device, said, X.shape[1]))
    M = learner.get_mahalanobis_matrix().astype(np.float64)
    M += 1e-3 * (np.trace(M) / len(M)) * np.eye(len(M))
    # With the mean squared distance that X has, so that margins mean what they mean otherwise.
    variances = np.cov(X.T.astype(np.float64), bias=True).reshape(M.shape)
    return M * (np.trace(variances) / np.vdot(variances, M))


@dataclass(frozen=True)
class Fold:
    """One split: samples and what was said of them to learn from, and how to score a metric."""

    X: FloatArray
    store: Any
    said: Said
    score: Score
    params: dict[str, Any]  # that all candidates share
    seed: int
    device: str | None = None

    @property
    def n_at_once(self) -> int:
        """How many candidates to begin at a time."""
        return n_fits_at_once(self.device, self.store.shape)

    def begin(self, params: dict[str, Any]) -> Run:
        """Make the first rounds of a candidate."""
        params = {**self.params, **params}
        if "start" in params:
            name = params.pop("start")
            params["init_metric"] = other_start(name, self.X, self.said, self.device)
        if THE_START.items() <= params.items():
            params["floor"] = 1.0  # one mode: to count them takes longer than all other candidates
        unit = has_unit_rows(self.X)
        spec = check_parameters(MDaML(**params), self.store.shape, self.said, unit_rows=unit)
        rng = np.random.RandomState(self.seed)
        alternation, _, F, modes = begin_fit(spec, self.store, self.said, rng)
        return alternation, alternation.run(begin_at(alternation, F, modes), **_SHORT).state

    def go_on(self, run: Run) -> Run:
        """Make further rounds; neighbours are searched again."""
        alternation, state = run
        if alternation.spec.neighbors and isinstance(self.said, Classes):
            rng = np.random.RandomState(self.seed)
            drawn = draw_comparisons(alternation.spec, self.store, self.said, state.F, rng)
            alternation = replace(alternation, store=self.store.compare(drawn))
            state = alternation.start(state.F, state.modes)
        return _advance(alternation, state)

    def right(self, run: Run) -> BoolArray:
        """Return what the metric of a candidate gets right."""
        alternation, state = run
        return self.score(alternation.factor(state))

    def change(self, run: Run, changed: dict[str, Any]) -> Run:
        """Make further rounds with another ridge, or take another shrinkage."""
        alternation, state = run
        alternation = replace(alternation, spec=replace(alternation.spec, **changed))
        if "ridge" not in changed:
            return alternation, state
        return _advance(alternation, alternation.start(state.F, state.modes))


def _advance(alternation: Alternation, state: State) -> Run:
    return alternation, alternation.run(state, **_SHORT).state


def folds_of_classes(
    X: FloatArray,
    classes: Classes,
    device: str | None,
    params: dict[str, Any],
    rng: np.random.RandomState,
) -> list[Fold]:
    """Hold out a fifth of each class, three times; samples without a label are not used.

    Of many samples once: a single part of them tells candidates apart as well as three of a few.
    """
    rows, of, n_parts = classes.rows, classes.of, _N_PARTS
    if len(rows) > _MAX_ROWS:
        some = np.sort(rng.permutation(len(rows))[:_MAX_ROWS])
        rows, of, n_parts = rows[some], of[some], 1
    labels = Classes.from_labels("MDaMLCV", of)
    parts = []
    for held_out in folds(labels, rng)[:n_parts]:
        train, valid = rows[labels.rows[~held_out]], rows[labels.rows[held_out]]
        y, y_valid = of[labels.rows[~held_out]], of[labels.rows[held_out]]
        if len(valid):
            samples = X[train]
            score = vote_score(samples, y, X[valid], y_valid, device)
            said = SharedClasses.of_classes(Classes.from_labels("MDaMLCV", y))
            store = SharedStore(make_store(samples, device))
            seed = rng.randint(2**31 - 1)
            parts.append(Fold(samples, store, said, score, params, seed, device))
    return parts


def vote_score(
    X: FloatArray, y: IntArray, X_valid: FloatArray, y_valid: IntArray, device: str | None = None
) -> Score:
    """Return whether the nearest samples under a metric vote for the class of held-out ones."""
    # Not scikit-learn's classifier: its threads wait for each other when other work is going on,
    # and that took longer than all fits together.
    search = search_under(device, X_valid, X)

    def score(F: FloatArray) -> BoolArray:
        nearest = search(F, _N_NEIGHBORS)
        votes = np.zeros((len(nearest), int(y.max()) + 1))
        for voter in nearest.T:
            votes[np.arange(len(votes)), y[voter]] += 1
        return votes.argmax(axis=1) == y_valid  # the lowest class of equals

    return score


def folds_of_constraints(
    X: FloatArray,
    said: Constraints,
    device: str | None,
    params: dict[str, Any],
    goal: str,
    rng: np.random.RandomState,
) -> list[Fold]:
    """Hold out a third of the points, three times, with the comparisons they are the reference of.

    The reference of a constraint is the first of its points.
    """
    if said.n_constraints > _MAX_COMPARISONS:
        said = said.select(np.sort(rng.permutation(said.n_constraints)[:_MAX_COMPARISONS]))
    reference = np.concatenate([said.triplets[:, 0], said.pairs[:, 0], said.quadruplets[:, 0]])
    part_of = rng.permutation(said.n_points) % _N_PARTS
    store, parts = SharedStore(make_store(X, device)), []
    for number in range(_N_PARTS):
        out = part_of[reference] == number
        learned, held_out = said.select(~out), said.select(out)
        if not (_compares(learned) and _compares(held_out)):
            return []
        score = _score_of(X - X.mean(axis=0), held_out, goal, rng)
        parts.append(Fold(X, store, learned, score, params, rng.randint(2**31 - 1)))
    return parts


def _compares(said: Constraints) -> bool:
    """Return whether constraints say what is near and what is far."""
    kinds = np.unique(said.pair_labels)
    direct = len(said.triplets) + len(said.quadruplets)
    return (direct > 0 and len(kinds) != 1) or len(kinds) == 2


def _score_of(X: FloatArray, held_out: Constraints, goal: str, rng: np.random.RandomState) -> Score:
    """Return what held-out constraints say of a metric, by the goal."""
    compared = to_comparisons("MDaMLCV", held_out, rng).comparisons()
    near, far = compared[:, :2], compared[:, 2:]

    def score(F: FloatArray) -> BoolArray:
        Y = rows_times(X, F.astype(X.dtype))
        if goal == "neighbors":
            return nearest_was_near(Y, held_out)
        return pair_sq_dists(Y, near) < pair_sq_dists(Y, far)

    return score

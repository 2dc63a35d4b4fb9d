"""Held-out parts for choosing the parameters of MDaML, and fits that can be continued."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from mdaml._typing import FloatArray, IntArray, Params
from mdaml._validation import has_unit_rows
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import nearest_was_near
from mdaml.constraints.value import Constraints
from mdaml.estimators.dmlmj import DMLMJ
from mdaml.estimators.gmml import GMML
from mdaml.estimators.lfda import LFDA
from mdaml.estimators.mdaml import MDaML
from mdaml.estimators.posing import pose
from mdaml.estimators.presets import PRESETS, Partners
from mdaml.holdout.comparisons import HeldOutComparisons, are_right
from mdaml.holdout.rule import find_trailing
from mdaml.holdout.samples import Score, hold_out_samples, share_score
from mdaml.holdout.split import Split, hold_out_points, same_points
from mdaml.holdout.units import COPY, same_rows
from mdaml.kernels.products import rows_times
from mdaml.solver.run import Run
from mdaml.solver.store import Store
from mdaml.stores.choice import make_store, n_fits_at_once
from mdaml.stores.shared import SharedClasses, SharedStore

_ROUNDS = 2  # at a time; after the first two most candidates are left out
_N_PARTS, _N_PARTS_OF_LABELS = 3, 5
_MAX_ROWS = 20_000  # that the search uses; the metric is then learned from all
_MAX_COMPARISONS = 1_000_000
_STARTS: Params = {
    "GMML": GMML(),
    "LFDA": LFDA(random_state=0),
    "DMLMJ": DMLMJ(random_state=0),
}
THE_START = {"shrinkage": 1.0}
Made = TypeVar("Made")


def other_start(
    name: str, X: FloatArray, supervision: Supervision, device: str | None = None
) -> FloatArray:
    """Return the metric that another method learns from labels, made positive definite.

    At most as many samples are used as in the search: a start must not take longer than the fit.
    """
    assert isinstance(supervision, Classes)
    if len(supervision.rows) > _MAX_ROWS:
        some = np.random.RandomState(0).permutation(len(supervision.rows))[:_MAX_ROWS]
        X, supervision = (
            X[supervision.rows[some]],
            Classes.from_labels("MDaMLCV", supervision.of[some]),
        )
    learner = clone(_STARTS[name])
    if name == "GMML":  # no neighbours
        learner._fit(X, X, supervision, None)
    else:
        learner._fit(X, X, supervision.on(device, X.shape[1]))
    M = learner.get_mahalanobis_matrix().astype(np.float64)
    M += 1e-3 * (np.trace(M) / len(M)) * np.eye(len(M))
    # With the mean squared distance that X has, so that margins mean what they mean otherwise.
    variances = np.cov(X.T.astype(np.float64), bias=True).reshape(M.shape)
    return M * (np.trace(variances) / np.vdot(variances, M))


@dataclass(frozen=True)
class Fold:
    """One split: samples and supervision to learn from, and how to score a metric.

    Candidates that come to the same parameters, such as an anchor that is given and the same one
    chosen, are one run, and every run is scored once.
    """

    X: FloatArray
    store: Store
    supervision: Supervision
    score: Score
    units: IntArray  # (n_held_out,) what belongs together, over all splits
    params: Params  # that all candidates share
    seed: int
    device: str | None = None
    compares: bool = False  # whether the score is which comparisons hold
    made: dict[Hashable, tuple[object, object]] = field(default_factory=dict, compare=False)

    @property
    def n_at_once(self) -> int:
        """How many candidates to begin at a time."""
        return n_fits_at_once(self.device, self.store.shape)

    def begin(self, params: Params) -> Run:
        """Make the first rounds of a candidate."""
        params = {**self.params, **params}
        if "start" in params:
            name = params.pop("start")
            params["init_metric"] = other_start(name, self.X, self.supervision, self.device)
        if THE_START.items() <= params.items():
            params["n_modes"] = 1  # to count them takes longer than all other candidates
        posed = pose(
            MDaML(**params),
            self.store.shape,
            self.supervision,
            unit_rows=has_unit_rows(self.X),
            as_given=True,
        )
        if posed.spec.anchors:
            posed, _ = posed.choose(self.store)

        def start() -> Run:
            rng = np.random.RandomState(self.seed)
            return posed.problem.start(self.store, rng).advance(_ROUNDS)

        spec = posed.spec
        return self._once((spec.rounds_key, spec.shrinkage), start)

    def go_on(self, run: Run) -> Run:
        """Make further rounds; neighbours are searched again."""

        def go_on() -> Run:
            return (run.redraw() if run.n_redraws else run).advance(_ROUNDS)

        return self._once(("on", id(run)), go_on, run)

    def right(self, run: Run) -> FloatArray:
        """Return what the metric of a candidate gets right."""
        return self._once(
            ("right", id(run)), lambda: np.asarray(self.score(run.metric), np.float64), run
        )

    def _once(self, key: Hashable, make: Callable[[], Made], alive: object = None) -> Made:
        """Return what was made for a key, or make it; ``alive`` has its id in the key."""
        if key not in self.made:
            self.made[key] = make(), alive
        made: Any = self.made[key][0]
        return made

    def change(self, run: Run, changed: Params) -> Run:
        """Make further rounds with another ridge, or take another shrinkage."""
        run = run.with_cells(**changed)
        return run.advance(_ROUNDS) if "ridge" in changed else run


def change_all(
    parts: Sequence[Fold], runs: Sequence[Run], scores: Sequence[FloatArray], changed: Params
) -> list[FloatArray]:
    """Return the scores of a candidate that is changed; of one part if it is far behind there."""
    first = parts[0].right(parts[0].change(runs[0], changed))
    units = np.unique(parts[0].units, return_inverse=True)[1]
    if find_trailing(np.array([scores[0], first]), 1, units)[1]:
        return [first]
    others = zip(parts[1:], runs[1:], strict=True)
    return [first, *(part.right(part.change(run, changed)) for part, run in others)]


def _most_partners(candidates: Sequence[Params]) -> tuple[int, int]:
    """Return how many neighbours candidates want at most, under the start that they share."""
    wanted = [
        params.get("partners", PRESETS["labels"].partners)
        for params in candidates
        if "start" not in params
    ]
    numbers = [(w.n_similar, w.n_dissimilar) for w in wanted if isinstance(w, Partners)]
    similar, dissimilar = zip((0, 0), *numbers, strict=True)
    return max(similar), max(dissimilar)


def folds_of_classes(
    X: FloatArray,
    classes: Classes,
    device: str | None,
    params: Params,
    rng: np.random.RandomState,
    candidates: Sequence[Params] = (),
) -> list[Fold]:
    """Hold out a fifth of each class, five times; samples without a label are not used.

    Of many samples once: a single part of them tells candidates apart as well as five of a few.
    Equal rows are held out together. Neighbours are searched at once for all ``candidates``.
    """
    ahead = (0, 0) if device else _most_partners(candidates)
    rows, of, n_parts = classes.rows, classes.of, _N_PARTS_OF_LABELS
    if len(rows) > _MAX_ROWS:
        some = np.sort(rng.permutation(len(rows))[:_MAX_ROWS])
        rows, of, n_parts = rows[some], of[some], 1
    splits = hold_out_samples(of, same_rows(X[rows], COPY), _N_PARTS_OF_LABELS, rng)
    parts = []
    for split in splits[:n_parts]:
        samples, y = X[rows[split.train_points]], of[split.train_points]
        out = rows[split.test_points]
        score = share_score(samples, y, X[out], of[split.test_points], device)
        supervision = SharedClasses.of_classes(Classes.from_labels("MDaMLCV", y))
        store = SharedStore(make_store(samples, device), ahead=ahead)
        seed = rng.randint(2**31 - 1)
        parts.append(Fold(samples, store, supervision, score, split.units, params, seed, device))
    return parts


def folds_of_constraints(
    X: FloatArray,
    supervision: Constraints,
    device: str | None,
    params: Params,
    goal: str,
    rng: np.random.RandomState,
) -> list[Fold]:
    """Hold out a third of the points, three times, with the comparisons they are the reference of.

    The reference of a constraint is the first of its points.
    """
    if supervision.n_constraints > _MAX_COMPARISONS:
        supervision = supervision.select(
            np.sort(rng.permutation(supervision.n_constraints)[:_MAX_COMPARISONS])
        )
    store, parts = SharedStore(make_store(X, device)), []
    centred = X - X.mean(axis=0)
    for part in hold_out_points(supervision, _N_PARTS, rng, same_points(store)):
        score, units = _score_of(centred, part, goal, rng)
        if not len(units):
            return []
        seed = rng.randint(2**31 - 1)
        compared = goal != "neighbors"
        parts.append(Fold(X, store, part.learned, score, units, params, seed, device, compared))
    return parts


def _score_of(
    X: FloatArray, split: Split, goal: str, rng: np.random.RandomState
) -> tuple[Score, IntArray]:
    """Return what held-out constraints say of a metric, by the goal, and the units of the cases."""
    if goal == "neighbors":
        supervision = split.held_out
        points = nearest_was_near(X, supervision)[0]
        return lambda F: nearest_was_near(rows_times(X, F.astype(X.dtype)), supervision)[1], points
    asked = HeldOutComparisons.of(split, rng)
    return lambda F: are_right(asked.margins(rows_times(X, F.astype(X.dtype)))), asked.units

"""What learning chunk by chunk keeps of the past: the model, and a bounded sample of comparisons.

A call learns from its chunk and from the sample, which is uniform over all comparisons of earlier
chunks. The metric then moves along the geodesic from the old to the new one, by the share of the
comparisons learned from in all that were seen: as long as the sample holds everything, all the way,
and later like a running mean, which averages the chance of each chunk out. Replaying the sample
with the weight of all that it stands for, without a mean, was worse: the model overfitted its few
members (held-out comparisons of the synthetic data in docs/scaling.md: 0.93 instead of 0.97).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from mdaml._typing import Array, ArrayLike, FloatArray, IntArray, Params
from mdaml._validation import check_random_state, has_unit_rows
from mdaml.constraints.arguments import EVERY_FORM, Supervision, check_supervision
from mdaml.constraints.labels import Classes, find_labelled, to_labels
from mdaml.constraints.matching import has_triplets_only
from mdaml.constraints.value import Constraints
from mdaml.estimators.base import principal_components
from mdaml.estimators.mdaml_warnings import warn_if_needed, warn_of_gain
from mdaml.estimators.posing import choose_row, is_auto, list_anchors, place, pose
from mdaml.holdout.anchor import choose_anchor
from mdaml.holdout.rule import Gain
from mdaml.holdout.samples import MOST_ROWS, choose_shrinkage
from mdaml.solver.fit import comparison_attributes, comparisons_of
from mdaml.solver.geometry import between
from mdaml.solver.run import Problem, draw_comparisons
from mdaml.solver.spec import Spec
from mdaml.stores.memory import MemoryStore

# The most comparisons that are kept, and the most bytes of the rows they name.
MAX_COMPARISONS = 20_000
MAX_BYTES = 2**26
_HELD = 1.0  # the least strength of an anchor at the metric so far
# A choice made from few comparisons is soon out of date. Up to _FEW it is made anew with every
# chunk, then whenever there are a quarter more than at the last choice.
_FEW, _ANEW = 2_000, 1.25


@dataclass(frozen=True)
class Reservoir:
    """A uniform sample of comparisons with the rows they name; never changed."""

    rows: FloatArray  # (n, d)
    comparisons: IntArray  # (r, 4) near pair, far pair: places in rows
    weights: FloatArray  # (r,) as they were given: they compare chunks too
    keys: FloatArray  # (r,) the lowest of one random number for each comparison seen

    @classmethod
    def empty(cls, n_features: int, dtype: np.dtype) -> "Reservoir":
        """Return a sample of nothing."""
        nothing = np.empty(0)
        return cls(np.empty((0, n_features), dtype), np.empty((0, 4), np.int64), nothing, nothing)

    def joined(self, X: FloatArray, supervision: Constraints) -> tuple[FloatArray, Constraints]:
        """Return rows and comparisons of a chunk, and behind them those of the sample."""
        rows, every, weights = self._joined(X, supervision)
        return rows, replace(self, rows=rows, comparisons=every, weights=weights).constraints()

    def constraints(self) -> Constraints:
        """Return the comparisons of the sample, about its rows."""
        every, weights, n = self.comparisons, self.weights, len(self.rows)
        if np.array_equal(every[:, 0], every[:, 2]) and np.all(weights == weights[0]):
            # Triplets of equal weight are faster.
            return Constraints.of_triplets(every[:, [0, 1, 3]], n)
        return Constraints.of_quadruplets(every, weights, n)

    def updated(
        self, X: FloatArray, supervision: Constraints, rng: np.random.Generator
    ) -> "Reservoir":
        """Return a uniform sample of the comparisons seen before and of those of a chunk."""
        rows, every, weights = self._joined(X, supervision)
        keys = np.concatenate([rng.random(supervision.n_constraints), self.keys])
        limit = min(MAX_COMPARISONS, max(1, MAX_BYTES // (4 * X.shape[1] * X.itemsize)))
        kept = np.arange(len(keys))
        if len(keys) > limit:
            kept = np.sort(np.argpartition(keys, limit)[:limit])
        named, places = np.unique(every[kept], return_inverse=True)
        return Reservoir(rows[named], places.reshape(-1, 4), weights[kept], keys[kept])

    def _joined(
        self, X: FloatArray, supervision: Constraints
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        """Return rows, comparisons as near pair and far pair, and weights."""
        comparisons, weights = supervision.quadruplets, supervision.weights
        if len(supervision.triplets):
            comparisons = supervision.triplets[:, [0, 1, 0, 2]]
        rows = np.concatenate([X, self.rows.astype(X.dtype, copy=False)])
        every = np.concatenate([comparisons, self.comparisons + len(X)])
        return rows, every, np.concatenate([weights, self.weights])


@dataclass(frozen=True)
class LabelledRows:
    """A uniform sample of rows with their labels, to choose by; never changed."""

    rows: FloatArray  # (n, d)
    labels: Array  # (n,) as they were passed
    keys: FloatArray  # (n,) the lowest of one random number for each labelled row seen

    @classmethod
    def empty(cls, n_features: int, dtype: np.dtype) -> "LabelledRows":
        """Return a sample of nothing."""
        return cls(np.empty((0, n_features), dtype), np.empty(0, object), np.empty(0))

    def joined(self, X: FloatArray, y: ArrayLike) -> tuple[FloatArray, Array]:
        """Return the labelled rows of a chunk with their labels, and behind them the sample."""
        labels = to_labels(y)
        known = find_labelled(labels)
        rows = np.concatenate([X[known], self.rows.astype(X.dtype, copy=False)])
        return rows, np.concatenate([labels[known].astype(object), self.labels])

    def updated(self, X: FloatArray, y: ArrayLike, rng: np.random.Generator) -> "LabelledRows":
        """Return a uniform sample of the labelled rows seen before and of those of a chunk."""
        rows, labels = self.joined(X, y)
        keys = np.concatenate([rng.random(len(rows) - len(self.rows)), self.keys])
        limit = min(MOST_ROWS, max(1, MAX_BYTES // (4 * X.shape[1] * X.itemsize)))
        kept = np.sort(np.argsort(keys)[:limit])
        return LabelledRows(rows[kept], labels[kept], keys[kept])


@dataclass(frozen=True)
class Choice:
    """What was chosen on held-out points or samples: kept until more is known."""

    anchor: float
    shrinkage: float
    keep_start: bool
    gain: Params | None
    n_comparisons: int  # seen when it was chosen

    @classmethod
    def of(cls, spec: Spec, gain: Gain | None, n_comparisons: int) -> "Choice":
        """Return what stands in parameters after the choice."""
        numbers = None if gain is None else gain.as_dict()
        return cls(spec.anchor, spec.shrinkage, spec.keep_start, numbers, n_comparisons)

    def apply(self, spec: Spec) -> Spec:
        """Return parameters in which nothing is left to be chosen."""
        if spec.anchors:
            return replace(spec, anchor=self.anchor, anchors=(), keep_start=self.keep_start)
        if spec.shrinkages:
            spec = replace(spec, shrinkages=(), shrinkage=self.shrinkage)
            return replace(spec, keep_start=self.keep_start)
        return spec


@dataclass(frozen=True)
class Past:
    """What a model knows before a chunk; it keeps it, and its own attributes count."""

    F: FloatArray  # (d, r) factor of the metric
    centers: FloatArray  # (K, d), not centred
    n_comparisons: int  # seen, all chunks
    reservoir: Reservoir
    choice: Choice
    n_lost: int  # seen before there was a sample: of these only the metric is known
    labelled: LabelledRows

    def share(self, n_new: int) -> float:
        """Return how far to go from the old metric to one learned from a chunk and the sample."""
        known = 0 if self.n_lost else len(self.reservoir.keys)
        return (n_new + known) / (n_new + self.n_comparisons)

    def choose(
        self, spec: Spec, n_seen: int, try_all: Callable[[Spec], tuple[Spec, Gain | None]]
    ) -> tuple[Spec, Choice]:
        """Return the parameters with what was chosen before; chosen anew where that is due.

        From all comparisons or labels at hand, never from one chunk: a chunk with little
        information would make the model forget. A model from a file has only its metric, until as
        many comparisons have come again.
        """
        due = due_at(n_seen, self.choice.n_comparisons, self.n_lost)
        if not (spec.anchors or spec.shrinkages) or n_seen < due:
            return self._held(self.choice.apply(spec)), self.choice
        spec, gain = try_all(spec)
        return spec, Choice.of(spec, gain, n_seen)

    def _held(self, spec: Spec) -> Spec:
        """Return parameters that hold the metric where it is, if only it is left of the past.

        Otherwise a few new comparisons would make it forget the many that are not at hand.
        """
        d, rank = self.F.shape
        if not self.n_lost or rank < d or spec.keep_start or spec.anchor == 0.0:
            return spec
        return replace(spec, metric=self.F @ self.F.T, anchor=max(spec.anchor, _HELD))

    def check_modes(self, n_modes: int) -> None:
        """Refuse another number of modes than the model has."""
        if len(self.centers) != n_modes:
            raise ValueError(
                f"MDaML(n_modes={n_modes}) goes on with a model of {len(self.centers)} modes. "
                "Keep n_modes, or start anew with fit."
            )

    def check_rank(self, rank: int | None) -> None:
        """Refuse another rank than the model has; None is full rank."""
        d, own = self.F.shape
        if own != (d if rank is None else rank):
            raise ValueError(
                f"MDaML(n_components={rank}) goes on with a model of rank {own}. Keep "
                "n_components, or start anew with fit."
            )


def due_at(n_seen: int, n_chosen: int, n_lost: int) -> float:
    """Return the number of comparisons seen at which a choice is made anew.

    ``n_chosen`` had been seen when it was last made, ``n_lost`` before there was a sample.
    """
    return max(0.0 if n_seen <= _FEW and not n_lost else _ANEW * n_chosen, 2.0 * n_lost)


def past_of(model: BaseEstimator) -> Past:
    """Return what a fitted model knows; of one that was loaded, what its file held."""
    for name in ("n_samples_seen_", "n_comparisons_seen_"):
        if not hasattr(model, name):
            raise ValueError(
                f"partial_fit cannot go on with this {type(model).__name__}: it has no {name}, so "
                "that the weight of a new chunk beside the old ones is unknown. Fit it anew."
            )
    d, centers, n_seen = model.n_features_in_, model.centers_, model.n_comparisons_seen_
    kept: Past | None = getattr(model, "_stream", None)
    if kept is not None:
        return replace(kept, centers=centers, n_comparisons=n_seen)
    F = model.components_.T.astype(np.float64)
    if len(model.components_) < d and model.n_components in (None, d):
        M = F @ F.T  # directions that were cut off can come back
        F = np.linalg.cholesky(M + 1e-6 * np.trace(M) / d * np.eye(d))
    chosen = Choice(
        model.anchor_,
        model.shrinkage_,
        getattr(model, "start_kept_", False),  # files of the first candidate lack both
        getattr(model, "gain_", None),
        n_seen,
    )
    dtype = model.components_.dtype
    nothing = Reservoir.empty(d, dtype), LabelledRows.empty(d, dtype)
    return Past(F, centers, n_seen, nothing[0], chosen, n_seen, nothing[1])


def learn_chunk(model: BaseEstimator, X: ArrayLike, y: ArrayLike | None, given: Params) -> None:
    """Fit a model to its first chunk, or refine it by another one."""
    past = past_of(model) if hasattr(model, "components_") else None
    if past is not None:
        validate_data(model, X, skip_check_array=True, reset=False)
    samples, supervision = check_supervision(model, EVERY_FORM, X, y, **given)
    if past is None:
        model._fit(X, samples, supervision)
        begin_sample(model, samples, supervision, y)
        return
    past, comparisons = _refine(model, samples, supervision, past, y)
    _keep_sample(model, samples, comparisons, past, y)


def begin_sample(
    model: BaseEstimator, samples: FloatArray, supervision: Supervision, y: ArrayLike | None
) -> None:
    """Let a model that was fitted to a first chunk keep a sample of its comparisons and labels."""
    comparisons = comparisons_of(model, len(samples))
    if isinstance(supervision, Constraints) and has_triplets_only(supervision):
        weights = supervision.weights[0] * comparisons.weights  # a weight of all is not stored
        comparisons = comparisons._replaced(weights=weights)
    _keep_sample(model, samples, comparisons, replace(past_of(model), n_lost=0), y)


def _keep_sample(
    model: BaseEstimator,
    samples: FloatArray,
    comparisons: Constraints,
    past: Past,
    y: ArrayLike | None,
) -> None:
    seed = check_random_state(model.random_state).randint(2**31 - 1)
    draws = np.random.default_rng([seed, model.n_comparisons_seen_])  # not the same every time
    reservoir = past.reservoir.updated(samples, comparisons, draws)
    labelled = past.labelled if y is None else past.labelled.updated(samples, y, draws)
    model._stream = replace(past, reservoir=reservoir, labelled=labelled)


def _refine(
    model: BaseEstimator,
    samples: FloatArray,
    supervision: Supervision,
    past: Past,
    y: ArrayLike | None,
) -> tuple[Past, Constraints]:
    """Learn from a chunk and what is known of earlier ones, and store what was learned.

    Returns what is known afterwards, and the comparisons of the chunk.
    """
    posed = pose(model, samples.shape, supervision, unit_rows=has_unit_rows(samples))
    spec, supervision = posed.spec, posed.supervision
    if is_auto(model.n_modes):
        spec = replace(spec, n_modes=len(past.centers), count_modes=False)
    past.check_modes(spec.n_modes)
    past.check_rank(spec.rank)
    rng, chunk = check_random_state(model.random_state), MemoryStore.of(samples)
    with chunk.threads():
        comparisons = draw_comparisons(spec, chunk, supervision, past.F, rng)
    rows, joined = past.reservoir.joined(samples, comparisons)
    if spec.anchors:  # as many as all that is at hand allows, not the chunk alone
        preset, d = choose_row(model, from_labels=False)[1], rows.shape[1]
        share = (spec.rank or d) / d
        spec = replace(spec, anchors=list_anchors(preset, joined, d, has_unit_rows(samples), share))
    store = place(model, rows, spec, joined, copied=True)
    n_seen = past.n_comparisons + comparisons.n_constraints

    def try_all(spec: Spec) -> tuple[Spec, Gain | None]:
        if y is None or not spec.shrinkages:
            return choose_anchor(spec, store, joined)
        at_hand, labels = past.labelled.joined(samples, y)
        classes = Classes.from_labels(type(model).__name__, labels)
        return choose_shrinkage(spec, place(model, at_hand, spec, classes, copied=True), classes)

    spec, choice = past.choose(spec, n_seen, try_all)
    problem = Problem(spec, joined)
    with store.threads():
        if spec.keep_start:
            run = problem.start(store, rng)
        else:
            centers = (past.centers - store.mean).astype(store.dtype)
            run = problem.start(store, rng, past.F, centers)
        fit = run.complete().finish()
    F = fit.F
    if not spec.keep_start:
        F = between(past.F, F, past.share(comparisons.n_constraints))
    learned = fit.attributes(supervision, store.mean) | comparison_attributes(
        supervision, comparisons
    )
    learned["weights_"] = learned["weights_"][: len(samples)]
    learned["n_samples_seen_"] = model.n_samples_seen_ + len(samples)
    learned["n_comparisons_seen_"] = n_seen
    L = F.T.copy() if spec.keep_start else principal_components(F)
    learned |= {"start_kept_": choice.keep_start, "gain_": choice.gain}
    learned |= {"anchor_": choice.anchor} | posed.attributes()
    model._store(None, L, store.mean.dtype, **learned)
    warn_if_needed(model, spec, fit)
    if choice is not past.choice:
        warn_of_gain(spec, None if choice.gain is None else Gain(**choice.gain), supervision)
    return replace(past, F=F, choice=choice), comparisons

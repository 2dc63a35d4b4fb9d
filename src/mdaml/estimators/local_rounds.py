"""How LocalMDaML learns places: in two rounds, chosen on held-out comparisons."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from mdaml._typing import FloatArray
from mdaml._validation import check_random_state, has_unit_rows, ignore_warnings
from mdaml.basis import (
    N_LANDMARKS,
    Basis,
    Gates,
    find_landmarks,
    find_maps,
    find_places,
    mean_sq_dist,
)
from mdaml.constraints.matching import compared_rows
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators.mdaml import MDaML
from mdaml.estimators.mdaml_warnings import warn_of_scales, warn_of_swapped
from mdaml.estimators.posing import is_auto, place, pose
from mdaml.estimators.presets import PRESETS
from mdaml.holdout.anchor import choose_anchor
from mdaml.kernels.products import Product, blocks, rows_times
from mdaml.solver.start import ANCHOR_SQ_DIST
from mdaml.stores.choice import current_limit, find_device
from mdaml.stores.shared import SharedStores

# What "auto" stands for, and is chosen from; see docs/places.md.
N_PLACES = 128
WIDTHS = (0.6, 1.6)  # of landmarks, times the usual one
RANK = 8
# Share of the features in the learned squared distances; the second where the anchor is strong,
# because comparisons are few and some are wrong.
FEATURES, _MORE_FEATURES, _STRONG_ANCHOR = 0.15, 0.3, 8.0
# An anchor of one adds 1/768 of the squared length of the map, on conditioned columns, to the mean
# loss; that of the second round is neither weaker nor stronger than these.
_PENALTY = 1.0 / 768.0
_SECOND = (0.8, 2.5)
_MOST_COMPARISONS = 20_000  # of the first round, and of the choice
_SHARED = (
    *("goal", "triplet_weight", "ridge", "anchor", "n_components", "max_iter", "tol"),
    *("device", "verbose", "callback", "random_state"),
)
_ROUNDS_TO_CHOOSE = 2
_ANCHORS_OF_FEW = 2  # the strongest are tried: of few comparisons weaker ones are hardly ever taken
# Columns of more bytes, or that would not fit so many times into a limit, are made in blocks.
_MOST_COLUMNS, _COPIES = 2**28, 3
_ROWS_AT_ONCE = 8192  # whose closeness to landmarks is kept beside the columns
QUIET: dict[str, Any] = {"verbose": 0, "callback": None}


def inner_metric(model: Any, **others: Any) -> MDaML:
    """Return an MDaML with the parameters of a model, but for some; its messages name the model."""
    metric = MDaML(**{name: getattr(model, name) for name in _SHARED} | others)
    metric._named = type(model).__name__
    return metric


# Fits a metric to the columns of all samples on a basis, times the transpose of a matrix.
FitMetric: TypeAlias = Callable[[MDaML, Basis, FloatArray | None], None]


@dataclass(frozen=True)
class Learned:
    """A basis, the metric on its conditioned columns, and what was tried before."""

    basis: Basis
    metric: MDaML
    conditioner: FloatArray | None = None  # (m, n_columns); None for the features themselves
    features: float = 0.0  # their factor in what is learned
    anchor: float = 0.0
    tried: tuple[dict[str, Any], ...] = ()
    gain: dict[str, Any] | None = None

    def map(self, X: FloatArray) -> FloatArray:
        """Return where rows are in the learned space."""
        columns = self.basis.transform(X)
        return rows_times(columns, np.ascontiguousarray(self.components().T))

    def components(self) -> FloatArray:
        """Return the linear map on the columns of the basis; features come last."""
        L = self.metric.components_
        if self.conditioner is None:
            return L
        L = L @ self.conditioner.astype(L.dtype)
        if not self.features:
            return L
        assert self.basis.mean is not None
        rest = self.features * np.eye(len(self.basis.mean), L.shape[1], dtype=L.dtype)
        return np.concatenate([L, rest])


def second_anchor(anchor: float) -> float:
    """Return the anchor of the second round, of that of the first."""
    return float(np.clip(anchor, *_SECOND))


@dataclass
class Rounds:
    """Two rounds: from the closeness to landmarks to a space, and from modes in it to places.

    Only :meth:`learn` changes it: it gives up what would take memory beside the second round.
    """

    model: Any
    X: FloatArray  # rows that take part in the first round and in the choice
    supervision: Constraints  # about them
    landmarks: Gates
    conditioner: FloatArray  # of the closeness to them
    columns: FloatArray  # of the rows, conditioned
    n_places: int
    n_maps: int
    shared: SharedStores  # of the columns
    rows: SharedStores = field(default_factory=dict)  # of the rows themselves

    @classmethod
    def of(
        cls, model: Any, X: FloatArray, supervision: Constraints, n_places: int | None, n_maps: int
    ) -> "Rounds":
        """Find landmarks; use the rows that are compared, and of many comparisons some."""
        n_places = min(N_PLACES, (len(X) + 1) // 2) if n_places is None else n_places
        _check_memory(model, X, n_places, n_maps)
        supervision = few_comparisons(supervision)
        rows = compared_rows(supervision)
        landmarks, some = find_landmarks(X), X[rows]
        supervision = supervision.restrict(rows)
        begun = cls(model, some, supervision, landmarks, some, some, n_places, n_maps, {})
        return begun._with(landmarks, some)

    def learn(
        self,
        X: FloatArray,
        supervision: Constraints,
        persons: Persons | None,
        anchor: float,
        fit: FitMetric | None = None,
    ) -> Learned:
        """Make both rounds, the first from few comparisons, the second from all.

        ``fit`` makes the second, if not with X.
        """
        with ignore_warnings(UserWarning):
            L = self._see(self.supervision, anchor, QUIET)
            self.columns = self.columns[:0].copy()
            self.shared.clear()
            self.rows.clear()
            basis = self._find_basis(X, L)
        T = basis.conditioner(X.shape[1], mean_sq_dist(X))
        spare = _must_spare(X, len(T), self.model.device)
        columns = basis.in_blocks(X, T) if spare else basis.transform(X, T)
        metric = make_metric(self.model, columns, second_anchor(anchor))
        warn_of_scales(X)  # and not of the columns, which are ours
        warn_of_swapped(X, supervision, None)
        if fit is None:
            _fit(metric, columns, supervision, persons)
        else:
            fit(metric, basis, T)
        learned = rows_times(columns, np.ascontiguousarray(metric.components_.T))
        return Learned(basis, metric, T, self._factor_of_features(X, learned, anchor), anchor)

    def _see(
        self, supervision: Constraints, anchor: float, others: dict[str, Any]
    ) -> FloatArray | None:
        """Make the first round: learn the map of conditioned columns to a space, (r, m)."""
        if not self.n_places:
            return None
        metric = make_metric(self.model, self.columns, anchor, **others)
        return _solve(metric, self.columns, supervision, self.shared)

    def _find_basis(
        self, X: FloatArray, L: FloatArray | None, seen: FloatArray | None = None
    ) -> Basis:
        """Find modes in the space of the first round; ``seen``: where the rows are, if known."""
        basis = Basis(mean=X.mean(axis=0))
        if L is not None:
            U = (L @ self.conditioner).astype(X.dtype)
            basis = replace(basis, landmarks=self.landmarks, landmark_map=U)
            basis = find_places(X, basis, self.n_places, seen)
        if self.n_maps:
            basis = replace(basis, maps=find_maps(X, self.n_maps))
        return basis

    def _factor_of_features(self, X: FloatArray, learned: FloatArray, anchor: float) -> float:
        """Return the factor of the features that gives them their share beside places."""
        if not self.n_places or self.model.n_components is not None:
            return 0.0
        share = FEATURES if anchor < _STRONG_ANCHOR else _MORE_FEATURES
        return float(np.sqrt(share * mean_sq_dist(learned) / mean_sq_dist(X)))

    def widened(self, factor: float) -> "Rounds":
        """Return the same with landmarks of another width."""
        landmarks = replace(self.landmarks, width=factor * self.landmarks.width)
        return self._with(landmarks, self.X)

    def _with(self, landmarks: Gates, rows: FloatArray) -> "Rounds":
        conditioner = landmarks.conditioner()
        # Single precision is enough to find modes.
        gates, single = _to_single(landmarks, rows)
        columns, T = np.empty((len(rows), len(gates)), np.float32), conditioner.T
        for begin, end in blocks(0, len(rows), _ROWS_AT_ONCE):
            near = gates.closeness(single[begin:end])
            rows_times(near, np.ascontiguousarray(T), out=columns[begin:end])
        return replace(
            self, landmarks=landmarks, conditioner=conditioner, columns=columns, shared={}
        )

    def choose(self, anchors: Sequence[float]) -> "ChosenPlaces":
        """Choose on held-out points between one linear map and places, and how to learn these."""
        from mdaml.holdout.places import FEW_COMPARISONS, choose_candidate

        are_few = self.supervision.n_constraints <= FEW_COMPARISONS
        anchors = anchors[-_ANCHORS_OF_FEW:] if are_few else anchors
        with ignore_warnings(UserWarning):
            linear = _linear_anchor(self.model, self.X, self.supervision, self.rows)
            several = partial(choose_candidate, self.X, self.supervision)
            found = several(
                [partial(self._map_linearly, linear), *(partial(self._map, a) for a in anchors)]
            )
            if found is None:
                return ChosenPlaces(self, None)
            taken, scores, gain = found
            numbers = [(0, 0, linear, 1.0)]
            numbers += [(self.n_places, self.n_maps, anchor, 1.0) for anchor in anchors]
            numbers = numbers[: len(scores)]
            best, anchor = self, anchors[taken - 1] if taken else None
            if anchor is not None and not are_few:
                others = [self, *(self.widened(factor) for factor in WIDTHS)]
                again = several([partial(other._map, anchor) for other in others])
                assert again is not None
                numbers += [(self.n_places, self.n_maps, anchor, factor) for factor in WIDTHS]
                scores += again[1][1:]
                if again[0]:
                    best, gain, taken = others[again[0]], again[2], len(found[1]) - 1 + again[0]
        names = ("n_places", "n_maps", "anchor", "width", "score", "is_chosen")
        tried = tuple(
            dict(zip(names, (*each, score, k == taken), strict=True))
            for k, (each, score) in enumerate(zip(numbers, scores, strict=True))
        )
        return ChosenPlaces(best, anchor, tried, gain)

    def _map(self, anchor: float, supervision: Constraints) -> FloatArray:
        """Return where rows are after short rounds."""
        (landmarks, rows), seen = _to_single(self.landmarks, self.X), None
        L = self._see(supervision, anchor, self._short())
        if L is not None:
            seen = rows_times(self.columns, np.ascontiguousarray(L.T))
        basis = replace(self, landmarks=landmarks)._find_basis(rows, L, seen)
        columns = basis.transform(rows, basis.conditioner(rows.shape[1], mean_sq_dist(rows)), seen)
        metric = make_metric(self.model, columns, second_anchor(anchor), **self._short())
        learned = rows_times(columns, np.ascontiguousarray(_solve(metric, columns, supervision).T))
        factor = self._factor_of_features(rows, learned, anchor)
        return np.hstack([learned, np.float32(factor) * rows]) if factor else learned

    def _map_linearly(self, anchor: float, supervision: Constraints) -> FloatArray:
        L = _solve(
            _make_linear(self.model, anchor, **self._short()), self.X, supervision, self.rows
        )
        return rows_times(self.X, np.ascontiguousarray(L.T))

    def _short(self) -> dict[str, Any]:
        rounds = {"max_iter": _ROUNDS_TO_CHOOSE} if is_auto(self.model.max_iter) else {}
        return QUIET | rounds


@dataclass(frozen=True)
class ChosenPlaces:
    """Rounds to make with an anchor, or with None a linear map; and what was tried."""

    rounds: Rounds
    anchor: float | None
    tried: tuple[dict[str, Any], ...] = ()
    gain: dict[str, Any] | None = None


def few_comparisons(supervision: Constraints) -> Constraints:
    """Return the comparisons that the first round learns from: of many, some."""
    if supervision.n_constraints <= _MOST_COMPARISONS:
        return supervision
    order = np.random.RandomState(0).permutation(supervision.n_constraints)
    return supervision.select(np.sort(order[:_MOST_COMPARISONS]))


def _to_single(gates: Gates, rows: FloatArray) -> tuple[Gates, FloatArray]:
    """Return gates and rows from their middle, in a unit as large as the gates are wide.

    Single precision has no numbers as large or small as samples may be, and too few digits for
    samples that are far from the origin.
    """
    middle, unit = gates.centers.mean(axis=0), 2.0 ** round(np.log2(gates.width) / 2.0)
    single = ((rows - middle) / unit).astype(np.float32)
    return Gates((gates.centers - middle) / unit, gates.width / unit**2), single


def make_metric(model: Any, columns: FloatArray | Product, anchor: float, **others: Any) -> MDaML:
    """Return the metric to learn on conditioned columns."""
    preset = PRESETS["comparisons"] if isinstance(model.goal, str) else model.goal
    n_columns, rank = columns.shape[1], model.n_components or RANK
    strength = _PENALTY * anchor * n_columns * ANCHOR_SQ_DIST / mean_sq_dist(columns)
    others |= {
        "goal": replace(preset, measure=False, barrier=False),
        "anchor": strength,
        "n_components": min(rank, max(n_columns - 1, 1)),
    }
    return inner_metric(model, **others)


def _make_linear(model: Any, anchor: float, **others: Any) -> MDaML:
    """Return a linear metric for a trial, of an anchor that was chosen."""
    preset = PRESETS["comparisons"] if isinstance(model.goal, str) else model.goal
    others |= {"goal": replace(preset, measure=False), "anchor": anchor}
    return inner_metric(model, **others)


def _linear_anchor(
    model: Any, X: FloatArray, supervision: Constraints, shared: SharedStores
) -> float:
    """Return the anchor that a linear map chooses, as far as one part of the points tells."""
    metric = inner_metric(model, **QUIET, n_components=None)
    posed = pose(metric, X.shape, supervision, unit_rows=has_unit_rows(X))
    spec = posed.spec
    if not spec.anchors or not spec.is_measured:
        return spec.anchor
    store = place(metric, X, spec, supervision, shared=shared)
    with store.threads():
        return choose_anchor(spec, store, supervision, roughly=True)[0].anchor


def _fit(
    metric: MDaML, columns: FloatArray | Product, supervision: Constraints, persons: Persons | None
) -> None:
    """Fit a metric to columns, which may be made in blocks; nothing is said about them."""
    posed = pose(metric, columns.shape, supervision, persons=persons)
    store = place(metric, columns, posed.spec, posed.problem.supervision)
    rng = check_random_state(metric.random_state)
    with store.threads():
        run = posed.problem.start(store, rng).complete()
        metric._keep(np.empty((0, columns.shape[1]), columns.dtype), posed, run, None)


def _solve(
    metric: MDaML, X: FloatArray, supervision: Constraints, shared: SharedStores | None = None
) -> FloatArray:
    """Return the map that a metric learns: no gain is measured, and nothing is kept."""
    posed = pose(metric, X.shape, supervision)
    store = place(metric, X, posed.spec, supervision, shared=shared)
    with store.threads():
        run = posed.problem.start(store, np.random.RandomState(0)).complete()
    return np.ascontiguousarray(run.metric.T)


def _must_spare(X: FloatArray, n_columns: int, device: str | None) -> bool:
    """Return whether columns are made again for every step, and not kept beside the rows."""
    if find_device("LocalMDaML(device=...)", device) is not None:
        return False
    limit, columns = current_limit(), len(X) * n_columns * X.itemsize
    if limit is None:
        return columns > _MOST_COLUMNS
    return _COPIES * columns > limit


def _check_memory(model: Any, X: FloatArray, n_places: int, n_maps: int) -> None:
    """Refuse columns that exceed the limit of memory, before any work."""
    limit, (n, d) = current_limit(), X.shape
    n_columns = n_places + n_maps * d
    spare = limit is None or _must_spare(X, n_columns, model.device)
    second = 0 if spare else n * n_columns * X.itemsize
    # Closeness to landmarks in single precision, conditioned.
    first = 4 * min(n, N_LANDMARKS) * (min(n, 3 * _MOST_COMPARISONS) + min(n, _ROWS_AT_ONCE))
    if limit is None or first + second <= limit:
        return
    raise ValueError(
        f"limit_memory allows {limit / 1e6:.0f} MB beyond X and the comparisons, but {n_places} "
        f"places and {n_maps} maps need {second / 1e6:.0f} MB for their columns and "
        f"{first / 1e6:.0f} MB for landmarks. Raise the limit, pass fewer samples or a smaller "
        "n_places, or fit MDaML. partial_fit takes samples in chunks."
    )

"""From the parameters of MDaML to a problem: the only reader of the table of defaults."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from mdaml._typing import ArrayLike, FloatArray, Matrix, Params
from mdaml._validation import (
    check_callback,
    check_choice,
    check_integer,
    check_metric,
    check_number,
    check_start_weights,
    warn,
)
from mdaml.constraints.arguments import Supervision, weighable
from mdaml.constraints.labels import Classes
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.estimators import presets
from mdaml.holdout.anchor import choose_anchor
from mdaml.holdout.rule import Gain
from mdaml.holdout.samples import choose_shrinkage
from mdaml.solver.run import Problem
from mdaml.solver.spec import Spec
from mdaml.solver.store import Store
from mdaml.stores.choice import FitSize, current_limit, find_device, fit_size, make_store
from mdaml.stores.shared import SharedStore, SharedStores

GOALS = ("auto", "comparisons", "neighbors", "paper")


@dataclass(frozen=True)
class Posed:
    """Parameters and supervision, with the row of the table that they were made of."""

    spec: Spec
    supervision: Supervision
    persons: Persons | None
    row: str  # name of the preset, "given" for one that was passed
    described: str  # what was passed, and what it became

    @property
    def problem(self) -> Problem:
        """What is to be minimised."""
        return Problem(self.spec, weighable(self.supervision, self.persons), self.persons)

    def attributes(self) -> Params:
        """Return the learned attributes of an estimator that say what was posed."""
        return {"preset_": self.row, "supervision_": self.described}

    def choose(self, store: Store, measured: Gain | None = None) -> tuple["Posed", Gain | None]:
        """Choose on held-out points or samples what is left to be chosen; return what is gained.

        ``measured`` is the gain that a search has measured: enough if nothing is to be chosen.
        """
        if not self.spec.is_measured:
            return self, None
        if measured is not None and not (self.spec.anchors or self.spec.shrinkages):
            return self, measured
        if isinstance(self.supervision, Classes):
            spec, gain = choose_shrinkage(self.spec, store, self.supervision)
        else:
            spec, gain = choose_anchor(self.spec, store, self.supervision, self.persons)
        return replace(self, spec=spec), gain


def pose(
    model: BaseEstimator,
    shape: tuple[int, int],
    supervision: Supervision,
    *,
    unit_rows: bool = False,
    persons: Persons | None = None,
    as_given: bool = False,
) -> Posed:
    """Check all parameters for samples of a shape; return the problem that they pose.

    If neighbours are the goal and the comparisons follow groups, the groups are learned from
    instead, unless ``persons`` is given or the comparisons are wanted ``as_given``. ``unit_rows``
    says that all samples have length one.
    """
    row, preset = choose_row(model, from_labels=isinstance(supervision, Classes))
    groups, described = None, describe_supervision(supervision)
    as_given = as_given or persons is not None
    if preset.find_groups and not as_given and isinstance(supervision, Constraints):
        groups = groups_of(supervision)
    if groups is not None:
        row, preset, supervision = "groups", presets.PRESETS["groups"], groups
        described += f", which became {len(groups.size)} groups"
    spec = _resolve(model, preset, shape, supervision, unit_rows)
    if not (isinstance(supervision, Classes) or spec.keep_start):
        _warn_of_idle(model, row, preset, spec)
    return Posed(spec, supervision, persons, row, described)


def choose_row(model: BaseEstimator, *, from_labels: bool) -> tuple[str, presets.Preset]:
    """Return the row of the table that the goal and the supervision choose."""
    goal = model.goal
    if not isinstance(goal, str):
        return "given", presets.as_preset(model, goal)
    check_choice(model, "goal", goal, GOALS, why=" Or pass a Preset.")
    row = "comparisons" if goal == "auto" else goal
    if from_labels and goal != "paper":
        row = "labels"
    return row, presets.PRESETS[row]


def describe_supervision(supervision: Supervision) -> str:
    """Return how much was passed, in words."""
    if isinstance(supervision, Classes):
        return f"{len(supervision.rows)} labels of {len(supervision.size)} classes"
    counts = {
        name: len(getattr(supervision, name)) for name in ("triplets", "pairs", "quadruplets")
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def groups_of(supervision: Constraints) -> Classes | None:
    """Return the groups that comparisons follow, if any, as classes."""
    from mdaml.constraints.groups import find_groups  # few fits look for them

    groups = find_groups(supervision)
    return None if groups is None else Classes.from_labels("MDaML", groups)


def place(
    model: BaseEstimator,
    X: Matrix,
    spec: Spec,
    supervision: Supervision,
    *,
    copied: bool = False,
    shared: SharedStores | None = None,
) -> Any:
    """Return the samples in the store that suits the device, the size and the memory limit.

    ``shared`` has, and gets, the stores of other fits to the same samples.
    """
    check_choice(model, "device", model.device, [None, "cpu", "cuda", "auto"])
    limit = current_limit()
    device = find_device("MDaML(device=...)", model.device)

    def size() -> FitSize:
        return fit_size(X.shape, X.itemsize, spec, supervision, copied=copied)

    if shared is None or limit is not None:
        return make_store(X, device, limit, size)
    if device not in shared:
        shared[device] = SharedStore(make_store(X, device))
    return shared[device]


def _resolve(
    model: BaseEstimator,
    preset: presets.Preset,
    shape: tuple[int, int],
    supervision: Supervision,
    unit_rows: bool,
) -> Spec:
    """Return every cell of a row, with those replaced that were given."""
    n_samples, n_features = shape
    from_labels = isinstance(supervision, Classes)
    check_callback(model, model.callback)
    rank = check_low_rank(model, n_features)
    share = (rank or n_features) / n_features  # of the numbers of a metric of full rank
    partners = presets.as_partners(model, model.partners, preset.partners)
    n_modes, counted, weights = _check_n_modes(model, preset, n_samples)
    why = " There is no best weight of a sample in a mode (Eq. 14 of the paper) for eta <= 1."
    eta = check_or_auto(model, "eta", preset.eta, 1.0, strict=True, why=why)
    anchors = () if from_labels else list_anchors(preset, supervision, n_features, unit_rows, share)
    if not is_auto(model.anchor):
        anchors = ()
    fixed = preset.anchor if isinstance(preset.anchor, float) else 0.0
    anchor = check_or_auto(model, "anchor", anchors[-1] if anchors else fixed, 0.0)
    shrinkage, shrinkages = _check_shrinkage(model, preset, from_labels and rank is None)
    metric = model.init_metric
    if is_auto(metric):
        metric = preset.init_metric
    return Spec(
        n_modes=n_modes,
        count_modes=counted,
        mean_weight=preset.weight_unit == "self-weight" and is_auto(model.triplet_weight),
        eta=eta,
        anchor=anchor,
        barrier=preset.barrier,
        anchors=anchors if shrinkage < 1.0 else (),
        keep_start=shrinkage == 1.0,
        floor=preset.floor,
        shrinkage=shrinkage,
        shrinkages=shrinkages,
        is_measured=preset.measure and shrinkage < 1.0,
        triplet_weight=_check_triplet_weight(model, preset, n_modes, eta, share),
        ridge=check_or_auto(model, "ridge", _ridge_of(preset, n_modes, eta), 0.0),
        rank=rank,
        metric=_check_init_metric(model, metric, n_features),
        # A start of low rank, or at an anchor, has its scale already.
        scale_metric=is_auto(metric) and rank is None and anchor == 0.0,
        weights=weights,
        neighbors=from_labels and partners.kind == "neighbors",
        n_refresh=partners.n_refresh,
        n_similar=partners.n_similar,
        n_dissimilar=partners.n_dissimilar,
        pairing=partners.pairing,
        max_iter=_check_max_iter(model, preset),
        max_inner_iter=preset.max_inner_iter,
        tol=check_number(model, "tol", model.tol, 0.0),
        callback=model.callback,
    )


def list_anchors(
    preset: presets.Preset, supervision: Supervision, n_features: int, unit_rows: bool, share: float
) -> tuple[float, ...]:
    """Return the strengths to choose from, the strongest first; none if the cell is a number."""
    if isinstance(preset.anchor, float) or isinstance(supervision, Classes):
        return ()
    allowed = amount_anchors(preset.anchor, supervision, n_features, unit_rows)
    return tuple(share * anchor for anchor in allowed)


def amount_anchors(
    cell: tuple[float, ...] | str, supervision: Constraints, n_features: int, unit_rows: bool
) -> tuple[float, ...]:
    """Return how strongly the metric may be held near its start, the strongest first.

    Neighbours of embeddings are good before anything is learned. Where fewer points were compared
    than there are features, or far fewer comparisons were made than the metric has numbers, they
    can teach little about other points, and comparisons held out among so few would not tell.
    """
    given = (supervision.triplets, supervision.pairs, supervision.quadruplets)
    first = np.concatenate([part[:, 0] for part in given])
    n_compared = np.count_nonzero(np.bincount(first, minlength=1))
    least = presets.LEAST_ANCHOR * (2.0 * n_features / n_compared) ** 4
    if isinstance(cell, str):
        few = presets.ANCHOR_OF_FEW * (n_features**2 / (2.0 * supervision.n_constraints)) ** 1.5
        wanted = presets.STRONG_ANCHOR if unit_rows else max(presets.USUAL_ANCHOR, few)
        return (min(max(wanted, least), presets.STRONG_ANCHOR),)
    return tuple(anchor for anchor in cell if anchor >= least) or (presets.STRONG_ANCHOR,)


def _check_shrinkage(
    model: BaseEstimator, preset: presets.Preset, can_choose: bool
) -> tuple[float, tuple[float, ...]]:
    """Return how far to go back to the start, and what to choose it from."""
    cell = preset.shrinkage
    choices = cell if isinstance(cell, tuple) and can_choose else ()
    usual = cell if isinstance(cell, float) and can_choose else 0.0
    shrinkage = check_or_auto(model, "shrinkage", usual, 0.0, 1.0)
    return shrinkage, choices if is_auto(model.shrinkage) else ()


def _check_n_modes(
    model: BaseEstimator, preset: presets.Preset, n_samples: int
) -> tuple[int, bool, FloatArray | Literal["gmm", "kmeans"]]:
    """Return the number of modes, whether it is the most of them to be counted, and the weights.

    ``n_modes`` may be the first weights themselves.
    """
    given = model.n_modes
    is_array = isinstance(given, list | tuple) or hasattr(given, "__array__")
    if is_array and not isinstance(given, np.generic):
        weights = check_start_weights(model, given, n_samples)
        return weights.shape[1], False, weights
    if not is_auto(given):
        rows = ", the number of rows of X"
        n_modes = check_integer(model, "n_modes", given, 1, n_samples, what=rows)
        return n_modes, False, preset.init_modes
    if preset.n_modes != "counted":
        return min(preset.n_modes, n_samples), False, preset.init_modes
    most = max(min(presets.MOST_MODES, n_samples // presets.SAMPLES_PER_MODE), 1)
    return most, True, preset.init_modes


def is_auto(value: object) -> bool:
    """Return whether a parameter is left to be chosen."""
    return isinstance(value, str) and value == "auto"


def check_or_auto(
    model: BaseEstimator,
    name: str,
    auto: float,
    *limits: float,
    strict: bool = False,
    why: str = "",
) -> float:
    """Return a number within limits, or what "auto" stands for."""
    value = getattr(model, name)
    if is_auto(value):
        return auto
    return check_number(
        model, name, value, *limits, strict=strict, why=why + " 'auto' chooses a value."
    )


def check_low_rank(model: BaseEstimator, n_features: int) -> int | None:
    """Return ``n_components`` if it asks for less than full rank, otherwise None."""
    if model.n_components is None:
        return None
    what = ", the number of features of X"
    rank = check_integer(model, "n_components", model.n_components, 1, n_features, what=what)
    return rank if rank < n_features else None


def _ridge_of(preset: presets.Preset, n_modes: int, eta: float) -> float:
    """Return the ridge of a row: in units of modes it weighs the same however many there are."""
    if preset.weight_unit != "modes":
        return preset.ridge
    return preset.ridge * min(1.0, (presets.MODES_OF_RIDGE / n_modes) ** eta)


def _check_triplet_weight(
    model: BaseEstimator, preset: presets.Preset, n_modes: int, eta: float, share: float
) -> float:
    value, why = model.triplet_weight, " 'auto' chooses a value."
    if is_auto(value) and preset.weight_unit == "modes":
        with np.errstate(over="ignore"):  # the check below says it in words
            value = preset.triplet_weight * np.float64(n_modes) ** eta
        why = f" 'auto' grows like n_modes**eta, and eta is {eta}: lower it."
    elif is_auto(value):
        value = preset.triplet_weight / share
    return check_number(model, "triplet_weight", value, 0.0, strict=True, why=why)


def _check_init_metric(
    model: BaseEstimator, metric: ArrayLike | str | None, n_features: int
) -> FloatArray | Literal["whitened"] | None:
    if not isinstance(metric, str):
        return check_metric(model, "init_metric", metric, n_features)
    why = " Or pass a positive definite matrix."
    check_choice(model, "init_metric", metric, ["auto", "identity", "whitened"], why=why)
    return "whitened" if metric == "whitened" else None


def _check_max_iter(model: BaseEstimator, preset: presets.Preset) -> int:
    """Return the most rounds of a pass."""
    if not isinstance(model.max_iter, str):
        return check_integer(model, "max_iter", model.max_iter, 1)
    check_choice(model, "max_iter", model.max_iter, ["auto"], why=" Or pass a whole number.")
    return preset.max_iter


def _warn_of_idle(model: BaseEstimator, row: str, preset: presets.Preset, spec: Spec) -> None:
    """Warn of what was asked for but cannot change what is learned from comparisons."""
    if not (is_auto(model.partners) or preset.find_groups):
        warn(
            "partners has no effect: it says how triplets are drawn from labels, and comparisons "
            "were passed. Leave it out, or pass labels instead."
        )
    if spec.floor < 1.0:
        return
    is_given = row == "given" or not is_auto(model.n_modes)
    asked = {"n_modes": is_given and spec.n_modes > 1}
    asked |= {"eta": not (is_given or is_auto(model.eta))}
    for name in [name for name, is_asked in asked.items() if is_asked][:1]:
        value = getattr(spec, name)
        warn(
            f"{name}={value} has next to no effect: in the preset {row!r} every comparison "
            f"keeps its whole weight, whatever the modes. Leave {name} to be chosen; or let modes "
            f"decide by MDaML.paper({name}={value}), or by goal='neighbors'."
        )

"""The parameters of MDaML, checked before a fit."""

from typing import Any

import numpy as np

from mdaml._typing import FloatArray
from mdaml._validation import (
    check_callback,
    check_choice,
    check_integer,
    check_memory_limit,
    check_metric,
    check_number,
    check_start_weights,
)
from mdaml.constraints.arguments import Supervision
from mdaml.constraints.groups import find_groups
from mdaml.constraints.labels import Classes
from mdaml.constraints.persons import Persons
from mdaml.holdout.anchor import choose_anchor
from mdaml.holdout.rule import Gain
from mdaml.holdout.samples import choose_shrinkage
from mdaml.solver.spec import Spec
from mdaml.stores.choice import FitSize, find_device, fit_size, make_store
from mdaml.stores.shared import SharedStore, SharedStores

# What is chosen where "auto" stands, from the studies of docs/accuracy.md.
_ANCHORS = (10.0, 2.0, 0.5, 0.1, 0.02, 0.003)  # tried for comparisons
_ANCHOR = 0.1  # for neighbours
_STRONG_ANCHOR = 10.0
_FLOOR = {"comparisons": 1.0, "neighbors": 0.05}
_ETA = 1.1
_RIDGE = 1e-4
SHRINKAGE = 0.5  # of what was learned from groups
SHRINKAGES = (0.0, 0.25, 0.5, 0.75)  # tried for labels, beside the start itself
_WEIGHT = 6.0  # times d/r at rank r, where there is less to learn
_MOST_MODES = 32  # and no more than one for twenty samples


def resolve(
    model: Any,
    shape: tuple[int, int],
    said: Supervision,
    *,
    unit_rows: bool = False,
    keep: bool = False,
) -> tuple[Spec, Supervision]:
    """Check all parameters; return them resolved, with what to learn from.

    That is what was said; or groups that it follows, where neighbours are the goal and all is left
    to be chosen. ``keep`` leaves what was said as it is: persons answer for comparisons.
    """
    spec = check_parameters(model, shape, said, unit_rows=unit_rows)
    classes = classes_of(model.goal, said) if is_auto(model.anchor) and not keep else None
    if classes is None:
        return spec, said
    return check_parameters(model, shape, classes, unit_rows=unit_rows, found=True), classes


def place(
    model: Any,
    X: FloatArray,
    spec: Spec,
    said: Supervision,
    *,
    copied: bool = False,
    shared: SharedStores | None = None,
) -> Any:
    """Return the samples in a store, where they are to be computed with.

    ``shared`` has, and gets, the stores of other fits to the same samples.
    """
    check_choice(model, "device", model.device, [None, "cpu", "cuda", "auto"])
    limit = check_memory_limit(model, model.memory_limit)
    device = find_device("MDaML(device=...)", model.device)

    def size() -> FitSize:
        return fit_size(X.shape, X.itemsize, spec, said, copied=copied)

    if shared is None or limit is not None:
        return make_store(X, device, limit, size)
    if device not in shared:
        shared[device] = SharedStore(make_store(X, device))
    return shared[device]


def choose_rest(
    spec: Spec, store: Any, said: Supervision, persons: Persons | None
) -> tuple[Spec, Gain | None]:
    """Choose on held-out points or samples what is left to be chosen; return what was gained."""
    if not spec.is_measured:
        return spec, None
    if isinstance(said, Classes):
        return choose_shrinkage(spec, store, said)
    return choose_anchor(spec, store, said, persons)


def classes_of(goal: str, said: Supervision) -> Classes | None:
    """Return the groups that comparisons follow, if any, where neighbours are the goal."""
    if goal != "neighbors" or isinstance(said, Classes):
        return None
    groups = find_groups(said)
    return None if groups is None else Classes.from_labels("MDaML", groups)


def check_parameters(
    model: Any,
    shape: tuple[int, int],
    said: Supervision,
    *,
    unit_rows: bool = False,
    found: bool = False,
) -> Spec:
    """Check all parameters for samples of a shape; return them with every "auto" resolved.

    Modes may be left to be counted. ``unit_rows`` says that all samples have length one, ``found``
    that classes are groups found in comparisons.
    """
    n_samples, n_features = shape
    from_labels = isinstance(said, Classes)
    near = from_labels and model.sampling == "neighbors"
    check_choice(model, "sampling", model.sampling, ["neighbors", "random"])
    check_choice(model, "pairing", model.pairing, ["grid", "zip"])
    check_callback(model, model.callback)
    check_choice(model, "goal", model.goal, ["auto", "comparisons", "neighbors"])
    goal = model.goal
    if goal == "auto":
        goal = "neighbors" if from_labels else "comparisons"
    rank = check_low_rank(model, n_features)
    share = (rank or n_features) / n_features  # of the numbers that there are to learn
    anchors: tuple[float, ...] = ()
    if is_auto(model.anchor) and not near:
        allowed = auto_anchors(goal, said, n_features, unit_rows)
        anchors = tuple(share * anchor for anchor in allowed)
    anchor = check_or_auto(model, "anchor", anchors[-1] if anchors else 0.0, 0.0)
    floor = check_or_auto(model, "floor", _FLOOR[goal] if anchor else 0.0, 0.0, 1.0)
    why = " There is no best weight of a sample in a mode (Eq. 14 of the paper) for eta <= 1."
    eta = check_or_auto(model, "eta", _ETA if anchor else 3.0, 1.0, strict=True, why=why)
    shrinkage = SHRINKAGE if found and rank is None else 0.0
    # A parameter of the objective that is given is meant as it is.
    names = ("n_modes", "eta", "triplet_weight", "anchor", "floor", "ridge", "shrinkage")
    chosen = near and not found and rank is None
    chosen = chosen and all(is_auto(getattr(model, name)) for name in names)
    shrinkage = check_or_auto(model, "shrinkage", shrinkage, 0.0, 1.0)
    n_modes, counted = _check_n_modes(model, n_samples, floor if anchor else None)
    auto = is_auto(model.init_metric)
    weight = _WEIGHT / share if anchor else None
    return Spec(
        n_modes=n_modes,
        count_modes=counted,
        mean_weight=anchor > 0.0 and floor < 1.0 and is_auto(model.triplet_weight),
        eta=eta,
        anchor=anchor,
        anchors=anchors if not from_labels and shrinkage < 1.0 else (),
        keep_start=shrinkage == 1.0,
        floor=floor,
        shrinkage=shrinkage,
        shrinkages=SHRINKAGES if chosen else (),
        # The paper's objective is fitted as it is.
        is_measured=(is_auto(model.anchor) or anchor > 0.0) and shrinkage < 1.0,
        triplet_weight=_check_triplet_weight(model, near, n_modes, eta, weight),
        ridge=check_or_auto(model, "ridge", _auto_ridge(n_modes, eta, anchor), 0.0),
        rank=rank,
        metric=_check_init_metric(model, n_features),
        # Of low rank, or at an anchor, a start has its scale already.
        scale_metric=auto and rank is None and anchor == 0.0,
        weights=_check_init(model, n_samples, n_modes),
        neighbors=near,
        n_refresh=check_integer(model, "n_refresh", model.n_refresh, 0),
        n_similar=check_integer(model, "n_similar", model.n_similar, 1),
        n_dissimilar=check_integer(model, "n_dissimilar", model.n_dissimilar, 1),
        pairing=model.pairing,
        max_iter=_check_max_iter(model, near),
        max_inner_iter=check_integer(model, "max_inner_iter", model.max_inner_iter, 1),
        tol=check_number(model, "tol", model.tol, 0.0),
        callback=model.callback,
    )


def _auto_ridge(n_modes: int, eta: float, anchor: float) -> float:
    """Return a ridge that weighs the same beside the other terms, however many modes there are."""
    return _RIDGE if anchor else _RIDGE * min(1.0, (3.0 / n_modes) ** eta)


def auto_anchors(
    goal: str, said: Supervision, n_features: int, unit_rows: bool
) -> tuple[float, ...]:
    """Return how strongly the metric may be held near its start, the strongest first.

    Neighbours of embeddings are good before anything is learned. Where fewer points were compared
    than there are features, or far fewer comparisons were made than the metric has numbers, they
    can teach little about other points, and comparisons held out among so few would not tell.
    """
    if isinstance(said, Classes):
        return (_ANCHOR,)
    first = [said.triplets[:, 0], said.pairs[:, 0], said.quadruplets[:, 0]]
    n_compared = np.count_nonzero(np.bincount(np.concatenate(first), minlength=1))
    least = 0.03 * (2.0 * n_features / n_compared) ** 4
    if goal == "neighbors":
        few = 0.5 * (n_features**2 / (2.0 * said.n_constraints)) ** 1.5
        wanted = _STRONG_ANCHOR if unit_rows else max(_ANCHOR, few)
        return (min(max(wanted, least), _STRONG_ANCHOR),)
    return tuple(a for a in _ANCHORS if a >= least) or (_STRONG_ANCHOR,)


def _check_n_modes(model: Any, n_samples: int, floor: float | None) -> tuple[int, bool]:
    """Return the number of modes, or the most of them and that they are to be counted.

    ``floor`` is None without an anchor.
    """
    if not is_auto(model.n_modes):
        rows = ", the number of rows of X"
        return check_integer(model, "n_modes", model.n_modes, 1, n_samples, what=rows), False
    if isinstance(model.init, np.ndarray) and model.init.ndim == 2:
        return model.init.shape[1], False
    if floor is None:
        return min(3, n_samples), False
    # Where all comparisons count alike, modes gain nothing that an anchor has not gained already.
    return (1, False) if floor == 1.0 else (max(min(_MOST_MODES, n_samples // 20), 1), True)


def is_auto(value: Any) -> bool:
    """Return whether a parameter is left to be chosen."""
    return isinstance(value, str) and value == "auto"


def check_or_auto(model: Any, name: str, auto: float, *limits: float, **options: Any) -> float:
    """Return a number within limits, or what "auto" stands for."""
    value = getattr(model, name)
    if is_auto(value):
        return auto
    why = options.pop("why", "") + " 'auto' chooses a value."
    return check_number(model, name, value, *limits, why=why, **options)


def check_low_rank(model: Any, n_features: int) -> int | None:
    """Return ``n_components`` if it asks for less than full rank, otherwise None."""
    if model.n_components is None:
        return None
    what = ", the number of features of X"
    rank = check_integer(model, "n_components", model.n_components, 1, n_features, what=what)
    return rank if rank < n_features else None


def _check_triplet_weight(
    model: Any, near: bool, n_modes: int, eta: float, anchored: float | None
) -> float:
    if not is_auto(model.triplet_weight):
        why = " 'auto' chooses a value."
        return check_number(
            model, "triplet_weight", model.triplet_weight, 0.0, strict=True, why=why
        )
    if anchored is not None:
        return anchored
    with np.errstate(over="ignore"):  # the check below says it in words
        auto = (1000.0 if near else 300.0) * np.float64(n_modes) ** eta
    why = f" 'auto' grows like n_modes**eta, and eta is {eta}: lower it."
    return check_number(model, "triplet_weight", auto, 0.0, strict=True, why=why)


def _check_init_metric(model: Any, n_features: int) -> Any:
    if not isinstance(model.init_metric, str):
        return check_metric(model, "init_metric", model.init_metric, n_features)
    why = " Or pass a positive definite matrix."
    check_choice(model, "init_metric", model.init_metric, ["auto", "identity", "whitened"], why=why)
    return "whitened" if model.init_metric == "whitened" else None


def _check_init(model: Any, n_samples: int, n_modes: int) -> Any:
    if not isinstance(model.init, str):
        return check_start_weights(model, model.init, n_samples, n_modes)
    why = " Or pass an array of first weights, of shape (n_samples, n_modes)."
    check_choice(model, "init", model.init, ["gmm", "kmeans"], why=why)
    return model.init


def _check_max_iter(model: Any, near: bool) -> int:
    """Return the most rounds of a pass, given whether its triplets are neighbours."""
    if not isinstance(model.max_iter, str):
        return check_integer(model, "max_iter", model.max_iter, 1)
    check_choice(model, "max_iter", model.max_iter, ["auto"], why=" Or pass a whole number.")
    return 2 if near else 10

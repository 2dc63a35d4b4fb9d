"""The defaults of MDaML: one table, a row for each kind of fit, a value in every cell.

The goal and the supervision choose the row; an argument that is given replaces its cell and nothing
else. Numbers that decide defaults stand nowhere else. The studies behind them: docs/accuracy.md.
"""

import math
from dataclasses import MISSING, dataclass, fields, replace
from typing import Literal, TypeVar

from mdaml._typing import Params
from mdaml._validation import check_choice, check_integer, check_number
from mdaml.constraints.labels import Pairing


@dataclass(frozen=True)
class Partners:
    """How the partners of each sample are drawn from labels, to make triplets of them.

    Parameters
    ----------
    kind : {"neighbors", "random"}, default="neighbors"
        The nearest samples under the start metric, or random ones, as in the paper.
    n_similar, n_dissimilar : int, default=5
        Partners of the same class, and of other classes.
    n_refresh : int, default=1
        How often to search the nearest samples again under the metric learned so far, and to
        continue with the new triplets. Random ones stay.
    pairing : {"grid", "zip"}, default="grid"
        Combine every similar partner with every dissimilar one, or pair them off in turn.

    See Also
    --------
    MDaML : Takes it as ``partners``.
    Preset : A whole row of defaults.

    Examples
    --------
    >>> from mdaml import MDaML, Partners
    >>> MDaML(partners=Partners(n_similar=3, n_dissimilar=10)).partners.n_refresh
    1
    """

    kind: Literal["neighbors", "random"] = "neighbors"
    n_similar: int = 5
    n_dissimilar: int = 5
    n_refresh: int = 1
    pairing: Pairing = "grid"


@dataclass(frozen=True)
class Preset:
    """A value for every parameter of a fit of MDaML: a row of the table of defaults.

    Pass one as ``goal`` to set what is no parameter of :class:`MDaML` of its own.

    Parameters
    ----------
    n_modes : int or "counted"
        Number of modes; "counted": as many as a Gaussian mixture finds in X, up to 32.
    eta : float
        Exponent of the weights.
    triplet_weight : float
        Weight of the triplet loss, in units of `weight_unit`.
    weight_unit : {"one", "modes", "self-weight"}
        "modes": times ``n_modes**eta``, and the ridge times ``(3 / n_modes)**eta``, at most one;
        "self-weight": over the mean self-weight of the comparisons at the start. With the last and
        with "one", also times ``n_features / n_components`` at low rank, and the anchor over it.
    ridge : float
        Weight of the penalty on the squared norm.
    anchor : float, tuple of float or "by amount"
        How strongly the metric is kept near its start. Of several values, strongest first, the best
        is chosen on held-out points; the start stays if none leads it by more than chance. "by
        amount": 0.1, more with few comparisons, 10 for rows of unit length; or the start.
    floor : float
        Share of its weight that a comparison keeps whatever the modes, from 0 to 1.
    shrinkage : float or tuple of float
        How far the metric is moved back to its start. Of several values the best is chosen by the
        neighbours of held-out samples, for labels at full rank.
    partners : Partners
        How triplets are drawn from labels.
    init_metric : {"auto", "identity", "whitened"}
        Where the metric starts, see :class:`MDaML`.
    init_modes : {"gmm", "kmeans"}
        First weights: posteriors of a Gaussian mixture, or the nearest k-means centre.
    max_iter, max_inner_iter : int
        Rounds in each pass, and steps of the metric in each round.
    find_groups : bool
        Look for groups that the comparisons follow, and learn from these as from labels.
    measure : bool
        Measure on held-out points or samples what is gained.
    barrier : bool
        Whether the anchor keeps directions of a metric of low rank from vanishing.

    See Also
    --------
    MDaML : Takes it as ``goal``.
    Partners : How triplets are drawn from labels.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from mdaml import MDaML, PRESETS
    >>> model = MDaML(goal=replace(PRESETS["neighbors"], floor=0.3))
    """

    n_modes: int | Literal["counted"]
    eta: float
    triplet_weight: float
    weight_unit: Literal["one", "modes", "self-weight"]
    ridge: float
    anchor: float | tuple[float, ...] | Literal["by amount"]
    floor: float
    shrinkage: float | tuple[float, ...]
    partners: Partners = Partners()
    init_metric: Literal["auto", "identity", "whitened"] = "auto"
    init_modes: Literal["gmm", "kmeans"] = "gmm"
    max_iter: int = 10
    max_inner_iter: int = 5
    find_groups: bool = False
    measure: bool = True
    barrier: bool = True


RANDOM_PARTNERS = Partners("random", n_similar=10, n_dissimilar=10, n_refresh=0)

# Labels. Few rounds in each pass: triplets of neighbours are soon satisfied, more overfit.
_LABELS = Preset(
    n_modes=3,
    eta=3.0,
    triplet_weight=1000.0,
    weight_unit="modes",
    ridge=1e-4,
    anchor=0.0,
    floor=0.0,
    shrinkage=(0.0, 0.25, 0.5, 0.75),
    max_iter=2,
)

PRESETS: dict[str, Preset] = {
    "labels": _LABELS,
    # Groups found in comparisons, which are learned from as from labels.
    "groups": replace(_LABELS, shrinkage=0.5),
    # Comparisons, to predict others. Where all count alike, an anchor leaves modes nothing to gain.
    "comparisons": Preset(
        n_modes=1,
        eta=1.1,
        triplet_weight=6.0,
        weight_unit="one",
        ridge=1e-4,
        anchor=(10.0, 2.0, 0.5, 0.1, 0.02, 0.003),
        floor=1.0,
        shrinkage=0.0,
    ),
    # Comparisons that follow no groups, for neighbours: those within a mode count most.
    "neighbors": Preset(
        n_modes="counted",
        eta=1.1,
        triplet_weight=6.0,
        weight_unit="self-weight",
        ridge=1e-4,
        anchor="by amount",
        floor=0.05,
        shrinkage=0.0,
        find_groups=True,
    ),
    # The paper: Eq. (7) as printed. Its own weight of 1 lets the metric collapse, as
    # docs/paper_equations.md shows.
    "paper": Preset(
        n_modes=10,
        eta=3.0,
        triplet_weight=300.0,
        weight_unit="modes",
        ridge=1e-4,
        anchor=0.0,
        floor=0.0,
        shrinkage=0.0,
        partners=RANDOM_PARTNERS,
        init_metric="identity",
        measure=False,
    ),
}
MODES_OF_RIDGE = 3.0  # up to so many modes a ridge in units of "modes" stays as it is
MOST_MODES, SAMPLES_PER_MODE = 32, 20  # where modes are counted
# Anchors "by amount", and the least of all: amount_anchors in posing.py has the formulas.
USUAL_ANCHOR, STRONG_ANCHOR = 0.1, 10.0
LEAST_ANCHOR, ANCHOR_OF_FEW = 0.03, 0.5


Row = TypeVar("Row", Preset, Partners)


def as_preset(owner: object, value: object) -> Preset:
    """Return a goal that is a preset, or the fields of one as in a model file, checked."""
    preset = _of_fields("goal", Preset, value) if isinstance(value, dict) else value
    if not isinstance(preset, Preset):
        raise TypeError(
            "MDaML(goal=...) must be 'auto', 'comparisons', 'neighbors', 'paper' or Preset(...), "
            f"got {value!r}."
        )
    if isinstance(preset.n_modes, str):
        why = " Or pass a whole number."
        check_choice(owner, "goal.n_modes", preset.n_modes, ["counted"], why=why)
    else:
        check_integer(owner, "goal.n_modes", preset.n_modes, 1)
    check_number(owner, "goal.eta", preset.eta, 1.0, strict=True)
    check_number(owner, "goal.triplet_weight", preset.triplet_weight, 0.0, strict=True)
    check_choice(owner, "goal.weight_unit", preset.weight_unit, ["one", "modes", "self-weight"])
    check_number(owner, "goal.ridge", preset.ridge, 0.0)
    check_number(owner, "goal.floor", preset.floor, 0.0, 1.0)
    check_choice(owner, "goal.init_metric", preset.init_metric, ["auto", "identity", "whitened"])
    check_choice(owner, "goal.init_modes", preset.init_modes, ["gmm", "kmeans"])
    for name in ("max_iter", "max_inner_iter"):
        check_integer(owner, f"goal.{name}", getattr(preset, name), 1)
    for name in ("find_groups", "measure", "barrier"):
        check_choice(owner, f"goal.{name}", getattr(preset, name), [True, False])
    anchor = preset.anchor
    if isinstance(anchor, str):
        why = " Or pass a number, or a tuple of numbers to choose from."
        check_choice(owner, "goal.anchor", anchor, ["by amount"], why=why)
    else:
        anchor = _number_or_choices(owner, "goal.anchor", anchor)
    return replace(
        preset,
        anchor=anchor,
        shrinkage=_number_or_choices(owner, "goal.shrinkage", preset.shrinkage, 1.0),
        partners=_check_partners(owner, "goal.partners", preset.partners, "Partners(...)"),
    )


def as_partners(owner: object, value: object, default: Partners) -> Partners:
    """Return how partners are drawn, by a name or as they were given, checked."""
    named = {"auto": default, "neighbors": Partners(), "random": RANDOM_PARTNERS}
    if isinstance(value, str):
        check_choice(owner, "partners", value, list(named), why=" Or pass Partners(...).")
        return named[value]
    wanted = "'auto', 'neighbors', 'random' or Partners(...)"
    return _check_partners(owner, "partners", value, wanted)


def _check_partners(owner: object, name: str, value: object, wanted: str) -> Partners:
    if isinstance(value, dict):
        value = _of_fields(name, Partners, value)
    if not isinstance(value, Partners):
        raise TypeError(f"MDaML({name}=...) must be {wanted}, got {value!r}.")
    check_choice(owner, f"{name}.kind", value.kind, ["neighbors", "random"])
    check_choice(owner, f"{name}.pairing", value.pairing, ["grid", "zip"])
    check_integer(owner, f"{name}.n_similar", value.n_similar, 1)
    check_integer(owner, f"{name}.n_dissimilar", value.n_dissimilar, 1)
    check_integer(owner, f"{name}.n_refresh", value.n_refresh, 0)
    return value


def _of_fields(name: str, cls: type[Row], given: Params) -> Row:
    """Return a preset or partners with these fields."""
    known = {field.name: field for field in fields(cls)}
    wrong = [key for key in given if key not in known]
    if wrong:
        raise ValueError(
            f"MDaML({name}=...): {cls.__name__} has no field {wrong[0]!r}. It has "
            f"{', '.join(known)}."
        )
    lacking = [n for n, field in known.items() if field.default is MISSING and n not in given]
    if lacking:
        raise ValueError(
            f"MDaML({name}=...) lacks {lacking[0]!r}. To change a few cells of a row, pass "
            "dataclasses.replace(PRESETS[...], ...)."
        )
    return cls(**given)


def _number_or_choices(
    owner: object, name: str, value: object, high: float = math.inf
) -> float | tuple[float, ...]:
    """Return a cell that is a number from 0 up, or several to choose from."""
    if not isinstance(value, tuple):
        return check_number(owner, name, value, 0.0, high, why=" Or pass a tuple to choose from.")
    if not value:
        raise ValueError(f"MDaML({name}=...) must have at least one value to choose from, got ().")
    return tuple(check_number(owner, name, each, 0.0, high) for each in value)

"""How many kinds of people there are, and how near persons are to them, by held-out answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from mdaml._progress import mute
from mdaml._typing import Array, FloatArray, IntArray, Params
from mdaml._validation import warn
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.holdout.comparisons import are_right, scaled_losses
from mdaml.holdout.rule import (
    Gain,
    explain_more_than_swapping,
    find_leaders,
    measure_gain,
)
from mdaml.holdout.split import Split, find_questions, hold_out_points, tells_enough
from mdaml.people._coordinates import Coordinates
from mdaml.people._counting import count_kinds
from mdaml.people._mixture import (
    Heard,
    Kinds,
    best_scale,
    find_uncertainties,
    fit_kinds,
    fit_persons,
    place_persons,
)

_N_PARTS, _N_PARTS_OF_FEW, _FEW = 4, 8, 2_000  # "of few" is up to so many answers
_MOST_ANSWERS = 10_000  # for a choice: those of some persons, beyond
_MOST_ANSWERS_OF_KINDS = 20_000
_MOST_KINDS = 6
_LEVEL_OF_MORE = 0.2  # of a test whether there is one kind more, once there are two
PULLS = (30.0, 3.0, 0.3)  # of persons to their kinds
_STARTS, _STARTS_OF_FEW = 6, 24  # of each number of kinds, in a choice


class Size(NamedTuple):
    """How many kinds there are, and how strongly persons are pulled to them."""

    n_kinds: int  # 0: one, with the given metric as it is
    pull: float | None  # None: everybody has the metric of the kind

    def as_dict(self, score: float, *, is_chosen: bool) -> Params:
        """Return plain numbers."""
        return {**self._asdict(), "score": score, "is_chosen": is_chosen}


SHARED = Size(0, None)


@dataclass(frozen=True, eq=False)
class AnswerSpace:
    """Answers in the coordinates of a metric of all of them."""

    metric: BaseEstimator
    coordinates: Coordinates
    heard: Heard
    center: FloatArray  # (q,) the multiple of the metric that suits the answers

    @classmethod
    def of(
        cls, metric: BaseEstimator, samples: FloatArray, supervision: Constraints, persons: Persons
    ) -> "AnswerSpace":
        """Return coordinates for a fitted metric, and the features of answers."""
        Y, asked = metric._map(samples).astype(np.float64, copy=False), supervision.comparisons()
        coordinates = Coordinates.of(Y, asked)
        heard = Heard.of(coordinates.features(Y, asked), supervision.weights, persons)
        return cls(metric, coordinates, heard, coordinates.given(best_scale(heard)))

    def fit_kinds(self, n_kinds: int, **options: int) -> Kinds:
        """Return kinds; none is one of the given metric itself."""
        if n_kinds:
            return fit_kinds(self.heard, self.center, n_kinds, **options)
        nobody = np.empty((0, 1))
        one = Kinds(self.center[None], np.ones(1), nobody[:, 0], nobody)
        return place_persons(self.heard, one)

    def with_heard(self, heard: Heard) -> "AnswerSpace":
        """Return the same coordinates for other answers."""
        return replace(self, heard=heard, center=self.coordinates.given(best_scale(heard)))

    def fit_own(self, kinds: Kinds, pull: float | None) -> FloatArray:
        """Return coefficients of the persons, (P, q)."""
        own = kinds.own if pull is None else fit_persons(self.heard, kinds, pull)
        return self.coordinates.cut(own)


@dataclass(frozen=True, eq=False)
class KindsTrial:
    """One part: kinds learned from the rest, and margins of what is held out."""

    space: AnswerSpace
    features: FloatArray  # (n, q) of the held-out comparisons
    of: IntArray  # (n,) the place of their person in the space; one more for those who are new
    found: dict[int, Kinds] = field(default_factory=dict)

    def margins(self, size: Size) -> FloatArray:
        """Return the margins of held-out comparisons, each by the metric of its person."""
        if size == SHARED:
            return self.features[:, 0]
        if size.n_kinds not in self.found:
            n_starts = _STARTS_OF_FEW if len(self.space.heard.weights) <= _FEW else _STARTS
            self.found[size.n_kinds] = self.space.fit_kinds(size.n_kinds, n_starts=n_starts)
        kinds = self.found[size.n_kinds]
        new = self.space.coordinates.cut((kinds.shares @ kinds.coefficients)[None])
        own = np.vstack([self.space.fit_own(kinds, size.pull), new])
        return np.einsum("nq,nq->n", self.features, own[self.of])


class Chosen(NamedTuple):
    """What was chosen, what it gained over the shared metric, and all that was tried."""

    size: Size
    gain: Gain | None
    tried: list[Params]


def choose_size(
    supervision: Constraints,
    persons: Persons,
    points: IntArray,
    learn: Callable[[Constraints], BaseEstimator],
    samples: FloatArray,
    given: tuple[Any, Any] = ("auto", "auto"),
) -> Chosen:
    """Return how many kinds to take, and how near persons are to them.

    By the rule for every choice, from the shared metric on: one or two kinds more are taken if they
    lead by more than chance, and so on; then persons leave their kinds if that leads. Of few
    answers those that are held out hardly ever say so by more than chance: if nothing leads, the
    kinds that :func:`count_kinds` finds, a test of its own, are taken unless they are worse by more
    than chance. Nothing else is taken under which fewer held-out answers hold. What is not "auto"
    in ``given`` is taken as it is. Units are the points that comparisons are about.
    """
    supervision, persons = some_persons(supervision, persons, _MOST_ANSWERS)
    n_kinds, pull = given
    start = Size(0 if n_kinds == "auto" else n_kinds, None if pull == "auto" else pull)
    once = _given_once(supervision, persons)  # an answer that is in a file twice tells no more
    n_parts = _N_PARTS if len(once) > _FEW else _N_PARTS_OF_FEW
    parts = hold_out_points(supervision, n_parts, np.random.RandomState(0), points)
    parts = parts[:1] if tells_enough(supervision, parts[:1]) else parts
    if not parts or len(persons) < 2:
        return Chosen(start, None, [])
    trials = [_make_trial(part, persons, learn, samples) for part in parts]
    units = np.unique(np.concatenate([part.units for part in parts]), return_inverse=True)[1]
    weights = np.concatenate([part.held_out.weights for part in parts])
    codes = np.concatenate([persons.codes[part.is_out] for part in parts])
    tried: dict[Size, FloatArray] = {}

    def score(size: Size) -> FloatArray:
        if size not in tried:
            tried[size] = np.concatenate([trial.margins(size) for trial in trials])
        return -scaled_losses(tried[size], weights, codes)

    with mute():
        best, counted = start, None
        if n_kinds == "auto":
            most = min(_MOST_KINDS, len(persons) // 2)
            best = _walk(score, units, weights, most, start.pull)
            if best.n_kinds < 2 and len(once) <= _FEW:
                asked, who = supervision.select(once), Persons(persons.names, persons.codes[once])
                space = AnswerSpace.of(learn(asked), samples, asked, who)
                order = np.argsort(who.codes, kind="stable")  # as in Heard
                n_counted = count_kinds(space, find_questions(asked, points)[order], most)
                found = Size(n_counted, start.pull)
                if n_counted > 1 and _best_leader(score, found, [best], units, weights) != best:
                    best = counted = found
        if pull == "auto":
            numbers = sorted({best.n_kinds, 0}) if n_kinds == "auto" else [best.n_kinds]
            nearer = [Size(n, p) for n in numbers for p in PULLS]
            best = _best_leader(score, best, nearer, units, weights)
        score(SHARED), score(start), score(best)
    right = {size: are_right(row) for size, row in tried.items()}
    fewer = (right[best] - right[start]) @ weights < 0.0  # hold, though losses may say otherwise
    if (fewer and best != counted) or not explain_more_than_swapping(
        right[start], right[best][None], weights
    )[0]:
        best, counted = start, None
    gain = measure_gain("comparisons", right[SHARED], right[best], units, weights)
    is_ahead = _best_leader(score, SHARED, [best], units, weights) != SHARED
    gain = replace(gain, is_beyond_chance=is_ahead or counted is not None)
    means = {size: float(np.average(row, weights=weights)) for size, row in right.items()}
    return Chosen(best, gain, [s.as_dict(m, is_chosen=s == best) for s, m in means.items()])


def fit_all(
    metric: BaseEstimator,
    samples: FloatArray,
    supervision: Constraints,
    persons: Persons,
    size: Size,
    **options: int,
) -> tuple[AnswerSpace, Kinds, FloatArray, FloatArray]:
    """Return kinds and persons of a chosen size: metrics of persons, covariances.

    Of very many answers those of some persons give the kinds, and all persons are placed.
    """
    space = AnswerSpace.of(metric, samples, supervision, persons)
    few, known = some_persons(supervision, persons, _MOST_ANSWERS_OF_KINDS)
    some = space
    if few is not supervision:
        Y = metric._map(samples).astype(np.float64, copy=False)
        features = space.coordinates.features(Y, few.comparisons())
        some = replace(space, heard=Heard.of(features, few.weights, known))
    kinds = some.fit_kinds(size.n_kinds, **options)
    kinds = kinds.without_empty()
    spread = find_uncertainties(some.heard, kinds)[: size.n_kinds]  # none of the given metric
    if some is not space:
        kinds = place_persons(space.heard, kinds)
    return space, kinds, space.fit_own(kinds, size.pull), spread


def _given_once(supervision: Constraints, persons: Persons) -> IntArray:
    """Return the places of answers, the first of those that a person gave to a question alike."""
    rows = np.column_stack([persons.codes, supervision.comparisons()])
    return np.sort(np.unique(rows, axis=0, return_index=True)[1])


def _walk(
    score: Callable[[Size], FloatArray],
    units: IntArray,
    weights: FloatArray,
    most: int,
    pull: float | None,
) -> Size:
    """Return how many kinds to take.

    Several kinds must lead by more than chance both the shared metric and one kind, whose metric is
    learned like theirs. Then one more is taken, or two, as long as it leads at a lower
    level: too few kinds mix persons who differ.
    """
    start = _best_leader(score, SHARED._replace(pull=pull), [Size(1, pull)], units, weights)
    one = max(start, Size(1, pull), key=lambda size: float(score(size) @ weights))
    best = one
    while ahead := [
        Size(n, pull)
        for n in range(max(best.n_kinds, 1) + 1, max(best.n_kinds, 1) + 3)
        if n <= most
    ]:
        if best == one and _best_leader(score, one, ahead, units, weights) == one:
            return start
        tests = [
            find_leaders(score(best), score(size)[None], units, weights, _LEVEL_OF_MORE)[0]
            for size in ahead
        ]
        better = [size for size, leads in zip(ahead, tests, strict=True) if leads]
        if not better:
            break
        best = better[0]
    return start if best == one else best


def _best_leader(
    score: Callable[[Size], FloatArray],
    start: Size,
    others: Sequence[Size],
    units: IntArray,
    weights: FloatArray,
) -> Size:
    """Return the best of those that lead the start by more than chance, or the start."""
    scores = np.array([score(size) for size in others])
    leads = find_leaders(score(start), scores, units, weights)
    if not leads.any():
        return start
    return others[int(np.argmax(np.where(leads, scores @ weights, -np.inf)))]


def some_persons(
    supervision: Constraints, persons: Persons, most: int
) -> tuple[Constraints, Persons]:
    """Return all answers of as many persons, drawn at random, as have ``most`` together."""
    if supervision.n_constraints <= most:
        return supervision, persons
    order = np.random.RandomState(0).permutation(len(persons))
    n_before = np.cumsum(persons.sums()[order]) - persons.sums()[order]
    drawn = np.sort(order[n_before < most])
    kept = np.isin(persons.codes, drawn)
    codes = np.searchsorted(drawn, persons.codes[kept])
    return supervision.select(kept), Persons(persons.names[drawn], codes)


def _make_trial(
    part: Split,
    persons: Persons,
    learn: Callable[[Constraints], BaseEstimator],
    samples: FloatArray,
) -> KindsTrial:
    known, codes = np.unique(persons.codes[~part.is_out], return_inverse=True)
    space = AnswerSpace.of(
        learn(part.learned), samples, part.learned, Persons(persons.names[known], codes)
    )
    Y = space.metric._map(samples).astype(np.float64, copy=False)
    places = np.full(len(persons), len(known))
    places[known] = np.arange(len(known))
    features = space.coordinates.features(Y, part.held_out.comparisons())
    return KindsTrial(space, features, places[persons.codes[part.is_out]])


def warn_of_lone(names: Array, kind_of: IntArray) -> None:
    """Warn if one person alone is a kind: it may be somebody who answers at random."""
    sizes = np.bincount(kind_of)
    lone = names[sizes[kind_of] == 1]
    if len(sizes) > 1 and len(lone):
        shown = ", ".join(map(str, lone[:3])) + ", …" * (len(lone) > 3)
        warn(
            f"A kind of one person ({shown}) may be somebody who answers at random. errors_ does "
            "not show it, because the kind is fitted to these answers alone. Use audit(..., "
            "who=...) to judge persons."
        )


def warn_of_persons(gain: Gain | None, metric: BaseEstimator, *, is_kept: bool) -> None:
    """Warn if everybody has the shared metric, or if metrics of persons are worse than it."""
    if gain is None:
        if is_kept:
            warn(
                "Nothing was learned about single persons: there are too few answers to hold some "
                "out. Everybody has the shared metric. Add answers, or set n_kinds to a number to "
                "learn in any case."
            )
        return
    if is_kept:
        also = ""
        if getattr(metric, "start_kept_", False):
            also = (
                " It is the distance before learning, because nothing led that by more than "
                "chance either."
            )
        warn(
            f"Nothing was learned about single persons: no kinds and no metrics of persons led the "
            f"shared metric by more than chance. Under the shared metric {gain.before:.1%} of "
            f"held-out answers hold ({gain.n_units} units). Everybody has this metric.{also} More "
            "answers of each person may help; check that who= is right. Set n_kinds to a number to "
            "learn in any case."
        )
    elif gain.high < 0.0:
        found = describe_persons(gain)
        warn(f"Metrics of persons are worse than the shared metric: {found} Use the shared metric.")


def describe_persons(gain: Gain) -> str:
    """Return in words what metrics of persons gained over the shared metric."""
    return (
        f"of held-out answers {gain.before:.1%} hold under the shared metric, "
        f"{gain.after:.1%} under the metric of each person (difference "
        f"{100 * (gain.after - gain.before):+.1f} points, 95 % interval {100 * gain.low:+.1f} to "
        f"{100 * gain.high:+.1f}, {gain.n_units} units)."
    )

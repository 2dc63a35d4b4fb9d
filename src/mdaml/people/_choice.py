"""Whether persons get metrics of their own, chosen by answers that were held out."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from mdaml._progress import mute
from mdaml._typing import FloatArray, IntArray
from mdaml._validation import ignore_warnings, warn
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.holdout.anchor import scaled_losses
from mdaml.holdout.rule import Gain, find_leaders, measure_gain, prefer_first
from mdaml.holdout.split import Split, hold_out_points, tells_enough
from mdaml.holdout.units import same_rows
from mdaml.people._features import Answers, Coordinates
from mdaml.people._groups import learn_groups
from mdaml.people._variational import Fitted

_N_PARTS = 4
_MOST_ANSWERS = 20_000  # those of some persons, beyond


class SharedSpace(NamedTuple):
    """The metric of all answers, and samples mapped by it."""

    metric: Any
    coordinates: Coordinates
    Y: FloatArray  # (N, number of axes)

    def margins(self, coefficients: FloatArray, asked: IntArray, of: IntArray) -> FloatArray:
        """Return ``d2(far) - d2(near)`` of comparisons, each by the metric of a person.

        ``of`` has the row of the coefficients for each comparison. In units of the mean margin of
        that person: what is told is which pair is nearer, whatever the scale of a metric.
        """
        out, axes = np.zeros(len(asked)), np.eye(self.Y.shape[1])
        order = np.argsort(of, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(of[order])) + 1):
            row = of[own[0]]
            a, b, c, d = asked[own].T
            L = self.coordinates.components(coefficients[row], axes)
            far, near = (self.Y[c] - self.Y[d]) @ L.T, (self.Y[a] - self.Y[b]) @ L.T
            margins = np.square(far).sum(axis=1) - np.square(near).sum(axis=1)
            size = float(np.abs(margins).mean())
            out[own] = margins / size if size > 0.0 else 0.0
        return out


def learn_people(
    model: Any, metric: Any, given: tuple[Any, FloatArray], said: Constraints, persons: Persons
) -> tuple[SharedSpace, Fitted | None, Gain | None]:
    """Return what all share, what was learned of persons, and what that gained on held-out answers.

    ``model`` has the parameters, ``given`` are samples as they were passed and as an array. Nothing
    of persons, None, is the shared metric for everybody.
    """
    X, samples = given
    is_auto = model.n_groups == "auto"

    def learn_space(told: Constraints) -> SharedSpace:
        fitted = clone(metric).fit(X, constraints=told)
        rank, n_free = len(fitted.components_), model.n_directions
        coordinates = Coordinates(min(n_free, rank), max(rank - n_free, 0))
        return SharedSpace(fitted, coordinates, fitted._map(samples).astype(np.float64, copy=False))

    tried: list[Any] = [1, "auto"] if is_auto and len(persons) > 1 else [model.n_groups]
    ways = [
        partial(learn_groups, n_groups=n, max_iter=model.max_iter, tol=model.tol) for n in tried
    ]
    with warnings.catch_warnings():
        # Where persons contradict each other, what all share may be hardly more than the start.
        warnings.filterwarnings("ignore", "The learned distance agrees with")
        warnings.filterwarnings("ignore", "(Nothing was learned|Too little to learn from)")
        space = learn_space(said)
    with ignore_warnings(UserWarning):
        best, gain = choose_groups(said, persons, same_rows(samples, 0.0), learn_space, ways)
        if best is None and is_auto:
            return space, None, gain
        answers = Answers.of(space.coordinates, space.Y, said, persons)
        return space, ways[best or 0](answers), gain


def choose_groups(
    said: Constraints,
    persons: Persons,
    points: IntArray,
    learn_space: Callable[[Constraints], SharedSpace],
    learn_persons: Sequence[Callable[[Answers], Fitted]],
) -> tuple[int | None, Gain | None]:
    """Return which way to learn persons to take, and what it gained over the shared metric.

    By the rule for every choice: the start is the metric that all share, and None keeps it. Units
    are the points that comparisons are about; both metrics are learned without those held out.
    ``points`` has the same number for rows that are the same. The gain is None where there is too
    little to hold anything out.
    """
    said, persons = _some_persons(said, persons)
    parts = hold_out_points(said, _N_PARTS, np.random.RandomState(0), points)
    parts = parts[:1] if tells_enough(said, parts[:1]) else parts
    if not parts:
        return None, None
    with mute():
        judged = [_judge(part, persons, learn_space, learn_persons) for part in parts]
    units = np.unique(np.concatenate([part.units for part in parts]), return_inverse=True)[1]
    weights = np.concatenate([part.held_out.weights for part in parts])
    margins = np.hstack(judged)  # (1 + n_ways, n)
    losses = np.array([scaled_losses(row, weights) for row in margins])
    leads = find_leaders(-losses[0], -losses[1:], units, weights)
    best = prefer_first(-losses[1:] * weights, leads if leads.any() else None)
    right = np.where(margins == 0.0, 0.5, margins > 0.0)
    gain = measure_gain("comparisons", right[0], right[1 + best], units, weights)
    gain = replace(gain, is_beyond_chance=bool(leads[best]))
    return (best if leads.any() else None), gain


def _some_persons(said: Constraints, persons: Persons) -> tuple[Constraints, Persons]:
    """Return all answers of as many persons, drawn at random, as it takes for a choice."""
    if said.n_constraints <= _MOST_ANSWERS:
        return said, persons
    order = np.random.RandomState(0).permutation(len(persons))
    n_before = np.cumsum(persons.sums()[order]) - persons.sums()[order]
    drawn = np.sort(order[n_before < _MOST_ANSWERS])
    kept = np.isin(persons.codes, drawn)
    codes = np.searchsorted(drawn, persons.codes[kept])
    return said.select(kept), Persons(persons.names[drawn], codes)


def _judge(
    part: Split,
    persons: Persons,
    learn_space: Callable[[Constraints], SharedSpace],
    learn_persons: Sequence[Callable[[Answers], Fitted]],
) -> FloatArray:
    """Return the margins of held-out comparisons, (1 + n_ways, n); the first are the shared."""
    space = learn_space(part.learned)
    known, codes = np.unique(persons.codes[~part.is_out], return_inverse=True)
    answers = Answers.of(
        space.coordinates, space.Y, part.learned, Persons(persons.names[known], codes)
    )
    asked = part.held_out.comparisons()
    place = np.full(len(persons), len(known))  # those who said nothing else: what all share
    place[known] = np.arange(len(known))
    of = place[persons.codes[part.is_out]]
    shared = np.tile(space.coordinates.identity(), (len(known) + 1, 1))
    rows = [space.margins(shared, asked, of)]
    for learn in learn_persons:
        prior, posterior, _ = learn(answers)
        own = np.vstack([posterior.means, prior.shared])
        rows.append(space.margins(own, asked, of))
    return np.array(rows)


def warn_of_persons(gain: Gain | None, metric: Any, *, is_kept: bool) -> None:
    """Warn if everybody has the shared metric, or if metrics of their own are worse than it."""
    if gain is None:
        if is_kept:
            warn(
                "Nothing was learned of single persons: the answers are too few to hold some out. "
                "Everybody has the metric that all share. Add answers, or set n_groups to a "
                "number to learn in any case."
            )
        return
    found = (
        f"of held-out answers {gain.before:.1%} hold under the metric that all share, "
        f"{gain.after:.1%} under metrics of their own (difference "
        f"{100 * (gain.after - gain.before):+.1f} points, 95 % interval {100 * gain.low:+.1f} to "
        f"{100 * gain.high:+.1f}, {gain.n_units} units)."
    )
    if is_kept:
        also = ""
        if getattr(metric, "start_kept_", False):
            also = " That metric is the distance before learning, which nothing led either."
        warn(
            f"Nothing was learned of single persons: {found} Everybody has the shared one.{also} "
            "More answers of each person may help; check that who= is right. Set n_groups to a "
            "number to learn in any case."
        )
    elif gain.high < 0.0:
        warn(f"Metrics of single persons are worse than the shared one: {found} Use that.")

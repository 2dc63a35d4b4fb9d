"""Who gave answers that can be relied on: a table with one row for each person."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp
from sklearn.base import BaseEstimator

from mdaml._typing import ArrayLike, BoolArray, FloatArray, IntArray
from mdaml.constraints.cells import parse_number
from mdaml.constraints.forms.answers import ANSWER
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.inspection._answers import Columns, pair_numbers
from mdaml.inspection.suspicion import FlipModel
from mdaml.people.judging import Views, find_own_views, find_views

_SURE = 1000.0  # a remark on sides must be this many times more likely than its opposite
_ACCUSED = np.log(200.0)  # the same of errors that are more than those of the others
_ONE_SIDE = 0.95  # share of answers on the left of somebody who always answers there
_ERRORS = np.linspace(0.005, 0.995, 199)  # shares of wrong answers that are weighed
_MANY = 10  # persons, of whom four in five are taken for honest
_FEW_REPEATS = 10
_CLEAR = np.log(
    10.0
)  # how much likelier guessing must be than every honest view, or a view than it
_BLUNT = 0.5  # the size of margins under views of one person, against those under a kind
_CONSISTENT = 0.25  # share of repeated questions answered differently, by one with a view
_RANDOM = 0.4  # share of wrong answers from which on hardly a question was looked at
_INTERVAL = 0.95  # of the posterior


class Counted(NamedTuple):
    """Comparisons that one answer was turned into, put together again."""

    codes: IntArray  # (n_answers,) of the persons
    of: IntArray  # (n,) the answer of each comparison
    weights: FloatArray  # (n,) of the comparisons; those of an answer sum to one

    @classmethod
    def of_persons(cls, supervision: Constraints, persons: Persons) -> "Counted":
        """Return one answer for each comparison, or for all that have one ``answer_number``."""
        number = np.arange(supervision.n_constraints)
        if ANSWER in supervision.columns:
            number = np.unique(supervision.columns[ANSWER].astype(str), return_inverse=True)[1]
        keys = np.column_stack([persons.codes, number])
        known, of = np.unique(keys, axis=0, return_inverse=True)
        weights = supervision.weights / np.bincount(of.ravel(), supervision.weights)[of.ravel()]
        return cls(known[:, 0], of.ravel(), weights)

    def shares(self, values: FloatArray | BoolArray) -> FloatArray:
        """Return the weighted mean of values in each answer."""
        return np.bincount(self.of, self.weights * values, len(self.codes)).astype(np.float64)


def person_columns(
    given: Columns,
    supervision: Constraints,
    margins: FloatArray,
    persons: Persons,
    judged: tuple[BaseEstimator, ArrayLike] | None,
    more: dict[str, ArrayLike | None],
) -> dict[str, ArrayLike]:
    """Return the columns of the table of persons; see :func:`mdaml.audit`.

    `judged` are the metric and X, by which persons are compared with kinds of the others.
    """
    n, wanted = len(margins), {"seconds": "a number of seconds", "left": "1 or 0"}
    known = {
        name: _check_column(name, values, n, wanted[name])
        for name, values in more.items()
        if values is not None
    }
    counted = Counted.of_persons(supervision, persons)
    views = None if judged is None else find_views(*judged, supervision, persons)
    counts = np.bincount(counted.codes, minlength=len(persons)).astype(np.float64)
    found = _weigh_kinds(margins, persons, counted, views)
    columns: dict[str, ArrayLike] = {"who": persons.names, "answers": counts.astype(np.int64)}
    if views is not None:
        columns |= {"kind": found.kind, "kind_probability": views.of_person.max(axis=1)}
    columns |= {"agreement": np.bincount(counted.codes, found.held, len(counts)) / counts}
    columns |= {"with_others": agreement_with_others(given, persons)}
    columns |= {"error": found.errors, "error_low": found.low, "error_high": found.high}
    if "seconds" in known:
        own = [known["seconds"][persons.codes == code] for code in range(len(persons))]
        columns["seconds"] = np.array([np.median(some) for some in own])
    repeats, remarks = count_repeats(given, persons), [list[str]() for _ in persons.names]
    leads = np.full(len(persons), np.inf)  # of guessing over every honest view
    if judged is not None and (accused := np.flatnonzero(_are_accused(found))).size:
        imagined = find_own_views(*judged, supervision, persons, counted.of, accused)
        for person, (rows, under) in zip(accused, imagined, strict=True):
            weights = counted.weights[rows]
            leads[person] = found.logs[person].max() - _weigh_views(under, found, rows, weights)
    _remark_on_errors(remarks, found, views, leads, repeats)
    if "left" in known:
        on_left = counted.shares(known["left"])
        chosen = np.bincount(counted.codes, on_left, len(counts)).astype(np.float64)
        columns["left"] = chosen / counts
        _remark_on_sides(remarks, chosen, counts)
    columns["remark"] = [", ".join(texts) for texts in remarks]
    return columns


class Found(NamedTuple):
    """What the answers of each person say about their errors."""

    kind: IntArray  # (P,) the kind they agree with best
    margins: FloatArray  # (n,) of the comparisons under it
    held: FloatArray  # (n_answers,) share of each answer that holds under it
    logs: FloatArray  # (P, n_errors) log likelihood of shares of wrong answers
    errors: FloatArray  # (P,)
    low: FloatArray
    high: FloatArray


def _weigh_kinds(
    margins: FloatArray, persons: Persons, counted: Counted, views: Views | None
) -> Found:
    """Return how often each person errs, judged by the best of the kinds.

    An answer of margin m is given with ``(1 - e) s(m) + e s(-m)``; all shares e from 0 to 1 are
    weighed, with every kind by its chance. Without kinds margins are relative, with one scale for
    all, that of the better half: errors of the others would look like a blunt metric.
    """
    if views is None:
        held = counted.shares(margins > 0.0)
        counts = np.bincount(counted.codes, minlength=len(persons))
        shares = np.bincount(counted.codes, held, len(persons)) / counts
        better = (shares >= np.median(shares))[persons.codes]
        scaled = (margins / FlipModel.from_margins(margins[better]).scale)[None]
        chances: FloatArray = np.ones(1)
    else:
        scaled, chances = views.margins, views.chances
    right = expit(scaled)  # (K, n)
    by_kind = np.empty((len(chances), len(persons), len(_ERRORS)))
    for place, e in enumerate(_ERRORS):
        each = counted.weights * np.log((1.0 - e) * right + e * (1.0 - right))
        by_kind[:, :, place] = [persons.sums(row) for row in each]
    logs = logsumexp(by_kind + np.log(chances)[:, None, None], axis=0)
    lower = _ERRORS <= 0.5
    kind = by_kind[:, :, lower].max(axis=2).argmax(axis=0)
    best = scaled[kind[persons.codes], np.arange(len(margins))]
    held = counted.shares(best > 0.0)
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    return Found(kind, best, held, logs, _ERRORS[logs.argmax(axis=1)], *_find_ends(posterior))


def _find_ends(posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest of the likeliest shares of errors that make up 95 %.

    Unlike an interval between two quantiles it holds the likeliest share, also near 0 and 1.
    """
    falling = -np.sort(-posterior, axis=1)
    n_before = np.sum(np.cumsum(falling, axis=1) < _INTERVAL, axis=1, keepdims=True)
    n_before = np.minimum(n_before, len(_ERRORS) - 1)  # sums may end just below one
    is_in = posterior >= np.take_along_axis(falling, n_before, axis=1)
    return _ERRORS[is_in.argmax(axis=1)], _ERRORS[::-1][is_in[:, ::-1].argmax(axis=1)]


def _are_accused(found: Found) -> BoolArray:
    """Say who errs clearly more than the others do.

    The likelihood at any share of errors is 200 times that at every share up to a bound, which
    honest persons stay below.
    """
    at_most = _usual_bound(found.errors)
    usual = found.logs[:, at_most >= _ERRORS].max(axis=1)
    accused: BoolArray = (found.logs.max(axis=1) - usual > _ACCUSED) & (found.errors > at_most)
    return accused


def _usual_bound(errors: FloatArray) -> float:
    """Return a share of wrong answers that honest persons stay below.

    By the better half; of many persons no more than one in five is taken for dishonest.
    """
    better = float(np.median(errors))
    if len(errors) >= _MANY:
        return min(max(1.5 * better + 0.02, float(np.quantile(errors, 0.8))), 0.45)
    return min(1.5 * float(np.median(errors[errors <= better])) + 0.02, 0.3)


def _weigh_views(margins: FloatArray, found: Found, rows: IntArray, weights: FloatArray) -> float:
    """Return how likely the answers of a person are if they look at something else than the kinds.

    Under views, (V, n), of which the first two are their own: with no more errors than honest
    persons make, and margins half as large as under the kind, since one person tells little. Who
    guesses has no view that predicts so sharply. The best of their own counts, or all others alike.
    """
    sizes = np.maximum(np.abs(margins).mean(axis=1, keepdims=True), 1e-12)
    right = expit(margins * (_BLUNT * np.abs(found.margins[rows]).mean() / sizes))
    usual = _ERRORS[_usual_bound(found.errors) >= _ERRORS]
    logs = np.max([np.log((1.0 - e) * right + e * (1.0 - right)) @ weights for e in usual], axis=0)
    own, others = logs[:2], logs[2:]
    shared = logsumexp(others) - np.log(len(others)) if len(others) else -np.inf
    return float(max(own.max(), shared))


def _remark_on_errors(
    remarks: list[list[str]],
    found: Found,
    views: Views | None,
    leads: FloatArray,
    repeats: tuple[IntArray, IntArray],
) -> None:
    """Say who errs clearly more than the others do, and with what kind the others agree.

    Guessing must be ten times likelier than every view of what is alike, as ``leads`` say, and
    repeated questions must not be answered alike.
    """
    accused, by_chance = _are_accused(found), found.logs[:, np.argmin(np.abs(_ERRORS - 0.5))]
    is_reversed = (found.errors > 0.5) & (found.logs.max(axis=1) - by_chance > np.log(_SURE))
    sizes = np.bincount(found.kind[~accused & ~is_reversed], minlength=int(found.kind.max()) + 1)
    for p, error in enumerate(found.errors):
        differ, repeated = (int(counts[p]) for counts in repeats)
        again = f"; {differ} of {repeated} repeated questions differ" if repeated else ""
        span = f"({found.low[p]:.0%} to {found.high[p]:.0%} wrong{again})"
        if is_reversed[p]:
            remarks[p].append(f"answers the wrong way round {span}")
        elif accused[p] and (leads[p] < -_CLEAR or _answers_alike(differ, repeated)):
            remarks[p].append(f"has a view of their own: agrees with no kind{again}")
        elif accused[p] and leads[p] < _CLEAR:
            remarks[p].append(f"agrees with no kind: too few answers to say why{again}")
        elif accused[p] and error >= _RANDOM:
            remarks[p].append(f"answers at random: agrees with no kind {span}")
        elif accused[p]:
            remarks[p].append(f"guesses on {2 * error:.0%} of the questions {span}")
        elif views is not None:
            n = sizes[found.kind[p]]
            ending = "" if n == 1 else "s"
            remarks[p].append(f"agrees with kind {found.kind[p]}, {n} person{ending}")


def _answers_alike(differ: int, repeated: int) -> bool:
    """Say whether somebody answers repeated questions alike, which nobody does who guesses."""
    return repeated >= _FEW_REPEATS and differ <= _CONSISTENT * repeated


def agreement_with_others(given: Columns, persons: Persons) -> FloatArray:
    """Return the share of answers that most others gave too, (P,).

    Of questions on which the others are not equally divided; missing where there is none.
    """
    question, direction = _questions(given)
    n_questions = int(question.max()) + 1
    own_key = persons.codes * n_questions + question
    keys, place = np.unique(own_key, return_inverse=True)
    own = np.bincount(place.ravel(), direction, len(keys))[place.ravel()]
    others = np.bincount(question, direction, n_questions)[question] - own
    asked = others != 0.0
    agreed = persons.sums(asked & (np.sign(others) == direction))
    known = persons.sums(asked)
    return np.where(known > 0.0, agreed / np.maximum(known, 1.0), np.nan)


def count_repeats(given: Columns, persons: Persons) -> tuple[IntArray, IntArray]:
    """Return how many repeated questions each person answered differently, and all of them."""
    question, direction = _questions(given)
    order = np.lexsort([np.arange(len(question)), question, persons.codes])
    code, asked, chosen = persons.codes[order], question[order], direction[order]
    again = np.append(False, (np.diff(code) == 0) & (np.diff(asked) == 0))
    changed = again & np.append(False, np.diff(chosen) != 0.0)
    n = len(persons)
    return (
        np.bincount(code[changed], minlength=n).astype(np.int64),
        np.bincount(code[again], minlength=n).astype(np.int64),
    )


def _questions(given: Columns) -> tuple[IntArray, FloatArray]:
    """Return the number of the question that each answer is one to, and which of two it is."""
    near, far = pair_numbers(given)
    alone = given.far[:, 0] < 0  # a pair is similar or not
    far = np.where(alone, near, far)
    both = np.sort(np.column_stack([near, far]), axis=1)
    _, question = np.unique(both, axis=0, return_inverse=True)
    direction = np.where(
        alone, np.where(given.kind == 1, 1.0, -1.0), np.where(near < far, 1.0, -1.0)
    )
    return question.ravel(), direction


def _remark_on_sides(remarks: list[list[str]], on_left: FloatArray, counts: FloatArray) -> None:
    for p, (k, n) in enumerate(zip(on_left, counts, strict=True)):
        for chosen, side in ((k, "left"), (n - k, "right")):
            lead = _log_likelihood(chosen, n, _ONE_SIDE) - _log_likelihood(chosen, n, 0.5)
            if lead > np.log(_SURE):
                remarks[p].append(f"always answers {side}")


def _log_likelihood(k: float, n: float, share: float) -> float:
    """Return the log likelihood of k of n, each with a probability."""
    return float(k * np.log(share) + (n - k) * np.log(1.0 - share))


def _check_column(name: str, given: ArrayLike, n: int, what: str) -> FloatArray:
    """Return a number for each comparison; columns of files may hold it as text."""
    wanted = f"{name} must hold {what} for each of the {n} comparisons"
    values = np.asarray(given)
    texts = [cell for cell in values.flat if isinstance(cell, str)]
    if len(texts) == values.size:  # a decimal comma is one
        numbers: FloatArray = np.array([parse_number(text) for text in texts])
        wrong = np.flatnonzero(np.isnan(numbers))
        if len(wrong):
            raise ValueError(f"{wanted}; got {texts[wrong[0]]!r}.")
        numbers = numbers.reshape(values.shape)
    else:
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{wanted}; got {values.flat[0]!s}.") from None
    if numbers.shape != (n,):
        raise ValueError(f"{wanted}; got shape {numbers.shape}.")
    if not np.all(np.isfinite(numbers)) or (name == "left" and not np.isin(numbers, (0, 1)).all()):
        raise ValueError(f"{wanted}. Leave out answers for which it is not known.")
    return numbers

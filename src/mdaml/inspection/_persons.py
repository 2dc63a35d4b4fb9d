"""Who gave answers that can be relied on: a table with one row for each person."""

import numpy as np

from mdaml._typing import ArrayLike, BoolArray, FloatArray, IntArray
from mdaml.constraints.lines import parse_number
from mdaml.constraints.persons import Persons
from mdaml.inspection._answers import Columns, pair_numbers
from mdaml.inspection._suspicion import PRIOR_RIGHT, PRIOR_WRONG, FlipModel

_SURE = 1000.0  # a remark must be this many times more likely than its opposite
_HARDLY = 3.0  # log likelihood ratio that chance exceeds once in seventy times
_ONE_SIDE = 0.95  # share of answers on the left of somebody who always answers there
_ROUNDS = 50


def person_columns(
    given: Columns,
    satisfied: BoolArray,
    margins: FloatArray,
    persons: Persons,
    seconds: ArrayLike | None,
    left: ArrayLike | None,
) -> dict[str, ArrayLike]:
    """Return the columns of the table of persons; see :func:`mdaml.audit`."""
    counts, n = persons.sums(), len(satisfied)
    agreement = persons.sums(satisfied) / counts
    columns: dict[str, ArrayLike] = {"who": persons.names, "answers": counts.astype(np.int64)}
    columns |= {"agreement": agreement, "with_others": agreement_with_others(given, persons)}
    columns |= {"error": person_errors(margins, persons)}
    remarks = [list[str]() for _ in persons.names]
    if seconds is not None:
        times = _check_column("seconds", seconds, n, "a number of seconds")
        own = [times[persons.codes == code] for code in range(len(persons))]
        columns["seconds"] = np.array([np.median(some) for some in own])
    _remark_on_chance(remarks, persons.sums(satisfied), counts)
    if left is not None:
        on_left = persons.sums(_check_column("left", left, n, "1 or 0"))
        columns["left"] = on_left / counts
        _remark_on_sides(remarks, on_left, counts)
    columns["remark"] = [", ".join(texts) for texts in remarks]
    return columns


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


def person_errors(margins: FloatArray, persons: Persons) -> FloatArray:
    """Return the share of answers of each person that are turned round, (P,).

    The posterior mode of the model of :class:`FlipModel`, by EM: ``e_p = (2 + sum_t s_t) / (20 +
    n_p)`` with the suspicion ``s_t`` of each answer t under ``e_p``. All persons
    share one scale, that of the better half: errors of the others would look like a blunt metric.
    """
    better = _better_half(persons.sums(margins > 0.0), persons.sums())
    model = FlipModel.from_margins(margins[better[persons.codes]])
    errors = np.full(len(persons), model.flip_rate)
    total = PRIOR_RIGHT + PRIOR_WRONG + persons.sums()
    for _ in range(_ROUNDS):
        wrong = FlipModel(errors[persons.codes], model.scale).suspicion(margins)
        errors = (PRIOR_WRONG + persons.sums(wrong)) / total
    return errors


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


def _remark_on_chance(remarks: list[list[str]], agreed: FloatArray, counts: FloatArray) -> None:
    """Say whose answers are explained by chance, or are the opposite of the metric, by likelihood.

    By chance, if that is far more likely than the agreement with the metric of the better half of
    all persons, and hardly less likely than any agreement.
    """
    better = _better_half(agreed, counts)
    usual = float(np.clip(agreed[better].sum() / counts[better].sum(), 0.6, 0.99))
    for p, (k, n) in enumerate(zip(agreed, counts, strict=True)):
        by_chance, as_others = (_log_likelihood(k, n, share) for share in (0.5, usual))
        beyond_chance = _log_likelihood(k, n, np.clip(k / n, 0.001, 0.999)) - by_chance
        if k / n < 0.5 and beyond_chance > np.log(_SURE):
            remarks[p].append("answers the wrong way round")
        elif by_chance - as_others > np.log(_SURE) and beyond_chance < _HARDLY:
            remarks[p].append("answers at random")


def _better_half(agreed: FloatArray, counts: FloatArray) -> BoolArray:
    shares = agreed / counts
    return shares >= np.median(shares)


def _remark_on_sides(remarks: list[list[str]], on_left: FloatArray, counts: FloatArray) -> None:
    for p, (k, n) in enumerate(zip(on_left, counts, strict=True)):
        for chosen, side in ((k, "left"), (n - k, "right")):
            if _log_likelihood(chosen, n, _ONE_SIDE) - _log_likelihood(chosen, n, 0.5) > np.log(
                _SURE
            ):
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

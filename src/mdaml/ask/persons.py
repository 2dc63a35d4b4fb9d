"""Who answers, and how often each person errs, for the owner's page."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.ask.answers import to_constraints
from mdaml.ask.questions import Row
from mdaml.estimators.base import MahalanobisTransformer as Metric
from mdaml.inspection import audit
from mdaml.inspection.suspicion import FlipModel, relative_margins
from mdaml.kernels.pairs import pair_sq_dists

if TYPE_CHECKING:
    from pandas import DataFrame


class Verdict(NamedTuple):
    """How the learned metric judges the answers of a person."""

    chances: FloatArray  # (n,) probability of each comparison under the metric
    weights: FloatArray  # (n,) of the comparisons; those of one answer sum to one
    remark: str
    kind: int | None = None  # of persons who answer alike, if there are several
    error: float | None = None  # judged by that kind
    # Answers that hold under one metric of all, those under that of the kind, all answers.
    counts: tuple[float, float, float] = (0.0, 0.0, 0.0)


NO_VERDICT = Verdict(np.empty(0), np.empty(0), "")


def describe_answers(answers: Sequence[Row], verdicts: dict[str, Verdict] | None = None) -> Row:
    """Return the number of answers, a row for each person, and how many are of each kind.

    ``by_kind`` has the shares of the answers of these persons that hold under one metric of all and
    under that of their kind; None without kinds.
    """
    by_person: dict[str, list[Row]] = {}
    for answer in answers:
        by_person.setdefault(answer["person"], []).append(answer)
    by_question = {answer["id"]: answer for answer in answers}
    verdicts = verdicts or {}
    persons = [
        _describe_person(who, own, by_question, verdicts.get(who, NO_VERDICT))
        for who, own in by_person.items()
    ]
    # Who answers at random, the wrong way round or in a way of their own is near a kind, not of it.
    of_kinds = [v for v in verdicts.values() if f"agrees with kind {v.kind}" in v.remark]
    kinds = Counter(v.kind for v in of_kinds if v.kind is not None)
    by_all, by_kind, n = (sum(v.counts[k] for v in of_kinds) for k in range(3))
    return {
        "n_answers": sum(a["outcome"] != "skip" for a in answers),
        "persons": persons,
        "kinds": [kinds[kind] for kind in sorted(kinds)],
        "by_kind": [by_all / n, by_kind / n] if n and len(kinds) > 1 else None,
    }


def _describe_person(
    who: str, own: Sequence[Row], by_question: dict[str, Row], verdict: Verdict
) -> Row:
    decided = [a for a in own if a["outcome"] == "answer"]
    # By whether the first answer was their own.
    agreed: dict[bool, list[bool]] = {True: [], False: []}
    for answer in decided:
        first = by_question.get(answer["repeats"])
        if first is not None and first["outcome"] == "answer":
            agreed[first["person"] == who].append(_chosen(first) == _chosen(answer))
    caught = [a["choice"] == a["expected"] for a in decided if a["source"] == "catch"]
    times = [a["seconds"] for a in own if a["seconds"] is not None]
    sided = [a["choice"] == [1] for a in decided if a["form"] in ("triplet", "same")]
    # By the kind of people they are of: others who see it differently are no evidence.
    error = verdict.error
    if verdict.kind is None:
        error = estimate_error(caught, [*agreed[True], *agreed[False]], verdict)
    return {
        "who": who,
        "answers": sum(a["outcome"] != "skip" for a in own),
        "unsure": sum(a["outcome"] == "unsure" for a in own),
        "skipped": sum(a["outcome"] == "skip" for a in own),
        "seconds": float(np.median(times)) if times else None,
        "left": _share(sided),
        "same_again": _share(agreed[True]),
        "as_others": _share(agreed[False]),
        "catch": _share(caught),
        "error": error,
        "remark": verdict.remark,
    }


def _chosen(answer: Row) -> set[str] | bool:
    if answer["form"] == "same":
        return bool(answer["choice"] == [1])
    return {answer["items"][place] for place in answer["choice"]}


def _share(held: Sequence[bool]) -> list[int] | None:
    return [sum(held), len(held)] if held else None


def estimate_error(
    caught: Sequence[bool], twice: Sequence[bool], verdict: Verdict = NO_VERDICT
) -> float | None:
    """Return the share of wrong answers of a person, from all evidence.

    A person who errs with probability e is right on a catch question with ``1 - e``, and gives the
    same answer twice with ``1 - 2 e (1 - e)``; others are assumed to err as often. An answer of
    probability p under the metric is given with ``(1 - e) p + e (1 - p)``. Returned is the mean of
    e, from 0 to 1/2, after two right catch answers and one wrong one are added; None if nothing is
    known.
    """
    if not (caught or twice or len(verdict.chances)):
        return None
    e = np.linspace(0.001, 0.5, 500)
    same, right = 1 - 2 * e * (1 - e), [*caught, True, True, False]
    fit = sum(right) * np.log(1 - e) + (len(right) - sum(right)) * np.log(e)
    fit += sum(twice) * np.log(same) + (len(twice) - sum(twice)) * np.log(1 - same)
    p = verdict.chances[:, None]
    fit += verdict.weights @ np.log((1 - e) * p + e * (1 - p))
    chance = np.exp(fit - fit.max())
    return float(chance @ e / chance.sum())


def judge(
    model: Metric, X: FloatArray, answers: Sequence[Row], ids: Sequence[str]
) -> dict[str, Verdict]:
    """Return how a metric judges the answers of each person; see :func:`mdaml.audit`.

    The sharpness of the metric is estimated from the better half of the persons, because the errors
    of the others would make it look blunt. Pairs give no probabilities: each person has their own
    threshold. Where there are kinds of people, a metric of all says nothing of a single one.
    """
    decided = [a for a in answers if a["outcome"] == "answer"]
    supervision = to_constraints(decided, ids)
    if supervision is None:
        return {}
    supervision = supervision._replaced(ids=None)
    left = None
    if all(a["form"] == "triplet" for a in decided) and supervision.n_constraints == len(decided):
        left = [a["choice"] == [1] for a in decided]
    frame = audit(model, X, constraints=supervision, training_rows=False, who="who", left=left)
    Y, T = model.transform(X), supervision.triplets
    who = supervision.columns["who"][: len(T)]
    margins = relative_margins(*(pair_sq_dists(Y, T[:, pair]) for pair in ([0, 1], [0, 2])))
    if "kind" in frame:
        return _judge_by_kinds(frame, who, margins > 0, supervision.weights[: len(T)])
    better = frame["who"][frame["agreement"] >= frame["agreement"].median()]
    chances = margins
    if len(margins):
        sure = margins[np.isin(who, better)]
        chances = expit(margins / FlipModel.from_margins(sure if len(sure) else margins).scale)
    rows = {name: np.flatnonzero(who == name) for name in frame["who"]}
    return {
        name: Verdict(chances[rows[name]], supervision.weights[rows[name]], remark)
        for name, remark in zip(frame["who"], frame["remark"], strict=True)
    }


def _judge_by_kinds(
    frame: "DataFrame", who: IntArray, held: BoolArray, weights: FloatArray
) -> dict[str, Verdict]:
    """Return verdicts by the kind of each person; ``held`` are comparisons under one metric."""
    columns = ("who", "remark", "kind", "error", "agreement", "answers")
    verdicts = {}
    for name, remark, kind, error, agreement, n in zip(*(frame[c] for c in columns), strict=True):
        own, counts = who == name, (0.0, 0.0, 0.0)
        if own.any():  # not of pairs, for which everybody has a threshold of their own
            by_all = float(np.average(held[own], weights=weights[own]))
            counts = (n * by_all, n * float(agreement), float(n))
        none = np.empty(0)
        verdicts[name] = Verdict(none, none, remark, int(kind), float(error), counts)
    return verdicts

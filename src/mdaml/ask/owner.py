"""Figures of the owner's page: persons, learning curve, map, neighbours, doubtful answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints import Constraints
from mdaml.inspection import audit
from mdaml.kernels.neighbors import nearest_rows
from mdaml.model_selection import triplet_accuracy

Row = dict[str, Any]

_MOST_MAPPED = 200
_N_EXAMPLES, _N_NEAREST = 8, 5
_N_DOUBTFUL = 10
_LEAST_SCORED = 10  # held-out answers
_Z = 1.96


def describe_answers(answers: Sequence[Row]) -> Row:
    """Return the number of answers, and a row for each person."""
    by_person: dict[str, list[Row]] = {}
    for answer in answers:
        by_person.setdefault(answer["person"], []).append(answer)
    by_question = {answer["id"]: answer for answer in answers}
    persons = [_describe_person(who, own, by_question) for who, own in by_person.items()]
    return {"n_answers": sum(a["outcome"] != "skip" for a in answers), "persons": persons}


def _describe_person(who: str, own: Sequence[Row], by_question: dict[str, Row]) -> Row:
    said = [a for a in own if a["outcome"] == "answer"]
    agreed: dict[bool, list[bool]] = {True: [], False: []}  # by whether the first was one's own
    for answer in said:
        first = by_question.get(answer["repeats"])
        if first is not None and first["outcome"] == "answer":
            agreed[first["person"] == who].append(_chosen(first) == _chosen(answer))
    caught = [a["choice"] == a["expected"] for a in said if a["source"] == "catch"]
    times = [a["seconds"] for a in own if a["seconds"] is not None]
    sided = [a["choice"] == [1] for a in said if a["form"] in ("triplet", "same")]
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
        "error": estimate_error(caught, agreed[True], agreed[False]),
    }


def _chosen(answer: Row) -> set[str] | bool:
    if answer["form"] == "same":
        return bool(answer["choice"] == [1])
    return {answer["items"][place] for place in answer["choice"]}


def _share(held: Sequence[bool]) -> list[int] | None:
    return [sum(held), len(held)] if held else None


def estimate_error(
    caught: Sequence[bool], own: Sequence[bool], others: Sequence[bool]
) -> float | None:
    """Return the share of wrong answers that fits what is known best.

    A person who errs with probability e is right on a catch question with ``1 - e``, and says the
    same twice with ``1 - 2 e (1 - e)``; others are taken to err as often. The most likely e up to
    1/2, with two right catch answers and one wrong one added; None if nothing is known.
    """
    if not (caught or own or others):
        return None
    e = np.linspace(0.001, 0.5, 500)
    same = 1 - 2 * e * (1 - e)
    right, twice = [*caught, True, True, False], [*own, *others]
    n_right, n_same = sum(right), sum(twice)
    fit = n_right * np.log(1 - e) + (len(right) - n_right) * np.log(e)
    fit += n_same * np.log(same) + (len(twice) - n_same) * np.log(1 - same)
    return float(e[np.argmax(fit)])


def describe_learning(
    models: Sequence[tuple[int, Any]], euclidean: Any, X: FloatArray, held: Constraints | None
) -> Row:
    """Return the scores of models on held-out answers, after so many answers each.

    All are scored by the same answers; the interval is Wilson's, at 95 %.
    """
    questions = set() if held is None else set(held.columns["question"].tolist())
    n_held = len(questions)
    if held is None or n_held < _LEAST_SCORED or not len(held.triplets):
        return {"n_held_out": n_held, "curve": [], "euclid": None, "gain": None}
    curve = []
    for n_answers, model in models:
        score = triplet_accuracy(model, X, held)
        curve.append([n_answers, score, *interval(score, n_held)])
    plain = triplet_accuracy(euclidean, X, held)
    euclid = [plain, *interval(plain, n_held)]
    return {"n_held_out": n_held, "curve": curve, "euclid": euclid, "gain": answers_to_gain(curve)}


def interval(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's interval of a share of n, at 95 %."""
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return float(max(middle - half, 0)), float(min(middle + half, 1))


def answers_to_gain(curve: Sequence[Sequence[float]], points: float = 0.01) -> int | None:
    """Return about how many more answers raise the score by a point.

    The score is taken to grow by a constant for every doubling of the answers, by least squares
    over the curve, of three points at least. None if it does not grow, or hardly.
    """
    if len(curve) < 3:
        return None
    n, score = np.array(curve)[:, 0], np.array(curve)[:, 1]
    slope = float(np.polyfit(np.log2(np.maximum(n, 1)), score, 1)[0])
    if slope <= points / 10:
        return None
    return int(np.ceil(n[-1] * (2 ** (points / slope) - 1)))


def describe_items(model: Any, euclidean: Any, X: FloatArray) -> Row:
    """Return places on a map, and nearest items before and after learning, of a few items."""
    rng = np.random.default_rng(0)
    shown = np.sort(rng.permutation(len(X))[:_MOST_MAPPED])
    Y = model.transform(X[shown])
    Y = Y - Y.mean(axis=0)
    _, _, axes = np.linalg.svd(Y, full_matrices=False)
    places = np.zeros((len(shown), 2))
    flat = Y @ axes[:2].T
    places[:, : flat.shape[1]] = flat / (np.abs(flat).max() or 1.0)
    examples = rng.permutation(len(X))[:_N_EXAMPLES]
    before, after = (_nearest(metric, X, examples) for metric in (euclidean, model))
    nearest = [
        {"item": item, "before": before[k], "after": after[k]}
        for k, item in enumerate(examples.tolist())
    ]
    rows = {int(r) for r in shown} | {
        r for n in nearest for r in (n["item"], *n["before"], *n["after"])
    }
    mapped = [
        [int(row), *place] for row, place in zip(shown, places.round(4).tolist(), strict=True)
    ]
    return {"map": mapped, "nearest": nearest, "rows": sorted(rows)}


def _nearest(metric: Any, X: FloatArray, rows: IntArray) -> list[list[int]]:
    """Return the nearest other items of a few."""
    Y = metric.transform(X)
    found, _ = nearest_rows(Y[rows], Y, _N_NEAREST + 1)
    pairs = zip(rows, found, strict=True)
    return [near[near != row][:_N_NEAREST].tolist() for row, near in pairs]


def find_doubtful(model: Any, X: FloatArray, said: Constraints) -> list[Row]:
    """Return the answers that are most probably wrong, at most one for each question."""
    if len(said.triplets) == 0:
        return []
    few = said.select(np.arange(len(said.triplets)))
    frame = audit(model, X, constraints=few._replaced(ids=None), training_rows=False)
    suspicion, found = frame["suspicion"].to_numpy(), dict[str, Row]()
    for place in np.argsort(-suspicion, kind="stable"):
        question = few.columns["question"][place]
        if suspicion[place] < 0.5 or len(found) == _N_DOUBTFUL:
            break
        found.setdefault(
            question,
            {
                "who": few.columns["who"][place],
                "items": few.triplets[place].tolist(),
                "suspicion": float(suspicion[place]),
            },
        )
    return list(found.values())

"""Figures of the owner's page: learning curve, map, neighbours, doubtful answers."""

from collections.abc import Sequence

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.ask.questions import Row
from mdaml.constraints import Constraints
from mdaml.estimators.base import MahalanobisTransformer as Metric
from mdaml.holdout.rule import find_leaders
from mdaml.inspection import audit
from mdaml.kernels.neighbors import nearest_rows
from mdaml.kernels.pairs import pair_sq_dists

_MOST_MAPPED = 200
_N_EXAMPLES, _N_NEAREST = 8, 5
_N_DOUBTFUL = 10
_LEAST_SCORED = 10  # held-out answers
_LEAST_PERSONS = 8  # that are units of a test by signs
_Z = 1.96


def describe_learning(
    models: Sequence[tuple[int, Metric]], euclidean: Metric, X: FloatArray, held: Constraints | None
) -> Row:
    """Return the scores of models on held-out answers, after so many answers each.

    All are scored by the same answers; the interval is Wilson's, at 95 %. ``lead`` is what the last
    model has over Euclid, with its interval; ``gain``, how many more answers raise the score by a
    point, is told only if that is more than chance, by the rule for every choice.
    """
    n_held = 0 if held is None else len(np.unique(held.columns["question"]))
    nothing = {"n_held_out": n_held, "curve": [], "euclid": None, "lead": None, "gain": None}
    if held is None or n_held < _LEAST_SCORED or not can_compare(held):
        return nothing
    plain, groups = _score_questions(euclidean, X, held)
    scored = [(n, _score_questions(model, X, held)[0]) for n, model in models]
    points = [(n, float(right.mean())) for n, right in scored]
    curve = [[n, score, *interval(score, n_held)] for n, score in points]
    score = float(plain.mean())
    lead = difference(scored[-1][1], plain, groups) if scored else None
    # With few questions none but a clear difference is beyond chance: both limits ask for one.
    is_ahead = lead is not None and lead[1] > 0
    if is_ahead:
        is_ahead = bool(find_leaders(plain, scored[-1][1][None], np.arange(len(plain)))[0])
    return {
        "n_held_out": n_held,
        "curve": curve,
        "euclid": [score, *interval(score, n_held)],
        "lead": lead,
        "gain": answers_to_gain(curve) if is_ahead else None,
    }


def can_compare(supervision: Constraints) -> bool:
    """Whether there are comparisons, or pairs of both kinds."""
    return len(supervision.triplets) > 0 or len(np.unique(supervision.pair_labels)) == 2


def speaks_against(
    new: Metric,
    served: Metric,
    X: FloatArray,
    held: Constraints | None,
) -> bool:
    """Say whether the served model leads a new one on held-out answers by more than chance.

    The units are persons, because one answers like oneself, or questions if persons are few.
    """
    if held is None or not can_compare(held):
        return False
    after, _ = _score_questions(new, X, held)
    before, _ = _score_questions(served, X, held)
    if len(after) < _LEAST_SCORED:
        return False
    n = len(held.triplets) or len(held.pairs)
    _, first = np.unique(held.columns["question"][:n], return_index=True)
    who = held.columns["who"][:n][first if len(held.triplets) else slice(None)]
    names, units = np.unique(who, return_inverse=True)
    if len(names) < _LEAST_PERSONS:
        units = np.arange(len(after))
    return bool(find_leaders(after, before[None], units)[0])


def _score_questions(
    metric: Metric, X: FloatArray, held: Constraints
) -> tuple[FloatArray, IntArray]:
    """Return how far a metric is right on each question, and the group of each question.

    The share of the comparisons that hold. Of pairs, the share of all pairs that were called the
    opposite which it has in the right order; its mean over either group is the area under the ROC
    curve, and so is the mean that is returned.
    """
    Y = metric.transform(X)
    if len(held.triplets):
        T, n = held.triplets, len(held.triplets)
        right = pair_sq_dists(Y, T[:, [0, 1]]) < pair_sq_dists(Y, T[:, [0, 2]])
        weights = held.weights[:n]
        _, question = np.unique(held.columns["question"][:n], return_inverse=True)
        share = np.bincount(question, weights * right) / np.bincount(question, weights)
        return share, np.zeros(len(share), int)
    sq_dists, similar = pair_sq_dists(Y, held.pairs), held.pair_labels > 0
    near, far = sq_dists[similar], sq_dists[~similar]
    order = (near[:, None] < far) + 0.5 * (near[:, None] == far)
    share = np.empty(len(similar))
    share[similar], share[~similar] = order.mean(axis=1), order.mean(axis=0)
    return share, similar.astype(int)


def difference(
    first: FloatArray, second: FloatArray, groups: IntArray
) -> tuple[float, float, float]:
    """Return by how much the first is right more often on the same questions, with 95 % limits.

    The limits of Agresti and Min: in each group a win, a loss and a tie are added, half, half and
    one. With few questions, only a clear difference is more than chance.
    """
    mean, variance = 0.0, 0.0
    names = np.unique(groups)
    for group in names:
        d = (first - second)[groups == group]
        n = len(d) + 2
        mean += float(d.sum()) / n / len(names)
        spread = (float(np.sum(d**2)) + 1) / n - (float(d.sum()) / n) ** 2
        # Both groups of pairs give the same area; the variances of its two means add up (DeLong).
        variance += spread / n
    half = _Z * np.sqrt(variance)
    return float(np.mean(first - second)), mean - half, mean + half


def interval(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's interval of a share of n, at 95 %."""
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return float(max(middle - half, 0)), float(min(middle + half, 1))


def answers_to_gain(curve: Sequence[Sequence[float]], points: float = 0.01) -> int | None:
    """Return about how many more answers raise the score by a point.

    The score is taken to grow by a constant for every doubling of the answers, by least squares
    over the curve, which needs three points or more. None if the score grows too little.
    """
    if len(curve) < 3:
        return None
    n, score = np.array(curve)[:, 0], np.array(curve)[:, 1]
    slope = float(np.polyfit(np.log2(np.maximum(n, 1)), score, 1)[0])
    if slope <= points / 10:
        return None
    return int(np.ceil(n[-1] * (2 ** (points / slope) - 1)))


def describe_items(model: Metric, euclidean: Metric, X: FloatArray) -> Row:
    """Return places on a map, and the nearest items of a few before and after learning."""
    rng = np.random.default_rng(0)
    shown = np.sort(rng.permutation(len(X))[:_MOST_MAPPED])
    Y = model.transform(X[shown])
    Y = Y - Y.mean(axis=0)
    _, _, axes = np.linalg.svd(Y, full_matrices=False)
    flat = Y @ axes[:2].T
    flat = flat / (np.abs(flat).max(axis=0) + 1e-12)
    places = _move_apart(np.pad(flat, ((0, 0), (0, 2 - flat.shape[1]))))
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


def _move_apart(places: FloatArray) -> FloatArray:
    """Move items that would hide each other on the map a little, within the square."""
    gap = 1.6 / np.sqrt(len(places))
    rng = np.random.default_rng(0)
    places = places + 1e-6 * rng.normal(size=places.shape)  # moves items in one place apart
    for _ in range(40):
        away = places[:, None] - places  # (n, n, 2)
        dist = np.sqrt(np.sum(away**2, axis=2)) + np.eye(len(places))
        push = np.where(dist < gap, (gap - dist) / dist, 0.0)
        np.fill_diagonal(push, 0.0)
        places = np.clip(places + 0.25 * np.sum(push[:, :, None] * away, axis=1), -1.0, 1.0)
    return places


def _nearest(metric: Metric, X: FloatArray, rows: IntArray) -> list[list[int]]:
    """Return the nearest other items of some items."""
    Y = metric.transform(X)
    found, _ = nearest_rows(Y[rows], Y, _N_NEAREST + 1)
    pairs = zip(rows, found, strict=True)
    return [near[near != row][:_N_NEAREST].tolist() for row, near in pairs]


def name_items(report: Row, ids: Sequence[str]) -> Row:
    """Return a report that names items by their ids; rows change when items are added."""

    def name(rows: Sequence[int]) -> list[str]:
        return [ids[row] for row in rows]

    again = [part | {"items": name(part["items"])} for part in report.get("again", [])]
    named: Row = {"again": again}
    if "map" in report:
        named["map"] = [[ids[row], x, y] for row, x, y in report["map"]]
        named["nearest"] = [
            {
                "item": ids[part["item"]],
                "before": name(part["before"]),
                "after": name(part["after"]),
            }
            for part in report["nearest"]
        ]
    shown = {row for part in again for row in part["items"]} | set(name(report.get("rows", [])))
    return report | named | {"rows": sorted(shown)}


def find_doubtful(model: Metric, X: FloatArray, supervision: Constraints) -> list[Row]:
    """Return the answers that are most probably wrong, at most one for each question."""
    if len(supervision.triplets) == 0:
        return []
    few = supervision.select(np.arange(len(supervision.triplets)))
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

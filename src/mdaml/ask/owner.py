"""Figures of the owner's page: learning curve, neighbours, doubtful answers."""

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

_N_EXAMPLES, _N_NEAREST = 8, 5
_N_DOUBTFUL = 10
_LEAST_SCORED = 10  # held-out answers
_LEAST_PERSONS = 8  # that are units of a test by signs
_Z = 1.96
_SURELY = 0.01  # how often chance may ask whether people choose the opposite


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


def turn_round(supervision: Constraints) -> Constraints:
    """Return answers that say the opposite: what was near is far, what was the same differs."""
    return supervision._replaced(
        triplets=supervision.triplets[:, [0, 2, 1]], pair_labels=-supervision.pair_labels
    )


def holds_better(
    turned: Metric, model: Metric, X: FloatArray, held: Constraints | None
) -> Row | None:
    """Return the scores of held-out answers as they are and turned round, if these are better.

    By more than chance; ``turned`` was learned from answers that were turned round.
    """
    if held is None or not can_compare(held):
        return None
    before, _ = _score_questions(model, X, held)
    after, _ = _score_questions(turned, X, turn_round(held))
    if not find_leaders(before, after[None], np.arange(len(after)), level=_SURELY)[0]:
        return None
    return {"given": float(before.mean()), "turned": float(after.mean())}


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


def describe_nearest(model: Metric, euclidean: Metric, X: FloatArray) -> list[Row]:
    """Return the nearest items of a few, before and after learning."""
    examples = np.random.default_rng(0).permutation(len(X))[:_N_EXAMPLES]
    before, after = (_nearest(metric, X, examples) for metric in (euclidean, model))
    return [
        {"item": item, "before": before[k], "after": after[k]}
        for k, item in enumerate(examples.tolist())
    ]


def _nearest(metric: Metric, X: FloatArray, rows: IntArray) -> list[list[int]]:
    """Return the nearest other items of some items."""
    Y = metric.transform(X)
    found, _ = nearest_rows(Y[rows], Y, _N_NEAREST + 1)
    pairs = zip(rows, found, strict=True)
    return [near[near != row][:_N_NEAREST].tolist() for row, near in pairs]


def name_items(report: Row, ids: Sequence[str]) -> Row:
    """Return a report that names items by their ids; rows change when items are added.

    ``rows`` lists all items that it names.
    """

    def name(rows: Sequence[int]) -> list[str]:
        return [ids[row] for row in rows]

    again = [part | {"items": name(part["items"])} for part in report.get("again", [])]
    nearest = [
        {"item": ids[part["item"]], "before": name(part["before"]), "after": name(part["after"])}
        for part in report.get("nearest", [])
    ]
    mapped = [[ids[row], *place] for row, *place in report.get("map", [])]
    shown = {n for part in again for n in part["items"]} | {place[0] for place in mapped}
    shown |= {n for part in nearest for n in (part["item"], *part["before"], *part["after"])}
    named = {"again": again, "nearest": nearest, "map": mapped, "rows": sorted(shown)}
    return report | {key: value for key, value in named.items() if key in report or key == "rows"}


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

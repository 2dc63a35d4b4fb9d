"""Whether a metric gets places, and how strong its anchor is, chosen on points held out."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mdaml._progress import mute
from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.constraints.labels import Classes
from mdaml.constraints.value import Constraints
from mdaml.holdout.comparisons import HeldOutComparisons, Judged, join_units
from mdaml.holdout.rule import explain_more_than_swapping, find_leaders, measure_gain
from mdaml.holdout.samples import hold_out_samples, right_votes
from mdaml.holdout.split import Split, compares, hold_out_points
from mdaml.holdout.units import COPY, same_rows

# Learns from what is said about the rows, and returns where they are in the learned space.
Candidate = Callable[[Constraints], FloatArray]

_N_PARTS = 4  # of which one is held out; of few comparisons each in turn
FEW_COMPARISONS = 4_000
FEWEST_POINTS = 100  # compared with others: of fewer, held-out points do not tell
_MOST_LABELLED, _PARTS_OF_LABELS = 3_000, 3  # samples that take part, each held out once
_OFTEN = 10  # times that a point is named, in the mean: then places may be overfitted to it
_ENOUGH = 0.2  # of what is learned from has to be left without the held-out points


def choose_candidate(
    X: FloatArray, supervision: Constraints, candidates: Sequence[Candidate]
) -> tuple[int, list[float], dict[str, Any]] | None:
    """Return the candidate to take, the share of comparisons that hold for each, and the gain.

    Of those that lead the first by more than chance, or X as it is where that loses less, the one
    under which comparisons of held-out points lose least is taken; the first if none leads. Behind
    the first they are in an order, and one that loses more than the one before it ends the trials.
    Nothing is learned about held-out points: places could be learned of each point alone. Where
    points are named often, new ones are easily kept far from those that places are overfitted to.
    There a candidate must also lose no more than the first where both members of the far pair were
    held out. The gain is that over X as it is. None where there is too little to hold anything out.
    The same comparisons give the same choice.
    """
    rng = np.random.RandomState(0)
    points, few = same_rows(X, COPY), supervision.n_constraints <= FEW_COMPARISONS
    if len(np.unique(points)) < FEWEST_POINTS:
        return None
    parts = hold_out_points(supervision, _N_PARTS, rng, points)[: None if few else 1]
    if not parts:
        return None
    held_out = [_HeldOutPoints.of(part, rng, points) for part in parts]
    units, weights = join_units([each.asked for each in held_out])

    def judge(mapped: Iterable[FloatArray]) -> tuple[Judged, float]:
        found = [each.judge(Y) for each, Y in zip(held_out, mapped, strict=True)]
        return Judged.join(judged for judged, _ in found), sum(loss for _, loss in found)

    start, tried, far_losses = judge([X] * len(parts))[0], list[Judged](), list[float]()
    with mute():
        for candidate in candidates:
            judged, loss = judge(candidate(each.learned) for each in held_out)
            tried.append(judged)
            far_losses.append(loss)
            if len(tried) > 2 and tried[-1].losses @ weights > tried[-2].losses @ weights:
                break
    losses, right = Judged.stack(tried)
    first = min(start.losses, losses[0], key=lambda each: float(each @ weights))
    leads = find_leaders(-first, -losses[1:], units, weights)
    leads &= right[1:] @ weights > 0.5 * weights.sum()  # less explains near and far swapped
    leads &= explain_more_than_swapping(start.right, right[1:], weights)
    if _count_names(supervision) >= _OFTEN * len(np.unique(points)):
        leads &= np.array(far_losses[1:]) <= far_losses[0]
    means = np.where(leads, losses[1:] @ weights, np.inf)
    taken = 1 + int(np.argmin(means)) if leads.any() else 0
    gain = measure_gain("comparisons", start.right, right[taken], units, weights)
    scores = right @ weights / weights.sum()
    return taken, [float(score) for score in scores], gain.as_dict()


# Learns from labelled rows, and returns where these and others are in the learned space.
LabelCandidate = Callable[[FloatArray, Classes, FloatArray], FloatArray]


def choose_by_votes(
    X: FloatArray, classes: Classes, candidates: Sequence[LabelCandidate]
) -> tuple[int, list[float], dict[str, Any]] | None:
    """Return the candidate to take, the share of right votes for each, and the gain.

    Every sample is held out once, and scored by how many of its three nearest neighbours are of its
    class. Otherwise as :func:`choose_candidate`.
    """
    rng, rows, of = np.random.RandomState(0), classes.rows, classes.of
    some = np.sort(rng.permutation(len(rows))[:_MOST_LABELLED])
    X, of = X[rows[some]], of[some]
    points = same_rows(X, COPY)
    splits = hold_out_samples(of, points, _PARTS_OF_LABELS, rng)
    if len(np.unique(points)) < FEWEST_POINTS or not splits:
        return None
    votes = [np.concatenate([right_votes(X, of, split) for split in splits])]
    with mute():
        for candidate in candidates:
            found = []
            for split in splits:
                train = split.train_points
                learned = candidate(X[train], Classes.from_labels("LocalMDaML", of[train]), X)
                found.append(right_votes(learned, of, split))
            votes.append(np.concatenate(found))
    units = np.unique(np.concatenate([split.units for split in splits]), return_inverse=True)[1]
    leads = find_leaders(max(votes[:2], key=np.mean), np.array(votes[2:]), units)
    means = [float(each.mean()) for each in votes[1:]]
    taken = 1 + int(np.argmax(np.where(leads, means[1:], -1.0))) if leads.any() else 0
    gain = measure_gain("votes", votes[0], votes[1 + taken], units)
    return taken, means, gain.as_dict()


def _count_names(supervision: Constraints) -> int:
    """Return how many points all comparisons name together, each as often as it is named."""
    return supervision.triplets.size + supervision.pairs.size + supervision.quadruplets.size


class _HeldOutPoints(NamedTuple):
    """Points that are held out, with what is learned from and what is asked."""

    learned: Constraints
    asked: HeldOutComparisons  # of which the first point is held out
    far: HeldOutComparisons  # those of which both members of the far pair are

    @classmethod
    def of(cls, part: Split, rng: np.random.RandomState, points: IntArray) -> "_HeldOutPoints":
        """Return the points of a part, and what is said without them."""
        asked, learned = HeldOutComparisons.of(part, rng), part.learned
        is_out: BoolArray = np.isin(points, points[asked.near[:, 0]])
        far = asked.select(np.logical_and(*is_out[asked.far.T]))
        named = [
            is_out[each].any(axis=1)
            for each in (learned.triplets, learned.pairs, learned.quadruplets)
        ]
        others = learned.select(~np.concatenate(named))
        # Where few points are in all comparisons, their answers are held out and not the points.
        enough = compares(others) and others.n_constraints >= _ENOUGH * learned.n_constraints
        return cls(others if enough else learned, asked, far)

    def judge(self, Y: FloatArray) -> tuple[Judged, float]:
        """Return how comparisons fare where rows are mapped to, and what the far ones lose."""
        return self.asked.judge(Y), float(self.far.judge(Y).losses @ self.far.weights)

"""Whether a metric gets places, and how strong its anchor is, chosen on points held out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from mdaml._progress import mute
from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.labels import Classes
from mdaml.constraints.matching import to_comparisons
from mdaml.constraints.value import Constraints
from mdaml.holdout.anchor import compares, scaled_losses
from mdaml.holdout.rule import explain_more_than_swapping, find_leaders, measure_gain
from mdaml.holdout.samples import hold_out_samples, right_votes
from mdaml.holdout.split import Split, hold_out_points
from mdaml.holdout.units import same_rows
from mdaml.kernels.pairs import pair_sq_dists

# Learns from what is said about the rows, and returns where they are in the learned space.
Candidate = Callable[[Constraints], FloatArray]

_N_PARTS = 4  # of which one is held out
# Of few comparisons more would be lost with the points: smaller parts, in turn.
FEW_COMPARISONS, _PARTS_OF_FEW, _TURNS_OF_FEW = 4_000, 8, 3
FEWEST_POINTS = 100  # compared with others: of fewer, held-out points do not tell
_MOST_LABELLED, _PARTS_OF_LABELS = 3_000, 3  # samples that take part, each held out once
_ENOUGH = 0.2  # of what is learned from has to be left without the held-out points


def choose_candidate(
    X: FloatArray, said: Constraints, candidates: Sequence[Candidate]
) -> tuple[int, list[float], dict[str, Any]] | None:
    """Return the candidate to take, the share of comparisons that hold for each, and the gain.

    Of those that lead the first by more than chance, or X as it is where that loses less, the one
    under which comparisons of held-out points lose least is taken; the first if none leads. Behind
    the first they are in an order, and one that loses more than the one before it ends the trials.
    Nothing is learned about held-out points: places could be learned of each point alone. The gain
    is that over X as it is. None where there is too little to hold anything out. The same
    comparisons give the same choice.
    """
    rng = np.random.RandomState(0)
    points, few = same_rows(X, 0.0), said.n_constraints <= FEW_COMPARISONS
    if len(np.unique(points)) < FEWEST_POINTS:
        return None
    found = _find_parts(said, points, _PARTS_OF_FEW if few else _N_PARTS, rng)
    parts = list(islice(found, _TURNS_OF_FEW if few else 1))
    if not parts:
        return None
    compared = [part.held_out.comparisons() for part in parts]
    weights = np.concatenate([part.held_out.weights for part in parts])
    units = np.concatenate([part.units for part in parts])
    if len(units) != len(weights):  # made of pairs: each counts for its first point
        units = np.concatenate(compared)[:, 0]
    units = np.unique(units, return_inverse=True)[1]
    margins, losses = [np.concatenate([_margins(X, each) for each in compared])], []
    with mute():
        for candidate in candidates:
            judged = [
                _margins(candidate(p.learned), c) for p, c in zip(parts, compared, strict=True)
            ]
            margins.append(np.concatenate([each / (np.abs(each).mean() or 1.0) for each in judged]))
            losses.append(scaled_losses(margins[-1], weights))
            if len(losses) > 2 and losses[-1] @ weights > losses[-2] @ weights:
                break
    right = np.where(np.array(margins) == 0.0, 0.5, np.array(margins) > 0.0)
    first = min(losses[0], scaled_losses(margins[0], weights), key=lambda each: each @ weights)
    leads = find_leaders(-first, -np.array(losses[1:]), units, weights)
    leads &= right[2:] @ weights > 0.5 * weights.sum()  # less explains near and far swapped
    leads &= explain_more_than_swapping(right[0].astype(np.float64), right[2:], weights)
    means = np.where(leads, np.array(losses[1:]) @ weights, np.inf)
    taken = 1 + int(np.argmin(means)) if leads.any() else 0
    gain = measure_gain("comparisons", right[0], right[1 + taken], units, weights)
    scores = right[1:] @ weights / weights.sum()
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
    points = same_rows(X, 0.0)
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


def _find_parts(
    said: Constraints, points: IntArray, n_parts: int, rng: np.random.RandomState
) -> Iterator[Split]:
    """Yield parts whose held-out points are in none of the comparisons to learn from."""
    for part in hold_out_points(said, n_parts, rng, points):
        if not compares(part.learned) or not compares(part.held_out):
            continue
        held_out = to_comparisons("LocalMDaML", part.held_out, rng)
        is_out = np.isin(points, points[held_out.comparisons()[:, 0]])
        learned = part.learned
        named = [
            is_out[each].any(axis=1)
            for each in (learned.triplets, learned.pairs, learned.quadruplets)
        ]
        others = learned.select(~np.concatenate(named))
        # Where few points are in all comparisons, their answers are held out and not the points.
        if compares(others) and others.n_constraints >= _ENOUGH * learned.n_constraints:
            learned = others
        yield replace(part, train=learned, test=held_out)


def _margins(Y: FloatArray, compared: IntArray) -> FloatArray:
    near, far = (
        pair_sq_dists(Y, np.ascontiguousarray(pairs)).astype(np.float64)
        for pairs in (compared[:, :2], compared[:, 2:])
    )
    margins: FloatArray = far - near
    return margins

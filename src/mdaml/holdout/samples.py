"""How far a metric learned from labels goes back to its start, chosen by samples held out."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mdaml._progress import mute
from mdaml._typing import BoolArray, FloatArray, IntArray
from mdaml.constraints.labels import Classes
from mdaml.holdout.rule import LEVEL_OF_LABELS, Gain, find_leaders, measure_gain, prefer_first
from mdaml.holdout.split import Split, deal, same_points
from mdaml.kernels.neighbors import nearest_rows
from mdaml.neighbors.search import search_under
from mdaml.solver.geometry import shrink
from mdaml.solver.run import Problem, count_modes
from mdaml.solver.spec import Spec
from mdaml.solver.start import start_metric
from mdaml.solver.store import Store

Score = Callable[[FloatArray], BoolArray | FloatArray]  # of a factor of the metric

_N_PARTS = 3
MOST_ROWS = 3_000  # that take part, those with a label
_N_NEIGHBORS = 3  # of the classifier
_TO_LEARN_FROM = 2  # members that a class keeps: one has no partner


def choose_shrinkage(spec: Spec, store: Store, classes: Classes) -> tuple[Spec, Gain | None]:
    """Return the parameters with the shrinkage chosen, and what was gained on held-out samples.

    Every sample is held out once, and scored by how many of its three nearest neighbours are of its
    class. Of the shares in ``spec.shrinkages`` that lead the start by more than chance, the best is
    chosen; the first, unless another leads it by half a standard error. If none leads, the start is
    kept. Without shares to choose from, only the gain of the given one is measured. Where there is
    too little to hold anything out it is None, and the start is kept if there was a choice.
    """
    rng = np.random.RandomState(0)  # the same labels always give the same share
    rows, of = classes.rows, classes.of
    tried = list_shares(spec, len(rows))
    if len(rows) > MOST_ROWS:
        some = np.sort(rng.permutation(len(rows))[:MOST_ROWS])
        rows, of = rows[some], of[some]
    order = np.argsort(rows)
    rows, of = rows[order], of[order]
    labelled = store.part(rows)
    units = same_points(labelled)
    splits = hold_out_samples(of, units, _N_PARTS, rng)
    short = replace(count_modes(spec, store), shrinkage=0.0, shrinkages=(), callback=None)
    used = splits if spec.shrinkages else splits[:1]
    if not used:
        return replace(spec, shrinkages=(), keep_start=bool(spec.shrinkages)), None
    with mute():
        right = [_try_split(short, labelled, of, split, tried, rng) for split in used]
    scores, units = np.hstack(right), np.concatenate([split.units for split in used])
    units = np.unique(units, return_inverse=True)[1]
    leads = find_leaders(scores[0], scores[1:], units, level=LEVEL_OF_LABELS)
    best = prefer_first(scores[1:], leads if leads.any() else None)
    chosen = bool(spec.shrinkages)
    if chosen:
        spec = replace(spec, shrinkage=tried[best], shrinkages=(), keep_start=not bool(leads.any()))
    gain = measure_gain("votes", scores[0], scores[1 + best], units)
    if chosen:
        gain = replace(gain, tried=tried, scores=tuple(map(float, scores[1:].mean(axis=1))))
    return spec, replace(gain, is_beyond_chance=bool(leads[best]))


def list_shares(spec: Spec, n_rows: int) -> tuple[float, ...]:
    """Return the shares to choose from with so many labelled samples, or the one that is given.

    Of many samples some take part. Fewer want to be nearer to the start: they can only tell
    whether to leave it.
    """
    tried = spec.shrinkages or (spec.shrinkage,)
    return tried[:1] if n_rows > MOST_ROWS else tried


def _try_split(
    spec: Spec,
    store: Store,
    of: IntArray,
    split: Split,
    shares: Sequence[float],
    rng: np.random.RandomState,
) -> FloatArray:
    """Return the right votes of held-out samples: under the start, the first row, and by shares."""
    part = store.part(split.train_points)
    spec = _fitting(spec, part.shape[0])
    start = start_metric(replace(spec, keep_start=True), part, rng).F
    F = Problem(spec, Classes.from_labels("MDaML", of[split.train_points])).solve(part, rng).F
    votes = []
    for factor in (start, *(shrink(F, start, share) for share in shares)):
        votes.append(right_votes(store.fetch_mapped(factor), of, split))
    return np.array(votes)


def right_votes(Y: FloatArray, of: IntArray, split: Split) -> FloatArray:
    """Return which share of the nearest samples of each held-out one is of its class."""
    learned, held_out = Y[split.train_points], Y[split.test_points]
    nearest = nearest_rows(held_out, learned, min(_N_NEIGHBORS, len(learned)))[0]
    return _right_votes(nearest, of[split.train_points], of[split.test_points])


def hold_out_samples(
    of: IntArray, units: IntArray, n_parts: int, rng: np.random.RandomState
) -> list[Split]:
    """Deal samples with a class to parts, each held out once; equal units together.

    A part that is empty, or leaves no second class or no pair of a class to learn from, is left
    out.
    """
    part_of, made = deal_samples(of, units, n_parts, rng), []
    for number in range(n_parts):
        out = part_of == number
        left = np.bincount(of[~out])
        if out.any() and np.count_nonzero(left) > 1 and left.max() >= _TO_LEARN_FROM:
            made.append(Split(np.flatnonzero(~out), np.flatnonzero(out), units=units[out]))
    return made


def deal_samples(
    of: IntArray, units: IntArray, n_parts: int, rng: np.random.RandomState
) -> IntArray:
    """Return the part of each sample, -1 for those that are never held out.

    Each part has its share of every class, and equal rows are in one part. Classes of one or two
    distinct rows are never held out: two of them stay to learn from in every case. If no class has
    more, those of two are dealt: each part is learned about from the classes that are left whole.
    """
    _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    own = of[first]
    size = np.bincount(own, minlength=int(of.max()) + 1)
    rank = np.argsort(rng.permutation(len(first)))
    is_dealt = size[own] > min(_TO_LEARN_FROM, max(size.max() - 1, 1))
    part: IntArray = np.full(len(first), -1)
    part[is_dealt] = deal(n_parts, rank[is_dealt], own[is_dealt])
    return part[unit]


def vote_score(
    X: FloatArray, y: IntArray, X_valid: FloatArray, y_valid: IntArray, device: str | None = None
) -> Score:
    """Return whether the nearest samples under a metric vote for the class of held-out ones."""
    return _score_by(_voted, X, y, X_valid, y_valid, device)


def share_score(
    X: FloatArray, y: IntArray, X_valid: FloatArray, y_valid: IntArray, device: str | None = None
) -> Score:
    """Return the share of the nearest samples under a metric that have the class of held-out ones.

    It tells metrics apart by fewer samples than their elections do, which hide how close they are.
    """
    return _score_by(_right_votes, X, y, X_valid, y_valid, device)


def _score_by(
    count: Callable[[IntArray, IntArray, IntArray], BoolArray | FloatArray],
    X: FloatArray,
    y: IntArray,
    X_valid: FloatArray,
    y_valid: IntArray,
    device: str | None,
) -> Score:
    # Not scikit-learn's classifier: its threads wait for each other when other work is going on,
    # and that took longer than all fits together.
    search = search_under(device, X_valid, X)
    return lambda F: count(search(F, min(_N_NEIGHBORS, len(X))), y, y_valid)


def _voted(nearest: IntArray, y: IntArray, y_valid: IntArray) -> BoolArray:
    votes = np.zeros((len(nearest), int(max(y.max(), y_valid.max())) + 1))
    for voter in nearest.T:
        votes[np.arange(len(votes)), y[voter]] += 1
    return votes.argmax(axis=1) == y_valid  # the lowest class of equals


def _right_votes(nearest: IntArray, y: IntArray, y_valid: IntArray) -> FloatArray:
    shares: FloatArray = np.mean(y[nearest] == y_valid[:, None], axis=1)
    return shares


def _fitting(spec: Spec, n_samples: int) -> Spec:
    """Return parameters that suit fewer samples: no more modes than these, weights by a mixture."""
    weights = spec.weights if isinstance(spec.weights, str) else "gmm"
    return replace(spec, n_modes=min(spec.n_modes, n_samples), weights=weights)

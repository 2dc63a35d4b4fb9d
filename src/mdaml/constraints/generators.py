"""The ways to draw :class:`Constraints`: its class methods ``from_...``, and its noise."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.utils import check_array

from mdaml._typing import Array, ArrayLike, BoolArray, FloatArray, IntArray, Params, Rng
from mdaml._validation import check_number
from mdaml.constraints.checks import Seed, check_count
from mdaml.constraints.labels import Classes, distinct_integers, neighbor_triplets, to_labels

if TYPE_CHECKING:  # the class takes its methods from here
    from mdaml.constraints.value import Constraints

PER_POINT = 10  # constraints for each point where no number is given


def from_labels(
    cls: type["Constraints"],
    y: ArrayLike,
    *,
    kind: Literal["triplets", "pairs", "quadruplets"] = "triplets",
    n: int | None = None,
    random_state: Seed = None,
) -> "Constraints":
    """Draw constraints from labels, at random; each point is the reference about equally often.

    Parameters
    ----------
    y : array-like of shape (n_points,)
        Labels; ``-1`` marks rows without one, which no constraint names.
    kind : {"triplets", "pairs", "quadruplets"}, default="triplets"
        Of pairs, half are similar. The near pair of a quadruplet is of one class, its far pair of
        two, which need not be of the same points.
    n : int, default=None
        How many. None is ten for each point that has another one of its class. They are drawn
        independently: from few points some are drawn twice, which :meth:`counts` tells.
    random_state : int, Generator or None, default=None
        Same seed, same constraints.

    Returns
    -------
    Constraints
        On ``len(y)`` points.

    Examples
    --------
    >>> from mdaml.constraints import Constraints
    >>> Constraints.from_labels([0, 0, 1, 1, -1], kind="pairs", n=6, random_state=0)
    Constraints(6 pairs, n_points=5)
    """
    if kind not in ("triplets", "pairs", "quadruplets"):
        raise ValueError(f"kind must be 'triplets', 'pairs' or 'quadruplets', got {kind!r}.")
    labels = to_labels(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one label per point, got shape {labels.shape}.")
    rng = np.random.default_rng(random_state)
    classes = Classes.from_labels("Constraints.from_labels", labels)
    paired = np.flatnonzero(classes.size[classes.of] > 1)  # places with a partner in their class
    n = PER_POINT * len(paired) if n is None else check_count("n", n)
    return cls(**_draw_from_classes(classes, paired, kind, n, rng), n_points=len(labels))


def _draw_from_classes(
    classes: Classes, paired: IntArray, kind: str, n: int, rng: np.random.Generator
) -> Params:
    n_near, n_far = (n - n // 2, n // 2) if kind == "pairs" else (n, n)
    near = _random_partners(classes, _balanced(paired, n_near, rng), rng)
    if kind == "triplets":
        far = classes.random_others(near[:, 0], 1, rng)
        return {kind: classes.rows[np.hstack([near, far])]}
    references = _balanced(np.arange(len(classes.rows)), n_far, rng)
    far = np.column_stack([references, classes.random_others(references, 1, rng)])
    if kind == "quadruplets":
        return {kind: classes.rows[np.hstack([near, rng.permutation(far)])]}
    labels = np.repeat([1, -1], [n_near, n_far])
    return {kind: classes.rows[np.vstack([near, far])], "pair_labels": labels}


def _balanced(places: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    """Repeat places to n in all, each equally often or once more, sorted."""
    more = rng.choice(places, n % len(places), replace=False)
    return np.sort(np.concatenate([np.repeat(places, n // len(places)), more]))


def _random_partners(classes: Classes, places: IntArray, rng: np.random.Generator) -> IntArray:
    """Join each place with a random other one of its class, as an (n, 2) array."""
    own, first = classes.size[classes.of[places]], classes.first[classes.of[places]]
    drawn = rng.integers(0, own - 1) + first
    return np.column_stack([places, drawn + (drawn >= places)])


def from_neighbors(
    cls: type["Constraints"], X: FloatArray, y: ArrayLike, n_similar: int = 3, n_dissimilar: int = 3
) -> "Constraints":
    """Form triplets of each point, its nearest of the same class and its nearest of the others.

    Parameters
    ----------
    X : array-like of shape (n_points, n_features)
        The points, compared by Euclidean distance.
    y : array-like of shape (n_points,)
        Labels; ``-1`` marks rows without one, which no constraint names.
    n_similar, n_dissimilar : int, default=3
        Neighbours of each kind; every combination of the two is a triplet.

    Returns
    -------
    Constraints
        Triplets, sorted by the first point.

    Examples
    --------
    >>> from mdaml.constraints import Constraints
    >>> X = [[0.0], [1.0], [3.0], [7.0]]
    >>> Constraints.from_neighbors(X, [0, 0, 1, 1], 1, 1).triplets[:2]
    array([[0, 1, 2],
           [1, 0, 2]])
    """
    X = check_array(X, dtype=[np.float64, np.float32], input_name="X")
    labels = to_labels(y)
    if labels.shape != (len(X),):
        raise ValueError(
            f"y must hold one label for each of the {len(X)} rows of X, got shape {labels.shape}."
        )
    triplets = neighbor_triplets(X, labels, n_similar, n_dissimilar)
    return cls(triplets=triplets, n_points=len(X))


def from_chunks(
    cls: type["Constraints"],
    groups: ArrayLike | Sequence[ArrayLike],
    *,
    n_pairs: int | None = None,
    n_points: int | None = None,
    random_state: Seed = None,
) -> "Constraints":
    """Draw pairs from chunks, groups of points that belong together: similar within, not between.

    Parameters
    ----------
    groups : array-like of shape (n_points,), or list of lists
        The number of the chunk of each point, -1 for none; or the row numbers of each chunk.
    n_pairs : int, default=None
        How many, no pair twice: half of them similar where there are enough. None is every pair
        within a chunk, but at most ten for each point, and the same number between chunks.
    n_points : int, default=None
        Rows of X, where `groups` are lists. If None, the highest row that is named, plus one.
    random_state : int, Generator or None, default=None
        Same seed, same pairs.

    Returns
    -------
    Constraints
        Pairs, the similar ones first.

    Examples
    --------
    >>> from mdaml.constraints import Constraints
    >>> answers = Constraints.from_chunks([[0, 1], [2, 3, 4]], random_state=0)
    >>> answers.pairs[answers.pair_labels > 0].tolist()
    [[0, 1], [2, 3], [2, 4], [3, 4]]
    """
    rng = np.random.default_rng(random_state)
    pairs, labels, n_points = _draw_from_chunks(_chunk_of_points(groups, n_points), n_pairs, rng)
    return cls(pairs=pairs, pair_labels=labels, n_points=n_points)


def _draw_from_chunks(
    chunk: IntArray, n_pairs: int | None, rng: np.random.Generator
) -> tuple[IntArray, IntArray, int]:
    """Return distinct pairs within and between chunks, their labels and the number of points."""
    rows = np.flatnonzero(chunk >= 0)
    codes = np.unique(chunk[rows], return_inverse=True)[1]
    rows, codes = rows[np.argsort(codes, kind="stable")], np.sort(codes)
    last = np.cumsum(np.bincount(codes, minlength=1))[codes]  # the place behind one's own chunk
    places = np.arange(len(rows))
    n_within, n_between = last - 1 - places, len(rows) - last  # only later places: no pair twice
    within, between = int(n_within.sum()), int(n_between.sum())
    if within == 0:
        raise ValueError("No chunk has two members: nothing is similar to anything.")
    if n_pairs is None:
        n_similar = min(within, PER_POINT * len(rows))
        n_dissimilar = min(between, n_similar)
    else:
        n_pairs = check_count("n_pairs", n_pairs, within + between, " pairs there are")
        n_similar = min(within, max(n_pairs - n_pairs // 2, n_pairs - between))
        n_dissimilar = n_pairs - n_similar
    similar = _pairs_at(_distinct_below(within, n_similar, rng), places + 1, n_within)
    dissimilar = _pairs_at(_distinct_below(between, n_dissimilar, rng), last, n_between)
    labels = np.repeat([1, -1], [n_similar, n_dissimilar])
    return rows[np.vstack([similar, dissimilar])], labels, len(chunk)


def _pairs_at(numbers: IntArray, first: IntArray, size: IntArray) -> IntArray:
    """Return pairs by their number; place p has the partners first[p] to first[p] + size[p]."""
    behind = np.cumsum(size)
    place = np.searchsorted(behind, numbers, side="right")
    return np.column_stack([place, first[place] + numbers - (behind - size)[place]])


def _distinct_below(high: int, n: int, rng: np.random.Generator) -> IntArray:
    return np.sort(rng.choice(high, n, replace=False)) if n else np.empty(0, np.int64)


def _chunk_of_points(groups: ArrayLike | Sequence[ArrayLike], n_points: int | None) -> IntArray:
    """Return the chunk of each point, -1 for none, from such an array or from lists of rows."""
    wanted = (
        "groups must be integers, the chunk of each point or -1 for none, or a list of chunks, "
        "each a list of row numbers"
    )
    groups = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    if not isinstance(groups, Sequence | np.ndarray) or isinstance(groups, str | bytes):
        raise TypeError(f"{wanted}; got {type(groups).__name__}.")
    if len(groups) == 0:
        raise ValueError(f"{wanted}; got nothing.")
    if np.ndim(groups[0]) == 0:
        chunk = np.asarray(groups)
        if chunk.ndim != 1 or chunk.dtype.kind not in "iu":
            raise TypeError(f"{wanted}; got shape {chunk.shape} and dtype {chunk.dtype}.")
        if n_points not in (None, len(chunk)):
            raise ValueError(f"groups hold {len(chunk)} points, but n_points is {n_points}.")
        if chunk.min() < -1:
            raise ValueError(f"{wanted}; got {chunk.min()}.")
        return chunk.astype(np.int64)
    return _chunk_of_members([np.asarray(members) for members in groups], n_points, wanted)


def _chunk_of_members(chunks: Sequence[Array], n_points: int | None, wanted: str) -> IntArray:
    chunks = [members for members in chunks if members.size]
    if not chunks or any(c.ndim != 1 or c.dtype.kind not in "iu" for c in chunks):
        raise TypeError(f"{wanted}; got other things in a chunk, or no member at all.")
    rows = np.concatenate(chunks).astype(np.int64)
    n_points = int(rows.max()) + 1 if n_points is None else check_count("n_points", n_points)
    if rows.min() < 0 or rows.max() >= n_points:
        bad = rows[(rows < 0) | (rows >= n_points)][0]
        raise ValueError(f"groups name row {bad}, but there are {n_points} points from 0 on.")
    if len(np.unique(rows)) < len(rows):
        again = int(np.argmax(np.bincount(rows) > 1))
        raise ValueError(f"Row {again} is in the chunks twice. Merge chunks that share a point.")
    chunk = np.full(n_points, -1)
    chunk[rows] = np.repeat(np.arange(len(chunks)), [len(members) for members in chunks])
    return chunk


def from_oracle(
    cls: type["Constraints"],
    oracle: Callable[[IntArray, IntArray, IntArray], ArrayLike],
    n_points: int,
    n: int,
    *,
    random_state: Seed = None,
) -> "Constraints":
    """Ask which of two points is nearer to a third, and keep the answers as triplets.

    Parameters
    ----------
    oracle : callable
        Called once, as ``oracle(a, b, c)`` with three integer arrays of length `n`; returns True
        where point b is nearer to a than c is. A function that answers one question at a time is
        passed as ``numpy.vectorize(function, otypes=[bool])``.
    n_points : int
        Rows of X.
    n : int
        Number of questions, drawn at random, none twice.
    random_state : int, Generator or None, default=None
        Same seed, same questions.

    Returns
    -------
    Constraints
        Triplets, each turned as it was answered.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.constraints import Constraints
    >>> x = np.array([0.0, 1.0, 3.0, 7.0])
    >>> def nearer(a, b, c):
    ...     return abs(x[a] - x[b]) < abs(x[a] - x[c])
    >>> a, b, c = Constraints.from_oracle(nearer, 4, 10, random_state=0).triplets.T
    >>> bool(np.all(abs(x[a] - x[b]) < abs(x[a] - x[c])))
    True
    """
    if not callable(oracle):
        raise TypeError(
            f"oracle must be a function of three arrays of row numbers, got {oracle!r}."
        )
    n_points = check_count("n_points", n_points)
    questions = n_points * (n_points - 1) * (n_points - 2) // 2
    n = check_count("n", n, questions, f" different questions about {n_points} points")
    triples = _distinct_triples(n_points, n, np.random.default_rng(random_state))
    answers = np.asarray(oracle(*triples.T.copy()))
    if answers.shape != (n,) or answers.dtype != bool:
        raise TypeError(
            f"oracle(a, b, c) must return {n} booleans, True where b is nearer to a than c is; got "
            f"shape {answers.shape} and dtype {answers.dtype}. A function of three numbers can be "
            "wrapped: numpy.vectorize(oracle, otypes=[bool])."
        )
    triplets = np.where(answers[:, None], triples, triples[:, [0, 2, 1]])
    return cls(triplets=triplets, n_points=n_points)


def random_triples(n_points: int, n: int, rng: Rng) -> IntArray:
    """Draw n times three different points, (n, 3)."""
    # The k-th is drawn among those left, and moved past the others.
    one, two, three = (rng.randint(0, n_points - taken, n) for taken in range(3))
    two += two >= one
    three += three >= np.minimum(one, two)
    three += three >= np.maximum(one, two)
    return np.column_stack([one, two, three])


def _distinct_triples(n_points: int, n: int, rng: np.random.Generator) -> IntArray:
    """Draw n triples of distinct points, no two with the same reference and the same two others."""
    triples = np.empty((0, 3), np.int64)
    while len(triples) < n:
        more = distinct_integers(rng, np.full(n, n_points), 3)
        triples = np.concatenate([triples, more])
        low, high = np.sort(triples[:, 1:], axis=1).T
        # One number for each question; to compare rows takes far longer. Beyond two million points
        # two may share one: then a question is left out, and another one drawn.
        questions = (triples[:, 0] * n_points + low) * n_points + high
        first = np.unique(questions, return_index=True)[1]
        triples = triples[np.sort(first)]
    return triples[:n]


def with_noise(
    self: "Constraints", rate: float, random_state: Seed = None
) -> tuple["Constraints", BoolArray]:
    """Return a copy in which a share of the constraints is turned into the opposite.

    Parameters
    ----------
    rate : float
        Share between 0 and 1: exactly ``round(rate * n_constraints)`` are reversed.
    random_state : int, Generator or None, default=None
        Which ones.

    Returns
    -------
    noisy : Constraints
        Near and far exchanged in triplets and quadruplets, the labels of pairs reversed.
    flipped : bool array of shape (n_constraints,)
        True where the constraint was reversed.

    Examples
    --------
    >>> from mdaml.constraints import Constraints
    >>> noisy, flipped = Constraints(triplets=[[0, 1, 2]]).with_noise(1.0)
    >>> noisy.triplets, flipped
    (array([[0, 2, 1]]), array([ True]))
    """
    n = self.n_constraints
    n_flipped = round(check_number(self, "rate", rate, 0.0, 1.0) * n)
    flipped = np.zeros(n, bool)
    flipped[np.random.default_rng(random_state).choice(n, n_flipped, replace=False)] = True
    ends = np.cumsum([len(self.triplets), len(self.pairs)])
    of_triplets, of_pairs, of_quadruplets = np.split(flipped, ends)
    reverse = self.quadruplets[:, [2, 3, 0, 1]]
    noisy = self._replaced(
        triplets=np.where(of_triplets[:, None], self.triplets[:, [0, 2, 1]], self.triplets),
        pair_labels=np.where(of_pairs, -self.pair_labels, self.pair_labels),
        quadruplets=np.where(of_quadruplets[:, None], reverse, self.quadruplets),
    )
    return noisy, flipped

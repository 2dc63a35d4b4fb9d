"""Triplets drawn from class labels, at random or from neighbours."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from sklearn.utils import check_array

from mdaml._typing import Array, ArrayLike, BoolArray, FloatArray, IntArray
from mdaml.constraints.checks import check_count, warn_of_odd_labels
from mdaml.constraints.names import to_array
from mdaml.kernels.neighbors import nearest
from mdaml.neighbors.search import ExactSearch, exact_search, nearest_places

Pairing = Literal["grid", "zip"]


def sample_triplets(
    y: ArrayLike,
    n_similar: int = 10,
    n_dissimilar: int = 10,
    *,
    pairing: Pairing = "grid",
    random_state: int | np.random.Generator | None = None,
) -> IntArray:
    """Draw triplets from labels: partners of the same and of other classes, at random.

    Every labelled sample of a class with at least two members becomes a reference. Its partners are
    distinct where its class (or the rest) has enough members, and drawn with repetition otherwise.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Labels; rows without one, -1, None, NaN or empty, are left out.
    n_similar, n_dissimilar : int
        Partners of each reference.
    pairing : {"grid", "zip"}
        All combinations of similar and dissimilar partners, or one triplet per similar partner with
        the dissimilar ones taken in turn.
    random_state : int, Generator or None
        Same seed, same triplets, whatever the number of threads.

    Returns
    -------
    triplets : array of shape (n_triplets, 3)
        Row indices ``(reference, similar, dissimilar)``, sorted by reference.

    See Also
    --------
    neighbor_triplets : Triplets of nearest neighbours.

    Examples
    --------
    >>> from mdaml.constraints import sample_triplets
    >>> sample_triplets([0, 0, 1, 1], 1, 2, random_state=0).shape
    (8, 3)
    """
    _check_partners(n_similar, n_dissimilar, pairing)
    classes = Classes.from_labels("sample_triplets", y)
    rng = np.random.default_rng(random_state)
    return classes.random_triplets(n_similar, n_dissimilar, pairing, rng)


def neighbor_triplets(
    X: FloatArray,
    y: ArrayLike,
    n_similar: int = 10,
    n_dissimilar: int = 10,
    *,
    pairing: Pairing = "grid",
    recall: float = 0.95,
) -> IntArray:
    """Form triplets from labels: the nearest samples of the same and of other classes.

    As :func:`sample_triplets`, with Euclidean neighbours in ``X`` in place of chance; ties go to
    the earlier row. A reference with too few partners repeats them. Memory grows with the number of
    partners, never with the square of the number of samples.

    Beyond 50 000 labelled rows not all pairs are compared: the time then grows hardly faster than
    the number of rows, and a few neighbours are missed.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Labels; rows without one, -1, None, NaN or empty, are left out.
    n_similar, n_dissimilar : int
        Partners of each reference.
    pairing : {"grid", "zip"}
        All combinations of similar and dissimilar partners, or one triplet per similar partner with
        the dissimilar ones taken in turn.
    recall : float
        Share of the true neighbours of either kind to be found among more than 50 000 rows, as a
        sample tells; 1 compares all pairs.

    Returns
    -------
    triplets : array of shape (n_triplets, 3)
        Row indices ``(reference, similar, dissimilar)``, sorted by reference.

    See Also
    --------
    sample_triplets : Triplets of random partners.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.constraints import neighbor_triplets
    >>> X = np.array([[0.0], [1.0], [3.0], [7.0]])
    >>> neighbor_triplets(X, [0, 0, 1, 1], 1, 1)
    array([[0, 1, 2],
           [1, 0, 2],
           [2, 3, 1],
           [3, 2, 1]])
    """
    _check_partners(n_similar, n_dissimilar, pairing)
    X = check_array(X, dtype=[np.float64, np.float32], input_name="X")
    if len(X) != len(np.asarray(y)):
        raise ValueError(f"X has {len(X)} rows, but y has {len(np.asarray(y))} labels.")
    classes = Classes.from_labels("neighbor_triplets", y)
    if not 0.0 < recall <= 1.0:
        raise ValueError(f"recall must be above 0 and at most 1, got {recall!r}.")
    wanted = n_similar, n_dissimilar
    near, far = nearest_places(X[classes.rows], classes.bounds, classes.rows, wanted, recall)
    return classes.neighbor_triplets(near, far, pairing)


def _check_partners(n_similar: object, n_dissimilar: object, pairing: object) -> None:
    check_count("n_similar", n_similar, _MOST_PARTNERS)
    check_count("n_dissimilar", n_dissimilar, _MOST_PARTNERS)
    if pairing not in ("grid", "zip"):
        raise ValueError(f"pairing must be 'grid' or 'zip', got {pairing!r}.")


_MOST_PARTNERS = 999_999


def _repeated(found: IntArray) -> IntArray:
    """Fill the -1 at the end of each row with its first entries again, in turn."""
    if (found[:, -1] >= 0).all():
        return found
    turn = np.arange(found.shape[1]) % np.sum(found >= 0, axis=1)[:, None]
    return np.take_along_axis(found, turn, axis=1)


@dataclass(frozen=True)
class Classes:
    """Labelled rows sorted by class; class c holds the places first[c] to first[c] + size[c]."""

    rows: IntArray  # (n_labelled,)
    of: IntArray  # (n_labelled,) class of each place
    first: IntArray  # (n_classes,)
    size: IntArray  # (n_classes,)
    # What finds neighbours, here or on a device.
    search: ExactSearch = field(default=nearest, repr=False, compare=False)

    @cached_property
    def bounds(self) -> IntArray:
        """For each place the first place of its class and the one behind its last."""
        return np.column_stack([self.first, self.first + self.size])[self.of]

    def on(self, device: str | None, n_features: int) -> "Classes":
        """Return classes whose neighbours are searched on a GPU where that pays."""
        return replace(self, search=exact_search(device, len(self.rows), n_features))

    def random_others(self, places: IntArray, n: int, rng: np.random.Generator) -> IntArray:
        """Draw n places of other classes for each of some places; distinct where there are enough.

        A class is a range of places: leaving it out is a shift of those behind it.
        """
        own, first = self.size[self.of[places]], self.first[self.of[places]]
        drawn = distinct_integers(rng, len(self.rows) - own, n)
        return drawn + np.where(drawn >= first[:, None], own[:, None], 0)

    def nearest(
        self, X: FloatArray, n_nearest: int, *, same: bool, queries: tuple[int, int] | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Return the nearest places of each place, in its class or outside, and squared distances.

        X holds the samples in the order of the places. Nearest first, ties to the lower row; where
        there are fewer, -1 and infinity. Of all places, or of a range of them.
        """
        part = {} if queries is None else {"queries": queries}
        return self.search(X, self.bounds, self.rows, n_nearest, same=same, **part)

    def random_triplets(
        self, n_similar: int, n_dissimilar: int, pairing: Pairing, rng: np.random.Generator
    ) -> IntArray:
        """Draw partners of every sample whose class has another; see :func:`sample_triplets`."""
        references = self.references
        own, first = self.size[self.of[references]], self.first[self.of[references]]
        # Members of a class are neighbours in rows: leaving one's own place out of the draw is a
        # shift of the places behind it.
        similar = distinct_integers(rng, own - 1, n_similar)
        similar += similar >= (references - first)[:, None]
        dissimilar = self.random_others(references, n_dissimilar, rng)
        rows = self.rows
        return _combine(rows[references], rows[similar + first[:, None]], rows[dissimilar], pairing)

    def neighbor_triplets(self, near: IntArray, far: IntArray, pairing: Pairing) -> IntArray:
        """Join the nearest places of each place in its class with those outside."""
        references, rows = self.references, self.rows
        near, far = _repeated(near[references]), _repeated(far[references])
        return _combine(rows[references], rows[near], rows[far], pairing)

    @property
    def references(self) -> IntArray:
        """The places whose class has another member."""
        return np.flatnonzero(self.size[self.of] > 1)

    @classmethod
    def from_labels(cls, caller: str, labels: ArrayLike) -> "Classes":
        """Sort the rows by label, those of a class in their order; leave out label ``-1``."""
        rows, codes = check_labels(caller, to_labels(labels))
        size = np.bincount(codes)
        # Small integers are sorted by their digits, in linear time.
        order = np.argsort(codes.astype(np.min_scalar_type(len(size))), kind="stable")
        return cls(rows[order], codes[order], np.cumsum(size) - size, size)


def distinct_integers(rng: np.random.Generator, pool: IntArray, n: int) -> IntArray:
    """Draw n integers below pool[i] for each i; distinct where the pool is large enough.

    Floyd's algorithm for all rows at once: step s draws below ``pool - n + s + 1`` and, on meeting
    a number it has, takes the new top number instead. No permutation of the pool is ever made; the
    few numbers drawn are shuffled in the end, because Floyd's order is not random.
    """
    drawn = np.empty((len(pool), n), np.int64)
    enough = pool >= n
    top = np.where(enough, pool - n, pool - 1)
    for s in range(n):
        new = rng.integers(0, top + 1)
        seen = enough & np.any(drawn[:, :s] == new[:, None], axis=1)
        drawn[:, s] = np.where(seen, top, new)
        top = top + enough
    rng.permuted(drawn, axis=1, out=drawn)
    return drawn


def _combine(
    references: IntArray, similar: IntArray, dissimilar: IntArray, pairing: Pairing
) -> IntArray:
    """Combine the partners of each reference to triplets, sorted by reference."""
    place = np.full(references.max() + 1, -1)
    place[references] = np.arange(len(references))  # a sort: each is a reference once
    order = place[place >= 0]
    references, similar, dissimilar = references[order], similar[order], dissimilar[order]
    n_similar, n_dissimilar = similar.shape[1], dissimilar.shape[1]
    if pairing == "grid":
        shape = (len(references), n_similar, n_dissimilar)
        near, far = similar[:, :, None], dissimilar[:, None, :]
    else:
        shape = (len(references), max(n_similar, n_dissimilar), 1)
        turn = np.arange(shape[1])
        near = similar[:, turn % n_similar, None]
        far = dissimilar[:, turn % n_dissimilar, None]
    triplets = np.empty((*shape, 3), np.int64)
    triplets[..., 0] = references[:, None, None]
    triplets[..., 1] = near
    triplets[..., 2] = far
    return triplets.reshape(-1, 3)


def to_labels(y: object) -> Array:
    """Return labels as an array with -1 in place of those that are missing.

    Missing are None, NaN, NA, NaT, texts without a letter, and what a mask hides, in every dtype.

    Examples
    --------
    >>> from mdaml.constraints.labels import to_labels
    >>> to_labels(["gold", None, "", "silver"]).tolist()
    ['gold', -1, -1, 'silver']
    """
    labels = to_array(y)
    hidden = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else False
    if labels.dtype.kind == "T":
        labels = labels.astype(object)
    missing: Array = np.zeros(labels.shape, bool) | hidden
    if labels.dtype.kind in "fmM":
        missing |= labels != labels  # NaN and NaT alone
    elif labels.dtype.kind in "USO":
        missing |= np.reshape([_is_missing(label) for label in labels.ravel()], labels.shape)
    if not missing.any():
        return labels
    if labels.dtype.kind in "iuf":
        return np.where(
            missing, -1, np.asarray(labels, float if labels.dtype.kind == "u" else None)
        )
    if labels.dtype.kind in "mM":
        labels = labels.astype(f"{labels.dtype.kind}8[us]")  # becomes dates, not numbers
    return np.where(missing, -1, labels.astype(object))


def _is_missing(label: object) -> bool:
    """Say whether an object stands for nothing: None, NaN, NA, NaT, or a text without a letter."""
    if isinstance(label, str | bytes):
        return not label.strip()
    equal = label == label  # NaN is not equal to itself, NA neither equal nor not
    return label is None or not isinstance(equal, bool | np.bool) or not equal


def find_labelled(y: Array) -> BoolArray:
    """Return which rows have a label, which is not ``-1``; refuse what is no list of labels."""
    y = to_labels(y)
    if y.ndim != 1:
        raise ValueError(f"y must hold one label for each row, got shape {y.shape}.")
    if y.dtype.kind == "f" and np.isinf(y).any():
        row = int(np.isinf(y).argmax())
        raise ValueError(
            f"y has no label in row {row}, but {y[row]!r}. Mark rows without a label by -1."
        )
    if y.dtype.kind not in "iufO":
        return np.ones(len(y), bool)
    known: BoolArray = y != -1
    return known


def check_labels(caller: str, y: Array) -> tuple[IntArray, IntArray]:
    """Return the rows that have a label, and the class of each, counted from 0.

    Refuse labels from which nothing can be learned.
    """
    y = to_labels(y)
    labelled = find_labelled(y)
    if y.dtype.kind == "f" and np.any(y != np.floor(y)):
        raise ValueError(
            f"y must hold class labels, got continuous values such as {y[y != np.floor(y)][0]}. "
            f"{caller} compares classes; cut the values into classes, or pass triplets."
        )
    rows = np.flatnonzero(labelled)
    try:
        n_classes, codes = _number_classes(y[rows])
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in y}))
        raise TypeError(
            f"y mixes labels of types {kinds}, which cannot be ordered. Use numbers or strings."
        ) from None
    warn_of_odd_labels(y[rows])
    if n_classes < 2:
        hint = ""
        if len(rows) < len(y):
            hint = " Rows with label -1 count as unlabelled: use other labels, such as 0 and 1."
        raise ValueError(
            f"{caller} needs at least two classes in y, got {n_classes} class(es): without a "
            f"second class nothing is dissimilar.{hint}"
        )
    if n_classes == len(rows):
        raise ValueError(
            f"No class in y has two members ({len(rows)} samples, {n_classes} "
            "classes): nothing is similar to anything. Are these class labels?"
        )
    return rows, codes


def _number_classes(labels: Array) -> tuple[int, IntArray]:
    """Return how many distinct labels there are, and the place of each label among them.

    Integers of a small range are looked up in a table, in a tenth of the time of a sort.
    """
    wide = {"i": np.int64, "u": np.uint64}.get(labels.dtype.kind)
    if wide is not None and len(labels) > 0:
        labels = labels.astype(wide, copy=False)
        lowest = labels.min()
        if int(labels.max()) - int(lowest) <= 4 * len(labels):
            above = (labels - lowest).astype(np.int64, copy=False)
            seen = np.bincount(above) > 0
            codes = above if seen.all() else (np.cumsum(seen) - 1)[above]
            return int(np.count_nonzero(seen)), codes
    distinct, codes = np.unique(labels, return_inverse=True)
    return len(distinct), codes

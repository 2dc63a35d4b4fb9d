"""Weak supervision as a value: triplets, labelled pairs and quadruplets of the rows of one X."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mdaml._typing import Array, ArrayLike, FloatArray, IntArray, Params
from mdaml.constraints import checks, generators, joining, reading
from mdaml.constraints.forms import grades, odd_one_out, picks, positives, rankings, votes
from mdaml.constraints.names import MOST_POINTS, frozen

if TYPE_CHECKING:
    from mdaml.constraints.counts import ConstraintCounts

_ARRAYS = ("triplets", "pairs", "pair_labels", "quadruplets", "weights")
_FIELDS = (*_ARRAYS, "n_points", "ids", "columns")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Constraints:
    """Comparisons of points: any mixture of triplets, pairs and quadruplets, checked once.

    Parameters
    ----------
    triplets : array-like of shape (n_triplets, 3), default=None
        Rows of X, or names of `ids`: point a is nearer to b than to c.
    pairs : array-like of shape (n_pairs, 2), default=None
        Rows of X, or names.
    pair_labels : array-like of shape (n_pairs,), default=None
        1 or True if the pair is similar, -1, 0 or False if it is dissimilar.
    quadruplets : array-like of shape (n_quadruplets, 4), default=None
        Rows of X, or names: points a and b are nearer to each other than c and d.
    weights : array-like of shape (n_constraints,), default=None
        A positive number for each, in the order triplets, pairs, quadruplets; None is 1 for each.
    n_points : int, default=None
        Number of rows of X. None is the number of `ids`, or the highest row number plus one.
    ids : sequence of str or int of length n_points, default=None
        Names of the points, as used in files and in data frames of texts. Integers in `triplets`,
        `pairs` and `quadruplets` are always row numbers.
    columns : mapping of str to array-like of shape (n_constraints,), default=None
        What else is known about each constraint, such as ``{"who": [...], "time": [...]}``:
        numbers, dates or texts, in the order of the weights.

    Attributes
    ----------
    triplets, pairs, pair_labels, quadruplets : int64 arrays
        As given, read-only; of length 0 where there are none.
    weights : float64 array of shape (n_constraints,)
        Read-only.
    n_points : int
        Number of rows of the X that the constraints refer to.
    ids : array of shape (n_points,) or None
        Read-only.
    columns : mapping of str to array of shape (n_constraints,)
        Read-only, possibly empty. Selections and files keep them. If one answer was turned into
        several constraints, ``answer_number`` says which answer.

    See Also
    --------
    read_constraints : Reads a file, and reports the lines that are wrong.

    Examples
    --------
    >>> from mdaml.constraints import Constraints
    >>> answers = Constraints(triplets=[[0, 1, 2], [3, 2, 0]], pairs=[[0, 3]], pair_labels=[-1])
    >>> answers
    Constraints(2 triplets, 1 pair, n_points=4)
    >>> answers.restrict([3, 2, 0]).triplets
    array([[0, 1, 2]])
    """

    triplets: IntArray
    pairs: IntArray
    pair_labels: IntArray
    quadruplets: IntArray
    weights: FloatArray
    n_points: int
    ids: Array | None
    columns: Mapping[str, Array]

    def __init__(
        self,
        *,
        triplets: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_labels: ArrayLike | None = None,
        quadruplets: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        n_points: int | None = None,
        ids: ArrayLike | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        names, limit = checks.check_points(self, n_points, ids)
        parts = checks.check_all(
            MOST_POINTS if limit is None else limit,
            names=names,
            triplets=triplets,
            pairs=pairs,
            pair_labels=pair_labels,
            quadruplets=quadruplets,
            weights=weights,
        )
        kinds = {name: np.float64 if name == "weights" else np.int64 for name in parts}
        own = {name: frozen(array, kinds[name]) for name, array in parts.items()}
        self._set(own, limit, names, checks.check_columns(columns, len(own["weights"])))

    @classmethod
    def borrow(
        cls,
        n_points: int,
        weights_name: str = "weights",
        *,
        names: Array | None = None,
        **arrays: ArrayLike | None,
    ) -> "Constraints":
        """Check arrays as they were passed to a call, and use them without a copy.

        Only for the duration of the call: the caller can still change the arrays.
        """
        return cls._of(n_points, **checks.check_all(n_points, weights_name, names=names, **arrays))

    @classmethod
    def of_triplets(cls, triplets: IntArray, n_points: int) -> "Constraints":
        """Return triplets that are known to be right, without a copy."""
        return cls._of(n_points, triplets=triplets, weights=np.broadcast_to(1.0, len(triplets)))

    @classmethod
    def of_quadruplets(
        cls, quadruplets: IntArray, weights: FloatArray, n_points: int
    ) -> "Constraints":
        """Return weighted quadruplets that are known to be right, without a copy."""
        return cls._of(n_points, quadruplets=quadruplets, weights=weights)

    @classmethod
    def _of(cls, n_points: int, **parts: Any) -> "Constraints":
        made = cls.__new__(cls)
        made._set(checks.nothing() | parts, n_points, None, parts.get("columns", {}))
        return made

    def _set(
        self,
        parts: Mapping[str, Array],
        n_points: int | None,
        ids: Array | None,
        columns: Mapping[str, Array],
    ) -> None:
        """Store what is known to be right."""
        for name in _ARRAYS:
            object.__setattr__(self, name, parts[name])
        if n_points is None:
            n_points = 1 + max(int(part.max(initial=-1)) for part in self._members())
        object.__setattr__(self, "n_points", n_points)
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "columns", MappingProxyType(columns))

    def about(self, n_points: int) -> "Constraints":
        """Return the same constraints for an X with more rows."""
        if n_points == self.n_points:
            return self
        return self._of(n_points, **{k: v for k, v in self._parts().items() if k != "n_points"})

    def _replaced(self, **parts: object) -> "Constraints":
        """Return a value with other parts, which need no check and may be empty."""
        return _restore(self._parts() | parts)

    def _parts(self) -> Params:
        return {name: getattr(self, name) for name in _FIELDS} | {"columns": dict(self.columns)}

    def _members(self) -> tuple[IntArray, IntArray, IntArray]:
        return self.triplets, self.pairs, self.quadruplets

    def __repr__(self) -> str:
        """Return how many there are of each kind."""
        named = zip(("triplet", "pair", "quadruplet"), map(len, self._members()), strict=True)
        counts = [f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in named if n]
        return f"Constraints({', '.join(counts) or 'none'}, n_points={self.n_points})"

    def __eq__(self, other: object) -> bool:
        """Say whether the other holds the same constraints, in the same order, of the same points.

        Ids, weights and columns count too.
        """
        if not isinstance(other, Constraints):
            return NotImplemented
        names = [name for name in _FIELDS if name != "columns"]
        mine, theirs = self.columns, other.columns
        return (
            all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)
            and mine.keys() == theirs.keys()
            and all(checks.same_column(mine[name], theirs[name]) for name in mine)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild through arrays that cannot be written to, which pickle alone would not."""
        return _restore, (self._parts(),)

    def __copy__(self) -> "Constraints":
        """Return itself: nothing in it can change."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "Constraints":
        """Return itself: nothing in it can change."""
        return self

    @property
    def n_constraints(self) -> int:
        """The number of triplets, pairs and quadruplets together."""
        return sum(map(len, self._members()))

    def counts(self) -> "ConstraintCounts":
        """Count constraints by kind, points, repetitions and contradictions.

        Returns
        -------
        counts : ConstraintCounts
            Plain numbers.

        Examples
        --------
        >>> from mdaml.constraints import Constraints
        >>> answers = Constraints(pairs=[[0, 1], [1, 0], [1, 2]], pair_labels=[1, -1, 1])
        >>> answers.counts().contradictions
        1
        """
        from mdaml.constraints.counts import count

        return count(self)

    def comparisons(self) -> IntArray:
        """Return the near and the far pair of each triplet and quadruplet, in this order.

        A triplet ``(a, b, c)`` is the quadruplet ``(a, b, a, c)``. Pairs are left out: alone they
        compare nothing.

        Returns
        -------
        comparisons : array of shape (n_comparisons, 4)
            The first two rows are nearer than the last two.

        Examples
        --------
        >>> from mdaml.constraints import Constraints
        >>> Constraints(triplets=[[0, 1, 2]], quadruplets=[[0, 3, 1, 2]]).comparisons()
        array([[0, 1, 0, 2],
               [0, 3, 1, 2]])
        """
        return np.concatenate([self.triplets[:, [0, 1, 0, 2]], self.quadruplets])

    def select(self, which: ArrayLike) -> "Constraints":
        """Return some of the constraints, on the same points.

        Parameters
        ----------
        which : array-like
            A boolean for each constraint, or indices, in the order triplets, pairs, quadruplets.
            Each kind keeps the order of the indices; one that occurs twice is taken twice.

        Returns
        -------
        Constraints
            Possibly empty.

        Examples
        --------
        >>> from mdaml.constraints import Constraints
        >>> answers = Constraints(triplets=[[0, 1, 2], [3, 2, 0]], pairs=[[0, 3]], pair_labels=[-1])
        >>> answers.select([2, 0])
        Constraints(1 triplet, 1 pair, n_points=4)
        """
        kept = checks.check_selection("which", which, self.n_constraints, distinct=False)
        ends = np.cumsum([len(part) for part in self._members()])
        kind = np.searchsorted(ends, kept, side="right")
        first, second, third = (kept[kind == k] - ([0, *ends][k]) for k in range(3))
        ordered = kept[np.argsort(kind, kind="stable")]
        parts = {
            "triplets": self.triplets[first],
            "pairs": self.pairs[second],
            "pair_labels": self.pair_labels[second],
            "quadruplets": self.quadruplets[third],
            "weights": self.weights[ordered],
            "columns": {name: column[ordered] for name, column in self.columns.items()},
        }
        return self._replaced(**parts)

    def restrict(self, points: ArrayLike) -> "Constraints":
        """Return the constraints among some points, renumbered to the rows of ``X[points]``.

        Parameters
        ----------
        points : array-like
            A boolean for each point, or row numbers, which may be in any order.

        Returns
        -------
        Constraints
            Those that name no other point; possibly none.

        Examples
        --------
        >>> from mdaml.constraints import Constraints
        >>> answers = Constraints(triplets=[[0, 1, 2], [3, 2, 0]], ids=["p", "q", "r", "s"])
        >>> few = answers.restrict([3, 2, 0])
        >>> few.triplets, few.ids
        (array([[0, 1, 2]]), array(['s', 'r', 'p'], dtype='<U1'))
        """
        rows = checks.check_selection("points", points, self.n_points, distinct=True)
        place = np.full(self.n_points, -1)
        place[rows] = np.arange(len(rows))
        inside = [np.all(place[part] >= 0, axis=1) for part in self._members()]
        kept = self.select(np.concatenate(inside))
        parts = {name: place[getattr(kept, name)] for name in ("triplets", "pairs", "quadruplets")}
        ids = None if self.ids is None else self.ids[rows]
        return kept._replaced(**parts, n_points=len(rows), ids=ids)

    concat = classmethod(joining.concat)
    from_labels = classmethod(generators.from_labels)
    from_neighbors = classmethod(generators.from_neighbors)
    from_chunks = classmethod(generators.from_chunks)
    from_oracle = classmethod(generators.from_oracle)
    from_odd_one_out = classmethod(odd_one_out.from_odd_one_out)
    from_picks = classmethod(picks.from_picks)
    from_rankings = classmethod(rankings.from_rankings)
    from_votes = classmethod(votes.from_votes)
    from_grades = classmethod(grades.from_grades)
    from_positives = classmethod(positives.from_positives)
    with_noise = generators.with_noise
    read = classmethod(reading.read)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file in the format of its suffix: .csv, .parquet or .npz.

        CSV and Parquet hold one line for each constraint, with the ids of its points where there
        are ids and row numbers otherwise; NPZ holds the arrays. The file appears whole or not at
        all.

        Parameters
        ----------
        path : str or path
            A file that exists is replaced.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from mdaml.constraints import Constraints
        >>> answers = Constraints(triplets=[[0, 1, 2], [2, 1, 0]], ids=["cat", "lion", "car"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "answers.csv"
        ...     answers.write(path)
        ...     print(path.read_text(), Constraints.read(path, ids=answers.ids) == answers)
        a,b,c
        cat,lion,car
        car,lion,cat
         True
        """
        from mdaml.constraints.files import write

        if self.n_constraints == 0:
            raise ValueError(f"There is nothing to write to {path}: {self!r}.")
        write(self, path)


def _restore(parts: Params) -> Constraints:
    """Return the value of parts that were checked before, in arrays that cannot be written to."""
    made = Constraints.__new__(Constraints)
    views = {name: part.view() for name, part in parts.items() if isinstance(part, np.ndarray)}
    columns = {name: part.view() for name, part in parts.get("columns", {}).items()}
    for view in (*views.values(), *columns.values()):
        view.setflags(write=False)
    made._set(views, parts["n_points"], views.get("ids"), columns)
    return made

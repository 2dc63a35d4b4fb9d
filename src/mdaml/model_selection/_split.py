"""What to hold out: comparisons, or points with all the comparisons among them."""

from collections.abc import Iterator

import numpy as np

from mdaml._typing import ArrayLike, BoolArray, IntArray
from mdaml._validation import check_integer, check_random_state
from mdaml.constraints import Constraints
from mdaml.constraints.matching import kinds_of
from mdaml.holdout.split import Split, deal, find_questions


class ConstraintKFold:
    """Hold out comparisons; every point stays on both sides.

    Comparisons are dealt to `n_splits` folds, each of which is held out once. Comparisons of the
    same points count as one and stay on one side: held out, they would otherwise be known already.
    These are a comparison given twice or with the opposite answer, and the two triplets of an
    odd-one-out answer. So do all comparisons that come from one answer, such as a ranking (column
    ``answer_number``). Every fold gets its share of triplets, similar pairs, dissimilar pairs and
    quadruplets.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Deal in random order; otherwise in the order in which the comparisons are given.
    random_state : int, Generator, RandomState or None, default=None
        Same integer, same folds.

    See Also
    --------
    PointKFold : Tests the metric on points it has never seen.

    Examples
    --------
    >>> from mdaml.constraints import Constraints
    >>> from mdaml.model_selection import ConstraintKFold
    >>> answers = Constraints(triplets=[[0, 1, 2], [0, 2, 1], [3, 1, 2], [2, 0, 3]])
    >>> for split in ConstraintKFold(3, shuffle=False).split(answers):
    ...     print(split.train.n_constraints, split.test.triplets.tolist())
    2 [[0, 1, 2], [0, 2, 1]]
    3 [[3, 1, 2]]
    3 [[2, 0, 3]]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self,
        constraints: Constraints,
        y: object = None,  # noqa: ARG002
        groups: IntArray | None = None,
    ) -> Iterator[Split]:
        """Yield one :class:`Split` for each fold.

        Parameters
        ----------
        constraints : Constraints
            What is to be split.
        y : object
            Ignored; there so that both splitters are called alike.
        groups : array of shape (n_points,), optional
            The same number for points that are the same: questions about them are, too.

        Yields
        ------
        split : Split
            What to learn from, and what to score by.

        Examples
        --------
        >>> from mdaml.constraints import Constraints
        >>> from mdaml.model_selection import ConstraintKFold
        >>> answers = Constraints(triplets=[[0, 1, 2], [3, 1, 2], [2, 0, 3], [1, 3, 0]])
        >>> [split.test.n_constraints for split in ConstraintKFold(2).split(answers)]
        [2, 2]
        """
        if constraints is None:
            raise TypeError(
                "ConstraintKFold holds out comparisons, but got labels alone: use PointKFold."
            )
        check_constraints(constraints)
        check_integer(self, "n_splits", self.n_splits, 2)
        # Numbered by first appearance, the order in which they are dealt without shuffling.
        group, kind = find_questions(constraints, groups), kinds_of(constraints)
        size, first = np.bincount(group), np.unique(group, return_index=True)[1]
        if len(size) < self.n_splits:
            raise ValueError(
                f"ConstraintKFold(n_splits={self.n_splits}) needs at least as many different "
                f"comparisons, got {len(size)}. Lower n_splits."
            )
        rank = _ranks(self, len(size))
        # The large ones first: what is left then evens out the folds.
        fold = deal(self.n_splits, rank, -size, kind[first])[group]
        points = np.arange(constraints.n_points)
        return (
            Split(points, points, constraints.select(fold != n), constraints.select(fold == n))
            for n in range(self.n_splits)
        )


class PointKFold:
    """Hold out points, so that a metric is tested on points that its fit has not seen.

    Points are dealt to `n_splits` folds, each of which is held out once. Comparisons among the
    points held out are the test, comparisons among the others are learned from, and those that
    involve both are dropped. In each of k splits ``(1 - 1/k)^3`` of the triplets of random points
    are learned from and ``1/k^3`` tested: 51 % and 0.8 % for 5 folds, 30 % and 3.7 % for 3. Use few
    folds if there are few comparisons.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Deal in random order; otherwise in the order of the rows.
    random_state : int, Generator, RandomState or None, default=None
        Same integer, same folds.

    See Also
    --------
    ConstraintKFold : Holds out comparisons of points that are all known.

    Examples
    --------
    >>> from mdaml.constraints import Constraints
    >>> from mdaml.model_selection import PointKFold
    >>> answers = Constraints(pairs=[[0, 2], [1, 3], [2, 4], [0, 1]], pair_labels=[1, 1, -1, -1])
    >>> for split in PointKFold(2, shuffle=False).split(answers):
    ...     print(split.test_points, split.test.pairs.tolist(), split.n_dropped)
    [0 2 4] [[0, 1], [1, 2]] 1
    [1 3] [[0, 1]] 1
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self,
        constraints: Constraints | None = None,
        y: ArrayLike | None = None,
        groups: IntArray | None = None,
    ) -> Iterator[Split]:
        """Yield one :class:`Split` for each fold.

        Parameters
        ----------
        constraints : Constraints, optional
            What is to be split. At least one of `constraints` and `y` is needed.
        y : array-like of shape (n_points,), optional
            Labels; every fold gets its share of each. Unlabelled points, ``-1``, are dealt too.
        groups : array of shape (n_points,), optional
            Points with the same number are held out together.

        Yields
        ------
        split : Split
            Refused with advice if a side has no comparison at all.

        Examples
        --------
        >>> from mdaml.model_selection import PointKFold
        >>> labels = ["a", "b", "a", "b"]
        >>> [split.test_points for split in PointKFold(2, shuffle=False).split(y=labels)]
        [array([0, 1]), array([2, 3])]
        """
        if constraints is not None:
            check_constraints(constraints)
        elif y is None:
            raise TypeError("PointKFold.split needs constraints, y, or both; got neither.")
        check_integer(self, "n_splits", self.n_splits, 2)
        strata = _strata(constraints, y)
        points = np.arange(len(strata)) if groups is None else groups
        _, first, group = np.unique(points, return_index=True, return_inverse=True)
        if len(first) < self.n_splits:
            alike = "" if len(first) == len(strata) else f", {len(first)} of them different"
            raise ValueError(
                f"PointKFold(n_splits={self.n_splits}) needs at least as many points, got "
                f"n_samples={len(strata)}{alike}. Lower n_splits."
            )
        fold = deal(self.n_splits, _ranks(self, len(first)), strata[first])[group]
        return (self._hold_out(fold == n, constraints) for n in range(self.n_splits))

    def _hold_out(self, held_out: BoolArray, constraints: Constraints | None) -> Split:
        train_points, test_points = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        if constraints is None:
            return Split(train_points, test_points)
        train, test = constraints.restrict(train_points), constraints.restrict(test_points)
        n_dropped = constraints.n_constraints - train.n_constraints - test.n_constraints
        for side, points, what in ((train, train_points, "learn"), (test, test_points, "score")):
            if side.n_constraints == 0:
                raise ValueError(
                    f"PointKFold(n_splits={self.n_splits}): nothing to {what} from. Of "
                    f"{constraints.n_constraints} comparisons none lies within the {len(points)} "
                    f"points of this side, and {n_dropped} join both sides. Lower n_splits, or "
                    "hold out comparisons by ConstraintKFold."
                )
        return Split(train_points, test_points, train, test, n_dropped)


def check_constraints(constraints: object) -> None:
    """Refuse anything but constraints."""
    if not isinstance(constraints, Constraints):
        raise TypeError(
            f"constraints must be mdaml.Constraints, got {type(constraints).__name__}. Make them "
            "of arrays: Constraints(triplets=..., n_points=len(X))."
        )


def _strata(constraints: Constraints | None, y: ArrayLike | None) -> IntArray:
    """Return a number for each point, the same for those of one label."""
    if y is None:
        assert constraints is not None
        return np.zeros(constraints.n_points, np.int64)
    labels = np.asarray(y)
    if labels.ndim != 1 or (constraints is not None and len(labels) != constraints.n_points):
        wanted = "" if constraints is None else f" of the {constraints.n_points}"
        raise ValueError(f"y must hold one label for each{wanted} points, got {labels.shape}.")
    return np.unique(labels, return_inverse=True)[1]


def _ranks(splitter: ConstraintKFold | PointKFold, n: int) -> IntArray:
    if splitter.shuffle:
        return check_random_state(splitter.random_state).permutation(n)
    if splitter.random_state is not None:
        raise ValueError(
            f"{type(splitter).__name__}(random_state=...) has no effect with shuffle=False: leave "
            "it out, or shuffle."
        )
    return np.arange(n)

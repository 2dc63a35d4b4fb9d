"""What belongs together when something is held out, and how it is dealt to parts."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mdaml._typing import BoolArray, IntArray
from mdaml.constraints.forms.answers import ANSWER
from mdaml.constraints.value import Constraints
from mdaml.holdout.units import COPY, same_rows
from mdaml.solver.store import Store

_FEWEST_POINTS = 8  # a test of fewer units says nothing
# Up to so many comparisons, or points held out at a time, every point is held out once; beyond both
# those of one part.
_FEW_COMPARISONS, _ENOUGH_UNITS = 2_000, 100


@dataclass(frozen=True, eq=False)
class Split:
    """What to learn from, and what to score by.

    Parameters
    ----------
    train_points, test_points : array of shape (n,)
        Rows of X. The same where only comparisons are held out.
    train, test : Constraints or None
        Comparisons of ``X[train_points]`` and of ``X[test_points]``, numbered by their rows; None
        where labels alone are split.
    n_dropped : int, default=0
        Comparisons in neither, because they join points of both sides.
    units : array of shape (n_test,), optional
        Which held-out comparisons or samples belong together, numbered over all splits.
    is_out : array of shape (n_constraints,), optional
        Which of all comparisons, before they were split, are held out.

    Examples
    --------
    >>> from sklearn.model_selection import GroupKFold
    >>> from mdaml.model_selection import Split
    >>> X, y, patients = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], [1, 1, 2, 2]
    >>> folds = [Split(*rows) for rows in GroupKFold(2).split(X, y, patients)]  # pass it as cv=
    >>> folds[0].test_points
    array([2, 3])
    """

    train_points: IntArray
    test_points: IntArray
    train: Constraints | None = None
    test: Constraints | None = None
    n_dropped: int = 0
    units: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    is_out: BoolArray = field(default_factory=lambda: np.empty(0, bool))

    @property
    def learned(self) -> Constraints:
        """The constraints to learn from."""
        return self._need(self.train)

    @property
    def held_out(self) -> Constraints:
        """The constraints to score by."""
        return self._need(self.test)

    def _need(self, side: Constraints | None) -> Constraints:
        if side is None:
            raise ValueError("A Split of comparisons must have train and test, got None.")
        return side


def exchange_near_and_far(split: Split) -> Split:
    """Return a split with near and far exchanged, of triplets and quadruplets."""
    train, test = (
        supervision._replaced(
            triplets=supervision.triplets[:, [0, 2, 1]],
            quadruplets=supervision.quadruplets[:, [2, 3, 0, 1]],
        )
        for supervision in (split.learned, split.held_out)
    )
    return replace(split, train=train, test=test)


def deal(n_parts: int, rank: IntArray, *strata: IntArray) -> IntArray:
    """Return the part of each unit: dealt in turn by rank, within strata one after the other.

    The last of several strata comes first. So every part has its share of each of them.
    """
    order = np.lexsort((rank, *strata))
    part: IntArray = np.empty(len(order), np.int64)
    part[order] = np.arange(len(order)) % n_parts
    return part


def find_questions(supervision: Constraints, points: IntArray | None = None) -> IntArray:
    """Return a number for each constraint, the same for those that belong together.

    Together are constraints about the same set of points, whatever the answer and the order: a
    repeated question, a contradiction, the two triplets of one odd-one-out answer. So are all that
    come from one answer (column ``answer_number``), such as those of a ranking. Numbers are in the
    order of first appearance. ``points`` has the same number for rows that are the same.
    """
    group = _group_questions(supervision, points)
    first = np.unique(group, return_index=True)[1]
    return np.argsort(np.argsort(first))[group]


def _group_questions(supervision: Constraints, points: IntArray | None) -> IntArray:
    """Return the same numbers in an order that does not depend on that of the constraints."""
    members = _members(supervision)  # (n, 4)
    if points is not None:
        members = points[members]
    # The set of members as one number: rows sorted, members that come again replaced by the first.
    members = np.sort(members, axis=1)
    again = members[:, 1:] == members[:, :-1]
    members[:, 1:][again] = -1
    group = _number_rows(np.sort(members, axis=1))
    if ANSWER in supervision.columns:
        group = _join_answers(group, supervision.columns[ANSWER])
    return np.unique(group, return_inverse=True)[1]


def hold_out_points(
    supervision: Constraints,
    n_parts: int,
    rng: np.random.RandomState,
    points: IntArray | None = None,
) -> list[Split]:
    """Deal points to parts, each held out with the constraints that it is the reference of.

    The reference of a constraint is its first point; that of a question, or of an answer, is the
    one of some of its constraints, in whatever order these are given. Units are the points or, if
    these are few, the questions. A part with nothing to learn from, or nothing to score by, is left
    out.
    """
    points = np.arange(supervision.n_points) if points is None else points
    questions = _group_questions(supervision, points)
    reference = _find_references(points[_members(supervision)[:, 0]], questions)
    units = questions
    if len(np.unique(reference)) >= _FEWEST_POINTS:
        units = reference
    units = np.unique(units, return_inverse=True)[1]
    part_of = deal(n_parts, rng.permutation(int(units.max()) + 1))[units]
    rows, made = np.arange(supervision.n_points), []
    for number in range(n_parts):
        out = part_of == number
        if out.any() and not out.all():
            sides = supervision.select(~out), supervision.select(out)
            if all(map(compares, sides)):
                made.append(Split(rows, rows, *sides, units=units[out], is_out=out))
    return made


def _find_references(first: IntArray, questions: IntArray) -> IntArray:
    """Return one of the first points of all constraints of a question; over questions in turn."""
    n = int(first.max()) + 1
    asked, point = np.divmod(np.unique(questions * n + first), n)
    counts = np.bincount(asked)
    places = np.cumsum(counts) - counts + np.arange(len(counts)) % counts
    references: IntArray = point[places][questions]
    return references


def compares(supervision: Constraints) -> bool:
    """Return whether constraints say what is near and what is far."""
    kinds = np.unique(supervision.pair_labels)
    direct = len(supervision.triplets) + len(supervision.quadruplets)
    return (direct > 0 and len(kinds) != 1) or len(kinds) == 2


def tells_enough(supervision: Constraints, parts: Sequence[Split]) -> bool:
    """Return whether some of the parts tell as well as all of them."""
    n_units = sum(len(np.unique(part.units)) for part in parts)
    return supervision.n_constraints > _FEW_COMPARISONS and n_units >= _ENOUGH_UNITS


def _members(supervision: Constraints) -> IntArray:
    """Return the points of each constraint, (n, 4); those of pairs and triplets come again."""
    return np.concatenate(
        [
            supervision.triplets[:, [0, 1, 0, 2]],
            supervision.pairs[:, [0, 1, 0, 1]],
            supervision.quadruplets,
        ]
    )


def _number_rows(rows: IntArray) -> IntArray:
    """Return a number for each row, the same for equal rows."""
    order = np.lexsort(rows.T)
    is_new = np.append(True, np.any(np.diff(rows[order], axis=0) != 0, axis=1))
    numbers: IntArray = np.empty(len(rows), np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    return numbers


def _join_answers(group: IntArray, answers: npt.NDArray[Any]) -> IntArray:
    """Return groups such that constraints from one answer are together.

    Equal questions of different answers stay together too, unless that joins nearly all.
    """
    texts = answers.astype(str) if answers.dtype == object else answers
    answer = np.unique(texts, return_inverse=True)[1]
    n_groups, n_answers = int(group.max()) + 1, int(answer.max()) + 1
    links = coo_array(
        (np.ones(len(group), bool), (group, n_groups + answer)), shape=(n_groups + n_answers,) * 2
    )
    joined = connected_components(links, directed=False)[1][group]
    return joined if np.bincount(joined).max() <= len(group) / 2 else answer


def same_points(store: Store) -> IntArray:
    """Return a number for each sample of a store, the same for rows that are the same.

    Told by two random projections: rows that agree in both, nearly, are equal.
    """
    rng = np.random.RandomState(0)
    return same_rows(store.fetch_mapped(rng.normal(size=(store.shape[1], 2))), COPY)

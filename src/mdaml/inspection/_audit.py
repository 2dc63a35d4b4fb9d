"""What became of each comparison."""

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from mdaml._typing import ArrayLike, BoolArray, FloatArray, IntArray
from mdaml.constraints import Constraints
from mdaml.constraints.arguments import constraints_of
from mdaml.constraints.names import Names, check_ids, get_index
from mdaml.constraints.persons import Persons, column_of
from mdaml.inspection._answers import KINDS, Columns, columns_of, compared_sq_dists, pair_numbers
from mdaml.inspection._persons import person_columns
from mdaml.inspection.models import (
    mapped_samples,
    metric_and_samples,
    mode_weights,
    require_pandas,
    self_weights,
)
from mdaml.inspection.suspicion import FlipModel, relative_margins

if TYPE_CHECKING:
    from pandas import DataFrame

CATEGORIES = ("kept", "redundant", "violated", "suspected wrong", "ignored across modes")
_KEPT, _REDUNDANT, _VIOLATED, _SUSPECTED, _IGNORED = range(5)
_ACROSS_MODES = 0.1  # self-weight below which a pair does not share its modes
_SUSPICIOUS = 0.5
_BLOCK = 4096  # near pairs whose consequences are held at a time


def audit(
    model: BaseEstimator,
    X: ArrayLike,
    *,
    triplets: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
    pair_labels: ArrayLike | None = None,
    quadruplets: ArrayLike | None = None,
    constraints: Constraints | None = None,
    ids: ArrayLike | None = None,
    training_rows: bool | None = None,
    who: ArrayLike | None = None,
    seconds: ArrayLike | None = None,
    left: ArrayLike | None = None,
) -> "DataFrame":
    r"""Report how well each comparison, or each person, agrees with a fitted metric.

    Parameters
    ----------
    model : fitted estimator
        A metric of this library, a pipeline that ends in one, or a search over them.
    X : array-like of shape (n_samples, n_features)
        The points that the comparisons index; those of ``fit`` or others.
    triplets : array-like of shape (n_triplets, 3), optional
        Row numbers ``(a, b, c)``: the answer says that a is closer to b than to c.
    pairs : array-like of shape (n_pairs, 2), optional
        Row numbers, with ``pair_labels``: 1 for similar, -1 for dissimilar. A similar pair should
        be nearer, a dissimilar one farther than the threshold that best separates the pairs.
    pair_labels : array-like of shape (n_pairs,), optional
        Belongs to ``pairs``.
    quadruplets : array-like of shape (n_quadruplets, 4), optional
        Row numbers ``(a, b, c, d)``: it says that a is closer to b than c to d.
    constraints : Constraints, optional
        Instead of the arrays.
    ids : sequence of str, optional
        Names of the rows of X, which comparisons may use. None: the index of X, if it is a data
        frame with texts in its index, or the ids of the constraints.
    training_rows : bool or None, default=None
        Whether X has the rows of ``fit``, whose weights in the modes were learned. None: yes if
        there are equally many. Pass False for other points of the same number.
    who : array-like of shape (n_comparisons,) or str, optional
        A string or integer for each comparison, the person who made it; or the name of a column of
        ``constraints``. Then the table has one row for each person.
    seconds, left : array-like of shape (n_comparisons,) or str, optional
        With ``who``: how long each answer took, and whether the chosen item was shown on the left;
        or names of columns.

    Returns
    -------
    frame : pandas.DataFrame
        With ``who``, one row per person:

        ``who``, ``answers``
            The person, and the number of answers. An answer that was turned into several
            comparisons (column ``answer_number``) is one.
        ``kind``, ``kind_probability``
            The kind of people they agree with, and how sure that is; only if there are several
            kinds, see *Persons* below.
        ``agreement``
            Share of the answers that hold under the learned distance, or that of the kind.
        ``with_others``
            Share of them that agree with most others who were asked the same; missing if nobody
            else was asked.
        ``error``, ``error_low``, ``error_high``
            Estimated share of wrong answers, and an interval of 95 %.
        ``seconds``, ``left``
            Median time of an answer, and share of answers on the left, where these are known.
        ``remark``
            What was seen, with its evidence: *agrees with kind 1, 10 persons*; *guesses on 60 % of
            the questions*, *answers at random*, *has a view of their own*, *agrees with no kind:
            too few answers to say why*, *answers the wrong way round*, *always answers left* or
            *right*.

        Otherwise one row per comparison, in the order triplets, pairs, quadruplets:

        ``kind``
            triplet, similar pair, dissimilar pair or quadruplet.
        ``a``, ``b``, ``c``, ``d``
            The members, by name if there are names; only columns that some comparison needs.
        ``satisfied``
            Whether it holds under the learned distance; a tie does not.
        ``slack``
            ``d2(far) - d2(near)`` over the mean of ``d2`` over all pairs of rows of X: 1 is as much
            as two points typically differ. Negative if it is violated.
        ``self_weight``
            How much the near pair shares its modes, from 0 to 1:
            :math:`\sum_k (w_{ik} w_{jk})^\eta` over
            :math:`\sqrt{\sum_k w_{ik}^{2\eta} \sum_k w_{jk}^{2\eta}}`. 1 for metrics without modes.
        ``mode_a``, ``mode_b``, ...
            The mode in which each member has the most weight; missing for metrics without modes.
            Points not in the training have the weights of Eq. (14) without its pair terms.
        ``suspicion``
            Probability that the answer is wrong, see below.
        ``category``
            Of those satisfied, *redundant* or *kept*; of the others, *ignored across modes*,
            *suspected wrong* or *violated*: the first that applies.

    See Also
    --------
    audit_labels : The same for labels.
    suggest_queries : What to ask next.
    mdaml.plot.plot_audit : Draws the result.

    Notes
    -----
    **Suspicion.** Let ``m = (d2(far) - d2(near)) / (d2(far) + d2(near))``. The model assumes that
    the learned distance is right with probability ``p = sigmoid(m / s)``, and that a share ``e``
    of the answers is reversed, for every question. Both numbers are estimated from all
    comparisons (pairs separately) by maximum likelihood, with priors worth twenty
    comparisons. Then ``suspicion = e (1-p) / (e (1-p) + (1-e) p)``. A near tie has the suspicion
    ``e``, a clear violation one near 1. It depends on the distances only, and is as good as they
    are: a model that has overfitted the wrong answers suspects none of them.

    **Persons** are judged by that kind of the others which explains their answers best. Kinds are
    found as by :class:`mdaml.people.PersonalMetrics`, near the given metric. To judge a person,
    they are learned without a third of the persons, which includes this one. A person counts as
    guessing if this explains the answers 200 times better than the error rate that four in five
    persons stay below. It must also be ten times better than looking at something else, which is
    learned from other answers of the person, or from those of another: two or three who answer
    alike are not found as a kind. If neither is clear, they *agree with no kind*, and no more is
    said.

    **Categories.**

    - *redundant*: an earlier row says the same, or it follows from two satisfied rows, near < p and
      p < far for one pair p. Pairs are redundant only if repeated.
    - *ignored across modes*: violated, with a self-weight below 0.1. The model ignored
      it on purpose; its suspicion may be high or low.
    - *suspected wrong*: violated, with a suspicion of at least one half.
    - *violated*: by too little to suspect the answer.

    Scaling the metric changes nothing.

    Examples
    --------
    One answer in ten is wrong; most of those are found.

    >>> import numpy as np
    >>> from mdaml import MDaML
    >>> from mdaml.datasets import make_triplets
    >>> from mdaml import audit
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> T, is_wrong = make_triplets(
    ...     X, n_triplets=1000, components=np.eye(4)[:2], wrong=0.1, random_state=0
    ... )
    >>> model = MDaML().fit(X, triplets=T)
    >>> frame = audit(model, X, triplets=T)
    >>> suspected = frame["category"] == "suspected wrong"
    >>> bool(is_wrong[suspected].mean() > 0.9)
    True
    >>> bool(abs(frame["suspicion"].mean() - 0.1) < 0.02)
    True
    """
    pandas = require_pandas("audit")
    names = get_index(X) if ids is None else check_ids(ids)
    metric, X = metric_and_samples("audit", model, X)
    Y = mapped_samples(metric, X)
    supervision = constraints_of(
        len(Y),
        constraints,
        triplets=triplets,
        pairs=pairs,
        pair_labels=pair_labels,
        quadruplets=quadruplets,
        names=names,
    )
    names = supervision.ids if names is None else names
    given = columns_of(supervision)
    weights = mode_weights("audit", metric, Y, training_rows)
    near, far = compared_sq_dists(Y, given)
    satisfied = near < far
    if who is not None:
        named = {"seconds": seconds, "left": left}
        more = {name: column_of(supervision, values) for name, values in named.items()}
        persons = Persons.from_who(column_of(supervision, who), supervision.n_constraints)
        margins = relative_margins(near, far)
        # Of a pair everybody has a threshold of their own.
        judged = None if len(supervision.pairs) else (metric, X)
        return pandas.DataFrame(person_columns(given, supervision, margins, persons, judged, more))
    if seconds is not None or left is not None:
        raise ValueError("seconds= and left= describe persons: pass who= too.")
    typical = 2 * Y.var(axis=0, ddof=1).sum() if len(Y) > 1 else 1.0
    shared = self_weights(metric, weights, given.near)
    suspicion = _suspicion(given, relative_margins(near, far))
    codes = _categories(given, satisfied, shared, suspicion)
    columns = {"kind": pandas.Categorical.from_codes(given.kind, KINDS)}
    columns |= _name_members(
        _by_member(pandas, given.members, "{}", given.members), names, given.members
    )
    columns |= {"satisfied": satisfied, "slack": (far - near) / (typical or 1.0)}
    columns |= {"self_weight": shared}
    modes = np.full(len(Y), -1) if weights is None else weights.argmax(axis=1)
    columns |= _by_member(pandas, given.members, "mode_{}", modes[given.members])
    columns |= {"suspicion": suspicion}
    columns |= {"category": pandas.Categorical.from_codes(codes, CATEGORIES)}
    return pandas.DataFrame(columns)


def _suspicion(given: Columns, margins: FloatArray) -> FloatArray:
    """Return the suspicion of each answer, by the share of wrong ones among pairs or the rest."""
    out = np.empty(len(margins))
    is_pair = (given.kind == 1) | (given.kind == 2)
    for rows in (is_pair, ~is_pair):
        if rows.any():
            out[rows] = FlipModel.from_margins(margins[rows]).suspicion(margins[rows])
    return out


def _categories(
    given: Columns, satisfied: BoolArray, self_weight: FloatArray, suspicion: FloatArray
) -> IntArray:
    near, far = pair_numbers(given)
    redundant = np.zeros(len(near), bool)
    again = repeated(np.column_stack([near, far, given.kind * (given.far[:, 0] < 0)]))
    compared = np.flatnonzero(satisfied & ~again & (given.far[:, 0] >= 0))
    redundant[again] = True
    redundant[compared] = implied(near[compared], far[compared])
    return np.select(
        [satisfied & redundant, satisfied, self_weight < _ACROSS_MODES, suspicion >= _SUSPICIOUS],
        [_REDUNDANT, _KEPT, _IGNORED, _SUSPECTED],
        _VIOLATED,
    )


def _name_members(
    columns: dict[str, ArrayLike], names: Names, members: IntArray
) -> dict[str, ArrayLike]:
    """Return members by their names, None where a comparison has none."""
    if names is None:
        return columns
    known = np.array([*names.tolist(), None], object)  # -1 is the last one
    return {name: known[members[:, "abcd".index(name)]] for name in columns}


def _by_member(
    pandas: ModuleType, members: IntArray, name: str, values: IntArray
) -> dict[str, ArrayLike]:
    """Return one column for each member that some comparison has; missing where it has none."""
    columns = {}
    for place, letter in enumerate("abcd"):
        there = members[:, place] >= 0
        column = pandas.array(values[:, place].astype(np.int64))
        missing = ~there | (column < 0).to_numpy(dtype=bool)
        if missing.any():
            column[missing] = pandas.NA
        if there.any():
            columns[name.format(letter)] = column if missing.any() else column.to_numpy(np.int64)
    return columns


def repeated(keys: IntArray) -> BoolArray:
    """Return whether a row equals an earlier one."""
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first[inverse.ravel()] < np.arange(len(keys))


def implied(near: IntArray, far: IntArray) -> BoolArray:
    """Return whether some pair p lies between: near < p and p < far are both among the rows.

    ``near`` and ``far`` number pairs. All rows must hold under one distance: then they have no
    circles, and leaving out all that are implied loses nothing.
    """
    n_pairs = 1 + int(max(near.max(initial=0), far.max(initial=0)))
    shape = (n_pairs, n_pairs)
    steps = csr_array((np.ones(len(near), np.float32), (near, far)), shape=shape)
    out = np.zeros(len(near), bool)
    order = np.argsort(near, kind="stable")
    for begin in range(0, n_pairs, _BLOCK):
        low, high = np.searchsorted(near, [begin, begin + _BLOCK], sorter=order)
        rows = order[low:high]
        if len(rows) == 0:
            continue
        twice = (steps[begin : begin + _BLOCK] @ steps).tocsr()
        out[rows] = np.asarray(twice[near[rows] - begin, far[rows]]).ravel() > 0
    return out

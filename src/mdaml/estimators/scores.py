"""Scores of a fitted metric by comparisons and by answers of every form."""

from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml.constraints import answer_checks
from mdaml.constraints.checks import check_pairs, check_quadruplets, check_triplets
from mdaml.constraints.matching import check_both_kinds
from mdaml.constraints.names import get_index
from mdaml.kernels.pairs import pair_sq_dists


class Scores:
    """Scores of comparisons that follow from distances and a map to where they are Euclidean."""

    transform: Any
    pair_distance: Any

    def pair_score(self, A: ArrayLike, B: ArrayLike) -> FloatArray:
        """Return the similarity of each row of A and the same row of B: minus their distance.

        Parameters
        ----------
        A, B : array-like of shape (n_pairs, n_features)
            The two members of each pair.

        Returns
        -------
        scores : array of shape (n_pairs,)
            At most 0; the higher, the more alike.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> Euclidean().fit([[0.0, 1.0], [2.0, 3.0]]).pair_score([[0.0, 0.0]], [[3.0, 4.0]])
        array([-5.])
        """
        return -self.pair_distance(A, B)

    def score_triplets(self, X: ArrayLike, triplets: ArrayLike) -> float:
        """Return the fraction of comparisons that hold under the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the triplets index; they need not be those of ``fit``.
        triplets : array-like of shape (n_triplets, 3)
            Row indices: ``X[t[0]]`` should be closer to ``X[t[1]]`` than to ``X[t[2]]``.

        Returns
        -------
        score : float
            Between 0 and 1; a tie does not hold.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_triplets(X, [[0, 1, 2], [2, 3, 1]])
        0.5
        """
        Y = self.transform(X)
        triplets = check_triplets(triplets, len(Y), get_index(X))
        near, far = (pair_sq_dists(Y, triplets[:, [0, other]]) for other in (1, 2))
        return float(np.mean(near < far))

    def score_quadruplets(self, X: ArrayLike, quadruplets: ArrayLike) -> float:
        """Return the fraction of comparisons of two pairs that hold under the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the quadruplets index; they need not be those of ``fit``.
        quadruplets : array-like of shape (n_quadruplets, 4)
            Row indices: ``X[q[0]]`` and ``X[q[1]]`` should be closer than ``X[q[2]]`` and
            ``X[q[3]]``.

        Returns
        -------
        score : float
            Between 0 and 1; a tie does not hold.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_quadruplets(X, [[0, 1, 2, 3], [0, 2, 1, 2]])
        0.5
        """
        Y = self.transform(X)
        quadruplets = check_quadruplets(quadruplets, len(Y), get_index(X))
        near, far = (pair_sq_dists(Y, pairs) for pairs in np.split(quadruplets, 2, axis=1))
        return float(np.mean(near < far))

    def score_pairs(self, X: ArrayLike, pairs: ArrayLike, pair_labels: ArrayLike) -> float:
        """Return how well the learned distance tells similar from dissimilar pairs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the pairs index; they need not be those of ``fit``.
        pairs : array-like of shape (n_pairs, 2)
            Row indices.
        pair_labels : array-like of shape (n_pairs,)
            1 for similar, -1 or 0 for dissimilar pairs; both must be there.

        Returns
        -------
        score : float
            The area under the ROC curve: the share of similar and dissimilar pairs, of all that can
            be put side by side, in which the similar one is closer; ties count half.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_pairs(X, [[0, 1], [1, 2], [0, 2], [2, 3]], [1, -1, 1, -1])
        0.625
        """
        Y = self.transform(X)
        checked, similar = check_pairs(pairs, pair_labels, len(Y), get_index(X))
        name, advice = type(self).__name__, "The score compares the two."
        check_both_kinds(name, similar.sum(), (~similar).sum(), advice)
        return float(roc_auc_score(similar, -pair_sq_dists(Y, checked)))

    def score_odd_one_out(self, X: ArrayLike, items: ArrayLike, odd: ArrayLike) -> float:
        """Return the share of answers in which the odd one is the farthest from the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the items index; they need not be those of ``fit``.
        items : array-like of shape (n_answers, k)
            Rows of X, or names if X is a data frame with these in its index.
        odd : array-like of shape (n_answers,)
            The odd one of each; -1 or None for none, which does not count.

        Returns
        -------
        score : float
            Between 0 and 1; chance is 1/k. Farthest by the sum of squared distances, which for
            three items means that the other two are the nearest pair. A tie does not hold.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_odd_one_out(X, [[0, 1, 2], [1, 2, 3]], [2, 1])
        0.5
        """
        Y = self.transform(X)
        rows, out = answer_checks.check_odd_one_out(items, odd, get_index(X), len(Y))
        place = answer_checks.find_places(rows, out)
        faults = answer_checks.faults_odd_one_out(rows, place)
        answer_checks.refuse_faults("score_odd_one_out", faults, items)
        far = np.zeros(rows.shape)
        for i in range(rows.shape[1]):
            for j in range(rows.shape[1]):
                far[:, i] += pair_sq_dists(Y, rows[:, [i, j]])
        own = np.take_along_axis(far, np.maximum(place, 0)[:, None], axis=1)
        right = np.sum(far >= own, axis=1) == 1
        return _mean_of("score_odd_one_out", right[place >= 0])

    def score_picks(
        self, X: ArrayLike, anchors: ArrayLike, shown: ArrayLike, picked: ArrayLike
    ) -> float:
        """Return the share of the picks that are among the nearest, as many as were picked.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the items index; they need not be those of ``fit``.
        anchors, shown, picked : array-like
            As for :meth:`mdaml.Constraints.from_picks`. Answers with none or all picked do not
            count.

        Returns
        -------
        score : float
            The mean over the answers, between 0 and 1.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_picks(X, [0], [[1, 2, 3]], [[1, 3]])
        0.5
        """
        Y = self.transform(X)
        anchor, rows, chosen, strangers = answer_checks.check_picks(
            anchors, shown, picked, get_index(X), len(Y)
        )
        faults = answer_checks.faults_picks(anchor, rows, strangers)
        answer_checks.refuse_faults("score_picks", faults, shown)
        sq_dists = np.where(rows >= 0, _to_anchor(Y, anchor, rows), np.inf)
        k = chosen.sum(axis=1)
        counts = (k > 0) & (k < np.sum(rows >= 0, axis=1))
        rank = np.argsort(np.argsort(sq_dists, axis=1, kind="stable"), axis=1)
        found = np.sum(chosen & (rank < k[:, None]), axis=1)
        return _mean_of("score_picks", found[counts] / k[counts])

    def score_rankings(self, X: ArrayLike, anchors: ArrayLike, rankings: ArrayLike) -> float:
        """Return the share of the couples of each ranking that are in the right order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the items index; they need not be those of ``fit``.
        anchors, rankings : array-like
            As for :meth:`mdaml.Constraints.from_rankings`.

        Returns
        -------
        score : float
            The mean over the rankings, between 0 and 1; chance is 0.5, and a tie does not hold.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> round(Euclidean().fit(X).score_rankings(X, [0], [[1, 3, 2]]), 3)
        0.667
        """
        Y = self.transform(X)
        anchor, rows = answer_checks.check_rankings(anchors, rankings, get_index(X), len(Y))
        faults = answer_checks.faults_rankings(anchor, rows)
        answer_checks.refuse_faults("score_rankings", faults, rankings)
        sq_dists = _to_anchor(Y, anchor, rows)
        right, total = np.zeros(len(rows)), np.zeros(len(rows))
        for i in range(rows.shape[1]):
            there = rows[:, i + 1 :] >= 0
            right += np.sum((sq_dists[:, i : i + 1] < sq_dists[:, i + 1 :]) & there, axis=1)
            total += there.sum(axis=1)
        return float(np.mean(right / total))

    def score_votes(self, X: ArrayLike, questions: ArrayLike, votes: ArrayLike) -> float:
        """Return the share of votes for the point that is nearer under the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the questions index; they need not be those of ``fit``.
        questions, votes : array-like
            As for :meth:`mdaml.Constraints.from_votes`. Votes for neither do not count.

        Returns
        -------
        score : float
            Between 0 and 1. No metric can reach more than the share of votes for the majority.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_votes(X, [[0, 1, 2], [0, 3, 1]], [[3, 1], [1, 3]])
        0.75
        """
        Y = self.transform(X)
        rows, counted = answer_checks.check_votes(questions, votes, get_index(X), len(Y))
        faults = answer_checks.faults_votes(rows, counted)
        answer_checks.refuse_faults("score_votes", faults, questions)
        of_b, of_c = (pair_sq_dists(Y, rows[:, [0, other]]) for other in (1, 2))
        right = np.sum(counted[:, 0] * (of_b < of_c) + counted[:, 1] * (of_c < of_b))
        total = counted[:, :2].sum()
        if total == 0:
            raise ValueError("score_votes needs votes for b or for c; all are for neither.")
        return float(right / total)

    def score_grades(
        self, X: ArrayLike, pairs: ArrayLike, grades: ArrayLike, *, who: ArrayLike | None = None
    ) -> float:
        """Return the rank correlation of grades of similarity with nearness.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the pairs index; they need not be those of ``fit``.
        pairs, grades, who : array-like
            As for :meth:`mdaml.Constraints.from_grades`.

        Returns
        -------
        score : float
            Spearman's correlation, between -1 and 1; with `who`, its mean over the persons, each
            counted by the number of grades. Persons who gave only one grade do not count.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> round(float(Euclidean().fit(X).score_grades(X, [[0, 1], [0, 2], [0, 3]], [7, 4, 2])), 3)
        1.0
        """
        Y = self.transform(X)
        rows, graded = answer_checks.check_grades(pairs, grades, get_index(X), len(Y))
        answer_checks.refuse_faults(
            "score_grades", answer_checks.faults_grades(rows, graded), pairs
        )
        near = -pair_sq_dists(Y, rows)
        group = answer_checks.number_groups(who, len(rows))
        scores, sizes = [], []
        for own in _by_group(np.arange(len(group)), group):
            if np.ptp(graded[own]) > 0 and np.ptp(near[own]) > 0:
                scores.append(spearmanr(graded[own], near[own]).statistic)
                sizes.append(len(own))
        if not scores:
            raise ValueError("score_grades needs different grades by one person; there are none.")
        return float(np.average(scores, weights=sizes))

    def score_positives(self, X: ArrayLike, pairs: ArrayLike) -> float:
        """Return how often the second of a pair is nearer to the first than a random other point.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the pairs index; they need not be those of ``fit``.
        pairs : array-like of shape (n_answers, 2)
            As for :meth:`mdaml.Constraints.from_positives`. Points that are in a pair with the
            first one are no others.

        Returns
        -------
        score : float
            The mean over the pairs, between 0 and 1; chance is 0.5, and ties count half.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> X = [[0.0], [1.0], [3.0], [6.0]]
        >>> Euclidean().fit(X).score_positives(X, [[0, 2]])
        0.5
        """
        Y = self.transform(X)
        rows = answer_checks.check_pairs_of_points(pairs, get_index(X), len(Y))
        faults = answer_checks.faults_positives(rows)
        answer_checks.refuse_faults("score_positives", faults, pairs)
        anchors, which = np.unique(rows[:, 0], return_inverse=True)
        both = np.concatenate([rows, rows[:, ::-1]])
        both = both[np.isin(both[:, 0], anchors)]
        known = _by_group(both[:, 1], np.searchsorted(anchors, both[:, 0]))
        shares: list[float] = []
        for a, own, mine in zip(anchors, _by_group(rows[:, 1], which), known, strict=True):
            sq_dists = np.sum((Y - Y[a]) ** 2, axis=1)
            is_other = np.ones(len(Y), bool)
            is_other[mine] = is_other[a] = False
            others = np.sort(sq_dists[is_other])
            near = sq_dists[own]
            below = np.searchsorted(others, near, "left") + np.searchsorted(others, near, "right")
            if len(others):
                shares += (1 - below / (2 * len(others))).tolist()
        return _mean_of("score_positives", np.array(shares))


def _by_group(values: IntArray, group: IntArray) -> list[IntArray]:
    """Return the values of each group, numbered from 0 without gaps."""
    order = np.argsort(group, kind="stable")
    return np.split(values[order], np.cumsum(np.bincount(group))[:-1])


def _to_anchor(Y: FloatArray, anchor: IntArray, rows: IntArray) -> FloatArray:
    """Return the squared distance of each item to the anchor of its answer; of -1, any number."""
    columns = [
        pair_sq_dists(Y, np.column_stack([anchor, np.maximum(items, 0)])) for items in rows.T
    ]
    return np.column_stack(columns)


def _mean_of(name: str, right: Any) -> float:
    if len(right) == 0:
        raise ValueError(f"{name}: none of these answers says anything; all are undecided.")
    return float(np.mean(right))

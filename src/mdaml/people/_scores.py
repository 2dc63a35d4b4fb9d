"""Scores of answers of every form, each under the distance of the person who gave it."""

from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator

from mdaml._typing import Array, ArrayLike, FloatArray
from mdaml.constraints.names import get_index, to_rows
from mdaml.constraints.persons import Persons
from mdaml.estimators import Euclidean


class PersonalScores:
    """Scores with ``who=`` of a model that has ``metric_`` and ``metric_for``."""

    metric_: BaseEstimator
    metric_for: Callable[..., BaseEstimator]

    def score_triplets(
        self, X: ArrayLike, triplets: ArrayLike, *, who: ArrayLike | None = None
    ) -> float:
        """Return the share of triplets that hold, each under the distance of who gave it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the answers index.
        triplets : array-like of shape (n_triplets, 3)
            Row numbers or names, here and in the scores of other forms as for the other metrics.
        who : str, int or array-like of shape (n_triplets,), optional
            One person, or one for each answer. None is the metric of all answers.

        Returns
        -------
        score : float
            As for the other metrics.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.score_triplets(X, T, who=["bob", "ann"])
        1.0
        """
        return self._score("score_triplets", X, (triplets,), (), who)

    def score_quadruplets(
        self, X: ArrayLike, quadruplets: ArrayLike, *, who: ArrayLike | None = None
    ) -> float:
        """Return the share of quadruplets that hold; see :meth:`score_triplets`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the answers index.
        quadruplets : array-like
            The answers, as for the same score of other metrics.
        who : str, int or array-like of shape (n_answers,), optional
            One person, or one for each answer. None is the metric of all answers.

        Returns
        -------
        score : float
            As for the other metrics.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.score_quadruplets(X, [[0, 1, 0, 2]], who=["ann"])
        1.0
        """
        return self._score("score_quadruplets", X, (quadruplets,), (), who)

    def score_pairs(
        self,
        X: ArrayLike,
        pairs: ArrayLike,
        pair_labels: ArrayLike,
        *,
        who: ArrayLike | None = None,
    ) -> float:
        """Return the area under the ROC curve of pairs; see :meth:`score_triplets`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the answers index.
        pairs, pair_labels : array-like
            The answers, as for the same score of other metrics.
        who : str, int or array-like of shape (n_answers,), optional
            One person, or one for each answer. None is the metric of all answers.

        Returns
        -------
        score : float
            As for the other metrics.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.score_pairs(X, [[0, 1], [0, 2]], [1, -1], who=["ann"] * 2)
        1.0
        """
        return self._score("score_pairs", X, (pairs,), (pair_labels,), who)

    def score_odd_one_out(
        self, X: ArrayLike, items: ArrayLike, odd: ArrayLike, *, who: ArrayLike | None = None
    ) -> float:
        """Return how often the odd one is the farthest; see :meth:`score_triplets`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the answers index.
        items, odd : array-like
            The answers, as for the same score of other metrics.
        who : str, int or array-like of shape (n_answers,), optional
            One person, or one for each answer. None is the metric of all answers.

        Returns
        -------
        score : float
            As for the other metrics.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.score_odd_one_out(X, [[0, 1, 2]], [2], who=["ann"])
        1.0
        """
        return self._score("score_odd_one_out", X, (items, odd), (), who)

    def score_picks(
        self,
        X: ArrayLike,
        anchors: ArrayLike,
        shown: ArrayLike,
        picked: ArrayLike,
        *,
        who: ArrayLike | None = None,
    ) -> float:
        """Return the share of picks among the nearest; see :meth:`score_triplets`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the answers index.
        anchors, shown, picked : array-like
            The answers, as for the same score of other metrics.
        who : str, int or array-like of shape (n_answers,), optional
            One person, or one for each answer. None is the metric of all answers.

        Returns
        -------
        score : float
            As for the other metrics.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.score_picks(X, [0], [[1, 2]], [[1]], who=["ann"])
        1.0
        """
        return self._score("score_picks", X, (anchors, shown, picked), (), who)

    def score_rankings(
        self, X: ArrayLike, anchors: ArrayLike, rankings: ArrayLike, *, who: ArrayLike | None = None
    ) -> float:
        """Return the share of ranked couples in the right order; see :meth:`score_triplets`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the answers index.
        anchors, rankings : array-like
            The answers, as for the same score of other metrics.
        who : str, int or array-like of shape (n_answers,), optional
            One person, or one for each answer. None is the metric of all answers.

        Returns
        -------
        score : float
            As for the other metrics.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.score_rankings(X, [0], [[1, 2]], who=["ann"])
        1.0
        """
        return self._score("score_rankings", X, (anchors, rankings), (), who)

    def score_votes(
        self, X: ArrayLike, questions: ArrayLike, votes: ArrayLike, *, who: ArrayLike | None = None
    ) -> float:
        """Return the share of votes for the nearer point; see :meth:`score_triplets`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the answers index.
        questions, votes : array-like
            The answers, as for the same score of other metrics.
        who : str, int or array-like of shape (n_answers,), optional
            One person, or one for each answer. None is the metric of all answers.

        Returns
        -------
        score : float
            As for the other metrics.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.score_votes(X, [[0, 1, 2]], [[3, 1]], who=["ann"])
        0.75
        """
        return self._score("score_votes", X, (questions,), (votes,), who)

    def score_grades(
        self, X: ArrayLike, pairs: ArrayLike, grades: ArrayLike, *, who: ArrayLike | None = None
    ) -> float:
        """Return the rank correlation of grades with nearness; see :meth:`score_triplets`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the answers index.
        pairs, grades : array-like
            The answers, as for the same score of other metrics.
        who : str, int or array-like of shape (n_answers,), optional
            One person, or one for each answer. None is the metric of all answers.

        Returns
        -------
        score : float
            As for the other metrics.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> round(model.score_grades(X, [[0, 1], [0, 2]], [7, 2], who="ann"), 6)
        1.0
        """
        return self._score("score_grades", X, (pairs,), (grades,), who)

    def score_positives(
        self, X: ArrayLike, pairs: ArrayLike, *, who: ArrayLike | None = None
    ) -> float:
        """Return how often the second of a pair is nearer than others; see :meth:`score_triplets`.

        With several persons the mean of their scores, each counted by the number of answers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples that the answers index.
        pairs : array-like
            The answers, as for the same score of other metrics.
        who : str, int or array-like of shape (n_answers,), optional
            One person, or one for each answer. None is the metric of all answers.

        Returns
        -------
        score : float
            As for the other metrics.

        Examples
        --------
        >>> from mdaml import Euclidean
        >>> from mdaml.people import PersonalMetrics
        >>> X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
        >>> model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
        >>> model = model.fit(X, triplets=T, who=["ann", "bob"])
        >>> model.score_positives(X, [[0, 1]], who=["ann"])
        1.0
        """
        if who is None or np.ndim(who) == 0:
            return self._score("score_positives", X, (pairs,), (), who)
        given = np.asarray(pairs)
        persons = Persons.from_who(who, len(given))
        scores = [
            self.metric_for(name).score_positives(X, given[persons.codes == code])
            for code, name in enumerate(persons.names)
        ]
        return float(np.average(scores, weights=persons.sums()))

    def _score(
        self,
        name: str,
        X: ArrayLike,
        rows: tuple[ArrayLike, ...],
        others: tuple[ArrayLike, ...],
        who: ArrayLike | None,
    ) -> float:
        """Score answers; ``rows`` are the arguments that name rows of X, ``others`` do not."""
        if who is None or np.ndim(who) == 0:
            metric = self.metric_ if who is None else self.metric_for(who)
            return float(getattr(metric, name)(X, *rows, *others))
        more = {"who": who} if name == "score_grades" else {}
        Y, renumbered = self._map_each(X, rows, who)
        return float(getattr(Euclidean().fit(Y), name)(Y, *renumbered, *others, **more))

    def _map_each(
        self, X: ArrayLike, rows: tuple[ArrayLike, ...], who: ArrayLike
    ) -> tuple[FloatArray, list[Array]]:
        """Return every row that answers name, mapped by the metric of who names it, and places."""
        samples, names = self.metric_._check(X), get_index(X)
        given = [to_rows("answers", part, names, may_miss=True) for part in rows]
        persons = Persons.from_who(who, len(given[0]))
        highest = max(int(np.max(part)) for part in given)
        if highest >= len(samples):
            raise ValueError(f"Answers name row {highest}, but X has {len(samples)} rows.")
        shifts = [persons.codes.reshape(-1, *(1,) * (part.ndim - 1)) for part in given]
        keys = [
            np.where(part < 0, -1, part + len(samples) * shift)
            for part, shift in zip(given, shifts, strict=True)
        ]
        used = np.unique(np.concatenate([key.ravel() for key in keys]))
        used = used[used >= 0]
        person, row = np.divmod(used, len(samples))
        Y = np.concatenate(
            [
                self.metric_for(name)._map(samples[row[person == code]])
                for code, name in enumerate(persons.names)
            ]
        )
        places = [np.where(key < 0, -1, np.searchsorted(used, key)) for key in keys]
        return Y, places

"""Scores of a fitted metric by comparisons and by answers of every form."""

from collections.abc import Callable

from mdaml._typing import ArrayLike, FloatArray
from mdaml.constraints.forms import (
    grades,
    odd_one_out,
    pairs,
    picks,
    positives,
    quadruplets,
    rankings,
    triplets,
    votes,
)


class Scores:
    """Scores of comparisons that follow from distances and a map to where they are Euclidean."""

    transform: Callable[[ArrayLike], FloatArray]
    pair_distance: Callable[[ArrayLike, ArrayLike], FloatArray]

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

    score_triplets = triplets.score_triplets
    score_quadruplets = quadruplets.score_quadruplets
    score_pairs = pairs.score_pairs
    score_odd_one_out = odd_one_out.score_odd_one_out
    score_picks = picks.score_picks
    score_rankings = rankings.score_rankings
    score_votes = votes.score_votes
    score_grades = grades.score_grades
    score_positives = positives.score_positives

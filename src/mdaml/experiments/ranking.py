"""Comparison of several methods over several data sets, after Demšar (2006)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from mdaml._typing import FloatArray
from mdaml.experiments.results import OURS, Results


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of the methods over data sets that all of them have been run on.

    Attributes
    ----------
    datasets, methods : tuple of str
        The largest block of results without a gap.
    ranks : ndarray of shape (n_methods,)
        Mean rank of each method; 1 is best, ties share their ranks.
    critical_difference : float
        Mean ranks further apart than this differ by the test of Nemenyi at 0.05; nan if there
        are too few data sets or methods for a test.
    p_value : float
        Of the test of Friedman in the form of Iman and Davenport; nan likewise.
    """

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    ranks: FloatArray
    critical_difference: float
    p_value: float

    @property
    def order(self) -> list[int]:
        """Positions of the methods from best to worst."""
        return [int(i) for i in np.argsort(self.ranks, kind="stable")]


@dataclass(frozen=True)
class Comparison:
    """One method against MDaML, over the data sets that both have been run on.

    Attributes
    ----------
    method : str
        The other method.
    wins, ties, losses : int
        Data sets on which MDaML has the higher, the same or the lower mean accuracy.
    median_difference : float
        Of MDaML's mean accuracy over the other's, in percentage points.
    p_value, p_holm : float
        Of Wilcoxon's signed-rank test on the means, two-sided; as it is, and after Holm.
    """

    method: str
    wins: int
    ties: int
    losses: int
    median_difference: float
    p_value: float
    p_holm: float


def rank_methods(results: Results) -> Ranking:
    """Rank the methods on each data set by mean accuracy and average.

    A method that lacks results on some data sets is left out if the others then have a larger
    block without a gap, counted in cells; MDaML stays if it was run at all.
    """
    datasets, methods = _complete_block(results)
    means = results.means(datasets, methods)
    if not means.size:
        return Ranking(datasets, methods, np.empty(0), math.nan, math.nan)
    ranks = stats.rankdata(-means, axis=1).mean(axis=0)
    n_datasets, n_methods = means.shape
    testable = n_datasets > 1 and n_methods > 2
    return Ranking(
        datasets,
        methods,
        ranks,
        critical_difference(n_methods, n_datasets) if testable else math.nan,
        _friedman_p(means) if testable else math.nan,
    )


def rank_in_place(results: Results, ranking: Ranking, variant: str) -> float:
    """Mean rank of a variant of MDaML if it stood in MDaML's place; nan if it lacks a set."""
    if OURS not in ranking.methods:
        return math.nan
    methods = [variant if method == OURS else method for method in ranking.methods]
    means = results.means(ranking.datasets, methods)
    if np.isnan(means).any():
        return math.nan
    return float(stats.rankdata(-means, axis=1).mean(axis=0)[methods.index(variant)])


def critical_difference(n_methods: int, n_datasets: int, *, alpha: float = 0.05) -> float:
    """Least difference of two mean ranks that Nemenyi's test calls significant.

    ``q sqrt(k (k + 1) / (6 N))``, where q is the studentised range divided by the root of 2.

    Examples
    --------
    >>> round(critical_difference(4, 14, alpha=0.10), 2)  # the example of Demšar's Section 3.2.2
    1.12
    """
    q = stats.studentized_range.ppf(1.0 - alpha, n_methods, np.inf) / math.sqrt(2.0)
    return float(q * math.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets)))


def indistinct_groups(ranks: FloatArray, difference: float) -> list[tuple[int, int]]:
    """First and last position of each largest run of sorted ranks no further apart than that."""
    groups: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + difference, side="right")) - 1
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def compare_with_ours(results: Results) -> list[Comparison]:
    """Test every other method against MDaML.

    Wilcoxon's test is on the means of the data sets, one pair each. Trials on one data set share
    most of their training rows, so pairs of single trials are not independent, and a test on them
    would find differences that another draw of the same data sets' rows decides.
    """
    others = [method for method in results.methods if method != OURS]
    rows = []
    for method in others:
        means = results.means(results.datasets, (OURS, method))
        differences = means[~np.isnan(means).any(axis=1)] @ (1.0, -1.0)
        if len(differences):
            rows.append((method, np.round(differences, 9)))
    p_values = [_signed_rank_p(differences) for _, differences in rows]
    return [
        Comparison(
            method,
            int(np.sum(differences > 0)),
            int(np.sum(differences == 0)),
            int(np.sum(differences < 0)),
            float(np.median(differences)),
            p_value,
            p_holm,
        )
        for (method, differences), p_value, p_holm in zip(
            rows, p_values, holm(p_values), strict=True
        )
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values that hold together: the i-th smallest times the number not smaller, made to rise.

    Examples
    --------
    >>> holm([0.04, 0.01, 0.5])
    [0.08, 0.03, 0.5]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for i, k in enumerate(sorted(range(len(p_values)), key=lambda k: p_values[k])):
        largest = max(largest, min(1.0, (len(p_values) - i) * p_values[k]))
        adjusted[k] = largest
    return adjusted


def _complete_block(results: Results) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the data sets and methods of the largest block of results without a gap."""
    compared = results.compared
    have = ~np.isnan(results.means(results.datasets, compared))  # (n_datasets, n_methods)
    required = np.array([method == OURS for method in compared])
    best: tuple[tuple[int, int], tuple[str, ...], tuple[str, ...]] = (0, 0), (), ()
    for least in sorted(set(have.sum(axis=0)), reverse=True):
        kept = required | (have.sum(axis=0) >= least)
        complete = have[:, kept].all(axis=1)
        size = int(kept.sum() * complete.sum()), int(kept.sum())
        if complete.any() and size > best[0]:
            datasets = tuple(np.array(results.datasets)[complete].tolist())
            best = size, datasets, tuple(np.array(compared)[kept].tolist())
    return best[1], best[2]


def _friedman_p(means: FloatArray) -> float:
    """P-value of the test of Friedman, as an F statistic after Iman and Davenport."""
    n_datasets, n_methods = means.shape
    if (means == means[:, :1]).all():
        return 1.0
    statistic = stats.friedmanchisquare(*means.T).statistic
    room = n_datasets * (n_methods - 1) - statistic
    if room <= 1e-9:  # the same order on every data set
        return 0.0
    f = (n_datasets - 1) * statistic / room
    return float(stats.f.sf(f, n_methods - 1, (n_methods - 1) * (n_datasets - 1)))


def _signed_rank_p(differences: FloatArray) -> float:
    """P-value of Wilcoxon's test; differences of zero count half for either side."""
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="zsplit").pvalue)

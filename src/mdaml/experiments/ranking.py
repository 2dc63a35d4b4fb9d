"""Comparison of several methods over several data sets, after Demšar (2006)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from mdaml._typing import FloatArray
from mdaml.experiments.config import OURS
from mdaml.experiments.records import Record
from mdaml.experiments.results import Results

_SIGNS = {"better": 1, "equal": 0, "worse": -1}


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of the methods over data sets on which all of them were run.

    Attributes
    ----------
    datasets, methods : tuple of str
        The largest block of results without a gap.
    ranks : ndarray of shape (n_methods,)
        Mean rank of each method; 1 is best, ties share their ranks.
    critical_difference : float
        Mean ranks that differ by more are significantly different by the test of Nemenyi at 0.05;
        nan if there are too few data sets or methods for a test.
    p_value : float
        P-value of the test of Friedman in the form of Iman and Davenport; nan likewise.
    """

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    ranks: FloatArray
    critical_difference: float
    p_value: float

    @property
    def ordered(self) -> list[tuple[str, float]]:
        """Methods with their mean ranks, from best to worst."""
        order = np.argsort(self.ranks, kind="stable")
        return [(self.methods[i], round(float(self.ranks[i]), 9)) for i in order]


def rank_methods(results: Results) -> Ranking:
    """Rank the methods on each data set by mean accuracy, and average the ranks.

    A method without results on some data sets is left out if the others then have a larger block
    without a gap, counted in cells; MDaML stays if it was run at all.
    """
    block = _complete_block(results)
    n_datasets, n_methods = block.shape
    difference = p_value = math.nan
    if n_datasets > 1 and n_methods > 2:
        difference = critical_difference(n_methods, n_datasets)
        p_value = _friedman_p(block.to_numpy())
    ranks = mean_ranks(block.to_numpy()) if block.size else np.empty(0)
    return Ranking(tuple(block.index), tuple(block.columns), ranks, difference, p_value)


def mean_ranks(means: FloatArray) -> FloatArray:
    """Return the mean rank of each column; the largest mean of a row has rank 1."""
    return np.asarray(stats.rankdata(-means, axis=1).mean(axis=0))


def rank_in_place(results: Results, ranking: Ranking, variant: str) -> float:
    """Return the mean rank of a variant in the place of MDaML; nan if it lacks a data set."""
    if OURS not in ranking.methods:
        return math.nan
    methods = [variant if method == OURS else method for method in ranking.methods]
    means = results.means(ranking.datasets, methods)
    if np.isnan(means).any():
        return math.nan
    return float(mean_ranks(means)[methods.index(variant)])


def critical_difference(n_methods: int, n_datasets: int, *, alpha: float = 0.05) -> float:
    """Return the least difference of two mean ranks that is significant by Nemenyi's test.

    ``q sqrt(k (k + 1) / (6 N))``, where q is the studentised range divided by the root of 2.

    Examples
    --------
    >>> round(critical_difference(4, 14, alpha=0.10), 2)  # the example of Demšar's Section 3.2.2
    1.12
    """
    q = stats.studentized_range.ppf(1.0 - alpha, n_methods, np.inf) / math.sqrt(2.0)
    return float(q * math.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets)))


def indistinct_groups(ranks: FloatArray, difference: float) -> list[tuple[int, int]]:
    """Return first and last position of each largest run of sorted ranks within a difference."""
    groups: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + difference, side="right")) - 1
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def compare_with_ours(results: Results) -> list[Record]:
    """Test every other method against MDaML, over the data sets on which both were run.

    Wilcoxon's two-sided signed-rank test is on the means of the data sets, one pair each. Trials on
    one data set share most of their training rows, so pairs of single trials are not independent.

    Returns
    -------
    list of dict
        For each method the numbers of data sets on which MDaML is ``better``, ``equal`` and
        ``worse``; the ``median`` difference of the mean accuracies in percentage points, MDaML
        minus the other; the p-value ``p``, ``p_holm`` after Holm's correction, and the ``reading``
        of the latter at 0.05.
    """
    tests: list[Record] = []
    for method in results.methods:
        means = results.means(results.datasets, (OURS, method))
        differences = np.round(means[~np.isnan(means).any(axis=1)] @ (1.0, -1.0), 9)
        if method != OURS and len(differences):
            signs = np.sign(differences)
            counts = {name: int(np.sum(signs == sign)) for name, sign in _SIGNS.items()}
            numbers = {"median": float(np.median(differences)), "p": _signed_rank_p(differences)}
            tests.append({"method": method} | counts | numbers)
    for test, p_holm in zip(tests, holm([test["p"] for test in tests]), strict=True):
        side = "better" if test["median"] > 0 else "worse"
        reading = f"{OURS} {side}" if p_holm < 0.05 else "no difference shown"
        test |= {"p_holm": p_holm, "reading": reading}
    return tests


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, by the method of Holm.

    Examples
    --------
    >>> holm([0.04, 0.01, 0.5])
    [0.08, 0.03, 0.5]
    """
    ordered = pd.Series(p_values, dtype=float).sort_values(kind="stable")
    corrected = ordered * np.arange(len(ordered), 0, -1)
    return corrected.cummax().clip(upper=1.0).sort_index().tolist()


def _complete_block(results: Results) -> pd.DataFrame:
    """Return the mean accuracies of the largest block of results without a gap."""
    means = results.mean[list(results.compared)]
    counts = means.notna().sum()
    best = means.iloc[:0, :0]
    for least in sorted(set(counts), reverse=True):
        block = means.loc[:, (counts >= least) | (counts.index == OURS)].dropna()
        if block.size and (block.size, block.shape[1]) > (best.size, best.shape[1]):
            best = block
    return best


def _friedman_p(means: FloatArray) -> float:
    """Return the p-value of the test of Friedman, as an F statistic after Iman and Davenport."""
    n_datasets, n_methods = means.shape
    if (means == means[:, :1]).all():
        return 1.0
    statistic = stats.friedmanchisquare(*means.T).statistic
    denominator = n_datasets * (n_methods - 1) - statistic
    if denominator <= 1e-9:  # the same order on every data set
        return 0.0
    f = (n_datasets - 1) * statistic / denominator
    return float(stats.f.sf(f, n_methods - 1, (n_methods - 1) * (n_datasets - 1)))


def _signed_rank_p(differences: FloatArray) -> float:
    """Return the p-value of Wilcoxon's test; a difference of zero counts half for either side."""
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="zsplit").pvalue)

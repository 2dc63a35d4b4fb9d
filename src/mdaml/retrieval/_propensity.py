"""How much less often a document is looked at the further down it is shown."""

from dataclasses import dataclass

import numpy as np

from mdaml._typing import ArrayLike, FloatArray, IntArray
from mdaml.retrieval._clicks import ClickLog

_MOST_ROWS = 100_000  # of a log, by which the bias is estimated
_LAST = 50  # positions behind it share a propensity
_PRIOR_CLICKS = 50.0  # that the estimate from scores is worth beside one from moved documents
_ROUNDS = 200


@dataclass(frozen=True)
class Propensities:
    """How often each position is looked at, relative to the first, and how that is known."""

    values: FloatArray  # (n_positions,)
    source: str


def find_propensities(log: ClickLog, scores: FloatArray, given: ArrayLike | None) -> Propensities:
    """Return propensities that were given, or estimate them from the log.

    The log of the click rate is taken as that of the propensity of the position plus a smooth
    function of the score of the document, and of its score less the mean of those shown beside it:
    documents of one score that are shown at different positions tell the bias, as in regression EM
    [1]_. Pairs of a query and a document that were shown at several positions tell it directly
    [2]_; the more of them were clicked, the more they count.

    References
    ----------
    .. [1] X. Wang, N. Golbandi, M. Bendersky, D. Metzler and M. Najork, "Position bias estimation
       for unbiased learning to rank in personal search", WSDM 2018.
    .. [2] A. Agarwal, I. Zaitsev, X. Wang, C. Li, M. Najork and T. Joachims, "Estimating position
       bias without intrusive interventions", WSDM 2019.
    """
    n = int(log.positions.max()) + 1
    if given is not None:
        return Propensities(_check_given(given, n), "given")
    by_score = _regress(log, scores, n)
    values, n_moved = _harvest(log, by_score)
    by_scores = "estimated from documents with equal scores at different positions"
    moved = f", and {n_moved} clicks on pairs that were shown at two positions"
    return Propensities(values, by_scores + moved if n_moved else by_scores)


def _check_given(given: ArrayLike, n: int) -> FloatArray:
    values = np.asarray(given, np.float64)
    if values.ndim != 1 or len(values) < n or not np.all((values > 0) & (values <= 1)):
        raise ValueError(
            f"propensities must be numbers above 0 and at most 1, one for each of the {n} "
            f"positions of the log, got {np.shape(given)}."
        )
    return values[:n] / values[:n].max()


def _never_rising(values: FloatArray, weights: IntArray) -> FloatArray:
    """Return the nearest values that do not rise with the position, the first of them 1."""
    from sklearn.isotonic import isotonic_regression

    fitted = isotonic_regression(values, sample_weight=weights + 1e-9, increasing=False)
    return np.asarray(fitted / fitted[0])


def _regress(log: ClickLog, scores: FloatArray, n: int) -> FloatArray:
    """Return propensities by which clicks differ between positions at equal scores."""
    from sklearn.linear_model import PoissonRegressor

    means = np.bincount(log.impressions, scores) / np.bincount(log.impressions)
    relative = scores - means[log.impressions]
    rows = np.arange(len(scores))
    if len(rows) > _MOST_ROWS:
        rows = np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False)
    places = np.minimum(log.positions[rows], _LAST)
    smooth = [_make_splines(part[rows]) for part in (scores, relative)]
    design = np.column_stack([np.eye(min(n, _LAST + 1))[places], *smooth])
    model = PoissonRegressor(alpha=1e-4, max_iter=1000, tol=1e-6)
    model.fit(design, log.clicked[rows].astype(np.float64))
    levels = np.exp(model.coef_[: min(n, _LAST + 1)])
    n_shown = np.bincount(places, minlength=len(levels))
    return _never_rising(levels, n_shown)[np.minimum(np.arange(n), _LAST)]


def _make_splines(values: FloatArray) -> FloatArray:
    from sklearn.preprocessing import SplineTransformer

    low, high = np.quantile(values, [0.005, 0.995])
    if high <= low:
        return np.zeros((len(values), 0))
    smooth: FloatArray = SplineTransformer(5).fit_transform(np.clip(values, low, high)[:, None])
    return smooth


def _harvest(log: ClickLog, prior: FloatArray) -> tuple[FloatArray, int]:
    """Return propensities by clicks on pairs that were shown at several positions, and these.

    Given how often a pair was clicked in all, its clicks are shared out over its positions in
    proportion to how often it was shown at each, times the propensity. The prior counts as a pair
    that was shown everywhere.
    """
    n = len(prior)
    keys = log.queries * log.n_documents + log.documents
    _, pair = np.unique(keys, return_inverse=True)
    cells, cell = np.unique(pair * n + log.positions, return_inverse=True)
    of_pair, position = np.divmod(cells, n)
    n_positions = np.bincount(of_pair)
    moved = n_positions[of_pair] > 1
    shown, clicks = np.bincount(cell)[moved], np.bincount(cell, log.clicked)[moved]
    group: IntArray = np.unique(of_pair[moved], return_inverse=True)[1]
    place = position[moved]
    total = np.bincount(group, clicks)
    if total.sum() == 0:
        return prior, 0
    known = _PRIOR_CLICKS * prior / prior.sum()
    wanted = np.bincount(place, clicks, n) + known
    values = prior.copy()
    for _ in range(_ROUNDS):
        expected = total / np.bincount(group, shown * values[place])
        values = wanted / (
            np.bincount(place, expected[group] * shown, n) + _PRIOR_CLICKS / values.sum()
        )
        values = values / values.max()
    return values, int(total.sum())

"""Groups of persons: how many there are, and where they start."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from mdaml._typing import FloatArray
from mdaml.people._features import Answers
from mdaml.people._variational import Fitted, Prior, fit_persons

_MOST_GROUPS = 8
_MARGIN = 2.0  # mean size of the margins at the start: answers are right nine times in ten
_WIDTH = 0.5  # standard deviation of persons at the start, as a share of the metric


def learn_groups(answers: Answers, n_groups: Any, *, max_iter: int, tol: float) -> Fitted:
    """Return the fit with a number of groups, or, for "auto", with the best one by BIC.

    Whether several groups are used at all, held-out answers decide.
    """
    whole = fit_persons(answers, _first_prior(answers), max_iter=max_iter, tol=tol)
    is_auto = n_groups == "auto"
    most = min(_MOST_GROUPS, answers.n_persons) if is_auto else n_groups
    q, each = answers.coordinates.size, 0.5 * np.log(answers.n_answers)
    found, lowest = whole, whole.history[-1] + each
    for n in range(2 if is_auto else max(most, 2), most + 1):
        split, groups = _split(whole, n)
        tried = fit_persons(answers, split, max_iter=max_iter, tol=tol, groups=groups)
        bic = tried.history[-1] + each * (n * (q + 1) - 1)
        if is_auto and bic >= lowest:
            break
        found, lowest = tried, bic
    return found


def _first_prior(answers: Answers) -> Prior:
    """Return the metric of all answers, in a unit in which margins suit the sigmoid."""
    identity = answers.coordinates.identity()
    some = min(answers.n_answers, 1 << 16)
    size = float(np.abs(answers.features(0, some)[0] @ identity).mean())
    scale = _MARGIN / size if size > 0.0 else 1.0
    return Prior.around(scale * identity, _WIDTH * scale)


def _split(whole: Fitted, n_groups: int) -> tuple[Prior, FloatArray]:
    """Return groups to start from, by k-means of the persons found with one group."""
    prior, posterior, _ = whole
    scaled = np.linalg.solve(np.linalg.cholesky(prior.covariance), posterior.means.T).T
    found = KMeans(n_groups, n_init=4, random_state=0).fit(scaled)
    groups = np.full((len(scaled), n_groups), 0.1 / n_groups)
    groups[np.arange(len(scaled)), found.labels_] += 0.9
    sizes = groups.sum(axis=0)
    means = (groups.T @ posterior.means) / sizes[:, None]
    return replace(prior, means=means, shares=sizes / len(scaled)), groups

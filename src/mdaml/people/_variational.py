"""Coefficients of many persons, drawn to those of their group as strongly as the answers say."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit, xlogy

from mdaml._typing import FloatArray, IntArray
from mdaml.people._features import Answers

_ANSWERS_AT_ONCE = 1 << 16
_NARROWEST = 1e-6  # variance, of that at the start: persons who do not differ at all


@dataclass(frozen=True)
class Prior:
    """What is known of a person before any answer: one of G groups, and how persons differ."""

    means: FloatArray  # (G, q) coefficients of the groups
    shares: FloatArray  # (G,) of the persons; sum to one
    variances: FloatArray  # (q,) around the mean of the group
    narrowest: FloatArray  # (q,) bound of the variances

    @classmethod
    def around(cls, mean: FloatArray, width: float) -> "Prior":
        """Return one group, in which coefficients have a standard deviation."""
        variances = np.full(len(mean), width**2)
        return cls(mean[None], np.ones(1), variances, _NARROWEST * variances)

    @property
    def shared(self) -> FloatArray:
        """The mean of all groups, (q,)."""
        return self.shares @ self.means


@dataclass(frozen=True)
class Posterior:
    """What is known of each of P persons after the answers: Gaussians, and groups."""

    means: FloatArray  # (P, q)
    variances: FloatArray  # (P, q)
    groups: FloatArray  # (P, G) probability of each group
    log_dets: FloatArray  # (P,) of the covariances
    evidence: FloatArray  # (P,) bound of the expected log likelihood
    levels: (
        FloatArray  # (n,) of the answers, where the bound touches: root of the mean square margin
    )


class Fitted(NamedTuple):
    """Where the updates ended, and the objective on the way."""

    prior: Prior
    posterior: Posterior
    history: list[float]


def fit_persons(
    answers: Answers, prior: Prior, *, max_iter: int, tol: float, groups: FloatArray | None = None
) -> Fitted:
    """Improve persons and prior in turn until the objective settles; return its values too.

    ``groups`` are the first probabilities of the groups, (P, G); by default one group.
    """
    if groups is None:
        groups = np.tile(prior.shares, (answers.n_persons, 1))
    posterior = update_persons(answers, prior, np.ones(answers.n_answers), groups)
    history = [objective(prior, posterior)]
    for _ in range(max_iter):
        prior = update_prior(prior, posterior)
        posterior = update_persons(answers, prior, posterior.levels, posterior.groups)
        history.append(objective(prior, posterior))
        if history[-2] - history[-1] <= tol * abs(history[-1]):
            break
    return Fitted(prior, posterior, history)


def objective(prior: Prior, posterior: Posterior) -> float:
    """Return minus the evidence bound, summed over persons p with ``q_p = N(m_p, C_p)``.

    ``sum_p [ -sum_t w_t (log s(x_t) + (a_t - x_t)/2) + KL(r_p | shares)
    + sum_g r_pg KL(N(m_p, C_p) | N(u_g, diag(v))) ]`` with the sigmoid s, the mean margin
    ``a_t = f_t . m_p`` and the level ``x_t^2 = a_t^2 + f_t^T C_p f_t`` of each answer t of p: the
    bound of Jaakkola and Jordan of ``log s`` under the Gaussian, where it touches.
    """
    r, v = posterior.groups, prior.variances
    spread = posterior.variances / v + _sq_offs(posterior.means, prior.means, v, r)
    gaussian = 0.5 * (spread.sum(axis=1) + np.log(v).sum() - posterior.log_dets - len(v))
    groups = (xlogy(r, r) - xlogy(r, prior.shares)).sum(axis=1)
    return float(np.sum(gaussian + groups - posterior.evidence))


def update_persons(
    answers: Answers, prior: Prior, levels: FloatArray, groups: FloatArray
) -> Posterior:
    """Return the best Gaussian of each person, then the best levels, then the best groups.

    ``C_p^-1 = diag(1/v) + 2 sum_t w_t l(x_t) f_t f_t^T``, ``l(x) = tanh(x/2) / (4x)``, and
    ``C_p^-1 m_p = sum_g r_pg u_g / v + sum_t w_t f_t / 2``: exact minima of the objective.
    """
    n_persons, q = answers.n_persons, prior.means.shape[1]
    means, variances = np.empty((n_persons, q)), np.empty((n_persons, q))
    log_dets, evidence, new = np.empty(n_persons), np.empty(n_persons), np.empty(len(levels))
    pulls = (groups @ prior.means) / prior.variances
    for persons in _blocks(answers.bounds):
        first, last = answers.bounds[persons[0]], answers.bounds[persons[-1] + 1]
        features, weights = answers.features(first, last)  # (n, q), (n,)
        curved = 2.0 * weights * _curvature(levels[first:last])
        starts = answers.bounds[persons] - first
        ends = answers.bounds[persons + 1] - first
        precisions = np.stack(
            [
                (features[b:e].T * curved[b:e]) @ features[b:e]
                for b, e in zip(starts, ends, strict=True)
            ]
        )
        precisions += np.diag(1.0 / prior.variances)
        covariances = np.linalg.inv(precisions)
        half = 0.5 * np.add.reduceat(weights[:, None] * features, starts)
        means[persons] = np.einsum("pij,pj->pi", covariances, pulls[persons] + half)
        variances[persons] = np.einsum("pii->pi", covariances)
        log_dets[persons] = -np.linalg.slogdet(precisions)[1]
        own = np.repeat(np.arange(len(persons)), ends - starts)
        margins = np.einsum("nq,nq->n", features, means[persons][own])
        spreads = np.empty(len(margins))
        for p, (b, e) in enumerate(zip(starts, ends, strict=True)):
            spreads[b:e] = np.einsum("nq,nq->n", features[b:e] @ covariances[p], features[b:e])
        touched = np.sqrt(margins**2 + np.maximum(spreads, 0.0))
        bound = weights * (log_expit(touched) + 0.5 * (margins - touched))
        new[first:last], evidence[persons] = touched, np.add.reduceat(bound, starts)
    groups = _probabilities(means, prior)
    return Posterior(means, variances, groups, log_dets, evidence, new)


def update_prior(prior: Prior, posterior: Posterior) -> Prior:
    """Return the best groups and variances: weighted means over the persons.

    A single group is a multiple of the metric of all answers, the best one, and no other metric:
    that was learned from the same answers, and would be fitted to them a second time.
    """
    r = posterior.groups
    sizes = r.sum(axis=0)
    sums = r.T @ posterior.means
    if len(sizes) == 1:
        toward = prior.means[0] / prior.variances
        multiple = float(toward @ sums[0]) / (sizes[0] * float(toward @ prior.means[0]))
        means = multiple * prior.means
    else:
        means = np.where(
            sizes[:, None] > 0.0, sums / np.maximum(sizes, 1e-300)[:, None], prior.means
        )
    ones = np.ones(means.shape[1])
    offs = posterior.variances + _sq_offs(posterior.means, means, ones, r)
    variances = np.maximum(offs.mean(axis=0), prior.narrowest)
    return replace(prior, means=means, shares=sizes / len(r), variances=variances)


def _probabilities(means: FloatArray, prior: Prior) -> FloatArray:
    """Return the best probabilities of the groups of each person, (P, G)."""
    with np.errstate(divide="ignore"):  # a group that is empty stays so
        logs = np.log(prior.shares) - 0.5 * np.stack(
            [((means - mean) ** 2 / prior.variances).sum(axis=1) for mean in prior.means], axis=1
        )
    logs -= logs.max(axis=1, keepdims=True)
    shares = np.exp(logs)
    return shares / shares.sum(axis=1, keepdims=True)


def _sq_offs(
    means: FloatArray, centers: FloatArray, variances: FloatArray, groups: FloatArray
) -> FloatArray:
    """Return squared differences of persons and groups over variances, averaged, (P, q)."""
    offs = np.zeros_like(means)
    for center, share in zip(centers, groups.T, strict=True):
        offs += share[:, None] * (means - center) ** 2 / variances
    return offs


def _curvature(levels: FloatArray) -> FloatArray:
    """Return ``tanh(x/2) / (4x)``, 1/8 at zero."""
    x = np.maximum(levels, 1e-6)
    return np.tanh(0.5 * x) / (4.0 * x)


def _blocks(bounds: IntArray) -> Iterator[IntArray]:
    """Yield persons in blocks that have a bounded number of answers, or are one person."""
    begin, n_persons = 0, len(bounds) - 1
    while begin < n_persons:
        end = int(np.searchsorted(bounds, bounds[begin] + _ANSWERS_AT_ONCE, side="right")) - 1
        end = min(max(end, begin + 1), n_persons)
        yield np.arange(begin, end)
        begin = end

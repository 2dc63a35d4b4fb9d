"""Coefficients of many persons, drawn to those of their group as strongly as the answers say."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit, xlogy

from mdaml._progress import report
from mdaml._typing import FloatArray, IntArray
from mdaml.people._features import Answers, Coordinates

_ANSWERS_AT_ONCE = 1 << 16
_ROUNDS_OF_NEW = 20  # for persons who are added
# Before any person: as after two for each coefficient, who hardly differed.
_PERSONS_BEFORE = 2.0
_VARIANCE_BEFORE = 0.05  # of that at the start


@dataclass(frozen=True)
class Prior:
    """What is known of a person before any answer: one of G groups, and how persons differ."""

    means: FloatArray  # (G, q) coefficients of the groups
    shares: FloatArray  # (G,) of the persons; sum to one
    covariance: FloatArray  # (q, q) around the mean of the group
    before: FloatArray  # (q, q) what it is without any person

    @classmethod
    def around(cls, mean: FloatArray, width: float) -> "Prior":
        """Return one group, in which coefficients have a standard deviation."""
        covariance = width**2 * np.eye(len(mean))
        return cls(mean[None], np.ones(1), covariance, _VARIANCE_BEFORE * covariance)

    @property
    def n_before(self) -> float:
        """As how many persons the covariance before any person counts."""
        return _PERSONS_BEFORE * len(self.covariance)

    @property
    def precision(self) -> FloatArray:
        """The inverse of the covariance."""
        return np.linalg.inv(self.covariance)

    @property
    def shared(self) -> FloatArray:
        """The mean of all groups, (q,)."""
        return self.shares @ self.means


@dataclass(frozen=True)
class Posterior:
    """What is known of each of P persons after the answers: Gaussians, and groups."""

    means: FloatArray  # (P, q)
    variances: FloatArray  # (P, q)
    covariance: FloatArray  # (q, q) sum over the persons
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
        report("persons", len(history) - 1, max_iter)
        if history[-2] - history[-1] <= tol * abs(history[-1]):
            break
    return Fitted(prior, posterior, history)


def place_persons(answers: Answers, prior: Prior) -> Posterior:
    """Return what is known of persons, with a prior that stays as it is."""
    levels: FloatArray = np.ones(answers.n_answers)
    groups: FloatArray = np.tile(prior.shares, (answers.n_persons, 1))
    for _ in range(_ROUNDS_OF_NEW):
        posterior = update_persons(answers, prior, levels, groups)
        levels, groups = posterior.levels, posterior.groups
    return posterior


def shared_by_all(coordinates: Coordinates, n_persons: int) -> Fitted:
    """Return persons who do not differ: all have the metric that was learned from all answers."""
    prior = Prior.around(coordinates.identity(), 0.0)
    means = np.tile(prior.means, (n_persons, 1))
    none, zeros = np.zeros(0), np.zeros(n_persons)
    posterior = Posterior(
        means, np.zeros_like(means), prior.covariance, np.ones((n_persons, 1)), zeros, zeros, none
    )
    return Fitted(prior, posterior, [])


def shrinkage_of(prior: Prior, posterior: Posterior) -> FloatArray:
    """Return the share of the coefficients of each person that comes from the group, (P,)."""
    own, most = posterior.variances, prior.covariance.diagonal()
    ratios = np.divide(own, most, out=np.ones_like(own), where=most > 0.0)
    shares: FloatArray = np.mean(ratios, axis=1)
    return shares


def objective(prior: Prior, posterior: Posterior) -> float:
    """Return minus the evidence bound, summed over persons p with ``q_p = N(m_p, C_p)``.

    ``sum_p [ -sum_t w_t (log s(x_t) + (a_t - x_t)/2) + KL(r_p | shares)
    + sum_g r_pg KL(N(m_p, C_p) | N(u_g, V)) ] + n0/2 (tr(V^-1 V0) + log det V)`` with the sigmoid
    s, the mean margin ``a_t = f_t . m_p`` and the level ``x_t^2 = a_t^2 + f_t^T C_p f_t`` of each
    answer t of p: the bound of Jaakkola and Jordan of ``log s`` under the Gaussian, where it
    touches. The last term is what is known of V before any person, as of n0 persons.
    """
    r, q = posterior.groups, len(prior.covariance)
    spread = posterior.covariance + _scatter(posterior.means, prior.means, r)
    spread += prior.n_before * prior.before
    log_det = float(np.linalg.slogdet(prior.covariance)[1])
    gaussian = np.vdot(prior.precision, spread) + (len(r) + prior.n_before) * log_det
    gaussian -= posterior.log_dets.sum() + q * len(r)
    groups = np.sum(xlogy(r, r) - xlogy(r, prior.shares))
    return float(0.5 * gaussian + groups - posterior.evidence.sum())


def update_persons(
    answers: Answers, prior: Prior, levels: FloatArray, groups: FloatArray
) -> Posterior:
    """Return the best Gaussian of each person, then the best levels, then the best groups.

    ``C_p^-1 = V^-1 + 2 sum_t w_t l(x_t) f_t f_t^T``, ``l(x) = tanh(x/2) / (4x)``, and
    ``C_p^-1 m_p = V^-1 sum_g r_pg u_g + sum_t w_t f_t / 2``: exact minima of the objective.
    """
    n_persons, q = answers.n_persons, prior.means.shape[1]
    means, variances = np.empty((n_persons, q)), np.empty((n_persons, q))
    log_dets, evidence, new = np.empty(n_persons), np.empty(n_persons), np.empty(len(levels))
    precision, total = prior.precision, np.zeros((q, q))
    pulls = (groups @ prior.means) @ precision
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
        precisions += precision
        covariances = np.linalg.inv(precisions)
        half = 0.5 * np.add.reduceat(weights[:, None] * features, starts)
        means[persons] = np.einsum("pij,pj->pi", covariances, pulls[persons] + half)
        total += covariances.sum(axis=0)
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
    return Posterior(means, variances, total, groups, log_dets, evidence, new)


def update_prior(prior: Prior, posterior: Posterior) -> Prior:
    """Return the best groups and covariance: weighted means over the persons.

    A single group is a multiple of the metric of all answers, the best one, and no other metric:
    that was learned from the same answers, and would be fitted to them a second time.
    """
    r = posterior.groups
    sizes = r.sum(axis=0)
    sums = r.T @ posterior.means
    if len(sizes) == 1:
        toward = prior.precision @ prior.means[0]
        multiple = float(toward @ sums[0]) / (sizes[0] * float(toward @ prior.means[0]))
        means = multiple * prior.means
    else:
        means = np.where(
            sizes[:, None] > 0.0, sums / np.maximum(sizes, 1e-300)[:, None], prior.means
        )
    total = posterior.covariance + _scatter(posterior.means, means, r)
    covariance = (total + prior.n_before * prior.before) / (len(r) + prior.n_before)
    return replace(prior, means=means, shares=sizes / len(r), covariance=covariance)


def _probabilities(means: FloatArray, prior: Prior) -> FloatArray:
    """Return the best probabilities of the groups of each person, (P, G)."""
    offs = means[:, None] - prior.means  # (P, G, q)
    with np.errstate(divide="ignore"):  # a group that is empty stays so
        logs = np.log(prior.shares) - 0.5 * np.sum((offs @ prior.precision) * offs, axis=2)
    logs -= logs.max(axis=1, keepdims=True)
    shares = np.exp(logs)
    return shares / shares.sum(axis=1, keepdims=True)


def _scatter(means: FloatArray, centers: FloatArray, groups: FloatArray) -> FloatArray:
    """Return the sum of the scatter of persons around groups, by probability, (q, q)."""
    total = np.zeros((means.shape[1], means.shape[1]))
    for center, share in zip(centers, groups.T, strict=True):
        off = means - center
        total += (off.T * share) @ off
    return total


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

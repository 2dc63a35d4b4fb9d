"""Kinds of people: a mixture of metrics by EM, and metrics of persons near their kinds."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, log_expit, logit, logsumexp, ndtri, stdtrit
from sklearn.cluster import KMeans

from mdaml._progress import report
from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.persons import Persons

# Before any answer of a person: as after twenty answers, two of them wrong.
RIGHT, WRONG = 18.0, 2.0
_USUAL = WRONG / (RIGHT + WRONG)
_PULL = 1.0  # of the metrics of kinds towards the given one
_LEAST = 1e-3  # probability of a kind below which a person does not count for it
_STEPS = np.array([0.0, 0.125, 0.25, 0.5, 1.0, 2.0])  # parts of a step that are tried
_LONG_STEPS = np.array([1.0, 2.0, 4.0, 8.0, 16.0])  # of one by a bound of the curvature
_SCALES = np.logspace(-1.0, 1.5, 26)
_FIRST_ROUNDS = 5  # of each start, before the best go on
_LATER = 6  # one of so many starts goes on
_ROUNDS_OF_PERSONS = 12
_FEWEST = 5  # persons of a kind, to tell how much they differ
_END = 0.975  # quantile at the end of an interval of 95 %
_MOST_PRODUCTS = 20_000_000  # for a curvature; of more answers a part stands for all


@dataclass(frozen=True, eq=False)
class Heard:
    """Features of n answers, sorted by the person who gave them."""

    features: FloatArray  # (n, q): a margin is their product with coefficients
    weights: FloatArray  # (n,)
    persons: Persons

    @classmethod
    def of(cls, features: FloatArray, weights: FloatArray, persons: Persons) -> "Heard":
        """Sort answers by person."""
        order = np.argsort(persons.codes, kind="stable")
        return cls(features[order], weights[order], Persons(persons.names, persons.codes[order]))

    @cached_property
    def bounds(self) -> IntArray:
        """Where the answers of each person begin, (P,)."""
        return np.searchsorted(self.persons.codes, np.arange(len(self.persons)))

    @cached_property
    def curvatures(self) -> FloatArray:
        """``sum_t w_t f_t f_t^T / 4`` of each person, which bounds the curvature, (P, q, q)."""
        own, weights = (np.split(part, self.bounds[1:]) for part in (self.features, self.weights))
        return np.array([0.25 * (f.T * w) @ f for f, w in zip(own, weights, strict=True)])

    @cached_property
    def totals(self) -> FloatArray:
        """The weight of all answers of each person, (P,)."""
        return self.sums(np.ones(len(self.weights)))

    def sums(self, values: FloatArray) -> FloatArray:
        """Return weighted sums over the answers of each person: (..., n) gives (..., P)."""
        return np.add.reduceat(self.weights * values, self.bounds, axis=-1)

    def some(self) -> slice:
        """Return answers that stand for all, where these are many."""
        n, q = self.features.shape
        return slice(None, None, max(1, n * q * q // _MOST_PRODUCTS))


@dataclass(frozen=True, eq=False)
class Kinds:
    """K kinds and P persons, and the objective on the way there."""

    coefficients: FloatArray  # (K, q)
    shares: FloatArray  # (K,) of the persons
    errors: FloatArray  # (P,) share of answers that are turned round
    of_person: FloatArray  # (P, K) probabilities
    history: tuple[float, ...] = ()

    @property
    def own(self) -> FloatArray:
        """The mean of the kinds for each person, (P, q)."""
        return self.of_person @ self.coefficients

    def without_empty(self, fewest: int = 1) -> "Kinds":
        """Return the kinds that so many persons are of, the largest first."""
        order = np.argsort(-self.shares, kind="stable")
        sizes = np.bincount(self.of_person.argmax(axis=1), minlength=len(order))
        return self.in_order(order[sizes[order] >= fewest])

    def in_order(self, order: IntArray) -> "Kinds":
        """Return some of the kinds in another order."""
        of_person = self.of_person[:, order]
        of_person = of_person / np.maximum(of_person.sum(axis=1, keepdims=True), 1e-300)
        shares = self.shares[order] / self.shares[order].sum()
        return replace(
            self, coefficients=self.coefficients[order], shares=shares, of_person=of_person
        )


def best_scale(heard: Heard) -> float:
    """Return the multiple of the given metric under which the answers are most likely."""
    margins = _SCALES[:, None] * heard.features[:, 0]
    return float(_SCALES[int(np.argmax(_log_chances(margins, _USUAL) @ heard.weights))])


def fit_kinds(
    heard: Heard, center: FloatArray, n_kinds: int, *, n_starts: int = 48, max_iter: int = 50
) -> Kinds:
    """Return the mixture with the lowest objective of several starts.

    Each start goes a few rounds, the best sixth of them goes on: of few answers the start that is
    ahead after these rounds is often not the one that ends best. ``center`` are the coefficients
    that those of kinds are pulled to.
    """
    n_persons = len(heard.persons)
    n_kinds = min(n_kinds, n_persons)  # of some persons all answers may be held out
    one = _begin(center, np.ones((n_persons, 1)))
    one = improve(heard, center, one, _FIRST_ROUNDS if n_kinds > 1 else max_iter)
    if n_kinds == 1:
        return one
    tried = []
    for number, codes in enumerate(_draw_starts(heard, one, n_kinds, n_starts)):
        first = np.full((n_persons, n_kinds), 0.1 / n_kinds)
        first[np.arange(n_persons), codes] += 0.9
        tried.append(improve(heard, center, _begin(one.coefficients[0], first), _FIRST_ROUNDS))
        report("kinds", number + 1, n_starts)
    tried.sort(key=lambda kinds: kinds.history[-1])
    ends = [improve(heard, center, kinds, max_iter) for kinds in tried[: -(-n_starts // _LATER)]]
    return min(ends, key=lambda kinds: kinds.history[-1])


def _begin(coefficients: FloatArray, of_person: FloatArray) -> Kinds:
    n_persons, n_kinds = of_person.shape
    shares, errors = np.full(n_kinds, 1.0 / n_kinds), np.full(n_persons, _USUAL)
    return Kinds(np.tile(coefficients, (n_kinds, 1)), shares, errors, of_person)


def _draw_starts(heard: Heard, one: Kinds, n_kinds: int, n_starts: int) -> list[IntArray]:
    """Return first kinds of the persons: by how they would change the metric, and at random."""
    margins = heard.features @ one.coefficients[0]
    pulls = expit(margins - logit(_USUAL)) - expit(margins)
    wishes = heard.sums(heard.features.T * pulls).T / np.sqrt(heard.totals)[:, None]
    noise = np.sqrt(heard.weights * np.square(pulls) @ np.square(heard.features))
    wishes /= np.where(noise > 0.0, noise, 1.0)
    rng = np.random.RandomState(0)
    return [
        KMeans(n_kinds, n_init=1, random_state=number).fit(wishes).labels_
        if number % 2 == 0
        else rng.permutation(len(wishes)) % n_kinds
        for number in range(n_starts)
    ]


def improve(
    heard: Heard, center: FloatArray, kinds: Kinds, max_iter: int, tol: float = 3e-5
) -> Kinds:
    """Improve metrics, errors and probabilities in turn; the objective never rises."""
    for _ in range(max_iter):
        kinds = _expect(heard, center, _update_metrics(heard, center, kinds))
        history = kinds.history
        if len(history) > 1 and history[-2] - history[-1] <= tol * abs(history[-1]):
            break
    return kinds


def _update_metrics(heard: Heard, center: FloatArray, kinds: Kinds) -> Kinds:
    """Return better coefficients, then better errors.

    An answer of margin m, turned round with probability e, is right with ``z = s(m - logit e)``.
    The coefficients of a kind move by a part of Newton's step, the best that is tried, for
    ``sum_t w_t (z_t log s(m_t) + (1 - z_t) log s(-m_t))``, which bounds the log probability.
    """
    codes, F, some = heard.persons.codes, heard.features, heard.some()
    errors, new, wrong = kinds.errors[codes], kinds.coefficients.copy(), np.zeros(len(F))
    for k, own in enumerate(kinds.of_person.T):
        weights = np.where(own > _LEAST, own, 0.0)[codes] * heard.weights
        margins = F @ new[k]
        right, chance = expit(margins - logit(errors)), expit(margins)
        slope = F.T @ (weights * (right - chance)) - _PULL * (new[k] - center)
        curved = (weights * np.maximum(chance * (1.0 - chance), 1e-3))[some]
        curvature = (F[some].T * curved) @ F[some] * (some.step or 1)
        curvature.flat[:: len(slope) + 1] += _PULL
        step = np.linalg.solve(curvature, slope)
        along = F @ step
        tried = margins + _STEPS[:, None] * along  # (n_steps, n)
        losses = (tried * (1.0 - right) - log_expit(tried)) @ weights
        losses += 0.5 * _PULL * np.square(new[k] - center + _STEPS[:, None] * step).sum(axis=1)
        part = _STEPS[int(np.argmin(losses))]
        new[k] += part * step
        wrong += own[codes] * expit(logit(errors) - margins - part * along)
    return replace(kinds, coefficients=new, errors=_mean_errors(heard, wrong))


def _mean_errors(heard: Heard, wrong: FloatArray) -> FloatArray:
    """Return the errors of persons from how likely each answer was turned round, (P,)."""
    return np.minimum((WRONG + heard.sums(wrong)) / (RIGHT + WRONG + heard.totals), 0.5)


def _expect(heard: Heard, center: FloatArray, kinds: Kinds) -> Kinds:
    """Return the best shares and probabilities of the kinds, and the objective there.

    Minus the log of ``prod_p e_p^2 (1 - e_p)^18 sum_k share_k prod_t [(1 - e_p) s(m_tk) +
    e_p s(-m_tk)]^w_t``, with the margin m of each answer t of p, plus ``|b_k - center|^2 / 2``.
    """
    shares = kinds.of_person.mean(axis=0)
    of_person, total = place(heard, replace(kinds, shares=shares))
    prior = WRONG * np.log(kinds.errors) + RIGHT * np.log1p(-kinds.errors)
    value = 0.5 * _PULL * np.square(kinds.coefficients - center).sum()
    value -= total.sum() + prior.sum()
    history = (*kinds.history, float(value))
    return replace(kinds, shares=shares, of_person=of_person, history=history)


def place(heard: Heard, kinds: Kinds) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities of the kinds of people, (P, K), and the log evidence of each."""
    margins = kinds.coefficients @ heard.features.T
    logs = heard.sums(_log_chances(margins, kinds.errors[heard.persons.codes])).T
    with np.errstate(divide="ignore"):  # a kind that nobody is of stays so
        joint = logs + np.log(kinds.shares)
    total = logsumexp(joint, axis=1)
    return np.exp(joint - total[:, None]), total


def place_persons(heard: Heard, kinds: Kinds, max_iter: int = 10) -> Kinds:
    """Return probabilities and errors of other persons; the kinds stay as they are."""
    errors = np.full(len(heard.persons), _USUAL)
    margins = kinds.coefficients @ heard.features.T
    for _ in range(max_iter):
        kinds = replace(kinds, errors=errors)
        of_person = place(heard, kinds)[0]
        wrong = expit(logit(errors)[heard.persons.codes] - margins)
        errors = _mean_errors(heard, (of_person[heard.persons.codes].T * wrong).sum(axis=0))
    return replace(kinds, of_person=of_person, errors=errors)


def fit_persons(heard: Heard, kinds: Kinds, pull: float) -> FloatArray:
    """Return coefficients of persons, pulled to those of their kinds, (P, q).

    Each person is a kind of their own; steps are by a bound of the curvature, which never loses.
    """
    centers, codes, F = kinds.own, heard.persons.codes, heard.features
    # Not the errors under the kinds: who is unlike all of them would seem to guess, for good.
    own, errors = centers.copy(), np.full(len(heard.persons), _USUAL)
    bounds = np.linalg.inv(heard.curvatures + pull * np.eye(F.shape[1]))
    margins = np.einsum("nq,nq->n", F, own[codes])
    for _ in range(_ROUNDS_OF_PERSONS):
        right = expit(margins - logit(errors)[codes])
        slopes = heard.sums(F.T * (right - expit(margins))).T - pull * (own - centers)
        steps = np.einsum("pij,pj->pi", bounds, slopes)
        along = np.einsum("nq,nq->n", F, steps[codes])
        tried = margins + _LONG_STEPS[:, None] * along
        losses = heard.sums(tried * (1.0 - right) - log_expit(tried))  # (n_steps, P)
        off = own - centers + _LONG_STEPS[:, None, None] * steps
        losses += 0.5 * pull * np.square(off).sum(axis=2)
        parts = _LONG_STEPS[losses.argmin(axis=0)]
        own += parts[:, None] * steps
        margins += parts[codes] * along
        errors = _mean_errors(heard, expit(logit(errors)[codes] - margins))
    return own


def find_uncertainties(heard: Heard, kinds: Kinds) -> FloatArray:
    """Return two covariances of the coefficients of each kind, (K, 2, q, q).

    The first is that of answers which are given as the model says, by the expected curvature. The
    second is by how much persons of the kind differ, widened as Student's t is for so few of them;
    zero for fewer than five. The larger one holds.
    """
    F, codes = heard.features, heard.persons.codes
    errors, q = kinds.errors[codes], F.shape[1]
    out = np.zeros((len(kinds.shares), 2, q, q))
    for found, coefficients, own in zip(out, kinds.coefficients, kinds.of_person.T, strict=True):
        right, weights = expit(F @ coefficients), own[codes] * heard.weights
        chance = errors + (1.0 - 2.0 * errors) * right
        slope = (1.0 - 2.0 * errors) * right * (1.0 - right)
        curvature = (F.T * (weights * slope**2 / (chance * (1.0 - chance)))) @ F
        found[0] = np.linalg.inv(curvature + _PULL * np.eye(q))
        n = float(own.sum())
        if n >= _FEWEST:
            wishes = np.add.reduceat(F * (weights * slope / chance)[:, None], heard.bounds, axis=0)
            wider = (stdtrit(n - 1.0, _END) / ndtri(_END)) ** 2 * n / (n - 1.0)
            found[1] = wider * found[0] @ (wishes.T @ wishes) @ found[0]
    return out


def _log_chances(margins: FloatArray, errors: FloatArray | float) -> FloatArray:
    """Return ``log((1 - e) s(m) + e s(-m))``."""
    return np.log(chances_of_answers(margins, errors))


def chances_of_answers(margins: FloatArray, errors: FloatArray | float) -> FloatArray:
    """Return ``(1 - e) s(m) + e s(-m)``, how probable answers are."""
    return np.asarray(errors + (1.0 - 2.0 * errors) * expit(margins))

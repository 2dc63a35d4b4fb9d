"""How often each person is wrong, estimated with the metric, and how much answers then count.

Let person p answer wrongly with probability ``e_p``. Under a metric that decides alone what is
right, minus the log likelihood of n_p answers of which L_p are violated is ``a_p L_p + n_p log(1 +
exp(-a_p))`` with the log odds ``a_p = log((1 - e_p) / e_p)``: an answer counts by the log odds that
it is right, as in a vote of experts. Here ``c loss_t - b`` takes the place of one for a violated
answer and zero for another, with numbers b and c such that it is so on average at the first metric.
So the sum over persons is one more function of the metric to minimise: the loss weighted by
``a_p``, and a term that does not depend on the metric.
"""

from dataclasses import dataclass, replace

import numpy as np

from mdaml._typing import Array, BoolArray, FloatArray
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints
from mdaml.kernels.pairs import pair_sq_dists
from mdaml.solver.alternation import Alternation
from mdaml.solver.modes import Modes

# Before any answer: as after twenty, two of which were wrong.
PRIOR_ANSWERS, PRIOR_WRONG = 20.0, 2.0
LOWEST_ERROR, HIGHEST_ERROR = 0.01, 0.45  # answers at random still count a little
MOST_PASSES = 2
SMALL_CHANGE = 0.005  # of an error, after which it is not estimated again


@dataclass(frozen=True)
class Reliability:
    """How much the answers of each person count, in one objective with the metric."""

    persons: Persons
    base: FloatArray  # (n,) weights of the answers as they were given, one on average
    usual: float  # log odds that count as one
    unit: float  # c: violated answers per loss
    offset: float  # b
    errors: FloatArray  # (P,) share of wrong answers of each person

    @classmethod
    def of_all(
        cls, persons: Persons, weights: FloatArray, losses: FloatArray, violated: BoolArray
    ) -> "Reliability":
        """Return the weights if all persons err equally often, given the losses of answers."""
        base = weights * (len(losses) / float(weights.sum()))
        error = _errors(np.array([base @ violated]), np.array([base.sum()]))
        usual, unit, offset = float(_log_odds(error)[0]), 1.0, 0.0
        if violated.any() and not violated.all():
            lost, kept = (np.average(losses[w], weights=base[w]) for w in (violated, ~violated))
            unit = 1.0 / max(float(lost - kept), 1e-3)
            offset = unit * float(kept)
        return cls(persons, base, usual, unit, offset, np.full(len(persons), error[0]))

    def updated(self, losses: FloatArray) -> "Reliability":
        """Return the errors at which the objective is lowest, given the losses of the answers.

        ``e_p = (2 + sum_t u_t (c loss_t - b)) / (20 + sum_t u_t)`` over the answers t of p with
        weights ``u_t``, between 0.01 and 0.45.
        """
        lost = self.persons.sums(self.base * (self.unit * losses - self.offset))
        errors = _errors(lost, self.persons.sums(self.base))
        return replace(self, errors=errors)

    @property
    def weights(self) -> FloatArray:
        """The weight of an answer of each person, (P,): one for the error of all."""
        return _log_odds(self.errors) / self.usual

    def term(self) -> float:
        """Return what the objective has beside weighted losses, in units of a mean loss.

        ``1/(n A c) sum_p [(2 - b n_p) a_p + (20 + n_p) log(1 + exp(-a_p))]``, with the log odds of
        all, A.
        """
        odds, counts = _log_odds(self.errors), self.persons.sums(self.base)
        each = (PRIOR_WRONG - self.offset * counts) * odds + (PRIOR_ANSWERS + counts) * np.log1p(
            np.exp(-odds)
        )
        return float(each.sum()) / (self.usual * self.unit * len(self.base))

    def weigh(self, alternation: Alternation, comparisons: Constraints) -> Alternation:
        """Return the alternation with answers weighted.

        Stores scale weights to one on average; the weight of the loss makes up for it, so that
        the objective stays the same function. The anchor has its strength already.
        """
        answers = self.base * self.weights[self.persons.codes]
        supervision = Constraints.of_quadruplets(
            comparisons.quadruplets, answers, comparisons.n_points
        )
        spec, mean = alternation.spec, float(answers.mean())
        spec = replace(spec, triplet_weight=spec.triplet_weight * mean, anchor=spec.anchor / mean)
        return replace(alternation, store=alternation.store.compare(supervision), spec=spec)

    def table(self) -> dict[str, Array]:
        """Return one entry for each person: name, answers, error, weight."""
        names = self.persons.names
        return {
            "who": names.astype(object) if names.dtype.kind == "U" else names,
            "answers": self.persons.sums().astype(np.int64),
            "error": self.errors,
            "weight": self.weights,
        }


def answer_losses(
    alternation: Alternation, F: FloatArray, modes: Modes, comparisons: Constraints
) -> tuple[FloatArray, BoolArray]:
    """Return the loss of each quadruplet times the self-weight of its near pair; if violated."""
    store, spec = alternation.store, alternation.spec
    Y, weights = store.fetch_mapped(F), store.fetch_weights(modes.weights)
    given = comparisons.quadruplets
    near, far = (pair_sq_dists(Y, given[:, pair]) for pair in ([0, 1], [2, 3]))
    short = np.maximum(1.0 - (far - near), 0.0)
    slope = np.minimum(short, 1.0)
    powers = weights.astype(np.float64) ** spec.eta
    shared = np.einsum("ij,ij->i", powers[given[:, 0]], powers[given[:, 1]])
    losses = slope * (short - 0.5 * slope) * (spec.floor + (1.0 - spec.floor) * shared)
    return losses, near >= far


def _errors(losses: FloatArray, counts: FloatArray) -> FloatArray:
    found: FloatArray = (PRIOR_WRONG + losses) / (PRIOR_ANSWERS + counts)
    return np.clip(found, LOWEST_ERROR, HIGHEST_ERROR)


def _log_odds(errors: FloatArray) -> FloatArray:
    odds: FloatArray = np.log1p(-errors) - np.log(errors)
    return odds

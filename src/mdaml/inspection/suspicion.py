"""How likely each answer is wrong, given by how much the learned distances contradict it."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from mdaml._typing import FloatArray

_N_BINS = 1001  # odd: ties have a bin of their own
# Where answers agree with the distances no more than by chance, either may be wrong; the priors
# say that it is the distances.
PRIOR_RIGHT, PRIOR_WRONG = 18.0, 2.0
_PRIOR_SCALE, _PRIOR_SPREAD = 0.1, 2.0
_BOUNDS = [(-12.0, 12.0), (np.log(0.005), np.log(5.0))]


@dataclass(frozen=True)
class FlipModel:
    """Answers that follow the learned distances, a share of them turned round.

    With the relative margin ``m = (far - near) / (far + near)`` of the squared distances, the truth
    agrees with the answer with probability ``p = sigmoid(m / scale)``, since the learned distances
    err where they are nearly equal; a share ``flip_rate`` of the answers is then turned round.
    """

    flip_rate: float | FloatArray  # below 1/2; or an array, one for each answer
    scale: float

    @classmethod
    def from_margins(cls, margins: FloatArray) -> "FlipModel":
        """Estimate both numbers by their posterior mode.

        The likelihood of an answer is ``(1 - flip_rate) p + flip_rate (1 - p)``. Weak priors decide
        where there are few answers: twenty more, two of them wrong, and a scale of about 0.1.
        """
        counts, edges = np.histogram(margins, _N_BINS, (-1.0, 1.0))
        used = counts > 0
        centers, counts = 0.5 * (edges[1:] + edges[:-1])[used], counts[used]

        def cost(parameters: FloatArray) -> tuple[float, FloatArray]:
            """Return minus the log posterior at (logit of twice the rate, log scale), and slope."""
            rate, scale = 0.5 * expit(parameters[0]), np.exp(parameters[1])
            agrees = expit(centers / scale)
            likelihood = (1 - rate) * agrees + rate * (1 - agrees)
            off = (parameters[1] - np.log(_PRIOR_SCALE)) / _PRIOR_SPREAD
            prior = PRIOR_WRONG * np.log(rate) + PRIOR_RIGHT * np.log1p(-rate) - 0.5 * off**2
            in_rate = counts @ ((1 - 2 * agrees) / likelihood)
            in_rate += PRIOR_WRONG / rate - PRIOR_RIGHT / (1 - rate)
            bend = agrees * (1 - agrees) * centers / scale
            in_scale = -(1 - 2 * rate) * (counts @ (bend / likelihood)) - off / _PRIOR_SPREAD
            slope = np.array([in_rate * rate * (1 - 2 * rate), in_scale])
            return -float(counts @ np.log(likelihood) + prior) / len(margins), -slope / len(margins)

        # Two starts: few wrong answers and blunt distances, or many and sharp ones.
        starts = [(logit(0.1), np.log(0.3)), (logit(0.6), np.log(0.03))]
        ends = [
            minimize(cost, start, jac=True, method="L-BFGS-B", bounds=_BOUNDS) for start in starts
        ]
        best = min(ends, key=lambda end: end.fun).x
        return cls(0.5 * float(expit(best[0])), float(np.exp(best[1])))

    def suspicion(self, margins: FloatArray) -> FloatArray:
        """Return the probability that each answer was turned round, given its margin.

        Bayes: ``flip_rate (1 - p) / (flip_rate (1 - p) + (1 - flip_rate) p)``. It falls as the
        margin grows; a tie tells nothing and has the flip rate itself.
        """
        return expit(logit(self.flip_rate) - margins / self.scale)


def relative_margins(near: FloatArray, far: FloatArray) -> FloatArray:
    """Return ``(far - near) / (far + near)``, between -1 and 1; 0 where both are zero."""
    total = near + far
    return (far - near) / np.where(total > 0, total, 1.0)

"""The parameters of a fit after all checks, with every "auto" resolved."""

from collections.abc import Callable, Hashable
from dataclasses import KW_ONLY, dataclass, fields
from typing import Literal

import numpy as np

from mdaml._typing import FloatArray
from mdaml.constraints.labels import Pairing

Callback = Callable[[int, float], bool | None]


@dataclass(frozen=True)
class Spec:
    """What to minimise, where to start and when to stop; nothing is checked or derived again.

    What is off unless it is asked for has a default here. All other numbers come from the table.
    """

    # Eq. (7)
    n_modes: int  # or, if they are to be counted, the most of them
    eta: float
    triplet_weight: float
    ridge: float
    rank: int | None = None  # of the metrics; None: full rank

    # Beyond Eq. (7)
    anchor: float = 0.0  # of the divergence to the anchor, in units of the mean loss
    barrier: bool = True  # of the anchor, against directions that vanish at low rank
    anchors: tuple[float, ...] = ()  # to choose from before the fit, the strongest first
    is_measured: bool = True  # whether the gain on held-out points or samples is measured
    keep_start: bool = False  # nothing leads the start by more than chance: learn nothing
    count_modes: bool = False  # in the samples, before the fit
    mean_weight: bool = False  # triplet_weight is that of a mean comparison of the start
    shrinkage: float = 0.0  # how far a learned metric goes back to the start, 1 being all the way
    shrinkages: tuple[float, ...] = ()  # to choose from before the fit
    floor: float = 0.0  # the least share of its weight that a comparison keeps whatever the modes

    # The start. A metric is None for the identity, or a positive definite matrix.
    metric: Literal["whitened"] | FloatArray | None = None
    scale_metric: bool = False  # take the best multiple of it where that is far better
    weights: Literal["gmm", "kmeans"] | FloatArray = "gmm"

    # Triplets from labels
    neighbors: bool = True  # the nearest samples under the metric so far, or random ones
    n_refresh: int = 0  # times that neighbours are searched again
    _: KW_ONLY
    n_similar: int
    n_dissimilar: int
    pairing: Pairing

    # The solver
    max_iter: int
    max_inner_iter: int
    tol: float
    callback: Callback | None = None

    @property
    def rounds_key(self) -> tuple[Hashable, ...]:
        """What the rounds of a run depend on: those with equal keys are the same, bit by bit.

        That is everything but what was chosen from, what is measured, and the shrinkage.
        """
        return tuple(
            _hashable(getattr(self, field.name))
            for field in fields(self)
            if field.name not in _NOT_OF_ROUNDS
        )


_NOT_OF_ROUNDS = ("anchors", "is_measured", "shrinkage", "shrinkages")


def _hashable(value: object) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    assert isinstance(value, Hashable)
    return value

"""How strongly a metric is held near its start: chosen by comparisons of points held out."""

from dataclasses import replace

import numpy as np

from mdaml._typing import FloatArray
from mdaml.constraints.value import Constraints
from mdaml.solver.alternation import Alternation
from mdaml.solver.modes import Modes
from mdaml.solver.spec import Spec
from mdaml.solver.start import start_metric, start_modes
from mdaml.solver.store import Store

_MOST_COMPARISONS = 20_000
_MOST_ROWS = 100_000  # beyond so many samples only those that are compared take part
_FEW_COMPARISONS = 2_000  # up to here every point is held out once, beyond them a quarter
_N_PARTS = 4
_ROUNDS = 1
# Multiples of the metric: the loss has a margin, and only the order of distances is to be judged.
_MULTIPLES = (0.3, 1.0, 3.0, 10.0)


def choose_anchor(spec: Spec, store: Store, said: Constraints, rng: np.random.RandomState) -> float:
    """Return the strength of the anchor under which held-out comparisons lose least.

    Points are held out with all comparisons of which they are the reference, the first of their
    members. All strengths start from the metric of the next stronger one.
    """
    if said.n_constraints > _MOST_COMPARISONS:
        said = said.select(np.sort(rng.permutation(said.n_constraints)[:_MOST_COMPARISONS]))
    if store.shape[0] > _MOST_ROWS:
        spec, store, said = _compared_only(spec, store, said)
    reference = np.concatenate([said.triplets[:, 0], said.quadruplets[:, 0]])
    part_of = rng.permutation(said.n_points)[reference] % _N_PARTS
    n_used = _N_PARTS if said.n_constraints <= _FEW_COMPARISONS else 1
    losses = np.zeros(len(spec.anchors))
    for part in range(n_used):
        out = part_of == part
        if out.any() and not out.all():
            losses += _losses(spec, store, said.select(~out), said.select(out), rng)
    return spec.anchors[int(np.argmin(losses))]


def _compared_only(spec: Spec, store: Store, said: Constraints) -> tuple[Spec, Store, Constraints]:
    """Return the problem of the samples that are compared: a step takes products with all."""
    given = said.triplets if len(said.triplets) else said.quadruplets
    rows, numbers = np.unique(given, return_inverse=True)
    numbers = numbers.reshape(given.shape)
    if isinstance(spec.weights, np.ndarray):
        spec = replace(spec, weights=spec.weights[rows])
    if len(said.triplets):
        return spec, store.part(rows), Constraints.of_triplets(numbers, len(rows))
    return spec, store.part(rows), Constraints.of_quadruplets(numbers, said.weights, len(rows))


def _losses(
    spec: Spec,
    store: Store,
    learned: Constraints,
    held_out: Constraints,
    rng: np.random.RandomState,
) -> FloatArray:
    """Return what held-out comparisons lose under the metric of each strength."""
    to_learn, to_judge = store.compare(learned), store.compare(held_out)
    F, losses = None, []
    modes = start_modes(spec, to_learn, rng)
    for anchor in spec.anchors:
        start = start_metric(replace(spec, anchor=anchor), to_learn, rng)
        F = start.F if F is None else F
        alternation = Alternation(to_learn, start.space, spec, start.anchor)
        state = alternation.run(alternation.start(F, modes), max_iter=_ROUNDS, tol=spec.tol).state
        F = state.F
        losses.append(_lost(to_judge, F, state.modes))
    return np.array(losses)


def _lost(store: Store, F: FloatArray, modes: Modes) -> float:
    """Return the loss of all comparisons under the best multiple of a metric."""
    weights = store.adopt(modes.weights)
    every = store.importances(weights, 1.0)
    scaled = (store.measure(np.sqrt(c) * F, modes.centers) for c in _MULTIPLES)
    return min(store.lost(measured, every)[0] for measured in scaled)

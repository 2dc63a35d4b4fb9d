"""Parameters of a fit for tests of the solver."""

from mdaml import PRESETS, MDaML
from mdaml.solver.spec import Spec


def make_spec(*args, **cells):
    """Return parameters; numbers that are not given are those of most rows of the table."""
    row = PRESETS["comparisons"]
    partners = {name: getattr(row.partners, name) for name in ("n_similar", "n_dissimilar")}
    rounds = {name: getattr(row, name) for name in ("max_iter", "max_inner_iter")}
    usual = {"pairing": row.partners.pairing, "tol": MDaML().tol} | partners | rounds
    return Spec(*args, **usual | cells)

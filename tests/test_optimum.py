"""The best metric next to an anchor: found from every start, and certified."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from suite.models import make_mdaml
from suite.specs import make_spec

from mdaml import MDaML
from mdaml.constraints import Constraints, sample_triplets
from mdaml.solver.alternation import Alternation
from mdaml.solver.modes import Modes
from mdaml.solver.start import start_metric
from mdaml.stores.memory import MemoryStore

ANCHOR = 0.003


@pytest.fixture(scope="module")
def problem():
    """Return digits with memberships in clusters, odd and even numbers compared.

    Many directions are needed that a narrow start nearly erases.
    """
    X, y = load_digits(return_X_y=True)
    X, y = X[:500, X[:500].std(axis=0) > 0], y[:500]
    X = StandardScaler().fit_transform(X)[:, ::3]
    member = KMeans(40, n_init=1, random_state=0).fit_predict(X)
    return np.hstack([X, 3.0 * np.eye(40)[member]]), sample_triplets(y % 2, 3, 3, random_state=0)


def objective_after(problem, **params):
    X, triplets = problem
    cells = {"anchor": ANCHOR, "max_inner_iter": 10, "random_state": 0}
    model = make_mdaml("comparisons", **cells, **params)
    return model.fit(X, triplets=triplets).history_[-1]


@pytest.mark.filterwarnings("ignore")
def test_fits_from_narrow_and_wide_starts_end_at_one_objective(problem):
    d = problem[0].shape[1]
    starts = [1e-3 * np.eye(d), np.eye(d), "identity"]
    values = [objective_after(problem, init_metric=s, max_iter=60, tol=1e-6) for s in starts]
    assert max(values) < 1.01 * min(values)


@pytest.mark.filterwarnings("ignore")
def test_a_default_number_of_rounds_ends_near_the_optimum(problem):
    X, triplets = problem
    default = MDaML(n_modes=1, anchor=ANCHOR).fit(X, triplets=triplets).history_[-1]
    assert default < 1.1 * objective_after(problem, max_iter=60, tol=1e-6)


@pytest.fixture
def alternation(problem):
    X, triplets = problem
    spec = make_spec(n_modes=1, eta=1.1, triplet_weight=6.0, ridge=1e-4, anchor=0.1, floor=1.0)
    store = MemoryStore.of(X).compare(Constraints.of_triplets(triplets, len(X)))
    start = start_metric(spec, store, np.random.RandomState(0))
    modes = Modes(np.zeros((1, X.shape[1])), store.given_weights(np.ones((len(X), 1)), 1.1))
    return Alternation(store, start.space, spec, start.anchor), start.F, modes


def test_the_gap_bounds_how_far_the_optimum_is(alternation):
    fit, F, modes = alternation
    short = fit.run(fit.start(F, modes), max_iter=4, tol=0.0).state
    long = fit.run(short, max_iter=40, tol=0.0).state
    gaps = [fit.gap(state) for state in (short, long)]
    assert 0.0 <= short.value - long.value <= gaps[0] < np.inf
    assert gaps[1] < 1e-3 * long.value


def test_no_gap_is_known_far_from_the_optimum_and_without_an_anchor(alternation):
    fit, F, modes = alternation
    assert fit.gap(fit.start(1e-3 * F, modes)) == np.inf
    paper = Alternation(fit.store, fit.space, fit.spec)
    assert paper.gap(paper.start(F, modes)) == np.inf

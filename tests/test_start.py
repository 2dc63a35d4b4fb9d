"""The first metric: the identity, or a multiple of it where that is far better."""

from dataclasses import replace

import literal
import numpy as np
import pytest

from mdaml import MDaML
from mdaml.alternation import BETTER, NARROWEST, better_start
from mdaml.constraints import sample_triplets
from mdaml.datasets import make_multimodal, make_triplets


def many_features(n_features=120, n_samples=150):
    """Samples of which five features matter, and comparisons by those."""
    X = np.random.default_rng(0).normal(size=(n_samples, n_features))
    answers = make_triplets(X, n_triplets=1500, components=np.eye(n_features)[:5], random_state=0)
    return X, answers[0]


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 40.0])
def test_the_best_multiple_is_the_lowest_of_the_paper_in_loops(
    random_problem, local_problem, scale
):
    given = random_problem(seed=3, n_features=4)
    given = replace(given, X=scale * given.X, centers=scale * given.centers, ridge=0.0)
    local = local_problem(given)
    state = local.start()
    multiple, found = local.problem.rescaled(state)
    mean_sq_dist = 2 * np.mean(np.sum(given.X**2, axis=1))
    parts = (given.centers, given.weights, given.X, given.triplets)
    options = {key: getattr(given, key) for key in ("eta", "triplet_weight", "ridge")}
    M = state.F @ state.F.T
    np.testing.assert_allclose(found.F @ found.F.T, multiple * M)
    factors = np.logspace(np.log10(min(1.0, NARROWEST / mean_sq_dist)), 9, 181)
    lowest = min(literal.objective(factor * M, *parts, **options) for factor in factors)
    assert lowest <= found.value * (1 + 1e-3)
    assert found.value <= 1.2 * lowest


def test_contradictions_do_not_start_at_no_distance_at_all():
    X = np.random.default_rng(0).normal(size=(60, 40))
    T = np.array([np.random.default_rng(i).choice(60, 3, replace=False) for i in range(300)])
    both = np.concatenate([T, T[:, [0, 2, 1]]])
    with pytest.warns(UserWarning, match="the best metric is zero"):
        model = MDaML(1, max_iter=1, max_inner_iter=1).fit(X, triplets=both)
    assert np.trace(model.get_mahalanobis_matrix()) > 0.01


def test_modes_and_importance_stay_when_the_metric_is_rescaled(random_problem, local_problem):
    local = local_problem(random_problem(seed=1))
    state = local.start()
    _, found = local.problem.rescaled(state)
    assert found.modes is state.modes
    assert found.importance is state.importance


def test_with_many_features_the_start_is_a_multiple_of_the_identity():
    X, T = many_features()
    auto = MDaML(1).fit(X, triplets=T[:1000])
    plain = MDaML(1, init_metric="identity").fit(X, triplets=T[:1000])
    assert auto.history_[0] * BETTER < plain.history_[0]
    assert auto.history_[-1] * BETTER < plain.history_[-1]
    assert auto.score_triplets(X, T[1000:]) > plain.score_triplets(X, T[1000:]) + 0.02


@pytest.mark.parametrize("supervision", ["labels", "triplets"])
def test_with_few_features_the_start_is_the_identity(supervision):
    X, y = make_multimodal(random_state=0)
    given = {"y": y}
    if supervision == "triplets":
        given = {"triplets": sample_triplets(y, 3, 3, random_state=0)}
    auto = MDaML(3, random_state=0).fit(X, **given)
    plain = MDaML(3, init_metric="identity", random_state=0).fit(X, **given)
    np.testing.assert_array_equal(auto.history_, plain.history_)
    np.testing.assert_array_equal(auto.components_, plain.components_)


@pytest.mark.parametrize("unit", [1e-4, 1e3])
def test_units_of_the_features_matter_little(unit):
    X, y = make_multimodal(random_state=0)
    T = sample_triplets(y, 3, 3, random_state=0)
    options = {"n_modes": 3, "ridge": 0.0, "random_state": 0}
    usual = MDaML(**options).fit(X, triplets=T).score_triplets(X, T)
    found = MDaML(**options).fit(unit * X, triplets=T).score_triplets(unit * X, T)
    assert found > usual - 0.03


def test_the_history_is_that_of_the_start_that_was_chosen():
    X, T = many_features()
    model = MDaML(2, random_state=0).fit(X, triplets=T)
    assert len(model.history_) == 1 + 3 * model.n_iter_
    assert np.all(np.diff(model.history_) <= 0)


def test_the_callback_counts_every_round_once():
    X, T = many_features()
    seen = []
    model = MDaML(2, callback=lambda n, value: seen.append((n, value)), random_state=0)
    model.fit(X, triplets=T)
    assert [n for n, _ in seen] == list(range(1, model.n_iter_ + 1))
    assert [value for _, value in seen] == model.history_[3::3].tolist()


def test_a_callback_may_stop_after_the_first_round():
    X, T = many_features()
    model = MDaML(2, callback=lambda *_: True, random_state=0).fit(X, triplets=T)
    assert model.n_iter_ == 1


def test_a_wide_start_is_kept_where_one_round_makes_it_good(random_problem, local_problem):
    """Both starts are tried; the lower value alone does not decide."""
    start = local_problem(random_problem(seed=5)).start()

    class Trap:
        """The multiple is far better at the start, and no better after a round."""

        def rescaled(self, state):
            return 0.1, replace(state, value=state.value / 8)

        def move_centers(self, state):
            return state

        move_weights = move_centers

        def move_metric(self, state):
            return replace(state, value=min(state.value, 0.01))

    start = replace(start, value=5.0)
    assert better_start(Trap(), start) is start

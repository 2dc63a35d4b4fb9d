"""MDaML that chooses its own parameters, by what is held out."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mdaml import MDaML, MDaMLCV
from mdaml.datasets import load_dataset, make_triplets
from mdaml.estimators import _mdaml_cv as module
from mdaml.estimators._mdaml_cv import FROM_LABELS, FROM_TRIPLETS, Candidate, search


# Checks fit noise and few samples, of which MDaML rightly warns.
@pytest.mark.filterwarnings("ignore:The weighted mean loss:UserWarning")
@pytest.mark.filterwarnings("ignore:triplet_weight=.* is below lambda1_critical_:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# One check is left out by scikit-learn unless SCIPY_ARRAY_API is set, as `make test` does.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([MDaMLCV()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def vehicle():
    X, y = load_dataset("vehicle", return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def answers():
    """Comparisons answered by two of six features, a tenth of them wrong."""
    X = np.random.default_rng(0).normal(size=(150, 6))
    triplets, _ = make_triplets(
        X, n_triplets=2000, components=np.eye(6)[:2], wrong=0.1, random_state=0
    )
    return X, triplets


def fit(*data, **options):
    with warnings.catch_warnings():
        # Few rounds are what the search is made of.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MDaMLCV(random_state=0).fit(*data, **options)


def test_the_best_estimator_is_mdaml_with_the_best_parameters(vehicle):
    X, y = vehicle
    model = fit(X, y)
    assert isinstance(model.best_estimator_, MDaML)
    params = model.best_estimator_.get_params()
    assert model.best_params_.items() <= params.items()
    np.testing.assert_array_equal(model.components_, model.best_estimator_.components_)
    np.testing.assert_array_equal(model.transform(X), model.best_estimator_.transform(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        again = clone(model.best_estimator_).fit(X, y)
    np.testing.assert_array_equal(again.components_, model.components_)


def test_the_best_has_the_highest_score_among_those_tried_on_all_splits(vehicle):
    model = fit(*vehicle)
    results = model.cv_results_
    assert len(results["params"]) == len(results["mean_test_score"]) == len(results["n_splits"])
    assert results["params"][0] == model.best_params_
    finalists = results["mean_test_score"][results["n_splits"] == 3]
    assert model.best_score_ == results["mean_test_score"][0]
    is_default = model.best_params_ == FROM_LABELS[0].params()
    assert model.best_score_ == finalists.max() or is_default
    assert 0.6 < model.best_score_ < 1.0


def test_same_seed_same_choice(vehicle):
    first, second = fit(*vehicle), fit(*vehicle)
    assert first.best_params_ == second.best_params_
    np.testing.assert_array_equal(first.components_, second.components_)


def test_comparisons_are_scored_by_those_held_out(answers):
    X, triplets = answers
    model = fit(X, triplets=triplets)
    assert model.best_params_["sampling"] == "random"
    # At most 90 % of the answers are right, and about 70 % hold for Euclidean distance.
    assert 0.8 < model.best_score_ < 0.93
    clean, _ = make_triplets(X, n_triplets=2000, components=np.eye(6)[:2], random_state=1)
    assert model.score_triplets(X, clean) > 0.9


def test_wrong_comparisons_do_less_harm_than_with_many_modes():
    X = np.random.default_rng(0).normal(size=(300, 8))
    hidden = np.eye(8)[:4]
    noisy, _ = make_triplets(X, n_triplets=2000, components=hidden, wrong=0.15, random_state=0)
    clean, _ = make_triplets(X, n_triplets=2000, components=hidden, random_state=1)
    chosen = fit(X, triplets=noisy).score_triplets(X, clean)
    plain = MDaML(10, random_state=0).fit(X, triplets=noisy).score_triplets(X, clean)
    assert chosen > 0.9 > plain


def test_no_held_out_sample_reaches_a_fit(vehicle, monkeypatch):
    X, y = vehicle
    parts = []
    original = module._class_part

    def watch(X_train, y_train, X_valid, *rest):
        parts.append((X_train, X_valid))
        return original(X_train, y_train, X_valid, *rest)

    monkeypatch.setattr(module, "_class_part", watch)
    fit(X, y)
    assert len(parts) == 3
    rows = {row.tobytes() for row in X}
    held_out = [{row.tobytes() for row in valid} for _, valid in parts]
    for (train, _), valid in zip(parts, held_out, strict=True):
        assert not {row.tobytes() for row in train} & valid
        assert valid < rows
    assert not held_out[0] & held_out[1]


def test_no_held_out_comparison_reaches_a_fit(answers, monkeypatch):
    X, triplets = answers
    parts = []
    original = module._triplet_part

    def watch(samples, train, held_out, rng):
        parts.append((set(map(tuple, train)), set(map(tuple, held_out))))
        return original(samples, train, held_out, rng)

    monkeypatch.setattr(module, "_triplet_part", watch)
    distinct = np.unique(triplets, axis=0)
    fit(X, triplets=distinct)
    everything = set(map(tuple, distinct))
    for train, held_out in parts:
        assert not train & held_out
        assert train | held_out == everything
    assert set.union(*(held_out for _, held_out in parts)) == everything


@dataclass(frozen=True)
class Run:
    """Stands for a problem and its state: search only hands them on."""

    candidate: Candidate
    ridge: float = 0.0
    F: None = None
    modes: None = None

    def start(self, _F, _modes):
        return self


class KnownScores:
    """A split on which the score of every candidate is known beforehand."""

    def __init__(self, score):
        self.X, self.score_of, self.n_starts = np.zeros((50, 2)), score, 0

    def start(self, candidate):
        self.n_starts += 1
        return Run(candidate), Run(candidate)

    def refresh(self, candidate, _state):
        return Run(candidate), Run(candidate)


@pytest.mark.parametrize("winner", range(len(FROM_LABELS)))
def test_a_candidate_that_is_best_everywhere_is_found(winner, monkeypatch):
    monkeypatch.setattr(module, "_advance", lambda problem, state, _rounds: (problem, state))
    monkeypatch.setattr(
        module,
        "_scores",
        lambda parts, runs: [
            part.score_of(run.candidate) for part, (_, run) in zip(parts, runs, strict=True)
        ],
    )
    best = FROM_LABELS[winner]
    parts = [KnownScores(lambda c: right(9 if plain(c) == best else 5)) for _ in range(3)]
    scores = search(parts, FROM_LABELS, 2)
    assert plain(next(iter(scores))) == best
    # All on two splits; the best two, and the defaults, on the third.
    assert [part.n_starts for part in parts] == [len(FROM_LABELS), len(FROM_LABELS), 2]


def plain(candidate):
    """The candidate before a stronger ridge is tried."""
    return replace(candidate, ridge=1e-4)


def right(n, of=10):
    return np.arange(of) < n


def test_the_defaults_of_mdaml_are_the_first_candidates(vehicle):
    X, y = vehicle
    near = MDaML(random_state=0).fit(X, y)
    named = MDaML(**FROM_LABELS[0].params(), random_state=0).fit(X, y)
    np.testing.assert_array_equal(near.components_, named.components_)
    passed = MDaML(random_state=0).fit(X, triplets=near.triplets_)
    named = MDaML(**FROM_TRIPLETS[0].params(), random_state=0).fit(X, triplets=near.triplets_)
    np.testing.assert_array_equal(passed.components_, named.components_)


def test_earlier_candidates_come_first_among_equals():
    scores = {candidate: [right(5)] for candidate in FROM_LABELS}
    assert module._ranked(scores, FROM_LABELS) == list(FROM_LABELS)


def test_a_lead_within_chance_does_not_replace_the_defaults():
    """Of 100 cases that differ, 52 against 48 is chance, 56 against 44 is not."""
    for n_won, clear in ((50, False), (52, False), (54, True), (60, True)):
        assert module._clearly_better([right(n_won, 100)], [~right(n_won, 100)]) is clear
    same = [right(5), right(3)]
    assert not module._clearly_better(same, same)


def test_votes_are_those_of_scikit_learn(vehicle):
    X, y = vehicle[0], np.unique(vehicle[1], return_inverse=True)[1]
    held_out = np.arange(len(X)) % 3 == 0
    knn = KNeighborsClassifier(3).fit(X[~held_out], y[~held_out])
    elected = module._vote(X[held_out], X[~held_out], y[~held_out])
    np.testing.assert_array_equal(elected, knn.predict(X[held_out]))


def test_classes_too_small_to_hold_anything_out_leave_a_plain_choice():
    X, y = np.random.default_rng(0).normal(size=(6, 2)), [0, 0, 1, 1, 2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # six samples of noise: MDaML warns, rightly
        model = MDaMLCV(random_state=0).fit(X, y)
    assert np.isnan(model.best_score_)
    assert model.best_params_["n_modes"] == 1
    assert np.all(np.isfinite(model.components_))


def test_more_modes_than_samples_are_not_tried():
    X, y = make_blobs(11, 2, centers=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few samples to learn from
        model = MDaMLCV(random_state=0).fit(X, y)
    assert all(params["n_modes"] < 10 for params in model.cv_results_["params"])


def test_unlabelled_rows_are_left_out_of_the_search_and_kept_in_the_fit(vehicle):
    X, y = vehicle[0][:200], np.unique(vehicle[1][:200], return_inverse=True)[1]
    model = fit(X, np.where(np.arange(200) % 4 == 0, -1, y))
    assert model.best_estimator_.weights_.shape[0] == 200


def test_large_data_are_searched_on_a_sample(monkeypatch, vehicle):
    sizes = []
    original = module._class_part

    def watch(X_train, *rest):
        sizes.append(len(X_train))
        return original(X_train, *rest)

    monkeypatch.setattr(module, "_class_part", watch)
    monkeypatch.setattr(module, "_MAX_ROWS", 100)
    model = fit(*vehicle)
    assert max(sizes) <= 100
    assert len(model.best_estimator_.weights_) == 846


def test_fewer_components(vehicle):
    model = MDaMLCV(n_components=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert model.fit(*vehicle).transform(vehicle[0]).shape == (846, 3)
    with pytest.raises(ValueError, match="between 1 and 18"):
        MDaMLCV(n_components=19).fit(*vehicle)


def test_pairs_are_refused_with_advice(vehicle):
    with pytest.raises(TypeError, match="MDaMLCV learns from labels"):
        MDaMLCV().fit(vehicle[0], pairs=[[0, 1]], pair_labels=[1])


def test_better_than_euclidean_on_unseen_samples(vehicle):
    X, y = vehicle
    train = np.random.default_rng(0).permutation(len(X)) < 600
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        steps = make_pipeline(MDaMLCV(random_state=0), KNeighborsClassifier(3))
        ours = steps.fit(X[train], y[train]).score(X[~train], y[~train])
    euclidean = KNeighborsClassifier(3).fit(X[train], y[train]).score(X[~train], y[~train])
    assert ours > euclidean + 0.03

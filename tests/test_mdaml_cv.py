"""MDaML that chooses its own parameters, by what is held out."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mdaml import Constraints, Euclidean, MDaML, MDaMLCV
from mdaml.constraints.labels import Classes
from mdaml.datasets import load_dataset, make_triplets
from mdaml.estimators import mdaml_cv as module
from mdaml.estimators import mdaml_folds
from mdaml.estimators.mdaml_cv import FROM_COMPARISONS, FROM_LABELS, search
from mdaml.holdout.samples import share_score, vote_score


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


def fit(*data, options=None, **supervision):
    with warnings.catch_warnings():
        # Few rounds are what the search is made of.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MDaMLCV(random_state=0, **options or {}).fit(*data, **supervision)


@pytest.fixture(scope="module")
def searched(vehicle):
    return fit(*vehicle)


def test_the_best_estimator_is_mdaml_with_the_best_parameters(vehicle, searched):
    X, y = vehicle
    assert isinstance(searched.best_estimator_, MDaML)
    params = searched.best_estimator_.get_params()
    assert searched.best_params_.items() <= params.items()
    np.testing.assert_array_equal(searched.components_, searched.best_estimator_.components_)
    np.testing.assert_array_equal(searched.transform(X), searched.best_estimator_.transform(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        again = clone(searched.best_estimator_).fit(X, y)
    np.testing.assert_array_equal(again.components_, searched.components_)


def test_the_best_has_the_highest_score_among_those_tried_on_all_splits(searched):
    results = searched.cv_results_
    assert len(results["params"]) == len(results["mean_test_score"]) == len(results["n_splits"])
    chosen = {name: v for name, v in results["params"][0].items() if name != "start"}
    assert chosen.items() <= searched.best_params_.items()
    finalists = results["mean_test_score"][results["n_splits"] == 5]
    assert searched.best_score_ == results["mean_test_score"][0]
    is_default = results["params"][0] == {}
    assert searched.best_score_ == finalists.max() or is_default
    assert 0.6 < searched.best_score_ < 1.0


def test_same_seed_same_choice(vehicle, searched):
    again = fit(*vehicle)
    assert again.cv_results_["params"] == searched.cv_results_["params"]
    np.testing.assert_array_equal(again.components_, searched.components_)


def test_comparisons_are_scored_by_those_held_out(answers):
    X, triplets = answers
    model = fit(X, triplets=triplets)
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
    modes = MDaML.paper(10, random_state=0).fit(X, triplets=noisy)
    assert chosen > 0.9 > modes.score_triplets(X, clean)


@pytest.fixture
def watched(monkeypatch):
    """Return lists of the arguments that functions of the module are called with, by name."""
    seen = {}

    def watch(name):
        original, seen[name] = getattr(mdaml_folds, name), []

        def watching(*args):
            seen[name].append(args)
            return original(*args)

        monkeypatch.setattr(mdaml_folds, name, watching)

    for name in ("make_store", "share_score", "_score_of", "Fold"):
        watch(name)
    return seen


def names(X):
    return {row.tobytes() for row in X}


def test_no_held_out_sample_reaches_a_fit(vehicle, watched):
    X, y = vehicle[0][::3], vehicle[1][::3]
    fit(X, y)
    learned_from = [names(args[0]) for args in watched["make_store"]]
    held_out = [names(args[2]) for args in watched["share_score"]]
    assert len(learned_from) == len(held_out) == 5
    for train, valid in zip(learned_from, held_out, strict=True):
        assert not train & valid
        assert valid < names(X)
    assert not held_out[0] & held_out[1]


def listed(supervision):
    """Return every constraint as a tuple."""
    kinds = ("triplets", "pairs", "quadruplets")
    return {(kind, *row) for kind in kinds for row in getattr(supervision, kind).tolist()}


def references(supervision):
    """Return the first points of each question; one of several is its reference."""
    questions = {}
    for kind in ("triplets", "pairs", "quadruplets"):
        for row in getattr(supervision, kind).tolist():
            questions.setdefault(frozenset(row), set()).add(row[0])
    return questions


def test_no_held_out_question_is_in_a_fit_and_no_held_out_point_its_reference(answers, watched):
    X, triplets = answers
    triplets = np.unique(triplets[:600], axis=0)
    pairs, where = np.unique(triplets[:, :2], axis=0, return_index=True)
    quadruplets = np.unique(np.hstack([triplets[:300, :2], triplets[300:600, 1:]]), axis=0)
    supervision = Constraints(
        triplets=triplets,
        pairs=pairs,
        pair_labels=np.where(where % 3 == 0, -1, 1),
        quadruplets=quadruplets,
        n_points=150,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # made up: what is said of some pairs cannot be met
        fit(X, constraints=supervision)
    learned_from = [args[2] for args in watched["Fold"]]
    held_out = [args[1].held_out for args in watched["_score_of"]]
    assert len(learned_from) == len(held_out) == 3
    for train, valid in zip(learned_from, held_out, strict=True):
        known, asked = references(train), references(valid)
        assert not known.keys() & asked.keys()
        sides = [
            {point for points in side.values() if len(points) == 1 for point in points}
            for side in (known, asked)
        ]
        assert not sides[0] & sides[1]
        assert all(points - sides[0] for points in asked.values())
        assert all(points - sides[1] for points in known.values())
        assert listed(train) | listed(valid) == listed(supervision)
    assert set.union(*map(listed, held_out)) == listed(supervision)


class KnownScores:
    """A split on which the score of every candidate is known beforehand."""

    store, supervision, n_at_once = SimpleNamespace(shape=(50, 2)), None, 1
    compares = False

    def __init__(self, score, number):
        self.right, self.n_begun, self.units = score, 0, 10 * number + np.arange(10)

    def begin(self, params):
        self.n_begun += 1
        return params  # its score is that of the candidate

    def go_on(self, run):
        return run


@pytest.mark.parametrize("winner", range(len(FROM_LABELS)))
def test_a_candidate_that_is_best_everywhere_is_found(winner):
    best = FROM_LABELS[winner]
    parts = [KnownScores(lambda c: right(9 if c == best else 5), n) for n in range(3)]
    tried, scores, gain = search(parts, FROM_LABELS, 2)
    assert tried[0] == best
    assert np.mean(scores[0]) == 0.9
    assert gain.is_beyond_chance is (best != module.THE_START)
    # All on one split; the best four and the start on two, of which the best two, the defaults and
    # the start on the third.
    assert [part.n_begun for part in parts] == [len(FROM_LABELS), 5, 3]


def test_a_start_that_fails_on_a_later_split_is_left_out():
    class Refusing(KnownScores):
        def begin(self, params):
            if "start" in params:
                raise ValueError("singular")
            return super().begin(params)

    def score(params):
        return right(9 if params.get("start") == "GMML" else 7 if params == FROM_LABELS[2] else 3)

    parts = [KnownScores(score, 0), KnownScores(score, 1), Refusing(score, 2)]
    tried, scores, _ = search(parts, FROM_LABELS, 2)
    assert tried[0] == FROM_LABELS[2]
    assert len(scores[tried.index({"start": "GMML"})]) == 2  # tried on two splits alone


def right(n, of=10):
    return (np.arange(of) < n).astype(float)


def test_the_defaults_of_mdaml_are_the_first_candidates():
    assert FROM_LABELS[0] == {}
    assert all(candidates[0] == {} for candidates in FROM_COMPARISONS.values())


def test_the_start_is_a_candidate_for_every_goal(vehicle):
    assert all(module.THE_START in c for c in (FROM_LABELS, *FROM_COMPARISONS.values()))
    X = vehicle[0][:60]
    triplets, _ = make_triplets(X, n_triplets=300, random_state=0)
    model = MDaML(**module.THE_START).fit(X, triplets=triplets)
    np.testing.assert_array_equal(model.components_, np.eye(18))


@pytest.mark.parametrize("rank", [None, 2])
def test_in_the_search_the_start_has_one_mode_and_is_not_moved(vehicle, rank):
    X, y = vehicle[0][::3], np.unique(vehicle[1][::3], return_inverse=True)[1]
    own = {"goal": "auto", "n_components": rank}
    classes = Classes.from_labels("MDaMLCV", y)
    part = mdaml_folds.folds_of_classes(X, classes, None, own, np.random.RandomState(0))[0]
    run = part.begin(module.THE_START)
    assert run.spec.n_modes == 1
    moved = run.F @ run.F.T
    start = run.alternation.origin @ run.alternation.origin.T
    cosine = np.vdot(moved, start) / np.linalg.norm(moved) / np.linalg.norm(start)
    assert cosine > (0.999999 if rank is None else 0.99)


def test_where_nothing_beats_the_start_it_is_returned_with_a_warning():
    X = np.random.default_rng(0).normal(size=(90, 4))
    triplets, _ = make_triplets(X, n_triplets=600, random_state=0)  # by Euclidean distance
    with pytest.warns(UserWarning, match="no candidate led the distance before learning"):
        model = MDaMLCV(random_state=0).fit(X, triplets=triplets)
    assert model.best_params_ == module.THE_START
    assert not model.gain_["is_beyond_chance"]
    np.testing.assert_array_equal(model.components_, np.eye(4))


def test_a_metric_of_another_method_can_be_the_start(vehicle):
    X, y = vehicle[0][::3], vehicle[1][::3]
    for name in ("GMML", "LFDA", "DMLMJ"):
        M = mdaml_folds.other_start(name, X, Classes.from_labels("MDaMLCV", y))
        assert np.linalg.eigvalsh(M).min() > 0
        variances = np.cov(X.T, bias=True)
        assert np.vdot(M, variances) == pytest.approx(np.trace(variances), rel=1e-9)


def test_the_goal_decides_what_is_scored(answers):
    X, triplets = answers
    agreement = fit(X, triplets=triplets)
    neighbors = fit(X, triplets=triplets, options={"goal": "neighbors"})
    assert neighbors.best_estimator_.goal == "neighbors"
    assert neighbors.best_estimator_.floor_ < agreement.best_estimator_.floor_
    with pytest.raises(ValueError, match=r"MDaMLCV\(goal=...\) must be one of"):
        MDaMLCV(goal="search").fit(X, triplets=triplets)


def test_earlier_candidates_come_first_among_equals():
    scores = [[right(5)] for _ in FROM_LABELS]
    assert module._ranked(scores, range(len(scores))) == list(range(len(scores)))


def test_votes_are_those_of_scikit_learn(vehicle):
    X, y = vehicle[0], np.unique(vehicle[1], return_inverse=True)[1]
    F = np.random.default_rng(0).normal(size=(18, 5))
    held_out = np.arange(len(X)) % 3 == 0
    sides = X[~held_out], y[~held_out], X[held_out], y[held_out]
    right, shares = vote_score(*sides), share_score(*sides)
    for factor in (np.eye(18), F):
        knn = KNeighborsClassifier(3).fit(X[~held_out] @ factor, y[~held_out])
        elected = knn.predict(X[held_out] @ factor)
        np.testing.assert_array_equal(right(factor), elected == y[held_out])
        probable = knn.predict_proba(X[held_out] @ factor)
        np.testing.assert_allclose(shares(factor), probable[np.arange(held_out.sum()), y[held_out]])


def test_classes_too_small_to_hold_anything_out_leave_a_plain_choice():
    X, y = np.random.default_rng(0).normal(size=(4, 2)), [0, 0, 1, 2]
    with pytest.warns(UserWarning, match="Too little to learn from: too few rows of each class"):
        model = MDaMLCV(random_state=0).fit(X, y)
    assert np.isnan(model.best_score_)
    assert model.best_params_ == {}
    assert model.start_kept_
    assert np.all(np.isfinite(model.components_))


def test_more_modes_than_samples_are_not_tried():
    X, y = make_blobs(11, 2, centers=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few samples to learn from
        model = MDaMLCV(random_state=0).fit(X, y)
    assert all(params.get("n_modes", 1) < 10 for params in model.cv_results_["params"])


def test_unlabelled_rows_are_left_out_of_the_search_and_kept_in_the_fit(vehicle):
    X, y = vehicle[0][:200], np.unique(vehicle[1][:200], return_inverse=True)[1]
    model = fit(X, np.where(np.arange(200) % 4 == 0, -1, y))
    assert model.best_estimator_.weights_.shape[0] == 200


def test_a_single_question_leaves_a_plain_choice(answers):
    X, triplets = answers
    few = triplets[[0, 0, 0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is hardly anything to learn from
        model = fit(X, triplets=few)
    assert np.isnan(model.best_score_)
    assert model.best_params_ == {}


def test_comparisons_of_two_points_are_too_few_to_leave_the_start(answers):
    X, triplets = answers
    few = triplets[triplets[:, 0] < 2]
    with pytest.warns(UserWarning, match="Nothing was learned"):
        model = fit(X, triplets=few)
    # Two points would be two units: the questions are held out instead.
    assert model.gain_["n_units"] == len({frozenset(row) for row in few.tolist()})
    np.testing.assert_array_equal(model.components_, np.eye(6))


def test_large_data_are_searched_on_a_sample(monkeypatch, vehicle, watched):
    monkeypatch.setattr(mdaml_folds, "_MAX_ROWS", 600)
    model = fit(*vehicle)
    assert [len(args[0]) for args in watched["make_store"]] == [480]  # once, a fifth held out
    assert set(model.cv_results_["n_splits"]) == {1}
    assert len(model.best_estimator_.weights_) == 846


def test_fewer_components(vehicle):
    X, y = vehicle[0][::3], vehicle[1][::3]
    assert fit(X, y, options={"n_components": 3}).transform(X).shape == (len(X), 3)
    with pytest.raises(ValueError, match="between 1 and 18"):
        MDaMLCV(n_components=19).fit(X, y)


@pytest.fixture(scope="module")
def forms(answers):
    """Return what two of six features say, in every form."""
    X, triplets = answers
    Y, rng = X[:, :2], np.random.default_rng(2)
    pairs = rng.permuted(np.tile(np.arange(150), (400, 1)), axis=1)[:, :4]
    near, far = (np.sum((Y[pairs[:, n]] - Y[pairs[:, n + 1]]) ** 2, axis=1) for n in (0, 2))
    labels = np.where(near < np.median(near), 1, -1)
    quadruplets = np.where((near < far)[:, None], pairs, pairs[:, [2, 3, 0, 1]])
    arrays = {
        "pairs": {"pairs": pairs[:, :2], "pair_labels": labels},
        "quadruplets": {"quadruplets": quadruplets},
        "weighted": {
            "triplets": triplets[:400],
            "constraint_weight": rng.uniform(0.5, 2.0, 400),
        },
    }
    mixed = arrays["pairs"] | {"triplets": triplets[:200], "quadruplets": quadruplets[:100]}
    return arrays | {"constraints": {"constraints": Constraints(**mixed, n_points=150)}}


# At other ranks and on a device: test_combinations.py.
@pytest.mark.parametrize("form", ["pairs", "quadruplets", "weighted", "constraints"])
def test_parameters_are_chosen_for_every_form(answers, forms, form):
    X = answers[0]
    clean, _ = make_triplets(X, n_triplets=1000, components=np.eye(6)[:2], random_state=1)
    model = fit(X, **forms[form])
    assert 0.75 < model.best_score_ <= 1.0
    euclidean = Euclidean().fit(X).score_triplets(X, clean)
    assert model.score_triplets(X, clean) > 0.85 > euclidean


def test_better_than_euclidean_on_unseen_samples(vehicle):
    X, y = vehicle
    train = np.random.default_rng(0).permutation(len(X)) < 600
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        steps = make_pipeline(MDaMLCV(random_state=0), KNeighborsClassifier(3))
        ours = steps.fit(X[train], y[train]).score(X[~train], y[~train])
    euclidean = KNeighborsClassifier(3).fit(X[train], y[train]).score(X[~train], y[~train])
    assert ours > euclidean + 0.03

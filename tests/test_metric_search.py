"""Parameters chosen by what is held out."""

import pickle
import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mdaml import DMLMJ, GMML, KISSME, LFDA, LMNN, DMLdc, DMLeig, Euclidean, MDaML, Partners
from mdaml.constraints import Constraints
from mdaml.datasets import load_dataset, make_triplets
from mdaml.model_selection import (
    ConstraintKFold,
    MetricSearchCV,
    PointKFold,
    Split,
    _ground,
    _runs,
    _trials,
    hit_rate_at_k,
    knn_accuracy,
    map_at_r,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def answers():
    """Comparisons answered by two of five features, some asked twice or contradicted."""
    X = np.random.default_rng(0).normal(size=(60, 5))
    triplets, _ = make_triplets(X, n_triplets=400, components=np.eye(5)[:2], random_state=0)
    again = np.concatenate([triplets, triplets[:50], triplets[:30][:, [0, 2, 1]]])
    pairs = np.concatenate([triplets[:80, :2], triplets[:40, [1, 0]], triplets[:80, [0, 2]]])
    labels = np.repeat([1, -1], [120, 80])
    return X, Constraints(
        triplets=again, pairs=pairs, pair_labels=labels, quadruplets=[[0, 1, 2, 3]]
    )


@pytest.fixture(scope="module")
def balance():
    return load_dataset("balance", return_X_y=True)


class Recorder(GMML):
    """Remembers every fit, in whatever copy it is made."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y=None, **weak):
        self.seen.append((np.asarray(X), y, weak))
        return super().fit(X, y, **weak)


@pytest.fixture
def recorder():
    Recorder.seen.clear()
    return Recorder()


def asked(constraints, X):
    """What is asked, by the coordinates of the points."""
    names = [row.tobytes() for row in np.asarray(X)]
    found = set()
    for a, b, c, d in constraints.comparisons():
        found.add(frozenset([frozenset([names[a], names[b]]), frozenset([names[c], names[d]])]))
    return found | {frozenset([names[a], names[b]]) for a, b in constraints.pairs}


@pytest.mark.filterwarnings("ignore:Nothing was learned")  # a sixteenth is left of the answers
@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.parametrize("cv", [ConstraintKFold(3, random_state=0), PointKFold(2, random_state=0)])
def test_nothing_held_out_reaches_a_fit(answers, recorder, cv, in_pipeline):
    X, supervision = answers
    scales = []

    class Scaler(StandardScaler):
        def fit(self, X, y=None):
            scales.append(X.copy())
            return super().fit(X, y)

    estimator = make_pipeline(Scaler(), recorder) if in_pipeline else recorder
    grid = {"recorder__t" if in_pipeline else "t": [0.3, 0.6]}
    MetricSearchCV(estimator, grid, cv=cv, refit=False).fit(X, constraints=supervision)
    splits = list(cv.split(supervision))
    assert len(Recorder.seen) == 2 * len(splits)
    # Those of the start, which the search scores as well, come last.
    fitted_to = scales if in_pipeline else [samples for samples, _, _ in Recorder.seen]
    fitted_to = fitted_to[: len(Recorder.seen)]
    for n, (samples, (_, y, weak)) in enumerate(zip(fitted_to, Recorder.seen, strict=True)):
        split = splits[n // 2]
        np.testing.assert_array_equal(samples, X[split.train_points])
        assert y is None
        held_out = asked(split.test, X[split.test_points])
        assert held_out
        assert not asked(weak["constraints"], samples) & held_out
        if isinstance(cv, PointKFold):
            rows = {row.tobytes() for row in samples}
            assert not rows & {row.tobytes() for row in X[split.test_points]}


def test_no_held_out_sample_or_label_reaches_a_fit(balance, recorder):
    X, y = balance
    # Loud features that say nothing: something is learned. They make all rows differ, too.
    X = np.column_stack([X, 5.0 * np.random.default_rng(0).normal(size=(len(X), 3))])
    cv = PointKFold(3, random_state=0)
    MetricSearchCV(recorder, {"t": [0.3, 0.6]}, cv=cv).fit(X, y)
    splits = list(cv.split(y=y))
    *tried, last = Recorder.seen
    assert len(tried) == 6
    for n, (samples, labels, _) in enumerate(tried):
        np.testing.assert_array_equal(samples, X[splits[n // 2].train_points])
        np.testing.assert_array_equal(labels, y[splits[n // 2].train_points])
    np.testing.assert_array_equal(last[0], X)


def test_second_stage_goes_on_from_the_first_rounds(answers, monkeypatch):
    X, supervision = answers
    made, rounds = [], []
    fit, start, advance = _ground.Ground.fit, _runs.Problem.start, _runs.Run.advance

    def watch(ground, model, **how):
        made.append((ground.sides[0][0].tobytes(), model.triplet_weight, model.max_iter))
        return fit(ground, model, **how)

    monkeypatch.setattr(_ground.Ground, "fit", watch)
    monkeypatch.setattr(
        _runs.Problem, "start", lambda self, *a: rounds.append(self) or start(self, *a)
    )
    monkeypatch.setattr(_runs.Run, "advance", lambda self, n: rounds.append(n) or advance(self, n))
    cv = PointKFold(2, random_state=0)
    grid = {"triplet_weight": [3.0, 10.0, 30.0, 100.0]}
    estimator = MDaML(1, anchor=0.1)
    MetricSearchCV(estimator, grid, cv=cv, random_state=0, refit=False).fit(
        X, constraints=supervision
    )
    assert len(made) == 2 * (4 + 3)
    assert len(set(made)) == 2 * 4  # parameters are those of the candidates
    assert sum(isinstance(each, _runs.Problem) for each in rounds) == 2 * 4
    assert rounds.count(2) == 2 * 4
    assert rounds.count(8) == 2 * 3


def test_candidates_with_the_same_rounds_are_one_run(balance, monkeypatch):
    X, y = balance
    begun = []
    start = _runs.Problem.start
    monkeypatch.setattr(
        _runs.Problem, "start", lambda self, *a: begun.append(self) or start(self, *a)
    )
    grid = {"n_modes": [1, 2], "shrinkage": [0.0, 0.3, 0.6, 1.0]}
    search = MetricSearchCV(MDaML(), grid, cv=2, random_state=0, refit=False)
    scores = search.fit(X, y).cv_results_["mean_test_score"]
    assert len(begun) == 2 * 2 * 2  # splits, modes, and to learn or to keep the start
    begun.clear()
    monkeypatch.setattr(_runs, "_MOST_BYTES", 0)
    np.testing.assert_array_equal(search.fit(X, y).cv_results_["mean_test_score"], scores)
    assert len(begun) == 2 * 8


def test_those_far_behind_on_the_first_split_are_not_tried_on_others(answers):
    X, _ = answers
    supervision, _ = make_triplets(X, n_triplets=3000, components=np.eye(5)[:2], random_state=1)
    grid = {"anchor": [1e4, 0.03, 0.01, 1e3, 0.02]}
    results = (
        MetricSearchCV(MDaML(), grid, cv=3, random_state=0).fit(X, triplets=supervision).cv_results_
    )
    scores = np.array([results[f"split{n}_test_score"] for n in range(3)])
    given_up = np.array([True, False, False, True, False])
    np.testing.assert_array_equal(np.isnan(scores[1:]), [given_up] * 2)
    np.testing.assert_array_equal(results["finished"], ~given_up)
    np.testing.assert_array_equal(results["mean_test_score"][given_up], scores[0, given_up])
    assert results["rank_test_score"][given_up].min() == 4
    assert np.all(results["mean_fit_time"] > 0)
    # A function that scores as a whole does not say by how much chance decides.
    by_function = MetricSearchCV(
        MDaML(),
        grid,
        cv=3,
        scoring=lambda model, X, supervision: model.score_triplets(X, supervision.triplets),
    )
    assert not np.isnan(
        by_function.fit(X, triplets=supervision).cv_results_["split2_test_score"]
    ).any()


@pytest.mark.slow
def test_finished_candidates_score_as_if_fitted_in_one_go(answers):
    X, supervision = answers
    grid = {"triplet_weight": [30.0, 300.0], "ridge": [1e-4, 1e-2, 1.0]}
    search = partial(MetricSearchCV, MDaML(), grid, cv=3, random_state=0)
    staged = search().fit(X, constraints=supervision)
    whole = search(warm_start=False).fit(X, constraints=supervision)
    finished = staged.cv_results_["finished"]
    assert finished.sum() == 3
    assert whole.cv_results_["finished"].all()
    for n in range(3):
        one, other = (s.cv_results_[f"split{n}_test_score"][finished] for s in (staged, whole))
        np.testing.assert_array_equal(one, other)
    # The last fit starts from nothing, whatever came before.
    assert staged.best_estimator_.get_params()["init_metric"] == "auto"
    if staged.best_params_ == whole.best_params_:
        np.testing.assert_array_equal(staged.components_, whole.components_)


def test_of_many_labelled_samples_only_the_best_candidates_search_neighbors_again(
    balance, monkeypatch
):
    X, y = (part[::2] for part in balance)
    grid = {"n_modes": [1, 2], "triplet_weight": [30.0, 300.0, 3000.0]}
    search = partial(MetricSearchCV, MDaML(), grid, cv=2, random_state=0)
    whole = search().fit(X, y)
    assert whole.cv_results_["finished"].all()  # few samples: all are fitted to the end
    monkeypatch.setattr(_ground, "_MANY_SAMPLES", len(X) - 1)
    staged = search().fit(X, y)
    finished = staged.cv_results_["finished"]
    assert finished.sum() == 3
    scores = [s.cv_results_["mean_test_score"] for s in (staged, whole)]
    np.testing.assert_array_equal(scores[0][finished], scores[1][finished])
    np.testing.assert_array_equal(
        search(warm_start=False).fit(X, y).cv_results_["mean_test_score"], scores[1]
    )


def test_first_rounds_share_one_choice_and_finalists_make_their_own(answers, monkeypatch):
    X, supervision = answers
    chosen = []
    choose = _ground.Posed.choose
    monkeypatch.setattr(_ground.Posed, "choose", lambda *a: chosen.append(a) or choose(*a))
    grid = {"triplet_weight": [3.0, 10.0, 30.0, 100.0]}
    cv = PointKFold(2, random_state=0)
    search = MetricSearchCV(MDaML(1), grid, cv=cv, random_state=0, refit=False)
    search.fit(X, constraints=supervision)
    # The first one on each split, and those finalists of which it is none.
    others = search.cv_results_["finished"][1:].sum()
    assert len(chosen) == 2 * (1 + others)
    asked = {(id(posed.supervision), posed.spec.rounds_key) for posed, _ in chosen}
    assert len(asked) == len(chosen)


def test_after_first_rounds_some_of_many_held_out_samples_are_scored(balance, monkeypatch):
    X, y = (part[::2] for part in balance)
    grid = {"triplet_weight": [3.0, 30.0, 300.0, 3000.0]}
    monkeypatch.setattr(_ground, "_MANY_SAMPLES", len(X) - 1)
    search = partial(MetricSearchCV, MDaML(), grid, cv=2, random_state=0)
    whole = search().fit(X, y)
    monkeypatch.setattr(_ground, "_MOST_VOTED_ON", 50)
    some = search().fit(X, y)
    scores = [s.cv_results_["split0_test_score"] for s in (some, whole)]
    left_out = ~some.cv_results_["finished"]
    assert left_out.any()
    np.testing.assert_allclose(50 * scores[0][left_out] % 1, 0, atol=1e-9)
    both = some.cv_results_["finished"] & whole.cv_results_["finished"]
    np.testing.assert_array_equal(scores[0][both], scores[1][both])


def test_candidates_of_mdaml_score_as_each_would_alone(balance):
    X, y = balance
    cv = PointKFold(2, random_state=0)
    grid = {"n_modes": [1, 3], "partners": [Partners(n_similar=2), Partners()]}
    search = MetricSearchCV(MDaML(random_state=0), grid, cv=cv, refit=False).fit(X, y)
    for n, split in enumerate(cv.split(y=y)):
        train, test = split.train_points, split.test_points
        for params, score in zip(
            search.cv_results_["params"],
            search.cv_results_[f"split{n}_test_score"],
            strict=True,
        ):
            alone = MDaML(**params, random_state=0).fit(X[train], y[train])
            assert score == knn_accuracy(alone, X[test], y[test], gallery=(X[train], y[train]))


def test_results_are_those_of_a_grid_search(answers):
    X, supervision = answers
    grid = [{"t": [0.1, 0.5, 0.9]}, {"reg": [1e-3, 1e-1]}]
    search = MetricSearchCV(GMML(), grid, cv=4, random_state=0).fit(X, constraints=supervision)
    results = search.cv_results_
    assert results["params"] == [*({"t": t} for t in (0.1, 0.5, 0.9)), {"reg": 1e-3}, {"reg": 0.1}]
    scores = np.array([results[f"split{n}_test_score"] for n in range(search.n_splits_)])
    assert scores.shape == (4, 5)
    np.testing.assert_allclose(results["mean_test_score"], scores.mean(axis=0))
    np.testing.assert_allclose(results["std_test_score"], scores.std(axis=0))
    best = int(np.argmax(results["mean_test_score"]))
    assert search.best_index_ == best
    assert results["rank_test_score"][best] == results["rank_test_score"].min() == 1
    assert search.best_params_ == results["params"][best]
    assert search.best_score_ == results["mean_test_score"][best]
    assert np.all(results["mean_fit_time"] > 0)
    np.testing.assert_array_equal(
        search.components_, GMML(**search.best_params_).fit(X, constraints=supervision).components_
    )


def test_unfinished_candidates_rank_behind_finished_ones(answers):
    X, supervision = answers
    grid = {"triplet_weight": [3.0, 10.0, 30.0, 100.0, 300.0]}
    results = MetricSearchCV(MDaML(1), grid, cv=2).fit(X, constraints=supervision).cv_results_
    finished, rank = results["finished"], results["rank_test_score"]
    assert finished.sum() == 3
    assert rank[finished].max() <= 3 < rank[~finished].min()


def test_arrays_and_constraints_are_the_same_supervision(answers):
    X, supervision = answers
    search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, cv=3, random_state=0)
    parts = {name: getattr(supervision, name) for name in ("triplets", "pairs", "pair_labels")}
    arrays = clone(search).fit(
        X, **parts, quadruplets=supervision.quadruplets, constraint_weight=supervision.weights
    )
    value = clone(search).fit(X, constraints=supervision)
    np.testing.assert_array_equal(
        arrays.cv_results_["mean_test_score"], value.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(arrays.components_, value.components_)


@pytest.mark.parametrize("learner", [DMLMJ, LFDA, LMNN, DMLdc, GMML, KISSME, DMLeig, Euclidean])
def test_any_learner_can_be_searched_with_labels(balance, learner):
    X, y = balance
    grid = {"n_components": [2, 3]} if learner in (DMLMJ, LFDA) else {}
    search = MetricSearchCV(learner(), grid, cv=2, random_state=0).fit(X[::6], y[::6])
    assert search.best_score_ > 0.6
    assert isinstance(search.best_estimator_, learner)


@pytest.mark.parametrize("learner", [GMML, KISSME, DMLeig, Euclidean, MDaML])
def test_any_weak_learner_can_be_searched_without(answers, learner):
    X, supervision = answers
    search = MetricSearchCV(learner(), {}, cv=2, random_state=0).fit(X, constraints=supervision)
    assert search.best_score_ > 0.6


@pytest.mark.parametrize(
    ("scoring", "truth"),
    [
        ("knn_accuracy", "y"),
        ("hit_rate_at_1", "y"),
        ("map_at_r", "y"),
        (partial(hit_rate_at_k, k=5), "y"),
        (map_at_r, "y"),
        ("comparisons", "constraints"),
        ("pair_auc", "constraints"),
        (
            lambda model, X, supervision: model.score_triplets(X, supervision.triplets),
            "constraints",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Nothing was learned")  # balance is hard for GMML
def test_scoring_by_name_or_function(answers, balance, scoring, truth):
    X, given = balance if truth == "y" else answers
    search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, cv=3, scoring=scoring, random_state=0)
    search.fit(X, **{truth: given})
    assert 0.3 < search.best_score_ <= 1.0
    if scoring is map_at_r:
        named = clone(search).set_params(scoring="map_at_r").fit(X, given)
        assert named.best_score_ == search.best_score_


def test_a_pipeline_is_scored_and_used_as_a_whole(answers):
    X, supervision = answers
    X = X * [1.0, 100.0, 1.0, 1.0, 0.01] + 1000.0
    pipeline = make_pipeline(StandardScaler(), MDaML(1))
    grid = {"mdaml__triplet_weight": [10.0, 30.0, 100.0, 300.0]}
    search = MetricSearchCV(pipeline, grid, cv=3, random_state=0).fit(X, constraints=supervision)
    assert search.best_score_ > 0.8
    assert search.cv_results_["finished"].sum() == 3
    mapped = search.best_estimator_.transform(X)
    np.testing.assert_array_equal(search.transform(X), mapped)
    expected = np.linalg.norm(mapped[1:] - mapped[:-1], axis=1)
    np.testing.assert_allclose(search.pair_distance(X[1:], X[:-1]), expected)
    np.testing.assert_allclose(search.pair_score(X[1:], X[:-1]), -expected)
    inner = search.best_estimator_[-1]
    np.testing.assert_array_equal(search.get_mahalanobis_matrix(), inner.get_mahalanobis_matrix())
    scaled = search.best_estimator_[:-1].transform(X)
    assert search.score_triplets(X, supervision.triplets) == inner.score_triplets(
        scaled, supervision.triplets
    )
    with pytest.raises(ValueError, match="as many rows"):
        search.pair_distance(X, X[1:])


def test_what_the_best_estimator_can_do_the_search_can(answers):
    X, supervision = answers
    search = MetricSearchCV(GMML(), {"t": [0.3]}, cv=2, random_state=0).fit(
        X, constraints=supervision
    )
    best = search.best_estimator_
    np.testing.assert_array_equal(search.transform(X), best.transform(X))
    np.testing.assert_array_equal(search.pair_distance(X, X[::-1]), best.pair_distance(X, X[::-1]))
    assert search.score_triplets(X, supervision.triplets) == best.score_triplets(
        X, supervision.triplets
    )
    assert search.n_features_in_ == 5
    assert list(search.get_feature_names_out()) == list(best.get_feature_names_out())
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.transform(X), search.transform(X))


@pytest.fixture(scope="module")
def seeded(answers):
    X, supervision = answers
    grid = {"anchor": [0.03, 1.0], "triplet_weight": [10.0, 300.0]}
    return MetricSearchCV(MDaML(), grid, cv=2, random_state=0).fit(X, constraints=supervision)


def assert_same_search(one, other):
    assert other.best_params_ == one.best_params_
    np.testing.assert_allclose(
        other.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"], atol=1e-12
    )


def test_same_seed_same_choice(answers, seeded):
    X, supervision = answers
    again = clone(seeded).fit(X, constraints=supervision)
    np.testing.assert_array_equal(again.components_, seeded.components_)
    assert_same_search(again, seeded)
    assert isinstance(seeded.best_estimator_.random_state, int)
    own = clone(seeded).set_params(estimator__random_state=5).fit(X, constraints=supervision)
    assert own.best_estimator_.random_state == 5


@pytest.mark.filterwarnings("ignore:The learned distance agrees")  # not the question here
def test_jobs_do_not_matter(answers, seeded, monkeypatch):
    """By threads, which start at once; what a process would get and return is pickled."""
    sent = []

    def try_each(*given):
        sent.append(pickle.dumps(given))
        return pickle.loads(pickle.dumps(original(*pickle.loads(sent[-1]))))

    original = _trials._try_each
    monkeypatch.setattr(_trials, "_try_each", try_each)
    monkeypatch.setattr(_trials, "parallel_config", lambda *_, **__: parallel_config("threading"))
    X, supervision = answers
    assert_same_search(clone(seeded).set_params(n_jobs=2).fit(X, constraints=supervision), seeded)
    # A job is a split, or half of a single one: the first one and the others, and the finalists.
    assert len(sent) == 2 + 2 + 2


@pytest.mark.slow
def test_noise_is_withstood_with_parameters_chosen_from_noisy_comparisons_alone():
    # The hidden metric sees four of eight features; 15 % of the answers are wrong.
    X = np.random.default_rng(0).normal(size=(600, 8))
    hidden = np.eye(8)[:4]
    noisy, is_wrong = make_triplets(
        X, n_triplets=4000, components=hidden, wrong=0.15, random_state=0
    )
    clean, _ = make_triplets(X, n_triplets=4000, components=hidden, random_state=1)
    assert is_wrong.sum() == 600
    # The weight that does as much for K modes grows with K^3: a grid for each number of modes.
    grid = [
        {"n_modes": [K], "triplet_weight": [w * K**3 for w in (3.0, 10.0, 30.0, 100.0, 300.0)]}
        for K in (1, 3, 10)
    ]
    search = MetricSearchCV(MDaML(), grid, cv=3, random_state=0).fit(X, triplets=noisy)
    euclid = Euclidean().fit(X).score_triplets(X, clean)
    assert 0.65 < euclid < 0.78
    assert search.score_triplets(X, clean) > 0.93
    # The noise bounds the score that can be seen: 85 % of what holds, 15 % of what does not.
    assert 0.8 < search.best_score_ < 0.87


def test_candidates_that_cannot_go_on_start_anew(balance):
    X, y = (part[::2] for part in balance)
    grid = {"triplet_weight": [10.0, 100.0, 1000.0, 10000.0]}
    for options in ({"n_components": 2, "partners": "random"}, {"partners": "neighbors"}):
        estimator = MDaML(1, random_state=0, **options)
        search = partial(MetricSearchCV, estimator, grid, cv=2, random_state=0)
        staged, whole = search().fit(X, y), search(warm_start=False).fit(X, y)
        finished = staged.cv_results_["finished"]
        assert finished.sum() == (3 if "n_components" in options else 4)
        np.testing.assert_array_equal(
            staged.cv_results_["mean_test_score"][finished],
            whole.cv_results_["mean_test_score"][finished],
        )


@pytest.mark.parametrize("max_iter", ["never", 0, 1.5, None])
def test_a_wrong_number_of_rounds_is_refused_at_once(answers, max_iter):
    X, supervision = answers
    grid = {"triplet_weight": [3.0, 10.0, 30.0, 100.0]}
    with pytest.raises(
        (TypeError, ValueError), match=r"triplet_weight=3\.0 cannot be fitted\. MDaML\(max_iter"
    ):
        MetricSearchCV(MDaML(1, max_iter=max_iter), grid).fit(X, constraints=supervision)


def test_splits_of_one_s_own(balance):
    X, y = balance
    groups = np.arange(len(y)) % 7
    folds = [Split(*rows) for rows in GroupKFold(3).split(X, y, groups)]
    with pytest.warns(UserWarning, match="no candidate led the distance before learning"):
        search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, cv=folds).fit(X, y)
    assert search.n_splits_ == 3
    assert search.best_score_ < search.start_score_
    assert search.start_kept_


# The start is a candidate.


def draw_flips(seed, n=300):
    rng = np.random.default_rng(seed)
    rows = np.array([rng.choice(60, 3, replace=False) for _ in range(n)])
    return rng.normal(size=(60, 5)), {"triplets": rows}


def draw_random_labels(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(90, 5)), {"y": rng.integers(0, 3, 90)}


START = np.diag([1.0, 2.0, 3.0, 4.0, 5.0])


def mean_of_comparisons(model, X, supervision):
    return model.score_triplets(X, supervision.triplets)


@pytest.mark.parametrize(
    ("make", "scoring"),
    [
        *product(
            [GMML, *(partial(MDaML, 1, anchor=0.1, init_metric=M) for M in ("auto", START))],
            [None, "neighbors", mean_of_comparisons],
        ),
        (lambda: MDaML(1, init_metric=START), None),  # every fit chooses its anchor
    ],
)
def test_coin_flips_return_the_start_bit_for_bit(make, scoring):
    (X, supervision), model = draw_flips(0), make()
    search = MetricSearchCV(model, {}, scoring=scoring, random_state=0)
    with pytest.warns(UserWarning, match="Nothing was learned"):
        search.fit(X, **supervision)
    assert search.start_kept_
    start = model.get_params().get("init_metric")
    if isinstance(start, np.ndarray):
        np.testing.assert_allclose(search.get_mahalanobis_matrix(), start, rtol=1e-12)
    else:
        np.testing.assert_array_equal(search.transform(X), X)
    assert (search.gain_ is None) == callable(scoring)


def test_of_a_pipeline_the_other_steps_are_kept():
    X, supervision = draw_flips(0)
    X = X * [1.0, 10.0, 100.0, 1.0, 1.0]
    search = MetricSearchCV(make_pipeline(StandardScaler(), GMML()), {}, random_state=0)
    with pytest.warns(UserWarning, match="Nothing was learned"):
        search.fit(X, **supervision)
    np.testing.assert_array_equal(search.transform(X), StandardScaler().fit_transform(X))


def test_random_labels_keep_the_start_more_often_than_not():
    kept = 0
    for seed in range(10):
        X, supervision = draw_random_labels(seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Nothing was learned")
            search = MetricSearchCV(GMML(), {"t": [0.3, 0.5, 0.7]}, random_state=0).fit(
                X, **supervision
            )
        kept += search.start_kept_
    assert kept >= 5  # at a level of 20 %


def test_a_gain_is_told_with_its_interval(answers):
    X, supervision = answers
    search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, random_state=0).fit(
        X, constraints=supervision
    )
    gain = search.gain_
    assert not search.start_kept_
    assert gain["is_beyond_chance"]
    assert 0.0 < gain["low"] < gain["after"] - gain["before"] < gain["high"]
    assert gain["n_units"] == 60  # points, over all splits
    assert gain["after"] == pytest.approx(search.best_score_, abs=0.01)
    assert gain["before"] == pytest.approx(search.start_score_, abs=0.01)


@pytest.mark.filterwarnings("ignore:Nothing was learned")  # labels are random
def test_equal_rows_are_held_out_together(recorder):
    X, supervision = draw_random_labels(0)
    X, y = np.repeat(X, 3, axis=0), np.repeat(supervision["y"], 3)
    MetricSearchCV(recorder, {}, cv=3, random_state=0, refit=False).fit(X, y)
    assert len(Recorder.seen) == 3
    for samples, _, _ in Recorder.seen:
        rows = {row.tobytes() for row in samples}
        assert sum(row.tobytes() in rows for row in X) == len(samples)


def test_answers_given_again_about_few_points_count_once():
    X, supervision = np.random.default_rng(0).normal(size=(7, 4)), []
    for n in (1, 20):
        triplets = np.repeat([[i, (i + 1) % 7, (i + 3) % 7] for i in range(7)], n, axis=0)
        search = MetricSearchCV(GMML(), {"t": [0.5]}, cv=2, random_state=0, refit=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            supervision.append(search.fit(X, triplets=triplets).gain_)
    assert supervision[0]["n_units"] == supervision[1]["n_units"] == 7
    assert supervision[0]["high"] == pytest.approx(supervision[1]["high"])


@pytest.mark.parametrize("scoring", ["comparisons", "neighbors"])
def test_a_metric_does_not_lead_by_breaking_ties(scoring):
    """A tie is no error of the start: half of those that a metric breaks by chance would hold."""
    kept = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.integers(3, size=(40, 3)).astype(float)
        supervision = np.array([rng.choice(40, 3, replace=False) for _ in range(150)])
        search = MetricSearchCV(MDaML(1, anchor=0.03), {}, scoring=scoring, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept += search.fit(X, triplets=supervision).start_kept_
    assert kept >= 5


def test_swapped_columns_are_asked_about_where_the_start_is_kept():
    X = np.random.default_rng(0).normal(size=(80, 4))
    supervision, _ = make_triplets(X, n_triplets=300, wrong=0.1, random_state=0)
    search = MetricSearchCV(MDaML(1, anchor=100.0), {}, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, triplets=supervision[:, [0, 2, 1]])
    assert any("Are near and far swapped?" in str(each.message) for each in caught)


@pytest.mark.slow
def test_coin_flips_return_the_start_in_95_of_100():
    kept = 0
    for seed in range(100):
        X, supervision = draw_flips(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = MetricSearchCV(MDaML(1), {"anchor": [0.03, 1.0, 10.0]}, random_state=0)
            kept += search.fit(X, **supervision).start_kept_
    assert kept >= 90  # at a level of 5 %: about 95, give or take 5


@pytest.mark.filterwarnings("ignore:Nothing was learned")  # rightly: GMML gains 0.8 points
def test_data_frames_keep_their_names(balance):
    import pandas

    X, y = balance
    frame = pandas.DataFrame(X, columns=list("abcd"))
    search = MetricSearchCV(GMML(), {"t": [0.3]}, cv=2, random_state=0).fit(frame, y)
    assert list(search.feature_names_in_) == list("abcd")
    assert search.best_score_ == clone(search).fit(X, y).best_score_


def test_points_that_are_never_compared_are_still_passed_on(recorder):
    X = np.random.default_rng(0).normal(size=(50, 3))
    triplets, _ = make_triplets(X[:20], n_triplets=300, components=np.eye(3)[:1], random_state=0)
    supervision = Constraints(triplets=triplets, n_points=20)
    MetricSearchCV(recorder, {}, cv=2).fit(X, constraints=supervision)
    assert all(len(samples) == 50 for samples, _, _ in Recorder.seen)


def test_without_refit_there_are_parameters_but_no_metric(answers):
    X, supervision = answers
    search = MetricSearchCV(GMML(), {"t": [0.3, 0.7]}, cv=2, refit=False)
    with pytest.raises(NotFittedError):
        search.transform(X)
    search.fit(X, constraints=supervision)
    assert search.best_params_["t"] in (0.3, 0.7)
    assert not hasattr(search, "components_")
    with pytest.raises(ValueError, match="refit=False"):
        search.transform(X)


def test_an_interrupted_search_leaves_the_last_result_alone(answers):
    X, supervision = answers
    search = MetricSearchCV(GMML(), {"t": [0.3]}, cv=2, random_state=0).fit(
        X, constraints=supervision
    )
    before = dict(vars(search))

    def interrupt(*_):
        raise KeyboardInterrupt

    search.scoring = interrupt
    with pytest.raises(KeyboardInterrupt):
        search.fit(X[:, :3], constraints=supervision)
    assert vars(search) == before | {"scoring": interrupt}


def test_a_fit_that_fails_names_its_parameters(answers, balance):
    X, supervision = answers
    with pytest.raises(ValueError, match=r"t=1\.5 cannot be fitted\. GMML\(t=\.\.\.\) must be"):
        MetricSearchCV(GMML(), {"t": [0.5, 1.5]}, cv=2).fit(X, constraints=supervision)
    with pytest.raises(TypeError, match=r"n_neighbors=2 cannot be fitted\. LMNN learns from"):
        MetricSearchCV(LMNN(), {"n_neighbors": [2]}, cv=2).fit(X, constraints=supervision)

    class Broken(GMML):
        def fit(self, *_, **__):
            raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room") as caught:
        MetricSearchCV(Broken(), {"t": [0.5]}, cv=2).fit(*balance)
    assert caught.value.__notes__ == ["t=0.5 cannot be fitted."]


@pytest.mark.parametrize(
    ("options", "given", "error", "message"),
    [
        ({"param_grid": {"tt": [1]}}, "constraints", ValueError, "Invalid parameter 'tt'"),
        ({"param_grid": []}, "constraints", ValueError, "param_grid is empty"),
        ({"estimator": GMML}, "constraints", TypeError, "must be an estimator"),
        ({"scoring": "map_at_r"}, "constraints", ValueError, "'map_at_r' needs labels"),
        ({"scoring": "comparisons"}, "y", ValueError, "'comparisons' needs comparisons"),
        ({"scoring": "accuracy"}, "y", ValueError, "must be one of 'knn_accuracy'"),
        ({"scoring": lambda *_: np.nan}, "y", ValueError, "must return a finite number, got nan"),
        ({"cv": 1}, "y", ValueError, "at least 2, got 1"),
        ({"cv": 2.5}, "y", TypeError, "a number of folds"),
        ({"cv": [([0], [1])]}, "y", TypeError, "an iterable of Split"),
        ({"cv": [Split([0], [1])]}, "constraints", ValueError, "must have train and test"),
        ({"cv": ConstraintKFold()}, "y", TypeError, "use PointKFold"),
    ],
)
def test_bad_searches_are_refused(answers, balance, options, given, error, message):
    X, truth = balance if given == "y" else answers
    search = MetricSearchCV(**{"estimator": GMML(), "param_grid": {"t": [0.5]}, **options})
    with pytest.raises(error, match=message):
        search.fit(X, **{given: truth})


def test_bad_data_are_refused(answers):
    X, supervision = answers
    search = MetricSearchCV(GMML(), {"t": [0.5]})
    with pytest.raises(ValueError, match="Pass either y or triplets, not both"):
        search.fit(X, np.zeros(60), triplets=supervision.triplets)
    with pytest.raises(ValueError, match="Pass either y or constraints, not both"):
        search.fit(X, np.zeros(60), constraints=supervision)
    with pytest.raises(ValueError, match="Pass either constraints or pairs, not both"):
        search.fit(X, pairs=supervision.pairs, constraints=supervision)
    with pytest.raises(ValueError, match="requires y to be passed"):
        search.fit(X)
    with pytest.raises(TypeError, match=r"must be mdaml\.Constraints, got ndarray"):
        search.fit(X, constraints=supervision.triplets)
    with pytest.raises(ValueError, match="refer to 60 points, but X has 50 rows"):
        search.fit(X[:50], constraints=supervision)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        search.fit(X, [0, 1])


def test_parameters_reach_the_estimator_inside():
    search = MetricSearchCV(MDaML(3), {"ridge": [1.0]}, cv=4)
    assert search.get_params()["estimator__n_modes"] == 3
    copy = clone(search).set_params(estimator__n_modes=5)
    assert (copy.estimator.n_modes, search.estimator.n_modes) == (5, 3)

"""The estimator in the hands of its users."""

import threading
import warnings
from dataclasses import replace

import literal
import numpy as np
import pytest
import sklearn
from fuzz.fits import recompute
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from suite.models import make_mdaml
from threadpoolctl import threadpool_info, threadpool_limits

from mdaml import MDaML, Partners
from mdaml.constraints import neighbor_triplets, sample_triplets
from mdaml.datasets import load_dataset, make_multimodal
from mdaml.kernels.products import one_blas_thread
from mdaml.stores.memory import MemoryStore


@pytest.fixture(scope="module")
def toy():
    X, y = make_multimodal(200, random_state=0)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def vehicle():
    X, y = load_dataset("vehicle", return_X_y=True)
    return StandardScaler().fit_transform(X), y


def never_rises(model):
    """Within a pass, that is; a pass begins with new triplets."""
    passes = np.split(model.history_, model.pass_starts_[1:])
    return all(np.all(np.diff(one_pass) <= 0) for one_pass in passes)


def literal_objective(model, X):
    """Eq. (7) from the fitted attributes alone."""
    return literal.objective(
        model.get_mahalanobis_matrix().astype(float),
        model.centers_.astype(float),
        model.weights_.astype(float),
        np.asarray(X, float),
        model.triplets_,
        eta=model.eta_,
        triplet_weight=model.triplet_weight_,
        ridge=model.ridge_,
    )


@pytest.mark.parametrize("seed", range(3))
def test_last_objective_is_eq_7_of_the_fitted_attributes(seed):
    X, y = make_blobs(60, 4, centers=5, random_state=seed)
    partners = Partners(n_similar=2, n_dissimilar=3)
    model = MDaML(4, partners=partners, shrinkage=0.0, random_state=seed).fit(X + 100, y)
    assert model.history_[-1] == pytest.approx(literal_objective(model, X + 100), rel=1e-10)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of scales, and of what cannot be met
@pytest.mark.parametrize("trouble", ["offset", "outlier", "scales"])
def test_eq_7_from_the_attributes_is_off_by_rounding_only(trouble):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(10, 50)), int(rng.integers(1, 7))
        X = rng.normal(size=(n, d))
        if trouble == "offset":
            X += 10.0 ** rng.integers(1, 12)
        elif trouble == "outlier":
            X[0] *= 10.0 ** rng.integers(2, 12)
        else:
            X *= 10.0 ** rng.uniform(-8, 8, d)
        T = np.array([rng.choice(n, 3, replace=False) for _ in range(60)])
        options = {"eta": 2.0, "max_iter": 4, "random_state": 0}
        options |= {"n_components": [None, 1][seed % 2]}
        model = make_mdaml("eq. 7", 1 + seed % 3, **options).fit(X, triplets=T)
        value, bound = recompute(model, X)
        assert abs(value - model.history_[-1]) <= bound
        if np.abs(X).max() < 1e6:
            assert value == pytest.approx(model.history_[-1], rel=1e-8)


def test_history_of_single_precision_is_eq_7_too(toy):
    X, y = toy
    single = MDaML(4, shrinkage=0.0, random_state=0).fit(X.astype(np.float32), y)
    assert single.centers_.dtype == single.weights_.dtype == np.float32
    assert never_rises(single)
    assert single.history_[-1] == pytest.approx(literal_objective(single, X), rel=1e-4)


def test_history_holds_the_start_and_three_half_steps_a_round_and_never_rises(vehicle):
    model = MDaML.paper(random_state=0).fit(*vehicle)
    assert model.history_.shape == (1 + 3 * model.n_iter_,)
    assert np.all(np.diff(model.history_) <= 0)


def test_labels_are_the_same_as_the_triplets_drawn_from_them(toy):
    X, y = toy
    options = {"kind": "random", "anchor": 0.2, "find_groups": False, "random_state": 5}
    by_labels = make_mdaml("neighbors", 3, **options).fit(X, y)
    start = make_mdaml("neighbors", by_labels_start(X), **options)
    by_triplets = clone(start).fit(X, triplets=by_labels.triplets_)
    again = start.fit(X, y)
    np.testing.assert_array_equal(by_labels.triplets_, again.triplets_)
    np.testing.assert_array_equal(by_triplets.components_, again.components_)


def by_labels_start(X):
    return np.random.default_rng(0).dirichlet(np.ones(3), len(X))


def test_the_order_of_modes_does_not_matter_that_of_samples_only_in_weights():
    """Weights are updated in an order that follows the rows; the objective stays close."""
    X, y = make_blobs(80, 5, centers=4, random_state=0)
    triplets = sample_triplets(y, 3, 3, random_state=0)
    weights = np.random.default_rng(1).dirichlet(np.ones(3), 80)
    order = np.random.default_rng(4).permutation(len(X))

    def fit(X, triplets, weights):  # few steps: rounding grows along a long descent
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # Euclidean distance tells the blobs apart: nothing to choose an anchor by.
            return make_mdaml("neighbors", weights, anchor=0.1, max_iter=3, find_groups=False).fit(
                X, triplets=triplets
            )

    model = fit(X, triplets, weights)
    M = model.get_mahalanobis_matrix()
    reversed_modes = fit(X, triplets, weights[:, ::-1]).get_mahalanobis_matrix()
    np.testing.assert_allclose(reversed_modes, M, atol=1e-7 * np.abs(M).max())
    moved = fit(X[order], np.argsort(order)[triplets], weights[order])
    np.testing.assert_allclose(moved.history_[:2], model.history_[:2])
    assert moved.history_[-1] == pytest.approx(model.history_[-1], rel=0.5)


def test_transform_makes_the_learned_distance_euclidean(toy):
    X, y = toy
    model = MDaML(3, random_state=0).fit(X, y)
    M, A, B = model.get_mahalanobis_matrix(), X[:50], X[50:100]
    wanted = [np.sqrt(literal.sq_dist(M, a, b)) for a, b in zip(A, B, strict=True)]
    np.testing.assert_allclose(model.pair_distance(A, B), wanted)
    np.testing.assert_allclose(model.pair_score(A, B), -np.array(wanted))
    mapped = model.transform(A) - model.transform(B)
    np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), wanted)


def test_score_triplets_counts_comparisons_that_hold(toy):
    X, y = toy
    model = MDaML(3, random_state=0).fit(X, y)
    T = sample_triplets(y, 2, 2, random_state=9)
    M = model.get_mahalanobis_matrix()
    held = [literal.sq_dist(M, X[i], X[j]) < literal.sq_dist(M, X[i], X[r]) for i, j, r in T]
    assert model.score_triplets(X, T) == pytest.approx(np.mean(held))


def test_n_components_learns_a_metric_of_that_rank(toy):
    X, y = toy
    triplets = sample_triplets(y, 5, 5, random_state=0)
    # With an anchor no metric may lose its rank.
    full = make_mdaml("eq. 7", 1, random_state=0).fit(X, triplets=triplets)
    one = make_mdaml("eq. 7", 1, n_components=1, random_state=0).fit(X, triplets=triplets)
    assert one.transform(X).shape == (200, 1)
    full.components_ = full.components_[:1]
    assert full.history_[-1] < one.history_[-1] < literal_objective(full, X)


def test_unlabelled_rows_join_the_modes_but_no_triplet(toy):
    X, y = toy
    hidden = y.copy()
    hidden[::3] = -1
    model = MDaML(3, random_state=0).fit(X, hidden)
    assert not np.isin(model.triplets_, np.arange(0, len(y), 3)).any()
    assert model.weights_.shape == (len(X), 3)
    without = MDaML(3, random_state=0).fit(X[hidden != -1], hidden[hidden != -1])
    assert not np.allclose(model.centers_, without.centers_)


def test_class_of_one_sample_serves_as_dissimilar_only(toy):
    X, y = toy
    y = y.copy()
    y[7] = 9
    triplets = MDaML(3, partners=Partners(n_dissimilar=200), random_state=0).fit(X, y).triplets_
    assert 7 not in triplets[:, :2]
    assert 7 in triplets[:, 2]


def test_one_mode_weighs_all_comparisons_alike(toy):
    model = MDaML(1, random_state=0).fit(*toy)
    assert np.all(model.weights_ == 1)
    np.testing.assert_allclose(model.centers_[0], toy[0].mean(axis=0), atol=1e-12)


def test_auto_weight_grows_with_modes_and_eta_and_is_higher_for_labels_than_in_the_paper(toy):
    X, y = toy
    near = MDaML(4, eta=2.5, random_state=0).fit(X, y)
    assert near.triplet_weight_ == 1000 * 4**2.5
    passed = MDaML.paper(4, eta=2.5, random_state=0).fit(X, triplets=near.triplets_)
    drawn = MDaML.paper(4, eta=2.5, random_state=0).fit(X, y)
    assert passed.triplet_weight_ == drawn.triplet_weight_ == 300 * 4**2.5
    assert MDaML(4, triplet_weight=700, random_state=0).fit(*toy).triplet_weight_ == 700


def test_critical_weight_is_that_of_the_literal_formula():
    X, y = make_blobs(40, 3, centers=4, random_state=1)
    partners = Partners(n_similar=2, n_dissimilar=2)
    model = MDaML(3, partners=partners, shrinkage=0.0, random_state=0).fit(X, y)
    wanted = literal.critical_triplet_weight(
        model.centers_, model.weights_, X, model.triplets_, eta=model.eta_
    )
    assert model.lambda1_critical_ == pytest.approx(wanted, rel=1e-6)


def test_weight_below_the_critical_one_warns_of_the_collapse(toy):
    with pytest.warns(UserWarning, match=r"triplet_weight=0\.001 is below lambda1_critical_"):
        MDaML(3, triplet_weight=1e-3, random_state=0).fit(*toy)


def test_comparisons_that_contradict_each_other_warn():
    X = np.random.default_rng(0).normal(size=(60, 2))
    a, b, c = np.random.default_rng(1).permuted(np.tile(np.arange(60), (300, 1)), axis=1).T[:3]
    both = np.concatenate([np.column_stack([a, b, c]), np.column_stack([a, c, b])])
    with (
        pytest.warns(UserWarning, match="there was hardly anything to learn"),
        pytest.warns(UserWarning, match="lambda1_critical_"),
    ):
        make_mdaml("eq. 7", 1, triplet_weight=1000.0).fit(X, triplets=both)
    with pytest.warns(UserWarning, match="Nothing was learned"):
        MDaML().fit(X, triplets=both)


def test_neighbours_get_two_rounds_a_pass_and_other_comparisons_ten(vehicle):
    X, y = vehicle
    near = MDaML(tol=0, random_state=0).fit(X, y)
    assert near.n_iter_ == 4
    assert len(near.pass_starts_) == 2
    assert MDaML(tol=0, random_state=0).fit(X, triplets=near.triplets_).n_iter_ == 10
    assert MDaML.paper(tol=0, random_state=0).fit(X, y).n_iter_ == 10
    assert MDaML(max_iter=3, tol=0, random_state=0).fit(X, y).n_iter_ == 6


def test_unfinished_fit_warns_and_a_default_fit_does_not(vehicle):
    with pytest.warns(ConvergenceWarning, match="increase max_iter"):
        MDaML(max_iter=1, partners=Partners(n_refresh=0), random_state=0).fit(*vehicle)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MDaML(random_state=0).fit(*vehicle)


def test_callback_sees_each_round_and_can_stop(vehicle):
    seen = []

    def callback(iteration, objective):
        seen.append((iteration, objective))
        return iteration == 4

    model = MDaML.paper(random_state=0, callback=callback).fit(*vehicle)
    assert model.n_iter_ == 4
    assert [i for i, _ in seen] == [1, 2, 3, 4]
    np.testing.assert_array_equal([v for _, v in seen], model.history_[3::3])


def test_neighbour_sampling_and_zip_pairing_fit(vehicle):
    X, y = vehicle
    model = MDaML(partners=Partners(pairing="zip"), random_state=0).fit(X, y)
    assert len(model.triplets_) == 5 * len(X)


@pytest.mark.parametrize("init", ["gmm", "kmeans"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda X: X[:, :1] @ np.ones((1, 30)),  # dependent, more features than rank
        lambda X: np.hstack([X, np.full((len(X), 2), 7.0)]),  # constant
        lambda X: np.repeat(X[::4], 4, axis=0)[: len(X)],  # duplicate rows
        lambda X: X * 1e-9,
        lambda X: X * 1e9,
        lambda X: X + 1e6,
    ],
    ids=["dependent", "constant", "duplicates", "tiny", "huge", "offset"],
)
# Some of these make the comparisons impossible to meet, of which MDaML warns.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_awkward_data_fit_without_nan_and_without_rise(toy, init, spoil):
    X, y = toy
    X = spoil(X)
    model = make_mdaml("labels", 5, init_modes=init, random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.components_))
    assert np.all(np.isfinite(model.weights_))
    assert never_rises(model)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_more_features_than_samples_and_as_many_modes_as_samples():
    X, y = make_blobs(12, 40, centers=3, random_state=0)
    for n_modes in (11, 12):
        model = MDaML(n_modes, random_state=0).fit(X, y)
        assert np.all(np.isfinite(model.components_))
        assert never_rises(model)


def test_learned_metric_beats_euclid_on_the_toy_and_on_vehicle(vehicle):
    X, y = vehicle
    half = np.arange(len(X)) % 2 == 0
    plain = KNeighborsClassifier(3).fit(X[half], y[half]).score(X[~half], y[~half])
    model = make_pipeline(MDaML(random_state=0), KNeighborsClassifier(3))
    assert model.fit(X[half], y[half]).score(X[~half], y[~half]) > plain + 0.03


def test_works_in_a_pipeline_and_a_grid_search(toy):
    X, y = toy
    pipeline = Pipeline(
        [
            ("scale", StandardScaler()),
            ("metric", MDaML(random_state=0)),
            ("knn", KNeighborsClassifier(3)),
        ]
    )
    search = GridSearchCV(pipeline, {"metric__n_modes": [3, 6]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.8


def test_triplets_are_routed_through_a_pipeline(toy):
    X, y = toy
    T = sample_triplets(y, 3, 3, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        metric = MDaML(random_state=0).set_fit_request(triplets=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("metric", metric)])
        routed = pipeline.fit(X, triplets=T)["metric"]
    np.testing.assert_array_equal(routed.triplets_, T)


def test_pandas_output_and_feature_names(toy):
    import pandas as pd

    frame = pd.DataFrame(toy[0], columns=["length", "width"])
    model = MDaML(3, random_state=0).set_output(transform="pandas").fit(frame, toy[1])
    assert list(model.transform(frame).columns) == ["mdaml0", "mdaml1"]
    assert list(model.get_feature_names_out()) == ["mdaml0", "mdaml1"]
    assert list(model.feature_names_in_) == ["length", "width"]
    model.fit(*toy)  # an array has no names
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")


def test_a_refused_fit_leaves_the_model_unfitted(toy):
    model = MDaML(2, eta=1)
    with pytest.raises(ValueError, match="eta"):
        model.fit(*toy)
    with pytest.raises(NotFittedError):
        model.transform(toy[0])


def test_an_interrupted_refit_leaves_the_model_as_it_was(toy):
    X, y = toy
    model = MDaML(2, random_state=0).fit(X, y)
    before = model.transform(X)

    def interrupt(_iteration, _objective):
        raise KeyboardInterrupt

    model.set_params(callback=interrupt, n_modes=3, shrinkage=0.0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :1], y)
    np.testing.assert_array_equal(model.transform(X), before)
    assert model.weights_.shape[1] == 2


def test_the_critical_weight_does_not_depend_on_the_scale_of_the_features(toy):
    X, y = toy
    start = np.random.default_rng(0).dirichlet(np.ones(2), len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one round, and comparisons that tiny features cannot meet
        critical = [
            MDaML(start, shrinkage=0.0, max_iter=1, random_state=0).fit(s * X, y).lambda1_critical_
            for s in (1e-3, 1e-5)
        ]
    assert critical[1] == pytest.approx(critical[0], rel=0.02)


def test_start_weights_count_by_their_ratios(toy):
    X, y = toy
    start = np.random.default_rng(0).random((len(X), 2))
    histories = [
        MDaML(scale * start, random_state=0).fit(X, y).history_[0] for scale in (1.0, 1e-13)
    ]
    assert histories[0] == pytest.approx(histories[1])


@pytest.fixture
def two_blas_threads():
    """At least two to be taken and given back, whatever the environment allows."""
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_overlapping_fits_give_the_threads_of_blas_back(toy):
    def blas():
        """Threads of the libraries that NumPy and SciPy use; faiss brings one of its own."""
        return [
            info["num_threads"]
            for info in threadpool_info()
            if info["user_api"] == "blas" and "faiss" not in info["filepath"]
        ]

    def fit(inside, leave):
        def wait(_iteration, _objective):
            inside.set()
            return leave.wait(10)

        MDaML(2, random_state=0, callback=wait).fit(*toy)

    before = blas()
    assert set(before) == {2}
    with one_blas_thread():
        assert set(blas()) == {1}
    events = [(threading.Event(), threading.Event()) for _ in range(2)]
    fits = [threading.Thread(target=fit, args=pair) for pair in events]
    for thread, (inside, _) in zip(fits, events, strict=True):
        thread.start()
        assert inside.wait(30)
    for thread, (_, leave) in zip(fits, events, strict=True):  # first in, first out
        leave.set()
        thread.join()
    assert blas() == before


# Triplets drawn again, and where the metric starts


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # stopped early
def test_a_refresh_goes_on_with_the_neighbours_under_the_metric_learned(vehicle):
    X, y = vehicle
    options = {"n_modes": 3, "shrinkage": 0.0, "max_iter": 2, "tol": 0, "random_state": 0}
    partners = Partners(n_similar=3, n_dissimilar=5)
    first = MDaML(partners=replace(partners, n_refresh=0), **options).fit(X, y)
    second = MDaML(partners=partners, **options).fit(X, y)
    np.testing.assert_array_equal(second.history_[:7], first.history_)
    assert second.pass_starts_.tolist() == [0, 7]
    assert second.n_iter_ == 4
    centred = X - X.mean(axis=0)
    np.testing.assert_array_equal(
        second.triplets_, neighbor_triplets(first.transform(centred), y, 3, 5)
    )
    assert second.history_[-1] == pytest.approx(literal_objective(second, X), rel=1e-8)


def test_the_objective_never_rises_within_a_pass(vehicle):
    model = MDaML(3, partners=Partners(n_refresh=3), random_state=0).fit(*vehicle)
    assert len(model.pass_starts_) == 4
    assert len(model.history_) == 4 + 3 * model.n_iter_
    assert never_rises(model)


@pytest.mark.parametrize("kind", ["passed", "random"])
def test_comparisons_that_do_not_depend_on_the_metric_are_not_drawn_again(toy, kind):
    X, y = toy
    triplets = sample_triplets(y, 3, 3, random_state=0)
    supervision = {"triplets": triplets} if kind == "passed" else {"y": y}
    drawn = "neighbors" if kind == "passed" else "random"
    plain, refreshed = (
        make_mdaml("eq. 7", 2, kind=drawn, n_refresh=n, random_state=0).fit(X, **supervision)
        for n in (0, 2)
    )
    np.testing.assert_array_equal(refreshed.history_, plain.history_)
    assert refreshed.pass_starts_.tolist() == [0]


def test_iterations_are_counted_through_all_passes_and_a_stop_stops_all(vehicle):
    calls = []

    def watch(iteration, value):
        calls.append((iteration, value))
        return iteration == 3

    options = {"partners": Partners(n_refresh=3), "max_iter": 2, "tol": 0, "random_state": 0}
    model = MDaML(3, callback=watch, **options).fit(*vehicle)
    assert [iteration for iteration, _ in calls] == [1, 2, 3]
    assert len(model.pass_starts_) == 2
    assert model.history_[-1] == calls[-1][1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # stopped early
@pytest.mark.parametrize("start", ["whitened", "array"])
def test_the_metric_starts_where_it_is_told_to(vehicle, start):
    X, y = vehicle
    centred = X - X.mean(axis=0)
    covariance = centred.T @ centred / len(X)
    M = np.linalg.inv(covariance + 0.1 * np.trace(covariance) / 18 * np.eye(18))
    M *= np.trace(covariance) / np.trace(M @ covariance)  # distances as large as those of X
    model = MDaML(
        3,
        init_metric=M if start == "array" else "whitened",
        partners=Partners(n_similar=2, n_dissimilar=2, n_refresh=0),
        max_iter=1,
        random_state=0,
    ).fit(X, y)
    weights = MemoryStore.of(X).mixture_weights(3, 3.0, np.random.RandomState(0)).weights
    centers = literal.update_centers(centred, weights, 3.0)
    expected = literal.objective(
        M,
        centers,
        weights,
        centred,
        model.triplets_,
        eta=3.0,
        triplet_weight=model.triplet_weight_,
        ridge=1e-4,
    )
    assert model.history_[0] == pytest.approx(expected, rel=1e-6)


def test_a_start_far_away_ends_at_the_same_convex_optimum():
    """At fixed modes, K = 1, the problem is convex in the metric: the start cannot matter."""
    X, y = make_blobs(60, 3, centers=4, random_state=0)
    options = {"n_modes": 1, "triplet_weight": 10, "ridge": 0.1, "max_iter": 50, "tol": 1e-9}
    options |= {"max_inner_iter": 50, "random_state": 0}
    ends = [
        make_mdaml("paper", init_metric=start, **options).fit(X, y).history_[-1]
        for start in ("identity", "whitened", np.diag([5.0, 0.1, 1.0]))
    ]
    np.testing.assert_allclose(ends, ends[0], rtol=1e-3)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_iter": "long"}, ValueError, "'auto', got 'long'. Or pass a whole number"),
        ({"max_iter": 0}, ValueError, "max_iter=...\\) must be at least 1, got 0"),
        (
            {"partners": Partners(n_refresh=-1)},
            ValueError,
            "n_refresh=...\\) must be at least 0, got -1",
        ),
        ({"partners": Partners(n_refresh=1.5)}, TypeError, "n_refresh=...\\) must be an integer"),
        ({"init_metric": "pca"}, ValueError, "'identity', 'whitened', got 'pca'. Or pass a pos"),
        ({"init_metric": np.eye(3)}, ValueError, r"shape \(2, 2\); got shape \(3, 3\)"),
        ({"init_metric": -np.eye(2)}, ValueError, "smallest eigenvalue is -1"),
    ],
)
def test_bad_refreshes_and_starts_are_refused(toy, options, error, message):
    with pytest.raises(error, match=message):
        MDaML(2, **options).fit(*toy)

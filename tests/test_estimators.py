"""What all nine estimators have in common. What is its own stands in a file of its own."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mdaml
from mdaml.constraints import sample_triplets
from mdaml.datasets import load_dataset

LABELS_ONLY = [mdaml.LMNN, mdaml.DMLMJ, mdaml.LFDA, mdaml.DMLdc]
PAIRS_TOO = [mdaml.GMML, mdaml.KISSME, mdaml.DMLeig]
ITERATIVE = [mdaml.LMNN, mdaml.DMLeig, mdaml.DMLdc, mdaml.MDaML]
ALL = [*LABELS_ONLY, *PAIRS_TOO, mdaml.MDaML, mdaml.Euclidean]

all_nine = pytest.mark.parametrize("cls", ALL)


# Checks fit noise, few samples and few steps, of which some learners rightly warn.
@pytest.mark.filterwarnings("ignore:The weighted mean loss:UserWarning")
@pytest.mark.filterwarnings("ignore:triplet_weight=.* is below lambda1_critical_:UserWarning")
@pytest.mark.filterwarnings("ignore:KISSME got:UserWarning")
@pytest.mark.filterwarnings("ignore:DMLeig:UserWarning")
@pytest.mark.filterwarnings("ignore:.* have at most n_neighbors:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# One check is left out by scikit-learn unless SCIPY_ARRAY_API is set, as `make test` does.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([cls() for cls in ALL])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def vehicle():
    X, y = load_dataset("vehicle", return_X_y=True)
    return StandardScaler().fit_transform(X), y


def seeded(cls, **options):
    """An estimator whose fit is the same every time, and quick."""
    if cls is mdaml.DMLdc:
        options = {"max_iter": 3} | options
    if "random_state" in inspect.signature(cls).parameters:
        options["random_state"] = 0
    return cls(**options)


def fit(cls, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # not what these tests are about
        return seeded(cls, **options).fit(X, y)


@all_nine
def test_distance_is_euclidean_after_the_map_and_the_metric_is_its_square(cls, vehicle):
    X, y = vehicle
    model = fit(cls, X, y)
    L, M = model.components_, model.get_mahalanobis_matrix()
    np.testing.assert_array_equal(M, L.T @ L)
    np.testing.assert_array_equal(M, M.T)
    assert np.linalg.eigvalsh(M)[0] >= -1e-10 * np.linalg.eigvalsh(M)[-1]
    A, B = X[:50], X[50:100]
    mapped = np.linalg.norm(model.transform(A) - model.transform(B), axis=1)
    np.testing.assert_allclose(model.pair_distance(A, B), mapped, rtol=1e-8)
    np.testing.assert_array_equal(model.pair_score(A, B), -model.pair_distance(A, B))
    largest = np.take_along_axis(L, np.abs(L).argmax(axis=1)[:, None], axis=1)
    assert np.all(largest > 0)
    assert list(model.get_feature_names_out()) == [
        f"{cls.__name__.lower()}{n}" for n in range(len(L))
    ]


@all_nine
def test_neighbours_are_no_worse_than_with_euclidean_distance(cls):
    """Three classes that differ in two of six features; the others are loud."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 100)
    X = rng.normal(size=(300, 6)) * [0.3, 0.3, 2, 2, 2, 2]
    X[:, :2] += np.array([[0, 0], [2, 0], [0, 2]])[y]
    train = rng.permutation(300) < 200
    model = fit(cls, X[train], y[train])
    scores = [
        KNeighborsClassifier(3).fit(f(X[train]), y[train]).score(f(X[~train]), y[~train])
        for f in (model.transform, lambda samples: samples)
    ]
    assert scores[0] > 0.9 if cls is not mdaml.Euclidean else scores[0] == scores[1]
    assert scores[1] < 0.9


# Others draw from labels by row number; with triplets and pairs they are tested elsewhere.
@pytest.mark.parametrize("cls", [*LABELS_ONLY, mdaml.GMML, mdaml.KISSME, mdaml.Euclidean])
def test_permuted_samples_give_the_same_metric(cls):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    X[:, 0] += y
    order = rng.permutation(60)
    options = {"n_components": 2} if cls is mdaml.DMLMJ else {}  # its own choice draws rows
    options |= {"max_iter": 2} if cls is mdaml.DMLdc else {}  # later steps amplify rounding
    M, permuted = (
        fit(cls, X[rows], y[rows], **options).get_mahalanobis_matrix()
        for rows in (np.arange(60), order)
    )
    np.testing.assert_allclose(permuted, M, rtol=1e-5, atol=1e-5 * np.abs(M).max())


@all_nine
def test_a_translation_changes_nothing(cls):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    X[:, 0] += 3 * y
    options = {"max_iter": 2} if cls in (mdaml.DMLdc, mdaml.MDaML) else {}  # rounding grows
    M, moved = (
        fit(cls, samples, y, **options).get_mahalanobis_matrix()
        for samples in (X, X + np.array([100.0, -50.0, 7.0]))
    )
    np.testing.assert_allclose(moved, M, rtol=1e-4, atol=1e-4 * np.abs(M).max())


@pytest.mark.parametrize("cls", [cls for cls in ALL if cls is not mdaml.MDaML])
def test_an_orthogonal_map_turns_the_metric(cls):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    X[:, 0] += y
    Q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    options = {"max_iter": 2} if cls is mdaml.DMLdc else {}  # later steps amplify rounding
    M, turned = (
        fit(cls, samples, y, **options).get_mahalanobis_matrix() for samples in (X, X @ Q.T)
    )
    np.testing.assert_allclose(turned, Q @ M @ Q.T, rtol=1e-4, atol=1e-4 * np.abs(M).max())


@all_nine
def test_single_precision_stays_single(cls, vehicle):
    X, y = vehicle
    single, double = fit(cls, X.astype(np.float32), y), fit(cls, X, y)
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    assert double.components_.dtype == double.transform(X).dtype == np.float64


@all_nine
def test_cloned_pickled_and_refitted(cls, vehicle):
    X, y = vehicle
    model = fit(cls, X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_array_equal(fit(cls, X, y).components_, model.components_)


@all_nine
def test_rows_without_a_label_are_left_out_of_the_pairs(cls, vehicle):
    X, y = vehicle[0][:120], vehicle[1][:120]
    codes = np.unique(y, return_inverse=True)[1]
    hidden = np.where(np.arange(120) % 5 == 0, -1, codes)
    model = fit(cls, X, hidden)
    assert np.all(np.isfinite(model.components_))
    if cls in (mdaml.GMML, mdaml.KISSME, mdaml.LMNN, mdaml.LFDA):
        known = hidden >= 0
        np.testing.assert_allclose(
            model.get_mahalanobis_matrix(),
            fit(cls, X[known], codes[known]).get_mahalanobis_matrix(),
            rtol=1e-4,
            atol=1e-6,
        )


@pytest.mark.parametrize("cls", ITERATIVE)
def test_iterative_learners_tell_their_objective_and_how_often_they_stepped(cls, vehicle):
    model = fit(cls, *vehicle)
    assert model.n_iter_ >= 1
    assert model.history_.ndim == 1
    n_passes = len(getattr(model, "pass_starts_", [0]))
    n_steps = 3 if cls is mdaml.MDaML else 1
    assert len(model.history_) == n_passes + model.n_iter_ * n_steps
    assert np.all(np.isfinite(model.history_))


@all_nine
def test_searched_over_in_a_pipeline(cls, vehicle):
    X, y = vehicle[0][:200], vehicle[1][:200]
    steps = make_pipeline(StandardScaler(), seeded(cls), KNeighborsClassifier(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(steps, {"kneighborsclassifier__n_neighbors": [1, 3]}, cv=2)
        assert search.fit(X, y).best_score_ > 0.4


# Supervision that fits, or does not


def supervision(y):
    """The same knowledge in four forms."""
    triplets = sample_triplets(y, 3, 3, random_state=0)
    pairs = np.concatenate([triplets[:, [0, 1]], triplets[:, [0, 2]]])
    signs = np.repeat([1, -1], len(triplets))
    return {
        "y": {"y": y},
        "triplets": {"triplets": triplets},
        "pairs": {"pairs": pairs, "pair_labels": signs},
        "quadruplets": {"quadruplets": triplets[:, [0, 1, 0, 2]]},
    }


@pytest.mark.parametrize("form", ["y", "triplets", "pairs", "quadruplets"])
@pytest.mark.parametrize("cls", [*PAIRS_TOO, mdaml.MDaML, mdaml.Euclidean])
def test_one_name_can_be_swapped_for_another_with_any_supervision(cls, form, vehicle):
    X, y = vehicle
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = seeded(cls).fit(X, **supervision(y)[form])
    assert model.transform(X).shape == (len(X), len(model.components_))


@pytest.mark.parametrize("form", ["triplets", "quadruplets"])
@pytest.mark.parametrize("cls", PAIRS_TOO)
def test_triplets_and_quadruplets_are_their_pairs(cls, form, vehicle):
    X, y = vehicle
    known = supervision(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        broken, by_pairs = (seeded(cls).fit(X, **known[f]) for f in (form, "pairs"))
    np.testing.assert_allclose(
        broken.get_mahalanobis_matrix(), by_pairs.get_mahalanobis_matrix(), rtol=1e-9
    )


@pytest.mark.parametrize("form", ["triplets", "pairs", "quadruplets"])
@pytest.mark.parametrize("cls", LABELS_ONLY)
def test_learners_from_labels_refuse_comparisons_and_say_who_takes_them(cls, form, vehicle):
    X, y = vehicle
    wanted = rf"{cls.__name__} learns from labels, fit\(X, y\); got {form}=.*GMML, KISSME, DMLeig"
    with pytest.raises(TypeError, match=wanted):
        seeded(cls).fit(X, **supervision(y)[form])


@pytest.mark.parametrize("cls", [cls for cls in ALL if cls is not mdaml.Euclidean])
def test_no_supervision_is_refused(cls, vehicle):
    with pytest.raises(ValueError, match=f"{cls.__name__} requires y to be passed"):
        seeded(cls).fit(vehicle[0])


@pytest.mark.parametrize("cls", [cls for cls in ALL if cls is not mdaml.Euclidean])
def test_an_unknown_argument_of_fit_is_named(cls, vehicle):
    with pytest.raises(TypeError, match=rf"{cls.__name__}.fit got an unexpected.*'quadruples'"):
        seeded(cls).fit(*vehicle, quadruples=[[0, 1, 2, 3]])


BAD_PAIRS = {
    "no labels": ({"pairs": [[0, 1]]}, ValueError, r"pair_labels must hold.*got None"),
    "no pairs": ({"pair_labels": [1]}, ValueError, "requires y"),
    "labels of another length": (
        {"pairs": [[0, 1], [1, 2]], "pair_labels": [1]},
        ValueError,
        r"got shape \(1,\) for 2 pairs",
    ),
    "zero and one": (
        {"pairs": [[0, 1], [1, 2]], "pair_labels": [0, 1]},
        ValueError,
        r"got the values 0, 1\. If 0 means dissimilar, pass 2 \* pair_labels - 1",
    ),
    "words": (
        {"pairs": [[0, 1], [1, 2]], "pair_labels": ["yes", "no"]},
        ValueError,
        "got the values no, yes",
    ),
    "three columns": (
        {"pairs": [[0, 1, 2]], "pair_labels": [1]},
        ValueError,
        r"shape \(n_pairs, 2\).*got shape \(1, 3\)",
    ),
    "floats": (
        {"pairs": [[0.0, 1.0]], "pair_labels": [1]},
        TypeError,
        "must be integers.*float64",
    ),
    "a row that is not there": (
        {"pairs": [[0, 10**6]], "pair_labels": [1]},
        ValueError,
        "pairs name row 1000000, but X has",
    ),
    "a negative row": ({"pairs": [[0, -1]], "pair_labels": [1]}, ValueError, "rows are counted"),
    "a sample and itself": (
        {"pairs": [[0, 1], [3, 3]], "pair_labels": [1, -1]},
        ValueError,
        r"two members of a pair must differ, but pair 1 is \(3, 3\)",
    ),
    "none": ({"pairs": np.empty((0, 2), int), "pair_labels": []}, ValueError, "pairs is empty"),
    "labels as well": (
        {"pairs": [[0, 1]], "pair_labels": [1], "y": "vehicle"},
        ValueError,
        "either y or pairs, not both",
    ),
    "labels of pairs with triplets": (
        {"pair_labels": [1], "triplets": [[0, 1, 2]]},
        ValueError,
        "pair_labels belong to pairs",
    ),
}


@pytest.mark.parametrize("cls", PAIRS_TOO)
@pytest.mark.parametrize(("given", "error", "message"), BAD_PAIRS.values(), ids=BAD_PAIRS)
def test_bad_pairs_are_refused(cls, given, error, message, vehicle):
    X, y = vehicle
    given = given | ({"y": y} if "y" in given else {})
    model = seeded(cls)
    with pytest.raises(error, match=f"(?s){message}"):
        model.fit(X, **given)
    assert not hasattr(model, "n_features_in_")


@all_nine
def test_a_failed_fit_leaves_the_model_as_it_was(cls, vehicle):
    X, y = vehicle
    model = fit(cls, X, y)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((10, 3), np.nan), np.arange(10) % 2)
    assert pickle.dumps(model) == before


# Documentation


@all_nine
def test_docstring_says_objective_supervision_use_cost_and_source(cls):
    text = inspect.getdoc(cls)
    for part in ("**Objective**", "**Supervision**", "**Prefer it**", "**Cost**"):
        assert part in text, part
    if cls is not mdaml.Euclidean:
        assert ".. [1]" in text
    for name in inspect.signature(cls).parameters:
        assert f"\n{name} :" in text or f", {name} :" in text or f"\n{name}, " in text, name

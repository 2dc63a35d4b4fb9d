"""Mistakes of a user: each is refused before any work starts, in words that say what to do."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from mdaml import PRESETS, MDaML, Partners
from mdaml.estimators.posing import Posed

N, D = 30, 3
Y = np.arange(N) % 3
X = np.random.default_rng(0).normal(size=(N, D)) + 4 * np.eye(3)[Y]
TRIPLETS = np.array([(i, (i + 3) % N, (i + 1) % N) for i in range(N)])
BOTH_FORMS = {"y": Y}, {"triplets": TRIPLETS}
FEW = Partners(n_similar=2, n_dissimilar=2)


def with_value(array, value):
    """Return a copy with one entry replaced."""
    changed = np.array(array, dtype=float)
    changed.flat[4] = value
    return changed


@pytest.fixture
def no_work(monkeypatch):
    """Fail the test if a fit gets as far as drawing, grouping, or starting modes."""

    def reached(*_args, **_kwargs):
        pytest.fail("Something was to be chosen: the mistake was found too late, or not at all")

    monkeypatch.setattr(Posed, "choose", reached)


refused_before_any_work = pytest.mark.usefixtures("no_work")


@pytest.fixture(scope="module")
def model():
    return MDaML(n_modes=2, partners=FEW, shrinkage=0.0, random_state=0).fit(X, Y)


# Triplets

BAD_TRIPLETS = {
    "two columns": (np.zeros((500, 2), int), ValueError, r"shape \(n_triplets, 3\).*\(500, 2\)"),
    "four columns": (np.zeros((5, 4), int), ValueError, r"shape \(n_triplets, 3\).*\(5, 4\)"),
    "one triplet, flat": ([0, 3, 1], ValueError, r"shape \(n_triplets, 3\).*\(3,\)"),
    "three dimensions": (np.zeros((4, 3, 1), int), ValueError, r"\(n_triplets, 3\).*\(4, 3, 1\)"),
    "a number": (7, ValueError, r"shape \(n_triplets, 3\)"),
    "an empty list": ([], ValueError, "triplets is empty|got none of them, or only empty ones"),
    "floats": (TRIPLETS.astype(float), TypeError, "must be integers.*row numbers of X.*float64"),
    "strings": (TRIPLETS.astype(str), ValueError, "holds names, .* pass ids="),
    "objects": (TRIPLETS.astype(object), TypeError, "must be integers.*object"),
    "booleans": (TRIPLETS > 3, TypeError, "must be integers.*bool"),
    "none at all": (
        np.zeros((0, 3), int),
        ValueError,
        "empty.*at least one comparison|At least one constraint is needed",
    ),
    "a row too high": (np.array([(0, 3, 1), (0, 3, N)]), ValueError, "row 30.*X has 30 rows"),
    "a negative row": (np.array([(0, 3, 1), (0, -2, 1)]), ValueError, "row -2.*negative"),
    "a huge unsigned row": (
        np.array([(0, 3, 2**63 + 1)], dtype=np.uint64),
        ValueError,
        "row 9223372036854775809",
    ),
    "anchor is similar": ([(0, 3, 1), (5, 5, 1)], ValueError, r"must differ.*triplet 1.*5, 5, 1"),
    "anchor is dissimilar": ([(0, 3, 1), (5, 1, 5)], ValueError, r"must differ.*1.*5, 1, 5"),
    "similar is dissimilar": ([(0, 3, 1), (5, 1, 1)], ValueError, r"must differ.*1.*5, 1, 1"),
}
bad_triplets = pytest.mark.parametrize(
    ("triplets", "error", "message"), BAD_TRIPLETS.values(), ids=BAD_TRIPLETS
)


@bad_triplets
@refused_before_any_work
def test_bad_triplets_are_refused_by_fit_and_score(triplets, error, message, model):
    with pytest.raises(error, match=f"(?s){message}"):
        MDaML(n_modes=2).fit(X, triplets=triplets)
    with pytest.raises(error, match=f"(?s){message}"):
        model.score_triplets(X, triplets)


@refused_before_any_work
def test_triplets_of_another_x_are_refused_with_a_word_on_cross_validation():
    with pytest.raises(ValueError, match=r"X has 10 rows.*cross-validation pass labels"):
        MDaML(n_modes=2).fit(X[:10], triplets=TRIPLETS)


@refused_before_any_work
def test_all_repeated_members_are_counted():
    with pytest.raises(ValueError, match=r"triplet 0 is \(1, 1, 2\), the first of 2"):
        MDaML(n_modes=2).fit(X, triplets=[(1, 1, 2), (0, 3, 1), (4, 5, 4)])


@pytest.mark.parametrize("kind", ["list", "uint8", "int32", "big-endian", "frame", "read-only"])
def test_integers_of_any_kind_are_triplets(kind):
    same = {
        "list": TRIPLETS.tolist(),
        "uint8": TRIPLETS.astype(np.uint8),
        "int32": TRIPLETS.astype(np.int32),
        "big-endian": TRIPLETS.astype(">i8"),
        "frame": pd.DataFrame(TRIPLETS, columns=["anchor", "similar", "dissimilar"]),
        "read-only": TRIPLETS.copy(),
    }[kind]
    if kind == "read-only":
        same.flags.writeable = False
    options = {"goal": "neighbors", "n_modes": 2, "anchor": 0.1, "random_state": 0}
    expected = MDaML(**options).fit(X, triplets=TRIPLETS)
    fitted = MDaML(**options).fit(X, triplets=same)
    np.testing.assert_array_equal(fitted.triplets_, TRIPLETS)
    np.testing.assert_array_equal(fitted.components_, expected.components_)


# Labels

BAD_LABELS = {
    "one class": (np.zeros(N), "at least two classes in y, got 1.*nothing is dissimilar"),
    "one class of strings": (np.full(N, "cat"), "at least two classes in y, got 1"),
    "no label": (
        np.full(N, -1),
        "at least two classes in y, got 0.*-1 count as unlabelled: use other labels",
    ),
    "minus one and one": (
        np.where(Y == 0, -1, 1),
        "at least two classes.*-1 count as unlabelled: use other labels",
    ),
    "a class each": (np.arange(N), "No class in y has two members.*class labels"),
    "a class each, but unlabelled": (
        np.where(np.arange(N) < 5, np.arange(N), -1),
        "No class in y has two members.*5 samples",
    ),
    "continuous": (X[:, 0], "class labels, got continuous values.*cut the values into classes"),
    "too few": (Y[:10], r"inconsistent numbers of samples: \[30, 10\]"),
    "none": ([], r"inconsistent numbers of samples: \[30, 0\]"),
    "infinite": (with_value(Y, np.inf), "y contains infinity"),
    "two columns": (np.column_stack([Y, Y]), r"y must be one label per row.*\(30, 2\)"),
    "a number": (3, "y should be a 1d array"),
}


@pytest.mark.parametrize(("y", "message"), BAD_LABELS.values(), ids=BAD_LABELS)
@refused_before_any_work
def test_bad_labels_are_refused(y, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        MDaML(n_modes=2).fit(X, y)


def test_a_class_of_one_sample_is_no_error():
    y = Y.copy()
    y[7] = 9
    partners = Partners(n_similar=2, n_dissimilar=20)
    fitted = MDaML(n_modes=2, partners=partners, shrinkage=0.0, random_state=0).fit(X, y)
    assert 7 not in fitted.triplets_[:, :2]
    assert 7 in fitted.triplets_[:, 2]


@pytest.mark.parametrize("kind", ["random", "neighbors"])
def test_unlabelled_rows_are_in_no_triplet_but_have_weights(kind):
    y = np.where(np.arange(N) < 24, Y, -1)
    partners = replace(FEW, kind=kind)
    fitted = MDaML(n_modes=2, partners=partners, shrinkage=0.0, random_state=0).fit(X, y)
    assert fitted.triplets_.max() < 24
    assert fitted.weights_.shape == (N, 2)


@pytest.mark.parametrize("kind", ["strings", "floats", "booleans", "nullable", "categories"])
def test_classes_of_any_kind_are_labels(kind):
    y = {
        "strings": np.array(["ant", "bee", "cow"])[Y],
        "floats": Y.astype(float),
        "booleans": Y == 1,
        "nullable": pd.Series(Y, dtype="Int64"),
        "categories": pd.Series(np.array(["ant", "bee", "cow"])[Y], dtype="category"),
    }[kind]
    options = {"n_modes": 2, "partners": FEW, "shrinkage": 0.0, "random_state": 0}
    expected = MDaML(**options).fit(X, Y == 1 if kind == "booleans" else Y)
    np.testing.assert_array_equal(MDaML(**options).fit(X, y).triplets_, expected.triplets_)


# Which supervision


@refused_before_any_work
def test_labels_and_triplets_together_are_refused():
    with pytest.raises(ValueError, match="either y or triplets, not both"):
        MDaML(n_modes=2).fit(X, Y, triplets=TRIPLETS)


@refused_before_any_work
def test_neither_labels_nor_triplets_is_refused():
    with pytest.raises(ValueError, match=r"requires y.*or triplets, fit\(X, triplets=T\)"):
        MDaML(n_modes=2).fit(X)


@refused_before_any_work
def test_triplets_in_the_place_of_labels_are_refused():
    with pytest.raises(ValueError, match="pass them by name: fit"):
        MDaML(n_modes=2).fit(X, TRIPLETS)


def test_triplets_are_passed_by_name_only():
    with pytest.raises(TypeError, match="positional argument"):
        MDaML(n_modes=2).fit(X, None, TRIPLETS)


# Samples

BAD_SAMPLES = {
    "missing": (with_value(X, np.nan), ValueError, "X contains NaN"),
    "infinite": (with_value(X, np.inf), ValueError, "X contains infinity"),
    "negative infinite": (with_value(X, -np.inf), ValueError, "X contains infinity"),
    "one feature, flat": (X[:, 0], ValueError, r"Expected 2D array, got 1D.*reshape\(-1, 1\)"),
    "three dimensions": (X[:, :, None], ValueError, "dim 3.*<= 2"),
    "no feature": (X[:, :0], ValueError, r"0 feature\(s\).*minimum of 1"),
    "words": (np.full((N, 2), "abc"), ValueError, "could not convert string to float.*abc"),
    "a column of words": (
        np.array([[1.0, "red"]] * N, dtype=object),
        ValueError,
        "could not convert string to float: 'red'",
    ),
    "a frame with a column of words": (
        pd.DataFrame({"size": np.arange(N), "color": ["red", "blue", "red"] * 10}),
        ValueError,
        "could not convert string to float: 'red'",
    ),
    "objects": (np.array([[1.0, {}]] * N, dtype=object), TypeError, "not 'dict'"),
    "complex": (X + 1j, ValueError, "Complex data not supported"),
}
SPARSE = (scipy.sparse.csr_array(X), scipy.sparse.csc_matrix(X))
bad_samples = pytest.mark.parametrize(
    ("samples", "error", "message"), BAD_SAMPLES.values(), ids=BAD_SAMPLES
)


@bad_samples
@refused_before_any_work
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_bad_samples_are_refused_by_fit_and_transform(samples, error, message, model):
    for supervision in BOTH_FORMS:
        with pytest.raises(error, match=f"(?s){message}"):
            MDaML(n_modes=2).fit(samples, **supervision)
    with pytest.raises(error, match=f"(?s){message}|expecting 3 features"):
        model.transform(samples)


@pytest.mark.parametrize("samples", SPARSE, ids=["array", "matrix"])
@refused_before_any_work
def test_sparse_samples_are_refused_by_fit_only(samples, model):
    for supervision in BOTH_FORMS:
        with pytest.raises(TypeError, match=r"X is sparse, but MDaML needs it dense.*toarray\(\)"):
            MDaML(n_modes=2).fit(samples, **supervision)
    np.testing.assert_allclose(model.transform(samples), model.transform(X))


@pytest.mark.parametrize(
    "supervision", [{"y": [0]}, {"triplets": [(0, 1, 2)]}], ids=["labels", "triplets"]
)
@refused_before_any_work
def test_one_sample_is_refused(supervision):
    with pytest.raises(ValueError, match=r"1 sample\(s\).*minimum of 2 is required by MDaML"):
        MDaML(n_modes=1).fit(X[:1], **supervision)


@pytest.mark.parametrize("kind", ["integers", "float16", "list", "frame", "numbers as objects"])
def test_numbers_of_any_kind_are_samples(kind):
    whole = np.round(4 * X)
    same = {
        "integers": whole.astype(int),
        "float16": whole.astype(np.float16),
        "list": whole.tolist(),
        "frame": pd.DataFrame(whole, columns=list("abc")),
        "numbers as objects": whole.astype(object),
    }[kind]
    options = {"n_modes": 2, "partners": FEW, "shrinkage": 0.0, "random_state": 0}
    fitted = MDaML(**options).fit(same, Y)
    np.testing.assert_array_equal(fitted.components_, MDaML(**options).fit(whole, Y).components_)


# Parameters

BAD_PARAMETERS = [
    ("n_modes", N + 1, ValueError, "between 1 and 30, the number of rows.*got 31"),
    ("n_modes", 0, ValueError, "between 1 and 30, the number of rows.*got 0"),
    ("n_modes", -3, ValueError, "between 1 and 30, the number of rows.*got -3"),
    ("n_modes", 2.0, TypeError, r"must be an integer.*got 2\.0"),
    ("n_modes", "2", TypeError, "must be an integer.*got '2'"),
    ("n_modes", True, TypeError, "must be an integer.*got True"),
    ("n_modes", np.True_, TypeError, "must be an integer.*True"),
    ("n_modes", None, TypeError, "must be an integer.*got None"),
    ("eta", 1, ValueError, "greater than 1, got 1"),
    ("eta", 1.0, ValueError, r"greater than 1, got 1\.0"),
    ("eta", 0.5, ValueError, r"greater than 1, got 0\.5"),
    ("eta", -3, ValueError, "greater than 1, got -3"),
    ("eta", np.nan, ValueError, "finite.*got nan"),
    ("eta", np.inf, ValueError, "finite.*got inf"),
    ("eta", "3", TypeError, "must be a finite number.*got '3'"),
    ("eta", True, TypeError, "must be a finite number.*got True"),
    ("triplet_weight", 0, ValueError, "greater than 0, got 0.*'auto'"),
    ("triplet_weight", -1.5, ValueError, r"greater than 0, got -1\.5.*'auto'"),
    ("triplet_weight", np.nan, ValueError, "finite.*got nan"),
    ("triplet_weight", np.inf, ValueError, "finite.*got inf"),
    ("triplet_weight", "high", TypeError, "must be a finite number.*got 'high'.*'auto'"),
    ("triplet_weight", None, TypeError, "must be a finite number.*got None"),
    ("ridge", -1e-3, ValueError, r"at least 0, got -0\.001"),
    ("ridge", np.nan, ValueError, "finite.*got nan"),
    ("ridge", "none", TypeError, "must be a finite number.*got 'none'"),
    ("partners", "nearest", ValueError, "'neighbors', 'random', got 'nearest'. Or pass Partners"),
    ("partners", None, TypeError, r"'neighbors', 'random' or Partners\(\.\.\.\), got None"),
    ("partners", 5, TypeError, r"'neighbors', 'random' or Partners\(\.\.\.\), got 5"),
    ("partners", PRESETS["labels"], TypeError, r"or Partners\(\.\.\.\), got Preset"),
    ("partners", {"n_near": 3}, ValueError, "no field 'n_near'.*It has kind, n_similar"),
    ("partners", {5: 3}, ValueError, "no field 5.*It has kind, n_similar"),
    ("goal", "labels", ValueError, "'comparisons', 'neighbors', 'paper'.*got 'labels'.*a Preset"),
    ("goal", None, TypeError, r"'neighbors', 'paper' or Preset\(\.\.\.\), got None"),
    ("goal", 5, TypeError, r"'neighbors', 'paper' or Preset\(\.\.\.\), got 5"),
    ("goal", FEW, TypeError, r"'paper' or Preset\(\.\.\.\), got Partners"),
    ("goal", {"n_modes": 3, "etta": 2.0}, ValueError, "no field 'etta'.*It has n_modes, eta"),
    ("goal", {"n_modes": 3}, ValueError, "lacks 'eta'.*replace"),
    ("n_modes", np.ones((N + 1, 3)), ValueError, r"\(n_samples, n_modes\) with 30.*\(31, 3\)"),
    ("n_modes", np.ones((2, N)), ValueError, r"with 30 samples.*\(2, 30\)"),
    ("n_modes", np.ones(N), ValueError, r"with 30 samples.*\(30,\)"),
    ("n_modes", np.ones((N, 0)), ValueError, r"with 30 samples.*\(30, 0\)"),
    ("n_modes", [[1.0, 2.0], [3.0]], ValueError, "first weights.*rows of different lengths"),
    ("n_modes", with_value(np.ones((N, 2)), -0.1), ValueError, r"not negative.*smallest is -0\.1"),
    ("n_modes", with_value(np.ones((N, 2)), np.nan), ValueError, "must be finite"),
    ("n_modes", with_value(np.ones((N, 2)), np.inf), ValueError, "must be finite"),
    ("n_modes", np.zeros((N, 2)), ValueError, "positive sum in every row"),
    ("n_modes", np.full((N, 2), "a"), TypeError, "the first weights.*got"),
    ("max_iter", 0, ValueError, "at least 1, got 0"),
    ("max_iter", 2.5, TypeError, r"must be an integer.*got 2\.5"),
    ("tol", -1e-3, ValueError, r"at least 0, got -0\.001"),
    ("tol", None, TypeError, "must be a finite number.*got None"),
    ("n_components", 0, ValueError, "between 1 and 3, the number of features.*got 0"),
    ("n_components", D + 1, ValueError, "between 1 and 3, the number of features.*got 4"),
    ("n_components", 0.95, TypeError, r"must be an integer.*got 0\.95"),
    ("callback", 3, TypeError, "must be callable, got 3"),
    ("callback", "print", TypeError, "must be callable, got 'print'"),
    ("device", "gpu", ValueError, "must be one of None, 'cpu', 'cuda', 'auto', got 'gpu'"),
]
bad_parameters = pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    BAD_PARAMETERS,
    ids=[
        f"{name}={np.shape(value) if isinstance(value, np.ndarray) else value!r}"
        for name, value, *_ in BAD_PARAMETERS
    ],
)


@bad_parameters
@refused_before_any_work
def test_bad_parameters_are_kept_by_init_and_refused_by_name_in_fit(name, value, error, message):
    model = MDaML(**{name: value})
    assert model.get_params()[name] is value
    for supervision in BOTH_FORMS:
        with pytest.raises(error, match=rf"(?s)^MDaML\({name}=\.\.\.\).*{message}"):
            model.fit(X, **supervision)


BAD_PARTNERS = [
    ("n_similar", 0, ValueError, "at least 1, got 0"),
    ("n_similar", 1.5, TypeError, r"must be an integer.*got 1\.5"),
    ("n_dissimilar", 0, ValueError, "at least 1, got 0"),
    ("n_dissimilar", "all", TypeError, "must be an integer.*got 'all'"),
    ("n_refresh", -1, ValueError, "at least 0, got -1"),
    ("n_refresh", True, TypeError, "must be an integer.*got True"),
    ("kind", "nearest", ValueError, "'neighbors', 'random', got 'nearest'"),
    ("kind", None, ValueError, "'neighbors', 'random', got None"),
    ("pairing", "all", ValueError, "'grid', 'zip', got 'all'"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), BAD_PARTNERS)
@refused_before_any_work
def test_bad_fields_of_partners_are_refused_by_name(name, value, error, message):
    partners = Partners(**{name: value})
    within = replace(PRESETS["paper"], partners=partners)
    for supervision in BOTH_FORMS:
        for given in (partners, {name: value}):
            with pytest.raises(error, match=rf"(?s)^MDaML\(partners\.{name}=\.\.\.\).*{message}"):
                MDaML(partners=given).fit(X, **supervision)
        with pytest.raises(error, match=rf"(?s)^MDaML\(goal\.partners\.{name}=\.\.\.\).*{message}"):
            MDaML(goal=within).fit(X, **supervision)


BAD_CELLS = [
    ("n_modes", 0, ValueError, "at least 1, got 0"),
    ("n_modes", "many", ValueError, "'counted', got 'many'. Or pass a whole number"),
    ("n_modes", 2.5, TypeError, r"must be an integer.*got 2\.5"),
    ("eta", 1.0, ValueError, r"greater than 1, got 1\.0"),
    ("eta", "auto", TypeError, "must be a finite number.*got 'auto'"),
    ("triplet_weight", 0.0, ValueError, r"greater than 0, got 0\.0"),
    ("triplet_weight", None, TypeError, "must be a finite number.*got None"),
    ("weight_unit", "two", ValueError, "'one', 'modes', 'self-weight', got 'two'"),
    ("ridge", -1.0, ValueError, r"at least 0, got -1\.0"),
    ("anchor", -1.0, ValueError, r"at least 0, got -1\.0"),
    ("anchor", (), ValueError, r"at least one value to choose from, got \(\)"),
    ("anchor", (1.0, "2"), TypeError, "must be a finite number.*got '2'"),
    ("anchor", "much", ValueError, "'by amount', got 'much'. Or pass a number"),
    ("floor", 1.5, ValueError, r"between 0 and 1, got 1\.5"),
    ("floor", "auto", TypeError, "must be a number.*got 'auto'"),
    ("shrinkage", 2.0, ValueError, r"between 0 and 1, got 2\.0"),
    ("shrinkage", (0.0, 2.0), ValueError, r"between 0 and 1, got 2\.0"),
    ("shrinkage", "chosen", TypeError, "must be a number.*got 'chosen'.*tuple to choose from"),
    ("partners", "neighbors", TypeError, r"must be Partners\(\.\.\.\), got 'neighbors'"),
    ("partners", None, TypeError, r"must be Partners\(\.\.\.\), got None"),
    ("init_metric", "pca", ValueError, "'identity', 'whitened', got 'pca'"),
    ("init_modes", "random", ValueError, "'gmm', 'kmeans', got 'random'"),
    ("max_iter", 0, ValueError, "at least 1, got 0"),
    ("max_iter", "auto", TypeError, "must be an integer.*got 'auto'"),
    ("max_inner_iter", 0, ValueError, "at least 1, got 0"),
    ("max_inner_iter", None, TypeError, "must be an integer.*got None"),
    ("find_groups", "yes", ValueError, "True, False, got 'yes'"),
    ("measure", None, ValueError, "True, False, got None"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), BAD_CELLS)
@refused_before_any_work
def test_bad_cells_of_a_preset_are_refused_by_name(name, value, error, message):
    preset = replace(PRESETS["paper"], **{name: value})
    for supervision in BOTH_FORMS:
        for given in (preset, vars(preset)):
            with pytest.raises(error, match=rf"(?s)^MDaML\(goal\.{name}=\.\.\.\).*{message}"):
                MDaML(goal=given).fit(X, **supervision)


@pytest.mark.parametrize("random_state", ["seed", -1, 1.5])
@refused_before_any_work
def test_a_bad_seed_is_refused(random_state):
    with pytest.raises((ValueError, TypeError), match=r"(?i)seed"):
        MDaML(n_modes=2, random_state=random_state).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_modes", np.int64(2)),
        ("n_modes", N),
        ("eta", 2),
        ("eta", np.float32(1.5)),
        ("triplet_weight", 1000),
        ("triplet_weight", np.float32(1000)),
        ("ridge", 0),
        ("tol", 0),
        ("n_components", 1),
        ("n_components", D),
        ("n_modes", np.ones((N, 2), int).tolist()),
        ("n_modes", pd.DataFrame(np.full((N, 2), 0.5))),
        ("device", "auto"),
        ("partners", Partners(n_similar=np.int32(2))),
        ("partners", {"n_similar": 2}),
        ("goal", replace(PRESETS["labels"], n_modes=np.int64(2), floor=0, anchor=1, shrinkage=0)),
    ],
    ids=lambda value: "weights" if isinstance(value, list | pd.DataFrame) else repr(value),
)
# What is learned is not the question here; a start with equal modes may well learn little.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_parameters_at_their_bounds_and_of_other_number_types_are_accepted(name, value):
    options = {"n_modes": 2, "partners": FEW, "shrinkage": 0.0, "random_state": 0}
    fitted = MDaML(**{**options, name: value}).fit(X, Y)
    assert np.all(np.isfinite(fitted.components_))


def test_a_refused_fit_can_be_repeated_with_a_good_parameter():
    model = MDaML(n_modes=2, eta=1, shrinkage=0.0, random_state=0)
    with pytest.raises(ValueError, match="eta"):
        model.fit(X, Y)
    assert model.set_params(eta=3.0).fit(X, Y).components_.shape == (D, D)


# After fit


@pytest.mark.parametrize("n_features", [D - 1, D + 1])
def test_another_number_of_features_is_refused(model, n_features):
    other = np.ones((5, n_features))
    message = f"{n_features} features.*expecting 3 features"
    with pytest.raises(ValueError, match=message):
        model.transform(other)
    with pytest.raises(ValueError, match=message):
        model.pair_distance(other, other)
    with pytest.raises(ValueError, match=message):
        model.score_triplets(other, [(0, 1, 2)])


@pytest.mark.parametrize("other", [X[:3], X[:, :2], X[:1]], ids=lambda other: str(other.shape))
@pytest.mark.parametrize("method", ["pair_distance", "pair_score"])
def test_pairs_of_different_shape_are_refused(model, method, other):
    with pytest.raises(ValueError, match=r"same shape, one pair per row, got \(30, 3\) and"):
        getattr(model, method)(X, other)


def test_missing_values_name_the_member_of_the_pair(model):
    with pytest.raises(ValueError, match="B contains NaN"):
        model.pair_distance(X, with_value(X, np.nan))


def test_one_pair_given_as_two_vectors_is_refused(model):
    with pytest.raises(ValueError, match=r"(?s)Expected 2D array, got 1D.*reshape\(1, -1\)"):
        model.pair_distance(X[0], X[1])


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.transform(X),
        lambda model: model.pair_distance(X, X),
        lambda model: model.pair_score(X, X),
        lambda model: model.score_triplets(X, TRIPLETS),
        lambda model: model.get_mahalanobis_matrix(),
        lambda model: model.get_feature_names_out(),
    ],
    ids=[
        "transform",
        "pair_distance",
        "pair_score",
        "score_triplets",
        "get_mahalanobis_matrix",
        "get_feature_names_out",
    ],
)
def test_nothing_works_before_fit(use):
    with pytest.raises(NotFittedError, match="MDaML instance is not fitted yet"):
        use(MDaML())


def test_mixed_labels_are_refused_in_words():
    with pytest.raises(TypeError, match="y mixes labels of types"):
        MDaML(2).fit(X, np.array([1, "a"] * (N // 2), dtype=object))


def test_ragged_triplets_are_refused_in_words():
    with pytest.raises(ValueError, match="rows of different lengths"):
        MDaML(2).fit(X, triplets=[[0, 1, 2], [0, 1]])


def test_an_automatic_weight_that_overflows_is_refused_in_words():
    with pytest.raises(ValueError, match=r"eta is 310\.0: lower it"):
        MDaML(10, eta=310.0).fit(X, Y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_features_too_large_to_square_are_refused(dtype):
    huge = (X * np.finfo(dtype).max ** 0.3).astype(dtype)
    with pytest.raises(ValueError, match="Scale the features"):
        MDaML(2).fit(huge, Y)


@pytest.mark.parametrize(
    "words", [np.full((N, D), "red"), X.astype(object) + 0], ids=["text", "mix"]
)
def test_words_in_x_are_refused_with_advice(words):
    words = words.copy()
    words[3, 1] = "red"
    with pytest.raises(ValueError, match=r"X must hold numbers only.*'red'.*Encode categories"):
        MDaML(2).fit(words, Y)

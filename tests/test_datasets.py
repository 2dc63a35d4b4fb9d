import hashlib
from importlib.resources import files

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from mdaml.datasets import list_datasets, load_dataset, make_multimodal

# Rows, features, classes and rows of each class, counted in the source files, not in the registry.
TABLE = {
    "sonar": (208, 60, 2, [97, 111]),
    "dna": (2000, 180, 3, [464, 485, 1051]),
    "balance": (625, 4, 3, [288, 49, 288]),
    "autompg": (392, 7, 3, [245, 68, 79]),
    "letter": (20000, 16, 26, None),
    "vehicle": (846, 18, 4, [218, 212, 217, 199]),
    "spambase": (4601, 57, 2, [2788, 1813]),
    "german": (1000, 24, 2, [700, 300]),
    "segment": (2310, 18, 7, [330] * 7),
}


@pytest.fixture(params=list_datasets(), ids=lambda record: record.name)
def record(request):
    return request.param


def test_the_registry_holds_the_nine_sets_of_the_table():
    assert {record.name for record in list_datasets()} == set(TABLE)


def test_record_agrees_with_the_table(record):
    n_samples, n_features, n_classes, _ = TABLE[record.name]
    assert (record.n_samples, record.n_features) == (n_samples, n_features)
    assert len(set(record.class_names)) == n_classes
    assert len(set(record.feature_names)) == n_features


def test_record_says_whose_the_data_are(record):
    assert record.source.startswith("https://archive.ics.uci.edu/dataset/")
    assert record.licence == "CC BY 4.0"
    assert "UCI Machine Learning Repository" in record.citation


def test_file_has_the_checksum_of_the_registry(record):
    packed = (files("mdaml.datasets") / "data" / f"{record.name}.csv.gz").read_bytes()
    assert hashlib.sha256(packed).hexdigest() == record.sha256


def test_data_are_finite_and_no_column_is_constant(record):
    X, y = load_dataset(record.name, return_X_y=True)
    assert X.shape == (record.n_samples, record.n_features)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert np.isfinite(X).all()
    assert (np.ptp(X, axis=0) > 0).all()
    assert y.shape == (record.n_samples,)
    assert y.dtype == np.int64


def test_labels_are_the_classes_of_the_table(record):
    counts = np.bincount(load_dataset(record.name).target)
    _, _, n_classes, expected = TABLE[record.name]
    assert len(counts) == n_classes
    assert (counts > 0).all()
    assert expected is None or counts.tolist() == expected


def test_bunch_describes_its_arrays():
    bunch = load_dataset("balance")
    assert isinstance(bunch, Bunch)
    assert bunch.name == "balance"
    assert bunch.target_names == ["left", "balanced", "right"]
    # The class is the sign of the torque: the names are in the order of columns and labels.
    weight, distance, other_weight, other_distance = bunch.data.T
    assert bunch.feature_names[0] == "left_weight"
    torque = weight * distance - other_weight * other_distance
    np.testing.assert_array_equal(bunch.target, 1 - np.sign(torque))


def test_unknown_name_is_refused_with_the_names_and_the_nearest():
    with pytest.raises(ValueError, match=r"must be one of sonar, .*, got 'vehicles'") as error:
        load_dataset("vehicles")
    assert "Did you mean 'vehicle'?" in str(error.value)


@pytest.mark.parametrize("name", ["no such thing", "", None, 3, ["sonar"]])
def test_a_name_near_no_set_gets_no_suggestion(name):
    with pytest.raises(ValueError, match="must be one of") as error:
        load_dataset(name)
    assert "Did you mean" not in str(error.value)


def test_a_good_metric_beats_the_euclidean_one_on_the_toy():
    accuracies = []
    for seed in range(5):
        X, y = make_multimodal(random_state=seed)
        X = StandardScaler().fit_transform(X)
        oracle = X @ [[1.0], [-1.0]]  # a metric of rank one
        accuracies.append(
            [cross_val_score(KNeighborsClassifier(3), Z, y).mean() for Z in (X, oracle)]
        )
    euclidean, best = np.mean(accuracies, axis=0)
    assert best > 0.97
    assert best > euclidean + 0.05


def test_modes_of_the_classes_take_turns_along_u():
    X, y = make_multimodal(90, n_modes_per_class=3, noise=0.0, random_state=0)
    along_u = (X[:, 0] - X[:, 1]) / np.sqrt(2)
    modes = np.rint(along_u + 2.5)
    np.testing.assert_allclose(along_u, modes - 2.5, atol=1e-12)
    np.testing.assert_array_equal(modes % 2, y)
    assert np.bincount(modes.astype(int)).tolist() == [15] * 6


@pytest.mark.parametrize("n_features", [2, 3, 10])
def test_the_nuisance_directions_are_orthogonal_to_u(n_features):
    X, _ = make_multimodal(4000, n_features=n_features, random_state=0)
    variances = np.linalg.eigvalsh(np.cov(X.T))
    assert X.shape == (4000, n_features)
    assert variances[0] == pytest.approx(1.25 + 0.04, rel=0.1)  # modes at -1.5 .. 1.5, and noise
    assert variances[1:] == pytest.approx(variances[-1], rel=0.3)
    assert variances[1] > 4 * variances[0]


def test_same_seed_same_toy():
    for one, other in zip(
        make_multimodal(random_state=7), make_multimodal(random_state=7), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 3}, "n_samples must be an integer of at least 4, got 3"),
        ({"n_samples": 300.0}, "n_samples must be an integer"),
        ({"n_modes_per_class": 0}, "n_modes_per_class must be an integer of at least 1, got 0"),
        ({"n_classes": 1}, "n_classes must be an integer of at least 2, got 1"),
        ({"n_features": 1}, "n_features must be an integer of at least 2, got 1"),
        ({"noise": -0.1}, "noise must be a finite number of at least 0, got -0.1"),
        ({"noise": float("nan")}, "noise must be a finite number"),
        ({"noise": "loud"}, "noise must be a finite number of at least 0, got 'loud'"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_multimodal(**options)

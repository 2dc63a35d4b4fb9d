import gzip
import hashlib
import os
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch
from suite.needs import skip_without

from mdaml import Euclidean
from mdaml.datasets import (
    list_datasets,
    load_dataset,
    make_multimodal,
    make_triplets,
    make_waveform,
)
from mdaml.datasets._registry import DATASETS

# Rows, features, classes and rows of each class, counted in the source files, not in the registry.
TABLE = {
    "sonar": (208, 60, 2, [97, 111]),
    "dna": (2000, 180, 3, [464, 485, 1051]),
    "balance": (625, 4, 3, [288, 49, 288]),
    "autompg": (392, 7, 3, [245, 68, 79]),
    "letter": (20000, 16, 26, None),
    "vehicle": (846, 18, 4, [218, 212, 217, 199]),
    "spambase": (4601, 57, 2, [2788, 1813]),
    "waveform": (5000, 21, 3, None),
    "german": (1000, 24, 2, [700, 300]),
    "segment": (2310, 18, 7, [330] * 7),
    "pubfig": (772, 542, 8, [95, 96, 97, 94, 97, 97, 98, 98]),
    "osr": (2688, 512, 8, [360, 328, 260, 308, 374, 410, 292, 356]),
    "caltech20": (
        *(1536, 512, 20),
        [33, 98, 50, 123, 52, 195, 67, 34, 54, 194, 194, 47, 59, 35, 45, 64, 37, 56, 39, 60],
    ),
}
IMAGES = ["pubfig", "osr", "caltech20"]


@pytest.fixture(params=list_datasets(), ids=lambda record: record.name)
def record(request):
    return request.param


@pytest.fixture(params=[name for name in TABLE if name != "waveform"])
def stored(request):
    """A set and its file."""
    if request.param in IMAGES:
        return request.param, data_file(request.param)
    return request.param, files("mdaml.datasets") / "data" / f"{request.param}.csv.gz"


def data_file(name):
    """The file of a set in the data folder of whoever runs the tests."""
    skip_without(["MDAML_DATA"])
    return Path(os.environ["MDAML_DATA"]) / f"{name}.csv.gz"


@pytest.fixture
def arrays(record):
    if record.availability == "data folder":
        data_file(record.name)
    return load_dataset(record.name, return_X_y=True)


def read_slowly(path):
    with path.open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as lines:
        return np.array([list(map(float, line.split(","))) for line in list(lines)[1:]])


def test_the_registry_holds_the_thirteen_sets_of_the_table():
    assert [record.name for record in list_datasets()] == list(TABLE)


def test_record_agrees_with_the_table(record):
    n_samples, n_features, n_classes, _ = TABLE[record.name]
    assert (record.n_samples, record.n_features) == (n_samples, n_features)
    assert len(set(record.class_names)) == record.n_classes == n_classes
    assert len(set(record.feature_names)) == n_features


def test_record_says_where_the_data_are(record):
    folder = "data folder" if record.name in IMAGES else "bundled"
    assert record.availability == ("generated" if record.name == "waveform" else folder)
    assert record.kind == ("image" if record.name in IMAGES else "table")


def test_record_says_whose_the_data_are(record):
    assert record.source.startswith("https://")
    assert record.licence
    assert record.citation
    if record.kind == "table":
        assert record.source.startswith("https://archive.ics.uci.edu/dataset/")
        assert "UCI Machine Learning Repository" in record.citation
    if record.availability == "bundled":
        assert record.licence == "CC BY 4.0"


def test_record_prints_on_one_line(record):
    assert record.name in repr(record)
    assert f"{record.n_samples} x {record.n_features}" in repr(record)
    assert len(repr(record)) < 80


def test_only_the_bundled_sets_are_in_the_package():
    bundled = {record.name for record in list_datasets() if record.availability == "bundled"}
    folder = files("mdaml.datasets") / "data"
    assert {path.name for path in folder.iterdir()} == {
        "banking77.npz",
        *(f"{name}.csv.gz" for name in bundled),
    }


def test_file_has_the_checksum_of_the_registry(stored):
    name, path = stored
    assert hashlib.sha256(path.read_bytes()).hexdigest() == DATASETS[name].sha256


def test_data_are_those_of_the_file_to_the_last_bit(stored):
    name, path = stored
    table = read_slowly(path)
    X, y = load_dataset(name, return_X_y=True)
    assert X.tobytes() == table[:, :-1].tobytes()
    np.testing.assert_array_equal(y, table[:, -1])


def test_data_are_finite_and_no_column_is_constant(record, arrays):
    X, y = arrays
    assert X.shape == (record.n_samples, record.n_features)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert np.isfinite(X).all()
    assert (np.ptp(X, axis=0) > 0).all()
    assert y.shape == (record.n_samples,)
    assert y.dtype == np.int64


def test_labels_are_the_classes_of_the_table(record, arrays):
    counts = np.bincount(arrays[1])
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


def test_bundled_sets_need_no_data_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("MDAML_DATA", raising=False)
    assert load_dataset("balance", data_home=tmp_path / "none").data.shape == (625, 4)


# A file of the shape and labels of the real one would be large: a small one, and a registry to it.
@pytest.fixture
def small_osr(tmp_path, monkeypatch):
    path = tmp_path / "osr.csv.gz"
    path.write_bytes(gzip.compress(b"f1,f2,label\n0.5,-1e-3,1\n2,.25,0\n10,3.,1\n", mtime=0))
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    record = replace(DATASETS["osr"], n_samples=3, n_features=2, sha256=checksum)
    monkeypatch.setitem(DATASETS, "osr", record)
    monkeypatch.delenv("MDAML_DATA", raising=False)
    return path


@pytest.mark.parametrize("way", ["str", "path", "variable", "home"])
def test_data_folder_is_given_by_argument_or_variable(way, small_osr, monkeypatch):
    options = {}
    if way == "variable":
        monkeypatch.setenv("MDAML_DATA", str(small_osr.parent))
    elif way == "home":
        monkeypatch.setenv("HOME", str(small_osr.parent))
        monkeypatch.setenv("USERPROFILE", str(small_osr.parent))  # Windows
        options = {"data_home": "~"}
    else:
        options = {"data_home": {"str": str, "path": Path}[way](small_osr.parent)}
    X, y = load_dataset("osr", return_X_y=True, **options)
    np.testing.assert_array_equal(X, [[0.5, -0.001], [2.0, 0.25], [10.0, 3.0]])
    np.testing.assert_array_equal(y, [1, 0, 1])


def test_the_argument_wins_over_the_variable(small_osr, tmp_path, monkeypatch):
    monkeypatch.setenv("MDAML_DATA", str(tmp_path / "elsewhere"))
    assert load_dataset("osr", data_home=small_osr.parent).data.shape == (3, 2)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("variable", [None, ""])
def test_without_a_folder_the_error_says_how_to_set_it(name, variable, monkeypatch):
    monkeypatch.delenv("MDAML_DATA", raising=False)
    if variable is not None:
        monkeypatch.setenv("MDAML_DATA", variable)
    with pytest.raises(FileNotFoundError, match="no folder is set") as error:
        load_dataset(name)
    for part in (f"{name}.csv.gz", "MDAML_DATA", "data_home=", "mdaml.features.gist"):
        assert part in str(error.value)
    assert DATASETS[name].source in str(error.value)


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("pubfig", "Parikh and K. Grauman, Relative Attributes"),
        ("osr", "A. Oliva and A. Torralba"),
        ("osr", "Relative Attributes release"),
        ("caltech20", "Caltech-101"),
    ],
)
def test_missing_file_is_named_with_its_place_and_origin(name, origin, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file") as error:
        load_dataset(name, data_home=tmp_path)
    assert f"{tmp_path / name}.csv.gz" in str(error.value)
    assert "given by data_home" in str(error.value)
    assert origin in str(error.value)


def test_missing_folder_is_named_with_who_gave_it(tmp_path, monkeypatch):
    monkeypatch.setenv("MDAML_DATA", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match=r"given by MDAML_DATA.*no such folder") as error:
        load_dataset("osr")
    assert str(tmp_path / "none") in str(error.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: packed[:-9],
        lambda packed: packed[:0],
        lambda packed: packed[:30] + b"!" + packed[31:],
    ],
    ids=["truncated", "empty", "changed"],
)
def test_damaged_file_is_refused_with_both_checksums(damage, small_osr):
    wanted = hashlib.sha256(small_osr.read_bytes()).hexdigest()
    small_osr.write_bytes(damage(small_osr.read_bytes()))
    found = hashlib.sha256(small_osr.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match="is not the file of the registry") as error:
        load_dataset("osr", data_home=small_osr.parent)
    for part in (str(small_osr), found, wanted, "Copy the file again", "your own code"):
        assert part in str(error.value)


def test_a_registry_with_another_shape_is_noticed(small_osr, monkeypatch):
    monkeypatch.setitem(DATASETS, "osr", replace(DATASETS["osr"], n_samples=4))
    with pytest.raises(ValueError, match=re.escape("must hold 4 rows of 2 features")):
        load_dataset("osr", data_home=small_osr.parent)


@pytest.mark.parametrize("field", ["", ".", "1.2.3", "1-2", "x", "1,5"])
def test_what_is_no_number_is_refused(field, small_osr, monkeypatch):
    small_osr.write_bytes(gzip.compress(f"f1,f2,label\n0.5,1,1\n2,{field},0\n1,1,1\n".encode()))
    checksum = hashlib.sha256(small_osr.read_bytes()).hexdigest()
    monkeypatch.setitem(DATASETS, "osr", replace(DATASETS["osr"], sha256=checksum))
    with pytest.raises(ValueError, match=r"could not convert|number of columns changed"):
        load_dataset("osr", data_home=small_osr.parent)


def test_damaged_installation_is_noticed(monkeypatch):
    monkeypatch.setitem(DATASETS, "balance", replace(DATASETS["balance"], sha256="0" * 64))
    with pytest.raises(ValueError, match="Install mdaml again"):
        load_dataset("balance")


def test_pubfig_in_single_precision_is_the_release():
    with gzip.open(data_file("pubfig"), "rt", encoding="utf-8") as lines:
        written = [line.split(",")[:512] for line in lines][1:]
    gist = load_dataset("pubfig").data[:, :512].astype(np.float32)
    # The file has the shortest decimals that tell a number from all others in single precision.
    assert [[str(number) for number in row] for row in gist] == written


def test_waveform_is_the_draw_with_seed_zero():
    waveform = load_dataset("waveform")
    X, y = make_waveform(5000, random_state=0)
    np.testing.assert_array_equal(waveform.data, X)
    np.testing.assert_array_equal(waveform.target, y)
    # Results on this set are published: the draw must stay what it is.
    assert y[:10].tolist() == [0, 1, 0, 1, 1, 2, 0, 2, 0, 0]
    np.testing.assert_allclose(
        X[0, :3], [1.2465069299004312, 0.1261089990872255, -0.23188477900245838], rtol=1e-12
    )


def triangle(peak):
    return np.maximum(6.0 - np.abs(np.arange(1, 22) - peak), 0.0)


def test_waves_have_the_mean_and_covariance_of_the_formula():
    X, y = make_waveform(60000, random_state=0)
    np.testing.assert_allclose(np.bincount(y) / len(y), 1 / 3, atol=0.01)
    peaks = {0: (11, 15), 1: (11, 7), 2: (15, 7)}
    for label, (one, other) in peaks.items():
        waves = X[y == label]
        np.testing.assert_allclose(
            waves.mean(axis=0), (triangle(one) + triangle(other)) / 2, atol=0.06
        )
        difference = triangle(one) - triangle(other)  # times u, whose variance is 1/12
        np.testing.assert_allclose(
            np.cov(waves.T), np.outer(difference, difference) / 12 + np.eye(21), atol=0.15
        )


def test_noise_of_a_wave_is_normal_where_no_triangle_is():
    X, y = make_waveform(30000, random_state=1)
    tail = np.sort(X[y == 1, 20])  # h1 and h3 end before point 21
    assert abs(tail.mean()) < 0.05
    for share, quantile in [(0.5, 0.0), (0.8413, 1.0), (0.9772, 2.0)]:
        assert tail[int(share * len(tail))] == pytest.approx(quantile, abs=0.07)


def three_nn_accuracy(X, y):
    scores = []
    for seed in range(3):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
        model = make_pipeline(StandardScaler(), KNeighborsClassifier(3))
        scores.append(model.fit(X_train, y_train).score(X_test, y_test))
    return np.mean(scores)


def test_three_nn_on_waves_is_as_accurate_as_the_paper_says():
    assert three_nn_accuracy(*load_dataset("waveform", return_X_y=True)) == pytest.approx(
        0.7956, abs=0.015
    )


def test_waves_are_distributed_like_the_uci_file():
    table = read_slowly(data_file("waveform"))
    theirs, labels = table[:, :-1], 2 - table[:, -1]  # numbered in the opposite order
    X, y = load_dataset("waveform", return_X_y=True)
    assert three_nn_accuracy(X, y) == pytest.approx(three_nn_accuracy(theirs, labels), abs=0.02)
    for label in range(3):
        ours, uci = X[y == label], theirs[labels == label]
        np.testing.assert_allclose(ours.mean(axis=0), uci.mean(axis=0), atol=0.25)
        np.testing.assert_allclose(ours.std(axis=0), uci.std(axis=0), atol=0.15)


def test_same_seed_same_waves():
    for one, other in zip(
        make_waveform(50, random_state=7), make_waveform(50, random_state=7), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(make_waveform(50, random_state=8)[0], make_waveform(50)[0])


@pytest.mark.parametrize("n_samples", [0, -1, 2.0, True, None])
def test_number_of_waves_must_be_a_positive_integer(n_samples):
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1"):
        make_waveform(n_samples)


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


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(60, 5))


@pytest.fixture
def labels():
    return np.random.default_rng(1).integers(0, 3, 60)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_answers_of_a_hidden_metric_hold_under_it(rank, points):
    components = np.random.default_rng(2).normal(size=(rank, 5))
    triplets, is_wrong = make_triplets(
        points, n_triplets=20000, components=components, random_state=0
    )
    assert triplets.shape == (20000, 3)
    assert triplets.dtype == np.int64
    assert not is_wrong.any()
    assert all(len(set(triplet)) == 3 for triplet in triplets[:1000].tolist())
    seen = points @ components.T
    assert Euclidean().fit(seen).score_triplets(seen, triplets) == 1.0
    assert Euclidean().fit(points).score_triplets(points, triplets) < 1.0


def test_no_metric_and_no_labels_is_the_euclidean_metric(points):
    triplets, _ = make_triplets(points, random_state=0)
    same, _ = make_triplets(points, components=np.eye(5), random_state=0)
    np.testing.assert_array_equal(triplets, same)
    assert Euclidean().fit(points).score_triplets(points, triplets) == 1.0


def test_answers_of_labels_follow_the_labels(points, labels):
    labels[:7] = -1
    triplets, _ = make_triplets(points, labels, n_triplets=5000, random_state=0)
    anchor, near, far = labels[triplets.T]
    assert np.all(anchor == near)
    assert np.all(anchor != far)
    assert labels[triplets].min() >= 0
    assert np.all(triplets[:, 0] != triplets[:, 1])
    # Each labelled row can be anchor, near and far.
    assert [len(np.unique(column)) for column in triplets.T] == [53] * 3


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 1 / 3, 0.999, 1.0])
@pytest.mark.parametrize("n_triplets", [1, 7, 1000])
def test_share_of_wrong_answers_is_exact(share, n_triplets, points, labels):
    for y in (None, labels):
        options = {"n_triplets": n_triplets, "random_state": 0}
        right, _ = make_triplets(points, y, **options)
        triplets, is_wrong = make_triplets(points, y, wrong=share, **options)
        assert is_wrong.sum() == round(share * n_triplets)
        np.testing.assert_array_equal(triplets[~is_wrong], right[~is_wrong])
        np.testing.assert_array_equal(triplets[is_wrong], right[is_wrong][:, [0, 2, 1]])


def test_wrong_answers_are_spread_evenly(points):
    _, is_wrong = make_triplets(points, n_triplets=10000, wrong=0.2, random_state=0)
    shares = is_wrong.reshape(10, 1000).mean(axis=1)
    assert shares == pytest.approx(0.2, abs=0.05)


def test_every_comparison_is_equally_likely():
    triplets, _ = make_triplets(np.eye(4)[:, :3] * [1, 2, 4], n_triplets=24000, random_state=0)
    asked = np.sort(triplets[:, 1:], axis=1)
    _, counts = np.unique(np.column_stack([triplets[:, 0], asked]), axis=0, return_counts=True)
    assert counts == pytest.approx(2000, abs=200)  # 4 anchors with 3 pairs each


def test_ties_are_not_asked():
    grid = np.stack(np.meshgrid(*[range(4)] * 2), axis=-1).reshape(-1, 2) * 0.1
    triplets, _ = make_triplets(grid, n_triplets=3000, random_state=0)
    anchor, near, far = grid[triplets.T]
    gap = np.sum((anchor - far) ** 2, axis=1) - np.sum((anchor - near) ** 2, axis=1)
    assert gap.min() > 0.009


def test_same_seed_same_comparisons(points, labels):
    for y in (None, labels):
        for one, other in zip(
            make_triplets(points, y, wrong=0.3, random_state=7),
            make_triplets(points, y, wrong=0.3, random_state=7),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_triplets": 0}, "n_triplets must be an integer of at least 1, got 0"),
        ({"wrong": -0.1}, "wrong must be a share between 0 and 1, got -0.1"),
        ({"wrong": 10}, "wrong must be a share between 0 and 1, got 10"),
        ({"wrong": float("nan")}, "wrong must be a share between 0 and 1, got nan"),
        ({"wrong": "many"}, "wrong must be a share between 0 and 1, got 'many'"),
        ({"y": [0, 1] * 30, "components": np.eye(5)}, "either y or components, not both"),
        ({"y": [0, 1]}, r"one label for each of the 60 rows of X, got shape \(2,\)"),
        ({"y": [1] * 60}, "make_triplets needs at least two classes in y, got 1"),
        ({"components": np.eye(4)}, r"each of the 5 features of X, got shape \(4, 4\)"),
        ({"components": np.zeros((1, 5))}, "equally far apart under the hidden metric"),
    ],
)
def test_impossible_comparisons_are_refused(options, message, points):
    with pytest.raises(ValueError, match=message):
        make_triplets(points, **options)


def test_two_points_cannot_be_compared(points):
    with pytest.raises(ValueError, match="at least 3 rows to compare, got 2"):
        make_triplets(points[:2])

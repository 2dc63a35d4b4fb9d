"""Models in files: whatever is saved comes back. What is refused stands in a file of its own."""

import copy
import inspect
import io
import stat
import warnings
import zipfile
from dataclasses import asdict, is_dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import mdaml
from mdaml.datasets import make_multimodal
from mdaml.io.atomic import replace_file
from mdaml.persistence import load

ALL = [
    *(mdaml.DMLMJ, mdaml.GMML, mdaml.KISSME, mdaml.LFDA, mdaml.LMNN, mdaml.DMLdc, mdaml.DMLeig),
    *(mdaml.Euclidean, mdaml.MDaML, mdaml.MDaMLCV),
]
in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def data():
    X, y = make_multimodal(n_samples=120, random_state=0)
    noise = np.random.default_rng(0).normal(size=(120, 2))
    return np.hstack([X, noise]), y


@pytest.fixture(scope="module")
def fitted(data):
    """A function of a class that returns it fitted, once."""
    made = {}

    def fit(cls):
        if cls not in made:
            options = (
                {"random_state": 0} if "random_state" in inspect.signature(cls).parameters else {}
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                made[cls] = cls(**options).fit(*data)
        return made[cls]

    return fit


def assert_same(a, b):
    """Same type and same bits, all the way down; presets and partners come back as their fields."""
    if is_dataclass(a) and not is_dataclass(b):
        a = asdict(a)
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.flags.f_contiguous == b.flags.f_contiguous or not a.flags.contiguous
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_same(left, right)
    elif isinstance(a, mdaml.MDaML):
        assert_same(vars(a), vars(b))
    else:
        assert a == b or (a != a and b != b)


# --- what is saved comes back ---


@pytest.mark.parametrize("cls", ALL)
def test_every_estimator_comes_back_bit_for_bit(cls, fitted, data, tmp_path):
    model = fitted(cls)
    model.save(tmp_path / "model.mdaml", compact=False)
    again = load(tmp_path / "model.mdaml")
    assert type(again) is cls
    assert_same(dict(sorted(vars(model).items())), dict(sorted(vars(again).items())))
    assert_same(model.get_params(), again.get_params())
    assert_same(model.transform(data[0]), again.transform(data[0]))


@pytest.mark.parametrize("cls", ALL)
def test_a_loaded_model_is_saved_as_the_same_bytes(cls, fitted, tmp_path):
    fitted(cls).save(tmp_path / "first")
    load(tmp_path / "first").save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_single_precision_and_names_of_features_come_back(data, tmp_path):
    import pandas

    X = pandas.DataFrame(data[0].astype(np.float32), columns=["a", "b", "c\n", "ü"])
    model = mdaml.GMML().fit(X, data[1])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_same(model.feature_names_in_, again.feature_names_in_)
    assert again.transform(X).dtype == np.float32
    with pytest.raises(ValueError, match="feature names"):
        again.transform(X[["b", "a", "c\n", "ü"]])


def test_values_that_json_does_not_have_come_back(fitted, tmp_path):
    model = copy.deepcopy(fitted(mdaml.MDaML))
    model.lambda1_critical_ = float("inf")
    model.set_params(eta=np.float32(2.1), n_modes=np.int64(10), tol=float("nan"))
    model.save(tmp_path / "model", compact=False)
    assert_same(model, load(tmp_path / "model"))


numbers = st.sampled_from(["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
arrays = hnp.arrays(numbers, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
scalars = numbers.flatmap(lambda dtype: hnp.arrays(dtype, ())).map(lambda array: array[()])
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    plain | scalars | arrays | arrays.map(lambda array: np.asfortranarray(array)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=values)
@in_a_folder
def test_any_value_of_a_parameter_comes_back(value, fitted, tmp_path):
    model = copy.deepcopy(fitted(mdaml.GMML)).set_params(prior=value)
    model.save(tmp_path / "model")
    assert_same(value, load(tmp_path / "model").prior)


@given(array=arrays, order=st.sampled_from("CF"))
@in_a_folder
def test_arrays_are_the_files_that_numpy_writes(array, order, fitted, tmp_path):
    array = np.asarray(array, order=order)
    model = copy.deepcopy(fitted(mdaml.GMML)).set_params(prior=array)
    model.save(tmp_path / "model")
    wanted = io.BytesIO()
    np.save(wanted, array)
    with zipfile.ZipFile(tmp_path / "model") as file:
        assert file.read("arrays/params.prior.npy") == wanted.getvalue()


def test_views_and_other_byte_orders_come_back_as_plain_arrays(fitted, tmp_path):
    big_endian = np.arange(12, dtype=">f8").reshape(3, 4)[:, ::2]
    model = copy.deepcopy(fitted(mdaml.GMML)).set_params(prior=big_endian)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").prior, big_endian)


def test_training_data_are_left_out_unless_they_are_asked_for(fitted, data, tmp_path):
    for cls in (mdaml.MDaML, mdaml.MDaMLCV):
        fitted(cls).save(tmp_path / "whole", compact=False)
        fitted(cls).save(tmp_path / "compact")
        again = load(tmp_path / "compact")
        best = getattr(again, "best_estimator_", again)
        assert not hasattr(best, "weights_")
        assert not hasattr(best, "triplets_")
        assert_same(again.transform(data[0]), fitted(cls).transform(data[0]))
        assert (tmp_path / "compact").stat().st_size < (tmp_path / "whole").stat().st_size


# --- what cannot be saved ---


def test_a_callback_is_left_out_with_a_warning(data, tmp_path):
    model = mdaml.MDaML(n_modes=2, callback=lambda *_: None, random_state=0).fit(*data)
    with pytest.warns(UserWarning, match="callback=.* is not saved") as caught:
        model.save(tmp_path / "model")
    assert caught[0].filename == __file__
    assert model.callback is not None
    assert load(tmp_path / "model").callback is None


def test_a_random_state_object_is_refused_with_advice(fitted, tmp_path):
    model = copy.deepcopy(fitted(mdaml.LFDA)).set_params(random_state=np.random.RandomState(0))
    with pytest.raises(TypeError, match=r"parameter random_state is a RandomState.*set_params"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


class Own(mdaml.GMML):
    """Of a user, so that a file of it could not be loaded elsewhere."""


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda m: m.set_params(prior=np.array([object()])), TypeError, "prior is a ndarray of dt"),
        (lambda m: m.set_params(prior=np.array([["a"]])), TypeError, "ndarray of dtype <U1"),
        (lambda m: m.set_params(prior=np.ma.array([1.0])), TypeError, "MaskedArray"),
        (lambda m: m.set_params(prior={1: 2}), TypeError, "is a dict"),
        (lambda m: m.set_params(prior=np.longdouble(1)), TypeError, "longdouble"),
        (lambda m: m.set_params(prior=[0.5] * 10**6), ValueError, "as NumPy arrays"),
        (lambda m: m.components_.fill(np.nan), ValueError, "components_ holds values that are not"),
        (lambda m: setattr(m, "n_features_in_", 3), ValueError, r"components_ .*shape \(4, 4\)"),
        (
            lambda m: setattr(m, "__class__", Own),
            TypeError,
            "Own, which is not an estimator of mdaml",
        ),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(change, error, message, fitted, tmp_path):
    model = copy.deepcopy(fitted(mdaml.GMML))
    change(model)
    with pytest.raises(error, match=message):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_list_that_holds_itself_is_refused(fitted, tmp_path):
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested too deeply"):
        copy.deepcopy(fitted(mdaml.GMML)).set_params(prior=endless).save(tmp_path / "model")


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        mdaml.MDaML().save(tmp_path / "model")


# --- writing ---


@pytest.mark.needs("POSIX")
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(fitted, tmp_path):
    import resource

    path = tmp_path / "model.mdaml"
    fitted(mdaml.GMML).save(path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))  # as if the disk were full
    try:
        with pytest.raises(
            OSError, match=r"model\.mdaml cannot be written: the file would be larger"
        ):
            fitted(mdaml.MDaML).save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_nothing(tmp_path):
    def write():
        with replace_file(tmp_path / "file") as part:
            part.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_file_has_the_permissions_of_any_new_file_and_links_stay(fitted, tmp_path):
    (tmp_path / "other").touch()
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    fitted(mdaml.GMML).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert type(load(str(tmp_path / "real"))) is mdaml.GMML
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("real", "other")}
    assert len(modes) == 1


def test_folders_that_are_missing_or_meant_as_files_are_named(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        fitted(mdaml.GMML).save(tmp_path / "nowhere" / "model")
    with pytest.raises(ValueError, match="is a folder"):
        fitted(mdaml.GMML).save(tmp_path)
    assert list(tmp_path.iterdir()) == []

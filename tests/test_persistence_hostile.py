"""Files that are damaged, forged or made to harm: refused with a ValueError, and nothing else."""

import hashlib
import io
import json
import os
import random
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

import mdaml
from mdaml.datasets import make_multimodal
from mdaml.persistence import load


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The bytes of a small model with triplets and modes: most of them are structure."""
    X, y = make_multimodal(n_samples=12, random_state=1)
    partners = mdaml.Partners(n_similar=1, n_dissimilar=2)
    model = mdaml.MDaML(n_modes=2, partners=partners, shrinkage=0.0, random_state=0).fit(X, y)
    path = tmp_path_factory.mktemp("models") / "small.mdaml"
    model.save(path, compact=False)
    return path.read_bytes()


@pytest.fixture
def saved(original, tmp_path):
    """The file of that model."""
    path = tmp_path / "small.mdaml"
    path.write_bytes(original)
    return path


def forge(path, edit=None, *, entries=None, text=None, add=(), drop=(), compression=0, mode=None):
    """Write a file anew with changes; zip sums are right, as a forger would make them."""
    with zipfile.ZipFile(path) as file:
        found = {name: file.read(name) for name in file.namelist()}
    document = json.loads(found["model.json"])
    if edit is not None:
        edit(document)
    found["model.json"] = json.dumps(document).encode() if text is None else text
    found |= entries or {}
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as file:
        warnings.simplefilter("ignore", UserWarning)  # of names that are there twice
        for name, content in [*found.items(), *add]:
            if name not in drop:
                info = zipfile.ZipInfo(name)
                info.compress_type = compression
                info.external_attr = (mode or 0o100644) << 16
                file.writestr(info, content)


def set_at(*keys, value):
    """An edit of a document at one place."""

    def edit(document):
        place = document
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return edit


def fitted_at(name, *keys, value):
    return set_at("model", "fitted", name, *keys, value=value)


def an_array(name, array, **changes):
    """Forge one fitted array, with the right size and checksum."""
    written = io.BytesIO()
    np.save(written, array, allow_pickle=True)
    content = written.getvalue()
    described = {
        "file": f"arrays/{name}.npy",
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "order": "C",
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    edit = fitted_at(name, value={"array": described | changes})
    return {"edit": edit, "entries": {f"arrays/{name}.npy": content}}


def without(*keys):
    def edit(document):
        place = document
        for key in keys[:-1]:
            place = place[key]
        del place[keys[-1]]

    return edit


nested = {"model": {"class": "Euclidean", "params": {}, "fitted": {}}}
deep = b'{"format": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
HOSTILE = {
    "newer": ({"edit": set_at("format_version", value=2)}, "format version 2.*Update mdaml"),
    "no version": ({"edit": set_at("format_version", value="1")}, "format version is '1'"),
    "other zip": ({"edit": set_at("format", value="docx")}, "no model of mdaml"),
    "unknown field": ({"edit": set_at("run", value="id")}, "must have the fields"),
    "unknown part": ({"edit": set_at("model", "run", value="id")}, "kind or form, 'model'"),
    "unknown class": ({"edit": set_at("model", "class", value="os.system")}, "holds a 'os.system'"),
    "class no name": ({"edit": set_at("model", "class", value=["MDaML"])}, "form, 'model'"),
    "other class": ({"edit": set_at("model", "class", value="GMML")}, "GMML has no parameter"),
    "unknown parameter": ({"edit": set_at("model", "params", "x", value=1)}, "no parameter 'x'"),
    "method": ({"edit": fitted_at("transform", value=1)}, "'transform' is not an attribute"),
    "property": ({"edit": fitted_at("_n_features_out", value=1)}, "not an attribute that"),
    "dunder": ({"edit": fitted_at("__class__", value=1)}, "'__class__' is not an attribute"),
    "unknown kind": ({"edit": fitted_at("x_", value={"pickle": "gASV"})}, "kind or form, 'pickle'"),
    "two kinds": ({"edit": fitted_at("x_", value={"float": "nan", "dict": {}})}, "unknown kind"),
    "empty kind": ({"edit": fitted_at("x_", value={})}, "unknown kind"),
    "nested model": ({"edit": fitted_at("x_", value=nested)}, "n_features_in_ must be"),
    "huge number": ({"edit": fitted_at("x_", value={"number": ["|i1", 300]})}, "too large"),
    "no number": (
        {"edit": fitted_at("x_", value={"number": ["<f8", "1"]})},
        "its dtype <f8",
    ),
    "nested tuple": (
        {"edit": fitted_at("x_", value=json.loads('{"tuple":[' * 30 + "]}" * 30))},
        "nested too deeply",
    ),
    "no json": ({"text": b"{"}, "model.json is not valid"),
    "no text": ({"text": b"\xff\xfe"}, "model.json is not valid"),
    "deep json": ({"text": deep}, "nested too deeply"),
    "long json": ({"text": b" " * (5 << 20)}, "more than 4194304"),
    "long number": ({"text": b'{"format": ' + b"1" * 10_000 + b"}"}, "model.json is not valid"),
    "nan in json": ({"text": b'{"format": NaN}'}, "NaN is not a number"),
    "twice in json": ({"text": b'{"format": 1, "format": 2}'}, "there twice"),
    "no document": ({"drop": ["model.json"]}, r"a zip file without model\.json"),
    "lost array": ({"drop": ["arrays/centers_.npy"]}, "'arrays/centers_.npy' is missing"),
    "extra entry": ({"add": [("run.py", b"1")]}, "unknown entries such as 'run.py'"),
    "traversal": ({"add": [("../../evil", b"1")]}, r"unknown entries such as '\.\./\.\./evil'"),
    "absolute": ({"add": [("/etc/passwd", b"1")]}, "unknown entries such as '/etc/passwd'"),
    "twice": ({"add": [("arrays/centers_.npy", b"1")]}, "there twice"),
    "traversing reference": (
        {"edit": fitted_at("centers_", "array", "file", value="/etc/passwd")},
        "'/etc/passwd' is missing",
    ),
    "used twice": (
        {"edit": fitted_at("centers_", "array", "file", value="arrays/components_.npy")},
        "bytes, but|used twice|checksum|header of an array",
    ),
    "compressed": ({"compression": zipfile.ZIP_DEFLATED}, "is compressed"),
    "link": ({"mode": 0o120777}, "is a link"),
    "wrong sum": (
        {"edit": fitted_at("centers_", "array", "sha256", value="0" * 64)},
        "the checksum of 'arrays/centers_.npy' is wrong",
    ),
    "other shape": ({"edit": fitted_at("components_", "array", "shape", value=[1, 4])}, "header"),
    "large shape": (
        {"edit": fitted_at("components_", "array", "shape", value=[2**40, 2])},
        "has 160 bytes, but",
    ),
    "negative shape": (
        {"edit": fitted_at("components_", "array", "shape", value=[-2, -2])},
        "not a list of sizes",
    ),
    "true shape": ({"edit": fitted_at("components_", "array", "shape", value=[True])}, "list of s"),
    "object dtype": (an_array("centers_", np.array([{}], dtype=object)), "dtype '|O'"),
    "hidden object": (
        an_array("centers_", np.array([[{}, {}]], dtype=object), dtype="<f8"),
        "bytes, but|header of an array",
    ),
    "string dtype": (an_array("centers_", np.array([["a", "b"]])), "dtype '<U1'"),
    "structured": (an_array("centers_", np.zeros(2, "f8,f8")), "only numbers"),
    "unknown order": ({"edit": fitted_at("centers_", "array", "order", value="K")}, "order 'K'"),
    "nan": (an_array("components_", np.full((2, 2), np.nan)), "components_ holds .* not finite"),
    "inf": (an_array("centers_", np.full((2, 2), np.inf)), "centers_ holds .* not finite"),
    "wide components": (an_array("components_", np.ones((2, 3))), r"\(n_components, 2\).*\(2, 3\)"),
    "no components": (
        {"edit": without("model", "fitted", "components_")},
        "components_ must have at least one row",
    ),
    "empty components": (an_array("components_", np.ones((0, 2))), "at least one row"),
    "half components": (an_array("components_", np.ones((2, 2), "f2")), "single or double"),
    "integer components": (an_array("components_", np.ones((2, 2), int)), "must be floats"),
    "no array": ({"edit": fitted_at("components_", value=[[1.0]])}, "components_ must be floats"),
    "no features": ({"edit": fitted_at("n_features_in_", value=0)}, "n_features_in_ must be"),
    "names": ({"edit": fitted_at("feature_names_in_", value={"strings": ["a"]})}, "be 2 strings"),
    "no names": (
        {"edit": fitted_at("feature_names_in_", value={"strings": [1, 2]})},
        "form, 'strings'",
    ),
    "numbers as names": (an_array("feature_names_in_", np.ones(2)), "be 2 strings, one name"),
    "wide centers": (an_array("centers_", np.ones((2, 3))), r"centers_ must be floats"),
    "more centers": (an_array("centers_", np.ones((3, 2))), r"weights_ must be .*\(n_samples, 3\)"),
    "no centers": ({"edit": without("model", "fitted", "centers_")}, "unknown entr|centers_ is mi"),
    "far triplet": (an_array("triplets_", np.array([[0, 1, 99]])), "triplets_ must be row numbers"),
    "negative": (an_array("triplets_", np.array([[0, 1, -1]])), "triplets_ must be row numbers"),
    "wide triplets": (an_array("triplets_", np.array([[0, 1, 2, 3]])), "triplets_ must be integer"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_forged_file_is_refused(name, saved):
    changes, message = HOSTILE[name]
    forge(saved, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load(saved)
    assert str(caught.value).startswith(f"{saved} cannot be loaded: ")


def test_parameters_that_are_not_in_an_older_file_have_their_defaults(saved):
    forge(saved, lambda document: document["model"]["params"].pop("ridge"))
    assert load(saved).ridge == mdaml.MDaML().ridge


def test_numbers_beyond_all_floats_are_refused(saved):
    text = zipfile.ZipFile(saved).read("model.json").replace(b'"tol": 0.0001', b'"tol": 1e999')
    forge(saved, text=text)
    with pytest.raises(ValueError, match="a number is too large"):
        load(saved)


def test_an_encrypted_entry_is_refused(saved, original):
    content = bytearray(original)
    first = original.index(b"PK\x01\x02")  # of the directory
    content[first + 8] |= 1
    saved.write_bytes(content)
    with pytest.raises(ValueError, match=r"'model\.json' is encrypted"):
        load(saved)


def test_entries_that_share_their_bytes_are_refused(saved, original):
    """A directory of many large entries in the same place would need far more memory than disk."""
    start = original.index(b"PK\x01\x02")
    directory, name = original[start:-22], b"arrays/triplets_.npy"
    place = directory.index(name)
    entry = directory[place - 46 : place + len(name)]
    copies = [entry.replace(name, b"arrays/%09d.npy" % number) for number in range(200)]
    grown, n = directory + b"".join(copies), directory.count(b"PK\x01\x02") + 200
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, n, n, len(grown), start, 0)
    saved.write_bytes(original[:start] + grown + end)
    with pytest.raises(ValueError, match="it claims to hold"):
        load(saved)


def test_a_zero_byte_does_not_end_a_name(saved, original):
    saved.write_bytes(original.replace(b"rays/centers_.npy", b"rays/centers_\0npy"))
    with pytest.raises(ValueError, match="cannot be loaded"):
        load(saved)


def test_a_directory_of_very_many_entries_is_refused_before_it_is_read(saved):
    with zipfile.ZipFile(saved, "w") as file:
        for number in range(2000):
            file.writestr(str(number), b"")
    with pytest.raises(ValueError, match="directory is too long: 2000 entries"):
        load(saved)


@pytest.mark.parametrize("size", [10**9, 2**40])
def test_claims_of_size_cost_no_memory(size, saved):
    forge(saved, fitted_at("components_", "array", "shape", value=[size, 2]))
    tracemalloc.start()
    with pytest.raises(ValueError, match="takes"):
        load(saved)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6


def test_a_long_document_costs_bounded_memory(saved):
    forge(saved, text=b"[" + b"[]," * 300_000 + b"[]]")
    tracemalloc.start()
    with pytest.raises(ValueError, match="no model of mdaml"):
        load(saved)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32e6


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip" * 100, b"\x80\x04\x95", b"\0" * 5000])
def test_what_is_no_zip_is_refused(content, saved):
    saved.write_bytes(content)
    with pytest.raises(ValueError, match=r"not a zip file, or it was cut off\. Name a file that"):
        load(saved)


def test_other_zip_files_are_refused_with_advice(saved):
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:  # as an Excel file is
        archive.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(ValueError, match=r"a zip file without model\.json\. Name a file that save"):
        load(saved)


@pytest.mark.needs("POSIX")
def test_what_is_no_plain_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ValueError, match=r"not a plain file|a folder\. Name"):
            load(path)
    with pytest.raises(FileNotFoundError, match="missing"):
        load(tmp_path / "missing")


# --- fuzzing ---


def refusal(path):
    """The error of load, None if there is none; errors other than ValueError pass through."""
    try:
        load(path)
    except ValueError as error:
        return error
    return None


def is_refused_or_same(path, content, original):
    """Whether load refuses; if not, what it returns must be the original."""
    path.write_bytes(content)
    error = refusal(path)
    if error is None:
        load(path).save(path, compact=False)
        assert path.read_bytes() == original
        return False
    assert type(error) is ValueError
    assert str(error).startswith(f"{path} cannot be loaded: ")
    return True


def test_every_cut_is_refused(saved, original):
    for length in range(0, len(original), 7):
        assert is_refused_or_same(saved, original[:length], original)


def test_flipped_bytes_are_found_or_do_not_matter(saved, original):
    rng = random.Random(0)
    start = original.index(b"PK\x01\x02")
    places = [rng.randrange(len(original)) for _ in range(300)]
    places += range(start, len(original))  # the directory, which no sum protects, as a whole
    refused = 0
    for place in places:
        content = bytearray(original)
        content[place] ^= 1 << rng.randrange(8)
        refused += is_refused_or_same(saved, content, original)
    assert refused > 0.5 * len(places)


def test_spliced_files_are_refused_or_the_same(saved, original):
    rng = random.Random(1)
    for _ in range(300):
        a, b, c = sorted(rng.randrange(len(original)) for _ in range(3))
        kind = rng.randrange(4)
        noise = rng.randbytes(rng.randrange(1, 40))
        content = [
            original[:a] + original[b:],  # a piece is missing
            original[:b] + original[a:],  # a piece is there twice
            original[:a] + original[b:c] + original[a:b] + original[c:],  # pieces in other order
            original[:a] + noise + original[a + len(noise) :],
        ][kind]
        is_refused_or_same(saved, content, original)


def places_in(tree, at=()):
    """The paths of all values in a JSON document."""
    yield at
    items = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in items:
        yield from places_in(tree[key], (*at, key))


JUNK = [
    *(None, True, 0, -1, 2**70, 0.5, "", "x", "<f8", "|O", "C", [], {}, [0], [[]], {"x": 0}),
    *({"float": "nan"}, {"float": []}, {"tuple": 1}, {"dict": []}, {"model": {}}, {"strings": 1}),
    *({"number": []}, {"number": [[], 1]}, {"number": ["<i8", 1.5]}, {"number": ["<f4", 1e300]}),
    *({"array": {}}, {"array": None}, {"tuple": []}, {"dict": {}}, {"number": ["<f8", []]}),
]


def test_junk_anywhere_in_the_document_raises_nothing_but_a_refusal(saved, original):
    with zipfile.ZipFile(io.BytesIO(original)) as file:
        document = json.loads(file.read("model.json"))
    rng = random.Random(2)
    places = [place for place in places_in(document) if place]
    refused = 0
    for place in places * 2:
        saved.write_bytes(original)
        edit = rng.choice([without(*place), set_at(*place, value=rng.choice(JUNK))])
        forge(saved, edit)
        error = refusal(saved)
        assert type(error) in (ValueError, type(None))
        refused += error is not None
    assert refused > 0.5 * len(places)


def test_a_forged_search_needs_its_best_estimator(tmp_path):
    X, y = make_multimodal(n_samples=200, random_state=0)
    model = mdaml.MDaMLCV(random_state=0).fit(X, y)
    for value in (None, {"dict": {}}):
        model.save(tmp_path / "model")
        forge(tmp_path / "model", fitted_at("best_estimator_", value=value))
        with pytest.raises(ValueError, match="best_estimator_ must be an MDaML"):
            load(tmp_path / "model")

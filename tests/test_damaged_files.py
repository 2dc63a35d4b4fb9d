"""Files that cannot be read or written: every reader, every kind of damage, one kind of message.

The message names the file and is a sentence of its own, not a phrase of the operating system.
"""

import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from fuzz.files import damage

from mdaml import GMML, Constraints, load
from mdaml.io.atomic import replace_file
from mdaml.io.beir import read_vectors
from mdaml.io.tables import read_table

pytestmark = pytest.mark.needs("openpyxl", "pyarrow")
N_DAMAGED = 200  # of each format
TABLES = ("table.csv", "table.csv.gz", "table.xlsx", "table.parquet", "table.feather", "table.npy")
SAID = ("said.csv", "said.npz", "said.parquet", "said.xlsx", "said.feather")
FILES = (*TABLES, *SAID, "items.jsonl", "model.mdaml")
READERS = {"table": read_table, "said": Constraints.read, "items": read_vectors, "model": load}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a folder with a file of every format, without a fault."""
    folder, rng = tmp_path_factory.mktemp("whole"), np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    frame.insert(0, "id", [f"i{n}" for n in range(30)])
    triplets = np.array([rng.choice(30, 3, replace=False) for _ in range(40)])
    Constraints(triplets=triplets, n_points=30).write(folder / "said.csv")
    Constraints(triplets=triplets, n_points=30).write(folder / "said.npz")
    for name, table in (("table", frame), ("said", pd.read_csv(folder / "said.csv"))):
        table.to_csv(folder / f"{name}.csv", index=False)
        table.to_csv(folder / f"{name}.csv.gz", index=False)
        table.to_excel(folder / f"{name}.xlsx", index=False)
        table.to_parquet(folder / f"{name}.parquet", index=False)
        table.to_feather(folder / f"{name}.feather")
    np.save(folder / "table.npy", X)
    lines = [f'{{"_id": "i{n}", "embedding": {row.tolist()}}}\n' for n, row in enumerate(X)]
    (folder / "items.jsonl").write_text("".join(lines))
    GMML().fit(X, np.arange(30) % 2).save(folder / "model.mdaml")
    return folder


def read(name, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages, about damage
        return READERS[name.partition(".")[0]](path)


def assert_helpful(error, name):
    """Check a message: the name of the file, some words beyond it, no code of the system."""
    message = str(error)
    assert name in message, message
    words = re.findall(r"[^\W\d_]{2,}", message.replace(name, ""))
    assert len(words) >= 5, message
    assert "rrno" not in message, message
    assert not re.search(r"[:(] *\.?$", message), message  # a reason is announced and missing


@pytest.mark.parametrize("name", FILES)
def test_whole_files_are_read(name, whole):
    assert read(name, whole / name) is not None


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_named_with_what_is_wrong(name, whole, tmp_path):
    content, n_refused = (whole / name).read_bytes(), 0
    path = tmp_path / f"victim{name[name.index('.') :]}"
    for n in range(N_DAMAGED):
        path.write_bytes(damage(content, np.random.default_rng([1, n])))
        try:
            read(name, path)
        except (ValueError, OSError) as error:
            assert_helpful(error, path.name)
            n_refused += 1
    assert n_refused > N_DAMAGED / 3


def _loop(path):
    path.symlink_to(path.name)
    return path


def _dangling(path):
    path.symlink_to("nowhere")
    return path


def _folder(path):
    path.mkdir()
    return path


def _empty(path):
    path.write_bytes(b"")
    return path


def _below_a_file(path):
    path.write_bytes(b"")
    return path / path.name


PLACES = {
    "loop": (_loop, OSError, "leads back to itself"),
    "dangling": (_dangling, FileNotFoundError, "nowhere, which does not exist"),
    "folder": (_folder, (IsADirectoryError, ValueError), "a folder. Name a file in it"),
    "empty": (_empty, ValueError, "empty|damaged|cut off"),
    "missing": (lambda path: path, FileNotFoundError, "no such file. Check"),
    "below a file": (_below_a_file, NotADirectoryError, "not a folder"),
    "long": (lambda path: path.with_name("n" * 300 + path.name), OSError, "a shorter one"),
    "NUL": (lambda path: path.with_name("n\0" + path.name), ValueError, "NUL character"),
}


@pytest.mark.needs("POSIX")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_is_refused_in_words(name, place, tmp_path):
    make, kind, words = PLACES[place]
    path = make(tmp_path / name)
    with pytest.raises(kind, match=words) as caught:
        read(name, path)
    assert_helpful(caught.value, name)


@pytest.mark.needs("POSIX")
@pytest.mark.parametrize("name", FILES)
def test_a_file_without_permission_is_refused_in_words(name, whole, tmp_path):
    path, user = tmp_path / name, os.geteuid()
    path.write_bytes((whole / name).read_bytes())
    path.chmod(0)
    if user == 0:  # root may read everything
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match="Ask its owner") as caught:
            read(name, path)
    finally:
        if user == 0:
            os.seteuid(user)
    assert_helpful(caught.value, name)


@pytest.mark.needs("Linux")
@pytest.mark.parametrize("name", FILES)
def test_names_that_are_not_utf_8_are_read(name, whole, tmp_path):
    path = tmp_path / os.fsdecode(b"\xff" + name.encode())
    path.write_bytes((whole / name).read_bytes())
    assert read(name, path) is not None


@pytest.mark.needs("POSIX")
@pytest.mark.parametrize("place", ["loop", "long", "NUL"])
def test_where_nothing_can_be_written_is_refused_in_words(place, tmp_path):
    make, kind, words = PLACES[place]
    path = make(tmp_path / "out.csv")
    with pytest.raises(kind, match=words) as caught, replace_file(path):
        raise AssertionError("not refused")
    assert_helpful(caught.value, "out.csv")


WRITE_TRIPLETS = "Constraints(triplets=np.arange(9000).reshape(-1, 3)).write('{}')"
WRITE = """
import resource, sys
import numpy as np
from mdaml import Constraints, Euclidean
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    {}
except OSError as error:
    print(error, end="")
"""


@pytest.mark.needs("Linux")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("m.mdaml", "Euclidean().fit(np.eye(50)).save('m.mdaml')"),
        *(
            pytest.param(name, WRITE_TRIPLETS.format(name), marks=pytest.mark.slow)
            for name in ("said.csv", "said.npz", "said.parquet")
        ),
    ],
)
def test_a_file_that_does_not_fit_is_named_and_the_old_one_stays(name, code, tmp_path):
    (tmp_path / name).write_bytes(b"old")
    line = [sys.executable, "-c", WRITE.format(code)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert_helpful(done.stdout, name)
    assert "cannot be written: the file would be larger than allowed" in done.stdout, done.stderr
    assert (tmp_path / name).read_bytes() == b"old"
    assert not list(tmp_path.glob(".mdaml-*"))


def test_digits_of_other_scripts_are_named_with_their_place(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("id,u,v\na,１２,3\nb,2,4\nc,1,5\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"wide.csv:2: .*'u'.*'１２'") as caught:
        read_table(path)
    assert_helpful(caught.value, "wide.csv")


def test_samples_that_overflow_in_products_are_refused_with_advice():
    X = 1e76 * np.random.default_rng(0).normal(size=(60, 4))
    with pytest.raises(ValueError, match="Scale the features"):
        GMML().fit(X, np.arange(60) % 3)

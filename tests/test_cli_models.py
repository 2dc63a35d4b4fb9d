import contextlib
import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import mdaml
import mdaml.cli.transform as transform_module
from mdaml import GMML, KISSME, Euclidean, MDaML, MDaMLCV
from mdaml.cli import build_app
from mdaml.constraints import Constraints
from mdaml.estimators.folding import fold_steps
from mdaml.inspection import audit
from mdaml.io import parsing, tables
from mdaml.io.tables import read_table
from mdaml.model_selection import (
    ConstraintKFold,
    MetricSearchCV,
    knn_accuracy,
    pair_auc,
    triplet_accuracy,
)
from mdaml.persistence import load

pytestmark = pytest.mark.needs("pyarrow")

N, D = 60, 4
SCALES = np.array([1.0, 100.0, 0.01, 10.0])
ONE_MODE = ("--param", "n_modes=1")


def invoke(*arguments):
    return CliRunner().invoke(build_app(), [str(word) for word in arguments])


def run(*arguments, code=0):
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture(scope="module", name="X")
def make_samples():
    return np.random.default_rng(0).normal(size=(N, D)) * SCALES + [0.0, 50.0, 0.0, -3.0]


@pytest.fixture(scope="module")
def ids():
    return [f"item {n}" for n in range(N)]


@pytest.fixture(scope="module", name="T")
def make_triplets(X):
    """Comparisons by the first two features, one in ten of them wrong."""
    rng = np.random.default_rng(1)
    rows = np.array([rng.choice(N, 3, replace=False) for _ in range(300)])
    Z = (X / SCALES)[:, :2]
    far = np.sum(
        (Z[rows[:, 0]] - Z[rows[:, 1]]) ** 2 - (Z[rows[:, 0]] - Z[rows[:, 2]]) ** 2, axis=1
    )
    swap = (far > 0) ^ (rng.random(len(rows)) < 0.1)
    rows[swap] = rows[swap][:, [0, 2, 1]]
    return rows


@pytest.fixture(scope="module")
def tables_of_data(tmp_path_factory, X, ids, T):
    """A folder with the data in every format, from which every test has copies."""
    made = tmp_path_factory.mktemp("tables")
    frame = pd.DataFrame(X, columns=["p", "q", "r", "s"])
    frame.insert(0, "id", ids)
    frame["class"] = np.where(X[:, 0] > 0, "up", "down")
    frame.loc[3, "class"] = ""
    frame.to_csv(made / "items.csv", index=False)
    frame.to_parquet(made / "items.parquet", index=False)
    np.save(made / "items.npy", X)
    Constraints(triplets=T, ids=ids).write(made / "answers.csv")
    Constraints(triplets=T, n_points=N).write(made / "rows.csv")
    return made


@pytest.fixture(scope="module")
def model_file(tables_of_data, tmp_path_factory):
    """The bytes of the model that the command makes of the data."""
    folder = shutil.copytree(tables_of_data, tmp_path_factory.mktemp("model"), dirs_exist_ok=True)
    with contextlib.chdir(folder):
        run(*FIT, "--out", "model.mdaml")
        return Path("model.mdaml").read_bytes()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, tables_of_data):
    """A folder of its own for the test, with the data, where the commands run."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(tables_of_data, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def model(folder, model_file):
    (folder / "model.mdaml").write_bytes(model_file)
    return load(folder / "model.mdaml")


FIT = ("fit", "items.csv", "--drop", "class", "--triplets", "answers.csv", *ONE_MODE)


def distances(model, X):
    Y = np.asarray(model.components_, np.float64) @ X.T
    return np.array([[np.linalg.norm(Y[:, i] - Y[:, j]) for j in range(len(X))] for i in range(5)])


@pytest.mark.parametrize("estimator", [MDaML.paper(2), GMML(), KISSME(), Euclidean(), MDaMLCV()])
def test_folded_model_has_the_same_distances_on_raw_samples(estimator, X, T):
    scaler = StandardScaler().fit(X)
    scaled = scaler.transform(X)
    estimator.fit(scaled, triplets=T)
    before = distances(estimator, scaled)
    assert fold_steps(estimator, [scaler]) is estimator
    np.testing.assert_allclose(distances(estimator, X), before, rtol=1e-9)
    mapped = estimator.transform(X)
    np.testing.assert_allclose(mapped - mapped[0], (X - X[0]) @ estimator.components_.T, atol=1e-9)


@pytest.mark.parametrize("cls", [MDaML, MDaMLCV])
def test_folded_centres_keep_their_distances_to_the_samples(cls, X, T):
    scaler = StandardScaler().fit(X)
    scaled = scaler.transform(X)
    model = cls(random_state=0).fit(scaled, triplets=T)
    metric = getattr(model, "best_estimator_", model)
    weights = metric.weights_.copy()
    before = [metric.pair_distance(scaled, np.tile(c, (N, 1))) for c in metric.centers_]
    fold_steps(model, [scaler])
    after = [metric.pair_distance(X, np.tile(c, (N, 1))) for c in metric.centers_]
    np.testing.assert_allclose(after, before, rtol=1e-9)
    np.testing.assert_array_equal(metric.weights_, weights)


def test_constant_features_are_not_divided_by_zero(X):
    wide = np.hstack([X, np.full((N, 1), 7.0)])
    np.save("wide.npy", wide)
    options = ("--triplets", "rows.csv", *ONE_MODE, "--param", "goal=paper")
    run("fit", "wide.npy", *options, "--out", "wide.mdaml")
    np.save("narrow.npy", X)
    run("fit", "narrow.npy", *options, "--out", "narrow.mdaml")
    between, without = distances(load("wide.mdaml"), wide), distances(load("narrow.mdaml"), X)
    np.testing.assert_allclose(between, without, rtol=1e-4)


def test_fit_equals_the_library_on_standardised_features(model, X, T):
    twin = MDaML(1, random_state=0).fit(StandardScaler().fit_transform(X), triplets=T)
    expected = distances(twin, StandardScaler().fit_transform(X))
    model.__dict__.pop("feature_names_in_")
    np.testing.assert_allclose(distances(model, X), expected, rtol=1e-7)


def test_model_carries_the_names_of_its_columns(model):
    assert model.feature_names_in_.tolist() == ["p", "q", "r", "s"]
    assert model.n_features_in_ == D


@pytest.mark.parametrize(
    "arguments",
    [
        ("items.parquet", "--drop", "class", "--triplets", "answers.csv"),
        ("items.npy", "--triplets", "rows.csv"),
        ("items.csv", "--drop", "class,id", "--triplets", "rows.csv"),
    ],
)
def test_every_format_gives_the_same_model(model, arguments):
    run("fit", *arguments, *ONE_MODE, "--out", "other.mdaml")
    np.testing.assert_allclose(load("other.mdaml").components_, model.components_, rtol=1e-9)


def test_no_scale_learns_on_features_as_they_are(X, T):
    run(*FIT, "--no-scale", "--method", "gmml", "--out", "m.mdaml", code=2)  # n_modes is MDaML's
    arguments = [word for word in FIT if word not in ONE_MODE]
    run(*arguments, "--no-scale", "--method", "gmml", "--param", "t=0.3", "--out", "m.mdaml")
    twin = GMML(t=0.3).fit(X, triplets=T)
    np.testing.assert_allclose(load("m.mdaml").components_, twin.components_, rtol=1e-6)


@pytest.mark.parametrize("method", ["lmnn", "gmml", "kissme", "dmlmj", "lfda", "euclidean"])
def test_methods_learn_from_labels(method):
    document = run_json(
        "fit", "items.csv", "--labels", "class", "--method", method, "--out", "m.mdaml"
    )
    assert document["method"] == method
    assert document["labels"] == {"classes": 2, "rows_without": 1}
    assert load("m.mdaml").n_features_in_ == D


def test_forms_of_comparisons_mix_with_their_weights(ids, X, T):
    Constraints(pairs=T[:50, :2], pair_labels=np.where(np.arange(50) % 2, 1, -1), ids=ids).write(
        "pairs.csv"
    )
    Constraints(
        triplets=T[:9], quadruplets=[[0, 1, 2, 3]], weights=np.arange(1.0, 11.0), ids=ids
    ).write("mixed.csv")
    document = run_json(
        *FIT, "--pairs", "pairs.csv", "--constraints", "mixed.csv", "--out", "m.mdaml"
    )
    counts = document["comparisons"]
    assert [counts[kind] for kind in ("triplets", "similar_pairs", "quadruplets")] == [309, 25, 1]
    assert counts["duplicates"] >= 9
    both = Constraints(
        triplets=np.vstack([T, T[:9]]),
        pairs=T[:50, :2],
        pair_labels=np.where(np.arange(50) % 2, 1, -1),
        quadruplets=[[0, 1, 2, 3]],
        weights=[*np.ones(len(T)), *range(1, 10), *np.ones(50), 10.0],
    )
    scaled = StandardScaler().fit_transform(X)
    twin = MDaML(1, random_state=0).fit(scaled, constraints=both)
    found = load("m.mdaml")
    np.testing.assert_allclose(distances(found, X), distances(twin, scaled), rtol=1e-6)


WRONG_TABLES = {
    "": "t.csv: the file is empty",
    "# only a remark\n\n": "t.csv: the file is empty",
    "id,x,y\n": "t.csv: there is a header, but no row",
    "id,x,y\na,1,2\nb,1\n": "t.csv:3: the line has 2 cells, but 3 are wanted",
    "id,x,y\na,1,2\n\nb,1,2,3\n": "t.csv:4: the line has 4 cells, but 3 are wanted",
    "id,x,y\na,1,2\nb,1,two\n": "t.csv:3: column 'y' holds 'two', not a finite number. If two "
    "means an empty cell, pass --na two; else correct it.\n",
    "# remark\nid,x,y\na,1,2\nb,1,two\n": "t.csv:4: column 'y'",
    "id,x,name\na,1,cat\n": "t.csv:2: column 'name' holds text, such as 'cat'. If it names",
    "id,x,y\na,1,2\nb,,2\n": "t.csv:3: column 'x': empty cell. Fill them in, or pass --missing",
    "id,x,y\na,1,2\nb,NA,2\n": "t.csv:3: column 'x': 'NA' counts as an empty cell",
    "id,x,y\na,1,2\nb,nan,2\n": "t.csv:3: column 'x': 'nan' counts as an empty cell",
    "id,x,y\na,1,2\nb,-inf,2\n": "t.csv:3: column 'x' holds '-inf', not a finite number",
    "id,x,y\na,1,2\nb,1e999,2\n": "t.csv:3: column 'x' holds '1e999', not a finite number",
    "id,x,y\na,1,2\nb,1_0,2\n": "t.csv:3: column 'x' holds '1_0'",
    "id,x,y\na,1,2\n,1,2\n": "t.csv:3: the id, column 'id', is empty",
    "id,x,y\na,1,2\nb,1,2\n\na,3,4\n": "t.csv:5: the id 'a' was there before, at t.csv:2",
    "id,x,x\na,1,2\n": "t.csv: the column 'x' is there twice",
    "id,x,\na,1,2\n": "t.csv:1: column 3 of the header has no name",
    "id\na\n": "t.csv: there is no column left",
    'id,x,y\na,1,2\n"b,1,2\n': "t.csv:3: unexpected end of data. Is a quotation mark not closed?",
    "cat,0.1,0.2\ndog,0.3,0.4\n": "Line 1 is taken for the header; if it is none, add one.",
    "id,x,y\na,1,2\n\x00b,1,\x00\n": "t.csv:3: column 'y'",
}


@pytest.mark.parametrize("text", WRONG_TABLES)
def test_wrong_csv_is_refused_with_file_and_line(folder, text):
    Path("t.csv").write_text(text)
    before = sorted(folder.iterdir())
    result = run("fit", "t.csv", "--triplets", "answers.csv", "--out", "m.mdaml", code=2)
    assert WRONG_TABLES[text] in result.stderr
    assert result.stdout == ""
    assert sorted(folder.iterdir()) == before


def test_text_that_is_not_utf8_is_refused_with_its_line():
    rows = "".join(f"r{n},1,2\n" for n in range(20000))
    Path("t.csv").write_bytes(f"id,x,y\n{rows}".encode() + b"\xff,1,2\n")
    result = run("fit", "t.csv", "--triplets", "answers.csv", "--out", "m.mdaml", code=2)
    assert "t.csv:20002: this is not UTF-8 text" in result.stderr


def test_fault_after_the_first_block_is_found(monkeypatch):
    monkeypatch.setattr(parsing, "_BLOCK_BYTES", 64)
    rows = [f"r{n},{n},2\n" for n in range(500)]
    rows[400] = "r400,oops,2\n"
    Path("t.csv").write_text("id,x,y\n" + "".join(rows))
    with pytest.raises(ValueError, match=r"t\.csv:402: column 'x' holds 'oops'"):
        read_table(Path("t.csv"))


@pytest.mark.parametrize(
    ("text", "names", "wanted_ids", "first"),
    [
        ("id,x,y\na,1,2\nb,3,4\n", ("x", "y"), ["a", "b"], [1, 2]),
        ("x,ID,y\n1,a,2\n3,b,4\n", ("x", "y"), ["a", "b"], [1, 2]),
        ('\ufeffid , x, y\r\n a , 1 , 2\r\n"b, c",3,4\r\n', ("x", "y"), ["a", "b, c"], [1, 2]),
        ("# made by hand\n\nx,y\n+1,2e0\n3,4\n", ("x", "y"), None, [1, 2]),
        ("1,2\n3,4\n", ("x0", "x1"), None, [1, 2]),
        (",x,y\n7,1,2\n9,3,4\n", ("x", "y"), ["7", "9"], [1, 2]),
        ("0,1\n1,2\n3,4\n", ("0", "1"), None, [1, 2]),
        ("id,x,y\nNA,1,2\nnull,3,4\n", ("x", "y"), ["NA", "null"], [1, 2]),
    ],
)
def test_csv_is_read_as_people_write_it(text, names, wanted_ids, first):
    Path("t.csv").write_bytes(text.encode())
    table = read_table(Path("t.csv"))
    assert table.features == names
    assert (None if table.ids is None else table.ids.tolist()) == wanted_ids
    np.testing.assert_array_equal(table.X[0], first)
    assert len(table.X) == 2


def test_numbers_are_read_exactly(X):
    np.testing.assert_array_equal(read_table(Path("items.csv"), label_column="class").X, X)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            ("--id", "nome"),
            "items.csv: there is no column 'nome' (--id nome). Its columns are id, p",
        ),
        (("--drop", "class,t"), "there is no column 't' (--drop t)"),
        (("--labels", "kind"), "there is no column 'kind' (--labels kind)"),
    ],
)
def test_unknown_columns_are_named_with_those_there_are(option, message):
    arguments = ["fit", "items.csv", "--out", "m.mdaml", *option]
    arguments += [] if option[0] == "--labels" else ["--triplets", "answers.csv"]
    assert message in run(*arguments, code=2).stderr


FRAME = {"id": ["a", "b", "c"], "x": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": ["a", "b", None]}, "row 2 (from 0): the id, column 'id', is empty"),
        ({"x": [1.0, None, 3.0]}, "row 1 (from 0): column 'x': empty cell"),
        ({"x": [1.0, np.inf, 3.0]}, "row 1 (from 0): column 'x' holds 'inf', not a finite"),
        ({"id": ["a", "b", "a"]}, "row 2 (from 0): the id 'a' was there before, at t.parquet: row"),
        ({"name": ["x", "y", "z"]}, "row 0 (from 0): column 'name' holds text"),
        ({"id": [], "x": []}, "there are columns, but no row"),
    ],
)
def test_wrong_parquet_is_refused_with_its_row(changes, message):
    pd.DataFrame(FRAME | changes).to_parquet("t.parquet")
    with pytest.raises(ValueError, match=re.escape(f"t.parquet: {message}")):
        read_table(Path("t.parquet"))


def test_a_file_that_is_no_parquet_is_refused():
    Path("t.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ValueError, match=r"t\.parquet: it is not a Parquet file, or it is damaged"):
        read_table(Path("t.parquet"))


def test_parquet_takes_whole_numbers_and_the_index_of_a_frame():
    frame = pd.DataFrame({"x": [1, 2], "y": [True, False]}, index=["a", "b"])
    frame.to_parquet("t.parquet")
    table = read_table(Path("t.parquet"))
    assert table.ids.tolist() == ["a", "b"]
    np.testing.assert_array_equal(table.X, [[1, 1], [2, 0]])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(60), "it must hold numbers of shape (rows, features); got float64 of shape (60,)"),
        (np.array([["a", "b"]]), "it must hold numbers"),
        (np.array([[None]]), "it is not an NPY file of numbers"),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), "row 1 (from 0), column 'x1': empty cell"),
        (None, "it is not an NPY file of numbers, or it is damaged"),
    ],
)
def test_wrong_npy_is_refused(array, message):
    Path("t.npy").write_bytes(b"\x93NUMPY nothing")
    if array is not None:
        np.save("t.npy", array, allow_pickle=True)
    with pytest.raises(ValueError, match=re.escape(f"t.npy: {message}")):
        read_table(Path("t.npy"))


def test_npy_is_mapped_not_copied():
    assert isinstance(read_table(Path("items.npy")).X, np.memmap)
    np.save("whole.npy", np.arange(6).reshape(3, 2))
    assert read_table(Path("whole.npy")).X.dtype == np.float64


def test_npy_takes_names_and_labels_from_other_files(ids, X):
    np.save("ids.npy", np.array(ids))
    np.save("y.npy", (X[:, 0] > 0).astype(int))
    table = read_table(Path("items.npy"), id_column="ids.npy", label_column="y.npy")
    assert table.ids.tolist() == ids
    np.testing.assert_array_equal(table.encode_labels(), X[:, 0] > 0)
    with pytest.raises(ValueError, match="one entry for each row"):
        read_table(Path("items.npy"), id_column="name")
    np.save("short.npy", np.arange(5))
    with pytest.raises(ValueError, match="it must hold 60 texts or whole numbers"):
        read_table(Path("items.npy"), id_column="short.npy")


def test_labels_are_numbers_or_texts_in_order():
    Path("t.csv").write_text("id,x,y\na,1,10\nb,2,2\nc,3,\nd,4,-1\n")
    assert read_table(Path("t.csv"), label_column="y").encode_labels().tolist() == [10, 2, -1, -1]
    Path("t.csv").write_text("id,x,y\na,1,dog\nb,2,cat\nc,3,\nd,4,-1\n")
    table = read_table(Path("t.csv"), label_column="y")
    assert table.encode_labels().tolist() == [1, 0, -1, -1]
    pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [5.0, None, 7.0]}).to_parquet("t.parquet")
    assert read_table(Path("t.parquet"), label_column="y").encode_labels().tolist() == [5, -1, 7]


NONSENSE = "item 0,zebra,item 1\nitem 1,item 1,item 2\nitem 4,item 5\nitem 6,item 7,\n"


def test_wrong_comparisons_are_named_by_file_and_line():
    with Path("answers.csv").open("a") as file:
        file.write(NONSENSE)
    result = run(*FIT, "--out", "m.mdaml", code=2)
    assert result.stderr.splitlines() == [
        "answers.csv:302: b is 'zebra', which is not one of the ids (item 0,zebra,item 1)",
        "answers.csv:303: a and b are the same point, 'item 1' (item 1,item 1,item 2)",
        "answers.csv:304: 2 cells where 3 are wanted, a,b,c (item 4,item 5)",
        "answers.csv:305: c is missing (item 6,item 7,)",
        "4 of 304 lines cannot be used. Fix them, or pass --skip-invalid.",
    ]
    assert not Path("m.mdaml").exists()


def test_long_lists_of_problems_are_cut():
    with Path("answers.csv").open("a") as file:
        file.write("item 0,zebra,item 1\n" * 30)
    lines = run(*FIT, "--out", "m.mdaml", code=2).stderr.splitlines()
    assert len(lines) == 12
    assert lines[-2:] == [
        "… and 20 more",
        "30 of 330 lines cannot be used. Fix them, or pass --skip-invalid.",
    ]


def test_skipped_lines_are_counted_and_change_nothing_else(model):
    with Path("answers.csv").open("a") as file:
        file.write(NONSENSE)
    document = run_json(*FIT, "--skip-invalid", "--out", "m.mdaml")
    assert document["comparisons"]["skipped"] == 4
    assert document["comparisons"]["problems"][0].startswith("answers.csv:302: b is 'zebra'")
    assert document["comparisons"]["triplets"] == 300
    assert (
        "300 triplets of 60 points; 4 lines skipped"
        in run(*FIT, "--skip-invalid", "--out", "m.mdaml").stdout
    )
    np.testing.assert_array_equal(load("m.mdaml").components_, model.components_)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.csv: the file is empty"),
        ("a,b,c\nitem 0,item 1,nobody\n", "not one of the ids"),
        ("a,b,c,d\nitem 0,item 1,item 2,item 3\n", "--triplets: t.csv holds quadruplets"),
        ("one,two,three\nitem 0,item 1,item 2\n", "Ids of items.csv look like 'item 0'"),
    ],
)
def test_wrong_files_of_comparisons_are_refused(text, message):
    Path("t.csv").write_text(text)
    arguments = [*FIT[:5], "t.csv", "--out", "m.mdaml", "--skip-invalid"]
    assert message in run(*arguments, code=2).stderr


def test_rows_out_of_range_say_how_rows_are_counted():
    Path("t.csv").write_text("a,b,c\n0,1,60\n0,1,x\n1,2,3\n")
    result = run("fit", "items.npy", "--triplets", "t.csv", "--out", "m.mdaml", code=2)
    assert "t.csv:2: c is row 60, but X has 60 rows" in result.stderr
    assert "t.csv:3: c is 'x', not an integer; if points have names, pass --id COLUMN" in (
        result.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "items.csv"), "nothing to learn from"),
        (("fit", "items.csv", "--method", "lmnn"), "give --labels COLUMN"),
        ((*FIT[:6], "--labels", "class"), "not from both"),
        ((*FIT[:6], "--method", "lfda"), "lfda learns from --labels only"),
        ((*FIT[:6], "--param", "n_mods=3"), "mdaml has no parameter 'n_mods'. Its parameters are"),
        ((*FIT[:6], "--param", "callback=3"), "mdaml has no parameter 'callback'"),
        ((*FIT[:6], "--param", "n_modes"), "NAME=VALUE is wanted"),
        ((*FIT[:6], "--param", "eta=0.5"), "must be a finite number greater than 1"),
        ((*FIT[:6], "--param", "eta=2", "--param", "eta=3"), "eta is there twice"),
        (("search", *FIT[1:6], "--grid", "n_mods=1,2"), "mdaml has no parameter 'n_mods'"),
        (("search", *FIT[1:6], "--grid", "eta=0.5,2", *ONE_MODE), "eta=0.5 cannot be fitted"),
        (("search", *FIT[1:6], "--method", "mdamlcv"), "chooses its parameters itself"),
        (("search", "items.csv"), "nothing to learn from"),
        (("fit", "nowhere.csv", *FIT[4:6]), "There is no file nowhere.csv"),
        (("fit", "items.txt", *FIT[4:6]), "the name must end in .csv, .tsv, .csv.gz"),
        ((*FIT[:5], "nowhere.csv"), "There is no file nowhere.csv"),
    ],
)
def test_bad_usage_is_two_and_one_line(arguments, message):
    Path("items.txt").touch()
    result = run(*arguments, "--out", "m.mdaml", code=2)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not Path("m.mdaml").exists()


@pytest.mark.parametrize("out", ["m.csv", "nowhere/m.mdaml", "folder.mdaml"])
def test_unwritable_out_is_refused_before_the_data_are_read(out):
    Path("folder.mdaml").mkdir()
    result = run("fit", "nowhere.csv", *FIT[4:6], "--out", out, code=2)
    assert result.stderr.startswith(f"--out: cannot write {out}")


@pytest.mark.usefixtures("model")
def test_model_that_cannot_be_loaded_is_one():
    whole = Path("model.mdaml").read_bytes()
    Path("half.mdaml").write_bytes(whole[: len(whole) // 2])
    result = run("neighbors", "half.mdaml", "items.csv", "--query", "item 0", code=1)
    assert result.stderr.startswith("half.mdaml cannot be loaded")
    run("neighbors", "nowhere.mdaml", "items.csv", "--query", "item 0", code=2)


def test_errors_are_documents_too():
    result = invoke("score", "nowhere.mdaml", "items.csv", *FIT[4:6], "--json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document == {
        "error": {"message": "There is no file nowhere.mdaml.", "details": []},
        "exit_code": 2,
    }
    assert result.stderr == "There is no file nowhere.mdaml.\n"


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (OSError("disk full"), 1), (MemoryError(), 1)]
)
@pytest.mark.usefixtures("model")
def test_failures_leave_the_old_model_and_nothing_else(folder, monkeypatch, error, code):
    before = {path: path.read_bytes() for path in folder.iterdir()}

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(MDaML, "fit", fail)
    run(*FIT, "--out", "model.mdaml", code=code)
    run("search", *FIT[1:6], "--out", "model.mdaml", code=code)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_warnings_of_the_library_are_notes():
    result = run(
        *(*FIT[:6], *ONE_MODE, "--param", "anchor=0", "--param", "triplet_weight=1e-6"),
        *("--out", "m.mdaml", "--json"),
    )
    assert result.stderr.startswith("warning: triplet_weight=1e-06 is below")
    assert json.loads(result.stdout)["warnings"][0].startswith("triplet_weight=1e-06")


def test_scores_equal_the_library(model, X, T, ids):
    pairs, labels = T[:40, :2], np.where(np.arange(40) % 3, 1, -1)
    Constraints(pairs=pairs, pair_labels=labels, ids=ids).write("pairs.csv")
    quadruplets = np.hstack([T[:50, [0, 1]], T[50:100, [0, 2]]])
    quadruplets = quadruplets[quadruplets[:, 0] != quadruplets[:, 2]]
    Constraints(quadruplets=quadruplets, ids=ids).write("quads.csv")
    scores = run_json(
        *("score", "model.mdaml", "items.csv", "--triplets", "answers.csv", "--pairs", "pairs.csv"),
        *("--quadruplets", "quads.csv", "--labels", "class", "-k", "5"),
    )["scores"]
    model.__dict__.pop("feature_names_in_")
    y = np.where(X[:, 0] > 0, 1, 0)
    y[3] = -1
    metrics = {
        "learned": (model, X),
        "euclidean": (Euclidean().fit(X), X),
        "standardised": (Euclidean().fit(X), StandardScaler().fit_transform(X)),
    }
    for name, (metric, Z) in metrics.items():
        found = {key: by[name] for key, by in scores.items()}
        assert found == pytest.approx(
            {
                "triplets that hold": metric.score_triplets(Z, T),
                "quadruplets that hold": metric.score_quadruplets(Z, quadruplets),
                "pair AUC": metric.score_pairs(Z, pairs, labels),
                "5-NN accuracy, leave one out": knn_accuracy(metric, Z, y, k=5),
            }
        )
    assert pair_auc(model, X, Constraints(pairs=pairs, pair_labels=labels)) == pytest.approx(
        scores["pair AUC"]["learned"]
    )


def test_audit_equals_the_library_with_ids(model, X, T, ids):
    arguments = ("audit", "model.mdaml", "items.csv", *FIT[4:6], "--top", "7")
    document = run_json(*arguments, "--out", "audit.csv")
    model.__dict__.pop("feature_names_in_")
    expected = audit(model, X, triplets=T)
    counts = expected["category"].value_counts()
    assert document["categories"] == {name: counts[name] for name in document["categories"]}
    first = expected.sort_values("suspicion", ascending=False, kind="stable").head(7)
    assert [row["suspicion"] for row in document["most_suspicious"]] == pytest.approx(
        first["suspicion"].tolist()
    )
    assert [row["a"] for row in document["most_suspicious"]] == [ids[a] for a in first["a"]]
    written = pd.read_csv("audit.csv")
    assert written["c"].tolist() == [ids[c] for c in T[:, 2]]
    np.testing.assert_allclose(written["slack"], expected["slack"])
    run(*arguments, "--out", "audit.parquet")
    assert pd.read_parquet("audit.parquet")["category"].astype(str).tolist() == (
        expected["category"].astype(str).tolist()
    )


@pytest.mark.usefixtures("model")
def test_audit_of_mixed_forms_leaves_missing_members_empty(ids):
    Constraints(triplets=[[0, 1, 2]], pairs=[[3, 4], [5, 6]], pair_labels=[1, -1], ids=ids).write(
        "mixed.csv"
    )
    document = run_json("audit", "model.mdaml", "items.csv", "--constraints", "mixed.csv")
    by_kind = {row["kind"]: row for row in document["most_suspicious"]}
    assert by_kind["similar pair"]["c"] is None
    assert by_kind["triplet"]["c"] == "item 2"
    assert (
        "dissimilar pair"
        in run("audit", "model.mdaml", "items.csv", "--constraints", "mixed.csv").stdout
    )


def test_audit_judges_persons_by_a_column(model, X, T, ids):
    who = np.array(["ann", "bob", "cy"])[np.arange(len(T)) % 3]
    supervision = pd.DataFrame(np.array(ids)[T], columns=["a", "b", "c"])
    supervision.assign(who=who, time=1.5, side=1).to_csv("said.csv", index=False)
    arguments = ("audit", "model.mdaml", "items.csv", "--triplets", "said.csv", "--who", "who")
    document = run_json(*arguments, "--seconds", "time", "--left", "side")
    model.__dict__.pop("feature_names_in_")
    left, seconds = np.ones(len(T), bool), np.full(len(T), 1.5)
    expected = audit(model, X, triplets=T, who=who, seconds=seconds, left=left)
    for row, wanted in zip(document["persons"], expected.to_dict("records"), strict=True):
        assert row["who"] == wanted["who"]
        assert row["remark"] == wanted["remark"] == "always answers left"
        assert row["error"] == pytest.approx(wanted["error"])
    assert "always answers left" in run(*arguments, "--left", "side").stdout


def test_kinds_of_persons_from_the_shell(X, T, ids):
    # Every second person looks at the third feature instead of the first two.
    Z, T = (X / SCALES)[:, 2], T.copy()
    a, b, c = T[1::2].T
    T[1::2] = np.where(
        ((Z[a] - Z[b]) ** 2 > (Z[a] - Z[c]) ** 2)[:, None], T[1::2, [0, 2, 1]], T[1::2]
    )
    supervision = pd.DataFrame(np.array(ids)[T], columns=["a", "b", "c"])
    supervision.assign(who=[f"p{n % 6}" for n in range(len(T))]).to_csv("said.csv", index=False)
    fit = ("fit", "items.csv", "--triplets", "said.csv", "--drop", "class", "--out", "people.mdaml")
    document = run_json(*fit, "--who", "who", "--kinds", "2")
    assert sum(document["kinds"]["persons"]) == 6
    result = run(*fit, "--who", "who", "--kinds", "2")
    lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    found = r"Of held-out answers [\d.]+% hold under the shared metric, [\d.]+% under"
    assert re.match(found, lines["held_out"])
    found = r".*% under that of all, [\d.]+% before learning"
    assert re.fullmatch(found, lines["agreement"])
    assert "note: Finding kinds of people takes many fits" in result.stderr
    score = ("score", "people.mdaml", "items.csv", "--triplets", "said.csv")
    scores = run_json(*score, "--who", "who")["scores"]
    model = mdaml.load("people.mdaml")
    for metric in (model, model.metric_):
        metric.__dict__.pop("feature_names_in_", None)
    own = model.score_triplets(X, T, who=[f"p{n % 6}" for n in range(len(T))])
    assert document["agreement"]["learned"] == pytest.approx(own)
    assert document["agreement"]["shared"] == pytest.approx(model.metric_.score_triplets(X, T))
    assert scores["comparisons, by who gave them"]["learned"] == pytest.approx(own)
    assert "comparisons, by who gave them" not in run_json(*score)["scores"]
    assert own > model.metric_.score_triplets(X, T)
    judged = ("audit", *score[1:], "--who", "who", "--out", "judged.csv")
    document, found = run_json(*judged), pd.read_csv("judged.csv")
    assert found["satisfied"].mean() == pytest.approx(own)  # not by the shared metric
    assert found[["a", "b", "c"]].to_numpy().tolist() == supervision.to_numpy().tolist()
    assert sum(document["categories"].values()) == len(T)
    for option, given in ((("--kind", "1"), {"kind": 1}), (("--who", "p3"), {"who": "p3"})):
        run("transform", "people.mdaml", "items.csv", *option, "--out", "y.npy")
        assert np.allclose(np.load("y.npy"), model.transform(X, **given))
        near = ("neighbors", "people.mdaml", "items.csv", "--query", ids[0], "-k", "1")
        found = run_json(*near, *option)["queries"][0]["neighbors"][0]
        distances, rows = model.metric_for(**given).neighbors(X, k=1)
        assert (found["row"], found["distance"]) == (rows[0, 0], pytest.approx(distances[0, 0]))
    for option, message in (
        (("--who", "zoe"), "people.mdaml knows nobody called 'zoe'. It knows p0, p1, p2"),
        (("--kind", "7"), "kind must be below 2"),
        (("--who", "p1", "--kind", "0"), "Pass either who or kind"),
    ):
        assert message in run(*near, *option, code=2).stderr
    assert "give --who COLUMN too" in run(*fit, "--kinds", "2", code=2).stderr
    to_onnx = ("fit", *fit[1:-1], "m.onnx", "--who", "who", "--kinds", "2")
    assert "an ONNX file holds one" in run(*to_onnx, code=2).stderr
    assert "must be a number or auto" in run(*fit, "--who", "who", "--kinds", "x", code=2).stderr
    weighed = run_json(*fit, "--who", "who")
    assert "kinds" not in weighed


@pytest.mark.usefixtures("model")
def test_answers_are_scored_as_what_they_are(X, ids):
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation(len(X))[:5] for _ in range(30)])
    names = np.array(ids)[rows]
    odd = pd.DataFrame(names[:, :3], columns=["item1", "item2", "item3"]).assign(odd=names[:, 0])
    odd.to_csv("odd_one_out.csv", index=False)
    lists = {"shown": names[:, 1:], "picked": names[:, 1:3]}
    picks = {"anchor": names[:, 0]} | {k: [";".join(row) for row in v] for k, v in lists.items()}
    pd.DataFrame(picks).to_csv("picks.csv", index=False)
    ranked = pd.DataFrame(names, columns=["anchor", *(f"rank{n}" for n in range(1, 5))])
    ranked.to_csv("rankings.csv", index=False)
    given = {
        "odd_one_out": (rows[:, :3], rows[:, 0]),
        "picks": (rows[:, 0], rows[:, 1:], rows[:, 1:3]),
        "rankings": (rows[:, 0], rows[:, 1:]),
    }
    model = mdaml.load("model.mdaml")
    model.__dict__.pop("feature_names_in_")
    for form, answers in given.items():
        arguments = ("--constraints", f"{form}.csv", "--form", form)
        scores = run_json("score", "model.mdaml", "items.csv", *arguments)["scores"]
        wanted = getattr(model, f"score_{form}")(X, *answers)
        found = [by["learned"] for name, by in scores.items() if "triplets" not in name]
        assert found == [pytest.approx(wanted)], form


@pytest.mark.usefixtures("model")
def test_audit_names_a_column_that_is_not_there():
    arguments = ("audit", "model.mdaml", "items.csv", *FIT[4:6])
    assert "no column 'who'" in run(*arguments, "--who", "who", code=2).stderr
    assert "give --who too" in run(*arguments, "--left", "side", code=2).stderr


def test_audit_takes_a_model_without_its_training_weights(model):
    model.save("compact.mdaml", compact=True)
    document = run_json("audit", "compact.mdaml", "items.csv", *FIT[4:6])
    assert sum(document["categories"].values()) == 300


@pytest.mark.filterwarnings("ignore::UserWarning")  # the same is found, whether it is good or not
def test_search_equals_the_library(X, T):
    document = run_json(
        *("search", *FIT[1:6], "--grid", "anchor=0.003,0.1", "--grid", "triplet_weight=30,300"),
        *("--folds", "3", "--no-scale", "--seed", "4", "--out", "m.mdaml"),
    )
    twin = MetricSearchCV(
        MDaML(random_state=4),
        {"anchor": [0.003, 0.1], "triplet_weight": [30, 300]},
        cv=ConstraintKFold(3, random_state=4),
        random_state=4,
    ).fit(X, triplets=T)
    assert document["best_params"] == twin.best_params_
    assert document["best_score"] == pytest.approx(twin.best_score_)
    scores = {tuple(row["params"].values()): row["mean"] for row in document["results"]}
    assert scores == pytest.approx(
        {
            tuple(params.values()): score
            for params, score in zip(
                twin.cv_results_["params"], twin.cv_results_["mean_test_score"], strict=True
            )
        }
    )
    np.testing.assert_allclose(
        load("m.mdaml").components_, twin.best_estimator_.components_, rtol=1e-7
    )


def test_search_scales_inside_and_saves_a_model_of_raw_features(X, T):
    scaled = StandardScaler().fit_transform(X)
    for name, make, is_kept in (("gmml", Euclidean, True), ("kissme", KISSME, False)):
        document = run_json(
            *("search", *FIT[1:6], "--method", name, "--out", "m.mdaml"),
            *(("--hold-out", "points", "--folds", "2") if is_kept else ()),
        )
        assert document["start_kept"] is is_kept
        assert document["gain"]["is_beyond_chance"] is not is_kept
        twin = make() if is_kept else make(**document["best_params"])
        expected = distances(twin.fit(scaled, triplets=T), scaled)
        np.testing.assert_allclose(distances(load("m.mdaml"), X), expected, rtol=1e-7)


@pytest.mark.slow
def test_search_has_a_grid_for_every_method():
    for method in ("lmnn", "kissme", "dml-eig", "dmlmj", "lfda", "dml-dc", "euclidean"):
        document = run_json(
            *("search", "items.csv", "--labels", "class", "--method", method, "--folds", "2"),
            *("--out", "m.mdaml"),
        )
        assert 0.0 <= document["best_score"] <= 1.0


def brute_force(model, X, row, k):
    """Nearest rows by plain loops, with their place by Euclidean distance."""
    L = model.components_
    learned = [(float(np.linalg.norm(L @ (x - X[row]))), n) for n, x in enumerate(X) if n != row]
    plain = sorted((float(np.linalg.norm(x - X[row])), n) for n, x in enumerate(X) if n != row)
    place = {n: rank for rank, (_, n) in enumerate(plain, 1)}
    return [(n, distance, place[n]) for distance, n in sorted(learned)[:k]]


@pytest.mark.parametrize("name", ["items.csv", "items.parquet", "items.npy"])
def test_neighbors_equal_a_plain_search(model, monkeypatch, X, ids, name):
    monkeypatch.setattr("mdaml.cli.neighbors._DISTANCES", 2 * N)  # two queries at a time
    rows = [5, 11, 0]
    queries = [str(row) if name == "items.npy" else ids[row] for row in rows]
    options = [word for query in queries for word in ("--query", query)]
    document = run_json("neighbors", "model.mdaml", name, *options, "-k", "4")
    for row, query, found in zip(rows, queries, document["queries"], strict=True):
        assert found["query"] == query
        expected = brute_force(model, X, row, 4)
        assert [near["row"] for near in found["neighbors"]] == [n for n, _, _ in expected]
        assert [near["euclidean_rank"] for near in found["neighbors"]] == [r for *_, r in expected]
        np.testing.assert_allclose(
            [near["distance"] for near in found["neighbors"]], [d for _, d, _ in expected]
        )


@pytest.mark.usefixtures("model")
def test_neighbors_are_one_plain_table_in_a_pipe(ids):
    options = ("--query", ids[1], "--query", ids[2], "-k", "2")
    lines = run("neighbors", "model.mdaml", "items.csv", *options).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    assert rows[0] == ["query", "rank", "id", "distance", "Euclidean rank"]
    assert [row[:2] for row in rows[1:]] == [
        [ids[1], "1"],
        [ids[1], "2"],
        [ids[2], "1"],
        [ids[2], "2"],
    ]


@pytest.mark.usefixtures("model")
def test_neighbors_of_new_vectors_and_of_listed_ids(X, ids):
    with Path("new.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["s", "r", "q", "p", "id"])  # columns are found by name
        rows.writerow([*X[9][::-1], "copy of 9"])
    found = run_json("neighbors", "model.mdaml", "items.csv", "--queries", "new.csv")["queries"]
    assert found[0]["query"] == "copy of 9"
    assert found[0]["neighbors"][0] == {
        "id": ids[9],
        "row": 9,
        "distance": pytest.approx(
            0.0, abs=1e-12
        ),  # one row is mapped with other rounding than many
        "euclidean_rank": 1,
    }
    Path("list.txt").write_text(f"{ids[4]}\n\n{ids[8]}\n")
    found = run_json("neighbors", "model.mdaml", "items.csv", "--queries", "list.txt", "-k", "999")
    assert [item["query"] for item in found["queries"]] == [ids[4], ids[8]]
    assert [len(item["neighbors"]) for item in found["queries"]] == [N - 1, N - 1]


@pytest.mark.usefixtures("model")
def test_neighbors_say_what_can_be_asked():
    for arguments, message in {
        (): "Choose what to look for",
        ("--query", "zebra"): "There is no id 'zebra'. Ids of items.csv look like 'item 0'",
    }.items():
        result = run("neighbors", "model.mdaml", "items.csv", *arguments, code=2)
        assert message in result.stderr
    result = run("neighbors", "model.mdaml", "items.npy", "--query", "60", code=2)
    assert "There is no row '60'. The rows of items.npy are numbered 0 to 59" in result.stderr


@pytest.fixture
def small_blocks(monkeypatch):
    """Make even a short file many blocks."""
    monkeypatch.setattr(parsing, "_BLOCK_BYTES", 512)
    monkeypatch.setattr(tables, "BLOCK_ROWS", 7)
    monkeypatch.setattr(
        transform_module,
        "slice_rows",
        lambda n, _: (slice(start, start + 5) for start in range(0, n, 5)),
    )


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("data", ["items.csv", "items.parquet", "items.npy"])
@pytest.mark.parametrize("out", ["out.csv", "out.parquet", "out.feather", "out.npy"])
def test_transform_equals_the_library_in_every_format(model, X, ids, data, out):
    document = run_json("transform", "model.mdaml", data, "--out", out)
    assert document["rows"] == N
    model.__dict__.pop("feature_names_in_")
    expected = model.transform(X)
    if out == "out.npy":
        found = np.load(out, mmap_mode="r")
        assert found.dtype == np.float64
    else:
        frame = getattr(pd, f"read_{out[4:]}")(out)
        assert ("id" in frame) == (data != "items.npy")
        if "id" in frame:
            assert frame.pop("id").tolist() == ids
        assert frame.columns.tolist() == model.get_feature_names_out().tolist()
        found = frame.to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_transform_in_single_precision(model, X):
    run("transform", "model.mdaml", "items.csv", "--out", "out.npy", "--dtype", "float32")
    found = np.load("out.npy")
    assert found.dtype == np.float32
    model.__dict__.pop("feature_names_in_")
    np.testing.assert_array_equal(found, model.transform(X).astype(np.float32))
    np.save("single.npy", X.astype(np.float32))
    run("transform", "model.mdaml", "single.npy", "--out", "out.npy")
    assert np.load("out.npy").dtype == np.float32


@pytest.mark.usefixtures("model")
def test_ids_survive_whatever_they_are(X):
    names = ['a "quoted" one', "with, comma", "ümlaut", "plain"]
    frame = pd.DataFrame(X[:4], columns=["p", "q", "r", "s"]).assign(id=names)
    frame.to_csv("odd.csv", index=False)
    run("transform", "model.mdaml", "odd.csv", "--out", "out.csv")
    assert pd.read_csv("out.csv")["id"].tolist() == names


@pytest.mark.usefixtures("model")
@pytest.mark.usefixtures("small_blocks")
def test_fault_in_a_late_block_leaves_no_file(folder):
    lines = Path("items.csv").read_text().splitlines()
    lines[50] = lines[50].replace(".", "oops", 1)
    Path("items.csv").write_text("\n".join(lines))
    before = sorted(folder.iterdir())
    for out in ("out.csv", "out.parquet", "out.feather", "out.npy"):
        result = run("transform", "model.mdaml", "items.csv", "--out", out, code=2)
        assert result.stderr.startswith("items.csv:51: column 'p' holds")
    assert sorted(folder.iterdir()) == before


@pytest.mark.usefixtures("model")
def test_data_are_never_overwritten():
    whole = Path("items.csv").read_bytes()
    result = run("transform", "model.mdaml", "items.csv", "--out", "./items.csv", code=2)
    assert "the same file as items.csv" in result.stderr
    assert Path("items.csv").read_bytes() == whole


@pytest.mark.usefixtures("model")
def test_data_of_another_shape_are_refused(X):
    np.save("wide.npy", np.hstack([X, X]))
    result = run("transform", "model.mdaml", "wide.npy", "--out", "out.npy", code=2)
    assert result.stderr == "wide.npy has 8 columns of features, but model.mdaml was fitted to 4.\n"
    pd.DataFrame(X[:, :3], columns=["p", "q", "r"]).to_csv("narrow.csv", index=False)
    result = run("transform", "model.mdaml", "narrow.csv", "--out", "out.npy", code=2)
    assert "there is no column 's' (a feature of the model)" in result.stderr


@pytest.mark.usefixtures("model")
def test_terminal_shows_boxes_and_pipes_do_not(monkeypatch):
    arguments = ("audit", "model.mdaml", "items.csv", *FIT[4:6])
    assert "─" not in run(*arguments).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    shown = run(*arguments).stdout
    assert "─" in shown
    assert "Most likely wrong" in shown


@pytest.mark.slow
def test_new_user_gets_from_files_to_neighbours_by_the_shell_alone(tmp_path, X, ids, T):
    """Real processes: a CSV with an id column, comparisons with nonsense among them."""

    def shell(*words):
        code = "from mdaml.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": str(Path(mdaml.__file__).parents[1])},
        )

    frame = pd.DataFrame(X, columns=["p", "q", "r", "s"])
    frame.insert(0, "id", ids)
    frame.to_csv(tmp_path / "items.csv", index=False)
    lines = [", ".join(ids[n] for n in triplet) for triplet in T]
    (tmp_path / "answers.csv").write_text("\n".join(["a, b, c", *lines, NONSENSE]))

    refused = shell("fit", "items.csv", "--triplets", "answers.csv", "--out", "model.mdaml")
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "answers.csv:302: b is 'zebra', which is not one of the ids" in refused.stderr
    assert "4 of 304 lines cannot be used" in refused.stderr

    skip = ("--triplets", "answers.csv", "--skip-invalid", "--json")
    fitted = shell("fit", "items.csv", *skip, "--out", "model.mdaml")
    assert fitted.returncode == 0, fitted.stderr
    document = json.loads(fitted.stdout)
    assert document["comparisons"]["skipped"] == 4
    assert document["agreement"]["learned"] > document["agreement"]["before"] + 0.05

    audited = json.loads(run("audit", "model.mdaml", "items.csv", *skip).stdout)
    assert len(audited["most_suspicious"]) == 10

    listed = shell("neighbors", "model.mdaml", "items.csv", "--query", "item 7")
    assert listed.returncode == 0
    rows = [line.split("\t") for line in listed.stdout.splitlines()]
    assert [row[1] for row in rows[1:]] == [str(n) for n in range(1, 11)]
    assert {row[2] for row in rows[1:]} < set(ids) - {"item 7"}
    assert triplet_accuracy(
        load(tmp_path / "model.mdaml"), frame.drop(columns="id"), Constraints(triplets=T)
    ) == pytest.approx(document["agreement"]["learned"])


def test_an_audit_of_labels_finds_what_a_metric_that_learned_them_hides():
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = np.zeros(len(y), bool)
    wrong[rng.choice(len(y), 51, replace=False)] = True
    frame = pd.DataFrame(X).assign(kind=np.where(wrong, 1 - y, y))
    frame.columns = [*(f"x{n}" for n in range(30)), "kind"]
    frame.to_csv("cells.csv", index=False)
    run("fit", "cells.csv", "--labels", "kind", "--no-estimate", "--out", "cells.mdaml")
    run("audit", "cells.mdaml", "cells.csv", "--out", "found.csv")
    found = pd.read_csv("found.csv")
    suspected = (found["category"] == "suspected wrong").to_numpy()
    assert wrong[suspected].sum() >= 38
    assert suspected.sum() <= 60

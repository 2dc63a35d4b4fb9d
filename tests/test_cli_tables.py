"""Tables as people have them, from the command line: gaps, categories, text, dates, labels."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from typer.testing import CliRunner

import mdaml
from mdaml.cli import build_app
from mdaml.io.preparation import Preparation
from mdaml.io.tables import read_blocks, read_table
from mdaml.persistence import load

pytestmark = pytest.mark.needs("pyarrow", "openpyxl")

NUMBERS = ["bill", "flipper", "mass"]
FIT = ("fit", "birds.csv", "--labels", "species", "--method", "gmml")
PREPARED = ("--categorical", "island,sex", "--missing", "median", "--drop", "day")


def run(*arguments, code=0):
    result = CliRunner().invoke(build_app(), [str(word) for word in arguments])
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture(scope="module", name="frame")
def make_frame():
    """Ninety birds of three species, with gaps in numbers and categories."""
    rng = np.random.default_rng(0)
    species = np.repeat(["Adelie", "Chinstrap", "Gentoo"], 30)
    middle = np.repeat([[38.0, 190, 3700], [48, 196, 3750], [47, 217, 5000]], 30, axis=0)
    frame = pd.DataFrame(middle + rng.normal(size=(90, 3)) * [2, 6, 300], columns=NUMBERS)
    frame.insert(0, "species", species)
    frame.insert(1, "island", rng.choice(["Biscoe", "Dream", "Torgersen"], 90))
    frame["sex"] = rng.choice(["female", "male"], 90)
    frame["day"] = pd.date_range("2007-11-11", periods=90).strftime("%Y-%m-%d")
    frame.loc[[3, 40], NUMBERS] = np.nan
    frame.loc[[7, 8, 9], "sex"] = None
    return frame.sample(frac=1, random_state=0, ignore_index=True)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, frame):
    monkeypatch.chdir(tmp_path)
    frame.to_csv("birds.csv", index=False, na_rep="NA")
    return tmp_path


@pytest.fixture
def model():
    run(*FIT, *PREPARED, "--out", "model.mdaml")
    return load("model.mdaml")


def test_all_problems_of_a_table_come_in_one_report(frame):
    result = run(*FIT, "--out", "m.mdaml", code=2)
    lines = result.stderr.splitlines()
    first = int(frame["bill"].isna().argmax()) + 2
    assert "birds.csv:2: column 'island' holds text, such as" in result.stderr
    assert "birds.csv:2: column 'day' holds dates, such as" in result.stderr
    assert f"birds.csv:{first}: column 'bill': 'NA' counts as an empty cell (2 of 90 rows)" in lines
    assert sum(line.startswith("birds.csv:") for line in lines) == 8  # 7 problems and their number
    options = lines[-1].partition("it can be read: ")[2].split()
    assert options == ["--categorical", "island,sex", "--drop", "day", "--missing", "median"]
    run(*FIT, *options, "--out", "m.mdaml")


def test_the_report_is_a_list_in_the_document():
    document = json.loads(run(*FIT, "--out", "m.mdaml", "--json", code=2).stdout)
    assert len(document["error"]["details"]) == 10
    assert document["error"]["message"].startswith("birds.csv: 7 problems.")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--labels", "specis"), "(--labels specis). Did you mean 'species'?"),
        (("--id", "Bill"), "(--id Bill). Did you mean 'bill'?"),
        (("--drop", "dya"), "(--drop dya). Did you mean 'day'?"),
        (("--categorical", "isle"), "(--categorical isle). Did you mean 'island'?"),
        (("--categorical", "day", "--drop", "day"), "'day' is asked for by two options"),
        (("--drop", "nothing,like,this"), "Its columns are species, island, bill"),
    ],
)
def test_unknown_columns_are_answered_with_the_nearest_name(option, words):
    labels = () if "--labels" in option else ("--labels", "species")
    result = run("fit", "birds.csv", *labels, *option, "--out", "m.mdaml", code=2)
    assert words in result.stderr


def test_all_unknown_columns_are_named():
    result = run(
        "fit", "birds.csv", "--labels", "specis", "--drop", "dya", "--out", "m.mdaml", code=2
    )
    assert result.stderr.count("Did you mean") == 2


@pytest.mark.parametrize("method", ["mdaml", "gmml", "lfda", "kissme"])
def test_prepared_columns_are_those_of_a_column_transformer(frame, method):
    arguments = ("fit", "birds.csv", "--labels", "species", "--method", method, "--no-estimate")
    run(*arguments, *PREPARED, "--out", "m.mdaml")
    twin = make_column_transformer(
        (
            make_pipeline(
                SimpleImputer(strategy="most_frequent"),
                OneHotEncoder(drop="if_binary", sparse_output=False),
            ),
            ["island"],
        ),
        (SimpleImputer(strategy="median"), NUMBERS),
        (
            make_pipeline(
                SimpleImputer(missing_values=None, strategy="most_frequent"),
                OneHotEncoder(drop="if_binary", sparse_output=False),
            ),
            ["sex"],
        ),
    )
    wanted = twin.fit_transform(frame.astype({"sex": object}).where(frame.notna(), None))
    columns = {"label_column": "species", "drop": ["day"], "missing": "median"}
    table = read_table(Path("birds.csv"), categorical=["island", "sex"], **columns)
    islands = ["island=Biscoe", "island=Dream", "island=Torgersen"]
    assert table.features == (*islands, *NUMBERS, "sex=male")
    np.testing.assert_allclose(table.X, wanted.astype(float))
    assert load("m.mdaml").feature_names_in_.tolist() == list(table.features)


def test_later_commands_need_no_options(model, frame):
    assert model.preparation_["label_column"] == "species"
    document = run_json("score", "model.mdaml", "birds.csv")
    assert document["labels"]["classes"] == 3
    frame.drop(columns="species").to_csv("new.csv", index=False, sep=";", decimal=",")
    run("transform", "model.mdaml", "birds.csv", "--out", "a.npy")
    run("transform", "model.mdaml", "new.csv", "--out", "b.npy")
    np.testing.assert_allclose(np.load("a.npy"), np.load("b.npy"))
    assert run("neighbors", "model.mdaml", "new.csv", "--query", 3, "-k", 2).stdout
    audited = run_json("audit", "model.mdaml", "birds.csv", "--top", 3)
    assert len(audited["most_suspicious"]) == 3


@pytest.mark.needs("onnx")
def test_a_saved_model_takes_the_table_of_the_fit(model, frame):
    import onnxruntime

    run("transform", "model.mdaml", "birds.csv", "--out", "a.npy")
    expected = np.load("a.npy")
    for table in (frame, frame.iloc[:, ::-1], pd.read_csv("birds.csv")):
        np.testing.assert_allclose(model.transform(table), expected, rtol=1e-9)
    np.testing.assert_allclose(model.embed(frame), expected, rtol=1e-4, atol=1e-2)
    dists, rows = model.neighbors(frame, frame[:2], k=3)
    document = run_json(
        "neighbors", "model.mdaml", "birds.csv", "--query", 0, "--query", 1, "-k", 2
    )
    for place, query in enumerate(document["queries"]):
        assert [near["row"] for near in query["neighbors"]] == rows[place, 1:].tolist()
        found = [near["distance"] for near in query["neighbors"]]
        np.testing.assert_allclose(found, dists[place, 1:], rtol=1e-6)
    exported = model.to_onnx(dtype="float64")
    columns = json.loads({prop.key: prop.value for prop in exported.metadata_props}["columns"])
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    texts = frame[columns["categories"]].fillna("").astype(str).to_numpy(object)
    (mapped,) = session.run(None, {"X": frame[columns["X"]].to_numpy(), "categories": texts})
    np.testing.assert_allclose(mapped, expected, rtol=1e-6, atol=1e-9)
    whole = frame.dropna()
    found = mdaml.inspection.audit_labels(model, frame, frame["species"])
    assert len(found) == 90
    assert model.pair_distance(whole[:2], whole[:2]).tolist() == [0, 0]
    with pytest.raises(ValueError, match="no column 'mass'"):
        model.transform(frame.drop(columns="mass"))
    with pytest.raises(ValueError, match=r"Column 'mass' must hold numbers.*'heavy' in row 3"):
        model.transform(frame.assign(mass=[*frame["mass"][:3].astype(str), *["heavy"] * 87]))
    again = mdaml.GMML().fit(whole[NUMBERS], whole["species"])
    model.fit(whole[NUMBERS], whole["species"])
    np.testing.assert_allclose(model.transform(whole[NUMBERS]), again.transform(whole[NUMBERS]))


def test_ids_are_found_again_under_the_name_they_had(frame):
    named = frame.assign(tag=[f"bird {n}" for n in range(len(frame))]).drop(columns="species")
    named.to_csv("tagged.csv", index=False)
    said = "".join(f"bird {n},bird {n + 1},bird {n + 2}\n" for n in range(60))
    Path("said.csv").write_text(f"a,b,c\n{said}")
    arguments = ("tagged.csv", "--id", "tag", "--triplets", "said.csv", *PREPARED)
    for command in (("fit",), ("search", "--grid", "n_modes=1", "--folds", 2)):
        run(command[0], *arguments, *command[1:], "--out", "m.mdaml")
        document = run_json("neighbors", "m.mdaml", "tagged.csv", "--query", "bird 3", "-k", 1)
        assert document["data"]["id"] == "tag"
        assert document["queries"][0]["neighbors"][0]["id"].startswith("bird")
    named.drop(columns="tag").to_csv("bare.csv", index=False)
    assert run_json("neighbors", "m.mdaml", "bare.csv", "--query", 3)["data"]["id"] is None


@pytest.mark.usefixtures("model")
def test_gaps_of_later_tables_get_the_medians_of_the_fit(frame):
    one = frame.dropna().head(1)
    holed = one.assign(mass=np.nan)
    one.assign(mass=frame["mass"].median()).to_csv("filled.csv", index=False)
    holed.to_csv("holed.csv", index=False)
    run("transform", "model.mdaml", "filled.csv", "--out", "a.npy")
    result = run("transform", "model.mdaml", "holed.csv", "--out", "b.npy")
    assert "1 cell filled in" in result.stdout
    np.testing.assert_allclose(np.load("a.npy"), np.load("b.npy"))


@pytest.mark.usefixtures("model")
def test_unknown_categories_are_counted(frame):
    frame.dropna().assign(island="Mars").to_csv("mars.csv", index=False)
    document = run_json("transform", "model.mdaml", "mars.csv", "--out", "a.npy")
    assert document["prepared"] == {"cells of unknown categories": 85}


def test_dropped_rows_keep_their_row_numbers(frame):
    holes = np.flatnonzero(frame[[*NUMBERS, "sex"]].isna().any(axis=1))
    table = read_table(
        Path("birds.csv"),
        label_column="species",
        drop=["day"],
        missing="drop",
        categorical=["island", "sex"],
    )
    assert len(table.X) == 85
    assert not set(table.ids) & set(map(str, holes))
    rows = [int(name) for name in table.ids]
    np.testing.assert_allclose(table.X[:, 3:6], frame[NUMBERS].to_numpy()[rows])
    with Path("said.csv").open("w") as file:
        file.write(
            "a,b,c\n"
            + "".join(
                f"{a},{b},{c}\n" for a, b, c in zip(rows[:-2], rows[1:-1], rows[2:], strict=True)
            )
        )
    arguments = ("--drop", "day,species", "--missing", "drop", "--categorical", "auto")
    run("fit", "birds.csv", *arguments, "--triplets", "said.csv", "--out", "m.mdaml")
    Path("said.csv").write_text(f"a,b,c\n{holes[0]},{rows[0]},{rows[1]}\n")
    result = run(
        "fit", "birds.csv", *arguments, "--triplets", "said.csv", "--out", "m.mdaml", code=2
    )
    assert f"'{holes[0]}', which is not one of the ids" in result.stderr


def test_blocks_are_prepared_like_the_whole(model, monkeypatch):
    monkeypatch.setattr("mdaml.io.tables._BLOCK_BYTES", 400)
    known = Preparation.from_dict(model.preparation_)
    blocks = list(read_blocks(Path("birds.csv"), known=known))
    assert len(blocks) > 5
    whole = read_table(Path("birds.csv"), known=known)
    np.testing.assert_array_equal(np.vstack([block.X for block in blocks]), whole.X)


def test_categories_by_type_are_the_text_columns():
    run(*FIT, "--categorical", "auto", "--missing", "median", "--drop", "day", "--out", "m.mdaml")
    assert set(load("m.mdaml").preparation_["categories"]) == {"island", "sex"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["same"] * 3, "categorical='c': all rows have the same value"),
        ([str(n) + "x" for n in range(150)], "there are 150 different values"),
    ],
)
def test_columns_that_are_no_categories_are_refused(values, words):
    pd.DataFrame({"c": values, "x": range(len(values))}).to_csv("t.csv", index=False)
    with pytest.raises(ValueError, match=words):
        read_table(Path("t.csv"), categorical=["c"])


def test_a_column_without_any_value_has_no_median():
    Path("t.csv").write_text("x,y\n1,\n2,\n")
    with pytest.raises(ValueError, match="column 'y' has no value at all"):
        read_table(Path("t.csv"), missing="median")
    with pytest.raises(ValueError, match="every row has an empty cell"):
        read_table(Path("t.csv"), missing="drop")


def test_npy_may_have_gaps():
    X = np.array([[1.0, 2.0], [np.nan, 4.0], [3.0, 9.0]])
    np.save("x.npy", X)
    np.testing.assert_array_equal(read_table(Path("x.npy"), missing="median").X[1], [2, 4])
    table = read_table(Path("x.npy"), missing="drop")
    assert table.ids.tolist() == ["0", "2"]
    np.testing.assert_array_equal(table.X, X[[0, 2]])


def test_continuous_labels_are_refused_as_in_python(frame):
    result = run("fit", "birds.csv", "--labels", "mass", *PREPARED, "--out", "m.mdaml", code=2)
    assert "continuous values" in result.stderr
    whole = frame.dropna()
    with pytest.raises(ValueError, match="continuous values"):
        mdaml.GMML().fit(whole[["bill", "flipper"]], whole["mass"])


def test_label_fits_print_held_out_accuracy():
    document = run_json(*FIT, *PREPARED, "--out", "m.mdaml")
    assert 0.8 < document["accuracy"]["learned"] <= 1
    assert document["accuracy"]["folds"] == 5
    assert "accuracy" not in run_json(*FIT, *PREPARED, "--no-estimate", "--out", "m.mdaml")


def test_audit_of_labels_finds_a_wrong_one(frame):
    changed = frame.copy()
    row = int(np.flatnonzero((frame["species"] == "Gentoo") & frame["bill"].notna())[0])
    changed.loc[row, "species"] = "Adelie"
    changed.to_csv("birds.csv", index=False)
    run(*FIT, *PREPARED, "--out", "model.mdaml")
    document = run_json("audit", "model.mdaml", "birds.csv", "--out", "audit.csv")
    worst = document["most_suspicious"][0]
    assert (worst["row"], worst["label"], worst["other"]) == (row, "Adelie", "Gentoo")
    assert worst["category"] == "suspected wrong"
    assert len(pd.read_csv("audit.csv")) == 90


def test_a_made_up_preparation_is_refused(model):
    good = model.preparation_
    for change in (
        *({"columns": 3}, {"columns": ["bill"]}, {"columns": ["bill", 3]}, {"missing": "guess"}),
        *({"fills": {}}, {"fills": []}, {"categories": ["sex"]}, {"categories": {"sex": "male"}}),
        *({"id_column": 3}, {"is_named": "yes"}, {"more": 1}),
    ):
        model.preparation_ = good | change
        model.save("odd.mdaml")
        assert "preparation_" in run("score", "odd.mdaml", "birds.csv", code=1).stderr
    for plain in ({}, "x", ["columns"]):
        model.preparation_ = plain
        model.save("odd.mdaml")
        assert "preparation_" in run("score", "odd.mdaml", "birds.csv", code=1).stderr


def test_help_of_a_flag_says_flag():
    page = run("fit", "--help").output
    assert "<" not in page.replace("\n", " ")
    assert "[flag" in page.split("--json")[1].split("--help")[0]
    assert "fit [OPTIONS] DATA" in page


def test_shells_can_complete_commands_and_methods():
    words = {"mdaml fi": (1, ["fit"]), "mdaml fit --method l": (3, ["lfda", "lmnn", "localmdaml"])}
    for line, (place, wanted) in words.items():
        shell = {"_MDAML_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(place)}
        done = CliRunner().invoke(build_app(), [], env=shell, prog_name="mdaml")
        assert sorted(done.stdout.split()) == wanted


def test_the_library_names_arguments_and_the_command_options():
    pd.DataFrame({"c": ["u", "v"], "x": [1, 2]}).to_csv("t.csv", index=False)
    with pytest.raises(ValueError, match="if it holds categories, categorical='c'") as caught:
        read_table(Path("t.csv"))
    assert "--" not in str(caught.value)
    result = run("fit", "t.csv", "--labels", "x", "--out", "m.mdaml", code=2)
    assert "if it holds categories, --categorical c" in result.stderr

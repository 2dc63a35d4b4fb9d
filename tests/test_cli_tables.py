"""Tables as people have them, from the command line: gaps, categories, text, dates, labels."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from typer.testing import CliRunner

import mdaml
from mdaml.cli import build_app
from mdaml.constraints import Constraints, read_constraints
from mdaml.estimators.summary import describe_gain
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
        (("--categorical", "day", "--drop", "day"), "two options name the column 'day'"),
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
    supervision = "".join(f"bird {n},bird {n + 1},bird {n + 2}\n" for n in range(60))
    Path("said.csv").write_text(f"a,b,c\n{supervision}")
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
    for command in (("transform", "--out", "a.npy"), ("predict", "--train", "birds.csv")):
        document = run_json(command[0], "model.mdaml", "mars.csv", *command[1:])
        assert document["prepared"] == {"cells of unknown categories": 85}
        assert "unknown categories in column 'island': 'Mars' (85)." in document["warnings"][0]


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
    monkeypatch.setattr("mdaml.io.parsing._BLOCK_BYTES", 400)
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


@pytest.mark.parametrize("method", ["gmml", "mdaml"])
def test_fits_say_whether_the_gain_is_more_than_chance(method):
    command = ("fit", "birds.csv", "--labels", "species", *PREPARED, "--method", method)
    printed = run(*command, "--out", "m.mdaml").stdout
    words = r"before learning, .*% after it \(difference \+.* points, 95 % interval .* rows\)"
    assert re.search(rf"{words}\. This is (no )?more than chance\.", printed), printed
    if method == "mdaml":
        model = load("m.mdaml")
        assert describe_gain(model) in printed
        printed = run(*command, "--no-estimate", "--out", "m.mdaml").stdout
        assert "estimate: mdaml needs held_out to choose its values" in printed


def test_fits_to_comparisons_say_whether_the_gain_is_more_than_chance():
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(60, 3)) * [1, 5, 5]).to_csv("x.csv", index=False)
    X = pd.read_csv("x.csv").to_numpy()
    T = np.array([rng.choice(60, 3, replace=False) for _ in range(400)])
    far = abs(X[T[:, 0], 0] - X[T[:, 1], 0]) > abs(X[T[:, 0], 0] - X[T[:, 2], 0])
    T[far, 1:] = T[far, :0:-1]
    pd.DataFrame(T, columns=list("abc")).to_csv("t.csv", index=False)
    printed = run("fit", "x.csv", "--triplets", "t.csv", "--out", "m.mdaml").stdout
    assert f"held_out: {describe_gain(load('m.mdaml'))}" in printed
    assert "This is more than chance." in printed


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


@pytest.mark.parametrize(
    "odd", [3, {"rows": 3}, {"rows": {"hashes": np.ones(2), "is_whole": True}}]
)
def test_a_made_up_list_of_what_was_fitted_is_refused(model, odd):
    model.fitted_to_ = odd
    model.save("odd.mdaml")
    with pytest.raises(ValueError, match="its fitted_to_ is not one that mdaml fit writes"):
        load("odd.mdaml")


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


def test_nearest_training_rows_vote_as_in_python(model, frame):
    new = frame.drop(columns="species").iloc[:20]
    frame.iloc[20:].to_csv("train.csv", index=False)
    new.to_csv("new.csv", index=False)
    arguments = ("predict", "model.mdaml", "new.csv", "--train", "train.csv", "-k", 5)
    found = run_json(*arguments)["predictions"]
    voters = make_pipeline(FrozenEstimator(model), KNeighborsClassifier(5))
    voters.fit(frame.iloc[20:], frame["species"].iloc[20:])
    assert [row["label"] for row in found] == voters.predict(new).tolist()
    shares = [[row[f"p({name})"] for name in voters.classes_] for row in found]
    np.testing.assert_allclose(shares, voters.predict_proba(new))
    assert [row["probability"] for row in found] == np.max(shares, axis=1).tolist()
    run(*arguments, "--labels", "species", "--out", "labels.csv")
    assert pd.read_csv("labels.csv")["label"].tolist() == voters.predict(new).tolist()
    assert run(*arguments).stdout.startswith("id\tlabel\tprobability\tp(Adelie)")
    assert "Pass --train FILE" in run("predict", "model.mdaml", "new.csv", code=2).stderr
    run("predict", "model.mdaml", "new.csv", "--train", "new.csv", code=2)


@pytest.mark.usefixtures("model")
def test_what_cannot_be_predicted_from_is_refused_in_a_sentence(frame):
    """Continuous labels, and rows so far away that all training rows are equally far."""
    frame.assign(species=np.linspace(0.0, 1.0, len(frame))).to_csv("numbers.csv", index=False)
    predict = ("predict", "model.mdaml")
    error = run(*predict, "birds.csv", "--train", "numbers.csv", code=2).stderr
    assert "numbers.csv holds continuous values there" in error
    frame.assign(bill=1e200 * frame["bill"]).to_csv("far.csv", index=False)
    error = run(*predict, "far.csv", "--train", "birds.csv", code=2).stderr
    assert "squared distances overflow" in error


def test_a_model_that_keeps_its_rows_predicts_without_the_table(frame):
    gaps = frame.assign(species=frame["species"].where(frame.index % 3 > 0))
    gaps.to_csv("t.csv", index=False)
    run("fit", "t.csv", *FIT[2:], *PREPARED, "--keep-rows", "--out", "m.mdaml")
    by_table = run_json("predict", "m.mdaml", "birds.csv", "--train", "t.csv")
    alone = run_json("predict", "m.mdaml", "birds.csv")
    assert alone["predictions"] == by_table["predictions"]
    assert alone["train"] == {"file": "m.mdaml", "rows": int(gaps["species"].notna().sum())}
    model = load("m.mdaml")
    model.save("again.mdaml")
    assert run_json("predict", "again.mdaml", "birds.csv")["predictions"] == alone["predictions"]
    model.fit(np.random.default_rng(0).normal(size=(8, 3)), [0, 1] * 4)
    assert not hasattr(model, "training_rows_")
    for options in (("--out", "m.onnx"), ("--out", "m.mdaml")):
        wrong = FIT[2:] if options[1] == "m.onnx" else ("--method", "euclidean")
        result = run("fit", "t.csv", *wrong, "--keep-rows", *options, code=2)
        assert "--keep-rows needs --labels COLUMN" in result.stderr


@pytest.mark.parametrize(
    "odd",
    [
        3,
        {"X": np.ones((2, 7))},
        {"X": np.ones((2, 6)), "labels": np.array(["a", "b"])},
        {"X": np.ones((2, 7)), "labels": np.array([1, 2])},
        {"X": np.full((2, 7), np.nan), "labels": np.array(["a", "b"])},
        {"X": np.ones((0, 7)), "labels": np.array([], str)},
    ],
)
def test_made_up_training_rows_are_refused(model, odd):
    assert model.n_features_in_ == 7
    model.training_rows_ = odd
    model.save("odd.mdaml")
    with pytest.raises(ValueError, match="its training_rows_ are not those that mdaml fit writes"):
        load("odd.mdaml")


@pytest.mark.usefixtures("model")
def test_predict_says_what_it_did_about_cells_and_refuses_too_many_voters(frame):
    new = frame.drop(columns="species").iloc[:5].assign(island="Atlantis")
    new.to_csv("new.csv", index=False)
    arguments = ("predict", "model.mdaml", "new.csv", "--train", "birds.csv")
    assert (
        "new.csv was prepared as the training rows were: 5 cells of unknown"
        in run(*arguments).stderr
    )
    assert "5 cells of unknown categories" in run(*arguments, "--out", "p.csv").stderr
    assert run_json(*arguments)["prepared"]["cells of unknown categories"] == 5
    n = len(frame)
    assert f"only {n} training rows" in run(*arguments, "-k", n + 1, code=2).stderr


def test_rows_without_a_label_do_not_vote(model, frame):
    frame.assign(species=frame["species"].where(frame.index % 2 == 0)).to_csv("t.csv", index=False)
    found = run_json("predict", "model.mdaml", "birds.csv", "--train", "t.csv")["predictions"]
    assert {row["label"] for row in found} == {"Adelie", "Chinstrap", "Gentoo"}
    run("fit", "t.csv", "--labels", "species", "--method", "gmml", *PREPARED, "--out", "m.mdaml")
    assert model.n_features_in_ == load("m.mdaml").n_features_in_


def test_score_says_what_it_is_scored_on(frame):
    frame.iloc[:60].to_csv("train.csv", index=False)
    frame.iloc[60:].to_csv("test.csv", index=False)
    run("fit", "train.csv", *FIT[2:], *PREPARED, "--out", "m.mdaml")
    kinds = {"train.csv": "train", "test.csv": "test", "birds.csv": "train and test"}
    for name, kind in kinds.items():
        document = run_json("score", "m.mdaml", name)
        assert document["scored on"]["rows"]["kind"] == kind
        assert list(document["scores"]) == ["3-NN accuracy, leave one out"]
    assert document["scored on"]["rows"]["share_of_train"] == pytest.approx(2 / 3)
    document = run_json("score", "m.mdaml", "test.csv", "--train", "train.csv")
    (scores,) = document["scores"].values()
    model = load("m.mdaml")
    held_out, known = frame.iloc[60:], frame.iloc[:60]
    wanted = mdaml.model_selection.knn_accuracy(
        model, held_out, held_out["species"], gallery=(known, known["species"])
    )
    assert scores["learned"] == wanted
    model.save("m.mdaml")
    assert run_json("score", "m.mdaml", "test.csv")["scored on"]["rows"]["kind"] == "test"
    del model.fitted_to_
    model.save("m.mdaml")
    assert run_json("score", "m.mdaml", "test.csv")["scored on"]["rows"]["kind"] == "not known"


def test_score_tells_comparisons_of_the_fit_from_others(frame):
    frame[["bill", "flipper", "mass"]].dropna().to_csv("t.csv", index=False)
    for name, first in (("old", 0), ("new", 40)):
        lines = "".join(f"{n},{n + 1},{n + 2}\n" for n in range(first, first + 40))
        Path(f"{name}.csv").write_text(f"a,b,c\n{lines}")
    run("fit", "t.csv", "--triplets", "old.csv", "--method", "gmml", "--out", "m.mdaml")
    for name, kind in (("old", "train"), ("new", "test")):
        document = run_json("score", "m.mdaml", "t.csv", "--triplets", f"{name}.csv")
        assert document["scored on"]["comparisons"]["kind"] == kind
        assert document["scored on"]["rows"]["kind"] == "train"


@pytest.mark.needs("onnx")
def test_fit_writes_onnx(frame):
    import onnxruntime

    for command in (FIT, ("search", *FIT[1:], "--grid", "t=0.3", "--folds", 2)):
        run(*command, *PREPARED, "--out", "m.onnx")
        session = onnxruntime.InferenceSession("m.onnx")
        given = {
            "X": frame[NUMBERS].to_numpy(np.float32),
            "categories": frame[["island", "sex"]].fillna("").astype(str).to_numpy(object),
        }
        (mapped,) = session.run(None, given)
        run(*command, *PREPARED, "--out", "m.mdaml")
        np.testing.assert_allclose(mapped, load("m.mdaml").transform(frame), rtol=1e-3, atol=1e-2)


def test_models_are_compact_unless_the_weights_are_asked_for():
    arguments = ("fit", "birds.csv", "--labels", "species", "--no-estimate", *PREPARED)
    run(*arguments, "--out", "small.mdaml")
    run(*arguments, "--no-compact", "--out", "large.mdaml")
    assert not hasattr(load("small.mdaml"), "weights_")
    assert len(load("large.mdaml").weights_) == 90
    assert Path("small.mdaml").stat().st_size < Path("large.mdaml").stat().st_size


@pytest.mark.parametrize("id_column", [None, "tag"])
def test_questions_and_neighbors_have_the_same_ids(frame, id_column):
    named = frame.assign(tag=[f"bird {n}" for n in range(len(frame))], file="x.png")
    named = named if id_column else named.drop(columns="tag")
    named.to_csv("tagged.csv", index=False)
    options = ("--id", id_column) if id_column else ()
    drop = ("--drop", "file")
    run("fit", "tagged.csv", *FIT[2:], *PREPARED, *drop, *options, "--out", "m.mdaml")
    found = run_json("neighbors", "m.mdaml", "tagged.csv", "--query", "bird 3" if id_column else 3)
    run("suggest", "m.mdaml", "tagged.csv", "-n", 5, "--out", "ask.csv")
    asked = set(pd.read_csv("ask.csv", dtype=str).to_numpy().ravel())
    ids = {near["id"] for near in found["queries"][0]["neighbors"]}
    assert all(name.startswith("bird ") == bool(id_column) for name in asked | ids)
    run("neighbors", "m.mdaml", "tagged.csv", *(w for name in asked for w in ("--query", name)))


def test_repeated_ids_come_in_one_report_and_can_be_dropped(frame):
    named = frame.assign(id=[f"b{n}" for n in range(len(frame))])
    pd.concat([named, named.iloc[[3, 3, 7]], named.iloc[[9]]]).to_csv("twice.csv", index=False)
    refused = run("fit", "twice.csv", *FIT[2:], "--out", "m.mdaml", code=2).stderr
    assert "twice.csv:92: the id 'b3' was there before, at twice.csv:5. Ids must differ" in refused
    assert "(4 rows repeat an id: 'b3', 'b7', 'b9')" in refused
    options = refused.splitlines()[-1].partition("it can be read: ")[2]
    assert options.endswith("--missing median --duplicates drop")
    document = run_json("fit", "twice.csv", *FIT[2:], *shlex.split(options), "--out", "m.mdaml")
    assert document["data"]["rows"] == 90
    assert document["prepared"]["rows of repeated ids left out"] == 4
    np.save("x.npy", np.arange(6.0).reshape(3, 2))
    np.save("ids.npy", np.array(["a", "b", "a"]))
    with pytest.raises(ValueError, match=r"the id 'a' is there twice\. Correct it, or pass dupl"):
        read_table(Path("x.npy"), id_column="ids.npy")
    kept = read_table(Path("x.npy"), id_column="ids.npy", duplicates="drop")
    assert kept.X.tolist() == [[0, 1], [2, 3]]


def test_proposed_options_work_when_they_are_pasted():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "bill length, mm": rng.choice(["short", "long"], 40),
            'it\'s "odd"': rng.choice(["yes", "no", None], 40),
            "same": "x",
            "note; $HOME": [f"note {n}" for n in range(40)],
            "empty": None,
            "many or none": [f"{n}" if n % 3 == 0 else "lots" for n in range(40)],
            "x": rng.normal(size=40),
            "y": rng.choice([None, 1.0, 2.0], 40),
            "class": np.repeat(["a", "b"], 20),
        }
    )
    frame.to_csv("odd.csv", index=False)
    arguments = ("fit", "odd.csv", "--labels", "class", "--method", "gmml", "--out", "m.mdaml")
    report = run(*arguments, code=2).stderr
    options = report.splitlines()[-1].partition("With these options it can be read: ")[2]
    assert options
    run(*arguments, *shlex.split(options))
    assert set(load("m.mdaml").preparation_["columns"]) == {
        *("bill length, mm", 'it\'s "odd"', "x", "y")
    }


def test_a_column_that_names_the_rows_is_proposed_as_the_id(frame):
    named = frame.assign(**{"Sample no.": [f"S-{n:03}" for n in range(len(frame))]})
    named["remark"] = "seen again"
    named.loc[[5, 6], "Sample no."] = "S-001"
    named.to_csv("named.csv", index=False)
    arguments = ("fit", "named.csv", *FIT[2:], "--out", "m.mdaml")
    report = run(*arguments, code=2).stderr
    options = report.splitlines()[-1].partition("With these options it can be read: ")[2]
    assert options.startswith("--id 'Sample no.' --categorical island,sex --drop day,remark")
    assert options.endswith("--duplicates drop")
    printed = run(*arguments, *shlex.split(options)).stdout
    assert "ids in column 'Sample no.'" in printed
    assert "2 rows of repeated ids left out" in printed


@pytest.mark.parametrize("numbers", ["1000 + n", "n * n * 37", "n + 0.0"])
def test_a_column_of_whole_numbers_that_names_the_rows_is_proposed_as_the_id(frame, numbers):
    named = frame.assign(remark=[f"seen {n} times" for n in range(len(frame))])
    named.insert(0, "Nr.", [eval(numbers, {"n": n}) for n in range(len(frame))])
    named.loc[6, "Nr."] = named.loc[5, "Nr."]
    named.to_csv("named.csv", index=False)
    arguments = ("fit", "named.csv", *FIT[2:], "--out", "m.mdaml")
    report = run(*arguments, code=2).stderr
    assert "column 'Nr.' holds whole numbers that nearly all differ; pass --id Nr. if" in report
    options = report.splitlines()[-1].partition("With these options it can be read: ")[2]
    assert options.startswith("--id Nr. --categorical island,sex --drop day,remark")
    result = run(*arguments, *shlex.split(options))
    assert "ids in column 'Nr.'" in result.stdout
    assert "learned from" not in result.stderr
    options = options.replace("--id Nr. ", "").replace("--duplicates drop", "")
    result = run(*arguments, *shlex.split(options))
    assert "Column 'Nr.' holds whole numbers that nearly all differ, and is learned from. Pass" in (
        result.stderr
    )
    named["remark"] = [f"S-{n}" for n in range(len(frame))]
    named.to_csv("named.csv", index=False)
    report = run(*arguments, code=2).stderr
    assert "--id remark --categorical island,sex --drop day,Nr. --" in report


@pytest.mark.parametrize(
    "values", [range(10), [1.5, *range(29)], [*range(15)] * 2, [7 * 7**n for n in range(18)]]
)
def test_other_columns_of_numbers_are_learned_from_without_a_word(values):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"mass": values, "x": rng.normal(size=len(values))})
    frame.to_csv("t.csv", index=False)
    assert read_table(Path("t.csv")).features == ("mass", "x")


def test_files_of_other_encodings_are_read(frame):
    names = {"island": "Größe", "mass": "Länge"}
    own = frame.dropna().rename(columns=names).replace({"Dream": "Träume", "Biscoe": "Süd"})
    own.drop(columns=["sex", "day"]).to_csv("own.csv", index=False, sep=";", encoding="cp1252")
    own.to_csv("utf8.csv", index=False)
    fit = ("fit", "own.csv", *FIT[2:], "--categorical", "Größe", "--out", "m.mdaml")
    refused = run(*fit, code=2).stderr
    assert "own.csv:1: this is not UTF-8 text. Save it as UTF-8 (in Excel: Save as, " in refused
    option = refused.rpartition("pass ")[2].strip().removesuffix(".")
    assert option == "--encoding cp1252"
    run(*fit, *shlex.split(option))
    assert load("m.mdaml").preparation_["categories"]["Größe"] == ["Süd", "Torgersen", "Träume"]
    for command in (("transform", "--out", "a.csv"), ("predict", "--train", "utf8.csv")):
        printed = [
            run(command[0], "m.mdaml", data, *command[1:]).stdout
            for data in ("own.csv", "utf8.csv")
        ]
        assert printed[0] == printed[1]
        assert "unknown" not in printed[0]
    run("score", "m.mdaml", "own.csv")
    assert "there is no such encoding" in run(*fit, "--encoding", "klingon", code=2).stderr
    refused = run(*fit, "--encoding", "ascii", code=2).stderr
    assert "own.csv: this is not ascii text." in refused
    Path("said.csv").write_bytes("a,b,c\nMüller,b,c\n".encode("cp1252"))
    ids = ["Müller", "b", "c"]
    assert len(Constraints.read("said.csv", ids=ids, encoding="cp1252").triplets) == 1
    assert len(read_constraints("said.csv", ids=ids, encoding="cp1252")[0].triplets) == 1
    pd.DataFrame({"id": ids, "x": [1.0, 2, 4]}).to_csv("x.csv", index=False, encoding="cp1252")
    run("fit", "x.csv", "--triplets", "said.csv", *option.split(), "--method", "gmml", *fit[-2:])
    with pytest.raises(ValueError, match="CSV UTF-8'\\), or pass encoding='cp1252'"):
        Constraints.read("said.csv", ids=ids)


def test_words_for_nothing_are_declared_and_remembered(frame):
    own = frame.astype(object).fillna("NA")
    own.loc[[1, 2], "mass"] = "k.A."
    own.loc[3, "bill"] = "not, known"
    own.loc[5, "sex"] = " k.A. "
    own.loc[6, "species"] = "k.A."
    own.to_csv("own.csv", index=False)
    fit = ("fit", "own.csv", *FIT[2:], "--out", "m.mdaml")
    report = run(*fit, code=2).stderr
    assert 'Text among numbers: if k.A.,"not, known" means an empty cell, pass --na' in report
    options = shlex.split(report.rpartition("With these options it can be read: ")[2])
    assert options[-4:] == ["--na", 'k.A.,"not, known"', "--missing", "median"]
    printed = run(*fit, *options).stdout
    assert "3 classes; 1 row without a label" in printed
    model, plain = load("m.mdaml"), own.replace(r"\s*(k.A.|not, known)\s*", "NA", regex=True)
    assert model.preparation_["categories"]["sex"] == ["female", "male"]
    plain.to_csv("plain.csv", index=False)
    for command in (("transform", "--out", "a.csv"), ("predict", "--train", "own.csv")):
        arguments = [
            (command[0], "m.mdaml", data, *command[1:]) for data in ("own.csv", "plain.csv")
        ]
        assert run(*arguments[0]).stdout == run(*arguments[1]).stdout
    np.testing.assert_array_equal(model.transform(own), model.transform(plain))
    # A model that does not know the words is told of them.
    fit = ("fit", "plain.csv", *fit[2:])
    run(*fit, *options[:-4], *options[-2:])
    refused = run("transform", "m.mdaml", "own.csv", "--out", "a.csv", code=2).stderr
    assert "pass --na 'k.A.,\"not, known\"'" in refused
    run("transform", "m.mdaml", "own.csv", "--out", "a.csv", *options[-4:-2])


def test_options_that_do_not_suffice_say_so(frame):
    broken = frame.astype({"mass": object})
    broken.loc[5, "mass"] = "3,750 g"
    broken.to_csv("broken.csv", index=False)
    report = run("fit", "broken.csv", *FIT[2:], "--out", "m.mdaml", code=2).stderr
    assert "Correct the others; with these options the rest can be read: --cat" in report


def test_odd_categories_and_labels_are_answered_by_the_command(frame):
    odd = frame.copy()
    odd.loc[:4, "island"] = "DREAM"
    odd.loc[:9, "species"] = odd.loc[:9, "species"].str.lower()
    odd.loc[10:12, "species"] = "unknown"
    odd.to_csv("odd.csv", index=False)
    result = run("fit", "odd.csv", *FIT[2:], *PREPARED, "--no-estimate", "--out", "m.mdaml")
    assert (
        "'island' holds categories that differ in capitals or spaces only: 'DREAM'" in result.stderr
    )
    assert (
        "Column 'species' holds classes that differ in capitals or spaces only: 'Adelie' and"
        in result.stderr
    )
    assert "Column 'species' holds the text 'unknown' in 3 rows" in result.stderr
    assert "Leave these cells empty, or pass --na unknown." in result.stderr


def test_answers_that_say_nothing_are_explained(frame):
    frame[NUMBERS].dropna().to_csv("t.csv", index=False)
    lines = [
        "anchor,left,right,answer",
        "1,2,3,left",
        "4,5,6,Don't know",
        "7,8,9,skip",
        "1,5,9,left",
    ]
    Path("said.csv").write_text("\n".join(lines))
    arguments = ("fit", "t.csv", "--method", "gmml", "--constraints", "said.csv")
    arguments += ("--form", "choices", "--columns", "anchor,left,right,answer", "--out", "m.mdaml")
    refused = run(*arguments, code=2).stderr
    assert 'said.csv:3: "Don\'t know" is no answer' in refused
    assert "2 of 4 lines cannot be used. Fix them, or pass --skip-invalid." in refused
    document = run_json(*arguments, "--skip-invalid")
    assert document["comparisons"]["skipped"] == 2
    Path("pairs.csv").write_text("a,b,label\n1,2,1\n3,4,unsure\n")
    with pytest.raises(
        ValueError, match=r"'unsure' is no answer.*remove the line, or write neither"
    ):
        mdaml.Constraints.read("pairs.csv", n_points=80)

"""What people get wrong in the shell: files in the wrong place, names and forms of another kind."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mdaml import Euclidean
from mdaml.cli import build_app

pytestmark = pytest.mark.needs("pyarrow")

ODD = ("--form", "odd-one-out", "--columns", "Left,Middle,Right,Which is odd?")


def run(*arguments):
    """Return the exit code and the output of a command, with single spaces."""
    done = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture(autouse=True)
def study(tmp_path, monkeypatch):
    """A table of items and a raw export of answers, in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = [f"item {n:02}" for n in range(20)]
    items = pd.DataFrame(rng.normal(size=(20, 3)), columns=["width", "height", "price"])
    items.insert(0, "Item", names)
    items.to_csv("items.csv", index=False)
    shown = np.array([rng.permutation(20)[:3] for _ in range(60)])
    answers = pd.DataFrame(np.array(names)[shown], columns=["Left", "Middle", "Right"])
    answers["Which is odd?"] = answers["Right"]
    answers["Response ID"] = [f"R{n % 3}" for n in range(60)]
    answers.to_csv("survey.csv", index=False)
    answers.assign(**{"Which is odd?": 3}).to_csv("places.csv", index=False)
    rows = pd.DataFrame(shown, columns=["a", "b", "c"])
    rows.to_csv("rows.csv", index=False)
    return names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["survey.csv", "--constraints", "items.csv", *ODD], "has the columns of answers, not of"),
        (["items.csv", "--id", "Item"], "--quadruplets FILE, --constraints FILE or --labels"),
        (
            ["items.csv", "--id", "Item", "--triplets", "rows.csv"],
            "For row numbers pass --drop Item.",
        ),
        (
            ["items.csv", "--id", "Item", "--constraints", "places.csv", *ODD],
            "if it is a place, counted from 1, pass --form things",
        ),
        (
            ["items.csv", "--id", "Item", "--constraints", "survey.csv", "--form", "odd"],
            "Did you mean 'odd-one-out'?",
        ),
        (
            ["items.csv", "--id", "Item", "--constraints", "survey.csv", *ODD, "--who", "Respons"],
            "beside those of items and answers, are Response ID. Did you mean 'Response ID'?",
        ),
    ],
)
def test_a_fit_from_the_wrong_files_or_names_is_refused_with_advice(arguments, message):
    code, output = run("fit", *arguments, "--out", "model.mdaml")
    assert code == 2
    assert message in output


def test_the_advice_about_places_and_row_numbers_works():
    things = ("--form", "things", *ODD[2:])
    code, output = run("fit", "items.csv", "--id", "Item", "--constraints", "places.csv", *things,
                       "--out", "model.mdaml")  # fmt: skip
    assert code == 0, output
    code, output = run("fit", "items.csv", "--drop", "Item", "--triplets", "rows.csv",
                       "--out", "model.mdaml")  # fmt: skip
    assert code == 0, output


def test_items_with_features_of_the_names_of_answers_keep_their_own_error():
    table = pd.read_csv("rows.csv").astype({"a": object})
    table.loc[0, "a"] = ""
    table.to_csv("holes.csv", index=False)
    code, output = run("fit", "holes.csv", "--triplets", "rows.csv", "--out", "model.mdaml")
    assert code == 2
    assert "empty cell" in output


def test_a_table_in_the_place_of_a_model_is_named(study):
    table = pd.read_csv("items.csv", index_col="Item")
    Euclidean().fit(table).save("m.mdaml")
    code, output = run("neighbors", "items.csv", "m.mdaml", "--query", study[0])
    assert code == 1
    assert (
        "items.csv cannot be loaded: it is a table. The model comes first, then its data." in output
    )

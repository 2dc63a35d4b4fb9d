"""What users with types see: right use passes ``mypy --strict``, wrong use does not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typed_user

import mdaml

HERE = Path(__file__).parent
MISUSE = """\
import mdaml
import numpy as np
from mdaml import MDaML, PairVerifier
from mdaml.datasets import load_dataset
from mdaml.model_selection import knn_accuracy

X = np.eye(4)
mdaml.Metric()  # attr-defined
mdaml.datasets.load_data("sonar")  # attr-defined
MDaML(n_modes="three")  # arg-type
MDaML(3, "auto")  # call-arg
MDaML(n_mode=3)  # call-arg
MDaML(partners="nearest")  # arg-type
MDaML(goal="paper, please")  # arg-type
MDaML(device="gpu")  # arg-type
PairVerifier(MDaML(), threshold="best")  # arg-type
load_dataset(3)  # call-overload
knn_accuracy(MDaML(), X, [0, 1, 0, 1], 5)  # call-arg
name: str = MDaML().transform(X)  # assignment
share: int = MDaML().score_triplets(X, [[0, 1, 2]])  # assignment
"""
FRAMES = """\
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mdaml
from mdaml import Constraints, MDaML, audit, suggest_queries
from mdaml.constraints import read_constraints
from mdaml.model_selection import hit_rate_at_k, triplet_accuracy

frame = pd.read_csv("items.csv", index_col="id")
answers = Constraints.read("answers.csv", ids=pd.Series(["a", "b", "c"]))
answers, problems = read_constraints("answers.csv", ids=frame.index, columns=["x", "y", "z"])
print([problem.remedy for problem in problems])
pipeline = make_pipeline(StandardScaler(), MDaML())
print(hit_rate_at_k(pipeline, frame, np.zeros(3), k=3), triplet_accuracy(pipeline, frame, answers))
model = MDaML().fit(frame, triplets=frame.iloc[:, :3])
loaded = mdaml.load("model.mdaml")
print(loaded.transform(frame).shape, loaded.score_triplets(frame, [["a", "b", "c"]]))
odd = Constraints.from_odd_one_out(frame, frame["odd"], frame.index, columns={"who": frame["who"]})
print(loaded.score_odd_one_out(frame, frame[["x", "y", "z"]], frame["odd"]), odd.counts().ties)
print(suggest_queries(model, frame, 5)[0, 0], audit(model, frame, constraints=answers)["a"])
"""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    """Return the errors of a strict run, without any configuration of ours, by file."""
    folder = tmp_path_factory.mktemp("mypy")
    misuse = folder / "misuse.py"
    misuse.write_text(MISUSE)
    home = Path(mdaml.__file__).parents[1]
    # An installed package is found by itself, and mypy refuses to be told.
    where = {} if home.name == "site-packages" else {"MYPYPATH": str(home)}
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(HERE / "typed_user.py"), str(misuse)],
        capture_output=True,
        text=True,
        env=os.environ | where,
        cwd=folder,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
@pytest.mark.needs("mypy")
def test_a_typed_script_passes_strictly(complaints):
    others = [line for line in complaints.splitlines() if "misuse.py" not in line]
    assert others == []


@pytest.mark.slow
@pytest.mark.needs("pyright", "pandas")
def test_pyright_has_nothing_to_say_about_a_script_with_data_frames(tmp_path):
    """Of mypy the frames are Any; pyright knows them, and looks into scikit-learn too."""
    script = tmp_path / "script.py"
    script.write_text(FRAMES)
    home = Path(mdaml.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(script)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(home)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.needs("mypy")
def test_wrong_use_is_refused(complaints):
    found = re.findall(r"misuse.py:(\d+): error: .*\[([\w-]+)\]$", complaints, re.M)
    lines = enumerate(MISUSE.splitlines(), start=1)
    wanted = [(str(n), line.split("  # ")[1]) for n, line in lines if "  # " in line]
    assert found == wanted


@pytest.mark.slow
def test_the_typed_script_does_what_it_says(tmp_path):
    assert typed_user.from_labels() > 0.9
    assert typed_user.from_comparisons() > 0.9
    assert typed_user.saved_and_verified(tmp_path)
    assert typed_user.from_answers(tmp_path) == 3

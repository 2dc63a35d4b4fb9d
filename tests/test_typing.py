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
MDaML(3, 2.0)  # call-arg
MDaML(n_mode=3)  # call-arg
MDaML(sampling="nearest")  # arg-type
MDaML(device="gpu")  # arg-type
PairVerifier(MDaML(), threshold="best")  # arg-type
load_dataset(3)  # call-overload
knn_accuracy(MDaML(), X, [0, 1, 0, 1], 5)  # call-arg
name: str = MDaML().transform(X)  # assignment
share: int = MDaML().score_triplets(X, [[0, 1, 2]])  # assignment
"""


def mypy(path, tmp_path):
    """Errors of a strict run, without any configuration of ours."""
    pytest.importorskip("mypy")
    home = Path(mdaml.__file__).parents[1]
    # An installed package is found by itself, and mypy refuses to be told.
    where = {} if home.name == "site-packages" else {"MYPYPATH": str(home)}
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--cache-dir={tmp_path / 'cache'}", str(path)],
        capture_output=True,
        text=True,
        env=os.environ | where,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_a_typed_script_passes_strictly(tmp_path):
    assert mypy(HERE / "typed_user.py", tmp_path) == ""


@pytest.mark.slow
def test_wrong_use_is_refused(tmp_path):
    script = tmp_path / "misuse.py"
    script.write_text(MISUSE)
    found = re.findall(r"misuse.py:(\d+): error: .*\[([\w-]+)\]$", mypy(script, tmp_path), re.M)
    lines = enumerate(MISUSE.splitlines(), start=1)
    wanted = [(str(n), line.split("  # ")[1]) for n, line in lines if "  # " in line]
    assert found == wanted


@pytest.mark.slow
def test_the_typed_script_does_what_it_says(tmp_path):
    assert typed_user.from_labels() > 0.9
    assert typed_user.from_comparisons() > 0.9
    assert typed_user.saved_and_verified(tmp_path)

"""The walks of docs/development.md: lists of functions, from a call to where the work is done.

Each list is the shortest stack of the package's own functions when the last of them is called.
``python tests/test_walks.py`` prints the lists as they are.
"""

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import mdaml
from mdaml import MDaML
from mdaml.datasets import make_triplets
from mdaml.model_selection import MetricSearchCV
from mdaml.retrieval import QueryAdapter

HOME = str(Path(mdaml.__file__).parent)
PAGE = Path(__file__).parents[1] / "docs" / "development.md"
X = np.random.default_rng(0).normal(size=(120, 4))
TRIPLETS, _ = make_triplets(X, n_triplets=900, components=np.eye(4)[:1], random_state=0)
MOST_CALLS = 10


def fit_triplets(_):
    MDaML(anchor=0.1).fit(X, triplets=TRIPLETS)


def fit_labels(_):
    MDaML(shrinkage=0.0).fit(X, (X[:, 0] > 0).astype(int))


def fit_by_command(folder):
    from typer.testing import CliRunner

    from mdaml.cli import build_app

    np.savetxt(folder / "items.csv", X, delimiter=",", header="u,v,w,x", comments="")
    np.savetxt(folder / "t.csv", TRIPLETS, "%d", delimiter=",", header="a,b,c", comments="")
    words = ["fit", "items.csv", "--triplets", "t.csv", "--out", "m.mdaml", "--param", "anchor=0.1"]
    words[1], words[3], words[5] = (str(folder / words[n]) for n in (1, 3, 5))
    result = CliRunner().invoke(build_app(), words)
    assert result.exit_code == 0, result.output


def search(_):
    grid = {"anchor": [0.1, 1.0]}
    MetricSearchCV(MDaML(), grid, cv=2, random_state=0).fit(X, triplets=TRIPLETS)


def adapt(_):
    relevant = np.stack([np.arange(60), 60 + np.arange(60)], axis=1)
    QueryAdapter(anchor=0.1).fit(X[:60], X, relevant)


def weigh_persons(_):
    MDaML(anchor=0.1).fit(X, triplets=TRIPLETS, who=np.arange(900) % 5)


# A call, and the function where the walk ends.
WALKS = {
    "Triplets": (fit_triplets, "triplet_gradient"),
    "Labels": (fit_labels, "MemoryStore.nearest"),
    "Command line": (fit_by_command, "MDaML._fit"),
    "Search": (search, "Run.complete"),
    "Adapter": (adapt, "Anchored.evaluate"),
    "An answer of a person": (weigh_persons, "Reliability.updated"),
}


def walk(name, folder):
    """Return the names of the functions on the stack when the last of a walk is reached."""
    call, last = WALKS[name]
    found = []

    def look(frame, event, _):
        if event != "call" or frame.f_code.co_qualname != last:
            return
        stack = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(HOME) and "<" not in frame.f_code.co_qualname:
                stack.append(frame.f_code.co_qualname)
            frame = frame.f_back
        found.append(stack[::-1])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.setprofile(look)
        try:
            call(folder)
        finally:
            sys.setprofile(None)
    return min(found, key=len)


def listed(name):
    """Return the functions that the page lists for a walk."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.search(rf"\*\*{re.escape(name)}\*\*[^\n]*\n((?:\n\d+\. `[^`]+`)+)", text, re.S)
    assert section is not None, f"docs/development.md has no walk {name}"
    return re.findall(r"^\d+\. `([^`]+)`", section[1], re.M)


@pytest.mark.needs("typer")
@pytest.mark.parametrize("name", WALKS)
def test_the_page_lists_the_functions_of_each_walk(name, tmp_path):
    assert listed(name) == walk(name, tmp_path)


def test_from_fit_to_the_kernel_are_ten_calls_at_most(tmp_path):
    assert len(walk("Triplets", tmp_path)) - 1 <= MOST_CALLS


if __name__ == "__main__":
    import tempfile

    for each in WALKS:
        with tempfile.TemporaryDirectory() as temporary:
            functions = walk(each, Path(temporary))
        lines = [f"{number}. `{function}`" for number, function in enumerate(functions, 1)]
        sys.stdout.write("\n".join(["", f"**{each}**", *lines, ""]))

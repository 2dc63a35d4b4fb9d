"""What a user gets by installing and importing."""

import importlib
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import mdaml

ROOT = Path(__file__).parents[1]
EXTRAS = [
    *("torch", "dask", "matplotlib", "pandas", "pyarrow", "typer", "rich", "jinja2", "faiss"),
    *("PIL", "skimage"),
]


def run(*args):
    """Output of some code, or of other arguments of Python, in a fresh interpreter."""
    args = ["-c", *args] if len(args) == 1 else args
    # Without PYTHONWARNINGS and the like: only what the library itself does.
    out = subprocess.run(
        [sys.executable, *args], check=True, capture_output=True, text=True, env=os.environ
    )
    return out.stdout.strip()


def test_public_names():
    nine = ["DMLMJ", "DMLdc", "DMLeig", "Euclidean", "GMML", "KISSME", "LFDA", "LMNN", "MDaML"]
    others = ["Constraints", "FoldedMetric", "PairVerifier", "audit", "fold_pipeline", "load"]
    others += ["suggest_queries", "PRESETS", "Partners", "Preset", "limit_memory"]
    more = ["LocalMDaML", "MDaMLCV"]
    assert sorted(mdaml.__all__) == sorted([*nine, *more, *others, "__version__"])
    assert all(hasattr(mdaml, name) for name in mdaml.__all__)
    assert set(mdaml.__all__) <= set(dir(mdaml))


def test_the_command_runs_as_a_module_too():
    assert run("-m", "mdaml", "--version") == f"mdaml {mdaml.__version__}"


def test_names_found_on_first_use_are_those_of_their_modules():
    assert mdaml.audit is importlib.import_module("mdaml.inspection").audit
    assert mdaml.plot is importlib.import_module("mdaml.plot")
    with pytest.raises(AttributeError, match="no attribute 'Metric'"):
        mdaml.Metric  # noqa: B018


def test_the_page_of_methods_has_a_row_for_each():
    page = (ROOT / "docs" / "methods.md").read_text()
    rows = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert rows == set(mdaml.estimators.__all__)


def test_version_is_that_of_the_distribution():
    assert mdaml.__version__ == version("mdaml")


HEAVY = {"sklearn", "scipy", "pandas", "numba", "joblib", "matplotlib", "torch"}


def test_import_loads_nothing_heavy():
    loaded = run("import sys, mdaml; print(*sys.modules)").split()
    assert HEAVY & set(loaded) == set()
    assert "numpy" not in loaded
    assert [name for name in loaded if name.startswith("mdaml.")] == [
        "mdaml._lazy",
        "mdaml.estimators",
    ]


@pytest.mark.needs("typer")
def test_help_and_version_load_nothing_heavy():
    """Help must come within a second; timing belongs to no test, so modules count.

    One process for all: what one of them loads, the later ones have loaded too.
    """
    code = (
        "import sys; from mdaml.cli import main\n"
        "for words in ('--version', '--help', 'fit --help', 'paper --help'):\n"
        "    sys.argv = ['mdaml', *words.split()]\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code\n"
        "    print('loaded', *sys.modules)"
    )
    lines = [line.split() for line in run(code).splitlines() if line.startswith("loaded ")]
    version, *_, all_help = map(set, lines)
    assert len(lines) == 4
    assert version & {"typer", "rich", "numpy"} == set()
    assert HEAVY & all_help == set()
    assert len(all_help) < 700


def test_every_name_is_found_by_every_kind_of_import():
    code = (
        "import mdaml; from mdaml import *; from mdaml import estimators\n"
        "from mdaml.estimators import *\n"
        "missing = [n for n in mdaml.__all__ if n not in globals()]; assert not missing, missing\n"
        "assert MDaML is mdaml.MDaML is estimators.MDaML\n"
        "assert mdaml.constraints.Constraints is Constraints\n"
        "import mdaml.estimators.gmml; assert mdaml.GMML is mdaml.estimators.gmml.GMML\n"
        "import pydoc; print(pydoc.render_doc(mdaml, renderer=pydoc.plaintext))"
    )
    page = run(code)
    assert "class MDaML(" in page
    assert "audit(model" in page


@pytest.fixture(scope="module")
def imported():
    """Return the modules that estimators load beyond those of scikit-learn, and then the report.

    scikit-learn itself imports pandas and rich where they are installed.
    """
    code = (
        "import sys, email.parser, sklearn.mixture, sklearn.cluster, threadpoolctl;"
        "before = set(sys.modules); from mdaml.estimators import *;"
        "print(*set(sys.modules) - before);"
        "import mdaml.experiments.report; print(*set(sys.modules) - before)"
    )
    return [set(line.split()) for line in run(code).splitlines()]


def test_estimators_load_no_extra_and_no_compiler(imported):
    heavy = {"mdaml.stores.torch", "mdaml.stores.dask", "mdaml.kernels.triton_pairs", "mdaml.cli"}
    heavy |= {"mdaml.neighbors.device", "mdaml.neighbors.shards"}
    assert imported[0] & ({*EXTRAS, "numba"} | heavy) == set()


def test_the_report_needs_no_extra_until_it_is_written(imported):
    assert imported[1] & {"matplotlib", "jinja2", "pandas"} == set()
    assert "mdaml.experiments.report" in imported[1]


def test_estimators_add_few_modules_to_those_of_scikit_learn(imported):
    """Half a second is allowed beyond scikit-learn; timing belongs to no test, so modules count.

    Ours are small and import nothing heavy; those of others are what takes time.
    """
    foreign = [name for name in imported[0] if name.partition(".")[0] != "mdaml"]
    assert len(foreign) < 5
    assert len(imported[0]) - len(foreign) < 100


FITS = """
import numpy as np
from mdaml import LMNN, MDaML, MDaMLCV
from mdaml.datasets import load_dataset, make_triplets
X, y = load_dataset("balance", return_X_y=True)
T, _ = make_triplets(X, n_triplets=500, components=np.eye(4)[:2], random_state=0)
for dtype in (np.float64, np.float32):
    MDaML(random_state=0).fit(X.astype(dtype), y)
    MDaML(random_state=0).fit(X.astype(dtype), triplets=T)
MDaMLCV(random_state=0).fit(X, y)
LMNN().fit(X, y)
"""


@pytest.mark.slow
def test_after_a_warm_up_fits_compile_nothing(tmp_path):
    def run_python(*args):
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        subprocess.run([sys.executable, *args], check=True, capture_output=True, env=env)
        return {file.name for file in tmp_path.rglob("*.nbc")}

    compiled = run_python("-m", "mdaml.warm_up")
    assert len(compiled) > 20
    assert run_python("-W", "ignore", "-c", FITS) == compiled


def test_typed_marker_and_data_are_part_of_the_package():
    package = Path(mdaml.__file__).parent
    assert (package / "py.typed").exists()
    assert len(list((package / "datasets" / "data").glob("*.csv.gz"))) == 9


def test_extras_are_those_of_the_design():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {"ask", "cli", "torch", "dask", "faiss", "onnx", "images", "test", "docs"}
    assert wanted <= set(extras["optional-dependencies"])

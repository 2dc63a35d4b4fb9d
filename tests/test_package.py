"""What a user gets by installing and importing."""

import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import mdaml

ROOT = Path(__file__).parents[1]
EXTRAS = [
    *("torch", "dask", "matplotlib", "pandas", "pyarrow", "typer", "rich", "jinja2", "faiss"),
    *("PIL", "skimage"),
]


def run(code):
    """Output of some code in a fresh interpreter."""
    # Without PYTHONWARNINGS and the like: only what the library itself does.
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ
    )
    return out.stdout.strip()


def test_public_names():
    nine = ["DMLMJ", "DMLdc", "DMLeig", "Euclidean", "GMML", "KISSME", "LFDA", "LMNN", "MDaML"]
    assert sorted(mdaml.__all__) == [*nine, "MDaMLCV", "__version__"]
    assert all(hasattr(mdaml, name) for name in mdaml.__all__)


def test_the_page_of_methods_has_a_row_for_each():
    page = (ROOT / "docs" / "methods.md").read_text()
    rows = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert rows == set(mdaml.__all__) - {"__version__"}


def test_version_is_that_of_the_distribution():
    assert mdaml.__version__ == version("mdaml")


def test_import_loads_no_extra_and_no_compiler():
    # scikit-learn itself imports pandas and rich where they are installed.
    code = (
        "import sys, sklearn.mixture; before = set(sys.modules); import mdaml;"
        f"print([m for m in {[*EXTRAS, 'numba']} if m in set(sys.modules) - before])"
    )
    assert run(code) == "[]"


def test_import_adds_few_modules_to_those_of_scikit_learn():
    """Half a second is allowed beyond scikit-learn; timing belongs to no test, so modules count."""
    code = (
        "import sys, importlib.metadata, sklearn.mixture, sklearn.cluster, threadpoolctl;"
        "before = set(sys.modules);"
        "import mdaml; print(len(set(sys.modules) - before))"
    )
    assert int(run(code)) < 40


def test_typed_marker_and_data_are_part_of_the_package():
    package = Path(mdaml.__file__).parent
    assert (package / "py.typed").exists()
    assert len(list((package / "datasets" / "data").glob("*.csv.gz"))) == 9


def test_extras_are_those_of_the_design():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {"cli", "torch", "dask", "faiss", "onnx", "images", "test", "docs"}
    assert wanted <= set(extras["optional-dependencies"])

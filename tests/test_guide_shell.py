"""Pages of the guide that go from a raw file to a served result, in Python and by the shell."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from pages import TolerantChecker, run_page
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler
from typer.testing import CliRunner

import mdaml
from mdaml.cli import build_app

pytestmark = pytest.mark.needs("pyarrow")
GUIDE = Path(__file__).parents[1] / "docs" / "guide"
# All that scripts of the page on serving can import, beside Python's own library.
ALLOWED = {"serve.py": ("numpy", "onnxruntime"), "plain.py": ("numpy",)}


def sessions(page):
    """Yield commands and what the page shows of their output."""
    for block in re.findall(r"^```console\n(.*?)^```", page, re.S | re.M):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            yield shlex.split(command), shown


def is_shown(shown, printed):
    """Say whether lines were printed as shown; a line of three dots stands for any number."""
    lines, is_free = iter(printed.splitlines()), False
    for wanted in shown.splitlines():
        if wanted == "...":
            is_free = True
            continue
        for line in lines:
            if TolerantChecker().check_output(f"{wanted}\n", f"{line}\n", doctest.ELLIPSIS):
                break
            if not is_free:
                return False
        else:
            return False
        is_free = False
    return is_free or next(lines, None) is None


def run_alone(script, folder):
    """Run a script in an environment that has only the packages that the page names."""
    site = folder / f"only-{Path(script).stem}"
    site.mkdir(exist_ok=True)
    for package in ALLOWED[script]:
        home = Path(find_spec(package).origin).parent
        for name in (package, f"{package}.libs"):
            if (home.parent / name).exists() and not (site / name).exists():
                (site / name).symlink_to(home.parent / name)
    code = f"import runpy, sys; sys.path.insert(0, {str(site)!r}); runpy.run_path({script!r})"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    refused = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code.replace("runpy.run", "import sklearn; runpy.run")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert refused.returncode, "scikit-learn can be imported there"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_shell(words, folder):
    if words[0] == "python":
        return run_alone(words[1], folder)
    result = CliRunner().invoke(build_app(), words[1:])
    return result.stdout if result.exit_code == 0 else result.stderr


@pytest.mark.parametrize(
    "name",
    ["messy_table", pytest.param("odd_one_out", marks=pytest.mark.slow), "paper_method"],
)
def test_the_shell_prints_what_the_page_shows(name, monkeypatch, tmp_path):
    check(name, monkeypatch, tmp_path)


def test_the_example_of_the_page_on_the_command_line_prints_what_it_shows(monkeypatch, tmp_path):
    check("../command_line", monkeypatch, tmp_path)


@pytest.mark.needs("onnxruntime")
def test_scripts_of_the_page_on_serving_need_only_what_it_says(monkeypatch, tmp_path):
    check("serving", monkeypatch, tmp_path)
    table = Path("queries.csv").read_text().splitlines()
    islands = [" Biscoe", "Dream ", "", " NA", "null ", "dream", "Torgersen\t"]
    rows = [[f"q{n}", "41.5", "4000", island, ""] for n, island in enumerate(islands)]
    Path("queries.csv").write_text("\n".join([table[0], *map(",".join, rows)]))
    scripts_agree(tmp_path)
    # As a German Excel saves them.
    for name in ("birds.csv", "queries.csv"):
        table = pd.read_csv(name).replace({" Biscoe": "Süd", "Biscoe": "Süd"})
        table = table.rename(columns={"id": "Nr"})
        form = {"sep": ";", "decimal": ",", "na_rep": "k.A.", "encoding": "cp1252"}
        table.to_csv(name, index=False, **form)
    fit = "mdaml fit birds.csv --labels species --method gmml --categorical island --missing median"
    for out in ("birds.mdaml", "birds.onnx"):
        assert "Süd" in Path("birds.csv").read_text(encoding="cp1252")
        run_shell(shlex.split(f"{fit} --id Nr --encoding cp1252 --na k.A. --out {out}"), tmp_path)
    scripts_agree(tmp_path)
    mdaml.load("birds.mdaml").to_onnx("birds.onnx", dtype="float64")
    scripts_agree(tmp_path)


@pytest.mark.slow
@pytest.mark.needs("onnxruntime")
def test_scripts_of_the_page_on_serving_take_models_of_pipelines(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_scripts("serving")
    export_pipeline(mdaml.GMML())
    compare_vectors(tmp_path, "serve.py", "plain.py")
    # More than one matrix: a Normalizer, or places.
    local = mdaml.LocalMDaML(n_places=8, n_maps=0, random_state=0)
    for steps in ((Normalizer(), mdaml.GMML()), (local,)):
        export_pipeline(*steps)
        compare_vectors(tmp_path, "serve.py")
        with pytest.raises(AssertionError, match=r"More than one matrix: use serve\.py"):
            run_alone("plain.py", tmp_path)


def export_pipeline(*steps):
    """Write both files of a model of a pipeline that was fitted to the birds."""
    table = pd.read_csv("birds.csv")
    categories = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    prepare = make_column_transformer(
        (SimpleImputer(strategy="median"), ["bill", "mass"]), (categories, ["island"])
    )
    pipeline = make_pipeline(prepare, StandardScaler(), *steps).fit(table, table["species"])
    model = mdaml.fold_pipeline(pipeline)
    model.save("birds.mdaml")
    model.to_onnx("birds.onnx", dtype="float64")


def compare_vectors(folder, *scripts):
    """Require that scripts find the neighbours that the model of a pipeline finds."""
    model, known = mdaml.load("birds.mdaml"), pd.read_csv("birds.csv")
    queries = pd.read_csv("queries.csv")
    distances, rows = model.neighbors(known, queries, k=1)
    for script in scripts:
        told = [line.split() for line in run_alone(script, folder).splitlines()]
        assert [each[0] for each in told] == queries["id"].tolist()
        assert [each[1] for each in told] == known["id"].iloc[rows[:, 0]].tolist()
        found = [float(each[2]) for each in told]
        assert found == pytest.approx(distances[:, 0].tolist(), abs=2e-4)


def scripts_agree(folder):
    """Require that the scripts find what the library finds."""
    command = "mdaml neighbors birds.mdaml birds.csv --queries queries.csv -k 1"
    found = run_shell(shlex.split(command), folder)
    wanted = [line.split("\t") for line in found.splitlines()[1:]]
    assert len({distance for *_, distance, _ in wanted}) > 2
    for script in ALLOWED:
        told = [line.split() for line in run_alone(script, folder).splitlines()]
        assert [each[:2] for each in told] == [[name, near] for name, _, near, *_ in wanted]
        for line, (*_, distance, _) in zip(told, wanted, strict=True):
            assert float(line[2]) == pytest.approx(float(distance), abs=2e-4)


def check(name, monkeypatch, folder):
    monkeypatch.chdir(folder)
    text, ran = write_scripts(name), 0
    for words, shown in sessions(text):
        printed = run_shell(words, folder)
        assert is_shown(shown, printed), f"$ {shlex.join(words)}\n{printed[:3000]}"
        ran += 1
    assert ran >= 3


def write_scripts(name):
    """Run the Python of a page, which writes its tables, write its scripts, and return its text."""
    page = GUIDE.joinpath(f"{name}.md")
    assert run_page(page).failed == 0
    text = page.read_text()
    scripts = re.findall(r"`(\w+\.py)` needs.*?```python\n(.*?)```", text, re.S)
    for script, code in scripts:
        Path(script).write_text(code)
    assert {script for script, _ in scripts} == (set(ALLOWED) if name == "serving" else set())
    return text

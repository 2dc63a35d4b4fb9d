"""The rules of the suite itself: what is skipped and why, signals, what is left behind."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from suite import needs
from suite.needs import TABLE, packages_of

ROOT = Path(__file__).parents[1]


def run_inner(folder, plugin, *before):
    """Run the tests of a folder with one plugin of the suite; return the exit code and output."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q -ra --doctest-modules\n")
    paths = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [*before, sys.executable, "-m", "pytest", "-p", plugin, str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("code", "packages"),
    [
        ("import pandas.testing", {"pandas"}),
        ("from PIL import Image", {"PIL"}),
        ("from mdaml.cli.fit import fit", {"typer"}),  # loaded by that file
        ("from ask_site import make_site", {"starlette", "sqlalchemy"}),
        ("import numpy", set()),
        ("from mdaml.cli import build_app", set()),  # loads typer when it is called
        ("if TYPE_CHECKING:\n    import pandas", set()),
        ("try:\n    import pandas\nexcept ImportError:\n    pass", set()),
    ],
)
def test_a_file_needs_what_it_loads(code, packages):
    found = packages_of(ast.parse(code).body)
    assert packages <= found
    assert bool(packages) == bool(found)


INNER = '''
"""
>>> import pandas
"""
import pytest

def test_by_import():
    import pandas

@pytest.fixture(scope="module")
def frame():
    import pandas

def test_by_fixture(frame): ...

def test_by_fixture_again(frame): ...

@pytest.mark.needs("pandas")
def test_by_marker(): ...

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.needs("pandas"))])
def test_by_parameter(n): ...
'''


def test_whatever_needs_a_hidden_package_is_skipped_with_its_name(tmp_path):
    (tmp_path / "test_some.py").write_text(INNER)
    (tmp_path / "test_whole.py").write_text("import pandas\ndef test_pass(): ...\n")
    hide = [sys.executable, ROOT / "tools" / "hide_packages.py", "pandas", "--"]
    code, output = run_inner(tmp_path, "suite.needs", *hide)
    assert code == 0, output
    assert "1 passed, 7 skipped" in output
    assert set(re.findall(r"SKIPPED.*: (.*)", output)) == {"needs pandas"}


@pytest.mark.slow
def test_only_files_that_used_a_hidden_package_run_again(tmp_path, monkeypatch):
    codes = {
        "yes": "def test_it():\n    from sklearn.utils import validation\n    import pandas.api\n",
        "no": "import pandas\ndef test_it():\n    import json\n",
        "child": "import subprocess\ndef test_it():\n    subprocess.run('true')\n",
    }
    for name, code in codes.items():
        (tmp_path / f"test_{name}.py").write_text(code)
    used = tmp_path / "used.json"
    with monkeypatch.context() as patch:
        patch.setenv("MDAML_USED", str(used))
        code, output = run_inner(tmp_path, "suite.used")
    assert code == 0, output
    found = json.loads(used.read_text())
    assert found["test_yes.py"] == ["pandas"]
    assert "torch" in found["test_child.py"]
    assert "test_no.py" not in found or found["test_no.py"] == []
    monkeypatch.setenv("PYTEST_ADDOPTS", f"--used-before={used}")
    hide = [sys.executable, ROOT / "tools" / "hide_packages.py", "rich", "--"]
    code, output = run_inner(tmp_path, "suite.used", *hide)
    assert "1 passed" in output


def test_an_unknown_need_is_an_error(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.needs('pndas')\ndef test_it(): ...\n"
    )
    code, output = run_inner(tmp_path, "suite.needs")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "pndas" in output


def test_every_package_of_an_extra_can_be_needed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*extras["test"], *(p for name in ("ask", "cli", "dask") for p in extras[name])]
    wanted += [p for name in ("faiss", "images", "onnx") for p in extras[name]]
    imports = {
        "faiss-cpu": "faiss",
        "pillow": "PIL",
        "scikit-image": "skimage",
        "pytrec-eval-terrier": "pytrec_eval",
        "pyyaml": "yaml",
    }
    names = {re.match(r"[\w-]+", line)[0] for line in wanted}
    names -= {"mdaml", "pytest", "pytest-xdist", "hypothesis"}  # which run the suite
    found = {imports.get(name, name.replace("-", "_")) for name in names} | {"distributed"}
    assert found == set(TABLE["installed"])


LEAVES = """
import socket, subprocess, sys, tempfile, threading
import suite.leftovers
suite.leftovers.PATIENCE = 0.2
kept = []

def test_it():
    # Both end when this process ends, not at a time.
    code = "input()"
    kept.append(subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE))
    threading.Thread(target=threading.main_thread().join, name="idle").start()
    kept.append(socket.create_server(("127.0.0.1", 0)))
    tempfile.mkdtemp(prefix="forgotten-")
"""


@pytest.mark.slow
@pytest.mark.needs("Linux")
def test_a_run_that_leaves_something_behind_fails_with_names(tmp_path):
    (tmp_path / "test_it.py").write_text(LEAVES)
    code, output = run_inner(tmp_path, "suite.leftovers")
    assert code == pytest.ExitCode.TESTS_FAILED, output
    for name in (r"process \d+: .*input\(\)", "thread idle", r"port \d+", "temporary forgot"):
        assert re.search(f"^{name}", output, re.M), output
    (tmp_path / "test_it.py").write_text("def test_it(): ...\n")
    assert run_inner(tmp_path, "suite.leftovers")[0] == 0


@pytest.mark.needs("POSIX")
def test_children_do_not_inherit_that_ctrl_c_is_ignored(start):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # put back by the fixture of conftest.py
    process = start("-c", "import signal; print(signal.getsignal(signal.SIGINT).__name__)")
    assert process.communicate(timeout=60)[0] == "default_int_handler\n"
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize(("reason", "code"), [("needs torch", 0), ("needs pandas", 1)])
def test_a_reason_to_skip_that_is_not_listed_fails(tmp_path, reason, code):
    (tmp_path / "run.json").write_text(json.dumps({"tests/test_x.py::test_it": reason}))
    command = [sys.executable, ROOT / "tools" / "skips.py", tmp_path / "run.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert reason in done.stdout
    assert ("tests/test_x.py::test_it" in done.stderr) == bool(code)


def test_packages_that_lie_beside_ours_are_not_looked_into(tmp_path, monkeypatch):
    """As where ours is installed: theirs import by dots, and whatever they like."""
    for name in ("mdaml", "others_beside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    monkeypatch.setattr(needs, "PACKAGE", tmp_path)
    found = [needs.find_file.__wrapped__(name) for name in ("mdaml", "others_beside")]
    assert found == [tmp_path / "mdaml" / "__init__.py", None]

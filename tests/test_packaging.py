"""What is written in two places says the same in both: versions, dependencies, layers."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
# Where conda-forge has another name, or parts.
CONDA_NAMES = {"matplotlib": ["matplotlib-base"], "torch": ["pytorch"]}
CONDA_NAMES["dask"] = ["dask-core", "distributed"]


def requirements(*extras):
    """Dependencies of the package and of some extras, without the package itself."""
    lines = [*PROJECT["project"]["dependencies"], *(line for e in extras for line in EXTRAS[e])]
    return [parsed for line in lines if (parsed := Requirement(line)).name != "mdaml"]


def lower_bound(requirement):
    (bound,) = requirement.specifier
    assert bound.operator in (">=", "==")
    return Version(bound.version)


def test_the_oldest_versions_are_the_lower_bounds():
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    pinned = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pinned[name] = Version(version)
    tested = requirements("ask", "cli", "dask", "faiss", "images", "onnx", "test")
    wanted = {r.name: lower_bound(r) for r in tested if r.name != "pymanopt"}  # has one version
    assert pinned == wanted | {"distributed": wanted["dask"]}  # dask's own extra


@pytest.fixture(scope="module")
def recipe():
    return yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())


def conda_specs(*extras):
    """Dependencies as conda writes them."""
    return {
        f"{name} {requirement.specifier}"
        for requirement in requirements(*extras)
        for name in CONDA_NAMES.get(requirement.name, [requirement.name])
    }


def test_the_recipe_has_the_dependencies_of_the_package(recipe):
    needed = recipe["requirements"]
    assert set(needed["run"]) == conda_specs("cli") | {"python >=${{ python_min }}"}
    others = conda_specs("torch", "dask", "faiss", "onnx", "images", "ask") - conda_specs("cli")
    assert set(needed["run_constraints"]) == others
    (backend,) = PROJECT["build-system"]["requires"]
    assert Requirement(backend) in [Requirement(line) for line in needed["host"] if "{" not in line]


def test_recipe_and_citation_are_of_this_version_and_licence(recipe):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert recipe["context"]["version"] == citation["version"] == PROJECT["project"]["version"]
    assert recipe["about"]["license"] == citation["license"] == PROJECT["project"]["license"]
    ((command, function),) = PROJECT["project"]["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [f"{command} = {function}"]


@pytest.fixture(scope="module")
def workflows():
    paths = (ROOT / ".github" / "workflows").glob("*.yml")
    return {path.stem: yaml.safe_load(path.read_text()) for path in paths}


def test_continuous_integration_runs_every_python_we_claim(workflows):
    matrix = workflows["tests"]["jobs"]["tests"]["strategy"]["matrix"]
    claim = "Programming Language :: Python :: 3."
    claimed = [c for c in PROJECT["project"]["classifiers"] if c.startswith(claim)]
    assert matrix["python"] == [line.rpartition(" ")[2] for line in claimed]
    assert f">={matrix['python'][0]}" == PROJECT["project"]["requires-python"]


def test_workflows_may_read_and_nothing_else_unless_they_say_so(workflows):
    for workflow in workflows.values():
        assert workflow["permissions"] == {"contents": "read"}
        for job in workflow["jobs"].values():
            assert job["timeout-minutes"] <= 60
            assert set(job.get("permissions", {})) <= {"id-token", "pages"}


def test_workflows_call_targets_that_exist(workflows):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    steps = [s for w in workflows.values() for job in w["jobs"].values() for s in job["steps"]]
    called = {run.split()[1] for s in steps if (run := s.get("run", "")).startswith("make ")}
    assert called <= targets


def test_the_map_of_the_package_shows_every_layer_that_is_enforced():
    drawn = (ROOT / "docs/_static/house.svg").read_text()
    rows = {}
    for height, name in re.findall(r'y="(\d+)"><tspan[^>]*>([a-z_]+)</tspan>', drawn):
        rows.setdefault(int(height), set()).add(name)
    (contract,) = PROJECT["tool"]["importlinter"]["contracts"]
    enforced = [layer.replace("mdaml.", "").split(" | ") for layer in contract["layers"]]
    folders = [{n for n in layer if (ROOT / f"src/mdaml/{n}").is_dir()} for layer in enforced]
    shown = [rows[height] - {"distributed", "basis"} for height in sorted(rows)]
    assert [row for row in shown if row] == [layer for layer in folders if layer]


def test_the_paper_has_its_figures_and_references():
    text = (ROOT / "paper" / "paper.md").read_text()
    listed = re.findall(r"^@\w+{(\w+),", (ROOT / "paper" / "paper.bib").read_text(), re.M)
    assert sorted(set(re.findall(r"\[@(\w+)\]", text))) == sorted(listed)
    figures = re.findall(r"\]\((\S+\.png)\)", text)
    assert len(figures) == 2
    assert all((ROOT / "paper" / figure).is_file() for figure in figures)
    assert len(text.split()) < 1300

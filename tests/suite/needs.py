"""What a test or an example needs; where that is missing, it is skipped: "needs <name>".

One rule for all. A file needs the packages that it imports when it is loaded, also through other
files of ours; a test or a fixture those that its body imports. Whatever else it uses, it says with
``@pytest.mark.needs("torch", "Chromium")`` on a function, a class, a parameter or a file. An
example needs what it fails to import: nobody can write one that fails where a package is absent.
``needs.toml`` lists all names.
"""

import ast
import doctest
import inspect
import os
import shutil
import sqlite3
import sys
import tomllib
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PACKAGE = Path(find_spec("mdaml").origin).parents[1]  # other packages may lie beside ours
TABLE = tomllib.loads(Path(__file__).with_name("needs.toml").read_text(encoding="utf-8"))
PACKAGES = {*TABLE["installed"], *TABLE["packages"]}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)


def has_cuda(free=0):
    """Say whether torch finds a GPU with some bytes of free memory."""
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available() and torch.cuda.mem_get_info()[0] >= free


def find_server(name):
    """Return the path of a web server; those of the system are not on everybody's path."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")


THINGS = {
    "Chromium": lambda: CHROMIUM is not None,
    "nginx": lambda: find_server("nginx") is not None,
    "Caddy": lambda: find_server("caddy") is not None,
    "a CUDA device": has_cuda,
    "60 GiB of GPU memory": lambda: has_cuda(60 * 2**30),
    "no CUDA device": lambda: not has_cuda(),
    "Linux": lambda: sys.platform == "linux",
    "POSIX": lambda: os.name == "posix",
    "MDAML_DATA": lambda: Path(os.environ.get("MDAML_DATA") or "/nowhere").is_dir(),
    "SQLite with extensions": lambda: hasattr(sqlite3.Connection, "enable_load_extension"),
    "benchmarks": lambda: (ROOT / "benchmarks").is_dir(),
}


@cache
def is_there(name):
    return THINGS[name]() if name in THINGS else find_spec(name) is not None


def skip_without(names):
    """Skip the running test if one of the names is missing."""
    for name in sorted(names):
        if not is_there(name):
            pytest.skip(f"needs {name}")
        if name in PACKAGES and name not in sys.modules:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a package says of itself when it is loaded
                import_module(name)


# What is imported


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def walk_imports(body):
    """Yield the dotted names that statements import, but not those of a type checker or a try."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.With | ast.For | ast.While):
            yield from walk_imports(node.body)


@cache
def find_file(name):
    """Return the file of a module of ours, or None."""
    parts = name.split(".")
    place = (PACKAGE if parts[0] == "mdaml" else TESTS).joinpath(*parts)
    found = (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())
    return next(found, None)


def look_at(body):
    """Return the optional packages that some statements import, and the files of ours."""
    packages, files = set(), set()
    for name in walk_imports(body):
        parts = name.split(".")
        if parts[0] in PACKAGES:
            packages.add(parts[0])
        else:
            files |= {find_file(".".join(parts[: n + 1])) for n in range(len(parts))}
    return packages, files - {None}


@cache
def look_at_file(path):
    return look_at(parse(path).body)


def packages_of_files(files):
    """Return the optional packages that some files load, also through others of ours."""
    found, seen, waiting = set(), set(), set(files)
    while waiting:
        seen |= waiting
        looks = [look_at_file(path) for path in waiting]
        found = found.union(*(packages for packages, _ in looks))
        waiting = set().union(*(more for _, more in looks)) - seen
    return found


def packages_of(body):
    """Return the optional packages that some statements load, also through files of ours."""
    packages, files = look_at(body)
    return packages | packages_of_files(files)


@cache
def packages_of_file(path):
    """Return the packages without which a file cannot be loaded; its folders are loaded first."""
    inits = takewhile(Path.is_file, (folder / "__init__.py" for folder in path.parents))
    return packages_of_files({path, *inits})


@cache
def packages_of_functions(path):
    """Return for each function of a file the packages that its body imports."""
    functions = [node for node in ast.walk(parse(path)) if isinstance(node, ast.FunctionDef)]
    return {node.name: packages_of(node.body) for node in functions}


def packages_of_function(function, path):
    return packages_of_functions(path).get(function.__name__, set())


@cache  # thousands of tests ask for the same few
def packages_of_fixture(function, root):
    """Return the packages that a fixture imports, if it is one of ours."""
    path = Path(inspect.getfile(function))
    return packages_of_function(function, path) if root in path.parents else set()


def missing_package(error):
    """Return the optional package that an import did not find, or None."""
    while error is not None:
        name = getattr(error, "name", None) if isinstance(error, ImportError) else None
        package = (name or "").partition(".")[0]
        if package in PACKAGES and not is_there(package):
            return package
        error = error.__cause__ or error.__context__
    return None


# Hooks of pytest


class Absent(pytest.File):
    """A file that cannot be loaded here, as one test that is skipped."""

    def collect(self):
        yield AbsentItem.from_parent(self, name="all")


class AbsentItem(pytest.Item):
    def runtest(self):
        skip_without(packages_of_file(self.path))

    def reportinfo(self):
        return self.path, None, self.name


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(*names): skip where one of these is missing")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    collectors = yield
    if not collectors or all(map(is_there, packages_of_file(file_path))):
        return collectors
    if not file_path.name.startswith("test_") and ">>>" not in file_path.read_text("utf-8"):
        return []  # only its examples are tests
    return [Absent.from_parent(parent, path=file_path)]


def pytest_collection_modifyitems(items):
    for item in items:
        wanted = {name for mark in item.iter_markers("needs") for name in mark.args}
        if unknown := wanted - PACKAGES - set(THINGS):
            raise pytest.UsageError(f"{item.nodeid} needs {unknown}: see tests/suite/needs.toml")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if isinstance(item, AbsentItem):  # before its folder is loaded
        item.runtest()
    skip_without(name for mark in item.iter_markers("needs") for name in mark.args)
    if isinstance(item, pytest.Function):
        skip_without(packages_of_function(item.function, item.path))


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    if packages := packages_of_fixture(fixturedef.func, request.config.rootpath):
        try:
            skip_without(packages)
        except pytest.skip.Exception as skipped:
            # As pytest keeps it, for the next test that asks for the fixture.
            fixturedef.cached_result = (None, fixturedef.cache_key(request), (skipped, None))
            raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except doctest.UnexpectedException as failure:
        package = missing_package(failure.exc_info[1])
        if package is None or not isinstance(item, pytest.DoctestItem):
            raise
        pytest.skip(f"needs {package}")

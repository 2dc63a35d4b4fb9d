"""Records which optional packages every test file uses; runs files again without one of these.

The environment variable ``MDAML_USED`` names a JSON file to write: the packages by file. With
``--used-before=FILE`` only those files run that used a package that ``tools/hide_packages.py``
hides now. A file uses a package if one of its tests imports it, however deep; what a child process
uses is not seen, so files that start some use all.
"""

import builtins
import importlib
import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from suite.needs import PACKAGES

found = defaultdict(set)
running = None  # the file of the test that runs


def note(name):
    if running is not None:
        found[running] |= {name.partition(".")[0]} & PACKAGES


def watch():
    """Note what is imported, also if it was loaded before, and which files start processes."""
    load, load_named, begin = (
        builtins.__import__,
        importlib.import_module,
        subprocess.Popen.__init__,
    )

    def import_any(name, *args, **options):
        note(name)
        return load(name, *args, **options)

    def import_named(name, *args, **options):
        note(name)
        return load_named(name, *args, **options)

    def start(*args, **options):
        if running is not None:
            found[running] |= PACKAGES
        return begin(*args, **options)

    builtins.__import__, importlib.import_module = import_any, import_named
    subprocess.Popen.__init__ = start


def pytest_addoption(parser):
    parser.addoption(
        "--used-before",
        metavar="FILE",
        type=Path,
        help="run the files that used what is hidden now, in the run that wrote FILE",
    )


def pytest_configure():
    if os.environ.get("MDAML_USED"):
        watch()


def pytest_ignore_collect(collection_path, config):
    path = config.getoption("used_before")
    if path is None or collection_path.is_dir():
        return None
    hidden = set(os.environ.get("MDAML_HIDDEN_MODULES", "").split(","))
    used = json.loads(path.read_text()).get(str(collection_path.relative_to(config.rootpath)), [])
    return None if hidden & set(used) else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    global running
    running = str(item.path.relative_to(item.config.rootpath))
    try:
        return (yield)
    finally:
        running = None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take what a worker of pytest-xdist found."""
    for name, packages in getattr(node, "workeroutput", {}).get("used", {}).items():
        found[name] |= set(packages)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    path = os.environ.get("MDAML_USED")
    listed = {name: sorted(packages) for name, packages in sorted(found.items())}
    if path and hasattr(session.config, "workerinput"):
        session.config.workeroutput["used"] = listed
    elif path:
        Path(path).write_text(json.dumps(listed, indent=1))

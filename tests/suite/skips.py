"""Records what was skipped and why; runs again, with more installed, what was skipped before.

The environment variable ``MDAML_SKIPS`` names a JSON file to write, a reason by test;
``tools/skips.py`` reads it.
"""

import json
import os
from pathlib import Path

import pytest

skipped = {}


def pytest_addoption(parser):
    parser.addoption(
        "--skipped-before",
        metavar="FILE",
        type=Path,
        help="run the slow tests and those that were skipped in the run that wrote FILE",
    )


def pytest_collection_modifyitems(config, items):
    path = config.getoption("skipped_before")
    if path is None:
        return
    # A file that could not be loaded was one test, "all".
    before = {test.removesuffix("::all") for test in json.loads(path.read_text())}
    chosen = {True: [], False: []}
    for item in items:
        names = {item.nodeid, item.nodeid.partition("::")[0]}
        chosen[bool(item.get_closest_marker("slow") or names & before)].append(item)
    items[:] = chosen[True]
    config.hook.pytest_deselected(items=chosen[False])


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        skipped[report.nodeid] = reason.removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    path = os.environ.get("MDAML_SKIPS")
    if path and not hasattr(session.config, "workerinput"):
        Path(path).write_text(json.dumps(skipped, indent=1, sort_keys=True))

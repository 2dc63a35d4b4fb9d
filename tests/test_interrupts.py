"""Ctrl-C pressed several times: at moments of which each once gave a traceback."""

import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from fuzz import interrupts
from suite.children import default_ctrl_c

pytestmark = pytest.mark.needs("POSIX")
PRESS = "os.kill(os.getpid(), signal.SIGINT)"
# Runs the command --version, during which something happens.
DURING = """
import os, signal, sys
import mdaml.cli as cli
def print_version():
    {}
    return 0
cli._print_version = print_version
sys.argv = ["mdaml", "--version"]
cli.main()
"""


@contextmanager
def interrupts_ignored():
    """Start processes as jobs in the background, where Ctrl-C is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run(during, frame=DURING, ctrl_c=default_ctrl_c):
    code = frame.format(during.replace("PRESS", PRESS).replace("\n", "\n    "))
    with ctrl_c():
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "during",
    [
        "PRESS",
        "try:\n    PRESS\nfinally:\n    PRESS",
        "try:\n    PRESS\nexcept KeyboardInterrupt:\n    PRESS\n    raise",
        "try:\n    PRESS\nexcept KeyboardInterrupt as error:\n    raise ValueError from error",
        "try:\n    PRESS\nexcept BaseException:\n    pass\nPRESS",
    ],
    ids=["once", "finally", "except", "converted", "swallowed"],
)
def test_ctrl_c_while_one_is_handled_changes_nothing(during):
    assert run(during) == (130, "", "Interrupted.\n")


def test_ctrl_c_while_the_message_is_prepared_changes_nothing():
    during = f"""
import mdaml.cli._failures as failures
ignore = failures.ignore_interrupts
def press_and_ignore():
    {PRESS}
    ignore()
    {PRESS}
failures.ignore_interrupts = press_and_ignore
PRESS"""
    assert run(during) == (130, "", "Interrupted.\n")


def test_ctrl_c_that_python_could_only_print_is_raised_again():
    during = """
import time
class Last:
    def __del__(self):
        PRESS
        time.sleep(0.0)
last = Last()
del last
time.sleep(50)"""
    assert run(during) == (130, "", "Interrupted.\n")


LOST = """
class Last:
    def __del__(self):
        {}
last = Last()
del last
time.sleep(50)"""


def test_ctrl_c_while_one_is_about_to_be_raised_again_changes_nothing():
    during = """
import threading, time
class Timer(threading.Timer):
    def start(self):
        PRESS
        super().start()
        PRESS
threading.Timer = Timer"""
    assert run(during + LOST.format("PRESS")) == (130, "", "Interrupted.\n")


def test_ctrl_c_while_another_error_is_printed_is_raised_later():
    during = """
import time
def print_error(lost):
    PRESS
sys.__unraisablehook__ = print_error"""
    assert run(during + LOST.format("1 / 0")) == (130, "", "Interrupted.\n")


def test_errors_of_objects_that_were_half_made_are_not_printed():
    """llvmlite has such objects, made in two steps; destroyed between them they raise an error."""
    during = """
class Half:
    def __init__(self):
        PRESS
        time.sleep(50)
        self.owned = False
    def __del__(self):
        self.owned
import time
Half()"""
    assert run(during) == (130, "", "Interrupted.\n")


def test_a_package_that_was_half_loaded_is_not_asked_for_again():
    """NumPy can be loaded once only: after an interruption a second time is an error."""
    during = """
import sys
class Refuse:
    def find_spec(self, name, *_):
        if name.startswith("numpy"):
            raise ImportError("cannot load module more than once per process")
sys.meta_path.insert(0, Refuse())
PRESS"""
    assert run(during) == (130, "", "Interrupted.\n")


def test_an_interrupted_command_does_not_unload_packages():
    """Half-loaded ones crash when Python unloads them."""
    during = """
import atexit, weakref
class Module: pass
sys.module = Module()
weakref.finalize(sys.module, print, "ended in order")
sys.crash = type("Crash", (), {"__del__": lambda self, end=os.abort: end()})()
PRESS"""
    assert run(during) == (130, "ended in order\n", "Interrupted.\n")


def test_what_was_half_made_when_ctrl_c_came_is_not_destroyed():
    """LLVM frees some objects twice if Python was interrupted while one changed hands."""
    during = """
half = type("Half", (), {"__del__": lambda self, end=os.abort: end()})()
PRESS"""
    assert run(during) == (130, "", "Interrupted.\n")


@pytest.mark.parametrize("ignored", [False, True], ids=["at a terminal", "in the background"])
@pytest.mark.parametrize(("code", "error"), [(0, ""), (2, "No.\n")], ids=["done", "refused"])
def test_a_command_does_not_unload_packages_that_still_run_threads(code, error, ignored):
    """A thread of Arrow that still reads ahead aborts a process that unloads it."""
    during = f"""
import atexit, mdaml.cli._failures as failures
atexit.register(print, "ended in order")
sys.crash = type("Crash", (), {{"__del__": lambda self, end=os.abort: end()}})()
if {code}:
    raise failures.CommandError("No.")"""
    ctrl_c = interrupts_ignored if ignored else default_ctrl_c
    assert run(during, ctrl_c=ctrl_c) == (code, "ended in order\n", error)


@pytest.mark.needs("Linux")
def test_output_that_could_not_be_written_is_still_a_failure():
    code = "import sys; from mdaml.cli import main; sys.argv = ['mdaml', '--version']; main()"
    with open("/dev/full", "w") as full:  # noqa: PTH123
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode not in (0, -6)
    assert done.stderr


def test_processes_that_a_command_starts_end_by_ctrl_c():
    during = f"""
import subprocess
code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
print(subprocess.check_output([sys.executable, "-c", code], text=True), end="", flush=True)
try:
    {PRESS}
finally:
    print(subprocess.check_output([sys.executable, "-c", code], text=True), end="", flush=True)"""
    assert run(during) == (130, "True\nTrue\n", "Interrupted.\n")


@pytest.mark.slow
def test_commands_end_in_order_however_often_ctrl_c_comes(tmp_path):
    ends = {interrupts.attack(np.random.default_rng([0, n]), tmp_path) for n in range(4)}
    assert ends <= {"exit 0", "exit 130"}
    assert "exit 130" in ends


@pytest.mark.slow
def test_a_command_that_gets_none_ends_as_always(tmp_path):
    words = ("transform", "plain.mdaml", "items.csv", "--drop", "y", "--out", "t.csv", "--json")
    interrupts.make_inputs(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    code, stdout, stderr = interrupts.press(tmp_path, words, [])
    assert (code, len(stdout.splitlines()), "Interrupted" in stderr) == (0, 1, False)
    assert signal.getsignal(signal.SIGINT) is before  # the test starts commands, and is none

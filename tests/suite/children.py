"""Processes that tests start: Ctrl-C ends them as at a terminal, and none outlives its test."""

import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest


@contextmanager
def default_ctrl_c():
    """Children started here do not inherit that SIGINT is ignored, as under ``nohup`` and in CI.

    A handler of the parent becomes the default action in a child; an ignored signal stays ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def start():
    """Return a function that starts Python with some words; the end of the test kills it."""
    started = []

    def start(*words, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with default_ctrl_c():
            process = subprocess.Popen([sys.executable, *map(str, words)], **pipes | options)
        started.append(process)
        return process

    yield start
    for process in started:
        with process:  # waits, and closes the pipes
            process.kill()

"""Commands that get Ctrl-C several times within 0.6 s, at random moments from their start on."""

import os
import signal
import subprocess
import sys
import time

from suite.children import default_ctrl_c

from fuzz import check
from fuzz.commands import MAIN, draw_writer, make_inputs

_START = f"import mdaml.cli as c, os; c.hold_interrupts(); os.write(2, b'up\\n'); {MAIN}"
_LONGEST = 3.0  # seconds from the start to the first one
_WITHIN = 0.6  # seconds from the first to the last


def attack(rng, folder):
    """Press Ctrl-C two to five times: one message, one document and one of the promised codes."""
    make_inputs(folder)
    command, words, _ = draw_writer(rng, folder)
    moments = [float(rng.uniform(0, _LONGEST))]
    within = _WITHIN * 10.0 ** rng.uniform(-3, 0)
    moments += sorted(moments[0] + rng.uniform(0, within, rng.integers(1, 5)))
    code, stdout, stderr = press(folder, [*command, *words], moments)
    shown = ", ".join(f"{moment:.4f}" for moment in moments)
    what = f"mdaml {' '.join([*command, *words])} and Ctrl-C after {shown} s:"
    check(code in (0, 130), what, code, stderr)
    check("Traceback" not in stderr and "Exception ignored" not in stderr, what, stderr)
    check(code == 0 or stderr.count("Interrupted") == 1, what, "no message or two:", stderr)
    if "--json" in words:
        check(len(stdout.splitlines()) == 1, what, "no document or two:", stdout)
    return f"exit {code}"


def press(folder, words, moments):
    """Run a command, press Ctrl-C so many seconds after its start; return how it ended."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = os.environ | {"COLUMNS": "80"}
    line = [sys.executable, "-c", _START, *words]
    # A session of its own: as at a terminal, its child processes get the signal too.
    with default_ctrl_c():
        run = subprocess.Popen(line, cwd=folder, env=environment, start_new_session=True, **pipes)
    with run:
        run.stderr.readline()
        start = time.monotonic()
        for moment in moments:
            time.sleep(max(0.0, start + moment - time.monotonic()))
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGINT)
        stdout, stderr = run.communicate(timeout=120)
    return run.returncode, stdout, stderr

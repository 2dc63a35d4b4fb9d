"""Fit methods of one environment, each fit in a process of its own; facts as JSON lines.

``python fit.py JOBS.json``, with the interpreter of that environment; run by ``compare.py``. Needs
NumPy, ``learners.py`` and the libraries under test, and Linux.

The libraries are loaded once; every fit then happens in a forked child, so that it can be stopped,
may crash, and has a peak of memory of its own. A small fit before the timed one loads and compiles
what the method needs. Held-out samples are read after it, to be mapped. The limit is in processor
seconds, so that other programs make no fit fail.
"""

import importlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from learners import METHODS, MODULES

# A fit is repeated so often if that takes no longer than so many seconds; a very short one until it
# took many ticks of the clock of processor time.
REPEATS, REPEAT_SECONDS, TICKS_SECONDS = 5, 2.0, 0.3


def main():
    jobs = json.loads(Path(sys.argv[1]).read_text())
    for module in MODULES[jobs["environment"]]:
        importlib.import_module(module)
    too_slow = {tuple(case) for case in jobs["too_slow"]}
    for job in jobs["fits"]:
        case = job["method"], job["kind"]
        if case in too_slow:
            facts = {"status": "not tried", "message": "over the limit on the split before"}
        else:
            facts = fit_in_child(job, jobs["limit_seconds"])
        if facts["status"] == "over the limit":
            too_slow.add(case)
        print(json.dumps(job | facts), flush=True)


def fit_in_child(job, limit):
    """Fork, fit, wait; the child's facts, or why there are none."""
    facts_file = Path(job["out"]).with_suffix(".json")
    facts_file.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        fit_and_leave(job, facts_file, limit)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGPROF:
        return {"status": "over the limit", "message": f"over {limit:g} s"}
    if not facts_file.exists():
        return {"status": "failed", "message": f"the process ended with code {code}"}
    return json.loads(facts_file.read_text())


def fit_and_leave(job, facts_file, limit):
    """Fit, write what came out, and end this process without the parent's clean-up."""
    try:
        facts = timed_fit(METHODS[job["method"]].fit, job, limit)
    except BaseException as error:
        line = traceback.format_exception_only(error)[-1].strip()
        facts = {"status": "failed", "message": line[:300]}
    unfinished = facts_file.with_suffix(".tmp")
    unfinished.write_text(json.dumps(facts))
    unfinished.replace(facts_file)
    os._exit(0)


def timed_fit(fit, job, limit):
    """Warm up, fit, and fit again where that is quick; write the samples as they are mapped."""
    data = load(job["data"])
    sys.stdout = sys.stderr  # some libraries print
    warnings.simplefilter("ignore")  # default fits are what is measured, converged or not
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends this process, whatever it is doing
    signal.setitimer(signal.ITIMER_PROF, limit)
    fit(small_part(data))
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark
    signal.setitimer(signal.ITIMER_PROF, limit)
    wall, cpu = [], []
    while sum(wall) < (REPEAT_SECONDS if len(wall) < REPEATS else TICKS_SECONDS):
        start, cpu_start = time.perf_counter(), time.process_time()
        found = fit(data)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
        if len(wall) == 1:  # later fits find pages that the first one left
            peak = resident("VmHWM") - before
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    known, new = (mapped(found, X) for X in (data.X, np.load(job["held_out"])))
    np.savez(job["out"], known=known, new=new)
    return {
        "status": "ok",
        "seconds": float(np.median(wall)),
        "cpu_seconds": float(np.mean(cpu)),
        "n_fits": len(wall),
        "peak_mb": peak / 2**10,
    }


def mapped(found, X):
    """Samples under what was learned: a matrix, or a function of samples."""
    if callable(found):
        Z = found(X)
    else:
        L = np.atleast_2d(found)
        if L.size == 0:
            raise ValueError("the learned map is empty")
        Z = X @ L.T
    if not np.isfinite(Z).all():
        raise FloatingPointError("the learned map is not finite")
    return Z


def load(path):
    """X, and y or triplets; the one that is not given is None."""
    with np.load(path) as file:
        arrays = {name: np.ascontiguousarray(file[name]) for name in file.files}
    return SimpleNamespace(**{"y": None, "triplets": None} | arrays)


def small_part(data):
    """Sixty samples of each of two classes, three features; or triplets among these samples."""
    rng = np.random.default_rng(0)
    X = np.ascontiguousarray(rng.normal(size=(120, 3)))
    y = np.repeat([0, 1], 60)
    X[:60] += 1.0
    if data.triplets is None:
        return SimpleNamespace(X=X, y=y.astype(data.y.dtype), triplets=None)
    rows = np.arange(120)
    near, far = (rows + 1) % 60 + 60 * y, (rows + 60) % 120
    triplets = np.column_stack([rows, near, far]).astype(data.triplets.dtype)
    return SimpleNamespace(X=X, y=None, triplets=triplets)


def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])  # kB


if __name__ == "__main__":
    main()

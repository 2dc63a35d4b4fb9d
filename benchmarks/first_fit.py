"""Processor time of the first fit of an installation, and of the first one of a later process.

``python benchmarks/first_fit.py [CASE ...] [--runs N] [--loops] [--out FILE]``. Each run is two new
processes with an empty folder for compiled code (``NUMBA_CACHE_DIR``) on vehicle (846 x 18): the
first compiles, the second loads. A fit includes ``import numba``, not that of the package;
*compiling* is the part in Numba's compiler, without its start. The run with the fastest first fit
is shown: beside other processes all take longer. ``--loops`` lists what was compiled.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mdaml import LocalMDaML, MDaML
from mdaml.constraints import sample_triplets
from mdaml.datasets import load_dataset

CASES = {
    "labels": (MDaML, "y"),
    "triplets": (MDaML, "triplets"),
    "places": (LocalMDaML, "triplets"),
}


def fit_once(case):
    """Fit in this process; return its seconds of processor time, and loops with theirs."""
    X, y = load_dataset("vehicle", return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    given = {"y": y, "triplets": sample_triplets(y, 3, 3, random_state=0)}
    make, name = CASES[case]
    start = time.process_time()
    from numba.core import event

    starts, loops = [], []

    class Compilations(event.Listener):
        """Note what is compiled; a loop includes those that it calls."""

        def on_start(self, event):  # noqa: ARG002
            starts.append(time.process_time())

        def on_end(self, event):
            seconds = time.process_time() - starts.pop()
            loops.append((len(starts), event.data["dispatcher"].py_func.__name__, seconds))

    with event.install_listener("numba:compile", Compilations()):
        make(random_state=0).fit(X, **{name: given[name]})
    seconds = time.process_time() - start
    compiling = sum(part for depth, _, part in loops if depth == 0)
    return {"fit": seconds, "compiling": compiling, "loops": loops}


def first_and_second(case):
    """Return the figures of a process that compiles and of one that loads."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"NUMBA_CACHE_DIR": folder, "NUMBA_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--once", case]
        runs = [subprocess.run(command, env=env, check=True, stdout=-1).stdout for _ in range(2)]
    return tuple(map(json.loads, runs))


def main():
    """Print a row of the table for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--loops", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--once", choices=CASES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        print(json.dumps(fit_once(args.once)))
        return
    figures = {}
    print(
        "| fit from | first fit | compiling | first of a later process |\n| --- | --- | --- | --- |"
    )
    for case in args.cases:
        runs = [first_and_second(case) for _ in range(args.runs)]
        first, second = min(runs, key=lambda run: run[0]["fit"])
        figures[case] = {"first": first, "second": second}
        cells = first["fit"], first["compiling"], second["fit"]
        print(
            f"| {case} | " + " | ".join(f"{seconds:.2f} s" for seconds in cells) + " |", flush=True
        )
        for depth, name, seconds in first["loops"] if args.loops else []:
            print(f"{'  ' * depth}  {name}: {seconds:.2f} s")
    if args.out:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Our methods against their peers, in one run; `make bench-peers`.

Every fit has one thread and a process of its own; all methods see the same splits, scaling and
triplets, and are judged by the same two figures on held-out samples. Interrupted, it goes on where
it stopped; what changed in the code since is fitted again.

``python benchmarks/peers/compare.py [SET ...] [--splits N] [--limit 60] [--lanes 2]``
"""

import argparse
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from environments import REQUIREMENTS, NotInstalledError, interpreter, versions
from learners import METHODS
from problems import SETS, Problem, count_splits, is_there
from report import draw, show, summarise
from threadpoolctl import threadpool_limits

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNS = HERE / ".runs"
RECORDS = RUNS / "records.jsonl"
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM")
}
CASE = ("method", "kind", "set", "split")
problem = cache(Problem.of)
running, stopping = set(), threading.Event()


def fingerprint(environment):
    """A short name for all code that decides what a fit gives."""
    files = [HERE / name for name in ("learners.py", "fit.py", "problems.py")]
    files.append(ROOT / "experiments" / "network.py")
    if environment == "mdaml":
        files += [HERE.parent / "literal_mdaml.py", *sorted(ROOT.glob("src/mdaml/**/*.py"))]
    digest = hashlib.sha256(repr(REQUIREMENTS[environment]).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


class Records:
    """Facts of fits, one JSON line each, the last one of a case in force."""

    def __init__(self, path, limit):
        self.path, self.limit = path, limit
        self.lock = threading.Lock()
        path.parent.mkdir(exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.facts = {}
        for line in lines:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:  # cut off by an interruption
                continue
            self.facts[tuple(record[key] for key in CASE)] = record

    def has(self, case, code):
        """Whether this case was fitted by this code, under this limit."""
        known = self.facts.get(case)
        return known is not None and (known["code"], known["limit"]) == (code, self.limit)

    def too_slow(self, jobs):
        """Methods and kinds that took too long on an earlier split of the set of these jobs."""
        codes = {(job["method"], job["set"]): job["code"] for job in jobs}
        return [
            [fact["method"], fact["kind"]]
            for case, fact in self.facts.items()
            if self.has(case, codes.get((fact["method"], fact["set"])))
            and fact["status"] == "over the limit"
        ]

    def add(self, record):
        record = record | {"limit": self.limit}
        with self.lock, self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
            self.facts[tuple(record[key] for key in CASE)] = record
            figures = "  ".join(
                f"{record[key]:.4g} {unit}"
                for key, unit in (("seconds", "s"), ("accuracy", ""), ("satisfied", ""))
                if key in record
            )
            print(
                f"{record['set']:9s} {record['split']} {record['kind']:9s} {record['method']:20s} "
                f"{figures or record['status'] + ': ' + record['message']}",
                flush=True,
            )


def run_task(environment, name, splits, records):
    """Fit all methods of an environment on one data set, as far as not done yet."""
    code = fingerprint(environment)
    jobs = []
    # Split by split for each method, so that a second split need not run into the limit again.
    for (method, facts), split in product(METHODS.items(), range(count_splits(name, splits))):
        for kind in facts.kinds if facts.environment == environment else ():
            case = (method, kind, name, split)
            if not records.has(case, code):
                jobs.append(dict(zip(CASE, case, strict=True)) | {"code": code})
    if not jobs:
        return
    try:
        python = interpreter(environment)
    except NotInstalledError as error:
        for job in jobs:
            records.add(job | {"status": "not installed", "message": str(error)})
        return
    for record in fitted(python, environment, jobs, records):
        records.add(judged(record))


def fitted(python, environment, jobs, records):
    """Hand the jobs to a process of the environment; yield what it says, as it says it."""
    for n, job in enumerate(jobs):
        job["data"] = str(RUNS / f"{environment}-{job['set']}-{job['split']}-{job['kind']}.npz")
        # One file each: the next fit may end while this one is judged.
        job["out"] = str(RUNS / f"{environment}-{job['set']}-{n}.npz")
        job["held_out"] = str(RUNS / f"{environment}-{job['set']}-{job['split']}-held-out.npy")
        case = problem(job["set"], job["split"])
        case.write(job["kind"], job["data"])
        np.save(job["held_out"], case.X_test)
    task = RUNS / f"{environment}-{jobs[0]['set']}-jobs.json"
    known = {"too_slow": records.too_slow(jobs), "limit_seconds": records.limit}
    task.write_text(json.dumps({"environment": environment, "fits": jobs} | known))
    command = [python, str(HERE / "fit.py"), str(task)]
    log = task.with_suffix(".log")
    options = {"stdout": subprocess.PIPE, "text": True, "env": os.environ | ONE_THREAD}
    # A session of its own: an interruption must not look like a fit that failed.
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stderr=errors, start_new_session=True, **options) as process,
    ):
        running.add(process)
        n_done = 0
        for line in process.stdout:
            yield json.loads(line)
            n_done += 1
    running.discard(process)
    if process.returncode != 0 and not stopping.is_set():
        message = (log.read_text().splitlines() or ["no message"])[-1][:300]
        for job in jobs[n_done:]:
            yield job | {"status": "failed", "message": message}


def judged(record):
    """The record with both figures on held-out samples."""
    hidden = ("data", "out", "held_out")
    if record["status"] == "ok":
        with np.load(record["out"]) as file:
            known, new = file["known"], file["new"]
        Path(record["out"]).unlink()
        accuracy, satisfied = problem(record["set"], record["split"]).judge(known, new)
        record = record | {"accuracy": accuracy, "satisfied": satisfied, "rank": known.shape[1]}
    return {key: value for key, value in record.items() if key not in hidden}


def run_all(sets, splits, lanes, records):
    """Run the tasks in lanes; an interruption ends the fits under way and records nothing."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    order = ("metric-learn", "mdaml", "torch", "mlpack")  # the slowest first
    with ThreadPoolExecutor(lanes) as pool:
        tasks = [
            pool.submit(run_task, environment, name, splits, records)
            for name, environment in product(sets, order)
        ]
        try:
            for task in tasks:
                task.result()
        except BaseException:
            stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                with suppress(ProcessLookupError):  # just ended
                    os.killpg(process.pid, signal.SIGKILL)
            raise


def machine():
    model = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return {
        "python": platform.python_version(),
        "processor": model[0].split(":")[1].strip() if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
    }


def installed():
    """Versions of the libraries under test, for each environment that is there."""
    wanted = ("mdaml", "numpy", "scipy", "scikit-learn", "numba", "pymanopt", "metric-learn")
    wanted += ("mlpack", "torch", "pytorch-metric-learning")
    result = {}
    for environment in REQUIREMENTS:
        try:
            found = versions(interpreter(environment))
        except NotInstalledError as error:
            result[environment] = str(error)
        else:
            result[environment] = {name: found[name] for name in wanted if name in found}
    return result


def write_results(records, splits, sets, out):
    """Write table, facts of all fits and picture; earlier files are replaced as a whole."""
    chosen = [
        facts
        for facts in records.facts.values()
        if facts["set"] in sets and facts["split"] < count_splits(facts["set"], splits)
    ]
    rows = summarise(chosen)
    verdict = show(rows)
    figures = {
        "machine": machine(),
        "versions": installed(),
        "splits": {name: count_splits(name, splits) for name in sets},
        "limit_seconds": records.limit,
        "verdict": verdict,
        "rows": rows,
        "fits": chosen,
    }
    unfinished = out.with_suffix(".tmp")
    unfinished.write_text(json.dumps(figures, indent=1))
    unfinished.replace(out)
    draw(rows, out.with_suffix(".png"))
    print(f"\nwrote {out} and {out.with_suffix('.png').name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help="data sets; by default all that are there")
    what = "random splits of each set; by default 2, and 10 of german and sonar"
    parser.add_argument("--splits", type=int, help=what)
    what = "processor seconds that a fit may take"
    parser.add_argument("--limit", type=float, default=60.0, help=what)
    parser.add_argument("--lanes", type=int, default=2, help="fits at a time, one thread each")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "peers.json")
    args = parser.parse_args()
    unknown = set(args.sets) - set(SETS)
    if unknown:
        parser.error(f"unknown set {', '.join(unknown)}; choose from {', '.join(SETS)}")
    sets = args.sets or [name for name in SETS if is_there(name)]
    records = Records(RECORDS, args.limit)
    # Two lanes set up no environment twice at the same time.
    for environment in REQUIREMENTS:
        try:
            interpreter(environment)
        except NotInstalledError as error:
            print(f"{environment}: {error}", file=sys.stderr)
    with threadpool_limits(1):
        run_all(sets, args.splits, args.lanes, records)
    write_results(records, args.splits, sets, args.out)


if __name__ == "__main__":
    main()

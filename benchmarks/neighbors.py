"""Time of the search for neighbours in labelled rows on the processor, and how many it finds.

``python benchmarks/neighbors.py [ROWSxFEATURES ...] [--recall R] [--out FILE]``. Rows are those of
``gpu.py``: 20 classes of ten kinds each, in 16 dimensions and noise. Five neighbours of the own
class and five of other classes are searched; *found* is the share of the true ones of 300 rows.
Processor time is that of all threads; wall time means little beside other busy processes.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from gpu import make_labelled

from mdaml.constraints.labels import Classes
from mdaml.kernels.threads import n_threads
from mdaml.neighbors.search import nearest_places

K, N_TRIED = 5, 300
CASES = ("60000x20", "300000x20", "1000000x20", "60000x128", "300000x128", "1000000x128")


def measure(n_samples, n_features, recall):
    """Search once, and compare with an exact search for some rows."""
    X, y = make_labelled(n_samples, n_features)
    classes = Classes.from_labels("benchmark", y)
    X = X[classes.rows]
    wall, processor = time.perf_counter(), time.process_time()
    found = nearest_places(X, classes.bounds, classes.rows, (K, K), recall)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    shares = [share_found(X, classes, places, same=s == 0) for s, places in enumerate(found)]
    print(
        f"{n_samples} x {n_features}: {processor:.1f} s of processor time, {wall:.1f} s; found "
        f"{shares[0]:.3f} of the same class, {shares[1]:.3f} of others",
        flush=True,
    )
    return {
        "samples": n_samples,
        "features": n_features,
        "processor": processor,
        "wall": wall,
        "found": shares,
    }


def share_found(X, classes, found, same):
    """Return the share of the true neighbours of some rows that was found."""
    hits = 0
    for place in np.random.default_rng(1).choice(len(X), N_TRIED, replace=False):
        pool = np.flatnonzero((classes.of == classes.of[place]) == same)
        dists = np.square(X[pool] - X[place]).sum(axis=1)
        dists[pool == place] = np.inf
        hits += len(np.intersect1d(pool[np.argpartition(dists, K)[:K]], found[place]))
    return hits / (K * N_TRIED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=CASES, metavar="ROWSxFEATURES")
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    measure(60_000, 2, 0.5)  # compiles
    cases = [measure(*map(int, case.split("x")), args.recall) for case in args.cases]
    if args.out:
        machine = {"threads": n_threads(), "load": os.getloadavg()[0]}
        unfinished = args.out.with_suffix(".tmp")
        unfinished.write_text(json.dumps({"machine": machine, "cases": cases}, indent=1))
        unfinished.replace(args.out)


if __name__ == "__main__":
    main()

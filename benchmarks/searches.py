"""How many times as long as one fit do the two searches take on the processor?

``python benchmarks/searches.py [SET ...] [--repeat N] [--out FILE]``. A set is ``vehicle``,
``segment`` (labels, and the triplets of five near and five far neighbours of each row) or
``22000x32`` (labels of 20 classes, as in ``gpu.py``). ``MetricSearchCV`` tries ten candidates in
two splits. Processor time of one thread (set OMP_NUM_THREADS and NUMBA_NUM_THREADS to 1), the
median of the repetitions, in which the three take turns: other work on the machine counts less.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from gpu import TEN_CANDIDATES, make_labelled

from mdaml import MDaML, MDaMLCV
from mdaml.constraints import Constraints
from mdaml.datasets import load_dataset
from mdaml.model_selection import MetricSearchCV

SETS = ("vehicle", "segment", "22000x32")
OF_LABELS = {"n_modes": [1, 3], "shrinkage": [0.0, 0.25, 0.5, 0.75, 0.9]}
OF_TRIPLETS = {"anchor": [0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0]}


def make_cases(name):
    """Yield a title, the samples, what is learned from, and the grid of a search."""
    if "x" in name:
        X, y = make_labelled(*map(int, name.split("x")))
        yield f"{name}, labels", X, {"y": y}, TEN_CANDIDATES
        return
    X, y = load_dataset(name, return_X_y=True)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    yield f"{name}, labels", X, {"y": y}, OF_LABELS
    triplets = Constraints.from_neighbors(X, y, 5, 5).triplets
    yield f"{name}, {len(triplets)} triplets", X, {"triplets": triplets}, OF_TRIPLETS


def measure(title, X, given, grid, repeat):
    """Time one fit and both searches in turn; return the medians."""
    made = {
        "MDaML": MDaML(random_state=0),
        "MDaMLCV": MDaMLCV(random_state=0),
        "MetricSearchCV": MetricSearchCV(MDaML(), grid, cv=2, random_state=0),
    }
    seconds = {name: [] for name in made}
    for turn in range(repeat + 1):  # the first one loads and compiles
        for name, model in made.items():
            start = time.process_time()
            model.fit(X, **given)
            seconds[name] += [time.process_time() - start] if turn else []
    medians = {name: float(np.median(own)) for name, own in seconds.items()}
    ratios = {name: own / medians["MDaML"] for name, own in medians.items()}
    shown = ", ".join(f"{n} {medians[n]:.2f} s ({ratios[n]:.1f} times)" for n in list(made)[1:])
    print(f"{title}: one fit {medians['MDaML']:.3f} s, {shown}", flush=True)
    return {"case": title, "seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rounds that are few on purpose
        records = [
            measure(*case, arguments.repeat) for name in arguments.sets for case in make_cases(name)
        ]
    if arguments.out:
        arguments.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Small, noisy, binary and tie-heavy label sets: does a choice ever cost more than it can gain?

Sixty sets are drawn, of 50 to 200 rows: round, long, ring-shaped and chequered classes, binary and
rounded features with many ties, repeated rows, features that say nothing, 0 to 30 % wrong labels.
Each is split ten times. ``MDaML()`` and ``MDaMLCV()`` are compared with the Euclidean distance
before learning, by 3-NN on rows that were held out, whose labels are right.

``python experiments/small_sets.py run [--jobs 2]`` appends to results/small_sets.jsonl and goes on
where it was interrupted; ``python experiments/small_sets.py report`` prints what came out.
"""

import argparse
import itertools
from pathlib import Path

import joblib
import numpy as np
from _record import timed_fit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from mdaml import Euclidean, MDaML, MDaMLCV
from mdaml.experiments.records import appending, read_records

RECORDS = Path(__file__).parents[1] / "results" / "small_sets.jsonl"
SHAPES = ("round", "long", "rings", "chequered", "binary")
N_ROWS, N_NOISE, WRONG = (50, 100, 200), (0, 20), (0.0, 0.3)
# Half of the sets decide, the other half confirm: every second of them.
SETS = list(itertools.product(SHAPES, N_ROWS, N_NOISE, WRONG))
N_SPLITS = 10
METHODS = {
    "Euclid": lambda _: Euclidean(),
    "MDaML()": lambda seed: MDaML(random_state=seed),
    "MDaMLCV()": lambda seed: MDaMLCV(random_state=seed),
}


def make_samples(shape, n, rng):
    """Return samples of a shape, and classes."""
    y = rng.integers(0, 3 if shape in ("round", "long") else 2, n)
    noise = rng.normal(size=(n, 4))
    if shape == "round":
        return noise + 1.2 * np.eye(3, 4)[y], y
    if shape == "long":  # far apart along short axes
        return noise * [4.0, 4.0, 1.0, 1.0] + 1.5 * np.eye(3, 4)[y][:, [3, 2, 0, 1]], y
    if shape == "rings":
        angle, radius = rng.uniform(0, 2 * np.pi, n), 1.0 + y + 0.25 * rng.normal(size=n)
        return np.c_[radius * np.cos(angle), radius * np.sin(angle)], y
    if shape == "chequered":
        X = rng.uniform(-2, 2, (n, 2))
        return X, (np.floor(X).sum(axis=1) % 2).astype(int)
    bits = (rng.random((n, 8)) < np.where(np.arange(8) < 3, 0.25 + 0.5 * y[:, None], 0.5)) * 1.0
    return bits, y


def make_case(shape, n_rows, n_noise, wrong, split):
    """Return rows with their labels, some of them wrong, and other rows with right ones."""
    rng = np.random.default_rng([SHAPES.index(shape), n_rows, n_noise, int(100 * wrong), split])
    X, y = make_samples(shape, n_rows + 300, rng)
    extra = rng.normal(size=(len(X), n_noise))
    X = np.c_[X, (extra > 0) * 1.0 if shape == "binary" else extra]
    copies = rng.integers(0, n_rows, n_rows // 10)  # a tenth of the rows comes again
    train = np.r_[np.arange(n_rows - len(copies)), copies % (n_rows - len(copies))]
    labels = y[train].copy()
    turned = rng.random(n_rows) < wrong
    labels[turned] = rng.permutation(labels)[turned]
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), labels, scaler.transform(X[n_rows:]), y[n_rows:]


def do_job(shape, n_rows, n_noise, wrong, split, method):
    X, y, X_test, y_test = make_case(shape, n_rows, n_noise, wrong, split)
    model, seconds = timed_fit(METHODS[method](split), X, y=y)
    knn = KNeighborsClassifier(3, n_jobs=1).fit(model.transform(X), y)
    return {
        **{"shape": shape, "n_rows": n_rows, "n_noise": n_noise, "wrong": wrong, "split": split},
        "method": method,
        "accuracy": float(knn.score(model.transform(X_test), y_test)),
        "seconds": round(seconds, 3),
    }


def key_of(record):
    return tuple(record[k] for k in ("shape", "n_rows", "n_noise", "wrong", "split", "method"))


def run(n_jobs):
    with appending(RECORDS) as append:
        done = {key_of(record) for record in read_records(RECORDS)}
        jobs = [(*s, split, m) for s in SETS for split in range(N_SPLITS) for m in METHODS]
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            for record in joblib.Parallel(n_jobs, return_as="generator_unordered")(
                joblib.delayed(do_job)(*job) for job in jobs if job not in done
            ):
                append(record)


def report():
    records = list(read_records(RECORDS))
    means = {}
    for record in records:
        means.setdefault((key_of(record)[:4], record["method"]), []).append(record["accuracy"])
    for name, half in {"first half": SETS[::2], "second half": SETS[1::2]}.items():
        print(f"{name}: mean accuracy, mean gain over Euclid, worst set (points)")
        for method in METHODS:
            scores, plain = (
                np.array([100 * np.mean(means[s, m]) for s in half]) for m in (method, "Euclid")
            )
            gains = scores - plain
            print(f"  {method:10s} {scores.mean():6.2f} {gains.mean():+6.2f} {gains.min():+6.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["run", "report"])
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    run(given.jobs) if given.command == "run" else report()

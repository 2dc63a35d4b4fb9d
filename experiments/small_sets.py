"""Small, noisy, binary and tie-heavy label sets: does a choice ever cost more than it can gain?

Sixty sets are drawn, of 50 to 200 rows: round, long, ring-shaped and chequered classes, binary and
rounded features with many ties, repeated rows, features that say nothing, 0 to 30 % wrong labels.
Half of them decided the level of the choice. So there are 92 more, of other kinds, which decided
nothing: small parts of real sets, rare classes, heavy tails, counts, answers on a scale, and so on.
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
from sklearn import datasets
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from mdaml import Euclidean, MDaML, MDaMLCV
from mdaml.experiments.records import appending, read_records

RECORDS = Path(__file__).parents[1] / "results" / "small_sets.jsonl"
SHAPES = ("round", "long", "rings", "chequered", "binary")
N_ROWS, N_NOISE, WRONG = (50, 100, 200), (0, 20), (0.0, 0.3)
# Half of the sets decide, the other half confirm: every second of them.
SETS = list(itertools.product(SHAPES, N_ROWS, N_NOISE, WRONG))
N_OTHER_ROWS, N_TEST = (60, 150), 400
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


def draw_features(kind, n, rng):
    """Return rows whose features alone tell their class."""
    if kind == "xor":
        X = rng.normal(size=(n, 6))
        return X, X[:, 0] * X[:, 1] > 0
    if kind == "ordered classes":
        X = rng.normal(size=(n, 6))
        return X, np.digitize(X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n), [-1, 0, 1])
    if kind == "parity":
        X = (rng.random((n, 6)) < 0.5) * 1.0
        return X, X[:, :2].sum(axis=1) % 2
    if kind == "one-hot":
        c = rng.integers(0, 4, (n, 4))
        return np.eye(4)[c].reshape(n, -1), (c[:, 0] == c[:, 1]) | (c[:, 2] == 0)
    X = rng.normal(size=(n, 8))  # a rare class
    y = rng.random(n) < 0.08
    X[y, :2] += 1.5
    return X, y


def draw_classes(kind, n, rng):
    """Return rows drawn around their classes."""
    if kind == "heavy tails":
        y, X = rng.integers(0, 3, n), rng.standard_t(1.5, size=(n, 5))
        X[:, 0] += 2 * y
        return np.clip(X, -50, 50), y
    if kind == "twelve classes":
        y, centers = rng.integers(0, 12, n), np.random.default_rng(5).normal(size=(12, 6))
        return 1.5 * centers[y] + rng.normal(size=(n, 6)), y
    if kind == "scale of five":
        y, is_told = rng.integers(0, 2, n), np.arange(10) < 4
        return np.clip(np.round(3 + rng.normal(size=(n, 10)) + 0.5 * y[:, None] * is_told), 1, 5), y
    if kind == "counts":
        y = rng.integers(0, 3, n)
        return rng.poisson(1 + 0.8 * y[:, None] * (np.arange(8) < 2), size=(n, 8)), y
    if kind == "patterns of bits":
        patterns, y = np.random.default_rng(3).random((4, 16)) < 0.5, rng.integers(0, 4, n)
        return patterns[y] ^ (rng.random((n, 16)) < 0.3), y
    y, t = rng.integers(0, 2, n), rng.uniform(1, 9, n)  # spirals
    spiral = np.c_[t * np.cos(t + np.pi * y), t * np.sin(t + np.pi * y)]
    return spiral + 0.3 * rng.normal(size=(n, 2)), y


def draw_by_scikit_learn(kind, n, rng):
    """Return rows of a generator of scikit-learn."""
    seed = int(rng.integers(1e9))
    if kind == "moons":
        return datasets.make_moons(n, noise=0.25, random_state=seed)
    if kind == "circles":
        return datasets.make_circles(n, noise=0.1, factor=0.6, random_state=seed)
    if kind == "quantiles":
        return datasets.make_gaussian_quantiles(
            n_samples=n, n_features=4, n_classes=3, random_state=seed
        )
    settings = {
        "2 of 10 tell": {"n_features": 10, "n_informative": 2, "n_redundant": 2},
        "5 of 20 tell": {"n_features": 20, "n_informative": 5, "n_classes": 3},
        "3 of 40 tell": {"n_features": 40, "n_informative": 3, "n_redundant": 0},
    }[kind]
    return datasets.make_classification(n, random_state=seed, **settings)


def load_real(kind, n, rng):
    """Return the rows of a set of scikit-learn; of digits some."""
    X, y = getattr(datasets, f"load_{kind.split()[0]}")(return_X_y=True)
    if kind.startswith("diabetes"):
        n_bins = 2 if kind.endswith("halves") else 4
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_bins + 1)[1:-1]))
    rows = rng.permutation(len(X))[:n] if kind == "digits" else np.arange(len(X))
    return X[rows], y[rows]


REAL = ("iris", "wine", "breast_cancer", "diabetes halves", "diabetes quarters", "digits")
GENERATED = ("2 of 10 tell", "5 of 20 tell", "3 of 40 tell", "moons", "circles", "quantiles")
OTHER_KINDS = {
    **dict.fromkeys(REAL, load_real),
    **dict.fromkeys(GENERATED, draw_by_scikit_learn),
    **{"xor": draw_features, "rare class": draw_features, "heavy tails": draw_classes},
    **{"twelve classes": draw_classes, "ordered classes": draw_features, "parity": draw_features},
    **{"scale of five": draw_classes, "counts": draw_classes, "patterns of bits": draw_classes},
    **{"one-hot": draw_features, "spirals": draw_classes},
}
OTHERS = list(itertools.product(OTHER_KINDS, N_OTHER_ROWS, (0,), WRONG))


def make_other(kind, n_rows, _n_noise, wrong, split):
    """Return the same as :func:`make_case` of another kind."""
    rng = np.random.default_rng(
        [list(OTHER_KINDS).index(kind), n_rows, int(100 * wrong), split, 77]
    )
    X, y = OTHER_KINDS[kind](kind, n_rows + N_TEST, rng)
    order = rng.permutation(len(X))
    X, y = X[order].astype(float), y[order].astype(int)
    n = min(n_rows, len(X) // 2)
    labels, turned = y[:n].copy(), rng.random(n) < wrong
    labels[turned] = rng.permutation(y[:n])[turned]
    scaler, test = StandardScaler().fit(X[:n]), slice(n, n + N_TEST)
    return scaler.transform(X[:n]), labels, scaler.transform(X[test]), y[test]


def do_job(shape, n_rows, n_noise, wrong, split, method):
    make = make_other if shape in OTHER_KINDS else make_case
    X, y, X_test, y_test = make(shape, n_rows, n_noise, wrong, split)
    model, _ = timed_fit(METHODS[method](split), X, y=y)
    knn = KNeighborsClassifier(3, n_jobs=1).fit(model.transform(X), y)
    return {
        **{"shape": shape, "n_rows": n_rows, "n_noise": n_noise, "wrong": wrong, "split": split},
        "method": method,
        "accuracy": float(knn.score(model.transform(X_test), y_test)),
    }


def key_of(record):
    return tuple(record[k] for k in ("shape", "n_rows", "n_noise", "wrong", "split", "method"))


def run(n_jobs):
    with appending(RECORDS) as append:
        done = {key_of(record) for record in read_records(RECORDS)}
        jobs = [(*s, split, m) for s in SETS + OTHERS for split in range(N_SPLITS) for m in METHODS]
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            for record in joblib.Parallel(n_jobs, return_as="generator_unordered")(
                joblib.delayed(do_job)(*job) for job in jobs if job not in done
            ):
                append(record)


GROUPS = {"first half": SETS[::2], "second half": SETS[1::2], "other kinds": OTHERS}


def gains_of(method, group):
    """Return the mean gain over the Euclidean distance on each set of a group, in points."""
    scores = {}
    for record in read_records(RECORDS):
        scores.setdefault((key_of(record)[:4], record["method"]), []).append(record["accuracy"])
    return np.array(
        [100 * (np.mean(scores[s, method]) - np.mean(scores[s, "Euclid"])) for s in GROUPS[group]]
    )


def report():
    for group, sets in GROUPS.items():
        print(f"{group}: mean gain over Euclid, worst sets (points)")
        for method in list(METHODS)[1:]:
            gains = gains_of(method, group)
            worst = (f"{gains[s]:+.2f} {sets[s]}" for s in np.argsort(gains)[:3])
            print(f"  {method:10s} {gains.mean():+6.2f}  {', '.join(worst)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["run", "report"])
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    run(given.jobs) if given.command == "run" else report()

"""Compare settings on training parts only: the study behind the defaults of MDaML
and the candidates of MDaMLCV.

Five data sets of the paper are for development. Of each, the training part of the first trial is
cut into three folds, four times over; a setting learns on two folds, tuning inside them if it tunes
at all, and 3-NN classifies the third. No test part is read. The other eight sets of the paper, and
those of scikit-learn, play no part.

``python experiments/development.py [--repeats 4] [--jobs 2] [--out results/development.json]``
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from mdaml import DMLMJ, KISSME, LFDA, LMNN, DMLdc, Euclidean, MDaML, MDaMLCV, Partners
from mdaml.experiments.splits import prepared, split

DATASETS = ["autompg", "german", "letter", "sonar", "waveform"]
RANDOM = {"partners": "random", "max_iter": 10}


def with_partners(n_similar, n_dissimilar, seed):
    """Return MDaML with another number of nearest partners of each sample."""
    return MDaML(partners=Partners("neighbors", n_similar, n_dissimilar), random_state=seed)


SETTINGS = {
    "MDaMLCV()": lambda seed: MDaMLCV(random_state=seed),
    "MDaML()": lambda seed: MDaML(random_state=seed),
    "without refresh": lambda seed: MDaML(partners=Partners(n_refresh=0), random_state=seed),
    "three refreshes": lambda seed: MDaML(partners=Partners(n_refresh=3), random_state=seed),
    "one round a pass": lambda seed: MDaML(max_iter=1, random_state=seed),
    "ten rounds a pass": lambda seed: MDaML(max_iter=10, random_state=seed),
    "K=1": lambda seed: MDaML(1, random_state=seed),
    "K=10": lambda seed: MDaML(10, random_state=seed),
    "λ₁ = 300 K^η": lambda seed: MDaML(3, triplet_weight=300 * 3**3, random_state=seed),
    "λ₁ = 3000 K^η": lambda seed: MDaML(3, triplet_weight=3000 * 3**3, random_state=seed),
    "4 x 4 partners": lambda seed: with_partners(4, 4, seed),
    "3 x 10 partners": lambda seed: with_partners(3, 10, seed),
    "10 x 3 partners": lambda seed: with_partners(10, 3, seed),
    "10 x 10 partners": lambda seed: with_partners(10, 10, seed),
    "ridge 0.1": lambda seed: MDaML(ridge=0.1, random_state=seed),
    "whitened start": lambda seed: MDaML(init_metric="whitened", random_state=seed),
    "random, K=10, λ₁ = 300 K^η": lambda seed: MDaML(
        10, triplet_weight=300 * 10**3, random_state=seed, **RANDOM
    ),
    "random, K=10, λ₁ = 10 K^η": lambda seed: MDaML(
        10, triplet_weight=10 * 10**3, random_state=seed, **RANDOM
    ),
    "Euclidean()": lambda _: Euclidean(),
    "DMLdc()": lambda _: DMLdc(),
    "LMNN()": lambda _: LMNN(),
    "LFDA, rank by CV": lambda seed: LFDA(n_components="auto", random_state=seed),
    "DMLMJ()": lambda seed: DMLMJ(random_state=seed),
    "KISSME, reg=0.01": lambda _: KISSME(reg=0.01),
}


def score(setting, dataset, repeat):
    """Mean accuracy over three folds, and seconds of the three fits."""
    X, y, _, _ = split(dataset, 0)
    folds = StratifiedKFold(3, shuffle=True, random_state=repeat)
    accuracies, seconds = [], 0.0
    for train, valid in folds.split(X, y):
        samples, held_out = prepared(dataset, X[train], X[valid])
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # some settings stop early
            model = SETTINGS[setting](repeat).fit(samples, y[train])
        seconds += time.perf_counter() - start
        knn = KNeighborsClassifier(3).fit(model.transform(samples), y[train])
        accuracies.append(knn.score(model.transform(held_out), y[valid]))
    return setting, dataset, float(np.mean(accuracies)), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--out", type=Path, default=Path("results/development.json"))
    args = parser.parse_args()
    calls = [(s, d, r) for d in DATASETS for s in SETTINGS for r in range(args.repeats)]
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        results = joblib.Parallel(args.jobs)(joblib.delayed(score)(*call) for call in calls)
    table = []
    for setting in SETTINGS:
        own = [result for result in results if result[0] == setting]
        means = {d: float(np.mean([r[2] for r in own if r[1] == d])) for d in DATASETS}
        seconds = sum(r[3] for r in own) / len(own) / 3
        table.append({"setting": setting, "accuracy": means, "seconds_per_fit": seconds})
    table.sort(key=lambda row: -np.mean(list(row["accuracy"].values())))
    print(f"{'setting':28s} {'mean':>6s} " + " ".join(f"{d:>8s}" for d in DATASETS) + "  seconds")
    for row in table:
        cells = " ".join(f"{100 * row['accuracy'][d]:8.2f}" for d in DATASETS)
        mean = 100 * np.mean(list(row["accuracy"].values()))
        print(f"{row['setting']:28s} {mean:6.2f} {cells} {row['seconds_per_fit']:8.3f}")
    unfinished = args.out.with_suffix(".tmp")
    unfinished.write_text(json.dumps({"repeats": args.repeats, "settings": table}, indent=1))
    unfinished.replace(args.out)


if __name__ == "__main__":
    main()

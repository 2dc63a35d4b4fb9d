"""One run that decides nothing: the methods on fresh splits of all data sets, and on other data.

The defaults of MDaML and the candidates of MDaMLCV were fixed before it, by ``development.py`` on
training parts of five data sets. Here are splits that nobody has seen, of the paper's thirteen sets
and of eleven others. (The start of the metric was changed after a first such run, so that this one,
of all methods, is on new splits; docs/accuracy.md.) Three comparisons on the same splits:

tuned      every method chooses its parameters once, on the training part of the first split, by
           the highest score: MDaML among the candidates of MDaMLCV, the others by 3-fold
           cross-validation of their grids in paper.toml
untuned    every method as it comes
ablation   MDaML() with one part of it switched off at a time

``python experiments/study.py run [--jobs 2]`` appends to results/study.jsonl and goes on where it
was interrupted; ``python experiments/study.py report`` prints the tables of docs/accuracy.md.
"""

import argparse
import csv
import gzip
import json
import time
import warnings
import zlib
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path

import joblib
import numpy as np
from _record import table as markdown
from scipy.stats import rankdata
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

from mdaml import (
    DMLMJ,
    GMML,
    KISSME,
    LFDA,
    LMNN,
    PRESETS,
    DMLdc,
    DMLeig,
    Euclidean,
    MDaML,
    MDaMLCV,
    Partners,
)
from mdaml.constraints import sample_triplets
from mdaml.constraints.labels import Classes
from mdaml.estimators.mdaml_folds import other_start
from mdaml.experiments.config import CONFIG, CONFIRMATION, combinations
from mdaml.experiments.protocol import make
from mdaml.experiments.records import appending, read_records
from mdaml.experiments.splits import load_samples, prepared

HERE = Path(__file__).parent
RECORDS = HERE.parent / "results" / "study.jsonl"
N_SPLITS = 5
UCI, IMAGES = CONFIG["datasets"]["uci"], CONFIG["datasets"]["images"]
DEVELOPMENT = ["autompg", "german", "letter", "sonar", "waveform"]
OTHER = [*CONFIRMATION, *sorted(p.name.split(".")[0] for p in (HERE / "data").glob("*.csv.gz"))]
DATASETS = [*UCI, *IMAGES, *OTHER]
TUNED = ["LMNN", "LFDA", "DMLMJ", "DML-dc", "GMML", "KISSME", "DML-eig"]
UNTUNED = {
    "LMNN()": lambda _: LMNN(),
    "LFDA()": lambda seed: LFDA(random_state=seed),
    "DMLMJ()": lambda seed: DMLMJ(random_state=seed),
    "DMLdc()": lambda _: DMLdc(),
    "GMML()": lambda _: GMML(),
    "KISSME()": lambda _: KISSME(),
    "DMLeig()": lambda seed: DMLeig(random_state=seed),
    "Euclidean": lambda _: Euclidean(),
    "NCA": lambda seed: NeighborhoodComponentsAnalysis(random_state=seed),
    "MDaML()": lambda seed: MDaML(random_state=seed),
    "MDaMLCV()": lambda seed: MDaMLCV(random_state=seed),
}


# All comparisons weigh the same, whatever the modes: as much as one of two samples that belong to
# all modes alike, so that the loss keeps its size beside the clustering term.
_LABELS = PRESETS["labels"]
EVEN = replace(
    _LABELS,
    floor=1.0,
    triplet_weight=_LABELS.triplet_weight * float(_LABELS.n_modes) ** (1 - 2 * _LABELS.eta),
)
ABLATION = {
    "no self-weights": lambda seed: MDaML(goal=EVEN, random_state=seed),
    "no modes": lambda seed: MDaML(n_modes=1, random_state=seed),
    "ten modes": lambda seed: MDaML(n_modes=10, random_state=seed),
    "no refresh": lambda seed: MDaML(partners=Partners(n_refresh=0), random_state=seed),
    "random partners": lambda seed: MDaML(partners="random", max_iter=10, random_state=seed),
    "ten rounds a pass": lambda seed: MDaML(max_iter=10, random_state=seed),
    "identity start": lambda seed: MDaML(init_metric="identity", random_state=seed),
    "whitened start": lambda seed: MDaML(init_metric="whitened", random_state=seed),
    "k-means start": lambda seed: MDaML(
        goal=replace(PRESETS["labels"], init_modes="kmeans"), random_state=seed
    ),
}


def seed_of(*words):
    """Return a seed that depends on the words alone: splits that the paper's run has not seen."""
    return zlib.crc32("/".join(map(str, ("second study", 2026, *words))).encode())


def samples_of(dataset):
    path = HERE / "data" / f"{dataset}.csv.gz"
    if not path.exists():
        return load_samples(dataset)
    with gzip.open(path, "rt", newline="") as lines:
        rows = np.array(list(csv.reader(lines))[1:], dtype=float)
    return rows[:, :-1], rows[:, -1].astype(int)


def split(dataset, trial):
    """Return training and test part of a fresh random split, scaled by the training part."""
    X, y = samples_of(dataset)
    share = 0.4 if dataset in IMAGES else 0.3
    cut = train_test_split(X, y, test_size=share, random_state=seed_of(dataset, trial))
    samples, held_out = prepared(dataset, cut[0], cut[1])
    return cut[0], samples, cut[2], held_out, cut[3]


def accuracy(model, samples, y, held_out, y_test, triplets=None):
    """Return the accuracy of 3-NN under the metric learned, and seconds of the fit."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # grids hold values at which methods rightly warn
        model.fit(samples, **({"y": y} if triplets is None else {"triplets": triplets}))
    seconds = time.perf_counter() - start
    knn = KNeighborsClassifier(3).fit(model.transform(samples), y)
    return float(knn.score(model.transform(held_out), y_test)), seconds


def triplets_for(method, y, *words):
    """Return random triplets for methods that the paper gives triplets, as its protocol has it."""
    if CONFIG["methods"][method]["supervision"] == "labels":
        return None
    return sample_triplets(y, random_state=seed_of("triplets", *words))


def tune(dataset, method):
    """Choose parameters on the training part of the first split."""
    X, samples, y, _, _ = split(dataset, 0)
    if method == "MDaML":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = MDaMLCV(random_state=0).fit(samples, y).cv_results_
        # The highest score, as for the other methods; MDaMLCV() itself keeps the start unless
        # something leads it. Where the start is the metric of another method, this names it.
        is_finalist = results["n_splits"] == results["n_splits"].max()
        return results["params"][
            int(np.argmax(np.where(is_finalist, results["mean_test_score"], 0)))
        ]
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    parts = []
    for train, valid in folds.split(X, y):
        a, b = prepared(dataset, X[train], X[valid])
        parts.append((a, y[train], b, y[valid], triplets_for(method, y[train], dataset, "tune")))
    grid = combinations(method, quick=False)
    scores = [
        np.mean([accuracy(make(method, params, 0), *part)[0] for part in parts]) for params in grid
    ]
    return grid[int(np.argmax(scores))]


def tuned_model(method, params, seed, samples, y):
    if method != "MDaML":
        return make(method, params, seed)
    params = {"shrinkage": 0.0, **params}  # chosen already, where it is not zero
    if "start" in params:
        classes = Classes.from_labels("MDaML", y)
        params["init_metric"] = other_start(params.pop("start"), samples, classes)
    return MDaML(**params, random_state=seed)


def do_job(dataset, method):
    """Return the record of a method on all splits of a data set."""
    start = time.perf_counter()
    untuned = {**UNTUNED, **ABLATION}
    params = {} if method in untuned else tune(dataset, method)
    tuning = time.perf_counter() - start
    accuracies, seconds = [], []
    for trial in range(N_SPLITS):
        _, samples, y, held_out, y_test = split(dataset, trial)
        if method in untuned:
            model, triplets = untuned[method](trial), None
        else:
            model = tuned_model(method, params, trial, samples, y)
            triplets = None if method == "MDaML" else triplets_for(method, y, dataset, trial)
        score, took = accuracy(model, samples, y, held_out, y_test, triplets)
        accuracies.append(score)
        seconds.append(took)
    return {
        "dataset": dataset,
        "method": method,
        "accuracies": accuracies,
        "fit_seconds": seconds,
        "tuning_seconds": tuning,
        "params": {k: asdict(v) if is_dataclass(v) else v for k, v in params.items()},
    }


def run(n_jobs):
    with appending(RECORDS) as append:
        done = {(r["dataset"], r["method"]) for r in read_records(RECORDS)}
        jobs = [
            (dataset, method)
            for method in ["MDaML", *UNTUNED, *ABLATION, *TUNED]
            for dataset in DATASETS
            if (dataset, method) not in done
        ]
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            for record in joblib.Parallel(n_jobs, return_as="generator_unordered")(
                joblib.delayed(do_job)(*job) for job in jobs
            ):
                append(record)
                mean = 100 * np.mean(record["accuracies"])
                print(f"{record['dataset']:16s} {record['method']:18s} {mean:6.2f}", flush=True)


def table(records, methods, datasets):
    """Return mean accuracies, methods by data sets."""
    means = {(r["method"], r["dataset"]): np.mean(r["accuracies"]) for r in records}
    return np.array([[means[method, dataset] for dataset in datasets] for method in methods])


def interval(values):
    """Return a 95 % interval of the mean over data sets, by 10 000 bootstrap samples of them."""
    values = np.asarray(values)
    drawn = np.random.default_rng(0).integers(0, len(values), (10_000, len(values)))
    return np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])


def print_table(title, head, rows):
    """Print a table in Markdown under a title."""
    print("\n".join(["", title, "", *markdown(head, rows)]))


def print_comparison(title, records, methods, datasets):
    """Print mean accuracy, mean rank with interval, and the distance to the best, by method."""
    scores = 100 * table(records, methods, datasets)
    ranks = rankdata(-np.round(scores, 6), axis=0)
    behind = scores.max(axis=0) - scores
    rows = []
    for m in np.argsort(ranks.mean(axis=1)):
        limits = "{:.2f} to {:.2f}".format(*interval(ranks[m]))
        means = f"{ranks[m].mean():.2f}", limits, f"{scores[m].mean():.2f}"
        where = datasets[int(behind[m].argmax())]
        rows.append([methods[m], *means, f"{behind[m].max():.1f}", where])
    head = ["method", "mean rank", "95 %", "mean accuracy", "most behind the best", "where"]
    print_table(f"### {title} ({len(datasets)} sets)", head, rows)


def print_differences(title, records, methods, datasets):
    """Print what each change does to MDaML(), in points, with an interval over data sets."""
    base = 100 * table(records, ["MDaML()"], datasets)[0]
    rows = [["MDaML()", f"{base.mean():.2f}", "", "", "", ""]]
    for method in methods:
        scores = 100 * table(records, [method], datasets)[0]
        gain = scores - base
        limits = "{:+.2f} to {:+.2f}".format(*interval(gain))
        means = f"{scores.mean():.2f}", f"{gain.mean():+.2f}", limits
        rows.append([method, *means, np.sum(gain > 0), np.sum(gain < 0)])
    head = ["change", "mean accuracy", "difference", "95 %", "better on", "worse on"]
    print_table(f"### {title} ({len(datasets)} sets)", head, rows)


def print_accuracies(title, records, methods, datasets):
    """Print all mean accuracies, the best of each data set in bold."""
    scores = 100 * table(records, methods, datasets).T
    rows = [
        [name, *(f"**{s:.1f}**" if s >= row.max() - 1e-9 else f"{s:.1f}" for s in row)]
        for name, row in zip(datasets, scores, strict=True)
    ]
    print_table(f"### {title}", ["set", *methods], rows)


def report():
    records = read_records(RECORDS)
    here = [d for d in DATASETS if any(r["dataset"] == d for r in records)]
    groups = {
        "The paper's sets": [d for d in here if d in [*UCI, *IMAGES]],
        "Of these, no part in development": [
            d for d in here if d in [*UCI, *IMAGES] and d not in DEVELOPMENT
        ],
        "Other sets": [d for d in here if d in OTHER],
    }
    tuned = ["MDaML", *TUNED, "NCA", "Euclidean"]
    for title, datasets in groups.items():
        print_comparison(f"Tuned. {title}", records, tuned, datasets)
    for title, datasets in groups.items():
        print_comparison(f"Untuned. {title}", records, list(UNTUNED), datasets)
    for title, datasets in groups.items():
        print_differences(f"Ablation. {title}", records, list(ABLATION), datasets)
    print_accuracies("Accuracies, tuned", records, tuned, here)
    print_accuracies("Accuracies, untuned", records, list(UNTUNED), here)
    cost = {m: sum(r["tuning_seconds"] for r in records if r["method"] == m) for m in tuned[:-2]}
    nca = sum(np.mean(r["fit_seconds"]) for r in records if r["method"] == "NCA")
    print("\nSeconds of tuning, all sets: " + json.dumps({m: round(s, 1) for m, s in cost.items()}))
    print(f"Seconds of one NCA fit, all sets: {nca:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--jobs", type=int, default=-1)
    args = parser.parse_args()
    if args.what == "run":
        run(args.jobs)
    else:
        report()


if __name__ == "__main__":
    main()

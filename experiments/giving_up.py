"""Candidates that are given up early: does a search choose worse without them?

Both searches run twice on 19 sets of at most 800 rows, three splits each: as they are, and with
every candidate tried on all splits for its first rounds. ``MDaMLCV`` chooses from labels,
``MetricSearchCV`` among ten candidates from triplets drawn from the same labels, one in ten wrong,
in two and in five splits. The score is 3-NN on rows that were held out, or the share of triplets of
these rows that hold.

``python experiments/giving_up.py run`` appends to results/giving_up.jsonl and goes on where it was
interrupted; ``python experiments/giving_up.py report`` prints what came out.
"""

import argparse
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
from _record import resume, timed_fit
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from study import samples_of

from mdaml import MDaML, MDaMLCV
from mdaml.constraints import Constraints
from mdaml.estimators import mdaml_cv
from mdaml.experiments.records import read_records
from mdaml.holdout import rule
from mdaml.model_selection import MetricSearchCV

RECORDS = Path(__file__).parents[1] / "results" / "giving_up.jsonl"
SETS = (
    *("sonar", "balance", "autompg", "vehicle", "german", "segment", "letter", "waveform"),
    *("spambase", "wine", "breast_cancer"),
    *("bupa", "heart", "ionosphere", "magic", "movement_libras", "penbased", "satimage", "vowel"),
)
N_ROWS, N_SPLITS, PER_ROW = 800, 3, 20
ANCHORS = [0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0]
SEARCHES = ("labels", "triplets, 2 splits", "triplets, 5 splits")


def make_case(dataset, split):
    """Return rows to learn from and others, scaled, with their labels."""
    X, y = samples_of(dataset)
    some = np.random.default_rng(split).permutation(len(X))[:N_ROWS]
    X, y = np.asarray(X[some], np.float64), np.unique(y[some], return_inverse=True)[1]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=split)
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test), y_test


def draw_triplets(y, seed, wrong):
    """Return triplets from labels, some of them the wrong way round."""
    triplets = Constraints.from_labels(y, n=PER_ROW * len(y), random_state=seed).triplets.copy()
    turned = np.random.default_rng(seed).random(len(triplets)) < wrong
    triplets[turned] = triplets[turned][:, [0, 2, 1]]
    return triplets


def search(dataset, split, kind, all_tried):
    X, y, X_test, y_test = make_case(dataset, split)
    far, second = (np.inf, len(mdaml_cv.FROM_LABELS)) if all_tried else (None, None)
    with (
        patch.object(rule, "_FAR_BEHIND", far or rule._FAR_BEHIND),
        patch.object(mdaml_cv, "_N_SECOND", second or mdaml_cv._N_SECOND),
    ):
        start = time.process_time()
        if kind == "labels":
            model, _ = timed_fit(MDaMLCV(random_state=split), X, y)
            seconds = time.process_time() - start
            knn = KNeighborsClassifier(3, n_jobs=1).fit(model.transform(X), y)
            score = float(knn.score(model.transform(X_test), y_test))
            n_tried = int(np.sum(model.cv_results_["n_splits"]))
        else:
            cv = 2 if "2" in kind else 5
            model = MetricSearchCV(MDaML(), {"anchor": ANCHORS}, cv=cv, random_state=split)
            timed_fit(model, X, triplets=draw_triplets(y, split, wrong=0.1))
            seconds = time.process_time() - start
            score = model.best_estimator_.score_triplets(X_test, draw_triplets(y_test, 1, 0.0))
            scores = [model.cv_results_[f"split{n}_test_score"] for n in range(cv)]
            n_tried = int(np.sum(~np.isnan(scores)))
    chosen = {name: str(value)[:60] for name, value in model.best_params_.items()}
    return {"score": score, "chosen": chosen, "n_tried": n_tried, "processor": round(seconds, 3)}


def run():
    jobs = [
        {"dataset": dataset, "split": split, "kind": kind, "all_tried": all_tried}
        for split in range(N_SPLITS)
        for dataset in SETS
        for kind in SEARCHES
        for all_tried in (False, True)
    ]
    resume(RECORDS, jobs, search)


def report():
    found = {}
    for record in read_records(RECORDS):
        found.setdefault((record["kind"], record["dataset"], record["split"]), {})[
            record["all_tried"]
        ] = record
    for kind in SEARCHES:
        pairs = [both for key, both in found.items() if key[0] == kind and len(both) == 2]
        gains = 100 * np.array([both[False]["score"] - both[True]["score"] for both in pairs])
        same = np.mean([both[False]["chosen"] == both[True]["chosen"] for both in pairs])
        sums = {
            name: [sum(both[tried][name] for both in pairs) for tried in (True, False)]
            for name in ("n_tried", "processor")
        }
        print(
            f"{kind}: {len(pairs)} searches, the same choice in {same:.0%}; score "
            f"{100 * np.mean([both[True]['score'] for both in pairs]):.2f} with all tried, "
            f"{gains.mean():+.3f} ± {gains.std() / len(gains) ** 0.5:.3f} points with some given "
            f"up, worst {gains.min():+.2f}; "
            f"candidates times splits {sums['n_tried'][0]} and {sums['n_tried'][1]}; "
            f"processor {sums['processor'][0]:.0f} and {sums['processor'][1]:.0f} s"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["run", "report"])
    {"run": run, "report": report}[parser.parse_args().command]()

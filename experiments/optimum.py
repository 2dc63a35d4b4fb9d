"""How far from the optimum a default fit to comparisons ends.

With one mode and all comparisons trusted, the defaults for comparisons, the problem is convex in
the metric. Each set is fitted with the defaults; then the same problem, with the anchor that was
chosen and with a weak one, from two starts to ``tol=1e-6``. The comparisons are 10 000 triplets of
1400 rows, by their classes, or answers of people. Agreement is the share of comparisons of held-out
rows that hold.

``python experiments/optimum.py run`` appends to results/optimum.jsonl and goes on where it was
interrupted; ``python experiments/optimum.py report`` prints the table of docs/solver.md.
"""

import argparse
import time
import warnings
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
from _record import resume, table, timed_fit
from kinds import load, share_that_holds
from people import data_file, make_task
from sklearn.preprocessing import StandardScaler
from study import HERE, seed_of

from mdaml import MDaML
from mdaml.constraints import sample_triplets
from mdaml.experiments.records import read_records

RECORDS = HERE.parent / "results" / "optimum.jsonl"
CLASSES = ["vehicle", "segment", "letter", "digits", "satimage", "dna", "spambase", "waveform"]
CLASSES += ["vowel", "penbased", "movement_libras"]
PEOPLE = ["food", "material", "zappos"]
MOST_ROWS, MOST_TRIPLETS = 2000, 10_000
WEAK = 0.003


@lru_cache(maxsize=1)
def make_problem(dataset):
    """Return rows with triplets to learn from, and held-out rows with theirs."""
    if dataset in PEOPLE:
        task = make_task(dataset, 0)
        return SimpleNamespace(
            X=task.X,
            supervision={"triplets": task.triplets, "constraint_weight": task.weights},
            scored=(task.X_test, task.unseen, task.votes),
        )
    X, y = load(dataset)
    rng = np.random.default_rng(seed_of("optimum", dataset))
    train, test = np.split(*_cut(rng.permutation(len(y))[:MOST_ROWS]))
    X = X[:, X[train].std(axis=0) > 0]
    scale = StandardScaler().fit(X[train])
    triplets = sample_triplets(y[train], 10, 10, random_state=rng)
    triplets = triplets[rng.permutation(len(triplets))[:MOST_TRIPLETS]]
    unseen = sample_triplets(y[test], 10, 10, random_state=rng)
    scored = (scale.transform(X[test]), unseen, None)
    return SimpleNamespace(
        X=scale.transform(X[train]), supervision={"triplets": triplets}, scored=scored
    )


def _cut(rows):
    return rows, [int(0.7 * len(rows))]


def do_job(dataset):
    """Return objectives and agreement of default fits and of long ones from two starts."""
    case, found = make_problem(dataset), {}
    warm_up = MDaML(random_state=0)  # compiles; what it chooses is used below
    timed_fit(warm_up, case.X, **case.supervision)
    found["anchor"] = warm_up.anchor_
    started = time.process_time()
    timed_fit(MDaML(random_state=0), case.X, **case.supervision)
    found["seconds"] = time.process_time() - started
    for name, anchor in {"chosen": warm_up.anchor_, "weak": WEAK}.items():
        fits = {
            "default": MDaML(anchor=anchor, random_state=0),
            "one start": MDaML(anchor=anchor, max_iter=200, tol=1e-6, random_state=0),
            "another": MDaML(anchor=anchor, max_iter=200, tol=1e-6, random_state=0),
        }
        fits["another"].init_metric = np.eye(case.X.shape[1])
        values = {}
        for fit, model in fits.items():
            timed_fit(model, case.X, **case.supervision)
            values[fit] = float(model.history_[-1])
            X, unseen, votes = case.scored
            found[f"{name}, {fit}"] = share_that_holds(model.transform(X), unseen, votes)
        best = min(values.values())
        found |= {f"{name}, {fit}, above": v / best - 1.0 for fit, v in values.items()}
    return found


def report(records):
    """Return the lines of the table."""
    head = ["set", "anchor", "default above the optimum", "two starts apart", "agreement: default"]
    head += ["optimum", "weak anchor: default above", "two starts apart"]
    rows = []
    for r in records:
        apart = [
            abs(r[f"{name}, one start, above"] - r[f"{name}, another, above"])
            for name in ("chosen", "weak")
        ]
        rows.append(
            [
                r["dataset"],
                f"{r['anchor']:g}",
                f"{r['chosen, default, above']:.2%}",
                f"{apart[0]:.2%}",
                f"{r['chosen, default']:.1%}",
                f"{r['chosen, one start']:.1%}",
                f"{r['weak, default, above']:.2%}",
                f"{apart[1]:.2%}",
            ]
        )
    return table(head, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    if parser.parse_args().what == "run":
        warnings.simplefilter("ignore")
        sets = CLASSES + [name for name in PEOPLE if data_file(name)]
        resume(RECORDS, [{"dataset": name} for name in sets], do_job)
    else:
        print("\n".join(report(read_records(RECORDS))))


if __name__ == "__main__":
    main()
